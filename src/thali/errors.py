"""Errors and warnings that a caller may want to catch, and the guard for optional modules."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["EngineUnavailable", "NotConverged", "TraceDamaged", "TraceMismatch", "require"]


class EngineUnavailable(ImportError):  # noqa: N818 - it reads as the state that it reports
    """Raised when an engine or optional feature needs a library or device that is absent."""


class TraceMismatch(ValueError):  # noqa: N818 - it reads as the state that it reports
    """Raised when a stored trace does not belong to the tensor or settings it is used with."""


class TraceDamaged(ValueError):  # noqa: N818 - it reads as the state that it reports
    """Raised when a file of a stored run is missing, cut off or altered."""


class NotConverged(UserWarning):
    """Warns that the chains have not agreed, so that summaries may not describe the posterior."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional module, or say how to install it.

    Parameters
    ----------
    module
        Dotted name of the module.
    extra
        Name of the extra of this package that installs it.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    EngineUnavailable
        If the module, or something it imports, is missing.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise EngineUnavailable(
            f"{module} is needed here but cannot be imported ({error}); "
            f'install it with `pip install "thali[{extra}]"`.',
            name=module,
        ) from error
