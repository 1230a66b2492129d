"""Genes that are read from AnnData, and the genes that results are stored for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from anndata import AnnData
    from numpy.typing import NDArray


def check_raw(adata: AnnData, layer: str | None, *, use_raw: bool) -> None:
    """Refuse ``use_raw`` beside a layer, and without ``adata.raw``."""
    if not use_raw:
        return
    if layer is not None:
        msg = (
            f"use_raw=True and layer={layer!r} were given; a matrix is either adata.raw or a "
            "layer; leave one out."
        )
        raise ValueError(msg)
    if adata.raw is None:
        msg = "use_raw=True was given; this adata has no .raw; leave it out, or set adata.raw."
        raise ValueError(msg)


def chosen_genes(adata: AnnData, mask_var: Any, *, use_raw: bool) -> NDArray[np.bool_] | None:
    """Return the mask of the genes to use; None stands for all genes."""
    if mask_var is None:
        return None
    place, owner = ("adata.raw.var", adata.raw) if use_raw else ("adata.var", adata)
    if isinstance(mask_var, str):
        if mask_var not in owner.var:
            given = ", ".join(map(repr, owner.var)) or "no columns"
            msg = f"mask_var={mask_var!r} was given; {place} has {given}; choose one of those."
            raise ValueError(msg)
        source, mask = f"{place}[{mask_var!r}]", owner.var[mask_var].to_numpy()
    else:
        source, mask = "mask_var", np.asarray(_in_order(mask_var, owner.var_names, place))
    if mask.dtype != np.bool_ or mask.shape != (owner.n_vars,):
        msg = (
            f"{source} has type {mask.dtype} and shape {mask.shape}; one True or False for each "
            f"of the {owner.n_vars} genes is needed; make such an array, for instance by a "
            "comparison."
        )
        raise ValueError(msg)
    return np.asarray(mask, np.bool_)


def _in_order(mask: Any, genes: pd.Index, place: str) -> Any:
    """Return a mask in the order of the genes if it is a series that has their names."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    if not isinstance(mask, pd.Series) or mask.index.equals(genes):
        return mask
    if mask.index.equals(pd.RangeIndex(len(genes))):  # it has no names
        return mask
    if mask.index.is_unique and genes.is_unique and {*mask.index} == {*genes}:
        return mask.reindex(genes)
    msg = (
        f"mask_var is a series of {len(mask)} genes, which are not those of {place}; give one "
        "with the same names, or an array in their order."
    )
    raise ValueError(msg)


class Spread:
    """Spreads values of the genes that were used over all genes; the others get NaN."""

    def __init__(self, adata: AnnData, genes: NDArray[np.bool_] | None, *, use_raw: bool) -> None:
        self.raw = adata.raw if use_raw else None
        n_read = adata.n_vars if self.raw is None else self.raw.n_vars
        used = np.arange(n_read) if genes is None else np.flatnonzero(genes)
        self.of_read = np.full(n_read, -1)  # the place of a gene that was read among those used
        self.of_read[used] = np.arange(len(used))
        self.of_own = self.of_read
        if self.raw is not None:  # the same gene has another place there
            names = {name: place for place, name in reversed([*enumerate(self.raw.var_names)])}
            found = np.array([names.get(name, -1) for name in adata.var_names], np.int64)
            self.of_own = np.where(found < 0, -1, self.of_read[found])

    def __call__(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Spread values over the genes of ``adata``."""
        return _pick(values, self.of_own)

    def over_raw(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Spread values over the genes of ``adata.raw``."""
        return _pick(values, self.of_read)


def _pick(values: NDArray[Any], places: NDArray[np.int64]) -> NDArray[np.float32]:
    picked = np.full((len(places), *values.shape[1:]), np.nan, np.float32)
    picked[places >= 0] = values[places[places >= 0]]
    return picked
