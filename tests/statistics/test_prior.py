"""With nothing to learn from, every schedule draws from the prior."""

import numpy as np
import pytest

from support import compare
from support.chains import NO_MOVES
from thali.bits import PackedTensor, Unfolding
from thali.model import FixedRates, Gamma, Model
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key

N_ROWS, N_COLUMNS, ALPHA = 6, 4, 1.7
HARMONIC = sum(1 / n for n in range(1, N_ROWS + 1))


def nothing_known():
    """Data without a known entry; only a test can make them, users are told to bring some."""
    empty = [np.zeros((n, 1), np.uint64) for n in (N_ROWS, N_COLUMNS)]
    return PackedTensor((N_ROWS, N_COLUMNS), tuple(Unfolding(w, w.copy()) for w in empty), 0, 0)


@pytest.mark.parametrize(
    ("kind", "blocks", "moves"),
    [
        # Without moves, test_buffet has two and three blocks quickly, with data; with moves,
        # test_whole_states has them.
        *(pytest.param("parallel", n, {}, marks=pytest.mark.slow) for n in (2, 6)),
        ("serial", 2, {}),
        ("serial-integrated", 2, {}),
        pytest.param(
            "parallel", 2, {"split_merge": 2, "guided": 2, "residual": 1}, marks=pytest.mark.slow
        ),
    ],
)
def test_number_of_components_and_of_ones(kind, blocks, moves):
    """The mean number of components is alpha H_N, of ones alpha N; the first is Poisson."""
    model = Model(noise=FixedRates(0.1, 0.2), alpha=ALPHA, density=0.3)
    target = Target.prepare(
        nothing_known(), model, Schedule(kind, blocks=blocks, **NO_MOVES | moves), threads=1
    )
    sampled = np.array(
        [
            (i.n_components, i.n_components**2, s.factors[0].sizes().sum())
            for s, i in chain(chain_key(3), target, 12_000)
        ][200:],
        float,
    )
    mean = ALPHA * HARMONIC
    expected = np.array([mean, mean + mean**2, ALPHA * N_ROWS])
    batches = sampled[: len(sampled) // 50 * 50].reshape(50, -1, 3).mean(axis=1)
    z = (batches.mean(axis=0) - expected) / (batches.std(axis=0, ddof=1) / np.sqrt(50))
    assert np.abs(z).max() < compare.bound(3), z


def test_learned_concentration_returns_to_its_prior():
    """Alpha and the number of components follow their joint prior."""
    model = Model(noise=FixedRates(0.1, 0.2), alpha=Gamma(4.0, 3.0), density=0.3)
    target = Target.prepare(nothing_known(), model, Schedule(blocks=3, **NO_MOVES), threads=1)
    sampled = np.array(
        [(s.alpha, i.n_components) for s, i in chain(chain_key(4), target, 12_000)][200:]
    )
    rng = np.random.default_rng(0)
    alpha = rng.gamma(4.0, 1 / 3.0, 100_000)
    prior = np.stack([alpha, rng.poisson(alpha * HARMONIC)], axis=1)
    compare.assert_geweke(prior, sampled, ["alpha", "components"])
