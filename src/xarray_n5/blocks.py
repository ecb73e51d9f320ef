"""Dask arrays in one layer of tasks, which is as small for many blocks as it is for few."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array.core import Array
from dask.blockwise import BlockwiseDep, blockwise
from dask.highlevelgraph import HighLevelGraph
from dask.layers import ArraySliceDep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike

_LETTERS = 40
"""How much of an array's name stands in the names of its tasks."""


class GridSlices(BlockwiseDep):
    """Where each block of a regular grid lies: computed when it is asked for, not listed.

    >>> GridSlices((10, 4), (4, 4))[2, 0]
    (slice(8, 10, None), slice(0, 4, None))
    """

    produces_tasks = False

    def __init__(self, shape: tuple[int, ...], sides: tuple[int, ...]) -> None:
        self.shape, self.sides = shape, sides
        self.numblocks = tuple(
            max(1, -(-size // max(1, side))) for size, side in zip(shape, sides, strict=True)
        )

    def __getitem__(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        return tuple(
            slice(i * side, min(size, (i + 1) * side))
            for i, size, side in zip(index, self.shape, self.sides, strict=True)
        )


def side_of(sizes: tuple[int, ...]) -> int | None:
    """Return the size that all blocks along an axis have, the last one at most; else None.

    >>> side_of((4, 4, 3)), side_of((4, 3, 4))
    (4, None)
    """
    first, last = sizes[0], sizes[-1]
    same = sizes.count(first) + (last < first)
    return first if same == len(sizes) else None


def spell(chunks: Sequence[tuple[int, ...]]) -> tuple[int | tuple[int, ...], ...]:
    """Return blocks along each axis in as few numbers as tell them from others.

    >>> spell([(4, 4, 3), (4, 3, 4)])
    (4, (4, 3, 4))
    """
    return tuple(sizes if (side := side_of(sizes)) is None else side for sizes in chunks)


def slices_of(chunks: tuple[tuple[int, ...], ...]) -> BlockwiseDep:
    """Return where blocks lie, for dask to hand to each its slices."""
    sides = [side for sizes in chunks if (side := side_of(sizes)) is not None]
    if len(sides) < len(chunks):
        return ArraySliceDep(chunks)
    # What a grid's last block lacks is known from its size alone.
    shape = [(len(c) - 1) * side + c[-1] for c, side in zip(chunks, sides, strict=True)]
    return GridSlices(tuple(shape), tuple(sides))


def in_one_layer(
    name: str,
    read: Callable[..., np.ndarray],
    source: object,
    where: BlockwiseDep,
    chunks: tuple[tuple[int, ...], ...],
    dtype: DTypeLike,
    **options: Any,
) -> Array:
    """Return an array each of whose blocks is one task, ``read(source, where[index])``.

    As of dask's own sources, no more tasks are begun than there are threads to run them.
    """
    axes = tuple(range(len(chunks)))
    arguments: Any = (source, None, where, axes)
    layer: Any = blockwise(
        read, name, axes, *arguments, numblocks={}, _data_producer=True, **options
    )
    graph = HighLevelGraph.from_collections(name, layer, dependencies=())
    return Array(graph, name, chunks, meta=np.empty((0,) * len(chunks), dtype))


def label(verb: str, name: str) -> str:
    """Return what tasks on an array are called; dask shows it as far as the first hyphen.

    What follows a place in a URL may be secret, and is left out.

    >>> label("from_n5", "em-2?token=hush")
    'from_n5_em_2'
    """
    shown = re.sub(r"\W+", "_", re.split("[?#]", name)[0])
    return f"{verb}_{shown[:_LETTERS]}".rstrip("_")
