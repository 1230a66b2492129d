// --- bits of rows: marked, flipped, counted, gathered, transposed --------------------------------

// One thread per number: the 64-bit random numbers at consecutive indices.
KERNEL draw_keys(u64 key, u32 sweep, u32 site, u32 row, i64 n, u64* out) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = uniform64(Stream{key, sweep}, site, row, (u32)i);
}

// One thread per listed row: switch on its bit.
KERNEL mark_rows(const i64* rows, i64 n, u32* words) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) or_to(words + (rows[i] >> 5), 1u << (rows[i] & 31));
}

// One warp or several (gridDim.y) per row: flip the bits of the columns that are listed for it, in
// compressed sparse rows with distinct entries. `columns` holds n entries, from number `first` on.
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

// One block or several (gridDim.y) per line: count its ones, and those inside a set. `counts` has
// the shape (n_lines, 2).
KERNEL count_lines(const u32* words, i64 stride, i64 n_words, const u32* inside, u64* counts) {
    const u32* line = words + blockIdx.x * stride;
    i64 all = 0, within = 0;
    for (i64 w = (i64)blockIdx.y * blockDim.x + threadIdx.x; w < n_words;
         w += (i64)gridDim.y * blockDim.x) {
        all += popcount(line[w]);
        if (inside) within += popcount(line[w] & inside[w]);
    }
    all = add_block(all);
    within = add_block(within);
    if (threadIdx.x == 0) {
        add_to(counts + 2 * blockIdx.x, (u64)all);
        add_to(counts + 2 * blockIdx.x + 1, (u64)within);
    }
}

// One block per listed line, each with a single one: find the position of its row among the sorted
// `rows`, and add one there.
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

// One warp per word of the result: gather the bits of the listed rows of every line. Two more lines
// follow, one of zeros and one of ones.
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
    word = or_lanes(word);
    if (lane_of() == 0) out[blockIdx.x * out_stride + w] = word;
}

// One thread per 32 x 32 bits: transpose rows, so that out[column] has a bit for each of them. Blocks
// have MOST_WARPS warps; few registers let five of them share a processor. Lines of the stage are so
// long that neither writing nor reading it makes two threads wait for each other.
KERNEL BOUNDED(LANES * MOST_WARPS, 5) transpose_rows(
    const u32* source, i64 stride, const i64* rows, i64 first, i64 n, i64 n_words, u32* out,
    i64 out_stride
) {
    const u32 height = MOST_WARPS + 1, line = LANES * height + MOST_WARPS;
    SHARED u32 stage[32 * line];
    const u32 lane = lane_of(), warp = warp_of();
    const i64 w = (i64)blockIdx.x * LANES + lane;
    const i64 group = (i64)blockIdx.y * MOST_WARPS + warp;
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
    UNROLL for (int c = 0; c < 32; c++) stage[c * line + lane * height + warp] = tile[c];
    BARRIER();
    const u32 part = threadIdx.x % MOST_WARPS;  // neighbouring threads write neighbouring words
    const i64 to = (i64)blockIdx.y * MOST_WARPS + part, first_column = 32 * (i64)blockIdx.x * LANES;
    if (to >= out_stride) return;
    for (u32 k = threadIdx.x / MOST_WARPS; k < 32 * LANES; k += LANES) {
        const i64 column = first_column + k;
        if (column < 32 * n_words)
            out[column * out_stride + to] = stage[(k % 32) * line + (k / 32) * height + part];
    }
}

// One component per blockIdx.y: copy a line of words to every place of the outer line that is on.
KERNEL spread_lines(
    const u32* outer, i64 outer_stride, u32 n_outer, const u32* inner, i64 inner_stride, u32 width,
    u32* out, i64 stride
) {
    outer += blockIdx.y * outer_stride;
    inner += blockIdx.y * inner_stride;
    out += blockIdx.y * stride;
    for (u32 w = blockIdx.x * blockDim.x + threadIdx.x; w < n_outer * width;
         w += gridDim.x * blockDim.x) {
        const u32 o = w / width;
        out[w] = (outer[o >> 5] >> (o & 31)) & 1u ? inner[w - o * width] : 0;
    }
}
