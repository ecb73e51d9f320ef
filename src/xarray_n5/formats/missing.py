"""Errors for nodes that are absent, or of another kind, with hints at what exists instead."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING

from xarray_n5.errors import NodeNotFoundError
from xarray_n5.formats.structure import not_an_array
from xarray_n5.leaves import LOOK, scene_reader
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.options import near
from xarray_n5.stores import LocalStore, uncached

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.formats.protocol import KeyedFormat, Kind, Node
    from xarray_n5.stores.base import Store

_ZARR = (".zarray", ".zgroup")

_EMPTY = "the container is empty or does not exist"

_MOST = 1000
"""The maximum number of names that are compared with a misspelt one."""

_SHOWN = 10
"""The maximum number of names that an error lists."""


def not_found(store: Store, form: KeyedFormat, node: Node, kind: Kind) -> NodeNotFoundError:
    """Return the error for opening a node that is absent, or of another kind."""
    if kind == "group" and isinstance(node.metadata, ArrayMetadata):
        return NodeNotFoundError(store.url, node.path, kind, "it is an array: use open_array")
    if kind == "array" and isinstance(form.read(node.documents, ""), ArrayMetadata):
        return not_an_array(store, node.path)
    return NodeNotFoundError(store.url, node.path, kind, _hint(store, form, node.path))


def _hint(store: Store, form: KeyedFormat, path: str) -> str:
    """Return a hint at what exists instead of a node; "" if that is unknown."""
    try:
        if store.exists(path) or store.exists(""):
            return _file(store)
        while True:
            folders, files = store.list(path)
            if "zarr.json" in set(files) - set(form.documents):
                return f"{path or '/'!r} is Zarr v3 (zarr.json): use format='zarr3'"
            if zarr := sorted(set(files) & set(_ZARR) - set(form.documents)):
                return f"{path or '/'!r} is Zarr v2 ({zarr[0]}): use format='zarr2'"
            if folders or not path or not set(form.documents).isdisjoint(files):
                break
            path = path.rpartition("/")[0]
    except Exception:  # noqa: BLE001 - a server that lists nothing must not hide the real error
        return ""
    described = not set(form.documents).isdisjoint(files)
    hint = list_names(path, [name for name in folders if not name.startswith(".")], described)
    return _local_hint(store) if hint == _EMPTY else hint


def _local_hint(store: Store) -> str:
    """Return whether a local container is empty or does not exist, with a similar name."""
    with suppress(Exception):  # as above
        parent = store.parent()
        if parent is not None and isinstance(uncached(parent), LocalStore):
            names = list(islice(chain(*parent.list("")), _MOST))
            if store.name in names or parent.exists(store.name):
                return "the container is empty"
            return f"the container does not exist{near(store.name, names)}"
    return _EMPTY


def list_names(path: str, names: Sequence[str], described: bool) -> str:
    """Return the hint with the names of a group's nodes."""
    if not names:
        return "" if described else _EMPTY
    shown = ", ".join([*names[:_SHOWN], *["..."] * (len(names) > _SHOWN)])
    return f"{path or '/'!r} holds {shown}"


def _file(store: Store) -> str:
    """Return the kind of a file that is not a container."""
    head = store.head("", LOOK)
    reader = None if head is None else scene_reader(head[0])
    if reader is not None:
        return reader.hint(store.get("", MOST_BYTES) or b"")
    return "it is a file, but not an HDF5 file on a local disk"
