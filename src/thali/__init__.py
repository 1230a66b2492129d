"""Bayesian Boolean factorization of binary data, with the number of components inferred."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thali.data import BinaryTensor
    from thali.estimator import BooleanFactorization
    from thali.inference import load, resume, sample
    from thali.model import Model
    from thali.model.simulate import simulate
    from thali.optimize import Factorization, minimize
    from thali.posterior import Posterior

__version__ = "0.1.0"

__all__ = [
    "BinaryTensor",
    "BooleanFactorization",
    "Factorization",
    "Model",
    "Posterior",
    "__version__",
    "load",
    "minimize",
    "read",
    "resume",
    "sample",
    "simulate",
]

_HOMES = {
    "BinaryTensor": "thali.data",
    "BooleanFactorization": "thali.estimator",
    "Factorization": "thali.optimize",
    "Model": "thali.model",
    "Posterior": "thali.posterior",
    "load": "thali.inference",
    "minimize": "thali.optimize",
    "read": "thali.data.readers.files",
    "resume": "thali.inference",
    "sample": "thali.inference",
    "simulate": "thali.model.simulate",
}

_PARTS = {
    "data": "thali.data",
    "datasets": "thali.datasets",
    "errors": "thali.errors",
    "model": "thali.model",
    "optimize": "thali.optimize",
    "pl": "thali.pl",  # "plots" and "tools", the names that scanpy uses
    "report": "thali.report",
    "sampler": "thali.sampler",
    "tl": "thali.tl",
    "views": "thali.views",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: ``import thali`` stays fast."""
    if name in _PARTS:
        return import_module(_PARTS[name])
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module 'thali' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PARTS])
