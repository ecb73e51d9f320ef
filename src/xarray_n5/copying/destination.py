"""Where a copy goes: what is around it, and whether there is room."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.arrays.group import open_array
from xarray_n5.arrays.marker import unfinished_writes
from xarray_n5.arrays.overwrite import check_alone
from xarray_n5.arrays.structure import settle
from xarray_n5.errors import N5Error, NodeExistsError
from xarray_n5.formats.keyed import get_all_documents, get_documents, where
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.paths import WRITING, join
from xarray_n5.writing.completed import NOT_UNFINISHED, OTHER_UNFINISHED
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.self_reads import check_independent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.copying.replica import Replica
    from xarray_n5.formats.protocol import Documents
    from xarray_n5.model.metadata import Metadata
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
        how = self.how
        return how.form.lists(lambda: get_documents(how.store, "", how.form))

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

    def around(self) -> dict[str, Documents]:
        """Return the documents of the groups around, the root's first."""
        parts = self.path.split("/") if self.path else []
        paths = ["/".join(parts[:depth]) for depth in range(len(parts))]
        return dict(
            zip(paths, get_all_documents(self.how.store, paths, self.how.form), strict=True)
        )

    def plan(self, made: Mapping[str, Replica], groups: Collection[str]) -> dict[str, WritePlan]:
        """Return the checked writes of the arrays by their paths in the copy.

        Raises
        ------
        NodeExistsError
            If a node must stay, or an array that is replaced is still to be read.
        ResumeError
            If another write into an array is unfinished.
        """
        store, form = self.how.store, self.how.form
        paths = [join(self.path, inner) for inner in (*groups, *made)]
        several = get_all_documents(store, paths, form)
        there = dict(zip(paths, several, strict=True))
        for inner in groups:
            path = join(self.path, inner)
            if self._is_array(path, there[path]):
                hint = "it cannot hold other nodes"
                raise NodeExistsError(store.url, path, "an array", hint)
        plans = {inner: plan_write(self.request(inner, each)) for inner, each in made.items()}
        replaced = [
            store.identity(plan.request.path)
            for plan in plans.values()
            if not plan.resumed and self._is_array(plan.request.path, there[plan.request.path])
        ]
        for each in made.values() if replaced else ():
            check_independent(each.data, replaced)
        return plans

    def _is_array(self, path: str, documents: Documents) -> bool:
        return isinstance(self._found(path, documents), ArrayMetadata)

    def _found(self, path: str, documents: Documents) -> Metadata:
        metadata = self.how.form.read(documents, where(self.how.store, path, self.how.form))
        return settle(self.how.store, path, self.how.form, documents, metadata)

    def check_free(self, arrays: Collection[str], *, resuming: bool) -> None:
        """Raise where something is there that must stay."""
        documents = get_documents(self.how.store, self.path, self.how.form)
        check_alone(self.how.store, {**self.around(), self.path: documents}, self.how.form)
        if resuming or self.how.mode == "w":
            return
        folders, _ = self.how.store.list(self.path)
        stopped = any(name.startswith(WRITING) for name in folders)
        hint = "use mode='w' to replace it"
        if stopped:
            hint = f"its copy has not ended: go on with resume=True, or {hint}"
        if self.how.resume:
            hint = OTHER_UNFINISHED if stopped else NOT_UNFINISHED
        found = self._found(self.path, documents)
        # A group without anything in it may be what a copy left that was stopped at once.
        taken = folders or not isinstance(found, GroupMetadata) or found.attributes
        if self.how.mode == "w-" and taken:
            kind = "a group that is not empty" if isinstance(found, GroupMetadata) else "an array"
            raise NodeExistsError(self.how.store.url, self.path, kind, hint)
        paths = [join(self.path, inner) for inner in arrays]
        for path, there in zip(
            paths, get_all_documents(self.how.store, paths, self.how.form), strict=True
        ):
            if there:
                raise NodeExistsError(self.how.store.url, path, "a node", hint)

    def has_all(self, made: Mapping[str, Replica]) -> bool:
        """Return whether the arrays of a copy are there, and nothing of it is left to be written.

        Of what an array holds, a block in the middle is compared: all takes as long as the copy.
        """
        if not made or unfinished_writes(self.how.store, self.path):
            return False
        for inner, each in made.items():
            try:
                path = join(self.path, inner)
                there = open_array(self.how.store, path, mode="r+", format=self.how.form.name)
            except N5Error:
                return False
            wanted = (each.metadata.shape, each.metadata.chunks, each.metadata.dtype)
            same = (there.shape, there.chunks, there.dtype) == wanted
            if not same or not is_written(there, holes=each.holes) or not _alike(each, there):
                return False
        return True


def is_written(array: Array, *, holes: bool = False) -> bool:
    """Return whether no write into an array is unfinished and, without holes, no chunk missing."""
    if unfinished_writes(array.container, array.path):
        return False
    return holes or sum(1 for _ in array.stored_chunks()) == array.grid.size


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
