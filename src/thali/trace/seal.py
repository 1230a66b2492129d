"""A digest at the end of a file, over all bytes before it: what is altered later is noticed.

A digest beside a file could be lost or written without it, so every file carries its own. An
archive of arrays has it in the comment at its end, and a header in its last field; other programs
read both as before.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

_HEX = 64  # characters of a digest
_MARK = b"sha256:"  # what comes before the digest of an archive
_FIELD, _END = b',\n  "sha256": "', b'"\n}'  # what is around the digest of a header
_BLOCK = 1 << 20  # bytes that are read at a time


def seal_archive(file: IO[bytes]) -> None:
    """Write the seal at the end of a zip archive, as its comment; the archive has none yet."""
    file.seek(-2, 2)  # the last two bytes are the length of the comment
    file.write((len(_MARK) + _HEX).to_bytes(2, "little") + _MARK)
    total = sha256()
    for block in _blocks(file, file.tell()):
        total.update(block)
    file.seek(0, 2)
    file.write(total.hexdigest().encode())


def check_archive(file: IO[bytes]) -> tuple[bool | None, bytes]:
    """Compare an archive with its seal.

    Returns
    -------
    is_whole
        Whether it is what was written; None if it has no seal.
    digest
        SHA-256 digest of the whole file.
    """
    n_sealed = max(0, file.seek(0, 2) - _HEX)
    total, last = sha256(), b""
    for block in _blocks(file, n_sealed):
        total.update(block)
        last = (last + block)[-len(_MARK) :]
    found, end = total.hexdigest().encode(), file.read()
    total.update(end)
    return found == end if last == _MARK else None, total.digest()


def sealed_text(text: str) -> bytes:
    r"""Return a JSON object, printed with an indent, with the digest as its last field.

    Examples
    --------
    >>> content = sealed_text('{\n  "format": 2\n}')
    >>> check_text(content), check_text(content.replace(b"2", b"3", 1)), check_text(b"{}")
    (True, False, None)
    """
    body = text.encode().removesuffix(b"\n}") + _FIELD
    return body + sha256(body).hexdigest().encode() + _END


def check_text(content: bytes) -> bool | None:
    """Return whether a sealed text is what was written; None if it has no seal."""
    at = len(content) - _HEX - len(_END)
    if at < 0 or not content[:at].endswith(_FIELD):
        return None
    return content[at:] == sha256(content[:at]).hexdigest().encode() + _END


def _blocks(file: IO[bytes], stop: int) -> Iterator[bytes]:
    """Read a file from its beginning up to a position."""
    file.seek(0)
    while file.tell() < stop and (block := file.read(min(_BLOCK, stop - file.tell()))):
        yield block
