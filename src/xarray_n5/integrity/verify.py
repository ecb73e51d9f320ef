"""The public :func:`verify`: check an array, or all arrays in a container or a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.open import Walk
from xarray_n5.arrays.records import look, read, read_appends, state_of
from xarray_n5.errors import ChunkError, MetadataError, MissingChunkError, NodeNotFoundError
from xarray_n5.integrity.report import report
from xarray_n5.model.paths import HIDDEN, join

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.arrays.open import Entry


def verify(
    url: object,
    path: str = "",
    *,
    deep: bool = True,
    strict: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> xr.Dataset | Any:  # of a group a DataTree, on which `.state.values` would be an error
    """Check each stored chunk, lazily, to be computed in parallel.

    Parameters
    ----------
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store.
    path : str, default: ""
        The path of an array or a group in the container; by default the container itself.
    deep : bool, default: True
        Whether to decode chunks and compare them with the digests of writes with the option
        `checksums`; otherwise only headers and sizes are checked, which finds truncated chunks
        without compression or with blosc, and little else. An object store is listed once
        for that, and headers are read only where a size is wrong: of compressed chunks, only those
        that are truncated within the header are found there.
    strict : bool, default: False
        Whether to compute the report now, and raise an error unless every chunk is "ok", no write
        is unfinished and all nodes can be read.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        Of an array, on the chunk grid: ``state`` ("ok", "missing", "truncated", "undecodable",
        "wrong-shape", "digest-differs"); ``bytes``, the stored size (int64); and ``digest``, the
        XXH3 of the elements (uint64; 0 if they were not decoded). Of the attributes, ``stray``
        lists files of the array that are not chunks, ``unfinished`` its unfinished writes, and
        ``digests`` is whether it has digests. A chunk that was never written is "missing", which
        need not be an error.

        Of a group, a tree with such a node for each array in it, at its path in the group; its
        attribute ``errors`` has the messages, by path, of nodes that cannot be read. Writes of a
        group, and appends to it, are unfinished writes of its arrays; the tree's attribute
        ``unfinished`` lists all, also of groups without arrays.

    Raises
    ------
    NodeNotFoundError
        If there is no node, or no array in the group.
    MetadataError
        If the metadata of the array at `path` are invalid; with `strict`, those of any node, or if
        a write is unfinished.
    MissingChunkError, ChunkError
        With `strict`, if a chunk is missing or damaged; the error names the first one.

    See Also
    --------
    repair : Remove damaged chunks.
    chunk_map : Find stored chunks without reading them.

    Examples
    --------
    >>> values = da.ones((4, 6), chunks=(2, 3))
    >>> with xarray_n5.set_options(checksums=True):
    ...     _ = xarray_n5.to_n5(values, "cells.n5", "raw")
    >>> report = xarray_n5.verify("cells.n5", "raw").compute()
    >>> report.state.values
    array([['ok', 'ok'],
           ['ok', 'ok']], dtype='<U14')
    >>> damaged = report.where(~report.state.isin(["ok", "missing"]), drop=True)
    >>> damaged.sizes["dim_0"]
    0
    """
    walk = Walk.at(url, path, storage_options, whole=True)
    nodes = [*walk.nodes()]
    arrays, errors = arrays_in(walk, nodes, strict=strict)
    reports = {at: (_intact if strict else report)(arr, deep=deep) for at, arr in arrays.items()}
    unfinished = {at: table.attrs["unfinished"] for at, table in reports.items()}
    if isinstance(walk.root, Group):
        add_groups(walk, nodes, unfinished)
    for at in filter(unfinished.get, unfinished if strict else ()):
        raise MetadataError(f"{join(walk.container.url, at)} has an unfinished write: resume it")
    if isinstance(walk.root, Array):
        return reports[walk.root.path]
    tree = xr.DataTree.from_dict({inner_path(walk, at): table for at, table in reports.items()})
    tokens = sorted({token for several in unfinished.values() for token in several})
    tree.attrs = {"group": walk.root.url, "errors": errors, "unfinished": tokens}
    return tree


def arrays_in(
    walk: Walk, nodes: Collection[Entry], *, strict: bool
) -> tuple[dict[str, Array], dict[str, str]]:
    """Return arrays by their paths, and the messages of what cannot be read, by paths in the group.

    Raises
    ------
    NodeNotFoundError
        If there is neither.
    MetadataError
        With `strict`, if anything cannot be read.
    """
    arrays = {node.path: node.node for node in nodes if isinstance(node.node, Array)}
    errors = {inner_path(walk, node.path): str(node.problem) for node in nodes if node.node is None}
    for inner in errors if strict else ():
        raise MetadataError(f"{join(walk.root.url, inner)}: {errors[inner]}")
    if not arrays and not errors:
        why = "no arrays found; check the URL and the path"
        raise NodeNotFoundError(walk.container.url, walk.root.path, "array", why)
    return arrays, errors


def inner_path(walk: Walk, path: str) -> str:
    """Return the path of a node in the group where a walk begins."""
    return path.removeprefix(walk.root.path).strip("/")


def add_groups(walk: Walk, nodes: Collection[Entry], unfinished: dict[str, list[str]]) -> None:
    """Add the tokens of unfinished writes of groups to those of their arrays, by path.

    An append is one of each array that it makes longer; a group may have no arrays yet.
    """
    arrays, store = [*unfinished], walk.container.uncached().store
    around = {path.rpartition("/")[0] for path in arrays if path}
    groups = sorted(around.union(node.path for node in nodes if isinstance(node.node, Group)))
    listings = store.list_many([join(group, HIDDEN) for group in groups]) if groups else ()
    for group, listing in zip(groups, listings, strict=True):
        state = state_of(listing)
        below = [path for path in arrays if path.startswith(f"{group}/" if group else "")]
        writes = [(below, token) for token in state.unfinished]
        for facts in read_appends(store, group, state.appends).values():
            grown = [join(group, name) for name in facts.get("grows", ())]
            writes.append((grown or below, str(facts.get("token", ""))))
        for paths, token in writes:
            for path in paths or [group]:
                unfinished.setdefault(path, []).append(token)


def _intact(array: Array, *, deep: bool) -> xr.Dataset:
    """Return the computed report of an array; raise if a chunk is missing or damaged.

    A finished write may have left out empty chunks.
    """
    table, store = report(array, deep=deep).load(), array.node.container.uncached().store
    states = table["state"].to_numpy()
    intact, state = states == "ok", look(store, array.path)
    for row in filter(state.believes, state.rows):
        if row.box is not None and (read(store, array.path, row.name) or {}).get("sparse"):
            box = tuple(slice(side.start, side.stop) for side in row.box)
            intact[box] |= states[box] == "missing"
    for at in np.argwhere(~intact)[:1]:
        key, what = array.node.key(tuple(map(int, at))), str(states[tuple(at)])
        names, counts = np.unique(states, return_counts=True)
        of = ", ".join(f"{count} {name}" for name, count in zip(names, counts, strict=True))
        kind = MissingChunkError if what == "missing" else ChunkError
        why = f"{what}; of all chunks of the array: {of}; see xarray_n5.repair"
        raise kind("decode", array.node.container.url, key, why)
    return table
