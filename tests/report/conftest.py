"""Posteriors whose factors are known, and pages of them."""

import shutil

import numpy as np
import pytest

import thali
from thali.bits import Factor, PackedTensor
from thali.data import BinaryTensor
from thali.model import Model, Noise
from thali.model.simulate import boolean_product
from thali.posterior import Posterior
from thali.report import write
from thali.sampler import Schedule, State
from thali.trace import Draw, MemoryStore, Settings
from thali.trace.run import Names

HOSTILE = "</script><script>window.hit = 1</script>"
CHROMIUM = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def make(tensor, factors, *, n_draws=30, names=None, modes=None, wobble=0.02):
    """Return a posterior whose draws are the factors with some bits of users flipped."""
    labelled = BinaryTensor.from_any(tensor, row_names=names)
    settings = Settings(labelled.shape, Model(), Schedule(warmup=10), 5, 2, n_draws)
    rng = np.random.default_rng(7)
    ones, unknown = labelled.rows()
    is_one = ones.astype(bool)
    is_zero = ~is_one if unknown is None else ~is_one & ~unknown
    chains = []
    for _ in range(2):
        chain = MemoryStore(settings)
        for sweep in range(n_draws):
            users = factors[0] ^ (rng.random(factors[0].shape) < wobble)
            packed = tuple(map(Factor.from_dense, (users, *factors[1:])))
            densities = tuple(np.asarray(0.3) for _ in factors)
            noise = Noise(*rng.uniform(0.01, 0.1, 2).tolist())
            cover = boolean_product((users, *factors[1:]))
            covered = int((cover & is_one).sum()), int((cover & is_zero).sum())
            state = State(packed, noise, 2.0, densities, covered, 11 + sweep)
            chain.draws.append(Draw(state, *rng.normal(-100.0, 1.0, 2).tolist()))
        chains.append(chain)
    own = Names(modes or labelled.mode_names, labelled.row_names)
    return Posterior(settings, PackedTensor.from_tensor(labelled), own, chains)


@pytest.fixture(scope="session")
def build():
    """Make posteriors of other kinds."""
    return make


@pytest.fixture(scope="session")
def odd():
    """A table with unknown entries and names that are hard to show, and its values."""
    data = thali.simulate((23, 37), 4, spurious=0.08, unknown=0.1, seed=3)
    columns = [f"column {number}" for number in range(37)]
    hard = [HOSTILE, "größe & <b>fett</b>", "\"a\" 'b'", "数据 + données", "\\u003c $x ${1}"]
    for column, name in zip(np.flatnonzero(data.factors[1].any(axis=1)), hard, strict=False):
        columns[column] = name
    rows = [f"réihe-{number}" for number in range(23)]
    return make(data.tensor, data.factors, names=(rows, columns)), np.asarray(data.tensor)


@pytest.fixture(scope="session")
def odd_page(odd, tmp_path_factory):
    """Its page."""
    return write(odd[0], tmp_path_factory.mktemp("report") / "odd.html", title="Ränder & <i>")


@pytest.fixture(scope="session")
def small_page(tmp_path_factory):
    """A page with little on it, for tests that look at everything there is."""
    data = thali.simulate((9, 8), 2, spurious=0.05, unknown=0.1, seed=1)
    names = ([f"row-{number}" for number in range(9)], [f"cölumn {n}" for n in range(8)])
    posterior = make(data.tensor, data.factors, n_draws=5, names=names)
    return write(posterior, tmp_path_factory.mktemp("report") / "small.html")


@pytest.fixture(scope="session")
def chromium():
    """A real browser."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no Chromium is installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def keep(request):
    """Keep a picture of a whole page for those who want to look at it."""

    def keep(page, name):
        folder = request.config.rootpath / "screenshots"
        folder.mkdir(exist_ok=True)
        page.screenshot(path=folder / f"report-{name}.png", full_page=True)

    return keep


@pytest.fixture
def visit(chromium):
    """Open pages that must neither complain nor ask for anything but themselves."""
    complaints, contexts = [], []

    def go(path, fragment="", **settings):
        settings = {"viewport": {"width": 1100, "height": 900}, **settings}
        context = chromium.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda r: None if r.url == path.as_uri() else complaints.append(f"request: {r.url}"),
        )
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector("#view[data-state=ready]")
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []
