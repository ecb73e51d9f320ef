"""Reverse lists of axes whose order the user states.

Files do not show the order of most lists: z5py, for example, stores lists as scripts pass them, in
N5 order as well as in C order. The lists of OME-NGFF and Paintera depend on the format.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.dialects.lists import in_c_order

if TYPE_CHECKING:
    from xarray_n5.dialects.protocol import ArrayContext, Dialect
    from xarray_n5.model.metadata import Attributes

_MATRIX = "affineTransform"
"""n5-viewer's matrix, row by row."""


def context_for(dialect: Dialect, node: ArrayContext) -> ArrayContext:
    """Return an array's context with its lists in the order in which a dialect reads them.

    They are reversed if the user states another order. Dialects without ``list_order`` get them
    unchanged.
    """
    expected = getattr(dialect, "list_order", None)
    if node.attribute_order == "auto" or expected is None:
        return node
    if expected == "format":
        expected = "N5" if node.lists_x_first else "C"
    return node if expected == node.attribute_order else _reversed_context(node)


def _reversed_context(node: ArrayContext) -> ArrayContext:
    return replace(
        node,
        attributes=_reversed_attributes(node.attributes),
        parents=tuple(map(_reversed_attributes, node.parents)),
        base=None if node.base is None else _reversed_context(node.base),
    )


def _reversed_attributes(attributes: Attributes) -> dict[str, Any]:
    return {
        key: _reversed_matrix(value) if key == _MATRIX else _reversed(value)
        for key, value in attributes.items()
    }


def _reversed(value: Any) -> Any:
    """Return a list of axes reversed, each of a list of lists, or the one in a resolution."""
    match value:
        case {"dimensions": list(steps)}:
            return {**value, "dimensions": steps[::-1]}
        case [list(), *_] if all(isinstance(item, list) for item in value):
            return [item[::-1] for item in value]
        case list() if not any(isinstance(item, dict) for item in value):
            return value[::-1]
    return value


def _reversed_matrix(value: Any) -> Any:
    """Return the numbers of a matrix for the reverse order of axes; invalid ones unchanged."""
    try:
        numbers = np.array(value, dtype=np.float64)
        ndim = round(((1 + 4 * numbers.size) ** 0.5 - 1) / 2)
        return [number for row in in_c_order(numbers.reshape(ndim, ndim + 1)) for number in row]
    except (TypeError, ValueError, OverflowError):
        return value
