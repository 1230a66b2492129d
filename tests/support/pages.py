"""Where things are on a page of the report in a browser."""

import numpy as np

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


def settled(page):
    """Wait for two frames: what was asked for is drawn."""
    page.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")


def view(page):
    settled(page)
    return np.array([float(v) for v in page.locator("canvas").get_attribute("data-view").split()])


def centre(page, row, column):
    """Where the middle of a cell is on the page."""
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    left, top, width, height = map(float, canvas.get_attribute("data-plot").split())
    x, y, nx, ny = view(page)
    return (
        box["x"] + left + (column + 0.5 - x) / nx * width,
        box["y"] + top + (row + 0.5 - y) / ny * height,
    )


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


def download(page, selector, path):
    """Press a button that offers a file, keep the file, and return how it is called."""
    with page.expect_download() as waiting:
        page.locator(selector).click()
    waiting.value.save_as(path)
    return waiting.value.suggested_filename
