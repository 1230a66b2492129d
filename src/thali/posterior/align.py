"""Follow components through the draws by matching each draw to one reference."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import WORD, overlaps
from thali.posterior.coverage import add_bits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from thali.bits import Factor, Index

UNMATCHED_COST = 0.5
"""Cost of leaving a component, of the reference or of a draw, without a partner."""


class Alignment(NamedTuple):
    """Components of a reference, averaged over the draws in which they have a partner.

    Means and similarities of a component that is never matched are NaN.
    """

    means: tuple[NDArray[np.float64], ...]  # per mode (n_rows, n_components)
    matched: NDArray[np.float64]  # (n_components,): fraction of draws with a partner
    similarity: NDArray[np.float64]  # (n_components,): mean of 1 - distance to the partner
    unmatched: Index  # (n_draws,): components of each draw without a partner
    assignments: Index  # (n_draws, n_components): the partner in each draw, or -1

    @property
    def probabilities(self) -> tuple[NDArray[np.float64], ...]:
        """Share of *all* draws in which a row has the component, per mode.

        In a draw without a partner, no row has the component. If three quarters of the draws have
        a partner, and a row has it in 0.7 of those, the share is 0.525. Plots, reports and tables
        show these shares.
        """
        return tuple(
            np.where(self.matched > 0.0, means, 0.0) * self.matched for means in self.means
        )


def align(draws: Iterable[Sequence[Factor]], reference: Sequence[Factor]) -> Alignment:
    """Average the components of a reference over draws, whatever their order and number.

    Components are matched by the rows that they have, not by their position. Those without a
    partner are counted, not hidden: components of the reference by ``matched``, components of a
    draw by ``unmatched``. The function passes over the draws once.

    Parameters
    ----------
    draws
        The factors of each draw, one per mode; the number of components may vary.
    reference
        The factors that the draws are matched to, ideally those of the point estimate.

    Returns
    -------
    alignment
        Averages in the order of the reference's components.

    Raises
    ------
    ValueError
        If there are no draws, or their numbers of rows differ from those of the reference.

    Notes
    -----
    The distance of two components is the mean over modes of the Jaccard distance of their ones
    (0 if both have none). The assignment minimizes the sum of the distances of partners and of
    1/2 for each component without one. Two components that share a row in any mode have a
    distance below 1, so matching them costs less than leaving both without a partner: read
    ``matched`` together with ``similarity``.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.bits import Factor
    >>> first, second = np.eye(3, 2, dtype=bool), np.eye(4, 2, dtype=bool)
    >>> reference = Factor.from_dense(first), Factor.from_dense(second)
    >>> swapped = Factor.from_dense(first[:, ::-1]), Factor.from_dense(second[:, ::-1])
    >>> alignment = align([reference, swapped], reference)
    >>> alignment.means[0].tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    >>> alignment.assignments.tolist()
    [[0, 1], [1, 0]]
    """
    reference = tuple(reference)
    n_components = reference[0].n_components
    # Integer counts, so that the order of the draws cannot change a mean.
    counts = [np.zeros((n_components, f.words.shape[1] * WORD), np.int64) for f in reference]
    assignments: list[Index] = []
    unmatched: list[int] = []
    similarities: list[list[float]] = [[] for _ in range(n_components)]
    for factors in draws:
        _check(factors, reference)
        partners, distances = match(reference, factors)
        for component in np.flatnonzero(partners >= 0):
            partner = partners[component]
            similarities[component].append(1.0 - distances[component, partner])
            for factor, count in zip(factors, counts, strict=True):
                add_bits(factor.words, partner, count[component])
        assignments.append(partners)
        unmatched.append(factors[0].n_components - int(np.count_nonzero(partners >= 0)))
    if not assignments:
        msg = "no draws were given; at least one is needed to average; give some."
        raise ValueError(msg)
    n_matched = np.array([len(s) for s in similarities], np.int64)
    divisor = np.where(n_matched > 0, n_matched, np.nan)
    # Exactly rounded sums do not depend on the order of the draws, either.
    return Alignment(
        tuple(
            np.ascontiguousarray((count[:, : f.n_rows] / divisor[:, None]).T)
            for count, f in zip(counts, reference, strict=True)
        ),
        n_matched / len(assignments),
        np.array([fsum(s) for s in similarities], np.float64) / divisor,
        np.array(unmatched, np.int64),
        np.stack(assignments),
    )


def match(
    reference: Sequence[Factor], factors: Sequence[Factor]
) -> tuple[Index, NDArray[np.float64]]:
    """Find the partners of a reference's components in one draw, and all distances.

    Returns
    -------
    partners
        ``(n_components of the reference,)``: a component of the draw, or -1.
    distances
        ``(n_components of the reference, n_components of the draw)``.

    Notes
    -----
    Matching a pair changes the total by its distance minus twice the cost of having no partner.
    Pairs that do not lower the total are entered as zero and discarded afterwards, so the table
    need not be padded with dummy components.
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - slow to import

    distances = jaccard(reference, factors)
    # If several assignments are best, the solver's choice depends on the order of the
    # components; sorting them by content makes it a function of the draw alone.
    order = sorted(
        range(factors[0].n_components),
        key=lambda component: [f.words[component].tobytes() for f in factors],
    )
    gains = np.minimum(distances[:, order] - 2.0 * UNMATCHED_COST, 0.0)
    partners = np.full(reference[0].n_components, -1, np.int64)
    for row, column in zip(*linear_sum_assignment(gains), strict=True):
        if gains[row, column] < 0.0:
            partners[row] = order[column]
    return partners, distances


def jaccard(left: Sequence[Factor], right: Sequence[Factor]) -> NDArray[np.float64]:
    """Return the distance of every component of one draw to every component of another.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.bits import Factor
    >>> one = Factor.from_dense(np.array([[1], [1], [0]], bool))
    >>> two = Factor.from_dense(np.array([[1, 0], [0, 0], [0, 1]], bool))
    >>> jaccard([one, one], [two, two])
    array([[0.5, 1. ]])
    """
    total = np.zeros((left[0].n_components, right[0].n_components))
    for a, b in zip(left, right, strict=True):
        shared = overlaps(a.words, b.words)
        either = a.sizes()[:, None] + b.sizes()[None, :] - shared
        total += np.where(either > 0, 1.0 - shared / np.maximum(either, 1), 0.0)
    return total / len(left)


def _check(factors: Sequence[Factor], reference: Sequence[Factor]) -> None:
    given = tuple(f.n_rows for f in factors)
    wanted = tuple(f.n_rows for f in reference)
    if given != wanted:
        msg = (
            f"a draw with factors of {given} rows was given for a reference with {wanted}; both "
            "must come from the same data; align them separately."
        )
        raise ValueError(msg)
