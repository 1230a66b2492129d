"""The page in a real browser: what is drawn and told is what NumPy says."""

import re
from importlib.resources import files
from itertools import product

import numpy as np
import pytest

from support.pages import centre, settled, view
from thali.report import table as tables
from thali.report import write
from thali.report.charts import bars
from thali.report.facts import BY
from thali.views import blocks, seriate

pytestmark = pytest.mark.browser

PIXELS = """([rows, columns]) => {
    const canvas = document.querySelector("canvas");
    // A copy: Chromium complains of an own canvas that is read often.
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const context = copy.getContext("2d", {willReadFrequently: true});
    context.drawImage(canvas, 0, 0);
    const ratio = canvas.width / canvas.clientWidth;
    const [left, top, width, height] = canvas.dataset.plot.split(" ").map(Number);
    const out = [];
    for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
        const x = left + (column + 0.5) / columns * width, y = top + (row + 0.5) / rows * height;
        out.push([...context.getImageData(x * ratio, y * ratio, 1, 1).data.slice(0, 3)]);
    }
    return out;
}"""


def colour(page, name):
    found = page.evaluate(
        f"getComputedStyle(document.documentElement).getPropertyValue('--cell-{name}')"
    )
    return [int(found.strip()[i : i + 2], 16) for i in (1, 3, 5)]


def pixels(page, shape):
    page.mouse.move(2, 2)
    settled(page)
    return np.array(page.evaluate(PIXELS, list(shape))).reshape(*shape, 3)


def truth(posterior):
    """Return users, codes and what they cover."""
    users, codes = (factor.dense() for factor in posterior.point_estimate().factors)
    return users, codes, users @ codes.T


def expected(posterior, data, row, column):
    """Say what the page must say about an entry, by its place in the data."""
    users, codes, covered = truth(posterior)
    value = data[row, column]
    told = "unknown" if np.isnan(value) else f"observed {value:.0f}"
    by = 1 + np.flatnonzero(users[row] & codes[column])
    words = (
        f" by component{'s' if len(by) > 1 else ''} {', '.join(map(str, by))}" if len(by) else ""
    )
    names = posterior.row_names
    return (
        f"{names[0][row]}{BY}{names[1][column]}: {told}, "
        f"reconstructed as {int(covered[row, column])}{words if len(by) else ''} ("
    )


def test_page_opens_from_a_file(odd_page, visit):
    """It draws all of the table; that it asks for nothing and complains of nothing is checked."""
    page = visit(odd_page)
    assert view(page).tolist() == [0, 0, 37, 23]
    assert page.title() == "Ränder & <i>"
    assert page.evaluate("window.hit === undefined")
    assert len(np.unique(pixels(page, (23, 37)).reshape(-1, 3), axis=0)) == 3


def test_every_cell_has_its_colour(odd, odd_page, visit):
    """In all three layers and both orders, the middle of each cell is what NumPy says."""
    posterior, data = odd
    covered = truth(posterior)[2]
    page = visit(odd_page)
    is_one, is_unknown = data == 1, np.isnan(data)
    paper, unknown = colour(page, "paper"), (is_unknown, colour(page, "unknown"))
    ink = colour(page, "ink")
    layers = {
        "data": [(is_one, ink), unknown],
        "reconstruction": [(covered, ink)],
        "residual": [
            (is_one & ~covered, colour(page, "spurious")),
            ((data == 0) & covered, colour(page, "dropped")),
            unknown,
        ],
    }
    for is_grouped, (name, parts) in product((True, False), layers.items()):
        page.locator("#grouped").set_checked(is_grouped)
        order = seriate(posterior) if is_grouped else tuple(map(np.arange, data.shape))
        page.check(f"input[value={name}]", force=True)
        wanted = np.tile(np.array(paper), (*data.shape, 1))
        for mask, own in parts:
            assert mask.any()
            wanted[mask] = own
        np.testing.assert_array_equal(pixels(page, data.shape), wanted[np.ix_(*order)])


def test_pointing_tells_names_and_values(odd, odd_page, visit):
    """Wherever the mouse is, words beside it say which entry that is, zoomed or not."""
    posterior, data = odd
    page = visit(odd_page)
    script = next(i for i, name in enumerate(posterior.row_names[1]) if "<script>" in name)
    for is_grouped in (True, False):
        page.locator("[data-act=fit]").click()
        page.locator("#grouped").set_checked(is_grouped)
        rows, columns = seriate(posterior) if is_grouped else tuple(map(np.arange, data.shape))
        hostile = int(np.flatnonzero(columns == script)[0])
        for place in ((0, 0), (22, 36), (11, hostile), (5, 20), (17, 3)):
            at = centre(page, *place)
            page.mouse.move(*at)
            told = page.locator("#readout").inner_text()
            assert told.startswith(expected(posterior, data, rows[place[0]], columns[place[1]]))
            assert page.locator("#tooltip").inner_text() == told
            check_beside(page, at)
        page.mouse.move(2, 2)
        assert not page.locator("#tooltip").is_visible()
        for _ in range(2):
            page.locator("[data-act=in]").click()
        x, y, nx, ny = view(page)
        place = (int(y + ny / 2), int(x + nx / 2))
        page.mouse.move(*centre(page, *place))
        told = page.locator("#readout").inner_text()
        assert told.startswith(expected(posterior, data, rows[place[0]], columns[place[1]]))


def check_beside(page, at):
    """The words are beside the pointer, not below it, and within the table."""
    box, frame = page.locator("#tooltip").bounding_box(), page.locator(".frame").bounding_box()
    away = [
        max(box[side] - point, point - box[side] - box[size], 0)
        for side, size, point in zip("xy", ("width", "height"), at, strict=True)
    ]
    assert 0 < max(away) < 20
    assert frame["x"] <= box["x"]
    assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1


def test_wheel_zooms_about_the_mouse_once_the_table_has_focus(odd_page, visit):
    """Before, the page scrolls; after a click the entry below the mouse stays where it is."""
    page = visit(odd_page)
    x, y = centre(page, 6, 25)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -200)
    assert view(page)[2] == 37
    x, y = centre(page, 6, 25)
    page.mouse.click(x, y)
    page.mouse.wheel(0, -200)
    zoomed = view(page)
    assert zoomed[2] < 25
    # The event has whole pixels: what is a part of one off is as many times more after zooming.
    np.testing.assert_allclose(centre(page, 6, 25), (x, y), atol=37 / zoomed[2] - 1)
    page.mouse.wheel(0, 2000)
    for _ in range(3):
        page.mouse.wheel(0, 2000)
    assert view(page).tolist() == [0, 0, 37, 23]


def test_buttons_zoom_and_dragging_moves(odd_page, visit):
    """The entry below the mouse goes with it, as far as there is table; Fit shows all again."""
    page = visit(odd_page)
    for _ in range(2):
        page.locator("[data-act=in]").click()
    before = view(page)
    assert before[2] < 37
    start = np.array(centre(page, 11, 18))
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*(start - [60, 40]), steps=4)
    page.mouse.up()
    np.testing.assert_allclose(centre(page, 11, 18), start - [60, 40], atol=0.5)
    page.locator("[data-act=out]").click()
    assert view(page)[2] > before[2]
    page.locator("[data-act=fit]").click()
    assert view(page).tolist() == [0, 0, 37, 23]


def test_everything_is_reached_by_keyboard(odd, odd_page, visit):
    """Tab leads through the controls to the table; arrows walk, plus zooms, zero shows all."""
    posterior, data = odd
    rows, columns = seriate(posterior)
    page = visit(odd_page)
    page.locator("nav a").last.focus()
    reached = []
    for _ in range(7):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(e => e.id && e.value !== 'data' ? e.id : e.value || e.dataset.act || e.tagName)"
                "(document.activeElement)"
            )
        )
    assert reached == ["find", "data", "grouped", "out", "in", "fit", "CANVAS"]
    for key in ("ArrowRight", "Escape", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        assert page.locator("#tooltip").is_visible() == (key != "Escape")
    told = page.locator("#readout").inner_text()
    assert told.startswith(expected(posterior, data, rows[1], columns[1]))
    page.keyboard.press("Shift+ArrowRight")
    told = page.locator("#readout").inner_text()
    assert told.startswith(expected(posterior, data, rows[1], columns[5]))
    page.keyboard.press("+")
    assert view(page)[2] < 37
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    zoomed = view(page)
    assert zoomed[0] + zoomed[2] == pytest.approx(37)
    page.keyboard.press("0")
    assert view(page).tolist() == [0, 0, 37, 23]
    page.locator("input[value=data]").focus()
    assert not page.locator("#tooltip").is_visible()
    page.keyboard.press("ArrowRight")
    assert page.locator("#view").get_attribute("data-layer") == "reconstruction"
    for control in page.locator("button, input, select, canvas").all():
        named = control.evaluate("e => e.ariaLabel || e.innerText || e.closest('label').innerText")
        assert named.strip()


def test_component_is_marked(odd, odd_page, visit):
    """Marking colours the entries of a component and no others; again, and it is off."""
    posterior, data = odd
    users, codes, _ = truth(posterior)
    rows, columns = seriate(posterior)
    page = visit(odd_page)
    before = pixels(page, data.shape)
    button = page.locator("button[data-component='2']")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    is_changed = (pixels(page, data.shape) != before).any(axis=2)
    np.testing.assert_array_equal(is_changed, np.outer(users[rows, 2], codes[columns, 2]))
    button.click()
    np.testing.assert_array_equal(pixels(page, data.shape), before)


def test_phone(odd_page, visit, keep):
    """On a narrow screen nothing sticks out, and a touch tells the entry."""
    page = visit(
        odd_page, viewport={"width": 360, "height": 700}, device_scale_factor=2, has_touch=True,
        is_mobile=True,
    )  # fmt: skip
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.touchscreen.tap(*centre(page, 3, 4))
    assert "réihe-" in page.locator("#tooltip").inner_text()
    check_contents(page)
    page.fill("#find", "e")
    page.locator("[data-component='1']").click()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    small = page.evaluate(
        "[...document.querySelectorAll('.toolbar button, .toolbar select, .switch span, #find')]"
        ".filter(e => e.getBoundingClientRect().height < 32).length"
    )
    assert small == 0
    keep(page, "phone")


def check_contents(page):
    """The contents stay at the top and follow: the section being read is marked, and visible."""
    current = page.locator("nav [aria-current]")
    for name in ("components", "chains", "table", "repeat", "answer"):
        page.evaluate(f"document.querySelector('#{name}').scrollIntoView({{behavior: 'instant'}})")
        page.wait_for_selector(f"nav a[aria-current][href='#{name}']")
        assert current.count() == 1
        top, box = page.locator(".top").bounding_box(), current.bounding_box()
        assert top["y"] == 0 or name == "answer"
        assert top["height"] < 64
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360


def test_numbers_of_the_chart_do_not_touch(chromium):
    """On a phone, with two bars a number, every text has some pixels for itself."""
    style = files("thali.report").joinpath("style.css").read_text(encoding="utf-8")
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    for n_numbers in (1, 2, 3, 5, 8, 12):
        rest = 0.02 / max(n_numbers - 1, 1)
        shares = {n: (0.98 if n == 1 else rest) for n in range(1, n_numbers + 1)}
        others = dict.fromkeys(shares, 1.0 / n_numbers)
        page.set_content(f'<style>{style}</style><div class="facts">{bars(shares, others)}</div>')
        boxes = page.evaluate(
            "[...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect())"
            ".map(b => [b.left, b.right, b.top, b.bottom])"
        )
        assert len(boxes) > n_numbers / 2
        for i, (left, right, top, bottom) in enumerate(boxes):
            for other in boxes[:i]:
                beside = left >= other[1] + 2 or right <= other[0] - 2
                assert beside or top >= other[3] or bottom <= other[2]
    page.close()


def test_colours_follow_the_system(odd, odd_page, visit, keep):
    """Paper and table are dark in dark mode; text stands out from both."""
    page = visit(odd_page)
    zero = np.argwhere(odd[1][np.ix_(*seriate(odd[0]))] == 0)[0]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        body = page.evaluate("getComputedStyle(document.body).backgroundColor")
        text = page.evaluate("getComputedStyle(document.body).color")
        light, dark = (np.mean([int(v) for v in re.findall(r"\d+", c)]) for c in (body, text))
        if scheme == "dark":
            light, dark = dark, light
        assert (light > 200, dark < 60) == (True, True)
        assert pixels(page, (23, 37))[tuple(zero)].tolist() == colour(page, "paper")
        keep(page, scheme)


def test_print_is_light_and_leaves_the_page_as_it_was(odd_page, visit):
    """A page printed in dark mode is drawn light; afterwards it is dark again."""
    page = visit(odd_page, color_scheme="dark")
    before = pixels(page, (23, 37))
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    printed = np.array(page.evaluate(PIXELS, [23, 37])).reshape(23, 37, 3)
    assert (printed == 255).all(axis=2).any()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    np.testing.assert_array_equal(pixels(page, (23, 37)), before)
    assert page.pdf().startswith(b"%PDF")


def test_blocks_are_drawn_and_told(odd, tmp_path, monkeypatch, visit):
    """A table by blocks tells their shares, in both orders."""
    monkeypatch.setattr(tables, "MOST_ENTRIES", 10)
    monkeypatch.setattr(tables, "N_BLOCKS", (4, 6))
    posterior, data = odd
    page = visit(write(posterior, tmp_path / "blocks.html"))
    for is_grouped in (True, False):
        page.locator("#grouped").set_checked(is_grouped)
        order = seriate(posterior) if is_grouped else tuple(map(np.arange, data.shape))
        shown = blocks(posterior, *order, shape=(4, 6))
        page.mouse.move(*centre(page, 2, 3))
        told = page.locator("#readout").inner_text()
        share = np.rint(255 * shown.data[2, 3] * shown.known[2, 3]) / 255
        assert f": {int(100 * share + 0.5)}% ones, " in told
        rows = [posterior.row_names[0][order[0][i]] for i in shown.row_edges[2:4] - [0, 1]]
        assert told.startswith(f"{rows[0]} … {rows[1]}{BY}")
