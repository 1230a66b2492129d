"""Packed words agree with the Boolean arrays that they stand for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from thali.bits.words import (
    count_ones,
    earlier_twins,
    first_bit,
    gather_bits,
    n_words,
    pack,
    popcount,
    scatter_bits,
    set_bits,
    transpose,
    unpack,
)

WIDTHS = (1, 63, 64, 65, 130)
SEED = st.integers(0, 2**32 - 1)
check = settings(deadline=None, max_examples=40, derandomize=True)


def random_bits(n_rows, n_columns, density, seed):
    return np.random.default_rng(seed).random((n_rows, n_columns)) < density


MATRIX = st.builds(
    random_bits,
    st.sampled_from((0, 2, *WIDTHS)),
    st.sampled_from(WIDTHS),
    st.sampled_from([0.0, 0.02, 0.5, 1.0]),
    SEED,
)


@check
@given(MATRIX)
def test_round_trip(dense):
    """Unpacking gives back what was packed; the lowest bit comes first and padding is zero."""
    words = pack(dense)
    assert words.shape == (len(dense), n_words(dense.shape[1]))
    assert np.array_equal(unpack(words, dense.shape[1]), dense)
    for row, line in zip(dense, words, strict=True):
        assert sum(int(word) << 64 * w for w, word in enumerate(line)) == sum(
            1 << int(i) for i in np.flatnonzero(row)
        )


@pytest.mark.parametrize("shape", [(5,), (2, 3, 70), (2, 3, 4, 64)], ids=str)
def test_any_number_of_axes(shape):
    """Only the last axis is packed; a view in any order of axes will do."""
    dense = random_bits(1, int(np.prod(shape)), 0.5, seed=1).reshape(shape[::-1]).T
    words = pack(dense)
    assert words.shape == (*shape[:-1], n_words(shape[-1]))
    assert np.array_equal(unpack(words, shape[-1]), dense)


@pytest.mark.parametrize(("n_bits", "expected"), [(0, 0), (1, 1), (64, 1), (65, 2), (128, 2)])
def test_n_words(n_bits, expected):
    """Words are counted without waste."""
    assert n_words(n_bits) == expected


@check
@given(st.integers(0, 2**64 - 1))
def test_popcount(word):
    """Compiled and plain population counts are those of Python's integers."""
    expected = sum(word >> i & 1 for i in range(64))
    assert popcount(np.uint64(word)) == count_ones(np.array([[word]], np.uint64))[0] == expected


@check
@given(MATRIX)
def test_transpose(dense):
    """Transposing words is transposing the dense array, with zero padding."""
    assert np.array_equal(transpose(pack(dense), dense.shape[1]), pack(dense.T))


@check
@given(MATRIX)
def test_counts(dense):
    """Ones of a line, its first one, and equal lines before it are what plain loops find."""
    words = pack(dense)
    assert count_ones(words).tolist() == [sum(map(int, row)) for row in dense]
    first = [next((i for i, bit in enumerate(row) if bit), -1) for row in dense]
    assert [first_bit(line) for line in words] == first


@check
@given(st.sampled_from(WIDTHS), st.lists(st.integers(0, 3), max_size=12), SEED)
def test_earlier_twins(width, lines, seed):
    """Every line counts the equal lines before it, wherever lines differ."""
    kinds = np.zeros((4, width), bool)
    kinds[1:3, -1:] = [[True], [False]]
    kinds[3] = random_bits(1, width, 0.5, seed)
    dense = kinds[np.array(lines, int)]
    expected = [
        sum(np.array_equal(row, other) for other in dense[:i]) for i, row in enumerate(dense)
    ]
    assert earlier_twins(pack(dense)).tolist() == expected


@check
@given(MATRIX, st.integers(0, 3))
def test_set_bits(dense, first_row):
    """Compressed sparse rows are switched on from a given row on; other bits stay."""
    rows = sparse.csr_array(dense)
    before = random_bits(first_row + len(dense) + 1, dense.shape[1], 0.3, seed=5)
    words = pack(before)
    set_bits(words, first_row, rows.indptr, rows.indices)
    before[first_row:-1] |= dense
    assert np.array_equal(words, pack(before))


@pytest.mark.parametrize("n_lines", [1, 5, 63, 64, 65, 200])
@pytest.mark.parametrize("n_positions", [0, 1, 64, 1_000])
def test_bits_of_many_lines_are_gathered(n_lines, n_positions):
    """Line by line, or all lines at once: the bits are the same; positions may repeat."""
    dense = random_bits(n_lines, 700, 0.5, seed=3)
    positions = np.random.default_rng(4).integers(0, 700, n_positions)
    assert np.array_equal(gather_bits(pack(dense), positions), pack(dense[:, positions]))


@check
@given(MATRIX, SEED)
def test_gather_and_scatter(dense, seed):
    """Gathered bits are the chosen columns; scattering replaces those and no others."""
    rng = np.random.default_rng(seed)
    positions = rng.permutation(dense.shape[1])[: rng.integers(0, dense.shape[1] + 1)]
    words = pack(dense)
    gathered = gather_bits(words, positions)
    assert np.array_equal(gathered, pack(dense[:, positions]))
    assert np.array_equal(scatter_bits(words, positions, gathered), words)
    replacement = rng.random((len(dense), len(positions))) < 0.5
    expected = dense.copy()
    expected[:, positions] = replacement
    assert np.array_equal(scatter_bits(words, positions, pack(replacement)), pack(expected))
    assert np.array_equal(words, pack(dense))  # the argument is untouched
