"""`tree`: the groups and arrays of a container, drawn."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from xarray_n5_cli.failing import one_line, say, say_unfinished_elsewhere, told_of
from xarray_n5_cli.places import files, for_url, split_place, storage_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.walk import Found, Walk
    from xarray_n5.model.axes import Axis

_LINES = {True: ("├── ", "└── ", "│   "), False: ("|-- ", "`-- ", "|   ")}
"""What branches are drawn with: where the terminal has more than ASCII, and where not."""

_PLAIN_DEPTH = 2
"""How deep directories are looked into that are no container: arrays of containers in them."""


@click.command()
@click.argument("url", shell_complete=files)
@click.argument("path", default="")
@click.option("--depth", type=click.IntRange(0), help="How many groups deep to look.")
@click.option("--chunks", is_flag=True, help="List the chunks, and tell how many are stored.")
@storage_option()
@one_line
def tree(url: str, path: str, *, depth: int | None, chunks: bool, options: dict[str, Any]) -> None:
    """Draw the groups and arrays at URL.

    Each array has its shape, type, chunks and compression, and "unfinished" where a write has
    not ended; below stand its axes, what is between
    two samples, where the first lies, and the dialect that tells it. A directory that is no
    container is drawn 2 deep, unless --depth is given. The exit code is 1 where something cannot
    be read.

    \b
    Examples:
      xarray-n5 tree cells.n5
      xarray-n5 tree s3://janelia-cosem-datasets/jrc_hela-2/jrc_hela-2.n5/em -o anon=true --depth 1
    """
    from xarray_n5.arrays.walk import Walk

    say_unfinished_elsewhere()
    container, inner = split_place(url, path)
    walk = Walk.at(container, inner, for_url(container, options))
    drawing = _Drawing(walk, chunks=chunks, pretty="utf" in str(sys.stdout.encoding).lower())
    for line in drawing.lines(depth):
        say(line)
    if drawing.broken:
        raise click.exceptions.Exit(1)


@dataclass(slots=True)
class _Drawing:
    """A tree as lines."""

    walk: Walk
    chunks: bool
    """Whether chunks are counted."""
    pretty: bool
    """Whether there is more than ASCII."""
    broken: bool = False
    """Whether something could not be read."""

    def lines(self, depth: int | None) -> Iterator[str]:
        """Iterate over the root's line, and over those below it."""
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
                yield f"({_PLAIN_DEPTH} deep, as this is no container: --depth tells how deep)"

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
        return told_of(found.problem)

    def _summary(self, array: Array) -> str:
        from xarray_n5.arrays.repr import times, unfinished_among

        size = f"{times(array.shape)} {array.dtype}, chunks {times(array.chunks)}"
        text = f"{size}, {compression_name(array)}"
        text += ", unfinished" if unfinished_among([array]) else ""
        if not self.chunks:
            return text
        try:
            return f"{text}, {_stored(array)}"
        except OSError as error:
            self.broken = True
            return f"{text}, {told_of(str(error))}"


def compression_name(array: Array) -> str:
    """Return what an array's compression is called."""
    return str(array.metadata.compression.name)


def _stored(array: Array) -> str:
    """Return how many chunks there are of all."""
    from dask.utils import format_bytes

    count, size = 0, 0
    for found in array.container.list_info(array.path):
        index = array.chunk_index(found.key)
        if index is not None and index in array.grid:
            count, size = count + 1, size + found.size
    return f"{count} of {array.grid.size} chunks stored, {format_bytes(size)}"


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
