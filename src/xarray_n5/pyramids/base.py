"""The base level of a pyramid: an array that is stored, or is to be written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import xarray as xr
from dask.base import is_dask_collection, tokenize

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import context_of
from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.open import open_array
from xarray_n5.arrays.records import look
from xarray_n5.arrays.spec import resolve_chunks
from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.datasets.encode import plan_variables
from xarray_n5.datasets.encoded import cf_attributes, decode_attributes
from xarray_n5.dialects.groups import warn_lost
from xarray_n5.dialects.protocol import units_of_values
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import Axis, Geometry, axes_apart
from xarray_n5.model.metadata import note_of
from xarray_n5.model.system_graph import SYSTEMS
from xarray_n5.writing.request import blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import dask.array as da

    from xarray_n5.datasets.encode import VariablePlan
    from xarray_n5.writing.options import WriteOptions

_NAMES = "_ARRAY_DIMENSIONS"
"""The attribute of xarray's variables, which are decoded."""

_MEANING = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "dtype")
"""The attributes with which xarray decodes stored numbers; units are those of times."""

BASE = "s0"
"""The name of the base level."""

_ADDED = ("downsamplingFactors",)
"""The attribute that a stored base level gets if it lacks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseLevel:
    """A pyramid's base level."""

    plan: VariablePlan
    """Its elements, its axes, all of them named, and its storage, which is that of all levels."""
    token: str
    """A string that distinguishes its values from others."""
    stored: Array | None
    """The stored array, next to which the levels are written; None if it is to be written."""


def stored_array(source: Any, path: str, storage_options: Mapping[str, Any] | None) -> Array:
    """Return a stored array that levels can be added to.

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
    return array


def base_of(source: Any, how: WriteOptions, *, adds: bool) -> BaseLevel:
    """Return an array as a base level; `adds` if it is stored, and levels are added to it.

    Raises
    ------
    MetadataError
        If the format cannot store it.
    TypeError
        If `source` is not an array.
    ValueError
        If its shape is unknown, or an affine matrix combines its axes.
    """
    if not (hasattr(source, "shape") and hasattr(source, "dtype")):
        hint = "pass the array in it, open_array(url, path)"
        if isinstance(source, xr.Dataset):
            hint = f"choose one of its variables: {', '.join(map(str, source.data_vars))}"
        raise TypeError(f"expected an array as source, got {type(source).__name__}; {hint}")
    if not source.shape or source.dtype.kind not in "biufc":
        raise ValueError(
            f"levels of shape {tuple(source.shape)} and type {source.dtype} are not defined; "
            "expected numbers along at least one axis"
        )
    encoding: dict[str, Any] = {}
    if isinstance(source, Array):
        data, geometry = from_n5(source, chunks="auto"), source.geometry()
        encoding |= {"chunks": source.chunks, "n5_compression": source.compression}
        if adds:
            encoding |= {} if source.shards is None else {"shards": source.shards}
            token = _token(source)
        else:
            # Transformations may name arrays and labels of the source's container.
            warn_lost(source.url, geometry.systems)
            geometry, token = replace(geometry, systems=None), data.name
        plan = _plan(data, geometry, _meaning(source), encoding, how)
        if adds and how.format.native_to_xarray:
            # It masks for all levels or for none.
            layout = how.format.layout_of(source.node.metadata)
            layout = {key: layout[key] for key in ("fill_value", "_FillValue") if key in layout}
            plan = replace(plan, spec=replace(plan.spec, layout=layout))
        return BaseLevel(plan=plan, token=token, stored=source if adds else None)
    data, known = blocks_of(source), getattr(source, "encoding", {})
    if "n5_compression" in known:
        encoding["n5_compression"] = known["n5_compression"]
    if len(known.get("chunks") or ()) == data.ndim:
        encoding["chunks"] = known["chunks"]
    elif is_dask_collection(source):
        encoding["chunks"] = tuple(max(1, side) for side in data.chunksize)
    geometry = Geometry((Axis(),) * data.ndim)
    geometry = geometry_from(source) if isinstance(source, xr.DataArray) else geometry
    warn_lost(how.container.url, known.get(SYSTEMS))
    plan = _plan(data, geometry, {}, encoding, how)
    return BaseLevel(plan=plan, token=data.name, stored=None)


def _plan(
    data: da.Array,
    geometry: Geometry,
    attributes: dict[str, Any],
    encoding: dict[str, Any],
    how: WriteOptions,
) -> VariablePlan:
    """Return the plan of the base level, with names for all axes, and no former factors."""
    if geometry.affine is not None:
        raise ValueError(
            "an affine transform combines the axes, which pyramids do not support; pass axes with "
            "scales and offsets, or their names"
        )
    named = geometry.with_names()
    named = replace(named, axes=tuple(replace(axis, factor=1.0) for axis in named.axes))
    if "_FillValue" not in attributes and data.dtype.kind in "fc":
        encoding["_FillValue"] = None  # xarray would add one
    dims = [str(axis.name) for axis in named.axes]
    dataset = xr.Dataset({BASE: (dims, data, attributes, encoding)})
    plan = plan_variables(dataset, "", how.format, storage=how.storage)[BASE]
    spec, stored = replace(plan.spec, apart=axes_apart(geometry.axes)), plan.encoded.data
    sides, files = resolve_chunks(spec.chunks, spec.shards, stored.shape, stored.dtype, spec.apart)
    return replace(plan, geometry=named, spec=replace(spec, chunks=sides, shards=files))


def _meaning(array: Array) -> dict[str, Any]:
    """Return the attributes with which xarray decodes a stored array; none for other arrays."""
    if _NAMES not in array.attrs:
        return {}
    attributes = decode_attributes(cf_attributes(array), array.url)
    has_units = units_of_values(array.attrs) or "units" in note_of(array.attrs).get(
        "attributes", {}
    )
    keys = (*_MEANING, "units", "calendar") if has_units else _MEANING
    return {key: attributes[key] for key in keys if key in attributes}


def _token(stored: Array) -> str:
    """Return a string for a stored array, without what its levels add to it."""
    before = sorted((key, value) for key, value in stored.attrs.items() if key not in _ADDED)
    # Not by the axes that it has: the metadata of its levels describe it, too.
    return str(tokenize(Array(stored.node.bare()), repr(before)))


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
