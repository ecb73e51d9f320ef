"""The public :func:`repair`: remove damaged chunks so that they are written again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xarray_n5.arrays.changes import end_repairs, reopen
from xarray_n5.arrays.open import open_array
from xarray_n5.arrays.records import look, new_attempt
from xarray_n5.datasets.append import complete_appends
from xarray_n5.errors import ChunkError, MetadataError
from xarray_n5.integrity.report import DAMAGED, check_chunk
from xarray_n5.integrity.report import report as report_on
from xarray_n5.model.json import check_option
from xarray_n5.model.paths import QUARANTINE, final_key, join
from xarray_n5.writing.digests import read_digests

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import Index


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
    write, or of several, is incomplete until all its elements are written. Chunks beyond the
    array's ends, and what killed tasks have left, are removed; an append that has stored all of its
    data is finished.

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
    array = open_array(url, path, mode="r+", storage_options=storage_options, missing="error")
    table = (report_on(array, deep=True) if report is None else report).load()
    about, states = table.attrs.get("array"), table["state"].to_numpy()
    if about != array.url or states.shape != array.grid.counts:
        raise ValueError(f"the report is for {about!r}, expected {array.url!r}")
    if not array.node.metadata.content.is_writable:
        raise MetadataError(f"{array.url} has {array.node.metadata.content.value}: it is read-only")
    complete_appends(array)
    digests = read_digests(array.node)
    lost = np.isin(states, [*DAMAGED, "missing"] if missing else DAMAGED)
    suspects = [tuple(map(int, at)) for at in np.argwhere(lost)]
    damaged = [index for index in suspects if _damaged(array, index, digests) is not None]
    reopen(array.node, damaged + [index for index in suspects if not array.chunk_exists(index)])
    repaired = 0
    for index in damaged:
        if (data := _damaged(array, index, digests)) is None:
            continue  # it has been written since
        if how == "quarantine":
            inner = array.node.key(index).removeprefix(f"{array.path}/" if array.path else "")
            key = join(array.path, QUARANTINE, f"{inner}.{new_attempt()}")
            array.node.store.set(key, data)
        array.node.delete([index])
        repaired += 1
    _sweep(array.node)
    return table.assign_attrs(repaired=repaired)


def _damaged(array: Array, index: Index, digests: np.ndarray | None) -> bytes | None:
    """Return the bytes of a chunk if it is damaged now.

    Another shape is damage if the array has digests: other programs leave short chunks where
    arrays grow.
    """
    data = array.node.get(index)
    wanted = 0 if digests is None else int(digests[index])
    state = check_chunk(array.node, index, data, wanted)[0]
    if state == "wrong-shape" and digests is None:
        with suppress(ChunkError):
            array.node.decoded(index, data)
            return None
    return data if state in DAMAGED else None


def _sweep(node: ArrayNode) -> None:
    """Remove chunks beyond the ends, and partial files, unless a write is unfinished."""
    # An append that has just been finished has made the array longer.
    io = replace(node, container=node.container.fresh()).refreshed()
    store, path = io.container.uncached().store, io.path
    if end_repairs(io) or look(store, path.rpartition("/")[0]).appends:
        return
    if beyond := [index for index in io.stored_indices() if index not in io.metadata.grid]:
        io.delete(beyond)
    if store.concurrency == 1:  # object stores have none
        keys = [info.key for info in store.list_info(path, sizes=False)]
        store.delete([join(path, key) for key in keys if final_key(key)])
