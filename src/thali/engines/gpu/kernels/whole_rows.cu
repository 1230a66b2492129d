// --- whole rows, horizontal form -----------------------------------------------------------------

// The data of one mode, and the codes of the components, in which a row is a line of words.
struct Data {
    const u32* ones;
    const u32* known;  // null if all entries are known
    i64 stride;        // of `ones` and of `known`
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

// Covered ones and covered zeros of a row.
struct Counts {
    i64 tp, fp;
};

// One block: read which components a row has, as bits in shared memory.
DEVICE void read_row(
    const u32* factor, i64 stride, i64 row, u32 n_components, const u32* is_used, u32* active
) {
    BARRIER();
    for (u32 k = warp_of(); 32 * k < n_components; k += n_warps()) {
        u32 mask = 0;
        for (u32 bit = lane_of(); bit < 32 && 32 * k + bit < n_components; bit += LANES)
            mask |= ((factor[(32 * k + bit) * stride + (row >> 5)] >> (row & 31)) & 1u) << bit;
        mask = or_lanes(mask);
        if (lane_of() == 0) active[k] = is_used ? mask & is_used[k] : mask;
    }
    BARRIER();
}

#ifndef CHUNK
#define CHUNK 4  // vectors that a thread computes at once
#endif

// One thread: OR the codes of the active components at the vectors w, w + step, ... (CHUNK of them).
// Lines are padded with zeros.
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

// One block: count the entries of a row that its active components cover.
DEVICE Counts count_row(const Data& data, i64 row, const u32* active) {
    const u32* ones = data.ones + row * data.stride;
    const u32* known = data.known ? data.known + row * data.stride : 0;
    u32 tp = 0, all = 0;
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
            }
        }
    }
    // Two sums over threads at once: a row has fewer than 2^31 columns.
    const i64 covered = add_block((i64)all << 32 | tp);
    return {(u32)covered, (covered >> 32) - (u32)covered};
}

// One block per row: count its covered ones and covered zeros.
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
