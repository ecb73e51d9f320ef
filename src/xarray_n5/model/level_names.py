"""Names of levels, and of the groups that are parts of an image: made and parsed here only.

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

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
