"""Starts on trial: what is hidden, what is predicted, and which start goes on."""

import numpy as np
import pytest
from scipy.special import expit

from thali.engines.base import Hidden
from thali.model import Effects, Model
from thali.sampler import Schedule, Target
from thali.sampler.grow.trial import Trial, _log_scores, choose, hide, on_trial
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


@pytest.mark.parametrize("unknown", [0.0, 0.1])
def test_a_share_of_the_known_entries_is_hidden(unknown):
    """They are known, their values are right, and nothing else is forgotten."""
    data, _, _ = table(unknown=unknown)
    target = target_of(data)
    trained, hidden = hide(KEY, target)
    values = data[hidden.rows, hidden.columns]
    np.testing.assert_array_equal(values, hidden.values)
    assert 0.02 < len(values) / target.totals.n_known < 0.08
    assert trained.totals.n_known == target.totals.n_known - len(values)
    assert trained.totals.n_ones == target.totals.n_ones - hidden.values.sum()
    again = hide(KEY, target)[1]
    np.testing.assert_array_equal(again.rows, hidden.rows)


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
    found = _log_scores(state, Hidden(rows, columns, values))
    np.testing.assert_allclose(np.exp(found), np.where(values, one, 1.0 - one))


def test_components_that_predict_go_on():
    """The truth predicts better than nothing, and a table without components says so."""
    data, users, codes = table()
    target = target_of(data)
    trained, hidden = hide(KEY, target)
    trials = [
        on_trial(KEY, trained, trained.initial(KEY, factors), hidden)
        for factors in ([users[:, :0], codes[:, :0]], [users, codes])
    ]
    assert trials[1].score > trials[0].score
    assert choose(trials) == 1


def trial(scores, n_components):
    return Trial(None, np.asarray(scores, float), n_components)


def test_the_fewest_components_win_what_prediction_leaves_open():
    """A difference of less than one standard error is none; a larger one decides."""
    noise = np.random.default_rng(3).normal(size=400)
    swing = np.tile([1.0, -1.0], 200)  # its standard error is 0.05
    few, many = trial(noise, 1.0), trial(noise + swing + 0.04, 3.0)
    assert choose([few, many]) == 0
    better = trial(noise + swing + 0.06, 3.0)
    assert choose([few, better]) == 1
    assert choose([better, few]) == 0
    assert choose([trial(noise, 2.0), trial(noise, 2.0)]) == 0
    assert choose([trial([], 2.0), trial([], 0.0)]) == 1
