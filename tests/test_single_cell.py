"""AnnData in, AnnData out: every form of the matrix, what goes where, and files."""

import json
import sys
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import thali
from thali.data import BinaryTensor, entries
from thali.data.readers import cell_blocks
from thali.data.readers.cells import read_anndata
from thali.data.readers.files import read
from thali.errors import MissingLibrary
from thali.trace import Settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what a library says about itself when imported
    anndata = pytest.importorskip("anndata")

# AnnData 0.13 asks pandas 3 for an option that pandas has announced to drop.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'future.infer_string' option is deprecated"),
    pytest.mark.filterwarnings("ignore::thali.errors.NotConverged"),  # some runs are short
]

DATA = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
SHORT = {"noise": "unequal", "chains": 2, "warmup": 50, "draws": 50, "seed": 1}


def counts(seed=0):
    """Make numbers that are above zero where the data are one."""
    return (DATA.tensor * np.random.default_rng(seed).integers(1, 9, DATA.tensor.shape)).astype(
        np.float32
    )


def make(matrix=None, **parts):
    obs = pd.DataFrame(index=[f"cell {i}" for i in range(60)])
    var = pd.DataFrame({"chosen": np.arange(80) % 4 > 0}, index=[f"gene {i}" for i in range(80)])
    return anndata.AnnData(counts() if matrix is None else matrix, obs, var, **parts)


def dense(tensor):
    """Return all entries, with NaN where unknown."""
    ones, unknown = tensor.rows()
    return ones if unknown is None else np.where(unknown, np.nan, ones)


@pytest.fixture(scope="module")
def posterior():
    return thali.sample(DATA.tensor, **SHORT)


@pytest.fixture(scope="module")
def factorized():
    adata = make(layers={"counts": counts()})
    assert thali.tl.factorize(adata, layer="counts", **SHORT) is None
    return adata


# --- reading ---------------------------------------------------------------------------------

FORMS = {
    "dense": np.asarray,
    "fortran": np.asfortranarray,
    "integers": lambda m: m.astype(np.int64),
    "unsigned": lambda m: m.astype(np.uint16),
    "booleans": lambda m: m > 0,
    "csr": sparse.csr_matrix,
    "csc": sparse.csc_matrix,
    "csr array": sparse.csr_array,
    "csc array": sparse.csc_array,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block", [500, 1 << 24])
@pytest.mark.parametrize("masked", [False, True])
def test_every_form_gives_the_same_bits(form, block, masked, monkeypatch):
    """Dense or sparse, by rows or columns, in blocks of any size, all or some genes."""
    monkeypatch.setattr(cell_blocks, "_BLOCK_ENTRIES", block)
    genes = np.arange(80) % 4 > 0 if masked else None
    tensor = read_anndata(make(FORMS[form](counts())), None, genes, 0.0)
    np.testing.assert_array_equal(
        dense(tensor), DATA.tensor[:, genes] if masked else DATA.tensor, strict=False
    )
    assert tensor.row_names[1][0] == ("gene 1" if masked else "gene 0")
    assert tensor.unknown is None


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
@pytest.mark.parametrize("part", ["whole", "view"])
def test_backed_files_give_the_same_bits(form, part, tmp_path, monkeypatch):
    """A file that stays on disk is read in blocks; of a view, what it shows."""
    make(FORMS[form](counts())).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    monkeypatch.setattr(cell_blocks, "_BLOCK_ENTRIES", 500)
    expected = DATA.tensor
    if part == "view":
        backed, expected = backed[5:40, ::2], expected[5:40, ::2]
    tensor = read_anndata(backed, None, None, 0.0)
    np.testing.assert_array_equal(dense(tensor), expected)
    backed.file.close()
    if part == "whole":
        file = read(tmp_path / "cells.h5ad", binarize=0)
        np.testing.assert_array_equal(dense(file), expected)
        assert (file.mode_names, file.row_names) == (tensor.mode_names, tensor.row_names)


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("backed", [False, True])
def test_sparse_data_are_never_dense(form, backed, tmp_path):
    """80 million entries, 320 MB if dense, are read with a fraction of that."""
    n_cells, per_cell = 20_000, 8
    indices = (np.arange(n_cells)[:, None] + 500 * np.arange(per_cell)) % 4_000
    parts = np.ones(indices.size, np.float32), indices.ravel(), per_cell * np.arange(n_cells + 1)
    matrix = sparse.csr_matrix(parts, (n_cells, 4_000))
    adata = anndata.AnnData(matrix.asformat(form))
    if backed:
        adata.write_h5ad(tmp_path / "cells.h5ad")
        adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    read_anndata(adata[:, :9].to_memory(), None, None, 0.0)  # compile before memory is counted
    tracemalloc.start()
    tensor = read_anndata(adata, None, None, 0.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tensor.n_ones == matrix.nnz
    # Both unfoldings are 20 MB, a third copy is alive while columns are turned, names are 2 MB.
    assert peak < 60e6


def test_threshold():
    """A gene is on above the number given."""
    tensor = read_anndata(make(sparse.csr_matrix(counts())), None, None, 4.0)
    np.testing.assert_array_equal(dense(tensor), counts() > 4)


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
def test_unknown_entries_without_a_threshold(form):
    """binarize=None takes zeros, ones and NaN as they are."""
    values = DATA.tensor.astype(np.float32)
    values[3, 4:9] = np.nan
    tensor = read_anndata(make(FORMS[form](values)), None, None, None)
    np.testing.assert_array_equal(dense(tensor), values)


def test_bits_equal_those_of_sample():
    """The reader packs as BinaryTensor does, unknown entries and all."""
    values = DATA.tensor.astype(np.float32)
    values[::7, ::5] = np.nan
    tensor = read_anndata(make(values), None, None, None)
    packed = thali.bits.PackedTensor.from_tensor(tensor)
    expected = thali.bits.PackedTensor.from_tensor(BinaryTensor.from_any(values))
    for mine, theirs in zip(packed.unfoldings, expected.unfoldings, strict=True):
        np.testing.assert_array_equal(mine.ones, theirs.ones)
        np.testing.assert_array_equal(mine.known, theirs.known)


def test_duplicate_entries_of_a_sparse_matrix_add_up():
    """Two stored numbers of one entry count as their sum, and the caller's matrix stays."""
    rows, columns = np.array([0, 0, 1]), np.array([2, 2, 0])
    matrix = sparse.csr_matrix(
        (np.array([1.0, 2.0, 5.0]), columns, np.searchsorted(rows, np.arange(61))), (60, 80)
    )
    tensor = read_anndata(make(matrix), None, None, 2.5)
    assert [tuple(p) for p in np.argwhere(dense(tensor))] == [(0, 2), (1, 0)]
    assert matrix.nnz == 3


# --- what goes where ---------------------------------------------------------------------------


def test_results_are_those_of_the_posterior(factorized, posterior):
    """The three places hold what Posterior says of the same draws."""
    alignment = posterior.align()
    found = factorized.uns["thali"]
    assert factorized.obsm["X_thali"].dtype == factorized.varm["thali"].dtype == np.float32
    np.testing.assert_allclose(factorized.obsm["X_thali"], alignment.probabilities[0], rtol=1e-6)
    np.testing.assert_allclose(factorized.varm["thali"], alignment.probabilities[1], rtol=1e-6)
    np.testing.assert_array_equal(found["components"]["matched"], alignment.matched)
    np.testing.assert_array_equal(found["components"]["similarity"], alignment.similarity)
    table = posterior.n_components_table()
    assert dict(zip(*list(found["n_components"].values())[:2], strict=True)) == table.to_dict()
    assert found["n_components"]["shared"].sum() == pytest.approx(1.0)
    assert found["rates"]["spurious"]["median"] == np.median(posterior.spurious)
    assert found["rates"]["dropped"]["q95"] == np.quantile(posterior.dropped, 0.95)
    assert found["error"] == posterior.point_estimate().error
    assert (found["verdict"], found["version"]) == ("", thali.__version__)
    assert found["params"] == {
        "layer": "counts", "binarize": 0.0, "seed": 1, "chains": 2, "warmup": 50, "draws": 50,
        "thin": 1, "use_raw": False,
    }  # fmt: skip
    assert Settings.from_json(json.loads(found["settings"])) == posterior.settings
    columns = ["r_hat", "ess_bulk", "mean"]
    rows = ["n_components", "spurious", "log_joint"]
    np.testing.assert_array_equal(
        found["diagnostics"].loc[rows, columns], posterior.summary().loc[rows, columns]
    )


def test_components_are_found(factorized):
    """The genes of the components, and who has them, are the truth."""
    has, genes = (factorized.obsm["X_thali"] > 0.5), (factorized.varm["thali"] > 0.5)
    np.testing.assert_array_equal(has @ genes.T, DATA.noise_free)


@pytest.mark.parametrize("how", ["name", "array", "series in another order", "series"])
def test_masked_genes_are_left_out(how):
    """Genes outside have NaN; the others are as if they were alone."""
    adata = make()
    mask = adata.var["chosen"].to_numpy()
    series = adata.var["chosen"].sample(frac=1.0, random_state=1)
    assert (series.to_numpy() != mask).any()
    given = {"name": "chosen", "array": mask, "series": pd.Series(mask)}.get(how, series)
    thali.tl.factorize(adata, mask_var=given, **SHORT)
    alone = make()[:, mask].copy()
    thali.tl.factorize(alone, **SHORT)
    np.testing.assert_array_equal(adata.varm["thali"][mask], alone.varm["thali"])
    np.testing.assert_array_equal(adata.obsm["X_thali"], alone.obsm["X_thali"])
    assert np.isnan(adata.varm["thali"][~mask]).all()
    kept = "chosen" if how == "name" else mask
    np.testing.assert_array_equal(adata.uns["thali"]["params"]["mask_var"], kept)


def test_key_added_and_copy(factorized):
    """Results get another name; a copy leaves the original alone."""
    adata = make()
    other = thali.tl.factorize(adata, key_added="foo", copy=True, **SHORT)
    assert (list(adata.obsm), list(adata.varm), list(adata.uns)) == ([], [], [])
    assert (list(other.obsm), list(other.varm), list(other.uns)) == (["X_foo"], ["foo"], ["foo"])
    np.testing.assert_array_equal(other.obsm["X_foo"], factorized.obsm["X_thali"])


def test_view_becomes_an_object_of_its_own():
    """AnnData says so; what the view was taken from stays as it was."""
    whole = make()
    view = whole[:40, 10:]
    with pytest.warns(anndata.ImplicitModificationWarning):
        thali.tl.factorize(view, **SHORT)
    assert not view.is_view
    assert len(view.obsm["X_thali"]) == 40
    assert not whole.obsm


def test_backed_object_takes_results(tmp_path, factorized):
    """The file is read in blocks, the results are kept beside it."""
    make(sparse.csr_matrix(counts())).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    thali.tl.factorize(backed, **SHORT)
    np.testing.assert_array_equal(backed.obsm["X_thali"], factorized.obsm["X_thali"])
    assert backed.isbacked
    part = backed[:40]
    with pytest.raises(ValueError, match=r"view of a file, which cannot take results; give copy="):
        thali.tl.factorize(part, **SHORT)
    copied = thali.tl.factorize(part, copy=True, **SHORT)
    assert not copied.isbacked
    assert len(copied.obsm["X_thali"]) == 40
    backed.file.close()


def test_names_need_not_be_unique(factorized):
    """Results are by position."""
    adata = make()
    adata.obs_names = ["same"] * 60
    adata.var_names = ["gene"] * 80
    thali.tl.factorize(adata, **SHORT)
    np.testing.assert_array_equal(adata.obsm["X_thali"], factorized.obsm["X_thali"])


def test_no_components_at_all(tmp_path):
    """Nothing found is an answer, which files can hold, too."""
    adata = make()
    thali.tl.factorize(adata, n_components=0, **SHORT)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert back.obsm["X_thali"].shape == (60, 0)
    assert back.varm["thali"].shape == (80, 0)


def test_stored_run_has_the_names(tmp_path, factorized):
    """With out= all draws are on disk, with cells and genes by name."""
    adata = make()
    thali.tl.factorize(adata, out=tmp_path / "run", **SHORT)
    assert adata.uns["thali"]["params"]["out"] == str(tmp_path / "run")
    kept = thali.load(tmp_path / "run")
    assert kept.mode_names == ("cell", "gene")
    assert kept.row_names == (tuple(adata.obs_names), tuple(adata.var_names))
    np.testing.assert_array_equal(
        kept.align().probabilities[0].astype(np.float32), factorized.obsm["X_thali"]
    )


# --- files -----------------------------------------------------------------------------------


def assert_same(left, right):
    """Compare nested results, as they come back from files."""
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for name, value in left.items():
            assert_same(value, right[name])
    elif isinstance(left, pd.DataFrame):
        pd.testing.assert_frame_equal(left, right, check_names=False, check_index_type=False)
    else:
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("form", ["h5ad", "zarr"])
@pytest.mark.parametrize("masked", [False, True])
def test_files_give_back_everything(form, masked, factorized, tmp_path):
    """What is written is read, NaN and all."""
    adata = factorized.copy()
    if masked:
        thali.tl.factorize(
            adata, key_added="part", mask_var=adata.var["chosen"].to_numpy(), **SHORT
        )
    path = tmp_path / f"cells.{form}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the format of Zarr files is announced to change
        getattr(adata, f"write_{form}")(path)
        back = getattr(anndata, f"read_{form}")(path)
    for key in ["thali", "part"] if masked else ["thali"]:
        np.testing.assert_array_equal(back.obsm[f"X_{key}"], adata.obsm[f"X_{key}"])
        np.testing.assert_array_equal(back.varm[key], adata.varm[key])
        assert_same(adata.uns[key], back.uns[key])


def test_posterior_as_anndata(posterior, factorized, tmp_path):
    """The data come back, and the results are where factorize puts them."""
    adata = thali.tl.to_anndata(posterior)
    np.testing.assert_array_equal(adata.X.toarray(), DATA.tensor)
    assert list(adata.obs_names[:2]) == ["0", "1"]
    np.testing.assert_array_equal(adata.obsm["X_thali"], factorized.obsm["X_thali"])
    np.testing.assert_array_equal(adata.varm["thali"], factorized.varm["thali"])
    assert adata.uns["thali"].keys() == factorized.uns["thali"].keys()
    adata.write_h5ad(tmp_path / "cells.h5ad")
    assert_same(adata.uns["thali"], anndata.read_h5ad(tmp_path / "cells.h5ad").uns["thali"])


def test_posterior_with_names_and_unknown_entries_as_anndata(monkeypatch):
    """Names become those of cells and genes, unknown entries NaN, block by block."""
    monkeypatch.setattr(entries, "_BLOCK_ENTRIES", 500)  # 64 rows are the least
    table = pd.DataFrame(
        np.where(np.arange(80) % 9 > 0, np.tile(DATA.tensor, (3, 1)), np.nan),
        index=pd.Index([f"user {i}" for i in range(180)], name="user"),
        columns=[f"right {i}" for i in range(80)],
    )
    adata = thali.tl.to_anndata(thali.sample(table, n_components=3, **SHORT))
    np.testing.assert_array_equal(adata.X.toarray(), table)
    assert list(adata.obs_names) == list(table.index)
    assert list(adata.var_names) == list(table.columns)
    assert (adata.obs_names.name, adata.var_names.name) == ("user", None)


def test_tensors_do_not_fit():
    """AnnData holds matrices."""
    cube = thali.simulate((9, 8, 7), 2, seed=1)
    drawn = thali.sample(cube.tensor, n_components=2, **SHORT)
    with pytest.raises(ValueError, match=r"shape \(9, 8, 7\); AnnData holds matrices only; use"):
        thali.tl.to_anndata(drawn)


# --- other libraries -------------------------------------------------------------------------


def test_scanpy_takes_the_memberships():
    """Neighbours are computed in the space of the components."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scanpy = pytest.importorskip("scanpy")
        adata = make()
        thali.tl.factorize(adata, **SHORT)
        scanpy.pp.neighbors(adata, use_rep="X_thali", n_neighbors=5)
    assert adata.obsp["distances"].shape == (60, 60)
    near = adata.obsp["distances"].tocoo()
    has = adata.obsm["X_thali"]
    expected = np.linalg.norm(has[near.row] - has[near.col], axis=1)
    np.testing.assert_allclose(near.data, expected, atol=1e-3)


def test_without_anndata(monkeypatch):
    """The sentence says what to install."""
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(MissingLibrary, match=r'pip install "thali\[anndata\]"'):
        thali.tl.factorize(None)


# --- bad input ---------------------------------------------------------------------------------


def with_entry(value, form="dense"):
    values = counts()
    values[5, 7] = value
    return make(FORMS[form](values))


def no_cells():
    return make()[:0].copy()


BAD = {
    "not AnnData": (counts, {}, TypeError, r"adata is a ndarray; an AnnData is needed"),
    "NaN": (
        lambda: with_entry(np.nan), {}, ValueError,
        r"adata\.X: it holds nan \(cell 'cell 5', gene 'gene 7'\); finite numbers from 0 on",
    ),
    "infinite": (lambda: with_entry(np.inf), {}, ValueError, r"adata\.X: it holds inf"),
    "negative": (
        lambda: with_entry(-0.5), {}, ValueError,
        r"adata\.X: it holds -0\.5 \(cell 'cell 5', gene 'gene 7'\)",
    ),
    "negative, by rows": (
        lambda: with_entry(-2, "csr"), {}, ValueError,
        r"holds -2\.0 \(cell 'cell 5', gene 'gene 7'\)",
    ),
    "negative, by columns, masked": (
        lambda: with_entry(-2, "csc"), {"mask_var": "chosen"}, ValueError,
        r"holds -2\.0 \(cell 'cell 5', gene 'gene 7'\)",
    ),
    "negative in a layer": (
        lambda: make(layers={"scaled": -counts()}), {"layer": "scaled"}, ValueError,
        r"adata\.layers\['scaled'\]: it holds -",
    ),
    "not binary": (make, {"binarize": None}, ValueError, r"allowed are 0, 1 and NaN for unknown"),
    "threshold": (make, {"binarize": "x"}, ValueError, r"binarize='x' was given; allowed is a"),
    "negative threshold": (
        lambda: make(sparse.csr_matrix(counts())), {"binarize": -1}, ValueError,
        r"its zeros would all become ones",
    ),
    "all unknown": (
        lambda: make(np.full((60, 80), np.nan)), {"binarize": None}, ValueError,
        r"adata\.X: all entries of the tensor of shape \(60, 80\) are unknown",
    ),
    "no such layer": (
        lambda: make(layers={"counts": counts()}), {"layer": "raw"}, ValueError,
        r"layer='raw' was given; adata has 'counts'; choose one",
    ),
    "no X": (
        lambda: anndata.AnnData(obs=make().obs, var=make().var), {}, ValueError,
        r"adata\.X is empty; give layer=",
    ),
    "text": (lambda: make(np.full((60, 80), "x")), {}, TypeError, r"adata\.X has type <U1"),
    "no such column": (
        make, {"mask_var": "best"}, ValueError, r"mask_var='best' .* adata\.var has 'chosen'",
    ),
    "mask of numbers": (
        make, {"mask_var": np.arange(80)}, ValueError, r"has type int64 and shape \(80,\)",
    ),
    "short mask": (make, {"mask_var": np.ones(3, bool)}, ValueError, r"each of the 80 genes"),
    "mask of other genes": (
        make, {"mask_var": pd.Series(np.ones(2, bool), index=["a", "b"])}, ValueError,
        r"a series of 2 genes, which are not those of adata\.var; give one",
    ),
    "mask of names": (make, {"mask_var": ["g1"]}, ValueError, r"make such an array"),
    "empty mask": (
        make, {"mask_var": np.zeros(80, bool)}, ValueError, r"60 cells and 0 genes are left",
    ),
    "no cells": (no_cells, {}, ValueError, r"0 cells and 80 genes"),
    "key": (make, {"key_added": "a/b"}, ValueError, r"key_added='a/b' was given; allowed are"),
    "key of a folder": (make, {"key_added": ".."}, ValueError, r"key_added='..' was given"),
    "key of another type": (make, {"key_added": 3}, ValueError, r"key_added=3 was given"),
    "unknown setting": (
        make, {"random_state": 3}, TypeError, r"factorize\(\) got 'random_state'; allowed are",
    ),
    "data twice": (make, {"data": 3}, TypeError, r"factorize\(\) got 'data'"),
    "bad setting": (make, {"chains": 0}, ValueError, r"chains=0 was given"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(case):
    """What was given, what is allowed and what to do, before anything is sampled or written."""
    adata, arguments, kind, sentence = BAD[case]
    adata = adata()
    with pytest.raises(kind, match=sentence) as raised:
        thali.tl.factorize(adata, **arguments)
    assert "\n" not in str(raised.value)
    assert not getattr(adata, "obsm", {})


@pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")
@pytest.mark.parametrize("copy", [False, True])
def test_raw_counts(copy):
    """All genes of adata.raw are read; results are stored there, and by name where X has them."""
    data = thali.simulate((20, 12), 2, spurious=0.05, seed=1).tensor.astype("float32")
    whole = anndata.AnnData(data)
    whole.var_names = [f"g{i}" for i in range(12)]
    whole.var["use"] = np.arange(12) != 3
    adata = whole[:, [5, 2, 3]].copy()
    adata.raw = whole
    few = {"noise": "unequal", "chains": 2, "warmup": 5, "draws": 5, "seed": 1}
    found = thali.tl.factorize(adata, use_raw=True, mask_var="use", copy=copy, **few)
    result = found if copy else adata
    codes = result.raw.varm["thali"]
    assert codes.shape[0] == 12
    assert np.isnan(codes[3]).all()
    assert not np.isnan(np.delete(codes, 3, axis=0)).any()
    np.testing.assert_array_equal(result.varm["thali"], codes[[5, 2, 3]])
    if copy:
        assert "thali" not in adata.raw.varm
    plain = anndata.AnnData(data)
    with pytest.raises(ValueError, match=r"this adata has no \.raw"):
        thali.tl.factorize(plain, use_raw=True)
    with pytest.raises(ValueError, match="leave one out"):
        thali.tl.factorize(adata, use_raw=True, layer="counts")
