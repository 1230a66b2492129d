"""What the scikit-learn estimator reads: rows as bits, the seed, and the prior of new rows."""

from __future__ import annotations

from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logit
from sklearn.utils.validation import (
    check_is_fitted,
    check_non_negative,
    check_random_state,
    validate_data,
)

from thali.bits import Unfolding, pack
from thali.checks import mode_number
from thali.data import BinaryTensor
from thali.data.binarize import binarize, unmask
from thali.errors import InvalidValue
from thali.model import Effects, Noise
from thali.model.model import noise_for, noise_prior
from thali.posterior.new_row_levels import NewRowLevels
from thali.posterior.new_rows import Components
from thali.sentences import was_given

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from thali.posterior import Posterior


def seed_of(random_state: Any) -> int:
    """Return the seed of the chains; an integer is used as it is, as in :func:`thali.sample`."""
    generator = check_random_state(random_state)
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(generator.randint(2**31 - 1))


def new_rows(estimator: Any, X: Any) -> tuple[BinaryTensor | Unfolding, Components]:  # noqa: N803
    """Read the rows of ``X``, and return them with the components that were learned."""
    check_is_fitted(estimator)
    values = read_rows(estimator, X, reset=False)
    codes = estimator.components_.reshape(-1, estimator.n_features_in_)
    components = Components(codes.T, estimator.prior_odds_, estimator.noise_)
    if is_unknown(values):
        nothing = pack(np.zeros(values.shape, np.bool_))  # a BinaryTensor needs a known entry
        return Unfolding(nothing, nothing), components
    return BinaryTensor.from_any(values, threads=estimator.threads), components


def is_unknown(values: Any) -> bool:
    """Whether no entry is known."""
    stored = values if isinstance(values, np.ndarray) else values.data
    return bool(stored.size == prod(values.shape) and np.isnan(stored).all())


def flattened(estimator: Any, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """Return every row of a tensor as a row of a matrix; a matrix stays as it is.

    ``shape_in_`` remembers the shape of a row.
    """
    shape = tuple(np.shape(X)) if hasattr(X, "shape") or isinstance(X, list | tuple) else ()
    if reset:
        estimator.shape_in_ = shape[1:]
    elif len(shape) >= 2 and len(estimator.shape_in_) > 1 and shape[1:] != estimator.shape_in_:
        msg = (
            f"X has rows of shape {shape[1:]}; those that were fitted have the shape "
            f"{estimator.shape_in_}; give rows of the same shape."
        )
        raise ValueError(msg)
    return X if len(shape) <= 2 else np.reshape(X, (shape[0], prod(shape[1:])))


def codes_of(factors: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Return the columns of each component, ``(n_components, n_features)``, given all factors."""
    codes = factors[1].T
    for factor in factors[2:]:
        codes = codes[:, :, None] & factor.T[:, None, :]
        codes = codes.reshape(len(codes), prod(codes.shape[1:]))
    return np.ascontiguousarray(codes)


def read_rows(estimator: Any, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """Validate ``X`` and return zeros, ones and NaN, sparse if ``X`` is sparse."""
    if isinstance(X, BinaryTensor):
        msg = "a BinaryTensor was given; give the array or frame behind it, or use sample()."
        raise TypeError(msg)
    rows = flattened(estimator, unmask(X), reset=reset)
    values = validate_data(
        estimator, rows, reset=reset, accept_sparse="csr", ensure_all_finite="allow-nan"
    )
    if estimator.binarize is None:  # in the words that scikit-learn's checks look for
        allowed = "allowed are 0, 1 and NaN for unknown; give `binarize`, a number"
        check_non_negative(values, f"{type(estimator).__name__}; {allowed}")
    return binarize(values, estimator.binarize)


def noise_of(posterior: Posterior) -> Noise | NewRowLevels:
    """Return the noise that new rows are compared with: posterior means."""
    if isinstance(posterior.settings.model.priors(len(posterior.shape)).noise, Effects):
        return NewRowLevels.mean(posterior)
    return Noise(float(posterior.spurious.mean()), float(posterior.dropped.mean()))


def refuse_levels_of_columns(estimator: Any, shape: tuple[int, ...]) -> None:
    """Raise an error if the columns have the buffet, and rows have levels as columns have them."""
    noise = noise_prior(noise_for(estimator.noise, shape, estimator.n_components))
    names = [f"mode_{mode}" for mode in range(len(shape))]
    if mode_number(estimator.mode, names) and isinstance(noise, Effects):
        raise InvalidValue(
            was_given("mode", estimator.mode),
            "with effects, memberships of new rows need rows that have the buffet",
            "leave it out, or give noise='unequal'",
        )


def prior_odds(posterior: Posterior, users: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the log odds that a new row has each component.

    In the Indian buffet process, the weight of a component that m of N rows have is distributed
    as Beta(m, N - m + 1) (P5), whose mean is m / (N + 1).
    """
    n_rows, n_components = users.shape
    densities = posterior.densities[0]
    if densities is None:
        return np.asarray(logit(users.sum(axis=0) / (n_rows + 1.0)), np.float64)
    return np.full(n_components, logit(densities.mean()))
