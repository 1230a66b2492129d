"""Memberships of new rows in learned components of a matrix.

A row's posterior has ``2**n_components`` states: few enough to be summed exactly where there are
few components, a short Gibbs chain otherwise. In both ways the result for a row depends on its
entries alone: not on the other rows, their order, blocks or threads.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits import PackedTensor, Unfolding, pack, unpack
from thali.bits.words import n_words, set_bits
from thali.data import BinaryTensor, Entries, Packed, Pattern
from thali.decide import fixed
from thali.posterior.new_row_kernels import enumerate_rows, sample_rows
from thali.sites import Site
from thali.streams import Stream
from thali.threads import n_threads, parallel_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.model import Noise

    Rows: TypeAlias = BinaryTensor | PackedTensor | Unfolding
    _Reals: TypeAlias = NDArray[np.float64]

METHODS = ("auto", "enumeration", "gibbs")

MOST_ENUMERATED = 14
"""Components up to which all states are summed. At 14 that takes 0.4 ms a row, about as much as a
chain; every further component doubles it."""

GIBBS_WARMUP = 100
GIBBS_SWEEPS = 1000
"""Sweeps of a row's chain before its conditional probabilities count, and while they do. At 12
components the root mean square error was 0.006 where half of the memberships are uncertain and
0.001 where few are; the largest of all was 0.09."""

N_FOLDS = 5
"""Parts of the columns that are predicted from the others in a score."""

_BLOCK_ENTRIES = 1 << 21
"""Entries of a block of rows: 16 MB of probabilities."""

_NOTHING = np.zeros((0, 0), np.uint64)


class Components(NamedTuple):
    """What has been learned about a matrix, as far as a new row needs it."""

    codes: NDArray[np.bool_]  # (n_columns, n_components): the columns of each component
    odds: NDArray[np.float64]  # (n_components,): prior log odds that a new row has it
    noise: Noise


class LogScores(NamedTuple):
    """Log predictive probability of the known entries of each row, and how many they are."""

    total: NDArray[np.float64]
    n_known: NDArray[np.int64]


def memberships(
    rows: Rows, components: Components, *, method: str = "auto", threads: int | None = None
) -> NDArray[np.float64]:
    """Compute the probability that each row has each component.

    Parameters
    ----------
    rows
        A matrix of as many columns as the components have. An unfolding (packed rows) may also
        be without any known entry.
    components
        What has been learned.
    method
        ``"enumeration"`` of all states is exact, ``"gibbs"`` has an error of about 0.01 where a
        row leaves it open which components it has; ``"auto"`` enumerates up to 14 components.
    threads
        How many; by default the cores this process may use. They do not change the result.

    Returns
    -------
    memberships
        ``(n_rows, n_components)``; a row without known entries gets the prior.

    Notes
    -----
    The posterior of a row's memberships z is proportional to the exponential of ``z @ odds`` plus
    the weights (eq. 4) of all known entries in columns that a component of z has.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.data import BinaryTensor
    >>> from thali.model import Noise
    >>> codes = np.array([[True, False], [True, False], [False, True], [False, True]])
    >>> components = Components(codes, np.zeros(2), Noise(0.1, 0.1))
    >>> new = BinaryTensor.from_any([[1, 1, 0, 0], [1, 1, None, None]])
    >>> memberships(new, components).round(3)
    array([[0.988, 0.012],
           [0.988, 0.5  ]])
    """
    plan = _Plan.prepare(components, method)
    out = np.empty((_n_rows(rows, plan), plan.n_components))

    def fill(lo: int, hi: int) -> None:
        plan.infer(_block(rows, lo, hi), out[lo:hi], np.empty((hi - lo, 0)))

    _share(fill, len(out), plan, threads)
    return out


def predictive(
    rows: Rows, components: Components, *, method: str = "auto", threads: int | None = None
) -> NDArray[np.float64]:
    """Compute the probability that each entry of each row reads one, were it read anew.

    For an unknown entry this is what the known ones say about it. Parameters as for
    :func:`memberships`.

    Returns
    -------
    probabilities
        ``(n_rows, n_columns)``, between the rate of spurious ones and one minus that of dropped
        ones.

    Notes
    -----
    ``spurious + P(covered) * (1 - dropped - spurious)``.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.data import BinaryTensor
    >>> from thali.model import Noise
    >>> codes = np.ones((4, 1), bool)
    >>> components = Components(codes, np.zeros(1), Noise(0.1, 0.2))
    >>> predictive(BinaryTensor.from_any([[1, 1, 1, None]]), components).round(3)
    array([[0.799, 0.799, 0.799, 0.799]])
    """
    plan = _Plan.prepare(components, method)
    out = np.empty((_n_rows(rows, plan), plan.n_columns))

    def fill(lo: int, hi: int) -> None:
        part = out[lo:hi]
        plan.infer(_block(rows, lo, hi), np.empty((hi - lo, plan.n_components)), part)
        plan.observe(part)

    _share(fill, len(out), plan, threads)
    return out


def log_scores(
    rows: Rows, components: Components, *, method: str = "auto", threads: int | None = None
) -> LogScores:
    """Score how well every known entry is predicted from other entries of its row.

    Column d belongs to part ``d % 5``. The entries of a part are predicted from the known
    entries of the other parts, never from themselves, so that more components are no advantage
    in themselves. Parameters as for :func:`memberships`.

    Returns
    -------
    scores
        For every row the sum of the log probabilities, and the number of known entries.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.data import BinaryTensor
    >>> from thali.model import Noise
    >>> components = Components(np.ones((4, 1), bool), np.zeros(1), Noise(0.1, 0.1))
    >>> total, n_known = log_scores(BinaryTensor.from_any([[1, 1, 1, None]]), components)
    >>> (total / n_known).round(3), n_known
    (array([-0.116]), array([3]))
    """
    plan = _Plan.prepare(components, method)
    n_rows = _n_rows(rows, plan)
    scores = LogScores(np.zeros(n_rows), np.zeros(n_rows, np.int64))
    parts = [pack(np.arange(plan.n_columns) % N_FOLDS == f) for f in range(N_FOLDS)]

    def fill(lo: int, hi: int) -> None:
        ones, known = _block(rows, lo, hi)
        if known is None:
            known = np.repeat(pack(np.ones((1, plan.n_columns), np.bool_)), hi - lo, axis=0)
        is_one, is_known = unpack(ones, plan.n_columns), unpack(known, plan.n_columns)
        scores.n_known[lo:hi] = is_known.sum(axis=1)
        covered = np.empty((hi - lo, plan.n_columns))
        for fold, part in enumerate(parts[: plan.n_columns]):
            given = Unfolding(ones & ~part, known & ~part)
            plan.infer(given, np.empty((hi - lo, plan.n_components)), covered)
            chance = covered[:, fold::N_FOLDS]
            plan.observe(chance)
            hit = np.where(is_one[:, fold::N_FOLDS], chance, 1.0 - chance)
            logs = np.log(hit, where=is_known[:, fold::N_FOLDS], out=np.zeros_like(hit))
            scores.total[lo:hi] += logs.sum(axis=1)

    _share(fill, n_rows, plan, threads)
    return scores


# --- how work is laid out -------------------------------------------------------------------


class _Plan(NamedTuple):
    """Components, prepared for one of the two methods."""

    noise: Noise
    n_columns: int
    n_components: int
    classes: tuple[Index, Index, _Reals] | None  # None: a Gibbs chain
    codes: Words
    prior: NDArray[np.int64]
    numbers: tuple[NDArray[np.uint64] | Index, ...]  # of the chain

    @classmethod
    def prepare(cls, components: Components, method: str) -> _Plan:
        codes, odds, noise = components
        if method not in METHODS:
            msg = f"method={method!r} was given; allowed are {', '.join(map(repr, METHODS))}."
            raise ValueError(msg)
        if codes.ndim != 2 or odds.shape != codes.shape[1:] or not np.isfinite(odds).all():
            msg = (
                f"codes of shape {codes.shape} and odds of shape {odds.shape} were given; codes "
                "are (n_columns, n_components) and odds one finite number a component."
            )
            raise ValueError(msg)
        n_columns, n_components = codes.shape
        is_enumerated = n_components <= MOST_ENUMERATED if method == "auto" else method[0] == "e"
        if is_enumerated and n_components > 24:
            msg = (
                f"method='enumeration' was given for {n_components} components; it takes at most "
                "24, as it holds 2**n_components numbers; use method='gibbs'."
            )
            raise ValueError(msg)
        words = pack(np.ascontiguousarray(codes.T))
        if not is_enumerated:
            bits, choices, swaps = _numbers(n_components)
            numbers = bits, _partners(codes, choices), swaps
            return cls(noise, n_columns, n_components, None, words, fixed(odds), numbers)
        # Columns with the same components are alike: class p is the set of them.
        of_column = codes @ (1 << np.arange(n_components, dtype=np.int64))
        prior = np.zeros(1)
        for each in odds:
            prior = np.concatenate([prior, prior + each])
        classes = of_column, np.bincount(of_column, minlength=len(prior)), prior
        return cls(noise, n_columns, n_components, classes, words, fixed(odds), ())

    def infer(self, block: Unfolding, members: _Reals, covered: _Reals) -> None:
        """Fill in the probabilities of memberships and, where there is room, of coverage."""
        known = _NOTHING if block.known is None else block.known
        if self.classes is not None:
            weights = self.noise.weights().pair()
            enumerate_rows(block.ones, known, *self.classes, *weights, members, covered)
        else:
            weights = self.noise.weights().fixed().of_one_class()[0]
            chain = (self.codes, self.prior, *weights, *self.numbers, GIBBS_WARMUP)
            sample_rows(block.ones, known, *chain, members, covered)

    def observe(self, covered: _Reals) -> None:
        """Turn probabilities of coverage into those of reading one, in place."""
        covered[...] = self.noise.reads_one(covered)


@lru_cache(maxsize=8)
def _numbers(n_components: int, key: int = 0) -> tuple[NDArray[np.uint64], ...]:
    """Read the random numbers of a row's chain: the same for all rows, and always.

    They are for bits, partners and exchanges, each ``(n_sweeps, n_components)``.
    """
    streams = [Stream(np.uint64(key), np.uint64(s)) for s in range(GIBBS_WARMUP + GIBBS_SWEEPS)]
    return tuple(
        np.array([stream.bits(Site.MEMBERSHIP, n_components, row) for stream in streams])
        for row in range(3)
    )


def _partners(codes: NDArray[np.bool_], numbers: NDArray[np.uint64]) -> Index:
    """Choose with whom each component tries to exchange its rows in every sweep.

    Half of the choices or more go to components with similar columns, which may take its place.
    """
    n_components = codes.shape[1]
    sizes = codes.sum(axis=0)
    shared = codes.T.astype(np.float64) @ codes
    similar = shared / np.maximum(sizes[:, None] + sizes - shared, 1.0)  # Jaccard
    weights = similar**2 + 1.0 / max(1, n_components)
    np.fill_diagonal(weights, 0.0)
    cumulative = weights.cumsum(axis=1)
    partners = np.zeros(numbers.shape, np.int64)
    for component, line in enumerate(cumulative):
        chosen = np.ldexp(numbers[:, component].astype(np.float64), -64) * line[-1]
        partners[:, component] = np.searchsorted(line, chosen, side="right")
    return np.minimum(partners, max(0, n_components - 1))


def _n_rows(rows: Rows, plan: _Plan) -> int:
    """Return how many rows there are, or say that they do not fit."""
    if isinstance(rows, Unfolding):
        if rows.ones.shape[1] == n_words(plan.n_columns):
            return len(rows.ones)
        given = f"packed rows of {rows.ones.shape[1]} words"
    else:
        if len(rows.shape) == 2 and rows.shape[1] == plan.n_columns:
            return rows.shape[0]
        given = f"a tensor of shape {rows.shape}"
    msg = (
        f"{given} was given for components of {plan.n_columns} columns; give a matrix with the "
        "columns that the components were learned from."
    )
    raise ValueError(msg)


def _block(rows: Rows, lo: int, hi: int) -> Unfolding:
    """Pack some rows, or select them where they are packed."""
    if isinstance(rows, BinaryTensor):
        ones = _pack_rows(rows.ones, lo, hi)
        if rows.unknown is None:
            return Unfolding(ones, None)
        # Padding must not count as known.
        every = pack(np.ones(rows.shape[1], np.bool_))
        return Unfolding(ones, ~_pack_rows(rows.unknown, lo, hi) & every)
    ones, known = rows.unfoldings[0] if isinstance(rows, PackedTensor) else rows
    return Unfolding(ones[lo:hi], None if known is None else known[lo:hi])


def _pack_rows(bits: Entries, lo: int, hi: int) -> Words:
    if isinstance(bits, Packed):
        return bits.words[lo:hi]
    if not isinstance(bits, Pattern):
        return pack(bits[lo:hi])
    words = np.zeros((hi - lo, n_words(bits.shape[1])), np.uint64)
    set_bits(words, 0, bits.indptr[lo : hi + 1], bits.indices)
    return words


def _share(
    fill: Callable[[int, int], None], n_rows: int, plan: _Plan, threads: int | None
) -> None:
    """Do all rows on threads, each of which does a block at a time."""
    step = max(1, _BLOCK_ENTRIES // max(1, plan.n_columns))

    def some_rows(lo: int, hi: int) -> None:
        for start in range(lo, hi, step):
            fill(start, min(start + step, hi))

    parallel_for(some_rows, n_rows, n_threads(threads))
