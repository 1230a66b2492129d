"""What a run tells while it runs: a callback, and progress bars for those who watch."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("thali")


class Progress(NamedTuple):
    """Where one chain is."""

    chain: int
    sweep: int  # completed
    n_sweeps: int  # of the whole chain
    is_warmup: bool
    n_components: int
    log_joint: float
    start: str = ""  # what it does before its first sweep, in words


class Bars:
    """One bar a chain; made when the first sweep is reported."""

    def __init__(self) -> None:
        self._bars: dict[int, Any] = {}

    def __call__(self, now: Progress) -> None:
        """Show where a chain is."""
        from tqdm.auto import tqdm  # noqa: PLC0415 - only those who watch pay for it

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
        """Leave the bars as they are."""
        for bar in self._bars.values():
            bar.close()


class Reporter:
    """Calls whoever wants to know; a callback can never stop a run."""

    def __init__(self, progress: bool | Callable[[Progress], object] | None) -> None:  # noqa: FBT001
        if progress is None:
            progress = _is_watched()
        self._bars = Bars() if progress is True else None
        self._callback: Callable[[Progress], object] | None = self._bars
        if callable(progress):
            self._callback = progress
        elif not isinstance(progress, bool):
            msg = (
                f"progress={progress!r} was given; allowed are True, False, None (bars where "
                "somebody watches) and a function that takes a Progress."
            )
            raise TypeError(msg)
        self._told: dict[int, tuple[int, str]] = {}

    def __call__(self, chains: list[Progress]) -> None:
        """Tell about the chains that have moved."""
        if self._callback is None:
            return
        for now in chains:
            if self._told.get(now.chain) == (now.sweep, now.start):
                continue
            self._told[now.chain] = now.sweep, now.start
            try:
                self._callback(now)
            except Exception:
                log.exception("the progress callback failed; it is not called again")
                self._callback = None
                return

    def close(self) -> None:
        """Leave the bars as they are."""
        if self._bars is not None:
            self._bars.close()


def _is_watched() -> bool:
    """Whether somebody looks: at a terminal or a notebook, not at a log."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
