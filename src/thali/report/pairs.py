"""Pictures of a tensor along every pair of its modes."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from thali.sentences import capitalized, listed, mode_words, plural
from thali.views import pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from thali.posterior import Posterior
    from thali.views import Pair


def pairs_section(posterior: Posterior) -> str:
    """Show data and reconstruction for every pair of modes of a tensor; a matrix needs none."""
    if len(posterior.shape) == 2:
        return ""
    words = mode_words(posterior.mode_names)
    figures = "".join(_figure(pair, words) for pair in pairs(posterior))
    return (
        '<section id="pairs" aria-labelledby="pairs-title">'
        '<h2 id="pairs-title">Every pair of modes</h2>'
        '<p class="lead">Each picture shows two modes and averages over all others: the darker a '
        "point, the larger the share of ones, and beside it the share of entries that a component "
        "covers. Names of every mode are grouped by component.</p>"
        f'<div class="traces">{figures}</div></section>\n\n'
    )


def pairs_link(posterior: Posterior) -> str:
    """Return the link to the section, if there is one."""
    return "" if len(posterior.shape) == 2 else '<a href="#pairs">Pairs</a>\n'


def _figure(pair: Pair, words: list[str]) -> str:
    down, across = (plural(words[mode]) for mode in pair.modes)
    others = [plural(word) for mode, word in enumerate(words) if mode not in pair.modes]
    title = f"{capitalized(down)} (down) and {across} (across)"
    images = "".join(
        f'<img src="{_picture(values)}" alt="{escape(f"{what}: {title}, averaged over ")}'
        f'{escape(listed(others))}" width="{values.shape[1]}" height="{values.shape[0]}">'
        for what, values in (
            ("Share of ones", pair.data),
            ("Share covered by components", pair.prediction),
        )
    )
    return (
        f'<figure class="trace pair"><figcaption>{escape(title)}; left the data, right the '
        f'components</figcaption><div class="images">{images}</div></figure>'
    )


def _picture(shares: NDArray[np.float64]) -> str:
    """Return shares as an image of black ink, as opaque as its share; nothing where unknown.

    It is a PNG of gray and opacity (colour type 4), so that a page can have any background.
    """
    ink = np.zeros((*shares.shape, 2), np.uint8)
    ink[..., 1] = np.rint(255.0 * np.nan_to_num(shares))
    lines = np.concatenate([np.zeros((len(ink), 1), np.uint8), ink.reshape(len(ink), -1)], axis=1)
    size = struct.pack(">2I5B", shares.shape[1], shares.shape[0], 8, 4, 0, 0, 0)
    parts = ((b"IHDR", size), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )
    return f"data:image/png;base64,{b64encode(png).decode()}"
