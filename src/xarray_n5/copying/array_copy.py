"""Plan the copy of one array: its data, their storage, and its attributes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xarray_n5.arrays.spec import as_dtype, chunk_shape, completed, with_fallback, with_shards
from xarray_n5.codecs import resolve
from xarray_n5.copying.attributes import (
    NAMES,
    lists_of,
    of_array,
    of_described,
    of_part,
    original,
    without_nan,
)
from xarray_n5.copying.bounds import moved
from xarray_n5.copying.elements import (
    blocks_of_array,
    box_of,
    check_blocks,
    converted_blocks,
    converted_mask,
    is_sparse,
)
from xarray_n5.datasets.encoded import cf_attributes, decode_attributes
from xarray_n5.dialects import find_dialects
from xarray_n5.dialects.dimension_names import ArrayDimensions
from xarray_n5.dialects.write import write_geometry
from xarray_n5.errors import MetadataError, N5Error
from xarray_n5.formats.zarr3.codecs import compressor_to_json
from xarray_n5.formats.zarr3.layout import adapted
from xarray_n5.model.axes import axes_apart
from xarray_n5.model.conversions import check_convertible
from xarray_n5.model.metadata import ArrayMetadata, Content

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import dask.array as da

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.node import LabelMultisets
    from xarray_n5.boxes.crop import Bounds
    from xarray_n5.copying.attributes import Original
    from xarray_n5.copying.pyramids import CopyDialect
    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.model.metadata import Attributes

_MOST = 1 << 28
"""The maximum size of a chunk that keeps its shape; HDF5 may store an array in one piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """The changes that a copy makes to arrays."""

    chunks: Sequence[int] | int | Literal["auto"] | None = None
    shards: Sequence[int] | int | Literal["auto"] | None = None
    compression: str | Mapping[str, Any] | Compression | None = "same"
    """"same" for that of each array, or gzip if the format does not have it."""
    dtype: Any = None
    region: tuple[slice, ...] | None = None
    """The part of each array to copy."""
    bounds: Mapping[str, Bounds] | None = None
    """The same by coordinates, as `ds.n5.crop` has them."""
    dialect: CopyDialect = None
    """The dialects that describe arrays and pyramids; by default those of the format."""
    label_multisets: LabelMultisets = "error"
    """The content as which Paintera's label multisets are copied; "error" rejects them."""

    def __post_init__(self) -> None:
        if self.dialect not in {None, "same"}:
            find_dialects(self.dialect)
        if not self.bounds:
            return
        if self.region is not None:
            raise ValueError("region= and bounds= both select the part to copy; give one of them")
        if self.dialect == "same":
            raise ValueError(
                "dialect='same' keeps the attributes of the whole image, which do not describe a "
                "part of it; name other dialects, or none, with bounds="
            )

    @property
    def is_described(self) -> bool:
        """Whether the user chose the dialects."""
        return self.dialect not in {None, "same"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCopy:
    """An array of the copy, before it is written."""

    data: da.Array
    metadata: ArrayMetadata
    layout: Mapping[str, Any] | None
    sparse: bool
    """Whether chunks are missing; chunks of fill values are then missing in the copy, too."""


def copy_array(
    array: Array,
    geometry: Geometry,
    context: ArrayContext,
    form: Format,
    options: CopyOptions,
    described: Attributes | None = None,
) -> ArrayCopy:
    """Plan the copy of an array; nothing is written.

    Parameters
    ----------
    array, geometry
        The array and its axes.
    context
        The copy as dialects will see it: its path, and the groups around it.
    form
        The format of the copy.
    options
        The changes that the copy makes.
    described
        The attributes that describe it as a level of a pyramid, if that has new ones.

    Raises
    ------
    MetadataError
        If the format cannot store it, or its type cannot be converted.
    ValueError
        If the region is not in the array.
    """
    where, io = context.path or array.url, array.node
    if io.metadata.content in {Content.LABEL_MULTISETS, Content.OBJECTS}:
        multisets = io.metadata.content is Content.LABEL_MULTISETS
        hint = ", or copy their labels with label_multisets='argmax'" if multisets else ""
        held = io.metadata.content.value
        raise MetadataError(f"{array.url} has {held}, which cannot be copied; leave it out{hint}")
    dtype = as_dtype(array.dtype if options.dtype is None else options.dtype, where)
    check_convertible(array.dtype, dtype, array.url)
    of_booleans = dtype.kind == "b" and not form.native_to_xarray
    dtype = np.dtype("i1") if of_booleans else dtype
    before = _original(array)
    if options.dtype is not None:
        before = replace(before, layout=_without_type(before.layout))
    box = box_of(array, options.region)
    shape = tuple(side.stop - side.start for side in box)
    apart = axes_apart(geometry.axes)
    stored, inner = chunks_of_copy(array, apart, shape, dtype, form, options)
    metadata = ArrayMetadata(
        shape=shape,
        chunks=stored,
        inner=inner,
        dtype=dtype,
        compression=array.compression,
        attributes=_attributes(
            array, geometry, before, replace(context, shape=shape), form, options, box, described
        ),
    )
    layout = _layout(array, metadata, form, before, options)
    if of_booleans:
        names = ArrayDimensions().write(geometry.with_names(), context)
        metadata = replace(metadata, attributes={**metadata.attributes, **names, "dtype": "bool"})
    if form.name != array.node.format.name or options.dtype is not None:
        metadata, layout = _masked(array, metadata, layout, form)
    if described is not None and form.nested_layout:
        layout = {**form.nested_layout, **(layout or {})}  # as OME-NGFF requires
    if options.compression == "same":
        metadata = with_fallback(form, metadata, layout, where)
    else:
        metadata = replace(metadata, compression=resolve(options.compression))
        metadata = completed(form, metadata, layout, where)
    return ArrayCopy(
        data=_data(array, metadata, options, dtype),
        metadata=metadata,
        layout=layout,
        sparse=is_sparse(array),
    )


def _original(array: Array) -> Original:
    """Return an array's attributes and layout before it was first copied to another format."""
    io = array.node
    found = original(without_nan(array.attrs), lists_of(io.container))
    if not io.format.native_to_xarray:
        return found
    layout = io.format.layout_of(io.metadata) if found.lists == io.format.name else {}
    return replace(found, layout=layout, named=NAMES in array.attrs)


def _attributes(
    array: Array,
    geometry: Geometry,
    before: Original,
    context: ArrayContext,
    form: Format,
    options: CopyOptions,
    box: tuple[slice, ...],
    described: Attributes | None,
) -> dict[str, Any]:
    """Return the attributes of a copy, or of the copy of a part."""
    mask = {} if described is None else _unmasked(array, form, before)
    if not form.native_to_xarray and "_FillValue" not in array.attrs:
        mask = {**mask, **_mask(cf_attributes(array).get("_FillValue"))}
    chosen = None if options.dialect == "same" else options.dialect
    if chosen is not None and (geometry.named or geometry.placed):
        part = moved(geometry, box)
        if described is None:
            described = write_geometry(
                part,
                context.shape,
                chosen,
                lists_x_first=context.lists_x_first,
                where=context.path or "/",
            )
        found = of_described(before, part, context, form, described)
        return {**found, **mask}
    if options.region is None:
        return of_array(before, geometry, context, form, mask, described)
    part = moved(geometry, box)
    if described is not None:
        return {**of_described(before, part, context, form, described), **mask}
    return {**of_part(without_nan(array.attrs), part, context, form, named=before.named), **mask}


def _data(
    array: Array, metadata: ArrayMetadata, options: CopyOptions, dtype: np.dtype[Any]
) -> da.Array:
    """Return the values: of shards, each is one block, read at once."""
    data = blocks_of_array(array, metadata.chunks if metadata.inner else None)
    if options.region is not None:
        data = data[options.region]
    check_blocks(data, array)
    return data if dtype == data.dtype else converted_blocks(data, dtype)


def _masked(
    array: Array, metadata: ArrayMetadata, layout: Mapping[str, Any] | None, form: Format
) -> tuple[ArrayMetadata, Mapping[str, Any] | None]:
    """Add the fill value that masks elements of an array to those of its copy, in their type."""
    mask = decode_attributes(cf_attributes(array), array.url).get("_FillValue")
    if mask is None or NAMES not in metadata.attributes:
        return metadata, layout
    mask = converted_mask(np.ravel(mask)[0], metadata.dtype, array.url)
    attributes = {key: each for key, each in metadata.attributes.items() if key != "_FillValue"}
    if form.native_to_xarray and mask is not None:
        layout = {**(layout or {}), "fill_value": np.asarray(mask, metadata.dtype)[()]}
    elif mask is not None and mask == mask:  # noqa: PLR0124 - NaN masks itself
        attributes["_FillValue"] = mask.item() if isinstance(mask, np.generic) else mask
    return replace(metadata, attributes=attributes), layout


def _mask(mask: Any) -> Attributes:
    """Return the attribute of a fill value that masks, for formats that do not store that."""
    value = mask.item() if isinstance(mask, np.generic) else mask
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return {}
    return {} if value is None else {"_FillValue": value}


def _unmasked(array: Array, form: Format, before: Original) -> Attributes:
    """Return the attributes of a new level of a pyramid, unless its fill value masks or is kept."""
    kept = before.lists == form.name and "fill_value" in before.layout
    return {} if kept or "_FillValue" in cf_attributes(array) else form.level_attributes


def _without_type(layout: Attributes) -> dict[str, Any]:
    """Return the part of a layout that holds for elements of any type."""
    return {key: layout[key] for key in ("order", "dimension_separator") if key in layout}


def _layout(
    array: Array, metadata: ArrayMetadata, form: Format, before: Original, options: CopyOptions
) -> Mapping[str, Any] | None:
    """Return the layout in Zarr: that of the source, or that before it was copied from Zarr."""
    if not form.native_to_xarray:
        return None
    same_type, compressor = options.dtype is None, None
    if options.compression != "same" and form.holds_shards:
        codec = compressor_to_json(resolve(options.compression), metadata.dtype.itemsize)
        compressor = [] if codec is None else [codec]
    if array.node.format.native_to_xarray:
        stored = array.node.metadata
        if array.node.format.name != form.name:
            return {"fill_value": array.fill_value} if stored.masks else None
        kept = array.node.format.layout_of(stored)
        return adapted(kept, metadata.inner, compressor) if same_type else _without_type(kept)
    layout, fill = dict(before.layout), before.added.get("_FillValue")
    if fill is not None:
        layout.setdefault("fill_value", fill)
        if array.attrs.get("_FillValue") != fill:
            layout["fill_value"] = None  # the attribute masks instead
    layout = layout if same_type else _without_type(layout)
    try:
        layout = adapted(layout, metadata.inner, compressor)
        form.complete(metadata, layout)
    except (N5Error, TypeError, ValueError, StopIteration):
        return None  # another array has replaced the original
    return layout


def chunks_of_copy(
    array: Array,
    apart: Sequence[int],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    form: Format,
    options: CopyOptions,
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return the shape of a stored file, and that of the chunks in it if it is a shard."""
    shards: Any = options.shards
    large = np.prod(array.chunks, dtype=float) * dtype.itemsize > _MOST
    chosen: Any = "auto" if options.chunks is None and large else options.chunks
    if chosen is None and shards is None and form.holds_shards:
        shards = array.shards
    chunks = array.chunks if chosen is None else chunk_shape(chosen, shape, apart)
    how: Any = {"automatic": isinstance(chosen, str), "apart": apart}
    return with_shards(chunks, shards, shape, dtype, **how)
