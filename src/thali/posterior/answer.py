"""The answer of a run as plain values for machines; ``answer_words.py`` puts it into words."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

import thali
from thali.model.noise_kinds import noise_kind
from thali.posterior.answer_words import in_words
from thali.posterior.by_chain import in_all_chains
from thali.posterior.explained import coverage
from thali.posterior.remarks import has_own_densities, same_rows
from thali.posterior.tables import probabilities
from thali.posterior.verdict import Disagreement
from thali.sentences import PYTHON, numbered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from thali.posterior.posterior import Posterior
    from thali.posterior.verdict import Verdict
    from thali.sampler import Attempted
    from thali.sentences import Face

__all__ = ["INTERVAL", "answer", "in_words"]

INTERVAL = (0.05, 0.95)
"""Quantiles between which 90% of the draws lie."""


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
        ``coverage``
            What the components explain: ``ones_explained``, the share of the known ones that
            some component covers (None without ones); ``ones_outside``, the number of those that
            none covers; ``zeros_inside``, the number of known zeros that some component covers;
            ``rows_without``, the number of rows without a component; and ``unused``, the number
            of columns that no component has, by name of the mode.
        ``by_chain``
            For each chain its number ``chain`` (from 1, as on all faces), and ``n_components``,
            ``log_joint``, ``coverage`` and ``moves`` of its own draws.
        ``in_all_chains``
            If the chains disagree, the numbers (from 1) of the ``components`` of the point
            estimate that all chains have, ``of`` how many; otherwise None, as for very large
            data.
        ``r_hat``, ``ess``
            Diagnostics by quantity. An infinite R-hat (of chains that do not move) is None, too.
        ``moves``
            How often each move of whole components was ``tried`` and ``accepted`` after the
            warm-up, in all chains together, by name of the move.
        ``starts``
            For each chain, the stages of its start before the first sweep: ``stage`` ("grown",
            "pooled" or "regrown"; with row and column effects also "tried" and "chosen"),
            ``kind`` ("none", "fitted", "flat" or "plain" with effects, otherwise None),
            ``n_components``, ``evidence`` (log evidence for these components), and ``hidden``
            (``score`` of a hidden entry, its ``gain`` over row and column rates alone,
            ``standard_error`` and ``n_hidden``; None if not tried). Empty lists if components
            were not grown.
        ``own_densities``
            Whether every component has a density of its own.
        ``same_rows``
            Mean number of components of a draw that have exactly the rows, two or more, of
            another component; None if every component has a density of its own, or if their
            number was given.
        ``agree``, ``warning``, ``verdict``
            Whether the chains pass all diagnostics; if not, the reason as a text, and as
            ``kind``, ``quantities`` and ``advised_draws`` (the advised total per chain; None if
            more draws were taken already and did not help).
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
    verdict = posterior.verdict()
    covers = coverage(posterior)
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
        "coverage": _coverage(covers, posterior.mode_names),
        "by_chain": _by_chain(posterior, covers),
        "in_all_chains": _in_all_chains(posterior, verdict),
        "r_hat": {str(name): _finite(value) for name, value in table["r_hat"].items()},
        "ess": {str(name): _finite(value) for name, value in table["ess_bulk"].items()},
        "moves": _moves(posterior.acceptance),
        "starts": [[_stage(part) for part in history] for history in posterior.starts],
        "own_densities": has_own_densities(posterior),
        "same_rows": same_rows(posterior),
        "agree": verdict is None,
        "warning": None if verdict is None else verdict.sentence(face, words),
        "verdict": None if verdict is None else verdict.plain(),
        "wall_seconds": _finite(posterior.wall_seconds),
        "version": thali.__version__,
    }


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


def _coverage(
    quantities: Mapping[str, NDArray[np.float64]], mode_names: Sequence[str]
) -> dict[str, Any]:
    rows, *others = mode_names
    named = ("ones_explained", "ones_outside", "zeros_inside")
    return {
        **{name: _quantity(quantities[name]) for name in named},
        "rows_without": _quantity(quantities[f"without_{rows}"]),
        "unused": {name: _quantity(quantities[f"without_{name}"]) for name in others},
    }


def _by_chain(
    posterior: Posterior, quantities: Mapping[str, NDArray[np.float64]]
) -> list[dict[str, Any]]:
    return [
        {
            "chain": numbered(chain),
            "n_components": _numbers(probabilities(posterior.n_components[at])),
            "log_joint": _quantity(posterior.log_joint[at]),
            "coverage": _coverage(
                {name: values[at] for name, values in quantities.items()}, posterior.mode_names
            ),
            "moves": _moves(moves),
        }
        for at, (chain, moves) in enumerate(
            zip(posterior.chain_indices, posterior.acceptance_by_chain, strict=True)
        )
    ]


def _moves(acceptance: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    return {
        name: {"tried": tried, "accepted": accepted}
        for name, (tried, accepted) in acceptance.items()
    }


def _in_all_chains(posterior: Posterior, verdict: Verdict | None) -> dict[str, Any] | None:
    if posterior.n_chains == 1 or verdict is None or verdict.kind != Disagreement.kind:
        return None
    shared = in_all_chains(posterior)
    if shared is None:
        return None
    return {"components": shared, "of": posterior.point_estimate().factors[0].n_components}


def _noise(posterior: Posterior) -> dict[str, Any]:
    arity = len(posterior.shape)
    kind = noise_kind(posterior.settings.model.priors(arity).noise.kind.name, arity)
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
