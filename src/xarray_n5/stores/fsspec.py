"""Containers on any fsspec filesystem: object stores, HTTP, zip files and others."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import quote, unquote

from xarray_n5.errors import ReadOnlyError
from xarray_n5.model.paths import join
from xarray_n5.stores import _filesystems as filesystems
from xarray_n5.stores._web import DOCUMENT
from xarray_n5.stores.base import FilePart, ObjectInfo, Range, Store
from xarray_n5.stores.redaction import fingerprint, redact_urls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fsspec import AbstractFileSystem

    from xarray_n5.model.metadata import Buffer
    from xarray_n5.stores.base import Listing

Facts: TypeAlias = "Mapping[str, Any]"
"""The facts that fsspec has for a file or directory, such as its name, type and size."""

_READ_ONLY = "cannot be changed through a cache; use the URL behind it, without `...cache::`"


@dataclass(frozen=True, slots=True)
class FsspecStore(Store):
    """A path on an fsspec filesystem; only a file that is not found is a missing key."""

    fs: AbstractFileSystem
    root: str  # the container's path on it, without protocol
    query: str = field(default="", repr=False)
    """The query of each URL, usually a signature."""
    copies: bool = True
    """Whether reads use the copies of a caching filesystem; other requests go behind it."""

    @classmethod
    def at(cls, location: object, options: Mapping[str, Any]) -> Self | None:
        """Return the store at a URL, a mapper, a filesystem, or a pair of one and a path."""
        if isinstance(location, str):
            fs, root = filesystems.resolve_url(location, options)
        elif (pair := filesystems.split(location)) is not None:
            fs, root = pair
        else:
            return None
        return cls(fs, *filesystems.split_query(fs, root))

    def at_url(self, url: str) -> Self | None:
        """Return the store at another URL of the filesystem; None if it is of another protocol."""
        if url.partition("://")[0] not in self._protocols:
            return None
        path = self.fs._strip_protocol(url)  # noqa: SLF001
        root, query = filesystems.split_query(self.fs, path)
        return replace(self, root=root, query=query)

    def __repr__(self) -> str:
        """Show the URL without options, which may contain secrets."""
        return f"FsspecStore({self.url!r})"

    def __dask_tokenize__(self) -> object:
        """Return a token that is the same in every process."""
        return self.identity("")

    @property
    def url(self) -> str:
        """The URL without credentials."""
        return redact_urls(filesystems.url_of(self.fs, self.root))

    @property
    def name(self) -> str:
        """The name of the directory."""
        return self.root.rpartition("/")[2]

    @property
    def concurrency(self) -> int:
        """The number of requests that are worth making together, as configured in fsspec."""
        return filesystems.most_at_once(self.fs)

    @property
    def complete_listings(self) -> bool:
        """Whether a listing names every file."""
        return bool({*filesystems.OBJECTS, "memory"} & self._protocols)

    def identity(self, path: str) -> object:
        """Return a value that identifies a node."""
        # Digests, since options and URLs may contain secrets.
        shown = redact_urls(self.root)
        secret = f"{self.root}?{self.query}" if self.query or shown != self.root else ""
        secrets = (fingerprint(secret),) if secret else ()
        return ("fsspec", join(shown, path), filesystems.digest(self.fs), *secrets)

    def parent(self) -> Self | None:
        """Return the store of the parent directory; None around a bucket or a host."""
        parent, _, name = self.root.rpartition("/")
        parent = parent or ("/" if self.root.startswith("/") else "")
        in_archive = bool(self.fs.storage_options.get("fo"))
        ends = not name or parent.endswith(("//", ":/", ":")) or (not parent and not in_archive)
        return None if ends else replace(self, root=parent)

    def child(self, path: str) -> Self:
        """Return the store of a directory in this one."""
        path = quote(path) if filesystems.is_http(self.fs) else path
        return replace(self, root=join(self.root, path))

    def fresh(self) -> Self:
        """Return the store without the copies of caches."""
        return replace(self, copies=False)

    @property
    def _protocols(self) -> set[str]:
        return filesystems.protocols(self.fs)

    @property
    def _source(self) -> AbstractFileSystem:
        """The filesystem behind caches, which shows the current state."""
        return filesystems.behind_caches(filesystems.of_this_process(self.fs))

    def _path(self, key: str) -> str:
        if not filesystems.is_http(self.fs):
            return join(self.root, key)
        path = join(self.root, quote(key))
        return f"{path}?{self.query}" if self.query else path

    def _current(self, *, copies: bool = False) -> AbstractFileSystem:
        """Return the filesystem without listings that it has kept.

        Other clients may have written. Some filesystems keep listings for ever, and look up files
        in that of the directory.
        """
        if copies:
            return filesystems.of_this_process(self.fs)
        fs = self._source
        fs.invalidate_cache()
        return fs

    def _call(self, verb: str, key: str, method: str, *arguments: Any, **options: Any) -> Any:
        """Return the result of a method of the filesystem; None if a file is missing."""
        fs = self._current()
        request = partial(filesystems.call, fs, method, *arguments, **options)
        [(_, result)] = filesystems.run(fs, self.url, [(verb, key, request)])
        return result

    # Reading

    def get(self, key: str, most: int | None = None) -> bytes | None:
        """Return the bytes at `key` in one request; a web server may not send more than `most`."""
        [(_, data)] = self.fetch([key], 1, most)
        return data

    def fetch(
        self, keys: Iterable[str], ahead: int, most: int | None = None
    ) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and their bytes, several requests in flight."""
        parts = self._parts(((key, None) for key in keys), ahead, most, copies=self.copies)
        return ((key, None if part is None else part.data) for key, part in parts)

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        """Return parts of files, several requests in flight; never from a cache."""
        parts = self._parts(((part.key, part) for part in ranges), self.concurrency)
        return [part for _, part in parts]

    def _parts(
        self,
        wanted: Iterable[tuple[str, Range | None]],
        ahead: int,
        most: int | None = None,
        *,
        copies: bool = False,
        whole: bool = False,
    ) -> Iterator[tuple[str, FilePart | None]]:
        """Iterate over keys and files or parts; `whole` is that of :func:`_filesystems.read`."""
        fs = self._current(copies=copies)
        read = partial(filesystems.read, fs, most=DOCUMENT if most is None else most, whole=whole)
        requests = (("read", key, partial(read, self._path(key), part)) for key, part in wanted)
        return filesystems.run(fs, self.url, requests, ahead)

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key` and the file's size."""
        facts = self._info(key)
        if facts is None or facts["type"] != "file":
            return None
        size = facts["size"]  # which some web servers do not report
        part = Range(key, 0, None if size is None else min(count, size))
        [(_, head)] = self._parts([(key, part)], 1, whole=True)
        if head is None:
            return None
        return head.data[:count], len(head.data) if size is None else size

    def etag(self, key: str, *, free: bool = False) -> object:
        """Return an etag or a time, or None if a web server sends neither."""
        facts = None if free else self._info(key)
        if facts is None or facts["type"] != "file":
            return None
        if not filesystems.WEB & self._protocols:
            return fingerprint(str(facts))
        return facts.get("ETag") or facts.get("Last-Modified") or facts.get("Content-MD5")

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        return (self._info(key) or {}).get("type") == "file"

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        if filesystems.WEB & self._protocols:  # where it is a page
            return bool(self._call("look at", prefix, "isdir", self._path(prefix)))
        return (self._info(prefix) or {}).get("type") == "directory"

    def _info(self, key: str) -> Facts | None:
        facts: Facts | None = self._call("look at", key, "info", self._path(key))
        return facts

    # Listing

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`; never from a cache."""
        return self.list_many([prefix])[0]

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return the names directly under each prefix, several requests in flight."""
        return [
            (
                tuple(sorted({name for name, facts in entries if facts["type"] == "directory"})),
                tuple(sorted({name for name, facts in entries if facts["type"] != "directory"})),
            )
            for entries in self._listed(prefixes)
        ]

    def _listed(self, prefixes: Iterable[str]) -> Iterator[Sequence[tuple[str, Facts]]]:
        """Iterate over the names and facts of the entries directly under each prefix."""
        fs, is_http = self._current(), filesystems.is_http(self.fs)
        ls = partial(filesystems.call, fs, "ls", detail=True)
        requests = (("list", prefix, partial(ls, self._path(prefix))) for prefix in prefixes)
        for prefix, entries in filesystems.run(fs, self.url, requests, self.concurrency):
            folder, named = self._path(prefix).strip("/"), []
            for facts in entries or ():
                full = facts["name"].strip("/")
                # Some servers list an empty folder as what is in it.
                if full and full != folder:
                    name = full.rpartition("/")[2]
                    named.append((unquote(name) if is_http else name, facts))
            yield named

    def list_info(self, prefix: str, *, sizes: bool = True) -> Iterator[ObjectInfo]:
        """Iterate over the files under `prefix`, with sizes and times."""
        for key, facts in self._entries(prefix):
            if facts["type"] != "directory":
                yield ObjectInfo(key, facts.get("size") or 0, _time_of(facts))

    def _entries(self, prefix: str) -> Iterator[tuple[str, Facts]]:
        """Iterate over files below a prefix, relative to it, and directories if there are any."""
        if filesystems.finds_by_folders(self._source):
            level = [""]
            while level:
                listed = self._listed([join(prefix, folder) for folder in level])
                below = [
                    (facts["type"] != "directory", join(folder, name), facts)
                    for folder, entries in zip(level, listed, strict=True)
                    for name, facts in entries
                ]
                below.sort(key=itemgetter(0, 1))  # a file may have the name of a directory
                yield from ((key, facts) for _, key, facts in below)
                level = [key for is_file, key, _ in below if not is_file]
            return
        path, withdirs = self._path(prefix), not filesystems.FLAT & self._protocols
        entries = self._call("list", prefix, "find", path, withdirs=withdirs, detail=True) or {}
        # Filesystems differ in whether their paths begin with a slash.
        start = self.fs._strip_protocol(path).strip("/") if path.strip("/") else ""  # noqa: SLF001
        for full, facts in entries.items():
            name = full.lstrip("/")
            if name.rstrip("/") == start:
                continue
            if start and not name.startswith(f"{start}/"):
                raise OSError(f"{self.url!r} lists {redact_urls(name)!r}, which is outside of it")
            yield name.removeprefix(f"{start}/"), facts

    # Writing

    def set(self, key: str, data: Buffer) -> None:
        """Write the bytes at `key` in one request, or by a rename on local files."""
        deque(self.set_many([(key, data)], 1), maxlen=0)

    def set_many(self, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
        """Write or remove several keys, several requests in flight."""
        if filesystems.is_cache(self.fs):
            raise ReadOnlyError(self.url, "", _READ_ONLY)
        fs = self._current()
        by_rename = bool(filesystems.FILES & self._protocols)
        put = partial(filesystems.call, fs, "pipe_file")
        put = partial(filesystems.put_by_rename, fs) if by_rename else put
        remove = partial(filesystems.call, fs, "rm_file")
        requests = (
            ("remove", key, partial(remove, self._path(key)))
            if data is None
            else ("write", key, partial(put, self._path(key), bytes(data)))
            for key, data in items
        )
        done = filesystems.run(fs, self.url, requests, 1 if by_rename else ahead, finish=True)
        return (key for key, _ in done)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files, several requests in flight."""
        deque(self.set_many(((key, None) for key in keys), self.concurrency), maxlen=0)

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`, `first` before all else; names are not patterns."""
        entries = dict(self._entries(prefix))
        if first in entries:
            self.delete([join(prefix, first)])
        folders = [key for key, facts in entries.items() if facts["type"] == "directory"]
        self.delete(join(prefix, key) for key in entries.keys() - {first, *folders})
        for key in (*sorted(folders, reverse=True), ""):
            self.clear_folder(join(prefix, key))

    def clear_folder(self, prefix: str) -> None:
        """Remove an empty directory, if the store has directories."""
        path = self._path(prefix)
        # A name without a slash is a bucket, which must not be removed, unless files are local.
        ours = "/" in path or filesystems.FILES & self._protocols
        if ours and not filesystems.FLAT & self._protocols:
            with contextlib.suppress(OSError, NotImplementedError):
                self._source.rmdir(path)


def _time_of(facts: Facts) -> float | None:
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
