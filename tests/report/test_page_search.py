"""Search, addresses and the order of the cards, in a real browser."""

from urllib.parse import quote

import pytest

from support.pages import framed, has, marked_cards
from thali.report import cards as card_files
from thali.report import write
from thali.views import cards, seriate

pytestmark = pytest.mark.browser


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
    check_words(posterior, page)


def check_words(posterior, page):
    """Markup in names is text; components are found, too; Escape closes the list."""
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
    n = sum("e" in name.lower() for names in posterior.row_names for name in names) + 4
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
    check_orders(posterior, page)


def check_orders(posterior, page):
    """Cards by lift, certainty, number or size; as many as before are folded away."""
    described = cards(posterior)
    for key in ("lift", "sure", "component", "size"):
        page.select_option("#sort", "number" if key == "component" else key)
        sign = 1 if key == "component" else -1
        ordered = sorted(described, key=lambda card: (sign * card[key], card["component"]))
        expected = [card["component"] + 1 for card in ordered]
        shown = page.locator("#components .card").all()
        assert [int(card.get_attribute("data-number")) for card in shown] == expected
        assert page.locator(".more .card").count() == 3
    assert ", lift " in page.locator(".size").first.inner_text()
