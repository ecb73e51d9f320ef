"""What fsspec's filesystems say of themselves, each in its own way."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from xarray_n5.errors import MissingPackageError
from xarray_n5.paths import join
from xarray_n5.storage.secrets import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec import AbstractFileSystem


_AT_ONCE = 256
"""How many requests are under way at once; connections are fewer, as each library limits them."""

_THREADS = 16
"""How many threads make requests, where only threads make several."""


_EXTRAS = {
    **dict.fromkeys(["s3", "s3a"], "s3"),
    **dict.fromkeys(["gs", "gcs"], "gcs"),
    **dict.fromkeys(["az", "abfs", "abfss", "adl"], "azure"),
    **dict.fromkeys(["http", "https"], "http"),
}
"""The extras that bring what fsspec needs for URLs."""


def open_url(url: str, options: Mapping[str, Any]) -> tuple[AbstractFileSystem, str]:
    """Return the filesystem and the path that a URL names.

    Raises
    ------
    MissingPackageError
        If fsspec needs a package for it that an extra brings.
    """
    from fsspec.core import url_to_fs

    try:
        return cast("tuple[AbstractFileSystem, str]", url_to_fs(url, **options))
    except ImportError as error:
        for protocol in re.findall(r"(\w+)(?=::|://)", url):
            if protocol in _EXTRAS:
                raise MissingPackageError(
                    f"URLs of {protocol}://", _EXTRAS[protocol], error
                ) from error
        raise


def local_path(place: object) -> str | None:
    """Return the path of what fsspec calls a local file, or None where it is none."""
    found = split(place)
    if found is None or not {"file", "local"} & set(_own_protocols(found[0])):
        return None
    return found[1]


def split(place: object) -> tuple[AbstractFileSystem, str] | None:
    """Return the filesystem and path of a mapper, a UPath, a pair or a filesystem; else None."""
    match place:
        case (pair_fs, str(path)) if hasattr(pair_fs, "cat_file"):
            return pair_fs, path.rstrip("/") or path
    if hasattr(place, "cat_file"):
        return cast("AbstractFileSystem", place), ""
    fs: Any = getattr(place, "fs", None)
    root = getattr(place, "root" if hasattr(place, "getitems") else "path", None)
    if hasattr(fs, "cat_file") and isinstance(root, str):
        return fs, root.rstrip("/") or root
    return None


def _inner(fs: AbstractFileSystem) -> AbstractFileSystem | None:
    """Return the filesystem that `fs` looks into, if it is a view of another."""
    inner = getattr(fs, "fs", None)
    return inner if hasattr(inner, "cat_file") else None


def _own_protocols(fs: AbstractFileSystem) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def protocols(fs: AbstractFileSystem) -> set[str]:
    """Return the protocols of a filesystem and of those that it looks into."""
    inner = _inner(fs)
    return set(_own_protocols(fs)) | (protocols(inner) if inner is not None else set())


def is_http(fs: AbstractFileSystem) -> bool:
    """Return whether names are URLs there."""
    return bool({"http", "https"} & set(_own_protocols(fs)))


def has_servers_pages(fs: AbstractFileSystem) -> bool:
    """Return whether a directory is what a web server shows as one."""
    return bool({"http", "https"} & protocols(fs))


def is_async(fs: AbstractFileSystem) -> bool:
    """Return whether several requests can be under way at once."""
    from fsspec.asyn import AsyncFileSystem

    inner = _inner(fs)
    return isinstance(fs, AsyncFileSystem) and (inner is None or is_async(inner))


def is_threaded(fs: AbstractFileSystem) -> bool:
    """Return whether requests wait for a network, and several threads may make them at once.

    One connection by FTP or SFTP answers one thread only.
    """
    return bool({"smb", "webhdfs", "hdfs", "arrow_hdfs"} & set(_own_protocols(fs)))


def most_at_once(fs: AbstractFileSystem) -> int:
    """Return how many requests may be under way at once, as the filesystem was told."""
    if not is_async(fs):
        return _THREADS
    told = getattr(fs, "batch_size", None)
    if not told:
        from fsspec.config import conf

        told = conf.get("nofiles_gather_batch_size") or conf.get("gather_batch_size")
    return max(1, int(told)) if told else _AT_ONCE


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


def in_one(fs: AbstractFileSystem) -> dict[str, Any]:
    """Return what makes ``cat_file`` one request: s3fs would ask for the file's size, too."""
    known = getattr(fs, "_cat_file", None) if "s3" in _own_protocols(fs) else None
    parts = known is not None and "max_concurrency" in inspect.signature(known).parameters
    return {"max_concurrency": 1} if parts else {}


def beginning(fs: AbstractFileSystem, path: str, count: int) -> bytes:
    """Return a file's first bytes, in spite of a server whose answer a client does not take."""
    try:
        return cast("bytes", fs.cat_file(path, start=0, end=count))
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - each client has errors of its own; a real one comes again
        return cast("bytes", fs.cat_file(path))[:count]


def url_of(fs: AbstractFileSystem, root: str) -> str:
    """Return a place on a filesystem as a URL."""
    inner, folder = _inner(fs), getattr(fs, "path", None)
    if inner is not None and isinstance(folder, str):
        return url_of(inner, join(folder, root))
    # A file with files inside, such as a zip.
    outer = fs.storage_options.get("fo")
    behind = f"::{outer}" if isinstance(outer, str) else ""
    return f"{fs.unstrip_protocol(root)}{behind}"


def digest(fs: AbstractFileSystem) -> str:
    """Return a short name for a filesystem and its options, from which no secret can be read."""
    inner = _inner(fs)
    facts = [type(fs).__qualname__, fs.storage_args, fs.storage_options]
    facts += [digest(inner), getattr(fs, "path", None)] if inner is not None else []
    text = json.dumps(facts, default=_named, sort_keys=True)
    return fingerprint(text)


def _named(value: Any) -> str:
    return digest(value) if hasattr(value, "cat_file") else type(value).__qualname__


def time_of(facts: Mapping[str, Any]) -> float | None:
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
