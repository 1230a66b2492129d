// --- the rule of every conditional ---------------------------------------------------------------

// The entries that are free: known, and not covered by any (other) component. Only these tell
// whether a component should cover them.
DEVICE u32 free_words(u32 known, u32 covered) { return known & ~covered; }

// The log odds of switching a bit on, from its prior and the ones and zeros among the free entries
// that the component uses (docs/model.md). Integers, as in decide.py.
DEVICE i64 log_odds(i64 prior, i64 one_weight, i64 zero_weight, i64 n_ones, i64 n_zeros) {
    return prior + one_weight * n_ones + zero_weight * n_zeros;
}
