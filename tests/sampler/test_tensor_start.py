"""Chains of tensors begin with boxes that are grown on the data."""

import sys

import numpy as np
import pytest

import thali
from support.mutants import mutate
from thali.model import Model
from thali.sampler import Schedule, Target
from thali.sampler.all_rows import for_all_lines
from thali.sampler.grow import boxes
from thali.sampler.grow.boxes import find_boxes
from thali.sampler.levels import draw_levels
from thali.sampler.start import first_state, start
from thali.streams import Stream, chain_key

SHAPE = (26, 18, 22)
DATA = thali.simulate(SHAPE, 3, spurious=0.05, seed=4)


@pytest.mark.parametrize(
    "model", [Model(), Model(3), Model(3, noise="effects")], ids=["inferred", "given", "levels"]
)
def test_the_truth_is_found(model):
    """Before the first sweep, nearly all lines are right; the number may be given."""
    target = Target.prepare(DATA.tensor, model, Schedule(), threads=1)
    state = first_state(chain_key(1), target)
    assert state.n_components == 3
    cover = thali.model.simulate.boolean_product([factor.dense() for factor in state.factors])
    assert (cover != DATA.noise_free).mean() < 0.01
    assert target.recount(state).covered == state.covered


def test_a_given_number_beyond_what_is_found():
    """The others begin without rows, columns and layers."""
    target = Target.prepare(DATA.tensor, Model(5), Schedule(), threads=1)
    state = first_state(chain_key(1), target)
    sizes = np.array([factor.sizes() for factor in state.factors])
    assert (sizes[:, :3] > 0).all()
    assert (sizes[:, 3:] == 0).all()


def test_a_large_tensor_starts_on_some_lines(monkeypatch):
    """Lines that were left out are drawn given what the others have found."""
    monkeypatch.setattr(boxes, "_LARGE", 4_000)
    monkeypatch.setattr(boxes, "_FEWEST", 8)
    target = Target.prepare(DATA.tensor, Model(), Schedule(), threads=1)
    lines = boxes.choose_lines(Stream(chain_key(1), np.uint64(0)), SHAPE)
    assert all(len(some) < n for some, n in zip(lines, SHAPE, strict=True))
    state = first_state(chain_key(1), target)
    cover = thali.model.simulate.boolean_product([factor.dense() for factor in state.factors])
    assert (cover != DATA.noise_free).mean() < 0.02


def test_no_component_is_no_box():
    """Noise alone starts with nothing, and stays without for a while."""
    noise = np.random.default_rng(1).random((20, 15, 12)) < 0.1
    target = Target.prepare(noise, Model(), Schedule(), threads=1)
    assert first_state(chain_key(2), target).n_components == 0


def full_lines(seed, shape=(16, 14, 15)):
    """Draw a tensor from one level per line, without any component."""
    rng = np.random.default_rng(seed)
    odds = np.full(shape, -1.5)
    for mode, n in enumerate(shape):
        odds += rng.normal(0, 1.2, n).reshape([-1 if m == mode else 1 for m in range(3)])
    return rng.random(shape) < 1 / (1 + np.exp(-odds))


def test_full_lines_are_no_components():
    """With levels, no component goes on; with two error rates, some stand in for full lines."""
    data = full_lines(3)
    for noise, is_fooled in (("effects", False), ("unequal", True)):
        target = Target.prepare(data, Model(noise=noise), Schedule(), threads=1)
        state = first_state(chain_key(2), target)
        assert (state.n_components > 0) == is_fooled


def test_components_beside_levels(monkeypatch):
    """The truth is found, also on some lines at first; levels of all lines are drawn."""
    for large in (None, 4_000):
        if large:
            monkeypatch.setattr(boxes, "_LARGE", large)
            monkeypatch.setattr(boxes, "_FEWEST", 8)
        target = Target.prepare(DATA.tensor, Model(noise="effects"), Schedule(), threads=1)
        state = first_state(chain_key(1), target)
        cover = thali.model.simulate.boolean_product([factor.dense() for factor in state.factors])
        assert (cover != DATA.noise_free).mean() < 0.02
        assert [len(levels) for levels in state.noise.lines] == list(SHAPE)
        assert target.recount(state).covered == state.covered


def test_boxes_of_a_code_with_errors():
    """A few wrong entries change nothing; what is hardly there is left out."""
    rng = np.random.default_rng(0)
    code = np.zeros((12, 14, 10), bool)
    code[:6, :7, :5] = code[6:, 5:, 3:] = True
    broken = code ^ (rng.random(code.shape) < 0.05)
    cover = np.zeros_like(code)
    for lines in find_boxes(broken):
        cover |= np.logical_and.outer(np.logical_and.outer(lines[0], lines[1]), lines[2])
    assert (cover == code).all()
    assert list(find_boxes(np.zeros((3, 4), bool))) == []


DRAW = "            state = state._replace(noise=draw_levels(stream, state, target))\n"
LEVELS_FIRST = [
    (f"        if has_levels:\n{DRAW}        yield state\n", "        yield state\n"),
    (
        "        state = update_memberships(stream, state, target, odds)\n        for mode",
        f"        if has_levels:\n{DRAW}"
        "        state = update_memberships(stream, state, target, odds)\n        for mode",
    ),
]


def wrong_of_all_lines(spread, spread_all_lines=for_all_lines):
    """Give the true components of some lines to all; return the share of wrong entries."""
    shape, chosen = (100, 300, 300), (40, 118, 118)
    rng = np.random.default_rng(1)
    truth = [rng.random((n, 8)) < 0.3 for n in shape]
    covered = thali.model.simulate.boolean_product(truth)
    odds = -3.9 + 4.3 * covered
    for mode, n in enumerate(shape):
        odds = odds + rng.normal(0, spread, n).reshape([-1 if m == mode else 1 for m in range(3)])
    data = rng.random(shape) < 1 / (1 + np.exp(-odds))
    target = Target.prepare(data, Model(noise="effects"), Schedule(), threads=1)
    lines = [np.arange(n) for n in chosen]
    some, key = boxes.some_lines(target, lines), chain_key(3)
    state = some.initial(key, [f[:n] for f, n in zip(truth, chosen, strict=True)])
    for number in range(8):
        noise = draw_levels(Stream(key, np.uint64(number)), state, some, number=number)
        state = state._replace(noise=noise)
    state = boxes.for_lines(state, target, lines)
    *_, found = spread_all_lines(key, state, target, chosen[0])
    cover = thali.model.simulate.boolean_product([factor.dense() for factor in found.factors])
    return (cover != covered).mean()


@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_lines_get_the_components_that_they_have(spread):
    """Not a level that would explain the ones of their components, as when levels come first."""
    assert wrong_of_all_lines(spread) < 0.001
    wrong = mutate("thali.sampler.all_rows", LEVELS_FIRST).for_all_lines
    assert wrong_of_all_lines(spread, wrong) > 0.003


@pytest.mark.parametrize("most", [1 << 27, 0])
def test_too_many_boxes_are_not_replaced(monkeypatch, most):
    """Without levels, lines with levels have boxes by the hundred, and rounds would take hours."""
    monkeypatch.setattr(sys.modules["thali.sampler.start"], "_WORK", most)
    target = Target.prepare(full_lines(3), Model(noise="effects"), Schedule(), threads=1)
    *_, last = start(chain_key(2), target)
    stages = [part.stage for part in last.history if part.kind == "flat"]
    assert ("regrown" in stages) == (most > 0)
    assert last.state.n_components == 0
