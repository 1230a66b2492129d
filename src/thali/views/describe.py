"""What there is to say about each component, and about each two."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from thali.checks import count
from thali.posterior.coverage import overlaps
from thali.views.aligned import components, likely, names
from thali.views.order import check_mode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Factor, Index
    from thali.posterior import Posterior
    from thali.views.aligned import Components


class Overlap(NamedTuple):
    """What every two components of the point estimate share."""

    shared: tuple[Index, ...]  # per mode (n_components, n_components): rows that have both
    jaccard: tuple[NDArray[np.float64], ...]  # the same over rows that have one of them


class Member(TypedDict):
    """A row of some mode in a component."""

    row: int
    name: str  # its number where rows have no names
    probability: float  # share of all draws that have the component, and the row in it


class Neighbour(TypedDict):
    """Another component that shares rows of some mode."""

    component: int
    shared: list[int]  # rows of each mode that have both
    jaccard: list[float]  # the same over rows that have one of them


class Card(TypedDict):
    """A component of the point estimate in numbers; probabilities are over all draws."""

    component: int  # its number, the same in all views
    size: int  # entries that it covers
    users: int  # rows of the first mode that have it
    columns: int  # rows of the second mode that it has
    counts: list[int]  # the same for every mode
    top: list[list[Member]]  # for every mode the rows most sure to be in it, best first
    matched: float  # share of draws with a component like it
    similarity: float  # how alike those are to it, from 0 to 1
    sure: float  # mean probability of the rows that are in it, averaged over modes
    overlaps: list[Neighbour]  # others with a row in common in some mode, most alike first


def overlap(posterior: Posterior) -> Overlap:
    """Count what every two components share, in every mode.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.

    Returns
    -------
    overlap
        Of the point estimate's components. Two that have no rows at all in a mode have a Jaccard
        index of 0 there.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(data.tensor, chains=2, warmup=150, draws=50, seed=1)
    >>> [table.shape for table in views.overlap(posterior).jaccard]
    [(3, 3), (3, 3)]
    """
    shared = tuple(overlaps(f.words, f.words) for f in components(posterior).factors)
    return Overlap(shared, tuple(map(_jaccard, shared)))


def cards(posterior: Posterior, n_top: int = 10) -> list[Card]:
    """Describe every component: how large, what is in it, how sure, and what it overlaps.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    n_top
        How many rows of every mode to name.

    Returns
    -------
    cards
        One for every component of the point estimate, by number.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(data.tensor, chains=2, warmup=150, draws=50, seed=1)
    >>> card = views.cards(posterior, n_top=2)[0]
    >>> card["size"] == card["users"] * card["columns"], len(card["top"][1])
    (True, 2)
    """
    count("n_top", n_top)
    shown = components(posterior)
    common = overlap(posterior)
    return [
        _card(posterior, shown, common, component, n_top)
        for component in range(shown.n_components)
    ]


def titles(posterior: Posterior, n_names: int = 2, mode: int = 1) -> list[str]:
    """Name every component by its number and the columns that set it apart.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    n_names
        How many columns to name.
    mode
        The mode whose rows are the columns.

    Returns
    -------
    titles
        By number, such as ``"3: hooves, eats_plants"``; the number alone where columns have no
        names. Of the columns that more likely than not are in the component, those of highest
        probability times one minus the mean probability in the others: what all components have
        names none.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(data.tensor, chains=2, warmup=150, draws=50, seed=1)
    >>> views.titles(posterior)
    ['0', '1', '2']
    """
    count("n_names", n_names)
    check_mode(posterior, mode)
    shown = components(posterior)
    p = shown.probabilities[mode]
    if posterior.row_names[mode] is None or n_names == 0:
        return [str(component) for component in range(p.shape[1])]
    in_others = (p.sum(axis=1, keepdims=True) - p) / max(1, p.shape[1] - 1)
    scores = np.where(likely(shown, mode), p * (1.0 - in_others), 0.0)
    found = []
    for component in range(p.shape[1]):
        best = np.argsort(-scores[:, component], kind="stable")[:n_names]
        best = best[scores[best, component] > 0.0]
        named = ", ".join(names(posterior, mode, best))
        found.append(f"{component}: {named}" if named else str(component))
    return found


def _card(
    posterior: Posterior, shown: Components, common: Overlap, component: int, n_top: int
) -> Card:
    counts = [int(table[component, component]) for table in common.shared]
    return Card(
        component=component,
        size=int(np.prod(counts)),
        users=counts[0],
        columns=counts[1],
        counts=counts,
        top=[
            _top(posterior, mode, table[:, component], n_top)
            for mode, table in enumerate(shown.probabilities)
        ],
        matched=float(shown.matched[component]),
        similarity=float(shown.similarity[component]),
        sure=_sure(shown, component),
        overlaps=_neighbours(common, component),
    )


def _top(
    posterior: Posterior, mode: int, probabilities: NDArray[np.float64], n_top: int
) -> list[Member]:
    """Name the rows that are most probably in a component, if it is at all probable."""
    best = np.argsort(-probabilities, kind="stable")[:n_top]
    best = best[probabilities[best] > 0.0]
    return [
        Member(row=int(row), name=name, probability=float(probabilities[row]))
        for row, name in zip(best, names(posterior, mode, best), strict=True)
    ]


def _sure(shown: Components, component: int) -> float:
    """Average the probabilities of the rows that the point estimate puts into a component."""
    means = [
        table[_rows_of(factor, component), component]
        for factor, table in zip(shown.factors, shown.probabilities, strict=True)
    ]
    return float(np.mean([part.mean() for part in means if part.size] or [0.0]))


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
