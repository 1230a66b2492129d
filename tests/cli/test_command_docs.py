"""What the page about the command line tells to type works, and says what the page says."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import BRIEF, FAST, without_time
from thali.cli import main
from thali.posterior.answer import answer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text()


def pages():
    """Other documents with commands for a shell: where they are, and what they are called."""
    paths = [*(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"]
    found = {
        path.name: commands_of(path.read_text()) for path in paths if "_build" not in path.parts
    }
    return {name: typed for name, typed in found.items() if typed and name != "command-line.md"}


def commands_of(text):
    """What is typed in blocks of shell, after `thali` or `./dev run`."""
    lines = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines()
    return [m.group(1) for line in lines if (m := re.match(r"(?:thali|\./dev run) (.*)", line))]


@pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")
@pytest.mark.parametrize(("name", "typed"), pages().items(), ids=lambda part: str(part)[:20])
@pytest.mark.usefixtures("short_starts")
def test_the_commands_of_other_documents(name, typed, run, tmp_path):
    """They run one after another, in one folder with our examples; sampling is cut short."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for line in typed:
        words = shlex.split(line)
        fast = BRIEF if "--noise" in words else FAST
        code, _, err = run(*words, *(fast if words[0] in ("fit", "resume") else ()))
        assert code == 0, f"{name}: {line}: {err}"


def shortened(words):
    """Return a command that samples less: still more draws than other commands leave out."""
    if words[0] == "fit":
        return [*words, "--warmup", "5", "--draws", "60", "--chains", "2", "--threads", "1"]
    if "--draws" in words:
        at = words.index("--draws") + 1
        return [*words[:at], "65", *words[at + 1 :]]
    return words


# AnnData 0.13 asks pandas 3 for an option that pandas has announced to drop.
@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option is deprecated")
@pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")
@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_commands_of_the_page(run, tmp_path, is_whole, request):
    """They run one after another, in one folder; the answer is the one in the text.

    Sampling is cut short, except in the slow test: only that one can compare the numbers.
    """
    if not is_whole:
        request.getfixturevalue("short_starts")
    typed = "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).splitlines()
    outputs = {}
    for line in typed:
        name, *words = shlex.split(line)
        assert name == "thali"
        code, out, err = run(*(words if is_whole else shortened(words)))
        assert code == 0, f"{line}: {err}"
        outputs[line] = out
    assert {shlex.split(line)[1] for line in typed} == set(main.commands)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    told = without_time(outputs["thali fit plates.csv --out plates.run"])
    if is_whole:
        assert told == without_time(shown)
    for text in (told, shown):
        assert "100 x 60 entries, all known: most " in text
        assert "\nNext: thali " in text
    found = json.loads(outputs["thali summary plates.run --json"])
    keys = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)))
    assert set(found) <= set(keys)
    written = ("plates.html", "plates.nc", "plates.h5ad", "plates-tables")
    assert all((tmp_path / name).exists() for name in written)
    for path in (tmp_path / "plates-tables").iterdir():
        assert f"`{path.name}`" in PAGE


def test_the_answer_has_what_the_page_says():
    """No key is told that is not there."""
    table = PAGE.split("| key | value |")[1].split("\n\n")[0]
    keys = re.findall(
        r"`(\w+)`", " ".join(line.split("|")[1] for line in table.splitlines() if line)
    )
    documented = {key for key in keys if key != "run"}
    assert all(f"``{key}``" in answer.__doc__ for key in documented)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, tmp_path):
    """The line in the table prints a script that defines the completion of `thali`."""
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("needs bash")
    assert f"_THALI_COMPLETE={shell}_source thali" in PAGE
    code = "import sys; from thali.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"_THALI_COMPLETE": f"{shell}_source", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert ended.returncode == 0
    assert "_THALI_COMPLETE" in ended.stdout
    assert "thali" in ended.stdout


def test_completion_knows_commands_and_options():
    """What a shell asks for when somebody presses the tabulator."""

    def ask(words, last):
        ended = subprocess.run(
            [sys.executable, "-c", "from thali.cli import main; main()"],
            env={
                "_THALI_COMPLETE": "zsh_complete",
                "COMP_WORDS": words,
                "COMP_CWORD": str(last),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.stdout.splitlines()

    assert "summary" in ask("thali su", 1)
    assert "--schedule" in ask("thali fit --sch", 2)
    assert "serial-integrated" in ask("thali fit --schedule ser", 3)
