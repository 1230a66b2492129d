// --- single-row components: births and deaths ----------------------------------------------------

// One thread: draw how many single-row components a row owns, given its uncovered ones and zeros
// (births.py).
DEVICE u32 draw_number(
    i64 n_ones, i64 n_zeros, const i64* number, i64 n_numbers, i64 ceiling, Stream stream,
    u32 site, u32 row, const u64* table
) {
    i64 best = 0, n = 0;
    for (; n < n_numbers; n++) {
        i64 rest = log_odds(number[3 * n], ceiling, number[3 * n + 2], n_ones, n_zeros);
        if (n > 0 && rest < best - LIMIT && number[3 * n] < number[3 * n - 3]) break;
        i64 score = score_of(number, n, n_ones, n_zeros);
        best = score > best ? score : best;
    }
    if (n == 1) return 0;
    return (u32)categorical(number, n, n_ones, n_zeros, uniform64(stream, site, row, 0), table);
}

// One block per row: draw how many single-row components it owns. `totals` adds up the births, the
// covered ones and the covered zeros.
KERNEL draw_births(
    DATA, const u32* factor, i64 stride, const i64* rows, i64 n, const i64* number,
    i64 n_numbers, i64 ceiling, u64 key, u32 sweep, u32 site, const u64* table, u32* n_new,
    u64* totals
) {
    const Data data = THE_DATA;
    SHARED_ARRAY(active);
    u64 born = 0, tp = 0, fp = 0;
    for (i64 i = blockIdx.x; i < n; i += gridDim.x) {
        i64 row = rows ? rows[i] : i;
        read_row(factor, stride, row, data.n_components, 0, active);
        Counts found = count_row(data, row, active);
        if (threadIdx.x) continue;
        u32 n_own = draw_number(
            found.n_ones - found.tp, found.n_zeros - found.fp, number, n_numbers, ceiling,
            Stream{key, sweep}, site, (u32)row, table
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

// One thread per word of each row that has new components: draw their codes.
KERNEL draw_codes(
    DATA, const u32* factor, i64 stride, const i64* rows, const i64* places,
    const u32* n_new, const u32* density, const i64* offsets, const u64* cover_limits,
    const u64* first_limits, const u64* plain_limits, i64 n_numbers, u64 key, u32 sweep,
    u32 cover_site, u32 bits_site, u32* new_codes, i64 out_stride, u64* totals
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
    u32* out = new_codes + offsets[i] * out_stride + w;
    u64 tp = 0, fp = 0;
    for (u32 bit = 0; bit < 32 && 32 * w + bit < data.n_columns; bit++) {
        u32 column = (u32)(32 * w + bit);
        bool is_one = (ones >> bit) & 1u, must = (free >> bit) & 1u;
        if (must) {
            u64 limit = cover_limits[2 * (g * n_numbers + n) + (is_one ? 0 : 1)];
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

// One block per row: try the birth or the death of one single-row component (births.py, eq. 13).
KERNEL birth_death(
    DATA, const u32* factor, i64 stride, const i64* rows, i64 n, const u32* is_single,
    const i64* factors, i64 n_densities, const i64* odds, u64 key, u32 sweep, u32 site,
    const u64* table, u32* n_new, u32* density, unsigned char* has_died, u64* totals
) {
    const Data data = THE_DATA;
    SHARED_ARRAY(active);
    SHARED u32 answer;
    const Stream stream = {key, sweep};
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
            if (threadIdx.x == 0) {
                i64 n_ones = found.n_ones - found.tp, n_zeros = found.n_zeros - found.fp;
                i64 best = best_of(factors, n_densities, n_ones, n_zeros);
                u64 total = 0;
                for (i64 g = 0; g < n_densities; g++)
                    total += weight_of(factors, g, n_ones, n_zeros, best, table);
                i64 log_ratio = best + odds[n_own + is_birth];
                u64 r = uniform64(stream, site, (u32)row, 2);
                answer = is_birth ? is_accepted(log_ratio, total, r, table)
                                  : is_inverse_accepted(log_ratio, total, r, table);
                if (is_birth && answer) {
                    r = uniform64(stream, site, (u32)row, 3);
                    n_new[i] = 1;
                    density[i] = (u32)categorical(factors, n_densities, n_ones, n_zeros, r, table);
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
