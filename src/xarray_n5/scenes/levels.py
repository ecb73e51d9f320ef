"""Levels of placed images in Datasets: their axes, names and transformations to the world."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.coordinates import geometry_from, step_of
from xarray_n5.datasets.placed import BESIDE, demands_on, only_image
from xarray_n5.datasets.world import (
    AFFINE,
    AXES,
    STEP,
    WORLD_SYSTEM,
    is_placed,
    placed_by_matrices,
)
from xarray_n5.errors import MetadataError
from xarray_n5.model.axes import Axis, Geometry, kind_of
from xarray_n5.model.paths import view_path
from xarray_n5.model.systems import CoordinateSystem, SystemAxis
from xarray_n5.model.units import unit_of, written_unit
from xarray_n5.scenes.scene import DIM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import xarray as xr

    from xarray_n5.writing.options import Encoding

_WORLD = "world"
"""The name of the world, unless the matrices state it."""

_ENCODINGS = {"chunks", "compression", "shards"}
"""The encodings of an image that users may set."""


@dataclass(frozen=True, kw_only=True)
class PlacedLevel:
    """A level of images, and their positions."""

    node: str
    dataset: xr.Dataset
    source: xr.DataArray
    """The variable as it is."""
    data: xr.DataArray
    """The variable with the stacked dimensions first, and those of space last."""
    stacked: tuple[str, ...]
    """The dimensions of images."""
    geometry: Geometry
    """The axes of each of them: those of space are the last."""
    matrices: np.ndarray
    """From samples to positions, the stacked dimensions first."""
    world: CoordinateSystem
    chosen: Mapping[str, Any]

    @classmethod
    def of(cls, node: str, dataset: xr.Dataset, encoding: Encoding) -> PlacedLevel:
        """Return the positions of a Dataset's images; raise if they are not known."""
        dataset = dataset.set_coords([name for name in BESIDE if name in dataset.data_vars])
        data = only_image(dataset, node)
        chosen = demands_on(data, encoding, _ENCODINGS)
        _check_affine(node, dataset)
        placed = placed_by_matrices(dataset) if is_placed(dataset) else None
        if placed is None:
            raise MetadataError(
                f"{node}: {data.name!r} has no coordinate 'affine', which places each image in the "
                "world of a scene; add one with the dimensions (image, axis, column)"
            )
        stacked, matrices = placed
        space = [axis for axis in AXES if axis in data.dims]
        rest = [str(dim) for dim in data.dims if dim not in {*stacked, *AXES}]
        rest.sort(key=lambda dim: kind_of(dim, None) != "time")
        if [*space] not in ([*AXES], [*AXES[1:]]) or not {*stacked} <= {*data.dims} - {*AXES}:
            raise MetadataError(
                f"{node}: {data.name!r} has the dimensions {', '.join(map(str, data.dims))}, and "
                f"'affine' has {', '.join(stacked) or 'none'} of images; expected z, y, x (or y, "
                "x), and those of 'affine'"
            )
        geometry = Geometry(tuple(_axis(node, data, dim) for dim in (*rest, *space)))
        attrs = dataset[AFFINE].attrs if AFFINE in dataset.variables else {}
        stated = attrs.get("units", dataset[space[-1]].attrs.get("units") if not attrs else None)
        unit = _spelt(written_unit(stated))
        axes = [SystemAxis(a.name or "", a.kind, a.unit) for a in geometry.axes[: len(rest)]]
        axes += [SystemAxis(name, "space", unit) for name in space]
        return cls(
            node=node,
            dataset=dataset,
            source=data,
            data=data.transpose(*stacked, *rest, *space),
            stacked=stacked,
            geometry=geometry,
            matrices=matrices,
            world=CoordinateSystem(str(attrs.get(WORLD_SYSTEM, _WORLD)), tuple(axes)),
            chosen=chosen,
        )

    def positions(self) -> Iterator[dict[str, int]]:
        """Iterate over the images that exist, as positions along the stacked dimensions."""
        missing = self.dataset["missing"] if "missing" in self.dataset.variables else None
        for index in np.ndindex(*(self.data.sizes[dim] for dim in self.stacked)):
            at = dict(zip(self.stacked, index, strict=True))
            if missing is None or not bool(_value(missing, at)):
                yield at

    def name(self, at: Mapping[str, int], image: str) -> str:
        """Return the name of an image: its path in a scene, or that of a view."""
        known = self.dataset.coords
        if DIM in known and known[DIM].dims in {(), (DIM,)}:
            return str(_value(known[DIM], at))
        if "setup" in known and "t" in known:
            return view_path(int(_value(known["setup"], at)), int(_value(known["t"], at)))
        if self.stacked in {(), (DIM,)}:
            return "/".join(filter(None, (image, *(f"{DIM}{n}" for n in at.values())))) or DIM
        raise MetadataError(
            f"{self.node}: 'affine' has the dimensions {', '.join(self.stacked)}; expected 'image' "
            "with the names of images as its coordinate, or coordinates 'setup' and 't': use "
            "rename, or stack and assign_coords"
        )

    def edge(self, at: Mapping[str, int], name: str) -> np.ndarray:
        """Return the matrix from an image's own coordinates z, y, x to its position."""
        rows = self.matrices[tuple(at[dim] for dim in self.stacked)]
        linear = rows[:, :-1]
        size = np.abs(linear).max(initial=0) or 1.0
        finite = np.isfinite(rows).all()
        if not finite or np.linalg.matrix_rank(linear / size, tol=1e-12) < len(AXES):
            raise MetadataError(
                f"{name!r} has no position: its affine is {rows.tolist()}; expected finite numbers "
                "that can be inverted, or select the other images"
            )
        lines = {axis.name: axis for axis in self.geometry.axes}
        lines_of_axes = [lines.get(axis, Axis()) for axis in AXES]
        rest: np.ndarray = linear / [axis.step for axis in lines_of_axes]
        moved = rows[:, -1] - rest @ [axis.offset for axis in lines_of_axes]
        return np.column_stack([rest, moved])


def _check_affine(node: str, dataset: xr.Dataset) -> None:
    """Raise MetadataError if the coordinate of matrices has another form."""
    if AFFINE not in dataset.variables:
        return
    affine = dataset[AFFINE]
    sizes = [affine.sizes.get("axis"), affine.sizes.get("column")]
    named = [str(name) for name in dataset["axis"].values] if "axis" in affine.coords else [*AXES]
    if sizes != [len(AXES), len(AXES) + 1] or sorted(named) != sorted(AXES):
        raise MetadataError(
            f"{node}: 'affine' has the dimensions {dict(affine.sizes)} and the axes {named}; "
            "expected one matrix of 3 x 4 for each image, with the dimensions (image, axis, "
            "column) and the axes z, y, x"
        )


def _axis(node: str, data: xr.DataArray, dim: str) -> Axis:
    """Return an axis by its coordinate."""
    kind = "space" if dim in AXES else kind_of(dim, None)
    if dim not in data.coords:
        return Axis(name=dim, kind=kind)
    coordinate = data[dim]
    counts = coordinate.dtype.kind in "iuf" and coordinate.size == 1
    if counts and dim in AXES and step_of(coordinate) is None:
        facts = data.coords[AFFINE].attrs if AFFINE in data.coords else {}
        named = dict(zip(AXES, facts.get(STEP, ()), strict=False))
        unit = _spelt(written_unit(coordinate.attrs.get("units")))
        step, start = float(named.get(dim, 1.0)), float(coordinate.values[0])
        return Axis(name=dim, kind=kind, unit=unit, scale=step, offset=start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (axis,) = geometry_from(coordinate).axes
    regular = axis.scale is not None or coordinate.dtype.kind in "iu"
    if dim in AXES and (not regular or axis.labels is not None or not axis.step > 0):
        raise MetadataError(
            f"{node}: the coordinate {dim!r} is not evenly spaced and ascending, but voxels of "
            f"OME-Zarr have one size; resample or sort the image, or use drop_vars({dim!r})"
        )
    return replace(axis, kind=axis.kind or kind, unit=_spelt(axis.unit), labels=None)


def _spelt(unit: str | None) -> str | None:
    """Return a unit as OME-Zarr spells it, if it is known."""
    known = unit_of(unit)
    return known.word if known else unit


def _value(variable: xr.DataArray, at: Mapping[str, int]) -> Any:
    """Return a coordinate's value for one image."""
    return variable.isel({d: n for d, n in at.items() if d in variable.dims}).values.item()
