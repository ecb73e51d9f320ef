"""Images as one xarray Dataset: variables that are read when they are used, and coordinates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.coordinates import Room, coords_of, dims_of
from xarray_n5.codecs import to_json
from xarray_n5.datasets.attributes import NAMELESS, is_native, told_of
from xarray_n5.datasets.decoding import decode
from xarray_n5.datasets.lazy import LazyArray, LazyStack, LazyText
from xarray_n5.datasets.unpacking import unpack_attributes
from xarray_n5.datasets.xarray_internals import LazilyIndexedArray
from xarray_n5.dialects import DIALECTS
from xarray_n5.dialects.ngff import without_variables
from xarray_n5.dialects.protocol import units_of_values
from xarray_n5.model.roundtrip_attrs import is_text, meant_by_users, note_of, told_by
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from xarray_n5.arrays.array import Array, AxisOrder
    from xarray_n5.arrays.chunk_io import Missing
    from xarray_n5.arrays.coordinates import Origin
    from xarray_n5.arrays.opening import LabelMultisets
    from xarray_n5.datasets.images import Image
    from xarray_n5.datasets.select import Level
    from xarray_n5.model.axes import Geometry


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the arrays of a container become variables."""

    axis_order: AxisOrder = "C"
    dialect: str | Sequence[str] | None = None
    origin: Origin = "center"
    missing: Missing = "fill"
    label_multisets: LabelMultisets = "error"
    level: Level | None = None
    dims: Sequence[str] | None = None
    inherit: bool = False

    @property
    def looking(self) -> dict[str, Any]:
        """How arrays are asked for their axes."""
        return {"dialect": self.dialect, "inherit": self.inherit}


def build(
    images: Mapping[str, Image],
    attributes: dict[str, Any],
    drop: Container[str],
    decoders: Mapping[str, bool | None],
    options: Options,
    room: Room | None = None,
) -> xr.Dataset:
    """Return images as variables of one Dataset, whose coordinates take the `room` that is left.

    Raises
    ------
    ValueError
        If their sizes or places differ.
    """
    # An axis that nobody named must not take the name of an array.
    geometries = {name: image.named(options.dims, images.keys()) for name, image in images.items()}
    dims = {
        name: () if _is_number(images[name]) else dims_of(geometry)
        for name, geometry in geometries.items()
    }
    keys = {
        name: _written_as(name) if _is_variable(image.first) else _key(name, dims, images)
        for name, image in images.items()
    }
    images = {name: image for name, image in images.items() if keys[name] not in drop}
    _check_sizes(images, dims)
    variables: dict[str, xr.Variable] = {}
    room = Room() if room is None else room
    coords: dict[str, xr.Variable] = {}
    for name, image in images.items():
        variables[keys[name]] = _variable(image, dims[name], geometries[name], options)
        if dims[name] in {(), (name,)}:
            continue
        outer = dims[name][::-1] if image.turned else dims[name]
        places = {
            dim: xr.Variable((dim,), np.array(numbers))
            for dim, numbers in zip(outer, image.numbers, strict=False)
        }
        # Coordinates that arrays share are in memory once.
        shared = sum(coords[dim].size for dim in dims[name] if dim in coords)
        there = Room(room.left + shared)
        places |= coords_of(geometries[name], image.shape, options.origin, there)
        told = told_by(image.first.attrs)
        if told is not None:
            # Who wrote it knows which of the axes had a coordinate.
            places = {dim: values for dim, values in places.items() if dim in told}
        room.take(sum(places[dim].size for dim in places.keys() - coords.keys()))
        for dim, values in places.items():
            if not _at_one_place(coords.setdefault(dim, values), values):
                raise ValueError(_clash(image.first, f"their {dim!r} lies at different places"))
    encoded = any("_ARRAY_DIMENSIONS" in image.first.attrs for image in images.values())
    attributes = unpack_attributes(without_variables(attributes), "the group")
    decoded, kept, named = decode(variables, attributes, decoders, encoded=encoded)
    own = {name for name, variable in decoded.items() if variable.dims == (name,)}
    dataset = xr.Dataset({**coords, **decoded}, attrs=kept)
    return dataset.set_coords((own | set(named)) & set(dataset.variables))


def _at_one_place(one: xr.Variable, other: xr.Variable) -> bool:
    """Return whether coordinates are the same, be their unit spelt in two ways."""
    units = [unit_of(each.attrs.get("units")) or each.attrs.get("units") for each in (one, other)]
    return units[0] == units[1] and bool(one.equals(other))  # type: ignore[no-untyped-call]


def _key(name: str, dims: Mapping[str, tuple[str, ...]], taken: Container[str]) -> str:
    """Return what a variable is called: its array's name, unless one of several axes has that."""
    if name not in dims[name] or dims[name] == (name,):
        return name
    key = f"{name}_data"
    while key in taken:
        key += "_"
    return key


def _variable(
    image: Image, dims: tuple[str, ...], geometry: Geometry, options: Options
) -> xr.Variable:
    array = image.first
    lazy: LazyArray | LazyStack = (LazyText if _is_text(array) else LazyArray)(array.bare())
    if image.numbers:
        lazy = LazyStack(image, options.missing)
    # What is not in the coordinates stays in the attributes.
    told = geometry.dialects if geometry.affine is None else ()
    known = {key for name in told for key in DIALECTS[name].keys}
    if units_of_values(array.attrs):
        known -= {"units"}
    known = (known - set(meant_by_users(array.attrs))) | {"_ARRAY_DIMENSIONS"}
    attributes = {key: value for key, value in image.attributes.items() if key not in known}
    if geometry.affine is not None:
        attributes.setdefault("affine", [number for row in geometry.affine for number in row])
    attributes = unpack_attributes(attributes, array.path or "/")
    if "_FillValue" in (told_there := told_of(array)):
        attributes.setdefault("_FillValue", told_there["_FillValue"])
    axes = dims or ("_",) * len(lazy.shape)
    variable = xr.Variable(
        axes,
        LazilyIndexedArray(lazy),
        attributes,
        {
            "source": array.url,
            "chunks": image.chunks,
            "preferred_chunks": dict(zip(dims, image.chunks, strict=False)),
            "n5_compression": to_json(array.metadata.compression),
            "dtype": lazy.dtype,
            "dialect": dict(geometry.sources),
        },
    )
    return variable.isel(dict.fromkeys(axes, 0)) if axes and not dims else variable


def _is_variable(array: Array) -> bool:
    """Return whether an array was written as a variable of its name."""
    return bool(note_of(array.attrs)) or is_native(array)


def _is_text(array: Array) -> bool:
    """Return whether an array's numbers are characters, as its note says, and can be."""
    return is_text(array.attrs) and array.dtype == np.uint8 and array.ndim > 0


def _written_as(name: str) -> Any:
    return None if name == NAMELESS else name


def _is_number(image: Image) -> bool:
    """Return whether an array is a variable without axes, which N5 cannot have."""
    return image.shape == (1,) and image.first.attrs.get("_ARRAY_DIMENSIONS") == []


def _check_sizes(images: Mapping[str, Image], dims: Mapping[str, tuple[str, ...]]) -> None:
    sizes: dict[str, int] = {}
    for name, image in images.items():
        # How long the texts of a variable may be is its own affair.
        shared = dims[name][:-1] if _is_text(image.first) else dims[name]
        for dim, size in zip(shared, image.shape, strict=False):
            if sizes.setdefault(dim, size) != size:
                raise ValueError(
                    _clash(image.first, f"their {dim!r} has {sizes[dim]} and {size} samples")
                )


def _clash(array: Array, why: str) -> str:
    parent = array.url.rpartition("/")[0]
    level = re.fullmatch(r"s\d+", array.name)
    advice = "one level of a pyramid with level=0" if level else f"one with group={array.path!r}"
    return (
        f"the arrays in {parent!r} do not fit into one Dataset ({why}); open {advice}, or all of "
        "them with xarray.open_datatree"
    )
