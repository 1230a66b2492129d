"""Posterior predictive checks: the data are compared with data simulated from the posterior.

For draws spread over all chains, new data are simulated from the draw's factors and noise, with
the same entries unknown. If a statistic of the data lies outside its range over these replicates,
the model does not describe what the statistic measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from thali.bits import khatri_rao
from thali.bits.tensor import unfold_back
from thali.bits.words import gather_bits, unpack
from thali.checks import count
from thali.model import Levels
from thali.posterior.check_statistics import default_statistics
from thali.sites import Site
from thali.streams import Stream, simulation_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from thali.bits import Index, PackedTensor
    from thali.posterior.check_statistics import Block, Statistic
    from thali.trace import Draw

MOST_ENTRIES = 1 << 22
"""Entries simulated per replicate; of larger tensors, evenly spaced rows of the first mode."""

_COLUMNS = ("observed", "replicated", "q05", "q95", "p_value")


def check(
    draws: Iterable[Draw],
    tensor: PackedTensor,
    *,
    statistics: Mapping[str, Statistic] | None = None,
    n_replicates: int = 100,
    seed: int = 0,
    mode_names: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Compare statistics of the data with those of data replicated from the posterior.

    Parameters
    ----------
    draws
        Draws of all chains; traversed once, in order, and held in memory if they have no length.
    tensor
        The data.
    statistics
        Functions by name. Each takes a dense array of zeros and ones, NaN where unknown, and
        returns a number. By default those of
        :func:`~thali.posterior.check_statistics.default_statistics`.
    n_replicates
        Number of replicated data sets, from evenly spread draws. If there are fewer draws than
        replicates, draws are used more than once.
    seed
        Seed of the random numbers; the same seed gives the same replicates.
    mode_names
        Names of the modes, for the names of the default statistics.

    Returns
    -------
    table
        One row per statistic: ``observed``, mean over replicates (``replicated``), their 5% and
        95% quantiles (``q05``, ``q95``) and ``p_value``, twice the share of replicates at least
        as extreme on the nearer side, with the data counted as one of them: at least
        ``2 / (n_replicates + 1)``. Small values indicate a misfit.

    Notes
    -----
    The model was fitted to the data that it is compared with, so p-values are closer to the
    middle than uniform ones would be: a small p-value is a stronger sign than it appears.

    References
    ----------
    Gelman, Meng & Stern (1996). Posterior predictive assessment of model fitness via realized
    discrepancies. Statistica Sinica 6, 733-807.

    Examples
    --------
    >>> import numpy as np
    >>> from thali import BinaryTensor, simulate
    >>> from thali.bits import Factor, PackedTensor
    >>> from thali.model import Noise
    >>> from thali.posterior.replicate import check
    >>> from thali.sampler import State
    >>> from thali.trace import Draw
    >>> data = simulate((50, 40), 3, spurious=0.1, seed=1)
    >>> factors = tuple(Factor.from_dense(f) for f in data.factors)
    >>> draw = Draw(State(factors, Noise(0.1, 0.1), 1.0, (), (0, 0), 0), 0.0, 0.0)
    >>> tensor = PackedTensor.from_tensor(BinaryTensor.from_any(data.tensor))
    >>> list(check([draw], tensor, statistics={"ones": np.nansum}).index)
    ['ones']
    """
    import pandas as pd  # noqa: PLC0415 - heavy

    count("n_replicates", n_replicates, least=1)
    if statistics is None:
        statistics = default_statistics(len(tensor.shape), mode_names)
    _check_statistics(statistics)
    rows = _rows_in_use(tensor.shape)
    observed_block = _observed(tensor, rows)
    is_unknown = np.isnan(observed_block)
    observed = [_measure(name, f, observed_block) for name, f in statistics.items()]
    replicated = np.empty((n_replicates, len(statistics)))
    key = simulation_key(seed)
    for replicate, draw in enumerate(_spread(draws, n_replicates)):
        block = _replicate(Stream(key, np.uint64(replicate)), draw, tensor.shape, rows)
        block[is_unknown] = np.nan
        replicated[replicate] = [_measure(name, f, block) for name, f in statistics.items()]
    return pd.DataFrame(
        [_row(*pair) for pair in zip(observed, replicated.T, strict=True)],
        index=pd.Index(statistics, name="statistic"),
        columns=list(_COLUMNS),
        dtype=np.float64,
    )


# --- data and replicates -------------------------------------------------------------------


def _rows_in_use(shape: tuple[int, ...]) -> Index:
    """Return evenly spaced rows of the first mode, as many as are simulated; at least two."""
    n_rows = shape[0]
    n_used = min(n_rows, max(2, MOST_ENTRIES // int(np.prod(shape[1:]))))
    return np.arange(n_used) * n_rows // n_used


def _observed(tensor: PackedTensor, rows: Index) -> Block:
    """Return rows of the data, NaN where unknown."""
    ones, known = tensor.unfoldings[0]
    block = np.ascontiguousarray(unfold_back(ones[rows], tensor.shape), np.float64)
    if known is not None:
        block[~unfold_back(known[rows], tensor.shape)] = np.nan
    return block


def _replicate(stream: Stream, draw: Draw, shape: tuple[int, ...], rows: Index) -> Block:
    """Simulate some rows of the data, given a draw."""
    factors, noise = draw.state.factors, draw.state.noise
    found = tuple(factor.n_rows for factor in factors)
    if found != shape:
        msg = f"a draw of factors with {found} rows was given for data of shape {shape}."
        raise ValueError(msg)
    codes = khatri_rao(factors, 0).words
    members = unpack(gather_bits(factors[0].words, rows), len(rows))
    words = np.zeros((len(rows), codes.shape[1]), np.uint64)
    for component, code in zip(members, codes, strict=True):
        words[component] |= code
    is_covered = unfold_back(words, shape)
    uniforms = stream.uniforms(Site.REPLICATE, is_covered.size).reshape(is_covered.shape)
    if isinstance(noise, Levels):
        reads_one = expit(noise.odds_of_rows(rows, is_covered))
    else:
        reads_one = noise.reads_one(is_covered)
    block: Block = (uniforms < reads_one).astype(np.float64)
    return block


def _spread(draws: Iterable[Draw], n: int) -> Iterable[Draw]:
    """Yield ``n`` evenly spread draws in order; if there are fewer, some are repeated."""
    if not isinstance(draws, Sized):
        draws = list(draws)
    total = len(draws)
    if total == 0:
        msg = "no draws were given; replicates need at least one."
        raise ValueError(msg)
    replicate = 0
    for index, draw in enumerate(draws):
        while replicate < n and (2 * replicate + 1) * total // (2 * n) == index:
            yield draw
            replicate += 1


def _check_statistics(statistics: Any) -> None:
    is_filled = isinstance(statistics, Mapping) and statistics
    if not is_filled or not all(map(callable, statistics.values())):
        msg = (
            f"statistics={statistics!r} was given; a dictionary from names to functions of an "
            "array is needed, such as {'ones': np.nansum}."
        )
        raise TypeError(msg)


def _measure(name: str, statistic: Statistic, block: Block) -> float:
    value = np.asarray(statistic(block))
    if value.size != 1 or value.dtype.kind not in "biuf":
        msg = (
            f"statistic {name!r} returned {value!r:.80}; one number is needed; reduce it, for "
            "example by np.nanmean."
        )
        raise ValueError(msg)
    return float(value.item())


def _row(observed: float, replicated: Block) -> tuple[float, ...]:
    """Return a row of the table; NaN if the statistic is not defined everywhere."""
    if isnan(observed) or np.isnan(replicated).any():
        return observed, nan, nan, nan, nan
    # Under a perfect model, the data are one of n + 1 exchangeable values: the share is then at
    # most p with probability at most p (and never 0, which no simulation can establish).
    above = 1 + int((replicated >= observed).sum())
    below = 1 + int((replicated <= observed).sum())
    p_value = min(1.0, 2.0 * min(above, below) / (len(replicated) + 1))
    low, high = np.quantile(replicated, (0.05, 0.95))
    return observed, float(replicated.mean()), float(low), float(high), p_value
