// --- the row update, vertical form: drawing ------------------------------------------------------

// Where the bits of a component go if the rows of a work order are a subset of all rows.
struct AllRows {
    u32* words;  // null if they are all rows
    i64 stride;
};

// Changes of the numbers of covered ones and covered zeros.
struct Gained {
    i64 tp, fp;

    DEVICE_MEMBER void add(u64* gained) const {
        const i64 all_tp = add_lanes(tp), all_fp = add_lanes(fp);
        if (lane_of() == 0 && (all_tp || all_fp)) {
            add_to(gained, (u64)all_tp);
            add_to(gained + 1, (u64)all_fp);
        }
    }
};

// Draw a bit with log odds `score`, which covers c1 ones and c0 zeros that nothing else covers. Row i
// has the number rows[i], which is read only if chance decides or the bit changes.
DEVICE u32 draw_bit(
    i64 score, i64 c1, i64 c0, u32 was_on, Stream stream, u32 site, const i64* rows, i64 i,
    u32 component, const u64* table, AllRows all, Gained& gained
) {
    u32 is_on = score >= 0;
    if (score < LIMIT && score > -LIMIT)
        is_on = gibbs_bit(score, stream, site, (u32)(rows ? rows[i] : i), component, table);
    if (is_on != was_on) {
        gained.tp += is_on ? c1 : -c1;
        gained.fp += is_on ? c0 : -c0;
        const i64 row = rows ? rows[i] : i;
        if (all.words) flip(all.words + component * all.stride + (row >> 5), 1u << (row & 31));
    }
    return is_on;
}

// One block per TEAM words of rows: draw one component's bits of these rows from their counts. Teams
// of lanes add up the counts of the slots; then each thread draws one bit of a word after another.
//
// In `factor` the rows of the work order are next to each other. If they are a subset of all rows,
// the bits that change are flipped in `all_rows`, too. `gained` receives the changes of the numbers
// of covered ones and covered zeros.
#define DRAWING                                                                                  \
    const u32 *counters, u32 n_slots, u32 *factor, i64 n_words, u32 component, i64 n_rows,        \
        const i64 *rows, const u32 *singles, const i64 *weights, const i64 *prior, u64 key,       \
        u32 sweep, u32 site, const u64 *table, u32 *all_rows, i64 all_stride, u64 *gained
#define THE_DRAWING                                                                              \
    counters, n_slots, factor, n_words, component, n_rows, rows, singles, weights, prior, key,    \
        sweep, site, table, all_rows, all_stride, gained

template <u32 PLANES, u32 TEAM>
DEVICE void draw_rows(DRAWING) {
    SHARED u32 stage[STAGES][2][PLANES][TEAM];
    const u32 lane = lane_of(), warp = warp_of(), mine = lane % TEAM, n_teams = LANES / TEAM;
    const i64 first_word = (i64)blockIdx.x * TEAM;
    u32 sum[2][PLANES];
    UNROLL for (u32 p = 0; p < PLANES; p++) sum[0][p] = sum[1][p] = 0;
    if (first_word + mine < n_words)
        for (u32 slot = warp * n_teams + lane / TEAM; slot < n_slots; slot += n_warps() * n_teams) {
            const u32* from = counters + (i64)slot * 2 * SLOT_PLANES * n_words + first_word + mine;
            u32 planes[2][SLOT_PLANES];  // all loads are issued before the first addition
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
    UNROLL for (u32 step = TEAM; step < LANES; step *= 2)
        UNROLL for (int kind = 0; kind < 2; kind++) {
            u32 carry = 0, next;
            UNROLL for (u32 p = 0; p < PLANES; p++) {
                full_add(sum[kind][p], from_lane(sum[kind][p], lane ^ step), carry, next);
                carry = next;
            }
        }
#ifdef __CUDACC__
    u32 n_used = (n_slots + n_teams - 1) / n_teams;
    for (u32 half = STAGES; half; half /= 2) {
        if (half >= n_used) continue;
        if (warp >= half && warp < 2 * half)
            UNROLL for (int kind = 0; kind < 2; kind++)
                UNROLL for (u32 p = 0; p < PLANES; p++) {
                    stage[warp - half][kind][p][mine] = sum[kind][p];
                }
        BARRIER();
        if (warp < half)
            UNROLL for (int kind = 0; kind < 2; kind++) {
                u32 carry = 0;
                UNROLL for (u32 p = 0; p < PLANES; p++) {
                    u32 next;
                    full_add(sum[kind][p], stage[warp][kind][p][mine], carry, next);
                    carry = next;
                }
            }
        BARRIER();
    }
#endif
    if (warp == 0)
        UNROLL for (int kind = 0; kind < 2; kind++)
            UNROLL for (u32 p = 0; p < PLANES; p++) {
                stage[0][kind][p][mine] = sum[kind][p];
            }
    BARRIER();
    Gained change = {0, 0};
    const Stream stream = {key, sweep};
    for (u32 place = warp; place < TEAM; place += n_warps()) {
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
            const i64* weight = weights + 2 * (singles ? singles[i] : 0);
            i64 score = log_odds(prior[component], weight[0], weight[1], c1, c0);
            u32 is_on = draw_bit(
                score, c1, c0, (old >> bit) & 1u, stream, site, rows, i, component, table,
                AllRows{all_rows, all_stride}, change
            );
            word |= is_on << bit;
        }
        word = or_lanes(word);
        if (lane == 0) *to = word;
    }
    change.add(gained);
}

KERNEL BOUNDED(32 * MOST_WARPS, 4) draw_short_component(DRAWING) {
    draw_rows<SHORT_PLANES, LANES>(THE_DRAWING);
}

#define FEW (LANES < 8 ? LANES : 8)  // words per block where there are many slots

KERNEL BOUNDED(32 * MOST_WARPS, 3) draw_component(DRAWING) {
    draw_rows<SUM_PLANES, FEW>(THE_DRAWING);
}

KERNEL BOUNDED(32 * MOST_WARPS, 2) draw_long_component(DRAWING) {
    draw_rows<LONG_PLANES, FEW>(THE_DRAWING);
}
