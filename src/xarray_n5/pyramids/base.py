"""The base level of a pyramid: an array that is stored already, or is going to be written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import xarray as xr
from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import context_of
from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.open import open_array
from xarray_n5.arrays.records import look
from xarray_n5.arrays.spec import resolve_chunks
from xarray_n5.codecs import resolve
from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.dialects.ngff_attributes import warn_lost
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis, Geometry, as_geometry, axes_apart
from xarray_n5.pyramids.meaning import Meaning, meaning_of
from xarray_n5.writing.blocks import blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import dask.array as da
    import numpy as np

    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.codec import Compression

BASE = "s0"
"""The name of the base level."""

_ADDED = ("downsamplingFactors",)
"""The attribute that a stored base level gets if it lacks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseLevel:
    """A pyramid's base level."""

    geometry: Geometry
    """Its axes, all of them named."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    """The shape of a chunk of all levels."""
    token: str
    """A string that distinguishes its values from others."""
    shards: tuple[int, ...] | None = None
    """The shape of a shard of all levels, if there are shards."""
    compression: Compression | None = None
    """The compression of the source array, if it is stored."""
    blocks: da.Array | None = None
    """The data to write; None if it is stored already."""
    stored: Array | None = None
    """The stored array, next to which the levels are written."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """The stored array's attributes."""
    group: tuple[object, str] = ("", "")
    """The stored array's container, and the path of its group."""
    meaning: Meaning = field(default_factory=Meaning)
    """What masks, scales and types the samples."""


def stored_base(
    source: Any,
    path: str,
    *,
    chunks: Sequence[int] | int | None,
    shards: Sequence[int] | int | Literal["auto"] | None = None,
    storage_options: Mapping[str, Any] | None,
) -> BaseLevel:
    """Return a stored array as a base level.

    Raises
    ------
    NodeNotFoundError
        If there is no array.
    ValueError
        If levels next to it would not be a pyramid, or it has an unfinished write.
    """
    if isinstance(source, Array):
        if path or storage_options:
            raise TypeError("an Array is already open: path and storage_options are for URLs")
        array = source
    elif isinstance(source, (xr.DataArray, xr.Dataset)) or hasattr(source, "__array__"):
        raise TypeError(f"{type(source).__name__} is not stored yet; pass the url to write to")
    else:
        array = open_array(source, path, storage_options=storage_options)
    if array.path.rpartition("/")[2] != BASE:
        name = array.path.rpartition("/")[2] or "image"
        raise ValueError(
            f"{array.url!r} is not called {BASE!r}, the name of a pyramid's base level; pass "
            f"another location for a copy with levels, such as 'pyramid.n5/{name}'"
        )
    if context_of(array.node).view is not None:
        raise ValueError(
            f"{array.url!r} is a view of a project, whose setups and XML list the levels; store "
            "the project with levels by to_bdv(levels=...), or pass another location for a copy"
        )
    if look(array.node.container.uncached().store, array.path).opens:
        raise ValueError(
            f"{array.url!r} has an unfinished write; resume that first (resume=True), so that "
            "levels are computed from complete data"
        )
    geometry = as_geometry(array.geometry(), array.ndim)
    apart = axes_apart(geometry.axes)
    if shards is None and chunks is None:
        shards = array.shards
    chosen = array.chunks if chunks is None else chunks
    sides, files = resolve_chunks(chosen, shards, array.shape, array.dtype, apart)
    return BaseLevel(
        geometry=_complete(geometry, array.ndim),
        shape=array.shape,
        dtype=array.dtype,
        chunks=sides,
        shards=files,
        # Not by the axes that it has: the metadata of its levels describe it, too.
        token=tokenize(Array(array.node.bare()), _before(array.attrs)),
        compression=array.compression,
        stored=Array(array.node.bare()),
        attributes=dict(array.attrs),
        group=(array.container.fresh(), array.path.rpartition("/")[0]),
        meaning=meaning_of(array),
    )


def new_base(
    source: Any,
    *,
    chunks: Sequence[int] | int | None,
    shards: Sequence[int] | int | Literal["auto"] | None = None,
) -> BaseLevel:
    """Return an array to write as a base level.

    Raises
    ------
    TypeError
        If `source` is not an array.
    ValueError
        If its shape is unknown, or the axes do not fit.
    """
    if not (hasattr(source, "shape") and hasattr(source, "dtype")):
        hint = "pass the array in it, open_array(url, path)"
        if isinstance(source, xr.Dataset):
            hint = f"choose one of its variables: {', '.join(map(str, source.data_vars))}"
        raise TypeError(f"expected an array as source, got {type(source).__name__}; {hint}")
    blocks = from_n5(source, chunks="auto") if isinstance(source, Array) else blocks_of(source)
    meaning = meaning_of(source) if isinstance(source, Array) else Meaning()
    axes: Any
    if isinstance(source, Array):
        axes = source.geometry()
        warn_lost(source.url, axes.systems, {})  # transformations may name arrays and labels there
        axes = replace(axes, systems=None)
    else:
        of_xarray = isinstance(source, xr.DataArray)
        axes = geometry_from(source) if of_xarray else (None,) * blocks.ndim
    geometry, shape, dtype = as_geometry(axes, blocks.ndim), blocks.shape, blocks.dtype
    apart = axes_apart(geometry.axes)
    chosen = _stored_chunks(source, blocks) if chunks is None else chunks
    sides, files = resolve_chunks(chosen, shards, shape, dtype, apart)
    return BaseLevel(
        geometry=_complete(geometry, blocks.ndim),
        shape=shape,
        dtype=dtype,
        chunks=sides,
        shards=files,
        token=blocks.name,
        compression=_compression(source),
        blocks=blocks,
        meaning=meaning,
    )


def with_channel_names(source: xr.DataArray) -> xr.DataArray:
    """Return an array whose axis of channels has their names, as views of a project have them.

    A warning names all other coordinates, which levels do not have.
    """
    names, ids = (source.coords.get(name) for name in ("channel_name", "channel"))
    is_named = ids is not None and ids.dtype.kind not in "biuf"
    if names is not None and names.dims == ("channel",) and not is_named:
        source = source.drop_vars("channel_name").assign_coords(channel=names.astype(str).values)
    lost = [str(name) for name, each in source.coords.items() if each.dims != (name,)]
    if lost:
        warn(f"omitted, as levels have coordinates of their axes only: {', '.join(lost)}")
    return source


def _before(attributes: Mapping[str, Any]) -> str:
    """Return the attributes of a stored base level as they were before its first pyramid."""
    return repr(sorted((k, v) for k, v in attributes.items() if k not in _ADDED))


def factors_of_base(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attribute that a stored base level gets if it lacks it."""
    return {key: own[key] for key in _ADDED if key in own}


def complete_base(stored: Array | None, own: Mapping[str, Any]) -> None:
    """Set the factors of a stored base level, if it has none."""
    if stored is not None:
        array = open_array(stored.container.fresh(), stored.path, mode="r+")
        if lacking := {k: v for k, v in factors_of_base(own).items() if k not in array.attrs}:
            array.attrs.update(lacking)


def level_layout(
    base: BaseLevel, form: Format, *, nested: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the layout of a pyramid's levels in Zarr, and the attributes that belong to it.

    Levels have the meaning of the base level, and the fill value of a stored one, which masks for
    all of them or for none.
    """
    layout = dict(form.nested_layout or {}) if nested else {}
    dims = [str(axis.name) for axis in base.geometry.axes]
    attributes, mask = base.meaning.stored(dims, base.dtype, form)
    if not form.native_to_xarray:
        return layout, attributes
    if base.stored is not None:
        kept = form.layout_of(base.stored.node.metadata)
        layout |= {key: kept[key] for key in ("fill_value", "_FillValue") if key in kept}
    elif mask is not None:
        layout["fill_value"] = mask
    lacks = base.stored is None or base.stored.node.metadata.may_lack_chunks
    return layout, attributes | (dict(form.level_attributes) if lacks and mask is None else {})


def _complete(axes: Iterable[Axis | str | None] | Geometry, ndim: int) -> Geometry:
    """Name all axes, and drop that they may have been downsampled."""
    found = as_geometry(axes, ndim).with_names()
    if found.affine is not None:
        raise ValueError(
            "an affine transform combines the axes, which pyramids do not support; pass axes with "
            "scales and offsets, or their names"
        )
    plain = tuple(replace(axis, factor=1.0) for axis in as_geometry(found, ndim).axes)
    return replace(found, axes=plain)


def _stored_chunks(source: Any, blocks: da.Array) -> tuple[int, ...] | None:
    """Return the chunk shape of the stored source, or that of its blocks; None without either."""
    if isinstance(source, Array):
        return source.chunks
    if isinstance(source, xr.DataArray):
        kept = source.encoding.get("chunks")
        if kept is not None and len(kept) == blocks.ndim:
            return tuple(max(1, side) for side in kept)
    if is_dask_collection(source):
        return tuple(max(1, *sizes) for sizes in blocks.chunks)
    return None


def _compression(source: Any) -> Compression | None:
    if isinstance(source, Array):
        return source.compression
    kept = getattr(source, "encoding", {}).get("n5_compression")
    return None if kept is None else resolve(kept)
