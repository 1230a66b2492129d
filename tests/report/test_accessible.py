"""The page for readers with a keyboard, a screen reader, a phone or without scripts."""

import pytest

from support.made import made, with_effects
from thali.report import write

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def effects_page(tmp_path_factory):
    """A page with all sections."""
    return write(with_effects(made()), tmp_path_factory.mktemp("report") / "effects.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(odd_page, visit, scheme):
    """Roles, names, contrasts, order: with everything open that can be opened."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = visit(odd_page, "#row-r\u00e9ihe-3", color_scheme=scheme)
    page.locator("#component-3 button.name").click()
    page.locator("button[data-component='1']").click()
    for fold in page.locator("details").all():
        fold.evaluate("e => { e.open = true; }")
    page.fill("#find", "e")
    found = axe.run(page, options={"resultTypes": ["violations"]}).response
    assert [(part["id"], part["nodes"][0]["html"]) for part in found["violations"]] == []
    page.evaluate("document.querySelector('#find').removeAttribute('aria-label')")
    page.evaluate("document.querySelector('#find').removeAttribute('placeholder')")
    only = {"runOnly": ["label"]}  # the control: what is wrong is noticed
    assert axe.run(page, "#search", options=only).response["violations"]


def test_contents_follow_the_reader_on_a_phone(effects_page, visit):
    """The section being read is marked in the contents; nothing sticks out sideways."""
    page = visit(effects_page, viewport={"width": 390, "height": 844}, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    current = page.locator("nav [aria-current]")
    assert current.inner_text() == "Answer"
    for name in ("components", "effects", "chains", "table", "repeat"):
        page.evaluate(f"document.querySelector('#{name}').scrollIntoView({{behavior: 'instant'}})")
        page.wait_for_selector(f"nav a[aria-current][href='#{name}']")
        assert current.count() == 1
        bar = page.locator(".top").bounding_box()
        assert (bar["y"], bar["height"] < 64) == (0, True)
        box = current.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    page.wait_for_selector("nav a[aria-current][href='#answer']")


def test_focus_is_seen(odd_page, visit):
    """Whatever Tab reaches shows that it has the focus, and is not hidden below the contents."""
    page = visit(odd_page)
    unseen = """() => {
        const e = document.activeElement, shown = e.type === "radio" ? e.nextElementSibling : e;
        const box = shown.getBoundingClientRect(), bar = document.querySelector(".top");
        const isBelow = !bar.contains(e) && box.top < bar.getBoundingClientRect().bottom - 1 &&
            box.bottom < innerHeight && !e.classList.contains("skip");
        const isPlain = getComputedStyle(shown).outlineStyle === "none";
        return isPlain || isBelow ? e.outerHTML.slice(0, 99) : null;
    }"""
    n_stops = 0
    page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    while page.evaluate("document.activeElement.tagName") != "BODY" or not n_stops:
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        assert page.evaluate(unseen) is None
        n_stops += 1
    assert n_stops > 60


def test_page_without_scripts_has_all_words(odd_page, chromium):
    """Everything can be read; what would not work is not there."""
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(odd_page.as_uri())
    assert page.locator(".card").count() == 4
    assert page.locator("#component-1 .members li").first.is_visible()
    controls = page.locator("button, input, select, canvas")
    assert controls.count() > 10
    assert not any(control.is_visible() for control in controls.all())
    assert "needs JavaScript" in page.locator("#table").inner_text()
    assert page.locator("nav a").first.is_visible()
    context.close()
