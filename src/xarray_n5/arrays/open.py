"""Open arrays and groups that exist."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import read_with
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.formats import get_format
from xarray_n5.formats.hdf5.container import Hdf5Container
from xarray_n5.formats.keyed import KeyedContainer
from xarray_n5.formats.open import find_node, open_container
from xarray_n5.formats.structure import prefetch
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.options import check_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.node import EdgeChunks, LabelMultisets, Missing
    from xarray_n5.dialects.protocol import AttributeOrder
    from xarray_n5.formats import FormatName


def open_array(
    url: object,
    path: str = "",
    *,
    mode: Literal["r", "r+"] = "r",
    storage_options: Mapping[str, Any] | None = None,
    format: FormatName | None = None,
    metadata: Mapping[str, Any] | None = None,
    assume_metadata: bool = False,
    attribute_order: AttributeOrder = "auto",
    missing: Missing = "fill",
    cache_bytes: int = 0,
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
    metadata : mapping, optional
        Members of ``attributes.json`` (in N5 order) that the array must have exactly.
    assume_metadata : bool, default: False
        Read no metadata, but rely on `metadata`; members that it lacks have the defaults of
        :func:`create_array`. A false assumption damages data.
    attribute_order : {"auto", "C", "N5"}, default: "auto"
        The order of lists of axes in attributes, such as ``resolution``: "C" for the order of
        NumPy, "N5" for x first; "auto" for that of the programs that write the dialect.
    missing : {"fill", "error"}, default: "fill"
        "fill" reads chunks that are not stored as the fill value; "error" raises for them.
    cache_bytes : int, default: 0
        How many bytes of decoded chunks to keep in memory for later reads.
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
        If its metadata are invalid, or differ from `metadata`.

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
    if assume_metadata:
        name = get_format(format).name  # without reading anything
        container, path = open_container(url, path, storage_options, name)
        assumed = container.format.assume(metadata or {}, container.where(path))
        return Array(options.node(container, path, assumed), cache_bytes=cache_bytes)
    container, node = find_node(url, path, storage_options, format, writable=mode == "r+")
    if not isinstance(node.metadata, ArrayMetadata):
        raise container.not_found(node, "array")
    if metadata:
        container.matches(node, metadata)
    opened = options.node(container, node.path, node.metadata)
    return Array(opened, cache_bytes=cache_bytes)


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
        raise container.not_found(node, "group")
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
    container, node = find_node(
        url, path, storage_options, format, cached=True, ahead=read_with(path), listed=listed
    )
    if isinstance(node.metadata, ArrayMetadata):
        return Array(options.node(container, node.path, node.metadata))
    bare = not node.described and container.foreign([node.path])
    if not container.exists(node) or bare:
        raise container.not_found(node, "array or group")
    if whole and isinstance(container, KeyedContainer) and container.batch > 1:
        prefetch(container.store, container.format, node.path)
    if isinstance(container, Hdf5Container):
        container = replace(container, top=node.path)
    return Group(container, node, options)
