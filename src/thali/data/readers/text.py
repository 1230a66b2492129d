"""Divide text files into blocks of whole lines, and lines into fields.

All work is done on arrays of bytes, one block at a time, so a file may be larger than the memory.
Lines are numbered from 1, as in text editors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from thali.data.build import memory
from thali.data.readers.open import not_utf8, open_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from numpy.typing import NDArray

    from thali.data.readers.open import TextFile

    _Bytes = NDArray[np.uint8]
    _Index = NDArray[np.int64]

# Bytes per block; the arrays that are computed from a block take about thirty times as much.
_BLOCK_BYTES = 1 << 18
_ARRAYS = 30

# A longer line, in bytes, means that a quote was not closed or that the file is not text.
_MAX_LINE = 1 << 28

_NEWLINE, _QUOTE, _SPACE, _TAB = b'\n" \t'


class Block(NamedTuple):
    """Consecutive whole lines: their bytes, the number of the first, and if any has quotes."""

    data: _Bytes  # ends with a newline
    first_line: int
    has_quotes: bool

    def line(self, position: int) -> int:
        """Return the number of the line that contains the byte at a position."""
        return self.first_line + int(np.count_nonzero(self.data[:position] == _NEWLINE))

    def text(self, start: int, end: int) -> str:
        """Return some bytes as text, with doubled quotes replaced by single ones."""
        text = decode(self.data[start:end].tobytes(), lambda: self.line(int(start)))
        return text.replace('""', '"') if self.has_quotes else text


class Fields(NamedTuple):
    """The fields of a block: where each starts and ends, and how many each line has."""

    block: Block
    starts: _Index
    ends: _Index
    counts: _Index  # number of fields per line, without empty lines

    def texts(self, which: slice) -> list[str]:
        """Return the selected fields as text."""
        starts, ends = self.starts[which], self.ends[which]
        if not len(starts):
            return []
        first = int(starts[0])
        octets = self.block.data[first : int(ends[-1])].tobytes()
        texts = _split_once(octets, starts, ends)
        if texts is not None and not self.block.has_quotes:
            return texts
        begun, ended = (starts - first).tolist(), (ends - first).tolist()
        try:
            texts = [octets[at:end].decode() for at, end in zip(begun, ended, strict=True)]
        except UnicodeDecodeError:  # one by one, to name the line
            both = zip(starts.tolist(), ends.tolist(), strict=True)
            return [self.block.text(start, end) for start, end in both]
        return [text.replace('""', '"') for text in texts] if self.block.has_quotes else texts


def _split_once(octets: bytes, starts: _Index, ends: _Index) -> list[str] | None:
    """Return all fields at once if only one sign lies between them: there may be millions."""
    if len(starts) < 2 or (starts[1:] != ends[:-1] + 1).any():
        return None
    between = octets[int(ends[0] - starts[0])].to_bytes()
    try:
        texts = octets.decode().split(between.decode())
    except UnicodeDecodeError:
        return None
    return texts if len(texts) == len(starts) else None


Lines: TypeAlias = "Callable[[], Iterator[Fields]]"
"""Starts reading a file from its beginning, and yields the fields of some lines at a time."""


def decode(octets: bytes, line: object) -> str:
    """Decode UTF-8 text, or raise an error that names the line.

    ``line`` is the number of the line, or a function that returns it.
    """
    try:
        return octets.decode()
    except UnicodeDecodeError:
        number = line() if callable(line) else line
        raise not_utf8(f"line {number}") from None


def blocks(file: TextFile, *, quotes: bool = False) -> Iterator[Block]:
    """Divide a file into blocks of whole lines.

    With ``quotes``, a newline between quotation marks does not end a line.
    """
    with open_text(file) as opened:
        begun = _after(opened, file.skip)
        yield from blocks_of_open_file(opened, 1 + file.skip, quotes=quotes, begun=begun)


def blocks_of_open_file(
    file: IO[bytes], number: int, *, quotes: bool = False, begun: bytes = b""
) -> Iterator[Block]:
    """Divide the rest of an open file into blocks; its next line has the given number.

    ``begun`` is what was read of it already.
    """
    rest, longest = begun, min(_MAX_LINE, memory() // _ARRAYS)
    while True:
        # Twice as much of a line that did not end yet: so even a very long one is searched for its
        # end only a few times.
        new = _read(file, max(_BLOCK_BYTES, len(rest)))
        data = rest + (new or (b"\n" if rest else b""))
        if not data:
            return
        end, has_quotes = _last_line_end(data, quotes=quotes)
        if end:
            block = Block(np.frombuffer(data, np.uint8, end), number, has_quotes)
            number = block.line(end)
            yield block
        elif not new:
            msg = f"a quote that opens in line {number} or later is never closed; close it"
            raise ValueError(msg)
        if len(data) - end > longest:
            msg = f"line {number} is longer than {longest} bytes; check quotes and line endings"
            raise ValueError(msg)
        if not new:
            return
        rest = data[end:]


def _after(file: IO[bytes], n_lines: int) -> bytes:
    """Read past some lines; return what was read beyond them."""
    data = b""
    for _ in range(n_lines):
        while b"\n" not in data:
            new = _read(file, _BLOCK_BYTES)
            if not new:
                return b""
            data = new if not data else data + new
        data = data.partition(b"\n")[2]
    return data


def _read(file: IO[bytes], n_bytes: int) -> bytes:
    """Read a block of bytes and replace the line endings of any system by newlines."""
    new = file.read(n_bytes)
    if b"\0" in new:
        raise not_utf8("it holds zero bytes and")
    if b"\r" in new:
        if new.endswith(b"\r"):
            new += file.read(1)
        new = new.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return new


def _last_line_end(data: bytes, *, quotes: bool) -> tuple[int, bool]:
    """Return where the last complete line ends, and whether quotation marks were found."""
    if not quotes or b'"' not in data:
        return data.rfind(b"\n") + 1, False
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero((octets == _NEWLINE) & ~is_quoted(octets))
    return (int(ends[-1]) + 1 if len(ends) else 0), True


def is_quoted(octets: _Bytes) -> NDArray[np.bool_]:
    """Return for each byte whether it is between quotation marks.

    That is so if their number so far is odd; a doubled quotation mark closes and opens again.
    """
    return (np.cumsum(octets == _QUOTE, dtype=np.uint8) & 1).view(np.bool_)


def split(block: Block, separator: str) -> Fields:
    """Split lines into fields at a separator; drop blanks around fields, and empty lines."""
    data = block.data
    is_end = data == _NEWLINE
    is_cut = (data == ord(separator)) | is_end
    if block.has_quotes:
        is_cut &= ~is_quoted(data)
    ends = np.flatnonzero(is_cut)
    starts = np.concatenate([[0], ends[:-1] + 1])
    last = np.flatnonzero(is_end[ends])
    starts, ends = _strip(data, starts, ends, separator)
    counts = np.diff(last, prepend=-1)
    is_empty = (counts == 1) & (starts[last] == ends[last])
    if is_empty.any():
        keep = np.ones(len(starts), np.bool_)
        keep[last[is_empty]] = False
        starts, ends, counts = starts[keep], ends[keep], counts[~is_empty]
    if block.has_quotes:
        starts, ends = _unquote(block, starts, ends)
    return Fields(block, starts, ends, counts)


def split_blanks(block: Block) -> Fields:
    """Split lines into fields at blanks, of which there may be several in a row."""
    data = block.data
    is_blank = (data == _SPACE) | (data == _TAB) | (data == _NEWLINE)
    edges = np.flatnonzero(np.diff(is_blank, prepend=True))
    starts, ends = edges[::2], edges[1::2]  # the last byte is a newline
    counts = np.diff(np.searchsorted(starts, np.flatnonzero(data == _NEWLINE)), prepend=0)
    return Fields(block, starts, ends, counts[counts > 0])


def split_file(file: TextFile, separator: str | None) -> Iterator[Fields]:
    """Yield the fields of each block of a file; a separator of None splits lines at blanks.

    Blocks without fields are left out.
    """
    for block in blocks(file, quotes=separator is not None):
        fields = split_blanks(block) if separator is None else split(block, separator)
        if len(fields.counts):
            yield fields


def few_fields(lines: Lines) -> list[str]:
    """Return the fields of the first line that is not empty if there are three or fewer.

    More are the columns of a table; there may be millions.
    """
    for fields in lines():
        n = int(fields.counts[0])
        return fields.texts(slice(0, n)) if n <= 3 else []
    return []


def _strip(data: _Bytes, starts: _Index, ends: _Index, separator: str) -> tuple[_Index, _Index]:
    """Move the starts and ends of fields inwards past blanks."""
    blanks = [_SPACE] if separator == "\t" else [_SPACE, _TAB]
    is_blank = np.isin(data, blanks)
    if is_blank.any():
        while (more := is_blank[starts] & (starts < ends)).any():
            starts = starts + more
        while (more := is_blank[ends - 1] & (starts < ends)).any():
            ends = ends - more
    return starts, ends


def _unquote(block: Block, starts: _Index, ends: _Index) -> tuple[_Index, _Index]:
    """Remove the quotes around fields; refuse a quote that is not around a whole field."""
    data = block.data
    before = np.concatenate([[0], np.cumsum(data == _QUOTE)])
    n_quotes = before[ends] - before[starts]
    is_around = (data[starts] == _QUOTE) & (data[ends - 1] == _QUOTE) & (ends - starts > 1)
    is_bad = (n_quotes > 0) & ~is_around
    for field in np.flatnonzero(is_around & (n_quotes > 2)):
        inner = data[starts[field] + 1 : ends[field] - 1].tobytes()
        is_bad[field] = b'"' in inner.replace(b'""', b"")
    if is_bad.any():
        line = block.line(int(starts[is_bad.argmax()]))
        msg = (
            f"line {line} has a quote within a field; put the whole field between quotes and "
            "double those within"
        )
        raise ValueError(msg)
    return starts + is_around, ends - is_around


def fields_from_texts(texts: list[str]) -> Fields:
    """Return texts as the fields of a block, for values that do not come from a text file."""
    octets = [text.encode() for text in texts]
    ends = np.cumsum([len(part) for part in octets], dtype=np.int64)
    data = np.frombuffer(b"".join(octets) + b"\n", np.uint8)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    return Fields(Block(data, 1, has_quotes=False), starts, ends, np.ones(len(ends), np.int64))


def group_by_length(fields: Fields) -> Iterator[tuple[_Index, NDArray[np.bytes_]]]:
    """Group fields by their length in bytes, and yield the indices and bytes of each group."""
    lengths = fields.ends - fields.starts
    short = np.flatnonzero(np.bincount(np.minimum(lengths, 64)))
    for length in (*short[short < 64], *np.unique(lengths[lengths >= 64])):
        which = np.flatnonzero(lengths == length)
        if length == 0:
            yield which, np.zeros(len(which), "S1")
            continue
        # Groups of equal length keep one long field from enlarging the array for all others.
        places = fields.starts[which, None] + np.arange(length)
        yield which, fields.block.data[places].view(f"S{length}").ravel()
