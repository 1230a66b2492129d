"""Each known mistake, made alone in our own code, is rejected by the enumeration test."""

import numpy as np
import pytest

from support import compare, exact, mutants
from support.chains import X33, as_exact, collect, hide, run, walk
from thali.model import FixedRates, Model, PerComponent, UnequalRates

SHARED = (X33, ((0, 2),), Model(noise=FixedRates(0.1, 0.25), alpha=1.4, density=0.3))
MANY = (X33, ((0, 2),), Model(noise=FixedRates(0.1, 0.25), alpha=3.0, density=0.3))
DENSE = (np.array([[1, 0], [1, 1]]), (), Model(noise=FixedRates(0.1, 0.2), alpha=2.0, density=0.7))
# One row owns everything: several new components at once are the rule.
ALONE = (np.array([[1, 1, 0]]), (), Model(noise=FixedRates(0.2, 0.2), alpha=4.0, density=0.3))

COLUMN = (np.array([[1], [1], [1]]), (), Model(noise=FixedRates(0.1, 0.2), alpha=2.0, density=0.6))
# Rows own several components, whose number enters the ratio.
OWN_DENSITIES = (
    np.array([[1, 1, 0], [0, 1, 1]]),
    (),
    Model(
        noise=FixedRates(0.2, 0.3),
        alpha=4.0,
        density=PerComponent(1.0, 2.0, n_values=3, tied=None),
    ),
)
UNEQUAL = (
    X33,
    (),
    Model(noise=UnequalRates((1.0, 20.0), (6.0, 6.0)), alpha=1.4, density=0.3),
)

CONTROLS = {
    "printed power": (mutants.printed_power, DENSE, "serial", 20_000),
    "printed power, parallel": (mutants.printed_power, DENSE, "parallel", 12_000),
    "codes one after another": (mutants.codes_one_after_another, ALONE, "serial", 40_000),
    "deleted inside the loop": (mutants.deleted_inside_the_loop, SHARED, "serial", 25_000),
    "creation order": (
        mutants.creation_order,
        COLUMN,
        "serial",
        250_000,
    ),  # shifts the mean by 0.7%
    "Poisson at the total": (mutants.poisson_at_the_total, SHARED, "serial", 3_000),
    "dropped in parallel": (mutants.dropped_in_a_parallel_phase, MANY, "parallel", 8_000),
    "forgotten singles": (mutants.forgotten_singles, MANY, "parallel", 8_000),
    "wrong move ratio": (mutants.wrong_move_ratio, OWN_DENSITIES, "parallel", 16_000),
    "swapped counts": (mutants.swapped_counts, UNEQUAL, "serial", 8_000),
}


def prepared(problem, kind):
    x, hidden, model = problem
    tensor, known = hide(x, *hidden)
    expected = exact.posterior_ibp(x, known, as_exact(model), max_components=32)
    return walk(tensor, model, kind=kind), expected


LONG, LONG_UNCHANGED = 20_000, 10_000
"""Comparisons of more sweeps are marked slow; of the unchanged sampler sooner, because
test_enumeration.py has the same models quickly."""


def marked(arguments, n_sweeps, name, limit=LONG):
    return pytest.param(*arguments, id=name, marks=[pytest.mark.slow] if n_sweeps > limit else [])


@pytest.mark.parametrize("name", [marked((name,), c[3], name) for name, c in CONTROLS.items()])
def test_mistake_is_rejected(name, monkeypatch):
    """The mutated sampler fails."""
    mutation, problem, kind, n_sweeps = CONTROLS[name]
    mutation(monkeypatch.setattr)
    compare.assert_rejected(*prepared(problem, kind), n_sweeps)


def distinct():
    """Every problem and schedule of a control, with its largest number of sweeps."""
    longest = {}
    for name, (_, problem, kind, n_sweeps) in CONTROLS.items():
        key = (id(problem), kind)
        if n_sweeps > longest.get(key, ((0, 0, 0), 0, ""))[1]:
            longest[key] = ((problem, kind, n_sweeps), n_sweeps, name)
    return [marked(*case, LONG_UNCHANGED) for case in longest.values()]


@pytest.mark.parametrize(("problem", "kind", "n_sweeps"), distinct())
def test_the_same_test_accepts_our_sampler(problem, kind, n_sweeps):
    """Unchanged, the sampler passes on the same problems with as many sweeps."""
    walked, expected = prepared(problem, kind)
    compare.assert_matches(*collect(walked, n_sweeps), expected)


def test_finite_model_without_its_prior_is_rejected(monkeypatch):
    """The enumeration of the finite model notices a prior that was left out."""
    model = Model(2, FixedRates(0.1, 0.2), density=(0.4, 0.3))
    expected = exact.posterior_finite(X33, np.ones(X33.shape, bool), as_exact(model), 2, 0.4)
    compare.assert_matches(None, run(X33, model, 4_000)[1], expected)
    mutants.forgotten_prior(monkeypatch.setattr)
    compare.assert_rejected(walk(X33, model), expected, 4_000)
