"""Warnings that point at the line of the user's own code that led to them."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING

from xarray_n5.errors import message as safe_message

if TYPE_CHECKING:
    from types import FrameType

ODD = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading a value of an unexpected kind may raise, which is then ignored with a warning."""

_INSIDE = frozenset({"xarray_n5", "xarray_n5_engine", "xarray", "dask"})
"""Packages whose lines tell a user nothing."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of what is odd, but does not stop anything; safe to print, whatever a file holds.

    Parameters
    ----------
    message
        What was found and where, and what is made of it.
    category
        What kind of warning it is.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_inside(frame):
        frame, level = frame.f_back, level + 1
    level = level - 1 if frame is None else level
    warnings.warn(safe_message(message), category, stacklevel=level)


def _is_inside(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE
