"""Options of the test run."""

import os
import signal

# Workers are as many as cores: if products of matrices took all cores in each of them, they would
# wait for each other. NumPy reads this when it is imported, also in processes that tests start.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import dataclasses
import sys
from importlib import import_module
from pathlib import Path

import pytest

from support.compile_once import compile_once

LONG_STARTS = (
    "engines", "model", "report", "sampler", "statistics", "test_command_docs.py",
    "test_docs.py", "test_effects.py", "test_examples.py", "test_starts.py",
)  # fmt: skip
"""Folders and files whose chains start as they do by default."""

_FEW_SWEEPS = {
    "start": {"_RELEASED": 2, "_EAGER": 2},
    "grow.trial": {"_SWEEPS": 4, "_USED": 2},
}
"""How long starts are elsewhere: before levels are looked at, and on trial."""


@pytest.fixture(scope="module", autouse=True)
def _brief(request):
    """Spare tests of something else what starts and processes cost.

    Starts are short, and no further process runs chains: there is a worker for every core already.
    So threads that wait for work sleep soon, too. What tests start as a process of their own is as
    always.
    """
    from thali import team, workers

    where = request.path.relative_to(Path(__file__).parent).parts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "MANY_SWEEPS", sys.maxsize)
        patch.setattr(team, "_PATIENCE", 200)
        if not set(where) & set(LONG_STARTS):
            _shorten(patch)
        yield


@pytest.fixture
def short_starts(monkeypatch):
    """For tests among those with long starts that compare no numbers."""
    _shorten(monkeypatch)


def _shorten(patch):
    """A chain grows components in one start, not in four with six rounds each, with few sweeps."""
    from thali.sampler import Schedule

    short = {"starts": 1, "regrow": 0}
    fields = [f for f in dataclasses.fields(Schedule) if f.init]
    defaults = tuple(short.get(field.name, field.default) for field in fields)
    patch.setattr(Schedule.__init__, "__defaults__", defaults)
    for name, numbers in _FEW_SWEEPS.items():
        module = import_module(f"thali.sampler.{name}")
        for constant, n_sweeps in numbers.items():
            patch.setattr(module, constant, n_sweeps)


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite tests/golden after a change of the random stream; name it in the changelog",
    )


def pytest_configure(config):
    """Let workers share what they compile, and Ctrl-C be tested in the background, too."""
    if hasattr(config, "workerinput"):
        compile_once()
    # A process in the background ignores Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
