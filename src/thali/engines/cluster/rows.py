"""Work on rows that needs no data, shared by the processes instead of repeated by each."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

from thali.engines.cluster.parts import spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from thali.engines.base import Made
    from thali.engines.cluster.ranks import Ranks
    from thali.engines.cpu.engine import CpuEngine


def share_rows(
    ranks: Ranks, host: CpuEngine, kernel: Callable[..., Any], n_rows: int, arguments: Any,
    step: int, made: Made,
) -> None:  # fmt: skip
    """Run a compiled function over the rows of this process, and get what all have made.

    Sums over some rows are made by one process each, so that they are those of one process.
    """
    edges = spread(n_rows, ranks.n, max(per for _, per in made))
    lo, hi = edges[ranks.number : ranks.number + 2]
    if lo < hi:
        host.over_range(kernel, lo, hi - lo, *arguments, step=step)
    for array, per in (one for one in made if one[0].size):
        lines = [-(-edge // per) for edge in edges]
        sizes = [(end - first) * prod(array.shape[1:]) for first, end in pairwise(lines)]
        own = array[lines[ranks.number] : lines[ranks.number + 1]]
        array[:] = ranks.gather(own, sizes).reshape(array.shape)
