"""Datasets as arrays that N5 can hold: checked and encoded, and nothing of them written yet."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import xarray as xr
from dask.base import is_dask_collection

from xarray_n5.arrays.coordinates import coords_of, geometry_from
from xarray_n5.arrays.create import chunk_shape
from xarray_n5.codecs import resolve
from xarray_n5.datasets.attributes import NAMELESS, Packed
from xarray_n5.datasets.lossless import CF, check_first, check_strings, check_values
from xarray_n5.datasets.naming import check_names
from xarray_n5.datasets.suggestions import refuse_encodings
from xarray_n5.datasets.xarray_internals import encode_dataset_coordinates
from xarray_n5.dialects.ngff import without_variables
from xarray_n5.errors import MetadataError
from xarray_n5.model.axes import Axis, Geometry

if TYPE_CHECKING:
    from collections.abc import Container, Hashable

    from xarray_n5.datasets.conventions import Packing

Encoding: TypeAlias = "Mapping[Hashable, Mapping[str, Any]]"

_ENCODINGS = CF | {"chunks", "compression", "n5_compression", "layout"}
"""What may be asked for of a variable."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A variable as it is to be stored, checked."""

    packed: Packed
    geometry: Geometry
    """Its axes; those of which nothing is known have names alone."""
    told: tuple[str, ...]
    """The dimensions whose coordinate is in the axes, and nowhere else."""
    chunks: tuple[int, ...] | None
    compression: Any
    asked: bool = False
    """Whether the compression is asked for, and not that of a file it was opened from."""
    layout: Mapping[str, Any] | None = None
    """How the format stores elements, where that is asked for."""
    irregular: tuple[str, ...] = ()
    """The dimensions whose coordinates are numbers or times that no axis tells."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written into one group; nothing of it is written yet."""

    path: str
    variables: Mapping[str, Stored]
    attributes: Mapping[str, Any]
    data: frozenset[str] = frozenset()
    """The variables that are no coordinates."""


def plan(
    dataset: xr.Dataset,
    path: str,
    packing: Packing,
    encoding: Encoding | None = None,
    *,
    beside: bool = False,
) -> Plan:
    """Return how a dataset is stored, having checked all that can be.

    Parameters
    ----------
    dataset
        What is to be stored.
    path
        The group that it goes into.
    packing
        The rules by which variables become arrays.
    encoding
        What is asked for, by variable.
    beside
        Whether it goes beside other arrays: then every coordinate is an array of its own, which
        holds for all of them, whatever their axes say.

    Raises
    ------
    MetadataError
        If something in it cannot be held.
    TypeError, ValueError, KeyError
        If a name is no text, or an encoding is unknown or for no variable.
    """
    check_names(dataset)
    asked = _checked(encoding or {}, dataset)
    variables, attributes = encode_dataset_coordinates(dataset)
    attributes = without_variables(attributes)  # xarray's Zarr engine shows what is ours
    own: dict[Hashable, xr.Variable] = {}
    for name, variable in variables.items():
        own[name] = variable.copy(deep=False)
        known = {key: value for key, value in variable.encoding.items() if key in _ENCODINGS}
        own[name].encoding = asked.get(name, known)
        own[name] = _with_checked_strings(own[name], str(name), packing.cut)
    axes = {str(dim): axis_of(dataset, str(dim)) for dim in dataset.dims}
    several = {d for n, each in dataset.variables.items() for d in each.dims if each.dims != (n,)}
    alone = {
        dim
        for dim, axis in axes.items()
        if axis
        and packing.in_axes
        and not beside
        and dim in several
        and dim not in asked
        and _is_axis_alone(dataset, dim, axis)
    }
    irregular = tuple(
        dim
        for dim, axis in axes.items()
        if axis is None and dim in dataset.variables and dataset[dim].dtype.kind in "iufMmO"
    )
    stored = {}
    for key, variable in packing.encode(own).items():
        name = NAMELESS if key is None else str(key)
        if name not in alone:
            packed = _packed(name, variable, packing, dataset.dims)
            packed = check_first(own[key], packed, name)
            stored[name] = replace(
                _stored(name, packed, axes, alone, strict=key in asked), irregular=irregular
            )
    where = f"group {path or '/'!r}"
    described = packing.pack_group(attributes, where, empty=not stored)
    return Plan(path, stored, described, frozenset(map(str, dataset.data_vars)))


def _with_checked_strings(
    variable: xr.Variable, name: str, cut: tuple[type[str | bytes], ...]
) -> xr.Variable:
    """Return a variable whose blocks of strings, if Dask's, are checked when they are computed."""
    if variable.dtype.kind != "O" or not is_dask_collection(variable.data):
        return variable
    checked = variable.data.map_blocks(check_strings, name, cut, dtype=object)
    return variable.copy(deep=False, data=checked)


def encode_into(dataset: xr.Dataset, stored: xr.Dataset, packing: Packing) -> dict[str, Packed]:
    """Return a dataset's variables encoded as those of the same names are, into which they go."""
    variables, _ = encode_dataset_coordinates(dataset)
    own: dict[Hashable, xr.Variable] = {}
    for name, variable in variables.items():
        own[name] = variable.copy(deep=False)
        there = stored.variables[name].encoding
        kept = CF - {"char_dim_name"}
        own[name].encoding = {key: value for key, value in there.items() if key in kept}
        if own[name].dtype.kind == "f":
            # Where nothing stands for NaN, NaN does; xarray would have that noted.
            own[name].encoding.setdefault("_FillValue", None)
        own[name].attrs.pop("coordinates", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what would be encoded in another way is refused later
        packed = {
            name: _packed(str(name), variable, packing)
            for name, variable in packing.encode(own).items()
        }
    return {
        str(name): check_values(dataset[name].variable, each, str(name))
        for name, each in packed.items()
    }


def _packed(
    name: str, variable: xr.Variable, packing: Packing, taken: Container[Hashable] = ()
) -> Packed:
    if variable.dtype.kind == "O" and not is_dask_collection(variable.data):
        check_strings(variable.data, name, packing.cut)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Duplicate dimension names")  # they change below
            packed = packing.pack(name, variable)
    except ValueError as error:
        if isinstance(error, MetadataError):
            raise
        raise MetadataError(
            f"variable {name!r} cannot be held: {error}; convert it to numbers, or to texts with "
            "astype(str)"
        ) from error
    while packed.is_text and packed.dims[-1] in taken:
        # What characters lie along is nobody else's dimension.
        packed = replace(packed, dims=(*packed.dims[:-1], f"{packed.dims[-1]}_"))
    return packed


def _stored(
    name: str,
    packed: Packed,
    axes: Mapping[str, Axis | None],
    alone: set[str],
    *,
    strict: bool,
) -> Stored:
    geometry = Geometry(
        tuple(
            axis
            if (axis := axes.get(dim)) is not None and packed.dims != (name,)
            else Axis(name=dim)
            for dim in packed.dims
        )
    )
    encoding = packed.encoding
    try:
        compression = resolve(encoding.get("compression", encoding.get("n5_compression", "gzip")))
        chunks = _chunks(packed, encoding.get("chunks"), strict=strict)
    except (TypeError, ValueError) as error:
        raise MetadataError(f"variable {name!r}: {error}") from error
    told = tuple(dim for dim in packed.dims if dim in alone)
    asked = strict or "n5_compression" not in encoding
    return Stored(packed, geometry, told, chunks, compression, asked, _layout(name, packed))


def _layout(name: str, packed: Packed) -> Mapping[str, Any] | None:
    """Return how the format is asked to store elements."""
    asked = dict(packed.encoding.get("layout") or {})
    if "fill_value" in asked:
        raise MetadataError(
            f"variable {name!r}: the layout's 'fill_value' would be that of a mask to xarray; "
            "give '_FillValue' in the encoding"
        )
    return asked if packed.fill is None else {**asked, "fill_value": packed.fill}


def _chunks(packed: Packed, asked: Any, *, strict: bool) -> tuple[int, ...] | None:
    """Return the chunk shape to write: that asked for, or that of the file, where it fits."""
    shape, ndim = packed.data.shape, packed.data.ndim
    if asked is None or not packed.dims:
        return None
    if isinstance(asked, str | int):
        return chunk_shape(asked, shape)  # type: ignore[arg-type]
    sides = tuple(asked)
    if len(sides) == ndim - 1 and packed.is_text:
        sides = (*sides, shape[-1])  # characters have an axis more
    if len(sides) != ndim and not strict:
        return None
    return chunk_shape(sides, shape)


def axis_of(dataset: xr.Dataset, dim: str) -> Axis | None:
    """Return the axis that a dimension's coordinate tells, if that is regular numbers."""
    found = dataset.variables.get(dim)
    if found is None or found.dims != (dim,) or found.dtype.kind not in "iuf" or not found.size:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (axis,) = geometry_from(xr.DataArray(found, {dim: found}, (dim,))).axes
    return axis if axis.scale is not None and axis.scale > 0 else None


def _is_axis_alone(dataset: xr.Dataset, dim: str, axis: Axis) -> bool:
    """Return whether a coordinate is exactly what its axis gives again."""
    found = dataset.variables[dim]
    if set(found.encoding) & (CF - {"dtype"}):
        return False
    again = coords_of(Geometry((axis,)), (found.size,)).get(dim)
    return again is not None and found.dtype == again.dtype and bool(again.identical(found))  # type: ignore[no-untyped-call]


def _checked(encoding: Encoding, dataset: xr.Dataset) -> dict[Hashable, dict[str, Any]]:
    """Return encodings that are asked for; unknown ones, or for no variable, are refused."""
    for name, own in encoding.items():
        if not isinstance(own, Mapping):
            raise ValueError(_no_mapping(name, own, dataset))  # noqa: TRY004
        if name not in dataset.variables:
            raise KeyError(f"the encoding is for {name!r}, none of {list(dataset.variables)}")
        refuse_encodings(name, sorted(set(own) - _ENCODINGS), _ENCODINGS)
    return {name: dict(own) for name, own in encoding.items()}


def _no_mapping(name: object, own: object, dataset: xr.Dataset) -> str:
    said = f"the encoding of {name!r} is {own!r}; it must be castable to a dict"
    if name not in _ENCODINGS or name in dataset.variables:
        return said
    variable = next(iter(dataset.data_vars), "a")
    return f"{said}, and is given by variable: encoding={{{variable!r}: {{{name!r}: ...}}}}"
