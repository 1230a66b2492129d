"""The components of the point estimate, matched with the draws: all views show these."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from thali.sentences import mode_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Factor, Index
    from thali.posterior import Posterior


class Components(NamedTuple):
    """Components of the point estimate, with their posterior probabilities.

    The number of a component is its position here, in :meth:`thali.Posterior.align` and in
    :meth:`thali.Posterior.point_estimate`: it is the same in all views of a posterior.
    """

    factors: tuple[Factor, ...]  # factors of the point estimate, one per mode
    probabilities: tuple[NDArray[np.float64], ...]  # per mode (n_rows, n_components)
    matched: NDArray[np.float64]  # (n_components,): share of draws that have the component
    similarity: NDArray[np.float64]  # (n_components,): mean similarity to its matches in draws

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.matched)


# A posterior usually has several views, and without this cache each of them would match the
# components again. The draws of a posterior never change; its entry is removed together with it.
_KNOWN: WeakKeyDictionary[Posterior, Components] = WeakKeyDictionary()


def components(posterior: Posterior) -> Components:
    """Match the components of the point estimate with those of all draws.

    The result is computed once per posterior and then kept.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.

    Returns
    -------
    components
        The ``probabilities`` are those of :meth:`thali.Posterior.align`: shares of *all* draws.
        A draw in which a component has no match counts as one in which it has no rows. Pictures
        therefore show whatever is uncertain in a pale colour, be it a single row of a component
        or the whole component.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> views.components(posterior).probabilities[1].shape
    (80, 3)
    """
    if posterior not in _KNOWN:
        alignment = posterior.align()
        _KNOWN[posterior] = Components(
            posterior.point_estimate().factors,
            alignment.probabilities,
            alignment.matched,
            alignment.similarity,
        )
    return _KNOWN[posterior]


def likely(shown: Components, mode: int) -> NDArray[np.bool_]:
    """Return which rows have a component in more than half of the draws that contain it."""
    is_likely: NDArray[np.bool_] = shown.probabilities[mode] > shown.matched / 2
    return is_likely


def word(posterior: Posterior, mode: int) -> str:
    """Return the word for one row of a mode: the mode's name if it has one."""
    return mode_words(posterior.mode_names)[mode]


def names(posterior: Posterior, mode: int, rows: Index) -> list[str]:
    """Return the names of some rows of a mode, or their numbers if rows have no names."""
    own = posterior.row_names[mode]
    return [str(row) if own is None else own[row] for row in np.asarray(rows).tolist()]
