"""The point estimate against the definition, entry by entry."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.products import loop_product, make_draw, random_draws, random_tensor
from thali.bits import PackedTensor
from thali.data import BinaryTensor
from thali.engines.cpu.counters import TILE
from thali.posterior import batches, estimate
from thali.posterior.coverage import SEGMENT
from thali.posterior.estimate import point_estimate, row_mode

SEED = st.integers(0, 2**32 - 1)
SHAPE = st.sampled_from([(5, 70), (70, 3), (3, 600), (2, 4200), (3, 66, 4), (2, 3, 2, 5)])
check = settings(deadline=None, max_examples=30, derandomize=True)


def packed(data):
    return PackedTensor.from_tensor(BinaryTensor.from_any(data))


def loop_loss(products, draw, missed, false):
    """Return the expected loss of a draw, exactly."""
    n_draws, cover, counts = len(products), products[draw], products.sum(axis=0)
    n_missed = Fraction(int(counts[~cover].sum()), n_draws)
    n_false = Fraction(int((n_draws - counts[cover]).sum()), n_draws)
    return Fraction(missed) * n_missed + Fraction(false) * n_false


def best_draw(products, sizes, missed, false, modal):
    allowed = range(len(sizes))
    if modal:
        most = max(sorted(set(sizes)), key=list(sizes).count)
        allowed = [i for i in allowed if sizes[i] == most]
    return min(allowed, key=lambda i: loop_loss(products, i, missed, false))


def counted(draw, product, data):
    """Return the draw with the counts of covered ones and zeros that its state should have."""
    covered = int((product & (data == 1)).sum()), int((product & (data == 0)).sum())
    return draw._replace(state=draw.state._replace(covered=covered))


@check
@given(
    SHAPE,
    st.lists(st.sampled_from([0, 1, 2, 3, 70, 130]), min_size=1, max_size=19),
    st.sampled_from([(1.0, 1.0), (3.0, 0.7), (0.1, 0.2)]),
    st.booleans(),
    st.sampled_from([1, 1 << 23]),
    SEED,
)
def test_least_expected_loss(shape, sizes, losses, modal, block, seed):
    """The draw, its loss, its confusion and error are those of plain loops."""
    rng = np.random.default_rng(seed)
    draws, products = random_draws(shape, sizes, rng)
    data = random_tensor(shape, rng)
    draws = [counted(d, p, data) for d, p in zip(draws, products, strict=True)]
    missed, false = losses
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimate, "_BLOCK_WORDS", block)
        got = point_estimate(draws, packed(data), missed=missed, false=false, modal=modal)
    expected = best_draw(products, sizes, missed, false, modal)
    assert got.draw == expected
    assert got.expected_loss == float(loop_loss(products, expected, missed, false))
    assert got.factors is draws[expected].state.factors
    cells = [(products[expected][at], data[at]) for at in product(*map(range, shape))]
    assert got.confusion == tuple(cells.count(c) for c in ((1, 1), (1, 0), (0, 0), (0, 1)))
    n_wrong = got.confusion.fp + got.confusion.fn
    assert got.error == n_wrong / np.count_nonzero(~np.isnan(data))


def test_many_draws_threads_and_batches(monkeypatch):
    """Hundreds of draws in small batches on several threads give the same answer."""
    rng = np.random.default_rng(1)
    shape = (9, 600)
    draws, products = random_draws(shape, rng.integers(1, 4, 300), rng)
    tensor = packed(random_tensor(shape, rng))
    whole = point_estimate(draws, tensor, threads=1)
    assert whole.draw == best_draw(products, [d.state.n_components for d in draws], 1, 1, True)
    monkeypatch.setattr(batches, "_BATCH_WORDS", 1)
    for threads in (2, 3):
        assert point_estimate(draws, tensor, threads=threads) == whole


def test_rows_longer_than_a_segment():
    """Rows of more words than a kernel handles at once lose nothing."""
    rng = np.random.default_rng(2)
    shape = (2, 64 * SEGMENT + 64 * TILE + 70)
    sizes = [3, 3, 3, 2, 0, 3, 3, 3, 3]
    draws, products = random_draws(shape, sizes, rng)
    got = point_estimate(draws, packed(products[0]), missed=3.0)
    best = best_draw(products, sizes, 3.0, 1.0, modal=True)
    assert (got.draw, got.expected_loss) == (best, float(loop_loss(products, best, 3.0, 1.0)))


@pytest.mark.parametrize("n_draws", [1, 7, 8, 9, 16, 128])
def test_certainty_costs_nothing(n_draws):
    """If all draws agree, the loss is zero: the counters hold the number of draws."""
    draw = make_draw([np.ones((3, 1), bool), np.eye(4, 1, dtype=bool)])
    assert point_estimate([draw] * n_draws, packed(np.ones((3, 4)))).expected_loss == 0.0


def test_densest_of_equals():
    """Of draws with the same product, the one of highest density is chosen, or the first."""
    factors = [np.ones((3, 1), bool), np.eye(4, 1, dtype=bool)]
    other = [np.ones((3, 1), bool), ~factors[1]]
    draws = [make_draw(f) for f in (other, factors, factors, factors)]
    for log_joints, expected in (((0, 0, 0, 0), 1), ((9, -7, -5, -6), 2), ((9, -7, -7, -6), 3)):
        drawn = [d._replace(log_joint=float(v)) for d, v in zip(draws, log_joints, strict=True)]
        got = point_estimate(drawn, packed(np.zeros((3, 4))))
        assert (got.draw, got.expected_loss) == (expected, 3.0)


def test_smallest_of_equally_frequent_sizes():
    """Two sizes as frequent: the smaller one counts, also if it is 0."""
    one = [np.ones((3, 1), bool), np.ones((4, 1), bool)]
    none = [np.ones((3, 0), bool), np.ones((4, 0), bool)]
    draws = [make_draw(f) for f in (one, none, none, one)]
    got = point_estimate(draws, packed(np.ones((3, 4))))
    assert (got.draw, got.expected_loss, got.error) == (1, 6.0, 1.0)
    assert point_estimate(draws, packed(np.ones((3, 4))), modal=False).draw == 0


def test_loss_decides():
    """A costly miss favours the draw that covers more, a costly false one the other."""
    small = [np.eye(3, 1, dtype=bool), np.ones((4, 1), bool)]
    large = [np.ones((3, 1), bool), np.ones((4, 1), bool)]
    draws = [make_draw(small), make_draw(large)]
    tensor = packed(np.ones((3, 4)))
    assert point_estimate(draws, tensor, missed=2.0).draw == 1
    assert point_estimate(draws, tensor, false=2.0).draw == 0
    assert loop_product(large, (3, 4)).all()


def test_draws_without_length():
    """Anything that can be passed over again will do."""

    class Again:
        def __iter__(self):
            return iter(draws)

    rng = np.random.default_rng(0)
    draws, _ = random_draws((3, 5), [2, 2, 1], rng)
    tensor = packed(np.eye(3, 5))
    assert point_estimate(Again(), tensor) == point_estimate(draws, tensor)


@pytest.mark.parametrize(
    ("shape", "mode"),
    [
        ((301, 21000), 0),
        ((21000, 301), 1),
        ((9, 30), 0),
        ((10, 1000, 100_000), 2),
        ((5000, 5000), 0),
    ],
)
def test_row_mode(shape, mode):
    """Rows are the longest mode that leaves full tiles, or else those of the longest codes."""
    assert row_mode(shape) == mode


def test_messages():
    """Bad input is refused in one sentence."""
    draws, _ = random_draws((3, 4), [2], np.random.default_rng(0))
    tensor = packed(np.eye(3, 4))
    with pytest.raises(ValueError, match=r"missed=0\.0 was given"):
        point_estimate(draws, tensor, missed=0.0)
    with pytest.raises(ValueError, match=r"false=nan was given"):
        point_estimate(draws, tensor, false=float("nan"))
    with pytest.raises(ValueError, match="no draws were given"):
        point_estimate([], tensor)
    with pytest.raises(TypeError, match="a list_iterator was given"):
        point_estimate(iter(draws), tensor)
    with pytest.raises(ValueError, match=r"a draw of shape \(3, 4\) was given"):
        point_estimate(draws, packed(np.eye(4, 3)))
