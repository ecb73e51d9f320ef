"""Zarr v3's consolidated metadata: a member of a group's ``zarr.json`` that repeats those below it.

Source: the Zarr v3 specification, "Additional fields", and what zarr-python 3 writes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from xarray_n5.formats.consolidated import differing, dumped
from xarray_n5.formats.zarr3.format import DOCUMENT
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.json import parse_object
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.stores.base import Store

_MEMBER = "consolidated_metadata"

_MOST_BYTES = 1 << 28
"""The maximum size of such a document."""

_TRIES = 8
"""The number of attempts to write it while another process writes it, too."""


def renew(store: Store, path: str, *, below: bool = False) -> None:
    """Update existing consolidated metadata of the groups around a node that has changed.

    The documents that are stored now are used, whoever wrote them. With `below`, the nodes in the
    node are removed from it, too.
    """
    parts = path.split("/") if path else []
    above = ["/".join(parts[:depth]) for depth in range(len(parts))]
    for group, document in zip(
        above, store.get_many([join(g, DOCUMENT) for g in above]), strict=True
    ):
        if document is not None and f'"{_MEMBER}"'.encode() in document:
            _renew(store, group, path.removeprefix(group).lstrip("/"), below=below)


def _renew(store: Store, group: str, inner: str, *, below: bool) -> None:
    key, current = join(group, DOCUMENT), store.fresh()
    for _ in range(_TRIES):
        with store.exclusive(group) as alone:
            whole, known = _read(current, key)
            if known is None:
                return
            gone = [n for n in known if n == inner or (below and n.startswith(f"{inner}/"))]
            after = {name: each for name, each in known.items() if name not in gone}
            after |= _documents(current if alone else store, group, [inner])
            if dumped(known) == dumped(after):
                return
            store.set(key, _dump(whole, after))
        if alone:
            return


def consolidate(store: Store, path: str) -> None:
    """Write the consolidated metadata of a group: the documents of all nodes below it.

    Other processes may have changed them since they were cached: where a lock holds, all are read
    again, elsewhere the group's own document, which also has its attributes.
    """
    key, current = join(path, DOCUMENT), store.fresh()
    with store.exclusive(path) as alone:
        found = _documents_below(current if alone else store, path)
        document = current.get(key)
        whole = {} if document is None else parse_object(document, key, _MOST_BYTES)
        whole = whole or {"zarr_format": 3, "node_type": "group"}
        store.set(key, _dump(whole, dict(sorted(found.items()))))


def names_in(store: Store, path: str) -> tuple[str, ...] | None:
    """Return the nodes in a group by the root's consolidated metadata; None if it has none."""
    _, known = _read(store, DOCUMENT)
    if known is None:
        return None
    below = f"{path}/" if path else ""
    inner = (name.removeprefix(below) for name in known if name.startswith(below))
    return tuple(sorted({name.partition("/")[0] for name in inner}))


def contradictions(store: Store, path: str) -> list[str]:
    """Return the nodes for which existing consolidated metadata differ from those stored."""
    key = join(path, DOCUMENT)
    whole, known = _read(store, key)
    if known is None:
        return [] if whole or store.get(key) is None else [f"{_MEMBER} is corrupt"]
    try:
        stored = _documents_below(store, path)
    except Exception:  # noqa: BLE001 - where a server lists nothing, only known nodes are compared
        stored = {}
    return differing(known, stored | _documents(store, path, list(known)))


def _documents_below(store: Store, path: str) -> dict[str, Any]:
    """Return the documents of all nodes below a group."""
    found: dict[str, Any] = {}
    level = [""]
    while level:
        listings = store.list_many([join(path, name) for name in level])
        inside = [
            join(group, name)
            for group, (folders, _) in zip(level, listings, strict=True)
            for name in folders
            if not name.startswith(".")
        ]
        several = _documents(store, path, inside)
        found |= several
        level = [name for name in several if several[name].get("node_type") == "group"]
    return found


def _read(store: Store, key: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return a group's document, and the documents that it repeats; None if there are none."""
    document = store.get(key)
    if document is None:
        return {}, None
    try:
        whole = parse_object(document, key, _MOST_BYTES)
        member = whole.get(_MEMBER)
        known = None if member is None else {str(k): v for k, v in member["metadata"].items()}
    except ODD as error:
        warn(f"{join(store.url, key)} has corrupt consolidated metadata ({error!r}); ignored")
        return {}, None
    return whole, known


def _documents(store: Store, group: str, names: list[str]) -> dict[str, Any]:
    """Return the documents of nodes in a group, without missing and corrupt ones."""
    found: dict[str, Any] = {}
    several = store.get_many([join(group, name, DOCUMENT) for name in names]) if names else ()
    for name, data in zip(names, several, strict=True):
        try:
            members = {} if data is None else parse_object(data, name)
        except ODD:
            continue
        if members:
            found[name] = {key: each for key, each in members.items() if key != _MEMBER}
    return found


def _dump(whole: Mapping[str, Any], documents: Mapping[str, Any]) -> bytes:
    member = {"kind": "inline", "must_understand": False, "metadata": documents}
    return json.dumps({**whole, _MEMBER: member}, indent=2).encode()
