"""A node's documents, read and written together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from xarray_n5.alerts import ODD, warn
from xarray_n5.errors import UnsafePathError
from xarray_n5.parsing import parse_object
from xarray_n5.paths import join

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from xarray_n5.formats import Documents, Format
    from xarray_n5.storage import Store

_ALL = ".zmetadata"
"""The document of a Zarr group that repeats all others below it."""

_MOST_BYTES = 1 << 28
"""The largest of such documents."""

_CONSOLIDATED = frozenset({".zarray", ".zgroup", ".zattrs"})


def get_documents(store: Store, path: str, form: Format) -> Documents:
    """Return the documents of one node."""
    return get_all_documents(store, [path], form)[0]


def get_all_documents(store: Store, paths: Sequence[str], form: Format) -> list[Documents]:
    """Return the documents of each node, fetched in one batch."""
    keys = [join(path, name) for path in paths for name in form.documents]
    found = iter([store.get(keys[0])] if len(keys) == 1 else store.get_many(keys) if keys else ())
    several: list[Documents] = []
    for _ in paths:
        own = {name: next(found) for name in form.documents}
        several.append({name: data for name, data in own.items() if data is not None})
    return several


def folders_in(store: Store, path: str, form: Format) -> tuple[str, ...]:
    """Return the names of what may be nodes in a group, by a listing.

    Of a store that lists nothing, as many a web server, a Zarr container's ``.zmetadata`` at the
    root may tell. Where there is a listing that is believed alone: it cannot be out of date.
    """
    try:
        folders, files = store.list(path)
    except Exception:  # servers refuse in many ways
        told = _consolidated(store, path, form)
        if told is None:
            raise
        return told
    if folders or files:
        return folders
    return _consolidated(store, path, form) or ()


def _consolidated(store: Store, path: str, form: Format) -> tuple[str, ...] | None:
    """Return the nodes in a group that a container's summary names; None where there is none."""
    document = store.get(_ALL) if _CONSOLIDATED.issuperset(form.documents) else None
    if document is None:
        return None
    try:
        whole = parse_object(document, _ALL, _MOST_BYTES)
        keys = list(whole["metadata"])
        version = whole["zarr_consolidated_format"]
    except ODD as error:
        warn(f"{join(store.url, _ALL)} is corrupt; ignored ({error!r})")
        return None
    if version != 1:
        warn(f"{join(store.url, _ALL)} has the version {version!r}, not 1; it is not listened to")
        return None
    below = f"{path}/" if path else ""
    inner = (str(key).removeprefix(below) for key in keys if str(key).startswith(below))
    return tuple(sorted({name.partition("/")[0] for name in inner if "/" in name}))


def get_safe_documents(
    store: Store, paths: Sequence[str], form: Format
) -> list[Documents | UnsafePathError]:
    """Return the documents of each node, or why they are not read: one must not hide the others."""
    try:
        return list(get_all_documents(store, paths, form))
    except UnsafePathError:
        return [_documents_or_error(store, path, form) for path in paths]


def _documents_or_error(store: Store, path: str, form: Format) -> Documents | UnsafePathError:
    try:
        return get_documents(store, path, form)
    except UnsafePathError as error:
        return error


def set_documents(store: Store, path: str, documents: Documents) -> None:
    """Write documents in their order: what makes a node one comes last."""
    for name, data in documents.items():
        store.set(join(path, name), data)
    _consolidate(store, path, documents)


def replace_documents(store: Store, path: str, before: Documents, after: Documents) -> None:
    """Write a node's documents, and remove those that it has no more."""
    stale = sorted(before.keys() - after.keys())
    for name, data in after.items():
        store.set(join(path, name), data)
    if stale:
        store.delete([join(path, name) for name in stale])
    _consolidate(store, path, after, stale)


def delete_node(store: Store, path: str, form: Format) -> None:
    """Remove a node and all below it, its first document before all else."""
    store.delete_tree(path, form.documents[0])
    if _CONSOLIDATED.issuperset(form.documents):
        _consolidate(store, path, {}, None)


def _consolidate(
    store: Store, path: str, written: Documents, gone: Collection[str] | None = ()
) -> None:
    """Keep a Zarr container's ``.zmetadata`` true, where it has one.

    Parameters
    ----------
    store, path
        The container and the node.
    written
        Documents that the node has now.
    gone
        Names of those that it has no more; None for the node and all below it.
    """
    if not _CONSOLIDATED.intersection([*written, *(gone or ())]) and gone is not None:
        return
    parts = path.split("/") if path else []
    above = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    found = store.get_many([join(place, _ALL) for place in above])
    for place, document in zip(above, found, strict=True):
        if document is not None:
            inner = path.removeprefix(place).lstrip("/")
            _renew(store, join(place, _ALL), document, inner, written, gone)


def _renew(
    store: Store,
    key: str,
    document: bytes,
    path: str,
    written: Documents,
    gone: Collection[str] | None,
) -> None:
    try:
        whole = parse_object(document, key, _MOST_BYTES)
        known = dict(whole["metadata"])
    except ODD as error:
        warn(f"{join(store.url, key)} is corrupt and not updated ({error!r}); remove it")
        return
    below = f"{path}/" if path else ""
    if gone is None:
        known = {name: value for name, value in known.items() if not name.startswith(below)}
    for name in gone or ():
        known.pop(join(path, name), None)
    known |= {join(path, name): json.loads(data) for name, data in written.items()}
    store.set(key, json.dumps({**whole, "metadata": known}, indent=4).encode())
