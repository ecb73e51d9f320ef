"""Requests to fsspec filesystems: several at once, no secrets in errors, retried if needed.

Listings are names, or files with their sizes and times.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from xarray_n5.errors import PathError, RefusedError, RequestError
from xarray_n5.stores import _filesystems as filesystems
from xarray_n5.stores._errors import is_missing, is_refused, is_transient, lacks_bucket, unfit_name
from xarray_n5.stores.base import ObjectInfo
from xarray_n5.stores.redaction import redact, redact_urls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from fsspec import AbstractFileSystem

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.base import Listing, Store

K = TypeVar("K")
T = TypeVar("T")

_CALLS = 32
"""The most calls at once; each may make many requests at once, too."""

_DELAYS = (0.1, 0.2, 0.4, 0.8)
"""The maximum delays in seconds before requests that failed are repeated; half of each is random,
which spreads those that failed together."""

_WITHIN = 60.0
"""The seconds after which a request is not repeated: slow servers get one request."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Make requests to a filesystem, and convert its errors."""

    fs: AbstractFileSystem
    """The filesystem."""
    url: str
    """The container's URL for errors, without secrets."""

    # Errors are raised outside of "except", so that they do not carry the library's own: those may
    # show a signed URL, and need not be picklable.

    def get(self, verb: str, key: str, request: Callable[[], T], *, retry: bool = True) -> T | None:
        """Return the result of a request; None if the file is missing, unless it is written.

        Reads and writes of whole objects are repeated if they failed for a transient reason, unless
        the library of the filesystem does that itself.
        """
        for pause in self._pauses() if retry else [None]:
            try:
                return request()
            except Exception as error:  # noqa: BLE001 - each library has errors of its own
                failure = self._failure(verb, key, error)
                if pause is None or not _may_pass(error):
                    break
            time.sleep(pause)
        if failure is not None:
            raise failure
        return None

    async def get_async(self, verb: str, key: str, request: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of a request in the filesystem's loop, as :meth:`get` does."""
        for pause in self._pauses():
            try:
                return await request()
            except Exception as error:  # noqa: BLE001
                failure = self._failure(verb, key, error)
                if pause is None or not _may_pass(error):
                    break
            await asyncio.sleep(pause)
        if failure is not None:
            raise failure
        return None

    def _pauses(self) -> Iterator[float | None]:
        """Iterate over the delays between requests in seconds; None after the last one."""
        end = time.monotonic() + _WITHIN
        for delay in () if filesystems.retries_itself(self.fs) else _DELAYS:
            if time.monotonic() > end:
                break
            yield random.SystemRandom().uniform(delay / 2, delay)
        yield None

    async def change_async(self, path: str, key: str, data: Buffer | None) -> None:
        """Write the bytes of a key at its path, or remove the file if there are none."""
        if data is None:
            await self.get_async("remove", key, partial(self.fs._rm_file, path))  # noqa: SLF001
        else:
            put = partial(self.fs._pipe_file, path, bytes(data))  # noqa: SLF001
            await self.get_async("write", key, put)

    def _failure(self, verb: str, key: str, error: Exception) -> Exception | None:
        """Return an error that names the key and shows no secret; None for a missing file."""
        if verb != "write" and self.is_missing(error):
            return None
        if isinstance(error, NotImplementedError):
            return error
        if (refused := unfit_name(error)) is not None:
            return PathError(f"{key!r} in {self.url!r}: {refused}")
        kind = RefusedError if is_refused(error) else RequestError
        text = str(error) or str(error.__cause__ or "") or "no details"
        why = redact(f"{type(error).__name__}: {text}", self.fs.storage_options)
        if self._lacks_bucket(error, verb):
            advice = "create the bucket, or correct its name in the URL"
            why = f"the bucket does not exist ({why})"
            return RequestError(verb, self.url, key, why, advice)
        # A library of a filesystem gets its options with the first request.
        unknown = isinstance(error, TypeError) and "unexpected keyword argument" in text
        hint = "check the names in storage_options=" if unknown else getattr(error, "advice", None)
        return kind(verb, self.url, key, why, hint)

    def is_missing(self, error: BaseException) -> bool:
        """Return whether a file is missing that was read, rather than its whole bucket."""
        return is_missing(error) and not self._lacks_bucket(error, "read")

    def _lacks_bucket(self, error: BaseException, verb: str) -> bool:
        return not filesystems.protocols(self.fs) & filesystems.FILES and lacks_bucket(error, verb)

    def map(
        self,
        keys: Iterable[K],
        ahead: int,
        request_async: Callable[[K], Coroutine[Any, Any, T]],
        request: Callable[[K], T],
        *,
        finish: bool = False,
    ) -> Iterator[tuple[K, T]]:
        """Iterate over keys and the results of their requests, in order, several in flight.

        Parameters
        ----------
        keys
            Consumed as requests begin.
        ahead
            The maximum number of results that wait to be consumed.
        request_async, request
            What runs in the event loop of a filesystem that has one, and what runs elsewhere.
        finish
            Whether to wait for all running requests if one fails; otherwise they are cancelled.
        """
        ahead = min(ahead, filesystems.most_at_once(self.fs))
        if filesystems.is_async(self.fs):
            loop, submit = _loop_of(self.fs), asyncio.run_coroutine_threadsafe
            yield from _in_flight(keys, ahead, lambda key: submit(request_async(key), loop), finish)
        elif filesystems.is_threaded(self.fs):
            yield from self.map_in_threads(keys, ahead, request, finish=finish)
        else:
            for key in keys:
                yield key, request(key)

    def map_in_threads(
        self, keys: Iterable[K], ahead: int, request: Callable[[K], T], *, finish: bool = False
    ) -> Iterator[tuple[K, T]]:
        """Iterate over keys and the results of requests that threads make, as :meth:`map` does."""
        if filesystems.is_async(source := filesystems.behind_caches(self.fs)):
            _loop_of(source)  # raises in the loop's own thread, which cannot wait here
        with ThreadPoolExecutor(min(ahead, filesystems.THREADS), "xarray-n5-fetch") as threads:
            yield from _in_flight(keys, ahead, lambda key: threads.submit(request, key), finish)


def _may_pass(error: Exception) -> bool:
    return not is_missing(error) and is_transient(error)


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
    keys: Iterable[K], ahead: int, submit: Callable[[K], Future[T]], finish: bool
) -> Iterator[tuple[K, T]]:
    waiting: deque[tuple[K, Future[T]]] = deque()
    try:
        for key in keys:
            waiting.append((key, submit(key)))
            if len(waiting) >= ahead:
                first, result = waiting.popleft()
                yield first, result.result()
        while waiting:
            first, result = waiting.popleft()
            yield first, result.result()
    finally:
        for _, result in waiting:
            if finish:
                result.exception()
            else:
                result.cancel()


def together(store: Store, calls: Iterable[Callable[[], T]]) -> list[T]:
    """Return the results of calls that make requests to a store, in order.

    On local files they are made one after another. Elsewhere threads make them at the same time:
    they must not change the filters of warnings, which are those of the whole process. All calls
    have ended before the first error is raised.
    """
    waiting: list[Any] = [*calls]
    if store.most_at_once == 1 or len(waiting) < 2 or _runs_loop_of(store):  # noqa: PLR2004
        return [call() for call in waiting]
    with ThreadPoolExecutor(min(len(waiting), _CALLS), "xarray-n5-request") as threads:
        running = [threads.submit(call) for call in waiting]
        wait(running)
    return [each.result() for each in running]


def heads(store: Store, keys: Iterable[str], count: int) -> Iterator[tuple[bytes, int] | None]:
    """Iterate over the first `count` bytes of files and their sizes, several in flight."""
    waiting = iter(keys)
    while batch := list(islice(waiting, store.concurrency)):
        yield from together(store, [partial(store.head, key, count) for key in batch])


def _runs_loop_of(store: Store) -> bool:
    """Return whether this thread runs the loop that requests would wait for: they raise then."""
    while (inner := getattr(store, "store", None)) is not None:
        store = inner
    fs = getattr(store, "fs", None)
    try:
        if fs is not None and filesystems.is_async(source := filesystems.behind_caches(fs)):
            _loop_of(source)
    except NotImplementedError:
        return True
    return False


# Listings


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
            name = unquote(name) if filesystems.is_http(fs) else name
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
        entries = _by_folders(requests, path, prefix, ahead)
    else:
        find = partial(fs.find, path, withdirs=folders, detail=True)
        entries = requests.get("list", prefix, find) or {}
    # Filesystems differ in whether their paths begin with a slash.
    bare = path.partition("?")[0] if filesystems.is_http(fs) else path
    start = fs._strip_protocol(bare).strip("/") + "/" if bare.strip("/") else ""  # noqa: SLF001
    for full, facts in entries.items():
        name = full.lstrip("/")
        if name.rstrip("/") == start.rstrip("/"):
            continue
        if not name.startswith(start):
            raise OSError(f"{requests.url!r} lists {redact_urls(name)!r}, which is outside of it")
        key = name[len(start) :]
        yield unquote(key) if filesystems.is_http(fs) else key, facts


def _finds_by_folders(fs: AbstractFileSystem) -> bool:
    """Return whether ``find`` lists folder by folder, and treats failures as empty folders."""
    from fsspec.asyn import AsyncFileSystem

    method = getattr(type(fs), "_find", None)
    return filesystems.is_async(fs) and method is AsyncFileSystem._find  # noqa: SLF001


def _by_folders(
    requests: Requests, path: str, prefix: str, ahead: int
) -> dict[str, Mapping[str, Any]]:
    """Return the entries below a path, listed level by level."""
    fs: Any = requests.fs
    below: dict[str, Mapping[str, Any]] = {}
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
                    below[name] = entry
                else:
                    below.setdefault(name, entry)  # a file may have the same name
                    folders[name] = None
        level = [folder for folder in folders if folder not in seen]
        seen.update(level)
    return dict(sorted(below.items()))


def _time_of(facts: Mapping[str, Any]) -> float | None:
    """Return the time when a file was written, from the fields that filesystems have for it."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created", "timeModified"):
        value = facts.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                return datetime.fromisoformat(value).timestamp()
    return None
