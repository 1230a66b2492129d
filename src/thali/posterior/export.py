"""Export of the posterior as a tree of labelled arrays, for ArviZ, xarray and files.

Groups follow the conventions of ArviZ: ``posterior`` (quantities that can be compared between
draws), ``sample_stats``, ``log_likelihood``, ``posterior_predictive``, ``observed_data`` and
``constant_data``. The factors have a group of
their own: components have no labels, so averages by position are meaningless, and functions that
summarize the group ``posterior`` must not compute them.
"""

from __future__ import annotations

import json
import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import thali
from thali.bits.tensor import unfold_back
from thali.checks import count
from thali.data.layout import to_front
from thali.errors import MissingLibrary, require
from thali.model import Effects
from thali.posterior.levels import in_log_odds
from thali.posterior.pointwise import pointwise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import xarray as xr
    from numpy.typing import NDArray

    from thali.bits import Words
    from thali.posterior.posterior import Posterior

MOST_DENSE = 1 << 22
"""Entries up to which data are exported dense (1 byte per entry, 4 if some are unknown)."""

_DRAW = ("chain", "draw")
_LEVELS = ("row_level", "column_level", "jump")
_TAKEN = (
    *_DRAW,
    *_LEVELS,
    "entry",
    "entries",
    "component",
    "byte",
    "tensor",
    "ones_bits",
    "known_bits",
)


N_ENTRIES = 1000
"""Number of entries whose log likelihood is exported by default."""


def to_datatree(
    posterior: Posterior, *, factors: bool = True, data: bool = True, entries: int = N_ENTRIES
) -> xr.DataTree:
    """Return the posterior as a tree of labelled arrays, as ArviZ 1.x takes it.

    Parameters
    ----------
    posterior
        A :class:`~thali.posterior.Posterior`.
    factors
        Whether to include the factors, one bit per entry, and levels of rows and columns. Factors
        take ``n_chains * n_draws * n_components * n_rows / 8`` bytes of memory per mode, levels
        four bytes for every row, and eight for every column, of each draw.
    data
        Whether to include the data.
    entries
        Number of known entries whose log likelihood and replicates are included, 9 bytes for each
        in every draw; 0 leaves these groups out. If there are more, some are chosen, spread
        evenly over the data, and always the same.

    Returns
    -------
    tree
        Tree with the following groups:

        ``posterior``
            ``(chain, draw)``: ``n_components``, the quantities of the noise (``spurious`` and
            ``dropped``, under row and column effects also ``row_spread``, ``column_spread`` and
            ``jump_spread``), ``alpha`` if the number of components is inferred, and
            ``density_<mode>`` for modes that have a density.
        ``sample_stats``
            ``(chain, draw)``: ``lp`` (log joint density), ``log_likelihood_total`` and ``sweep``.
            ``log_likelihood`` is avoided: ArviZ expects one value per entry under that name.
        ``log_likelihood``
            ``entries``, ``(chain, draw, entry)``: the log probability of single known entries,
            given the draw, as ``arviz.loo`` takes it; ``entry_<mode>`` says where they are. The
            score of all known entries is about that of these, times ``n_known / n_entries``
            (its attributes).
        ``posterior_predictive``
            ``entries``, ``(chain, draw, entry)``: the same entries simulated, given the draw.
        ``factors``
            ``factor_<mode>_bits``, ``(chain, draw, component, byte_<mode>)``: eight rows per byte,
            the lowest bit first, padded with zeros to the largest number of components. Read them
            with :func:`factors_of`.
        ``levels``
            Under row and column effects, in log odds: ``row_level``, ``(chain, draw, <first
            mode>)``, ``column_level`` and ``jump``, ``(chain, draw, <second mode>)``, and
            ``level_<mode>`` for further modes of a tensor, float32. They are not in ``posterior``,
            so that summaries of that group need not list every row.
        ``observed_data``
            ``tensor``, one axis per mode, NaN where unknown. More than four million entries are
            packed: ``ones_bits`` and, if some entries are unknown, ``known_bits`` hold the rows
            of the first mode in the layout of :class:`thali.bits.Unfolding`. ``entries`` are the
            single entries of ``log_likelihood``.
        ``constant_data``
            ``row_names_<mode>`` for modes whose rows have names.

        ``<mode>`` is the name of the mode; all but letters and digits become underscores.

    Notes
    -----
    ``tree.to_zarr(path, consolidated=False)`` adheres to the specification of Zarr. For quantities
    that never change, such as a fixed number of components, ArviZ returns NaN, with a warning.

    Examples
    --------
    >>> import thali
    >>> from thali.posterior.export import factors_of, to_datatree
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> posterior = thali.sample(
    ...     data.tensor, noise="unequal", chains=2, warmup=150, draws=50, seed=1
    ... )  # the model of these data
    >>> tree = to_datatree(posterior)
    >>> float(tree["posterior"]["n_components"].mean())
    3.0
    >>> [factor.shape for factor in factors_of(tree, chain=0, draw=49)]
    [(60, 3), (80, 3)]
    """
    xarray = require("xarray", extra="bayes")
    labels = _labels(posterior.mode_names)
    library = {"inference_library": "thali", "inference_library_version": thali.__version__}
    coordinates = {"chain": np.arange(posterior.n_chains), "draw": np.arange(posterior.n_draws)}
    bits, sweeps = _factors(posterior, labels if factors else [])
    groups: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "posterior": (_parameters(posterior, labels), coordinates),
        "sample_stats": (
            {
                "lp": (_DRAW, posterior.log_joint),
                "log_likelihood_total": (_DRAW, posterior.log_likelihood),
                "sweep": (_DRAW, sweeps),
            },
            coordinates,
        ),
    }
    if factors:
        groups["factors"] = (bits, coordinates)
        if isinstance(posterior.settings.model.priors(len(labels)).noise, Effects):
            names = dict(_row_names(posterior, labels))
            groups["levels"] = (_levels(posterior, labels), coordinates | names)
    observed = {}
    if count("entries", entries):
        observed = _entries(posterior, labels, entries, groups, coordinates)
    if data:
        variables, names_of = _observed(posterior, labels)
        groups["observed_data"] = (variables | observed, names_of)
        names = _names(posterior, labels)
        if names:
            groups["constant_data"] = (names, {})
    tree = xarray.DataTree.from_dict(
        {
            name: xarray.Dataset(variables, coords, attrs=library)
            for name, (variables, coords) in groups.items()
        }
    )
    settings = json.dumps(posterior.settings.to_json())
    modes = json.dumps(list(posterior.mode_names))
    tree.attrs.update(library | {"settings": settings, "mode_names": modes})
    return tree  # type: ignore[no-any-return]


def factors_of(tree: xr.DataTree, chain: int, draw: int) -> tuple[NDArray[np.bool_], ...]:
    """Return the factors of one draw of an exported posterior.

    Parameters
    ----------
    tree
        Tree that :func:`to_datatree` returned, or a part or stored copy of it.
    chain, draw
        Values of the coordinates ``chain`` and ``draw`` of the tree. A draw keeps its number when
        others are cut off.

    Returns
    -------
    factors
        One Boolean ``(n_rows, n_components)`` array per mode.
    """
    if "factors" not in tree.children:
        msg = "this tree has no group 'factors'; export it anew with factors=True."
        raise ValueError(msg)
    group, at = tree.children["factors"].dataset, {"chain": chain, "draw": draw}
    try:
        n_components = int(tree.children["posterior"].dataset["n_components"].sel(at))
        bits = sorted(group.sel(at).data_vars.values(), key=_mode_of)
    except KeyError:
        msg = (
            f"chain={chain!r} and draw={draw!r} were given; this tree has chains "
            f"{_range_of(group['chain'])} and draws {_range_of(group['draw'])}; choose from those."
        )
        raise ValueError(msg) from None
    return tuple(_unpack(part, n_components) for part in bits)


def to_inferencedata(posterior: Posterior, **chosen: Any) -> Any:
    """Return the posterior as ``arviz.InferenceData``, for ArviZ before 1.0.

    Parameters
    ----------
    posterior, **chosen
        As for :func:`to_datatree`.

    Returns
    -------
    inference_data
        The same groups as :func:`to_datatree` returns.

    Raises
    ------
    MissingLibrary
        If ArviZ is missing, or is 1.0 or later.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # 0.23 announces 1.0 whenever imported
        arviz = require("arviz", extra="bayes")
    # In 1.x, InferenceData is another name of DataTree, so its presence proves nothing.
    if int(arviz.__version__.split(".")[0]) >= 1:
        msg = (
            f"ArviZ {arviz.__version__} is installed, which has no InferenceData any more; use "
            "to_datatree(), whose result it accepts directly, or install 'arviz<1'."
        )
        raise MissingLibrary(msg, name="arviz")
    return arviz.InferenceData.from_datatree(to_datatree(posterior, **chosen))


# --- groups --------------------------------------------------------------------------------


def _labels(mode_names: Sequence[str]) -> list[str]:
    """Return distinct names of modes that are valid in names of variables."""
    labels: list[str] = []
    for mode, name in enumerate(mode_names):
        label = re.sub(r"\W", "_", name) or "mode"
        while label in (*labels, *_TAKEN):
            label = f"{label}_{mode}"
        labels.append(label)
    return labels


def _entries(
    posterior: Posterior,
    labels: list[str],
    n_entries: int,
    groups: dict[str, tuple[dict[str, Any], dict[str, Any]]],
    coordinates: dict[str, Any],
) -> dict[str, Any]:
    """Add the groups of single entries; return what was observed there."""
    found = pointwise(posterior, n_entries)
    places = {
        f"entry_{label}": ("entry", found.positions[:, mode]) for mode, label in enumerate(labels)
    }
    within = coordinates | {"entry": np.arange(len(found.positions))} | places
    numbers = {"n_entries": len(found.positions), "n_known": posterior.tensor.n_known}
    dims = (*_DRAW, "entry")
    groups["log_likelihood"] = ({"entries": (dims, found.log_likelihood, numbers)}, within)
    groups["posterior_predictive"] = ({"entries": (dims, found.replicated, numbers)}, within)
    return {"entries": ("entry", found.observed, numbers)}


def _parameters(posterior: Posterior, labels: list[str]) -> dict[str, Any]:
    drawn = {"n_components": posterior.n_components, **posterior.noise}
    variables: dict[str, Any] = {name: (_DRAW, values) for name, values in drawn.items()}
    if not posterior.settings.model.is_finite:
        variables["alpha"] = (_DRAW, posterior.alpha)
    for label, density in zip(labels, posterior.densities, strict=True):
        if density is not None:
            variables[f"density_{label}"] = (_DRAW, density)
    return variables


def _factors(posterior: Posterior, labels: list[str]) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """Gather packed factors and sweep numbers in one pass over the draws."""
    shape = (posterior.n_chains, posterior.n_draws)
    n_components = int(posterior.n_components.max(initial=0))
    rows = posterior.tensor.shape
    bits = [
        np.zeros((*shape, n_components, -(-n_rows // 8)), np.uint8)
        for n_rows, _ in zip(rows, labels, strict=False)
    ]
    sweeps = np.zeros(shape, np.int64)
    for at, draw in zip(np.ndindex(shape), posterior, strict=True):
        sweeps[at] = draw.state.sweep
        for out, factor in zip(bits, draw.state.factors, strict=False):
            out[(*at, slice(factor.n_components))] = _octets(factor.words)[:, : out.shape[-1]]
    variables = {}
    for mode, (label, part) in enumerate(zip(labels, bits, strict=True)):
        attributes = {
            "mode": mode,
            "mode_name": posterior.mode_names[mode],
            "n_rows": rows[mode],
            "bitorder": "little",
        }
        dims = (*_DRAW, "component", f"byte_{label}")
        variables[f"factor_{label}_bits"] = (dims, part, attributes)
    return variables, sweeps


def _levels(posterior: Posterior, labels: list[str]) -> dict[str, Any]:
    """Gather the levels of rows, columns and further modes, and the jumps of columns."""
    named = (*_LEVELS[:2], *(f"level_{label}" for label in labels[2:]))
    rows, columns, *more = to_front(range(len(labels)), posterior.settings.mode)
    modes = (rows, columns, columns, *more)  # of the data, in the order of the sampler
    names = (named[rows], named[columns], _LEVELS[2], *(named[mode] for mode in more))
    shape = (posterior.n_chains, posterior.n_draws)
    arrays = [np.zeros((*shape, posterior.shape[mode]), np.float32) for mode in modes]
    for at, draw in zip(np.ndindex(shape), posterior, strict=True):
        for array, values in zip(arrays, in_log_odds(draw), strict=True):
            array[at] = values
    return {
        name: ((*_DRAW, labels[mode]), array)
        for name, mode, array in zip(names, modes, arrays, strict=True)
    }


def _observed(posterior: Posterior, labels: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the data, dense if small."""
    tensor = posterior.tensor
    ones, known = tensor.unfoldings[0]
    if np.prod(tensor.shape) <= MOST_DENSE:
        dense: NDArray[Any] = unfold_back(ones, tensor.shape).astype(np.int8)
        if known is not None:
            is_known = unfold_back(known, tensor.shape)
            dense = np.where(is_known, dense, np.float32(np.nan)).astype(np.float32)
        coordinates = {label: (label, values) for label, values in _row_names(posterior, labels)}
        return {"tensor": (labels, dense)}, coordinates
    attributes = {"shape": list(tensor.shape), "bitorder": "little"}
    variables = {}
    for name, words in (("ones_bits", ones), ("known_bits", known)):
        if words is not None:
            variables[name] = ((labels[0], "byte"), _octets(words), attributes)
    return variables, {}


def _names(posterior: Posterior, labels: list[str]) -> dict[str, Any]:
    return {
        f"row_names_{label}": (label, values) for label, values in _row_names(posterior, labels)
    }


def _row_names(
    posterior: Posterior, labels: list[str]
) -> Iterator[tuple[str, NDArray[np.object_]]]:
    """Yield the names of rows, for modes that have names."""
    for label, names in zip(labels, posterior.row_names, strict=True):
        if names is not None:
            # Objects, because Zarr does not specify strings of fixed length.
            yield label, np.array(names, object)


# --- bits ----------------------------------------------------------------------------------


def _octets(words: Words) -> NDArray[np.uint8]:
    """Return words as bytes, the lowest first."""
    return np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)


def _unpack(bits: xr.DataArray, n_components: int) -> NDArray[np.bool_]:
    octets = np.ascontiguousarray(bits.to_numpy()[:n_components], np.uint8)
    n_rows = int(bits.attrs["n_rows"])
    dense = np.unpackbits(octets, axis=-1, count=n_rows, bitorder="little").view(np.bool_)
    return np.ascontiguousarray(dense.T)


def _mode_of(bits: xr.DataArray) -> int:
    return int(bits.attrs["mode"])


def _range_of(coordinate: xr.DataArray) -> str:
    values = coordinate.to_numpy()
    return f"{values.min()} to {values.max()}" if values.size else "(none)"
