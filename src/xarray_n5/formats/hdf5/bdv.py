"""Levels of BigDataViewer's HDF5 files, whose factors are in a separate dataset.

Source: bigdataviewer-core, Hdf5ImageLoader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.codecs.hdf5 import check_type, plugins_of
from xarray_n5.model.level_names import level_table_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

_TABLE = 2
"""The number of axes of the dataset with the factors: levels, and x, y, z."""


def level_factors(find: Callable[[str], Any], path: str) -> dict[str, list[float]]:
    """Return the attribute with a level's factors in the order x, y, z; nothing for other nodes.

    `find` returns the node at a path.
    """
    level, table = _resolutions(find, path) or (0, None)
    if table is None or level >= table.shape[0] or table.dtype.kind not in "iuf":
        return {}
    return {"downsamplingFactors": [float(factor) for factor in table[level]]}


def is_unsigned(find: Callable[[str], Any], path: str, dtype: np.dtype[Any]) -> bool:
    """Return whether a dataset stores uint16 as int16, as BigDataViewer does."""
    return dtype.str[1:] == "i2" and _resolutions(find, path) is not None


def _resolutions(find: Callable[[str], Any], path: str) -> tuple[int, Any] | None:
    """Return the number of a level and the dataset with the factors of all, or None."""
    found = level_table_of(path)
    if found is None:
        return None
    table = find(found[0])
    if getattr(table, "ndim", 0) != _TABLE or plugins_of(table):
        return None
    check_type(table.id.get_type())
    return found[1], table
