"""Quantities without labels, and their R-hat and effective draws."""

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, f

from thali.bits import Factor
from thali.posterior.diagnostics import (
    MAX_R_HAT,
    co_membership,
    diagnose,
    sample_pairs,
)

# --- quantities without labels -------------------------------------------------------------


@given(st.integers(0, 60), st.integers(0, 400))
@settings(deadline=None, max_examples=60)
def test_pairs_are_different_rows_and_never_repeat(n_rows, n_pairs):
    """As many pairs as asked for, or all there are."""
    everything = set(combinations(range(n_rows), 2))
    pairs = sample_pairs(n_rows, n_pairs).tolist()
    assert len(pairs) == min(n_pairs, len(everything))
    assert len(set(map(tuple, pairs))) == len(pairs)
    assert set(map(tuple, pairs)) <= everything


@pytest.mark.parametrize("n_rows", [94_906_267, 2**31])
def test_pairs_of_very_many_rows_are_exact(n_rows):
    """Where a square root in floating point would round: in order and evenly spaced."""
    pairs = sample_pairs(n_rows, 1000).tolist()
    total = n_rows * (n_rows - 1) // 2
    ranks = [j * (j - 1) // 2 + i for i, j in pairs]
    assert all(0 <= i < j < n_rows for i, j in pairs)
    assert ranks == [(2 * k + 1) * total // 2000 for k in range(1000)]


@given(
    st.integers(1, 150), st.integers(0, 5), st.integers(0, 3), st.integers(0, 70), st.integers()
)
@settings(deadline=None, max_examples=40)
def test_co_membership_counts_shared_components(n_rows, n_components, n_draws, n_pairs, seed):
    """Equal to plain loops, for either mode; components in any order."""
    random = np.random.default_rng(seed % 2**32)
    draws = [
        (random.random((3, k)) < 0.5, random.random((n_rows, k)) < 0.5)
        for k in range(n_components, n_components + n_draws)
    ]
    pairs = sample_pairs(n_rows, n_pairs)
    packed = [tuple(Factor.from_dense(part) for part in factors) for factors in draws]
    shared = co_membership(iter(packed), pairs, mode=1)
    assert shared.shape == (n_draws, len(pairs))
    for draw, factors in enumerate(draws):
        for p, (i, j) in enumerate(pairs):
            assert shared[draw, p] == sum(
                a and b for a, b in zip(*factors[1][[i, j]], strict=True)
            )
    turned = [tuple(part.take(np.arange(part.n_components)[::-1]) for part in d) for d in packed]
    assert (co_membership(turned, pairs, mode=1) == shared).all()


def test_pairs_beyond_the_rows_are_refused():
    """A row that does not exist is named."""
    factor = Factor.from_dense(np.ones((3, 2), np.bool_))
    with pytest.raises(ValueError, match="rows from 0 to 3; mode 0 has rows 0 to 2; choose"):
        co_membership([(factor,)], np.array([[0, 3]]))
    with pytest.raises(ValueError, match="n_pairs=-1 was given"):
        sample_pairs(3, -1)


# --- the table -----------------------------------------------------------------------------


def row_of(values):
    return diagnose({"x": np.asarray(values)}).loc["x"]


def test_mean_and_sd_are_those_of_all_draws():
    """Against NumPy."""
    values = np.random.default_rng(0).normal(3.0, 2.0, (3, 50))
    row = row_of(values)
    assert row["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert row["sd"] == pytest.approx(values.std(ddof=1), rel=1e-12)


def test_r_hat_is_the_split_rank_normalised_one():
    """The definition of Vehtari et al. (2021), in plain NumPy."""
    from scipy.stats import norm, rankdata

    values = np.random.default_rng(1).normal(size=(3, 40)) + 0.3 * np.arange(3)[:, None]

    def split_r_hat(x):
        halves = x.reshape(6, 20)
        z = norm.ppf((rankdata(halves) - 0.375) / (halves.size + 0.25)).reshape(halves.shape)
        within = z.var(axis=1, ddof=1).mean()
        return np.sqrt(19 / 20 + z.mean(axis=1).var(ddof=1) / within)

    expected = max(split_r_hat(values), split_r_hat(abs(values - np.median(values))))
    assert row_of(values)["r_hat"] == pytest.approx(expected, rel=1e-10)


def test_what_never_changes_says_nothing():
    """R-hat 1, and no effective draws."""
    row = row_of(np.full((4, 30), 7))
    assert (row["mean"], row["sd"], row["r_hat"]) == (7.0, 0.0, 1.0)
    assert np.isnan(row["ess_bulk"])
    assert np.isnan(row["ess_tail"])


def test_frozen_chains_at_different_values_have_infinite_r_hat():
    """The most important case, and one that the formula divides by zero in."""
    row = row_of(np.repeat([[0.1], [0.1], [0.3]], 30, axis=1))
    assert row["r_hat"] == np.inf
    assert row["ess_bulk"] == 3.0


def test_chains_that_jumped_together_have_infinite_r_hat():
    """Halves that do not move but differ, also where rounding leaves a variance of 1e-33."""
    assert row_of(np.repeat([[0.1, 0.7]] * 3, 50, axis=1))["r_hat"] == np.inf


@pytest.mark.parametrize("n_draws", [1, 2, 3])
def test_too_few_draws_are_not_judged(n_draws):
    """Mean and sd, but no R-hat, not even for what is constant."""
    for values in (np.arange(2.0 * n_draws).reshape(2, n_draws), np.ones((2, n_draws))):
        row = row_of(values)
        assert np.isfinite(row["mean"])
        assert row[["r_hat", "ess_bulk", "ess_tail"]].isna().all()


def test_draws_without_the_quantity_are_not_judged():
    """The density of no component does not exist; the mean is that of the others."""
    values = np.array([[1.0, 2.0, 3.0, np.nan, 2.0]] * 2)
    row = row_of(values)
    assert row["mean"] == 2.0
    assert np.isnan(row["r_hat"])
    assert row_of(np.full((2, 9), np.nan)).isna().all()


def test_one_chain_is_compared_with_itself():
    """A trend has a large R-hat, independent draws have none."""
    random = np.random.default_rng(2)
    assert row_of(random.normal(size=(1, 400)))["r_hat"] < MAX_R_HAT
    assert row_of(np.arange(400.0)[None] + random.normal(size=400))["r_hat"] > 2.0
    assert np.isnan(row_of(random.normal(size=(1, 5)))["r_hat"])


def test_a_family_is_as_bad_as_its_worst_member():
    """One row: largest R-hat, smallest effective draws, average mean."""
    values = np.random.default_rng(3).normal(size=(4, 100, 3))
    values[..., 1] += [[0.0], [0.0], [0.0], [2.0]]
    values[..., 2] = 5.0
    members = diagnose({str(i): values[..., i] for i in range(3)})
    family = diagnose({"family": values}).loc["family"]
    assert family["r_hat"] == members["r_hat"].max() > 1.2
    assert family["ess_bulk"] == members["ess_bulk"].min()
    assert family["ess_tail"] == members["ess_tail"].min()
    assert family["mean"] == pytest.approx(members["mean"].mean(), rel=1e-12)


def test_shapes_that_are_not_chains_are_refused():
    """The shape is named."""
    for shape in ((5,), (2, 0), (2, 5, 0), (2, 3, 4, 5)):
        with pytest.raises(ValueError, match=r"quantity 'x' has shape .* reshape it"):
            diagnose({"x": np.zeros(shape)})


def test_a_missing_library_is_named():
    """Without arviz-stats the error says how to get it."""
    code = (
        "import sys; sys.modules['arviz_stats'] = None\n"
        "import numpy as np; from thali.posterior.diagnostics import diagnose\n"
        "diagnose({'x': np.arange(10.0).reshape(2, 5)})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingLibrary: arviz_stats.base is needed here" in run.stderr


def test_short_chains_exceed_the_bound_as_often_as_the_f_distribution_says():
    """R-hat of 400 runs of 4 x 32 independent normal draws.

    A half chain has 16 draws, so R-hat > 1.05 in one of its two parts (as it is, and folded) has
    probability p = P(F(7, 120) > 1 + (1.05^2 - 1) 16), in both together between p and 2 p. Ranks
    make it only nearly so: a factor of 1.5 is allowed. Binomial bounds at one in a million.
    """
    random = np.random.default_rng(5)
    table = diagnose({str(i): random.normal(size=(4, 32)) for i in range(400)})
    chance = f.sf(1 + (MAX_R_HAT**2 - 1) * 16, 7, 8 * 15)
    n_flagged = (table["r_hat"] > MAX_R_HAT).sum()
    assert binom.ppf(1e-6, 400, chance / 1.5) <= n_flagged
    assert n_flagged <= binom.ppf(1 - 1e-6, 400, 2 * chance * 1.5)
    assert 0.005 < chance < 0.05  # neither bound is empty
