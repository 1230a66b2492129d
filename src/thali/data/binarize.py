"""Turn numbers into zeros, ones and unknown entries with a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.checks import is_number
from thali.errors import InvalidValue
from thali.sentences import Argument, was_given

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.sentences import Part

GIVE_THRESHOLD: tuple[str | Part, ...] = (
    "give ",
    Argument("binarize"),
    ", a number above which entries are ones",
)
"""What to do about entries other than 0 and 1."""


def unmask(values: Any) -> Any:
    """Replace masked entries by NaN, because some libraries ignore the mask and use the values.

    Lists are converted to arrays first, since they may contain masked rows or None. Any other
    input is returned unchanged.
    """
    if isinstance(values, list | tuple):
        has_mask = any(isinstance(row, np.ma.MaskedArray) for row in values)
        values = np.ma.stack(values) if has_mask else np.asarray(values)
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain = np.array(values.data, np.float64 if values.dtype.kind in "biuf" else object)
    plain[np.ma.getmaskarray(values)] = np.nan
    return plain


def binarize(values: Any, threshold: float | None) -> Any:
    """Turn values above a threshold into ones and the others into zeros, and keep NaN.

    Parameters
    ----------
    values
        An array of numbers, or a SciPy sparse matrix in CSR format. The input is not changed.
    threshold
        Values above this number become ones. None means that the values must already be 0, 1 or
        NaN.

    Returns
    -------
    values
        Zeros, ones and NaN, as a sparse matrix if the input is sparse.

    Raises
    ------
    ValueError
        If no threshold is given and a value is not 0, 1 or NaN; if the threshold is not a finite
        number; or if the threshold is negative and the matrix sparse, because all zeros that it
        does not store would become ones.

    Examples
    --------
    >>> import numpy as np
    >>> binarize(np.array([[0.2, 3.0, np.nan]]), 1.0)
    array([[ 0.,  1., nan]])
    """
    is_dense = isinstance(values, np.ndarray)
    check_threshold(threshold, is_sparse=not is_dense)
    if is_dense:
        return _zeros_and_ones(values, threshold)
    if not values.has_canonical_format:
        values = values.copy()  # summing changes the matrix, which belongs to the caller
        values.sum_duplicates()
    stored = _zeros_and_ones(values.data[: values.indptr[-1]], threshold)
    parts = (stored, values.indices[: len(stored)], values.indptr)
    return type(values)(parts, shape=values.shape)


def check_threshold(threshold: float | None, *, is_sparse: bool = False) -> None:
    """Refuse a threshold that is not a finite number, or that would fill a sparse matrix."""
    if threshold is None:
        return
    if not is_number(threshold):
        raise InvalidValue(
            was_given("binarize", threshold),
            "allowed is a finite number, above which entries are ones",
            "choose one, or none for data of zeros and ones",
        )
    if is_sparse and threshold < 0.0:
        raise InvalidValue(
            (*was_given("binarize", threshold), " with a sparse matrix"),
            "its zeros would all become ones",
            "give a threshold from 0 on, or a dense array",
        )


def _zeros_and_ones(values: NDArray[Any], threshold: float | None) -> NDArray[Any]:
    """Compare values with the threshold; without one, check that they are 0, 1 or NaN."""
    is_unknown = np.isnan(values)
    if threshold is not None:
        ones = values > threshold
        return np.where(is_unknown, np.nan, ones) if is_unknown.any() else ones
    is_bad = (values != 0) & (values != 1) & ~is_unknown
    if is_bad.any():
        shown = values.flat[int(is_bad.argmax())].item()
        raise InvalidValue(
            f"X holds {shown!r}",
            "allowed are 0, 1 and NaN for unknown",
            (*GIVE_THRESHOLD, ", or threshold X yourself"),
        )
    return values
