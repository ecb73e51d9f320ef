"""A node's documents, read and written together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.paths import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.formats import Documents, Format
    from xarray_n5.storage import Store


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


def set_documents(store: Store, path: str, documents: Documents) -> None:
    """Write documents in their order: what makes a node one comes last."""
    for name, data in documents.items():
        store.set(join(path, name), data)


def replace_documents(store: Store, path: str, before: Documents, after: Documents) -> None:
    """Write a node's documents, and remove those that it has no more."""
    set_documents(store, path, after)
    stale = before.keys() - after.keys()
    if stale:
        store.delete([join(path, name) for name in sorted(stale)])
