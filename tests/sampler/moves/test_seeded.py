"""Birth and death of components around a seed row."""

import numpy as np
import pytest

from support.chains import NO_MOVES
from support.moves import (
    FIXED,
    LEARNED,
    OWN_DENSITIES,
    assert_exact,
    assert_wrong_ratio_is_rejected,
)
from thali.model import Effects, FixedRates, Model
from thali.sampler import Schedule, Target, chain
from thali.sampler.moves.move import Attempt
from thali.sampler.moves.seeded import SEEDED
from thali.streams import Stream, chain_key


def test_seeded_is_exact():
    """Four tries per sweep leave the exact posterior as it is."""
    assert_exact(FIXED, "seeded")


@pytest.mark.slow  # all moves together see it as well, in test_tries.py
def test_seeded_is_exact_with_everything_learned():
    """The same, rows one after another, and error rates, density and concentration drawn."""
    assert_exact(LEARNED, "seeded", "serial")


@pytest.mark.slow  # other moves with codes summed out draw densities in the same way
def test_seeded_with_a_density_per_component():
    """A new component draws its own density; one that goes takes it along."""
    assert_exact(OWN_DENSITIES, "seeded")


@pytest.mark.parametrize("mistake", ["seeded", "seed"])
def test_a_wrong_ratio_of_seeded_is_rejected(mistake, monkeypatch):
    """The same comparison fails when users are not weighed, or when any row may be the seed."""
    assert_wrong_ratio_is_rejected(mistake, "seeded", monkeypatch.setattr)


def test_births_equal_deaths():
    """Over exact draws, as many components come as go (z below 4)."""
    tensor = np.array([[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]], np.bool_)
    model = Model(noise=FixedRates(0.2, 0.3), alpha=2.0, density=0.4)
    target = Target.prepare(tensor, model, Schedule(hold=0, starts=0, **NO_MOVES), threads=1)
    born = died = 0
    for sweep, (state, _) in enumerate(chain(chain_key(3), target, 3_000)):
        attempt = Attempt(Stream(chain_key(4), np.uint64(sweep)), np.uint64(0), state, target)
        after = SEEDED(attempt)
        if after is not None:
            born += after.n_components > state.n_components
            died += after.n_components < state.n_components
    assert born + died > 100
    assert abs(born - died) < 4.0 * np.sqrt(born + died)


def test_a_missing_component_is_found():
    """Most users of a component of 30 rows and 30 columns come together in one step."""
    rng = np.random.default_rng(2)
    users, code = np.arange(120) % 4 == 0, np.arange(90) < 30
    odds = rng.normal(-1.5, 0.7, (120, 1)) + rng.normal(0.0, 0.7, 90)
    chances = 1.0 / (1.0 + np.exp(-odds - 4.0 * np.outer(users, code)))
    tensor = rng.random(chances.shape) < chances
    model = Model(noise=Effects())
    quiet = Schedule(starts=0, hold=0, **NO_MOVES)
    target = Target.prepare(tensor, model, quiet, threads=1)
    state = target.initial(chain_key(1))
    for sweep in range(40):
        stream = Stream(chain_key(2), np.uint64(sweep))
        found = SEEDED(Attempt(stream, np.uint64(0), state, target))
        if found is not None:
            break
    assert found is not None
    has = found.factors[0].dense()[:, 0]
    assert has[users].mean() > 0.9
    assert has[~users].mean() < 0.25  # levels are still those of a table without components
