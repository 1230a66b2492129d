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
        with temporary.open("wb") as file:
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
    """Write arrays to an npz file; return the SHA-256 digest of the file."""
    buffer = BytesIO()
    np.savez(buffer, **arrays)
    write(path, lambda file: file.write(buffer.getbuffer()))
    return sha256(buffer.getbuffer()).digest()


def read_arrays(path: Path, digest: bytes | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of an npz file; raise an error if it is missing or damaged."""
    try:
        content = path.read_bytes()
        if digest is not None and sha256(content).digest() != digest:
            msg = f"{path} is not what was written (it was cut off or altered)."
            raise TraceDamaged(msg)
        with np.load(BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        msg = f"{path} is missing."
        raise TraceDamaged(msg) from None
    except (zipfile.BadZipFile, ValueError, EOFError, KeyError) as error:
        if isinstance(error, TraceDamaged):
            raise
        msg = f"{path} is damaged ({error})."
        raise TraceDamaged(msg) from error


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
