"""Starts on trial: what is hidden, what is predicted, and which start goes on."""

import numpy as np
import pytest
from scipy.special import expit

from support.mutants import mutate
from thali.engines.base import Hidden
from thali.model import Effects, Model
from thali.sampler import Schedule, Target
from thali.sampler.grow.trial import Trial, _log_scores, choose, hide, on_trial, rates_alone
from thali.streams import chain_key

KEY = chain_key(2)


def table(seed=0, shape=(60, 40), unknown=0.1):
    rng = np.random.default_rng(seed)
    users, codes = rng.random((shape[0], 2)) < 0.4, rng.random((shape[1], 2)) < 0.4
    odds = rng.normal(size=(shape[0], 1)) + rng.normal(-1.5, 1.0, shape[1])
    data = (rng.random(shape) < expit(odds + 4.0 * (users @ codes.T))).astype(float)
    data[rng.random(shape) < unknown] = np.nan
    return data, users, codes


def target_of(data):
    return Target.prepare(data, Model(noise=Effects()), Schedule(), threads=1)


@pytest.mark.parametrize(
    ("shape", "unknown", "share"),
    [((60, 40), 0.0, 0.2), ((60, 40), 0.1, 0.2), ((400, 300), 0, 0.05), ((9, 70, 6), 0.0, 0.2),
     ((9, 70, 6), 0.1, 0.2)],
)  # fmt: skip
def test_a_share_of_the_known_entries_is_hidden(shape, unknown, share):
    """They are known, their values are right, and nothing else is forgotten.

    Their number is within five standard deviations of its mean.
    """
    data = table(shape=(shape[0], np.prod(shape[1:])), unknown=unknown)[0].reshape(shape)
    target = target_of(data)
    trained, hidden = hide(KEY, target)
    values = data[tuple(hidden.positions.T)]
    np.testing.assert_array_equal(values, hidden.values)
    n_known = target.totals.n_known
    assert abs(len(values) - share * n_known) < 5.0 * np.sqrt(share * (1.0 - share) * n_known)
    assert trained.totals.n_known == target.totals.n_known - len(values)
    assert trained.totals.n_ones == target.totals.n_ones - hidden.values.sum()
    again = hide(KEY, target)[1]
    np.testing.assert_array_equal(again.positions, hidden.positions)


def test_probabilities_of_hidden_entries():
    """They are those of the definition (eq. 25)."""
    data, users, codes = table()
    target = target_of(data)
    state = target.initial(KEY, [users, codes])
    rng = np.random.default_rng(1)
    rows, columns = rng.integers(60, size=200), rng.integers(40, size=200)
    values = rng.random(200) < 0.5
    odds = state.noise.log_odds[0, 0]
    one = expit(np.where((users @ codes.T)[rows, columns], odds[1], odds[0]))
    found = _log_scores(state, Hidden(np.stack([rows, columns], axis=1), values))
    np.testing.assert_allclose(np.exp(found), np.where(values, one, 1.0 - one))


def test_components_that_predict_go_on():
    """The truth predicts better than row and column rates alone."""
    data, users, codes = table(shape=(150, 100))
    target = target_of(data)
    trained, hidden = hide(KEY, target)
    truth = on_trial(KEY, trained, trained.initial(KEY, [users, codes]), hidden)
    nothing = rates_alone(KEY, trained, trained.initial(KEY), hidden)
    assert truth.against(nothing).gain > 0.0
    assert choose([Trial(truth.state, nothing, 0.0), truth], [0.0, 1.0]) == 1


def trial(scores, n_components):
    return Trial(None, np.asarray(scores, float), n_components)


def test_the_fewest_components_win_what_prediction_leaves_open():
    """A difference of less than one standard error is none; a larger one decides.

    If the evidence is for fewer components, it must be twice as large.
    """
    noise = np.random.default_rng(3).normal(size=400)
    swing = np.tile([1.0, -1.0], 200)  # its standard error is 0.05
    few, many = trial(noise, 1.0), trial(noise + swing + 0.04, 3.0)
    assert choose([few, many], [0.0, 1.0]) == 0
    better, best = trial(noise + swing + 0.06, 3.0), trial(noise + swing + 0.11, 3.0)
    assert choose([few, better], [0.0, 1.0]) == 1
    assert choose([better, few], [1.0, 0.0]) == 0
    assert choose([few, better], [1.0, 0.0]) == 0
    assert choose([few, best], [1.0, 0.0]) == 1
    assert choose([trial(noise, 2.0), trial(noise, 2.0)], [0.0, 0.0]) == 0
    assert choose([trial([], 2.0), trial([], 0.0)], [0.0, 0.0]) == 1


# --- row and column rates alone --------------------------------------------------------------


def far_from_exact(predict):
    """Return by how many standard errors a prediction by rates alone misses the exact one.

    Without spreads there is one unknown, the level of all columns, which every sweep draws
    independently of the last; its posterior is a sum over the grid (eq. 25, 26).
    """
    data, _, _ = table(seed=4, shape=(12, 10))
    noise = Effects(rows=False, columns=False)
    target = Target.prepare(data, Model(noise=noise), Schedule(), threads=1)
    grid = np.array(noise.column_levels)
    n_ones, n_known = np.nansum(data), np.isfinite(data).sum()
    log_posterior = n_ones * np.log(expit(grid)) + (n_known - n_ones) * np.log(expit(-grid))
    weights = np.exp(log_posterior - log_posterior.max())
    weights /= weights.sum()
    exact = weights @ expit(grid)
    sd = np.sqrt(weights @ (expit(grid) - exact) ** 2)
    hidden = Hidden(np.array([[0, 2], [3, 2]]), np.array([True, False]))
    one, zero = np.exp(predict(KEY, target, target.initial(KEY), hidden))
    return max(abs(one - exact), abs(1.0 - zero - exact)) / (sd / np.sqrt(40))


def test_rates_alone_are_exact():
    """The mean of 40 independent draws is within four standard errors of the exact one."""
    assert far_from_exact(rates_alone) < 4.0


USED = "chance += np.exp(_log_scores(state, hidden)) / _USED\n    return np.log"


@pytest.mark.parametrize(
    "edit",
    [
        ("        state = state._replace(noise=noise)\n", ""),  # levels never change
        (USED, USED.replace("_USED", "_SWEEPS")),  # a sum over some, divided by all
    ],
)
def test_mistakes_in_rates_alone_are_noticed(edit):
    """The same comparison refuses them."""
    assert far_from_exact(mutate("thali.sampler.grow.trial", [edit]).rates_alone) > 4.0


def test_rates_alone_know_no_component():
    """Sweeps from nothing find the components of clear data; rates alone never do."""
    rng = np.random.default_rng(0)
    users, codes = rng.random((80, 2)) < 0.5, rng.random((60, 2)) < 0.5
    data = ((users @ codes.T) ^ (rng.random((80, 60)) < 0.02)).astype(float)
    trained, hidden = hide(KEY, target_of(data))
    nothing = trained.initial(KEY)
    alone = rates_alone(KEY, trained, nothing, hidden)
    trial = on_trial(KEY, trained, nothing, hidden)
    assert trial.state.n_components > 0
    tried = trial.against(alone)
    assert tried.gain > 0.1
    assert tried.score - tried.gain == pytest.approx(alone.mean())
    # As by the shares of ones of rows and columns, which are hidden from nobody here.
    rows, columns = hidden.positions.T
    margins = np.nanmean(data, axis=1)[rows], np.nanmean(data, axis=0)[columns]
    odds = sum(np.log(m.clip(0.02, 0.98) / (1 - m.clip(0.02, 0.98))) for m in margins)
    odds -= np.log(data.mean() / (1 - data.mean()))
    by_margins = np.log(expit(np.where(hidden.values, odds, -odds))).mean()
    assert alone.mean() == pytest.approx(by_margins, abs=0.05)


def test_a_trial_against_others():
    """The mean difference and its standard error, by hand; nothing hidden says nothing."""
    found = trial([-0.1, -0.5, -0.3], 2.0).against(np.array([-0.2, -0.4, -0.9]))
    gains = np.array([0.1, -0.1, 0.6])
    assert found.score == pytest.approx(-0.3)
    assert found.gain == pytest.approx(gains.mean())
    assert found.standard_error == pytest.approx(gains.std() / np.sqrt(3))
    assert found.n_hidden == 3
    assert trial([], 2.0).against(np.zeros(0)) == (0.0, 0.0, 0.0, 0)
