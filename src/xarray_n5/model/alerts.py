"""Warnings that point at the line of the user's code that caused them."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING

from xarray_n5.errors import message as safe_message

if TYPE_CHECKING:
    from types import FrameType

ODD = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Errors from reading invalid values, which are ignored with a warning."""

_INSIDE = frozenset({"xarray_n5", "xarray_n5_engine", "xarray_n5_napari", "xarray", "dask"})
"""Packages whose lines are not the user's."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the user's line, with control characters in the message escaped."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_inside(frame):
        frame, level = frame.f_back, level + 1
    level = level - 1 if frame is None else level
    warnings.warn(safe_message(message), category, stacklevel=level)


def _is_inside(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE
