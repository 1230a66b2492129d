"""Levels of rows and columns, beside how full they are."""

from __future__ import annotations

from itertools import islice
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits.words import count_ones
from thali.data.layout import from_front
from thali.model import Effects
from thali.posterior.levels import level_summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.posterior import Posterior

_MOST = 1 << 27
"""Number of levels of all draws beyond which only every second, third, ... draw is used."""

_NORMAL_90 = 1.6449
"""Standard deviations on either side of the mean that contain 90% of a normal distribution."""


class LineLevels(NamedTuple):
    """Levels of the rows of one mode, in log odds: how full they are for other reasons than
    components.
    """  # noqa: D205

    share: NDArray[np.float64]  # (n_rows,): share of ones among the known entries; NaN without any
    mean: NDArray[np.float64]  # (n_rows,): posterior mean
    sd: NDArray[np.float64]  # (n_rows,): posterior standard deviation

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower end of an interval with 90% of the probability, as of a normal distribution."""
        return self.mean - _NORMAL_90 * self.sd

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper end of that interval."""
        return self.mean + _NORMAL_90 * self.sd


def has_effects(posterior: Posterior) -> bool:
    """Return whether the model has levels of rows and columns."""
    return isinstance(posterior.settings.model.priors(len(posterior.shape)).noise, Effects)


def levels(posterior: Posterior) -> tuple[LineLevels, ...]:
    """Return the levels of the lines of every mode, with the share of ones of each.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior` with row and column effects. If its draws have more than 134
        million levels in all, only some draws are used.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((30, 40), 1, spurious=0.05, seed=1)
    >>> few = {"n_components": 1, "chains": 2, "warmup": 100, "draws": 400, "seed": 1}
    >>> posterior = thali.sample(data.tensor, noise="effects", **few)
    >>> rows, columns = views.levels(posterior)
    >>> rows.mean.shape, columns.share.shape
    ((30,), (40,))
    """
    step = max(1, -(-len(posterior) * sum(posterior.shape) // _MOST))
    found = level_summary(islice(posterior, 0, None, step))
    modes = range(len(posterior.shape))
    of_modes = from_front([found.of_mode(mode) for mode in modes], posterior.settings.mode)
    return tuple(LineLevels(_share_of_ones(posterior, m), *of_modes[m]) for m in modes)


def _share_of_ones(posterior: Posterior, mode: int) -> NDArray[np.float64]:
    ones, known = posterior.tensor.unfoldings[mode]
    n_ones: Index = count_ones(ones)
    if known is None:
        return n_ones * posterior.shape[mode] / prod(posterior.shape)
    n_known: Index = count_ones(known)
    share: NDArray[np.float64] = np.where(n_known > 0, n_ones / np.maximum(n_known, 1), np.nan)
    return share
