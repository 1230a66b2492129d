// --- single-row components with densities of their own -------------------------------------------

// Gives the scores of all densities from the counts of a row.
struct Densities {
    const i64* factors;  // (density, three numbers)
    const u64* known;

    DEVICE_MEMBER Scores scores(const Data&, i64 row, const u32*, const Counts& found) const {
        return scores_of(factors, known, row, found);
    }
};

// Keeps counts in shared memory.
struct Keep {
    u32* counts;

    DEVICE_MEMBER void put(u32 k, i64 n_ones, i64 n_zeros) const {
        counts[2 * k] = (u32)n_ones;
        counts[2 * k + 1] = (u32)n_zeros;
    }
};

// The same for columns of several classes; counts the row by class.
struct DensitiesByClass {
    const i64 *prior, *factors;
    const u32 *of_rows, *classes;
    i64 class_stride;
    u32 n_classes, n_row_classes;
    u32* counts;  // shared memory, two numbers per class

    DEVICE_MEMBER ScoresByClass scores(
        const Data& data, i64 row, const u32* active, const Counts&
    ) const {
        count_free(
            data, row, active, 0, data.n_words, classes, class_stride, n_classes, Keep{counts}
        );
        return {prior, factors, n_classes, n_row_classes, of_rows[row], counts, 1, 0};
    }
};

#define BIRTH_DEATH                                                                              \
    DATA, const u32 *factor, i64 stride, const i64 *rows, i64 n, const u32 *is_single,            \
        i64 n_densities, const i64 *odds, u64 key, u32 sweep, u32 site, const u64 *table,         \
        u32 *n_new, u32 *density, unsigned char *has_died, u64 *totals
#define THE_BIRTH_DEATH                                                                          \
    data, factor, stride, rows, n, is_single, n_densities, odds, Stream{key, sweep}, site, table, \
        n_new, density, has_died, totals

// One block per row: try the birth or the death of one single-row component (births.py, eq. 13).
template <class Tables>
DEVICE void try_rows(
    const Tables& tables, u32* active, const Data& data, const u32* factor, i64 stride,
    const i64* rows, i64 n, const u32* is_single, i64 n_densities, const i64* odds, Stream stream,
    u32 site, const u64* table, u32* n_new, u32* density, unsigned char* has_died, u64* totals
) {
    SHARED u32 answer;
    u64 born = 0, tp = 0, fp = 0;
    for (i64 i = blockIdx.x; i < n; i += gridDim.x) {
        const i64 row = rows ? rows[i] : i;
        read_row(factor, stride, row, data.n_components, 0, active);
        u32 n_own = 0;
        for (u32 k = 0; 32 * k < data.n_components; k++) n_own += popcount(active[k] & is_single[k]);
        const bool is_birth = uniform64(stream, site, (u32)row, 0) >> 63;
        u32 victim = FULL;
        if (!is_birth && n_own) {
            u32 left = (u32)multiply_high(uniform64(stream, site, (u32)row, 1), n_own);
            for (u32 k = 0; victim == FULL; k++)
                for (u32 mask = active[k] & is_single[k]; mask; mask &= mask - 1)
                    if (left-- == 0) {
                        victim = 32 * k + lowest(mask);
                        break;
                    }
            BARRIER();
            if (threadIdx.x == 0) active[victim >> 5] ^= 1u << (victim & 31);
            BARRIER();
        }
        Counts found = count_row(data, row, active);
        if (is_birth || victim != FULL) {
            const auto scores = tables.scores(data, row, active, found);
            if (threadIdx.x == 0) {
                i64 best = best_of(scores, n_densities);
                u64 total = total_of(scores, n_densities, best, table);
                i64 log_ratio = best + odds[n_own + is_birth];
                u64 r = uniform64(stream, site, (u32)row, 2);
                answer = is_birth ? is_accepted(log_ratio, total, r, table)
                                  : is_inverse_accepted(log_ratio, total, r, table);
                if (is_birth && answer) {
                    r = uniform64(stream, site, (u32)row, 3);
                    n_new[i] = 1;
                    density[i] = (u32)categorical(scores, n_densities, r, table);
                    born++;
                }
                if (!is_birth && answer) has_died[victim] = 1;
            }
            BARRIER();
            if (!is_birth && !answer) {  // the component stays
                BARRIER();
                if (threadIdx.x == 0) active[victim >> 5] ^= 1u << (victim & 31);
                BARRIER();
                found = count_row(data, row, active);
            }
        }
        tp += found.tp;
        fp += found.fp;
    }
    if (threadIdx.x) return;
    add_to(totals, born);
    add_to(totals + 1, tp);
    add_to(totals + 2, fp);
}

KERNEL birth_death(BIRTH_DEATH, const i64* factors, const u64* known) {
    SHARED_ARRAY(active);
    const Data data = THE_DATA;
    try_rows(Densities{factors, known}, active, THE_BIRTH_DEATH);
}

KERNEL birth_death_by_class(
    BIRTH_DEATH, const i64* prior, const i64* factors, const u32* of_rows, const u32* classes,
    i64 class_stride, u32 n_classes, u32 n_row_classes
) {
    SHARED_ARRAY(active);
    const Data data = THE_DATA;
    u32* counts = active + (n_components + 31) / 32 + 1;
    const DensitiesByClass tables = {prior, factors, of_rows, classes, class_stride, n_classes,
                                     n_row_classes, counts};
    try_rows(tables, active, THE_BIRTH_DEATH);
}
