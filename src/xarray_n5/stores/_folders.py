"""Directories and files of a local container, opened one in another: no link can lead elsewhere.

A path that was checked may be replaced by a link before it is used. An open directory stays the
same one, so files are opened, created, renamed and removed by their names in it. Systems that
cannot do that, such as Windows, use paths.

The container's root may be reached through links. Inside, a link is followed if its target is below
the real root. Other links are refused: nothing is written or removed through them, and they are
only read with ``follow_links``.
"""

# Plain system calls on strings, for speed.
from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, Self

from xarray_n5.errors import UnsafePathError
from xarray_n5.model.paths import join, partial_key
from xarray_n5.stores._errors import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from xarray_n5.model.metadata import Buffer

BY_DESCRIPTOR = {os.open, os.unlink, os.rename, os.stat, os.mkdir, os.rmdir} <= os.supports_dir_fd
"""Whether the system can use names in an open directory."""


def _flags(*names: str) -> int:
    """Return flags to open a file, without those that the system does not have."""
    return sum(getattr(os, f"O_{name}", 0) for name in names)


_NOFOLLOW = _flags("NOFOLLOW")

_TO_PASS = _flags("DIRECTORY", "PATH")
"""Flags to open a directory that need not be readable."""

_TO_LIST = _flags("DIRECTORY")
"""Flags to open a directory in order to list, lock or flush it."""

_NONBLOCK = _flags("NONBLOCK")
"""Opening a FIFO for reading would wait for a writer."""

_TO_READ = _flags("BINARY", "NOCTTY") | _NONBLOCK

_TO_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flags("BINARY")

_LINKED = {errno.ELOOP, errno.ENOTDIR}
"""Errors of systems for a link that was not expected."""

_SOCKET = {errno.ENXIO, errno.EOPNOTSUPP}
"""Errors for sockets, which cannot be opened."""

_TRIES = 20
"""The number of attempts to replace a file that another program of Windows has open."""

_MOST_TURNS = 1000
"""The maximum number of links on the way to a file; others may change them all the time."""

_HIDDEN = "is a link, but hidden directories must not be links; remove it"
_OUTSIDE = "is a link to {!r}, outside of the container; copy its target into the container"
_NOWHERE = "is a link to {!r}, which does not exist; restore the target, or remove the link"
_NOT_REGULAR = "is not a regular file, but a FIFO, a device or a socket; remove it"


class Child(NamedTuple):
    """A name in a directory."""

    name: str
    is_folder: bool
    """Whether it, or the target of a link, is a directory."""
    linked: bool
    """Whether it is a link."""
    status: os.stat_result | None
    """Its own status, if requested; None if it is gone."""


class Folder(NamedTuple):
    """A directory of a container that is held open, or its path where that is impossible."""

    fd: int | None
    """The descriptor of the open directory."""
    root: str
    """The container."""
    path: str
    """The path to it; the container itself may be reached through links."""
    linked: bool = False
    """Whether links in the container lead to it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self.fd is not None:
            os.close(self.fd)

    def _at(self, name: str) -> str:
        """Return the name of a file in the open directory, or its path."""
        return f"{self.path}/{name}" if self.fd is None else name

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a file or directory in it, or of a link itself."""
        return os.stat(self._at(name), dir_fd=self.fd, follow_symlinks=False)

    def open(self, name: str) -> int:
        """Return the descriptor of a file in it; a link is an error.

        A FIFO is not waited for, but a file server with a lease on a file is.
        """
        path, flags = self._at(name), _TO_READ | _NOFOLLOW
        if self.fd is None and is_link(os.lstat(path)):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        try:
            return os.open(path, flags, dir_fd=self.fd)
        except BlockingIOError:
            if not stat.S_ISREG(self.stat(name).st_mode):
                raise
            return os.open(path, flags & ~_NONBLOCK, dir_fd=self.fd)

    def listable(self) -> int:
        """Return another descriptor of the directory, which can be listed, locked and flushed."""
        return os.open(self.path if self.fd is None else ".", _TO_LIST, dir_fd=self.fd)

    def flush(self) -> None:
        """Make renames in it durable."""
        if self.fd is not None:
            flush(self.listable())

    def children(self, *, statuses: bool = False) -> list[Child]:
        """Return the names in it, sorted; none if it is gone; with `statuses`, also those."""
        children: list[Child] = []
        with contextlib.suppress(*MISSING):
            listed = self.path if self.fd is None else self.listable()
            try:
                with os.scandir(listed) as entries:
                    children = [_child(entry, statuses=statuses) for entry in entries]
            finally:
                if isinstance(listed, int):
                    os.close(listed)
        return sorted(children, key=attrgetter("name"))

    # Changes

    def make(self, name: str, *, durable: bool) -> Folder:
        """Return the directory in it with a name, which is made first, and close this one."""
        with self:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._at(name), dir_fd=self.fd)
            if durable:
                self.flush()  # even if another writer made it, who may not have flushed it yet
            return self._replace(fd=_enter(self._at(name), self.fd), path=join(self.path, name))

    def write(self, name: str, data: Buffer, *, durable: bool) -> None:
        """Replace a file, which never has more permissions than the file before."""
        before = self._permissions_of(name)
        # Unique per attempt: a task that runs twice at the same time must not share it.
        hidden = partial_key(name)
        mode = 0o666 if before is None else before.st_mode & 0o700
        file = os.open(self._at(hidden), _TO_CREATE, mode, dir_fd=self.fd)
        try:
            try:
                view = memoryview(data)
                rest = view.cast("B") if view.nbytes else b""
                while rest:  # a system may write less than it is given
                    rest = rest[os.write(file, rest) :]
                if before is not None:
                    _keep_permissions(file, before)
                if durable:
                    os.fsync(file)
            finally:
                os.close(file)
            self.rename(hidden, name)
            if durable:
                self.flush()
        except BaseException:
            with contextlib.suppress(OSError):
                self.unlink(hidden)
            raise

    def _permissions_of(self, name: str) -> os.stat_result | None:
        """Return the status of a file to be replaced, or None if there is nothing to keep."""
        if not hasattr(os, "fchmod") or os.name == "nt":
            return None
        try:
            status = self.stat(name)
        except MISSING:
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def rename(self, name: str, new: str) -> None:
        """Rename a file or directory; a file replaces another one.

        On Windows, other programs have files open for a moment.
        """
        for left in reversed(range(_TRIES if os.name == "nt" else 1)):
            try:
                return os.replace(
                    self._at(name), self._at(new), src_dir_fd=self.fd, dst_dir_fd=self.fd
                )
            except PermissionError:
                if not left:
                    raise
                time.sleep(0.01)
        return None

    def unlink(self, name: str) -> None:
        """Remove a file or a link."""
        os.unlink(self._at(name), dir_fd=self.fd)

    def remove_tree(self, name: str, first: str = "") -> None:
        """Remove a file, or a directory and everything in it, `first` first; of a link, the link.

        Unless a directory is hidden already, it is renamed before, so that a killed process does
        not leave half an array.
        """
        status = self.stat(name)
        if is_link(status) or not stat.S_ISDIR(status.st_mode):
            return self.unlink(name)
        if not name.startswith("."):
            name, old = partial_key(name), name
            self.rename(old, name)
        if first:
            with contextlib.suppress(*MISSING):
                fd = _enter(self._at(name), self.fd)
                with self._replace(fd=fd, path=join(self.path, name)) as folder:
                    folder.unlink(first)
        return shutil.rmtree(self._at(name), dir_fd=self.fd)

    def remove_empty(self, name: str) -> None:
        """Remove an empty directory, or a symbolic link; anything else is an error."""
        if is_link(self.stat(name)):
            self.unlink(name)
        else:
            os.rmdir(self._at(name), dir_fd=self.fd)


def _child(entry: os.DirEntry[str], *, statuses: bool) -> Child:
    linked, status = entry.is_symlink(), None
    with contextlib.suppress(*MISSING):
        if statuses or os.name == "nt":
            status = entry.stat(follow_symlinks=False)
            linked = is_link(status)
    return Child(entry.name, entry.is_dir(), linked, status)


def _enter(path: str, above: int | None = None) -> int | None:
    """Open a directory in another one, or check its path; a link is an error."""
    if BY_DESCRIPTOR:
        return os.open(path, _TO_PASS | _NOFOLLOW, dir_fd=above)
    status = os.lstat(path)
    if is_link(status) or not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return None


def _descend(top: str, names: list[str]) -> tuple[int | None, int, OSError | None]:
    """Enter directories one by one, and close those above; stop at the first error."""
    fd = os.open(top, _TO_PASS) if BY_DESCRIPTOR else _enter(os.path.realpath(top))
    for count, name in enumerate(names):
        try:
            below = _enter(name if BY_DESCRIPTOR else join(top, *names[: count + 1]), fd)
        except OSError as error:
            return fd, count, error
        except BaseException:
            if fd is not None:
                os.close(fd)
            raise
        if fd is not None:
            os.close(fd)
        fd = below
    return fd, len(names), None


def hold(root: str, prefix: str, *, follow: bool = False) -> tuple[Folder, list[str]]:
    """Open the innermost existing directory on the way to a prefix of a container.

    Return it, and the names below it that do not exist.

    Raises
    ------
    FileNotFoundError
        If there is no container.
    NotADirectoryError
        If there is a file instead.
    UnsafePathError
        If a link leads out of the container and `follow` is false, or to nothing; also if a hidden
        directory, or one in it, is a link and `follow` is false: these are the package's own.
    """
    wanted = prefix.split("/") if prefix else []
    names, top, linked = wanted, root, False
    for _ in range(_MOST_TURNS):
        fd, count, error = _descend(top, names)
        folder = Folder(fd, root, join(top, *names[:count]), linked)
        if error is None or isinstance(error, FileNotFoundError):
            return folder, names[count:]
        with folder:
            name, *rest = names[count:]
            status = folder.stat(name)
            linked_now = is_link(status)
            if error.errno not in _LINKED or not (linked_now or stat.S_ISDIR(status.st_mode)):
                raise error
            names, top = wanted, root
            if not linked_now:
                continue  # it was a link until now
            key = "/".join(wanted[: len(wanted) - len(rest)])
            if not follow and "/." in f"/{key}":
                raise UnsafePathError(root, key, _HIDDEN)
            target = resolve(folder, name, key, follow=follow)
        inner, linked = inner_path(root, target), True
        names = [*inner.split("/"), *rest] if inner else rest
        top = target if inner is None else root
    raise UnsafePathError(root, prefix, f"leads through more than {_MOST_TURNS} links; remove them")


def find(root: str, prefix: str, *, follow: bool = False) -> Folder | None:
    """Open the directory at a prefix of a container as :func:`hold` does; None if there is none."""
    try:
        folder, missing = hold(root, prefix, follow=follow)
    except MISSING:
        return None
    if not missing:
        return folder
    with folder:
        return None


def open_file(root: str, key: str, *, follow: bool) -> tuple[int, int] | None:
    """Open the regular file at a key; return its descriptor and size, or None.

    A FIFO, a device or a socket is an error at once, without waiting.

    Raises
    ------
    UnsafePathError
        If it is not a regular file, or like :func:`hold`.
    """
    try:
        file = _open_in(root, key, follow=follow) if key else os.open(root, _TO_READ)
    except MISSING:
        return None
    except OSError as error:
        if error.errno in _SOCKET:
            raise UnsafePathError(root, key, _NOT_REGULAR) from error
        raise
    status = os.fstat(file)
    if stat.S_ISREG(status.st_mode):
        return file, status.st_size
    os.close(file)
    if stat.S_ISDIR(status.st_mode):
        return None
    raise UnsafePathError(root, key, _NOT_REGULAR)


def _open_in(root: str, key: str, *, follow: bool) -> int:
    prefix, _, name = key.rpartition("/")
    folder, missing = hold(root, prefix, follow=follow)
    with folder:
        if missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
        try:
            return folder.open(name)
        except OSError as error:
            if error.errno not in _LINKED:
                raise
        if not is_link(folder.stat(name)):  # it was one until now
            return folder.open(name)
        target = resolve(folder, name, key, follow=follow)
    inner = inner_path(root, target)
    return os.open(target, _TO_READ) if inner is None else _open_in(root, inner, follow=follow)


def _keep_permissions(file: int, before: os.stat_result) -> None:
    """Give a new file the group and the mode of the one that it replaces.

    If it cannot have the group, its own group gets no more rights than everybody.
    """
    after, mode = os.fstat(file), before.st_mode & 0o777
    with contextlib.suppress(OSError):  # file systems without permissions refuse
        if after.st_gid != before.st_gid:
            try:
                os.fchown(file, -1, before.st_gid)
            except OSError:
                mode = (mode & ~0o070) | (mode & 0o007) << 3
        if after.st_mode & 0o777 != mode:
            os.fchmod(file, mode)


def inner_path(root: str, path: str) -> str | None:
    """Return a path without links relative to a container; None if it is not in it."""
    top = os.path.realpath(root)
    return path[len(top) :].strip("/" + os.sep) if is_below(path, top) else None


def resolve(folder: Folder, name: str, key: str, *, follow: bool) -> str:
    """Return the target of the link at a key of the container.

    Raises
    ------
    UnsafePathError
        If the target is outside of the container and `follow` is false, or does not exist.
    """
    target = os.path.realpath(join(folder.path, name))
    if not follow and inner_path(folder.root, target) is None:
        raise UnsafePathError(folder.root, key, _OUTSIDE.format(target), "follow_links")
    if not os.path.exists(target):
        raise UnsafePathError(folder.root, key, _NOWHERE.format(target))
    return target


def is_below(path: str, folder: str) -> bool:
    """Return whether a path without links is a directory or is in it."""
    path, folder = os.path.normcase(path), os.path.normcase(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def is_link(status: os.stat_result) -> bool:
    """Return whether a directory entry is a symbolic link or a junction of Windows."""
    if stat.S_ISLNK(status.st_mode):
        return True
    tag = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
    return tag is not None and getattr(status, "st_reparse_tag", 0) == tag


def leads_above(link: str, outer: Iterable[str]) -> bool:
    """Return whether a link leads to one of several directories, or to one above them."""
    target = os.path.realpath(link)
    return any(is_below(folder, target) for folder in outer)


def flush(folder: int) -> None:
    """Make renames in an open directory durable, and close it."""
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
