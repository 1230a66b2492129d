"""The factorization as a scikit-learn transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from thali import inference
from thali.data import BinaryTensor
from thali.data.binary import own_names
from thali.defaults import CHAINS, DRAWS, WARMUP
from thali.engines.choose import require_one_process
from thali.errors import InvalidValue
from thali.estimator_rows import (
    codes_of,
    is_unknown,
    new_rows,
    noise_of,
    prior_odds,
    read_rows,
    refuse_levels_of_columns,
    seed_of,
)
from thali.optimize import minimize
from thali.posterior.new_rows import log_scores, memberships, predictive
from thali.sentences import n_of, was_given

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import NDArray

    from thali.model import Beta, Fixed, Gamma, PerComponent
    from thali.model.noise import NoisePrior
    from thali.posterior import Posterior
    from thali.progress import Progress
    from thali.sampler import Schedule


_NOTHING_KNOWN = "all entries of X are unknown; a score needs at least one known 0 or 1."


def _has_binary_entries(estimator: BooleanFactorization) -> bool:
    if estimator.objective == "errors":
        msg = 'objective="errors" gives no probabilities; use reconstruct() instead.'
        raise AttributeError(msg)
    if estimator.binarize is not None:
        msg = "predict_proba() needs binary entries (binarize=None); use reconstruct() instead."
        raise AttributeError(msg)
    return True


class BooleanFactorization(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Describe every row of a binary matrix or tensor as the union of a few components.

    ``fit`` samples the posterior (:func:`thali.sample`) and keeps its point estimate;
    ``transform`` returns the probability that a row has each component, also for new rows. It is
    deterministic, and the result for a row does not depend on the other rows.

    With ``objective="errors"``, ``fit`` searches for the components with the fewest errors
    instead (:func:`thali.minimize`), and memberships are zeros and ones.

    Parameters
    ----------
    n_components
        Number of components; None infers it, which the fewest errors cannot do.
    objective
        ``"posterior"`` or ``"errors"``.
    cost, seconds, sweeps
        As for :func:`thali.minimize`; only for the fewest errors.
    noise, alpha, density, mode, schedule, chains, warmup, draws, thin
        As for :func:`thali.sample`.
    binarize
        None accepts only 0, 1 and missing values (NaN, None, masked). With a number, entries above
        it become ones and the others zeros; missing values stay missing.
    engine, threads, out, checkpoint, progress
        As for :func:`thali.sample`. A folder ``out`` holds a single fit; leave it out if the
        estimator is fitted more than once, as in a grid search.
    random_state
        Seed of the chains. With None or a ``RandomState``, the seed is drawn at random.

    Attributes
    ----------
    posterior_ : Posterior
        All posterior draws, with their summaries.
    factorization_ : Factorization
        With ``objective="errors"``, the components with the fewest errors. There are then no
        ``posterior_``, ``noise_`` and ``prior_odds_``.
    components_ : ndarray of bool, (n_components_, n_features_in_)
        Columns of each component in the point estimate; of a tensor, ``(n_components_,
        *shape_in_)``.
    factors_ : tuple of ndarray of bool
        The factors of the point estimate, ``(n_lines, n_components_)`` for every mode: the fitted
        rows that have each component, then the lines of each other mode.
    shape_in_ : tuple of int
        Shape of a row.
    n_components_ : int
        Number of components in the point estimate; it can be 0.
    noise_ : Noise or NewRowLevels
        Posterior means of the error rates. With ``noise="effects"``: posterior means of the levels
        and jumps of columns (``columns``, ``jumps``), and the levels that a row may have, with
        their log prior (``rows``, ``log_prior``), in log odds. The level of a row to be
        transformed is unknown, even if the row was fitted, and is averaged over.
    prior_odds_ : ndarray, (n_components_,)
        Prior log odds that a new row has each component.
    n_features_in_ : int
        Number of columns: the entries of a row.
    feature_names_in_ : ndarray of str
        Names of the columns, if the data have names.

    Notes
    -----
    Numbers other than 0 and 1 are refused (ValueError) unless ``binarize`` says what they mean:
    a forgotten threshold would give an answer about other data. The checks of scikit-learn fit
    arrays of real numbers, so with ``binarize=None`` the estimator's tags keep them from running:
    ``check_estimator(BooleanFactorization())`` checks next to nothing, and says so in a warning.
    ``check_estimator(BooleanFactorization(binarize=0.0))`` runs and passes all checks. The tests
    of thali run them with ``binarize=None``, too, on binary data.

    Examples
    --------
    >>> import thali
    >>> from thali.estimator import BooleanFactorization
    >>> data = thali.simulate((60, 80), 3, spurious=0.05, seed=1)
    >>> few = {"noise": "unequal", "chains": 2, "warmup": 150, "draws": 50}  # two error rates
    >>> model = BooleanFactorization(**few, random_state=1)
    >>> Z = model.fit_transform(data.tensor)
    >>> Z.shape, model.components_.shape
    ((60, 3), (3, 80))
    >>> float((model.inverse_transform(Z > 0.5) == data.noise_free).mean())
    1.0
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        objective: str = "posterior",
        cost: tuple[float, float] = (1.0, 1.0),
        seconds: float | None = None,
        sweeps: int | None = None,
        noise: str | NoisePrior = "auto",
        alpha: float | Gamma | None = None,
        density: float | Beta | Fixed | PerComponent | tuple[Any, ...] | None = None,
        mode: int | str = 0,
        schedule: str | Schedule = "parallel",
        chains: int = CHAINS,
        warmup: int = WARMUP,
        draws: int = DRAWS,
        thin: int = 1,
        binarize: float | None = None,
        engine: str = "auto",
        threads: int | None = None,
        out: str | os.PathLike[str] | None = None,
        checkpoint: float = 10.0,
        progress: bool | Callable[[Progress], object] | None = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.objective = objective
        self.cost = cost
        self.seconds = seconds
        self.sweeps = sweeps
        self.noise = noise
        self.alpha = alpha
        self.density = density
        self.mode = mode
        self.schedule = schedule
        self.chains = chains
        self.warmup = warmup
        self.draws = draws
        self.thin = thin
        self.binarize = binarize
        self.engine = engine
        self.threads = threads
        self.out = out
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002, N803 - scikit-learn's signature
        """Sample the posterior of the components behind ``X``.

        Parameters
        ----------
        X
            ``(n_rows, n_features)``: an array, a masked array, a data frame or a SciPy sparse
            matrix of zeros, ones and missing values, or of numbers if ``binarize`` is given. Or an
            array of three or more axes, a tensor, whose first axis are the rows.
        y
            Ignored.
        """
        values = read_rows(self, X, reset=True)
        _, (rows, columns) = own_names(X, 2)
        names: Any = (rows, getattr(self, "feature_names_in_", columns))
        if len(self.shape_in_) > 1:
            names, values = None, values.reshape(-1, *self.shape_in_)
        tensor = BinaryTensor.from_any(values, row_names=names, threads=self.threads)
        if self._minimizes:
            return self._minimize(tensor)
        given = {k: v for k, v in self.get_params(deep=False).items() if k not in _OWN}
        refuse_levels_of_columns(self, values.shape)
        require_one_process(self.engine, "BooleanFactorization")
        posterior: Posterior = inference.sample(tensor, seed=seed_of(self.random_state), **given)
        self.posterior_ = posterior
        self.factors_ = tuple(f.dense() for f in posterior.point_estimate().factors)
        self.n_components_ = int(self.factors_[0].shape[1])
        self.components_ = codes_of(self.factors_).reshape(self.n_components_, *values.shape[1:])
        self.noise_ = noise_of(posterior)
        self.prior_odds_ = prior_odds(posterior, self.factors_[0])
        return self

    @property
    def _minimizes(self) -> bool:
        """Whether errors are minimized."""
        if self.objective not in ("posterior", "errors"):
            raise InvalidValue(
                was_given("objective", self.objective),
                'allowed are "posterior" and "errors"',
                "choose one",
            )
        return self.objective == "errors"

    def _minimize(self, tensor: BinaryTensor) -> Self:
        how = ("n_components", "cost", "seconds", "sweeps", "engine", "threads", "progress")
        given = {name: getattr(self, name) for name in how}
        found = minimize(tensor, seed=seed_of(self.random_state), **given)
        self.factorization_ = found
        self.factors_ = tuple(factor.dense() for factor in found.factors)
        self.components_ = codes_of(self.factors_)
        self.n_components_ = found.n_components
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Compute the probability that each row has each component.

        Parameters
        ----------
        X
            ``(n_rows, n_features)``, as in ``fit``.

        Returns
        -------
        memberships
            ``(n_rows, n_components_)``; a row without known entries gets the prior probability.
            With ``objective="errors"``, zeros and ones: the memberships with the fewest errors
            that a descent finds.
        """
        if self._minimizes:
            check_is_fitted(self)
            rows = read_rows(self, X, reset=False)
            if is_unknown(rows):
                return np.zeros((rows.shape[0], self.n_components_))
            return self.factorization_.transform(rows, threads=self.threads).astype(np.float64)
        return memberships(*new_rows(self, X), threads=self.threads)

    def reconstruct(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Compute the predictive probability that each entry is observed as one.

        For a missing entry, this is the prediction from the known entries of its row.

        Parameters
        ----------
        X
            ``(n_rows, n_features)``, as in ``fit``.

        Returns
        -------
        probabilities
            ``(n_rows, n_features)``. With ``objective="errors"``, zeros and ones: what the
            components of a row cover.
        """
        if self._minimizes:
            return self.inverse_transform(self.transform(X))
        return self._shaped(predictive(*new_rows(self, X), threads=self.threads))

    # In scikit-learn, `predict_proba` returns a probability for every class of a row, and its
    # tests expect two or four columns from any estimator that has this method. Here the entries
    # are the binary variables, so the method exists only if X holds binary entries, not numbers
    # that are compared with a threshold.
    @available_if(_has_binary_entries)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Compute the probability that each entry is one; the same as :meth:`reconstruct`.

        It is available only if ``binarize`` is None, because the entries of ``X`` are then the
        binary variables.

        Parameters
        ----------
        X
            ``(n_rows, n_features)``, as in ``fit``; its missing entries are predicted.

        Returns
        -------
        probabilities
            ``(n_rows, n_features)``.
        """
        return self.reconstruct(X)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002, N803
        """Score how well known entries are predicted from the other entries of their row.

        Cross-validation over columns: every fifth column is predicted from the remaining four
        fifths, then the next fifth, and so on.

        Returns
        -------
        score
            Mean log probability of a known entry: higher is better, 0 is perfect. With
            ``objective="errors"``, minus the share of known entries that contradict the
            components; no entry is left out, so that more components always score better.
        """
        if self._minimizes:
            values = self.reconstruct(X)
            known = read_rows(self, X, reset=False)
            if is_unknown(known):
                raise ValueError(_NOTHING_KNOWN)
            known = known if isinstance(known, np.ndarray) else known.toarray()
            return -float(np.nanmean(np.where(np.isnan(known), np.nan, known != values)))
        total, n_known = log_scores(*new_rows(self, X), threads=self.threads)
        if not n_known.any():
            raise ValueError(_NOTHING_KNOWN)
        return float(total.sum() / n_known.sum())

    def inverse_transform(self, Z: Any) -> NDArray[np.float64]:  # noqa: N803
        """Compute the probability that each entry is covered, for independent memberships.

        Parameters
        ----------
        Z
            ``(n_rows, n_components_)``, from 0 to 1.

        Returns
        -------
        covered
            ``(n_rows, n_features)``, without noise. For memberships of 0 and 1 it is the Boolean
            product of memberships and components.

        Notes
        -----
        ``1 - prod(1 - Z[:, l] * components_[l] for l in range(n_components_))``
        """
        check_is_fitted(self)
        has = check_array(Z, dtype=np.float64, ensure_min_features=0, ensure_all_finite=False)
        if has.shape[1] != self.n_components_:
            msg = (
                f"Z has {n_of(has.shape[1], 'column')}; it needs {self.n_components_}, one for "
                "each component, as `transform` returns it."
            )
            raise ValueError(msg)
        if not ((has >= 0.0) & (has <= 1.0)).all():
            msg = "Z holds values outside of 0 to 1; memberships are probabilities; clip them."
            raise ValueError(msg)
        missed = np.ones((len(has), self.n_features_in_))
        codes = self.components_.reshape(-1, self.n_features_in_)
        for column, code in zip(has.T, codes, strict=True):
            missed[:, code] *= 1.0 - column[:, None]
        return self._shaped(1.0 - missed)

    def _shaped(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows of a matrix in the shape of the rows that were fitted."""
        return rows.reshape(len(rows), *self.shape_in_) if len(self.shape_in_) > 1 else rows

    # --- what scikit-learn requires --------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        # Without a threshold, X must hold zeros and ones. There is no tag for that, and
        # scikit-learn's checks make arrays of real numbers, so they are told to make none.
        tags.input_tags.two_d_array = self.binarize is not None
        tags.input_tags.positive_only = self.binarize is None
        return tags


_OWN = {"binarize", "random_state", "objective", "cost", "seconds", "sweeps"}
"""Parameters of the estimator that `sample` does not have."""
