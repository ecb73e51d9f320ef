"""`tree`: draw the groups and arrays of a container."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

from xarray_n5.cli.arguments import Options, on_node, order_option
from xarray_n5.cli.errors import echo, format_error, ignore_unfinished_writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.walk import Found, Walk
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.image import Image, Level

_LINES = {True: ("├── ", "└── ", "│   "), False: ("|-- ", "`-- ", "|   ")}
"""The branches of the tree, in Unicode and in ASCII."""

_PLAIN_DEPTH = 2
"""The depth to which directories that are not containers are searched."""


@click.command()
@click.option("--depth", type=click.IntRange(0), help="The depth of groups to draw.")
@click.option("--chunks", is_flag=True, help="Count the stored chunks.")
@order_option
@on_node()
def tree(
    url: str,
    path: str,
    *,
    depth: int | None,
    chunks: bool,
    options: Options,
    attribute_order: Literal["auto", "C", "N5"],
) -> None:
    """Draw the groups and arrays at URL.

    Each array has its shape, type, chunks, shards and compression, and "unfinished" if a write is
    incomplete; below it are its axes, with the first coordinate, the step, and the dialect that
    describes them. A directory that is not a container is drawn two levels deep, unless --depth is
    used. For a project of BigDataViewer, which is opened by its XML, and for a scene of OME-Zarr,
    images and their levels are drawn. The exit code is 1 if something cannot be read.

    \b
    Examples:
      xarray-n5 tree cells.n5
      xarray-n5 tree s3://janelia-cosem-datasets/jrc_hela-2/jrc_hela-2.n5/em -o anon=true --depth 1
    """
    from xarray_n5.arrays.walk import Walk
    from xarray_n5.formats.containers import find_scene
    from xarray_n5.leaves import scene_in

    ignore_unfinished_writes()
    pretty = "utf" in str(sys.stdout.encoding).lower()
    if (scene := find_scene(url, options)) is None:
        walk = Walk.at(url, path, options, attribute_order=attribute_order)
        scene, path = scene_in(walk.root), ""
    if scene is not None:
        echo(f"{scene.url}  a {scene.kind}")
        images = {} if depth == 0 else scene.images(path, options)
        for line in _images(images, _LINES[pretty], depth, chunks=chunks):
            echo(line)
        return
    drawing = _Drawing(walk, chunks=chunks, pretty=pretty)
    for line in drawing.lines(depth):
        echo(line)
    if drawing.broken:
        raise click.exceptions.Exit(1)


@dataclass(slots=True)
class _Drawing:
    """The lines of a tree."""

    walk: Walk
    chunks: bool
    """Whether to count stored chunks."""
    pretty: bool
    """Whether to use Unicode."""
    broken: bool = False
    """Whether something could not be read."""

    def lines(self, depth: int | None) -> Iterator[str]:
        """Iterate over the lines of the root and of everything below it."""
        from xarray_n5.arrays.array import Array

        root, found = self.walk.root, self.walk.seen(self.walk.root)
        if isinstance(root, Array):
            yield f"{root.url}  {self._summary(root)}"
            yield from (f"    {line}" for line in _axes(root.geometry()))
        elif found.node is None:
            yield f"{root.url}  {self._problem(found)}"
        elif not self.walk.is_plain:
            yield f"{root.url}  {root.format}{_version(root)}"
            yield from self._inside(root, "", depth)
        else:
            yield f"{root.url}  a plain folder: no attributes.json"
            yield from self._inside(root, "", _PLAIN_DEPTH if depth is None else depth)
            if depth is None:
                yield (
                    f"(to a depth of {_PLAIN_DEPTH}, because this is not a container; see --depth)"
                )

    def _inside(self, group: Group, indent: str, depth: int | None) -> Iterator[str]:
        from xarray_n5.arrays.array import Array

        if depth == 0:
            return
        branch, last, trunk = _LINES[self.pretty]
        children = list(self.walk.children(group))
        for number, found in enumerate(children):
            end = number == len(children) - 1
            head, under = (last, "    ") if end else (branch, trunk)
            if found.node is None:
                yield f"{indent}{head}{found.name}  {self._problem(found)}"
            elif isinstance(found.node, Array):
                yield f"{indent}{head}{found.name}  {self._summary(found.node)}"
                yield from (f"{indent}{under}    {line}" for line in _axes(found.node.geometry()))
            else:
                yield f"{indent}{head}{found.name}/{_version(found.node)}"
                deeper = None if depth is None else depth - 1
                yield from self._inside(found.node, indent + under, deeper)

    def _problem(self, found: Found) -> str:
        self.broken = self.broken or found.broken
        return format_error(found.problem)

    def _summary(self, array: Array) -> str:
        from xarray_n5.arrays.describe import summary

        text = summary(array, unfinished=array.node.is_unfinished())
        if not self.chunks:
            return text
        try:
            return f"{text}, {_stored(array)}"
        except OSError as error:
            self.broken = True
            return f"{text}, {format_error(error)}"


def _version(group: Group) -> str:
    """Return the version of OME-Zarr of a group's images, behind two spaces."""
    match dict(group.attrs):
        case {"ome": {"version": str(version), "multiscales": [_, *_]}}:
            return f"  OME-Zarr {version}"
        case {"multiscales": [{"version": str(version)}, *_]} if group.format == "zarr2":
            return f"  OME-Zarr {version}"
    return ""


def _images(
    images: Mapping[str, Image[Array]],
    branches: tuple[str, str, str],
    depth: int | None,
    *,
    chunks: bool,
) -> Iterator[str]:
    """Iterate over the lines of a scene's images: a single one has no line of its own."""
    branch, last, trunk = branches
    for number, (name, image) in enumerate(images.items()):
        head, under = (last, "    ") if number == len(images) - 1 else (branch, trunk)
        if name:
            yield f"{head}{name}/"
        if depth is None or depth > 1 or not name:
            yield from _levels(image, under if name else "", branches, chunks=chunks)


def _levels(
    image: Image[Array], indent: str, branches: tuple[str, str, str], *, chunks: bool
) -> Iterator[str]:
    """Iterate over the lines of an image's levels, with their axes."""
    from xarray_n5.arrays.describe import times

    branch, last, trunk = branches
    for number, (name, level) in enumerate(image.levels.items()):
        head, under = (last, "    ") if number == len(image.levels) - 1 else (branch, trunk)
        size = f"{times(level.shape)} {level.first.dtype}, {chunk_shapes(level)}"
        stored = f", {_stored(*level.all_arrays())}" if chunks else ""
        state = ", unfinished" if unfinished_in(level) else ""
        yield f"{indent}{head}{name}  {size}, {compression_name(level.first)}{state}{stored}"
        yield from (f"{indent}{under}    {line}" for line in _axes(level.named()))


def unfinished_in(level: Level[Array]) -> bool:
    """Return whether an array of a level has an unfinished write."""
    from xarray_n5.formats.documents import unfinished

    return bool(unfinished(level.first.node.store, {each.path for each in level.arrays}))


def chunk_shapes(array: Array | Level[Array]) -> str:
    """Return the shape of an array's chunks, and of its shards if it has any."""
    from xarray_n5.arrays.describe import times

    shards = "" if array.shards is None else f", shards {times(array.shards)}"
    return f"chunks {times(array.chunks)}{shards}"


def compression_name(array: Array) -> str:
    """Return the name of an array's compression, or of HDF5's filters such as lzf."""
    return array.node.metadata.other_filters or str(array.compression.name)


def _stored(*arrays: Array) -> str:
    """Return the number of stored chunks of arrays that are alike, or of shards, and their size."""
    from dask.utils import format_bytes

    count, size, whole = 0, 0, 0
    for array in arrays:
        io, whole = array.node, whole + array.grid.size
        for index, found in io.container.list_chunk_info(io.path, io.metadata):
            if index in array.grid:
                count, size = count + 1, size + found.size
    things = "chunks" if arrays[0].shards is None else "shards"
    return f"{count} of {whole} {things} stored, {format_bytes(size)}"


def _axes(geometry: Geometry) -> Iterator[str]:
    """Iterate over the line of the axes, if a dialect describes them."""
    from xarray_n5.arrays.describe import axes_line

    dialects = dict.fromkeys(text.partition(":")[0] for text in geometry.sources.values())
    if not dialects:
        return
    matrix = "; affine" if geometry.affine is not None else ""
    yield f"{axes_line(geometry)}{matrix}  ({', '.join(dialects)})"
