"""Consolidated metadata of Zarr: the documents below a group, repeated on the group.

In Zarr v2, they are in a document of their own, with those of the group. In Zarr v3, they are in a
member of the group's document. Source: the Zarr v3 specification, "Additional fields", and what
zarr-python writes.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xarray_n5.formats.zarr3.format import DOCUMENT
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.json import parse_object
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xarray_n5.stores.base import Store

_MEMBER = "consolidated_metadata"

_REPEATED = {
    ".zmetadata": frozenset({".zarray", ".zgroup", ".zattrs"}),
    DOCUMENT: frozenset({DOCUMENT}),
}
"""For each document with consolidated metadata, the documents that it repeats."""

_MOST_BYTES = 1 << 28
"""The maximum size of consolidated metadata."""

_TRIES = 8
"""The number of attempts to write it while another process writes it, too."""


def _name_for(documents: Collection[str]) -> str | None:
    """Return the document that would repeat some documents, if any."""
    return next((name for name, known in _REPEATED.items() if known & set(documents)), None)


def _parse(document: bytes, name: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return a document with consolidated metadata, and the documents that it repeats, by key.

    These are None if the document has no such member.
    """
    whole = parse_object(document, name, _MOST_BYTES)
    if name != DOCUMENT:
        if (version := whole["zarr_consolidated_format"]) != 1:
            raise ValueError(f"expected version 1, got {version!r}")
        return whole, {str(key): members for key, members in whole["metadata"].items()}
    if (member := whole.get(_MEMBER)) is None:
        return whole, None
    return whole, {join(str(node), DOCUMENT): inner for node, inner in member["metadata"].items()}


def _understood(
    store: Store, key: str, document: bytes, otherwise: str
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what :func:`_parse` does; None with a warning if the document is corrupt."""
    try:
        return _parse(document, key.rpartition("/")[2])
    except ODD as error:
        where = join(store.url, key)
        warn(f"consolidated metadata in {where} is corrupt; {otherwise} ({error!r})")
        return {}, None


def _dump(whole: Mapping[str, Any], documents: Mapping[str, Any], name: str) -> bytes:
    """Return `whole` with the documents that it repeats, by key."""
    if name != DOCUMENT:
        whole = whole or {"zarr_consolidated_format": 1}
        return json.dumps({**whole, "metadata": dict(documents)}, indent=4).encode()
    nodes = {_node(key): members for key, members in documents.items()}
    member = {"kind": "inline", "must_understand": False, "metadata": nodes}
    whole = whole or {"zarr_format": 3, "node_type": "group"}
    return json.dumps({**whole, _MEMBER: member}, indent=2).encode()


def renew(
    store: Store, paths: Sequence[str], names: Collection[str], *, below: bool = False
) -> None:
    """Update existing consolidated metadata after documents of nodes have changed, once.

    The documents that are stored now are used, whoever wrote them.

    Parameters
    ----------
    store, paths
        The container and the nodes.
    names
        The documents that have changed, or are gone.
    below
        Whether those of all nodes below the nodes have, too.
    """
    if (name := _name_for(names)) is None or not paths:
        return
    inner: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/") if path else []
        for depth in range(len(parts) + (name != DOCUMENT)):
            inner.setdefault("/".join(parts[:depth]), []).append("/".join(parts[depth:]))
    documents = store.get_many([join(group, name) for group in inner]) if inner else ()
    for group, document in zip(inner, documents, strict=True):
        if document is not None and (name != DOCUMENT or f'"{_MEMBER}"'.encode() in document):
            keys = _keys(inner[group], _REPEATED[name] & set(names))
            starts = tuple(f"{path}/" if path else "" for path in inner[group]) if below else ()
            _renew(store, group, name, keys, starts)


def _renew(
    store: Store, group: str, name: str, keys: Sequence[str], starts: tuple[str, ...]
) -> None:
    """Update documents in a group's consolidated metadata: `keys`, and those below `starts`."""
    key, current = join(group, name), store.fresh()
    for _ in range(_TRIES):
        with store.exclusive(group) as alone:
            document = current.get(key)
            if document is None:
                return
            whole, known = _understood(store, key, document, "not updated")
            if known is None:
                return
            changed = {*keys, *(inner for inner in known if inner.startswith(starts))}
            after = {inner: known[inner] for inner in known if inner not in changed}
            after |= _load(current if alone else store, group, sorted(changed))
            if _dumped(known) == _dumped(after):
                return
            store.set(key, _dump(whole, after, name))
        if alone:
            return


def consolidate(store: Store, path: str, names: Collection[str]) -> None:
    """Write the consolidated metadata of a group: its documents and all below it.

    Other processes may have changed them since they were cached: where a lock holds, all are read
    again, elsewhere the group's own document, if that has the metadata. `names` are those of the
    format's documents.
    """
    if (name := _name_for(names)) is None:
        return
    key, current = join(path, name), store.fresh()
    with store.exclusive(path) as alone:
        documents = _documents_below(current if alone else store, path, name)
        document = current.get(key) if name == DOCUMENT else None
        whole = {} if document is None else parse_object(document, key, _MOST_BYTES)
        store.set(key, _dump(whole, dict(sorted(documents.items())), name))


def names_in(store: Store, path: str, names: Collection[str]) -> tuple[str, ...] | None:
    """Return the nodes in a group by the root's consolidated metadata; None if it has none."""
    name = _name_for(names)
    document = None if name is None else store.get(name)
    if name is None or document is None:
        return None
    _, known = _understood(store, name, document, "ignored")
    if known is None:
        return None
    below = f"{path}/" if path else ""
    inside = {node for node in map(_node, known) if node and node.startswith(below)}
    return tuple(sorted({node.removeprefix(below).partition("/")[0] for node in inside}))


def contradictions(store: Store, path: str, names: Collection[str]) -> list[str]:
    """Return the documents for which existing consolidated metadata differ from those stored.

    Missing and empty documents are equal.
    """
    name = _name_for(names)
    document = None if name is None else store.get(join(path, name))
    if name is None or document is None:
        return []
    try:
        _, known = _parse(document, name)
    except ODD as error:
        return [f"{_MEMBER if name == DOCUMENT else name} is corrupt ({error})"]
    if known is None:
        return []
    stored: dict[str, Any] = {}
    with suppress(Exception):  # where a server lists nothing, only known nodes are compared
        stored = _documents_below(store, path, name)
    stored |= _load(store, path, _keys(sorted(set(map(_node, known))), _REPEATED[name]))
    empty: dict[str, Any] = {}
    keys = sorted({*known, *stored})
    return [k for k in keys if _dumped(_bare(known.get(k, empty))) != _dumped(stored.get(k, empty))]


def _dumped(value: object) -> str:
    """Return a JSON value as a string that is equal for equal values."""
    return json.dumps(value, sort_keys=True)


def _node(key: str) -> str:
    """Return the node that a document describes."""
    return key.rpartition("/")[0]


def _keys(nodes: Iterable[str], names: Collection[str]) -> list[str]:
    return [join(node, name) for node in nodes for name in sorted(names)]


def _bare(members: Any) -> Any:
    """Return a document without embedded consolidated metadata, which zarr-python 3 adds."""
    if not isinstance(members, dict):
        return members
    return {key: value for key, value in members.items() if key != _MEMBER}


def _documents_below(store: Store, path: str, name: str) -> dict[str, Any]:
    """Return the documents of all nodes below a group, and in Zarr v2 its own, by key."""
    names, is_v2 = _REPEATED[name], name != DOCUMENT
    documents = _load(store, path, _keys([""], names)) if is_v2 else {}
    level = [""]
    while groups := [node for node in level if not node or _is_group(node, documents)]:
        listings = store.list_many([join(path, group) for group in groups])
        level = [
            join(group, inner)
            for group, (folders, _) in zip(groups, listings, strict=True)
            for inner in folders
            if not inner.startswith(".")
        ]
        documents |= _load(store, path, _keys(level, names))
    return documents


def _is_group(node: str, documents: Mapping[str, Any]) -> bool:
    kind = documents.get(join(node, DOCUMENT), {}).get("node_type", "group")
    return kind == "group" and join(node, ".zarray") not in documents


def _load(store: Store, group: str, keys: Sequence[str]) -> dict[str, Any]:
    """Return documents below a group by key, without missing and corrupt ones."""
    documents: dict[str, Any] = {}
    stored = store.get_many([join(group, key) for key in keys]) if keys else ()
    for key, data in zip(keys, stored, strict=True):
        with suppress(*ODD):
            if data is not None:
                documents[key] = _bare(parse_object(data, key))
    return documents
