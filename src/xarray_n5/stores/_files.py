"""Read files of a local container, and list them, by the directories that they are in."""

# Plain system calls on strings, for speed.
from __future__ import annotations

import errno
import functools
import os
import stat
from typing import TYPE_CHECKING

from xarray_n5.errors import UnsafePathError
from xarray_n5.model.paths import join
from xarray_n5.stores._errors import MISSING
from xarray_n5.stores._folders import (
    LINKED,
    NOFOLLOW,
    READ,
    find,
    find_path,
    hold,
    inner_path,
    is_below,
    is_link,
    resolve,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.stores._folders import Child
    from xarray_n5.stores.base import Listing

_SOCKET = {errno.ENXIO, getattr(errno, "EOPNOTSUPP", errno.ENXIO)}
"""Errors for sockets, which cannot be opened."""

_NOT_REGULAR = "is not a regular file, but a FIFO, a device or a socket; remove it"

_MOST_LINKS = 10_000
"""The maximum number of links to directories that one walk follows."""


def open_file(root: str, key: str, *, follow: bool) -> tuple[int, int] | None:
    """Open the regular file at a key; return its descriptor and size, or None.

    A FIFO, a device or a socket is an error at once, without waiting.

    Raises
    ------
    UnsafePathError
        If it is not a regular file, or like :func:`hold`.
    """
    try:
        file = _open_in(root, key, follow=follow) if key else os.open(root, READ)
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


@functools.lru_cache(maxsize=64)
def _real(root: str, _device: int, _inode: int) -> str:
    return os.path.realpath(root)


def _open_directly(root: str, key: str) -> int | None:
    """Open a file by its path if no link is on it: Linux says where an open file is.

    That takes half as long as entering each directory.
    """
    try:
        status = os.stat(root)
        file = os.open(f"{root}/{key}", READ | NOFOLLOW)
    except OSError:
        return None
    try:
        place = os.readlink(f"/proc/self/fd/{file}")
    except OSError:
        place = ""
    if place == f"{_real(root, status.st_dev, status.st_ino)}/{key}":
        return file
    os.close(file)
    return None


def _open_in(root: str, key: str, *, follow: bool) -> int:
    if (file := _open_directly(root, key)) is not None:
        return file
    prefix, _, name = key.rpartition("/")
    folder, missing = hold(root, prefix, follow=follow)
    with folder:
        if missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
        try:
            return folder.open(name)
        except OSError as error:
            if error.errno not in LINKED:
                raise
        if not is_link(folder.stat(name)):  # it was one until now
            return folder.open(name)
        target = resolve(root, key, f"{folder.path}/{name}", follow=follow)
    inner = inner_path(root, target)
    return os.open(target, READ) if inner is None else _open_in(root, inner, follow=follow)


def read_part(file: int, start: int, stop: int) -> bytes:
    """Return the bytes of an open file from `start` to `stop`, or to its end."""
    os.lseek(file, start, os.SEEK_SET)
    data = os.read(file, max(0, stop - start))
    while len(data) < stop - start and (more := os.read(file, stop - start - len(data))):
        data += more
    return data


def status_of(root: str, key: str, *, follow: bool) -> os.stat_result | None:
    """Return the status of the file or directory at a key, or None if it does not exist.

    Raises
    ------
    UnsafePathError
        Like :func:`hold`.
    """
    prefix, _, name = key.rpartition("/")
    try:
        if not key:
            return os.stat(root)
        if (folder := find(root, prefix, follow=follow)) is None:
            return None
        with folder:
            status = folder.stat(name)
            if is_link(status):
                status = os.stat(resolve(root, key, f"{folder.path}/{name}", follow=follow))
    except MISSING:
        return None
    return status


def names_in(root: str, prefix: str, *, follow: bool) -> Listing:
    """Return the names of directories and of files in the directory at a prefix.

    A link that leaves the container is listed like its target. Links to parent directories and,
    below a link, all other links are left out, so that walks over groups end.
    """
    folder = find(root, prefix, follow=follow)
    if folder is None:
        return (), ()
    with folder:
        path, children = folder.path, folder.children()
    below = [child for child in children if child.is_folder]
    if any(child.linked for child in below):
        nested = folder.linked and not follow
        above = [os.path.realpath(outer) for outer in _up(root, prefix)]
        below = [c for c in below if not c.linked or not (nested or _is_above(path, c, above))]
    plain = (child.name for child in children if not child.is_folder)
    return tuple(child.name for child in below), tuple(plain)


def _up(root: str, prefix: str) -> Iterator[str]:
    """Iterate over the paths of directories from a prefix up to the root."""
    parts = prefix.split("/") if prefix else []
    return (join(root, *parts[:count]) for count in range(len(parts), -1, -1))


def _is_above(path: str, link: Child, above: list[str]) -> bool:
    """Return whether a link in a directory leads to one of those above it."""
    target = os.path.realpath(f"{path}/{link.name}")
    return any(is_below(folder, target) for folder in above)


def files_below(
    root: str, prefix: str, *, follow: bool, statuses: bool
) -> Iterator[tuple[str, Child]]:
    """Iterate over the files below a prefix: their keys, relative to it, and their entries.

    Links inside the container are followed, except to parent directories. Hidden links to
    directories count as files: chunks are never there.

    Raises
    ------
    UnsafePathError
        If a link to a directory leaves the container and is not followed: the stored chunks
        are unknown then. Also if links form more paths than can be walked.
    """
    top = find(root, prefix, follow=follow)
    if top is None:
        return
    with top:
        path = top.path
    level: list[tuple[str, str, tuple[str, ...]]] = [("", path, (path,))]
    links = 0
    while level:
        inner, path, above = level.pop()
        folder = find_path(root, path, follow=follow)
        if folder is None:
            continue
        with folder:
            children = folder.children(statuses=statuses)
        below: list[tuple[str, str, tuple[str, ...]]] = []
        for child in children:
            key, inside = f"{inner}{child.name}", f"{path}/{child.name}"
            is_hidden = child.name.startswith(".") and not follow
            if not child.is_folder or (child.linked and is_hidden):
                yield key, child
            elif not child.linked:
                below.append((f"{key}/", inside, (*above[:-1], inside)))
            else:
                full = join(prefix, key)
                target = resolve(root, full, inside, follow=follow)
                links += 1
                if links > _MOST_LINKS:
                    why = f"leads through more than {_MOST_LINKS} links; remove loops of them"
                    raise UnsafePathError(root, full, why)
                if not any(is_below(outer, target) for outer in above):
                    below.append((f"{key}/", target, (*above, target)))
        level += reversed(below)
