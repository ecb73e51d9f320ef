"""The images of a tree as in projects: their levels, and the factors of these."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.datasets.world import AXES
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.factors import of_one_sample
from xarray_n5.model.tolerances import SAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import xarray as xr

    from xarray_n5.model.axes import Axis

_LEVEL = re.compile(r"(?:(.*)/)?s?(\d+)")


def images_of_tree(tree: xr.DataTree) -> dict[str, dict[str, xr.Dataset]]:
    """Return the Datasets of a tree by image and by node: levels are called s0, s1, ....

    Raises
    ------
    MetadataError
        If there are none.
    """
    found: dict[str, dict[int, tuple[str, xr.Dataset]]] = {}
    for node in tree.subtree:
        if not node.data_vars:
            continue
        path = node.relative_to(tree)
        path = "" if path == "." else path
        match = _LEVEL.fullmatch(path)
        image, level = (match[1] or "", int(match[2])) if match else (path, 0)
        found.setdefault(image, {})[level] = (node.path, node.to_dataset())
    if not found:
        raise MetadataError("the tree has no variables; expected an image for the project")
    return {image: dict(levels[n] for n in sorted(levels)) for image, levels in found.items()}


def factors_of_levels(name: str, levels: Sequence[xr.DataArray]) -> list[tuple[int, ...]]:
    """Return the factors of an image's levels over the first along z, y, x.

    Raises
    ------
    MetadataError
        If they are not whole numbers, or levels are not in order.
    """
    columns = [_column(name, axis, levels) for axis in AXES]
    found = list(zip(*columns, strict=True))
    for before, after in pairwise(found):
        if after == before or any(a < b for a, b in zip(after, before, strict=True)):
            raise MetadataError(
                f"the levels of {name!r} have the factors {[list(each) for each in found]} over "
                "the first along z, y, x; expected each to be coarser than the level before it"
            )
    return found


def _column(name: str, dim: str, levels: Sequence[xr.DataArray]) -> list[int]:
    base = _axis(levels[0], dim)
    found = []
    for number, level in enumerate(levels):
        factor = _factor(base, levels[0].sizes[dim], _axis(level, dim), level.sizes[dim])
        if abs(factor - round(factor)) > SAME * factor or round(factor) < 1:
            raise MetadataError(
                f"level {number} of {name!r} has the factor {factor:g} along {dim} over the "
                "first; a project requires whole numbers"
            )
        found.append(round(factor))
        own = _axis(level, dim)
        if base is not None and own is not None:
            middle = base.offset + base.step * (round(factor) - 1) / 2
            if abs(own.offset - middle) > SAME * abs(base.step):
                warn(
                    f"level {number} of {name!r} begins at {dim} = {own.offset:g}; a project "
                    f"centres samples on those that they cover, which begins at {middle:g}"
                )
    return found


def _axis(level: xr.DataArray, dim: str) -> Axis | None:
    """Return an axis by its coordinate; None if that only counts samples, or there is none."""
    if dim not in level.coords:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first level's coordinate is checked
        (axis,) = geometry_from(level.coords[dim]).axes
    return axis if axis.placed else None


def _factor(base: Axis | None, size: int, axis: Axis | None, count: int) -> float:
    if base is None or axis is None:
        return size // max(count, 1)
    if count > 1:
        return axis.step / base.step
    factor = of_one_sample(axis, base, otherwise=float(size))
    return factor if factor.is_integer() else float(size)


def check_alike(
    name: str, datasets: Mapping[str, xr.Dataset], arrays: Sequence[xr.DataArray]
) -> None:
    """Raise MetadataError if levels differ in more than the sizes of z, y and x."""
    first = arrays[0]
    outer = {dim: size for dim, size in first.sizes.items() if dim not in AXES}
    for path, array in zip(datasets, arrays, strict=True):
        sizes = {dim: size for dim, size in array.sizes.items() if dim not in AXES}
        if sizes != outer or array.dtype != first.dtype:
            raise MetadataError(
                f"the level {path!r} of {name!r} is {array.dtype} of {dict(array.sizes)}, the "
                f"first {first.dtype} of {dict(first.sizes)}; expected levels of one type, with "
                "the same views"
            )
