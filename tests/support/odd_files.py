"""Unusual files that are read as they are meant: what somebody else's program or country writes.

Every row is ``(name, file name, function that makes the bytes, options)``. All hold the same
matrix, ``VALUES``, with the names of its rows and columns or without.
"""

import gzip
import io

import numpy as np

from support.bad_files import _text, _zst, book

VALUES = np.array([[0.0, 1.0, 1.0], [1.0, np.nan, 0.0]])
COMMAS = "n,a,b,c\nx,0,1,1\ny,1,,0\n"
ROWS = [["n", "a", "b", "c"], ["x", 0, 1, 1], ["y", 1, None, 0]]
BARE = "0 1 1\n1 NA 0\n"


def _with(sign):
    return _text(COMMAS.replace(",", sign))


def _in(encoding):
    return lambda: COMMAS.encode(encoding)


def _marked(encoding):
    return lambda: ("\ufeff" + COMMAS).encode(encoding)


def _frames(*texts):
    return lambda: b"".join(_zst(text)() for text in texts)


def _npz(**arrays):
    def make():
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        return buffer.getvalue()

    return make


def _npy(array):
    def make():
        buffer = io.BytesIO()
        np.save(buffer, array)
        return buffer.getvalue()

    return make


ODD_FILES = [
    ("semicolons", "t.csv", _with(";"), {}),
    ("semicolons, told", "t.csv", _with(";"), {"sep": ";"}),
    ("bars", "t.csv", _with("|"), {}),
    ("tabs in csv", "t.csv", _with("\t"), {}),
    ("tabs, told", "t.csv", _with("\t"), {"sep": "tab"}),
    ("tabs, told as in C", "t.csv", _with("\t"), {"sep": "\\t"}),
    ("commas in tsv", "t.tsv", _text(COMMAS), {}),
    ("semicolons in tsv", "t.tsv", _with(";"), {}),
    ("colons", "t.csv", _with(":"), {"sep": ":"}),
    ("hashes", "t.csv", _with("#"), {"sep": "#"}),
    ("blanks", "t.csv", _text(COMMAS.replace(",,", ",NA,").replace(",", "  ")), {"sep": "space"}),
    ("table in txt", "t.txt", _with(";"), {"kind": "table"}),
    ("table of any ending", "t.data", _with("|"), {"kind": "table"}),
    ("quoted commas", "t.csv", _text('n;"a";b;c\n"x";0;1;1\n"y";1;;0\n'), {}),
    ("commas in names", "t.csv", _text("n;a;b;c\nx;0;1;1\ny;1;;0\n"), {}),
    ("carriage returns", "t.csv", _text(COMMAS.replace("\n", "\r")), {}),
    ("ends with signs", "t.csv", _text("n;a;b;c;\nx;0;1;1;\ny;1;;0;\n"), {}),
    ("yes and no", "t.csv", _text("n,a,b,c\nx,no,yes,yes\ny,yes,,no\n"), {}),
    ("Yes and NO", "t.csv", _text("n;a;b;c\nx;No;YES;Yes\ny;yes;NA;NO\n"), {}),
    ("True and FALSE", "t.csv", _text("n,a,b,c\nx,False,TRUE,true\ny,True,,FALSE\n"), {}),
    ("words by column", "t.csv", _text("n,a,b,c\nx,no,1,true\ny,yes,,false\n"), {}),
    ("no as unknown", "t.csv", _text("n,a,b,c\nx,0,1,1\ny,1,no,0\n"), {"missing": ["no"]}),
    ("headed by words", "t.csv", _text("n,yes,no,true\nx,0,1,1\ny,1,,0\n"), {}),
    ("UTF-16", "t.csv", _in("utf-16"), {}),
    ("UTF-16, big end", "t.csv", _marked("utf-16-be"), {}),
    ("UTF-16, little end", "t.tsv", lambda: COMMAS.replace(",", "\t").encode("utf-16"), {}),
    ("UTF-16 of Excel", "t.csv", lambda: COMMAS.replace(",", ";").encode("utf-16"), {}),
    ("UTF-32", "t.csv", _in("utf-32"), {}),
    ("UTF-8 with a mark", "t.csv", _in("utf-8-sig"), {}),
    ("gzip of UTF-16", "t.csv.gz", lambda: gzip.compress(_in("utf-16")()), {}),
    ("gzip of two", "t.csv.gz", lambda: b"".join(map(gzip.compress, [b"n,a,b,c\nx,0,1,1\n",
                                                                    b"y,1,,0\n"])), {}),
    ("zst", "t.csv.zst", _zst(COMMAS), {}),
    ("zst in capitals", "T.TSV.ZST", _zst(COMMAS.replace(",", "\t")), {}),
    ("frames of zst", "t.csv.zst", _frames("n,a,b,c\nx,0,", "1,1\ny,1,,0\n"), {}),
    ("counted from 0", "t.csv", _text("n,0,1,2\nx,0,1,1\ny,1,,0\n"), {}),
    ("counted from 1", "t.csv", _text("1,2,3\n0,1,1\n1,,0\n"), {}),
    ("counted, no corner", "t.csv", _text(",0,1,2\nx,0,1,1\ny,1,,0\n"), {}),
    ("counted, ending", "t.csv", _text("1,2,3,\n0,1,1,\n1,,0,\n"), {}),
    ("years", "t.csv", _text("n,2010,2011,2012\nx,0,1,1\ny,1,,0\n"), {"kind": "table"}),
    ("counts", "t.csv", _text("0,7,2\n3,,0\n"), {"kind": "matrix", "binarize": 1}),
    ("blanks, no names", "t.txt", _text(BARE), {"kind": "matrix"}),
    ("workbook", "t.xlsx", book(ROWS), {}),
    ("workbook with macros", "t.xlsm", book(ROWS), {}),
    ("workbook of words", "t.xlsx",
     book([ROWS[0], ["x", False, True, True], ["y", "yes", "NA", "No"]]), {}),
    ("workbook of texts", "t.xlsx",
     book([ROWS[0], ["x", "0", "1", "1"], ["y", 1.0, "", "0.0"]]), {}),
    ("workbook with gaps", "t.xlsx", book([[], ROWS[0], [], *ROWS[1:], [None]]), {}),
    ("empty sheet beside", "t.xlsx", book([], ROWS, []), {}),
    ("chosen sheet", "t.xlsx", book([["z"], [1]], data=ROWS), {"sheet": "data"}),
    ("bare sheet", "t.xlsx", book([[0, 1, 1], [1, None, 0]]), {"kind": "matrix"}),
    ("#N/A on a sheet", "t.xlsx", book([ROWS[0], ROWS[1], ["y", 1, "#N/A", 0]]), {}),
    ("pairs on a sheet", "t.xlsx",
     book([["user", "item", "value"], ["x", "a", 0], ["x", "b", 1], ["x", "c", 1], ["y", "a", 1],
           ["y", "b", "NA"]]), {}),
    ("semicolons in pairs", "t.csv",
     _text("user;item;value\nx;a;0\nx;b;1\nx;c;1\ny;a;1\ny;b;NA\n"), {}),
    ("compressed archive", "t.npz", _npz(anything=VALUES), {}),
    ("chosen array", "t.npz", _npz(a=np.eye(2), b=VALUES), {"array": "b"}),
    ("chosen by format", "t.npz", _npz(format=VALUES, b=np.eye(2)), {"array": "format"}),
    ("array by column", "t.npy", _npy(np.asfortranarray(VALUES)), {}),
    ("archive by column", "t.npz", _npz(a=np.asfortranarray(VALUES)), {}),
    ("other end first", "t.npy", _npy(VALUES.astype(">f4")), {}),
    ("half numbers", "t.npy", _npy(VALUES.astype(np.float16)), {}),
]  # fmt: skip
