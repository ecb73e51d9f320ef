"""Plan the storage of a Dataset's variables: encode and check them without writing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import xarray as xr
from dask.base import is_dask_collection

from xarray_n5.arrays.coordinates import coords_of, geometry_from, systems_from
from xarray_n5.arrays.spec import ArraySpec, chunk_shape
from xarray_n5.codecs import resolve
from xarray_n5.datasets.encoded import NAMELESS, EncodedVariable
from xarray_n5.datasets.lossless import CF, check_names, check_new, check_strings, check_update
from xarray_n5.datasets.xarray_internals import encode_dataset_coordinates, is_of_chunk_manager
from xarray_n5.dialects.ngff_attributes import without_variables
from xarray_n5.errors import MetadataError
from xarray_n5.graph import as_graph
from xarray_n5.model.axes import Axis, Geometry, axes_apart
from xarray_n5.model.options import refuse_encodings
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Sequence
    from collections.abc import Set as AbstractSet

    from xarray_n5.datasets.conventions import Convention
    from xarray_n5.writing.options import Encoding

_ENCODINGS = CF | {"chunks", "compression", "n5_compression", "layout", "shards"}
"""The encodings of a variable that users may set."""


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
    explicit: bool = False
    """Whether the user chose the storage, rather than the file that it was opened from."""

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
    data_vars: frozenset[str]
    """The variables that are not coordinates."""
    irregular: frozenset[str]
    """The dimensions with a coordinate of numbers or times that is not regular."""
    is_pyramid: bool = False
    """Whether the variables are the levels of a pyramid, which differ in size."""


def plan_group(
    dataset: xr.Dataset,
    path: str,
    convention: Convention,
    encoding: Encoding | None = None,
    *,
    shared: bool = False,
) -> GroupPlan:
    """Encode and check a Dataset.

    Parameters
    ----------
    dataset, path
        The Dataset and the group for it.
    convention
        The convention that converts variables to arrays.
    encoding
        The encodings that the user chose, by variable.
    shared
        Whether other arrays remain in the group. Then each coordinate is an array, which applies to
        all of them, whatever their axes describe.

    Raises
    ------
    MetadataError
        If the format cannot store something.
    TypeError, ValueError, KeyError
        If a name is not a string, or an encoding is unknown or for an unknown variable.
    """
    check_names(dataset)
    chosen = _checked_encodings(encoding or {}, dataset)
    variables, attributes = encode_dataset_coordinates(dataset)
    prepared = {
        name: _prepared(name, variable, chosen, convention) for name, variable in variables.items()
    }
    axes = {str(dim): regular_axis(dataset, str(dim)) for dim in dataset.dims}
    in_axes: set[str] = set()
    if convention.coordinates_in_axes and not shared:
        in_axes = _coordinates_in_axes(dataset, axes, chosen)
    plans = {}
    for key, variable in convention.encode_together(prepared).items():
        name = NAMELESS if key is None else str(key)
        if name not in in_axes:
            encoded = _encode(name, variable, convention, dataset.dims)
            encoded = check_new(prepared[key], encoded, name)
            planned = _plan_variable(name, path, encoded, axes, in_axes, explicit=key in chosen)
            if key in dataset.data_vars:
                own = systems_from(dataset[key], planned.geometry.axes)
                planned = replace(planned, geometry=replace(planned.geometry, systems=own))
            plans[name] = planned
    return GroupPlan(
        path=path,
        variables=plans,
        attributes=convention.group_attributes(
            # xarray's Zarr engine shows the images that this package wrote.
            without_variables(attributes) if attributes else {},
            f"group {path or '/'!r}",
            empty=not plans,
        ),
        data_vars=frozenset(map(str, dataset.data_vars)),
        irregular=frozenset(
            dim
            for dim, axis in axes.items()
            if axis is None and dim in dataset.variables and dataset[dim].dtype.kind in "iufMmO"
        ),
    )


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
        prepared[name] = _manageable(variable)
        existing, kept = stored.variables[name].encoding, CF - {"char_dim_name"}
        prepared[name].encoding = {key: existing[key] for key in kept & existing.keys()}
        if variable.dtype.kind == "f":
            # Without a fill value, NaN is stored as NaN; xarray would add one.
            prepared[name].encoding.setdefault("_FillValue", None)
        prepared[name].attrs.pop("coordinates", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other encodings raise later
        encoded = {
            name: _encode(str(name), variable, convention)
            for name, variable in convention.encode_together(prepared).items()
        }
    return {
        str(name): check_update(dataset[name].variable, each, str(name))
        for name, each in encoded.items()
    }


def regular_axis(dataset: xr.Dataset, dim: str) -> Axis | None:
    """Return the axis that describes a dimension's coordinate, if that is regular numbers."""
    found = dataset.variables.get(dim)
    if found is None or found.dims != (dim,) or found.dtype.kind not in "iuf" or not found.size:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (axis,) = geometry_from(xr.DataArray(found, {dim: found}, (dim,))).axes
    return axis if axis.scale is not None and axis.scale > 0 else None


def _manageable(variable: xr.Variable) -> xr.Variable:
    """Return a copy whose data xarray's chunk manager supports: its own arrays, or a graph."""
    data = variable.data
    graph = as_graph(data)
    if graph is data or is_of_chunk_manager(data):
        return variable.copy(deep=False)
    return variable.copy(deep=False, data=graph)


def _prepared(
    name: Hashable,
    variable: xr.Variable,
    chosen: Mapping[Hashable, dict[str, Any]],
    convention: Convention,
) -> xr.Variable:
    """Return a variable with the effective encodings; blocks of strings are checked later."""
    found = _manageable(variable)
    if variable.dtype.kind == "O" and is_dask_collection(found.data):
        types = convention.null_padded
        checked = found.data.map_blocks(check_strings, str(name), types, dtype=object)
        found = found.copy(deep=False, data=checked)
    known = {key: value for key, value in variable.encoding.items() if key in _ENCODINGS}
    found.encoding = chosen.get(name, known)
    return found


def _coordinates_in_axes(
    dataset: xr.Dataset, axes: Mapping[str, Axis | None], chosen: Container[Hashable]
) -> set[str]:
    """Return the dimensions whose coordinate the axes of other variables describe exactly."""
    used = {
        dim
        for name, variable in dataset.variables.items()
        for dim in variable.dims
        if variable.dims != (name,)
    }
    return {
        dim
        for dim, axis in axes.items()
        if axis and dim in used and dim not in chosen and _is_exact(dataset, dim, axis)
    }


def _is_exact(dataset: xr.Dataset, dim: str, axis: Axis) -> bool:
    """Return whether a coordinate is exactly that of its axis."""
    found = dataset.variables[dim]
    if set(found.encoding) & (CF - {"dtype"}):
        return False
    again = coords_of(Geometry((axis,)), (found.size,)).get(dim)
    return again is not None and found.dtype == again.dtype and bool(again.identical(found))  # type: ignore[no-untyped-call]


def _encode(
    name: str, variable: xr.Variable, convention: Convention, dims: Container[Hashable] = ()
) -> EncodedVariable:
    """Encode a variable; the dimension of its characters is not among the Dataset's `dims`."""
    if variable.dtype.kind == "O" and not is_dask_collection(variable.data):
        check_strings(variable.data, name, convention.null_padded)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Duplicate dimension names")  # they change below
            encoded = convention.encode(name, variable)
    except MetadataError:
        raise
    except ValueError as error:
        raise MetadataError(
            f"variable {name!r} cannot be stored: {error}; convert it to numbers, or to strings "
            "with astype(str)"
        ) from error
    encoded = replace(encoded, data=as_graph(encoded.data))
    while encoded.is_string and encoded.dims[-1] in dims:
        encoded = replace(encoded, dims=(*encoded.dims[:-1], f"{encoded.dims[-1]}_"))
    return encoded


def _plan_variable(
    name: str,
    group: str,
    encoded: EncodedVariable,
    axes: Mapping[str, Axis | None],
    in_axes: AbstractSet[str],
    *,
    explicit: bool,
) -> VariablePlan:
    known = {} if encoded.dims == (name,) else axes
    encoding = encoded.encoding
    geometry = Geometry(tuple(known.get(dim) or Axis(name=dim) for dim in encoded.dims))
    try:
        compression = resolve(encoding.get("compression", encoding.get("n5_compression", "gzip")))
        apart = axes_apart(geometry.axes)
        chunks = _chunks(encoded, encoding.get("chunks"), apart, explicit=explicit)
    except (TypeError, ValueError) as error:
        raise MetadataError(f"variable {name!r}: {error}") from error
    return VariablePlan(
        encoded=encoded,
        spec=ArraySpec(
            path=join(group, name),
            chunks=chunks,
            shards=encoding.get("shards"),
            compression=compression,
            layout=_layout(name, encoded),
            apart=apart,
        ),
        geometry=geometry,
        axis_coords=tuple(dim for dim in encoded.dims if dim in in_axes),
        explicit=explicit or "n5_compression" not in encoding,
    )


def _layout(name: str, encoded: EncodedVariable) -> Mapping[str, Any] | None:
    layout = dict(encoded.encoding.get("layout") or {})
    if "fill_value" in layout:
        raise MetadataError(
            f"variable {name!r}: xarray would mask the layout's 'fill_value'; set '_FillValue' in "
            "the encoding instead"
        )
    if encoded.fill_value is not None:
        layout["fill_value"] = encoded.fill_value
    return layout or None


def _chunks(
    encoded: EncodedVariable, chunks: Any, apart: Sequence[int], *, explicit: bool
) -> tuple[int, ...] | None:
    """Return the chunk shape: the user's choice, or that of the file if it fits."""
    shape = encoded.data.shape
    if chunks is None or not encoded.dims:
        return None
    if isinstance(chunks, str | int):
        return chunk_shape(chunks, shape, apart)  # type: ignore[arg-type]
    sides = tuple(chunks)
    if encoded.is_string and len(sides) == len(shape) - 1:
        sides = (*sides, shape[-1])  # the characters have their own axis
    if len(sides) != len(shape) and not explicit:
        return None
    return chunk_shape(sides, shape)


def _checked_encodings(encoding: Encoding, dataset: xr.Dataset) -> dict[Hashable, dict[str, Any]]:
    """Return the user's encodings; raise if one is unknown, or for an unknown variable."""
    for name, own in encoding.items():
        if not isinstance(own, Mapping):
            raise ValueError(_not_a_mapping(name, own, dataset))  # noqa: TRY004
        if name not in dataset.variables:
            known = ", ".join(map(str, dataset.variables))
            raise KeyError(
                f"the encoding names {name!r}, which is not a variable; the variables are {known}"
            )
        refuse_encodings(name, sorted(set(own) - _ENCODINGS), _ENCODINGS)
    return {name: dict(own) for name, own in encoding.items()}


def _not_a_mapping(name: object, own: object, dataset: xr.Dataset) -> str:
    message = f"the encoding of {name!r} is {own!r}; it must be castable to a dict"
    if name not in _ENCODINGS or name in dataset.variables:
        return message
    variable = next(iter(dataset.data_vars), "a")
    return f"{message}; pass it by variable: encoding={{{variable!r}: {{{name!r}: ...}}}}"
