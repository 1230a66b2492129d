"""Moves that change many rows of a component at once, and the number of components.

Row-by-row Gibbs locks onto states in which a component is split in two or one stands for a union
of others: to leave, hundreds of bits would have to change together. Here who uses a component is
proposed for all rows at once, and what is in the components concerned is summed out of the
acceptance ratio and drawn anew (eq. 17 to 22). Every move is a Metropolis-Hastings kernel of the
exact posterior.
"""

from __future__ import annotations

from math import lgamma, log
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, gammaln, logit, logsumexp

from thali.bits.words import count_ones, pack, unpack
from thali.decide import SCALE, fixed
from thali.model.marginals import Marginal
from thali.streams import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index, Words
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream


def move(
    stream: Stream, state: State, target: Target
) -> tuple[State, tuple[tuple[int, int], ...]]:
    """Try every kind of move as often as the schedule says; count what was tried and accepted."""
    told = []
    for name, kind in _KINDS.items():
        n_tries, accepted = getattr(target.schedule, name), 0
        for number in range(n_tries):
            after = kind(stream, state, target, number)
            if after is not None:
                state, accepted = after, accepted + 1
        told.append((n_tries, accepted))
    if any(accepted for _, accepted in told):
        state = target.recount(state)
    return state, tuple(told)


# --- split and merge (eq. 17 to 19) ------------------------------------------------------------


def split_merge(stream: Stream, state: State, target: Target, number: int) -> State | None:
    """Split a component's users in two, or unite those of two components."""
    uniforms = stream.uniforms(Site.SPLIT, 7, row=number)
    n, users = state.n_components, state.factors[0].words
    is_split = uniforms[0] < 0.5
    if n < (1 if is_split else 2):
        return None
    if is_split:
        old = [_pick(uniforms[1], n)]
        pair = _divide(stream, users[old[0]], target.tensor.shape[0], uniforms[3:6], number)
    else:
        first = _pick(uniforms[1], n)
        second = _pick(uniforms[2], n - 1)
        old = [first, second + (second >= first)]
        pair = users[old]
    sizes = count_ones(pair)
    if not sizes.all():
        return None
    whole = pair[:1] | pair[1:]
    only_first, only_second, both = pair[0] & ~pair[1], pair[1] & ~pair[0], pair[0] & pair[1]
    rest = np.delete(np.arange(n), old)
    classes = np.stack([only_first, only_second, both])
    counts = _counts(state, target, rest, classes)
    two = _marginal(state, counts, [0b101, 0b110])
    one = _marginal(state, counts, [0b111])
    n_rows, n_small = target.tensor.shape[0], n if is_split else n - 1
    ratio = (
        log(state.alpha)
        + _log_rate(sizes, n_rows)
        - _log_rate(count_ones(whole), n_rows)
        + two.total()
        - one.total()
        - _log_division(count_ones(classes))
        - log(n_small + 1)
    )
    if not log(uniforms[6]) < (ratio if is_split else -ratio):
        return None
    after, marginal = (pair, two) if is_split else (whole, one)
    codes = marginal.draw(stream.uniforms(Site.SPLIT_CODES, len(counts), row=number))
    return _replace(state, rest, after, codes)


def _divide(
    stream: Stream, users: Words, n_rows: int, uniforms: NDArray[np.float64], number: int
) -> Words:
    """Send every user to the first, the second or both, at rates drawn from Dirichlet(1, 1, 1)."""
    shares = -np.log(uniforms)
    edges = np.cumsum(shares / shares.sum())
    rows = np.flatnonzero(unpack(users, n_rows))
    draws = stream.uniforms(Site.SPLIT_ROWS, len(rows), row=number)
    dense = np.zeros((2, n_rows), np.bool_)
    dense[0, rows] = (draws < edges[0]) | (draws >= edges[1])
    dense[1, rows] = draws >= edges[0]
    return pack(dense)


def _log_division(sizes: Index) -> float:
    """Return the log probability of one division in classes of these sizes (eq. 18)."""
    return lgamma(3.0) + float(gammaln(sizes + 1.0).sum()) - lgamma(float(sizes.sum()) + 3.0)


# --- guided birth and death (eq. 20 and 21) ----------------------------------------------------


def guided(stream: Stream, state: State, target: Target, number: int) -> State | None:
    """Add a component whose users follow those of two others, or delete one."""
    uniforms = stream.uniforms(Site.GUIDED, 9, row=number)
    n, users = state.n_components, state.factors[0].words
    n_rows = target.tensor.shape[0]
    is_birth = uniforms[0] < 0.5
    if n < (1 if is_birth else 2):
        return None
    if is_birth:
        gone: list[int] = []
        first, second = _pick(uniforms[1], n), _pick(uniforms[2], n)
    else:
        gone = [_pick(uniforms[3], n)]
        others = np.delete(np.arange(n), gone)
        first, second = (int(others[_pick(u, n - 1)]) for u in uniforms[1:3])
    a, b = users[first], users[second]
    everybody = pack(np.ones(n_rows, np.bool_))
    quarters = np.stack([everybody & ~a & ~b, a & ~b, b & ~a, a & b])
    if is_birth:
        dense = np.zeros(n_rows, np.bool_)
        draws = stream.uniforms(Site.GUIDED_ROWS, n_rows, row=number)
        for quarter, rate in zip(unpack(quarters, n_rows), uniforms[4:8], strict=True):
            dense |= quarter & (draws < rate)
        c = pack(dense)
    else:
        c = users[gone[0]]
    size = count_ones(c[None])
    if not size[0]:
        return None
    references = [first] if first == second else [first, second]
    rest = np.delete(np.arange(n), [*references, *gone])
    # Classes of rows by (a, b, c), without those that use none of them.
    inside, outside = quarters & c, quarters & ~c
    classes = np.concatenate([outside[1:], inside])
    counts = _counts(state, target, rest, classes)
    in_a, in_b, in_c = 0b1010101, 0b1100110, 0b1111000  # of a, b, ab, c, ac, bc, abc
    members = [in_a] if first == second else [in_a, in_b]
    without = _marginal(state, counts, members)
    with_c = _marginal(state, counts, [*members, in_c])
    n_small = n if is_birth else n - 1
    ratio = (
        log(state.alpha)
        + _log_rate(size, n_rows)
        - log(n_small + 1)
        + with_c.total()
        - without.total()
        - _log_guess(count_ones(quarters), count_ones(inside))
    )
    if not log(uniforms[8]) < (ratio if is_birth else -ratio):
        return None
    after = users[references]
    if is_birth:
        after = np.concatenate([after, c[None]])
    marginal = with_c if is_birth else without
    codes = marginal.draw(stream.uniforms(Site.GUIDED_CODES, len(counts), row=number))
    return _replace(state, rest, after, codes)


def _log_guess(sizes: Index, joined: Index) -> float:
    """Return the log probability of a set of users with uniform rates in four classes (eq. 20)."""
    terms = gammaln(joined + 1.0) + gammaln(sizes - joined + 1.0) - gammaln(sizes + 2.0)
    return float(terms.sum())


# --- residual birth and death (eq. 22) ---------------------------------------------------------


def residual(stream: Stream, state: State, target: Target, number: int) -> State | None:
    """Add a component that looks like what is left of a row, or delete any component."""
    uniforms = stream.uniforms(Site.RESIDUAL, 3, row=number)
    n, (users, codes) = state.n_components, state.factors
    n_rows, n_columns = target.tensor.shape
    is_birth = uniforms[0] < 0.5
    if is_birth:
        rest = np.arange(n)
        seed = _pick(uniforms[1], n_rows)
        chances = _chances(state)
        code = _code_like(stream, state, target, seed, chances, number)
    else:
        if n == 0:
            return None
        gone = _pick(uniforms[1], n)
        rest = np.delete(np.arange(n), gone)
        chances = _chances(state)
        code = codes.words[gone]
    classes = np.stack([code, pack(np.ones(n_columns, np.bool_)) & ~code])
    counts = target.engine.tally(0, codes.words[rest], users.take(rest), classes)
    # Entries of every row by what they are (free one, free zero, neither) inside and outside.
    sizes = count_ones(classes)
    neither = sizes - counts.sum(axis=2)
    kinds = np.concatenate([counts, neither[:, :, None]], axis=2)
    log_code = kinds[:, 0] @ np.log(chances) + kinds[:, 1] @ np.log1p(-chances)
    gains = counts[:, 0] @ _weights(state)
    odds = logit(min(0.5, 2.0 / n_rows)) + gains
    if is_birth:
        joins = stream.uniforms(Site.RESIDUAL_ROWS, n_rows, row=number) < expit(odds)
    else:
        joins = unpack(users.words[gone], n_rows)
    if not joins.any():
        return None
    log_proposal = logsumexp(log_code) - log(n_rows)
    log_proposal -= np.logaddexp(0.0, np.where(joins, -odds, odds)).sum()
    density = float(state.densities[1])
    n_small = n if is_birth else n - 1
    ratio = (
        log(state.alpha)
        + _log_rate(np.array([joins.sum()]), n_rows)
        + sizes[0] * log(density)
        + sizes[1] * log(1.0 - density)
        + float(gains[joins].sum())
        - log(n_small + 1)
        - float(log_proposal)
    )
    if not log(uniforms[2]) < (ratio if is_birth else -ratio):
        return None
    if is_birth:
        return _replace(state, rest, pack(joins)[None], code[None])
    return state.take(rest)


def _chances(state: State) -> NDArray[np.float64]:
    """Return the probability that a proposed code has a column: of a free one, zero, neither."""
    gains = np.concatenate([_weights(state), [0.0]])
    return np.asarray(expit(logit(state.densities[1]) + gains), np.float64)


def _code_like(
    stream: Stream,
    state: State,
    target: Target,
    seed: int,
    chances: NDArray[np.float64],
    number: int,
) -> Words:
    """Draw a code from what no component covers in the seed row."""
    n_columns = target.tensor.shape[1]
    ones, known = target.tensor.unfoldings[0]
    users, codes = state.factors
    on = unpack(users.words, users.n_rows)[:, seed]
    covered = np.bitwise_or.reduce(codes.words[on], axis=0, initial=np.uint64(0))
    free = ~covered if known is None else known[seed] & ~covered
    is_free, is_one = unpack(free, n_columns), unpack(ones[seed], n_columns)
    kind = np.where(is_free, np.where(is_one, 0, 1), 2)
    draws = stream.uniforms(Site.RESIDUAL_CODES, n_columns, row=number)
    return pack(draws < chances[kind])


# --- what all of them need ---------------------------------------------------------------------


def _pick(uniform: float, n: int) -> int:
    return min(int(uniform * n), n - 1)


def _weights(state: State) -> NDArray[np.float64]:
    """Return the weights of a one and a zero, rounded as in every other update."""
    return fixed(np.array(state.noise.weights())) / SCALE


def _log_rate(sizes: Index, n_rows: int) -> float:
    """Return the sum of log rho(m) over components of these sizes (P1)."""
    terms = gammaln(n_rows - sizes + 1.0) + gammaln(sizes)
    return float(terms.sum()) - len(sizes) * lgamma(n_rows + 1.0)


def _counts(state: State, target: Target, rest: NDArray[np.intp], classes: Words) -> Index:
    """Count the free entries of every column by class of rows, if only ``rest`` covered any."""
    users, codes = state.factors
    return target.engine.tally(1, users.words[rest], codes.take(rest), classes)


def _marginal(state: State, counts: Index, members: list[int]) -> Marginal:
    w1, w0 = _weights(state)
    return Marginal.of(counts, members, float(state.densities[1]), (float(w1), float(w0)))


def _replace(state: State, rest: NDArray[np.intp], users: Words, codes: Words) -> State:
    """Return the state with the components ``rest`` and new ones; covered is not updated."""
    kept = state.take(rest)
    return kept._replace(factors=(kept.factors[0].append(users), kept.factors[1].append(codes)))


_KINDS = {"split_merge": split_merge, "guided": guided, "residual": residual}
