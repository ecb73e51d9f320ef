"""Dask graphs: arrays of one symbolic layer, and trees that reduce their results to one.

The only file that imports Dask's undocumented modules.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.array.core import (  # type: ignore[attr-defined]
    Alias,
    Array,
    Task,
    TaskRef,
    getter,
    normalize_chunks,
)
from dask.array.overlap import map_overlap as dask_map_overlap
from dask.base import get_scheduler, is_dask_collection
from dask.blockwise import Blockwise, BlockwiseDep, blockwise, optimize_blockwise
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer
from dask.layers import ArrayBlockwiseDep, ArraySliceDep
from dask.task_spec import DataNode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import DTypeLike

# What other files import from Dask through this one.
__all__ = [
    "Alias",
    "Array",
    "ArrayBlockwiseDep",
    "ArraySliceDep",
    "BlockwiseDep",
    "DataNode",
    "HighLevelGraph",
    "Task",
    "TaskRef",
    "dask_map_overlap",
    "get_scheduler",
    "getter",
    "normalize_chunks",
]

ARRAY_EXPRESSIONS = da.Array is not Array
"""Whether Dask represents arrays by expressions instead of graphs."""

_MANY = 1000
"""The maximum number of results that one task merges."""


_LETTERS = 40
"""The maximum number of characters of an array's name in the names of its tasks."""


def as_graph(data: Any) -> Any:
    """Return arrays that Dask represents by expressions as arrays with a graph, uncomputed.

    They are those of the package dask-array, and of Dask's option ``array.query-planning``; other
    objects are returned unchanged.
    """
    if isinstance(data, Array) or not (is_dask_collection(data) and hasattr(data, "numblocks")):
        return data
    key: Any = data.__dask_keys__()
    while isinstance(key, list):
        key = key[0]
    return Array(dict(data.__dask_graph__()), key[0], data.chunks, meta=data._meta)  # noqa: SLF001


def layers_of(graph: Any) -> Iterator[Collection[Any]]:
    """Return the tasks of each layer of a graph; of a symbolic one, that for all of its blocks.

    Objects that all blocks of a symbolic layer share, such as what they read, follow its task.
    """
    for layer in graph.layers.values() if isinstance(graph, HighLevelGraph) else [graph]:
        if isinstance(layer, Blockwise):
            yield [layer.task, *(argument for argument, axes in layer.indices if axes is None)]
        elif not isinstance(layer, Layer) or layer.is_materialized():
            yield layer.values()


def source_of(array: Array) -> object | None:
    """Return the object that each block of an array is a slice of, as :func:`getter` returns it.

    None if the array's own layer does anything else, or depends on another array: only the layer
    shows it, because arrays that were persisted keep their names.
    """
    graph = array.dask
    layer = graph.layers.get(array.name) if isinstance(graph, HighLevelGraph) else None
    if not isinstance(layer, Blockwise) or layer.task.func is not getter:
        return None
    match list(layer.indices):
        case [(source, None), (str(where), axes)] if axes == layer.output_indices:
            slices = layer.io_deps.get(where)
            if isinstance(slices, (GridSlices, ArraySliceDep)) and slices.chunks == array.chunks:
                return graph[source.key] if isinstance(source, TaskRef) else source
    return None


def is_divisible(array: Array) -> bool:
    """Return whether blocks can be computed in parts, none of which needs many of the others.

    All layers of the graph must be sources, or map blocks to blocks: symbolic ones by their
    indices; those that are written out, such as slices and rechunks that join whole blocks, if no
    two of their tasks need the same one. Then the cost of cutting a part out of the graph depends
    on the part alone, and nothing is computed twice.
    """
    graph = array.dask
    return all(
        not graph.dependencies[name] or _maps_blocks(layer) for name, layer in graph.layers.items()
    )


def _maps_blocks(layer: Layer) -> bool:
    if isinstance(layer, Blockwise):
        return all(axes is None or {*axes} <= {*layer.output_indices} for _, axes in layer.indices)
    return isinstance(layer, MaterializedLayer) and _shares_nothing(layer)


def _shares_nothing(layer: Mapping[Any, Any]) -> bool:
    """Return whether no two tasks depend on the same one."""
    seen: set[Any] = set()
    for task in layer.values():
        if type(task) not in (Task, Alias) or not seen.isdisjoint(task.dependencies):
            return False
        seen |= task.dependencies
    return True


def fused(array: Array) -> Array:
    """Return an array whose symbolic layers are one, where Dask can merge them."""
    first = (array.name, *(0 for _ in array.chunks))
    graph = optimize_blockwise(array.dask, keys=[first])
    return Array(graph, array.name, array.chunks, meta=array._meta)  # noqa: SLF001


def cut(array: Array, indices: Iterable[tuple[int, ...]]) -> Array:
    """Return an array of which only some blocks can be computed, with the tasks of these.

    It must be divisible: see :func:`is_divisible`.
    """
    graph, wanted = array.dask, {(array.name, *index) for index in indices}
    layers: dict[str, Layer] = {}
    for name in reversed(graph._toposort_layers()):  # noqa: SLF001
        layer = graph.layers[name]
        part, dependencies = _cull(layer, wanted, is_source=not graph.dependencies[name])
        if dependencies:
            layers[name] = part
        for key, others in dependencies.items():
            wanted.discard(key)
            wanted |= others
    needed = {name: graph.dependencies[name] & layers.keys() for name in layers}
    return Array(HighLevelGraph(layers, needed), array.name, array.chunks, meta=array._meta)  # noqa: SLF001


def _cull(
    layer: Any, wanted: set[Any], *, is_source: bool
) -> tuple[Layer, Mapping[Any, AbstractSet[Any]]]:
    """Return the tasks of a layer that are wanted, and what each depends on."""
    if is_source or isinstance(layer, Blockwise):
        known = () if isinstance(layer, Blockwise) else layer.keys()
        culled: tuple[Layer, Any] = layer.cull(wanted, known)
        return culled
    tasks, left = {}, [key for key in wanted if key in layer]
    while left:
        key = left.pop()
        tasks[key] = layer[key]
        left.extend(other for other in tasks[key].dependencies if other in layer)
    return MaterializedLayer(tasks), {key: task.dependencies for key, task in tasks.items()}


class GridSlices(BlockwiseDep):
    """The slices of each block of a regular grid, computed on access.

    >>> GridSlices((10, 4), (4, 4))[2, 0]
    (slice(8, 10, None), slice(0, 4, None))
    """

    produces_tasks = False

    def __init__(self, shape: tuple[int, ...], sides: tuple[int, ...]) -> None:
        self.shape, self.sides = shape, sides
        self.numblocks = tuple(
            max(1, -(-size // max(1, side))) for size, side in zip(shape, sides, strict=True)
        )

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of the blocks along each axis."""
        return tuple(
            tuple(min(size, (i + 1) * side) - i * side for i in range(count))
            for size, side, count in zip(self.shape, self.sides, self.numblocks, strict=True)
        )

    def __getitem__(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        return tuple(
            slice(i * side, min(size, (i + 1) * side))
            for i, size, side in zip(index, self.shape, self.sides, strict=True)
        )


def side_of(sizes: tuple[int, ...]) -> int | None:
    """Return the size of equal blocks, the last of which may be smaller; otherwise None.

    >>> side_of((4, 4, 3)), side_of((4, 3, 4))
    (4, None)
    """
    first, last = sizes[0], sizes[-1]
    same = sizes.count(first) + (last < first)
    return first if same == len(sizes) else None


def spell(chunks: Sequence[tuple[int, ...]]) -> tuple[int | tuple[int, ...], ...]:
    """Return the sizes of blocks along each axis, as one number if they are regular.

    >>> spell([(4, 4, 3), (4, 3, 4)])
    (4, (4, 3, 4))
    """
    return tuple(sizes if (side := side_of(sizes)) is None else side for sizes in chunks)


def slices_of(chunks: tuple[tuple[int, ...], ...]) -> BlockwiseDep:
    """Return the slices of each block, which Dask passes to the block's task."""
    sides = [side for sizes in chunks if (side := side_of(sizes)) is not None]
    if len(sides) < len(chunks):
        return ArraySliceDep(chunks)
    # The last block may be smaller.
    shape = [(len(c) - 1) * side + c[-1] for c, side in zip(chunks, sides, strict=True)]
    return GridSlices(tuple(shape), tuple(sides))


def in_one_layer(
    name: str,
    read: Callable[..., Any],
    source: object,
    where: BlockwiseDep,
    chunks: tuple[tuple[int, ...], ...],
    dtype: DTypeLike,
    meta: np.ndarray | None = None,
    *,
    inline: bool = True,
    **options: Any,
) -> Array:
    """Return an array with one task per block, ``read(source, where[index])``.

    Each task holds the source, unless it is large: then it is a task of its own (not `inline`).

    Schedulers treat it like Dask's own data sources: tasks start only when threads are free.
    """
    axes = tuple(range(len(chunks)))
    origin = f"original-{name}"
    arguments: Any = (source if inline else TaskRef(origin), None, where, axes)
    layer: Any = blockwise(
        read, name, axes, *arguments, numblocks={}, _data_producer=True, **options
    )
    if inline:
        graph = HighLevelGraph.from_collections(name, layer, dependencies=())
    else:
        layers = {origin: MaterializedLayer({origin: source}), name: layer}
        graph = HighLevelGraph(layers, {origin: set(), name: {origin}})
    meta = np.empty((0,) * len(chunks), dtype) if meta is None else meta
    return Array(graph, name, chunks, meta=meta)


def label(verb: str, name: str) -> str:
    """Return a name for the tasks of an array; Dask displays it up to the first hyphen.

    The query of a URL is omitted, because it may be secret.

    >>> label("from_n5", "em-2?token=hush")
    'from_n5_em_2'
    """
    shown = re.sub(r"\W+", "_", re.split("[?#]", name)[0])
    return f"{verb}_{shown[:_LETTERS]}".rstrip("_")


class DelayedReport(Delayed):
    """The delayed report of a write, optimised like arrays, so that blocks fuse."""

    __slots__ = ()
    __dask_optimize__ = staticmethod(Array.__dask_optimize__)

    def __reduce__(self) -> tuple[Any, ...]:
        return DelayedReport, (self.key, self.dask)


class TreeReduction(Layer):
    """Tasks that merge the results of an array's blocks into one.

    Parameters
    ----------
    name
        The key of the last task.
    source
        The name of the array.
    counts
        The number of blocks along each axis.
    chosen
        The indices of the blocks to compute; None for all.
    merge, last
        Functions that merge a list of results: for all tasks but the last, and for the last.
    """

    def __init__(
        self,
        name: str,
        source: str,
        counts: tuple[int, ...],
        chosen: Sequence[tuple[int, ...]] | None,
        merge: Callable[[list[Any]], Any],
        last: Callable[[list[Any]], Any],
    ) -> None:
        super().__init__()
        self.name, self.source, self.counts, self.chosen = name, source, counts, chosen
        self.merge, self.last = merge, last

    def is_materialized(self) -> bool:
        """Return whether the tasks have been built."""
        return "tasks" in self.__dict__

    def get_output_keys(self) -> AbstractSet[Any]:
        """Return the key of the last task."""
        return {self.name}

    @cached_property
    def tasks(self) -> dict[Any, Any]:
        """All tasks by key."""
        chosen = product(*map(range, self.counts)) if self.chosen is None else self.chosen
        keys: list[Any] = [(self.source, *index) for index in chosen]
        made: dict[Any, Any] = {}
        level = 0
        while len(keys) > _MANY:
            parts = [keys[start : start + _MANY] for start in range(0, len(keys), _MANY)]
            keys = [(f"merge-{self.name}", level, number) for number in range(len(parts))]
            made |= {key: (self.merge, part) for key, part in zip(keys, parts, strict=True)}
            level += 1
        return made | {self.name: (self.last, keys)}

    def get_dependencies(self, key: Any, all_hlg_keys: Collection[Any]) -> set[Any]:  # noqa: ARG002
        """Return the keys that a task depends on."""
        return set(self.tasks[key][1])

    def __getitem__(self, key: Any) -> Any:
        return self.tasks[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


def tree_reduce(
    source: Array,
    chosen: Sequence[tuple[int, ...]] | None,
    merge: Callable[[list[Any]], Any],
    last: Callable[[list[Any]], Any],
    name: str,
) -> DelayedReport:
    """Return `last` of the merged results of all blocks, delayed."""
    layer = TreeReduction(name, source.name, source.numblocks, chosen, merge, last)
    return _delayed(name, layer, [source])


def reduce_all(
    parts: Iterable[Delayed], last: Callable[[list[Any]], Any], name: str
) -> DelayedReport:
    """Return `last` of a list of delayed results, delayed."""
    several = list(parts)
    return _delayed(name, {name: (last, [part.key for part in several])}, several)


def _delayed(name: str, layer: Any, sources: Any) -> DelayedReport:
    graph = HighLevelGraph.from_collections(name, layer, dependencies=sources)
    return DelayedReport(name, graph)  # type: ignore[no-untyped-call]
