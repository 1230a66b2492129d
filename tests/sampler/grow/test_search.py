"""The search of a start: it finds what was planted, and never gets worse."""

import numpy as np
import pytest
from scipy.special import expit

from support.grown import covers, grown, parts, planted, reconstruction
from support.mutants import mutate
from thali.model import Effects, FixedRates, Model, PerComponent
from thali.sampler.grow.deaths import remove_unsupported
from thali.sampler.grow.search import (
    give_back,
    grow,
    improve,
    judged,
    pool,
    without_single_columns,
)
from thali.sampler.grow.sides import SumOutUsers, log_evidence

SHAPES = [(80, 200), (300, 30)]  # codes summed out, users summed out
HARD = {"rate": 0.2, "density": 0.4}
N_SEEDS = 5


def without_deaths():
    """Return the growth of a start in which no component is ever removed or merged."""
    nothing = {"remove_unsupported": lambda _: 0, "merge_pairs": lambda _, **__: 0}
    return mutate("thali.sampler.grow.search", [], **nothing).grow


def searched(data, seed, grow=grow, model=None):
    """Return the state at the end of the growth of a start."""
    growth = grown(data, model, seed=seed)
    for _ in grow(growth):
        pass
    return growth.state


def numbers(shape, grow=grow, model=None, **how):
    """Return how many of 4 components are found for each seed, and the share of wrong entries."""
    found, wrong = [], []
    for seed in range(N_SEEDS):
        data, *factors = planted(shape, 4, seed=seed, unknown=0.02, **how)
        state = searched(data, seed, grow, model)
        found.append(state.n_components)
        wrong.append((reconstruction(state) != covers(*factors)).mean())
    return found, wrong


@pytest.mark.parametrize("density", [None, PerComponent(1.0, 3.0)], ids=["one", "own"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_was_planted_is_grown(shape, density):
    """As many components as were planted, which leave hardly an entry wrong."""
    found, wrong = numbers(shape, model=None if density is None else Model(density=density))
    assert found == [4] * N_SEEDS
    assert max(wrong) < 0.015


def test_the_number_is_right_in_spite_of_many_errors():
    """A fifth of all entries is flipped; births make too many components, which go again."""
    found, _ = numbers((80, 200), **HARD)
    assert found == [4] * N_SEEDS


def test_growth_without_deaths_and_mergers_is_noticed():
    """The same data give more components than were planted if none is ever removed."""
    found, _ = numbers((80, 200), without_deaths(), **HARD)
    assert sum(n > 4 for n in found) > 2


def in_noise(grow, shapes, rate):
    """Return how many components are grown in noise."""
    return [
        searched(np.random.default_rng(seed).random(shape) < rate, seed, grow).n_components
        for shape in shapes
        for seed in range(N_SEEDS)
    ]


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.97])
def test_nothing_is_grown_in_noise(rate):
    """Whatever the first guess of the rates makes of noise, in the end nothing is left."""
    assert not any(in_noise(grow, [*SHAPES, (40, 40)], rate))


def test_noise_without_deaths_is_noticed():
    """The same noise leaves components if none is ever removed."""
    wrong = without_deaths()
    assert min(in_noise(wrong, SHAPES[:1], 0.5)) > 0


# --- several starts, and what follows them ----------------------------------------------------


def test_starts_with_different_components_are_pooled():
    """What each of two starts lacks is taken from the other; what both have stays once."""
    for seed in range(3):
        data, *factors = planted((80, 200), 4, seed=seed)
        growth = grown(data, None, [f[:, :3] for f in factors], seed=seed)
        best = judged(growth)
        other = grown(data, None, [f[:, 1:] for f in factors], seed=seed).state
        both = pool(growth, best, other)
        assert both.value > best.value
        assert both.state.n_components == 4
        assert (reconstruction(both.state) != covers(*factors)).mean() < 0.01


def test_a_start_that_adds_nothing_is_not_pooled():
    """If the pooled state is not better, the best remains."""
    data, *factors = planted((80, 200), 2, seed=1)
    growth = grown(data, None, factors)
    best = judged(growth)
    rng = np.random.default_rng(0)
    useless = [rng.random((n, 3)) < 0.2 for n in data.shape]
    after = pool(growth, best, grown(data, None, useless).state)
    assert after.value >= best.value
    assert after.state.n_components == 2


def values_on_the_way(improve, shape, *, is_good):
    """Return the evidence before and after every try of an improvement, and the last state."""
    data, users, codes = planted(shape, 4, seed=0, rate=0.2, density=0.4)
    if not is_good:  # two in one, one lacking, and one of noise
        rng = np.random.default_rng(0)
        users, codes = (
            np.stack([f[:, 0] | f[:, 1], f[:, 2], rng.random(len(f)) < 0.2], axis=1)
            for f in (users, codes)
        )
    growth = grown(data, None, [users, codes])
    best = judged(growth)
    values = [best.value]
    for now in improve(growth, best):
        values.append(now.value)
    return values, now.state


@pytest.mark.parametrize("is_good", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_improvement_is_never_worse(shape, is_good):
    """The evidence only rises; from a bad state it rises to the number that was planted."""
    values, state = values_on_the_way(improve, shape, is_good=is_good)
    assert (np.diff(values) >= 0.0).all()
    assert state.n_components == 4
    if not is_good:
        assert values[-1] > values[0] + 100.0


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_keeping_the_worse_is_noticed(shape):
    """The same evidence falls if the comparison is the wrong way round."""
    edits = [("now if now.value > best.value", "now if now.value < best.value")]
    wrong = mutate("thali.sampler.grow.search", edits).improve
    values, _ = values_on_the_way(wrong, shape, is_good=True)
    assert values[-1] < values[0]


def held(seed):
    """Return a start in which a component holds the columns that two others have in common.

    It has all users of the one and two thirds of those of the other.
    """
    data, users, codes = planted((90, 600), 4, seed=seed, rate=0.2, density=0.3)
    common = codes[:, 0] & codes[:, 1]
    some = users[:, 1] & (np.arange(len(users)) % 3 > 0)
    wrong = codes.copy()
    wrong[:, :2] &= ~common[:, None]
    factors = [
        np.column_stack([users, users[:, 0] | some]),
        np.column_stack([wrong, common]),
    ]
    return grown(data, None, factors, seed=seed)


def after_giving_back(give_back):
    """Return numbers of components, and gains in evidence, for each seed."""
    found, gains = [], []
    for seed in range(N_SEEDS):
        growth = held(seed)
        best = judged(growth)
        *_, now = best, *give_back(growth, best)
        found.append(now.state.n_components)
        gains.append(now.value - best.value)
    return found, gains


def test_columns_that_belong_to_others_are_given_back():
    """The component that holds them is removed, and the codes of the others are what they were."""
    found, gains = after_giving_back(give_back)
    assert found == [4] * N_SEEDS
    assert min(gains) > 50.0


def test_sweeps_and_deaths_leave_columns_where_they_are():
    """As long as the codes of the others miss them, the component that holds them is needed."""

    def without_trying(growth, _):
        for _ in range(10):
            growth.settle()
            growth.sweep()
        remove_unsupported(growth)
        yield judged(growth)

    found, _ = after_giving_back(without_trying)
    assert found == [5] * N_SEEDS


def test_components_that_are_needed_are_not_given_back():
    """Nothing is tried where none has the users of another, and what is inside another stays."""
    data, *factors = planted((90, 600), 4, seed=0, rate=0.1, density=0.3)
    growth = grown(data, None, factors)
    assert not list(give_back(growth, judged(growth)))
    inside = [f.copy() for f in factors]
    inside[0][:, 1] = inside[0][:, 0] & (np.arange(90) % 4 > 0)  # three quarters of the users
    flips = np.random.default_rng(0).random(data.shape) < 0.1
    growth = grown((covers(*inside) ^ flips) * 1.0, None, inside)
    tries = list(give_back(growth, judged(growth)))
    assert [now.state.n_components for now in tries] == [4] * len(tries)
    assert len(tries) > 0


def full_columns(seed):
    """Return a start with three components, and one for each of eight columns that are fuller."""
    rng = np.random.default_rng(seed)
    users, codes = (rng.random((n, 3)) < 0.3 for n in (200, 40))
    own = np.arange(40) < 8
    codes[own] = False
    odds = np.where(own, -1.0, -4.0 + 6.0 * covers(users, codes))
    data = (rng.random(odds.shape) < expit(odds)) * 1.0
    factors = [np.hstack([users, data[:, own] == 1]), np.hstack([codes, np.eye(40)[:, own] == 1])]
    growth = grown(data, Model(noise=Effects()), factors, seed=seed)
    growth.release()
    return growth


def test_single_columns_get_levels():
    """Components of theirs go, those of several columns stay, and the evidence is higher."""
    for seed in range(N_SEEDS):
        growth = full_columns(seed)
        best = judged(growth)
        now = without_single_columns(growth, best)
        assert (now.state.factors[1].sizes() > 1).all()
        assert now.state.n_components == 3
        assert now.value > best.value + 20.0
        assert best.state.n_components == 11
        assert without_single_columns(growth, now) is now


def test_judged_states_have_no_unused_components():
    """Drawing memberships anew may leave a component without users, which is then dropped."""
    rng = np.random.default_rng(0)
    model = Model(noise=FixedRates(0.2, 0.2))
    n_unused = []
    for judge in (log_evidence, judged):
        n_unused.append(0)
        for seed in range(20):
            data = rng.random((30, 12)) < 0.2
            users = np.zeros((30, 1), bool)
            users[seed] = True
            growth = grown(data, model, [users, data[[seed]].T], side=SumOutUsers(), seed=seed)
            judge(growth)
            n_unused[-1] += int((growth.state.factors[0].sizes() == 0).sum())
    assert n_unused[0] > 0  # the evidence alone leaves some
    assert n_unused[1] == 0


# --- what it depends on ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_search_is_a_function_of_key_and_data(shape, monkeypatch):
    """Every state on the way is equal for 1 and 2 threads; another key goes another way."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    data, *_ = planted(shape, 3, seed=1, unknown=0.05, **HARD)
    seen = []
    for threads, seed in ((1, 0), (2, 0), (1, 1)):
        growth = grown(data, seed=seed, threads=threads)
        on_the_way = [parts(growth.state) for _ in grow(growth)]
        best = judged(growth)
        on_the_way += [(parts(now.state), now.value) for now in improve(growth, best)]
        seen.append(on_the_way)
    assert seen[0] == seen[1] != seen[2]
