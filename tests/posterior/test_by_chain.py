"""Chains one by one, what they share, what they leave unexplained, and components as frames."""

import json
from dataclasses import replace

import numpy as np
import pytest

import thali
from support.made import SHAPE, made
from thali.posterior import found as found_module
from thali.posterior.answer import answer, in_words
from thali.posterior.answer_words import coverage_in_words
from thali.posterior.explained import coverage
from thali.posterior.verdict import Disagreement

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")


@pytest.fixture
def apart():
    """Two chains, of which the second never has the last component."""
    return made(drop=lambda chain, _: chain == 1)


def test_one_chain_has_its_own_draws_and_number():
    both = made()
    one = both.chain(1)
    assert (one.n_chains, one.chain_indices) == (1, (1,))
    np.testing.assert_array_equal(one.n_components, both.n_components[1:])
    np.testing.assert_array_equal(one.log_joint, both.log_joint[1:])
    assert repr(one).startswith("Posterior(1 chain of 30 draws, ")
    with pytest.raises(IndexError, match="chain=2 was given; there are 2, numbered from 0"):
        both.chain(2)


def test_disagreement_comes_first(apart):
    """Before any number: what each chain has, how good it is, and what all chains share."""
    found = answer(apart)
    json.dumps(found, allow_nan=False)
    first = in_words(found)[0]
    scores = apart.log_joint.mean(axis=1)
    assert first.startswith(
        f"The 2 chains disagree: chain 1 has 4 components (log joint {scores[0]:,.1f}) and "
        f"chain 2 has 3 ({scores[1]:,.1f}). "
    )
    table = apart.found_by_chain()
    assert list(table.index) == list(apart.components().index)
    shared = [name for name in table.index if (table.loc[name] > 0.7).all()]
    assert [f"component_{n}" for n in found["in_all_chains"]["components"]] == shared
    assert len(shared) == 3
    assert "are in all chains." in first
    covers = coverage_in_words(found)
    assert covers.startswith("On average over the chains, the components cover ")
    assert [chain["chain"] for chain in found["by_chain"]] == [1, 2]
    agree = answer(made())
    assert in_words(agree)[0].startswith("40 x 30 entries")
    assert coverage_in_words(agree).startswith("The components cover ")
    page = thali.report.page.page(apart)
    assert "The 2 chains disagree: they have 4 and 3 components." in page
    assert "Each chain by itself" in page
    assert "Each chain by itself" not in thali.report.page.page(made())


def test_the_most_frequent_of_a_part_may_be_larger(apart):
    """Of 4, 4, 4 and 3, 3 components the first may all be shared; then that is explained."""
    found = answer(apart)
    assert "No draw has more of these" not in " ".join(in_words(found))
    odd = found | {
        "shared_components": found["shared_components"] | {"mode": 5, "pmf": {"5": 1.0}}
    }
    (line,) = (line for line in in_words(odd) if line.startswith("Counting only"))
    number = found["n_components"]["mode"]
    assert f"No draw has more of these than components in all; 5 and {number} are the" in line


def test_the_page_of_one_chain_says_so(apart):
    """Whoever gets the page must not take it for the whole run."""
    page = thali.report.page.page(apart.chain(1))
    assert "Chain 2 of 2: " in page
    assert "This page is about one chain (chain 2 of 2)." in page
    assert "Only one chain was run" not in page


def test_advice_changes_after_it_failed():
    """Whoever took more draws is not told to take more draws again."""
    first = Disagreement(2, 400, {"n_components": 1.5}, (3.0, 21.0), 200)
    assert first.advised_draws == 800
    again = replace(first, n_draws=800, extended_from=400, best=1)
    assert again.advised_draws is None
    assert "Going on from 400 to 800 draws per chain did not make them agree" in str(again)
    assert "posterior.chain(1) has the highest log joint density" in str(again)
    assert "ake more draws" not in str(again)
    stopped = replace(first, n_draws=400, extended_from=10)  # too few to have been judged
    assert stopped.advised_draws == 800


def test_coverage_by_hand():
    """Counted entry by entry in every draw; a component without columns covers nothing."""
    data = thali.simulate((12, 9), 2, spurious=0.05, unknown=0.1, seed=1).tensor
    few = {"noise": "unequal", "chains": 2, "warmup": 5, "draws": 6, "seed": 0}
    posterior = thali.sample(data, **few)
    found = coverage(posterior)
    for chain in range(2):
        for draw in range(6):
            users, codes = posterior.factors(chain, draw)
            covered = (users.astype(int) @ codes.T.astype(int)) > 0
            at = chain, draw
            assert found["ones_outside"][at] == ((data == 1) & ~covered).sum()
            assert found["zeros_inside"][at] == ((data == 0) & covered).sum()
            explained = ((data == 1) & covered).sum() / (data == 1).sum()
            assert found["ones_explained"][at] == pytest.approx(explained)
            assert found["without_mode_0"][at] == (~covered.any(axis=1)).sum()
            assert found["without_mode_1"][at] == (~covered.any(axis=0)).sum()
    table = posterior.coverage()
    assert table.loc["ones_outside", "mean"] == found["ones_outside"].mean()
    assert table.loc["ones_outside", "estimate"] == posterior.point_estimate().confusion.fn


def test_frames_have_names(monkeypatch):
    """Those of the data, and of components counted from 1; large ones are sparse."""
    posterior = made()
    components, memberships = posterior.components(), posterior.memberships()
    n = posterior.point_estimate().factors[0].n_components
    assert components.shape == (n, SHAPE[1])
    assert memberships.shape == (SHAPE[0], n)
    assert components.index[0] == memberships.columns[0] == "component_1"
    assert components.columns[2] == "column 2"
    np.testing.assert_array_equal(components.T, posterior.align().probabilities[1])
    users = posterior.memberships(estimate=True)
    np.testing.assert_array_equal(users, np.asarray(posterior.point_estimate().factors[0]))
    with pytest.raises(ValueError, match="mode=2 was given; allowed are 0 to 1"):
        posterior.components(mode=2)
    monkeypatch.setattr(found_module, "MOST_DENSE", 10)
    sparse = posterior.components()
    assert sparse.sparse.density < 1.0
    np.testing.assert_array_equal(sparse.sparse.to_dense(), components)


def test_without_the_first_draws():
    """Every summary is that of the later draws, in each chain; advice counts all draws."""
    both = made(drop=lambda chain, draw: chain == 1 and draw < 10)
    later = both.after(10)
    assert (later.n_draws, later.n_left_out, len(later)) == (20, 10, 40)
    np.testing.assert_array_equal(later.n_components, both.n_components[:, 10:])
    np.testing.assert_array_equal(later.log_joint, both.log_joint[:, 10:])
    np.testing.assert_array_equal(later.factors(1, 0)[0], both.factors(1, 10)[0])
    firsts = [draw.log_joint for draw in later]
    np.testing.assert_array_equal(firsts, both.log_joint[:, 10:].ravel())
    assert both.n_components_table().size == 2
    assert later.n_components_table().to_dict() == {4: 1.0}
    again = later.chain(1).after(5)
    np.testing.assert_array_equal(again.n_components, both.n_components[1:, 15:])
    assert "20 draws after the first 10" in thali.report.page.page(later)
    with pytest.raises(ValueError, match="the chains have 20 draws, and at least one must remain"):
        later.after(20)
    with pytest.raises(ValueError, match="n_draws=-1 was given"):
        later.after(-1)
    advice = Disagreement(2, 20, {"n_components": 1.5}, (3.0, 21.0), 200, n_left_out=10)
    assert advice.advised_draws == 50
