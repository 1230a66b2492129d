"""A posterior whose draws are made up, not drawn: pictures of it depend on no random stream."""

from dataclasses import replace

import numpy as np

from thali.bits import Factor, PackedTensor
from thali.data import BinaryTensor
from thali.model import Levels, Model, Noise
from thali.model.levels import Hyper
from thali.posterior import Posterior
from thali.sampler import Schedule, State
from thali.trace import Draw, Settings
from thali.trace.draws import MemoryStore
from thali.trace.run import Names

SHAPE = (40, 30)


def factors():
    """Four components that overlap like a chain; a few rows and columns have none."""
    rows, columns = np.zeros((SHAPE[0], 4), bool), np.zeros((SHAPE[1], 4), bool)
    for k in range(4):
        rows[9 * k : 9 * k + 12, k] = True
        columns[6 * k : 6 * k + 9, k] = True
    return rows, columns


def data():
    """Their product, shuffled, with flipped and unknown entries."""
    rows, columns = (shuffled(f) for f in factors())
    product = (rows.astype(int) @ columns.T.astype(int)) > 0
    i, j = np.indices(SHAPE)
    tensor = np.where((5 * i + 7 * j) % 31 == 0, ~product, product).astype(float)
    tensor[(3 * i + 11 * j) % 17 == 0] = np.nan
    return tensor


def shuffled(factor):
    """Put rows into another order: 17 has no divisor in common with their numbers."""
    return factor[np.arange(len(factor)) * 17 % len(factor)]


def made(
    *,
    n_chains=2,
    n_draws=30,
    names=True,
    tensor=None,
    scale=1.0,
    drop=lambda chain, i: i % 5 == chain,
):
    """Return the posterior: memberships flicker, the last component comes and goes."""
    row_names = (
        tuple(
            tuple(f"{word} {i}" for i in range(n))
            for word, n in zip(("row", "column"), SHAPE, strict=True)
        )
        if names
        else (None, None)
    )
    labelled = BinaryTensor.from_any(data() if tensor is None else tensor)
    packed = PackedTensor.from_tensor(labelled)
    settings = Settings(SHAPE, Model(), Schedule(warmup=10), 1, n_chains, max(1, n_draws))
    chains = []
    for chain in range(n_chains):
        kept = MemoryStore(settings)
        kept.draws = [
            counted(draw(chain, i, drop(chain, i), scale), labelled) for i in range(n_draws)
        ]
        chains.append(kept)
    return Posterior(settings, packed, Names(labelled.mode_names, row_names), chains)


def draw(chain, i, is_dropped, scale):
    rows, columns = (shuffled(f).copy() for f in factors())
    if scale != 1.0:
        rows, columns = rows ^ rows[:, ::-1], columns[::-1]
    rows[(7 * i + chain) % SHAPE[0], i % 4] ^= True
    columns[(5 * i + chain) % SHAPE[1], (i + 1) % 4] ^= True
    order = np.roll(np.arange(4), i)  # labels mean nothing
    order = order[order != 3] if is_dropped else order
    packed = tuple(Factor.from_dense(f[:, order]) for f in (rows, columns))
    wave = 0.01 * np.sin(1.7 * scale * i + chain)
    density = np.asarray(0.3 + wave)
    state = State(
        packed,
        Noise(0.03 + wave, 0.08 - wave),
        2.0 + 20 * wave,
        (np.asarray(np.nan), density),
        (0, 0),
        10 + i,
    )
    return Draw(state, -500.0 + 900 * wave, -300.0 + 700 * wave)


def counted(made_up, labelled):
    """Return the draw with the numbers of ones and zeros that its components cover."""
    rows, columns = (factor.dense().astype(int) for factor in made_up.state.factors)
    ones, unknown = labelled.rows()
    is_one = ones.astype(bool)
    is_zero = ~is_one if unknown is None else ~is_one & ~unknown
    cover = rows @ columns.T > 0
    covered = int((cover & is_one).sum()), int((cover & is_zero).sum())
    return made_up._replace(state=made_up.state._replace(covered=covered))


def with_effects(posterior, scale=1.0):
    """Return the same posterior under a model with row and column effects, with made-up levels."""
    model = Model(noise="effects")
    grids = model.priors(2).noise.grids
    rows, columns = (np.arange(n) for n in SHAPE)
    for chain, kept in enumerate(posterior._chains):
        for i, old in enumerate(kept.draws):
            wave = np.sin(1.7 * i + chain)
            of_rows = 32 + np.rint(6 * scale * np.sin(rows) + wave).astype(int)
            of_columns = 12 + np.rint(4 * scale * np.cos(columns) + wave).astype(int)
            jumps = np.full(SHAPE[1], 25)
            hyper = Hyper(8, 12, 9, 25, 0, 110)
            assert of_rows.max() < len(grids.rows)
            levels = Levels(model.priors(2).noise, of_rows, of_columns, jumps, hyper)
            kept.draws[i] = old._replace(state=old.state._replace(noise=levels))
    posterior.settings = replace(posterior.settings, model=model)
    return posterior
