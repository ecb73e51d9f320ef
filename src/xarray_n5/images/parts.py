"""The names of groups that are parts of one image, and the axes along which they are stacked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from xarray_n5.arrays.access import nodes_of
from xarray_n5.arrays.array import Array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.arrays.group import Group

SETUP = re.compile(r"setup(\d+)")
"""A setup of BigDataViewer, in N5."""

VIEWS = re.compile(r"t(\d{5,})")
"""The views of a timepoint of BigDataViewer, in HDF5."""

PART = re.compile(r"(?:(?:setup|timepoint|c)\d+|t\d{5,}|ch\d+tp\d+)")
"""The name of a group that is part of an image."""

_TIMEPOINT = re.compile(r"timepoint(\d+)")
_VIEW = re.compile(r"s(\d{2,})")
_CHANNEL = re.compile(r"c(\d+)")
_FUSED = re.compile(r"ch(0|[1-9]\d{0,8})tp(0|[1-9]\d{0,8})")

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
    if times := numbered(names, VIEWS):
        return ("t", "setup"), _nested(group, times, _VIEW)
    if setups := numbered(names, SETUP):
        nested = _nested(group, setups, _TIMEPOINT)
        return ("t", "setup"), {(time, setup): path for (setup, time), path in nested.items()}
    if times := numbered(names, _TIMEPOINT):
        return ("t",), {(number,): name for number, name in times.items()}
    if fused := _fused(names):
        return ("t", "c"), fused
    channels = numbered(names, _CHANNEL)
    complete = len(channels) == len(names)
    return ("c",), {(number,): name for number, name in channels.items() if complete}


def numbered(names: Iterable[str], pattern: re.Pattern[str]) -> dict[int, str]:
    """Return the names that match a pattern, by the number in them and in its order."""
    found = {name: pattern.fullmatch(name) for name in names}
    return dict(sorted((int(match[1]), name) for name, match in found.items() if match))


def _fused(names: Iterable[str]) -> Members:
    """Return the images of a fusion by BigStitcher-Spark, by timepoint and channel."""
    matches = filter(None, map(_FUSED.fullmatch, names))
    return dict(sorted(((int(found[2]), int(found[1])), found[0]) for found in matches))


def _nested(group: Group, outer: Mapping[int, str], pattern: re.Pattern[str]) -> Members:
    """Return the paths of numbered groups in numbered groups; none if one is not a group."""
    found: Members = {}
    nodes = nodes_of(group, outer.values())
    for number, name in outer.items():
        node = nodes.get(name)
        if node is None or isinstance(node, Array):
            return {}
        found |= {(number, n): f"{name}/{inner}" for n, inner in numbered(node, pattern).items()}
    return found
