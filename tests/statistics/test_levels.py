"""Row and column effects are exact: against enumeration, and by Geweke's test."""

import dataclasses

import numpy as np
import pytest

from support import compare, exact
from support.chains import NO_MOVES, X33, as_exact, collect, hide, walk
from support.joint import buffet
from support.mutants import module, mutate, put_into_blocks
from thali.bits import Factor, PackedTensor
from thali.data import BinaryTensor
from thali.model import Beta, Effects, Gamma, Levels, Model, PerComponent
from thali.model.levels import Hyper
from thali.sampler import Schedule, State, Target, step
from thali.sampler.level_counts import count_lines
from thali.sampler.moves.at_once import Patience
from thali.streams import chain_key

SMALL = Effects(
    jumps=True,
    row_levels=(-1.5, 0.0, 1.5),  # steps as long as those of columns, so that both can shift
    column_levels=(-2.0, -0.5, 1.0),
    jump_sizes=(1.0, 1.6, 2.5, 3.4),
    jump_stride=2,
    offsets=tuple(np.linspace(-0.6, 0.5, 12)),  # two of them between coarse ones
    spreads=(0.0, 0.5, 0.9, 1.6),  # jumps do not have 0.5: their steps are 1.5
)
FIXED = Model(noise=SMALL, alpha=1.0, density=0.35)
HIDDEN = ((0, 2),)
QUICK = 4_000


def problem(model, **settings):
    tensor, known = hide(X33, *HIDDEN)
    expected = exact.posterior_ibp(X33, known, as_exact(model), max_components=24)
    return walk(tensor, model, **settings), expected


MOVES = {
    "split_merge": 3, "anchored": 3, "guided": 3, "compound": 3, "reseat": 3, "residual": 3,
    "toggle": 3, "seeded": 3, "trade": 3,
}  # fmt: skip
LEARNED = Model(noise=SMALL, alpha=Gamma(2.0, 1.5), density=Beta(2.0, 3.0))
OWN = Model(
    noise=SMALL, alpha=Gamma(2.0, 1.5), density=PerComponent(1.0, 2.0, n_values=3, tied=None)
)
CASES = {
    "parallel": (FIXED, {}),
    "serial": (FIXED, {"kind": "serial"}),
    "serial-integrated": (FIXED, {"kind": "serial-integrated"}),
    "own densities": (OWN, {}),
    "all moves": (LEARNED, MOVES),
    **{name: (FIXED, {name: 4}) for name in MOVES},
}


@pytest.mark.slow  # Geweke's test with all moves is quicker
@pytest.mark.parametrize("name", CASES)
def test_effects_are_exact(name):
    """Number of components and prediction follow the exact posterior."""
    model, settings = CASES[name]
    walked, expected = problem(model, **settings)
    compare.assert_matches(*collect(walked, 3 * QUICK), expected)


LEVELS = "thali.sampler.levels"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Draw levels in two calls, as long chains do."""
    monkeypatch.setattr(module(LEVELS), "PATIENCE", Patience(0))


# --- Geweke ----------------------------------------------------------------------------------

N_ROWS, N_COLUMNS = 4, 5
KNOWN = np.ones((N_ROWS, N_COLUMNS), bool)
KNOWN[1, 2] = KNOWN[3, 0] = False
ALPHA, DENSITY = Gamma(4.0, 3.0), Beta(3.0, 6.0)
MODEL = Model(noise=SMALL, alpha=ALPHA, density=DENSITY)


def draw_prior(rng):
    """Draw everything from its definition."""
    alpha = rng.gamma(ALPHA.shape, 1 / ALPHA.rate)
    z = buffet(rng, alpha, N_ROWS)
    density = rng.beta(DENSITY.a, DENSITY.b)
    u = rng.random((N_COLUMNS, z.shape[1])) < density
    sa, sb = rng.integers(len(SMALL.spreads), size=2).tolist()
    sc = int(rng.choice(exact.jump_spreads(SMALL)))
    m, c, o = (
        int(rng.integers(len(grid)))
        for grid in (SMALL.column_levels, SMALL.jump_sizes, SMALL.offsets)
    )

    def levels(grid, mean, spread, n):
        law = exact.level_law(grid, mean, SMALL.spreads[spread])
        return rng.choice(len(grid), size=n, p=law)

    of_jumps = exact.jump_law(SMALL, c, SMALL.spreads[sc])
    noise = Levels(
        SMALL,
        levels(SMALL.row_levels, 0.0, sa, N_ROWS),
        levels(SMALL.column_levels, SMALL.column_levels[m], sb, N_COLUMNS),
        rng.choice(len(of_jumps), size=N_COLUMNS, p=of_jumps),
        Hyper(sa, m, sb, c, sc, o),
    )
    return z, u, alpha, density, noise


def draw_data(rng, z, u, noise):
    covered = (z.astype(int) @ u.T.astype(int)) > 0
    a, b, c = (
        np.array(grid)[levels]
        for grid, levels in (
            (SMALL.row_levels, noise.rows),
            (SMALL.column_levels, noise.columns),
            (SMALL.jump_sizes, noise.jumps),
        )
    )
    odds = a[:, None] + b + c * covered + SMALL.offsets[noise.hyper.offset]
    return rng.random(covered.shape) < 1 / (1 + np.exp(-odds)), covered


def summarize(z, u, x, covered, alpha, density, noise):
    sizes = z.sum(axis=0)
    x = x & KNOWN
    return (
        len(sizes), len(sizes) ** 2, z.sum(), u.sum(), (sizes == 1).sum(), covered.sum(), x.sum(),
        (x & covered).sum(), x.sum(axis=1) @ noise.rows, x.sum(axis=0) @ noise.columns,
        (x & covered).sum(axis=0) @ noise.jumps, alpha, density, noise.rows.sum(),
        noise.rows.var(), noise.columns.sum(), noise.columns.var(), noise.jumps.sum(),
        noise.jumps.var(), *noise.hyper.flat(), *(noise.hyper[i] == 0 for i in (0, 2, 4)),
    )  # fmt: skip


def prior_samples(n):
    rng = np.random.default_rng(7)
    out = []
    for _ in range(n):
        z, u, alpha, density, noise = draw_prior(rng)
        x, covered = draw_data(rng, z, u, noise)
        out.append(summarize(z, u, x, covered, alpha, density, noise))
    return np.array(out, float)


def chain_samples(n, kind, seed=3, **moves):
    """Alternate a sweep of the sampler and new data given its state."""
    rng, key = np.random.default_rng(seed), chain_key(seed)
    z, u, alpha, density, noise = draw_prior(rng)
    x, _ = draw_data(rng, z, u, noise)
    schedule = Schedule(kind, blocks=2, hold=0, **NO_MOVES | moves)
    target = Target.prepare(np.where(KNOWN, x.astype(float), np.nan), MODEL, schedule, threads=1)
    factors = (Factor.from_dense(z), Factor.from_dense(u))
    state = State(factors, noise, alpha, (np.array(0.0), np.array(density)), (0, 0), 0)
    out = []
    for _ in range(n):
        state, _ = step(key, state, target)
        z, u = (f.dense() for f in state.factors)
        x, covered = draw_data(rng, z, u, state.noise)
        out.append(
            summarize(z, u, x, covered, state.alpha, float(state.densities[1]), state.noise)
        )
        tensor = PackedTensor.from_tensor(
            BinaryTensor(x & KNOWN, ~KNOWN, ("row", "column"), (None, None))
        )
        target = target._replace(engine=target.engine.load(tensor))
    return np.array(out, float)


def largest(one, other):
    """The largest z-score of the differences of means, by batch means of the chain."""
    batches = other.reshape(50, -1, other.shape[1]).mean(axis=1)
    error = np.sqrt(one.var(axis=0) / len(one) + batches.var(axis=0, ddof=1) / 50)
    z = np.abs(one.mean(axis=0) - other.mean(axis=0)) / np.maximum(error, 1e-12)
    return z.max(), compare.bound(one.shape[1])


@pytest.mark.parametrize(
    ("kind", "n"),
    [
        ("parallel", QUICK // 2),
        pytest.param("parallel", QUICK, marks=pytest.mark.slow),
        pytest.param("serial", QUICK, marks=pytest.mark.slow),
    ],
)
def test_geweke_with_effects(kind, n):
    """Prior moments of everything survive alternating data and parameters."""
    moves = MOVES if kind == "parallel" else {}
    found, limit = largest(prior_samples(n), chain_samples(n, kind, **moves))
    assert found < limit


# --- mistakes --------------------------------------------------------------------------------


@pytest.mark.slow  # mistakes about levels are rejected quickly below
def test_one_weight_for_all_columns_is_rejected(monkeypatch):
    """The comparison with enumeration fails if columns share their gains."""
    edits = [
        (
            f"weights[of_segments[starts[r]], n_integrated, {x}]",
            f"weights[weights.shape[0] - 1, n_integrated, {x}]",
        )
        for x in (0, 1)
    ]
    mutant = mutate("thali.engines.cpu.by_class", edits)
    monkeypatch.setattr(module("thali.engines.cpu.draw_rows"), "by_class", mutant)
    put_into_blocks(monkeypatch.setattr, by_class=mutant)
    compare.assert_rejected(*problem(FIXED), 2 * QUICK)


MISTAKES = {
    "half of the ones": (
        "thali.sampler.level_draws",
        "counts[2][0, i] + counts[2][1, i]",
        "(counts[2][0, i] + counts[2][1, i]) // 2",
    ),
    "a common jump that costs nothing": (
        "thali.sampler.level_draws",
        "log_sums[0] = of_common[mean]",
        "log_sums[0] = of_common[mean] + 1.0",
    ),
    "a mean that is too low": (
        "thali.sampler.level_draws",
        "return lo + pick(_sum_out(given, of_means, prior), u)",
        "return lo + pick(_sum_out(given, of_means, prior), 0.7 * u)",
    ),
    "a prior that is not normalised": (
        "thali.sampler.level_tables",
        "np.exp(log_prior.T, out=prior[:n_levels])",
        "np.exp(log_prior.T - log_prior.max(axis=1), out=prior[:n_levels])",
    ),
}


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param("half of the ones", marks=pytest.mark.slow),
        pytest.param("a common jump that costs nothing", marks=pytest.mark.slow),
        pytest.param("a mean that is too low", marks=pytest.mark.slow),
        "a prior that is not normalised",
    ],
)
def test_mistakes_about_levels_are_rejected(mistake, monkeypatch):
    """The same comparison with the prior fails."""
    name, *edit = MISTAKES[mistake]
    mutant, matrices = mutate(name, [tuple(edit)]), module("thali.sampler.matrix_levels")
    for function in ("draw_mode", "tables_of"):
        monkeypatch.setattr(
            matrices, function, getattr(mutant, function, getattr(matrices, function))
        )
    found, limit = largest(prior_samples(QUICK // 2), chain_samples(QUICK // 2, "parallel"))
    assert found > limit


def shift_probabilities(shifted, noise):
    """How often each shift of columns and offset is drawn, over evenly spaced uniform numbers."""
    moved = []
    for u in (np.arange(2000) + 0.5) / 2000:
        after = shifted(noise, 0, u)
        up = int(after.columns[0] - noise.columns[0])
        aside = after.hyper.offset - noise.hyper.offset
        moved.append((up, aside))
        assert np.all(after.columns - noise.columns == up)
        np.testing.assert_allclose(after.log_odds, noise.log_odds)
        again = Levels(after.prior, after.rows, after.columns, after.jumps, after.hyper)
        for name in ("row_classes", "column_classes"):
            for one, other in zip(getattr(after, name), getattr(again, name), strict=True):
                np.testing.assert_array_equal(one, other)
    return {shift: moved.count(shift) / 2000 for shift in sorted(set(moved))}


def test_rows_and_columns_shift_by_their_priors():
    """The shift is drawn from its conditional, which is the ratio of joint priors."""
    prior = Effects(
        row_levels=tuple(np.arange(-4, 5) / 2.0),
        column_levels=(-2.0, -1.0, 0.0, 1.0),
        offsets=(-0.25, 0.0, 0.25, 0.5),
    )
    rows, columns = np.array([4, 5, 6]), np.array([1, 2, 2, 1])
    hyper = Hyper(9, 1, 9, 0, 0, 1)
    noise = Levels(prior, rows, columns, np.zeros(4, int), hyper)
    expected = {}
    for up in (-1, 0, 1):
        for aside in (0, 2):  # two steps of the offset are one of rows
            down, with_mean = 2 * up + aside // 2, hyper._replace(column_mean=1 + up)
            after = noise.with_both(
                0, rows - down, columns + up, with_mean._replace(offset=1 + aside)
            )
            expected[up, aside] = np.exp(prior.log_prior(after))
    total = sum(expected.values())
    levels = module(LEVELS)
    right = shift_probabilities(levels._shifted, noise)
    edits = [("lowest, highest, of_rows, -down)", "lowest, highest, of_rows, 0 * down)")]
    mutant = mutate("thali.sampler.level_shifts", edits)
    wrong = mutate(LEVELS, [], draw_shift=mutant.draw_shift)
    assert right == pytest.approx({k: v / total for k, v in expected.items()}, abs=1e-3)
    assert shift_probabilities(wrong._shifted, noise) != pytest.approx(right, abs=1e-2)


def test_bad_grids_are_refused():
    """One sentence says what was given and what is allowed."""
    for wrong, message in (
        ({"row_levels": (1.0, 2.0)}, "row_levels from 1 on .* with zero"),
        ({"jump_sizes": (-1.0, 2.0)}, "jump_sizes from -1 on .* positive"),
        ({"spreads": (0.5, 1.0)}, "spreads from 0.5 on"),
        ({"rows": "no"}, "rows='no' was given; allowed are True and False"),
        ({"jump_stride": 0}, "jump_stride=0 was given; allowed are integers from 1 on"),
        ({"offsets": (0.2, 0.1)}, "offsets=.0.2, 0.1. was given; allowed are 1 to 255"),
    ):
        with pytest.raises(ValueError, match=message):
            Effects(**wrong)


def weights_by_definition(noise, covered, data, which):
    """The log likelihood of every offset, common level or common jump, entry by entry."""
    grids = noise.prior.grids
    offset, columns, jumps = noise.offset, grids.columns[noise.columns], grids.jumps[noise.jumps]
    grid = {"offset": grids.offsets, "level": grids.columns, "jump": grids.jumps}[which]
    found = []
    for value in grid:
        offset, columns, jumps = (
            value if name == which else now
            for name, now in (("offset", offset), ("level", columns), ("jump", jumps))
        )
        odds = grids.rows[noise.rows][:, None] + columns + offset + jumps * covered
        found.append(np.nansum(data * odds - np.logaddexp(0.0, odds) * ~np.isnan(data)))
    return np.array(found)


UNEVEN = dataclasses.replace(SMALL, row_levels=(-np.pi / 2, 0.0, 1.5))  # has no lattice


@pytest.mark.parametrize("prior", [SMALL, UNEVEN], ids=["lattice", "no lattice"])
@pytest.mark.parametrize("which", ["offset", "level", "jump"])
def test_what_all_columns_share_is_weighed_by_the_likelihood(which, prior):
    """Offset, one level and one jump, from counts by class; a mistake in the counts is noticed."""
    assert (len(prior.grids.lattice.softplus) > 0) == (prior is SMALL)
    rng = np.random.default_rng(5)
    z, u = rng.random((30, 2)) < 0.5, rng.random((20, 2)) < 0.5
    data = (rng.random((30, 20)) < 0.4).astype(float)
    data[rng.random(data.shape) < 0.1] = np.nan
    rows, columns, jumps = rng.integers(3, size=30), rng.integers(3, size=20), np.ones(20, int)
    noise = Levels(prior, rows, columns, jumps, Hyper(1, 1, 1, 1, 0, 3))
    target = Target.prepare(data, MODEL, Schedule(), threads=1)
    state = State(
        (Factor.from_dense(z), Factor.from_dense(u)), noise, 1.0, (np.array(0.0), np.array(0.3)),
        (0, 0), 0,
    )  # fmt: skip
    counts = count_lines(state, target, 1, noise.row_classes[1])
    expected = weights_by_definition(noise, (z.astype(int) @ u.T) > 0, data, which)
    name = {"offset": "_weigh_offsets", "level": "_weigh_level", "jump": "_weigh_jump"}[which]
    more = (noise.prior.grids.offsets,) if which == "offset" else ()

    def differences(counts):
        return np.diff(getattr(module(LEVELS), name)(noise, counts, *more))

    right = differences(counts)
    np.testing.assert_allclose(right, np.diff(expected), rtol=1e-9, atol=1e-9)
    swapped = counts._replace(uncovered=counts.known - counts.uncovered)
    assert np.abs(differences(swapped) - right).max() > 1.0
