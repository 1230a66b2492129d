"""The posterior: all draws, and the summaries that users ask for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.checks import count, mode_number
from thali.data.layout import to_front
from thali.posterior.found import Found
from thali.posterior.predictions import Predictions
from thali.posterior.trust import Trust
from thali.sentences import n_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import xarray as xr
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.posterior.beyond import Beyond
    from thali.posterior.levels import LevelSummary


class Posterior(Predictions, Trust, Found):
    """Draws from the posterior, and their summaries.

    Returned by :func:`thali.sample`, :func:`thali.load` and :func:`thali.resume`. Arrays have the
    shape ``(n_chains, n_draws)``. Indices of chains, draws and components are counted from 0; the
    command line, progress bars, reports and pictures count chains and components from 1, so that
    chain 1 is ``posterior.chain(0)``. Components have no lasting labels: the third component of
    one draw need not be the third of another, so only :meth:`align` compares components across
    draws.

    Attributes
    ----------
    settings
        Settings of the run: model, schedule, seed, chains, warm-up, draws, thinning.
    tensor
        The data, packed.
    shape
        Shape of the data.
    mode_names, row_names
        Names of the modes and of their rows.
    n_chains, n_draws
        Number of chains, and number of draws that every chain has.
    chain_indices
        Indices of the chains within the run, from 0; of one chain by itself, only its own.
    extended_from
        Draws per chain that the run had when more were taken; None if that was never done.
    n_left_out
        Draws at the beginning of every chain that are left out (:meth:`after`).

    Examples
    --------
    >>> import thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> posterior
    Posterior(2 chains of 50 draws, data (60, 80), 3 components with probability 1.00)
    """

    def __repr__(self) -> str:
        chains, draws = n_of(self.n_chains, "chain"), n_of(self.n_draws, "draw")
        text = f"Posterior({chains} of {draws}, data {self.shape}"
        if self.n_draws == 0:
            return f"{text})"
        table = self.n_components_table()
        number = n_of(int(str(table.idxmax())), "component")
        return f"{text}, {number} with probability {table.max():.2f})"

    # --- components ----------------------------------------------------------------------------

    def n_components_table(self, least_users: int = 1) -> pd.Series[float]:
        """Return the posterior probability of every number of components.

        Parameters
        ----------
        least_users
            Count only components that at least this many rows have. A component of a single row
            means that this row is unlike the others; one of two or more rows is shared.

        Returns
        -------
        table
            Probabilities, indexed by the number of components.

        Examples
        --------
        >>> int(posterior.n_components_table(least_users=2).idxmax())
        3
        """
        from thali.posterior.tables import probabilities  # noqa: PLC0415

        self._need_draws()
        count("least_users", least_users, least=1)
        numbers = self.n_components
        if least_users > 1:
            sizes = (draw.state.factors[self.settings.mode].sizes() for draw in self)
            numbers = np.array([np.count_nonzero(s >= least_users) for s in sizes])
        return probabilities(numbers)

    @cached_property
    def n_that_matter(self) -> NDArray[np.int64]:
        """Number of components that matter in every draw.

        A component does not matter if other components cover all of its entries, so that no
        prediction would change without it. Components are left out one after another, those that
        cover the fewest entries first; what remains matters. Of very large runs (factors of
        more than a billion words of 64 entries in all), only every second, third, ... draw is
        looked at, and the array is shorter.

        Examples
        --------
        >>> int(posterior.n_that_matter.max())
        3
        """
        from thali.posterior.matter import numbers_that_matter  # noqa: PLC0415

        self._need_draws()
        return numbers_that_matter(self)

    def beyond_rates(self) -> Beyond | None:
        """Return what the components explain beyond row and column rates.

        With row and column effects, every chain hides some entries while it grows its components,
        and predicts them twice: with the components it begins with, and with row and column rates
        alone. Their difference is what components add, on entries that they have not seen.

        Returns
        -------
        beyond
            Gain in the log score of a hidden entry, with its standard error, on average over the
            chains. None if the model has no row and column effects, or if components were not
            grown.

        Examples
        --------
        >>> posterior.beyond_rates() is None  # this model has two error rates
        True
        """
        from thali.posterior.beyond import beyond_rates  # noqa: PLC0415

        return beyond_rates(self)

    def co_membership(
        self, rows: Sequence[int] | Index, mode: int | str = 0
    ) -> NDArray[np.float64]:
        """Return the probability that two rows share a component, for all pairs of some rows.

        Parameters
        ----------
        rows
            Row numbers.
        mode
            Mode that the rows belong to, by number or name.

        Returns
        -------
        probabilities
            ``(n_rows, n_rows)``, symmetric.

        Examples
        --------
        >>> posterior.co_membership([0, 1, 2]).shape
        (3, 3)
        """
        from thali.posterior.batches import row_numbers  # noqa: PLC0415
        from thali.posterior.diagnostics import co_membership  # noqa: PLC0415

        self._need_draws()
        mode = mode_number(mode, self.mode_names)
        picked = row_numbers(rows, self.shape[mode])
        left, right = np.triu_indices(len(picked))
        pairs = np.stack([picked[left], picked[right]], axis=1)
        shared = co_membership((d.state.factors for d in self), pairs, mode)
        out = np.empty((len(picked), len(picked)))
        out[left, right] = out[right, left] = (shared > 0).mean(axis=0)
        return out

    # --- row and column effects ----------------------------------------------------------------

    def row_levels(self) -> pd.DataFrame:
        """Return how full every row is beyond its components, under row and column effects.

        Returns
        -------
        table
            For every row, ``mean`` and ``sd`` over the draws of its level in log odds; zero is an
            average row. If the columns have the buffet (``mode=1``), rows and columns change
            places: this is what :meth:`column_levels` says of columns.
        """
        return self.levels(0)

    def column_levels(self) -> pd.DataFrame:
        """Return how full every column is outside its components, under row and column effects.

        Returns
        -------
        table
            For every column, ``mean`` and ``sd`` over the draws of its level, that is of the log
            odds of a one in an average row if no component covers the entry; ``jump_mean`` and
            ``jump_sd`` of its jump, by which cover raises them.
        """
        return self.levels(1)

    def levels(self, mode: int | str) -> pd.DataFrame:
        """Return how full every line of a mode is beyond its components, under effects.

        Returns
        -------
        table
            For every line, ``mean`` and ``sd`` over the draws of its level in log odds. The levels
            of one mode contain what all log odds have in common: the second, or the first if
            another one has the buffet. In all other modes, zero is an average line.
        """
        mode = mode_number(mode, self.mode_names)
        at = to_front(range(len(self.shape)), self.settings.mode).index(mode)
        columns = dict(zip(("mean", "sd"), self._levels.of_mode(at), strict=True))
        if at == 1 and len(self.shape) == 2:  # columns of the sampler, which have jumps
            columns |= {"jump_mean": self._levels.jumps_mean, "jump_sd": self._levels.jumps_sd}
        return self._by_name(mode, columns)

    @cached_property
    def _levels(self) -> LevelSummary:
        from thali.posterior.levels import level_summary  # noqa: PLC0415

        self._need_draws()
        return level_summary(self)

    def _by_name(self, mode: int, columns: dict[str, NDArray[np.float64]]) -> pd.DataFrame:
        import pandas as pd  # noqa: PLC0415 - slow to import

        names = self.row_names[mode]
        index = range(self.shape[mode]) if names is None else list(names)
        return pd.DataFrame(columns, index=pd.Index(index, name=self.mode_names[mode]))

    # --- other libraries -----------------------------------------------------------------------

    def to_datatree(
        self, *, factors: bool = True, data: bool = True, entries: int = 1000
    ) -> xr.DataTree:
        """Return the posterior as a DataTree, as ArviZ 1.x expects it (needs ``thali[bayes]``).

        With it, ``arviz.loo(posterior.to_datatree())`` scores how well single entries are
        predicted from all others, in ArviZ 1.x. For ArviZ below 1.0, which is what Python 3.11
        installs, use :meth:`to_inferencedata`.

        Parameters
        ----------
        factors, data
            Whether to include the packed factors of all draws, and the data.
        entries
            Number of known entries whose log likelihood and replicates are included in the groups
            ``log_likelihood`` and ``posterior_predictive``. If there are more, some are chosen,
            always the same. The unit is an entry: every row has memberships of its own, so that
            leaving out a whole row changes a draw too much.

        Examples
        --------
        >>> tree = posterior.to_datatree(factors=False)
        >>> tree["posterior"]["n_components"].shape
        (2, 50)
        """
        from thali.posterior.export import to_datatree  # noqa: PLC0415

        self._need_draws()
        return to_datatree(self, factors=factors, data=data, entries=entries)

    def to_inferencedata(
        self, *, factors: bool = True, data: bool = True, entries: int = 1000
    ) -> Any:
        """Return the posterior as InferenceData, for ArviZ below 1.0 (needs ``thali[bayes]``).

        The groups are those of :meth:`to_datatree`, so that ``arviz.plot_trace`` and
        ``arviz.loo`` take it.

        Parameters
        ----------
        factors, data, entries
            As for :meth:`to_datatree`.
        """
        from thali.posterior.export import to_inferencedata  # noqa: PLC0415

        self._need_draws()
        return to_inferencedata(self, factors=factors, data=data, entries=entries)
