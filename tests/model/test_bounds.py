"""A quick look never rejects what the marginal likelihoods themselves would not."""

import numpy as np
import pytest

from support.mutants import mutate
from thali.model import bounds
from thali.model.marginals import Marginal

SETS = {  # classes of every component after and before, as bits
    "split": ((0b101, 0b110), (0b111,)),
    "merge": ((0b111,), (0b101, 0b110)),
    "toggle": ((0b011, 0b110), (0b101, 0b110)),
    "birth": ((0b1010101, 0b1100110, 0b1111000), (0b1010101, 0b1100110)),
    "first": ((0b1,), ()),
}


def looks(name, may_exceed, *, scale, n_columns, seed):
    """Yield the true excess and whether the quick look says that it may exceed a number."""
    rng = np.random.default_rng(seed)
    after, before = (np.array(sets, np.int64) for sets in SETS[name])
    n_classes = max(int(max([*after, *before])).bit_length(), 1)
    n_tiles = n_columns // bounds.TILE + 1
    for _ in range(20):
        gains = scale * rng.standard_normal((n_classes, n_tiles, bounds.TILE))
        has_rows = int(rng.integers(1 << n_classes))
        counts = np.zeros(n_tiles * bounds.TILE)
        counts[rng.permutation(counts.size)[:n_columns]] = 1.0
        kept = np.array([(has_rows >> c) & 1 for c in range(n_classes)], float)
        exact = (kept[:, None, None] * gains).reshape(n_classes, -1)[:, counts > 0].T.copy()
        new, old = rng.uniform(0.01, 0.99, len(after)), rng.uniform(0.01, 0.99, len(before))
        excess = Marginal(exact, after, new).gain(Marginal(exact, before, old))
        for distance in (-1e3, -1.0, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 1.0, 1e3, 1e6):
            least = excess + distance
            yield distance, may_exceed(
                gains.astype(np.float32), counts.reshape(n_tiles, -1).astype(np.float32),
                n_columns, has_rows, float(np.abs(gains).sum(axis=0).max()), after, new, before,
                old, least,
            )  # fmt: skip


CASES = [(name, scale, n) for name in SETS for scale, n in ((0.3, 40), (20.0, 300), (500.0, 256))]


@pytest.mark.parametrize(("name", "scale", "n_columns"), CASES)
def test_nothing_is_rejected_too_early(name, scale, n_columns):
    """What is as large as the number may exceed it; what is far below does not."""
    found = list(looks(name, bounds.may_exceed, scale=scale, n_columns=n_columns, seed=1))
    assert all(says for distance, says in found if distance <= 0.0)
    assert not any(says for distance, says in found if distance == 1e6)


def test_a_bound_that_is_too_low_is_noticed():
    """Exponentials from a longer series are larger than they should be, and the bound smaller."""
    edit = ("_1 + _HALF * x * (_1", "_1 + x * (_1")
    wrong = mutate("thali.model.bounds", [edit]).may_exceed
    found = [d for d, says in looks("split", wrong, scale=0.3, n_columns=40, seed=1) if not says]
    assert min(found) <= 0.0


@pytest.mark.parametrize("n_columns", [1, bounds.TILE, 300])
def test_exact_gains_in_tiles(n_columns):
    """The numbers are the same, and columns that fill up the last tile do not count."""
    exact = np.random.default_rng(4).standard_normal((n_columns, 3)) * (1.0, 0.0, 20.0)
    gains, counts, has_rows, most = bounds.in_tiles(exact)
    expected = np.zeros((3, counts.size), np.float32)
    expected[:, :n_columns] = exact.T
    np.testing.assert_array_equal(gains.reshape(3, -1), expected)
    np.testing.assert_array_equal(counts.ravel(), np.arange(counts.size) < n_columns)
    assert (has_rows, most) == (0b101, pytest.approx(np.abs(exact).sum(axis=1).max()))
