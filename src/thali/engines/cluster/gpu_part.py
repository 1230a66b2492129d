"""A GPU engine with some rows of every mode, under their numbers in the whole data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thali.engines.cluster.parts import as_numbered
from thali.engines.gpu.device_memory import GB, SPARE, RowBlock, i64, stride_of, u64
from thali.engines.gpu.engine import GpuEngine
from thali.engines.host import NOTHING
from thali.errors import EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thali.bits import Totals
    from thali.engines.cluster.parts import Part
    from thali.engines.gpu.device_memory import Lines


class GpuPart(GpuEngine):
    """Computes on one device, which must be asked about the rows of its process alone."""

    def hold_parts(self, parts: Sequence[Part], totals: Totals) -> None:
        """Copy the rows of every mode to the device."""
        self.parts, self.totals = parts, totals
        shape = totals.shape
        self._check_parts()
        self._here: list[tuple[Lines, Lines | None]] = [
            (self.upload(part.ones), None if part.known is None else self.upload(part.known))
            for part in parts
        ]
        self._unfoldings = [
            (self._numbered(mode, ones), None if known is None else self._numbered(mode, known))
            for mode, (ones, known) in enumerate(self._here)
        ]
        lo, _, ones, known = parts[0]
        mask = NOTHING if known is None else as_numbered(known, lo, shape[0])
        self._first = as_numbered(ones, lo, shape[0]), mask

    def room(self) -> int:
        """Return the number of bytes of the rows that are here."""
        return sum(lines.words.nbytes for pair in self._here for lines in pair if lines)

    def lines_here(self, mode: int) -> tuple[int, int]:
        """Return the first line of a mode that is here, and the line after the last."""
        lo, hi, _, _ = self.parts[mode]
        return lo, hi

    def known_of_lines(self, mode: int) -> Any:
        """Return the numbers of ones and of known entries of the lines that are here."""

        def make() -> Any:
            (lo, hi), (ones, known) = self.lines_here(mode), self._here[mode]
            out = self.xp.zeros((self.totals.shape[mode], 2), u64)
            out[lo:hi] = self.sizes_of(ones)
            out[lo:hi, 1] = (
                self.totals.n_columns(mode) if known is None else self.sizes_of(known)[:, 0]
            )
            return out

        return self.kept(f"known {mode}", self.totals, make)

    def transposed_range(self, mode: int, start: int, stop: int) -> tuple[Any, Any]:
        """Return the transposed data of a range of rows, which starts at a multiple of 128.

        Where rows before those of this process would be asked for, it is one of its own instead:
        the caller leaves them out.
        """
        lo, hi = self.lines_here(mode)
        rows = self.xp.clip(self.xp.arange(start, stop, dtype=i64), lo, hi - 1)
        return self.transposed(mode, RowBlock(rows))

    def _numbered(self, mode: int, lines: Lines) -> Lines:
        """Return lines whose numbers are those in the whole unfolding."""
        lo, n = self.parts[mode].lo, self.totals.shape[mode]
        words = lines.words
        if isinstance(words, np.ndarray):  # tests compute on the host
            return lines._replace(words=as_numbered(words, lo, n))
        if len(words) == 0:  # there is no memory whose address could be shifted
            words = self.xp.zeros((1, words.shape[1]), words.dtype)
        at = words.data - lo * words.shape[1] * words.itemsize  # keeps the memory
        return lines._replace(words=self.xp.ndarray((n, words.shape[1]), words.dtype, at))

    def _check_parts(self) -> None:
        sizes = [8 * len(part.ones) * stride_of(64 * part.ones.shape[1]) for part in self.parts]
        needed = sum(sizes) * (1 + (self.parts[0].known is not None)) + max(sizes) // 2 + SPARE
        free = self.device.free_bytes()
        if needed > free:
            msg = (
                f"the rows of this process need {needed / GB:.1f} GB on its GPU, where "
                f"{free / GB:.1f} GB are free; start more processes on more GPUs."
            )
            raise EngineUnavailable(msg)
