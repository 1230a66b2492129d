"""Replicated data are simulated as the model says, and tell a fitting model from a poor one."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binom

import thali
from thali import BinaryTensor
from thali.bits import Factor, PackedTensor
from thali.model import Noise
from thali.posterior import check_statistics, replicate
from thali.posterior.diagnostics import sample_pairs
from thali.posterior.replicate import check, default_statistics
from thali.sampler import State
from thali.sites import Site
from thali.streams import Stream, simulation_key
from thali.trace import Draw

NOISE = Noise(0.1, 0.2)


def draw_of(factors, noise=NOISE):
    packed = tuple(Factor.from_dense(np.asarray(f, np.bool_)) for f in factors)
    return Draw(State(packed, noise, 1.0, (), (0, 0), 0), 0.0, 0.0)


def pack(tensor):
    return PackedTensor.from_tensor(BinaryTensor.from_any(tensor))


def simulated(shape, seed, unknown=0.0):
    return thali.simulate(
        shape, 3, spurious=NOISE.spurious, dropped=NOISE.dropped, unknown=unknown, seed=seed
    )


def blocks_seen(*args, **kwargs):
    """The arrays that a check hands to its statistics: the data, then the replicates."""
    seen = []

    def keep(block):
        seen.append(block.copy())
        return 0.0

    check(*args, statistics={"keep": keep}, **kwargs)
    return seen[0], seen[1:]


# --- the replicates ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(9, 70), (70, 9), (4, 3, 5), (3, 70, 2), (2, 3, 4, 2)])
@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_replicates_are_the_data_the_model_simulates(shape, unknown):
    """Every entry by its own uniform and rate, unknown where the data are; any arity."""
    data = simulated(shape, seed=1, unknown=unknown)
    observed, replicates = blocks_seen(
        [draw_of(data.factors)], pack(data.tensor), n_replicates=3, seed=5
    )
    np.testing.assert_array_equal(observed, data.tensor.astype(float))
    for r, block in enumerate(replicates):
        stream = Stream(simulation_key(5), np.uint64(r))
        uniforms = stream.uniforms(Site.REPLICATE, observed.size).reshape(shape)
        for at in product(*map(range, shape)):
            is_covered = any(
                all(f[i, l] for f, i in zip(data.factors, at, strict=True)) for l in range(3)
            )
            rate = 1.0 - NOISE.dropped if is_covered else NOISE.spurious
            if np.isnan(observed[at]):
                assert np.isnan(block[at])
            else:
                assert block[at] == (uniforms[at] < rate)


def test_draws_are_spread_evenly_and_used_in_order():
    """Each draw has its own mark: a noise-free block of its own."""
    marks = [np.arange(8)[:, None] == i for i in range(8)]
    noise = Noise(1e-12, 1e-12)
    draws = [draw_of([mark, np.ones((2, 1))], noise) for mark in marks]
    tensor = pack(np.eye(8, 2))

    def used(draws, n):
        _, blocks = blocks_seen(draws, tensor, n_replicates=n)
        return [int(block[:, 0].argmax()) for block in blocks]

    assert used(draws, 8) == list(range(8))
    assert used(draws, 3) == [1, 4, 6]
    assert used(iter(draws), 3) == [1, 4, 6]
    assert used(draws[:3], 6) == [0, 0, 1, 1, 2, 2]


def test_a_draw_used_twice_gives_different_data():
    """And another seed too; the same seed the same."""
    data = simulated((20, 30), seed=2)
    arguments = [draw_of(data.factors)], pack(data.tensor)
    (_, (first, second)) = blocks_seen(*arguments, n_replicates=2)
    (_, (again,)) = blocks_seen(*arguments, n_replicates=1)
    (_, (other,)) = blocks_seen(*arguments, n_replicates=1, seed=1)
    assert (first == again).all()
    assert (first != second).any()
    assert (first != other).any()


def test_large_tensors_are_checked_on_evenly_spaced_rows(monkeypatch):
    """Both data and replicates; at least two rows, however long."""
    data = simulated((50, 20), seed=3)
    arguments = [draw_of(data.factors, Noise(1e-12, 1e-12))], pack(data.tensor)
    for most, rows in ((200, range(0, 50, 5)), (19, [0, 25])):
        monkeypatch.setattr(replicate, "MOST_ENTRIES", most)
        observed, (block,) = blocks_seen(*arguments, n_replicates=1)
        assert (observed == data.tensor[list(rows)]).all()
        assert (block == data.noise_free[list(rows)]).all()


def test_a_draw_without_components_is_noise():
    """Nothing is covered; every entry has the rate of spurious ones."""
    draws = [draw_of([np.zeros((30, 0)), np.zeros((40, 0))], Noise(1e-12, 0.4))]
    _, (block,) = blocks_seen(draws, pack(np.eye(30, 40)), n_replicates=1)
    assert block.sum() == 0.0


# --- the statistics ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 5)])
def test_default_statistics_are_what_their_names_say(shape):
    """Against plain loops, with unknown entries."""
    block = simulated(shape, seed=4, unknown=0.2).tensor
    found = {name: f(block) for name, f in default_statistics(len(shape)).items()}
    expected = {"fraction of ones": np.nanmean(block)}
    for mode, n_rows in enumerate(shape):
        rows = [block.take(i, axis=mode).ravel() for i in range(n_rows)]
        assert n_rows * (n_rows - 1) // 2 <= check_statistics.N_PAIRS
        overlaps = [np.nanmean(a * b) for a, b in combinations(rows, 2)]
        expected[f"sd of shares, mode {mode}"] = np.std([np.nanmean(row) for row in rows])
        expected[f"mean overlap, mode {mode}"] = np.mean(overlaps)
        expected[f"sd of overlap, mode {mode}"] = np.std(overlaps)
    assert found == pytest.approx(expected, rel=1e-12)


def test_overlaps_of_many_rows_are_those_of_the_sampled_pairs(monkeypatch):
    """In as many parts as memory wants."""
    block = simulated((40, 6), seed=4).tensor.astype(float)
    pairs = sample_pairs(40, check_statistics.N_PAIRS)
    expected = [(block[i] * block[j]).mean() for i, j in pairs]
    for entries in (1, 70, 10**6):
        monkeypatch.setattr(check_statistics, "_PAIR_ENTRIES", entries)
        np.testing.assert_allclose(check_statistics._overlaps(block, 0), expected, rtol=1e-12)


def test_rows_without_known_entries_are_left_out():
    """A gene that was never measured must not spoil the check (nor warn)."""
    data = simulated((12, 10), seed=5)
    tensor = data.tensor.astype(float)
    tensor[3] = np.nan
    tensor[:, 7] = np.nan
    table = check([draw_of(data.factors)], pack(tensor), n_replicates=5)
    assert table.notna().all(axis=None)
    rest = np.delete(np.delete(tensor, 3, 0), 7, 1)
    assert table.loc["sd of shares, mode 0", "observed"] == pytest.approx(rest.mean(axis=1).std())


def test_statistics_that_do_not_exist_are_nan():
    """One row has no pairs."""
    data = simulated((1, 10), seed=6)
    table = check([draw_of(data.factors)], pack(data.tensor), n_replicates=5)
    assert np.isnan(table.loc["mean overlap, mode 0", "p_value"])
    assert table.loc["fraction of ones"].notna().all()


def test_modes_can_be_named():
    """As in the data."""
    data = simulated((6, 5), seed=7)
    table = check(
        [draw_of(data.factors)], pack(data.tensor), n_replicates=2, mode_names=["cells", "genes"]
    )
    assert "sd of overlap, genes" in table.index
    with pytest.raises(ValueError, match="mode_names has 1 name for 2 modes; give one per mode"):
        default_statistics(2, ["cells"])


# --- the table -----------------------------------------------------------------------------


def table_of(observed, replicated):
    """The row of a statistic whose values are known beforehand."""
    values = iter([observed, *replicated])
    data = simulated((4, 3), seed=8)
    return check(
        [draw_of(data.factors)],
        pack(data.tensor),
        statistics={"given": lambda block: next(values)},
        n_replicates=len(replicated),
    ).loc["given"]


@pytest.mark.parametrize(
    ("observed", "p_value"),
    [(-1.0, 0.1), (20.0, 0.1), (0.5, 0.2), (9.0, 1.0), (17.5, 0.2)],
)
def test_p_values_count_the_data_as_one_of_the_replicates(observed, p_value):
    """Nineteen replicates at 0 ... 18; both tails."""
    row = table_of(observed, range(19))
    assert row["p_value"] == pytest.approx(p_value)
    assert row["observed"] == observed
    assert row["replicated"] == 9.0
    assert (row["q05"], row["q95"]) == pytest.approx((0.9, 17.1))


def test_ties_are_not_extreme():
    """A statistic that is always the same cannot speak against the model."""
    assert table_of(3, [3] * 9)["p_value"] == 1.0


def test_statistics_of_users_replace_the_defaults():
    """Any function of a dense array."""
    data = simulated((8, 9), seed=9)
    table = check(
        [draw_of(data.factors)],
        pack(data.tensor),
        statistics={"ones": np.sum, "first": lambda block: block[0, 0] > 0},
        n_replicates=4,
    )
    assert list(table.index) == ["ones", "first"]
    assert list(table.columns) == ["observed", "replicated", "q05", "q95", "p_value"]
    assert table.loc["ones", "observed"] == data.tensor.sum()


@pytest.mark.parametrize("statistics", [np.sum, {}, {"x": 3}, ["mean"]])
def test_what_is_not_a_dictionary_of_functions_is_refused(statistics):
    """One sentence."""
    data = simulated((8, 9), seed=9)
    with pytest.raises(TypeError, match=r"a dictionary from names to functions of an array"):
        check([draw_of(data.factors)], pack(data.tensor), statistics=statistics)


@pytest.mark.parametrize("value", [np.ones(3), "high", None])
def test_statistics_that_are_not_a_number_are_refused(value):
    """The statistic is named."""
    data = simulated((8, 9), seed=9)
    with pytest.raises(ValueError, match=r"statistic 'mine' returned .* one number is needed"):
        check([draw_of(data.factors)], pack(data.tensor), statistics={"mine": lambda _: value})


def test_what_does_not_fit_is_refused():
    """No draws, draws of other data, no replicates."""
    data = simulated((8, 9), seed=9)
    draw, tensor = draw_of(data.factors), pack(data.tensor)
    with pytest.raises(ValueError, match="no draws were given"):
        check([], tensor)
    with pytest.raises(ValueError, match=r"factors with \(8, 9\) rows .* shape \(9, 8\)"):
        check([draw], pack(data.tensor.T))
    with pytest.raises(ValueError, match="n_replicates=0 was given"):
        check([draw], tensor, n_replicates=0)
    with pytest.raises(ValueError, match="seed=-1 was given"):
        check([draw], tensor, seed=-1)


# --- does it tell? -------------------------------------------------------------------------

SEEDS, REPLICATES = 80, 19


def p_values(change=lambda draw: draw, shape=(40, 30), n_seeds=SEEDS):
    """P-values of data that the model made, checked with draws that may be wrong."""
    tables = []
    for seed in range(n_seeds):
        data = simulated(shape, seed, unknown=0.1)
        draws = [change(draw_of(data.factors))]
        tables.append(
            check(draws, pack(data.tensor), n_replicates=REPLICATES, seed=seed)["p_value"]
        )
    return np.array(tables)


def limit(n_statistics):
    """Most p-values of 0.1 (the least possible) among all seeds, for a perfect model.

    Data and replicates are then exchangeable, so that each p-value is at most 0.1 with probability
    at most 0.1, independently over seeds; binomial bound at one in a million for all statistics
    together (Bonferroni).
    """
    return binom.ppf(1 - 1e-6 / n_statistics, SEEDS, 0.1)


@pytest.mark.parametrize("shape", [(40, 30), (10, 8, 6)])
def test_the_true_model_is_not_rejected(shape):
    """P-values are as small as chance makes them, for every statistic."""
    found = p_values(shape=shape)
    assert ((found <= 0.1).sum(axis=0) <= limit(found.shape[1])).all()
    assert (found > 0.5).any(axis=0).all()  # nor are they all alike


def emptied(draw):
    return draw._replace(
        state=draw.state._replace(
            factors=tuple(Factor.empty(f.n_rows) for f in draw.state.factors)
        )
    )


def at_the_right_density(draw):
    """Error rates that make up for the missing components: half of the entries are ones."""
    wrong = emptied(draw)
    return wrong._replace(state=wrong.state._replace(noise=Noise(0.45, 0.45)))


def too_noisy(draw):
    return draw._replace(state=draw.state._replace(noise=Noise(0.15, 0.25)))


@pytest.mark.parametrize(
    ("change", "statistic"), [(emptied, 0), (at_the_right_density, 1), (at_the_right_density, 4)]
)
def test_missing_components_are_always_found(change, statistic):
    """Every p-value is the least there is; with the right density too, by the spread of rows."""
    assert (p_values(change, n_seeds=10)[:, statistic] == 2 / (REPLICATES + 1)).all()


def test_wrong_error_rates_are_found_by_the_test_that_the_truth_passes():
    """The same count exceeds the same bound."""
    found = p_values(too_noisy)
    assert ((found <= 0.1).sum(axis=0) > limit(found.shape[1])).any()


def test_one_missing_component_is_found():
    """Data of three components, draws with two of them and the truth about the errors."""

    def dropped_one(draw):
        keep = np.array([0, 1])
        return draw._replace(state=draw.state.take(keep))

    found = p_values(dropped_one)
    assert ((found <= 0.1).sum(axis=0) > limit(found.shape[1])).any()
