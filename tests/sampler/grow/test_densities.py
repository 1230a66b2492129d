"""Whether components get densities of their own is decided once, by long rows."""

import signal
import threading
import time

import numpy as np
import pytest
from scipy.special import expit

import thali
from support.mutants import mutate
from support.places import GPU, place
from thali.bits import PackedTensor
from thali.data import BinaryTensor
from thali.model import Beta, Model, UnequalRates
from thali.model.effects import effects_for
from thali.posterior.answer import answer
from thali.sampler import Schedule, Target
from thali.sampler.grow import densities
from thali.sampler.grow.densities import OWN, log_gain, look
from thali.sampler.grow.search import Judged
from thali.sites import Site, site_of
from thali.streams import Stream, start_key

SHAPE = (100, 3000)
DIFFERENT = (0.2, 0.2, 0.2, 0.25, 0.25, 0.7, 0.75, 0.8)
SAME = (0.3,) * 12
WITH_EFFECTS = (0.3, 0.3, 0.8), 1.5  # shares of the columns, and spread of levels


def table(shares, spread=0.0, shape=SHAPE):
    """Draw components with these shares of the columns; rows and columns differ by a spread."""
    rng = np.random.default_rng(0)
    users = rng.random((shape[0], len(shares))) < 0.3
    codes = rng.random((shape[1], len(shares))) < np.array(shares)
    levels = spread * (rng.normal(size=(shape[0], 1)) + rng.normal(size=shape[1]))
    return rng.random(shape) < expit(-2.5 + levels + 5.0 * (users @ codes.T))


def target_of(data, schedule=None, engine="cpu", **model):
    model = {"noise": effects_for(data.shape)} | model
    threads = 1 if isinstance(engine, str) else None
    return Target.prepare(data, Model(**model), schedule or Schedule(), engine, threads)


def decided(target, how=look):
    """Return what was decided, and the numbers of components on the way."""
    seen, steps = [], how(target)
    while True:
        try:
            seen.append(next(steps).n_components)
        except StopIteration as end:
            return end.value, seen


@pytest.mark.parametrize(
    ("shares", "spread", "own"),
    [
        (DIFFERENT, 0.0, OWN),
        (SAME, 0.0, None),
        (*WITH_EFFECTS, None),
        ((), 0.0, None),
        ((), 1.5, None),
    ],
    ids=["different", "the same", "effects", "noise", "effects alone"],
)
def test_sizes_decide_where_effects_do_not_matter(shares, spread, own):
    """Each component gets a density if sizes differ, unless rows and columns have effects."""
    assert decided(target_of(table(shares, spread)))[0] == own


RULE = [
    ((600.0, 0.0, 600.0, 0.0, 0.0), OWN),
    ((600.0, 0.0, 0.0, 0.0, 600.0), OWN),  # those of the flat start, with densities of their own
    ((400.0, 0.0, 600.0, 600.0, 0.0), None),  # sizes do not ask for it
    ((600.0, 0.0, 400.0, -900.0, 400.0), None),  # no better than one density
    ((600.0, -900.0, 0.0, -400.0, 0.0), None),  # no better than effects first
]


@pytest.mark.parametrize(("values", "own"), RULE)
def test_all_three_must_agree(values, own, monkeypatch):
    """Log ratio of the sizes; evidence: components first, the same with own densities, effects."""
    gain, flat, better, fitted, converted = values

    def grown(part, *, is_flat):
        state = part.initial(np.uint64(0))
        yield state
        has_own = part.model.density == OWN
        return Judged(state, (better if has_own else flat) if is_flat else fitted)

    monkeypatch.setattr(densities, "_grown", grown)
    monkeypatch.setattr(densities, "_with_own", lambda _, state: Judged(state, converted))
    monkeypatch.setattr(densities, "log_gain", lambda _: gain)
    assert decided(target_of(np.eye(3, 1200)))[0] == own


@pytest.mark.parametrize(
    ("edits", "shares", "spread"),
    [
        (
            [
                ("if log_gain(flat.state) < HOPELESS:", "if False:"),
                ("own.value < flat.value + HOPELESS", "False"),
            ],
            SAME,
            0.0,
        ),
        ([("own.value > fitted.value + HOPELESS", "True")], *WITH_EFFECTS),
    ],
    ids=["sizes are not looked at", "effects are not looked at"],
)
def test_a_look_at_one_thing_only_is_noticed(edits, shares, spread):
    """Without one of them, densities of their own would be chosen."""
    mutant = mutate("thali.sampler.grow.densities", edits)
    assert decided(target_of(table(shares, spread)), mutant.look)[0] == OWN


@pytest.mark.parametrize(
    "given",
    [
        {"noise": UnequalRates()},
        {"n_components": 6},
        {"schedule": Schedule("serial")},
        {"schedule": Schedule(starts=0)},
    ],
    ids=["two rates", "a number", "serial", "no start"],
)
def test_nothing_is_decided_where_something_else_was_said(given):
    """The data are not even looked at."""
    assert decided(target_of(table(DIFFERENT), **given)) == (None, [])


@pytest.mark.parametrize("shape", [(100, 999), (12, 50, 40)], ids=["short rows", "a tensor"])
def test_nothing_is_decided_by_other_data(shape):
    """Where rows are short, sizes are not known well enough; boxes share densities."""
    data = table(DIFFERENT, shape=(shape[0], int(np.prod(shape[1:])))).reshape(shape)
    assert decided(target_of(data)) == (None, [])


def test_gain_by_densities_of_their_own():
    """It is the log ratio of the definition; without components there is nothing to gain."""
    target = target_of(table(SAME)[:, :1000])
    rng = np.random.default_rng(1)
    users, codes = rng.random((100, 3)) < 0.5, rng.random((1000, 3)) < [0.1, 0.35, 0.9]
    state = target.initial(np.uint64(0), [users, codes])
    state = state._replace(densities=(state.densities[0], np.array(0.4)))

    def log_probability(code, density):
        return np.log(np.where(code, density, 1.0 - density)).sum()

    expected = 0.0
    for code in codes.T:
        best = max(log_probability(code, density) for density in OWN.grid)
        expected += best - np.log(len(OWN.grid)) - log_probability(code, 0.4)
    assert log_gain(state) == pytest.approx(expected, rel=1e-12)
    assert log_gain(state.take(np.zeros(3, bool))) == 0.0


@pytest.mark.parametrize("name", ["1 thread", "2 threads", *GPU])
def test_a_part_of_large_data_is_looked_at(name, monkeypatch):
    """Some rows and columns, with their entries, known and unknown; the same on all engines."""
    data = table(DIFFERENT).astype(float)
    data[np.random.default_rng(3).random(data.shape) < 0.1] = np.nan
    packed = PackedTensor.from_tensor(BinaryTensor.from_any(data))
    monkeypatch.setattr(densities, "_ROWS", 20)
    monkeypatch.setattr(densities, "_COLUMNS", 700)
    target = Target.prepare(packed, Model(noise=effects_for(SHAPE)), engine=place(name))
    part = densities._part(target)
    stream = Stream(start_key(np.uint64(0)), np.uint64(0))
    rows, columns = (
        np.sort(stream.permutation(site_of(Site.FIRST_ROWS, mode), n)[:most])
        for mode, n, most in ((0, 100, 20), (1, 3000, 700))
    )
    expected = PackedTensor.from_tensor(BinaryTensor.from_any(data[np.ix_(rows, columns)]))
    for found, right in zip(part.engine.tensor.unfoldings[0], expected.unfoldings[0], strict=True):
        np.testing.assert_array_equal(found, right)
    assert decided(target) == decided(target_of(data))


# --- through the public call ------------------------------------------------------------------

QUICK = Schedule(starts=1, regrow=0)
SHORT = {"chains": 2, "warmup": 4, "draws": 3, "schedule": QUICK, "progress": False}


@pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")
def test_all_chains_have_the_model_that_was_chosen(tmp_path):
    """It is stored with the run, which can be resumed, and told."""
    data = table(DIFFERENT)
    posterior = thali.sample(data, **SHORT, seed=1, out=tmp_path / "run")
    assert posterior.settings.model.density == OWN
    given = thali.sample(data, **SHORT, seed=1, density=OWN)
    np.testing.assert_array_equal(posterior.log_joint, given.log_joint)
    more = thali.resume(tmp_path / "run", draws=5, density=None, progress=False)
    assert more.settings.model.density == OWN
    assert more.n_draws == 5
    assert answer(more)["own_densities"]


@pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")
def test_one_density_if_it_is_asked_for_or_enough():
    """Nothing is looked at if the density was given."""
    different, seen = table(DIFFERENT), []
    told = SHORT | {"progress": seen.append}
    posterior = thali.sample(different, **told, seed=1, density=Beta())
    assert posterior.settings.model.density == Beta()
    assert not any("sizes of components" in now.start for now in seen)
    same = thali.sample(table(SAME), **told, seed=1)
    assert same.settings.model.density == Beta()
    assert not answer(same)["own_densities"]
    assert any("sizes of components" in now.start for now in seen)


def test_stopped_while_looking(monkeypatch, tmp_path):
    """Ctrl-C ends it at once, and leaves nothing behind."""
    began = threading.Event()

    def forever(target):
        state = target.initial(np.uint64(0))
        while True:
            began.set()
            time.sleep(0.01)
            yield state

    monkeypatch.setattr("thali.running.look", forever)
    stop = threading.Thread(
        target=lambda: (began.wait(), signal.raise_signal(signal.SIGINT)), daemon=True
    )
    stop.start()
    with pytest.raises(KeyboardInterrupt):
        thali.sample(table(SAME), **SHORT, seed=1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
