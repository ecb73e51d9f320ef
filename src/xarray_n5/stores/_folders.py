"""Directories of a local container, opened one in another: no link can lead elsewhere.

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
import functools
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

BY_DESCRIPTOR = (
    shutil.rmtree.avoids_symlink_attacks
    and hasattr(os, "O_NOFOLLOW")
    and {os.open, os.unlink, os.rename, os.stat, os.mkdir, os.rmdir} <= os.supports_dir_fd
)
"""Whether the system can use names in an open directory."""

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)

_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)

_TO_PASS = _DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
"""Flags to open a directory that need not be readable."""

_TO_LIST = _DIRECTORY | os.O_RDONLY
"""Flags to open a directory in order to list, lock or flush it."""

_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
"""Opening a FIFO for reading would wait for a writer."""

_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)

READ = os.O_RDONLY | _FLAGS | _NONBLOCK

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS

LINKED = {errno.ELOOP, errno.EMLINK, errno.ENOTDIR, getattr(errno, "EFTYPE", errno.ELOOP)}
"""Errors of systems for a link that was not expected."""

LONGEST = 4095
"""The maximum length of a path in bytes: few programs can open longer ones."""

_MOST_TURNS = 1000
"""The maximum number of links on the way to a file; others may change them all the time."""

TRIES = 20
"""The number of attempts to create a file in a directory that other processes remove, or to replace
one that another program of Windows has open."""

_HIDDEN = "is a link, but hidden directories must not be links; remove it"
_OUTSIDE = "is a link to {!r}, outside of the container; copy its target into the container"
_NOWHERE = "is a link to {!r}, which does not exist; restore the target, or remove the link"


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

    base: str
    """What paths of files in it begin with: "" if they are relative to the open directory."""
    fd: int | None
    """The descriptor of the open directory."""
    root: str
    """The container."""
    inner: str
    """The directory's path in it, without links."""
    linked: bool = False
    """Whether links in the container lead to it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self.fd is not None:
            os.close(self.fd)

    @property
    def path(self) -> str:
        """Its path without links."""
        if self.fd is None:
            return self.base.rstrip("/")
        return join(os.path.realpath(self.root), self.inner)

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a file or directory in it, or of a link itself."""
        return os.stat(self.base + name, dir_fd=self.fd, follow_symlinks=False)

    def is_folder(self, name: str) -> bool:
        """Return whether a name is that of a directory, and not of a link."""
        status = self.stat(name)
        return stat.S_ISDIR(status.st_mode) and not is_link(status)

    def open(self, name: str) -> int:
        """Return the descriptor of a file in it; a link is an error.

        A FIFO is not waited for, but a file server with a lease on a file is.
        """
        path = self.base + name
        if self.fd is None and is_link(os.lstat(path)):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        try:
            return os.open(path, READ | _NOFOLLOW, dir_fd=self.fd)
        except BlockingIOError:
            if not stat.S_ISREG(self.stat(name).st_mode):
                raise
            return os.open(path, (READ | _NOFOLLOW) & ~_NONBLOCK, dir_fd=self.fd)

    def listable(self) -> int:
        """Return another descriptor of the directory, which can be listed, locked and flushed."""
        return os.open(self.base or ".", _TO_LIST, dir_fd=self.fd)

    def flush(self) -> None:
        """Make renames in it durable."""
        if self.fd is not None:
            flush(self.listable())

    def children(self, *, statuses: bool = False) -> list[Child]:
        """Return the names in it, sorted; none if it is gone; with `statuses`, also those."""
        children: list[Child] = []
        with contextlib.suppress(*MISSING):
            scanned = self.base if self.fd is None else self.listable()
            try:
                with os.scandir(scanned) as entries:
                    children = [_child(entry, statuses=statuses) for entry in entries]
            finally:
                if isinstance(scanned, int):
                    os.close(scanned)
        return sorted(children, key=attrgetter("name"))

    # Changes

    def make(self, name: str, *, durable: bool) -> Folder:
        """Return the directory in it with a name, which is made first, and close this one."""
        with self:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.base + name, dir_fd=self.fd)
            if durable:
                self.flush()  # even if another writer made it, who may not have flushed it yet
            base, fd = _enter(self.base, self.fd, name)
            return Folder(base, fd, self.root, join(self.inner, name), self.linked)

    def create(self, name: str, mode: int) -> int:
        """Return the descriptor of a new file."""
        return os.open(self.base + name, _CREATE, mode, dir_fd=self.fd)

    def replace(self, name: str, new: str) -> None:
        """Rename a file or directory; a file replaces another one.

        On Windows, other programs have files open for a moment.
        """
        rename = functools.partial(os.replace, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        for _ in range(TRIES if os.name == "nt" else 0):
            try:
                return rename(self.base + name, self.base + new)
            except PermissionError:
                time.sleep(0.01)
        return rename(self.base + name, self.base + new)

    def unlink(self, name: str) -> None:
        """Remove a file or a link."""
        os.unlink(self.base + name, dir_fd=self.fd)

    def remove(self, name: str) -> None:
        """Remove a file, or a directory and everything in it; of a link, only the link."""
        if self.is_folder(name):
            shutil.rmtree(self.base + name, dir_fd=self.fd)
        else:
            self.unlink(name)

    def remove_tree(self, name: str, first: str) -> None:
        """Remove a file or a directory; the file `first` in it goes first.

        Unless it is hidden already, it is renamed before, so that a killed process does not leave
        half an array.
        """
        if self.is_folder(name):
            if not name.startswith("."):
                name, old = partial_key(name), name
                self.replace(old, name)
            with (
                contextlib.suppress(*MISSING),
                Folder(*_enter(self.base, self.fd, name), self.root, "") as folder,
            ):
                folder.unlink(first)
        self.remove(name)

    def remove_empty(self, name: str) -> None:
        """Remove an empty directory, or a symbolic link; anything else is an error."""
        if is_link(self.stat(name)):
            self.unlink(name)
        else:
            os.rmdir(self.base + name, dir_fd=self.fd)


def _child(entry: os.DirEntry[str], *, statuses: bool) -> Child:
    linked, status = entry.is_symlink(), None
    with contextlib.suppress(*MISSING):
        if statuses or os.name == "nt":
            status = entry.stat(follow_symlinks=False)
            linked = is_link(status)
    return Child(entry.name, entry.is_dir(), linked, status)


def _top(root: str) -> tuple[str, int | None]:
    """Open a container; return what paths in it begin with, and its descriptor."""
    if BY_DESCRIPTOR:
        return "", os.open(root, _TO_PASS)
    return _enter("", None, os.path.realpath(root))


def _enter(base: str, fd: int | None, name: str) -> tuple[str, int | None]:
    """Open a directory in another one, and return it like :func:`_top`; a link is an error."""
    if fd is not None:
        return "", os.open(name, _TO_PASS | _NOFOLLOW, dir_fd=fd)
    status = os.lstat(base + name)
    if is_link(status) or not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), base + name)
    return f"{base}{name}".rstrip("/") + "/", None


def _descend(
    base: str, fd: int | None, names: list[str]
) -> tuple[str, int | None, int, OSError | None]:
    """Enter directories one by one, and close those above; stop at the first error."""
    count = 0
    try:
        for name in names:
            below = _enter(base, fd, name)
            if fd is not None:
                os.close(fd)
            base, fd = below
            count += 1
    except OSError as error:
        return base, fd, count, error
    except BaseException:
        if fd is not None:
            os.close(fd)
        raise
    return base, fd, count, None


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
    if len(prefix) > LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), prefix)
    wanted = prefix.split("/") if prefix else []
    names, linked = wanted, False
    base, fd = _top(root)
    for _ in range(_MOST_TURNS):
        base, fd, count, error = _descend(base, fd, names)
        folder = Folder(base, fd, root, "/".join(names[:count]), linked)
        if error is None or isinstance(error, FileNotFoundError):
            return folder, names[count:]
        with folder:
            name, *rest = names[count:]
            status = folder.stat(name)
            linked_now = is_link(status)
            if error.errno not in LINKED or not (linked_now or stat.S_ISDIR(status.st_mode)):
                raise error
            key = "/".join(wanted[: len(wanted) - len(rest)])
            if linked_now and not follow and "/." in f"/{key}":
                raise UnsafePathError(root, key, _HIDDEN)
            target = resolve(folder, name, key, follow=follow) if linked_now else None
        if target is None:  # it was a link until now
            names = wanted
            base, fd = _top(root)
            continue
        inner, linked = inner_path(root, target), True
        names = [*inner.split("/"), *rest] if inner else rest
        base, fd = _enter("", None, target) if inner is None else _top(root)
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


def make_root(root: str, *, durable: bool) -> None:
    """Make a container and its parents; if `durable`, their names are on disk."""
    missing, above = [], root
    while durable and above and not os.path.isdir(above):
        above = above.rpartition("/")[0]
        missing.append(above)
    os.makedirs(root, exist_ok=True)
    for parent in missing if os.name != "nt" else ():
        flush(os.open(parent or "/", os.O_RDONLY))


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
    target = os.path.realpath(f"{folder.path}/{name}")
    if not follow and inner_path(folder.root, target) is None:
        raise UnsafePathError(folder.root, key, _OUTSIDE.format(target), "follow_links")
    if not os.path.exists(target):
        raise UnsafePathError(folder.root, key, _NOWHERE.format(target))
    return target


def is_below(path: str, folder: str) -> bool:
    """Return whether a path without links is a directory or is in it."""
    path, folder = os.path.normcase(path), os.path.normcase(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def leads_above(link: str, outer: Iterable[str]) -> bool:
    """Return whether a link leads to one of several directories, or to one above them."""
    target = os.path.realpath(link)
    return any(is_below(folder, target) for folder in outer)


def is_link(status: os.stat_result) -> bool:
    """Return whether a directory entry is a symbolic link or a Windows junction."""
    if stat.S_ISLNK(status.st_mode):
        return True
    tag = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
    return tag is not None and getattr(status, "st_reparse_tag", 0) == tag


def flush(folder: int) -> None:
    """Make renames in an open directory durable, and close it."""
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
