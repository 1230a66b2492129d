"""A team does every part of a compiled function once, whoever of its members is awake."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from types import FunctionType

import numpy as np
import pytest

from support.mutants import mutate
from thali import team
from thali._jit import inner, jit
from thali.team_kernels import set_bits

LARGEST = 0xFFFF_FFFF_FFFF_FFFF


@jit
def visit(lo, hi, seen):
    """Count visits of rows; return the number and the sum of the rows."""
    total = 0
    for row in range(lo, hi):
        seen[row] += 1
        total += row
    return hi - lo, total


@jit
def fail(lo, hi, at):
    if lo <= at < hi:
        raise MemoryError


@jit
def mark(lo, hi, words):
    """Set the bits of some rows, which share words with those of other threads."""
    for row in range(lo, hi):
        set_bits(words, 0, row >> 6, np.uint64(1) << np.uint64(row & 63))


def is_divided_well(n_rows, threads, first=0, **parts):
    seen = np.zeros(first + n_rows, np.int64)
    n, total, *_ = team.share(visit, n_rows, threads, seen, first=first, **parts)
    rows = np.arange(first, first + n_rows)
    is_once = (seen[first:] == 1).all() and not seen[:first].any()
    return is_once and (n, total) == (n_rows, rows.sum())


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_row_is_done_once(threads):
    for n_rows in (0, 1, 2, 63, 64, 65, 1000):
        for step in (1, 7, 64):
            assert is_divided_well(n_rows, threads, step=step)
            assert is_divided_well(n_rows, threads, first=5, step=step, parts=1)


def test_a_wrong_division_is_found(monkeypatch):
    """The test above rejects parts that overlap."""
    edit = "n_steps * (part + 1) // n_parts", "n_steps * (part + 1) // n_parts + step"
    monkeypatch.setattr(team, "kernels", mutate("thali.team_kernels", [edit]))
    monkeypatch.setattr(team, "_in_parts", {})
    monkeypatch.setattr(team, "_resting", {})
    code = visit.py_func.__code__.replace(co_filename="<nowhere>")  # so that nothing is cached
    monkeypatch.setitem(globals(), "visit", jit(FunctionType(code, globals())))
    assert not is_divided_well(1000, 3)


def test_members_fall_asleep_and_wake(monkeypatch):
    """Work is done whether members look for it, sleep, or are about to."""
    for patience in (0, 1, 50):
        monkeypatch.setattr(team, "_PATIENCE", patience)
        assert all(is_divided_well(500, 3) for _ in range(300))


def test_several_ask_at_the_same_time():
    """Chains that run side by side have teams of their own."""
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: is_divided_well(300, 3), range(400)))
    assert all(found)


def test_a_part_that_fails_is_told():
    with pytest.raises(MemoryError):
        team.share(fail, 1000, 3, 777)
    team.share(fail, 1000, 3, -1)
    assert is_divided_well(1000, 3)  # the team goes on


_fail_in_parts = team.kernels.in_parts(fail, inner)


@jit
def fail_early(memory, results, at):
    """Do two functions in parts one after another, of which the first may fail."""
    _fail_in_parts(memory, 0, 100, 4, 1, results, at)
    _fail_in_parts(memory, 0, 100, 4, 1, results, -1)


@pytest.mark.parametrize("at", [-1, 50])
def test_a_failure_is_told_after_later_work(at):
    """Blocks of rows are several works within one call."""
    has_failed = False
    try:
        with team.memory_of(3, 3) as memory:
            fail_early(memory, np.zeros((4, team.kernels.N_RESULTS), np.int64), at)
    except MemoryError:
        has_failed = True
    assert has_failed == (at >= 0)


def test_an_interrupted_team_is_not_used_again(monkeypatch):
    """Its memory may say that members look for work who sleep."""
    assert is_divided_well(1000, 3)
    before = team._resting[2][-1]
    monkeypatch.setattr(before, "wake", interrupt)
    with pytest.raises(KeyboardInterrupt), team.memory_of(3, 3):
        pass
    assert before not in team._resting[2]
    assert is_divided_well(1000, 3)


def interrupt(*_):
    raise KeyboardInterrupt


def test_no_bit_is_lost():
    for _ in range(50):
        words = np.zeros((1, 4), np.uint64)
        team.share(mark, 256, 4, words, parts=64)
        assert (words == LARGEST).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork processes")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_a_team_of_its_own():
    assert is_divided_well(1000, 3)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if is_divided_well(1000, 3) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_functions_are_kept_under_names_of_their_own():
    """Two kernels of one name are in different files, so that the cache tells them apart."""
    names = set()
    for place in ("horizontal", "by_class", "vertical", "vertical_by_class"):
        module = import_module(f"thali.engines.cpu.{place}")
        kernel = getattr(module, "update_rows", None) or module.update_columns
        code = team.kernels.in_parts(kernel).py_func.__code__
        names.add((code.co_filename, code.co_qualname))
    assert len(names) == 4
