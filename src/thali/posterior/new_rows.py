"""Memberships of new rows in learned components of a matrix.

A row's posterior has ``2**n_components`` states, for every level of the row if rows and columns
have effects. With few components all of them are summed exactly; otherwise a short Gibbs chain is
run. In both cases the result for a row depends on its entries alone, not on other rows, their
order, blocks or threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thali.bits import PackedTensor, Unfolding, pack, unpack
from thali.bits.words import n_words, set_bits
from thali.data import BinaryTensor, Entries, Packed, Pattern
from thali.data.entries import dense_rows
from thali.model import Noise
from thali.posterior.new_row_level_plan import LevelPlan
from thali.posterior.new_row_plan import Plan
from thali.threads import n_threads, parallel_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.model import Levels
    from thali.posterior.new_row_levels import NewRowLevels

    Rows: TypeAlias = BinaryTensor | PackedTensor | Unfolding

N_FOLDS = 5
"""Number of parts of the columns; a score predicts each part from the others."""

_BLOCK_ENTRIES = 1 << 21
"""Entries per block of rows: 16 MB of probabilities."""


class Components(NamedTuple):
    """The components of a matrix, with the prior and the noise that new rows need."""

    codes: NDArray[np.bool_]  # (n_columns, n_components): the columns of each component
    odds: NDArray[np.float64]  # (n_components,): prior log odds that a new row has the component
    noise: Noise | Levels | NewRowLevels  # with effects, those of a draw or of all draws


class LogScores(NamedTuple):
    """Log predictive probability of the known entries of each row, and their number."""

    total: NDArray[np.float64]
    n_known: NDArray[np.int64]


def memberships(
    rows: Rows, components: Components, *, method: str = "auto", threads: int | None = None
) -> NDArray[np.float64]:
    """Compute the probability that each row has each component.

    Parameters
    ----------
    rows
        Matrix with as many columns as the components. An unfolding (packed rows) may have no
        known entry at all.
    components
        Components of the matrix that was factorized.
    method
        ``"enumeration"`` of all states is exact. ``"gibbs"`` has an error of about 0.01 if the
        entries of a row leave it open which components it has. ``"auto"`` enumerates up to 14
        components.
    threads
        Number of threads; by default, the number of cores that this process may use. The result
        does not depend on it.

    Returns
    -------
    memberships
        ``(n_rows, n_components)``; a row without known entries gets the prior.

    Notes
    -----
    The posterior of a row's memberships z is proportional to the exponential of ``z @ odds`` plus
    the weights (eq. 4) of all known entries in columns that the components of z cover. With row
    and column effects the weights are those of the row's level (eq. 27), which is unknown: its
    prior is that of the draw, and it is summed out together with z, or drawn in the chain.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.data import BinaryTensor
    >>> from thali.model import Noise
    >>> codes = np.array([[True, False], [True, False], [False, True], [False, True]])
    >>> components = Components(codes, np.zeros(2), Noise(0.1, 0.1))
    >>> new = BinaryTensor.from_any([[1, 1, 0, 0], [1, 1, None, None]])
    >>> memberships(new, components).round(3)
    array([[0.988, 0.012],
           [0.988, 0.5  ]])
    """
    plan = _prepare(components, method)
    out = np.empty((_n_rows(rows, plan), plan.n_components))

    def fill(lo: int, hi: int) -> None:
        plan.infer(_block(rows, lo, hi), out[lo:hi], np.empty((hi - lo, 0)))

    _share(fill, len(out), plan, threads)
    return out


def predictive(
    rows: Rows, components: Components, *, method: str = "auto", threads: int | None = None
) -> NDArray[np.float64]:
    """Compute the probability that each entry of each row would read one if observed again.

    Unknown entries are predicted from the known entries of their row. Parameters are those of
    :func:`memberships`.

    Returns
    -------
    probabilities
        ``(n_rows, n_columns)``.

    Notes
    -----
    The probability that an entry is covered is turned into that of reading one by the noise
    (:meth:`thali.model.Noise.reads_one`); with row and column effects, given every level.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.data import BinaryTensor
    >>> from thali.model import Noise
    >>> codes = np.ones((4, 1), bool)
    >>> components = Components(codes, np.zeros(1), Noise(0.1, 0.2))
    >>> predictive(BinaryTensor.from_any([[1, 1, 1, None]]), components).round(3)
    array([[0.799, 0.799, 0.799, 0.799]])
    """
    plan = _prepare(components, method)
    out = np.empty((_n_rows(rows, plan), plan.n_columns))

    def fill(lo: int, hi: int) -> None:
        plan.infer(_block(rows, lo, hi), np.empty((hi - lo, plan.n_components)), out[lo:hi])

    _share(fill, len(out), plan, threads)
    return out


def log_scores(
    rows: Rows, components: Components, *, method: str = "auto", threads: int | None = None
) -> LogScores:
    """Score how well every known entry is predicted from other entries of its row.

    Column d belongs to part ``d % 5``. The entries of a part are predicted from the known
    entries of the other parts, never from themselves, so more components are not an advantage
    by themselves. Parameters are those of :func:`memberships`.

    Returns
    -------
    scores
        For every row the sum of the log probabilities, and the number of known entries.

    Examples
    --------
    >>> import numpy as np
    >>> from thali.data import BinaryTensor
    >>> from thali.model import Noise
    >>> components = Components(np.ones((4, 1), bool), np.zeros(1), Noise(0.1, 0.1))
    >>> total, n_known = log_scores(BinaryTensor.from_any([[1, 1, 1, None]]), components)
    >>> (total / n_known).round(3), n_known
    (array([-0.116]), array([3]))
    """
    plan = _prepare(components, method)
    n_rows = _n_rows(rows, plan)
    scores = LogScores(np.zeros(n_rows), np.zeros(n_rows, np.int64))
    parts = [pack(np.arange(plan.n_columns) % N_FOLDS == f) for f in range(N_FOLDS)]

    def fill(lo: int, hi: int) -> None:
        ones, known = _block(rows, lo, hi)
        if known is None:
            known = np.repeat(pack(np.ones((1, plan.n_columns), np.bool_)), hi - lo, axis=0)
        is_one, is_known = unpack(ones, plan.n_columns), unpack(known, plan.n_columns)
        scores.n_known[lo:hi] = is_known.sum(axis=1)
        reads = np.empty((hi - lo, plan.n_columns))
        for fold, part in enumerate(parts[: plan.n_columns]):
            given = Unfolding(ones & ~part, known & ~part)
            plan.infer(given, np.empty((hi - lo, plan.n_components)), reads)
            chance = reads[:, fold::N_FOLDS]
            hit = np.where(is_one[:, fold::N_FOLDS], chance, 1.0 - chance)
            logs = np.log(hit, where=is_known[:, fold::N_FOLDS], out=np.zeros_like(hit))
            scores.total[lo:hi] += logs.sum(axis=1)

    _share(fill, n_rows, plan, threads)
    return scores


def _prepare(components: Components, method: str) -> Plan | LevelPlan:
    is_plain = isinstance(components.noise, Noise)
    return (Plan if is_plain else LevelPlan).prepare(components, method)


# --- rows in blocks --------------------------------------------------------------------------


def _n_rows(rows: Rows, plan: Plan | LevelPlan) -> int:
    """Return the number of rows, and refuse rows that do not fit the components."""
    if isinstance(rows, Unfolding):
        if rows.ones.shape[1] == n_words(plan.n_columns):
            return len(rows.ones)
        given = f"packed rows of {rows.ones.shape[1]} words"
    else:
        if len(rows.shape) == 2 and rows.shape[1] == plan.n_columns:
            return rows.shape[0]
        given = f"a tensor of shape {rows.shape}"
    msg = (
        f"{given} was given for components of {plan.n_columns} columns; give a matrix with the "
        "columns that the components were learned from."
    )
    raise ValueError(msg)


def _block(rows: Rows, lo: int, hi: int) -> Unfolding:
    """Return some rows, packed; rows that are already packed are only selected."""
    if isinstance(rows, BinaryTensor):
        ones = _pack_rows(rows.ones, lo, hi)
        if rows.unknown is None:
            return Unfolding(ones, None)
        # Padding must not be taken for known entries.
        every = pack(np.ones(rows.shape[1], np.bool_))
        return Unfolding(ones, ~_pack_rows(rows.unknown, lo, hi) & every)
    ones, known = rows.unfoldings[0] if isinstance(rows, PackedTensor) else rows
    return Unfolding(ones[lo:hi], None if known is None else known[lo:hi])


def _pack_rows(bits: Entries, lo: int, hi: int) -> Words:
    if isinstance(bits, Packed):
        return bits.plain()[lo:hi]
    if not isinstance(bits, Pattern):
        return pack(dense_rows(bits, lo, hi))
    words = np.zeros((hi - lo, n_words(bits.shape[1])), np.uint64)
    set_bits(words, 0, bits.indptr[lo : hi + 1], bits.indices)
    return words


def _share(
    fill: Callable[[int, int], None], n_rows: int, plan: Plan | LevelPlan, threads: int | None
) -> None:
    """Process all rows on threads, each of which handles one block at a time."""
    step = max(1, _BLOCK_ENTRIES // max(1, plan.n_columns))

    def some_rows(lo: int, hi: int) -> None:
        for start in range(lo, hi, step):
            fill(start, min(start + step, hi))

    parallel_for(some_rows, n_rows, n_threads(threads))
