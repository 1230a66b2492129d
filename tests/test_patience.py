"""Work is done in small steps until these have taken as long as it takes to compile a kernel."""

import pytest

from thali import patience
from thali._jit import cache_of
from thali.patience import Patience
from thali.sampler.level_draws import draw_mode
from thali.sampler.moves import at_once
from thali.sampler.small import _finish


def kernel():
    """Stand for a kernel; what is asked about it is answered by the tests."""


@pytest.fixture
def index(monkeypatch, tmp_path):
    """Where code of the kernel would be kept, if it were compiled."""
    path = tmp_path / "cache" / "kernel-7.py311.nbi"
    monkeypatch.setattr(patience, "cache_of", lambda _: path)
    monkeypatch.setattr(patience, "is_at_hand", lambda _: path.exists())
    monkeypatch.setattr(patience, "_PAUSE", 0.0)
    return path


def asked(steps, times, of=None):
    """Return what a process is told that asks several times."""
    own = Patience(30) if of is None else of
    return [own.ends(steps, kernel) for _ in range(times)]


def test_a_short_run_compiles_nothing(index):
    assert asked(10, 4) == [False, False, True, True]
    index.parent.joinpath("kernel-7.py311.steps").unlink()
    index.touch()
    assert asked(10, 4) == [True] * 4


@pytest.mark.usefixtures("index")
def test_steps_of_earlier_processes_count():
    """Otherwise someone whose runs are all short would never have the kernel."""
    assert [asked(10, 1) for _ in range(4)] == [[False], [False], [True], [True]]


@pytest.mark.usefixtures("index")
def test_steps_of_processes_side_by_side_count():
    first, second = Patience(30), Patience(30)
    assert [asked(10, 1, of) for of in (first, second, first, second)] == [
        [False], [False], [True], [True],
    ]  # fmt: skip


def test_a_kernel_that_another_process_has_compiled_is_used(index):
    own = Patience(1 << 40)
    assert asked(10, 1, own) == [False]
    index.touch()
    assert asked(10, 1, own) == [True]


@pytest.mark.parametrize("text", ["", "a b c", "{stamp} many", "{stamp} -", "other 29"])
def test_what_does_not_count(index, text):
    """Steps of another version, whose kernel was another, and a file that was damaged."""
    index.parent.mkdir()
    steps = index.with_suffix(".steps")
    steps.write_text(text.replace("{stamp}", patience.stamp()))
    assert asked(10, 2) == [False, False]
    assert steps.read_text() == f"{patience.stamp()} 20\n"


def test_where_nothing_can_be_kept_own_steps_count(monkeypatch, index):
    index.parent.write_text("a file where a folder should be")
    assert asked(10, 4) == [False, False, True, True]
    assert asked(10, 1) == [False]
    monkeypatch.setattr(patience, "cache_of", lambda _: None)
    assert asked(10, 4) == [False, False, True, True]


def test_looks_are_rare(index, monkeypatch):
    """Files are not read for every step; steps that were not kept yet count here all the same."""
    monkeypatch.setattr(patience, "_PAUSE", 3600.0)
    own = Patience(30)
    assert asked(10, 2, own) == [False, False]
    assert index.with_suffix(".steps").read_text().endswith(" 10\n")
    assert asked(10, 1, own) == [True]


@pytest.mark.parametrize(
    "large",
    [draw_mode, _finish, at_once.in_parts(at_once._examine)],
    ids=["levels", "end", "tries"],
)
def test_kernels_that_are_waited_for_are_kept(large):
    """Numba says where. If it no longer does, steps of earlier processes are not counted."""
    assert cache_of(large).suffix == ".nbi"
