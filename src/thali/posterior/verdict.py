"""Whether the chains agree; if not, the reason as values from which sentences are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from thali.posterior.diagnostics import MAX_R_HAT, MIN_ESS_PER_CHAIN, in_words
from thali.sentences import PYTHON, OneChain, Setting, TakeDraws, capitalized, listed, n_of, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from thali.sentences import Face

_SENSIBLE = 400  # draws per chain to advise where there are next to none
_SEVERAL = 4  # chains to advise where there is only one


@dataclass(frozen=True)
class Verdict(ABC):
    """Why the chains cannot be trusted yet; its ``str`` explains it in a few sentences.

    Parameters
    ----------
    n_chains, n_draws
        Number of chains, and of draws per chain.
    n_left_out
        Draws before these in every chain.
    """

    kind: ClassVar[str]
    n_chains: int
    n_draws: int
    n_left_out: int = field(default=0, kw_only=True)

    @property
    @abstractmethod
    def advised_draws(self) -> int | None:
        """Advised total number of draws per chain; None if more draws are not advised."""

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the quantities that fail the diagnostics, the most important first."""
        return ()

    @abstractmethod
    def sentence(self, face: Face = PYTHON, words: Mapping[str, str] | None = None) -> str:
        """Explain what is wrong and what to do.

        Parameters
        ----------
        face
            Interface whose commands are recommended; by default Python.
        words
            Phrases for quantities, by name, where they differ from those of :func:`in_words`.
        """

    def __str__(self) -> str:
        return self.sentence()

    def plain(self) -> dict[str, Any]:
        """Return the kind, the quantities and the advice, in values that JSON can hold."""
        return {
            "kind": self.kind,
            "quantities": list(self.quantities),
            "advised_draws": self.advised_draws,
        }

    def _more(self, face: Face) -> str:
        assert self.advised_draws is not None
        return capitalized(say(TakeDraws(self.advised_draws), face))


@dataclass(frozen=True)
class TooFewDraws(Verdict):
    """There are too few draws to judge: even perfect chains would often have a large R-hat."""

    kind = "too few draws"

    @property
    def advised_draws(self) -> int:
        """Advised total number of draws per chain."""
        return _SENSIBLE

    def sentence(self, face: Face = PYTHON, words: Mapping[str, str] | None = None) -> str:  # noqa: ARG002
        """Explain what is wrong and what to do."""
        are = "is" if self.n_draws == 1 else "are"
        return (
            f"{n_of(self.n_draws, 'draw')} per chain {are} too few to judge whether the chains "
            f"agree (at least {MIN_ESS_PER_CHAIN} are needed, some hundreds are sensible). "
            f"{self._more(face)}."
        )


@dataclass(frozen=True)
class Empty(Verdict):
    """Some chains have components, and none of them covers an entry in any draw.

    Parameters
    ----------
    n_chains, n_draws
        Number of chains, and of draws per chain.
    chains
        Numbers of these chains, as users count them.
    """

    kind = "empty"
    chains: tuple[int, ...]

    @property
    def advised_draws(self) -> None:
        """More draws are not advised."""

    def plain(self) -> dict[str, Any]:
        """Return the same as every verdict, and the chains."""
        return super().plain() | {"chains": list(self.chains)}

    def sentence(self, face: Face = PYTHON, words: Mapping[str, str] | None = None) -> str:  # noqa: ARG002
        """Explain what is wrong and what to do, in the same words on every face."""
        which = f"chain{'s' * (len(self.chains) > 1)} {listed([str(c) for c in self.chains])}"
        return (
            f"In {which}, no component covers any entry: the factors explain nothing. Either the "
            "data have no such components, or the chain lost them; let the number of components "
            "be inferred, or try another seed."
        )


@dataclass(frozen=True)
class Disagreement(Verdict):
    """Chains differ from each other, or change over time, by more than chance.

    Parameters
    ----------
    n_chains, n_draws
        Number of chains, and of draws per chain.
    r_hat
        R-hat of the quantities for which it exceeds ``MAX_R_HAT``: first the number of
        components, then in descending order.
    means
        Mean number of components of every chain.
    warmup
        Sweeps of warm-up.
    extended_from
        Draws per chain that the run had when more were taken; None if that was never done.
    best
        Index of the chain with the highest mean log joint density.
    part_of
        If this is one of several chains, its number (from 1); otherwise None.
    """

    kind = "disagreement"
    r_hat: Mapping[str, float]
    means: tuple[float, ...]
    warmup: int
    extended_from: int | None = None
    best: int = 0
    part_of: int | None = None

    @property
    def has_failed(self) -> bool:
        """Whether more draws were taken already, and the chains still disagree."""
        before = self.extended_from
        return before is not None and MIN_ESS_PER_CHAIN <= before < self.n_left_out + self.n_draws

    @property
    def advised_draws(self) -> int | None:
        """Advised total number of draws per chain; None if more draws have not helped."""
        return None if self.has_failed else self.n_left_out + 2 * self.n_draws

    @property
    def advised_warmup(self) -> int:
        """Length of the warm-up, in sweeps, for sampling anew.

        It is twice as long as before; where more draws have not helped, as long as they were.
        """
        return max(2 * self.warmup, self.n_draws if self.has_failed or not self.warmup else 0)

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the quantities that fail the diagnostics, the most important first."""
        return tuple(self.r_hat)

    def sentence(self, face: Face = PYTHON, words: Mapping[str, str] | None = None) -> str:
        """Explain what is wrong and what to do."""
        longer = f"a longer warm-up ({say(Setting('warmup', self.advised_warmup), face)})"
        if self.part_of is not None:
            return (
                f"The parts of chain {self.part_of} disagree about {self._what(words)}: the chain "
                "had not converged, and summaries mix the states it passed through. "
                f"{self._then(face)}sample anew with {longer}."
            )
        if self.n_chains == 1:
            several = say(Setting("chains", _SEVERAL), face)
            return (
                f"The parts of the only chain disagree about {self._what(words)}: the chain had "
                "not converged, and summaries mix the states it passed through. "
                f"{self._then(face)}sample anew with {longer}; only several chains "
                f"({several}) can show whether they agree."
            )
        still = "still " * self.has_failed
        alone = say(OneChain(self.best), face)
        disagree = (
            f"The {self.n_chains} chains {still}disagree, with each other or over time, about "
            f"{self._what(words)}: summaries mix different explanations of the data."
        )
        if self.has_failed:
            return (
                f"{disagree} Going on from {self.extended_from} to {self.n_draws} draws per chain "
                "did not make them agree. Use only what all chains share, and look at the chains "
                f"one by one ({alone} has the highest log joint density); or sample anew with "
                f"{longer}, or another model."
            )
        return (
            f"{disagree} {self._more(face)}, sample anew with {longer}, or look at the chains one "
            f"by one ({alone} has the highest log joint density)."
        )

    def _then(self, face: Face) -> str:
        """Begin the advice: take more draws or, if that has not helped, something else."""
        if self.has_failed:
            return f"Going on from {self.extended_from} to {self.n_draws} draws did not help; "
        return f"{self._more(face)}, or "

    def _what(self, words: Mapping[str, str] | None) -> str:
        """Name up to three quantities, and the number of further ones."""
        parts = []
        for name in self.quantities[:3]:
            numbers = f"R-hat {self.r_hat[name]:.2f}"
            if name == "n_components" and self.n_chains > 1:
                numbers = f"{self._means()}; {numbers}"
            parts.append(f"{_called(name, words)} ({numbers})")
        if len(self.quantities) > 3:
            parts.append(f"{len(self.quantities) - 3} more")
        return listed(parts)

    def _means(self) -> str:
        if len(self.means) > 8:  # too many to list
            return f"means from {min(self.means):.1f} to {max(self.means):.1f}"
        return "means " + ", ".join(f"{mean:.1f}" for mean in self.means)


@dataclass(frozen=True)
class TooCorrelated(Verdict):
    """The chains agree, but their draws are so correlated that the effective sample size is small.

    Parameters
    ----------
    n_chains, n_draws
        Number of chains, and of draws per chain.
    ess
        Effective sample size, over all chains, of the quantities for which it is too small, in
        ascending order.
    """

    kind = "too correlated"
    ess: Mapping[str, float]

    @property
    def wanted(self) -> int:
        """Effective sample size that all chains together should have."""
        return MIN_ESS_PER_CHAIN * self.n_chains

    @property
    def times(self) -> int:
        """Factor by which the number of draws must grow."""
        return ceil(self.wanted / self._fewest)

    @property
    def advised_draws(self) -> int:
        """Advised total number of draws per chain."""
        return self.n_left_out + self.n_draws * self.times

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the quantities that fail the diagnostics, the most important first."""
        return tuple(self.ess)

    @property
    def _fewest(self) -> float:
        return max(self.ess[self.quantities[0]], 1.0)

    def sentence(self, face: Face = PYTHON, words: Mapping[str, str] | None = None) -> str:
        """Explain what is wrong and what to do."""
        return (
            f"The {self.n_chains * self.n_draws} draws are worth only "
            f"{n_of(round(self._fewest), 'independent one')} for "
            f"{_called(self.quantities[0], words)}, where {self.wanted} are wanted "
            f"({MIN_ESS_PER_CHAIN} per chain): averages, and the comparison of the chains "
            f"itself, are uncertain. {self._more(face)}: about {self.times} times as many are "
            "needed."
        )


def too_few(n_chains: int, n_draws: int) -> TooFewDraws | None:
    """Return a verdict if there are too few draws to judge anything else, otherwise None.

    Parameters
    ----------
    n_chains, n_draws
        Number of chains, and of draws per chain.
    """
    return TooFewDraws(n_chains, n_draws) if n_draws < MIN_ESS_PER_CHAIN else None


def judge(
    table: pd.DataFrame,
    n_components: NDArray[Any],
    n_chains: int,
    n_draws: int,
    warmup: int,
    **circumstances: Any,
) -> Verdict | None:
    """Return why the chains cannot be trusted, or None if they pass all diagnostics.

    Parameters
    ----------
    table
        Table that :func:`~thali.posterior.diagnostics.diagnose` returned.
    n_components
        Number of components in every draw, ``(n_chains, n_draws)``.
    n_chains, n_draws, warmup
        Number of chains, draws per chain, and sweeps of warm-up.
    **circumstances
        Fields of :class:`Disagreement` on which its advice depends, such as ``extended_from``.

    Returns
    -------
    verdict
        None if every R-hat is at most ``MAX_R_HAT`` and every effective sample size at least
        ``MIN_ESS_PER_CHAIN`` per chain.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.posterior.diagnostics import diagnose
    >>> from thali.posterior.verdict import judge
    >>> stuck = np.array([[5] * 30, [6] * 30])
    >>> verdict = judge(diagnose({"n_components": stuck}), stuck, 2, 30, warmup=50)
    >>> verdict.kind, verdict.r_hat, verdict.advised_draws
    ('disagreement', {'n_components': inf}, 60)
    >>> print(str(verdict)[:90])
    The 2 chains disagree, with each other or over time, about the number of components (means
    """
    few = too_few(n_chains, n_draws)
    if few is not None:
        return few
    differing = table["r_hat"][table["r_hat"] > MAX_R_HAT].sort_values(ascending=False)
    if len(differing):
        names = sorted(map(str, differing.index), key=lambda name: name != "n_components")
        r_hat = {name: float(differing[name]) for name in names}
        means = np.asarray(n_components).mean(axis=1)
        means = tuple(map(float, means))
        return Disagreement(n_chains, n_draws, r_hat, means, warmup, **circumstances)
    slow = table["ess_bulk"][table["ess_bulk"] < MIN_ESS_PER_CHAIN * n_chains].sort_values()
    if len(slow):
        return TooCorrelated(n_chains, n_draws, {str(k): float(v) for k, v in slow.items()})
    return None


def _called(name: str, words: Mapping[str, str] | None) -> str:
    return (words or {}).get(name) or in_words(name)
