# Compiled code: Numba checks the types, and has no keyword arguments; hence these settings.
# mypy: disable-error-code="assignment, arg-type, call-overload, no-any-return, return-value"
"""How many components matter: those without which some entry would be predicted differently.

A component does not matter if other components cover all of its entries, known or not. Of two
that are equal, one matters: components are left out one after another, those that cover the fewest
entries first, as long as nothing else changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from thali._jit import inner, jit
from thali.bits import khatri_rao

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Factor, Index, Words
    from thali.posterior.draws import Draws

_WORK = 1 << 30
"""Number of words of factors that are looked at; of longer runs, only every so many draws are."""

_ZERO, _ONE = np.uint64(0), np.uint64(1)


def numbers_that_matter(draws: Draws) -> NDArray[np.int64]:
    """Return how many components matter in the draws, ``(n_chains, n_draws)``.

    If all draws together have more than about a billion words of 64 entries, only every second,
    third, … draw of each chain is looked at, and the second length is shorter.
    """
    step = _step(draws)
    chosen = range(0, draws.n_draws, step)
    return np.array(
        [
            [that_matter(draws.draw(chain, i).state.factors).sum() for i in chosen]
            for chain in range(draws.n_chains)
        ],
        np.int64,
    ).reshape(draws.n_chains, len(chosen))


def that_matter(factors: Sequence[Factor]) -> NDArray[np.bool_]:
    """Return which components of a draw matter.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.bits import Factor
    >>> users = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]], bool)
    >>> codes = np.array([[1, 0, 1], [1, 1, 0]], bool)
    >>> that_matter([Factor.from_dense(users), Factor.from_dense(codes)]).tolist()
    [True, False, True]
    """
    users, codes = factors[0], khatri_rao(factors, 0)
    sizes = users.sizes() * codes.sizes()
    # Ties are resolved by content, so that the numbering of components does not matter.
    order = sorted(
        range(len(sizes)),
        key=lambda k: (sizes[k], users.words[k].tobytes(), codes.words[k].tobytes()),
    )
    # Lines of one side are looked at one by one, those of the other as packed words.
    n_users, n_codes = users.words.shape[1], codes.words.shape[1]
    sides = (users.words, codes.words) if n_users < n_codes else (codes.words, users.words)
    needed: NDArray[np.bool_] = _needed(*sides, np.array(order, np.int64))
    return needed


def _step(draws: Draws) -> int:
    shape = draws.shape
    n_words = sum(-(-n // 64) for n in (shape[0], int(np.prod(shape[1:]))))
    return max(1, -(-int(draws.n_components.sum()) * n_words // _WORK))


@jit
def _needed(outer: Words, inner: Words, order: Index) -> NDArray[np.bool_]:
    """Leave out components that change nothing, in this order; return which are left."""
    n = outer.shape[0]
    is_left = np.ones(n, np.bool_)
    beside = np.empty(n, np.int64)
    for k in order:
        is_left[k] = False
        is_left[k] = _adds(outer, inner, k, is_left, beside)
    return is_left


@inner
def _adds(outer: Words, inner: Words, k: int, is_left: NDArray[np.bool_], beside: Index) -> bool:
    """Return whether component ``k`` covers an entry that no other component left covers."""
    for w in range(outer.shape[1]):
        lines = outer[k, w]
        while lines != _ZERO:
            line = lines & (~lines + _ONE)  # the lowest
            lines ^= line
            n_beside = 0
            for other in range(outer.shape[0]):
                if is_left[other] and outer[other, w] & line != _ZERO:
                    beside[n_beside] = other
                    n_beside += 1
            for v in range(inner.shape[1]):
                alone = inner[k, v]
                for i in range(n_beside):
                    alone &= ~inner[beside[i], v]
                if alone != _ZERO:
                    return True
    return False
