"""The image in an Imaris file: its levels, without the padding of their chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.group import Group
from xarray_n5.datasets.placed import PlacedImage
from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.imaris.metadata import (
    SPACE,
    Extent,
    channel_names,
    numbered,
    omero,
    regular_step,
    seconds,
    size,
    text,
)
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.image import Image, Level, Part
from xarray_n5.model.level_names import level_name
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCE = "imaris: DataSetInfo"

_STACKED = ("t", "c")
"""The axes along which arrays are stacked, if there are several."""


@dataclass(frozen=True)
class _Info:
    """What an Imaris file says about all levels of its image."""

    stacked: tuple[Axis, ...]
    """The axes along which arrays are stacked."""
    numbers: tuple[tuple[int, ...], ...]
    """The numbers of timepoints and of channels."""
    extents: Mapping[str, Extent]
    unit: str | None
    sizes: tuple[int, ...]
    """The shape of an array at the finest level."""
    coords: Mapping[str, xr.Variable]
    """The times, if they are not regular."""
    attributes: Mapping[str, Any]
    """The colours of channels, as ``omero``."""


def read_image(root: Group) -> PlacedImage:
    """Return the image in a file by the group at its root.

    Raises
    ------
    NodeNotFoundError
        If there are no data.
    """
    found = {
        number: paths for number, folder in _levels(root).items() if (paths := _parts(root, folder))
    }
    _warn_of_others(root)
    levels: dict[str, Level[Array]] = {}
    coords: dict[str, Mapping[str, xr.Variable]] = {}
    info: _Info | None = None
    for at, paths in found.items():
        numbers = tuple(tuple(sorted(set(each))) for each in zip(*paths, strict=True))
        arrays = _arrays(root, paths, numbers if info is None else info.numbers)
        if not arrays:
            warn(f"{root.url}: resolution level {at} has no data; it is left out")
            continue
        if info is None:
            info = _info(root, numbers, next(iter(arrays.values())))
        name = level_name(len(levels))
        levels[name], coords[name] = _level(info, arrays), info.coords
    if not levels:
        raise NodeNotFoundError(
            root.url,
            "",
            "image",
            "expected arrays such as 'DataSet/ResolutionLevel 0/TimePoint 0/Channel 0/Data'",
        )
    attributes = {} if info is None else info.attributes
    return PlacedImage(Image(None, levels), coords, in_world=True, attributes=attributes)


def _warn_of_others(root: Group) -> None:
    """Warn if a file has several data sets, of which the first is read."""
    count = root.attrs.get("NumberOfDataSets")
    count = count[0] if isinstance(count, list) and len(count) == 1 else count
    if isinstance(count, int) and count > 1:
        warn(
            f"{root.url}: the file has {count} data sets, of which the first is read; open arrays "
            "of the others with group="
        )


def _folder(root: Group, key: str, default: str) -> str:
    """Return the name of a group in the file, which an attribute may change."""
    found = text(root.attrs, key) or default
    return found if "/" not in found and found.strip(".") else default


def _levels(root: Group) -> dict[int, str]:
    """Return the paths of the groups of levels by number."""
    folder = _folder(root, "DataSetDirectoryName", "DataSet")
    names = numbered(root.container.children(folder), "ResolutionLevel")
    return {number: join(folder, name) for number, name in names.items()}


def _parts(root: Group, folder: str) -> dict[tuple[int, ...], str]:
    """Return the paths of the groups of channels by timepoint and channel."""
    found: dict[tuple[int, ...], str] = {}
    for timepoint, time in numbered(root.container.children(folder), "TimePoint").items():
        path = join(folder, time)
        for channel, name in numbered(root.container.children(path), "Channel").items():
            found[timepoint, channel] = join(path, name)
    return found


def _arrays(
    root: Group, paths: Mapping[tuple[int, ...], str], numbers: tuple[tuple[int, ...], ...]
) -> dict[tuple[int, ...], Array]:
    """Return the arrays of a level without padding, by timepoint and channel."""
    wanted = {at: join(paths[at], "Data") for at in product(*numbers) if at in paths}
    nodes = root.nodes(wanted.values())
    arrays = {at: node for at in wanted if isinstance(node := nodes.get(wanted[at]), Array)}
    arrays = {at: each for at, each in arrays.items() if each.ndim == len(SPACE) and each.size}
    if not arrays:
        return {}
    # All timepoints and channels of a level have one size.
    first = next(iter(arrays))
    above = root.nodes([paths[first]]).get(paths[first])
    attributes = above.attrs if isinstance(above, Group) else {}
    stored = arrays[first].node.metadata.shape
    sizes = [size(attributes, axis, n, root.url) for axis, n in zip(SPACE, stored, strict=True)]
    return {at: _cut(array, sizes) for at, array in arrays.items()}


def _cut(array: Array, sizes: list[int]) -> Array:
    """Return an array that ends before its padding: some chunks are not read, others clipped."""
    metadata = array.node.metadata
    shape = tuple(map(min, metadata.shape, sizes))
    return Array(replace(array.node, metadata=replace(metadata, shape=shape)))


def _info(root: Group, numbers: tuple[tuple[int, ...], ...], array: Array) -> _Info:
    """Return the metadata of all levels; `array` is one of the finest level."""
    folder = _folder(root, "DataSetInfoDirectoryName", "DataSetInfo")
    channels = [join(folder, f"Channel {channel}") for channel in numbers[1]]
    image, times = join(folder, "Image"), join(folder, "TimeInfo")
    nodes = root.nodes([image, times, *channels])
    attributes: dict[str, Mapping[str, Any]] = {path: node.attrs for path, node in nodes.items()}
    about = attributes.get(image, {})
    sizes = array.node.metadata.shape
    extents = {
        axis: extent
        for axis, samples in zip(SPACE, sizes, strict=True)
        if (extent := Extent.of(about, axis, samples, root.url)) is not None
    }
    moments = seconds(attributes.get(times, {}), numbers[0])
    step = None if moments is None else regular_step(moments)
    coords = {}
    if moments is not None and step is None:
        coords["t"] = xr.Variable(("t",), moments, {"units": "s"})
    about_channels = [attributes.get(path, {}) for path in channels]
    labels = channel_names(about_channels)
    shown = omero(about_channels, labels, array.dtype)
    along = {
        "t": Axis(name="t", kind="time", scale=step, unit=None if step is None else "s"),
        "c": Axis(
            name="c",
            kind="channel",
            labels=labels,
        ),
    }
    several = {axis: own for axis, own in zip(_STACKED, numbers, strict=True) if len(own) > 1}
    return _Info(
        stacked=tuple(along[axis] for axis in several),
        numbers=numbers,
        extents=extents,
        unit=text(about, "Unit"),
        sizes=sizes,
        coords=coords,
        attributes={} if shown is None else {"omero": shown},
    )


def _level(info: _Info, arrays: Mapping[tuple[int, ...], Array]) -> Level[Array]:
    """Return a level; arrays unlike the first one raise an error when they are read."""
    first = next(iter(arrays.values()))
    parts: dict[tuple[int, ...], Part[Array]] = {}
    broken: dict[tuple[int, ...], Exception] = {}
    kept = [len(own) > 1 for own in info.numbers]
    for at, array in arrays.items():
        places = [own.index(n) for own, n in zip(info.numbers, at, strict=True)]
        place = tuple(each for each, keep in zip(places, kept, strict=True) if keep)
        if (array.shape, array.dtype) == (first.shape, first.dtype):
            parts[place] = Part(array)
        else:
            broken[place] = MetadataError(
                f"{array.url}: the array is {array.shape} {array.dtype}, but {first.url} is "
                f"{first.shape} {first.dtype}; expected arrays of one shape and type in a level"
            )
    shape = first.node.metadata.shape
    axes = [
        _axis(info, axis, samples, finest)
        for axis, samples, finest in zip(SPACE, shape, info.sizes, strict=True)
    ]
    sources = {"names": "imaris: Data"} | (
        dict.fromkeys(("scale", "offset"), _SOURCE) if info.extents else {}
    )
    geometry = Geometry((*info.stacked, *axes), sources)
    transposed = first.node.transposed
    return Level(
        parts,
        geometry.transpose() if transposed else geometry,
        tuple(own for own, keep in zip(info.numbers, kept, strict=True) if keep),
        transposed=transposed,
        broken=broken,
    )


def _axis(info: _Info, axis: str, samples: int, finest: int) -> Axis:
    """Return an axis of space at a level: extents are edges, coordinates are centres."""
    extent = info.extents.get(axis)
    if extent is None:
        return Axis(name=axis, kind="space")
    step = extent.length / samples
    return Axis(
        name=axis,
        kind="space",
        unit=info.unit,
        scale=step,
        offset=extent.start + step / 2,
        factor=finest / samples,
    )
