"""Gains of columns that are found row by row are those that counting entries gives."""

import numpy as np
import pytest

from support.mutants import mutate
from thali.bits.words import pack
from thali.engines.cpu import column_gains

NOTHING = np.zeros((0, 0), np.uint64)
ONE, ZERO = 1.75, -2.5  # sums of small multiples are exact in single precision, too
SHAPES = [(3, 5), (64, 64), (70, 130), (200, 257), (300, 500), (700, 40)]


def case(shape, *, has_unknown, n_classes=5, n_components=6, seed=0):
    """Return a table, components and disjoint classes of rows, dense."""
    rng = np.random.default_rng(seed)
    n_rows, n_columns = shape
    table = rng.random(shape) < 0.4
    known = rng.random(shape) < (0.8 if has_unknown else 2.0)
    users = rng.random((n_components, n_rows)) < 0.3
    codes = rng.random((n_components, n_columns)) < 0.3
    codes[0, : n_columns // 2] = False
    is_counted = rng.random(n_components) < 0.7
    label = rng.integers(0, n_classes + 2, n_rows)  # the last are in no class
    label[label == 1] = 0  # an empty class, and a large one
    classes = label == np.arange(n_classes)[:, None]
    return table & known, known, users, codes, is_counted, classes


def expected(table, known, users, codes, is_counted, classes):
    """Count the entries that no counted component covers."""
    covered = np.einsum("kn,kd->nd", users[is_counted].astype(int), codes[is_counted]) > 0
    free = known & ~covered
    n_ones = classes.astype(int) @ (free & table)
    n_free = classes.astype(int) @ free
    return ONE * n_ones + ZERO * (n_free - n_ones)


def packed(table, known, users, codes, is_counted, classes):
    """Return the arguments of the kernels."""
    mask = NOTHING if known.all() else pack(known)
    data = pack(table), mask, table.shape[1]
    return data, pack(codes), pack(users), is_counted, pack(classes), ONE, ZERO


@pytest.mark.parametrize("has_unknown", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_columns(shape, has_unknown):
    """With unknown entries, empty classes, rows in no class, and more rows than a byte counts."""
    given = case(shape, has_unknown=has_unknown)
    found = column_gains.gains_of_columns(*packed(*given))
    np.testing.assert_array_equal(found, expected(*given))


@pytest.mark.parametrize("has_unknown", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_some_columns(shape, has_unknown):
    """A window anywhere: the columns that count are those of the window, with their gains."""
    given = case(shape, has_unknown=has_unknown, seed=1)
    gains = expected(*given)
    data, *rest = packed(*given)
    n_columns = shape[1]
    for first, n in ((0, n_columns), (n_columns // 3, n_columns // 2), (n_columns - 1, 1)):
        looked, counts, has_rows = column_gains.look_at_columns(first, n, data, *rest)
        is_counted = counts.reshape(-1) == 1.0
        assert is_counted.sum() == n == counts.sum()
        for k, of_class in enumerate(looked.reshape(len(looked), -1)):
            assert (has_rows >> k) & 1 == given[-1][k].any()
            if given[-1][k].any():  # in another order
                found = np.sort(of_class[is_counted])
                np.testing.assert_array_equal(found, np.sort(gains[k, first : first + n]))


def test_a_row_that_is_forgotten_is_noticed():
    """The last rows of a class, fewer than eight, count as well."""
    edit = ("    if slot > _0:\n", "    if slot > _8:\n")
    wrong = mutate("thali.engines.cpu.column_gains", [edit]).gains_of_columns
    given = case((70, 130), has_unknown=False)
    assert (wrong(*packed(*given)) != expected(*given)).any()
