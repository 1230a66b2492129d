"""What every chain says by itself, and which components all chains have."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from thali.posterior.align import align
from thali.posterior.tables import component_names
from thali.sentences import numbered

if TYPE_CHECKING:
    import pandas as pd

    from thali.posterior.found import Found

ALIKE = 0.7
"""Mean similarity from which on a chain has a component.

Two components of 20 rows and 20 columns that differ by three rows and three columns each (17 in
common) have a similarity of 0.74; unrelated ones hardly reach 0.3."""

MOST = 1 << 40
"""Entries times draws beyond which components are not compared between chains unasked."""


def found_by_chain(posterior: Found) -> pd.DataFrame:
    """Return how similar the components of the point estimate are to those of every chain.

    Returns
    -------
    table
        One row per component, named ``component_1`` and so on as in other tables, and one column
        per chain, numbered from 1: the mean over the draws of the chain of the similarity to the
        matching component, or 0 in draws without one.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    reference = posterior.point_estimate().factors
    columns = {}
    for index, chain in enumerate(posterior.chain_indices):
        own = range(posterior.n_draws)
        drawn = (posterior.draw(index, number).state.factors for number in own)
        alignment = align(drawn, reference)
        columns[numbered(chain)] = (
            np.where(alignment.matched > 0.0, alignment.similarity, 0.0) * alignment.matched
        )
    table = pd.DataFrame(columns, pd.Index(component_names(posterior), name="component"))
    return table.rename_axis(columns="chain")


def in_all_chains(posterior: Found) -> list[int] | None:
    """Return the numbers of the components that all chains have; None if that takes too long."""
    if prod(posterior.shape) * len(posterior) > MOST:
        return None
    is_shared = (found_by_chain(posterior) >= ALIKE).all(axis=1).to_numpy()
    return [numbered(int(component)) for component in np.flatnonzero(is_shared)]
