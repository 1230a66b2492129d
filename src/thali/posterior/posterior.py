"""The posterior: what was drawn, and what it says."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import PackedTensor
from thali.checks import count, positive
from thali.data import BinaryTensor
from thali.posterior.draws import Draws

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd
    import xarray as xr
    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.posterior.align import Alignment
    from thali.posterior.estimate import PointEstimate
    from thali.posterior.predict import Score
    from thali.posterior.verdict import Verdict

_MOST_ENTRIES = 1 << 27
"""Entries (1 GB of probabilities) that are returned at once."""

_N_PAIRS = 20
"""Pairs of rows whose shared components are followed to see whether chains agree."""


class Posterior(Draws):
    """Draws from the posterior, and what they say.

    Made by :func:`thali.sample`, :func:`thali.load` and :func:`thali.resume`. Arrays have the
    shape ``(n_chains, n_draws)``. Components have no lasting labels: the third component of one
    draw need not be the third of another, so only :meth:`align` speaks of components across draws.

    Attributes
    ----------
    settings
        What was asked for: model, schedule, seed, chains, warm-up, draws, thinning.
    tensor
        The data, packed.
    shape
        Of the data.
    mode_names, row_names
        What modes and rows are called.
    n_chains, n_draws
        How many chains there are, and how many draws all of them have.

    Examples
    --------
    >>> import thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(data.tensor, chains=2, warmup=150, draws=50, seed=1)
    >>> posterior
    Posterior(2 chains of 50 draws, data (60, 80), 3 components with probability 1.00)
    """

    def __repr__(self) -> str:
        told = f"Posterior({self.n_chains} chains of {self.n_draws} draws, data {self.shape}"
        if self.n_draws == 0:
            return f"{told})"
        table = self.n_components_table()
        return f"{told}, {table.idxmax()} components with probability {table.max():.2f})"

    # --- how many ------------------------------------------------------------------------------

    def n_components_table(self, least_users: int = 1) -> pd.Series[float]:
        """Return the posterior probability of every number of components.

        Parameters
        ----------
        least_users
            Count only components that so many rows have: a component of a single row says that
            this row is unlike the others, one of two or more is shared.

        Returns
        -------
        table
            Probabilities, indexed by the number of components.

        Examples
        --------
        >>> int(posterior.n_components_table(least_users=2).idxmax())
        3
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        self._need_draws()
        count("least_users", least_users, least=1)
        numbers = self.n_components
        if least_users > 1:
            sizes = (draw.state.factors[0].sizes() for draw in self)
            numbers = np.array([np.count_nonzero(s >= least_users) for s in sizes])
        values, counts = np.unique(numbers, return_counts=True)
        index = pd.Index(values, name="n_components")
        return pd.Series(counts / counts.sum(), index=index, name="probability")

    # --- what is in them -----------------------------------------------------------------------

    def point_estimate(
        self, *, missed: float = 1.0, false: float = 1.0, modal: bool = True
    ) -> PointEstimate:
        """Return the draw whose reconstruction is closest to all others on average.

        Parameters
        ----------
        missed, false
            Loss of predicting zero where the noise-free entry is one, and one where it is zero.
        modal
            Choose among draws with the most probable number of components only.

        Returns
        -------
        estimate
            Its factors, expected loss, and errors against the data.

        Examples
        --------
        >>> users, codes = (factor.dense() for factor in posterior.point_estimate().factors)
        >>> bool((users @ codes.T == data.noise_free).all())
        True
        """
        from thali.posterior.estimate import point_estimate  # noqa: PLC0415

        self._need_draws()
        key = (positive("missed", missed), positive("false", false), bool(modal))
        if key not in self._estimates:
            self._estimates[key] = point_estimate(
                self, self.tensor, missed=missed, false=false, modal=modal
            )
        return self._estimates[key]

    @cached_property
    def _estimates(self) -> dict[tuple[float, float, bool], PointEstimate]:
        return {}

    def align(self) -> Alignment:
        """Follow the components of the point estimate through all draws.

        Every draw's components are matched to them one to one (assignment problem on the Jaccard
        distances of their ones), or left unmatched if nothing is near.

        Returns
        -------
        alignment
            Posterior means of the matched columns for every mode, how often and how well each
            component was matched, and how many components of each draw matched nothing.

        Examples
        --------
        >>> alignment = posterior.align()
        >>> alignment.means[0].shape, alignment.means[1].shape
        ((60, 3), (80, 3))
        >>> alignment.matched.tolist()
        [1.0, 1.0, 1.0]
        """
        from thali.posterior.align import align  # noqa: PLC0415

        estimate = self.point_estimate()
        return align((draw.state.factors for draw in self), estimate.factors)

    def co_membership(self, rows: Sequence[int] | Index, mode: int = 0) -> NDArray[np.float64]:
        """Return the probability that two rows share a component, for all pairs of some rows.

        Examples
        --------
        >>> posterior.co_membership([0, 1, 2]).shape
        (3, 3)
        """
        from thali.posterior.batches import row_numbers  # noqa: PLC0415
        from thali.posterior.diagnostics import co_membership  # noqa: PLC0415

        self._need_draws()
        if count("mode", mode) >= len(self.shape):
            msg = (
                f"mode={mode} was given; there are {len(self.shape)}, numbered from 0; choose one."
            )
            raise ValueError(msg)
        picked = row_numbers(rows, self.shape[mode])
        left, right = np.triu_indices(len(picked))
        pairs = np.stack([picked[left], picked[right]], axis=1)
        shared = co_membership((d.state.factors for d in self), pairs, mode)
        out = np.empty((len(picked), len(picked)))
        out[left, right] = out[right, left] = (shared > 0).mean(axis=0)
        return out

    # --- predictions ---------------------------------------------------------------------------

    def predict(
        self, rows: slice | Sequence[int] | Index | None = None, *, noise_free: bool = False
    ) -> NDArray[np.float64]:
        """Return the probability that entries are one, for some rows of the first mode.

        Parameters
        ----------
        rows
            Which; all by default.
        noise_free
            Give the probability before bit flips: that some component covers the entry.

        Returns
        -------
        probabilities
            ``(n_rows, *shape[1:])``, known entries included.

        Examples
        --------
        >>> clean = posterior.predict(noise_free=True)
        >>> bool(((clean > 0.5) == data.noise_free).all())
        True
        """
        from thali.posterior.batches import row_numbers  # noqa: PLC0415
        from thali.posterior.predict import predictive  # noqa: PLC0415

        self._need_draws()
        chosen = row_numbers(slice(None) if rows is None else rows, self.shape[0])
        size = chosen.size * int(np.prod(self.shape[1:]))
        if size > _MOST_ENTRIES:
            msg = (
                f"{size} probabilities were asked for; at most {_MOST_ENTRIES} are given at once; "
                "pass fewer rows, or positions to predict_entries()."
            )
            raise ValueError(msg)
        return predictive(self, self.shape, chosen, noise_free=noise_free)

    def predict_entries(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability that single entries are one.

        Parameters
        ----------
        positions
            ``(n, n_modes)``: the row in every mode.

        Examples
        --------
        >>> probabilities = posterior.predict_entries([[0, 0], [0, 1]])
        >>> bool((probabilities == posterior.predict([0])[0, :2]).all())
        True
        """
        from thali.posterior.predict import predictive_entries  # noqa: PLC0415

        self._need_draws()
        return predictive_entries(self, self.shape, positions)

    def impute(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the positions of all unknown entries, and the probability that they are one.

        Examples
        --------
        >>> positions, probabilities = posterior.impute()  # all entries are known here
        >>> positions.shape, probabilities.shape
        ((0, 2), (0,))
        """
        from thali.posterior.predict import unknown_entries  # noqa: PLC0415

        blocks = list(unknown_entries(self.tensor))
        empty = np.zeros((0, len(self.shape)), np.int64)
        positions = np.concatenate([empty, *blocks])
        return positions, self.predict_entries(positions)

    def log_score(self, held_out: Any) -> Score:
        """Return the log predictive probability of held-out entries: higher is better.

        Parameters
        ----------
        held_out
            Data of the same shape; only its known entries count, so hide the others (NaN).

        Examples
        --------
        >>> another = thali.simulate((60, 80), 3, spurious=0.05, seed=2)
        >>> own, other = posterior.log_score(data.tensor), posterior.log_score(another.tensor)
        >>> own.mean > other.mean, own.n_entries
        (True, 4800)
        """
        from thali.posterior.predict import log_scores  # noqa: PLC0415

        self._need_draws()
        is_packed = isinstance(held_out, PackedTensor)
        tensor = held_out if is_packed else BinaryTensor.from_any(held_out)
        return log_scores(self, self.shape, tensor)

    # --- trust ---------------------------------------------------------------------------------

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
            How many simulated data sets, and of which random numbers.

        Returns
        -------
        table
            For every statistic the observed value, the simulated mean and 90% interval, and the
            share of simulated values as extreme as the observed one.

        Examples
        --------
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
        """Return mean, spread, R-hat and effective sample size of label-free quantities.

        Examples
        --------
        >>> list(posterior.summary().columns)
        ['mean', 'sd', 'r_hat', 'ess_bulk', 'ess_tail']
        """
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
        """Say why the chains cannot be trusted (print it); None if nothing speaks against them.

        Examples
        --------
        >>> posterior.verdict() is None
        True
        """
        from thali.posterior.verdict import judge  # noqa: PLC0415

        return judge(
            self.summary(), self.n_components, self.n_chains, self.n_draws, self.settings.warmup
        )

    # --- other libraries -----------------------------------------------------------------------

    def to_datatree(self, *, factors: bool = True, data: bool = True) -> xr.DataTree:
        """Return everything as a DataTree, as ArviZ 1.x expects it (needs ``thali[bayes]``).

        Parameters
        ----------
        factors, data
            Whether the packed factors of all draws, and the data, go with it.

        Examples
        --------
        >>> tree = posterior.to_datatree(factors=False)
        >>> tree["posterior"]["n_components"].shape
        (2, 50)
        """
        from thali.posterior.export import to_datatree  # noqa: PLC0415

        self._need_draws()
        return to_datatree(self, factors=factors, data=data)

    def to_inferencedata(self, *, factors: bool = True, data: bool = True) -> Any:
        """Return the same as InferenceData, for ArviZ below 1.0 (needs ``thali[bayes]``)."""
        from thali.posterior.export import to_inferencedata  # noqa: PLC0415

        self._need_draws()
        return to_inferencedata(self, factors=factors, data=data)
