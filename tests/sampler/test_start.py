"""A chain of many rows starts with few of them."""

import importlib
import json
import logging
import os
import signal
import warnings

import numpy as np
import pytest

import thali
from support.host_device import HostDevice
from support.places import GPU, needs_compiler, place
from thali.bits import PackedTensor
from thali.cli.progress import Lines
from thali.engines.cpu.engine import CpuEngine
from thali.engines.gpu.engine import GpuEngine
from thali.errors import EngineUnavailable, NotConverged
from thali.model import FixedRates, Model, PerComponent
from thali.sampler import Schedule, Target, chain, start
from thali.sampler.start import first_state
from thali.sites import Site
from thali.streams import Stream, chain_key, start_key
from thali.trace import Settings

MODULE = importlib.import_module("thali.sampler.start")  # not the function of that name
KEY = chain_key(5)
FEW = Schedule(warmup=30, hold=10, first_rows=64, first_sweeps=40)


def simulated(shape, n_components, *, unknown=0.0, seed=1):
    return thali.simulate(
        shape, n_components, density=0.15, spurious=0.02, dropped=0.3, unknown=unknown, seed=seed
    )


def parts(state):
    """Return all of a state, to be compared by equality."""
    words = [factor.words.tolist() for factor in state.factors]
    densities = [density.tolist() for density in state.densities]
    return words, densities, state.noise, state.alpha, state.covered, state.sweep


def first_rows(key, target):
    """Return the rows that a chain starts with, by their definition."""
    order = Stream(start_key(key), np.uint64(0)).permutation(Site.FIRST_ROWS, target.shape[0])
    return np.sort(order[: target.n_first])


# --- where it computes -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["1 thread", "2 threads", "vertical", *GPU])
@pytest.mark.parametrize("unknown", [0.0, 0.2])
@pytest.mark.parametrize("density", [None, PerComponent(1.0, 4.0, n_values=4)])
def test_start_does_not_depend_on_the_engine(name, unknown, density, monkeypatch):
    """Every state on the way is equal, over two stages; so are the sweeps that follow."""
    monkeypatch.setattr(MODULE, "_LEAST", 16)
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    data = simulated((400, 90), 4, unknown=unknown).tensor
    model = Model() if density is None else Model(density=density)
    seen = []
    for engine in (CpuEngine(1, "horizontal"), place(name)):
        target = Target.prepare(data, model, FEW, engine)
        on_the_way = [(parts(state), info) for state, info in start(KEY, target)]
        after = [(parts(state), info) for state, info in chain(KEY, target, 3)]
        seen.append((on_the_way, after))
    assert len(seen[0][0]) == 40 + 2 + 10 + 2  # 16 rows, what they give to 64, these, all rows
    assert seen[0][0][-1][1].n_components > 1
    assert seen[0] == seen[1]


@needs_compiler
def test_a_full_device_leaves_the_start_to_the_cpu():
    """If the data just fit, the first rows have no room beside them."""
    data = simulated((400, 90), 4).tensor
    device = HostDevice()
    target = Target.prepare(data, schedule=FEW, engine=GpuEngine(device))
    device.room = 0
    with pytest.raises(EngineUnavailable):
        target.engine.load(target.engine.tensor)
    expected = first_state(KEY, Target.prepare(data, schedule=FEW, threads=1))
    assert parts(first_state(KEY, target)) == parts(expected)


# --- what it is ------------------------------------------------------------------------------


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_start_is_a_state_of_all_rows_before_the_first_sweep(unknown):
    """Its counts are those of the data, everything is used, nothing was swept."""
    target = Target.prepare(simulated((500, 120), 5, unknown=unknown).tensor, schedule=FEW)
    state = first_state(KEY, target)
    assert state.n_components > 1
    assert [f.n_rows for f in state.factors] == [500, 120]
    assert state.covered == target.recount(state).covered
    assert state.factors[0].sizes().min() > 0
    assert state.sweep == 0
    assert state.densities[0].tolist() == 0.0
    (first, info), *_ = chain(KEY, target, 1)
    assert first.sweep == 1
    assert info.is_warmup


def test_start_recovers_where_nothing_is_found_otherwise():
    """Few rows find the components at once; all rows, from nothing, have far more of them."""
    data = simulated((3_000, 300), 10)
    settings = {"warmup": 40, "hold": 10}
    numbers, wrong = [], []
    truth = data.factors[0].astype(int) @ data.factors[1].astype(int).T > 0
    for n_first in (256, 0):
        schedule = Schedule(**settings, first_rows=n_first)
        *_, (state, _) = chain(KEY, Target.prepare(data.tensor, schedule=schedule, threads=1), 40)
        users, codes = (f.dense().astype(int) for f in state.factors)
        numbers.append(state.n_components)
        wrong.append(((users @ codes.T > 0) != truth).mean())
    assert numbers[0] == 10
    assert wrong[0] < 1e-3
    assert numbers[1] > 15  # the negative control


def test_memberships_of_all_rows_follow_from_the_components():
    """Given the components, other rows are explained as well as the first ones."""
    data = simulated((2_000, 300), 6)
    target = Target.prepare(data.tensor, schedule=FEW, threads=1)
    state = first_state(KEY, target)
    users, codes = (f.dense().astype(int) for f in state.factors)
    truth = data.factors[0].astype(int) @ data.factors[1].astype(int).T > 0
    is_wrong = ((users @ codes.T > 0) != truth).mean(axis=1)
    took_part = np.zeros(2_000, bool)
    took_part[first_rows(KEY, target)] = True
    assert is_wrong[took_part].mean() < 0.01
    assert is_wrong[~took_part].mean() < 0.01


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_first_rows_are_packed_like_data_of_their_own(unknown):
    """Ones, known entries and their counts, by rows and by columns."""
    data = simulated((300, 70), 3, unknown=unknown).tensor
    target = Target.prepare(data, schedule=FEW, threads=1)
    rows = first_rows(KEY, target)
    found = MODULE._target_of(rows, target).engine.tensor
    expected = PackedTensor.from_tensor(thali.BinaryTensor.from_any(data[rows]))
    assert found[:1] + found[2:] == expected[:1] + expected[2:]
    for one, other in zip(found.unfoldings, expected.unfoldings, strict=True):
        np.testing.assert_array_equal(one.ones, other.ones)
        np.testing.assert_array_equal(one.known, other.known)


def test_components_of_one_row_or_of_nobody_are_not_given_to_all():
    """Two rows say that others may have it, too; if the others disagree, it is dropped."""
    data = np.zeros((300, 80), bool)
    data[::2, :30] = True
    target = Target.prepare(data, Model(noise=FixedRates(0.02, 0.1)), FEW, threads=1)
    few = MODULE._target_of(np.arange(64), target)
    users = np.zeros((64, 3), bool)
    users[::2, 0] = users[[5, 7], 1] = users[9, 2] = True  # good, wrong, and one row's own
    codes = np.zeros((80, 3), bool)
    codes[:30, 0] = codes[40:, 1] = codes[:30, 2] = True
    given = few.initial(KEY, [users, codes])._replace(sweep=40)
    *_, state = MODULE._for_all(KEY, given, target, 40)
    assert state.factors[1].dense().tolist() == codes[:, :1].tolist()
    assert state.factors[0].dense()[:, 0].tolist() == data[:, 0].tolist()


def test_a_component_of_other_rows_is_found_later():
    """What no first row uses is not in the start; ordinary sweeps find it."""
    data = simulated((600, 200), 4)
    values, rng = data.tensor.copy(), np.random.default_rng(1)
    target = Target.prepare(values, schedule=FEW, threads=1)
    others = np.setdiff1d(np.arange(600), first_rows(KEY, target))[::20]
    code = rng.random(200) < 0.2
    values[others] |= code & (rng.random((len(others), 200)) < 0.7)
    target = Target.prepare(values, schedule=FEW, threads=1)

    def is_there(state):
        users, codes = (f.dense() for f in state.factors)
        return any(
            (code == codes[:, c]).mean() > 0.95 and users[others, c].mean() > 0.9
            for c in range(state.n_components)
        )

    begun = first_state(KEY, target)
    assert begun.n_components >= 4
    assert not is_there(begun)
    *_, (state, _) = chain(KEY, target, 60, begun)
    assert is_there(state)


def test_what_the_first_rows_say_is_held():
    """Error rates found before are not replaced by those a chain from nothing starts with."""
    target = Target.prepare(simulated((800, 200), 5).tensor, schedule=FEW, threads=1)
    begun = first_state(KEY, target)
    assert begun.noise == pytest.approx((0.02, 0.3), abs=0.05)
    sweeps = list(chain(KEY, target, 20, begun))
    assert {state.noise for state, _ in sweeps[:10]} == {begun.noise}
    assert sweeps[10][0].noise != begun.noise
    assert {info.n_components for _, info in sweeps} == {5}


def test_every_chain_starts_with_rows_of_its_own(monkeypatch):
    """Chains that start alike would agree for no good reason."""
    target = Target.prepare(simulated((400, 40), 3).tensor, schedule=FEW, threads=1)
    taken, plain = [], MODULE._target_of
    monkeypatch.setattr(MODULE, "_target_of", lambda r, t: (taken.append(r), plain(r, t))[1])
    keys = [chain_key(1, 0), chain_key(1, 1)]
    for key in keys:
        first_state(key, target)
    for key, rows in zip(keys, taken, strict=True):
        assert rows.tolist() == first_rows(key, target).tolist()
        assert len(set(rows.tolist())) == 64
    # Of 64 rows, another 64 of 400 share about 10, and 30 or more less than once in 10**9 times.
    assert len(np.intersect1d(*taken)) < 30


def test_random_numbers_of_the_start_are_its_own():
    """Neither the chain nor the stage before shares a key with it."""
    keys = [KEY, start_key(KEY), start_key(start_key(KEY))]
    assert len(set(map(int, keys))) == 3
    order = Stream(keys[1], np.uint64(0)).bits(Site.FIRST_ROWS, 1_000)
    assert not np.isin(keys[2], order)


# --- when ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "model", "schedule", "expected"),
    [
        (256, Model(), FEW, 64),
        (255, Model(), FEW, 0),
        (256, Model(3), FEW, 0),
        (256, Model(), Schedule("serial", first_rows=64), 0),
        (256, Model(), Schedule(first_rows=0), 0),
        (256, Model(), Schedule(first_rows=64, first_sweeps=0), 0),
        (16_384, Model(), Schedule(), 4_096),
        (16_383, Model(), Schedule(), 0),
    ],
)
def test_only_chains_of_many_rows_start_with_few(n_rows, model, schedule, expected):
    """An inferred number of components, the parallel schedule, four times the rows."""
    target = Target.prepare(np.ones((n_rows, 2), bool), model, schedule, threads=1)
    assert target.n_first == expected


def test_factors_given_are_where_a_chain_starts():
    """Whoever gives a start gets it."""
    data = simulated((400, 40), 3)
    target = Target.prepare(data.tensor, schedule=FEW, threads=1)
    is_used = data.factors[0].any(axis=0)
    begun = target.initial(KEY, [f[:, is_used] for f in data.factors])
    assert begun.factors[0].dense().tolist() == data.factors[0][:, is_used].tolist()
    assert begun.noise == target.priors.noise.initial()


@pytest.mark.parametrize("settings", [{"first_rows": -1}, {"first_sweeps": 1.5}])
def test_bad_settings(settings):
    """One sentence: what was given, what is allowed."""
    ((name, value),) = settings.items()
    with pytest.raises(ValueError, match=f"{name}={value} was given; allowed are integers from 0"):
        Schedule(**settings)


# --- as part of a run ------------------------------------------------------------------------

DATA = simulated((400, 60), 3).tensor
SHORT = {"chains": 2, "warmup": 10, "draws": 10, "seed": 3, "schedule": FEW}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        yield


def test_a_run_is_the_chain(caplog):
    """Chains side by side start like a chain alone; the rows are told, the engine is not."""
    with caplog.at_level(logging.INFO, "thali"):
        posterior = thali.sample(DATA, **SHORT, engine="cpu")
    told = [record.message for record in caplog.records]
    assert told == 2 * ["starting with 64 of 400 rows"]
    target = Target.prepare(DATA, schedule=posterior.settings.schedule, threads=1)
    for number in range(2):
        sweeps = list(chain(chain_key(3, number), target, 20))
        expected = [info.log_joint for _, info in sweeps[10:]]
        assert posterior.log_joint[number].tolist() == expected


def test_whoever_watches_sees_the_start(capsys):
    """Before the first sweep, progress says what is done, and counts no sweep."""
    schedule = Schedule(first_rows=64, first_sweeps=400)  # long enough to be seen
    seen = []
    thali.sample(DATA, **SHORT | {"schedule": schedule}, progress=seen.append)
    started = [now for now in seen if now.start]
    assert started
    assert {now.sweep for now in started} == {0}
    assert {now.start.partition(", sweep")[0] for now in started} >= {"starting: 64 rows"}
    assert not seen[-1].start
    thali.sample(DATA, **SHORT | {"schedule": schedule}, progress=True)
    assert "starting: 64 rows, sweep " in capsys.readouterr().err
    ticks = iter([0.0, 11.0, 11.0])
    Lines(2, clock=lambda: next(ticks))(started[0]._replace(start="starting: 64 rows, sweep 7"))
    told = (
        f"thali: 0 of 40 sweeps (starting: 64 rows, sweep 7, {started[0].n_components} components)"
    )
    assert capsys.readouterr().err == f"{told}\n"


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal")
def test_interrupted_in_the_start_and_resumed(tmp_path):
    """Ctrl-C is heard between sweeps of the first rows; the run starts again, and the same."""
    schedule = Schedule(first_rows=64, first_sweeps=400)
    settings = SHORT | {"schedule": schedule}
    heard = []

    def press(now):
        heard.append(now)
        if now.start and len(heard) < 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        thali.sample(DATA, **settings, out=tmp_path / "run", progress=press)
    assert all(now.sweep == 0 for now in heard)
    assert thali.load(tmp_path / "run").n_draws == 0
    resumed = thali.resume(tmp_path / "run")
    whole = thali.sample(DATA, **settings)
    assert resumed.n_draws == whole.n_draws == 10
    np.testing.assert_array_equal(resumed.log_joint, whole.log_joint)


def test_runs_keep_how_they_started(tmp_path):
    """The header names it; a run from before there was such a start began with all rows."""
    posterior = thali.sample(DATA, **SHORT, out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "header.json").read_text())["settings"]
    assert stored["schedule"]["first_rows"] == 64
    assert Settings.from_json(stored) == posterior.settings
    for name in ("first_rows", "first_sweeps"):
        del stored["schedule"][name]
    assert Settings.from_json(stored).schedule.first_rows == 0
