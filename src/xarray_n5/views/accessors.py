"""The ``.n5`` accessors as they are registered: with `view`, imported when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from xarray_n5.datasets.accessor import DatasetAccessor, DataTreeAccessor
from xarray_n5.datasets.array_accessor import DataArrayAccessor
from xarray_n5.model.keywords import suggest_keywords

if TYPE_CHECKING:
    from collections.abc import Collection

    from xarray_n5.views.neuroglancer.api import View


@xr.register_dataarray_accessor("n5")  # type: ignore[no-untyped-call]
@suggest_keywords
class ViewedDataArray(DataArrayAccessor):
    """The geometry of a DataArray, storing it, and looking at it."""

    def view(
        self,
        *,
        labels: bool | None = None,
        open: bool = False,  # noqa: A002
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> View:
        """Show the DataArray in Neuroglancer; see :func:`xarray_n5.view`."""
        from xarray_n5.views.neuroglancer.api import view

        return view(self._array, labels=labels, open=open, address=address, port=port)


@xr.register_dataset_accessor("n5")  # type: ignore[no-untyped-call]
@suggest_keywords
class ViewedDataset(DatasetAccessor):
    """The geometry of a Dataset, storing it, and looking at it."""

    def view(
        self,
        *,
        labels: bool | Collection[str] | None = None,
        open: bool = False,  # noqa: A002
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> View:
        """Show the variables in Neuroglancer, as layers; see :func:`xarray_n5.view`."""
        from xarray_n5.views.neuroglancer.api import view

        return view(self._dataset, labels=labels, open=open, address=address, port=port)


@xr.register_datatree_accessor("n5")  # type: ignore[no-untyped-call]
@suggest_keywords
class ViewedDataTree(DataTreeAccessor):
    """Storing a DataTree, and looking at it."""

    def view(
        self,
        *,
        labels: bool | Collection[str] | None = None,
        open: bool = False,  # noqa: A002
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> View:
        """Show all images of the tree in Neuroglancer, pyramids at all their levels.

        See :func:`xarray_n5.view`.
        """
        from xarray_n5.views.neuroglancer.api import view

        return view(self._tree, labels=labels, open=open, address=address, port=port)
