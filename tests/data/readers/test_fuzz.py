"""Whatever bytes a file holds, it is read or refused in one sentence."""

import gzip
import io
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from support.bad_files import BAD_FILES, MTX
from thali.data import BinaryTensor, build
from thali.data.readers import text
from thali.data.readers.files import read
from thali.errors import InvalidValue

# HDF5's own library may crash on altered files, so these are only cut off.
HDF5 = ("h5ad", "h5")
ENDINGS = (
    *("csv", "tsv", "basket", "dat", "txt", "csv.gz", "mtx", "mtx.gz", "tns"),
    *("npy", "npz", "parquet", *HDF5),
)
KINDS = (None, "table", "matrix", "pairs", "baskets")
fuzz = settings(
    derandomize=True,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def saved(write, *arguments):
    buffer = io.BytesIO()
    write(buffer, *arguments)
    return buffer.getvalue()


VALUES = np.array([[0.0, 1.0, np.nan], [1.0, 1.0, 0.0]])
VALID = [
    ("csv", b"n,a,b\nx,0,1\ny,1,\n"),
    ("csv", b'"n","a,b",c\r\n"x ""1""",0,true\r\ny,,False\r\n'),
    ("csv", b"0,1,1,\n1,0,0,\n"),
    ("tsv", b"\xef\xbb\xbfa\tb\n0.0\t1.0\n1\tNA\n"),
    ("csv", b"user,item,value\nann,tea,1\nbob,tea,0\n3,milk,1\n"),
    ("basket", b"whole milk,tea\n\ntea,bread\n"),
    ("dat", b"1 2 3\n2 5\n10\n"),
    ("mtx", (MTX + "% note\n3 4 3\n1 1 1\n2 4 1\n3 3 0\n").encode()),
    ("mtx", b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n"),
    ("mtx", b"%%MatrixMarket matrix array real general\n2 2\n1.0\n0\nnan\n1\n"),
    ("tns", b"# note\n1 2 1 1\n2 1 3 0\n\n2 2 2 nan\n"),
    ("csv.gz", gzip.compress(b"n,a,b\nx,0,1\ny,1,\n", mtime=0)),
    ("npy", saved(np.save, VALUES)),
    ("npy", saved(np.save, np.eye(3, dtype=bool))),
    ("npz", saved(np.savez_compressed, VALUES)),
    ("npz", saved(sparse.save_npz, sparse.csr_array(np.eye(4)))),
]


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    """Lines end anywhere in a block, and what needs much memory is refused."""
    monkeypatch.setattr(text, "_BLOCK_BYTES", 7)
    monkeypatch.setattr(build, "memory", lambda: 1 << 24)


def check(folder, ending, octets, **options):
    path = folder / f"t.{ending}"
    path.write_bytes(octets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = read(path, **options)
        except ValueError as error:
            result = error
    if isinstance(result, BinaryTensor):
        ones, unknown = result.rows()
        assert ones.sum() == result.n_ones
        assert unknown is None or not (ones & unknown).any()
    else:
        message = str(result)
        assert type(result) is InvalidValue
        assert message.startswith(f"{path}: ")
        assert message.endswith(".")
        assert "\n" not in message


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "binarize": st.sampled_from([0, 0.5, -1.0]),
        "transpose": st.booleans(),
        "missing": st.sampled_from([["?"], ["1", "-"]]),
    },
)


def fitting(ending, kind, options):
    """Leave out what the format would refuse at once."""
    is_text = ending.split(".")[0] in ("csv", "tsv", "basket", "dat", "txt")
    keep = dict(options)
    if not (is_text or "mtx" in ending):
        keep.pop("missing", None)
    return keep | ({"kind": kind} if is_text else {})


@fuzz
@given(
    st.sampled_from(ENDINGS),
    st.one_of(st.binary(max_size=80), st.text('01,;\t\n\r" ab-.é%', max_size=60).map(str.encode)),
    st.sampled_from(KINDS),
    OPTIONS,
)
def test_any_bytes(tmp_path, ending, octets, kind, options):
    """Random bytes, and random text of what tables are made of."""
    check(tmp_path, ending, octets, **fitting(ending, kind, options))


@settings(fuzz, max_examples=400)
@given(st.sampled_from(VALID), st.data(), st.sampled_from(KINDS), OPTIONS)
def test_altered_files(tmp_path, valid, data, kind, options):
    """Valid files with bytes replaced, taken out, put in or cut off."""
    ending, octets = valid
    octets = bytearray(octets)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(octets) - 1)) if octets else 0
        n_old = data.draw(st.integers(0, 3))
        new = data.draw(st.one_of(st.binary(max_size=2), st.sampled_from([b"9" * 9, b'"', b"\n"])))
        octets[at : at + n_old] = new
    if data.draw(st.booleans()):
        octets = octets[: data.draw(st.integers(0, len(octets)))]
    check(tmp_path, ending, bytes(octets), **fitting(ending, kind, options))


@settings(fuzz, max_examples=60)
@given(st.sampled_from([row for row in BAD_FILES if row[1].endswith(HDF5)]), st.data())
def test_cut_off_cells(tmp_path, row, data):
    """HDF5 files that end too early."""
    octets = row[2]()
    check(tmp_path, row[1][2:], octets[: data.draw(st.integers(0, len(octets)))])


@settings(fuzz, max_examples=80)
@given(
    st.integers(1, 6),
    st.integers(1, 70),
    st.sampled_from([",", "\t"]),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(0, 2**32 - 1),
)
def test_what_is_written_is_read(tmp_path, n_rows, n_columns, separator, quoted, end, seed):
    """Tables of any size and style come back as they were, wherever blocks are cut."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 3, (n_rows, n_columns))  # 2 is unknown
    values[0, 0] = 1
    quote = '"' if quoted else ""
    spelled = np.array(["0", "1", ""])[values]
    header = ["name", *(f"c{i}{separator if quoted else ''}" for i in range(n_columns))]
    lines = [header, *([f"r{i}", *row] for i, row in enumerate(spelled))]
    content = end.join(separator.join(f"{quote}{c}{quote}" for c in line) for line in lines)
    path = tmp_path / ("t.csv" if separator == "," else "t.tsv")
    path.write_bytes(content.encode())
    tensor = read(path)
    ones, unknown = tensor.rows()
    assert np.array_equal(ones, values == 1)
    assert np.array_equal(unknown if unknown is not None else np.zeros_like(ones), values == 2)
    assert tensor.row_names == (tuple(f"r{i}" for i in range(n_rows)), tuple(header[1:]))
