"""Make layers of variables: one for each channel, and for each view with its own position."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.datasets.world import AXES, FRAME, to_world
from xarray_n5.model.alerts import warn
from xarray_n5.model.tolerances import ROUNDING
from xarray_n5_view.collect import is_labels, sources_in
from xarray_n5_view.images import Dim, Image
from xarray_n5_view.levels import Level

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import xarray as xr

    from xarray_n5.model.axes import Axis
    from xarray_n5_view.collect import Source

_CHANNELS = 16
"""The maximum number of channels with separate layers; more are a dimension."""

_LAYERS = 100
"""The maximum number of layers."""

_SPACE = 3

_POINTS = np.concatenate([np.zeros((1, _SPACE)), np.eye(_SPACE)])

_HEX = re.compile("[0-9a-fA-F]{6}")

_COLORS = {
    1: ("#ffffff",),
    2: ("#00ff00", "#ff00ff"),
    3: ("#ff0000", "#00ff00", "#0000ff"),
}
_MORE = ("#00ffff", "#ff00ff", "#ffff00", "#ff0000", "#00ff00", "#0000ff")


def layers_of(
    shown: xr.DataArray | xr.Dataset | xr.DataTree, labels: bool | Collection[str] | None
) -> list[Image]:
    """Return the layers of all images that can be shown.

    Raises
    ------
    TypeError
        If `shown` is not an object of xarray.
    ValueError
        If there is nothing to show, or there are too many layers.
    """
    sources = sources_in(shown)
    if not isinstance(labels, bool) and labels is not None:
        names = {each for source in sources for each in (source.name, str(source.variable))}
        if unknown := sorted(set(labels) - names):
            raise ValueError(f"labels has {unknown}; expected some of {sorted(names)}")
    found: list[Image] = []
    for source in sources:
        split = _split_dims(source, is_labels=is_labels(source, labels))
        sizes = [source.array.sizes[dim] for dim in split]
        if len(found) + int(np.prod(sizes)) > _LAYERS:
            raise ValueError(
                f"{source.name!r} would make more than {_LAYERS} layers; select some of the data "
                "first, by a group or with isel or sel"
            )
        for index in product(*map(range, sizes)):
            chosen = dict(zip(split, index, strict=True))
            found.append(_image(source, chosen, is_labels=is_labels(source, labels)))
    return found


@dataclass(frozen=True, slots=True)
class _Places:
    """The matrices of views, from samples along z, y, x to positions."""

    dims: tuple[Any, ...]
    points: np.ndarray
    """The positions of the first sample and its three neighbours, for each view."""
    unit: str | None

    @property
    def varying(self) -> list[Any]:
        """The dimensions along which matrices differ."""
        first = [np.take(self.points, [0], axis=at) for at in range(len(self.dims))]
        same = [np.allclose(self.points, each, rtol=ROUNDING, atol=ROUNDING) for each in first]
        return [dim for dim, is_same in zip(self.dims, same, strict=True) if not is_same]

    @property
    def matrix(self) -> np.ndarray:
        """The matrix of the first view."""
        points = self.points.reshape(-1, *_POINTS.shape)[0]
        return np.concatenate([(points[1:] - points[0]).T, points[:1].T], axis=1)


def _places(source: Source) -> _Places | None:
    """Return the positions of views, unless coordinates suffice."""
    dataset, attrs = source.datasets[0], source.array.attrs
    dims: tuple[Any, ...] = ()
    unit = dataset["x"].attrs.get("units") if "x" in dataset.coords else None
    if not set(AXES) <= set(source.array.dims):
        return None
    if "affine" in dataset.variables:
        affine = dataset["affine"]
        dims = tuple(dim for dim in affine.dims if dim not in {"axis", "column"})
        unit = affine.attrs.get("units", unit)
    elif any(dataset[axis].encoding.get(FRAME) for axis in AXES if axis in dataset.coords):
        dims = dataset["origin_x"].dims if "origin_x" in dataset.coords else ()
    elif np.shape(attrs.get("affine", ())) != (_SPACE * (_SPACE + 1),):
        return None
    try:
        return _Places(dims, to_world(dataset, _POINTS), unit)
    except ValueError as error:
        warn(f"{source.name!r} is shown where its coordinates say: {error}")
        return None


def _split_dims(source: Source, *, is_labels: bool) -> list[Any]:
    """Return the dimensions whose samples become separate layers."""
    array = source.array
    channels = [
        dim
        for dim in array.dims
        if dim in {"c", "channel"} and array.ndim > 2 and array.sizes[dim] <= _CHANNELS  # noqa: PLR2004
    ]
    places = _places(source)
    found = [*([] if is_labels else channels), *(places.varying if places else [])]
    return [dim for dim in array.dims if dim in found]


def whole_image(source: Source, *, is_labels: bool) -> Image:
    """Return an image with all of its channels and views."""
    return _image(source, {}, is_labels=is_labels)


def _image(source: Source, chosen: dict[Any, int], *, is_labels: bool) -> Image:
    title, color = _title(source, chosen), _color(source, chosen)
    part = replace(source, datasets=tuple(each.isel(chosen) for each in source.datasets))
    places = _places(part)
    space = _space(part.array, places)
    outer = [dim for dim in part.array.dims if dim not in space]
    order = [*outer, *space]
    levels: list[Level] = []
    base: list[Axis] = []
    for dataset in part.datasets:
        array = dataset[part.variable].transpose(*order)
        if places is None:
            array = _ascending(array)
        axes = geometry_from(array).axes
        base = base or list(axes)
        levels.append(_level(array, axes, (base, levels), len(space), relative=places is not None))
    dims = [Dim.of(str(axis.name), axis.unit) for axis in base]
    world: tuple[Dim, ...] = ()
    if places is not None:
        world = tuple(Dim.of(axis, places.unit) for axis in AXES)
        # Neuroglancer applies matrices to physical sizes: a sample counts as one unit.
        dims[len(outer) :] = world
    return Image(
        name=title,
        dims=tuple(dims),
        spatial=len(space),
        levels=tuple(levels),
        labels=is_labels,
        matrix=None if places is None else places.matrix,
        world=world,
        color=None if is_labels else color,
    ).with_levels()


def _level(
    array: xr.DataArray,
    axes: Sequence[Axis],
    finer: tuple[Sequence[Axis], Sequence[Level]],
    spatial: int,
    *,
    relative: bool,
) -> Level:
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
    return Level(
        data=array.variable,
        scale=tuple(scale),
        offset=tuple(offset),
        spatial=spatial,
        factors=(1,) * array.ndim,
    )


def _space(array: xr.DataArray, places: _Places | None) -> list[Any]:
    """Return the dimensions of space, at most three."""
    if places is not None:
        return list(AXES)
    kinds = {axis.name: axis.kind for axis in geometry_from(array).axes}
    known = [dim for dim in array.dims if kinds[str(dim)] == "space"]
    plain = [dim for dim in array.dims if kinds[str(dim)] in {None, "space"}]
    best = known if len(known) > 1 else plain
    return (best if len(best) > 1 else list(array.dims))[-_SPACE:]


def _ascending(array: xr.DataArray) -> xr.DataArray:
    """Return an array with increasing coordinates, which Neuroglancer requires."""
    falls = {
        dim: slice(None, None, -1)
        for dim, coord in array.coords.items()
        if coord.dims == (dim,) and coord.dtype.kind in "iuf" and coord[-1] < coord[0]
    }
    return array.isel(falls)


def _title(source: Source, chosen: dict[Any, int]) -> str:
    parts = [source.name]
    for dim, at in chosen.items():
        dataset = source.datasets[0]
        named = [dataset[name] for name in (f"{dim}_name", dim) if name in dataset.coords]
        values = [each for each in named if each.dims == (dim,)]
        text = str(values[0].values[at]) if values else str(at)
        is_word = bool(values) and values[0].dtype.kind in "UOT" and not text.isdigit()
        parts.append(text if is_word else f"{dim} {text}")
    return " ".join(parts)


def _color(source: Source, chosen: dict[Any, int]) -> str | None:
    """Return the colour of a channel: that of OME-NGFF, or one of a few."""
    for dim, at in chosen.items():
        if dim in {"c", "channel"}:
            size = source.array.sizes[dim]
            match source.attributes.get("omero"):
                case {"channels": list(channels)} if len(channels) == size:
                    color = channels[at].get("color") if isinstance(channels[at], dict) else None
                    if isinstance(color, str) and _HEX.fullmatch(color):
                        return f"#{color.lower()}"
            colors = _COLORS.get(size, _MORE)
            return colors[at % len(colors)]
    return None
