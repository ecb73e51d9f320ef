"""Requests of users to write: the location, the data and the options."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import xarray as xr
from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.marker import WriteMarker
from xarray_n5.formats.open import open_container
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import join
from xarray_n5.writing.inputs import blocks_of, names_of
from xarray_n5.writing.self_reads import check_one_process

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    import dask.array as da

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.chunk_io import EdgeChunks
    from xarray_n5.formats.protocol import Container, Format
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.stores.base import Store

Mode: TypeAlias = Literal["w-", "w", "a", "r+"]

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
    deferred: bool = False
    """Whether Dask arrays are computed later; other data is written immediately."""
    consolidated: bool | None = None
    """Whether a group gets consolidated metadata; None to follow xarray's Zarr engine."""

    def __post_init__(self) -> None:
        check_option("mode", self.mode, "w-", "w", "a", "r+")
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
    path: str
    """The array's path in the container."""
    options: WriteOptions
    mode: Mode = "w-"
    region: tuple[slice, ...] | None = None
    target: Array | None = None
    """The open array that has the region, as it will be when the write begins."""
    chunks: Sequence[int] | int | Literal["auto"] | None = None
    shards: Sequence[int] | int | Literal["auto"] | None = None
    compression: str | Mapping[str, Any] | Compression | None = "gzip"
    attributes: Mapping[str, Any] | None = None
    axes: Iterable[Axis | str | None] | Geometry | None = None
    dialect: str | Iterable[str] | None = None
    layout: Mapping[str, Any] | None = None
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
        given = [name for name in fixed if getattr(self, name) is not None]
        if self.region is not None and given:
            raise ValueError(
                f"a region is part of an existing array, which {given} cannot change; omit it"
            )

    @classmethod
    def of(
        cls,
        arr: Any,
        path: str,
        options: WriteOptions,
        *,
        region: slice | Sequence[slice] | None = None,
        axes: Iterable[Axis | str | None] | Geometry | None = None,
        **wanted: Any,
    ) -> Self:
        """Return a request to write anything array-like.

        Raises
        ------
        MetadataError
            If its values are masked, or objects that are not strings.
        ValueError
            If its shape is unknown, or `region` does not consist of slices.
        """
        if axes is None and region is None and isinstance(arr, xr.DataArray):
            axes = geometry_from(arr)
        source = blocks_of(arr)
        return cls(
            source=source,
            path=path,
            options=options,
            region=_slices(region),
            axes=axes,
            dims=wanted.pop("dims", None) or names_of(arr, axes, source.ndim),
            in_memory=not is_dask_collection(arr),
            **wanted,
        )

    @property
    def keeps_array(self) -> bool:
        """Whether an existing array keeps its metadata and gets new values."""
        return self.region is not None or self.mode in {"a", "r+"}


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
