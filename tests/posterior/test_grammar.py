"""Numbers in sentences: none, one and two of everything."""

import re
from itertools import product

import numpy as np
import pytest

import thali
from thali.errors import StoppedEarly
from thali.model.noise_kinds import NOISE_KINDS
from thali.posterior.answer import answer, in_words
from thali.posterior.remarks import start_in_words
from thali.posterior.verdict import TooCorrelated, TooFewDraws
from thali.report.facts import details, facts, headline
from thali.report.sections import repeat

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

COUNTS = (0, 1, 2)
NOUN = r"(?:known |effective |independent |warm-up |other )?([a-z]+)"
VERBS = {"are", "have", "contradict", "read", "cover", "belong", "agree"}


def mistakes(sentence):
    """Return what is wrong with the nouns and verbs beside numbers in a sentence."""
    found = []
    for number, noun in re.findall(rf"(?<![\d.,%x] )(?<![\d.,])\b(\d+) {NOUN}", sentence):
        is_plural = noun.endswith("s") and noun not in {"is", "has", "contradicts", "reads"}
        if noun in {"component", "entry", "row", "column", "chain", "draw", "one", "zero"}:
            is_plural = False
        elif not is_plural:
            continue  # no noun that is counted
        if is_plural == (number == "1"):
            found.append(f"{number} {noun}")
    # The verb of one thing, such as "1 of 12 rows", and then of several.
    for verb in re.findall(
        r"(?:\b1 of \d+ \w+|\b1 known entry \([^)]*\)|the only \w+) (\w+)", sentence
    ):
        if verb in VERBS:
            found.append(f"one thing {verb}")
    for verb in re.findall(
        r"(?:\b[02] of \d+ \w+s|\b[02] known entries \([^)]*\)|\ball \d+ \w+s) (\w+)", sentence
    ):
        if verb in {"is", "has", "contradicts", "reads", "belongs"}:
            found.append(f"several things {verb}")
    return found


@pytest.mark.parametrize(
    "wrong",
    [
        "1 known entries (0.10%) are ones outside all components",
        "1 known entry (0.10%) contradict the components",
        "2 known entry (0.10%) contradict the components",
        "2 known entries (0.10%) contradicts the components",
        "1 of 12 rows have no component",
        "0 of 12 rows has no component",
        "all 1 rows have some component",
        "the only row have some component",
        "most probably 1 components (probability 1.00)",
        "most probably 2 component (probability 1.00)",
        "1 chains of 5 draws",
        "at least 1 effective draws",
    ],
)
def test_mistakes_are_seen(wrong):
    """The search below finds what it looks for."""
    assert mistakes(wrong)


@pytest.fixture(scope="module")
def found():
    """An answer whose numbers are then replaced."""
    data = thali.simulate((12, 9), 2, spurious=0.05, seed=1).tensor
    few = {"noise": "unequal", "chains": 2, "warmup": 5, "draws": 30, "seed": 0}
    return answer(thali.sample(data, **few))


def changed(found, number, *, noise=None, shape=None, agree=True):
    """Return the answer with this number everywhere that a sentence counts something."""
    some = {"mean": float(number), "interval": [number, number]}
    counted = some | {"mode": number, "pmf": {str(number): 1.0}}
    covers = dict.fromkeys(("ones_outside", "zeros_inside", "rows_without"), some)
    shape = shape or found["shape"]
    return found | {
        "shape": shape,
        "n_components": counted,
        "shared_components": counted,
        "components_that_matter": counted,
        "wrong_entries": some | {"share": 0.001},
        "coverage": found["coverage"] | covers | {"unused": {"mode_1": some}},
        "chains": max(number, 1),
        "draws": number,
        "agree": agree,
        "verdict": None,
        "ess": {"n_components": float(number)},
        "noise": noise or found["noise"],
        "beyond_rates": None,
    }


EFFECTS = {
    "kind": "effects",
    **{
        quantity.name: {"mean": 0.1, "interval": [0.1, 0.1]}
        for quantity in NOISE_KINDS["effects"].quantities
    },
    **{f"{name}_spread": {"mean": 0.5} for name in ("row", "column", "jump")},
}


@pytest.mark.parametrize(
    ("number", "noise", "shape", "agree"),
    list(product(COUNTS, (None, EFFECTS), (None, [1, 1], [2, 1]), (True, False))),
)
def test_the_answer_counts_in_english(number, noise, shape, agree, found):
    """Each sentence of the answer, with none, one and two of what it counts."""
    for line in in_words(changed(found, number, noise=noise, shape=shape, agree=agree)):
        assert not mistakes(line), line


def test_one_of_everything(found):
    """Read once by a person, and kept as they are."""
    one = in_words(changed(found, 1))
    assert one[0] == "12 x 9 entries, all known: most probably 1 component (probability 1.00)."
    assert one[3] == (
        "1 known entry (0.10%) contradicts the component: 1 one outside it, 1 zero inside it."
    )
    assert re.fullmatch(
        r"The component covers [\d.]+% of the ones; 1 of 12 rows has no component and 1 of 9 "
        r"columns is in none\.",
        one[4],
    )
    assert re.search(
        r"^1 chain of 1 draw, .*: its two halves agree \(R-hat at most [\d.]+, at least 1 "
        r"effective draw\)\.$",
        one[5],
    )
    assert in_words(changed(found, 1, noise=EFFECTS))[3] == (
        "1 known entry (0.10%) is a one outside the component (1), or a zero inside it (1)."
    )
    assert in_words(changed(found, 2, noise=EFFECTS))[3] == (
        "2 known entries (0.10%) are ones outside all components (2), or zeros inside one (2)."
    )
    assert in_words(changed(found, 1, shape=[1, 1]))[0].startswith("1 x 1 entry, ")
    assert in_words(changed(found, 1, shape=[1, 1]))[4].endswith(
        "the only row has no component and the only column is in none."
    )


@pytest.mark.parametrize("number", COUNTS[1:])
def test_other_sentences_count_in_english(number):
    """Verdicts, starts, and what is said when a run is stopped."""
    assert not mistakes(TooFewDraws(number, number).sentence())
    assert not mistakes(TooCorrelated(2, 30, {"alpha": float(number)}).sentence())
    assert not mistakes(str(StoppedEarly(0, number)))
    stages = [{"stage": "grown", "n_components": number, "evidence": -1.0, "hidden": None}]
    assert not mistakes(start_in_words({"chains": 1, "starts": [stages * number]}))


@pytest.fixture(scope="module")
def single():
    """One draw of one chain, after one sweep."""
    few = {"noise": "unequal", "chains": 1, "warmup": 1, "draws": 1, "seed": 0}
    return thali.sample(np.eye(3), n_components=2, **few)


@pytest.mark.parametrize("number", COUNTS)
@pytest.mark.parametrize("kind", ["unequal", "effects"])
def test_the_page_counts_in_english(number, kind, single):
    """Its headline and the sentences below it."""
    known = facts(single)
    known = known._replace(
        number=number, low=number, high=number, wrong=known.wrong._replace(mean=float(number)),
        noise=NOISE_KINDS[kind], verdict=None, is_fixed=False,
    )  # fmt: skip
    for line in (headline(known), *details(known)):
        assert not mistakes(line), line


def test_the_page_says_how_to_repeat_a_single_draw(single):
    """One warm-up sweep and one draw."""
    words = re.sub("<.*?>", " ", repeat(single))
    assert "1, each with 1 warm-up sweep and 1 draw " in words
    assert not mistakes(words)
