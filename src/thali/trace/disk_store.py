"""The draws of one chain on disk, written at checkpoints and checked when they are read."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from thali.compiling import clock
from thali.errors import TraceDamaged
from thali.model import Effects
from thali.trace.draws import Acceptance, Chunk, Draw, Scalars
from thali.trace.files import read_arrays, write_arrays
from thali.trace.sound import require_sound
from thali.trace.starts import start_arrays, start_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from thali.sampler import Attempted, Info, State
    from thali.trace.settings import Settings

_MOST_BYTES = 1 << 27
"""Largest size of the draws that wait in memory for the next checkpoint."""


class DiskStore:
    """The draws of one chain on disk, with the interface of a :class:`~thali.trace.MemoryStore`.

    Opening a store checks every file against the digest recorded when it was written. If a file
    is damaged, ``damage`` says what is wrong, and the draws before it can still be read.

    Parameters
    ----------
    folder
        Of the chain.
    settings
        Of the run.
    needs_seals
        Whether a file without a digest at its end is damaged; earlier versions wrote none.
    """

    def __init__(self, folder: Path, settings: Settings, *, needs_seals: bool = True) -> None:
        self.folder = folder
        self.settings = settings
        self.needs_seals = needs_seals
        self.state: State | None = None  # present state of the chain
        self.start: tuple[Attempted, ...] = ()
        self.damage: str | None = None
        self.pending: list[Draw] = []  # not on disk yet
        self._moves = Acceptance()
        self._starts: list[int] = []
        self._digests: list[bytes] = []
        self._stops: list[int] = []
        self._scalars: list[Scalars] = []
        self._cached: tuple[int, list[Draw]] = (-1, [])
        self._written_at = clock()
        self._written_sweep = 0
        self.wall_seconds = 0.0
        self.seconds = 10.0  # between checkpoints
        self._read()

    # --- writing -------------------------------------------------------------------------------

    def record(self, state: State, info: Info) -> None:
        """Record a sweep; write a checkpoint when it is due."""
        self.state = state
        self._moves.add(info)
        if self.settings.is_draw(state.sweep):
            self.pending.append(self._moves.draw(state, info))
        self._flush_if_due()

    def put(self, draws: Sequence[Draw], now: Draw) -> None:
        """Take over new draws and the present state from another process."""
        self.pending += draws
        self.state, self._moves = now.state, Acceptance(now.moves)
        self._flush_if_due()

    @property
    def moves(self) -> Mapping[str, tuple[int, int]]:
        """Tries and acceptances of moves since the last draw."""
        return self._moves.moves

    def _flush_if_due(self) -> None:
        is_time = clock() - self._written_at >= self.seconds
        n_bytes = self.pending[-1].nbytes * len(self.pending) if self.pending else 0
        if is_time or n_bytes > _MOST_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is not on disk yet: first the draws, then the state that lists them."""
        state = self.state
        if state is None or state.sweep == self._written_sweep:
            return
        start = len(self) - len(self.pending)
        starts, digests = list(self._starts), list(self._digests)
        if self.pending:
            chunk = Chunk.of(self.pending, self.settings.sampled_shape)
            # If the process dies before the first state is written, the draws must suffice.
            begun = start_arrays(self.start) if start == 0 else {}
            starts.append(start)
            digests.append(write_arrays(self._chunk_path(start), {**chunk.arrays, **begun}))
        now = Chunk.of(
            [Draw(state, np.nan, np.nan, self._moves.moves)], self.settings.sampled_shape
        )
        counter = {
            "starts": np.array(starts, np.int64),
            "digests": np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), 32),
        }
        # Add the seconds since this process opened the run or last wrote to it.
        wall_seconds = self.wall_seconds + clock() - self._written_at
        counter["wall_seconds"] = np.array(wall_seconds)
        write_arrays(
            self.folder / "state.npz", {**now.arrays, **counter, **start_arrays(self.start)}
        )
        if self.pending:
            self._add(start, digests[-1], Scalars.of(self.pending, len(self.settings.shape)))
            self.pending = []
        self._written_at, self._written_sweep = clock(), state.sweep
        self.wall_seconds = wall_seconds

    # --- reading -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return (self._stops[-1] if self._stops else 0) + len(self.pending)

    def __getitem__(self, index: int) -> Draw:
        n_stored = len(self) - len(self.pending)
        if index >= n_stored:
            return self.pending[index - n_stored]
        number = int(np.searchsorted(self._stops, index, side="right"))
        return self._draws(number)[index - self._starts[number]]

    def __iter__(self) -> Iterator[Draw]:
        for number in range(len(self._starts)):
            yield from self._draws(number)
        yield from self.pending

    def scalars(self) -> Scalars:
        """Return all quantities of the draws except the factors."""
        last = Scalars.of(self.pending, len(self.settings.shape))
        return Scalars.concatenate([*self._scalars, last])

    def rewind(self) -> None:
        """Go back to the last intact draw; from there, the chain repeats the same draws."""
        self.pending = []
        self.folder.mkdir(exist_ok=True)
        self.state = self[len(self) - 1].state if len(self) else None
        self._moves = Acceptance()
        self._written_sweep = 0
        self.damage = None

    def _read(self) -> None:
        if not self.folder.is_dir():
            self.damage = f"{self.folder} is missing."
            return
        path = self.folder / "state.npz"
        if not path.exists():
            self._read_without_state()
            return
        try:
            arrays = read_arrays(path, needs_seal=self.needs_seals)
            listed = self._listed(arrays)
            now = self._chunk(arrays).draws()[0]
            # Runs of earlier versions did not record the time.
            self.wall_seconds = float(arrays.get("wall_seconds", np.nan))
            self.start = start_of(arrays)
        except (TraceDamaged, KeyError, IndexError, ValueError, TypeError) as error:
            self.damage = _named(path, error)
            self._salvage()
            return
        for start, expected in listed:
            try:
                scalars = self._chunk(read_arrays(self._chunk_path(start), expected)).scalars()
                if start != len(self):
                    msg = f"its first draw should be number {len(self)}"
                    raise ValueError(msg)  # noqa: TRY301 - all damage is told alike
            except (TraceDamaged, ValueError) as error:
                self.damage = _named(self._chunk_path(start), error)
                return
            self._add(start, expected, scalars)
        self.state, self._written_sweep = now.state, now.state.sweep
        self._moves = Acceptance(now.moves)

    def _listed(self, arrays: Mapping[str, NDArray[Any]]) -> list[tuple[int, bytes]]:
        """Return the valid files of draws that the state lists: first draw, and digest."""
        starts, digests = arrays["starts"], arrays["digests"]
        are_rising = bool((np.diff(starts, prepend=-1) > 0).all()) and starts[:1].sum() == 0
        is_right = starts.dtype.kind == "i" and digests.dtype == np.uint8 and are_rising
        if not is_right or digests.shape != (len(starts), 32):
            msg = "its list of files cannot be right"
            raise ValueError(msg)
        return [(int(at), d.tobytes()) for at, d in zip(starts, digests, strict=True)]

    def _read_without_state(self) -> None:
        """Read a chain that has no state yet, or has lost it.

        The first checkpoint writes draws and then the state. A process that dies in between
        leaves a single file, which says all that is needed to continue after it.
        """
        paths = sorted(self.folder.glob("draws-*.npz"))
        if not paths:
            return  # no checkpoint was written yet
        self._salvage()
        if paths != [self._chunk_path(0)] or not len(self):
            self.damage = f"{self.folder / 'state.npz'} is missing."
            return
        self.state = self[len(self) - 1].state

    def _salvage(self) -> None:
        """Read the draws without the list in the state; every file has its own digest."""
        while (path := self._chunk_path(len(self))).exists():
            try:
                arrays = read_arrays(path, needs_seal=self.needs_seals)
                scalars = self._chunk(arrays).scalars()
                if not len(self):
                    self.start = start_of(arrays)
            except (TraceDamaged, ValueError):
                return
            if not len(scalars.sweep):
                return
            self._add(len(self), sha256(path.read_bytes()).digest(), scalars)

    def _add(self, start: int, expected: bytes, scalars: Scalars) -> None:
        self._starts.append(start)
        self._stops.append(start + len(scalars.n_components))
        self._digests.append(expected)
        self._scalars.append(scalars)

    def _draws(self, number: int) -> list[Draw]:
        """Read a file of draws; the file read last stays in memory."""
        if self._cached[0] != number:
            path = self._chunk_path(self._starts[number])
            arrays = read_arrays(path, self._digests[number])
            self._cached = (number, self._chunk(arrays).draws())
        return self._cached[1]

    def _chunk(self, arrays: Mapping[str, NDArray[Any]]) -> Chunk:
        """Return arrays as draws; raise an error if they cannot be draws of this run."""
        prior = self.settings.model.priors(len(self.settings.shape)).noise
        effects = prior if isinstance(prior, Effects) else None
        require_sound(arrays, self.settings.sampled_shape, effects)
        return Chunk(self.settings.sampled_shape, arrays, effects)

    def _chunk_path(self, start: int) -> Path:
        return self.folder / f"draws-{start:08d}.npz"


def _named(path: Path, error: Exception) -> str:
    """Return a sentence that names the file."""
    if isinstance(error, TraceDamaged):
        return str(error)
    reason = " ".join(str(error).split())[:200].rstrip(".")
    return f"{path} is damaged ({reason})."
