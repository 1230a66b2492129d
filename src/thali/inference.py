"""Where all stages meet: data in, posterior out; stored runs read and continued."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from thali.bits import PackedTensor
from thali.checks import count, positive
from thali.data import BinaryTensor
from thali.data.binary import own_names
from thali.errors import InvalidValue, TraceDamaged, TraceMismatch
from thali.execution import carry_on, finish, prepare
from thali.model import Model
from thali.model.simulate import Simulated
from thali.posterior import Posterior
from thali.progress import Reporter
from thali.sampler.schedule import make_schedule
from thali.sentences import AnyOf, Load, LoadPartially, Resume, was_given
from thali.sites import VERSION
from thali.trace import MemoryStore, Run, Settings
from thali.trace.compare import require_same
from thali.trace.files import only_writer
from thali.trace.run import Names, digest
from thali.workers import run_chains

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from thali.model import Beta, Fixed, Gamma, PerComponent
    from thali.model.noise import NoisePrior
    from thali.progress import Progress
    from thali.sampler import Schedule

WARMUP = 400
DRAWS = 400
"""Sweeps of a chain before and after draws count (docs/how-sure.md says how they were chosen)."""


def sample(
    data: Any,
    *,
    n_components: int | None = None,
    noise: str | NoisePrior = "unequal",
    alpha: float | Gamma | None = None,
    density: float | Beta | Fixed | PerComponent | tuple[Any, ...] | None = None,
    schedule: str | Schedule = "parallel",
    chains: int = 4,
    warmup: int = WARMUP,
    draws: int = DRAWS,
    thin: int = 1,
    seed: int | None = None,
    engine: str = "auto",
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    checkpoint: float = 10.0,
    progress: bool | Callable[[Progress], object] | None = None,
) -> Posterior:
    """Sample the posterior of the components behind binary data.

    Chains run side by side on the threads given, and are the same as if each ran alone. Chains of
    16,384 rows or more start with some of them (:class:`~thali.sampler.Schedule`). Ctrl-C ends the
    run early: what all chains have drawn is returned (and kept, with ``out``).

    Parameters
    ----------
    data
        Zeros, ones and unknown entries (NaN, None, masked): an array, nested lists, a sparse
        matrix, a data frame or a :class:`~thali.BinaryTensor`; rows are what has components.
    n_components
        None infers their number; an integer fixes it.
    noise
        ``"unequal"`` rates of spurious and dropped ones, ``"equal"``, ``"as-published"`` (not a
        posterior), or a prior from :mod:`thali.model`.
    alpha
        Concentration of the buffet: a number, or a :class:`~thali.model.Gamma` prior (default).
    density
        Prior of the components' entries: a number, :class:`~thali.model.Beta` (default) or
        :class:`~thali.model.PerComponent`, or one for each mode that has a density.
    schedule
        ``"parallel"``, ``"serial"`` or ``"serial-integrated"``, or a
        :class:`~thali.sampler.Schedule` (its warm-up is replaced by ``warmup``).
    chains, warmup, draws, thin
        Number of chains; sweeps of each before draws count; draws of each; sweeps a draw.
    seed
        Same seed, same draws, on any number of threads. None takes a fresh one, kept in
        ``posterior.settings.seed``.
    engine, threads
        Where to compute (``"auto"``, ``"cpu"`` or ``"gpu"``), and on how many threads (default:
        all cores, which also check and pack large sparse data).
    out
        Folder for a run that survives a power cut: see :func:`load` and :func:`resume`.
    checkpoint
        Seconds between two writes to it.
    progress
        None shows bars where somebody watches; True and False show them always and never; a
        function is called with a :class:`~thali.progress.Progress` several times a second.

    Returns
    -------
    posterior
        Draws of the number of components, factors, rates and hyperparameters.

    Warns
    -----
    NotConverged
        If the chains have not agreed.

    Examples
    --------
    >>> import thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(data.tensor, chains=2, warmup=150, draws=50, seed=1)
    >>> int(posterior.n_components_table().idxmax())
    3
    """
    tensor, names = _packed(data, threads)
    given: dict[str, Any] = {"alpha": alpha, "density": density}
    model = Model(n_components, noise, **{k: v for k, v in given.items() if v is not None})
    settings = Settings(
        tensor.shape,
        model,
        make_schedule(schedule, warmup),
        secrets.randbits(63) if seed is None else seed,
        chains,
        draws,
        thin,
    )
    seconds = positive("checkpoint", checkpoint)
    reporter = Reporter(progress)
    target, n_workers = prepare(tensor, settings, engine, threads)
    if out is None:
        stores = [MemoryStore(settings) for _ in range(chains)]
        is_interrupted = run_chains(target, settings, stores, n_workers, reporter)
        return finish(settings, tensor, names, stores, is_interrupted)
    run = Run.create(out, settings, tensor, names)
    with only_writer(run.folder):
        drawn = carry_on(run, target, n_workers, reporter, seconds)
    return finish(settings, tensor, names, *drawn)


def load(path: str | os.PathLike[str], *, partial: bool = False) -> Posterior:
    """Read a stored run, finished or not.

    Parameters
    ----------
    path
        The folder that ``sample(out=…)`` made.
    partial
        If a file is damaged, read the draws before it instead of raising an error.

    Returns
    -------
    posterior
        The draws that all chains have; possibly none yet.

    Raises
    ------
    TraceDamaged
        If a file is missing, cut off or altered; :func:`resume` repairs draws.

    Examples
    --------
    >>> import tempfile, thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     drawn = thali.sample(data.tensor, chains=2, warmup=150, draws=50, seed=1, out=folder)
    ...     read = thali.load(folder)
    >>> bool((read.n_components == drawn.n_components).all())
    True
    """
    run = Run.open(path)
    stores = [run.chain(number) for number in range(run.settings.chains)]
    damage = next((s.damage for s in stores if s.damage), None)
    if damage and not partial:
        raise TraceDamaged(
            f"{damage} {min(map(len, stores))} draws per chain are intact",
            remedy=AnyOf(
                (LoadPartially(), " reads these"),
                (Resume(run.folder), " computes the others again"),
                joint=", and ",
            ),
        )
    tensor, names = run.data()
    return Posterior(run.settings, tensor, names, stores)


def resume(
    path: str | os.PathLike[str],
    data: Any = None,
    *,
    draws: int | None = None,
    engine: str = "auto",
    threads: int | None = None,
    checkpoint: float = 10.0,
    progress: bool | Callable[[Progress], object] | None = None,
    **settings: Any,
) -> Posterior:
    """Go on with a stored run that was stopped, or that should have more draws.

    The result is bit for bit what a run that was never stopped gives. Damaged files of draws are
    computed again.

    Parameters
    ----------
    path
        The folder that ``sample(out=…)`` made; nothing else is needed.
    data
        If given, it must be the data of the run.
    draws
        Draws a chain to go on to; by default what was asked for.
    engine, threads, checkpoint, progress
        As in :func:`sample`; they do not change the draws.
    **settings
        Other arguments of :func:`sample`; if given, they must be those of the run.

    Returns
    -------
    posterior
        All draws of the run.

    Raises
    ------
    TraceMismatch
        If data or settings are not those of the run.

    Examples
    --------
    >>> import tempfile, thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = thali.sample(data.tensor, chains=2, warmup=150, draws=50, seed=1, out=folder)
    ...     more = thali.resume(folder, draws=60)
    >>> more.n_components.shape
    (2, 60)
    """
    seconds = positive("checkpoint", checkpoint)
    reporter = Reporter(progress)
    run = Run.open(path)
    if run.header["stream"] != VERSION:
        msg = (
            f"{run.folder} was drawn by thali {run.header['version']}, whose random stream "
            "differs; going on would not repeat it; use that version, or start anew."
        )
        raise TraceMismatch(msg)
    require_same(run.settings, settings)
    tensor, names = run.data()
    if data is not None and digest(_packed(data, threads)[0]) != run.header["digest"]:
        raise TraceMismatch(
            f"the data given are not those of {run.folder}",
            "going on with a run needs no data",
            "leave them out",
        )
    if draws is not None:
        count("draws", draws, least=1)
    target, n_workers = prepare(tensor, run.settings, engine, threads)
    with only_writer(run.folder):
        run = Run.open(path)  # somebody else may have extended it
        if draws is not None and draws != run.settings.draws:
            n_drawn = max(len(run.chain(number)) for number in range(run.settings.chains))
            if draws < n_drawn:
                raise InvalidValue(
                    was_given("draws", draws),
                    f"{run.folder} has {n_drawn} draws per chain already",
                    ("give at least as many, or read the run with ", Load(run.folder)),
                )
            run = run.extend(draws)
        drawn = carry_on(run, target, n_workers, reporter, seconds)
    return finish(run.settings, tensor, names, *drawn)


def _packed(data: Any, threads: int | None) -> tuple[PackedTensor, Names]:
    """Pack the data, and take their names along."""
    if isinstance(data, PackedTensor):
        return data, Names(*own_names(data, len(data.shape)))
    if isinstance(data, Simulated):
        msg = "simulated data with their truth were given; pass their `.tensor` alone."
        raise TypeError(msg)
    tensor = BinaryTensor.from_any(data, threads=threads)
    packed = PackedTensor.from_tensor(tensor, threads)
    return packed, Names(tensor.mode_names, tensor.row_names)
