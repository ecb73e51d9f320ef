"""Refuse writes whose tasks read what they are about to replace."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.node import ArrayNode
from xarray_n5.errors import NodeExistsError
from xarray_n5.writing.user_code import objects_in

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import dask.array as da

    from xarray_n5.writing.options import WriteOptions

_REMOTE = "remote://"
"""The beginning of locations in object stores and on servers."""


def check_independent(
    source: da.Array, places: Collection[object], *, groups: Collection[object] = ()
) -> None:
    """Raise if `source` reads from an array that is replaced or changed.

    Arrays of this package, of zarr and of h5py are recognised, as arguments of tasks or lazily
    indexed by xarray; not those in objects or files of other packages.

    Parameters
    ----------
    source
        The data to write.
    places
        The identities of the nodes that are replaced or changed, as their stores report them.
    groups
        The identities of groups whose arrays are all replaced.

    Raises
    ------
    NodeExistsError
        If a task reads one of the arrays.
    """
    replaced = {location_of(place) for place in places}
    emptied = {location_of(place) for place in groups}
    objects = objects_in(source.dask) if replaced or emptied else ()
    for location, url in filter(None, map(_read_by, objects)):
        nodes = _with_parents(location)
        if replaced.intersection(nodes) or emptied.intersection(nodes[:2]):
            folder, _, name = url.rpartition("/")
            hint = "load the data first, with x.compute() or ds.load(), or write to another path"
            raise NodeExistsError(folder, name, "the new values are computed from it", hint)


def check_apart(sources: Mapping[str, Any], options: WriteOptions) -> None:
    """Raise NodeExistsError if one of several arrays is computed from what another one replaces.

    The `sources` are the data of the arrays by path.
    """
    container = options.container
    if options.mode == "w":
        places = [container.identity(at) for at in sources if container.exists(container.node(at))]
        for source in filter(is_dask_collection, sources.values() if places else ()):
            check_independent(source, places)


def location_of(place: object) -> str:
    """Return the location of a node, given its identity.

    >>> location_of(("local", "/data/a.n5/em"))
    '/data/a.n5/em'
    """
    match place:
        case ("local", str(path)):
            return path.rstrip("/")
        case ("hdf5", str(file), node):
            return f"{file}/{node}"
        case ("memory", name, path):
            return f"dict://{name}/{path}".rstrip("/")
        case ("fsspec", str(path), *_):
            return _remote(path)
    return repr(place)


def _with_parents(location: str) -> list[str]:
    """Return the location of a node and those around it, from the inside out.

    >>> _with_parents("/data/a.n5")
    ['/data/a.n5', '/data', '']
    """
    parts = location.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _read_by(item: Any) -> tuple[str, str] | None:
    """Return the location and the URL of the array that an object reads; None if it is not one."""
    node = item.node if isinstance(item, Array) else item
    if isinstance(node, ArrayNode):
        return location_of(node.identity), node.url
    kind = type(item)
    match kind.__module__.partition(".")[0], kind.__name__:
        case "zarr", "Array" | "AsyncArray":
            at = getattr(item, "store_path", item)  # the array itself in zarr 2
            location = "/".join(filter(None, (_root_of(at.store), at.path)))
            return location, location.removeprefix(_REMOTE)
        case "h5py", "Dataset" if item:  # a closed one reads nothing
            file = os.path.realpath(os.fsdecode(item.file.filename))
            # Links give a node several names, but it has one address.
            address = sys.modules["h5py"].h5o.get_info(item.id).addr
            return f"{file}/{address}", f"{file}{item.name}"
    return None


def _root_of(store: Any) -> str:
    """Return the location of a zarr store; "" if it is in memory."""
    path: Any = getattr(store, "root", None) or getattr(store, "path", "")
    protocols = getattr(getattr(store, "fs", None), "protocol", "file")
    if "file" in ([protocols] if isinstance(protocols, str) else protocols):
        return os.path.realpath(path) if path else ""
    return _remote(path)


def _remote(path: str) -> str:
    return f"{_REMOTE}{path.strip('/')}"
