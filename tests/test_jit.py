"""The compilation cache never serves stale code and never stands in the way."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import numpy as np

import thali
from thali._jit import KERNEL_FILES, KERNELS, _Inner, inner, jit
from thali.bits.words import lowest

SCRIPT = """
import numpy as np
from thali.bits.words import count_ones
print(int(count_ones(np.array([[7]], np.uint64))[0]))
"""


def copy_package(folder):
    ignored = ignore_patterns("__pycache__")
    copytree(Path(thali.__file__).parent, folder / "thali", ignore=ignored)


def run(folder, **environment):
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        # Python's own byte code is stale after such an edit too: do without it.
        env=os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(out.stdout)


def test_edit_that_keeps_time_and_size_is_noticed(tmp_path):
    """The stamp is the content of the sources, where Numba's own is time and size."""
    copy_package(tmp_path)
    words = tmp_path / "thali" / "bits" / "words.py"
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(tmp_path, **cache) == 3
    assert list((tmp_path / "cache").rglob("*.nbc"))
    stamp = words.stat()
    text = words.read_text()
    assert text.count("counts[row] = np.int64(total)") == 1
    words.write_text(text.replace("[row] = np.int64(total)", "[row] = np.int64(5 + 2)"))
    os.utime(words, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert words.stat().st_size == stamp.st_size
    assert run(tmp_path, **cache) == 7


PLAIN = """
import numpy as np
from thali.engines import host
from thali.model import Model
from thali.sampler import Schedule, Target, chain
from thali.streams import chain_key
host._MIN_WORK = 1  # so that two threads work
data = (np.random.default_rng(0).random((9, 7)) < 0.5).astype(np.uint8)
for model in (Model(alpha=5.0), Model(2), Model(noise="effects", alpha=5.0)):
    target = Target.prepare(data, model, Schedule(starts=0), threads=2)
    *_, (state, _) = chain(chain_key(1), target, 4)
    print([factor.words.tolist() for factor in state.factors])
"""


def test_functions_that_are_not_compiled_do_the_same():
    """With NUMBA_DISABLE_JIT=1, Python runs all of them, so that one can look into them."""
    found = [
        subprocess.run(
            [sys.executable, "-c", PLAIN], env=os.environ | more, capture_output=True, text=True,
            check=True,
        ).stdout
        for more in ({}, {"NUMBA_DISABLE_JIT": "1"})
    ]  # fmt: skip
    assert found[0] == found[1]
    assert found[0].count("[[") >= 4


def test_unwritable_cache_is_no_obstacle(tmp_path):
    """With nowhere to keep compiled code, kernels still run."""
    copy_package(tmp_path)
    nowhere = str(tmp_path / "thali" / "__init__.py")  # a file, so no folder can be made in it
    assert run(tmp_path, NUMBA_CACHE_DIR=nowhere) == 3


TWO_KERNELS = """
import sys
from thali._jit import inner, jit, lean

@inner
def more(x):
    return x + 1

@lean
def most(x):
    return 10 * more(x)

@jit
def first(x):
    return most(x)

@jit
def second(x):
    return 2 * most(x)

print({"first": first, "second": second}[sys.argv[1]](1), sum(most.stats.cache_hits.values()))
"""


def test_a_kernel_links_inner_functions_from_the_cache(tmp_path):
    """They are kept without machine code, for kernels that are compiled by another process."""
    program = tmp_path / "program.py"
    program.write_text(TWO_KERNELS)

    def told(kernel):
        out = subprocess.run(
            [sys.executable, program, kernel], capture_output=True, text=True, check=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        )  # fmt: skip
        return out.stdout.split()

    assert told("first") == ["20", "0"]
    assert told("second") == ["40", "1"]
    assert told("second") == ["40", "0"]  # the kernel itself comes from the cache


def test_kernels_release_the_gil():
    """Inner functions have no entry from Python, and so cannot."""
    code = {}
    before = len(KERNELS)
    for decorate in (jit, inner):
        defined = {}
        exec("def double(x):\n    return 2 * x", defined)  # no file, so no cache
        kernel = decorate(defined["double"])
        kernel.compile("(int64,)")
        (code[decorate],) = kernel.inspect_llvm().values()
    del KERNELS[before:]
    assert "PyEval_SaveThread" in code[jit]
    assert "PyEval_SaveThread" not in code[inner]
    assert "define" in code[inner]
    assert "cpython" not in code[inner]


def test_an_inner_function_can_be_called_from_python():
    """It has no entry from Python, and gets one when somebody asks for it."""
    assert isinstance(lowest, _Inner)
    assert lowest(np.uint64(0b1000)) == 3


def decorated(tree):
    """Return the compiled functions of a module by name, with the names of their decorators."""
    return {
        node.name: {getattr(decorator, "id", None) for decorator in node.decorator_list}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def called_by_python(tree):
    """Return the names that a module uses outside of compiled functions, and where from."""
    origins = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and decorated(tree)[node.name] & COMPILED:
            continue
        for inside in ast.walk(node):
            if isinstance(inside, ast.Name):
                yield origins.get(inside.id, inside.id)
            elif isinstance(inside, ast.Attribute) and isinstance(inside.value, ast.Name):
                yield f"{origins.get(inside.value.id)}.{inside.attr}"


COMPILED = {"jit", "inner", "lean", "inlined"}
BY_TEAMS = {  # Python hands these functions to teams, or makes such as call them
    "thali.engines.cpu.blocks._draw",
    "thali.engines.cpu.in_parts.plain",
    "thali.engines.cpu.in_parts.by_class",
    "thali.model.special.invert_some",
    "thali.sampler.moves.at_once._examine",
    "thali.sampler.small._draw",
    "thali.team_kernels._publish",
}


def test_only_functions_that_python_calls_have_an_entry_from_python():
    """An entry that nobody uses costs time of compilation; one that is missing, even more."""
    root = Path(thali.__file__).parent
    trees = {path: ast.parse(path.read_text()) for path in root.rglob("*.py")}
    used = set()
    for path, tree in trees.items():
        module = ".".join(("thali", *path.relative_to(root).with_suffix("").parts))
        for name in called_by_python(tree):
            used |= {name, f"{module}.{name}"}
    for file in KERNEL_FILES:
        module = f"thali.{file.removesuffix('.py').replace('/', '.')}"
        for name, decorators in decorated(trees[root / file]).items():
            if decorators & {"jit", "inner", "lean"}:
                is_called = f"{module}.{name}" in used - BY_TEAMS
                expected = "jit" if is_called else "inner"
                assert (decorators - {"lean"} or {"inner"}) == {expected}, f"{module}.{name}"


def test_inner_functions_use_no_python_objects():
    """Their code is linked without them; plain errors, such as of a division by 0, are fine."""

    def has(function, kind):
        return any(isinstance(node, kind) for node in ast.walk(function))

    seen = 0
    for name in KERNEL_FILES:
        tree = ast.parse((Path(thali.__file__).parent / name).read_text())
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            marks = {mark.id for mark in function.decorator_list if isinstance(mark, ast.Name)}
            if marks & {"inner", "lean", "inlined"}:
                seen += 1
                assert not has(function, ast.Raise | ast.Assert), (name, function.name)
                called = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
                assert "print" not in called, (name, function.name)
    assert seen > 100
