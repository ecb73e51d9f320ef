"""Containers on any fsspec filesystem: object stores, HTTP, zip files and others."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import quote

from xarray_n5.errors import ReadOnlyError
from xarray_n5.model.paths import join
from xarray_n5.stores import _filesystems as filesystems
from xarray_n5.stores._requests import Requests, entries_below, files_below, forget, names
from xarray_n5.stores._web import DOCUMENT, at_most
from xarray_n5.stores.base import FilePart, Range, Store
from xarray_n5.stores.redaction import fingerprint, redact_urls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fsspec import AbstractFileSystem

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.base import Listing, ObjectInfo


_READ_ONLY = "cannot be changed through a cache; use the URL behind it, without `...cache::`"


@dataclass(frozen=True, slots=True)
class FsspecStore(Store):
    """A path on an fsspec filesystem; only a file that is not found is a missing key."""

    fs: AbstractFileSystem
    root: str  # the container's path on it, without protocol
    query: str = field(default="", repr=False)
    """The query of each URL, usually a signature."""
    concurrency: ClassVar[int] = 256
    copies: bool = True
    """Whether reads use the copies of a caching filesystem; other requests go behind it."""

    @classmethod
    def at(cls, location: object, options: Mapping[str, Any]) -> Self | None:
        """Return the store at a URL, a mapper, a filesystem, or a pair of one and a path."""
        if isinstance(location, cls):
            return location
        if isinstance(location, str):
            fs, root = filesystems.resolve_url(location, options)
        elif (pair := filesystems.split(location)) is not None:
            fs, root = pair
        else:
            return None
        return cls(fs, *filesystems.split_query(fs, root))

    def at_url(self, url: str) -> Self | None:
        """Return the store at another URL of the filesystem; None if it is of another protocol."""
        path = filesystems.path_at(self.fs, url)
        return None if path is None else replace(self, root=path[0], query=path[1])

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
    def complete_listings(self) -> bool:
        """Whether a listing names every file."""
        return filesystems.has_complete_listings(self.fs)

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
    def most_at_once(self) -> int:
        """The maximum number of requests in flight, as configured in fsspec."""
        return (
            1 if self._has_real_files else min(self.concurrency, filesystems.most_at_once(self.fs))
        )

    @property
    def _source(self) -> AbstractFileSystem:
        """The filesystem behind caches, which shows the current state."""
        return filesystems.behind_caches(filesystems.of_this_process(self.fs))

    @property
    def _reader(self) -> AbstractFileSystem:
        """The filesystem that reads whole files; it may be a cache."""
        return filesystems.of_this_process(self.fs) if self.copies else self._source

    @property
    def _has_real_files(self) -> bool:
        return bool(filesystems.protocols(self.fs) & filesystems.FILES)

    def _path(self, key: str) -> str:
        if not filesystems.is_http(self.fs):
            return join(self.root, key)
        path = join(self.root, quote(key))
        return f"{path}?{self.query}" if self.query else path

    def _requests(self, fs: AbstractFileSystem) -> Requests:
        return Requests(fs, self.url)

    def _current(self, key: str, *, below: bool = False) -> tuple[str, Any, Requests]:
        """Return a key's path, and the filesystem without cached listings of it."""
        path, fs = self._path(key), self._source
        forget(fs, path, below=below)
        return path, fs, self._requests(fs)

    # Reading

    def get(self, key: str, most: int | None = None) -> bytes | None:
        """Return the bytes at `key` in one request; a web server may not send more than `most`."""
        path, fs = self._path(key), self._reader
        with at_most(DOCUMENT if most is None else most):
            return self._requests(fs).get("read", key, lambda: filesystems.whole(fs, path))

    def fetch(
        self, keys: Iterable[str], ahead: int, most: int | None = None
    ) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and their bytes, several requests in flight."""
        requests, options = self._requests(fs := self._reader), filesystems.in_one_request(fs)

        async def get_async(key: str) -> bytes | None:
            request = partial(fs._cat_file, self._path(key), **options)  # noqa: SLF001
            with at_most(DOCUMENT if most is None else most):
                return await requests.get_async("read", key, request)

        return requests.map(keys, ahead, get_async, partial(self.get, most=most))

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        """Return parts of files, several requests in flight; never from a cache."""
        return self._parts(ranges)

    def _parts(self, ranges: Sequence[Range], *, whole: bool = False) -> list[FilePart | None]:
        """Return parts of files; with `whole`, a web server may send all of a file instead."""
        requests = self._requests(fs := self._source)

        async def get_async(part: Range) -> FilePart | None:
            request = partial(filesystems.part_of, fs, self._path(part.key), part, whole=whole)
            return await requests.get_async("read", part.key, request)

        def get(part: Range) -> FilePart | None:
            read = partial(fs.cat_file, self._path(part.key), start=part.start, end=part.stop)
            return requests.get("read", part.key, lambda: FilePart(read(), None))

        return [part for _, part in requests.map(ranges, self.concurrency, get_async, get)]

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key` and the file's size."""
        path, fs, requests = self._current(key)
        facts = requests.get("read", key, lambda: fs.info(path))
        if facts is None or facts["type"] != "file":
            return None
        size = facts["size"]  # which some web servers do not report
        wanted = Range(key, 0, None if size is None else min(count, size))
        (part,) = self._parts([wanted], whole=True)
        if part is None:
            return None
        return part.data[:count], len(part.data) if size is None else size

    def etag(self, key: str, *, free: bool = False) -> object:
        """Return an etag or a time, or None if the server sends neither."""
        if free:
            return None
        path, fs, requests = self._current(key)
        return requests.get("look at", key, lambda: filesystems.etag_of(fs, path))

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        return self._type(key) == "file"

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        fs = self._source
        if filesystems.has_servers_pages(fs):
            look = partial(fs.isdir, self._path(prefix))
            return bool(self._requests(fs).get("look at", prefix, look))
        return self._type(prefix) == "directory"

    def _type(self, key: str) -> str | None:
        path, fs, requests = self._current(key)
        facts = requests.get("look at", key, lambda: fs.info(path))
        return None if facts is None else str(facts["type"])

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`; never from a cache."""
        path, fs, requests = self._current(prefix)
        entries = requests.get("list", prefix, partial(fs.ls, path, detail=True))
        return names(fs, path, entries or ())

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return the names directly under each prefix, several requests in flight."""

        async def list_async(prefix: str) -> Listing:
            path, fs, requests = self._current(prefix)
            request = partial(fs._ls, path, detail=True)  # noqa: SLF001
            return names(fs, path, await requests.get_async("list", prefix, request) or ())

        listings = self._requests(self._source).map(
            prefixes, self.concurrency, list_async, self.list
        )
        return [listing for _, listing in listings]

    def list_info(self, prefix: str, *, sizes: bool = True) -> Iterator[ObjectInfo]:
        """Iterate over the files under `prefix`, with sizes and times."""
        path, _, requests = self._current(prefix, below=True)
        return files_below(requests, path, prefix, self.concurrency)

    # Writing

    def set(self, key: str, data: Buffer) -> None:
        """Write the bytes at `key` in one request, or by a rename on local files."""
        deque(self.set_many([(key, data)], 1), maxlen=0)

    def set_many(self, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
        """Write or remove several keys, several requests in flight."""
        if filesystems.is_cache(self.fs):
            raise ReadOnlyError(self.url, "", _READ_ONLY)
        if self._has_real_files:
            return map(self._change, items)
        requests = self._requests(self._source)
        change = partial(self._change_async, requests)
        done = requests.map(items, ahead, change, self._change, finish=True)
        return (key for _, key in done)

    async def _change_async(self, requests: Requests, item: tuple[str, Buffer | None]) -> str:
        await requests.change_async(self._path(item[0]), *item)
        return item[0]

    def _change(self, item: tuple[str, Buffer | None]) -> str:
        (key, data), path, fs = item, self._path(item[0]), self._source
        requests = self._requests(fs)
        if data is None:
            requests.get("remove", key, lambda: fs.rm_file(path))
        elif self._has_real_files:
            rename = partial(filesystems.put_by_rename, fs, path, data)
            requests.get("write", key, rename, retry=False)
        else:
            requests.get("write", key, lambda: fs.pipe_file(path, bytes(data)))
        return key

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files, several requests in flight."""
        deque(self.set_many(((key, None) for key in keys), self.concurrency), maxlen=0)

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`, `first` before all else; names are not patterns."""
        path, fs, requests = self._current(prefix, below=True)
        keeps = filesystems.keeps_directories(fs)
        entries = dict(entries_below(requests, path, prefix, self.concurrency, folders=keeps))
        if first in entries:
            self.delete([join(prefix, first)])
        folders = [key for key, facts in entries.items() if facts["type"] == "directory"]
        self.delete(join(prefix, key) for key in entries.keys() - {first, *folders})
        for key in (*sorted(folders, reverse=True), ""):
            self.clear_folder(join(prefix, key))

    def clear_folder(self, prefix: str) -> None:
        """Remove an empty directory, if the store has directories."""
        path, fs = self._path(prefix), self._source
        # A name without a slash is a bucket, which must not be removed, unless files are local.
        ours = "/" in path or self._has_real_files
        if ours and filesystems.keeps_directories(fs):
            with suppress(OSError, NotImplementedError):
                fs.rmdir(path)
