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
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import thali
from thali.bits import PackedTensor, Unfolding
from thali.errors import InvalidType, RunExists, RunNotFound, TraceDamaged, TraceMismatch
from thali.sentences import Resume, Sample
from thali.sites import VERSION
from thali.trace.disk_store import DiskStore
from thali.trace.files import read_arrays, sync_folder, write
from thali.trace.settings import Settings

if TYPE_CHECKING:
    from typing import BinaryIO

FORMAT = 1


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
    def create(
        cls, folder: str | os.PathLike[str], settings: Settings, tensor: PackedTensor, names: Names
    ) -> Run:
        """Make the folder; raise an error if it exists and is not empty.

        A new folder is filled under a temporary name, and the header is written last, so that
        every run that can be found is complete.
        """
        path = folder_path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunExists(
                f"{path} exists already and is never overwritten",
                remedy=(
                    "if it is a run, ",
                    Resume(path),
                    " continues it; otherwise choose another name or remove it",
                ),
            )
        header = {
            "format": FORMAT,
            "version": thali.__version__,
            "stream": VERSION,
            "digest": digest(tensor),
            "settings": settings.to_json(),
        }
        # An empty folder that the user made is filled in place: it may be a link, or have
        # permissions of its own.
        is_own = path.exists()
        place = path if is_own else path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            place.mkdir(parents=True, exist_ok=is_own)
            write(place / "data.npz", lambda file: _save_data(file, tensor, names))
            for number in range(settings.chains):
                (place / f"chain-{number}").mkdir()
            _write_header(place, header)
            if not is_own:
                place.replace(path)
                sync_folder(path.parent)
        except OSError as error:
            _clear(place, is_own=is_own)
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
        try:
            header = json.loads((path / "header.json").read_text(encoding="utf-8"))
            version, settings = header["format"], header["settings"]
            if version == FORMAT and header.keys() >= {"version", "stream", "digest"}:
                return cls(path, Settings.from_json(settings), header)
        except (ValueError, KeyError, TypeError) as error:
            msg = f"{path / 'header.json'} is damaged ({error}); restore it from a copy."
            raise TraceDamaged(msg) from error
        if version == FORMAT:
            msg = f"{path / 'header.json'} is damaged (not complete); restore it from a copy."
            raise TraceDamaged(msg)
        msg = (
            f"{path} was written by thali {header.get('version')} in format {version}, but this "
            f"is thali {thali.__version__} with format {FORMAT}; read it with that version."
        )
        raise TraceMismatch(msg)

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
        arrays = read_arrays(path)
        try:
            modes, rows = json.loads(arrays["names"].tobytes().decode())
            first = Unfolding(arrays["ones"], arrays.get("known"))
            tensor = PackedTensor.from_unfolding(self.settings.shape, first, threads)
        except (KeyError, ValueError) as error:
            msg = f"{path} is damaged ({error})."
            raise TraceDamaged(msg) from error
        if digest(tensor) != self.header["digest"]:
            msg = (
                f"{path} is not the data of this run (its digest differs); restore it from a copy."
            )
            raise TraceDamaged(msg)
        rows = tuple(None if names is None else tuple(names) for names in rows)
        return tensor, Names(tuple(modes), rows)

    def chain(self, number: int) -> DiskStore:
        """Return the stored draws of one chain."""
        return DiskStore(self.folder / f"chain-{number}", self.settings)


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


def _write_header(folder: Path, header: dict[str, Any]) -> None:
    text = json.dumps(header, indent=2, ensure_ascii=False)
    write(folder / "header.json", lambda file: file.write(text.encode()))
