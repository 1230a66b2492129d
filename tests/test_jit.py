"""The compilation cache never serves stale code and never stands in the way."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import thali

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


def test_unwritable_cache_is_no_obstacle(tmp_path):
    """With nowhere to keep compiled code, kernels still run."""
    copy_package(tmp_path)
    nowhere = str(tmp_path / "thali" / "__init__.py")  # a file, so no folder can be made in it
    assert run(tmp_path, NUMBA_CACHE_DIR=nowhere) == 3
