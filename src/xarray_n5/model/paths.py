"""Paths in a container, keys of hidden files, and names that have a meaning.

Names of levels, and of the groups that are parts of an image, are made and parsed here only:

===============================  ==============================================================
``s0``, ``s1``; ``0``, ``1``     levels of Java's N5; of bioformats2raw
``setup0/timepoint0/s0``         views of BigDataViewer in N5
``t00000/s00/0/cells``           views of BigDataViewer in HDF5; ``s00/resolutions`` is a table
``c0``, ``timepoint0``           channels, time points
``ch0tp0``                       images of a fusion by BigStitcher-Spark
===============================  ==============================================================

Numbers have at most three digits for levels, and ten otherwise.
"""

from __future__ import annotations

import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from xarray_n5.errors import PathError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


HIDDEN = ".xn5"
"""The hidden folder of a node: records of writes, digests, and chunks that a repair has removed."""

DIGESTS = f"{HIDDEN}/digests.npz"
"""The file with digests of an array's chunks."""

QUARANTINE = f"{HIDDEN}/quarantine"
"""The folder to which damaged chunks are moved."""

_LONGEST_NAME, _LONGEST_PATH = 255, 1024
"""The maximum lengths in bytes of a name in file systems, and of a key in object stores."""

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
        If the path leaves the container, is too long, or contains a backslash or NUL.
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
    sizes = [len(part.encode(errors="surrogateescape")) for part in parts]
    if sum(sizes) + len(sizes) > _LONGEST_PATH or max(sizes, default=0) > _LONGEST_NAME:
        raise PathError(
            f"the path {path[:60]!r}... is too long; expected at most {_LONGEST_PATH} bytes, and "
            f"{_LONGEST_NAME} for each name in it"
        )
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


Kind: TypeAlias = Literal[
    "level", "number", "setup", "timepoint", "channel", "hdf5 setup", "hdf5 timepoint"
]

_LEVEL, _NUMBER = "[0-9]{1,3}", "[0-9]{1,10}"

_PATTERNS: dict[str, str] = {
    "level": f"s({_LEVEL})",
    "number": f"({_LEVEL})",
    "setup": f"setup({_NUMBER})",
    "timepoint": f"timepoint({_NUMBER})",
    "channel": f"c({_NUMBER})",
    "hdf5 setup": "s([0-9]{2,10})",
    "hdf5 timepoint": "t([0-9]{5,10})",
}

_NAMES = MappingProxyType({kind: re.compile(text) for kind, text in _PATTERNS.items()})

_FUSED = re.compile("ch(0|[1-9][0-9]{0,8})tp(0|[1-9][0-9]{0,8})")

_VIEWS = (
    re.compile("(?:(.*)/)?{setup}/{timepoint}(?:/{level})?".format_map(_PATTERNS), re.DOTALL),
    re.compile(
        "(?:(.*)/)?{hdf5 timepoint}/{hdf5 setup}/{number}/cells".format_map(_PATTERNS), re.DOTALL
    ),
)
"""The paths of BigDataViewer's levels, in N5 and in HDF5."""


def number_in(name: str, kind: Kind = "level") -> int | None:
    """Return the number in a name, or None for other names.

    >>> number_in("s2"), number_in("timepoint7", "timepoint"), number_in("raw")
    (2, 7, None)
    """
    match = _NAMES[kind].fullmatch(name)
    return None if match is None else int(match[1])


def numbered(names: Iterable[str], kind: Kind) -> dict[int, str]:
    """Return the names of a kind by their numbers, in their order; of several, the shortest.

    >>> numbered(["s1", "s00", "s0"], "level")  # s00 is a setup of BigDataViewer in HDF5
    {0: 's0', 1: 's1'}
    """
    pairs = ((number_in(name, kind), name) for name in sorted(names, key=len, reverse=True))
    return dict(sorted({n: name for n, name in pairs if n is not None}.items()))


def level_name(number: int) -> str:
    """Return the name of a level: ``s0``, ``s1``, ...."""
    return f"s{number}"


def level_number(name: str) -> int | None:
    """Return the number of a level that is called ``s1`` or ``1``, or None for other names."""
    number = number_in(name)
    return number_in(name, "number") if number is None else number


def base_path(path: str) -> str | None:
    """Return the path of the base level of a coarser level; None if it is not called like one.

    >>> base_path("em/s2"), base_path("em/s0")
    ('em/s0', None)
    """
    above, slash, name = path.rpartition("/")
    return f"{above}{slash}s0" if number_in(name) else None


def view_in(path: str) -> tuple[int, int] | None:
    """Return the setup and timepoint of BigDataViewer in an array's path, or None.

    >>> view_in("setup1/timepoint20/s0"), view_in("t00020/s01/0/cells")
    ((1, 20), (1, 20))
    """
    if match := _VIEWS[0].fullmatch(path):
        return int(match[2]), int(match[3])
    match = _VIEWS[1].fullmatch(path)
    return None if match is None else (int(match[3]), int(match[2]))


def setup_name(setup: int) -> str:
    """Return the name of BigDataViewer's group of a setup."""
    return f"setup{setup}"


def view_path(setup: int, timepoint: int, level: int | None = None) -> str:
    """Return the path of a view of BigDataViewer in N5, or of one of its levels.

    >>> view_path(1, 20), view_path(1, 20, level=0)
    ('setup1/timepoint20', 'setup1/timepoint20/s0')
    """
    path = f"setup{setup}/timepoint{timepoint}"
    return path if level is None else f"{path}/{level_name(level)}"


def hdf5_view_path(setup: int, timepoint: int, level: int) -> str:
    """Return the path of a level of a view of BigDataViewer in HDF5.

    >>> hdf5_view_path(1, 20, 0)
    't00020/s01/0/cells'
    """
    return f"t{timepoint:05d}/s{setup:02d}/{level}/cells"


def numbers_in_view(path: str) -> dict[str, int] | None:
    """Return the numbers in the path of a view's level, or in some names of one; otherwise None.

    >>> numbers_in_view("setup1/timepoint20"), numbers_in_view("setup1/s0"), numbers_in_view("raw")
    ({'setup': 1, 'timepoint': 20}, {'setup': 1, 'level': 0}, None)
    """
    kinds: Iterator[Kind] = iter(("setup", "timepoint", "level"))
    numbers: dict[str, int] = {}
    for name in filter(None, path.split("/")):
        # Kinds before that of a name cannot follow it.
        known = ((kind, number_in(name, kind)) for kind in kinds)
        kind, number = next((pair for pair in known if pair[1] is not None), (None, None))
        if kind is None or number is None:
            return None
        numbers[kind] = number
    return numbers


def fused_in(name: str) -> tuple[int, int] | None:
    """Return the timepoint and channel of an image of BigStitcher-Spark, or None.

    >>> fused_in("ch1tp20")
    (20, 1)
    """
    match = _FUSED.fullmatch(name)
    return None if match is None else (int(match[2]), int(match[1]))


def level_table_of(path: str) -> tuple[str, int] | None:
    """Return the path of the table of a level in HDF5, and the level's row, or None.

    >>> level_table_of("t00020/s01/2/cells")
    ('s01/resolutions', 2)
    """
    match = _VIEWS[1].fullmatch(path)
    if match is None:
        return None
    setup = path.split("/")[-3]
    return "/".join(filter(None, (match[1], setup, "resolutions"))), int(match[4])
