"""Read a file into a labelled binary tensor; its extension decides the format."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thali.data.binarize import GIVE_THRESHOLD
from thali.data.binary import BinaryTensor
from thali.data.classify import ADVICE
from thali.data.readers import (
    arrays,
    cells,
    matrices,
    packed,
    pairs,
    parquet,
    sheets,
    tables,
    tns,
)
from thali.data.readers.header import refuse_title
from thali.data.readers.open import COMPRESSED
from thali.data.readers.options import Options, unreadable
from thali.data.readers.separators import SEPARATORS, separator_of
from thali.data.readers.text import few_fields, split_file
from thali.errors import InvalidValue, MissingLibrary, ThaliError
from thali.sentences import Argument, Load, was_given

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from thali.data.row_part import RowPart

    _Reader = Callable[[Path, Options], BinaryTensor | RowPart]

_LISTS = (".basket", ".dat", ".txt")
_READERS: dict[str, _Reader] = {
    ".npy": arrays.read_npy,
    ".npz": arrays.read_npz,
    ".mtx": matrices.read_mtx,
    ".tns": tns.read_tns,
    ".xlsx": sheets.read_workbook,
    ".xlsm": sheets.read_workbook,
    ".parquet": parquet.read_parquet,
    ".h5ad": cells.read_h5ad,
    ".h5": cells.read_10x,
    packed.ENDING: packed.read_packed,
}
_TEXT = (*SEPARATORS, *_LISTS)
_WITH_ROWS = (".npy", ".npz", ".mtx", ".parquet", ".h5ad", ".h5", packed.ENDING)
_OPTIONS = {
    "layer": ((".h5ad", ".zarr"), "AnnData files"),
    "array": ((".npz",), "files of several arrays (.npz)"),
    "sheet": ((".xlsx", ".xlsm"), "workbooks (.xlsx)"),
    "sep": (("text",), "text"),
    "missing": (("text", ".mtx", ".tns", "folder", ".xlsx", ".xlsm"), "text and workbooks"),
    "encoding": (("text",), "text"),
    "skip": (("text", ".xlsx", ".xlsm"), "text and workbooks"),
    "names": (("text", ".xlsx", ".xlsm", ".parquet"), "text, workbooks and Parquet files"),
    "drop": (("text", ".xlsx", ".xlsm", ".parquet"), "text, workbooks and Parquet files"),
    "ones": (("text", ".xlsx", ".xlsm"), "text and workbooks"),
    "zeros": (("text", ".xlsx", ".xlsm"), "text and workbooks"),
    "modes": (("text", ".xlsx", ".xlsm", ".parquet"), "text, workbooks and Parquet files"),
    "unlisted": (("text", ".tns", ".xlsx", ".xlsm", ".parquet"), "pairs and lists of entries"),
}
"""Options that some formats have, and what to call these formats."""


def read(
    path: str | Path,
    *,
    binarize: float | None = None,
    missing: Sequence[str] = (),
    transpose: bool = False,
    layer: str | None = None,
    kind: str | None = None,
    threads: int | None = None,
    sep: str | None = None,
    array: str | None = None,
    sheet: str | None = None,
    modes: Sequence[str] | None = None,
    unlisted: str = "zero",
    encoding: str | None = None,
    skip: int = 0,
    names: str | None = None,
    drop: Sequence[str] = (),
    ones: Sequence[str] = (),
    zeros: Sequence[str] = (),
) -> BinaryTensor:
    r"""Read a file of zeros, ones and unknown entries.

    Files are read in blocks. Besides the result, which takes at most one bit per entry (two if
    some are unknown), only a few blocks are in memory at a time.

    Parameters
    ----------
    path
        A table or a list of pairs (``.csv``, ``.tsv``), baskets (``.basket``, ``.dat``,
        ``.txt``), a Matrix Market file (``.mtx``) or a FROSTT tensor (``.tns``), each also
        compressed (``.gz``, ``.zst``); an array (``.npy``, ``.npz``), a workbook (``.xlsx``), a
        Parquet file (``.parquet``), AnnData (``.h5ad``, ``.zarr``), 10x Genomics data
        (``.h5``, or the folder), or what ``thali convert`` has written (``.packed``).
    binarize
        Entries above this number are ones and the others zeros. Without it, a file with entries
        other than 0 and 1 is refused.
    missing
        Strings that mark unknown entries of a text file, besides an empty field, NA and NaN.
    transpose
        Exchange rows and columns.
    layer
        Layer of an AnnData file to read; by default X is read.
    kind
        What a text file, workbook or Parquet file holds, if its name and first line do not
        say: ``"table"`` (with column names), ``"matrix"`` (without), ``"pairs"`` or
        ``"baskets"``.
    threads
        Number of threads that check a sparse matrix (``.npz``); None uses all cores that the
        process may use. pyarrow decodes Parquet files with its own thread pool unless
        ``threads=1``. Other formats are read by the calling thread alone.
    sep
        What separates the fields of a text file: a sign such as ``";"``, or ``"tab"`` or
        ``"space"``. By default, it is the sign of which all of its first lines have as many.
    array
        Which array of an ``.npz`` file to read, if it has several.
    sheet
        Which sheet of a workbook to read, if several hold something.
    modes
        The names of the columns, one per mode, that name the rows of an entry, for a text file,
        workbook or Parquet file that lists the entries of a matrix or of a tensor with more
        modes. A column called value, entry, rating or count holds their values; without one,
        every entry that is listed is one. Other columns are not read.
    unlisted
        What entries are that a list (pairs, a list with ``modes``, or ``.tns``) does not name:
        ``"zero"`` or ``"unknown"``.
    encoding
        Encoding of a text file, such as ``"latin-1"``; by default UTF-8, or what its byte order
        mark says.
    skip
        Number of lines, such as a title, above the first line of a text file or sheet to read.
    names
        The column of a table that holds the row names. By default, that is the first column if
        it has no name or holds text.
    drop
        Columns of a table to leave out.
    ones, zeros
        Strings that are ones and zeros, such as ``"ja"`` and ``"nein"``, besides 1, true, yes and
        0, false, no. They must match exactly. With ``zeros=""``, an empty field is a zero.

    Returns
    -------
    tensor
        The labelled tensor. It is packed into bits; a matrix is stored as a list of positions if
        that takes less memory.

    Raises
    ------
    ValueError
        If something is wrong with the file; the message says what, and what to do about it.
    FileNotFoundError
        If the file does not exist.
    MissingLibrary
        If a library that the format needs is not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "visits.csv")
    ...     _ = path.write_text("user,item\nann,tea\nbob,tea\nann,milk\n")
    ...     tensor = read(path)
    >>> tensor
    BinaryTensor(shape=(2, 2), known=4 of 4, ones=3)
    >>> tensor.row_names
    (('ann', 'bob'), ('tea', 'milk'))
    """
    options = Options(
        *(binarize, _texts(missing), layer, kind, threads, sep, array, sheet),
        tuple(modes) if isinstance(modes, list) else modes,  # as errors show it
        *(unlisted, encoding, skip, names, _texts(drop), _texts(ones), _texts(zeros)),
    )
    tensor = _read(Path(path), options, transpose=transpose)
    assert isinstance(tensor, BinaryTensor)  # since no rows were chosen
    return tensor


def has_rows(path: str | Path, *, transpose: bool = False, **_: Any) -> bool:
    """Whether rows of a file can be read, or mapped into memory, without all others."""
    path = Path(path)
    is_folder = path.is_dir()  # of 10x Genomics, or of AnnData
    return not transpose and (is_folder or path.suffix.lower() in _WITH_ROWS)


def read_rows(
    path: str | Path, own: Callable[[int], tuple[int, int]], **given: Any
) -> BinaryTensor | RowPart:
    """Read some rows of a file, or the whole of it if its format does not allow to choose.

    Parameters
    ----------
    path
        The file.
    own
        Returns the first row to read and the row after the last, given the number of rows.
    **given
        Arguments of :func:`read` that are not left out.
    """
    is_transposed = given.pop("transpose", False)
    if isinstance(given.get("modes"), list):
        given["modes"] = tuple(given["modes"])
    for name in ("missing", "drop", "ones", "zeros"):
        given[name] = _texts(given.get(name, ()))
    # Columns of the file are rows of the data then, and all of it must be read.
    options = Options(**given, own=None if is_transposed else own)
    return _read(Path(path), options, transpose=is_transposed)


def _read(path: Path, options: Options, *, transpose: bool) -> BinaryTensor | RowPart:
    """Read a file; what goes wrong is told in a sentence with its name."""
    options.check()
    reader = _reader(path, options)
    try:
        found = reader(path, options)
        return found.transposed() if transpose and isinstance(found, BinaryTensor) else found
    except MissingLibrary:
        raise
    except MemoryError:
        raise InvalidValue(
            "it does not fit into memory",
            remedy="use a larger machine or a part of the rows",
            about=str(path),
        ) from None
    except Exception as error:  # parsers of damaged files raise what they like
        # An array is thresholded by whoever has it, a file while it is read.
        is_advised = isinstance(error, ThaliError) and error.remedy is ADVICE
        raise unreadable(str(path), error, GIVE_THRESHOLD if is_advised else "") from error


def _texts(given: Sequence[str]) -> tuple[str, ...]:
    """Return several texts; one by itself need not be in a list."""
    return (given,) if isinstance(given, str) else tuple(given)


def _reader(path: Path, options: Options) -> _Reader:
    """Choose the reader by the extension, and refuse options that its format does not have."""
    suffix, packing = _extension(path)
    if path.is_dir():
        return _folder_reader(path, suffix, options)
    is_said = options.kind is not None or options.modes is not None
    is_text = suffix in _TEXT or (is_said and suffix not in _READERS)
    if not is_text and (suffix not in _READERS or (packing and suffix not in (".mtx", ".tns"))):
        allowed = ", ".join((*_TEXT, *_READERS, ".zarr"))
        raise InvalidValue(
            f"files ending in {suffix + packing!r} were not expected",
            f"allowed are {allowed}, and text also with {' or '.join(COMPRESSED)}",
            ("convert the file to one of those, or give ", Argument("kind")),
            about=str(path),
        )
    if not path.is_file():
        msg = f"{path}: there is no such file; check the path."
        raise FileNotFoundError(msg)
    kinds: dict[str, tuple[str, ...]] = {
        "text": ("table", "matrix", "pairs", "baskets"),
        ".xlsx": ("table", "matrix", "pairs"),
        ".xlsm": ("table", "matrix", "pairs"),
        ".parquet": ("table", "pairs"),
    }
    form = "text" if is_text else suffix
    _check_options(path, options, form, kinds.get(form, ()))
    return _read_text if is_text else _READERS[suffix]


def _folder_reader(path: Path, suffix: str, options: Options) -> _Reader:
    is_zarr = suffix == ".zarr"
    if not is_zarr and matrices.find_file(path, "matrix.mtx") is None:
        if (path / "header.json").is_file():
            raise InvalidValue(
                "it is the folder of a run, and data are expected",
                remedy=("read the run with ", Load(path), ", or give a file of data"),
                about=str(path),
            )
        raise InvalidValue(
            "it is a folder without a matrix.mtx",
            "allowed are files, folders of 10x Genomics, which have one, and .zarr",
            "give the file in it, or another path",
            about=str(path),
        )
    _check_options(path, options, ".zarr" if is_zarr else "folder", ())
    return cells.read_zarr if is_zarr else matrices.read_folder


def _check_options(path: Path, options: Options, form: str, kinds: Sequence[str]) -> None:
    """Refuse options that a form of file does not have."""
    if options.kind is not None and options.kind not in kinds:
        where = "text, workbooks and Parquet files, as far as it fits"
        raise _refusal(path, "kind", options.kind, where)
    for name, (forms, where) in _OPTIONS.items():
        value = getattr(options, name)
        if value not in (None, (), 0, "zero") and form not in forms:
            raise _refusal(path, name, value, where)


def _refusal(path: Path, name: str, value: object, where: str) -> InvalidValue:
    return InvalidValue(
        was_given(name, value), f"it is for {where}", "leave it out", about=str(path)
    )


def _extension(path: Path) -> tuple[str, str]:
    """Return the ending that says what the file holds, and the one that says how it is packed."""
    suffix = path.suffix.lower()
    if suffix in COMPRESSED:
        return path.with_suffix("").suffix.lower(), suffix
    return suffix, ""


def _read_text(path: Path, options: Options) -> BinaryTensor:
    """Read a table, pairs or baskets, depending on the kind, the extension and the header."""
    suffix, _ = _extension(path)
    kind = options.kind
    if options.modes is None and (kind == "baskets" or (kind is None and suffix in _LISTS)):
        return pairs.read_baskets(path, options)
    file = options.text(path)
    separator = separator_of(file, suffix, options.sep)
    lines = partial(split_file, file, separator)
    refuse_title(lines)
    if options.modes is not None:
        return pairs.read_listed(lines, options)
    if kind is None and pairs.looks_like_pairs(few_fields(lines)):
        kind = "pairs"
    if kind == "pairs":
        return pairs.read_pairs(lines, options)
    return tables.read_table(lines, "blanks" if separator is None else repr(separator), options)
