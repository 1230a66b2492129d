"""Tables as people have them: titles, ids, comments, words of another language, old encodings."""

import logging

import numpy as np
import pandas as pd
import pytest

from support.data_files import assert_refused, ternary, write
from thali.data.readers.files import read

ANSWERS = "id,remark,tea,milk\n1,hot,ja,nein\n2,cold,nein,\n0,warm,ja,ja\n"


def codes(tensor):
    return np.nan_to_num(ternary(tensor), nan=2).tolist()


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_ids_and_other_columns(tmp_path, ending):
    """A column of row names may be anywhere and hold numbers; others are left out."""
    frame = pd.DataFrame({"a": [0, 1], "id": [1, 0], "note": ["x", "y"], "b": [1, 1]})
    path = tmp_path / f"t.{ending}"
    save = {"csv": frame.to_csv, "xlsx": frame.to_excel, "parquet": frame.to_parquet}[ending]
    save(path, index=False)
    tensor = read(path, names="id", drop="note")
    assert tensor.row_names == (("1", "0"), ("a", "b"))
    assert tensor.mode_names[0] == "id"
    assert codes(tensor) == [[0, 1], [1, 1]]
    without = read(path, drop=["note", "id"])
    assert without.row_names == (None, ("a", "b"))
    assert_refused(path, "its columns are 'a', 'id', 'note', 'b'; choose one", drop=["nota"])
    assert_refused(path, "names='key' was given; its columns are", names="key", drop=["note"])
    assert_refused(path, "no column of entries", names="id", drop=["a", "note", "b"])


def test_a_first_column_is_named_or_left_out(tmp_path):
    """It would otherwise be taken for entries, or its names for a mixture."""
    path = write(tmp_path, "id,a,b\n0,1,0\n1,0,1\n2,1,1\n")
    assert_refused(path, "holds entries and '2'; give names='id' if it holds row names")
    assert read(path, names="id").row_names[0] == ("0", "1", "2")
    assert codes(read(path, drop=["id"])) == [[1, 0], [0, 1], [1, 1]]
    assert_refused(path, "give names='id' if it holds row names", binarize=0)
    assert codes(read(path, drop=["id"], binarize=0)) == [[1, 0], [0, 1], [1, 1]]
    words = write(tmp_path, "who,a,b\nann,1,0\nbob,0,1\n", "w.csv")
    assert read(words, drop=["who"]).row_names[0] is None


def test_what_is_no_entry_can_be_left_out(tmp_path):
    path = write(tmp_path, "who,a,remark,b\nann,1,hot,0\n")
    assert_refused(path, "holds 'hot' at line 2, column 'remark'")
    assert_refused(path, "or leave its column out with `drop`")
    assert codes(read(path, drop="remark")) == [[1, 0]]


def test_columns_need_a_table_with_names(tmp_path):
    path = write(tmp_path, "0,1,1\n1,0,1\n")
    for given in ({"names": "a"}, {"drop": ["a"]}):
        assert_refused(path, "the table has no line of column names", **given)
    pairs = write(tmp_path, "user,item\nann,tea\n", "p.csv")
    assert_refused(pairs, "it is for tables", names="user")
    baskets = write(tmp_path, "tea milk\n", "b.basket")
    assert_refused(baskets, "it is for tables", drop=["tea"])


def test_words_for_one_and_zero(tmp_path):
    """Further words, besides those that are known; an empty field can be a zero."""
    path = write(tmp_path, ANSWERS)
    which = {"names": "id", "drop": "remark"}
    assert_refused(path, "as `ones` or `zeros` if it is a word for one or zero", **which)
    tensor = read(path, ones="ja", zeros=["nein"], **which)
    assert codes(tensor) == [[1, 0], [0, 2], [1, 1]]
    assert codes(read(path, ones="ja", zeros=["nein", ""], **which)) == [[1, 0], [0, 0], [1, 1]]
    assert_refused(path, "allowed are 0, 1, true, false, yes, no, ja, and", ones="ja", **which)


def test_letters_and_numbers_may_mean_one_and_zero(tmp_path):
    marks = write(tmp_path, "n,a,b\nx,X,\ny,,X\n")
    assert codes(read(marks, ones="X", zeros="")) == [[1, 0], [0, 1]]
    blank = write(tmp_path, "n,a,b\nx,1,\ny,,yes\n", "b.csv")
    assert codes(read(blank, zeros="")) == [[1, 0], [0, 1]]
    coded = write(tmp_path, "n,a,b\nx,1,2\ny,12,1\n", "c.csv")
    assert codes(read(coded, ones=["2", "12"], zeros="1")) == [[0, 1], [1, 0]]
    mixed = write(tmp_path, "n,a\nx,ja\ny,1\nz,nein\n", "m.csv")
    assert_refused(mixed, "holds words", ones="ja", zeros="nein", kind="table")


def test_words_mean_one_thing(tmp_path):
    path = write(tmp_path, ANSWERS)
    with pytest.raises(ValueError, match="a word means one of them"):
        read(path, ones="ja", zeros="ja")
    with pytest.raises(ValueError, match="entries are words, or numbers"):
        read(path, ones="ja", binarize=0)
    with pytest.raises(TypeError, match="a list of strings"):
        read(path, ones=[1])


def test_texts_that_no_entry_has_are_told(tmp_path, caplog):
    """So that a typing error does not go unnoticed; what is there is not told."""
    path = write(tmp_path, "n,a,b\nx,0,?\ny,-9,1\n")
    with caplog.at_level(logging.WARNING, "thali"):
        read(path, missing=["?", "-9"])
        assert caplog.messages == []
        read(path, missing=["?", "-9", "!", "-99"], ones="ja")
    (told,) = caplog.messages
    assert told.startswith("no entry reads '!' or '-99' or 'ja', although this was given; ")


@pytest.mark.parametrize("sign", [",", ";", "\t"])
@pytest.mark.parametrize("title", ["Visits in May\n", "Visits\n\nMay, and later\n\n"])
def test_titles_above_a_table(tmp_path, title, sign):
    """They are seen for what they are, and left out if asked."""
    table = "who,a,b,c\nann,1,0,1\nbob,0,1,1\neve,0,0,1\ntim,1,1,1\n".replace(",", sign)
    path = write(tmp_path, title + table)
    n = title.count("\n")
    said = (
        f"and the lines from {n + 1} on have 4; if a title stands above the table, give skip={n}"
    )
    assert_refused(path, said)
    tensor = read(path, skip=n)
    assert tensor.row_names[0] == ("ann", "bob", "eve", "tim")
    old = write(tmp_path, (title + table).replace("\n", "\r"), "old.csv")
    assert codes(read(old, skip=n)) == codes(tensor)


def test_titles_of_sheets(tmp_path):
    frame = pd.DataFrame({"who": ["ann", "bob", "eve"], "a": [1, 0, 1], "b": [0, 1, 1]})
    path = tmp_path / "t.xlsx"
    frame.to_excel(path, index=False, startrow=2)
    book = pytest.importorskip("openpyxl").load_workbook(path)
    book.active["A1"] = "Visits in May"
    book.save(path)
    assert_refused(
        path, "the lines from 3 on have 3; if a title stands above the table, give skip"
    )
    assert codes(read(path, skip=2)) == [[1, 0], [0, 1], [1, 1]]


def test_skipping_everything_is_an_empty_file(tmp_path):
    path = write(tmp_path, "n,a\nx,1\n")
    assert_refused(path, "no line is left without the first 5; skip fewer lines", skip=5)
    with pytest.raises(ValueError, match="skip=-1 was given"):
        read(path, skip=-1)


def test_lines_are_numbered_as_in_the_file(tmp_path):
    path = write(tmp_path, "A title\nn,a\nx,1\ny,7\n")
    assert_refused(path, "holds 7 at line 4, column 'a'", skip=1)


def test_encodings(tmp_path):
    """Text of another encoding is refused with the option that reads it."""
    path = tmp_path / "t.csv"
    path.write_bytes("gar\u00e7on,th\u00e9,caf\u00e9\nZo\u00eb,1,0\n".encode("latin-1"))
    assert_refused(path, "is no UTF-8 text; give its encoding, such as encoding='latin-1'")
    tensor = read(path, encoding="latin-1")
    assert tensor.row_names == (("Zo\u00eb",), ("th\u00e9", "caf\u00e9"))
    assert_refused(
        path, "it is not ASCII text throughout; give another `encoding`", encoding="ascii"
    )
    wide = tmp_path / "w.csv"
    wide.write_bytes("n,a\nx,1\n".encode("utf-16-le"))
    assert_refused(wide, "it holds zero bytes and is no UTF-8 text")
    assert read(wide, encoding="utf-16-le").row_names[0] == ("x",)
    for name in ("klingon", "hex", 7):
        with pytest.raises(ValueError, match=f"encoding={name!r} was given; allowed are"):
            read(path, encoding=name)
