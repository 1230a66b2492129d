"""What the GPU engine says when it cannot, and that its kernels compile for every device."""

import logging
import re
import subprocess
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

import thali
from support.host_device import HostDevice, library
from support.places import needs_compiler
from thali.bits import Factor, PackedTensor, khatri_rao
from thali.bits.codes import inner_mode, outer_modes
from thali.bits.words import pack
from thali.data import BinaryTensor
from thali.engines.base import Cover
from thali.engines.choose import LARGE, choose
from thali.engines.cpu.engine import CpuEngine
from thali.engines.gpu import counting, visits
from thali.engines.gpu.device import KERNELS, OPTIONS, n_devices, source
from thali.engines.gpu.engine import GpuEngine
from thali.engines.gpu.slots import divide
from thali.errors import EngineUnavailable
from thali.model import FixedRates, Model
from thali.sampler import Schedule, Target
from thali.streams import Stream


def packed(shape):
    return PackedTensor.from_tensor(BinaryTensor.from_any(np.ones(shape, bool)))


def compiled(text, architecture):
    """Return whether NVRTC from the package registry compiles a text, and what it says."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC (cuda-bindings)")
    made, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], [])
    assert made == nvrtc.nvrtcResult.NVRTC_SUCCESS
    options = [o.encode() for o in (*OPTIONS, f"--gpu-architecture={architecture}")]
    (done,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * (size + 1)  # NVRTC writes into it; Python has only one bytes of length one
    nvrtc.nvrtcGetProgramLog(program, log)
    return done == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()


@pytest.mark.parametrize(
    "architecture",
    ["compute_75", *(pytest.param(f"sm_{a}", marks=pytest.mark.slow) for a in (75, 80, 90))],
)  # the oldest has the fewest instructions; to code for no device in particular, it is quicker
def test_kernels_compile_for(architecture):
    """No device is needed."""
    is_compiled, log = compiled(source(), architecture)
    assert is_compiled, log


def test_every_file_of_kernels_is_compiled_and_short():
    """The list names what is in the folder; a file of more than 300 lines has two purposes."""
    folder = files("thali.engines.gpu").joinpath("kernels")
    texts = {file.name: file.read_text() for file in folder.iterdir()}
    assert sorted(texts) == sorted(KERNELS)
    assert max(len(text.splitlines()) for text in texts.values()) <= 300


TYPING_ERROR = ("KERNEL list_visits(", "KERNEL list_visits(nothing ")


def line_of(name, text):
    """Return the number of the line of a file of kernels that has a text."""
    kernels = files("thali.engines.gpu").joinpath("kernels", name).read_text()
    return 1 + kernels[: kernels.index(text)].count("\n")


def test_nvrtc_names_file_and_line():
    """Of the files that were joined."""
    is_compiled, log = compiled(source().replace(*TYPING_ERROR), "sm_90")
    assert not is_compiled
    assert log.startswith(f"kernels/visits.cu({line_of('visits.cu', TYPING_ERROR[0])}): error")


@needs_compiler
def test_a_compiler_of_the_host_names_file_and_line():
    """In the form that this compiler has."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        library(TYPING_ERROR)
    assert f"kernels/visits.cu:{line_of('visits.cu', TYPING_ERROR[0])}:" in caught.value.stderr


@needs_compiler
def test_data_that_do_not_fit_say_how_much_they_need():
    """One sentence with the gigabytes."""
    device = HostDevice()
    device.room = 500_000_000
    with pytest.raises(EngineUnavailable, match=r"need 0.5 GB on the GPU, where 0.5 GB are free"):
        GpuEngine(device).load(packed((3, 4)))


@needs_compiler
@pytest.mark.parametrize("kind", ["serial", "serial-integrated"])
def test_serial_schedules_are_refused(kind):
    """One row after another is nothing for a GPU."""
    with pytest.raises(ValueError, match="use schedule='parallel' or engine='cpu'"):
        Target.prepare(np.eye(3), schedule=Schedule(kind), engine=GpuEngine(HostDevice()))


@needs_compiler
def test_words_of_another_type_are_refused():
    """The boundary checks what the kernels take for granted."""
    engine = GpuEngine(HostDevice()).load(packed((3, 4)))
    with pytest.raises(TypeError, match="packed words were expected; int64"):
        engine.lines(Factor(np.zeros((1, 1), np.int64), 4))


@pytest.mark.skipif(n_devices() > 0, reason="there is a CUDA device")
def test_without_a_device():
    """The engine says so; "auto" takes the CPU."""
    with pytest.raises(EngineUnavailable, match=r"engine='gpu' was given|cupy is needed"):
        choose("gpu")
    assert isinstance(choose("auto", n_entries=LARGE), CpuEngine)


@needs_compiler
@pytest.mark.parametrize(("room", "kind"), [(1 << 40, GpuEngine), (1000, CpuEngine)])
def test_auto_falls_back_where_data_do_not_fit(room, kind, monkeypatch, caplog):
    """Who did not ask for the GPU is not stopped by one that is too small."""
    device = HostDevice()
    device.room = room
    monkeypatch.setattr("thali.engines.choose.LARGE", 1)
    monkeypatch.setattr("thali.engines.gpu.device.n_devices", lambda: 1)
    monkeypatch.setattr(
        "thali.engines.gpu.engine.GpuEngine", lambda threads: GpuEngine(device, threads)
    )
    with caplog.at_level(logging.INFO, "thali"):
        assert type(Target.prepare(np.eye(3)).engine) is kind
    assert ("GB are free" in caplog.text) == (kind is CpuEngine)
    if kind is CpuEngine:
        with pytest.raises(EngineUnavailable, match="GB are free"):
            Target.prepare(np.eye(3), engine="gpu")


@pytest.mark.gpu
def test_auto_takes_the_gpu_for_large_data(caplog):
    """And says so."""
    with caplog.at_level(logging.INFO, "thali"):
        assert isinstance(choose("auto", n_entries=LARGE), GpuEngine)
        assert isinstance(choose("auto", n_entries=LARGE - 1), CpuEngine)
        assert isinstance(choose("auto", n_entries=LARGE, is_serial=True), CpuEngine)
    assert "engine: GPU" in caplog.text


@pytest.mark.gpu
def test_the_same_chain_by_name():
    """From names to the device and back."""
    data = thali.simulate((300, 90), 4, spurious=0.05, seed=3).tensor
    ends = []
    for name in ("cpu", "gpu"):
        target = Target.prepare(data, engine=name)
        ends.append([i for _, i in thali.sampler.chain(np.uint64(5), target, 5)])
    assert ends[0] == ends[1]


BROKEN_RULES = {
    "covered is free": ("return known & ~covered;", "return known;"),
    "no prior": ("return prior + one_weight", "return one_weight"),
    "zeros do not count": ("one_weight * n_ones + zero_weight * n_zeros;", "one_weight * n_ones;"),
}


@needs_compiler
@pytest.mark.parametrize("mistake", [None, *BROKEN_RULES])
def test_the_rule_decides(mistake):
    """The kernels draw what the CPU draws, unless their only copy of the rule is wrong."""
    values = np.random.default_rng(4).random((60, 70)) < 0.3
    data = np.where(np.eye(60, 70), np.nan, values)
    device = HostDevice()
    device.edit = BROKEN_RULES.get(mistake)
    infos = []
    for engine in ("cpu", GpuEngine(device)):
        target = Target.prepare(data, Model(4, FixedRates(0.1, 0.2)), engine=engine)
        infos.append([i for _, i in thali.sampler.chain(np.uint64(5), target, 4)])
    assert (infos[0] == infos[1]) == (mistake is None)


def test_host_and_kernels_agree_on_the_layout():
    """The numbers by which the host lays out work are those that the kernels define for CUDA."""
    for_cuda = re.sub(r"#else\n.*?#endif", "", source(), flags=re.DOTALL)
    defined = dict(
        re.findall(r"^#define (\w+) +(\d+|\(2 \* GROUP\))", for_cuda, flags=re.MULTILINE)
    )
    names = ("VECTOR", "PART_PLANES", "SLOT_PLANES", "SHORT_PLANES", "SUM_PLANES", "COUNT_WARPS")
    for name in (*names, "LONG_PLANES", "TILE_WARPS", "TILE_PLANES"):
        assert int(defined[name]) == getattr(counting, name)
    assert f"#define FEW (LANES < {counting.FEW} ?" in source()
    for name in ("HEAD", "RECORD"):
        assert int(defined[name]) == getattr(visits, name)
    assert defined["EIGHT"] == "(2 * GROUP)"
    assert 2 * int(defined["GROUP"]) == visits.EIGHT


def test_slots_cover_all_records_in_order():
    """Every record is in one slot of its list; slots are numbered by list and sorted by length."""
    rng = np.random.default_rng(0)
    for most in (1, 5, 31):
        sizes = rng.integers(0, 60, (4, 7)) * (rng.random((4, 7)) < 0.7)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        ranges, of_lists, firsts = divide(starts, 4, most)
        assert np.diff(of_lists.astype(int), axis=1).tolist() == (-(-sizes // most)).tolist()
        assert firsts[-1] == len(ranges)
        found = []
        for component, (lo, hi) in enumerate(pairwise(firsts)):
            first, end, slot = ranges[lo:hi].astype(int).T
            lengths = end - first
            assert np.all(np.diff(lengths) <= 0)
            assert lengths.max() <= most
            lists = np.searchsorted(of_lists[component], slot, side="right") - 1
            assert np.all(starts[7 * component + lists] <= first)
            assert np.all(end <= starts[7 * component + lists + 1])
            assert np.array_equal(np.sort(slot), np.arange(hi - lo))
            found += [record for a, b in zip(first, end, strict=True) for record in range(a, b)]
        assert sorted(found) == list(range(starts[-1]))


@needs_compiler
@pytest.mark.parametrize("shape", [(5, 70, 3), (4, 3, 2, 130)])
def test_products_of_factors_on_the_device(shape):
    """They equal those that the host computes, and are only computed where they are needed."""
    rng = np.random.default_rng(0)
    factors = [Factor.from_dense(rng.random((n, 6)) < 0.5) for n in shape]
    engine = GpuEngine(HostDevice()).load(packed(shape))
    for mode in range(len(shape)):
        product = khatri_rao(factors, mode)
        assert not product.has_words
        there = engine.lines(product).to_host()
        here = khatri_rao([Factor(f.words, f.n_rows) for f in factors], mode).words
        assert np.array_equal(there, here)


@needs_compiler
@pytest.mark.parametrize("most", [0, 1 << 20], ids=["vertical", "entry by entry"])
@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_counts_by_class_of_column_of_a_tensor(most, unknown, monkeypatch):
    """Both forms count what plain loops count, for rows of every mode and sets of columns."""
    monkeypatch.setattr("thali.engines.gpu.engine._MOST_COUNTS", most)
    rng, shape = np.random.default_rng(1), (6, 5, 70)
    dense = np.where(rng.random(shape) < unknown, np.nan, rng.random(shape) < 0.5)
    bits = [rng.random((n, 4)) < 0.5 for n in shape]
    factors = [Factor.from_dense(own) for own in bits]
    is_counted = np.array([True, False, True, True])
    tensor = PackedTensor.from_tensor(BinaryTensor.from_any(dense))
    engine = GpuEngine(HostDevice()).load(tensor)
    counted = [own[:, is_counted].astype(int) for own in bits]
    free = ~np.isnan(dense) & (np.einsum("al,bl,cl->abc", *counted) == 0)
    for mode, n_rows in enumerate(shape):
        inner = inner_mode(shape, mode)
        (outer,) = outer_modes(shape, mode)
        sets = rng.random((2, shape[outer], shape[inner])) < 0.5
        classes = rng.integers(0, 3, (shape[outer], 64 * -(-shape[inner] // 64)))
        packed_sets = pack(sets).reshape(2, -1)
        cover = Cover(khatri_rao(factors, mode), factors[mode], is_counted)
        found = engine.count_by_class(mode, (1, n_rows), cover, packed_sets, classes.ravel())
        order = (mode, outer, inner)
        values, open_entries = (a.transpose(order)[1:] for a in (dense, free))
        of = classes[:, : shape[inner]]
        expected = [
            [(open_entries & (values == value) & chosen & (of == c)).sum(axis=(1, 2))
             for value in (1, 0)]
            for chosen in sets for c in range(3)
        ]  # fmt: skip
        np.testing.assert_array_equal(found, np.moveaxis(expected, 2, 0))


@needs_compiler
def test_rows_are_divided_ahead_as_they_would_be_later():
    """In whatever order sweeps come; a block that was made ahead is given away once.

    The first block of the next sweep has begun, too.
    """
    ahead, later = (GpuEngine(HostDevice()).load(packed((50, 4))) for _ in range(2))
    users = ahead.lines(Factor.from_dense(np.ones((50, 2), bool)))
    for sweep, has_begun in ((3, False), (4, True), (4, False), (9, False), (10, True)):
        stream = Stream(np.uint64(1), np.uint64(sweep))
        blocks = ahead.partition(stream, 3)
        if has_begun:
            assert blocks[0].counted[0] is users.words
            assert blocks[0].transposed is not None
            blocks[0].counted = blocks[0].transposed = None
        ahead.divide_ahead(users)
        for block, other in zip(blocks, later._divide(stream, 3), strict=True):
            np.testing.assert_array_equal(block.rows, other.rows)
            assert block.transposed is block.counted is None
            block.counted = block.transposed = "in use"
