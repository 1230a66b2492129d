"""Files are never held in memory: the result and a few blocks are all that is.

Each file is read in a process of its own, which says by how much its peak memory grew.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

STATUS = Path("/proc/self/status")
pytestmark = pytest.mark.skipif(
    not STATUS.exists(), reason="peak memory is read as Linux tells it"
)

MEBI = 1 << 20
BLOCKS = 24 * MEBI  # what reading needs beside its result, at most; measured: 8 to 13

SCRIPT = """
import sys
import numpy as np
from thali.data.readers.files import read
def peak():  # unlike ru_maxrss, it knows nothing of the process that started this one
    (line,) = [x for x in open("/proc/self/status") if x.startswith("VmHWM")]
    return int(line.split()[1]) * 1024
before = peak()
{action}
print(peak() - before, n_ones)
"""
READ = "tensor = read(sys.argv[1]); n_ones = tensor.n_ones"
# What the bound must not allow, and so must be seen.
WHOLE = "text = open(sys.argv[1], 'rb').read(); n_ones = 0"


def growth(path, action):
    script = SCRIPT.format(action=action)
    run = [sys.executable, "-c", script, str(path)]
    result = subprocess.run(run, capture_output=True, text=True, check=True)
    return tuple(map(int, result.stdout.split()))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Write 60 MB of text: 15,000 rows of 2,000 entries."""
    path = tmp_path_factory.mktemp("table") / "t.csv"
    ones = np.random.default_rng(0).random((15_000, 2_000)) < 0.2
    with path.open("wb") as file:
        file.write(("," + ",".join(f"g{i}" for i in range(2_000)) + "\n").encode())
        text = np.full((len(ones), 4_000), ord(","), np.uint8)
        text[:, ::2] = ord("0") + ones
        text[:, -1] = ord("\n")
        for row, line in enumerate(text):
            file.write(f"c{row},".encode() + line.tobytes())
    return path, ones.shape, int(ones.sum())


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    """Write 5 million places of 20,000 x 5,000, some of them twice."""
    path = tmp_path_factory.mktemp("listed") / "t.mtx"
    rng = np.random.default_rng(1)
    n_listed, shape = 5_000_000, (20_000, 5_000)
    places = np.stack([rng.integers(0, n, n_listed) for n in shape])
    with path.open("wb") as file:
        file.write(b"%%MatrixMarket matrix coordinate pattern general\n")
        file.write(f"{shape[0]} {shape[1]} {n_listed}\n".encode())
        # Numbers of four digits and more, so that all lines are equally long.
        digits = [(p[:, None] + 1) // 10 ** np.arange(4, -1, -1) % 10 for p in places]
        text = np.full((n_listed, 12), ord(" "), np.uint8)
        text[:, :5], text[:, 6:11] = (ord("0") + d for d in digits)
        text[:, 11] = ord("\n")
        file.write(text.tobytes())
    is_one = np.zeros(shape, bool)
    is_one[tuple(places)] = True
    return path, shape, int(is_one.sum())


@pytest.mark.parametrize("name", ["table", "listed"])
def test_memory_is_that_of_the_packed_form(request, name):
    """Reading adds the bits and a few blocks; holding the text or the Booleans would add more."""
    path, shape, n_ones = request.getfixturevalue(name)
    n_packed = shape[0] * -(-shape[1] // 64) * 8
    bound = n_packed + BLOCKS
    grown, counted = growth(path, READ)
    assert counted == n_ones
    assert grown < bound
    assert bound < shape[0] * shape[1]  # bytes of as many Booleans
    assert growth(path, WHOLE)[0] > bound
