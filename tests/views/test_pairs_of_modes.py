"""A tensor along every pair of its modes: means by plain NumPy, and pictures in the report."""

import re
import struct
import zlib
from base64 import b64decode
from itertools import combinations

import numpy as np
import pytest

import thali
from thali.report import write
from thali.views import pairs, seriate

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")
SHAPES = [(9, 8, 7), (5, 4, 6, 3)]


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def made(request):
    data = thali.simulate(request.param, 2, spurious=0.1, unknown=0.1, seed=1).tensor
    data[:, 0, 1] = np.nan  # a point of the picture of both modes has no known entry
    few = {"chains": 2, "warmup": 10, "draws": 4, "seed": 1, "progress": False}
    return data, thali.sample(data, **few)


def test_means(made):
    """Shares of ones among known entries, and of covered ones among all, grouped by component."""
    data, posterior = made
    found = pairs(posterior)
    arity = data.ndim
    assert [pair.modes for pair in found] == list(combinations(range(arity), 2))
    covered = np.mean(
        [
            np.einsum(
                *(part for mode, f in enumerate(factors) for part in (f.astype(int), [mode, 9])),
                list(range(arity)),
            )
            > 0
            for factors in (posterior.factors(c, d) for c in range(2) for d in range(4))
        ],
        axis=0,
    )
    orders = [seriate(posterior)[0], *(seriate(posterior, m)[1] for m in range(1, arity))]
    for pair in found:
        others = tuple(mode for mode in range(arity) if mode not in pair.modes)
        places = np.ix_(*(orders[mode] for mode in pair.modes))
        with np.errstate(invalid="ignore"):
            ones = np.nansum(data, axis=others) / (~np.isnan(data)).sum(axis=others)
        np.testing.assert_allclose(pair.data, ones[places], rtol=1e-12)
        np.testing.assert_allclose(
            pair.prediction, covered.mean(axis=others)[places], rtol=1e-12, atol=1e-12
        )


def test_blocks(made):
    """Fewer blocks than rows: means over blocks of the same picture."""
    data, posterior = made
    one = pairs(posterior, n_blocks=2)[-1]
    assert one.data.shape == (2, 2)
    n_ones = np.nansum(data)
    assert np.isclose(pairs(posterior, n_blocks=1)[-1].data, n_ones / (~np.isnan(data)).sum())


def opacity(uri):
    """Read the opacity of an image, as a decoder would."""
    png = b64decode(uri.removeprefix("data:image/png;base64,"))
    width, height = struct.unpack(">2I", png[16:24])
    at = png.index(b"IDAT")
    (n,) = struct.unpack(">I", png[at - 4 : at])
    lines = np.frombuffer(zlib.decompress(png[at + 4 : at + 4 + n]), np.uint8)
    return lines.reshape(height, 1 + 2 * width)[:, 2::2]


def test_report(made, tmp_path):
    """The page has two pictures for every pair of modes, whose ink are the shares."""
    _, posterior = made
    html = write(posterior, tmp_path / "page.html").read_text()
    images = re.findall(r'<img src="([^"]*)" alt="([^"]*)"', html)
    found = pairs(posterior)
    assert len(images) == 2 * len(found)
    assert 'href="#pairs"' in html
    for pair, (data, alt), (covered, _) in zip(found, images[::2], images[1::2], strict=True):
        assert alt.startswith("Share of ones: ")
        assert "averaged over" in alt
        ink = np.rint(255 * np.nan_to_num(pair.data))
        np.testing.assert_array_equal(opacity(data), ink)
        np.testing.assert_array_equal(opacity(covered), np.rint(255 * pair.prediction))


def test_a_matrix_has_no_pairs_to_show(tmp_path):
    """Its table shows the only pair there is."""
    data = thali.simulate((12, 9), 2, spurious=0.05, seed=1).tensor
    few = {"noise": "unequal", "chains": 2, "warmup": 10, "draws": 4, "seed": 1}
    html = write(thali.sample(data, **few, progress=False), tmp_path / "page.html").read_text()
    assert 'id="pairs"' not in html
    assert 'href="#pairs"' not in html
