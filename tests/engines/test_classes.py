"""Classes of rows and columns, each pair with its own weights: all engines draw the same bits."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import mutants, oracle
from support.classes import Case, Rates, births
from support.emulated_device import EmulatedDevice
from support.host_device import HostDevice
from support.places import GPU, needs_compiler, place
from thali.bits import Factor, pack
from thali.bits.words import unpack
from thali.engines import Cover
from thali.engines.cpu import by_class
from thali.engines.cpu.engine import CpuEngine
from thali.engines.gpu.classes import classes_of
from thali.engines.gpu.engine import GpuEngine
from thali.engines.gpu.visits import components_of
from thali.model import Weights
from thali.model.births import birth_death_tables
from thali.streams import chain_key

PLACES = ["1 thread", "2 threads", "vertical", *GPU]


def by_loops(case, mode):
    """Draw all entries of a factor, entry by entry (eq. 10 and 27); return the dense factor."""
    own, other = (case.factors[m].dense().copy() for m in (mode, 1 - mode))
    values, known = (np.moveaxis(a, mode, 0) for a in (case.values, case.known))
    weights = case.weights.fixed().of_mode(mode)
    stream = oracle.Stream(int(chain_key(3)), 5)
    for row in range(len(own)):
        singles = 0 if mode else case.singles[row]
        for component in range(case.n_components):
            if component == 1:  # it is held
                continue
            rest = np.arange(case.n_components) != component
            score = int(case.prior[component])
            for column in np.flatnonzero(known[row] & other[:, component]):
                if not (own[row] & other[column] & rest).any():
                    pair = weights.table[weights.rows[row], weights.columns[column], singles]
                    score += int(pair[0 if values[row, column] else 1])
            r = stream.bits(1 + 64 * mode, row, component)
            own[row, component] = oracle.gibbs(score, r)
    return own


def gains_of_a_row(density, n_classes, module=by_class):
    """Return gains and counts of some codes: expected, by class, and by column (or none)."""
    rng, n_columns, n_components = np.random.default_rng(n_classes), 150, 4
    classes = np.sort(rng.integers(n_classes, size=n_columns))
    chance = np.repeat([density, 0.3, 0.5], [n_components, 1, 1])[:, None]
    bits = rng.random((n_components + 2, n_columns)) < chance
    lines = pack(bits)
    codes, covered, ones = lines[:-2], lines[-2], lines[-1]
    weights = rng.integers(-1000, 1000, (n_classes, 1, 2))
    words, masks, of_segments = segments = by_class.list_segments(classes)
    starts = by_class.list_runs(of_segments)
    one, zero = np.empty((2, len(starts)), np.int64)
    by_class.spread_weights(weights, of_segments, starts, 0, one, zero)
    runs = module.runs_of_places(segments, starts, codes)
    n_runs = len(np.unique(classes))
    assert (len(runs) > 0) == (n_runs > 3 and bits[:-2].sum() < n_components * n_runs)
    own = weights[classes, 0, np.where(bits[-1], 0, 1)]
    free = bits[:-2] & ~bits[-2]
    expected = [(own[f].sum(), (f & bits[-1]).sum(), (f & ~bits[-1]).sum()) for f in free]
    together = [
        by_class.gain_by_class(code, covered, ones, words, masks, starts, one, zero)
        for code in codes
    ]
    if len(runs) == 0:
        return expected, together, None
    single = [module.gain_by_bit(code, covered, ones, runs, one, zero) for code in codes]
    return expected, together, single


@pytest.mark.parametrize("n_classes", [3, 20, 140])
@pytest.mark.parametrize("density", [0.03, 0.3])
def test_gains_of_a_row_are_sums_over_its_free_columns(density, n_classes):
    """In both forms, by class and by column; sparse codes and many classes choose the second."""
    expected, together, single = gains_of_a_row(density, n_classes)
    assert together == expected
    assert single in (None, expected)


@pytest.mark.parametrize(
    "edit",
    [
        ("r = runs[WORD * w + lowest(in_ones)]", "r = runs[lowest(in_ones)]"),
        ("in_zeros = free ^ in_ones", "in_zeros = free"),
        ("+ lowest(left)] = r", "+ lowest(left)] = max(0, r - 1)"),
    ],
    ids=["columns of the first word", "ones count as zeros, too", "the class before"],
)
def test_mistakes_with_single_columns_are_found(edit):
    """The comparison with plain sums sees them."""
    wrong = mutants.mutate("thali.engines.cpu.by_class", [edit])
    expected, _, single = gains_of_a_row(0.03, 140, wrong)
    assert single is not None
    assert single != expected


@pytest.mark.parametrize("engine", PLACES)
@pytest.mark.parametrize("mode", [0, 1])
def test_the_draws_are_those_of_plain_loops(mode, engine, monkeypatch):
    """Every entry with its own weight."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    case = Case((9, 70))
    drawn, _ = case.loaded(place(engine)).update(case.order(mode), case.factors[mode])
    assert drawn.dense().tolist() == by_loops(case, mode).tolist()


MISTAKES = {
    "another class of rows": ("* n_row_classes + of_rows[row]", "* n_row_classes + 0 * row"),
    "the first class of columns": ("2 * (i64)(first + k) * n_row_classes", "0 * n_row_classes"),
    "a class is forgotten": ("if (slots[first + k] == slots[first + k + 1]) continue;\n"
                             "            const i64", "if (first + k == 2) continue;\n"
                             "            const i64"),
    "single-row components are forgotten": ("singles && i < n_rows ? singles[i] : 0", "0"),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(
    "mistake", [None, *(pytest.param(m, marks=[pytest.mark.slow] * (k > 0))
                        for k, m in enumerate(MISTAKES))]
)  # fmt: skip
def test_mistakes_with_classes_are_found(mistake):
    """Kernels that are wrong about classes do not draw what the CPU draws."""
    device = HostDevice()
    device.edit = MISTAKES.get(mistake)
    case = Case((40, 70))
    found = case.update(GpuEngine(device), 0)
    assert (found == case.update(CpuEngine(1), 0)) == (mistake is None)


@pytest.mark.parametrize("engine", ["vertical", *GPU])
@pytest.mark.parametrize(
    ("shape", "n_components", "density", "n_classes", "share"),
    [
        ((70, 700), 5, 0.6, (7, 40), 0.9), ((9, 2000), 5, 0.9, (2, 1), 1.0),
        ((4_200, 5), 5, 0.5, (30, 2), 0.9), ((300, 20_000), 4, 0.7, (40, 5), 1.0),
        ((2, 1_100_000), 2, 0.97, (2, 1), 1.0), ((70, 300), 40, 0.5, (3, 9), 0.9),
        ((5, 300), 200, 0.05, (2, 3), 0.9),
    ],
    ids=["many classes", "more than a byte", "more than a tile", "long classes",
         "longest classes", "columns that many share", "more than fit in shared memory"],
)  # fmt: skip
def test_classes_of_any_size(shape, n_components, density, n_classes, share, engine, monkeypatch):
    """Short and long classes, of rows and of columns, in either mode."""
    monkeypatch.setattr("thali.engines.gpu.counting._MOST_SHARED", 2900)
    case = Case(shape, n_components, 2, density, n_classes, share)
    reference = CpuEngine(1, "horizontal")
    for mode in (0, 1):
        assert case.update(place(engine), mode) == case.update(reference, mode)


@needs_compiler
@pytest.mark.slow  # the same kernels with one thread per block are tested quickly above
@pytest.mark.parametrize("has_classes", [False, True])
@pytest.mark.parametrize(
    ("shape", "n_classes", "share"),
    [((70, 700), (7, 40), 0.9), ((4_200, 5), (30, 2), 1.0), ((40, 4_000), (5, 3), 1.0)],
    ids=["one warp per class", "more than a tile", "a team of warps per class"],
)
def test_warps_share_their_work(shape, n_classes, share, has_classes):
    """Threads, warps and blocks as on a GPU."""
    case = Case(shape, 3, 2, 0.7, n_classes if has_classes else (1, 1), share)
    if not has_classes:
        case.weights = Weights(case.weights.table)
    for mode in (0, 1):
        assert case.update(GpuEngine(EmulatedDevice()), mode) == case.update(CpuEngine(1), mode)
    if has_classes and max(shape) < 1000:
        assert births(case, GpuEngine(EmulatedDevice())) == births(case, CpuEngine(1))
        sets = pack(np.random.default_rng(2).random((2, shape[1])) < 0.5)
        cover = Cover(*case.factors[::-1], np.ones(3, bool))
        counts = [
            case.loaded(engine).count_by_class(0, (3, shape[0]), cover, sets, case.weights.columns)
            for engine in (GpuEngine(EmulatedDevice()), CpuEngine(1))
        ]
        np.testing.assert_array_equal(*counts)


@pytest.mark.parametrize("engine", GPU)
def test_rows_in_parts(engine, monkeypatch):
    """Where there is no room for the counters of all rows, some are counted at a time."""
    case = Case((700, 60))
    rows = np.flatnonzero(np.random.default_rng(0).random(700) < 0.7)
    counted = questions(case, CpuEngine(1))
    expected = [case.update(CpuEngine(1), 0, some) for some in (None, rows)]
    sizes = []

    def some_rows(_, bits_per_row, n_rows):
        sizes.append(bits_per_row)
        return min(256, n_rows)

    monkeypatch.setattr("thali.engines.gpu.device_memory.DeviceMemory.rows_to_count", some_rows)
    assert [case.update(place(engine), 0, some) for some in (None, rows)] == expected
    assert questions(case, place(engine)) == counted
    assert len(sizes) == 5
    assert min(sizes) > 0


def questions(case, engine):
    """All that is counted by class: three ranges of rows or columns."""
    loaded = case.loaded(engine)
    found = []
    for mode, rows in ((0, (0, 700)), (0, (301, 650)), (1, (7, 60))):
        sets = np.random.default_rng(2).random((3, case.shape[1 - mode])) < 0.5
        cover = Cover(
            case.factors[1 - mode], case.factors[mode], np.array([True, False, True, True])
        )
        classes = case.weights.of_mode(mode).columns
        found.append(loaded.count_by_class(mode, rows, cover, pack(sets), classes).tolist())
    return found


@pytest.mark.parametrize("engine", PLACES)
@pytest.mark.parametrize("share", [0.7, 1.0])
@pytest.mark.parametrize("counted", [(True, False, True, True), (False,) * 4])
@pytest.mark.parametrize("mode", [0, 1])
def test_counts_by_class_of_column(mode, counted, share, engine):
    """Free ones and zeros of every row, by set and class of column, against plain loops."""
    case = Case((9, 300), share=share)
    rng = np.random.default_rng(2)
    sets = rng.random((2, case.shape[1 - mode])) < 0.5
    rows = (2, case.shape[mode] - 1)
    is_counted = np.array(counted)
    own, other = (case.factors[m].dense()[:, is_counted].astype(int) for m in (mode, 1 - mode))
    cover = Cover(case.factors[1 - mode], case.factors[mode], is_counted)
    classes = case.weights.of_mode(mode).columns
    counts = case.loaded(place(engine)).count_by_class(mode, rows, cover, pack(sets), classes)
    values, known = (np.moveaxis(a, mode, 0) for a in (case.values, case.known))
    free = known & ~(own @ other.T > 0)
    assert counts.dtype == np.int64
    for i, row in enumerate(range(*rows)):
        for k in range(2):
            for c in range(classes.max() + 1):
                cells = free[row] & sets[k] & (classes == c)
                n_ones = int((cells & values[row]).sum())
                found = counts[i, k * (classes.max() + 1) + c].tolist()
                assert found == [n_ones, int(cells.sum()) - n_ones]


@pytest.mark.parametrize("engine", ["1 thread", "2 threads", *GPU])
@pytest.mark.parametrize("counted", [(True, False, True, True), (False,) * 4])
@pytest.mark.parametrize("share", [0.7, 1.0])
@pytest.mark.parametrize("mode", [0, 1])
def test_gains_by_class(mode, share, counted, engine, monkeypatch):
    """What rows gain by sets of columns: large, of a single column, empty; against plain loops."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    case = Case((70, 300), share=share)
    weights = case.weights.rounded()  # so that sums are exact in any order
    sets = np.zeros((4, case.shape[1 - mode]), bool)
    sets[0] = np.random.default_rng(2).random(sets.shape[1]) < 0.5
    sets[1, 66] = sets[3, 3:40] = True
    rows = (2, case.shape[mode] - 1)
    is_counted = np.array(counted)
    own, other = (case.factors[m].dense()[:, is_counted].astype(int) for m in (mode, 1 - mode))
    cover = Cover(case.factors[1 - mode], case.factors[mode], is_counted)
    loaded = case.loaded(place(engine))
    gains = loaded.gains_by_class(mode, rows, cover, pack(sets), weights)
    values, known = (np.moveaxis(a, mode, 0) for a in (case.values, case.known))
    free = known & ~(own @ other.T > 0)
    one, zero = np.moveaxis(case.weights.rounded().of_mode(mode).table[:, :, 0], -1, 0)
    own_mode = weights.of_mode(mode)
    index = own_mode.rows[:, None], own_mode.columns[None]
    worth = np.where(values, one[index], zero[index]) * free
    assert gains.tolist() == (worth @ sets.T)[slice(*rows)].tolist()


@pytest.mark.parametrize("engine", PLACES)
@pytest.mark.parametrize("n_components", [4, 0])
@pytest.mark.parametrize("share", [0.7, 1.0])
def test_lines_are_counted_by_class_and_cover(share, n_components, engine, monkeypatch):
    """Uncovered and known entries of every line by class, and its ones, against plain loops."""
    monkeypatch.setattr(  # more than one part on a GPU
        "thali.engines.gpu.device_memory.DeviceMemory.rows_to_count", lambda *_: 128
    )
    case = Case((9, 300), share=share)
    factors = tuple(f.take(np.arange(n_components)) for f in case.factors)
    users, codes = (f.dense().astype(int) for f in factors)
    loaded = case.loaded(place(engine))
    for mode in (0, 1):
        classes = case.weights.of_mode(mode).columns
        counts = loaded.count_lines(mode, factors, classes)
        values, known, covered = (
            np.moveaxis(a, mode, 0) for a in (case.values, case.known, users @ codes.T > 0)
        )
        for i in range(case.shape[mode]):
            for c in range(classes.max() + 1):
                cells = known[i] & (classes == c)
                assert counts.uncovered[i, c] == (cells & ~covered[i]).sum()
                assert counts.known[i % len(counts.known), c] == cells.sum()
            ones = known[i] & values[i]
            assert counts.n_ones[:, i].tolist() == [
                (ones & ~covered[i]).sum(),
                (ones & covered[i]).sum(),
            ]
        assert len(counts.known) == (1 if share == 1.0 else case.shape[mode])
        assert [part.dtype for part in counts] == [np.uint32, np.uint32, np.int64]


@pytest.mark.parametrize("engine", GPU)
@pytest.mark.parametrize("share", [0.8, 1.0])
@pytest.mark.parametrize("n_components", [0, 4])
def test_births(n_components, share, engine):
    """How many single-row components rows get, and what is in them."""
    case = Case((150, 90), n_components, density=0.2, share=share)
    expected = births(case, CpuEngine(1))
    assert births(case, place(engine)) == expected
    assert len(expected[1][0]) > 20


@pytest.mark.parametrize("engine", GPU)
@pytest.mark.parametrize("share", [0.8, 1.0])
def test_births_and_deaths_one_at_a_time(share, engine):
    """Every component with its own density."""
    case = Case((150, 90), 4, density=0.2, share=share)
    users = case.factors[0].dense().copy()
    users[:, 2:] = False
    users[[7, 90], [2, 3]] = True  # these may die
    users = Factor.from_dense(users)
    tables = birth_death_tables(0.3, np.array([0.1, 0.3, 0.6]), Rates(case.weights), 4)
    results = []
    for name in ("1 thread", engine):
        job = case.order(0, np.arange(0, 150, 1))
        found = case.loaded(place(name)).birth_death(
            job, users, np.array([False, False, True, True]), tables
        )
        lines = [w.tolist() for w in found.births.lines]
        results.append((lines, found.births.covered, found.density.tolist(),
                        found.has_died.tolist()))  # fmt: skip
    assert results[0] == results[1]
    assert len(results[0][2]) > 5


@pytest.mark.parametrize("engine", GPU)
def test_data_on_a_device_are_freed_at_once(engine):
    """What an engine keeps about classes does not keep the engine."""
    case = Case((9, 70))
    loaded = case.loaded(place(engine))
    loaded.update(case.order(0), case.factors[0])
    reference = weakref.ref(loaded)
    gc.disable()
    del loaded
    gc.enable()
    assert reference() is None


@pytest.mark.parametrize("engine", ["1 thread", GPU[1]])
@settings(deadline=None, max_examples=15, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(*2 * [st.sampled_from([1, 2, 5, 63, 64, 65, 130])]),
)
def test_transposing_a_matrix_swaps_the_factors(engine, seed, shape):
    """Updating the second mode of the transpose draws the bits of the first mode."""
    case, other = Case(shape, seed=seed), Case(shape, seed=seed)
    other.values, other.known = case.values.T, case.known.T
    other.factors, other.shape = case.factors[::-1], shape[::-1]
    other.weights = case.weights.of_mode(1)
    job = case.order(0)._replace(singles=None, site=1)
    plain, gained = case.loaded(place(engine)).update(job, case.factors[0])
    swapped, also = other.loaded(place(engine)).update(
        other.order(1)._replace(site=1), other.factors[1]
    )
    assert plain.words.tolist() == swapped.words.tolist()
    assert gained == also


@pytest.mark.parametrize("engine", ["1 thread", GPU[1]])
@settings(deadline=None, max_examples=15, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_one_class_split_in_two_changes_no_bit(engine, seed):
    """Classes with equal weights draw what a single class of that weight draws."""
    case = Case((65, 130), seed=seed, n_classes=(1, 1))
    expected = case.loaded(place(engine)).update(
        case.order(0)._replace(weights=Weights(case.weights.fixed().table)), case.factors[0]
    )
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(np.arange(65) % 3), rng.permutation(np.arange(130) % 7)
    case.weights = Weights(np.tile(case.weights.table, (3, 7, 1, 1)), rows, columns)
    found = case.loaded(place(engine)).update(case.order(0), case.factors[0])
    assert found[0].words.tolist() == expected[0].words.tolist()
    assert found[1] == expected[1]


@needs_compiler
def test_similar_columns_are_neighbours():
    """Columns are sorted by class, then by their components; no order but the last is kept."""
    case = Case((90, 400), 5, n_classes=(3, 4))
    engine = case.loaded(GpuEngine(HostDevice()))
    classes = classes_of(engine, 1, case.weights.columns)
    codes = engine.lines(case.factors[1])
    masks = components_of(engine, codes)
    first, second = object(), object()
    order = classes.rearranged(engine, masks, first)
    assert order.rearranged(engine, masks) is not order  # it has no order of its own
    assert classes.rearranged(engine, masks, first) is order
    assert classes.rearranged(engine, masks) is order
    again = classes.rearranged(engine, masks, second)
    assert again is not order
    assert again._arranged is None
    numbers = np.arange(4)[:, None]
    dense = case.factors[1].dense()[again.places]
    assert np.all(np.diff(case.weights.columns[again.places]) >= 0)
    assert sorted(again.places.tolist()) == list(range(400))
    for of_class in case.weights.columns[again.places] == numbers:
        sizes = dense[of_class].sum(axis=1)
        assert np.all(np.diff(sizes) >= 0)
    found = again.codes_in_order(engine, codes, masks).words[:, : -(-400 // 32)]
    expected = again.in_order(engine, codes)
    assert np.array_equal(found, expected.words[:, : found.shape[1]])
    assert np.array_equal(unpack(expected.to_host(), 400), dense.T)


@pytest.mark.parametrize("engine", PLACES)
def test_no_rows(engine):
    """A process may hold no row of a block."""
    case = Case((65, 130), 4)
    assert births(case, place(engine), 0.0) == (case.factors[0].words.tolist(), [[], []], (0, 0))
