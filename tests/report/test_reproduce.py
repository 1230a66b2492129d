"""What the page says draws the same again does."""

import shlex
from dataclasses import replace

import pytest

import thali
import thali.cli
from thali.cli.density import density_prior
from thali.model import Beta, Fixed, FixedRates, Gamma, Model, PerComponent
from thali.model.effects import effects_for
from thali.report.reproduce import command, python_call
from thali.sampler import Schedule
from thali.sampler.grow.densities import OWN
from thali.sampler.schedule import make_schedule
from thali.trace import Settings

DENSITIES = [
    (Fixed(0.2), 0.2),
    ((0.3,), 0.3),
    (PerComponent(), "own"),
    (PerComponent(1 / 3, 40.0), "own:0.3333333333333333,40"),
]
MODELS = [
    Model(),
    Model(n_components=3, noise="equal"),
    Model(noise=FixedRates(0.1, 0.05), alpha=Gamma(2.0, 3.0), density=PerComponent(1.0, 4.0)),
    Model(alpha=1.5, density=(Beta(1.0, 2.0),)),
    Model(n_components=2, density=(0.5, Beta(2.0, 2.0))),
]
SCHEDULES = [Schedule(warmup=30), Schedule("serial", warmup=0), Schedule(warmup=9, blocks=7)]


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
@pytest.mark.parametrize("schedule", SCHEDULES, ids=range(len(SCHEDULES)))
@pytest.mark.parametrize("thin", [1, 4])
def test_call_gives_the_same_settings(monkeypatch, model, schedule, thin):
    """The call on the page makes the settings of the run."""
    settings = Settings((5, 6), model, schedule, 2**63 + 1, 2, 9, thin)
    given = {}
    monkeypatch.setattr(thali, "sample", lambda data, **own: given.update(own), raising=False)
    exec(python_call(settings), {"data": None})
    told = {name: given.pop(name) for name in ("n_components", "noise", "alpha", "density")
            if name in given}  # fmt: skip
    kind = given.pop("schedule", "parallel")
    kind = kind if isinstance(kind, Schedule) else Schedule(kind)
    warmup = given.pop("warmup")
    same = Settings((5, 6), Model(**told), make_schedule(kind, warmup), **given)
    assert same == settings


@pytest.mark.parametrize("schedule", SCHEDULES[:2], ids=range(2))
@pytest.mark.parametrize("model", MODELS[:2], ids=range(2))
def test_command_has_these_options(model, schedule):
    """The command line takes the command on the page and means the same."""
    settings = Settings((5, 6), model, schedule, 11, 3, 40)
    words = shlex.split(command(settings))
    assert words[:2] == ["thali", "fit"]
    context = thali.cli.main.commands["fit"].make_context("fit", words[2:])
    meant = context.params
    assert meant["components"] == model.n_components
    assert (meant["noise"], meant["schedule"]) == (model.noise, schedule.kind)
    assert (meant["chains"], meant["warmup"]) == (3, schedule.warmup)
    assert (meant["draws"], meant["seed"]) == (40, 11)


@pytest.mark.parametrize(("density", "typed"), DENSITIES, ids=range(len(DENSITIES)))
def test_command_has_the_density(density, typed):
    """A number, or one density per component, can be typed; the default is left out."""
    settings = Settings((5, 6), Model(density=density), SCHEDULES[0], 11, 3, 40)
    words = shlex.split(command(settings))
    context = thali.cli.main.commands["fit"].make_context("fit", words[2:])
    assert context.params["density"] == typed
    meant = Model(density=density_prior(typed))
    assert meant.priors(2) == settings.model.priors(2)


def test_density_that_might_be_chosen():
    """On long rows it is always said, because without it the data decide; else Beta() is not."""
    model = Model(noise=effects_for((5, 2000)))
    for shape, density, typed in (
        ((5, 6), Beta(), "auto"), ((5, 2000), Beta(), "shared"), ((5, 2000), PerComponent(), "own")
    ):  # fmt: skip
        noise = model.noise if shape[1] == 2000 else "effects"
        settings = Settings(shape, Model(noise=noise, density=density), SCHEDULES[0], 1, 2, 9)
        words = shlex.split(command(settings))
        context = thali.cli.main.commands["fit"].make_context("fit", words[2:])
        assert context.params["density"] == typed
        said = f"density=thali.model.{type(density).__name__}()"
        assert (said in python_call(settings)) == (typed != "auto")
    chosen = Settings((5, 2000), replace(model, density=OWN), SCHEDULES[0], 1, 2, 9)
    assert " --density own:4,4 " in command(chosen)
    assert density_prior("own:4,4") == OWN
    assert "density=thali.model.PerComponent(a=4.0, b=4.0)" in python_call(chosen)
    tight = replace(chosen, model=replace(model, density=PerComponent(4.0, 4.0, tied=0.5)))
    assert command(tight) is None


def test_no_command_for_what_it_cannot_do():
    """A prior or schedule of one's own, and thinning, are for Python."""
    assert command(Settings((5, 6), MODELS[2], SCHEDULES[0], 1, 2, 9)) is None
    assert command(Settings((5, 6), MODELS[4], SCHEDULES[0], 1, 2, 9)) is None
    assert command(Settings((5, 6), MODELS[0], SCHEDULES[2], 1, 2, 9)) is None
    assert command(Settings((5, 6), MODELS[0], SCHEDULES[0], 1, 2, 9, 3)) is None
