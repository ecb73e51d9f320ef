"""Check that blocks have the shape and the data type that Dask declares for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import BlockError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MANTISSA = {2: 11, 4: 24, 8: 53, 16: 64}
"""How many bits of a whole number a float of so many bytes holds."""


def check_block(block: Any, where: Sequence[slice], dtype: np.dtype[Any], url: str) -> np.ndarray:
    """Return a block as a NumPy array, having checked its shape and its data type.

    Another type is accepted if that of the array holds all values of it, or all of the block's.
    Some functions of xarray and Dask return wider floats than they declare: these are rounded.

    Parameters
    ----------
    block
        The result of a task.
    where
        The part of the array that it is written to.
    dtype
        The type of the array.
    url
        The array, for the message.

    Raises
    ------
    BlockError
        If the block would be broadcast, or its values wrapped, cut or taken from below a mask.
    """
    place = f"[{', '.join(f'{side.start}:{side.stop}' for side in where)}]"
    if np.ma.is_masked(block):
        hint = "fill it first, with dask.array.ma.filled(x, value)"
        raise BlockError(url, place, "plain values", "masked ones", hint)
    found = np.asarray(block.data if isinstance(block, np.ma.MaskedArray) else block)
    shape = tuple(side.stop - side.start for side in where)
    if found.shape != shape:
        hint = (
            "the function that made it returns another shape than dask was told: give map_blocks "
            "the right chunks="
        )
        raise BlockError(url, place, f"the shape {shape}", str(found.shape), hint)
    if not (_holds(dtype, found.dtype) or _fits(found, dtype)):
        hint = (
            "the function that made it returns another type than dask was told: give map_blocks "
            "the right dtype=, or convert with astype()"
        )
        raise BlockError(url, place, str(dtype), str(found.dtype), hint)
    return found


def _fits(found: np.ndarray, wanted: np.dtype[Any]) -> bool:
    """Return whether a type holds the values of a block, but for the rounding of floats."""
    rounds = found.dtype.kind == wanted.kind == "f"
    if not rounds and (found.dtype.kind not in "iu" or wanted.kind not in "iuf"):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        stored = found.astype(wanted)
        if rounds:
            return bool((np.isfinite(stored) == np.isfinite(found)).all())
        return bool((stored.astype(found.dtype) == found).all()) and (
            wanted.kind == "f" or bool(((stored < 0) == (found < 0)).all())
        )


def _holds(wanted: np.dtype[Any], found: np.dtype[Any]) -> bool:
    """Return whether a type holds all values of another."""
    if wanted.hasobject:
        return found.kind in "OUT"
    plain = "biufc"
    if found == wanted or (found.kind not in plain and found.kind != wanted.kind):
        return found == wanted
    if found.kind in "iu" and wanted.kind in "fc":
        bits = _MANTISSA.get(wanted.itemsize // (2 if wanted.kind == "c" else 1), 0)
        return found.itemsize * 8 <= bits
    return (
        wanted.kind in plain + "SUVMm"
        and np.can_cast(found, wanted, "safe")
        and ((wanted.kind in plain) == (found.kind in plain))
    )
