"""Read and write the documents of nodes in a key-value store; find unfinished writes."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from xarray_n5.errors import UnfinishedWriteWarning, UnsafePathError
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import HIDDEN, join
from xarray_n5.stores import CachedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.stores.base import Store

_SHOWN = 10
"""The maximum number of arrays that a warning names."""

_OPEN = re.compile("open-(?!append-)|clears-")
"""The beginning of the names of records of unfinished writes; appends show nothing of theirs."""

_TRIES = 8
"""The number of attempts to change documents that another process changes, too."""


def where(store: Store, path: str, form: KeyedFormat) -> str:
    """Return the name of a node's document for errors."""
    return join(store.url, path, form.documents[0])


def get_documents(store: Store, path: str, form: KeyedFormat) -> Documents:
    """Return the documents of one node."""
    return get_all_documents(store, [path], form)[0]


def get_all_documents(store: Store, paths: Sequence[str], form: KeyedFormat) -> list[Documents]:
    """Return the documents of each node, fetched in one batch."""
    keys = [join(path, name) for path in paths for name in form.documents]
    contents = iter(
        [store.get(keys[0])] if len(keys) == 1 else store.get_many(keys) if keys else ()
    )
    several: list[Documents] = []
    for _ in paths:
        documents = {name: next(contents) for name in form.documents}
        several.append({name: data for name, data in documents.items() if data is not None})
    return several


def prefetch_documents(store: Store, paths: Sequence[str], form: KeyedFormat) -> None:
    """Read documents of nodes into a cache, in one batch."""
    if isinstance(store, CachedStore) and store.concurrency > 1:
        with suppress(OSError, UnsafePathError):  # what fails in a batch is read one by one
            store.get_many([join(path, name) for path in paths for name in form.documents])


def replace_documents(store: Store, path: str, before: Documents, after: Documents) -> list[str]:
    """Write a node's documents, the one that identifies it last; remove those that are obsolete.

    Return the names of all these.
    """
    stale = sorted(before.keys() - after.keys())
    with store.exclusive(path):
        _write(store, path, after)
        if stale:
            store.delete([join(path, name) for name in stale])
    return [*after, *stale]


def change_documents(
    store: Store, path: str, form: KeyedFormat, change: Callable[[Documents], Documents]
) -> list[str]:
    """Change documents of a node without losing concurrent changes; return their names.

    `change` returns the documents to write, given those that are stored. In stores without locks,
    it is called again until they are stable: another change may have come between.
    """
    written: Documents = {}
    for _ in range(_TRIES):
        with store.exclusive(path) as alone:
            before = get_documents(store.fresh(), path, form)
            written = change(before)
            changed = {name: data for name, data in written.items() if before.get(name) != data}
            _write(store, path, changed)
        if alone or not changed:
            break
    return list(written)


def _write(store: Store, path: str, documents: Documents) -> None:
    for name, data in documents.items():
        store.set(join(path, name), data)


def hidden_names(store: Store, paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the files in the hidden folder of each node, listed in one batch.

    If a server refuses that, nothing is returned.
    """
    wanted = list(dict.fromkeys(paths))
    with suppress(OSError, UnsafePathError):
        listings = store.list_many([join(path, HIDDEN) for path in wanted]) if wanted else ()
        return {path: files for path, (_, files) in zip(wanted, listings, strict=True)}
    return {}


def unfinished(store: Store, paths: Iterable[str]) -> set[str]:
    """Return the paths of nodes with an unfinished write."""
    return _with_records(hidden_names(store, paths))


def _with_records(hidden: Mapping[str, tuple[str, ...]]) -> set[str]:
    return {path for path, names in hidden.items() if any(map(_OPEN.match, names))}


def warn_unfinished(store: Store, paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Warn about nodes with an unfinished write, once for each as long as the store remembers.

    Return the names of the files in their hidden folders.
    """
    hidden = hidden_names(store, paths)
    warned = store.warned if isinstance(store, CachedStore) else set()
    if new := sorted(_with_records(hidden) - warned):
        warned.update(new)
        shown = [*(repr(path or "/") for path in new[:_SHOWN]), *["..."] * (len(new) > _SHOWN)]
        have = "has an unfinished write" if len(new) == 1 else "have unfinished writes"
        warn(
            f"{', '.join(shown)} in {store.url!r} {have}; chunks that are not written yet are read "
            "as fill values. If no program is writing now, repeat the write with resume=True",
            UnfinishedWriteWarning,
        )
    return hidden
