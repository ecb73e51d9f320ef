"""Groups, and the doors to a container: open and create, arrays and groups."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from xarray_n5.arrays.array import Array, io_of
from xarray_n5.arrays.attributes import NodeAttributes, as_json
from xarray_n5.arrays.create import create_array
from xarray_n5.arrays.opening import OpenOptions
from xarray_n5.arrays.overwrite import check_overwrite, complete_group
from xarray_n5.arrays.repr import as_text, show_group
from xarray_n5.arrays.repr_tree import group_html
from xarray_n5.arrays.write_axes import without_image
from xarray_n5.errors import (
    N5Error,
    NodeNotFoundError,
    PathError,
    ReadOnlyError,
)
from xarray_n5.formats import get_format
from xarray_n5.formats.open import find_node, open_container
from xarray_n5.formats.protocol import Node
from xarray_n5.formats.unfinished import warn_unfinished
from xarray_n5.model.alerts import warn
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import join, new_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xarray_n5.arrays.array import AxisOrder
    from xarray_n5.arrays.chunk_io import EdgeChunks, Missing
    from xarray_n5.arrays.opening import LabelMultisets
    from xarray_n5.formats.protocol import Container as FileContainer
    from xarray_n5.model.metadata import Attributes


class Group(Mapping[str, "Array | Group"]):
    """A group in a container, as :func:`open_group` and :func:`create_group` return it.

    A mapping of names to the arrays and groups in it; names may be paths. It holds no cache:
    each look is at what the container holds now.
    """

    def __init__(
        self,
        container: FileContainer,
        node: Node,
        options: OpenOptions,
    ) -> None:
        self._container, self._node, self._options = container, node, options
        self._counted: tuple[str, ...] | None = None

    @property
    def path(self) -> str:
        """The group's path in its container."""
        return self._node.path

    @property
    def place(self) -> object:
        """The group's location, as its store distinguishes it from others."""
        return self._container.identity(self.path)

    @property
    def url(self) -> str:
        """The container's place and the group's path in one."""
        return join(self._container.url, self.path)

    @property
    def format(self) -> str:
        """The name of the container's format."""
        return self._container.format.name

    @property
    def attrs(self) -> NodeAttributes:
        """The user's attributes; setting one writes it."""
        return NodeAttributes(
            self._container,
            self.path,
            self._node.metadata.attributes,
            writable=self._options.writable,
            changed=self._attributes_changed,
            kind="group",
        )

    def _attributes_changed(self, attributes: Attributes) -> None:
        self._node = replace(self._node, metadata=GroupMetadata(attributes=attributes))

    def __repr__(self) -> str:
        return as_text(*show_group(self))

    def _repr_html_(self) -> str:
        return group_html(self)

    def __iter__(self) -> Iterator[str]:
        self._counted = None
        return self._names()

    def __len__(self) -> int:
        # Python asks for it when it makes a list, just after an iterator: one listing is enough.
        self._counted = self._list()
        return len(self._counted)

    def _names(self) -> Iterator[str]:
        names, self._counted = self._counted, None
        yield from self._list() if names is None else names

    def _list(self) -> tuple[str, ...]:
        return self._container.children(self.path)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not self._is_inside(name):
            return False
        (node,) = self._container.nodes([self._inner(name)], verify=False)
        # A link that is refused, or a node that cannot be read, is there, and can be deleted.
        return isinstance(node, N5Error) or self._container.exists(node)

    def __getitem__(self, name: str) -> Array | Group:
        node = self._container.node(self._inner(name))
        if not self._container.exists(node):
            raise KeyError(name)
        if isinstance(node.metadata, ArrayMetadata) and not self._options.writable:
            warn_unfinished(self._container.store, [node.path])
        return self._opened(node)

    def _is_inside(self, name: str) -> bool:
        try:
            self._inner(name)
        except PathError:
            return False
        return True

    def _inner(self, name: str) -> str:
        return join(self.path, self._container.format.normalize_path(name))

    def _opened(self, node: Node) -> Array | Group:
        if isinstance(node.metadata, GroupMetadata):
            return Group(self._container, node, self._options)
        return self._options.array(self._container, node.path, node.metadata)

    def nodes(self, names: Iterable[str], *, strict: bool = False) -> dict[str, Array | Group]:
        """Return the nodes at paths below; what cannot be read is left out, or raises."""
        paths = {name: self._inner(name) for name in names if self._is_inside(name)}
        nodes: dict[str, Array | Group] = {}
        for name, node in zip(paths, self._container.nodes(list(paths.values())), strict=True):
            if not isinstance(node, N5Error):
                nodes[name] = self._opened(node)
            elif strict:
                raise node
            else:
                warn(f"{name!r} is left out: {node}")
        if not self._options.writable:
            arrays = [node.path for node in nodes.values() if isinstance(node, Array)]
            warn_unfinished(self._container.store, arrays)
        return nodes

    def children(self, without: Container[str] = ()) -> dict[str, Array | Group]:
        """Return what is directly in the group but some names: one listing, one batch of reads."""
        return self.nodes(name for name in iter(self) if name not in without)

    def arrays(self, without: Container[str] = ()) -> dict[str, Array]:
        """Return the arrays directly in the group; see :meth:`children`."""
        children = self.children(without).items()
        return {name: node for name, node in children if isinstance(node, Array)}

    def groups(self) -> dict[str, Group]:
        """Return the groups directly in the group."""
        return {name: node for name, node in self.children().items() if isinstance(node, Group)}

    def create_array(self, name: str, **kwargs: Any) -> Array:
        """Create an array in the group; see :func:`create_array`."""
        self._check_writable()
        return create_array(self._container, self._inner(name), **kwargs)

    def create_group(self, name: str, **kwargs: Any) -> Group:
        """Create a group in the group; see :func:`create_group`."""
        self._check_writable()
        return create_group(self._container, self._inner(name), **kwargs)

    def delete(self, name: str) -> None:
        """Remove an array or a group with everything in it.

        Raises
        ------
        KeyError
            If there is no such node.
        """
        self._check_writable()
        path = self._inner(name)
        if path == self.path:
            raise ValueError("a group does not delete itself; delete it from its parent")
        if name not in self:
            raise KeyError(name)
        inner = path.removeprefix(self.path).strip("/").rpartition("/")[0]
        attributes = (self[inner] if inner else self).attrs
        if (left := without_image(attributes, path)) != attributes:
            attributes.put(left)
        self._container.delete(path)

    __delitem__ = delete

    def _check_writable(self) -> None:
        if not self._options.writable:
            raise ReadOnlyError(self._container.url, self.path)


def node_of(group: Group) -> Node:
    """Return a group as its container describes it."""
    return group._node  # noqa: SLF001


def container_of(node: Array | Group) -> FileContainer:
    """Return the container that a node was opened from."""
    return io_of(node).container if isinstance(node, Array) else node._container  # noqa: SLF001


def open_array(
    url: object,
    path: str = "",
    *,
    mode: Literal["r", "r+"] = "r",
    storage_options: Mapping[str, Any] | None = None,
    format: str | None = None,  # noqa: A002
    metadata: Mapping[str, Any] | None = None,
    assume_metadata: bool = False,
    axis_order: AxisOrder = "C",
    missing: Missing = "fill",
    cache_bytes: int = 0,
    label_multisets: LabelMultisets = "error",
    write_empty_chunks: bool = True,
    edge_chunks: EdgeChunks = "truncate",
) -> Array:
    """Open an array that exists.

    Parameters
    ----------
    url
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a
        pair of an fsspec filesystem and a path, or a store.
    path
        The array's path in the container; the container itself by default.
    mode
        "r" for reading, "r+" for writing too.
    storage_options
        What fsspec's filesystem takes.
    format
        The container's format; found out by default.
    metadata
        Members of ``attributes.json`` (in N5 order) that the array must have exactly.
    assume_metadata
        Read no metadata at all, but take `metadata` for true; what it does not say is as
        :func:`create_array` would choose it. A false assumption damages data.
    axis_order
        "F" turns the array round: axes in the order of ``dimensions``, as in Java.
    missing
        "fill": a chunk that is not stored reads as zeros. "error": it raises.
    cache_bytes
        How many bytes of decoded chunks are kept for the next read.
    label_multisets
        "argmax" reads Paintera's label multisets as their most frequent labels (uint64).
    write_empty_chunks
        Whether chunks of nothing but zeros are stored; all are where Zarr names no fill value.
    edge_chunks
        "truncate" stores chunks at the array's ends as far as it reaches; "pad" full-size.

    Returns
    -------
    Array

    Raises
    ------
    NodeNotFoundError
        If there is no array.
    MetadataError
        If its metadata cannot be understood, or is not what `metadata` says.
    """
    check_option("mode", mode, "r", "r+")
    options = OpenOptions(
        writable=mode == "r+",
        axis_order=axis_order,
        missing=missing,
        cache_bytes=cache_bytes,
        label_multisets=label_multisets,
        write_empty=write_empty_chunks,
        edges=edge_chunks,
    )
    if assume_metadata:
        name = get_format(format).name  # so that nothing is read to find it out
        container, path = open_container(url, path, storage_options, name)
        assumed = container.format.assume(metadata or {}, container.where(path))
        return options.array(container, path, assumed)
    container, node = find_node(url, path, storage_options, format, writable=mode == "r+")
    if not isinstance(node.metadata, ArrayMetadata):
        raise container.not_found(node, "array")
    if metadata:
        container.matches(node, metadata)
    return options.array(container, node.path, node.metadata)


def open_group(
    url: object,
    path: str = "",
    *,
    mode: Literal["r", "r+"] = "r",
    storage_options: Mapping[str, Any] | None = None,
    format: str | None = None,  # noqa: A002
    cache_metadata: bool = False,
) -> Group:
    """Open a group that exists; in N5 every directory is one.

    Parameters
    ----------
    url, path, storage_options, format
        As in :func:`open_array`.
    mode
        "r" for reading, "r+" for writing too.
    cache_metadata
        Whether metadata are read, and groups are listed, once for this group and all that is
        opened from it: what others write after that is not seen. For reading only.

    Returns
    -------
    Group

    Raises
    ------
    NodeNotFoundError
        If there is nothing, or an array.
    """
    check_option("mode", mode, "r", "r+")
    if cache_metadata and mode != "r":
        raise ValueError("cache_metadata=True is for mode='r': a write goes by what is there now")
    writable = mode == "r+"
    container, node = find_node(
        url, path, storage_options, format, writable=writable, cached=cache_metadata
    )
    if not isinstance(node.metadata, GroupMetadata) or not container.exists(node):
        raise container.not_found(node, "group")
    return Group(container, node, OpenOptions(writable=writable))


def open_node(
    url: object,
    path: str = "",
    *,
    storage_options: Mapping[str, Any] | None = None,
    format: str | None = None,  # noqa: A002
    axis_order: AxisOrder = "C",
    missing: Missing = "fill",
    label_multisets: LabelMultisets = "error",
    whole: bool = False,
) -> Array | Group:
    """Open what is at `path` for reading, be it an array or a group whose arrays open alike.

    Metadata are read once from here on; with `whole`, those of all that is below at once.

    Raises
    ------
    NodeNotFoundError
        If there is nothing.
    """
    container, node = find_node(url, path, storage_options, format, cached=True)
    options = OpenOptions(axis_order=axis_order, missing=missing, label_multisets=label_multisets)
    if isinstance(node.metadata, ArrayMetadata):
        return options.array(container, node.path, node.metadata)
    bare = not node.described and container.foreign([node.path])
    if not container.exists(node) or bare:
        raise container.not_found(node, "array or group")
    if whole:
        container.prefetch(node.path)
    return Group(container, node, options)


def open_existing(url: object, path: str, mode: str, **options: Any) -> Array | None:
    """Return the array that a write with `mode` would go into, or None where it makes a new one."""
    if mode not in {"a", "r+"}:
        return None
    try:
        return open_array(url, path, mode="r+", **options)
    except NodeNotFoundError:
        return None


def create_group(
    url: object,
    path: str = "",
    *,
    attributes: Mapping[str, Any] | None = None,
    mode: Literal["w-", "a"] = "w-",
    format: str | None = None,  # noqa: A002
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Create a group, or open one.

    Parameters
    ----------
    url, path, storage_options, format
        As in :func:`create_array`.
    attributes
        The user's attributes; JSON values.
    mode
        "w-" raises where there is something; "a" opens a group that is there, and adds
        `attributes` to its own.

    Returns
    -------
    Group
        Open for writing.

    Raises
    ------
    NodeExistsError
        If there is something that `mode` does not allow.
    """
    check_option("mode", mode, "w-", "a")
    container, path = open_container(url, path, storage_options, format)
    path = new_path(path, container.documents)
    at = container.where(path)
    metadata = GroupMetadata(attributes=as_json(attributes or {}, at))
    node = container.node(path)
    found, options = node.metadata, OpenOptions(writable=True)
    if mode == "a" and isinstance(found, GroupMetadata) and container.exists(node):
        complete_group(container, node)
        group = Group(container, node, options)
        if metadata.attributes:
            group.attrs.update(metadata.attributes)
        return group
    container.format.check(metadata, at)
    check_overwrite(container, node).create(metadata)
    return Group(container, Node(path=path, metadata=metadata), options)
