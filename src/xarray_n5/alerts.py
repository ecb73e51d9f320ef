"""Warnings that point at the line of the user's own code that led to them."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_INSIDE = frozenset({"xarray_n5", "xarray_n5_engine", "xarray", "dask"})
"""Packages whose lines tell a user nothing."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of what is odd, but does not stop anything.

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
    warnings.warn(message, category, stacklevel=level - 1 if frame is None else level)


def _is_inside(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE
