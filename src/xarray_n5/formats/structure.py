"""Documents of nodes in a key-value store, and whether a node is an array or a group.

Some writers put the members of an array on a group: BigStitcher on ``setupN``, others when they
copy attributes. Read as an array, such a group has only fill values. So the structure takes
precedence over attributes: a node that contains nodes, and no chunks of its own, is a group.

This needs a listing, which is made where it is cheap (local disks), where something is unusual (a
name or an attribute of groups), and, once for each array and process, where a selection finds
no chunk at all. An ordinary array in an object store is opened without it.
"""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from xarray_n5.dialects import array_keys, level_lists
from xarray_n5.errors import N5Error, NodeNotFoundError, UnfinishedWriteWarning, UnsafePathError
from xarray_n5.formats.protocol import Node
from xarray_n5.model.alerts import REFUSED, warn
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata, lists_levels
from xarray_n5.model.paths import HIDDEN, join, number_in, numbered
from xarray_n5.stores import CachedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from xarray_n5.formats.protocol import Documents, KeyedFormat
    from xarray_n5.model.paths import Kind
    from xarray_n5.stores.base import Listing, Store


_GROUPS: tuple[Kind, ...] = ("setup", "timepoint", "hdf5 timepoint")
"""Names of BigDataViewer's groups."""

_PROBES = ("timepoint0", "s0", "0")
"""Names that are tried if a listing is refused, or would be long."""

_LONG = 4096
"""The maximum number of entries of a directory that is listed."""

_MOST = 64
"""The maximum number of names in a directory that are checked."""

_arrays: set[object] = set()
"""Arrays without chunks that are known to be arrays, by their identity."""


def settle(store: Store, form: KeyedFormat, nodes: Sequence[Node]) -> list[Node]:
    """Return nodes with false arrays replaced by groups; all are listed in one batch."""
    claims = [] if form.states_kind else [node for node in nodes if _is_doubtful(store, node)]
    groups = {node.path for node in _groups_in(store, form, claims)} if claims else set()
    return [
        replace(node, metadata=form.as_group(node.documents, where(store, node.path, form)))
        if node.path in groups
        else node
        for node in nodes
    ]


def check_array(store: Store, form: KeyedFormat, path: str, metadata: ArrayMetadata) -> None:
    """Raise if an opened array turns out to be a group; checked once in a process.

    Raises
    ------
    NodeNotFoundError
        If it contains nodes.
    """
    if form.states_kind or store.identity(path) in _arrays:
        return
    if _groups_in(store, form, [Node(path=path, metadata=metadata)]):
        raise not_an_array(store, path)
    known_array(store, path)


def known_array(store: Store, path: str) -> None:
    """Remember that a node is an array, so that it need not be listed."""
    if store.concurrency > 1:
        _arrays.add(store.identity(path))


def not_an_array(store: Store, path: str) -> NodeNotFoundError:
    """Return the error for opening a group whose metadata are those of an array."""
    hint = (
        "it is a group, although its metadata are those of an array: it contains nodes; open one "
        "of them, or all with open_group or xarray.open_datatree"
    )
    return NodeNotFoundError(store.url, path, "array", hint)


def read_nodes(store: Store, form: KeyedFormat, paths: Sequence[str]) -> list[Node | N5Error]:
    """Return the nodes at several paths as their documents describe them, or errors."""
    known: dict[str, Documents] = {}
    with suppress(UnsafePathError):  # one unsafe path must not hide the others
        known = dict(zip(paths, get_all_documents(store, paths, form), strict=True))
    nodes: list[Node | N5Error] = []
    for path in paths:
        try:
            documents = known[path] if known else get_documents(store, path, form)
            nodes.append(described(store, form, path, documents))
        except N5Error as error:
            nodes.append(error)
    return nodes


def described(store: Store, form: KeyedFormat, path: str, documents: Documents) -> Node:
    """Return the node that documents describe."""
    return Node(
        path=path,
        metadata=form.read(documents, where(store, path, form)),
        described=bool(documents),
        incomplete=bool(documents) and documents.keys() <= {".zattrs"},
        documents=documents,
    )


def prefetch(store: Store, form: KeyedFormat, path: str) -> None:
    """Read the documents of all nodes below a group, one batch for each depth, into a cache.

    If a server cannot list, nothing is read.
    """
    level = [path]
    while level:
        try:
            listings = zip(level, store.list_many(level), strict=True)
        except REFUSED:  # who reads later reports it
            return
        inner = [join(path, name) for path, (names, _) in listings for name in _visible(names)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as above
            prefetch_documents(store, inner, form)
            nodes = [n for n in read_nodes(store, form, inner) if isinstance(n, Node)]
            settled = settle(store, form, nodes)
        level = [node.path for node in settled if isinstance(node.metadata, GroupMetadata)]


def _is_doubtful(store: Store, node: Node) -> bool:
    if not isinstance(node.metadata, ArrayMetadata):
        return False
    attributes = node.metadata.attributes
    name = node.path.rpartition("/")[2]
    is_group = any(number_in(name, kind) is not None for kind in _GROUPS)
    is_group = is_group or ".zgroup" in node.documents or lists_levels(attributes)
    of_groups = level_lists() - array_keys()
    return bool(store.concurrency == 1 or is_group or of_groups & attributes.keys())


def _groups_in(store: Store, form: KeyedFormat, claims: Sequence[Node]) -> list[Node]:
    """Return the false arrays as groups, with one batch of listings and one of documents."""
    listings = _listings(store, form, claims)
    names = [_names(listing) for listing in listings]
    paths = [join(claim.path, n) for claim, all_ in zip(claims, names, strict=True) for n in all_]
    prefetch_documents(store, paths, form)
    try:
        documents = iter(get_all_documents(store, paths, form))
    except PermissionError:
        documents = iter([{}] * len(paths))
    groups = []
    for claim, listing, tried in zip(claims, listings, names, strict=True):
        contents = {name: next(documents) for name in tried}
        nodes = {name for name, content in contents.items() if _is_node(form, content)}
        nodes |= set(numbered(listing[0] if listing else (), "timepoint").values())
        chunks = listing is not None and _has_chunks(form, _array(claim), listing, contents)
        nested = lists_levels(claim.metadata.attributes)
        if nodes and chunks and not nested:
            warn(
                f"{join(store.url, claim.path)} is an array with chunks that also contains nodes "
                f"({', '.join(sorted(nodes))}); opening the array: open the nodes by their paths"
            )
        elif nodes or (nested and not chunks):
            groups.append(claim)
    return groups


def _array(claim: Node) -> ArrayMetadata:
    return cast("ArrayMetadata", claim.metadata)


def _listings(store: Store, form: KeyedFormat, claims: Sequence[Node]) -> list[Listing | None]:
    """Return the listing of each directory; None if it is refused, or would be long."""
    short = [claim.path for claim in claims if _entries(form, _array(claim)) <= _LONG]
    try:
        listings = dict(zip(short, store.list_many(short), strict=True)) if short else {}
    except REFUSED:
        listings = {}
    listed = (listings.get(claim.path) for claim in claims)
    return [listing if listing and any(listing) else None for listing in listed]


def _entries(form: KeyedFormat, metadata: ArrayMetadata) -> int:
    """Return the maximum number of entries for chunks in an array's directory."""
    grid = metadata.grid
    nested = "/" in form.chunk_key(metadata, (0,) * len(grid.counts))
    return max(grid.counts, default=1) if nested else grid.size


def _names(listing: Listing | None) -> list[str]:
    """Return the names of possible nodes: chunks are in directories with numbers, too."""
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
    form: KeyedFormat, metadata: ArrayMetadata, listing: Listing, contents: Mapping[str, Documents]
) -> bool:
    """Return whether a directory contains chunks, or directories of chunks."""
    folders = any(name.isdecimal() and not documents for name, documents in contents.items())
    return folders or any(form.chunk_index(metadata, name) is not None for name in listing[1])


def _visible(names: Sequence[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]


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
    contents = iter(store.get_many(keys) if keys else ())
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
