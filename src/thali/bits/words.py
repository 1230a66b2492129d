# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""Packed words: 64 entries in a ``uint64``, the first entry in the lowest bit."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from thali._jit import inner, jit, lean
from thali.data.entries import pack, unpack
from thali.data.layout import WORD, n_words

__all__ = [
    "WORD",
    "Index",
    "Words",
    "copy_line",
    "count_ones",
    "earlier_twins",
    "first_bit",
    "gather_bits",
    "list_bits",
    "lowest",
    "n_words",
    "overlaps",
    "pack",
    "place_of",
    "popcount",
    "scatter_bits",
    "set_bits",
    "take_lines",
    "transpose",
    "transpose64",
    "unpack",
]

Words: TypeAlias = NDArray[np.uint64]
Index: TypeAlias = NDArray[np.int64]

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_FIRST = np.int64(0)  # a plain zero would be a type of its own, and functions compiled twice
_BITS_PER_SQUARE = 256
"""Number of bits that are gathered one by one in the time of one transposition of 64 x 64 bits."""

_LOW_HALF = np.uint64(0xFFFFFFFF)


@intrinsic
def _ctpop(_context: Any, _word: Any) -> Any:
    return types.uint64(types.uint64), lambda _, builder, __, args: builder.ctpop(args[0])


def popcount(word: np.uint64) -> np.uint64:
    """Return the number of ones in a word (one instruction when compiled)."""
    return np.uint64(int(word).bit_count())


@overload(popcount, inline="always")
def _compiled_popcount(word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    return lambda word: _ctpop(np.uint64(word))  # type: ignore[call-arg]


@jit
def set_bits(words: Words, first_row: int, indptr: Index, indices: Index) -> None:
    """Set the bits of the listed columns of consecutive rows (compressed sparse rows)."""
    for row in range(indptr.shape[0] - 1):
        for k in range(indptr[row], indptr[row + 1]):
            column = indices[k]
            words[first_row + row, column >> 6] |= _ONE << np.uint64(column & 63)


@jit
def count_ones(words: Words) -> Index:
    """Return the number of ones in every row of a two-dimensional array of words."""
    counts = np.zeros(words.shape[0], np.int64)
    for row in range(words.shape[0]):
        total = _ZERO
        for w in range(words.shape[1]):
            total += popcount(words[row, w])
        counts[row] = np.int64(total)
    return counts


@intrinsic
def _cttz(_context: Any, _word: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


def _trailing_zeros(word: np.uint64) -> np.uint64:
    return np.uint64((int(word) & -int(word)).bit_length() - 1)


@overload(_trailing_zeros, inline="always")
def _compiled_trailing_zeros(word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    return lambda word: _cttz(np.uint64(word))  # type: ignore[call-arg]


@inner
def lowest(word: np.uint64) -> int:
    """Return the position of the lowest bit that is on; the word must not be zero."""
    return np.int64(_trailing_zeros(word))


@jit
def first_bit(words: Words) -> int:
    """Return the position of the first bit of a line that is on; -1 if none is."""
    for w in range(words.shape[0]):
        if words[w] != _ZERO:
            return w * WORD + lowest(words[w])
    return -1


@jit
def list_bits(words: Words) -> Index:
    """Return the positions of all bits of a line that are on."""
    n = _ZERO
    for w in range(words.shape[0]):
        n += popcount(words[w])
    positions = np.empty(np.int64(n), np.int64)
    i = 0
    for w in range(words.shape[0]):
        left = words[w]
        while left != _ZERO:
            positions[i] = w * WORD + lowest(left)
            left &= left - _ONE
            i += 1
    return positions


@inner
def place_of(rows: Index, row: int) -> int:
    """Return how many of some increasing rows come before a row."""
    low, high = 0, rows.shape[0]
    while low < high:
        middle = (low + high) // 2
        if rows[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def copy_line(line: Words, to: Words) -> None:
    """Copy a line of words, integers or numbers.

    An assignment of arrays does the same, but makes Numba compile a check of their shapes and the
    message of its error.
    """
    for i in range(line.shape[0]):
        to[i] = line[i]


@inner
def take_lines(words: Words, chosen: Index) -> Words:
    """Return some lines of an array, as ``words[chosen]``, which takes longer to compile."""
    out = np.empty((chosen.shape[0], words.shape[1]), np.uint64)
    for i in range(chosen.shape[0]):
        copy_line(words[chosen[i]], out[i])
    return out


@jit
def overlaps(left: Words, right: Words) -> Index:
    """Count the ones that each line of one array shares with each line of another."""
    out = np.zeros((left.shape[0], right.shape[0]), np.int64)
    for i in range(left.shape[0]):
        for j in range(right.shape[0]):
            total = _ZERO
            for w in range(left.shape[1]):
                total += popcount(left[i, w] & right[j, w])
            out[i, j] = np.int64(total)
    return out


@jit
def earlier_twins(words: Words) -> Index:
    """Return, for every line, the number of earlier lines that are equal to it."""
    twins = np.zeros(words.shape[0], np.int64)
    for line in range(words.shape[0]):
        for earlier in range(line):
            w = 0
            while w < words.shape[1] and words[line, w] == words[earlier, w]:
                w += 1
            twins[line] += w == words.shape[1]
    return twins


@lean
def transpose64(square: Words) -> None:
    """Transpose a 64 x 64 bit matrix (64 words) in place by six rounds of block swaps."""
    mask = _LOW_HALF
    step = 32
    while step > 0:
        shift = np.uint64(step)
        start = 0
        while start < WORD:
            upper = square[start : start + step]
            lower = square[start + step : start + 2 * step]
            for i in range(step):
                swap = ((upper[i] >> shift) ^ lower[i]) & mask
                upper[i] ^= swap << shift
                lower[i] ^= swap
            start += 2 * step
        step >>= 1
        mask ^= mask << np.uint64(step)


@inner
def transpose_rows(lo: int, hi: int, words: Words, out: Words) -> None:
    """Transpose rows ``lo … hi-1``, where ``lo`` is a multiple of 64, into words of columns."""
    n_columns = out.shape[0]
    square = np.empty(WORD, np.uint64)
    for tile in range(lo // WORD, (hi + WORD - 1) // WORD):
        first = tile * WORD
        height = min(WORD, hi - first)
        for w in range(words.shape[1]):
            width = min(WORD, n_columns - w * WORD)
            if width <= 0:
                break
            for i in range(height):
                square[i] = words[first + i, w]
            square[height:] = _ZERO
            transpose64(square)
            for i in range(width):
                out[w * WORD + i, tile] = square[i]


@jit
def transpose(words: Words, n_columns: int) -> Words:
    """Transpose packed rows into packed columns.

    Parameters
    ----------
    words
        ``(n_rows, n_words)`` with ``n_columns`` meaningful bits per row.
    n_columns
        Number of columns, which are the rows of the result; padding must be zero.

    Returns
    -------
    words
        ``(n_columns, ceil(n_rows / 64))``.

    Notes
    -----
    Unpacked, this is ``dense.T``.
    """
    out = np.zeros((n_columns, (words.shape[0] + WORD - 1) // WORD), np.uint64)
    transpose_rows(_FIRST, words.shape[0], words, out)
    return out


@jit
def gather_bits(words: Words, positions: Index) -> Words:
    """Return the bits at some positions of every line as packed lines."""
    n_lines, n = words.shape[0], positions.shape[0]
    out = np.zeros((n_lines, (n + WORD - 1) // WORD), np.uint64)
    start = 0
    while start < n_lines:
        stop = min(start + WORD, n_lines)
        if (stop - start) * n > _BITS_PER_SQUARE * (words.shape[1] + out.shape[1]):
            _gather_words(words[start:stop], positions, out[start:stop])
        else:
            for line in range(start, stop):
                for i in range(n):
                    p = positions[i]
                    bit = (words[line, p >> 6] >> np.uint64(p & 63)) & _ONE
                    out[line, i >> 6] |= bit << np.uint64(i & 63)
        start = stop
    return out


@inner
def _gather_words(words: Words, positions: Index, out: Words) -> None:
    """Gather the bits of up to 64 lines, all lines at once: transpose, move words, transpose."""
    n_lines, n = words.shape[0], positions.shape[0]
    across = np.zeros((WORD * words.shape[1], 1), np.uint64)
    transpose_rows(_FIRST, n_lines, words, across)
    square = np.empty(WORD, np.uint64)
    for w in range(out.shape[1]):
        width = min(WORD, n - w * WORD)
        for i in range(width):
            square[i] = across[positions[w * WORD + i], 0]
        square[width:] = _ZERO
        transpose64(square)
        for line in range(n_lines):
            out[line, w] = square[line]


@jit
def scatter_bits(words: Words, positions: Index, bits: Words) -> Words:
    """Undo :func:`gather_bits`: return a copy with the bits at those positions replaced."""
    out = words.copy()
    for line in range(words.shape[0]):
        for i in range(positions.shape[0]):
            p = positions[i]
            shift = np.uint64(p & 63)
            bit = (bits[line, i >> 6] >> np.uint64(i & 63)) & _ONE
            out[line, p >> 6] = (out[line, p >> 6] & ~(_ONE << shift)) | (bit << shift)
    return out
