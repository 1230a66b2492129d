"""Pictures of a posterior, with Matplotlib (needs ``thali[plot]``); public as ``thali.pl``.

Every function takes a :class:`~thali.Posterior`, only :func:`errors` a
:class:`~thali.Factorization`, and returns the Axes that it drew on. To draw on existing Axes, pass
them as ``ax`` (or pass a ``figure`` to functions that draw on several Axes); nothing else is
touched then. Otherwise, the function makes a new figure with ``pyplot``, as ArviZ, scanpy and
pandas do: notebooks show it automatically, scripts with ``plt.show()``. No function shows, saves
or closes a figure, or changes a setting of Matplotlib.
"""

from thali.plots.chains import n_components, traces
from thali.plots.effects import effects
from thali.plots.fewest import errors
from thali.plots.maps import components, membership, overlap
from thali.plots.pixels import reconstruction

__all__ = [
    "components",
    "effects",
    "errors",
    "membership",
    "n_components",
    "overlap",
    "reconstruction",
    "traces",
]
