"""The answer is the posterior in plain values, and six lines that say the same."""

import json

import numpy as np
import pytest

import thali
from thali.cli.messages import CommandFace
from thali.model import FixedRates
from thali.posterior.answer import (
    _numbers,
    _quantity,
    answer,
    in_words,
)
from thali.posterior.answer_words import _duration
from thali.posterior.remarks import (
    has_own_densities,
    own_densities_in_words,
    same_rows,
    same_rows_in_words,
    start_in_words,
)
from thali.sampler import Attempted, Tried

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

DATA = thali.simulate((12, 9), 2, spurious=0.05, unknown=0.1, seed=1).tensor
SHORT = {"noise": "unequal", "chains": 2, "warmup": 5, "draws": 6, "seed": 0}


def test_numbers_by_hand():
    """The interval is the smallest values that 5% and 95% of the draws do not exceed."""
    import pandas as pd

    table = pd.Series([0.05, 0.6, 0.3, 0.05], index=[2, 3, 4, 7])
    found = _numbers(table)
    assert (found["mode"], found["interval"]) == (3, [2, 4])
    assert found["mean"] == pytest.approx(0.1 + 1.8 + 1.2 + 0.35)
    assert found["pmf"] == {"2": 0.05, "3": 0.6, "4": 0.3, "7": 0.05}


def test_what_does_not_exist_in_some_draws():
    """The density of no component at all is left out; if there never was one, there is none."""
    assert _quantity(np.array([[0.2, np.nan], [0.4, np.nan]]))["mean"] == pytest.approx(0.3)
    assert _quantity(np.array([[np.nan]])) == {"mean": None, "interval": [None, None]}


def test_nothing_there():
    """Data without a component are answered, and survive strict JSON."""
    posterior = thali.sample(
        np.zeros((5, 4)), **SHORT | {"noise": FixedRates(0.1, 0.2), "alpha": 1e-9}
    )
    found = answer(posterior)
    json.dumps(found, allow_nan=False)
    assert found["noise"] == {
        "kind": "fixed",
        "spurious": {"mean": pytest.approx(0.1), "interval": [pytest.approx(0.1)] * 2},
        "dropped": {"mean": pytest.approx(0.2), "interval": [pytest.approx(0.2)] * 2},
    }
    lines = in_words(found)
    assert lines[0] == "5 x 4 entries, all known: most probably 0 components (probability 1.00)."
    assert lines[2] == "Error rates were given: 10.00% spurious ones, 20.00% dropped ones."
    assert lines[3] == (
        "0 known entries (0.00%) contradict the components: 0 ones outside all of them, 0 zeros "
        "inside one."
    )
    assert lines[4] == "Without components, no entry is covered."


def test_frozen_chains():
    """An R-hat without bound is no number that JSON has; the answer does not trust them."""
    posterior = thali.sample(DATA, n_components=1, **SHORT | {"draws": 30})
    posterior.__dict__["_scalars"] = posterior._scalars._replace(
        n_components=np.repeat([[1], [2]], 30, axis=1)
    )
    del posterior.__dict__["_diagnosed"]
    found = answer(posterior, CommandFace(), {"n_components": "their number"})
    assert found["r_hat"]["n_components"] is None
    assert not found["agree"]
    assert "about their number (means 1.0, 2.0; R-hat inf)" in found["warning"]
    assert "Ask for more draws with --draws 60, sample anew with a longer" in found["warning"]
    assert found["verdict"]["quantities"][0] == "n_components"
    assert found["verdict"]["advised_draws"] == 60
    assert in_words(found)[-1].endswith(": not to be trusted yet, see the warning.")


def test_six_lines():
    """Always six without effects; unknown entries are counted."""
    for settings in ({}, {"n_components": 2}, {"noise": "equal"}, {"noise": "as-published"}):
        posterior = thali.sample(DATA, **SHORT | settings)
        lines = in_words(answer(posterior))
        assert len(lines) == 6
        assert all("\n" not in line and line.endswith(".") for line in lines)
        assert f"12 x 9 entries, {posterior.tensor.n_known} of them known: " in lines[0]


def test_a_single_chain_of_unknown_time():
    """One chain is no plural, and a time that nobody noted is not told."""
    posterior = thali.sample(DATA, **SHORT | {"chains": 1})
    posterior._chains[0].wall_seconds = np.nan
    found = answer(posterior)
    assert found["wall_seconds"] is None
    assert in_words(found)[5].startswith("1 chain of 6 draws: not to be")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (99.9, "99.9 s"), (100, "2 min"), (3599, "60 min"), (7200, "2.0 h")],
)
def test_durations(seconds, words):
    """In units that can be read."""
    assert _duration(seconds) == words


# --- starts --------------------------------------------------------------------------------


def stage(name, number, evidence, kind="", tried=None):
    return {
        "stage": name,
        "kind": kind or None,
        "n_components": number,
        "evidence": evidence,
        "hidden": None if tried is None else tried._asdict(),
    }


def test_starts_are_plain_values():
    """One list per chain, with the stages that the posterior has; strict JSON holds them."""
    posterior = thali.sample(DATA, **SHORT)
    found = json.loads(json.dumps(answer(posterior), allow_nan=False))
    assert found["starts"] == [
        [stage(*attempted) for attempted in history] for history in posterior.starts
    ]
    assert found["starts"][0][0]["stage"] == "grown"
    posterior._chains[0].start = (Attempted("grown", 0, -np.inf),)
    assert answer(posterior)["starts"][0] == [stage("grown", 0, None)]


GROWN = [stage("grown", 12, -1259.13), stage("grown", 9, -1300.0)]
POOLED = [*GROWN, stage("pooled", 14, -1246.1)]
TRIED = [*GROWN, stage("chosen", 9, -1300.0, "flat", Tried(-0.4, 0.05, 0.01, 600))]


@pytest.mark.parametrize(
    ("chains", "starts", "words"),
    [
        (2, [POOLED, GROWN[:1]], "each chain grew components on the data, in 2 starts, and kept "
         "12 to 14 (log evidence -1,259.1 to -1,246.1)."),
        (2, [GROWN[:1]] * 2, "each chain grew components on the data, in 1 start, and kept 12 "
         "(log evidence -1,259.1)."),
        (1, [POOLED], "the chain grew components on the data, in 2 starts, and kept 14 "
         "(log evidence -1,246.1)."),
        (3, [POOLED, [], POOLED], "each of 2 chains grew components on the data, in 2 starts, "
         "and kept 14 (log evidence -1,246.1)."),
        (2, [[], POOLED], "one chain grew components on the data, in 2 starts, and kept 14 "
         "(log evidence -1,246.1)."),
        (1, [[stage("grown", 0, None)]], "the chain grew components on the data, in 1 start, and "
         "kept 0."),
        (2, [TRIED, TRIED], "each chain grew components on the data, in 2 starts, compared them "
         "with none at all on hidden entries, and kept 9 (log score of a hidden entry -0.4000; by "
         "row and column rates alone -0.4500)."),
    ],
)  # fmt: skip
def test_starts_in_words(chains, starts, words):
    """What the chains began with, and over how many starts."""
    found = {"chains": chains, "starts": starts}
    assert start_in_words(found) == f"Before its first sweep, {words}"


def test_no_start_in_words():
    """Chains that did not grow components have nothing to say."""
    assert start_in_words({"chains": 2, "starts": [[], []]}) is None


def test_components_with_the_same_rows_are_counted():
    """Components of one row do not count, nor do those with a density of their own."""
    data = np.zeros((40, 60), np.bool_)
    data[:20, :55] = True  # far denser than the other components
    data[20:, :3] = True
    data ^= np.random.default_rng(0).random(data.shape) < 0.03
    posterior = thali.sample(data, **SHORT)
    by_hand = []
    for chain in range(2):
        for number in range(6):
            users = posterior.draw(chain, number).state.factors[0].dense().T
            lines = [line.tobytes() for line in users if line.sum() > 1]
            by_hand.append(len(lines) - len(set(lines)))
    assert same_rows(posterior) == pytest.approx(np.mean(by_hand))
    assert not has_own_densities(posterior)
    own = thali.sample(data, **SHORT, density=thali.model.PerComponent())
    assert same_rows(own) is None
    assert has_own_densities(own)


def test_own_densities_in_words():
    """Said only if it is so."""
    assert own_densities_in_words(False) is None
    assert own_densities_in_words(True).startswith("Each component has a density of its own")


def test_same_rows_in_words():
    """Nothing is said of a rare coincidence."""
    assert same_rows_in_words(None, "so") is same_rows_in_words(0.4, "so") is None
    words = same_rows_in_words(2.0, "`--density own`")
    assert words.startswith("On average 2.0 components have the same rows as another one.")
    assert "`--density own` gives each its own" in words
