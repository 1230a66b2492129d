"""What components explain beyond row and column rates, on entries that they have not seen.

In a start with row and column effects, some entries are hidden. They are predicted by the chosen
start, and by row and column rates alone (:mod:`thali.sampler.grow.trial`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from thali.posterior.draws import Draws
    from thali.sampler import Attempted

_SURE = 2.0
"""Standard errors that a gain must exceed to be more than chance."""

NOTHING = "No components beyond row and column rates."


class Beyond(NamedTuple):
    """What components explain beyond row and column rates, on average over the chains.

    All numbers are in nats, that is in natural logarithms; those about nothing are None.
    """

    is_there: bool  # False if no chain began with components and most draws have none
    gain: float | None  # in the log score of a hidden entry
    standard_error: float | None  # of the gain
    total: float | None  # the gain times the number of known entries
    evidence: float | None  # difference in log evidence, a rough estimate
    n_hidden: int  # number of hidden entries, the same in all chains

    def plain(self) -> dict[str, Any]:
        """Return the numbers by name, in values that JSON can hold."""
        return self._asdict()


def beyond_rates(draws: Draws) -> Beyond | None:
    """Return what the components explain beyond row and column rates; None if that is not known.

    It is known of chains that have row and column effects and grew their components.
    """
    pairs = [pair for history in draws.starts if (pair := _ends(history)) is not None]
    if not pairs or draws.n_draws == 0:
        return None
    tried = [chosen.tried for _, chosen in pairs if chosen.tried is not None]
    n_hidden = max(part.n_hidden for part in tried)
    values, counts = np.unique(draws.n_components, return_counts=True)
    is_empty = all(end.kind == "none" or end.n_components == 0 for _, end in pairs)
    if is_empty and values[counts.argmax()] == 0:
        return Beyond(False, None, None, None, None, n_hidden)
    gain = float(np.mean([part.gain for part in tried]))
    # All chains hide the same entries, so averaging over chains does not make it smaller.
    error = float(np.mean([part.standard_error for part in tried]))
    evidence = float(np.mean([end.evidence - none.evidence for none, end in pairs]))
    return Beyond(True, gain, error, gain * draws.tensor.n_known, evidence, n_hidden)


def beyond_in_words(found: dict[str, Any] | None) -> str | None:
    """Say what the components explain beyond row and column rates; None if that is not known.

    Parameters
    ----------
    found
        What :meth:`Beyond.plain` returned.

    Examples
    --------
    >>> print(beyond_in_words(Beyond(True, 0.0431, 0.0052, 1207.4, 1180.2, 700).plain()))
    The components raise the log score of hidden entries by 0.0431 nats per entry (standard error \
0.0052) beyond row and column rates: 1,207 nats for all known entries.
    """
    if found is None:
        return None
    if not found["is_there"]:
        return NOTHING
    gain, error, total = (found[name] for name in ("gain", "standard_error", "total"))
    if gain <= _SURE * error:
        return (
            "Beyond row and column rates, the components predict hidden entries no better than "
            f"chance allows: {gain:+.4f} nats per entry (standard error {error:.4f})."
        )
    return (
        f"The components raise the log score of hidden entries by {gain:.4f} nats per entry "
        f"(standard error {error:.4f}) beyond row and column rates: {total:,.0f} nats for all "
        "known entries."
    )


def _ends(history: tuple[Attempted, ...]) -> tuple[Attempted, Attempted] | None:
    """Return the start without components and the chosen one, if starts were tried."""
    none = next((part for part in history if part.stage == "tried" and part.kind == "none"), None)
    if none is None or history[-1].stage != "chosen":
        return None
    return none, history[-1]
