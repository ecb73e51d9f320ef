"""Warnings that point at the line of the user's code that caused them."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from typing import TYPE_CHECKING

from xarray_n5.errors import N5Error
from xarray_n5.errors import message as safe_message

if TYPE_CHECKING:
    from types import FrameType

ODD = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Errors from reading invalid values, which are ignored with a warning."""

REFUSED = (N5Error, OSError, NotImplementedError)
"""Errors of stores whose server, or system, refuses or cannot do what is asked."""

_INSIDE = re.compile(r"(xarray_n5\w*|xarray|dask)(\.|$)")
"""Names of modules whose lines are not the user's."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the user's line, with control characters in the message escaped.

    That of a task on a cluster is also shown to the client.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_inside(frame):
        frame, level = frame.f_back, level + 1
    level = level - 1 if frame is None else level
    show = getattr(sys.modules.get("distributed"), "warn", warnings.warn)
    show(safe_message(message), category, stacklevel=level)


def _is_inside(frame: FrameType) -> bool:
    return _INSIDE.match(str(frame.f_globals.get("__name__"))) is not None
