"""The names of groups that are parts of one image, and the axes along which they are stacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.arrays.access import nodes_of
from xarray_n5.arrays.array import Array
from xarray_n5.model.level_names import fused_in, numbered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.group import Group
    from xarray_n5.model.level_names import Kind

Members = dict[tuple[int, ...], str]
"""The paths of groups by their positions along the outer axes."""


def members_of(group: Group, names: Sequence[str]) -> tuple[tuple[str, ...], Members]:
    """Return the axes along which groups are stacked, and their paths by their positions.

    Parameters
    ----------
    group
        The group that contains them.
    names
        The names of those to consider.
    """
    if times := numbered(names, "hdf5 timepoint"):
        return ("t", "setup"), _nested(group, times, "hdf5 setup")
    if setups := numbered(names, "setup"):
        nested = _nested(group, setups, "timepoint")
        return ("t", "setup"), {(time, setup): path for (setup, time), path in nested.items()}
    if times := numbered(names, "timepoint"):
        return ("t",), {(number,): name for number, name in times.items()}
    if fused := {at: name for name in names if (at := fused_in(name)) is not None}:
        return ("t", "c"), dict(sorted(fused.items()))
    channels = numbered(names, "channel")
    complete = len(channels) == len(names)
    return ("c",), {(number,): name for number, name in channels.items() if complete}


def _nested(group: Group, outer: Mapping[int, str], kind: Kind) -> Members:
    """Return the paths of numbered groups in numbered groups; none if one is not a group."""
    found: Members = {}
    nodes = nodes_of(group, outer.values())
    for number, name in outer.items():
        node = nodes.get(name)
        if node is None or isinstance(node, Array):
            return {}
        found |= {(number, n): f"{name}/{inner}" for n, inner in numbered(node, kind).items()}
    return found
