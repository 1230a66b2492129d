"""What the documents say can be done, can be done."""

import doctest
import importlib
import inspect
import pkgutil
import re
import shlex
import subprocess
import tomllib
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

import thali.cli
from thali.model.simulate import Simulated
from thali.posterior.align import Alignment
from thali.posterior.estimate import PointEstimate
from thali.posterior.predict import Score
from thali.sampler import Attempted

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "results").glob("*.md")),
]
SECTIONS = ["Start", "How-to", "Understand", "Reference", "Results"]
COMMAND = re.compile(r"`?(\./dev [^`\n]+)")


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


def commands():
    found = {c.strip() for path in DOCUMENTS for c in COMMAND.findall(path.read_text())}
    return sorted(c.split("  ")[0] for c in found)


def test_python_example_of_the_readme_prints_what_it_says(capfd):
    """Its answer is the one in the text; nothing else is said where nobody watches."""
    (example,) = blocks(ROOT / "README.md", "python")
    assert len(example.strip().splitlines()) <= 12
    exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})
    out, err = capfd.readouterr()
    assert f"It prints `{out.strip()}`" in (ROOT / "README.md").read_text()
    assert err == ""


def test_documents_name_the_two_commands():
    """One command sets up and runs the main job, one sets up and passes the tests."""
    assert [b.strip() for b in blocks(ROOT / "README.md", "sh")] == [
        "./dev run fit examples/roles.csv --report roles.html --force",
        "./dev test",
    ]


@pytest.mark.usefixtures("short_starts")
def test_main_command_of_the_readme_answers(tmp_path, monkeypatch):
    """The table of roles gives an answer in words, and a page to look at."""
    (command, _) = (b.strip() for b in blocks(ROOT / "README.md", "sh"))
    arguments = shlex.split(command)[2:]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    page = arguments[arguments.index("--report") + 1]
    (tmp_path / page).write_text("of an earlier try")  # the command can be repeated
    brief = ("--warmup", "20", "--draws", "20", "--chains", "2")
    result = CliRunner().invoke(thali.cli.main, [*arguments, *brief])
    assert result.exit_code == 0, result.output
    assert "120 x 60 entries, all known: most " in result.output
    assert f"{page} is written" in result.output
    assert (tmp_path / page).stat().st_size > 10_000
    table = (ROOT / "examples" / "roles.csv").read_text().splitlines()
    size = f"{len(table) - 1} users and {len(table[0].split(',')) - 1} permissions"
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
    for name in ("run", "test", "lint", "bench", "docs", "python"):
        assert f"./dev {name}" in run.stdout


def modules_with_examples():
    """Find the modules whose text has a doctest."""
    source = Path(thali.__file__).parents[1]
    found = (
        path
        for path in source.rglob("*.py")
        if re.search(r"^ *>>> ", path.read_text(), re.MULTILINE)
    )
    return sorted(".".join(path.relative_to(source).with_suffix("").parts) for path in found)


SAMPLED = {}
"""Posteriors of examples, which many modules share, by data and settings."""


def sample_once(tensor, **settings):
    """Sample as always, but the same only once; nobody changes what comes back."""
    if "out" in settings:
        return thali.inference.sample(tensor, **settings)
    key = tensor.tobytes(), tensor.shape, repr(settings)
    if key not in SAMPLED:
        SAMPLED[key] = thali.inference.sample(tensor, **settings)
    return SAMPLED[key]


def examples():
    """Return modules one by one, but those that sample together: they share what is sampled."""
    source, alone, together = Path(thali.__file__).parents[1], [], []
    for name in modules_with_examples():
        text = source.joinpath(*name.split(".")).with_suffix(".py").read_text()
        (together if "thali.sample(" in text else alone).append(name)
    ones = [pytest.param([name], id=name) for name in alone]
    return [*ones, pytest.param(together, id="those that sample")]


@pytest.mark.parametrize("names", examples())
def test_docstring_examples(names, monkeypatch):
    """Examples in docstrings run; those of methods go on where that of their class ended."""
    monkeypatch.setattr(thali, "sample", sample_once)
    for name in names:
        run_examples(name)


def run_examples(name):
    tests = doctest.DocTestFinder().find(importlib.import_module(name), name)
    runner = doctest.DocTestRunner()
    known = {}
    for test in sorted(tests):  # a class comes before its methods
        test.globs |= known.get(test.name.rpartition(".")[0], {})
        runner.run(test, clear_globs=False)
        known[test.name] = test.globs
    assert runner.tries > 0, name
    assert runner.failures == 0, name


def has_example(thing):
    """Whether a function has an example; or a class, itself or in one of its methods."""
    parts = [thing]
    if inspect.isclass(thing):
        parts += [part for name, part in vars(thing).items() if not name.startswith("_")]
    texts = (inspect.getdoc(part) or "" for part in parts)
    return any("\nExamples\n--------\n>>> " in text for text in texts)


@pytest.mark.parametrize("name", [n for n in thali.__all__ if not n.startswith("_")])
def test_public_names_have_an_example(name):
    """Whoever asks for help is shown how to call it; the test above runs it."""
    assert has_example(getattr(thali, name))


@pytest.mark.parametrize("result", [Alignment, Attempted, PointEstimate, Score, Simulated])
def test_reference_names_the_fields_of_results(result):
    """Tables in the reference have a line for every field, in the same order."""
    text = (ROOT / "docs" / "api.md").read_text()
    _, table = re.split(
        rf"^\| field of `{result.__name__}` .*\n\|[-|]+\n", text, flags=re.MULTILINE
    )
    lines = table.split("\n\n")[0].splitlines()
    assert tuple(line.split("`")[1] for line in lines) == result._fields


def test_reference_has_every_public_name():
    """Names that are exported are documented."""
    text = (ROOT / "docs" / "api.md").read_text()
    names = [f"thali.{name}" for name in thali.__all__ if not name.startswith("_")]
    names += [f"thali.{part}" for part in ("errors.NotConverged", "sampler.Schedule")]
    assert {name for name in names if f":: {name}\n" not in text} == set()


def notebooks():
    return [path for path in DOCUMENTS if path.read_text().startswith("---\nfile_format: mystnb")]


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.name)
def test_notebooks_are_repeatable_and_quiet(path):
    """Cells run when the documentation is built; each run has a seed and shows no bars."""
    cells = re.findall(
        r"^```\{code-cell\}.*?\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL
    )
    assert cells
    text = "\n".join(cells)
    calls = re.findall(
        r"thali\.(sample|resume|minimize|tl\.factorize)\((.*?)\)\n", text, re.DOTALL
    )
    assert calls
    for name, arguments in calls:
        assert "progress=False" in arguments
        assert name == "resume" or "seed=" in arguments
    for arguments in re.findall(r"BooleanFactorization\((.*?)\)\n", text, re.DOTALL):
        assert "random_state=" in arguments


def test_pages_are_in_the_table_of_contents():
    """The first page leads to all others, and the build knows no other pages."""
    index = (ROOT / "docs" / "index.md").read_text()
    trees = re.findall(r"```\{toctree\}\n:caption: (.*?)\n:hidden:\n(.*?)```", index, re.DOTALL)
    assert [section for section, _ in trees] == SECTIONS
    listed = [page for _, tree in trees for page in tree.split()]
    folder = ROOT / "docs"
    paths = [*folder.glob("*.md"), *folder.glob("results/*.md")]
    pages = {path.relative_to(folder).with_suffix("").as_posix() for path in paths} - {"index"}
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize(
    ("name", "said"), [("index", "component_1"), ("install", "animals"), ("reproducing", "True\n")]
)
@pytest.mark.usefixtures("short_starts")
def test_python_of_pages_that_are_no_notebooks_runs(name, said, monkeypatch, capsys):
    """With fewer sweeps than by default."""
    sample = thali.sample
    few = {"warmup": 5, "draws": 10, "chains": 1, "progress": False}
    monkeypatch.setattr(thali, "sample", lambda *data, **given: sample(*data, **given | few))
    (example,) = blocks(ROOT / "docs" / f"{name}.md", "python")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", thali.errors.NotConverged)
        exec(example, {})
    assert said in capsys.readouterr().out


def test_the_page_of_promises_names_tests_that_exist():
    """A promise is worth what holds it: each test is in the file that the page says."""
    text = (ROOT / "docs" / "promises.md").read_text()
    named = 0
    for names, path in re.findall(r"((?:`test_\w+`(?:, )?)+) in `(tests/[\w/]+\.py)`", text):
        known = (ROOT / path).read_text()
        for name in re.findall(r"test_\w+", names):
            assert f"def {name}(" in known, f"{path}: {name}"
            named += 1
    assert named == len(re.findall(r"`test_\w+`", text)) > 15


def test_the_page_of_promises_has_the_lower_bounds():
    """Its table is that of the package, and so is the Python it names."""
    text = (ROOT / "docs" / "promises.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = re.search(r"\| library \| at least \|\n\|[-|]+\n(.*?)\n\n", text, re.DOTALL).group(1)
    told = [">=".join(re.findall(r"[\w.-]+", line)) for line in table.splitlines()]
    assert told == project["dependencies"]
    assert f"Python {project['requires-python'].removeprefix('>=')} " in text


def test_the_page_on_installation_names_the_extras():
    """Each that the package has, and no other."""
    text = (ROOT / "docs" / "install.md").read_text()
    table = text.split("| extra |")[1].split("\n\n")[0]
    named = re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in table.splitlines()[2:]))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(named) == sorted(project["optional-dependencies"])


def test_links_between_documents_exist():
    """Relative links lead somewhere."""
    for path in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


PLACES = [ROOT, ROOT / "src" / "thali", ROOT / "docs", ROOT / "examples"]
ABOUT_CODE = [
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs" / f"{n}.md" for n in ("design", "glossary")),
]


def quoted(path, pattern):
    """What stands between backticks, outside of blocks, and is all of a pattern."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {part for part in re.findall(r"`([^`\n]+)`", text) if re.fullmatch(pattern, part)}


def is_there(name):
    """Whether a file or folder is in a usual place; one without a folder may be anywhere."""
    if any(list(place.glob(name)) for place in PLACES):
        return True
    return "/" not in name and any(list((ROOT / f).rglob(name)) for f in ("src", "tests"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_documents_name_exist(path):
    """Files of code that were renamed are renamed in documents, too; NAME stands for any."""
    named = quoted(path, r"[\w./*-]+\.(py|cu|js)")
    assert {name for name in named if "NAME" not in name and not is_there(name)} == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_names_that_documents_import_exist(path):
    """What is called ``thali.…`` can be imported by that name."""
    for name in quoted(path, r"thali(\.\w+)+"):
        pkgutil.resolve_name(name)


@pytest.mark.parametrize("path", ABOUT_CODE, ids=lambda path: path.name)
def test_documents_about_the_code_use_its_names(path):
    """Names in them occur in the code, and so do folders."""
    texts = [p.read_text() for f in ("src", "tests") for p in (ROOT / f).rglob("*.py")]
    words = set(re.findall(r"\w+", "\n".join(texts)))
    names = quoted(path, r"[A-Za-z_][\w.]*")
    parts = {part for name in names if not is_there(name) for part in name.split(".")}
    assert parts - {"", "uv"} <= words  # uv is a program
    folders = quoted(path, r"[\w./]+/") - {"screenshots/"}  # made by tests
    assert {name for name in folders if not is_there(name)} == set()


def test_glossary_has_every_word_once_in_order():
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    words = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]
    assert len(words) > 50
    assert words == sorted(set(words), key=str.lower)
    for line in lines:
        for other in re.findall(r"[Ss]ee \*([\w -]+)\*", line):
            assert other in words
