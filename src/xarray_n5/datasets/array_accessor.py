"""The ``.n5`` accessor of DataArrays."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.repr import as_html, as_text, show_geometry
from xarray_n5.model.keywords import suggest_keywords

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import xarray as xr
    from dask.delayed import Delayed
    from numpy.typing import ArrayLike

    from xarray_n5.model.axes import Geometry

_NAMELESS = "__xarray_dataarray_variable__"
"""xarray's name for the variable of a DataArray without a name."""


@suggest_keywords
class DataArrayAccessor:
    """The geometry of a DataArray, and storing it.

    >>> import xarray as xr
    >>> image = xr.DataArray([[1, 2]], {"x": ("x", [4.0, 8.0], {"units": "nm"})}, ("y", "x"))
    >>> [(axis.name, axis.unit, axis.scale) for axis in image.n5.geometry.axes]
    [('y', None, None), ('x', 'nm', 4.0)]
    """

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    def __repr__(self) -> str:
        """Show the geometry."""
        return as_text(*_facts(self._array))

    def _repr_html_(self) -> str:
        return as_html(*_facts(self._array))

    @property
    def geometry(self) -> Geometry:
        """The axes as they are now.

        Its ``sources`` are those of the stored array that this one was opened from, if any.
        """
        sources = self._array.encoding.get("dialect")
        found = geometry_from(self._array)
        return replace(found, sources=dict(sources)) if isinstance(sources, dict) else found

    def to_world(self, points: ArrayLike) -> np.ndarray:
        """Return where samples lie; see :meth:`DatasetAccessor.to_world`.

        A DataArray has no affine matrices, but coordinates, and origins of views. Where these do
        not say it, as of rotated views, a ValueError names the Dataset.
        """
        return self._dataset().n5.to_world(points)  # type: ignore[no-any-return]

    def from_world(self, points: ArrayLike) -> np.ndarray:
        """Return which samples lie at places: the inverse of :meth:`to_world`."""
        return self._dataset().n5.from_world(points)  # type: ignore[no-any-return]

    def _dataset(self) -> Any:
        name = self._array.name
        return self._array.to_dataset(name=_NAMELESS if name is None else name)

    def to_n5(self, url: object, group: str | None = None, **options: Any) -> xr.DataTree | Delayed:
        """Store the DataArray with its coordinates and attributes, as a Dataset of one variable.

        Parameters are those of :meth:`DatasetAccessor.to_n5`.
        """
        stored: xr.DataTree | Delayed = self._dataset().n5.to_n5(url, group, **options)
        return stored


def show_each(datasets: Mapping[str, xr.Dataset], *, html: bool = False) -> str:
    """Return the geometry of each variable as text or HTML; `datasets` are by their path."""
    show = as_html if html else as_text
    pieces = [
        show(f"{path.rstrip('/')}/{name}".lstrip("/") if path else str(name), _facts(array)[1])
        for path, dataset in datasets.items()
        for name, array in dataset.data_vars.items()
    ]
    return ("" if html else "\n").join(pieces) or "no variables"


def _facts(array: xr.DataArray) -> tuple[str, list[tuple[str, str]]]:
    """Return a title and rows for the geometry, without warnings of irregular coordinates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return show_geometry(DataArrayAccessor(array).geometry)
