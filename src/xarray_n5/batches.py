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
    from collections.abc import Iterable, Mapping

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


def together(begun: Mapping[str, Begun], root: str, mark: Underway) -> Written:
    """Return what computes several writes, which end together, beneath one mark."""
    names, ends, parts = [], [], []
    for path, each in begun.items():
        write = replace(cast("Write", each.write), part=True)
        names.append(path.removeprefix(root).strip("/"))
        ends.append(write.underway)
        parts.append(write_lazily(each.source, write, each.before))
    last = functools.partial(_end, names=names, mark=mark, ends=ends)
    return gather_all(parts, last, f"to-n5-{uuid.uuid4().hex}")


def _end(
    receipts: list[xr.Dataset], names: list[str], mark: Underway, ends: list[Underway]
) -> xr.DataTree:
    """End writes: from the moment when their mark says that all is done, they are over."""
    mark.done({"parts": [[each.path, each.token] for each in ends]})
    for each in ends:
        each.end()
    mark.end()
    return xr.DataTree.from_dict(dict(zip(names, receipts, strict=True)))


def end_again(mark: Underway, facts: Mapping[str, Any]) -> Written:
    """Return what ends writes of which nothing was left to be done when they were stopped."""
    ends = [replace(mark, path=path, token=token) for path, token in facts.get("parts", ())]
    last = functools.partial(_end, names=[], mark=mark, ends=ends)
    return gather_all([], last, f"to-n5-{uuid.uuid4().hex}")


def side_by_side(parts: Mapping[str, Written], root: str) -> Written:
    """Return what computes several such writes, each of which ends by itself."""
    names = [path.removeprefix(root).strip("/") for path in parts]
    last = functools.partial(_as_tree, names=names)
    return gather_all(parts.values(), last, f"to-n5-{uuid.uuid4().hex}")


def _as_tree(trees: list[xr.DataTree], names: list[str]) -> xr.DataTree:
    return xr.DataTree.from_dict(dict(zip(names, trees, strict=True)))
