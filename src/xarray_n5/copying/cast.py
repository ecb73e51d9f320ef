"""Numbers in another type, where each of them stays what it is but for a float's rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from xarray_n5.errors import MetadataError

_NUMBERS = "biufc"


def check_convertible(before: np.dtype[Any], after: np.dtype[Any], where: str) -> None:
    """Raise where elements of a type are not turned into others, whatever they are.

    Raises
    ------
    MetadataError
        If it is neither of numbers, nor of texts that only get longer.
    """
    numbers = before.kind in _NUMBERS and after.kind in _NUMBERS
    longer = before.kind == after.kind and before.kind in "SU" and before <= after
    if before != after and not numbers and not longer:
        raise MetadataError(
            f"{where}: {before} is not converted to {after}; numbers become numbers, texts longer "
            "texts"
        )


def converted(block: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return numbers in another type.

    Raises
    ------
    ValueError
        If one is none of the type's: beyond its range, no whole number, a whole number that is
        rounded, or one with an imaginary part. Only floats are rounded.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        real = block.real if block.dtype.kind == "c" and dtype.kind != "c" else block
        found = real.astype(dtype)
        held = _held(block, found) if block.dtype.kind in _NUMBERS else np.True_
    if not np.all(held):
        at = tuple(int(each[0]) for each in np.nonzero(~np.atleast_1d(held)))
        raise ValueError(
            f"{np.atleast_1d(block)[at]!r} is none of {dtype}'s numbers; choose another type"
        )
    return found


def _held(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return which numbers are the same as before, floats but for rounding."""
    held: np.ndarray = _held_real(before.real, after.real)
    if after.dtype.kind == "c":
        held = held & _held_real(before.imag, after.imag)
    elif before.dtype.kind == "c":
        held = held & (before.imag == 0)
    return held


def _held_real(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    floats = (before.dtype.kind == "f", after.dtype.kind == "f")
    held: np.ndarray
    if all(floats):
        held = np.isfinite(after) | ~np.isfinite(before)
    elif not any(floats):
        # There and back again: a sign alone may have changed.
        held = (after.astype(before.dtype) == before) & ((after < 0) == (before < 0))
    else:
        whole, other = (after, before) if floats[0] else (before, after)
        held = _is_same(whole, other)
    return held


def _is_same(whole: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return which whole numbers are the floats beside them.

    numpy compares the two as floats, in which neighbours are the same.
    """
    if whole.dtype.kind == "b":
        whole = whole.astype("u1")
    limits = np.iinfo(whole.dtype)
    within = (other >= float(limits.min)) & (other < 2.0 ** (limits.bits - (limits.min < 0)))
    back = np.where(within, other, 0)
    same: np.ndarray = within & (back.astype(whole.dtype) == whole) & (np.trunc(back) == back)
    return same
