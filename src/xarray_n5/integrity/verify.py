"""The public :func:`verify`: check an array, or all arrays in a container or a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.appends import appends_in
from xarray_n5.arrays.array import Array
from xarray_n5.arrays.claims import look, read
from xarray_n5.arrays.walk import Walk
from xarray_n5.errors import ChunkError, MetadataError, MissingChunkError, NodeNotFoundError
from xarray_n5.integrity.report import report
from xarray_n5.model.options import suggest_keywords
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@suggest_keywords
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
        Whether to decode chunks and compare them with the digests of ``to_n5(...,
        checksums=True)``; otherwise only headers and sizes are checked, which finds truncated
        chunks without compression or with blosc, and little else. An object store is listed once
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
        attribute ``errors`` has the messages, by path, of nodes that cannot be read. An append to a
        group, which may have only resized its arrays so far, is an unfinished write of each.

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
    >>> _ = xarray_n5.to_n5(values, "cells.n5", "raw", checksums=True)
    >>> report = xarray_n5.verify("cells.n5", "raw").compute()
    >>> report.state.values
    array([['ok', 'ok'],
           ['ok', 'ok']], dtype='<U14')
    >>> damaged = report.where(~report.state.isin(["ok", "missing"]), drop=True)
    >>> damaged.sizes["dim_0"]
    0
    """
    walk = Walk.at(url, path, storage_options, whole=True)
    check = _intact if strict else report
    if isinstance(walk.root, Array):
        return check(walk.root, deep=deep)
    reports, errors = {}, {}
    for found in walk.arrays():
        inner = found.path.removeprefix(walk.root.path).strip("/")
        if isinstance(found.node, Array):
            reports[inner] = check(found.node, deep=deep)
        elif strict:
            raise MetadataError(f"{join(walk.container.url, found.path)}: {found.problem}")
        else:
            errors[inner] = str(found.problem)
    if not reports and not errors:
        why = "no arrays found; check the URL and the path"
        raise NodeNotFoundError(walk.container.url, walk.root.path, "array", why)
    prefix = walk.root.path
    paths = {join(prefix, inner): inner for inner in reports}
    for at, token in appends_to(walk, paths).items():
        attributes = reports[paths[at]].attrs
        attributes["unfinished"] = [*attributes["unfinished"], token]
        if strict:
            raise _unfinished(attributes["array"])
    tree = xr.DataTree.from_dict(reports)
    tree.attrs = {"group": walk.root.url, "errors": errors}
    return tree


def appends_to(walk: Walk, paths: Iterable[str]) -> dict[str, str]:
    """Return the tokens of unfinished appends by the paths of arrays that they make longer."""
    growing: dict[str, str] = {}
    store, known = walk.container.uncached().store, set(paths)
    for group in {path.rpartition("/")[0] for path in known if path}:
        for facts in appends_in(store, group).values():
            for name in facts.get("grows", ()):
                growing[join(group, name)] = str(facts.get("token", ""))
    return {path: token for path, token in growing.items() if path in known}


def _intact(array: Array, *, deep: bool) -> xr.Dataset:
    """Return the computed report of an array; raise unless all is well."""
    found = report(array, deep=deep).load()
    states = found["state"].to_numpy()
    expected = (states == "ok") | ((states == "missing") & left_out(array))
    for at in np.argwhere(~expected)[:1]:
        key, state = array.node.key(tuple(map(int, at))), str(states[tuple(at)])
        names, counts = np.unique(states, return_counts=True)
        of = ", ".join(f"{count} {name}" for name, count in zip(names, counts, strict=True))
        kind = MissingChunkError if state == "missing" else ChunkError
        why = f"{state}; of all chunks of the array: {of}; see xarray_n5.repair"
        raise kind("decode", array.node.container.url, key, why)
    if found.attrs["unfinished"]:
        raise _unfinished(array.url)
    return found


def _unfinished(url: str) -> MetadataError:
    return MetadataError(f"{url} has an unfinished write; repeat it with resume=True")


def left_out(array: Array) -> np.ndarray:
    """Return for each chunk whether a finished write may have left it out, since it was empty."""
    store, empty = array.node.container.uncached().store, np.zeros(array.grid.counts, bool)
    for row in look(store, array.path).rows:
        if row.box is not None and (read(store, array.path, row.name) or {}).get("sparse"):
            empty[tuple(slice(side.start, side.stop) for side in row.box)] = True
    return empty
