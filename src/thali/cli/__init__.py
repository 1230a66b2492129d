"""The command line: from a file to the answer without writing Python.

Slow libraries are imported inside the commands, so that ``thali --help`` answers at once.
"""

from __future__ import annotations

import click

import thali
from thali.cli.conversion import convert
from thali.cli.group import Commands
from thali.cli.minimization import minimize
from thali.cli.sampling import fit, resume
from thali.cli.simulation import simulate
from thali.cli.views import export, report, summary

__all__ = ["main"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(thali.__version__, prog_name="thali")
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
def main(*, debug: bool) -> None:
    """Find the hidden Boolean structure of binary data.

    Every row is a plate with a few dishes from a buffet of unknown size: thali infers how many
    dishes (components) there are, which columns each contains, and which rows have which dishes.

    \b
    Start with a table of zeros and ones, and keep the run:
        thali fit table.csv --out table.run
    Look at the results, and export them:
        thali summary table.run
        thali report table.run -o table.html
        thali export table.run --to tables
    If the chains disagree, or the run was stopped, continue it:
        thali resume table.run --draws 800
    To ask instead which 10 components reproduce the table with the fewest errors:
        thali minimize table.csv --components 10 --to tables
    A large file is packed once for all, for many processes to share:
        thali convert table.csv table.packed
        mpiexec -n 8 thali fit table.packed --out table.run
    Without data at hand, simulate some whose true components are known:
        thali simulate table.csv --shape 200x500 --components 5

    `thali COMMAND --help` explains a command. Exit codes: 0 done, 1 the run failed or was
    stopped, 2 wrong usage or bad input.
    """  # noqa: D301 - the backslash is for click: it keeps the lines apart


for _command in (fit, resume, summary, report, export, minimize, simulate, convert):
    main.add_command(_command)
