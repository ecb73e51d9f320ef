"""Requests of users to write one array, and what distinguishes them from others."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self

import dask.array as da
import xarray as xr
from dask.base import is_dask_collection

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.records import is_token
from xarray_n5.arrays.spec import as_dtype
from xarray_n5.codecs import resolve
from xarray_n5.model.axes import Geometry
from xarray_n5.model.json import as_json
from xarray_n5.writing.blocks import blocks_of, values_of
from xarray_n5.writing.chunk_table import dims_or_numbers
from xarray_n5.writing.user_code import code_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
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


@dataclass(frozen=True, slots=True)
class Identity:
    """What a write stores, and where: the same call has the same one in every process."""

    parts: Mapping[str, str]
    """A hash of each part, so that an error can name those that differ."""
    code: Mapping[str, str]
    """A hash of each file with functions of the user, by its name."""
    part: list[list[int]]
    """The first element that is stored along each axis, and the one after the last."""
    around: Mapping[str, str]
    """Hashes of what is not the array's, and not in the token, as far as the call has it."""

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


@dataclass(frozen=True, slots=True)
class Template:
    """The array of a deferred write, which exists before its chunks."""

    identity: Identity
    """What distinguishes the call that deferred the write."""
    attempt: str = ""
    """In tasks, the attempt of its record: a task that runs twice begins once."""
    by: str = ""
    """The process that deferred the write, and has seen the array."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """Whether the array is part of an append, which other writes to its end wait for."""
    group: str = ""
    """A hash of what the call stores besides arrays, such as attributes of the group."""
    group_token: str = ""
    """The token of the group's write; "" for an array alone."""
    source_state: str = ""
    """A hash of the state of the stored chunks that a copy reads."""
    template: Template | None = None
    """The array, if the same call has created it to write its chunks later."""

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
            dims=dims or _names_of(arr, spec.axes, source.ndim),
            in_memory=not is_dask_collection(arr),
            **facts,
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
        container = self.options.container.uncached().cached()
        return replace(self, options=replace(self.options, container=container), target=None)

    def lightened(self, source: da.Array, template: Template) -> WriteRequest:
        """Return the request for the task that begins a deferred write, without the graph."""
        options = self.options
        empty = da.Array({}, source.name, source.chunks, dtype=source.dtype)
        plain = replace(options, container=options.container.uncached())
        return replace(self, source=empty, options=plain, template=template, target=None)

    def identity(self, start: tuple[int, ...]) -> Identity:
        """Return the identity of this write, whose data begins at `start`, among all others."""
        if self.template is not None:
            return self.template.identity
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
        part = [[*start], [*map(operator.add, start, source.shape)]]
        around = {"source": self.source_state, "group": self.group}
        around = {key: value for key, value in around.items() if value}
        return Identity(hashes, code_of(source.dask), part, around)


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
