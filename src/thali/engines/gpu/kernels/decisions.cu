// --- random decisions (decide.py, streams.py) ----------------------------------------------------

// The part of a random number's address that is the same for all decisions of a kernel.
struct Stream {
    u64 key;
    u32 sweep;
};

// Return the random number at an address (Philox 4x32 with ten rounds).
DEVICE u64 uniform64(Stream stream, u32 site, u32 row, u32 index) {
    u32 c0 = index, c1 = row, c2 = site, c3 = stream.sweep;
    u32 k0 = (u32)stream.key, k1 = (u32)(stream.key >> 32);
    UNROLL for (int round = 0; round < 10; round++) {
        u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c0 | ((u64)c1 << 32);
}

const i64 SCALE = 1 << 24;
const i64 LIMIT = 45 * SCALE;
const i64 FAR = 8 * SCALE;
const int SUM_SHIFT = 12;

// Return exp(-score) times 2^64, from three tables.
DEVICE u64 exp_neg(i64 score, const u64* table) {
    if (score >= LIMIT) return 0;
    u64 high = table[score >> 24];
    u64 middle = table[64 + ((score >> 12) & 4095)];
    u64 low = table[64 + 4096 + (score & 4095)];
    return multiply_high(multiply_high(high, middle), low);
}

// Return whether the less likely of two outcomes is drawn.
DEVICE bool is_unlikely(i64 score, u64 r, const u64* table) {
    i64 size = score < 0 ? -score : score;
    if (size >= FAR && r >= (1ull << 53)) return false;
    u64 e = exp_neg(size, table);
    return r < e && multiply_high(r, e) < e - r;
}

// Draw a bit whose log odds are `score`.
DEVICE bool gibbs_bit(i64 score, Stream stream, u32 site, u32 row, u32 index, const u64* table) {
    if (score >= LIMIT || score <= -LIMIT) return score >= 0;
    return (score >= 0) != is_unlikely(score, uniform64(stream, site, row, index), table);
}

// The scores of some choices, given numbers of ones and zeros. The table has three numbers per choice:
// its prior, and the weights of a one and a zero.
struct Scores {
    const i64* table;
    i64 n_ones, n_zeros;

    DEVICE_MEMBER i64 at(i64 k) const {
        const i64* choice = table + 3 * k;
        return log_odds(choice[0], choice[1], choice[2], n_ones, n_zeros);
    }
};

// Return the highest of n scores (of `Scores`, or of another type that has them).
template <class Choices>
DEVICE i64 best_of(const Choices& scores, i64 n) {
    i64 best = scores.at(0);
    for (i64 k = 1; k < n; k++) {
        i64 score = scores.at(k);
        best = score > best ? score : best;
    }
    return best;
}

template <class Choices>
DEVICE u64 weight_of(const Choices& scores, i64 k, i64 best, const u64* table) {
    return exp_neg(best - scores.at(k), table) >> SUM_SHIFT;
}

template <class Choices>
DEVICE u64 total_of(const Choices& scores, i64 n, i64 best, const u64* table) {
    u64 total = 0;
    for (i64 k = 0; k < n; k++) total += weight_of(scores, k, best, table);
    return total;
}

// Draw one of n choices with probabilities proportional to exp(score).
template <class Choices>
DEVICE i64 categorical(const Choices& scores, i64 n, u64 r, const u64* table) {
    i64 best = best_of(scores, n);
    u64 left = multiply_high(r, total_of(scores, n, best, table));
    for (i64 k = 0; k < n - 1; k++) {
        u64 weight = weight_of(scores, k, best, table);
        if (left < weight) return k;
        left -= weight;
    }
    return n - 1;
}

// Accept with probability min(1, total * 2^-52 * exp(log_scale)); `total` is a sum of weights.
DEVICE bool is_accepted(i64 log_scale, u64 total, u64 r, const u64* table) {
    if (log_scale >= 0) return true;
    return r >> SUM_SHIFT < multiply_high(total, exp_neg(-log_scale, table));
}

// Accept with probability min(1, 1 / (total * 2^-52 * exp(log_scale))): the reverse of such a move.
DEVICE bool is_inverse_accepted(i64 log_scale, u64 total, u64 r, const u64* table) {
    u64 scaled = multiply_high(r, total);
    if (log_scale >= 0) return scaled < exp_neg(log_scale, table) >> SUM_SHIFT;
    return multiply_high(scaled, exp_neg(-log_scale, table)) < (1ull << 52);
}
