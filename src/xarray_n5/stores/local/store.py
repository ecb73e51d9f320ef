"""Containers in local directories, by plain system calls."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass, field, replace
from functools import lru_cache, wraps
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, TypeVar

from xarray_n5.errors import PathError
from xarray_n5.model.paths import join, meant_by, partial_key
from xarray_n5.stores._errors import unfit_name
from xarray_n5.stores._filesystems import local_path
from xarray_n5.stores.base import ObjectInfo, Store
from xarray_n5.stores.local.files import (
    flush_folder,
    keep_permissions,
    make_folders,
    permissions,
)
from xarray_n5.stores.local.links import MISSING, check_folder, folder_to_write, stat_inside
from xarray_n5.stores.local.listing import is_hidden, names_in, status, walk_below
from xarray_n5.stores.local.lock import locked
from xarray_n5.stores.local.opening import create, open_to_read, read_part
from xarray_n5.stores.local.removal import remove_inside, remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.base import Listing, Range

T = TypeVar("T")

_LARGEST = 1 << 30

_TRIES = 20
"""The number of attempts to create a file in a directory that other processes remove."""


def _named(method: Callable[..., T]) -> Callable[..., T]:
    """Convert the system's errors for names that it cannot have."""

    @wraps(method)
    def call(self: LocalStore, *arguments: Any) -> T:
        try:
            return method(self, *arguments)
        except (OSError, UnicodeEncodeError) as error:
            if (why := unfit_name(error)) is None:
                raise
            named = getattr(error, "filename", None) or arguments[0]
            raise PathError(f"{named!r}: {why}") from error

    return call


_LOCAL = re.compile(r"(?:file|local)://")


@dataclass(frozen=True, slots=True)
class LocalStore(Store):
    """A directory.

    A write goes to a hidden file with a unique name, which then replaces the old one: readers see
    the old bytes or the new ones, and a killed write leaves the old ones. Renaming works on network
    mounts that refuse links.

    The directory may be reached through links. Links that leave it are never written or removed
    through, and only read with `follow_links`.
    """

    root: str
    """The directory's absolute path."""
    fsync: bool = False
    """Whether a write waits until it is durable."""
    follow_links: bool = False
    """Whether links that leave the directory are read and listed."""
    limit: int = field(default=_LARGEST, compare=False, repr=False)
    """The maximum size of a file; one more byte is read, to detect larger files."""

    @classmethod
    def at(cls, location: object, options: Mapping[str, Any]) -> Self | None:
        """Return the store at a path, a ``file://`` URL, or a path on fsspec's local filesystem."""
        follow = options.get("follow_links", False)
        if not isinstance(follow, bool):
            raise TypeError(f"follow_links is {follow!r}; expected True or False")
        if isinstance(location, cls):
            return location
        path = _LOCAL.sub("", location) if isinstance(location, str) else local_path(location)
        if isinstance(location, str) and path and ("::" in path or "://" in path):
            return None
        if path is None and isinstance(location, os.PathLike):
            path = os.fsdecode(location)
        if path is None:
            return None
        # The path is the same however it is named: tokens depend on it.
        root = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
        return cls(root, follow_links=follow)

    @property
    def url(self) -> str:
        """The directory's path."""
        return self.root

    @property
    def name(self) -> str:
        """The directory's name."""
        return os.path.basename(self.root)  # noqa: PTH119

    def identity(self, path: str) -> object:
        """Return a value that identifies a node."""
        return ("local", os.path.realpath(self._path(path)))

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}" if key else self.root

    @_named
    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`: one open, one read."""
        opened = open_to_read(self.root, key, follow=self.follow_links)
        if opened is None:
            return None
        file, size = opened
        try:
            # A file larger than the limit, such as a sparse one, is read as if it were truncated.
            return read_part(file, 0, min(size, self.limit + 1))
        except IsADirectoryError:
            return None
        finally:
            os.close(file)

    @_named
    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key` and the file's size."""
        opened = open_to_read(self.root, key, follow=self.follow_links)
        if opened is None:
            return None
        file, size = opened
        try:
            return read_part(file, 0, min(count, size)), size
        except IsADirectoryError:
            return None
        finally:
            os.close(file)

    @_named
    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[bytes | None]:
        """Return the bytes of parts of files; consecutive parts of one file open it once."""
        found: list[bytes | None] = []
        for key, parts in groupby(ranges, attrgetter("key")):
            opened = open_to_read(self.root, key, follow=self.follow_links)
            if opened is None:
                found += [None for _ in parts]
                continue
            file, size = opened
            try:
                found += [read_part(file, *slice(p.start, p.stop).indices(size)[:2]) for p in parts]
            finally:
                os.close(file)
        return found

    def with_fsync(self) -> Self:
        """Return the store with :attr:`fsync`."""
        return replace(self, fsync=True)

    def with_limit(self, nbytes: int) -> LocalStore:
        """Return the store with a :attr:`limit`."""
        return _limited(self, nbytes)

    def _locked(self, path: str) -> AbstractContextManager[bool]:
        """Lock a node's directory by an advisory lock, which ends with the process."""
        return locked(folder_to_write(self.root, path), flush=self.fsync)

    @_named
    def set(self, key: str, data: Buffer) -> None:
        """Replace the file at `key` atomically, keeping its permissions."""
        # Unique per attempt: a task that runs twice at the same time must not share it.
        hidden, before = partial_key(key), permissions(self._path(key))
        try:
            file, folder = self._create(hidden, before)
        except (NotADirectoryError, FileExistsError) as error:
            raise NotADirectoryError(
                error.errno, "its parent is a file, not a directory", self._path(key)
            ) from error
        path = f"{folder}/{key.rpartition('/')[2]}"
        temporary = f"{folder}/{hidden.rpartition('/')[2]}"
        try:
            try:
                nbytes = memoryview(data).nbytes
                done = os.write(file, data) if nbytes else 0
                while done < nbytes:  # a system may write less than it is given
                    done += os.write(file, memoryview(data).cast("B")[done:])
                if before is not None:
                    keep_permissions(file, before)
                if self.fsync:
                    os.fsync(file)
            finally:
                os.close(file)
            os.replace(temporary, path)  # noqa: PTH105
            if self.fsync:
                flush_folder(folder)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            if isinstance(error, OSError) and error.filename is None:
                error.filename = path  # errors of a full disk do not name the file
            raise

    def _create(self, key: str, before: os.stat_result | None) -> tuple[int, str]:
        """Create a file, and its directory if missing; never with more permissions than before.

        Return the file's descriptor and the path of its directory.
        """
        mode = 0o666 if before is None else before.st_mode & 0o700
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError):
                return create(self.root, key, mode)
            # Another process may remove a directory while it is empty.
            prefix = key.rpartition("/")[0]
            make_folders(folder_to_write(self.root, prefix), flush=self.fsync)
        return create(self.root, key, mode)

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        found = self._stat(key)
        return found is not None and not stat.S_ISDIR(found.st_mode)

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        found = self._stat(prefix)
        return found is not None and stat.S_ISDIR(found.st_mode)

    @_named
    def _stat(self, key: str) -> os.stat_result | None:
        return stat_inside(self.root, key, follow=self.follow_links)

    @_named
    def delete(self, keys: Iterable[str]) -> None:
        """Remove files; directories are kept: a writer may be about to use them."""
        for key in keys:
            prefix, _, name = key.rpartition("/")
            folder = check_folder(self.root, prefix, follow=False)
            if folder is not None:
                with contextlib.suppress(*MISSING):
                    os.unlink(f"{folder.real}/{name}")  # noqa: PTH108

    @_named
    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove all under `prefix`, beginning with the key `first`; of a link, the link."""
        if prefix:
            above, _, name = prefix.rpartition("/")
            folder = check_folder(self.root, above, follow=False)
            if folder is not None:
                remove_tree(folder.real, name, first)
            return
        # Nodes disappear one by one, the root's own document last.
        for each in self.list("")[0]:
            if not each.startswith("."):
                self.delete_tree(each, first)
        self.delete([first])
        remove_inside(os.path.realpath(self.root))
        if not os.path.islink(self.root):  # noqa: PTH114
            with contextlib.suppress(OSError):
                os.rmdir(self.root)  # noqa: PTH106

    def is_link(self, prefix: str) -> bool:
        """Return whether there is a symbolic link at `prefix`."""
        return os.path.islink(self._path(prefix))  # noqa: PTH114

    def clear_folder(self, prefix: str) -> None:
        """Remove an empty directory, or a symbolic link; anything else stays."""
        path = self._path(prefix)
        with contextlib.suppress(OSError):
            if os.path.islink(path):  # noqa: PTH114
                os.unlink(path)  # noqa: PTH108
            else:
                os.rmdir(path)  # noqa: PTH106

    @_named
    def list(self, prefix: str) -> Listing:
        """Return the names of directories and of files in the directory at `prefix`.

        Links that leave the container are listed and not followed; links to parent directories are
        left out.
        """
        return names_in(self.root, prefix, follow=self.follow_links)

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over the files under `prefix`, relative to it, without loops of links."""
        return (key for key, _ in walk_below(self.root, prefix, follow=self.follow_links))

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over the files under `prefix`, with sizes and times."""
        for key, entry in walk_below(self.root, prefix, follow=self.follow_links):
            if entry.is_symlink():
                found = None if is_hidden(key) else self._stat(join(prefix, key))
            else:
                found = status(entry)
            if found is not None:
                yield ObjectInfo(key, found.st_size, found.st_mtime)

    def list_partials(self, prefix: str) -> Iterator[str]:
        """Iterate over the hidden files that killed writes left."""
        return (key for key in self.walk(prefix) if meant_by(key))

    def parent(self) -> LocalStore | None:
        """Return the store of the parent directory."""
        parent = os.path.dirname(self.root)  # noqa: PTH120
        if parent == self.root:
            return None
        return LocalStore(parent, follow_links=self.follow_links)

    def child(self, path: str) -> LocalStore:
        """Return the store of a directory in this one."""
        return LocalStore(self._path(path), follow_links=self.follow_links)

    def etag(self, key: str) -> object:
        """Return the file's time and size."""
        found = self._stat(key)
        return None if found is None else (found.st_mtime_ns, found.st_size)

    def stamp(self, key: str) -> object:
        """Return a stamp that identifies a file and its state; None if it does not exist."""
        try:
            found = os.stat(self._path(key))  # noqa: PTH116 - whose target is not opened
        except OSError:
            return None
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@lru_cache(maxsize=64)
def _limited(store: LocalStore, nbytes: int) -> LocalStore:
    return replace(store, limit=nbytes)  # takes a good part of the time to read a small chunk
