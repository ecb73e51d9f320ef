"""Consolidated metadata of Zarr: the documents below a group, repeated on the group.

In Zarr v2, they are in a document of their own. In Zarr v3, they are in a member of the group's
document. Source: the Zarr v3 specification, "Additional fields", and what zarr-python writes.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from xarray_n5.formats.zarr3.format import DOCUMENT
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.json import parse_object
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from xarray_n5.stores.base import Store

_MEMBER = "consolidated_metadata"

_MOST_BYTES = 1 << 28
"""The maximum size of consolidated metadata."""

_TRIES = 8
"""The number of attempts to write it while another process writes it, too."""


@dataclass(frozen=True, slots=True)
class OwnDocument:
    """Zarr v2's ``.zmetadata``."""

    key: ClassVar[str] = ".zmetadata"
    """The document with the metadata."""
    called: ClassVar[str] = key
    """Its name, or that of its member."""
    corrupt: ClassVar[str] = "is corrupt"
    """What a warning says about the document if the metadata are corrupt."""
    documents: ClassVar[frozenset[str]] = frozenset({".zarray", ".zgroup", ".zattrs"})
    """The names of the documents of a node that are repeated."""
    has_own: ClassVar[bool] = True
    """Whether the documents of the group itself are repeated, too."""

    def known(self, whole: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the repeated documents."""
        return {str(name): each for name, each in whole["metadata"].items()}

    def dump(self, whole: Mapping[str, Any], documents: Mapping[str, Any]) -> bytes:
        """Return the document."""
        whole = whole or {"zarr_consolidated_format": 1}
        return json.dumps({**whole, "metadata": dict(documents)}, indent=4).encode()

    def names(self, nodes: Iterable[str]) -> list[str]:
        """Return the names of the documents of nodes."""
        return [join(node, name) for node in nodes for name in sorted(self.documents)]

    def node(self, name: str) -> str:
        """Return the node that a document describes."""
        return name.rpartition("/")[0]

    def location(self, name: str) -> str:
        """Return the key of a document: its name."""
        return name

    def bare(self, members: dict[str, Any]) -> dict[str, Any] | None:
        """Return a stored document."""
        return members

    def may_have_nodes(self, node: str, found: Mapping[str, Any]) -> bool:
        """Return whether a node is not an array."""
        return join(node, ".zarray") not in found


@dataclass(frozen=True, slots=True)
class Member:
    """The member ``consolidated_metadata`` of Zarr v3's ``zarr.json``."""

    key: ClassVar[str] = DOCUMENT
    called: ClassVar[str] = _MEMBER
    corrupt: ClassVar[str] = "has corrupt consolidated metadata"
    documents: ClassVar[frozenset[str]] = frozenset({DOCUMENT})
    has_own: ClassVar[bool] = False

    def known(self, whole: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the repeated documents; None if there is no such member."""
        member = whole.get(_MEMBER)
        return None if member is None else {str(k): v for k, v in member["metadata"].items()}

    def dump(self, whole: Mapping[str, Any], documents: Mapping[str, Any]) -> bytes:
        """Return the group's document."""
        whole = whole or {"zarr_format": 3, "node_type": "group"}
        member = {"kind": "inline", "must_understand": False, "metadata": documents}
        return json.dumps({**whole, _MEMBER: member}, indent=2).encode()

    def names(self, nodes: Iterable[str]) -> list[str]:
        """Return the names of the documents of nodes: their paths."""
        return list(nodes)

    def node(self, name: str) -> str:
        """Return the node that a document describes."""
        return name

    def location(self, name: str) -> str:
        """Return the key of a document."""
        return join(name, DOCUMENT)

    def bare(self, members: dict[str, Any]) -> dict[str, Any] | None:
        """Return a stored document without what it repeats."""
        return {key: each for key, each in members.items() if key != _MEMBER} or None

    def may_have_nodes(self, node: str, found: Mapping[str, Any]) -> bool:
        """Return whether a node is a group."""
        return not node or found.get(node, {}).get("node_type") == "group"


Consolidated: TypeAlias = OwnDocument | Member

KINDS = (OwnDocument(), Member())

REPEATED = OwnDocument.documents | Member.documents
"""The names of all documents that consolidated metadata repeats."""


def _kind_for(documents: Collection[str]) -> Consolidated | None:
    """Return the kind that repeats some documents, if any."""
    return next((kind for kind in KINDS if kind.documents.intersection(documents)), None)


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
    if (kind := _kind_for(names)) is None:
        return
    inner: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/") if path else []
        for depth in range(len(parts) + kind.has_own):
            inner.setdefault("/".join(parts[:depth]), []).append("/".join(parts[depth:]))
    documents = store.get_many([join(group, kind.key) for group in inner]) if inner else ()
    for group, document in zip(inner, documents, strict=True):
        if document is not None and (kind.has_own or f'"{_MEMBER}"'.encode() in document):
            _renew(store, group, inner[group], kind, names, below=below)


def _renew(
    store: Store,
    group: str,
    inner: Sequence[str],
    kind: Consolidated,
    names: Collection[str],
    *,
    below: bool,
) -> None:
    key, current = join(group, kind.key), store.fresh()
    for _ in range(_TRIES):
        with store.exclusive(group) as alone:
            document = current.get(key)
            if document is None:
                return
            try:
                whole, known = _parsed(document, kind)
            except ODD as error:
                warn(f"{join(store.url, key)} {kind.corrupt}; not updated ({error!r}); remove it")
                return
            if known is None:
                return
            starts = tuple(f"{path}/" if path else "" for path in inner)
            inside = {name for name in known if below and name.startswith(starts)}
            own = {n for n in kind.names(inner) if kind.location(n).rpartition("/")[2] in names}
            changed = sorted(own | inside)
            after = {name: known[name] for name in known if name not in set(changed)}
            after |= _load(current if alone else store, group, changed, kind)
            if _dumped(known) == _dumped(after):
                return
            store.set(key, kind.dump(whole, after))
        if alone:
            return


def consolidate(store: Store, path: str, names: Collection[str]) -> None:
    """Write the consolidated metadata of a group: its documents and all below it.

    Other processes may have changed them since they were cached: where a lock holds, all are read
    again, elsewhere the group's own document, if that has the metadata. `names` are those of the
    format's documents.
    """
    if (kind := _kind_for(names)) is None:
        return
    key, current = join(path, kind.key), store.fresh()
    with store.exclusive(path) as alone:
        found = _documents_below(current if alone else store, path, kind)
        document = None if kind.has_own else current.get(key)
        whole = {} if document is None else parse_object(document, key, _MOST_BYTES)
        store.set(key, kind.dump(whole, dict(sorted(found.items()))))


def names_in(store: Store, path: str, names: Collection[str]) -> tuple[str, ...] | None:
    """Return the nodes in a group by the root's consolidated metadata; None if it has none."""
    kind = _kind_for(names)
    document = None if kind is None else store.get(kind.key)
    if kind is None or document is None:
        return None
    try:
        whole, known = _parsed(document, kind)
        version = whole["zarr_consolidated_format"] if kind.has_own else 1
    except ODD as error:
        warn(f"{join(store.url, kind.key)} {kind.corrupt}; ignored ({error!r})")
        return None
    if version != 1:
        warn(f"{join(store.url, kind.key)} has version {version!r}, expected 1; ignored")
        return None
    if known is None:
        return None
    below = f"{path}/" if path else ""
    inside = {node for node in map(kind.node, known) if node and node.startswith(below)}
    return tuple(sorted({node.removeprefix(below).partition("/")[0] for node in inside}))


def contradictions(store: Store, path: str, names: Collection[str]) -> list[str]:
    """Return the documents for which existing consolidated metadata differ from those stored."""
    kind = _kind_for(names)
    document = None if kind is None else store.get(join(path, kind.key))
    if kind is None or document is None:
        return []
    try:
        _, known = _parsed(document, kind)
    except ODD as error:
        return [f"{kind.called} is corrupt ({error})"]
    if known is None:
        return []
    try:
        stored = _documents_below(store, path, kind)
    except Exception:  # noqa: BLE001 - where a server lists nothing, only known nodes are compared
        stored = {}
    all_of_known = kind.names(sorted(set(map(kind.node, known))))
    return _differing(known, stored | _load(store, path, all_of_known, kind))


def _differing(known: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return the sorted names of documents that differ; missing and empty ones are equal.

    >>> _differing({".zgroup": {"zarr_format": 2}, ".zattrs": {}}, {".zgroup": {"zarr_format": 3}})
    ['.zgroup']
    """
    empty: dict[str, Any] = {}
    names = sorted({*known, *stored})
    return [n for n in names if _own(known.get(n, empty)) != _own(stored.get(n, empty))]


def _own(document: object) -> str:
    """Return a document without embedded consolidated metadata, which zarr-python 3 adds."""
    if isinstance(document, dict):
        document = {k: each for k, each in document.items() if k != _MEMBER}
    return _dumped(document)


def _dumped(value: object) -> str:
    """Return a JSON value as a string that is equal for equal values."""
    return json.dumps(value, sort_keys=True)


def _parsed(document: bytes, kind: Consolidated) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the document with consolidated metadata, and the documents that it repeats."""
    whole = parse_object(document, kind.key, _MOST_BYTES)
    return whole, kind.known(whole)


def _documents_below(store: Store, path: str, kind: Consolidated) -> dict[str, Any]:
    """Return the documents of all nodes below a group."""
    found = _load(store, path, kind.names([""]), kind) if kind.has_own else {}
    level = [""]
    while groups := [node for node in level if kind.may_have_nodes(node, found)]:
        listings = store.list_many([join(path, group) for group in groups])
        level = [
            join(group, name)
            for group, (folders, _) in zip(groups, listings, strict=True)
            for name in folders
            if not name.startswith(".")
        ]
        found |= _load(store, path, kind.names(level), kind)
    return found


def _load(store: Store, group: str, names: Sequence[str], kind: Consolidated) -> dict[str, Any]:
    """Return documents below a group by name, without missing and corrupt ones."""
    found: dict[str, Any] = {}
    keys = [join(group, kind.location(name)) for name in names]
    for name, data in zip(names, store.get_many(keys) if keys else (), strict=True):
        with suppress(*ODD):
            members = None if data is None else kind.bare(parse_object(data, name))
            found |= {} if members is None else {name: members}
    return found
