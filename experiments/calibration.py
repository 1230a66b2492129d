"""Draw where the truth ranks among posterior draws: docs/images/calibration.svg.

The same data sets, seeds and limits as tests/statistics/test_calibration.py; about nine minutes
on two cores. One panel a quantity: the share of data sets whose true value ranks below a level,
minus that level, for both schedules and for a sampler with a known mistake.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import ranks  # noqa: E402 - found by the line above

IMAGE = ROOT / "docs" / "images" / "calibration.svg"
BAND = 1e-3
GREY = "#808080"  # this and the colours below are readable on white and on black
RUNS = {
    "parallel schedule": ("parallel", None, ranks.N_SETS, {"color": "#3b8ede"}),
    "serial schedule": ("serial", None, ranks.N_SETS, {"color": "#17a589"}),
    "a mistake on purpose": (
        "serial",
        "one zero too many",
        ranks.N_SETS // 2,
        {"color": "#e8590c", "ls": (0, (4, 1))},
    ),
}
TITLES = {
    "spurious": "rate of spurious ones",
    "dropped": "rate of dropped ones",
    "alpha": "concentration",
    "density": "density",
    "n_components": "number of components",
    "covered": "ones before bit flips",
    "log_likelihood": "log-likelihood",
}
STYLE = {
    "svg.hashsalt": "thali",  # the same file every time
    "font.size": 9,
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "axes.titlesize": 9,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "lines.linewidth": 1.5,
}


def plot(found):
    """Return the figure for ranks by run."""
    figure = Figure(figsize=(9.0, 4.4), layout="constrained")
    panels = figure.subplots(2, 4, sharex=True, sharey=True).ravel()
    level = ranks.CUTS / (ranks.DRAWS + 1)
    x = np.array([0.0, *level, 1.0])
    limits = ranks.limits(ranks.N_SETS, BAND)
    low, high = (np.pad(limit / ranks.N_SETS - level, 1) for limit in limits)
    for column, name in enumerate(ranks.QUANTITIES):
        panel = panels[column]
        panel.fill_between(
            x, low, high, color=GREY, alpha=0.25, lw=0, label=f"{1 - BAND:.1%} band"
        )
        for label, (*_, style) in RUNS.items():
            share = ranks.below_cuts(found[label])[:, column] / len(found[label])
            panel.plot(x, np.pad(share - level, 1), label=label, **style)
        panel.set_title(TITLES[name])
        panel.set(xlim=(0.0, 1.0), xticks=[0.0, 0.5, 1.0])
        panel.spines[["top", "right"]].set_visible(False)
        panel.patch.set_visible(False)
    panels[3].xaxis.set_tick_params(labelbottom=True)
    figure.supxlabel("rank of the true value, as a share of draws", fontsize=9)
    figure.supylabel("share of data sets below it, minus it", fontsize=9)
    panels[-1].axis("off")
    panels[-1].legend(*panels[0].get_legend_handles_labels(), loc="center", frameon=False)
    return figure


def main():
    found = {}
    for label, (kind, mistake, n_sets, _) in RUNS.items():
        found[label] = ranks.all_ranks(kind, n_sets, mistake)
        outside = ranks.uncalibrated(found[label])
        print(f"{label}: beyond the limits: {', '.join(outside) or 'none'}", flush=True)
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        plot(found).savefig(IMAGE, transparent=True, metadata={"Date": None})
    print(f"wrote {IMAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
