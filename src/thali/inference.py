"""Sample a posterior from data, load a stored run, and resume one."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from thali.bits import PackedTensor
from thali.checks import count, mode_number, positive
from thali.data import BinaryTensor
from thali.data.binary import own_names
from thali.data.layout import to_front
from thali.defaults import CHAINS, DRAWS, WARMUP
from thali.engines.choose import processes_for
from thali.errors import InvalidValue, TraceDamaged, TraceMismatch
from thali.execution import carry_on, draw, finish, n_at_a_time, prepare, with_density
from thali.model import Model
from thali.model.model import noise_for
from thali.model.simulate import Simulated
from thali.posterior import Posterior
from thali.progress import Reporter
from thali.sampler.schedule import make_schedule
from thali.sentences import AnyOf, Load, LoadPartially, Resume, n_of, was_given
from thali.sites import VERSION
from thali.trace import Run, Settings
from thali.trace.compare import require_same
from thali.trace.files import only_writer
from thali.trace.run import Names, digest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from thali.model import Beta, Fixed, Gamma, PerComponent
    from thali.model.noise import NoisePrior
    from thali.progress import Progress
    from thali.sampler import Schedule


def sample(
    data: Any,
    *,
    n_components: int | None = None,
    noise: str | NoisePrior = "auto",
    alpha: float | Gamma | None = None,
    density: float | Beta | Fixed | PerComponent | tuple[Any, ...] | None = None,
    mode: int | str = 0,
    schedule: str | Schedule = "parallel",
    chains: int = CHAINS,
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

    Chains run side by side on the given threads; their draws are the same as if each ran alone.
    If the number of components is inferred, a chain first grows components on the data (on a
    subset of the rows if there are 16,384 or more), see :class:`~thali.sampler.Schedule`. Ctrl-C
    ends the run early: the draws that all chains have by then are returned (and kept if ``out`` is
    given).

    Parameters
    ----------
    data
        Zeros, ones and unknown entries (NaN, None, masked): an array, nested lists, a sparse
        matrix, ``(coords, shape)`` or a ``COO`` array of a sparse tensor, a data frame, or a
        :class:`~thali.BinaryTensor`, whose ``from_any`` explains these, unknown entries of sparse
        tensors and data frames that list entries.
    n_components
        Number of components; None infers it.
    noise
        ``"effects"`` (some rows and columns are fuller than others), ``"unequal"`` (a false
        positive and a false negative rate), ``"equal"`` (one rate for both), ``"as-published"``
        (not a posterior), or a prior from :mod:`thali.model`. ``"auto"`` is ``"effects"`` for a
        matrix whose number of components is inferred, and ``"unequal"`` otherwise;
        ``posterior.settings.model.noise`` says which it was.
    alpha
        Concentration of the Indian buffet process: a number, or a
        :class:`~thali.model.Gamma` prior (default).
    density
        Prior density of ones in the components: a number, :class:`~thali.model.Beta` (one unknown
        density) or :class:`~thali.model.PerComponent` (one for each component), or a tuple with
        one of these for every mode that has a density. None is ``Beta()``, or
        ``PerComponent(4, 4)`` if a matrix has rows of 1,000 entries or more, components grown on
        a part of it differ much in size, and those grown with own densities explain it better.
        ``posterior.settings.model.density`` says which it was.
    mode
        The mode to whose rows components are assigned by the Indian buffet process, by number or
        name; the lines of all other modes have a density. 0 for the rows of a matrix, 1 for its
        columns. Everything that is returned has its modes in the order of the data.
    schedule
        ``"parallel"``, ``"serial"`` or ``"serial-integrated"``, or a
        :class:`~thali.sampler.Schedule` (``warmup`` replaces its own warm-up).
    chains, warmup, draws, thin
        Number of chains; warm-up sweeps per chain; draws kept per chain; sweeps per draw.
    seed
        Seed of the random numbers. The same seed gives the same draws on any number of threads.
        None chooses a seed at random and keeps it in ``posterior.settings.seed``.
    engine, threads
        Engine to run on (``"auto"``, ``"cpu"``, ``"gpu"`` or ``"mpi"``), and number of threads
        (default: all cores). The threads also check and pack large sparse data. Long runs on
        small data have that many processes instead; ``threads=1`` keeps everything in this one.
        If mpiexec has started several processes, ``"auto"`` is ``"mpi"``: they share the data,
        and all must make this call. The first of them returns the posterior, the others None.
    out
        Folder in which the run is stored, so that it survives a power cut; see :func:`load` and
        :func:`resume`.
    checkpoint
        Seconds between two writes to ``out``.
    progress
        None shows progress bars in a terminal or a notebook; True always shows them, False never.
        A function is called several times per second with a :class:`~thali.progress.Progress`.

    Returns
    -------
    posterior
        Draws of the number of components, factors, error rates and hyperparameters.

    Warns
    -----
    NotConverged
        If the chains disagree.

    Examples
    --------
    >>> import thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> int(posterior.n_components_table().idxmax())
    3
    """
    seconds = positive("checkpoint", checkpoint)
    with processes_for(engine) as processes:
        reporter = Reporter(progress if processes.is_first else False)
        tensor, names = packed(data, threads)
        given: dict[str, Any] = {"alpha": alpha, "density": density}
        mode = mode_number(mode, names.modes)
        noise = noise_for(noise, to_front(tensor.shape, mode), n_components)
        model = Model(n_components, noise, **{k: v for k, v in given.items() if v is not None})
        settings = Settings(
            tensor.shape,
            model,
            make_schedule(schedule, warmup),
            processes.of_first(secrets.randbits(63)) if seed is None else seed,
            chains,
            draws,
            thin,
            mode,
        )
        processes.require_same("settings", (settings, density is None))
        if out is not None:  # before anything takes time
            processes.first_does(lambda: Run.require_new(out))
        target = prepare(tensor, settings, engine, threads)
        is_stopped = False
        if density is None:
            target, settings, is_stopped = with_density(target, settings, reporter, processes)
        if not is_stopped:
            place = None if out is None else (out, tensor, names, seconds)
            drawn = draw(target, settings, reporter, processes, place)
    if not processes.is_first:
        return None  # type: ignore[return-value]
    if is_stopped:
        raise KeyboardInterrupt
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
        If a file is missing, cut off or altered; :func:`resume` computes lost draws again.

    Examples
    --------
    >>> import tempfile, thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> few = {"noise": "unequal", "chains": 2, "warmup": 150, "draws": 50}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     drawn = thali.sample(data.tensor, **few, seed=1, out=folder)
    ...     read = thali.load(folder)
    >>> bool((read.n_components == drawn.n_components).all())
    True
    """
    run = Run.open(path)
    stores = [run.chain(number) for number in range(run.settings.chains)]
    damage = next((s.damage for s in stores if s.damage), None)
    if damage and not partial:
        intact = min(map(len, stores))
        raise TraceDamaged(
            f"{damage} {n_of(intact, 'draw')} per chain {'is' if intact == 1 else 'are'} intact",
            remedy=AnyOf(
                (LoadPartially(), " reads these"),
                (Resume(run.folder), " computes the others again"),
                joint=", and ",
            ),
        )
    tensor, names = run.data()
    return Posterior(run.settings, tensor, names, stores, extended_from=run.extended_from)


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
    """Continue a stored run that was stopped, or that needs more draws.

    The draws are bit for bit those of a run that was never stopped. Damaged files of draws are
    computed again.

    Parameters
    ----------
    path
        The folder that ``sample(out=…)`` made; nothing else is needed.
    data
        The data may be given again, as a check: they must be those of the run.
    draws
        Total number of draws per chain; by default the number that the run was started with.
    engine, threads, checkpoint, progress
        As in :func:`sample`; they do not change the draws.
    **settings
        Other arguments of :func:`sample` may be given again, as a check: they must be those of
        the run.

    Returns
    -------
    posterior
        All draws of the run.

    Raises
    ------
    TraceMismatch
        If the data or settings are not those of the run.

    Examples
    --------
    >>> import tempfile, thali
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> few = {"noise": "unequal", "chains": 2, "warmup": 150, "draws": 50}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = thali.sample(data.tensor, **few, seed=1, out=folder)
    ...     more = thali.resume(folder, draws=60)
    >>> more.n_components.shape
    (2, 60)
    """
    seconds = positive("checkpoint", checkpoint)
    with processes_for(engine) as processes, ExitStack() as stack:
        reporter = Reporter(progress if processes.is_first else False)
        run = Run.open(path)
        if run.header["stream"] != VERSION:
            msg = (
                f"{run.folder} was drawn by thali {run.header['version']}, whose random stream "
                "differs, so that this version cannot continue it; use that version, or start "
                "anew."
            )
            raise TraceMismatch(msg)
        stored = processes.first_does(lambda: run.data(threads))
        tensor = processes.hand_out(stored and stored[0], lambda: run.data(threads)[0])
        if "mode" in settings:
            modes = processes.of_first(stored and stored[1].modes)
            settings["mode"] = mode_number(settings["mode"], modes)
        require_same(run.settings, settings)
        if data is not None and digest(packed(data, threads)[0]) != run.header["digest"]:
            raise TraceMismatch(
                f"the data given are not those of {run.folder}",
                "a run is resumed with its own copy of the data",
                "leave them out",
            )
        if draws is not None:
            count("draws", draws, least=1)
        processes.require_same("run", run.header)
        target = prepare(tensor, run.settings, engine, threads)
        n_workers = n_at_a_time(target, run.settings)
        run = processes.of_first(processes.first_does(lambda: _to_continue(path, draws, stack)))
        drawn = carry_on(run, target, n_workers, reporter, seconds, processes)
    if not processes.is_first:
        return None  # type: ignore[return-value]
    return finish(run.settings, tensor, stored[1], *drawn, extended_from=run.extended_from)


def _to_continue(path: str | os.PathLike[str], draws: int | None, stack: ExitStack) -> Run:
    """Return the run with its number of draws; only this process may write to it by now."""
    stack.enter_context(only_writer(Run.open(path).folder))
    run = Run.open(path)  # another process may have extended it
    if draws is None or draws == run.settings.draws:
        return run
    n_drawn = max(len(run.chain(number)) for number in range(run.settings.chains))
    if draws < n_drawn:
        raise InvalidValue(
            was_given("draws", draws),
            f"{run.folder} has {n_of(n_drawn, 'draw')} per chain already",
            ("give at least as many, or read the run with ", Load(run.folder)),
        )
    return run.extend(draws)


def packed(data: Any, threads: int | None) -> tuple[PackedTensor, Names]:
    """Return the data as packed bits, and the names of their modes and rows."""
    if isinstance(data, PackedTensor):
        return data, Names(*own_names(data, len(data.shape)))
    if isinstance(data, Simulated):
        msg = "simulated data with their truth were given; pass their `.tensor` alone."
        raise TypeError(msg)
    tensor = BinaryTensor.from_any(data, threads=threads)
    packed = PackedTensor.from_tensor(tensor, threads)
    return packed, Names(tensor.mode_names, tensor.row_names)
