"""A node's documents, read and written together."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import UnfinishedWriteWarning, UnsafePathError
from xarray_n5.formats.consolidated import DOCUMENTS, KEY, MOST_BYTES, dump, parsed, renew
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.json import parse_object
from xarray_n5.model.paths import UNFINISHED, WRITING, join
from xarray_n5.stores import CachedStore, exclusive, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.stores.protocol import Store

_TRIES = 8
"""How often documents are changed where somebody else changes them at the same time."""


FOREIGN = frozenset({".zarray", ".zgroup", "zarr.json", "attributes.json"})
"""Files that make a directory a node of one format or another."""


def where(store: Store, path: str, form: KeyedFormat) -> str:
    """Return the name of a node's document for errors."""
    return join(store.url, path, form.documents[0])


def get_documents(store: Store, path: str, form: KeyedFormat) -> Documents:
    """Return the documents of one node."""
    return get_all_documents(store, [path], form)[0]


def get_all_documents(store: Store, paths: Sequence[str], form: KeyedFormat) -> list[Documents]:
    """Return the documents of each node, fetched in one batch."""
    keys = [join(path, name) for path in paths for name in form.documents]
    found = iter([store.get(keys[0])] if len(keys) == 1 else store.get_many(keys) if keys else ())
    several: list[Documents] = []
    for _ in paths:
        own = {name: next(found) for name in form.documents}
        several.append({name: data for name, data in own.items() if data is not None})
    return several


def unfinished(store: Store, paths: Iterable[str]) -> set[str]:
    """Return the paths of nodes into which a write has begun and not ended.

    One small file is looked for beside each, in one batch; only where it is found, the node's
    folder is listed, which tells for sure. Where a server refuses that, nothing is said.
    """
    asked = list(paths)
    with suppress(OSError, UnsafePathError):
        hints = store.get_many([join(path, UNFINISHED) for path in asked]) if asked else []
        likely = [path for path, hint in zip(asked, hints, strict=True) if hint is not None]
        listed = store.list_many(likely) if likely else ()
        return {
            path
            for path, (folders, _) in zip(likely, listed, strict=True)
            if any(name.startswith(WRITING) for name in folders)
        }
    return set()


def warn_unfinished(store: Store, paths: Iterable[str]) -> None:
    """Warn of arrays whose write has not ended; of each once, as long as the store remembers."""
    warned = store.warned if isinstance(store, CachedStore) else set()
    for path in sorted(unfinished(store, paths) - warned):
        warned.add(path)
        warn(
            f"{path or '/'!r} in {store.url!r} is unfinished: a write has begun and not ended; "
            "chunks that it has not written read as fill values. If it is not running, repeat the "
            "same call with resume=True",
            UnfinishedWriteWarning,
        )


def folders_in(store: Store, path: str, form: KeyedFormat) -> tuple[str, ...]:
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


def _consolidated(store: Store, path: str, form: KeyedFormat) -> tuple[str, ...] | None:
    """Return the nodes in a group that a container's summary names; None where there is none."""
    document = store.get(KEY) if DOCUMENTS.issuperset(form.documents) else None
    if document is None:
        return None
    try:
        whole = parse_object(document, KEY, MOST_BYTES)
        keys = list(whole["metadata"])
        version = whole["zarr_consolidated_format"]
    except ODD as error:
        warn(f"{join(store.url, KEY)} is corrupt; ignored ({error!r})")
        return None
    if version != 1:
        warn(f"{join(store.url, KEY)} has the version {version!r}, not 1; it is not listened to")
        return None
    below = f"{path}/" if path else ""
    inner = (str(key).removeprefix(below) for key in keys if str(key).startswith(below))
    return tuple(sorted({name.partition("/")[0] for name in inner if "/" in name}))


def get_safe_documents(
    store: Store, paths: Sequence[str], form: KeyedFormat
) -> list[Documents | UnsafePathError]:
    """Return the documents of each node, or why they are not read: one must not hide the others.

    A store that remembers is asked in the same batch which writes are unfinished.
    """
    if isinstance(store, CachedStore) and store.batch > 1:
        with suppress(OSError, UnsafePathError):  # what cannot be asked together is asked apart
            names = (*form.documents, UNFINISHED)
            store.get_many([join(path, name) for path in paths for name in names])
    try:
        return list(get_all_documents(store, paths, form))
    except UnsafePathError:
        return [_documents_or_error(store, path, form) for path in paths]


def _documents_or_error(store: Store, path: str, form: KeyedFormat) -> Documents | UnsafePathError:
    try:
        return get_documents(store, path, form)
    except UnsafePathError as error:
        return error


def set_documents(store: Store, path: str, documents: Documents) -> None:
    """Write documents in their order: what makes a node one comes last."""
    if documents:
        replace_documents(store, path, {}, documents)


def replace_documents(store: Store, path: str, before: Documents, after: Documents) -> None:
    """Write a node's documents, and remove those that it no longer has."""
    stale = sorted(before.keys() - after.keys())
    with exclusive(store, path):
        _write(store, path, after)
        if stale:
            store.delete([join(path, name) for name in stale])
    renew(store, path, [*after, *stale])


def change_documents(
    store: Store, path: str, form: KeyedFormat, change: Callable[[Documents], Documents]
) -> None:
    """Change documents of a node, without losing what others change at the same time.

    Parameters
    ----------
    store, path, form
        The node.
    change
        Returns the documents to write, of those that are stored. Where the store has no locks, it
        is called again until nothing changes any more: another change may have come between.
    """
    for _ in range(_TRIES):
        with exclusive(store, path) as alone:
            before = get_documents(fresh(store), path, form)
            written = change(before)
            changed = {name: data for name, data in written.items() if before.get(name) != data}
            _write(store, path, changed)
        renew(store, path, list(written))
        if alone or not changed:
            return


def complete_documents(
    store: Store, path: str, form: KeyedFormat, before: Documents, *, fresh: bool
) -> None:
    """Write what a group lacks, be it a fresh container's root; nothing that is there changes."""

    def lacking(documents: Documents) -> Documents:
        return form.above(documents, join(store.url, path, form.documents[0]), fresh=fresh)

    if lacking(before):
        change_documents(store, path, form, lacking)


def _write(store: Store, path: str, documents: Documents) -> None:
    for name, data in documents.items():
        store.set(join(path, name), data)


def delete_node(store: Store, path: str, form: KeyedFormat) -> None:
    """Remove a node and all below it, its first document before all else."""
    store.delete_tree(path, form.documents[0])
    if DOCUMENTS.issuperset(form.documents):
        renew(store, path, None)


def consolidate(store: Store, path: str, form: KeyedFormat) -> None:
    """Write the consolidated metadata of a Zarr group: all documents of it and below it."""
    with exclusive(store, path):
        found: dict[str, Any] = {}
        level = [path]
        while level:
            documents = dict(zip(level, get_all_documents(store, level, form), strict=True))
            for node, own in documents.items():
                inner = node.removeprefix(path).lstrip("/")
                found |= parsed({join(inner, name): data for name, data in own.items()})
            level = _inside(
                store, [node for node in level if form.documents[0] not in documents[node]]
            )
        store.set(join(path, KEY), dump(dict(sorted(found.items()))))


def _inside(store: Store, groups: Sequence[str]) -> list[str]:
    """Return the paths of what may be nodes in groups."""
    listings = store.list_many(groups) if groups else ()
    return [
        join(group, name)
        for group, (folders, _) in zip(groups, listings, strict=True)
        for name in folders
        if not name.startswith(".")
    ]
