"""Offset and common jump drawn together: weights, blocks and frequencies."""

import numpy as np
import pytest

from support.mutants import mutate
from thali.model import Effects, Levels, Model
from thali.model.levels import Hyper
from thali.sampler import Schedule, Target, offset_with_jump
from thali.sampler.info import Info
from thali.streams import Stream, chain_key

SMALL = Effects(
    row_levels=(-1.0, 0.0, 1.0), column_levels=(-2.0, -1.0, 0.5), jump_sizes=(1.0, 1.5, 2.0, 2.5),
    jump_stride=1, offsets=(-0.5, -0.25, 0.0, 0.25, 0.5, 0.75), spreads=(0.0, 1.0),
)  # fmt: skip
N_OFFSETS, N_JUMPS = 6, 4


def problem():
    """Return a target and a state with one jump; the data are partly unknown."""
    rng = np.random.default_rng(3)
    data = (rng.random((12, 7)) < 0.4).astype(float)
    data[rng.random(data.shape) < 0.1] = np.nan
    target = Target.prepare(data, Model(noise=SMALL), Schedule(), threads=1)
    state = target.initial(chain_key(1), [rng.random((n, 2)) < 0.4 for n in data.shape])
    rows, columns = rng.integers(3, size=12), rng.integers(3, size=7)
    noise = Levels(SMALL, rows, columns, np.full(7, 1), Hyper(1, 1, 1, 1, 0, 2))
    return target, target.recount(state._replace(noise=noise))


def exact():
    """The probability of every pair, by the joint density."""
    target, state = problem()
    logs = np.empty((N_OFFSETS, N_JUMPS))
    for offset, jump in np.ndindex(logs.shape):
        hyper = state.noise.hyper._replace(offset=offset, jump_mean=jump)
        noise = state.noise.with_columns(state.noise.columns, np.full(7, jump), hyper)
        logs[offset, jump] = Info(state._replace(noise=noise), target, False, {}).log_joint
    chances = np.exp(logs - logs.max())
    return chances / chances.sum()


def distance(module, n_draws=5_000):
    """Walk along blocks of two jumps and four offsets; return the total variation distance."""
    target, state = problem()
    expected, counts = exact(), np.zeros((N_OFFSETS, N_JUMPS))
    for number in range(n_draws):
        stream = Stream(chain_key(2), np.uint64(number))
        state = module.draw_offset_with_jump(stream, state, target)
        hyper = state.noise.hyper
        assert (state.noise.jumps == hyper.jump_mean).all()
        counts[hyper.offset, hyper.jump_mean] += 1
    return 0.5 * np.abs(counts / n_draws - expected).sum()


# Of 24 pairs, n independent draws are off by sqrt(48 / (pi n)) / 2 = 0.028 on average, at most.
# Draws of a walk are worth fewer; if they are worth a quarter, by twice as much.
LARGEST = 0.1


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(offset_with_jump, "_OFFSETS", 4)
    monkeypatch.setattr(offset_with_jump, "_JUMPS", 2)


def test_pairs_are_drawn_by_their_probabilities():
    """A walk that never leaves the conditional given all levels."""
    assert distance(offset_with_jump) < LARGEST


SMALLER = [("_OFFSETS, _JUMPS = 64, 4", "_OFFSETS, _JUMPS = 4, 2")]
MISTAKES = {
    "covered entries do not matter": (" + by_class(covered, tp, fp)", " + 0.0 * jumps"),
    "zeros and ones": ("by_class(free, fn, tn)", "by_class(free, tn, fn)"),
    "blocks around the present pair": (
        "start = (present + shift) // width * width - shift", "start = present - width // 2"
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_other_probabilities_are_noticed(mistake):
    """The same comparison fails."""
    mutant = mutate("thali.sampler.offset_with_jump", [*SMALLER, MISTAKES[mistake]])
    assert distance(mutant) > LARGEST


@pytest.mark.parametrize("width", [1, 3, 64])
def test_blocks_are_the_same_for_all_their_members(width):
    """Otherwise the way back would not be as likely."""
    for uniform in (0.0, 0.4, 0.99):
        blocks = [offset_with_jump._block(i, 10, width, uniform).tolist() for i in range(10)]
        for i, block in enumerate(blocks):
            assert i in block
            assert all(blocks[j] == block for j in block)


def test_where_nothing_is_drawn():
    """Where columns have jumps of their own, or no component shows what a jump is."""
    _, state = problem()
    assert offset_with_jump.has_one_jump(state)
    assert not offset_with_jump.has_one_jump(state.take(np.zeros(2, bool)))
    own = state.noise.with_columns(
        state.noise.columns, state.noise.jumps, state.noise.hyper._replace(jump_spread=1)
    )
    assert not offset_with_jump.has_one_jump(state._replace(noise=own))
