"""A binary factor, packed along its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from thali.bits.words import Index, Words, count_ones, n_words, pack, unpack

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


class Handle(Protocol):
    """A factor's packed lines in the memory of a device."""

    @property
    def n_lines(self) -> int:
        """Number of lines: the components of the factor."""

    def to_host(self) -> Words:
        """Copy the lines to the host."""


class Factor:
    """One binary factor, ``(n_rows, n_components)``, with one line of words per component.

    A component is contiguous because the rows are packed: to add, drop or reorder components
    means to add, drop or reorder lines of ``words``. For a matrix, the packed factor of one mode
    *is* the codes that update the other mode.

    Parameters
    ----------
    words
        ``(n_components, n_words)``; None if they are on a device only, from where they are copied
        to the host when they are first needed.
    n_rows
        Number of rows: the number of meaningful bits per line.
    handle
        The same lines on the device of an engine, so that they need not be copied there again.
    """

    __slots__ = ("_words", "handle", "n_rows")

    def __init__(self, words: Words | None, n_rows: int, handle: Handle | None = None) -> None:
        assert words is not None or handle is not None
        self._words = words
        self.n_rows = n_rows
        self.handle = handle

    def __reduce__(self) -> tuple[Any, ...]:
        return Factor, (self.words, self.n_rows)  # device memory is not pickled

    def __repr__(self) -> str:
        return f"Factor(n_rows={self.n_rows}, n_components={self.n_components})"

    @property
    def words(self) -> Words:
        """The packed lines on the host."""
        if self._words is None:
            assert self.handle is not None
            self._words = self.handle.to_host()
        return self._words

    @property
    def has_words(self) -> bool:
        """Whether the lines are on the host already."""
        return self._words is not None

    @property
    def n_components(self) -> int:
        """Number of components."""
        if self._words is not None:
            return int(self._words.shape[0])
        assert self.handle is not None
        return self.handle.n_lines

    @classmethod
    def empty(cls, n_rows: int) -> Factor:
        """Return a factor without components."""
        return cls(np.zeros((0, n_words(n_rows)), np.uint64), n_rows)

    @classmethod
    def from_dense(cls, dense: NDArray[np.bool_]) -> Factor:
        """Pack a Boolean ``(n_rows, n_components)`` array."""
        return cls(pack(np.ascontiguousarray(dense.T)), dense.shape[0])

    def dense(self) -> NDArray[np.bool_]:
        """Return the factor as a Boolean ``(n_rows, n_components)`` array."""
        return np.ascontiguousarray(unpack(self.words, self.n_rows).T)

    def __array__(
        self,
        dtype: DTypeLike | None = None,
        copy: bool | None = None,  # noqa: FBT001 - NumPy's signature
    ) -> NDArray[Any]:
        """Return what ``numpy.asarray`` makes of a factor: the same as :meth:`dense`."""
        if copy is False:
            msg = "a factor is packed, so that an array of it is always a copy; leave copy out."
            raise ValueError(msg)
        dense = self.dense()
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def sizes(self) -> Index:
        """Return the number of rows of every component."""
        sizes: Index = count_ones(self.words)
        return sizes

    def take(self, components: Index | NDArray[np.bool_]) -> Factor:
        """Select or reorder components, by number or by a mask."""
        if components.dtype == np.bool_:
            components = np.flatnonzero(components)
        return Factor(self.words.take(components, axis=0), self.n_rows)

    def append(self, words: Words) -> Factor:
        """Add packed components at the end."""
        return Factor(np.concatenate([self.words, words]), self.n_rows)

    def put(self, components: Index, words: Words) -> Factor:
        """Replace some components by other packed components."""
        changed = self.words.copy()
        changed[components] = words
        return Factor(changed, self.n_rows)

    def on_host(self) -> Factor:
        """Return the factor without its copy on a device, so that the copy can be freed."""
        return self if self.handle is None else Factor(self.words, self.n_rows)
