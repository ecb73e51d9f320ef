"""Find the part of each array within a box of physical coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import xarray as xr

from xarray_n5.arrays.coordinates import coords_of, dims_of
from xarray_n5.boxes.crop import check, crop, windows_of
from xarray_n5.datasets.world import are_apart
from xarray_n5.errors import MetadataError, printable
from xarray_n5.model.alerts import warn

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.boxes.crop import Bounds
    from xarray_n5.model.axes import Geometry

Region = tuple[slice, ...]


def regions_within(
    arrays: Mapping[str, Array],
    geometries: Mapping[str, Geometry],
    bounds: Mapping[str, Bounds],
) -> dict[str, Region | None]:
    """Return the part of each array that `bounds` select; None for arrays without these dimensions.

    Arrays without samples there, such as coarse levels, are left out with a warning.

    Raises
    ------
    ValueError
        If bounds are invalid, an array has no coordinates along their dimensions, or no array has
        samples there.
    """
    dims = {inner: dims_of(geometries[inner]) for inner in arrays}
    sizes: dict[Hashable, int] = {
        d: n for at, each in arrays.items() for d, n in zip(dims[at], each.shape, strict=True)
    }
    check(sizes, bounds)
    found: dict[str, Region | None] = {}
    empty: dict[str, str] = {}
    for inner, array in arrays.items():
        own = {dim: pair for dim, pair in bounds.items() if dim in dims[inner]}
        coords = _coords(inner, arrays, geometries, own)
        whole = {dim: slice(0, size) for dim, size in zip(dims[inner], array.shape, strict=True)}
        try:
            inside = windows_of(coords, own)
        except ValueError as error:
            raise ValueError(f"{array.url!r}: {error}") from None
        if dim := next((dim for dim, part in inside.items() if part.start == part.stop), ""):
            values, unit = coords[dim].values, coords[dim].attrs.get("units", "")
            shown = f"{array.url}: {dim} is {values[0]} to {values[-1]} {unit}"
            empty[inner] = printable(shown.rstrip())
        else:
            found[inner] = tuple({**whole, **inside}.values()) if own else None
    if empty and not any(found.values()):
        raise ValueError(f"no samples are within the bounds; {'; '.join(empty.values())}")
    if empty:
        warn(f"left out, as no samples are within the bounds: {', '.join(sorted(empty))}")
    return found


def tree_within(tree: xr.DataTree, bounds: Mapping[str, Bounds], where: str) -> xr.DataTree:
    """Return the box of the images of a scene; those without samples there are left out.

    Raises
    ------
    MetadataError
        If their coordinates are distances in views that have positions of their own.
    ValueError
        If bounds are invalid, or there are no samples within them.
    """
    by_level: dict[str | None, list[xr.Dataset]] = {}
    for node in tree.subtree:
        by_level.setdefault(node.name, []).append(node.to_dataset())
    if any(are_apart(each, bounds) for each in by_level.values()):
        raise MetadataError(
            f"{where}: along {', '.join(bounds)}, coordinates count from the first sample of each "
            "view, and views have positions of their own, so this is another box in each; fuse "
            "them first, ds.n5.interp_like(grid.n5.crop(...)), or copy a view from the container"
        )
    cropped = crop(tree, bounds)
    empty = {n.path for n in cropped.subtree if n.data_vars and 0 in n.sizes.values()}
    if not any(node.data_vars for node in cropped.subtree if node.path not in empty):
        places = [
            printable(f"{path}: {dim} is {ends.values[0]} to {ends.values[-1]}")
            for path in sorted(empty)
            for dim in bounds
            if (ends := tree[path].coords.get(dim)) is not None
        ]
        raise ValueError(f"{where!r}: no samples are within the bounds; {'; '.join(places)}")
    if empty:
        warn(f"left out, as no samples are within the bounds: {', '.join(sorted(empty))}")
        cropped = cropped.filter(lambda node: node.path not in empty)
    return cropped


def _coords(
    inner: str,
    arrays: Mapping[str, Array],
    geometries: Mapping[str, Geometry],
    dims: Mapping[str, object],
) -> xr.Dataset:
    """Return the coordinates of an array: of its axes, or in arrays of their names next to it."""
    found = coords_of(geometries[inner], arrays[inner].shape)
    for dim in dims.keys() - found.keys():
        at = f"{inner.rpartition('/')[0]}/{dim}".lstrip("/")
        if at in arrays and dims_of(geometries[at]) == (dim,):
            attrs = {key: arrays[at].attrs[key] for key in ("units",) if key in arrays[at].attrs}
            found[dim] = xr.Variable((dim,), arrays[at][...], attrs)
    return xr.Dataset(coords={dim: each for dim, each in found.items() if dim in dims})


@dataclass(frozen=True, slots=True)
class Part:
    """The part of an array that is copied."""

    shape: tuple[int, ...]
    geometry: Geometry
    is_whole: bool


def parts_of(
    arrays: Mapping[str, Array],
    geometries: Mapping[str, Geometry],
    regions: Mapping[str, Region | None],
) -> dict[str, Part]:
    """Return the parts of arrays that are copied, by their paths."""
    found = {}
    for inner, region in regions.items():
        shape, geometry = arrays[inner].shape, geometries[inner]
        if region is not None:
            shape = tuple(side.stop - side.start for side in region)
            geometry = moved(geometry, region)
        found[inner] = Part(shape, geometry, region is None)
    return found


def moved(geometry: Geometry, box: tuple[slice, ...]) -> Geometry:
    """Return the geometry of a part."""
    axes = tuple(
        replace(axis, labels=axis.labels[side])
        if axis.labels is not None
        else replace(axis, offset=axis.position(side.start) if axis.placed else 0.0)
        for axis, side in zip(geometry.axes, box, strict=True)
    )
    rows = geometry.affine
    if rows is not None:
        starts = [side.start for side in box]
        rows = tuple(
            (*row[:-1], row[-1] + sum(a * b for a, b in zip(row, starts, strict=False)))
            for row in rows
        )
    return replace(geometry, axes=axes, affine=rows)
