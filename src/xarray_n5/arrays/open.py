"""Open arrays and groups that exist, and walk over the nodes below a group."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.errors import N5Error, UnfinishedWriteWarning
from xarray_n5.formats import TITLES, Hdf5, is_container_name
from xarray_n5.formats.containers import find_node
from xarray_n5.formats.hdf5.container import Hdf5Container
from xarray_n5.formats.keyed import KeyedContainer, not_found
from xarray_n5.formats.structure import prefetch
from xarray_n5.model.json import check_option
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.paths import base_path, join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xarray_n5.arrays.node import EdgeChunks, LabelMultisets, Missing
    from xarray_n5.dialects.protocol import AttributeOrder
    from xarray_n5.formats import FormatName
    from xarray_n5.formats.containers import Container


def open_array(
    url: object,
    path: str = "",
    *,
    mode: Literal["r", "r+"] = "r",
    storage_options: Mapping[str, Any] | None = None,
    format: FormatName | None = None,
    attribute_order: AttributeOrder = "auto",
    missing: Missing = "fill",
    label_multisets: LabelMultisets = "error",
    write_empty_chunks: bool = True,
    edge_chunks: EdgeChunks = "truncate",
) -> Array:
    """Open an existing array.

    Parameters
    ----------
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store.
    path : str, default: ""
        The path of the array in the container; by default the container itself.
    mode : {"r", "r+"}, default: "r"
        "r" for reading, "r+" for reading and writing.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        The format of the container; detected by default.
    attribute_order : {"auto", "C", "N5"}, default: "auto"
        The order of lists of axes in attributes, such as ``resolution``: "C" for the order of
        NumPy, "N5" for x first; "auto" for that of the programs that write the dialect.
    missing : {"fill", "error"}, default: "fill"
        "fill" reads chunks that are not stored as the fill value; "error" raises for them.
    label_multisets : {"error", "argmax", "count"}, default: "error"
        How to read Paintera's label multisets: "argmax" as their most frequent labels (uint64),
        "count" as the numbers of votes for these labels (int32); "error" raises.
    write_empty_chunks : bool, default: True
        Whether to store chunks that hold nothing but zeros. Where Zarr defines no fill value, all
        are stored.
    edge_chunks : {"truncate", "pad"}, default: "truncate"
        "truncate" stores chunks at the ends of the array clipped to it; "pad" stores them at full
        size.

    Returns
    -------
    Array
        The array. Nothing but its metadata has been read.

    Raises
    ------
    NodeNotFoundError
        If no array exists at `path`.
    MetadataError
        If its metadata are invalid.

    Examples
    --------
    >>> _ = xarray_n5.create_array("cells.n5", "raw", shape=(4, 6), dtype="uint8")
    >>> array = xarray_n5.open_array("cells.n5", "raw", mode="r+")
    >>> array[0, :3] = [1, 2, 3]
    >>> array[0]
    array([1, 2, 3, 0, 0, 0], dtype=uint8)
    """
    check_option("mode", mode, "r", "r+")
    options = OpenOptions(
        writable=mode == "r+",
        attribute_order=attribute_order,
        missing=missing,
        label_multisets=label_multisets,
        write_empty=write_empty_chunks,
        edges=edge_chunks,
    )
    container, node = find_node(url, path, storage_options, format, writable=mode == "r+")
    if not isinstance(node.metadata, ArrayMetadata):
        raise not_found(container, node, "array")
    return Array(options.node(container, node.path, node.metadata))


def open_group(
    url: object,
    path: str = "",
    *,
    mode: Literal["r", "r+"] = "r",
    storage_options: Mapping[str, Any] | None = None,
    format: FormatName | None = None,
    attribute_order: AttributeOrder = "auto",
    cache_metadata: bool = False,
) -> Group:
    """Open an existing group; in N5 every directory is one.

    Parameters
    ----------
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store.
    path : str, default: ""
        The path of the group in the container; by default its root.
    mode : {"r", "r+"}, default: "r"
        "r" for reading, "r+" for reading and writing.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        The format of the container; detected by default.
    attribute_order : {"auto", "C", "N5"}, default: "auto"
        The order of lists of axes in attributes, such as ``resolution``: "C" for the order of
        NumPy, "N5" for x first; "auto" for that of the programs that write the dialect. It applies
        to all arrays that are opened from the group.
    cache_metadata : bool, default: False
        Read metadata and list groups once, for this group and everything that is opened from it;
        later changes by others are not seen. For ``mode="r"`` only.

    Returns
    -------
    Group
        A mapping of names to arrays and groups.

    Raises
    ------
    NodeNotFoundError
        If nothing exists at `path`, or an array.
    ValueError
        If `cache_metadata` is combined with ``mode="r+"``.

    Examples
    --------
    >>> _ = xarray_n5.create_array("cells.n5", "em/raw", shape=(4, 6), dtype="uint8")
    >>> group = xarray_n5.open_group("cells.n5", "em")
    >>> list(group)
    ['raw']
    """
    check_option("mode", mode, "r", "r+")
    if cache_metadata and mode != "r":
        raise ValueError("cache_metadata=True requires mode='r': writes need the current metadata")
    options = OpenOptions(writable=mode == "r+", attribute_order=attribute_order)
    container, node = find_node(
        url, path, storage_options, format, writable=options.writable, cached=cache_metadata
    )
    if not isinstance(node.metadata, GroupMetadata) or not container.exists(node):
        raise not_found(container, node, "group")
    return Group(container, node, options)


def open_node(
    url: object,
    path: str = "",
    *,
    storage_options: Mapping[str, Any] | None = None,
    format: str | None = None,
    attribute_order: AttributeOrder = "auto",
    missing: Missing = "fill",
    label_multisets: LabelMultisets = "error",
    whole: bool = False,
    listed: bool = False,
) -> Array | Group:
    """Open the array or group at `path` for reading; the arrays of a group open alike.

    Metadata are read once; with `whole`, those of all nodes below in batches. With `listed`, a
    group is expected, which is listed in any case. Below an HDF5 group, each group is listed once.

    Raises
    ------
    NodeNotFoundError
        If there is nothing.
    """
    options = OpenOptions(
        attribute_order=attribute_order, missing=missing, label_multisets=label_multisets
    )
    # Dialects need the base level next to a coarser one.
    ahead = [base for base in [base_path(path)] if base is not None]
    container, node = find_node(
        url, path, storage_options, format, cached=True, ahead=ahead, listed=listed
    )
    if isinstance(node.metadata, ArrayMetadata):
        return Array(options.node(container, node.path, node.metadata))
    bare = not node.described and container.foreign([node.path])
    if not container.exists(node) or bare:
        raise not_found(container, node, "array or group")
    if whole and isinstance(container, KeyedContainer) and container.batch > 1:
        prefetch(container.store, container.format, node.path)
    if isinstance(container, Hdf5Container):
        container = container.walking(node.path)
    return Group(container, node, options)


_CHUNK = re.compile(r"\d+([./]\d+)*")
"""Names of chunks, and of the directories that they are in."""

_DEPTH = 32
"""The maximum number of axes of an array whose directories are followed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A node, or something else, below a group."""

    path: str
    """Its path in the container."""
    node: Array | Group | None
    """The node; None if it is not a node, or cannot be read."""
    problem: Exception | str = ""
    """Why it could not be opened."""
    broken: bool = False
    """Whether it is damaged; otherwise it is a container to be opened separately."""

    @property
    def name(self) -> str:
        """Its name in the group."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk over a container."""

    root: Array | Group
    """Where the walk begins."""

    @property
    def container(self) -> Container:
        """The container."""
        return self.root.container

    @classmethod
    def at(
        cls,
        url: object,
        path: str,
        options: Mapping[str, Any] | None,
        *,
        whole: bool = False,
        attribute_order: AttributeOrder = "auto",
    ) -> Walk:
        """Return a walk that begins at a node; metadata are read once, or `whole` in batches."""
        opening: Any = {"attribute_order": attribute_order, "missing": "error", "whole": whole}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfinishedWriteWarning)  # walks report them
            return cls(open_node(url, path, storage_options=options, **opening))

    @property
    def is_plain(self) -> bool:
        """Whether the walk begins in a bare directory that is not named like a container."""
        inside = self.container.format.one_writer or is_container_name(self.container.name)
        return isinstance(self.root, Group) and not inside and not self.root.node.described

    def children(self, group: Group) -> Iterator[Entry]:
        """Iterate over the content of a group, by name."""
        errors: dict[str, N5Error] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfinishedWriteWarning)
            nodes = group.nodes(errors=errors)
        others = [] if group.node.described else self._files(group.path)
        for name in sorted({*nodes, *errors, *others}):
            path = join(group.path, name)
            if name in others:
                yield Entry(path, None, "HDF5: open it separately")
            elif name in errors:
                yield Entry(path, None, errors[name], broken=True)
            else:
                yield self.seen(nodes[name])

    def seen(self, node: Array | Group) -> Entry:
        """Return a node, unless it is a group only because any directory is one."""
        if isinstance(node, Array) or node.node.described:
            return Entry(node.path, node)
        if foreign := self.container.foreign([node.path]):
            return Entry(node.path, None, f"{TITLES[foreign[1]]}: open it separately")
        if self._like_chunks(node.path):
            document = self.container.where("").rpartition("/")[2]
            lost = f"has files that look like chunks, but no {document}"
            return Entry(node.path, None, lost, broken=True)
        return Entry(node.path, node)

    def nodes(self) -> Iterator[Entry]:
        """Iterate over all nodes, groups before their content, and over everything else."""

        def below(item: Entry) -> Iterator[Entry]:
            yield item
            if isinstance(item.node, Group):
                for child in self.children(item.node):
                    yield from below(child)

        yield from below(self.seen(self.root))

    def arrays(self) -> Iterator[Entry]:
        """Iterate over all arrays, and over everything that is not a node."""
        return (item for item in self.nodes() if not isinstance(item.node, Group))

    def _files(self, path: str) -> list[str]:
        """Return the HDF5 files in a directory."""
        return [name for name in self.container.store.list(path)[1] if name.endswith(Hdf5.suffixes)]

    def _like_chunks(self, path: str) -> bool:
        """Return whether a directory has only numbers as names, down to a file."""
        for _ in range(_DEPTH):
            folders, files = self.container.store.list(path)
            inner = [name for name in folders if not name.startswith(".")]
            if not all(map(_CHUNK.fullmatch, inner)):
                return False
            if any(map(_CHUNK.fullmatch, files)):
                return True
            if not inner or not set(files).isdisjoint(TITLES):
                return False
            path = f"{path}/{inner[0]}".lstrip("/")
        return False
