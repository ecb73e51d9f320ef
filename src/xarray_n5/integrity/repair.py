"""The public :func:`repair`: remove damaged chunks so that they are written again."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xarray_n5.arrays.open import open_array
from xarray_n5.datasets.commit import complete_appends
from xarray_n5.errors import ChunkError, MetadataError
from xarray_n5.integrity.reopen import reopen, tidy
from xarray_n5.integrity.report import DAMAGED, decoded, known_of
from xarray_n5.integrity.report import report as report_on
from xarray_n5.model.options import check_option, suggest_keywords
from xarray_n5.model.paths import QUARANTINE, join

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

    Each chunk is read again before it is removed, and kept if it is intact by then. The finished
    write that stored it is unfinished again, so that the same call rewrites it; a chunk of no known
    write is rewritten by any write that covers it. Chunks beyond the array's ends, and what killed
    tasks have left, are removed; an append that has stored all of its data is finished.

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
        "quarantine" moves damaged chunks into the array's folder ``.xn5/quarantine``; "remove"
        deletes them.
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
    >>> report = xarray_n5.to_n5(values, "cells.n5", "raw", compression=None, resume=True)
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
    complete_appends(array)
    states = found["state"].to_numpy()
    looked_at = _Look(array, bool(found.attrs.get("digests")), *known_of(array, deep=True)[0])
    suspects = _indices(np.isin(states, sorted(DAMAGED)))
    damaged = [index for index in suspects if looked_at(index)[0]]
    absent = _indices(states == "missing") if missing else []
    absent = [index for index in absent if not array.chunk_exists(index)]
    reopen(array, damaged + absent)
    removed = [index for index in damaged if _remove(array, index, looked_at, how)]
    tidy(array)
    return found.assign_attrs(repaired=len(removed))


def _remove(array: Array, index: Index, looked_at: _Look, how: str) -> bool:
    """Remove a chunk, unless it has been written since the report was made."""
    still, data = looked_at(index)
    if not still or data is None:
        return False
    io = array.node
    if how == "quarantine":
        inner = io.key(index).removeprefix(f"{array.path}/" if array.path else "")
        kept = join(array.path, QUARANTINE, f"{inner}.{uuid.uuid4().hex[:8]}")
        io.store.set(kept, data)
    io.delete([index])
    return True


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
