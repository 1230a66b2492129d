// --- sets of rows that moves propose -------------------------------------------------------------

// Only here are numbers real, as they are on the host. A uniform number and a comparison with it are
// exact. Everything else tells what is sure: what rounding could change is reported, and is left to
// the host.

// Turn 64 random bits into a number strictly between 0 and 1 (streams.py).
DEVICE double fraction(u64 bits) { return ((double)(bits >> 12) + 0.5) * 0x1p-52; }

// One block: return the number of members of a set before the block's own words, one per thread; to
// each thread that before its own word.
DEVICE i64 rank_of(const u32* set, i64 n_words) {
    SHARED u32 sizes[256];
    const i64 begin = (i64)blockIdx.x * blockDim.x, w = begin + threadIdx.x;
    i64 before = 0;
    for (i64 k = threadIdx.x; k < begin; k += blockDim.x) before += popcount(set[k]);
    before = add_block(before);
    sizes[threadIdx.x] = w < n_words ? popcount(set[w]) : 0;
    BARRIER();
    for (u32 k = 0; k < threadIdx.x; k++) before += sizes[k];
    return before;
}

// One warp per word: draw which rows join, at one of four rates: that of rows in neither of two
// sets, in the first only, in the second only, or in both.
KERNEL join_rows(
    const u32* a, const u32* b, i64 n_rows, i64 n_words, double neither, double first,
    double second, double both, u64 key, u32 sweep, u32 site, u32 number, u32* out
) {
    const i64 w = (i64)blockIdx.x * n_warps() + warp_of();
    if (w >= n_words) return;
    u32 word = 0;
    for (u32 bit = lane_of(); bit < 32 && 32 * w + bit < n_rows; bit += LANES) {
        const bool in_a = (a[w] >> bit) & 1, in_b = (b[w] >> bit) & 1;
        const double rate = in_a ? (in_b ? both : first) : (in_b ? second : neither);
        const double u = fraction(uniform64(Stream{key, sweep}, site, number, (u32)(32 * w + bit)));
        word |= (u32)(u < rate) << bit;
    }
    word = or_lanes(word);
    if (lane_of() == 0) out[w] = word;
}

// One thread per word: assign every user to the first part, the second or both. Users are numbered
// in the order of the rows.
KERNEL divide_users(
    const u32* users, i64 n_words, double to_first, double to_second, u64 key, u32 sweep, u32 site,
    u32 number, u32* first, u32* second
) {
    i64 index = rank_of(users, n_words);
    const i64 w = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (w >= n_words) return;
    u32 in_first = 0, in_second = 0;
    for (u32 left = users[w]; left; left &= left - 1) {
        const u32 bit = left & (0u - left);
        const double u = fraction(uniform64(Stream{key, sweep}, site, number, (u32)index++));
        if (u < to_first || u >= to_second) in_first |= bit;
        if (u >= to_first) in_second |= bit;
    }
    first[w] = in_first;
    second[w] = in_second;
}

#define MOST_WINDOW 16  // words of columns that users are compared in

// Rows whose assignment rounding could change: a part in so many of what is compared.
const double UNSURE = 1e-9;

// One thread per word: assign every user to the part whose marked columns fit it, or to both. The
// marks are in a window of columns; entries that the counted components cover say nothing.
KERNEL settle_users(
    const u32* ones, const u32* known, i64 data_stride, const u32* codes, i64 code_stride,
    const u32* factor, i64 stride, u32 n_components, const u32* is_counted, const u32* users,
    i64 n_words, u32 at, u32 width, const u32* marks, double one, double zero, u64 key, u32 sweep,
    u32 site, u32 number, u32* first, u32* second, u64* n_unsure
) {
    i64 index = rank_of(users, n_words);
    const i64 w = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (w >= n_words) return;
    u32 in_first = 0, in_second = 0, unsure = 0;
    for (u32 left = users[w]; left; left &= left - 1) {
        const u32 place = lowest(left), bit = 1u << place;
        const i64 row = (32 * w + place) * data_stride;
        u32 n_free[2] = {0, 0}, n_ones[2] = {0, 0}, covered[MOST_WINDOW];
        UNROLL for (u32 k = 0; k < MOST_WINDOW; k++) covered[k] = 0;
        for (u32 l = 0; l < n_components; l++) {
            if (!((is_counted[l >> 5] >> (l & 31)) & (factor[l * stride + w] >> place) & 1)) continue;
            UNROLL for (u32 k = 0; k < MOST_WINDOW; k++)
                if (k < width) covered[k] |= codes[l * code_stride + at + k];
        }
        UNROLL for (u32 k = 0; k < MOST_WINDOW; k++) {
            if (k >= width) break;
            const u32 x = ones[row + at + k];
            const u32 free = free_words(known ? known[row + at + k] : FULL, covered[k]);
            UNROLL for (int side = 0; side < 2; side++) {
                n_free[side] += popcount(free & marks[side * width + k]);
                n_ones[side] += popcount(free & x & marks[side * width + k]);
            }
        }
        const double to_first = log_odds(0.0, one, zero, n_ones[0], n_free[0] - n_ones[0]);
        const double to_second = log_odds(0.0, one, zero, n_ones[1], n_free[1] - n_ones[1]);
        double largest = to_first > to_second ? to_first : to_second;
        if (to_first + to_second > largest) largest = to_first + to_second;
        const double only_first = exp(to_first - largest), only_second = exp(to_second - largest);
        const double both = exp(to_first + to_second - largest);
        const double total = only_first + only_second + both;
        const double u = fraction(uniform64(Stream{key, sweep}, site, number, (u32)index++)) * total;
        if (u < only_first + both) in_first |= bit;
        if (u >= only_first) in_second |= bit;
        unsure += fabs(u - only_first) < UNSURE * total || fabs(u - only_first - both) < UNSURE * total;
    }
    first[w] = in_first;
    second[w] = in_second;
    if (unsure) add_to(n_unsure, (u64)unsure);
}

// One block per line (blockIdx.x) and set (blockIdx.y): count the members that they share; behind the
// last line, those of the set itself.
KERNEL count_shared(
    const u32* lines, i64 stride, i64 n_words, u32 n_lines, const u64* sets, u64* counts
) {
    const u32* set = (const u32*)sets[blockIdx.y];
    const u32* line = blockIdx.x < n_lines ? lines + blockIdx.x * stride : set;
    i64 n = 0;
    for (i64 w = threadIdx.x; w < n_words; w += blockDim.x) n += popcount(line[w] & set[w]);
    n = add_block(n);
    if (threadIdx.x == 0) counts[(i64)blockIdx.y * (n_lines + 1) + blockIdx.x] = (u64)n;
}

// Gains are added up as integers, so that sums do not depend on the order of threads.
const double GAIN_SCALE = 1 << 20;

// One thread per row of a range: what the row gains by covering its free entries, whose numbers of
// ones and zeros are given by class of column. `found` has the sum over the rows of a set, the sum of
// absolute values, then the number of rows that gain more than `least`, these rows, and their gains.
KERNEL weigh_rows(
    const u32* counts, i64 n, i64 first, u32 n_classes, const u32* of_rows, const double* table,
    const u32* set, double least, u32 most, i64* found
) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x, row = first + i;
    double gain = 0;
    if (i < n) {
        const double* weights = table + (of_rows ? 2 * (i64)of_rows[row] * n_classes : 0);
        for (u32 c = 0; c < n_classes; c++)
            gain = log_odds(
                gain, weights[2 * c], weights[2 * c + 1], counts[2 * c * n + i],
                counts[(2 * c + 1) * n + i]
            );
        if (gain > least) {
            const u64 place = take((u64*)found + 2);
            if (place < most) {
                found[3 + place] = row;
                ((double*)found)[3 + most + place] = gain;
            }
        }
    }
    const bool is_in = i < n && set && ((set[row >> 5] >> (row & 31)) & 1);
    const i64 part = is_in ? (i64)(gain * GAIN_SCALE) : 0;
    const i64 sum = add_block(part), size = add_block(part < 0 ? -part : part);
    if (threadIdx.x == 0 && size) {
        add_to((u64*)found, (u64)sum);
        add_to((u64*)found + 1, (u64)size);
    }
}
