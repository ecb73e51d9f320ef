"""What a dask graph reads, and where it would be computed."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
from dask.base import get_scheduler

from xarray_n5.array import Array
from xarray_n5.errors import NodeExistsError, OneWriterError

if TYPE_CHECKING:
    from collections.abc import Collection

    import dask.array as da


def check_independent(source: da.Array, places: Collection[object]) -> None:
    """Raise where `source` is to be read from an array that is replaced.

    Parameters
    ----------
    source
        What is to be written.
    places
        Those of the arrays that go, as their stores tell them from others.

    Raises
    ------
    NodeExistsError
        If the graph holds a handle of that array.
    """
    found: list[Array] = []

    class Finder(cloudpickle.Pickler):  # type: ignore[misc]
        """Visit every object that the graph holds; what it writes goes nowhere."""

        def persistent_id(self, item: object) -> str | None:
            if isinstance(item, Array) and item.place in places:
                found.append(item)
            # Numbers are not looked into: that would copy them.
            return "numbers" if isinstance(item, np.ndarray) and not item.dtype.hasobject else None

    # A graph for threads alone may not pickle: what was found until then counts.
    with (
        open(os.devnull, "wb") as nowhere,  # noqa: PTH123
        suppress(TypeError, AttributeError, PicklingError),
    ):
        Finder(nowhere, protocol=5, buffer_callback=lambda _: None).dump(source.dask)
    if found:
        raise NodeExistsError(
            found[0].url,
            "",
            "an array that the new one is computed from",
            "replacing it would remove what is still to be read: write to another path, or "
            "with mode='r+' where shape and chunks agree",
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
