"""What components explain beyond row and column rates, and how the answer says it."""

import json

import numpy as np
import pytest

import thali
from support.made import made, with_effects
from thali.posterior.answer import answer, in_words
from thali.posterior.answer_words import spreads_in_words
from thali.posterior.beyond import NOTHING, Beyond, beyond_in_words
from thali.sampler import Attempted, Tried


def history(kind, number, gain, error, evidence):
    """Return the end of a start: without components, and what was chosen."""
    chosen = Attempted("chosen", number, evidence, kind, Tried(-0.4, gain, error, 300))
    none = Attempted("tried", 0, -500.0, "none", Tried(-0.5, 0.001, 0.002, 300))
    return (Attempted("grown", 3, -450.0, "flat"), none, chosen._replace(stage="tried"), chosen)


def posterior_of(*histories, n_components=None):
    posterior = with_effects(made())
    for chain, start in zip(posterior._chains, histories, strict=True):
        chain.start = start
    if n_components is not None:
        numbers = np.full((2, 30), n_components)
        posterior.__dict__["_scalars"] = posterior._scalars._replace(n_components=numbers)
    return posterior


def test_averages_over_chains():
    """Means of gains and of differences in evidence; errors too."""
    starts = history("flat", 4, 0.1, 0.03, -400.0), history("fitted", 3, 0.06, 0.04, -420.0)
    posterior = posterior_of(*starts)
    found = posterior.beyond_rates()
    n_known = posterior.tensor.n_known
    assert found == Beyond(
        True,
        pytest.approx(0.08),
        pytest.approx(0.035),
        pytest.approx(0.08 * n_known),
        pytest.approx(90.0),
        300,
    )
    lines = in_words(answer(posterior))
    assert len(lines) == 7
    assert lines[2] == (
        "The components raise the log score of hidden entries by 0.0800 nats per entry (standard "
        f"error 0.0350) beyond row and column rates: {0.08 * n_known:,.0f} nats for all known "
        "entries."
    )


def test_what_may_be_chance_is_no_gain():
    """Two standard errors must be exceeded."""
    words = beyond_in_words(Beyond(True, 0.04, 0.02, 40.0, 5.0, 600).plain())
    assert words == (
        "Beyond row and column rates, the components predict hidden entries no better than "
        "chance allows: +0.0400 nats per entry (standard error 0.0200)."
    )
    assert "raise" in beyond_in_words(Beyond(True, 0.041, 0.02, 40.0, 5.0, 600).plain())


def test_nothing_is_a_sentence_and_no_number():
    """If no chain began with components and most draws have none; otherwise there are numbers."""
    none, one = history("none", 0, 0.001, 0.002, -500.0), history("flat", 1, 0.0, 0.1, -500.0)
    found = posterior_of(none, none, n_components=0).beyond_rates()
    assert found == Beyond(False, None, None, None, None, 300)
    assert beyond_in_words(found.plain()) == NOTHING
    json.dumps(found.plain(), allow_nan=False)
    for starts, number in (((none, none), 1), ((none, one), 0)):
        found = posterior_of(*starts, n_components=number).beyond_rates()
        assert found.is_there
        assert found.gain is not None
    empty = none[-1]._replace(kind="fitted")  # a search that found nothing
    found = posterior_of(none, (*none[:-1], empty), n_components=0).beyond_rates()
    assert not found.is_there


def test_nothing_is_known_of_other_starts():
    """Two error rates, chains without a start, and runs that did not note it."""
    assert made().beyond_rates() is None
    assert beyond_in_words(None) is None
    grown = (Attempted("grown", 3, -450.0),)
    assert posterior_of(grown, ()).beyond_rates() is None
    assert len(in_words(answer(posterior_of(grown, ())))) == 6


def noise(row, column, jump=0.0):
    spreads = {"row": row, "column": column, "jump": jump}
    return {"kind": "effects"} | {
        f"{name}_spread": {"mean": mean} for name, mean in spreads.items()
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (noise(0.7, 1.5), "Rows differ by a spread of 0.70 in log odds (one in six has odds of a "
         "one more than 2.0 times the average), columns by 1.50 (4.5 times)."),
        (noise(0.0, 1.5), "Columns differ by a spread of 1.50 in log odds (one in six has odds of "
         "a one more than 4.5 times the average). Rows hardly differ."),
        (noise(0.0, 0.01), "Rows hardly differ; columns hardly differ."),
        (noise(0.7, 0.7, 0.3), "Rows differ by a spread of 0.70 in log odds (one in six has odds "
         "of a one more than 2.0 times the average), columns by 0.70 (2.0 times). What cover adds "
         "to the log odds differs between columns by 0.30."),
        ({"kind": "unequal"}, ""),
    ],
)  # fmt: skip
def test_spreads_in_words(given, words):
    """Only what differs has a number."""
    assert spreads_in_words(given) == words


def test_rates_under_effects():
    """Of an average row and column; without components, nothing is said of what they cover."""
    none = history("none", 0, 0.001, 0.002, -500.0)
    with_some, without = (
        in_words(answer(posterior_of(none, none, n_components=n))) for n in (3, 0)
    )
    assert with_some[3].startswith("In an average row and column, ")
    assert "; inside " in with_some[3]
    assert "inside" not in without[3].partition("%)")[2]
    assert without[2] == NOTHING
    assert "are ones outside all components (49), or zeros inside one (22)" in with_some[4]
    found = answer(posterior_of(none, none))["noise"]
    assert list(found) == [
        "kind", "spurious", "dropped", "row_spread", "column_spread", "jump_spread",
    ]  # fmt: skip


def test_two_rates_have_no_effects():
    """Neither a spread nor a picture of levels."""
    with pytest.raises(ValueError, match="sample with noise='effects'"):
        thali.views.levels(made())
