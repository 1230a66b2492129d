"""Search, addresses and the order of the cards, in a real browser."""

from urllib.parse import quote

import numpy as np
import pytest

import thali
from support.pages import settled
from thali.report import cards as card_files
from thali.report import write
from thali.views import cards, seriate

pytestmark = pytest.mark.browser

FRAMED = """() => { // which rows and columns of the table have a frame in the colour of marks
    const canvas = document.querySelector("canvas");
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const context = copy.getContext("2d", {willReadFrequently: true});
    context.drawImage(canvas, 0, 0);
    const ratio = canvas.width / canvas.clientWidth;
    const [left, top, width, height] = canvas.dataset.plot.split(" ").map(Number);
    const [, , nx, ny] = canvas.dataset.view.split(" ").map(Number);
    const mark = getComputedStyle(canvas).getPropertyValue("--cell-mark").trim();
    const is = (x, y) => {
        const found = [...context.getImageData(x * ratio, y * ratio, 1, 1).data].slice(0, 3);
        return "#" + found.map(v => v.toString(16).padStart(2, "0")).join("") === mark;
    };
    const all = (n) => Array.from({length: n}, (_, i) => i);
    return [all(ny).filter(i => is(left + 1, top + (i + 0.5) / ny * height)),
            all(nx).filter(i => is(left + (i + 0.5) / nx * width, top + 1))];
}"""


def framed(page):
    """Return the places of framed rows and columns; the sides of a frame show which they are."""
    settled(page)
    return page.evaluate(FRAMED)


def has(posterior, mode, row):
    """Return the numbers of the components of a row."""
    return (1 + np.flatnonzero(posterior.point_estimate().factors[mode].dense()[row])).tolist()


def marked_cards(page):
    found = page.locator(".card.has-found").all()
    return sorted(int(card.get_attribute("data-number")) for card in found)


def test_search_leads_to_a_name(odd, odd_page, visit):
    """By keyboard alone: letters, down, Enter; then the row is marked wherever it is."""
    posterior, _ = odd
    page = visit(odd_page)
    page.locator("#find").focus()
    page.keyboard.type("ÉIHE-1")
    names = [name for name in posterior.row_names[0] if "éihe-1" in name]
    links = page.locator("#results a")
    told = [text.split("\n")[0].strip() for text in links.all_inner_texts()]
    assert told == names
    assert page.locator("#results mark").all_inner_texts() == ["éihe-1"] * len(names)
    assert page.locator("#search [role=status]").inner_text() == f"{len(names)} names"
    row = 12
    for _ in range(1 + names.index(f"réihe-{row}")):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("decodeURIComponent(location.hash)") == f"#row-réihe-{row}"
    assert not page.locator("#results").is_visible()
    inside = has(posterior, 0, row)
    assert inside
    told = ", ".join(f"component {number}" for number in inside)
    page.wait_for_selector("#found:focus")
    assert page.locator("#found").inner_text().startswith(f"Row réihe-{row} is in {told}.")
    assert marked_cards(page) == inside
    assert framed(page) == [[seriate(posterior)[0].tolist().index(row)], []]
    page.locator("#grouped").set_checked(False)
    assert framed(page) == [[row], []]
    for element in page.locator(".found").all():
        assert element.get_attribute("data-row") == str(row)
    page.locator("#found button").focus()
    page.keyboard.press("Escape")
    assert (framed(page), marked_cards(page)) == ([[], []], [])
    assert page.evaluate("location.hash + document.activeElement.id") == "find"


def test_search_says_what_it_finds(odd, odd_page, visit):
    """Markup in names is text; components are found, too; Escape closes; nothing is said."""
    page = visit(odd_page)
    count, results = page.locator("#search [role=status]"), page.locator("#results")
    page.fill("#find", "<SCRIPT>")
    assert page.locator("#results a").inner_text().startswith("</script><script>")
    page.fill("#find", "component 2")
    assert page.locator("#results a").get_attribute("href") == "#component-2"
    assert count.inner_text() == "1 name"
    page.keyboard.press("Escape")
    assert not results.is_visible()
    page.fill("#find", "no such name")
    assert count.inner_text() == "No name has these letters."
    page.fill("#find", "e")
    n = sum("e" in name.lower() for names in odd[0].row_names for name in names) + 4
    assert count.inner_text() == f"{n} names; these are the first 24."
    page.locator("nav a").first.focus()
    assert not results.is_visible()


def test_addresses_are_followed(odd, odd_page, visit, monkeypatch, tmp_path):
    """When the page opens and later on; what they name may be folded away, or not be there."""
    posterior, _ = odd
    name = next(name for name in posterior.row_names[1] if "<script>" in name)
    column = posterior.row_names[1].index(name)
    monkeypatch.setattr(card_files, "_N_OPEN", 1)
    path = write(posterior, tmp_path / "folded.html")
    page = visit(path, f"#column-{quote(name, safe='')}")
    assert page.locator("#found b").inner_text() == name
    assert marked_cards(page) == has(posterior, 1, column)
    assert framed(page) == [[], [seriate(posterior)[1].tolist().index(column)]]
    last = page.locator(".more .card").last
    number = last.get_attribute("data-number")
    assert not last.is_visible()
    page.evaluate(f"location.hash = '#component-{number}'")
    page.wait_for_selector(f"#component-{number}:focus")
    assert last.is_visible()
    assert not page.locator("#found").is_visible()
    page.evaluate("location.hash = '#row-n\\u00f6body'")
    page.wait_for_selector("#found:focus")
    assert "There is no row nöbody on this page." in page.locator("#found").inner_text()
    page.evaluate("location.hash = '#row-100%'")  # not an escape: must not stop the page
    page.wait_for_function("document.querySelector('#found b').innerText === '100%'")
    link = page.locator("#components .members a").first
    assert link.get_attribute("href").startswith("#column-")


def test_rows_of_a_tensor_are_found(build, tmp_path, visit):
    """Without names by number; a row of another mode than the first is in several columns."""
    data = thali.simulate((7, 5, 9), 3, spurious=0.05, seed=2)
    posterior = build(data.tensor, data.factors)
    page = visit(write(posterior, tmp_path / "tensor.html"), "#column-3")
    page.locator("#grouped").set_checked(False)
    assert framed(page)[1] == list(range(27, 36))
    page.fill("#find", "6")
    found = [link.get_attribute("href") for link in page.locator("#results a").all()]
    assert found == ["#row-6", "#layer-6"]
    page.evaluate("location.hash = '#layer-6'")
    page.wait_for_function("document.querySelector('#found b').innerText === '6'")
    assert framed(page)[1] == [6, 15, 24, 33, 42]
    assert marked_cards(page) == has(posterior, 2, 6)


def test_cards_are_put_in_order(build, tmp_path, visit):
    """By size, lift, certainty or number; as many as before are folded away."""
    data = thali.simulate((60, 70), 11, spurious=0.02, seed=5)
    posterior = build(data.tensor, data.factors)
    page = visit(write(posterior, tmp_path / "many.html"))
    described = cards(posterior)
    for key in ("lift", "sure", "component", "size"):
        page.select_option("#sort", "number" if key == "component" else key)
        sign = 1 if key == "component" else -1
        ordered = sorted(described, key=lambda card: (sign * card[key], card["component"]))
        expected = [card["component"] + 1 for card in ordered]
        shown = page.locator("#components .card").all()
        assert [int(card.get_attribute("data-number")) for card in shown] == expected
        assert page.locator(".more .card").count() == 2
    assert page.locator("#components > .cards .size").first.inner_text().count(", lift ") == 1
