"""Reports of progress during a run: to a callback, or as progress bars."""

from __future__ import annotations

import logging
import sys
from math import isnan, nan
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

log = logging.getLogger("thali")

_KERNELS = "compiling kernels (once)"


class Progress(NamedTuple):
    """The progress of one chain.

    Before its first sweep, a chain grows components (:mod:`thali.sampler.start`). ``start`` then
    says what it does, such as ``"starting: start 2 of 4"``, and ``evidence`` is the best log
    evidence so far. Later, ``start`` is empty. While kernels are compiled, as in the first run
    of all, ``kernels`` is how many there are by now, and about how many there will be. If several
    processes share the data, ``waited`` is the share of the time for which this one has waited
    for messages.
    """

    chain: int
    sweep: int  # number of completed sweeps
    n_sweeps: int  # number of sweeps of the whole chain
    is_warmup: bool
    n_components: int
    log_joint: float  # NaN before the first sweep
    start: str = ""
    evidence: float = nan  # NaN as long as it is not known, and after the start
    kernels: tuple[int, int] | None = None  # None: nothing is being compiled
    waited: float | None = None  # None: this process is alone

    def words(self) -> str:
        """Say what the chain does, its number of components and how good they are.

        Examples
        --------
        >>> Progress(0, 0, 600, True, 12, nan, "starting: start 2 of 4", -1259.13).words()
        'starting: start 2 of 4, 12 components, best log evidence -1259.1'
        >>> Progress(0, 9, 600, True, 1, -1300.0).words()
        'warm-up, 1 component, log joint -1300.0'
        """
        if self.kernels is not None:
            return compiling(self.kernels)
        stage = "warm-up" if self.is_warmup else ""
        parts = [self.start or stage]
        if self.n_components or not self.start:
            parts.append(n_components((self.n_components,)))
        if not self.start:
            parts.append(f"log joint {self.log_joint:.1f}")
        parts += [best_evidence((self.evidence,)), waiting(self.waited)]
        return ", ".join(filter(None, parts))


def compiling(kernels: tuple[int, int]) -> str:
    """Say how far the compilation is.

    Examples
    --------
    >>> compiling((45, 180))
    'compiling kernels (once): 45 of about 180'
    """
    return f"{_KERNELS}: {kernels[0]} of about {kernels[1]}"


def waiting(share: float | None) -> str:
    """Write the share of the time that a process has waited for messages.

    Examples
    --------
    >>> waiting(0.084), waiting(None)
    ('8% waiting for processes', '')
    """
    return "" if share is None else f"{share:.0%} waiting for processes"


def n_components(numbers: Collection[int]) -> str:
    """Write the number of components of some chains, or from the smallest to the largest.

    Examples
    --------
    >>> n_components([3, 5, 4]), n_components([1])
    ('3 to 5 components', '1 component')
    """
    low, high = min(numbers), max(numbers)
    spread = f"{low}" if low == high else f"{low} to {high}"
    return f"{spread} component{'s' * (spread != '1')}"


def best_evidence(values: Iterable[float]) -> str:
    """Write the log evidence of some chains, or from the lowest to the highest; NaN is left out.

    Examples
    --------
    >>> best_evidence([-1259.13, nan, -1246.1]), best_evidence([nan])
    ('best log evidence -1259.1 to -1246.1', '')
    """
    known = [value for value in values if not isnan(value)]
    if not known:
        return ""
    low, high = f"{min(known):.1f}", f"{max(known):.1f}"
    return f"best log evidence {low if low == high else f'{low} to {high}'}"


class Bars:
    """One progress bar per chain, made when its start or its first sweep is reported.

    If kernels are compiled, there is a bar about that, too.
    """

    def __init__(self) -> None:
        self._bars: dict[int | str, Any] = {}

    def __call__(self, now: Progress) -> None:
        """Show the progress of a chain."""
        from tqdm.auto import tqdm  # noqa: PLC0415 - imported only if bars are shown

        if now.kernels is not None:
            done, total = now.kernels
            if _KERNELS not in self._bars:
                self._bars[_KERNELS] = tqdm(
                    total=total, desc=_KERNELS, position=len(self._bars), initial=done, unit=""
                )
            bar = self._bars[_KERNELS]
            bar.total = max(total, done)
            bar.update(done - bar.n)
            return
        if now.chain not in self._bars:
            self._bars[now.chain] = tqdm(
                total=now.n_sweeps,
                desc=f"chain {now.chain + 1}",
                position=len(self._bars),
                initial=now.sweep,
                unit=" sweeps",
            )
        bar = self._bars[now.chain]
        bar.set_postfix_str(now.words(), refresh=False)
        bar.update(now.sweep - bar.n)

    def close(self) -> None:
        """Finish the bars, which stay visible."""
        for bar in self._bars.values():
            bar.close()


class Reporter:
    """Passes progress on to a callback; an error in the callback never stops a run.

    Parameters
    ----------
    progress
        None shows bars in a terminal or a notebook; True always, False never; or a function.
    bars
        Makes the bars, which show what they are called with.
    """

    def __init__(
        self,
        progress: bool | Callable[[Any], object] | None,  # noqa: FBT001
        bars: Callable[[], Any] = Bars,
    ) -> None:
        if progress is None:
            progress = _is_interactive()
        self._bars = bars() if progress is True else None
        self._callback: Callable[[Any], object] | None = self._bars
        if callable(progress):
            self._callback = progress
        elif not isinstance(progress, bool):
            msg = (
                f"progress={progress!r} was given; allowed are True, False, None (bars in a "
                "terminal or a notebook) and a function that takes a Progress."
            )
            raise TypeError(msg)
        self._reported: dict[int, Any] = {}

    def __call__(self, chains: Sequence[Any]) -> None:
        """Report the chains that have made progress since the last call.

        What has no chains, such as a search, counts as one.
        """
        if self._callback is None:
            return
        for now in chains:
            chain = getattr(now, "chain", 0)
            if self._reported.get(chain) == now:
                continue
            self._reported[chain] = now
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
