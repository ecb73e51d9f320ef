"""The image in an Imaris file: its levels, without the padding of their chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from xarray_n5.arrays.array import Array
from xarray_n5.datasets.placed import PlacedImage
from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.imaris import metadata
from xarray_n5.imaris.metadata import SPACE, Extent, numbered
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis, Geometry
from xarray_n5.model.image import Image, Level, Part
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join, level_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xarray_n5.arrays.group import Group
    from xarray_n5.formats.hdf5.container import Hdf5Container

Numbers: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"
"""The numbers of time points and of channels."""

Pairs: TypeAlias = "Sequence[tuple[int, int]]"
"""Positions in time and channels."""

_MOST_LEVELS = 32
"""The maximum number of levels: each halves an axis at least."""


@dataclass(frozen=True, slots=True)
class _Stack:
    """The arrays of a level along the axes with several; each is opened when it is read."""

    folder: str
    """The path of the level."""
    numbers: Numbers
    at: tuple[int, ...]
    """The position of the array that is open."""
    first: Array
    """That array, without padding; the others have its shape and type."""

    def __call__(self, at: tuple[int, ...]) -> Part[Array] | None:
        """Open the array at a position; return None if it is missing.

        Raises
        ------
        MetadataError
            If it is unlike the first one.
        """
        io, path = self.first.node, _path(self.folder, self.numbers, at)
        stored, like = io.container.node(path).metadata, io.metadata
        if not isinstance(stored, ArrayMetadata):
            return None
        cut = _cut(stored, like.shape)
        if (cut.shape, cut.dtype) == (like.shape, like.dtype):
            return Part(Array(replace(io, path=path, metadata=cut)))
        raise MetadataError(
            f"{io.container.where(path)}: the array is {cut.shape} {cut.dtype}, but {io.url} "
            f"is {like.shape} {like.dtype}; expected arrays of one shape and type in a level"
        )


def _path(folder: str, numbers: Numbers, at: tuple[int, ...]) -> str:
    """Return the path of the array at a position along the axes with several."""
    left = iter(at)
    time, channel = (n[next(left)] if len(n) > 1 else n[0] for n in numbers)
    return join(folder, f"TimePoint {time}/Channel {channel}/Data")


def _cut(stored: ArrayMetadata, sizes: tuple[int, ...]) -> ArrayMetadata:
    """Return an array that ends before its padding: some chunks are not read, others clipped."""
    ends = map(min, stored.shape, sizes)
    return replace(stored, shape=(*ends, *stored.shape[len(sizes) :]))


def read_image(root: Group) -> PlacedImage:
    """Return the image in a file by the group at its root.

    Raises
    ------
    NodeNotFoundError
        If there are no data.
    """
    stacks = list(_stacks(root))
    if not stacks:
        hint = "expected arrays such as 'DataSet/ResolutionLevel 0/TimePoint 0/Channel 0/Data'"
        raise NodeNotFoundError(root.url, "", "image", hint)
    times, channels = stacks[0].numbers
    folder = _folder(root, "DataSetInfoDirectoryName", "DataSetInfo")
    named = ["Image", "TimeInfo", *(f"Channel {number}" for number in channels)]
    nodes = root.nodes(join(folder, name) for name in named)
    about, clock, *colours = (
        nodes[path].attrs if (path := join(folder, name)) in nodes else {} for name in named
    )
    time, coords = metadata.times(clock, times)
    labels, unit = metadata.channel_names(colours), metadata.text(about, "Unit")
    stacked = {time: times, Axis(name="c", kind="channel", labels=labels): channels}
    kept = [axis for axis, numbers in stacked.items() if len(numbers) > 1]
    finest = dict(zip(SPACE, stacks[0].first.node.metadata.shape, strict=True))
    extents = {axis: metadata.extent(about, axis, n, root.url) for axis, n in finest.items()}
    levels = {}
    for number, stack in enumerate(stacks):
        sizes = zip(SPACE, stack.first.node.metadata.shape, strict=True)
        space = [_axis(axis, n, finest[axis], extents[axis], unit) for axis, n in sizes]
        levels[level_name(number)] = _level(stack, (*kept, *space))
    coordinates, omero = dict.fromkeys(levels, coords), metadata.omero(colours, labels)
    return PlacedImage(Image(None, levels), coordinates, in_world=True, attributes=omero)


def _folder(root: Group, key: str, default: str) -> str:
    """Return the name of a group in the file, which an attribute may change."""
    name = metadata.text(root.attrs, key) or default
    return name if "/" not in name and name.strip(".") else default


def _stacks(root: Group) -> Iterator[_Stack]:
    """Iterate over the levels, which have the same time points and channels.

    Of the first level, only the first and the last time point are listed.
    """
    match root.attrs.get("NumberOfDataSets"):
        case int(count) | [int(count)] if count > 1:
            warn(
                f"{root.url}: the file has {count} data sets, of which the first is read; open "
                "arrays of the others with group="
            )
    container = cast("Hdf5Container", root.container).uncached()  # this is not a walk
    folder = _folder(root, "DataSetDirectoryName", "DataSet")
    numbers: Numbers = (), ()
    pairs: Pairs = []
    for level in numbered(container.children(folder), "ResolutionLevel")[:_MOST_LEVELS]:
        path = join(folder, f"ResolutionLevel {level}")
        if not all(numbers):
            times = numbered(container.children(path), "TimePoint")
            ends = [join(path, f"TimePoint {time}") for time in times[:1] + times[-1:]]
            names = {name for end in ends for name in container.children(end)}
            numbers = times, numbered(names, "Channel")
            first, later = range(len(numbers[1])), range(1, len(times))
            pairs = [*((0, channel) for channel in first if times), *((time, 0) for time in later)]
        stack, pairs = _open(root, path, numbers, pairs)
        if stack is not None:
            yield stack
        elif all(numbers):
            warn(f"{root.url}: resolution level {level} has no data; it is left out")


def _open(root: Group, folder: str, numbers: Numbers, pairs: Pairs) -> tuple[_Stack | None, Pairs]:
    """Open the first array of a level among positions; return too where others are looked for.

    Other levels have arrays where this one has some: of a hostile file, few paths are tried.
    """
    for pair in pairs:
        at = tuple(i for i, n in zip(pair, numbers, strict=True) if len(n) > 1)
        path = _path(folder, numbers, at)
        node = root.nodes([path]).get(path)
        if isinstance(node, Array) and node.ndim == len(SPACE) and node.size:
            above = root.container.node(path.rpartition("/")[0]).metadata.attributes
            sizes = metadata.sizes(above, node.node.metadata.shape, root.url)
            cut = replace(node.node, metadata=_cut(node.node.metadata, sizes))
            return _Stack(folder, numbers, at, Array(cut)), [pair]
    return None, pairs[:1]


def _level(stack: _Stack, axes: tuple[Axis, ...]) -> Level[Array]:
    """Return a level, of which one array is open."""
    placed = ("scale", "offset") if any(axis.factor for axis in axes) else ()
    sources = {"names": "imaris: Data", **dict.fromkeys(placed, "imaris: DataSetInfo")}
    return Level(
        {stack.at: Part(stack.first)},
        Geometry(axes, sources),
        tuple(numbers for numbers in stack.numbers if len(numbers) > 1),
        later=replace(stack, first=Array(stack.first.node.bare())),
    )


def _axis(name: str, samples: int, finest: int, extent: Extent | None, unit: str | None) -> Axis:
    """Return an axis of space at a level: extents are edges, coordinates are centres."""
    if extent is None:
        return Axis(name=name, kind="space")
    scale, factor = extent.length / samples, finest / samples
    offset = extent.start + scale / 2
    return Axis(name=name, kind="space", unit=unit, scale=scale, offset=offset, factor=factor)
