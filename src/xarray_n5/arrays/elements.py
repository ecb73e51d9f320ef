"""The elements of blocks: in native order without a copy, and compared bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from xarray_n5.model.codec import Buffer


def in_place(decoded: np.ndarray, data: Buffer) -> np.ndarray | None:
    """Return elements in native order, in the memory that they were decoded into.

    None if a copy is needed: they are views of the stored bytes `data`, which others may hold.
    """
    if not (decoded.flags.writeable and decoded.flags.c_contiguous) or decoded.dtype.hasobject:
        return None
    if np.may_share_memory(decoded, np.frombuffer(data, np.uint8)):
        return None
    if decoded.dtype.isnative:
        return decoded
    if decoded.dtype.names is not None:
        return None  # fields may differ in their order
    return decoded.byteswap(inplace=True).view(decoded.dtype.newbyteorder("="))


def holds_only(block: np.ndarray, value: np.ndarray) -> bool:
    """Return whether all elements are `value`, of the same type, bit for bit."""
    if value.dtype.hasobject:
        return bool((block == value).all())
    return bool((_bits(block) == _bits(value.reshape(1))[0]).all())


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays of one shape have the same elements, bit for bit.

    The bytes of numbers may be in another order; elements of another type are converted first.

    >>> same_bits(np.ones(2, ">u2"), np.ones(2, "<u2"))
    True
    >>> same_bits(np.array([0.0]), np.array([-0.0]))
    False
    """
    if other.dtype.hasobject or not other.size:
        return bool((one == other).all())
    return np.array_equal(_bits(one.astype(other.dtype, copy=False)), _bits(other))


def _bits(block: np.ndarray) -> np.ndarray:
    """Return the bytes of each element, a row each."""
    flat = np.ascontiguousarray(block).reshape(-1)
    return flat.view("u1").reshape(flat.size, -1)
