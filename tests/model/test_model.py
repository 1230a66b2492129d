"""A model is checked when it is made, and says what is wrong in a sentence."""

import pytest

from thali.model import (
    AsPublished,
    Beta,
    Buffet,
    EqualRates,
    Fixed,
    FixedRates,
    Gamma,
    Model,
    PerComponent,
    UnequalRates,
)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": -1}, r"^n_components=-1 was given; allowed are integers from 0 on"),
        ({"n_components": 2.0}, r"^n_components=2.0 was given"),
        ({"n_components": True}, r"^n_components=True was given"),
        (
            {"alpha": 0.0},
            r"^alpha=0.0 was given; allowed are numbers strictly between 0 and 10000; .*\.$",
        ),
        ({"alpha": -1.0}, r"^alpha=-1.0 was given"),
        ({"alpha": float("nan")}, r"^alpha=nan was given"),
        ({"alpha": float("inf")}, r"^alpha=inf was given"),
        ({"alpha": "3"}, r"^alpha='3' was given"),
        ({"density": 0}, r"^density=0 was given; .* strictly between 0 and 1; .*\.$"),
        ({"density": 1.0}, r"^density=1.0 was given"),
        ({"density": (0.5, float("nan"))}, r"^density=nan was given"),
        ({"density": [0.1, 0.2]}, r"^density=\[0.1, 0.2\] was given"),
        ({"noise": "uneven"}, r"^noise='uneven' was given; allowed are 'unequal', 'equal', .*\.$"),
        ({"noise": 0.1}, r"^noise=0.1 was given"),
    ],
    ids=str,
)
def test_refusals(settings, message):
    """Settings that make no sense are refused before anything is computed."""
    with pytest.raises(ValueError, match=message):
        Model(**settings)


@pytest.mark.parametrize(
    ("model", "arity", "n"),
    [(Model(density=(0.5, 0.5)), 2, 1), (Model(2, density=(0.5, 0.5)), 3, 3)],
    ids=["buffet", "finite"],
)
def test_number_of_densities(model, arity, n):
    """The number of densities must fit the tensor: a mode with a buffet has none."""
    with pytest.raises(ValueError, match=rf"^density has 2 .*; give {n}, or one for all\.$"):
        model.priors(arity)


def test_densities():
    """Numbers become known densities; one serves all modes that have a density."""
    assert Model(density=0.3).priors(3).densities == (None, Fixed(0.3), Fixed(0.3))
    mixed = (0.3, Beta(2.0, 2.0), PerComponent())
    assert Model(4, density=mixed).priors(3).densities == (Fixed(0.3), *mixed[1:])


def test_buffet():
    """A buffet stands in the model only while the number of components is unknown."""
    assert Model(alpha=2.0).priors(2).buffet == Buffet(2.0)
    assert Model().priors(2).buffet == Buffet(Gamma())
    assert Model(0).priors(2).buffet is None
    assert (Model().is_finite, Model(0).is_finite) == (False, True)


@pytest.mark.parametrize(
    ("noise", "prior"),
    [
        ("unequal", UnequalRates()),
        ("equal", EqualRates()),
        ("as-published", AsPublished()),
        (FixedRates(0.1, 0.2), FixedRates(0.1, 0.2)),
    ],
    ids=str,
)
def test_noise(noise, prior):
    """Noise is given by name or by prior."""
    assert Model(noise=noise).priors(2).noise == prior
