"""Reports of progress during a run: to a callback, or as progress bars."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("thali")


class Progress(NamedTuple):
    """The progress of one chain."""

    chain: int
    sweep: int  # number of completed sweeps
    n_sweeps: int  # number of sweeps of the whole chain
    is_warmup: bool
    n_components: int
    log_joint: float
    start: str = ""  # description of what the chain does before its first sweep


class Bars:
    """One progress bar per chain, made when its first sweep is reported."""

    def __init__(self) -> None:
        self._bars: dict[int, Any] = {}

    def __call__(self, now: Progress) -> None:
        """Show the progress of a chain."""
        from tqdm.auto import tqdm  # noqa: PLC0415 - imported only if bars are shown

        if now.chain not in self._bars:
            self._bars[now.chain] = tqdm(
                total=now.n_sweeps,
                desc=f"chain {now.chain + 1}",
                position=now.chain,
                initial=now.sweep,
                unit=" sweeps",
            )
        bar = self._bars[now.chain]
        stage = "warm-up, " if now.is_warmup else ""
        stage = f"{now.start}, " if now.start else stage
        bar.set_postfix_str(
            f"{stage}{now.n_components} components, log joint {now.log_joint:.1f}", refresh=False
        )
        bar.update(now.sweep - bar.n)

    def close(self) -> None:
        """Finish the bars, which stay visible."""
        for bar in self._bars.values():
            bar.close()


class Reporter:
    """Passes progress on to a callback; an error in the callback never stops a run."""

    def __init__(self, progress: bool | Callable[[Progress], object] | None) -> None:  # noqa: FBT001
        if progress is None:
            progress = _is_interactive()
        self._bars = Bars() if progress is True else None
        self._callback: Callable[[Progress], object] | None = self._bars
        if callable(progress):
            self._callback = progress
        elif not isinstance(progress, bool):
            msg = (
                f"progress={progress!r} was given; allowed are True, False, None (bars in a "
                "terminal or a notebook) and a function that takes a Progress."
            )
            raise TypeError(msg)
        self._reported: dict[int, tuple[int, str]] = {}

    def __call__(self, chains: list[Progress]) -> None:
        """Report the chains that have made progress since the last call."""
        if self._callback is None:
            return
        for now in chains:
            if self._reported.get(now.chain) == (now.sweep, now.start):
                continue
            self._reported[now.chain] = now.sweep, now.start
            try:
                self._callback(now)
            except Exception:
                log.exception("the progress callback failed; it is not called again")
                self._callback = None
                return

    def close(self) -> None:
        """Finish the bars, which stay visible."""
        if self._bars is not None:
            self._bars.close()


def _is_interactive() -> bool:
    """Return whether the output goes to a terminal or a notebook rather than to a log."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
