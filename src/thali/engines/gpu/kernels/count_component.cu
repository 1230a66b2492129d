// --- the row update, vertical form: counting -----------------------------------------------------

#ifndef COUNT_BLOCKS
#define COUNT_BLOCKS 3  // blocks that count on one multiprocessor at the same time
#endif

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

// Visit the four columns of a group and add up free entries and the ones among them. What is
// written to `free_four` and `ones_four` counts four and is still to be added.
template <class Bits, bool HAS_UNKNOWN>
DEVICE void count_group(
    const Counting& job, const u32* record, u32 side, const Bits& bits, const Lines& known,
    const Vector x[GROUP], Counter* free_sum, Counter* ones_sum, u32* free_four, u32* ones_four
) {
    const Others others(record, side);
    const u32* other = record + HEAD + side * EIGHT * job.room;
    Vector common = bits.at(other[0]), also = bits.at(other[1]);
    UNROLL_NOT for (u32 n = 2; n < others.n_common(); n += 2) {
        include(common, bits.at(other[n]));
        include(also, bits.at(other[n + 1]));
    }
    include(common, also);
    // Unknown entries are closed from the beginning. Were they left to free_words(seen, others) at
    // the end, `seen` would occupy 16 registers of each thread while the other components are read.
    Vector closed[GROUP], seen[GROUP];
    if (HAS_UNKNOWN) load_group(known, record, side, seen);
    UNROLL for (int k = 0; k < GROUP; k++)
        UNROLL for (int v = 0; v < VECTOR; v++)
            closed[k].word[v] = HAS_UNKNOWN ? common.word[v] | ~seen[k].word[v] : common.word[v];
    other += others.first_own();
    u32 n = others.n_own();
    UNROLL_NOT for (; n > 1; n -= 2, other += 2 * GROUP) {
        UNROLL for (int half = 0; half < 2; half++) {
            const Vector four = load(other + GROUP * half);
            UNROLL for (int k = 0; k < 2; k++) {
                const Vector a = bits.at(four.word[2 * k]), b = bits.at(four.word[2 * k + 1]);
                UNROLL for (int v = 0; v < VECTOR; v++)
                    closed[2 * half + k].word[v] |= a.word[v] | b.word[v];
            }
        }
    }
    if (n) {
        const Vector four = load(other);
        UNROLL for (int k = 0; k < GROUP; k++) include(closed[k], bits.at(four.word[k]));
    }
    u32 has_more = record[EIGHT + 2 + side];
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
// `read`   the records of the warp, which it has begun to read
// `stage`  shared memory in which the warps hand over their counts at the end; may overlap the rest
template <class Bits, bool HAS_UNKNOWN, class Shares>
DEVICE void count_tile(
    const Counting& job, const Shares& shares, const Bits& bits, Reading& read, u32* stage
) {
    const u32 lane = lane_of(), warp = warp_of();
    const i64 start = (i64)job.tile * LANES * VECTOR, at = start + lane * VECTOR;
    const Lines known = {(const char*)(job.known + (at < job.n_words ? at : 0)), 4 * (u32)job.stride};
    Counter free_sum[VECTOR], ones_sum[VECTOR];
    UNROLL for (int v = 0; v < VECTOR; v++)
        UNROLL for (u32 p = 0; p < PART_PLANES; p++)
            free_sum[v].planes[p] = ones_sum[v].planes[p] = 0;
    if (read.n)
        UNROLL_NOT do {
            u32 free_four[2][VECTOR], ones_four[2][VECTOR];
            UNROLL for (u32 side = 0; side < 2; side++) {
                count_group<Bits, HAS_UNKNOWN>(
                    job, read.now, side, bits, known, read.x[side], free_sum, ones_sum,
                    free_four[side], ones_four[side]
                );
                read.load_next(side);
            }
            UNROLL for (int v = 0; v < VECTOR; v++) {
                free_sum[v].add_fours(free_four[0][v], free_four[1][v]);
                ones_sum[v].add_fours(ones_four[0][v], ones_four[1][v]);
            }
            read.go_on(job);
        } while (--read.n);
    const u32 words = LANES * VECTOR, part = PART_PLANES * words;
    UNROLL for (u32 kind = 0; kind < 2; kind++) {
        BARRIER();
        UNROLL for (u32 p = 0; p < PART_PLANES; p++) {
            Vector plane;
            UNROLL for (int v = 0; v < VECTOR; v++)
                plane.word[v] = (kind ? ones_sum : free_sum)[v].planes[p];
            store(stage + warp * part + p * words + lane * VECTOR, plane);
        }
        BARRIER();
        for (u32 k = threadIdx.x; k < shares.n_teams() * words; k += blockDim.x) {
            const u32 team = k / words, w = k % words;
            const u32 slot = shares.of_team(job, team), first = team * shares.team();
            if (start + w >= job.n_words || slot == NONE) continue;
            u32 sum[SLOT_PLANES];
            UNROLL for (u32 p = 0; p < SLOT_PLANES; p++) sum[p] = 0;
            for (u32 other = 0; other < shares.team(); other++) {
                const u32* from = stage + (first + other) * part + w;
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
}

// One block: copy the components' words of a tile to shared memory, with the lines after the last.
DEVICE void load_tile(const Counting& job, const u32* factor, u32 n_components, u32* tile) {
    const u32 line = LANES * VECTOR, at = lane_of() * VECTOR;
    const i64 from = (i64)job.tile * line + at;
    UNROLL_BY(4) for (u32 l = warp_of(); l < n_components + 2; l += n_warps()) {
        if (from < job.n_words)
            store(tile + l * line + at, load(factor + (i64)l * job.n_words + from));
    }
    BARRIER();
}

// Count with the components' words of the tile in shared memory, if they fit.
template <bool HAS_UNKNOWN, class Shares>
DEVICE void count_few(
    const Counting& job, const Shares& shares, const u32* factor, u32 n_components, u32* shared
) {
    u32 *own = shared + warp_of() * 2 * RECORD, *tile = shared + n_warps() * 2 * RECORD;
    Reading read;
    read.begin(job, shares.share(job), own);
    load_tile(job, factor, n_components, tile);
    count_tile<Tile, HAS_UNKNOWN>(job, shares, Tile(tile + lane_of() * VECTOR), read, shared);
}

// Count with the components' words in global memory: any number of components.
template <class Shares>
DEVICE void count_many(
    const Counting& job, const Shares& shares, const u32* factor, u32* shared
) {
    const i64 at = ((i64)job.tile * LANES + lane_of()) * VECTOR, words = job.n_words;
    const Lines bits = {(const char*)(factor + (at < words ? at : 0)), 4 * (u32)words};
    Reading read;
    read.begin(job, shares.share(job), shared + warp_of() * 2 * RECORD);
    if (job.known) count_tile<Lines, true>(job, shares, bits, read, shared);
    else count_tile<Lines, false>(job, shares, bits, read, shared);
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
