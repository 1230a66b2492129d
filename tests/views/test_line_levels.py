"""Levels of rows and columns, against plain loops."""

import numpy as np
import pytest

import thali
from support.made import SHAPE, data, made, with_effects
from thali.views import has_effects, levels


def test_levels_against_plain_loops():
    """Means and deviations over all draws, and shares of ones among the known entries."""
    posterior, table = with_effects(made()), data()
    found = levels(posterior)
    assert has_effects(posterior)
    assert not has_effects(made())
    for mode, (lines, name, grid) in enumerate(
        zip(found, ("rows", "columns"), ("row_levels", "column_levels"), strict=True)
    ):
        noises = [draw.state.noise for draw in posterior]
        drawn = np.array([np.array(getattr(n.prior, grid))[getattr(n, name)] for n in noises])
        np.testing.assert_allclose(lines.mean, drawn.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(lines.sd, drawn.std(axis=0))
        np.testing.assert_allclose(lines.high - lines.low, 2 * 1.6449 * lines.sd)
        assert len(lines.share) == SHAPE[mode]
        np.testing.assert_allclose(lines.share, np.nanmean(table, axis=1 - mode))


def test_rows_of_which_nothing_is_known():
    """They have a level, that of the prior, but no share of ones; without gaps all have both."""
    table = data()
    table[3] = np.nan
    shares = levels(with_effects(made(tensor=table)))[0].share
    assert np.flatnonzero(np.isnan(shares)).tolist() == [3]
    full = np.nan_to_num(data())
    shares = levels(with_effects(made(tensor=full)))[0].share
    np.testing.assert_allclose(shares, full.mean(axis=1))


def test_of_many_draws_some_are_used(monkeypatch):
    """Every second one, if all would be too many."""
    posterior = with_effects(made())
    monkeypatch.setattr("thali.views.line_levels._MOST", 60 * sum(SHAPE) // 2)
    grid = np.array(thali.model.Effects().row_levels)
    drawn = np.array([grid[draw.state.noise.rows] for draw in posterior])[::2]
    assert levels(posterior)[0].mean == pytest.approx(drawn.mean(axis=0))
