// --- bit-sliced counters -------------------------------------------------------------------------
//
// Plane p of a counter holds bit p of 32 counts, one per row.

#define PART_PLANES 8    // the counts of one warp: to 255
#define SLOT_PLANES 10   // those of the four warps of a block: to 1,023
#define SHORT_PLANES 13  // the sums over all blocks: to 8,191,
#define SUM_PLANES 20    // to a million, or
#define LONG_PLANES 31   // to the length of any row

// Add three one-bit numbers: `sum` becomes the lower bit of the result, `carry` the upper one.
DEVICE void full_add(u32& sum, u32 a, u32 b, u32& carry) {
    carry = (sum & a) | (sum & b) | (a & b);
    sum ^= a ^ b;
}

// A counter to which one-bit numbers are added, four at a time.
struct Counter {
    u32 planes[PART_PLANES];

    // Add four numbers; what is returned counts four and is still to be added.
    DEVICE_MEMBER u32 add(u32 a, u32 b, u32 c, u32 d) {
        u32 two, other, carry;
        full_add(planes[0], a, b, two);
        full_add(planes[0], c, d, other);
        full_add(planes[1], two, other, carry);
        return carry;
    }

    // Add two numbers that count four each.
    DEVICE_MEMBER void add_fours(u32 a, u32 b) {
        u32 carry;
        full_add(planes[2], a, b, carry);
        UNROLL for (u32 p = 3; p < PART_PLANES; p++) {
            u32 old = planes[p];
            planes[p] = old ^ carry;
            carry &= old;
        }
    }
};
