"""The option ``--density``: a number, or how the density of ones is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from thali.model import Beta, PerComponent

AUTO, SHARED, OWN = "auto", "shared", "own"
_WORDS = AUTO, SHARED, OWN


class Density(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A number strictly between 0 and 1, ``auto``, ``shared`` or ``own``."""

    name = "density"

    def get_metavar(self, param: click.Parameter, ctx: Any = None) -> str:  # noqa: ARG002
        """Return what the help shows for the value."""
        return f"[{'|'.join(_WORDS)}|NUMBER]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | float:
        """Return the number, or the word as it is."""
        if value in _WORDS:
            return str(value)
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0.0 < number < 1.0:  # NaN is refused, too
            self.fail(
                f"{value!r} is not '{AUTO}', '{SHARED}', '{OWN}' or a number strictly between 0 "
                "and 1.",
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
    "with three. By default it is shared, unless rows are long and components clearly differ.",
)


def refuse_own_serial(density: str | float, schedule: str) -> None:
    """Raise an error if every component has its own density and rows come one after another."""
    if density == OWN and schedule != "parallel":
        msg = (
            f"--density own was given for --schedule {schedule}; components of a single row then "
            "cannot be drawn at once; use --schedule parallel."
        )
        raise click.UsageError(msg)


def density_prior(density: str | float) -> float | Beta | PerComponent | None:
    """Return what :func:`thali.sample` takes for a value of the option."""
    from thali.model import Beta, PerComponent  # noqa: PLC0415 - --help must stay fast

    if isinstance(density, float):
        return density
    if density == AUTO:
        return None
    return PerComponent() if density == OWN else Beta()
