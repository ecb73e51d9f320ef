"""Find what a Dask array selects from one source by slices, integers and transposition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, product
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xarray_n5.graph import (
    Alias,
    ArraySliceDep,
    Blockwise,
    GridSlices,
    HighLevelGraph,
    Task,
    TaskRef,
    getitem,
    getter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import dask.array as da

_Step: TypeAlias = "tuple[int, slice | int]"
"""A block along an axis, and what is taken from it."""

_ALL = slice(None)
_BASIC = frozenset({slice, int, np.int64})


@dataclass(frozen=True, slots=True)
class Origin:
    """What an array selects from one object that Dask reads block by block."""

    source: object
    """The object."""
    selection: tuple[range | int, ...]
    """The positions along each axis of the source; a number for axes that are no dimensions."""
    order: tuple[int, ...]
    """The axis of the source for each dimension."""


def origin_of(data: da.Array) -> Origin | None:
    """Return the selection of one source in an array; None if any of its layers does more.

    Each layer must read blocks of the source, slice or transpose; of slicing layers, which Dask
    writes out, every task is checked. Anything else may have changed values.
    """
    if not isinstance(graph := data.dask, HighLevelGraph):
        return None
    later: list[tuple[str, Any]] = []
    name, blocks = data.name, None
    while name in graph.layers:
        layer = graph.layers[name]
        blocks = _read_by(layer, graph)
        if blocks is not None or len(graph.dependencies[name]) != 1:
            break
        later.append((name, layer))
        (name,) = graph.dependencies[name]
    for name, layer in reversed(later):
        if blocks is None:
            return None
        if isinstance(layer, Blockwise):
            blocks = _transposed(layer, blocks)
        else:
            blocks = _sliced(name, layer, blocks)
    return None if blocks is None else _joined(blocks, data)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The positions in the source of each block of a layer."""

    name: str
    """The name of the layer."""
    source: object
    numbers: Mapping[int, int]
    """The positions of axes that are not dimensions."""
    along: tuple[tuple[int, tuple[range, ...]], ...]
    """For each dimension, the axis of the source, and the positions of each block along it."""


def _read_by(layer: Any, graph: HighLevelGraph) -> _Blocks | None:
    """Return the blocks of a layer that reads an object by slices."""
    if not isinstance(layer, Blockwise) or layer.task.func is not getter:
        return None
    match list(layer.indices):
        case [(source, None), (str(where), axes)] if axes == layer.output_indices:
            slices = layer.io_deps.get(where)
        case _:
            return None
    if isinstance(source, TaskRef):
        source = graph[source.key]
    if not isinstance(slices, (GridSlices, ArraySliceDep)):
        return None
    along = tuple((axis, _pieces(sizes)) for axis, sizes in enumerate(slices.chunks))
    return _Blocks(layer.output, source, {}, along)


def _pieces(sizes: Sequence[int]) -> tuple[range, ...]:
    stops = accumulate(sizes)
    return tuple(range(stop - size, stop) for size, stop in zip(sizes, stops, strict=True))


def _transposed(layer: Blockwise, blocks: _Blocks) -> _Blocks | None:
    """Return the blocks of a layer that transposes."""
    match list(layer.indices):
        case [(blocks.name, tuple(axes))] if layer.task.func is np.transpose:
            order = layer.task.kwargs.get("axes", ())
        case _:
            return None
    if tuple(axes[axis] for axis in order) != tuple(layer.output_indices):
        return None
    return replace(blocks, name=layer.output, along=tuple(blocks.along[axis] for axis in order))


def _sliced(name: str, layer: Mapping[Any, Any], blocks: _Blocks) -> _Blocks | None:
    """Return the blocks of a layer that slices; every one of its tasks is checked."""
    ndim = len(next(iter(layer), "")) - 1
    if not all(type(key) is tuple and len(key) == ndim + 1 for key in layer):
        return None
    first = _step(layer.get((name, *(0,) * ndim)), blocks)
    kept = [axis for axis, step in enumerate(first or ()) if isinstance(step[1], slice)]
    if first is None or len(kept) != ndim:
        return None
    # Blocks in a row are slices of the same blocks, all by the same slice.
    lines: list[list[_Step]] = [[step] for step in first]
    for dim, axis in enumerate(kept):
        for number in range(1, max(map(itemgetter(dim + 1), layer)) + 1):
            index = (number if i == dim else 0 for i in range(ndim))
            step = _step(layer.get((name, *index)), blocks)
            if step is None:
                return None
            lines[axis].append(step[axis])
    if not _are_products(name, layer, lines, kept, blocks.name):
        return None
    numbers, along = dict(blocks.numbers), []
    for axis, (line, (stored, pieces)) in enumerate(zip(lines, blocks.along, strict=True)):
        taken = tuple(pieces[block][item] for block, item in line)
        positions = tuple(each for each in taken if isinstance(each, range))
        if axis in kept and len(positions) == len(taken):
            along.append((stored, positions))
        elif axis not in kept and isinstance(taken[0], int):
            numbers[stored] = taken[0]
        else:
            return None
    return _Blocks(name, blocks.source, numbers, tuple(along))


def _are_products(
    name: str,
    layer: Mapping[Any, Any],
    lines: Sequence[Sequence[_Step]],
    kept: Sequence[int],
    source: str,
) -> bool:
    """Return whether each task of a layer slices what its place in the lines says."""
    indices = product(*(range(len(lines[axis])) for axis in kept))
    keys = product((source,), *([block for block, _ in line] for line in lines))
    slices = product(*([item for _, item in line] for line in lines))
    if len(layer) != prod(map(len, lines)):
        return False
    for index, key, items in zip(indices, keys, slices, strict=True):
        task = layer.get((name, *index))
        if type(task) is Alias and task.target == key and items == (_ALL,) * len(items):
            continue
        if type(task) is not Task or task.func is not getitem or task.kwargs:
            return False
        read, taken = task.args
        if type(read) is not TaskRef or read.key != key or taken != items:
            return False
    return True


def _step(task: Any, blocks: _Blocks) -> list[_Step] | None:
    """Return the block that a task slices along each dimension, and the slice of it."""
    match task:
        case Alias(target=(blocks.name, *numbers)):
            items: tuple[Any, ...] = (_ALL,) * len(numbers)
        case Task(args=(TaskRef(key=(blocks.name, *numbers)), tuple(items))):
            if task.func is not getitem or task.kwargs:
                return None
        case _:
            return None
    if not all(type(item) in _BASIC for item in items) or len(items) != len(blocks.along):
        return None
    index: Any = numbers
    return list(zip(index, items, strict=True))


def _joined(blocks: _Blocks, data: da.Array) -> Origin | None:
    """Return the selection that blocks are pieces of, if they are those of an array."""
    if tuple(tuple(map(len, pieces)) for _, pieces in blocks.along) != data.chunks:
        return None
    selection: dict[int, range | int] = dict(blocks.numbers)
    for axis, pieces in blocks.along:
        positions = _join([piece for piece in pieces if piece])
        if positions is None:
            return None
        selection[axis] = positions
    ordered = tuple(selection[axis] for axis in range(len(selection)))
    return Origin(blocks.source, ordered, tuple(axis for axis, _ in blocks.along))


def _join(pieces: Sequence[range]) -> range | None:
    """Return consecutive positions as one range; None if their distances differ.

    >>> _join([range(1, 4, 2), range(5, 6)]), _join([range(4), range(5, 8)])
    (range(1, 6, 2), None)
    """
    if not pieces:
        return range(0)
    first, last = pieces[0], pieces[-1]
    step = first.step if len(first) > 1 else pieces[min(1, len(pieces) - 1)][0] - first[0]
    if step == 0 and len(pieces) > 1:
        return None
    joined = range(first[0], last[-1] + (1 if step >= 0 else -1), step or 1)
    start = 0
    for piece in pieces:
        if joined[start : start + len(piece)] != piece:
            return None
        start += len(piece)
    return joined if start == len(joined) else None
