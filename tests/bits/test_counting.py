"""Counts of bits in long lines, byte by byte, are those of single words."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from thali.bits import counting
from thali.engines.cpu import horizontal

WIDTHS = (1, 2, 23, 24, 25, 61, 62, 63, 64, 123, 124, 125, 330)
"""Around the shortest line that is counted so, and around the lengths at which bytes are full."""

LOW = 2**32 - 1


def lines(width):
    """Return random lines, and lines in which every bit counts."""
    some = np.random.default_rng(width).integers(0, 2**64, (3, width), dtype=np.uint64)
    every = np.full(width, 2**64 - 1, np.uint64)
    return tuple(some), (every, ~every, every), (every, ~every, some[2])


def expected(code, covered, ones):
    """Count by NumPy."""
    free = code & ~covered
    return tuple(int(np.bitwise_count(words).sum()) for words in (free, free & ones))


def in_bytes():
    """Compile the function anew."""
    count = counting.count_in_bytes

    @numba.njit
    def kernel(code, covered, ones):
        return count(code, covered, ones)

    def both(code, covered, ones):
        found = int(kernel(code, covered, ones))
        return found & LOW, found >> 32

    return both


def test_counts_are_those_of_words():
    """Any processor can count so, whether or not it does."""
    count = in_bytes()
    for width in WIDTHS:
        for some in lines(width):
            assert horizontal.count_free(*some) == expected(*some), width
            even = [line[: width & ~1] for line in some]
            assert count(*some) == expected(*even), width


def test_a_full_byte_would_be_noticed(monkeypatch):
    """One addition more, and a byte of ones is counted as zero."""
    monkeypatch.setattr(counting, "_MOST", 32)
    every, none = np.full(64, 2**64 - 1, np.uint64), np.zeros(64, np.uint64)
    assert in_bytes()(every, none, every) != expected(every, none, every)


@pytest.mark.parametrize("width", [8, 40])
def test_lines_may_begin_at_any_word(width):
    """A line of a table need not begin where sixteen bytes do."""
    tables = np.random.default_rng(1).integers(0, 2**64, (3, 3, width + 1), dtype=np.uint64)
    some = [table[1, 1:] for table in tables]
    assert horizontal.count_free(*some) == expected(*some)
    assert in_bytes()(*some) == expected(*some)
