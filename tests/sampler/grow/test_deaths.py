"""Deaths of a start: exactly what lowers the joint density goes."""

import numpy as np
import pytest

from support.grown import (
    grown,
    log_entries,
    log_sum_of_bits,
    log_users,
    parts,
    planted,
)
from support.mutants import mutate
from thali.model import FixedRates, Model
from thali.sampler.grow.deaths import remove_unsupported
from thali.sampler.grow.sides import SumOutCodes

RATES, ALPHA, DENSITY = (0.1, 0.2), 0.3, 0.35
MODEL = Model(noise=FixedRates(*RATES), alpha=ALPHA, density=DENSITY)
N_PROBLEMS = 60


def problem(seed):
    """Return data of 8 x 11 with a trace of one component, and the component."""
    rng = np.random.default_rng(seed)
    users, codes = rng.random((8, 1)) < 0.4, rng.random((11, 1)) < 0.4
    users[0] = True
    share = 0.1 + 0.8 * rng.random() ** 0.5 * (users & codes.T)
    data = (rng.random((8, 11)) < share).astype(float)
    data[rng.random(data.shape) < 0.05] = np.nan
    return data, users, codes


def worth(data, users, codes):
    """Return log p(data, users) - log p(data, nothing), by a sum over all codes."""
    prior = log_users(users, ALPHA) - log_users(users[:, :0], ALPHA)
    with_it = log_sum_of_bits(data, users, np.array([DENSITY]), RATES)
    return prior + with_it - log_entries(data, False, RATES).sum()


def wrong_decisions(remove):
    """Return the problems in which a component goes or stays against the exact ratio."""
    wrong = []
    for seed in range(N_PROBLEMS):
        data, *factors = problem(seed)
        growth = grown(data, MODEL, factors, side=SumOutCodes())
        if remove(growth) != (worth(data, *factors) < 0.0):
            wrong.append(seed)
    return wrong


def test_a_component_is_removed_exactly_if_nothing_is_more_probable():
    """The decision is that of prior times marginal likelihood, by a sum over all codes."""
    values = np.array([worth(*problem(seed)) for seed in range(N_PROBLEMS)])
    assert 0.25 < np.mean(values < 0.0) < 0.75  # both occur often
    assert np.abs(values).min() > 1e-6  # no ties: rounding cannot matter
    assert not wrong_decisions(remove_unsupported)


@pytest.mark.parametrize(
    "edit",
    [
        ("worth[worst] < 0.0", "worth[worst] < -1.0"),
        ("growth.side.values(growth)", "growth.side.values(growth) - np.log(growth.state.alpha)"),
    ],
    ids=["too late", "without concentration"],
)
def test_wrong_decisions_are_noticed(edit):
    """Some of the same decisions are wrong if the threshold or the prior is."""
    assert wrong_decisions(mutate("thali.sampler.grow.deaths", [edit]).remove_unsupported)


def with_useless(shape, seed):
    """Return a start with three components that were planted and two that were not."""
    data, *factors = planted(shape, 3, seed=seed, unknown=0.05)
    rng = np.random.default_rng(1_000 + seed)
    useless = [rng.random((n, 2)) < 0.15 for n in shape]
    useless[0][0] = True
    both = [np.concatenate(pair, axis=1) for pair in zip(factors, useless, strict=True)]
    model = Model(noise=FixedRates(0.1, 0.1))
    return factors, grown(data, model, both, seed=seed)


@pytest.mark.parametrize("shape", [(80, 200), (300, 30)], ids=str)
def test_what_is_useless_goes_and_what_is_needed_stays(shape):
    """Of the components, those that were planted are left, as they were."""
    for seed in range(5):
        factors, growth = with_useless(shape, seed)
        assert remove_unsupported(growth) == 2
        found = [factor.dense().tolist() for factor in growth.state.factors]
        assert found == [factor.tolist() for factor in factors]
        assert growth.state.covered == growth.target.recount(growth.state).covered


def test_the_best_going_first_is_noticed():
    """The same comparison fails if not the component that is worth least goes."""
    wrong = mutate("thali.sampler.grow.deaths", [("np.argsort(worth,", "np.argsort(-worth,")])
    factors, growth = with_useless((80, 200), 0)
    wrong.remove_unsupported(growth)
    found = [factor.dense().tolist() for factor in growth.state.factors]
    assert found != [factor.tolist() for factor in factors]


def test_of_two_that_are_alike_one_stays():
    """Each is worthless beside the other; removed one at a time, one of them is needed."""
    data, users, codes = planted((80, 200), 1, seed=3)
    model = Model(noise=FixedRates(0.1, 0.1))
    growth = grown(data, model, [users[:, [0, 0]], codes[:, [0, 0]]])
    assert (growth.side.values(growth) < 0.0).all()
    assert remove_unsupported(growth) == 1
    assert growth.state.factors[0].dense().tolist() == users.tolist()


def test_deaths_depend_on_data_alone(monkeypatch):
    """The number of threads does not matter."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    seen = []
    for threads in (1, 2):
        _, growth = with_useless((80, 200), 1)
        growth.engine.threads = threads
        remove_unsupported(growth)
        seen.append(parts(growth.state))
    assert seen[0] == seen[1]
