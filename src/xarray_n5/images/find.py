"""Images: arrays of a group that are one variable, such as channels or BigDataViewer's views."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import context_of, over_base
from xarray_n5.dialects import geometry_of
from xarray_n5.dialects.groups import image_of, images_in, level_paths
from xarray_n5.formats import FORMATS
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.image import Image, Level, Part
from xarray_n5.model.metadata import coords_from_axes, note_of
from xarray_n5.model.paths import fused_in, join, level_name, number_in, numbered, stem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.dialects.protocol import ArrayContext, DialectChoice
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.axes import Kind
    from xarray_n5.model.paths import Kind as NameKind


N = TypeVar("N")

_TABLES = frozenset({"resolutions", "subdivisions"})
"""The names of BigDataViewer's tables in HDF5."""


def levels_of(group: Group, arrays: Mapping[str, Array] | None = None) -> dict[str, Array]:
    """Return the levels of the pyramid in a group by their paths in it.

    They are those that its ``multiscales`` list, in this order, whatever their names; otherwise
    those that are called ``s0``, ``s1``, ... or, by bioformats2raw, ``0``, ``1``, ....

    Parameters
    ----------
    group
        The group.
    arrays
        The arrays directly in it, if they are known.
    """
    direct = group.arrays() if arrays is None else arrays

    def arrays_at(paths: Sequence[str]) -> dict[str, Array]:
        nodes = {**group.nodes([path for path in paths if path not in direct]), **direct}
        return {path: n for path in paths if isinstance(n := nodes.get(path), Array)}

    return named_levels(group.attrs, direct, arrays_at)


def levels_in_tree(
    datasets: Mapping[str, xr.Dataset], names: Mapping[str, Iterable[str]], group: str = ""
) -> dict[str, str]:
    """Return the paths of the Datasets with the levels of the pyramid in a group of a tree.

    They are those of :func:`levels_of`, by their paths in the group: nodes with variables, or
    variables of a node. The Datasets of the tree are passed by their paths in it, and their
    :func:`names_by_group`.
    """

    def places(levels: Sequence[str]) -> dict[str, str]:
        paths = {level: place_of_level(datasets, group, level) for level in levels}
        return {level: path for level, path in paths.items() if path is not None}

    attributes = datasets[group].attrs if group in datasets else {}
    return named_levels(attributes, names.get(group, ()), places)


def names_by_group(paths: Iterable[str]) -> dict[str, dict[str, None]]:
    """Return the names of the nodes directly in each group of a tree, from the paths of nodes.

    >>> names_by_group(["em/s0", "em/s1"])
    {'em': {'s0': None, 's1': None}, '': {'em': None}}
    """
    names: dict[str, dict[str, None]] = {}
    for path in paths:
        inner = path
        while inner:
            inner, _, name = inner.rpartition("/")
            names.setdefault(inner, {})[name] = None
    return names


def place_of_level(datasets: Mapping[str, xr.Dataset], group: str, level: str) -> str | None:
    """Return the path of the Dataset with a level, which may be that around its array."""
    above, _, name = level.rpartition("/")
    path, around = join(group, level), join(group, above)
    if path in datasets and datasets[path].data_vars:
        return path
    variables = datasets[around].data_vars if above and around in datasets else ()
    return around if name in variables or len(variables) == 1 else None


def named_levels(
    attributes: Mapping[Any, Any],
    names: Iterable[str],
    find: Callable[[Sequence[str]], dict[str, N]],
) -> dict[str, N]:
    """Return the levels among the nodes of a group, as in :func:`levels_of`.

    Parameters
    ----------
    attributes, names
        The attributes of the group, and the names of the nodes directly in it.
    find
        A function that returns those of some paths that can be levels.
    """
    for image in images_in(attributes):
        if levels := find(level_paths(image)):
            return levels
    return find(levels_among(names))


def levels_among(names: Iterable[str]) -> list[str]:
    """Return the names of levels, in order: ``s0``, ``s1``, ..., or else numbers.

    >>> levels_among(["s10", "s9", "0"]), levels_among(["1", "0", "labels"])
    (['s9', 's10'], ['0', '1'])
    """
    names = list(names)
    return list((numbered(names, "level") or numbered(names, "number")).values())


def is_part_of_image(name: str) -> bool:
    """Return whether a name is that of a group that may be part of an image."""
    kinds: tuple[NameKind, ...] = ("setup", "timepoint", "channel", "hdf5 timepoint")
    return fused_in(name) is not None or any(number_in(name, k) is not None for k in kinds)


def is_level_table(path: str) -> bool:
    """Return whether a path is that of a table of BigDataViewer that describes a setup's levels."""
    above, _, name = path.rpartition("/")
    return name in _TABLES and number_in(above.rpartition("/")[2], "hdf5 setup") is not None


def listed_levels(attributes: Mapping[Any, Any]) -> list[str]:
    """Return the paths of the levels that a group's images list."""
    return [path for image in images_in(attributes) for path in level_paths(image)]


def image_name(array: Array, context: ArrayContext) -> str | None:
    """Return the name of the image that an array is a level of, or None.

    It is the name with which a Dataset was stored, or else that of the image's group. A variable of
    a stored Dataset is not a level, whatever its name.
    """
    attributes = context.attributes
    if name := note_of(attributes).get("name"):
        return str(name)
    path = None if coords_from_axes(attributes) is not None else image_of(context)
    return None if path is None else name_at(path, array.container)


def name_of_group(group: Group) -> str:
    """Return the name of the image in a group: the group's, or that of a container's root."""
    return name_at(group.path, group.container)


def name_at(path: str, container: Container) -> str:
    """Return the name of the image at a group's path."""
    suffixes = [suffix for form in FORMATS.values() for suffix in form.suffixes]
    return path.rpartition("/")[2] or stem_of(container.name, suffixes)


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


def _nested(group: Group, outer: Mapping[int, str], kind: NameKind) -> Members:
    """Return the paths of numbered groups in numbered groups; none if one is not a group."""
    members: Members = {}
    nodes = group.nodes(outer.values())
    for number, name in outer.items():
        node = nodes.get(name)
        if node is None or isinstance(node, Array):
            return {}
        members |= {(number, n): f"{name}/{inner}" for n, inner in numbered(node, kind).items()}
    return members


_KINDS: Mapping[str, Kind] = MappingProxyType({"t": "time", "c": "channel"})


def single_image(
    array: Array,
    *,
    dialect: DialectChoice | None,
    like: ArrayContext | None = None,
) -> Image[Array]:
    """Return an array as an image; `like` is the context of another array of its group."""
    context = context_of(array.node, like=like)
    level = Level({(): Part(array)}, geometry_of(context, dialect))
    return Image(image_name(array, context), {array.node.name: level})


def combined_images(
    group: Group,
    *,
    dialect: DialectChoice | None,
    without: Collection[str] = (),
) -> dict[str, Image[Array]]:
    """Return the images that the groups in a group form.

    A container of BigDataViewer is one image with axes t and setup if its views are alike;
    otherwise each setup is one with an axis t. A fusion of BigStitcher-Spark is one with axes t and
    c, groups c0, c1, ... are one with an axis c. Arrays that differ, or cannot be read, are
    omitted.

    Returns
    -------
    dict
        At "" an image of the whole group, or by the setups' names those of setups.
    """
    names = [name for name in group if name not in without]
    dims, members = members_of(group, names)
    levels = _levels_below(group, members)
    levels = {level: arrays for level, arrays in levels.items() if level not in without}
    if not levels or levels.keys() & names:
        return {}
    geometries = _geometries(group, members, levels, dialect=dialect)
    if whole := _stacked(levels, geometries, dims):
        return {"": Image(name_of_group(group), whole)}
    images = {}
    for number, name in numbered(names, "setup").items():
        views = {
            level: {at: array for at, array in arrays.items() if at[-1] == number}
            for level, arrays in levels.items()
        }
        if setup := _stacked({k: v for k, v in views.items() if v}, geometries, ("t",)):
            images[name] = Image(name, setup)
    return images


def named_alike(images: Mapping[str, Image[Array]], name: str) -> dict[str, Image[Array]]:
    """Return the levels of a pyramid, each as an image, with a name unless they have one."""
    return {key: replace(image, name=image.name or name) for key, image in images.items()}


def _levels_below(
    group: Group, members: Mapping[tuple[int, ...], str]
) -> dict[str, dict[tuple[int, ...], Array]]:
    """Return the arrays ``s0``, ``s1``, ... in several groups: by level, by the group's position.

    There are none if one of them cannot be read: it must not be treated as missing.
    """
    if not members:
        return {}
    name = next(iter(members.values()))
    first = group.nodes([name]).get(name)
    if first is None or isinstance(first, Array):
        return {}
    of_views = number_in(name.partition("/")[0], "hdf5 timepoint") is not None
    inner = "{}/cells" if of_views else "s{}"
    numbers = list(numbered(first, "number" if of_views else "level"))
    levels: dict[str, dict[tuple[int, ...], Array]] = {}
    while numbers:
        # Other members may have more levels than the first.
        numbers.append(numbers[-1] + 1)
        wanted = {
            join(path, inner.format(number)): (level_name(number), at)
            for at, path in members.items()
            for number in numbers
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are repeated when the arrays are opened
            nodes = group.nodes(wanted)
        if nodes.keys() != wanted.keys():
            return {}
        for path, node in nodes.items():
            if isinstance(node, Array):
                level, at = wanted[path]
                levels.setdefault(level, {})[at] = node
        numbers = numbers[-1:] if level_name(numbers[-1]) in levels else []
    return dict(sorted(levels.items(), key=lambda level: int(level[0][1:])))


def _geometries(
    group: Group,
    members: Mapping[tuple[int, ...], str],
    levels: Mapping[str, Mapping[tuple[int, ...], Array]],
    *,
    dialect: DialectChoice | None,
) -> dict[str, Geometry]:
    """Return the geometry of each array by its path; all groups above are read in one batch.

    Only the warnings of each level's first array are shown: those of the others repeat them.
    """
    outer = {path: path.rpartition("/")[0] for path in members.values()}
    nodes = group.nodes({*outer, *filter(None, outer.values())})
    attributes = {path: dict(node.attrs) for path, node in nodes.items()}
    first = context_of(next(iter(next(iter(levels.values())).values())).node)
    # The groups from this one upwards are the same for all members.
    above = first.parents[len(next(iter(members.values())).split("/")) :]
    geometries: dict[str, Geometry] = {}
    base: Mapping[tuple[int, ...], Array] = levels.get("s0", {})
    for arrays in levels.values():
        known = len(geometries)
        for at, array in arrays.items():
            path = members[at]
            near = [attributes.get(near, {}) for near in (path, outer[path]) if near]
            parents = (*near, *above)
            metadata = array.node.metadata
            context = first.other(array.path, metadata.attributes, metadata.shape)
            context = replace(context, parents=parents)
            if base.get(at, array) is not array:
                context = over_base(context, base[at].node.metadata, base[at].path)
            with warnings.catch_warnings():
                if len(geometries) > known:
                    warnings.simplefilter("ignore")
                geometries[array.path] = geometry_of(context, dialect)
    return geometries


def _stacked(
    levels: Mapping[str, Mapping[tuple[int, ...], Array]],
    geometries: Mapping[str, Geometry],
    dims: tuple[str, ...],
) -> dict[str, Level[Array]]:
    """Return the levels of an image, or none if the arrays are not alike.

    All levels must have the same members: a missing member reads as zeros, which must not hide one
    that is only stored at another level.
    """
    if len({frozenset(arrays) for arrays in levels.values()}) != 1:
        return {}
    stacks = {level: _stack(arrays, geometries, dims) for level, arrays in levels.items()}
    return {} if None in stacks.values() else stacks  # type: ignore[return-value]


def _stack(
    arrays: Mapping[tuple[int, ...], Array],
    geometries: Mapping[str, Geometry],
    dims: tuple[str, ...],
) -> Level[Array] | None:
    first = next(iter(arrays.values()))
    inner = geometries[first.path]
    for array in arrays.values():
        same = (array.shape, array.dtype) == (first.shape, first.dtype)
        if not same or geometries[array.path] != inner:
            return None
    if {axis.name for axis in inner.axes} & set(dims):
        return None
    positions = [at[: len(dims)] for at in arrays]
    numbers = tuple(tuple(sorted(set(along))) for along in zip(*positions, strict=True))
    outer = tuple(Axis(name=dim, kind=_KINDS.get(dim)) for dim in dims)
    index = [{number: i for i, number in enumerate(along)} for along in numbers]
    return Level(
        {
            tuple(i[number] for i, number in zip(index, at, strict=False)): Part(array)
            for at, array in arrays.items()
        },
        inner.below(outer),
        numbers,
    )
