"""The answer of a run in a few lines of English."""

from __future__ import annotations

from math import exp, prod
from typing import Any

from thali.model.noise_kinds import NOISE_KINDS
from thali.posterior.beyond import beyond_in_words
from thali.sentences import capitalized, listed, mode_words, n_of

_HARDLY = 0.05
"""Spread of levels, in log odds, below which rows or columns hardly differ."""

_MANY_CHAINS = 8
"""Number of chains beyond which they are not listed one by one."""


def in_words(found: dict[str, Any]) -> list[str]:
    """Express an answer in six lines of English, seven with row and column effects.

    If the chains disagree, a line that says so comes first.

    Parameters
    ----------
    found
        What :func:`answer` returned.

    Examples
    --------
    >>> import thali
    >>> from thali.posterior.answer import answer, in_words
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> print(in_words(answer(posterior))[0])
    60 x 80 entries, all known: most probably 3 components (probability 1.00).
    """
    beyond = beyond_in_words(found["beyond_rates"])
    apart = apart_in_words(found)
    return [
        *([] if apart is None else [apart]),
        _how_many(found),
        _kinds(found),
        *([] if beyond is None else [beyond]),
        _errors(found),
        _wrong(found),
        coverage_in_words(found),
        _trust(found),
    ]


def are_apart(found: dict[str, Any]) -> bool:
    """Return whether several chains disagree, so that no number speaks for all of them."""
    verdict = found["verdict"]
    return verdict is not None and verdict["kind"] == "disagreement" and found["chains"] > 1


def apart_in_words(found: dict[str, Any]) -> str | None:
    """Say what every chain found if the chains disagree, and what they share; None if they agree.

    Parameters
    ----------
    found
        What :func:`~thali.posterior.answer.answer` returned.
    """
    if not are_apart(found):
        return None
    chains = found["by_chain"]
    which = "disagree"
    if len(chains) > _MANY_CHAINS:
        chains = sorted(chains, key=lambda chain: -chain["log_joint"]["mean"])
        chains, which = [chains[0], chains[-1]], "disagree; the best and the worst"
    parts: list[str] = []
    for chain in chains:
        number, score = chain["n_components"]["mode"], f"{chain['log_joint']['mean']:,.1f}"
        told = f"{number} ({score})"
        if not parts:
            told = f"{_components(number)} (log joint {score})"
        parts.append(f"chain {chain['chain']} has {told}")
    told = f"The {found['chains']} chains {which}: {listed(parts)}."
    return f"{told} {shared_in_words(found)}".rstrip()


def shared_in_words(found: dict[str, Any]) -> str:
    """Say which components all chains have; nothing if that is not known."""
    shared = found["in_all_chains"]
    if shared is None:
        return ""
    numbers = [str(number) for number in shared["components"]]
    if not numbers:
        return "No component is in all chains."
    which = f"Component{'s' * (len(numbers) > 1)} {listed(numbers)}"
    are = "are" if len(numbers) > 1 else "is"
    return f"{which}, of {shared['of']} in the point estimate, {are} in all chains."


def coverage_in_words(found: dict[str, Any]) -> str:
    """Say which share of the ones the components explain, and which rows and columns have none."""
    covers = found["coverage"]
    if found["n_components"]["interval"][1] == 0:
        return "Without components, no entry is covered."
    words = mode_words(found["modes"])
    explained = covers["ones_explained"]["mean"]
    ones = "There are no ones"
    if explained is not None:
        cover = "component covers" if _has_one(found) else "components cover"
        ones = f"The {cover} {explained:.1%} of the ones"
        if are_apart(found):
            ones = f"On average over the chains, the {cover} {explained:.1%} of the ones"
    numbers = [covers["rows_without"], *covers["unused"].values()]
    parts = []
    for at, (number, word, n_rows) in enumerate(zip(numbers, words, found["shape"], strict=True)):
        n_without = round(number["mean"])
        which = f"{n_without:,} of {n_of(n_rows, word)}"
        if n_rows == 1:
            which = f"the only {word}"
        elif n_without == 0:
            which = f"all {n_of(n_rows, word)}"
        is_one = n_without == 1 or n_rows == 1
        if at == 0:
            have = "has" if is_one else "have"
            parts.append(f"{which} {have} {'no' if n_without else 'some'} component")
        elif n_without:
            parts.append(f"{which} {'is' if is_one else 'are'} in none")
        else:
            parts.append(f"{which} {'belongs' if is_one else 'belong'} to some component")
    return f"{ones}; {listed(parts)}."


def _how_many(found: dict[str, Any]) -> str:
    shape, known = found["shape"], found["observed"]
    are_known = "all known" if known == prod(shape) else f"{known} of them known"
    entries = "entry" if prod(shape) == 1 else "entries"
    data = f"{' x '.join(map(str, shape))} {entries}, {are_known}"
    number = found["n_components"]
    if are_apart(found) and found["alpha"] is not None:
        share = number["pmf"][str(number["mode"])]
        often = f"{_components(number['mode'])} (in {share:.0%} of the draws of all chains)"
        return f"{data}: most often {often}."
    if found["alpha"] is None:
        return f"{data}: explained by {_components(number['mode'])}, as asked."
    return f"{data}: most probably {_components(number['mode'])} ({_how_sure(number)})."


def _kinds(found: dict[str, Any]) -> str:
    shared, matter = found["shared_components"], found["components_that_matter"]
    number = found["n_components"]["mode"]
    larger = [part["mode"] for part in (shared, matter) if part["mode"] > number]
    told = ""
    if larger:  # two of the most frequent values may come from different draws
        told = (
            f" No draw has more of these than components in all; {max(larger)} and {number} are "
            "the most frequent numbers, of different draws."
        )
    return (
        f"Counting only components that two or more rows have: {_components(shared['mode'])} "
        f"({_how_sure(shared)}); only those without which a prediction would change: "
        f"{matter['mode']} ({_how_sure(matter)}).{told}"
    )


def _errors(found: dict[str, Any]) -> str:
    noise = found["noise"]
    kind = NOISE_KINDS[noise["kind"]]
    rates = {
        quantity.name: _rate(noise[quantity.name], has_interval=kind.has_interval)
        for quantity in kind.quantities
    }
    is_empty = found["n_components"]["mode"] == 0
    sentence = kind.without if is_empty and kind.without else kind.sentence
    return f"{sentence.format(**rates)} {spreads_in_words(noise)}".rstrip()


def spreads_in_words(noise: dict[str, Any]) -> str:
    """Say by how much rows and columns differ; nothing if the model has no effects.

    A sixth of a normal distribution lies more than one standard deviation above its mean.

    Parameters
    ----------
    noise
        The noise in what :func:`answer` returned.
    """
    if not NOISE_KINDS[noise["kind"]].spreads:
        return ""
    more = [name for name in noise if name.startswith("mode_")]
    words = ["rows", "columns"]
    if more:
        words = [f"lines of mode {mode + 1}" for mode in range(2 + len(more))]
    names = ("row_spread", "column_spread", *more)
    spreads = {word: noise[name]["mean"] for word, name in zip(words, names, strict=True)}
    same = [f"{lines} hardly differ" for lines, spread in spreads.items() if spread < _HARDLY]
    told = [
        f"{lines} differ by a spread of {spread:.2f} in log odds (one in six has odds of a one "
        f"more than {exp(spread):.1f} times the average)"
        if at == 0
        else f"{lines} by {spread:.2f} ({exp(spread):.1f} times)"
        for at, (lines, spread) in enumerate(
            (lines, spread) for lines, spread in spreads.items() if spread >= _HARDLY
        )
    ]
    jump = noise["jump_spread"]["mean"]
    if jump >= _HARDLY:
        same.append(f"what cover adds to the log odds differs between columns by {jump:.2f}")
    return " ".join(f"{capitalized(part)}." for part in (", ".join(told), "; ".join(same)) if part)


def _wrong(found: dict[str, Any]) -> str:
    wrong, covers = found["wrong_entries"], found["coverage"]
    outside, inside = (round(covers[name]["mean"]) for name in ("ones_outside", "zeros_inside"))
    low, high = (f"{end:.0f}" for end in wrong["interval"])
    spread = "" if low == high else f" (90% between {low} and {high})"
    n_wrong = round(wrong["mean"])
    entries = f"{n_wrong} known {'entry' if n_wrong == 1 else 'entries'} ({wrong['share']:.2%})"
    if NOISE_KINDS[found["noise"]["kind"]].spreads:  # an entry outside need not be an error
        one, zero = ("is a one", "a zero") if n_wrong == 1 else ("are ones", "zeros")
        every, some = ("the component", "it") if _has_one(found) else ("all components", "one")
        return (
            f"{entries} {one} outside {every} ({outside}), or {zero} inside {some} "
            f"({inside}){spread}."
        )
    contradict = "contradicts" if n_wrong == 1 else "contradict"
    whom, all_of_them, some = ("component", "it", "it")
    if not _has_one(found):
        whom, all_of_them, some = ("components", "all of them", "one")
    return (
        f"{entries} {contradict} the {whom}{spread}: {n_of(outside, 'one')} outside "
        f"{all_of_them}, {n_of(inside, 'zero')} inside {some}."
    )


def _trust(found: dict[str, Any]) -> str:
    n_chains = found["chains"]
    chains = f"{n_of(n_chains, 'chain')} of {n_of(found['draws'], 'draw')}"
    took = found["wall_seconds"]
    time = "" if took is None else f", sampled in {_duration(took)}"
    if not found["agree"]:
        return f"{chains}{time}: not to be trusted yet, see the warning."
    largest = max((r for r in found["r_hat"].values() if r is not None), default=1.0)
    fewest = min((e for e in found["ess"].values() if e is not None), default=None)
    worth = "" if fewest is None else f", at least {n_of(round(fewest), 'effective draw')}"
    agree = "its two halves agree" if n_chains == 1 else "they agree"  # R-hat compares halves
    return f"{chains}{time}: {agree} (R-hat at most {largest:.2f}{worth})."


def _components(number: int) -> str:
    return n_of(number, "component")


def _has_one(found: dict[str, Any]) -> bool:
    """Whether hardly any draw has a number of components other than one."""
    return bool(found["n_components"]["interval"] == [1, 1])


def _how_sure(number: dict[str, Any]) -> str:
    probability = f"probability {number['pmf'][str(number['mode'])]:.2f}"
    low, high = number["interval"]
    return probability if low == high else f"{probability}; 90% between {low} and {high}"


def _rate(rate: dict[str, Any], *, has_interval: bool) -> str:
    mean = f"{rate['mean']:.2%}"
    if not has_interval:
        return mean
    low, high = rate["interval"]
    return f"{mean} (90% between {low:.2%} and {high:.2%})"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"
