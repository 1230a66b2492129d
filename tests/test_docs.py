"""What the documents say can be done, can be done."""

import doctest
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import thali.cli

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"`?(\./dev [^`\n]+)")


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


def commands():
    found = {c.strip() for path in DOCUMENTS for c in COMMAND.findall(path.read_text())}
    return sorted(c.split("  ")[0] for c in found)


def test_python_example_of_the_readme_prints_what_it_says():
    """The example runs, and its answer is the one in the text."""
    (example,) = blocks(ROOT / "README.md", "python")
    assert len(example.strip().splitlines()) <= 12
    run = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=True
    )
    assert f"It prints `{run.stdout.strip()}`" in (ROOT / "README.md").read_text()


def test_documents_name_the_two_commands():
    """One command sets up and runs the main job, one sets up and passes the tests."""
    assert [b.strip() for b in blocks(ROOT / "README.md", "sh")] == [
        "./dev run fit examples/animals.csv",
        "./dev test",
    ]


def test_main_command_of_the_readme_answers():
    """The table of animals gives a posterior of the number of components."""
    (command, _) = (b.strip() for b in blocks(ROOT / "README.md", "sh"))
    arguments = shlex.split(command)[2:]
    arguments[-1] = str(ROOT / arguments[-1])
    result = CliRunner().invoke(thali.cli.main, [*arguments, "--warmup", "20", "--draws", "20"])
    assert result.exit_code == 0, result.output
    assert "components  probability" in result.output
    table = (ROOT / "examples" / "animals.csv").read_text().splitlines()
    size = f"{len(table) - 1} animals and {len(table[0].split(',')) - 1} attributes"
    assert size in " ".join((ROOT / "README.md").read_text().split())


@pytest.mark.parametrize("command", commands())
def test_commands_of_the_documents_exist(command):
    """`./dev` knows every subcommand that the documents mention, and paths in them exist."""
    script = (ROOT / "dev").read_text()
    words = shlex.split(command)
    assert re.search(rf"^    {words[1]}\)", script, re.MULTILINE), command
    for word in words[2:]:
        if "/" in word:
            assert (ROOT / word).exists(), word


def test_dev_refuses_what_it_does_not_know():
    """An unknown command is one sentence and exit code 2; none at all shows the list."""
    run = subprocess.run([ROOT / "dev", "dance"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr.count("\n")) == (2, 1)
    assert "unknown command 'dance'" in run.stderr
    run = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True)
    for name in ("run", "test", "lint", "bench"):
        assert f"./dev {name}" in run.stdout


@pytest.mark.parametrize("name", ["thali.model.simulate", "thali.data.binary"])
def test_docstring_examples(name):
    """Examples in docstrings run."""
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_links_between_documents_exist():
    """Relative links lead somewhere."""
    for path in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"
