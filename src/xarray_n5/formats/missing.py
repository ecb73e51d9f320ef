"""Errors for nodes that do not exist, with a hint at what exists instead."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING

from xarray_n5.errors import NodeNotFoundError
from xarray_n5.formats import TITLES
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.formats.structure import not_an_array
from xarray_n5.leaves import LOOK, scene_reader
from xarray_n5.model.alerts import REFUSED
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.options import near
from xarray_n5.stores import LocalStore, uncached

if TYPE_CHECKING:
    from xarray_n5.formats.open import Container
    from xarray_n5.formats.protocol import Kind, Node
    from xarray_n5.stores.base import Store

_MOST_COMPARED = 1000
"""The maximum number of names that are compared with a misspelt one."""

_SHOWN = 10
"""The maximum number of names that an error lists."""


def not_found(container: Container, node: Node, kind: Kind) -> NodeNotFoundError:
    """Return the error for opening a node that is absent, or of another kind."""
    hint = ""
    if kind == "group" and isinstance(node.metadata, ArrayMetadata):
        hint = "it is an array: use open_array"
    elif kind == "array" and isinstance(container, KeyedContainer) and container.is_false(node):
        return not_an_array(container.store, node.path)
    else:
        with suppress(*REFUSED):  # a server that lists nothing must not hide the real error
            hint = _hint(container, node.path)
    return NodeNotFoundError(container.url, node.path, kind, hint)


def _hint(container: Container, path: str) -> str:
    """Return a hint at what exists instead of a node; "" if that is unknown."""
    store = container.store if isinstance(container, KeyedContainer) else None
    if store is not None and (store.exists(path) or store.exists("")):
        return _file(store)
    names = container.children(path)
    while path and not names and not container.node(path).described:
        path = path.rpartition("/")[0]
        names = container.children(path)
    if foreign := container.foreign([path]):
        return f"{path or '/'!r} is {TITLES[foreign[1]]} ({foreign[1]}): pass its format, or none"
    if names:
        shown = ", ".join([*names[:_SHOWN], *["..."] * (len(names) > _SHOWN)])
        return f"{path or '/'!r} holds {shown}"
    return "" if container.node(path).described else _absent(store)


def _absent(store: Store | None) -> str:
    """Return whether a local container is empty or does not exist, with a similar name."""
    parent = None if store is None else store.parent()
    if store is None or parent is None or not isinstance(uncached(parent), LocalStore):
        return "the container is empty or does not exist"
    names = list(islice(chain(*parent.list("")), _MOST_COMPARED))
    if store.name in names or parent.exists(store.name):
        return "the container is empty"
    return f"the container does not exist{near(store.name, names)}"


def _file(store: Store) -> str:
    """Return the kind of a file that is not a container."""
    head = store.head("", LOOK)
    reader = None if head is None else scene_reader(head[0])
    if reader is not None:
        return reader.hint(store.get("", MOST_BYTES) or b"")
    return "it is a file, but not an HDF5 file on a local disk"
