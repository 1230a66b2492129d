"""The option ``--density``: a number, or how the density of ones is learned."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from thali.model import Beta, PerComponent

AUTO, SHARED, OWN = "auto", "shared", "own"
_WORDS = AUTO, SHARED, OWN


class Density(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A number strictly between 0 and 1, ``auto``, ``shared``, ``own`` or ``own:A,B``."""

    name = "density"

    def get_metavar(self, param: click.Parameter, ctx: Any = None) -> str:  # noqa: ARG002
        """Return what the help shows for the value."""
        return f"[{'|'.join(_WORDS)}|{OWN}:A,B|NUMBER]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | float:
        """Return the number, or the word as it is."""
        if value in _WORDS or (isinstance(value, str) and _beta(value)):
            return str(value)
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0.0 < number < 1.0:  # NaN is refused, too
            self.fail(
                f"{value!r} is not '{AUTO}', '{SHARED}', '{OWN}', '{OWN}:A,B' with two positive "
                "numbers, or a number strictly between 0 and 1.",
                param,
                ctx,
            )
        return number

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """Return the words that complete what was typed."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for shells

        del ctx, param
        return [CompletionItem(word) for word in _WORDS if word.startswith(incomplete)]


DENSITY = click.option(
    "--density",
    type=Density(),
    default=AUTO,
    show_default=True,
    help="Share of the columns that a component has, a priori: one unknown share for all "
    "components (shared), an unknown share for each (own), or a known one, such as 0.2. Use own "
    "if components differ much in size, for instance a role with all permissions beside roles "
    "with three; own:A,B has shares from Beta(A, B). auto is shared, unless rows of 1,000 entries "
    "or more show that components differ much in size; then it is own:4,4.",
)


def refuse_own_serial(density: str | float, schedule: str) -> None:
    """Raise an error if every component has its own density and rows come one after another."""
    if str(density).startswith(OWN) and schedule != "parallel":
        msg = (
            f"--density {density} was given for --schedule {schedule}; components of a single row "
            "then cannot be drawn at once; use --schedule parallel."
        )
        raise click.UsageError(msg)


def density_prior(density: str | float) -> float | Beta | PerComponent | None:
    """Return what :func:`thali.sample` takes for a value of the option."""
    from thali.model import Beta, PerComponent  # noqa: PLC0415 - --help must stay fast

    if isinstance(density, float):
        return density
    if density == AUTO:
        return None
    if density == SHARED:
        return Beta()
    beta = _beta(density)
    return PerComponent(*beta) if beta else PerComponent()


def _beta(density: str) -> tuple[float, float] | None:
    """Return the numbers after ``own:``; None if there are none, or if they are not allowed.

    Examples
    --------
    >>> _beta("own:4,4"), _beta("own"), _beta("own:4,-1"), _beta("own:x")
    ((4.0, 4.0), None, None, None)
    """
    word, _, numbers = density.partition(":")
    try:
        a, b = map(float, numbers.split(","))
    except ValueError:
        return None
    return (a, b) if word == OWN and 0.0 < a < inf and 0.0 < b < inf else None
