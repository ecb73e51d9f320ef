"""Hangar's repositories: their files, and in their databases the records of samples.

A commit of Hangar 0.5 is a string of ``key value`` pairs joined by ``$``, compressed by Blosc.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from xarray_n5.codecs.blosc import Blosc
from xarray_n5.errors import MetadataError, MissingPackageError, NodeNotFoundError, PathError
from xarray_n5.stores.redaction import redact_urls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    LocalPath = str | os.PathLike[str]

STAGED = "STAGED"
"""The name of samples that are added and not committed."""

_LOCK = Lock()
"""A process can open an LMDB database only once."""

_HEADER = 16
"""The size of Blosc's header, whose last four bytes are the size of the frame."""

_SMALL, _RATIO = 1 << 24, 64
"""The maximum size of a decompressed commit: 16 MiB, or 64 times the compressed size."""


def read_records(repo: str | os.PathLike[str], ref: str) -> dict[str, dict[int | str, str]]:
    """Return the records of a commit's samples, by column and by sample.

    Parameters and errors are those of :func:`xarray_n5.hangar.hangar_records`.
    """
    folder = Path(repo) / ".hangar"
    if not (folder / "hash.lmdb").exists():
        raise NodeNotFoundError(str(repo), ".hangar/hash.lmdb", "Hangar repository")
    with _LOCK, ExitStack() as stack:
        entries = _staged(folder, stack) if ref == STAGED else _committed(folder, ref, stack)
        known = [_begin(folder / name, stack) for name in ("hash.lmdb", "stage_hash.lmdb")]
        found: dict[str, dict[int | str, str]] = {}
        for column, sample, digest in entries:
            record = next(filter(None, (each.get(b"h:" + digest) for each in known)), None)
            if record is None:
                where = f"{folder / 'hash.lmdb'}: sample {sample!r} of column {column!r}"
                raise MetadataError(
                    f"{where} has the digest {digest.decode()}, which has no record"
                )
            found.setdefault(column, {})[sample] = record.decode()
    return {column: dict(sorted(of.items(), key=_order)) for column, of in found.items()}


def _begin(path: Path, stack: ExitStack) -> Any:
    """Open a database for reading, and return a transaction."""
    try:
        import lmdb
    except ImportError as error:
        raise MissingPackageError("Hangar's databases", "hangar", error) from error
    try:
        database = lmdb.open(str(path), subdir=False, readonly=True, lock=False, create=False)
    except lmdb.Error as error:
        if "already open" in str(error):
            hint = "close the repository in this process, or read its records in another"
            raise MetadataError(f"{path}: this process has it open; {hint}") from error
        raise MetadataError(f"{path}: the database cannot be read: {error}") from error
    stack.callback(database.close)
    return stack.enter_context(database.begin())


def _staged(folder: Path, stack: ExitStack) -> list[tuple[str, int | str, bytes]]:
    pairs = _begin(folder / "stage_ref.lmdb", stack).cursor()
    return list(_samples(pairs))


def _committed(folder: Path, ref: str, stack: ExitStack) -> list[tuple[str, int | str, bytes]]:
    branches = _begin(folder / "branch.lmdb", stack)
    name = branches.get(b"head") if ref == "HEAD" else f"branch:{ref}".encode()
    commit = branches.get(name or b"") or ref.encode()
    blob = _begin(folder / "ref.lmdb", stack).get(commit + b":ref")
    if blob is None:
        raise NodeNotFoundError(str(folder.parent), ref, "branch or commit")
    text = _decompress(blob, f"{folder / 'ref.lmdb'}: commit {commit.decode()}")
    return list(_samples(entry.partition(b" ")[::2] for entry in text.split(b"$")))


def _decompress(blob: bytes, where: str) -> bytes:
    if len(blob) < _HEADER or int.from_bytes(blob[12:_HEADER], "little") != len(blob):
        raise MetadataError(f"{where}: {len(blob)} bytes are not a valid Blosc frame")
    try:
        return bytes(Blosc().decode(blob, max(_SMALL, _RATIO * len(blob))))
    except (RuntimeError, ValueError, EOFError, NotImplementedError) as error:
        raise MetadataError(f"{where}: {error}") from error


def _samples(pairs: Any) -> Iterator[tuple[str, int | str, bytes]]:
    """Yield column, name and digest of each sample, flat or part of a nested one."""
    for key, value in pairs:
        match bytes(key).decode("utf-8", "replace").split(":"):
            case ["f", column, sample]:
                yield column, _name(sample), bytes(value)
            case ["n", column, sample, part]:
                yield column, f"{_name(sample)}/{_name(part)}", bytes(value)


def _name(key: str) -> int | str:
    return int(key[1:]) if key.startswith("#") and key[1:].isdecimal() else key


def _order(item: tuple[int | str, str]) -> tuple[bool, int, str]:
    """Sort integers before strings."""
    key = item[0]
    return (False, key, "") if isinstance(key, int) else (True, 0, key)


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
