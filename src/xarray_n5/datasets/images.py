"""Which arrays of a group are one image: levels of a pyramid, channels, BigDataViewer's views."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import inherited, over_base
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from xarray_n5.arrays.group import Group
    from xarray_n5.model.axes import Kind

_SETUP = re.compile(r"setup(\d+)")
_TIMEPOINT = re.compile(r"timepoint(\d+)")
_CHANNEL = re.compile(r"c(\d+)")
_LEVEL = re.compile(r"s(\d+)")
_VIEWS = re.compile(r"t(\d{5,})")
_VIEW = re.compile(r"s(\d{2,})")
_NUMBER = re.compile(r"(\d+)")

PART = re.compile(r"(?:(?:setup|timepoint|c)\d+|t\d{5,})")
"""The name of a group that is part of an image."""

_KINDS: Mapping[str, Kind] = MappingProxyType({"t": "time", "c": "channel"})


@dataclass(frozen=True, slots=True)
class Image:
    """An array, or several of one shape at one place, with axes of their own outside of theirs."""

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
        """The sizes of the axes that :attr:`numbers` stand along."""
        return tuple(map(len, self.numbers))

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole shape."""
        return self._whole(self.outer, self.first.shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a stored chunk."""
        return self._whole((1,) * len(self.numbers), self.first.chunks)

    @property
    def coords(self) -> dict[str, tuple[int, ...]]:
        """The numbers along each axis, by its name."""
        ordered = self.geometry.transpose() if self.turned else self.geometry
        named = zip(ordered.axes, self.numbers, strict=False)
        return {str(axis.name): numbers for axis, numbers in named}

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that all arrays have alike."""
        shared = dict(self.first.attrs)
        for array in self.arrays.values():
            if array is not self.first:
                own = array.attrs
                shared = {k: v for k, v in shared.items() if k in own and own[k] == v}
        return shared

    def named(
        self, dims: Sequence[str] | None = None, avoid: AbstractSet[str] = frozenset()
    ) -> Geometry:
        """Return the geometry with a name for every axis: those of `dims`, its own, or defaults.

        Defaults are for axes in numpy's order, also where the image is turned round.
        """
        called = self.geometry.called(dims)
        if not self.turned:
            return called.with_names(avoid)
        return called.transpose().with_names(avoid).transpose()

    @property
    def turned(self) -> bool:
        """Whether all axes are the other way round."""
        return self.first.axis_order == "F"

    def _whole(self, outer: tuple[int, ...], inner: tuple[int, ...]) -> tuple[int, ...]:
        return (*inner, *outer[::-1]) if self.turned else (*outer, *inner)


def together(
    group: Group,
    *,
    dialect: str | Sequence[str] | None,
    inherit: bool,
    without: Container[str] = (),
) -> dict[str, dict[str, Image]]:
    """Return the images that the groups in a group make up together: levels by name, by place.

    A container of BigDataViewer is one image with axes t and setup where its views are alike;
    else each setup is one with an axis t. Groups c0, c1, ... are one with an axis c. What does
    not fit together, or cannot be read, is left out, to be opened array by array.

    Returns
    -------
    dict
        At "", an image of the whole group; at a setup's name, one of that setup.
    """
    names = [name for name in group if name not in without]
    dims, members = _members(group, names)
    levels = _levels_below(group, members)
    levels = {level: arrays for level, arrays in levels.items() if level not in without}
    if not levels or levels.keys() & names:
        return {}
    geometries = _geometries(group, members, levels, dialect=dialect, inherit=inherit)
    if whole := _stacked(levels, geometries, dims):
        return {"": whole}
    apart = {}
    for number, name in numbered(names, _SETUP).items():
        own = {
            level: {place: array for place, array in arrays.items() if place[-1] == number}
            for level, arrays in levels.items()
        }
        if image := _stacked({k: v for k, v in own.items() if v}, geometries, ("t",)):
            apart[name] = image
    return apart


def numbered(names: Iterable[str], pattern: re.Pattern[str]) -> dict[int, str]:
    """Return the names that are a word and a number, by the number, in its order."""
    found = {name: pattern.fullmatch(name) for name in names}
    return dict(sorted((int(match[1]), name) for name, match in found.items() if match))


def _members(
    group: Group, names: Sequence[str]
) -> tuple[tuple[str, ...], dict[tuple[int, ...], str]]:
    """Return the axes that groups in a group stand along, and the groups' paths by their places."""
    if times := numbered(names, _VIEWS):
        return ("t", "setup"), _views(group, times)
    if setups := numbered(names, _SETUP):
        found: dict[tuple[int, ...], str] = {}
        nodes = group.nodes(setups.values())
        for number, name in setups.items():
            setup = nodes.get(name)
            if setup is None or isinstance(setup, Array):
                return ("t", "setup"), {}
            times = numbered(setup, _TIMEPOINT)
            found |= {(time, number): f"{name}/{inner}" for time, inner in times.items()}
        return ("t", "setup"), found
    if times := numbered(names, _TIMEPOINT):
        return ("t",), {(number,): name for number, name in times.items()}
    channels = numbered(names, _CHANNEL)
    whole = len(channels) == len(names)
    return ("c",), {(number,): name for number, name in channels.items() if whole}


def _views(group: Group, times: Mapping[int, str]) -> dict[tuple[int, ...], str]:
    """Return BigDataViewer's views in HDF5, whose timepoints come first."""
    found: dict[tuple[int, ...], str] = {}
    nodes = group.nodes(times.values())
    for time, name in times.items():
        node = nodes.get(name)
        if node is None or isinstance(node, Array):
            return {}
        setups = numbered(node, _VIEW)
        found |= {(time, number): f"{name}/{inner}" for number, inner in setups.items()}
    return found


def _levels_below(
    group: Group, members: Mapping[tuple[int, ...], str]
) -> dict[str, dict[tuple[int, ...], Array]]:
    """Return the arrays ``s0``, ``s1``, ... in several groups: by level, by the group's place.

    There are none where one of them cannot be read: it must not pass for one that is not stored.
    """
    if not members:
        return {}
    name = next(iter(members.values()))
    first = group.nodes([name]).get(name)
    if first is None or isinstance(first, Array):
        return {}
    inner = "{}/cells" if _VIEWS.match(name) else "s{}"
    numbers = list(numbered(first, _NUMBER if _VIEWS.match(name) else _LEVEL))
    levels: dict[str, dict[tuple[int, ...], Array]] = {}
    while numbers:
        # Other members may have more levels than the first.
        numbers.append(numbers[-1] + 1)
        wanted = {
            join(path, inner.format(number)): (f"s{number}", at)
            for at, path in members.items()
            for number in numbers
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # who opens the tree array by array hears of it
            found = group.nodes(wanted)
        if found.keys() != wanted.keys():
            return {}
        for path, node in found.items():
            if isinstance(node, Array):
                level, place = wanted[path]
                levels.setdefault(level, {})[place] = node
        numbers = numbers[-1:] if f"s{numbers[-1]}" in levels else []
    return dict(sorted(levels.items(), key=lambda each: int(each[0][1:])))


def _geometries(
    group: Group,
    members: Mapping[tuple[int, ...], str],
    levels: Mapping[str, Mapping[tuple[int, ...], Array]],
    *,
    dialect: str | Sequence[str] | None,
    inherit: bool,
) -> dict[str, Geometry]:
    """Return the geometry of each array by its path; all groups around are read in one batch.

    The same complaints are made of the first array alone.
    """
    inner = {path: path.rpartition("/")[0] for path in members.values()}
    around = group.nodes({*inner, *filter(None, inner.values())})
    attributes = {path: dict(node.attrs) for path, node in around.items()}
    first = next(iter(next(iter(levels.values())).values())).node(inherit=inherit)
    # Above the members of a group is the group itself, and what is above that is known.
    above = first.parents[len(next(iter(members.values())).split("/")) :]
    found: dict[str, Geometry] = {}
    base: Mapping[tuple[int, ...], Array] = levels.get("s0", {})
    for arrays in levels.values():
        for place, array in arrays.items():
            path = members[place]
            near = [attributes.get(path, {})]
            near += [attributes.get(inner[path], {})] if inner[path] else []
            parents = (*near, *above)
            if inherit:
                parents = (inherited(parents), *parents[1:])
            metadata = array.metadata
            node = replace(
                first.other(array.path, metadata.attributes, metadata.shape), parents=parents
            )
            if base.get(place, array) is not array:
                node = over_base(node, base[place].metadata, base[place].path)
            with warnings.catch_warnings():
                if found:
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
        inner, turned = geometries[first.path], first.axis_order == "F"
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
            inner.below(outer) if not turned else inner.transpose().below(outer).transpose(),
            numbers,
        )
    return images
