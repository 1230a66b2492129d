"""Files that list the entries of tensors: by the names of rows, or by indices."""

import re

import numpy as np
import pandas as pd
import pytest

from support.data_files import assert_refused, ternary, write
from thali.data.readers.files import read

MODES = ["head", "tail", "relation"]
TEXT = """id,tail,value,relation,head
1,bob,1,knows,ann
2,cat,0,likes,bob
3,cat,,knows,ann
4,bob,1,knows,ann
5,ann,true,likes,bob
"""
NAMES = (("ann", "bob"), ("bob", "cat", "ann"), ("knows", "likes"))


def expected(fill):
    values = np.full((2, 3, 2), fill)
    values[0, 0, 0] = values[1, 2, 1] = 1
    values[1, 1, 1] = 0
    values[0, 1, 0] = np.nan
    return values


def saved(folder, name):
    """Write the list as a file with a certain ending."""
    if name.endswith((".csv", ".csv.gz", ".odd")):
        return write(folder, TEXT, name)
    if name.endswith(".tsv"):
        return write(folder, TEXT.replace(",", "\t"), name)
    if name.endswith(".txt"):
        return write(folder, TEXT.replace(",", ";"), name)
    frame = pd.read_csv(write(folder, TEXT), dtype=str)
    path = folder / name
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_excel(path, index=False)
    return path


@pytest.mark.parametrize(
    "name", ["l.csv", "l.csv.gz", "l.tsv", "l.txt", "l.odd", "l.parquet", "l.xlsx"]
)
def test_lists_of_entries(tmp_path, name):
    """Chosen columns, in the order of the modes; values are as in pairs; others are not read."""
    path = saved(tmp_path, name)
    tensor = read(path, modes=MODES)
    assert (tensor.mode_names, tensor.row_names) == (tuple(MODES), NAMES)
    np.testing.assert_array_equal(ternary(tensor), expected(0.0))
    only = read(path, modes=MODES, unlisted="unknown")
    np.testing.assert_array_equal(ternary(only), expected(np.nan))


def test_lists_without_values(tmp_path):
    """Every entry that is listed is one; whole numbers are sorted; two modes make a matrix."""
    path = write(tmp_path, "who,whom,week,much\na,b,10,0\na,c,9,7\nd,b,9,0\na,b,10,3\n")
    tensor = read(path, modes=("who", "whom", "week"))
    assert tensor.row_names == (("a", "d"), ("b", "c"), ("9", "10"))
    assert np.argwhere(tensor.rows()[0]).tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    matrix = read(path, modes=["week", "who"])
    np.testing.assert_array_equal(ternary(matrix), [[1, 1], [1, 0]])


def test_thresholds_of_lists(tmp_path):
    path = write(tmp_path, "a,b,c,count\nx,y,z,3\nx,y,w,1\nv,y,w,0\n")
    tensor = read(path, modes=list("abc"), binarize=1)
    assert (tensor.n_ones, tensor.n_known) == (1, 4)
    assert_refused(path, "it holds 3 at line 2; allowed", modes=list("abc"))
    assert_refused(path, "its zeros would all become ones", modes=list("abc"), binarize=-1)
    known = read(path, modes=list("abc"), binarize=-1, unlisted="unknown")
    assert (known.n_ones, known.n_known) == (3, 3)


def test_pairs_of_which_only_some_were_observed(tmp_path):
    path = write(tmp_path, "user,item,rating\na,x,1\nb,x,0\nb,y,1\n")
    np.testing.assert_array_equal(ternary(read(path)), [[1, 0], [0, 1]])
    np.testing.assert_array_equal(ternary(read(path, unlisted="unknown")), [[1, np.nan], [0, 1]])


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        (
            TEXT,
            {"modes": ["head", "to"]},
            "modes=('head', 'to') was given with 'to', which is no column of it; its columns are "
            "'id', 'tail', 'value', 'relation', 'head'; choose one of them for every mode",
        ),
        ("a,a,b\nx,y,z\n", {"modes": ["a", "b"]}, "with 'a', and two columns have it"),
        ("a,b,c\n", {"modes": list("abc")}, "it has a header and no entries below it; add them"),
        ("", {"modes": list("abc")}, "it is empty; check that it was written"),
        ("a,b,c\nx,,y\n", {"modes": list("abc")}, "line 2 names no row of one of the modes; fill"),
        ("a,b,c\nx,y,z\nx,y\n", {"modes": list("abc")}, "line 3 has 2 fields, the first line 3"),
        (
            "a,b,c\nx,y,z\n",
            {"modes": list("abc"), "binarize": 1},
            "binarize=1 was given for a list without values; these hold names and no values; "
            "leave it out, or add a column called 'value'",
        ),
        (
            "a,b,value,count\nx,y,1,1\n",
            {"modes": ["a", "b"]},
            "its columns 'value' and 'count' may both hold the values of entries",
        ),
        (
            "n,a,b\nx,0,1\n",
            {"unlisted": "unknown"},
            "unlisted='unknown' was given; it is for pairs and other lists of entries; leave it",
        ),
    ],
    ids=["column", "twice", "nothing", "empty", "name", "short", "numbers", "values", "table"],
)
def test_bad_lists_are_refused(tmp_path, text, options, reason):
    assert_refused(write(tmp_path, text), reason, **options)


@pytest.mark.parametrize("name", ["t.npy", "t.txt", "t.parquet"])
def test_only_lists_have_what_is_not_listed(tmp_path, name):
    path = tmp_path / name
    if path.suffix == ".npy":
        np.save(path, np.eye(2))
    elif path.suffix == ".txt":
        path.write_text("a b\nc\n")
    else:
        pd.DataFrame({"a": [0, 1], "b": [1, 0]}).to_parquet(path)
    assert_refused(path, "unlisted='unknown' was given; it is for pairs and", unlisted="unknown")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"modes": ["a", "a"]}, "modes=('a', 'a') was given; allowed are two or more different"),
        ({"modes": "a,b"}, "modes='a,b' was given; a list of names of columns is needed; make it"),
        ({"modes": [1, 2]}, "modes=(1, 2) was given; names of columns are needed; give texts."),
        ({"modes": ["a", "b"], "kind": "pairs"}, "kind='pairs' was given with `modes`; these say"),
        ({"unlisted": None}, "unlisted=None was given; allowed are 'zero' and 'unknown'; choose"),
    ],
    ids=["equal", "text", "numbers", "kind", "unlisted"],
)
def test_bad_options_are_refused_before_a_file_is_read(options, sentence):
    with pytest.raises((ValueError, TypeError), match=f"^{re.escape(sentence)}"):
        read("nowhere.csv", **options)


def test_modes_are_for_files_with_columns(tmp_path):
    path = write(tmp_path, "1 1 1\n", "t.tns")
    assert_refused(path, "it is for text, workbooks and Parquet files", modes=["a", "b"])


# --- .tns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.tns", "t.tns.gz"])
def test_frostt(tmp_path, name):
    """Indices count from 1; comments and empty lines are skipped; blanks are of any kind."""
    text = "# a comment\n1 2 3 1\n\n2 1\t1 0\n# another 1 1 1\n  2 2 2   1.0\n2 2 2 1\n1 1 1 NaN\n"
    values = np.zeros((2, 2, 3))
    values[0, 1, 2] = values[1, 1, 1] = 1
    values[0, 0, 0] = np.nan
    tensor = read(write(tmp_path, text, name))
    np.testing.assert_array_equal(ternary(tensor), values)
    assert tensor.mode_names == ("mode_0", "mode_1", "mode_2")
    assert tensor.row_names == (None,) * 3
    only = read(write(tmp_path, text, name), unlisted="unknown")
    assert (only.n_known, only.n_ones) == (3, 2)


def test_frostt_in_many_blocks(tmp_path):
    """The shape is the largest index of all blocks."""
    rng = np.random.default_rng(0)
    places = rng.integers(1, 30, (30_000, 4))
    lines = "\n".join(f"{a} {b} {c} {d} 1" for a, b, c, d in places)
    tensor = read(write(tmp_path, lines, "t.tns"))
    assert tensor.shape == (29, 29, 29, 29)
    assert np.array_equal(np.argwhere(tensor.rows()[0]) + 1, np.unique(places, axis=0))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 1 1 1\n1 2 3 5\n", "it holds 5 at line 2; allowed are 0, 1"),
        ("# zero\n0 1 1 1\n", "line 2 has the index '0'; allowed are whole numbers that count"),
        ("1 1 1 1\n1 -2 1 1\n", "line 2 has the index '-2'; allowed are whole numbers that count"),
        ("1 1.5 1 1\n", "line 1 has the index '1.5'; allowed are whole numbers that count"),
        ("1 1 1 1\n1 1 1\n", "line 2 has 3 fields, the first line 4; make all lines equally long"),
        ("1 1\n", "its lines have 2 fields; an index for each of two or more modes and a value"),
        ("# nothing\n", "it lists no entry; check that it was written"),
        ("3000000000 1 1 1\n", "3000000000 x 1 x 1 entries were given; at most 2147483647 rows"),
    ],
    ids=["value", "zero", "negative", "fraction", "short", "few", "nothing", "long"],
)
def test_bad_frostt_files_are_refused(tmp_path, text, reason):
    assert_refused(write(tmp_path, text, "t.tns"), reason)


def test_counts_of_frostt(tmp_path):
    path = write(tmp_path, "1 1 1 3\n1 2 1 1\n1 1 2 0.5\n", "t.tns")
    assert np.argwhere(read(path, binarize=1).rows()[0]).tolist() == [[0, 0, 0]]
    assert read(path, binarize=0.6).n_ones == 2
