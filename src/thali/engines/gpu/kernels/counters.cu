#define PART_PLANES 8    // a warp counts to 255,
#define SLOT_PLANES 10   // four of them together to 1023,
#define SHORT_PLANES 13  // all of them to 8191,
#define SUM_PLANES 20    // a million, or
#define LONG_PLANES 31   // as far as a row may be long

DEVICE void full_add(u32& sum, u32 a, u32 b, u32& carry) {
    carry = (sum & a) | (sum & b) | (a & b);
    sum ^= a ^ b;
}

// A bit-sliced counter to which one-bit numbers are added, four at a time.
struct Counter {
    u32 planes[PART_PLANES];

    // Returns a carry worth four.
    DEVICE_MEMBER u32 add(u32 a, u32 b, u32 c, u32 d) {
        u32 two, other, carry;
        full_add(planes[0], a, b, two);
        full_add(planes[0], c, d, other);
        full_add(planes[1], two, other, carry);
        return carry;
    }

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
