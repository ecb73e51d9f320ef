"""The overwrite policy: whether a node may be created, and what it replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xarray_n5.arrays.attributes import attributes_of
from xarray_n5.arrays.structure import settle
from xarray_n5.arrays.write_axes import forget_image, other_images
from xarray_n5.errors import NodeExistsError
from xarray_n5.formats.keyed import (
    FOREIGN,
    complete_documents,
    delete_node,
    get_all_documents,
    get_documents,
    where,
)
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.paths import WRITING, is_left, is_own, join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.stores.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """A new node for which there is room: what is removed, and the groups around it.

    Nothing has been written.
    """

    store: Store
    path: str
    format: KeyedFormat
    before: Documents
    """The node's documents so far."""
    groups: Mapping[str, Documents]
    """The groups around the node and their documents, the root first."""
    removes: bool
    """Whether a node, or what a stopped replacement left of one, is removed."""
    fresh: bool
    """Whether the container is new."""

    def make_room(self) -> Documents:
        """Remove what is replaced, complete the groups around; return the node's documents."""
        if self.removes:
            delete_node(self.store, self.path, self.format)
        for group, documents in self.groups.items():
            fresh = self.fresh and not group
            complete_documents(self.store, group, self.format, documents, fresh=fresh)
        if not self.path:
            at = where(self.store, "", self.format)
            return {**self.before, **self.format.above(self.before, at, fresh=self.fresh)}
        parent = self.path.rpartition("/")[0]
        at = where(self.store, parent, self.format)
        attributes = self.format.as_group(self.groups[parent], at).attributes
        if other_images(attributes, self.path) is not None:
            forget_image(attributes_of(self.store, parent, self.format), self.path)
        return {}


def check_overwrite(
    store: Store,
    path: str,
    form: KeyedFormat,
    before: Documents,
    replacement: ArrayMetadata | None = None,
) -> Overwrite:
    """Check that a node may be created; nothing is written.

    Parameters
    ----------
    store, path, form, before
        The node and its documents so far.
    replacement
        The array that replaces another one. Only with it may an array be removed, or the chunks
        that a stopped replacement left.

    Raises
    ------
    NodeExistsError
        If there is anything that must stay.
    """
    groups = _ancestors(store, path, form)
    found = form.read(before, where(store, path, form))
    if replacement is None:
        found = settle(store, path, form, before, found)
    if isinstance(found, ArrayMetadata) and replacement is None:
        hint = "use mode='w' to replace it"
        if _has_mark(store, path):
            hint = f"its write has not ended: go on with resume=True, or {hint}"
        raise NodeExistsError(store.url, path, "an array", hint)
    half = isinstance(found, GroupMetadata) and _is_half_made(store, path, before)
    if isinstance(found, GroupMetadata) and found.attributes and not half:
        hint = f"its attributes are {list(found.attributes)}; delete it, or choose another path"
        raise NodeExistsError(store.url, path, "a group that is not empty", hint)
    arrays = [node for node in (found, replacement) if isinstance(node, ArrayMetadata)]
    other = next(_others(store, path, form, arrays), None)
    if other is not None:
        hint = f"it holds {other!r}; delete it first, or choose another path in the container"
        kind = "an array with more in it" if arrays[:1] == [found] else "a group that is not empty"
        raise NodeExistsError(store.url, path, kind, hint)
    check_alone(store, {**groups, path: before}, form)
    root = next(iter(groups.values()), before)
    return Overwrite(
        store=store,
        path=path,
        format=form,
        before=before,
        groups=groups,
        removes=replacement is not None and (bool(before) or store.is_folder(path)),
        fresh=not root and _is_empty(store),
    )


def _is_empty(store: Store) -> bool:
    """Return whether a container holds nothing but hidden files: markers, and what writes left."""
    return all(name.startswith(".") for names in store.list("") for name in names)


def complete_group(store: Store, path: str, form: KeyedFormat, before: Documents) -> None:
    """Write the documents that a directory and those around it lack to be groups.

    Raises
    ------
    NodeExistsError
        If one of them is an array, or a node of another format.
    """
    groups = {**_ancestors(store, path, form), path: before}
    check_alone(store, groups, form)
    for group, documents in groups.items():
        complete_documents(store, group, form, documents, fresh=False)


def check_alone(store: Store, groups: Mapping[str, Documents], form: KeyedFormat) -> None:
    """Raise where a directory without documents of the format is a node of another one.

    N5 takes any directory for a group. What it writes into another container would hide that.

    Raises
    ------
    NodeExistsError
        Naming the directory.
    """
    names = sorted(FOREIGN.difference(form.documents))
    bare = [path for path, documents in groups.items() if not documents]
    if not bare or form.name not in store.formats or len(store.formats) == 1:
        return  # one file holds one format
    keys = [(path, name) for path in bare for name in names]
    found = store.get_many([join(*key) for key in keys])
    for (path, name), document in zip(keys, found, strict=True):
        if document is not None:
            what = f"it has {name}; choose another place, or write what is there already"
            raise NodeExistsError(store.url, path, "another format", what)


def is_left_over(store: Store, path: str, form: KeyedFormat, planned: ArrayMetadata | None) -> bool:
    """Return whether nothing is at a node but what a stopped write left of an array."""
    if (documents := get_documents(store, path, form)) and not _is_half_made(
        store, path, documents
    ):
        return False
    arrays = [] if planned is None else [planned]
    return next(_others(store, path, form, arrays), None) is None


def _is_half_made(store: Store, path: str, documents: Documents) -> bool:
    """Return whether a write was stopped before it wrote the document that makes a node.

    Zarr's attributes are written before that. Nothing but the mark of the write is beside them.
    """
    if not documents or not documents.keys() <= {".zattrs"}:
        return False
    return _has_mark(store, path)


def _has_mark(store: Store, path: str) -> bool:
    """Return whether the mark of a write lies beside a node; one listing."""
    return any(name.startswith(WRITING) for name in store.list(path)[0])


def foreign_key(array: Array) -> str | None:
    """Return the first key in an array's directory that is not its own, or None."""
    chunks = array._chunks  # noqa: SLF001 - the array as it is stored
    return next(_others(chunks.store, chunks.path, chunks.format, [chunks.metadata]), None)


def _others(
    store: Store, path: str, form: KeyedFormat, arrays: Sequence[ArrayMetadata]
) -> Iterator[str]:
    """Iterate over what is at a node and must stay.

    Beside new nodes hidden files may lie. Where `arrays` are removed, everything with them is:
    all but their document, their chunks, what is kept of writes, and what those left must stay.
    """
    if not arrays:
        folders, files = store.list(path)
        for name in (*folders, *files):
            foreign = name in FOREIGN and name not in form.documents
            if foreign or not (name.startswith(".") or name in form.documents):
                yield name
        return
    for name in store.walk(path):
        chunk = any(form.chunk_index(array, name) is not None for array in arrays)
        if not (chunk or is_left(name) or is_own(name) or name in form.documents):
            yield name


def _ancestors(store: Store, path: str, form: KeyedFormat) -> dict[str, Documents]:
    """Return the documents of the groups around, the root's first; raise where one is an array."""
    parts = path.split("/") if path else []
    paths = ["/".join(parts[:depth]) for depth in range(len(parts))]
    above = dict(zip(paths, get_all_documents(store, paths, form), strict=True))
    for parent, documents in above.items():
        found = form.read(documents, where(store, parent, form))
        if isinstance(settle(store, parent, form, documents, found), ArrayMetadata):
            raise NodeExistsError(store.url, parent, "an array", "it cannot hold other nodes")
    return above
