"""How the arrays of a copy are stored: in the chunks and compression of the source, or others."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array import PerformanceWarning

from xarray_n5.arrays.spec import ArraySpec, resolve_chunks, supported
from xarray_n5.codecs import resolve
from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.datasets.encoded import EncodedVariable
from xarray_n5.datasets.encoding import VariablePlan
from xarray_n5.errors import MetadataError
from xarray_n5.formats.zarr3.codecs import compressor_to_json
from xarray_n5.formats.zarr3.layout import adapted
from xarray_n5.model.axes import axes_apart
from xarray_n5.model.metadata import Content

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dask.array as da
    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.spec import Sides
    from xarray_n5.formats.protocol import Format
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.model.metadata import Attributes

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
