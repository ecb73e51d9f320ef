"""Create arrays; all checks precede the first write."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xarray_n5.arrays.array_checks import check_agreement, check_path, check_storable, completed
from xarray_n5.arrays.attributes import as_json
from xarray_n5.arrays.options import OpenOptions
from xarray_n5.arrays.overwrite import check_overwrite
from xarray_n5.arrays.write_axes import describe
from xarray_n5.codecs import resolve
from xarray_n5.errors import MetadataError, NodeNotFoundError
from xarray_n5.formats.open import open_container
from xarray_n5.model.chunking import auto_chunks, chunks_in_shards, shard_shape
from xarray_n5.model.keywords import suggest_keywords
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import new_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.chunk_io import EdgeChunks
    from xarray_n5.arrays.overwrite import Overwrite
    from xarray_n5.formats.protocol import Container
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.codec import Compression


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan:
    """An array that can be created or opened, after all checks and before any write.

    A write creates its marker between :meth:`make_room` and :meth:`create`.
    """

    array: Array
    """The array as it will be."""
    existing: Array | None = None
    """The existing array that is kept, if any."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """The attributes to set on an existing array."""
    stale: AbstractSet[str] = frozenset()
    """The names of attributes to remove from it."""
    new: tuple[Overwrite, ArrayMetadata] | None = None
    """The checked location for a new array, and its metadata."""

    def make_room(self) -> ArrayPlan:
        """Remove what the array replaces and create its groups; return the rest of the plan."""
        return replace(self, new=(self.new[0].make_room(), self.new[1])) if self.new else self

    def create(self) -> Array:
        """Create the array, or set the attributes of the existing one; return it."""
        if self.new is not None:
            overwrite, metadata = self.new
            overwrite.create(metadata)
        elif self.attributes or self.stale:
            self.array.attrs.change(self.attributes, self.stale)
        return self.array


@suggest_keywords
def create_array(
    url: object,
    path: str = "",
    *,
    shape: Sequence[int],
    dtype: Any,
    chunks: Sequence[int] | int | Literal["auto"] = "auto",
    compression: str | Mapping[str, Any] | Compression | None = "gzip",
    axes: Iterable[Axis | str | None] | Geometry | None = None,
    attributes: Mapping[str, Any] | None = None,
    mode: Literal["w-", "w", "a", "r+"] = "w-",
    format: str | None = None,  # noqa: A002
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
        The shape of a chunk in C order, one side for all axes, or "auto" for chunks of
        `chunk_elements` whose sides are in the ratio of `chunk_aspect_ratio`.
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
        The format of the container; by default that of an existing one, or that which the name of a
        new one ends in, such as ``.zarr``, or N5.
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
    request = ArrayRequest(
        shape=shape,
        dtype=dtype,
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
        write_empty_chunks=write_empty_chunks,
        edge_chunks=edge_chunks,
    )
    return plan_array(container, path, request).create()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRequest:
    """The options of :func:`create_array`."""

    shape: Sequence[int]
    dtype: Any
    chunks: Sequence[int] | int | Literal["auto"] = "auto"
    shards: Sequence[int] | int | Literal["auto"] | None = None
    compression: str | Mapping[str, Any] | Compression | None = "gzip"
    axes: Iterable[Axis | str | None] | Geometry | None = None
    attributes: Mapping[str, Any] | None = None
    mode: Literal["w-", "w", "a", "r+"] = "w-"
    dialect: str | Iterable[str] | None = None
    chunk_elements: int = 1 << 20
    chunk_aspect_ratio: Sequence[float] | None = None
    layout: Mapping[str, Any] | None = None
    write_empty_chunks: bool = True
    edge_chunks: EdgeChunks = "truncate"

    def __post_init__(self) -> None:
        check_option("mode", self.mode, "w-", "w", "a", "r+")

    @property
    def options(self) -> OpenOptions:
        """The options with which the array is opened."""
        empty, edges = self.write_empty_chunks, self.edge_chunks
        return OpenOptions(writable=True, write_empty=empty, edges=edges)

    def metadata(self, where: str) -> ArrayMetadata:
        """Return the array's metadata, without axes and layout; errors name it as `where`."""
        shape, dtype = as_sizes("shape", self.shape), as_dtype(self.dtype, where)
        elements, ratio = self.chunk_elements, self.chunk_aspect_ratio
        sides = chunk_shape(self.chunks, shape, elements=elements, aspect_ratio=ratio)
        automatic = isinstance(self.chunks, str)
        stored, inner = with_shards(sides, self.shards, shape, dtype, automatic=automatic)
        return ArrayMetadata(
            shape=shape,
            chunks=stored,
            inner=inner,
            dtype=dtype,
            compression=resolve(self.compression),
            attributes=as_json(self.attributes or {}, where),
        )


def plan_array(container: Container, path: str, request: ArrayRequest) -> ArrayPlan:
    """Run all checks of :func:`create_array`; nothing is written."""
    path = new_path(path, container.documents)
    check_path(container, path)
    at, mode, layout = container.where(path), request.mode, request.layout
    metadata = request.metadata(at)
    node = container.node(path)
    found, form = node.metadata, container.format
    there = found if isinstance(found, ArrayMetadata) and mode in {"a", "r+"} else None
    metadata, stale = describe(container, path, metadata, request.axes, request.dialect, there)
    metadata = completed(form, metadata, layout, at, there)
    check_storable(metadata, form, at)
    if there is not None:
        given = not isinstance(request.chunks, str)
        check_agreement(there, metadata, at, chunks_matter=given, layout=layout)
        existing = request.options.array(container, path, there)
        return ArrayPlan(
            array=existing, existing=existing, attributes=metadata.attributes, stale=stale
        )
    if mode == "r+":
        raise NodeNotFoundError(container.url, path, "array", "mode='r+' does not create arrays")
    overwrite = check_overwrite(container, node, metadata if mode == "w" else None)
    array = request.options.array(container, path, metadata)
    return ArrayPlan(array=array, new=(overwrite, metadata))


def chunk_shape(
    chunks: Sequence[int] | int | Literal["auto"],
    shape: Sequence[int],
    *,
    elements: int = 1 << 20,
    aspect_ratio: Sequence[float] | None = None,
) -> tuple[int, ...]:
    """Return the chunk shape that `chunks` selects: a shape, one side, or "auto"."""
    if isinstance(chunks, str):
        if chunks != "auto":
            raise MetadataError(f"chunks is {chunks!r}; expected a shape, one number or 'auto'")
        return auto_chunks(shape, elements=elements, aspect_ratio=aspect_ratio)
    sides = as_sizes("chunks", chunks, len(shape))
    if len(sides) != len(shape) or min(sides, default=1) < 1:
        raise MetadataError(
            f"chunks is {sides}; expected {len(shape)} numbers of at least 1 for shape "
            f"{tuple(shape)}"
        )
    return sides


def with_shards(
    chunks: tuple[int, ...],
    shards: Sequence[int] | int | Literal["auto"] | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    automatic: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return the shape of a stored file, and that of the chunks in it if it is a shard.

    Chunks that are `automatic` are adapted to shards that are not a multiple of them.
    """
    if shards is None:
        return chunks, None
    if isinstance(shards, str):
        return shard_shape(shards, chunks, shape, dtype.itemsize), chunks
    sides = as_sizes("shards", shards, len(shape))
    if automatic and len(sides) == len(chunks) and all(0 < side < 1 << 31 for side in sides):
        chunks = chunks_in_shards(chunks, sides)
    return shard_shape(sides, chunks, shape, dtype.itemsize), chunks


def as_sizes(name: str, value: object, times: int = 1) -> tuple[int, ...]:
    """Return whole numbers; a single one is repeated `times` times."""
    try:
        if np.ndim(value) == 0:  # type: ignore[arg-type]
            return (operator.index(value),) * times  # type: ignore[arg-type]
        return tuple(map(operator.index, value))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise MetadataError(f"{name} is {value!r}; expected whole numbers") from None


def as_dtype(dtype: Any, where: str) -> np.dtype[Any]:
    """Return the type for a user's `dtype`, in native byte order."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise MetadataError(
            f"{where}: {error}; expected a type such as 'uint8' or 'float32'"
        ) from error
    if found.names:
        from numpy.lib.recfunctions import repack_fields

        found = repack_fields(found)
    return found.newbyteorder("=")
