"""Fewest wrong entries at a fixed number of components: the finite model at zero temperature.

With equal error rates and density 1/2, the log density of a state of the finite model is minus
its number of wrong known entries, times the log odds of a right one, plus a constant. As the rate
goes to zero, Gibbs sweeps become coordinate descent: every bit takes the value with fewer wrong
entries, and a coin decides between equals. Those sweeps are the sampler's own; what is added is a
move that they cannot make: drop a component, and build another from what is then uncovered.
Cycles in which a wrongly covered entry costs more (a dropped one being rarer than a spurious one)
lead out of minima full of false positives; the next cycle counts all errors alike again.

A minimiser, not a sampler of the posterior: moves are not reversible.
"""

from __future__ import annotations

from math import exp
from time import process_time
from typing import NamedTuple

import numba
import numpy as np

from thali.bits import Factor
from thali.bits.words import popcount, transpose
from thali.engines.cpu.horizontal import cover_row, read_row
from thali.model import Model, Noise
from thali.sampler import Target
from thali.sampler.step import update_mode
from thali.sites import Site
from thali.streams import Stream, chain_key

COLD = 30.0  # log odds of a right entry: none loses against the coin
SWEEPS = 3  # of descent after a swap; what is left to gain, later ones will
COOL = 0.005  # last temperature of every cycle of annealing, in ones a component
# Cost of a wrongly covered entry and first temperature of each cycle. Many components want it
# cool, few of them hot.
CYCLES = ((20, 0.03), (1, 0.03), (3, 0.1), (1, 0.1))
DROPPED = (1, 1, 2)  # components that a swap replaces, one of these numbers
STARTS = 4  # rows, and columns, that a new component is grown from


class Found(NamedTuple):
    """A state and what it took."""

    state: object
    error: int
    swaps: int


def cold_target(tensor, n_components):
    """Return the finite model whose Gibbs sweeps at no noise are coordinate descent."""
    return Target.prepare(tensor, Model(n_components, "equal", density=0.5), threads=1)


def loss(state, target, cost):
    """Count the wrong known entries of a state, those wrongly covered at a cost."""
    tp, fp = state.covered
    return target.totals.n_ones - tp + cost * fp


def n_wrong(state, target):
    """Count the wrong known entries of a state."""
    return loss(state, target, 1)


def greedy(target, seed=0):
    """Return a state grown from nothing, one component after another."""
    nothing = [np.zeros((n, target.model.n_components), np.bool_) for n in target.shape]
    state = target.initial(chain_key(seed), nothing)
    return swap(np.random.default_rng(seed), state, target, CYCLES[0][0])


def search(target, state, seconds, seed=0):
    """Swap components and descend, for seconds of one core; return the best state visited.

    Worse states are accepted as in annealing: with a chance that falls with their loss and
    with time.
    """
    chain, rng = chain_key(seed), np.random.default_rng(seed)
    scale = target.totals.n_ones / state.n_components
    best, least = state, n_wrong(state, target)
    start, swaps = process_time(), 0
    while least > 0 and (spent := process_time() - start) < seconds:
        cycle, phase = divmod(spent / seconds * len(CYCLES), 1.0)
        cost, hot = CYCLES[int(cycle)]
        state = state._replace(noise=Noise(exp(-COLD), exp(-COLD * cost)))
        temperature = scale * hot * (COOL / hot) ** phase
        swaps += 1
        key = Stream(chain, np.uint64(swaps)).bits(Site.SEARCH, 1)[0]  # numbers of this swap alone
        tried = swap(rng, state, target, cost)._replace(sweep=0)
        for _ in range(SWEEPS):
            before = tried.covered
            tried = descend(key, tried, target)
            if tried.covered == before:
                break
        limit = loss(state, target, cost) + temperature * rng.exponential()
        if loss(tried, target, cost) <= limit:
            state = tried
            if n_wrong(state, target) < least:
                best, least = state, n_wrong(state, target)
    return Found(best, least, swaps)


def descend(key, state, target):
    """Do one sweep of coordinate descent."""
    stream = Stream(key, np.uint64(state.sweep))
    for mode in range(2):
        state = update_mode(stream, state, target, mode)
    return state._replace(sweep=state.sweep + 1)


def swap(rng, state, target, cost):
    """Drop some components; grow as many, one after another, from what is then uncovered."""
    sizes = state.factors[0].sizes()
    n_dropped = min(int(rng.choice(DROPPED)), len(sizes))
    empty = np.flatnonzero(sizes == 0)
    chosen = empty if len(empty) else rng.choice(len(sizes), n_dropped, replace=False)
    words = [factor.words.copy() for factor in state.factors]
    for side in words:
        side[chosen] = 0
    for component in chosen:
        for side, line in zip(words, grown(rng, target.engine.tensor, *words, cost), strict=True):
            side[component] = line
    factors = tuple(Factor(w, f.n_rows) for f, w in zip(state.factors, words, strict=True))
    return target.recount(state._replace(factors=factors))


def grown(rng, tensor, users, codes, cost):
    """Return the best new component, grown from a few rows and a few columns."""
    ones = [unfolding.ones for unfolding in tensor.unfoldings]
    free = uncovered(tensor, users, codes)
    found = []
    for mode, other in ((0, 1), (1, 0)):
        lines = np.flatnonzero((ones[mode] & free[mode]).any(axis=1))
        if len(lines) == 0:
            return np.zeros_like(users[0]), np.zeros_like(codes[0])
        starts = rng.choice(lines, (rng.integers(1, STARTS + 1), 2))
        starts[::2, 1] = starts[::2, 0]  # every other from a single line
        members, code, gain = grow(ones[mode], free[mode], ones[other], free[other], starts, cost)
        found.append((gain, (members, code) if mode == 0 else (code, members)))
    return max(found, key=lambda part: part[0])[1]


def uncovered(tensor, users, codes):
    """Return the known entries that no component covers, packed by row and by column."""
    first = tensor.unfoldings[0]
    known = first.known
    if known is None:
        known = Factor.from_dense(np.ones((tensor.shape[1], 1), np.bool_)).words
        known = np.repeat(known, tensor.shape[0], axis=0)
    free = uncovered_rows(known, users, codes)
    return free, transpose(free, tensor.shape[1])


@numba.njit(nogil=True)
def uncovered_rows(known, users, codes):
    """Return the known entries of every row that none of its components covers."""
    free = np.empty_like(known)
    active = np.empty(len(codes), np.bool_)
    once, twice = np.empty_like(known[0]), np.empty_like(known[0])
    for row in range(len(known)):
        read_row(users, row, active)
        cover_row(known, row, codes, active, once, twice)  # unknown entries count as covered
        free[row] = ~once
    return free


@numba.njit(nogil=True)
def grow(ones, free, across_ones, across_free, starts, cost):
    """Fit a component to the free entries, from what two rows share; return the best of starts.

    Users and code in turn take the best value given the other, until nothing is gained.
    """
    best_users, best_code, best = np.zeros_like(across_ones[0]), np.zeros_like(ones[0]), 0
    for i in range(len(starts)):
        first, second = starts[i]
        code = ones[first] & free[first]
        shared = code & ones[second] & free[second]
        if shared.any():
            code = shared
        before = 0
        users, gain = join(ones, free, code, cost)
        while gain > before:
            before = gain
            code, _ = join(across_ones, across_free, users, cost)
            users, gain = join(ones, free, code, cost)
        if gain > best:
            best_users, best_code, best = users, code, gain
    return best_users, best_code, best


@numba.njit(nogil=True)
def join(ones, free, code, cost):
    """Return the rows with more free ones than free zeros in a code, and by how many in all."""
    users = np.zeros((len(ones) + 63) >> 6, np.uint64)
    total = 0
    for row in range(len(ones)):
        gain = 0
        for w in range(len(code)):
            entries = free[row, w] & code[w]
            gain += np.int64(popcount(entries & ones[row, w]))
            gain -= cost * np.int64(popcount(entries & ~ones[row, w]))
        if gain > 0:
            users[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
            total += gain
    return users, total
