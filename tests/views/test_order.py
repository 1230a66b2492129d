"""Orders: structure that was shuffled is found again; ties and directions are fixed."""

import numpy as np
import pytest

import thali
from thali import views
from thali.bits import Factor
from thali.views import aligned
from thali.views.order import gray_order

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")


def gray_code(n_bits):
    """The reflected Gray code in the textbook's recursion."""
    if n_bits == 0:
        return [()]
    rest = gray_code(n_bits - 1)
    return [(0, *code) for code in rest] + [(1, *code) for code in reversed(rest)]


@pytest.mark.parametrize("n_bits", [1, 2, 5, 9])
def test_gray_order_against_the_recursion(n_bits):
    """All patterns, shuffled, come back in the textbook's order, read from its end."""
    code = np.array(gray_code(n_bits), bool)
    shuffled = np.random.default_rng(1).permutation(code)
    np.testing.assert_array_equal(shuffled[gray_order(shuffled)], code[::-1])


def test_equal_rows_keep_their_order():
    """Rows that have the same components stay as in the data."""
    patterns = np.array([[0, 1], [1, 0], [0, 1], [1, 0], [0, 1]], bool)
    assert gray_order(patterns).tolist() == [1, 3, 0, 2, 4]
    assert gray_order(np.zeros((3, 0), bool)).tolist() == [0, 1, 2]


class Known:
    """Stands for a posterior whose draws all are one known set of factors."""

    def __init__(self, *factors, row_names=None):
        self.shape = tuple(len(f) for f in factors)
        self.row_names = row_names or (None,) * len(factors)
        n_components = factors[0].shape[1]
        aligned._KNOWN[self] = aligned.Components(
            tuple(Factor.from_dense(f) for f in factors),
            tuple(f.astype(float) for f in factors),
            np.ones(n_components),
            np.ones(n_components),
        )


def runs(line):
    """Count the unbroken runs of ones."""
    return int(np.diff(line.astype(int), prepend=0).clip(0).sum())


def test_a_chain_of_overlapping_blocks_is_laid_out():
    """Components that overlap like a chain, shuffled: each is one block again, none is broken."""
    generator = np.random.default_rng(5)
    rows, columns = np.zeros((70, 5), bool), np.zeros((90, 5), bool)
    for k in range(5):
        rows[10 * k : 10 * k + 15, k] = True
        columns[14 * k : 14 * k + 20, k] = True
    shuffle = generator.permutation(5)
    rows, columns = rows[:, shuffle], columns[:, shuffle]
    known = Known(generator.permutation(rows), generator.permutation(columns))
    shown = aligned.components(known)
    row_order, column_order = views.seriate(known)
    for factor, order in zip(shown.factors, (row_order, column_order), strict=True):
        dense = factor.dense()
        assert [runs(line) for line in dense.T] != [1] * 5  # control: they were broken
        assert [runs(line) for line in dense[order].T] == [1] * 5
        assert sorted(order.tolist()) == list(range(factor.n_rows))
        is_empty = ~dense[order].any(axis=1)
        assert is_empty[-is_empty.sum() :].all()
    # Neighbours in the chain are neighbours in the order, whichever end comes first.
    assert shuffle[views.component_order(known)].tolist() in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0])


@pytest.mark.parametrize("n_components", [0, 1, 2, 3])
def test_larger_components_come_first(n_components):
    """Also where there is nothing to cluster."""
    rows = np.tri(6, n_components, dtype=bool)[:, ::-1]
    known = Known(rows, np.eye(8, n_components, dtype=bool))
    expected = list(range(n_components))[::-1]
    assert views.component_order(known).tolist() == expected


@pytest.mark.parametrize("mode", [0, 3, -1, True, 1.0, "x"])
def test_modes_that_make_no_columns(mode):
    """The first mode makes the rows."""
    known = Known(*(np.ones((n, 1), bool) for n in (3, 4, 5)))
    with pytest.raises(ValueError, match=rf"mode={mode!r} was given; .* from 1 to 2"):
        views.seriate(known, mode)
    with pytest.raises(ValueError, match=rf"mode={mode!r} was given"):
        views.blocks(known, [0], [0], (1, 1), mode=mode)


def test_components_are_followed_once():
    """Views of a posterior share the alignment, and it goes with the posterior."""
    tensor = thali.simulate((12, 10), 2, seed=2).tensor
    posterior = thali.sample(tensor, noise="unequal", chains=2, warmup=20, draws=10, seed=1)
    alignment = posterior.align()
    posterior.align = lambda: alignment
    first = views.components(posterior)
    del posterior.align
    assert views.components(posterior) is first
    for table, means in zip(first.probabilities, alignment.means, strict=True):
        np.testing.assert_array_equal(table, means * alignment.matched)
    n_known = len(aligned._KNOWN)
    del posterior
    assert len(aligned._KNOWN) == n_known - 1
