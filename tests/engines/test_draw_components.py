"""All components in one launch, or one after another: the same bits."""

import numpy as np
import pytest

from support.classes import Case
from support.emulated_device import EmulatedDevice
from support.host_device import HostDevice
from support.places import GPU, needs_compiler, place
from thali.engines.cpu.engine import CpuEngine
from thali.engines.gpu import counting
from thali.engines.gpu.engine import GpuEngine
from thali.model import Weights

SHAPES = {"few rows": (40, 230), "many rows": (9_000, 120), "many columns": (130, 3_000)}


def case_of(shape, n_components=6, share=0.9):
    case = Case(shape, n_components, density=0.3, share=share)
    case.weights = Weights(case.weights.table[:1, :1])
    return case


class Launches:
    """Names the kernels that were launched."""

    def __init__(self, engine, monkeypatch):
        self.names, launch = set(), engine.device.launch

        def noted(name, *arguments):
            self.names.add(name)
            launch(name, *arguments)

        monkeypatch.setattr(engine.device, "launch", noted)


@pytest.mark.parametrize("engine", GPU)
@pytest.mark.parametrize("share", [0.9, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_launch_or_many(shape, share, engine, monkeypatch):
    """Rows of the work order are all rows, or some of them."""
    case = case_of(SHAPES[shape], share=share)
    rows = np.flatnonzero(np.random.default_rng(0).random(case.shape[0]) < 0.7)
    for some in (None, rows):
        expected = case.update(CpuEngine(1), 0, some)
        for most in (counting._MOST_TOGETHER, 0):
            with monkeypatch.context() as patch:
                patch.setattr(counting, "_MOST_TOGETHER", most)
                gpu = place(engine)
                names = Launches(gpu, patch).names
                assert case.update(gpu, 0, some) == expected
            is_at_once = any(name.startswith("draw_components") for name in names)
            fits = gpu.device.runs_together or shape != "many columns"
            assert is_at_once == (most > 0 and fits)


@needs_compiler
@pytest.mark.slow  # the same kernel with one thread per block is tested quickly above
def test_warps_draw_all_components():
    """Threads and warps as on a GPU."""
    for share in (0.9, 1.0):
        case = case_of((300, 500), 3, share)
        assert case.update(GpuEngine(EmulatedDevice()), 0) == case.update(CpuEngine(1), 0)


MISTAKES = {
    "the bits before the draw": ("tile[component * words + w] = fresh(", "(void)fresh("),
    "another component": ("records + starts[component] / EIGHT", "records + starts[0] / EIGHT"),
    "held components": ("while (component < n_components && is_held[component])", "while (false)"),
}


@needs_compiler
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_one_launch_are_found(mistake):
    """The same comparison."""
    device = HostDevice()
    device.edit = MISTAKES[mistake]
    case = case_of(SHAPES["few rows"])
    assert case.update(GpuEngine(device), 0) != case.update(CpuEngine(1), 0)


@pytest.mark.parametrize(("n_rows", "n_records", "slots"), [
    (325_000, 420, 6), (1_300_000, 420, None), (28_000, 19_500, None), (10_000, 15, 5),
])  # fmt: skip
def test_blocks_that_wait_for_each_other_fit_on_the_device(n_rows, n_records, slots):
    """On a device of 132 processors; otherwise one component is drawn after another."""
    engine = GpuEngine(EmulatedDevice())
    engine.device.n_processors, engine.device.runs_together = 132, True
    rows = counting.Rows(None, None, np.empty((34, 1)), n_rows)
    plan = counting.OneLaunch.plan(engine, rows, np.full(32, n_records))
    assert (None if plan is None else plan.slots) == slots
    if plan is not None:
        assert plan.tiles * plan.slots <= 4 * 132
