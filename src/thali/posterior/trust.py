"""Methods of the posterior that judge the fit of the model and the agreement of the chains."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.posterior.draws import Draws
from thali.sentences import numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from thali.posterior.verdict import Verdict

_N_PAIRS = 20
"""Number of pairs of rows whose shared components are compared between chains."""


class Trust(Draws):
    """Draws, and checks of whether they can be trusted.

    Examples
    --------
    >>> import thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> posterior.summary().index[0]
    'n_components'
    """

    def check(
        self,
        statistics: Mapping[str, Callable[[NDArray[np.float64]], float]] | None = None,
        *,
        n_replicates: int = 100,
        seed: int = 0,
    ) -> pd.DataFrame:
        """Compare the data with data simulated from the posterior.

        Parameters
        ----------
        statistics
            Functions of a dense block (NaN where unknown), by name; by default the share of
            ones, the spread of row and column sums, and the overlap of rows.
        n_replicates, seed
            Number of simulated data sets, and the seed of their random numbers.

        Returns
        -------
        table
            For every statistic the observed value, the simulated mean and 90% interval, and the
            share of simulated values as extreme as the observed one.

        Examples
        --------
        >>> import numpy as np
        >>> table = posterior.check({"ones": np.nansum}, n_replicates=20)
        >>> bool(table.loc["ones", "q05"] < table.loc["ones", "observed"])
        True
        """
        from thali.posterior.replicate import check  # noqa: PLC0415

        self._need_draws()
        return check(
            self,
            self.tensor,
            statistics=statistics,
            n_replicates=n_replicates,
            seed=seed,
            mode_names=self.mode_names,
        )

    def summary(self) -> pd.DataFrame:
        """Return mean, sd, R-hat and effective sample size of quantities that need no labels.

        Examples
        --------
        >>> list(posterior.summary().columns)
        ['mean', 'sd', 'r_hat', 'ess_bulk', 'ess_tail']
        """
        return self._diagnosed.copy()

    @cached_property
    def _diagnosed(self) -> pd.DataFrame:
        """The table that :meth:`summary` returns; the verdict and every face need it again."""
        from thali.posterior.diagnostics import co_membership, diagnose, sample_pairs  # noqa: PLC0415

        self._need_draws()
        quantities: dict[str, NDArray[Any]] = {
            "n_components": self.n_components,
            "log_joint": self.log_joint,
            **self.noise,
        }
        if not self.settings.model.is_finite:
            quantities["alpha"] = self.alpha
        for name, density in zip(self.mode_names, self.densities, strict=True):
            if density is not None:
                quantities[f"density_{name}"] = density
        pairs = sample_pairs(self.shape[0], _N_PAIRS)
        if len(pairs):
            shared = co_membership((draw.state.factors for draw in self), pairs)
            quantities["co_membership"] = shared.reshape(self.n_chains, self.n_draws, -1)
        return diagnose(quantities)

    def verdict(self) -> Verdict | None:
        """Return why the chains cannot be trusted, to be printed; None if they pass all checks.

        Examples
        --------
        >>> posterior.verdict() is None
        True
        """
        from thali.posterior.verdict import Empty, judge, too_few  # noqa: PLC0415

        self._need_draws()
        has_cover = self.covered.any(axis=(1, 2))
        is_empty = ~has_cover & (self.n_components > 0).all(axis=1)
        if is_empty.any():
            which = tuple(numbered(self.chain_indices[i]) for i in np.flatnonzero(is_empty))
            return Empty(self.n_chains, self.n_draws, which)
        few = too_few(self.n_chains, self.n_draws)
        if few is not None:  # nothing needs to be diagnosed
            return few
        is_part = self.n_chains < self.settings.chains
        verdict = judge(
            self._diagnosed,
            self.n_components,
            self.n_chains,
            self.n_draws,
            self.settings.warmup,
            extended_from=self.extended_from,
            best=int(self.log_joint.mean(axis=1).argmax()),
            part_of=numbered(self.chain_indices[0]) if is_part else None,
        )
        return None if verdict is None else replace(verdict, n_left_out=self.n_left_out)
