"""The architecture holds: imports point downwards, and importing the package is cheap."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import thali
from thali._jit import KERNEL_FILES

PACKAGE = Path(thali.__file__).parent
LAYERS = [
    {"_jit", "datasets", "defaults", "launcher", "sentences", "sites"},
    {"compiling", "patience", "team_kernels"},
    {"team"},
    {"errors"},
    {"checks", "progress"},
    {"streams", "threads"},
    {"decide"},
    {"data"},
    {"bits"},
    {"model"},
    {"engines"},
    {"sampler"},
    {"trace"},
    {"running"},
    {"processes"},
    {"workers", "posterior"},
    {"views", "execution", "estimator_rows", "single_cell_genes"},
    {"inference"},
    {"optimize"},
    {"estimator", "single_cell"},
    {"plots"},
    {"report", "pl", "tl"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def part_of(path):
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports_of(path):
    """Return the modules that a file imports, wherever in it, and whether at run time."""
    tree = ast.parse(path.read_text())
    guards = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    ]
    only_types = {id(inner) for guard in guards for inner in ast.walk(guard)}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("thali."):
                yield name, id(node) not in only_types


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    """A module imports only from its own layer's package and from layers below."""
    own = part_of(path)
    for name, _ in imports_of(path):
        other = name.split(".")[1]
        if other in LEVEL:  # thali.sample and the like are no modules
            assert other == own or LEVEL[other] < LEVEL[own], f"{path.name} imports {name}"


def graph(root=PACKAGE):
    """Return which file imports which at run time, imports inside functions included."""
    files = {
        p: ".".join(p.relative_to(root.parent).with_suffix("").parts) for p in root.rglob("*.py")
    }
    names = {name.removesuffix(".__init__") for name in files.values()}
    edges = {}
    for path, name in files.items():
        own = name.removesuffix(".__init__")
        edges[own] = set()
        for imported, at_run_time in imports_of(path):
            while imported not in names:
                imported = imported.rpartition(".")[0]
            if at_run_time and imported not in (own, "thali"):
                edges[own].add(imported)
    edges.pop("thali", None)
    return edges


def circles(edges):
    """Return the files that can be reached from themselves."""
    found = set()
    for start in edges:
        seen, waiting = set(), [start]
        while waiting:
            for other in edges.get(waiting.pop(), ()):
                if other == start:
                    found.add(start)
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
    return found


def test_no_import_circles():
    """Neither between folders nor between the files of a folder."""
    assert circles(graph()) == set()


def test_a_circle_is_noticed():
    """The search above finds one that goes round three files."""
    edges = graph()
    edges["thali.sites"] = edges["thali.sites"] | {"thali.streams"}
    assert "thali.sites" in circles(edges)


BEYOND_THE_BORDER = re.compile(r"unfoldings|engine\.name|engine\.threads|engine\.tensor")


def test_the_sampler_never_looks_at_data():
    """The engine is the border: what the sampler wants to know, it asks for."""
    for path in (PACKAGE / "sampler").rglob("*.py"):
        assert not BEYOND_THE_BORDER.search(path.read_text()), path
    assert BEYOND_THE_BORDER.search("ones, known = target.engine.tensor.unfoldings[0]")


SCORE = re.compile(r"weights?(\[[^]]*\])? \* |\bw[10] \* ")


def test_the_score_of_a_conditional_is_written_once():
    """Once for compiled code of the host and once for the device, beside the tests' oracle."""
    files = [p for ending in ("py", "cu") for p in PACKAGE.rglob(f"*.{ending}")]
    found = {p.name for p in files if SCORE.search(p.read_text())}
    assert found == {"rule.py", "conditional.cu"}


OTHER_MODES = re.compile(r"factors\[1\]|densities\[1\]|shape\[1 - ")


def test_nothing_takes_the_second_mode_for_all_others():
    """Updates, births and states are written for any arity; a matrix is unpacked as such."""
    for folder in ("sampler", "engines"):
        for path in (PACKAGE / folder).rglob("*.py"):
            assert not OTHER_MODES.search(path.read_text()), path


def test_every_compiled_file_is_in_the_stamp():
    """A file with kernels that is missing from the stamp could be served from a stale cache."""
    compiled = {
        str(p.relative_to(PACKAGE))
        for p in modules()
        if re.search(r"_jit import (inlined|inner|jit|lean)|import intrinsic", p.read_text())
    }
    # Numba freezes the numbers of the register into kernels; plain tuples are unpacked by name.
    beside = {"_jit.py", "sites.py", "engines/cpu/arrays.py"}
    assert compiled | beside == set(KERNEL_FILES)


def test_no_file_is_too_long():
    """A file of more than 400 lines has two purposes; one of more than 300 soon will."""
    files = [p for ending in ("py", "cu", "js") for p in PACKAGE.rglob(f"*.{ending}")]
    assert {p.name for p in files if len(p.read_text().splitlines()) > 400} == set()


def imported_by(code):
    run = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(run.stdout.split())


def test_import_is_light():
    """``import thali`` adds nothing but itself to what the standard library and NumPy load."""
    added = imported_by("import thali") - imported_by("import numpy, importlib, typing")
    assert {name for name in added if not name.startswith("thali")} <= {"__future__"}
    assert "numba" not in added
    assert {name for name in added if name.startswith("thali")} == {"thali"}


def test_parts_are_reached_by_name():
    """What the documents call ``thali.model.…`` is there after ``import thali``."""
    loaded = imported_by("import thali; thali.model.Model, thali.sampler.Schedule, thali.errors")
    assert "thali.sampler" in loaded


def test_a_process_that_runs_chains_begins_quickly():
    """Small data have several: libraries that few models need are imported by these."""
    loaded = imported_by("import thali.processes")
    assert "thali.sampler" in loaded
    assert not loaded & {"pandas", "scipy.integrate", "scipy.optimize", "scipy.stats"}


def test_command_line_starts_without_the_heavy_libraries():
    """``thali --help`` needs neither Numba nor pandas."""
    loaded = imported_by("import thali.cli")
    assert not loaded & {"numba", "pandas", "scipy", "numpy"}


def test_data_layer_needs_no_optional_library():
    """Reading a NumPy array imports neither pandas nor SciPy nor Numba."""
    loaded = imported_by("import numpy, thali; thali.BinaryTensor.from_any(numpy.eye(3))")
    assert not loaded & {"numba", "pandas", "scipy"}
