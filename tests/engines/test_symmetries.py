"""Properties of the row update that hold whatever the data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thali.bits import Factor, PackedTensor, khatri_rao
from thali.data import BinaryTensor
from thali.decide import fixed
from thali.engines import RowUpdate
from thali.engines.cpu.engine import CpuEngine
from thali.model import Model, Weights
from thali.sampler import Target, chain
from thali.streams import Stream, chain_key

FORMS = ["horizontal", "vertical"]
seeds = st.integers(0, 2**32 - 1)
lengths = st.sampled_from([1, 2, 5, 63, 64, 65, 130])


def loaded(values, known, form):
    data = np.where(known, values.astype(float), np.nan)
    return CpuEngine(1, form).load(PackedTensor.from_tensor(BinaryTensor.from_any(data)))


def draw(rng, n_rows, n_columns, n_components=4):
    values = rng.random((n_rows, n_columns)) < 0.5
    known = rng.random((n_rows, n_columns)) < 0.8
    known[0, 0] = True
    factors = [Factor.from_dense(rng.random((n, n_components)) < 0.4) for n in values.shape]
    return values, known, factors


def order(mode, factors, **changed):
    n = factors[0].n_components
    job = RowUpdate(
        mode=mode,
        rows=None,
        codes=khatri_rao(factors, mode),
        is_held=np.zeros(n, bool),
        weights=Weights(np.array([[[[0.7, -0.6]]]])).fixed(),
        singles=None,
        prior=fixed(np.linspace(-1.0, 1.0, n)),
        stream=Stream(chain_key(3), np.uint64(5)),
        site=1,
    )
    return job._replace(**changed)


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=seeds, n_rows=lengths, n_columns=lengths)
def test_transposing_a_matrix_swaps_the_factors(form, seed, n_rows, n_columns):
    """Updating the second mode of the transpose draws the bits of the first mode."""
    values, known, factors = draw(np.random.default_rng(seed), n_rows, n_columns)
    plain, gained = loaded(values, known, form).update(order(0, factors), factors[0])
    swapped = factors[::-1]
    other, also = loaded(values.T, known.T, form).update(order(1, swapped), swapped[1])
    assert plain.words.tolist() == other.words.tolist()
    assert gained == also


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=seeds, n_rows=lengths, n_columns=lengths)
def test_columns_that_nobody_knows_change_no_bit(form, seed, n_rows, n_columns):
    """Unknown entries never matter: neither alone nor as whole columns, whatever lies below."""
    rng = np.random.default_rng(seed)
    values, known, factors = draw(rng, n_rows, n_columns)
    expected, gained = loaded(values, known, form).update(order(0, factors), factors[0])
    more = rng.random((n_rows, 70)) < 0.5
    wide = np.concatenate([values ^ ~known, more], axis=1)
    mask = np.concatenate([known, np.zeros_like(more)], axis=1)
    codes = np.concatenate([factors[1].dense(), rng.random((70, 4)) < 0.4])
    wider = [factors[0], Factor.from_dense(codes)]
    found, also = loaded(wide, mask, form).update(order(0, wider), factors[0])
    assert found.words.tolist() == expected.words.tolist()
    assert also == gained


@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=seeds, n_rows=lengths, n_columns=lengths)
def test_relabelling_components_changes_no_count(seed, n_rows, n_columns):
    """What rows cover does not depend on the order of components, nor on doubling one."""
    rng = np.random.default_rng(seed)
    values, known, factors = draw(rng, n_rows, n_columns)
    engine = loaded(values, known, "auto")
    counts = engine.count(0, None, factors[1], factors[0])
    for index in (rng.permutation(4), np.array([0, 1, 2, 3, 2])):
        z, u = (f.take(index) for f in factors)
        assert np.array_equal(engine.count(0, None, u, z), counts)


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=seeds, n_rows=lengths, n_columns=lengths)
def test_rows_are_independent_and_held_components_stay(form, seed, n_rows, n_columns):
    """Any subset of rows gets the bits it gets among all rows; what is held is not touched."""
    rng = np.random.default_rng(seed)
    values, known, factors = draw(rng, n_rows, n_columns)
    engine = loaded(values, known, form)
    is_held = np.array([False, True, False, False])
    singles = rng.integers(0, 3, n_rows)
    weights = Weights(np.array([[[[0.7, -0.6], [0.5, -0.3], [0.2, -0.1]]]])).fixed()
    job = order(0, factors, is_held=is_held, singles=singles, weights=weights)
    everything, gained = engine.update(job, factors[0])
    assert everything.words[1].tolist() == factors[0].words[1].tolist()
    rows = np.flatnonzero(rng.random(n_rows) < 0.5)
    some, part = engine.update(job._replace(rows=rows, singles=singles[rows]), factors[0])
    rest = np.setdiff1d(np.arange(n_rows), rows)
    both, other = engine.update(job._replace(rows=rest, singles=singles[rest]), some)
    assert both.words.tolist() == everything.words.tolist()
    assert gained == (part[0] + other[0], part[1] + other[1])


def test_values_below_a_mask_never_matter():
    """Two masked arrays that agree where they are known give one chain."""
    rng = np.random.default_rng(0)
    values, mask = rng.random((30, 40)) < 0.5, rng.random((30, 40)) < 0.3
    chains = []
    for below in (0, 1, 7):
        data = np.ma.masked_array(np.where(mask, below, values), mask)
        chains.append([i for _, i in chain(chain_key(1), Target.prepare(data, Model()), 5)])
    assert chains[0] == chains[1] == chains[2]
