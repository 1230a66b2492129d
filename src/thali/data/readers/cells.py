"""Read cells x genes from AnnData, in memory or in files, and from 10x Genomics' HDF5 files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.data.binary import BinaryTensor
from thali.data.build import check_fits_in_memory
from thali.data.readers.arrays import refuse
from thali.data.readers.cell_blocks import ReadPlan, read_compressed, read_dense
from thali.errors import InvalidValue, require
from thali.sentences import Argument, n_of, was_given

if TYPE_CHECKING:
    from pathlib import Path

    from anndata import AnnData
    from numpy.typing import NDArray

    from thali.data.entries import Entries
    from thali.data.readers.options import Options
    from thali.data.row_part import RowPart

    _Names = tuple[str, ...]

_MODES = ("cell", "gene")
_BYTES_PER_NAME = 100  # of memory; a file may claim any number of names


def read_anndata(
    adata: AnnData,
    layer: str | None,
    genes: NDArray[np.bool_] | None,
    threshold: float | None,
    *,
    use_raw: bool = False,
) -> BinaryTensor:
    """Read a matrix of an AnnData object, in memory or backed by a file, with its names.

    Parameters
    ----------
    adata
        The annotated data.
    layer
        Name of the layer to read; None reads X.
    genes
        True for the genes to read; None reads all.
    threshold
        Numbers above it are ones, and all numbers must be finite and not negative. None means
        that all numbers must be 0, 1 or NaN for unknown.
    use_raw
        Read ``adata.raw``, which has genes of its own, instead of X.

    Returns
    -------
    tensor
        Cells x chosen genes, with their names.
    """
    matrix, owner = _live_matrix(adata, layer, use_raw=use_raw)
    var_names = (adata.raw if use_raw else adata).var_names
    axes = adata.obs_names, var_names if genes is None else var_names[genes]
    names = tuple(map(str, axes[0])), tuple(map(str, axes[1]))
    n_cells, n_genes = map(len, names)
    if not n_cells or not n_genes:
        msg = (
            f"{n_of(n_cells, 'cell')} and {n_of(n_genes, 'gene')} are left to use; at least "
            "one of each is needed."
        )
        raise ValueError(msg)
    need = (
        "allowed are 0, 1 and NaN for unknown; give binarize=, a number above which genes are on"
        if threshold is None
        else "finite numbers from 0 on are needed, such as counts; choose a layer= that has them, "
        "or give binarize=None with zeros, ones and NaN for unknown"
    )

    def refusal(value: Any, row: int, column: int) -> ValueError:
        at = f"cell {names[0][row]!r}, gene {names[1][column]!r}"
        return ValueError(f"it holds {value} ({at}); {need}")

    plan = ReadPlan(threshold, refusal, genes, are_counts=threshold is not None)
    try:
        return BinaryTensor(*_entries(matrix, plan), _MODES, names)
    except ValueError as error:
        msg = f"{owner}: {str(error).rstrip('.')}."
        raise ValueError(msg) from None


def _live_matrix(adata: AnnData, layer: str | None, *, use_raw: bool) -> tuple[Any, str]:
    """Return X or a layer, and what to call it in messages; AnnData loads a view of a file."""
    if use_raw:
        matrix, owner = adata.raw.X, "adata.raw.X"
    elif layer is None:
        matrix, owner = adata.X, "adata.X"
    elif layer in adata.layers:
        matrix, owner = adata.layers[layer], f"adata.layers[{layer!r}]"
    else:
        # From AnnData 0.13 on, the layers contain X under the name None.
        given = ", ".join(repr(name) for name in adata.layers if name is not None) or "none"
        msg = f"layer={layer!r} was given; adata has {given}; choose one, or None for X."
        raise ValueError(msg)
    if matrix is None:
        msg = f"{owner} is empty; give layer= with the name of a matrix."
        raise ValueError(msg)
    if matrix.dtype.kind not in "biuf":
        msg = f"{owner} has type {matrix.dtype}; numbers are needed; convert it first."
        raise TypeError(msg)
    return matrix, owner


def _entries(matrix: Any, plan: ReadPlan) -> tuple[Entries, Entries | None]:
    """Read a dense matrix, a SciPy sparse matrix, or a sparse matrix stored in a file."""
    if hasattr(matrix, "indptr") and hasattr(matrix, "sum_duplicates"):  # a SciPy sparse matrix
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # summing changes the matrix, which belongs to the caller
            matrix.sum_duplicates()
        n_listed = int(matrix.indptr[-1])  # the arrays may have unused space at the end
        parts = {"data": matrix.data[:n_listed], "indices": matrix.indices[:n_listed]}
        parts["indptr"] = matrix.indptr
        return read_compressed(parts, matrix.shape, plan, is_by_column=matrix.format == "csc")
    group = getattr(matrix, "group", matrix)  # AnnData wraps the group that stores a sparse matrix
    if hasattr(group, "shape"):
        return read_dense(matrix, plan)
    form = group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", "csr"))
    shape = _stored_shape(group)
    return read_compressed(group, shape, plan, is_by_column=str(form).startswith("csc"))


def _stored_shape(group: Any) -> tuple[int, ...]:
    """Return the shape of a matrix in a file, dense or sparse."""
    if hasattr(group, "shape"):
        return tuple(group.shape)
    stored = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
    return tuple(int(n) for n in stored)


def read_h5ad(path: Path, options: Options) -> BinaryTensor | RowPart:
    """Read X or a layer of an AnnData file in HDF5 format, block by block."""
    h5py = require("h5py", "io")
    with h5py.File(path, "r") as file:
        return _from_anndata_file(file, options)


def read_zarr(path: Path, options: Options) -> BinaryTensor | RowPart:
    """Read X or a layer of an AnnData folder in Zarr format, block by block."""
    zarr = require("zarr", "anndata")
    return _from_anndata_file(zarr.open_group(str(path), mode="r"), options)


def read_10x(path: Path, options: Options) -> BinaryTensor | RowPart:
    """Read an HDF5 file of 10x Genomics, which stores genes x cells; cells become rows."""
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
        names = cells, genes
        entries = read_compressed(group, (n_cells, n_genes), _plan(options, names))
        return options.labelled(*entries, _MODES, names, n_cells)


def _from_anndata_file(root: Any, options: Options) -> BinaryTensor | RowPart:
    if "obs" not in root or "var" not in root:
        msg = "it has no 'obs' and 'var'; check that anndata wrote it"
        raise ValueError(msg)
    matrix = _layer(root, options.layer)
    names = _index(root["obs"]), _index(root["var"])
    entries = _entries(matrix, _plan(options, names))
    return options.labelled(*entries, _MODES, names, _stored_shape(matrix)[0])


def _plan(options: Options, names: tuple[_Names, _Names]) -> ReadPlan:
    def refusal(value: Any, row: int, column: int) -> ValueError:
        is_named = row < len(names[0]) and column < len(names[1])
        at = f", cell {names[0][row]!r} and gene {names[1][column]!r}" if is_named else ""
        return refuse(value, row, column, name=at)

    return ReadPlan(options.binarize, refusal, rows=options.rows)


def _layer(root: Any, layer: str | None) -> Any:
    layers = list(root["layers"]) if "layers" in root else []
    if layer is None:
        if "X" in root:
            return root["X"]
        raise InvalidValue(
            "it has no X", remedy=("give ", Argument("layer"), f", one of {layers}")
        )
    if layer in layers:
        return root["layers"][layer]
    raise InvalidValue(
        was_given("layer", layer), f"its layers are {layers}", "choose one, or leave it out"
    )


def _index(frame: Any) -> _Names:
    """Return the row labels of a stored data frame."""
    if not hasattr(frame, "keys"):
        msg = "it was written by a very old anndata; read it with anndata and write it again"
        raise ValueError(msg)
    return _strings(frame[frame.attrs.get("_index", "_index")])


def _strings(node: Any) -> _Names:
    if hasattr(node, "keys"):  # strings stored with a mask
        node = node["values"]
    check_fits_in_memory(_BYTES_PER_NAME * int(node.shape[0]), node.shape)
    values = np.asarray(node[:]).tolist()
    return tuple(v.decode() if isinstance(v, bytes) else str(v) for v in values)
