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
    from collections.abc import Iterator

_BY_DESCRIPTOR = (
    shutil.rmtree.avoids_symlink_attacks
    and hasattr(os, "O_NOFOLLOW")
    and {os.open, os.unlink, os.rename, os.stat} <= os.supports_dir_fd
)
"""Whether directories can be held open, which prevents replacing them by links."""


def remove_tree(folder: str, name: str, first: str) -> None:
    """Remove a directory and everything in it; of a link, only the link.

    Unless it is hidden already, it is renamed first, so that a killed process does not leave half
    an array.

    Parameters
    ----------
    folder
        The path, without links, of its parent.
    name
        Its name.
    first
        A path in it that is removed first.
    """
    with _held(folder) as (base, descriptor):
        try:
            found = os.stat(base + name, dir_fd=descriptor, follow_symlinks=False)
            if is_link(found) or not stat.S_ISDIR(found.st_mode):
                os.unlink(base + name, dir_fd=descriptor)
                return
            if not name.startswith("."):
                hidden = partial_key(name)
                os.rename(base + name, base + hidden, src_dir_fd=descriptor, dst_dir_fd=descriptor)
                name = hidden
            _remove_file(base + name, first, descriptor)
            shutil.rmtree(base + name, dir_fd=descriptor)
        except MISSING:
            return


def remove_inside(folder: str) -> None:
    """Remove everything in a directory; of links, only the links."""
    try:
        names = os.listdir(folder)
    except MISSING:
        return
    with _held(folder) as (base, descriptor):
        for name in names:
            with contextlib.suppress(*MISSING):
                found = os.stat(base + name, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode) and not is_link(found):
                    shutil.rmtree(base + name, dir_fd=descriptor)
                else:
                    os.unlink(base + name, dir_fd=descriptor)


@contextlib.contextmanager
def _held(folder: str) -> Iterator[tuple[str, int | None]]:
    """Hold a directory open; yield the prefix of names in it, and its descriptor."""
    if not _BY_DESCRIPTOR:
        yield f"{folder}/", None
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except MISSING:
        yield f"{folder}/", None
        return
    try:
        yield "", descriptor
    finally:
        os.close(descriptor)


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
