"""Commands that look: `tree`, `info`, `preview` of a section, and `view` in Neuroglancer."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.describe import as_text, axes_line, summary, times
from xarray_n5.arrays.group import Group, describe_group
from xarray_n5.arrays.open import Entry, Walk, open_node
from xarray_n5.cli.options import (
    Options,
    echo,
    format_error,
    ignore_unfinished_writes,
    on_node,
    order_option,
)
from xarray_n5.codecs import to_json
from xarray_n5.formats.containers import find_scene
from xarray_n5.formats.structure import unfinished
from xarray_n5.images.find import combined_images
from xarray_n5.leaves import Scene, scene_in
from xarray_n5.model.grid import ChunkGrid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.image import Image, Level

_LINES = {True: ("├── ", "└── ", "│   "), False: ("|-- ", "`-- ", "|   ")}
"""The branches of the tree, in Unicode and in ASCII."""

_PLAIN_DEPTH = 2
"""The depth to which directories that are not containers are searched."""


@click.command()
@click.option("--depth", type=click.IntRange(0), help="The depth of groups to draw.")
@order_option
@on_node()
def tree(url: str, path: str, *, depth: int | None, options: Options, **opening: Any) -> None:
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
    ignore_unfinished_writes()
    if (scene := find_scene(url, options)) is None:
        walk = Walk.at(url, path, options, **opening)
        scene, path = scene_in(walk.root), ""
    if scene is not None:
        images = {} if depth == 0 else scene.images(path, options)
        nodes = _nodes_of_images(images, depth)
        echo(*_lines([_Node(f"{scene.url}  a {scene.kind}", nodes=nodes)]))
        return
    drawing = _Drawing(walk)
    echo(*_lines([drawing.top(depth)]))
    if walk.is_plain and depth is None:
        echo(f"(to a depth of {_PLAIN_DEPTH}, because this is not a container; see --depth)")
    if drawing.broken:
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
class _Drawing:
    """The nodes of a walk."""

    walk: Walk
    broken: bool = False
    """Whether something could not be read."""

    def top(self, depth: int | None) -> _Node:
        """Return the root with everything below it."""
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

        node = entry.node
        if node is None:
            self.broken = self.broken or entry.broken
            return _Node(f"{name}  {format_error(entry.problem)}")
        if isinstance(node, Array):
            text = summary(node, unfinished=node.node.is_unfinished())
            return _Node(f"{name}  {text}", _axes(node.geometry()))
        return _Node(f"{name}/{_version(node)}", nodes=self._inside(node, depth))


def _version(group: Group) -> str:
    """Return the version of OME-Zarr of a group's images, behind two spaces."""
    match dict(group.attrs):
        case {"ome": {"version": str(version), "multiscales": [_, *_]}}:
            return f"  OME-Zarr {version}"
        case {"multiscales": [{"version": str(version)}, *_]} if group.format == "zarr2":
            return f"  OME-Zarr {version}"
    return ""


def _nodes_of_images(images: Mapping[str, Image[Array]], depth: int | None) -> list[_Node]:
    """Return the nodes of a scene's images: a single one has no node of its own."""
    nodes = []
    for name, image in images.items():
        levels = []
        if depth is None or depth > 1 or not name:
            levels = [_level(at, level) for at, level in image.levels.items()]
        nodes += [_Node(f"{name}/", nodes=levels)] if name else levels
    return nodes


def _level(name: str, level: Level[Array]) -> _Node:

    array = level.first
    shards = "" if level.shards is None else f", shards {times(level.shards)}"
    size = f"{times(level.shape)} {array.dtype}, chunks {times(level.chunks)}{shards}"
    compression = array.node.metadata.other_filters or str(array.compression.name)
    state = ", unfinished" if _is_unfinished(level) else ""
    return _Node(f"{name}  {size}, {compression}{state}", _axes(level.named()))


def _is_unfinished(level: Level[Array]) -> bool:
    """Return whether an array of a level has an unfinished write."""
    return bool(unfinished(level.first.node.store, {array.path for array in level.arrays}))


def _axes(geometry: Geometry) -> list[str]:
    """Return the line of the axes, if a dialect describes them."""
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


_KINDS = (".png", ".jpg", ".jpeg", ".pdf", ".svg", ".tif", ".tiff", ".webp")
"""The suffixes of pictures."""


def _picture(_: object, __: object, picture: Path) -> Path:
    """Return the path of the picture; -o sets storage options in other commands."""
    hint = "-o is the output file here; use --storage-option for storage options"
    if picture.suffix.lower() not in _KINDS:
        raise click.BadParameter(f"'{picture}' does not end in {', '.join(_KINDS)}; {hint}")
    if not picture.parent.is_dir():
        raise click.BadParameter(f"the folder '{picture.parent}' does not exist")
    return picture


@click.command()
@click.option(
    "-o",
    "--output",
    required=True,
    callback=_picture,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help=f"The output file, which ends in {', '.join(_KINDS)}.",
)
@click.option("--axis", help="The axis to cut across; by default z, or the third from last.")
@click.option("--at", type=float, help="Where to cut: a coordinate in the axis's unit.")
@click.option(
    "--pixels",
    type=click.IntRange(16),
    default=800,
    show_default=True,
    help="The length of the longer side, in pixels.",
)
@on_node(flags=("--storage-option",))
def preview(url: str, path: str, *, output: Path, options: Options, **section: Any) -> None:
    """Draw a section through the first image at URL, by default through its middle.

    Of a pyramid, the coarsest level with as many samples as the picture has pixels is read. Other
    axes than those of the section are cut at their first sample.

    \b
    Examples:
      xarray-n5 preview cells.n5/raw -o raw.png
      xarray-n5 preview em.n5/raw -o em.png --at 12.5 --axis z --pixels 1200
    """
    from xarray_n5.viewing.preview import draw

    echo(f"{output}: {draw(url, path, output, storage_options=options, **section)}")


@click.command()
@click.option(
    "--labels/--no-labels",
    default=None,
    help="Show arrays as segmentations; the default for uint64 and for labels.",
)
@click.option(
    "--link", is_flag=True, help="Link N5 or Zarr at a public URL from Neuroglancer's public page."
)
@click.option("--browser/--no-browser", default=True, help="Open a browser.")
@click.option("--address", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port; by default, any free one."
)
@click.option("--seconds", type=click.FloatRange(0), help="Stop after this many seconds.")
@on_node()
def view(
    url: str, path: str, *, browser: bool, seconds: float | None, options: Options, **how: Any
) -> None:
    """Open the images at URL in Neuroglancer, in a browser.

    Each array with at least two dimensions is a layer; a pyramid, or an image of a project of
    BigDataViewer, is one layer for each channel. The viewer's URL is printed; it is served until
    Ctrl-C.

    \b
    Examples:
      xarray-n5 view cells.n5
      xarray-n5 view dataset.xml --no-browser --port 8080
    """
    from xarray_n5.viewing.api import page_of
    from xarray_n5.viewing.api import view as serve

    with serve(url, path, storage_options=options, **how) as shown:
        echo(shown.url)
        if browser:
            click.launch(page_of(shown))
        if shown.running:
            try:
                threading.Event().wait(seconds)
            except KeyboardInterrupt:
                echo("stopped", err=True)
