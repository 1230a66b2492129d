"""Help teaches, and is there at once."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import thali
from thali.cli import main
from thali.cli.messages import CommandFace, command

HEAVY = {"numpy", "numba", "pandas", "scipy", "sklearn", "arviz_stats", "xarray", "matplotlib"}


def test_version(run):
    """The version is that of the package."""
    assert run("--version") == (0, f"thali, version {thali.__version__}\n", "")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_says_what_to_do_first(run, option):
    """Commands come in the order in which they are needed, each in an example."""
    code, out, err = run(option)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: thali")
    names = list(main.commands)
    first = ["fit", "resume", "summary", "report", "export", "minimize", "simulate"]
    assert names == [*first, "convert"]
    assert re.findall(r"^  (\w+)  +[A-Z]", out.split("Commands:")[1], re.MULTILINE) == names
    assert all(f"    thali {name} " in out for name in names)
    assert "..." not in out.split("Commands:")[1]  # nothing is cut off


@pytest.mark.parametrize("name", main.commands)
def test_commands_have_help_with_an_example(run, name):
    """An example is a command that can be copied; every option is explained."""
    code, out, err = run(name, "--help")
    assert (code, err) == (0, "")
    assert f"    thali {name} " in out
    options = [p for p in main.commands[name].params if p.param_type_name == "option"]
    assert [p.name for p in options if not p.help and p.name != "seed"] == []


def test_nothing_given_shows_the_help(run):
    """It was no command, says the exit code."""
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: thali")


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["export", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    """So it answers at once: the libraries that take seconds are not loaded."""
    code = (
        "import sys, thali.cli\n"
        f"try: thali.cli.main({arguments})\n"
        "finally: print('\\n' + ' '.join(sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(ended.stdout.splitlines()[-1].split())
    assert "thali.cli.views" in loaded
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("thali")} == {
        "thali",
        "thali.cli",
        *(f"thali.cli.{part}" for part in ("density", "group", "output", "progress")),
        *(
            f"thali.cli.{part}"
            for part in ("messages", "minimization", "reading", "sampling", "simulation", "views")
        ),
        *("thali.cli.conversion", "thali.defaults", "thali.errors", "thali.launcher"),
        "thali.sentences",
    }


def test_defaults_are_those_of_sample():
    """Python, the estimator and the command line have one definition of them."""
    from thali.defaults import CHAINS, DRAWS, WARMUP

    lengths = {"chains": CHAINS, "warmup": WARMUP, "draws": DRAWS}
    given = {option.name: option.default for option in main.commands["fit"].params}
    assert {name: given[name] for name in lengths} == lengths
    for taker in (thali.sample, thali.BooleanFactorization):
        asked = inspect.signature(taker).parameters
        assert {name: asked[name].default for name in lengths} == lengths


def test_advice_is_typed_as_the_command_was(monkeypatch):
    """`./dev run` says how it is called, and what to type next begins like that."""
    assert command("summary", "my run") == "thali summary 'my run'"
    monkeypatch.setenv("THALI_CALLED_AS", "./dev run")
    assert command("summary", "my run") == "./dev run summary 'my run'"
    assert CommandFace().sample(is_kept=True) == "`./dev run fit --out`"
    script = (Path(__file__).parents[2] / "dev").read_text()
    assert 'THALI_CALLED_AS="$0 run" exec "$bin/thali"' in script
