"""Malformed files and a fragment of what is said about each, for the reader and the command line.

Every row is ``(name, file name, function that makes the bytes, fragment of the message)``; the
fragment is a phrase, which the reader and the command line say in words of their own. All are read
with the default options.
"""

import gzip
import io
import sys

import numpy as np
from scipy import sparse

from thali.data.binarize import GIVE_THRESHOLD
from thali.sentences import Argument, Setting

PAIRS, TABLE, MATRIX = (Setting("kind", kind) for kind in ("pairs", "table", "matrix"))
GIVE_LAYER = ("give ", Argument("layer"), ", one of ['logs']")
MTX = "%%MatrixMarket matrix coordinate integer general\n"


def _text(text):
    return text.encode


def _bytes(octets):
    return lambda: octets


def _npy(array, **options):
    def make():
        buffer = io.BytesIO()
        np.save(buffer, array, **options)
        return buffer.getvalue()

    return make


def _npz(**arrays):
    def make():
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    return make


def _sparse(matrix):
    def make():
        buffer = io.BytesIO()
        sparse.save_npz(buffer, matrix)
        return buffer.getvalue()

    return make


def _cut(make, end):
    return lambda: make()[:end]


def _gz(text):
    return lambda: gzip.compress(text.encode(), mtime=0)


def _parquet(**columns):
    def make():
        import pyarrow as pa
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(pa.table(columns), buffer)
        return buffer.getvalue()

    return make


def _h5(fill):
    def make():
        import h5py

        buffer = io.BytesIO()
        with h5py.File(buffer, "w") as file:
            fill(file)
        return buffer.getvalue()

    return make


def h5ad(matrix, **layers):
    """Return what writes the least that AnnData's format asks for, with a dense matrix."""

    def fill(file):
        if matrix is not None:
            file["X"] = np.array(matrix)
        for name, n in (("obs", len(matrix or [0])), ("var", len((matrix or [[0]])[0]))):
            file[f"{name}/_index"] = np.array([f"{name}{i}" for i in range(n)], "S")
            file[name].attrs["_index"] = "_index"
        for name, layer in layers.items():
            file[f"layers/{name}"] = np.array(layer)

    return fill


def tenx(values, indices, indptr, shape):
    """Return what writes a matrix as 10x Genomics' programs do: compressed cells of genes."""

    def fill(file):
        group = file.create_group("matrix")
        for name, part in (("data", values), ("indices", indices), ("indptr", indptr)):
            group[name] = np.array(part)
        group["shape"] = np.array(shape)
        group["barcodes"] = np.array([f"cell{i}" for i in range(shape[1])], "S")
        group["features/name"] = np.array([f"gene{i}" for i in range(shape[0])], "S")

    return fill


def _said(shape):
    """Return what writes the header of an array of Booleans, and four of its values."""

    def make():
        buffer = io.BytesIO()
        said = {"descr": "|b1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(buffer, said)
        return buffer.getvalue() + b"\0\1\0\1"

    return make


def _coo(shape):
    """Return what writes one entry at (1, 1) of a sparse matrix of any claimed shape."""
    ones = np.ones(1, np.int64)
    return _npz(row=ones, col=ones, data=ones, shape=np.array(shape), format=np.array(b"coo"))


def book(*sheets, **named):
    """Return what writes a workbook with these rows on its sheets."""

    def make():
        import openpyxl

        made = openpyxl.Workbook()
        made.remove(made.active)
        for number, rows in enumerate(sheets, 1):
            named[f"Sheet{number}"] = rows
        for name, rows in named.items():
            sheet = made.create_sheet(name)
            for row in rows:
                sheet.append(row)
        buffer = io.BytesIO()
        made.save(buffer)
        return buffer.getvalue()

    return make


def _altered_book(old, new):
    def make():
        import zipfile

        buffer = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(book([["n", "a"], ["x", 1]])())) as source,
            zipfile.ZipFile(buffer, "w") as target,
        ):
            for part in source.namelist():
                target.writestr(part, source.read(part).replace(old, new))
        return buffer.getvalue()

    return make


def _zst(text):
    def make():
        if sys.version_info >= (3, 14):
            from compression.zstd import compress
        else:
            from zstandard import compress

        return compress(text.encode())

    return make


BAD_FILES = [
    # --- tables ---------------------------------------------------------------------------------
    ("empty table", "t.csv", _bytes(b""), "it is empty"),
    ("blank table", "t.csv", _text("\n \n\n"), "it is empty"),
    ("header alone", "t.csv", _text("a,b\n"), "a header and no rows"),
    ("names alone", "t.csv", _text(",\nx,\n"), "names and no column of entries"),
    ("one column of text", "t.csv", _text("name\ncat\ndog\n"), "one column of text"),
    ("long line", "t.csv", _text("a,b\n0,1\n0,1,1\n"), "line 3 has 3 fields, the header 2"),
    ("short line", "t.csv", _text("a,b\n\n0,1\n1\n"), "line 4 has 1 field, the header 2"),
    ("column twice", "t.csv", _text("a,b,a\n0,1,1\n"), "the header names 'a' twice"),
    ("header or entries", "t.csv", _text("0,1\n1,0\n"), ("give ", MATRIX, " if there")),
    ("number", "t.csv", _text("a,b\n0,1\n1,2\n"), "it holds 2 at line 3, column 'b'; allowed"),
    ("huge number", "t.csv", _text("a,b\n0,1\n1,99999999999999999999\n"), GIVE_THRESHOLD),
    ("fraction", "t.csv", _text("a,b\n0,0.5\n"), "holds 0.5 at line 2, column 'b'"),
    ("maybe", "t.csv", _text("n,a,b,c\nx,1,0,maybe\n"), "'maybe' at line 2, column 'c'"),
    ("digit of another script", "t.csv", _text("a,b\n0,\u0661\n"), "line 2"),
    ("underscore", "t.csv", _text("a,b\n0,1_0\n"), "'1_0'"),
    (
        "words and digits",
        "t.csv",
        _text("a,b\n0,1\nTRUE,1\n"),
        "words (true, false, yes, no) and numbers",
    ),
    ("names and entries", "t.csv", _text("a,b\n0,1\nx,1\n"), "'a', holds entries and 'x'"),
    (
        "named last column",
        "t.csv",
        _text("a,b,\n0,1,\n0,1,1\n"),
        "line 3 has an entry in the last",
    ),
    ("nothing known", "t.csv", _text("a,b\n,NA\n"), "all entries"),
    ("open quote", "t.csv", _text('n,a\n"x,0\n'), "never closed"),
    ("quote within", "t.csv", _text('n,a\n5" pipe,0\n6" pipe,1\n'), "a quote within a field"),
    (
        "UTF-16 cut off",
        "t.csv",
        lambda: "n,a\nx,1\n".encode("utf-16")[:-1],
        "is not UTF-16 text throughout",
    ),
    ("UTF-16 unmarked", "t.csv", lambda: "n,a\nx,1\n".encode("utf-16-le"), "zero bytes"),
    ("zero bytes", "t.csv", _bytes(b"n,a\nx\0,1\n"), "zero bytes"),
    ("Latin-1 name", "t.csv", _bytes(b"n,a\nx,1\ncaf\xe9,0\n"), "line 3 is no UTF-8 text"),
    ("not gzipped", "t.csv.gz", _text("a,b\n0,1\n"), "could not be read"),
    ("gzip cut off", "t.csv.gz", _cut(_gz("a,b\n" + "0,1\n" * 99), 30), "could not be read"),
    ("bad line in gzip", "t.tsv.gz", _gz("a\tb\n0\t1\n0\n"), "line 3 has 1 field"),
    (
        "numbers above",
        "t.csv",
        _text("1,0,2\n0,1,1\n1,1,0\n"),
        "numbers, such as 1, 0, 2, th",
    ),
    ("years above", "t.csv", _text("n,2010,2011\nx,0,1\n"), ("give ", TABLE, " if they are")),
    ("years and a corner", "t.csv", _text(",2010,2011\nx,0,1\n"), "do not count the columns"),
    ("counts and names", "t.csv", _text("x,3,0,1\ny,0,1,5\n"), "such as 3, 0, 1"),
    ("counts twice", "t.csv", _text("3,3,1\n0,1,5\n"), ("or ", MATRIX, " and ")),
    ("counting from 2", "t.csv", _text("2,3,4\n0,1,1\n"), "do not count the columns"),
    ("counting with a gap", "t.csv", _text("0,1,3\n0,1,1\n"), "do not count the columns"),
    ("fractions above", "t.csv", _text("0.5,1.5\n0,1\n"), "such as 0.5, 1.5"),
    ("negative above", "t.csv", _text("-1,0,1\n0,1,1\n"), "such as -1, 0, 1"),
    ("words or names", "t.csv", _text("yes,no\nno,yes\n"), "its first line holds entries"),
    ("yes and digits", "t.csv", _text("a,b\nyes,1\n0,0\n"), "words (true, false, yes, no)"),
    ("decimal commas", "t.csv", _text("n;a\nx;0,5\n"), "'0,5' at line 2, column 'a'"),
    ("two signs", "t.csv", _text("n;a|b\nx;0|1\n"), ("';' or '|'; give ", Argument("sep"))),
    ("another sign", "t.csv", _text("n:a:b\nx:0:1\n"), ("give ", Argument("sep"), " if another")),
    ("names with commas", "t.csv", _text("a, b;c\nx, y;0\n"), "'y;0' at line 2"),
    ("semicolons, ragged", "t.csv", _text("a;b\n0;1;1\n"), "line 2 has 3 fields, the header 2"),
    (
        "UTF-16 damaged",
        "t.csv",
        lambda: b"\xff\xfe" + b"\x00\xd8" * 3,
        "is not UTF-16 text throughout",
    ),
    (
        "UTF-32 damaged",
        "t.csv",
        lambda: b"\xff\xfe\0\0" + b"\xff" * 8,
        "is not UTF-32 text throughout",
    ),
    ("UTF-16 counts", "t.csv", lambda: "a,b\n0,7\n".encode("utf-16"), "holds 7 at line 2"),
    ("BOM alone", "t.csv", _bytes(b"\xef\xbb\xbf"), "it is empty"),
    ("UTF-16 mark alone", "t.csv", _bytes(b"\xff\xfe"), "it is empty"),
    ("not zst", "t.csv.zst", _text("a,b\n0,1\n"), "could not be read"),
    ("zst cut off", "t.csv.zst", _cut(_zst("a,b\n" + "0,1\n" * 99), -5), "could not be read"),
    ("empty zst", "t.csv.zst", _bytes(b""), "it is empty"),
    ("bad line in zst", "t.tsv.zst", _zst("a\tb\n0\t1\n0\n"), "line 3 has 1 field"),
    ("empty gzip", "t.csv.gz", _gz(""), "it is empty"),
    ("control characters", "t.csv", _text("a,b\n0,\x1b[31m1\n"), "at line 2, column 'b'"),
    # --- workbooks ------------------------------------------------------------------------------
    ("no workbook", "t.xlsx", _text("a,b\n0,1\n"), "it is no workbook"),
    ("old workbook", "t.xlsx", _bytes(b"\xd0\xcf\x11\xe0" * 9), "of an old format"),
    ("broken workbook", "t.xlsx", _bytes(b"PK\3\4" + b"x" * 99), "could not be read"),
    ("workbook cut off", "t.xlsx", _cut(book([["a"], [1]]), 600), "could not be read"),
    ("other archive", "t.xlsx", _npz(a=np.eye(2)), "could not be read"),
    ("two sheets", "t.xlsx", book([["a"], [1]], [["b"], [0]]), "2 sheets: 'Sheet1', 'Sheet2'; ch"),
    ("empty sheets", "t.xlsx", book([], []), "all of its sheets are empty"),
    ("empty sheet", "t.xlsx", book([]), "it is empty"),
    ("header on a sheet", "t.xlsx", book([["a", "b"]]), "a header and no rows"),
    ("count on a sheet", "t.xlsx", book([["n", "a"], ["x", 0], ["y", 7]]), "7 at line 3, column"),
    ("text on a sheet", "t.xlsx", book([["n", "a"], [], ["x", "?"]]), "'?' at line 3"),
    ("wide row", "t.xlsx", book([["n", "a"], ["x", 0, 1]]), "line 2 has 3 fields"),
    ("formula", "t.xlsx", book([["n", "a"], ["x", "=1"]]), "row 2, column 2 holds a formula with"),
    ("years on a sheet", "t.xlsx", book([["n", 2010, 2011], ["x", 0, 1]]), "do not count the"),
    ("no number in a cell", "t.xlsx", _altered_book(b"<v>1</v>", b"<v>x</v>"), "could not"),
    ("doctype", "t.xlsx", _altered_book(b"<worksheet", b"<!DOCTYPE x><worksheet"), "DOCTYPE"),
    # --- pairs and baskets ----------------------------------------------------------------------
    (
        "pairs or table",
        "t.csv",
        _text("row,column\n0,1\n1,0\n"),
        ("give ", PAIRS, " or ", TABLE),
    ),
    ("pairs unnamed", "t.csv", _text("who,what\nann,tea\n"), ("give ", PAIRS)),
    ("pairs without a row", "t.csv", _text("user,item\nann,tea\n,tea\n"), "line 3 names no row"),
    ("pairs ragged", "t.csv", _text("user,item\nann,tea\nann\n"), "line 3 has 1 field"),
    ("no pairs", "t.csv", _text("user,item\n"), "a header and no pairs"),
    ("rated pairs", "t.csv", _text("user,item,rating\nann,tea,5\n"), "holds 5 at line 2"),
    ("no baskets", "t.basket", _text("\n\n"), "it is empty"),
    ("baskets or entries", "t.txt", _text("0 1 1\n1 0 1\n"), "hold only 0 and 1"),
    # --- Matrix Market --------------------------------------------------------------------------
    ("no banner", "t.mtx", _text("2 2 1\n1 1 1\n"), "%%MatrixMarket"),
    ("complex", "t.mtx", _text(MTX.replace("integer", "complex")), "complex general"),
    ("no sizes", "t.mtx", _text(MTX), "numbers of rows, columns and entries"),
    ("odd sizes", "t.mtx", _text(MTX + "2 two 1\n1 1 1\n"), "line 2 should hold"),
    ("no columns", "t.mtx", _text(MTX + "2 0 0\n"), "at least 1"),
    ("outside", "t.mtx", _text(MTX + "2 2 1\n3 1 1\n"), "names row 3 and column 1"),
    ("from zero", "t.mtx", _text(MTX + "2 2 1\n0 1 1\n"), "allowed are 1 to 2"),
    ("short entry", "t.mtx", _text(MTX + "2 2 2\n1 1 1\n1 2\n"), "line 4 has 2 fields"),
    ("too few", "t.mtx", _text(MTX + "2 2 3\n1 1 1\n"), "says 3 entries and 1 follow"),
    ("too many", "t.mtx", _text(MTX + "2 2 1\n1 1 1\n2 2 1\n"), "says 1 entry and more follow"),
    ("counts", "t.mtx", _text(MTX + "2 2 1\n1 1 7\n"), "holds 7 at line 3"),
    ("too large", "t.mtx", _text(MTX + "9999999999 2 1\n1 1 1\n"), "at most 2147483647"),
    # --- arrays ---------------------------------------------------------------------------------
    ("no array", "t.npy", _bytes(bytes(range(200))), "does not begin as arrays do"),
    ("array cut off", "t.npy", _cut(_npy(np.eye(9)), -8), "could not be read"),
    ("objects", "t.npy", _npy(np.array([[0, None]], object)), "Python objects"),
    ("text array", "t.npy", _npy(np.array([["a"]])), "has type <U1"),
    ("vector", "t.npy", _npy(np.array([0, 1])), "at least 2 modes"),
    ("counts array", "t.npy", _npy(np.array([[0, 3]])), "holds 3 at (0, 1)"),
    ("deep counts", "t.npy", _npy(np.full((2, 2, 2), 3)), GIVE_THRESHOLD),
    ("no archive", "t.npz", _text("zeros and ones"), "it is no archive"),
    (
        "two arrays",
        "t.npz",
        _npz(a=np.eye(2), b=np.eye(2)),
        ("it holds 2 arrays: 'a', 'b'; choose one with ", Argument("array")),
    ),
    ("no arrays", "t.npz", _npz(), "it holds no array"),
    ("array of objects", "t.npz", _npz(a=np.array([[None]], object)), "Python objects"),
    ("counts in an archive", "t.npz", _npz(a=np.full((2, 2), 3)), "holds 3 at (0, 0)"),
    ("scalar", "t.npz", _npz(a=np.array(1)), "at least 2 modes"),
    ("complex array", "t.npy", _npy(np.eye(2) * 1j), "has type complex128"),
    ("by column", "t.npy", _npy(np.asfortranarray([[0, 1, 0], [1, 0, 4]])), "4 at (1, 2)"),
    ("a truth of 2", "t.npy", _npy(np.full((2, 2), 2, np.uint8).view(bool)), "holds 2 at (0, 0)"),
    ("fewer than said", "t.npy", _said((9, 9)), "fewer values than its header says"),
    ("far more than there is", "t.npy", _said((10**9, 10**9)), "fewer values than its header"),
    ("less than nothing", "t.npy", _said((-1, 2)), "fewer values than its header says"),
    ("version of the future", "t.npy", _bytes(b"\x93NUMPY\x09\0" + b" " * 99), "could not be re"),
    ("archive cut off", "t.npz", _cut(_npz(a=np.eye(4)), 90), "could not be read"),
    ("huge sparse matrix", "t.npz", _coo((2**40, 3)), "could not be read"),
    ("sparse cube", "t.npz", _coo((2, 3, 4)), "could not be read"),
    ("sparse lies", "t.npz", _coo((1, 1)), "could not be read"),
    ("half a sparse matrix", "t.npz", _npz(format=np.array("csr")), "could not be read"),
    ("sparse counts", "t.npz", _sparse(sparse.csr_array(np.eye(3) * 4)), "holds 4.0 at (0, 0)"),
    ("run without header", "t.npz", _npz(ones=np.eye(2), names=np.eye(2)), "header.json"),
    # --- Parquet and HDF5 -----------------------------------------------------------------------
    ("no parquet", "t.parquet", _text("a,b\n0,1\n"), "could not be read"),
    ("text in parquet", "t.parquet", _parquet(a=[0, 1], b=["x", "y"]), "'b' has type string"),
    ("counts in parquet", "t.parquet", _parquet(a=[0, 1], b=[7, 1]), "7 at (0, 1) in column 'b'"),
    ("empty parquet", "t.parquet", _parquet(a=[]), "1 column and 0 rows"),
    ("no h5ad", "t.h5ad", _text("a,b\n0,1\n"), "could not be read"),
    ("other HDF5", "t.h5ad", _h5(lambda file: None), "no 'obs' and 'var'"),
    ("counts of cells", "t.h5ad", _h5(h5ad([[0, 2]])), "cell 'obs0' and gene 'var1'"),
    (
        "no X",
        "t.h5ad",
        _h5(h5ad(None, logs=[[0]])),
        GIVE_LAYER,
    ),
    ("no 10x", "t.h5", _h5(lambda file: None), "0 matrices of 10x"),
    ("10x counts", "t.h5", _h5(tenx([5], [1], [0, 1], (2, 1))), "holds 5 at (0, 1)"),
    ("10x broken", "t.h5", _h5(tenx([1], [1], [0, 3], (2, 1))), "does not fit together"),
    ("10x outside", "t.h5", _h5(tenx([1], [9], [0, 1], (2, 1))), "lists an entry outside"),
    # --- names ----------------------------------------------------------------------------------
    ("unknown extension", "t.ods", _bytes(b"PK"), "files ending in '.ods'"),
    ("packed twice", "t.csv.bz2", _bytes(b"BZ"), "files ending in '.bz2'"),
    ("packed array", "t.npy.zst", _bytes(b""), "files ending in '.npy.zst'"),
    ("no extension", "t", _text("a,b\n0,1\n"), "files ending in ''"),
]
