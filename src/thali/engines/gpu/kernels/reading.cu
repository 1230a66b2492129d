// --- the row update, vertical form: records and their data -----------------------------------------

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

// Load the words of the four columns of a group.
DEVICE void load_group(const Lines& lines, const u32* record, u32 side, Vector x[GROUP]) {
    Vector columns = load(record + side * GROUP);
    UNROLL for (int k = 0; k < GROUP; k++) x[k] = lines.at(columns.word[k]);
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

// The records of one warp, with their data. While a record is counted, the data of the next one are
// being loaded, and the record after that.
struct Reading {
    Lines ones;
    u32 *now, *then;  // shared memory of the warp, for a record each
    u32 next, step, last;
    u32 n;  // number of records that are left
    RecordCopy copy;
    Vector x[2][GROUP];

    // Begin to read; `own` is shared memory of the warp for two records.
    DEVICE_MEMBER void begin(const Counting& job, const Share& share, u32* own) {
        const i64 at = ((i64)job.tile * LANES + lane_of()) * VECTOR;
        ones = {(const char*)(job.ones + (at < job.n_words ? at : 0)), 4 * (u32)job.stride};
        now = own;
        then = own + RECORD;
        next = share.next;
        step = share.step;
        last = share.end - 1;
        n = 0;
        if (next >= share.end) return;
        n = (last - next) / step + 1;
        copy.fetch(job, next);
        copy.put(job, now);
        if (n > 1) next += step;
        copy.fetch(job, next);
        copy.put(job, then);
        if (n > 2) next += step;
        copy.fetch(job, next);
        UNROLL for (u32 side = 0; side < 2; side++) load_group(ones, now, side, x[side]);
    }

    DEVICE_MEMBER void load_next(u32 side) { load_group(ones, then, side, x[side]); }

    DEVICE_MEMBER void go_on(const Counting& job) {
        copy.put(job, now);
        if (next + step <= last) next += step;
        copy.fetch(job, next);
        u32* swap = now;
        now = then;
        then = swap;
    }
};
