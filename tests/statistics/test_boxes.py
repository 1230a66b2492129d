"""The buffet on a tensor: sampled frequencies against the exact posterior, and broken twins."""

import numpy as np
import pytest

from support import compare, exact, mutants
from support.chains import NO_MOVES, X222, X223, as_exact, collect, hide, walk
from thali.bits import pack, unpack
from thali.model import Beta, FixedRates, Gamma, Model, UnequalRates
from thali.sampler import Schedule, Target, chain
from thali.sampler.moves import split_boxes
from thali.sampler.moves.boxes import BOX, OWN_BOX
from thali.sampler.moves.guided_boxes import GUIDED_BOXES
from thali.sampler.moves.move import Attempt
from thali.sampler.moves.split_boxes import SPLIT_BOXES
from thali.streams import Stream, chain_key

X2212 = np.array([[[[1, 1]], [[0, 1]]], [[[1, 0]], [[1, 1]]]])
FIXED = (
    X222, ((0, 1, 0),), Model(noise=FixedRates(0.1, 0.25), alpha=1.4, density=(0.3, 0.4))
)  # fmt: skip
LEARNED = (
    X223,
    ((1, 1, 0), (0, 0, 2)),
    Model(
        noise=UnequalRates((1.5, 6.0), (2.0, 5.0)), alpha=Gamma(2.0, 1.5), density=Beta(2.0, 3.0)
    ),
)
FOUR_MODES = (
    X2212,
    ((1, 1, 0, 0),),
    Model(noise=FixedRates(0.1, 0.2), alpha=1.2, density=(0.4, 0.6, 0.5)),
)
ALL = {"residual": 1, "seeded": 1, "split_merge": 1, "guided": 1}


def problem(given, **moves):
    """Return a chain and what is exact."""
    x, hidden, model = given
    tensor, known = hide(x, *hidden)
    expected = exact.posterior_ibp(x, known, as_exact(model), max_components=24)
    return walk(tensor, model, starts=0, **moves), expected


def check(given, n_sweeps, **moves):
    walked, expected = problem(given, **moves)
    compare.assert_matches(*collect(walked, n_sweeps), expected)


@pytest.mark.slow  # test_geweke_tensors.py has all of these moves quickly
@pytest.mark.parametrize(
    "moves", [{"residual": 2}, {"seeded": 1, "split_merge": 2}, {"residual": 1, "guided": 2}]
)
def test_moves(moves):
    """Births and deaths of single rows; of boxes, with splits; of boxes that resemble others."""
    check(FIXED, 3_000, **moves)


@pytest.mark.slow  # Geweke's test of tensors with all moves is quicker
def test_everything_learned():
    """All moves, unknown entries, and error rates, densities and concentration drawn."""
    check(LEARNED, 6_000, **ALL)


@pytest.mark.slow  # nothing in the code tells three modes from four
def test_four_modes():
    """One mode more, and one of a single line."""
    check(FOUR_MODES, 10_000, **ALL)


@pytest.mark.slow
@pytest.mark.parametrize("given", [FIXED, LEARNED])
@pytest.mark.parametrize("moves", [{"residual": 2}, {"seeded": 2}, ALL])
def test_longer(given, moves):
    """Both problems with each move that gives birth, and with all together."""
    check(given, 20_000, **moves)


MISTAKES = {
    "the row of the seed": ("boxes", "BOX", " - log(n_users) - log(n + is_birth)", ""),
    "the prior of lines": (
        "boxes", "OWN_BOX", "total += n * log(density) + (len(own) - n) * log1p(-density)", "",
    ),
    "how lines are drawn": (
        "boxes", "BOX", "total -= float(log_expit(np.where(own, of_mode, -of_mode)).sum())", "",
    ),
    "how lines are divided": (
        "split_boxes", "SPLIT_BOXES", "ratio -= float(log_division(pair[0], pair[1]))", "pass",
    ),
    "how lines join": ("guided_boxes", "GUIDED_BOXES", "ratio -= _log_guess(quarters, new)", ""),
}  # fmt: skip


QUICKLY_SEEN = ("the row of the seed", "how lines join")


@pytest.mark.parametrize(
    "mistake",
    [m if m in QUICKLY_SEEN else pytest.param(m, marks=pytest.mark.slow) for m in MISTAKES],
)
def test_a_mistake_is_rejected(mistake, monkeypatch):
    """The same comparison fails if one thing is wrong."""
    file, which, *edit = MISTAKES[mistake]
    mutant = mutants.mutate(f"thali.sampler.moves.{file}", [edit])
    mutants.put_move(monkeypatch.setattr, mutant, which, "TENSORS")
    moves = {getattr(mutant, which).name: 2} | ({} if file == "boxes" else {"residual": 1})
    # Without the prior, chains have so many components that they are slow to judge.
    n_sweeps = 40_000 if mistake == "the prior of lines" else 8_000
    compare.assert_rejected(*problem(FIXED, **moves), n_sweeps)


def flow(move, n_sweeps):
    """Return how many components come and go by a move, tried once on every exact draw."""
    model = Model(noise=FixedRates(0.2, 0.3), alpha=2.0, density=0.5)
    quiet = NO_MOVES | {"residual": 1, "split_merge": 1}
    target = Target.prepare(X223, model, Schedule(hold=0, starts=0, **quiet), threads=1)
    born = died = 0
    for sweep, (state, _) in enumerate(chain(chain_key(3), target, n_sweeps)):
        attempt = Attempt(Stream(chain_key(4), np.uint64(sweep)), np.uint64(0), state, target)
        after = move(attempt)
        if after is not None:
            born += after.n_components > state.n_components
            died += after.n_components < state.n_components
    return born, died


@pytest.mark.parametrize(
    "move",
    [
        BOX,
        *(pytest.param(m, marks=pytest.mark.slow) for m in (OWN_BOX, SPLIT_BOXES, GUIDED_BOXES)),
    ],
    ids=lambda move: move.name,
)
def test_as_many_come_as_go(move):
    """Over exact draws, components are born as often as they die (z below 4)."""
    born, died = flow(move, 1_500)
    assert born + died > 100
    assert abs(born - died) < 4.0 * np.sqrt(born + died)


def boxes_of(module, pairs, shape, summed):
    """Return which entries the merged component and both others cover, by the move's classes."""
    classes = module._classes(pairs, shape, summed)
    classes = unpack(classes, 64 * classes.shape[1])
    return [
        np.any([cells for bit, cells in enumerate(classes) if member >> bit & 1], axis=0)
        for member in (*module._ONE, *module._TWO)
    ]


def test_the_box_of_unions_is_not_the_union_of_boxes():
    """A merged component covers combinations that neither box has; a twin forgets them.

    Frequencies hardly show this: |z| is 5 after 40,000 sweeps of the twin.
    """
    rng = np.random.default_rng(6)
    shape = (3, 4, 5)  # a word of columns for each row; the last mode is summed out
    dense = [rng.random((2, n)) < 0.5 for n in shape]
    pairs = [pack(pair) for pair in dense]
    (one, other), (left, right) = dense[0], dense[1]
    expected = [
        np.logical_and.outer(rows, columns)
        for rows, columns in ((one | other, left | right), (one, left), (other, right))
    ]
    edit = ("np.array([0b1111])", "np.array([0b111])")
    twin = mutants.mutate("thali.sampler.moves.split_boxes", [edit])
    is_right = []
    for module in (split_boxes, twin):
        found = boxes_of(module, pairs, shape, 2)
        wide = [np.pad(cells, ((0, 0), (0, 60))).ravel() for cells in expected]
        is_right.append(all((a == b).all() for a, b in zip(found, wide, strict=True)))
    assert is_right == [True, False]
