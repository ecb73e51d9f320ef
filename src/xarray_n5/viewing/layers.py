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
    dataset, dims = variable.dataset, variable.array.dims
    has_space = set(AXES) <= set(dims)
    if not has_space and not in_view(dataset):
        return None
    try:
        if not has_space:
            raise ValueError(  # noqa: TRY301 - one warning for both
                "a matrix places samples along z, y and x, but it has "
                f"{', '.join(map(str, dims))}; use expand_dims('z')"
            )
        placed = placed_by_matrices(dataset)
    except ValueError as error:
        warn(f"{name!r} is shown where its coordinates say: {error}")
        return None
    if placed is None:
        return None
    stated = AFFINE if AFFINE in dataset.variables and dataset[AFFINE].attrs else "x"
    unit = dataset[stated].attrs.get("units") if stated in dataset.variables else None
    return placed[1].reshape(-1, *placed[1].shape[-2:])[0], unit


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
    relative = 0 if placed is None else len(space)
    for level, part in zip(image.levels.values(), parts, strict=True):
        array = part.array.transpose(*outer, *space)
        known = {axis.name: axis for axis in level.geometry.axes}
        axes = [known[str(dim)] for dim in array.dims]
        if placed is None:
            array, axes = _ascending(array, axes)
        base = base or axes
        finest = levels[0].data.shape if levels else array.shape
        levels.append(_level(array, axes, base, finest, relative))
    shown = [Dim.of(str(axis.name), axis.unit) for axis in base]
    matrix = None
    if placed is not None:
        matrix, unit = placed
        # Neuroglancer applies matrices to physical sizes: a sample counts as one unit.
        shown[len(outer) :] = [Dim.of(axis, unit) for axis in AXES]
    return Layer(
        name=title(image, chosen),
        dims=tuple(shown),
        spatial=len(space),
        levels=tuple(levels),
        labels=is_labels,
        matrix=matrix,
        color=None if is_labels else color(image, chosen),
    )


def _level(
    array: xr.DataArray,
    axes: Sequence[Axis],
    base: Sequence[Axis],
    finest: Sequence[int],
    relative: int,
) -> ServedLevel:
    """Return a level, along the last `relative` axes in samples of the finest level.

    The finest level has the axes `base` and the shape `finest`.
    """
    scale, offset = [], []
    sizes = zip(axes, base, array.shape, finest, strict=True)
    for at, (axis, first, size, most) in enumerate(sizes):
        if axis.scale is None and size < most:
            axis = first.coarser(round(most / size))  # noqa: PLW2901 - the same axis
        step, start = axis.step, axis.offset
        if at >= array.ndim - relative:
            step, start = step / first.step, (start - first.offset) / first.step
        scale.append(step)
        offset.append(start)
    return ServedLevel(array.variable, tuple(scale), tuple(offset))


def _space(kinds: Sequence[tuple[Any, Kind | None]]) -> list[Any]:
    """Return the dimensions of space, at most three, by the kinds of all."""
    known = [dim for dim, kind in kinds if kind == "space"]
    plain = [dim for dim, kind in kinds if kind in {None, "space"}]
    best = known if len(known) > 1 else plain
    return (best if len(best) > 1 else [dim for dim, _ in kinds])[-_SPACE:]


def _ascending(array: xr.DataArray, axes: Sequence[Axis]) -> tuple[xr.DataArray, list[Axis]]:
    """Return an array and its axes with increasing coordinates, which Neuroglancer requires."""
    turned = []
    for dim, size, axis in zip(array.dims, array.shape, axes, strict=True):
        if axis.step < 0:
            array = array.isel({dim: slice(None, None, -1)})
            turned.append(replace(axis, scale=-axis.step, offset=axis.position(size - 1)))
        else:
            turned.append(axis)
    return array, turned


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
