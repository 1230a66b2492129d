// --- counts by class of columns ------------------------------------------------------------------

#define CLASSES 8  // classes that a thread counts at once

// One block: count the free ones and the free zeros of a row by class of columns, at the words from
// `begin` to `end`. One thread passes what was found in every class to the sink.
template <class Sink>
DEVICE void count_free(
    const Data& data, i64 row, const u32* active, i64 begin, i64 end, const u32* classes,
    i64 class_stride, u32 n_classes, const Sink& sink
) {
    const i64 step = VECTOR * blockDim.x;
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
                Vector free;
                UNROLL for (int v = 0; v < VECTOR; v++)
                    free.word[v] = free_words(known ? seen.word[v] : FULL, covered[c].word[v]);
                UNROLL for (u32 k = 0; k < CLASSES; k++) {
                    if (from + k >= n_classes) break;
                    Vector inside = load(classes + (i64)(from + k) * class_stride + at);
                    UNROLL for (int v = 0; v < VECTOR; v++) {
                        u32 bits = free.word[v] & inside.word[v];
                        n_free[k] += popcount(bits);
                        n_ones[k] += popcount(bits & x.word[v]);
                    }
                }
            }
        }
        UNROLL for (u32 k = 0; k < CLASSES; k++) {
            if (from + k >= n_classes) break;
            i64 all = add_block(n_free[k]), some = add_block(n_ones[k]);
            if (threadIdx.x == 0) sink.put(from + k, some, all - some);
        }
    }
}

// Adds counts up in global memory, since several blocks share a row.
struct Sum {
    u64* counts;

    DEVICE_MEMBER void put(u32 k, i64 n_ones, i64 n_zeros) const {
        if (n_ones) add_to(counts + 2 * k, (u64)n_ones);
        if (n_zeros) add_to(counts + 2 * k + 1, (u64)n_zeros);
    }
};

// One block per row (blockIdx.x) and part of its words (blockIdx.y): count the free ones and the
// free zeros of the row by class of columns.
KERNEL count_by_class(
    DATA, const u32* factor, i64 stride, i64 first, i64 n, const u32* is_counted,
    const u32* classes, i64 class_stride, u32 n_classes, u64* counts
) {
    const Data data = THE_DATA;
    SHARED_ARRAY(active);
    const i64 share = (data.n_words / VECTOR + gridDim.y) / gridDim.y * VECTOR;
    const i64 begin = blockIdx.y * share;
    const i64 end = begin + share < data.n_words ? begin + share : data.n_words;
    for (i64 i = blockIdx.x; i < n; i += gridDim.x) {
        read_row(factor, stride, first + i, data.n_components, is_counted, active);
        const Sum sum = {counts + 2 * i * n_classes};
        count_free(data, first + i, active, begin, end, classes, class_stride, n_classes, sum);
    }
}

// One block per row (blockIdx.x) and part of its words (blockIdx.y): count the free ones and the
// free zeros of the row in sets of columns, by the class of every column. Sets are boxes of a
// tensor, which have few columns: words without any are passed over, and every free entry of the
// others is counted by itself.
KERNEL count_by_column(
    DATA, const u32* factor, i64 stride, i64 first, i64 n, const u32* is_counted, const u32* sets,
    i64 set_stride, u32 n_sets, const u32* of_columns, u32 n_classes, u32* counts
) {
    const Data data = THE_DATA;
    SHARED_ARRAY(active);
    u32* found = active + (data.n_components + 31) / 32 + 1;
    const u32 n_found = 2 * n_sets * n_classes;
    const i64 step = VECTOR * blockDim.x;
    const i64 share = (data.n_words / VECTOR + gridDim.y) / gridDim.y * VECTOR;
    const i64 begin = blockIdx.y * share;
    const i64 end = begin + share < data.n_words ? begin + share : data.n_words;
    for (i64 i = blockIdx.x; i < n; i += gridDim.x) {
        const i64 row = first + i;
        for (u32 k = threadIdx.x; k < n_found; k += blockDim.x) found[k] = 0;
        read_row(factor, stride, row, data.n_components, is_counted, active);
        for (i64 w = begin + VECTOR * threadIdx.x; w < end; w += step) {
            Vector covered[CHUNK], x, seen;
            bool is_read = false;
            for (u32 k = 0; k < n_sets; k++) {
                Vector inside = load(sets + (i64)k * set_stride + w);
                u32 any = 0;
                UNROLL for (int v = 0; v < VECTOR; v++) any |= inside.word[v];
                if (!any) continue;
                if (!is_read) {
                    cover(data, active, w, data.n_words, covered);  // one vector, none after it
                    x = load(data.ones + row * data.stride + w);
                    if (data.known) seen = load(data.known + row * data.stride + w);
                    is_read = true;
                }
                UNROLL for (int v = 0; v < VECTOR; v++) {
                    u32 free =
                        free_words(data.known ? seen.word[v] : FULL, covered[0].word[v]);
                    for (u32 bits = inside.word[v] & free; bits; bits &= bits - 1) {
                        const u32 bit = lowest(bits);
                        const u32 of = of_columns[32 * (w + v) + bit];
                        const u32 is_zero = ~(x.word[v] >> bit) & 1u;
                        add_to(found + 2 * (k * n_classes + of) + is_zero, 1u);
                    }
                }
            }
        }
        BARRIER();
        for (u32 k = threadIdx.x; k < n_found; k += blockDim.x)
            if (found[k]) add_to(counts + i * n_found + k, found[k]);
        BARRIER();
    }
}
