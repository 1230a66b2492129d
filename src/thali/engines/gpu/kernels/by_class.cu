// --- the row update, vertical form: columns of several classes -----------------------------------
//
// With row and column effects, the weight of an entry depends on the class of its row and the class
// of its column. Records and slots of a component then belong to one class of columns each. Counting
// is the same, and what is drawn from is a sum over classes. A class costs its counters, 20 bits per
// row that are written and read once, and unpacking them; its columns are read no more often than
// without classes, and no copy of the data is sorted.

// Shares of several classes of columns: a slot has records of one class, and is counted by a team of
// warps. `ranges` has the first record, the end and the number of every slot.
struct Ranges {
    const u32* ranges;
    u32 n_ranges, size;  // the number of ranges, and of the warps of a team

    DEVICE_MEMBER u32 n_teams() const { return n_warps() / size; }
    DEVICE_MEMBER u32 team() const { return size; }
    DEVICE_MEMBER const u32* at(const Counting& job, u32 team) const {
        const u32 place = job.slot * (n_warps() / size) + team;
        return place < n_ranges ? ranges + 3 * place : 0;
    }
    DEVICE_MEMBER u32 of_team(const Counting& job, u32 team) const {
        const u32* range = at(job, team);
        return range ? range[2] : NONE;
    }
    DEVICE_MEMBER Share share(const Counting& job) const {
        const u32* range = at(job, warp_of() / size);
        if (!range) return {0, 1, 0};
        return {range[0] + warp_of() % size, size, range[1]};
    }
};

#define RANGES const u32 *ranges, u32 n_ranges, u32 team
#define THE_RANGES \
    Ranges { ranges, n_ranges, team }

KERNEL BOUNDED(32 * COUNT_WARPS, COUNT_BLOCKS) count_component_by_class(COUNTING, RANGES) {
    SHARED_ARRAY(shared);
    count_few<false>(THE_COUNTING, THE_RANGES, factor, n_components, shared);
}

KERNEL BOUNDED(32 * COUNT_WARPS, 2) count_component_by_class_known(COUNTING, RANGES) {
    SHARED_ARRAY(shared);
    count_few<true>(THE_COUNTING, THE_RANGES, factor, n_components, shared);
}

KERNEL BOUNDED(32 * COUNT_WARPS, 2) count_component_by_class_of_many(COUNTING, RANGES) {
    SHARED_ARRAY(shared);
    count_many(THE_COUNTING, THE_RANGES, factor, shared);
}

// --- the counts of a class of columns ------------------------------------------------------------

// Sums over slots are kept in shared memory: for some classes and every word of the block, first the
// planes of the free entries, then those of the ones. A word's planes fill an odd number of vectors,
// so that neighbouring threads store them without conflicts.
template <u32 PLANES>
struct Staged {
    static const u32 AT_ONCE = PLANES > SUM_PLANES ? (MOST_WARPS + 1) / 2 : MOST_WARPS;
    static const u32 WIDTH = ((2 * PLANES + VECTOR - 1) / VECTOR | 1) * VECTOR;
};

// One block per LANES words of rows: add up the slots of some classes, from number `first` on; one
// warp per class. The slots of class c are slots[c] to slots[c + 1]; classes without any are skipped.
template <u32 PLANES>
DEVICE void add_slots(
    const u32* counters, const u32* slots, u32 first, u32 n_classes, i64 n_words, u32* stage
) {
    const u32 width = Staged<PLANES>::WIDTH;
    const i64 w = (i64)blockIdx.x * LANES + lane_of();
    BARRIER();
    for (u32 k = warp_of(); k < Staged<PLANES>::AT_ONCE && first + k < n_classes; k += n_warps()) {
        const u32 end = slots[first + k + 1];
        if (w >= n_words || slots[first + k] == end) continue;
        u32 sum[Staged<PLANES>::WIDTH];
        UNROLL for (u32 p = 0; p < width; p++) sum[p] = 0;
        for (u32 slot = slots[first + k]; slot < end; slot++) {
            const u32* from = counters + (i64)slot * 2 * SLOT_PLANES * n_words + w;
            u32 planes[2 * SLOT_PLANES];  // all loads are issued before the first addition
            UNROLL for (u32 p = 0; p < 2 * SLOT_PLANES; p++) planes[p] = from[p * n_words];
            UNROLL for (u32 kind = 0; kind < 2; kind++) {
                u32 carry = 0, next;
                UNROLL for (u32 p = 0; p < PLANES; p++) {
                    const u32 more = p < SLOT_PLANES ? planes[kind * SLOT_PLANES + p] : 0;
                    full_add(sum[kind * PLANES + p], more, carry, next);
                    carry = next;
                }
            }
        }
        UNROLL for (u32 p = 0; p < width; p += VECTOR) {
            Vector four;
            UNROLL for (u32 v = 0; v < VECTOR; v++) four.word[v] = sum[p + v];
            store(stage + (k * LANES + lane_of()) * width + p, four);
        }
    }
    BARRIER();
}

// Numbers of free entries and of ones among them.
struct Free {
    u32 all, ones;
};

// Return the counts of one row from the planes of its word.
template <u32 PLANES>
DEVICE Free counts_of(const u32* planes, u32 bit) {
    u32 words[Staged<PLANES>::WIDTH];
    UNROLL for (u32 p = 0; p < Staged<PLANES>::WIDTH; p += VECTOR) {
        const Vector four = load(planes + p);
        UNROLL for (u32 v = 0; v < VECTOR; v++) words[p + v] = four.word[v];
    }
    Free free = {0, 0};
    UNROLL for (int p = PLANES - 1; p >= 0; p--) {
        free.all = free.all << 1 | words[p] << (31 - bit) >> 31;
        free.ones = free.ones << 1 | words[PLANES + p] << (31 - bit) >> 31;
    }
    return free;
}

#define PLACES (LANES / MOST_WARPS)  // words that a warp draws
#define ROWS (32 / LANES)            // rows of a word that a thread draws

// One block per LANES words of rows: draw one component's bits of these rows from their counts by
// class of columns. `weights` has the shape (integrated components, classes of columns, classes of
// rows, one or zero), so that threads with rows of different classes read neighbouring numbers.
#define DRAWING_BY_CLASS                                                                         \
    const u32 *counters, const u32 *slots, u32 n_classes, u32 *factor, i64 n_words,               \
        u32 component, i64 n_rows, const i64 *rows, const u32 *singles, const u32 *of_rows,       \
        u32 n_row_classes, const i64 *weights, const i64 *prior, u64 key, u32 sweep, u32 site,    \
        const u64 *table, u32 *all_rows, i64 all_stride, u64 *gained
#define THE_DRAWING_BY_CLASS                                                                     \
    counters, slots, n_classes, factor, n_words, component, n_rows, rows, singles, of_rows,       \
        n_row_classes, weights, prior, key, sweep, site, table, all_rows, all_stride, gained

template <u32 PLANES>
DEVICE void draw_rows_by_class(DRAWING_BY_CLASS) {
    SHARED_ARRAY(stage);
    const u32 lane = lane_of(), warp = warp_of(), width = Staged<PLANES>::WIDTH;
    const i64 first_word = (i64)blockIdx.x * LANES;
    i64 score[PLACES][ROWS];
    u32 c1[PLACES][ROWS], c0[PLACES][ROWS], at[PLACES][ROWS];
    UNROLL for (u32 j = 0; j < PLACES; j++)
        UNROLL for (u32 b = 0; b < ROWS; b++) {
            const i64 i = 32 * (first_word + warp + j * MOST_WARPS) + lane + b * LANES;
            const i64 row = i >= n_rows ? 0 : rows ? rows[i] : i;
            const u32 n_own = singles && i < n_rows ? singles[i] : 0;
            at[j][b] = n_own * n_classes * n_row_classes + of_rows[row];
            score[j][b] = prior[component];
            c1[j][b] = c0[j][b] = 0;
        }
    for (u32 first = 0; first < n_classes; first += Staged<PLANES>::AT_ONCE) {
        add_slots<PLANES>(counters, slots, first, n_classes, n_words, stage);
        for (u32 k = 0; k < Staged<PLANES>::AT_ONCE && first + k < n_classes; k++) {
            if (slots[first + k] == slots[first + k + 1]) continue;
            const i64* of_class = weights + 2 * (i64)(first + k) * n_row_classes;
            UNROLL for (u32 j = 0; j < PLACES; j++) {
                const u32* planes = stage + (k * LANES + warp + j * MOST_WARPS) * width;
                UNROLL for (u32 b = 0; b < ROWS; b++) {
                    const Free free = counts_of<PLANES>(planes, lane + b * LANES);
                    const u32 zeros = free.all - free.ones;
                    const Pair weight = load_pair(of_class + 2 * (i64)at[j][b]);
                    score[j][b] =
                        log_odds(score[j][b], weight.first, weight.second, free.ones, zeros);
                    c1[j][b] += free.ones;
                    c0[j][b] += zeros;
                }
            }
        }
    }
    Gained change = {0, 0};
    UNROLL for (u32 j = 0; j < PLACES; j++) {
        const i64 w = first_word + warp + j * MOST_WARPS;
        if (32 * w >= n_rows) continue;
        u32* to = factor + component * n_words + w;
        u32 old = *to, word = 0;
        UNROLL for (u32 b = 0; b < ROWS; b++) {
            const u32 bit = lane + b * LANES;
            const i64 i = 32 * w + bit;
            if (i >= n_rows) continue;
            u32 is_on = draw_bit(
                score[j][b], c1[j][b], c0[j][b], (old >> bit) & 1u, Stream{key, sweep}, site,
                rows, i, component, table, AllRows{all_rows, all_stride}, change
            );
            word |= is_on << bit;
        }
        word = or_lanes(word);
        if (lane == 0) *to = word;
    }
    change.add(gained);
}

KERNEL BOUNDED(32 * MOST_WARPS, 3) draw_short_by_class(DRAWING_BY_CLASS) {
    draw_rows_by_class<SLOT_PLANES>(THE_DRAWING_BY_CLASS);
}

KERNEL BOUNDED(32 * MOST_WARPS, 2) draw_by_class(DRAWING_BY_CLASS) {
    draw_rows_by_class<SUM_PLANES>(THE_DRAWING_BY_CLASS);
}

KERNEL BOUNDED(32 * MOST_WARPS, 2) draw_long_by_class(DRAWING_BY_CLASS) {
    draw_rows_by_class<LONG_PLANES>(THE_DRAWING_BY_CLASS);
}

// One block per LANES words of rows: write the free ones and free zeros of n rows, from row `first`
// of the words on. `out` has the shape (class, one or zero, row).
#define UNPACKING                                                                                \
    const u32 *counters, const u32 *slots, u32 n_classes, i64 n_words, i64 first_row, i64 n_rows, \
        u32 *out

template <u32 PLANES>
DEVICE void unpack_rows(UNPACKING) {
    SHARED_ARRAY(stage);
    const u32 width = Staged<PLANES>::WIDTH;
    for (u32 first = 0; first < n_classes; first += Staged<PLANES>::AT_ONCE) {
        add_slots<PLANES>(counters, slots, first, n_classes, n_words, stage);
        for (u32 k = 0; k < Staged<PLANES>::AT_ONCE && first + k < n_classes; k++) {
            const bool has_any = slots[first + k] < slots[first + k + 1];
            u32* to = out + (i64)(first + k) * 2 * n_rows;
            for (u32 place = warp_of(); place < LANES; place += n_warps())
                for (u32 bit = lane_of(); bit < 32; bit += LANES) {
                    const i64 i = 32 * ((i64)blockIdx.x * LANES + place) + bit - first_row;
                    if (i < 0 || i >= n_rows) continue;
                    Free free = {0, 0};
                    if (has_any) free = counts_of<PLANES>(stage + (k * LANES + place) * width, bit);
                    to[i] = free.ones;
                    to[n_rows + i] = free.all - free.ones;
                }
        }
    }
}

KERNEL unpack_short_counts(UNPACKING) {
    unpack_rows<SLOT_PLANES>(counters, slots, n_classes, n_words, first_row, n_rows, out);
}

KERNEL unpack_counts(UNPACKING) {
    unpack_rows<SUM_PLANES>(counters, slots, n_classes, n_words, first_row, n_rows, out);
}

KERNEL unpack_long_counts(UNPACKING) {
    unpack_rows<LONG_PLANES>(counters, slots, n_classes, n_words, first_row, n_rows, out);
}
