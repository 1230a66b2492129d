"""Levels of rows and columns, summarized over draws."""

from types import SimpleNamespace

import numpy as np
import pytest

from thali.model import Effects, Levels, Noise
from thali.model.levels import Hyper
from thali.posterior.levels import level_summary

PRIOR = Effects()


def draw_of(noise):
    return SimpleNamespace(state=SimpleNamespace(noise=noise))


def draws(n_draws=7, n_rows=4, n_columns=3, seed=0):
    rng = np.random.default_rng(seed)
    sizes = (
        (n_rows, PRIOR.row_levels),
        (n_columns, PRIOR.column_levels),
        (n_columns, PRIOR.jump_sizes),
    )
    for _ in range(n_draws):
        parts = (rng.integers(len(grid), size=n).astype(np.uint8) for n, grid in sizes)
        yield draw_of(Levels(PRIOR, *parts, Hyper(0, 0, 0, 0, 0, 0)))


def test_moments_are_those_of_the_draws():
    """Means and standard deviations, compared with NumPy's."""
    noises = [draw.state.noise for draw in draws()]
    expected = []
    for grid, name in (
        (PRIOR.row_levels, "rows"), (PRIOR.column_levels, "columns"), (PRIOR.jump_sizes, "jumps")
    ):  # fmt: skip
        values = np.array(grid)[np.array([getattr(noise, name) for noise in noises])]
        if name == "columns":
            values = values + PRIOR.offsets[0]
        expected += [values.mean(axis=0), values.std(axis=0)]
    for given, wanted in zip(level_summary(draws())[:6], expected, strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-12, atol=1e-12)


def test_a_level_that_never_changes_has_no_deviation():
    flat = PRIOR.flat((4, 3), 0.1, 0.2)
    summary = level_summary(draw_of(flat) for _ in range(9))
    assert not np.any([summary.rows_sd.any(), summary.columns_sd.any(), summary.jumps_sd.any()])
    assert np.all(summary.rows_mean == 0.0)


def test_draws_without_levels_and_no_draws_are_refused():
    with pytest.raises(ValueError, match="sample with noise='effects'"):
        level_summary([draw_of(Noise(0.1, 0.1))])
    with pytest.raises(ValueError, match="no draws were given"):
        level_summary([])
