"""What a pyramid stands on: its base level, be it stored already or still to be written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import xarray as xr
from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.access import bare, container_of, io_of, is_transposed
from xarray_n5.arrays.array import Array
from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.create import chunk_shape
from xarray_n5.arrays.marker import find_markers
from xarray_n5.arrays.open import open_array
from xarray_n5.codecs import resolve
from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.model.axes import Axis, Geometry, as_geometry
from xarray_n5.writing.inputs import blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import dask.array as da
    import numpy as np

    from xarray_n5.model.codec import Compression

BASE = "s0"
"""What the base level is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A pyramid's base level."""

    geometry: Geometry
    """Its axes, all of them named."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    """The shape of a chunk, of all levels."""
    token: str
    """What tells its values from others."""
    compression: Compression | None = None
    """That of the array it was read from, if any."""
    blocks: da.Array | None = None
    """What is to be written; None where it is stored already."""
    stored: Array | None = None
    """The stored array, where levels go beside it."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """The stored array's attributes."""
    group: tuple[object, str, str | None] = ("", "", None)
    """The container, the path and the format of the group that it is in."""


def complete_base(stored: Array | None, own: Mapping[str, Any]) -> None:
    """Give a base level that was there the factors that its new levels have, where it has none."""
    if stored is None:
        return
    if lacking := {k: v for k, v in factors_of_base(own).items() if k not in stored.attrs}:
        open_array(container_of(stored).fresh(), stored.path, mode="r+").attrs.update(lacking)


def factors_of_base(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attribute of a base level that its levels beside it bring along."""
    return {key: own[key] for key in ("downsamplingFactors",) if key in own}


def stored_base(
    source: Any,
    path: str,
    *,
    axes: Iterable[Axis | str | None] | Geometry | None,
    chunks: Sequence[int] | int | None,
    storage_options: Mapping[str, Any] | None,
    form: str | None,
) -> Base:
    """Return a base level that stays where it is.

    Raises
    ------
    NodeNotFoundError
        If there is no array.
    ValueError
        If levels beside it would be no pyramid, or a write into it has not ended.
    """
    if isinstance(source, Array):
        if path or storage_options or form:
            raise TypeError("an Array is open already; options are for places only")
        array = source
    elif isinstance(source, (xr.DataArray, xr.Dataset)) or hasattr(source, "__array__"):
        raise TypeError(f"{type(source).__name__} is stored nowhere yet: give the url to write to")
    else:
        array = open_array(source, path, storage_options=storage_options, format=form)
    if array.path.rpartition("/")[2] != BASE or is_transposed(array):
        raise ValueError(
            f"{array.url} is not called {BASE!r} in a group of a container, or was opened turned "
            "round: levels beside it would be no pyramid. Give a url (and a path) for a copy"
        )
    if any(find_markers(io_of(array).store, array.path)):
        raise ValueError(
            f"{array.url} is still being written, or its write was stopped: go on with that first "
            "(resume=True), so that levels are made of all of it"
        )
    form = io_of(array).format.name
    return Base(
        geometry=_complete(array.geometry() if axes is None else axes, array.ndim),
        shape=array.shape,
        dtype=array.dtype,
        chunks=array.chunks if chunks is None else chunk_shape(chunks, array.shape),
        token=tokenize(bare(array), io_of(array).etag()),
        compression=array.compression,
        stored=bare(array),
        attributes=dict(array.attrs),
        group=(io_of(array).store, array.path.rpartition("/")[0], form),
    )


def new_base(
    source: Any,
    *,
    axes: Iterable[Axis | str | None] | Geometry | None,
    chunks: Sequence[int] | int | None,
) -> Base:
    """Return a base level that is to be written.

    Raises
    ------
    TypeError
        If `source` is a place.
    ValueError
        If its shape is not known, or the axes do not fit.
    """
    if not (hasattr(source, "shape") and hasattr(source, "dtype")):
        hint = "open the array in it, open_array(url, path), or give its path= and no url"
        if isinstance(source, xr.Dataset):
            hint = f"choose one of its variables: {', '.join(map(str, source.data_vars))}"
        raise TypeError(f"source is a {type(source).__name__}, which holds no numbers; {hint}")
    blocks = from_n5(source, chunks="auto") if isinstance(source, Array) else blocks_of(source)
    if axes is None and isinstance(source, Array):
        axes = source.geometry()
    elif axes is None:
        of_xarray = isinstance(source, xr.DataArray)
        axes = geometry_from(source) if of_xarray else (None,) * blocks.ndim
    return Base(
        geometry=_complete(axes, blocks.ndim),
        shape=blocks.shape,
        dtype=blocks.dtype,
        chunks=_chunks(source, chunks, blocks),
        token=blocks.name,
        compression=_compression(source),
        blocks=blocks,
    )


def _complete(axes: Iterable[Axis | str | None] | Geometry, ndim: int) -> Geometry:
    """Return axes that all have names, and stand for no samples but their own."""
    found = as_geometry(axes, ndim).with_names()
    if found.affine is not None:
        raise ValueError(
            "the samples lie where a matrix says, and not axis by axis: give the axes, with scales "
            "and offsets, or names alone"
        )
    plain = tuple(replace(axis, factor=1.0) for axis in as_geometry(found, ndim).axes)
    return Geometry(plain)


def _chunks(source: Any, chunks: Sequence[int] | int | None, blocks: da.Array) -> tuple[int, ...]:
    """Return the shape of chunks: what is asked for, what the source was stored in, its blocks."""
    if chunks is not None:
        return chunk_shape(chunks, blocks.shape)
    if isinstance(source, Array):
        return source.chunks
    if isinstance(source, xr.DataArray):
        kept = source.encoding.get("chunks")
        if kept is not None and len(kept) == blocks.ndim:
            return tuple(max(1, side) for side in kept)
    if is_dask_collection(source):
        return tuple(max(1, *sizes) for sizes in blocks.chunks)
    return chunk_shape("auto", blocks.shape)


def _compression(source: Any) -> Compression | None:
    if isinstance(source, Array):
        return source.compression
    kept = getattr(source, "encoding", {}).get("n5_compression")
    return None if kept is None else resolve(kept)
