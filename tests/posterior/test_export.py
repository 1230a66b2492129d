"""What is exported is what was drawn, survives a file, and ArviZ can read it."""

import json
import warnings
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import thali
from support.chains import NO_MOVES
from thali import BinaryTensor
from thali.bits import PackedTensor
from thali.bits.tensor import unfold_back
from thali.errors import MissingLibrary
from thali.model import Beta, Gamma, Model
from thali.posterior import export
from thali.posterior.export import factors_of, to_datatree, to_inferencedata
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key
from thali.trace import Draw, Settings

xr = pytest.importorskip("xarray")

N_CHAINS, N_DRAWS, WARMUP, THIN = 2, 6, 40, 2


class StandIn(SimpleNamespace):
    """The attributes of a posterior that the export reads."""

    def __iter__(self):
        return (draw for draws in self.drawn for draw in draws)

    def factors(self, at, draw):
        return tuple(f.dense() for f in self.drawn[at][draw].state.factors)


def stand_in(data, model, mode_names=None, row_names=None):
    tensor = BinaryTensor.from_any(data, mode_names=mode_names, row_names=row_names)
    schedule = Schedule(warmup=WARMUP, **NO_MOVES)  # so that the number varies
    target = Target.prepare(tensor, model, schedule, threads=1)
    settings = Settings(tensor.shape, model, schedule, 7, N_CHAINS, N_DRAWS, THIN)
    drawn = [
        [
            Draw(state, info.log_joint, info.log_likelihood)
            for state, info in chain(chain_key(7, c), target, WARMUP + N_DRAWS * THIN)
            if settings.is_draw(state.sweep)
        ]
        for c in range(N_CHAINS)
    ]

    def each(read):
        return np.array([[read(draw) for draw in draws] for draws in drawn])

    noise = {
        "spurious": each(lambda d: d.state.noise.spurious),
        "dropped": each(lambda d: d.state.noise.dropped),
    }
    priors = model.priors(tensor.arity)
    return StandIn(
        drawn=drawn,
        settings=settings,
        tensor=PackedTensor.from_tensor(tensor),
        shape=tensor.shape,
        n_chains=N_CHAINS,
        n_draws=N_DRAWS,
        mode_names=tensor.mode_names,
        row_names=tensor.row_names,
        n_components=each(lambda d: d.state.n_components),
        noise=noise,
        **noise,
        alpha=each(lambda d: d.state.alpha),
        log_joint=each(lambda d: d.log_joint),
        log_likelihood=each(lambda d: d.log_likelihood),
        densities=tuple(
            None if prior is None else each(lambda d, m=mode: d.state.densities[m].mean())
            for mode, prior in enumerate(priors.densities)
        ),
    )


@cache
def posterior(name):
    if name == "buffet":
        data = thali.simulate((21, 70), 3, spurious=0.2, unknown=0.1, seed=1)
        names = [[f"cell {i}" for i in range(21)], None]
        model = Model(alpha=Gamma(40.0, 2.0), density=Beta(2.0, 40.0))  # components come and go
        return stand_in(data.tensor, model, ["cells", "genes / panel"], names)
    if name == "tensor":
        data = thali.simulate((5, 9, 4), 2, spurious=0.05, seed=2)
        return stand_in(data.tensor, Model(n_components=2, density=(0.4, 0.3, 0.2)))
    return stand_in(np.zeros((6, 7)), Model(n_components=0))  # "empty": nothing in any draw


NAMES = ["buffet", "tensor", "empty"]


@cache
def arviz():
    """ArviZ, without its announcement of the next version; None if it is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import arviz
        except ImportError:
            return None
    return arviz


def needs_arviz(first, last):
    if arviz() is None:
        pytest.skip("ArviZ is not installed")
    version = int(arviz().__version__.split(".")[0])
    if not first <= version <= last:
        pytest.skip(f"ArviZ {arviz().__version__} is installed; this is about {first} to {last}")


# --- what is in it -------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_scalars_are_those_of_the_posterior(name):
    """Chain and draw are the dimensions; the sweep of a draw is known."""
    drawn = posterior(name)
    tree = to_datatree(drawn)
    parameters, stats = tree["posterior"], tree["sample_stats"]
    for variable in ("n_components", "spurious", "dropped"):
        assert parameters[variable].dims == ("chain", "draw")
        np.testing.assert_array_equal(parameters[variable], getattr(drawn, variable))
    np.testing.assert_array_equal(stats["lp"], drawn.log_joint)
    np.testing.assert_array_equal(stats["log_likelihood_total"], drawn.log_likelihood)
    expected = WARMUP + THIN * (1 + np.arange(N_DRAWS))
    np.testing.assert_array_equal(stats["sweep"], [expected] * N_CHAINS)
    assert parameters["draw"].values.tolist() == list(range(N_DRAWS))


def test_parameters_depend_on_the_model():
    """The concentration belongs to the buffet, a density to every other factor."""
    buffet = to_datatree(posterior("buffet"))["posterior"]
    finite = to_datatree(posterior("tensor"))["posterior"]
    common = {"n_components", "spurious", "dropped"}
    assert set(buffet.data_vars) == common | {"alpha", "density_genes___panel"}
    assert set(finite.data_vars) == common | {f"density_mode_{m}" for m in range(3)}
    np.testing.assert_array_equal(
        buffet["density_genes___panel"], posterior("buffet").densities[1]
    )


@pytest.mark.parametrize("name", NAMES)
def test_factors_are_read_back(name):
    """Every draw, every mode, bit for bit, in the order of the modes."""
    drawn = posterior(name)
    tree = to_datatree(drawn)
    for at in np.ndindex(N_CHAINS, N_DRAWS):
        found, expected = factors_of(tree, *at), drawn.factors(*at)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == np.bool_
            np.testing.assert_array_equal(a, b)


def test_the_number_of_components_varies_in_the_test():
    """Otherwise the padding would not be tested."""
    assert len(set(posterior("buffet").n_components.ravel())) > 1


def test_factors_are_packed_eight_rows_a_byte():
    """Low bits first, padded with zeros to the largest number of components."""
    drawn = posterior("buffet")
    bits = to_datatree(drawn)["factors"]["factor_cells_bits"]
    assert bits.dims == ("chain", "draw", "component", "byte_cells")
    assert bits.dtype == np.uint8
    assert bits.shape == (N_CHAINS, N_DRAWS, drawn.n_components.max(), 3)
    assert (bits.attrs["n_rows"], bits.attrs["bitorder"]) == (21, "little")
    for at in np.ndindex(N_CHAINS, N_DRAWS):
        used = drawn.n_components[at]
        dense = drawn.factors(*at)[0]
        assert not bits.values[at][used:].any()
        for component in range(used):
            for row in range(21):
                bit = bits.values[at][component, row // 8] >> (row % 8) & 1
                assert bit == dense[row, component]


def test_draws_keep_their_numbers_when_some_are_cut_off():
    """A draw is named by its coordinate, not by its position."""
    drawn = posterior("buffet")
    part = to_datatree(drawn).sel(draw=slice(2, None), chain=[1])
    for a, b in zip(factors_of(part, 1, 4), drawn.factors(1, 4), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="has chains 1 to 1 and draws 2 to 5; choose from those"):
        factors_of(part, 0, 4)


@pytest.mark.parametrize("name", NAMES)
def test_data_are_dense_when_small(name):
    """One axis a mode; NaN where unknown."""
    drawn = posterior(name)
    tensor = to_datatree(drawn)["observed_data"]["tensor"]
    ones, known = drawn.tensor.unfoldings[0]
    assert tensor.shape == drawn.shape
    if known is None:
        assert tensor.dtype == np.int8
        np.testing.assert_array_equal(tensor, unfold_back(ones, drawn.shape))
    else:
        is_known = unfold_back(known, drawn.shape)
        assert (np.isnan(tensor.values) == ~is_known).all()
        np.testing.assert_array_equal(
            tensor.values[is_known], unfold_back(ones, drawn.shape)[is_known]
        )


@pytest.mark.parametrize("name", ["buffet", "tensor"])
def test_large_data_are_packed(name, monkeypatch):
    """The words of the first unfolding, as bytes."""
    monkeypatch.setattr(export, "MOST_DENSE", 100)
    drawn = posterior(name)
    group = to_datatree(drawn)["observed_data"]
    assert list(group["ones_bits"].attrs["shape"]) == list(drawn.shape)
    assert ("known_bits" in group) == (name == "buffet")
    for variable in set(group.data_vars) - {"entries"}:
        words = group[variable].values.view("<u8")
        expected = getattr(drawn.tensor.unfoldings[0], variable.removesuffix("_bits"))
        np.testing.assert_array_equal(words, expected)


def test_rows_are_called_as_in_the_data():
    """As coordinates of the data, and by themselves."""
    tree = to_datatree(posterior("buffet"))
    names = [f"cell {i}" for i in range(21)]
    assert tree["observed_data"]["cells"].values.tolist() == names
    assert tree["constant_data"]["row_names_cells"].values.tolist() == names
    assert "genes___panel" not in tree["observed_data"].coords
    assert "constant_data" not in to_datatree(posterior("tensor")).children


def test_origin_and_settings_are_in_the_attributes():
    """Enough to sample the same again."""
    drawn = posterior("buffet")
    tree = to_datatree(drawn)
    for attributes in (tree.attrs, tree["posterior"].attrs):
        assert attributes["inference_library"] == "thali"
        assert attributes["inference_library_version"] == thali.__version__
    assert Settings.from_json(json.loads(tree.attrs["settings"])) == drawn.settings
    assert json.loads(tree.attrs["mode_names"]) == ["cells", "genes / panel"]


def test_parts_can_be_left_out():
    """Without factors there is nothing to read, which is said."""
    tree = to_datatree(posterior("buffet"), factors=False, data=False, entries=0)
    assert set(tree.children) == {"posterior", "sample_stats"}
    assert tree["sample_stats"]["sweep"].values[0, 0] == WARMUP + THIN
    with pytest.raises(ValueError, match="no group 'factors'; export it anew with factors=True"):
        factors_of(tree, 0, 0)


@pytest.mark.parametrize(
    "names", [("chain", "draw"), ("a b", "a_b"), ("x__1", "x "), ("tensor", "byte"), ("", "mode")]
)
@pytest.mark.parametrize("most", [0, 100])
def test_awkward_names_of_modes_stay_apart(names, most, monkeypatch):
    """Whatever modes are called, the tree is complete."""
    monkeypatch.setattr(export, "MOST_DENSE", most)
    drawn = stand_in(np.eye(6, 7), Model(n_components=1), names, [list("abcdef"), list("abcdefg")])
    tree = to_datatree(drawn)
    assert len(tree["factors"].data_vars) == 2
    assert len(tree["constant_data"].data_vars) == 2
    assert [f.shape for f in factors_of(tree, 1, 0)] == [(6, 1), (7, 1)]
    assert [tree["factors"][v].attrs["mode_name"] for v in tree["factors"].data_vars] == [*names]


# --- files ---------------------------------------------------------------------------------


def write_netcdf(tree, path):
    tree.to_netcdf(path, engine="h5netcdf")
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        return opened.load()


def write_zarr(tree, path):
    # Consolidated metadata are not part of the third format, and Zarr warns of them.
    tree.to_zarr(path, consolidated=False)
    return xr.open_datatree(path, engine="zarr", consolidated=False).load()


@pytest.mark.filterwarnings("ignore:.*Zarr format 3 specification:UserWarning")  # strings, in 3.0
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("libraries", "write"), [(("h5netcdf", "h5py"), write_netcdf), (("zarr",), write_zarr)]
)
def test_files_hold_everything(name, libraries, write, packed, tmp_path, monkeypatch):
    """Every variable, coordinate and attribute, and the factors."""
    for library in libraries:
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.setattr(export, "MOST_DENSE", 0 if packed else 1 << 22)
    drawn = posterior(name)
    tree = to_datatree(drawn)
    found = write(tree, tmp_path / "file")
    assert found.equals(tree)
    assert set(found.groups) == set(tree.groups)
    assert dict(found.attrs) == dict(tree.attrs)
    for path in tree.groups:
        for variable in tree[path].data_vars:
            a, b = tree[path][variable], found[path][variable]
            assert a.dims == b.dims
            assert a.dtype == b.dtype or a.dtype.kind == "O"  # strings come back as strings
            np.testing.assert_array_equal(a.values, b.values)
            assert a.attrs.keys() == b.attrs.keys()
            assert all(np.array_equal(a.attrs[key], b.attrs[key]) for key in a.attrs)
    for at in np.ndindex(N_CHAINS, N_DRAWS):
        for a, b in zip(factors_of(found, *at), drawn.factors(*at), strict=True):
            np.testing.assert_array_equal(a, b)


# --- ArviZ ---------------------------------------------------------------------------------


def assert_summarizes(table):
    assert set(table.index) == {
        *("n_components", "spurious", "dropped", "alpha", "density_genes___panel")
    }
    mean = float(table.loc["spurious", "mean"])
    assert mean == pytest.approx(posterior("buffet").spurious.mean(), abs=0.01)  # rounded for us


def test_arviz_one_summarizes_the_tree_as_it_is():
    """Scalars only: the bits are not parameters."""
    needs_arviz(1, 99)
    tree = to_datatree(posterior("buffet"))
    assert_summarizes(arviz().summary(tree))
    assert list(arviz().summary(tree, var_names=["alpha"]).index) == ["alpha"]


def test_arviz_stats_summarizes_the_tree():
    """On Python 3.11 too, where arviz-base is installed with it."""
    pytest.importorskip("arviz_base", reason="arviz-base, for functions on trees, is missing")
    from arviz_stats import summary

    assert_summarizes(summary(to_datatree(posterior("buffet"))))


def as_tree(data):
    """Inference data as a tree: its own method wants another library before 0.22."""
    return xr.DataTree.from_dict({name: data[name] for name in data.groups()})


def test_older_arviz_summarizes_inference_data():
    """Same groups, same factors, nothing but scalars in the summary."""
    needs_arviz(0, 0)
    drawn = posterior("buffet")
    data = to_inferencedata(drawn)
    groups = {"posterior", "sample_stats", "factors", "observed_data", "constant_data"}
    groups |= {"log_likelihood", "posterior_predictive"}
    assert set(data.groups()) == groups
    assert_summarizes(arviz().summary(data))
    assert list(arviz().summary(data, var_names=["alpha"]).index) == ["alpha"]
    for a, b in zip(factors_of(as_tree(data), 1, 5), drawn.factors(1, 5), strict=True):
        np.testing.assert_array_equal(a, b)
    assert set(to_inferencedata(drawn, factors=False, data=False, entries=0).groups()) == {
        "posterior",
        "sample_stats",
    }


def test_older_arviz_writes_what_is_read_again(tmp_path):
    """Through its own NetCDF writer."""
    needs_arviz(0, 0)
    drawn = posterior("tensor")
    to_inferencedata(drawn).to_netcdf(str(tmp_path / "file.nc"), engine="h5netcdf")
    again = arviz().from_netcdf(str(tmp_path / "file.nc"), engine="h5netcdf")
    for a, b in zip(factors_of(as_tree(again), 1, 2), drawn.factors(1, 2), strict=True):
        np.testing.assert_array_equal(a, b)


def test_arviz_one_has_no_inference_data():
    """The error says what to use instead."""
    needs_arviz(1, 99)
    with pytest.raises(MissingLibrary, match=r"no InferenceData any more; use to_datatree\(\)"):
        to_inferencedata(posterior("buffet"))


def test_a_missing_library_is_named(monkeypatch):
    """With the extra that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "xarray", None)
    with pytest.raises(MissingLibrary, match=r'xarray is needed .* "thali\[bayes\]"'):
        to_datatree(posterior("buffet"))


@pytest.mark.parametrize("noise", ["unequal", "effects"])
def test_entries_are_those_of_the_likelihood(noise):
    """Summed over all known entries, their log likelihood is that of the draw."""
    data = thali.simulate((14, 11), 2, spurious=0.05, unknown=0.1, seed=2).tensor
    few = {"noise": noise, "chains": 2, "warmup": 5, "draws": 4, "seed": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", thali.errors.NotConverged)
        drawn = thali.sample(data, **few, progress=False)
    tree = to_datatree(drawn, entries=1000)
    group = tree["log_likelihood"]
    assert group["entries"].shape == (2, 4, int((~np.isnan(data)).sum()))
    np.testing.assert_allclose(group["entries"].sum("entry"), drawn.log_likelihood)
    at = group["entry_mode_0"].values, group["entry_mode_1"].values
    np.testing.assert_array_equal(tree["observed_data"]["entries"], data[at])
    assert set(np.unique(tree["posterior_predictive"]["entries"])) <= {0, 1}
    some = to_datatree(drawn, entries=20)["log_likelihood"]["entries"]
    assert 15 <= some.sizes["entry"] <= 20
    assert some.attrs["n_known"] == group["entries"].sizes["entry"]


def test_replicates_have_the_rates_of_the_draw():
    """Entries are simulated given the draw: as many ones as it predicts, within chance."""
    drawn = posterior("buffet")
    tree = to_datatree(drawn, entries=10_000)
    logs, observed = tree["log_likelihood"]["entries"], tree["observed_data"]["entries"]
    of_one = np.where(observed == 1, np.exp(logs), 1 - np.exp(logs))
    replicated = tree["posterior_predictive"]["entries"].values
    spread = np.sqrt((of_one * (1 - of_one)).sum())
    assert abs(replicated.sum() - of_one.sum()) < 4.5 * spread


def test_arviz_one_leaves_one_out():
    """``arviz.loo`` takes the tree as it is, in the line of ArviZ that newer Pythons install."""
    needs_arviz(1, 99)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the draws are few
        score = arviz().loo(to_datatree(posterior("buffet")))
    assert np.isfinite(score.elpd)


def test_older_arviz_leaves_one_out():
    """``arviz.loo`` runs on what is exported, without more arguments."""
    needs_arviz(0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the draws are few
        score = arviz().loo(to_inferencedata(posterior("buffet")))
    assert np.isfinite(score.elpd_loo)
