"""Cells by genes: AnnData files (HDF5 or Zarr) and the HDF5 files of 10x Genomics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.arrays import refuse
from thali.data.binarize import check_threshold
from thali.data.binary import BinaryTensor
from thali.data.build import Places, check_room, pack_rows
from thali.data.convert import check_dtype, check_shape, classify
from thali.data.entries import Entries, n_words
from thali.errors import require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from thali.data.options import Options

    _Names = tuple[str, ...]

# Entries read at a time; some ten arrays of as many numbers are made of them.
_BLOCK_ENTRIES = 1 << 17
_MODES = ("cell", "gene")


def read_h5ad(path: Path, options: Options) -> BinaryTensor:
    """Read the matrix, or a layer, of an AnnData file in blocks."""
    h5py = require("h5py", "io")
    with h5py.File(path, "r") as file:
        return _annotated(file, options)


def read_zarr(path: Path, options: Options) -> BinaryTensor:
    """Read the same from a folder in Zarr's format."""
    zarr = require("zarr", "anndata")
    return _annotated(zarr.open_group(str(path), mode="r"), options)


def read_10x(path: Path, options: Options) -> BinaryTensor:
    """Read 10x Genomics' HDF5 file: it lists genes by cells, and cells become rows."""
    h5py = require("h5py", "io")
    with h5py.File(path, "r") as file:
        groups = [file[name] for name in file if "indptr" in getattr(file[name], "keys", list)()]
        if len(groups) != 1:
            msg = (
                f"it holds {len(groups)} matrices of 10x Genomics' form, and one was expected; "
                "check that it is such a file"
            )
            raise ValueError(msg)
        group = groups[0]
        cells = _strings(group["barcodes"])
        features = group["features"]["name"] if "features" in group else group["gene_names"]
        n_genes, n_cells = (int(n) for n in group["shape"][:])
        genes = _strings(features)
        ones, unknown = _compressed(group, (n_cells, n_genes), options, (cells, genes))
        return BinaryTensor(ones, unknown, _MODES, (cells, genes))


def _annotated(root: Any, options: Options) -> BinaryTensor:
    if "obs" not in root or "var" not in root:
        msg = "it has no 'obs' and 'var'; check that anndata wrote it"
        raise ValueError(msg)
    matrix = _layer(root, options.layer)
    names = _index(root["obs"]), _index(root["var"])
    if hasattr(matrix, "shape"):
        check_shape(matrix.shape)
        check_dtype(matrix.dtype, "its matrix")
        ones, unknown = _dense(matrix, options, names)
    else:
        form = matrix.attrs.get("encoding-type", matrix.attrs.get("h5sparse_format", "csr"))
        stored = matrix.attrs.get("shape", matrix.attrs.get("h5sparse_shape"))
        shape = tuple(int(n) for n in stored)
        is_turned = str(form).startswith("csc")
        ones, unknown = _compressed(matrix, shape, options, names, is_turned=is_turned)
    return BinaryTensor(ones, unknown, _MODES, names)


def _layer(root: Any, layer: str | None) -> Any:
    layers = list(root["layers"]) if "layers" in root else []
    if layer is None:
        if "X" in root:
            return root["X"]
        msg = f"it has no X; give `layer`, one of {layers}"
    elif layer in layers:
        return root["layers"][layer]
    else:
        msg = f"layer={layer!r} was given; its layers are {layers}; choose one, or leave it out"
    raise ValueError(msg)


def _index(frame: Any) -> _Names:
    """Return the labels of the rows of a stored data frame."""
    if not hasattr(frame, "keys"):
        msg = "it was written by a very old anndata; read it with anndata and write it anew"
        raise ValueError(msg)
    return _strings(frame[frame.attrs.get("_index", "_index")])


def _strings(node: Any) -> _Names:
    if hasattr(node, "keys"):  # strings with a mask
        node = node["values"]
    values = np.asarray(node[:]).tolist()
    return tuple(v.decode() if isinstance(v, bytes) else str(v) for v in values)


def _dense(
    matrix: Any, options: Options, names: tuple[_Names, _Names]
) -> tuple[Entries, Entries | None]:
    n_rows, n_columns = matrix.shape
    check_room(8 * n_rows * n_words(n_columns), matrix.shape)
    step = max(1, _BLOCK_ENTRIES // n_columns)

    def blocks() -> Iterator[tuple[Any, None]]:
        for start in range(0, n_rows, step):
            yield np.asarray(matrix[start : start + step]), None

    return pack_rows(
        n_columns,
        blocks(),
        options.binarize,
        lambda value, row, column: refuse(value, row, column, _at(names, row, column)),
    )


def _at(names: tuple[_Names, _Names], row: int, column: int) -> str:
    if row < len(names[0]) and column < len(names[1]):
        return f", cell {names[0][row]!r} and gene {names[1][column]!r}"
    return ""


def _compressed(
    group: Any,
    shape: tuple[int, ...],
    options: Options,
    names: tuple[_Names, _Names],
    *,
    is_turned: bool = False,
) -> tuple[Entries, Entries | None]:
    """Place what a matrix in compressed rows stores, or in compressed columns if it is turned."""
    check_shape(shape)
    check_threshold(options.binarize, is_sparse=True)
    n_rows, n_columns = shape
    n_lines, n_across = shape[::-1] if is_turned else shape
    bounds = np.asarray(group["indptr"][:]).astype(np.int64)
    n_listed = int(group["indices"].shape[0])
    is_sound = len(bounds) == n_lines + 1 and bounds[0] == 0 and bounds[-1] == n_listed
    if not is_sound or (np.diff(bounds) < 0).any() or group["data"].shape[0] != n_listed:
        msg = f"its sparse matrix of {n_rows} x {n_columns} does not fit together; write it anew"
        raise ValueError(msg)
    check_dtype(group["data"].dtype, "its matrix")
    places = Places((n_rows, n_columns), n_listed)
    for start in range(0, n_listed, _BLOCK_ENTRIES):
        stop = min(start + _BLOCK_ENTRIES, n_listed)
        lines = np.searchsorted(bounds, np.arange(start, stop), side="right") - 1
        across = np.asarray(group["indices"][start:stop]).astype(np.int64)
        if across.min() < 0 or across.max() >= n_across:
            msg = f"its sparse matrix of {n_rows} x {n_columns} lists an entry outside; write it "
            raise ValueError(msg + "anew")
        rows, columns = (across, lines) if is_turned else (lines, across)
        values = np.asarray(group["data"][start:stop])
        is_one, is_unknown, bad = classify(values, None, options.binarize)
        if bad is not None:
            row, column = int(rows[bad]), int(columns[bad])
            raise refuse(values[bad], row, column, _at(names, row, column))
        listed = is_one if is_unknown is None else is_one | is_unknown
        unknown = None if is_unknown is None else is_unknown[listed]
        places.add(rows[listed], columns[listed], unknown)
    return places.entries()
