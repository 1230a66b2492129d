"""Data whose rows and columns are of several classes, with factors, for tests of engines."""

import numpy as np

from thali.bits import Factor, PackedTensor
from thali.data import BinaryTensor
from thali.decide import fixed
from thali.engines import RowUpdate
from thali.model import Weights
from thali.model.births import birth_tables
from thali.streams import Stream, chain_key


class Case:
    """Data, factors, and weights by class, all at random.

    ``is_even`` is for weights as effects have them: in a column, a one gains as much more than a
    zero in all rows, and nothing is integrated out.
    """

    def __init__(
        self, shape, n_components=4, seed=1, density=0.4, n_classes=(3, 5), share=0.8,
        is_even=False,
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        self.shape, self.n_components = shape, n_components
        self.values, self.known = rng.random(shape) < 0.5, rng.random(shape) < share
        self.known[0, 0] = True
        self.factors = [Factor.from_dense(rng.random((n, n_components)) < density) for n in shape]
        classes = [rng.integers(0, k, n) for n, k in zip(shape, n_classes, strict=True)]
        for own, k in zip(classes, n_classes, strict=True):  # classes are numbered without gaps
            own[: min(k, len(own))] = np.arange(min(k, len(own)))
        sizes = [own.max() + 1 for own in classes]
        plain = np.array([0.3, -0.3]) * rng.uniform(0.2, 2.0, (*sizes, 1, 1))
        table = plain * np.array([1.0, 0.6, 0.3])[:, None]  # less, the more are integrated out
        self.singles = rng.integers(0, 3, shape[0])
        if is_even:
            table = table[:, :, :1].copy()
            table[..., 0] = table[..., 1] + 0.25 * rng.integers(1, 4, (sizes[1], 1))
            self.singles[:] = 0
        self.weights = Weights(table, *classes)
        self.prior = fixed(np.linspace(-1.0, 1.0, n_components))

    def loaded(self, engine):
        data = self.values if self.known.all() else np.where(self.known, self.values, np.nan)
        return engine.load(PackedTensor.from_tensor(BinaryTensor.from_any(data)))

    def order(self, mode, rows=None):
        return RowUpdate(
            mode=mode,
            rows=rows,
            codes=self.factors[1 - mode],
            is_held=np.arange(self.n_components) == 1,
            weights=self.weights.fixed(),
            singles=None if mode else self.singles if rows is None else self.singles[rows],
            prior=self.prior,
            stream=Stream(chain_key(3), np.uint64(5)),
            site=1 + 64 * mode,
        )

    def update(self, engine, mode, rows=None):
        factor, gained = self.loaded(engine).update(self.order(mode, rows), self.factors[mode])
        return factor.words.tolist(), gained


class Rates:
    """Noise with given weights, for the tables of births."""

    def __init__(self, weights):
        self._weights = weights._replace(table=weights.table[:, :, :1])

    def weights(self):
        return self._weights


def births(case, engine, share=0.8):
    """Memberships and new single-row components of some rows, and what they cover."""
    rows = np.flatnonzero(np.random.default_rng(1).random(case.shape[0]) < share)
    tables = birth_tables(3.0, 0.3, Rates(case.weights), case.shape[1], case.n_components)
    singles = np.minimum(case.singles, len(tables.prior) - 1)[rows]
    job = case.order(0, rows)._replace(weights=tables.weights, singles=singles)
    users, born = case.loaded(engine).update_with_births(job, case.factors[0], tables)
    return users.words.tolist(), [w.tolist() for w in born.lines], born.covered
