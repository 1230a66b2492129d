// --- single-row components: births and deaths ----------------------------------------------------

// Scores of numbers of single-row components, given a row's uncovered ones and zeros.
struct Numbers : Scores {
    i64 ceiling;  // the log factor of an uncovered one if they are infinitely many

    DEVICE_MEMBER i64 prior(i64 k) const { return table[3 * k]; }
    DEVICE_MEMBER i64 most(i64 k) const {  // no larger number has a higher score
        return log_odds(prior(k), ceiling, table[3 * k + 2], n_ones, n_zeros);
    }
};

// Scores of choices given uncovered ones and zeros by class of column. `factors` has the shape
// (choice, class of columns, class of rows, one or zero), and `of_row` is the class of the row. The
// counts of class c are at 2 c and 2 c + 1 times `step`.
struct ScoresByClass {
    const i64 *priors, *factors;
    u32 n_classes, n_row_classes, of_row;
    const u32* counts;
    i64 step;
    const i64* ceilings;  // (class of columns, class of rows)

    DEVICE_MEMBER i64 prior(i64 k) const { return priors[k]; }
    DEVICE_MEMBER i64 at(i64 k) const {
        i64 score = priors[k];
        for (u32 c = 0; c < n_classes; c++) {
            const Pair pair = load_pair(factors + 2 * place(k, c));
            score = log_odds(score, pair.first, pair.second, n_ones(c), n_zeros(c));
        }
        return score;
    }
    DEVICE_MEMBER i64 most(i64 k) const {
        i64 score = priors[k];
        for (u32 c = 0; c < n_classes; c++) {
            const i64 ceiling = ceilings[(i64)c * n_row_classes + of_row];
            score = log_odds(score, ceiling, factors[2 * place(k, c) + 1], n_ones(c), n_zeros(c));
        }
        return score;
    }
    DEVICE_MEMBER i64 place(i64 k, u32 c) const {
        return (k * n_classes + c) * n_row_classes + of_row;
    }
    DEVICE_MEMBER i64 n_ones(u32 c) const { return counts[2 * c * step]; }
    DEVICE_MEMBER i64 n_zeros(u32 c) const { return counts[(2 * c + 1) * step]; }
};

// One thread: draw how many single-row components a row owns (births.py).
template <class Choices>
DEVICE u32 draw_number(
    const Choices& scores, i64 n_numbers, Stream stream, u32 site, u32 row, const u64* table
) {
    i64 best = 0, n = 0;
    for (; n < n_numbers; n++) {
        if (n > 0 && scores.most(n) < best - LIMIT && scores.prior(n) < scores.prior(n - 1)) break;
        i64 score = scores.at(n);
        best = score > best ? score : best;
    }
    if (n == 1) return 0;
    return (u32)categorical(scores, n, uniform64(stream, site, row, 0), table);
}

// Return the scores of choices, given what is covered of a row. `known` has all ones and all known
// entries of every row.
DEVICE Scores scores_of(const i64* choices, const u64* known, i64 row, const Counts& covered) {
    const i64 n_ones = (i64)known[2 * row], n_zeros = (i64)known[2 * row + 1] - n_ones;
    return {choices, n_ones - covered.tp, n_zeros - covered.fp};
}

// One block per row: draw how many single-row components it owns. `masks` has the components of the
// rows as bits, in their order here. `totals` adds up the births, the covered ones and the covered
// zeros.
KERNEL draw_births(
    DATA, const u32* masks, u32 n_masks, const i64* rows, i64 n, const u64* known,
    const i64* number, i64 n_numbers, i64 ceiling, u64 key, u32 sweep, u32 site,
    const u64* table, u32* n_new, u64* totals
) {
    const Data data = THE_DATA;
    u64 born = 0, tp = 0, fp = 0;
    for (i64 i = blockIdx.x; i < n; i += gridDim.x) {
        const i64 row = rows[i];
        const Counts found = count_row(data, row, masks + i * n_masks);
        if (threadIdx.x) continue;
        const Scores scores = scores_of(number, known, row, found);
        u32 n_own = draw_number(
            Numbers{scores, ceiling}, n_numbers, Stream{key, sweep}, site, (u32)row, table
        );
        n_new[i] = n_own;
        born += n_own;
        tp += found.tp;
        fp += found.fp;
    }
    if (threadIdx.x) return;
    add_to(totals, born);
    add_to(totals + 1, tp);
    add_to(totals + 2, fp);
}

// One thread per row: the same, given free entries by class of columns (by_class.cu), in the shape
// (class, one or zero, row). `known` has all ones and all known entries of every row.
KERNEL draw_births_by_class(
    const u32* counts, const i64* rows, i64 n, const u32* of_rows, const u64* known,
    const i64* prior, const i64* factors, const i64* ceiling, i64 n_numbers, u32 n_classes,
    u32 n_row_classes, u64 key, u32 sweep, u32 site, const u64* table, u32* n_new, u64* totals
) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    i64 born = 0, tp = 0, fp = 0;
    if (i < n) {
        const i64 row = rows[i];
        const ScoresByClass scores = {prior, factors, n_classes, n_row_classes, of_rows[row],
                                      counts + i, n, ceiling};
        born = draw_number(scores, n_numbers, Stream{key, sweep}, site, (u32)row, table);
        n_new[i] = (u32)born;
        tp = (i64)known[2 * row];
        fp = (i64)known[2 * row + 1] - tp;
        for (u32 c = 0; c < n_classes; c++) {
            tp -= scores.n_ones(c);
            fp -= scores.n_zeros(c);
        }
    }
    born = add_lanes(born);
    tp = add_lanes(tp);
    fp = add_lanes(fp);
    if (lane_of()) return;
    add_to(totals, (u64)born);
    add_to(totals + 1, (u64)tp);
    add_to(totals + 2, (u64)fp);
}

// One thread per word of each row that has new components: draw their codes. `cover_limits` has the
// shape (density, class of rows, class of columns, number of new components, one or zero).
KERNEL draw_codes(
    DATA, const u32* factor, i64 stride, const i64* rows, const i64* places,
    const u32* n_new, const u32* density, const i64* offsets, const u64* cover_limits,
    const u64* first_limits, const u64* plain_limits, i64 n_numbers, const u32* of_rows,
    const u32* of_columns, u32 n_row_classes, u32 n_classes, u64 key, u32 sweep, u32 cover_site,
    u32 bits_site, u32* new_codes, i64 out_stride, u64* totals
) {
    const Data data = THE_DATA;
    SHARED_ARRAY(active);
    const i64 i = places[blockIdx.x];
    const i64 row = rows ? rows[i] : i;
    read_row(factor, stride, row, data.n_components, 0, active);
    const i64 w = (i64)blockIdx.y * blockDim.x + threadIdx.x;
    if (w >= data.n_words) return;
    u32 covered = 0;
    for (u32 k = 0; 32 * k < data.n_components; k++)
        for (u32 mask = active[k]; mask; mask &= mask - 1)
            covered |= data.codes[(i64)(32 * k + lowest(mask)) * data.code_stride + w];
    const u32 known = data.known ? data.known[row * data.stride + w] : FULL;
    const u32 free = free_words(known, covered);
    const u32 ones = data.ones[row * data.stride + w];
    const Stream stream = {key, sweep};
    const u32 n = n_new[i];
    const u64 g = density ? density[i] : 0;
    const u64* cover = cover_limits + 2 * n_numbers * n_classes *
                                          (g * n_row_classes + (of_rows ? of_rows[row] : 0));
    u32* out = new_codes + offsets[i] * out_stride + w;
    u64 tp = 0, fp = 0;
    for (u32 bit = 0; bit < 32 && 32 * w + bit < data.n_columns; bit++) {
        u32 column = (u32)(32 * w + bit);
        bool is_one = (ones >> bit) & 1u, must = (free >> bit) & 1u;
        if (must) {
            u64 of_column = of_columns ? of_columns[column] : 0;
            u64 limit = cover[2 * (of_column * n_numbers + n) + (is_one ? 0 : 1)];
            if (uniform64(stream, cover_site, (u32)row, column) >= limit) continue;
            if (is_one) tp++;
            else fp++;
        }
        for (u32 j = 0; j < n; j++) {
            bool is_on = must && j == n - 1;
            if (!is_on) {
                u64 limit = must ? first_limits[g * n_numbers + n - j] : plain_limits[g];
                is_on = uniform64(stream, bits_site | (j << 16), (u32)row, column) < limit;
            }
            if (is_on) {
                out[j * out_stride] |= 1u << bit;
                must = false;
            }
        }
    }
    if (tp) add_to(totals + 1, tp);
    if (fp) add_to(totals + 2, fp);
}
