"""Select the images that become one Dataset: an array, a level of a pyramid, a group's arrays."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import context_of, hint_of_xml
from xarray_n5.errors import NodeNotFoundError, printable
from xarray_n5.images.find import (
    combined_images,
    is_part_of_image,
    levels_of,
    listed_levels,
    name_of_group,
    named_alike,
    single_image,
)
from xarray_n5.model.axes import ROUNDING
from xarray_n5.model.metadata import is_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from xarray_n5.arrays.group import Group
    from xarray_n5.dialects.protocol import DialectChoice
    from xarray_n5.model.image import Image, Level

LevelChoice: TypeAlias = "int | str | Mapping[str, float]"
"""A level that users choose by its number, its name, or distances between samples."""

_MOST_GROUPS = 32
"""The maximum number of groups that are searched for pyramids, which costs requests for each."""


def select_images(
    node: Array | Group,
    *,
    without: Container[str] = (),
    dialect: DialectChoice | None = None,
) -> dict[str, Image[Array]]:
    """Return the images that become one Dataset, by name.

    Parameters
    ----------
    node
        An array, or a group of arrays.
    without
        The names of arrays to omit.
    dialect
        As in :meth:`Array.geometry`.

    Raises
    ------
    NodeNotFoundError
        If a group has no arrays.
    ValueError
        If there are several levels.
    """
    how: dict[str, Any] = {"dialect": dialect}
    if isinstance(node, Array):
        return {node.node.name: single_image(node, **how)}
    if arrays := node.arrays(without):
        return _one_of_each_name(images_of_arrays(arrays, **how))
    if is_dataset(node.attrs):
        return {}  # its groups are other Datasets, not parts of an image
    images = _images_of_level(node, {}, None, without=without, **how)
    if images is None:
        hint = (
            f"the group has {', '.join(node) or 'nothing'}; name an array or its group with group="
        )
        raise NodeNotFoundError(node.url, "", "array", hint)
    return images


def select_level(
    node: Array | Group,
    level: LevelChoice,
    *,
    without: Container[str] = (),
    dialect: DialectChoice | None = None,
) -> tuple[Group, dict[str, Image[Array]]]:
    """Return a level of a pyramid by its name, and the group of the pyramid.

    Parameters
    ----------
    node
        The group of a pyramid, or a group with nothing else in it.
    level
        The level: its number, its name, or the distance between samples by dimension.
    without
        The names of arrays to omit.
    dialect
        As in :meth:`Array.geometry`.

    Raises
    ------
    NodeNotFoundError
        If there is no pyramid, or not that level.
    ValueError
        If it is an array.
    """
    how: dict[str, Any] = {"dialect": dialect}
    if isinstance(node, Array):
        text = f"level= is for a group of arrays; {node.url!r} is an array"
        raise ValueError(text)  # noqa: TRY004 - the value of `level` is wrong here
    children = node.nodes(without=without)
    arrays = {name: child for name, child in children.items() if isinstance(child, Array)}
    images = _images_of_level(node, arrays, level, without=without, **how)
    if images is not None:
        return node, images
    inner = {name: child for name, child in children.items() if not isinstance(child, Array)}
    pyramids = [
        name
        for name, group in islice(inner.items(), _MOST_GROUPS)
        if levels_of(group, group.arrays(without))
    ]
    if len(children) == len(pyramids) == 1:
        return select_level(inner[pyramids[0]], level, without=without, **how)
    hint = "there is no pyramid"
    if pyramids:
        hint = f"there are pyramids in its groups {', '.join(pyramids)}; name one with group="
    raise NodeNotFoundError(node.url, str(level), "level", hint)


def pick_level(
    names: Sequence[str],
    level: object,
    axes: Callable[[], Mapping[str, Level[Any]]],
    where: str,
    advise: Callable[[], str] = str,
) -> str:
    """Return the name of the level that users choose.

    Parameters
    ----------
    names
        The names of the levels, the finest first.
    level
        The position of the level, where -1 is the coarsest; its name; or distances between samples
        by dimension, in the units of the coordinates, which select the coarsest level with at most
        these distances, or the finest. None selects the only level.
    axes
        A function that returns the levels by name, which is called for distances only.
    where
        The pyramid's location, for errors.
    advise
        A function that returns more advice where there are several levels; "" for none.

    Raises
    ------
    NodeNotFoundError
        If there is no such level.
    TypeError, ValueError
        If it is not a level, or None of several, or the pyramid lacks a dimension, or its
        coordinate.
    """
    if level is None and len(names) != 1:
        advice = advise()
        raise ValueError(
            f"{where!r} has the levels {printable(', '.join(names))}; open one of them with "
            f"level=0, or all with xarray.open_datatree{f'; {advice}' if advice else ''}"
        )
    if level is None:
        return names[0]
    if isinstance(level, Mapping):
        return _level_by_distance(axes() if names else {}, level, where)
    if isinstance(level, str):
        number = names.index(level) if level in names else len(names)
    elif isinstance(level, SupportsIndex) and not isinstance(level, bool):
        number = operator.index(level)
    else:
        raise TypeError(f"level is {level!r}; expected a number, a name or distances by dimension")
    if -len(names) <= number < len(names):
        return names[number]
    hint = f"the levels are {', '.join(names)}" if names else "there is no pyramid"
    raise NodeNotFoundError(where, str(level), "level", hint)


def share_dimensions(arrays: Mapping[str, Array], attributes: Mapping[str, Any]) -> bool:
    """Return whether all arrays have dimension names as in xarray's Zarr, and consistent sizes.

    Arrays without dimensions need no names: zarr-python omits their ``dimension_names``.
    """
    if arrays and set(arrays) <= set(listed_levels(attributes)):
        return False  # a pyramid, even of one level
    sizes: dict[str, int] = {}
    for array in arrays.values():
        dims: Any = array.attrs.get("_ARRAY_DIMENSIONS", None if array.ndim else [])
        if not isinstance(dims, list) or len(dims) != array.ndim:
            return False
        if not all(isinstance(dim, str) for dim in dims):
            return False
        if any(sizes.setdefault(d, s) != s for d, s in zip(dims, array.shape, strict=True)):
            return False
    return bool(arrays)


def levels_in_groups(group: Group, levels: Mapping[str, Array]) -> dict[str, Array]:
    """Return the levels in groups of a group, but for those that are variables of a Dataset."""
    inner = {path: array for path, array in levels.items() if "/" in path}
    datasets = {
        path
        for path, node in group.nodes({path.rpartition("/")[0] for path in inner}).items()
        if not isinstance(node, Array) and (is_dataset(node.attrs) or len(node.arrays()) > 1)
    }
    return {n: array for n, array in inner.items() if n.rpartition("/")[0] not in datasets}


def images_of_arrays(
    arrays: Mapping[str, Array],
    *,
    dialect: DialectChoice | None = None,
) -> dict[str, Image[Array]]:
    """Return the arrays of a group as images; the groups above are read once."""
    context = context_of(next(iter(arrays.values())).node)
    sizes = {name: array.shape[0] for name, array in arrays.items() if array.ndim == 1}
    context = replace(context, coordinate_sizes=sizes)
    return {
        name: single_image(array, like=context, dialect=dialect) for name, array in arrays.items()
    }


def _one_of_each_name(images: Mapping[str, Image[Array]]) -> dict[str, Image[Array]]:
    """Return images with unique names: those of their arrays if several would share one."""
    names = [image.name or key for key, image in images.items()]
    return {
        key: replace(image, name=None) if names.count(image.name or key) > 1 else image
        for key, image in images.items()
    }


def _images_of_level(
    group: Group,
    arrays: Mapping[str, Array],
    level: LevelChoice | None,
    *,
    without: Container[str],
    **how: Any,
) -> dict[str, Image[Array]] | None:
    """Return a level of the pyramid in a group, the only one by default; None without a pyramid."""
    advise = partial(hint_of_xml, group.container)
    if stored := levels_of(group, arrays):

        def axes() -> dict[str, Level[Array]]:
            return {name: single_image(array, **how).base for name, array in stored.items()}

        array = stored[pick_level(list(stored), level, axes, group.url, advise)]
        return named_alike({array.node.name: single_image(array, **how)}, name_of_group(group))
    if image := None if arrays else _combined_image(group, without=without, **how):
        levels = image.levels
        name = pick_level(list(levels), level, lambda: levels, group.url, advise)
        return {name: image.at(name)}
    return None


def _combined_image(group: Group, **how: Any) -> Image[Array] | None:
    """Return the image that the groups in a group form, or None."""
    images = combined_images(group, **how)
    if "" not in images and any(map(is_part_of_image, group)):
        apart = f"; {printable(', '.join(images))} are images" if images else ""
        advice = "open one with group=, or all of them with xarray.open_datatree"
        raise ValueError(
            f"the images in {group.url!r} differ in shape, type, position or levels{apart}; "
            f"{hint_of_xml(group.container) or advice}"
        )
    return images.get("")


def _level_by_distance(
    levels: Mapping[str, Level[Array]], wanted: Mapping[str, float], where: str
) -> str:
    if not levels:
        raise NodeNotFoundError(where, str(dict(wanted)), "level", "there is no pyramid")
    if not wanted or not all(map(_is_distance, wanted.values())):
        raise ValueError(f"level is {dict(wanted)}; expected positive distances by dimension")
    chosen = next(iter(levels))
    for name, level in levels.items():
        axes = {axis.name: axis for axis in level.named().axes}
        for dim in wanted:
            if dim not in axes or axes[dim].scale is None:
                raise ValueError(
                    f"{where!r}: level {name!r} has no coordinates along {dim!r}: {list(axes)}"
                )
        if all(abs(axes[dim].step) <= size * (1 + ROUNDING) for dim, size in wanted.items()):
            chosen = name
    return chosen


def _is_distance(size: object) -> bool:
    number = isinstance(size, int | float | np.number) and not isinstance(size, bool)
    return number and bool(size > 0)  # type: ignore[operator]
