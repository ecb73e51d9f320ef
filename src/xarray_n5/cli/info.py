"""`info`: describe one array or group."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from xarray_n5.cli.arguments import Options, on_node, order_option
from xarray_n5.cli.errors import echo, ignore_unfinished_writes
from xarray_n5.cli.tree import unfinished_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.leaves import Scene
    from xarray_n5.model.image import Image


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
    from xarray_n5.arrays.open import open_node
    from xarray_n5.formats.containers import find_scene
    from xarray_n5.leaves import scene_in

    ignore_unfinished_writes()
    if (scene := find_scene(url, options)) is None:
        node = open_node(url, path, storage_options=options, **opening)
        scene, path = scene_in(node), ""
    if scene is not None:
        images = scene.images(path, options)
        if as_json:
            click.echo(json.dumps(_scene(scene, images), indent=2, default=str))
        else:
            echo(*as_text(f"<{scene.kind} {scene.url!r}>", _images(images)).rstrip().split("\n"))
        return
    facts = _array(node) if isinstance(node, Array) else _group(node)
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=str))
        return
    echo(*_text(node, facts).split("\n"))
    for key, value in facts["attributes"].items():
        echo(f"        {key}: {json.dumps(value, ensure_ascii=False, default=str)}")


def _text(node: Array | Group, facts: dict[str, Any]) -> str:
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.describe import as_text
    from xarray_n5.arrays.group import describe_group
    from xarray_n5.images.find import combined_images

    heading = [("attributes", "")] if facts["attributes"] else []
    if isinstance(node, Array):
        read = [("dialects", ", ".join(facts["dialects"]))] if facts["dialects"] else []
        described = node.info
        return as_text(described.title, [*described.rows, *read, *heading]).rstrip()
    described = describe_group(node)
    images = combined_images(node, dialect=None)
    rows = [*described.rows, *_images(images), *heading]
    return as_text(f"{described.title} {node.format}", rows).rstrip()


def _images(images: Mapping[str, Image[Array]]) -> list[tuple[str, str]]:
    """Return a line for each image of a scene, or that several groups form."""
    from xarray_n5.arrays.describe import times

    rows = []
    for name, image in images.items():
        if not image.levels:
            continue
        axes = ", ".join(str(axis.name) for axis in image.base.named().axes)
        text = f"{times(image.base.shape)} ({axes}), levels {', '.join(image.levels)}"
        text += ", unfinished" if any(map(unfinished_in, image.levels.values())) else ""
        rows.append(("image", f"{name}: {text}" if name else text))
    return rows


def _scene(scene: Scene, images: Mapping[str, Image[Array]]) -> dict[str, Any]:
    return {
        "url": scene.url,
        "kind": scene.kind,
        "images": [
            {
                "name": name,
                "level": key,
                "dims": [str(axis.name) for axis in level.named().axes],
                "shape": level.shape,
                "dtype": str(level.first.dtype),
            }
            for name, image in images.items()
            for key, level in image.levels.items()
        ],
    }


def _group(group: Group) -> dict[str, Any]:
    from xarray_n5.arrays.array import Array

    return {
        "url": group.url,
        "path": group.path,
        "kind": "group",
        "format": group.format,
        "children": [
            {"name": name, "kind": "array" if isinstance(node, Array) else "group"}
            for name, node in sorted(group.nodes().items())
        ],
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
