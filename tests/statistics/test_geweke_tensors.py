"""Geweke's joint-distribution test of tensors: three and four modes, all moves, and mistakes."""

from functools import partial

import pytest

from support import compare, mutants
from support.joint import NAMES, Problem, chain_samples, prior_samples
from thali.model import Beta, Gamma, Model, UnequalRates

MODEL = Model(
    noise=UnequalRates((2.0, 8.0), (3.0, 7.0)), alpha=Gamma(4.0, 3.0), density=Beta(4.0, 4.0)
)
THREE = Problem((4, 3, 3), ((1, 2, 0), (3, 0, 1)), MODEL)
FOUR = Problem((3, 2, 3, 2), ((1, 1, 0, 0),), MODEL)
SOME = {"residual": 1, "seeded": 1, "split_merge": 1}
ALL = SOME | {"guided": 1}


@pytest.mark.parametrize(
    ("problem", "n"),
    [
        pytest.param(THREE, 3_000, id="three modes"),
        pytest.param(THREE, 40_000, marks=pytest.mark.slow, id="three modes for longer"),
        pytest.param(FOUR, 20_000, marks=pytest.mark.slow, id="four modes"),
    ],
)
def test_tensors(problem, n):
    """All moves, everything learned, some entries unknown."""
    sampled = chain_samples(n, problem, **ALL)
    compare.assert_geweke(prior_samples(4 * n, problem), sampled, NAMES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "moves", [{"residual": 2}, {"seeded": 2}, {"residual": 1, "split_merge": 2}]
)
def test_single_moves(moves):
    """Each move that gives birth, and splits."""
    n = 20_000
    compare.assert_geweke(prior_samples(4 * n, THREE), chain_samples(n, THREE, **moves), NAMES)


MISTAKES = {
    "components that die in a block": mutants.dropped_in_a_block_of_tensors,
    "the weights of components": mutants.sticks_of_one_row_more,
    "the row of the seed": mutants.wrong_box("boxes", "BOX", " - log(n_users)", ""),
    "births of single rows": mutants.wrong_box("boxes", "OWN_BOX", " + log(n_rows)", ""),
    "how lines are divided": mutants.wrong_box(
        "split_boxes", "SPLIT_BOXES", "ratio -= float(log_division(pair[0], pair[1]))", "pass"
    ),
}
QUICKLY_SEEN = ("components that die in a block",)


@pytest.mark.parametrize(
    "mistake",
    [m if m in QUICKLY_SEEN else pytest.param(m, marks=pytest.mark.slow) for m in MISTAKES],
)
def test_a_mistake_is_rejected(mistake, monkeypatch):
    """The same test fails if one thing is wrong, after no more sweeps.

    After 3,000 sweeps |z| was 28.7, 11.1, 6.8, 8.5 and 12.3, in this order, and 1.5 without a
    mistake; the bound is 6.3.
    """
    MISTAKES[mistake](monkeypatch.setattr)
    n = 3_000 if mistake in QUICKLY_SEEN else 10_000
    sampled = partial(chain_samples, problem=THREE, **SOME)
    assert compare.geweke_rejects_by(n, partial(prior_samples, problem=THREE), sampled)
