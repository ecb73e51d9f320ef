"""What a dask graph reads, and where it would be computed."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import NodeExistsError, OneWriterError
from xarray_n5.graph import get_scheduler
from xarray_n5.writing.probes import location_of
from xarray_n5.writing.source_reads import reads_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import dask.array as da


def check_independent(
    source: da.Array,
    places: Collection[object],
    *,
    groups: Collection[object] = (),
    exists: Callable[[], bool] | None = None,
) -> None:
    """Raise where `source` is to be read from an array that is replaced or changed.

    Parameters
    ----------
    source
        What is to be written.
    places
        Those of the arrays that are replaced or changed, as their stores name them.
    groups
        Those of groups of which all arrays are replaced.
    exists
        Whether there is anything at those places; by default there is.

    Raises
    ------
    NodeExistsError
        If a task reads one of the arrays, or may do so.
    """
    targets = [location_of(place) for place in places]
    around = [location_of(place) for place in groups]
    found = reads_of(source.dask, {each.rpartition("/")[2] for each in (*targets, *around)})
    for read in found.reads:
        met = next(filter(read.meets, targets), None)
        if met is None and read.certainty != "node" and read.location in around:
            met = read.location
        if met is not None:
            what = "an array that the new one is computed from"
            raise NodeExistsError(met.removeprefix("remote://"), "", what, _ADVICE)
    if found.hidden and targets and (exists is None or exists()):
        what = f"and tasks may read it: {found.hidden[0]} does not say which files it reads"
        raise NodeExistsError(targets[0].removeprefix("remote://"), "", what, _ADVICE)


_ADVICE = (
    "what is still to be read would be gone: write to another path, or compute the new values "
    "first (x.compute() of an array, ds.load() of a Dataset)"
)


def check_one_process(url: str, *sources: da.Array) -> None:
    """Raise where blocks would be computed, and written, by other processes than this one.

    Raises
    ------
    OneWriterError
        If the scheduler in use has other processes: those of a cluster, or of a pool.
    """
    get: Any = get_scheduler(collections=list(sources))
    cluster: Any = getattr(get, "__self__", None)
    if getattr(get, "__module__", "") == "dask.multiprocessing":
        raise OneWriterError(url, "the scheduler 'processes' would write it from several")
    if hasattr(cluster, "run") and not getattr(cluster, "asynchronous", False):
        others = set(cluster.run(_process).values()) - {_process()}
        if others:
            raise OneWriterError(url, f"{len(others)} worker processes would write it")


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()
