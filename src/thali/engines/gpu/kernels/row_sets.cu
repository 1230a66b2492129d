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

#define MOST_SETS 6

// Some sets at a word of rows. Rows in the same sets are a class: class k - 1 has the rows of exactly
// those sets that are the bits of k. If there are fewer sets than N, the others are empty.
template <u32 N>
struct SetWords {
    u32 word[N], any;

    DEVICE_MEMBER SetWords(const u64* sets, u32 n, i64 w, bool is_read) : any(0) {
        UNROLL for (u32 i = 0; i < N; i++) {
            word[i] = is_read && i < n ? ((const u32*)sets[i])[w] : 0;
            any |= word[i];
        }
    }
    DEVICE_MEMBER u32 of_class(u32 k) const {
        u32 rows = FULL;
        UNROLL for (u32 i = 0; i < N; i++) rows &= (k >> i) & 1 ? word[i] : ~word[i];
        return rows;
    }
};

// One thread: the free entries of a column at a word of rows.
DEVICE u32 free_at(const Data& data, i64 column, const u32* active, i64 w) {
    u32 covered = 0;
    for (u32 k = 0; 32 * k < data.n_components; k++)
        for (u32 mask = active[k]; mask; mask &= mask - 1)
            covered |= data.codes[(i64)(32 * k + lowest(mask)) * data.code_stride + w];
    return free_words(data.known ? data.known[column * data.stride + w] : FULL, covered);
}

// What a block counts: the free ones and zeros of a column by class of rows, between two words.
struct Column {
    Data data;
    i64 number;
    const u32* active;  // components that cover
    const u64* sets;
    u32 n_sets;
    i64 begin, end;

    DEVICE_MEMBER u32 n_all() const { return (1u << n_sets) - 1; }
    DEVICE_MEMBER u32 one(i64 w) const { return data.ones[number * data.stride + w]; }
};

template <u32 N>
DEVICE void count_plain(const Column& column, u32* out) {
    const u32 n_all = N < MOST_SETS ? (1u << N) - 1 : column.n_all();
    for (u32 from = 1; from <= n_all; from += CLASSES) {
        u32 n_free[CLASSES], n_ones[CLASSES];
        UNROLL for (u32 k = 0; k < CLASSES; k++) n_free[k] = n_ones[k] = 0;
        for (i64 w = column.begin + threadIdx.x; w < column.end; w += blockDim.x) {
            const SetWords<N> rows(column.sets, column.n_sets, w, true);
            if (!rows.any) continue;
            const u32 free = free_at(column.data, column.number, column.active, w);
            const u32 x = column.one(w);
            UNROLL for (u32 k = 0; k < CLASSES; k++) {
                if (from + k > n_all) break;
                const u32 bits = free & rows.of_class(from + k);
                n_free[k] += popcount(bits);
                n_ones[k] += popcount(bits & x);
            }
        }
        UNROLL for (u32 k = 0; k < CLASSES; k++) {
            if (from + k > n_all) break;
            const i64 both = add_block((i64)n_free[k] << 32 | n_ones[k]);
            if (threadIdx.x) continue;
            add_to(out + 2 * (from + k - 1), (u32)both);
            add_to(out + 2 * (from + k - 1) + 1, (u32)(both >> 32) - (u32)both);
        }
    }
}

// The same if rows have classes of their own, by which every class is divided further. A warp counts
// one word of rows at a time, each lane a row, in shared memory.
template <u32 N>
DEVICE void count_divided(
    const Column& column, const u32* of_rows, u32 n_classes, u32* found, u32* out
) {
    const u32 n_found = 2 * column.n_all() * n_classes;
    for (u32 k = threadIdx.x; k < n_found; k += blockDim.x) found[k] = 0;
    BARRIER();
    for (i64 first = column.begin + (i64)warp_of() * LANES; first < column.end;
         first += n_warps() * LANES) {
        const i64 w = first + lane_of();
        const SetWords<N> mine(column.sets, column.n_sets, w, w < column.end);
        const u32 free =
            mine.any ? mine.any & free_at(column.data, column.number, column.active, w) : 0;
        const u32 x = free ? column.one(w) : 0;
        for (u32 j = 0; j < LANES; j++) {
            const u32 bits = from_lane(free, j), has = from_lane(x, j);
            if (!bits) continue;
            u32 words[N];
            UNROLL for (u32 i = 0; i < N; i++) words[i] = from_lane(mine.word[i], j);
            for (u32 bit = lane_of(); bit < 32; bit += LANES) {
                if (!((bits >> bit) & 1)) continue;
                u32 k = 0;
                UNROLL for (u32 i = 0; i < N; i++) k |= ((words[i] >> bit) & 1) << i;
                const u32 of = (k - 1) * n_classes + of_rows[32 * (first + j) + bit];
                add_to(found + 2 * of + (~(has >> bit) & 1), 1u);
            }
        }
    }
    BARRIER();
    for (u32 k = threadIdx.x; k < n_found; k += blockDim.x)
        if (found[k]) add_to(out + k, found[k]);
}

// One block per order and column (blockIdx.x) and part of the words (blockIdx.y). An order in the
// table has the sets, their number, the first of n_block columns, the place of its counts, and which
// components cover. `of_rows` is null if rows have no classes of their own.
KERNEL count_columns(
    DATA, const u32* factor, i64 stride, const u64* table, u32 width, u32 n_block,
    const u32* of_rows, u32 n_classes, u32* counts
) {
    SHARED_ARRAY(active);
    const u64* sets = table + (u64)(blockIdx.x / n_block) * width;
    const u32 n = (u32)sets[MOST_SETS], place = blockIdx.x % n_block;
    const i64 share = (data_words + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * share;
    const i64 end = begin + share < data_words ? begin + share : data_words;
    const i64 number = (i64)sets[MOST_SETS + 1] + place;
    const Column column = {THE_DATA, number, active, sets, n, begin, end};
    u32* out = counts + sets[MOST_SETS + 2] + 2ull * place * column.n_all() * n_classes;
    read_row(factor, stride, number, n_components, (const u32*)(sets + MOST_SETS + 3), active);
    u32* found = active + (n_components + 31) / 32 + 1;
    if (of_rows) {
        if (n == 2) count_divided<2>(column, of_rows, n_classes, found, out);
        else if (n == 3) count_divided<3>(column, of_rows, n_classes, found, out);
        else count_divided<MOST_SETS>(column, of_rows, n_classes, found, out);
    } else {
        if (n == 2) count_plain<2>(column, out);
        else if (n == 3) count_plain<3>(column, out);
        else count_plain<MOST_SETS>(column, out);
    }
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
