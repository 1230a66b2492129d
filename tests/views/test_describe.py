"""Cards and overlaps against plain NumPy."""

import json

import numpy as np
import pytest

import thali
from thali import views
from thali.bits.tensor import unfold_back

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")


@pytest.fixture(scope="module", params=[(14, 20), (8, 6, 7)], ids=str)
def posterior(request):
    tensor = thali.simulate(request.param, 3, spurious=0.1, dropped=0.1, seed=4).tensor
    names = [[f"{mode}.{i}" for i in range(n)] for mode, n in enumerate(request.param)]
    names[0] = None
    tensor = thali.BinaryTensor.from_any(tensor, row_names=names)
    given = None if tensor.arity == 2 else 3  # tensors need a number
    broad = thali.model.Gamma(1.0, 1.0)  # more components, more to describe
    settings = {"n_components": given, "noise": "unequal", "alpha": broad}
    return thali.sample(tensor, **settings, chains=2, warmup=20, draws=15, seed=3)


def estimate(posterior):
    return [factor.dense() for factor in posterior.point_estimate().factors]


def test_there_is_something_to_describe(posterior):
    """The tests below say nothing without components that overlap."""
    cards = views.cards(posterior)
    assert len(cards) >= 2
    assert any(card["overlaps"] for card in cards)
    assert any(card["sure"] < 1.0 for card in cards)


def test_overlap_against_plain_loops(posterior):
    """Rows in both components, and in one of them, counted as sets."""
    shown = views.overlap(posterior)
    for mode, factor in enumerate(estimate(posterior)):
        members = [set(np.flatnonzero(column)) for column in factor.T]
        for i, a in enumerate(members):
            for j, b in enumerate(members):
                assert shown.shared[mode][i, j] == len(a & b)
                either = len(a | b)
                assert shown.jaccard[mode][i, j] == (len(a & b) / either if either else 0.0)


def lift_by_hand(posterior, factors, mode, component):
    """Share of ones within the component over the share elsewhere, one line after another."""
    data = unfold_back(posterior.tensor.unfoldings[0].ones, posterior.shape)
    others = [m for m in range(data.ndim) if m != mode]
    inside = np.ones([posterior.shape[m] for m in others], bool)
    for axis, m in enumerate(others):
        lines = [1] * len(others)
        lines[axis] = -1
        inside &= factors[m][:, component].reshape(lines)
    shares = []
    for line in np.moveaxis(data, mode, 0):
        parts = [(part.sum() + 0.5) / (part.size + 1) for part in (line[inside], line[~inside])]
        shares.append(parts[0] / parts[1])
    return np.array(shares)


def whole_lift_by_hand(posterior, factors, component):
    """Share of ones in the block of a component, over that of its columns elsewhere."""
    data = unfold_back(posterior.tensor.unfoldings[0].ones, posterior.shape)
    members = [np.flatnonzero(factor[:, component]) for factor in factors]
    block = data[np.ix_(*members)]
    columns = data.take(members[1], axis=1)
    ones, size = columns.sum() - block.sum(), columns.size - block.size
    return (block.sum() + 0.5) / (block.size + 1) / ((ones + 0.5) / (size + 1))


def test_cards_against_plain_loops(posterior):
    """Counts are those of the point estimate, probabilities those of all draws."""
    factors, alignment = estimate(posterior), posterior.align()
    cards = views.cards(posterior, n_top=4)
    assert [card["component"] for card in cards] == list(range(factors[0].shape[1]))
    for k, card in enumerate(cards):
        assert card["counts"] == [int(f[:, k].sum()) for f in factors]
        assert (card["users"], card["columns"]) == tuple(card["counts"][:2])
        assert card["size"] == np.prod(card["counts"])
        assert card["matched"] == alignment.matched[k]
        assert card["similarity"] == alignment.similarity[k]
        sure = []
        for mode, (factor, means) in enumerate(zip(factors, alignment.means, strict=True)):
            p = means[:, k] * alignment.matched[k]
            sure.append(p[factor[:, k]].mean() if factor[:, k].any() else 0.0)
            lift = lift_by_hand(posterior, factors, mode, k)
            best = sorted(range(len(p)), key=lambda row: (-round(p[row], 2), -lift[row], row))[:4]
            top = [(row, p[row]) for row in best if p[row] > 0]
            found = [m["lift"] for m in card["top"][mode]]
            assert found == pytest.approx([lift[row] for row, _ in top])
            assert [(m["row"], m["probability"]) for m in card["top"][mode]] == top
            names = [str(row) if mode == 0 else f"{mode}.{row}" for row, _ in top]
            assert [m["name"] for m in card["top"][mode]] == names
        assert card["sure"] == pytest.approx(min(sure))
        assert card["lift"] == pytest.approx(whole_lift_by_hand(posterior, factors, k))


def test_neighbours_are_all_that_share_a_row(posterior):
    """The most alike first; none is left out, and a component is not its own neighbour."""
    shown = views.overlap(posterior)
    for k, card in enumerate(views.cards(posterior)):
        found = {n["component"]: n for n in card["overlaps"]}
        expected = {
            j
            for j in range(len(shown.shared[0]))
            if j != k and any(table[k, j] for table in shown.shared)
        }
        assert set(found) == expected
        for j, neighbour in found.items():
            assert neighbour["shared"] == [int(table[k, j]) for table in shown.shared]
            assert neighbour["jaccard"] == [float(table[k, j]) for table in shown.jaccard]
        alike = [sum(n["jaccard"]) for n in card["overlaps"]]
        assert alike == sorted(alike, reverse=True)


def test_cards_are_plain_data(posterior):
    """A report writes them as they are."""
    cards = views.cards(posterior)
    assert json.loads(json.dumps(cards)) == cards


def test_number_to_name(posterior):
    """As many as there are, or none."""
    assert views.cards(posterior, n_top=0)[0]["top"] == [[] for _ in posterior.shape]
    with pytest.raises(ValueError, match="n_top=-1 was given"):
        views.cards(posterior, n_top=-1)


def test_nothing_to_describe():
    """Data without structure have no components, no cards and an order all the same."""
    few = {"noise": "unequal", "chains": 2, "warmup": 20, "draws": 10}
    posterior = thali.sample(np.zeros((5, 4)), **few, seed=1)
    assert posterior.point_estimate().factors[0].n_components == 0
    assert views.cards(posterior) == []
    rows, columns = views.seriate(posterior)
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 2, 3, 4], [0, 1, 2, 3])
    assert views.overlap(posterior).shared[0].shape == (0, 0)
    shown = views.blocks(posterior, rows, columns, (2, 2))
    assert (shown.data == 0).all()
