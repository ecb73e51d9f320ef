"""Copy variables: they are opened undecoded, and written by the functions of `ds.n5.to_n5`."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.arrays.coordinates import dims_of
from xarray_n5.arrays.spec import as_dtype
from xarray_n5.copying.array_copy import chunks_of_copy
from xarray_n5.copying.elements import (
    blocks_of_array,
    box_of,
    check_blocks,
    converted_blocks,
    converted_mask,
    is_sparse,
)
from xarray_n5.datasets.build import build
from xarray_n5.datasets.encoded import NAMELESS
from xarray_n5.datasets.write import plan_dataset, request_of
from xarray_n5.dialects.ngff import Ngff
from xarray_n5.dialects.ngff_systems import WRITTEN
from xarray_n5.dialects.write import write_geometry
from xarray_n5.errors import MetadataError
from xarray_n5.images.find import single_image
from xarray_n5.images.select import images_of_arrays, share_dimensions
from xarray_n5.model.alerts import ODD
from xarray_n5.model.axes import axes_apart
from xarray_n5.model.conversions import check_convertible
from xarray_n5.model.metadata import Content
from xarray_n5.model.roundtrip_attrs import COPIED, coords_from_axes, is_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.copying.bounds import Region
    from xarray_n5.datasets.encoding import VariablePlan
    from xarray_n5.datasets.write import Stored
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.image import Image
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.writing.options import WriteOptions
    from xarray_n5.writing.request import WriteRequest

_NAMES = "_ARRAY_DIMENSIONS"
"""The attribute of a variable with the names of its dimensions."""

_NETCDF_NAMES = "DIMENSION_LABELS"
"""The same in netCDF."""

_RAW = dict.fromkeys(
    ("mask_and_scale", "decode_times", "decode_timedelta", "decode_coords", "concat_characters"),
    False,
)

_NUMBERS = ("_FillValue", "missing_value", "scale_factor", "add_offset")
"""The attributes that are numbers by netCDF's conventions, which lists each alone."""

_MASKS = _NUMBERS[:2]


def images_of_dataset(
    arrays: Mapping[str, Array], attributes: Attributes, form: Format, options: CopyOptions
) -> dict[str, Image[Array]] | None:
    """Return the arrays of a group as images if they are variables that must be encoded again.

    They are copied as stored if nothing changes, and if they are no Dataset of xarray: arrays with
    coordinates in attributes of their own, or that were copied from such arrays.
    """
    if not arrays or any(map(_is_object, arrays.values())):
        return None
    if not any(_changes(array, form, options) for array in arrays.values()):
        return None
    names = _names_in(next(iter(arrays.values())))
    if not (is_dataset(attributes) or share_dimensions(arrays, attributes, names)):
        return None
    images = images_of_arrays(arrays)
    are_variables = all(map(_is_variable, images.values()))
    return images if are_variables and not any(map(_is_renamed, images.items())) else None


def image_of_variable(
    array: Array, form: Format, options: CopyOptions
) -> dict[str, Image[Array]] | None:
    """Return one array as an image if it is a variable that must be encoded again.

    So are arrays of booleans and strings for formats that have no such types.
    """
    if _is_object(array) or not _changes(array, form, options):
        return None
    lacks_type = not form.native_to_xarray and array.dtype.kind in "bSUO"
    if not lacks_type and not any(key in array.attrs for key in _names_in(array)):
        return None
    image = single_image(array, dialect=None)
    name = array.node.name or NAMELESS
    if image.name is not None or _is_renamed((name, image)):
        return None
    return {name: image} if lacks_type or _is_variable(image) else None


def _changes(array: Array, form: Format, options: CopyOptions) -> bool:
    """Return whether variables cannot be copied as they are stored."""
    if array.node.format.name != form.name or options.dtype is not None:
        return True
    if form.native_to_xarray:
        return False
    is_netcdf = _NETCDF_NAMES in array.attrs and _NAMES not in array.attrs
    return is_netcdf or bool(options.bounds or options.region or options.is_described)


def _names_in(array: Array) -> tuple[str, ...]:
    return (_NAMES,) if array.node.format.native_to_xarray else (_NAMES, _NETCDF_NAMES)


def _is_object(array: Array) -> bool:
    return array.node.metadata.content in {Content.LABEL_MULTISETS, Content.OBJECTS}


def _is_variable(image: Image[Array]) -> bool:
    """Return whether an array is a variable: not an image with attributes of other programs."""
    level = image.base
    if image.name is not None or level.numbers or COPIED in level.attributes:
        return False
    if coords_from_axes(level.attributes) is not None:
        return True
    others = level.geometry.keys - {_NAMES, _NETCDF_NAMES, "units"}
    return not (level.geometry.placed and others & level.attributes.keys())


def _is_renamed(item: tuple[str, Image[Array]]) -> bool:
    """Return whether a variable opens under another name, since one of its dimensions has its."""
    name, image = item
    return len(image.base.shape) > 1 and name in dims_of(image.base.geometry)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedVariables:
    """Variables as they are stored in the copy."""

    stored: Stored
    requests: Mapping[str, WriteRequest]
    """The arrays to write, by the names of variables."""


def copy_variables(
    images: Mapping[str, Image[Array]],
    attributes: Attributes,
    path: str,
    how: WriteOptions,
    options: CopyOptions,
    regions: Mapping[str, Region | None],
    *,
    alone: bool = False,
) -> CopiedVariables:
    """Return the copy of a group's variables, or of those parts that `regions` select.

    Parameters
    ----------
    images, attributes
        The variables by name, and the attributes of their group.
    path, how
        The group of the copy, and the options of the write.
    options
        The changes that the copy makes.
    regions
        The parts to copy by the names of variables; those without one are left out.
    alone
        Whether one array is copied without its group, so that its coordinates must be in its own
        attributes.

    Raises
    ------
    MetadataError
        If the format cannot store a variable.
    """
    images = {name: image for name, image in images.items() if name in regions}
    arrays = {name: image.base.first for name, image in images.items()}
    dataset = _undecoded(images, attributes, how.format, options, regions)
    names = [options.dialect] if isinstance(options.dialect, str) else options.dialect or ()
    chosen = tuple(names) if options.is_described else ()
    others: tuple[str, ...] = ()
    if how.format.native_to_xarray:
        others = tuple(name for name in chosen if name not in {Ngff.name, WRITTEN})
        chosen = tuple(name for name in chosen if name not in others)[:1]
    how = replace(how, dialect=chosen or None)
    stored = _planned(dataset, path, how)
    requests = {}
    for name, variable in stored.plan.variables.items():
        request = request_of(variable, how)
        spec = replace(request.spec, mode="w" if how.mode == "w" else "w-")
        if others or (alone and how.format.native_to_xarray):
            more = _described(variable, others or None, spec.path)
            spec = replace(spec, attributes={**more, **(spec.attributes or {})})
        options_of = request.options
        if name in arrays:
            check_blocks(request.source, arrays[name])
            options_of = replace(options_of, write_empty_chunks=not is_sparse(arrays[name]))
        requests[name] = replace(request, spec=spec, options=options_of)
    return CopiedVariables(stored=stored, requests=requests)


def _planned(dataset: xr.Dataset, path: str, how: WriteOptions) -> Stored:
    """Return the plan of a Dataset, as images of OME-Zarr if it has any."""
    try:
        return plan_dataset(dataset, path, None, how)
    except MetadataError:
        if how.dialect is None or not how.format.native_to_xarray:
            raise
    return plan_dataset(dataset, path, None, replace(how, dialect=None))


def _undecoded(
    images: Mapping[str, Image[Array]],
    attributes: Attributes,
    form: Format,
    options: CopyOptions,
    regions: Mapping[str, Region | None],
) -> xr.Dataset:
    """Return a Dataset of elements as they are stored, but with decoded coordinates and strings."""
    raw = build(images, dict(attributes), decoders=_RAW)
    decoded = _decoded(images, attributes)
    variables: dict[Any, xr.Variable] = {}
    cut: dict[Any, slice] = {}
    for key, variable in raw.variables.items():
        name = NAMELESS if key is None else str(key)
        if name not in images:
            variables[key] = variable
            continue
        array = images[name].base.first
        box = box_of(array, regions[name])
        cut |= dict(zip(variable.dims, box, strict=False))
        if variable.dims == (key,) or variable.dtype.kind in "SO":
            found = decoded.variables[key].copy(deep=False)
        else:
            found = _elements(array, variable, form, options)
        kept = {k: v for k, v in _numbers(found.encoding).items() if k != "n5_compression"}
        found.encoding = {**kept, **_encoding(array, found, box, form, options)}
        variables[key] = found
    dataset = xr.Dataset(variables, attrs=raw.attrs)
    dataset = dataset.set_coords([key for key in raw.coords if key in dataset.variables])
    return dataset.isel({dim: side for dim, side in cut.items() if dim in dataset.dims})


def _decoded(images: Mapping[str, Image[Array]], attributes: Attributes) -> xr.Dataset:
    """Return a Dataset as it opens; one of netCDF as that opens in xarray, if it can be decoded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are shown when the same images are opened undecoded
        if not any(_NAMES in image.base.attributes for image in images.values()):
            with suppress(*ODD):
                how = dict.fromkeys(("mask_and_scale", "decode_times", "concat_characters"), True)
                return build(images, dict(attributes), decoders=how)
        return build(images, dict(attributes))


def _elements(
    array: Array, variable: xr.Variable, form: Format, options: CopyOptions
) -> xr.Variable:
    """Return a variable whose elements are read from stored chunks, in the type of the copy."""
    shards, inner = chunks_of_copy(array, _apart(array), array.shape, variable.dtype, form, options)
    data = blocks_of_array(array, shards if inner else None).reshape(variable.shape)
    found = xr.Variable(variable.dims, data, _numbers(variable.attrs), variable.encoding)
    found.encoding.pop("dtype", None)
    if options.dtype is None or data.dtype.kind not in "biufc":
        return found
    return _with_type(found, options.dtype, array)


def _encoding(
    array: Array,
    variable: xr.Variable,
    box: tuple[slice, ...],
    form: Format,
    options: CopyOptions,
) -> dict[str, Any]:
    """Return the storage of a variable in the copy."""
    shape = tuple(side.stop - side.start for side in box)
    stored, inner = chunks_of_copy(array, _apart(array), shape, variable.dtype, form, options)
    chunks = (inner or stored)[: variable.ndim]  # strings have no axis of characters
    encoding: dict[str, Any] = {"chunks": chunks, "shards": stored if inner else None}
    if options.compression == "same":
        return {**encoding, "n5_compression": array.compression}
    return {**encoding, "compression": options.compression}


def _apart(array: Array) -> Sequence[int]:
    return axes_apart(array.geometry().axes)


def _numbers(attributes: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return attributes, or an encoding, with masks and scales as plain numbers."""
    found = dict(attributes)
    for key in found.keys() & {*_NUMBERS}:
        value = np.asarray(found[key])
        if value.size == 1 and value.dtype.kind in "iuf":
            # The width of a scale determines that of decoded values.
            found[key] = value.item() if key in _MASKS else value.ravel()[0]
    return found


def _with_type(variable: xr.Variable, wanted: Any, array: Array) -> xr.Variable:
    """Convert the elements of a variable, and the numbers that mask some of them."""
    if "_Unsigned" in variable.attrs:
        raise MetadataError(
            f"{array.url}: its numbers are unsigned by an attribute only, and cannot be converted; "
            "omit dtype"
        )
    dtype = as_dtype(wanted, array.url)
    check_convertible(array.dtype, dtype, array.url)
    data = converted_blocks(variable.data, dtype)
    attributes = dict(variable.attrs)
    for key in attributes.keys() & {*_MASKS}:
        mask = converted_mask(attributes.pop(key), dtype, array.url)
        attributes |= {} if mask is None else {key: mask}
    return xr.Variable(variable.dims, data, attributes, variable.encoding)


def _described(variable: VariablePlan, dialect: Any, where: str) -> Mapping[str, Any]:
    """Return attributes by which other programs than xarray read the axes of a variable in Zarr."""
    if not variable.placed:
        return {}
    shape = variable.encoded.data.shape
    return write_geometry(variable.geometry, shape, dialect, lists_x_first=False, where=where)
