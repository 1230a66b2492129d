"""Errors carry fields; every face makes its own sentence of them."""

import inspect
import pickle
import re
from pathlib import Path

import pytest

from thali import checks, errors
from thali.cli.messages import CommandFace
from thali.errors import InvalidValue, ThaliError, not_written
from thali.sentences import (
    PYTHON,
    AnyOf,
    Argument,
    ExportTree,
    Face,
    Load,
    LoadPartially,
    Replace,
    Resume,
    Sample,
    Setting,
    TakeDraws,
    capitalized,
    say,
    was_given,
)

RUN = Path("my run")
FAMILY = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ThaliError) and kind is not ThaliError
]
USUAL = {
    "InvalidValue": ValueError,
    "InvalidType": TypeError,
    "RunExists": FileExistsError,
    "RunNotFound": FileNotFoundError,
    "EngineUnavailable": ImportError,
    "MissingLibrary": ImportError,
    "TraceMismatch": ValueError,
    "TraceDamaged": ValueError,
    "NotWritten": OSError,
    "_NotPermitted": PermissionError,
}


@pytest.mark.parametrize(
    ("part", "python", "commands"),
    [
        (Argument("binarize"), "`binarize`", "--binarize T"),
        (Argument("unknown"), "`unknown`", "--missing-rate RATE"),
        (Argument("mode_names"), "`mode_names`", "mode names"),
        (Setting("n_components", -1), "n_components=-1", "--components -1"),
        (Setting("transpose", True), "transpose=True", "--transpose"),
        (Setting("mode_names", "a b"), "mode_names='a b'", "mode names 'a b'"),
        (Setting("kind", "pairs"), "kind='pairs'", "--kind pairs"),
        (Replace(), "remove it", "replace it with --force"),
        (Setting("layer", "Ann's"), 'layer="Ann\'s"', """--layer 'Ann'"'"'s'"""),
        (Setting("missing", ("?", "-")), "missing=('?', '-')", "--missing '?' --missing -"),
        (Resume(), "resume(…)", "`thali resume`"),
        (Resume(RUN), "thali.resume('my run')", "`thali resume 'my run'`"),
        (Load(), "load(…)", "`thali summary`"),
        (Load(RUN), "thali.load('my run')", "`thali summary 'my run'`"),
        (LoadPartially(), "load(…, partial=True)", ""),
        (Sample(), "sample()", "`thali fit`"),
        (Sample(is_kept=True), "sample(out=…)", "`thali fit --out`"),
        (ExportTree(), "to_datatree()", "a .nc file"),
        (
            TakeDraws(8),
            "take more draws (draws=8, or resume(…, draws=8) for a stored run)",
            "ask for more draws with --draws 8",
        ),
    ],
)
def test_parts_on_both_faces(part, python, commands):
    """The same part, in the words of Python and of the command line."""
    assert say(part) == python
    assert say(part, CommandFace()) == commands


def test_every_face_says_everything_that_python_says():
    """No method of the face is left to Python's words on the command line."""
    own = {name for name, _ in inspect.getmembers(Face, inspect.isfunction) if name[0] != "_"}
    assert own <= set(vars(CommandFace))


def test_a_face_may_know_the_run():
    """Then commands name it where the message does not."""
    face = CommandFace(RUN)
    assert say(Resume(), face) == "`thali resume 'my run'`"
    assert say(Load(Path("other")), face) == "`thali summary other`"
    assert say(TakeDraws(8), face) == "go on with `thali resume 'my run' --draws 8`"


def test_what_cannot_be_done_is_not_said():
    """A clause with such a part is left out as a whole; empty texts are no reason."""
    both = AnyOf((LoadPartially(), " reads"), (Resume(), " repairs"), joint=", and ")
    assert say(both) == "load(…, partial=True) reads, and resume(…) repairs"
    assert say(both, CommandFace()) == "`thali resume` repairs"
    assert say(("a", "", "b"), CommandFace()) == "ab"
    assert capitalized("") == ""


@pytest.mark.parametrize("kind", FAMILY)
@pytest.mark.parametrize("face", [PYTHON, CommandFace(), CommandFace(RUN)])
def test_every_error_renders_on_every_face(kind, face):
    """One sentence of three clauses, about a file; no face borrows the words of another."""
    error = kind(
        was_given("n_components", -1),
        ("see ", Argument("kind")),
        ("use ", Resume(), " or ", Load(RUN)),
        about="a.csv",
    )
    text = error.sentence(face)
    assert text.startswith("a.csv: ")
    assert text.count(";") == 2
    assert text.endswith(".")
    is_python = bool(re.search(r"\w=|\w\(|`kind`", text))
    assert is_python == (face is PYTHON)
    assert ("--components -1 was given" in text) == (face is not PYTHON)
    assert error.argument == Setting("n_components", -1)


@pytest.mark.parametrize("kind", FAMILY)
def test_every_error_is_a_usual_one_that_survives_a_process(kind):
    """Callers who do not know our names catch the usual ones; pickling keeps all fields."""
    assert issubclass(kind, USUAL[kind.__name__])
    more = {"EngineUnavailable": {"name": "x"}, "NotWritten": {"errno": 28, "strerror": "full"}}
    given = more.get(kind.__name__, {})
    error = kind("it is so", remedy=("use ", Resume()), about="a.csv", **given)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error) == "a.csv: it is so; use resume(…)."
    assert {name: getattr(again, name) for name in given} == given
    assert again.remedy == error.remedy
    assert again.argument is None


def test_a_sentence_in_one_piece():
    """What needs no faces may be given whole, with its full stop."""
    assert str(InvalidValue("it is so; do that.")) == "it is so; do that."


def test_texts_of_users_are_no_parts():
    """A file may be called anything."""
    error = InvalidValue("resume() {draws} `kind` was given", about="draws=3.csv")
    assert error.sentence(CommandFace()) == "draws=3.csv: resume() {draws} `kind` was given."


def test_reasons_of_the_system_are_kept():
    """Its number and words are fields; a lack of permission stays one."""
    error = not_written(OSError(28, "No space left"), "a/b could not be written", "make room")
    assert (error.errno, error.strerror) == (28, "No space left")
    assert str(error) == "a/b could not be written (No space left); make room."
    assert not isinstance(error, PermissionError)
    with pytest.raises(PermissionError):
        raise not_written(PermissionError(13, "Permission denied"), "a", "b")


@pytest.mark.parametrize(
    ("check", "value", "commands"),
    [
        (checks.count, -1, "--draws -1 was given; allowed are integers from 0 on; choose one."),
        (checks.positive, "x", "--draws x was given; allowed are finite numbers above 0; choose"),
        (checks.probability, 2, "--draws 2 was given; allowed are numbers strictly between 0 and"),
        (checks.shape_parameters, 3, "--draws 3 was given; a prior is two positive numbers"),
    ],
)
def test_checks_name_the_argument(check, value, commands):
    """As a field, from which both faces make the sentence."""
    with pytest.raises(InvalidValue) as caught:
        check("draws", value)
    assert caught.value.argument == Setting("draws", value)
    assert str(caught.value).startswith(f"draws={value!r} was given; ")
    assert caught.value.sentence(CommandFace()).startswith(commands)
