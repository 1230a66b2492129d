"""The estimator behaves as scikit-learn expects, and passes on what it is told."""

import inspect
import pickle
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import (
    check_estimator,
    estimator_checks_generator,
    parametrize_with_checks,
)

import thali
from thali import inference
from thali.estimator import BooleanFactorization
from thali.estimator_rows import read_rows
from thali.model import FixedRates, Noise, PerComponent
from thali.model.simulate import boolean_product
from thali.sampler import Schedule

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

short = partial(
    BooleanFactorization, noise="unequal", chains=2, warmup=60, draws=20, random_state=0
)
QUICK = {
    "noise": "unequal", "chains": 2, "warmup": 4, "draws": 4, "random_state": 0,
    "schedule": Schedule(starts=0),
}  # fmt: skip
CHECKED = BooleanFactorization(binarize=0.0, **QUICK)


class Strict(BooleanFactorization):
    """Only zeros and ones, and tags that do not keep scikit-learn's checks from running.

    They take an estimator with ``predict_proba`` for a classifier, so it has none.
    """

    predict_proba = property()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


@pytest.fixture(scope="module")
def data():
    return thali.simulate((60, 80), 3, spurious=0.05, seed=1)


@pytest.fixture(scope="module")
def unknown():
    return thali.simulate((60, 80), 3, spurious=0.05, unknown=0.2, seed=1)


@pytest.fixture(scope="module")
def fitted(unknown):
    return short().fit(unknown.tensor)


brief = partial(BooleanFactorization, **QUICK)
"""Where only equality matters: other data would change the first sweeps already."""


@pytest.fixture(scope="module")
def briefly_fitted(unknown):
    model = brief().fit(unknown.tensor)
    assert model.n_components_ > 0
    return model


def same(one, other):
    """Whether two estimators learned the same."""
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.prior_odds_, other.prior_odds_)
    np.testing.assert_array_equal(one.posterior_.log_joint, other.posterior_.log_joint)
    assert one.noise_ == other.noise_


# --- scikit-learn's own checks ----------------------------------------------------------------


@parametrize_with_checks([CHECKED])
def test_scikit_learn(estimator, check):
    """The whole suite passes, without expected failures."""
    check(estimator)


@pytest.fixture
def binary_data(monkeypatch):
    """Let scikit-learn's checks make zeros and ones, where they would make other numbers."""
    make = estimator_checks._enforce_estimator_tags_X

    def binary(estimator, X, X_test=None, **options):
        made = make(estimator, X, X_test=X_test, **options)
        return (made > np.mean(made)).astype(made.dtype) if X_test is None else made

    monkeypatch.setattr(estimator_checks, "_enforce_estimator_tags_X", binary)


@parametrize_with_checks([Strict(**QUICK)])
def test_scikit_learn_with_binary_data(estimator, check, binary_data):
    """So it does without a threshold, if only the data of the checks are binary."""
    check(estimator)


def checks_of(model):
    checks = estimator_checks_generator(model)
    return sorted(getattr(check, "func", check).__name__ for _, check in checks)


def test_the_suite_is_whole():
    """Our tags leave out no check that scikit-learn's own scaler of such data has."""
    names = checks_of(CHECKED)
    print(len(names), *names, sep="\n")  # noqa: T201 - pytest -rP shows them
    assert names == checks_of(MaxAbsScaler())  # sparse and missing values, no sample weights
    assert len(names) > 40
    assert set(names) <= set(checks_of(Strict()))
    assert set(checks_of(Strict())) - set(names) == {"check_fit_non_negative"}


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_set_output_transform,
        estimator_checks.check_set_output_transform_pandas,
        estimator_checks.check_global_output_transform_pandas,
        estimator_checks.check_transformer_get_feature_names_out,
        estimator_checks.check_transformer_get_feature_names_out_pandas,
        estimator_checks.check_dataframe_column_names_consistency,
        estimator_checks.check_get_feature_names_out_error,
    ],
)
@pytest.mark.filterwarnings("ignore:X (does not have|has) .*feature names:UserWarning")
def test_scikit_learn_names_and_output(check):
    """Checks that scikit-learn keeps for its own estimators pass too (they mix names and none)."""
    check("BooleanFactorization", clone(CHECKED))


# --- every argument arrives -------------------------------------------------------------------


def test_parameters_mirror_those_of_sample():
    """Same names, same order, same defaults; only progress bars are off."""
    ours = {k: p.default for k, p in inspect.signature(BooleanFactorization).parameters.items()}
    theirs = {k: p.default for k, p in inspect.signature(inference.sample).parameters.items()}
    search = {k: p.default for k, p in inspect.signature(thali.minimize).parameters.items()}
    assert ours.pop("objective") == "posterior"
    for name in ("cost", "seconds", "sweeps"):
        assert ours.pop(name) == search[name]
    assert ours.pop("binarize") is None
    assert ours.pop("random_state") is None
    assert theirs.pop("seed") is None
    theirs.pop("data")
    assert ours | {"progress": None} == theirs


def test_every_argument_reaches_sample(monkeypatch, data):
    """What the constructor gets, sample gets, and nothing else."""
    given = {
        "n_components": 7,
        "noise": FixedRates(0.1, 0.2),
        "alpha": 2.5,
        "density": PerComponent(),
        "mode": 1,
        "schedule": "serial",
        "chains": 3,
        "warmup": 11,
        "draws": 12,
        "thin": 2,
        "engine": "cpu",
        "threads": 2,
        "out": "somewhere",
        "checkpoint": 3.0,
        "progress": print,
    }
    assert {*given, "seed", "data"} == set(inspect.signature(inference.sample).parameters)
    seen = {}

    class Stop(Exception):  # noqa: N818 - nothing is wrong
        pass

    def sample(tensor, **arguments):
        seen.update(arguments, data=tensor)
        raise Stop

    monkeypatch.setattr(inference, "sample", sample)
    with pytest.raises(Stop):
        BooleanFactorization(**given, random_state=5).fit(data.tensor)
    np.testing.assert_array_equal(seen.pop("data").ones, data.tensor)
    assert seen == given | {"seed": 5}


def test_fit_is_sample_with_the_same_seed(data):
    """An integer random state is the seed."""
    posterior = inference.sample(
        data.tensor, noise="unequal", chains=2, warmup=60, draws=20, seed=4
    )
    model = short(random_state=4).fit(data.tensor)
    np.testing.assert_array_equal(model.posterior_.log_joint, posterior.log_joint)
    assert model.posterior_.settings.seed == 4


def test_random_state_of_every_kind(data):
    """A generator gives a new seed each time and the same when it starts alike; None differs."""
    quick = partial(BooleanFactorization, noise="unequal", chains=1, warmup=2, draws=2)

    def seed_of(state):
        return quick(random_state=state).fit(data.tensor).posterior_.settings.seed

    generator = np.random.RandomState(3)
    first, second = seed_of(generator), seed_of(generator)
    assert first != second
    assert seed_of(np.random.RandomState(3)) == first
    assert seed_of(np.int64(8)) == 8
    assert seed_of(None) != seed_of(None)
    with pytest.raises(ValueError, match="cannot be used to seed"):
        seed_of("now")


# --- what is learned --------------------------------------------------------------------------


def test_components_and_memberships_are_found(data):
    """The truth comes back, up to the order of components."""
    model = short()
    has = model.fit_transform(data.tensor)
    assert model.n_components_ == 3
    np.testing.assert_array_equal(has, model.transform(data.tensor))
    np.testing.assert_array_equal(
        boolean_product([has > 0.5, model.components_.T]), data.noise_free
    )
    assert model.noise_.spurious == pytest.approx(0.05, abs=0.02)  # 4 sd of 2400 entries
    assert model.noise_ == Noise(model.posterior_.spurious.mean(), model.posterior_.dropped.mean())


def test_prior_odds_of_the_buffet(fitted):
    """A component of m of N rows has the odds m : N + 1 - m."""
    sizes = fitted.posterior_.point_estimate().factors[0].sizes()
    expected = np.log(sizes / (61.0 - sizes))
    np.testing.assert_allclose(fitted.prior_odds_, expected, rtol=1e-12)
    blank = np.full((1, 80), np.nan)
    for form in (np.asarray, sparse.csr_array):
        np.testing.assert_allclose(fitted.transform(form(blank))[0], sizes / 61.0, rtol=1e-12)


def test_prior_odds_of_a_fixed_number(data):
    """They are those of the mean density of the rows' factor."""
    model = short(n_components=4).fit(data.tensor)
    density = model.posterior_.densities[0].mean()
    np.testing.assert_allclose(model.prior_odds_, [np.log(density / (1.0 - density))] * 4)
    assert model.n_components_ == 4


def test_missing_entries_are_imputed(unknown, fitted):
    """Entries that were hidden are predicted, from the known ones of the row."""
    chance = fitted.reconstruct(unknown.tensor)
    np.testing.assert_array_equal(fitted.predict_proba(unknown.tensor), chance)
    hidden = np.isnan(unknown.tensor)
    right = ((chance > 0.5) == unknown.noise_free)[hidden]
    assert right.mean() > 0.98
    spurious, dropped = fitted.noise_
    assert chance.min() >= spurious
    assert chance.max() <= 1.0 - dropped + 1e-12  # a sum of products of rates


def test_inverse_transform(fitted):
    """Zeros and ones give the Boolean product exactly, probabilities that of independence."""
    rng = np.random.default_rng(0)
    has = rng.random((9, fitted.n_components_)) < 0.5
    product = boolean_product([has, fitted.components_.T])
    np.testing.assert_array_equal(fitted.inverse_transform(has), product)
    chance = rng.random(has.shape)
    expected = 1.0 - np.prod(1.0 - chance[:, :, None] * fitted.components_[None], axis=1)
    np.testing.assert_allclose(fitted.inverse_transform(chance), expected, rtol=1e-12, atol=1e-15)


def test_score_prefers_the_true_number(data):
    """A grid search finds that one component is far too few for three."""
    search = GridSearchCV(
        short(chains=1, warmup=60, draws=10), {"n_components": [1, 3]}, cv=2
    ).fit(data.tensor)
    assert search.best_params_ == {"n_components": 3}
    one, three = search.cv_results_["mean_test_score"]
    assert three > one + 0.1


def test_no_components():
    """Pure noise gives none: every result is empty or constant, and nothing fails."""
    noise = np.random.default_rng(0).random((40, 30)) < 0.1
    model = short(noise=FixedRates(0.1, 0.1)).fit(noise)
    assert model.n_components_ == 0
    assert model.components_.shape == (0, 30)
    assert model.transform(noise).shape == (40, 0)
    assert model.get_feature_names_out().shape == (0,)
    frame = model.set_output(transform="pandas").transform(noise)
    assert frame.shape == (40, 0)
    np.testing.assert_array_equal(model.inverse_transform(np.zeros((2, 0))), np.zeros((2, 30)))
    np.testing.assert_allclose(model.reconstruct(noise), np.full((40, 30), 0.1), rtol=1e-12)
    expected = np.where(noise, np.log(0.1), np.log(0.9)).mean()
    assert model.score(noise) == pytest.approx(expected)


# --- input of every kind ----------------------------------------------------------------------


def kinds(tensor):
    """The same zeros, ones and unknown entries in other forms."""
    mask = np.isnan(tensor)
    filled = np.where(mask, 5.0, tensor)
    objects = tensor.astype(object)
    objects[mask] = None
    nullable = pd.DataFrame(np.where(mask, 0, tensor).astype(bool)).astype("boolean").mask(mask)
    return {
        "masked": np.ma.array(filled, mask=mask),
        "masked integers": np.ma.array(filled.astype(int), mask=mask),
        "masked objects": np.ma.array(np.where(mask, "?", objects), mask=mask),
        "list of masked rows": list(np.ma.array(filled, mask=mask)),
        "objects": objects,
        "lists": objects.tolist(),
        "frame": pd.DataFrame(tensor),
        "nullable": nullable,
        "csr": sparse.csr_array(tensor),
        "csc": sparse.csc_matrix(tensor),
        "coo": sparse.coo_array(tensor),
        "lil": sparse.lil_matrix(tensor),
    }


@pytest.mark.parametrize("name", kinds(np.eye(3)))
def test_every_kind_of_input_is_the_same(name, unknown, fitted, briefly_fitted):
    """Masked, sparse, nullable and plain input learn and predict the same."""
    other = kinds(unknown.tensor)[name]
    np.testing.assert_array_equal(fitted.transform(other), fitted.transform(unknown.tensor))
    assert fitted.score(other) == fitted.score(unknown.tensor)
    same(brief().fit(other), briefly_fitted)


def test_booleans_and_integers(data):
    """Types that cannot hold NaN are read too."""
    model = brief()
    expected = clone(model).fit_transform(data.tensor)
    for form in (np.int8, np.uint64, np.float32):
        np.testing.assert_array_equal(
            clone(model).fit_transform(data.tensor.astype(form)), expected
        )


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_binarize_is_a_threshold(make, unknown, briefly_fitted):
    """Above is one, the rest zero; missing stays missing."""
    rng = np.random.default_rng(0)
    tensor = unknown.tensor
    values = np.where(tensor == 1, 0.5 + rng.random(tensor.shape), 0.5 * rng.random(tensor.shape))
    values[np.isnan(tensor)] = np.nan
    values[0, tensor[0] == 0] = 0.5  # at the threshold is not above
    values[1, tensor[1] == 0] = -3.0
    given = make(values)
    before = given.copy()
    same(brief(binarize=0.5).fit(given), briefly_fitted)
    np.testing.assert_array_equal(
        *((m if isinstance(m, np.ndarray) else m.toarray()) for m in (given, before))
    )


def test_repeated_sparse_entries_are_summed_first():
    """Two halves in one place are a one, and above a threshold of 0.7."""
    coordinates = ([0.5, 0.5, 1.0], ([0, 0, 1], [1, 1, 0]))
    halves = sparse.coo_array(coordinates, shape=(2, 2))
    csr = sparse.csr_array(([0.5, 0.5, 1.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    for binarize in (None, 0.7):
        model = BooleanFactorization(binarize=binarize)
        for matrix in (halves, csr):
            read = read_rows(model, matrix, reset=True)
            np.testing.assert_array_equal(read.toarray(), [[0, 1], [1, 0]])
    assert csr.nnz == 3  # not the caller's own


def test_names_are_kept(unknown):
    """Columns and rows of a frame name the posterior; transform keeps the index."""
    columns = [f"gene {i}" for i in range(80)]
    index = [f"cell {i}" for i in range(60)]
    frame = pd.DataFrame(unknown.tensor, index, columns)
    model = short(warmup=30).fit(frame)
    assert model.feature_names_in_.tolist() == columns
    assert model.posterior_.row_names == (tuple(index), tuple(columns))
    names = [f"booleanfactorization{i}" for i in range(model.n_components_)]
    assert model.get_feature_names_out().tolist() == names
    has = model.set_output(transform="pandas").transform(frame)
    assert has.index.tolist() == index
    assert has.columns.tolist() == names
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame.rename(columns={"gene 0": "gene x"}))
    counted = short(chains=1, warmup=2, draws=2).fit(pd.DataFrame(unknown.tensor))
    assert counted.posterior_.row_names == (None, None)


# --- among other tools ------------------------------------------------------------------------


def test_pipeline(unknown, briefly_fitted):
    """It stands after a step that makes zeros and ones, and before another."""
    steps = make_pipeline(
        FunctionTransformer(lambda x: x - 1.0), brief(binarize=-0.5), FunctionTransformer(np.exp)
    )
    expected = np.exp(briefly_fitted.transform(unknown.tensor))
    np.testing.assert_array_equal(steps.fit_transform(unknown.tensor), expected)


def test_clone_and_pickle(unknown, briefly_fitted):
    """A clone is unfitted and learns the same; a pickle is fitted."""
    copy = clone(briefly_fitted)
    assert copy.get_params() == briefly_fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(unknown.tensor)
    same(copy.fit(unknown.tensor), briefly_fitted)
    loaded = pickle.loads(pickle.dumps(briefly_fitted))
    same(loaded, briefly_fitted)
    np.testing.assert_array_equal(
        loaded.transform(unknown.tensor), briefly_fitted.transform(unknown.tensor)
    )


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib(backend, unknown, briefly_fitted):
    """Other processes and threads learn the same."""
    jobs = (joblib.delayed(brief(threads=1).fit)(unknown.tensor) for _ in range(2))
    for model in joblib.Parallel(n_jobs=2, backend=backend)(jobs):
        same(model, briefly_fitted)


# --- what is refused --------------------------------------------------------------------------


def refuse(model, given, message):
    with pytest.raises(ValueError, match=message):
        model.fit(given)


def test_bad_input_is_refused():
    """One sentence says what was given, what is allowed and what to do."""
    strict = BooleanFactorization()
    sentence = r"X holds 0\.5; allowed are 0, 1 and NaN for unknown; give `binarize`, a number"
    refuse(strict, [[0.0, 0.5]], sentence)
    refuse(strict, sparse.csr_array([[0.0, 0.5]]), sentence)
    refuse(strict, np.ma.array([[0.5, 0.5]], mask=[[True, False]]), sentence)
    refuse(strict, [[0.0, -0.5]], r"Negative values in data passed to .*; allowed are 0, 1 and")
    refuse(strict, [[0.0, np.inf]], "infinity")
    refuse(BooleanFactorization(binarize=0.0), [[0.0, np.inf]], "infinity")
    refuse(BooleanFactorization(binarize=0.0), sparse.csr_array([[0.0, np.inf]]), "infinity")
    refuse(strict, [[np.nan, np.nan]], "all entries of the tensor of shape .* are unknown")
    refuse(
        BooleanFactorization(binarize=-1.0),
        sparse.csr_array(np.eye(2)),
        r"binarize=-1\.0 was given with a sparse matrix; its zeros would all become ones; give",
    )
    for bad in ("0", True, np.nan, np.inf):
        refuse(
            BooleanFactorization(binarize=bad),
            np.eye(2),
            f"binarize={bad!r} was given; allowed is a finite number",
        )
    refuse(BooleanFactorization(n_components=-1), np.eye(2), "n_components=-1 was given")


def test_bad_rows_are_refused(unknown, fitted):
    """So are memberships that are none, and rows without anything to score."""
    with pytest.raises(ValueError, match="X has 79 features, but BooleanFactorization is expect"):
        fitted.transform(unknown.tensor[:, 1:])
    with pytest.raises(ValueError, match="all entries of X are unknown; a score needs at least"):
        fitted.score(np.full((2, 80), np.nan))
    wide = np.zeros((2, fitted.n_components_ + 1))
    with pytest.raises(ValueError, match="Z has 4 columns; it needs 3, one for each component"):
        fitted.inverse_transform(wide)
    for bad in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="Z holds values outside of 0 to 1; memberships"):
            fitted.inverse_transform(np.full((2, fitted.n_components_), bad))
    for method in ("transform", "reconstruct", "score", "inverse_transform"):
        with pytest.raises(NotFittedError):
            getattr(BooleanFactorization(), method)(unknown.tensor)


def test_predict_proba_is_about_binary_entries():
    """With a threshold the entries are numbers; the error names what to call instead."""
    assert hasattr(BooleanFactorization(), "predict_proba")
    model = BooleanFactorization(binarize=0.0)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as refusal:
        model.predict_proba(np.eye(2))
    assert "use reconstruct() instead" in str(refusal.value.__cause__)


def test_the_default_is_strict_and_says_what_is_not_checked():
    """Real numbers are refused, and the tags tell scikit-learn's checks not to give any."""
    with pytest.warns(SkipTestWarning, match="requires input"):
        results = check_estimator(BooleanFactorization(), on_skip=None)
    assert [result["status"] for result in results] == ["passed"]  # that it can be cloned
    tags, with_threshold = (get_tags(BooleanFactorization(binarize=b)) for b in (None, 0.0))
    assert (tags.input_tags.two_d_array, tags.input_tags.positive_only) == (False, True)
    assert with_threshold.input_tags.two_d_array
    assert not with_threshold.input_tags.positive_only
    with pytest.raises(ValueError, match="binarize"):
        BooleanFactorization().fit(np.array([[0.0, 0.3], [1.0, 0.0]]))


# --- the fewest errors ------------------------------------------------------------------------


def test_fewest_errors(data):
    """Components are those of minimize; memberships are zeros and ones, and nobody's guess."""
    rows = np.asarray(data.tensor)
    model = BooleanFactorization(3, objective="errors", sweeps=30, random_state=4)
    has = model.fit_transform(rows)
    found = thali.minimize(rows, 3, sweeps=30, seed=4, progress=False)
    np.testing.assert_array_equal(model.components_, np.asarray(found.factors[1]).T)
    assert set(np.unique(has)) <= {0.0, 1.0}
    wrong = (model.inverse_transform(has) != rows).mean()
    assert model.score(rows) == -wrong
    assert wrong <= found.errors / rows.size
    np.testing.assert_array_equal(model.reconstruct(rows), model.inverse_transform(has))
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "posterior_")
    nothing = np.full((1, rows.shape[1]), np.nan)  # what is found for a row is its own matter
    together = model.transform(np.vstack([nothing, rows]))
    np.testing.assert_array_equal(together[1:], has)
    np.testing.assert_array_equal(together[:1], model.transform(nothing))
    with pytest.raises(ValueError, match="all entries of X are unknown; a score needs"):
        model.score(nothing)


def test_an_unknown_objective():
    """The sentence says what is allowed."""
    with pytest.raises(ValueError, match="objective='speed' was given; allowed are"):
        BooleanFactorization(objective="speed").fit(np.eye(3))


# --- tensors -----------------------------------------------------------------------------------


def test_tensors_have_factors_by_mode():
    """Rows of a tensor are transformed, predicted and scored in their own shape."""
    data = thali.simulate((24, 9, 7), 2, spurious=0.03, seed=3)
    model = short().fit(data.tensor)
    n = model.n_components_
    assert [factor.shape for factor in model.factors_] == [(24, n), (9, n), (7, n)]
    assert (model.shape_in_, model.n_features_in_) == ((9, 7), 63)
    expected = np.einsum("dl,ml->ldm", *(f.astype(int) for f in model.factors_[1:])) > 0
    np.testing.assert_array_equal(model.components_, expected)
    has = model.transform(data.tensor)
    np.testing.assert_array_equal(has > 0.5, model.factors_[0])
    np.testing.assert_array_equal(model.inverse_transform(has > 0.5), data.noise_free)
    hidden = data.tensor.astype(float)
    hidden[:, 2:4, 1] = np.nan
    chance = model.reconstruct(hidden)
    assert chance.shape == data.tensor.shape
    assert ((chance > 0.5) == data.noise_free).mean() > 0.97
    assert -0.4 < model.score(data.tensor) < 0.0
    flat = thali.simulate((24, 63), 2, seed=3).tensor
    for wrong in (data.tensor[:, :, :5], flat):
        with pytest.raises(ValueError, match=r"X has rows of shape .*; those that were fitted"):
            model.transform(wrong)
    four = brief(n_components=1).fit(data.tensor.reshape(24, 3, 3, 7))
    assert [factor.shape for factor in four.factors_] == [(24, 1), (3, 1), (3, 1), (7, 1)]


def test_factors_of_a_matrix():
    """A matrix has the same attribute: its rows, and the columns of its components."""
    data = thali.simulate((30, 20), 2, spurious=0.05, seed=1)
    model = brief(n_components=2).fit(data.tensor)
    np.testing.assert_array_equal(model.factors_[1].T, model.components_)
    assert (model.factors_[0].shape, model.shape_in_) == ((30, 2), (20,))
