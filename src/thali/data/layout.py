"""Where an entry of a tensor lies among the packed words of an unfolding.

A row of an unfolding runs over the other modes in C order, except that the longest of them is
innermost. Only this inner mode is padded to whole words.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

WORD = 64

_T = TypeVar("_T")


def to_front(parts: Sequence[_T], mode: int) -> tuple[_T, ...]:
    """Put the part of one mode before those of all others, which keep their order.

    Examples
    --------
    >>> to_front("abcd", 2), from_front("cabd", 2)
    (('c', 'a', 'b', 'd'), ('a', 'b', 'c', 'd'))
    """
    return (parts[mode], *parts[:mode], *parts[mode + 1 :])


def from_front(parts: Sequence[_T], mode: int) -> tuple[_T, ...]:
    """Undo :func:`to_front`."""
    first, *others = parts
    return (*others[:mode], first, *others[mode:])


def n_words(n_bits: int) -> int:
    """Return the number of words needed to store ``n_bits`` bits."""
    return -(-n_bits // WORD)


def inner_mode(shape: Sequence[int], skip: int) -> int:
    """Return the mode whose rows lie next to each other in an unfolding.

    It is the longest of the remaining modes (the last one if several are longest). Only this mode
    is padded to whole words, so choosing the longest keeps the padding small.
    """
    return _order(tuple(shape), skip)[0]


def outer_modes(shape: Sequence[int], skip: int) -> list[int]:
    """Return the other modes of an unfolding's columns, outermost first, without the inner one."""
    return list(_order(tuple(shape), skip)[1])


@lru_cache(maxsize=1024)  # moves ask for the same few again and again
def _order(shape: tuple[int, ...], skip: int) -> tuple[int, tuple[int, ...]]:
    inner = max((m for m in range(len(shape)) if m != skip), key=lambda m: (shape[m], m))
    return inner, tuple(m for m in range(len(shape)) if m not in (skip, inner))


def row_words(shape: Sequence[int], mode: int) -> int:
    """Return the number of words per row of an unfolding."""
    n_outer = prod(shape[m] for m in outer_modes(shape, mode))
    return n_outer * n_words(shape[inner_mode(shape, mode)])


def word_strides(shape: Sequence[int], mode: int) -> list[int]:
    """Return how many words lie between neighbours of each mode in an unfolding.

    Neighbours of the inner mode share a word: its stride is 0.

    Examples
    --------
    >>> word_strides((9, 130, 5), 0)  # a row has 5 times the 3 words of mode 1
    [15, 0, 3]
    """
    inner, strides = inner_mode(shape, mode), [0] * len(shape)
    step = n_words(shape[inner])
    for m in (*reversed(outer_modes(shape, mode)), mode):
        strides[m] = step
        step *= shape[m]
    return strides


def bit_strides(shape: Sequence[int]) -> list[int]:
    """Return how many bits lie between neighbours of each mode in the first unfolding.

    Examples
    --------
    >>> bit_strides((9, 130, 5))
    [960, 1, 192]
    """
    return [WORD * stride or 1 for stride in word_strides(shape, 0)]
