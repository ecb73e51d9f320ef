"""Several writes that begin and end together."""

from __future__ import annotations

import functools
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import xarray as xr
from dask.base import tokenize

from xarray_n5.gathering import gather_all
from xarray_n5.options import check_option
from xarray_n5.orders import Order
from xarray_n5.storage import open_container
from xarray_n5.storing import write_lazily
from xarray_n5.underway import Underway

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.beginning import Begun
    from xarray_n5.gathering import Written
    from xarray_n5.storing import Write

Mode: TypeAlias = Literal["w-", "w", "a", "r+"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """Where and how datasets are written."""

    url: object
    mode: Mode = "w-"
    storage_options: Mapping[str, Any] | None = None
    format: str | None = None
    dialect: str | Iterable[str] | None = None
    align_chunks: bool = True
    write_empty_chunks: bool = True
    resume: bool | str = False
    checksums: bool = False
    fsync: bool = False

    def __post_init__(self) -> None:
        check_option("mode", self.mode, "w-", "w", "a", "r+")

    def order(self, **options: Any) -> Order:
        """Return what is asked for of an array."""
        return Order(
            align_chunks=self.align_chunks,
            write_empty_chunks=self.write_empty_chunks,
            resume=self.resume,
            checksums=self.checksums,
            format=self.format,
            **options,
        )

    def mark(self, path: str, *facts: Any) -> Underway:
        """Return the mark of a write into a group, which is made of what is written."""
        store, inner = open_container(self.url, path, self.storage_options)
        told = self.resume if isinstance(self.resume, str) else facts
        options = (self.mode, self.align_chunks, self.write_empty_chunks, self.checksums)
        return Underway(store=store, path=inner, token=tokenize(told, path, options))

    @property
    def place(self) -> dict[str, Any]:
        """How the container is found."""
        return {"storage_options": self.storage_options, "format": self.format}


def together(begun: Mapping[str, Begun], root: str, marks: Sequence[Underway]) -> Written:
    """Return what computes several writes, which end together: `marks` first, then their own."""
    names, ends, parts = [], list(marks), []
    for path, each in begun.items():
        write = replace(cast("Write", each.write), part=True)
        names.append(path.removeprefix(root).strip("/"))
        ends.append(write.underway)
        parts.append(write_lazily(each.source, write, each.before))
    last = functools.partial(_end, names=names, marks=ends)
    return gather_all(parts, last, f"to-n5-{uuid.uuid4().hex}")


def _end(receipts: list[xr.Dataset], names: list[str], marks: list[Underway]) -> xr.DataTree:
    """End writes: from the moment when the first mark is gone, they are over."""
    for mark in marks:
        mark.end()
    return xr.DataTree.from_dict(dict(zip(names, receipts, strict=True)))
