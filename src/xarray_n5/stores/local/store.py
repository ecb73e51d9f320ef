"""Containers in local directories, by plain system calls."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from xarray_n5.model.paths import final_key, join, partial_key
from xarray_n5.stores._errors import MISSING
from xarray_n5.stores._filesystems import local_path
from xarray_n5.stores.base import ObjectInfo, Store
from xarray_n5.stores.local.folders import (
    Held,
    flush,
    hold,
    hold_to_write,
    keep_permissions,
    locked,
    permissions,
    remove_empty,
    remove_inside,
    remove_tree,
    stat_inside,
)
from xarray_n5.stores.local.listing import is_hidden, names_in, walk_below
from xarray_n5.stores.local.opening import CREATE, named_errors, open_to_read, read_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores.base import Listing, Range

    _Created: TypeAlias = tuple[Held, int, os.stat_result | None]

_LARGEST = 1 << 30

_TRIES = 20
"""The number of attempts to create a file in a directory that other processes remove."""


_LOCAL = re.compile(r"\A(?:file|local)://")


@dataclass(frozen=True, slots=True)
class LocalStore(Store):
    """A directory.

    A write goes to a hidden file with a unique name, which then replaces the old one: readers see
    the old bytes or the new ones, and a killed write leaves the old ones. Renaming works on network
    mounts that refuse links.

    The directory may be reached through links. Links that leave it are never written or removed
    through, and only read with `follow_links`.
    """

    real_folders: ClassVar[bool] = True
    root: str
    """The directory's absolute path."""
    fsync: bool = False
    """Whether a write waits until it is durable."""
    follow_links: bool = False
    """Whether links that leave the directory are read and listed."""
    inside: str = ""
    """A hidden directory in `root` that all keys are in; it is never a link."""
    limit: int = field(default=_LARGEST, compare=False, repr=False)
    """The maximum size of a file; one more byte is read, to detect larger files."""

    @classmethod
    def at(cls, location: object, options: Mapping[str, Any]) -> Self | None:
        """Return the store at a path, a ``file://`` URL, or a path on fsspec's local filesystem."""
        if not isinstance(follow := options.get("follow_links", False), bool):
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
        return self._path("")

    @property
    def name(self) -> str:
        """The directory's name."""
        return os.path.basename(self.url)  # noqa: PTH119

    def identity(self, path: str) -> object:
        """Return a value that identifies a node."""
        return ("local", os.path.realpath(self._path(path)))

    def _below(self, key: str) -> str:
        """Return a key relative to the root."""
        return join(self.inside, key) if self.inside else key

    def _path(self, key: str) -> str:
        return join(self.root, self._below(key))

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key`: one open, one read."""
        # A file larger than the limit, such as a sparse one, is read as if it were truncated.
        found = self.head(key, self.limit + 1)
        return None if found is None else found[0]

    @named_errors
    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key` and the file's size."""
        opened = open_to_read(self.root, self._below(key), follow=self.follow_links)
        if opened is None:
            return None
        file, size = opened
        try:
            return read_part(file, 0, min(count, size)), size
        except IsADirectoryError:
            return None
        finally:
            os.close(file)

    @named_errors
    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[bytes | None]:
        """Return the bytes of parts of files; consecutive parts of one file open it once."""
        found: list[bytes | None] = []
        for key, parts in groupby(ranges, attrgetter("key")):
            opened = open_to_read(self.root, self._below(key), follow=self.follow_links)
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
        return locked(self.root, self._below(path), durable=self.fsync)

    @named_errors
    def set(self, key: str, data: Buffer) -> None:
        """Replace the file at `key` atomically, keeping its permissions."""
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError):
                return self._set(key, data)
            # Another process may remove an empty directory, or a hidden file as one that is left.
        return self._set(key, data)

    def _set(self, key: str, data: Buffer) -> None:
        prefix, _, name = self._below(key).rpartition("/")
        # Unique per attempt: a task that runs twice at the same time must not share it.
        hidden = partial_key(name)
        try:
            held, file, before = self._create(prefix, name, hidden)
        except (NotADirectoryError, FileExistsError) as error:
            raise NotADirectoryError(
                error.errno, "its parent is a file, not a directory", self._path(key)
            ) from error
        base, folder = held
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
            os.replace(base + hidden, base + name, src_dir_fd=folder, dst_dir_fd=folder)
            if self.fsync and folder is not None:
                flush(held.to_read())
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(base + hidden, dir_fd=folder)
            if isinstance(error, OSError):
                error.filename = self._path(key)  # errors of a full disk do not name the file
            raise
        finally:
            held.close()

    def _create(self, prefix: str, name: str, hidden: str) -> _Created:
        """Create a file; return its directory, its descriptor, and what it replaces.

        It never has more permissions than the file before.
        """
        held = hold_to_write(self.root, prefix, durable=self.fsync)
        base, folder = held
        try:
            before = permissions(base + name, folder)
            mode = 0o666 if before is None else before.st_mode & 0o700
            return held, os.open(base + hidden, CREATE, mode, dir_fd=folder), before
        except BaseException as error:
            held.close()
            if isinstance(error, OSError):
                error.filename = join(self.root, prefix, name)
            raise

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        found = self._stat(key)
        return found is not None and not stat.S_ISDIR(found.st_mode)

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        found = self._stat(prefix)
        return found is not None and stat.S_ISDIR(found.st_mode)

    @named_errors
    def _stat(self, key: str) -> os.stat_result | None:
        return stat_inside(self.root, self._below(key), follow=self.follow_links)

    @named_errors
    def delete(self, keys: Iterable[str]) -> None:
        """Remove files; directories are kept: a writer may be about to use them."""
        parts = (self._below(key).rpartition("/") for key in keys)
        for prefix, files in groupby(parts, itemgetter(0)):
            held = hold(self.root, prefix)
            if held is None:
                continue
            with held:
                for _, _, name in files:
                    with contextlib.suppress(*MISSING):
                        os.unlink(held.base + name, dir_fd=held.descriptor)

    @named_errors
    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove all under `prefix`, beginning with the key `first`; of a link, the link."""
        if inner := self._below(prefix):
            above, _, name = inner.rpartition("/")
            if (held := hold(self.root, above)) is not None:
                with held:
                    remove_tree(held, name, first)
            return
        # Nodes disappear one by one, the root's own document last.
        for each in self.list("")[0]:
            if not each.startswith("."):
                self.delete_tree(each, first)
        self.delete([first])
        if (held := hold(self.root, "")) is not None:
            with held:
                remove_inside(held)
        if not os.path.islink(self.root):  # noqa: PTH114
            self.clear_folder("")

    def is_link(self, prefix: str) -> bool:
        """Return whether there is a symbolic link at `prefix`."""
        return os.path.islink(self._path(prefix))  # noqa: PTH114

    def make_folder(self, prefix: str) -> None:
        """Create a directory unless it exists."""
        hold_to_write(self.root, self._below(prefix), durable=self.fsync).close()

    def clear_folder(self, prefix: str) -> None:
        """Remove an empty directory, or a symbolic link; anything else stays."""
        above, _, name = self._below(prefix).rpartition("/")
        with contextlib.suppress(OSError):
            if not name:
                remove_empty(Held("", None), self.root)
            elif (held := hold(self.root, above)) is not None:
                with held:
                    remove_empty(held, name)

    @named_errors
    def list(self, prefix: str) -> Listing:
        """Return the names of directories and of files in the directory at `prefix`.

        Links that leave the container are listed and not followed; links to parent directories are
        left out.
        """
        return names_in(self.root, self._below(prefix), follow=self.follow_links)

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over the files under `prefix`, relative to it, without loops of links."""
        found = walk_below(self.root, self._below(prefix), follow=self.follow_links)
        return (key for key, _ in found)

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over the files under `prefix`, with sizes and times."""
        inner = self._below(prefix)
        for key, entry in walk_below(self.root, inner, follow=self.follow_links, statuses=True):
            found = entry.status
            if entry.linked:
                found = None if is_hidden(key) else self._stat(join(prefix, key))
            if found is not None:
                yield ObjectInfo(key, found.st_size, found.st_mtime)

    def list_partials(self, prefix: str) -> Iterator[str]:
        """Iterate over the hidden files that killed writes left."""
        return (key for key in self.walk(prefix) if final_key(key))

    def parent(self) -> LocalStore | None:
        """Return the store of the parent directory."""
        if self.inside:
            return LocalStore(self.root, follow_links=self.follow_links)
        above = os.path.dirname(self.root)  # noqa: PTH120
        return None if above == self.root else LocalStore(above, follow_links=self.follow_links)

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
