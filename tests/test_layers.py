"""The architecture holds: imports point downwards, and importing the package is cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import thali
from thali._jit import KERNEL_FILES

PACKAGE = Path(thali.__file__).parent
LAYERS = [
    {"_jit", "sentences"},
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
    {"workers", "posterior"},
    {"views", "inference"},
    {"estimator", "single_cell"},
    {"plots"},
    {"report"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def part_of(path):
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    """A module imports only from its own layer's package and from layers below."""
    own = part_of(path)
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if not name.startswith("thali."):
                continue
            other = name.split(".")[1]
            assert other == own or LEVEL[other] < LEVEL[own], f"{path.name} imports {name}"


def test_every_compiled_file_is_in_the_stamp():
    """A file with kernels that is missing from the stamp could be served from a stale cache."""
    compiled = {
        str(p.relative_to(PACKAGE))
        for p in modules()
        if "import jit" in p.read_text()
        or "import inlined" in p.read_text()
        or p.name == "_jit.py"
    }
    assert compiled == set(KERNEL_FILES)


def test_no_file_is_too_long():
    """A file of more than 400 lines has two purposes."""
    assert {p.name for p in modules() if len(p.read_text().splitlines()) > 400} == set()


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


def test_command_line_starts_without_the_heavy_libraries():
    """``thali --help`` needs neither Numba nor pandas."""
    loaded = imported_by("import thali.cli")
    assert not loaded & {"numba", "pandas", "scipy", "numpy"}


def test_data_layer_needs_no_optional_library():
    """Reading a NumPy array imports neither pandas nor SciPy nor Numba."""
    loaded = imported_by("import numpy, thali; thali.BinaryTensor.from_any(numpy.eye(3))")
    assert not loaded & {"numba", "pandas", "scipy"}
