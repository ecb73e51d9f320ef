"""Remove directories, but not the targets of links in them."""

# ruff: noqa: PTH208
# Plain system calls on strings, for speed.
from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import TYPE_CHECKING

from xarray_n5.model.paths import partial_key
from xarray_n5.stores.local.links import MISSING, is_link

if TYPE_CHECKING:
    from xarray_n5.stores.local.folders import Held


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
