"""Every engine draws exactly the bits of the oracle: equality, not tolerance."""

import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from support import oracle
from support.chains import BROAD, NO_MOVES
from support.places import GPU, place
from thali.bits import Confusion, Counts, Factor, PackedTensor, pack, unpack
from thali.data import BinaryTensor
from thali.engines import Cover
from thali.engines.cpu.engine import CpuEngine
from thali.model import Effects, FixedRates, Levels, Model, PerComponent, Weights
from thali.model.effects import effects_for
from thali.sampler import Schedule, Target, chain, step
from thali.sampler.schedule import SCHEDULES
from thali.sampler.step import update_mode
from thali.streams import Stream, chain_key

PLACES = ["1 thread", "2 threads", *GPU]
FORMS = ["horizontal", "vertical", *GPU]


SHAPES = [(7, 70), (130, 5), (5, 6, 70), (3, 66, 4), (3, 4, 5, 6), (2, 3, 2, 67)]


def make(shape, n_components, seed, *, has_unknown):
    """Return data near a Boolean product, a mask, and factors to start from."""
    rng = np.random.default_rng(seed)
    density = 0.5 ** (1 / len(shape)) * min(1.0, 2.0 / max(n_components, 1)) ** (1 / len(shape))
    truth = [rng.random((n, n_components)) < density for n in shape]
    letters = "abcd"[: len(shape)]
    product = np.einsum(",".join(c + "l" for c in letters) + "->" + letters, *map(np.int64, truth))
    values = (product > 0) ^ (rng.random(shape) < 0.2)
    known = rng.random(shape) < 0.7 if has_unknown else np.ones(shape, bool)
    known.flat[0] = True
    start = [rng.random((n, n_components)) < density for n in shape]
    return values, known, start


def as_input(values, known):
    return values if known.all() else np.where(known, values.astype(float), np.nan)


def assert_same(engine, kind, values, known, start, noise_kind, *, n_sweeps, seed=5, blocks=2):
    """Run engine and oracle side by side."""
    shape = values.shape
    is_finite = kind == "finite"
    key = chain_key(seed)
    model = Model(start[0].shape[1], noise_kind) if is_finite else Model(None, noise_kind, BROAD)
    schedule = Schedule("parallel" if is_finite else kind, blocks=blocks, **NO_MOVES)
    target = Target.prepare(as_input(values, known), model, schedule, engine)
    state = target.initial(key, start)._replace(alpha=3.0)  # as the oracle: more births
    slow = oracle.Chain(
        key, oracle.as_cells(values, known), shape, oracle.as_components(start), kind, noise_kind,
        (0.35, 0.35), [0.5] * len(shape),
    )  # fmt: skip
    for _ in range(n_sweeps):
        state, info = step(key, state, target)
        slow.step(blocks)
        for fast, plain in zip(state.factors, slow.factors(), strict=True):
            assert fast.dense().astype(int).tolist() == plain
        assert tuple(info.confusion) == oracle.confusion(slow.x, slow.components)
        assert state.noise == pytest.approx(slow.noise, rel=1e-9)
        if is_finite:
            assert [float(d) for d in state.densities] == pytest.approx(slow.densities, rel=1e-9)
        else:
            assert state.alpha == pytest.approx(slow.alpha, rel=1e-9)
    return state


@pytest.mark.parametrize("engine", [*FORMS, "2 threads"])
@pytest.mark.parametrize("has_unknown", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_finite_model(shape, has_unknown, engine, monkeypatch):
    """Arities 2 to 4, rows shorter and longer than a word, masks, threads, both kernel forms."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    noise = "equal" if has_unknown else "unequal"
    values, known, start = make(shape, 3, seed=len(shape), has_unknown=has_unknown)
    assert_same(place(engine), "finite", values, known, start, noise, n_sweeps=2)


@pytest.mark.parametrize("engine", FORMS)
@pytest.mark.parametrize("n_components", [0, 1, 70, 200])
def test_number_of_components(n_components, engine, monkeypatch):
    """No component, one, more than fit in a word, and in a GPU's shared memory."""
    monkeypatch.setattr("thali.engines.gpu.counting._MOST_SHARED", 1900)
    values, known, start = make((6, 9), n_components, seed=1, has_unknown=True)
    assert_same(place(engine), "finite", values, known, start, "unequal", n_sweeps=2)


KINDS = [(kind, engine) for kind in SCHEDULES for engine in ("1 thread", "2 threads")]
KINDS += [pytest.param("parallel", "gpu", marks=pytest.mark.gpu), ("parallel", GPU[1])]


@pytest.mark.parametrize(("kind", "engine"), KINDS)
@pytest.mark.parametrize("has_unknown", [False, True])
@pytest.mark.parametrize(
    ("shape", "noise", "blocks"),
    [((9, 70), "unequal", 2), ((23, 7), "equal", 3), ((67, 5), "unequal", 5)],
)
def test_buffet(shape, noise, blocks, kind, has_unknown, engine, monkeypatch):
    """Both schedules, odd blocks, births and deaths included."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    values, known, start = make(shape, 3, seed=shape[0], has_unknown=has_unknown)
    start[0][0] = True  # no empty component to start with
    assert_same(
        place(engine), kind, values, known, start, noise, n_sweeps=4, blocks=blocks, seed=shape[1]
    )


@pytest.mark.parametrize("engine", PLACES)
@pytest.mark.parametrize(("shape", "blocks"), [((9, 70), 2), ((67, 5), 5)])
def test_own_densities(shape, blocks, engine, monkeypatch):
    """Every component with its own density: births and deaths one at a time."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    values, known, start = make(shape, 3, seed=shape[0], has_unknown=True)
    start[0][0] = True
    prior = PerComponent(1.0, 2.0, n_values=4, tied=None)
    key = chain_key(8)
    target = Target.prepare(
        as_input(values, known),
        Model(density=prior, alpha=BROAD),
        Schedule(blocks=blocks, **NO_MOVES),
        place(engine),
    )
    state = target.initial(key, start)._replace(alpha=3.0)
    grid = prior.grid.tolist()
    slow = oracle.Chain(
        key, oracle.as_cells(values, known), shape, oracle.as_components(start), "own densities",
        "unequal", (0.35, 0.35), [None, [grid[2]] * 3], grid=grid,
    )  # fmt: skip
    seen = set()
    for _ in range(8):
        state, info = step(key, state, target)
        slow.step(blocks)
        for fast, plain in zip(state.factors, slow.factors(), strict=True):
            assert fast.dense().astype(int).tolist() == plain
        assert state.densities[1].tolist() == slow.densities[1]
        assert tuple(info.confusion) == oracle.confusion(slow.x, slow.components)
        seen.add(info.n_components)
    assert len(seen) > 1  # something was born or died


@pytest.mark.parametrize(("kind", "engine"), KINDS)
def test_buffet_from_nothing(kind, engine):
    """From no component at all, with many births at once and room running out."""
    values, known, _ = make((40, 12), 4, seed=2, has_unknown=False)
    start = [np.zeros((n, 0), bool) for n in values.shape]
    state = assert_same(place(engine), kind, values, known, start, "equal", n_sweeps=3, seed=1)
    assert state.n_components > 0


@pytest.mark.parametrize(
    ("kind", "engine"),
    [k for k in KINDS if "serial" not in k and "2 threads" not in k]
    + [("serial-integrated", "1 thread")],
)
def test_buffet_with_more_components_than_a_word(kind, engine):
    """More than 64 components, many of them owned by one row."""
    rng = np.random.default_rng(3)
    values = rng.random((8, 10)) < 0.5
    start = [rng.random((8, 70)) < 0.2, rng.random((10, 70)) < 0.05]
    start[0][rng.integers(0, 8, 70), np.arange(70)] = True
    assert_same(
        place(engine), kind, values, np.ones_like(values), start, "unequal", n_sweeps=1, blocks=3
    )


@pytest.mark.parametrize("engine", GPU)
@pytest.mark.parametrize("has_unknown", [False, True])
@pytest.mark.parametrize(
    ("shape", "model"),
    [
        ((300, 90), Model(6)), ((300, 90), Model(alpha=BROAD)), ((2_100, 33), Model(alpha=BROAD)),
        ((120, 90), Model(alpha=BROAD, density=PerComponent(1.0, 2.0, n_values=4, tied=None))),
        ((90, 70), Model(3, noise="effects")), ((300, 90), Model(noise=Effects(jumps=False))),
        ((120, 90), Model(noise="effects", density=PerComponent(1.0, 2.0, n_values=4))),
        ((40, 12, 70), Model(alpha=BROAD)), ((40, 12, 70), Model(noise=effects_for((40, 12, 70)))),
        ((9, 40, 5, 11), Model(2, noise="effects")),
    ],
    ids=["finite", "buffet", "many rows", "own densities", "finite, effects", "buffet, effects",
         "tied densities, effects", "tensor", "tensor, effects", "four modes, effects"],
)  # fmt: skip
def test_chain_does_not_depend_on_the_engine(shape, model, has_unknown, engine):
    """Many sweeps with all moves: the GPU engine draws what the CPU engine draws."""
    values, known, _ = make(shape, 4, seed=9, has_unknown=has_unknown)
    n_sweeps, ends = 40 if engine == "gpu" else 12, []
    for name in ("2 threads", engine):
        # A start is made by the CPU's engine in any case (test_start.py): one is enough here, and
        # none with effects, where it takes long.
        starts = 0 if model.priors(2).noise.kind.name == "effects" else 1
        schedule = Schedule(warmup=6, hold=3, starts=starts, regrow=0)
        target = Target.prepare(as_input(values, known), model, schedule, place(name))
        sweeps = chain(chain_key(7), target, n_sweeps)
        ends.append([(factors_of(s), noise_of(s), s.alpha, i) for s, i in sweeps])
    assert ends[0] == ends[1]


def factors_of(state):
    return [f.words.tolist() for f in state.factors]


def noise_of(state):
    noise = state.noise
    if not isinstance(noise, Levels):
        return noise
    return [*(part.tolist() for part in (*noise.lines, noise.jumps)), noise.hyper]


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (Model(6), "parallel"), (Model(alpha=BROAD), "parallel"), (Model(alpha=BROAD), "serial"),
        (Model(alpha=BROAD), "tensor"),
    ],
    ids=["finite", "parallel", "serial", "tensor"],
)  # fmt: skip
def test_chain_does_not_depend_on_threads_forms_or_interruptions(model, kind, monkeypatch):
    """Six sweeps are three and three, on any number of threads and in either form."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    shape, kind = ((60, 9, 40), "parallel") if kind == "tensor" else ((300, 90), kind)
    values, _, _ = make(shape, 4, seed=9, has_unknown=False)
    key = chain_key(11)
    schedule = Schedule(kind, warmup=3, hold=2)
    whole = Target.prepare(values, model, schedule, CpuEngine(1, "horizontal"))
    *_, (expected, info) = chain(key, whole, 6)
    for threads, form in ((1, "vertical"), (2, "auto"), (3, "vertical"), (5, "horizontal")):
        target = Target.prepare(values, model, schedule, CpuEngine(threads, form))
        *_, (half, _) = chain(key, target, 3)
        *_, (state, again) = chain(key, target, 3, half)
        assert factors_of(state) == factors_of(expected)
        assert (state.noise, state.alpha, state.sweep) == (expected.noise, expected.alpha, 6)
        for density, other in zip(state.densities, expected.densities, strict=True):
            assert density.tolist() == other.tolist()
        assert again == info


def test_covered_counts_follow_the_factors():
    """The counts carried along equal those counted from the data, sweep after sweep."""
    for shape, model in (
        ((600, 40), Model(5)),
        ((600, 40), Model(alpha=BROAD)),
        ((60, 9, 20), Model(alpha=BROAD)),
    ):
        values, known, _ = make(shape, 4, seed=4, has_unknown=True)
        target = Target.prepare(as_input(values, known), model, Schedule(warmup=5))
        for state, _ in chain(chain_key(2), target, 8):
            assert target.recount(state).covered == state.covered


def test_fixed_rates_are_kept():
    """Fixed error rates never change."""
    values, _, _ = make((20, 30), 2, seed=1, has_unknown=False)
    target = Target.prepare(values, Model(noise=FixedRates(0.1, 0.3)))
    assert {s.noise for s, _ in chain(chain_key(0), target, 5)} == {(0.1, 0.3)}


@pytest.mark.parametrize("engine", ["vertical", *GPU])
@pytest.mark.parametrize(
    ("shape", "n_components", "density", "has_unknown"),
    [
        ((70, 700), 5, 0.6, True), ((9, 2000), 5, 0.9, False), ((4_200, 5), 5, 0.5, True),
        ((3, 70_000), 5, 0.7, True), ((2, 1_100_000), 2, 0.9, False), ((70, 300), 40, 0.5, False),
    ],
    ids=["more than a byte", "many planes", "more than a tile", "long rows", "longest rows",
         "columns that many share"],
)  # fmt: skip
def test_forms_agree_beyond_a_byte_and_a_tile(shape, n_components, density, has_unknown, engine):
    """Counts above 255 and rows beyond one tile: the vertical form equals the horizontal one."""
    rng = np.random.default_rng(1)
    values = rng.random(shape) < 0.5
    known = rng.random(shape) < 0.9 if has_unknown else np.ones(shape, bool)
    start = [rng.random((n, n_components)) < density for n in shape]
    start[1][:, 0] = True  # one component has every column
    data = as_input(values, known)
    rates = FixedRates(0.45, 0.5)  # weak data: many draws are left open
    model = Model(n_components, rates, density=0.5)
    states = []
    for name in ("horizontal", engine):
        target = Target.prepare(data, model, engine=place(name))
        state, _ = step(chain_key(4), target.initial(chain_key(4), start), target)
        states.append((factors_of(state), state.covered))
        assert target.recount(state).covered == state.covered
    assert states[0] == states[1]


def test_engine_can_serve_two_targets():
    """Loading data binds a new engine: targets made from one engine do not disturb each other."""
    engine = CpuEngine(1)
    data = [make((20, 30), 3, seed=s, has_unknown=False)[0] for s in (1, 2)]
    alone = [i for _, i in chain(chain_key(0), Target.prepare(data[0], engine=engine), 4)]
    first, second = (Target.prepare(x, engine=engine) for x in data)
    list(chain(chain_key(0), second, 2))
    assert [i for _, i in chain(chain_key(0), first, 4)] == alone


def _last(target):
    *_, (_, info) = chain(chain_key(1), target, 3)
    return info


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_threads_survive_fork_and_pickle(method, monkeypatch):
    """A child has none of its parent's threads; it makes its own and draws the same chain."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    target = Target.prepare(make((40, 50), 3, seed=1, has_unknown=False)[0], engine=CpuEngine(2))
    expected = _last(target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks with threads
        with ProcessPoolExecutor(1, mp_context=get_context(method)) as pool:
            assert pool.submit(_last, target).result(timeout=120) == expected


@pytest.mark.parametrize("engine", PLACES)
@pytest.mark.parametrize("has_unknown", [False, True])
@pytest.mark.parametrize("mode", [0, 1])
def test_count_by_class(mode, has_unknown, engine, monkeypatch):
    """Free ones and zeros of every row by class of columns, against plain loops."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    values, known, start = make((9, 70), 3, seed=6, has_unknown=has_unknown)
    rng = np.random.default_rng(2)
    tensor = PackedTensor.from_tensor(BinaryTensor.from_any(as_input(values, known)))
    factors = [Factor.from_dense(f) for f in start]
    classes = rng.random((3, values.shape[1 - mode])) < 0.5
    rows = (2, values.shape[mode] - 1)
    loaded = place(engine).load(tensor)
    is_counted = np.array([True, False, True])
    cover = Cover(factors[1 - mode], factors[mode], is_counted)
    counts = loaded.count_by_class(mode, rows, cover, pack(classes))
    covered = (start[0][:, is_counted].astype(int) @ start[1][:, is_counted].T.astype(int)) > 0
    for i, row in enumerate(range(*rows)):
        for k in range(3):
            cells = [(row, c) if mode == 0 else (c, row) for c in np.flatnonzero(classes[k])]
            free = [bool(values[c]) for c in cells if known[c] and not covered[c]]
            assert counts[i, k].tolist() == [sum(free), len(free) - sum(free)]


@pytest.mark.parametrize("engine", PLACES)
@pytest.mark.parametrize("has_unknown", [False, True])
@pytest.mark.parametrize("n_columns", [70, 128, 200])
def test_windows_of_columns(n_columns, has_unknown, engine, monkeypatch):
    """Free entries of listed rows in words of columns, and their counts, against plain loops."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    values, known, start = make((9, n_columns), 3, seed=6, has_unknown=has_unknown)
    tensor = PackedTensor.from_tensor(BinaryTensor.from_any(as_input(values, known)))
    loaded = place(engine).load(tensor)
    is_counted = np.array([True, False, True])
    users, codes = (Factor.from_dense(f) for f in start)
    cover = Cover(codes, users, is_counted)
    covered = (start[0][:, is_counted].astype(int) @ start[1][:, is_counted].T.astype(int)) > 0
    is_free = known & ~covered
    rows = np.array([7, 2, 2, 0])
    classes = np.random.default_rng(2).random((2, n_columns)) < 0.5
    for words in (slice(None), slice(0, 1), slice(1, 2)):
        columns = slice(*(64 * word for word in words.indices(-(-n_columns // 64))[:2]))
        expected = is_free[rows, columns]
        free, ones = loaded.free_in_window(rows, words, cover)
        assert (
            unpack(free, free.shape[1] * 64)[:, : expected.shape[1]].tolist() == expected.tolist()
        )
        assert unpack(free, free.shape[1] * 64).sum() == expected.sum()  # padding is not free
        shown = unpack(ones, expected.shape[1])
        assert shown.tolist() == (values & known)[rows, columns].tolist()
        if words.start is None:
            continue
        sets = classes[:, columns]
        counts = loaded.count_in_window(np.sort(rows), words, cover, pack(sets))
        for i, row in enumerate(np.sort(rows)):
            for k in range(2):
                cells = is_free[row, columns] & sets[k]
                n_ones = (cells & values[row, columns]).sum()
                assert counts[i, k].tolist() == [n_ones, cells.sum() - n_ones]


@pytest.mark.parametrize("engine", GPU)
def test_factors_on_a_device_travel_when_they_are_asked_for(engine):
    """A handle stands for the words; who looks gets them; what is there does not travel again."""
    values, known, start = make((70, 40), 3, seed=1, has_unknown=False)
    target = Target.prepare(as_input(values, known), Model(3), engine=place(engine))
    state = target.initial(chain_key(0), start)
    drawn = update_mode(Stream(chain_key(0), np.uint64(0)), state, target, 0).factors[0]
    assert not drawn.has_words
    assert drawn.n_components == 3
    assert target.engine.lines(drawn) is drawn.handle
    words = drawn.words
    assert drawn.words is words  # made once
    again = pickle.loads(pickle.dumps(drawn))
    assert again.handle is None
    np.testing.assert_array_equal(again.words, words)
    assert drawn.on_host().handle is None
    turned, *_ = target.engine.reorder((drawn,), np.array([2, 0, 1]))
    np.testing.assert_array_equal(turned.words, words[[2, 0, 1]])


def test_weights_of_several_classes_are_refused():
    """Until there are kernels for them, nobody may take the first for all."""
    weights = Weights(np.zeros((2, 1, 1, 2)))
    with pytest.raises(NotImplementedError, match="2 classes of rows and 1 of columns"):
        weights.pair()


def test_counts_by_class():
    """One class today: the table has the total."""
    counts = Counts(Confusion(1, 2, 3, 4))
    assert counts.table.tolist() == [[[1, 2, 3, 4]]]
    assert counts.total == (1, 2, 3, 4)
