"""A run on disk: a folder with settings, data and draws that survives a power cut.

::

    run/
    ├── header.json          settings, seed, version, digest of the data
    ├── data.npz             the packed data, with the names of modes and rows
    └── chain-0/
        ├── draws-00000000.npz   consecutive draws, named by the number of the first
        └── state.npz            present state of the chain, list of the valid files of draws
                                 with their digests, the seconds of sampling, and what the
                                 start of the chain reached

A checkpoint first writes the draws since the last checkpoint, then the state. A file of draws is
valid only if the state lists it; otherwise it is ignored, and the next checkpoint overwrites it.
(Before the first state is written, the first file of draws is valid by itself.)

Every file ends with a digest of all its bytes (:mod:`thali.trace.seal`). Runs of format 1, which
earlier versions wrote, have none; they are read and continued, and new files get theirs.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from contextlib import nullcontext
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import thali
from thali.bits import PackedTensor, Unfolding
from thali.checks import is_integer
from thali.errors import InvalidType, RunExists, RunNotFound, TraceDamaged, TraceMismatch
from thali.sentences import Replace, Resume, Sample
from thali.sites import VERSION
from thali.trace.disk_store import DiskStore
from thali.trace.files import only_writer, read_arrays, sync_folder, write
from thali.trace.seal import check_text, seal_archive, sealed_text
from thali.trace.settings import Settings

if TYPE_CHECKING:
    from typing import BinaryIO

FORMAT = 2

_WITHOUT_SEALS = 1  # the format of earlier versions

_MOST_HEADER = 1 << 24  # bytes; a header is some kilobytes long


class Names(NamedTuple):
    """Names of the modes and of their rows."""

    modes: tuple[str, ...]
    rows: tuple[tuple[str, ...] | None, ...]


class Run:
    """A folder with one run: its settings, data and chains."""

    def __init__(self, folder: Path, settings: Settings, header: dict[str, Any]) -> None:
        self.folder = folder
        self.settings = settings
        self.header = header

    @classmethod
    def require_new(cls, folder: str | os.PathLike[str]) -> Path:
        """Return the path of a folder; raise an error if it exists and is not empty."""
        path = folder_path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise _exists(path)
        return path

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], settings: Settings, tensor: PackedTensor, names: Names
    ) -> Run:
        """Make the folder; raise an error if it exists and is not empty.

        A new folder is filled under a temporary name, and the header is written last, so that
        every run that can be found is complete.
        """
        path = cls.require_new(folder)
        header = {
            "format": FORMAT,
            "version": thali.__version__,
            "stream": VERSION,
            "digest": digest(tensor),
            "settings": settings.to_json(),
        }
        # An empty folder that the user made is filled in place: it may be a link, or have
        # permissions of its own. Two threads may make the same run: one of them comes first.
        is_own = path.exists()
        unique = f"{os.getpid()}-{secrets.token_hex(4)}"
        place = path if is_own else path.with_name(f".{path.name}.{unique}.tmp")
        try:
            place.mkdir(parents=True, exist_ok=is_own)
            with only_writer(place) if is_own else nullcontext():
                if is_own and any(part.name != "lock" for part in place.iterdir()):
                    raise _exists(path)
                try:
                    _fill(place, header, tensor, names)
                    if not is_own:
                        place.replace(path)
                        sync_folder(path.parent)
                except OSError:
                    _clear(place, is_own=is_own)
                    raise
        except RunExists:
            raise
        except OSError as error:
            if not is_own and path.is_dir() and any(path.iterdir()):
                raise _exists(path) from error
            reason = error.strerror or error
            msg = f"{path} could not be made ({reason}); choose a folder that can be written."
            raise OSError(error.errno, msg) from error
        return cls(path, settings, header)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Run:
        """Read the header of a run."""
        path = folder_path(folder)
        if not (path / "header.json").is_file():
            reason = "has no header.json" if path.is_dir() else "is not a folder"
            raise RunNotFound(
                f"{path} {reason}",
                remedy=("give the folder that ", Sample(is_kept=True), " made"),
            )
        header = _read_header(path / "header.json")
        if header["format"] not in (FORMAT, _WITHOUT_SEALS):
            msg = (
                f"{path} was written by thali {header.get('version')} in format "
                f"{header['format']}, but this is thali {thali.__version__} with format {FORMAT}; "
                "read it with that version."
            )
            raise TraceMismatch(msg)
        try:
            is_complete = isinstance(header["version"], str) and isinstance(header["digest"], str)
            if is_complete and is_integer(header["stream"]):
                return cls(path, Settings.from_json(header["settings"]), header)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise _damaged_header(path / "header.json", error) from error
        raise _damaged_header(path / "header.json", "not complete")

    @property
    def needs_seals(self) -> bool:
        """Whether every file must have a digest at its end."""
        return bool(self.header["format"] != _WITHOUT_SEALS)

    def extend(self, draws: int) -> Run:
        """Return the run with another number of draws per chain, and store that number."""
        settings = replace(self.settings, draws=draws)
        n_drawn = min(len(self.chain(number)) for number in range(self.settings.chains))
        header = self.header | {"settings": settings.to_json(), "extended_from": n_drawn}
        _write_header(self.folder, header)
        return Run(self.folder, settings, header)

    @property
    def extended_from(self) -> int | None:
        """Draws per chain when the run was last given more to take; None if it never was."""
        return self.header.get("extended_from")

    def data(self, threads: int | None = None) -> tuple[PackedTensor, Names]:
        """Read the packed data, and the names of their modes and rows."""
        path = self.folder / "data.npz"
        try:
            arrays = read_arrays(path, needs_seal=self.needs_seals)
        except TraceDamaged as error:  # data cannot be computed again
            raise TraceDamaged(str(error).rstrip("."), remedy="restore it from a copy") from error
        try:
            names = _names(json.loads(arrays["names"].tobytes().decode()), self.settings.shape)
            first = Unfolding(arrays["ones"], arrays.get("known"))
            if any(words is not None and words.dtype != np.uint64 for words in first):
                msg = "its entries are not packed"
                raise ValueError(msg)  # noqa: TRY301 - all damage is told alike
            tensor = PackedTensor.from_unfolding(self.settings.shape, first, threads)
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            reason = " ".join(str(error).split())[:200].rstrip(".")
            msg = f"{path} is damaged ({reason}); restore it from a copy."
            raise TraceDamaged(msg) from error
        if digest(tensor) != self.header["digest"]:
            msg = (
                f"{path} is not the data of this run (its digest differs); restore it from a copy."
            )
            raise TraceDamaged(msg)
        return tensor, names

    def chain(self, number: int) -> DiskStore:
        """Return the stored draws of one chain."""
        folder = self.folder / f"chain-{number}"
        return DiskStore(folder, self.settings, needs_seals=self.needs_seals)


def folder_path(folder: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a folder, which stays valid in any working directory."""
    try:
        return Path(folder).expanduser().absolute()
    except (TypeError, RuntimeError) as error:
        raise InvalidType(
            f"{folder!r} was given", f"the path of a folder is needed, such as 'run' ({error})"
        ) from None


def digest(tensor: PackedTensor) -> str:
    """Return a digest that identifies data by shape, ones and known entries."""
    total = sha256(repr(tuple(map(int, tensor.shape))).encode())
    first = tensor.unfoldings[0]
    for words in (first.ones, first.known):
        total.update(b"|" if words is None else np.ascontiguousarray(words, "<u8").data)
    return total.hexdigest()


def _exists(path: Path) -> RunExists:
    return RunExists(
        f"{path} exists already",
        remedy=(
            "if it is a run, ",
            Resume(path),
            " continues it; to start anew, choose another name or ",
            Replace(),
        ),
    )


def _fill(place: Path, header: dict[str, Any], tensor: PackedTensor, names: Names) -> None:
    """Write the data and the folders of the chains, and the header last."""
    write(place / "data.npz", lambda file: _save_data(file, tensor, names))
    for number in range(header["settings"]["chains"]):
        (place / f"chain-{number}").mkdir()
    _write_header(place, header)


def _clear(place: Path, *, is_own: bool) -> None:
    """Remove everything of a run that could not be made; a folder that the user made stays."""
    if not is_own:
        shutil.rmtree(place, ignore_errors=True)
        return
    for part in place.iterdir():
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def _save_data(file: BinaryIO, tensor: PackedTensor, names: Names) -> None:
    first = tensor.unfoldings[0]
    arrays: dict[str, Any] = {
        "ones": first.ones,
        "names": np.frombuffer(json.dumps(names).encode(), np.uint8),
    }
    if first.known is not None:
        arrays["known"] = first.known
    np.savez(file, **arrays)
    seal_archive(file)


def _names(plain: Any, shape: tuple[int, ...]) -> Names:
    """Return the names of modes and rows, which a file holds as lists."""
    modes, rows = plain
    listed = [modes, *(names for names in rows if names is not None)]
    are_texts = all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in listed
    )
    lengths = [n if names is None else len(names) for n, names in zip(shape, rows, strict=True)]
    if not are_texts or len(set(modes)) != len(shape) or lengths != list(shape):
        msg = "its names do not belong to these data"
        raise ValueError(msg)
    return Names(tuple(modes), tuple(None if names is None else tuple(names) for names in rows))


def _read_header(path: Path) -> dict[str, Any]:
    """Read the header of a run, of any format; raise an error if it is damaged."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_HEADER)
        is_whole = check_text(content)
        header = json.loads(content) if is_whole is not False else {}
    except OSError as error:
        raise _damaged_header(path, error.strerror or error) from error
    except (ValueError, RecursionError) as error:
        raise _damaged_header(path, error) from error
    if is_whole is False:
        raise _damaged_header(path, "it was cut off or altered")
    if not isinstance(header, dict) or not is_integer(header.get("format")):
        raise _damaged_header(path, "not complete")
    if is_whole is None and header["format"] == FORMAT:
        raise _damaged_header(path, "the digest at its end is missing")
    return header


def _damaged_header(path: Path, reason: object) -> TraceDamaged:
    said = " ".join(str(reason).split())[:200].rstrip(".")
    return TraceDamaged(f"{path} is damaged ({said}); restore it from a copy.")


def _write_header(folder: Path, header: dict[str, Any]) -> None:
    plain = {name: value for name, value in header.items() if name != "sha256"}
    content = sealed_text(json.dumps(plain, indent=2, ensure_ascii=False))
    write(folder / "header.json", lambda file: file.write(content))
