"""Describe Datasets as views of a project: setups, time points, registrations, levels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.bdv.loaders import View
from xarray_n5.bdv.matrices import Placement, axis_along
from xarray_n5.bdv.project import KINDS, Project, ViewSetup
from xarray_n5.bdv.setups import Setups, value_of, whole
from xarray_n5.datasets.world import AXES
from xarray_n5.errors import MetadataError
from xarray_n5.model.alerts import warn
from xarray_n5.model.factors import of_one_sample
from xarray_n5.model.level_names import level_number
from xarray_n5.model.tolerances import SAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import xarray as xr

    from xarray_n5.bdv.project import Entity
    from xarray_n5.bdv.registrations import Registration
    from xarray_n5.model.axes import Axis

_BESIDE = frozenset({"affine", "registration", "missing", *(f"origin_{axis}" for axis in AXES)})
"""Variables of an image's Dataset that are not the image."""

_ALIASES = {"c": "channel", "time": "t", "image": "tile"}
"""Other names of dimensions: an image of a scene is a tile."""


@dataclass(frozen=True, kw_only=True)
class Described:
    """Views to write, and their description for an XML."""

    project: Project
    views: Mapping[View, Mapping[str, int]]
    """The positions of the existing views along the dimensions before z."""
    levels: Sequence[xr.DataArray]
    """The image's levels, the dimensions of views first."""

    def data(self, view: View, level: int) -> xr.DataArray:
        """Return a level of a view."""
        return self.levels[level].isel(self.views[view]).transpose(*AXES)


def describe(
    name: str, levels: Sequence[xr.Dataset], before: Project | None, taken: Mapping[int, ViewSetup]
) -> Described:
    """Return the views in the levels of an image.

    Parameters
    ----------
    name
        The image, for messages.
    levels
        The image's levels, the finest first.
    before
        The project that the views are added to.
    taken
        The setups of other images, whose ids are in use.

    Raises
    ------
    MetadataError
        If these are not the views of a project.
    """
    datasets = [_with_values(_named(level)) for level in levels]
    arrays = [_image(each, name) for each in datasets]
    dims = [str(dim) for dim in arrays[0].dims if dim not in AXES]
    _check_dims(arrays[0], dims)
    base = datasets[0]
    times = _timepoints(base, dims)
    placement = Placement.of(base, before)
    reader = Setups(base, placement, [d for d in dims if d != "t"], arrays[0], before, taken)
    found, views = {}, {}
    entities: dict[str, dict[int, Entity]] = {}
    missing: set[View] = set()
    registrations: dict[View, Registration] = {}
    for setup, position in reader.all():
        if setup.id in found or setup.id in taken:
            raise MetadataError(f"several views of {name!r} have the setup {setup.id}")
        found[setup.id] = setup
        for kind, number in setup.attributes.items():
            entity = reader.name_of(kind, number, position)
            first = entities.setdefault(kind, {}).setdefault(number, entity)
            if first.name != entity.name:
                raise MetadataError(
                    f"the {kind} {number} has two names, {first.name!r} and {entity.name!r}"
                )
        for place, time in enumerate(times):
            view = View(time, setup.id)
            at = {**position, **({"t": place} if "t" in dims else {})}
            if "missing" in base.variables and value_of(base, "missing", at):
                missing.add(view)
            else:
                views[view] = at
            if (registered := placement.registration(view, at)) is not None:
                registrations[view] = registered
    project = Project(
        setups=dict(sorted(found.items())),
        entities=entities,
        timepoints=tuple(sorted(times)),
        missing=frozenset(missing),
        registrations=registrations,
    )
    return Described(project=project, views=views, levels=arrays)


def _named(dataset: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose dimensions have the names of a project's."""
    if "image" in dataset.coords:
        dataset = dataset.assign_coords(setup_name=dataset["image"])
    renamed = {
        name: other
        for name, other in _ALIASES.items()
        if (name in dataset.dims or (name == "image" and name in dataset.coords))
        and other not in dataset.variables
        and other not in dataset.dims
    }
    return dataset.rename(renamed) if renamed else dataset


def _with_values(dataset: xr.Dataset) -> xr.Dataset:
    """Return a Dataset with its coordinates in memory, read in one batch."""
    facts = [name for name in dataset.data_vars if name in _BESIDE]
    return dataset.assign_coords(dataset.set_coords(facts).coords.to_dataset().compute().coords)


def _image(dataset: xr.Dataset, where: str) -> xr.DataArray:
    """Return the only image of a Dataset."""
    names = [name for name in dataset.data_vars if name not in _BESIDE]
    if len(names) != 1:
        raise MetadataError(
            f"expected one image for a project, but {where!r} has {len(names)} variables: "
            f"{', '.join(map(str, names)) or 'none'}; select one with ds[[name]], or join "
            "channels along the dimension 'channel' with xarray.concat"
        )
    return dataset[names[0]]


def _check_dims(array: xr.DataArray, dims: Sequence[str]) -> None:
    known = ("t", "setup", *KINDS)
    lacking = [axis for axis in AXES if axis not in array.dims]
    unknown = [dim for dim in dims if dim not in known]
    both = "setup" in dims and set(KINDS) & set(dims)
    if lacking or unknown or both:
        raise MetadataError(
            f"the image has the dimensions {', '.join(map(str, array.dims))}; expected z, y, x, "
            "preceded by any of t, channel, tile, angle, illumination, or by t and setup: rename "
            "dimensions with rename, add missing ones with expand_dims"
        )


def _timepoints(dataset: xr.Dataset, dims: Sequence[str]) -> list[int]:
    """Return the ids of time points."""
    if "t" not in dataset.coords:
        return list(range(dataset.sizes["t"])) if "t" in dims else [0]
    values = np.atleast_1d(dataset["t"].values)
    ids = whole(values)
    if ids is not None:
        return ids
    warn(
        "the coordinate 't' does not have unique whole numbers of at least 0, which a project "
        f"requires: its time points are numbered 0 to {values.size - 1}"
    )
    return list(range(values.size))


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
        above, _, name = path.rpartition("/")
        level = level_number(name)
        image, number = (path, 0) if level is None else (above, level)
        found.setdefault(image, {})[number] = (node.path, node.to_dataset())
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
    axes = [axis_along(level, dim) for level in levels]
    axes = [axis if axis and axis.placed else None for axis in axes]
    base, found = axes[0], []
    for number, (level, axis) in enumerate(zip(levels, axes, strict=True)):
        factor = _factor(base, levels[0].sizes[dim], axis, level.sizes[dim])
        whole = round(factor)
        if abs(factor - whole) > SAME * factor or whole < 1:
            raise MetadataError(
                f"level {number} of {name!r} has the factor {factor:g} along {dim} over the "
                "first; a project requires whole numbers"
            )
        found.append(whole)
        if base is not None and axis is not None:
            middle = base.offset + base.step * (whole - 1) / 2
            if abs(axis.offset - middle) > SAME * abs(base.step):
                warn(
                    f"level {number} of {name!r} begins at {dim} = {axis.offset:g}; a project "
                    f"centres samples on those that they cover, which begins at {middle:g}"
                )
    return found


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
