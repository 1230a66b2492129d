"""What a start asks of the engine, against its definition on dense arrays."""

from importlib import import_module

import numpy as np
import pytest

from support.mutants import mutate
from thali.bits import Factor, PackedTensor, pack, unpack
from thali.data import BinaryTensor
from thali.engines.bit_by_bit import score_bits
from thali.engines.cpu.engine import CpuEngine
from thali.model import Weights

ENGINE = import_module("thali.engines.cpu.engine")
WEIGHTS = Weights(np.array([[[[0.7, -0.6]]]]))
PROBLEMS = [
    (5, 7, 3, 0.3),
    (63, 64, 4, 0.0),
    (70, 65, 1, 0.2),
    (130, 129, 70, 0.3),
    (3, 200, 0, 0.1),
]


def make(n_rows, n_columns, n_components, unknown, *, n_threads=1):
    """Return values, known entries, three factors and an engine that holds the data."""
    rng = np.random.default_rng(n_rows)
    values = rng.random((n_rows, n_columns)) < 0.4
    known = rng.random((n_rows, n_columns)) >= unknown
    density = min(0.5, 2.0 / max(1, n_components))  # so that not everything is covered
    lengths = (n_rows, n_columns, n_rows, n_columns)
    users, codes, *others = (rng.random((n, n_components)) < density for n in lengths)
    data = values if known.all() else np.where(known, values.astype(float), np.nan)
    engine = CpuEngine(n_threads).load(PackedTensor.from_tensor(BinaryTensor.from_any(data)))
    return values, known, (users, codes), others, engine


def dense_scores(values, known, codes, before, after):
    """Return the gain by every bit of the rows, one component after the other."""
    scores = np.zeros(before.shape)
    for k in range(before.shape[1]):
        has = np.concatenate([after[:, :k], before[:, k + 1 :]], axis=1)
        covered = has.astype(int) @ np.delete(codes, k, axis=1).T.astype(int) > 0
        free = known & codes[:, k] & ~covered
        scores[:, k] = 0.7 * (free & values).sum(axis=1) - 0.6 * (free & ~values).sum(axis=1)
    return scores


def assert_scores(problem, mode, n_threads=1):
    """Compare all scores of a mode, in a sweep to another factor and in one to the same."""
    values, known, factors, others, engine = make(*problem, n_threads=n_threads)
    if mode == 1:
        values, known = values.T, known.T
    before, codes = factors[mode], factors[1 - mode]
    for after in (others[mode], before):
        packed = tuple(Factor.from_dense(f) for f in (codes, before, after))
        found = engine.score_bits(mode, None, *packed, WEIGHTS)
        expected = dense_scores(values, known, codes, before, after)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
        some = np.arange(len(values))[1::2]
        assert engine.score_bits(mode, some, *packed, WEIGHTS).tolist() == found[some].tolist()


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_scores_are_gains_on_the_way_of_a_sweep(problem, mode, n_threads, monkeypatch):
    """Earlier components have their bits after the sweep, later ones those before it."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    assert_scores(problem, mode, n_threads)


@pytest.mark.parametrize(
    "edit",
    [
        ("(after[k, at]", "(before[k, at]"),
        ("earlier[w] | later[k + 1, w]", "earlier[w] | later[0, w]"),
    ],
    ids=["bits before throughout", "covered by itself"],
)
def test_wrong_scores_are_rejected(edit, monkeypatch):
    """The same comparison fails if the kernel takes the wrong bits."""
    mutant = mutate("thali.engines.cpu.score_bits", [edit])
    monkeypatch.setattr(ENGINE, "score_rows", mutant.score_rows)
    with pytest.raises(AssertionError):
        assert_scores(PROBLEMS[0], 0)


@pytest.mark.parametrize("has_classes", [False, True])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_one_question_per_component_tells_the_same(problem, mode, has_classes):
    """Engines without a kernel of their own: weights are rounded, so that all bits agree."""
    _, _, factors, others, engine = make(*problem)
    rng = np.random.default_rng(2)
    shape = problem[:2]
    weights = WEIGHTS
    if has_classes:
        of_lines = [rng.integers(n, size=size) for n, size in zip((3, 5), shape, strict=True)]
        weights = Weights(rng.normal(size=(3, 5, 1, 2)), *of_lines)
    weights = weights.rounded()
    packed = [Factor.from_dense(f) for f in (factors[1 - mode], factors[mode], others[mode])]
    for rows in (np.arange(shape[mode])[::2], None):
        expected = engine.score_bits(mode, rows, *packed, weights).tolist()
        assert score_bits(engine, mode, rows, *packed, weights).tolist() == expected
    if problem[2] > 1:  # with one component there is no order
        other_way = packed[0], packed[2], packed[1]
        assert score_bits(engine, mode, None, *other_way, weights).tolist() != expected


# --- uncovered entries -----------------------------------------------------------------------


def assert_uncovered(problem, n_threads=1):
    """Compare all answers before and after two further components."""
    values, known, factors, _, engine = make(*problem, n_threads=n_threads)
    rng = np.random.default_rng(1)
    rest = engine.uncovered([Factor.from_dense(f) for f in factors])
    users, codes = (f.astype(int) for f in factors)
    free = known & (users @ codes.T == 0)
    further = [[rng.random(n) < share for n in values.shape] for share in (0.5, 0.2)]
    further.append([np.zeros(n, bool) for n in values.shape])
    of_lines = [rng.integers(n, size=size) for n, size in zip((3, 5), values.shape, strict=True)]
    weights = Weights(rng.normal(size=(3, 5, 1, 2)), *of_lines)
    worth = np.where(values, *(weights.table[np.ix_(*of_lines)][:, :, 0, k] for k in (0, 1)))
    for lines in [None, *further]:
        if lines is not None:
            rest.cover([pack(line[None])[0] for line in lines])
            free &= ~np.outer(*lines)
        for mode, (x, left) in enumerate([(values, free), (values.T, free.T)]):
            classes = rng.random((3, x.shape[1])) < 0.5
            classes[2] = True
            found = rest.count(mode, pack(classes))
            by_class = [[(left & y & c).sum(axis=1) for y in (x, ~x)] for c in classes]
            assert found.tolist() == np.moveaxis(by_class, 2, 0).tolist()
            gains = np.where(free, worth, 0.0).swapaxes(0, mode) @ classes.T
            found = rest.gains(mode, pack(classes), weights)
            np.testing.assert_allclose(found, gains, atol=1e-11)
        for row in (0, len(values) - 1):
            found = unpack(rest.of_row(row), values.shape[1])
            assert found.tolist() == [
                (free & values)[row].tolist(),
                (free & ~values)[row].tolist(),
            ]
            assert rest.of_row(row).tolist() == pack(found).tolist()  # no padding is free


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_uncovered_entries_are_those_of_dense_arrays(problem, n_threads, monkeypatch):
    """Counts by rows, by columns and in classes, and single rows, while components are added."""
    monkeypatch.setattr("thali.engines.host._MIN_WORK", 0)
    assert_uncovered(problem, n_threads)


@pytest.mark.parametrize(
    "edit",
    [
        ("free[list_bits(own)] &= ~other", "free[list_bits(own)] &= other"),
        ("free & ~ones]", "~ones]"),
        ("self._free, lines, lines[::-1]", "self._free[:1], lines[:1], lines[1:]"),
        ("        self._sorted = [None, None]\n", ""),
    ],
    ids=[
        "what is outside is covered",
        "covered zeros are free",
        "one mode forgotten",
        "sorted entries of before",
    ],
)
def test_wrong_uncovered_entries_are_rejected(edit, monkeypatch):
    """The same comparison fails if covering or reading a row is wrong."""
    mutant = mutate("thali.engines.cpu.uncovered", [edit])
    monkeypatch.setattr(ENGINE, "Uncovered", mutant.Uncovered)
    with pytest.raises(AssertionError):
        assert_uncovered(PROBLEMS[0])
