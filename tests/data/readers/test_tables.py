"""Tables as text are read as they are meant, with names of rows and columns or without."""

import numpy as np
import pytest

from support.data_files import assert_refused, ternary, write
from thali.data.readers.files import read
from thali.data.readers.text import Block, split


@pytest.mark.parametrize(
    ("text", "values", "rows", "mode"),
    [
        ("animal,a,b\ncat,0,1\ndog,1,\n", [[0, 1], [1, np.nan]], ("cat", "dog"), "animal"),
        (",a,b\n5,0,1\n7,1,0\n", [[0, 1], [1, 0]], ("5", "7"), "mode_0"),
        ("a,b\n0,1\n1,0\n", [[0, 1], [1, 0]], None, "mode_0"),
        ("a,b,c\nTrue,0,1\n,1,1\n", [[1, 0, 1], [np.nan, 1, 1]], None, "mode_0"),
        ("a,b\nTRUE,False\nFALSE,True\n", [[1, 0], [0, 1]], None, "mode_0"),
        ("a\n0\n1\n", [[0], [1]], None, "mode_0"),
    ],
    ids=["names", "unnamed", "none", "gap", "booleans", "single"],
)
def test_tables(tmp_path, text, values, rows, mode):
    """A first column of text, or without a header, names the rows; empty cells are unknown."""
    path = tmp_path / "table.csv"
    path.write_text(text)
    tensor = read(path)
    assert np.array_equal(ternary(tensor), np.array(values, float), equal_nan=True)
    assert tensor.row_names[0] == rows
    assert tensor.mode_names[0] == mode


TABLE = np.array([[0.0, 1.0], [1.0, np.nan]])


@pytest.mark.parametrize(
    ("content", "rows", "columns"),
    [
        (b"\xef\xbb\xbfn,a,b\nx,0,1\ny,1,\n", "xy", "ab"),
        ("n,a,b\r\nx,0,1\r\ny,1,\r\n", "xy", "ab"),
        ("n,a,b\rx,0,1\ry,1,\r", "xy", "ab"),
        ("n,a,b\nx,0,1\ny,1,NA", "xy", "ab"),
        ("\n\nn,a,b\n\nx,0,1\n  \ny,1,\n\n\n", "xy", "ab"),
        ("n,a,b,\nx,0,1,\ny,1,,\n", "xy", "ab"),
        (" n , a,b\nx , 0, 1\ny,\t1 ,nan\n", "xy", "ab"),
        ('"n","a","b"\n"x","0","1"\n"y","1",""\n', "xy", "ab"),
        ('n,"a,1","b\n2"\n"x ""1""",0,1\n"y",1,\n', ['x "1"', "y"], ["a,1", "b\n2"]),
        ("n,a,b\nx,0,1\nx,1,\n", "xx", "ab"),
        ("tier,größe,尾\nlöwe,0,1\n猫,1,\n", ["löwe", "猫"], ["größe", "尾"]),
        ("n,a,b\nx,0.0,1e0\ny,+1.000,null\n", "xy", "ab"),
        ("n,a,b\nx,FALSE,true\ny,True,None\n", "xy", "ab"),
        (",1,2\n1,0,1\n2,1,\n", "12", ["1", "2"]),
        ("a,b\n0,1\n1,\n", None, "ab"),
        ("1,2\n0,1\n1,\n", None, "12"),
    ],
    ids=[
        "BOM",
        "CRLF",
        "CR",
        "unended",
        "blank-lines",
        "trailing",
        "blanks",
        "quoted",
        "quotes-within",
        "duplicates",
        "unicode",
        "floats",
        "booleans",
        "unnamed",
        "no-row-names",
        "numbers-as-names",
    ],
)
def test_tricky_tables(tmp_path, content, rows, columns):
    """Tables as programs and people write them are read as they are meant."""
    for name in ("t.csv", "t.csv.gz"):
        tensor = read(write(tmp_path, content, name))
        assert np.array_equal(ternary(tensor), TABLE, equal_nan=True)
        assert tensor.row_names == (None if rows is None else tuple(rows), tuple(columns))


def test_matrix_without_names(tmp_path):
    """A first line that repeats itself can only hold entries; otherwise the user says so."""
    tensor = read(write(tmp_path, "0,1,1\n1,0,\n"))
    assert tensor.row_names == (None, None)
    assert np.array_equal(ternary(tensor), [[0, 1, 1], [1, 0, np.nan]], equal_nan=True)
    assert read(write(tmp_path, "x,0,1,1\ny,1,0,0\n")).row_names == (("x", "y"), None)
    path = write(tmp_path, "0,1\n1,0\n")
    assert read(path, kind="matrix").shape == (2, 2)
    assert read(path, kind="table").row_names == (None, ("0", "1"))
    assert read(write(tmp_path, "1 0  1\n0 1 1\n", "t.txt"), kind="matrix").n_ones == 4


def test_one_column(tmp_path):
    """A table of one column is a matrix, too."""
    assert read(write(tmp_path, "a\n0\n1\n")).shape == (2, 1)
    assert read(write(tmp_path, "1\n1\n0\n"), kind="matrix").shape == (3, 1)


def test_columns_without_names_are_counted(tmp_path):
    """From 1, as lines are, with the column of row names."""
    assert_refused(write(tmp_path, "0,1\n0,x\n"), "'x' at line 2, column 2;", kind="matrix")
    assert_refused(write(tmp_path, ",a,\nn,0,x\n"), "an entry in the last column")


def test_binarize_does_not_swallow_names(tmp_path):
    """A header of numbers, or a column that counts, would become ones without a word."""
    path = write(tmp_path, "2010,2011\n0,7\n3,0\n")
    assert_refused(path, "first line holds entries", binarize=0)
    assert read(path, binarize=0, kind="table").row_names[1] == ("2010", "2011")
    assert read(path, binarize=0, kind="matrix").n_ones == 4
    path = write(tmp_path, "id,a,b\n1,0,7\n2,3,0\n3,0,0\n")
    assert_refused(path, "first column, 'id', counts the lines", binarize=0)
    assert read(path, binarize=0, kind="table").n_ones == 5


@pytest.mark.parametrize(
    "text",
    ["a,b,c\n", "a,b\nc,d\n", "a, b ,c\n", '"a,b",c\n', "ä,β,c\n", "a\nb\nc\n", "a\n", ",,\n"],
)
def test_fields_split_at_once_are_those_found_one_by_one(text):
    """Names of one line are split together; blanks, quotes and line ends are seen one by one."""
    octets = np.frombuffer(text.encode(), np.uint8)
    fields = split(Block(octets, 1, '"' in text), ",")
    pairs = zip(fields.starts, fields.ends, strict=True)
    assert fields.texts(slice(None)) == [fields.block.text(*pair) for pair in pairs]
