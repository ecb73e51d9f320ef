"""`tree`: draw the groups and arrays of a container."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from xarray_n5_cli.arguments import files, for_url, order_option, split_url, storage_option
from xarray_n5_cli.errors import echo, format_error, ignore_unfinished_writes, report_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.walk import Found, Walk

_LINES = {True: ("├── ", "└── ", "│   "), False: ("|-- ", "`-- ", "|   ")}
"""The branches of the tree, in Unicode and in ASCII."""

_PLAIN_DEPTH = 2
"""The depth to which directories that are not containers are searched."""


@click.command()
@click.argument("url", shell_complete=files)
@click.argument("path", default="")
@click.option("--depth", type=click.IntRange(0), help="The depth of groups to draw.")
@click.option("--chunks", is_flag=True, help="Count the stored chunks.")
@order_option()
@storage_option()
@report_errors
def tree(
    url: str,
    path: str,
    *,
    depth: int | None,
    chunks: bool,
    options: dict[str, Any],
    attribute_order: Literal["auto", "C", "N5"],
) -> None:
    """Draw the groups and arrays at URL.

    Each array has its shape, type, chunks, shards and compression, and "unfinished" if a write is
    incomplete; below it are its axes, with the first coordinate, the step, and the dialect that
    describes them. A directory that is not a container is drawn two levels deep, unless --depth is
    used. For a project of BigDataViewer, which is opened by its XML, images and their levels are
    drawn. The exit code is 1 if something cannot be read.

    \b
    Examples:
      xarray-n5 tree cells.n5
      xarray-n5 tree s3://janelia-cosem-datasets/jrc_hela-2/jrc_hela-2.n5/em -o anon=true --depth 1
    """
    from xarray_n5.arrays.walk import Walk
    from xarray_n5.formats.scenes import find_scene

    ignore_unfinished_writes()
    container, inner = split_url(url, path)
    storage_options = for_url(container, options)
    pretty = "utf" in str(sys.stdout.encoding).lower()
    if (scene := find_scene(container, storage_options)) is not None:
        how: dict[str, Any] = {"depth": depth, "chunks": chunks}
        for line in scene.tree_lines(inner, storage_options, _LINES[pretty], **how):
            echo(line)
        return
    walk = Walk.at(container, inner, storage_options, attribute_order=attribute_order)
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
            yield from (f"    {line}" for line in _axes(root))
        elif found.node is None:
            yield f"{root.url}  {self._problem(found)}"
        elif not self.walk.is_plain:
            yield f"{root.url}  {root.format}"
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
                yield from (f"{indent}{under}    {line}" for line in _axes(found.node))
            else:
                yield f"{indent}{head}{found.name}/"
                deeper = None if depth is None else depth - 1
                yield from self._inside(found.node, indent + under, deeper)

    def _problem(self, found: Found) -> str:
        self.broken = self.broken or found.broken
        return format_error(found.problem)

    def _summary(self, array: Array) -> str:
        from xarray_n5.arrays.access import is_unfinished
        from xarray_n5.arrays.repr import times

        size = f"{times(array.shape)} {array.dtype}, {chunk_shapes(array)}"
        text = f"{size}, {compression_name(array)}"
        text += ", unfinished" if is_unfinished(array) else ""
        if not self.chunks:
            return text
        try:
            return f"{text}, {_stored(array)}"
        except OSError as error:
            self.broken = True
            return f"{text}, {format_error(str(error))}"


def chunk_shapes(array: Array) -> str:
    """Return the shape of an array's chunks, and of its shards if it has any."""
    from xarray_n5.arrays.repr import times

    shards = "" if array.shards is None else f", shards {times(array.shards)}"
    return f"chunks {times(array.chunks)}{shards}"


def compression_name(array: Array) -> str:
    """Return the name of an array's compression."""
    return str(array.compression.name)


def _stored(array: Array) -> str:
    """Return the number of stored chunks, or of shards, and their size."""
    from dask.utils import format_bytes

    from xarray_n5.arrays.access import io_of

    count, size = 0, 0
    io = io_of(array)
    for index, found in io.container.list_chunk_info(io.path, io.metadata):
        if index in array.grid:
            count, size = count + 1, size + found.size
    things = "chunks" if array.shards is None else "shards"
    return f"{count} of {array.grid.size} {things} stored, {format_bytes(size)}"


def _axes(array: Array) -> Iterator[str]:
    """Iterate over the line of the axes, if a dialect describes them."""
    from xarray_n5.arrays.repr import axes_line

    geometry = array.geometry()
    dialects = dict.fromkeys(text.partition(":")[0] for text in geometry.sources.values())
    if not dialects:
        return
    matrix = "; affine" if geometry.affine is not None else ""
    yield f"{axes_line(geometry)}{matrix}  ({', '.join(dialects)})"
