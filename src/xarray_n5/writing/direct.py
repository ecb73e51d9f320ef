"""Write arrays that are one block in memory, without a Dask graph."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import dask.local
import dask.threaded
import numpy as np
from dask.callbacks import Callback

from xarray_n5.graph import get_scheduler
from xarray_n5.stores import together
from xarray_n5.writing.finish import finish
from xarray_n5.writing.tasks import write_block

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dask.array as da
    import xarray as xr

    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.write import Write


def write_now(plans: Mapping[str, WritePlan]) -> dict[str, xr.Dataset] | None:
    """Write arrays that are each one block in memory, without a graph, and return their reports.

    None if any of them is not, or is resumed; or if tasks do not run in threads of this process, or
    are observed.
    """
    calls = []
    for plan in plans.values():
        block = _block_in_memory(plan.source) if plan.before is None else None
        if block is None:
            return None
        calls.append(partial(_write_whole, block, replace(plan.write, part=True)))
    found = together(next(iter(plans.values())).write.marker.store, calls)
    return dict(zip(plans, found, strict=True))


def _block_in_memory(array: da.Array) -> np.ndarray | None:
    """Return the only block of an array if it is in memory, and would be written here."""
    layers = [*array.dask.layers.values()]
    here = get_scheduler(collections=[array]) in {dask.threaded.get, dask.local.get_sync}
    if not here or Callback.active or len(layers) != 1 or not layers[0].is_materialized():
        return None
    values = [*layers[0].values()]
    return values[0] if len(values) == 1 and isinstance(values[0], np.ndarray) else None


def _write_whole(block: np.ndarray, write: Write) -> xr.Dataset:
    whole = tuple(slice(0, size) for size in block.shape)
    return finish([write_block(block, whole, None, write)], write, None)
