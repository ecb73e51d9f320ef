"""Datasets of elements as they are stored, which are written without decoding them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.datasets.build import DatasetOptions, build
from xarray_n5.datasets.encoded import N5Convention
from xarray_n5.errors import MetadataError
from xarray_n5.model.metadata import Content, coords_from_axes, is_text, note_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import dask.array as da

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.image import Image

NAMES = "_ARRAY_DIMENSIONS"
"""The attribute of a variable with the names of its dimensions."""

_RAW = dict.fromkeys(
    ("mask_and_scale", "decode_times", "decode_timedelta", "decode_coords", "concat_characters"),
    False,
)

_MASKS = ("_FillValue", "missing_value")

_NUMBERS = (*_MASKS, "scale_factor", "add_offset")
"""The attributes that are numbers by netCDF's conventions, which lists each alone."""


def undecoded(images: Mapping[str, Image[Array]], attributes: Mapping[str, Any]) -> xr.Dataset:
    """Return a Dataset of elements as they are stored, but with decoded coordinates and strings."""
    raw = build(images, dict(attributes), DatasetOptions(decoders=_RAW))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were shown when they were opened undecoded
        decoded = build(images, dict(attributes))
    arrays = {image.base.first.url: image.base.first for image in images.values()}
    variables: dict[Any, xr.Variable] = {}
    for key, variable in raw.variables.items():
        array = arrays.get(variable.encoding.get("source", ""))
        if array is None:
            variables[key] = variable
        elif variable.dims == (key,) or variable.dtype.kind in "SUO":
            variables[key] = decoded.variables[key].copy(deep=False)
            variables[key].encoding = plain_numbers(variables[key].encoding)
        else:
            data = elements(array).reshape(variable.shape)
            encoding = plain_numbers(variable.encoding)
            del encoding["dtype"]
            if "_FillValue" not in variable.attrs and data.dtype.kind in "fc":
                encoding["_FillValue"] = None  # xarray would add one
            attrs = plain_numbers(variable.attrs)
            variables[key] = xr.Variable(variable.dims, data, attrs, encoding)
    dataset = xr.Dataset(variables, attrs=raw.attrs)
    return dataset.set_coords([key for key in raw.coords if key in dataset.variables])


def elements(array: Array) -> da.Array:
    """Return the elements of an array as they are stored.

    Raises
    ------
    MetadataError
        If they are objects, which only their own reader understands.
    """
    content = array.node.metadata.content
    if content in {Content.LABEL_MULTISETS, Content.OBJECTS}:
        hint = ""
        if content is Content.LABEL_MULTISETS:
            hint = ", or copy open_array(..., label_multisets='argmax')"
        raise MetadataError(
            f"{array.url} has {content.value}, which cannot be copied; leave it out{hint}"
        )
    return from_n5(array, chunks="auto")


def plain_numbers(attributes: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return attributes, or an encoding, with masks and scales as plain numbers."""
    plain = dict(attributes)
    for key in plain.keys() & {*_NUMBERS}:
        value = np.asarray(plain[key])
        if value.size == 1 and value.dtype.kind in "iuf":
            # The width of a scale determines that of decoded values.
            plain[key] = value.item() if key in _MASKS else value.ravel()[0]
    return plain


def without_marks(
    attributes: dict[str, Any], array: Array, coords: Sequence[str]
) -> dict[str, Any]:
    """Return attributes in N5 and HDF5 without those that make an array one of a Dataset.

    Dimensions are named only if elements are decoded.
    """
    key = N5Convention.roundtrip_key
    note = dict(note_of(attributes))
    if len(coords) in {0, array.ndim}:
        note.pop("axes", None)
    marks = {key} if NAMES in array.attrs or array.dtype.kind in "bSUO" else {key, NAMES}
    kept = {name: value for name, value in attributes.items() if name not in marks}
    return {**kept, key: note} if note else kept


def is_variable(name: str, image: Image[Array]) -> bool:
    """Return whether an array is a variable: not an image with attributes of other programs."""
    level = image.base
    if image.name is not None:
        return False
    dims = [str(axis.name) for axis in level.named().axes]
    if is_text(level.attributes):
        del dims[-1]  # that of characters
    if len(dims) > 1 and name in dims:
        return False  # it opens under another name
    if coords_from_axes(level.attributes) is not None:
        return True
    others = level.geometry.keys - {NAMES, "units"}
    return not (level.geometry.placed and others & level.attributes.keys())
