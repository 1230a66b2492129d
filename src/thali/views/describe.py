"""Descriptions of each component, and of the overlap between each two."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from thali.bits.words import overlaps
from thali.checks import count
from thali.sentences import numbered
from thali.views.aligned import components, likely, names
from thali.views.lift import in_and_out, ranked
from thali.views.order import check_mode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Factor, Index
    from thali.posterior import Posterior
    from thali.views.aligned import Components


class Overlap(NamedTuple):
    """Overlap between every two components of the point estimate.

    Both fields hold one array ``(n_components, n_components)`` per mode.
    """

    shared: tuple[Index, ...]  # number of rows that have both components
    jaccard: tuple[NDArray[np.float64], ...]  # that number over the rows that have at least one


class Member(TypedDict):
    """A row of some mode that belongs to a component."""

    row: int
    name: str  # the row number if rows have no names
    probability: float  # share of all draws in which the row belongs to the component
    lift: float  # how much more frequent its ones are within the component than elsewhere


class Neighbour(TypedDict):
    """Another component that shares rows of some mode."""

    component: int
    shared: list[int]  # per mode, number of rows that have both components
    jaccard: list[float]  # per mode, that number over the rows that have at least one


class Card(TypedDict):
    """A component of the point estimate in numbers; probabilities are shares of all draws."""

    component: int  # its index, from 0; faces show this plus 1
    size: int  # number of entries that it covers
    users: int  # number of rows of the first mode that have it
    columns: int  # number of rows of the second mode that belong to it
    counts: list[int]  # number of its rows in every mode
    lift: float  # how much more frequent ones are within it than in its columns elsewhere
    top: list[list[Member]]  # for every mode its rows by probability, and then by lift
    matched: float  # share of draws that contain a matching component
    similarity: float  # mean similarity to the matching components, from 0 to 1
    sure: float  # mean probability of what belongs to it, in the mode where that is smallest
    overlaps: list[Neighbour]  # components that share a row in some mode, most similar first


def overlap(posterior: Posterior) -> Overlap:
    """Count the rows that every two components share, in every mode.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.

    Returns
    -------
    overlap
        Overlap between the components of the point estimate. If neither of two components has a
        row in a mode, their Jaccard index in that mode is 0.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> [table.shape for table in views.overlap(posterior).jaccard]
    [(3, 3), (3, 3)]
    """
    shared = tuple(overlaps(f.words, f.words) for f in components(posterior).factors)
    return Overlap(shared, tuple(map(_jaccard, shared)))


def cards(posterior: Posterior, n_top: int = 10) -> list[Card]:
    """Describe every component: its size, members, certainty and overlap with others.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    n_top
        Number of rows to name per mode.

    Returns
    -------
    cards
        One card per component of the point estimate, in the order of their numbers.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> card = views.cards(posterior, n_top=2)[0]
    >>> card["size"] == card["users"] * card["columns"], len(card["top"][1])
    (True, 2)
    """
    count("n_top", n_top)
    shown = components(posterior)
    common = overlap(posterior)
    if not shown.n_components:
        return []
    counted = [
        in_and_out(posterior.tensor, shown.factors, mode) for mode in range(len(posterior.shape))
    ]
    of_modes = [counts.lift for counts in counted]
    wholes = counted[1].whole(shown.factors[1]).lift
    return [
        _card(posterior, shown, common, component, n_top, of_modes, float(wholes[component]))
        for component in range(shown.n_components)
    ]


def titles(posterior: Posterior, n_names: int = 2, mode: int = 1) -> list[str]:
    """Title every component with its number and the columns that distinguish it from others.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    n_names
        Number of columns to name.
    mode
        The mode whose rows are the columns.

    Returns
    -------
    titles
        One title per component, such as ``"3: hooves, eats_plants"``, or the number alone if
        columns have no names. Components are counted from 1, as on all faces. Candidates are the
        columns that belong to the component in more than half of the draws that contain it.
        Those with the highest score are named: the probability in this component times one minus
        the mean probability in the others. A column that certainly belongs to all components
        scores zero and is never named.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> views.titles(posterior)
    ['1', '2', '3']
    """
    count("n_names", n_names)
    check_mode(posterior, mode)
    shown = components(posterior)
    p = shown.probabilities[mode]
    if posterior.row_names[mode] is None or n_names == 0:
        return [str(numbered(component)) for component in range(p.shape[1])]
    in_others = (p.sum(axis=1, keepdims=True) - p) / max(1, p.shape[1] - 1)
    scores = np.where(likely(shown, mode), p * (1.0 - in_others), 0.0)
    found = []
    for component in range(p.shape[1]):
        best = np.argsort(-scores[:, component], kind="stable")[:n_names]
        best = best[scores[best, component] > 0.0]
        named = ", ".join(names(posterior, mode, best))
        number = numbered(component)
        found.append(f"{number}: {named}" if named else str(number))
    return found


def _card(
    posterior: Posterior,
    shown: Components,
    common: Overlap,
    component: int,
    n_top: int,
    of_modes: list[NDArray[np.float64]],
    lift: float,
) -> Card:
    counts = [int(table[component, component]) for table in common.shared]
    return Card(
        component=component,
        size=int(np.prod(counts)),
        users=counts[0],
        columns=counts[1],
        counts=counts,
        lift=lift,
        top=[
            _top(posterior, mode, table[:, component], of_mode[:, component], n_top)
            for mode, (table, of_mode) in enumerate(
                zip(shown.probabilities, of_modes, strict=True)
            )
        ],
        matched=float(shown.matched[component]),
        similarity=float(shown.similarity[component]),
        sure=_sure(shown, component),
        overlaps=_neighbours(common, component),
    )


def _top(
    posterior: Posterior,
    mode: int,
    probabilities: NDArray[np.float64],
    lift: NDArray[np.float64],
    n_top: int,
) -> list[Member]:
    """List the rows of a component, ranked; those of probability zero are left out."""
    best = ranked(probabilities, lift)
    best = best[probabilities[best] > 0.0][:n_top]
    return [
        Member(
            row=int(row),
            name=name,
            probability=float(probabilities[row]),
            lift=float(lift[row]),
        )
        for row, name in zip(best, names(posterior, mode, best), strict=True)
    ]


def _sure(shown: Components, component: int) -> float:
    """Return the mean probability of what the point estimate puts into a component.

    Rows and columns each have a mean. The smaller one counts: a component of one certain row whose
    columns are all improbable is not half sure, but not sure at all.
    """
    means = [
        table[_rows_of(factor, component), component]
        for factor, table in zip(shown.factors, shown.probabilities, strict=True)
    ]
    return float(min(part.mean() if part.size else 0.0 for part in means))


def _rows_of(factor: Factor, component: int) -> NDArray[np.bool_]:
    return factor.take(np.array([component])).dense()[:, 0]


def _neighbours(common: Overlap, component: int) -> list[Neighbour]:
    shared = np.array([table[component] for table in common.shared])
    alike = np.array([table[component] for table in common.jaccard])
    order = np.argsort(-alike.sum(axis=0), kind="stable")
    return [
        Neighbour(
            component=int(other),
            shared=shared[:, other].tolist(),
            jaccard=alike[:, other].tolist(),
        )
        for other in order
        if other != component and shared[:, other].any()
    ]


def _jaccard(shared: Index) -> NDArray[np.float64]:
    sizes = np.diag(shared)
    either = sizes[:, None] + sizes[None, :] - shared
    return np.where(either > 0, shared / np.maximum(either, 1), 0.0)
