"""Simulation-based calibration: where the truth ranks among draws of its posterior.

Parameters drawn from the prior, data drawn given them, and draws of the posterior given the data:
parameters and draws then have the same law, so the rank of the true value among the draws is
uniform, for any function of parameters and data (Talts et al. 2018, Modrák et al. 2023). This
tests what a user calls, `thali.sample` from its own start with its own warm-up, on problems too
large to enumerate.
"""

import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from scipy import stats

import thali
from support import mutants
from thali.errors import NotConverged
from thali.model import Beta, Gamma, UnequalRates
from thali.model.simulate import boolean_product
from thali.sampler import Schedule
from thali.sampler.schedule import MOVES
from thali.sites import Site
from thali.streams import Stream, simulation_key
from thali.threads import available_cores

SHAPE, OF_TENSOR = (12, 10), (7, 6, 5)
UNKNOWN = 0.1
ALPHA, DENSITY = Gamma(2.0, 1.5), Beta(2.0, 3.0)
NOISE = UnequalRates((2.0, 14.0), (3.0, 9.0))
SCHEDULES = {
    "parallel": Schedule("parallel", blocks=4),  # three rows at a time
    "serial": Schedule("serial"),
    "plain": Schedule("serial", **dict.fromkeys(MOVES, 0)),  # fast, mixes slowly
    "tensor": Schedule(blocks=3, split_merge=1, residual=1, seeded=1),
}
N_SETS = 300
WARMUP = 60
THIN = 12
DRAWS = 39
"""Sweeps before draws and between them, and how many draws.

By the parallel and the serial schedule, over twelve data sets of 2,500 sweeps each, the integrated
autocorrelation time of the number of components was 3 to 17 sweeps with a median of 9, that of the
density 3 to 18 with a median of 6, all others less. Draws 12 sweeps apart have a correlation of
0.08 on average in the number of components, which multiplies the variance of an average by 1.17.
It adds 0.17 / (6 * 39) to the variance 1/12 + 1/(6 * 39) of a rank as a share of draws: one
hundredth, where 300 ranks tell one twentieth. The warm-up goes on for 40 sweeps after the rates
were held."""

QUANTITIES = (
    "spurious",
    "dropped",
    "alpha",
    "density",
    "n_components",
    "covered",
    "log_likelihood",
)
LEVEL = 1e-4
"""Probability that a right sampler is found wrong in any quantity by any schedule."""

CUTS = np.arange(1, 20) * (DRAWS + 1) // 20
N_CURVES = len(QUANTITIES) * len(SCHEDULES)


def limits(n_sets, level=LEVEL):
    """Return the least and the largest acceptable number of ranks below every cut.

    If ranks are uniform on 0 … DRAWS, the number below a cut c among independent data sets is
    binomial with probability c / (DRAWS + 1), exactly. The tails beyond the limits have
    probability level / (2 * cuts * curves) each, so all curves stay inside at all cuts with
    probability at least 1 - level (Bonferroni), however quantities depend on each other.
    """
    law = stats.binom(n_sets, CUTS / (DRAWS + 1))
    tail = level / (2 * CUTS.size * N_CURVES)
    return law.ppf(tail).astype(int), law.isf(tail).astype(int)


def below_cuts(ranks):
    """Return how many ranks of every quantity are below every cut, ``(cuts, quantities)``."""
    return (ranks[:, None, :] < CUTS[:, None]).sum(axis=0)


def uncalibrated(ranks, level=LEVEL):
    """Return by quantity how far it leaves the limits, as a share; empty if none does."""
    low, high = (limit[:, None] for limit in limits(len(ranks), level))
    below = below_cuts(ranks)
    beyond = np.maximum(low - below, below - high).max(axis=0) / len(ranks)
    return {name: float(b) for name, b in zip(QUANTITIES, beyond, strict=True) if b > 0}


def rank_among(value, draws, uniform):
    """Return the rank of a value among draws, a random one of those possible if there are ties."""
    return int(np.sum(draws < value) + np.floor(uniform * (1 + np.sum(draws == value))))


def draw_truth(seed, arity):
    """Draw concentration, density of every other mode and error rates from their priors."""
    stream = Stream(simulation_key(seed), np.uint64(1))  # simulate() reads sweep 0
    laws = stats.beta(*NOISE.spurious), stats.beta(*NOISE.dropped)
    for both in stream.uniforms(Site.NOISE, 2000).reshape(-1, 2):
        rates = [float(law.ppf(u)) for law, u in zip(laws, both, strict=True)]
        if sum(rates) < 1:
            break
    alpha = stats.gamma.ppf(stream.uniforms(Site.ALPHA, 1)[0], ALPHA.shape, scale=1 / ALPHA.rate)
    densities = stats.beta.ppf(stream.uniforms(Site.DENSITY, arity - 1), DENSITY.a, DENSITY.b)
    return float(alpha), densities.tolist(), *rates


def log_likelihood(tensor, cover, spurious, dropped):
    """Return the log probability of the known entries."""
    p = np.where(cover, 1 - dropped, spurious)
    return np.nansum(np.where(np.isnan(tensor), np.nan, np.log(np.where(tensor == 1, p, 1 - p))))


def n_covered(factors):
    """Count the ones of the noise-free matrix or tensor."""
    return int(boolean_product(factors).sum())


def ranks_of(seed, kind, thin=THIN):
    """Simulate one data set, sample its posterior, and rank the truth: one rank a quantity."""
    shape = OF_TENSOR if kind == "tensor" else SHAPE
    alpha, densities, spurious, dropped = draw_truth(seed, len(shape))
    data = thali.simulate(
        shape,
        alpha=alpha,
        density=[0.5, *densities],  # the first mode has none, and does not read it
        spurious=spurious,
        dropped=dropped,
        unknown=UNKNOWN,
        seed=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # one short chain: that is the point
        posterior = thali.sample(
            data.tensor,
            alpha=ALPHA,
            density=DENSITY,
            noise=NOISE,
            schedule=SCHEDULES[kind],
            chains=1,
            warmup=WARMUP,
            draws=DRAWS,
            thin=thin,
            seed=seed,
            threads=1,
            progress=False,
        )
    drawn = {
        "spurious": posterior.spurious,
        "dropped": posterior.dropped,
        "alpha": posterior.alpha,
        "density": posterior.densities[1],
        "n_components": posterior.n_components,
        "covered": np.array([[n_covered(posterior.factors(0, i)) for i in range(DRAWS)]]),
        "log_likelihood": posterior.log_likelihood,
    }
    true = {
        "spurious": spurious,
        "dropped": dropped,
        "alpha": alpha,
        "density": densities[0],
        "n_components": data.factors[0].shape[1],
        "covered": n_covered(data.factors),
        "log_likelihood": log_likelihood(data.tensor, data.noise_free, spurious, dropped),
    }
    ties = Stream(simulation_key(seed), np.uint64(1)).uniforms(Site.ORDER, len(QUANTITIES))
    return [
        rank_among(true[name], drawn[name][0], tie)
        for name, tie in zip(QUANTITIES, ties, strict=True)
    ]


def all_ranks(kind, n_sets, mistake=None, thin=THIN):
    """Return the ranks of many data sets, ``(n_sets, quantities)``, computed on all cores.

    A mistake, one of `MISTAKES` by name, is made in the processes of this call only.
    """
    job = partial(ranks_of, kind=kind, thin=thin)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(available_cores(), context, _prepare, (mistake,)) as pool:
        return np.array(list(pool.map(job, range(n_sets), chunksize=2)))


def _prepare(mistake):
    if mistake is not None:
        MISTAKES[mistake](setattr)


def one_zero_too_many(patch):
    """The density drawn as if every component had one entry more than there are columns."""
    edits = [("float(n_rows * len(sizes)) - n_ones", "float((n_rows + 1) * len(sizes)) - n_ones")]
    draw = mutants.mutate("thali.model.priors", edits).Beta.draw
    patch(mutants.module("thali.model.priors").Beta, "draw", draw)
    mutants.step_by_step(patch)


MISTAKES = {
    "swapped counts": mutants.swapped_counts,
    "one zero too many": one_zero_too_many,
    "dropped in a block": mutants.dropped_in_a_block_of_tensors,
}
