"""Dask graphs that end in one task: symbolic until they are computed, and then nearly flat."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import dask.array as da
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph, Layer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

_MANY = 1000
"""How many results one task takes: few tasks more, and a lost worker takes few along."""


class Written(Delayed):
    """What computes to what a write returns; optimised as arrays are, so that blocks fuse."""

    __slots__ = ()
    __dask_optimize__ = staticmethod(da.Array.__dask_optimize__)


class Gathering(Layer):
    """Tasks that make one of the results of an array's blocks.

    Parameters
    ----------
    name
        The key of the last task.
    source
        The name of the array.
    counts
        The numbers of its blocks.
    chosen
        The blocks that count; None for all.
    merge, last
        What makes one of several results, and the end of what is left.
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
        """Return whether the tasks have been made."""
        return "tasks" in self.__dict__

    def get_output_keys(self) -> AbstractSet[Any]:
        """Return the key of the last task."""
        return {self.name}

    @cached_property
    def tasks(self) -> dict[Any, Any]:
        """All tasks, by their keys."""
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
        """Return the keys of what a task takes: its own tasks' are known to nobody else."""
        return set(self.tasks[key][1])

    def __getitem__(self, key: Any) -> Any:
        return self.tasks[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


def gather(
    source: da.Array,
    chosen: Sequence[tuple[int, ...]] | None,
    merge: Callable[[list[Any]], Any],
    last: Callable[[list[Any]], Any],
    name: str,
) -> Written:
    """Return what computes blocks, all of them or some, and then `last` of their results."""
    layer = Gathering(name, source.name, source.numblocks, chosen, merge, last)
    return _written(name, layer, [source])


def gather_all(parts: Iterable[Delayed], last: Callable[[list[Any]], Any], name: str) -> Written:
    """Return what computes several, in one computation, and then `last` of their results."""
    several = list(parts)
    return _written(name, {name: (last, [part.key for part in several])}, several)


def _written(name: str, layer: Any, sources: Any) -> Written:
    graph = HighLevelGraph.from_collections(name, layer, dependencies=sources)
    return Written(name, graph)  # type: ignore[no-untyped-call]
