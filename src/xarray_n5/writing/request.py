"""Requests to write one array, made from anything array-like, and their identities."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self, cast

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.arrays.records import is_token
from xarray_n5.arrays.spec import as_dtype, completed, resolve_chunks
from xarray_n5.codecs import resolve
from xarray_n5.errors import MetadataError
from xarray_n5.graph import as_graph
from xarray_n5.model.axes import Geometry
from xarray_n5.model.chunking import align
from xarray_n5.model.grid import as_texts, normalize
from xarray_n5.model.json import as_json
from xarray_n5.model.paths import join
from xarray_n5.writing.inputs import code_of
from xarray_n5.writing.report import dims_or_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.arrays.spec import ArraySpec
    from xarray_n5.model.metadata import ArrayMetadata
    from xarray_n5.writing.options import WriteOptions


def short_hash(value: object, size: int = 4) -> str:
    """Return hexadecimal digits that differ for different values, in every process alike."""
    text = json.dumps(value, sort_keys=True) if isinstance(value, dict) else repr(value)
    return blake2b(text.encode(errors="replace"), digest_size=size).hexdigest()


def fingerprint(metadata: ArrayMetadata, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return hashes of how an array is stored, and of the attributes that a write sets."""
    stored = (metadata.chunks, metadata.inner, str(metadata.dtype), metadata.compression)
    hashes = {key: short_hash([value]) for key, value in attributes.items()}
    return {"stored": short_hash(stored), "attributes": hashes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a write stores, and where: the same call has the same one in every process."""

    parts: Mapping[str, str]
    """A hash of each part, so that an error can name those that differ."""
    code: Mapping[str, str]
    """A hash of each file with functions of the user, by its name."""
    part: list[list[int]]
    """The first element that is stored along each axis, and the one after the last."""
    around: Mapping[str, str] = field(default_factory=dict)
    """Hashes of what is not the array's, and not in the token: "group", what the call stores
    besides arrays, and "source", the state of the stored chunks that a copy reads."""
    attempt: str = ""
    """In tasks of a deferred write, the attempt of its record: a task that runs twice begins once.
    """
    by: str = ""
    """The process that deferred the write, and has seen the array."""

    @property
    def facts(self) -> dict[str, Any]:
        """What records state of the write."""
        return {"is": dict(self.parts), "code": dict(self.code), "part": self.part, **self.around}

    @property
    def token(self) -> str:
        """The name of the write in records."""
        return short_hash({"is": dict(self.parts), "code": dict(self.code)}, 8)

    def changed_around(self, facts: Mapping[str, Any]) -> list[str]:
        """Return the keys of what is not as a record or row states it, if both do."""
        return [key for key, value in self.around.items() if facts.get(key, value) != value]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """One array to write; it is complete when created."""

    source: da.Array
    spec: ArraySpec
    """What is to be stored."""
    options: WriteOptions
    region: tuple[slice, ...] | None = None
    target: ArrayNode | None = None
    """The array that has the region; None if it is to be opened."""
    dims: tuple[str, ...] = ()
    """The names of the dimensions in the report."""
    in_memory: bool = False
    """Whether the source was not a Dask array, so that its blocks are arbitrary."""
    group: str = ""
    """A hash of what the call stores besides arrays."""
    state: str = ""
    """That of the stored chunks which a copy reads, if it must not change."""
    template: Identity | None = None
    """The identity of the call that has created the array, to write its chunks later."""

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
        target: ArrayNode | None = None,
        dims: tuple[str, ...] | None = None,
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
        if isinstance(spec.axes, Iterator):
            spec = replace(spec, axes=[*spec.axes])
        if isinstance(spec.dialect, Iterator):
            spec = replace(spec, dialect=[*spec.dialect])
        if (unit := values_of(arr)[1]) is not None:
            if region is not None:
                raise ValueError(
                    f"the array is a quantity in {unit!r}, and the stored array may have another "
                    "unit; convert it, and pass its plain values"
                )
            spec = replace(spec, attributes={"units": unit, **(spec.attributes or {})})
        source = blocks_of(arr)
        return cls(
            source=source,
            spec=spec,
            options=options,
            region=_slices(region),
            target=target,
            dims=dims or _names_of(arr, spec.axes, source.ndim),
            in_memory=not is_dask_collection(arr),
        )

    @property
    def path(self) -> str:
        """The array's path in the container."""
        return self.spec.path

    @property
    def values(self) -> str:
        """The name of the values: Dask's, or the user's where Dask has another one each time."""
        resume = self.options.resume
        named = isinstance(resume, str) and not is_token(resume) and not self.in_memory
        return str(resume) if named else self.source.name

    @property
    def keeps_array(self) -> bool:
        """Whether an existing array keeps its metadata and gets new values."""
        return self.region is not None or self.spec.mode in {"a", "r+"}

    @property
    def blocks(self) -> tuple[int, ...]:
        """The size of the largest block along each axis."""
        return tuple(max(1, *sizes) for sizes in self.source.chunks)

    def renewed(self) -> WriteRequest:
        """Return the request with a container that reads documents again."""
        return replace(self, options=self.options.renewed(), target=None)

    def lightened(self, source: da.Array, template: Identity | None = None) -> WriteRequest:
        """Return the request for other processes, without the graph."""
        options = self.options
        empty = da.Array({}, source.name, source.chunks, dtype=source.dtype)
        plain = replace(options, container=options.container.uncached())
        return replace(
            self, source=empty, options=plain, template=template or self.template, target=None
        )

    def identity(self, start: tuple[int, ...]) -> Identity:
        """Return the identity of this write, whose data begins at `start`, among all others."""
        if self.template is not None:
            return self.template
        spec, options, source = self.spec, self.options, self.source
        axes: Any = spec.axes
        if isinstance(axes, Geometry):
            axes = [*axes.axes, axes.affine, axes.systems]  # whose text is rounded
        parts: dict[str, Any] = {
            "data": self.values,
            "shape": source.shape,
            "type": str(as_dtype(source.dtype, self.path)),
            "start": start,
            "axes": axes,
            "dialect": spec.dialect,
            "attributes": as_json(spec.attributes or {}, self.path),
            "options": [options.write_empty_chunks, options.edge_chunks],
            "mode": self.keeps_array,
        }
        if not self.keeps_array:
            blocks = "auto" if self.in_memory else self.blocks
            parts |= {
                "compression": resolve(spec.compression),
                "chunks": blocks if spec.chunks is None else spec.chunks,
                "shards": spec.shards,
                "layout": sorted((spec.layout or {}).items()),
            }
        hashes = {key: short_hash(value) for key, value in parts.items()}
        return Identity(
            parts=hashes,
            code=code_of(source.dask),
            part=[[*start], [*map(operator.add, start, source.shape)]],
            around={k: v for k, v in (("group", self.group), ("source", self.state)) if v},
        )


def _slices(region: slice | Sequence[slice] | None) -> tuple[slice, ...] | None:
    if region is None:
        return None
    slices = (region,) if isinstance(region, slice) else tuple(region)
    if not all(isinstance(item, slice) for item in slices):
        raise ValueError(f"region is {region!r}; expected one slice for each axis")
    return slices


def _names_of(arr: Any, axes: Any, ndim: int) -> tuple[str, ...]:
    """Return the names of the dimensions in the report of a write."""
    if isinstance(arr, xr.DataArray):
        return tuple(map(str, arr.dims))
    names = [getattr(axis, "name", axis) for axis in getattr(axes, "axes", axes) or ()]
    return dims_or_numbers(names if len(set(names)) == ndim else None, ndim)


def blocks_of(arr: Any) -> da.Array:
    """Convert anything array-like to a Dask array.

    Raises
    ------
    ValueError
        If the size of a block is unknown.
    MetadataError
        If there are objects that are not strings, masked values, or no NumPy arrays to be had.
    """
    plain = as_graph(_unmasked(values_of(arr)[0]))
    source: da.Array = plain if is_dask_collection(plain) else as_graph(_as_dask(plain))
    if any(math.isnan(size) for size in source.shape):
        raise ValueError(
            "the array has blocks of unknown size; call its compute_chunk_sizes() first"
        )
    return source


def values_of(arr: Any, what: str = "the array") -> tuple[Any, str | None]:
    """Return the values of xarray's objects and of quantities, and the unit of quantities.

    Raises
    ------
    MetadataError
        If NumPy cannot have the values, or only all of them at once.
    """
    data = arr.data if isinstance(arr, xr.DataArray | xr.Variable) else arr
    unit = None
    # Quantities of pint, or those of astropy and unyt, which are arrays of NumPy.
    value = getattr(data, "value" if isinstance(data, np.ndarray) else "magnitude", None)
    if value is not None and (unit := getattr(data, "units", getattr(data, "unit", None))):
        data, unit = value, str(unit)
    sample = getattr(data, "_meta", None) if is_dask_collection(data) else data
    kind = f"{type(sample).__module__}.{type(sample).__qualname__}"
    chunks, shape = (getattr(sample, name, None) for name in ("chunks", "shape"))
    if isinstance(chunks, tuple) and any(isinstance(sizes, tuple) for sizes in chunks):
        raise MetadataError(
            f"{what} is chunked by another library than Dask ({kind}), and would be loaded "
            "whole; open it with Dask, in xarray with chunked_array_type='dask', or pass compute()"
        )
    if shape is not None and not hasattr(sample, "chunks"):
        dense = _as_dense(sample)
        if dense.shape != shape:
            raise MetadataError(
                f"{what}: expected values that NumPy can read, got {kind}; convert it to a NumPy "
                "array, such as with its toarray() or todense(), in Dask with map_blocks"
            )
        data = dense if sample is data else data
    return data, unit


def _as_dense(arr: Any) -> np.ndarray:
    """Return an array as NumPy sees it: an object without axes if it is refused a conversion."""
    try:
        return np.asanyarray(arr)
    except (RuntimeError, TypeError, ValueError):
        return np.array(None)


def _unmasked(arr: Any) -> Any:
    """Return values without a mask; raise if it masks any, since masks cannot be stored."""
    lazy = isinstance(getattr(arr, "_meta", None), np.ma.MaskedArray)
    masked = isinstance(arr, np.ma.MaskedArray)
    if lazy or (masked and np.ma.is_masked(arr)):
        fill = "dask.array.ma.filled(x, value)" if lazy else "x.filled(value)"
        raise MetadataError(f"the array is masked, and masks cannot be stored; fill it with {fill}")
    return arr.data if masked else arr


def _as_dask(arr: Any) -> da.Array:
    """Return an array as a Dask array; strings, whose size varies, in one block."""
    if not (isinstance(arr, np.ndarray) and arr.dtype.hasobject):
        # Dask's own name depends on what is imported; a resume compares names.
        return cast("da.Array", da.asarray(arr, name=f"array-{tokenize(arr)}"))
    try:
        return cast("da.Array", da.from_array(as_texts(arr), chunks=arr.shape))
    except TypeError as error:
        raise MetadataError(str(error)) from error


def aligned_blocks(source: da.Array, chunks: tuple[int, ...], start: tuple[int, ...]) -> da.Array:
    """Return `source` rechunked so that blocks do not share stored chunks."""
    blocks = tuple(map(align, source.chunks, chunks, start))
    return source if blocks == source.chunks else cast("da.Array", source.rechunk(blocks))


def region_start(region: tuple[slice, ...], source: da.Array, target: ArrayNode) -> tuple[int, ...]:
    """Return the start of `region` in `target`, after checking that `source` fits into it."""
    stored = target.metadata
    selection = normalize(region, stored.shape)
    plain = all(item.step in {None, 1} for item in region)
    if not plain or selection.shape != source.shape:
        raise ValueError(
            f"expected a region of shape {source.shape}, the shape of the array; {region} of "
            f"{target.url!r}, whose shape is {stored.shape}, has shape {selection.shape}; resize "
            "or select to fit, with steps of 1"
        )
    if stored.dtype != as_dtype(source.dtype, target.url):
        raise MetadataError(
            f"{target.url} has type {stored.dtype}, got {source.dtype}; convert with astype()"
        )
    return tuple(axis.start for axis in selection.axes if isinstance(axis, slice))


def sized(request: WriteRequest, stored: ArrayMetadata | None) -> ArraySpec:
    """Return the array to store, with the shapes of chunks and shards.

    These are as requested, those of an array that is kept, or those of Dask's blocks.
    """
    spec, source, chunks = request.spec, request.source, request.spec.chunks
    if stored is not None and request.keeps_array and chunks is None:
        chunks = stored.inner or stored.chunks
        if spec.shards is None:
            return replace(spec, chunks=chunks, shards=stored.inner and stored.chunks)
    elif chunks is None:
        chunks = "auto" if request.in_memory else request.blocks
    sides, shards = resolve_chunks(chunks, spec.shards, source.shape, source.dtype, spec.apart)
    return replace(spec, chunks=sides, shards=shards)


def planned_node(request: WriteRequest, spec: ArraySpec | None = None) -> ArrayNode:
    """Return the array that a request describes, for those who will read it; nothing is checked."""
    options, source, spec = request.options, request.source, spec or sized(request, None)
    where = join(options.container.url, request.path)
    metadata = replace(spec, axes=None).metadata(source.shape, source.dtype, where)
    metadata = completed(options.format, metadata, spec.layout, where)
    return OpenOptions(writable=True).node(options.container, request.path, metadata).bare()
