"""Names of components, and the files that the page offers, in a real browser."""

import csv
import io
import json
import re

import pytest

import thali
from support.pages import centre, download, view
from thali.cli.views import _write_tables
from thali.posterior.visible import _FORMULAS, with_visible_names
from thali.report import table as tables
from thali.report import write
from thali.views import seriate

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>window.hit = 1</script>"
UNLOAD = "window.dispatchEvent(new Event('beforeunload', {cancelable: true}))"


def rename(page, number, name):
    page.locator(f"#component-{number} button.name").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(name)
    page.keyboard.press("Enter")


def test_names_are_kept_in_the_saved_page(odd, odd_page, visit, tmp_path):
    """Renamed, saved, opened again: the names are there, as text, and also without scripts."""
    page = visit(odd_page)
    rename(page, 2, f"  {HOSTILE}\u202e ")
    rename(page, 3, "=engineers")
    check_editing(odd[0], page)
    assert page.locator("#save-state").inner_text() == "The new names are not saved yet."
    assert not page.evaluate(UNLOAD)  # leaving now would lose them
    saved = tmp_path / "saved.html"
    assert download(page, "#save", saved) == odd_page.name
    assert page.evaluate(UNLOAD)
    again = visit(saved)
    assert again.evaluate("window.hit === undefined")
    assert again.locator("#component-2 .given").inner_text() == HOSTILE
    assert again.locator("#component-3 h3").inner_text() == "Component 3\n=engineers"
    assert again.locator("#component-1 h3").inner_text() == "Component 1"
    assert set(again.locator("a[data-to='3']").all_inner_texts()) == {"component 3 (=engineers)"}
    again.fill("#find", "engin")
    assert again.locator("#results a").get_attribute("href") == "#component-3"
    download(again, "#save", tmp_path / "twice.html")
    text = saved.read_text("utf-8")
    assert (tmp_path / "twice.html").read_text("utf-8") == text
    assert '<span class="given">=engineers</span>' in text
    # What scripts do to a page is not saved: no links on names, no field of the search.
    assert abs(len(text) - len(odd_page.read_text("utf-8"))) < 2000
    assert text.count("</script>") == 3


def check_editing(posterior, page):
    """Escape keeps the old name; an empty one takes it away; the tooltip has the new one."""
    rename(page, 1, "one")
    page.locator("#component-1 button.name").click()
    page.keyboard.type("two")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.innerText") == "Rename"
    assert page.locator("#component-1 .given").inner_text() == "one"
    assert page.locator(".rename").count() == 0
    factors = (factor.dense() for factor in posterior.point_estimate().factors)
    orders = seriate(posterior)
    place = [int(f[order, 0].argmax()) for f, order in zip(factors, orders, strict=True)]
    page.mouse.move(*centre(page, *place))
    assert " 1 (one)" in page.locator("#tooltip").inner_text()
    rename(page, 1, " ")
    assert page.locator("#component-1 h3").inner_text() == "Component 1"


def test_files_are_those_of_the_export(build, tmp_path, visit):
    """Byte for byte, also with names that a spreadsheet would compute, or that hold commas."""
    data = thali.simulate((23, 17), 3, spurious=0.05, seed=2)
    hard = [f"{first}1+1" for first in _FORMULAS] + ['a,"b"', "a\nb", "a\r=1", "größe", "-", " "]
    names = ([*hard, *map(str, range(23 - len(hard)))], None)
    posterior = build(data.tensor, data.factors, names=names, modes=("=who", "what"))
    _write_tables(with_visible_names(posterior), tmp_path, tmp_path / "run")
    page = visit(write(posterior, tmp_path / "page.html"))
    for mode, n_rows in enumerate((23, 17)):
        name = download(page, f"[data-csv='{mode}']", tmp_path / "got.csv")
        text = (tmp_path / "got.csv").read_bytes().decode()
        assert text == (tmp_path / name).read_bytes().decode()
        fields = list(csv.reader(io.StringIO(text, newline="")))
        assert len(fields) == 1 + n_rows
        assert "\r" not in text
        assert not any(first.startswith(_FORMULAS) for first, *_ in fields)
    rename(page, 2, "=two")
    download(page, "[data-csv='1']", tmp_path / "got.csv")
    head = (tmp_path / "got.csv").read_text("utf-8").splitlines()[0]
    assert head.endswith(",component_1,'=two,component_3")


@pytest.mark.parametrize(
    "names", ['{"1": 7, "9": "x", "2": "two"}', pytest.param("null", marks=pytest.mark.slow)]
)
def test_factors_that_are_too_large_are_not_offered(odd, tmp_path, visit, monkeypatch, names):
    """The page then says what writes them, and does the rest; broken names are left out."""
    monkeypatch.setattr(tables, "MOST_BYTES", 10)
    monkeypatch.setattr(tables, "N_BLOCKS", (4, 6))
    path = write(odd[0], tmp_path / "large.html")
    text = path.read_text("utf-8")
    payload = re.search(r'id="payload">(.*?)</script>', text, re.DOTALL)
    assert json.loads(payload.group(1))["factors"] is None
    path.write_text(text.replace('id="names">{}<', f'id="names">{names}<'), "utf-8")
    page = visit(path, "#row-r\u00e9ihe-3")
    told = page.locator(".given").all_inner_texts()
    assert sorted(filter(None, told)) == (["two"] if "two" in names else [])
    assert page.locator("[data-csv]").count() == 0
    assert "thali export RUN --to FOLDER" in page.locator("#components").inner_text()
    page.fill("#find", "component")
    assert page.locator("#results a").count() == 4 - ("two" in names)
    rename(page, 1, "one")
    assert page.locator("#component-1 .given").inner_text() == "one"
    assert view(page).tolist() == [0, 0, 6, 4]
