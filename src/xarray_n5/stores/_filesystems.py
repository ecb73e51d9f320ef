"""fsspec filesystems: found by URL, and facts that each reports differently."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from xarray_n5.errors import MissingPackageError, RefusedError, RequestError
from xarray_n5.model.paths import join, partial_key
from xarray_n5.stores._errors import is_missing, is_refused, is_transient
from xarray_n5.stores._web import (
    NO_RANGES,
    WebError,
    get_anonymous_client,
    part_of_url,
    with_client,
)
from xarray_n5.stores.base import FilePart, Range
from xarray_n5.stores.redaction import fingerprint, redact, redact_urls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec import AbstractFileSystem

    from xarray_n5.model.codec import Buffer

_AT_ONCE = 256
"""The default number of requests in flight; each library opens fewer connections."""

THREADS = 16
"""The number of threads that make requests to filesystems that are not asynchronous."""

FILES = frozenset({"file", "local", "sftp", "ssh", "smb", "ftp"})
"""Protocols of real files, which are visible half written, and which a rename replaces."""

_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory"})
"""Protocols of stores that list every object; other servers may hide files, or ignore case."""

_RETRYING = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Protocols whose libraries retry transient failures: s3fs, gcsfs, adlfs, obstore."""

_FLAT = frozenset({"s3", "s3a", "memory"})
"""Protocols where a directory never outlives the objects in it; others can have directories."""


_EXTRAS = {
    **dict.fromkeys(["s3", "s3a"], "s3"),
    **dict.fromkeys(["gs", "gcs"], "gcs"),
    **dict.fromkeys(["az", "abfs", "abfss", "adl"], "azure"),
    **dict.fromkeys(["http", "https"], "http"),
}
"""Protocols, and the extras that install the packages that fsspec needs for them."""


_ANONYMOUS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **{each: {each: {"get_client": get_anonymous_client}} for each in ("http", "https")},
        **{each: {"anon": True} for each in ("s3", "s3a")},
        **{each: {"token": "anon"} for each in ("gs", "gcs")},
    }
)
"""Protocols, and the options of requests without credentials of the user or the environment."""


def local_path(location: object) -> str | None:
    """Return the path of a local file as fsspec names it, or None."""
    pair = split(location)
    if pair is None or not {"file", "local"} & set(_own_protocols(pair[0])):
        return None
    return pair[1]


def split(location: object) -> tuple[AbstractFileSystem, str] | None:
    """Return the filesystem and path of a mapper, a UPath, a pair or a filesystem, or None."""
    match location:
        case (pair_fs, str(path)) if hasattr(pair_fs, "cat_file"):
            return pair_fs, path.rstrip("/") or path
    if hasattr(location, "cat_file"):
        return cast("AbstractFileSystem", location), ""
    fs: Any = getattr(location, "fs", None)
    root = getattr(location, "root" if hasattr(location, "getitems") else "path", None)
    if hasattr(fs, "cat_file") and isinstance(root, str):
        return fs, root.rstrip("/") or root
    return None


def _inner(fs: AbstractFileSystem) -> AbstractFileSystem | None:
    """Return the filesystem that `fs` is a view of, if any."""
    inner = getattr(fs, "fs", None)
    return inner if hasattr(inner, "cat_file") else None


def _own_protocols(fs: AbstractFileSystem) -> tuple[str, ...]:
    return _names(fs.protocol)


def _names(protocol: object) -> tuple[str, ...]:
    return (protocol,) if isinstance(protocol, str) else tuple(cast("Any", protocol))


def protocols(fs: AbstractFileSystem) -> set[str]:
    """Return the protocols of a filesystem and of those that it is a view of."""
    inner = _inner(fs)
    return set(_own_protocols(fs)) | (protocols(inner) if inner is not None else set())


def is_http(fs: AbstractFileSystem) -> bool:
    """Return whether paths are URLs."""
    return bool({"http", "https"} & set(_own_protocols(behind_caches(fs))))


def is_cache(fs: AbstractFileSystem) -> bool:
    """Return whether a filesystem keeps copies of another's files."""
    return _inner(fs) is not None and hasattr(fs, "_check_file")


def has_protocol(fs: AbstractFileSystem, protocol: str) -> bool:
    """Return whether a filesystem, or the one behind its caches, has a protocol."""
    return protocol in _own_protocols(behind_caches(fs))


def in_folder(fs: AbstractFileSystem, path: str) -> tuple[AbstractFileSystem, str]:
    """Return the filesystem that another one shows a folder of, and the path on it."""
    while (inner := _inner(fs)) is not None and isinstance(at := getattr(fs, "path", None), str):
        fs, path = inner, join(at, path)
    return fs, path


def behind_caches(fs: AbstractFileSystem) -> AbstractFileSystem:
    """Return the filesystem behind caches, which shows the current state."""
    while is_cache(fs) and (inner := _inner(fs)) is not None:
        fs = inner
    return fs


def whole(fs: AbstractFileSystem, path: str) -> bytes:
    """Return a file's bytes in one request, or a cache's copy of them.

    If a cache does not find a file, the filesystem behind it is asked: caches treat every failure
    as a missing file.
    """
    if not is_cache(fs):
        return cast("bytes", fs.cat_file(path, **in_one_request(fs)))
    try:
        return cast("bytes", fs.cat_file(path))
    except FileNotFoundError:
        pass
    behind = behind_caches(fs)
    return cast("bytes", behind.cat_file(path, **in_one_request(behind)))


def of_this_process(fs: AbstractFileSystem) -> AbstractFileSystem:
    """Return a filesystem itself, or a new one like it in a forked process.

    Loops and connections of the parent process do not work there.
    """
    if getattr(fs, "_pid", None) in {None, os.getpid()}:
        return fs
    options = {name: _own(value) for name, value in fs.storage_options.items()}
    return cast("AbstractFileSystem", type(fs)(*map(_own, fs.storage_args), **options))


def _own(value: Any) -> Any:
    return of_this_process(value) if hasattr(value, "cat_file") else value


def has_complete_listings(fs: AbstractFileSystem) -> bool:
    """Return whether a listing names every file, with its exact name."""
    return bool(_kinds(fs) & _OBJECT_STORES)


def retries_itself(fs: AbstractFileSystem) -> bool:
    """Return whether the library of a filesystem retries what failed for a transient reason."""
    source = type(behind_caches(fs))
    return bool(_kinds(fs) & _RETRYING) or source.__module__.startswith("obstore.")


def keeps_directories(fs: AbstractFileSystem) -> bool:
    """Return whether there may be empty directories."""
    return not _kinds(fs) & _FLAT


def _kinds(fs: AbstractFileSystem) -> set[str]:
    """Return the protocols of a filesystem behind caches and views, and of its base classes."""
    while (inner := _inner(fs)) is not None:
        fs = inner
    bases = {name for kind in type(fs).__mro__ for name in _names(getattr(kind, "protocol", ()))}
    return bases | set(_own_protocols(fs))


def has_servers_pages(fs: AbstractFileSystem) -> bool:
    """Return whether directories are pages of a web server."""
    return bool({"http", "https"} & protocols(fs))


def is_async(fs: AbstractFileSystem) -> bool:
    """Return whether several requests can be in flight."""
    from fsspec.asyn import AsyncFileSystem

    inner = _inner(fs)
    return isinstance(fs, AsyncFileSystem) and (inner is None or is_async(inner))


def is_threaded(fs: AbstractFileSystem) -> bool:
    """Return whether requests wait for a network and threads may make several at once.

    One connection by FTP or SFTP serves one thread only.
    """
    names = set(_own_protocols(fs))
    copied = "simplecache" in names and is_async(behind_caches(fs))
    return copied or bool({"smb", "webhdfs", "hdfs", "arrow_hdfs"} & names)


def most_at_once(fs: AbstractFileSystem) -> int:
    """Return the maximum number of requests in flight, as configured in fsspec."""
    if not is_async(fs):
        return THREADS if is_threaded(fs) else 1
    size = getattr(fs, "batch_size", None)
    if not size:
        from fsspec.config import conf

        size = conf.get("nofiles_gather_batch_size") or conf.get("gather_batch_size")
    return int(size) if size and int(size) > 0 else _AT_ONCE  # -1 means any number


def etag_of(fs: AbstractFileSystem, path: str) -> object:
    """Return a value that changes whenever a file is written; None if a web server has none.

    On the web, fsspec's own token only depends on the URL.
    """
    if not is_http(fs):
        return fs.ukey(path)
    facts = fs.info(path)
    return facts.get("ETag") or facts.get("Last-Modified") or facts.get("Content-MD5")


def put_by_rename(fs: AbstractFileSystem, path: str, data: Buffer) -> None:
    """Write a local file atomically."""
    temporary = partial_key(path)
    fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    fs.pipe_file(temporary, bytes(data))
    fs.mv(temporary, path)


def in_one_request(fs: AbstractFileSystem) -> dict[str, Any]:
    """Return options that make ``cat_file`` one request; s3fs would request the size, too."""
    known = getattr(fs, "_cat_file", None) if "s3" in _own_protocols(fs) else None
    parts = known is not None and "max_concurrency" in inspect.signature(known).parameters
    return {"max_concurrency": 1} if parts else {}


def url_of(fs: AbstractFileSystem, root: str) -> str:
    """Return a path on a filesystem as a URL."""
    fs, root = in_folder(fs, root)
    # A file with files inside, such as a zip.
    outer = fs.storage_options.get("fo")
    behind = f"::{outer}" if isinstance(outer, str) else ""
    return f"{fs.unstrip_protocol(root)}{behind}"


def digest(fs: AbstractFileSystem) -> str:
    """Return a digest of a filesystem and its options, which shows no secret."""
    inner = _inner(fs)
    facts = [type(fs).__qualname__, fs.storage_args, fs.storage_options]
    facts += [digest(inner), getattr(fs, "path", None)] if inner is not None else []
    text = json.dumps(facts, default=_named, sort_keys=True)
    return fingerprint(text)


def _named(value: Any) -> str:
    return digest(value) if hasattr(value, "cat_file") else type(value).__qualname__


async def part_of(fs: Any, path: str, part: Range, *, whole: bool) -> FilePart:
    """Return a part of a file; with `whole`, a web server may send all of a larger one instead."""
    fs, path = in_folder(fs, path)
    if part.stop is not None and part.stop <= part.start:
        return FilePart(b"", None)
    if is_http(fs):
        return await part_of_url(fs, path, part, whole=whole)
    read = fs._cat_file  # noqa: SLF001 - fsspec has no other name for it
    try:
        data = await read(path, start=part.start, end=part.stop, **in_one_request(fs))
    except NotImplementedError:  # obstore has no ranges to the end
        start, stop, _ = slice(*part[1:]).indices((await fs._info(path))["size"])  # noqa: SLF001
        data = await read(path, start=start, end=stop) if start < stop else b""
    most = -part.start if part.start < 0 else (part.stop or math.inf) - part.start
    if len(data) > most:
        raise WebError(f"the server sends {len(data)} bytes for {part[1:]}", NO_RANGES)
    return FilePart(data, None)


def anonymous_options(url: str) -> dict[str, Any] | None:
    """Return options for requests without credentials; None if that is not possible."""
    options = _ANONYMOUS.get(url.partition("://")[0])
    return None if options is None else dict(options)


def resolve_url(url: str, options: Mapping[str, Any]) -> tuple[AbstractFileSystem, str]:
    """Return the filesystem of a URL and the path on it.

    An archive, such as a zip, is opened for this: its errors are redacted.

    Raises
    ------
    MissingPackageError
        If fsspec needs a package that one of our extras installs.
    """
    from fsspec.core import url_to_fs

    try:
        fs, root = url_to_fs(url, **with_client(url, options))
    except ImportError as error:
        for protocol in re.findall(r"(?<!\w)\w++(?=::|://)", url):
            if protocol in _EXTRAS:
                what = f"URLs of {protocol}://"
                raise MissingPackageError(what, _EXTRAS[protocol], error) from error
        raise
    except Exception as error:  # each library has errors of its own
        if not (isinstance(error, OSError) or is_refused(error) or is_transient(error)):
            raise
        failure = _failure(url, options, error)
    else:
        return fs, root
    raise failure


def split_query(fs: AbstractFileSystem, path: str) -> tuple[str, str]:
    """Split a path on a filesystem, which is a URL on the web, into its path and its query."""
    query = ""
    if is_http(fs):
        path, _, query = path.partition("#")[0].partition("?")
    return path.rstrip("/") or path, query


def path_at(fs: AbstractFileSystem, url: str) -> tuple[str, str] | None:
    """Return the path and query of a URL on a filesystem; None if it has another protocol."""
    known = has_protocol(fs, url.partition("://")[0])
    return split_query(fs, fs._strip_protocol(url)) if known else None  # noqa: SLF001


def _failure(url: str, options: Mapping[str, Any], error: Exception) -> Exception:
    why = redact(f"{type(error).__name__}: {error}", options)
    if is_missing(error):
        return FileNotFoundError(
            f"cannot open {redact_urls(url)!r}: not found, or permission denied ({why})"
        )
    return (RefusedError if is_refused(error) else RequestError)("open", redact_urls(url), "", why)
