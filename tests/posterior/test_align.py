"""Alignment against all assignments and plain loops."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thali.bits import Factor
from thali.posterior.align import UNMATCHED_COST, align, jaccard, match

SEED = st.integers(0, 2**32 - 1)
SHAPE = st.sampled_from([(4, 70), (65, 3), (5, 3, 66), (2, 2)])
check = settings(deadline=None, max_examples=60, derandomize=True)


def dense_draw(shape, n_components, rng):
    """Return dense factors; some columns are empty, some twice there."""
    factors = [rng.random((n, n_components)) < 0.4 for n in shape]
    if n_components > 2:
        factors[0][:, 0] = False
        for factor in factors:
            factor[:, 2] = factor[:, 1]
    return factors


def packed(factors):
    return tuple(Factor.from_dense(f) for f in factors)


def loop_distance(left, right, i, j):
    """Return the mean over modes of the Jaccard distance, entry by entry."""
    total = 0.0
    for a, b in zip(left, right, strict=True):
        both = sum(1 for x, y in zip(a[:, i], b[:, j], strict=True) if x and y)
        either = sum(1 for x, y in zip(a[:, i], b[:, j], strict=True) if x or y)
        total += 1.0 - both / either if either else 0.0
    return total / len(left)


def cost(distances, partners):
    """Return the loss of a matching as the rule states it."""
    matched = [(i, j) for i, j in enumerate(partners) if j >= 0]
    n_alone = sum(distances.shape) - 2 * len(matched)
    return sum(distances[i, j] for i, j in matched) + UNMATCHED_COST * n_alone


def all_matchings(n_left, n_right):
    """Yield every partial matching as partners of the left side."""
    choices = [*range(n_right), *[-1] * n_left]
    return {p[:n_left] for p in permutations(choices, n_left)}


@check
@given(SHAPE, st.integers(0, 4), st.integers(0, 4), SEED)
def test_distances(shape, n_left, n_right, seed):
    """Distances on packed words equal plain loops; both sum the modes in order."""
    rng = np.random.default_rng(seed)
    left, right = dense_draw(shape, n_left, rng), dense_draw(shape, n_right, rng)
    expected = [[loop_distance(left, right, i, j) for j in range(n_right)] for i in range(n_left)]
    got = jaccard(packed(left), packed(right))
    assert np.array_equal(got, np.reshape(expected, (n_left, n_right)))


@check
@given(SHAPE, st.integers(0, 4), st.integers(0, 4), SEED)
def test_best_of_all_matchings(shape, n_left, n_right, seed):
    """No partial matching costs less, and no pair is matched that gains nothing."""
    rng = np.random.default_rng(seed)
    left, right = dense_draw(shape, n_left, rng), dense_draw(shape, n_right, rng)
    partners, distances = match(packed(left), packed(right))
    used = [p for p in partners if p >= 0]
    assert len(set(used)) == len(used)
    best = min(cost(distances, p) for p in all_matchings(n_left, n_right))
    # Sums of at most 12 numbers below 1 in different orders differ by less than 1e-14.
    assert cost(distances, partners) <= best + 1e-14
    assert all(distances[i, p] < 1.0 for i, p in enumerate(partners) if p >= 0)


@check
@given(SHAPE, SEED)
def test_order_of_components_and_draws_is_irrelevant(shape, seed):
    """Permuting components within draws, and the draws, changes no bit of the means."""
    rng = np.random.default_rng(seed)
    draws = [packed(dense_draw(shape, rng.integers(0, 5), rng)) for _ in range(5)]
    reference = packed(dense_draw(shape, 3, rng))
    before = align(draws, reference)
    orders = [rng.permutation(d[0].n_components) for d in draws]
    shuffle = rng.permutation(len(draws))
    relabelled = [tuple(f.take(o) for f in d) for d, o in zip(draws, orders, strict=True)]
    after = align([relabelled[i] for i in shuffle], reference)
    for old, new in zip(before.means, after.means, strict=True):
        assert np.array_equal(old, new, equal_nan=True)
    assert np.array_equal(before.matched, after.matched)
    assert np.array_equal(before.similarity, after.similarity, equal_nan=True)
    assert np.array_equal(before.unmatched[shuffle], after.unmatched)


@check
@given(SHAPE, SEED)
def test_means_are_averages_of_partners(shape, seed):
    """Everything reported follows from the assignments by plain loops."""
    rng = np.random.default_rng(seed)
    dense = [dense_draw(shape, rng.integers(0, 5), rng) for _ in range(6)]
    reference = dense_draw(shape, 3, rng)
    result = align(map(packed, dense), packed(reference))
    assert result.assignments.shape == (6, 3)
    for component in range(3):
        pairs = [(d, result.assignments[s, component]) for s, d in enumerate(dense)]
        pairs = [(d, p) for d, p in pairs if p >= 0]
        assert result.matched[component] == len(pairs) / 6
        for mode, mean in enumerate(result.means):
            column = sum(d[mode][:, p].astype(int) for d, p in pairs)
            expected = column / len(pairs) if pairs else np.full(shape[mode], np.nan)
            assert np.array_equal(mean[:, component], expected, equal_nan=True)
        similar = [1.0 - loop_distance(reference, d, component, p) for d, p in pairs]
        expected = np.mean(similar) if pairs else np.nan
        # Six numbers below 1 summed in another way.
        np.testing.assert_allclose(result.similarity[component], expected, rtol=0, atol=1e-15)
    for s, d in enumerate(dense):
        n_used = sum(p >= 0 for p in result.assignments[s])
        assert result.unmatched[s] == d[0].shape[1] - n_used


def test_duplicates():
    """Of two equal columns one is matched; a reference with two of them gets one partner."""
    first = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], bool)
    twice = packed([first, first])
    once = packed([first[:, 1:], first[:, 1:]])
    result = align([twice, once], once)
    assert result.unmatched.tolist() == [1, 0]
    assert result.matched.tolist() == [1.0, 1.0]
    assert np.array_equal(result.means[0], first[:, 1:].astype(float))
    result = align([once], twice)
    assert sorted(result.matched[:2].tolist()) == [0.0, 1.0]
    assert result.matched[2] == 1.0
    assert np.isnan(result.means[0][:, :2]).any(axis=0).tolist().count(True) == 1


def test_strangers_stay_alone():
    """Components without a common row are not matched, although the costs are equal."""
    one = np.array([[1], [0]], bool)
    result = align([packed([~one, ~one])], packed([one, one]))
    assert result.assignments.tolist() == [[-1]]
    assert result.unmatched.tolist() == [1]
    assert result.matched.tolist() == [0.0]


def test_empty_columns_are_alike():
    """Two empty columns of a mode are at distance 0 there."""
    none, some = np.zeros((3, 1), bool), np.ones((3, 1), bool)
    assert jaccard(packed([none, some]), packed([none, some])).tolist() == [[0.0]]
    assert jaccard(packed([none, some]), packed([some, some])).tolist() == [[0.5]]


def test_nothing_to_match():
    """A reference, or draws, without components give empty results."""
    rng = np.random.default_rng(0)
    some, none = dense_draw((3, 70), 2, rng), dense_draw((3, 70), 0, rng)
    result = align([packed(some), packed(none)], packed(none))
    assert [m.shape for m in result.means] == [(3, 0), (70, 0)]
    assert result.assignments.shape == (2, 0)
    assert result.unmatched.tolist() == [2, 0]
    result = align([packed(none)], packed(some))
    assert result.matched.tolist() == [0.0, 0.0]
    assert np.isnan(result.means[1]).all()


def test_messages():
    """Bad input is refused in one sentence."""
    rng = np.random.default_rng(0)
    reference = packed(dense_draw((3, 5), 2, rng))
    with pytest.raises(ValueError, match="no draws were given"):
        align([], reference)
    with pytest.raises(ValueError, match=r"rows was given for a reference with \(3, 5\)"):
        align([packed(dense_draw((3, 6), 2, rng))], reference)


def test_probabilities_are_shares_of_all_draws():
    """A draw without a partner counts as one in which no row has the component."""
    rows, columns = np.array([[1], [1], [0]], bool), np.array([[1], [0], [1]], bool)
    nothing = [Factor.from_dense(part[:, :0]) for part in (rows, columns)]
    there = [Factor.from_dense(part) for part in (rows, columns)]
    alignment = align([there, there, nothing, nothing], there)
    assert alignment.matched.tolist() == [0.5]
    assert alignment.means[0].tolist() == [[1.0], [1.0], [0.0]]
    assert alignment.probabilities[0].tolist() == [[0.5], [0.5], [0.0]]
    never = align([nothing], there)
    assert never.probabilities[0].tolist() == [[0.0]] * 3
