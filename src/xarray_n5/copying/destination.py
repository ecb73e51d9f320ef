"""Where a copy goes: what is around it, and whether there is room."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.arrays.access import io_of, stored_chunks
from xarray_n5.arrays.marker import unfinished_writes
from xarray_n5.arrays.open import open_array
from xarray_n5.arrays.overwrite import check_alone, groups_around
from xarray_n5.copying.attributes import lists_of
from xarray_n5.errors import N5Error, NodeExistsError
from xarray_n5.formats.protocol import Node
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.paths import WRITING, join
from xarray_n5.writing.completed import NOT_UNFINISHED, OTHER_UNFINISHED
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.self_reads import check_independent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.copying.replica import Replica
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import WriteOptions


@dataclass(frozen=True, slots=True)
class Destination:
    """The path in a container that a copy is written to."""

    how: WriteOptions
    path: str

    @property
    def lists(self) -> str:
        """The order of lists of axes in the container."""
        return lists_of(self.how.container)

    def request(self, inner: str, made: Replica) -> WriteRequest:
        """Return the request to write an array of the copy."""
        return WriteRequest.of(
            made.data,
            join(self.path, inner),
            replace(self.how, write_empty_chunks=not made.holes),
            mode="w" if self.how.mode == "w" else "w-",
            chunks=made.metadata.chunks,
            compression=made.metadata.compression,
            attributes=made.metadata.attributes,
            layout=made.layout,
        )

    def around(self) -> list[Node]:
        """Return the groups around, the root first."""
        return groups_around(self.how.container, self.path)

    def plan(self, made: Mapping[str, Replica], groups: Collection[str]) -> dict[str, WritePlan]:
        """Return the checked writes of the arrays by their paths in the copy.

        Raises
        ------
        NodeExistsError
            If a node must stay, or an array that is replaced is still to be read.
        ResumeError
            If another write into an array is unfinished.
        """
        container = self.how.container
        arrays = self._arrays(join(self.path, inner) for inner in (*groups, *made))
        if taken := next((join(self.path, i) for i in groups if join(self.path, i) in arrays), ""):
            hint = "it cannot hold other nodes"
            raise NodeExistsError(container.url, taken, "an array", hint)
        plans = {inner: plan_write(self.request(inner, each)) for inner, each in made.items()}
        replaced = [
            container.identity(plan.request.path)
            for plan in plans.values()
            if not plan.resumed and plan.request.path in arrays
        ]
        for each in made.values() if replaced else ():
            check_independent(each.data, replaced)
        return plans

    def _nodes(self, paths: Iterable[str]) -> list[Node]:
        nodes = []
        for node in self.how.container.nodes(list(paths)):
            if not isinstance(node, Node):
                raise node
            nodes.append(node)
        return nodes

    def _arrays(self, paths: Iterable[str]) -> set[str]:
        """Return those of the paths at which arrays are."""
        nodes = self._nodes(paths)
        return {node.path for node in nodes if isinstance(node.metadata, ArrayMetadata)}

    def check_free(self, arrays: Collection[str], *, resuming: bool) -> None:
        """Raise where something is there that must stay."""
        container = self.how.container
        node = container.node(self.path)
        check_alone(container, [*self.around(), node])
        if resuming or self.how.mode == "w":
            return
        hidden, _ = self.how.store.list(self.path)
        stopped = any(name.startswith(WRITING) for name in hidden)
        hint = "use mode='w' to replace it"
        if stopped:
            hint = f"its copy has not ended: go on with resume=True, or {hint}"
        if self.how.resume:
            hint = OTHER_UNFINISHED if stopped else NOT_UNFINISHED
        found = node.metadata
        # A group without anything in it may be what a copy left that was stopped at once.
        taken = stopped or not isinstance(found, GroupMetadata) or found.attributes
        if self.how.mode == "w-" and (taken or container.occupant(self.path) is not None):
            kind = "a group that is not empty" if isinstance(found, GroupMetadata) else "an array"
            raise NodeExistsError(container.url, self.path, kind, hint)
        for inner in self._nodes(join(self.path, inner) for inner in arrays):
            if inner.described:
                raise NodeExistsError(container.url, inner.path, "a node", hint)

    def has_all(self, made: Mapping[str, Replica]) -> bool:
        """Return whether the arrays of a copy are there, and nothing of it is left to be written.

        Of what an array holds, a block in the middle is compared: all takes as long as the copy.
        """
        if not made or unfinished_writes(self.how.store, self.path):
            return False
        for inner, each in made.items():
            try:
                path = join(self.path, inner)
                there = open_array(self.how.container, path, mode="r+", format=self.how.format.name)
            except N5Error:
                return False
            wanted = (each.metadata.shape, each.metadata.chunks, each.metadata.dtype)
            same = (there.shape, there.chunks, there.dtype) == wanted
            if not same or not is_written(there, holes=each.holes) or not _alike(each, there):
                return False
        return True


def is_written(array: Array, *, holes: bool = False) -> bool:
    """Return whether no write into an array is unfinished and, without holes, no chunk missing."""
    if unfinished_writes(io_of(array).store, array.path):
        return False
    return holes or sum(1 for _ in stored_chunks(array)) == array.grid.size


def _alike(made: Replica, there: Array) -> bool:
    """Return whether a block in the middle of an array is that of the copy."""
    at = [len(sizes) // 2 for sizes in made.data.chunks]
    starts = [sum(sizes[:n]) for n, sizes in zip(at, made.data.chunks, strict=True)]
    sides = [sizes[n] for n, sizes in zip(at, made.data.chunks, strict=True)]
    box = tuple(slice(start, start + side) for start, side in zip(starts, sides, strict=True))
    one, other = made.data[box].compute(), there[box]
    if one.dtype.hasobject:
        return bool((one == other).all())
    return bool(np.asarray(one).tobytes() == np.asarray(other).astype(one.dtype).tobytes())
