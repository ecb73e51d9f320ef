"""fsspec filesystems: found by URL, facts that each reports differently, and requests.

Several requests are made at once, and again if they failed for a moment. Errors show no secrets.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import random
import re
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from xarray_n5.errors import MissingPackageError, RefusedError, RequestError
from xarray_n5.model.paths import join, partial_key
from xarray_n5.stores._errors import is_missing, is_refused, is_transient, lacks_bucket
from xarray_n5.stores._web import NO_RANGES, WebError, get_anonymous_client, get_url, with_client
from xarray_n5.stores.base import FilePart, Range
from xarray_n5.stores.redaction import fingerprint, redact, redact_urls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from fsspec import AbstractFileSystem

T = TypeVar("T")

_AT_ONCE = 256
"""The default number of requests in flight; each library opens fewer connections."""

_THREADS = 16
"""The number of threads that read through a cache of an asynchronous filesystem."""

WEB = frozenset({"http", "https"})

FILES = frozenset({"file", "local", "sftp", "ssh", "smb", "ftp"})
"""Protocols of real files, which are visible half written, and which a rename replaces."""

OBJECTS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Protocols whose libraries list every object, and retry transient failures: s3fs, gcsfs, adlfs."""

FLAT = frozenset({"s3", "s3a", "memory"})
"""Protocols where a directory never outlives the objects in it; others can have directories."""

_DELAYS = (0.1, 0.2, 0.4, 0.8)
"""The maximum delays in seconds before requests that failed are repeated; half of each is random,
which spreads those that failed together."""

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
    fs: Any
    path: Any
    match location:
        case (fs, str(path)) if hasattr(fs, "cat_file"):
            pass
        case _ if hasattr(location, "cat_file"):
            fs, path = location, ""
        case _:
            fs = getattr(location, "fs", None)
            path = getattr(location, "root" if hasattr(location, "getitems") else "path", None)
            if not (hasattr(fs, "cat_file") and isinstance(path, str)):
                return None
    return in_folder(cast("AbstractFileSystem", fs), path.rstrip("/") or path)


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

    usual = AsyncFileSystem._find  # noqa: SLF001
    return getattr(type(fs), "_find", usual) is usual


def most_at_once(fs: AbstractFileSystem) -> int:
    """Return the maximum number of requests in flight, as configured in fsspec."""
    if not is_async(fs):
        names = _names(fs.protocol)
        copied = "simplecache" in names and is_async(behind_caches(fs))
        return _THREADS if copied else 1
    size = getattr(fs, "batch_size", None)
    if not size:
        from fsspec.config import conf

        size = conf.get("nofiles_gather_batch_size") or conf.get("gather_batch_size")
    return min(int(size), _AT_ONCE) if size and int(size) > 0 else _AT_ONCE  # -1: any number


def url_of(fs: AbstractFileSystem, root: str) -> str:
    """Return a path on a filesystem as a URL."""
    # A file with files inside, such as a zip.
    outer = fs.storage_options.get("fo")
    behind = f"::{outer}" if isinstance(outer, str) else ""
    return f"{fs.unstrip_protocol(root)}{behind}"


def digest(fs: AbstractFileSystem) -> str:
    """Return a digest of a filesystem and its options, which shows no secret."""
    inner = _inner(fs)
    facts = [type(fs).__qualname__, fs.storage_args, fs.storage_options]
    facts += [digest(inner)] if inner is not None else []
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


# Several requests


async def _ask(
    fs: AbstractFileSystem, url: str, verb: str, key: str, request: Callable[[], Awaitable[T]]
) -> T | None:
    """Return the result of a request; None if the file is missing, unless it is written.

    Requests are repeated if they failed for a transient reason, unless the library of the
    filesystem does that itself.
    """
    delays = [] if OBJECTS & protocols(fs) else [*_DELAYS]
    while True:
        try:
            return await request()
        except Exception as error:  # noqa: BLE001 - each library has errors of its own
            if verb != "write" and is_missing(error):
                return None
            failure = _failure(verb, url, key, error, fs.storage_options)
            final = not delays or not is_transient(error)
        if final:
            # Raised here, so that it does not carry the library's own error: that may show a
            # signed URL, and need not be picklable.
            raise failure
        pause = delays.pop(0) * random.SystemRandom().uniform(0.5, 1)
        if is_async(fs):
            await asyncio.sleep(pause)
        else:
            time.sleep(pause)  # noqa: ASYNC251 - this thread has no loop


def run(
    fs: AbstractFileSystem,
    url: str,
    requests: Iterable[tuple[str, str, Callable[[], Awaitable[T]]]],
    ahead: int = 1,
    *,
    finish: bool = False,
) -> Iterator[tuple[str, T | None]]:
    """Iterate over the keys of requests and their results, in order, several in flight.

    A request is a coroutine. It runs in the loop of an asynchronous filesystem; those of others
    block, and are run to their end by the thread that asks.

    Parameters
    ----------
    fs, url
        The filesystem, and the container's URL for errors, without secrets.
    requests
        The verb for errors, the key, and what makes the request; consumed as requests begin.
    ahead
        The maximum number of results that wait to be consumed.
    finish
        Whether to wait for all running requests if one fails; otherwise they are cancelled.
    """
    ask, ahead = partial(_ask, fs, url), min(ahead, most_at_once(fs))
    if is_async(fs):
        loop, submit = _loop_of(fs), asyncio.run_coroutine_threadsafe
        yield from _in_flight(requests, ahead, lambda asked: submit(ask(*asked), loop), finish)
    elif ahead > 1:
        with ThreadPoolExecutor(ahead, "xarray-n5-fetch") as pool:
            yield from _in_flight(
                requests, ahead, lambda asked: pool.submit(_run, ask(*asked)), finish
            )
    else:
        for asked in requests:
            yield asked[1], _run(ask(*asked))


def _run(request: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that blocks, and so never waits for a loop."""
    try:
        request.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise RuntimeError("a request of a blocking filesystem waits for a loop")


def _loop_of(fs: AbstractFileSystem) -> asyncio.AbstractEventLoop:
    """Return the event loop of a filesystem, unless this is the thread that runs it."""
    loop: asyncio.AbstractEventLoop | None = fs.loop
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if loop is None or loop is running:
        raise NotImplementedError(
            "an event loop cannot wait for its own requests; open without asynchronous=True, or "
            "read in another thread (asyncio.to_thread)"
        )
    return loop


def _in_flight(
    requests: Iterable[Any], ahead: int, submit: Callable[[Any], Future[T]], finish: bool
) -> Iterator[tuple[str, T]]:
    waiting: deque[tuple[str, Future[T]]] = deque()
    try:
        for asked in requests:
            waiting.append((asked[1], submit(asked)))
            if len(waiting) >= ahead:
                key, result = waiting.popleft()
                yield key, result.result()
        while waiting:
            key, result = waiting.popleft()
            yield key, result.result()
    finally:
        for _, result in waiting:
            if finish:
                result.exception()
            else:
                result.cancel()


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
        shown = redact_urls(url)
        failure = _failure("open", shown, "", error, options)
        if is_missing(error):
            why = redact(f"{type(error).__name__}: {error}", options)
            missing = f"cannot open {shown!r}: not found, or permission denied ({why})"
            failure = FileNotFoundError(missing)
    else:
        return in_folder(fs, root)
    raise failure


def _failure(
    verb: str, url: str, key: str, error: Exception, options: Mapping[str, Any]
) -> Exception:
    """Return an error that names the key and shows no secret."""
    if isinstance(error, NotImplementedError):
        return error
    kind = RefusedError if is_refused(error) else RequestError
    text = str(error) or str(error.__cause__ or "") or "no details"
    # A library of a filesystem gets its options with the first request.
    unknown = isinstance(error, TypeError) and "unexpected keyword argument" in text
    hint = "check the names in storage_options=" if unknown else getattr(error, "advice", None)
    if lacks_bucket(error) or is_missing(error):  # nothing else is missing for a write
        hint = "create the bucket, or correct its name in the URL"
    return kind(verb, url, key, redact(f"{type(error).__name__}: {text}", options), hint)


def split_query(fs: AbstractFileSystem, path: str) -> tuple[str, str]:
    """Split a path on a filesystem, which is a URL on the web, into its path and its query."""
    query = ""
    if is_http(fs):
        path, _, query = path.partition("#")[0].partition("?")
    return path.rstrip("/") or path, query
