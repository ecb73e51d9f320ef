"""Interpolate arrays, Datasets and pyramids: `interp` and `interp_like` of the accessors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import xarray as xr

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.boxes.interp import Options, sample, stored_sides
from xarray_n5.boxes.placement import Placement, inverse
from xarray_n5.images.select import pick_level
from xarray_n5.images.tree import levels_of_tree
from xarray_n5.model.axes import NEAR
from xarray_n5.model.image import Level, Part

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from xarray_n5.boxes.neighbours import Method
    from xarray_n5.boxes.placement import Targets
    from xarray_n5.images.select import LevelChoice
    from xarray_n5.model.halos import Blocks

Source = TypeVar("Source", xr.DataArray, xr.Dataset)


def interp(
    source: Source,
    targets: Targets,
    *,
    method: Method = "linear",
    fill_value: complex | Literal["extrapolate"] | None = None,
    chunks: Blocks = None,
) -> Source:
    """Return an array or a Dataset on another grid; see the accessors' `interp`."""
    return sample(source, targets, Options(method=method, fill_value=fill_value, chunks=chunks))


def interp_like(
    source: Source,
    other: xr.DataArray | xr.Dataset,
    *,
    method: Method = "linear",
    fill_value: complex | Literal["extrapolate"] | None = None,
    chunks: Blocks = None,
) -> Source:
    """Return an array or a Dataset on another's grid; see the accessors' `interp_like`."""
    options = Options(
        method=method, fill_value=fill_value, chunks=chunks, stored=_stored_sides(other)
    )
    return sample(source, _targets_in(source, other), options)


def _targets_in(
    source: xr.DataArray | xr.Dataset, other: xr.DataArray | xr.Dataset
) -> dict[Hashable, xr.DataArray]:
    """Return the coordinates of another array along the dimensions of a source."""
    shared = [dim for dim in source.dims if dim in other.dims]
    for dim in shared:
        differ = dim in source.coords or source.sizes[dim] != other.sizes[dim]
        if dim not in other.coords and differ:
            raise ValueError(
                f"the dimension {dim!r} of the target has no coordinates; assign some with "
                "assign_coords, or rename it"
            )
    targets = {dim: other.coords[dim] for dim in shared if dim in other.coords}
    # Strings are labels, as of channels: nothing is between them.
    for dim in [dim for dim, target in targets.items() if target.dtype.kind not in "iuf"]:
        labels = targets.pop(dim).variable
        if not (dim in source.coords and labels.equals(source.coords[dim].variable)):
            raise ValueError(
                f"the coordinates {dim!r} are not numbers, and differ; select equal ones with sel"
            )
    return targets


def _stored_sides(other: xr.DataArray | xr.Dataset) -> dict[Hashable, int]:
    """Return the sides of stored chunks by dimension."""
    arrays = [other] if isinstance(other, xr.DataArray) else list(other.data_vars.values())
    sides: dict[Hashable, int] = {}
    for array in arrays:
        sides = stored_sides(array) | sides
    return sides


def level_for(
    tree: xr.DataTree, target: Targets | xr.DataArray | xr.Dataset, level: LevelChoice | None
) -> xr.Dataset:
    """Return a level of a pyramid: the chosen one, or the coarsest that is fine enough.

    Raises
    ------
    NodeNotFoundError
        If the pyramid does not have that level.
    ValueError
        If the tree is not a pyramid.
    """
    known = levels_of_tree(tree)
    if not known:
        raise ValueError(
            f"the tree has no levels, but {sorted(tree.children)}; expected 'multiscales' that "
            "list them, or the names s0, s1, ...; select the group of a pyramid, or a Dataset"
        )
    if level is not None:
        return known[pick_level(list(known), level, lambda: _axes_of(known), tree.path)]
    levels = list(known.values())
    if isinstance(target, xr.DataArray | xr.Dataset):
        target = _targets_in(levels[0], target)
    targets: Targets = target
    fine = (level for level in reversed(levels[1:]) if targets and _is_fine(level, targets))
    return next(fine, levels[0])


def _axes_of(levels: Mapping[str, xr.Dataset]) -> dict[str, Level[Any]]:
    """Return levels with the axes of their first variable."""
    arrays = {name: next(iter(level.data_vars.values())) for name, level in levels.items()}
    return {name: Level({(): Part(a)}, geometry_from(a)) for name, a in arrays.items()}


def _is_fine(level: xr.Dataset, targets: Targets) -> bool:
    """Return whether the samples of a level are no farther apart than those of a target."""
    along = {
        str(name): Placement.of(array, level)
        for name, array in level.data_vars.items()
        if not targets.keys().isdisjoint(array.dims)
    }
    return all(
        samples >= 1 - NEAR
        for name, placement in along.items()
        for samples in _samples_per_step(level[name], placement, targets)
    )


def _samples_per_step(
    array: xr.DataArray, placement: Placement, targets: Mapping[Any, Any]
) -> list[float]:
    """Return the number of samples between targets along each axis that has several targets."""
    steps = {
        str(dim): _step(placement.target(str(dim), given).values)
        for dim, given in targets.items()
        if dim in array.dims and np.size(given) > 1
    }
    if placement.matrices is None:
        samples = {dim: placement.along(array, dim) for dim in steps}
        return [step / (_step(samples[dim]) or np.inf) for dim, step in steps.items()]
    inverses = inverse(placement.matrices)
    samples_along = [
        np.fmin.reduce(np.linalg.norm(inverses[..., axis], axis=-1), None, initial=np.inf)
        * steps[dim]
        for axis, dim in enumerate("zyx")
        if dim in steps
    ]
    return [float(samples) for samples in samples_along]


def _step(numbers: np.ndarray) -> float:
    """Return the mean distance between numbers in order; 0 for a single one."""
    return float(np.ptp(numbers)) / (numbers.size - 1) if numbers.size > 1 else 0.0
