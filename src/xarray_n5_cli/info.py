"""`info`: describe one array or group."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from xarray_n5_cli.arguments import (
    files,
    for_url,
    multisets_option,
    order_option,
    split_url,
    storage_option,
)
from xarray_n5_cli.errors import echo, ignore_unfinished_writes, report_errors

if TYPE_CHECKING:
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group


@click.command()
@click.argument("url", shell_complete=files)
@click.argument("path", default="")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, for programs.")
@multisets_option()
@order_option()
@storage_option()
@report_errors
def info(url: str, path: str, *, as_json: bool, options: dict[str, Any], **opening: Any) -> None:
    """Describe the array or group at URL, or at PATH in it: metadata, axes and attributes.

    The JSON object has the keys url, path, kind ("array" or "group"), format and attributes. A
    group also has children. An array also has shape, dtype, bytes, chunks, chunk_count, shards and
    shard_count (null without shards), compression, unfinished (whether a write is incomplete), axes
    (name, kind, unit, scale, offset, labels; in C order), affine and sources. A project of
    BigDataViewer, which is opened by its XML, has url, kind ("project"), format, container, setups,
    timepoints, missing, names, world and images. These keys do not change between versions.

    \b
    Examples:
      xarray-n5 info cells.n5/raw
      xarray-n5 info cells.n5 raw --json | jq .axes
    """
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.open import open_node
    from xarray_n5.formats.scenes import find_scene

    ignore_unfinished_writes()
    container, inner = split_url(url, path)
    storage_options = for_url(container, options)
    if (scene := find_scene(container, storage_options)) is not None:
        if as_json:
            described = scene.facts(inner, storage_options)
            click.echo(json.dumps(described, indent=2, default=str))
        else:
            echo(scene.text(inner, storage_options))
        return
    node = open_node(container, inner, storage_options=storage_options, **opening)
    facts = _array(node) if isinstance(node, Array) else _group(node)
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=str))
        return
    echo(_text(node))
    for key, value in facts["attributes"].items():
        echo(f"        {key}: {json.dumps(value, ensure_ascii=False, default=str)}")


def _text(node: Array | Group) -> str:
    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.repr import as_text

    info = node.info
    if isinstance(node, Array):
        return as_text(info.title, [*info.rows, *_attributes(node)]).rstrip()
    named = [row for row in info.rows if row[0] != "attributes"]
    rows = [*named, *_images(node), *_attributes(node)]
    return as_text(f"{info.title} {node.format}", rows).rstrip()


def _attributes(node: Array | Group) -> list[tuple[str, str]]:
    """Return the heading of the attributes, if there are any."""
    return [("attributes", "")] if node.attrs else []


def _images(group: Group) -> list[tuple[str, str]]:
    """Return a line for each image that several groups form, as in BigDataViewer."""
    from xarray_n5.arrays.repr import times
    from xarray_n5.images.find import combined_images

    rows = []
    for name, image in combined_images(group, dialect=None, inherit=False).items():
        axes = ", ".join(str(axis.name) for axis in image.base.named().axes)
        text = f"{times(image.base.shape)} ({axes}), levels {', '.join(image.levels)}"
        rows.append(("image", f"{name}: {text}" if name else text))
    return rows


def _group(group: Group) -> dict[str, Any]:
    from xarray_n5.arrays.access import children_of
    from xarray_n5.arrays.array import Array

    return {
        "url": group.url,
        "path": group.path,
        "kind": "group",
        "format": group.format,
        "children": [
            {"name": name, "kind": "array" if isinstance(node, Array) else "group"}
            for name, node in sorted(children_of(group).items())
        ],
        "attributes": dict(group.attrs),
    }


def _array(array: Array) -> dict[str, Any]:
    from xarray_n5.arrays.access import io_of, is_unfinished
    from xarray_n5.codecs import to_json

    geometry = array.geometry()
    keys = ("name", "kind", "unit", "scale", "offset", "labels")
    axes = [{key: getattr(axis, key) for key in keys} for axis in geometry.with_names().axes]
    return {
        "url": array.url,
        "path": array.path,
        "kind": "array",
        "format": io_of(array).format.name,
        "shape": array.shape,
        "dtype": str(array.dtype),
        "bytes": array.nbytes,
        "chunks": array.chunks,
        "chunk_count": array.nchunks,
        "shards": array.shards,
        "shard_count": None if array.shards is None else array.grid.size,
        "compression": to_json(array.compression),
        "unfinished": is_unfinished(array),
        "axes": axes,
        "affine": geometry.affine,
        "sources": dict(geometry.sources),
        "attributes": dict(array.attrs),
    }
