"""Zarr v2's consolidated metadata: ``.zmetadata``, which repeats the documents below a group."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.json import parse_object
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.stores.base import Store

KEY = ".zmetadata"

MOST_BYTES = 1 << 28
"""The maximum size of such a document."""

DOCUMENTS = frozenset({".zarray", ".zgroup", ".zattrs"})
"""The names of the documents that it repeats."""

_TRIES = 8
"""The number of attempts to write it while another process writes it, too."""


def renew(store: Store, path: str, names: Collection[str] | None) -> None:
    """Update existing consolidated metadata after documents of a node have changed.

    The documents that are stored now are used, whoever wrote them.

    Parameters
    ----------
    store, path
        The container and the node.
    names
        The documents that have changed, or are gone; None for all of the node and below it.
    """
    if names is not None and not DOCUMENTS.intersection(names):
        return
    parts = path.split("/") if path else []
    above = ["/".join(parts[:depth]) for depth in range(len(parts) + 1)]
    found = store.get_many([join(group, KEY) for group in above])
    for group, document in zip(above, found, strict=True):
        if document is not None:
            _renew(store, group, path.removeprefix(group).lstrip("/"), names)


def _renew(store: Store, group: str, inner: str, names: Collection[str] | None) -> None:
    key, current = join(group, KEY), store.fresh()
    for _ in range(_TRIES):
        with store.exclusive(group) as alone:
            document = current.get(key)
            if document is None:
                return
            try:
                whole = parse_object(document, key, MOST_BYTES)
                known = dict(whole["metadata"])
            except ODD as error:
                warn(f"{join(store.url, key)} is corrupt and not updated ({error!r}); remove it")
                return
            below = f"{inner}/" if inner else ""
            changed = (
                [name for name in known if name.startswith(below)]
                if names is None
                else [join(inner, name) for name in names]
            )
            source = current if alone else store
            stored = source.get_many([join(group, name) for name in changed])
            after = {name: known[name] for name in known if name not in set(changed)}
            after |= parsed(dict(zip(changed, stored, strict=True)))
            if dumped(known) == dumped(after):
                return
            store.set(key, dump(after, whole))
        if alone:
            return


def dump(documents: Mapping[str, Any], members: Mapping[str, Any] | None = None) -> bytes:
    """Return the document with `members` added."""
    whole = {**(members or {"zarr_consolidated_format": 1}), "metadata": dict(documents)}
    return json.dumps(whole, indent=4).encode()


def parsed(stored: Mapping[str, bytes | None]) -> dict[str, Any]:
    """Return the members of documents, without missing and corrupt ones."""
    found: dict[str, Any] = {}
    for name, data in stored.items():
        with suppress(*ODD):
            found |= {} if data is None else {name: parse_object(data, name, MOST_BYTES)}
    return found


def consolidate(store: Store, path: str) -> None:
    """Write the consolidated metadata of a Zarr group: its documents and all below it.

    Where a lock holds, they are read again: other processes may have changed them since they were
    cached.
    """
    with store.exclusive(path) as alone:
        current = store.fresh() if alone else store
        found: dict[str, Any] = {}
        level = [path]
        while level:
            keys = [join(node, name) for node in level for name in sorted(DOCUMENTS)]
            stored = dict(zip(keys, current.get_many(keys), strict=True))
            found |= parsed({key.removeprefix(path).lstrip("/"): d for key, d in stored.items()})
            level = _inside(current, [node for node in level if not stored[join(node, ".zarray")]])
        store.set(join(path, KEY), dump(dict(sorted(found.items()))))


def contradictions(store: Store, path: str) -> list[str]:
    """Return the documents for which existing consolidated metadata differ from those stored."""
    document = store.get(join(path, KEY))
    if document is None:
        return []
    try:
        whole = parse_object(document, KEY, MOST_BYTES)
        known = {str(key): value for key, value in whole["metadata"].items()}
    except ODD as error:
        return [f"{KEY} is corrupt ({error})"]
    stored = _documents_below(store, path, {name.rpartition("/")[0] for name in known})
    return differing(known, stored)


def differing(known: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return the sorted names of documents that differ; missing and empty ones are equal.

    >>> differing({".zgroup": {"zarr_format": 2}, ".zattrs": {}}, {".zgroup": {"zarr_format": 3}})
    ['.zgroup']
    """
    empty: dict[str, Any] = {}
    names = sorted({*known, *stored})
    return [n for n in names if _own(known.get(n, empty)) != _own(stored.get(n, empty))]


def _own(document: object) -> str:
    """Return a document without embedded consolidated metadata, which zarr-python 3 adds."""
    if isinstance(document, dict):
        document = {k: each for k, each in document.items() if k != "consolidated_metadata"}
    return dumped(document)


def dumped(value: object) -> str:
    """Return a JSON value as a string that is equal for equal values."""
    return json.dumps(value, sort_keys=True)


def _documents_below(store: Store, path: str, nodes: Collection[str]) -> dict[str, Any]:
    """Return the documents of some nodes, and of all nodes below a group where that is listed."""
    found: dict[str, Any] = {}
    level = [""]
    while level:
        found |= _documents_of(store, path, level)
        groups = [node for node in level if join(node, ".zarray") not in found]
        try:
            inside = _inside(store, [join(path, node) for node in groups])
        except Exception:  # noqa: BLE001 - servers refuse in many ways
            inside = []
        level = [node.removeprefix(path).lstrip("/") for node in inside]
    return found | _documents_of(store, path, [node for node in nodes if node])


def _documents_of(store: Store, path: str, nodes: Collection[str]) -> dict[str, Any]:
    """Return the documents of nodes in a group, by name."""
    keys = [join(node, name) for node in sorted(nodes) for name in sorted(DOCUMENTS)]
    return parsed(dict(zip(keys, store.get_many([join(path, key) for key in keys]), strict=True)))


def _inside(store: Store, groups: Sequence[str]) -> list[str]:
    """Return the paths that may be nodes in groups."""
    listings = store.list_many(groups) if groups else ()
    return [
        join(group, name)
        for group, (folders, _) in zip(groups, listings, strict=True)
        for name in folders
        if not name.startswith(".")
    ]


def names_in(store: Store, path: str) -> tuple[str, ...] | None:
    """Return the nodes in a group that consolidated metadata name; None if there are none."""
    document = store.get(KEY)
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
        warn(f"{join(store.url, KEY)} has version {version!r}, expected 1; ignored")
        return None
    below = f"{path}/" if path else ""
    inner = (str(key).removeprefix(below) for key in keys if str(key).startswith(below))
    return tuple(sorted({name.partition("/")[0] for name in inner if "/" in name}))
