"""The report of a write: what it has stored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from dask.utils import format_bytes, format_time

from xarray_n5.writing.chunk_table import on_grid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.arrays.records import Box
    from xarray_n5.model.receipts import Receipts

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
        """Return the receipts of all chunks on the part of the chunk grid that was written."""
        receipts = self.receipts
        columns = {
            "bytes": receipts.sizes,
            "digest": receipts.digests,
            "seconds": receipts.seconds,
            "worker": np.array([*receipts.names, ""], object)[receipts.writers],
        }
        fill = {"bytes": 0, "digest": 0, "seconds": 0, "worker": ""}
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

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(str(WriteReport({name: array}))[1:-1])}</td></tr>"
            for name, array in self.arrays.items()
        )
        return f"<table>{rows}</table>"
