"""The page as text: one file, nothing from elsewhere, the data in it, words that fit."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

import thali
from support.made import SHAPE, made, with_effects
from thali.errors import NotConverged
from thali.posterior.answer import answer
from thali.posterior.beyond import NOTHING
from thali.posterior.diagnostics import in_words
from thali.posterior.verdict import Disagreement, TooCorrelated
from thali.report import table as tables
from thali.report import write
from thali.report.charts import bars, thinned
from thali.report.effects import effects_section
from thali.report.facts import BY, PAGE, details, facts, headline
from thali.report.sections import answer as answer_section
from thali.views import blocks, levels, seriate

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
    assert text.count("</script>") == 3  # of names, of the data and of the page
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
    rows, columns = (
        np.frombuffer(inflated(told[f"{name}_order"]), "<u4") for name in ("row", "column")
    )
    users, codes = (lines(mode["bits"], mode["size"]) for mode in told["factors"])
    covered = users[:, rows].T @ codes[:, columns]
    shown = np.where(unknown, np.nan, covered ^ wrong)
    np.testing.assert_array_equal(shown, data[np.ix_(rows, columns)])
    expected = seriate(posterior)
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_array_equal(columns, expected[1])
    names = (json.loads(inflated(mode["names"])) for mode in told["factors"])
    assert tuple(map(tuple, names)) == posterior.row_names


def test_tensor_is_unfolded(build, tmp_path):
    """The columns of a tensor are the pairs of the rows of its other modes."""
    data = thali.simulate((7, 5, 9), 3, spurious=0.05, seed=2)
    told = payload_of(write(build(data.tensor, data.factors), tmp_path / "t.html"))
    columns = np.frombuffer(inflated(told["column_order"]), "<u4")
    rows = np.frombuffer(inflated(told["row_order"]), "<u4")
    factors = [lines(mode["bits"], mode["size"]) for mode in told["factors"]]
    codes = (factors[1][:, :, None] & factors[2][:, None, :]).reshape(-1, 45)
    shown = (factors[0][:, rows].T @ codes[:, columns]) ^ lines(told["wrong"], 45)
    # The longest mode is innermost; here it is the last.
    assert told["column_modes"] == [1, 2]
    np.testing.assert_array_equal(shown, data.tensor.reshape(7, 45)[np.ix_(rows, columns)])
    assert [mode["key"] for mode in told["factors"]] == ["row", "column", "layer"]


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
    names = json.loads(inflated(told["given"]["names"][0]))
    assert names[0] == f"réihe-0 … réihe-{shown.row_edges[1] - 1}"
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


def test_numbers_are_those_of_the_answer(odd, odd_page):
    """Rates, wrong entries and the interval of the number are what the command line says."""
    found, known = answer(odd[0]), facts(odd[0])
    text = odd_page.read_text(encoding="utf-8")
    for name in ("spurious", "dropped"):
        rate = found["noise"][name]
        low, high = (f"{end:.2%}" for end in rate["interval"])
        assert f"<dd>{rate['mean']:.2%}<small>of the entries that " in text
        assert f"; 90% of the draws lie between {low} and {high}<" in text
        assert payload_of(odd_page)[name] == rate["mean"]
        assert f"{rate['mean']:.2%}" != f"{np.median(getattr(odd[0], name)):.2%}"
    wrong = found["wrong_entries"]
    assert f"<dd>{wrong['share']:.2%}<small>of the known entries: {wrong['mean']:.0f} on" in text
    assert f"{wrong['share']:.2%}" != f"{known.point_error:.2%}"
    number = found["n_components"]
    assert (known.number, [known.low, known.high]) == (number["mode"], number["interval"])
    spread = known._replace(probability=0.6, low=3, high=5, verdict=None)
    assert "is 60%; 90% of the draws have between 3 and 5." in details(spread)[0]


@pytest.mark.parametrize("noise", ["equal", "as-published"])
def test_one_rate_is_told_once(noise, tmp_path):
    """Where both kinds of errors have one rate, there is one number for it."""
    data = thali.simulate((12, 15), 2, spurious=0.05, seed=1)
    with pytest.warns(NotConverged):
        posterior = thali.sample(
            data.tensor, noise=noise, chains=2, warmup=5, draws=9, seed=1, progress=False
        )
    text = write(posterior, tmp_path / "one.html").read_text("utf-8")
    rate = answer(posterior)["noise"]["flip"]
    assert f"<dt>Flipped entries</dt><dd>{rate['mean']:.2%}<small>of all entries" in text
    assert ("of all entries; 90% of the draws lie between" in text) == (noise == "equal")
    assert "<dt>Spurious ones" not in text


def test_effects_are_on_the_page(tmp_path):
    """Levels of rows and columns with names that are safe, and only if the model has them."""
    posterior = with_effects(made())
    names = tuple(f"<b>{i}" for i in range(SHAPE[0]))
    posterior.row_names = (names, posterior.row_names[1])
    text = write(posterior, tmp_path / "effects.html").read_text(encoding="utf-8")
    section = text.split('<section id="effects"')[1].split("</section>")[0]
    assert '<a href="#effects">Effects</a>' in text
    assert "<b>" not in section
    rows, columns = levels(posterior)
    best, worst = rows.mean.argmax(), rows.mean.argsort(kind="stable")[0]
    assert f"Highest: &lt;b&gt;{best}" in section
    assert f"Lowest: &lt;b&gt;{worst}," in section
    titles = re.findall("<title>(.*?)</title>", section)
    assert len(titles) == sum(SHAPE)
    told = f"column 4: level {columns.mean[4]:.2f} (90% between {columns.low[4]:.2f} and "
    assert any(title.startswith(told) for title in titles)
    assert "Rows differ by a spread of " in text
    assert "of the entries of an average row and column" in text
    plain = write(made(), tmp_path / "plain.html").read_text(encoding="utf-8")
    assert "effects" not in plain.split("<body>")[1].split("<script")[0]


def test_of_many_rows_some_are_drawn(monkeypatch):
    """Evenly from the lowest to the highest, both included; all are in the histogram."""
    monkeypatch.setattr("thali.report.effects._MOST_DOTS", 5)
    posterior = with_effects(made())
    section = effects_section(posterior, facts(posterior))
    assert section.count('<g class="dot">') == 10
    assert section.count("Drawn are 5 of them, evenly from low to high.") == 2
    for lines, name in zip(levels(posterior), ("row", "column"), strict=True):
        for row in (lines.mean.argsort(kind="stable")[0], lines.mean.argsort(kind="stable")[-1]):
            assert f"<title>{name} {row}: level" in section


def test_nothing_beyond_rates_is_the_headline():
    """A sentence, and no rates of what no component covers."""
    posterior = with_effects(made())
    known = facts(posterior)._replace(beyond=NOTHING, number=0, verdict=None)
    assert headline(known) == "No components beyond row and column rates."
    doubtful = known._replace(verdict="Few draws.")
    assert headline(doubtful) == "Perhaps no components beyond row and column rates."
    assert NOTHING not in details(known)
    shown = answer_section(posterior, known)
    assert "Ones outside components" in shown
    assert "Zeros inside components" not in shown


def test_verdict_is_on_the_page(build, tmp_path):
    """Too few draws to judge are a warning at the top."""
    data = thali.simulate((8, 9), 2, spurious=0.05, seed=1)
    few = build(data.tensor, data.factors, n_draws=5)
    text = write(few, tmp_path / "few.html").read_text(encoding="utf-8")
    assert "Read with care." in text
    told = Reader(text).texts["p"]
    assert str(few.verdict()).split("). ")[0] in told
    assert "Go on to 400 draws per chain." in told
    assert "resume(" not in text
    assert "draws that cannot be trusted yet" in told
    assert "<dd>The mean probability of everything that the point estimate puts" in text


def test_densities_have_words(build):
    """A verdict about the density of a mode does not name it as in the code."""
    data = thali.simulate((8, 9), 2, spurious=0.05, seed=1)
    posterior = build(data.tensor, data.factors, modes=("obs", "mode_1"))
    assert in_words("density_mode_1") == "the density of columns"
    assert in_words("co_membership") == "which rows share components"
    assert all(in_words(name) != name for name in posterior.summary().index)
    differ = Disagreement(2, 50, {"density_mode_1": 1.1}, (2.0, 2.0), 1500)
    told = differ.sentence(PAGE)
    assert "about the density of columns (R-hat 1.10): " in told
    assert "Go on to 100 draws per chain, sample anew with a longer warm-up (3,000 sweeps)" in told
    alone = Disagreement(1, 50, {"density_mode_1": 1.1}, (2.0,), 50)
    assert "only several chains (4 chains) can show" in alone.sentence(PAGE)
    slow = TooCorrelated(2, 50, {"density_mode_1": 9.0}).sentence(PAGE)
    assert "for the density of columns, where" in slow


def test_modes_are_called_by_their_names(build, tmp_path):
    """Names of modes are put in the plural once, and modes without names have words."""
    data = thali.simulate((8, 9), 2, spurious=0.05, seed=1)
    named = build(data.tensor, data.factors, n_draws=5, modes=("obs", "var"))
    text = write(named, tmp_path / "named.html").read_text(encoding="utf-8")
    assert f"8 obs{BY}9 vars: " in text
    assert "obss" not in text
    assert "Read DATA with the same options as before; a run does not store them." in text
    tensor = thali.simulate((4, 3, 5), 2, spurious=0.05, seed=2)
    plain = build(tensor.tensor, tensor.factors, n_draws=5)
    text = write(plain, tmp_path / "tensor.html").read_text(encoding="utf-8")
    assert f"4 rows{BY}3 columns{BY}5 layers: " in text
    shown = text.split("<script")[0]
    for name in ("mode_1", "density mode", "co membership", "n components"):
        assert name not in shown
    assert "<th scope=row>density of layers</th>" in text


def test_no_components_and_one_chain(tmp_path):
    """A run that finds nothing has a page, too."""
    with pytest.warns(NotConverged, match="too few"):
        posterior = thali.sample(
            np.zeros((6, 5)), n_components=0, chains=1, warmup=2, draws=9, seed=1, progress=False
        )
    text = write(posterior, tmp_path / "none.html").read_text(encoding="utf-8")
    assert "0 components, as asked for." in text
    assert "There are no components" in text


def test_many_components_are_folded(build, tmp_path):
    """Beyond nine, cards are behind a fold; all are there, the largest first."""
    data = thali.simulate((60, 70), 14, spurious=0.02, seed=5)
    text = write(build(data.tensor, data.factors), tmp_path / "many.html").read_text("utf-8")
    seen, folded = text.split('<details class="more"><summary>5 more components</summary>')
    assert (seen.count('<article class="card"'), folded.count('<article class="card"')) == (9, 5)
    sizes = [int(a) * int(b) for a, b in re.findall(rf"(\d+) rows{BY}(\d+) columns,", text)]
    assert len(sizes) == 14
    assert sizes == sorted(sizes, reverse=True)


def test_charts_show_what_they_are_given():
    """Bars are as high as their shares; a thinned line keeps its extremes."""
    svg = bars({3: 0.25, 4: 0.5, 6: 0.25})
    heights = [float(h) for h in re.findall(r'class="bar.*?height="([\d.]+)"', svg)]
    assert np.allclose(np.array(heights) / max(heights), [0.5, 1.0, 0.0, 0.5], atol=1e-3)
    for most, end in ((1.0, "1"), (0.98, "1"), (0.3, "0.3"), (0.31, "0.4")):
        labels = re.findall(r'class="end".*?>([\d.]+)<', bars({3: most, 4: most / 2}))
        assert labels[-1] == end
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
    with pytest.raises(TypeError, match="give the path of a file"):
        write(posterior, 3)
    with pytest.raises(TypeError, match="title=3 was given; give a text"):
        write(posterior, tmp_path / "report.html", title=3)
    with pytest.raises(OSError, match="could not be written"):
        write(posterior, tmp_path / ("x" * 300))
    chains = [type(chain)(posterior.settings) for chain in posterior._chains]
    names = (posterior.mode_names, posterior.row_names)
    empty = thali.Posterior(posterior.settings, posterior.tensor, names, chains)
    with pytest.raises(ValueError, match="there are no draws yet"):
        write(empty, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
