"""Hold directories of a container open: no link can lead what happens in them elsewhere.

A path that was checked may be replaced by a link before it is used. An open directory stays the
same one, so files are created, renamed and removed by their names in it. Systems that cannot do
that, such as Windows, use paths. Advisory locks of directories end with their process.
"""

# ruff: noqa: PTH103, PTH112, PTH116, PTH208
# Plain system calls on strings, for speed.
from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, Self

from xarray_n5.errors import UnsafePathError
from xarray_n5.model.paths import join, partial_key
from xarray_n5.stores._errors import MISSING
from xarray_n5.stores.local import opening
from xarray_n5.stores.local.links import existing_part, is_link, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

if sys.platform != "win32":
    import fcntl

_PATIENCE = 30.0
"""The seconds to wait for a process that holds a lock: it may be suspended."""

_PAUSE = 0.002


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
        return os.open(path, opening.TO_LIST, dir_fd=self.descriptor)


def hold(root: str, prefix: str) -> Held | None:
    """Open the directory at a prefix of a container; return None if it does not exist.

    Raises
    ------
    UnsafePathError
        If a link leads out of the container, whether links are followed for reading or not.
    """
    try:
        return Held("", opening.open_unlinked(root, prefix, opening.FOLDER))
    except MISSING:
        return None
    except OSError as error:
        if error.errno not in opening.UNSURE:
            raise
    found, missing = existing_part(root, prefix, follow=False)
    if missing:
        return None
    if not opening.BY_DESCRIPTOR:
        return Held(f"{found.real}/", None) if os.path.isdir(found.real) else None
    try:
        return Held("", opening.open_inside(root, found.real, opening.FOLDER))
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
    return Held("", os.open(name, opening.FOLDER | opening.NOFOLLOW, dir_fd=descriptor))


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


def make_folders(folder: str, *, durable: bool) -> None:
    """Make a directory and its parents; if `durable`, their names are on disk."""
    missing = []
    above = folder
    while durable and above and not os.path.isdir(above):
        above = above.rpartition("/")[0]
        missing.append(above)
    os.makedirs(folder, exist_ok=True)
    if os.name != "nt":
        for each in missing:
            flush(os.open(each or "/", os.O_RDONLY))


def flush(folder: int) -> None:
    """Make renames in an open directory durable, and close it."""
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def locked(root: str, prefix: str, *, durable: bool) -> Iterator[bool]:
    """Lock a directory, which is created if missing; yield whether the system can do that."""
    file = _lock(root, prefix, durable=durable)
    try:
        yield file is not None
    finally:
        if file is not None:
            os.close(file)


def _lock(root: str, prefix: str, *, durable: bool) -> int | None:
    if sys.platform == "win32":
        return None
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        file = None
        try:
            with hold_to_write(root, prefix, durable=durable) as held:
                file = held.to_read()
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, root, prefix):
                taken, file = file, None
                return taken
        except BlockingIOError:
            time.sleep(_PAUSE)
        except UnsafePathError:
            raise
        except OSError:
            end = 0.0
        finally:
            if file is not None:
                os.close(file)
    return None


def _is_at(file: int, root: str, prefix: str) -> bool:
    """Return whether a path still names an open directory, which may have been replaced."""
    found = stat_inside(root, prefix, follow=False)
    return found is not None and os.path.samestat(found, os.fstat(file))


def remove_tree(folder: Held, name: str, first: str) -> None:
    """Remove a directory and everything in it; of a link, only the link.

    Unless it is hidden already, it is renamed first, so that a killed process does not leave half
    an array.

    Parameters
    ----------
    folder
        Its parent.
    name
        Its name.
    first
        A path in it that is removed first.
    """
    base, descriptor = folder
    with contextlib.suppress(*MISSING):
        if not _is_folder(folder, name):
            os.unlink(base + name, dir_fd=descriptor)
            return
        if not name.startswith("."):
            hidden = partial_key(name)
            os.rename(base + name, base + hidden, src_dir_fd=descriptor, dst_dir_fd=descriptor)
            name = hidden
        _remove_file(base + name, first, descriptor)
        shutil.rmtree(base + name, dir_fd=descriptor)


def remove_inside(folder: Held) -> None:
    """Remove everything in a directory; of links, only the links."""
    base, descriptor = folder
    for name in _names_in(folder):
        with contextlib.suppress(*MISSING):
            if _is_folder(folder, name):
                shutil.rmtree(base + name, dir_fd=descriptor)
            else:
                os.unlink(base + name, dir_fd=descriptor)


def remove_empty(folder: Held, name: str) -> None:
    """Remove an empty directory, or a symbolic link; anything else is an error."""
    base, descriptor = folder
    if is_link(os.stat(base + name, dir_fd=descriptor, follow_symlinks=False)):
        os.unlink(base + name, dir_fd=descriptor)
    else:
        os.rmdir(base + name, dir_fd=descriptor)


def _is_folder(folder: Held, name: str) -> bool:
    path, descriptor = folder.base + name, folder.descriptor
    found = os.stat(path, dir_fd=descriptor, follow_symlinks=False)
    return stat.S_ISDIR(found.st_mode) and not is_link(found)


def _names_in(folder: Held) -> list[str]:
    if folder.descriptor is None:
        return os.listdir(folder.base)
    listed = folder.to_read()
    try:
        return os.listdir(listed)
    finally:
        os.close(listed)


def _remove_file(folder: str, path: str, descriptor: int | None) -> None:
    """Remove a file below a directory, unless its path has links."""
    *inner, name = path.split("/")
    with contextlib.ExitStack() as stack, contextlib.suppress(*MISSING):
        for part in (folder, *inner):
            if descriptor is None:
                folder = part if part == folder else f"{folder}/{part}"
                if is_link(os.lstat(folder)):
                    return
            else:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                descriptor = os.open(part, flags, dir_fd=descriptor)
                stack.callback(os.close, descriptor)
        os.unlink(name if descriptor is not None else f"{folder}/{name}", dir_fd=descriptor)


def permissions(path: str, folder: int | None) -> os.stat_result | None:
    """Return the status of a file to be replaced, or None if there is nothing to keep.

    The path is relative to the open directory `folder`, if that is not None.
    """
    if not hasattr(os, "fchmod") or os.name == "nt":
        return None
    try:
        found = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except MISSING:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def keep_permissions(file: int, before: os.stat_result) -> None:
    """Give a new file the group and the mode of the one that it replaces.

    If it cannot have the group, its own group gets no more rights than everybody.
    """
    own, mode = os.fstat(file), before.st_mode & 0o777
    with contextlib.suppress(OSError):  # file systems without permissions refuse
        if own.st_gid != before.st_gid:
            try:
                os.fchown(file, -1, before.st_gid)
            except OSError:
                mode = (mode & ~0o070) | (mode & 0o007) << 3
        if own.st_mode & 0o777 != mode:
            os.fchmod(file, mode)
