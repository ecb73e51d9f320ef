"""Paths in a container, and keys of hidden files."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from xarray_n5.errors import PathError

if TYPE_CHECKING:
    from collections.abc import Collection

HIDDEN = ".xn5"
"""The hidden folder of a node: records of writes, digests, and chunks that a repair has removed."""

DIGESTS = f"{HIDDEN}/digests.npz"
"""The file with digests of an array's chunks."""

QUARANTINE = f"{HIDDEN}/quarantine"
"""The folder to which damaged chunks are moved."""

_LONGEST_NAME = 255
"""The maximum length of a name in file systems, in bytes."""

_PARTIAL = re.compile(r"((?:.*/)?+)\.(.+)\.[0-9a-f]{32}\.partial", re.DOTALL)


def join(*parts: str) -> str:
    """Return `parts` as one path.

    >>> join("a/", "", "b/c")
    'a/b/c'
    """
    return "/".join([part.rstrip("/") for part in parts if part])


def normalize_path(path: str) -> str:
    """Return a path normalised as in Java's N5: without outer slashes, empty and ``.`` parts.

    ``..`` leads to the parent, but never out of the container.

    >>> normalize_path("/em//./raw/../s0/")
    'em/s0'

    Raises
    ------
    PathError
        If the path leaves the container, or contains a backslash or NUL.
    """
    if not isinstance(path, str):
        raise PathError(f"the path is {path!r}; expected a string such as 'em/s0'")
    if re.search(r"[\x00\\]", path):
        raise PathError(
            f"the path {path!r} contains a backslash or a NUL; separate its parts by '/'"
        )
    _check_text(path)
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise PathError(f"the path {path!r} leaves the container")
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)


def _check_text(path: str) -> None:
    """Raise for lone surrogates, except those for bytes of local names that are not UTF-8."""
    if not _is_text(path, "surrogateescape"):
        raise PathError(f"the path {path!r} contains a lone surrogate, which no store can have")


def new_path(path: str, documents: Collection[str]) -> str:
    """Return the normalised path of a new node.

    Raises
    ------
    PathError
        If a part of it is hidden, or the name of a document that describes nodes, or if it cannot
        be encoded as UTF-8.
    """
    normal = normalize_path(path)
    if not _is_text(normal):
        raise PathError(f"the path {path!r} contains a lone surrogate; choose another name")
    for part in normal.split("/"):
        if part.startswith(".") or part in documents:
            raise PathError(f"a node cannot be named {part!r}; choose another name in {path!r}")
    return normal


def _is_text(path: str, errors: str = "strict") -> bool:
    try:
        path.encode(errors=errors)
    except UnicodeEncodeError:
        return False
    return True


def partial_key(key: str) -> str:
    """Return a unique hidden key in the directory of `key`, for one attempt to write it."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{os.urandom(16).hex()}.partial"


def final_key(partial: str) -> str | None:
    """Return the key that a :func:`partial_key` was made for, or None if it is not one.

    >>> final_key(partial_key("a/0"))
    'a/0'
    """
    match = _PARTIAL.fullmatch(partial)
    return None if match is None else "".join(match.groups())


def is_partial(key: str) -> bool:
    """Return whether a key is a partial file of an interrupted write, or in a partial folder.

    >>> is_partial("a/.b.0123456789abcdef0123456789abcdef.partial/0")
    True
    """
    return any(final_key(part) is not None for part in key.split("/"))


def is_own(key: str) -> bool:
    """Return whether a key relative to a node is a hidden file of this package."""
    return key.startswith(f"{HIDDEN}/") or key == HIDDEN


def stem_of(name: str, suffixes: Collection[str]) -> str:
    """Return a container's name without its suffix, or "data" if no valid name is left.

    >>> stem_of("cells.n5", [".n5"]), stem_of("cells.ome.zarr", [".zarr"]), stem_of("", [".n5"])
    ('cells', 'cells', 'data')
    """
    suffix = next(filter(name.endswith, suffixes), "")
    stem = name.removesuffix(suffix).removesuffix(".ome")
    return "data" if not stem or stem.startswith(".") or ":" in stem else stem


def name_of_root(name: str) -> str:
    """Return the name of a root node: its directory's, but "data" in a container.

    >>> name_of_root("s0"), name_of_root("cells.n5")
    ('s0', 'data')
    """
    return "data" if not name or "." in name or ":" in name else name


def check_name(name: str, what: str) -> None:
    """Raise PathError if a name cannot be that of a directory."""
    try:
        proper = new_path(name, ["attributes.json"]) == name and "/" not in name
    except PathError as error:
        raise PathError(f"a {what} cannot be called {name!r}: {error}") from error
    if not proper or len(name.encode()) > _LONGEST_NAME:
        raise PathError(
            f"a {what} cannot be called {name!r}: expected the name of one directory, of at most "
            f"{_LONGEST_NAME} bytes"
        )
