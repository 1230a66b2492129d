"""Simulated data have the distribution that they are said to have."""

import hashlib

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import kstest, norm, truncnorm

from thali.model.priors import harmonic
from thali.model.simulate import balanced_density, boolean_product, simulate


def within(successes, trials, p):
    """Say whether a binomial count is within five standard errors of its mean."""
    return abs(successes - trials * p) < 5 * (trials * p * (1 - p)) ** 0.5


@pytest.mark.parametrize("shape", [(5, 70), (4, 3, 66), (7, 2, 2), (2, 3, 65, 2)], ids=str)
@pytest.mark.parametrize("n_components", [1, 4])
def test_boolean_product(shape, n_components):
    """The noise-free tensor is one wherever some component has a one in every mode."""
    rng = np.random.default_rng(1)
    factors = [rng.random((n, n_components)) < 0.6 for n in shape]
    letters = "abcd"[: len(shape)]
    subscripts = ",".join(c + "l" for c in letters) + "->" + letters
    expected = np.einsum(subscripts, *(f.astype(int) for f in factors)) > 0
    assert np.array_equal(boolean_product(factors), expected)


def test_no_components():
    """Without components all ones are spurious."""
    data = simulate((20, 30), 0, spurious=0.0)
    assert data.factors[0].shape == (20, 0)
    assert not data.tensor.any()


@pytest.mark.parametrize("shape", [(30, 40), (12, 10, 15)], ids=str)
def test_balanced_density(shape):
    """Balanced factors make half of the noise-free entries one."""
    n_components = 4
    p = balanced_density(n_components, len(shape))
    assert (1 - p ** len(shape)) ** n_components == pytest.approx(0.5)
    means = [simulate(shape, n_components, seed=s).noise_free.mean() for s in range(100)]
    assert abs(np.mean(means) - 0.5) < 5 * np.std(means) / len(means) ** 0.5


def test_densities():
    """Each factor has the density given for its mode."""
    data = simulate((300, 200, 100), 20, density=[0.1, 0.5, 0.8])
    for factor, p in zip(data.factors, [0.1, 0.5, 0.8], strict=True):
        assert within(factor.sum(), factor.size, p)


def test_flips():
    """Uncovered entries read one, and covered ones zero, at their own rates."""
    data = simulate((100, 300), 3, spurious=0.05, dropped=0.3)
    covered = data.noise_free
    assert data.tensor.dtype == np.bool_
    assert within((data.tensor & ~covered).sum(), (~covered).sum(), 0.05)
    assert within((~data.tensor & covered).sum(), covered.sum(), 0.3)


def test_dropped_defaults_to_spurious():
    """One rate serves both kinds of error, and zero leaves the product as it is."""
    data = simulate((100, 300), 3, spurious=0.2)
    assert within((data.tensor ^ data.noise_free).sum(), data.tensor.size, 0.2)
    clean = simulate((10, 30), 3, spurious=0.0)
    assert np.array_equal(clean.tensor, clean.noise_free)


def test_levels():
    """Levels are normal with the spreads given; rows, columns and jumps differ."""
    n = 2000
    made = {"row_spread": 1.0, "column_spread": 0.5, "jump_spread": 0.2, "spurious": 0.1}
    levels = simulate((n, n), 1, **made).levels
    odds = logit(0.1)
    for part, mean, spread in zip(levels, (0.0, odds, -2 * odds), (1.0, 0.5, 0.2), strict=True):
        # The cut at zero is 22 standard deviations away from the mean of the jumps.
        assert kstest(part, norm(mean, spread).cdf).pvalue > 1e-6
    assert abs(np.corrcoef(levels)[np.triu_indices(3, 1)]).max() < 5 / n**0.5


def test_jumps_are_positive():
    """They are normal above zero."""
    jumps = simulate((1, 4000), 1, spurious=0.3, jump_spread=2.0).levels.jumps
    mean = -2 * logit(0.3)
    assert jumps.min() > 0.0
    assert kstest(jumps, truncnorm(-mean / 2.0, np.inf, mean, 2.0).cdf).pvalue > 1e-6


def test_data_follow_levels():
    """Ones are as frequent as the levels say, row by row and column by column."""
    made = {"row_spread": 1.0, "column_spread": 1.0, "jump_spread": 0.5}
    data = simulate((200, 300), 3, spurious=0.1, dropped=0.2, **made)
    rows, columns, jumps = data.levels
    chance = expit(rows[:, None] + columns + jumps * data.noise_free)
    for axis in (0, 1):
        z = (data.tensor - chance).sum(axis=axis) / (chance * (1 - chance)).sum(axis=axis) ** 0.5
        assert abs(z).max() < 6
    plain = simulate((200, 300), 3, spurious=0.1, dropped=0.2)
    assert plain.levels is None
    assert all(map(np.array_equal, plain.factors, data.factors))


@pytest.mark.parametrize(
    ("settings", "digest"),
    [
        ({"n_components": 3, "spurious": 0.1, "seed": 1}, "cbf9720536d9e7bb"),
        ({"alpha": 2.0, "dropped": 0.3, "unknown": 0.2, "seed": 5}, "a2510723959ee2b8"),
    ],
)
def test_seeds_give_the_data_of_earlier_versions(settings, digest):
    """Data without effects stay as they were, bit for bit."""
    data = simulate((30, 40), **settings)
    bits = np.nan_to_num(data.tensor, nan=2.0).astype(np.uint8)
    assert hashlib.sha256(bits.tobytes()).hexdigest()[:16] == digest


def test_unknown():
    """Unknown entries are NaN at the rate given, whatever their value; the others stay."""
    full, part = (simulate((100, 300), 3, unknown=u) for u in (0.0, 0.25))
    is_unknown = np.isnan(part.tensor)
    for entries in (is_unknown[full.tensor], is_unknown[~full.tensor]):
        assert within(entries.sum(), entries.size, 0.25)
    assert np.array_equal(part.tensor[~is_unknown], full.tensor[~is_unknown])


def test_buffet():
    """Components number Poisson(alpha H_N), a row has Poisson(alpha) of them, none is empty."""
    n_seeds, n_rows, alpha = 300, 8, 1.5
    draws = [
        simulate((n_rows, 2), alpha=alpha, density=0.5, seed=s).factors[0] for s in range(n_seeds)
    ]
    assert all(z.any(axis=0).all() for z in draws)
    # Five standard errors of the mean of Poisson variables.
    mean = alpha * harmonic(n_rows)
    assert abs(np.mean([z.shape[1] for z in draws]) - mean) < 5 * (mean / n_seeds) ** 0.5
    per_row = np.mean([z.sum(axis=1) for z in draws], axis=0)
    assert (abs(per_row - alpha) < 5 * (alpha / n_seeds) ** 0.5).all()


def test_determinism():
    """The same seed gives the same data, another seed gives others."""
    first, again, other = (simulate((9, 8), alpha=2.0, density=0.5, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first.tensor, again.tensor)
    assert all(map(np.array_equal, first.factors, again.factors))
    assert not np.array_equal(first.tensor, other.tensor)


def test_draws_are_independent():
    """Factors of equal length and noise do not repeat each other's random numbers."""
    data = simulate((40, 40, 40), 5, density=0.5, spurious=0.5)
    u, v, w = data.factors
    assert not any(np.array_equal(a, b) for a, b in [(u, v), (u, w), (v, w)])
    assert not np.array_equal(data.tensor[0], data.tensor[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (3,), "n_components": 2}, r"^shape=\(3,\) was given; .*; add one\.$"),
        ({"shape": (3, 0), "n_components": 2}, r"^shape=0 was given; allowed are integers from 1"),
        ({"shape": (3, 2.5), "n_components": 2}, r"^shape=2.5 was given"),
        ({}, r"^give either n_components .* and not both\.$"),
        ({"n_components": 2, "alpha": 1.0}, r"^give either n_components .* and not both\.$"),
        ({"n_components": -1}, r"^n_components=-1 was given"),
        ({"n_components": 2.5}, r"^n_components=2.5 was given"),
        ({"alpha": 0.0, "density": 0.5}, r"^alpha=0.0 was given"),
        ({"alpha": 1.0, "density": "balanced"}, r"^density='balanced' was given; .*\.$"),
        ({"shape": (3, 3), "n_components": "2"}, r"^n_components='2' was given"),
        ({"n_components": 2, "spurious": "a"}, r"^spurious='a' was given"),
        ({"n_components": 2, "density": "half"}, r"^density='half' was given"),
        ({"n_components": 2, "density": 1.0}, r"^density=1.0 was given"),
        ({"n_components": 2, "density": [0.5] * 3}, r"^density has 3 entries for 2 modes; .*\.$"),
        ({"n_components": 2, "spurious": 1.0}, r"^spurious=1.0 was given; .*; choose one\.$"),
        ({"n_components": 2, "dropped": -0.1}, r"^dropped=-0.1 was given"),
        ({"n_components": 2, "unknown": float("nan")}, r"^unknown=nan was given"),
        ({"n_components": 2, "seed": -1}, r"^seed=-1 was given"),
        ({"n_components": 2, "row_spread": -1.0}, r"^row_spread=-1.0 was given; .* from 0 on"),
        ({"n_components": 2, "jump_spread": float("nan")}, r"^jump_spread=nan was given"),
        (
            {"shape": (3, 2, 2), "n_components": 2, "column_spread": 1.0},
            r"^column_spread=1.0 was given; .* those of a matrix; leave it at 0 for 3 modes\.$",
        ),
        (
            {"n_components": 2, "spurious": 0.0, "row_spread": 1.0},
            r"^spurious=0.0 and dropped=0.0 were given; .*; choose such rates\.$",
        ),
        (
            {"n_components": 2, "spurious": 0.5, "row_spread": 1.0},
            r"^spurious=0.5 and dropped=0.5 were given; .* sum below 1",
        ),
    ],
    ids=str,
)
def test_refusals(arguments, message):
    """Arguments that make no sense are refused in a sentence that says what was given."""
    with pytest.raises(ValueError, match=message):
        simulate(**{"shape": (3, 4), **arguments})
