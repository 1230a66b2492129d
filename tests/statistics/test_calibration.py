"""The truth behind simulated data is one draw among others: ranks are uniform."""

import numpy as np
import pytest

from support import ranks
from thali.sites import Site
from thali.streams import Stream, chain_key

FEW, CLOSE = 40, 10
"""Data sets and sweeps between draws of the quick test, which sees gross mistakes only."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_calibration(kind):
    """The posterior of 300 data sets is right about rates, hyperparameters and components.

    One false alarm in 10,000 (`ranks.limits`), both schedules together; seeds are fixed.
    """
    assert not ranks.uncalibrated(ranks.all_ranks(kind, ranks.N_SETS))


@pytest.mark.slow
def test_calibration_rejects_a_subtle_mistake():
    """A density whose every component has one zero too many (of ten entries) is noticed."""
    found = ranks.uncalibrated(ranks.all_ranks("serial", ranks.N_SETS // 2, "one zero too many"))
    assert "density" in found


TENSORS, NEAR = 100, 6
"""Data sets, and sweeps between draws, of the tests of tensors."""


@pytest.mark.slow
def test_calibration_of_tensors():
    """The same for tensors of three modes, whose components are born and die by moves."""
    assert not ranks.uncalibrated(ranks.all_ranks("tensor", TENSORS, thin=NEAR))


@pytest.mark.slow
def test_calibration_of_tensors_rejects_a_mistake():
    """Components that die in a block, from where none is born, are too few."""
    found = ranks.all_ranks("tensor", TENSORS, "dropped in a block", thin=NEAR)
    assert "n_components" in ranks.uncalibrated(found)


def few_ranks(n_sets=FEW):
    """Rank in this process: others would import everything again, and tests have all cores."""
    return np.array([ranks.ranks_of(seed, "plain", CLOSE) for seed in range(n_sets)])


@pytest.mark.slow  # Geweke's test is quicker, and rejects the same mistakes
def test_calibration_quickly(monkeypatch):
    """Even 25 of the forty data sets are enough to notice that two counts were swapped."""
    assert not ranks.uncalibrated(few_ranks())
    ranks.MISTAKES["swapped counts"](monkeypatch.setattr)
    assert "dropped" in ranks.uncalibrated(few_ranks(25))


# --- the test itself -------------------------------------------------------------------------


def uniform_ranks(n_sets, power=1.0):
    """Return ranks that are uniform, or rather high with a power below one."""
    stream = Stream(chain_key(1), np.uint64(0))
    uniforms = stream.uniforms(Site.START, n_sets * len(ranks.QUANTITIES)) ** power
    return np.floor((ranks.DRAWS + 1) * uniforms).astype(int).reshape(n_sets, -1)


@pytest.mark.parametrize("n_sets", [FEW, ranks.N_SETS])
def test_uniform_ranks_are_accepted(n_sets):
    """Uniform ranks pass; if all posteriors are far too low, every quantity is named."""
    assert not ranks.uncalibrated(uniform_ranks(n_sets))
    assert set(ranks.uncalibrated(uniform_ranks(n_sets, 1 / 8))) == set(ranks.QUANTITIES)


def test_limits():
    """Beyond the limits lies no more than the level allows, and one step inside more."""
    n_comparisons = 2 * ranks.CUTS.size * ranks.N_CURVES
    low, high = ranks.limits(ranks.N_SETS)
    for cut, least, most in zip(ranks.CUTS, low, high, strict=True):
        law = ranks.stats.binom(ranks.N_SETS, cut / (ranks.DRAWS + 1))
        for tail, wider in (
            (law.cdf(least - 1), law.cdf(least)),
            (law.sf(most), law.sf(most - 1)),
        ):
            assert tail <= ranks.LEVEL / n_comparisons < wider


def test_ties_are_broken_evenly():
    """A value that equals three of five draws has each of the four possible ranks as often."""
    draws = np.array([4, 2, 2, 1, 2])
    uniforms = (np.arange(400) + 0.5) / 400
    found = np.bincount([ranks.rank_among(2, draws, u) for u in uniforms], minlength=6)
    assert found.tolist() == [0, 100, 100, 100, 100, 0]
