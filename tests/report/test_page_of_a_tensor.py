"""The page of a tensor in a real browser: drawn, found and offered as files."""

import pytest

import thali
from support.pages import centre, download, framed, has, marked_cards
from thali.cli.views import _write_tables
from thali.report import write
from thali.report.facts import BY

pytestmark = pytest.mark.browser


def test_tensor_is_drawn_found_and_offered(build, tmp_path, visit):
    """A column combines rows of the other modes, so that one of these is in several columns."""
    data = thali.simulate((7, 5, 9), 3, spurious=0.05, seed=2)
    posterior = build(data.tensor, data.factors)
    page = visit(write(posterior, tmp_path / "tensor.html"), "#column-3")
    page.locator("#grouped").set_checked(False)
    for row, first, second in ((0, 0, 0), (6, 4, 8), (3, 2, 5)):
        page.mouse.move(*centre(page, row, 9 * first + second))
        told = page.locator("#readout").inner_text()
        value = int(data.tensor[row, first, second])
        assert told.startswith(f"row {row}{BY}{first} · {second}: observed {value}, ")
    assert framed(page)[1] == list(range(27, 36))
    page.fill("#find", "6")  # without names, rows are found by their numbers
    found = [link.get_attribute("href") for link in page.locator("#results a").all()]
    assert found == ["#row-6", "#layer-6"]
    page.evaluate("location.hash = '#layer-6'")
    page.wait_for_function("document.querySelector('#found b').innerText === '6'")
    assert framed(page)[1] == [6, 15, 24, 33, 42]
    assert marked_cards(page) == has(posterior, 2, 6)
    _write_tables(posterior, tmp_path, tmp_path / "run")
    for mode in range(3):
        name = download(page, f"[data-csv='{mode}']", tmp_path / "got.csv")
        assert name == f"factor_mode_{mode}.csv"
        assert (tmp_path / "got.csv").read_bytes() == (tmp_path / name).read_bytes()
