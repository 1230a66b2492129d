"""What the commands say, and where: answers on the output, all else on the error stream."""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


FAILED, BAD_INPUT = 1, 2


def tell(sentence: str) -> None:
    """Say something beside the answer."""
    click.echo(f"thali: {sentence}", err=True)


def say(text: str) -> None:
    """Write the answer; one sentence if that cannot be done."""
    try:
        click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # click ends quietly when nobody reads on
    except OSError as error:
        tell(f"the answer could not be written ({error.strerror}).")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to flush
        sys.exit(FAILED)


def command(*words: str | Path | int) -> str:
    """Return a command that can be copied to a shell."""
    return shlex.join(["thali", *map(str, words)])


_OPTIONS = {"n_components": "components", "unknown": "missing-rate"}
_NAMES = "draws|chains|warmup|seed|engine|threads|checkpoint|n_components|unknown|binarize"
_PHRASES: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"thali\.resume\('(.*?)'\)", lambda found: f"`{command('resume', found[1])}`"),
    (r"thali\.load\('(.*?)'\)", lambda found: f"`{command('summary', found[1])}`"),
    (r"sample\(out=…\)", "`thali fit --out`"),
    (r"load\(…, partial=True\) reads them, and resume\(…\)", "`thali resume`"),
    (r"\bresume\((?:…|\.\.\.)?\)", "`thali resume`"),
    (r"or load\(\) it", "or read it with `thali summary`"),
    (r"give n_components\b", "give --components"),
    (r"\b(kind|layer)=(['\"])(.*?)\2", lambda found: f"--{found[1]} {shlex.quote(found[3])}"),
    (r"\bmissing=\(.*?\) was given", "--missing was given"),
    (r"`(binarize|missing|layer|kind)` was given", r"--\1 was given"),
    (r"name it in `missing`", "name it with --missing TEXT"),
    (r"say its `kind`", "give --kind KIND"),
    (r"give (`?)binarize=?\1(?!\w)", "give --binarize T"),
    (r"give (`?)layer=?\1(?!\w)", "give --layer NAME"),
    (r"use to_datatree\(\)", "use a .nc file"),
    (
        rf"\b({_NAMES})=(\S+) was given",
        lambda found: f"--{_OPTIONS.get(found[1], found[1])} {found[2]} was given",
    ),
]
"""What the library says in Python, and how it is done on the command line."""


def in_commands(sentence: str) -> str:
    """Put a message of the library into the words of the command line.

    Examples
    --------
    >>> in_commands("draws=3 was given; go on with resume().")
    '--draws 3 was given; go on with `thali resume`.'
    """
    for pattern, words in _PHRASES:
        sentence = re.sub(pattern, words, sentence)
    return sentence
