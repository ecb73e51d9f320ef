"""Groups: mappings of names to arrays and groups."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from xarray_n5.arrays.array import Array, OpenOptions
from xarray_n5.arrays.attributes import NodeAttributes
from xarray_n5.arrays.create import create_array
from xarray_n5.arrays.info import SHOWN, ArrayInfo, GroupInfo, Tree
from xarray_n5.arrays.overwrite import check_overwrite, complete_group, remove, without_image
from xarray_n5.arrays.unfinished import warn_of_writes
from xarray_n5.errors import N5Error, PathError, ReadOnlyError
from xarray_n5.formats.documents import unfinished, warn_unfinished
from xarray_n5.formats.open import open_container
from xarray_n5.formats.protocol import Node
from xarray_n5.model.alerts import warn
from xarray_n5.model.json import as_json
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.options import check_option, suggest_keywords
from xarray_n5.model.paths import join, new_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from xarray_n5.arrays.node import EdgeChunks
    from xarray_n5.formats import FormatName
    from xarray_n5.formats.containers import Container as FileContainer
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.model.metadata import Attributes

_LISTED, _SHOWN = 200, 1000
"""The maximum number of groups that a tree lists, and of nodes that it shows."""


@suggest_keywords
class Group(Mapping[str, "Array | Group"]):
    """A group in a container, as :func:`open_group` and :func:`create_group` return it.

    A mapping of names to the arrays and groups in it; names may be paths. Nothing is cached: each
    access reads what the container holds now. ``del group[name]`` removes an array or a group with
    everything in it.

    Examples
    --------
    >>> group = xarray_n5.create_group("cells.n5")
    >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
    >>> list(group), "em/raw" in group
    (['em'], True)
    >>> group["em/raw"].shape
    (4, 6)
    >>> del group["em"]
    >>> len(group)
    0
    """

    def __init__(self, container: FileContainer, node: Node, options: OpenOptions) -> None:
        self._container, self._node, self._options = container, node, options
        self._counted: tuple[str, ...] | None = None

    @property
    def container(self) -> FileContainer:
        """The container of the group, for extensions.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> group.container.name
        'cells.n5'
        """
        return self._container

    @property
    def node(self) -> Node:
        """The group as its container describes it, for extensions.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5", attributes={"species": "mouse"})
        >>> group.node.metadata.attributes
        {'species': 'mouse'}
        """
        return self._node

    @property
    def path(self) -> str:
        """The path of the group in its container; "" if it is the root.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
        >>> group["em"].path
        'em'
        """
        return self.node.path

    @property
    def url(self) -> str:
        """The location of the container and the path of the group, joined.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
        >>> group["em"].url
        '.../cells.n5/em'
        """
        return join(self.container.url, self.path)

    @property
    def format(self) -> str:
        """The name of the format of the container: "n5", "zarr2", "zarr3" or "hdf5".

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
        >>> group.format
        'n5'
        """
        return self.container.format.name

    @property
    def attrs(self) -> NodeAttributes:
        """The attributes of the user, as a mutable mapping; changes are written immediately.

        Values are JSON.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
        >>> group.attrs["species"] = "mouse"
        >>> dict(xarray_n5.open_group("cells.n5").attrs)
        {'species': 'mouse'}
        """
        return NodeAttributes(
            self.container,
            self.path,
            self.node.metadata.attributes,
            writable=self._options.writable,
            changed=self._attributes_changed,
            kind="group",
        )

    def _attributes_changed(self, attributes: Attributes) -> None:
        self._node = replace(self._node, metadata=GroupMetadata(attributes=attributes))

    @property
    def info(self) -> GroupInfo:
        """The facts about the group and the nodes directly in it, for people to read.

        As text, and in notebooks as HTML. Its fields, such as ``attributes`` and ``children``, are
        for programs.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
        >>> group["em"].info
        <xarray_n5.Group '.../cells.n5/em'>
            raw  4 x 6 uint8, chunks 2 x 3, gzip
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # opening them warns separately
            return _Look().info(self, depth=1)

    def tree(self, depth: int | None = None) -> Tree:
        """Show the nodes below the group, as text and, in notebooks, as HTML that unfolds.

        Parameters
        ----------
        depth : int, optional
            How many levels of groups to list; by default all, up to some hundreds of nodes.

        Returns
        -------
        Tree
            An object that shows the tree.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
        >>> group.tree()
        /
        └── em/
            └── raw  4 x 6 uint8, chunks 2 x 3, gzip
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as above
            return Tree(_Look(groups=_LISTED, nodes=_SHOWN, geometries=0).info(self, depth=depth))

    def __repr__(self) -> str:
        return repr(self.info)

    def _repr_html_(self) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as above
            return _Look(geometries=24).info(self, depth=None)._repr_html_()

    def __iter__(self) -> Iterator[str]:
        self._counted = None
        return self._names()

    def __len__(self) -> int:
        # Python calls this to make a list, just after an iterator: one listing is enough.
        self._counted = self._list()
        return len(self._counted)

    def _names(self) -> Iterator[str]:
        names, self._counted = self._counted, None
        yield from self._list() if names is None else names

    def _list(self) -> tuple[str, ...]:
        return self.container.children(self.path)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not self._is_inside(name):
            return False
        (node,) = self.container.nodes([self._inner(name)], verify=False)
        # A refused link, or an unreadable node, exists, and can be deleted.
        return isinstance(node, N5Error) or self.container.exists(node)

    def __getitem__(self, name: str) -> Array | Group:
        node = self.container.node(self._inner(name))
        if not self.container.exists(node):
            raise KeyError(name)
        if isinstance(node.metadata, ArrayMetadata) and not self._options.writable:
            warn_unfinished(self.container.store, [node.path])
        return self._opened(node)

    def _is_inside(self, name: str) -> bool:
        with suppress(PathError):
            return self._inner(name) is not None
        return False

    def _inner(self, name: str) -> str:
        return join(self.path, self.container.format.normalize_path(name))

    def _opened(self, node: Node) -> Array | Group:
        if isinstance(node.metadata, GroupMetadata):
            return Group(self.container, node, self._options)
        return self._options.array(self.container, node.path, node.metadata)

    def nodes(self, paths: Iterable[str], *, strict: bool = False) -> dict[str, Array | Group]:
        """Return the nodes at some paths, with one batch of reads.

        Parameters
        ----------
        paths : iterable of str
            Names of nodes, or their paths in the group.
        strict : bool, default: False
            Whether unreadable nodes raise; otherwise they are left out, with a warning.

        Returns
        -------
        dict of str to Array or Group
            The nodes that exist, by path.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
        >>> list(group.nodes(["em", "em/raw"]))
        ['em', 'em/raw']
        """
        inside = {name: self._inner(name) for name in paths if self._is_inside(name)}
        nodes: dict[str, Array | Group] = {}
        for name, node in zip(inside, self.container.nodes(list(inside.values())), strict=True):
            if not isinstance(node, N5Error):
                nodes[name] = self._opened(node)
            elif strict:
                raise node
            else:
                warn(f"{name!r} is left out: {node}")
        if not self._options.writable:
            arrays = [node.path for node in nodes.values() if isinstance(node, Array)]
            warn_of_writes(self.container.store, arrays, self.path)
        return nodes

    def children(self, without: Container[str] = ()) -> dict[str, Array | Group]:
        """Return the nodes directly in the group, with one listing and one batch of reads.

        Parameters
        ----------
        without : container of str, default: ()
            The names of nodes to leave out, which are not read.

        Returns
        -------
        dict of str to Array or Group
            The nodes by name. Those that cannot be read are left out, with a warning.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
        >>> list(group.children()), list(group.children(without=["em"]))
        (['em'], [])
        """
        return self.nodes(name for name in iter(self) if name not in without)

    def arrays(self, without: Container[str] = ()) -> dict[str, Array]:
        """Return the arrays directly in the group, with one listing and one batch of reads.

        Parameters
        ----------
        without : container of str, default: ()
            The names of nodes to leave out, which are not read.

        Returns
        -------
        dict of str to Array
            The arrays by name. Arrays whose metadata cannot be read are left out, with a warning.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
        >>> {name: array.shape for name, array in group["em"].arrays().items()}
        {'raw': (4, 6)}
        """
        children = self.children(without).items()
        return {name: node for name, node in children if isinstance(node, Array)}

    def groups(self) -> dict[str, Group]:
        """Return the groups directly in the group, with one listing and one batch of reads.

        Returns
        -------
        dict of str to Group
            The groups by name.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> raw = group.create_array("em/raw", shape=(4, 6), dtype="uint8", chunks=(2, 3))
        >>> list(group.groups())
        ['em']
        """
        return {name: node for name, node in self.children().items() if isinstance(node, Group)}

    def create_array(
        self,
        name: str,
        *,
        shape: Sequence[int],
        dtype: npt.DTypeLike,
        chunks: Sequence[int] | int | Literal["auto"] = "auto",
        compression: str | Mapping[str, Any] | Compression | None = "gzip",
        axes: Iterable[Axis | str | None] | Geometry | None = None,
        attributes: Mapping[str, Any] | None = None,
        mode: Literal["w-", "w", "a", "r+"] = "w-",
        dialect: str | Iterable[str] | None = None,
        chunk_elements: int = 1 << 20,
        chunk_aspect_ratio: Sequence[float] | None = None,
        layout: Mapping[str, Any] | None = None,
        write_empty_chunks: bool = True,
        edge_chunks: EdgeChunks = "truncate",
        shards: Sequence[int] | int | Literal["auto"] | None = None,
    ) -> Array:
        """Create an array in the group.

        Parameters
        ----------
        name : str
            The name of the array, or its path in the group; missing groups are created.
        shape : sequence of int
            The shape of the array, in elements, in C order.
        dtype : dtype
            One of the ten types of N5: uint8 to uint64, int8 to int64, float32, float64. Zarr v2
            supports all of fixed size, and ``object`` for strings.
        chunks : sequence of int, int or "auto", default: "auto"
            The shape of a chunk in C order, one side for all axes, or "auto" for chunks of
            `chunk_elements` whose sides are in the ratio of `chunk_aspect_ratio`.
        compression : str, mapping, Compression or None, default: "gzip"
            A name, such as "zstd"; the JSON object of ``attributes.json``, such as ``{"type":
            "gzip", "level": 1}``; a compression; or None for uncompressed chunks.
        axes : iterable of Axis, str or None, or Geometry, optional
            For each axis, in C order, an :class:`Axis`, a name or None.
        attributes : mapping, optional
            The attributes of the user; JSON values.
        mode : {"w-", "w", "a", "r+"}, default: "w-"
            "w-" creates the array, and raises if something exists; "w" replaces an existing array;
            "a" creates the array, or opens an existing one of the same shape, dtype and chunks (if
            given), and adds the attributes; "r+" does only the latter.
        dialect : str or iterable of str, optional
            The metadata dialects to write `axes` in; by default those that TensorStore,
            Neuroglancer and Fiji read.
        chunk_elements : int, default: 1048576
            The number of elements of chunks that are "auto", about.
        chunk_aspect_ratio : sequence of float, optional
            The ratio of the sides of chunks that are "auto"; by default all are equal.
        layout : mapping, optional
            How the format stores elements, in its own terms: of Zarr v2's ``.zarray`` "order",
            "dimension_separator", "filters", "fill_value" and "dtype" (for its byte order).
        write_empty_chunks : bool, default: True
            Whether to store chunks that hold nothing but zeros. Where Zarr defines no fill value,
            all are stored.
        edge_chunks : {"truncate", "pad"}, default: "truncate"
            "truncate" stores chunks at the ends of the array clipped to it; "pad" stores them at
            full size.
        shards : sequence of int, int or "auto", optional
            The shape of shards, files that hold several chunks, in Zarr v3: multiples of `chunks`
            along each axis, or "auto" for at most 256 MiB of elements. Chunks that are "auto" are
            chosen to fit.

        Returns
        -------
        Array
            The array, open for writing.

        Raises
        ------
        ReadOnlyError
            If the group is open for reading only.
        NodeExistsError
            If something exists that `mode` does not allow to replace.
        MetadataError
            If the format cannot hold the array.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> group.create_array("raw", shape=(4, 6), dtype="uint8", compression="zstd").path
        'raw'
        """
        options = {key: value for key, value in locals().items() if key not in {"self", "name"}}
        self._check_writable()
        return create_array(self.container, self._inner(name), **options)

    def create_group(
        self,
        name: str,
        *,
        attributes: Mapping[str, Any] | None = None,
        mode: Literal["w-", "a"] = "w-",
    ) -> Group:
        """Create a group in the group.

        Parameters
        ----------
        name : str
            The name of the new group, or its path in this one; missing groups are created.
        attributes : mapping, optional
            The attributes of the user; JSON values.
        mode : {"w-", "a"}, default: "w-"
            "w-" raises if an array, or a group that is not empty, exists; "a" opens an existing
            group, and adds `attributes` to its own.

        Returns
        -------
        Group
            The new group, open for writing.

        Raises
        ------
        ReadOnlyError
            If this group is open for reading only.
        NodeExistsError
            If something exists at this path that `mode` does not allow.

        Examples
        --------
        >>> group = xarray_n5.create_group("cells.n5")
        >>> group.create_group("em/labels", attributes={"species": "mouse"}).path
        'em/labels'
        """
        self._check_writable()
        return create_group(self.container, self._inner(name), attributes=attributes, mode=mode)

    def __delitem__(self, name: str) -> None:
        """Remove an array or a group with everything in it.

        Raises
        ------
        KeyError
            If the node does not exist.
        """
        self._check_writable()
        path = self._inner(name)
        if path == self.path:
            raise ValueError("a group cannot delete itself; delete it from its parent")
        if name not in self:
            raise KeyError(name)
        inner = path.removeprefix(self.path).strip("/").rpartition("/")[0]
        attributes = (self[inner] if inner else self).attrs
        if (left := without_image(attributes, path)) != attributes:
            attributes.put(left)
        remove(self.container, path)

    def _check_writable(self) -> None:
        if not self._options.writable:
            raise ReadOnlyError(self.container.url, self.path)


@dataclass(slots=True)
class _Look:
    """An overview of the nodes of a group, the nearest first; limits keep it cheap."""

    groups: int = 12
    """The maximum number of groups to list; each costs a listing and one batch of reads."""
    nodes: int = 100
    """The maximum number of groups and arrays to show."""
    geometries: int = 0
    """The maximum number of arrays whose axes are read; each costs one or two batches of reads."""
    listed: dict[str, tuple[dict[str, Array | Group], int]] = field(default_factory=dict)
    """The nodes in a group by its path, and the number of further ones."""
    unfinished: set[str] = field(default_factory=set)
    """The paths of arrays with an unfinished write."""

    def info(self, group: Group, *, depth: int | None) -> GroupInfo:
        """Return a description of a group, and of groups below it down to a depth."""
        queue = deque([(group, 1)])
        while queue and len(self.listed) <= self.groups and self.nodes:
            each, level = queue.popleft()
            with suppress(*([] if each is group else [N5Error, OSError])):
                self._list(each, SHOWN if each is group else min(SHOWN, self.nodes))
            children, _ = self.listed.get(each.path, ({}, 0))
            self.nodes = max(self.nodes - len(children), 0)
            if depth is None or level < depth:
                inner = (child for child in children.values() if isinstance(child, Group))
                queue.extend((child, level + 1) for child in inner)
        return self._group(group)

    def _list(self, group: Group, most: int) -> None:
        names = list(group)
        nodes = group.nodes(names[:most])
        paths = [node.path for node in nodes.values() if isinstance(node, Array)]
        self.unfinished |= unfinished(group.container.store, paths)
        self.listed[group.path] = (nodes, max(len(names) - most, 0))

    def _group(self, group: Group) -> GroupInfo:
        children, more = self.listed.get(group.path, (None, 0))
        return GroupInfo(
            url=group.url,
            path=group.path,
            attributes=dict(group.attrs),
            children=None if children is None else {n: self._node(c) for n, c in children.items()},
            more=more,
        )

    def _node(self, node: Array | Group) -> ArrayInfo | GroupInfo:
        if isinstance(node, Group):
            return self._group(node)
        geometry = node.geometry() if self.geometries else None
        self.geometries = max(self.geometries - 1, 0)
        return node._info(geometry, unfinished=node.path in self.unfinished)  # noqa: SLF001


@suggest_keywords
def create_group(
    url: object,
    path: str = "",
    *,
    attributes: Mapping[str, Any] | None = None,
    mode: Literal["w-", "a"] = "w-",
    format: FormatName | None = None,  # noqa: A002
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Create a group, or open one.

    Parameters
    ----------
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store.
    path : str, default: ""
        The path of the group in the container; missing groups on the way are created.
    attributes : mapping, optional
        The attributes of the user; JSON values.
    mode : {"w-", "a"}, default: "w-"
        "w-" raises if an array, or a group that is not empty, exists; "a" opens an existing group,
        and adds `attributes` to its own.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        The format of the container; by default that of an existing container. For a new one, it is
        guessed from the suffix (``.zarr``, ``.h5``); otherwise N5.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.

    Returns
    -------
    Group
        The group, open for writing.

    Raises
    ------
    NodeExistsError
        If something exists that `mode` does not allow.
    MetadataError
        If the attributes are not JSON.

    Examples
    --------
    >>> group = xarray_n5.create_group("cells.n5", "em", attributes={"species": "mouse"})
    >>> dict(group.attrs)
    {'species': 'mouse'}
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
