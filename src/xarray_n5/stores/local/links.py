"""Resolve the symbolic links of a container, and refuse those that leave it.

The container's root may be reached through links. Inside, a link is followed if its target is below
the real root. Other links are refused: nothing is written or removed through them, and they are
only read with ``follow_links``.
"""

# ruff: noqa: PTH110
# Plain system calls on strings, for speed.
from __future__ import annotations

import os
import stat
from typing import NamedTuple

from xarray_n5.errors import UnsafePathError
from xarray_n5.stores._errors import MISSING

_HIDDEN = "is a link, but hidden directories must not be links; remove it"


class Folder(NamedTuple):
    """A directory of a container."""

    real: str
    """Its path without links."""
    links: int
    """The number of links on the way from the container's root."""


def check_folder(root: str, prefix: str, *, follow: bool) -> Folder | None:
    """Return the directory at a prefix, or None if it does not exist.

    Raises
    ------
    UnsafePathError
        If a link leads out of the container and `follow` is false, or to nothing.
    """
    found, missing = existing_part(root, prefix, follow=follow)
    return None if missing else found


def existing_part(root: str, prefix: str, *, follow: bool) -> tuple[Folder, list[str]]:
    """Return the innermost existing directory on the way to a prefix, and the missing names.

    Raises
    ------
    UnsafePathError
        As :func:`check_folder`; also if a hidden directory, or one in it, is a link and `follow` is
        false: these are the package's own, for records, digests and removed chunks.
    """
    found = Folder(os.path.realpath(root), 0)
    parts = prefix.split("/") if prefix else []
    for count, name in enumerate(parts):
        path = f"{found.real}/{name}"
        try:
            status = os.lstat(path)
        except MISSING:
            return found, parts[count:]
        if is_link(status):
            key = "/".join(parts[: count + 1])
            if any(part.startswith(".") for part in parts[: count + 1]) and not follow:
                raise UnsafePathError(root, key, _HIDDEN)
            real = resolve(root, key, path, follow=follow)
            found = Folder(real, found.links + 1)
        else:
            found = Folder(path, found.links)
    return found, []


def is_link(found: os.stat_result) -> bool:
    """Return whether a directory entry is a symbolic link or a Windows junction."""
    if stat.S_ISLNK(found.st_mode):
        return True
    tag = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
    return tag is not None and getattr(found, "st_reparse_tag", 0) == tag


def resolve(root: str, key: str, path: str, *, follow: bool) -> str:
    """Return the target of the link at a key of the container.

    Raises
    ------
    UnsafePathError
        If the target is outside of the container and `follow` is false, or does not exist.
    """
    target = os.path.realpath(path)
    if not follow and not is_below(target, os.path.realpath(root)):
        why = (
            f"is a link to {target!r}, outside of the container; copy its target into the container"
        )
        raise UnsafePathError(root, key, why, "follow_links")
    if not os.path.exists(target):
        why = (
            f"is a link to {target!r}, which does not exist; restore the target, or remove the link"
        )
        raise UnsafePathError(root, key, why)
    return target


def is_below(path: str, folder: str) -> bool:
    """Return whether a path without links is a directory or is in it."""
    path, folder = os.path.normcase(path), os.path.normcase(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
