"""Check the target of a copy: existing nodes, and copies that are complete."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.arrays.elements import same_bits
from xarray_n5.arrays.marker import REPAIRED, unfinished_writes
from xarray_n5.arrays.open import open_array
from xarray_n5.arrays.overwrite import OTHER_UNFINISHED, check_not_array, hint_of
from xarray_n5.arrays.spec import ArraySpec
from xarray_n5.datasets.overwrite import find_group
from xarray_n5.errors import N5Error, NodeExistsError
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.writing.finish import report_of
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.resume import all_done
from xarray_n5.writing.self_reads import check_independent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.copying.array_copy import ArrayCopy
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import WriteOptions


@dataclass(frozen=True, slots=True)
class CopyTarget:
    """The location in a container that a copy is written to."""

    how: WriteOptions
    path: str
    compares: bool = False
    """Whether all values of a finished copy are compared with the source anyway."""

    def request(self, inner: str, copy: ArrayCopy) -> WriteRequest:
        """Return the request to write an array of the copy."""
        metadata = copy.metadata
        spec = ArraySpec(
            path=join(self.path, inner),
            mode="w" if self.how.mode == "w" else "w-",
            chunks=metadata.inner or metadata.chunks,
            shards=metadata.chunks if metadata.inner else None,
            compression=metadata.compression,
            attributes=metadata.attributes,
            layout=copy.layout,
        )
        return WriteRequest.of(
            copy.data, spec, replace(self.how, write_empty_chunks=not copy.sparse)
        )

    def plan(
        self, copies: Mapping[str, ArrayCopy], groups: Collection[str], *, resumes: bool
    ) -> dict[str, WritePlan]:
        """Return the checked writes of the arrays by their paths in the copy.

        Raises
        ------
        NodeExistsError
            If a node must stay, or an array that would be replaced is read by the copy.
        ResumeError
            If another write into an array is unfinished.
        """
        self._check_group(resumes=resumes)
        existing = self._existing_arrays(groups, copies)
        plans = {inner: plan_write(self.request(inner, each)) for inner, each in copies.items()}
        replaced = [
            self.how.container.identity(plan.request.path)
            for plan in plans.values()
            if not plan.resumed and plan.request.path in existing
        ]
        for each in copies.values() if replaced else ():
            check_independent(each.data, replaced)
        return plans

    def incomplete(self, copies: Mapping[str, ArrayCopy]) -> list[str]:
        """Return the arrays that differ from the copy, by their paths in it.

        For each array, one block in the middle is compared: comparing all takes as long as copying.
        If that is done later, it reports any difference.
        """
        if unfinished_writes(self.how.store, self.path) and "" not in copies:
            return list(copies)
        return [inner for inner, each in copies.items() if not self._is_complete(inner, each)]

    def reports(self, copies: Mapping[str, ArrayCopy]) -> dict[str, xr.Dataset]:
        """Return the reports of the arrays of a complete copy; nothing is written."""
        again = replace(self, how=replace(self.how, mode="w", resume=False))
        writes = {i: plan_write(again.request(i, each)).write for i, each in copies.items()}
        return {inner: report_of(all_done(write), write) for inner, write in writes.items()}

    def is_repaired(self, inner: str, copy: ArrayCopy) -> bool:
        """Return whether an array lacks only chunks that :func:`repair` removed."""
        array = self._copied(inner, copy)
        left = () if array is None else unfinished_writes(array.node.store, array.path)
        return bool(left) and all(each.token == REPAIRED for each in left)

    def _is_complete(self, inner: str, copy: ArrayCopy) -> bool:
        array = self._copied(inner, copy)
        if array is None or unfinished_writes(array.node.store, array.path):
            return False
        count = 0 if copy.sparse else sum(1 for _ in array.node.stored_chunks())
        if not copy.sparse and count != array.grid.size:
            return False
        return self.compares or _is_same(copy, array)

    def _copied(self, inner: str, copy: ArrayCopy) -> Array | None:
        """Return the array that exists, if its metadata are those of the copy."""
        try:
            array = open_array(self.how.container, join(self.path, inner), mode="r+")
        except N5Error:
            return None
        metadata, found = copy.metadata, array.node.metadata
        wanted = (metadata.shape, metadata.chunks, metadata.inner, metadata.dtype)
        return array if (found.shape, found.chunks, found.inner, found.dtype) == wanted else None

    def _check_group(self, *, resumes: bool) -> None:
        """Raise if the group of a copy cannot be created, or must not be changed."""
        group = find_group(self.path, self.how)
        if group is None or resumes or self.how.mode != "w-":
            return
        stopped = bool(unfinished_writes(self.how.store, self.path))
        hint = hint_of(
            "use mode='w' to replace it",
            resume=bool(self.how.resume),
            unfinished=stopped,
            what="copy",
            other=OTHER_UNFINISHED,
        )
        # An empty group may be the rest of a copy that was interrupted early.
        if stopped or group.attrs or self.how.container.occupant(self.path) is not None:
            container = self.how.container
            raise NodeExistsError(container.url, self.path, "a group that is not empty", hint)

    def _existing_arrays(self, groups: Collection[str], arrays: Collection[str]) -> set[str]:
        """Return the paths of arrays that exist; raise if the copy has a group there."""
        container, found = self.how.container, set()
        wanted = {join(self.path, inner) for inner in groups}
        for node in container.nodes([join(self.path, inner) for inner in (*groups, *arrays)]):
            if isinstance(node, N5Error):
                raise node
            if node.path in wanted:
                check_not_array(container, node)
            elif isinstance(node.metadata, ArrayMetadata):
                found.add(node.path)
        return found


def _is_same(copy: ArrayCopy, array: Array) -> bool:
    """Return whether a block in the middle of an array equals that of the copy."""
    at = [len(sizes) // 2 for sizes in copy.data.chunks]
    starts = [sum(sizes[:n]) for n, sizes in zip(at, copy.data.chunks, strict=True)]
    sides = [sizes[n] for n, sizes in zip(at, copy.data.chunks, strict=True)]
    box = tuple(slice(start, start + side) for start, side in zip(starts, sides, strict=True))
    return same_bits(np.asarray(copy.data[box].compute()), np.asarray(array[box]))
