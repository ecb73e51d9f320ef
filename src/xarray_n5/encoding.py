"""Datasets as arrays that N5 can hold: checked and encoded, and nothing of them written yet."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import xarray as xr
from dask.base import is_dask_collection
from xarray import conventions
from xarray.backends.common import ensure_dtype_not_object

from xarray_n5.axes import Axis, Geometry
from xarray_n5.compression import resolve
from xarray_n5.coordinates import coords_of, geometry_from
from xarray_n5.creation import chunk_shape
from xarray_n5.errors import MetadataError, PathError
from xarray_n5.faithful import CF, check_values
from xarray_n5.packing import NAMELESS, NOTE, Packed, pack, pack_attributes
from xarray_n5.paths import new_path

if TYPE_CHECKING:
    from collections.abc import Container, Hashable

Encoding: TypeAlias = "Mapping[Hashable, Mapping[str, Any]]"

_ENCODINGS = CF | {"chunks", "compression", "n5_compression"}
"""What may be asked for of a variable."""

_LONGEST_NAME = 255
"""How many bytes file systems allow a name."""


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


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written into one group; nothing of it is written yet."""

    path: str
    variables: Mapping[str, Stored]
    attributes: Mapping[str, Any]


def plan(
    dataset: xr.Dataset, path: str, encoding: Encoding | None = None, *, beside: bool = False
) -> Plan:
    """Return how a dataset is stored, having checked all that can be.

    Parameters
    ----------
    dataset
        What is to be stored.
    path
        The group that it goes into.
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
    _check_names(dataset)
    asked = _checked(encoding or {}, dataset)
    variables, attributes = conventions.encode_dataset_coordinates(dataset)
    own: dict[Hashable, xr.Variable] = {}
    for name, variable in variables.items():
        own[name] = variable.copy(deep=False)
        known = {key: value for key, value in variable.encoding.items() if key in _ENCODINGS}
        own[name].encoding = asked.get(name, known)
    axes = {str(dim): axis_of(dataset, str(dim)) for dim in dataset.dims}
    several = {d for n, each in dataset.variables.items() for d in each.dims if each.dims != (n,)}
    alone = {
        dim
        for dim, axis in axes.items()
        if axis
        and not beside
        and dim in several
        and dim not in asked
        and _is_axis_alone(dataset, dim, axis)
    }
    encoded, attributes = conventions.cf_encoder(own, dict(attributes))
    stored = {}
    for key, variable in encoded.items():
        name = NAMELESS if key is None else str(key)
        if name not in alone:
            packed = _packed(name, variable, dataset.dims)
            stored[name] = _stored(name, packed, axes, alone, strict=key in asked)
    described = pack_attributes(attributes, f"group {path or '/'!r}", {"dataset": True})
    return Plan(path, stored, described)


def encode_into(dataset: xr.Dataset, stored: xr.Dataset) -> dict[str, Packed]:
    """Return a dataset's variables encoded as those of the same names are, into which they go."""
    variables, _ = conventions.encode_dataset_coordinates(dataset)
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
        encoded, _ = conventions.cf_encoder(own, {})
    return {
        str(name): check_values(dataset[name].variable, _packed(str(name), variable), str(name))
        for name, variable in encoded.items()
    }


def _packed(name: str, variable: xr.Variable, taken: Container[Hashable] = ()) -> Packed:
    _check_texts(name, variable)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Duplicate dimension names")  # they change below
            packed = pack(name, ensure_dtype_not_object(variable, name=name))
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


def _check_texts(name: str, variable: xr.Variable) -> None:
    """Raise where a text ends with NUL, which nothing tells from its padding."""
    if variable.dtype.kind != "O" or is_dask_collection(variable.data):
        return
    for text in np.ravel(variable.data):
        if isinstance(text, str | bytes) and text[-1:] in {"\0", b"\0"}:
            raise MetadataError(
                f"variable {name!r} holds {text!r}: NUL at the end of a text would be lost; strip "
                "it, or store the bytes as numbers"
            )


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
    return Stored(packed, geometry, told, chunks, compression)


def _chunks(packed: Packed, asked: Any, *, strict: bool) -> tuple[int, ...] | None:
    """Return the chunk shape to write: that asked for, or that of the file, where it fits."""
    shape, ndim = packed.data.shape, packed.data.ndim
    if asked is None or not packed.dims:
        return None
    if isinstance(asked, str | int):
        return chunk_shape(asked, shape)  # type: ignore[arg-type]
    sides = tuple(asked)
    if len(sides) == ndim - 1 and packed.attributes.get(NOTE, {}).get("dtype") == "S1":
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


def _check_names(dataset: xr.Dataset) -> None:
    for name, variable in dataset.variables.items():
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the variable {name!r} must have a string or None for a name")
        if name == "":
            raise ValueError("no variable can be called '': a string must be length 1 or more")
        if name is not None:
            check_name(name, "variable")
        dims = variable.dims
        if len(set(dims)) != len(dims) or not all(isinstance(dim, str) and dim for dim in dims):
            raise ValueError(f"the dimensions of {name!r} are {dims}; different texts are needed")
        if not isinstance(variable.dtype, np.dtype):
            raise MetadataError(
                f"variable {name!r} has the type {variable.dtype}, which is pandas' own; convert "
                "it with astype() to one of numpy's"
            )


def check_name(name: str, what: str) -> None:
    """Raise where a directory cannot have a name.

    Raises
    ------
    ValueError
        Naming it.
    """
    try:
        proper = new_path(name, "attributes.json") == name and "/" not in name
    except PathError as error:
        raise ValueError(f"no {what} can be called {name!r}: {error}") from error
    if not proper or len(name.encode("utf-8", "surrogatepass")) > _LONGEST_NAME:
        raise ValueError(
            f"no {what} can be called {name!r}: it becomes the name of one directory, of at most "
            f"{_LONGEST_NAME} bytes"
        )


def _checked(encoding: Encoding, dataset: xr.Dataset) -> dict[Hashable, dict[str, Any]]:
    """Return encodings that are asked for; unknown ones, or for no variable, are refused."""
    for name, own in encoding.items():
        if not isinstance(own, Mapping):
            raise ValueError(f"the encoding of {name!r} is {own!r}; it must be castable to a dict")  # noqa: TRY004
        if name not in dataset.variables:
            raise KeyError(f"the encoding is for {name!r}, none of {list(dataset.variables)}")
        if unknown := sorted(set(own) - _ENCODINGS):
            raise ValueError(
                f"unexpected encoding for variable {name!r}: {unknown}; known are "
                f"{', '.join(sorted(_ENCODINGS))}"
            )
    return {name: dict(own) for name, own in encoding.items()}
