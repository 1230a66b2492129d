"""What the start of a chain reached, as arrays beside its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.sampler import Attempted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_NAMES = ("start_stage", "start_n_components", "start_evidence")


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
    )
    return dict(zip(_NAMES, columns, strict=True))


def start_of(arrays: Mapping[str, NDArray[Any]]) -> tuple[Attempted, ...]:
    """Undo :func:`start_arrays`; runs of earlier versions have no such arrays.

    Examples
    --------
    >>> start_of(start_arrays((Attempted("grown", 12, -1259.5),)))
    (Attempted(stage='grown', n_components=12, evidence=-1259.5),)
    >>> start_of({})
    ()
    """
    if not set(_NAMES) <= arrays.keys():
        return ()
    columns = [arrays[name].tolist() for name in _NAMES]
    return tuple(Attempted(*parts) for parts in zip(*columns, strict=True))
