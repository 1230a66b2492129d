// The kernels of the GPU engine (gpu.py), CUDA C++ without headers.
//
// Rows are updated in the vertical form: a word holds 32 rows, and for one component after another
// the columns it uses are visited. The rows it alone decides are added up in bit-sliced counters
// (no population count), and all rows are then drawn together. What needs whole rows (births,
// counts, tallies) takes the horizontal form: a team of threads for each row.
//
// No floating point: scores and random numbers are the integers of decide.py and streams.py, so
// every bit drawn is the CPU engine's.
//
// A plain C++ compiler builds the same file, with teams of one thread, for tests without a GPU.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void
#define BOUNDED(threads, blocks) __launch_bounds__(threads, blocks)
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define SHARED __shared__
#define SHARED_ARRAY(name) extern __shared__ u32 name[]
#define BARRIER() __syncthreads()
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(n) _Pragma("unroll 4")
#define UNROLL_NOT _Pragma("unroll 1")
#define LANES 32
#define MOST_WARPS 8
#define COUNT_WARPS 4
#define STAGES 4  // half the warps: the others add what these hand over
#else
#include <utility>
#define KERNEL static void
#define BOUNDED(threads, blocks)
#define DEVICE static inline
#define DEVICE_MEMBER
#define SHARED static
#define SHARED_ARRAY(name) static u32 name[1 << 16]
#define BARRIER()
#define UNROLL
#define UNROLL_BY(n)
#define UNROLL_NOT
#define LANES 1
#define MOST_WARPS 1
#define COUNT_WARPS 1
#define STAGES 1
struct Place { unsigned x, y, z; };
static Place threadIdx, blockIdx, gridDim, blockDim = {1, 1, 1};
#endif

#ifndef COUNT_BLOCKS
#define COUNT_BLOCKS 3  // counting blocks that a processor does side by side
#endif

#define VECTOR 4         // words of 32 rows a thread counts at once
#define PART_PLANES 8    // a warp counts to 255,
#define SLOT_PLANES 10   // four of them together to 1023,
#define SHORT_PLANES 13  // all of them to 8191,
#define SUM_PLANES 20    // a million, or
#define LONG_PLANES 31   // as far as a row may be long
#define FULL 0xffffffffu
#define NONE FULL

// --- threads together ----------------------------------------------------------------------------

DEVICE u32 lane_of() { return threadIdx.x % LANES; }
DEVICE u32 warp_of() { return threadIdx.x / LANES; }
DEVICE u32 n_warps() { return (blockDim.x + LANES - 1) / LANES; }

#ifdef __CUDACC__
DEVICE u64 multiply_high(u64 a, u64 b) { return __umul64hi(a, b); }
DEVICE u32 popcount(u32 word) { return __popc(word); }
DEVICE u32 lowest(u32 word) { return __ffs(word) - 1; }
DEVICE u32 join(u32 word) {
    for (int step = 16; step; step >>= 1) word |= __shfl_xor_sync(FULL, word, step);
    return word;
}
DEVICE i64 add_lanes(i64 value) {
    for (int step = 16; step; step >>= 1) value += __shfl_xor_sync(FULL, value, step);
    return value;
}
DEVICE void add_to(u64* total, u64 value) { atomicAdd(total, value); }
DEVICE void add_to(u32* total, u32 value) { atomicAdd(total, value); }
DEVICE void or_to(u32* word, u32 bits) { atomicOr(word, bits); }
DEVICE void flip(u32* word, u32 bits) { atomicXor(word, bits); }
DEVICE u32 take(u32* next) { return atomicAdd(next, 1u); }
DEVICE void warp_barrier() { __syncwarp(); }
#else
DEVICE u64 multiply_high(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
DEVICE u32 popcount(u32 word) { return __builtin_popcount(word); }
DEVICE u32 lowest(u32 word) { return __builtin_ctz(word); }
DEVICE u32 join(u32 word) { return word; }
DEVICE i64 add_lanes(i64 value) { return value; }
DEVICE void add_to(u64* total, u64 value) { *total += value; }
DEVICE void add_to(u32* total, u32 value) { *total += value; }
DEVICE void or_to(u32* word, u32 bits) { *word |= bits; }
DEVICE void flip(u32* word, u32 bits) { *word ^= bits; }
DEVICE u32 take(u32* next) { return (*next)++; }
DEVICE void warp_barrier() {}
#endif

// The sum over all threads of a block, for all of them.
DEVICE i64 add_team(i64 value) {
    value = add_lanes(value);
    if (n_warps() == 1) return value;
    SHARED i64 parts[32];
    BARRIER();
    if (lane_of() == 0) parts[warp_of()] = value;
    BARRIER();
    value = 0;
    for (u32 k = 0; k < n_warps(); k++) value += parts[k];
    return value;
}

// --- random decisions (decide.py, streams.py) ----------------------------------------------------

struct Stream {
    u64 key;
    u32 sweep;
};

DEVICE u64 uniform64(Stream stream, u32 site, u32 row, u32 index) {
    u32 c0 = index, c1 = row, c2 = site, c3 = stream.sweep;
    u32 k0 = (u32)stream.key, k1 = (u32)(stream.key >> 32);
    UNROLL for (int round = 0; round < 10; round++) {
        u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c0 | ((u64)c1 << 32);
}

const i64 SCALE = 1 << 24;
const i64 LIMIT = 45 * SCALE;
const i64 FAR = 8 * SCALE;
const int SUM_SHIFT = 12;

DEVICE u64 exp_neg(i64 score, const u64* table) {
    if (score >= LIMIT) return 0;
    u64 high = table[score >> 24];
    u64 middle = table[64 + ((score >> 12) & 4095)];
    u64 low = table[64 + 4096 + (score & 4095)];
    return multiply_high(multiply_high(high, middle), low);
}

DEVICE bool is_unlikely(i64 score, u64 r, const u64* table) {
    i64 size = score < 0 ? -score : score;
    if (size >= FAR && r >= (1ull << 53)) return false;
    u64 e = exp_neg(size, table);
    return r < e && multiply_high(r, e) < e - r;
}

DEVICE bool gibbs_bit(i64 score, Stream stream, u32 site, u32 row, u32 index, const u64* table) {
    if (score >= LIMIT || score <= -LIMIT) return score >= 0;
    return (score >= 0) != is_unlikely(score, uniform64(stream, site, row, index), table);
}

// Scores are three numbers each: a constant, and what a one and a zero add.
DEVICE i64 score_of(const i64* scores, i64 k, i64 n_ones, i64 n_zeros) {
    return scores[3 * k] + n_ones * scores[3 * k + 1] + n_zeros * scores[3 * k + 2];
}

DEVICE i64 best_of(const i64* scores, i64 n, i64 n_ones, i64 n_zeros) {
    i64 best = score_of(scores, 0, n_ones, n_zeros);
    for (i64 k = 1; k < n; k++) {
        i64 score = score_of(scores, k, n_ones, n_zeros);
        best = score > best ? score : best;
    }
    return best;
}

DEVICE u64 weight_of(
    const i64* scores, i64 k, i64 n_ones, i64 n_zeros, i64 best, const u64* table
) {
    return exp_neg(best - score_of(scores, k, n_ones, n_zeros), table) >> SUM_SHIFT;
}

DEVICE i64 categorical(
    const i64* scores, i64 n, i64 n_ones, i64 n_zeros, u64 r, const u64* table
) {
    i64 best = best_of(scores, n, n_ones, n_zeros);
    u64 total = 0;
    for (i64 k = 0; k < n; k++) total += weight_of(scores, k, n_ones, n_zeros, best, table);
    u64 left = multiply_high(r, total);
    for (i64 k = 0; k < n - 1; k++) {
        u64 weight = weight_of(scores, k, n_ones, n_zeros, best, table);
        if (left < weight) return k;
        left -= weight;
    }
    return n - 1;
}

DEVICE bool is_accepted(i64 log_scale, u64 total, u64 r, const u64* table) {
    if (log_scale >= 0) return true;
    return r >> SUM_SHIFT < multiply_high(total, exp_neg(-log_scale, table));
}

DEVICE bool is_inverse_accepted(i64 log_scale, u64 total, u64 r, const u64* table) {
    u64 scaled = multiply_high(r, total);
    if (log_scale >= 0) return scaled < exp_neg(log_scale, table) >> SUM_SHIFT;
    return multiply_high(scaled, exp_neg(-log_scale, table)) < (1ull << 52);
}

// --- layout --------------------------------------------------------------------------------------

// The 64-bit random numbers at consecutive indices.
KERNEL draw_keys(u64 key, u32 sweep, u32 site, u32 row, i64 n, u64* out) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = uniform64(Stream{key, sweep}, site, row, (u32)i);
}

// Switch on the bits of some rows.
KERNEL mark_rows(const i64* rows, i64 n, u32* words) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) or_to(words + (rows[i] >> 5), 1u << (rows[i] & 31));
}

// Flip the listed columns of rows (compressed sparse rows, whose entries are distinct): a warp for
// each row, or several. Of all entries those from `first` on are here, n of them.
KERNEL flip_listed(
    const i64* bounds, i64 n_rows, const u32* columns, i64 first, i64 n, u32* words, i64 stride
) {
    const i64 row = (i64)blockIdx.x * n_warps() + warp_of();
    if (row >= n_rows) return;
    const i64 start = bounds[row] > first ? bounds[row] - first : 0;
    const i64 end = bounds[row + 1] - first < n ? bounds[row + 1] - first : n;
    const i64 step = (i64)gridDim.y * LANES;
    for (i64 k = start + (i64)blockIdx.y * LANES + lane_of(); k < end; k += step)
        flip(words + row * stride + (columns[k] >> 5), 1u << (columns[k] & 31));
}

// Count the ones of every line, and those inside a set: counts (n_lines, 2).
KERNEL count_lines(const u32* words, i64 stride, i64 n_words, const u32* inside, u64* counts) {
    const u32* line = words + blockIdx.x * stride;
    i64 all = 0, within = 0;
    for (i64 w = (i64)blockIdx.y * blockDim.x + threadIdx.x; w < n_words;
         w += (i64)gridDim.y * blockDim.x) {
        all += popcount(line[w]);
        if (inside) within += popcount(line[w] & inside[w]);
    }
    all = add_team(all);
    within = add_team(within);
    if (threadIdx.x == 0) {
        add_to(counts + 2 * blockIdx.x, (u64)all);
        add_to(counts + 2 * blockIdx.x + 1, (u64)within);
    }
}

// For lines with a single one: add it up at its row's position among some rows.
KERNEL find_singles(
    const u32* words, i64 stride, i64 n_words, const i64* lines, const i64* rows, i64 n_rows,
    u32* singles
) {
    const u32* line = words + lines[blockIdx.x] * stride;
    for (i64 w = threadIdx.x; w < n_words; w += blockDim.x) {
        if (!line[w]) continue;
        i64 row = 32 * w + lowest(line[w]), low = 0, high = n_rows;
        while (low < high) {
            i64 middle = (low + high) / 2;
            if (rows[middle] < row) low = middle + 1;
            else high = middle;
        }
        add_to(singles + low, 1u);
    }
}

// Take the bits of some rows of every line, packed anew; then a line of zeros and one of ones.
KERNEL gather_bits(
    const u32* words, i64 stride, u32 n_lines, const i64* rows, i64 n, u32* out, i64 out_stride
) {
    i64 w = (i64)blockIdx.y * n_warps() + warp_of();
    if (w >= out_stride) return;
    const u32* line = words + blockIdx.x * stride;
    u32 word = blockIdx.x > n_lines ? FULL : 0;
    for (u32 bit = lane_of(); blockIdx.x < n_lines && bit < 32 && 32 * w + bit < n; bit += LANES) {
        i64 row = rows[32 * w + bit];
        word |= ((line[row >> 5] >> (row & 31)) & 1u) << bit;
    }
    word = join(word);
    if (lane_of() == 0) out[blockIdx.x * out_stride + w] = word;
}

// Turn rows into columns: out[column] has a bit for each of the rows. A thread turns 32 x 32 bits.
KERNEL transpose_rows(
    const u32* source, i64 stride, const i64* rows, i64 first, i64 n, i64 n_words, u32* out,
    i64 out_stride
) {
    SHARED u32 stage[32 * LANES * (MOST_WARPS + 1)];
    const u32 lane = lane_of(), warp = warp_of();
    const i64 w = (i64)blockIdx.x * LANES + lane;
    const i64 group = (i64)blockIdx.y * n_warps() + warp;
    u32 tile[32];
    UNROLL for (int r = 0; r < 32; r++) {
        i64 i = 32 * group + r;
        tile[r] = 0;
        if (i < n && w < n_words) tile[r] = source[(rows ? rows[first + i] : first + i) * stride + w];
    }
    u32 mask = 0x0000ffffu;
    UNROLL for (int step = 16; step; step >>= 1, mask ^= mask << step) {
        UNROLL for (int r = 0; r < 32; r++) {
            if (r & step) continue;
            u32 swap = ((tile[r] >> step) ^ tile[r + step]) & mask;
            tile[r] ^= swap << step;
            tile[r + step] ^= swap;
        }
    }
    UNROLL for (int c = 0; c < 32; c++) stage[(c * LANES + lane) * (MOST_WARPS + 1) + warp] = tile[c];
    BARRIER();
    for (u32 k = threadIdx.x; k < 32 * LANES * n_warps(); k += blockDim.x) {
        u32 part = k % n_warps(), place = k / n_warps();  // neighbours write one sector
        u32 c = place % 32, of = place / 32;
        i64 column = 32 * ((i64)blockIdx.x * LANES + of) + c;
        i64 to = (i64)blockIdx.y * n_warps() + part;
        if (column < 32 * n_words && to < out_stride)
            out[column * out_stride + to] = stage[(c * LANES + of) * (MOST_WARPS + 1) + part];
    }
}

// --- the row update, vertical form ---------------------------------------------------------------

// The components of every column, as bits: out (n_columns, n_masks).
KERNEL list_components(
    const u32* codes, i64 stride, u32 n_components, i64 n_columns, u32 n_masks, u32* out
) {
    i64 column = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n_columns) return;
    for (u32 k = 0; k < n_masks; k++) {
        u32 mask = 0;
        for (u32 b = 0; b < 32 && 32 * k + b < n_components; b++)
            mask |= ((codes[(32 * k + b) * stride + (column >> 5)] >> (column & 31)) & 1u) << b;
        out[column * n_masks + k] = mask;
    }
}

// The columns of every component, filled up with NONE: a block for each.
KERNEL list_columns(const u32* codes, i64 stride, i64 n_words, const i64* starts, u32* columns) {
    SHARED u32 sums[1024];
    const u32* line = codes + blockIdx.x * stride;
    const i64 share = (n_words + blockDim.x - 1) / blockDim.x;
    const i64 begin = threadIdx.x * share;
    const i64 end = begin + share < n_words ? begin + share : n_words;
    u32 count = 0;
    for (i64 w = begin; w < end; w++) count += popcount(line[w]);
    sums[threadIdx.x] = count;
    BARRIER();
    for (u32 step = 1; step < blockDim.x; step *= 2) {
        u32 before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        BARRIER();
        sums[threadIdx.x] += before;
        BARRIER();
    }
    u32* to = columns + starts[blockIdx.x] + (sums[threadIdx.x] - count);
    for (i64 w = begin; w < end; w++)
        for (u32 word = line[w]; word; word &= word - 1) *to++ = (u32)(32 * w) + lowest(word);
    i64 rest = starts[blockIdx.x] + sums[blockDim.x - 1] + threadIdx.x;
    for (; rest < starts[blockIdx.x + 1]; rest += blockDim.x) columns[rest] = NONE;
}

// A record is what eight visits need to know, in two groups of four:
//
//     columns[8], n_pairs[2], bits of the visits that have more others than there is room for, -
//     for either group, `room` times: two other components of each of its four columns
//
// A group has as many pairs as that of its columns with most others needs; the rest is filled up
// with a line of zeros. Visits beyond the last have one of ones: all is covered, nothing counts.
#define GROUP 4
#define EIGHT (2 * GROUP)
#define HEAD 12
#define RECORD 128   // words at most: a vector for each thread of a warp
#define WINDOW 1024  // visits that are sorted by their number of pairs: groups are much alike
#define CLASSES_OF_VISITS 16

DEVICE u32 others_of(const u32* masks, i64 column, u32 m, u32 n_masks, u32 component) {
    u32 mask = masks[column * n_masks + m];
    return m == component >> 5 ? mask & ~(1u << (component & 31)) : mask;
}

// The records of every component. Blocks: (components, windows of visits).
KERNEL list_visits(
    const u32* columns, const i64* starts, const u32* masks, u32 n_masks, u32 n_components,
    u32 room, u32* records
) {
    SHARED u32 n_of[CLASSES_OF_VISITS], n_pairs[WINDOW], rank[WINDOW], sorted[WINDOW];
    const u32 component = blockIdx.x, size = HEAD + 2 * EIGHT * room;
    const i64 end = starts[component + 1];
    for (i64 start = starts[component] + (i64)blockIdx.y * WINDOW; start < end;
         start += (i64)gridDim.y * WINDOW) {
        const u32 n = end - start < WINDOW ? (u32)(end - start) : WINDOW;
        for (u32 k = threadIdx.x; k < CLASSES_OF_VISITS; k += blockDim.x) n_of[k] = 0;
        BARRIER();
        for (u32 k = threadIdx.x; k < n; k += blockDim.x) {
            const u32 column = columns[start + k];
            u32 n_others = column == NONE ? 1 : 0;
            for (u32 m = 0; m < n_masks && column != NONE; m++)
                n_others += popcount(others_of(masks, column, m, n_masks, component));
            n_pairs[k] = n_others > 2 * room ? room + 1 : (n_others + 1) / 2;
            rank[k] = take(n_of + n_pairs[k]);
        }
        BARRIER();
        if (threadIdx.x == 0)
            for (u32 k = 0, before = 0, all; k < CLASSES_OF_VISITS; k++, before = all) {
                all = before + n_of[k];
                n_of[k] = before;
            }
        BARRIER();
        for (u32 k = threadIdx.x; k < n; k += blockDim.x) sorted[n_of[n_pairs[k]] + rank[k]] = k;
        BARRIER();
        for (u32 p = threadIdx.x; p < n; p += blockDim.x) {
            const u32 column = columns[start + sorted[p]], v = p % EIGHT, side = v / GROUP;
            u32* record = records + (start + p) / EIGHT * size;
            u32 pairs = n_pairs[sorted[p | (GROUP - 1)]], k = 0;
            pairs = pairs < room ? pairs : room;
            record[v] = column == NONE ? 0 : column;
            if (v % GROUP == 0) record[EIGHT + side] = pairs;
            if (v == 0) {
                u32 has_more = 0;
                for (u32 i = 0; i < EIGHT; i++)
                    has_more |= (u32)(n_pairs[sorted[p + i]] > room) << i;
                record[EIGHT + 2] = has_more;
            }
            u32* others = record + HEAD + side * EIGHT * room + 2 * (v % GROUP);
            if (column == NONE) others[k++] = n_components + 1;
            for (u32 m = 0; m < n_masks && column != NONE; m++) {
                u32 mask = others_of(masks, column, m, n_masks, component);
                for (; mask && k < 2 * pairs; mask &= mask - 1, k++)
                    others[k / 2 * EIGHT + k % 2] = 32 * m + lowest(mask);
            }
            for (; k < 2 * pairs; k++) others[k / 2 * EIGHT + k % 2] = n_components;
        }
        BARRIER();
    }
}

struct Vector {
    u32 word[VECTOR];
};

DEVICE Vector load(const u32* from) {
    Vector v;
#ifdef __CUDACC__
    uint4 four = *(const uint4*)from;
    v.word[0] = four.x;
    v.word[1] = four.y;
    v.word[2] = four.z;
    v.word[3] = four.w;
#else
    for (int i = 0; i < VECTOR; i++) v.word[i] = from[i];
#endif
    return v;
}

DEVICE void store(u32* to, const Vector& v) {
#ifdef __CUDACC__
    *(uint4*)to = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);
#else
    for (int i = 0; i < VECTOR; i++) to[i] = v.word[i];
#endif
}

DEVICE void include(Vector& all, const Vector& more) {
    UNROLL for (int v = 0; v < VECTOR; v++) all.word[v] |= more.word[v];
}

DEVICE void full_add(u32& sum, u32 a, u32 b, u32& carry) {
    carry = (sum & a) | (sum & b) | (a & b);
    sum ^= a ^ b;
}

// A bit-sliced counter to which one-bit numbers are added, four at a time.
struct Counter {
    u32 planes[PART_PLANES];

    // Returns a carry worth four.
    DEVICE_MEMBER u32 add(u32 a, u32 b, u32 c, u32 d) {
        u32 two, other, carry;
        full_add(planes[0], a, b, two);
        full_add(planes[0], c, d, other);
        full_add(planes[1], two, other, carry);
        return carry;
    }

    DEVICE_MEMBER void add_fours(u32 a, u32 b) {
        u32 carry;
        full_add(planes[2], a, b, carry);
        UNROLL for (u32 p = 3; p < PART_PLANES; p++) {
            u32 old = planes[p];
            planes[p] = old ^ carry;
            carry &= old;
        }
    }
};

struct Counting {
    const u32* ones;
    const u32* known;  // null where all are known
    i64 stride;        // of both
    i64 n_words;
    u32 tile, slot, n_slots;
    u32 component;
    const u32* records;
    u32 n_records;
    u32 room;
    const u32* masks;
    u32 n_masks;
    u32* counters;
};

#define COUNTING                                                                                 \
    const u32 *ones, const u32 *known, i64 stride, const u32 *factor, i64 n_words, u32 n_tiles,   \
        u32 component, u32 n_components, const u32 *records, u32 n_records, u32 room,             \
        const u32 *masks, u32 n_masks, u32 *counters
#define THE_COUNTING                                                                             \
    {ones, known, stride, n_words, blockIdx.x % n_tiles, blockIdx.x / n_tiles,                    \
     gridDim.x / n_tiles, component, records, n_records, room, masks, n_masks, counters}

// Lines of words, `size` bytes each, from where a thread reads: one multiplication finds a vector.
struct Lines {
    const char* words;
    u32 size;

    DEVICE_MEMBER Vector at(u32 line) const { return load((const u32*)(words + (u64)line * size)); }
};

// The same in shared memory, whose addresses have 32 bits.
struct Tile {
#ifdef __CUDACC__
    u32 words;

    DEVICE_MEMBER Tile(const u32* from) {
        words = (u32)__cvta_generic_to_shared(from);
        asm("" : "+r"(words));  // else it is added to each address apart
    }

    DEVICE_MEMBER Vector at(u32 line) const {
        const u32 size = 4 * LANES * VECTOR;
        return load((const u32*)__cvta_shared_to_generic(words + line * size));
    }
#else
    const u32* words;

    Tile(const u32* from) : words(from) {}

    Vector at(u32 line) const { return load(words + line * LANES * VECTOR); }
#endif
};

// The words of all other components of a column, where a record does not list them.
template <class Bits>
DEVICE Vector all_others(const Counting& job, u32 column, const Bits& bits) {
    Vector all;
    UNROLL for (int v = 0; v < VECTOR; v++) all.word[v] = 0;
    for (u32 m = 0; m < job.n_masks; m++) {
        u32 mask = others_of(job.masks, column, m, job.n_masks, job.component);
        for (; mask; mask &= mask - 1) include(all, bits.at(32 * m + lowest(mask)));
    }
    return all;
}

DEVICE void load_group(const Lines& lines, const u32* record, u32 side, Vector x[GROUP]) {
    Vector columns = load(record + side * GROUP);
    UNROLL for (int k = 0; k < GROUP; k++) x[k] = lines.at(columns.word[k]);
}

// Visit the four columns of a group; carries worth four are returned.
template <class Bits, bool HAS_UNKNOWN>
DEVICE void count_group(
    const Counting& job, const u32* record, u32 side, const Bits& bits, const Lines& known,
    const Vector x[GROUP], Counter* free_sum, Counter* ones_sum, u32* free_four, u32* ones_four
) {
    Vector others[GROUP], seen[GROUP];
    if (HAS_UNKNOWN) load_group(known, record, side, seen);
    UNROLL for (int k = 0; k < GROUP; k++)
        UNROLL for (int v = 0; v < VECTOR; v++)
            others[k].word[v] = HAS_UNKNOWN ? ~seen[k].word[v] : 0;
    const u32* pairs = record + HEAD + side * EIGHT * job.room;
    UNROLL_NOT for (u32 n = record[EIGHT + side]; n; n--, pairs += EIGHT) {
        UNROLL for (int half = 0; half < 2; half++) {
            Vector four = load(pairs + 4 * half);
            UNROLL for (int k = 0; k < 2; k++) {
                Vector a = bits.at(four.word[2 * k]);
                Vector b = bits.at(four.word[2 * k + 1]);
                UNROLL for (int v = 0; v < VECTOR; v++)
                    others[2 * half + k].word[v] |= a.word[v] | b.word[v];
            }
        }
    }
    u32 has_more = record[EIGHT + 2] >> (side * GROUP) & ((1u << GROUP) - 1);
    UNROLL_NOT for (; has_more; has_more &= has_more - 1) {
        u32 one = lowest(has_more);
        Vector all = all_others<Bits>(job, record[side * GROUP + one], bits);
        UNROLL for (u32 k = 0; k < GROUP; k++)
            if (k == one) include(others[k], all);
    }
    UNROLL for (int v = 0; v < VECTOR; v++) {
        u32 f[GROUP], o[GROUP];
        UNROLL for (int k = 0; k < GROUP; k++) {
            f[k] = ~others[k].word[v];
            o[k] = f[k] & x[k].word[v];
        }
        free_four[v] = free_sum[v].add(f[0], f[1], f[2], f[3]);
        ones_four[v] = ones_sum[v].add(o[0], o[1], o[2], o[3]);
    }
}

// Copy a record to shared memory, by way of a warp's registers.
struct Passing {
    Vector part[RECORD / VECTOR / LANES];

    DEVICE_MEMBER void take_up(const Counting& job, u32 record) {
        const u32 size = HEAD + 2 * EIGHT * job.room;
        UNROLL for (u32 r = 0; r < RECORD / VECTOR / LANES; r++) {
            u32 at = VECTOR * (r * LANES + lane_of());
            if (at < size) part[r] = load(job.records + (u64)record * size + at);
        }
    }

    DEVICE_MEMBER void put_down(const Counting& job, u32* to) {
        const u32 size = HEAD + 2 * EIGHT * job.room;
        warp_barrier();
        UNROLL for (u32 r = 0; r < RECORD / VECTOR / LANES; r++) {
            u32 at = VECTOR * (r * LANES + lane_of());
            if (at < size) store(to + at, part[r]);
        }
        warp_barrier();
    }
};

// Count, for one component, the columns that it alone decides in every row, and the ones there.
//
// Blocks: tiles of rows, for every slot of records. The warps of a block share a tile; each does
// records at equal steps, at most 31, and their counts are added up to those of a slot. Counters:
// (slot, free and ones, plane, word). `bits`: the tile's words of all components, a line after
// another, then zeros, then ones. `own`: a warp's shared memory. `stage`: shared memory where counts
// are handed over when all is counted; may be the same as all other.
//
// The data of a record are on their way while the one before is counted; records, two before.
template <class Bits, bool HAS_UNKNOWN>
DEVICE void count_tile(const Counting& job, const Bits& bits, u32* own, u32* stage) {
    const u32 lane = lane_of(), warp = warp_of();
    const i64 start = (i64)job.tile * LANES * VECTOR, at = start + lane * VECTOR;
    const i64 here = at < job.n_words ? at : 0;
    const Lines ones = {(const char*)(job.ones + here), 4 * (u32)job.stride};
    const Lines known = {(const char*)(job.known + here), 4 * (u32)job.stride};
    const u32 step = job.n_slots * n_warps(), last = job.n_records - 1;
    u32 next = job.slot * n_warps() + warp;
    Counter free_sum[VECTOR], ones_sum[VECTOR];
    UNROLL for (int v = 0; v < VECTOR; v++)
        UNROLL for (u32 p = 0; p < PART_PLANES; p++)
            free_sum[v].planes[p] = ones_sum[v].planes[p] = 0;
    if (next <= last) {
        u32 n = (last - next) / step;  // records after this one
        Passing passing;
        passing.take_up(job, next);
        passing.put_down(job, own);
        if (n) next += step;
        passing.take_up(job, next);
        passing.put_down(job, own + RECORD);
        if (n > 1) next += step;
        passing.take_up(job, next);
        Vector x[2][GROUP];
        UNROLL for (u32 side = 0; side < 2; side++) load_group(ones, own, side, x[side]);
        u32 *now = own, *then = own + RECORD;
        UNROLL_NOT for (u32 i = 0; i <= n; i++) {
            u32 free_four[2][VECTOR], ones_four[2][VECTOR];
            UNROLL for (u32 side = 0; side < 2; side++) {
                count_group<Bits, HAS_UNKNOWN>(
                    job, now, side, bits, known, x[side], free_sum, ones_sum,
                    free_four[side], ones_four[side]
                );
                load_group(ones, then, side, x[side]);
            }
            UNROLL for (int v = 0; v < VECTOR; v++) {
                free_sum[v].add_fours(free_four[0][v], free_four[1][v]);
                ones_sum[v].add_fours(ones_four[0][v], ones_four[1][v]);
            }
            passing.put_down(job, now);
            if (next + step <= last) next += step;
            passing.take_up(job, next);
            u32* swap = now;
            now = then;
            then = swap;
        }
    }
    BARRIER();
    const u32 words = LANES * VECTOR, part = 2 * PART_PLANES * words;
    UNROLL for (u32 p = 0; p < PART_PLANES; p++) {
        Vector f, o;
        UNROLL for (int v = 0; v < VECTOR; v++) {
            f.word[v] = free_sum[v].planes[p];
            o.word[v] = ones_sum[v].planes[p];
        }
        store(stage + warp * part + p * words + lane * VECTOR, f);
        store(stage + warp * part + (PART_PLANES + p) * words + lane * VECTOR, o);
    }
    BARRIER();
    for (u32 k = threadIdx.x; k < 2 * words; k += blockDim.x) {
        const u32 kind = k / words, w = k % words;
        if (start + w >= job.n_words) continue;
        u32 sum[SLOT_PLANES];
        UNROLL for (u32 p = 0; p < SLOT_PLANES; p++) sum[p] = 0;
        for (u32 other = 0; other < n_warps(); other++) {
            const u32* from = stage + other * part + kind * PART_PLANES * words + w;
            u32 carry = 0, up;
            UNROLL for (u32 p = 0; p < SLOT_PLANES; p++) {
                full_add(sum[p], p < PART_PLANES ? from[p * words] : 0, carry, up);
                carry = up;
            }
        }
        u32* to = job.counters + ((u64)job.slot * 2 + kind) * SLOT_PLANES * job.n_words + start + w;
        UNROLL for (u32 p = 0; p < SLOT_PLANES; p++) to[p * job.n_words] = sum[p];
    }
}

// As many components as fit in shared memory.
template <bool HAS_UNKNOWN>
DEVICE void count_few(const Counting& job, const u32* factor, u32 n_components, u32* shared) {
    const i64 start = (i64)job.tile * LANES * VECTOR;
    const u32 line = LANES * VECTOR;
    u32 *own = shared + warp_of() * 2 * RECORD, *tile = shared + n_warps() * 2 * RECORD;
    const u32 lane = lane_of();
    const i64 at = start + lane * VECTOR;
    UNROLL_BY(4) for (u32 l = warp_of(); l < n_components + 2; l += n_warps()) {
        if (at < job.n_words)
            store(tile + l * line + lane * VECTOR, load(factor + (i64)l * job.n_words + at));
    }
    BARRIER();
    count_tile<Tile, HAS_UNKNOWN>(job, Tile(tile + lane * VECTOR), own, shared);
}

KERNEL BOUNDED(32 * COUNT_WARPS, COUNT_BLOCKS) count_component(COUNTING) {
    SHARED_ARRAY(shared);
    const Counting job = THE_COUNTING;
    count_few<false>(job, factor, n_components, shared);
}

KERNEL BOUNDED(32 * COUNT_WARPS, 2) count_component_known(COUNTING) {
    SHARED_ARRAY(shared);
    const Counting job = THE_COUNTING;
    count_few<true>(job, factor, n_components, shared);
}

// Any number of components.
KERNEL BOUNDED(32 * COUNT_WARPS, 2) count_component_of_many(COUNTING) {
    SHARED_ARRAY(shared);
    const Counting job = THE_COUNTING;
    const i64 at = ((i64)job.tile * LANES + lane_of()) * VECTOR;
    const Lines bits = {(const char*)(factor + (at < n_words ? at : 0)), 4 * (u32)n_words};
    u32* own = shared + warp_of() * 2 * RECORD;
    if (known) count_tile<Lines, true>(job, bits, own, shared);
    else count_tile<Lines, false>(job, bits, own, shared);
}

// Draw one component's bits of all rows from their counts. A block does LANES words of rows.
//
// `factor` has the rows of the work order next to each other; where they are some of all rows,
// what changes is flipped in `all_rows`, too. `gained`: change of covered ones and zeros.
#define DRAWING                                                                                  \
    const u32 *counters, u32 n_slots, u32 *factor, i64 n_words, u32 component, i64 n_rows,        \
        const i64 *rows, const u32 *singles, const i64 *weights, const i64 *prior, u64 key,       \
        u32 sweep, u32 site, const u64 *table, u32 *all_rows, i64 all_stride, u64 *gained
#define THE_DRAWING                                                                              \
    counters, n_slots, factor, n_words, component, n_rows, rows, singles, weights, prior, key,    \
        sweep, site, table, all_rows, all_stride, gained

template <u32 PLANES>
DEVICE void draw_rows(DRAWING) {
    SHARED u32 stage[STAGES][2][PLANES][LANES];
    const u32 lane = lane_of(), warp = warp_of();
    const i64 first_word = (i64)blockIdx.x * LANES;
    u32 sum[2][PLANES];
    UNROLL for (u32 p = 0; p < PLANES; p++) sum[0][p] = sum[1][p] = 0;
    if (first_word + lane < n_words)
        for (u32 slot = warp; slot < n_slots; slot += n_warps()) {
            const u32* from = counters + (i64)slot * 2 * SLOT_PLANES * n_words + first_word + lane;
            u32 planes[2][SLOT_PLANES];  // all are on their way before the first is added
            UNROLL for (u32 p = 0; p < SLOT_PLANES; p++)
                UNROLL for (int kind = 0; kind < 2; kind++)
                    planes[kind][p] = from[(kind * SLOT_PLANES + p) * n_words];
            UNROLL for (int kind = 0; kind < 2; kind++) {
                u32 carry = 0, next;
                UNROLL for (u32 p = 0; p < PLANES; p++) {
                    full_add(sum[kind][p], p < SLOT_PLANES ? planes[kind][p] : 0, carry, next);
                    carry = next;
                }
            }
        }
#ifdef __CUDACC__
    u32 n_used = n_slots < MOST_WARPS ? n_slots : MOST_WARPS;
    for (u32 half = STAGES; half; half /= 2) {
        if (half >= n_used) continue;
        if (warp >= half && warp < 2 * half)
            UNROLL for (int kind = 0; kind < 2; kind++)
                UNROLL for (u32 p = 0; p < PLANES; p++) {
                    stage[warp - half][kind][p][lane] = sum[kind][p];
                }
        BARRIER();
        if (warp < half)
            UNROLL for (int kind = 0; kind < 2; kind++) {
                u32 carry = 0;
                UNROLL for (u32 p = 0; p < PLANES; p++) {
                    u32 next;
                    full_add(sum[kind][p], stage[warp][kind][p][lane], carry, next);
                    carry = next;
                }
            }
        BARRIER();
    }
#endif
    if (warp == 0)
        UNROLL for (int kind = 0; kind < 2; kind++)
            UNROLL for (u32 p = 0; p < PLANES; p++) {
                stage[0][kind][p][lane] = sum[kind][p];
            }
    BARRIER();
    i64 tp = 0, fp = 0;
    const Stream stream = {key, sweep};
    for (u32 place = warp; place < LANES; place += n_warps()) {
        i64 w = first_word + place;
        if (32 * w >= n_rows) break;
        u32* to = factor + component * n_words + w;
        u32 old = *to, word = 0;
        for (u32 bit = lane; bit < 32; bit += LANES) {
            i64 i = 32 * w + bit;
            if (i >= n_rows) break;
            u32 n_free = 0, n_ones = 0;
            UNROLL for (int p = PLANES - 1; p >= 0; p--) {
                n_free = n_free << 1 | stage[0][0][p][place] << (31 - bit) >> 31;
                n_ones = n_ones << 1 | stage[0][1][p][place] << (31 - bit) >> 31;
            }
            const i64 c1 = n_ones, c0 = n_free - n_ones;
            i64 row = rows ? rows[i] : i;
            const i64* weight = weights + 2 * (singles ? singles[i] : 0);
            i64 score = prior[component] + weight[0] * c1 + weight[1] * c0;
            u32 is_on = gibbs_bit(score, stream, site, (u32)row, component, table);
            if (is_on != ((old >> bit) & 1u)) {
                tp += is_on ? c1 : -c1;
                fp += is_on ? c0 : -c0;
                if (all_rows) flip(all_rows + component * all_stride + (row >> 5), 1u << (row & 31));
            }
            word |= is_on << bit;
        }
        word = join(word);
        if (lane == 0) *to = word;
    }
    tp = add_lanes(tp);
    fp = add_lanes(fp);
    if (lane == 0 && (tp || fp)) {
        add_to(gained, (u64)tp);
        add_to(gained + 1, (u64)fp);
    }
}

KERNEL BOUNDED(32 * MOST_WARPS, 4) draw_short_component(DRAWING) {
    draw_rows<SHORT_PLANES>(THE_DRAWING);
}

KERNEL BOUNDED(32 * MOST_WARPS, 3) draw_component(DRAWING) { draw_rows<SUM_PLANES>(THE_DRAWING); }

KERNEL BOUNDED(32 * MOST_WARPS, 2) draw_long_component(DRAWING) {
    draw_rows<LONG_PLANES>(THE_DRAWING);
}

// --- whole rows: counts, births and deaths, horizontal form --------------------------------------

struct Data {
    const u32* ones;
    const u32* known;  // null where all are known
    i64 stride;        // of both
    i64 n_words;       // of a row
    i64 n_columns;
    const u32* codes;
    i64 code_stride;
    u32 n_components;
};

#define DATA                                                                                 \
    const u32 *data_ones, const u32 *data_known, i64 data_stride, i64 data_words, i64 n_columns, \
        const u32 *codes, i64 code_stride, u32 n_components
#define THE_DATA \
    {data_ones, data_known, data_stride, data_words, n_columns, codes, code_stride, n_components}

struct Counts {
    i64 tp, fp, n_ones, n_zeros;
};

// Read which components a row has, as bits in shared memory.
DEVICE void read_row(
    const u32* factor, i64 stride, i64 row, u32 n_components, const u32* is_used, u32* active
) {
    BARRIER();
    for (u32 k = warp_of(); 32 * k < n_components; k += n_warps()) {
        u32 mask = 0;
        for (u32 bit = lane_of(); bit < 32 && 32 * k + bit < n_components; bit += LANES)
            mask |= ((factor[(32 * k + bit) * stride + (row >> 5)] >> (row & 31)) & 1u) << bit;
        mask = join(mask);
        if (lane_of() == 0) active[k] = is_used ? mask & is_used[k] : mask;
    }
    BARRIER();
}

#define CHUNK 2  // vectors a thread covers at once

// OR the codes of active components over vectors at w and w + step. Lines are filled up with zeros.
DEVICE void cover(const Data& data, const u32* active, i64 w, i64 step, Vector covered[CHUNK]) {
    UNROLL for (int c = 0; c < CHUNK; c++)
        UNROLL for (int v = 0; v < VECTOR; v++) covered[c].word[v] = 0;
    for (u32 k = 0; 32 * k < data.n_components; k++)
        for (u32 mask = active[k]; mask; mask &= mask - 1) {
            const u32* code = data.codes + (i64)(32 * k + lowest(mask)) * data.code_stride + w;
            UNROLL for (int c = 0; c < CHUNK; c++)
                if (w + c * step < data.n_words) include(covered[c], load(code + c * step));
        }
}

DEVICE Counts count_row(const Data& data, i64 row, const u32* active) {
    const u32* ones = data.ones + row * data.stride;
    const u32* known = data.known ? data.known + row * data.stride : 0;
    u32 tp = 0, all = 0, n_ones = 0, n_known = 0;
    const i64 step = VECTOR * blockDim.x;
    for (i64 w = VECTOR * threadIdx.x; w < data.n_words; w += CHUNK * step) {
        Vector covered[CHUNK], x[CHUNK];
        UNROLL for (int c = 0; c < CHUNK; c++)
            if (w + c * step < data.n_words) x[c] = load(ones + w + c * step);
        cover(data, active, w, step, covered);
        UNROLL for (int c = 0; c < CHUNK; c++) {
            if (w + c * step >= data.n_words) break;
            Vector seen;
            if (known) seen = load(known + w + c * step);
            UNROLL for (int v = 0; v < VECTOR; v++) {
                u32 bits = covered[c].word[v];
                tp += popcount(bits & x[c].word[v]);
                all += popcount(known ? bits & seen.word[v] : bits);
                n_ones += popcount(x[c].word[v]);
                if (known) n_known += popcount(seen.word[v]);
            }
        }
    }
    Counts counts;
    counts.tp = add_team(tp);
    counts.fp = add_team(all) - counts.tp;
    counts.n_ones = add_team(n_ones);
    counts.n_zeros = (known ? add_team(n_known) : data.n_columns) - counts.n_ones;
    return counts;
}

// Count covered ones and zeros of rows: a team for each.
KERNEL count_rows(DATA, const u32* factor, i64 stride, const i64* rows, i64 n, i64* counts) {
    const Data data = THE_DATA;
    SHARED_ARRAY(active);
    for (i64 i = blockIdx.x; i < n; i += gridDim.x) {
        i64 row = rows ? rows[i] : i;
        read_row(factor, stride, row, data.n_components, 0, active);
        Counts found = count_row(data, row, active);
        if (threadIdx.x) continue;
        counts[2 * i] = found.tp;
        counts[2 * i + 1] = found.fp;
    }
}

// How many single-row components a row owns, given its uncovered entries (births.py).
DEVICE u32 draw_number(
    i64 n_ones, i64 n_zeros, const i64* number, i64 n_numbers, i64 ceiling, Stream stream,
    u32 site, u32 row, const u64* table
) {
    i64 best = 0, n = 0;
    for (; n < n_numbers; n++) {
        i64 rest = number[3 * n] + n_ones * ceiling + n_zeros * number[3 * n + 2];
        if (n > 0 && rest < best - LIMIT && number[3 * n] < number[3 * n - 3]) break;
        i64 score = score_of(number, n, n_ones, n_zeros);
        best = score > best ? score : best;
    }
    if (n == 1) return 0;
    return (u32)categorical(number, n, n_ones, n_zeros, uniform64(stream, site, row, 0), table);
}

// Draw how many single-row components each row owns; totals: born, covered ones, covered zeros.
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

// Draw the codes of new components: a thread for each word of each row that has some.
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
    if (data.known) covered |= ~data.known[row * data.stride + w];
    const u32 ones = data.ones[row * data.stride + w];
    const Stream stream = {key, sweep};
    const u32 n = n_new[i];
    const u64 g = density ? density[i] : 0;
    u32* out = new_codes + offsets[i] * out_stride + w;
    u64 tp = 0, fp = 0;
    for (u32 bit = 0; bit < 32 && 32 * w + bit < data.n_columns; bit++) {
        u32 column = (u32)(32 * w + bit);
        bool is_one = (ones >> bit) & 1u, must = !((covered >> bit) & 1u);
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

// Try the birth or the death of one single-row component in each row (births.py, eq. 13).
KERNEL move_singles(
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
            if (!is_birth && !answer) {  // it stays
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

#define CLASSES 8  // counted at once

// Count free ones and zeros of rows by class of columns. Blocks: (rows, parts of their words).
KERNEL tally_rows(
    DATA, const u32* factor, i64 stride, i64 first, i64 n, const u32* is_counted,
    const u32* classes, i64 class_stride, u32 n_classes, u64* counts
) {
    const Data data = THE_DATA;
    SHARED_ARRAY(active);
    const i64 step = VECTOR * blockDim.x;
    const i64 share = (data.n_words / VECTOR + gridDim.y) / gridDim.y * VECTOR;
    const i64 begin = blockIdx.y * share;
    const i64 end = begin + share < data.n_words ? begin + share : data.n_words;
    for (i64 i = blockIdx.x; i < n; i += gridDim.x) {
        const i64 row = first + i;
        read_row(factor, stride, row, data.n_components, is_counted, active);
        const u32* ones = data.ones + row * data.stride;
        const u32* known = data.known ? data.known + row * data.stride : 0;
        for (u32 from = 0; from < n_classes; from += CLASSES) {
            u32 n_free[CLASSES], n_ones[CLASSES];
            UNROLL for (u32 k = 0; k < CLASSES; k++) n_free[k] = n_ones[k] = 0;
            for (i64 w = begin + VECTOR * threadIdx.x; w < end; w += CHUNK * step) {
                Vector covered[CHUNK];
                cover(data, active, w, step, covered);
                UNROLL for (int c = 0; c < CHUNK; c++) {
                    i64 at = w + c * step;
                    if (at >= end) break;
                    Vector x = load(ones + at), seen;
                    if (known) seen = load(known + at);
                    UNROLL for (int v = 0; v < VECTOR; v++) {
                        covered[c].word[v] = ~covered[c].word[v];
                        if (known) covered[c].word[v] &= seen.word[v];
                    }
                    UNROLL for (u32 k = 0; k < CLASSES; k++) {
                        if (from + k >= n_classes) break;
                        Vector inside = load(classes + (i64)(from + k) * class_stride + at);
                        UNROLL for (int v = 0; v < VECTOR; v++) {
                            u32 bits = covered[c].word[v] & inside.word[v];
                            n_free[k] += popcount(bits);
                            n_ones[k] += popcount(bits & x.word[v]);
                        }
                    }
                }
            }
            UNROLL for (u32 k = 0; k < CLASSES; k++) {
                if (from + k >= n_classes) break;
                i64 all = add_team(n_free[k]), some = add_team(n_ones[k]);
                if (threadIdx.x) continue;
                u64* to = counts + 2 * (i * n_classes + from + k);
                if (some) add_to(to, (u64)some);
                if (all - some) add_to(to + 1, (u64)(all - some));
            }
        }
    }
}

// --- the same kernels on the host, one thread a block --------------------------------------------

#ifndef __CUDACC__
template <class... Types, unsigned long... I>
static void call(void (*kernel)(Types...), void** arguments, std::index_sequence<I...>) {
    kernel(*(Types*)arguments[I]...);
}
template <class... Types>
static void run(void (*kernel)(Types...), unsigned x, unsigned y, void** arguments) {
    gridDim = {x, y, 1};
    for (unsigned j = 0; j < y; j++)
        for (unsigned i = 0; i < x; i++) {
            blockIdx = {i, j, 0};
            call(kernel, arguments, std::index_sequence_for<Types...>{});
        }
}
#define ON_HOST(kernel)                                                            \
    extern "C" void host_##kernel(unsigned x, unsigned y, void** arguments) {      \
        run(kernel, x, y, arguments);                                              \
    }
ON_HOST(draw_keys)
ON_HOST(mark_rows)
ON_HOST(flip_listed)
ON_HOST(count_lines)
ON_HOST(find_singles)
ON_HOST(gather_bits)
ON_HOST(transpose_rows)
ON_HOST(list_components)
ON_HOST(list_columns)
ON_HOST(list_visits)
ON_HOST(count_component)
ON_HOST(count_component_known)
ON_HOST(count_component_of_many)
ON_HOST(draw_short_component)
ON_HOST(draw_component)
ON_HOST(draw_long_component)
ON_HOST(count_rows)
ON_HOST(draw_births)
ON_HOST(draw_codes)
ON_HOST(move_singles)
ON_HOST(tally_rows)
#endif
