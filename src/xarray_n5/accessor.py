"""``.n5`` on xarray's objects: what N5 adds to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import xarray as xr

from xarray_n5.coordinates import geometry_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.axes import Geometry


@xr.register_dataarray_accessor("n5")  # type: ignore[no-untyped-call]
class DataArrayAccessor:
    """N5's view of a DataArray.

    >>> image = xr.DataArray([[1, 2]], {"x": ("x", [4.0, 8.0], {"units": "nm"})}, ("y", "x"))
    >>> [(axis.name, axis.unit, axis.scale) for axis in image.n5.geometry.axes]
    [('y', None, None), ('x', 'nm', 4.0)]
    """

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    def __repr__(self) -> str:
        """Show the geometry."""
        return repr(self.geometry)

    @property
    def geometry(self) -> Geometry:
        """The axes as they are now, and which attribute each fact was read from.

        Its ``sources`` are those of the stored array that this one was opened from, if any.
        """
        told = self._array.encoding.get("dialect")
        found = geometry_from(self._array)
        return replace(found, sources=dict(told)) if isinstance(told, dict) else found


@xr.register_dataset_accessor("n5")  # type: ignore[no-untyped-call]
class DatasetAccessor:
    """N5's view of a Dataset."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        """Show the geometry of each variable."""
        return "\n".join(f"{name}: {each!r}" for name, each in self.geometry.items())

    @property
    def geometry(self) -> Mapping[str, Geometry]:
        """The axes of each data variable by name; see :attr:`DataArrayAccessor.geometry`."""
        return {
            str(name): DataArrayAccessor(array).geometry
            for name, array in self._dataset.data_vars.items()
        }
