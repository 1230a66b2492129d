"""The labelled tensor of zeros, ones and unknown entries that all later stages work on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from thali.data.convert import entries_of, is_frame
from thali.data.entries import Entries, Pattern, count_ones, dense_rows, transposed
from thali.data.long_tables import entries_of_long_table
from thali.errors import InvalidValue
from thali.sentences import Argument, was_given
from thali.threads import n_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    _RowNames = tuple[tuple[str, ...] | None, ...]

__all__ = ["BinaryTensor"]


@dataclass(frozen=True, eq=False)
class BinaryTensor:
    """A labelled tensor of zeros, ones and unknown entries with two or more modes.

    Use :meth:`from_any` to create one. The constructor does not check the arrays; it only checks
    that the names fit and that at least one entry is known.

    Parameters
    ----------
    ones
        The positions of the known ones: a Boolean array, :class:`thali.data.Packed` bits, or for
        a matrix also a :class:`thali.data.Pattern` of positions.
    unknown
        The positions of the unknown entries in the same form, none of them also in ``ones``; None
        if every entry is known.
    mode_names
        One name per mode; all names differ.
    row_names
        One tuple of names per mode, or None for a mode whose rows have no names.
    """

    ones: Entries
    unknown: Entries | None
    mode_names: tuple[str, ...]
    row_names: tuple[tuple[str, ...] | None, ...]

    def __post_init__(self) -> None:
        check_names(self.shape, self.mode_names, self.row_names)
        if self.n_known == 0:
            raise ValueError(
                f"all entries of the tensor of shape {self.shape} are unknown; at least one known "
                "0 or 1 is needed, so check how missing values are marked."
            )

    def __repr__(self) -> str:
        known = f"known={self.n_known} of {math.prod(self.shape)}"
        return f"BinaryTensor(shape={self.shape}, {known}, ones={self.n_ones})"

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows of each mode."""
        return self.ones.shape

    @property
    def arity(self) -> int:
        """Number of modes."""
        return len(self.shape)

    @property
    def is_sparse(self) -> bool:
        """Whether the entries are stored as a :class:`Pattern` of positions."""
        return isinstance(self.ones, Pattern)

    @cached_property
    def n_ones(self) -> int:
        """Number of known ones."""
        return count_ones(self.ones)

    @cached_property
    def n_known(self) -> int:
        """Number of known entries, zeros and ones together."""
        return math.prod(self.shape) - (0 if self.unknown is None else count_ones(self.unknown))

    def rows(
        self, start: int = 0, stop: int | None = None
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
        """Return some rows of the first mode as Booleans, in whatever form they are stored.

        Parameters
        ----------
        start, stop
            The first row and the row after the last one; by default all rows are returned.

        Returns
        -------
        ones, unknown
            Two Boolean arrays: true where the entry is a known one, and true where the entry is
            unknown (None if all entries of the tensor are known).

        Examples
        --------
        >>> BinaryTensor.from_any([[0, 1], [1, 0]]).rows(0, 1)
        (array([[False,  True]]), None)
        """
        first, last, _ = slice(start, stop).indices(self.shape[0])
        unknown = None if self.unknown is None else dense_rows(self.unknown, first, last)
        return dense_rows(self.ones, first, last), unknown

    def transposed(self) -> Self:
        """Return the transposed matrix: rows and columns are exchanged, with their names."""
        if self.arity != 2:
            raise InvalidValue(
                f"the tensor has {self.arity} modes",
                "only a matrix, with 2, can be transposed",
                ("leave ", Argument("transpose"), " out"),
            )
        unknown = None if self.unknown is None else transposed(self.unknown)
        names = (self.mode_names[::-1], self.row_names[::-1])
        return type(self)(transposed(self.ones), unknown, *names)

    @classmethod
    def from_any(
        cls,
        tensor: Any,
        *,
        row_names: Sequence[Sequence[Any] | None] | None = None,
        mode_names: Sequence[Any] | None = None,
        modes: Sequence[Any] | None = None,
        unlisted: str = "zero",
        unknown: Any = None,
        observed: Any = None,
        threads: int | None = None,
    ) -> Self:
        """Read a tensor from whatever the user has.

        The input is never modified. A C-contiguous Boolean array is used without copying it. The
        result is sparse if the input is a sparse matrix, or a data frame whose columns all have
        the same sparse type with fill value zero. A tensor that is given by coordinates is packed
        into one bit per entry and never becomes dense.

        Parameters
        ----------
        tensor
            Zeros and ones with two or more modes: a NumPy array (NaN and None are unknown), a
            masked array (masked entries are unknown, whatever their value), nested lists of
            these, a SciPy sparse matrix (a stored NaN is unknown, an entry that is not stored is
            zero), a pandas data frame, or a ``BinaryTensor``. Sparse tensors are given as
            ``(coords, shape)``: an array of integers with a row for each entry that is one and a
            column for each mode, ``(n_entries, arity)``, and the number of rows of each mode. Or
            they are a ``COO`` array of the library sparse or of SciPy, of any arity.
        row_names
            One sequence of labels per mode, or None for a mode without labels. By default the
            labels of a data frame are used, unless they are just the numbers 0, 1, 2, ….
        mode_names
            One label per mode. By default the names of a data frame's index and columns are used;
            modes without a name are called ``mode_0``, ``mode_1``, ….
        modes
            The columns of a data frame, one per mode, that name the rows of an entry. Each row of
            the frame is then an entry that is one, or has the value in a column called value,
            entry, rating or count. Rows are ordered as their names first occur, or by value if
            all names are whole numbers.
        unlisted
            What entries are that such a data frame does not list: ``"zero"`` or ``"unknown"``.
        unknown
            With coordinates: those of the unknown entries, ``(n_entries, arity)``. An entry that
            is listed as a one, too, is unknown.
        observed
            With coordinates: those of the known entries, ones and zeros. All others are unknown,
            also if they are listed as ones.
        threads
            Number of threads that check a sparse matrix; None uses all cores that the process may
            use. Other input is read by the calling thread alone.

        Returns
        -------
        tensor
            The labelled tensor. A ``BinaryTensor`` is returned unchanged if no names are given.

        Raises
        ------
        TypeError
            If the input is not one of these objects, or the type of its entries cannot represent
            zeros and ones.
        ValueError
            If the shape or the names do not fit, if an entry is not 0, 1 or unknown, or if no
            entry is known.

        Examples
        --------
        >>> BinaryTensor.from_any([[0, 1, None], [1, 1, 0]])
        BinaryTensor(shape=(2, 3), known=5 of 6, ones=3)
        >>> coords = [[0, 1, 4], [1, 2, 0]]
        >>> BinaryTensor.from_any((coords, (2, 3, 5)), unknown=[[0, 0, 0]])
        BinaryTensor(shape=(2, 3, 5), known=29 of 30, ones=2)
        """
        threads = n_threads(threads)
        for name, value, default in (("modes", modes, None), ("unlisted", unlisted, "zero")):
            if value != default and (modes is None or not is_frame(tensor)):
                raise InvalidValue(
                    (*was_given(name, value), f" with a {type(tensor).__name__}"),
                    "it is for a data frame whose columns, its modes, list entries by name",
                    "leave it out",
                )
        masks = {"unknown": unknown, "observed": observed}
        rows: _RowNames
        if isinstance(tensor, cls) and unknown is observed is None:
            if mode_names is None and row_names is None:
                return tensor
            ones, hidden = tensor.ones, tensor.unknown
            names, rows = tensor.mode_names, tensor.row_names
        elif modes is not None and unknown is observed is None:
            ones, hidden, rows = entries_of_long_table(tensor, modes, unlisted)
            names = _labels(modes)
        else:
            ones, hidden = entries_of(tensor, **masks, threads=threads)
            names, rows = own_names(tensor, len(ones.shape))
        rows = _labels(row_names, _labels) or rows
        return cls(ones, hidden, _labels(mode_names) or names, rows)


def check_names(shape: tuple[int, ...], mode_names: tuple[str, ...], rows: _RowNames) -> None:
    """Raise an error if the names of modes and rows do not belong to a tensor of that shape."""
    arity = len(shape)
    if len(mode_names) != arity or len(set(mode_names)) < arity:
        raise ValueError(
            f"mode_names are {mode_names}; a tensor of {arity} modes needs as many, all distinct, "
            "so pass other `mode_names`."
        )
    lengths = tuple(None if names is None else len(names) for names in rows)
    if len(lengths) != arity or any(
        length not in (None, n) for length, n in zip(lengths, shape, strict=True)
    ):
        raise ValueError(
            f"row_names has lengths {lengths} for a tensor of shape {shape}; give one name per "
            "row, or None for a mode without names."
        )


def own_names(tensor: Any, arity: int) -> tuple[tuple[str, ...], _RowNames]:
    """Return the names of a data frame's modes and rows; modes without a name are numbered."""
    axes = (tensor.index, tensor.columns) if is_frame(tensor) else (None,) * arity
    own = (getattr(axis, "name", None) for axis in axes)
    mode_names = (f"mode_{mode}" if name is None else str(name) for mode, name in enumerate(own))
    # Only a RangeIndex has a start and a step. One that counts 0, 1, 2, … is pandas' default and
    # holds no names.
    steps = ((getattr(axis, "start", None), getattr(axis, "step", None)) for axis in axes)
    named = (None if s == (0, 1) else axis for axis, s in zip(axes, steps, strict=True))
    return tuple(mode_names), tuple(map(_labels, named))


def _labels(given: Any, convert: Callable[[Any], Any] = str) -> Any:
    """Convert every label, by default to text; None stays None."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(
            f"names are given as {given!r}; a sequence of labels is needed, so make it a list."
        )
    return tuple(map(convert, given))
