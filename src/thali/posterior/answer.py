"""The answer of a run: as plain values for machines, and in a few lines of English."""

from __future__ import annotations

from math import exp, isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np

import thali
from thali.model.noise_kinds import NOISE_KINDS
from thali.posterior.beyond import beyond_in_words
from thali.posterior.remarks import same_rows
from thali.posterior.tables import probabilities
from thali.posterior.verdict import judge
from thali.sentences import PYTHON, capitalized

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from thali.posterior.posterior import Posterior
    from thali.sampler import Attempted
    from thali.sentences import Face

INTERVAL = (0.05, 0.95)
"""Quantiles between which 90% of the draws lie."""

_HARDLY = 0.05
"""Spread of levels, in log odds, below which rows or columns hardly differ."""


def answer(
    posterior: Posterior, face: Face = PYTHON, words: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return what a run found, in values that JSON can hold.

    Parameters
    ----------
    posterior
        Posterior with at least one draw.
    face, words
        Interface whose commands ``warning`` recommends, and the phrases it uses for quantities,
        by name. By default, ``warning`` is written for users of Python.

    Returns
    -------
    answer
        Every quantity has a ``mean`` and an ``interval`` with 90% of the draws. A value that is
        not defined (R-hat of three draws, the duration of a run of an earlier version) is None.

        ``shape``, ``modes``, ``observed``, ``ones``
            Shape of the data, names of the modes, number of known entries and of ones.
        ``chains``, ``draws``, ``asked``, ``warmup``, ``seed``
            Number of chains, draws that every chain has, draws per chain that were requested,
            sweeps of warm-up, and the seed.
        ``n_components``, ``shared_components``
            ``mode``, ``mean``, ``interval`` and ``pmf`` of the number of components, and of the
            number of components that two or more rows have.
        ``components_that_matter``
            The same for components without which some prediction would change
            (:attr:`thali.Posterior.n_that_matter`).
        ``beyond_rates``
            What the components explain beyond row and column rates: ``is_there`` (False if there
            are none), ``gain`` in the log score of a hidden entry and its ``standard_error``, the
            ``total`` for all known entries, the difference in log ``evidence``, and ``n_hidden``.
            None if the model has no row and column effects, or if components were not grown.
        ``noise``
            ``kind``, and the quantities of the noise: the rates ``spurious`` and ``dropped``, or
            ``flip`` if the model has one rate for both. With row and column effects, the rates
            are those of an average row and column, and ``row_spread``, ``column_spread`` and
            ``jump_spread`` are the standard deviations of levels and jumps in log odds.
        ``alpha``, ``density``
            Concentration of the buffet (None if the number of components was fixed), and
            densities by name of the mode.
        ``wrong_entries``
            Number of known entries that contradict the components of a draw, and their ``share``.
        ``r_hat``, ``ess``
            Diagnostics by quantity. An infinite R-hat (of chains that do not move) is None, too.
        ``moves``
            How often each move of whole components was ``tried`` and ``accepted`` after the
            warm-up, in all chains together, by name of the move.
        ``starts``
            For each chain, the stages of its start before the first sweep: ``stage`` ("grown",
            "pooled" or "regrown"; with row and column effects also "tried" and "chosen"),
            ``kind`` ("none", "fitted" or "flat" with effects, otherwise None), ``n_components``,
            ``evidence`` (log evidence for these components), and ``hidden`` (``score`` of a
            hidden entry, its ``gain`` over row and column rates alone, ``standard_error`` and
            ``n_hidden``; None if not tried). Empty lists if components were not grown.
        ``same_rows``
            Mean number of components of a draw that have exactly the rows, two or more, of
            another component; None if every component has a density of its own, or if their
            number was given.
        ``agree``, ``warning``, ``verdict``
            Whether the chains pass all diagnostics; if not, the reason as a text, and as
            ``kind``, ``quantities`` and ``advised_draws`` (the advised total per chain).
        ``wall_seconds``, ``version``
            Duration of sampling, all sessions together, and the version of thali.

    Examples
    --------
    >>> import thali
    >>> from thali.posterior.answer import answer
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> found = answer(posterior)
    >>> found["n_components"]["mode"], found["observed"], found["n_components"]["pmf"]
    (3, 4800, {'3': 1.0})
    """
    table = posterior.summary()
    settings = posterior.settings
    verdict = judge(
        table, posterior.n_components, posterior.n_chains, posterior.n_draws, settings.warmup
    )
    n_known = posterior.tensor.n_known
    beyond = posterior.beyond_rates()
    densities = zip(posterior.mode_names, posterior.densities, strict=True)
    return {
        "shape": list(posterior.shape),
        "modes": list(posterior.mode_names),
        "observed": n_known,
        "ones": posterior.tensor.n_ones,
        "chains": posterior.n_chains,
        "draws": posterior.n_draws,
        "asked": settings.draws,
        "warmup": settings.warmup,
        "seed": settings.seed,
        "n_components": _numbers(posterior.n_components_table()),
        "shared_components": _numbers(posterior.n_components_table(least_users=2)),
        "components_that_matter": _numbers(probabilities(posterior.n_that_matter)),
        "beyond_rates": None if beyond is None else beyond.plain(),
        "noise": _noise(posterior),
        "alpha": None if settings.model.is_finite else _quantity(posterior.alpha),
        "density": {name: _quantity(part) for name, part in densities if part is not None},
        "wrong_entries": _quantity(posterior.error * n_known)
        | {"share": float(posterior.error.mean())},
        "r_hat": {str(name): _finite(value) for name, value in table["r_hat"].items()},
        "ess": {str(name): _finite(value) for name, value in table["ess_bulk"].items()},
        "moves": {
            name: {"tried": tried, "accepted": accepted}
            for name, (tried, accepted) in posterior.acceptance.items()
        },
        "starts": [[_stage(part) for part in history] for history in posterior.starts],
        "same_rows": same_rows(posterior),
        "agree": verdict is None,
        "warning": None if verdict is None else verdict.sentence(face, words),
        "verdict": None if verdict is None else verdict.plain(),
        "wall_seconds": _finite(posterior.wall_seconds),
        "version": thali.__version__,
    }


def in_words(found: dict[str, Any]) -> list[str]:
    """Express an answer in five lines of English, six with row and column effects.

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
    return [
        _how_many(found),
        _kinds(found),
        *([] if beyond is None else [beyond]),
        _errors(found),
        _wrong(found),
        _trust(found),
    ]


# --- values --------------------------------------------------------------------------------


def _numbers(table: pd.Series[float]) -> dict[str, Any]:
    values, shares = table.index.to_numpy(), table.to_numpy()
    at = np.searchsorted(np.cumsum(shares), np.array(INTERVAL) - 1e-9)
    return {
        "mode": int(values[shares.argmax()]),
        "mean": float(values @ shares),
        "interval": [int(values[i]) for i in at],
        "pmf": {str(value): float(share) for value, share in zip(values, shares, strict=True)},
    }


def _quantity(draws: NDArray[Any]) -> dict[str, Any]:
    """Return mean and interval of a quantity; draws without it are NaN and do not count."""
    there = draws[np.isfinite(draws)]
    if not there.size:
        return {"mean": None, "interval": [None, None]}
    interval = np.quantile(there, INTERVAL)
    return {"mean": float(there.mean()), "interval": [float(end) for end in interval]}


def _noise(posterior: Posterior) -> dict[str, Any]:
    kind = posterior.settings.model.priors(len(posterior.shape)).noise.kind
    drawn = {
        quantity.name: _quantity(posterior.noise[quantity.draws[0]])
        for quantity in (*kind.quantities, *kind.spreads)
    }
    return {"kind": kind.name, **drawn}


def _stage(part: Attempted) -> dict[str, Any]:
    return {
        "stage": part.stage,
        "kind": part.kind or None,
        "n_components": part.n_components,
        "evidence": _finite(part.evidence),
        "hidden": None if part.tried is None else part.tried._asdict(),
    }


def _finite(value: Any) -> float | None:
    return float(value) if isfinite(value) else None


# --- words ---------------------------------------------------------------------------------


def _how_many(found: dict[str, Any]) -> str:
    shape, known = found["shape"], found["observed"]
    are_known = "all known" if known == prod(shape) else f"{known} of them known"
    data = f"{' x '.join(map(str, shape))} entries, {are_known}"
    number = found["n_components"]
    if found["alpha"] is None:
        return f"{data}: explained by {_components(number['mode'])}, as asked."
    return f"{data}: most probably {_components(number['mode'])} ({_how_sure(number)})."


def _kinds(found: dict[str, Any]) -> str:
    shared, matter = found["shared_components"], found["components_that_matter"]
    return (
        f"Counting only components that two or more rows have: {_components(shared['mode'])} "
        f"({_how_sure(shared)}); only those without which a prediction would change: "
        f"{matter['mode']} ({_how_sure(matter)})."
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
    spreads = {lines: noise[f"{lines}_spread"]["mean"] for lines in ("row", "column")}
    same = [f"{lines}s hardly differ" for lines, spread in spreads.items() if spread < _HARDLY]
    told = [
        f"{lines}s differ by a spread of {spread:.2f} in log odds (one in six has odds of a one "
        f"more than {exp(spread):.1f} times the average)"
        if at == 0
        else f"{lines}s by {spread:.2f} ({exp(spread):.1f} times)"
        for at, (lines, spread) in enumerate(
            (lines, spread) for lines, spread in spreads.items() if spread >= _HARDLY
        )
    ]
    jump = noise["jump_spread"]["mean"]
    if jump >= _HARDLY:
        same.append(f"what cover adds to the log odds differs between columns by {jump:.2f}")
    return " ".join(f"{capitalized(part)}." for part in (", ".join(told), "; ".join(same)) if part)


def _wrong(found: dict[str, Any]) -> str:
    wrong = found["wrong_entries"]
    low, high = (f"{end:.0f}" for end in wrong["interval"])
    spread = "" if low == high else f" (90% between {low} and {high})"
    n_wrong = f"{wrong['mean']:.0f}"
    if NOISE_KINDS[found["noise"]["kind"]].spreads:  # an entry outside need not be an error
        entries = f"known entries ({wrong['share']:.2%})"
        return f"{n_wrong} {entries} are ones outside all components, or zeros inside one{spread}."
    entries = "known entry" if n_wrong == "1" else "known entries"
    contradict = "contradicts" if n_wrong == "1" else "contradict"
    return f"{n_wrong} {entries} ({wrong['share']:.2%}) {contradict} the components{spread}."


def _trust(found: dict[str, Any]) -> str:
    n_chains = found["chains"]
    chains = f"{n_chains} chain{'s' * (n_chains > 1)} of {found['draws']} draws"
    took = found["wall_seconds"]
    time = "" if took is None else f", sampled in {_duration(took)}"
    if not found["agree"]:
        return f"{chains}{time}: not to be trusted yet, see the warning."
    largest = max((r for r in found["r_hat"].values() if r is not None), default=1.0)
    fewest = min((e for e in found["ess"].values() if e is not None), default=None)
    worth = "" if fewest is None else f", at least {fewest:.0f} effective draws"
    return f"{chains}{time}: they agree (R-hat at most {largest:.2f}{worth})."


def _components(number: int) -> str:
    return f"{number} component{'s' * (number != 1)}"


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
