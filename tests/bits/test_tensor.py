"""Packed tensors, factors and Khatri-Rao products against dense NumPy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from support import oracle
from thali.bits import Factor, PackedTensor, inner_mode, khatri_rao, pack, unpack
from thali.bits import refold as refold_module
from thali.bits import tensor as tensor_module
from thali.bits.codes import outer_modes
from thali.bits.words import n_words
from thali.data import BinaryTensor

SEED = st.integers(0, 2**32 - 1)
SHAPE = st.sampled_from(
    [(5, 70), (64, 65), (130, 1), (3, 66, 4), (2, 5, 5), (70, 3, 2), (2, 3, 2, 67), (4, 3, 65, 2)]
)
check = settings(deadline=None, max_examples=40, derandomize=True)


def random_factors(shape, n_components, seed):
    rng = np.random.default_rng(seed)
    return [rng.random((n, n_components)) < 0.6 for n in shape]


def random_data(shape, seed):
    """Return values and known entries; unknown values are arbitrary."""
    rng = np.random.default_rng(seed)
    known = rng.random(shape) < 0.7
    known.flat[0] = True
    return rng.random(shape) < 0.5, known


def as_tensor(values, known=None):
    floats = values.astype(float)
    return PackedTensor.from_tensor(
        BinaryTensor.from_any(values if known is None else np.where(known, floats, np.nan))
    )


def unfold(dense, mode):
    """Return the unfolding of a dense tensor, padded as documented, without packing tricks."""
    rest = [m for m in range(dense.ndim) if m != mode]
    inner = max(rest, key=lambda m: (dense.shape[m], m))
    rest.remove(inner)
    moved = np.moveaxis(dense, [mode, *rest, inner], range(dense.ndim))
    padding = -dense.shape[inner] % 64
    padded = np.pad(moved, [(0, 0)] * (dense.ndim - 1) + [(0, padding)])
    return padded.reshape(dense.shape[mode], -1)


def bits_of(words):
    return unpack(words, 64 * words.shape[1])


# --- factors ------------------------------------------------------------------------------------


@check
@given(st.sampled_from([1, 63, 64, 65, 130]), st.integers(0, 6), SEED)
def test_factor(n_rows, n_components, seed):
    """A factor packs, counts, selects, reorders and grows as its dense array does."""
    (dense,) = random_factors([n_rows], n_components, seed)
    factor = Factor.from_dense(dense)
    order = np.random.default_rng(seed).permutation(n_components)
    assert (factor.n_rows, factor.n_components) == dense.shape
    assert factor.words.shape == (n_components, n_words(n_rows))
    assert np.array_equal(factor.dense(), dense)
    assert np.array_equal(factor.sizes(), dense.sum(axis=0))
    assert np.array_equal(factor.take(order).dense(), dense[:, order])
    assert np.array_equal(factor.take(order > 1).dense(), dense[:, order > 1])
    assert np.array_equal(factor.append(factor.words[:2]).dense(), np.c_[dense, dense[:, :2]])


def test_empty_factor():
    """A factor without components still knows its rows, and can grow."""
    factor = Factor.empty(70)
    assert factor.dense().shape == (70, 0)
    assert factor.sizes().shape == (0,)
    assert factor.append(pack(np.ones((1, 70), bool))).sizes().tolist() == [70]


# --- unfoldings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "skip", "inner", "outer"),
    [
        ((3, 4), 0, 1, []),
        ((3, 4), 1, 0, []),
        ((9, 5, 4), 0, 1, [2]),
        ((9, 5, 4), 1, 0, [2]),
        ((2, 5, 5), 0, 2, [1]),
        ((7, 3, 7, 7), 3, 2, [0, 1]),
    ],
)
def test_order_of_modes(shape, skip, inner, outer):
    """The longest remaining mode is innermost, the last one of equals."""
    assert inner_mode(shape, skip) == inner
    assert outer_modes(shape, skip) == outer


@check
@given(SHAPE, SEED, st.booleans())
def test_unfoldings(shape, seed, has_unknown):
    """Ones and known entries are unfolded along every mode; unknown and padding are zero."""
    values, known = random_data(shape, seed)
    packed = as_tensor(values, known if has_unknown else None)
    known = known if has_unknown else np.ones(shape, bool)
    assert (packed.shape, packed.n_known) == (shape, known.sum())
    assert packed.n_ones == (values & known).sum()
    for mode, unfolding in enumerate(packed.unfoldings):
        assert np.array_equal(bits_of(unfolding.ones), unfold(values & known, mode))
        if has_unknown and not known.all():
            assert np.array_equal(bits_of(unfolding.known), unfold(known, mode))
        else:
            assert unfolding.known is None


@check
@given(SHAPE, SEED)
def test_hidden_values_do_not_matter(shape, seed):
    """What lies below a mask never reaches the words."""
    values, known = random_data(shape, seed)
    one, other = (
        PackedTensor.from_tensor(BinaryTensor.from_any(np.ma.array(v, mask=~known)))
        for v in (values, values ^ ~known)
    )
    assert all(
        np.array_equal(a.ones, b.ones)
        for a, b in zip(one.unfoldings, other.unfoldings, strict=True)
    )
    assert (one.n_known, one.n_ones) == (other.n_known, other.n_ones)


@check
@given(st.sampled_from([(5, 70), (64, 65), (130, 1)]), SEED, st.booleans())
def test_sparse_equals_dense(shape, seed, has_unknown):
    """A sparse matrix, with stored NaN for unknown, gives the words of the dense one."""
    values, known = random_data(shape, seed)
    data = np.where(known, values.astype(float), np.nan) if has_unknown else values.astype(float)
    dense = PackedTensor.from_tensor(BinaryTensor.from_any(data))
    thin = PackedTensor.from_tensor(BinaryTensor.from_any(sparse.csr_array(data)))
    assert dense[0] == thin[0]
    assert dense[2:] == thin[2:]
    for a, b in zip(dense.unfoldings, thin.unfoldings, strict=True):
        assert np.array_equal(a.ones, b.ones)
        assert (a.known is None) == (b.known is None)
        assert a.known is None or np.array_equal(a.known, b.known)


@check
@given(st.sampled_from([(5, 70), (64, 65), (130, 1)]), SEED)
def test_transposing_swaps_unfoldings(shape, seed):
    """The unfoldings of a transposed matrix are those of the matrix, swapped."""
    values, known = random_data(shape, seed)
    here, there = as_tensor(values, known), as_tensor(values.T, known.T)
    for a, b in zip(here.unfoldings, there.unfoldings[::-1], strict=True):
        assert np.array_equal(a.ones, b.ones)
        assert (a.known is None) == (b.known is None)
        assert a.known is None or np.array_equal(a.known, b.known)


@pytest.mark.parametrize(
    "shape", [(70, 3, 130), (130, 70, 3), (3, 5, 5), (2, 70, 3, 130), (130, 3, 70, 2)], ids=str
)
def test_coordinates_give_the_words_of_the_dense_tensor(shape, monkeypatch):
    """In every unfolding, with unknown entries, on one thread and on several."""
    monkeypatch.setattr(refold_module, "WORDS_PER_THREAD", 1)
    values, known = random_data(shape, seed=3)
    dense = as_tensor(values, known)
    thin = BinaryTensor.from_any((np.argwhere(values), shape), unknown=np.argwhere(~known))
    for threads in (1, 3):
        packed = PackedTensor.from_tensor(thin, threads)
        assert dense[0] == packed[0]
        assert dense[2:] == packed[2:]
        for mode, (a, b) in enumerate(zip(dense.unfoldings, packed.unfoldings, strict=True)):
            assert np.array_equal(a.ones, b.ones)
            assert np.array_equal(a.known, b.known)
            assert np.array_equal(bits_of(b.ones), unfold(values & known, mode))
            assert np.array_equal(bits_of(b.known), unfold(known, mode))


def test_a_wrong_order_of_modes_is_found_out(monkeypatch):
    """The comparison above notices if two modes of equal length are exchanged."""
    values, _ = random_data((3, 4, 4, 9), seed=3)
    right = refold_module.word_strides

    def wrong(shape, mode):
        first, second, third, last = right(shape, mode)
        return [first, third, second, last] if mode == 0 else [first, second, third, last]

    monkeypatch.setattr(refold_module, "word_strides", wrong)
    packed = as_tensor(values)
    assert np.array_equal(bits_of(packed.unfoldings[0].ones), unfold(values, 0))
    assert not np.array_equal(bits_of(packed.unfoldings[3].ones), unfold(values, 3))


def test_blocks(monkeypatch):
    """Packing a few rows at a time gives the same words as packing all at once."""
    values, known = random_data((7, 5, 66), seed=0)
    whole = as_tensor(values, known)
    monkeypatch.setattr(tensor_module, "_BLOCK_ENTRIES", 700)
    parts = as_tensor(values, known)
    for a, b in zip(whole.unfoldings, parts.unfoldings, strict=True):
        assert np.array_equal(a.ones, b.ones)
        assert np.array_equal(a.known, b.known)


def test_memory():
    """A known matrix costs two bits an entry, one for each orientation."""
    values, _ = random_data((640, 1280), seed=0)
    assert 8 * as_tensor(values).nbytes <= 2.1 * values.size


@check
@given(st.sampled_from([(3, 5), (2, 3, 4)]), SEED)
def test_confusion(shape, seed):
    """The counts of covered entries are completed to the confusion of all known entries."""
    values, known = random_data(shape, seed)
    components = oracle.as_components(random_factors(shape, 2, seed))
    expected = oracle.confusion(oracle.as_cells(values, known), components)
    confusion = as_tensor(values, known).confusion(*expected[:2])
    assert confusion == expected
    assert sum(confusion) == known.sum()


# --- codes --------------------------------------------------------------------------------------


@check
@given(SHAPE, st.integers(1, 4), SEED)
def test_khatri_rao(shape, n_components, seed):
    """Codes are the product of all other factors, ordered and padded as the unfoldings are."""
    dense = random_factors(shape, n_components, seed)
    factors = [Factor.from_dense(f) for f in dense]
    for skip, component in product(range(len(shape)), range(n_components)):
        columns = [f[:, component] for f in dense]
        columns[skip] = np.ones(1, bool)
        letters = "abcd"[: len(shape)]
        cells = np.einsum(",".join(letters) + "->" + letters, *columns)
        # With one row in the skipped mode another mode may be the longest: unfold the full shape.
        full = np.broadcast_to(cells, shape)
        code = bits_of(khatri_rao(factors, skip).words)[component]
        assert np.array_equal(code, unfold(full, skip)[0])


@check
@given(SHAPE, st.integers(1, 5), SEED)
def test_relabelling_commutes(shape, n_components, seed):
    """Reordering the components of all factors reorders their codes and nothing else."""
    factors = [Factor.from_dense(f) for f in random_factors(shape, n_components, seed)]
    order = np.random.default_rng(seed).permutation(n_components)
    for skip in range(len(shape)):
        relabelled = khatri_rao([f.take(order) for f in factors], skip).words
        assert np.array_equal(relabelled, khatri_rao(factors, skip).words[order])


def test_codes_of_a_matrix_are_not_copied():
    """For a matrix the codes are the words of the other factor."""
    factors = [Factor.from_dense(f) for f in random_factors((5, 70), 3, seed=0)]
    assert khatri_rao(factors, 0) is factors[1]
    assert khatri_rao(factors, 1) is factors[0]


def test_codes_of_no_component():
    """Without components there are no codes, in any arity."""
    for arity in (2, 3, 4):
        factors = [Factor.empty(n) for n in (3, 4, 5, 6)[:arity]]
        assert khatri_rao(factors, 0).n_components == 0


@pytest.mark.parametrize("is_part", [False, True])
@pytest.mark.parametrize("shape", [(5, 4, 70), (6, 70, 3), (4, 3, 5, 2)])
def test_a_tensor_as_a_matrix(shape, is_part):
    """Columns are the combinations of lines, outermost first, and padding is unknown."""
    rng = np.random.default_rng(3)
    values = (rng.random(shape) < 0.4).astype(float)
    values[rng.random(shape) < 0.1] = np.nan
    lines = [np.sort(rng.permutation(n)[: n // 2 + 1 if is_part else n]) for n in shape]
    matrix = PackedTensor.from_tensor(BinaryTensor.from_any(values)).of_lines(lines).as_matrix()
    chosen = values[np.ix_(*lines)]
    inner = max(range(1, len(shape)), key=lambda m: (chosen.shape[m], m))
    outer = [m for m in range(1, len(shape)) if m != inner]
    chosen = chosen.transpose(0, *outer, inner).reshape(len(lines[0]), -1, len(lines[inner]))
    width = -(-len(lines[inner]) // 64) * 64
    padded = np.full((*chosen.shape[:2], width), np.nan)
    padded[..., : chosen.shape[2]] = chosen
    expected = padded.reshape(len(lines[0]), -1)
    assert matrix.shape == expected.shape
    ones, known = (unpack(words, expected.shape[1]) for words in matrix.unfoldings[0])
    np.testing.assert_array_equal(known, ~np.isnan(expected))
    np.testing.assert_array_equal(ones, expected == 1)
