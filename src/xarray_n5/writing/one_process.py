"""Refuse to write files with one writer from several processes."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import OneWriterError
from xarray_n5.graph import get_scheduler

if TYPE_CHECKING:
    import dask.array as da


def check_one_process(url: str, *sources: da.Array) -> None:
    """Raise if blocks would be computed, and written, by other processes than this one.

    Raises
    ------
    OneWriterError
        If the current scheduler has other processes: those of a cluster, or of a pool.
    """
    get: Any = get_scheduler(collections=list(sources))
    cluster: Any = getattr(get, "__self__", None)
    if getattr(get, "__module__", "") == "dask.multiprocessing":
        raise OneWriterError(url, "the scheduler 'processes' would write it from several")
    if hasattr(cluster, "run") and not getattr(cluster, "asynchronous", False):
        workers = set(cluster.run(_process).values()) - {_process()}
        if workers:
            raise OneWriterError(url, f"{len(workers)} worker processes would write it")


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()
