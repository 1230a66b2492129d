"""Write files and folders that get their name only when they are complete."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from thali.cli.messages import tell
from thali.errors import ThaliError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pandas as pd

    from thali.posterior import Posterior


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raise an error if the file cannot be written, before anything is computed."""
    if os.path.lexists(path) and not force:
        msg = f"{path} exists already; choose another name, or replace it with --force."
        raise FileExistsError(msg)
    if path.is_dir():
        msg = f"{path} is a folder, but a file should be written; choose another name."
        raise IsADirectoryError(msg)
    _need_parent(path)


def refuse_page(path: Path, option: str, **how: Any) -> None:
    """Raise an error if the HTML page cannot be written, before anything is computed."""
    if path.suffix.lower() not in (".html", ".htm"):
        msg = f"{option} ends in {path.suffix!r}; allowed is .html."
        raise click.UsageError(msg)
    refuse_existing(path, **how)


def write_page(
    posterior: Posterior, path: Path, *, title: str | None = None, force: bool = False
) -> str:
    """Write the report; return a message for the user."""
    write = import_module("thali.report").write  # --help must stay fast
    with whole_file(path, force=force) as temporary:
        write(posterior, temporary, title=title)
    return f"{path} is written; open it in a browser."


def write_tables(tables: dict[str, pd.DataFrame], folder: Path) -> None:
    """Write tables as CSV files in which all names can be seen and none is a formula."""
    names = import_module("thali.posterior.visible")

    def safe(name: Any) -> Any:
        return names.in_spreadsheet(names.visible(name)) if isinstance(name, str) else name

    for name, table in tables.items():
        index = table.index.map(safe).rename(safe(table.index.name))
        table.set_axis(index).to_csv(folder / f"{name}.csv")


def put_aside(path: Path) -> Path | None:
    """Rename a stored run that is to be replaced; raise an error if it is something else.

    Returns its new path, or None if nothing is there.
    """
    if not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return None
    if path.is_symlink() or not (path / "header.json").is_file():
        msg = f"{path} is not a run, and --force replaces only runs; choose another name."
        raise FileExistsError(msg)
    aside = path.with_name(f".{path.name}.{_unique()}.old")
    only_writer = import_module("thali.trace.files").only_writer  # --help must stay fast
    with only_writer(path):  # raises an error if another process writes to it
        path.replace(aside)
    return aside


def keep_one(path: Path, aside: Path) -> None:
    """Remove the run that was put aside if the new one has a draw; otherwise put it back."""
    if any(path.glob("chain-*/draws-*.npz")):
        shutil.rmtree(aside)
        return
    try:
        if path.exists():
            only_writer = import_module("thali.trace.files").only_writer
            with only_writer(path):
                shutil.rmtree(path)
        aside.replace(path)
    except (OSError, ThaliError):  # somebody else writes to a run of this name
        tell(f"the run that was in {path} is now in {aside}; move it back.")


@contextmanager
def whole_file(path: Path, *, force: bool, n_bytes: int = 0) -> Iterator[Path]:
    """Yield a temporary path to write to; it is renamed to ``path`` when it is complete.

    There must be room for ``n_bytes``.
    """
    refuse_existing(path, force=force)
    # The ending is kept, because many libraries choose the format by it.
    temporary = path.with_name(f".{path.stem}.{_unique()}.tmp{path.suffix}")
    try:
        with _telling(path):
            temporary.open("xb").close()  # its error is clearer than those of libraries
            disk = shutil.disk_usage(temporary)
            if disk.total > 0 and n_bytes > disk.free:  # some file systems do not tell
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            yield temporary
            temporary.replace(path)
    finally:
        with suppress(OSError):  # a folder that cannot be written
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield a temporary folder to fill; it is renamed to ``path`` when it is complete.

    If ``path`` exists, the files are moved into it. It must be empty, unless ``force`` allows them
    to replace files of the same name.
    """
    if os.path.lexists(path) and not path.is_dir():
        msg = f"{path} is a file, but a folder should be written; choose another name."
        raise NotADirectoryError(msg)
    if path.is_dir() and any(path.iterdir()) and not force:
        msg = f"{path} is not empty; choose another folder, or write into it with --force."
        raise FileExistsError(msg)
    _need_parent(path)
    temporary = path.with_name(f".{path.name}.{_unique()}.tmp")
    try:
        with _telling(path):
            temporary.mkdir()
            yield temporary
            if not path.exists():
                temporary.replace(path)
                return
            for part in sorted(temporary.iterdir()):
                part.replace(path / part.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unique() -> str:
    """Return a part of a name that no other process or thread uses."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def _need_parent(path: Path) -> None:
    if not path.absolute().parent.is_dir():
        msg = f"{path} cannot be written: there is no folder {path.parent}; make it first."
        raise FileNotFoundError(msg)
    if not os.access(path.absolute().parent, os.W_OK):
        msg = (
            f"{path} cannot be written: nothing can be written to {path.absolute().parent}; "
            "choose another folder."
        )
        raise PermissionError(msg)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        msg = (
            f"{path} could not be written ({reason}); make room, or choose a folder that can be "
            "written."
        )
        raise OSError(error.errno, msg) from error
