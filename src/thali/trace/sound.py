"""Check that arrays from a file fit together, before anything is computed from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.words import WORD, n_words
from thali.trace.draws import level_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from thali.model import Effects

_MOST_COMPONENTS = 1 << 40  # beyond any memory; sums of smaller numbers do not overflow


def require_sound(
    arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...], effects: Effects | None
) -> None:
    """Raise an error if arrays are not those of draws from data of this shape.

    Compiled code trusts shapes, and positions on grids; a file must not.

    Parameters
    ----------
    arrays
        Arrays of a :class:`~thali.trace.draws.Chunk`.
    shape
        Shape of the data.
    effects
        Prior of the levels of rows and columns; None if there are none.
    """
    n_draws = len(_array(arrays, "n_components", (None,), "i"))
    numbers = arrays["n_components"]
    _need("n_components", is_right=bool(((numbers >= 0) & (numbers < _MOST_COMPONENTS)).all()))
    n_all = int(numbers.sum())
    for name in ("sweep", "alpha", "log_joint", "log_likelihood"):
        _array(arrays, name, (n_draws,), "i" if name == "sweep" else "f")
    _need("sweep", is_right=bool((arrays["sweep"] >= 0).all()))
    _need("alpha", is_right=bool((arrays["alpha"] >= 0).all()))
    _array(arrays, "covered", (n_draws, 2), "i")
    if "moves" in arrays:
        n_moves = len(_array(arrays, "move_names", (None,), "U"))
        _array(arrays, "moves", (n_draws, n_moves, 2), "i")
    for mode, n_rows in enumerate(shape):
        words = _array(arrays, f"factor_{mode}", (n_all, n_words(n_rows)), "u")
        is_padded = n_rows % WORD == 0 or not (words[:, -1] >> np.uint64(n_rows % WORD)).any()
        _need(f"factor_{mode}", is_right=words.dtype == np.uint64 and is_padded)
        name, n = (f"density_{mode}", n_draws)
        if name not in arrays:
            name, n = f"own_density_{mode}", n_all
        _array(arrays, name, (n,), "f")
    if effects is None:
        _array(arrays, "noise", (n_draws, 2), "f")
        _need("noise", is_right=bool(((arrays["noise"] >= 0) & (arrays["noise"] <= 1)).all()))
        return
    grids = effects.grids
    of_modes = [grids.columns if mode == 1 else grids.rows for mode in range(len(shape))]
    for name, mode, grid in (
        *((level_name(mode), mode, grid) for mode, grid in enumerate(of_modes)),
        ("jumps", 1, grids.jumps),
    ):
        _on_grid(name, _array(arrays, name, (n_draws, shape[mode]), "iu"), len(grid))
    n_spreads = len(grids.spreads)
    lengths = [n_spreads, len(grids.columns), n_spreads, len(grids.jumps), n_spreads]
    lengths += [len(grids.offsets), *(n_spreads for _ in shape[2:])]
    hyper = _array(arrays, "level_priors", (n_draws, len(lengths)), "iu")
    for column, length in zip(hyper.T, lengths, strict=True):
        _on_grid("level_priors", column, length)
    mean, spread = hyper[:, 3:4], hyper[:, 4:5]
    is_own = (spread >= grids.first_spread) & (arrays["jumps"] % grids.stride == 0)
    is_common = (spread == 0) & (arrays["jumps"] == mean)
    _need("jumps", is_right=bool((is_own | is_common).all()))


def _array(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], kinds: str
) -> NDArray[Any]:
    """Return an array by its name, if its shape and kind of numbers are right."""
    if name not in arrays:
        msg = f"it has no {name}"
        raise ValueError(msg)
    array = arrays[name]
    is_right = array.ndim == len(shape) and array.dtype.kind in kinds
    sizes = zip(array.shape, shape, strict=False)
    _need(name, is_right=is_right and all(n in (None, size) for size, n in sizes))
    return array


def _on_grid(name: str, places: NDArray[Any], length: int) -> None:
    _need(name, is_right=bool(((places >= 0) & (places < length)).all()))


def _need(name: str, *, is_right: bool) -> None:
    if not is_right:
        msg = f"its {name} cannot be right"
        raise ValueError(msg)
