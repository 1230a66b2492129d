"""Components matter if without them some entry would be predicted differently."""

from itertools import product

import numpy as np
import pytest

import thali
from support.mutants import mutate
from thali.bits import Factor
from thali.model.simulate import boolean_product
from thali.posterior import matter

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

SHAPES = [(5, 4), (70, 3), (3, 130), (4, 3, 5), (3, 2, 66)]


def by_hand(factors):
    """Leave out components one after another, the smallest first, as long as nothing changes."""
    sizes = np.prod([f.sum(axis=0) for f in factors], axis=0)
    left = set(range(len(sizes)))
    cover = boolean_product(factors)
    for k in np.argsort(sizes, kind="stable"):
        fewer = sorted(left - {k})
        if np.array_equal(boolean_product([f[:, fewer] for f in factors]), cover):
            left.remove(k)
    return left


def made(shape, seed, density):
    """Components, some of them empty, equal, or unions and parts of others."""
    rng = np.random.default_rng(seed)
    factors = [rng.random((n, 6)) < density for n in shape]
    factors[0][:, 1] = False
    factors[-1][:, 2] = False
    for factor in factors:
        factor[:, 4] = factor[:, 3]
    return factors


def cases():
    parts = [np.ones((4, 3), bool), np.array([[1, 1, 0], [1, 0, 1]], bool)]  # two parts of one
    return [parts, *(made(*case) for case in product(SHAPES, range(6), (0.2, 0.5, 0.8)))]


def agree(module):
    """Return whether a module finds a smallest cover of the right size, in every case."""
    for factors in cases():
        found = module.that_matter([Factor.from_dense(f) for f in factors])
        kept = [f[:, found] for f in factors]
        if not np.array_equal(boolean_product(kept), boolean_product(factors)):
            return False
        if found.sum() != len(by_hand(factors)):
            return False
    return True


def test_what_is_left_covers_the_same():
    """Whatever the arity and the lengths: the same entries, and as many as by hand."""
    assert agree(matter)
    numbers = [len(by_hand(factors)) for factors in cases()]
    assert len(set(numbers)) > 3  # the cases differ


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        is_left[k] = False\n", ""),  # a component beside itself
        ("if is_left[other] and", "if"),  # as above, and those left out still cover
        ("alone &= ~inner[beside[i], v]", "alone &= inner[beside[i], v]"),
        ("(sizes[k], ", "(-sizes[k], "),  # the largest first
    ],
)
def test_mistakes_are_noticed(old, new):
    """The comparison by hand refuses them."""
    assert not agree(mutate("thali.posterior.matter", [(old, new)]))


def test_numbering_does_not_matter():
    """Any order of the components leaves as many."""
    rng = np.random.default_rng(3)
    for factors in cases():
        numbers = set()
        for _ in range(4):
            order = rng.permutation(factors[0].shape[1])
            found = matter.that_matter([Factor.from_dense(f[:, order]) for f in factors])
            numbers.add(int(found.sum()))
        assert len(numbers) == 1


def test_all_draws_or_some(monkeypatch):
    """Every draw has its number; of long runs, every so many draws do."""
    data = thali.simulate((12, 9), 2, spurious=0.1, seed=1).tensor
    posterior = thali.sample(data, noise="unequal", chains=2, warmup=2, draws=7, seed=0)
    found = posterior.n_that_matter
    assert found.shape == (2, 7)
    for chain, draw in np.ndindex(found.shape):
        assert found[chain, draw] == len(by_hand(posterior.factors(chain, draw)))
    assert np.all(found <= posterior.n_components)
    monkeypatch.setattr(matter, "_WORK", -(-int(posterior.n_components.sum()) * 2 // 3))
    np.testing.assert_array_equal(matter.numbers_that_matter(posterior), found[:, ::3])


def test_no_component():
    """None matters."""
    assert matter.that_matter([Factor.empty(5), Factor.empty(4)]).tolist() == []
