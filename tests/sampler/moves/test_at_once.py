"""Tries that are done together are rejected if and only if the moves themselves reject them."""

import numpy as np
import pytest

import thali
from support import mutants
from thali.model import Model, PerComponent
from thali.sampler import Schedule, Target, step
from thali.sampler.moves import at_once, tries
from thali.sampler.moves.move import Attempt
from thali.sampler.moves.tries import moves_of
from thali.sampler.step import with_weights
from thali.streams import Stream, chain_key

KEY = chain_key(6)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(at_once, "PATIENCE", at_once.Patience(0))


MODELS = {
    "buffet": Model(),
    "finite": Model(4),
    "buffet with effects": Model(noise="effects"),
    "finite with effects": Model(4, noise="effects"),
    "own densities": Model(density=PerComponent(1.0, 2.0, n_values=4, tied=None)),
    "tied densities": Model(noise="effects", alpha=2.0, density=PerComponent()),
}


def states(model):
    """Yield states of chains on small tables with unknown entries, and their targets."""
    for seed, shape in enumerate(((7, 5), (12, 70), (70, 12))):
        data = thali.simulate(
            shape, 3, spurious=0.2, dropped=0.3, row_spread=1.0, unknown=0.1, seed=seed
        )
        target = Target.prepare(data.tensor, model, Schedule(hold=0, starts=0), threads=1)
        state = target.initial(KEY)
        for number in range(40):
            state, _ = step(KEY, state, target)
            if number % 4 == 3:
                yield state, target


def compare(model, n_tries=60, module=at_once):
    """Return by move how often it was tried and accepted, and how often the two differ."""
    tried, accepted, differ = {}, {}, 0
    for state, target in states(model):
        moves = moves_of(state, target)
        planned = [(move, i) for move in moves.values() for i in range(n_tries)]
        stream = Stream(KEY, np.uint64(1_000 + state.sweep))
        target = with_weights(stream, state, target)
        together = module.AtOnce.on(stream, planned, state, target)
        for number, (move, i) in enumerate(planned):
            is_last = module.AtOnce(stream, together.tries[: number + 1], together.near)
            after = move(Attempt(stream, np.uint64(i), state, target))
            differ += (is_last.skip(number, state, target) == number) != (after is not None)
            tried[move.name] = tried.get(move.name, 0) + 1
            accepted[move.name] = accepted.get(move.name, 0) + (after is not None)
    return tried, accepted, differ


@pytest.mark.parametrize("name", MODELS)
def test_the_first_accepted_try_is_found(name):
    """In every state, for every move; each kind of move is accepted somewhere."""
    tried, accepted, differ = compare(MODELS[name])
    assert differ == 0
    assert all(0 < accepted[move] < tried[move] for move in tried if move != "compound")


@pytest.mark.slow  # it compiles all moves once more
def test_a_wrong_decision_is_noticed():
    """The same comparison sees columns that count twice."""
    edits = [("proposal.log_ratio + found - part", "proposal.log_ratio + found"),
             ("log(by_all) - proposal.log_ratio + part", "-np.inf")]  # fmt: skip
    wrong = mutants.mutate("thali.sampler.moves.at_once", edits, PATIENCE=at_once.Patience(0))
    _, _, differ = compare(Model(), module=wrong)
    assert differ > 0


@pytest.mark.slow
def test_another_density_of_a_new_component_is_noticed():
    """The same comparison sees a try that gives it the density of the try before."""
    edit = ("densities, fresh[i], typical", "densities, fresh[i - 1], typical")
    wrong = mutants.mutate("thali.sampler.moves.at_once", [edit], PATIENCE=at_once.Patience(0))
    _, _, differ = compare(MODELS["own densities"], module=wrong)
    assert differ > 0


@pytest.mark.slow
def test_a_try_that_may_be_accepted_is_not_passed_over():
    """The same comparison sees a quick look that rejects too much."""
    edit = tuple(
        f"old, {least}):\n            return -np.inf\n    exact"
        for least in ("least", "least + 8.0")
    )
    wrong = mutants.mutate("thali.sampler.moves.at_once", [edit], PATIENCE=at_once.Patience(0))
    _, _, differ = compare(Model(), module=wrong)
    assert differ > 0


def test_questions_about_large_data_are_for_the_engine(monkeypatch):
    """The moves then ask the engine, which divides its work and can be interrupted."""
    table = np.random.default_rng(0).random((600, 900)) < 0.3
    weights = Model().priors(2).noise.initial().rounded_weights()
    engines = [Target.prepare(table, threads=threads).engine for threads in (1, 2)]
    work = 900 * 10 * (5 + 8)  # words of columns, for components and for sets of rows
    for most, expected in ((2 * work, [False, False]), (work, [False, True]), (1, [True, True])):
        monkeypatch.setattr("thali.engines.cpu.draw_rows.MOST_NEAR", most)
        assert [engine.near(weights, 5).is_large for engine in engines] == expected


def chain(model, threads=1):
    """Return the states of a chain on a table in which moves decide by a few columns first."""
    data = thali.simulate((60, 300), 4, spurious=0.1, dropped=0.2, row_spread=0.5, seed=3)
    target = Target.prepare(
        data.tensor, model, Schedule(hold=0, starts=0, toggle=20), threads=threads
    )
    state, lines = target.initial(KEY), []
    for _ in range(15):
        state, _ = step(KEY, state, target)
        lines.append([factor.words.tobytes() for factor in state.factors])
    return lines


@pytest.mark.parametrize("name", MODELS)
def test_chains_are_the_same_however_tries_are_done(name, monkeypatch):
    """One by one, at once, by several threads, and if data are large."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    together = chain(MODELS[name])
    assert chain(MODELS[name], threads=3) == together
    monkeypatch.setattr("thali.engines.cpu.draw_rows.MOST_NEAR", 0)
    assert chain(MODELS[name]) == together
    monkeypatch.setattr(at_once, "PATIENCE", at_once.Patience(1 << 60))
    monkeypatch.setattr("thali.patience.is_at_hand", lambda _: False)
    monkeypatch.setattr("thali.patience.cache_of", lambda _: None)
    assert chain(MODELS[name]) == together


@pytest.mark.slow
def test_a_try_that_is_not_decided_must_be_kept(monkeypatch):
    """The comparison sees if tries on large data are rejected without having been decided."""
    together = chain(Model())
    edit = "    if is_large:\n        return True\n", "    if is_large:\n        return False\n"
    wrong = mutants.mutate("thali.sampler.moves.at_once", [edit], PATIENCE=at_once.Patience(0))
    monkeypatch.setattr("thali.engines.cpu.draw_rows.MOST_NEAR", 0)
    monkeypatch.setattr(tries, "AtOnce", wrong.AtOnce)
    assert chain(Model()) != together
