"""What fsspec's filesystems say of themselves, each in its own way."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
from typing import TYPE_CHECKING, Any, cast

from xarray_n5.model.paths import join, partial_key
from xarray_n5.stores.redaction import fingerprint

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    from xarray_n5.model.codec import Buffer

_AT_ONCE = 256
"""How many requests are under way at once; connections are fewer, as each library limits them."""

THREADS = 16
"""How many threads make requests, where only threads make several."""

FILES = frozenset({"file", "local", "sftp", "ssh", "smb", "ftp"})
"""Protocols of real files, which can be seen half written, and which a rename replaces."""


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
    return bool({"http", "https"} & set(_own_protocols(behind_caches(fs))))


def is_cache(fs: AbstractFileSystem) -> bool:
    """Return whether a filesystem keeps copies of the files of another."""
    return _inner(fs) is not None and hasattr(fs, "_check_file")


def behind_caches(fs: AbstractFileSystem) -> AbstractFileSystem:
    """Return the filesystem that knows what is there now: the one behind caches."""
    while is_cache(fs) and (inner := _inner(fs)) is not None:
        fs = inner
    return fs


def whole(fs: AbstractFileSystem, path: str) -> bytes:
    """Return a file's bytes in one request, or a cache's copy of them.

    Where a cache says that there is no file, the filesystem behind it must say so, too: caches
    ask for less, and take every failure for that.
    """
    if not is_cache(fs):
        return cast("bytes", fs.cat_file(path, **in_one(fs)))
    try:
        return cast("bytes", fs.cat_file(path))
    except FileNotFoundError:
        pass
    behind = behind_caches(fs)
    return cast("bytes", behind.cat_file(path, **in_one(behind)))


def drop_copies(fs: AbstractFileSystem, path: str) -> None:
    """Remove what caches keep of a file that has been written, or removed."""
    while is_cache(fs) and (inner := _inner(fs)) is not None:
        found = fs._check_file(path)  # noqa: SLF001 - fsspec has no other name for it
        with contextlib.suppress(FileNotFoundError):
            if isinstance(found, str):
                os.remove(found)  # noqa: PTH107
            elif found:
                fs.pop_from_cache(path)
        fs = inner


def of_this_process(fs: AbstractFileSystem) -> AbstractFileSystem:
    """Return a filesystem itself, but in a forked child one that is made anew.

    Loops and connections of the parent do not work there.
    """
    if getattr(fs, "_pid", None) in {None, os.getpid()}:
        return fs
    options = {name: _own(value) for name, value in fs.storage_options.items()}
    return cast("AbstractFileSystem", type(fs)(*map(_own, fs.storage_args), **options))


def _own(value: Any) -> Any:
    return of_this_process(value) if hasattr(value, "cat_file") else value


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
    own = set(_own_protocols(fs))
    copied = "simplecache" in own and is_async(behind_caches(fs))
    return copied or bool({"smb", "webhdfs", "hdfs", "arrow_hdfs"} & own)


def most_at_once(fs: AbstractFileSystem) -> int:
    """Return how many requests may be under way at once, as the filesystem was told."""
    if not is_async(fs):
        return THREADS
    told = getattr(fs, "batch_size", None)
    if not told:
        from fsspec.config import conf

        told = conf.get("nofiles_gather_batch_size") or conf.get("gather_batch_size")
    return max(1, int(told)) if told else _AT_ONCE


def stamp_of(fs: AbstractFileSystem, path: str) -> object:
    """Return what changes when a file is written again; None where a web server does not tell.

    fsspec makes that of the URL alone, on the web.
    """
    if not is_http(fs):
        return fs.ukey(path)
    facts = fs.info(path)
    return facts.get("ETag") or facts.get("Last-Modified") or facts.get("Content-MD5")


def put_by_rename(fs: AbstractFileSystem, path: str, data: Buffer) -> None:
    """Write a real file, which nobody sees half written."""
    temporary = partial_key(path)
    fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    fs.pipe_file(temporary, bytes(data))
    fs.mv(temporary, path)


def in_one(fs: AbstractFileSystem) -> dict[str, Any]:
    """Return what makes ``cat_file`` one request: s3fs would ask for the file's size, too."""
    known = getattr(fs, "_cat_file", None) if "s3" in _own_protocols(fs) else None
    parts = known is not None and "max_concurrency" in inspect.signature(known).parameters
    return {"max_concurrency": 1} if parts else {}


def peeked(fs: AbstractFileSystem, path: str, count: int) -> tuple[bytes, int] | None:
    """Return a file's first bytes, and how many there are; None where it is no file."""
    found = fs.info(path)
    if found["type"] != "file":
        return None
    size = found["size"]
    if size is None:  # a server that does not say
        data = fs.cat_file(path)
        return data[:count], len(data)
    return (_beginning(fs, path, min(count, size)) if size else b""), size


def _beginning(fs: AbstractFileSystem, path: str, count: int) -> bytes:
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
