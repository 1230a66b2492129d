"""Where things are on a page of the report in a browser."""

import numpy as np


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
