"""The page for readers with a keyboard, a screen reader, a phone or without scripts."""

import pytest

pytestmark = pytest.mark.browser


def test_axe_finds_nothing(small_page, visit):
    """Roles, names, contrasts, order, also in the dark: with everything open that opens."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = visit(small_page, "#row-row-3")
    page.locator("#component-1 button.name").click()
    page.locator("button[data-component='1']").click()
    for fold in page.locator("details").all():
        fold.evaluate("e => { e.open = true; }")
    page.fill("#find", "r")

    def violations(**options):
        found = axe.run(page, options={"resultTypes": ["violations"], **options}).response
        return [(part["id"], part["nodes"][0]["html"]) for part in found["violations"]]

    assert violations() == []
    page.emulate_media(color_scheme="dark")
    assert violations(runOnly=["color-contrast"]) == []
    spoil = "e => { e.removeAttribute('aria-label'); e.removeAttribute('placeholder'); }"
    page.locator("#find").evaluate(spoil)  # the control: what is wrong is noticed
    assert [rule for rule, _ in violations(runOnly=["label"])] == ["label"]


@pytest.mark.slow
def test_focus_is_seen(small_page, visit):
    """Whatever Tab reaches shows that it has the focus, and is not hidden below the contents."""
    page = visit(small_page)
    page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    look = """() => {
        const e = document.activeElement, shown = e.type === "radio" ? e.nextElementSibling : e;
        const box = shown.getBoundingClientRect(), top = document.querySelector(".top");
        const isBelow = !top.contains(e) && box.top < top.getBoundingClientRect().bottom - 1 &&
            box.bottom < innerHeight && !e.classList.contains("skip");
        const isPlain = getComputedStyle(shown).outlineStyle === "none";
        return [e === document.body, isPlain || isBelow ? e.outerHTML.slice(0, 99) : null];
    }"""
    n_stops = 0
    while True:
        page.keyboard.press("Tab")
        is_end, unseen = page.evaluate(look)
        if is_end:
            break
        assert unseen is None
        n_stops += 1
    assert n_stops > 40


@pytest.mark.slow
def test_page_without_scripts_has_all_words(small_page, chromium):
    """Everything can be read; what would not work is not there."""
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(small_page.as_uri())
    assert page.locator(".card").count() == 2
    assert page.locator("#component-1 .members li").first.is_visible()
    controls = page.locator("button, input, select, canvas")
    assert controls.count() > 10
    assert not any(control.is_visible() for control in controls.all())
    assert "need JavaScript" in page.locator("#table").inner_text()
    assert page.locator("nav a").first.is_visible()
    context.close()
