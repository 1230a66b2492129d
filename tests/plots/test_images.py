"""Pictures look as they did: drawn from made-up draws, without text, which depends on fonts.

`./dev test tests/plots/test_images.py --update-golden -n 0` draws them anew; look at them then.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.testing.compare import compare_images
from matplotlib.text import Text

import thali
from support.made import SHAPE, data, made, with_effects

mpl.use("agg")

BASELINE = Path(__file__).parent / "baseline"

TOLERANCE = 12.0
"""Root mean square difference, of 255 levels. Versions place the edges of cells up to a pixel
apart: Matplotlib 3.9.0 differs from 3.11.2, which drew the baselines, by up to 9 at this
resolution. Every control below differs by more than twice the tolerance."""

CONTROL = 2 * TOLERANCE

FINE, COARSE = 200, 60
"""Dots per inch: fine for cells, which compress well; coarse for lines, which do not."""

LABELS = ["lower" if i < 15 else "upper" for i in range(SHAPE[0])]


def axes(dpi):
    return Figure(figsize=(4, 3), dpi=dpi).subplots()


PICTURES = {
    "membership": lambda p: thali.pl.membership(p, ax=axes(FINE)).figure,
    "membership_labels": lambda p: thali.pl.membership(p, labels=LABELS, ax=axes(FINE)).figure,
    "components": lambda p: thali.pl.components(p, ax=axes(FINE)).figure,
    "reconstruction": lambda p: thali.pl.reconstruction(p, figure=Figure((8, 5), FINE))[0].figure,
    "n_components": lambda p: thali.pl.n_components(p, ax=axes(COARSE)).figure,
    "traces": lambda p: thali.pl.traces(p, figure=Figure((4.5, 3), COARSE))[0].figure,
    "overlap": lambda p: thali.pl.overlap(p, ax=axes(FINE)).figure,
    "effects": lambda p: thali.pl.effects(p, figure=Figure((3, 2), COARSE))[0, 0].figure,
}


def pictured(name):
    """Return the posterior that is pictured; one has levels of rows and columns."""
    return with_effects(made()) if name == "effects" else made()


def others(name):
    """Return a posterior that differs from the pictured one in everything that is drawn."""
    other = made(tensor=data()[::-1], drop=lambda chain, i: i % 3 > chain, scale=3.0)
    return with_effects(other, scale=-2.0) if name == "effects" else other


def save(picture, path):
    with mpl.rc_context(mpl.rcParamsDefault | {"backend": "agg"}):
        drawn = picture()
        drawn.draw_without_rendering()  # ticks make their labels only now
        for text in drawn.findobj(Text):
            text.set_visible(False)
        for legend in drawn.findobj(Legend):  # where it is depends on the text in it
            legend.set_visible(False)
        drawn.savefig(path, metadata={"Software": None})


@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_the_one_kept(name, tmp_path, request):
    """Colours, order, bars, lines and marks."""
    kept, found = BASELINE / f"{name}.png", tmp_path / f"{name}.png"
    if request.config.getoption("--update-golden"):
        found = kept
    save(lambda: PICTURES[name](pictured(name)), found)
    assert compare_images(str(kept), str(found), TOLERANCE) is None


@pytest.mark.parametrize("name", PICTURES)
def test_another_picture_is_told_from_it(name, tmp_path):
    """The comparison above is worth something: other draws give a picture that it refuses."""
    found = tmp_path / f"{name}.png"
    save(lambda: PICTURES[name](others(name)), found)
    result = compare_images(
        str(BASELINE / f"{name}.png"), str(found), TOLERANCE, in_decorator=True
    )
    assert result is not None
    assert result["rms"] > CONTROL


def test_pictures_are_small():
    """All of them belong to a picture, and none is large."""
    assert {path.stem for path in BASELINE.glob("*.png")} == set(PICTURES)
    assert max(path.stat().st_size for path in BASELINE.glob("*.png")) <= 30_000


def test_made_draws_are_not_trivial():
    """The pictures show uncertainty: some probabilities are neither 0 nor 1."""
    p = thali.views.components(made()).probabilities[0]
    assert ((p > 0.05) & (p < 0.95)).any()
    assert np.isnan(data()).any()
