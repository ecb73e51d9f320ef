"""Places in a hierarchy, and the keys made of them: strings only."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from xarray_n5.errors import PathError

if TYPE_CHECKING:
    from collections.abc import Collection

WRITING = ".writing-"
"""How the name of a folder begins that is beside an array while it is written."""

PLANNED = ".planned-"
"""How the name of a folder begins that is beside an array whose write is only planned."""

UNFINISHED = ".unfinished"
"""The file beside an array that hints, by one request, at a write that has not ended."""

DIGESTS = ".digests"
"""The folder beside an array that holds digests of its chunks."""

QUARANTINE = ".quarantine"
"""The folder beside an array that damaged chunks are moved to."""

_PARTIAL = re.compile(r"((?:.*/)?)\.(.+)\.[0-9a-f]{32}\.partial", re.DOTALL)


def join(*parts: str) -> str:
    """Return `parts` as one path.

    >>> join("a/", "", "b/c")
    'a/b/c'
    """
    return "/".join(part.rstrip("/") for part in parts if part)


def normalize_path(path: str) -> str:
    """Return a node's path without what Java's N5 takes out: outer slashes, empty and ``.`` parts.

    ``..`` leads to the parent, but never out of the container.

    >>> normalize_path("/em//./raw/../s0/")
    'em/s0'

    Raises
    ------
    PathError
        If the path would leave the container, or holds a character that no file name can.
    """
    if not isinstance(path, str):
        raise PathError(f"the path is {path!r}; a text with '/' between its parts is needed")
    if re.search(r"[\x00\\]", path):
        raise PathError(f"the path {path!r} holds a backslash or a NUL; part it with '/'")
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise PathError(f"the path {path!r} leaves the container")
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)


def plain_path(path: str) -> str:
    r"""Return a path as Zarr v2 normalises it: a backslash parts names, and dots are no names.

    >>> plain_path("/a\\\\b//c/")
    'a/b/c'

    Raises
    ------
    PathError
        If a part of it is ``.`` or ``..``.
    """
    if "\0" in path:
        raise PathError(f"the path {path!r} holds a NUL; part it with '/'")
    parts = [part for part in path.replace("\\", "/").split("/") if part]
    if dots := {".", ".."}.intersection(parts):
        raise PathError(f"the path {path!r} has a part {min(dots)!r}, which Zarr does not allow")
    return "/".join(parts)


def is_peculiar(path: object) -> bool:
    """Return whether formats may differ in what a path means."""
    if not isinstance(path, str):
        return False
    return "\\" in path or not {".", ".."}.isdisjoint(path.split("/"))


def new_path(path: str, documents: Collection[str]) -> str:
    """Return the path of a node that is to be created, normalised.

    Raises
    ------
    PathError
        If a part of it is hidden, or the name of a document that describes nodes.
    """
    normal = normalize_path(path)
    for part in normal.split("/"):
        if part.startswith(".") or part in documents:
            raise PathError(f"no node can be called {part!r}; choose another name in {path!r}")
    return normal


def partial_key(key: str) -> str:
    """Return a key beside another one, hidden, whose like no other attempt to write it uses."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{uuid.uuid4().hex}.partial"


def meant_by(partial: str) -> str | None:
    """Return the key that a :func:`partial_key` was made of, or None where it is none.

    >>> meant_by(partial_key("a/0"))
    'a/0'
    """
    found = _PARTIAL.fullmatch(partial)
    return None if found is None else "".join(found.groups())


def is_left(key: str) -> bool:
    """Return whether a key lies in, or is, what a stopped write left.

    >>> is_left("a/.b.0123456789abcdef0123456789abcdef.partial/0")
    True
    """
    return any(meant_by(part) is not None for part in key.split("/"))


def is_own(key: str) -> bool:
    """Return whether a key relative to a node is one of those that only writes here make."""
    return key.startswith((WRITING, PLANNED, UNFINISHED, f"{DIGESTS}/", f"{QUARANTINE}/"))
