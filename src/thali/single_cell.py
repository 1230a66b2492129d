"""Factorization of AnnData, ``thali.tl``: results are stored in its own fields."""

from __future__ import annotations

import inspect
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

import thali
from thali import inference
from thali.bits import unpack
from thali.data.entries import row_blocks
from thali.data.readers.cells import read_anndata
from thali.engines.choose import require_one_process
from thali.errors import InvalidValue, require
from thali.model import Effects
from thali.sentences import ExportTree
from thali.single_cell_genes import Spread, check_raw, chosen_genes

if TYPE_CHECKING:
    from anndata import AnnData
    from numpy.typing import NDArray

    from thali.bits import PackedTensor
    from thali.posterior import Posterior

__all__ = ["factorize", "to_anndata"]

_LEVELS = {"level": "mean", "level_sd": "sd", "jump": "jump_mean", "jump_sd": "jump_sd"}
"""Columns of ``obs`` and ``var``, and the columns of the tables of levels that they hold."""

_QUANTILES = {"q05": 0.05, "median": 0.5, "q95": 0.95}


def factorize(
    adata: AnnData,
    *,
    layer: str | None = None,
    use_raw: bool = False,
    mask_var: NDArray[np.bool_] | str | None = None,
    binarize: float | None = 0.0,
    key_added: str | None = None,
    copy: bool = False,
    **settings: Any,
) -> AnnData | None:
    """Find the components behind a matrix of cells x genes.

    A component is a set of genes that are on together, and a cell is the union of its components.
    The matrix is read in blocks and packed with one bit per entry; sparse and backed data are
    never made dense.

    Parameters
    ----------
    adata
        Cells x genes.
    layer
        Name of the layer to read; X by default.
    use_raw
        Read ``adata.raw`` instead of X: all genes that were there before some were chosen.
    mask_var
        Genes to use: a Boolean array, a series with the names of the genes in any order, or the
        name of such a column of ``adata.var`` (with ``use_raw``, of ``adata.raw.var``).
    binarize
        Threshold above which a gene is on. With the default, any positive count is on; entries
        must be finite and not negative. None expects zeros and ones, and NaN for unknown entries.
    key_added
        Name under which the results are stored, instead of ``thali``.
    copy
        Return a copy with the results (in memory, also for backed data) instead of adding them
        to ``adata``.
    **settings
        Arguments of :func:`thali.sample`, such as ``n_components``, ``chains``, ``draws``,
        ``seed``; with ``out`` all draws are stored for :func:`thali.load`.

    Returns
    -------
    adata
        The copy, or None without ``copy``. The results are in these fields; with
        ``key_added="foo"`` they are named ``X_foo`` and ``foo``:

        ``obsm["X_thali"]``
            Cells x components, float32: the probability that the cell has the component.
        ``varm["thali"]``
            Genes x components, float32: the probability that the component contains the gene; NaN
            for genes that ``mask_var`` leaves out. With ``use_raw``, those of all genes of
            ``adata.raw`` are in ``adata.raw.varm["thali"]``, and here those that both have (NaN
            for the others); likewise for columns of ``var``.
        ``obs["thali_level"]``, ``obs["thali_level_sd"]``
            With ``noise="effects"``: how many genes of the cell are on for other reasons than its
            components, such as its depth; mean and standard deviation over the draws of the
            cell's level in log odds, in which zero is an average cell.
        ``var["thali_level"]``, ``var["thali_level_sd"]``
            With ``noise="effects"``: the same of genes; the mean is the log odds that the gene is
            on in an average cell without its components. NaN for genes that ``mask_var`` leaves
            out. Also ``var["thali_jump"]`` and ``var["thali_jump_sd"]``: by how much its
            components raise the log odds that the gene is on (not with
            ``Effects(jumps=False)``, where all genes have the same jump).
        ``uns["thali"]``
            ``params`` of this call, ``settings`` (all settings as JSON), ``version``;
            ``n_components``, the posterior of the number of components; ``components``, the share
            of draws in which each is found (``matched``) and its mean ``similarity`` there;
            ``unmatched``, the mean number of other components per draw; ``rates`` of errors;
            ``error`` of the point estimate; ``diagnostics`` and ``verdict`` (empty if the chains
            agree).

    Raises
    ------
    ValueError, TypeError
        If an argument is wrong; the message says what was given, what is allowed and what to do.

    Warns
    -----
    NotConverged
        If the chains disagree.

    Notes
    -----
    The components are those of the point estimate, in its order, matched to the components of
    every draw (:meth:`thali.Posterior.align`). Probabilities are averages over the draws in which
    a component has a match. A component may belong to a single cell.

    Examples
    --------
    >>> import anndata, thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> adata = anndata.AnnData(data.tensor.astype("float32"))
    >>> few = {"noise": "unequal", "chains": 2, "warmup": 150, "draws": 50}  # two error rates
    >>> thali.tl.factorize(adata, **few, seed=1)
    >>> adata.obsm["X_thali"].shape, adata.varm["thali"].shape
    ((60, 3), (80, 3))
    >>> adata.uns["thali"]["n_components"]["value"].tolist()
    [3]
    """
    anndata = require("anndata", extra="anndata")
    if not isinstance(adata, anndata.AnnData):
        msg = (
            f"adata is a {type(adata).__name__}; an AnnData is needed; make one, or give tables "
            "and arrays to thali.sample()."
        )
        raise TypeError(msg)
    key = _key(key_added)
    _check_settings(settings)
    if adata.is_view and adata.isbacked and not copy:
        msg = (
            "adata is a view of a file, which cannot take results; give copy=True, or use "
            "`adata.to_memory()`."
        )
        raise ValueError(msg)
    check_raw(adata, layer, use_raw=use_raw)
    genes = chosen_genes(adata, mask_var, use_raw=use_raw)
    tensor = read_anndata(adata, layer, genes, binarize, use_raw=use_raw)
    require_one_process(settings.get("engine", "auto"), "thali.tl.factorize")
    posterior = inference.sample(tensor, **settings)
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    params: dict[str, Any] = {"layer": layer, "use_raw": use_raw, "binarize": binarize}
    params["mask_var"] = mask_var if mask_var is None or isinstance(mask_var, str) else genes
    out = settings.get("out")
    params["out"] = None if out is None else os.fspath(out)
    _write(adata, posterior, key, genes, params, use_raw=use_raw)
    return adata if copy else None


def to_anndata(posterior: Posterior) -> AnnData:
    """Return the data of a posterior, with its components, as AnnData.

    Parameters
    ----------
    posterior
        Posterior of a matrix.

    Returns
    -------
    adata
        X holds the data as a sparse matrix (float32, NaN for unknown entries); the results are in
        the same fields as those of :func:`factorize`.

    Raises
    ------
    ValueError
        If the data are not a matrix, or there are no draws.

    Examples
    --------
    >>> import thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> adata = thali.tl.to_anndata(posterior)
    >>> adata.shape, list(adata.obsm)
    ((60, 80), ['X_thali'])
    """
    anndata = require("anndata", extra="anndata")
    if len(posterior.shape) != 2:
        raise InvalidValue(
            f"the data have shape {posterior.shape}",
            "AnnData holds matrices only",
            ("use ", ExportTree(), " for tensors"),
        )
    import pandas as pd  # noqa: PLC0415 - slow to import

    frames = []
    for mode, names in enumerate(posterior.row_names):
        labels = map(str, range(posterior.shape[mode])) if names is None else names
        own = posterior.mode_names[mode]
        frames.append(
            pd.DataFrame(index=pd.Index(labels, name=None if own == f"mode_{mode}" else own))
        )
    alone = anndata.AnnData(_matrix(posterior.tensor), *frames)
    _write(alone, posterior, _key(None), None, {})
    return alone


# --- results ---------------------------------------------------------------------------------


def _write(
    adata: AnnData,
    posterior: Posterior,
    key: str,
    genes: NDArray[np.bool_] | None,
    params: dict[str, Any],
    *,
    use_raw: bool = False,
) -> None:
    """Add the results to ``adata``, without tuples and None, which h5ad files cannot hold."""
    alignment = posterior.align()
    cells, codes = (np.asarray(part, np.float32) for part in alignment.probabilities)
    spread = Spread(adata, genes, use_raw=use_raw)
    number, shared = posterior.n_components_table(), posterior.n_components_table(least_users=2)
    values = np.union1d(number.index, shared.index)
    own, plain = posterior.settings, posterior.settings.to_json()
    params = {name: value for name, value in params.items() if value is not None}
    params |= {name: plain[name] for name in ("seed", "chains", "draws", "thin")}
    results = {
        "params": params | {"warmup": own.warmup},
        "settings": json.dumps(plain),
        "version": thali.__version__,
        "n_components": {
            "value": values,
            "probability": number.reindex(values, fill_value=0.0).to_numpy(),
            "shared": shared.reindex(values, fill_value=0.0).to_numpy(),
        },
        "components": {"matched": alignment.matched, "similarity": alignment.similarity},
        "unmatched": float(alignment.unmatched.mean()),
        "rates": {
            name: {q: float(np.quantile(rates, level)) for q, level in _QUANTILES.items()}
            for name, rates in posterior.noise.items()
        },
        "error": float(posterior.point_estimate().error),
        "diagnostics": posterior.summary(),
        "verdict": str(posterior.verdict() or ""),
    }
    adata.obsm[f"X_{key}"] = cells  # first, because it turns a view into a copy
    adata.varm[key] = spread(codes)
    if use_raw:
        adata.raw.varm[key] = spread.over_raw(codes)
    adata.uns[key] = results
    _write_levels(adata, posterior, key, spread)


def _write_levels(adata: AnnData, posterior: Posterior, key: str, spread: Spread) -> None:
    """Add the levels of cells and genes; remove those of an earlier call of the same name."""
    frames = [adata.obs, adata.var, *([] if spread.raw is None else [adata.raw.var])]
    for frame in frames:
        for name in _LEVELS:
            if f"{key}_{name}" in frame:
                del frame[f"{key}_{name}"]
    prior = posterior.settings.model.priors(2).noise
    if not isinstance(prior, Effects):
        return
    cells, columns = posterior.row_levels(), posterior.column_levels()
    for name, source in _LEVELS.items():
        if source in cells:
            adata.obs[f"{key}_{name}"] = cells[source].to_numpy(np.float32)
        if source in ("mean", "sd") or prior.jumps:
            values = columns[source].to_numpy()
            adata.var[f"{key}_{name}"] = spread(values)
            if spread.raw is not None:
                adata.raw.var[f"{key}_{name}"] = spread.over_raw(values)


def _matrix(tensor: PackedTensor) -> Any:
    """Return packed data as a sparse matrix; only one block of rows at a time is dense."""
    from scipy import sparse  # noqa: PLC0415 - slow to import

    n_rows, n_columns = tensor.shape
    ones, known = tensor.unfoldings[0]
    blocks = []
    for rows in row_blocks((n_rows, n_columns)):
        dense = unpack(ones[rows], n_columns).astype(np.float32)
        if known is not None:
            dense[~unpack(known[rows], n_columns)] = np.nan
        blocks.append(sparse.csr_matrix(dense))
    return sparse.vstack(blocks, format="csr")


# --- arguments -------------------------------------------------------------------------------


def _key(key_added: Any) -> str:
    if key_added is None:
        return "thali"
    if not isinstance(key_added, str) or "/" in key_added or key_added in ("", ".", ".."):
        msg = (
            f"key_added={key_added!r} was given; allowed are names without '/', and not '.' or "
            "'..', which files cannot hold; choose another."
        )
        raise ValueError(msg)
    return key_added


def _check_settings(settings: dict[str, Any]) -> None:
    allowed = [*inspect.signature(inference.sample).parameters][1:]
    for name in settings:
        if name not in allowed:
            msg = (
                f"factorize() got {name!r}; allowed are its own arguments and those of "
                f"thali.sample: {', '.join(allowed)}."
            )
            raise TypeError(msg)
