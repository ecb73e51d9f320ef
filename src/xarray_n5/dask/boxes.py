"""Boxes of stored arrays: selections that read themselves, and arrays with one task per block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol

import cloudpickle
import numpy as np
from dask.base import tokenize

from xarray_n5.arrays.array import Array
from xarray_n5.dask.from_n5 import Chunked
from xarray_n5.graph import Array as DaskArray
from xarray_n5.graph import HighLevelGraph, in_one_layer, slices_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import dask.array as da
    from numpy.typing import DTypeLike

    from xarray_n5.graph import BlockwiseDep

_LARGEST = 1 << 14
"""The maximum size in bytes of what each task holds; larger objects are sent to a worker once."""


def from_boxes(
    task: Callable[[Any], np.ndarray],
    chunks: tuple[tuple[int, ...], ...],
    dtype: DTypeLike,
    token: str,
    meta: np.ndarray | None = None,
    *,
    where: BlockwiseDep | None = None,
    verb: str = "boxes",
) -> da.Array:
    """Return an array with one task per block, ``task(slices of the block)``.

    The layer is symbolic: it costs the same for 10 and for 10 million blocks.

    Parameters
    ----------
    task
        A small object that can be called and pickled. It returns the block.
    chunks
        The sizes of the result's blocks along each axis.
    dtype, meta
        The dtype of the result; or an empty array of its type.
    token
        A digest of all that the values depend on, the same in each process.
    where
        What to pass to the task instead of the slices of its block in the result.
    verb
        The name that Dask displays for the tasks.
    """
    where = slices_of(chunks) if where is None else where
    name, inline = f"{verb}-{token}", _is_small(task)
    return in_one_layer(name, _call, task, where, chunks, dtype, meta=meta, inline=inline)


def _is_small(task: object) -> bool:
    """Return whether each task may hold an object; one that cannot be pickled is never sent."""
    try:
        return len(cloudpickle.dumps(task)) <= _LARGEST
    except Exception:  # noqa: BLE001 - objects refuse to be pickled in many ways
        return True


def _call(task: Callable[[Any], np.ndarray], where: Any) -> np.ndarray:
    return task(where)


class StackedArrays(Chunked, Protocol):
    """Stored arrays that are indexed as one."""

    @property
    def arrays(self) -> Sequence[Array]:
        """The arrays."""

    def __getitem__(self, key: tuple[slice | int | np.ndarray, ...]) -> np.ndarray:
        """Return the values at slices, integers and positions, orthogonally."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredSource:
    """A selection of a stored array, by slices and integers, whose axes may be transposed."""

    array: Array | StackedArrays
    """The stored array, or those of a level."""
    selection: tuple[range | int, ...]
    """The positions along each stored axis; a number for axes that are not dimensions."""
    order: tuple[int, ...]
    """The stored axis of each dimension."""

    @classmethod
    def of(cls, array: Array | StackedArrays) -> StoredSource:
        """Return all of a stored array, for tasks: without caches."""
        bare = Array(array.node.bare()) if isinstance(array, Array) else array
        return cls(bare, tuple(map(range, bare.shape)), tuple(range(len(bare.shape))))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the selection."""
        return tuple(map(len, self._ranges))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values, in native byte order."""
        return self.array.dtype

    @property
    def units(self) -> tuple[int, ...]:
        """The size of whole stored chunks, or shards, along each dimension."""
        sides = self.array.shards or self.array.chunks
        return tuple(sides[axis] for axis in self.order)

    @property
    def token(self) -> str:
        """A digest of the stored arrays, their metadata's etags and the selection.

        Requests an etag for each stored array.
        """
        arrays = [self.array] if isinstance(self.array, Array) else self.array.arrays
        etags = [array.node.etag() for array in arrays]
        token: str = tokenize(self.array, etags, self.selection, self.order)
        return token

    def read(self, box: tuple[slice | np.ndarray, ...]) -> np.ndarray:
        """Return the values in a box: slices, or positions, along each dimension.

        Only the chunks of the box are read, each once.
        """
        key: list[Any] = list(self.selection)
        for axis, along, item in zip(self.order, self._ranges, box, strict=True):
            if isinstance(item, slice):
                key[axis] = as_slice(along[item])
            else:
                key[axis] = along.start + along.step * item
        kept = sorted(self.order)
        values = np.asarray(self.array[tuple(key)])
        return values.transpose([kept.index(axis) for axis in self.order])

    def select(self, key: tuple[slice | int, ...]) -> StoredSource:
        """Return a part, by a slice or an integer for each dimension.

        Raises
        ------
        IndexError
            If an integer is out of bounds.
        """
        selection = list(self.selection)
        for axis, along, item in zip(self.order, self._ranges, key, strict=True):
            selection[axis] = along[item]
        order = tuple(axis for axis in self.order if not isinstance(selection[axis], int))
        return replace(self, selection=tuple(selection), order=order)

    def transpose(self, order: Sequence[int]) -> StoredSource:
        """Return the dimensions in another order."""
        return replace(self, order=tuple(self.order[dim] for dim in order))

    @property
    def _ranges(self) -> list[range]:
        return [p for axis in self.order if isinstance(p := self.selection[axis], range)]


def as_slice(positions: range) -> slice:
    """Return positions as a slice of an axis."""
    if not positions:
        return slice(0, 0)
    stop = None if positions.stop < 0 else positions.stop
    return slice(positions.start, stop, positions.step)


class Plan(Protocol):
    """A computation whose blocks need boxes of a source."""

    def box(self, where: tuple[slice, ...]) -> tuple[slice, ...] | None:
        """Return the part of the source that the block at `where` needs; None for nothing."""

    def block(
        self, read: Callable[[tuple[slice, ...]], np.ndarray], where: tuple[slice, ...]
    ) -> np.ndarray:
        """Return the block at `where`; `read` returns boxes of the source."""


def from_blocks_of(
    source: DaskArray, plan: Plan, chunks: tuple[tuple[int, ...], ...], dtype: DTypeLike, name: str
) -> DaskArray:
    """Return an array with one task per block, which depends on the source's blocks that it needs.

    The tasks are built at once; an array that is stored has a symbolic layer instead.
    """
    ends = [np.cumsum(sizes) for sizes in source.chunks]
    tasks: dict[Any, Any] = {}
    slices = slices_of(chunks)
    for index in product(*(range(len(sizes)) for sizes in chunks)):
        where = slices[index]
        box = plan.box(where)
        if box is None:
            tasks[name, *index] = (_without_source, plan, where)
            continue
        along = [
            (int(np.searchsorted(end, b.start, "right")), int(np.searchsorted(end, b.stop, "left")))
            for end, b in zip(ends, box, strict=True)
        ]
        first = tuple(
            int(end[a]) - sizes[a]
            for end, sizes, (a, _) in zip(ends, source.chunks, along, strict=True)
        )
        tasks[name, *index] = (
            _of_blocks,
            plan,
            where,
            first,
            _keys(source.name, [range(a, b + 1) for a, b in along]),
        )
    sources: Any = [source]
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=sources)
    return DaskArray(graph, name, chunks, meta=np.empty((0,) * len(chunks), dtype))


def _keys(name: str, along: Sequence[range], index: tuple[int, ...] = ()) -> Any:
    """Return the keys of blocks, in lists within lists."""
    if not along:
        return (name, *index)
    return [_keys(name, along[1:], (*index, number)) for number in along[0]]


def _of_blocks(
    plan: Plan, where: tuple[slice, ...], first: tuple[int, ...], blocks: Any
) -> np.ndarray:
    """Return a block that needs blocks of the source, the first of which begins at `first`."""
    joined = np.block(blocks) if isinstance(blocks, list) else blocks

    def read(box: tuple[slice, ...]) -> np.ndarray:
        moved = (slice(b.start - f, b.stop - f) for b, f in zip(box, first, strict=True))
        return np.asarray(joined[tuple(moved)])

    return plan.block(read, where)


def _without_source(plan: Plan, where: tuple[slice, ...]) -> np.ndarray:
    """Return a block that needs nothing of the source."""
    return plan.block(_refuse, where)


def _refuse(box: tuple[slice, ...]) -> np.ndarray:
    raise AssertionError(f"the box {box} of a block that needs none is read")
