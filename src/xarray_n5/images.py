"""Which arrays of a group are one image: levels of a pyramid, channels, BigDataViewer's views."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from xarray_n5.array import Array
from xarray_n5.axes import Axis, Geometry
from xarray_n5.dialects.levels import images_in
from xarray_n5.errors import NodeNotFoundError
from xarray_n5.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.axes import Kind
    from xarray_n5.dialects import Node
    from xarray_n5.group import Group

_SETUP = re.compile(r"setup(\d+)")
_TIMEPOINT = re.compile(r"timepoint(\d+)")
_CHANNEL = re.compile(r"c(\d+)")
_LEVEL = re.compile(r"s(\d+)")
_NUMBER = re.compile(r"(\d+)")

PART = re.compile(r"(?:setup|timepoint|c)\d+")
"""The name of a group that is part of an image."""

_KINDS: Mapping[str, Kind] = MappingProxyType({"t": "time", "c": "channel"})

_SAME = 1e-9
"""By which part of it a distance may be too long, for rounding."""


@dataclass(frozen=True, slots=True)
class Image:
    """An array, or several of one shape at one place, with axes of their own before theirs."""

    arrays: Mapping[tuple[int, ...], Array]
    """The arrays by their places along those axes; one alone is at ``()``."""
    geometry: Geometry
    """All axes, in the order of :attr:`shape`."""
    numbers: tuple[tuple[int, ...], ...] = ()
    """What stands along those axes: numbers of timepoints, of setups, of channels."""

    @property
    def first(self) -> Array:
        """One of the arrays, which are all alike."""
        return next(iter(self.arrays.values()))

    @property
    def outer(self) -> tuple[int, ...]:
        """The sizes of the axes before those of the arrays."""
        return tuple(map(len, self.numbers))

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole shape."""
        return (*self.outer, *self.first.shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a stored chunk."""
        return (*(1 for _ in self.numbers), *self.first.chunks)


def levels_of(group: Group, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return a pyramid's levels, the finest first: of the arrays in a group those that are ones.

    The group's ``multiscales`` list them; else they are called ``s0``, ``s1``, ... or, by
    bioformats2raw, ``0``, ``1``, ...
    """
    for image in images_in(group.attrs):
        entries = (e.get("path") if isinstance(e, dict) else e for e in image["datasets"])
        paths = [path for path in entries if isinstance(path, str)]
        nodes = {**group.nodes(path for path in paths if path not in arrays), **arrays}
        found = {path: nodes[path] for path in paths if isinstance(nodes.get(path), Array)}
        if found:
            return found  # type: ignore[return-value]
    for pattern in (_LEVEL, _NUMBER):
        if numbered := _numbered(arrays, pattern):
            return {name: arrays[name] for name in numbered.values()}
    return {}


def choose(levels: Mapping[str, Image], level: int | Mapping[str, float], where: str) -> str:
    """Return the name of the level that is asked for.

    Parameters
    ----------
    levels
        The levels of a pyramid, the finest first.
    level
        Its place in the pyramid, -1 for the coarsest; or the distance between samples that is
        wanted along some dimensions, in the units of their coordinates: the coarsest level that
        is at least as fine is taken, or the finest.
    where
        The pyramid's place, for errors.

    Raises
    ------
    NodeNotFoundError
        If there is no such level.
    ValueError
        If a dimension is none of the pyramid's, or has no coordinate.
    """
    names = list(levels)
    if isinstance(level, int):
        if -len(names) <= level < len(names):
            return names[level]
        held = f"the levels are {', '.join(names)}" if names else "there is no pyramid"
        raise NodeNotFoundError(where, f"s{level}", "array", f"level= counts from 0; {held}")
    chosen = names[0] if names else ""
    for name, image in levels.items():
        axes = {axis.name: axis for axis in image.geometry.with_names().axes}
        for dim in level:
            if dim not in axes or axes[dim].scale is None:
                raise ValueError(
                    f"{where}: level {name!r} has no places along {dim!r}: {list(axes)}"
                )
        if all(abs(axes[dim].step) <= size * (1 + _SAME) for dim, size in level.items()):
            chosen = name
    return chosen


def together(
    group: Group, *, dialect: str | Sequence[str] | None, inherit: bool
) -> dict[str, dict[str, Image]]:
    """Return the images that the groups in a group make up together: levels by name, by place.

    A container of BigDataViewer is one image with axes t and setup where its views are alike;
    else each setup is one with an axis t. Groups c0, c1, ... are one with an axis c. What does
    not fit together is left out, to be opened array by array.

    Returns
    -------
    dict
        At "", an image of the whole group; at a setup's name, one of that setup.
    """
    dims, members = _members(group)
    levels = _levels_below(group, members)
    if not levels:
        return {}
    geometries = _geometries(levels, dims, dialect=dialect, inherit=inherit)
    if whole := _stacked(levels, geometries, dims):
        return {"": whole}
    apart = {}
    for number, name in _numbered(group, _SETUP).items():
        own = {
            level: {place: array for place, array in arrays.items() if place[-1] == number}
            for level, arrays in levels.items()
        }
        if image := _stacked({k: v for k, v in own.items() if v}, geometries, ("t",)):
            apart[name] = image
    return apart


def _members(group: Group) -> tuple[tuple[str, ...], dict[tuple[int, ...], str]]:
    """Return the axes that groups in a group stand along, and the groups' paths by their places."""
    names = tuple(group)
    if setups := _numbered(names, _SETUP):
        found: dict[tuple[int, ...], str] = {}
        for name, setup in group.nodes(setups.values()).items():
            times = {} if isinstance(setup, Array) else _numbered(setup, _TIMEPOINT)
            number = int(name.removeprefix("setup"))
            found |= {(time, number): f"{name}/{inner}" for time, inner in times.items()}
        return ("t", "setup"), found
    if times := _numbered(names, _TIMEPOINT):
        return ("t",), {(number,): name for number, name in times.items()}
    channels = _numbered(names, _CHANNEL)
    whole = len(channels) == len(names)
    return ("c",), {(number,): name for number, name in channels.items() if whole}


def _numbered(names: Iterable[str], pattern: re.Pattern[str]) -> dict[int, str]:
    """Return the names that are a word and a number, by the number, in its order."""
    found = {name: pattern.fullmatch(name) for name in names}
    return dict(sorted((int(match[1]), name) for name, match in found.items() if match))


def _levels_below(
    group: Group, members: Mapping[tuple[int, ...], str]
) -> dict[str, dict[tuple[int, ...], Array]]:
    """Return the arrays ``s0``, ``s1``, ... in several groups: by level, by the group's place."""
    if not members:
        return {}
    first = group.nodes([next(iter(members.values()))]).popitem()[1]
    if isinstance(first, Array):
        return {}
    names = _numbered(first, _LEVEL).values()
    wanted = {join(path, name): (name, at) for at, path in members.items() for name in names}
    levels: dict[str, dict[tuple[int, ...], Array]] = {}
    for path, node in group.nodes(wanted).items():
        if isinstance(node, Array):
            name, place = wanted[path]
            levels.setdefault(name, {})[place] = node
    return levels


def _geometries(
    levels: Mapping[str, Mapping[tuple[int, ...], Array]],
    dims: tuple[str, ...],
    *,
    dialect: str | Sequence[str] | None,
    inherit: bool,
) -> dict[str, Geometry]:
    """Return the geometry of each array by its path; that of one timepoint is looked up whole.

    The groups around the other timepoints' arrays are taken to be like those around the first,
    and the same complaints are not made again for each of them.
    """
    found: dict[str, Geometry] = {}
    for arrays in levels.values():
        nodes: dict[tuple[int, ...], Node] = {}
        for place, array in arrays.items():
            rest = place[dims[0] == "t" :]
            if rest not in nodes:
                nodes[rest] = array.node(inherit=inherit)
                found[array.path] = array.geometry(dialect, node=nodes[rest])
                continue
            node = nodes[rest].other(array.path, array.metadata.attributes, array.shape)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[array.path] = array.geometry(dialect, node=node)
    return found


def _stacked(
    levels: Mapping[str, Mapping[tuple[int, ...], Array]],
    geometries: Mapping[str, Geometry],
    dims: tuple[str, ...],
) -> dict[str, Image]:
    """Return one image for each level, or nothing where the arrays are not alike.

    All levels must have the same members: what is stored nowhere reads as zeros, but what is
    stored in another level only does not.
    """
    if len({frozenset(arrays) for arrays in levels.values()}) != 1:
        return {}
    images = {}
    for level, arrays in levels.items():
        first = next(iter(arrays.values()))
        inner = geometries[first.path]
        for array in arrays.values():
            same = (array.shape, array.dtype) == (first.shape, first.dtype)
            if not same or geometries[array.path] != inner:
                return {}
        if {axis.name for axis in inner.axes} & set(dims):
            return {}
        places = [place[: len(dims)] for place in arrays]
        numbers = tuple(tuple(sorted(set(each))) for each in zip(*places, strict=True))
        outer = tuple(Axis(name=dim, kind=_KINDS.get(dim)) for dim in dims)
        at = [{number: spot for spot, number in enumerate(each)} for each in numbers]
        images[level] = Image(
            {
                tuple(spots[number] for spots, number in zip(at, place, strict=False)): array
                for place, array in arrays.items()
            },
            inner.below(outer),
            numbers,
        )
    return images
