"""Fewest errors: counts are right, tiny instances are solved, planted components are found."""

import logging
import signal
import threading
from itertools import combinations_with_replacement, product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import thali
from thali.bits import PackedTensor
from thali.data import BinaryTensor
from thali.errors import EngineUnavailable, InvalidValue
from thali.optimize.bounds import lower_bound
from thali.optimize.searcher import Problem
from thali.optimize.strategies import FREE, leg


def recount(data, found):
    """Count the errors of both kinds by plain NumPy, from the factors and the original data."""
    users, codes = (np.asarray(factor).astype(int) for factor in found.factors)
    covered = users @ codes.T > 0
    return int((covered & (data == 0)).sum()), int((~covered & (data == 1)).sum())


def fewest(data, k, cost=(1, 1), *, under=False):
    """Return the lowest loss of k components, by trying all."""
    n_columns = data.shape[1]
    patterns = [np.array(bits, bool) for bits in product([0, 1], repeat=n_columns)]
    losses = {}
    for pattern in patterns:
        zeros_inside, ones_outside = pattern & (data == 0), ~pattern & (data == 1)
        loss = cost[0] * zeros_inside.sum(axis=1) + cost[1] * ones_outside.sum(axis=1)
        losses[tuple(pattern)] = (
            np.where(zeros_inside.any(axis=1), np.inf, loss) if under else loss
        )
    best = np.inf
    for codes in combinations_with_replacement(patterns, k):
        unions = {
            tuple(np.any([c for c, is_in in zip(codes, has, strict=True) if is_in], axis=0))
            if any(has)
            else (False,) * n_columns
            for has in product([0, 1], repeat=k)
        }
        best = min(best, np.min([losses[union] for union in unions], axis=0).sum())
    return best


def made(seed, shape, density=0.5, unknown=0.0):
    rng = np.random.default_rng(seed)
    data = (rng.random(shape) < density).astype(float)
    data[rng.random(shape) < unknown] = np.nan
    return data


def problem_of(data, k, costs=(1.0, 1.0)):
    return Problem.of(PackedTensor.from_tensor(BinaryTensor.from_any(data)), k, costs)


SHORT = {"sweeps": 60, "seed": 1, "progress": False}


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("unknown", [0.0, 0.2])
@pytest.mark.parametrize("exact", [False, "under"])
@pytest.mark.parametrize("shape", [(70, 40), (9, 130)])
def test_errors_are_recounted(shape, exact, unknown, k):
    """The errors that are reported are those of the factors, on the original data."""
    data = made(k, shape, 0.3, unknown)
    found = thali.minimize(data, k, exact=exact, sweeps=20, seed=1, progress=False)
    assert (found.zeros_inside, found.ones_outside) == recount(data, found)
    assert found.errors == found.loss == found.zeros_inside + found.ones_outside
    assert found.lower_bound <= found.loss < (data == 1).sum()
    assert found.n_components == k
    assert exact is False or found.zeros_inside == 0


def test_a_wrong_count_is_noticed():
    """The recount above differs if one membership does."""
    data = made(0, (30, 30))
    found = thali.minimize(data, 3, **SHORT)
    before = recount(data, found)
    found.factors[0].words[0, 0] ^= np.uint64(1)
    assert recount(data, found) != before


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(("cost", "under"), [((1, 1), False), ((3, 1), False), ((1, 1), True)])
def test_tiny_tables_are_solved(cost, under, k, seed):
    """No combination of components has a lower loss; bounds are below all of them."""
    data = made(seed, (7, 5), 0.5, 0.1 * (seed % 2))
    least = fewest(data, k, cost, under=under)
    found = thali.minimize(data, k, cost=cost, exact="under" if under else False, **SHORT)
    assert found.loss == least
    assert found.lower_bound <= least
    assert not found.is_optimal or found.lower_bound == least


def test_enumeration_tells_kinds_of_errors_apart():
    """The costs and the rule against covered zeros matter to the exact answers above."""
    data = made(0, (7, 5), 0.6)
    assert fewest(data, 2) < fewest(data, 2, (3, 1)) <= fewest(data, 2, under=True)


def test_planted_components_are_found():
    """Without noise, all of them, and no error is left; that is the minimum."""
    rng = np.random.default_rng(5)
    users, codes = rng.random((120, 8)) < 0.2, rng.random((90, 8)) < 0.2
    data = users @ codes.T
    found = thali.minimize(data, 8, sweeps=200, seed=3, progress=False)
    assert found.errors == 0
    assert found.is_optimal
    assert recount(data, found) == (0, 0)
    assert thali.minimize(data, 4, **SHORT).errors > 0


def test_noise_is_left_out():
    """With flipped entries, no more errors are left than were made."""
    data = thali.simulate((150, 200), 5, spurious=0.05, seed=1)
    found = thali.minimize(data.tensor, 5, sweeps=100, seed=1, progress=False)
    observed = data.tensor
    assert found.errors <= (observed != data.noise_free).sum()
    agree = (found.covered() == data.noise_free).mean()
    assert agree > 0.99  # of 30,000 entries; 95% of the observed ones agree


def test_the_same_on_any_number_of_threads():
    """With sweeps, a seed decides; another seed gives another answer."""
    data = made(2, (60, 50), 0.4)
    answers = [
        thali.minimize(data, 6, sweeps=8, seed=seed, threads=threads, progress=False)
        for seed, threads in ((7, 1), (7, 2), (7, 5), (8, 2))
    ]
    words = [np.concatenate([f.words.ravel() for f in a.factors]).tolist() for a in answers]
    assert words[0] == words[1] == words[2]
    assert words[0] != words[3]


def test_costs_change_the_kind_of_errors():
    """The dearer a covered zero, the fewer there are."""
    data = made(4, (60, 50), 0.4)
    zeros_inside = [
        thali.minimize(data, 5, cost=(price, 1), **SHORT).zeros_inside
        for price in (0.3, 1, 3, 1000)
    ]
    assert zeros_inside == sorted(zeros_inside, reverse=True)
    assert len(set(zeros_inside)) == 4
    assert zeros_inside[-1] == 0


def test_only_ratios_of_costs_matter():
    """Costs in other units give the same factors."""
    data = made(4, (40, 30), 0.4)
    first, second = (thali.minimize(data, 3, cost=c, **SHORT) for c in ((1, 2), (4, 8)))
    assert (first.factors[0].words == second.factors[0].words).all()
    assert second.loss == 4 * first.loss


def test_unknown_entries_do_not_count():
    """What is unknown may be covered or not, at no cost."""
    data = np.ones((20, 20))
    data[::2, ::2] = np.nan
    data[0, 0] = 0
    found = thali.minimize(data, 1, **SHORT)
    assert (found.zeros_inside, found.ones_outside) == (1, 0)
    assert thali.minimize(np.where(np.isnan(data), 0, data), 1, **SHORT).errors > 50


@pytest.mark.parametrize("k", [1, 2])
def test_rows_that_count_more_are_repeated(k):
    """Copies of a row are fitted as one row with a weight; no weighted factors are better."""
    data = made(3, (6, 5), 0.5)
    weights = np.array([4, 1, 1, 2, 1, 3])
    repeated = np.repeat(data, weights, axis=0)
    found = thali.minimize(repeated, k, **SHORT)
    assert found.loss == fewest(repeated, k)
    users, codes = found.transform(data), np.asarray(found.factors[1])
    wrong = ((users @ codes.T) != (data == 1)).sum(axis=1)
    assert wrong @ weights <= found.loss
    plain = thali.minimize(data, k, **SHORT)
    assert plain.errors <= wrong.sum()


def test_forms_of_data():
    """Names are kept, and sparse matrices are taken."""
    frame = pd.DataFrame(np.eye(4, dtype=int), list("abcd"), list("wxyz"))
    found = thali.minimize(frame, 4, **SHORT)
    assert found.errors == 0
    assert found.memberships().index.tolist() == list("abcd")
    assert found.components().columns.tolist() == list("wxyz")
    assert found.components().index[0] == "component_1"
    assert thali.minimize(sparse.csr_array(np.eye(4)), 4, **SHORT).errors == 0


def test_exact_covers():
    """Without errors, the fewest components are found; any bound is below their number."""
    data = made(3, (9, 8), 0.5, 0.1)
    found = thali.minimize(data, exact=True, **SHORT)
    assert recount(data, found) == (0, 0)
    assert found.fewest_components <= found.n_components
    if found.is_optimal and found.n_components > 1:
        fewer = thali.minimize(data, found.n_components - 1, exact="under", **SHORT)
        assert fewer.errors > 0
    assert found.trace_table()["n_components"].iloc[-1] == found.n_components
    assert thali.minimize(np.eye(5), exact=True, **SHORT).n_components == 5


@pytest.mark.parametrize("data", [np.zeros((3, 4)), np.ones((3, 4)), np.eye(1)])
@pytest.mark.parametrize("k", [1, 5])
def test_degenerate_tables(data, k):
    """Nothing, everything, a single entry, more components than rows: all are reproduced."""
    found = thali.minimize(data, k, **SHORT)
    assert found.errors == 0
    assert found.is_optimal


def test_bound_by_patterns():
    """One component makes two kinds of rows: of three kinds, the rarest is wrong."""
    data = np.repeat(np.eye(3), [5, 4, 2], axis=0)
    assert lower_bound(problem_of(data, 1), is_under=False) == 6
    assert lower_bound(problem_of(data, 3), is_under=False) == 0
    found = thali.minimize(data, 1, **SHORT)
    assert found.loss == 6
    assert "6 errors, which is the minimum" in repr(found)


def test_bound_by_area():
    """A rectangle without zeros in a diagonal is a single entry."""
    assert lower_bound(problem_of(np.eye(9), 2), is_under=True) == 7


def test_time_is_kept_and_reported():
    """A search of given seconds reports its progress, and its trace goes down."""
    told = []
    data = made(1, (60, 60), 0.4)
    found = thali.minimize(data, 5, seconds=0.3, seed=1, progress=told.append)
    losses = found.trace_table()["errors"].tolist()
    assert losses == sorted(set(losses), reverse=True)
    assert losses[-1] == found.errors
    assert told[-1].share == 1.0
    assert told[-1].zeros_inside + told[-1].ones_outside == found.errors


def test_stopped_early(caplog):
    """Ctrl-C returns the best so far."""
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    data = made(1, (60, 60), 0.4)
    thali.minimize(data, 5, **SHORT)  # compiled before the clock starts
    timer.start()
    with caplog.at_level(logging.WARNING, "thali"):
        found = thali.minimize(data, 5, seconds=600, seed=1, progress=False)
    assert found.is_stopped
    assert found.errors < (data == 1).sum()
    assert "stopped early" in caplog.text


def test_an_exact_cover_that_is_stopped(caplog):
    """Ctrl-C returns the best so far, and says so."""

    def stop(_now):
        raise KeyboardInterrupt

    data = made(1, (14, 10), 0.5)
    with caplog.at_level(logging.WARNING, "thali"):
        found = thali.minimize(data, exact=True, sweeps=50, seed=1, progress=stop)
    assert found.is_stopped
    assert found.errors == 0
    assert "stopped early" in caplog.text
    assert not thali.minimize(data, exact=True, sweeps=1, seed=1, progress=False).is_stopped


def test_transform():
    """Rows that were fitted have no more errors by transform; new rows get their components."""
    data = thali.simulate((100, 60), 4, spurious=0.02, seed=2)
    found = thali.minimize(data.tensor, 4, **SHORT)
    observed = data.tensor
    codes = np.asarray(found.factors[1])
    users = found.transform(observed, threads=2)
    assert ((users @ codes.T) != observed).sum() <= found.errors
    wanted = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
    rows = (wanted @ codes.T).astype(float)
    assert (found.transform(rows) @ codes.T == rows).all()
    rows[0, :5] = np.nan
    assert found.transform(rows).shape == (3, 4)
    with pytest.raises(InvalidValue, match="rows need 60 columns"):
        found.transform(np.eye(3))


def test_transform_of_an_undercover():
    """No zero of a new row is covered, whatever is gained."""
    data = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1]])
    found = thali.minimize(data, 1, exact="under", **SHORT)
    assert found.transform([[1, 1, 1, 0], [1, 1, 1, 1]]).ravel().tolist() == [False, True]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n_components": 0}, "n_components=0 was given; allowed are integers from 1 on"),
        ({"n_components": None}, "n_components=None was given; the fewest errors are those of"),
        ({"cost": 1}, "cost=1 was given; allowed are two positive numbers"),
        ({"cost": (0, 1)}, "cost=0 was given; allowed are finite numbers above 0"),
        ({"exact": "over"}, "exact='over' was given; allowed are"),
        ({"exact": True}, "exact=True and n_components=2 were given"),
        ({"seconds": 0}, "seconds=0 was given"),
        ({"sweeps": 0}, "sweeps=0 was given"),
        ({"seconds": 1, "sweeps": 1}, "seconds=1 and sweeps=1 were given; allowed is one"),
        ({"engine": "tpu"}, "engine='tpu' was given"),
        ({"threads": 0}, "threads=0 was given"),
        ({"seed": -1}, "seed=-1 was given"),
    ],
)
def test_bad_input(wrong, words):
    """One sentence says what was given and what is allowed."""
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        thali.minimize(np.eye(3), **({"n_components": 2, "progress": False} | wrong))


def test_what_is_not_offered():
    """Tensors and GPUs are refused in a sentence."""
    with pytest.raises(InvalidValue, match="a tensor of 3 modes was given"):
        thali.minimize(np.ones((2, 2, 2)), 2, progress=False)
    with pytest.raises(EngineUnavailable, match="on the CPU"):
        thali.minimize(np.eye(3), 2, engine="gpu", progress=False)


def test_a_search_that_is_stuck_begins_anew():
    """Every other searcher does, if a round of kicks found nothing; trials are as always."""
    n = len(FREE)
    for number in range(n):
        assert leg(FREE, number, 1, 0, is_stuck=True) == leg(FREE, number, 1, 0, is_stuck=False)
    fresh = [[leg(FREE, n, i, 2, is_stuck=stuck).is_fresh for i in range(4)] for stuck in (0, 1)]
    assert fresh == [[False] * 4, [False, True, False, True]]
    assert leg(FREE, n, 1, 2, is_stuck=True).phases == FREE[2]
