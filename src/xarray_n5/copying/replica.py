"""What an array becomes in another container: its data, how they are stored, and its attributes."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from xarray_n5.arrays.access import context_of, geometry_in, io_of, stored_chunks
from xarray_n5.arrays.create import as_dtype, check_storable, chunk_shape, completed
from xarray_n5.codecs import resolve
from xarray_n5.copying.attributes import NAMES, for_array, for_part, lists_of, original
from xarray_n5.copying.cast import check_convertible, converted
from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.datasets.encoded import cf_attributes
from xarray_n5.errors import MetadataError, N5Error
from xarray_n5.model.alerts import warn
from xarray_n5.model.metadata import ArrayMetadata, Content

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import dask.array as da

    from xarray_n5.arrays.array import Array
    from xarray_n5.copying.attributes import Original
    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.model.metadata import Attributes

_MOST = 1 << 28
"""How many bytes a chunk may have to stay as it is; HDF5 may hold an array in one piece."""

_TASKS = 1 << 23
"""How many blocks are copied at once at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """In what copies of arrays differ from them."""

    chunks: Sequence[int] | int | Literal["auto"] | None = None
    compression: str | Mapping[str, Any] | Compression | None = "same"
    """"same" for that of each array; gzip takes its place where the format has none such."""
    dtype: Any = None
    region: tuple[slice, ...] | None = None
    """The part of each array that is copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """An array as it will be written."""

    data: da.Array
    metadata: ArrayMetadata
    layout: Mapping[str, Any] | None
    holes: bool = field(default=False)
    """Whether chunks are missing, and stay so where their absence tells as much."""


def replica(array: Array, node: ArrayContext, form: Format, changes: Changes) -> Replica:
    """Return what an array becomes, all checked that can be checked before it is written.

    Parameters
    ----------
    array
        The array.
    node
        As what dialects will see it: its path, and the groups around it.
    form
        The format that it is written in.
    changes
        In what the copy differs.

    Raises
    ------
    MetadataError
        If the format cannot hold it, or elements of another type are asked for that are none.
    ValueError
        If the region is none of the array's.
    """
    where = node.path or array.url
    content = io_of(array).metadata.content
    if content in {Content.LABEL_MULTISETS, Content.OBJECTS}:
        raise MetadataError(
            f"{array.url} holds {content.value}, which are not copied; leave it out"
        )
    around = context_of(array)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is odd of it stays as it is
        geometry = geometry_in(array, around)
    shape = array.shape
    before = _before(array)
    same = changes.dtype is None
    if changes.region is not None:
        box = _checked(changes.region, array)
        shape = tuple(side.stop - side.start for side in box)
        node = replace(node, shape=shape)
        attributes = for_part(
            dict(array.attrs), _moved(geometry, box), node, form.name, named=before.named
        )
    else:
        node = replace(node, shape=shape)
        kept = before if same else replace(before, layout=_order(before.layout))
        attributes = for_array(kept, geometry, node, form.name, _masked(array, form))
    dtype = as_dtype(array.dtype if changes.dtype is None else changes.dtype, where)
    if not same:
        check_convertible(array.dtype, dtype, array.url)
    metadata = ArrayMetadata(
        shape=shape,
        chunks=_sides(array, shape, dtype, changes),
        dtype=dtype,
        compression=array.compression,
        attributes=attributes,
    )
    layout = _layout(array, metadata, form, before, same=same)
    found = _compressed(metadata, form, layout, changes, where)
    data = _data(array, changes, dtype)
    stored = sum(1 for _ in stored_chunks(array))
    return Replica(data=data, metadata=found, layout=layout, holes=stored < array.grid.size)


def _data(array: Array, changes: Changes, dtype: np.dtype[Any]) -> da.Array:
    data = from_n5(array, chunks="auto")
    if changes.region is not None:
        data = data[changes.region]
    if data.npartitions > _TASKS:
        raise ValueError(
            f"{array.url}, whose shape is {array.shape}, is {data.npartitions} blocks: copy parts "
            "of it with a region, or leave it out"
        )
    if dtype != data.dtype:
        meta = np.empty((0,) * data.ndim, dtype)
        data = cast(
            "da.Array", data.map_blocks(cast("Any", converted), dtype, dtype=dtype, meta=meta)
        )
    return data


def _checked(region: tuple[slice, ...], array: Array) -> tuple[slice, ...]:
    """Return the region as starts and stops, if the array reaches so far."""
    if len(region) != array.ndim:
        raise ValueError(
            f"the region has {len(region)} axes, {array.url} has {array.ndim}: {array.shape}"
        )
    box = []
    for number, (side, size) in enumerate(zip(region, array.shape, strict=True)):
        start, stop = (side.start or 0), size if side.stop is None else side.stop
        if not 0 <= start < stop <= size:
            raise ValueError(
                f"the region goes from {start} to {stop} along axis {number}, where {array.url} "
                f"has {size} elements"
            )
        box.append(slice(start, stop))
    return tuple(box)


def _moved(geometry: Geometry, box: tuple[slice, ...]) -> Geometry:
    """Return where the samples of a part lie."""
    axes = tuple(
        replace(axis, labels=axis.labels[side])
        if axis.labels is not None
        else replace(axis, offset=axis.position(side.start) if axis.placed else 0.0)
        for axis, side in zip(geometry.axes, box, strict=True)
    )
    rows = geometry.affine
    if rows is not None:
        starts = [side.start for side in box]
        rows = tuple(
            (*row[:-1], row[-1] + sum(a * b for a, b in zip(row, starts, strict=False)))
            for row in rows
        )
    return replace(geometry, axes=axes, affine=rows)


def _masked(array: Array, form: Format) -> Attributes:
    """Return a fill value that masks for xarray as an attribute, where the format is not Zarr."""
    fill = cf_attributes(array).get("_FillValue")
    if form.native_to_xarray or fill is None or "_FillValue" in array.attrs:
        return {}
    value = fill.item() if isinstance(fill, np.generic) else fill
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        if value == value:  # noqa: PLR0124 - NaN masks itself
            warn(f"{array.url}: the fill value {value!r} is none that JSON has; it masks no more")
        return {}
    return {"_FillValue": value}


def _before(array: Array) -> Original:
    """Return an array's attributes and layout before it was ever copied into another format."""
    found = original(array.attrs, lists_of(io_of(array).container))
    form = io_of(array).format
    if not form.native_to_xarray:
        return found
    layout = form.layout_of(io_of(array).metadata) if found.lists == form.name else {}
    return replace(found, layout=layout, named=NAMES in array.attrs)


def _order(layout: Attributes) -> dict[str, Any]:
    """Return what of a layout holds for elements of any type."""
    return {key: layout[key] for key in ("order", "dimension_separator") if key in layout}


def _layout(
    array: Array, metadata: ArrayMetadata, form: Format, before: Original, *, same: bool
) -> Mapping[str, Any] | None:
    """Return how Zarr is asked to store elements: as it did before."""
    if not form.native_to_xarray:
        return None
    if io_of(array).format.native_to_xarray:
        layout = io_of(array).format.layout_of(io_of(array).metadata)
        return layout if same else _order(layout)
    added = before.added.get("_FillValue")
    asked = {} if added is None else {"fill_value": added}
    asked |= before.layout
    if added is not None and array.attrs.get("_FillValue") != added:
        asked["fill_value"] = None  # what masks now stands among the attributes
    try:
        form.complete(metadata, asked if same else _order(asked))
    except N5Error:
        return None  # the array has become another one since
    return asked if same else _order(asked)


def _sides(
    array: Array, shape: tuple[int, ...], dtype: np.dtype[Any], changes: Changes
) -> tuple[int, ...]:
    if changes.chunks is not None:
        return chunk_shape(changes.chunks, shape)
    sides = array.chunks
    if np.prod(sides, dtype=float) * dtype.itemsize > _MOST:
        return chunk_shape("auto", shape)
    return sides


def _compressed(
    metadata: ArrayMetadata,
    form: Format,
    layout: Mapping[str, Any] | None,
    changes: Changes,
    where: str,
) -> ArrayMetadata:
    """Return the metadata with a compression that the format has; gzip is had by all."""
    asked = changes.compression != "same"
    if asked:
        metadata = replace(metadata, compression=resolve(changes.compression))
    try:
        found = completed(form, metadata, layout, where)
        check_storable(found, form, where)
    except MetadataError:
        if asked:
            raise
        found = completed(form, replace(metadata, compression=resolve("gzip")), layout, where)
        check_storable(found, form, where)
    return found
