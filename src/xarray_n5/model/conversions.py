"""Compare numbers before and after a conversion: floats may differ by rounding."""

from __future__ import annotations

import numpy as np


def are_same(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Compare numbers element by element; floats may differ by rounding."""
    same: np.ndarray = _is_same_real(before.real, after.real)
    if after.dtype.kind == "c":
        same = same & _is_same_real(before.imag, after.imag)
    elif before.dtype.kind == "c":
        same = same & (before.imag == 0)
    return same


def _is_same_real(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    floats = (before.dtype.kind == "f", after.dtype.kind == "f")
    same: np.ndarray
    if all(floats):
        same = np.isfinite(after) | ~np.isfinite(before)
    elif not any(floats):
        # Converted back; only a sign may have changed.
        same = (after.astype(before.dtype) == before) & ((after < 0) == (before < 0))
    else:
        integers, other = (after, before) if floats[0] else (before, after)
        same = _equals_floats(integers, other)
    return same


def _equals_floats(integers: np.ndarray, floats: np.ndarray) -> np.ndarray:
    """Compare integers with floats exactly; NumPy would compare both as floats."""
    if integers.dtype.kind == "b":
        integers = integers.astype("u1")
    limits = np.iinfo(integers.dtype)
    within = (floats >= float(limits.min)) & (floats < 2.0 ** (limits.bits - (limits.min < 0)))
    back = np.where(within, floats, 0)
    same: np.ndarray = within & (back.astype(integers.dtype) == integers) & (np.trunc(back) == back)
    return same
