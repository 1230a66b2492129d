"""Have the chains agreed? Quantities without labels, R-hat, effective draws, and a verdict.

Components have no names, and their number changes: component 3 of one draw has nothing to do with
component 3 of the next. What is compared here does not depend on their order: numbers of
components, rates, densities, and how many components two rows share.
"""

from __future__ import annotations

from math import ceil, inf, isqrt, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thali.bits.words import gather_bits, unpack
from thali.checks import count
from thali.errors import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from thali.bits import Factor, Index

MAX_R_HAT = 1.05
"""Beyond this the chains disagree.

Vehtari et al. (2021) ask for 1.01. But R-hat of four perfect chains, with m effective draws each,
exceeds sqrt(1 + 3 / m) one time in a hundred (an F distribution with 7 degrees of freedom): 1.06
at the least m accepted here, 1.01 only from m = 150 on. 1.05 is no luck, and says that the chains'
means scatter by a third of the posterior's standard deviation."""

MIN_ESS_PER_CHAIN = 25
"""Effective draws a chain below which averages, and R-hat itself, are too uncertain.

An average over 4 x 25 draws has a standard error of a tenth of the posterior's standard deviation.
Vehtari et al. (2021) ask for 100 a chain, which serves tail quantiles too."""

_SENSIBLE = 400  # draws a chain to advise where there are next to none

MIN_DRAWS = 4
"""Draws a chain from which R-hat is defined: two in each half."""

_TAILS = (0.05, 0.95)
_ROUNDING = 1e6  # R-hat beyond this: chains that do not move, of variance 0 up to rounding
_COLUMNS = ("mean", "sd", "r_hat", "ess_bulk", "ess_tail")
_WORDS = {
    "n_components": "the number of components",
    "log_joint": "the log joint density",
    "log_likelihood": "the log likelihood",
    "co_membership": "which rows share components",
    "spurious": "the rate of spurious ones",
    "dropped": "the rate of dropped ones",
    "alpha": "the concentration alpha",
}


class Advice(NamedTuple):
    """What to do about chains that cannot be trusted, in the words of whoever asked."""

    go_on: str = "go on with resume(...)"  # {draws}: how many a chain
    warmup: str = "warmup={sweeps}"
    chains: str = "chains=4"


def sample_pairs(n_rows: int, n_pairs: int = 20) -> Index:
    """Choose pairs of different rows, evenly spaced among all pairs.

    No randomness: the same rows are compared in every chain, run and report.

    Parameters
    ----------
    n_rows, n_pairs
        Rows to choose from, and how many pairs; all of them if there are fewer.

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
        The factors of every draw, one a mode; traversed once.
    pairs, mode
        ``(n_pairs, 2)`` rows of a mode, and which mode.

    Returns
    -------
    shared
        ``(n_draws, n_pairs)``.

    Notes
    -----
    Unpacked, an entry is ``(factor[i] & factor[j]).sum()``.

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
        Arrays ``(n_chains, n_draws)`` by name; or ``(n_chains, n_draws, n_members)`` for a family,
        of which the worst counts.

    Returns
    -------
    table
        A row a quantity with ``mean``, ``sd``, ``r_hat``, ``ess_bulk`` and ``ess_tail``. A
        quantity that never changes says nothing: R-hat 1, no effective draws (NaN). One that
        changes in no chain, but differs between chains, has an infinite R-hat. Fewer than 4 draws,
        or draws in which the quantity does not exist (NaN), give NaN. A family has the largest
        R-hat and the smallest effective draws of its members, and their average mean and sd.

    Notes
    -----
    One chain is cut in two, which are then compared, and split, like two chains.

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


def verdict(
    table: pd.DataFrame,
    n_components: NDArray[Any],
    n_chains: int,
    n_draws: int,
    warmup: int,
    advice: Advice = Advice(),  # noqa: B008 - it never changes
) -> str | None:
    """Say what is wrong with the chains and what to do, or nothing if they agree.

    Parameters
    ----------
    table
        What :func:`diagnose` returned.
    n_components
        ``(n_chains, n_draws)``, to name the means of the chains.
    n_chains, n_draws, warmup
        Chains, draws a chain, and sweeps before them.
    advice
        How to do what is advised: by default in Python.

    Returns
    -------
    verdict
        None if every R-hat is at most ``MAX_R_HAT``, with ``MIN_ESS_PER_CHAIN`` effective draws.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.posterior.diagnostics import diagnose, verdict
    >>> stuck = np.array([[5] * 30, [6] * 30])
    >>> print(verdict(diagnose({"n_components": stuck}), stuck, 2, 30, warmup=50)[:90])
    The 2 chains disagree, with each other or over time, about the number of components (means
    """
    if n_draws < MIN_ESS_PER_CHAIN:  # R-hat of perfect chains would often be too large
        return (
            f"{n_draws} draws a chain are too few to judge whether the chains agree "
            f"({MIN_ESS_PER_CHAIN} are the least, some hundreds are sensible). "
            f"{_sentence(advice.go_on, draws=_SENSIBLE)}, or start with more."
        )
    differing = table["r_hat"][table["r_hat"] > MAX_R_HAT].sort_values(ascending=False)
    if len(differing):
        what = _disagreement(differing, np.asarray(n_components), n_chains)
        return f"{what} {_remedy(advice, n_chains, 2 * n_draws, warmup)}"
    wanted = MIN_ESS_PER_CHAIN * n_chains
    slow = table["ess_bulk"][table["ess_bulk"] < wanted].sort_values()
    if len(slow):
        ess = max(float(slow.iloc[0]), 1.0)
        return (
            f"The {n_chains * n_draws} draws are worth only {ess:.0f} independent ones for "
            f"{in_words(slow.index[0])}, where {wanted} are wanted ({MIN_ESS_PER_CHAIN} a "
            "chain): averages, and the comparison of the chains itself, are uncertain. "
            f"{_sentence(advice.go_on, draws=n_draws * (more := ceil(wanted / ess)))}: about "
            f"{more} times as many draws are needed."
        )
    return None


def _disagreement(differing: pd.Series[float], n_components: NDArray[Any], n_chains: int) -> str:
    """Name what differs, the number of components first, the others from the worst on."""
    names = sorted(differing.index, key=lambda name: name != "n_components")
    parts = []
    for name in names[:3]:
        numbers = f"R-hat {differing[name]:.2f}"
        if name == "n_components" and n_chains > 1:
            numbers = f"{_means(n_components)}; {numbers}"
        parts.append(f"{in_words(name)} ({numbers})")
    if len(names) > 3:
        parts.append(f"{len(names) - 3} more")
    what = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    if n_chains == 1:
        return (
            f"The parts of the only chain disagree about {what}: it had not settled, and "
            "summaries mix what it passed through."
        )
    return (
        f"The {n_chains} chains disagree, with each other or over time, about {what}: summaries "
        "mix different explanations of the data."
    )


def _remedy(advice: Advice, n_chains: int, draws: int, warmup: int) -> str:
    longer = advice.warmup.format(sweeps=2 * warmup if warmup else "...")
    longer = f"{longer} (twice as much)" if warmup else f"a warm-up ({longer})"
    go_on = _sentence(advice.go_on, draws=draws)
    if n_chains == 1:
        return (
            f"{go_on} or sample anew with {longer}; whether other chains agree can be judged "
            f"with {advice.chains} only."
        )
    return f"{go_on}, sample anew with {longer}, or look at the chains one by one."


def _sentence(words: str, **numbers: int) -> str:
    return words[:1].upper() + words[1:].format(**numbers)


def _means(n_components: NDArray[Any]) -> str:
    means = n_components.mean(axis=1)
    if len(means) > 8:  # more are not read
        return f"means from {means.min():.1f} to {means.max():.1f}"
    return "means " + ", ".join(f"{mean:.1f}" for mean in means)


def in_words(name: Any) -> str:
    """Return what a quantity is called in a sentence."""
    return _WORDS.get(str(name), str(name))


def _family(name: str, values: NDArray[Any]) -> tuple[float, ...]:
    """Return the row of a quantity, or of the worst of a family."""
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
    """Return mean, sd, R-hat and effective draws in the bulk and the tails."""
    n_chains, n_draws = chains.shape
    finite = chains[np.isfinite(chains)]
    mean = float(finite.mean()) if finite.size else nan
    sd = float(finite.std(ddof=1)) if finite.size > 1 else nan
    if finite.size < chains.size or n_draws < MIN_DRAWS:
        return mean, sd, nan, nan, nan
    # The library answers these two with NaN, infinity or 1e15, depending on rounding.
    if (chains == chains[0, 0]).all():
        return mean, 0.0, 1.0, nan, nan
    if (chains == chains[:, :1]).all():  # frozen: a chain is worth one draw
        return mean, sd, inf, float(n_chains), float(n_chains)
    stats = require("arviz_stats.base", extra="bayes").array_stats
    several = chains
    if n_chains == 1 and n_draws >= 2 * MIN_DRAWS:
        half = n_draws // 2
        several = np.stack([chains[0, :half], chains[0, -half:]])
    # A folded quantity may be constant where the quantity is not (0 / 0): it then does not count.
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = float(stats.rhat(several, method="rank")) if len(several) > 1 else nan
        bulk = float(stats.ess(chains, method="bulk"))
        tail = float(stats.ess(chains, method="tail", prob=_TAILS))
    return mean, sd, inf if r_hat > _ROUNDING else r_hat, bulk, tail
