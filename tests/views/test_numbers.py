"""Numbers without labels, and titles, against plain loops and the posterior's own tables."""

import numpy as np
import pytest

from support.made import SHAPE, made
from thali import views


@pytest.fixture(scope="module")
def posterior():
    return made()


@pytest.mark.parametrize("least_users", [1, 2, 12, 13])
def test_numbers_against_plain_loops(posterior, least_users):
    """Shares of all draws are the posterior's table; those of chains are counted one by one."""
    shown = views.numbers(posterior, least_users)
    table = posterior.n_components_table(least_users).reindex(shown.values, fill_value=0.0)
    np.testing.assert_allclose(shown.probability, table)
    for chain in range(posterior.n_chains):
        drawn = [
            int((posterior.factors(chain, i)[0].sum(axis=0) >= least_users).sum())
            for i in range(posterior.n_draws)
        ]
        expected = [drawn.count(k) / len(drawn) for k in shown.values]
        np.testing.assert_allclose(shown.of_chains[chain], expected)
    assert shown.values.tolist() == list(range(shown.values[0], shown.values[-1] + 1))


def test_numbers_of_bad_questions(posterior):
    """A component has at least one row."""
    with pytest.raises(ValueError, match="least_users=0 was given"):
        views.numbers(posterior, 0)


def test_quantities_are_those_of_the_summary(posterior):
    """The same names and judgements, with the draws that were judged."""
    table = posterior.summary()
    shown = views.quantities(posterior)
    assert list(shown) == [name for name in table.index if name != "co_membership"]
    for name, quantity in shown.items():
        assert quantity.r_hat == table.loc[name, "r_hat"]
        assert quantity.ess == table.loc[name, "ess_bulk"]
        assert quantity.values.mean() == pytest.approx(table.loc[name, "mean"])
    np.testing.assert_array_equal(shown["density_mode_1"].values, posterior.densities[1])
    assert shown["density_mode_1"].words == "the density of columns"
    assert shown["n_components"].words == "the number of components"


def test_titles_against_plain_loops(posterior):
    """Columns that are in a component, those first that are in few others."""
    p = views.components(posterior).probabilities[1]
    matched = posterior.align().matched
    for k, title in enumerate(views.titles(posterior, n_names=3)):
        others = [j for j in range(p.shape[1]) if j != k]
        scores = p[:, k] * (1 - p[:, others].mean(axis=1))
        inside = [i for i in range(SHAPE[1]) if p[i, k] > matched[k] / 2]
        best = sorted(inside, key=lambda i: (-round(scores[i], 12), i))[:3]
        number, _, named = title.partition(": ")
        assert number == str(k + 1)  # faces count from 1
        chosen = [int(name.split()[1]) for name in named.split(", ")]
        assert [round(scores[i], 12) for i in chosen] == [round(scores[i], 12) for i in best]
        assert set(chosen) <= set(inside)
    assert len(views.titles(posterior)) >= 3


def test_titles_without_names():
    """The number alone says which component it is."""
    nameless = made(names=False)
    assert views.titles(nameless) == [str(k + 1) for k in range(len(views.titles(nameless)))]
    assert views.titles(made(), n_names=0)[0] == "1"
    with pytest.raises(ValueError, match="n_names=-1 was given"):
        views.titles(nameless, n_names=-1)
