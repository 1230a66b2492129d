"""Open text files: decompressed, and as UTF-8 whatever their encoding is."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from thali.errors import InvalidValue, require
from thali.sentences import Argument, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import IO

COMPRESSED = (".gz", ".zst")

_MARKS = (  # that of UTF-32 begins like that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_BLOCK = 1 << 16  # bytes that are decoded at a time

# Bytes that are decompressed at a time. Four bytes can stand for 128 kB, so that these can stand
# for 16 MB.
_ZSTD_BLOCK = 512


class TextFile(NamedTuple):
    """A text file, and how to read it."""

    path: Path
    encoding: str | None = None  # None: UTF-8, or what a byte order mark says
    skip: int = 0  # lines at the beginning that are not read


def open_text(text: TextFile) -> IO[bytes]:
    """Open a file for reading as UTF-8 text without a byte order mark.

    It is decompressed if its name ends in .gz or .zst, and recoded if it has another encoding, or
    begins with the byte order mark of UTF-16 or UTF-32.
    """
    path = text.path
    suffix = path.suffix.lower()
    if suffix == ".gz":
        file = cast("io.BufferedReader", gzip.open(path))  # noqa: SIM115 - the caller closes it
    elif suffix == ".zst":
        turn = _decompressed(_zstd())  # a library may be missing, so before the file is opened
        file = io.BufferedReader(_Pieces(path.open("rb"), turn))
    else:
        file = path.open("rb")
    try:
        mark = file.peek(4)[:4]
        if mark.startswith(codecs.BOM_UTF8):
            file.read(len(codecs.BOM_UTF8))
        encodings = (name for start, name in _MARKS if mark.startswith(start))
        encoding = next(encodings, text.encoding)
        if encoding is None:
            return file
        return io.BufferedReader(_Pieces(file, _recoded(encoding)))
    except BaseException:
        file.close()
        raise


class _Pieces(io.RawIOBase):
    """Turns the content of a file into other bytes, piece by piece."""

    def __init__(self, file: IO[bytes], turn: Callable[[IO[bytes]], Iterator[bytes]]) -> None:
        self._file = file
        self._pieces = turn(file)
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        n = min(len(buffer), len(self._piece))
        buffer[:n], self._piece = self._piece[:n], self._piece[n:]
        return n

    def close(self) -> None:
        self._file.close()
        super().close()


def _recoded(encoding: str) -> Callable[[IO[bytes]], Iterator[bytes]]:
    """Return what turns text of an encoding into UTF-8."""

    def turn(file: IO[bytes]) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)()
        more = True
        while more:
            block = file.read(_BLOCK)
            more = bool(block)
            try:
                yield decoder.decode(block, final=not more).encode()
            except UnicodeDecodeError:
                raise InvalidValue(
                    f"it is not {encoding.upper()} text throughout",
                    remedy=("give another ", Argument("encoding"), ", or save it as UTF-8"),
                ) from None

    return turn


def not_utf8(what: str) -> InvalidValue:
    """Return the error for text of another encoding."""
    return InvalidValue(
        f"{what} is no UTF-8 text",
        remedy=(
            *(
                "give its encoding, such as ",
                Setting("encoding", "latin-1"),
                " for older Western ",
            ),
            "European text, or save the file as UTF-8",
        ),
    )


def _zstd() -> Callable[[], Any]:
    """Return what makes a decompressor: of Python, from 3.14 on, or of the package zstandard."""
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdDecompressor  # noqa: PLC0415 - older versions lack it

        return ZstdDecompressor
    zstandard = require("zstandard", "io")
    return lambda: zstandard.ZstdDecompressor().decompressobj()


def _decompressed(new: Callable[[], Any]) -> Callable[[IO[bytes]], Iterator[bytes]]:
    """Return what decompresses all frames of a file."""

    def turn(file: IO[bytes]) -> Iterator[bytes]:
        frame, rest = new(), file.read(_ZSTD_BLOCK)
        while rest:
            yield frame.decompress(rest)
            is_over = bool(frame.eof)
            rest = (frame.unused_data if is_over else b"") or file.read(_ZSTD_BLOCK)
            if is_over and rest:
                frame = new()
            elif not rest and not is_over:
                msg = "it ends in the middle of compressed data"
                raise EOFError(msg)

    return turn
