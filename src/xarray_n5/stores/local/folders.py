"""Hold directories of a container open: no link can lead what happens in them elsewhere.

A path that was checked may be replaced by a link before it is used. An open directory stays the
same one, so files are created, renamed and removed by their names in it. Systems that cannot do
that, such as Windows, use paths.
"""

# ruff: noqa: PTH116
from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from typing import TYPE_CHECKING, NamedTuple, Self

from xarray_n5.model.paths import join
from xarray_n5.stores.local.files import flush, make_folders
from xarray_n5.stores.local.links import MISSING, existing_part, is_link, resolve
from xarray_n5.stores.local.openat2 import has_openat2, openat2

if TYPE_CHECKING:
    from types import TracebackType

BY_DESCRIPTOR = (
    shutil.rmtree.avoids_symlink_attacks
    and hasattr(os, "O_NOFOLLOW")
    and {os.open, os.unlink, os.rename, os.stat, os.mkdir, os.rmdir} <= os.supports_dir_fd
)
"""Whether the system can use names in an open directory."""

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)

_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)

_FOLDER = _DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
"""Flags to open a directory that need not be listed."""

TO_LIST = _DIRECTORY | os.O_RDONLY
"""Flags to open a directory in order to list, lock or flush it."""

_IS_LINK = frozenset({errno.ELOOP, errno.EMLINK, getattr(errno, "EFTYPE", errno.ELOOP)})
"""Errors of systems for unexpected links."""

UNSURE = _IS_LINK | {errno.EAGAIN, errno.EWOULDBLOCK}
"""Errors after which the path is checked part by part; the last are of leases, as in Samba."""

_MOST_ROOTS = 256

_linked_roots: set[str] = set()
"""Cache of roots whose path contains links; files in all others are opened in one step."""


class Held(NamedTuple):
    """A directory that is held open, or its path where the system has no such thing."""

    base: str
    """What names in the directory begin with, as paths."""
    descriptor: int | None
    """The open directory that these paths are relative to."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the directory go."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def to_read(self) -> int:
        """Return another descriptor of the directory, which can be listed, locked and flushed."""
        path = "." if self.descriptor is not None else self.base
        return os.open(path, TO_LIST, dir_fd=self.descriptor)


def hold(root: str, prefix: str) -> Held | None:
    """Open the directory at a prefix of a container; return None if it does not exist.

    Raises
    ------
    UnsafePathError
        If a link leads out of the container, whether links are followed for reading or not.
    """
    try:
        return Held("", open_unlinked(root, prefix, _FOLDER))
    except MISSING:
        return None
    except OSError as error:
        if error.errno not in UNSURE:
            raise
    found, missing = existing_part(root, prefix, follow=False)
    if missing:
        return None
    if not BY_DESCRIPTOR:
        return Held(f"{found.real}/", None) if os.path.isdir(found.real) else None  # noqa: PTH112
    try:
        return Held("", open_inside(root, found.real, _FOLDER))
    except MISSING:
        return None


def hold_to_write(root: str, prefix: str, *, durable: bool) -> Held:
    """Open a directory, which is created if missing.

    Raises
    ------
    NotADirectoryError
        If there is a file instead.
    UnsafePathError
        As :func:`hold`.
    """
    held = hold(root, prefix)
    if held is not None:
        return held
    parts = prefix.split("/") if prefix else []
    count = len(parts)
    while held is None and count:
        count -= 1
        held = hold(root, "/".join(parts[:count]))
    if held is None:
        make_folders(root, durable=durable)
        held = hold(root, "")
    if held is None:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), root)
    for number, name in enumerate(parts[count:], count + 1):
        try:
            with held:
                held = _make(held, name, durable=durable)
        except OSError as error:
            error.filename = join(root, "/".join(parts[:number]))
            raise
    return held


def _make(above: Held, name: str, *, durable: bool) -> Held:
    """Open a directory in another one, and make it first."""
    path, descriptor = above
    with contextlib.suppress(FileExistsError):
        os.mkdir(path + name, dir_fd=descriptor)
    if durable and descriptor is not None:
        flush(above.to_read())  # also if another writer made it, who may not have flushed it yet
    if descriptor is None:
        if not stat.S_ISDIR(os.stat(path + name).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path + name)
        return Held(f"{path}{name}/", None)
    return Held("", os.open(name, _FOLDER | _NOFOLLOW, dir_fd=descriptor))


def open_unlinked(root: str, key: str, flags: int) -> int:
    """Open a file without following links inside the root; the root itself may be a link.

    Raises
    ------
    OSError
        With one of `UNSURE` if a link leads to the file, or the system cannot decide.
    """
    if not has_openat2():
        return _open_in_steps(root, key, flags)
    if root not in _linked_roots:
        try:
            return openat2(f"{root}/{key}", flags)
        except OSError as error:
            if error.errno not in UNSURE:
                raise
    folder = os.open(root, _FOLDER)
    try:
        file = openat2(key or ".", flags, folder)
    finally:
        os.close(folder)
    if len(_linked_roots) >= _MOST_ROOTS:
        _linked_roots.clear()
    _linked_roots.add(root)
    return file


def _open_in_steps(root: str, key: str, flags: int) -> int:
    """Open a file by opening each directory above it in the one before."""
    if not BY_DESCRIPTOR:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), key)
    *folders, last = key.split("/")
    name = ""
    here = os.open(root, _FOLDER)
    try:
        for name in folders:
            below = os.open(name, _FOLDER | _NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        name = last or "."
        return os.open(name, flags | _NOFOLLOW, dir_fd=here)
    except NotADirectoryError as error:
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        if is_link(found) or stat.S_ISDIR(found.st_mode):  # or was a link until now
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), key) from error
        raise
    finally:
        os.close(here)


def open_inside(root: str, path: str, flags: int) -> int:
    """Open a file in a container by its path without links, which may be replaced by links."""
    top = os.path.realpath(root)
    if not BY_DESCRIPTOR:
        return os.open(path, flags | _NOFOLLOW)
    return open_unlinked(top, path[len(top) :].strip("/"), flags)


def stat_inside(root: str, key: str, *, follow: bool) -> os.stat_result | None:
    """Return the status of the file or directory at a key, or None if it does not exist.

    Raises
    ------
    UnsafePathError
        If a link leads out of the container and `follow` is false, or to nothing.
    """
    try:
        if not key:
            return os.stat(root)
        prefix, _, name = key.rpartition("/")
        if follow:
            found, missing = existing_part(root, prefix, follow=follow)
            held = None if missing else Held(f"{found.real}/", None)
        else:
            held = hold(root, prefix)
        if held is None:
            return None
        with held:
            status = os.stat(held.base + name, dir_fd=held.descriptor, follow_symlinks=False)
        if not is_link(status):
            return status
        found, _ = existing_part(root, prefix, follow=follow)
        return os.stat(resolve(root, key, f"{found.real}/{name}", follow=follow))
    except MISSING:
        return None
