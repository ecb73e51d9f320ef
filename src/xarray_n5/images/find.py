"""Images: arrays of a group that are one variable, such as channels or BigDataViewer's views."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from xarray_n5.arrays.access import context_of, geometry_in, io_of, is_transposed, nodes_of
from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import inherited, over_base
from xarray_n5.images.names import image_name, name_of_group
from xarray_n5.images.parts import members_of
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.image import Image, Level, Part
from xarray_n5.model.level_names import number_in, numbered
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.dialects.protocol import ArrayContext, DialectChoice
    from xarray_n5.model.axes import Kind

_KINDS: Mapping[str, Kind] = MappingProxyType({"t": "time", "c": "channel"})


def single_image(
    array: Array,
    *,
    dialect: DialectChoice | None,
    inherit: bool,
    like: ArrayContext | None = None,
) -> Image[Array]:
    """Return an array as an image; `like` is the context of another array of its group."""
    context = context_of(array, inherit=inherit, like=like)
    geometry = geometry_in(array, context, dialect)
    level = Level({(): Part(array)}, geometry, transposed=is_transposed(array))
    return Image(image_name(array, context), {array.name: level})


def combined_images(
    group: Group,
    *,
    dialect: DialectChoice | None,
    inherit: bool,
    without: Container[str] = (),
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
    geometries = _geometries(group, members, levels, dialect=dialect, inherit=inherit)
    if whole := _stacked(levels, geometries, dims):
        return {"": Image(name_of_group(group), whole)}
    found = {}
    for number, name in numbered(names, "setup").items():
        own = {
            level: {at: array for at, array in arrays.items() if at[-1] == number}
            for level, arrays in levels.items()
        }
        if setup := _stacked({k: v for k, v in own.items() if v}, geometries, ("t",)):
            found[name] = Image(name, setup)
    return found


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
    first = nodes_of(group, [name]).get(name)
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
            join(path, inner.format(number)): (f"s{number}", at)
            for at, path in members.items()
            for number in numbers
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are repeated when the arrays are opened
            found = nodes_of(group, wanted)
        if found.keys() != wanted.keys():
            return {}
        for path, node in found.items():
            if isinstance(node, Array):
                level, at = wanted[path]
                levels.setdefault(level, {})[at] = node
        numbers = numbers[-1:] if f"s{numbers[-1]}" in levels else []
    return dict(sorted(levels.items(), key=lambda each: int(each[0][1:])))


def _geometries(
    group: Group,
    members: Mapping[tuple[int, ...], str],
    levels: Mapping[str, Mapping[tuple[int, ...], Array]],
    *,
    dialect: DialectChoice | None,
    inherit: bool,
) -> dict[str, Geometry]:
    """Return the geometry of each array by its path; all groups above are read in one batch.

    Only the warnings of each level's first array are shown: those of the others repeat them.
    """
    outer = {path: path.rpartition("/")[0] for path in members.values()}
    nodes = nodes_of(group, {*outer, *filter(None, outer.values())})
    attributes = {path: dict(node.attrs) for path, node in nodes.items()}
    first = context_of(next(iter(next(iter(levels.values())).values())), inherit=inherit)
    # The groups from this one upwards are the same for all members.
    above = first.parents[len(next(iter(members.values())).split("/")) :]
    found: dict[str, Geometry] = {}
    base: Mapping[tuple[int, ...], Array] = levels.get("s0", {})
    for arrays in levels.values():
        known = len(found)
        for at, array in arrays.items():
            path = members[at]
            near = [attributes.get(each, {}) for each in (path, outer[path]) if each]
            parents = (*near, *above)
            if inherit:
                parents = (inherited(parents), *parents[1:])
            metadata = io_of(array).metadata
            context = first.other(array.path, metadata.attributes, metadata.shape)
            context = replace(context, parents=parents)
            if base.get(at, array) is not array:
                context = over_base(context, io_of(base[at]).metadata, base[at].path)
            with warnings.catch_warnings():
                if len(found) > known:
                    warnings.simplefilter("ignore")
                found[array.path] = geometry_in(array, context, dialect)
    return found


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
    found = {level: _stack(arrays, geometries, dims) for level, arrays in levels.items()}
    return {} if None in found.values() else found  # type: ignore[return-value]


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
    numbers = tuple(tuple(sorted(set(each))) for each in zip(*positions, strict=True))
    outer = tuple(Axis(name=dim, kind=_KINDS.get(dim)) for dim in dims)
    in_c_order = not is_transposed(first)
    index = [{number: i for i, number in enumerate(each)} for each in numbers]
    return Level(
        {
            tuple(i[number] for i, number in zip(index, at, strict=False)): Part(array)
            for at, array in arrays.items()
        },
        inner.below(outer) if in_c_order else inner.transpose().below(outer).transpose(),
        numbers,
        transposed=not in_c_order,
    )
