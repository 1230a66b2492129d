"""The result of a search for the fewest errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.bits import Factor, PackedTensor
from thali.data import BinaryTensor
from thali.errors import InvalidValue
from thali.optimize.new_rows import fit_rows
from thali.optimize.searcher import NEVER_COVERED, known_zeros
from thali.posterior.tables import mode_labels
from thali.sentences import n_of, numbered
from thali.threads import n_threads, parallel_for

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from thali.trace.run import Names


@dataclass(frozen=True, repr=False, eq=False)
class Factorization:
    """Components of given data, and the entries that contradict them.

    Returned by :func:`thali.minimize`. It is one answer, the best that was found, not a sample:
    nothing in it says how certain a component is. For that, sample the posterior
    (:func:`thali.sample`).

    Attributes
    ----------
    factors
        Who has which component: a factor of the rows and one of the columns; ``np.asarray``
        makes a Boolean array, ``(n_rows, n_components)``, of each.
    zeros_inside, ones_outside
        Number of known zeros that are covered, and of known ones that are not.
    cost
        Cost of an error of each kind.
    is_under
        Whether covered zeros were forbidden.
    lower_bound
        No factors of this number of components have a lower loss. It is proven by counting, and
        often far from what can be reached.
    fewest_components
        With ``exact=True``: no factors without errors have fewer components. None otherwise.
    trace
        How the search went: ``(seconds, zeros_inside, ones_outside)`` of every improvement;
        with ``exact=True``, ``(seconds, n_components)``.
    seconds, seed
        Duration of the search, and the seed of its random numbers.
    is_stopped
        Whether the search was stopped before its time (Ctrl-C).
    tensor, mode_names, row_names
        The data, packed, and their names.

    Examples
    --------
    >>> import thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> found = thali.minimize(data.tensor, 3, sweeps=50, seed=1, progress=False)
    >>> users, codes = map(np.asarray, found.factors)
    >>> bool(((users @ codes.T) == data.noise_free).all())
    True
    """

    factors: tuple[Factor, Factor]
    zeros_inside: int
    ones_outside: int
    cost: tuple[float, float]
    is_under: bool
    lower_bound: float
    fewest_components: int | None
    trace: list[Any]
    seconds: float
    seed: int
    is_stopped: bool
    tensor: PackedTensor
    mode_names: tuple[str, ...]
    row_names: tuple[tuple[str, ...] | None, ...]

    def __repr__(self) -> str:
        proven = ", which is the minimum" if self.is_optimal else ""
        return (
            f"Factorization({n_of(self.n_components, 'component')}, data {self.shape}, "
            f"{n_of(self.errors, 'error')}{proven})"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the data."""
        n_rows, n_columns = self.tensor.shape
        return n_rows, n_columns

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.factors[0].n_components

    @property
    def errors(self) -> int:
        """Number of known entries that contradict the components."""
        return self.zeros_inside + self.ones_outside

    @property
    def loss(self) -> float:
        """Cost of all errors."""
        return self.cost[0] * self.zeros_inside + self.cost[1] * self.ones_outside

    @property
    def is_optimal(self) -> bool:
        """Whether the answer is proven to be the best: it equals the lower bound.

        The bound is that of the loss or, with ``exact=True``, that of the number of components.
        """
        if self.fewest_components is not None:
            return self.n_components == self.fewest_components
        return self.loss <= self.lower_bound

    def covered(self) -> NDArray[np.bool_]:
        """Return the Boolean product of the factors: the data as the components see them."""
        users, codes = (factor.dense() for factor in self.factors)
        out: NDArray[np.bool_] = users @ codes.T
        return out

    def components(self) -> pd.DataFrame:
        """Return what is in the components: components x columns, zeros and ones, with names."""
        return self._frame(1).T

    def memberships(self) -> pd.DataFrame:
        """Return which rows have which components: rows x components, zeros and ones."""
        return self._frame(0)

    def trace_table(self) -> pd.DataFrame:
        """Return how the search went: seconds, and errors of both kinds, at every improvement.

        With ``exact=True``, seconds and the number of components.
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        if self.fewest_components is not None:
            return pd.DataFrame(self.trace, columns=["seconds", "n_components"])
        table = pd.DataFrame(self.trace, columns=["seconds", "zeros_inside", "ones_outside"])
        return table.assign(errors=table["zeros_inside"] + table["ones_outside"])

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the factors and the sizes of the components as tables, by name of file."""
        import pandas as pd  # noqa: PLC0415 - slow to import

        labels = mode_labels(self.mode_names)
        found = {f"factor_{label}": self._frame(mode) for mode, label in enumerate(labels)}
        sizes = {
            f"n_{label}": factor.sizes()
            for label, factor in zip(labels, self.factors, strict=True)
        }
        found["components"] = pd.DataFrame(sizes, self._components())
        found["trace"] = self.trace_table().set_index("seconds")
        return found

    def transform(self, data: Any, *, threads: int | None = None) -> NDArray[np.bool_]:
        """Find the memberships of new rows that have the fewest errors, by descent.

        Parameters
        ----------
        data
            Rows with the columns of the fitted data, as for :func:`thali.minimize`.
        threads
            Number of threads; default: all cores.

        Returns
        -------
        memberships
            ``(n_rows, n_components)``. One membership at a time is changed while that lowers the
            loss, so that a better combination may exist.
        """
        tensor = BinaryTensor.from_any(data, threads=threads)
        if len(tensor.shape) != 2 or tensor.shape[1] != self.shape[1]:
            raise InvalidValue(
                f"new rows of shape {tensor.shape} were given",
                f"rows need {n_of(self.shape[1], 'column')}, as the fitted data have",
                "give those",
            )
        unfolding = PackedTensor.from_tensor(tensor, threads).unfoldings[0]
        zeros = known_zeros(unfolding, self.shape[1])
        out = np.zeros((tensor.shape[0], self.n_components), np.bool_)
        costs = (NEVER_COVERED if self.is_under else self.cost[0], self.cost[1])
        codes = self.factors[1].words
        parallel_for(
            fit_rows, len(out), n_threads(threads), unfolding.ones, zeros, codes, costs, out
        )
        return out

    def _components(self) -> pd.Index[str]:
        import pandas as pd  # noqa: PLC0415 - slow to import

        names = [f"component_{numbered(number)}" for number in range(self.n_components)]
        return pd.Index(names, name="component")

    def _frame(self, mode: int) -> pd.DataFrame:
        import pandas as pd  # noqa: PLC0415 - slow to import

        own = self.row_names[mode]
        names = np.arange(self.shape[mode]) if own is None else list(own)
        index = pd.Index(names, name=self.mode_names[mode])
        return pd.DataFrame(self.factors[mode].dense().astype(np.int8), index, self._components())


def make(
    lines: tuple[Any, Any], tensor: PackedTensor, names: Names, **about: Any
) -> Factorization:
    """Return a factorization whose components are ordered by what they cover, largest first."""
    factors = tuple(Factor(words, n) for words, n in zip(lines, tensor.shape, strict=True))
    areas = factors[0].sizes() * factors[1].sizes()
    order = np.argsort(-areas, kind="stable")
    first, second = (factor.take(order) for factor in factors)
    return Factorization(
        (first, second), tensor=tensor, mode_names=names.modes, row_names=names.rows, **about
    )
