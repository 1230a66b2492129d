"""Read a matrix of AnnData in blocks and pack it; sparse and backed data are never made dense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import PackedTensor, Unfolding, pack
from thali.bits.words import n_words, set_bits, transpose
from thali.data.binarize import binarize, unmask
from thali.trace.run import Labelled, Names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anndata import AnnData
    from numpy.typing import NDArray

    from thali.bits import Words

_BLOCK_ENTRIES = 1 << 24
"""Entries read at a time: 128 MB of float64 if dense."""


def read(
    adata: AnnData, layer: str | None, genes: NDArray[np.bool_] | None, threshold: float | None
) -> Labelled:
    """Pack a matrix of AnnData, and take the names along.

    Parameters
    ----------
    adata, layer
        Whose matrix, and which; None is X.
    genes
        Which genes to read; None reads all.
    threshold
        Numbers above are ones; None is for zeros and ones, with NaN for unknown.

    Returns
    -------
    labelled
        Packed cells x chosen genes, and their names.

    Notes
    -----
    Blocks follow the axis in which the matrix is stored; compressed columns are packed gene by
    gene and turned at the end.
    """
    matrix, name = _matrix_of(adata, layer)
    is_by_gene = getattr(matrix, "format", None) == "csc"
    names = [adata.obs_names, adata.var_names if genes is None else adata.var_names[genes]]
    shape = len(names[0]), len(names[1])
    if 0 in shape:
        msg = (
            f"there are {shape[0]} cells and {shape[1]} genes to use; at least one each is needed."
        )
        raise ValueError(msg)
    n_lines, width = shape[::-1] if is_by_gene else shape
    ones = np.zeros((n_lines, n_words(width)), np.uint64)
    unknown: Words | None = None
    first = 0
    for part in steps(adata.shape[is_by_gene], width):
        block = _block(matrix, part, genes, is_by_gene)
        bad = None if threshold is None else _first_bad(block)
        if bad is not None:
            value, line, column = bad
            cell, gene = (column, first + line) if is_by_gene else (first + line, column)
            msg = (
                f"{name} holds {value} (cell {names[0][cell]!r}, gene {names[1][gene]!r}); finite "
                "numbers from 0 on are needed, such as counts; choose a layer= that has them, or "
                "give binarize=None with zeros, ones and NaN for unknown."
            )
            raise ValueError(msg)
        entries = binarize(block, threshold)
        _set(ones, first, entries, is_one=True)
        if entries.dtype.kind == "f":
            unknown = np.zeros_like(ones) if unknown is None else unknown
            _set(unknown, first, entries, is_one=False)
        first += block.shape[0]
    known = None
    if unknown is not None and unknown.any():
        known = ~unknown & pack(np.ones(width, np.bool_))
    if is_by_gene:
        ones = transpose(ones, width)
        known = None if known is None else transpose(known, width)
    if known is not None and not known.any():
        msg = f"all entries of {name} are unknown; at least one known 0 or 1 is needed."
        raise ValueError(msg)
    tensor = PackedTensor.from_unfolding(shape, Unfolding(ones, known))
    rows = tuple(tuple(map(str, axis)) for axis in names)
    return Labelled(tensor, Names(("obs", "var"), rows))


def _matrix_of(adata: AnnData, layer: str | None) -> tuple[Any, str]:
    """Find the matrix and its name; of a part of a file, AnnData loads that part."""
    if layer is None:
        matrix, name = adata.X, "adata.X"
    elif layer in adata.layers:
        matrix, name = adata.layers[layer], f"adata.layers[{layer!r}]"
    else:
        given = (
            ", ".join(repr(n) for n in adata.layers if n is not None) or "none"
        )  # X, from 0.13 on
        msg = f"layer={layer!r} was given; adata has {given}; choose one, or None for X."
        raise ValueError(msg)
    if matrix is None:
        msg = f"{name} is empty; give layer= with the name of a matrix."
        raise ValueError(msg)
    if matrix.dtype.kind not in "biuf":
        msg = f"{name} has type {matrix.dtype}; numbers are needed; convert it first."
        raise TypeError(msg)
    return matrix, name


def _block(
    matrix: Any,
    part: slice,
    genes: NDArray[np.bool_] | None,
    is_by_gene: bool,  # noqa: FBT001
) -> Any:
    """Read some cells (or genes, if it is stored so) as an array, or as compressed rows."""
    from scipy import sparse  # noqa: PLC0415 - slow to import

    if is_by_gene:
        columns = matrix[:, part]
        return sparse.csr_array((columns if genes is None else columns[:, genes[part]]).T)
    block: Any = matrix[part]
    is_sparse: bool = sparse.issparse(block)
    block = sparse.csr_array(block) if is_sparse else np.asarray(unmask(block))
    return block if genes is None else block[:, genes]


def _first_bad(block: Any) -> tuple[Any, int, int] | None:
    """Return the first entry that is negative or not finite, and where it is."""
    values = block.ravel() if isinstance(block, np.ndarray) else block.data
    is_good = (values >= 0) & (values < np.inf)
    if is_good.all():
        return None
    at = int(is_good.argmin())
    if isinstance(block, np.ndarray):
        return values[at], *divmod(at, block.shape[1])
    line = int(np.searchsorted(block.indptr, at, side="right")) - 1
    return values[at], line, int(block.indices[at])


def _set(words: Words, first: int, entries: Any, *, is_one: bool) -> None:
    """Switch on the bits of ones, or of unknown entries, from some line on."""
    if isinstance(entries, np.ndarray):
        lines = slice(first, first + len(entries))
        words[lines] = pack(entries == 1 if is_one else np.isnan(entries))
        return
    keep = entries.data == 1 if is_one else np.isnan(entries.data)
    indptr = np.append(0, np.cumsum(keep))[entries.indptr]
    set_bits(words, first, indptr.astype(np.int64), entries.indices[keep])


def steps(n_lines: int, width: int) -> Iterator[slice]:
    """Cut lines into blocks of few entries."""
    step = max(1, _BLOCK_ENTRIES // width)
    return (slice(start, min(start + step, n_lines)) for start in range(0, n_lines, step))
