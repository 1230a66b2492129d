"""Plots draw what the views say, where they are told to, and touch nothing else."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import thali
from support.made import SHAPE, made
from thali import views
from thali.plots.canvas import COLOURS, UNKNOWN, difference_map, probability_map

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")
mpl.use("agg")

ON_AXES = ["membership", "components", "n_components", "overlap"]
ON_FIGURE = ["reconstruction", "traces"]


@pytest.fixture(scope="module")
def posterior():
    return made()


def axes(size=(6, 8)):
    return Figure(figsize=size, dpi=100).subplots()


def shown(ax):
    return np.asarray(ax.images[0].get_array().filled(np.nan))


def texts(ticks):
    return [text.get_text() for text in ticks]


def draw_all(posterior):
    for name in ON_AXES:
        getattr(thali.pl, name)(posterior, ax=axes())
    for name in ON_FIGURE:
        getattr(thali.pl, name)(posterior, figure=Figure())


# --- what is drawn -------------------------------------------------------------------------


def test_membership_shows_probabilities_in_order(posterior):
    """Cells, names of rows and titles of components belong together."""
    ax = thali.pl.membership(posterior, ax=axes())
    rows, columns = views.seriate(posterior)[0], views.component_order(posterior)
    p = views.components(posterior).probabilities[0]
    np.testing.assert_array_equal(shown(ax), p[np.ix_(rows, columns)])
    assert texts(ax.get_yticklabels()) == [f"row {i}" for i in rows]
    assert texts(ax.get_xticklabels()) == [views.titles(posterior)[k] for k in columns]
    assert ((p > 0) & (p < 1)).any()  # what is uncertain is shown as such


@pytest.mark.parametrize("as_type", [list, np.array, pd.Series])
def test_membership_by_labels(posterior, as_type):
    """Rows of a label lie together, labels sorted, each named beside its rows."""
    labels = as_type([["b", "a", "c"][i % 3] for i in range(SHAPE[0])])
    ax = thali.pl.membership(posterior, labels=labels, ax=axes())
    order = [int(name.split()[1]) for name in texts(ax.get_yticklabels())]
    assert sorted(order) == list(range(SHAPE[0]))
    assert [list(labels)[i] for i in order] == sorted(labels)
    (strip,) = ax.child_axes
    assert texts(strip.texts) == ["a", "b", "c"]
    colours = strip.images[0].get_array()[:, 0]
    expected = [mpl.colors.to_rgb(COLOURS["abc".index(list(labels)[i])]) for i in order]
    np.testing.assert_allclose(colours, expected)


def test_categories_keep_their_order_and_missing_labels_come_first(posterior):
    """As pandas has them; a row without a label is grey."""
    labels = ["late"] * 20 + ["early"] * 19 + [None]
    known = pd.Categorical(labels, categories=["late", "early"], ordered=True)
    ax = thali.pl.membership(posterior, labels=known, ax=axes())
    (strip,) = ax.child_axes
    assert texts(strip.texts) == ["no label", "late", "early"]
    np.testing.assert_allclose(strip.images[0].get_array()[0, 0], mpl.colors.to_rgb(UNKNOWN))


def test_labels_in_another_order_have_a_legend(posterior):
    """Where a label is not one run of rows it cannot be written beside them."""
    labels = np.arange(SHAPE[0]) % 2
    ax = thali.pl.membership(posterior, labels=labels, order="data", ax=axes())
    (strip,) = ax.child_axes
    assert texts(strip.get_legend().get_texts()) == ["0", "1"]
    p = views.components(posterior).probabilities[0][:, views.component_order(posterior)]
    np.testing.assert_array_equal(shown(ax), p)


def test_membership_of_chosen_rows(posterior):
    """Rows in the order that was asked for; others are left out."""
    ax = thali.pl.membership(posterior, order=[5, 3, 9], ax=axes())
    assert texts(ax.get_yticklabels()) == ["row 5", "row 3", "row 9"]


def test_components_shows_columns_in_order(posterior):
    """All of few columns, named, with the number of rows of each component."""
    ax = thali.pl.components(posterior, ax=axes())
    rows, columns = views.seriate(posterior)[1], views.component_order(posterior)
    known = views.components(posterior)
    np.testing.assert_array_equal(shown(ax), known.probabilities[1][np.ix_(rows, columns)])
    assert texts(ax.get_yticklabels()) == [f"column {i}" for i in rows]
    sizes = known.factors[0].sizes()
    assert texts(ax.get_xticklabels()) == [f"{k + 1}\n({sizes[k]})" for k in columns]


def test_components_shows_the_top_of_many(posterior):
    """Columns that are among the most probable of some component, and no other."""
    ax = thali.pl.components(posterior, n_top=2, ax=axes())
    top = {m["name"] for card in views.cards(posterior, n_top=2) for m in card["top"][1]}
    assert set(texts(ax.get_yticklabels())) == top
    assert ax.get_title(loc="left") == "top 2 of each component"


def test_reconstruction_shows_blocks(posterior):
    """Data, reconstruction and residual entry by entry; what is unknown is grey and explained."""
    panels = thali.pl.reconstruction(posterior, figure=Figure(figsize=(12, 8)))
    rows, columns = views.seriate(posterior)
    blocks = views.blocks(posterior, rows, columns, SHAPE)
    for ax, expected in zip(
        panels, (blocks.data, blocks.prediction, blocks.residual), strict=True
    ):
        np.testing.assert_array_equal(shown(ax), expected)
    assert np.isnan(shown(panels[0])).any()
    assert texts(panels[0].get_legend().get_texts()) == ["unknown"]
    assert texts(panels[0].get_yticklabels()) == [f"row {i}" for i in rows]
    assert texts(panels[2].get_xticklabels()) == [f"column {i}" for i in columns]
    known = thali.pl.reconstruction(made(tensor=np.eye(*SHAPE)), figure=Figure())
    assert known[0].get_legend() is None


def test_reconstruction_has_no_more_blocks_than_pixels(posterior):
    """A small picture of the same data averages."""
    figure = Figure(figsize=(1.0, 0.5), dpi=50)
    panels = thali.pl.reconstruction(posterior, figure=figure)
    n_rows, n_columns = shown(panels[0]).shape
    assert n_rows <= 25 < SHAPE[0]  # the pixels of the figure
    assert n_columns <= 50 // 3 < SHAPE[1]
    blocks = views.blocks(posterior, *views.seriate(posterior), (n_rows, n_columns))
    np.testing.assert_array_equal(shown(panels[2]), blocks.residual)
    assert texts(panels[0].get_yticklabels()) == []


def test_number_of_components_of_all_and_of_each(posterior):
    """Bars are all draws; marks are the chains, none where a chain has no draws."""
    ax = thali.pl.n_components(posterior, ax=axes())
    table = posterior.n_components_table()
    bars = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in ax.patches}
    assert bars == pytest.approx(table.to_dict())
    assert len(ax.lines) == posterior.n_chains
    for chain, line in enumerate(ax.lines):
        drawn = posterior.n_components[chain]
        expected = [(drawn == k).mean() for k in table.index]
        np.testing.assert_array_equal(line.get_ydata(), [e or np.nan for e in expected])
    assert texts(ax.get_legend().get_texts()) == ["all chains", "chain 1", "chain 2"]


def test_numbers_of_components_are_not_written_over_each_other(posterior):
    """Where there is little room, some numbers are left out; bars are not."""
    wide = thali.pl.n_components(posterior, ax=axes((3, 2)))
    narrow = thali.pl.n_components(posterior, ax=axes((0.5, 2)))
    assert (len(wide.get_xticks()), len(narrow.get_xticks())) == (2, 1)
    assert len(narrow.patches) == 2


def test_number_of_components_that_some_rows_have(posterior):
    """None has as many as 13 rows."""
    ax = thali.pl.n_components(posterior, least_users=14, ax=axes())
    assert [bar.get_height() for bar in ax.patches] == [1.0]
    assert "at least 14 rows" in ax.get_xlabel()


def test_traces_show_draws_and_judgement(posterior):
    """A line a chain, a title with R-hat and effective draws, red where they are bad."""
    panels = thali.pl.traces(posterior, figure=Figure())
    table = posterior.summary().drop(index="co_membership")
    assert len(panels) == len(table)
    for ax, (name, row) in zip(panels, table.iterrows(), strict=True):
        assert f"R-hat {row['r_hat']:.2f}, ESS {row['ess_bulk']:.0f}" in ax.get_title(loc="left")
        assert len(ax.lines) == posterior.n_chains
        if hasattr(posterior, name):
            drawn = getattr(posterior, name)
            np.testing.assert_array_equal([line.get_ydata() for line in ax.lines], drawn)


def test_traces_of_chains_that_disagree():
    """The title of what differs has another colour than the others."""
    apart = made(drop=lambda chain, i: chain == 1 or i == 3)
    panels = thali.pl.traces(apart, figure=Figure())
    colours = [ax._left_title.get_color() for ax in panels]
    assert apart.summary().loc["n_components", "r_hat"] > 1.05
    assert colours[0] == "#d55e00"
    assert mpl.rcParams["text.color"] in colours  # control: others are not marked


def test_one_rate_is_drawn_once():
    """Equal rates of both kinds of errors are one trace."""
    tensor = thali.simulate((20, 15), 2, seed=1).tensor
    equal = thali.model.EqualRates()
    posterior = thali.sample(tensor, noise=equal, chains=2, warmup=10, draws=10, seed=1)
    np.testing.assert_array_equal(posterior.spurious, posterior.dropped)
    panels = thali.pl.traces(posterior, figure=Figure())
    assert len(panels) == len(posterior.summary()) - 2  # the second rate, and co-membership


def test_overlap_has_rows_below_and_columns_above(posterior):
    """Jaccard indices, with counts in the cells."""
    ax = thali.pl.overlap(posterior, ax=axes())
    order = views.component_order(posterior)
    known = views.overlap(posterior)
    table = shown(ax)
    written = {tuple(map(round, t.get_position()[::-1])): t.get_text() for t in ax.texts}
    for i, a in enumerate(order):
        for j, b in enumerate(order):
            mode = int(i < j)
            if i == j:
                assert np.isnan(table[i, i])
                expected = "\N{MULTIPLICATION SIGN}".join(str(s[a, a]) for s in known.shared)
                assert written[i, i] == expected
            else:
                assert table[i, j] == known.jaccard[mode][a, b]
                n = known.shared[mode][a, b]
                assert written.get((i, j)) == (str(n) if n else None)
    assert texts(ax.get_yticklabels()) == [views.titles(posterior)[k] for k in order]


# --- where, and what else ------------------------------------------------------------------


@pytest.mark.parametrize("name", ON_AXES)
def test_own_axes_are_used_and_returned(posterior, name):
    """What is given is what comes back."""
    ax = axes()
    assert getattr(thali.pl, name)(posterior, ax=ax) is ax


@pytest.mark.parametrize("name", ON_FIGURE)
def test_own_figures_and_parts_of_them_are_used(posterior, name, tmp_path):
    """Also a part of a larger figure."""
    part = Figure(figsize=(12, 6)).subfigures(1, 2)[1]
    panels = getattr(thali.pl, name)(posterior, figure=part)
    assert isinstance(panels, np.ndarray)
    assert all(ax.figure is part for ax in panels)
    part.figure.savefig(tmp_path / "part.png")


def test_own_axes_leave_everything_else_alone(posterior):
    """Neither settings, nor pyplot's figures, nor the posterior change."""
    import matplotlib.pyplot as plt

    settings, numbers = dict(mpl.rcParams), plt.get_fignums()
    draw_all(posterior)
    assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == numbers


def test_without_axes_notebooks_see_the_figure(posterior, monkeypatch):
    """A new figure is known to pyplot, which shows it; nothing is shown from here."""
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: pytest.fail("show was called"))
    before = set(plt.get_fignums())
    for name in [*ON_AXES, *ON_FIGURE]:
        getattr(thali.pl, name)(posterior)
    new = set(plt.get_fignums()) - before
    assert len(new) == len(ON_AXES) + len(ON_FIGURE)
    for number in new:
        plt.close(number)


def test_names_that_do_not_fit_are_left_out(posterior):
    """Better none than unreadable ones; the axis says what it is."""
    ax = thali.pl.membership(posterior, ax=axes((3, 1.5)))
    assert texts(ax.get_yticklabels()) == []
    assert ax.get_ylabel() == f"row ({SHAPE[0]})"


@pytest.fixture(scope="module")
def bare():
    """Posteriors of data without names, and of data without components."""
    few = {"chains": 1, "warmup": 10, "draws": 10}
    return [thali.sample(tensor, **few, seed=1) for tensor in (np.zeros((6, 5)), np.eye(6))]


@pytest.mark.parametrize("name", [*ON_AXES, *ON_FIGURE])
def test_data_without_names_or_components(name, bare):
    """Nothing to show is said, not an error."""
    key = "ax" if name in ON_AXES else "figure"
    for posterior in bare:
        target = axes() if key == "ax" else Figure()
        assert getattr(thali.pl, name)(posterior, **{key: target}) is not None


def test_tensors_are_shown_by_two_of_their_modes():
    """The others are averaged over; columns can be any mode but the first."""
    tensor = thali.simulate((9, 5, 7), 2, seed=1).tensor
    posterior = thali.sample(tensor, n_components=2, chains=2, warmup=10, draws=10, seed=1)
    draw_all(posterior)
    assert shown(thali.pl.components(posterior, mode=2, ax=axes())).shape == (7, 2)
    panels = thali.pl.reconstruction(posterior, mode=2, figure=Figure())
    np.testing.assert_allclose(
        np.sort(shown(panels[0]).ravel()), np.sort(tensor.mean(axis=1).ravel())
    )
    with pytest.raises(ValueError, match="mode=3 was given"):
        thali.pl.overlap(posterior, mode=3, ax=axes())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: thali.pl.membership(p.tensor), TypeError, "a PackedTensor was given"),
        (lambda p: thali.pl.membership(p, ax=Figure()), TypeError, "ax is a Figure"),
        (lambda p: thali.pl.traces(p, figure=axes()), TypeError, "figure is a Axes"),
        (lambda p: thali.pl.membership(p, labels="abc"), TypeError, "labels='abc' were given"),
        (lambda p: thali.pl.membership(p, labels=3), TypeError, "labels=3 were given"),
        (lambda p: thali.pl.membership(p, labels=["a"]), ValueError, "for 40 rows"),
        (lambda p: thali.pl.membership(p, labels=np.eye(40)), ValueError, r"\(40, 40\)"),
        (lambda p: thali.pl.membership(p, labels=[[]] * 40), TypeError, "cannot be compared"),
        (lambda p: thali.pl.membership(p, order="x"), ValueError, "order='x' was given"),
        (lambda p: thali.pl.membership(p, order="labels"), ValueError, "'labels' .with labels"),
        (lambda p: thali.pl.membership(p, order=[40]), ValueError, "from 0 to 39"),
        (lambda p: thali.pl.membership(p, order=[0.5]), ValueError, "order of shape"),
        (lambda p: thali.pl.components(p, n_top=0), ValueError, "n_top=0 was given"),
        (lambda p: thali.pl.components(p, mode=2), ValueError, "mode=2 was given"),
        (lambda p: thali.pl.reconstruction(p, mode=0), ValueError, "mode=0 was given"),
        (lambda p: thali.pl.n_components(p, least_users=0), ValueError, "least_users=0"),
    ],
)
def test_bad_questions_are_one_sentence(posterior, call, error, message):
    """What was given, what is allowed, what to do; before a figure is made."""
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    with pytest.raises(error, match=message):
        call(posterior)
    assert plt.get_fignums() == before


def test_no_draws_are_said():
    """A run that was stopped in its warm-up has nothing to show."""
    with pytest.raises(ValueError, match="no draws to show yet"):
        thali.pl.traces(made(n_draws=0))


def test_matplotlib_is_asked_for_only_when_something_is_drawn():
    """``thali.pl`` can be named without it; drawing says how to install it."""
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.path.insert(0, 'tests')\n"
        "import thali; from support.made import made; thali.pl.membership\n"
        "try: thali.pl.n_components(made())\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "thali[plot]"' in run.stdout


# --- colours -------------------------------------------------------------------------------


def luminance(colours):
    """Relative luminance of colours as in the Web Content Accessibility Guidelines."""
    rgb = np.asarray(colours)[..., :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_colours_stand_out_from_white_and_black():
    """At least 2 to 1 on white and 3 to 1 on black: lines are read on both."""
    light = luminance([mpl.colors.to_rgb(colour) for colour in COLOURS])
    assert (1.05 / (light + 0.05)).min() > 2.0
    assert ((light + 0.05) / 0.05).min() > 3.0


def test_maps_are_read_without_colour():
    """Probability is darkness, monotonously; a difference is darkness away from its middle."""
    steps = np.linspace(0, 1, 101)
    assert (np.diff(luminance(probability_map()(steps))) < 0).all()
    light = luminance(difference_map()(steps))
    assert (np.diff(light[:50]) > 0).all()
    assert (np.diff(light[51:]) < 0).all()


def test_grey_is_on_no_map():
    """What is unknown differs from every value by more than a tenth in some channel."""
    grey = np.array(mpl.colors.to_rgb(UNKNOWN))
    for colours in (probability_map(), difference_map()):
        distance = np.abs(colours(np.linspace(0, 1, 101))[:, :3] - grey).max(axis=1)
        assert distance.min() > 0.1
