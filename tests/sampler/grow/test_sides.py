"""What components and states are worth, against sums over all bits of the side summed out."""

from math import log, pi

import numpy as np
import pytest
from scipy.special import expit, gammaln, logit, logsumexp, stdtrit

from support.grown import grown, log_entries, log_joint_of_users, log_sum_of_bits, log_users
from support.mutants import mutate
from thali.bits import Factor
from thali.model import FixedRates, Model, PerComponent
from thali.model.priors import harmonic
from thali.sampler.grow.sides import SumOutCodes, SumOutUsers, choose_side, log_evidence

RATES, ALPHA, DENSITY = (0.1, 0.25), 0.6, 0.35
MODEL = Model(noise=FixedRates(*RATES), alpha=ALPHA, density=DENSITY)
N_DRAWS, N_TIMES = 400, 12

BY_ROW = {  # users of 6 rows, and codes of 7 columns
    "two": ("10 10 11 01 01 00", "10 10 11 01 01 00 00"),
    "three": ("100 100 110 011 011 001", "101 100 110 010 011 001 001"),
    "same users": ("11 11 11 11 00 00", "10 10 11 01 01 00 00"),
    "same codes": ("10 10 11 01 01 00", "11 11 11 11 00 00 00"),
}


def problem(name):
    """Return data with two errors and an unknown entry, and users and codes."""
    users, codes = (
        np.array([[bit == "1" for bit in row] for row in text.split()]) for text in BY_ROW[name]
    )
    data = (users.astype(int) @ codes.T.astype(int) > 0).astype(float)
    data[0, 5], data[2, 0], data[4, 3] = 1.0, 0.0, np.nan
    return data, users, codes


def log_codes(codes):
    """Return the log prior probability of every code."""
    return np.where(codes, log(DENSITY), log(1.0 - DENSITY)).sum(axis=0)


def log_widths(weights, n_rows):
    """Return what the integral over every weight adds to the density at its estimate."""
    return 0.5 * np.log(2.0 * pi * (1.0 - weights) / (n_rows * weights))


def given_users(data, users, codes):
    """Return log p(data, users), and the number of sums over patterns in it."""
    return log_joint_of_users(data, users, ALPHA, DENSITY, RATES), len(codes)


def given_codes(data, users, codes):
    """Return log p(data, codes) with every weight at its mean, and the number of sums."""
    n_rows, n = users.shape
    weights = users.sum(axis=0) / (n_rows + 1.0)
    _, repeats = np.unique(np.vstack([codes, weights]), axis=1, return_counts=True)
    total = n * log(ALPHA) - ALPHA * harmonic(n_rows) - gammaln(repeats + 1.0).sum()
    total += (log_codes(codes) + log_widths(weights, n_rows)).sum()
    return total + log_sum_of_bits(data.T, codes, weights, RATES), n_rows


EXACT = {SumOutCodes: given_users, SumOutUsers: given_codes}


def assert_evidence(name, side, n_draws=N_DRAWS, n_times=N_TIMES):
    """Compare the average of many estimates with the exact value.

    The average is within t standard errors, with t of Student's distribution, but once in a
    million times. Besides, estimates from n draws are too low by at most log(1 + c / n) for
    every column: one n-th of the average is the probability of a draw given the draw before it,
    whose mean ratio to the probability of the draw is at most the number of patterns. For c, it
    is taken three times, since the draws before that one still know something of it, too.
    """
    data, users, codes = problem(name)
    expected, n_sums = EXACT[side](data, users, codes)
    found = [
        log_evidence(grown(data, MODEL, [users, codes], side=side(), seed=seed), n_draws)
        for seed in range(n_times)
    ]
    error = np.std(found, ddof=1) / np.sqrt(n_times)
    bias = n_sums * np.log1p(3.0 * 2.0 ** users.shape[1] / N_DRAWS)
    assert abs(np.mean(found) - expected) < -stdtrit(n_times - 1, 0.5e-6) * error + bias


@pytest.mark.parametrize("name", BY_ROW)
@pytest.mark.parametrize("side", EXACT)
def test_evidence_is_the_sum_over_all_bits(side, name):
    """Chib's identity gives p(data, one side), also for components with equal users or codes."""
    assert_evidence(name, side)


def test_evidence_by_a_single_draw_is_rejected():
    """The last draw knows the one before it: for equal users the evidence is then too low."""
    with pytest.raises(AssertionError):
        assert_evidence("same users", SumOutCodes, n_draws=1, n_times=300)


@pytest.mark.parametrize(
    ("edit", "name", "side"),
    [
        (("state.factors[:1], state", "state.factors, state"), "same users", SumOutCodes),
        (("state.factors[1:], [", "state.factors, ["), "same codes", SumOutUsers),
    ],
    ids=["labelled by codes", "labelled by users"],
)
def test_wrong_evidence_is_rejected(edit, name, side, monkeypatch):
    """The same comparison fails if components with equal lines count as different."""
    wrong = getattr(mutate("thali.sampler.grow.sides", [edit]), side.__name__)
    monkeypatch.setattr(side, "evidence", wrong.evidence)
    with pytest.raises(AssertionError):
        assert_evidence(name, side)


# --- with rates and density that are learned ----------------------------------------------------


def assert_learned(estimate):
    """Compare estimates with the exact value at the rates and the density of each.

    The bias of the mean is at most that of ``assert_evidence``; data of 30 rows say so much about
    every bit that it is below 0.02.
    """
    rng = np.random.default_rng(0)
    users, codes = (rng.random((n, 2)) < 0.4 for n in (30, 40))
    covered = users.astype(int) @ codes.T.astype(int) > 0
    data = (covered ^ (rng.random((30, 40)) < 0.2)).astype(float)
    errors = []
    for seed in range(N_TIMES):
        growth = grown(data, Model(), [users, codes], side=SumOutCodes(), seed=seed)
        found = estimate(growth, 50)
        priors, (density,) = growth.target.priors, growth.state.densities[1:]
        expected = log_users(users, 1.0) + harmonic(30) + priors.buffet.log_sum(2, 30)
        noise = growth.state.noise
        expected += log_sum_of_bits(data, users, np.full(2, density), noise)
        expected += priors.noise.log_prior(noise) + priors.densities[1].log_prior(density)
        errors.append(found - expected)
    assert abs(np.mean(errors)) < 0.02


def test_evidence_at_the_rates_of_the_state():
    """Rates and density are part of the density; the concentration is summed out."""
    assert_learned(log_evidence)


def test_evidence_at_rates_of_another_draw_is_rejected():
    """Rates that fit the last draw of the codes are not those that it was drawn at."""
    edits = [("state.noise if is_fitted else growth.result()", "growth.result()")]
    wrong = mutate("thali.sampler.grow.sides", edits).log_evidence
    with pytest.raises(AssertionError):
        assert_learned(wrong)


@pytest.mark.parametrize("side", EXACT)
def test_evidence_of_nothing(side):
    """Without components it is the probability of the data as noise."""
    data, *_ = problem("two")
    growth = grown(data, MODEL, side=side())
    expected = log_entries(data, False, RATES).sum() - ALPHA * harmonic(6)
    assert log_evidence(growth) == pytest.approx(expected, abs=1e-9)


# --- one component -------------------------------------------------------------------------------


def worth_given_users(data, users, codes, k):
    """Return by how much a component raises log p(data, users, other codes)."""
    others = np.delete(np.arange(users.shape[1]), k)
    covered = users[:, others].astype(int) @ codes[:, others].T.astype(int) > 0
    with_it = log_sum_of_bits(data, users[:, [k]], np.array([DENSITY]), RATES, covered)
    ratio = log_users(users[:, [k]], ALPHA) - log_users(users[:, :0], ALPHA)
    return ratio + with_it - log_entries(data, covered, RATES).sum()


def worth_given_codes(data, users, codes, k):
    """Return by how much a component raises log p(data, codes, other users)."""
    others = np.delete(np.arange(users.shape[1]), k)
    covered = users[:, others].astype(int) @ codes[:, others].T.astype(int) > 0
    weight = users[:, [k]].sum(axis=0) / (len(users) + 1.0)
    with_it = log_sum_of_bits(data.T, codes[:, [k]], weight, RATES, covered.T)
    prior = log(ALPHA) + log_codes(codes[:, [k]])[0] + log_widths(weight, len(users))[0]
    return prior + with_it - log_entries(data, covered, RATES).sum()


WORTH = {SumOutCodes: worth_given_users, SumOutUsers: worth_given_codes}


def assert_values(side):
    """Compare what components are worth, alone and beside others."""
    for name in ("two", "three"):
        data, users, codes = problem(name)
        for n in range(1, users.shape[1] + 1):
            growth = grown(data, MODEL, [users[:, :n], codes[:, :n]], side=side())
            expected = [WORTH[side](data, users[:, :n], codes[:, :n], k) for k in range(n)]
            np.testing.assert_allclose(growth.side.values(growth), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("side", EXACT)
def test_value_of_a_component_is_a_ratio_of_densities(side):
    """A component is worth the log ratio of p(data, one side) with it and without it."""
    assert_values(side)


@pytest.mark.parametrize(
    ("edit", "side"),
    [
        (("log(state.alpha) + log_rates(users.sizes(), users.n_rows)", "log(state.alpha)"),
         SumOutCodes),
        (("return worth + log(state.alpha) +", "return worth +"), SumOutUsers),
    ],
    ids=["without prior of users", "without concentration"],
)  # fmt: skip
def test_wrong_values_are_rejected(edit, side, monkeypatch):
    """The same comparison fails if a factor of the prior is forgotten."""
    wrong = getattr(mutate("thali.sampler.grow.sides", [edit]), side.__name__)
    monkeypatch.setattr(side, "values", wrong.values)
    with pytest.raises(AssertionError):
        assert_values(side)


@pytest.mark.parametrize(
    "density", [DENSITY, PerComponent(1.0, 2.0, n_values=5, tied=None)], ids=str
)
def test_candidates_are_weighed_beside_the_components_there_are(density):
    """The value is the log ratio with the code, and its density if it has one, summed out."""
    data, users, codes = problem("two")
    model = Model(noise=FixedRates(*RATES), alpha=ALPHA, density=density)
    growth = grown(data, model, [users[:, :1], codes[:, :1]], side=SumOutCodes())
    rest = growth.engine.uncovered(growth.state.factors)
    found, _ = growth.side.candidate(growth, rest, users[:, 1])
    covered = np.outer(users[:, 0], codes[:, 0])
    grid = density.grid if isinstance(density, PerComponent) else [density]
    sums = [log_sum_of_bits(data, users[:, 1:], np.array([q]), RATES, covered) for q in grid]
    prior = log_users(users[:, 1:], ALPHA) - log_users(users[:, :0], ALPHA) - log(len(grid))
    expected = prior + logsumexp(sums) - log_entries(data, covered, RATES).sum()
    assert found.value == pytest.approx(expected, abs=1e-9)


def test_candidates_are_weighed_with_users_summed_out():
    """The value is the log ratio at the weight that the chances of rows have in common."""
    data, users, codes = problem("two")
    growth = grown(data, MODEL, [users[:, :1], codes[:, :1]], side=SumOutUsers())
    rest = growth.engine.uncovered(growth.state.factors)
    found, after = growth.side.candidate(growth, rest, users[:, 1])
    code = found.chances[1] == 1.0
    assert code.tolist() == (found.chances[1] > 0.0).tolist()
    assert found.users.tolist() == after.tolist() == (found.chances[0] > 0.5).tolist()
    covered = np.outer(users[:, 0], codes[:, 0])
    nothing = log_entries(data, covered, RATES)

    def exact(weight):
        with_it = log_sum_of_bits(data.T, code[:, None], np.array([weight]), RATES, covered.T)
        prior = log(ALPHA) + log_codes(code[:, None])[0] + log_widths(weight, len(users))
        return prior + with_it - nothing.sum()

    gains = (log_entries(data, covered | code, RATES) - nothing).sum(axis=1)
    weights = expit(logit(found.chances[0]) - gains)
    assert weights == pytest.approx(np.full(6, weights[0]), rel=1e-9)
    assert found.value == pytest.approx(exact(weights[0]), abs=1e-9)
    assert found.value != pytest.approx(exact(users[:, 1].mean()), abs=1e-3)  # where it began


@pytest.mark.parametrize(
    ("shape", "side"),
    [((80, 200), SumOutCodes), ((300, 30), SumOutUsers), ((20, 30), SumOutCodes),
     ((5000, 100), SumOutCodes), ((5000, 99), SumOutUsers)],
)  # fmt: skip
def test_the_side_that_data_leave_uncertain_is_summed_out(shape, side):
    """Memberships rest on few entries only where rows are short and many."""
    assert isinstance(choose_side(shape), side)


def test_lines_of_the_other_side_are_not_changed():
    """Only what is summed out is drawn anew."""
    data, users, codes = problem("three")
    for side, mode in ((SumOutCodes, 0), (SumOutUsers, 1)):
        growth = grown(data, MODEL, [users, codes], side=side())
        log_evidence(growth)
        kept = (users, codes)[mode]
        assert growth.state.factors[mode].words.tolist() == Factor.from_dense(kept).words.tolist()
        assert growth.state.covered == growth.target.recount(growth.state).covered
