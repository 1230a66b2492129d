// --- the row update, vertical form: which columns to visit ---------------------------------------

// One thread per column: its components, as bits. `out` has the shape (n_columns, n_masks).
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

// One thread per column: a key by which columns with similar components become neighbours. First
// comes the class of the column, then the number of its components, then some of these as bits.
KERNEL list_keys(const u32* masks, u32 n_masks, i64 n_columns, const u32* classes, u64* keys) {
    const i64 column = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n_columns) return;
    u32 n = 0;
    for (u32 m = 0; m < n_masks; m++) n += popcount(masks[column * n_masks + m]);
    const u32 some = masks[column * n_masks] >> 5;
    keys[column] = (u64)classes[column] << 32 | (n < 31 ? n : 31) << 27 | some;
}

// One warp per word: which components have the columns at 32 places, given the components of every
// column. `out` has a line per component.
KERNEL spread_masks(
    const u32* masks, u32 n_masks, u32 n_components, const i64* places, i64 n, u32* out, i64 stride
) {
    const i64 w = (i64)blockIdx.x * n_warps() + warp_of();
    if (32 * w >= n) return;
    for (u32 m = 0; m < n_masks; m++) {
        u32 mine[32 / LANES], word = 0;
        UNROLL for (u32 i = 0; i < 32 / LANES; i++) {
            const i64 place = 32 * w + i * LANES + lane_of();
            mine[i] = place < n ? masks[places[place] * n_masks + m] : 0;
        }
        for (u32 b = 0; b < 32 && 32 * m + b < n_components; b++) {
            u32 bits = 0;
            UNROLL for (u32 i = 0; i < 32 / LANES; i++)
                bits |= lanes_with((mine[i] >> b) & 1) << (i * LANES);
            if (lane_of() == b % LANES) word = bits;
            if (LANES == 1) out[(32 * m + b) * stride + w] = word;
        }
        const u32 line = 32 * m + lane_of();
        if (LANES > 1 && line < n_components) out[line * stride + w] = word;
    }
}

// Return a word of a line without the bits before place `begin` and from place `end` on.
DEVICE u32 word_within(const u32* line, i64 w, i64 begin, i64 end) {
    u32 word = line[w];
    if (32 * w < begin) word &= FULL << (begin - 32 * w);
    if (32 * w + 32 > end) word &= FULL >> (32 * w + 32 - end);
    return word;
}

// One block per line (blockIdx.x) and class of columns (blockIdx.y): count the ones of the line at
// the places of the class, if columns are in the order of their classes.
KERNEL count_places(const u32* lines, i64 stride, const i64* edges, i64* counts) {
    const u32* line = lines + blockIdx.x * stride;
    const i64 begin = edges[blockIdx.y], end = edges[blockIdx.y + 1];
    i64 count = 0;
    for (i64 w = begin / 32 + threadIdx.x; 32 * w < end; w += blockDim.x)
        count += popcount(word_within(line, w, begin, end));
    count = add_block(count);
    if (threadIdx.x == 0) counts[(i64)blockIdx.x * gridDim.y + blockIdx.y] = count;
}

// One block per component (blockIdx.x), class and part of its words (blockIdx.y): list the columns of
// the class that the component uses, and fill the list up with NONE. The codes are in the order of
// `places`, which has the columns by class; `edges` are the first places of all classes.
KERNEL list_columns(
    const u32* codes, i64 stride, u32 n_parts, const i64* edges, const i64* places,
    const i64* starts, u32* columns
) {
    SHARED u32 sums[1024];
    const u32* line = codes + blockIdx.x * stride;
    const u32 of_class = blockIdx.y / n_parts, part = blockIdx.y % n_parts;
    const i64 first = edges[of_class], last = edges[of_class + 1], stop = (last + 31) / 32;
    const i64 share = (stop - first / 32 + n_parts * blockDim.x - 1) / (n_parts * blockDim.x);
    const i64 begin = first / 32 + (part * blockDim.x + threadIdx.x) * share;
    const i64 end = begin + share < stop ? begin + share : stop;
    i64 before = 0;  // what other parts list before this one
    for (i64 w = first / 32 + threadIdx.x; w < first / 32 + part * blockDim.x * share && w < stop;
         w += blockDim.x)
        before += popcount(word_within(line, w, first, last));
    before = add_block(before);
    u32 count = 0;
    for (i64 w = begin; w < end; w++) count += popcount(word_within(line, w, first, last));
    sums[threadIdx.x] = count;
    BARRIER();
    for (u32 step = 1; step < blockDim.x; step *= 2) {
        u32 more = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        BARRIER();
        sums[threadIdx.x] += more;
        BARRIER();
    }
    const i64* start = starts + (i64)blockIdx.x * (gridDim.y / n_parts) + of_class;
    u32* to = columns + start[0] + before + (sums[threadIdx.x] - count);
    for (i64 w = begin; w < end; w++)
        for (u32 word = word_within(line, w, first, last); word; word &= word - 1)
            *to++ = (u32)places[32 * w + lowest(word)];
    if (part + 1 < n_parts) return;
    i64 rest = start[0] + before + sums[blockDim.x - 1] + threadIdx.x;
    for (; rest < start[1]; rest += blockDim.x) columns[rest] = NONE;
}

// A record describes eight visits, in two groups of four:
//
//     8 words: the columns
//     2 words: the numbers of other components, for either group
//     2 words: for either group, a bit for each visit whose others have no room in the record
//     for either group, 8 times `room` words: other components of its four columns
//
// Other components that all four columns have come first, an even number of them; they are read once
// for the group. Then, from a multiple of four on, come the rest, as many for each column as the one
// with the most needs. Where there are fewer, the line of zeros is named instead, which covers
// nothing. Visits after the last name the line of ones: there everything is covered, so nothing is
// counted.
#define GROUP 4
#define EIGHT (2 * GROUP)
#define HEAD 12
#define RECORD 128  // the most words of a record: one vector for each thread of a warp

// Numbers of other components of a group: those that all columns have, and the rest of each.
struct Others {
    u32 both;

    DEVICE_MEMBER Others(u32 n_common, u32 n_own) : both(n_own << 16 | (n_common + 1) / 2 * 2) {
        if (n_common == 0) both += 2;
    }
    DEVICE_MEMBER Others(const u32* record, u32 side) : both(record[EIGHT + side]) {}
    DEVICE_MEMBER u32 n_common() const { return both & 0xffff; }
    DEVICE_MEMBER u32 n_own() const { return both >> 16; }
    DEVICE_MEMBER u32 first_own() const { return (n_common() + 3) / 4 * 4; }
    DEVICE_MEMBER u32 place(u32 visit, u32 other) const {  // two of a visit are neighbours
        if ((other | 1) < n_own()) return first_own() + other / 2 * 2 * GROUP + 2 * visit + other % 2;
        return first_own() + other * GROUP + visit;
    }
};

// Return the components of a column without the one given: 32 of them, from number 32 m on.
DEVICE u32 others_of(const u32* masks, i64 column, u32 m, u32 n_masks, u32 component) {
    u32 mask = masks[column * n_masks + m];
    return m == component >> 5 ? mask & ~(1u << (component & 31)) : mask;
}

// The same for the four columns of a group, and what all of them have.
struct GroupOthers {
    u32 each[GROUP], common;

    DEVICE_MEMBER GroupOthers(
        const u32* masks, const u32* columns, u32 m, u32 n_masks, u32 component
    ) : common(FULL) {
        UNROLL for (u32 i = 0; i < GROUP; i++) {
            each[i] = columns[i] == NONE ? 0 : others_of(masks, columns[i], m, n_masks, component);
            common &= each[i];
        }
    }
};

// One thread per visit (blockIdx.x: list of visits, blockIdx.y: part of it): write the records. Every
// component has `n_lists` lists, one per class of columns; if `n_lists` is zero, the lists belong to
// no component, and all components of a column cover it.
KERNEL list_visits(
    const u32* columns, const i64* starts, const u32* masks, u32 n_masks, u32 n_components,
    u32 n_lists, u32 room, u32* records
) {
    const u32 component = n_lists ? blockIdx.x / n_lists : NONE, size = HEAD + 2 * EIGHT * room;
    const i64 end = starts[blockIdx.x + 1];
    for (i64 p = starts[blockIdx.x] + (i64)blockIdx.y * blockDim.x + threadIdx.x; p < end;
         p += (i64)gridDim.y * blockDim.x) {
        const u32 v = p % EIGHT, mine = p % GROUP, side = v / GROUP;
        const u32* four = columns + p - mine;
        u32 n[GROUP], n_common = 0, n_own = 0, unlisted = 0;
        UNROLL for (u32 i = 0; i < GROUP; i++) n[i] = four[i] == NONE;
        for (u32 m = 0; m < n_masks; m++) {
            const GroupOthers of(masks, four, m, n_masks, component);
            n_common += popcount(of.common);
            UNROLL for (u32 i = 0; i < GROUP; i++) n[i] += popcount(of.each[i] & ~of.common);
        }
        UNROLL for (u32 i = 0; i < GROUP; i++) n_own = n[i] > n_own ? n[i] : n_own;
        Others numbers(n_common, n_own);
        if (numbers.first_own() + GROUP * n_own > EIGHT * room) {  // only fillers are listed
            numbers = Others(0u, 1u);
            UNROLL for (u32 i = 0; i < GROUP; i++) unlisted |= (u32)(four[i] != NONE) << i;
        }
        u32* record = records + p / EIGHT * size;
        u32 *others = record + HEAD + side * EIGHT * room, k = 0, c = 0;
        record[v] = four[mine] == NONE ? 0 : four[mine];
        if (four[mine] == NONE) others[numbers.place(mine, k++)] = n_components + 1;
        for (u32 m = 0; m < n_masks && !unlisted; m++) {
            const GroupOthers of(masks, four, m, n_masks, component);
            for (u32 left = of.each[mine] & ~of.common; left; left &= left - 1)
                others[numbers.place(mine, k++)] = 32 * m + lowest(left);
            for (u32 left = mine ? 0 : of.common; left; left &= left - 1)
                others[c++] = 32 * m + lowest(left);
        }
        for (; k < numbers.n_own(); k++) others[numbers.place(mine, k)] = n_components;
        if (mine) continue;
        for (; c < numbers.n_common(); c++) others[c] = n_components;
        record[EIGHT + side] = numbers.both;
        record[EIGHT + 2 + side] = unlisted;
    }
}
