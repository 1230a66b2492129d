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

// One block per component (blockIdx.x) and class (blockIdx.y): list the columns of the class that
// the component uses, and fill the list up with NONE. With classes, the codes are in the order of
// the classes: `edges` are the first places of all classes, `places` the column at every place.
KERNEL list_columns(
    const u32* codes, i64 stride, i64 n_words, const i64* edges, const i64* places,
    const i64* starts, u32* columns
) {
    SHARED u32 sums[1024];
    const u32* line = codes + blockIdx.x * stride;
    const i64 first = edges ? edges[blockIdx.y] : 0;
    const i64 last = edges ? edges[blockIdx.y + 1] : 32 * n_words;
    const i64 stop = (last + 31) / 32;
    const i64 share = (stop - first / 32 + blockDim.x - 1) / blockDim.x;
    const i64 begin = first / 32 + threadIdx.x * share;
    const i64 end = begin + share < stop ? begin + share : stop;
    u32 count = 0;
    for (i64 w = begin; w < end; w++) count += popcount(word_within(line, w, first, last));
    sums[threadIdx.x] = count;
    BARRIER();
    for (u32 step = 1; step < blockDim.x; step *= 2) {
        u32 before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        BARRIER();
        sums[threadIdx.x] += before;
        BARRIER();
    }
    const i64* start = starts + (i64)blockIdx.x * gridDim.y + blockIdx.y;
    u32* to = columns + start[0] + (sums[threadIdx.x] - count);
    for (i64 w = begin; w < end; w++)
        for (u32 word = word_within(line, w, first, last); word; word &= word - 1) {
            i64 place = 32 * w + lowest(word);
            *to++ = (u32)(places ? places[place] : place);
        }
    i64 rest = start[0] + sums[blockDim.x - 1] + threadIdx.x;
    for (; rest < start[1]; rest += blockDim.x) columns[rest] = NONE;
}

// A record describes eight visits, in two groups of four:
//
//     8 words: the columns
//     2 words: the numbers of pairs of either group
//     1 word:  a bit for each visit whose column has more other components than there is room for
//     1 word:  unused
//     for either group, `room` times: two other components of each of its four columns
//
// A group has as many pairs as the column with the most other components needs. Columns with fewer
// name the line of zeros instead, which covers nothing. Visits after the last name the line of
// ones: there everything is covered, so nothing is counted.
#define GROUP 4
#define EIGHT (2 * GROUP)
#define HEAD 12
#define RECORD 128   // the most words of a record: one vector for each thread of a warp
#define WINDOW 1024  // visits sorted together by their number of pairs, so that groups need few
#define CLASSES_OF_VISITS 16

// Return the components of a column without the one given: 32 of them, from number 32 m on.
DEVICE u32 others_of(const u32* masks, i64 column, u32 m, u32 n_masks, u32 component) {
    u32 mask = masks[column * n_masks + m];
    return m == component >> 5 ? mask & ~(1u << (component & 31)) : mask;
}

// One block per list of visits (blockIdx.x) and window of it (blockIdx.y): write the records. Every
// component has `n_lists` lists, one per class of columns; if `n_lists` is zero, the lists belong to
// no component, and all components of a column cover it.
KERNEL list_visits(
    const u32* columns, const i64* starts, const u32* masks, u32 n_masks, u32 n_components,
    u32 n_lists, u32 room, u32* records
) {
    SHARED u32 n_of[CLASSES_OF_VISITS], n_pairs[WINDOW], rank[WINDOW], sorted[WINDOW];
    const u32 component = n_lists ? blockIdx.x / n_lists : NONE, size = HEAD + 2 * EIGHT * room;
    const i64 end = starts[blockIdx.x + 1];
    for (i64 start = starts[blockIdx.x] + (i64)blockIdx.y * WINDOW; start < end;
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
