"""Memberships of new rows agree with the posterior summed in plain loops."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

from thali.bits import PackedTensor, Unfolding, pack
from thali.data import BinaryTensor
from thali.model import Noise
from thali.posterior import new_row_plan, new_rows
from thali.posterior.new_rows import Components, log_scores, memberships, predictive

METHODS = ["enumeration", "gibbs"]
RATES = Noise(spurious=0.1, dropped=0.25)


def make(n_rows, n_columns, n_components, *, seed=0, unknown=0.3, noise=RATES):
    """Return components at random and rows that have some of them."""
    rng = np.random.default_rng(seed)
    codes = rng.random((n_columns, n_components)) < 0.4
    odds = rng.normal(-0.5, 1.0, n_components)
    has = rng.random((n_rows, n_components)) < 0.4
    covered = (has[:, None, :] & codes[None]).any(axis=2)
    chance = np.where(covered, 1.0 - noise.dropped, noise.spurious)
    dense = (rng.random(covered.shape) < chance).astype(float)
    dense[rng.random(dense.shape) < unknown] = np.nan
    return dense, Components(codes, odds, noise)


def brute_force(row, components):
    """Sum over all states in plain loops: memberships and the coverage of every column."""
    codes, odds, (spurious, dropped) = components
    n_columns, n_components = codes.shape
    total = 0.0
    has = np.zeros(n_components)
    covers = np.zeros(n_columns)
    for state in itertools.product((0, 1), repeat=n_components):
        weight = math.exp(sum(z * o for z, o in zip(state, odds, strict=True)))
        covered = [any(z and codes[d, l] for l, z in enumerate(state)) for d in range(n_columns)]
        for d in range(n_columns):
            if row[d] == 1:
                weight *= 1.0 - dropped if covered[d] else spurious
            elif row[d] == 0:
                weight *= dropped if covered[d] else 1.0 - spurious
        total += weight
        has += weight * np.array(state, float)
        covers += weight * np.array(covered)
    return has / total, covers / total


@pytest.mark.parametrize("n_components", range(7))
@pytest.mark.parametrize("unknown", [0.0, 0.4])
def test_enumeration_equals_the_sum_over_states(n_components, unknown):
    """Memberships and predictions equal brute force, with unequal rates and unknown entries."""
    dense, components = make(6, 9, n_components, seed=n_components, unknown=unknown)
    rows = BinaryTensor.from_any(dense)
    has, reads = memberships(rows, components), predictive(rows, components)
    assert has.shape == (6, n_components)
    spurious, dropped = components.noise
    for i, row in enumerate(dense):
        expected, covers = brute_force(row, components)
        np.testing.assert_allclose(has[i], expected, rtol=1e-12, atol=1e-14)
        chance = spurious + covers * (1.0 - dropped - spurious)
        np.testing.assert_allclose(reads[i], chance, rtol=1e-12)


@pytest.mark.parametrize("n_columns", [1, 3, 9, 70])
def test_score_predicts_every_entry_from_the_other_parts(n_columns):
    """An entry's probability is computed from a row in which its whole part is unknown."""
    dense, components = make(4, n_columns, 3, seed=n_columns)
    dense[:, 0] = 1.0  # something is known even where there is one column
    scores = log_scores(BinaryTensor.from_any(dense), components)
    spurious, dropped = components.noise
    for i, row in enumerate(dense):
        expected = 0.0
        for d in np.flatnonzero(~np.isnan(row)):
            given = np.where(np.arange(n_columns) % 5 == d % 5, np.nan, row)
            covers = brute_force(given, components)[1][d]
            chance = spurious + covers * (1.0 - dropped - spurious)
            expected += math.log(chance if row[d] == 1 else 1.0 - chance)
        assert scores.total[i] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(scores.n_known, (~np.isnan(dense)).sum(axis=1))


def test_gibbs_agrees_with_enumeration():
    """The chain is near the exact answer at 12 components, where nearly all are uncertain.

    An average of 1000 conditional probabilities whose chain has an autocorrelation time of tau
    has a standard error of at most sqrt(tau / 1000) / 2: 0.03 for tau of 4. The root mean square
    over all rows must be below that, and the largest of 720 errors below five of them.
    """
    dense, components = make(60, 40, 12, seed=3, noise=Noise(0.1, 0.15))
    rows = BinaryTensor.from_any(dense)
    exact = memberships(rows, components, method="enumeration")
    assert ((exact > 0.02) & (exact < 0.98)).mean() > 0.2
    error = memberships(rows, components, method="gibbs") - exact
    assert np.sqrt((error**2).mean()) < 0.03
    assert np.abs(error).max() < 0.15
    exact = predictive(rows, components, method="enumeration")
    error = predictive(rows, components, method="gibbs") - exact
    assert np.sqrt((error**2).mean()) < 0.03
    scores = [log_scores(rows, components, method=m).total.sum() for m in METHODS]
    assert scores[0] == pytest.approx(scores[1], rel=0.01)


@pytest.mark.parametrize("n_components", [2, 13])
def test_gibbs_moves_between_twins(n_components, monkeypatch):
    """Of two rare components with the same columns a row has either, never both or none.

    Single bits change one for the other every exp(6) sweeps. An exchange with the twin, which
    forgets the past, is tried at least once in two sweeps (by each of the two, one time in
    four or more): an autocorrelation time of at most 3 sweeps and a standard error of
    sqrt(3 / 1000) / 2 = 0.027, over 8 chains 0.010, of which four are allowed.
    """
    codes = np.zeros((60, n_components), bool)
    codes[:40, :2] = True
    codes[40:, 2:] = True
    components = Components(codes, np.full(n_components, -6.0), Noise(0.1, 0.1))
    row = BinaryTensor.from_any((np.arange(60) < 40).astype(float)[None])
    exact = memberships(row, components, method="enumeration")
    np.testing.assert_allclose(exact[0, :2], 0.5, atol=0.01)
    numbers = new_row_plan._numbers
    found = []
    for key in range(8):
        monkeypatch.setattr(new_row_plan, "_numbers", lambda n, key=key: numbers(n, key))
        found.append(memberships(row, components, method="gibbs"))
    np.testing.assert_allclose(np.mean(found, axis=0), exact, atol=0.04)


def test_gibbs_starts_every_row_anew():
    """A chain that cannot leave its start does not start from where the row before ended.

    One component or two others explain the second row equally well, with nothing in between; the
    columns in which the first row differs are unknown there.
    """
    codes = np.zeros((100, 3), bool)
    codes[:60, 0] = codes[:30, 1] = codes[30:60, 2] = True
    codes[60:80, 1] = codes[80:, 2] = True
    components = Components(codes, np.array([-30.0, -15.0, -15.0]), Noise(0.01, 0.01))
    dense = np.ones((2, 100))
    dense[1, 60:] = np.nan
    both = memberships(BinaryTensor.from_any(dense), components, method="gibbs", threads=1)
    alone = memberships(BinaryTensor.from_any(dense[1:]), components, method="gibbs")
    np.testing.assert_allclose(both[0], [0.0, 1.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(both[1], [1.0, 0.0, 0.0], atol=1e-6)  # what gains most comes first
    np.testing.assert_array_equal(both[1], alone[0])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_columns", [5, 64, 130])
def test_row_without_known_entries_gets_the_prior(method, n_columns):
    """Where nothing is known the prior odds answer, to rounding (2**-24 of the chain's scores)."""
    _, components = make(1, n_columns, 4, seed=1)
    nothing = pack(np.zeros((2, n_columns), bool))
    rows = Unfolding(nothing, nothing)
    prior = 1.0 / (1.0 + np.exp(-components.odds))
    has = memberships(rows, components, method=method)
    np.testing.assert_allclose(has, [prior, prior], atol=1e-7)
    scores = log_scores(rows, components, method=method)
    assert scores.total.tolist() == [0.0, 0.0]
    assert scores.n_known.tolist() == [0, 0]


@pytest.mark.parametrize(
    "function", [memberships, predictive, lambda *a, **k: log_scores(*a, **k).total]
)
@pytest.mark.parametrize("method", METHODS)
def test_row_depends_on_nothing_but_itself(function, method, monkeypatch):
    """Order, selection, blocks, threads and the other rows' unknown entries change no bit."""
    dense, components = make(23, 70, 5, seed=2)
    dense[:8] = np.nan_to_num(dense[:8])
    rows = BinaryTensor.from_any(dense)
    all_rows = function(rows, components, method=method, threads=1)
    order = np.random.default_rng(0).permutation(23)
    shuffled = BinaryTensor.from_any(dense[order])
    np.testing.assert_array_equal(function(shuffled, components, method=method), all_rows[order])
    known = BinaryTensor.from_any(dense[:8])
    assert known.unknown is None
    np.testing.assert_array_equal(function(known, components, method=method), all_rows[:8])
    np.testing.assert_array_equal(function(rows, components, method=method, threads=3), all_rows)
    monkeypatch.setattr(new_rows, "_BLOCK_ENTRIES", 4 * 70)
    np.testing.assert_array_equal(function(rows, components, method=method), all_rows)


@pytest.mark.parametrize("method", METHODS)
def test_every_form_of_rows_gives_the_same(method):
    """Dense, sparse and packed rows are the same rows."""
    dense, components = make(11, 70, 4, seed=5)
    rows = BinaryTensor.from_any(dense)
    expected = memberships(rows, components, method=method)
    matrix = sparse.csr_array(dense)
    assert BinaryTensor.from_any(matrix).is_sparse
    packed = PackedTensor.from_tensor(rows)
    for other in (BinaryTensor.from_any(matrix), packed, packed.unfoldings[0]):
        np.testing.assert_array_equal(memberships(other, components, method=method), expected)


def test_sparse_rows_are_packed_a_block_at_a_time(monkeypatch):
    """No more rows of a sparse matrix are held as bits than a block has."""
    dense, components = make(20, 70, 2, unknown=0.0)
    heights = []
    block = new_rows._block

    def spy(rows, lo, hi):
        heights.append(hi - lo)
        return block(rows, lo, hi)

    monkeypatch.setattr(new_rows, "_block", spy)
    monkeypatch.setattr(new_rows, "_BLOCK_ENTRIES", 3 * 70)
    memberships(BinaryTensor.from_any(sparse.csr_array(dense)), components)
    assert max(heights) == 3
    assert sum(heights) == 20


def test_many_components_use_the_chain(monkeypatch):
    """From the limit on the chain answers, and below it the sum."""
    dense, components = make(3, 20, 6)
    rows = BinaryTensor.from_any(dense)
    results = {m: memberships(rows, components, method=m) for m in METHODS}
    np.testing.assert_array_equal(memberships(rows, components), results["enumeration"])
    monkeypatch.setattr(new_row_plan, "MOST_ENUMERATED", 5)
    np.testing.assert_array_equal(memberships(rows, components), results["gibbs"])
    assert (results["gibbs"] != results["enumeration"]).any()


def test_chain_of_no_components():
    """Both methods say that nothing is covered."""
    dense, components = make(3, 20, 0)
    rows = BinaryTensor.from_any(dense)
    for method in METHODS:
        assert memberships(rows, components, method=method).shape == (3, 0)
        np.testing.assert_array_equal(predictive(rows, components, method=method), 0.1)


def test_extreme_rows_give_certainty_not_nonsense():
    """Thousands of columns and the smallest rates overflow nothing."""
    codes = np.zeros((6000, 2), bool)
    codes[:3000, 0] = codes[3000:, 1] = True
    components = Components(codes, np.zeros(2), Noise(1e-12, 1e-12))
    dense = np.zeros((1, 6000))
    dense[0, :3000] = 1.0
    for method in METHODS:
        has = memberships(BinaryTensor.from_any(dense), components, method=method)
        np.testing.assert_array_equal(has, [[1.0, 0.0]])


def test_bad_arguments_are_refused():
    """One sentence says what was given and what is allowed."""
    dense, components = make(3, 20, 2)
    rows = BinaryTensor.from_any(dense)
    with pytest.raises(ValueError, match=r"method='exact' was given; allowed are 'auto', 'enum"):
        memberships(rows, components, method="exact")
    with pytest.raises(
        ValueError, match=r"a tensor of shape \(3, 19\) was given for components of"
    ):
        memberships(BinaryTensor.from_any(dense[:, 1:]), components)
    with pytest.raises(ValueError, match="packed rows of 2 words was given for components of 20"):
        memberships(Unfolding(np.zeros((1, 2), np.uint64), None), components)
    with pytest.raises(ValueError, match=r"odds of shape \(3,\) were given; codes are"):
        memberships(rows, components._replace(odds=np.zeros(3)))
    with pytest.raises(ValueError, match="odds one finite number per component"):
        memberships(rows, components._replace(odds=np.array([0.0, np.inf])))
    with pytest.raises(ValueError, match="threads=0 was given"):
        memberships(rows, components, threads=0)
    many = Components(np.ones((20, 25), bool), np.zeros(25), components.noise)
    with pytest.raises(ValueError, match="'enumeration' was given for 25 components; it takes at"):
        memberships(rows, many, method="enumeration")
