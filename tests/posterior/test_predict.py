"""Prediction against dense Boolean products."""

from itertools import product
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from support.products import make_draw, random_draws, random_tensor
from thali.bits import PackedTensor
from thali.data import BinaryTensor
from thali.engines.cpu.counters import TILE
from thali.posterior import batches, positions, predict
from thali.posterior.coverage import SEGMENT
from thali.posterior.positions import unknown_entries
from thali.posterior.predict import log_scores, predictive, predictive_entries

SEED = st.integers(0, 2**32 - 1)
SHAPE = st.sampled_from([(5, 70), (70, 3), (3, 600), (3, 66, 4), (4, 2, 65), (2, 3, 2, 5)])
check = settings(deadline=None, max_examples=30, derandomize=True)


def expected_probabilities(draws, products):
    total = np.zeros(products.shape[1:])
    for draw, cover in zip(draws, products, strict=True):
        total += np.where(cover, 1.0 - draw.state.noise.dropped, draw.state.noise.spurious)
    return total / len(draws)


def all_positions(shape):
    return np.array(list(product(*map(range, shape))))


def close(got, expected):
    """Compare means of at most 130 probabilities, summed in another order: 130 roundings."""
    np.testing.assert_allclose(got, expected, rtol=130 * 2**-52, atol=0)


@check
@given(SHAPE, st.lists(st.sampled_from([0, 1, 3, 64, 70, 130]), min_size=1, max_size=19), SEED)
def test_predictive(shape, sizes, seed):
    """Every entry has the mean over draws of its probability; listed entries the same bits."""
    rng = np.random.default_rng(seed)
    draws, products = random_draws(shape, sizes, rng)
    got = predictive(draws, shape, slice(None))
    close(got, expected_probabilities(draws, products))
    listed = predictive_entries(draws, shape, all_positions(shape))
    assert np.array_equal(listed, got.ravel())


@check
@given(SHAPE, SEED)
def test_noise_free(shape, seed):
    """Without noise the result is exactly the fraction of draws that cover."""
    rng = np.random.default_rng(seed)
    draws, products = random_draws(shape, rng.integers(0, 5, 11), rng)
    expected = products.sum(axis=0) / len(draws)
    assert np.array_equal(predictive(draws, shape, slice(None), noise_free=True), expected)
    listed = predictive_entries(draws, shape, all_positions(shape), noise_free=True)
    assert np.array_equal(listed, expected.ravel())


@check
@given(SHAPE, SEED)
def test_rows_in_any_order(shape, seed):
    """Chosen rows, also repeated and none, are those of the whole result."""
    rng = np.random.default_rng(seed)
    draws, _ = random_draws(shape, [2, 0, 3], rng)
    whole = predictive(draws, shape, slice(None))
    rows = rng.integers(0, shape[0], 5)
    assert np.array_equal(predictive(draws, shape, rows), whole[rows])
    assert np.array_equal(predictive(draws, shape, slice(1, None, 2)), whole[1::2])
    assert predictive(draws, shape, []).shape == (0, *shape[1:])
    assert predictive_entries(draws, shape, np.zeros((0, len(shape)), int)).shape == (0,)


@pytest.mark.parametrize("limit", [1, 1 << 22])
@pytest.mark.parametrize("shape", [(9, 600), (7, 3, 66)])
def test_threads_and_batches_change_nothing(shape, limit, monkeypatch):
    """Threads, and how many draws are laid out at a time, do not change a bit."""
    rng = np.random.default_rng(3)
    draws, products = random_draws(shape, rng.integers(0, 6, 130), rng)
    tensor = BinaryTensor.from_any(products[0])
    alone = predictive(draws, shape, slice(None), threads=1)
    close(alone, expected_probabilities(draws, products))
    score = log_scores(draws, shape, tensor, threads=1)
    positions = all_positions(shape)
    monkeypatch.setattr(batches, "_BATCH_WORDS", limit)
    for threads in (1, 2, 3, 20):
        assert np.array_equal(predictive(draws, shape, slice(None), threads=threads), alone)
        entries = predictive_entries(draws, shape, positions, threads=threads)
        assert np.array_equal(entries, alone.ravel())
        assert log_scores(draws, shape, tensor, threads=threads) == score


@check
@given(SHAPE, st.sampled_from([0.0, 0.3, 0.98]), SEED, st.sampled_from([1, 1 << 25]))
def test_log_scores(shape, share_unknown, seed, block):
    """The score is the sum of log probabilities of known entries, whatever the blocks."""
    rng = np.random.default_rng(seed)
    draws, products = random_draws(shape, rng.integers(0, 5, 9), rng)
    data = random_tensor(shape, rng, share_unknown)
    probability = expected_probabilities(draws, products)
    expected = [
        log(probability[at] if data[at] == 1.0 else 1.0 - probability[at])
        for at in product(*map(range, shape))
        if not np.isnan(data[at])
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict, "_BLOCK_ENTRIES", block)
        score = log_scores(draws, shape, BinaryTensor.from_any(data))
    # Probabilities lie between 0.01 and 0.99: 1 - p and its log lose at most 100 roundings.
    np.testing.assert_allclose(score.total, sum(expected), rtol=1e-12)
    assert score.n_entries == len(expected)
    assert score.mean == score.total / score.n_entries


def test_log_scores_of_sparse_and_packed_data():
    """Sparse and packed tensors give the score of the dense one."""
    rng = np.random.default_rng(5)
    shape = (9, 130)
    draws, _ = random_draws(shape, [3, 2], rng)
    data = random_tensor(shape, rng)
    dense = BinaryTensor.from_any(data)
    score = log_scores(draws, shape, dense)
    assert log_scores(draws, shape, BinaryTensor.from_any(sparse.csr_array(data))) == score
    assert log_scores(draws, shape, PackedTensor.from_tensor(dense)) == score


def test_rare_errors_are_not_rounded_away():
    """A zero where all draws predict a one has the probability of a dropped one."""
    draws = [make_draw([np.ones((1, 1), bool)] * 2, 1e-12, 1e-12)] * 100
    score = log_scores(draws, (1, 1), BinaryTensor.from_any([[0]]))
    assert score.total == pytest.approx(log(1e-12), rel=1e-13)


@check
@given(SHAPE, st.sampled_from([0.02, 0.5, 0.95]), st.sampled_from([1, 50, 1 << 24]), SEED)
def test_unknown_entries(shape, share_unknown, block, seed):
    """Blocks of unknown positions together are all of them, in order."""
    data = random_tensor(shape, np.random.default_rng(seed), share_unknown)
    packed = PackedTensor.from_tensor(BinaryTensor.from_any(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "_BLOCK_POSITIONS", block)
        blocks = list(unknown_entries(packed))
    assert all(len(b) for b in blocks)
    most = np.isnan(data).reshape(shape[0], -1).sum(axis=1).max()
    assert all(len(b) <= max(block, most) for b in blocks)
    found = np.concatenate([*blocks, np.zeros((0, len(shape)), int)])
    assert np.array_equal(found, np.argwhere(np.isnan(data)))


def test_rows_longer_than_a_segment():
    """Rows of more words than a kernel handles at once lose nothing."""
    rng = np.random.default_rng(2)
    shape = (2, 64 * SEGMENT + 64 * TILE + 70)
    draws, products = random_draws(shape, [3, 2, 0, 4], rng)
    close(predictive(draws, shape, slice(None)), expected_probabilities(draws, products))


def test_nothing_unknown():
    """A fully known tensor has no unknown entries."""
    packed = PackedTensor.from_tensor(BinaryTensor.from_any(np.eye(3)))
    assert list(unknown_entries(packed)) == []


def test_messages():
    """Bad input is refused in one sentence."""
    draws, _ = random_draws((3, 4), [2], np.random.default_rng(0))
    for bad in ([3], [-1], [0.5], [[0]], [True, False, True]):
        with pytest.raises(ValueError, match="was given; allowed are a slice, or a list of row"):
            predictive(draws, (3, 4), bad)
    with pytest.raises(ValueError, match="no draws were given"):
        predictive([], (3, 4), slice(None))
    with pytest.raises(ValueError, match="no draws were given"):
        predictive_entries([], (3, 4), [[0, 0]])
    for bad in ([[0, 0, 0]], [0, 1], [[0.0, 1.0]]):
        with pytest.raises(ValueError, match="allowed are integers with 2 columns"):
            predictive_entries(draws, (3, 4), bad)
    for bad in ([0, 4], [3, 0], [0, -1]):
        with pytest.raises(ValueError, match=rf"the position \[{bad[0]}, {bad[1]}\] was given"):
            predictive_entries(draws, (3, 4), [[0, 0], bad])
    with pytest.raises(ValueError, match="threads=0 was given"):
        predictive(draws, (3, 4), slice(None), threads=0)
    tensor = BinaryTensor.from_any(np.eye(3))
    with pytest.raises(ValueError, match=r"shape \(3, 3\) was given to score draws of shape"):
        log_scores(draws, (3, 4), tensor)
    with pytest.raises(TypeError, match="a list_iterator was given; draws are traversed more"):
        log_scores(iter(draws), (3, 3), tensor)
    with pytest.raises(ValueError, match=r"a draw of shape \(3, 4\) was given"):
        predictive(draws, (3, 5), slice(None))
    with pytest.raises(ValueError, match=r"a draw of shape \(3, 4\) was given"):
        predictive_entries(draws, (3, 5), [[0, 4]])
