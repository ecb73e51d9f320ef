"""Check that blocks have the shape and the data type that Dask declares for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import BlockError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MANTISSA = {2: 11, 4: 24, 8: 53, 16: 64}
"""The number of bits of a whole number that a float of each size represents exactly."""


def check_block(block: Any, where: Sequence[slice], dtype: np.dtype[Any], url: str) -> np.ndarray:
    """Return a block as a NumPy array, after checking its shape and data type.

    Another type is accepted if the array's type can represent all its values, or all values of the
    block. Wider floats than declared, which some functions of xarray and Dask return, are rounded.

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
        If the block would be broadcast, or its values would overflow, be truncated or unmasked.
    """
    place = f"[{', '.join(f'{side.start}:{side.stop}' for side in where)}]"
    if np.ma.is_masked(block):
        hint = "fill it first, with dask.array.ma.filled(x, value)"
        raise BlockError(url, place, "plain values", "masked ones", hint)
    found = np.asarray(block.data if isinstance(block, np.ma.MaskedArray) else block)
    shape = tuple(side.stop - side.start for side in where)
    if found.shape != shape:
        hint = (
            "the function that made it returns another shape than Dask expects: pass the right "
            "chunks= to map_blocks"
        )
        raise BlockError(url, place, f"the shape {shape}", str(found.shape), hint)
    if not (_holds(dtype, found.dtype) or _fits(found, dtype)):
        hint = (
            "the function that made it returns another type than Dask expects: pass the right "
            "dtype= to map_blocks, or convert with astype()"
        )
        raise BlockError(url, place, str(dtype), str(found.dtype), hint)
    return found


def _fits(found: np.ndarray, wanted: np.dtype[Any]) -> bool:
    """Return whether a type can represent the values of a block, up to the rounding of floats."""
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
    """Return whether a type can represent all values of another."""
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
