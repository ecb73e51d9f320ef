"""Create arrays; all checks precede the first write."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import load_context
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.arrays.records import look
from xarray_n5.arrays.spec import ArraySpec, check_agreement, check_storable, completed
from xarray_n5.dialects.protocol import units_of_values
from xarray_n5.dialects.write import (
    diff,
    misread,
    override,
    read_back,
    warn_misspelt_units,
    write_geometry,
)
from xarray_n5.errors import MetadataError, N5Error, NodeExistsError, NodeNotFoundError
from xarray_n5.formats.containers import open_container
from xarray_n5.formats.protocol import Node
from xarray_n5.model.axes import as_geometry
from xarray_n5.model.metadata import ArrayMetadata, GroupMetadata
from xarray_n5.model.paths import new_path
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import numpy.typing as npt

    from xarray_n5.arrays.node import ArrayNode, EdgeChunks
    from xarray_n5.formats import FormatName
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.metadata import Compression, Metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan:
    """An array that can be created or opened, after all checks and before any write."""

    node: ArrayNode
    """The array as it will be, or the existing array that is kept."""
    attributes: Mapping[str, Any]
    """The attributes of a new array, or those to set on an existing one."""
    stale: AbstractSet[str] = frozenset()
    """The names of attributes to remove from an existing array."""
    overwrite: Overwrite | None = None
    """The checked location of a new array."""

    def create(self) -> Array:
        """Create the array, or set the attributes of the existing one; return it."""
        if self.overwrite is None:
            return self.change_attributes()
        self.overwrite.create(self.node.metadata)
        return Array(self.node)

    def change_attributes(self) -> Array:
        """Set the attributes of the existing array, and return it."""
        array = Array(self.node)
        if self.attributes or self.stale:
            array.attrs.change(self.attributes, self.stale)
        return array


def create_array(
    url: object,
    path: str = "",
    *,
    shape: Sequence[int],
    dtype: npt.DTypeLike,
    chunks: Sequence[int] | int | Literal["auto"] = "auto",
    compression: str | Mapping[str, Any] | Compression | None = "gzip",
    axes: Iterable[Axis | str | None] | Geometry | None = None,
    attributes: Mapping[str, Any] | None = None,
    mode: Literal["w-", "w", "a", "r+"] = "w-",
    format: FormatName | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dialect: str | Iterable[str] | None = None,
    chunk_elements: int = 1 << 20,
    chunk_aspect_ratio: Sequence[float] | None = None,
    layout: Mapping[str, Any] | None = None,
    write_empty_chunks: bool = True,
    edge_chunks: EdgeChunks = "truncate",
    shards: Sequence[int] | int | Literal["auto"] | None = None,
) -> Array:
    """Create an array, or open one that agrees.

    Everything is checked before anything is written.

    Parameters
    ----------
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store.
    path : str, default: ""
        The path of the array in the container; missing groups on the way are created.
    shape : sequence of int
        The shape of the array, in elements, in C order.
    dtype : dtype
        One of the ten types of N5: uint8 to uint64, int8 to int64, float32, float64. Zarr v2
        supports all of fixed size, and ``object`` for strings.
    chunks : sequence of int, int or "auto", default: "auto"
        The shape of a chunk in C order, one side, or "auto" for chunks of
        `chunk_elements` whose sides are in the ratio of `chunk_aspect_ratio`. One side, and "auto"
        without a ratio, are for the axes of space: along those of time, channels and others, a
        chunk has one sample.
    compression : str, mapping, Compression or None, default: "gzip"
        A name, such as "zstd"; the JSON object of ``attributes.json``, such as ``{"type": "gzip",
        "level": 1}``; a compression; or None for uncompressed chunks.
    axes : iterable of Axis, str or None, or Geometry, optional
        For each axis, in C order, an :class:`Axis`, a name or None.
    attributes : mapping, optional
        The attributes of the user; JSON values.
    mode : {"w-", "w", "a", "r+"}, default: "w-"
        "w-" creates the array, and raises if something exists; "w" replaces an existing array; "a"
        creates the array, or opens an existing one of the same shape, dtype and chunks (if given),
        and adds the attributes; "r+" does only the latter.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        The format of the container; by default that of an existing container. For a new one, it is
        guessed from the suffix (``.zarr``, ``.h5``); otherwise N5.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.
    dialect : str or iterable of str, optional
        The metadata dialects to write `axes` in; by default those that TensorStore, Neuroglancer
        and Fiji read.
    chunk_elements : int, default: 1048576
        The number of elements of chunks that are "auto", about.
    chunk_aspect_ratio : sequence of float, optional
        The ratio of the sides of chunks that are "auto"; by default all are equal.
    layout : mapping, optional
        How the format stores elements, in its own terms: of Zarr v2's ``.zarray`` "order",
        "dimension_separator", "filters", "fill_value" and "dtype" (for its byte order).
    write_empty_chunks : bool, default: True
        Whether to store chunks that hold nothing but zeros. Where Zarr defines no fill value, all
        are stored.
    edge_chunks : {"truncate", "pad"}, default: "truncate"
        "truncate" stores chunks at the ends of the array clipped to it; "pad" stores them at full
        size.
    shards : sequence of int, int or "auto", optional
        The shape of shards, files that hold several chunks, in Zarr v3: multiples of `chunks` along
        each axis, or "auto" for at most 256 MiB of elements. Chunks that are "auto" are chosen to
        fit.

    Returns
    -------
    Array
        The array, open for writing.

    Raises
    ------
    NodeExistsError
        If something exists that `mode` does not allow to replace.
    NodeNotFoundError
        If no array exists, and `mode` is "r+".
    MetadataError
        If the format cannot hold the array, or the existing array does not agree.

    Examples
    --------
    >>> array = xarray_n5.create_array(
    ...     "cells.n5",
    ...     "raw",
    ...     shape=(64, 512, 512),
    ...     dtype="uint8",
    ...     chunks=64,
    ...     compression="zstd",
    ...     axes=[xarray_n5.Axis(name=name, unit="nm", scale=8.0) for name in "zyx"],
    ... )
    >>> array.chunks, array.axes[0].unit
    ((64, 64, 64), 'nm')
    """
    container, path = open_container(url, path, storage_options, format)
    spec = ArraySpec(
        path=path,
        chunks=chunks,
        shards=shards,
        compression=compression,
        axes=axes,
        attributes=attributes,
        mode=mode,
        dialect=dialect,
        chunk_elements=chunk_elements,
        chunk_aspect_ratio=chunk_aspect_ratio,
        layout=layout,
    )
    options = OpenOptions(writable=True, write_empty=write_empty_chunks, edges=edge_chunks)
    return plan_array(container, spec, shape, dtype, options).create()


def plan_array(
    container: Container, spec: ArraySpec, shape: Sequence[int], dtype: Any, options: OpenOptions
) -> ArrayPlan:
    """Run all checks of :func:`create_array`; nothing is written.

    Parameters
    ----------
    container, spec
        The container, and what is to be stored in it.
    shape, dtype
        The shape and the type of the data.
    options
        The options with which the array is opened.
    """
    path = new_path(spec.path, container.documents)
    if not path and not container.format.documents:
        raise MetadataError(
            f"{container.url}: the root of an {container.format.name} file is a group; pass the "
            "array's path in the file, such as 'data'"
        )
    at, mode, layout = container.where(path), spec.mode, spec.layout
    metadata = spec.metadata(shape, dtype, at)
    node = container.node(path)
    existing, form = node.metadata, container.format
    there = existing if isinstance(existing, ArrayMetadata) and mode in {"a", "r+"} else None
    metadata, stale = describe(container, path, metadata, spec, there)
    metadata = completed(form, metadata, layout, at, there)
    check_storable(metadata, form, at)
    if there is not None:
        given = spec.chunks is not None and not isinstance(spec.chunks, str)
        check_agreement(there, metadata, at, chunks_matter=given, layout=layout)
        kept = options.node(container, path, there)
        return ArrayPlan(node=kept, attributes=metadata.attributes, stale=stale)
    if mode == "r+":
        raise NodeNotFoundError(container.url, path, "array", "mode='r+' does not create arrays")
    overwrite = check_overwrite(container, node, metadata if mode == "w" else None)
    new = options.node(container, path, metadata)
    return ArrayPlan(node=new, attributes=metadata.attributes, overwrite=overwrite)


def describe(
    container: Container,
    path: str,
    metadata: ArrayMetadata,
    spec: ArraySpec,
    there: ArrayMetadata | None,
) -> tuple[ArrayMetadata, AbstractSet[str]]:
    """Return an array's metadata with attributes for its axes, and attributes to remove.

    If the existing array describes the same axes, nothing changes; attributes that contradict the
    new axes are removed. Attributes of the groups around may take precedence over the default
    ones; then others are written, too, that take precedence over all.

    Parameters
    ----------
    container, path, metadata
        The array as it is to be written, with the user's attributes.
    spec
        The user's axes, and the dialects to write them in.
    there
        The existing array that is kept, if any.

    Raises
    ------
    MetadataError
        If no dialect can describe the axes, or other attributes still contradict them.
    """
    if spec.axes is None:
        return metadata, set()
    where, given, dialect = container.where(path), metadata.attributes, spec.dialect
    before = dict(there.attributes) if there else {}
    node = load_context(container, path, replace(metadata, attributes={**before, **given}))
    try:
        geometry = as_geometry(spec.axes, len(metadata.shape))
    except ValueError as error:
        raise MetadataError(f"{where}: {error}") from error
    warn_misspelt_units(where, [geometry])
    written = write_geometry(
        geometry, node.shape, dialect, lists_x_first=node.lists_x_first, where=where
    )
    clash = [k for k in written if k in given and not _same(k, given[k], written[k])]
    stale: frozenset[str] = frozenset()
    if there is not None:
        stored, invalid = read_back(node)
        only_names = not geometry.placed and all(axis.unit is None for axis in geometry.axes)
        if dialect is None and only_names and stored.placed:
            # Names alone do not move or reverse existing axes.
            _refuse(where, diff(geometry, stored))
            return metadata, set()
        if dialect is None and not diff(geometry, stored) and not invalid:
            return metadata, set()
        known = stored.keys - ({"units"} if units_of_values(before) else set())
        clash += [k for k in written if before.get(k, written[k]) != written[k] and k not in known]
        geometry_read, invalid = read_back(replace(node, attributes={**node.attributes, **written}))
        if diff(geometry, geometry_read) or invalid:
            stale = known & before.keys() - written.keys() - given.keys()
    if clash:
        raise MetadataError(f"{where}: axes and attributes both set {clash}; pass one of them")
    kept = {k: v for k, v in node.attributes.items() if k not in stale}
    node = replace(node, attributes=kept)
    if dialect is None and "transform" not in kept:
        written, wrong = override(geometry, node, written)
    else:
        wrong = misread(geometry, replace(node, attributes={**kept, **written}))
    _refuse(where, wrong)
    return replace(metadata, attributes={**given, **written}), stale


def _same(key: str, one: object, other: object) -> bool:
    """Return whether attributes are equal; lists of units are compared by meaning."""
    if key != "units" or not (isinstance(one, list) and isinstance(other, list)):
        return one == other
    texts = all(isinstance(unit, str) for unit in (*one, *other))
    return texts and len(one) == len(other) and all(map(same_unit, one, other))


def _refuse(where: str, wrong: str | None) -> None:
    if wrong:
        raise MetadataError(
            f"{where}: other attributes of the node or of its groups contradict {wrong}; omit "
            "axes, or write to another path"
        )


def hint_of(otherwise: str, *, resume: bool, unfinished: bool) -> str:
    """Return the hint for something that exists, which a write with ``mode="w-"`` refuses.

    Parameters
    ----------
    otherwise
        The hint if no write is unfinished, and none is resumed.
    resume
        Whether an unfinished write is to be resumed, which is not this one.
    unfinished
        Whether a write is unfinished.
    """
    if resume and unfinished:
        return (
            "it has an unfinished write of different data, or with other options: pass the same "
            "arguments to resume it, or start again with mode='w' and without resume=True"
        )
    if resume:
        return (
            "no write of it is unfinished: choose another path, or start again with mode='w' and "
            "without resume=True"
        )
    if unfinished:
        return "its write is unfinished: use resume=True, or mode='w' to replace it"
    return otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """The checked location of a new node: what is removed, and the groups around it.

    Nothing has been written.
    """

    container: Container
    node: Node
    """The present node."""
    groups: Sequence[Node]
    """The groups around it, the root first."""
    removes: bool
    """Whether a node, or the rest of a stopped replacement, is removed."""
    fresh: bool
    """Whether the container is new."""

    def complete_groups(self) -> None:
        """Write the documents that the groups around lack."""
        for group in self.groups:
            self.container.complete_group(group, fresh=self.fresh and not group.path)

    def clear(self) -> None:
        """Remove what is replaced, but for records of writes."""
        if self.removes:
            self.container.clear(self.node.path)

    def create_node(self, metadata: Metadata) -> None:
        """Create the node where nothing is any more."""
        path = self.node.path
        empty = Node(path=path, metadata=GroupMetadata(), described=False)
        node = empty if path and self.removes else self.node
        self.container.create(node, metadata, fresh=self.fresh and not path)

    def create(self, metadata: Metadata) -> None:
        """Make room for the node and create it, without a record of a write."""
        if self.removes:
            self.container.delete(self.node.path)
        self.complete_groups()
        self.create_node(metadata)


def check_overwrite(
    container: Container, node: Node, replacement: ArrayMetadata | None = None
) -> Overwrite:
    """Check that a node may be created; nothing is written.

    Parameters
    ----------
    container, node
        The container, and the present node.
    replacement
        The array that replaces another one. It is required to remove an array, or the chunks that a
        stopped replacement left.

    Raises
    ------
    NodeExistsError
        If there is anything that must stay.
    """
    groups = groups_around(container, node.path)
    existing, path = node.metadata, node.path
    if isinstance(existing, ArrayMetadata) and replacement is None:
        unfinished = _is_unfinished(container, path)
        hint = hint_of("use mode='w' to replace it", resume=False, unfinished=unfinished)
        raise NodeExistsError(container.url, path, "an array", hint)
    half = node.incomplete and _is_unfinished(container, path)
    if isinstance(existing, GroupMetadata) and existing.attributes and not half:
        hint = f"its attributes are {list(existing.attributes)}; delete it, or choose another path"
        raise NodeExistsError(container.url, path, "a group that is not empty", hint)
    arrays = [
        metadata for metadata in (existing, replacement) if isinstance(metadata, ArrayMetadata)
    ]
    if (other := container.occupant(path, arrays)) is not None:
        hint = f"it contains {other!r}; delete that first, or choose another path in the container"
        kind = (
            "an array with other files" if arrays[:1] == [existing] else "a group that is not empty"
        )
        raise NodeExistsError(container.url, path, kind, hint)
    check_alone(container, [*groups, node])
    root = groups[0] if groups else node
    removes = replacement is not None and container.exists(node)
    return Overwrite(
        container=container,
        node=node,
        groups=groups,
        removes=removes,
        fresh=not root.described and container.occupant("") is None,
    )


def groups_around(container: Container, path: str) -> list[Node]:
    """Return the groups around a node, the root first.

    Raises
    ------
    NodeExistsError
        If one of them is an array.
    """
    parts = path.split("/") if path else []
    groups = []
    for node in container.nodes(["/".join(parts[:depth]) for depth in range(len(parts))]):
        if isinstance(node, N5Error):
            raise node
        check_not_array(container, node)
        groups.append(node)
    return groups


def check_not_array(container: Container, node: Node) -> None:
    """Raise NodeExistsError if a node that must be a group is an array."""
    if isinstance(node.metadata, ArrayMetadata):
        hint = "an array cannot contain other nodes; choose another path"
        raise NodeExistsError(container.url, node.path, "an array", hint)


def check_removable(url: str, arrays: Mapping[str, ArrayNode]) -> None:
    """Raise NodeExistsError if an array to be removed contains anything that is not its own."""
    for name, array in arrays.items():
        if other := array.container.occupant(array.path, [array.metadata]):
            hint = f"it contains {other!r}, which would be deleted with it; move that away first"
            raise NodeExistsError(url, name, "an array with other files", hint)


def complete_group(container: Container, node: Node) -> None:
    """Write the documents that a directory and its parents need to be groups.

    Raises
    ------
    NodeExistsError
        If one of them is an array, or a node of another format.
    """
    groups = [*groups_around(container, node.path), node]
    check_alone(container, groups)
    for group in groups:
        container.complete_group(group)


def check_alone(container: Container, groups: Iterable[Node]) -> None:
    """Raise if a directory that the format does not describe is a node of another format.

    In N5 any directory is a group; documents of N5 in it would hide the other node.

    Raises
    ------
    NodeExistsError
        The error names the directory.
    """
    bare = [node.path for node in groups if not node.described]
    if bare and (foreign := container.foreign(bare)):
        what = f"it has {foreign[1]}; choose another path, or use that format"
        raise NodeExistsError(container.url, foreign[0], "another format", what)


def _is_unfinished(container: Container, path: str) -> bool:
    """Return whether a node has the record of an unfinished write."""
    return bool(look(container.uncached().store, path).opens)
