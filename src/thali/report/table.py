"""The data behind the table of the page: packed bits, or means over blocks for large tables.

The data are the reconstruction by the components, except at the errors. The page therefore gets
the factors and the errors, which are few and compress well, and computes the data from them.
"""

from __future__ import annotations

import zlib
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import inner_mode, khatri_rao
from thali.bits.codes import outer_modes
from thali.bits.words import n_words, unpack
from thali.report.factors import packed_factors
from thali.report.packing import deflated, deflated_names, packed, text
from thali.sentences import mode_words
from thali.views import blocks, components, seriate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.posterior import Posterior

MOST_ENTRIES = 1 << 27
"""Largest number of entries that are shown one by one.

The browser holds several packed tables, each of which then takes up to 16 MB."""

MOST_BYTES = 6_500_000
"""Largest number of compressed bytes in the page.

As text they take a third more, so that the page stays below 10 MB."""

N_BLOCKS = (600, 800)
"""Number of blocks down and across in which larger tables are shown."""

_CHUNK = 1 << 24  # number of entries unpacked at a time


def table(posterior: Posterior) -> dict[str, Any]:
    """Return the values from which the page draws the table, ready for JSON.

    A tensor of more than two modes is shown unfolded: its columns are all combinations of the rows
    of the modes after the first. Large tables are shown as means over blocks. The ``factors`` are
    None if even these, or the names of the rows, are too large for a page.
    """
    factors = packed_factors(posterior, MOST_BYTES)
    shown = None
    if factors is not None and prod(posterior.shape) <= MOST_ENTRIES:
        shown = _bits(posterior, MOST_BYTES - factors.n_bytes)
    return {
        **(_shares(posterior) if shown is None else shown),
        "size": [posterior.shape[0], prod(posterior.shape[1:])],
        "column_modes": _column_modes(posterior),
        "factors": None if factors is None else factors.modes,
    }


def axis_words(posterior: Posterior) -> tuple[str, str]:
    """Return the words for one row and one column of the unfolded table."""
    words = mode_words(posterior.mode_names)
    return words[0], " · ".join(words[mode] for mode in _column_modes(posterior))


# --- entry by entry --------------------------------------------------------------------------


def _bits(posterior: Posterior, most: int) -> dict[str, Any] | None:
    """Return the errors as packed bits in the grouped order; None if they take too many bytes."""
    factors = components(posterior).factors
    rows, columns = _orders(posterior)
    first = posterior.tensor.unfoldings[0]
    codes = khatri_rao(factors, 0).words
    users = factors[0].dense()
    step = max(1, _CHUNK // prod(posterior.shape[1:]))

    def dense(words: Words) -> NDArray[np.bool_]:
        shown: NDArray[np.bool_] = _unfolded(words, posterior.shape)[:, columns]
        return shown

    def wrong() -> Iterator[NDArray[np.uint8]]:
        for chunk in _chunks(rows, step):
            covered = np.zeros((len(chunk), codes.shape[1]), np.uint64)
            for component, code in enumerate(codes):
                covered[users[chunk, component]] |= code
            differs = first.ones[chunk] ^ covered
            yield packed(dense(differs if first.known is None else differs & first.known[chunk]))

    planes = {"wrong": wrong()}
    if first.known is not None:
        known = first.known
        planes["unknown"] = (packed(~dense(known[chunk])) for chunk in _chunks(rows, step))
    fields: dict[str, Any] = {"kind": "bits", "shape": [len(rows), len(columns)]}
    for name, parts in planes.items():
        blob = deflated(parts, most)
        if blob is None:
            return None
        most -= len(blob)
        fields[name] = text(blob)
    for name, order in (("row_order", rows), ("column_order", columns)):
        fields[name] = text(zlib.compress(order.astype("<u4").tobytes()))
    return fields | {"modes": list(axis_words(posterior))}


def _unfolded(words: Words, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Unpack rows of the first unfolding and remove the padding of its inner mode."""
    inner, n_columns = shape[inner_mode(shape, 0)], prod(shape[1:])
    by_outer = words.reshape(len(words), n_columns // inner, n_words(inner))
    return unpack(by_outer, inner).reshape(len(words), n_columns)


def _column_modes(posterior: Posterior) -> list[int]:
    """Return the modes whose rows the columns combine, the innermost mode last."""
    return [*outer_modes(posterior.shape, 0), inner_mode(posterior.shape, 0)]


def _orders(posterior: Posterior) -> tuple[Index, Index]:
    """Return the rows and columns of the unfolding, grouped by component."""
    modes = _column_modes(posterior)
    orders = [seriate(posterior, mode) for mode in modes]
    lengths = [posterior.shape[mode] for mode in modes]
    grid = np.meshgrid(*(columns for _, columns in orders), indexing="ij")
    flat = np.ravel_multi_index([part.ravel() for part in grid], lengths)
    return orders[0][0], flat


# --- block by block --------------------------------------------------------------------------


def _shares(posterior: Posterior) -> dict[str, Any]:
    """Return means over blocks, both grouped by component and in the order of the data."""
    grouped = seriate(posterior)
    given = (np.arange(posterior.shape[0]), np.arange(posterior.shape[1]))
    fields: dict[str, Any] = {"kind": "shares"}
    for name, orders in (("grouped", grouped), ("given", given)):
        shown = blocks(posterior, *orders, shape=N_BLOCKS)
        data, residual = (np.nan_to_num(part) for part in (shown.data, shown.residual))
        layers = {
            "ones": data * shown.known,
            "covered": shown.prediction,
            "spurious": np.maximum(residual, 0.0) * shown.known,
            "dropped": np.maximum(-residual, 0.0) * shown.known,
        }
        if posterior.tensor.unfoldings[0].known is not None:
            layers["unknown"] = 1.0 - shown.known
        fields[name] = {
            key: text(zlib.compress(np.rint(255 * values).astype(np.uint8).tobytes()))
            for key, values in layers.items()
        }
        edges = (shown.row_edges, shown.column_edges)
        spans = [_spans(posterior, mode, orders[mode], edges[mode]) for mode in (0, 1)]
        fields[name]["names"] = [text(deflated_names(part)) for part in spans]
        fields["shape"] = [len(edge) - 1 for edge in edges]
    fields["modes"] = mode_words(posterior.mode_names)[:2]
    return fields


def _spans(posterior: Posterior, mode: int, order: Index, edges: Index) -> list[str]:
    """Name each block by its first and last row."""
    own = posterior.row_names[mode]
    ends = [
        [str(row) if own is None else own[row] for row in order[places].tolist()]
        for places in (edges[:-1], edges[1:] - 1)
    ]
    return [
        first if is_one else f"{first} … {last}"
        for first, last, is_one in zip(*ends, np.diff(edges) == 1, strict=True)
    ]


def _chunks(rows: Index, step: int) -> Iterator[Index]:
    for start in range(0, len(rows), step):
        yield rows[start : start + step]
