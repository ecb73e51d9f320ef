"""An image to write to a project: its views, their levels, and their location."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.writing.request import WriteRequest
    from xarray_n5_bdv.describe import Described
    from xarray_n5_bdv.loaders import View

Requests: TypeAlias = "Callable[[View, int, str, Array | None], WriteRequest]"
"""Returns the write of a view's level at a path, given its finer level, which is planned."""


@dataclass(frozen=True, kw_only=True)
class ViewImage:
    """An image to write to a project."""

    described: Described
    factors: Sequence[tuple[int, ...]]
    """The factors of each level along z, y, x."""
    request: Requests


def path_of(view: View, level: int | None = None) -> str:
    """Return the path of a view, or of its level."""
    path = f"setup{view.setup}/timepoint{view.timepoint}"
    return path if level is None else f"{path}/s{level}"


def level_attributes(factors: Sequence[int]) -> dict[str, Any]:
    """Return the attributes of a level's array."""
    return {"downsamplingFactors": list(factors[::-1])}
