"""Requests of users to write: the location, the data and the options."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.marker import WriteMarker
from xarray_n5.errors import MetadataError
from xarray_n5.formats.open import open_container
from xarray_n5.graph import as_graph
from xarray_n5.model.chunking import align
from xarray_n5.model.indexing import as_texts
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import join
from xarray_n5.model.scene import SCENE, scene_format
from xarray_n5.writing.chunk_table import dims_or_numbers
from xarray_n5.writing.one_process import check_one_process

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.node import EdgeChunks
    from xarray_n5.arrays.spec import ArraySpec, Mode
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Format
    from xarray_n5.stores.base import Store

Encoding: TypeAlias = "Mapping[Hashable, Mapping[str, Any]]"
"""The encodings that the user chose, by variable."""

PartialChunks: TypeAlias = Literal["error", "merge"]
"""Whether a region may cut stored chunks, which are then read, merged and replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The container of a write, opened once, and the options of all its arrays."""

    container: Container
    root: str = ""
    """The path of the group that the URL names."""
    mode: Mode = "w-"
    dialect: str | Iterable[str] | None = None
    align_chunks: bool = True
    partial_chunks: PartialChunks = "error"
    write_empty_chunks: bool = True
    edge_chunks: EdgeChunks = "truncate"
    resume: bool | str = False
    checksums: bool = False
    batch_size: int | None = None
    """The number of blocks to submit at a time; None for batches of large jobs only."""
    deferred: bool = False
    """Whether Dask arrays are computed later; other data is written immediately."""
    consolidated: bool | None = None
    """Whether a group gets consolidated metadata; None to follow xarray's Zarr engine."""

    def __post_init__(self) -> None:
        check_option("mode", self.mode, "w-", "w", "a", "r+")
        if self.batch_size is not None and not (
            type(self.batch_size) is int and self.batch_size > 0
        ):
            raise ValueError(f"batch_size is {self.batch_size!r}; expected a number of at least 1")
        check_option("partial_chunks", self.partial_chunks, "error", "merge")
        if self.consolidated and not self.format.consolidates:
            raise ValueError(
                f"consolidated=True is for Zarr v2; {self.format.name} does not support "
                "consolidated metadata"
            )

    @classmethod
    def into(
        cls,
        url: object,
        *,
        storage_options: Mapping[str, Any] | None,
        format: str | None,  # noqa: A002
        computed: bool,
        fsync: bool,
        sources: Sequence[da.Array] = (),
        **options: Any,
    ) -> Self:
        """Open the container at `url` for a write.

        Raises
        ------
        OneWriterError
            If tasks would be computed now, in several processes, for a file with one writer.
        """
        if options.get("batch_size") is not None and not computed:
            raise ValueError("compute=False returns one computation, which has no batch_size")
        if options.get("dialect") == SCENE:
            format = scene_format(url, format)  # noqa: A001
        container, root = open_container(url, "", storage_options, format, cached=True)
        if computed and container.format.one_writer:
            check_one_process(container.url, *sources)
        container = container.with_fsync() if fsync else container
        return cls(container=container.cached(), root=root, deferred=not computed, **options)

    @property
    def store(self) -> Store:
        """The store of hidden files: markers, receipts, digests."""
        return self.container.uncached().store

    @property
    def format(self) -> Format:
        """The container's format."""
        return self.container.format

    @property
    def remembered(self) -> Container | None:
        """The container, if repeating the write after its finish is to find nothing to do."""
        return self.container.uncached() if self.resume and self.mode == "w-" else None

    def path(self, path: str) -> str:
        """Return the path in the container of a node below the group that the URL names."""
        return join(self.root, self.format.normalize_path(path))

    @property
    def opening(self) -> dict[str, Any]:
        """The options with which arrays are opened."""
        return {
            "write_empty_chunks": self.write_empty_chunks,
            "edge_chunks": self.edge_chunks,
        }

    def marker(self, path: str, *facts: Any) -> WriteMarker:
        """Return the marker of a transaction in the group at `path` that writes these `facts`."""
        source = self.resume if isinstance(self.resume, str) else facts
        options = (self.mode, self.align_chunks, self.write_empty_chunks, self.checksums)
        token = tokenize(_as_values(source), path, options)
        return WriteMarker(store=self.store, path=path, token=token)

    def consolidate(self, path: str, *, default: bool) -> None:
        """Write the consolidated metadata of a group, if requested."""
        wanted = default if self.consolidated is None else self.consolidated
        if wanted and self.format.consolidates:
            self.container.consolidate(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """One array to write; it is complete when created."""

    source: da.Array
    spec: ArraySpec
    """What is to be stored."""
    options: WriteOptions
    region: tuple[slice, ...] | None = None
    target: Array | None = None
    """The open array that has the region, as it will be when the write begins."""
    dims: tuple[str, ...] = ()
    """The names of the dimensions in the report."""
    in_memory: bool = False
    """Whether the source was not a Dask array, so that its blocks are arbitrary."""
    deferred: bool = False
    """Whether the blocks are computed later."""
    appends: bool = False
    """Whether only new parts of the array are written; the source may read the others."""

    def __post_init__(self) -> None:
        fixed = ("chunks", "shards", "attributes", "axes", "dialect", "layout")
        given = [name for name in fixed if getattr(self.spec, name) is not None]
        if self.region is not None and given:
            raise ValueError(
                f"a region is part of an existing array, which {given} cannot change; omit it"
            )

    @classmethod
    def of(
        cls,
        arr: Any,
        spec: ArraySpec,
        options: WriteOptions,
        *,
        region: slice | Sequence[slice] | None = None,
        dims: tuple[str, ...] | None = None,
        **facts: Any,
    ) -> Self:
        """Return a request to write anything array-like.

        Raises
        ------
        MetadataError
            If its values are masked, or objects that are not strings.
        ValueError
            If its shape is unknown, or `region` does not consist of slices.
        """
        if spec.axes is None and region is None and isinstance(arr, xr.DataArray):
            spec = replace(spec, axes=geometry_from(arr))
        source = blocks_of(arr)
        return cls(
            source=source,
            spec=spec,
            options=options,
            region=_slices(region),
            dims=dims or names_of(arr, spec.axes, source.ndim),
            in_memory=not is_dask_collection(arr),
            **facts,
        )

    @property
    def path(self) -> str:
        """The array's path in the container."""
        return self.spec.path

    @property
    def keeps_array(self) -> bool:
        """Whether an existing array keeps its metadata and gets new values."""
        return self.region is not None or self.spec.mode in {"a", "r+"}


def _slices(region: slice | Sequence[slice] | None) -> tuple[slice, ...] | None:
    if region is None:
        return None
    slices = (region,) if isinstance(region, slice) else tuple(region)
    if not all(isinstance(item, slice) for item in slices):
        raise ValueError(f"region is {region!r}; expected one slice for each axis")
    return slices


def _as_values(item: Any) -> Any:
    """Return xarray's objects as their parts, whose tokens are the same in every process.

    Dask's tokens of classes depend on what else is imported: dask-array changes them.
    """
    match item:
        case xr.Dataset():
            parts = {str(name): _as_values(variable) for name, variable in item.variables.items()}
            return parts, sorted(map(str, item.coords)), item.attrs
        case xr.DataArray():
            return str(item.name), _as_values(item.to_dataset(name="data"))
        case xr.Variable():
            name = item.data.name if is_dask_collection(item.data) else item.data
            return item.dims, name, item.attrs
        case dict():
            return {key: _as_values(value) for key, value in item.items()}
        case list() | tuple():
            return [_as_values(each) for each in item]
    if is_dataclass(item) and not isinstance(item, type):
        parts = {each.name: _as_values(getattr(item, each.name)) for each in fields(item)}
        item = type(item).__qualname__, parts
    return item


def blocks_of(arr: Any) -> da.Array:
    """Convert anything array-like to a Dask array.

    Raises
    ------
    ValueError
        If the size of a block is unknown.
    MetadataError
        If there are objects that are not strings, or masked values.
    """
    plain = as_graph(_plain(_unmasked(arr)))
    source: da.Array = plain if is_dask_collection(plain) else as_graph(_as_dask(plain))
    if any(math.isnan(size) for size in source.shape):
        raise ValueError(
            "the array has blocks of unknown size; call its compute_chunk_sizes() first"
        )
    return source


def _unmasked(arr: Any) -> Any:
    """Return values without a mask; raise if it masks any, since masks cannot be stored."""
    found = _plain(arr)
    if isinstance(getattr(found, "_meta", None), np.ma.MaskedArray):
        raise MetadataError(
            "the array is masked, and masks cannot be stored; fill it with "
            "dask.array.ma.filled(x, value)"
        )
    if not isinstance(found, np.ma.MaskedArray):
        return arr
    if np.ma.is_masked(found):
        raise MetadataError(
            "the array has masked values, and masks cannot be stored; fill them with "
            "x.filled(value)"
        )
    return found.data


def _plain(arr: Any) -> Any:
    """Return the data of a DataArray; other objects unchanged."""
    return arr if isinstance(arr, np.ndarray | np.generic) else getattr(arr, "data", arr)


def _as_dask(arr: Any) -> da.Array:
    """Return an array as a Dask array; strings, whose size varies, in one block."""
    if not (isinstance(arr, np.ndarray) and arr.dtype.hasobject):
        # Dask's own name depends on what is imported; a resume compares names.
        return cast("da.Array", da.asarray(arr, name=f"array-{tokenize(arr)}"))
    try:
        return cast("da.Array", da.from_array(as_texts(arr), chunks=arr.shape))
    except TypeError as error:
        raise MetadataError(str(error)) from error


def names_of(arr: Any, axes: Any, ndim: int) -> tuple[str, ...]:
    """Return the names of the dimensions in the report of a write."""
    if isinstance(arr, xr.DataArray):
        return tuple(map(str, arr.dims))
    names = [getattr(axis, "name", axis) for axis in getattr(axes, "axes", axes) or ()]
    return dims_or_numbers(names if len(set(names)) == ndim else None, ndim)


def aligned_blocks(
    source: da.Array, chunks: tuple[int, ...], start: tuple[int, ...], *, strict: bool
) -> da.Array:
    """Return `source` rechunked so that blocks do not share stored chunks."""
    blocks = tuple(
        align(sizes, side, first, axis=axis, strict=strict)
        for axis, (sizes, side, first) in enumerate(zip(source.chunks, chunks, start, strict=True))
    )
    return source if blocks == source.chunks else cast("da.Array", source.rechunk(blocks))
