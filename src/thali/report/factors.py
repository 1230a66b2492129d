"""Who is in which component: what the page searches, links to and offers as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from thali.posterior.tables import mode_labels
from thali.report.packing import deflated, deflated_names, packed, text
from thali.sentences import mode_words
from thali.views import components

if TYPE_CHECKING:
    from thali.posterior import Posterior


class PackedFactors(NamedTuple):
    """The factors of the point estimate with all names, ready for JSON."""

    modes: list[dict[str, Any]]  # one per mode, in the order of the data
    n_bytes: int  # how many compressed bytes the factors take, without the names


def packed_factors(posterior: Posterior, most: int) -> PackedFactors | None:
    """Return the factors and the names of all modes; None if either take more than `most` bytes.

    The ``key`` of a mode begins the addresses of its rows, such as ``#row-duck``; it does not
    depend on the words that the data have for rows and columns.
    """
    arity = len(posterior.shape)
    keys = mode_words([f"mode_{mode}" for mode in range(arity)])
    words = mode_words(posterior.mode_names)
    modes, left, left_for_names = [], most, most
    for mode, factor in enumerate(components(posterior).factors):
        names = posterior.row_names[mode]
        blob = None if names is None else deflated_names(names)
        left_for_names -= 0 if blob is None else len(blob)
        bits = deflated([packed(factor.dense().T)], left)
        if bits is None or left_for_names < 0:
            return None
        left -= len(bits)
        modes.append(
            {
                "key": keys[mode].removesuffix(" row"),
                "word": words[mode],
                "heading": words[mode],
                "file": f"factor_{mode_labels(posterior.mode_names)[mode]}.csv",
                "size": posterior.shape[mode],
                "names": None if blob is None else text(blob),
                "bits": text(bits),
            }
        )
    return PackedFactors(modes, most - left)
