"""The base level of a pyramid, stored or to be written, and the meaning of its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
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
from xarray_n5.datasets.encoded import cf_attributes, convention_of, decode_attributes
from xarray_n5.dialects.groups import warn_lost
from xarray_n5.dialects.protocol import units_of_values
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis, Geometry, as_geometry, axes_apart
from xarray_n5.model.metadata import note_of
from xarray_n5.writing.request import blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import dask.array as da

    from xarray_n5.arrays.spec import Sides
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.metadata import Compression
    from xarray_n5.pyramids.reduce import Method

_NAMES = "_ARRAY_DIMENSIONS"
"""The attribute of xarray's variables, which are decoded."""

_KEYS = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "dtype")


BASE = "s0"
"""The name of the base level."""

_ADDED = ("downsamplingFactors",)
"""The attribute that a stored base level gets if it lacks it."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The attributes with which xarray decodes stored numbers; none if they mean themselves."""

    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_bool(self) -> bool:
        """Whether the numbers are booleans."""
        return bool(self.attributes.get("dtype") == "bool")

    @property
    def masks(self) -> tuple[Any, ...]:
        """The numbers that mean missing samples."""
        known = [self.attributes.get(key) for key in ("_FillValue", "missing_value")]
        masks = [np.ravel(mask).tolist() for mask in known if mask is not None]
        return tuple(number for numbers in masks for number in numbers)

    def view(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type in which numbers of a type are compared."""
        kind = {"true": "u", "false": "i"}.get(str(self.attributes.get("_Unsigned", "")).lower())
        if kind is None or dtype.kind not in "iu":
            return dtype
        return np.dtype(f"{kind}{dtype.itemsize}")

    def method(self, method: Method) -> Method:
        """Return the method for stored numbers, whose order a negative scale reverses."""
        if float(np.ravel(self.attributes.get("scale_factor", 1))[0]) > 0:
            return method
        opposite: dict[Method, Method] = {"max": "min", "min": "max"}
        return opposite.get(method, method)

    def stored(
        self, dims: Sequence[str], dtype: np.dtype[Any], form: Format
    ) -> tuple[dict[str, Any], Any]:
        """Return the attributes of each level, and the fill value that masks in Zarr."""
        if not self.attributes:
            return {}, None
        convention = convention_of(form)
        empty = xr.Variable(dims, np.zeros((0,) * len(dims), dtype), dict(self.attributes))
        encoded = convention.encode("level", convention.encode_together({"level": empty})["level"])
        attributes = convention.array_attributes(encoded, (), placed=True)
        note = {name: value for name, value in note_of(attributes).items() if name != "axes"}
        attributes.pop(convention.roundtrip_key, None)
        return attributes | ({convention.roundtrip_key: note} if note else {}), encoded.fill_value


def meaning_of(array: Array) -> Meaning:
    """Return the meaning of a stored array; numbers that xarray did not encode have none."""
    if _NAMES not in array.attrs:
        return Meaning()
    attributes = decode_attributes(cf_attributes(array), array.url)
    has_units = units_of_values(array.attrs) or "units" in note_of(array.attrs).get(
        "attributes", {}
    )
    keys = (*_KEYS, "units", "calendar") if has_units else _KEYS
    return Meaning({key: attributes[key] for key in keys if key in attributes})


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseLevel:
    """A pyramid's base level."""

    source: da.Array | Array
    """The data to write, or the stored array, next to which the levels are written."""
    geometry: Geometry
    """Its axes, all of them named."""
    chunks: tuple[int, ...]
    """The shape of a chunk of all levels."""
    shards: tuple[int, ...] | None
    """The shape of a shard of all levels, if there are shards."""
    compression: Compression
    """The compression of the source, or gzip."""
    token: str
    """A string that distinguishes its values from others."""
    meaning: Meaning
    """What masks, scales and types the samples."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the base level."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of all levels."""
        return self.source.dtype

    @property
    def stored(self) -> Array | None:
        """The stored array; None if the base level is to be written."""
        return self.source if isinstance(self.source, Array) else None


def stored_base(
    source: Any,
    path: str,
    *,
    chunks: Sides,
    shards: Sides = None,
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
    name = array.path.rpartition("/")[2]
    if name != BASE:
        raise ValueError(
            f"{array.url!r} is not called {BASE!r}, the name of a pyramid's base level; pass "
            f"another location for a copy with levels, such as 'pyramid.n5/{name or 'image'}'"
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
    bare = Array(array.node.bare())
    before = sorted((key, value) for key, value in array.attrs.items() if key not in _ADDED)
    return _base(
        bare,
        array.geometry(),
        array.chunks if chunks is None else chunks,
        array.shards if shards is None and chunks is None else shards,
        compression=array.compression,
        # Not by the axes that it has: the metadata of its levels describe it, too.
        token=tokenize(bare, repr(before)),
        meaning=meaning_of(array),
    )


def new_base(source: Any, *, chunks: Sides, shards: Sides = None) -> BaseLevel:
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
    axes: Any = (None,) * len(source.shape)
    kept: Any = None
    meaning = Meaning()
    if isinstance(source, Array):
        blocks, meaning = from_n5(source, chunks="auto"), meaning_of(source)
        kept, compression = source.chunks, source.compression
        geometry = source.geometry()
        # Transformations may name arrays and labels of the source's container.
        warn_lost(source.url, geometry.systems, {})
        axes = replace(geometry, systems=None)
    else:
        blocks, encoding = blocks_of(source), getattr(source, "encoding", {})
        compression = encoding.get("n5_compression", "gzip")
        kept = encoding.get("chunks")
        if kept is None or len(kept) != blocks.ndim:
            kept = blocks.chunksize if is_dask_collection(source) else "auto"
        if kept != "auto":
            kept = tuple(max(1, side) for side in kept)
        if isinstance(source, xr.DataArray):
            axes = geometry_from(source)
    return _base(
        blocks,
        axes,
        kept if chunks is None else chunks,
        shards,
        compression=resolve(compression),
        token=blocks.name,
        meaning=meaning,
    )


def _base(
    source: da.Array | Array,
    axes: Iterable[Axis | str | None] | Geometry,
    chunks: Any,
    shards: Sides,
    **facts: Any,
) -> BaseLevel:
    """Return a base level with names for all axes, and no former factors."""
    geometry = as_geometry(axes, source.ndim)
    apart = axes_apart(geometry.axes)
    sides, files = resolve_chunks(chunks, shards, source.shape, source.dtype, apart)
    if geometry.affine is not None:
        raise ValueError(
            "an affine transform combines the axes, which pyramids do not support; pass axes with "
            "scales and offsets, or their names"
        )
    named = geometry.with_names()
    named = replace(named, axes=tuple(replace(axis, factor=1.0) for axis in named.axes))
    return BaseLevel(
        source=source,
        geometry=named,
        chunks=sides,
        shards=files,
        **facts,
    )


def with_channel_names(source: xr.DataArray) -> xr.DataArray:
    """Return an array whose axis of channels has their names, as views of a project have them.

    A warning names all other coordinates, which levels do not have.
    """
    names, ids = (source.coords.get(name) for name in ("channel_name", "channel"))
    is_named = ids is not None and ids.dtype.kind not in "biuf"
    if names is not None and names.dims == ("channel",) and not is_named:
        source = source.drop_vars("channel_name").assign_coords(channel=names.astype(str).values)
    lost = [str(name) for name, values in source.coords.items() if values.dims != (name,)]
    if lost:
        warn(f"omitted, as levels have coordinates of their axes only: {', '.join(lost)}")
    return source


def with_factors(stored: Array, described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a stored base level, with the factors that it lacks."""
    return {key: described[key] for key in _ADDED if key in described} | dict(stored.attrs)


def complete_base(close: Callable[[], None], stored: Array, attributes: Mapping[str, Any]) -> None:
    """Set the factors of a stored base level, if it has none, and close its group."""
    array = open_array(stored.container.fresh(), stored.path, mode="r+")
    if lacking := {k: v for k, v in attributes.items() if k in _ADDED and k not in array.attrs}:
        array.attrs.update(lacking)
    close()


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
