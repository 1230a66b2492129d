"""Random draws and data, with Boolean products by plain loops."""

import numpy as np

from thali.bits import Factor
from thali.model import Noise
from thali.sampler import State
from thali.trace import Draw


def make_draw(factors, spurious=0.1, dropped=0.2):
    packed = tuple(Factor.from_dense(f) for f in factors)
    return Draw(State(packed, Noise(spurious, dropped), 1.0, (), (0, 0), 0), 0.0, 0.0)


def random_draws(shape, sizes, rng):
    """Return draws of these numbers of components, and their products by plain loops."""
    draws, products = [], []
    for n_components in sizes:
        density = 0.7 / max(1, n_components) ** (1 / len(shape))
        factors = [rng.random((n, n_components)) < density for n in shape]
        draws.append(make_draw(factors, *rng.uniform(0.01, 0.4, 2)))
        products.append(loop_product(factors, shape))
    return draws, np.array(products)


def loop_product(factors, shape):
    out = np.zeros(shape, bool)
    for component in range(factors[0].shape[1]):
        block = np.ones((), bool)
        for factor in factors:
            block = np.logical_and.outer(block, factor[:, component])
        out |= block
    return out


def random_tensor(shape, rng, share_unknown=0.3):
    data = (rng.random(shape) < 0.4).astype(float)
    data[rng.random(shape) < share_unknown] = np.nan
    data.flat[0] = 1.0
    return data
