// --- the rule of every conditional ---------------------------------------------------------------

// Return which entries are free: those that are known and that no other component covers. Only
// they bear on whether a component should be on.
DEVICE u32 free_words(u32 known, u32 covered) { return known & ~covered; }

// Return the log odds that a bit is on, from its prior log odds and from the numbers of ones and
// zeros among the free entries that the bit would cover. Updates use integers, as in decide.py.
template <class Number>
DEVICE Number log_odds(
    Number prior, Number one_weight, Number zero_weight, i64 n_ones, i64 n_zeros
) {
    return prior + one_weight * n_ones + zero_weight * n_zeros;
}
