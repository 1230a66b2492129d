"""The group of commands, which turns every error into one sentence and an exit code."""

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
_FAULTS_OF_THE_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.EFBIG)
}


class Commands(click.Group):
    """Lists commands in the order of their use, and reports every error in one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order in which they were added."""
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help if no command is given; the exit code reports wrong usage."""
        if not args and not ctx.resilient_parsing:  # not during shell completion
            click.echo(ctx.get_help(), err=True)
            ctx.exit(BAD_INPUT)
        return super().parse_args(ctx, args)

    def main(  # type: ignore[override]  # the other arguments are only given by name
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "thali",
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and end the process; report wrong usage in one sentence."""
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
        except click.Abort:  # Ctrl-C before there was anything to keep
            tell("stopped; nothing was written.")
            sys.exit(FAILED)
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and report its errors."""
        is_debugged = bool(ctx.params.get("debug"))
        with _log(logging.DEBUG if is_debugged else logging.WARNING):
            try:
                return super().invoke(ctx)
            except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
                raise  # a broken pipe: nobody reads the output, and click ends quietly
            except Exception as error:  # noqa: BLE001 - any error is reported and ends the run
                if is_debugged:
                    traceback.print_exc()
                tell(_sentence(error))
                sys.exit(_exit_code(error))


def _exit_code(error: Exception) -> int:
    """Return the exit code: a full disk, for example, is a failure, not bad input."""
    if isinstance(error, OSError) and error.errno in _FAULTS_OF_THE_MACHINE:
        return FAILED
    return BAD_INPUT if isinstance(error, _INPUT_ERRORS) else FAILED


def _sentence(error: Exception) -> str:
    text = str(error)
    if isinstance(error, ThaliError):
        text = error.sentence(CommandFace())
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        text = (
            f"there is not enough memory ({text or 'none left'}); use fewer chains or less data."
        )
    elif not isinstance(error, _INPUT_ERRORS):
        text = (
            f"an unexpected error occurred ({type(error).__name__}: {text}); "
            "`thali --debug ...` shows where it comes from."
        )
    return " ".join(text.split()) or type(error).__name__


def _usage(error: click.UsageError) -> str:
    """Return the message of click as one sentence that refers to the help."""
    text = " ".join(error.format_message().split()).rstrip(".")
    text = re.sub(r"\.? (\(?)Did you", lambda found: f"{' (' if found[1] else '; '}did you", text)
    path = "thali" if error.ctx is None else error.ctx.command_path
    if text[1:2].islower():  # but names in capitals, such as OUT, stay
        text = f"{text[0].lower()}{text[1:]}"
    return f"{text} (see `{path} --help`)."


class _Shown(logging.Handler):
    """Shows log messages of the library on the error stream."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message, unless the command reports the same event itself."""
        if not isinstance(record.msg, StoppedEarly):
            tell(record.getMessage())


@contextmanager
def _log(level: int) -> Iterator[None]:
    log, handler = logging.getLogger("thali"), _Shown()
    before = log.level
    log.addHandler(handler)
    log.setLevel(level)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
