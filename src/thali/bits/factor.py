"""A binary factor, packed along its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import Index, Words, count_ones, n_words, pack, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Factor(NamedTuple):
    """One binary factor, ``(n_rows, n_components)``, a component to a line of words.

    Packing along the rows makes a component contiguous: adding, dropping and reordering
    components are row operations on ``words``, and for a matrix the packed factor *is* the
    codes that update the other mode.
    """

    words: Words
    n_rows: int

    @property
    def n_components(self) -> int:
        """Number of components."""
        return int(self.words.shape[0])

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

    def sizes(self) -> Index:
        """Count the rows of every component."""
        sizes: Index = count_ones(self.words)
        return sizes

    def take(self, components: Index | NDArray[np.bool_]) -> Factor:
        """Select or reorder components."""
        return self._replace(words=self.words[components])

    def append(self, words: Words) -> Factor:
        """Add packed components at the end."""
        return self._replace(words=np.concatenate([self.words, words]))
