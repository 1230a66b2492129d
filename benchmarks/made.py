"""Large packed data for benchmarks."""

import numpy as np

from thali.bits import Factor, PackedTensor, Unfolding, pack


def make(shape, n_components, seed=0):
    """Return packed data near a Boolean product, and its factors."""
    rng = np.random.default_rng(seed)
    n_rows, n_columns = shape
    users = rng.random((n_rows, n_components)) < 0.15
    codes = rng.random((n_columns, n_components)) < 0.15
    lines = Factor.from_dense(codes).words
    every = pack(np.ones(n_columns, np.bool_))
    words = np.empty((n_rows, lines.shape[1]), np.uint64)
    for i in range(n_rows):
        noise = rng.integers(0, 2**64, (4, lines.shape[1]), np.uint64)
        row = np.bitwise_or.reduce(lines[users[i]], axis=0, initial=np.uint64(0))
        words[i] = (row ^ np.bitwise_and.reduce(noise, axis=0)) & every  # one in 16 is flipped
    return PackedTensor.from_unfolding(shape, Unfolding(words, None)), (users, codes)
