"""Users of one component join or leave another."""

import numpy as np
import pytest

from support import compare, mutants
from support.chains import NO_MOVES
from support.moves import (
    FIXED,
    LEARNED,
    OWN_DENSITIES,
    assert_exact,
    assert_wrong_ratio_is_rejected,
    compared,
    finite,
)
from thali.bits import Factor
from thali.model import FixedRates, Model
from thali.sampler import Schedule, Target, chain
from thali.sampler.moves.move import Attempt
from thali.sampler.moves.toggle import TOGGLE
from thali.streams import Stream, chain_key


def test_toggle_is_exact():
    """Four tries per sweep leave the exact posterior as it is."""
    assert_exact(FIXED, "toggle")


@pytest.mark.slow  # all moves together see it as well, in test_tries.py
def test_toggle_is_exact_with_everything_learned():
    """The same, rows one after another, and error rates, density and concentration drawn."""
    assert_exact(LEARNED, "toggle", "serial")


@pytest.mark.slow  # densities stay with their components, as in every SumOut
def test_toggle_with_a_density_per_component():
    """Both components keep their densities."""
    assert_exact(OWN_DENSITIES, "toggle")


def test_a_wrong_ratio_of_toggle_is_rejected(monkeypatch):
    """The same comparison fails when the prior of the users is left out of the ratio."""
    assert_wrong_ratio_is_rejected("toggle", "toggle", monkeypatch.setattr)


@pytest.mark.parametrize("name", ["fixed", pytest.param("per-component", marks=pytest.mark.slow)])
def test_toggle_is_exact_for_a_fixed_number(name):
    """Components may lose all users then."""
    compare.assert_matches(*compared(finite(name, toggle=4), 8_000))


@pytest.mark.slow  # the same mistake as above
def test_a_wrong_ratio_for_a_fixed_number_is_rejected(monkeypatch):
    """The same comparison fails when the prior of the users is left out of the ratio."""
    mutants.wrong_toggle(monkeypatch.setattr)
    compare.assert_rejected(*finite("fixed", toggle=4), 8_000)


def test_what_joins_also_leaves():
    """Over exact draws, the first component grows as often as it shrinks (z below 4)."""
    tensor = np.array([[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1]], np.bool_)
    model = Model(noise=FixedRates(0.2, 0.3), alpha=2.0, density=0.4)
    target = Target.prepare(tensor, model, Schedule(hold=0, starts=0, **NO_MOVES), threads=1)
    joined = left = 0
    for sweep, (state, _) in enumerate(chain(chain_key(3), target, 6_000)):
        attempt = Attempt(Stream(chain_key(4), np.uint64(sweep)), np.uint64(0), state, target)
        after = TOGGLE(attempt)
        if after is not None:
            change = int(after.factors[0].sizes().sum()) - int(state.factors[0].sizes().sum())
            joined, left = joined + (change > 0), left + (change < 0)
    assert joined + left > 200
    assert abs(joined - left) < 4.0 * np.sqrt(joined + left)


def test_nested_unions_come_apart():
    """T, "T or K", N and "N or K" become T, N and two parts that are K."""
    rng = np.random.default_rng(1)
    users, columns = np.arange(120) % 4, np.arange(90)
    has = {"T": users < 2, "N": users >= 2, "K": users % 2 == 1}
    code = {"T": columns < 30, "N": columns >= 60, "K": (columns >= 30) & (columns < 60)}
    covered = sum(np.outer(has[name], code[name]) for name in "TNK") > 0
    tensor = covered ^ (rng.random(covered.shape) < 0.05)
    target = Target.prepare(tensor, schedule=Schedule(starts=0), threads=1)
    parts = [("T", False), ("T", True), ("N", False), ("N", True)]
    nested = (
        np.column_stack([has[name] & (has["K"] == with_k) for name, with_k in parts]),
        np.column_stack([code[name] | (code["K"] & with_k) for name, with_k in parts]),
    )
    state = target.initial(chain_key(1), nested)
    for sweep in range(60):
        stream = Stream(chain_key(2), np.uint64(sweep))
        state = TOGGLE(Attempt(stream, np.uint64(0), state, target)) or state
    found = {line.tobytes() for line in state.factors[0].words}
    wanted = [has["T"], has["N"]]
    assert {Factor.from_dense(line[:, None]).words.tobytes() for line in wanted} <= found
