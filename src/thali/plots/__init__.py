"""Pictures of a posterior, with Matplotlib (needs ``thali[plot]``); public as ``thali.pl``.

Every function takes a :class:`~thali.Posterior` and returns the Axes it drew on. Give it ``ax``
(or ``figure`` where there are several Axes) to draw on one of yours: then nothing else is touched.
Without, a new figure is made with ``pyplot``, as ArviZ, scanpy and pandas do: notebooks show it by
themselves, scripts with ``plt.show()``. No function shows, saves or closes a figure, or changes a
setting.
"""

from thali.plots.chains import n_components, traces
from thali.plots.maps import components, membership, overlap
from thali.plots.pixels import reconstruction

__all__ = [
    "components",
    "membership",
    "n_components",
    "overlap",
    "reconstruction",
    "traces",
]
