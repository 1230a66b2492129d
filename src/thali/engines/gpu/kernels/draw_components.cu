// --- the row update, vertical form: all components in one launch ----------------------------------
//
// Given the codes, rows are drawn independently of each other. So the blocks that count for a tile of
// rows, one per slot of records, need not wait for those of other tiles: they count for a component,
// meet, draw its bits in a share of the tile each, meet again, and go on to the next component. While
// the blocks of one tile wait, those of others on the same processor count.

#define TILE_PLANES 14  // the sums over at most 16 slots of three warps: to 16,383

// Lines of shared memory for the counts of all warps, and later for the sums over slots.
const u32 STAGED =
    TILE_WARPS * PART_PLANES > 2 * TILE_PLANES ? TILE_WARPS * PART_PLANES : 2 * TILE_PLANES;

// Blocks take their tiles and slots in the order in which they start. So the blocks of a tile have
// all started before any of the next one, and nobody waits for a block that cannot start.
struct Meeting {
    u32* arrived;
    u32 n_blocks, n_expected;

    DEVICE_MEMBER void wait() {
        n_expected += n_blocks;
        BARRIER();
        if (threadIdx.x == 0) {
            show_all();
            add_to(arrived, 1u);
            while (newest(arrived) < n_expected) {}
            show_all();
        }
        BARRIER();
    }
};

// One block: add up the counts of all slots for some words of a tile, from number `first` on. The
// result has the shape (free or ones, plane, word).
DEVICE void add_tile(const Counting& job, u32 first, u32 n, u32* sums) {
    const i64 start = (i64)job.tile * LANES * VECTOR + first;
    for (u32 k = threadIdx.x; k < 2 * n; k += blockDim.x) {
        const u32 kind = k / n, w = k % n;
        const u32* from = job.counters + (i64)kind * SLOT_PLANES * job.n_words + start + w;
        u32 sum[TILE_PLANES];
        UNROLL for (u32 p = 0; p < TILE_PLANES; p++) sum[p] = 0;
        UNROLL_BY(4) for (u32 slot = 0; slot < job.n_slots; slot++) {
            u32 carry = 0, up, planes[SLOT_PLANES];
            UNROLL for (u32 p = 0; p < SLOT_PLANES; p++)
                planes[p] = fresh(from + ((i64)slot * 2 * SLOT_PLANES + p) * job.n_words);
            UNROLL for (u32 p = 0; p < TILE_PLANES; p++) {
                full_add(sum[p], p < SLOT_PLANES ? planes[p] : 0, carry, up);
                carry = up;
            }
        }
        UNROLL for (u32 p = 0; p < TILE_PLANES; p++)
            sums[(kind * TILE_PLANES + p) * n + w] = sum[p];
    }
    BARRIER();
}

// Prepare to count for the first component from some number on that is not held; return its number.
DEVICE u32 go_to(
    Counting& job, u32 component, u32 n_components, const u32* records, const i64* starts,
    const i64* is_held
) {
    while (component < n_components && is_held[component]) component++;
    job.component = component;
    job.n_records = 0;
    if (component == n_components) return component;
    job.records = records + starts[component] / EIGHT * (HEAD + 2 * EIGHT * job.room);
    job.n_records = (u32)((starts[component + 1] - starts[component]) / EIGHT);
    return component;
}

// One block per tile of rows and slot of records. `starts` has the first visit of every component;
// `waits` has the number of blocks that have started, then that of blocks that have arrived, by
// tile. For everything else, see count_component.cu and draw_component.cu.
#define TILE_DRAWING                                                                             \
    const u32 *ones, const u32 *known, i64 stride, u32 *factor, i64 n_words, u32 n_slots,         \
        u32 n_components, const u32 *records, const i64 *starts, const i64 *is_held, u32 room,    \
        const u32 *masks, u32 n_masks, u32 *counters, u32 *waits, i64 n_rows, const i64 *rows,    \
        const u32 *singles, const i64 *weights, const i64 *prior, u64 key, u32 sweep, u32 site,   \
        const u64 *table, u32 *all_rows, i64 all_stride, u64 *gained
#define THE_TILE_DRAWING                                                                         \
    ones, known, stride, factor, n_words, n_slots, n_components, records, starts, is_held, room,  \
        masks, n_masks, counters, waits, n_rows, rows, singles, weights, prior, key, sweep, site, \
        table, all_rows, all_stride, gained

template <bool HAS_UNKNOWN>
DEVICE void draw_tile(TILE_DRAWING) {
    SHARED_ARRAY(shared);
    SHARED u32 number;
    if (threadIdx.x == 0) number = take(waits);
    BARRIER();
    const u32 lane = lane_of(), words = LANES * VECTOR;
    Counting job = {ones, known, stride, n_words, number / n_slots, number % n_slots, n_slots, 0,
                    records, 0, room, masks, n_masks, counters};
    u32 *own = shared + warp_of() * 2 * RECORD, *stage = shared + n_warps() * 2 * RECORD;
    u32* tile = stage + STAGED * words;
    load_tile(job, factor, n_components, tile);
    const u32 share = (words + n_slots - 1) / n_slots, first = job.slot * share;
    const u32 n_own = first >= words ? 0 : first + share < words ? share : words - first;
    Meeting meeting = {waits + 1 + job.tile, n_slots, 0};
    Gained change = {0, 0};
    Reading read;
    u32 component = go_to(job, 0, n_components, records, starts, is_held);
    read.begin(job, Slots{}.share(job), own);
    UNROLL_NOT while (component < n_components) {
        count_tile<Tile, HAS_UNKNOWN>(job, Slots{}, Tile(tile + lane * VECTOR), read, stage);
        const u32 following = go_to(job, component + 1, n_components, records, starts, is_held);
        read.begin(job, Slots{}.share(job), own);  // while the blocks wait for each other
        meeting.wait();
        add_tile(job, first, n_own, stage);
        const i64 odds = prior[component];
        for (u32 place = warp_of(); place < n_own; place += n_warps()) {
            const i64 w = (i64)job.tile * words + first + place;
            if (32 * w >= n_rows) break;
            const u32 old = tile[component * words + first + place];
            u32 word = 0;
            for (u32 bit = lane; bit < 32; bit += LANES) {
                const i64 i = 32 * w + bit;
                if (i >= n_rows) break;
                const i64* weight = weights + 2 * (singles ? singles[i] : 0);
                u32 n_free = 0, n_ones = 0;
                UNROLL for (int p = TILE_PLANES - 1; p >= 0; p--) {
                    n_free = n_free << 1 | stage[p * n_own + place] << (31 - bit) >> 31;
                    n_ones =
                        n_ones << 1 | stage[(TILE_PLANES + p) * n_own + place] << (31 - bit) >> 31;
                }
                const i64 c1 = n_ones, c0 = n_free - n_ones;
                const u32 is_on = draw_bit(
                    log_odds(odds, weight[0], weight[1], c1, c0), c1, c0, (old >> bit) & 1u,
                    Stream{key, sweep}, site, rows, i, component, table,
                    AllRows{all_rows, all_stride}, change
                );
                word |= is_on << bit;
            }
            word = or_lanes(word);
            if (lane == 0) factor[(i64)component * n_words + w] = word;
        }
        meeting.wait();
        const u32* drawn = factor + (i64)component * n_words + (i64)job.tile * words;
        for (u32 w = threadIdx.x; w < words; w += blockDim.x)
            if ((i64)job.tile * words + w < n_words) tile[component * words + w] = fresh(drawn + w);
        component = following;
        BARRIER();
    }
    change.add(gained);
}

KERNEL BOUNDED(LANES * TILE_WARPS, 4) draw_components(TILE_DRAWING) {
    draw_tile<false>(THE_TILE_DRAWING);
}

KERNEL BOUNDED(LANES * TILE_WARPS, 4) draw_components_known(TILE_DRAWING) {
    draw_tile<true>(THE_TILE_DRAWING);
}
