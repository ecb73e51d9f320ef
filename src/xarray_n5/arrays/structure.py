"""Whether a node is an array or a group: decided here, by what the node holds.

Some writers put the members of an array on a group: BigStitcher on ``setupN``, others when they
copy attributes. Read as an array, such a group is nothing but fill values. So what lies in a node
wins over what its attributes claim: a node that holds nodes, and no chunks of its own, is a group.

Looking costs a listing. It is made where that is cheap (local disks), where something is odd (a
name or an attribute that groups have), and, once for each array and process, where a selection
finds no chunk at all. An ordinary array in an object store is opened without it.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xarray_n5.errors import N5Error, NodeNotFoundError
from xarray_n5.formats.keyed import get_all_documents, get_safe_documents
from xarray_n5.model.alerts import warn
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata, lists_levels
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.model.metadata import Metadata
    from xarray_n5.stores.protocol import Listing, Store

_GROUPS = re.compile(r"(?:.*/)?(?:setup\d+|timepoint\d+|t\d{5,})")
"""Paths of BigDataViewer's groups."""

_VIEWS = re.compile(r"timepoint\d+")
"""Names of groups of BigDataViewer, be there a document or not."""

_OF_GROUPS = frozenset(
    {"multiScale", "multiscales", "scales", "saved_completely", "ome", "Bigstitcher-Spark"}
)
"""Attributes that describe what is in a group."""

_PROBES = ("timepoint0", "s0", "0")
"""What is looked for where a listing is not to be had, or would be long."""

_LONG = 4096
"""How many entries a directory may have to be listed."""

_MOST = 64
"""How many names in a directory are looked at."""

_DEPTH = 3
"""How many directories without documents may lie between a group and the first node in it."""

_arrays: set[object] = set()
"""Arrays without chunks that have been looked into in this process."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """A node that its documents describe as an array."""

    path: str
    documents: Documents
    metadata: ArrayMetadata


def settle(
    store: Store, path: str, form: KeyedFormat, documents: Documents, metadata: Metadata
) -> Metadata:
    """Return a node's metadata: those of a group where it only claims to be an array."""
    return settle_all(store, form, [(path, documents, metadata)])[0]


def settle_all(
    store: Store, form: KeyedFormat, nodes: Sequence[tuple[str, Documents, Metadata]]
) -> list[Metadata]:
    """Return the metadata of several nodes; those in doubt are looked into together."""
    claims = [
        _Claim(path, documents, metadata)
        for path, documents, metadata in nodes
        if isinstance(metadata, ArrayMetadata) and _is_doubtful(store, path, documents, metadata)
    ]
    groups = {claim.path for claim in _look(store, form, claims)} if claims else set()
    return [
        form.as_group(documents, join(store.url, path, form.documents[0]))
        if path in groups
        else metadata
        for path, documents, metadata in nodes
    ]


def check_array(store: Store, path: str, form: KeyedFormat, metadata: ArrayMetadata) -> None:
    """Raise where what was opened as an array turns out to be a group; one look in a process.

    Raises
    ------
    NodeNotFoundError
        Naming what to open instead.
    """
    place = store.identity(path)
    if store.one_writer or place in _arrays:
        return
    if _look(store, form, [_Claim(path, {}, metadata)]):
        raise no_array(store, path, form)
    known_array(store, path)


def known_array(store: Store, path: str) -> None:
    """Note that an array was made here, into which nobody need look."""
    if store.batch > 1:
        _arrays.add(store.identity(path))


def no_array(store: Store, path: str, form: KeyedFormat) -> NodeNotFoundError:
    """Return the error of opening a group that claims to be an array."""
    inner = _first_array(store, path, form)
    named = f", such as {inner!r}" if inner else ""
    hint = (
        "it is a group, although its metadata are those of an array: it holds nodes; open an "
        f"array in it{named}, or all with open_group or xarray.open_datatree"
    )
    return NodeNotFoundError(store.url, path, "array", hint)


def read_below(store: Store, path: str, form: KeyedFormat) -> None:
    """Read the documents of all nodes below a group, those of one depth together.

    That is for a store that remembers them: who walks through the nodes then finds them there.
    Where a server lists nothing, nothing is read.
    """
    level = [path]
    while level:
        try:
            listings = store.list_many(level)
        except Exception:  # noqa: BLE001 - servers refuse in many ways, and the walk will tell
            return
        inner = [
            join(place, name)
            for place, (folders, _) in zip(level, listings, strict=True)
            for name in _visible(folders)
        ]
        level = _groups_among(store, form, inner)


def _groups_among(store: Store, form: KeyedFormat, paths: Sequence[str]) -> list[str]:
    """Return the paths of groups; nodes that cannot be read are none."""
    found: list[tuple[str, Documents, Metadata]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the walk will tell
        several = get_safe_documents(store, paths, form)
        for path, documents in zip(paths, several, strict=True):
            if isinstance(documents, N5Error):
                continue
            try:
                found.append((path, documents, form.read(documents, path)))
            except N5Error:
                continue
        settled = settle_all(store, form, found)
    pairs = zip(found, settled, strict=True)
    return [path for (path, _, _), node in pairs if isinstance(node, GroupMetadata)]


def _is_doubtful(store: Store, path: str, documents: Documents, metadata: ArrayMetadata) -> bool:
    if store.one_writer:
        return False  # HDF5 itself tells a dataset from a group
    attributes = metadata.attributes
    odd = _GROUPS.fullmatch(path) or ".zgroup" in documents or lists_levels(attributes)
    return bool(store.batch == 1 or odd or _OF_GROUPS & attributes.keys())


def _look(store: Store, form: KeyedFormat, claims: Sequence[_Claim]) -> list[_Claim]:
    """Return those that are groups: one batch of listings, one of documents."""
    listings = _listings(store, form, claims)
    names = [_names(listing) for listing in listings]
    paths = [join(claim.path, n) for claim, all_ in zip(claims, names, strict=True) for n in all_]
    try:
        documents = iter(get_all_documents(store, paths, form))
    except PermissionError:
        documents = iter([{}] * len(paths))
    groups = []
    for claim, listing, asked in zip(claims, listings, names, strict=True):
        own = {name: next(documents) for name in asked}
        nodes = {name for name, each in own.items() if _is_node(form, each)}
        nodes |= set(filter(_VIEWS.fullmatch, listing[0] if listing else ()))
        chunks = listing is not None and _has_chunks(form, claim.metadata, listing, own)
        nested = lists_levels(claim.metadata.attributes)
        if not nodes and not chunks and not nested and listing is not None:
            bare = [name for name, each in own.items() if each or not name.isdecimal()]
            nodes = set(_nodes_below(store, form, [join(claim.path, name) for name in bare]))
        if nodes and chunks and not nested:
            warn(
                f"{join(store.url, claim.path)} is an array with chunks, and holds nodes, too "
                f"({', '.join(sorted(nodes))}): it is opened as the array; name these by their path"
            )
        elif nodes or (nested and not chunks):
            groups.append(claim)
    return groups


def _listings(store: Store, form: KeyedFormat, claims: Sequence[_Claim]) -> list[Listing | None]:
    """Return what is in each directory; None where that cannot be told, or would be long."""
    short = [claim.path for claim in claims if _entries(form, claim.metadata) <= _LONG]
    try:
        found = dict(zip(short, store.list_many(short), strict=True)) if short else {}
    except Exception:  # noqa: BLE001 - servers refuse in many ways
        found = {}
    listed = (found.get(claim.path) for claim in claims)
    return [listing if listing and any(listing) else None for listing in listed]


def _entries(form: KeyedFormat, metadata: ArrayMetadata) -> int:
    """Return how many entries for chunks an array's directory may have."""
    grid = metadata.grid
    nested = "/" in form.chunk_key(metadata, (0,) * len(grid.counts))
    return max(grid.counts, default=1) if nested else grid.size


def _names(listing: Listing | None) -> list[str]:
    """Return the names of what may be nodes: chunks lie in directories with numbers, too."""
    if listing is None:
        return list(_PROBES)
    folders = _visible(listing[0])
    numbers = sorted(filter(str.isdecimal, folders), key=int)
    words = [name for name in folders if not name.isdecimal()]
    return [*words[:_MOST], *numbers[:2]]


def _is_node(form: KeyedFormat, documents: Documents) -> bool:
    """Return whether documents describe something: an array, or a group with attributes."""
    if not documents:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            metadata = form.read(documents, "")
    except N5Error:
        return True
    return isinstance(metadata, ArrayMetadata) or bool(metadata.attributes)


def _has_chunks(
    form: KeyedFormat, metadata: ArrayMetadata, listing: Listing, own: Mapping[str, Documents]
) -> bool:
    """Return whether chunks lie in a directory, or directories of chunks."""
    folders = any(name.isdecimal() and not documents for name, documents in own.items())
    return folders or any(form.chunk_index(metadata, name) is not None for name in listing[1])


def _nodes_below(store: Store, form: KeyedFormat, paths: Sequence[str]) -> list[str]:
    """Return the first nodes below directories that do not describe anything themselves."""
    for _ in range(_DEPTH if paths else 0):
        try:
            listings = store.list_many(paths)
            paths = [
                join(path, name)
                for path, (folders, _) in zip(paths, listings, strict=True)
                for name in _visible(folders)[:_MOST]
            ]
            several = get_all_documents(store, paths, form)
        except Exception:  # noqa: BLE001 - as above
            return []
        named = zip(paths, several, strict=True)
        if found := [path for path, each in named if _is_node(form, each)]:
            return found
        if not paths:
            break
    return []


def _first_array(store: Store, path: str, form: KeyedFormat) -> str | None:
    """Return the path of an array below a group, or None where none is found soon."""
    for _ in range(_DEPTH + 1):
        try:
            names = sorted(_visible(store.list(path)[0]), key=lambda name: (len(name), name))
            names = names[:_MOST] or list(_PROBES)
            several = get_all_documents(store, [join(path, name) for name in names], form)
            for name, documents in zip(names, several, strict=True):
                node = form.read(documents, name)
                inner = join(path, name)
                if isinstance(settle(store, inner, form, documents, node), ArrayMetadata):
                    return inner
        except Exception:  # noqa: BLE001 - what cannot be listed must not hide the error
            return None
        path = join(path, names[0])
    return None


def _visible(names: Sequence[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]
