"""`tree`: draw the groups and arrays of a container."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import click

from xarray_n5.cli.arguments import Options, on_node, order_option
from xarray_n5.cli.errors import echo, format_error, ignore_unfinished_writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.open import Entry, Walk
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
    from xarray_n5.arrays.open import Walk
    from xarray_n5.formats.containers import find_scene
    from xarray_n5.leaves import scene_in

    ignore_unfinished_writes()
    if (scene := find_scene(url, options)) is None:
        walk = Walk.at(url, path, options, attribute_order=attribute_order)
        scene, path = scene_in(walk.root), ""
    if scene is not None:
        images = {} if depth == 0 else scene.images(path, options)
        top = _Node(f"{scene.url}  a {scene.kind}", nodes=_images(images, depth, chunks=chunks))
        echo(*_lines([top]))
        return
    reader = _Reader(walk, chunks=chunks)
    echo(*_lines([reader.top(depth)]))
    if walk.is_plain and depth is None:
        echo(f"(to a depth of {_PLAIN_DEPTH}, because this is not a container; see --depth)")
    if reader.broken:
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the tree: its line, the lines of its axes, and the nodes below it."""

    text: str
    axes: Sequence[str] = ()
    nodes: Sequence[_Node] = field(default=())


def _lines(nodes: Sequence[_Node], indent: str | None = None) -> Iterator[str]:
    """Iterate over the lines of nodes; those at the top have no branches."""
    branch, last, trunk = _LINES["utf" in str(sys.stdout.encoding).lower()]
    for number, node in enumerate(nodes):
        head, under = (last, "    ") if number == len(nodes) - 1 else (branch, trunk)
        if indent is None:
            head, under = "", ""
        yield f"{indent or ''}{head}{node.text}"
        yield from (f"{indent or ''}{under}    {line}" for line in node.axes)
        yield from _lines(node.nodes, f"{indent or ''}{under}")


@dataclass(slots=True)
class _Reader:
    """The nodes of a walk."""

    walk: Walk
    chunks: bool
    """Whether to count stored chunks."""
    broken: bool = False
    """Whether something could not be read."""

    def top(self, depth: int | None) -> _Node:
        """Return the root with everything below it."""
        from xarray_n5.arrays.array import Array

        root, entry = self.walk.root, self.walk.seen(self.walk.root)
        if isinstance(root, Array) or entry.node is None:
            return self._node(entry, root.url, depth)
        if not self.walk.is_plain:
            text = f"{root.url}  {root.format}{_version(root)}"
            return _Node(text, nodes=self._inside(root, depth))
        depth = _PLAIN_DEPTH if depth is None else depth
        text = f"{root.url}  a plain folder: no attributes.json"
        return _Node(text, nodes=self._inside(root, depth))

    def _inside(self, group: Group, depth: int | None) -> list[_Node]:
        if depth == 0:
            return []
        deeper = None if depth is None else depth - 1
        return [self._node(entry, entry.name, deeper) for entry in self.walk.children(group)]

    def _node(self, entry: Entry, name: str, depth: int | None) -> _Node:
        from xarray_n5.arrays.array import Array

        if entry.node is None:
            self.broken = self.broken or entry.broken
            return _Node(f"{name}  {format_error(entry.problem)}")
        if isinstance(entry.node, Array):
            return _Node(f"{name}  {self._summary(entry.node)}", _axes(entry.node.geometry()))
        return _Node(f"{name}/{_version(entry.node)}", nodes=self._inside(entry.node, depth))

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


def _images(images: Mapping[str, Image[Array]], depth: int | None, *, chunks: bool) -> list[_Node]:
    """Return the nodes of a scene's images: a single one has no node of its own."""
    nodes = []
    for name, image in images.items():
        levels = []
        if depth is None or depth > 1 or not name:
            levels = [_level(at, level, chunks=chunks) for at, level in image.levels.items()]
        nodes += [_Node(f"{name}/", nodes=levels)] if name else levels
    return nodes


def _level(name: str, level: Level[Array], *, chunks: bool) -> _Node:
    from xarray_n5.arrays.describe import times

    array = level.first
    shards = "" if level.shards is None else f", shards {times(level.shards)}"
    size = f"{times(level.shape)} {array.dtype}, chunks {times(level.chunks)}{shards}"
    compression = array.node.metadata.other_filters or str(array.compression.name)
    state = ", unfinished" if unfinished_in(level) else ""
    stored = f", {_stored(*level.all_arrays())}" if chunks else ""
    return _Node(f"{name}  {size}, {compression}{state}{stored}", _axes(level.named()))


def unfinished_in(level: Level[Array]) -> bool:
    """Return whether an array of a level has an unfinished write."""
    from xarray_n5.formats.documents import unfinished

    return bool(unfinished(level.first.node.store, {array.path for array in level.arrays}))


def _stored(*arrays: Array) -> str:
    """Return the number of stored chunks of arrays that are alike, or of shards, and their size."""
    from dask.utils import format_bytes

    sizes: list[int] = []
    for array in arrays:
        chunks = array.node.container.list_chunk_info(array.path, array.node.metadata)
        sizes += [info.size for index, info in chunks if index in array.grid]
    total = sum(array.grid.size for array in arrays)
    things = "chunks" if arrays[0].shards is None else "shards"
    return f"{len(sizes)} of {total} {things} stored, {format_bytes(sum(sizes))}"


def _axes(geometry: Geometry) -> list[str]:
    """Return the line of the axes, if a dialect describes them."""
    from xarray_n5.arrays.describe import axes_line

    dialects = dict.fromkeys(text.partition(":")[0] for text in geometry.sources.values())
    matrix = "; affine" if geometry.affine is not None else ""
    return [f"{axes_line(geometry)}{matrix}  ({', '.join(dialects)})"] if dialects else []
