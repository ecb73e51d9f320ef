"""Tables of chunks, as variables on the chunk grid, and the report of a write."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from dask.utils import format_bytes, format_time

from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.records import Box
    from xarray_n5.model.receipts import Receipts

MOST = 1 << 28
"""The maximum number of chunks in a table."""


def whole_grid(array: Array) -> tuple[range, ...]:
    """Return the ranges of the whole chunk grid; raise if it is too large for a table."""
    counts = array.grid.counts
    if array.grid.size > MOST:
        raise MetadataError(
            f"{array.url} has {counts} chunks, too many for a table; check single chunks with "
            "open_array(...).chunk_exists(index)"
        )
    return tuple(map(range, counts))


def dims_of_grid(array: Array) -> tuple[str, ...]:
    """Return the dimension names of an array's chunk grid."""
    names = [axis.name for axis in array.axes]
    return dims_or_numbers(names if len(set(names)) == len(names) else None, array.ndim)


def dims_or_numbers(dims: Sequence[str | None] | None, ndim: int) -> tuple[str, ...]:
    """Return names of dimensions, with numbers for unnamed ones."""
    names = tuple(dims or (None,) * ndim)
    return distinct([name or f"dim_{axis}" for axis, name in enumerate(names)], ())


def distinct(dims: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    """Return names of dimensions made distinct from each other and from the variables' `names`.

    >>> distinct(["bytes", "x", "x"], ["bytes"])
    ('bytes_', 'x', 'x_')
    """
    taken = [*names]
    for name in dims:
        dim = name
        while dim in taken:
            dim += "_"
        taken.append(dim)
    return tuple(taken[len(names) :])


def coordinates(box: Sequence[range], dims: Sequence[str]) -> dict[str, xr.Variable]:
    """Return the coordinates of a part of the chunk grid: the chunks' indices along each axis."""
    return {
        dim: xr.Variable(dim, np.arange(side.start, side.stop), {"long_name": "chunk"})
        for dim, side in zip(dims, box, strict=True)
    }


def on_grid(
    indices: np.ndarray,
    columns: Mapping[str, np.ndarray],
    box: Sequence[range],
    dims: Sequence[str],
    fill: Mapping[str, Any],
    attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> xr.Dataset:
    """Convert a table with a row for each chunk to arrays on a part of the grid.

    Parameters
    ----------
    indices
        The chunks' coordinates, a row each.
    columns
        The columns of the table by name.
    box
        The part of the grid.
    dims
        The names of its axes.
    fill
        The value of each column for the other chunks.
    attributes
        The attributes of variables.
    """
    dims = distinct(dims, columns)
    spots = tuple(indices[:, axis] - side.start for axis, side in enumerate(box))
    variables = {}
    for name, column in columns.items():
        whole = np.full(tuple(map(len, box)), fill[name], column.dtype)
        if len(column):
            whole[spots] = column if spots else column[-1]
        variables[name] = xr.Variable(dims, whole, (attributes or {}).get(name))
    return xr.Dataset(variables, coordinates(box, dims))


_ATTRIBUTES = {
    "bytes": {"long_name": "stored bytes"},
    "digest": {"long_name": "XXH3 of the elements"},
    "seconds": {"units": "s"},
}


@dataclass(frozen=True, slots=True, eq=False)
class ArrayReport:
    """What a write has stored of one array."""

    url: str
    box: Box
    """The chunks that the write covers, along each axis."""
    dims: tuple[str, ...]
    kept: int
    """The number of chunks that earlier attempts have stored."""
    receipts: Receipts

    @property
    def chunks(self) -> int:
        """The number of all chunks."""
        return math.prod(map(len, self.box))

    def to_dataset(self) -> xr.Dataset:
        """Return the receipts of all chunks on the part of the chunk grid that was written.

        Chunks without one are those of a write that had finished before.
        """
        receipts = self.receipts
        columns = {
            "bytes": receipts.sizes,
            "digest": receipts.digests,
            "seconds": receipts.seconds,
            "worker": np.array([*receipts.names, ""], object)[receipts.writers],
        }
        fill = {"bytes": 0, "digest": 0, "seconds": math.nan, "worker": "an earlier run"}
        table = on_grid(receipts.indices, columns, self.box, self.dims, fill, _ATTRIBUTES)
        return table.assign_attrs(array=self.url, chunks=self.chunks)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WriteReport:
    """What a write has stored.

    Attributes
    ----------
    arrays : mapping of str to ArrayReport
        The report of each array by its name; that of :func:`to_n5` has the name "".
    verified : int or None
        The number of chunks that were compared with their source, of a copy with ``verify=True``.
    """

    arrays: Mapping[str, ArrayReport]
    verified: int | None = None

    @property
    def written(self) -> int:
        """The number of chunks, or shards, that this call has written."""
        return sum(array.chunks for array in self.arrays.values()) - self.kept

    @property
    def kept(self) -> int:
        """The number of chunks that earlier attempts had stored."""
        return sum(array.kept for array in self.arrays.values())

    @property
    def nbytes(self) -> int:
        """The stored size of chunks with a receipt, in bytes."""
        return sum(int(array.receipts.sizes.sum()) for array in self.arrays.values())

    @property
    def seconds(self) -> float:
        """The time that tasks have spent on encoding and storing chunks, all together."""
        return sum(float(np.nansum(array.receipts.seconds)) for array in self.arrays.values())

    def to_datatree(self) -> xr.DataTree:
        """Return the receipt of each chunk: a Dataset on the chunk grid for each array.

        Returns
        -------
        xarray.DataTree
            By the array's name: ``bytes``, the stored size of each chunk (int64); ``digest``, the
            XXH3 (uint64) of its elements in C order, little-endian, clipped to the array;
            ``seconds``, the time that its task spent on it (float32); and ``worker``, the host and
            process that wrote it, or "an earlier run".
        """
        tables = {name or "/": array.to_dataset() for name, array in self.arrays.items()}
        return xr.DataTree.from_dict(tables)

    def __repr__(self) -> str:
        urls = [array.url for array in self.arrays.values()]
        what = urls[0] if len(urls) == 1 else f"{len(urls)} arrays"
        kept = f", {self.kept} kept" if self.kept else ""
        return (
            f"<WriteReport of {what}: {self.written} chunks written{kept}, "
            f"{format_bytes(self.nbytes)} in {format_time(self.seconds)}>"
        )
