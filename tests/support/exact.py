"""Exact posteriors of very small problems, by enumeration.

Nothing here comes from the package under test. Data are 0/1 arrays of any arity with at most a
dozen cells; mode 0 carries the Indian buffet process (or, in the finite model, one more
Bernoulli factor) and every other mode has independent Bernoulli entries.

A prediction, that is a set of covered cells, is written as an integer: bit i is cell i in C
order. A component covers a box of cells. Because the components are points of a Poisson
process, the joint law of their number and of the union of their boxes is built up one component
at a time, by an OR-convolution with the rates of the boxes. All terms are positive, so nothing
cancels; a density with a Beta prior is integrated by Gauss-Jacobi nodes that are numerous enough
for the polynomial at hand, so the quadrature is exact up to rounding.
"""

from dataclasses import dataclass
from functools import reduce
from itertools import combinations_with_replacement, islice, pairwise, product
from math import ceil, exp, factorial, lgamma, log, prod
from typing import Any, NamedTuple

import numpy as np
from scipy.special import beta, betainc, roots_jacobi

MAX_CELLS = 12


@dataclass(frozen=True)
class Priors:
    """What is assumed before the data are seen.

    Concentration (IBP only): ``alpha``, or ``alpha_prior`` = (shape, rate) of a Gamma.

    Densities, exactly one of: ``density``, one number for each mode but mode 0;
    ``density_prior`` = (a, b), one density for each mode, shared by its components, Beta(a, b)
    and independent between modes; ``density_grid`` = (values, weights), every component draws a
    density of its own for each mode from this finite law. With ``density_tied`` = c, the law has
    two values, and the weight of the first of them is unknown, with the prior Beta(c / 2, c / 2).

    Noise: ``"fixed"`` uses ``spurious`` = P(1 | not covered) and ``dropped`` = P(0 | covered);
    ``"equal"`` gives the two one common value with law ``error_prior``, a Beta(a, b) truncated to
    (0, 1/2); ``"unequal"`` gives them the laws ``spurious_prior`` and ``dropped_prior``, which are
    independent Beta(a, b), given that their sum is below one; ``"effects"`` sums out the levels,
    jumps, means and spreads of ``effects``, which has the fields of `thali.model.Effects`.
    """

    alpha: float | None = None
    alpha_prior: tuple[float, float] | None = None
    density: tuple[float, ...] | None = None
    density_prior: tuple[float, float] | None = None
    density_grid: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    density_tied: float | None = None
    noise: str = "fixed"
    spurious: float = 0.1
    dropped: float = 0.1
    error_prior: tuple[float, float] = (1.0, 1.0)
    spurious_prior: tuple[float, float] = (1.0, 1.0)
    dropped_prior: tuple[float, float] = (1.0, 1.0)
    effects: Any = None

    def __post_init__(self):
        if self.alpha is not None and self.alpha_prior is not None:
            raise ValueError("Give alpha or alpha_prior, not both.")
        densities = (self.density, self.density_prior, self.density_grid)
        if sum(d is not None for d in densities) != 1:
            raise ValueError("Give exactly one of density, density_prior and density_grid.")
        if self.density_grid is not None and not np.isclose(sum(self.density_grid[1]), 1.0):
            raise ValueError("The weights of density_grid must sum to one.")
        if self.density_tied is not None and len(self.density_grid[0]) != 2:
            raise ValueError("Give two values of density_grid if their weights are unknown.")
        if self.noise not in {"fixed", "equal", "unequal", "effects"}:
            raise ValueError(f"Unknown noise {self.noise!r}.")


class Canonical(NamedTuple):
    """A state without its labels; see `canonical`."""

    k: int
    prediction: int
    key: tuple[int, ...]


def harmonic(n):
    """1 + 1/2 + ... + 1/n."""
    return sum(1.0 / i for i in range(1, n + 1))


def patterns(size):
    """All binary vectors, shape (2**size, size); row j has bit i of j at position i."""
    return (np.arange(1 << size)[:, None] >> np.arange(size)) & 1 == 1


def as_bitmask(cells):
    """Integer of a Boolean array: bit i is entry i in C order."""
    flat = np.asarray(cells, dtype=bool).ravel()
    return int(flat @ (1 << np.arange(flat.size, dtype=np.int64)))


def canonical(factors):
    """Label-free form of a state given as dense Boolean factors.

    `factors` holds one array (entities of the mode, components) per mode. The result has ``k``,
    the number of components as stored (also empty ones, if any are), ``prediction``, the bitmask
    of the covered cells, and ``key``, the sorted tuple of the components, each one the bitmask
    of its columns of all factors laid end to end, mode 0 first.
    """
    factors = [np.asarray(f, dtype=bool) for f in factors]
    shape = tuple(len(f) for f in factors)
    k = factors[0].shape[1]
    boxes = reduce(lambda a, b: (a[:, None] & b).reshape(len(a) * len(b), k), factors)
    columns = np.concatenate(factors)
    bits = 1 << np.arange(sum(shape), dtype=np.int64)
    key = tuple(sorted((bits @ columns).tolist()))
    return Canonical(k, as_bitmask(boxes.any(axis=1)), key)


# --- likelihood -------------------------------------------------------------------------------


def likelihood(x, known, priors):
    """Probability of the known data under each of the 2**cells predictions.

    Error rates that have a prior are integrated out.
    """
    if priors.noise == "effects":
        return _effects_mass(np.asarray(x), np.asarray(known, dtype=bool), priors.effects)
    x = np.asarray(x).astype(bool).ravel()
    known = np.asarray(known, dtype=bool).ravel()
    covered = patterns(x.size)
    good1 = (covered & x & known).sum(axis=1)
    good0 = (~covered & ~x & known).sum(axis=1)
    spurious = (~covered & x & known).sum(axis=1)
    dropped = (covered & ~x & known).sum(axis=1)
    if priors.noise == "fixed":
        return (
            priors.spurious**spurious
            * (1 - priors.spurious) ** good0
            * priors.dropped**dropped
            * (1 - priors.dropped) ** good1
        )
    if priors.noise == "equal":
        return _error_moment(priors.error_prior, spurious + dropped, good0 + good1)
    counts = np.stack([spurious, good0, dropped, good1], axis=-1)
    laws = priors.spurious_prior, priors.dropped_prior
    return _two_rates_mass(laws, counts) / _two_rates_mass(laws, np.zeros((1, 4)))


def level_law(grid, mean, spread):
    """The prior of levels by its definition: normal weights on a grid, or all on the nearest."""
    distance = np.abs(np.array(grid) - mean)
    weights = (
        (distance == distance.min()) * 1.0
        if spread == 0
        else np.exp(-0.5 * (distance / spread) ** 2)
    )
    return weights / weights.sum()


def jump_law(prior, mean, spread):
    """The prior of jumps by its definition, given the position of their mean."""
    sizes = np.array(prior.jump_sizes)
    law = np.zeros(len(sizes))
    if spread == 0.0:
        law[mean] = 1.0
    else:
        law[:: prior.jump_stride] = level_law(sizes[:: prior.jump_stride], sizes[mean], spread)
    return law


def jump_spreads(prior):
    """The positions of all spreads that jumps may have: none, or at least half a step."""
    steps = np.diff(prior.jump_sizes[:: prior.jump_stride])
    least = steps.max() / 2 if prior.jump_stride > 1 else 0.0
    return [k for k, spread in enumerate(prior.spreads) if k == 0 or spread >= least]


def _effects_mass(x, known, prior):
    """Probability of the known data under each prediction, levels and spreads summed out."""
    n, d = x.shape
    of_jumps = [prior.spreads[k] for k in jump_spreads(prior)]
    spreads = [
        some if on else (0.0,)
        for on, some in (
            (prior.rows, prior.spreads), (prior.columns, prior.spreads), (prior.jumps, of_jumps)
        )
    ]  # fmt: skip
    rows, columns, jumps = (
        np.array(values) for values in (prior.row_levels, prior.column_levels, prior.jump_sizes)
    )
    of_rows = [level_law(rows, 0.0, s) for s in spreads[0]]
    of_columns = [level_law(columns, m, s) for m in columns for s in spreads[1]]
    of_jumps = [jump_law(prior, m, s) for m in range(len(jumps)) for s in spreads[2]]
    f = patterns(d)  # of one row
    predictions = np.arange(1 << n * d)
    of_row = [predictions >> row * d & (1 << d) - 1 for row in range(n)]
    mass = np.zeros(1 << n * d)
    for i, j, offset in product(
        product(range(len(columns)), repeat=d),
        product(range(len(jumps)), repeat=d),
        prior.offsets,
    ):
        i, j = list(i), list(j)
        weight = np.mean([p[i].prod() for p in of_columns]) * np.mean(
            [p[j].prod() for p in of_jumps]
        )
        if weight == 0.0:
            continue
        weight /= len(prior.offsets)
        odds = rows[:, None, None] + columns[i] + jumps[j] * f + offset  # level, pattern, column
        one = 1 / (1 + np.exp(-odds))
        lines = []
        for row in range(n):
            p = np.where(x[row] > 0, one, 1 - one)
            lines.append(np.where(known[row], p, 1.0).prod(axis=2))
        for prior_of_row in of_rows:
            part = np.full(len(predictions), weight / len(of_rows))
            for row in range(n):
                part *= (prior_of_row @ lines[row])[of_row[row]]
            mass += part
    return mass


def _error_moment(prior, wrong, right):
    """E[e**wrong (1-e)**right] for e ~ Beta(prior) truncated to (0, 1/2)."""

    def mass(a, b):
        return beta(a, b) * betainc(a, b, 0.5)

    a, b = prior
    return mass(a + wrong, b + right) / mass(a, b)


def _two_rates_mass(laws, counts):
    """Integral of e0**w0 (1-e0)**r0 e1**w1 (1-e1)**r1 over two Beta laws where e0 + e1 < 1.

    The integral over e1 is an incomplete Beta function. With e0 = sin^2, the integrand is smooth
    for half-integer parameters, so that Gauss-Legendre nodes suffice.
    """
    (a0, b0), (a1, b1) = laws
    t, w = np.polynomial.legendre.leggauss(256)
    angle = (t + 1) * np.pi / 4
    e0, weight = np.sin(angle) ** 2, w * np.sin(2 * angle)
    w0, r0, w1, r1 = counts[..., None, :].transpose(-1, *range(counts.ndim))
    inner = beta(a1 + w1, b1 + r1) * betainc(a1 + w1, b1 + r1, 1 - e0)
    return (weight * e0 ** (a0 + w0 - 1) * (1 - e0) ** (b0 + r0 - 1) * inner).sum(axis=-1)


# --- laws of one component --------------------------------------------------------------------


def history_rates(n_rows):
    """Rate, per unit of alpha, of each user pattern of an IBP column (zero for the empty one)."""
    users = patterns(n_rows).sum(axis=1)
    rate = [0.0]
    rate += [factorial(n_rows - m) * factorial(m - 1) / factorial(n_rows) for m in users[1:]]
    return np.array(rate)


def bernoulli_weights(size, density):
    """Probability of each binary vector, shape (2**size, number of densities)."""
    ones = patterns(size).sum(axis=1)[:, None]
    density = np.atleast_1d(np.asarray(density, dtype=float))
    return density**ones * (1 - density) ** (size - ones)


def _beta_nodes(prior, degree):
    """Nodes and weights that integrate polynomials of this degree against Beta(a, b)."""
    a, b = prior
    t, w = roots_jacobi(ceil((degree + 1) / 2), b - 1, a - 1)
    return (1 + t) / 2, w / w.sum()


def _mode_laws(sizes, priors, densities, n_components):
    """Laws of one component's column in each of some modes, at each quadrature node.

    Returns a list of arrays (2**size, nodes) and the weights of the nodes. `densities` holds a
    number for a mode of known density and None for the others.
    """
    grids = []
    for size, density in zip(sizes, densities, strict=True):
        if density is None and priors.density_prior is not None:
            grids.append(_beta_nodes(priors.density_prior, n_components * size))
        elif density is None and priors.density_tied is not None:
            grids.append(_beta_nodes((priors.density_tied / 2,) * 2, n_components))
        else:
            grids.append((np.zeros(1), np.ones(1)))
    mesh = np.meshgrid(*[t for t, _ in grids], indexing="ij")
    weights = reduce(np.multiply.outer, [w for _, w in grids], np.ones(())).ravel()
    laws = []
    for size, density, nodes in zip(sizes, densities, mesh, strict=True):
        if density is not None:
            law = bernoulli_weights(size, density)
        elif priors.density_prior is not None:
            law = bernoulli_weights(size, nodes.ravel())
        else:
            values, w = priors.density_grid
            if priors.density_tied is not None:  # the weight of the first of two values
                w = np.stack([nodes.ravel(), 1.0 - nodes.ravel()])
            law = bernoulli_weights(size, values) @ np.reshape(w, (len(values), -1))
        laws.append(np.broadcast_to(law, (1 << size, weights.size)))
    return laws, weights


def _cross(a, b):
    """Products of all pairs along the first and along the second axis, the last one shared."""
    pairs = a[:, None, :, None] * b[None, :, None, :]
    return pairs.reshape(len(a) * len(b), a.shape[1] * b.shape[1], -1)


def _box_rates(shape, laws):
    """Cell sets a component can cover, and the total weight of each, shape (sets, nodes)."""
    inside = reduce(_cross, [patterns(s)[..., None] for s in shape])[..., 0]
    masks = inside.astype(np.int64) @ (1 << np.arange(prod(shape), dtype=np.int64))
    rates = reduce(_cross, [law[:, None] for law in laws])[:, 0]
    boxes, which = np.unique(masks, return_inverse=True)
    total = np.zeros((boxes.size, rates.shape[1]))
    np.add.at(total, which.ravel(), rates)
    return boxes, total


def _within(boxes, rates, cells):
    """Total weight of the boxes within each set of cells, shape (2**cells, nodes).

    Several components lie within a set if each of them does: weights multiply.
    """
    if cells > MAX_CELLS:
        raise ValueError(f"Enumeration is meant for at most {MAX_CELLS} cells.")
    table = np.zeros((1 << cells, rates.shape[1]))
    table[boxes] = rates
    for cell in range(cells):
        halves = table.reshape(-1, 2, 1 << cell, table.shape[1])
        halves[:, 1] += halves[:, 0]
    return table


def _exactly(within, unions):
    """Weight of each set as the union, given what lies within it: the inverse of the sum above.

    Sets that are not among the possible unions have a weight of exactly zero; differences of
    nearly equal numbers would only come near.
    """
    table = within.copy()
    for cell in range(len(table).bit_length() - 1):
        halves = table.reshape(-1, 2, 1 << cell)
        halves[:, 1] -= halves[:, 0]
    out = np.zeros_like(table)
    out[unions] = np.maximum(table[unions], 0.0)
    return out


def _unions(boxes, rates):
    """Yield the sets that no component, one component, two and so on can cover."""
    boxes = boxes[(rates > 0.0).any(axis=1)]
    unions = np.zeros(1, np.int64)
    while True:
        yield unions
        unions = np.unique(unions[:, None] | boxes)


# --- posteriors -------------------------------------------------------------------------------


def joint_ibp(x, known, priors, max_components=16):
    """Joint probability of (number of components, prediction, known data).

    Same shape as `posterior_ibp`, not normalised: the sum is the evidence, up to the mass of
    more than `max_components` components.
    """
    x = np.asarray(x)
    k = np.arange(max_components + 1)
    h = harmonic(len(x))
    if priors.alpha is not None:
        factor = exp(-priors.alpha * h) * priors.alpha**k
    elif priors.alpha_prior is not None:
        a, b = priors.alpha_prior
        factor = [exp(lgamma(a + i) - lgamma(a) + a * log(b) - (a + i) * log(b + h)) for i in k]
    else:
        raise ValueError("The nonparametric model needs alpha or alpha_prior.")
    densities = priors.density or (None,) * (x.ndim - 1)
    laws, weights = _mode_laws(x.shape[1:], priors, densities, max_components)
    users = np.broadcast_to(history_rates(len(x))[:, None], (1 << len(x), weights.size))
    boxes, rates = _box_rates(x.shape, [users, *laws])
    one = _within(boxes, rates, x.size)
    some = np.ones_like(one)
    out = []
    for i, unions in zip(k, _unions(boxes, rates), strict=False):
        some *= one / i if i else 1.0
        out.append(_exactly(some @ weights, unions))
    return np.array(out) * np.asarray(factor)[:, None] * likelihood(x, known, priors)


def posterior_ibp(x, known, priors, max_components=16):
    """Posterior of (number of components, prediction) in the nonparametric model.

    Returns P with P[k, F] the probability of k components covering exactly the cells in bitmask
    F, conditional on k <= max_components; choose that so large that P[-1] is negligible.
    """
    joint = joint_ibp(x, known, priors, max_components)
    return joint / joint.sum()


def joint_finite(x, known, priors, n_components, density_rows=None):
    """Joint probability of (prediction, known data), not normalised; see `posterior_finite`."""
    x = np.asarray(x)
    if priors.density is None:
        densities = (density_rows, *(None,) * (x.ndim - 1))
    elif density_rows is None:
        raise ValueError("With fixed densities, density_rows must be given as well.")
    else:
        densities = (density_rows, *priors.density)
    laws, weights = _mode_laws(x.shape, priors, densities, n_components)
    boxes, rates = _box_rates(x.shape, laws)
    some = _within(boxes, rates, x.size) ** n_components
    unions = next(islice(_unions(boxes, rates), n_components, None))
    return _exactly(some @ weights, unions) * likelihood(x, known, priors)


def posterior_finite(x, known, priors, n_components, density_rows=None):
    """Posterior P[F] of the prediction with a fixed number of components.

    Every mode has Bernoulli entries. `density_rows` is the density of mode 0; None treats mode 0
    as the others: a learned density of its own under ``density_prior``, a draw of its own for
    each component under ``density_grid``.
    """
    joint = joint_finite(x, known, priors, n_components, density_rows)
    return joint / joint.sum()


def posterior_states(x, known, priors, max_components):
    """Posterior of whole states, conditional on at most `max_components` components.

    Matrices with fixed alpha and density. Returns a dict from the ``key`` of `canonical` to the
    probability of that multiset of components: the product of the rates of its components,
    divided by the factorials of the multiplicities, times the likelihood.
    """
    x = np.asarray(x)
    if x.ndim != 2 or priors.alpha is None or priors.density is None:
        raise ValueError("States are enumerated for matrices with fixed alpha and density.")
    n, d = x.shape
    (q,) = priors.density
    types = []
    for z in range(1, 1 << n):
        m = z.bit_count()
        rho = factorial(n - m) * factorial(m - 1) / factorial(n)
        for u in range(1 << d):
            rate = priors.alpha * rho * q ** u.bit_count() * (1 - q) ** (d - u.bit_count())
            box = sum(u << (d * i) for i in range(n) if z >> i & 1)
            types.append((z | u << n, rate, box))
    types.sort()
    given = likelihood(x, known, priors).tolist()
    states = {}
    for k in range(max_components + 1):
        for state in combinations_with_replacement(types, k):
            weight, covered, run = 1.0, 0, 1
            for _, rate, box in state:
                weight *= rate
                covered |= box
            for left, right in pairwise(state):
                run = run + 1 if left[0] == right[0] else 1
                weight /= run
            states[tuple(key for key, _, _ in state)] = weight * given[covered]
    total = sum(states.values())
    return {key: weight / total for key, weight in states.items()}
