"""Choices inside the proposals: their probabilities are what the ratios take them for."""

import numpy as np
import pytest
from scipy.special import expit, log_expit, logit, logsumexp

from support.mutants import mutate
from thali.bits import Factor
from thali.bits.words import pack, unpack
from thali.engines.cpu.engine import CpuEngine
from thali.model import FixedRates, Model
from thali.sampler import Target
from thali.sampler.moves import split_merge
from thali.sampler.moves.anchored import ANCHORED
from thali.sampler.moves.compound import COMPOUND
from thali.sampler.moves.guided import GUIDED
from thali.sampler.moves.move import Attempt
from thali.sampler.moves.proposal import CHUNK
from thali.sampler.moves.residual_kernels import add_up, residual_users
from thali.sampler.moves.split_merge import SPLIT_MERGE, chance_of, partner_of
from thali.streams import Stream
from thali.threads import parallel_for


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


N_ROWS = 3 * CHUNK + 100
STREAM = Stream(np.uint64(7), np.uint64(1))


@pytest.mark.parametrize(
    "move", [SPLIT_MERGE, GUIDED, COMPOUND, ANCHORED], ids=lambda move: move.name
)
def test_proposals_do_not_depend_on_threads(move):
    """Rows are many enough for several ranges, which differ with the number of threads."""
    rng = np.random.default_rng(1)
    users, codes = pack(rng.random((4, N_ROWS)) < 0.3), pack(rng.random((4, 64)) < 0.5)
    users[3] = users[0] | users[1]  # a compound that may be deleted
    data = rng.random((N_ROWS, 64)) < 0.3
    targets = [
        Target.prepare(data, Model(noise=FixedRates(0.2, 0.3), alpha=1.0), engine=CpuEngine(n))
        for n in (1, 2, 3)
    ]
    state = targets[0].initial(np.uint64(0))
    state = state._replace(factors=(Factor(users, N_ROWS), Factor(codes, 64)))
    n_possible = 0
    for number in range(40):
        tried = [
            move.propose(Attempt(STREAM, np.uint64(number), state, target)) for target in targets
        ]
        for other in tried[1:]:
            for one, another in zip(tried[0], other, strict=True):
                np.testing.assert_array_equal(one, another)
        n_possible += tried[0].is_possible
    assert n_possible > 1


def test_a_range_that_forgets_the_rows_before_it_is_noticed():
    """The same comparison rejects a division whose ranges all begin with the first number."""
    edit = ("index = np.uint64(size_of(users[: lo >> 6]))", "index = np.uint64(0)")
    wrong = mutate("thali.sampler.moves.split_merge", [edit])
    users = pack(np.random.default_rng(1).random(N_ROWS) < 0.3)
    for module, is_same in ((split_merge, True), (wrong, False)):
        pairs = [module.divided(STREAM, np.uint64(0), users, CpuEngine(n)) for n in (1, 2)]
        assert np.array_equal(*pairs) == is_same


@pytest.mark.parametrize("is_drawn", [True, False])
def test_users_of_what_is_left_are_weighed_chunk_by_chunk(is_drawn):
    """The sums are those of the whole, by the plain formula, on any number of threads."""
    rng = np.random.default_rng(2)
    counts, sizes = rng.integers(0, 9, (N_ROWS, 2, 2)), np.array([20, 44])
    given, odds, rate, w1, w0 = pack(rng.random(N_ROWS) < 0.4), np.array([1.0, -1, -2]), 0.1, 3, -2
    gains = counts[:, 0] @ np.array([w1, w0], float)
    found = []
    for threads in (1, 2, 3):
        users, sums = np.zeros_like(given) if is_drawn else given, np.empty((4, 4))
        parallel_for(
            residual_users, N_ROWS, threads, *STREAM, np.uint64(0), is_drawn, users, rate,
            gains[:, None], counts, sizes, odds, sums, step=CHUNK,
        )  # fmt: skip
        found.append((users, *add_up(sums, N_ROWS)))
    for users, gain, log_proposal in found[1:]:
        assert np.array_equal(users, found[0][0])
        assert (gain, log_proposal) == found[0][1:]
    users, gain, log_proposal = found[0]
    joins = unpack(users, N_ROWS).astype(bool)
    log_odds = logit(rate) + gains
    neither = sizes - counts.sum(axis=2)
    by_kind = np.concatenate([counts, neither[:, :, None]], axis=2)
    log_code = by_kind[:, 0] @ log_expit(odds) + by_kind[:, 1] @ log_expit(-odds)
    log_joins = np.where(joins, log_expit(log_odds), log_expit(-log_odds)).sum()
    assert gain == gains[joins].sum()
    assert log_proposal == pytest.approx(logsumexp(log_code) - np.log(N_ROWS) + log_joins)
    if is_drawn:  # as often as their odds say, within five standard errors
        expected = expit(log_odds)
        error = np.sqrt((expected * (1 - expected)).sum())
        assert abs(joins.sum() - expected.sum()) < 5 * error
