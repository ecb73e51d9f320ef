"""What fsspec's filesystems list, each in its own way: names, files with their sizes and times."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from xarray_n5.stores.filesystems import is_async, is_http
from xarray_n5.stores.object_info import ObjectInfo
from xarray_n5.stores.redaction import hide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fsspec import AbstractFileSystem

    from xarray_n5.stores.protocol import Listing
    from xarray_n5.stores.requests_ import Requests


def forget(fs: AbstractFileSystem, path: str, *, below: bool = False) -> None:
    """Make a filesystem ask again what is at a path: another client may have written there.

    Some hold listings for good, and answer from that of the folder whether there is a file in it.
    """
    fs.invalidate_cache(path)
    if parent := path.rstrip("/").rpartition("/")[0]:
        fs.invalidate_cache(parent)
    if below:
        start = f"{path.strip('/')}/"
        for known in list(getattr(fs, "dircache", None) or ()):
            if str(known).lstrip("/").startswith(start):
                fs.invalidate_cache(known)


def names(fs: AbstractFileSystem, path: str, entries: Iterable[Mapping[str, Any]]) -> Listing:
    """Return the names of directories and of files in what a filesystem lists at a path."""
    folders: set[str] = set()
    files: set[str] = set()
    for entry in entries:
        full = entry["name"].rstrip("/")
        name = full.rpartition("/")[2]
        if name and full.lstrip("/") != path.strip("/"):
            name = unquote(name) if is_http(fs) else name
            (folders if entry["type"] == "directory" else files).add(name)
    return tuple(sorted(folders)), tuple(sorted(files))


def found_below(asking: Requests, path: str, prefix: str, ahead: int) -> Iterator[ObjectInfo]:
    """Iterate over the files below a path; errors name the key `prefix`."""
    fs = asking.fs
    if _goes_by_folders(fs):
        found = _by_folders(asking, path, prefix, ahead)
    else:
        request = asking.get_optional("list", prefix, lambda: fs.find(path, detail=True))
        found = request or {}
    # Filesystems differ in whether their paths begin with a slash.
    bare = path.partition("?")[0] if is_http(fs) else path
    start = fs._strip_protocol(bare).strip("/") + "/" if bare.strip("/") else ""  # noqa: SLF001
    for full, facts in found.items():
        name = full.lstrip("/")
        if not name.startswith(start):
            raise OSError(f"{asking.url!r} lists {hide(name)!r}, which does not lie in it")
        key = unquote(name[len(start) :]) if is_http(fs) else name[len(start) :]
        yield ObjectInfo(key, facts.get("size") or 0, _time_of(facts))


def _goes_by_folders(fs: AbstractFileSystem) -> bool:
    """Return whether ``find`` lists folder by folder, and takes those that fail for empty ones."""
    from fsspec.asyn import AsyncFileSystem

    own = getattr(type(fs), "_find", None)
    return is_async(fs) and own is AsyncFileSystem._find  # noqa: SLF001


def _by_folders(
    asking: Requests, path: str, prefix: str, ahead: int
) -> dict[str, Mapping[str, Any]]:
    """Return the files below a path, listed folder by folder, those of a level together."""
    fs: Any = asking.fs
    files: dict[str, Mapping[str, Any]] = {}
    level, seen = [path], {path}

    async def later(folder: str) -> Any:
        return await asking.later("list", prefix, lambda: fs._ls(folder, detail=True))  # noqa: SLF001

    def now(folder: str) -> Any:
        return asking.get_optional("list", prefix, lambda: fs.ls(folder, detail=True))

    while level:
        folders: dict[str, None] = {}
        for folder, entries in asking.several(level, ahead, later, now):
            for entry in entries or ():
                name = entry["name"]
                if entry["type"] != "directory":
                    files[name] = entry
                elif name.rstrip("/") != folder.rstrip("/"):
                    folders[name.rstrip("/")] = None
        level = [folder for folder in folders if folder not in seen]
        seen.update(level)
    return dict(sorted(files.items()))


def remove_folder(fs: AbstractFileSystem, path: str) -> None:
    """Remove an empty directory, where there are any: most object stores have none."""
    with contextlib.suppress(OSError, NotImplementedError):
        fs.rmdir(path)


def _time_of(facts: Mapping[str, Any]) -> float | None:
    """Return when a file was written, of what filesystems call that."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created", "timeModified"):
        found = facts.get(name)
        if isinstance(found, datetime):
            return found.timestamp()
        if isinstance(found, int | float):
            return float(found)
        if isinstance(found, str):
            with contextlib.suppress(ValueError):
                return datetime.fromisoformat(found).timestamp()
    return None
