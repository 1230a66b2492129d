"""The components as labelled tables, for files and data frames."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from thali.sentences import mode_words, numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from thali.posterior.found import Found
    from thali.posterior.posterior import Posterior


def probabilities(numbers: NDArray[np.int64]) -> pd.Series[float]:
    """Return the share of draws with every number of components.

    Examples
    --------
    >>> import numpy as np
    >>> probabilities(np.array([[3, 3], [4, 3]])).to_dict()
    {3: 0.75, 4: 0.25}
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    values, counts = np.unique(numbers, return_counts=True)
    index = pd.Index(values, name="n_components")
    return pd.Series(counts / counts.sum(), index=index, name="probability")


def component_names(posterior: Found) -> list[str]:
    """Return the names of the components of the point estimate, counted from 1."""
    numbers = range(posterior.point_estimate().factors[0].n_components)
    return [f"component_{numbered(number)}" for number in numbers]


def mode_labels(mode_names: Sequence[str]) -> list[str]:
    """Return the word by which the tables of every mode are called, also as files.

    Examples
    --------
    >>> mode_labels(["cell", "gene"]), mode_labels(["who", "with whom", "mode_2"])
    (['rows', 'columns'], ['who', 'with_whom', 'mode_2'])
    """
    if len(mode_names) == 2:
        return ["rows", "columns"]
    labels = [re.sub(r"\W+", "_", name).strip("_") for name in mode_names]
    are_distinct = len({label.casefold() for label in labels}) == len(labels)
    return labels if all(labels) and are_distinct else [f"mode_{m}" for m in range(len(labels))]


def tables(posterior: Posterior) -> dict[str, pd.DataFrame]:
    """Return tables of the components of the point estimate and their probabilities, by name.

    Parameters
    ----------
    posterior
        Posterior with at least one draw.

    Returns
    -------
    tables
        ``factor_rows``, ``factor_columns``
            Factors of the point estimate: zeros and ones, one column per component, with the
            row and column names of the data. For other tensors: ``factor_`` and the name of the
            mode, or ``factor_mode_0`` and so on if the modes have no names.
        ``probability_rows``, ``probability_columns``
            The probability of each membership: the share of draws in which a row has the
            component (see :meth:`~thali.Posterior.align`).
        ``components``
            For each component, its number of rows and columns, the share of draws that contain
            it, and its mean similarity to its matches in those draws.
        ``n_components``
            The probability of every number of components.

    Examples
    --------
    >>> import thali
    >>> from thali.posterior.tables import tables
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> tables(posterior)["factor_rows"].shape
    (60, 3)
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    estimate = posterior.point_estimate()
    alignment = posterior.align()
    components = pd.Index(component_names(posterior), name="component")
    modes, words = mode_labels(posterior.mode_names), mode_words(posterior.mode_names)
    found: dict[str, pd.DataFrame] = {}
    sizes: dict[str, object] = {}
    for mode, label in enumerate(modes):
        names = posterior.row_names[mode]
        index = pd.Index(
            np.arange(posterior.shape[mode]) if names is None else list(names),
            name=words[mode],
        )
        factor = estimate.factors[mode]
        dense = factor.dense().astype(np.int8)
        found[f"factor_{label}"] = pd.DataFrame(dense, index, components)
        found[f"probability_{label}"] = pd.DataFrame(
            alignment.probabilities[mode], index, components
        )
        sizes[f"n_{label}"] = factor.sizes()
    found["components"] = pd.DataFrame(
        sizes | {"matched": alignment.matched, "similarity": alignment.similarity}, components
    )
    found["n_components"] = posterior.n_components_table().to_frame()
    return found
