"""What users ask for of a write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from xarray_n5.model.options import check_option
from xarray_n5.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.arrays.chunk_io import EdgeChunks
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.stores.protocol import Store

PartialChunks: TypeAlias = Literal["error", "merge"]
"""Whether a region may cut stored chunks, which are then read, merged and replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What is asked for of a write; see :func:`xarray_n5.to_n5`."""

    mode: Literal["w-", "w", "a", "r+"] = "w-"
    region: slice | Sequence[slice] | None = None
    chunks: Sequence[int] | int | Literal["auto"] | None = None
    compression: str | Mapping[str, Any] | Compression | None = "gzip"
    attributes: Mapping[str, Any] | None = None
    axes: Iterable[Axis | str | None] | Geometry | None = None
    dialect: str | Iterable[str] | None = None
    layout: Mapping[str, Any] | None = None
    align_chunks: bool = True
    partial_chunks: PartialChunks = "error"
    write_empty_chunks: bool = True
    edge_chunks: EdgeChunks = "truncate"
    format: str | None = None
    resume: bool | str = False
    checksums: bool = False
    deferred: bool = False
    """Whether blocks are computed later: until then the write is only planned."""
    whole: WriteMarker | None = None
    """The mark of the Dataset or the tree that the array is part of."""
    adds: bool = False
    """Whether only new parts of the array are written, so that the source may read the others."""
    store: Store = field(default_factory=MemoryStore)
    """Where the container is."""
    path: str = ""
    """The array's path in it."""
    dims: tuple[str, ...] = ()
    """What receipts call the axes."""

    def __post_init__(self) -> None:
        check_option("partial_chunks", self.partial_chunks, "error", "merge")
        fixed = ("chunks", "attributes", "axes", "dialect", "layout")
        given = [name for name in fixed if getattr(self, name) is not None]
        if self.region is not None and given:
            raise ValueError(f"a region goes into an array as it is; {given} cannot change it")

    @property
    def opening(self) -> dict[str, Any]:
        """How the array is opened."""
        return {
            "format": self.format,
            "write_empty_chunks": self.write_empty_chunks,
            "edge_chunks": self.edge_chunks,
        }

    @property
    def stays(self) -> bool:
        """Whether an array that is there stays, with other values."""
        return self.region is not None or self.mode in {"a", "r+"}
