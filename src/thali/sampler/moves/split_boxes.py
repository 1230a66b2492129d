"""Split a component of a tensor in two, or unite two (eq. 17 to 19, in every mode but one).

Rows and the lines of all modes but the longest are divided or united; the lines of the longest
mode are summed out. Two components cover the union of their boxes, one component the box of their
unions, which is larger.
"""

from __future__ import annotations

from math import log, log1p
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from thali.bits import Factor, khatri_rao
from thali.bits.words import WORD, list_bits, pack
from thali.sampler.moves.move import SumOut, summed_mode
from thali.sampler.moves.proposal import NOTHING, three_uniforms
from thali.sampler.moves.split_merge import (
    divided,
    log_division,
    one_or_both,
    one_or_two,
)
from thali.sites import Site, SplitIndex, site_of

if TYPE_CHECKING:
    from thali.bits import Words
    from thali.sampler.moves.move import Attempt
    from thali.sampler.moves.proposal import Proposal
    from thali.streams import Stream

_SPLIT = np.uint64(Site.SPLIT)
_DECISION = np.uint64(SplitIndex.DECISION)
_ONE, _TWO = np.array([0b1111]), np.array([0b0101, 0b0110])
"""Classes of entries of the one component, and of the two: only the first, only the second, both,
and the rest of the box of their unions."""


class SplitBoxes(SumOut):
    """Split a component at random, or merge two components."""

    name: ClassVar = "split_merge"
    codes: ClassVar = Site.SPLIT_CODES
    density: ClassVar = None

    def propose(self, attempt: Attempt) -> Proposal:
        """Divide the lines of one component at random, or unite those of two."""
        stream, number, state, target = attempt
        users = state.factors[0].words
        first, second = one_or_both(*stream, _SPLIT, number, users)
        if first < 0:
            return NOTHING
        summed, is_split = summed_mode(target.shape), first == second
        pairs: list[Words] = []
        for mode, factor in enumerate(state.factors):
            if mode == summed:
                pairs.append(factor.words[[first, second]])  # not divided; it is summed out
            elif not is_split:
                pairs.append(factor.words[[first, second]])
            elif mode == 0:
                pairs.append(divided(stream, number, users[first], target.engine))
            else:
                pairs.append(_divided(stream, number, mode, factor.words[first]))
        uniforms = three_uniforms(*stream, _SPLIT, number, _DECISION)
        rows = pairs[0]
        of_rows: Proposal = one_or_two(
            users, target.shape[0], state.alpha, first, second, rows,
            log_division(rows[0], rows[1]), uniforms,
        )  # fmt: skip
        if not of_rows.is_possible:
            return NOTHING
        ratio = 0.0
        for mode, pair in enumerate(pairs):
            if mode not in (0, summed):
                density, n_lines = float(state.densities[mode]), target.shape[mode]
                # The sizes of both, less that of their union.
                more = int(np.bitwise_count(pair[0] & pair[1]).sum())
                ratio += more * log(density) + (n_lines - more) * log1p(-density)
                ratio -= float(log_division(pair[0], pair[1]))
        heads = [pair for mode, pair in enumerate(pairs) if mode != summed]
        if not is_split:
            heads = [pair[:1] | pair[1:] for pair in heads]
        return of_rows._replace(
            lines=tuple(heads),
            log_ratio=of_rows.log_ratio + (ratio if is_split else -ratio),
            classes=_classes(pairs, target.shape, summed),
            before=_ONE if is_split else _TWO,
            after=_TWO if is_split else _ONE,
        )


SPLIT_BOXES = SplitBoxes()


def _divided(stream: Stream, number: np.uint64, mode: int, line: Words) -> Words:
    """Assign every line of a mode to the first part, the second or both, as :func:`divided`."""
    places = list_bits(line)
    site = site_of(Site.SPLIT_ROWS, mode)
    uniforms = stream.uniforms(site, 3 + len(places), row=int(number))
    shares = -np.log(uniforms[:3])
    to_first, to_second = np.cumsum(shares)[:2] / shares.sum()
    u = uniforms[3:]
    pair = np.zeros((2, WORD * len(line)), np.bool_)
    pair[0, places] = (u < to_first) | (u >= to_second)
    pair[1, places] = u >= to_first
    return pack(pair)


def _classes(pairs: list[Words], shape: tuple[int, ...], summed: int) -> Words:
    """Return the entries of only the first box, only the second, both, and neither."""
    sets = [np.stack([pair[0], pair[1], pair[0] | pair[1]]) for pair in pairs]
    both = [Factor(words, n) for words, n in zip(sets, shape, strict=True)]
    first, second, union = khatri_rao(both, summed).words
    return np.stack([first & ~second, second & ~first, first & second, union & ~first & ~second])
