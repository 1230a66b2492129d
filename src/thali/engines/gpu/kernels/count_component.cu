// --- the row update, vertical form: counting -----------------------------------------------------

#ifndef COUNT_BLOCKS
#define COUNT_BLOCKS 3  // blocks that count on one multiprocessor at the same time
#endif

// What one block counts: a tile of rows, and a slot of the component's records.
struct Counting {
    const u32* ones;
    const u32* known;  // null if all entries are known
    i64 stride;        // of `ones` and of `known`
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
    Counting {                                                                                    \
        ones, known, stride, n_words, blockIdx.x % n_tiles, blockIdx.x / n_tiles,                 \
            gridDim.x / n_tiles, component, records, n_records, room, masks, n_masks, counters    \
    }

// OR the words of all other components of a column, for visits whose record has no room for them.
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

// Load the words of the four columns of a group.
DEVICE void load_group(const Lines& lines, const u32* record, u32 side, Vector x[GROUP]) {
    Vector columns = load(record + side * GROUP);
    UNROLL for (int k = 0; k < GROUP; k++) x[k] = lines.at(columns.word[k]);
}

// Visit the four columns of a group and add up free entries and the ones among them. What is
// written to `free_four` and `ones_four` counts four and is still to be added.
template <class Bits, bool HAS_UNKNOWN>
DEVICE void count_group(
    const Counting& job, const u32* record, u32 side, const Bits& bits, const Lines& known,
    const Vector x[GROUP], Counter* free_sum, Counter* ones_sum, u32* free_four, u32* ones_four
) {
    // Unknown entries are closed from the beginning. Were they left to free_words(seen, others) at
    // the end, `seen` would occupy 16 registers of each thread (199 instead of 183 on sm_90) while
    // the other components are read.
    Vector closed[GROUP], seen[GROUP];
    if (HAS_UNKNOWN) load_group(known, record, side, seen);
    UNROLL for (int k = 0; k < GROUP; k++)
        UNROLL for (int v = 0; v < VECTOR; v++)
            closed[k].word[v] = HAS_UNKNOWN ? ~seen[k].word[v] : 0;
    const u32* pairs = record + HEAD + side * EIGHT * job.room;
    UNROLL_NOT for (u32 n = record[EIGHT + side]; n; n--, pairs += EIGHT) {
        UNROLL for (int half = 0; half < 2; half++) {
            Vector four = load(pairs + 4 * half);
            UNROLL for (int k = 0; k < 2; k++) {
                Vector a = bits.at(four.word[2 * k]);
                Vector b = bits.at(four.word[2 * k + 1]);
                UNROLL for (int v = 0; v < VECTOR; v++)
                    closed[2 * half + k].word[v] |= a.word[v] | b.word[v];
            }
        }
    }
    u32 has_more = record[EIGHT + 2] >> (side * GROUP) & ((1u << GROUP) - 1);
    UNROLL_NOT for (; has_more; has_more &= has_more - 1) {
        u32 one = lowest(has_more);
        Vector all = all_others<Bits>(job, record[side * GROUP + one], bits);
        UNROLL for (u32 k = 0; k < GROUP; k++)
            if (k == one) include(closed[k], all);
    }
    UNROLL for (int v = 0; v < VECTOR; v++) {
        u32 f[GROUP], o[GROUP];
        UNROLL for (int k = 0; k < GROUP; k++) {
            f[k] = free_words(FULL, closed[k].word[v]);
            o[k] = f[k] & x[k].word[v];
        }
        free_four[v] = free_sum[v].add(f[0], f[1], f[2], f[3]);
        ones_four[v] = ones_sum[v].add(o[0], o[1], o[2], o[3]);
    }
}

// Copies a record to shared memory through the registers of a warp: between `fetch` and `put` the
// warp does other work while the memory answers.
struct RecordCopy {
    Vector part[RECORD / VECTOR / LANES];

    DEVICE_MEMBER void fetch(const Counting& job, u32 record) {
        const u32 size = HEAD + 2 * EIGHT * job.room;
        UNROLL for (u32 r = 0; r < RECORD / VECTOR / LANES; r++) {
            u32 at = VECTOR * (r * LANES + lane_of());
            if (at < size) part[r] = load(job.records + (u64)record * size + at);
        }
    }

    DEVICE_MEMBER void put(const Counting& job, u32* to) {
        const u32 size = HEAD + 2 * EIGHT * job.room;
        warp_barrier();
        UNROLL for (u32 r = 0; r < RECORD / VECTOR / LANES; r++) {
            u32 at = VECTOR * (r * LANES + lane_of());
            if (at < size) store(to + at, part[r]);
        }
        warp_barrier();
    }
};

// Which records a warp counts: every step-th from `next` on, before `end`.
struct Share {
    u32 next, step, end;
};

// Shares of one class of columns: a slot is counted by all warps of a block. (by_class.cu has those
// of several classes.)
struct Slots {
    DEVICE_MEMBER u32 n_teams() const { return 1; }
    DEVICE_MEMBER u32 team() const { return n_warps(); }
    DEVICE_MEMBER u32 of_team(const Counting& job, u32) const { return job.slot; }
    DEVICE_MEMBER Share share(const Counting& job) const {
        return {job.slot * n_warps() + warp_of(), job.n_slots * n_warps(), job.n_records};
    }
};

// One block per tile of rows and slot of records; one thread per VECTOR words of the tile. The warps
// of a block share the tile: each takes the records at equal steps, at most 31 of them, and at the
// end their counts are added up to those of the slot.
//
// Counts, for one component and every row, the columns that the component alone can cover, and the
// ones there. The result has the shape (slot, free or ones, plane, word).
//
// `bits`   the tile's words of all components, one line per component, then zeros, then ones
// `own`    shared memory of the warp, for two records
// `stage`  shared memory in which the warps hand over their counts at the end; may overlap the rest
//
// While a record is counted, the data of the next one are being loaded, and the record after that.
template <class Bits, bool HAS_UNKNOWN, class Shares>
DEVICE void count_tile(
    const Counting& job, const Shares& shares, const Bits& bits, u32* own, u32* stage
) {
    const u32 lane = lane_of(), warp = warp_of();
    const i64 start = (i64)job.tile * LANES * VECTOR, at = start + lane * VECTOR;
    const i64 here = at < job.n_words ? at : 0;
    const Lines ones = {(const char*)(job.ones + here), 4 * (u32)job.stride};
    const Lines known = {(const char*)(job.known + here), 4 * (u32)job.stride};
    const Share share = shares.share(job);
    const u32 step = share.step, last = share.end - 1;
    u32 next = share.next;
    Counter free_sum[VECTOR], ones_sum[VECTOR];
    UNROLL for (int v = 0; v < VECTOR; v++)
        UNROLL for (u32 p = 0; p < PART_PLANES; p++)
            free_sum[v].planes[p] = ones_sum[v].planes[p] = 0;
    if (next < share.end) {
        u32 n = (last - next) / step;  // the number of records after this one
        RecordCopy copy;
        copy.fetch(job, next);
        copy.put(job, own);
        if (n) next += step;
        copy.fetch(job, next);
        copy.put(job, own + RECORD);
        if (n > 1) next += step;
        copy.fetch(job, next);
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
            copy.put(job, now);
            if (next + step <= last) next += step;
            copy.fetch(job, next);
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
    const u32 n_sums = shares.n_teams() * 2 * words;
    for (u32 k = threadIdx.x; k < n_sums; k += blockDim.x) {
        const u32 team = k / (2 * words), kind = k / words % 2, w = k % words;
        const u32 slot = shares.of_team(job, team), first = team * shares.team();
        if (start + w >= job.n_words || slot == NONE) continue;
        u32 sum[SLOT_PLANES];
        UNROLL for (u32 p = 0; p < SLOT_PLANES; p++) sum[p] = 0;
        for (u32 other = 0; other < shares.team(); other++) {
            const u32* from = stage + (first + other) * part + kind * PART_PLANES * words + w;
            u32 carry = 0, up;
            UNROLL for (u32 p = 0; p < SLOT_PLANES; p++) {
                full_add(sum[p], p < PART_PLANES ? from[p * words] : 0, carry, up);
                carry = up;
            }
        }
        u32* to = job.counters + ((u64)slot * 2 + kind) * SLOT_PLANES * job.n_words + start + w;
        UNROLL for (u32 p = 0; p < SLOT_PLANES; p++) to[p * job.n_words] = sum[p];
    }
}

// Count with the components' words of the tile in shared memory, if they fit.
template <bool HAS_UNKNOWN, class Shares>
DEVICE void count_few(
    const Counting& job, const Shares& shares, const u32* factor, u32 n_components, u32* shared
) {
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
    count_tile<Tile, HAS_UNKNOWN>(job, shares, Tile(tile + lane * VECTOR), own, shared);
}

// Count with the components' words in global memory: any number of components.
template <class Shares>
DEVICE void count_many(
    const Counting& job, const Shares& shares, const u32* factor, u32* shared
) {
    const i64 at = ((i64)job.tile * LANES + lane_of()) * VECTOR, words = job.n_words;
    const Lines bits = {(const char*)(factor + (at < words ? at : 0)), 4 * (u32)words};
    u32* own = shared + warp_of() * 2 * RECORD;
    if (job.known) count_tile<Lines, true>(job, shares, bits, own, shared);
    else count_tile<Lines, false>(job, shares, bits, own, shared);
}

KERNEL BOUNDED(32 * COUNT_WARPS, COUNT_BLOCKS) count_component(COUNTING) {
    SHARED_ARRAY(shared);
    count_few<false>(THE_COUNTING, Slots{}, factor, n_components, shared);
}

KERNEL BOUNDED(32 * COUNT_WARPS, 2) count_component_known(COUNTING) {
    SHARED_ARRAY(shared);
    count_few<true>(THE_COUNTING, Slots{}, factor, n_components, shared);
}

KERNEL BOUNDED(32 * COUNT_WARPS, 2) count_component_of_many(COUNTING) {
    SHARED_ARRAY(shared);
    count_many(THE_COUNTING, Slots{}, factor, shared);
}
