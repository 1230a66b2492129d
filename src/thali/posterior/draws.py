"""Access to the draws of all chains, as arrays and one by one."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from thali.checks import count, is_integer
from thali.data.layout import from_front
from thali.errors import InvalidValue
from thali.model import Effects, Levels, Noise
from thali.posterior.order import Ordered
from thali.sampler.schedule import MOVES
from thali.sentences import Resume
from thali.trace.draws import Scalars
from thali.trace.run import Names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from thali.bits import PackedTensor
    from thali.sampler import Attempted
    from thali.trace import Draw, Settings, Store


class Draws:
    """Draws of all chains, without any interpretation.

    Examples
    --------
    >>> import thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> len(posterior), posterior.n_components.shape
    (100, (2, 50))
    """

    def __init__(
        self,
        settings: Settings,
        tensor: PackedTensor,
        names: Names,
        chains: Sequence[Store],
        *,
        chain_indices: Sequence[int] | None = None,
        extended_from: int | None = None,
        n_left_out: int = 0,
    ) -> None:
        self.settings = settings
        self.tensor = tensor
        self.shape = tensor.shape
        self.mode_names, self.row_names = names
        self._stores = chains
        mode = settings.mode
        self._chains = [Ordered(store, mode) for store in chains] if mode else chains
        self.n_chains = len(chains)
        self.n_left_out = n_left_out
        self.n_draws = max(0, min(map(len, chains)) - n_left_out)
        self.chain_indices = tuple(range(len(chains)) if chain_indices is None else chain_indices)
        self.extended_from = extended_from

    def __iter__(self) -> Iterator[Draw]:
        """Iterate over all draws, chain after chain."""
        for draws in self._chains:
            yield from islice(draws, self.n_left_out, self.n_left_out + self.n_draws)

    def __len__(self) -> int:
        """Return the number of draws of all chains together."""
        return self.n_chains * self.n_draws

    def chain(self, chain: int) -> Self:
        """Return the draws of one chain, with all summaries of them.

        If chains disagree, their averages mix different explanations of the data; each chain by
        itself is one explanation. A chain of a run that is not finished may have more draws than
        all chains have in common.

        Parameters
        ----------
        chain
            Index of the chain, from 0. Faces count chains from 1: what the command line, progress
            bars and reports call chain 1 is ``posterior.chain(0)``.

        Examples
        --------
        >>> posterior.chain(1).n_components.shape
        (1, 50)
        """
        self._refuse("chain", chain, self.n_chains)
        return self._part([chain], self.n_left_out)

    def after(self, n_draws: int) -> Self:
        """Return the draws of every chain without the first ones, with all summaries of them.

        If chains were still on their way after the warm-up, their first draws are not yet from
        the posterior. So this is a longer warm-up afterwards.

        Parameters
        ----------
        n_draws
            Number of draws to leave out at the beginning of every chain. At least one must
            remain.

        Examples
        --------
        >>> posterior.after(20).n_components.shape
        (2, 30)
        """
        if count("n_draws", n_draws) >= self.n_draws > 0:
            msg = (
                f"n_draws={n_draws} was given; the chains have {self.n_draws} draws, and at least "
                "one must remain; leave out fewer."
            )
            raise ValueError(msg)
        return self._part(range(self.n_chains), self.n_left_out + n_draws)

    def _part(self, chains: Sequence[int], n_left_out: int) -> Self:
        return type(self)(
            self.settings,
            self.tensor,
            Names(self.mode_names, self.row_names),
            [self._stores[chain] for chain in chains],
            chain_indices=[self.chain_indices[chain] for chain in chains],
            extended_from=self.extended_from,
            n_left_out=n_left_out,
        )

    @cached_property
    def _scalars(self) -> Scalars:
        which = slice(self.n_left_out, self.n_left_out + self.n_draws)
        parts = [chain.scalars().part(which) for chain in self._chains]
        columns: Iterator[Any] = zip(*parts, strict=True)
        return Scalars(*(np.stack(column) for column in columns))

    @property
    def n_components(self) -> NDArray[np.int64]:
        """Number of components in every draw."""
        return self._scalars.n_components

    @property
    def noise(self) -> dict[str, NDArray[np.float64]]:
        """Draws of the quantities that describe the noise, by name."""
        columns = np.moveaxis(self._scalars.noise, -1, 0)
        prior = self.settings.model.priors(len(self.shape)).noise
        is_flat = not isinstance(prior, Effects)
        quantities = Noise.quantities() if is_flat else Levels.quantities(len(self.shape))
        drawn = {q.name: column for q, column in zip(quantities, columns, strict=True)}
        if is_flat:
            return drawn
        jumps = drawn.pop("jump_spread")
        # The first mode of the sampler is another one of the data.
        spreads = [name for name in drawn if name.endswith("_spread")]
        found = from_front([drawn[name] for name in spreads], self.settings.mode)
        return drawn | dict(zip(spreads, found, strict=True)) | {"jump_spread": jumps}

    @property
    def spurious(self) -> NDArray[np.float64]:
        """Probability that an entry that no component covers reads one."""
        return self.noise["spurious"]

    @property
    def dropped(self) -> NDArray[np.float64]:
        """Probability that an entry that some component covers reads zero."""
        return self.noise["dropped"]

    @property
    def alpha(self) -> NDArray[np.float64]:
        """Concentration of the buffet (zero if the number of components is fixed)."""
        return self._scalars.alpha

    @property
    def densities(self) -> tuple[NDArray[np.float64] | None, ...]:
        """Density of each mode's factor; None for the mode of the buffet, which has no density.

        If every component has its own density, this is their mean, as components have no labels.
        """
        priors = self.settings.model.priors(len(self.shape)).densities
        priors = from_front(priors, self.settings.mode)
        return tuple(
            None if prior is None else self._scalars.densities[:, :, mode]
            for mode, prior in enumerate(priors)
        )

    @property
    def log_joint(self) -> NDArray[np.float64]:
        """Log joint density of the data and all unknowns."""
        return self._scalars.log_joint

    @property
    def log_likelihood(self) -> NDArray[np.float64]:
        """Log probability of the known entries."""
        return self._scalars.log_likelihood

    @property
    def covered(self) -> NDArray[np.int64]:
        """Known ones and known zeros that some component covers, ``(n_chains, n_draws, 2)``."""
        return self._scalars.covered

    @property
    def error(self) -> NDArray[np.float64]:
        """Share of the known entries that contradict the components of a draw."""
        covered = self.covered
        wrong = self.tensor.n_ones - covered[:, :, 0] + covered[:, :, 1]
        return wrong / self.tensor.n_known

    @property
    def acceptance(self) -> dict[str, tuple[int, int]]:
        """How often each move of whole components was tried and accepted after the warm-up.

        Moves that were never tried are left out. Empty for runs of earlier versions, which did
        not count moves.
        """
        return _accepted(self._scalars.moves.sum(axis=(0, 1)))

    @property
    def acceptance_by_chain(self) -> tuple[dict[str, tuple[int, int]], ...]:
        """The same as :attr:`acceptance`, for every chain by itself."""
        return tuple(map(_accepted, self._scalars.moves.sum(axis=1)))

    @property
    def starts(self) -> tuple[tuple[Attempted, ...], ...]:
        """What every chain reached before its first sweep, one entry per stage of its start.

        A stage is ``"grown"`` (a start of its own), ``"pooled"`` (another start was added to the
        best) or ``"regrown"`` (some components were removed and others grown in their place); it
        has the number of components, and the log evidence for them: the log joint density of the
        data and one side of the components, the other side summed out. With row and column
        effects, a start without components, one that fitted effects first and one that grew
        components first are ``"tried"`` on hidden entries, and one of them is ``"chosen"``; on
        long rows, what is hopeless is left out. The last stage is what the chain began with.
        Evidence can be compared between chains only if they grew their components on the same
        rows and entries (:class:`~thali.sampler.Schedule`). Empty for chains that did not grow
        components, and for runs of earlier versions.
        """
        return tuple(chain.start for chain in self._chains)

    @property
    def wall_seconds(self) -> float:
        """Duration of sampling in seconds, all sessions together; NaN if it was not recorded."""
        return float(np.max([chain.wall_seconds for chain in self._chains]))

    def draw(self, chain: int, draw: int) -> Draw:
        """Return one draw: its packed state and its log densities.

        Examples
        --------
        >>> posterior.draw(0, 49).state.n_components
        3
        """
        self._refuse("chain", chain, self.n_chains)
        self._refuse("draw", draw, self.n_draws)
        return self._chains[chain][self.n_left_out + draw]

    def _refuse(self, name: str, value: Any, end: int) -> None:
        """Raise an error if an index is not one."""
        if not is_integer(value) or not 0 <= value < end:
            msg = f"{name}={value!r} was given; there are {end}, numbered from 0; choose one."
            raise IndexError(msg)

    def factors(self, chain: int, draw: int) -> tuple[NDArray[np.bool_], ...]:
        """Return the factors of one draw, one per mode.

        Parameters
        ----------
        chain, draw
            Number of the chain, and of the draw within the chain, from 0.

        Returns
        -------
        factors
            Boolean ``(n_rows, n_components)`` arrays; the order of components means nothing.

        Examples
        --------
        >>> users, codes = posterior.factors(chain=0, draw=49)
        >>> users.shape, codes.shape
        ((60, 3), (80, 3))
        """
        return tuple(factor.dense() for factor in self.draw(chain, draw).state.factors)

    def _need_draws(self) -> None:
        if self.n_draws == 0:
            raise InvalidValue(
                "there are no draws yet",
                remedy=("go on with ", Resume(), " until the warm-up is over"),
            )


def _accepted(counts: NDArray[np.int64]) -> dict[str, tuple[int, int]]:
    """Name the moves that were tried; `counts` has their tries and acceptances, in order."""
    both = zip(MOVES, counts.tolist(), strict=True)
    return {name: (tries, accepted) for name, (tries, accepted) in both if tries}
