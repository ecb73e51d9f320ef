"""Compare the elements of blocks bit for bit."""

from __future__ import annotations

import numpy as np


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
