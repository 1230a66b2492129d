"""Components, prepared for computing the memberships of new rows by one of two methods."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits import pack
from thali.decide import fixed
from thali.model import Noise
from thali.posterior.new_row_chain import sample_rows
from thali.posterior.new_row_enumeration import enumerate_rows
from thali.sites import Site
from thali.streams import Stream

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    from thali.bits import Index, Unfolding, Words
    from thali.posterior.new_rows import Components

    _Reals: TypeAlias = NDArray[np.float64]

METHODS = ("auto", "enumeration", "gibbs")

MOST_ENUMERATED = 14
"""Largest number of components for which all states are summed. With 14 components, this takes
0.4 ms per row, about as long as a chain; every further component doubles it."""

GIBBS_WARMUP = 100
GIBBS_SWEEPS = 1000
"""Sweeps of a row's chain before its conditional probabilities are averaged, and sweeps that are
averaged. With 12 components, the root mean square error was 0.006 if half of the memberships are
uncertain and 0.001 if few are; the largest error of all was 0.09."""

NOTHING = np.zeros((0, 0), np.uint64)


class Plan(NamedTuple):
    """Components, prepared for one of the two methods."""

    noise: Noise
    n_columns: int
    n_components: int
    classes: tuple[Index, Index, _Reals] | None  # None: a Gibbs chain
    codes: Words
    prior: NDArray[np.int64]
    numbers: tuple[NDArray[np.uint64] | Index, ...]  # random numbers and partners of the chain

    @classmethod
    def prepare(cls, components: Components, method: str) -> Plan:
        """Check the components, choose the method and lay out what it needs."""
        codes, odds, noise = components
        assert isinstance(noise, Noise)
        is_enumerated = choose_method(codes, odds, method)
        n_columns, n_components = codes.shape
        words = pack(np.ascontiguousarray(codes.T))
        if not is_enumerated:
            numbers = numbers_of_chain(codes)
            return cls(noise, n_columns, n_components, None, words, fixed(odds), numbers)
        # Columns in the same components are alike; the number of a class is that set.
        of_column, prior = states_of(codes, odds)
        classes = of_column, np.bincount(of_column, minlength=len(prior)), prior
        return cls(noise, n_columns, n_components, classes, words, fixed(odds), ())

    def infer(self, block: Unfolding, members: _Reals, reads: _Reals) -> None:
        """Fill in the probabilities of memberships; of reading one, too, if it has columns."""
        known = NOTHING if block.known is None else block.known
        if self.classes is not None:
            weights = self.noise.weights().pair()
            enumerate_rows(block.ones, known, *self.classes, *weights, members, reads)
        else:
            weights = self.noise.weights().fixed().of_one_class()[0]
            chain = (self.codes, self.prior, *weights, *self.numbers, GIBBS_WARMUP)
            sample_rows(block.ones, known, *chain, members, reads)
        reads[...] = self.noise.reads_one(reads)  # so far, the probability of being covered


def choose_method(codes: NDArray[np.bool_], odds: _Reals, method: str) -> bool:
    """Check the components, and return whether all states of a row are summed."""
    if method not in METHODS:
        msg = f"method={method!r} was given; allowed are {', '.join(map(repr, METHODS))}."
        raise ValueError(msg)
    if codes.ndim != 2 or odds.shape != codes.shape[1:] or not np.isfinite(odds).all():
        msg = (
            f"codes of shape {codes.shape} and odds of shape {odds.shape} were given; codes "
            "are (n_columns, n_components) and odds one finite number per component."
        )
        raise ValueError(msg)
    n_components = codes.shape[1]
    is_enumerated = n_components <= MOST_ENUMERATED if method == "auto" else method[0] == "e"
    if is_enumerated and n_components > 24:
        msg = (
            f"method='enumeration' was given for {n_components} components; it takes at most "
            "24, as it holds 2**n_components numbers; use method='gibbs'."
        )
        raise ValueError(msg)
    return is_enumerated


def states_of(codes: NDArray[np.bool_], odds: _Reals) -> tuple[Index, _Reals]:
    """Return the set of components of every column, and the log prior weight of every state.

    Sets and states are numbers whose bit l is component l.
    """
    of_column: Index = codes @ (1 << np.arange(codes.shape[1], dtype=np.int64))
    prior = np.zeros(1)
    for each in odds:
        prior = np.concatenate([prior, prior + each])
    return of_column, prior


def numbers_of_chain(
    codes: NDArray[np.bool_],
) -> tuple[NDArray[np.uint64], Index, NDArray[np.uint64]]:
    """Return random numbers for bits, partners of components, and random numbers for exchanges."""
    bits, choices, swaps = _numbers(codes.shape[1])
    return bits, _partners(codes, choices), swaps


@lru_cache(maxsize=8)
def _numbers(n_components: int, key: int = 0) -> tuple[NDArray[np.uint64], ...]:
    """Return the random numbers of a row's chain, which are the same for all rows and calls.

    They serve for bits, partners and exchanges, each ``(n_sweeps, n_components)``.
    """
    streams = [Stream(np.uint64(key), np.uint64(s)) for s in range(GIBBS_WARMUP + GIBBS_SWEEPS)]
    return tuple(
        np.array([stream.bits(Site.MEMBERSHIP, n_components, row) for stream in streams])
        for row in range(3)
    )


def _partners(codes: NDArray[np.bool_], numbers: NDArray[np.uint64]) -> Index:
    """Choose the partner with which each component may change places in every sweep.

    At least half of the choices are components with similar columns, which can replace it.
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
