"""Posterior draws of one chain, kept in memory or gathered into arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np

from thali.bits import Factor
from thali.compiling import clock
from thali.model import Levels, Noise
from thali.model.levels import Hyper
from thali.sampler import State
from thali.sampler.schedule import MOVES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from thali.model import Effects
    from thali.sampler import Attempted, Info
    from thali.trace.settings import Settings


class Draw(NamedTuple):
    """A state that the chain keeps after warm-up. A chain can continue from any of its draws."""

    state: State
    log_joint: float
    log_likelihood: float
    moves: Mapping[str, tuple[int, int]] = {}
    """Tries and acceptances of every move in the sweeps since the previous draw."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the factors take."""
        return sum(factor.words.nbytes for factor in self.state.factors)


class Scalars(NamedTuple):
    """All quantities of the draws except the factors: arrays with one entry per draw."""

    n_components: NDArray[np.int64]
    noise: NDArray[np.float64]  # (n_draws, n_quantities), in the order of Noise.quantities()
    alpha: NDArray[np.float64]
    densities: NDArray[np.float64]  # (n_draws, n_modes); mean over components that have their own
    covered: NDArray[np.int64]  # (n_draws, 2): known ones and zeros predicted as one
    sweep: NDArray[np.int64]
    log_joint: NDArray[np.float64]
    log_likelihood: NDArray[np.float64]
    moves: NDArray[np.int64]  # (n_draws, n_moves, 2): tries and acceptances, in order of MOVES

    @classmethod
    def of(cls, draws: Sequence[Draw], arity: int) -> Scalars:
        """Collect the scalars of some draws."""
        states = [d.state for d in draws]
        densities = [[float(p.mean()) if p.size else np.nan for p in s.densities] for s in states]
        return cls(
            np.array([s.n_components for s in states], np.int64),
            np.array([s.noise.values() for s in states], np.float64).reshape(len(states), -1)
            if states
            else np.zeros((0, len(Noise.quantities()))),
            np.array([s.alpha for s in states], np.float64),
            np.array(densities, np.float64).reshape(len(states), arity),
            np.array([s.covered for s in states], np.int64).reshape(len(states), 2),
            np.array([s.sweep for s in states], np.int64),
            np.array([d.log_joint for d in draws], np.float64),
            np.array([d.log_likelihood for d in draws], np.float64),
            moves_of(draws),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Scalars]) -> Scalars:
        """Concatenate the scalars of consecutive draws."""
        some = [part for part in parts if len(part.n_components)] or parts[:1]
        columns: Iterator[Any] = zip(*some, strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def part(self, which: slice) -> Scalars:
        """Return the scalars of some of the draws."""
        columns: Iterator[Any] = (column[which] for column in self)
        return Scalars(*columns)


class Store(Protocol):
    """Keeps the draws of one chain and its present state."""

    state: State | None
    start: tuple[Attempted, ...]  # what the start of the chain reached; empty without one
    wall_seconds: float  # of sampling until the last flush; NaN if it was not recorded

    def record(self, state: State, info: Info) -> None:
        """Record a sweep; keep its state if it is a draw."""

    def put(self, draws: Sequence[Draw], now: Draw) -> None:
        """Take over new draws and the present state from another process."""

    def flush(self) -> None:
        """Write everything that was recorded since the last flush."""

    @property
    def moves(self) -> Mapping[str, tuple[int, int]]:
        """Tries and acceptances of moves since the last draw."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Draw: ...

    def __iter__(self) -> Iterator[Draw]: ...

    def scalars(self) -> Scalars:
        """Return all quantities of the draws except the factors."""


class MemoryStore:
    """The draws of one chain in memory."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state: State | None = None  # present state of the chain
        self.start: tuple[Attempted, ...] = ()
        self.draws: list[Draw] = []
        self.wall_seconds = 0.0
        self._moves = Acceptance()
        self._started = clock()

    def record(self, state: State, info: Info) -> None:
        """Record a sweep; keep its state if it is a draw."""
        self.state = state
        self._moves.add(info)
        if self.settings.is_draw(state.sweep):
            self.draws.append(self._moves.draw(state, info))

    def put(self, draws: Sequence[Draw], now: Draw) -> None:
        """Take over new draws and the present state from another process."""
        self.draws += draws
        self.state, self._moves = now.state, Acceptance(now.moves)

    def take_draws(self) -> list[Draw]:
        """Hand over the draws, and keep them no longer."""
        draws, self.draws = self.draws, []
        return draws

    @property
    def moves(self) -> Mapping[str, tuple[int, int]]:
        """Tries and acceptances of moves since the last draw."""
        return self._moves.moves

    def flush(self) -> None:
        """Record the time without that of compilation; the draws stay in memory."""
        self.wall_seconds = clock() - self._started

    def __len__(self) -> int:
        return len(self.draws)

    def __getitem__(self, index: int) -> Draw:
        return self.draws[index]

    def __iter__(self) -> Iterator[Draw]:
        return iter(self.draws)

    def scalars(self) -> Scalars:
        """Return all quantities of the draws except the factors."""
        return Scalars.of(self.draws, len(self.settings.shape))


class Acceptance:
    """Counts tries and acceptances of moves since the last draw, without warm-up."""

    def __init__(self, moves: Mapping[str, tuple[int, int]] | None = None) -> None:
        self.moves = dict(moves or {})

    def add(self, info: Info) -> None:
        """Add the tries and acceptances of a sweep."""
        if info.is_warmup:
            return
        for name, (tries, accepted) in info.moves.items():
            before = self.moves.get(name, (0, 0))
            self.moves[name] = before[0] + tries, before[1] + accepted

    def draw(self, state: State, info: Info) -> Draw:
        """Return the draw with the counts since the last one, and reset them."""
        moves, self.moves = self.moves, {}
        factors = tuple(factor.on_host() for factor in state.factors)
        state = state._replace(factors=factors, noise=state.noise.compact())
        return Draw(state, info.log_joint, info.log_likelihood, moves)


def moves_of(draws: Sequence[Draw]) -> NDArray[np.int64]:
    """Return the tries and acceptances of every draw, ``(n_draws, n_moves, 2)``."""
    counts = [[draw.moves.get(name, (0, 0)) for name in MOVES] for draw in draws]
    return np.array(counts, np.int64).reshape(len(counts), len(MOVES), 2)


def level_name(mode: int) -> str:
    """Return the name of the array with the levels of a mode."""
    return f"{('row', 'column')[mode]}_levels" if mode < 2 else f"mode_{mode}_levels"


class Chunk(NamedTuple):
    """Consecutive draws as arrays, with the components of all draws concatenated."""

    shape: tuple[int, ...]
    arrays: Mapping[str, NDArray[Any]]
    effects: Effects | None = None  # prior of the levels of rows and columns, if there are any

    @classmethod
    def of(cls, draws: Sequence[Draw], shape: tuple[int, ...]) -> Self:
        """Gather draws into arrays."""
        states = [d.state for d in draws]
        arrays: dict[str, NDArray[Any]] = {
            "n_components": np.array([s.n_components for s in states], np.int64),
            "noise": np.array([s.noise.values() for s in states], np.float64),
            "alpha": np.array([s.alpha for s in states], np.float64),
            "covered": np.array([s.covered for s in states], np.int64),
            "sweep": np.array([s.sweep for s in states], np.int64),
            "log_joint": np.array([d.log_joint for d in draws], np.float64),
            "log_likelihood": np.array([d.log_likelihood for d in draws], np.float64),
            "moves": moves_of(draws),
            "move_names": np.array(MOVES),
        }
        levels = [s.noise.compact() for s in states if isinstance(s.noise, Levels)]
        if levels:
            arrays["jumps"] = np.stack([noise.jumps for noise in levels])
            for mode in range(len(shape)):
                arrays[level_name(mode)] = np.stack([noise.lines[mode] for noise in levels])
            arrays["level_priors"] = np.array([noise.hyper.flat() for noise in levels], np.uint8)
        for mode in range(len(shape)):
            arrays[f"factor_{mode}"] = np.concatenate([s.factors[mode].words for s in states])
            parts = [s.densities[mode] for s in states]
            if parts[0].ndim == 0:
                arrays[f"density_{mode}"] = np.stack(parts)
            else:  # every component has its own density
                arrays[f"own_density_{mode}"] = np.concatenate(parts)
        return cls(shape, arrays)

    def __len__(self) -> int:
        return len(self.arrays["n_components"])

    def draws(self) -> list[Draw]:
        """Return the draws; their arrays are views of this chunk."""
        ends = np.cumsum(self.arrays["n_components"])
        starts = ends - self.arrays["n_components"]
        return [
            self._draw(i, slice(lo, hi))
            for i, (lo, hi) in enumerate(zip(starts, ends, strict=True))
        ]

    def _draw(self, i: int, components: slice) -> Draw:
        arrays = self.arrays

        def density(mode: int) -> NDArray[np.float64]:
            shared = arrays.get(f"density_{mode}")
            return arrays[f"own_density_{mode}"][components] if shared is None else shared[i]

        covered = arrays["covered"][i].tolist()
        state = State(
            tuple(Factor(arrays[f"factor_{m}"][components], n) for m, n in enumerate(self.shape)),
            self._noise(i),
            float(arrays["alpha"][i]),
            tuple(np.asarray(density(m)) for m in range(len(self.shape))),
            (covered[0], covered[1]),
            int(arrays["sweep"][i]),
        )
        moves = {}
        if "moves" in arrays:  # runs of earlier versions have no counts of moves
            names, counts = arrays["move_names"].tolist(), arrays["moves"][i].tolist()
            moves = {name: (tries, n) for name, (tries, n) in zip(names, counts, strict=True)}
        log_joint, log_likelihood = arrays["log_joint"][i], arrays["log_likelihood"][i]
        return Draw(state, float(log_joint), float(log_likelihood), moves)

    def scalars(self) -> Scalars:
        """Return all quantities of the draws except the factors."""
        return Scalars.of(self.draws(), len(self.shape))

    def _noise(self, i: int) -> Noise | Levels:
        arrays = self.arrays
        if self.effects is None:
            return Noise(*arrays["noise"][i].tolist())
        rows, columns, *more = (arrays[level_name(mode)][i] for mode in range(len(self.shape)))
        hyper = Hyper.of(arrays["level_priors"][i].tolist())
        return Levels(self.effects, rows, columns, arrays["jumps"][i], hyper, tuple(more))
