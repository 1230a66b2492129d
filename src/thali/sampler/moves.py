"""Moves that change many rows of a component at once, and the number of components.

Row-by-row Gibbs locks onto states in which a component is split in two or one stands for a union
of others: to leave, hundreds of bits would have to change together. Here who uses a component is
proposed for all rows at once, and what is in the components concerned is summed out of the
acceptance ratio and drawn anew (eq. 17 to 22). Every move is a Metropolis-Hastings kernel that
leaves the posterior as it is.
"""

from __future__ import annotations

from functools import lru_cache
from math import lgamma, log
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit, logsumexp

from thali.bits.words import count_ones, pack, unpack
from thali.decide import SCALE, fixed
from thali.model.marginals import Marginal
from thali.streams import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.model import Noise
    from thali.sampler.state import State
    from thali.sampler.target import Target
    from thali.streams import Stream

_BLOCK = 128
"""Columns that may rule a move out before all are looked at."""


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
    uniforms = stream.uniforms(Site.SPLIT, 9, row=number).tolist()
    n, users, n_rows = state.n_components, state.factors[0].words, target.tensor.shape[0]
    is_split = uniforms[0] < 0.5
    if n < (1 if is_split else 2):
        return None
    first = _pick(uniforms[1], n)
    if is_split:
        old = [first]
        pair = _divide(stream, users[first], n_rows, uniforms[2:5], number)
    else:
        second = _pick(uniforms[2], n - 1)
        old = [first, second + (second >= first)]
        pair = users[old]
    both = pair[:1] & pair[1:]
    classes = np.concatenate([pair & ~both, both])
    only_first, only_second, shared = sizes = count_ones(classes).tolist()
    n_users = (only_first + shared, only_second + shared)
    if 0 in n_users:
        return None
    ratio = (
        log(state.alpha)
        + sum(_log_rate(m, n_rows) for m in n_users)
        - _log_rate(sum(sizes), n_rows)
        - _log_division(sizes)
        - log(n + is_split)
    )
    proposal = _Proposal(state, target, old, classes, [0b111], [0b101, 0b110])
    if not proposal.is_accepted(ratio, uniforms[6:], is_forward=is_split):
        return None
    after = pair if is_split else pair[:1] | pair[1:]
    draws = stream.uniforms(Site.SPLIT_CODES, target.tensor.shape[1], row=number)
    return proposal.carry_out(after, draws, is_forward=is_split)


def _divide(
    stream: Stream, users: Words, n_rows: int, uniforms: list[float], number: int
) -> Words:
    """Send every user to the first, the second or both, at rates drawn from Dirichlet(1, 1, 1)."""
    shares = [-log(u) for u in uniforms]
    to_first, to_second = shares[0] / sum(shares), (shares[0] + shares[1]) / sum(shares)
    rows = np.flatnonzero(unpack(users, n_rows))
    draws = stream.uniforms(Site.SPLIT_ROWS, len(rows), row=number)
    dense = np.zeros((2, n_rows), np.bool_)
    dense[0, rows] = (draws < to_first) | (draws >= to_second)
    dense[1, rows] = draws >= to_first
    return pack(dense)


def _log_division(sizes: list[int]) -> float:
    """Return the log probability of one division in classes of these sizes (eq. 18)."""
    return lgamma(3.0) + sum(lgamma(m + 1.0) for m in sizes) - lgamma(sum(sizes) + 3.0)


# --- guided birth and death (eq. 20 and 21) ----------------------------------------------------

_IN_A, _IN_B, _IN_C = 0b1010101, 0b1100110, 0b1111000
"""Classes of rows that use a component, of a, b, ab, c, ac, bc, abc in this order."""


def guided(stream: Stream, state: State, target: Target, number: int) -> State | None:
    """Add a component whose users follow those of two others, or delete one."""
    uniforms = stream.uniforms(Site.GUIDED, 11, row=number).tolist()
    n, users, n_rows = state.n_components, state.factors[0].words, target.tensor.shape[0]
    is_birth = uniforms[0] < 0.5
    if n < (1 if is_birth else 2):
        return None
    gone = n if is_birth else _pick(uniforms[3], n)
    n_small = n - (not is_birth)
    first, second = (_pick(u, n_small) for u in uniforms[1:3])
    first, second = first + (first >= gone), second + (second >= gone)
    a, b = users[first], users[second]
    neither = _everybody(n_rows) & ~(a | b)
    quarters = np.stack([neither, a & ~b, b & ~a, a & b])
    if is_birth:
        rates = np.array(uniforms[4:8])
        draws = stream.uniforms(Site.GUIDED_ROWS, n_rows, row=number)
        joins: NDArray[np.bool_] = unpack(quarters, n_rows) & (draws < rates[:, None])
        c = pack(np.logical_or.reduce(joins))
    else:
        c = users[gone]
    inside = quarters & c
    joined, sizes = count_ones(inside).tolist(), count_ones(quarters).tolist()
    if not any(joined):
        return None
    old = [first] if first == second else [first, second]
    members = [_IN_A] if first == second else [_IN_A, _IN_B]
    ratio = (
        log(state.alpha)
        + _log_rate(sum(joined), n_rows)
        - log(n_small + 1)
        - _log_guess(sizes, joined)
    )
    classes = np.concatenate([quarters[1:] & ~c, inside])
    concerned = old if is_birth else [*old, gone]
    proposal = _Proposal(state, target, concerned, classes, members, [*members, _IN_C])
    if not proposal.is_accepted(ratio, uniforms[8:], is_forward=is_birth):
        return None
    after = np.concatenate([users[old], c[None]]) if is_birth else users[old]
    draws = stream.uniforms(Site.GUIDED_CODES, target.tensor.shape[1], row=number)
    return proposal.carry_out(after, draws, is_forward=is_birth)


def _log_guess(sizes: list[int], joined: list[int]) -> float:
    """Return the log probability of a set of users with uniform rates in four classes (eq. 20)."""
    return sum(
        lgamma(k + 1.0) + lgamma(m - k + 1.0) - lgamma(m + 2.0)
        for m, k in zip(sizes, joined, strict=True)
    )


# --- residual birth and death (eq. 22) ---------------------------------------------------------


def residual(stream: Stream, state: State, target: Target, number: int) -> State | None:
    """Add a component that looks like what is left of a row, or delete any component."""
    uniforms = stream.uniforms(Site.RESIDUAL, 3, row=number).tolist()
    n, (users, codes) = state.n_components, state.factors
    n_rows, n_columns = target.tensor.shape
    is_birth = uniforms[0] < 0.5
    bit_odds = _bit_odds(state)
    if is_birth:
        rest = np.arange(n)
        seed = _pick(uniforms[1], n_rows)
        code = _code_like(stream, state, target, seed, bit_odds, number)
    else:
        if n == 0:
            return None
        gone = _pick(uniforms[1], n)
        rest = np.delete(np.arange(n), gone)
        code = codes.words[gone]
    classes = np.stack([code, pack(np.ones(n_columns, np.bool_)) & ~code])
    counts = target.engine.tally(0, (0, n_rows), codes.words[rest], users.take(rest), classes)
    # Entries of every row by what they are (free one, free zero, neither) inside and outside.
    sizes = count_ones(classes)
    neither = sizes - counts.sum(axis=2)
    kinds = np.concatenate([counts, neither[:, :, None]], axis=2)
    log_on, log_off = -np.logaddexp(0.0, -bit_odds), -np.logaddexp(0.0, bit_odds)
    log_code = kinds[:, 0] @ log_on + kinds[:, 1] @ log_off
    gains = counts[:, 0] @ _weights(state.noise)
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
        + _log_rate(int(joins.sum()), n_rows)
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


def _bit_odds(state: State) -> NDArray[np.float64]:
    """Return the log odds that a proposed code has a column: of a free one, zero, neither."""
    gains = np.concatenate([_weights(state.noise), [0.0]])
    return np.asarray(logit(state.densities[1]) + gains, np.float64)


def _code_like(
    stream: Stream,
    state: State,
    target: Target,
    seed: int,
    bit_odds: NDArray[np.float64],
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
    return pack(draws < expit(bit_odds)[kind])


# --- what all of them need ---------------------------------------------------------------------


def _pick(uniform: float, n: int) -> int:
    return min(int(uniform * n), n - 1)


@lru_cache(maxsize=16)
def _weights(noise: Noise) -> NDArray[np.float64]:
    """Return the weights of a one and a zero, rounded as in every other update."""
    return fixed(np.array(noise.weights())) / SCALE


@lru_cache(maxsize=16)
def _everybody(n_rows: int) -> Words:
    """Return the set of all rows."""
    return pack(np.ones(n_rows, np.bool_))


def _log_rate(size: int, n_rows: int) -> float:
    """Return log rho(m) of a component with m users (P1)."""
    return lgamma(n_rows - size + 1.0) + lgamma(float(size)) - lgamma(n_rows + 1.0)


class _Proposal:
    """A step between few and many components with the same rows, their codes summed out.

    Forward leads from ``few`` to ``many``; both are sets of classes of rows that use a component.
    """

    def __init__(
        self,
        state: State,
        target: Target,
        concerned: list[int],
        classes: Words,
        few: list[int],
        many: list[int],
    ) -> None:
        self.state = state
        self.target = target
        self.is_rest = np.ones(state.n_components, np.bool_)
        self.is_rest[concerned] = False
        self.classes = classes
        self.sides = (few, many)
        self.marginals: tuple[Marginal, Marginal] | None = None

    def is_accepted(self, ratio: float, uniforms: list[float], *, is_forward: bool) -> bool:
        """Decide, first by a block of columns, then by all (delayed acceptance).

        A step that a block rules out, as most are on large data, costs no more than the block.
        Both stages are accepted with their own ratio, whose product is the whole: exact
        (Christen & Fox 2005). The block does not depend on the state.
        """
        n_columns = self.target.tensor.shape[1]
        sign = 1.0 if is_forward else -1.0
        part = 0.0
        if n_columns > 2 * _BLOCK:
            start = _pick(uniforms[0], n_columns - _BLOCK + 1)
            part = self._gain((start, start + _BLOCK))
            if not log(uniforms[1]) < sign * part:
                return False
        whole = self._gain((0, n_columns))
        return log(uniforms[2]) < sign * (ratio + whole - part)

    def carry_out(self, users: Words, draws: NDArray[np.float64], *, is_forward: bool) -> State:
        """Return the state with the new users and with codes drawn given them."""
        assert self.marginals is not None
        return _replace(self.state, self.is_rest, users, self.marginals[is_forward].draw(draws))

    def _gain(self, columns: tuple[int, int]) -> float:
        """Return the log marginal likelihood of some columns, many over few."""
        users, codes = (factor.take(self.is_rest) for factor in self.state.factors)
        counts = self.target.engine.tally(1, columns, users.words, codes, self.classes)
        density = float(self.state.densities[1])
        w1, w0 = _weights(self.state.noise).tolist()
        few, many = (Marginal.of(counts, side, density, (w1, w0)) for side in self.sides)
        self.marginals = few, many
        return many.total() - few.total()


def _replace(
    state: State, rest: NDArray[np.intp] | NDArray[np.bool_], users: Words, codes: Words
) -> State:
    """Return the state with the components ``rest`` and new ones; covered is not updated."""
    kept = state.take(rest)
    return kept._replace(factors=(kept.factors[0].append(users), kept.factors[1].append(codes)))


_KINDS = {"split_merge": split_merge, "guided": guided, "residual": residual}
