"""Draw where the truth ranks among posterior draws: docs/images/calibration.svg.

The same data sets, seeds and limits as tests/statistics/test_calibration.py; about nine minutes
on two cores. One panel a quantity: the share of data sets whose true value ranks below a level,
minus that level, for both schedules and for a sampler with a known mistake.
"""

import sys

import numpy as np
from _runs import BLUE, GREEN, GREY, ORANGE, ROOT, draw
from matplotlib.figure import Figure

sys.path.insert(0, str(ROOT / "tests"))

from support import ranks

IMAGE = ROOT / "docs" / "images" / "calibration.svg"
BAND = 1e-3
RUNS = {
    "parallel schedule": ("parallel", None, ranks.N_SETS, {"color": BLUE}),
    "serial schedule": ("serial", None, ranks.N_SETS, {"color": GREEN}),
    "a mistake on purpose": (
        "serial",
        "one zero too many",
        ranks.N_SETS // 2,
        {"color": ORANGE, "ls": (0, (4, 1))},
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
    draw(IMAGE, plot, found)


if __name__ == "__main__":
    main()
