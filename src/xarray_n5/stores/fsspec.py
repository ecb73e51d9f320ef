"""Everything that fsspec reaches: object stores, HTTP, zip files, other people's filesystems."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias
from urllib.parse import quote

from xarray_n5.model.paths import join, meant_by
from xarray_n5.stores.filesystems import (
    FILES,
    behind_caches,
    digest,
    drop_copies,
    has_servers_pages,
    in_one,
    is_http,
    of_this_process,
    peeked,
    protocols,
    put_by_rename,
    split,
    stamp_of,
    url_of,
    whole,
)
from xarray_n5.stores.http import DOCUMENT, at_most
from xarray_n5.stores.listings import forget, found_below, names, remove_folder
from xarray_n5.stores.redaction import fingerprint, hide
from xarray_n5.stores.requests_ import Requests
from xarray_n5.stores.resolve import reach
from xarray_n5.stores.retries import Retries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fsspec import AbstractFileSystem

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.object_info import ObjectInfo
    from xarray_n5.stores.protocol import Listing

    _Change: TypeAlias = "tuple[str, str, Buffer | None]"

_RETRIES = Retries()


@dataclass(frozen=True, slots=True)
class FsspecStore:
    """A path on an fsspec filesystem.

    Only a file that is not found is a missing key; a refused or broken request raises. What may
    pass is asked for again, a few times.
    """

    fs: AbstractFileSystem
    """The filesystem."""
    root: str
    """The container's path on it, without protocol."""
    query: str = field(default="", repr=False)
    """What is behind the question mark of each URL: a signature, as a rule."""
    retries: Retries = _RETRIES
    """How often a request is made again that failed for what may pass."""
    copies: bool = True
    """Whether reads take what a caching filesystem keeps; all else asks the one behind it."""
    limit: int = field(default=DOCUMENT, compare=False, repr=False)
    """How many bytes a web server may send for a key; more are an error."""
    batch: ClassVar[int] = 256
    """How many keys are worth asking for at once, at most."""
    formats: ClassVar[tuple[str, ...]] = ("n5", "zarr2")
    one_writer: ClassVar[bool] = False

    @classmethod
    def at(cls, place: object, options: Mapping[str, Any]) -> Self | None:
        """Return the store at a URL, a mapper, a filesystem, or a pair of one and a path."""
        if isinstance(place, cls):
            return place
        if isinstance(place, str):
            fs, root = reach(place, options)
        elif (found := split(place)) is not None:
            fs, root = found
        else:
            return None
        root, _, query = root.partition("#")[0].partition("?") if is_http(fs) else (root, "", "")
        return cls(fs, root.rstrip("/") or root, query)

    @property
    def url(self) -> str:
        """The URL without credentials, for messages."""
        return hide(url_of(self.fs, self.root))

    def __repr__(self) -> str:
        """Name the place, not the options: they may hold secrets."""
        return f"FsspecStore({self.url!r})"

    def __dask_tokenize__(self) -> object:
        """Return a token that is the same in every process."""
        return self.identity("")

    @property
    def name(self) -> str:
        """What the directory is called."""
        return self.root.rpartition("/")[2]

    def identity(self, path: str) -> object:
        """Return what tells a node from others."""
        # Digests, since options and URLs may hold secrets.
        shown = hide(self.root)
        secret = f"{self.root}?{self.query}" if self.query or shown != self.root else ""
        own = (fingerprint(secret),) if secret else ()
        return ("fsspec", join(shown, path), digest(self.fs), *own)

    def _path(self, key: str) -> str:
        if not is_http(self.fs):
            return join(self.root, key)
        path = join(self.root, quote(key))
        return f"{path}?{self.query}" if self.query else path

    @property
    def _source(self) -> AbstractFileSystem:
        # The one that knows what is there now.
        return behind_caches(of_this_process(self.fs))

    @property
    def _reader(self) -> AbstractFileSystem:
        # The one that reads whole files, which may be a cache.
        return of_this_process(self.fs) if self.copies else self._source

    @property
    def _has_real_files(self) -> bool:
        return bool(protocols(self.fs) & FILES)

    def _asking(self, fs: AbstractFileSystem) -> Requests:
        return Requests(fs, self.url, self.retries)

    def fresh(self) -> Self:
        """Return the store without copies that a cache keeps, for those who write."""
        return replace(self, copies=False)

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key` in one request."""
        path, fs = self._path(key), self._reader
        with at_most(self.limit):
            return self._asking(fs).get_optional("read", key, lambda: whole(fs, path))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key, fetched concurrently where the filesystem can."""
        return [data for _, data in self.fetch(keys, self.batch)]

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and the bytes there; others are on their way meanwhile."""
        fs = self._reader
        asking, read, how = self._asking(fs), getattr(fs, "_cat_file", None), in_one(fs)

        async def later(key: str) -> bytes | None:
            path = self._path(key)
            with at_most(self.limit):
                return await asking.later("read", key, lambda: read(path, **how))  # type: ignore[misc]

        return asking.several(keys, ahead, later, self.get)

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key`, and how many there are."""
        path, fs = self._path(key), self._source
        forget(fs, path)
        return self._asking(fs).get_optional("read", key, lambda: peeked(fs, path, count))

    def with_fsync(self) -> Self:
        """Return the store itself: a server that has taken an object keeps it."""
        return self

    def set(self, key: str, data: Buffer) -> None:
        """Put the bytes at `key`: in one request, or by a rename where there are real files."""
        self._change((key, self._path(key), data))

    def set_many(self, items: Iterable[tuple[str, Buffer | None]], ahead: int) -> Iterator[str]:
        """Iterate over keys of which the bytes have been put, or removed where None is given."""
        return self._change_many(((key, self._path(key), data) for key, data in items), ahead)

    def _change(self, change: _Change) -> str:
        (key, path, data), fs = change, self._source
        asking = self._asking(fs)
        if data is None:
            asking.get_optional("remove", key, lambda: fs.rm_file(path))
        elif self._has_real_files:
            asking.for_sure("write", key, lambda: put_by_rename(fs, path, data), again=False)
        else:
            asking.for_sure("write", key, lambda: fs.pipe_file(path, bytes(data)))
        drop_copies(self.fs, path)
        return key

    def _change_many(self, changes: Iterable[_Change], ahead: int) -> Iterator[str]:
        fs = self._source
        asking = self._asking(fs)

        async def later(change: _Change) -> str:
            key, path, data = change
            if data is None:
                await asking.later("remove", key, lambda: fs._rm_file(path))  # noqa: SLF001
            else:
                put = partial(fs._pipe_file, path, bytes(data))  # noqa: SLF001
                await asking.surely("write", key, put)
            drop_copies(self.fs, path)
            return key

        if self._has_real_files:
            return map(self._change, changes)
        done = asking.several(changes, ahead, later, self._change, finish=True)
        return (key for _, key in done)

    def _kind(self, key: str) -> str | None:
        """Return what there is at a key now: a file, a directory, or nothing."""
        path, fs = self._path(key), self._source
        forget(fs, path)
        found = self._asking(fs).get_optional("look at", key, lambda: fs.info(path))
        return None if found is None else str(found["type"])

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        return self._kind(key) == "file"

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        path, fs = self._path(prefix), self._source
        if not has_servers_pages(fs):
            return self._kind(prefix) == "directory"
        return bool(self._asking(fs).get_optional("look at", prefix, lambda: fs.isdir(path)))

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files, several at once where that goes."""
        deque(self.set_many(((key, None) for key in keys), self.batch), maxlen=0)

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`, `first` before all else, by full names: no patterns."""
        path, fs = self._path(prefix), self._source
        self.delete([join(prefix, first)])
        forget(fs, path, below=True)
        # A name without a slash is a bucket, which is not ours to remove, unless files are real.
        folders = "/" in path or self._has_real_files
        request = partial(fs.find, path, withdirs=folders, detail=True)
        found = self._asking(fs).get_optional("list", prefix, request)
        empty = [name for name, facts in (found or {}).items() if facts["type"] == "directory"]
        files = ((prefix, name, None) for name in (found or {}).keys() - set(empty))
        deque(self._change_many(files, self.batch), maxlen=0)
        for name in [*sorted(empty, reverse=True), path] if folders else ():
            remove_folder(fs, name)

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`, as they are now: never from a cache."""
        path, fs = self._path(prefix), self._source
        forget(fs, path)
        ask = partial(fs.ls, path, detail=True)
        return names(fs, path, self._asking(fs).get_optional("list", prefix, ask) or ())

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return the names directly under each prefix, listed concurrently where that goes."""
        fs = self._source
        asking, read = self._asking(fs), getattr(fs, "_ls", None)

        async def later(prefix: str) -> Any:
            path = self._path(prefix)
            forget(fs, path)
            found = await asking.later("list", prefix, lambda: read(path, detail=True))  # type: ignore[misc]
            return names(fs, path, found or ())

        return [listing for _, listing in asking.several(prefixes, self.batch, later, self.list)]

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over the keys under `prefix`, relative to it."""
        return (found.key for found in self.list_info(prefix))

    def list_partials(self, prefix: str) -> Iterator[str]:
        """Iterate over what killed writes left where there are real files."""
        if not self._has_real_files:
            return iter(())
        return (key for key in self.walk(prefix) if meant_by(key))

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over the files under `prefix`, with their sizes and times."""
        path, fs = self._path(prefix), self._source
        forget(fs, path, below=True)
        return found_below(self._asking(fs), path, prefix, self.batch)

    def parent(self) -> Self | None:
        """Return the directory around this one; None around a bucket or a host."""
        parent, _, name = self.root.rpartition("/")
        if self.root.startswith("/"):
            parent = parent or "/"
        inside = bool(self.fs.storage_options.get("fo"))  # of a file with files in it
        ends = not name or parent.endswith(("//", ":")) or (not parent and not inside)
        return None if ends else replace(self, root=parent)

    def etag(self, key: str) -> object:
        """Return what the server says of the file, an etag or a time; None where it is silent."""
        path, fs = self._path(key), self._source
        forget(fs, path)
        return self._asking(fs).get_optional("look at", key, lambda: stamp_of(fs, path))
