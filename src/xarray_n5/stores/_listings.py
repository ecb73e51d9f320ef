"""Listings of fsspec filesystems: names, and files with their sizes and times."""

from __future__ import annotations

import contextlib
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from xarray_n5.stores._filesystems import is_async, is_http
from xarray_n5.stores.base import ObjectInfo
from xarray_n5.stores.redaction import redact_urls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fsspec import AbstractFileSystem

    from xarray_n5.stores._requests import Requests
    from xarray_n5.stores.base import Listing


def forget(fs: AbstractFileSystem, path: str, *, below: bool = False) -> None:
    """Drop cached listings of a path, where other clients may have written.

    Some filesystems keep listings for ever, and look up files in that of the directory.
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
    """Return the names of directories and of files among the entries of a path."""
    folders: set[str] = set()
    files: set[str] = set()
    for entry in entries:
        full = entry["name"].rstrip("/")
        name = full.rpartition("/")[2]
        if name and full.lstrip("/") != path.strip("/"):
            name = unquote(name) if is_http(fs) else name
            (folders if entry["type"] == "directory" else files).add(name)
    return tuple(sorted(folders)), tuple(sorted(files))


def files_below(requests: Requests, path: str, prefix: str, ahead: int) -> Iterator[ObjectInfo]:
    """Iterate over the files below a path; errors name the key `prefix`."""
    for key, facts in entries_below(requests, path, prefix, ahead):
        if facts["type"] != "directory":
            yield ObjectInfo(key, facts.get("size") or 0, _time_of(facts))


def entries_below(
    requests: Requests, path: str, prefix: str, ahead: int, *, folders: bool = False
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Iterate over the files below a path, relative to it, and its directories if `folders`."""
    fs = requests.fs
    if _finds_by_folders(fs):
        found = _by_folders(requests, path, prefix, ahead)
    else:
        find = partial(fs.find, path, withdirs=folders, detail=True)
        found = requests.get("list", prefix, find) or {}
    # Filesystems differ in whether their paths begin with a slash.
    bare = path.partition("?")[0] if is_http(fs) else path
    start = fs._strip_protocol(bare).strip("/") + "/" if bare.strip("/") else ""  # noqa: SLF001
    for full, facts in found.items():
        name = full.lstrip("/")
        if name.rstrip("/") == start.rstrip("/"):
            continue
        if not name.startswith(start):
            raise OSError(f"{requests.url!r} lists {redact_urls(name)!r}, which is outside of it")
        key = name[len(start) :]
        yield unquote(key) if is_http(fs) else key, facts


def _finds_by_folders(fs: AbstractFileSystem) -> bool:
    """Return whether ``find`` lists folder by folder, and treats failures as empty folders."""
    from fsspec.asyn import AsyncFileSystem

    own = getattr(type(fs), "_find", None)
    return is_async(fs) and own is AsyncFileSystem._find  # noqa: SLF001


def _by_folders(
    requests: Requests, path: str, prefix: str, ahead: int
) -> dict[str, Mapping[str, Any]]:
    """Return the entries below a path, listed level by level."""
    fs: Any = requests.fs
    found: dict[str, Mapping[str, Any]] = {}
    level, seen = [path], {path}

    async def list_async(folder: str) -> Any:
        request = partial(fs._ls, folder, detail=True)  # noqa: SLF001
        return await requests.get_async("list", prefix, request)

    def list_now(folder: str) -> Any:
        return requests.get("list", prefix, lambda: fs.ls(folder, detail=True))

    while level:
        folders: dict[str, None] = {}
        for folder, entries in requests.map(level, ahead, list_async, list_now):
            for entry in entries or ():
                name = entry["name"].rstrip("/")
                if name == folder.rstrip("/"):
                    continue  # an empty folder, which some servers list as what is in it
                if entry["type"] != "directory":
                    found[name] = entry
                else:
                    found.setdefault(name, entry)  # a file may have the same name
                    folders[name] = None
        level = [folder for folder in folders if folder not in seen]
        seen.update(level)
    return dict(sorted(found.items()))


def _time_of(facts: Mapping[str, Any]) -> float | None:
    """Return the time when a file was written, from the fields that filesystems have for it."""
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
