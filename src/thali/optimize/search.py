"""Searchers on several threads, which begin every round at what was found before."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.compiling import clock
from thali.optimize.searcher import Searcher
from thali.optimize.strategies import FREE, UNDER, leg, rounds
from thali.streams import chain_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from thali.bits import Index, Words
    from thali.optimize.searcher import Problem

SEARCHERS = 4
"""Searchers of a search whose number of sweeps is given: the same on any number of threads."""

_MEMORY = 4 << 30  # bytes that searchers may take together
_SECONDS = 0.1  # between two reports of progress


class Found(NamedTuple):
    """The best factors of a search, and how it went."""

    lines: tuple[Words, Words]
    errors: Index  # covered zeros, and ones that are not covered
    trace: list[tuple[float, int, int]]  # seconds, and the errors of both kinds
    seconds: float
    is_stopped: bool


def search(
    problem: Problem,
    *,
    is_under: bool,
    seconds: float | None,
    sweeps: int,
    seed: int,
    threads: int,
    report: Callable[[float, Index], None],
) -> Found:
    """Search on all threads; Ctrl-C ends the search early."""
    start = clock()
    most = max(1, _MEMORY // max(1, problem.nbytes))
    n_searchers = SEARCHERS if seconds is None else min(threads, most)
    searchers = [Searcher(problem, chain_key(seed, i), start) for i in range(n_searchers)]
    strategies = UNDER if is_under else FREE
    by_strategy = np.full(len(strategies), np.inf)
    best, errors = searchers[0].best, searchers[0].errors.copy()
    stop, past, is_stuck = Event(), 0.0, False
    with ThreadPoolExecutor(min(threads, n_searchers), "thali") as pool:
        for number, share in enumerate(rounds(len(strategies))):
            winner = int(by_strategy.argmin())
            legs = [
                leg(strategies, number, i, winner, is_stuck=is_stuck) for i in range(n_searchers)
            ]
            before = problem.loss(errors)
            swaps = round(share * sweeps * problem.n_components)
            until = None if seconds is None else start + (past + share) * seconds
            tasks = []
            for searcher, part in zip(searchers, legs, strict=True):
                searcher.begin(None if part.is_fresh else best)
                tasks.append(pool.submit(searcher.run, part.phases, until, swaps, stop))
            while _are_running(tasks, stop):
                done = past + share * min(searcher.done for searcher in searchers)
                report(done, min((errors, *(s.errors for s in searchers)), key=problem.loss))
            for searcher, part in zip(searchers, legs, strict=True):  # in the same order always
                by_strategy[part.strategy] = min(by_strategy[part.strategy], searcher.loss)
                if searcher.loss < problem.loss(errors):
                    best, errors = searcher.best_so_far()
            past += share
            is_stuck = problem.loss(errors) >= before
            if stop.is_set() or problem.loss(errors) <= problem.bound:
                break
    report(1.0, errors)
    return Found(best, errors, _joined(searchers), clock() - start, stop.is_set())


def _are_running(tasks: list[Future[None]], stop: Event) -> bool:
    """Wait a moment; return whether tasks go on. Ctrl-C asks them to stop."""
    try:
        _, running = wait(tasks, _SECONDS)
    except KeyboardInterrupt:
        stop.set()
        return True
    if not running:
        for task in tasks:
            task.result()  # raises what went wrong in a thread
    return bool(running)


def _joined(searchers: list[Searcher]) -> list[tuple[float, int, int]]:
    """Return the improvements of all searchers together."""
    trace, lowest = [], np.inf
    for moment in sorted(moment for searcher in searchers for moment in searcher.trace):
        loss = searchers[0].problem.loss(moment[1:])
        if loss < lowest:
            lowest = loss
            trace.append(moment)
    return trace
