"""Access to internals of arrays and groups, for tasks, Datasets and the command line."""
# ruff: noqa: SLF001

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import load_context
from xarray_n5.dialects import geometry_of
from xarray_n5.formats.unfinished import unfinished

if TYPE_CHECKING:
    from collections.abc import Container as Collection
    from collections.abc import Iterable, Iterator, Sequence

    from xarray_n5.arrays.chunk_io import ChunkIO
    from xarray_n5.arrays.group import Group
    from xarray_n5.dialects.protocol import ArrayContext, DialectChoice
    from xarray_n5.formats.protocol import Container, Node
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.grid import Index


def io_of(array: Array) -> ChunkIO:
    """Return the chunks of an array, in the stored order of axes."""
    return array._io


def container_of(node: Array | Group) -> Container:
    """Return the container that a node was opened from."""
    return node._io.container if isinstance(node, Array) else node._container


def node_of(group: Group) -> Node:
    """Return a group as its container describes it."""
    return group._node


def is_transposed(array: Array) -> bool:
    """Return whether an array was opened with ``axis_order="F"``."""
    return array._transposed


def bare(array: Array) -> Array:
    """Return an array without attributes and caches, as tasks carry it."""
    return Array(array._io.bare(), writable=array._writable, transposed=array._transposed)


def stored_chunks(array: Array) -> Iterator[Index]:
    """Iterate over the indices of an array's stored chunks, by listing them."""
    for index in array._io.stored_indices():
        if index in array._io.metadata.grid:
            yield array._ordered(index)


def chunk_key(array: Array, index: Sequence[int]) -> str:
    """Return the key of a chunk in the container."""
    return array._io.key(array._stored_index(index))


def with_shape(array: Array, shape: tuple[int, ...]) -> Array:
    """Return an array with the shape that a resize will give it; nothing is written."""
    metadata = replace(array._io.metadata, shape=array._ordered(shape))
    io = replace(array._io, metadata=metadata)
    return Array(io, writable=array._writable, transposed=array._transposed)


def is_unfinished(array: Array) -> bool:
    """Return whether an array has an unfinished write."""
    return array.path in unfinished(array._io.store, [array.path])


def foreign_key(array: Array) -> str | None:
    """Return the first key in an array's directory that is not its own, or None."""
    io = array._io
    return io.container.occupant(io.path, [io.metadata])


def context_of(
    array: Array, *, inherit: bool = False, like: ArrayContext | None = None
) -> ArrayContext:
    """Return an array as dialects see it; see :func:`~xarray_n5.arrays.context.load_context`."""
    io = array._io
    how: dict[str, Any] = {"inherit": inherit, "attribute_order": array._attribute_order}
    return load_context(io.container, io.path, io.metadata, like=like, **how)


def geometry_in(
    array: Array, context: ArrayContext, dialect: DialectChoice | None = None
) -> Geometry:
    """Return the axes that an array's context describes."""
    found = geometry_of(context, dialect)
    return found.transpose() if is_transposed(array) else found


def nodes_of(
    group: Group, names: Iterable[str], *, strict: bool = False
) -> dict[str, Array | Group]:
    """Return the nodes at paths below a group; unreadable ones are omitted, or raise."""
    return group._nodes(names, strict=strict)


def children_of(group: Group, without: Collection[str] = ()) -> dict[str, Array | Group]:
    """Return the nodes directly in a group, except some: one listing, one batch of reads."""
    return group._children(without)


def arrays_of(group: Group, without: Collection[str] = ()) -> dict[str, Array]:
    """Return the arrays directly in a group, except some: one listing, one batch of reads."""
    children = children_of(group, without).items()
    return {name: node for name, node in children if isinstance(node, Array)}
