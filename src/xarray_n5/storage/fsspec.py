"""Everything that fsspec reaches: object stores, HTTP, zip files, other people's filesystems."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import quote, unquote

from xarray_n5.paths import join, meant_by, partial_key
from xarray_n5.storage.asking import Asking
from xarray_n5.storage.filesystems import (
    beginning,
    digest,
    forget,
    has_servers_pages,
    in_one,
    is_http,
    open_url,
    protocols,
    split,
    time_of,
    url_of,
)
from xarray_n5.storage.found import Found
from xarray_n5.storage.retrying import Retries
from xarray_n5.storage.secrets import fingerprint, hide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fsspec import AbstractFileSystem

    from xarray_n5.compression import Buffer
    from xarray_n5.storage import Listing

_RETRIES = Retries()

_FILES = frozenset({"file", "local", "sftp", "ssh", "smb", "ftp"})
"""Protocols of real files, which can be seen half written, and which a rename replaces."""


@dataclass(frozen=True, slots=True)
class FsspecStore:
    """A path on an fsspec filesystem.

    Only a file that is not found is a missing key. A refused or broken request raises: fsspec's
    ``on_error="omit"`` would turn it into zeros. What may pass is asked for again, a few times.
    """

    fs: AbstractFileSystem
    """The filesystem."""
    root: str
    """The container's path on it, without protocol."""
    query: str = field(default="", repr=False)
    """What is behind the question mark of each URL: a signature, as a rule."""
    retries: Retries = _RETRIES
    """How often a request is made again that failed for what may pass."""
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
            fs, root = open_url(place, options)
        elif (found := split(place)) is not None:
            fs, root = found
        else:
            return None
        root, _, query = root.partition("?") if is_http(fs) else (root, "", "")
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
        return self.place("")

    @property
    def name(self) -> str:
        """What the directory is called."""
        return self.root.rpartition("/")[2]

    def place(self, path: str) -> object:
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
    def _asking(self) -> Asking:
        return Asking(self.fs, self.url, self.retries)

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key` in one request."""
        path, how = self._path(key), in_one(self.fs)
        return self._asking.for_what_may_be("read", key, lambda: self.fs.cat_file(path, **how))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key, fetched concurrently where the filesystem can."""
        return [data for _, data in self.fetch(keys, self.batch)]

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and the bytes there; others are on their way meanwhile."""
        asking, read, how = self._asking, getattr(self.fs, "_cat_file", None), in_one(self.fs)

        async def later(key: str) -> bytes | None:
            path = self._path(key)
            return await asking.later("read", key, lambda: read(path, **how))  # type: ignore[misc]

        return asking.several(keys, ahead, later, self.get)

    def peek(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key`, and how many there are."""
        path = self._path(key)

        def request() -> tuple[bytes, int] | None:
            found = self.fs.info(path)
            if found["type"] != "file":
                return None
            size = found["size"]
            if size is None:  # a server that does not say
                data = self.fs.cat_file(path)
                return data[:count], len(data)
            return (beginning(self.fs, path, min(count, size)) if size else b""), size

        forget(self.fs, path)
        return self._asking.for_what_may_be("read", key, request)

    def durable(self) -> Self:
        """Return the store itself: a server that has taken an object keeps it."""
        return self

    def set(self, key: str, data: Buffer) -> None:
        """Put the bytes at `key`: in one request, or by a rename where there are real files."""
        path, asking = self._path(key), self._asking
        if not protocols(self.fs) & _FILES:
            asking.for_sure("write", key, lambda: self.fs.pipe_file(path, bytes(data)))
            return
        temporary = partial_key(path)
        with asking.telling("write", key, may_be_missing=False):
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self.fs.pipe_file(temporary, bytes(data))
            self.fs.mv(temporary, path)

    def _kind(self, key: str) -> str | None:
        """Return what there is at a key now: a file, a directory, or nothing."""
        path = self._path(key)
        forget(self.fs, path)
        found = self._asking.for_what_may_be("look at", key, lambda: self.fs.info(path))
        return None if found is None else str(found["type"])

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        return self._kind(key) == "file"

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        if has_servers_pages(self.fs):
            return bool(self.fs.isdir(self._path(prefix)))
        return self._kind(prefix) == "directory"

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files."""
        for key in keys:
            path = self._path(key)
            self._asking.for_what_may_be("remove", key, lambda path=path: self.fs.rm_file(path))  # type: ignore[misc]

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`, `first` before all else.

        One by one and by their full names: fsspec takes a name with a star for a pattern.
        """
        path = self._path(prefix)
        self.delete([join(prefix, first)])
        forget(self.fs, path, below=True)
        # A name without a slash is a bucket, which is not ours to remove, unless files are real.
        folders = "/" in path or bool(protocols(self.fs) & _FILES)
        with self._asking.telling("remove", prefix, may_be_missing=False):
            found = self.fs.find(path, withdirs=folders, detail=True)
            for name in sorted(found, reverse=True):
                if found[name]["type"] == "directory":
                    _remove_folder(self.fs, name)
                else:
                    self.fs.rm_file(name)
            if folders:
                _remove_folder(self.fs, path)

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`, as they are now: never from a cache."""
        path = self._path(prefix)
        forget(self.fs, path)
        found = self._asking.for_what_may_be("list", prefix, lambda: self.fs.ls(path, detail=True))
        return self._sorted(path, found or ())

    def list_many(self, prefixes: Sequence[str]) -> Sequence[Listing]:
        """Return the names directly under each prefix, listed concurrently where that goes."""
        asking, read = self._asking, getattr(self.fs, "_ls", None)

        async def later(prefix: str) -> Any:
            path = self._path(prefix)
            forget(self.fs, path)
            found = await asking.later("list", prefix, lambda: read(path, detail=True))  # type: ignore[misc]
            return self._sorted(path, found or ())

        return [names for _, names in asking.several(prefixes, self.batch, later, self.list)]

    def _sorted(self, path: str, entries: Iterable[Mapping[str, Any]]) -> Listing:
        """Return the names of directories and of files in what a filesystem lists at a path."""
        folders: set[str] = set()
        files: set[str] = set()
        for entry in entries:
            full = entry["name"].rstrip("/")
            name = full.rpartition("/")[2]
            if name and full.lstrip("/") != path.strip("/"):
                name = unquote(name) if is_http(self.fs) else name
                (folders if entry["type"] == "directory" else files).add(name)
        return tuple(sorted(folders)), tuple(sorted(files))

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over the keys under `prefix`, relative to it."""
        return (found.key for found in self.survey(prefix))

    def partials(self, prefix: str) -> Iterator[str]:
        """Iterate over what killed writes left where there are real files."""
        if not protocols(self.fs) & _FILES:
            return iter(())
        return (key for key in self.walk(prefix) if meant_by(key))

    def survey(self, prefix: str) -> Iterator[Found]:
        """Iterate over the files under `prefix`, with their sizes and times."""
        path = self._path(prefix)
        forget(self.fs, path, below=True)
        found = self._asking.for_what_may_be(
            "list", prefix, lambda: self.fs.find(path, detail=True)
        )
        # Filesystems differ in whether their paths begin with a slash.
        bare = path.partition("?")[0] if is_http(self.fs) else path
        start = self.fs._strip_protocol(bare).strip("/") + "/" if bare.strip("/") else ""  # noqa: SLF001
        for full, facts in (found or {}).items():
            name = full.lstrip("/")
            if not name.startswith(start):
                raise OSError(f"{self.url!r} lists {hide(name)!r}, which does not lie in it")
            key = unquote(name[len(start) :]) if is_http(self.fs) else name[len(start) :]
            yield Found(key, facts.get("size") or 0, time_of(facts))

    def above(self) -> Self | None:
        """Return the directory around this one; None around a bucket or a host."""
        parent, _, name = self.root.rpartition("/")
        if self.root.startswith("/"):
            parent = parent or "/"
        inside = bool(self.fs.storage_options.get("fo"))  # of a file with files in it
        ends = not name or parent.endswith(("//", ":")) or (not parent and not inside)
        return None if ends else replace(self, root=parent)

    def stamp(self, key: str) -> object:
        """Return what the server says of the file: an etag, a time, a size."""
        path = self._path(key)
        forget(self.fs, path)
        return self._asking.for_what_may_be("look at", key, lambda: self.fs.ukey(path))


def _remove_folder(fs: AbstractFileSystem, path: str) -> None:
    try:
        fs.rmdir(path)
    except (OSError, NotImplementedError):
        return  # most object stores have no folders
