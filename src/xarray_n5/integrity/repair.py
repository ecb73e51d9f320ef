"""The public :func:`repair`: remove damaged chunks so that they are written again."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from operator import contains
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xarray_n5.arrays.invalidate import forget
from xarray_n5.arrays.marker import REPAIRED, WriteMarker, unfinished_writes
from xarray_n5.arrays.open import open_array
from xarray_n5.errors import ChunkError, MetadataError
from xarray_n5.integrity.report import DAMAGED, decoded, known_of
from xarray_n5.integrity.report import report as report_on
from xarray_n5.model.options import check_option, suggest_keywords
from xarray_n5.model.paths import QUARANTINE, join
from xarray_n5.writing.resume import inside
from xarray_n5.writing.write import provenance

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.model.grid import Index


@suggest_keywords
def repair(
    url: object,
    path: str = "",
    report: xr.Dataset | None = None,
    *,
    how: Literal["quarantine", "remove"] = "quarantine",
    missing: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Remove damaged chunks, so that ``to_n5(..., resume=True)`` writes exactly these again.

    Each chunk is read again before it is removed, and kept if it is intact by then. The array is
    marked as unfinished. A resumed write must have the same values: nothing stored could verify
    that they are.

    Parameters
    ----------
    url : str, os.PathLike or store
        The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a pair
        of an fsspec filesystem and a path, or a store.
    path : str, default: ""
        The path of the array in the container; by default the container itself.
    report : xarray.Dataset, optional
        The report of :func:`verify`; by default a deep one is made.
    how : {"quarantine", "remove"}, default: "quarantine"
        "quarantine" moves damaged chunks into the array's folder ``.quarantine``; "remove" deletes
        them.
    missing : bool, default: False
        Whether to mark missing chunks to be written again, too.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.

    Returns
    -------
    xarray.Dataset
        The computed report; its attribute ``repaired`` is the number of removed chunks.

    Raises
    ------
    NodeNotFoundError
        If no array exists at `path`.
    MetadataError
        If its metadata are invalid, or its chunks cannot be written.
    ValueError
        If the report is about another array.

    Examples
    --------
    >>> values = da.ones((4, 6), chunks=(2, 3))
    >>> _ = xarray_n5.to_n5(values, "cells.n5", "raw", compression=None)
    >>> with open("cells.n5/raw/1/0", "r+b") as file:
    ...     _ = file.truncate(20)
    >>> xarray_n5.repair("cells.n5", "raw").attrs["repaired"]
    1
    >>> report = xarray_n5.to_n5(values, "cells.n5", "raw", mode="r+", resume=True)
    >>> bool((xarray_n5.verify("cells.n5", "raw").compute().state == "ok").all())
    True
    """
    check_option("how", how, "quarantine", "remove")
    array = open_array(url, path, mode="r+", storage_options=storage_options)
    found = report_on(_as_read(url, path, storage_options), deep=True) if report is None else report
    found = found.load()
    if found.attrs.get("array") != array.url or found["state"].shape != array.grid.counts:
        raise ValueError(f"the report is for {found.attrs.get('array')!r}, expected {array.url!r}")
    if not array.node.metadata.content.is_writable:
        raise MetadataError(f"{array.url} has {array.node.metadata.content.value}: it is read-only")
    io = array.node
    store, states = io.store, found["state"].to_numpy()
    looked_at = _Look(array, bool(found.attrs.get("digests")), *known_of(array, deep=True)[0])
    suspects = _indices(np.isin(states, sorted(DAMAGED)))
    damaged = [index for index in suspects if looked_at(index)[0]]
    absent = _indices(states == "missing") if missing else []
    absent = [index for index in absent if not array.chunk_exists(index)]
    _mark(array, damaged + absent)
    begun = [each for each in unfinished_writes(store, array.path) if each.token != REPAIRED]
    removed = 0
    for index in damaged:
        # The chunk may have been written since the report was made.
        still, data = looked_at(index)
        if not still or data is None:
            continue
        key = io.key(index)
        removed += 1
        # In HDF5 a removed chunk stays allocated, and would look written.
        forget(begun, (), tuple(range(place, place + 1) for place in index), array.grid.chunks)
        if how == "quarantine":
            inner = key.removeprefix(f"{array.path}/" if array.path else "")
            kept = join(array.path, QUARANTINE, f"{inner}.{uuid.uuid4().hex[:8]}")
            store.set(kept, data)
        io.delete([index])
    if not any(
        each.facts() for each in unfinished_writes(store, array.path) if each.token != REPAIRED
    ):
        store.delete([join(array.path, each) for each in store.list_partials(array.path)])
    return found.assign_attrs(repaired=removed)


def _as_read(url: object, path: str, options: Mapping[str, Any] | None) -> Array:
    return open_array(url, path, mode="r+", storage_options=options, missing="error")


@dataclass(frozen=True, slots=True)
class _Look:
    """Read a chunk again, and decide whether to remove it."""

    array: Array
    has_digests: bool
    """Whether any other shape is damage: other programs leave short chunks where arrays grow."""
    digests: np.ndarray
    known: np.ndarray

    def __call__(self, index: Index) -> tuple[bool, bytes | None]:
        """Return whether a chunk is damaged now, and its bytes."""
        data = self.array.node.get(index)
        wanted = int(self.digests[index]) if self.known[index] else None
        state = decoded(self.array, index, data, wanted)[0]
        if state == "wrong-shape" and not self.has_digests:
            try:
                self.array.node.decoded(index, data)
            except ChunkError:
                return True, data
            return False, data
        return state in DAMAGED, data


def _indices(where: np.ndarray) -> list[Index]:
    return [tuple(map(int, at)) for at in np.argwhere(where)]


def _mark(array: Array, chunks: list[Index]) -> None:
    """Mark chunks to be written again, except those that unfinished writes will write."""
    store = array.node.store
    mark = WriteMarker(store=store, path=array.path, token=REPAIRED)
    others = [each.facts() for each in unfinished_writes(store, array.path) if each != mark]
    boxes = [inside(each, array) for each in others if each]
    left = [index for index in chunks if not any(_lies_in(index, box) for box in boxes)]
    before = mark.facts() or {}
    mark = mark.as_found(before)
    listed = {*left, *(tuple(index) for index in before.get("chunks", ()))}
    if listed:
        mark.begin({"chunks": sorted(listed), **provenance()})


def _lies_in(index: Index, box: tuple[range, ...] | None) -> bool:
    return box is not None and all(map(contains, box, index))
