"""Blocks: averages from packed bits equal those of plain dense arrays."""

from itertools import pairwise

import numpy as np
import pytest

import thali
from thali import views
from thali.views import raster

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

SHAPES = {"matrix": (23, 70), "tensor": (9, 5, 7), "long": (11, 4, 6)}


@pytest.fixture(scope="module", params=[*SHAPES, "all known"])
def case(request):
    """A short posterior, and its data with NaN where unknown."""
    shape = SHAPES.get(request.param, (15, 12))
    unknown = 0.0 if request.param == "all known" else 0.4
    tensor = thali.simulate(shape, 2, unknown=unknown, spurious=0.1, seed=1).tensor
    given = None if len(shape) == 2 else 3
    few = {"noise": "unequal", "chains": 2, "warmup": 20, "draws": 9}
    posterior = thali.sample(tensor, n_components=given, **few, seed=1)
    return posterior, tensor.astype(float)


def plain(tensor, covered, rows, columns, shape, mode):
    """The definition: means over all entries of a block, one block at a time."""
    tensor, covered = np.moveaxis(tensor, mode, 1), np.moveaxis(covered, mode, 1)
    known = ~np.isnan(tensor)
    edges = [
        [i * len(order) // n for i in range(n + 1)]
        for order, n in zip((rows, columns), shape, strict=True)
    ]
    out = np.full((4, *shape), np.nan)
    for i, (a, b) in enumerate(pairwise(edges[0])):
        for j, (c, d) in enumerate(pairwise(edges[1])):
            at = np.ix_(rows[a:b], columns[c:d])
            x, p, k = tensor[at], covered[at], known[at]
            out[1, i, j], out[2, i, j] = k.mean(), p.mean()
            if k.any():
                out[0, i, j], out[3, i, j] = x[k].mean(), (x[k] - p[k]).mean()
    return out


@pytest.mark.parametrize("wanted", [(4, 3), (1, 1), (9, 4)])
@pytest.mark.parametrize("most_cells", [1 << 21, 50])
def test_blocks_against_plain_arrays(case, wanted, most_cells, monkeypatch):
    """In any order, for every mode as columns, unpacked in one piece or row by row."""
    monkeypatch.setattr(raster, "MOST_CELLS", most_cells)
    posterior, tensor = case
    covered = posterior.predict(noise_free=True)
    for mode in range(1, tensor.ndim):
        rows, columns = (o[::-1] for o in views.seriate(posterior, mode))
        shown = views.blocks(posterior, rows, columns, wanted, mode=mode)
        expected = plain(tensor, covered, rows, columns, wanted, mode)
        for got, table in zip(shown[:4], expected, strict=True):
            np.testing.assert_allclose(got, table, rtol=1e-12, atol=1e-12)


def test_small_data_are_shown_entry_by_entry(case):
    """No more blocks than rows; a block is then one row and one column."""
    posterior, tensor = case
    if tensor.ndim > 2:
        return
    rows, columns = views.seriate(posterior)
    shown = views.blocks(posterior, rows, columns, (1000, 1000))
    np.testing.assert_array_equal(shown.data, tensor[np.ix_(rows, columns)])
    assert shown.row_edges.tolist() == list(range(len(rows) + 1))
    assert set(np.unique(shown.known)) <= {0.0, 1.0}


def test_rows_may_be_left_out(case):
    """Only what is in the orders is shown."""
    posterior, tensor = case
    covered = posterior.predict(noise_free=True)
    rows, columns = np.array([5, 2, 3]), np.array([1, 0])
    shown = views.blocks(posterior, rows, columns, (2, 1))
    np.testing.assert_allclose(
        shown.data, plain(tensor, covered, rows, columns, (2, 1), 1)[0], rtol=1e-12
    )


def test_large_data_are_thinned(case, monkeypatch):
    """Beyond the limits, evenly spaced rows of every block and evenly spaced draws count."""
    posterior, tensor = case
    n_columns = tensor[0].size
    monkeypatch.setattr(raster, "MOST_ENTRIES", 2 * 3 * n_columns)  # two rows for each of three
    monkeypatch.setattr(raster, "MOST_COVERED", 1)
    monkeypatch.setattr(raster, "FEWEST_DRAWS", 6)
    order = np.arange(9)  # blocks 0-2, 3-5, 6-8, of which the first two rows count
    columns = np.arange(tensor.shape[1])
    shown = views.blocks(posterior, order, columns, (3, 1))
    chosen = np.array([0, 1, 3, 4, 6, 7])
    factors = [posterior.factors(chain, draw) for chain in (0, 1) for draw in (1, 4, 7)]
    letters = "abc"[: tensor.ndim]
    script = ",".join(f"{letter}k" for letter in letters) + "->" + letters
    covered = np.mean([np.einsum(script, *map(np.int64, f)) > 0 for f in factors], axis=0)
    expected = plain(tensor, covered, chosen, columns, (3, 1), 1)
    for got, table in zip(shown[:4], expected, strict=True):
        np.testing.assert_allclose(got, table, rtol=1e-12, atol=1e-12)


def test_no_more_than_a_chunk_is_unpacked(case, monkeypatch):
    """Whatever the size of the data, few entries are dense at a time."""
    posterior, tensor = case
    sizes = []
    unfold_back = raster.unfold_back

    def watched(words, shape):
        dense = unfold_back(words, shape)
        sizes.append(dense.size)
        return dense

    monkeypatch.setattr(raster, "unfold_back", watched)
    monkeypatch.setattr(raster, "MOST_CELLS", 3 * tensor[0].size)
    views.blocks(posterior, *views.seriate(posterior), (4, 4))
    assert max(sizes) == 3 * tensor[0].size
    assert len(sizes) >= len(tensor) // 3


@pytest.mark.parametrize(
    ("rows", "columns", "shape", "message"),
    [
        ([0, 99], [0], (1, 1), "row_order of shape .* from 0 to"),
        ([0], [-1], (1, 1), "column_order"),
        ([0.5], [0], (1, 1), "row_order"),
        ([], [0], (1, 1), "at least one"),
        ([[0]], [0], (1, 1), "row_order"),
        ([0], [0], (0, 1), "shape=0 was given"),
        ([0], [0], (1, 1.5), "shape=1.5 was given"),
        ([0], [0], 5, "shape=5 was given; give a tuple of two numbers"),
        ([0], [0], (1, 2, 3), "two numbers"),
    ],
)
def test_bad_questions_are_one_sentence(case, rows, columns, shape, message):
    """What was given, what is allowed, what to do."""
    with pytest.raises(ValueError, match=message):
        views.blocks(case[0], rows, columns, shape)
