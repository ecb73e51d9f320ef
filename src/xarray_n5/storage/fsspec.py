"""Everything that fsspec reaches: object stores, HTTP, zip files, other people's filesystems."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast
from urllib.parse import quote, unquote

from xarray_n5.paths import join, meant_by, partial_key
from xarray_n5.storage.filesystems import (
    beginning,
    digest,
    forget,
    in_one,
    is_async,
    is_http,
    protocols,
    split,
    time_of,
    url_of,
)
from xarray_n5.storage.found import Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fsspec import AbstractFileSystem

    from xarray_n5.compression import Buffer

_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""What means that there is no file at a key; no other error does."""

_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@|(?<=[?&])[^=&]*=[^&]*")

_FILES = frozenset({"file", "local", "sftp", "ssh", "smb", "ftp"})
"""Protocols of real files, which can be seen half written, and which a rename replaces."""


@dataclass(frozen=True, slots=True)
class FsspecStore:
    """A path on an fsspec filesystem.

    Only a file that is not found is a missing key. A refused or broken request raises: fsspec's
    ``on_error="omit"`` would turn it into zeros.
    """

    fs: AbstractFileSystem
    """The filesystem."""
    root: str
    """The container's path on it, without protocol."""
    batch: ClassVar[int] = 64
    """How many keys are worth one call of :meth:`get_many`: they travel together."""
    formats: ClassVar[tuple[str, ...]] = ("n5", "zarr2")
    one_writer: ClassVar[bool] = False

    @classmethod
    def at(cls, place: object, options: Mapping[str, Any]) -> Self | None:
        """Return the store at a URL, a mapper, a filesystem, or a pair of one and a path."""
        if isinstance(place, cls):
            return place
        if isinstance(place, str):
            from fsspec.core import url_to_fs

            fs, root = url_to_fs(place, **options)
            return cls(fs, root.rstrip("/"))
        found = split(place)
        return None if found is None else cls(*found)

    @property
    def url(self) -> str:
        """The URL without credentials, for messages."""
        return _CREDENTIALS.sub("", url_of(self.fs, self.root))

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
        # A digest, since options may hold secrets.
        return ("fsspec", join(self.root, path), digest(self.fs))

    def _path(self, key: str) -> str:
        return join(self.root, quote(key) if is_http(self.fs) else key)

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key` in one request."""
        try:
            return cast("bytes", self.fs.cat_file(self._path(key), **in_one(self.fs)))
        except _MISSING:
            return None

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key, fetched concurrently where the filesystem can."""
        if len(keys) <= 1 or not is_async(self.fs):
            return [self.get(key) for key in keys]
        from fsspec.asyn import sync

        async def fetch() -> list[Any]:
            how = in_one(self.fs)
            requests = [self.fs._cat_file(self._path(key), **how) for key in keys]  # noqa: SLF001
            return list(await asyncio.gather(*requests, return_exceptions=True))

        return [_missing_or_raise(item) for item in sync(self.fs.loop, fetch)]

    def peek(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first bytes at `key`, and how many there are."""
        path = self._path(key)
        forget(self.fs, path)
        try:
            found = self.fs.info(path)
            if found["type"] != "file":
                return None
            size = found["size"]
            if size is None:  # a server that does not say
                data = self.fs.cat_file(path)
                return data[:count], len(data)
            return (beginning(self.fs, path, min(count, size)) if size else b""), size
        except _MISSING:
            return None

    def durable(self) -> Self:
        """Return the store itself: a server that has taken an object keeps it."""
        return self

    def set(self, key: str, data: Buffer) -> None:
        """Put the bytes at `key`: in one request, or by a rename where there are real files."""
        path = self._path(key)
        if not protocols(self.fs) & _FILES:
            self.fs.pipe_file(path, bytes(data))
            return
        temporary = partial_key(path)
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.fs.pipe_file(temporary, bytes(data))
        self.fs.mv(temporary, path)

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        path = self._path(key)
        forget(self.fs, path)
        try:
            return bool(self.fs.info(path)["type"] == "file")
        except _MISSING:
            return False

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        path = self._path(prefix)
        forget(self.fs, path)
        return bool(self.fs.isdir(path))

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files."""
        for key in keys:
            try:
                self.fs.rm_file(self._path(key))
            except _MISSING:
                continue

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove everything under `prefix`, `first` before all else.

        One by one and by their full names: fsspec takes a name with a star for a pattern.
        """
        path = self._path(prefix)
        self.delete([join(prefix, first)])
        forget(self.fs, path)
        # A name without a slash is a bucket, which is not ours to remove, unless files are real.
        folders = "/" in path or bool(protocols(self.fs) & _FILES)
        found = self.fs.find(path, withdirs=folders, detail=True)
        for name in sorted(found, reverse=True):
            if found[name]["type"] == "directory":
                _remove_folder(self.fs, name)
            else:
                self.fs.rm_file(name)
        if folders:
            _remove_folder(self.fs, path)

    def list(self, prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names directly under `prefix`, as they are now: never from a cache."""
        path = self._path(prefix)
        forget(self.fs, path)
        try:
            entries = self.fs.ls(path, detail=True)
        except _MISSING:
            return (), ()
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
        forget(self.fs, path)
        # Filesystems differ in whether their paths begin with a slash.
        start = self.fs._strip_protocol(path).strip("/") + "/" if path.strip("/") else ""  # noqa: SLF001
        for found, facts in self.fs.find(path, detail=True).items():
            name = found.lstrip("/")
            if not name.startswith(start):
                raise OSError(f"{self.url!r} lists {found!r}, which does not lie in {path!r}")
            key = unquote(name[len(start) :]) if is_http(self.fs) else name[len(start) :]
            yield Found(key, facts.get("size") or 0, time_of(facts))

    def above(self) -> FsspecStore | None:
        """Return the directory around this one; None around a bucket or a host."""
        parent, _, name = self.root.rpartition("/")
        if self.root.startswith("/"):
            parent = parent or "/"
        inside = bool(self.fs.storage_options.get("fo"))  # of a file with files in it
        ends = not name or parent.endswith(("//", ":")) or (not parent and not inside)
        return None if ends else FsspecStore(self.fs, parent)

    def stamp(self, key: str) -> object:
        """Return what the server says of the file: an etag, a time, a size."""
        path = self._path(key)
        forget(self.fs, path)
        try:
            return self.fs.ukey(path)
        except _MISSING:
            return None


def _remove_folder(fs: AbstractFileSystem, path: str) -> None:
    try:
        fs.rmdir(path)
    except (OSError, NotImplementedError):
        return  # most object stores have no folders


def _missing_or_raise(item: object) -> bytes | None:
    if isinstance(item, _MISSING):
        return None
    if isinstance(item, BaseException):
        raise item
    return cast("bytes", item)
