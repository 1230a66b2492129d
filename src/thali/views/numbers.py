"""The number of components, and traces of quantities that do not depend on their numbering."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.checks import count
from thali.posterior.diagnostics import in_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.posterior import Posterior

_FAMILIES = ("co_membership",)  # rows of the summary that summarise many traces


class Numbers(NamedTuple):
    """The posterior of the number of components."""

    values: Index  # (n_values,): every number from the smallest drawn to the largest
    probability: NDArray[np.float64]  # (n_values,): share of all draws
    of_chains: NDArray[np.float64]  # (n_chains, n_values): share of the draws of each chain


class Quantity(NamedTuple):
    """Draws and diagnostics of a quantity that does not depend on component numbering."""

    words: str  # its name in a sentence
    values: NDArray[np.float64]  # (n_chains, n_draws)
    r_hat: float
    ess: float  # effective sample size of the bulk; NaN if the quantity is constant


def numbers(posterior: Posterior, least_users: int = 1) -> Numbers:
    """Return the posterior of the number of components, over all draws and for each chain.

    Parameters
    ----------
    posterior
        A :class:`~thali.Posterior`.
    least_users
        Count only components that at least this many rows have.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> views.numbers(posterior, least_users=2).values.tolist()
    [3]
    """
    count("least_users", least_users, least=1)
    drawn = posterior.n_components
    if least_users > 1:
        sizes = (draw.state.factors[posterior.settings.mode].sizes() for draw in posterior)
        shared = [np.count_nonzero(size >= least_users) for size in sizes]
        drawn = np.array(shared, np.int64).reshape(drawn.shape)
    values = np.arange(drawn.min(), drawn.max() + 1)
    of_chains = (drawn[:, :, None] == values).mean(axis=1)
    return Numbers(values, of_chains.mean(axis=0), of_chains)


def quantities(posterior: Posterior) -> dict[str, Quantity]:
    """Return the draws and the diagnostics of the quantities in :meth:`thali.Posterior.summary`.

    Families of quantities, for which the summary gives the worst member, are left out.

    Examples
    --------
    >>> import thali
    >>> from thali import views
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> quantity = views.quantities(posterior)["spurious"]
    >>> quantity.words, quantity.values.shape
    ('the rate of spurious ones', (2, 50))
    """
    found = {}
    for name, row in posterior.summary().iterrows():
        name = str(name)
        if name in _FAMILIES:
            continue
        if name.startswith("density_"):
            mode = posterior.mode_names.index(name.removeprefix("density_"))
            values = posterior.densities[mode]
        else:
            values = posterior.noise[name] if name in posterior.noise else getattr(posterior, name)
        found[name] = Quantity(
            in_words(name),
            np.asarray(values, np.float64),
            float(row["r_hat"]),
            float(row["ess_bulk"]),
        )
    return found
