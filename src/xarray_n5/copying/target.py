"""Check the target of a copy: existing nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.overwrite import check_not_array, check_removable, hint_of
from xarray_n5.arrays.records import look
from xarray_n5.arrays.spec import ArraySpec
from xarray_n5.datasets.overwrite import find_group
from xarray_n5.errors import N5Error, NodeExistsError, RefusedError
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.writing.request import WriteRequest, short_hash
from xarray_n5.writing.self_reads import check_independent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.copying.array_copy import ArrayCopy
    from xarray_n5.writing.options import WriteOptions


@dataclass(frozen=True, slots=True)
class CopyTarget:
    """The location in a container that a copy is written to."""

    how: WriteOptions
    path: str

    def request(self, inner: str, copy: ArrayCopy, source: Array | None) -> WriteRequest:
        """Return the request to write an array of the copy, which refuses a changed `source`."""
        metadata = copy.metadata
        spec = ArraySpec(
            path=join(self.path, inner),
            mode="w-" if self.how.mode == "w-" else "w",
            chunks=metadata.inner or metadata.chunks,
            shards=metadata.chunks if metadata.inner else None,
            compression=metadata.compression,
            attributes=metadata.attributes,
            layout=copy.layout,
        )
        return WriteRequest.of(
            copy.data,
            spec,
            replace(self.how, write_empty_chunks=not copy.sparse),
            source_state="" if source is None else _state_of(source),
        )

    def placed(self, inner: str, request: WriteRequest, source: Array | None) -> WriteRequest:
        """Return the request to write a variable, which refuses a changed `source`."""
        state = "" if source is None else _state_of(source)
        spec = replace(request.spec, path=join(self.path, inner))
        return replace(request, spec=spec, source_state=state)

    def check(
        self, requests: Mapping[str, WriteRequest], groups: Collection[str], *, resumes: bool
    ) -> None:
        """Raise if a node must stay, or if an array that would be replaced is read by the copy.

        Raises
        ------
        NodeExistsError
            If there is one.
        """
        self._check_group(resumes=resumes)
        existing = self._existing_arrays(groups, requests)
        others = {array.path: array.node for array in self._others(groups, requests)}
        check_removable(self.how.container.url, others)
        if not resumes and self.how.mode != "w-":
            paths = sorted(existing.union(others))
            replaced = [self.how.container.identity(path) for path in paths]
            for request in requests.values() if replaced else ():
                check_independent(request.source, replaced)

    def prepare(self, groups: Collection[str], arrays: Collection[str]) -> None:
        """Create the group of a copy, and remove what mode "w" removes from those in it."""
        others = self._others(groups, arrays)
        for array in others:
            self.how.container.delete(array.path)
        create_group(self.how.container, self.path, mode="a")
        for inner in groups if self.how.mode == "w" else ():
            if (group := find_group(join(self.path, inner), self.how)) is not None:
                group.attrs.clear()

    def _others(self, groups: Collection[str], arrays: Collection[str]) -> list[Array]:
        """Return the arrays of the groups that mode "w" removes, since the copy has none there."""
        found = []
        for inner in groups if self.how.mode == "w" else ():
            group = find_group(join(self.path, inner), self.how)
            existing = {} if group is None else group.arrays()
            found += [each for name, each in existing.items() if join(inner, name) not in arrays]
        return found

    def _check_group(self, *, resumes: bool) -> None:
        """Raise if the group of a copy cannot be created, or must not be changed."""
        group = find_group(self.path, self.how)
        if group is None or resumes or self.how.mode != "w-":
            return
        hint = hint_of(
            "use mode='w' to replace it",
            resume=bool(self.how.resume),
            unfinished=bool(look(self.how.store, self.path).opens),
        )
        # An empty group may be the rest of a copy that was interrupted early.
        if group.attrs or self.how.container.occupant(self.path) is not None:
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


def _state_of(array: Array) -> str:
    """Return a hash of the sizes and times of stored chunks; "" where they cannot be listed."""
    node, store, state = array.node, array.node.store, blake2b(digest_size=8)
    if node.format.one_writer:
        return short_hash(node.etag())
    try:
        for key, size, time in sorted(store.list_info(node.path)):
            if not key.startswith(f"{HIDDEN}/"):
                written = store.etag(join(node.path, key)) if time is None else time
                state.update(repr((key, size, written)).encode())
    except RefusedError:
        return ""
    return state.hexdigest()
