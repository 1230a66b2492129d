"""Chains that agree pass; chains that differ, drift, freeze or crawl are named."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import f

import thali
from thali.bits import Factor, PackedTensor
from thali.cli.messages import CommandFace
from thali.data import BinaryTensor
from thali.errors import NotConverged
from thali.model import Model, Noise
from thali.posterior import Posterior, verdict
from thali.posterior.diagnostics import MAX_R_HAT, MIN_ESS_PER_CHAIN, diagnose
from thali.posterior.verdict import Disagreement, TooCorrelated, TooFewDraws
from thali.sampler import Schedule, State
from thali.trace import Draw, MemoryStore, Settings
from thali.trace.run import Names

CHAINS, DRAWS, WARMUP = 4, 200, 100


def good(seed=0, shape=(CHAINS, DRAWS)):
    """Independent draws: a number of components, a rate, and who shares with whom."""
    random = np.random.default_rng(seed)
    return {
        "n_components": 5 + random.poisson(0.5, shape),
        "spurious": random.beta(20, 180, shape),
        "co_membership": random.binomial(2, 0.3, (*shape, 5)),
    }


def find(quantities, warmup=WARMUP):
    n_components = quantities["n_components"]
    return verdict.judge(diagnose(quantities), n_components, *n_components.shape, warmup)


def judge(quantities, warmup=WARMUP):
    """Return the sentence, or None."""
    found = find(quantities, warmup)
    return None if found is None else str(found)


def test_good_chains_pass():
    """Nothing to say."""
    assert judge(good()) is None


def test_a_quantity_that_never_changes_is_no_fault():
    """A fixed number of components, say."""
    assert judge(good() | {"n_components": np.full((CHAINS, DRAWS), 5)}) is None


def test_a_shifted_chain_is_flagged_in_numbers():
    """The means of the chains, R-hat, what it means and what to do."""
    quantities = good()
    quantities["n_components"][1] += 2
    text = judge(quantities)
    means = ", ".join(f"{mean:.1f}" for mean in quantities["n_components"].mean(axis=1))
    r_hat = diagnose(quantities).loc["n_components", "r_hat"]
    assert "The 4 chains disagree, with each other or over time, about the number of" in text
    assert f"components (means {means}; R-hat {r_hat:.2f}): summaries mix" in text
    assert "Take more draws (draws=400, or resume(…, draws=400) for a stored run), sample" in text
    assert "sample anew with a longer warm-up (warmup=200), or look at the chains one by" in text
    found = find(quantities)
    assert (found.kind, found.advised_draws, found.advised_warmup) == ("disagreement", 400, 200)
    assert found.r_hat == {"n_components": r_hat}
    assert found.means == tuple(quantities["n_components"].mean(axis=1))


def test_frozen_chains_are_flagged():
    """Each chain at its own number of components."""
    frozen = np.repeat([[5], [6], [5], [5]], DRAWS, axis=1)
    text = judge(good() | {"n_components": frozen})
    assert "(means 5.0, 6.0, 5.0, 5.0; R-hat inf)" in text


@pytest.mark.parametrize("where", [5, 9])
def test_one_frozen_chain_among_moving_ones_is_flagged(where):
    """Also if it is frozen at the most probable value: it lacks the spread."""
    quantities = good()
    quantities["n_components"][2] = where
    assert "the number of components" in judge(quantities)


def test_drifting_chains_are_flagged():
    """All chains the same way: they agree with each other, but not over time."""
    drift = np.random.default_rng(4).normal(size=(CHAINS, DRAWS)) + np.linspace(0, 3, DRAWS)
    text = judge(good() | {"log_joint": drift})
    assert "about the log joint density (R-hat 1." in text
    assert "means" not in text


def test_slow_chains_are_flagged_though_they_agree():
    """A slow wave: all halves have the same mean, but few draws are independent."""
    quantities = good() | {"spurious": wave()}
    row = diagnose(quantities).loc["spurious"]
    assert row["r_hat"] <= MAX_R_HAT
    assert row["ess_bulk"] < MIN_ESS_PER_CHAIN * CHAINS
    text = judge(quantities)
    assert f"800 draws are worth only {row['ess_bulk']:.0f} independent ones for the rate" in text
    assert "where 100 are wanted (25 per chain)" in text
    times = int(np.ceil(100 / row["ess_bulk"]))
    assert f"about {times} times as many are needed." in text
    found = find(quantities)
    assert found.ess == {"spurious": row["ess_bulk"]}
    assert (found.wanted, found.times, found.advised_draws) == (100, times, 200 * times)


def test_the_number_of_components_is_named_first_and_the_rest_counted():
    """Three by name, the worst first; unknown quantities by their own name."""
    shift = np.array([[0.0], [0.0], [0.0], [9.0]])
    quantities = good()
    extra = {name: quantities["spurious"] + shift * k for k, name in enumerate("abcd", 1)}
    quantities["n_components"][3] += 1
    text = judge(quantities | extra)
    assert "about the number of components (means" in text
    assert text.index("the number of components") < text.index("R-hat") < text.index("2 more")


def test_many_chains_are_not_listed():
    """Beyond eight chains the range of their means is given."""
    quantities = good(shape=(9, 100))
    quantities["n_components"][3] += 3
    assert "(means from 5." in judge(quantities)


def test_a_single_chain_is_judged_by_its_parts():
    """And it is said that agreement needs several."""
    quantities = good(shape=(1, 400))
    assert judge(quantities) is None
    quantities["n_components"][0, 200:] += 3
    text = judge(quantities, warmup=0)
    assert "The parts of the only chain disagree about the number of components (R-hat" in text
    assert "sample anew with a longer warm-up (warmup=400)" in text  # as many as draws: none yet
    assert "only several chains (chains=4) can show whether they agree." in text


FOUND = {
    "few": lambda: find(good(shape=(2, 10))),
    "shifted": lambda: find(good() | {"n_components": shifted()}),
    "alone": lambda: find(drifting_alone(), warmup=0),
    "slow": lambda: find(good() | {"spurious": wave()}),
}


def shifted():
    return good()["n_components"] + np.array([[0], [2], [0], [0]])


def drifting_alone():
    quantities = good(shape=(1, 300))
    quantities["n_components"][0, 150:] += 3
    return quantities


def wave():
    return np.sin(np.arange(DRAWS) * 2 * np.pi / 50) + np.array([[0.0], [0.01], [0.02], [0.03]])


def test_commands_for_a_run_that_was_kept():
    """Somebody at a command line is told commands, with the numbers filled in."""
    said = {name: make().sentence(CommandFace(Path("a {run}"))) for name, make in FOUND.items()}
    assert said["few"].endswith("Go on with `thali resume 'a {run}' --draws 400`.")
    go_on = "Go on with `thali resume 'a {run}' --draws"
    assert f"{go_on} 400`, sample anew with a longer warm-up (--warmup 200), or" in said["shifted"]
    assert f"{go_on} 600`, or sample anew with a longer warm-up (--warmup 300);" in said["alone"]
    assert "only several chains (--chains 4) can show" in said["alone"]
    assert f"{go_on} 400`: about 2 times as many are needed." in said["slow"]


def test_commands_for_a_run_that_was_not_kept():
    """There is nothing to go on with."""
    for make in FOUND.values():
        text = make().sentence(CommandFace())
        assert f"Ask for more draws with --draws {make().advised_draws}" in text
        assert "resume" not in text


@pytest.mark.parametrize("name", FOUND)
def test_a_verdict_is_a_value(name):
    """It is equal to its copy, survives strict JSON, and calls quantities what it is told."""
    found = FOUND[name]()
    assert pickle.loads(pickle.dumps(found)) == found
    plain = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert plain == {
        "kind": found.kind,
        "quantities": list(found.quantities),
        "advised_draws": found.advised_draws,
    }
    words = {quantity: f"what is called {quantity}" for quantity in found.quantities}
    text = found.sentence(words=words)
    assert [word in text for word in list(words.values())[:1]] == [True] * bool(words)
    assert text.endswith(".")


def test_kinds():
    """One class for each thing that may be wrong."""
    kinds = {name: type(make()) for name, make in FOUND.items()}
    assert kinds == {
        "few": TooFewDraws,
        "shifted": Disagreement,
        "alone": Disagreement,
        "slow": TooCorrelated,
    }


def test_too_few_draws_are_said_to_be_too_few():
    """They are no reason to trust anything."""
    for n_draws in (1, 3, 10, MIN_ESS_PER_CHAIN - 1):
        text = judge(good(shape=(2, n_draws)))
        draws = "1 draw per chain is" if n_draws == 1 else f"{n_draws} draws per chain are"
        assert text.startswith(f"{draws} too few to judge whether")
        assert "at least 25 are needed" in text


def test_too_few_draws_are_not_diagnosed(monkeypatch):
    """Their number is all that the verdict needs; a table is made once, and nobody changes it."""
    data = thali.simulate((6, 5), 1, seed=0).tensor
    few = {"n_components": 1, "noise": "unequal", "chains": 2, "warmup": 2, "seed": 0}
    n_tables = []

    def counted(quantities):
        n_tables.append(1)
        return diagnose(quantities)

    monkeypatch.setattr("thali.posterior.diagnostics.diagnose", counted)
    with pytest.warns(NotConverged, match="too few to judge"):
        posterior = thali.sample(data, **few, draws=3)
    assert not n_tables
    posterior.summary()["mean"] = 0.0
    assert posterior.summary()["mean"].all()
    assert len(n_tables) == 1


def test_independent_draws_are_hardly_ever_flagged():
    """200 runs of 4 x 200 independent draws, 7 quantities each, without one warning.

    R-hat exceeds 1.05 if the ratio of the variances between and within the 8 half chains, nearly
    F(7, 792) distributed, exceeds 1 + (1.05^2 - 1) 100 = 11.25: probability below 1e-12, times
    200 runs, 7 quantities and 2 (folded or not).
    """
    chance = f.sf(1 + (MAX_R_HAT**2 - 1) * DRAWS / 2, 7, 8 * (DRAWS // 2 - 1))
    assert chance * 200 * 7 * 2 < 1e-8
    assert [seed for seed in range(200) if judge(good(seed)) is not None] == []


@pytest.mark.parametrize("is_lost", [(True, False), (True, True), (False, False)])
def test_chains_whose_components_cover_nothing(is_lost):
    """They are named, whatever R-hat says; a chain that covers something is not."""
    tensor = BinaryTensor.from_any(np.ones((3, 4, 5), bool))
    settings = Settings(tensor.shape, Model(1), Schedule(), 1, 2, 30)
    chains = []
    for lost in is_lost:
        store = MemoryStore(settings)
        lines = tuple(np.full((n, 1), not lost or mode) for mode, n in enumerate(tensor.shape))
        factors = tuple(Factor.from_dense(line.astype(bool)) for line in lines)
        covered = (0, 0) if lost else (60, 0)
        for sweep in range(30):
            densities = tuple(np.array(0.5) for _ in factors)
            state = State(factors, Noise(0.1, 0.1), 0.0, densities, covered, sweep)
            store.draws.append(Draw(state, -10.0, -5.0))
        chains.append(store)
    names = Names(tensor.mode_names, tensor.row_names)
    posterior = Posterior(settings, PackedTensor.from_tensor(tensor), names, chains)
    found = posterior.verdict()
    numbers = [number for number, lost in enumerate(is_lost, 1) if lost]
    if not numbers:
        assert found is None
        return
    assert found.plain()["kind"] == "empty"
    assert found.plain()["chains"] == numbers
    assert str(found).startswith("In chains 1 and 2," if len(numbers) > 1 else "In chain 1,")
