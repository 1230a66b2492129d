"""A chain starts from components that are grown on the data, on few of many rows."""

import importlib
import json
import logging
import os
import signal
import warnings
from functools import cache
from math import isfinite, isnan, nan

import numpy as np
import pytest

import thali
from support.grown import covers, parts, reconstruction
from support.host_device import HostDevice
from support.mutants import mutate
from support.places import GPU, needs_compiler, place
from support.runs import as_before_seals
from thali.bits import PackedTensor
from thali.cli.progress import Lines
from thali.engines.gpu.engine import GpuEngine
from thali.errors import EngineUnavailable, NotConverged
from thali.model import FixedRates, Model, PerComponent
from thali.sampler import Schedule, Target, chain, start
from thali.sampler.all_rows import for_all_rows
from thali.sampler.grow import families, search
from thali.sampler.grow.growth import Growth
from thali.sampler.grow.search import Judged
from thali.sampler.start import first_state
from thali.sites import Site
from thali.streams import Stream, chain_key, start_key
from thali.trace import Settings

MODULE = importlib.import_module("thali.sampler.start")  # not the function of that name
KEY = chain_key(5)
ALL = Schedule(warmup=30, starts=2, regrow=1, first_rows=0)
FEW = Schedule(warmup=30, starts=2, regrow=1, first_rows=64)


def simulated(shape, n_components, *, unknown=0.0, seed=1):
    return thali.simulate(
        shape, n_components, density=0.15, spurious=0.02, dropped=0.3, unknown=unknown, seed=seed
    )


def first_rows(key, target):
    """Return the rows that a chain starts on, by their definition."""
    order = Stream(start_key(key), np.uint64(0)).permutation(Site.FIRST_ROWS, target.shape[0])
    return np.sort(order[: target.n_first])


# --- where it computes -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["1 thread", "2 threads", "vertical", *GPU])
@pytest.mark.parametrize(
    ("schedule", "unknown", "density"),
    [
        (ALL, 0.2, None),
        (FEW, 0.0, PerComponent(1.0, 4.0, n_values=4, tied=None)),
        (FEW, 0.2, None),
    ],
    ids=["all rows", "own densities", "few rows"],
)
def test_start_does_not_depend_on_the_engine(name, schedule, unknown, density, monkeypatch):
    """Every state on the way is equal; so are the sweeps that follow."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    expected = seen_on("horizontal", schedule, unknown, density)
    assert expected[1][-1][1].n_components > 1
    assert seen_on(name, schedule, unknown, density) == expected


@cache
def seen_on(name, schedule, unknown, density):
    """Return all states of a start, and of the sweeps that follow."""
    data = simulated((260, 90), 3, unknown=unknown).tensor
    model = Model() if density is None else Model(density=density)
    target = Target.prepare(data, model, schedule, place(name))
    on_the_way = [(parts(now.state), now.history, now.stage) for now in start(KEY, target)]
    return on_the_way, [(parts(state), info) for state, info in chain(KEY, target, 3)]


@needs_compiler
def test_a_full_device_is_no_obstacle():
    """Growth happens on the host: a device that the data fill has room for the start."""
    data = simulated((400, 90), 4).tensor
    device = HostDevice()
    target = Target.prepare(data, schedule=FEW, engine=GpuEngine(device))
    device.room = 0
    with pytest.raises(EngineUnavailable):
        target.engine.load(target.engine.tensor)
    expected = first_state(KEY, Target.prepare(data, schedule=FEW, threads=1))
    assert parts(first_state(KEY, target)) == parts(expected)


# --- what it is ------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [ALL, FEW], ids=["all rows", "few rows"])
@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_start_is_a_state_of_all_rows_before_the_first_sweep(unknown, schedule):
    """Its counts are those of the data, everything is used, nothing was swept."""
    target = Target.prepare(
        simulated((300, 120), 4, unknown=unknown).tensor, schedule=schedule, threads=1
    )
    state = first_state(KEY, target)
    assert state.n_components > 1
    assert [f.n_rows for f in state.factors] == [300, 120]
    assert state.covered == target.recount(state).covered
    assert state.factors[0].sizes().min() > 0
    assert state.sweep == 0
    assert state.densities[0].tolist() == 0.0
    (first, info), *_ = chain(KEY, target, 1)
    assert first.sweep == 1
    assert info.is_warmup


def test_stages_of_a_start():
    """Starts are grown, pooled and improved, and what each of these reached is told."""
    schedule = Schedule(starts=3, regrow=2)
    target = Target.prepare(simulated((80, 200), 4).tensor, schedule=schedule, threads=1)
    seen = list(start(KEY, target))
    stages = [now.stage for now in seen]
    order = list(dict.fromkeys(stages))
    assert order[:4] == [*(f"start {i} of 3" for i in (1, 2, 3)), "putting starts together"]
    assert order[-2:] == ["done", ""]
    done = [attempt.stage for attempt in seen[-1].history]
    assert done[:5] == 3 * ["grown"] + 2 * ["pooled"]
    assert set(done[5:]) == {"regrown"}
    assert 1 <= len(done[5:]) <= 2
    values = [attempt.evidence for attempt in seen[-1].history]
    assert all(map(isfinite, values))
    assert values[3] >= max(values[:3])  # the best start, or better
    assert (np.diff(values[3:]) >= 0.0).all()
    assert seen[-1].history[-1].n_components == seen[-1].state.n_components == 4


def test_what_holds_columns_of_others_is_looked_for_on_long_rows(monkeypatch):
    """That is when a round of replacing components has brought nothing; another one follows."""
    n_rounds, n_looks = [], []

    def give_back(_, best):
        looks.append(best.value)
        if len(looks) == 1:
            yield Judged(best.state, best.value + 1000.0)

    monkeypatch.setattr(families, "give_back", give_back)
    schedule = Schedule(starts=3, regrow=9)
    target = Target.prepare(simulated((80, 200), 4).tensor, schedule=schedule, threads=1)
    for shortest in (200, 201):
        looks: list[float] = []
        monkeypatch.setattr(families, "LONG", shortest)
        *_, last = start(KEY, target)
        n_looks.append(len(looks))
        n_rounds.append([attempt.stage for attempt in last.history].count("regrown"))
    assert n_looks == [2, 0]
    assert n_rounds[0] == n_rounds[1] + 1


@pytest.mark.parametrize(
    ("most", "shortest", "is_changed", "n_rounds"),
    [
        (15_999, 201, False, 1),
        (16_000, 201, False, 4),  # a small table
        (15_999, 200, False, 4),  # long rows
        (15_999, 201, True, 4),
    ],
)
def test_rounds_on_large_data_end_with_the_same_components(
    most, shortest, is_changed, n_rounds, monkeypatch
):
    """A higher evidence is chance then; elsewhere, rounds end if there is none."""

    def improve(_, best):
        state = best.state
        if is_changed:
            state = state.take(np.arange(state.n_components) != 0)
        gains.append(10.0 ** (3 + len(gains)))  # always more than the round before
        yield Judged(state, best.value + gains[-1])

    gains: list[float] = []
    monkeypatch.setattr(families, "improve", improve)
    monkeypatch.setattr(families, "LONG", shortest)
    monkeypatch.setattr(families, "_agree", lambda _: False)
    monkeypatch.setattr(importlib.import_module("thali.sampler.target"), "_LARGE", most)
    schedule = Schedule(starts=2, regrow=4)
    data = simulated((80, 200), 6).tensor
    *_, last = start(KEY, Target.prepare(data, schedule=schedule, threads=1))
    assert [attempt.stage for attempt in last.history].count("regrown") == n_rounds


def recovered(schedule):
    """Return the number of components and the share of wrong entries after a warm-up."""
    data = simulated((1_500, 200), 8)
    *_, (state, _) = chain(KEY, Target.prepare(data.tensor, schedule=schedule, threads=1), 30)
    return state.n_components, (reconstruction(state) != covers(*data.factors)).mean()


def test_few_rows_find_the_components_of_all():
    """What 256 rows find explains the other rows; from nothing, chains have far more.

    The negative control has no births around seeds, which would find the components as well.
    """
    n_components, wrong = recovered(Schedule(warmup=30, first_rows=256, starts=2, regrow=1))
    assert n_components == 8
    assert wrong < 1e-2
    assert recovered(Schedule(warmup=30, hold=10, starts=0, seeded=0))[0] > 12


def test_memberships_of_all_rows_follow_from_the_components():
    """Given the components, other rows are explained as well as the first ones."""
    data = simulated((1_000, 200), 5)
    target = Target.prepare(data.tensor, schedule=FEW, threads=1)
    state = first_state(KEY, target)
    is_wrong = (reconstruction(state) != covers(*data.factors)).mean(axis=1)
    took_part = np.zeros(1_000, bool)
    took_part[first_rows(KEY, target)] = True
    assert is_wrong[took_part].mean() < 0.01
    assert is_wrong[~took_part].mean() < 0.01


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_first_rows_are_packed_like_data_of_their_own(unknown):
    """Ones, known entries and their counts, by rows and by columns."""
    data = simulated((300, 70), 3, unknown=unknown).tensor
    target = Target.prepare(data, schedule=FEW, threads=1)
    rows = first_rows(KEY, target)
    assert len(set(rows.tolist())) == 64
    found = target.on_host(rows).engine.tensor
    expected = PackedTensor.from_tensor(thali.BinaryTensor.from_any(data[rows]))
    assert found[:1] + found[2:] == expected[:1] + expected[2:]
    for one, other in zip(found.unfoldings, expected.unfoldings, strict=True):
        np.testing.assert_array_equal(one.ones, other.ones)
        np.testing.assert_array_equal(one.known, other.known)
    assert target.on_host(None).engine is target.engine


def test_components_of_one_row_or_of_nobody_are_not_given_to_all():
    """Two rows say that others may have it, too; if the others disagree, it is dropped."""
    data = np.zeros((300, 80), bool)
    data[::2, :30] = True
    target = Target.prepare(data, Model(noise=FixedRates(0.02, 0.1)), FEW, threads=1)
    few = target.on_host(np.arange(64))
    users = np.zeros((64, 3), bool)
    users[::2, 0] = users[[5, 7], 1] = users[9, 2] = True  # good, wrong, and one row's own
    codes = np.zeros((80, 3), bool)
    codes[:30, 0] = codes[40:, 1] = codes[:30, 2] = True
    given = few.initial(KEY, [users, codes])._replace(sweep=40)
    *_, state = for_all_rows(KEY, given, target)
    assert state.factors[1].dense().tolist() == codes[:, :1].tolist()
    assert state.factors[0].dense()[:, 0].tolist() == data[:, 0].tolist()
    assert state.covered == target.recount(state).covered
    assert state.sweep == 0


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


# --- dense data and noise ---------------------------------------------------------------------


def test_dense_data_do_not_explode():
    """No sweep of the warm-up has many components; a chain from nothing begins with dozens."""
    data = thali.simulate((100, 600), 8, density=0.3, spurious=0.43, dropped=0.07, seed=1)
    numbers = {}
    for n_starts in (4, 0):
        schedule = Schedule(warmup=25, starts=n_starts)
        target = Target.prepare(data.tensor, schedule=schedule, threads=1)
        numbers[n_starts] = [info.n_components for _, info in chain(KEY, target, 25)]
    assert max(numbers[4]) <= 10
    assert numbers[4][-1] == 8
    assert max(numbers[0]) > 40  # the negative control


@pytest.mark.parametrize("shape", [(80, 200), (300, 30)], ids=str)
def test_noise_gives_no_component(shape):
    """The start is empty, with the rates of the data, and so are the sweeps."""
    for seed in range(3):
        data = np.random.default_rng(seed).random(shape) < 0.3
        target = Target.prepare(data, schedule=ALL, threads=1)
        state = first_state(chain_key(seed), target)
        assert state.n_components == 0
        assert state.noise.spurious == pytest.approx(data.mean(), abs=1e-3)
        *_, (_, info) = chain(chain_key(seed), target, 5, state)
        assert info.n_components == 0


# --- what it may not do ------------------------------------------------------------------------


def test_every_chain_starts_on_rows_of_its_own(monkeypatch):
    """Chains that start alike would agree for no good reason."""
    target = Target.prepare(simulated((400, 40), 3).tensor, schedule=FEW, threads=1)
    taken, plain = [], Target.on_host
    monkeypatch.setattr(Target, "on_host", lambda t, rows: (taken.append(rows), plain(t, rows))[1])
    keys = [chain_key(1, 0), chain_key(1, 1)]
    for key in keys:
        first_state(key, target)
    for key, rows in zip(keys, taken, strict=True):
        assert rows.tolist() == first_rows(key, target).tolist()
    # Of 64 rows, another 64 of 400 share about 10, and 30 or more less than once in 10**9 times.
    assert len(np.intersect1d(*taken)) < 30


def keys_used(begin, monkeypatch):
    """Return the keys of the random numbers of a start, and of the sweeps after it."""
    used = [set()]

    class Recorded(Stream):
        def __new__(cls, key, sweep):
            used[-1].add(int(key))
            return super().__new__(cls, key, sweep)

    target = Target.prepare(simulated((300, 60), 3).tensor, schedule=FEW, threads=1)
    with monkeypatch.context() as patch:
        for name in ("start", "step", "grow.growth"):
            patch.setattr(importlib.import_module(f"thali.sampler.{name}"), "Stream", Recorded)
        if begin is not first_state:
            patch.setitem(begin.__globals__, "Stream", Recorded)
        state = begin(KEY, target)
        used.append(set())
        list(chain(KEY, target, 3, state))
    return used


def test_random_numbers_of_the_start_have_other_keys(monkeypatch):
    """No random number of a start is one of the sweeps; every start has a key of its own."""
    of_start, of_sweeps = keys_used(first_state, monkeypatch)
    assert of_sweeps == {int(KEY)}
    own = start_key(KEY)
    assert of_start == {int(key) for key in (own, start_key(own, 1), start_key(own, 2))}
    assert not of_start & of_sweeps
    assert start_key(KEY) != start_key(KEY, 1)


def test_a_start_with_the_key_of_the_chain_is_noticed(monkeypatch):
    """The same comparison fails if the start has no key of its own."""
    wrong = mutate("thali.sampler.start", [("own = start_key(key)", "own = key")])
    of_start, of_sweeps = keys_used(wrong.first_state, monkeypatch)
    assert of_start & of_sweeps


def test_rates_are_not_held_after_a_start():
    """They fit already; a chain without a start holds them at first."""
    data = simulated((100, 200), 4).tensor
    for n_starts, n_values in ((2, 1 + 8), (0, 1 + 3)):
        schedule = Schedule(warmup=10, hold=5, starts=n_starts)
        target = Target.prepare(data, schedule=schedule, threads=1)
        begun = first_state(KEY, target)
        rates = {state.noise for state, _ in chain(KEY, target, 8, begun)} | {begun.noise}
        assert len(rates) == n_values
        if n_starts:
            assert begun.noise == pytest.approx((0.02, 0.3), abs=0.05)


# --- when ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "model", "schedule", "expected"),
    [
        (256, Model(), FEW, (True, 64)),
        (255, Model(), FEW, (True, 255)),
        (256, Model(3), FEW, (False, 64)),
        (256, Model(), Schedule("serial", first_rows=64), (True, 64)),
        (256, Model(), Schedule(first_rows=0), (True, 256)),
        (256, Model(), Schedule(first_rows=64, starts=0), (False, 64)),
        (16_384, Model(), Schedule(), (True, 4_096)),
        (16_383, Model(), Schedule(), (True, 16_383)),
    ],
)
def test_when_components_are_grown_and_on_how_many_rows(n_rows, model, schedule, expected):
    """For an inferred number of components; on few rows if there are four times as many."""
    target = Target.prepare(np.ones((n_rows, 2), bool), model, schedule, threads=1)
    assert (target.is_grown, target.n_first) == expected


@pytest.mark.parametrize(
    ("shape", "starts", "expected"),
    [((1_024, 1_024), 4, 4), ((1_025, 1_024), 4, 2), ((1_025, 1_024), 1, 1)],
)
def test_large_data_have_fewer_starts(shape, starts, expected):
    """More than a million entries: two at most."""
    schedule = Schedule(starts=starts)
    target = Target.prepare(np.zeros(shape, bool), schedule=schedule, threads=1)
    assert target.n_starts == expected


@pytest.mark.parametrize(
    ("long", "gap", "work", "starts", "flat", "fitted"),
    [
        (1000, 600.0, 1 << 27, 4, 2, 2),  # short rows: predictions decide
        # A strict and a tolerant one, and the fitted one without its effects.
        (10, 400.0, 1 << 27, 4, 3, 2),
        (10, -400.0, 1 << 27, 4, 3, 2),
        (10, 600.0, 1 << 27, 4, 3, 8),
        (10, 600.0, 1 << 27, 2, 3, 4),
        (10, 600.0, -1, 4, 3, 2),  # that would take too long
    ],
)
def test_flat_starts_without_hope_leave_their_time_to_others(
    long, gap, work, starts, flat, fitted, monkeypatch
):
    """Strict and tolerant starts alternate, and each has random numbers of its own."""
    made = {}

    def growth(key, *given, is_strict=True, **more):
        made[grown := Growth(key, *given, is_strict=is_strict, **more)] = int(key), is_strict, more
        return grown

    def judged(growth):  # all of a kind are equally good, so that no round is the last
        is_fitted = not made[growth][2].get("is_flat", True)
        return Judged(growth.state, 1e6 + gap * is_fitted)

    fixed = {"_LITTLE": -1.0, "Growth": growth, "judged": judged, "is_same": lambda *_: False}
    for name, value in fixed.items():
        monkeypatch.setattr(families, name, value)
    for name, value in {"LONG": long, "_WORK": work, "Growth": growth}.items():
        monkeypatch.setattr(MODULE, name, value)
    data = thali.simulate((40, 30), 2, row_spread=1.0, column_spread=1.0, seed=2).tensor
    target = Target.prepare(
        data, Model(noise="effects"), Schedule(starts=starts, regrow=1), threads=1
    )
    *_, last = start(KEY, target)
    seen = [(part.stage, part.kind) for part in last.history]
    assert seen.count(("grown", "flat")) == flat
    assert seen.count(("grown", "fitted")) == fitted
    assert seen.count(("regrown", "fitted")) == (2 if fitted > 2 else 1)
    assert seen.count(("tried", "flat")) == (long == 1000 or gap < 500.0)
    of_none = [part.tried.gain for part in last.history if part.kind == "none"]
    assert (of_none == [0.0]) == (long == 10)  # then it is told, but not tried
    keys, strict, others = zip(*made.values(), strict=True)
    assert len({*keys}) == len(keys)
    of_fitted = [s for s, o in zip(strict, others, strict=True) if not o.get("is_flat", True)]
    assert of_fitted[1 : 1 + fitted] == [True, False] * (fitted // 2)  # the first has no component


@pytest.mark.parametrize("spread", [0.0, 1.5])
def test_long_rows_with_components_are_searched_without_effects_first(spread, monkeypatch):
    """Effects are let in at the end. Where they find something to explain, the search goes on."""
    given = {}

    def growth(key, target, *, is_flat=True, **more):
        grown = Growth(key, target, is_flat=is_flat, **more)
        given[grown] = int(key), type(target.priors.noise).__name__, is_flat
        return grown

    def judged(growth):  # a start with effects has far less evidence
        found = search.judged(growth)
        return found._replace(value=found.value - 1e6 * (not given[growth][2]))

    for module in (MODULE, families):
        monkeypatch.setattr(module, "Growth", growth)
    monkeypatch.setattr(families, "judged", judged)
    monkeypatch.setattr(MODULE, "LONG", 300)
    has_effects = iter([True])  # of the first start, which has not found all components
    found = MODULE.has_effects
    monkeypatch.setattr(
        MODULE, "has_effects", lambda state: next(has_effects, None) or found(state)
    )
    data = thali.simulate(
        (60, 300), 4, spurious=0.1, row_spread=spread, column_spread=spread, seed=2
    )
    target = Target.prepare(data.tensor, Model(noise="effects"), FEW, threads=1)
    *_, last = start(KEY, target)
    seen = [(part.stage, part.kind) for part in last.history]
    assert ("regrown", "fitted") not in seen
    assert ("tried", "fitted") not in seen
    assert last.history[-1].kind == "flat"
    assert found(last.state) or not spread
    if not spread:
        assert (last.state.factors[0].sizes() > 1).sum() == 4
    # If effects explain nothing, having no components is not tried.
    assert [part.tried.gain for part in last.history if part.kind == "none"] == [0.0] or spread
    keys, noises, _ = zip(*given.values(), strict=True)
    assert len({*keys}) == len(keys)
    assert noises.count("UnequalRates") == 3


@pytest.mark.parametrize("is_tried", [True, False])
def test_components_of_a_fitted_start_are_tried_without_effects(is_tried, monkeypatch):
    """Where flat starts miss components, these take their place; otherwise effects would stay."""
    data = thali.simulate((1100, 1000), 16, density=0.12, spurious=0.02, dropped=0.4, seed=0)
    plan, bared = MODULE._plan, MODULE.bared
    # A single flat start, a tolerant one, which takes unions of components for one.
    monkeypatch.setattr(MODULE, "_plan", lambda host: plan(host)._replace(first=1, n_first=1))
    if not is_tried:

        def hopeless(*given):
            growth, found = bared(*given)
            return growth, found._replace(value=-1e9)

        monkeypatch.setattr(MODULE, "bared", hopeless)
    target = Target.prepare(
        data.tensor, Model(noise="effects"), Schedule(starts=2, regrow=1), threads=1
    )
    *_, last = start(KEY, target)
    assert last.history[-1].kind == ("flat" if is_tried else "fitted")
    if is_tried:
        assert last.state.n_components == 16
        assert (reconstruction(last.state) == covers(*data.factors)).all()
        assert not MODULE.has_effects(last.state)


@pytest.mark.parametrize(
    ("model", "schedule"), [(Model(3), FEW), (Model(), Schedule(starts=0))], ids=["finite", "no"]
)
def test_chains_without_a_start(model, schedule):
    """Nothing is yielded, and the first state is the initial one."""
    target = Target.prepare(simulated((300, 40), 3).tensor, model, schedule, threads=1)
    assert not list(start(KEY, target))
    assert parts(first_state(KEY, target)) == parts(target.initial(KEY))


def test_factors_given_are_where_a_chain_starts():
    """Whoever gives a start gets it."""
    data = simulated((400, 40), 3)
    target = Target.prepare(data.tensor, schedule=FEW, threads=1)
    is_used = data.factors[0].any(axis=0)
    begun = target.initial(KEY, [f[:, is_used] for f in data.factors])
    assert begun.factors[0].dense().tolist() == data.factors[0][:, is_used].tolist()
    assert begun.noise == target.priors.noise.initial()


@pytest.mark.parametrize("settings", [{"first_rows": -1}, {"starts": 1.5}, {"regrow": -2}])
def test_bad_settings(settings):
    """One sentence: what was given, what is allowed."""
    ((name, value),) = settings.items()
    with pytest.raises(ValueError, match=f"{name}={value} was given; allowed are integers from 0"):
        Schedule(**settings)


# --- as part of a run ------------------------------------------------------------------------

DATA = simulated((400, 60), 3).tensor
SHORT = {
    "noise": "unequal", "chains": 2, "warmup": 6, "draws": 6, "seed": 3, "schedule": FEW,
}  # fmt: skip
LONG = SHORT | {"schedule": Schedule(first_rows=0, starts=30, regrow=3)}  # long enough to be seen


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        yield


def test_a_run_is_the_chain_from_its_first_state(caplog):
    """Draws are the sweeps after the warm-up, from the first state on; nothing else gets in."""
    with caplog.at_level(logging.INFO, "thali"):
        posterior = thali.sample(DATA, **SHORT, engine="cpu")
    told = [record.message for record in caplog.records]
    assert told == 2 * ["starting with 64 of 400 rows"]
    assert posterior.n_draws == 6
    target = Target.prepare(DATA, schedule=posterior.settings.schedule, threads=1)
    for number in range(2):
        key = chain_key(3, number)
        sweeps = list(chain(key, target, 12, state=first_state(key, target)))
        assert [info.is_warmup for _, info in sweeps] == 6 * [True] + 6 * [False]
        expected = [info.log_joint for _, info in sweeps[6:]]
        assert posterior.log_joint[number].tolist() == expected
        assert [info for _, info in chain(key, target, 12)] == [info for _, info in sweeps]


def test_whoever_watches_sees_the_start(capsys):
    """Before the first sweep, progress says what is done, and counts no sweep."""
    seen = []
    thali.sample(DATA, **LONG, progress=seen.append)
    started = [now for now in seen if now.start]
    assert started
    assert {now.sweep for now in started} == {0}
    assert all(now.start.startswith("starting: ") for now in started)
    assert all(isnan(now.log_joint) or now.log_joint < 0.0 for now in started)
    assert not seen[-1].start
    assert seen[-1].sweep == 12
    thali.sample(DATA, **LONG, progress=True)
    assert "starting: " in capsys.readouterr().err
    ticks = iter([0.0, 11.0, 11.0])
    now = started[0]._replace(start="starting: start 1 of 2", n_components=3, evidence=nan)
    Lines(2, clock=lambda: next(ticks))(now)
    told = "thali: 0 of 24 sweeps (starting: start 1 of 2, 3 components)"
    assert capsys.readouterr().err == f"{told}\n"


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal")
def test_interrupted_in_the_start_and_resumed(tmp_path):
    """Ctrl-C is heard between steps of the start; the run starts again, and the same."""
    heard = []

    def press(now):
        heard.append(now)
        if now.start and len(heard) < 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        thali.sample(DATA, **LONG, out=tmp_path / "run", progress=press)
    assert all(now.sweep == 0 for now in heard)
    assert thali.load(tmp_path / "run").n_draws == 0
    resumed = thali.resume(tmp_path / "run")
    whole = thali.sample(DATA, **LONG)
    assert resumed.n_draws == whole.n_draws == 6
    np.testing.assert_array_equal(resumed.log_joint, whole.log_joint)


def test_runs_keep_how_they_started(tmp_path):
    """The header names it; runs of earlier versions started otherwise, and can be loaded."""
    posterior = thali.sample(DATA, **SHORT, out=tmp_path / "run")
    as_before_seals(tmp_path / "run")
    path = tmp_path / "run" / "header.json"
    header = json.loads(path.read_text())
    stored = header["settings"]["schedule"]
    assert (stored["first_rows"], stored["starts"], stored["regrow"]) == (64, 2, 1)
    assert Settings.from_json(header["settings"]) == posterior.settings
    for name in ("starts", "regrow"):  # started with sweeps of few rows
        del stored[name]
    stored["first_sweeps"] = 40
    path.write_text(json.dumps(header))
    earlier = thali.load(tmp_path / "run")
    assert (earlier.settings.schedule.first_rows, earlier.settings.schedule.starts) == (64, 0)
    np.testing.assert_array_equal(earlier.log_joint, posterior.log_joint)
    for name in ("first_rows", "first_sweeps"):  # started with all rows
        del stored[name]
    path.write_text(json.dumps(header))
    first = thali.load(tmp_path / "run").settings.schedule
    assert (first.first_rows, first.starts) == (0, 0)
