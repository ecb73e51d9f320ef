"""Plan the storage of a Dataset's variables: encode and check them without writing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import xarray as xr
from dask.base import is_dask_collection

from xarray_n5.arrays.coordinates import coords_of, geometry_from
from xarray_n5.arrays.spec import ArraySpec, check_storable, completed
from xarray_n5.datasets.encoded import (
    NAMELESS,
    EncodedVariable,
    convention_of,
    stored_attributes,
)
from xarray_n5.datasets.lossless import (
    CF,
    check,
    check_names,
    check_strings,
    fitting,
    is_characters,
    is_string,
)
from xarray_n5.datasets.xarray_internals import encode_dataset_coordinates, is_of_chunk_manager
from xarray_n5.dialects.groups import warn_lost
from xarray_n5.errors import MetadataError, UnknownCompressionError
from xarray_n5.graph import as_graph
from xarray_n5.model.axes import Axis, Geometry, axes_apart
from xarray_n5.model.json import refuse_encodings
from xarray_n5.model.paths import join
from xarray_n5.model.system_graph import SYSTEMS
from xarray_n5.writing.request import values_of

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Sequence

    from xarray_n5.datasets.encoded import Convention
    from xarray_n5.datasets.write import ExistingGroup
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.metadata import ArrayMetadata
    from xarray_n5.writing.options import Encoding

_ENCODINGS = CF | {"chunks", "compression", "n5_compression", "layout", "shards"}
"""The encodings of a variable that users may set."""

_MOST = 1 << 28
"""The maximum size of a chunk that keeps its shape, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariablePlan:
    """A variable, encoded, and the storage of its array."""

    encoded: EncodedVariable
    spec: ArraySpec
    """The array, without axes; attributes are those of a pyramid's level, the axes included."""
    geometry: Geometry
    """The array's axes; unknown ones have only names."""
    axis_coords: tuple[str, ...]
    """The dimensions whose coordinate is stored in the axes only."""

    @property
    def placed(self) -> bool:
        """Whether the axes have scales and offsets."""
        return any(axis.scale is not None for axis in self.geometry.axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """A Dataset, encoded, and the group for it."""

    path: str
    variables: Mapping[str, VariablePlan]
    attributes: Mapping[str, Any]
    is_pyramid: bool = False
    """Whether the variables are the levels of a pyramid, which differ in size."""
    existing: ExistingGroup | None = None
    """What is there before."""
    older: Sequence[str] = ()
    """The names of older levels to remove, besides what the mode removes."""


def plan_group(
    dataset: xr.Dataset,
    path: str,
    form: Format,
    encoding: Encoding | None = None,
    *,
    shared: bool = False,
    storage: Mapping[str, Any] | None = None,
) -> GroupPlan:
    """Encode and check a Dataset; see :func:`plan_variables`."""
    variables = plan_variables(dataset, path, form, encoding, shared=shared, storage=storage)
    for name, array in dataset.data_vars.items():
        warn_lost(str(name), array.encoding.get(SYSTEMS))
    _, attributes = encode_dataset_coordinates(dataset)
    convention = convention_of(form)
    # In formats that xarray reads itself, arrays with names of dimensions are a Dataset.
    note = {"dataset": True} if convention.coordinates_in_axes or not variables else {}
    stored = stored_attributes(
        convention, attributes or {}, f"group {path or '/'!r}", note, of_group=True
    )
    return GroupPlan(path=path, variables=variables, attributes=stored)


def plan_variables(
    dataset: xr.Dataset,
    path: str,
    form: Format,
    encoding: Encoding | None = None,
    *,
    shared: bool = False,
    storage: Mapping[str, Any] | None = None,
) -> dict[str, VariablePlan]:
    """Encode and check the variables of a Dataset; return them by the names of their arrays.

    Parameters
    ----------
    dataset, path
        The Dataset and the group for it.
    form
        The format, whose convention converts variables to arrays.
    encoding
        The encodings that the user chose, by variable.
    shared
        Whether other arrays remain in the group. Then each coordinate is an array, which applies to
        all of them, whatever their axes describe.
    storage
        The chunks, shards and compression that the user chose for all variables but coordinates.

    Raises
    ------
    MetadataError
        If the format cannot store something.
    TypeError, ValueError, KeyError
        If a name is not a string, or an encoding is unknown or for an unknown variable.
    """
    check_names(dataset)
    convention = convention_of(form)
    chosen = _checked_encodings(encoding or {}, dataset)
    variables, _ = encode_dataset_coordinates(dataset)
    prepared = {
        name: _prepared(name, variable, chosen.get(name), convention)
        for name, variable in variables.items()
    }
    axes = {str(d): space_axis(dataset, str(d)) for d in dataset.dims if d not in chosen}
    in_axes: set[str] = set()
    if convention.coordinates_in_axes and not shared:
        in_axes = _coordinates_in_axes(dataset, axes)
    plans = {}
    for key, encoded in _encode(prepared, convention, dataset.dims).items():
        name = _name(key)
        if name in in_axes:
            continue
        checked = check(prepared[key], encoded, name, masks=True)
        known = {} if encoded.dims == (name,) else axes
        geometry = Geometry(tuple(known.get(dim) or Axis(name=dim) for dim in encoded.dims))
        demands = dict(chosen.get(key, {}))
        if key in dataset.data_vars or len(dataset.variables) == 1:
            demands |= storage or {}
        spec = ArraySpec(path=join(path, name), apart=axes_apart(geometry.axes))
        plans[name] = VariablePlan(
            encoded=checked,
            spec=_spec(spec, name, checked, form, demands),
            geometry=geometry,
            axis_coords=tuple(dim for dim in encoded.dims if dim in in_axes),
        )
    return plans


def encode_like(
    dataset: xr.Dataset, stored: xr.Dataset, convention: Convention
) -> dict[str, EncodedVariable]:
    """Encode variables like the stored ones of the same names.

    Raises
    ------
    ValueError
        If a stored encoding cannot represent the values.
    """
    variables, _ = encode_dataset_coordinates(dataset)
    prepared: dict[Hashable, xr.Variable] = {}
    for name, variable in variables.items():
        existing = stored.variables[name].encoding
        kept = {key: existing[key] for key in (CF - {"char_dim_name"}) & existing.keys()}
        if variable.dtype.kind == "f":
            # Without a fill value, NaN is stored as NaN; xarray would add one.
            kept.setdefault("_FillValue", None)
        prepared[name] = _prepared(name, variable, kept, convention)
        prepared[name].attrs.pop("coordinates", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other encodings raise later
        encoded = _encode(prepared, convention)
    return {str(name): check(prepared[name], array, str(name)) for name, array in encoded.items()}


def regular_axis(dataset: xr.Dataset, dim: str) -> Axis | None:
    """Return the axis that describes a dimension's coordinate, if that is regular numbers."""
    coord = dataset.variables.get(dim)
    if coord is None or coord.dims != (dim,) or coord.dtype.kind not in "iuf" or not coord.size:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (axis,) = geometry_from(xr.DataArray(coord, {dim: coord}, (dim,))).axes
    return axis if axis.scale is not None and axis.scale > 0 else None


def space_axis(dataset: xr.Dataset, dim: str) -> Axis | None:
    """Return the axis of a dimension's coordinate if it is of space, and regular numbers.

    Coordinates of time and others are arrays only, as are those with an encoding of the user: what
    is appended to them need not be regular.
    """
    axis = regular_axis(dataset, dim)
    return axis if axis is not None and axis.kind == "space" else None


def _prepared(
    name: Hashable, variable: xr.Variable, chosen: dict[str, Any] | None, convention: Convention
) -> xr.Variable:
    """Return a variable with the `chosen` encoding, or with what fits of that of a file.

    Its data are supported by xarray's chunk manager: they are its own arrays, or a graph. Strings
    are checked, now or in their blocks.
    """
    data, unit = values_of(before := variable.data, f"variable {name!r}")
    if data.dtype.kind == "T":
        data = data.astype(object)  # which preserves a trailing NUL
    plain = isinstance(data, np.ndarray | da.Array)
    if not plain and is_dask_collection(data) and not is_of_chunk_manager(data):
        data = as_graph(data)
    dtype = (chosen or {}).get("dtype")
    plain = dtype is None or is_characters(dtype) or not is_string(variable)
    dtype = None if plain or np.dtype(dtype).kind not in "SU" else dtype
    if data.dtype.kind == "O" or dtype is not None:
        checks = (str(name), convention.null_padded, dtype)
        if is_dask_collection(data):
            data = data.map_blocks(check_strings, *checks, dtype=data.dtype)
        else:
            check_strings(data, *checks)
    prepared = variable.copy(deep=False, data=None if data is before else data)
    if unit is not None:
        prepared.attrs["units"] = unit
    known = {key: value for key, value in variable.encoding.items() if key in _ENCODINGS}
    fits = fitting(prepared, known, convention.null_padded) if chosen is None else chosen
    prepared.encoding = fits
    return prepared


def _coordinates_in_axes(dataset: xr.Dataset, axes: Mapping[str, Axis | None]) -> set[str]:
    """Return the dimensions whose coordinate the axes of other variables describe exactly."""
    used = {
        dim
        for name, variable in dataset.variables.items()
        for dim in variable.dims
        if variable.dims != (name,)
    }
    return {d for d, axis in axes.items() if axis and d in used and _is_exact(dataset, d, axis)}


def _is_exact(dataset: xr.Dataset, dim: str, axis: Axis) -> bool:
    """Return whether a coordinate is exactly that of its axis."""
    coord = dataset.variables[dim]
    if set(coord.encoding) & (CF - {"dtype"}):
        return False
    again = coords_of(Geometry((axis,)), (coord.size,)).get(dim)
    return again is not None and coord.dtype == again.dtype and bool(again.identical(coord))  # type: ignore[no-untyped-call]


def _name(key: Hashable) -> str:
    """Return the name of the array for a variable."""
    return NAMELESS if key is None else str(key)


def _encode(
    variables: Mapping[Hashable, xr.Variable],
    convention: Convention,
    dims: Container[Hashable] = (),
) -> dict[Hashable, EncodedVariable]:
    """Encode variables; the dimensions of their characters are not among the Dataset's `dims`."""
    arrays = {}
    for key, variable in convention.encode_together(variables).items():
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Duplicate dimension names")  # they change below
                encoded = convention.encode(_name(key), variable)
        except MetadataError:
            raise
        except ValueError as error:
            raise MetadataError(
                f"variable {key!r} cannot be stored: {error}; convert it to numbers, or to strings "
                "with astype(str)"
            ) from error
        encoded = replace(encoded, data=as_graph(encoded.data))
        while encoded.is_string and encoded.dims[-1] in dims:
            encoded = replace(encoded, dims=(*encoded.dims[:-1], f"{encoded.dims[-1]}_"))
        arrays[key] = encoded
    return arrays


def _spec(
    spec: ArraySpec,
    name: str,
    encoded: EncodedVariable,
    form: Format,
    demands: Mapping[str, Any],
) -> ArraySpec:
    """Return how an array is stored; what an opened file had is ignored if it does not fit."""
    spec = replace(spec, layout=_layout(name, encoded))
    data, encoding = encoded.data, {**encoded.encoding, **demands}
    if "chunks" in demands and "shards" not in demands:
        encoding.pop("shards", None)  # which were those of other chunks
    for key in ("n5_compression", "compression", "chunks", "shards"):
        if key not in encoding:
            continue
        option, value, explicit = key.removeprefix("n5_"), encoding[key], key in demands
        try:
            value = _chunks(encoded, value) if option == "chunks" else value
            chosen: dict[str, Any] = {option: value}
            wanted = replace(spec, **chosen)
            metadata = wanted.metadata(data.shape, data.dtype, name)
            if not explicit:
                _check_wish(metadata, spec, name, form)
        except (TypeError, ValueError) as error:
            if explicit:
                raise MetadataError(f"variable {name!r}: {error}") from error
        except UnknownCompressionError:
            if explicit:
                raise
        else:
            spec = wanted
    return spec


def _check_wish(metadata: ArrayMetadata, spec: ArraySpec, name: str, form: Format) -> None:
    """Raise if an array cannot be stored as a file had it."""
    if is_large(metadata.inner or metadata.chunks, metadata.dtype):
        raise ValueError("the chunks are too large")
    check_storable(completed(form, metadata, spec.layout, name), form, name)


def is_large(chunks: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Return whether chunks are too large to be kept: HDF5 may store an array in one piece."""
    return math.prod(chunks) * dtype.itemsize > _MOST


def _layout(name: str, encoded: EncodedVariable) -> Mapping[str, Any] | None:
    layout = dict(encoded.encoding.get("layout") or {})
    if "fill_value" in layout:
        raise MetadataError(
            f"variable {name!r}: xarray would mask the layout's 'fill_value'; set '_FillValue' in "
            "the encoding instead"
        )
    if encoded.fill_value is not None:
        fill = encoded.fill_value  # of netCDF as an array of one number
        layout["fill_value"] = fill.item() if isinstance(fill, np.ndarray) else fill
    return layout or None


def _chunks(encoded: EncodedVariable, chunks: Any) -> Any:
    """Return the shape of an array's chunks; scalars have none, and characters their own axis."""
    shape = encoded.data.shape
    if encoded.is_string and np.shape(chunks) == (len(shape) - 1,):
        return (*chunks, shape[-1])
    return chunks if encoded.dims else None


def _checked_encodings(encoding: Encoding, dataset: xr.Dataset) -> dict[Hashable, dict[str, Any]]:
    """Return the user's encodings; raise if one is unknown, or for an unknown variable."""
    for name, chosen in encoding.items():
        if not isinstance(chosen, Mapping):
            raise ValueError(  # noqa: TRY004 - as in xarray
                f"the encoding of {name!r} is {chosen!r}; it must be castable to a dict: "
                "encoding={'a': {'chunks': 64}}"
            )
        if name not in dataset.variables:
            known = ", ".join(map(str, dataset.variables))
            raise KeyError(
                f"the encoding names {name!r}, which is not a variable; the variables are {known}"
            )
        refuse_encodings(name, sorted(set(chosen) - _ENCODINGS), _ENCODINGS)
    return {name: dict(chosen) for name, chosen in encoding.items()}
