"""Convert numbers to another type without changing them, except by rounding floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from xarray_n5.errors import MetadataError

_NUMBERS = "biufc"


def check_convertible(before: np.dtype[Any], after: np.dtype[Any], where: str) -> None:
    """Raise MetadataError for types other than numbers, or strings that become longer."""
    numbers = before.kind in _NUMBERS and after.kind in _NUMBERS
    longer = before.kind == after.kind and before.kind in "SU" and before <= after
    if before != after and not numbers and not longer:
        raise MetadataError(
            f"{where}: cannot convert {before} to {after}; numbers can only be converted to "
            "numbers, and strings to longer strings"
        )


def converted(block: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Convert numbers to another type; only floats are rounded.

    Raises
    ------
    ValueError
        If the type cannot represent a number: it is out of range, a fraction, a rounded integer, or
        has an imaginary part.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        real = block.real if block.dtype.kind == "c" and dtype.kind != "c" else block
        result = real.astype(dtype)
        same = are_same(block, result) if block.dtype.kind in _NUMBERS else np.True_
    if not np.all(same):
        at = tuple(int(positions[0]) for positions in np.nonzero(~np.atleast_1d(same)))
        raise ValueError(
            f"{dtype} cannot represent {np.atleast_1d(block)[at]!r}; choose another dtype"
        )
    return result


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
