"""Find the files of Hangar's repositories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from xarray_n5.errors import NodeNotFoundError, PathError
from xarray_n5.stores.redaction import redact_urls

if TYPE_CHECKING:
    from collections.abc import Iterable

    LocalPath = str | os.PathLike[str]


def find_files(paths: LocalPath | Iterable[LocalPath]) -> list[str]:
    """Return the HDF5 files at one path, or at several.

    Parameters
    ----------
    paths
        Files and folders. For a folder, the files in it and in its subfolders; for a repository,
        those in ``.hangar/data``; in order of their last change.

    Raises
    ------
    NodeNotFoundError
        If there are none.
    PathError
        If a path is a URL, or a file in a folder is a symbolic link that leads out of the folder
        or of its repository.
    """
    several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found = [file for path in several for file in _files_at(path)]
    if not found:
        raise NodeNotFoundError(str(paths), "", "HDF5 file")
    return found


def _files_at(given: LocalPath) -> list[str]:
    text = os.fspath(given)
    if "://" in text:
        raise PathError(
            f"{redact_urls(text)!r}: Hangar's files can only be read from local paths; copy them "
            "first"
        )
    path = Path(text).absolute()
    if not path.is_dir():
        if not path.exists():
            raise NodeNotFoundError(text, "", "HDF5 file or folder")
        return [str(path)]
    data = (path if path.name == ".hangar" else path / ".hangar") / "data"
    folder = data if data.is_dir() else path
    files = [*folder.glob("*.hdf5"), *folder.glob("*/*.hdf5")]
    if not files:
        hint = "expected files called *.hdf5 in it or in its subfolders"
        raise NodeNotFoundError(text, "", "HDF5 file", hint)
    root = _root_of(folder)
    for file in files:
        _check_inside(file, root)
    return [str(file) for file in sorted(files, key=_age)]


def _root_of(folder: Path) -> Path:
    """Return the repository that contains a folder, else the folder: Hangar links within it."""
    return next((each for each in (folder, *folder.parents) if each.name == ".hangar"), folder)


def _check_inside(file: Path, root: Path) -> None:
    """Raise if a file is a symbolic link out of `root`, or a broken one."""
    if not file.exists():
        raise NodeNotFoundError(str(file), "", "HDF5 file", "it is a broken link; remove it")
    if not file.resolve().is_relative_to(root.resolve()):
        raise PathError(
            f"{file}: it is a symbolic link to {file.resolve()}, out of {root}; if you trust it, "
            "pass that file itself"
        )


def _age(file: Path) -> tuple[int, str]:
    return file.stat().st_mtime_ns, file.name
