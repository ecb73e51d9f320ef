"""Which images a Dataset is opened from: an array, a level of a pyramid, the arrays of a group."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.group import container_of
from xarray_n5.datasets.conventions import packing_of
from xarray_n5.datasets.images import PART, Image, numbered, together
from xarray_n5.dialects.pyramids import images_in
from xarray_n5.errors import NodeNotFoundError
from xarray_n5.model.roundtrip_attrs import is_dataset

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from xarray_n5.arrays.group import Group
    from xarray_n5.dialects.protocol import ArrayContext

Level: TypeAlias = "int | str | Mapping[str, float]"

_LEVEL = re.compile(r"s(\d+)")
_NUMBER = re.compile(r"(\d+)")

_SAME = 1e-9
"""By which part of it a distance may be too long, for rounding."""


def alone(
    array: Array,
    *,
    dialect: str | Sequence[str] | None,
    inherit: bool,
    like: ArrayContext | None = None,
) -> Image:
    """Return an array as an image; what is around it is that of another one, where it is known."""
    around = array.node(inherit=inherit, like=like)
    return Image({(): array}, array.geometry(dialect, node=around))


def pick(
    node: Array | Group,
    *,
    level: Level | None,
    dialect: str | Sequence[str] | None,
    inherit: bool,
    without: Container[str] = (),
    dims: Sequence[str] | None = None,
) -> dict[str, Image]:
    """Return what becomes one Dataset, by name: an array, a level, or the arrays of a group.

    Raises
    ------
    NodeNotFoundError
        If a group has no arrays, or not the level that is asked for.
    ValueError
        If there are several levels, and none is asked for.
    """
    how: dict[str, Any] = {"dialect": dialect, "inherit": inherit}
    if isinstance(node, Array):
        if level is not None:
            raise ValueError(f"level= is for a group of arrays; {node.url!r} is one array")
        return {node.name: alone(node, **how)}
    arrays = node.arrays(without=without)
    if level is None and not arrays and is_dataset(node.attrs):
        return {}  # groups below it are what they are called, and no parts of an image
    if arrays and level is None:
        shared = next(iter(arrays.values())).node(inherit=inherit)
        sizes = {name: array.shape[0] for name, array in arrays.items() if array.ndim == 1}
        shared = replace(shared, beside=sizes)
        return {name: alone(array, like=shared, **how) for name, array in arrays.items()}
    if level is not None and (found := levels_of(node, arrays)):
        # All levels are asked for their axes only where distances are to be compared.
        if isinstance(level, Mapping):
            images = {name: alone(array, **how) for name, array in found.items()}
            name = _fitting(images, level, dims, node.url)
            return {found[name].name: images[name]}
        chosen = found[_numbered(list(found), level, node.url)]
        return {chosen.name: alone(chosen, **how)}
    levels = {} if arrays else _joined(node, without=without, **how)
    if level is None and not levels:
        inner = ", ".join(node) or "nothing"
        hint = f"the group holds {inner}; name an array or its group with group="
        raise NodeNotFoundError(node.url, "", "array", hint)
    if level is None and len(levels) > 1:
        raise ValueError(
            f"{node.url!r} is an image with the levels {', '.join(levels)}; open one of them with "
            "level=0, or all with xarray.open_datatree"
        )
    if isinstance(level, Mapping):
        name = _fitting(levels, level, dims, node.url)
    else:
        name = _numbered(list(levels), 0 if level is None else level, node.url)
    return {name: levels[name]}


def is_like_dataset(group: Group) -> bool:
    """Return whether arrays of Zarr name dimensions, whose sizes agree: xarray's do."""
    arrays = {} if packing_of(container_of(group).format).in_axes else group.arrays()
    sizes: dict[str, int] = {}
    for array in arrays.values():
        dims = array.attrs.get("_ARRAY_DIMENSIONS")
        if not isinstance(dims, list) or len(dims) != array.ndim:
            return False
        if not all(isinstance(dim, str) for dim in dims):
            return False
        if any(sizes.setdefault(d, s) != s for d, s in zip(dims, array.shape, strict=True)):
            return False
    return bool(arrays)


def _joined(group: Group, **how: Any) -> dict[str, Image]:
    """Return the levels of the image that the groups in a group make up, if they do."""
    joined = together(group, **how)
    if "" not in joined and any(map(PART.fullmatch, group)):
        apart = f"; {', '.join(joined)} are images" if joined else ""
        raise ValueError(
            f"the images in {group.url!r} differ in shape, type, place or levels{apart}: name one "
            "with group=, or open all with xarray.open_datatree"
        )
    return joined.get("", {})


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
        if names := numbered(arrays, pattern).values():
            return {name: arrays[name] for name in names}
    return {}


def _numbered(names: Sequence[str], level: object, where: str) -> str:
    """Return the name of the level that is asked for by its name or its place, -1 the coarsest."""
    if isinstance(level, str):
        place = names.index(level) if level in names else len(names)
    elif isinstance(level, SupportsIndex) and not isinstance(level, bool):
        place = operator.index(level)
    else:
        raise TypeError(
            f"level is {level!r}; a number, a name or distances by dimension are needed"
        )
    if -len(names) <= place < len(names):
        return names[place]
    held = f"the levels are {', '.join(names)}" if names else "there is no pyramid"
    raise NodeNotFoundError(where, str(level), "level", held)


def _fitting(
    levels: Mapping[str, Image],
    wanted: Mapping[str, float],
    dims: Sequence[str] | None,
    where: str,
) -> str:
    """Return the name of the coarsest level whose samples lie at most so far apart, or the finest.

    Parameters
    ----------
    levels
        The levels of a pyramid, the finest first.
    wanted
        Distances by dimension, in the units of their coordinates.
    dims
        What the caller calls the dimensions.
    where
        The pyramid's place, for errors.

    Raises
    ------
    NodeNotFoundError
        If there is no pyramid.
    ValueError
        If a dimension is none of the pyramid's, or has no coordinate.
    """
    if not levels:
        raise NodeNotFoundError(where, str(dict(wanted)), "level", "there is no pyramid")
    if not wanted or not all(map(_is_distance, wanted.values())):
        raise ValueError(f"level is {dict(wanted)}; a positive distance by dimension is needed")
    chosen = next(iter(levels))
    for name, image in levels.items():
        axes = {axis.name: axis for axis in image.named(dims).axes}
        for dim in wanted:
            if dim not in axes or axes[dim].scale is None:
                raise ValueError(
                    f"{where}: level {name!r} has no places along {dim!r}: {list(axes)}"
                )
        if all(abs(axes[dim].step) <= size * (1 + _SAME) for dim, size in wanted.items()):
            chosen = name
    return chosen


def _is_distance(size: object) -> bool:
    number = isinstance(size, int | float | np.number) and not isinstance(size, bool)
    return number and bool(size > 0)  # type: ignore[operator]
