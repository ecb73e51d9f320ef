"""`tree`: the groups and arrays of a container, drawn."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from xarray_n5.cli.failing import one_line
from xarray_n5.cli.places import for_url, split_place, storage_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.array import Array
    from xarray_n5.axes import Axis
    from xarray_n5.group import Group

_LINES = {True: ("├── ", "└── ", "│   "), False: ("|-- ", "`-- ", "|   ")}
"""What branches are drawn with: where the terminal has more than ASCII, and where not."""


@click.command()
@click.argument("url")
@click.argument("path", default="")
@click.option("--depth", type=click.IntRange(0), help="How many groups deep to look.")
@click.option("--chunks", is_flag=True, help="List the chunks, and tell how many are stored.")
@storage_option()
@one_line
def tree(url: str, path: str, *, depth: int | None, chunks: bool, options: dict[str, Any]) -> None:
    r"""Draw the groups and arrays at URL.

    Each array has its shape, type, chunks and compression; below stand its axes, what is between
    two samples, where the first lies, and the dialect that tells it.

    \b
    Examples:
      xarray-n5 tree cells.n5
      xarray-n5 tree s3://janelia-cosem-datasets/jrc_hela-2/jrc_hela-2.n5/em -o anon=true --depth 1
    """
    from xarray_n5.group import open_node

    container, inner = split_place(url, path)
    node = open_node(container, inner, storage_options=for_url(container, options))
    for line in _drawn(node, depth, chunks=chunks):
        click.echo(line)


def _drawn(node: Array | Group, depth: int | None, *, chunks: bool) -> Iterator[str]:
    from xarray_n5.array import Array

    if isinstance(node, Array):
        yield f"{node.url}  {_summary(node, chunks=chunks)}"
        yield from (f"    {line}" for line in _axes(node))
        return
    yield f"{node.url}  {node.format}"
    encoding = str(sys.stdout.encoding)
    yield from _inside(node, "", depth, chunks=chunks, pretty="utf" in encoding.lower())


def _inside(
    group: Group, indent: str, depth: int | None, *, chunks: bool, pretty: bool
) -> Iterator[str]:
    from xarray_n5.array import Array

    if depth == 0:
        return
    branch, last, trunk = _LINES[pretty]
    children = sorted(group.children().items())
    for number, (name, node) in enumerate(children):
        end = number == len(children) - 1
        head, under = (last, "    ") if end else (branch, trunk)
        if isinstance(node, Array):
            yield f"{indent}{head}{name}  {_summary(node, chunks=chunks)}"
            yield from (f"{indent}{under}    {line}" for line in _axes(node))
        else:
            yield f"{indent}{head}{name}/"
            deeper = None if depth is None else depth - 1
            yield from _inside(node, indent + under, deeper, chunks=chunks, pretty=pretty)


def _summary(array: Array, *, chunks: bool) -> str:
    from xarray_n5.views.reprs import times

    size = f"{times(array.shape)} {array.dtype}, chunks {times(array.chunks)}"
    text = f"{size}, {compression_name(array)}"
    return f"{text}, {_stored(array)}" if chunks else text


def compression_name(array: Array) -> str:
    """Return what an array's compression is called."""
    return str(array.metadata.compression.name)


def _stored(array: Array) -> str:
    """Return how many chunks there are of all."""
    from dask.utils import format_bytes

    from xarray_n5.chunkmaps import chunk_map

    found = chunk_map(array.container, array.path)
    size = format_bytes(int(found["bytes"].sum()))
    return f"{int(found.sum())} of {found.size} chunks stored, {size}"


def _axes(array: Array) -> Iterator[str]:
    """Iterate over a line for the axes, and one for a matrix."""
    geometry = array.geometry()
    dialects = dict.fromkeys(text.partition(":")[0] for text in geometry.sources.values())
    if not dialects:
        return
    axes = ", ".join(map(_place, geometry.with_names().axes))
    matrix = ", affine" if geometry.affine is not None else ""
    yield f"{axes}{matrix}  ({', '.join(dialects)})"


def _place(axis: Axis) -> str:
    if axis.labels is not None:
        return f"{axis.name}: {', '.join(axis.labels[:4])}{', ...' * (len(axis.labels) > 4)}"  # noqa: PLR2004
    if not axis.placed:
        return str(axis.name)
    start = f" from {axis.offset:g}" if axis.offset else ""
    return f"{axis.name} {axis.step:g} {axis.unit or '(no unit)'}{start}"
