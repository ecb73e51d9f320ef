"""Parse chunk indices in keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.model.grid import Index


def index_of(parts: Sequence[str], ndim: int) -> Index | None:
    """Return the index in the parts of a key, or None if they are not `ndim` numbers.

    >>> index_of(["1", "20"], 2), index_of(["0"], 0), index_of(["01", "2"], 2)
    ((1, 20), (), None)
    """
    if len(parts) != max(1, ndim):
        return None
    if not all(re.fullmatch(r"0|[1-9]\d*", part, re.ASCII) for part in parts):
        return None
    return tuple(map(int, parts)) if ndim else ()
