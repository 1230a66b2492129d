"""Decisions of many rows in single precision leave to integers whatever is not certain."""

import numpy as np
import pytest
from numba import njit

from thali.decide import LIMIT, SCALE, exp_neg, is_unlikely
from thali.engines.cpu.counters import TILE
from thali.engines.cpu.open_rows import _MARGIN, _compare, make_room

N = 64 * TILE


@njit
def exact(scores, uniforms):
    found = np.empty(len(scores), np.uint8)
    for u in range(len(scores)):
        found[u] = is_unlikely(scores[u], uniforms[u])
    return found


@njit
def odds_of(scores):
    return np.array([exp_neg(abs(score)) for score in scores])


@njit
def compared(scores, uniforms):
    room = make_room()
    room.scores[: len(scores)] = scores
    room.uniforms[: len(scores)] = uniforms
    _compare(len(scores), room)
    return room.is_other, room.odds


def cases(seed, scale):
    """Return scores, and random numbers about as far as ``scale`` from where decisions change."""
    rng = np.random.default_rng(seed)
    scores = (rng.uniform(-1.0, 1.0, N) ** 3 * int(LIMIT)).astype(np.int64)
    odds = odds_of(scores) / 2.0**64
    at = odds / (1.0 + odds) + scale * rng.normal(size=N)
    return scores, (at.clip(0.0, 1.0 - 2.0**-53) * 2.0**64).astype(np.uint64)


def wrong(scores, uniforms, margin):
    """Return how many decisions would be wrong if this margin were left to integers."""
    is_other, clear = compared(scores, uniforms)
    return int(((is_other != exact(scores, uniforms)) & (clear >= margin)).sum())


@pytest.mark.parametrize("scale", [1e-8, 1e-6, 1e-5, 1e-4, 0.1])
def test_what_is_clear_is_right(scale):
    """With a fifth of the margin, too, wherever the random number is."""
    for seed in range(20):
        assert wrong(*cases(seed, scale), _MARGIN / 5.0) == 0


def test_without_a_margin_decisions_are_wrong():
    """The same comparison finds them."""
    assert wrong(*cases(0, 1e-8), 0.0) > 100


@pytest.mark.parametrize("score", [0, 1, -1, int(LIMIT) - 1, 1 - int(LIMIT), SCALE, 20 * SCALE])
def test_extremes(score):
    """Even and hopeless odds, and the smallest and the largest random number."""
    scores = np.full(4, score)
    uniforms = np.array([0, 1, 2**63, 2**64 - 1], np.uint64)
    is_other, clear = compared(scores, uniforms)
    decided = np.where(clear[:4] < _MARGIN, exact(scores, uniforms), is_other[:4])
    assert decided.tolist() == exact(scores, uniforms).tolist()


def test_few_decisions_are_left():
    """Otherwise nothing would be gained."""
    rng = np.random.default_rng(0)
    scores = (rng.normal(size=N) * 2.0 * SCALE).astype(np.int64)
    _, clear = compared(scores, rng.integers(0, 2**64, N, np.uint64))
    assert (clear[:N] < _MARGIN).mean() < 1e-3
