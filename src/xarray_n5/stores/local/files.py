"""Keep the permissions of replaced files; make directories durable."""

# ruff: noqa: PTH103, PTH112
from __future__ import annotations

import contextlib
import os
import stat

from xarray_n5.stores.local.links import MISSING


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
