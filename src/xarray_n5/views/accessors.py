"""The registered ``.n5`` accessors, with `view`, which is imported on first use."""

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
    """The geometry of a DataArray, storing it, and looking at it: ``array.n5``.

    Examples
    --------
    >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
    >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
    >>> image.n5
    <xarray_n5.Geometry, 2 axes>
        y  no coordinates
        x  start 0, step 2 µm
    """

    def view(
        self,
        *,
        labels: bool | None = None,
        open: bool = False,  # noqa: A002
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> View:
        """Show the DataArray in Neuroglancer, in a browser or a notebook.

        See :func:`xarray_n5.view` for what is shown.

        Parameters
        ----------
        labels : bool, optional
            Whether the image is a segmentation. By default if its type is uint64, or if Paintera or
            OME-NGFF describe it as labels.
        open : bool, default: False
            Whether to open the viewer in a browser.
        address : str, default: "127.0.0.1"
            The address to serve at; by default this machine alone reaches it.
        port : int, default: 0
            The port to serve at; 0 for a free one.

        Returns
        -------
        View
            The viewer: its `url`, and `stop()`.

        Raises
        ------
        MissingPackageError
            If Neuroglancer is not installed: the extra ``view``.
        ValueError
            If there is nothing to show, or too many layers.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
        >>> shown = image.n5.view()  # doctest: +SKIP
        """
        from xarray_n5.views.neuroglancer.api import view

        return view(self._array, labels=labels, open=open, address=address, port=port)


@xr.register_dataset_accessor("n5")  # type: ignore[no-untyped-call]
@suggest_keywords
class ViewedDataset(DatasetAccessor):
    """The geometry of a Dataset, storing it, and looking at it: ``ds.n5``.

    Examples
    --------
    >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
    >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
    >>> image.to_dataset().n5
    raw
        y  no coordinates
        x  start 0, step 2 µm
    """

    def view(
        self,
        *,
        labels: bool | Collection[str] | None = None,
        open: bool = False,  # noqa: A002
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> View:
        """Show the variables in Neuroglancer, as layers, in a browser or a notebook.

        See :func:`xarray_n5.view` for what is shown.

        Parameters
        ----------
        labels : bool or collection of str, optional
            Whether images are segmentations, or the names of those that are. By default those of
            type uint64, and those that Paintera or OME-NGFF describe as labels.
        open : bool, default: False
            Whether to open the viewer in a browser.
        address : str, default: "127.0.0.1"
            The address to serve at; by default this machine alone reaches it.
        port : int, default: 0
            The port to serve at; 0 for a free one.

        Returns
        -------
        View
            The viewer: its `url`, and `stop()`.

        Raises
        ------
        MissingPackageError
            If Neuroglancer is not installed: the extra ``view``.
        ValueError
            If there is nothing to show, or too many layers.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
        >>> shown = image.to_dataset().n5.view()  # doctest: +SKIP
        """
        from xarray_n5.views.neuroglancer.api import view

        return view(self._dataset, labels=labels, open=open, address=address, port=port)


@xr.register_datatree_accessor("n5")  # type: ignore[no-untyped-call]
@suggest_keywords
class ViewedDataTree(DataTreeAccessor):
    """Storing a DataTree, and looking at it: ``tree.n5``.

    Examples
    --------
    >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
    >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
    >>> xr.DataTree.from_dict({"em": image.to_dataset()}).n5
    em/raw
        y  no coordinates
        x  start 0, step 2 µm
    """

    def view(
        self,
        *,
        labels: bool | Collection[str] | None = None,
        open: bool = False,  # noqa: A002
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> View:
        """Show all images of the tree in Neuroglancer, pyramids at all their levels.

        See :func:`xarray_n5.view` for what is shown.

        Parameters
        ----------
        labels : bool or collection of str, optional
            Whether images are segmentations, or the names of those that are. By default those of
            type uint64, and those that Paintera or OME-NGFF describe as labels.
        open : bool, default: False
            Whether to open the viewer in a browser.
        address : str, default: "127.0.0.1"
            The address to serve at; by default this machine alone reaches it.
        port : int, default: 0
            The port to serve at; 0 for a free one.

        Returns
        -------
        View
            The viewer: its `url`, and `stop()`.

        Raises
        ------
        MissingPackageError
            If Neuroglancer is not installed: the extra ``view``.
        ValueError
            If there is nothing to show, or too many layers.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
        >>> shown = xr.DataTree(image.to_dataset()).n5.view()  # doctest: +SKIP
        """
        from xarray_n5.views.neuroglancer.api import view

        return view(self._tree, labels=labels, open=open, address=address, port=port)
