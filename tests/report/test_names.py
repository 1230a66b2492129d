"""Names of components, and the files that the page offers, in a real browser."""

import csv
import io
import json
import re

import pytest

import thali
from support.pages import centre, view
from thali.cli.views import _write_tables
from thali.posterior.visible import _FORMULAS, with_visible_names
from thali.report import table as tables
from thali.report import write
from thali.views import seriate

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>window.hit = 1</script>"


def rename(page, number, name):
    page.locator(f"#component-{number} button.name").click()
    page.keyboard.press("Control+A")
    page.keyboard.type(name)
    page.keyboard.press("Enter")


def download(page, selector, path):
    with page.expect_download() as waiting:
        page.locator(selector).click()
    waiting.value.save_as(path)
    return waiting.value.suggested_filename


def test_names_are_kept_in_the_saved_page(odd_page, visit, tmp_path, chromium):
    """Renamed, saved, opened again: the names are there, as text, and also without scripts."""
    page = visit(odd_page)
    rename(page, 2, f"  {HOSTILE}\u202e ")
    rename(page, 3, "=engineers")
    assert page.evaluate("document.activeElement.innerText") == "Rename"
    assert page.locator("#save-state").inner_text() == "The new names are not saved yet."
    assert not page.evaluate("window.dispatchEvent(new Event('beforeunload', {cancelable: true}))")
    saved = tmp_path / "saved.html"
    assert download(page, "#save", saved) == odd_page.name
    assert page.evaluate("window.dispatchEvent(new Event('beforeunload', {cancelable: true}))")
    again = visit(saved)
    assert again.evaluate("window.hit === undefined")
    assert again.locator("#component-2 .given").inner_text() == HOSTILE
    assert again.locator("#component-3 h3").inner_text() == "Component 3\n=engineers"
    assert again.locator("#component-1 h3").inner_text() == "Component 1"
    links = again.locator("a[data-to='3']").all_inner_texts()
    assert links
    assert set(links) == {"component 3 (=engineers)"}
    again.fill("#find", "engin")
    assert again.locator("#results a").get_attribute("href") == "#component-3"
    download(again, "#save", tmp_path / "twice.html")
    assert (tmp_path / "twice.html").read_bytes() == saved.read_bytes()
    context = chromium.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(saved.as_uri())
    assert plain.locator("#component-3 .given").inner_text() == "=engineers"
    context.close()
    before, after = (re.sub(r"\s+", " ", p.read_text("utf-8")) for p in (odd_page, saved))
    assert abs(len(after) - len(before)) < 2000  # what scripts change on a page is not saved


def test_renaming_can_be_cancelled_and_undone(odd, odd_page, visit):
    """Escape keeps the old name; an empty one takes it away; the tooltip has the new one."""
    page = visit(odd_page)
    rename(page, 1, "one")
    page.locator("#component-1 button.name").click()
    page.keyboard.type("two")
    page.keyboard.press("Escape")
    assert page.locator("#component-1 .given").inner_text() == "one"
    assert page.locator(".rename").count() == 0
    factors = (factor.dense() for factor in odd[0].point_estimate().factors)
    orders = seriate(odd[0])
    place = [int(f[order, 0].argmax()) for f, order in zip(factors, orders, strict=True)]
    page.mouse.move(*centre(page, *place))
    assert " 1 (one)" in page.locator("#tooltip").inner_text()
    rename(page, 1, " ")
    assert page.locator("#component-1 h3").inner_text() == "Component 1"


def test_names_that_are_none_are_left_out(odd_page, visit, tmp_path):
    """A file whose names somebody broke by hand opens without them."""
    text = odd_page.read_text("utf-8")
    for number, names in enumerate(('{"1": 7, "9": "x", "2": "two"}', "null")):
        changed = text.replace('id="names">{}<', f'id="names">{names}<')
        (tmp_path / f"{number}.html").write_text(changed, "utf-8")
        page = visit(tmp_path / f"{number}.html")
        told = page.locator(".given").all_inner_texts()
        assert sorted(filter(None, told)) == (["two"] if number == 0 else [])


@pytest.mark.parametrize("shape", [(23, 17), (7, 5, 9)], ids=str)
def test_files_are_those_of_the_export(build, tmp_path, visit, shape):
    """Byte for byte, also with names that a spreadsheet would compute, or that hold commas."""
    data = thali.simulate(shape, 3, spurious=0.05, seed=2)
    hard = [f"{first}1+1" for first in _FORMULAS] + ['a,"b"', "a\nb", "a\r=1", "größe", "-", " "]
    names = None if len(shape) > 2 else ([*hard, *map(str, range(23 - len(hard)))], None)
    modes = None if len(shape) > 2 else ("=who", "what")
    posterior = build(data.tensor, data.factors, names=names, modes=modes)
    _write_tables(with_visible_names(posterior), tmp_path, tmp_path / "run")
    page = visit(write(posterior, tmp_path / "page.html"))
    for mode in range(len(shape)):
        name = download(page, f"[data-csv='{mode}']", tmp_path / "got.csv")
        text = (tmp_path / "got.csv").read_bytes().decode()
        assert text == (tmp_path / name).read_bytes().decode()
        fields = list(csv.reader(io.StringIO(text, newline="")))
        assert len(fields) == 1 + shape[mode]
        assert "\r" not in text
        assert not any(first.startswith(_FORMULAS) for first, *_ in fields)
    rename(page, 2, "=two")
    download(page, "[data-csv='1']", tmp_path / "got.csv")
    head = (tmp_path / "got.csv").read_text("utf-8").splitlines()[0]
    assert head.endswith(",component_1,'=two,component_3")


def test_factors_that_are_too_large_are_not_offered(odd, tmp_path, visit, monkeypatch):
    """The page then says what writes them, and does everything else."""
    monkeypatch.setattr(tables, "MOST_BYTES", 10)
    monkeypatch.setattr(tables, "N_BLOCKS", (4, 6))
    path = write(odd[0], tmp_path / "large.html")
    payload = re.search(r'id="payload">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert json.loads(payload.group(1))["factors"] is None
    page = visit(path, "#row-r\u00e9ihe-3")
    assert page.locator("[data-csv]").count() == 0
    assert "thali export RUN --to FOLDER" in page.locator("#components").inner_text()
    page.fill("#find", "component")
    assert page.locator("#results a").count() == 4
    rename(page, 1, "one")
    assert page.locator("#component-1 .given").inner_text() == "one"
    assert view(page).tolist() == [0, 0, 6, 4]
