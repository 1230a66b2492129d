"""The page as text: one file, nothing from elsewhere, the data in it, words that fit."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

import thali
from thali.errors import NotConverged
from thali.report import table as tables
from thali.report import write
from thali.report.charts import bars, thinned
from thali.report.facts import BY, facts, headline
from thali.views import blocks, seriate

HOSTILE = "</script><script>window.hit = 1</script>"
VOID = {"meta", "link", "input", "br", "hr", "img", "line", "rect", "polyline"}


class Reader(HTMLParser):
    """Collect tags, links and texts, and whether what is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.ids, self.texts = [], [], [], {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.links += [given[name] for name in ("src", "href") if name in given]
        self.ids += [given["id"]] if "id" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        where = self.open[-1] if self.open else ""
        self.texts[where] = self.texts.get(where, "") + data


def payload_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="payload">(.*?)</script>', text, re.DOTALL).group(1))


def inflated(blob):
    return zlib.decompress(base64.b64decode(blob))


def lines(blob, n_bits):
    octets = np.frombuffer(inflated(blob), np.uint8).reshape(-1, 4 * -(-n_bits // 32))
    return np.unpackbits(octets, axis=1, count=n_bits, bitorder="little").astype(bool)


def test_page_is_whole_and_asks_for_nothing(odd_page):
    """Tags are closed, links stay within the page, and no address is in it."""
    text = odd_page.read_text(encoding="utf-8")
    page = Reader(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    inside = [link for link in page.links if link.startswith("#")]
    assert {link[1:] for link in inside} <= set(page.ids)
    assert set(page.links) - set(inside) == {"data:,"}
    assert not re.search(r"https?:|//www|@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert "default-src 'none'" in text


def test_names_are_text(odd_page):
    """What looks like markup in a name or the title is shown, not obeyed."""
    text = odd_page.read_text(encoding="utf-8")
    page = Reader(text)
    assert text.count("</script>") == 2  # of the data and of the page
    assert page.texts["h1"] == page.texts["title"] == "Ränder & <i>"
    shown = "".join(text for tag, text in page.texts.items() if tag != "script")
    assert "größe & <b>fett</b>" in shown
    assert HOSTILE in shown
    assert "<b>fett" not in text


def test_payload_gives_the_data_back(odd, odd_page):
    """Errors, components and orders in the page are the table, entry by entry."""
    posterior, data = odd
    told = payload_of(odd_page)
    n_rows, n_columns = told["shape"]
    assert (told["kind"], n_rows, n_columns) == ("bits", *data.shape)
    wrong, unknown = lines(told["wrong"], n_columns), lines(told["unknown"], n_columns)
    users, codes = lines(told["users"], n_rows), lines(told["codes"], n_columns)
    covered = users.T @ codes
    shown = np.where(unknown, np.nan, covered ^ wrong)
    rows, columns = (
        np.frombuffer(inflated(told[f"{name}_order"]), "<u4") for name in ("row", "column")
    )
    np.testing.assert_array_equal(shown, data[np.ix_(rows, columns)])
    expected = seriate(posterior)
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_array_equal(columns, expected[1])
    names = json.loads(inflated(told["names"]))
    assert tuple(map(tuple, names)) == posterior.row_names


def test_tensor_is_unfolded(build, tmp_path):
    """The columns of a tensor are the pairs of the rows of its other modes, and named so."""
    data = thali.simulate((7, 5, 9), 3, spurious=0.05, seed=2)
    told = payload_of(write(build(data.tensor, data.factors), tmp_path / "t.html"))
    columns = np.frombuffer(inflated(told["column_order"]), "<u4")
    rows = np.frombuffer(inflated(told["row_order"]), "<u4")
    wrong, codes = lines(told["wrong"], 45), lines(told["codes"], 45)
    shown = (lines(told["users"], 7).T @ codes) ^ wrong
    # The longest mode is innermost; here it is the last.
    np.testing.assert_array_equal(shown, data.tensor.reshape(7, 45)[np.ix_(rows, columns)])
    assert json.loads(inflated(told["names"]))[1][10] == "1 · 1"


@pytest.mark.parametrize("limit", ["MOST_ENTRIES", "MOST_BYTES"])
def test_large_tables_are_shown_by_blocks(odd, tmp_path, monkeypatch, limit):
    """Too many entries, or too many bytes of them, become shares; both orders are there."""
    monkeypatch.setattr(tables, limit, 10)
    monkeypatch.setattr(tables, "N_BLOCKS", (4, 6))
    posterior, data = odd
    page = write(posterior, tmp_path / "blocks.html")
    told = payload_of(page)
    assert (told["kind"], told["shape"]) == ("shares", [4, 6])
    shown = blocks(posterior, *seriate(posterior), shape=(4, 6))
    ones = np.frombuffer(inflated(told["grouped"]["ones"]), np.uint8).reshape(4, 6)
    np.testing.assert_allclose(ones / 255, shown.data * shown.known, atol=0.5 / 255)
    given = np.frombuffer(inflated(told["given"]["unknown"]), np.uint8).reshape(4, 6)
    first = np.isnan(data[: shown.row_edges[1], : shown.column_edges[1]]).mean()
    assert abs(given[0, 0] / 255 - first) <= 0.5 / 255
    names = json.loads(inflated(told["given"]["names"]))
    assert names[0][0] == f"réihe-0 … réihe-{shown.row_edges[1] - 1}"
    assert f"4{BY}6 blocks" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_page_of_a_large_table_is_small(build, tmp_path):
    """3,000 x 20,000 entries, some unknown, make a page below 10 MB."""
    data = thali.simulate((3000, 20000), 12, spurious=0.05, dropped=0.1, unknown=0.05, seed=3)
    page = write(build(data.tensor, data.factors, n_draws=3), tmp_path / "large.html")
    assert payload_of(page)["kind"] == "bits"
    assert page.stat().st_size < 10_000_000


def test_answer_says_how_sure_it_is(odd):
    """Words follow the probability, and give way where the chains cannot be trusted."""
    known = facts(odd[0])._replace(verdict=None)
    assert headline(known) == "Almost certainly 4 components."
    for probability, words in ((0.94, "Very probably"), (0.6, "Probably"), (0.3, "Most likely")):
        assert headline(known._replace(probability=probability)).startswith(f"{words} 4 ")
    assert headline(known._replace(verdict="They disagree.")) == "Perhaps 4 components."
    assert headline(known._replace(is_fixed=True, number=1)) == "1 component, as asked for."


def test_verdict_is_on_the_page(build, tmp_path):
    """Too few draws to judge are a warning at the top."""
    data = thali.simulate((8, 9), 2, spurious=0.05, seed=1)
    few = build(data.tensor, data.factors, n_draws=5)
    text = write(few, tmp_path / "few.html").read_text(encoding="utf-8")
    assert "Read with care." in text
    assert few.verdict() in Reader(text).texts["p"]


def test_no_components_and_one_chain(tmp_path):
    """A run that finds nothing has a page, too."""
    with pytest.warns(NotConverged, match="too few"):
        posterior = thali.sample(
            np.zeros((6, 5)), n_components=0, chains=1, warmup=2, draws=9, seed=1, progress=False
        )
    text = write(posterior, tmp_path / "none.html").read_text(encoding="utf-8")
    assert "0 components, as asked for." in text
    assert "There is none" in text


def test_many_components_are_folded(build, tmp_path):
    """Beyond nine, cards are behind a fold; all are there, the largest first."""
    data = thali.simulate((60, 70), 14, spurious=0.02, seed=5)
    text = write(build(data.tensor, data.factors), tmp_path / "many.html").read_text("utf-8")
    seen, folded = text.split('<details class="more"><summary>5 smaller components</summary>')
    assert (seen.count('<article class="card"'), folded.count('<article class="card"')) == (9, 5)
    sizes = [int(a) * int(b) for a, b in re.findall(rf"(\d+) rows{BY}(\d+) columns</p>", text)]
    assert len(sizes) == 14
    assert sizes == sorted(sizes, reverse=True)


def test_charts_show_what_they_are_given():
    """Bars are as high as their shares; a thinned line keeps its extremes."""
    svg = bars({3: 0.25, 4: 0.5, 6: 0.25})
    heights = [float(h) for h in re.findall(r'class="bar.*?height="([\d.]+)"', svg)]
    assert np.allclose(np.array(heights) / max(heights), [0.5, 1.0, 0.0, 0.5], atol=1e-3)
    drawn = np.sin(np.arange(5000.0))
    drawn[1234] = 9.0
    kept = thinned(drawn)
    assert (1234, 9.0) in kept
    assert len(kept) <= 240
    assert kept == sorted(kept)


def test_write_refuses_with_a_sentence(odd, tmp_path):
    """No draws, a folder, no folder, no path, no title: each is told what is wrong."""
    posterior = odd[0]
    with pytest.raises(IsADirectoryError, match="is a folder; give the path of a file"):
        write(posterior, tmp_path)
    with pytest.raises(FileNotFoundError, match="is not a folder; make it first"):
        write(posterior, tmp_path / "nowhere" / "report.html")
    with pytest.raises(TypeError, match="the path of a file is needed"):
        write(posterior, 3)
    with pytest.raises(TypeError, match="title=3 was given; a text is needed"):
        write(posterior, tmp_path / "report.html", title=3)
    with pytest.raises(OSError, match="could not be written"):
        write(posterior, tmp_path / ("x" * 300))
    chains = [type(chain)(posterior.settings) for chain in posterior._chains]
    names = (posterior.mode_names, posterior.row_names)
    empty = thali.Posterior(posterior.settings, posterior.tensor, names, chains)
    with pytest.raises(ValueError, match="there are no draws yet"):
        write(empty, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
