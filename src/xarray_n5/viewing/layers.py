"""Make layers of images: one for each channel, and for each view with its own position."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.datasets.world import AFFINE, AXES, in_view, placed_by_matrices
from xarray_n5.dialects.groups import is_labels as are_labels
from xarray_n5.dialects.groups import omero_of
from xarray_n5.errors import printable
from xarray_n5.images.channels import channel_colors
from xarray_n5.images.tree import datasets_of, images_of_datasets
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import ROUNDING
from xarray_n5.viewing.served import Dim, Layer, ServedLevel

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.images.tree import Variable
    from xarray_n5.model.axes import Axis, Kind
    from xarray_n5.model.image import Image

_KINDS = "biuf"
"""The kinds of types that can be shown."""

_CHANNEL_DIMS = frozenset({"c", "channel"})

_CHANNELS = 16
"""The maximum number of channels with separate layers; more are a dimension."""

_LAYERS = 100
"""The maximum number of layers."""

_SPACE = 3


def layers_of(
    shown: xr.DataArray | xr.Dataset | xr.DataTree, labels: bool | Collection[str] | None
) -> list[Layer]:
    """Return the layers of all images that can be shown.

    Raises
    ------
    ValueError
        If there is nothing to show, or there are too many layers.
    """
    images = images_to_show(shown)
    if not isinstance(labels, bool) and labels is not None:
        names = {name for image in images for name in _names(image)}
        if unknown := sorted(set(labels) - names):
            raise ValueError(f"labels has {unknown}; expected some of {sorted(names)}")
    layers: list[Layer] = []
    for image in images:
        labelled = is_labels(image, labels)
        parts = choices(image, is_labels=labelled)
        if len(layers) + len(parts) > _LAYERS:
            raise ValueError(
                f"{image.name!r} would make more than {_LAYERS} layers; select some of the data "
                "first, by a group or with isel or sel"
            )
        layers += [layer_of(image, chosen, is_labels=labelled) for chosen in parts]
    return layers


def images_to_show(shown: xr.DataArray | xr.Dataset | xr.DataTree) -> list[Image[Variable]]:
    """Return the images that can be shown, with a warning for each that cannot.

    Raises
    ------
    ValueError
        If there is nothing to show.
    """
    if isinstance(shown, xr.DataTree):
        datasets = datasets_of(shown)
    else:
        if isinstance(shown, xr.DataArray):
            shown = shown.to_dataset(name="image" if shown.name is None else str(shown.name))
        datasets = {"": shown}
    arrays = [item for dataset in datasets.values() for item in dataset.data_vars.items()]
    for name, array in arrays:
        if array.ndim > 1 and not (array.size and array.dtype.kind in _KINDS):
            warn(
                f"{printable(str(name))!r} is not shown: its type is {array.dtype}, or it is empty"
            )
    images = images_of_datasets(datasets)
    shown_images = [image for image in images if image.base.first.array.dtype.kind in _KINDS]
    if not shown_images:
        raise ValueError(
            "there is nothing to show: expected a numeric variable with at least two dimensions "
            "that is not empty"
        )
    return shown_images


def is_labels(image: Image[Variable], labels: bool | Collection[str] | None) -> bool:
    """Return whether an image is shown as a segmentation: by choice, metadata or type uint64."""
    dtype = image.base.first.array.dtype
    if labels is None:
        return are_labels(dtype, image.base.attributes)
    chosen = labels if isinstance(labels, bool) else not _names(image).isdisjoint(labels)
    if chosen and dtype.kind == "f":
        raise ValueError(f"{image.name!r} has type {dtype}; labels must be integers")
    return chosen


def _names(image: Image[Variable]) -> set[str]:
    """Return the names by which users choose an image: its own, and that of its variable."""
    return {str(image.name), str(image.base.first.name)}


def choices(image: Image[Variable], *, is_labels: bool) -> list[dict[str, int]]:
    """Return what separate layers of an image select: each channel, and each place of views.

    Labels and many channels stay a dimension, as do views that are all at one place.
    """
    array = image.base.first.array
    split = set()
    dims, matrices = matrices_of(image) or ((), np.empty(0))
    for at, dim in enumerate(dims):
        first = np.take(matrices, [0], axis=at)
        if not np.allclose(matrices, first, rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
            split.add(dim)
    if array.ndim > 2 and not is_labels:  # noqa: PLR2004 - two are shown
        split |= {str(dim) for dim in _channel_dims(image) if array.sizes[dim] <= _CHANNELS}
    ordered = [str(dim) for dim in array.dims if dim in split]
    numbers = product(*(range(array.sizes[dim]) for dim in ordered))
    return [dict(zip(ordered, index, strict=True)) for index in numbers]


def matrices_of(image: Image[Variable]) -> tuple[tuple[str, ...], np.ndarray] | None:
    """Return the matrices from samples to positions along z, y and x, and the views' dimensions.

    Returns None if coordinates place the samples, or if their place is not known.
    """
    try:
        return placed_by_matrices(image.base.first.dataset)
    except ValueError:
        return None


def _channel_dims(image: Image[Variable]) -> list[Any]:
    """Return the dimensions of channels."""
    kinds = {axis.name: axis.kind for axis in image.base.geometry.axes}
    dims = image.base.first.array.dims
    return [dim for dim in dims if dim in _CHANNEL_DIMS or kinds[str(dim)] == "channel"]


def _place(name: str | None, variable: Variable) -> tuple[np.ndarray, str | None] | None:
    """Return the matrix of a view, and the unit of positions; None if coordinates suffice."""
    dataset, array = variable.dataset, variable.array
    why = ""
    if not set(AXES) <= set(array.dims):
        if not in_view(dataset):
            return None
        dims = ", ".join(map(str, array.dims))
        why = f"a matrix places samples along z, y and x, but it has {dims}; use expand_dims('z')"
    else:
        try:
            placed = placed_by_matrices(dataset)
        except ValueError as error:
            why = str(error)
    if why:
        warn(f"{name!r} is shown where its coordinates say: {why}")
        return None
    if placed is None:
        return None
    matrices = placed[1]
    facts = dataset[AFFINE].attrs if AFFINE in dataset.variables else {}
    of_x = dataset["x"].attrs if "x" in dataset.coords else {}
    unit = (facts or of_x).get("units")
    return matrices.reshape(-1, *matrices.shape[-2:])[0], unit


def layer_of(image: Image[Variable], chosen: Mapping[Any, int], *, is_labels: bool) -> Layer:
    """Return the layer of an image, or of chosen channels and views of it."""
    parts = [level.first for level in image.levels.values()]
    parts = [replace(part, dataset=part.dataset.isel(chosen)) for part in parts]
    placed = _place(image.name, parts[0])
    kinds = {axis.name: axis.kind for axis in image.base.geometry.axes}
    dims = parts[0].array.dims
    space = _space([(dim, kinds[str(dim)]) for dim in dims]) if placed is None else list(AXES)
    outer = [dim for dim in dims if dim not in space]
    levels: list[ServedLevel] = []
    base: list[Axis] = []
    for level, part in zip(image.levels.values(), parts, strict=True):
        array = part.array.transpose(*outer, *space)
        known = {axis.name: axis for axis in level.geometry.axes}
        axes = [known[str(dim)] for dim in array.dims]
        if placed is None:
            array, axes = _ascending(array, axes)
        base = base or axes
        levels.append(_level(array, axes, (base, levels), len(space), relative=placed is not None))
    shown = [Dim.of(str(axis.name), axis.unit) for axis in base]
    world: tuple[Dim, ...] = ()
    matrix = None
    if placed is not None:
        matrix, unit = placed
        world = tuple(Dim.of(axis, unit) for axis in AXES)
        # Neuroglancer applies matrices to physical sizes: a sample counts as one unit.
        shown[len(outer) :] = world
    return Layer(
        name=title(image, chosen),
        dims=tuple(shown),
        spatial=len(space),
        levels=tuple(levels),
        labels=is_labels,
        matrix=matrix,
        world=world,
        color=None if is_labels else color(image, chosen),
    ).with_levels()


def _level(
    array: xr.DataArray,
    axes: Sequence[Axis],
    finer: tuple[Sequence[Axis], Sequence[ServedLevel]],
    spatial: int,
    *,
    relative: bool,
) -> ServedLevel:
    """Return a level; for views with a matrix, in samples of the finest level along space."""
    base, levels = finer
    whole = levels[0].shape if levels else array.shape
    scale, offset = [], []
    for at, (axis, first, size, most) in enumerate(
        zip(axes, base, array.shape, whole, strict=True)
    ):
        step, start = axis.step, axis.offset
        if axis.scale is None and size < most:
            coarser = first.coarser(round(most / size))
            step, start = coarser.step, coarser.offset
        if relative and at >= array.ndim - spatial:
            step, start = step / first.step, (start - first.offset) / first.step
        scale.append(step)
        offset.append(start)
    return ServedLevel(
        data=array.variable,
        scale=tuple(scale),
        offset=tuple(offset),
        spatial=spatial,
        factors=(1,) * array.ndim,
    )


def _space(kinds: Sequence[tuple[Any, Kind | None]]) -> list[Any]:
    """Return the dimensions of space, at most three, by the kinds of all."""
    known = [dim for dim, kind in kinds if kind == "space"]
    plain = [dim for dim, kind in kinds if kind in {None, "space"}]
    best = known if len(known) > 1 else plain
    return (best if len(best) > 1 else [dim for dim, _ in kinds])[-_SPACE:]


def _ascending(array: xr.DataArray, axes: Sequence[Axis]) -> tuple[xr.DataArray, list[Axis]]:
    """Return an array and its axes with increasing coordinates, which Neuroglancer requires."""
    sizes = zip(array.dims, array.shape, axes, strict=True)
    falling = {
        dim: replace(axis, scale=-axis.step, offset=axis.position(size - 1))
        for dim, size, axis in sizes
        if axis.step < 0
    }
    turned = [falling.get(dim, axis) for dim, axis in zip(array.dims, axes, strict=True)]
    return array.isel(dict.fromkeys(falling, slice(None, None, -1))), turned


def title(image: Image[Variable], chosen: Mapping[str, int]) -> str:
    """Return the name of a layer: the image's, and those of its channel and view."""
    parts = [str(image.name)]
    dataset = image.base.first.dataset
    for dim, at in chosen.items():
        named = [dataset[name] for name in (f"{dim}_name", dim) if name in dataset.coords]
        values = [array for array in named if array.dims == (dim,)]
        text = str(values[0].values[at]) if values else str(at)
        is_word = bool(values) and values[0].dtype.kind in "UOT" and not text.isdigit()
        label = channel_facts(image, chosen).get("label") if dim in _channel_dims(image) else None
        parts.append(text if is_word else str(label) if label else f"{dim} {text}")
    return " ".join(parts)


def channel_facts(image: Image[Variable], chosen: Mapping[str, int]) -> dict[str, Any]:
    """Return the facts of ``omero`` about the channel of a layer."""
    for dim in _channel_dims(image):
        match omero_of(image.base.attributes):
            case {"channels": [*channels]} if chosen.get(dim, len(channels)) < len(channels):
                facts = channels[chosen[dim]]
                return facts if isinstance(facts, dict) else {}
    return {}


def color(image: Image[Variable], chosen: Mapping[str, int]) -> str | None:
    """Return the colour of a channel; None for an image without channels."""
    array, attributes = image.base.first.array, image.base.attributes
    dims = [dim for dim in _channel_dims(image) if dim in chosen]
    colors = [channel_colors(array, dim, attributes)[chosen[dim]] for dim in dims]
    return colors[0] if colors else None
