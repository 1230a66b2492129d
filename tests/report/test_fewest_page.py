"""The page about a factorization tells what is in it, and nothing that was not computed."""

import re

import numpy as np
import pandas as pd
import pytest

import thali


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(1)
    users, codes = rng.random((90, 3)) < 0.4, rng.random((20, 3)) < 0.3
    data = (users @ codes.T).astype(float)
    data[0, :5], data[1, 0] = np.nan, 1.0 - data[1, 0]
    frame = pd.DataFrame(data, [f"user {i}" for i in range(90)], [f"<{i}>" for i in range(20)])
    return thali.minimize(frame, 3, sweeps=20, seed=1, progress=False)


def test_what_is_on_the_page(found, tmp_path):
    """Errors, names of rows and columns, and the picture; no probability."""
    path = thali.report.write(found, tmp_path / "page.html", title="A <title>")
    text = path.read_text(encoding="utf-8")
    assert "<h1>A &lt;title&gt;</h1>" in text
    assert f"3 components, {found.errors} error" in text
    assert "5 unknown entries" in text
    assert text.count("<article") == 3
    assert "data:image/png;base64," in text
    assert f"seed {found.seed}" in text
    words = re.sub("<[^>]*>", " ", text)
    assert "probab" not in words
    assert "http" not in text.replace("http-equiv", "")
    sizes = np.asarray(found.factors[0]).sum(axis=0)
    for size in sizes:
        assert f"{size} rows</h4>" in text
    assert "&lt;7&gt;" in text
    assert "<7>" not in text


def test_long_lists_unfold(found, tmp_path):
    """Every name is on the page, those beyond the first ones folded."""
    wide = thali.minimize(np.ones((200, 3)), 1, sweeps=1, seed=1, progress=False)
    text = thali.report.write(wide, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "140 more rows" in text
    assert "199</p></details>" in text
    assert "proven to be the minimum" in text


def test_an_exact_cover(tmp_path):
    """The number of components is what was minimized, and its bound is told."""
    cover = thali.minimize(np.eye(4), exact=True, sweeps=5, seed=1, progress=False)
    text = thali.report.write(cover, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "4 components, 0 errors." in text
    assert "proven to be the minimum" in text
