"""Write files that exist only if they are complete, and lock a run against other writers."""

from __future__ import annotations

import logging
import os
import zipfile
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from thali.errors import TraceDamaged, TraceMismatch, not_written
from thali.sentences import Load, Resume
from thali.trace.seal import check_archive, seal_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from numpy.typing import NDArray

log = logging.getLogger("thali")

try:
    import fcntl
except ImportError:  # Windows: a second writer of the same run is not noticed
    fcntl = None  # type: ignore[assignment]


def write(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file under a temporary name, flush it to the disk, then rename it.

    At any time, the path holds either the complete old file or the complete new one.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("w+b") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise not_written(
            error,
            f"{path} could not be written",
            (
                "make room or choose another folder; what was written before is safe, and ",
                Resume(),
                " continues from there",
            ),
        ) from error


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> bytes:
    """Write arrays to a sealed npz file; return the SHA-256 digest of the file."""
    buffer = BytesIO()
    np.savez(buffer, **arrays)
    seal_archive(buffer)
    write(path, lambda file: file.write(buffer.getbuffer()))
    return sha256(buffer.getbuffer()).digest()


def read_arrays(
    path: Path, digest: bytes | None = None, *, needs_seal: bool = False
) -> dict[str, NDArray[Any]]:
    """Read the arrays of an npz file; raise an error if it is missing or damaged.

    Parameters
    ----------
    path
        Of the file.
    digest
        SHA-256 digest that the file must have, if it is known.
    needs_seal
        Whether to refuse a file without a seal, as earlier versions wrote it.
    """
    try:
        with path.open("rb") as file:
            is_whole, found = check_archive(file)
            is_altered = is_whole is False or (digest is not None and found != digest)
            arrays = None if is_altered or (needs_seal and not is_whole) else _arrays(file)
    except FileNotFoundError:
        msg = f"{path} is missing."
        raise TraceDamaged(msg) from None
    except OSError as error:
        msg = f"{path} could not be read ({error.strerror or error})."
        raise TraceDamaged(msg) from error
    except Exception as error:  # libraries raise what they like on altered files
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        msg = f"{path} is damaged ({reason.rstrip('.')})."
        raise TraceDamaged(msg) from error
    if arrays is None:
        reason = (
            "not what was written (it was cut off or altered)"
            if is_altered
            else "damaged (the digest at its end is missing)"
        )
        msg = f"{path} is {reason}."
        raise TraceDamaged(msg)
    return arrays


def _arrays(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Read all arrays of an archive, which stores them as they are.

    A compressed array could be far larger than the file that asks for it.
    """
    with zipfile.ZipFile(file) as archive:
        if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
            msg = "one of its arrays is compressed"
            raise ValueError(msg)
    file.seek(0)
    with np.load(file, allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files}
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        msg = "one of its parts is no array"
        raise ValueError(msg)
    return arrays


def sync_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to the disk, if the system supports it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a run while this one writes.

    The lock also ends when the process that holds it ends.
    """
    if fcntl is None:
        yield
        return
    try:
        file = (folder / "lock").open("w")
    except OSError as error:
        raise not_written(
            error,
            f"{folder} cannot be written",
            ("copy it to a folder that can be written, or only read it with ", Load(folder)),
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"{folder} is being written by another process; wait until it ends, or stop it."
            raise TraceMismatch(msg) from None
        except OSError:  # a file system without locks
            log.warning("%s cannot be locked; do not write to it from two processes", folder)
        yield
