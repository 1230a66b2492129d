"""Draw factors and data from the model."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri, pdtr, pdtrik

from thali.bits import Factor, khatri_rao
from thali.bits.tensor import unfold_back
from thali.checks import count, positive, probability
from thali.errors import InvalidValue
from thali.sentences import Setting, n_of, was_given
from thali.sites import Site, site_of
from thali.streams import Stream, simulation_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class TrueLevels(NamedTuple):
    """Levels of rows and columns and jumps of columns of simulated data, in log odds (eq. 25)."""

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]
    jumps: NDArray[np.float64]


class Simulated(NamedTuple):
    """Simulated data, and the factors from which they were drawn."""

    tensor: NDArray[np.bool_] | NDArray[np.float64]  # Boolean; with NaN if entries are unknown
    factors: tuple[NDArray[np.bool_], ...]  # one per mode, (n_rows, n_components)
    noise_free: NDArray[np.bool_]
    levels: TrueLevels | None = None  # if rows or columns have effects


def balanced_density(n_components: int, arity: int = 2) -> float:
    """Return the density of the factors that makes half of the noise-free entries one.

    With density ``p``, a component covers an entry with probability ``p ** arity``; the entry is
    zero with probability ``(1 - p ** arity) ** n_components``.
    """
    count("n_components", n_components, least=1)
    return float((1.0 - 0.5 ** (1.0 / n_components)) ** (1.0 / arity))


def simulate(
    shape: Sequence[int],
    n_components: int | None = None,
    *,
    alpha: float | None = None,
    density: float | str | Sequence[float] | None = None,
    spurious: float = 0.1,
    dropped: float | None = None,
    row_spread: float = 0.0,
    column_spread: float = 0.0,
    jump_spread: float = 0.0,
    unknown: float = 0.0,
    seed: int = 0,
) -> Simulated:
    """Draw factors and data from the model.

    Parameters
    ----------
    shape
        Length of each mode.
    n_components
        Number of components; all factors then have independent entries. None draws the first
        factor from an Indian buffet process, which needs ``alpha``.
    alpha
        Concentration of the Indian buffet process.
    density
        Probability of a one in the factors: a number, one number per mode, or ``"balanced"``,
        which makes half of the noise-free entries one. The default is balanced if
        ``n_components`` is given, else one half.
    spurious, dropped
        Probability that an uncovered entry reads one, and probability that a covered entry reads
        zero; ``dropped`` equals ``spurious`` by default. With effects, these are the rates of an
        average row and column.
    row_spread, column_spread, jump_spread
        Row and column effects of a matrix: standard deviations of normal distributions, on the
        scale of log odds, of the levels of rows, the levels of columns, and the jumps of columns,
        by which cover raises the log odds of a one. Only positive jumps are drawn. A row of level
        1 has more ones than an average row, covered or not: their odds are multiplied by e.
    unknown
        Fraction of entries that are unknown (NaN).
    seed
        Seed of the random numbers; the same seed gives the same data.

    Returns
    -------
    simulated
        Data, factors and the noise-free tensor; with effects, also the ``levels`` of rows and
        columns and the jumps of columns.

    Examples
    --------
    >>> from thali import simulate
    >>> data = simulate((200, 500), 5, spurious=0.1, seed=0)
    >>> data.tensor.shape, len(data.factors)
    ((200, 500), 2)
    >>> data = simulate((200, 500), 5, spurious=0.1, row_spread=1.0, column_spread=0.5, seed=0)
    >>> data.levels.rows.shape, data.levels.columns.shape
    ((200,), (500,))
    """
    if not isinstance(shape, Iterable) or isinstance(shape, str):
        msg = (
            f"shape={shape!r} was given; a shape is the length of every mode, such as (200, 500)."
        )
        raise TypeError(msg)
    lengths = [count("shape", n, least=1) for n in shape]
    if len(lengths) < 2:
        msg = f"shape={tuple(shape)} was given; a tensor has at least 2 modes; add one."
        raise ValueError(msg)
    if (n_components is None) == (alpha is None):
        msg = "give either n_components (a fixed number) or alpha (a buffet), and not both."
        raise ValueError(msg)
    dropped = spurious if dropped is None else dropped
    for name, rate in (("spurious", spurious), ("dropped", dropped), ("unknown", unknown)):
        if not isinstance(rate, Real) or not 0.0 <= float(rate) < 1.0:
            msg = f"{name}={rate!r} was given; allowed are numbers from 0 to below 1; choose one."
            raise ValueError(msg)
    if density is None:
        density = 0.5 if n_components is None else "balanced"
    stream = Stream(simulation_key(seed), np.uint64(0))
    levels = _draw_levels(
        stream, lengths, (spurious, dropped), (row_spread, column_spread, jump_spread)
    )
    factors = _draw_factors(stream, lengths, n_components, alpha, density)
    noise_free = boolean_product(factors)
    rows, columns = lengths[0], int(np.prod(lengths[1:]))
    values = np.empty((rows, columns), np.bool_)
    known = np.ones((rows, columns), np.bool_)
    for row in range(rows):
        covered = noise_free[row].reshape(-1)
        uniforms = stream.uniforms(Site.FLIPS, columns, row=row)
        values[row] = uniforms < _chances(row, covered, spurious, dropped, levels)
        if unknown > 0.0:
            known[row] = stream.uniforms(Site.UNKNOWN, columns, row=row) >= unknown
    tensor = values.reshape(lengths)
    if unknown > 0.0:
        tensor = np.where(known.reshape(lengths), tensor, np.nan)
    return Simulated(tensor, factors, noise_free, levels)


def _chances(
    row: int,
    covered: NDArray[np.bool_],
    spurious: float,
    dropped: float,
    levels: TrueLevels | None,
) -> NDArray[np.float64]:
    """Return the probability of a one at every entry of a row."""
    if levels is None:
        return np.where(covered, 1.0 - dropped, spurious)
    chances: NDArray[np.float64] = expit(
        levels.rows[row] + levels.columns + levels.jumps * covered
    )
    return chances


def _draw_levels(
    stream: Stream,
    shape: list[int],
    rates: tuple[float, float],
    spreads: tuple[float, float, float],
) -> TrueLevels | None:
    """Draw levels of rows and columns and jumps of columns; None without effects."""
    names = ("row_spread", "column_spread", "jump_spread")
    for name, spread in zip(names, spreads, strict=True):
        if not isinstance(spread, Real) or not 0.0 <= float(spread) < np.inf:
            msg = f"{name}={spread!r} was given; allowed are numbers from 0 on; choose one."
            raise ValueError(msg)
    if not any(spreads):
        return None
    if len(shape) != 2:
        given = max(zip(spreads, names, strict=True))
        raise InvalidValue(
            was_given(given[1], given[0]),
            "row and column effects are those of a matrix",
            f"leave it at 0 for {len(shape)} modes",
        )
    spurious, dropped = rates
    if not 0.0 < spurious < 1.0 - dropped < 1.0:
        raise InvalidValue(
            (Setting("spurious", spurious), " and ", Setting("dropped", dropped), " were given"),
            "with row and column effects, both must be above 0, with a sum below 1",
            "choose such rates",
        )
    means = 0.0, logit(spurious), logit(1.0 - dropped) - logit(spurious)
    parts = []
    for part, (n, mean, spread) in enumerate(
        zip((shape[0], shape[1], shape[1]), means, spreads, strict=True)
    ):
        uniforms = stream.uniforms(Site.TRUE_LEVELS, n, row=part)
        if part == 2 and spread > 0.0:  # only jumps above zero
            below = ndtr(-mean / spread)
            uniforms = below + uniforms * (1.0 - below)
        parts.append(mean + spread * ndtri(uniforms))
    return TrueLevels(*parts)


def boolean_product(factors: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Return the noise-free tensor: OR over components of AND over modes.

    Notes
    -----
    For a matrix this is ``(z[:, None, :] & u[None, :, :]).any(axis=-1)``.
    """
    packed = [Factor.from_dense(f) for f in factors]
    shape = [f.n_rows for f in packed]
    codes = khatri_rao(packed, 0).words
    out = np.zeros((shape[0], codes.shape[1]), np.uint64)
    for row, members in enumerate(factors[0]):
        out[row] = np.bitwise_or.reduce(codes[members], axis=0, initial=np.uint64(0))
    return np.ascontiguousarray(unfold_back(out, tuple(shape)))


def _draw_factors(
    stream: Stream,
    shape: list[int],
    n_components: int | None,
    alpha: float | None,
    density: float | str | Sequence[float],
) -> tuple[NDArray[np.bool_], ...]:
    if isinstance(density, str):
        if density != "balanced" or n_components is None:
            msg = (
                f"density={density!r} was given; allowed are numbers between 0 and 1, and "
                "'balanced' if n_components is given; choose one of those."
            )
            raise ValueError(msg)
        density = balanced_density(max(count("n_components", n_components), 1), len(shape))
    each = list(density) if isinstance(density, Iterable) else [density] * len(shape)
    if len(each) != len(shape):
        entries = n_of(len(each), "entry")
        msg = f"density has {entries} for {len(shape)} modes; give one per mode, or one."
        raise ValueError(msg)
    densities = [probability("density", value) for value in each]
    if n_components is None:
        first = _draw_buffet(stream, shape[0], alpha)
        n_components = first.shape[1]
    else:
        count("n_components", n_components)
        first = _draw_bernoulli(stream, 0, shape[0], n_components, densities[0])
    rest = (
        _draw_bernoulli(stream, mode, n, n_components, densities[mode])
        for mode, n in enumerate(shape)
        if mode > 0
    )
    return (first, *rest)


def _draw_bernoulli(
    stream: Stream, mode: int, n_rows: int, n_components: int, density: float
) -> NDArray[np.bool_]:
    uniforms = stream.uniforms(site_of(Site.FACTOR, mode), n_rows * n_components)
    return uniforms.reshape(n_rows, n_components) < density


def _draw_buffet(stream: Stream, n_rows: int, alpha: float | None) -> NDArray[np.bool_]:
    """Draw one customer after another: first the dishes of earlier customers, then new ones."""
    alpha = positive("alpha", alpha)
    dishes: list[NDArray[np.bool_]] = []
    for row in range(n_rows):
        uniforms = stream.uniforms(Site.DISHES, len(dishes), row=row)
        for dish, uniform in zip(dishes, uniforms, strict=True):
            dish[row] = uniform < dish.sum() / (row + 1)
        uniform = float(stream.uniforms(Site.NEW_DISHES, 1, row=row)[0])
        for _ in range(_poisson(alpha / (row + 1), uniform)):
            dishes.append(np.zeros(n_rows, np.bool_))
            dishes[-1][row] = True
    return np.array(dishes, np.bool_).reshape(len(dishes), n_rows).T


def _poisson(mean: float, uniform: float) -> int:
    """Return the smallest k whose distribution function exceeds a uniform."""
    k = max(0, int(pdtrik(uniform, mean)) - 1)
    while pdtr(k, mean) < uniform:
        k += 1
    return k
