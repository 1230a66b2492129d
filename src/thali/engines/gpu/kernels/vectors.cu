// --- four words at once --------------------------------------------------------------------------

#define VECTOR 4         // words of 32 rows a thread counts at once

// Consecutive words, which a thread loads and stores with one instruction.
struct Vector {
    u32 word[VECTOR];
};

DEVICE Vector load(const u32* from) {
    Vector v;
#ifdef __CUDACC__
    uint4 four = *(const uint4*)from;
    v.word[0] = four.x;
    v.word[1] = four.y;
    v.word[2] = four.z;
    v.word[3] = four.w;
#else
    for (int i = 0; i < VECTOR; i++) v.word[i] = from[i];
#endif
    return v;
}

DEVICE void store(u32* to, const Vector& v) {
#ifdef __CUDACC__
    *(uint4*)to = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);
#else
    for (int i = 0; i < VECTOR; i++) to[i] = v.word[i];
#endif
}

// Two numbers, which a thread loads with one instruction.
struct Pair {
    i64 first, second;
};

DEVICE Pair load_pair(const i64* from) {
#ifdef __CUDACC__
    longlong2 two = *(const longlong2*)from;
    return {two.x, two.y};
#else
    return {from[0], from[1]};
#endif
}

DEVICE void include(Vector& all, const Vector& more) {
    UNROLL for (int v = 0; v < VECTOR; v++) all.word[v] |= more.word[v];
}

// Lines of words in global memory, `size` bytes apart, beginning where the thread reads: one
// multiplication finds the address of a vector.
struct Lines {
    const char* words;
    u32 size;

    DEVICE_MEMBER Vector at(u32 line) const { return load((const u32*)(words + (u64)line * size)); }
};

// Lines of words in shared memory, whose addresses have 32 bits.
struct Tile {
#ifdef __CUDACC__
    u32 words;

    DEVICE_MEMBER Tile(const u32* from) {
        words = (u32)__cvta_generic_to_shared(from);
        asm("" : "+r"(words));  // otherwise it is added to each address separately
    }

    DEVICE_MEMBER Vector at(u32 line) const {
        const u32 size = 4 * LANES * VECTOR;
        return load((const u32*)__cvta_shared_to_generic(words + line * size));
    }
#else
    const u32* words;

    Tile(const u32* from) : words(from) {}

    Vector at(u32 line) const { return load(words + line * LANES * VECTOR); }
#endif
};
