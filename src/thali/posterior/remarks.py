"""Remarks beside the answer of a run: how its chains began, and what another model might do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits.words import earlier_twins
from thali.model import PerComponent

if TYPE_CHECKING:
    from thali.posterior.posterior import Posterior

_DRAWS = 100
"""Largest number of draws per chain that are searched for components with the same rows."""

_MANY = 1.0
"""Mean number of components with the rows of another from which on it is remarked."""


def start_in_words(found: dict[str, Any]) -> str | None:
    """Say what the chains began with, or None if they did not grow components.

    Parameters
    ----------
    found
        What :func:`answer` returned.

    Examples
    --------
    >>> start = [
    ...     {"stage": "grown", "n_components": 12, "evidence": -1259.1, "hidden": None},
    ...     {"stage": "grown", "n_components": 9, "evidence": -1304.2, "hidden": None},
    ...     {"stage": "pooled", "n_components": 13, "evidence": -1246.1, "hidden": None},
    ... ]
    >>> words = start_in_words({"chains": 1, "starts": [start]})
    >>> words.partition(", and ")[2]
    'kept 13 (log evidence -1,246.1).'
    """
    grown = [stages for stages in found["starts"] if stages]
    if not grown:
        return None
    who = "each chain" if len(grown) > 1 else "the chain"
    if len(grown) < found["chains"]:
        who = f"each of {len(grown)} chains" if len(grown) > 1 else "one chain"
    n_starts = max(sum(part["stage"] == "grown" for part in stages) for stages in grown)
    starts = f"{n_starts} start{'s' * (n_starts > 1)}"
    ends = [stages[-1] for stages in grown]
    numbers = _span([end["n_components"] for end in ends], "d")
    grew = f"Before its first sweep, {who} grew components on the data, in {starts}"
    tried = [end["hidden"] for end in ends if end["hidden"] is not None]
    if tried:
        scores = _span([part["score"] for part in tried], ".4f")
        alone = _span([part["score"] - part["gain"] for part in tried], ".4f")
        return (
            f"{grew}, compared them with none at all on hidden entries, and kept {numbers} (log "
            f"score of a hidden entry {scores}; by row and column rates alone {alone})."
        )
    values = [end["evidence"] for end in ends if end["evidence"] is not None]
    evidence = f" (log evidence {_span(values, ',.1f')})" if values else ""
    return f"{grew}, and kept {numbers}{evidence}."


def has_own_densities(posterior: Posterior) -> bool:
    """Return whether every component has a density of its own in some mode."""
    given = np.atleast_1d(np.array(posterior.settings.model.density, object))
    return any(isinstance(part, PerComponent) for part in given)


def own_densities_in_words(is_so: bool) -> str | None:  # noqa: FBT001 - the only argument
    """Say that every component has a density of its own; None if they share one.

    Examples
    --------
    >>> own_densities_in_words(True).partition(",")[0]
    'Each component has a density of its own'
    """
    if not is_so:
        return None
    return (
        "Each component has a density of its own, so that a large one need not be split into two "
        "with the same rows."
    )


def same_rows(posterior: Posterior) -> float | None:
    """Return the mean number of components that have the rows, two or more, of another.

    None if every component has a density of its own, or if the number of components was given, so
    that some may have the same rows because there are more than the data need; and for tensors,
    where two boxes of the same rows are not one.
    """
    is_given = posterior.settings.model.is_finite
    if len(posterior.shape) > 2 or is_given or has_own_densities(posterior):
        return None
    numbers = []
    step = -(-posterior.n_draws // _DRAWS)
    for chain in range(posterior.n_chains):
        for draw in range(0, posterior.n_draws, step):
            users = posterior.draw(chain, draw).state.factors[posterior.settings.mode]
            numbers.append(int((earlier_twins(users.words[users.sizes() > 1]) > 0).sum()))
    return float(np.mean(numbers))


def same_rows_in_words(number: float | None, how: str) -> str | None:
    """Say that some components have the same rows, and what to do; None if hardly any have.

    Parameters
    ----------
    number
        What :func:`same_rows` returned.
    how
        The setting that gives every component its own density, in the words of a face.

    Examples
    --------
    >>> from thali.posterior.remarks import same_rows_in_words
    >>> words = same_rows_in_words(9.31, "density=PerComponent()")
    >>> words.partition(". ")[0]
    'On average 9.3 components have the same rows as another one'
    """
    if number is None or number < _MANY:
        return None
    return (
        f"On average {number:.1f} components have the same rows as another one. This "
        "happens if components have very different numbers of columns, because all share one "
        f"density; {how} gives each its own, and may need fewer components."
    )


def _span(values: list[Any], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"
