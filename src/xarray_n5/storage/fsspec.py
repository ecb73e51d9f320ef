"""Everything that fsspec reaches: object stores, HTTP, zip files, other people's filesystems."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fsspec import AbstractFileSystem

    from xarray_n5.compression import Buffer

_MISSING = (FileNotFoundError, NotADirectoryError)
"""What means that there is nothing at a key; no other error does."""

_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@|(?<=[?&])[^=&]*=[^&]*")


@dataclass(frozen=True, slots=True)
class FsspecStore:
    """A path on an fsspec filesystem.

    Only ``FileNotFoundError`` means that a key is missing. A refused or broken request raises:
    fsspec's ``on_error="omit"`` would turn it into zeros.
    """

    fs: AbstractFileSystem
    """The filesystem."""
    root: str
    """The container's path on it, without protocol."""
    batch: ClassVar[int] = 64
    """How many keys are worth one call of :meth:`get_many`: they travel together."""

    @classmethod
    def from_url(cls, url: str, storage_options: Mapping[str, Any]) -> FsspecStore:
        """Return the store at an fsspec URL."""
        from fsspec.core import url_to_fs

        fs, root = url_to_fs(url, **storage_options)
        return cls(fs, root.rstrip("/"))

    @property
    def url(self) -> str:
        """The URL without credentials, for messages."""
        return _CREDENTIALS.sub("", str(self.fs.unstrip_protocol(self.root)))

    @property
    def token(self) -> object:
        """What tells this store from others; no option that might be a secret goes into it."""
        endpoint = getattr(self.fs, "endpoint_url", None) or getattr(self.fs, "fo", None)
        return ("fsspec", self.url, endpoint if isinstance(endpoint, str) else None)

    def __repr__(self) -> str:
        """Name the place, not the options: they may hold secrets."""
        return f"FsspecStore({self.url!r})"

    def __dask_tokenize__(self) -> object:
        """Return a token that is the same in every process."""
        return self.token

    def _path(self, key: str) -> str:
        return join(self.root, key)

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key` in one request."""
        try:
            return cast("bytes", self.fs.cat_file(self._path(key)))
        except _MISSING:
            return None

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes at each key, fetched concurrently."""
        if len(keys) <= 1:
            return [self.get(key) for key in keys]
        paths = [self._path(key) for key in keys]
        found = self.fs.cat_ranges(
            paths, [None] * len(paths), [None] * len(paths), on_error="return"
        )
        return [_missing_or_raise(item) for item in found]

    def set(self, key: str, data: Buffer) -> None:
        """Put the bytes at `key`: in one request, or by a rename where there are real files."""
        path = self._path(key)
        if not _has_files(self.fs):
            self.fs.pipe_file(path, bytes(data))
            return
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.partial"
        self.fs.makedirs(folder, exist_ok=True)
        self.fs.pipe_file(temporary, bytes(data))
        self.fs.mv(temporary, path)

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        try:
            self.fs.info(self._path(key))
        except _MISSING:
            return False
        return True

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files."""
        for key in keys:
            try:
                self.fs.rm_file(self._path(key))
            except FileNotFoundError:
                continue

    def delete_tree(self, prefix: str) -> None:
        """Remove everything under `prefix`."""
        path = self._path(prefix)
        self.fs.invalidate_cache(path)
        try:
            self.fs.rm(path, recursive=True)
        except FileNotFoundError:
            return

    def list(self, prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names directly under `prefix`, as they are now: never from a cache."""
        path = self._path(prefix)
        self.fs.invalidate_cache(path)
        try:
            entries = self.fs.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return (), ()
        folders: set[str] = set()
        files: set[str] = set()
        for entry in entries:
            full = entry["name"].rstrip("/")
            name = full.rpartition("/")[2]
            if name and full != path.rstrip("/"):
                (folders if entry["type"] == "directory" else files).add(name)
        return tuple(sorted(folders)), tuple(sorted(files))

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over the keys under `prefix`, relative to it."""
        path = self._path(prefix)
        self.fs.invalidate_cache(path)
        start = self.fs._strip_protocol(path).rstrip("/") + "/"  # noqa: SLF001
        for found in self.fs.find(path):
            name = found if found.startswith(start) else "/" + found
            yield name[len(start) :]

    def stamp(self, key: str) -> object:
        """Return what the server says of the file: an etag, a time, a size."""
        try:
            return self.fs.ukey(self._path(key))
        except _MISSING:
            return None


def join(*parts: str) -> str:
    """Return `parts` as one path.

    >>> join("a/", "", "b/c")
    'a/b/c'
    """
    return "/".join(part.rstrip("/") for part in parts if part)


def split(place: object) -> tuple[AbstractFileSystem, str] | None:
    """Return the filesystem and path of an fsspec mapper, a UPath or a pair; else None."""
    match place:
        case (pair_fs, str(path)) if hasattr(pair_fs, "cat_file"):
            return pair_fs, path.rstrip("/")
    fs: Any = getattr(place, "fs", None)
    root = getattr(place, "root" if hasattr(place, "getitems") else "path", None)
    if hasattr(fs, "cat_file") and isinstance(root, str):
        return fs, root.rstrip("/") or root
    return None


def _missing_or_raise(item: object) -> bytes | None:
    if isinstance(item, _MISSING):
        return None
    if isinstance(item, BaseException):
        raise item
    return cast("bytes", item)


def _has_files(fs: AbstractFileSystem) -> bool:
    """Return whether a write to `fs` can be seen half done, and a rename mends that."""
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
    return bool({"file", "local", "sftp", "ssh", "smb"} & set(protocols))
