"""The picture of the README: ``./dev python experiments/overview.py``.

Users and permissions, first as they come, then with rows and columns in the order of the
components that thali finds, and what it takes for errors.
"""

import matplotlib as mpl
from _runs import ROOT
from matplotlib.figure import Figure

import thali
from thali.data.readers.files import read

mpl.rcParams.update({"svg.hashsalt": "thali", "font.size": 8})
posterior = thali.sample(read(ROOT / "examples" / "roles.csv"), seed=1)
figure = Figure(figsize=(9.0, 4.2), dpi=110, layout="constrained")
thali.pl.reconstruction(posterior, figure=figure)
path = ROOT / "docs" / "images" / "roles.png"
figure.savefig(path, facecolor="white")
print(f"wrote {path}")
