"""What a group holds already of a pyramid that is to be written into it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.access import foreign_key, nodes_of
from xarray_n5.arrays.array import Array
from xarray_n5.arrays.marker import unfinished_writes
from xarray_n5.dialects.pyramids import images_in
from xarray_n5.errors import NodeExistsError
from xarray_n5.writing.completed import NOT_UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.marker import WriteMarker

_LEVEL = re.compile(r"s\d+")


def check_levels(
    group: Group, names: Collection[str], mode: str, *, begun: bool, resume: bool = False
) -> None:
    """Raise where levels are there that must stay.

    Parameters
    ----------
    group, names
        The group, and what the levels that are to be written are called.
    mode
        "w-" or "w".
    begun
        Whether a pyramid in the group is not finished.
    resume
        Whether this one was to go on, and had not begun.
    """
    there = set(group)
    nodes = nodes_of(group, [name for name in names if name in there], strict=True)
    for name, node in nodes.items():
        if not isinstance(node, Array):
            raise NodeExistsError(group.url, name, "a group", "choose another path")
        if mode == "w-":
            hint = "use mode='w' to replace the levels"
            if begun:
                hint = f"its pyramid is not finished: go on with resume=True, or {hint}"
            if resume:
                hint = NOT_UNFINISHED
            raise NodeExistsError(group.url, name, "an array", hint)
        _check_no_stranger(group, name, node)


def check_coordinates(group: Group, dims: Collection[str | None]) -> None:
    """Raise where arrays are the coordinates of others: they would be of one level alone."""
    for name in sorted(set(group) & {dim for dim in dims if dim}):
        hint = "it is a coordinate, and levels have other sizes: choose another path for a copy"
        raise NodeExistsError(group.url, name, "an array called like an axis", hint)


def check_images(group: Group) -> None:
    """Raise where the group describes images that are no pyramid of its levels."""
    for image in images_in(group.attrs):
        paths = [_path_of(each) for each in image["datasets"]]
        if foreign := [path for path in paths if not _LEVEL.fullmatch(path)]:
            hint = "delete the attribute 'multiscales', or choose another path"
            raise NodeExistsError(group.url, "", f"an image of {foreign[0]!r}", hint)


def check_same(kept: Mapping[str, Any], around: Mapping[str, Any]) -> None:
    """Raise where a group says something else in attributes that it is to have."""
    if clash := [key for key in around if kept.get(key, around[key]) != around[key]]:
        raise ValueError(
            f"the group has other {clash} already; mode='w' replaces what describes pyramids"
        )


def older_levels(group: Group, names: Collection[str], begun: Collection[WriteMarker]) -> list[str]:
    """Return the levels of older pyramids in a group, beyond some; raise where more is in them.

    Levels are what the group's attributes call so, and what pyramids that have `begun` had made:
    another array may be called like one.
    """
    named = {_path_of(each) for image in images_in(group.attrs) for each in image["datasets"]}
    counts = [int((mark.facts() or {}).get("pyramid", 0)) for mark in begun]
    for key in ("scales", "downsamplingFactors"):
        listed = group.attrs.get(key)
        counts += [len(listed)] if isinstance(listed, list) and _is_nested(listed) else []
    named |= {f"s{number}" for number in range(max(counts, default=0))}
    beyond = sorted(n for n in named & set(group) - set(names) if _LEVEL.fullmatch(n))
    levels = {n: node for n, node in nodes_of(group, beyond).items() if isinstance(node, Array)}
    for name, node in levels.items():
        _check_no_stranger(group, name, node)
    return list(levels)


def _is_nested(listed: list[Any]) -> bool:
    return all(isinstance(each, list) for each in listed)


def _check_no_stranger(group: Group, name: str, array: Array) -> None:
    if other := foreign_key(array):
        hint = f"it holds {other!r}, which would go with it; move that away first"
        raise NodeExistsError(group.url, name, "an array with more in it", hint)


def unfinished(mark: WriteMarker) -> list[WriteMarker]:
    """Return the marks of all pyramids in a group that are not finished."""
    marks = unfinished_writes(mark.store, mark.path)
    return [each for each in marks if "pyramid" in (each.facts() or {})]


def _path_of(entry: Any) -> str:
    return str(entry.get("path") if isinstance(entry, dict) else entry)
