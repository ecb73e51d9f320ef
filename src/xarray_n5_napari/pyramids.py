"""Find pyramids in a tree of Datasets: variables of one name that are opened as levels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from xarray_n5.datasets.world import AXES, DIMS, FRAME
from xarray_n5.dialects.labels import type_in_paintera
from xarray_n5.images.select import listed_levels
from xarray_n5.model.level_names import is_level_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import xarray as xr

_NUMBERS = "biufc"
"""The kinds of types that napari shows."""

_LEAST = 2
"""The minimum number of axes of a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pyramid:
    """The levels of an image, the finest first, or a single array."""

    name: str
    levels: Sequence[xr.DataArray]
    group: Mapping[str, Any]
    """The attributes that describe it: those of its group, or of the group above "data"."""
    affine: xr.DataArray | None = None
    """The matrices of a project's views, unless their coordinates are world positions."""

    @property
    def base(self) -> xr.DataArray:
        """The finest level."""
        return self.levels[0]


def pyramids_in(groups: Mapping[str, xr.Dataset]) -> list[Pyramid]:
    """Return the pyramids and single arrays in Datasets by path; scalars and strings are left out.

    For a dataset of Paintera, these are only its data, not the tables beside it.
    """
    found: dict[tuple[str, object], dict[str, xr.DataArray]] = {}
    listed = _listed(groups)
    for path, dataset in groups.items():
        if _is_beside_data(path, groups) or is_level_table(path):
            continue
        # A Dataset of one array has its source; one of several variables is a group.
        of_array = "source" in dataset.encoding and len(dataset.data_vars) == 1
        place = listed.get(path, path.rpartition("/")[0]) if of_array else path
        for name, array in dataset.data_vars.items():
            if array.ndim >= _LEAST and array.size and array.dtype.kind in _NUMBERS:
                own = path if of_array else f"{path}/{name}"
                found.setdefault((place, name), {})[own] = array
    return [
        pyramid
        for (place, name), arrays in found.items()
        for pyramid in _joined(place, str(name), arrays, groups)
    ]


def _listed(groups: Mapping[str, xr.Dataset]) -> dict[str, str]:
    """Return the groups whose ``multiscales`` list an array as a level, by the array's path."""
    return {
        f"{path.rstrip('/')}/{level}": path
        for path, dataset in groups.items()
        for level in listed_levels(dataset.attrs)
    }


def _joined(
    place: str, name: str, arrays: Mapping[str, xr.DataArray], groups: Mapping[str, xr.Dataset]
) -> list[Pyramid]:
    """Return arrays of one name as a pyramid, or separately if they are not levels."""
    ordered = sorted(arrays, key=lambda path: -arrays[path].size)
    levels = [arrays[path] for path in ordered]
    group = _described_by(place, groups)
    if len(levels) > 1 and all(_is_coarser(*each) for each in pairwise(levels)):
        affine = _registrations(groups[ordered[0]])
        label = place.strip("/") or name
        return [Pyramid(name=label, levels=levels, group=group, affine=affine)]
    return [
        Pyramid(
            name=path.strip("/") or name,
            levels=[array],
            group=group,
            affine=_registrations(groups[path]) if path in groups else None,
        )
        for path, array in arrays.items()
    ]


def _registrations(dataset: xr.Dataset) -> xr.DataArray | None:
    """Return the matrices of views, z y x, if coordinates are only distances in a view."""
    if "affine" not in dataset.coords:
        return None
    found = dataset["affine"]
    names = [str(name) for name in found.attrs.get(DIMS, AXES) if name in dataset.coords]
    if not any(FRAME in dataset[name].encoding for name in names):
        return None
    return found.sel(axis=list(AXES)).transpose(..., "axis", "column")


def _is_coarser(level: xr.DataArray, after: xr.DataArray) -> bool:
    """Return whether an array may be the level after another one."""
    if level.dims != after.dims or level.dtype != after.dtype or level.shape == after.shape:
        return False
    return all(one >= other for one, other in zip(level.shape, after.shape, strict=True))


def _described_by(place: str, groups: Mapping[str, xr.Dataset]) -> Mapping[str, Any]:
    """Return the attributes of the nearest dataset of Paintera, or of the group itself."""
    above = [groups[each].attrs for each in _above(f"{place}/", groups)]
    painted = (each for each in above if type_in_paintera(each) is not None)
    own = groups.get(place or "/")
    return next(painted, {} if own is None else own.attrs)


def _is_beside_data(path: str, groups: Mapping[str, xr.Dataset]) -> bool:
    """Return whether a node is in a dataset of Paintera, but not in its data."""
    painted = [e for e in _above(path, groups) if type_in_paintera(groups[e].attrs) is not None]
    data = [f"{each.rstrip('/')}/data/" for each in painted]
    return any(
        not f"{path}/".startswith(each) and any(f"{other}/".startswith(each) for other in groups)
        for each in data
    )


def _above(path: str, groups: Mapping[str, xr.Dataset]) -> list[str]:
    """Return the paths of the groups above a node, the nearest first."""
    parts = (
        path.strip("/").split("/")[:-1] if not path.endswith("/") else path.strip("/").split("/")
    )
    paths = ["/" + "/".join(parts[:count]) for count in range(len(parts), -1, -1)]
    return [each for each in dict.fromkeys(paths) if each in groups and each != path]
