"""Requests of users to write: the location, the data and the options."""

from __future__ import annotations

import json
import math
import operator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.claims import writer_name
from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.spec import as_dtype
from xarray_n5.codecs import resolve
from xarray_n5.errors import MetadataError
from xarray_n5.formats.open import open_container
from xarray_n5.graph import as_graph
from xarray_n5.model.axes import Geometry
from xarray_n5.model.chunking import align
from xarray_n5.model.indexing import as_texts
from xarray_n5.model.json import as_json
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import join
from xarray_n5.model.scene import SCENE, scene_format
from xarray_n5.writing.changed import code_of
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
        """The store of hidden files: records, notes, digests."""
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

    def consolidate(self, path: str, *, default: bool) -> None:
        """Write the consolidated metadata of a group, if requested."""
        wanted = default if self.consolidated is None else self.consolidated
        if wanted and self.format.consolidates:
            self.container.consolidate(path)


def short_hash(value: object, size: int = 4) -> str:
    """Return hexadecimal digits that differ for different values, in every process alike."""
    text = json.dumps(value, sort_keys=True) if isinstance(value, dict) else repr(value)
    return blake2b(text.encode(errors="replace"), digest_size=size).hexdigest()


@dataclass(frozen=True, slots=True)
class Identity:
    """What a write stores, and where: the same call has the same one in every process."""

    parts: Mapping[str, str]
    """A hash of each part, so that an error can name those that differ."""
    code: Mapping[str, str]
    """A hash of each file with functions of the user, by its name."""
    part: list[list[int]]
    """The first element that is stored along each axis, and the one after the last."""

    @property
    def token(self) -> str:
        """The name of the write in records."""
        return short_hash({"is": dict(self.parts), "code": dict(self.code)}, 8)

    @property
    def facts(self) -> dict[str, Any]:
        """What records state of the write."""
        return {"is": dict(self.parts), "code": dict(self.code), "part": self.part}


@dataclass(frozen=True, slots=True)
class LightRequest:
    """What replaces the graph in a request that is part of a task."""

    attempt: str
    """The attempt of its record: a task that runs twice begins once."""
    code: Mapping[str, str]
    by: str
    """The process that deferred the write, and has seen its array."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What the plan of a write asks of a Dask array, without its graph."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, source: da.Array | Blocks) -> Blocks:
        """Return the blocks of an array."""
        return cls(source.name, source.shape, source.dtype, source.chunks)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def numblocks(self) -> tuple[int, ...]:
        """The number of blocks along each axis."""
        return tuple(map(len, self.chunks))


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """One array to write; it is complete when created."""

    source: da.Array
    spec: ArraySpec
    """What is to be stored."""
    options: WriteOptions
    region: tuple[slice, ...] | None = None
    target: Array | None = None
    """The open array that has the region; None if it is to be opened."""
    dims: tuple[str, ...] = ()
    """The names of the dimensions in the report."""
    in_memory: bool = False
    """Whether the source was not a Dask array, so that its blocks are arbitrary."""
    deferred: bool = False
    """Whether the blocks are computed later."""
    appends: bool = False
    """Whether only new parts of the array are written; the source may read the others."""

    placed: bool = False
    """Whether the array is there, since the call that deferred this write has created it."""

    light: LightRequest | None = None
    """What the first task of a deferred write knows of the call that deferred it."""

    @cached_property
    def code(self) -> Mapping[str, str]:
        """A hash of each file with functions of the user in the graph, by its name."""
        return code_of(self.source.dask) if self.light is None else self.light.code

    def lightened(self, attempt: str) -> WriteRequest:
        """Return the request for a task, without the graph; its record has this attempt."""
        light = LightRequest(attempt, self.code, writer_name())
        options = replace(self.options, container=self.options.container.uncached())
        blocks: Any = Blocks.of(self.source)
        return replace(self, source=blocks, light=light, options=options, target=None)

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

    def renewed(self) -> WriteRequest:
        """Return the request with a container that reads documents again."""
        container = self.options.container.uncached().cached()
        return replace(self, options=replace(self.options, container=container), target=None)

    @property
    def path(self) -> str:
        """The array's path in the container."""
        return self.spec.path

    def identity(self, start: tuple[int, ...]) -> Identity:
        """Return what distinguishes this write, whose data begins at `start`, from all others."""
        spec, options, source = self.spec, self.options, self.source
        axes = spec.axes if spec.axes is None or isinstance(spec.axes, Geometry) else [*spec.axes]
        parts: dict[str, Any] = {
            "data": options.resume if isinstance(options.resume, str) else source.name,
            "shape": source.shape,
            "type": str(as_dtype(source.dtype, self.path)),
            "start": start,
            "axes": axes,
            "dialect": spec.dialect if isinstance(spec.dialect, str) else [*(spec.dialect or ())],
            "attributes": as_json(spec.attributes or {}, self.path),
            "options": [options.write_empty_chunks, options.edge_chunks],
        }
        if not self.keeps_array:
            blocks = "auto" if self.in_memory else _largest(source)
            parts |= {
                "compression": resolve(spec.compression),
                "chunks": blocks if spec.chunks is None else spec.chunks,
                "shards": spec.shards,
                "layout": sorted((spec.layout or {}).items()),
            }
        part = [[*start], [*map(operator.add, start, source.shape)]]
        return Identity({key: short_hash(value) for key, value in parts.items()}, self.code, part)

    @property
    def keeps_array(self) -> bool:
        """Whether an existing array keeps its metadata and gets new values."""
        return self.region is not None or self.spec.mode in {"a", "r+"}


def _largest(source: da.Array) -> tuple[int, ...]:
    """Return the size of the largest block along each axis."""
    return tuple(max(1, *sizes) for sizes in source.chunks)


def _slices(region: slice | Sequence[slice] | None) -> tuple[slice, ...] | None:
    if region is None:
        return None
    slices = (region,) if isinstance(region, slice) else tuple(region)
    if not all(isinstance(item, slice) for item in slices):
        raise ValueError(f"region is {region!r}; expected one slice for each axis")
    return slices


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
