"""Choices inside the proposals: their probabilities are what the ratios take them for."""

import numpy as np
import pytest

from thali.bits.words import pack
from thali.sampler.proposals import chance_of, partner_of


@pytest.mark.parametrize("seed", range(20))
def test_partners_are_drawn_with_the_probability_that_is_weighed(seed):
    """Over a grid of uniforms, ties and empty components included."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    dense = rng.random((n, 5)) < 0.5
    dense[rng.integers(n)] = dense[rng.integers(n)]  # equal ones tie
    dense[rng.integers(n)] &= seed % 3 > 0  # sometimes an empty one
    users = pack(dense)
    n_steps = 60  # a multiple of every number of candidates
    middles = (np.arange(n_steps) + 0.5) / n_steps
    for first in range(n):
        drawn = [partner_of(users, first, u, v) for u in (0.25, 0.75) for v in middles]
        for second in set(range(n)) - {first}:
            others = np.ones(n, bool)
            others[[first, second]] = False
            expected = chance_of(users, others, users[first], users[second])
            assert drawn.count(second) / len(drawn) == pytest.approx(expected)
