"""Where a copy goes: what is around it, and whether there is room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.arrays.group import open_array
from xarray_n5.arrays.marker import all_markers
from xarray_n5.arrays.overwrite import check_alone, check_overwrite
from xarray_n5.arrays.structure import settle
from xarray_n5.errors import N5Error, NodeExistsError
from xarray_n5.formats.keyed import get_all_documents, get_documents, where
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.paths import WRITING, join
from xarray_n5.writing.finished import NOT_UNFINISHED, OTHER_UNFINISHED
from xarray_n5.writing.plan import start
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.self_reads import check_independent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.copying.replica import Replica
    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.model.metadata import Metadata
    from xarray_n5.stores.protocol import Store


@dataclass(frozen=True, slots=True)
class Destination:
    """A place in a container, and what may be done there."""

    store: Store
    form: KeyedFormat
    path: str
    mode: str
    resume: bool

    @property
    def lists(self) -> str:
        """As in which format lists of axes stand."""
        return self.form.lists(lambda: get_documents(self.store, "", self.form))

    @property
    def place(self) -> tuple[Store, str]:
        """The container, and the path in it."""
        return self.store, self.path

    def order(self, made: Replica) -> WriteRequest:
        """Return what is asked for of an array."""
        return WriteRequest(
            mode="w" if self.mode == "w" else "w-",
            chunks=made.metadata.chunks,
            compression=made.metadata.compression,
            attributes=made.metadata.attributes,
            layout=made.layout,
            write_empty_chunks=not made.holes,
            format=self.form.name,
            resume=self.resume,
        )

    def around(self) -> dict[str, Documents]:
        """Return the documents of the groups around, the root's first."""
        parts = self.path.split("/") if self.path else []
        paths = ["/".join(parts[:depth]) for depth in range(len(parts))]
        return dict(zip(paths, get_all_documents(self.store, paths, self.form), strict=True))

    def check_room(self, made: Mapping[str, Replica], groups: Collection[str]) -> None:
        """Raise where a node cannot be made, or where what is replaced is still to be read.

        Raises
        ------
        NodeExistsError
            If there is what must stay.
        ResumeError
            If another write into an array has begun and not ended.
        """
        paths = [join(self.path, inner) for inner in (*groups, *made)]
        several = get_all_documents(self.store, paths, self.form)
        there = dict(zip(paths, several, strict=True))
        for inner in groups:
            path = join(self.path, inner)
            if self._is_array(path, there[path]):
                hint = "it cannot hold other nodes"
                raise NodeExistsError(self.store.url, path, "an array", hint)
        replaced = []
        for inner, each in made.items():
            path = join(self.path, inner)
            if self._is_array(path, there[path]):
                if self._goes_on(path, each):
                    continue
                replaced.append(self.store.identity(path))
            replacement = each.metadata if self.mode == "w" else None
            check_overwrite(self.store, path, self.form, there[path], replacement)
        for each in made.values() if replaced else ():
            check_independent(each.data, replaced)

    def _is_array(self, path: str, documents: Documents) -> bool:
        return isinstance(self._found(path, documents), ArrayMetadata)

    def _found(self, path: str, documents: Documents) -> Metadata:
        metadata = self.form.read(documents, where(self.store, path, self.form))
        return settle(self.store, path, self.form, documents, metadata)

    def _goes_on(self, path: str, made: Replica) -> bool:
        """Return whether the copy of an array has begun; raise where another write has."""
        if not self.resume:
            return False
        begun = start(made.data, self.store, path, self.order(made), computed=True, only_check=True)
        return begun.write is not None

    def check_free(self, arrays: Collection[str], *, resuming: bool) -> None:
        """Raise where something is there that must stay."""
        documents = get_documents(self.store, self.path, self.form)
        check_alone(self.store, {**self.around(), self.path: documents}, self.form)
        if resuming or self.mode == "w":
            return
        folders, _ = self.store.list(self.path)
        stopped = any(name.startswith(WRITING) for name in folders)
        hint = "use mode='w' to replace it"
        if stopped:
            hint = f"its copy has not ended: go on with resume=True, or {hint}"
        if self.resume:
            hint = OTHER_UNFINISHED if stopped else NOT_UNFINISHED
        found = self._found(self.path, documents)
        # A group without anything in it may be what a copy left that was stopped at once.
        taken = folders or not isinstance(found, GroupMetadata) or found.attributes
        if self.mode == "w-" and taken:
            kind = "a group that is not empty" if isinstance(found, GroupMetadata) else "an array"
            raise NodeExistsError(self.store.url, self.path, kind, hint)
        paths = [join(self.path, inner) for inner in arrays]
        for path, there in zip(paths, get_all_documents(self.store, paths, self.form), strict=True):
            if there:
                raise NodeExistsError(self.store.url, path, "a node", hint)

    def has_all(self, made: Mapping[str, Replica]) -> bool:
        """Return whether the arrays of a copy are there, and nothing of it is left to be written.

        Of what an array holds, a block in the middle is compared: all takes as long as the copy.
        """
        if not made or all_markers(self.store, self.path):
            return False
        for inner, each in made.items():
            try:
                path = join(self.path, inner)
                there = open_array(self.store, path, mode="r+", format=self.form.name)
            except N5Error:
                return False
            wanted = (each.metadata.shape, each.metadata.chunks, each.metadata.dtype)
            same = (there.shape, there.chunks, there.dtype) == wanted
            if not same or not is_written(there, holes=each.holes) or not _alike(each, there):
                return False
        return True


def is_written(array: Array, *, holes: bool = False) -> bool:
    """Return whether no write into an array is unfinished and, without holes, no chunk missing."""
    if all_markers(array.container, array.path):
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
