"""What the start of a chain reached, as arrays beside its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.sampler import Attempted, Tried

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_NAMES = ("start_stage", "start_n_components", "start_evidence")
_LATER = ("start_kind", "start_tried")  # runs of earlier versions do not have these
_UNTRIED = (np.nan,) * len(Tried._fields)


def start_arrays(history: tuple[Attempted, ...]) -> dict[str, NDArray[Any]]:
    """Return the stages of a start as arrays with one entry per stage.

    Examples
    --------
    >>> arrays = start_arrays((Attempted("grown", 12, -1259.5),))
    >>> arrays["start_stage"].tolist(), arrays["start_n_components"].tolist()
    (['grown'], [12])
    """
    columns = (
        np.array([part.stage for part in history], np.str_),
        np.array([part.n_components for part in history], np.int64),
        np.array([part.evidence for part in history], np.float64),
        np.array([part.kind for part in history], np.str_),
        np.array([part.tried or _UNTRIED for part in history], np.float64),
    )
    return dict(zip(_NAMES + _LATER, columns, strict=True))


def start_of(arrays: Mapping[str, NDArray[Any]]) -> tuple[Attempted, ...]:
    """Undo :func:`start_arrays`; runs of earlier versions have no such arrays, or fewer.

    Examples
    --------
    >>> grown = Attempted("grown", 12, -1259.5)
    >>> start_of(start_arrays((grown,))) == (grown,)
    True
    >>> start_of({})
    ()
    """
    if not set(_NAMES) <= arrays.keys():
        return ()
    columns = [arrays[name].tolist() for name in _NAMES]
    if set(_LATER) <= arrays.keys():
        kinds, tried = (arrays[name].tolist() for name in _LATER)
        columns += [kinds, [_tried(values) for values in tried]]
    return tuple(Attempted(*parts) for parts in zip(*columns, strict=True))


def _tried(values: list[float]) -> Tried | None:
    score, gain, error, n_hidden = values
    return None if np.isnan(n_hidden) else Tried(score, gain, error, int(n_hidden))
