// --- free entries of a few columns by class of rows ----------------------------------------------
//
// Moves ask how many free ones and zeros some neighbouring columns have in sets of rows. Rows in the
// same sets are a class: class k - 1 has the rows of exactly those sets that are the bits of k. Rows
// that have classes of their own are taken in the order of these, a piece of one class at a time.
// So counters belong to one class, and a row adds a word of 32 columns at once to bit-sliced ones.

#define MOST_SETS 6
#define SETS_AT_ONCE 3  // classes that are counted at once: all of two sets
#define NEAR_WORDS 4    // words of columns that are counted at once
#define NEAR (32 * NEAR_WORDS)

// A thread counts one word of columns if there are enough threads; a warp then takes some rows at
// once, and the counters of a thread hold those of some batches.
const u32 WORDS_EACH = LANES < NEAR_WORDS ? NEAR_WORDS : 1;
const u32 THREADS_EACH = NEAR_WORDS / WORDS_EACH;  // of a row
const u32 ROWS_AT_ONCE = LANES / THREADS_EACH;
const u32 BATCH = 4 * ROWS_AT_ONCE;
const u32 MOST_BATCHES = ((1 << PART_PLANES) - 1) / 4;
const u32 QUEUE = BATCH + 4 * LANES;  // rows of a warp that wait at most
const u32 ALL_PLANES = PART_PLANES + 3;  // of the sums over the lanes of a warp

// Some neighbouring columns, from number `first` on. They need not begin with a word.
struct Near {
    const u32 *ones, *known;  // whole rows
    i64 stride, first;
    u32 n;             // columns
    const u32* codes;  // shared memory: NEAR_WORDS words per component, of these columns
    const u32 *masks, *is_counted;  // components by row, and which of them cover
    u32 n_masks;

    // Return word j of a line, whose columns are moved to the beginning of a word.
    DEVICE_MEMBER u32 word(const u32* line, u32 j) const {
        if (32 * j >= n) return 0;
        const u32 shift = first & 31, left = n - 32 * j;
        const u32* from = line + (first >> 5) + j;
        u32 bits = from[0] >> shift;
        if (shift && shift + left > 32) bits |= from[1] << (32 - shift);
        return left < 32 ? bits & ((1u << left) - 1) : bits;
    }
    DEVICE_MEMBER u32 covered(i64 row, u32 j) const {
        u32 bits = 0;
        for (u32 m = 0; m < n_masks; m++)
            for (u32 mask = masks[row * n_masks + m] & is_counted[m]; mask; mask &= mask - 1)
                bits |= codes[(32 * m + lowest(mask)) * NEAR_WORDS + j];
        return bits;
    }
};

// The counters of one thread.
struct NearCounters {
    Counter free[SETS_AT_ONCE], ones[SETS_AT_ONCE];

    DEVICE_MEMBER void clear() {
        UNROLL for (u32 k = 0; k < SETS_AT_ONCE; k++)
            UNROLL for (u32 p = 0; p < PART_PLANES; p++) free[k].planes[p] = ones[k].planes[p] = 0;
    }
};

// One warp: count the first rows that wait, at most a batch, of which there are n_all classes.
DEVICE void count_batch(
    const Near& near, const u32* rows, const u32* classes, u32 n, u32 n_all,
    NearCounters counters[WORDS_EACH]
) {
    UNROLL for (u32 v = 0; v < WORDS_EACH; v++) {
        const u32 j = lane_of() % THREADS_EACH + v;
        u32 row[4], of[4], x[4], f[4];
        UNROLL for (u32 i = 0; i < 4; i++) {
            const u32 e = i * ROWS_AT_ONCE + lane_of() / THREADS_EACH;
            row[i] = e < n ? rows[e] : rows[0];
            of[i] = e < n ? classes[e] : NONE;
        }
        UNROLL for (u32 i = 0; i < 4; i++) {
            x[i] = near.word(near.ones + row[i] * near.stride, j);
            f[i] = near.known ? near.word(near.known + row[i] * near.stride, j) : FULL;
        }
        UNROLL for (u32 i = 0; i < 4; i++) {
            f[i] = free_words(f[i], near.covered(row[i], j));
            x[i] &= f[i];
        }
        UNROLL for (u32 k = 0; k < SETS_AT_ONCE; k++) {
            if (k >= n_all) break;
            u32 free[4], ones[4];
            UNROLL for (u32 i = 0; i < 4; i++) {
                free[i] = of[i] == k ? f[i] : 0;
                ones[i] = of[i] == k ? x[i] : 0;
            }
            Counter &all = counters[v].free[k], &some = counters[v].ones[k];
            all.add_fours(all.add(free[0], free[1], free[2], free[3]), 0);
            some.add_fours(some.add(ones[0], ones[1], ones[2], ones[3]), 0);
        }
    }
}

// One warp: return the sum of a counter over the lanes that count the same word of columns.
struct NearSum {
    u32 planes[ALL_PLANES];

    DEVICE_MEMBER NearSum(const Counter& counter) {
        UNROLL for (u32 p = 0; p < ALL_PLANES; p++)
            planes[p] = p < PART_PLANES ? counter.planes[p] : 0;
        UNROLL for (u32 step = THREADS_EACH; step < LANES; step *= 2) {
            u32 carry = 0, next;
            UNROLL for (u32 p = 0; p < ALL_PLANES; p++) {
                full_add(planes[p], from_lane(planes[p], lane_of() ^ step), carry, next);
                carry = next;
            }
        }
    }
    DEVICE_MEMBER u32 of_bit(u32 bit) const {
        u32 n = 0;
        UNROLL for (u32 p = 0; p < ALL_PLANES; p++) n |= ((planes[p] >> bit) & 1) << p;
        return n;
    }
};

// One warp: add its counters to those of the block: (class, free or ones, column).
DEVICE void add_counters(NearCounters counters[WORDS_EACH], u32 n_all, u32* found) {
    UNROLL for (u32 v = 0; v < WORDS_EACH; v++) {
        const u32 j = lane_of() % THREADS_EACH + v;
        UNROLL for (u32 k = 0; k < SETS_AT_ONCE; k++) {
            if (k >= n_all) break;
            const NearSum all(counters[v].free[k]), some(counters[v].ones[k]);
            for (u32 bit = lane_of() / THREADS_EACH; bit < 32; bit += ROWS_AT_ONCE) {
                u32* to = found + 2 * k * NEAR + 32 * j + bit;
                const u32 n_free = all.of_bit(bit), n_ones = some.of_bit(bit);
                if (n_free) add_to(to, n_free);
                if (n_ones) add_to(to + NEAR, n_ones);
            }
        }
        counters[v].clear();
    }
}

// Rows that a warp has still to count.
struct Waiting {
    u32 *rows, *classes;  // shared memory of the warp
    u32 n;

    DEVICE_MEMBER void put(bool is_in, u32 row, u32 of) {
        const u32 who = lanes_with(is_in);
        if (is_in) {
            const u32 place = n + popcount(who & ((1u << lane_of()) - 1));
            rows[place] = row;
            classes[place] = of;
        }
        n += popcount(who);
    }
    // Take away the last rows; return how many.
    DEVICE_MEMBER u32 take_batch() {
        const u32 taken = n < BATCH ? n : BATCH;
        n -= taken;
        return taken;
    }
};

// One block per order and piece of rows (blockIdx.x) and NEAR columns (blockIdx.y). An order in the
// table has the sets, their number, the first of n_block columns, the place of its counts, and which
// components cover. A piece has its first place, its end and the class of its rows; `places` is null
// if rows are in their own order. The counts have the shape (column, class, class of rows, one or
// zero).
KERNEL BOUNDED(LANES * COUNT_WARPS, 4) count_columns(
    const u32* ones, const u32* known, i64 stride, const u32* codes, i64 code_stride,
    u32 n_components, const u32* masks, u32 n_masks, const u64* table, u32 width, u32 n_block,
    const i64* places, const u32* pieces, u32 n_pieces, u32 n_classes, u32* counts
) {
    SHARED_ARRAY(found);  // first counts of columns, then the rows that wait, then codes
    u32 *queue = found + SETS_AT_ONCE * 2 * NEAR, *near_codes = queue + COUNT_WARPS * 2 * QUEUE;
    const u64* order = table + (u64)(blockIdx.x / n_pieces) * width;
    const u32* piece = pieces + 3 * (blockIdx.x % n_pieces);
    const u32 n_sets = (u32)order[MOST_SETS], n_all = (1u << n_sets) - 1, before = NEAR * blockIdx.y;
    const Near near = {ones, known, stride, (i64)order[MOST_SETS + 1] + before,
                       n_block - before < NEAR ? n_block - before : NEAR, near_codes, masks,
                       (const u32*)(order + MOST_SETS + 3), n_masks};
    for (u32 k = threadIdx.x; k < n_components * NEAR_WORDS; k += blockDim.x)
        near_codes[k] = near.word(codes + k / NEAR_WORDS * code_stride, k % NEAR_WORDS);
    u32* out = counts + order[MOST_SETS + 2] + 2ull * before * n_all * n_classes;
    for (u32 from = 0; from < n_all; from += SETS_AT_ONCE) {
        const u32 n_here = n_all - from < SETS_AT_ONCE ? n_all - from : SETS_AT_ONCE;
        for (u32 k = threadIdx.x; k < n_here * 2 * NEAR; k += blockDim.x) found[k] = 0;
        BARRIER();
        NearCounters counters[WORDS_EACH];
        UNROLL for (u32 v = 0; v < WORDS_EACH; v++) counters[v].clear();
        u32* own = queue + warp_of() * 2 * QUEUE;
        Waiting waiting = {own, own + QUEUE, 0};
        u32 n_batches = 0;
        const u32 step = 4 * LANES;  // places whose sets are looked up together
        UNROLL_NOT for (u32 first = piece[0] + warp_of() * step;; first += n_warps() * step) {
            const bool is_over = first >= piece[1];
            if (!is_over) {
                u32 row[4], of[4];
                UNROLL for (u32 i = 0; i < 4; i++) {
                    const u32 place = first + i * LANES + lane_of();
                    row[i] = place >= piece[1] ? NONE : places ? (u32)places[place] : place;
                    of[i] = 0;
                }
                for (u32 s = 0; s < n_sets; s++) {
                    const u32* set = (const u32*)order[s];
                    UNROLL for (u32 i = 0; i < 4; i++)
                        if (row[i] != NONE) of[i] |= ((set[row[i] >> 5] >> (row[i] & 31)) & 1) << s;
                }
                UNROLL for (u32 i = 0; i < 4; i++)  // the numbers of rows in no set wrap around
                    waiting.put(of[i] - (from + 1) < n_here, row[i], of[i] - (from + 1));
                warp_barrier();
            }
            UNROLL_NOT while (waiting.n >= (is_over ? 1 : BATCH)) {
                const u32 n = waiting.take_batch();
                count_batch(
                    near, waiting.rows + waiting.n, waiting.classes + waiting.n, n, n_here, counters
                );
                n_batches++;
            }
            warp_barrier();
            if (is_over || n_batches + QUEUE / BATCH > MOST_BATCHES) {
                add_counters(counters, n_here, found);
                n_batches = 0;
            }
            if (is_over) break;
        }
        BARRIER();
        for (u32 i = threadIdx.x; i < n_here * near.n; i += blockDim.x) {
            const u32 column = i / n_here, k = i % n_here;
            const u32 n_free = found[2 * k * NEAR + column], n = found[(2 * k + 1) * NEAR + column];
            u32* to = out + 2 * (((u64)column * n_all + from + k) * n_classes + piece[2]);
            if (n) add_to(to, n);
            if (n_free > n) add_to(to + 1, n_free - n);
        }
        BARRIER();
    }
}
