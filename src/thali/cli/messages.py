"""Messages of the commands: answers go to the output, everything else to the error stream."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from thali import launcher
from thali.sentences import Face, numbered

if TYPE_CHECKING:
    from pathlib import Path


FAILED, BAD_INPUT = 1, 2


def tell(sentence: str) -> None:
    """Write a message to the error stream; of the processes of a job, only the first does."""
    if launcher.is_first():
        click.echo(f"thali: {sentence}", err=True)


def say(text: str) -> None:
    """Write the answer to the output; if that fails, say so in one sentence and exit."""
    try:
        click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # nobody reads the output, and click ends quietly
    except OSError as error:
        tell(f"the answer could not be written ({error.strerror}).")
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # so that Python does not flush at exit
        sys.exit(FAILED)


def tell_reading(path: Path) -> None:
    """In a terminal, say what is read, before slow libraries are imported.

    In logs, an error stays the only message.
    """
    if sys.stderr.isatty():
        tell(f"reading {path}")


def command(*words: str | Path | int) -> str:
    """Return a command that can be copied to a shell.

    It begins as the user's did: a script that calls thali can say how in THALI_CALLED_AS.
    """
    called = os.environ.get("THALI_CALLED_AS", "thali")
    return f"{called} {shlex.join(map(str, words))}"


OPTIONS = {
    "n_components": "--components N",
    "chains": "--chains N",
    "warmup": "--warmup N",
    "draws": "--draws N",
    "seed": "--seed N",
    "seconds": "--seconds S",
    "sweeps": "--sweeps N",
    "cost": "--cost ZERO ONE",
    "threads": "--threads N",
    "checkpoint": "--checkpoint SECONDS",
    "noise": "--noise NAME",
    "density": "--density NUMBER",
    "schedule": "--schedule NAME",
    "engine": "--engine NAME",
    "out": "--out RUN",
    "binarize": "--binarize T",
    "missing": "--missing TEXT",
    "transpose": "--transpose",
    "layer": "--layer NAME",
    "kind": "--kind KIND",
    "sep": "--sep SIGN",
    "array": "--array NAME",
    "sheet": "--sheet NAME",
    "mode": "--mode NAME",
    "modes": "--modes NAMES",
    "unlisted": "--unlisted WHAT",
    "encoding": "--encoding NAME",
    "skip": "--skip N",
    "names": "--names COLUMN",
    "drop": "--drop COLUMN",
    "ones": "--ones TEXT",
    "zeros": "--zeros TEXT",
    "alpha": "--alpha A",
    "spurious": "--spurious RATE",
    "dropped": "--dropped RATE",
    "unknown": "--missing-rate RATE",
    "row_spread": "--row-spread SD",
    "column_spread": "--column-spread SD",
    "jump_spread": "--jump-spread SD",
}
"""Options of the command line, by the names of the arguments in Python."""


class CommandFace(Face):
    """The wording of the command line.

    Parameters
    ----------
    run
        The run that the messages are about, if there is one.

    Examples
    --------
    >>> from pathlib import Path
    >>> from thali.sentences import Resume, Setting, say
    >>> phrase = (Setting("n_components", -1), " was given; ", Resume(), " goes on")
    >>> say(phrase, CommandFace(Path("my run")))
    "--components -1 was given; `thali resume 'my run'` goes on"
    """

    def __init__(self, run: Path | None = None) -> None:
        self.run = run

    def argument(self, name: str) -> str:
        """Return the name of an option."""
        return OPTIONS.get(name) or name.replace("_", " ")

    def setting(self, name: str, value: Any) -> str:
        """Return an option as it is typed: once per value, or alone if it is a flag."""
        option = OPTIONS[name].partition(" ")[0] if name in OPTIONS else self.argument(name)
        if value is True:
            return option
        if name == "modes" and isinstance(value, tuple | list):  # one option for all of them
            value = ",".join(map(str, value))
        values = value if isinstance(value, tuple | list) else [value]
        return " ".join(f"{option} {shlex.quote(str(part))}" for part in values)

    def resume(self, run: Path | None) -> str:
        """Return the command that resumes a run."""
        return f"`{command('resume', *self._name(run))}`"

    def load(self, run: Path | None) -> str:
        """Return the command that shows a run."""
        return f"`{command('summary', *self._name(run))}`"

    def load_partially(self) -> str:
        """Return an empty text: no command reads a part of a run."""
        return ""

    def replace(self) -> str:
        """Return how a new run takes the place of another: by an option."""
        return "replace it with --force"

    def sample(self, *, is_kept: bool) -> str:
        """Return the command that starts a run."""
        return f"`{command('fit', *(['--out'] if is_kept else []))}`"

    def export_tree(self) -> str:
        """Return the kind of file that holds tensors of any number of modes."""
        return "a .nc file"

    def take_draws(self, draws: int) -> str:
        """Return a clause that says how to get more draws per chain."""
        if self.run is None:
            return f"ask for more draws with --draws {draws}"
        return f"go on with `{command('resume', self.run, '--draws', draws)}`"

    def one_chain(self, chain: int) -> str:
        """Return the command that shows one chain, or its number if no run is kept."""
        if self.run is None:
            return f"chain {numbered(chain)}"
        return f"`{command('summary', self.run, '--chain', numbered(chain))}`"

    def _name(self, run: Path | None) -> list[Path]:
        run = self.run if run is None else run
        return [] if run is None else [run]
