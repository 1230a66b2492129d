"""Extreme data neither crash nor give NaN, and bad arguments get one sentence."""

import numpy as np
import pytest

import thali
from thali.engines.cpu.engine import CpuEngine
from thali.model import AsPublished, EqualRates, FixedRates, Model, PerComponent
from thali.sampler import Schedule, Target, chain, step
from thali.streams import chain_key

EMPTY_ROW = np.array([[1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1]])
DATA = {
    "all ones": np.ones((5, 7), int),
    "all zeros": np.zeros((5, 7), int),
    "one entry": np.ones((1, 1), int),
    "one row": np.array([[1, 0, 1, 1]]),
    "one column": np.array([[1], [0], [1]]),
    "empty row and column": EMPTY_ROW,
    "nothing known in a row": np.where(np.arange(3)[:, None] == 1, np.nan, EMPTY_ROW),
    "nothing known in a column": np.where(np.arange(4) == 2, np.nan, EMPTY_ROW),
    "one known entry": np.array([[np.nan, 1.0], [np.nan, np.nan]]),
    "identical rows": np.tile([1, 0, 1, 1, 0], (6, 1)),
}
MODELS = {
    "buffet": Model(),
    "equal": Model(noise=EqualRates()),
    "as published": Model(noise="as-published"),
    "own densities": Model(density=PerComponent()),
    "no component": Model(0),
    "one component": Model(1),
    "many components": Model(70),
    "own densities, finite": Model(3, density=PerComponent()),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("model", MODELS)
def test_extreme_data(data, model):
    """Thirty sweeps stay finite, from any start, with counts that add up."""
    target = Target.prepare(DATA[data], MODELS[model], Schedule(warmup=10, hold=5), threads=1)
    check(target)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("kind", ["serial", "serial-integrated"])
def test_extreme_data_in_series(data, kind):
    """The serial schedules too."""
    check(Target.prepare(DATA[data], Model(), Schedule(kind, warmup=10, hold=5), threads=1))


def check(target):
    for state, info in chain(chain_key(1), target, 30):
        assert np.isfinite(info.log_joint)
        assert np.isfinite(info.log_likelihood)
        assert min(state.noise) > 0.0
        assert sum(state.noise) <= 1.0
        assert np.isfinite(state.alpha)
        assert all(np.isfinite(d).all() for d in state.densities)
        assert sum(info.confusion) == target.totals.n_known
        assert min(info.confusion) >= 0
        if target.priors.buffet is not None:
            assert (state.factors[0].sizes() > 0).all()


@pytest.mark.parametrize("noise", [FixedRates(1e-9, 1e-9), FixedRates(0.4, 0.5999)])
def test_extreme_rates(noise):
    """Nearly certain and nearly useless data."""
    target = Target.prepare(EMPTY_ROW, Model(noise=noise), threads=1)
    for _, info in chain(chain_key(2), target, 20):
        assert np.isfinite(info.log_joint)


def test_perfect_data_do_not_freeze_the_chain():
    """Without a single error the rates stay positive, and the closed form is cut."""
    data = thali.simulate((60, 40), 3, spurious=0.0, seed=1)
    for noise in ("unequal", AsPublished()):
        target = Target.prepare(data.tensor, Model(noise=noise), Schedule(warmup=30), threads=1)
        *_, (state, info) = chain(chain_key(0), target, 60)
        assert info.confusion.fp + info.confusion.fn <= 5
        assert 0 < state.noise.spurious < 0.02


def test_concentration_far_too_large():
    """Hundreds of components a row are a matter of growing tables, not of a limit."""
    target = Target.prepare(np.eye(3, dtype=int), Model(alpha=900.0, density=0.5), threads=1)
    state = target.initial(chain_key(0))
    state, info = step(chain_key(0), state, target)
    assert info.n_components > 300
    for kind in ("serial", "serial-integrated"):
        target = Target.prepare(np.eye(3), Model(alpha=900.0), Schedule(kind), threads=1)
        assert step(chain_key(0), target.initial(chain_key(0)), target)[1].n_components > 300


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "sideways"}, "schedule='sideways' was given; allowed are 'parallel'"),
        ({"warmup": -1}, "warmup=-1 was given; allowed are integers from 0"),
        ({"blocks": 1}, "blocks=1 was given; allowed are integers from 2"),
        ({"hold": 2.5}, "hold=2.5 was given"),
    ],
)
def test_bad_schedule(settings, message):
    """One sentence: what was given, what is allowed."""
    with pytest.raises(ValueError, match=message):
        Schedule(**settings)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "serial"}, "use schedule='parallel'"),
        ({"model": Model(density=PerComponent())}, "one density per mode"),
    ],
)
def test_what_a_tensor_cannot_have_yet(given, message):
    """With an inferred number of components: rows in blocks, and one density per mode."""
    with pytest.raises(NotImplementedError, match=message):
        Target.prepare(np.eye(3)[None] == 1, **given)


def test_own_densities_in_series_name_the_alternative():
    """A density per component needs the parallel schedule."""
    with pytest.raises(NotImplementedError, match="use schedule='parallel'"):
        Target.prepare(np.eye(3), Model(density=PerComponent()), Schedule("serial"))


def test_unknown_engine_and_threads():
    """Engines are named; threads are counted from one."""
    with pytest.raises(ImportError, match="engine='tpu' was given; allowed are 'auto'"):
        Target.prepare(np.eye(3), engine="tpu")
    with pytest.raises(ValueError, match="threads=0 was given; allowed are integers from 1"):
        CpuEngine(0)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ([np.ones((3, 2), bool)], "1 factors were given for 2 modes"),
        ([np.ones((3, 2), bool), np.ones((4, 2), bool)], r"shape \(4, 2\).*\(3, 2\)"),
        ([np.zeros((3, 1), bool), np.ones((3, 1), bool)], "no row uses"),
    ],
)
def test_bad_start(factors, message):
    """A start must fit the data."""
    target = Target.prepare(np.eye(3))
    with pytest.raises(ValueError, match=message):
        target.initial(chain_key(0), factors)
