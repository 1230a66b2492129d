"""Single-row components: tables against sums over all codes."""

from itertools import product
from math import exp, factorial, log

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from thali.decide import SCALE, fixed
from thali.model import Noise
from thali.model.births import birth_death_tables, birth_tables

RATE = 0.3
NOISE = Noise(spurious=0.05, dropped=0.3)
ODDS = {
    x: exp(w) for x, w in zip((1, 0), NOISE.weights().pair(), strict=True)
}  # covered : uncovered
DENSITIES = [0.1, 0.5, 0.83]  # (1 - q)^k and q^k agree at 1/2 only
K = 3


def prior(bits, q):
    """Return the probability of some bits of density q."""
    return np.prod([q if bit else 1 - q for bit in bits])


def likelihood(row, k, q):
    """Return the probability of uncovered entries, relative to none covered, with k new codes."""
    codes = product(product([0, 1], repeat=k), repeat=len(row))
    return sum(
        np.prod([prior(b, q) * (ODDS[x] if any(b) else 1.0) for x, b in zip(row, c, strict=True)])
        for c in codes
    )


def posterior(k, x, q):
    """Return the probability of each pattern of k new bits over an uncovered entry x."""
    patterns = list(product([0, 1], repeat=k))
    weights = [prior(p, q) * (ODDS[x] if any(p) else 1.0) for p in patterns]
    return dict(zip(patterns, np.array(weights) / sum(weights), strict=True))


def fraction(threshold):
    return threshold / 2.0**64


@pytest.mark.parametrize("q", DENSITIES)
@pytest.mark.parametrize("row", [(), (1,), (0,), (1, 1, 0), (1, 0, 0)], ids=str)
def test_number(q, row):
    """The weight of k new components is the sum over all their codes, by uncovered entries."""
    tables = birth_tables(RATE, q, NOISE, most_ones=3, n_components=K)
    n1, n0 = row.count(1), row.count(0)
    for k in range(K + 1):
        exact = log(likelihood(row, k, q) * RATE**k / factorial(k))
        score = tables.prior[k] + tables.factors[0, 0, k] @ [n1, n0]
        assert abs(score - exact * SCALE) <= 0.5 * (1 + len(row)) + 1e-3  # roundings to the grid


@pytest.mark.parametrize("q", DENSITIES)
@pytest.mark.parametrize("x", [0, 1])
def test_codes(q, x):
    """Drawn as tabulated, k new bits over an uncovered entry have their joint posterior."""
    code = birth_tables(RATE, q, NOISE, most_ones=3, n_components=K).code
    for k in range(1, K + 1):
        cover = fraction(code.cover[0, 0, 0, k, 1 - x])
        for pattern, exact in posterior(k, x, q).items():
            p = cover if any(pattern) else 1 - cover
            for left, bit in zip(range(k, 0, -1), pattern, strict=True):
                if not any(pattern):
                    break
                is_open = not any(pattern[: k - left])
                on = fraction(code.first[0, left] if is_open else code.plain[0])
                p *= on if bit else 1 - on
            assert p == pytest.approx(exact, rel=1e-12, abs=1e-15)
    assert code.cover[0, 0, 0, 0].tolist() == [0, 0]  # no component covers nothing


@pytest.mark.parametrize("q", DENSITIES)
def test_integrated_weights(q):
    """Covering gains less where a row's own components may cover already."""
    tables = birth_tables(RATE, q, NOISE, most_ones=3, n_components=K)
    weights = tables.weights.of_one_class()
    for k in range(K + 1):
        for x in (0, 1):
            gain = log(ODDS[x]) - log(likelihood((x,), k, q))
            assert abs(weights[k, 1 - x] - gain * SCALE) <= 1 + 1e-3
    assert weights[0].tolist() == [int(fixed(w)) for w in NOISE.weights().pair()]
    assert tables.ceiling.tolist() == [[int(fixed(NOISE.weights().pair()[0]))]]


@pytest.mark.parametrize("most_ones", [0, 4, 3000])
@pytest.mark.parametrize("rate", [1e-4, 0.3, 40.0])
@pytest.mark.parametrize("q", [1e-4, 0.3, 0.999])
def test_length(most_ones, rate, q):
    """The table ends only where all larger numbers together are negligible."""
    n = len(birth_tables(rate, q, NOISE, most_ones, n_components=5).prior)
    k = np.arange(5 * n + 100)
    none = (1 - q) ** k
    for n1 in {0, most_ones}:
        logs = k * log(rate) - gammaln(k + 1) + n1 * np.log(none + (1 - none) * ODDS[1])
        assert logsumexp(logs[n:]) - logsumexp(logs) < log(1e-15)
    assert n >= 6  # as many as there are components, and none


def test_move():
    """With its own density a component's weight is the sum over densities and codes."""
    grid = np.array(DENSITIES)
    tables = birth_death_tables(RATE, grid, NOISE, n_components=4)
    for row in [(), (1, 1, 0), (0, 0)]:
        exact = np.mean([likelihood(row, 1, q) for q in grid])
        scores = tables.prior + tables.factors[:, 0, 0] @ [row.count(1), row.count(0)]
        scores = scores / SCALE
        assert logsumexp(scores) == pytest.approx(log(exact), abs=(1 + len(row)) / SCALE)


def test_move_codes():
    """The bits of a new component have their posterior for each density."""
    tables = birth_death_tables(RATE, np.array(DENSITIES), NOISE, n_components=4)
    for g, q in enumerate(DENSITIES):
        assert fraction(tables.code.plain[g]) == pytest.approx(q)
        for x in (0, 1):
            cover = fraction(tables.code.cover[g, 0, 0, 1, 1 - x])
            assert cover == pytest.approx(posterior(1, x, q)[1,])
        assert tables.code.first[g, 1] == 2**64 - 1  # the only one left must be on


def test_move_odds():
    """The prior odds of the j-th single-row component are alpha / N / j."""
    odds = birth_death_tables(RATE, np.array([0.5]), NOISE, n_components=4).odds
    assert odds[1:] / SCALE == pytest.approx([log(RATE / j) for j in range(1, 6)], abs=1 / SCALE)
