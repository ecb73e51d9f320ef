"""Where the files of Hangar's repositories lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from xarray_n5.errors import NodeNotFoundError, PathError
from xarray_n5.stores.redaction import hide

if TYPE_CHECKING:
    from collections.abc import Iterable

    Place = str | os.PathLike[str]


def find_files(places: Place | Iterable[Place]) -> list[str]:
    """Return the HDF5 files at one place, or at several.

    Parameters
    ----------
    places
        Files and folders: of a folder, those in it or in the folders that it holds (of a
        repository, those in its ``.hangar/data``), in order of their last change.

    Raises
    ------
    NodeNotFoundError
        If there are none.
    PathError
        If a place is not on this machine's file systems, or a file in a folder is a symbolic link
        that leads out of the folder, or out of its repository.
    """
    several = [places] if isinstance(places, (str, os.PathLike)) else list(places)
    found = [file for place in several for file in _at(place)]
    if not found:
        raise NodeNotFoundError(str(places), "", "HDF5 file")
    return found


def _at(place: Place) -> list[str]:
    text = os.fspath(place)
    if "://" in text:
        raise PathError(
            f"{hide(text)!r}: Hangar's files are read from local paths only; copy them first"
        )
    path = Path(text).absolute()
    if not path.is_dir():
        if not path.exists():
            raise NodeNotFoundError(text, "", "HDF5 file or folder")
        return [str(path)]
    inside = path / ".hangar" if path.name != ".hangar" else path
    folder = inside / "data" if (inside / "data").is_dir() else path
    files = [*folder.glob("*.hdf5"), *folder.glob("*/*.hdf5")]
    if not files:
        hint = "files called *.hdf5 are looked for in it, and in the folders that it holds"
        raise NodeNotFoundError(text, "", "HDF5 file", hint)
    root = _root_of(folder)
    for file in files:
        _check_inside(file, root)
    return [str(file) for file in sorted(files, key=_age)]


def _root_of(folder: Path) -> Path:
    """Return the repository that a folder is in, else the folder: Hangar links within it."""
    return next((each for each in (folder, *folder.parents) if each.name == ".hangar"), folder)


def _check_inside(file: Path, root: Path) -> None:
    """Raise where a file in a folder is a symbolic link that leads out of it, or to nothing."""
    if not file.exists():
        raise NodeNotFoundError(str(file), "", "HDF5 file", "it is a link to nothing; remove it")
    if not file.resolve().is_relative_to(root.resolve()):
        raise PathError(
            f"{file}: it is a symbolic link to {file.resolve()}, out of {root}; if you trust it, "
            "give that file itself"
        )


def _age(file: Path) -> tuple[int, str]:
    return file.stat().st_mtime_ns, file.name
