"""What small matrices do in one call is what a sweep does step by step."""

from importlib import import_module as module

import pytest

import thali
from support.chains import NO_MOVES
from support.mutants import mutate, one_quickly, step_by_step
from thali.model import Beta, Model, PerComponent
from thali.sampler import Schedule, Target, chain, small
from thali.sampler.moves.at_once import Patience
from thali.streams import chain_key
from thali.team import memory_of

DATA = thali.simulate((70, 75), 4, spurious=0.2, dropped=0.2, unknown=0.1, seed=3).tensor
MANY = thali.simulate((40, 400), 4, seed=4).tensor  # columns are updated 64 at a time
MODELS = {
    "finite": Model(4),
    "finite, other densities": Model(4, density=(Beta(2.0, 5.0), Beta(3, 1))),
    "buffet": Model(),
    "buffet, fixed concentration": Model(alpha=3.0),
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(small, "PATIENCE", Patience(0))


def states(model, data=DATA, n_sweeps=8, threads=1, **schedule):
    """Return what a chain goes through."""
    settings = NO_MOVES | {"starts": 0, "hold": 0} | schedule
    target = Target.prepare(data, model, Schedule(**settings), threads=threads)
    return [
        (
            [factor.words.tolist() for factor in state.factors],
            [density.tolist() for density in state.densities],
            tuple(state.noise),
            state.alpha,
            state.covered,
            state.sweep,
        )
        for state, _ in chain(chain_key(2), target, n_sweeps)
    ]


@pytest.mark.parametrize("data", [DATA, MANY], ids=["few", "many"])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_chain(name, data, monkeypatch):
    """Every number of every state is the same, to the last bit."""
    found = states(MODELS[name], data)
    step_by_step(monkeypatch.setattr)
    assert found == states(MODELS[name], data)


@pytest.mark.parametrize("data", [DATA, MANY], ids=["few", "many"])
@pytest.mark.parametrize("name", ["finite", "buffet"])
def test_the_same_chain_on_any_number_of_threads(name, data, monkeypatch):
    """Threads share the rows within the call, if there is enough to do."""
    expected = states(MODELS[name], data)
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 1)
    shared = []
    monkeypatch.setattr(small, "memory_of", lambda *n: shared.append(n) or memory_of(*n))
    for threads in (2, 3, 5, 9):
        assert states(MODELS[name], data, threads=threads) == expected
    assert shared


@pytest.mark.slow
def test_a_part_that_is_not_counted_is_noticed(monkeypatch):
    """Negative control: the same comparison sees covered ones that got lost."""
    expected = states(MODELS["buffet"])
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 1)
    edit = "tp += results[part, 0]", "tp += 0"
    mutant = mutate("thali.sampler.small", [edit], PATIENCE=Patience(0))
    monkeypatch.setattr(module("thali.sampler.step"), "small", mutant)
    assert states(MODELS["buffet"], threads=3) != expected


def test_what_is_held_is_not_drawn():
    """Rates keep their initial values as long as the schedule says."""
    found = states(MODELS["finite"], warmup=8, hold=5)
    assert len({noise for _, _, noise, *_ in found[:5]}) == 1
    assert len({noise for _, _, noise, *_ in found}) == 4


@pytest.mark.parametrize(
    "model",
    [Model(4, noise="equal"), Model(4, noise="effects"), Model(4, density=PerComponent())],
    ids=["one rate", "effects", "own densities"],
)
def test_other_priors_go_step_by_step(model):
    """Nothing but the default priors is done in one call."""
    target = Target.prepare(DATA, model, threads=1)
    state = target.initial(chain_key(0))
    assert small.at_hand(state, target, 1) is None


MISTAKES = {
    "no new order": ("    if is_buffet:\n", "    if False:\n"),
    "the uniform of the other density": ("sweep, _OF_CODES, _0, _0", "sweep, _OF_USERS, _0, _0"),
    "counts of the old codes": ("fp + more_fp", "fp"),
    "rates without their prior": ("of_dropped[0] + fp", "of_dropped[0] + fp + 1"),
}


@pytest.mark.parametrize("mistake", one_quickly(MISTAKES))
def test_mistakes_are_found(mistake, monkeypatch):
    """A mistake in doing so changes the chain."""
    expected = states(MODELS["buffet, fixed concentration"])
    mutant = mutate("thali.sampler.small", [MISTAKES[mistake]], PATIENCE=Patience(0))
    monkeypatch.setattr(module("thali.sampler.step"), "small", mutant)
    assert states(MODELS["buffet, fixed concentration"]) != expected
