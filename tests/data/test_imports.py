"""The files of ``thali.data`` import each other in one direction only."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import thali.data

FOLDER = Path(thali.data.__file__).parent


def name_of(path):
    return ".".join(("thali.data", *path.relative_to(FOLDER).with_suffix("").parts))


def imports():
    """Return the files that each file imports, also within functions and for types alone."""
    paths = [path for path in FOLDER.rglob("*.py") if path.name != "__init__.py"]
    names = {name_of(path) for path in paths}
    found = {}
    for path in paths:
        imported = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module)
                imported |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
        found[name_of(path)] = imported & names
    return found


def test_no_file_imports_itself_through_others():
    found = imports()
    assert found["thali.data.convert"] >= {"thali.data.classify", "thali.data.sparse"}
    TopologicalSorter(found).prepare()


def test_a_circle_would_be_seen():
    found = imports()
    found["thali.data.classify"].add("thali.data.convert")
    with pytest.raises(CycleError):
        TopologicalSorter(found).prepare()
