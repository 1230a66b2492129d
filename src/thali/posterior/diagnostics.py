"""R-hat and effective sample size of quantities that do not depend on component labels.

Components have no labels, and their number changes: component 3 of one draw has nothing to do with
component 3 of the next. The quantities compared here do not depend on the order of the
components: their number, rates, densities, and how many components two rows share.
"""

from __future__ import annotations

import re
from math import inf, isqrt, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.words import gather_bits, unpack
from thali.checks import count
from thali.errors import require
from thali.model import Noise
from thali.model.noise_kinds import spreads_of
from thali.sentences import mode_words, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from thali.bits import Factor, Index

MAX_R_HAT = 1.05
"""Largest R-hat at which the chains are said to agree.

Vehtari et al. (2021) ask for 1.01. But R-hat of four perfect chains, with m effective draws each,
exceeds sqrt(1 + 3 / m) one time in a hundred (an F distribution with 7 degrees of freedom): 1.06
at the smallest m accepted here, 1.01 only from m = 150 on. An R-hat above 1.05 is not due to
chance; it means that the chains' means scatter by a third of the posterior's standard
deviation."""

MIN_ESS_PER_CHAIN = 25
"""Effective draws per chain below which averages, and R-hat itself, are too uncertain.

An average over 4 x 25 draws has a standard error of a tenth of the posterior's standard deviation.
Vehtari et al. (2021) ask for 100 per chain, which also suffices for tail quantiles."""

MIN_DRAWS = 4
"""Draws per chain from which R-hat is defined: two in each half."""

_TAILS = (0.05, 0.95)
_ROUNDING = 1e6  # a larger R-hat is that of chains that do not move: variance 0 up to rounding
_COLUMNS = ("mean", "sd", "r_hat", "ess_bulk", "ess_tail")
WORDS = {
    "n_components": "the number of components",
    "log_joint": "the log joint density",
    "log_likelihood": "the log likelihood",
    "co_membership": "which rows share components",
    **{quantity.name: quantity.phrase for quantity in (*Noise.quantities(), *spreads_of(64))},
    "alpha": "the concentration alpha",
}
"""Phrases for quantities within a sentence, by name."""


def sample_pairs(n_rows: int, n_pairs: int = 20) -> Index:
    """Choose pairs of different rows, evenly spaced among all pairs.

    The choice is not random: the same rows are compared in every chain, run and report.

    Parameters
    ----------
    n_rows, n_pairs
        Number of rows to choose from, and number of pairs; all pairs if there are fewer.

    Returns
    -------
    pairs
        ``(n_pairs, 2)``, the smaller row first, all different.

    Examples
    --------
    >>> from thali.posterior.diagnostics import sample_pairs
    >>> sample_pairs(100, 3).tolist()
    [[5, 41], [60, 70], [30, 91]]
    """
    count("n_rows", n_rows)
    count("n_pairs", n_pairs)
    total = n_rows * (n_rows - 1) // 2
    n_pairs = min(n_pairs, total)
    # Pair (i, j) with i < j is number j (j - 1) / 2 + i; in integers, which do not round.
    numbers = [(2 * k + 1) * total // (2 * n_pairs) for k in range(n_pairs)]
    larger = [(1 + isqrt(1 + 8 * number)) // 2 for number in numbers]
    pairs = [(n - j * (j - 1) // 2, j) for n, j in zip(numbers, larger, strict=True)]
    return np.array(pairs, np.int64).reshape(n_pairs, 2)


def co_membership(draws: Iterable[Sequence[Factor]], pairs: Index, mode: int = 0) -> Index:
    """Count the components that two rows share, in every draw.

    Parameters
    ----------
    draws
        The factors of every draw, one per mode; traversed once.
    pairs, mode
        ``(n_pairs, 2)`` row numbers, and the mode that the rows belong to.

    Returns
    -------
    shared
        ``(n_draws, n_pairs)``.

    Notes
    -----
    For an unpacked factor, an entry is ``(factor[i] & factor[j]).sum()``.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.bits import Factor
    >>> from thali.posterior.diagnostics import co_membership
    >>> factor = Factor.from_dense(np.array([[1, 1], [1, 1], [0, 1]], np.bool_))
    >>> co_membership([(factor,)], np.array([[0, 1], [1, 2]])).tolist()
    [[2, 1]]
    """
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    left, right = np.ascontiguousarray(pairs.T)
    shared = []
    for factors in draws:
        factor = factors[mode]
        if pairs.size and not 0 <= pairs.min() <= pairs.max() < factor.n_rows:
            msg = (
                f"pairs hold rows from {pairs.min()} to {pairs.max()}; mode {mode} has rows 0 to "
                f"{factor.n_rows - 1}; choose pairs of those."
            )
            raise ValueError(msg)
        both = gather_bits(factor.words, left) & gather_bits(factor.words, right)
        shared.append(unpack(both, len(pairs)).sum(axis=0, dtype=np.int64))
    return np.array(shared, np.int64).reshape(len(shared), len(pairs))


def diagnose(quantities: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    """Compare chains: rank-normalised split R-hat and effective draws of every quantity.

    Parameters
    ----------
    quantities
        Arrays ``(n_chains, n_draws)`` by name; or ``(n_chains, n_draws, n_members)`` for a family
        of quantities, which is as good as its worst member.

    Returns
    -------
    table
        One row per quantity, with ``mean``, ``sd``, ``r_hat``, ``ess_bulk`` and ``ess_tail``. A
        quantity that never changes carries no information: its R-hat is 1, its effective sample
        size NaN. One that changes in no chain, but differs between chains, has an infinite R-hat.
        With fewer than 4 draws, or draws in which the quantity does not exist (NaN), diagnostics
        are NaN. A family has the largest R-hat and the smallest effective sample size of its
        members, and their average mean and sd.

    Notes
    -----
    A single chain is cut into two halves, which are compared, and split again, like two chains.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021). Rank-normalization, folding, and
    localization: an improved R-hat. Bayesian Analysis 16, 667-718.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.posterior.diagnostics import diagnose
    >>> float(diagnose({"stuck": np.array([[5] * 9, [6] * 9])}).loc["stuck", "r_hat"])
    inf
    """
    import pandas as pd  # noqa: PLC0415 - heavy

    rows = {name: _family(name, np.asarray(values)) for name, values in quantities.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(_COLUMNS), dtype=np.float64)
    table.index.name = "quantity"
    return table


def in_words(name: Any) -> str:
    """Return the phrase for a quantity within a sentence.

    Examples
    --------
    >>> in_words("alpha"), in_words("density_mode_1"), in_words("density_gene")
    ('the concentration alpha', 'the density of columns', 'the density of genes')
    """
    name = str(name)
    mode = name.removeprefix("density_")
    if mode == name or name in WORDS:
        return str(WORDS.get(name, name))
    at = re.fullmatch(r"mode_(\d+)", mode)  # a mode without a name
    names = [mode] if at is None else [f"mode_{i}" for i in range(int(at[1]) + 1)]
    return f"the density of {plural(mode_words(names)[-1])}"


def _family(name: str, values: NDArray[Any]) -> tuple[float, ...]:
    """Return the row of a quantity, or of the worst member of a family."""
    if values.ndim not in (2, 3) or not values.size:
        msg = (
            f"quantity {name!r} has shape {values.shape}; allowed are (chains, draws) and "
            "(chains, draws, members), none of them 0; reshape it."
        )
        raise ValueError(msg)
    members = values.reshape(*values.shape[:2], -1).astype(np.float64)
    rows = np.array([_row(members[:, :, i]) for i in range(members.shape[2])])
    mean, sd, r_hat, bulk, tail = (column[~np.isnan(column)] for column in rows.T)
    return (
        *(float(part.mean()) if part.size else nan for part in (mean, sd)),
        float(r_hat.max()) if r_hat.size else nan,
        *(float(part.min()) if part.size else nan for part in (bulk, tail)),
    )


def _row(chains: NDArray[np.float64]) -> tuple[float, ...]:
    """Return mean, sd, R-hat and effective sample size in the bulk and the tails."""
    n_chains, n_draws = chains.shape
    finite = chains[np.isfinite(chains)]
    mean = float(finite.mean()) if finite.size else nan
    sd = float(finite.std(ddof=1)) if finite.size > 1 else nan
    if finite.size < chains.size or n_draws < MIN_DRAWS:
        return mean, sd, nan, nan, nan
    # For these two cases the library returns NaN, infinity or 1e15, depending on rounding.
    if (chains == chains[0, 0]).all():
        return mean, 0.0, 1.0, nan, nan
    if (chains == chains[:, :1]).all():  # no chain moves: each is worth one draw
        return mean, sd, inf, float(n_chains), float(n_chains)
    stats = require("arviz_stats.base", extra="bayes").array_stats
    several = chains
    if n_chains == 1 and n_draws >= 2 * MIN_DRAWS:
        half = n_draws // 2
        several = np.stack([chains[0, :half], chains[0, -half:]])
    # A folded quantity may be constant although the quantity is not (0 / 0); it is then ignored.
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = float(stats.rhat(several, method="rank")) if len(several) > 1 else nan
        bulk = float(stats.ess(chains, method="bulk"))
        tail = float(stats.ess(chains, method="tail", prob=_TAILS))
    return mean, sd, inf if r_hat > _ROUNDING else r_hat, bulk, tail
