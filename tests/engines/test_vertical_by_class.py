"""The vertical form of the CPU draws the bits of the horizontal one if there are classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.classes import Case, births
from support.mutants import module, mutate
from thali.engines.cpu.engine import CpuEngine

LENGTHS = [1, 2, 5, 63, 64, 65, 130, 301]


@settings(deadline=None, max_examples=80, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(*2 * [st.sampled_from(LENGTHS)]),
    n_components=st.integers(1, 9),
    density=st.sampled_from([0.05, 0.3, 0.9]),
    n_classes=st.tuples(*2 * [st.sampled_from([1, 2, 7, 40])]),
    share=st.sampled_from([0.7, 1.0]),
    is_even=st.booleans(),
    mode=st.sampled_from([0, 1]),
    is_whole=st.booleans(),
)
def test_both_forms_agree(
    seed, shape, n_components, density, n_classes, share, is_even, mode, is_whole
):
    """Any lengths, classes and unknown entries; some rows or all; jumps per column or not."""
    case = Case(shape, n_components, seed, density, n_classes, share, is_even)
    rows = None
    if not is_whole:
        rows = np.flatnonzero(np.random.default_rng(seed).random(shape[mode]) < 0.7)
    found = [case.update(CpuEngine(1, form), mode, rows) for form in ("horizontal", "vertical")]
    assert found[0] == found[1]


@pytest.mark.parametrize("is_even", [False, True])
def test_threads_and_tiles(is_even, monkeypatch):
    """Rows beyond a tile, shared by threads; single-row components are integrated out."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    case = Case((9_001, 70), 5, n_classes=(30, 9), is_even=is_even)
    expected = case.update(CpuEngine(1, "horizontal"), 0)
    assert case.update(CpuEngine(1, "vertical"), 0) == expected
    assert case.update(CpuEngine(3, "vertical"), 0) == expected
    assert births(case, CpuEngine(2, "vertical")) == births(case, CpuEngine(1, "horizontal"))


def test_many_short_rows_are_drawn_vertically(monkeypatch):
    """The form that is chosen by itself for the codes of a wide table, and it alone, is used."""
    used = []
    kernel = module("thali.engines.cpu.vertical_by_class").update_columns

    def noticed(lo, hi, *rest):
        used.append((lo, hi))
        return kernel(lo, hi, *rest)

    monkeypatch.setattr("thali.engines.cpu.vertical_by_class.update_columns", noticed)
    case = Case((70, 2_000))
    for mode in (0, 1):
        case.update(CpuEngine(1), mode)
    assert used == [(0, 2_000)]


KERNEL, CALLER = "thali.engines.cpu.vertical_by_class", "thali.engines.cpu.draw_rows"
MISTAKES = {
    "all rows are of one class": (
        CALLER, "number_kinds(classes, singles", "number_kinds(0 * classes, singles"
    ),
    "columns in their own order": (CALLER, "job.is_held, places)", "job.is_held, NO_CLASSES)"),
    "single-row components are forgotten": (
        CALLER, "number_kinds(classes, singles", "number_kinds(classes, 0 * singles"
    ),
    "a kind too few": (
        KERNEL, "numbers[classes[i], singles[i]] = n\n", "numbers[classes[i]] = n\n"
    ),
    "the weight of another class": (
        KERNEL, "plan[n, 2] = c, 0, 1 << plane", "plan[n, 2] = 0, 0, 1 << plane"
    ),
    "ones of the last class": (
        KERNEL, "ones = ONES + (n_ones if is_even else slot) * _T", "ones = ONES + slot * _T"
    ),
    "a full counter is not emptied": (KERNEL, "                        n_ones = _0\n", ""),
    "columns that change places": (
        KERNEL, "visit(s, visits, at, FREE + slot * _T, ones",
        "visit(s, visits, at, FREE + (slot ^ _1) * _T, ones",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "mistake", [None, *(pytest.param(m, marks=[pytest.mark.slow] * (place == KERNEL))
                        for m, (place, _, _) in MISTAKES.items())]
)  # fmt: skip
def test_mistakes_are_found(mistake, monkeypatch):
    """A form that is wrong about classes does not draw the same bits."""
    if mistake is not None:
        name, *edit = MISTAKES[mistake]
        mutant = mutate(name, [edit])
        if name == KERNEL:  # it has to be compiled
            monkeypatch.setattr(module(CALLER), "vertical_by_class", mutant)
        else:
            monkeypatch.setattr(
                module(CALLER).RowDraws, "_draw_columns", mutant.RowDraws._draw_columns
            )
    is_same = True
    for is_even in (False, True):
        case = Case((40, 300), 6, is_even=is_even, n_classes=(7, 5))
        for mode in (0, 1):
            vertical, horizontal = (
                case.update(CpuEngine(1, form), mode) for form in ("vertical", "horizontal")
            )
            is_same &= vertical == horizontal
    assert is_same == (mistake is None)
