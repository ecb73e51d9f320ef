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
from xarray_n5.stores._web import NO_RANGES, WebError, get_anonymous_client, get_url, with_client
from xarray_n5.stores.base import FilePart, Range
from xarray_n5.stores.redaction import fingerprint, redact, redact_urls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec import AbstractFileSystem

_AT_ONCE = 256
"""The default number of requests in flight; each library opens fewer connections."""

_THREADS = 16
"""The number of threads that make requests to filesystems that are not asynchronous."""

_THREADED = frozenset({"smb", "webhdfs", "hdfs", "arrow_hdfs"})
"""Protocols of such filesystems; one connection by FTP or SFTP serves one thread only."""

WEB = frozenset({"http", "https"})

FILES = frozenset({"file", "local", "sftp", "ssh", "smb", "ftp"})
"""Protocols of real files, which are visible half written, and which a rename replaces."""

OBJECTS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Protocols whose libraries list every object, and retry transient failures: s3fs, gcsfs, adlfs."""

FLAT = frozenset({"s3", "s3a", "memory"})
"""Protocols where a directory never outlives the objects in it; others can have directories."""

_EXTRAS = {
    **dict.fromkeys(["s3", "s3a"], "s3"),
    **dict.fromkeys(["gs", "gcs"], "gcs"),
    **dict.fromkeys(["az", "abfs", "abfss", "adl"], "azure"),
    **dict.fromkeys(WEB, "http"),
}
"""Protocols, and the extras that install the packages that fsspec needs for them."""

_ANONYMOUS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **{name: {name: {"get_client": get_anonymous_client}} for name in WEB},
        **{name: {"anon": True} for name in ("s3", "s3a")},
        **{name: {"token": "anon"} for name in ("gs", "gcs")},
    }
)
"""Protocols, and the options of requests without credentials of the user or the environment."""


def local_path(location: object) -> str | None:
    """Return the path of a local file as fsspec names it, or None."""
    pair = split(location)
    return pair[1] if pair is not None and {"file", "local"} & _names(pair[0].protocol) else None


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


# Facts


def _inner(fs: AbstractFileSystem) -> AbstractFileSystem | None:
    """Return the filesystem that `fs` is a view of, if any."""
    inner = getattr(fs, "fs", None)
    return inner if hasattr(inner, "cat_file") else None


def _names(protocol: Any) -> set[str]:
    return {protocol} if isinstance(protocol, str) else set(protocol)


def protocols(fs: AbstractFileSystem) -> set[str]:
    """Return the protocols of a filesystem, its base classes, and those that it is a view of."""
    inner = _inner(fs)
    names = protocols(inner) if inner is not None else set()
    bases = (getattr(kind, "protocol", ()) for kind in type(fs).__mro__)
    return names.union(_names(fs.protocol), *map(_names, bases))


def is_http(fs: AbstractFileSystem) -> bool:
    """Return whether paths are URLs."""
    return bool(WEB & _names(behind_caches(fs).protocol))


def is_cache(fs: AbstractFileSystem) -> bool:
    """Return whether a filesystem keeps copies of another's files."""
    return _inner(fs) is not None and hasattr(fs, "_check_file")


def behind_caches(fs: AbstractFileSystem) -> AbstractFileSystem:
    """Return the filesystem behind caches, which shows the current state."""
    while is_cache(fs) and (inner := _inner(fs)) is not None:
        fs = inner
    return fs


def in_folder(fs: AbstractFileSystem, path: str) -> tuple[AbstractFileSystem, str]:
    """Return the filesystem that another one shows a folder of, and the path on it."""
    while (inner := _inner(fs)) is not None and isinstance(at := getattr(fs, "path", None), str):
        fs, path = inner, join(at, path)
    return fs, path


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


def is_async(fs: AbstractFileSystem) -> bool:
    """Return whether several requests can be in flight."""
    from fsspec.asyn import AsyncFileSystem

    inner = _inner(fs)
    return isinstance(fs, AsyncFileSystem) and (inner is None or is_async(inner))


def finds_by_folders(fs: AbstractFileSystem) -> bool:
    """Return whether ``find`` lists folder by folder, and treats failures as empty folders."""
    from fsspec.asyn import AsyncFileSystem

    method = getattr(type(fs), "_find", None)
    return is_async(fs) and method is AsyncFileSystem._find  # noqa: SLF001


def most_at_once(fs: AbstractFileSystem) -> int:
    """Return the maximum number of requests in flight, as configured in fsspec."""
    if not is_async(fs):
        names = _names(fs.protocol)
        copied = "simplecache" in names and is_async(behind_caches(fs))
        return _THREADS if copied or _THREADED & names else 1
    size = getattr(fs, "batch_size", None)
    if not size:
        from fsspec.config import conf

        size = conf.get("nofiles_gather_batch_size") or conf.get("gather_batch_size")
    return min(int(size), _AT_ONCE) if size and int(size) > 0 else _AT_ONCE  # -1: any number


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


# Calls


async def call(fs: AbstractFileSystem, method: str, *arguments: Any, **options: Any) -> Any:
    """Call a method of a filesystem; one that is not asynchronous blocks."""
    if is_async(fs):
        return await getattr(fs, f"_{method}")(*arguments, **options)
    return getattr(fs, method)(*arguments, **options)


async def read(
    fs: AbstractFileSystem, path: str, part: Range | None, most: int, *, whole: bool = False
) -> FilePart:
    """Return a part of a file in one request, or all of it.

    A web server may not send more than `most` bytes; with `whole`, it may send all of a file for a
    part of it.
    """
    if is_cache(fs):
        return FilePart(_copy_of(fs, path), None)
    fs, path = in_folder(fs, path)
    start, stop = (None, None) if part is None else (part.start, part.stop)
    if start is not None and stop is not None and stop <= start:
        return FilePart(b"", None)
    if is_http(fs):
        return await get_url(fs, path, part, most, whole=whole)
    try:
        data = await call(fs, "cat_file", path, start=start, end=stop, **_in_one_request(fs))
    except NotImplementedError:  # obstore has no ranges to the end
        size = (await call(fs, "info", path))["size"]
        start, stop, _ = slice(start, stop).indices(size)
        data = await call(fs, "cat_file", path, start=start, end=stop) if start < stop else b""
    requested = math.inf if start is None or stop is None else stop - start
    requested = -start if start is not None and start < 0 else requested
    if len(data) > requested:
        raise WebError(f"the server sends {len(data)} bytes for {part}", NO_RANGES)
    return FilePart(data, None)


def _copy_of(fs: AbstractFileSystem, path: str) -> bytes:
    """Return a cache's copy of a file.

    Caches treat every failure as a missing file, so the filesystem behind is asked then.
    """
    try:
        return cast("bytes", fs.cat_file(path))
    except FileNotFoundError:
        behind = behind_caches(fs)
    return cast("bytes", behind.cat_file(path, **_in_one_request(behind)))


def _in_one_request(fs: AbstractFileSystem) -> dict[str, Any]:
    """Return options that make ``cat_file`` one request; s3fs would request the size, too."""
    known = getattr(fs, "_cat_file", None) if "s3" in _names(fs.protocol) else None
    parts = known is not None and "max_concurrency" in inspect.signature(known).parameters
    return {"max_concurrency": 1} if parts else {}


async def put_by_rename(fs: AbstractFileSystem, path: str, data: bytes) -> None:
    """Write a local file atomically."""
    temporary = partial_key(path)
    fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    fs.pipe_file(temporary, data)
    fs.mv(temporary, path)


# URLs


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


def _failure(url: str, options: Mapping[str, Any], error: Exception) -> Exception:
    why = redact(f"{type(error).__name__}: {error}", options)
    if is_missing(error):
        return FileNotFoundError(
            f"cannot open {redact_urls(url)!r}: not found, or permission denied ({why})"
        )
    return (RefusedError if is_refused(error) else RequestError)("open", redact_urls(url), "", why)


def split_query(fs: AbstractFileSystem, path: str) -> tuple[str, str]:
    """Split a path on a filesystem, which is a URL on the web, into its path and its query."""
    query = ""
    if is_http(fs):
        path, _, query = path.partition("#")[0].partition("?")
    return path.rstrip("/") or path, query


def path_at(fs: AbstractFileSystem, url: str) -> tuple[str, str] | None:
    """Return the path and query of a URL on a filesystem; None if it has another protocol."""
    known = url.partition("://")[0] in _names(behind_caches(fs).protocol)
    return split_query(fs, fs._strip_protocol(url)) if known else None  # noqa: SLF001
