"""Some rows of a tensor, as a process reads them from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from thali.data.entries import Entries


class RowPart(NamedTuple):
    """Some rows of a tensor, with their names."""

    ones: Entries
    unknown: Entries | None
    mode_names: tuple[str, ...]
    row_names: tuple[tuple[str, ...] | None, ...]  # those of the first mode are of these rows
    lo: int
    n_rows: int  # of the whole file

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole tensor."""
        return (self.n_rows, *self.ones.shape[1:])
