"""The overwrite policy of pyramids: whether one may be written to a group, and what it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.access import foreign_key, nodes_of
from xarray_n5.arrays.array import Array
from xarray_n5.arrays.marker import unfinished_writes
from xarray_n5.dialects.pyramids import images_in, level_paths
from xarray_n5.errors import NodeExistsError
from xarray_n5.model.level_names import number_in

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.marker import WriteMarker


def unfinished_pyramids(marker: WriteMarker) -> list[WriteMarker]:
    """Return the markers of all unfinished pyramids in a group."""
    found = unfinished_writes(marker.store, marker.path)
    return [each for each in found if "pyramid" in (each.facts() or {})]


def check_not_begun(group: Group, levels: Collection[str]) -> None:
    """Raise if levels exist that belong to an unfinished pyramid."""
    nodes = nodes_of(group, [name for name in levels if name in set(group)])
    for name, node in nodes.items():
        if isinstance(node, Array):
            hint = "its pyramid is unfinished: use resume=True, or mode='w' to replace the levels"
            raise NodeExistsError(group.url, name, "an array", hint)


def check_coordinates(group: Group, dims: Collection[str | None]) -> None:
    """Raise if arrays are coordinates, which would fit one level only."""
    for name in sorted(set(group) & {dim for dim in dims if dim}):
        hint = "it is a coordinate, and levels differ in size: choose another path for a copy"
        raise NodeExistsError(group.url, name, "an array named like an axis", hint)


def check_images(group: Group) -> None:
    """Raise if the group describes images other than a pyramid of its levels."""
    for image in images_in(group.attrs):
        paths = level_paths(image)
        foreign = [path for path in paths if number_in(path) is None]
        if foreign or len(paths) < len(image["datasets"]):
            hint = "delete the attribute 'multiscales', or choose another path"
            raise NodeExistsError(group.url, "", f"an image of {', '.join(foreign)!r}", hint)


def check_only_levels(group: Group) -> None:
    """Raise if the group of a new pyramid contains other arrays, which would look like levels."""
    if others := [name for name in group.arrays() if number_in(name) is None]:
        shown = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")  # noqa: PLR2004
        hint = "choose a path for the pyramid in it, such as 'pyramid'"
        raise NodeExistsError(group.url, "", f"a group that contains {shown}", hint)


def check_attributes(kept: Mapping[str, Any], written: Mapping[str, Any]) -> None:
    """Raise if the group has other values of the attributes to write."""
    if clash := [key for key in written if kept.get(key, written[key]) != written[key]]:
        raise ValueError(
            f"the group already has other {clash}; use mode='w' to replace attributes of pyramids"
        )


def older_levels(group: Group, names: Collection[str], begun: Collection[WriteMarker]) -> list[str]:
    """Return the levels of older pyramids beyond the new ones (`names`), to be removed.

    They are those that the group's attributes list, or that unfinished pyramids (`begun`) created;
    other arrays may have such names, too.

    Raises
    ------
    NodeExistsError
        If one of them contains anything that is not its own.
    """
    listed = {path for image in images_in(group.attrs) for path in level_paths(image)}
    counts = [int((marker.facts() or {}).get("pyramid", 0)) for marker in begun]
    for key in ("scales", "downsamplingFactors"):
        factors = group.attrs.get(key)
        if isinstance(factors, list) and all(isinstance(each, list) for each in factors):
            counts.append(len(factors))
    listed |= {f"s{number}" for number in range(max(counts, default=0))}
    beyond = sorted(n for n in listed & set(group) - set(names) if number_in(n) is not None)
    levels = {n: node for n, node in nodes_of(group, beyond).items() if isinstance(node, Array)}
    for name, level in levels.items():
        if other := foreign_key(level):
            hint = f"it contains {other!r}, which would be deleted with it; move that away first"
            raise NodeExistsError(group.url, name, "an array with other files", hint)
    return list(levels)
