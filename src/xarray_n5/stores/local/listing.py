"""List and walk local directories; follow links that stay in the container, except loops."""

from __future__ import annotations

import os
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from xarray_n5.errors import UnsafePathError
from xarray_n5.model.paths import join
from xarray_n5.stores._errors import MISSING
from xarray_n5.stores.local.links import check_folder, is_below, is_link, resolve
from xarray_n5.stores.local.opening import BY_DESCRIPTOR, TO_LIST, open_inside

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_LINKS = 10_000
"""The maximum number of links to directories that one walk follows."""


class Entry(NamedTuple):
    """A name in a directory."""

    name: str
    is_folder: bool
    """Whether it, or the target of a link, is a directory."""
    linked: bool
    """Whether it is a link."""
    status: os.stat_result | None
    """Its own status, if requested; None if it is gone."""


def names_in(root: str, prefix: str, *, follow: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sorted names of directories and of files directly under a prefix.

    A link that leaves the container is listed like its target. Links to parent directories and,
    below a link, all other links are left out, so that walks over groups end.
    """
    folder = check_folder(root, prefix, follow=follow)
    if folder is None:
        return (), ()
    folders: list[str] = []
    files: list[str] = []
    above: list[str] = []
    for entry in _entries(root, folder.real, follow=follow):
        if not entry.is_folder:
            files.append(entry.name)
        elif not entry.linked:
            folders.append(entry.name)
        else:
            above = above or _directories_above(root, prefix, follow=follow)
            target = os.path.realpath(f"{folder.real}/{entry.name}")
            turns = any(is_below(each, target) for each in above)
            if not turns and (follow or not folder.links):
                folders.append(entry.name)
    return tuple(folders), tuple(files)


def _is_linked(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() or (os.name == "nt" and is_link(entry.stat(follow_symlinks=False)))


def _directories_above(root: str, prefix: str, *, follow: bool) -> list[str]:
    """Return the paths, without links, of the directories from a prefix up to the root."""
    parts = prefix.split("/") if prefix else []
    paths = ("/".join(parts[:count]) for count in range(len(parts), -1, -1))
    found = [check_folder(root, path, follow=follow) for path in paths]
    return [each.real for each in found if each is not None]


def walk_below(
    root: str, prefix: str, *, follow: bool, statuses: bool = False
) -> Iterator[tuple[str, Entry]]:
    """Iterate over the files below a prefix: their keys, relative to it, and their entries.

    Links inside the container are followed, except to parent directories. Hidden links to
    directories count as files: chunks are never there.

    Raises
    ------
    UnsafePathError
        If a link to a directory leaves the container and `follow` is false: the stored chunks are
        unknown then. Also if links form more paths than can be walked.
    """
    top = check_folder(root, prefix, follow=follow)
    level: list[tuple[str, str, tuple[str, ...]]] = (
        [] if top is None else [("", top.real, (top.real,))]
    )
    links = 0
    while level:
        inner, real, above = level.pop()
        below: list[tuple[str, str, tuple[str, ...]]] = []
        for entry in _entries(root, real, follow=follow, statuses=statuses):
            key, path = f"{inner}{entry.name}", f"{real}/{entry.name}"
            if not entry.is_folder:
                yield key, entry
            elif not entry.linked:
                below.append((f"{key}/", path, (*above[:-1], path)))
            elif is_hidden(key) and not follow:
                yield key, entry
            else:
                target = resolve(root, join(prefix, key), path, follow=follow)
                links += 1
                if links > _MOST_LINKS:
                    why = (
                        f"leads through more than {_MOST_LINKS} links; remove those that form loops"
                    )
                    raise UnsafePathError(root, join(prefix, key), why)
                if not any(is_below(each, target) for each in above):
                    below.append((f"{key}/", target, (*above, target)))
        level += reversed(below)


def _entries(root: str, path: str, *, follow: bool, statuses: bool = False) -> list[Entry]:
    """Return the entries of a directory, sorted, by its path without links."""
    try:
        if follow or not BY_DESCRIPTOR:
            return _scan(path, statuses=statuses)
        folder = open_inside(root, path, TO_LIST)
        try:
            return _scan(folder, statuses=statuses)
        finally:
            os.close(folder)
    except MISSING:
        return []


def _scan(folder: str | int, *, statuses: bool) -> list[Entry]:
    with os.scandir(folder) as entries:
        found = [
            Entry(each.name, each.is_dir(), _is_linked(each), _status(each) if statuses else None)
            for each in entries
        ]
    return sorted(found, key=attrgetter("name"))


def is_hidden(key: str) -> bool:
    """Return whether a file or directory is hidden; chunks never are."""
    return key.rpartition("/")[2].startswith(".")


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of a file that is not a link, or None if it is gone."""
    try:
        return entry.stat(follow_symlinks=False)
    except MISSING:
        return None
