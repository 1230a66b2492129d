"""Residual tries that a bound rejects are rejected by the moves themselves."""

import numpy as np
import pytest

import thali
from thali.model import Model
from thali.sampler import Schedule, Target, step
from thali.sampler.moves import by_rows
from thali.sampler.moves.move import Attempt
from thali.sampler.moves.residual import REPLACEMENT, RESIDUAL
from thali.streams import Stream, chain_key

KEY = chain_key(8)
MODELS = {
    "buffet": (Model(), RESIDUAL),
    "finite": (Model(4), REPLACEMENT),
    "buffet with effects": (Model(noise="effects"), RESIDUAL),
    "finite with effects": (Model(4, noise="effects"), REPLACEMENT),
}


def compare(name):
    """Return how many tries a bound rejects, and how many of these the move accepts."""
    model, move = MODELS[name]
    data = thali.simulate((12, 70), 3, spurious=0.2, dropped=0.3, unknown=0.1, seed=1).tensor
    target = Target.prepare(data, model, Schedule(hold=0, starts=0), threads=1)
    state, rejected, wrong = target.initial(KEY), 0, 0
    for sweep in range(45):
        state, _ = step(KEY, state, target)
        for number in range(40):
            attempt = Attempt(Stream(KEY, np.uint64(99 + sweep)), np.uint64(number), state, target)
            if by_rows.is_surely_rejected(move, attempt):
                rejected += 1
                wrong += move(attempt) is not None
    return rejected, wrong


@pytest.mark.parametrize("name", MODELS)
def test_what_a_bound_rejects_is_rejected(name):
    rejected, wrong = compare(name)
    assert rejected > 20
    assert wrong == 0


def test_a_wrong_bound_is_noticed(monkeypatch):
    """Negative control: gains that count as losses."""
    right = by_rows.RowGains.gains_of_rows

    def wrong(self, code, cover, weights, rows, least, most):
        found = right(self, code, cover, weights, rows, least, most)
        found[0] *= -1  # of the rows that a component would leave
        found[3 + most :] = (-np.abs(found[3 + most :].view(np.float64))).view(np.int64)
        return found

    monkeypatch.setattr(by_rows.RowGains, "gains_of_rows", wrong)
    assert compare("buffet")[1] > 0


def test_other_moves_are_not_asked():
    """Only residual moves examine all rows."""
    move = thali.sampler.moves.tries.SPLIT_MERGE
    assert not by_rows.is_surely_rejected(move, None)
