# Compiled by Numba, which checks types itself: mypy's checks that do not apply are switched off.
# mypy: disable-error-code="no-any-return"
"""Make the unfolding of any mode from that of the first one, without unpacking the tensor.

If both unfoldings have the same inner mode, their words are the same in another order. Otherwise
every slice along the two inner modes is a matrix of bits, which is transposed in squares of
64 x 64.
"""

from __future__ import annotations

import numpy as np

from thali._jit import inner, jit
from thali.bits.words import WORD, Index, Words, n_words, transpose64
from thali.data.layout import inner_mode, row_words, word_strides
from thali.threads import parallel_for

WORDS_PER_THREAD = 1 << 17  # least work that pays for a thread: a megabyte

_CACHE_LINE = 8
"""Neighbouring ranges of work may write to neighbouring words. With ranges of whole cache lines,
no two threads write to the same one."""


def refold(first: Words, shape: tuple[int, ...], mode: int, threads: int) -> Words:
    """Return the unfolding of a mode, given that of the first one.

    Parameters
    ----------
    first
        Packed rows of the first mode; padding must be zero.
    shape
        Number of rows of each mode.
    mode
        The mode whose rows are those of the result.
    threads
        Number of threads.
    """
    out = np.zeros((shape[mode], row_words(shape, mode)), np.uint64)
    inside, target = inner_mode(shape, 0), inner_mode(shape, mode)
    rest = [m for m in range(len(shape)) if m not in (inside, target)]
    strides = np.array([word_strides(shape, 0), word_strides(shape, mode)], np.int64)
    lengths = np.array([shape[m] for m in rest], np.int64)
    n_slices = int(np.prod(lengths))
    flat = np.ascontiguousarray(first).reshape(-1), out.reshape(-1), lengths, strides[:, rest]
    width = n_words(shape[inside])
    if inside == target:
        step = max(1, WORDS_PER_THREAD // width)
        parallel_for(_move_words, n_slices, threads, *flat, width, step=step)
    else:
        n_tiles = n_words(shape[target])
        step = max(_CACHE_LINE, WORDS_PER_THREAD // (WORD * width))
        sizes = shape[inside], shape[target], strides[0, target], strides[1, inside]
        parallel_for(_transpose_tiles, n_slices * n_tiles, threads, *flat, *sizes, step=step)
    return out


@inner
def _offset(number: int, lengths: Index, strides: Index) -> int:
    """Return where a slice begins, given its number in C order of the modes that it fixes."""
    offset = 0
    for i in range(lengths.shape[0] - 1, -1, -1):
        offset += (number % lengths[i]) * strides[i]
        number //= lengths[i]
    return offset


@jit
def _move_words(
    lo: int, hi: int, words: Words, out: Words, lengths: Index, strides: Index, width: int
) -> None:
    """Move the words of slices ``lo … hi-1``, each a line along the inner mode."""
    for number in range(lo, hi):
        start = _offset(number, lengths, strides[0])
        end = _offset(number, lengths, strides[1])
        for w in range(width):
            out[end + w] = words[start + w]


@jit
def _transpose_tiles(
    lo: int, hi: int, words: Words, out: Words, lengths: Index, strides: Index,
    n_inside: int, n_lines: int, stride: int, out_stride: int,
) -> None:  # fmt: skip
    """Transpose tiles ``lo … hi-1``, each 64 lines of a slice, into words of lines.

    Parameters
    ----------
    lo, hi, words, out
        The range of tiles, and all words of both unfoldings.
    lengths, strides
        Of the modes that a slice fixes; the strides in both unfoldings.
    n_inside, n_lines
        Numbers of rows of the inner modes of ``words`` and of ``out``: a slice has ``n_lines``
        lines of ``n_inside`` bits.
    stride, out_stride
        How many words lie between two lines of a slice, and between two of its transpose.
    """
    n_tiles = (n_lines + WORD - 1) // WORD
    square = np.empty(WORD, np.uint64)
    for number in range(lo, hi):
        tile = number % n_tiles
        start = _offset(number // n_tiles, lengths, strides[0]) + tile * WORD * stride
        end = _offset(number // n_tiles, lengths, strides[1]) + tile
        height = min(WORD, n_lines - tile * WORD)
        for w in range((n_inside + WORD - 1) // WORD):
            seen = np.uint64(0)
            for i in range(height):
                square[i] = words[start + i * stride + w]
                seen |= square[i]
            if seen == np.uint64(0):  # the result is zero already, and sparse data are mostly so
                continue
            square[height:] = np.uint64(0)
            transpose64(square)
            for i in range(min(WORD, n_inside - w * WORD)):
                out[end + (w * WORD + i) * out_stride] = square[i]
