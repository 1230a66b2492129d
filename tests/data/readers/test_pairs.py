"""Pairs and baskets list the places of the ones by name."""

import numpy as np
import pytest

from support.data_files import assert_refused, ternary, write
from thali.data.readers.files import read


@pytest.mark.parametrize(
    ("content", "options", "rows", "columns", "modes"),
    [
        (
            "user,item\nann,tea\nbob,tea\nann,milk\nann,tea\n",
            {},
            "ann bob",
            "tea milk",
            "user item",
        ),
        ("Row,Column,Value\nx,p,1\ny,p,true\nx,q,1\ny,q,0\n", {}, "x y", "p q", "Row Column"),
        (
            "userId,itemId,rating\n7,2,5\n10,2,4\n7,9,3\n10,9,1\n",
            {"binarize": 2},
            "7 10",
            "2 9",
            "userId itemId",
        ),
        ("7,9\n10,2\n7,2\n", {"kind": "pairs"}, "7 10", "2 9", "row column"),
        ("a,p,1\nb,p,1\na,q,1\n", {"kind": "pairs"}, "a b", "p q", "row column"),
        ("who,what,much\na,p,1\nb,p,1\na,q,1\n", {"kind": "pairs"}, "a b", "p q", "who what"),
        ("who,what\na,p\nb,p\na,q\n", {"kind": "pairs"}, "a b", "p q", "who what"),
        ("row,column\nrow,p\nb,p\nrow,column\n", {}, "row b", "p column", "row column"),
        ("user,item\n0,0\n1,0\n0,1\n", {"kind": "pairs"}, "0 1", "0 1", "user item"),
        ('user,item\n"a, b",p\nc,p\n"a, b",q\n', {}, None, "p q", "user item"),
    ],
    ids=[
        "names",
        "values",
        "ratings",
        "numbers",
        "unnamed",
        "other-names",
        "other-two-names",
        "names-that-come-again",
        "digits",
        "quoted",
    ],
)
def test_pairs(tmp_path, content, options, rows, columns, modes):
    """Pairs give the places of the ones; all that is not listed is zero."""
    tensor = read(write(tmp_path, content), **options)
    rows = ("a, b", "c") if rows is None else tuple(rows.split())
    assert tensor.row_names == (rows, tuple(columns.split()))
    assert tensor.mode_names == tuple(modes.split())
    assert np.array_equal(ternary(tensor), [[1, 1], [1, 0]])


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("ann,tea\nbob,milk\nann,milk\n", "'ann'"),
        ("ann,tea\nbob,tea\n", "'tea'"),
        ("ann,7\nann,8\n", "'ann'"),
        ('"a ""b""",p\n"a ""b""",q\n', "'a \"b\"'"),
    ],
    ids=["row", "column", "number", "quoted"],
)
def test_a_first_pair_is_not_taken_for_a_header(tmp_path, content, name):
    """A name of the first line that comes again may be a pair's: nothing is lost in silence."""
    path = write(tmp_path, content)
    assert_refused(path, f"read as a header, and {name} comes again below it", kind="pairs")
    whole = read(write(tmp_path, "row,column\n" + content))
    assert whole.n_ones == content.count("\n")


def test_unknown_pairs(tmp_path):
    """A pair with an unknown value is unknown, also where another line says one."""
    tensor = read(write(tmp_path, "row,column,value\nx,p,1\ny,p,NA\nx,q,\nx,q,1\ny,q,0\n"))
    assert np.array_equal(ternary(tensor), [[1, np.nan], [np.nan, 0]], equal_nan=True)


def test_missing_is_for_values_of_pairs(tmp_path):
    """Pairs of two columns have nothing that could be unknown; a third column has."""
    path = write(tmp_path, "user,item\nann,tea\nbob,milk\n")
    assert_refused(path, "missing=('0',) was given for pairs of two columns", missing=["0"])
    assert_refused(path, "binarize=0 was given for pairs of two columns", binarize=0)
    path = write(tmp_path, "user,item,value\nann,tea,1\nbob,tea,0\nbob,milk,1\n")
    tensor = read(path, missing=["0"])
    assert np.array_equal(ternary(tensor), [[1, 0], [np.nan, 1]], equal_nan=True)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("tea milk\n\nbread  tea \n", "tea milk bread"),
        ("whole milk, tea\nbread,whole milk,\n", ["whole milk", "tea", "bread"]),
        ("10 2\n33 10\n", "2 10 33"),
        ("tea\tmilk\r\nbread\ttea\r\n", "tea milk bread"),
    ],
    ids=["blanks", "commas", "numbers", "tabs"],
)
@pytest.mark.parametrize("suffix", ["basket", "dat", "txt.gz"])
def test_baskets(tmp_path, content, names, suffix):
    """One basket a line; a comma anywhere means that names may hold blanks."""
    tensor = read(write(tmp_path, content, f"t.{suffix}"))
    names = tuple(names.split() if isinstance(names, str) else names)
    assert tensor.row_names == (None, names)
    baskets = [[names[i] for i in np.flatnonzero(row)] for row in ternary(tensor)]
    separator = "," if "," in content else None
    lines = [line.strip(" ,") for line in content.splitlines() if line.strip()]
    assert [set(b) for b in baskets] == [{p.strip() for p in x.split(separator)} for x in lines]
