"""Posterior: questions that make no sense get one sentence; answers agree with plain loops."""

import numpy as np
import pandas as pd
import pytest

import thali

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

DATA = thali.simulate((6, 8), 2, unknown=0.2, seed=1).tensor


@pytest.fixture(scope="module")
def posterior():
    return thali.sample(DATA, noise="unequal", chains=2, warmup=20, draws=10, seed=1)


ROWS = "allowed are a slice, or a list"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.co_membership(np.array([True, False])), ROWS),
        (lambda p: p.co_membership([0.7, 1.9]), ROWS),
        (lambda p: p.co_membership(["a"]), ROWS),
        (lambda p: p.co_membership([[0, 1], [1, 2]]), ROWS),
        (lambda p: p.co_membership([0, 6]), "row numbers from 0 to 5"),
        (lambda p: p.co_membership([0], mode=2), "mode=2 was given; allowed are 0 to 1"),
        (lambda p: p.co_membership([0], mode=-1), "mode=-1 was given"),
        (lambda p: p.predict([[0], [1, 2]]), ROWS),
        (lambda p: p.point_estimate(missed="x"), "missed='x' was given"),
        (lambda p: p.point_estimate(false=0), "false=0 was given"),
        (lambda p: p.n_components_table(least_users=0), "least_users=0 was given"),
        (lambda p: p.n_components_table(least_users=2.5), "least_users=2.5 was given"),
    ],
)
def test_bad_questions_are_one_sentence(posterior, ask, message):
    """What was given, what is allowed, what to do."""
    with pytest.raises(ValueError, match=message):
        ask(posterior)


def test_held_out_data_have_the_names_of_the_data():
    """Names in another order, or other names, are refused; data without names are taken as is."""
    ones = np.random.default_rng(1).integers(0, 2, (8, 6))
    frame = pd.DataFrame(ones, columns=list("abcdef"))
    settings = {"noise": "unequal", "chains": 1, "warmup": 5, "draws": 4, "seed": 1}
    posterior = thali.sample(frame, **settings)
    score = posterior.log_score(frame)
    assert score == posterior.log_score(frame.to_numpy())
    assert score == posterior.log_score(frame.set_axis([f"row {i}" for i in range(8)]))
    with pytest.raises(ValueError, match=r"another order \(mode_1\): 'f' where 'a' is"):
        posterior.log_score(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match=r"other names than the data \(mode_1\): 'z'"):
        posterior.log_score(frame.rename(columns={"c": "z"}))
    assert thali.sample(frame.to_numpy(), **settings).log_score(frame) == score


@pytest.mark.parametrize(("chain", "draw"), [(2, 0), (0, 10), (-1, 0), (0, "x")])
def test_a_draw_that_is_not_there(posterior, chain, draw):
    """Chains and draws are numbered from 0."""
    with pytest.raises(IndexError, match="was given; there are"):
        posterior.draw(chain, draw)


def all_factors(posterior):
    return [posterior.factors(chain, draw) for chain in range(2) for draw in range(10)]


def test_co_membership_against_plain_loops(posterior):
    """The share of draws in which two rows have a component in common."""
    rows = [0, 3, 5]
    expected = np.zeros((3, 3))
    for users, _ in all_factors(posterior):
        for i, a in enumerate(rows):
            for j, b in enumerate(rows):
                expected[i, j] += (users[a] & users[b]).any() / 20
    np.testing.assert_allclose(posterior.co_membership(rows), expected)


def test_imputation_is_the_prediction_of_unknown_entries(posterior):
    """The same probabilities, at the positions that are unknown."""
    positions, probabilities = posterior.impute()
    assert len(positions) == 48 - posterior.tensor.n_known > 0
    np.testing.assert_array_equal(probabilities, posterior.predict()[tuple(positions.T)])


def test_error_against_plain_loops(posterior):
    """The share of known entries that the components of a draw get wrong."""
    users, codes = posterior.factors(1, 4)
    covered = (users[:, None, :] & codes[None, :, :]).any(axis=2)
    wrong = (covered != DATA)[~np.isnan(DATA)]
    assert posterior.error[1, 4] == pytest.approx(wrong.mean())


def test_shared_components_against_plain_loops(posterior):
    """How many components at least two rows have."""
    shared = [int((users.sum(axis=0) >= 2).sum()) for users, _ in all_factors(posterior)]
    table = posterior.n_components_table(least_users=2)
    assert table.to_dict() == {k: shared.count(k) / 20 for k in sorted(set(shared))}
