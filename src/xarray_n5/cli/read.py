"""Commands that read metadata: `tree` draws a container, `info` describes one node."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from xarray_n5.cli.errors import echo, format_error, ignore_unfinished_writes
from xarray_n5.cli.options import Options, on_node, order_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.open import Entry, Walk
    from xarray_n5.leaves import Scene
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
    url: str, path: str, *, depth: int | None, chunks: bool, options: Options, **opening: Any
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
    from xarray_n5.formats.open import find_scene
    from xarray_n5.leaves import scene_in

    ignore_unfinished_writes()
    if (scene := find_scene(url, options)) is None:
        walk = Walk.at(url, path, options, **opening)
        scene, path = scene_in(walk.root), ""
    if scene is not None:
        images = {} if depth == 0 else scene.images(path, options)
        nodes = _nodes_of_images(images, depth, chunks=chunks)
        echo(*_lines([_Node(f"{scene.url}  a {scene.kind}", nodes=nodes)]))
        return
    reader = _Reader(walk, chunks=chunks)
    echo(*_lines([reader.top(depth)]))
    if walk.is_plain and depth is None:
        echo(f"(to a depth of {_PLAIN_DEPTH}, because this is not a container; see --depth)")
    if reader.broken:
        raise click.exceptions.Exit(1)


class _Node(NamedTuple):
    """A node of the tree: its line, the lines of its axes, and the nodes below it."""

    text: str
    axes: Sequence[str] = ()
    nodes: Sequence[_Node] = ()


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
        kind = f"{root.format}{_version(root)}"
        if self.walk.is_plain:
            kind = "a plain folder: no attributes.json"
            depth = _PLAIN_DEPTH if depth is None else depth
        return _Node(f"{root.url}  {kind}", nodes=self._inside(root, depth))

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


def _nodes_of_images(
    images: Mapping[str, Image[Array]], depth: int | None, *, chunks: bool
) -> list[_Node]:
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
    state = ", unfinished" if _is_unfinished(level) else ""
    stored = f", {_stored(*level.all_arrays())}" if chunks else ""
    return _Node(f"{name}  {size}, {compression}{state}{stored}", _axes(level.named()))


def _is_unfinished(level: Level[Array]) -> bool:
    """Return whether an array of a level has an unfinished write."""
    from xarray_n5.formats.structure import unfinished

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


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, for programs.")
@order_option
@on_node()
def info(url: str, path: str, *, as_json: bool, options: Options, **opening: Any) -> None:
    """Describe the array or group at URL, or at PATH in it: metadata, axes and attributes.

    The JSON object has the keys url, path, kind ("array" or "group"), format and attributes. A
    group also has children. An array also has shape, dtype, bytes, chunks, chunk_count, shards and
    shard_count (null without shards), compression, unfinished (whether a write is incomplete), axes
    (name, kind, unit, scale, offset, labels; in C order), affine, sources and dialects (that
    describe the array, the most trusted first). A project of BigDataViewer, which is opened by its
    XML, and a scene of OME-Zarr have url, kind ("project" or "scene") and images (name, level,
    dims, shape, dtype). These keys do not change between versions.

    \b
    Examples:
      xarray-n5 info cells.n5/raw
      xarray-n5 info cells.n5 raw --json | jq .axes
    """
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.describe import as_text
    from xarray_n5.arrays.group import describe_group
    from xarray_n5.arrays.open import open_node
    from xarray_n5.formats.open import find_scene
    from xarray_n5.images.find import combined_images
    from xarray_n5.leaves import scene_in

    ignore_unfinished_writes()
    if (scene := find_scene(url, options)) is None:
        node = open_node(url, path, storage_options=options, **opening)
        scene, path = scene_in(node), ""
    if scene is not None:
        images = scene.images(path, options)
        facts = _scene(scene, images)
        title, rows = f"<{scene.kind} {scene.url!r}>", _rows(images)
    elif isinstance(node, Array):
        facts = _array(node)
        read = [("dialects", ", ".join(facts["dialects"]))] if facts["dialects"] else []
        title, rows = node.info.title, [*node.info.rows, *read]
    else:
        facts, described = _group(node), describe_group(node)
        title = f"{described.title} {node.format}"
        rows = [*described.rows, *_rows(combined_images(node, dialect=None))]
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=str))
        return
    attributes = facts.get("attributes", {})
    heading = [("attributes", "")] if attributes else []
    echo(*as_text(title, [*rows, *heading]).rstrip().split("\n"))
    for key, value in attributes.items():
        echo(f"        {key}: {json.dumps(value, ensure_ascii=False, default=str)}")


def _rows(images: Mapping[str, Image[Array]]) -> list[tuple[str, str]]:
    """Return a line for each image of a scene, or that several groups form."""
    from xarray_n5.arrays.describe import times

    rows = []
    for name, image in images.items():
        if not image.levels:
            continue
        axes = ", ".join(str(axis.name) for axis in image.base.named().axes)
        text = f"{times(image.base.shape)} ({axes}), levels {', '.join(image.levels)}"
        text += ", unfinished" if any(map(_is_unfinished, image.levels.values())) else ""
        rows.append(("image", f"{name}: {text}" if name else text))
    return rows


def _scene(scene: Scene, images: Mapping[str, Image[Array]]) -> dict[str, Any]:
    levels = [
        {
            "name": name,
            "level": key,
            "dims": [str(axis.name) for axis in level.named().axes],
            "shape": level.shape,
            "dtype": str(level.first.dtype),
        }
        for name, image in images.items()
        for key, level in image.levels.items()
    ]
    return {"url": scene.url, "kind": scene.kind, "images": levels}


def _group(group: Group) -> dict[str, Any]:
    from xarray_n5.arrays.array import Array

    nodes = sorted(group.nodes().items())
    kinds = {name: "array" if isinstance(node, Array) else "group" for name, node in nodes}
    return {
        "url": group.url,
        "path": group.path,
        "kind": "group",
        "format": group.format,
        "children": [{"name": name, "kind": kind} for name, kind in kinds.items()],
        "attributes": dict(group.attrs),
    }


def _array(array: Array) -> dict[str, Any]:
    from xarray_n5.codecs import to_json
    from xarray_n5.model.grid import ChunkGrid

    geometry, filters = array.geometry(), array.node.metadata.other_filters
    keys = ("name", "kind", "unit", "scale", "offset", "labels")
    axes = [{key: getattr(axis, key) for key in keys} for axis in geometry.with_names().axes]
    return {
        "url": array.url,
        "path": array.path,
        "kind": "array",
        "format": array.node.format.name,
        "shape": array.shape,
        "dtype": str(array.dtype),
        "bytes": array.size * array.dtype.itemsize,
        "chunks": array.chunks,
        "chunk_count": ChunkGrid(array.shape, array.chunks).size,
        "shards": array.shards,
        "shard_count": None if array.shards is None else array.grid.size,
        "compression": {"type": filters} if filters else to_json(array.compression),
        "unfinished": array.node.is_unfinished(),
        "axes": axes,
        "affine": geometry.affine,
        "sources": dict(geometry.sources),
        "dialects": geometry.dialects,
        "attributes": dict(array.attrs),
    }
