"""Variables of a copy: how their arrays are stored, and what is written by `to_n5`, undecoded."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from dask.array import PerformanceWarning

from xarray_n5.arrays.spec import ArraySpec, resolve_chunks, supported
from xarray_n5.codecs import resolve
from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.datasets.build import DatasetOptions, build
from xarray_n5.datasets.encode import VariablePlan, plan_group
from xarray_n5.datasets.encoded import NAMELESS, EncodedVariable, convention_of
from xarray_n5.dialects.write import override, write_geometry
from xarray_n5.errors import MetadataError
from xarray_n5.formats.zarr3.codecs import compressor_to_json
from xarray_n5.formats.zarr3.layout import adapted
from xarray_n5.model.alerts import warn
from xarray_n5.model.axes import axes_apart
from xarray_n5.model.metadata import Content
from xarray_n5.model.roundtrip_attrs import coords_from_axes, note_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dask.array as da

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.spec import Sides
    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.model.image import Image, Level
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.writing.options import WriteOptions

NAMES = "_ARRAY_DIMENSIONS"
"""The attribute of a variable with the names of its dimensions."""

_MOST = 1 << 28
"""The maximum size of a chunk that keeps its shape; HDF5 may store an array in one piece."""

_TASKS = 1 << 23
"""The maximum number of blocks that are copied at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The storage of all arrays of a copy; by default that of each source."""

    form: Format
    chunks: Sides = None
    shards: Sides = None
    compression: str | Mapping[str, Any] | Compression | None = "same"
    """"same" for that of each array, or gzip if the format does not have it."""

    @property
    def changes(self) -> bool:
        """Whether arrays are stored in another way than their sources."""
        return (self.chunks, self.shards, self.compression) != (None, None, "same")

    def sides(
        self, array: Array, geometry: Geometry
    ) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """Return the shape of chunks, and that of shards, if there are any."""
        shards: Any = self.shards
        large = np.prod(array.chunks, dtype=float) * array.dtype.itemsize > _MOST
        chosen: Any = "auto" if self.chunks is None and large else self.chunks
        if chosen is None and shards is None and self.form.holds_shards:
            shards = array.shards
        chunks = array.chunks if chosen is None else chosen
        apart = axes_apart(geometry.axes)
        return resolve_chunks(chunks, shards, array.shape, array.dtype, apart)

    def encoding(self, variable: xr.DataArray) -> dict[str, Any]:
        """Return the encoding of an opened variable: as the user chose, or as it was stored."""
        stored = variable.encoding
        chunks = stored.get("chunks") if self.chunks is None else self.chunks
        encoding = {"chunks": chunks, "shards": self.shards}
        if self.compression != "same":
            encoding["compression"] = self.compression
        elif "n5_compression" in stored:
            compression, name = resolve(stored["n5_compression"]), str(variable.name)
            shape, dtype = variable.shape, variable.dtype
            encoding["compression"] = supported(self.form, compression, shape, dtype, name)
        return {key: value for key, value in encoding.items() if value is not None}

    def blocks(self, array: Array, geometry: Geometry) -> da.Array:
        """Return the elements of an array as they are stored: of shards, each is one block.

        Raises
        ------
        MetadataError
            If they are objects, which only their own reader understands.
        ValueError
            If there are too many blocks.
        """
        content = array.node.metadata.content
        if content in {Content.LABEL_MULTISETS, Content.OBJECTS}:
            hint = ""
            if content is Content.LABEL_MULTISETS:
                hint = ", or copy open_array(..., label_multisets='argmax')"
            raise MetadataError(
                f"{array.url} has {content.value}, which cannot be copied; leave it out{hint}"
            )
        _, shards = self.sides(array, geometry)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerformanceWarning)  # chunks read for several shards
            data = from_n5(array, chunks=shards or "auto")
        if data.npartitions > _TASKS:
            raise ValueError(
                f"{array.url!r}, whose shape is {array.shape}, has {data.npartitions} blocks, too "
                "many for one copy; copy parts of it with to_n5, or leave it out"
            )
        return data

    def of_variable(self, variable: VariablePlan, array: Array, path: str) -> VariablePlan:
        """Return a variable at a path, in the chunks and compression of the array that it was."""
        data = variable.encoded.data
        sides = self.sides(array, variable.geometry)
        chunks, shards = (self._for(data, shape) for shape in sides)
        compression = resolve(array.compression if self.compression == "same" else self.compression)
        if self.compression == "same":
            compression = supported(self.form, compression, data.shape, data.dtype, path, chunks)
        spec = replace(
            variable.spec,
            path=path,
            chunks=chunks,
            shards=shards,
            compression=compression,
        )
        return replace(variable, spec=spec)

    def as_stored(
        self, array: Array, geometry: Geometry, attributes: Attributes, path: str
    ) -> VariablePlan:
        """Return an array as it is stored, in the same format."""
        chunks, shards = self.sides(array, geometry)
        spec = ArraySpec(
            path=path,
            chunks=chunks,
            shards=shards,
            compression=array.compression if self.compression == "same" else self.compression,
            attributes=attributes,
            layout=self._layout(array, chunks if shards else None),
        )
        names = attributes.get(NAMES)
        dims = tuple(names) if isinstance(names, list) and len(names) == array.ndim else ()
        encoded = EncodedVariable(self.blocks(array, geometry), dims, dict(attributes))
        return VariablePlan(encoded=encoded, spec=spec, geometry=geometry, axis_coords=())

    def _layout(self, array: Array, inner: tuple[int, ...] | None) -> Mapping[str, Any] | None:
        """Return the layout in Zarr, with another compressor if the user chose one."""
        if not self.form.native_to_xarray or array.node.format.name != self.form.name:
            return None
        compressor = None
        if self.compression != "same" and self.form.holds_shards:
            codec = compressor_to_json(resolve(self.compression), array.dtype.itemsize)
            compressor = [] if codec is None else [codec]
        return adapted(self.form.layout_of(array.node.metadata), inner, compressor)

    @staticmethod
    def _for(data: Any, sides: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Return sides for encoded elements, whose characters or single sample have an axis."""
        if sides is None:
            return None
        return (*sides[: data.ndim], *(max(1, size) for size in data.shape[len(sides) :]))


def is_sparse(array: Array) -> bool:
    """Return whether chunks of an array are missing."""
    return sum(1 for _ in array.node.stored_chunks()) < array.grid.size


_RAW = dict.fromkeys(
    ("mask_and_scale", "decode_times", "decode_timedelta", "decode_coords", "concat_characters"),
    False,
)

_MASKS = ("_FillValue", "missing_value")

_NUMBERS = (*_MASKS, "scale_factor", "add_offset")
"""The attributes that are numbers by netCDF's conventions, which lists each alone."""


def undecoded(
    images: Mapping[str, Image[Array]], attributes: Attributes, storage: Storage
) -> xr.Dataset:
    """Return a Dataset of elements as they are stored, but with decoded coordinates and strings."""
    raw = build(images, dict(attributes), DatasetOptions(decoders=_RAW))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were shown when they were opened undecoded
        decoded = build(images, dict(attributes))
    named = {None if name == NAMELESS else name: image for name, image in images.items()}
    if len(images) == 1:
        named = dict(zip([name_in(raw)], images.values(), strict=True))
    variables: dict[Any, xr.Variable] = {}
    for key, variable in raw.variables.items():
        if key not in named:
            variables[key] = variable
        elif variable.dims == (key,) or variable.dtype.kind in "SUO":
            variables[key] = decoded.variables[key].copy(deep=False)
            variables[key].encoding = _numbers(variables[key].encoding)
        else:
            variables[key] = _elements(named[key].base, variable, storage)
    dataset = xr.Dataset(variables, attrs=raw.attrs)
    return dataset.set_coords([key for key in raw.coords if key in dataset.variables])


def name_in(dataset: xr.Dataset) -> Any:
    """Return the name of the only variable, which may be a coordinate, besides coordinates."""
    return next(iter(dataset.data_vars or dataset.variables))


def _elements(level: Level[Array], variable: xr.Variable, storage: Storage) -> xr.Variable:
    """Return a variable whose elements are read from stored chunks."""
    data = storage.blocks(level.first, level.geometry).reshape(variable.shape)
    elements = xr.Variable(variable.dims, data, _numbers(variable.attrs))
    elements.encoding = _numbers(variable.encoding)
    del elements.encoding["dtype"]
    if "_FillValue" not in elements.attrs and data.dtype.kind in "fc":
        elements.encoding["_FillValue"] = None  # xarray would add one
    return elements


def _numbers(attributes: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return attributes, or an encoding, with masks and scales as plain numbers."""
    storage = {"chunks", "shards", "n5_compression"}
    found = {key: value for key, value in attributes.items() if key not in storage}
    for key in found.keys() & {*_NUMBERS}:
        value = np.asarray(found[key])
        if value.size == 1 and value.dtype.kind in "iuf":
            # The width of a scale determines that of decoded values.
            found[key] = value.item() if key in _MASKS else value.ravel()[0]
    return found


def variable_alone(
    name: str, image: Image[Array], context: ArrayContext, how: WriteOptions, storage: Storage
) -> VariablePlan:
    """Return an array that is not part of a Dataset: its own attributes describe its axes.

    Parameters
    ----------
    name, image
        The array as an image, and its name.
    context
        The array in the copy as dialects see it, without attributes.
    how, storage
        The options of the write, and of the storage of arrays.

    Raises
    ------
    MetadataError
        If the format cannot store it, or the dialects that the user chose cannot describe it.
    """
    array, convention = image.base.first, convention_of(how.format)
    dataset = undecoded({name: image}, {}, storage)
    key = name_in(dataset)
    plan = plan_group(dataset, context.path.rpartition("/")[0], how.format)
    variable = plan.variables[NAMELESS if key is None else str(key)]
    encoded, geometry = variable.encoded, image.base.named({name})
    axes: dict[str, Any] = {}
    has_axes = len(geometry.axes) == encoded.data.ndim  # not of scalars, or texts of characters
    if has_axes and _is_known(image.base.geometry):
        axes = write_geometry(
            geometry,
            encoded.data.shape,
            how.dialect,
            lists_x_first=context.lists_x_first,
            where=context.path or "/",
        )
    coords = [str(dim) for dim in dataset[key].dims if dim in dataset.coords and dim != key]
    own = convention.array_attributes(encoded, coords, placed=geometry.placed)
    if not how.format.native_to_xarray:
        is_whole = len(coords) in {0, encoded.data.ndim}
        own = _plain(own, convention.roundtrip_key, array, is_whole=is_whole)
    if has_axes:
        own |= described(array, geometry, replace(context, attributes=own), axes)
    variable = replace(variable, spec=replace(variable.spec, attributes=own))
    return storage.of_variable(variable, array, context.path)


def described(
    array: Array, geometry: Geometry, context: ArrayContext, axes: Attributes | None = None
) -> dict[str, Any]:
    """Return attributes with which an array lies in its copy where it was, with those of `axes`."""
    added, wrong = override(geometry, context, axes or {})
    if wrong:
        warn(f"{array.url}: the copy cannot describe {wrong}; to keep it, copy the whole image")
    return added


def _is_known(geometry: Geometry) -> bool:
    return geometry.named or geometry.placed


def _plain(attributes: dict[str, Any], key: str, array: Array, *, is_whole: bool) -> dict[str, Any]:
    """Return attributes in N5 and HDF5, without those that make an array one of a Dataset.

    Dimensions are named only if elements are decoded; `is_whole` if all axes have coordinates.
    """
    if coords_from_axes(array.attrs) is not None:
        return attributes
    note = dict(note_of(attributes))
    if is_whole:
        note.pop("axes", None)
    gone = {key} if NAMES in array.attrs or array.dtype.kind in "bSUO" else {key, NAMES}
    kept = {name: value for name, value in attributes.items() if name not in gone}
    return {**kept, key: note} if note else kept


def without_nan(attributes: Attributes) -> dict[str, Any]:
    """Return attributes with masks and scales as plain numbers.

    NaN, which JSON has not, is left out: it masks only what is NaN.
    """
    found = dict(attributes)
    for key in found.keys() & {*_NUMBERS}:
        value = found[key]
        found[key] = value[0] if isinstance(value, list) and len(value) == 1 else value
        if found[key] != found[key]:
            del found[key]
    return found
