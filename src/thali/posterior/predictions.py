"""Methods of the posterior that predict entries, whether known, unknown or held out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import PackedTensor
from thali.data import BinaryTensor
from thali.posterior.draws import Draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.bits import Index
    from thali.posterior.predict import Score

_MOST_ENTRIES = 1 << 27
"""Largest number of probabilities (1 GB) that are returned at once."""


class Predictions(Draws):
    """Draws, and predictions from them.

    Examples
    --------
    >>> import thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> posterior.predict().shape
    (60, 80)
    """

    def predict(
        self, rows: slice | Sequence[int] | Index | None = None, *, noise_free: bool = False
    ) -> NDArray[np.float64]:
        """Return the probability that entries are one, for some rows of the first mode.

        Parameters
        ----------
        rows
            Rows of the first mode; by default all.
        noise_free
            Return the probability before bit flips: that some component covers the entry.

        Returns
        -------
        probabilities
            ``(n_rows, *shape[1:])``, for known and unknown entries.

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
                f"{size} probabilities were requested; at most {_MOST_ENTRIES} are returned at "
                "once; pass fewer rows, or positions to predict_entries()."
            )
            raise ValueError(msg)
        return predictive(self, self.shape, chosen, noise_free=noise_free)

    def predict_entries(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability that single entries are one.

        Parameters
        ----------
        positions
            ``(n_entries, n_modes)``: the row number in every mode.

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
        from thali.posterior.positions import unknown_entries  # noqa: PLC0415

        blocks = list(unknown_entries(self.tensor))
        empty = np.zeros((0, len(self.shape)), np.int64)
        positions = np.concatenate([empty, *blocks])
        return positions, self.predict_entries(positions)

    def log_score(self, held_out: Any) -> Score:
        """Return the log predictive probability of held-out entries: higher is better.

        Parameters
        ----------
        held_out
            Data of the same shape, and in the same order: where both have names, these must be
            equal. Only its known entries count, so set all others to NaN.

        Examples
        --------
        >>> another = thali.simulate((60, 80), 3, spurious=0.05, seed=2)
        >>> own, other = posterior.log_score(data.tensor), posterior.log_score(another.tensor)
        >>> own.mean > other.mean, own.n_entries
        (True, 4800)
        """
        from thali.posterior.predict import log_scores  # noqa: PLC0415

        self._need_draws()
        if isinstance(held_out, PackedTensor):
            return log_scores(self, self.shape, held_out)
        tensor = BinaryTensor.from_any(held_out)
        if tensor.shape == self.shape:
            self._need_same_names(tensor.row_names)
        return log_scores(self, self.shape, tensor)

    def _need_same_names(self, given: Sequence[tuple[str, ...] | None]) -> None:
        """Raise an error if rows of some mode have other names than those of the data."""
        for mode, own, other in zip(self.mode_names, self.row_names, given, strict=True):
            if own is None or other is None or own == other:
                continue
            at = next(i for i in range(len(own)) if own[i] != other[i])
            what = f"the same names in another order ({mode})"
            if {*own} != {*other}:
                what = f"other names than the data ({mode})"
            msg = (
                f"held_out has {what}: {other[at]!r} where {own[at]!r} is expected; put it in the "
                "order of the data, or pass its values without names."
            )
            raise ValueError(msg)
