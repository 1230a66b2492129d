"""What a draw makes likely is compared with what entries read, by plain loops."""

import numpy as np
import pytest
from scipy.special import expit

import thali
from thali.bits import Factor, PackedTensor
from thali.data import BinaryTensor
from thali.model.effects import Effects
from thali.model.levels import Hyper, Levels
from thali.posterior import most_likely
from thali.posterior.most_likely import n_misread
from thali.sampler import State


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("n_components", [0, 3])
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_levels(monkeypatch, share, n_components, block):
    """With row and column effects, what is likely depends on levels, jumps and cover."""
    monkeypatch.setattr(most_likely, "_BLOCK_WORDS", block)
    rng = np.random.default_rng(5)
    shape = (23, 131)
    values = (rng.random(shape) < 0.4).astype(float)
    values[rng.random(shape) < share] = np.nan
    tensor = PackedTensor.from_tensor(BinaryTensor.from_any(values))
    users, codes = (rng.random((n, n_components)) < 0.4 for n in shape)
    effects = Effects(jumps=True)
    grids = effects.grids
    rows, columns = rng.integers(24, 41, shape[0]), rng.integers(8, 25, shape[1])
    jumps = rng.integers(0, 20, shape[1])
    noise = Levels(effects, rows, columns, jumps, Hyper(4, 12, 4, 6, 3, 17))
    covered = (users.astype(int) @ codes.T.astype(int)) > 0
    counts = tuple(int((covered & (values == x)).sum()) for x in (1, 0))
    factors = tuple(map(Factor.from_dense, (users, codes)))
    state = State(factors, noise, 1.0, (), counts, 0)
    n_wrong = 0
    for (n, d), x in np.ndenumerate(values):
        odds = grids.rows[rows[n]] + grids.columns[columns[d]] + noise.offset
        odds += grids.jumps[jumps[d]] if covered[n, d] else 0.0
        n_wrong += not np.isnan(x) and x != (expit(odds) > 0.5)
    assert n_misread(state, tensor, tensor.confusion(*counts)) == n_wrong


@pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")
def test_a_rare_component_is_no_worse_than_zeros():
    """A component that is seen in a third of its entries would be worse than none as a product."""
    rng = np.random.default_rng(2)
    is_member = np.arange(60) < 25
    chance = np.where(np.outer(is_member, np.arange(80) < 30), 0.35, 0.03)
    values = rng.random(chance.shape) < chance
    posterior = thali.sample(values, seed=1, chains=1, warmup=40, draws=20, progress=False)
    estimate = posterior.point_estimate()
    product = estimate.confusion
    assert product.fp + product.fn > values.sum()
    assert estimate.error * values.size <= values.sum()
