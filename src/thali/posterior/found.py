"""Methods of the posterior that return its components: as an estimate, and as data frames."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.checks import mode_number, positive
from thali.posterior.draws import Draws

if TYPE_CHECKING:
    import pandas as pd

    from thali.posterior.align import Alignment
    from thali.posterior.estimate import PointEstimate

MOST_DENSE = 1 << 24
"""Probabilities (128 MB) up to which frames are dense."""


class Found(Draws):
    """Draws, and the components that they have in common.

    Examples
    --------
    >>> import thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> posterior.components().shape, posterior.memberships().shape
    ((3, 80), (60, 3))
    """

    def point_estimate(
        self, *, missed: float = 1.0, false: float = 1.0, modal: bool = True
    ) -> PointEstimate:
        """Return the draw whose reconstruction is closest to those of all draws on average.

        Parameters
        ----------
        missed, false
            Loss of predicting zero where the noise-free entry is one, and one where it is zero.
        modal
            Choose only among draws with the most probable number of components.

        Returns
        -------
        estimate
            Factors of the draw, its expected loss, and its errors against the data.

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

        The components of every draw are matched to them one to one (an assignment problem on the
        Jaccard distances of their ones), or left unmatched if none is near.

        Returns
        -------
        alignment
            Posterior means of the matched columns for every mode, how often and how well each
            component was matched, and how many components of each draw have no match.

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

    def components(self, mode: int | str = 1, *, estimate: bool = False) -> pd.DataFrame:
        """Return what is in the components: components x columns, with the names of the data.

        Parameters
        ----------
        mode
            Mode of the columns, by number or name; 1 unless the data have more than two modes.
        estimate
            Return zeros and ones, the components of the point estimate, instead of probabilities.

        Returns
        -------
        frame
            The probability that the component contains the column: the share of all draws in which
            it does (:meth:`align`). Components are named ``component_1`` and so on, as in reports
            and exported tables; row 0 of the frame is component 0 of arrays. A frame of more than
            16 million values is sparse.

        Examples
        --------
        >>> posterior.components().index.tolist()
        ['component_1', 'component_2', 'component_3']
        """
        return _frame(self, mode, estimate=estimate, is_wide=True)

    def memberships(self, mode: int | str = 0, *, estimate: bool = False) -> pd.DataFrame:
        """Return which rows have which components: rows x components, with names.

        Parameters
        ----------
        mode
            Mode of the rows, by number or name.
        estimate
            Return zeros and ones, the memberships of the point estimate, instead of probabilities.

        Returns
        -------
        frame
            The probability that the row has the component, as in :meth:`components`.

        Examples
        --------
        >>> float(posterior.memberships().to_numpy().max())
        1.0
        """
        return _frame(self, mode, estimate=estimate, is_wide=False)

    def coverage(self) -> pd.DataFrame:
        """Return what the components explain, and what they leave unexplained.

        Returns
        -------
        table
            ``mean``, ``q05`` and ``q95`` over the draws, and the value of the point ``estimate``,
            of ``ones_explained`` (share of the known ones that some component covers),
            ``ones_outside`` (number of known ones that none covers), ``zeros_inside`` (number of
            known zeros that some component covers), and, for every mode, ``without_<mode>``
            (number of rows that no component has).

        Examples
        --------
        >>> bool(posterior.coverage().loc["ones_explained", "mean"] > 0.8)
        True
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        from thali.posterior.explained import coverage, without  # noqa: PLC0415

        self._need_draws()
        estimate = self.point_estimate()
        wrong = estimate.confusion
        n_ones = wrong.tp + wrong.fn
        of_estimate = [wrong.tp / n_ones if n_ones else np.nan, wrong.fn, wrong.fp]
        of_estimate += without(estimate.factors)
        drawn = coverage(self)
        return pd.DataFrame(
            {
                "mean": [values.mean() for values in drawn.values()],
                "q05": [np.quantile(values, 0.05) for values in drawn.values()],
                "q95": [np.quantile(values, 0.95) for values in drawn.values()],
                "estimate": np.array(of_estimate, np.float64),
            },
            pd.Index(list(drawn), name="quantity"),
        )

    def found_by_chain(self) -> pd.DataFrame:
        """Return which chains have the components of the point estimate.

        Returns
        -------
        table
            One row per component, named as in :meth:`components`, and one column per chain,
            counted from 1: the mean over the draws of the chain of the similarity to the matching
            component, 0 in draws without one. From about 0.7 on, the chain has the component.

        Examples
        --------
        >>> bool(posterior.found_by_chain().to_numpy().min() > 0.9)
        True
        """
        from thali.posterior.by_chain import found_by_chain  # noqa: PLC0415

        self._need_draws()
        return found_by_chain(self)


def _frame(posterior: Found, mode: int | str, *, estimate: bool, is_wide: bool) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - slow to import

    from thali.posterior.tables import component_names  # noqa: PLC0415

    posterior._need_draws()  # noqa: SLF001 - these are its own methods
    mode = mode_number(mode, posterior.mode_names)
    values = (
        posterior.point_estimate().factors[mode].dense().astype(np.int8)
        if estimate
        else posterior.align().probabilities[mode]
    )
    own = posterior.row_names[mode]
    index = pd.Index(
        np.arange(posterior.shape[mode]) if own is None else list(own),
        name=posterior.mode_names[mode],
    )
    components = pd.Index(component_names(posterior), name="component")
    lines = (components, index) if is_wide else (index, components)
    values = values.T if is_wide else values
    if values.size <= MOST_DENSE:
        return pd.DataFrame(values, *lines)
    from scipy import sparse  # noqa: PLC0415 - slow to import

    make: Any = pd.DataFrame.sparse  # which the stubs do not know
    frame: pd.DataFrame = make.from_spmatrix(sparse.csc_array(values), *lines)
    return frame
