"""The components that all views speak of: those of the point estimate, followed through draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Factor, Index
    from thali.posterior import Posterior


class Components(NamedTuple):
    """Components of the point estimate, and how probable everything about them is.

    The number of a component is its place here, in :meth:`thali.Posterior.align` and in
    :meth:`thali.Posterior.point_estimate`: it is the same in all views of a posterior.
    """

    factors: tuple[Factor, ...]  # of the point estimate, one a mode
    probabilities: tuple[NDArray[np.float64], ...]  # per mode (n_rows, n_components)
    matched: NDArray[np.float64]  # (n_components,): share of draws that have the component
    similarity: NDArray[np.float64]  # (n_components,): how alike its partners are to it

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.matched)


# Several views of a posterior are the rule, and each would follow the components anew. The draws
# of a posterior never change, and its entry goes when it does.
_KNOWN: WeakKeyDictionary[Posterior, Components] = WeakKeyDictionary()


def components(posterior: Posterior) -> Components:
    """Follow the components of the point estimate through all draws; once for each posterior.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.

    Returns
    -------
    components
        ``probabilities`` are shares of *all* draws, in which a component without a partner has
        no rows: ``means * matched`` of :meth:`thali.Posterior.align`. So what is uncertain is
        pale, whether it is a row of a component or the whole of it.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(data.tensor, chains=2, warmup=150, draws=50, seed=1)
    >>> views.components(posterior).probabilities[1].shape
    (80, 3)
    """
    if posterior not in _KNOWN:
        alignment = posterior.align()
        # A component is at least matched to itself in its own draw, so no mean is undefined.
        _KNOWN[posterior] = Components(
            posterior.point_estimate().factors,
            tuple(means * alignment.matched for means in alignment.means),
            alignment.matched,
            alignment.similarity,
        )
    return _KNOWN[posterior]


def likely(shown: Components, mode: int) -> NDArray[np.bool_]:
    """Tell which rows more likely than not have a component, in draws that have it."""
    is_likely: NDArray[np.bool_] = shown.probabilities[mode] > shown.matched / 2
    return is_likely


def word(posterior: Posterior, mode: int) -> str:
    """Return what one row of a mode is called: the mode's name, if it was given one."""
    name = posterior.mode_names[mode]
    if name != f"mode_{mode}" or mode > 1:
        return name
    return ("row", "column")[mode]


def names(posterior: Posterior, mode: int, rows: Index) -> list[str]:
    """Return names of rows of a mode; their numbers if they have no names."""
    own = posterior.row_names[mode]
    return [str(row) if own is None else own[row] for row in np.asarray(rows).tolist()]
