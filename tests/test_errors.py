"""Optional modules: imported, or a sentence says how to install them."""

import json

import pytest

from thali.errors import EngineUnavailable, MissingLibrary, NotConverged, TraceMismatch, require


def test_require_imports():
    """A module that is there is returned."""
    assert require("json", "cuda12") is json


def test_require_names_the_extra():
    """A missing module is named together with the command that installs it."""
    with pytest.raises(MissingLibrary, match=r'pip install "thali\[cuda12\]"`\.$') as caught:
        require("no_such_module", "cuda12")
    assert caught.value.name == "no_such_module"
    assert str(caught.value).startswith("no_such_module is needed here")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_require_broken_module(tmp_path, monkeypatch):
    """A module that fails to import something else is reported with the reason."""
    (tmp_path / "broken_extra.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingLibrary, match=r"broken_extra .*No module named 'no_such_libr"):
        require("broken_extra", "cuda12")


def test_other_errors_pass(tmp_path, monkeypatch):
    """An error that is not about imports is not disguised as one."""
    (tmp_path / "failing_extra.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZeroDivisionError):
        require("failing_extra", "cuda12")


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (MissingLibrary, ImportError),
        (EngineUnavailable, MissingLibrary),
        (TraceMismatch, ValueError),
        (NotConverged, UserWarning),
    ],
)
def test_bases(kind, base):
    """Callers who do not know our names can catch the usual ones."""
    assert issubclass(kind, base)
