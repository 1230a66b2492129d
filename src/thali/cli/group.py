"""The group of commands: every error becomes one sentence and an exit code."""

from __future__ import annotations

import errno
import logging
import re
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from thali.cli.messages import BAD_INPUT, FAILED, CommandFace, tell
from thali.errors import StoppedEarly, ThaliError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_INPUT_ERRORS = (ValueError, TypeError, OSError, ImportError, NotImplementedError)
_FAULTS_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE}


class Commands(click.Group):
    """Commands in the order in which they are needed, and errors in one sentence each."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order in which they were added."""
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help to those who give nothing; it is no answer, so the exit code says so."""
        if not args and not ctx.resilient_parsing:  # not while a shell completes
            click.echo(ctx.get_help(), err=True)
            ctx.exit(BAD_INPUT)
        return super().parse_args(ctx, args)

    def main(  # type: ignore[override]  # nobody gives the others by position
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "thali",
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and end the process; wrong usage is told in one sentence."""
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except click.UsageError as error:
            tell(_usage(error))
            sys.exit(BAD_INPUT)
        except click.ClickException as error:
            tell(error.format_message())
            sys.exit(BAD_INPUT)
        except click.Abort:  # Ctrl-C where there was nothing to keep yet
            tell("stopped; nothing was written.")
            sys.exit(FAILED)
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; tell its errors."""
        is_debugged = bool(ctx.params.get("debug"))
        with _log(logging.DEBUG if is_debugged else logging.WARNING):
            try:
                return super().invoke(ctx)
            except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
                raise  # the last: nobody reads on, and click ends quietly
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told and ends the run
                if is_debugged:
                    traceback.print_exc()
                tell(_sentence(error))
                sys.exit(_exit_code(error))


def _exit_code(error: Exception) -> int:
    """Tell bad input from a run that failed: a full disk is no fault of the command."""
    if isinstance(error, OSError) and error.errno in _FAULTS_OF_THE_MACHINE:
        return FAILED
    return BAD_INPUT if isinstance(error, _INPUT_ERRORS) else FAILED


def _sentence(error: Exception) -> str:
    told = str(error)
    if isinstance(error, ThaliError):
        told = error.sentence(CommandFace())
    elif isinstance(error, OSError) and error.strerror:
        told = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        told = (
            f"there is not enough memory ({told or 'none left'}); use fewer chains or less data."
        )
    elif not isinstance(error, _INPUT_ERRORS):
        told = (
            f"an error that was not expected ({type(error).__name__}: {told}); "
            "`thali --debug ...` shows where it comes from."
        )
    return " ".join(told.split()) or type(error).__name__


def _usage(error: click.UsageError) -> str:
    """Say what click says, as one sentence with the place to look."""
    told = " ".join(error.format_message().split()).rstrip(".")
    told = re.sub(r"\.? (\(?)Did you", lambda found: f"{' (' if found[1] else '; '}did you", told)
    path = "thali" if error.ctx is None else error.ctx.command_path
    if told[1:2].islower():  # OUT stays OUT
        told = f"{told[0].lower()}{told[1:]}"
    return f"{told} (see `{path} --help`)."


class _Told(logging.Handler):
    """Messages of the library, told like errors."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a message, unless the command says the same better."""
        if not isinstance(record.msg, StoppedEarly):
            tell(record.getMessage())


@contextmanager
def _log(level: int) -> Iterator[None]:
    log, handler = logging.getLogger("thali"), _Told()
    before = log.level
    log.addHandler(handler)
    log.setLevel(level)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
