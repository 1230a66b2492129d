"""The factorization of a given size with the fewest errors."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from thali.bits import Factor
from thali.checks import count, positive
from thali.compiling import clock
from thali.errors import EngineUnavailable, InvalidValue
from thali.inference import packed
from thali.optimize.bounds import lower_bound
from thali.optimize.covers import fewest_components
from thali.optimize.factorization import make
from thali.optimize.search import search
from thali.optimize.searcher import Problem
from thali.progress import Reporter
from thali.sentences import Argument, Setting, n_of, was_given
from thali.streams import chain_key
from thali.threads import n_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from thali.bits import Index, PackedTensor
    from thali.optimize.covers import Cover
    from thali.optimize.factorization import Factorization

log = logging.getLogger("thali")

SECONDS = 30.0
"""Seconds of a search if neither seconds nor sweeps are given."""

_STOPPED = "stopped early, after %.1f seconds."


class SearchProgress(NamedTuple):
    """The progress of a search for the fewest errors."""

    share: float  # of the search that is done, from 0 to 1
    zeros_inside: int  # errors of the best factors so far: covered zeros,
    ones_outside: int  # and ones that are not covered
    n_components: int | None = None  # of an exact cover: how many it has,
    at_least: int | None = None  # and how many any has

    def words(self) -> str:
        """Say how good the best factors are.

        Examples
        --------
        >>> SearchProgress(0.5, 3, 9).words()
        'best: 12 errors'
        >>> SearchProgress(0.5, 0, 0, 20, 19).words()
        'best: 20 components, at least 19 are needed'
        """
        if self.n_components is not None:
            number = n_of(self.n_components, "component")
            return f"best: {number}, at least {self.at_least} are needed"
        return f"best: {n_of(self.zeros_inside + self.ones_outside, 'error')}"


class Bar:
    """A progress bar of a search."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, now: SearchProgress) -> None:
        """Show the progress."""
        from tqdm.auto import tqdm  # noqa: PLC0415 - imported only if bars are shown

        if self._bar is None:
            form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}"
            self._bar = tqdm(total=1.0, desc="searching", bar_format=form)
        self._bar.set_postfix_str(now.words(), refresh=False)
        self._bar.update(now.share - self._bar.n)

    def close(self) -> None:
        """Finish the bar, which stays visible."""
        if self._bar is not None:
            self._bar.close()


def minimize(
    data: Any,
    n_components: int | None = None,
    *,
    cost: tuple[float, float] = (1.0, 1.0),
    exact: bool | str = False,
    seconds: float | None = None,
    sweeps: int | None = None,
    seed: int | None = None,
    engine: str = "auto",
    threads: int | None = None,
    progress: bool | Callable[[SearchProgress], object] | None = None,
) -> Factorization:
    """Find components with the fewest errors: known entries that contradict them.

    This answers another question than :func:`thali.sample`: not what the data say about the
    components, but which components reproduce the data best. The answer is the best of a random
    search, and is proven to be the minimum only if it says so
    (:attr:`~thali.optimize.Factorization.is_optimal`). Ctrl-C returns the best so far.

    Parameters
    ----------
    data
        A matrix of zeros, ones and unknown entries, as for :func:`thali.sample`. Unknown entries
        are not counted.
    n_components
        Number of components; None only with ``exact=True``.
    cost
        Cost of a zero that is covered, and of a one that is not; the sum over all errors is
        minimized.
    exact
        ``True`` allows no errors, and finds the fewest components that have none. ``"under"``
        allows no component to cover a zero, so that all errors are uncovered ones.
    seconds
        Duration of the search; 30 if ``sweeps`` are not given either. More seconds, or more
        threads, find fewer errors.
    sweeps
        Work of the search, instead of seconds: in a sweep, every component is replaced once on
        average. The same seed then gives the same answer on any number of threads.
    seed
        Seed of the random numbers; None chooses one at random, and the result keeps it.
    engine, threads
        ``"auto"`` or ``"cpu"``, as the search runs on the CPU; number of threads (default: all
        cores).
    progress
        As for :func:`thali.sample`; a function is called with a
        :class:`~thali.optimize.SearchProgress`.

    Returns
    -------
    factorization
        The factors and their errors.

    Examples
    --------
    >>> import numpy as np, thali
    >>> table = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]])
    >>> found = thali.minimize(table, 2, sweeps=10, seed=1, progress=False)
    >>> found
    Factorization(2 components, data (3, 4), 0 errors, which is the minimum)
    >>> found.components().to_numpy().tolist()
    [[1, 1, 0, 0], [0, 0, 1, 1]]
    >>> thali.minimize(table, exact=True, sweeps=10, seed=1, progress=False)
    Factorization(2 components, data (3, 4), 0 errors, which is the minimum)
    """
    is_cover, is_under = _checked(n_components, exact, engine)
    costs = _costs(cost)
    duration, n_sweeps = _budget(seconds, sweeps)
    workers = n_threads(threads)
    seed = secrets.randbits(63) if seed is None else seed
    chain_key(seed)  # raises an error if it is none
    reporter = Reporter(progress, Bar)
    tensor, names = packed(data, threads)
    if len(tensor.shape) != 2:
        raise InvalidValue(
            f"a tensor of {len(tensor.shape)} modes was given",
            "errors are minimized for matrices",
            "give two modes, or sample its posterior instead",
        )
    about = {"cost": costs, "is_under": is_under, "seed": seed}
    try:
        if is_cover:
            cover, spent = _cover(tensor, duration, n_sweeps, seed, workers, reporter)
            if cover.is_stopped:
                log.warning(_STOPPED, spent)
            lines = (Factor.from_dense(cover.users).words, Factor.from_dense(cover.codes).words)
            return make(
                lines, tensor, names, zeros_inside=0, ones_outside=0, lower_bound=0.0,
                fewest_components=cover.lower_bound, trace=cover.trace, seconds=spent,
                is_stopped=cover.is_stopped, **about,
            )  # fmt: skip
        assert n_components is not None
        problem = Problem.of(tensor, n_components, costs)
        problem = problem._replace(bound=lower_bound(problem, is_under=is_under))

        def report(share: float, errors: Index) -> None:
            reporter([SearchProgress(share, *map(int, errors))])

        found = search(
            problem, is_under=is_under, seconds=duration, sweeps=n_sweeps, seed=seed,
            threads=workers, report=report,
        )  # fmt: skip
    finally:
        reporter.close()
    if found.is_stopped:
        log.warning(_STOPPED, found.seconds)
    inside, outside = map(int, found.errors)
    return make(
        found.lines, tensor, names, zeros_inside=inside, ones_outside=outside,
        lower_bound=problem.bound, fewest_components=None, trace=found.trace,
        seconds=found.seconds, is_stopped=found.is_stopped, **about,
    )  # fmt: skip


def _cover(
    tensor: PackedTensor,
    seconds: float | None,
    sweeps: int,
    seed: int,
    threads: int,
    reporter: Reporter,
) -> tuple[Cover, float]:
    """Find an exact cover; return it, and how long that took."""
    begun = clock()
    first = tensor.unfoldings[0]

    def report(n_components: int, at_least: int) -> None:
        share = 0.0 if seconds is None else min(1.0, (clock() - begun) / seconds)
        reporter([SearchProgress(share, 0, 0, n_components, at_least)])

    cover = fewest_components(
        first.ones, first.known, n_rows=tensor.shape[0], n_columns=tensor.shape[1],
        seconds=seconds, sweeps=None if seconds is not None else sweeps, seed=seed,
        threads=threads, on_progress=report,
    )  # fmt: skip
    return cover, clock() - begun


def _checked(n_components: int | None, exact: bool | str, engine: str) -> tuple[bool, bool]:  # noqa: FBT001
    """Check what is asked for; return whether no errors are allowed, and no covered zeros."""
    if not (isinstance(exact, bool) or exact == "under"):
        raise InvalidValue(
            was_given("exact", exact),
            'allowed are False, True (no errors) and "under" (no covered zeros)',
            "choose one",
        )
    if exact is True and n_components is not None:
        raise InvalidValue(
            (
                Setting("exact", exact),
                " and ",
                Setting("n_components", n_components),
                " were given",
            ),
            "without errors, the number of components is what is searched for",
            ("leave ", Argument("n_components"), " out"),
        )
    if n_components is None and exact is not True:
        raise InvalidValue(
            was_given("n_components", None),
            "the fewest errors are those of a given number of components",
            ("give ", Argument("n_components"), ", or infer it by sampling the posterior"),
        )
    if n_components is not None:
        count("n_components", n_components, least=1)
    if engine == "gpu":
        raise EngineUnavailable(
            was_given("engine", engine), "errors are minimized on the CPU", 'choose "auto"'
        )
    if engine not in ("auto", "cpu"):
        raise InvalidValue(
            was_given("engine", engine), 'allowed are "auto" and "cpu"', "choose one"
        )
    return exact is True, exact is not False


def _costs(cost: Any) -> tuple[float, float]:
    if not isinstance(cost, tuple | list) or len(cost) != 2:
        raise InvalidValue(
            was_given("cost", cost),
            "allowed are two positive numbers: of a covered zero, and of an uncovered one",
            "give a pair",
        )
    return positive("cost", cost[0]), positive("cost", cost[1])


def _budget(seconds: float | None, sweeps: int | None) -> tuple[float | None, int]:
    """Return the seconds of a search, None if its work is given instead, and the sweeps."""
    if sweeps is None:
        return SECONDS if seconds is None else positive("seconds", seconds), 0
    if seconds is not None:
        raise InvalidValue(
            (Setting("seconds", seconds), " and ", Setting("sweeps", sweeps), " were given"),
            "allowed is one of them",
            "leave the other out",
        )
    return None, count("sweeps", sweeps, least=1)
