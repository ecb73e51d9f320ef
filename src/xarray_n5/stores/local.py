"""Containers in local directories, shared mounts included.

Links are followed, or refused, by :func:`_folders.hold`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Self

from xarray_n5.errors import UnsafePathError
from xarray_n5.model.paths import join
from xarray_n5.stores import _folders as folders
from xarray_n5.stores._errors import MISSING
from xarray_n5.stores._filesystems import local_path
from xarray_n5.stores.base import FilePart, ObjectInfo, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.model.metadata import Buffer
    from xarray_n5.stores._folders import Child, Folder
    from xarray_n5.stores.base import Listing, Range

if sys.platform != "win32":
    import fcntl

_LARGEST = 1 << 30
"""The maximum size of a file in bytes; one more byte is read, to detect larger files."""

_MOST_LINKS = 10_000
"""The maximum number of links to directories that one walk follows."""

_PATIENCE = 30.0
"""The seconds to wait for a process that holds a lock: it may be suspended."""

_TRIES = 20
"""The number of attempts to create a file in a directory that other processes remove."""


@dataclass(frozen=True, slots=True)
class LocalStore(Store):
    """A directory.

    A write goes to a hidden file with a unique name, which then replaces the old one: readers see
    the old bytes or the new ones, and a killed write leaves the old ones. Renaming works on network
    mounts that refuse links.
    """

    root: str
    """The directory's absolute path."""
    fsync: bool = False
    """Whether a write waits until it is durable."""
    follow_links: bool = False
    """Whether links that leave the directory are read and listed."""
    inside: str = ""
    """A hidden directory in `root` that all keys are in; it is never a link."""

    @classmethod
    def at(cls, location: object, options: Mapping[str, Any]) -> Self | None:
        """Return the store at a path, a ``file://`` URL, or a path on fsspec's local filesystem."""
        if not isinstance(follow := options.get("follow_links", False), bool):
            raise TypeError(f"follow_links is {follow!r}; expected True or False")
        if isinstance(location, cls):
            return location
        path = local_path(location)
        if isinstance(location, str):
            path = location.removeprefix("file://").removeprefix("local://")
            if "::" in path or "://" in path:
                return None
        if path is None and isinstance(location, os.PathLike):
            path = os.fsdecode(location)
        if path is None:
            return None
        # The path is the same however it is named: tokens depend on it.
        root = os.path.abspath(os.path.expanduser(path)).replace(os.sep, "/")
        return cls(root, follow_links=follow)

    @property
    def url(self) -> str:
        """The directory's path."""
        return self._path("")

    def identity(self, path: str) -> object:
        """Return a value that identifies a node."""
        return ("local", os.path.realpath(self._path(path)))

    def parent(self) -> LocalStore | None:
        """Return the store of the parent directory."""
        above = self.root if self.inside else os.path.dirname(self.root)
        ends = above == self.root and not self.inside
        return None if ends else LocalStore(above, follow_links=self.follow_links)

    def child(self, path: str) -> LocalStore:
        """Return the store of a directory in this one."""
        return LocalStore(self._path(path), follow_links=self.follow_links)

    def with_fsync(self) -> Self:
        """Return the store with :attr:`fsync`."""
        return replace(self, fsync=True)

    def _below(self, key: str) -> str:
        """Return a key relative to the root."""
        return join(self.inside, key) if self.inside else key

    def _path(self, key: str) -> str:
        return join(self.root, self._below(key))

    # Reading

    def get(self, key: str, most: int | None = None) -> bytes | None:
        """Return the bytes at `key`: one open, one read."""
        # A file larger than the limit, such as a sparse one, is read as if it were truncated.
        head = self.head(key, (_LARGEST if most is None else most) + 1)
        return None if head is None else head[0]

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key` and the file's size."""
        opened = folders.open_file(self.root, self._below(key), follow=self.follow_links)
        if opened is None:
            return None
        file, size = opened
        try:
            return _read_part(file, 0, min(count, size)), size
        finally:
            os.close(file)

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        """Return the bytes of parts of files; consecutive parts of one file open it once."""
        read: list[FilePart | None] = []
        for key, parts in groupby(ranges, attrgetter("key")):
            opened = folders.open_file(self.root, self._below(key), follow=self.follow_links)
            if opened is None:
                read += [None for _ in parts]
                continue
            file, size = opened
            try:
                bounds = [slice(part.start, part.stop).indices(size)[:2] for part in parts]
                data = [_read_part(file, *piece) for piece in bounds]
                state = _state_of(os.fstat(file))
            finally:
                os.close(file)
            read += [FilePart(piece, state) for piece in data]
        return read

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`."""
        status = self._stat(key)
        return status is not None and not stat.S_ISDIR(status.st_mode)

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        status = self._stat(prefix)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def etag(self, key: str, *, free: bool = False) -> object:
        """Return the file's time, size and number."""
        status = self._stat(key)
        return None if status is None else _state_of(status)

    def _stat(self, key: str) -> os.stat_result | None:
        """Return the status of a file or directory, or of a link's target; None if missing."""
        prefix, _, name = (inner := self._below(key)).rpartition("/")
        with contextlib.suppress(*MISSING):
            if not inner:
                return os.stat(self.root)
            if (folder := folders.find(self.root, prefix, follow=self.follow_links)) is not None:
                with folder:
                    status = folder.stat(name)
                    if folders.is_link(status):
                        link = folders.resolve(folder, name, inner, follow=self.follow_links)
                        status = os.stat(link)
                return status
        return None

    # Listing

    def list(self, prefix: str) -> Listing:
        """Return the names of directories and of files in the directory at `prefix`.

        A link that leaves the container is listed like its target. Links to parent directories and,
        below a link, all other links are left out, so that walks over groups end.
        """
        linked, children = self._children(prefix)
        nested = linked and not self.follow_links
        below = (c.name for c in children if c.is_folder and not (nested and c.linked))
        return tuple(below), tuple(c.name for c in children if not c.is_folder)

    def _children(self, prefix: str, *, statuses: bool = False) -> tuple[bool, Sequence[Child]]:
        """Return whether links lead to a directory, and what is in it.

        Links to it, and to directories around it, are left out.
        """
        inner = self._below(prefix)
        folder = folders.find(self.root, inner, follow=self.follow_links)
        if folder is None:
            return False, ()
        with folder:
            children = folder.children(statuses=statuses)
        if any(child.linked and child.is_folder for child in children):
            parts = inner.split("/")
            around = [join(self.root, *parts[:count]) for count in range(len(parts) + 1)]
            outer = [os.path.realpath(path) for path in around]
            children = [
                child
                for child in children
                if not (child.linked and child.is_folder)
                or not folders.leads_above(join(folder.path, child.name), outer)
            ]
        return folder.linked, children

    def list_info(self, prefix: str, *, sizes: bool = True) -> Iterator[ObjectInfo]:
        """Iterate over the files under `prefix`.

        Links inside the container are followed, except to parent directories. Hidden links to
        directories count as files: chunks are never there.

        Raises
        ------
        UnsafePathError
            If a link to a directory leaves the container and is not followed: the stored chunks
            are unknown then. Also if links form more paths than can be walked.
        """
        level, links = [""], 0
        while level:
            inner = level.pop()
            below: list[str] = []
            for child in self._children(join(prefix, inner), statuses=sizes)[1]:
                key = join(inner, child.name)
                hidden = child.linked and not self.follow_links and "/." in f"/{key}"
                if child.is_folder and not hidden:
                    links += child.linked
                    below.append(key)
                elif not sizes:
                    yield ObjectInfo(key)
                else:
                    status = child.status
                    if child.linked:
                        status = None if hidden else self._stat(join(prefix, key))
                    if status is not None:
                        yield ObjectInfo(key, status.st_size, status.st_mtime)
            if links > _MOST_LINKS:
                why = f"leads through more than {_MOST_LINKS} links; remove loops of them"
                raise UnsafePathError(self.root, self._below(join(prefix, inner)), why)
            level += reversed(below)

    # Writing

    def set(self, key: str, data: Buffer) -> None:
        """Replace the file at `key` atomically, keeping its permissions."""
        prefix, _, name = self._below(key).rpartition("/")
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError), self._made(key, prefix) as folder:
                return folder.write(name, data, durable=self.fsync)
            # Another process may remove an empty directory, or a hidden file as one that is left.
        with self._made(key, prefix) as folder:
            return folder.write(name, data, durable=self.fsync)

    @contextlib.contextmanager
    def _made(self, key: str, prefix: str) -> Iterator[Folder]:
        """Open a directory, which is created if missing, for `key`, which errors name."""
        try:
            try:
                folder, missing = folders.hold(self.root, prefix)
            except FileNotFoundError:
                _make_root(self.root, durable=self.fsync)
                folder, missing = folders.hold(self.root, prefix)
            for name in missing:
                folder = folder.make(name, durable=self.fsync)
            with folder:
                yield folder
        except (NotADirectoryError, FileExistsError) as error:
            why = "its parent is a file, not a directory"
            raise NotADirectoryError(error.errno, why, self._path(key)) from error
        except OSError as error:
            if not isinstance(error, UnsafePathError):
                error.filename = self._path(key)  # errors of a full disk do not name the file
            raise

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files; directories are kept: a writer may be about to use them."""
        parts = (self._below(key).rpartition("/") for key in keys)
        for prefix, keyed in groupby(parts, itemgetter(0)):
            folder = folders.find(self.root, prefix)
            if folder is None:
                continue
            with folder:
                for _, _, name in keyed:
                    with contextlib.suppress(*MISSING):
                        folder.unlink(name)

    def delete_tree(self, prefix: str, first: str) -> None:
        """Remove all under `prefix`, beginning with the file `first` in it; of a link, the link."""
        inner = self._below(prefix)
        above, _, name = inner.rpartition("/")
        if not inner:
            # Nodes disappear one by one, the root's own document last.
            for child in self.list("")[0]:
                if not child.startswith("."):
                    self.delete_tree(child, first)
            self.delete([first])
        folder = folders.find(self.root, above)
        if folder is None:
            return
        with folder:
            for entry in [name] if inner else [child.name for child in folder.children()]:
                with contextlib.suppress(*MISSING):
                    folder.remove_tree(entry, first if inner else "")
        if not inner and not os.path.islink(self.root):
            self.clear_folder("")

    def make_folder(self, prefix: str) -> None:
        """Create a directory unless it exists."""
        with self._made(prefix, self._below(prefix)):
            pass

    def clear_folder(self, prefix: str) -> None:
        """Remove an empty directory, or a symbolic link; anything else stays."""
        above, _, name = self._below(prefix).rpartition("/")
        with contextlib.suppress(OSError):
            if not name:
                os.unlink(self.root) if os.path.islink(self.root) else os.rmdir(self.root)
            elif (folder := folders.find(self.root, above)) is not None:
                with folder:
                    folder.remove_empty(name)

    # Locks

    @contextlib.contextmanager
    def exclusive(self, path: str) -> Iterator[bool]:
        """Lock a node's directory by an advisory lock, which ends with the process."""
        with Store.exclusive(self, path):
            file = self._lock(path)
            try:
                yield file is not None
            finally:
                if file is not None:
                    os.close(file)

    def _lock(self, path: str) -> int | None:
        if sys.platform == "win32":  # which has no such locks
            return None
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            file = None
            try:
                with self._made(path, self._below(path)) as folder:
                    file = folder.listable()
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The path may name another directory by now.
                now = self._stat(path)
                if now is not None and os.path.samestat(now, os.fstat(file)):
                    taken, file = file, None
                    return taken
            except BlockingIOError:
                time.sleep(0.002)
            except UnsafePathError:
                raise
            except OSError:
                return None
            finally:
                if file is not None:
                    os.close(file)
        return None


def _state_of(status: os.stat_result) -> tuple[int, ...]:
    """Return the state of a file, which all clients of a file server see alike."""
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _read_part(file: int, start: int, stop: int) -> bytes:
    """Return the bytes of an open file from `start` to `stop`, or to its end."""
    os.lseek(file, start, os.SEEK_SET)
    data = os.read(file, max(0, stop - start))
    while len(data) < stop - start and (more := os.read(file, stop - start - len(data))):
        data += more
    return data


def _make_root(root: str, *, durable: bool) -> None:
    """Make a container and its parents; if `durable`, their names are on disk."""
    missing, above = [], root
    while durable and above and not os.path.isdir(above):
        above = above.rpartition("/")[0]
        missing.append(above)
    os.makedirs(root, exist_ok=True)
    for parent in missing if folders.BY_DESCRIPTOR else ():
        folders.flush(os.open(parent or "/", os.O_RDONLY))
