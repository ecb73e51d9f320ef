"""The ``.n5`` accessors of xarray's objects.

Modules that write are imported on first use, to keep the import fast for readers.
"""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any, Literal

import xarray as xr

from xarray_n5 import leaves
from xarray_n5.datasets.array_accessor import DataArrayAccessor, show_each
from xarray_n5.model.options import suggest_keywords, suggest_keywords_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    import numpy as np
    from dask.delayed import Delayed
    from numpy.typing import ArrayLike

    from xarray_n5.arrays.spec import Mode
    from xarray_n5.datasets.region import Region
    from xarray_n5.formats import FormatName
    from xarray_n5.leaves import Bounds, Targets, View
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.halos import Blocks
    from xarray_n5.writing.request import Encoding, PartialChunks
    from xarray_n5.writing.transaction import Transaction


@xr.register_dataset_accessor("n5")  # type: ignore[no-untyped-call]
@suggest_keywords
class DatasetAccessor:
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

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        """Show the geometry of each variable."""
        return show_each({"": self._dataset})

    def _repr_html_(self) -> str:
        return show_each({"": self._dataset}, html=True)

    @property
    def geometry(self) -> Mapping[str, Geometry]:
        """The geometry of each data variable by name.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
        >>> image.to_dataset().n5.geometry["raw"].axes[1].scale
        2.0
        """
        return {
            str(name): DataArrayAccessor(array).geometry
            for name, array in self._dataset.data_vars.items()
        }

    def to_world(self, points: ArrayLike, system: str | None = None) -> np.ndarray:
        """Return the physical coordinates of samples.

        Views of a project are placed by their affine matrices, others by their coordinates.

        Parameters
        ----------
        points : array_like
            Positions of samples along z, y, x, which need not be whole numbers: an array of shape
            (..., 3). Crops and strides are taken into account.
        system : str, optional
            Another coordinate system of a scene, or of an image of OME-Zarr 0.6, by its name in
            ``encoding["coordinate_systems"]`` of the array as it was opened. Two-dimensional images
            have positions along y, x.

        Returns
        -------
        numpy.ndarray
            Coordinates along z, y, x in the unit of the coordinates, of shape (..., 3) and type
            float64. The dimensions of views, such as t and setup, come first; select a view for its
            own alone.

        Raises
        ------
        ValueError
            If there is neither an affine matrix nor coordinates, or not this `system`.

        Examples
        --------
        >>> z, y, x = (xr.Variable(dim, 10.0 + 2 * np.arange(4), {"units": "um"}) for dim in "zyx")
        >>> image = xr.DataArray(np.ones((4, 4, 4)), {"z": z, "y": y, "x": x}, list("zyx"))
        >>> image.to_dataset(name="raw").n5.to_world([0, 0, 1.5])
        array([10., 10., 13.])
        """
        from xarray_n5.datasets.world import to_world

        return to_world(self._dataset, points, system)

    def from_world(self, points: ArrayLike, system: str | None = None) -> np.ndarray:
        """Return the positions of samples at physical coordinates: the inverse of `to_world`.

        Parameters
        ----------
        points : array_like
            Coordinates along z, y, x, in the unit of the coordinates: an array of shape (..., 3).
        system : str, optional
            The coordinate system of these coordinates, as in `to_world`.

        Returns
        -------
        numpy.ndarray
            Positions of samples along z, y, x, of shape (..., 3) and type float64, the dimensions
            of views first.

        Raises
        ------
        ValueError
            If there is neither an affine matrix nor coordinates, or not this `system`, or a matrix
            cannot be inverted.

        Examples
        --------
        >>> z, y, x = (xr.Variable(dim, 10.0 + 2 * np.arange(4), {"units": "um"}) for dim in "zyx")
        >>> image = xr.DataArray(np.ones((4, 4, 4)), {"z": z, "y": y, "x": x}, list("zyx"))
        >>> image.to_dataset(name="raw").n5.from_world([10.0, 10.0, 13.0])
        array([0. , 0. , 1.5])
        """
        from xarray_n5.datasets.world import from_world

        return from_world(self._dataset, points, system)

    def crop(
        self,
        pad: bool = False,
        fill_value: complex | None = None,
        **bounds: Bounds,
    ) -> xr.Dataset:
        """Return the samples in a box of physical coordinates: ``ds.n5.crop(z=(100, 220))``.

        See :meth:`DataArrayAccessor.crop`. Variables without these dimensions are kept, and the
        matrices of views still apply.

        Parameters
        ----------
        pad : bool, default: False
            Whether to continue the arrays beyond its ends to cover the whole box: by its own
            steps, in samples that are computed, not read.
        fill_value : scalar, optional
            With `pad`, the value of these samples; by default NaN for floats and 0 for others.
        **bounds : tuple of float or str
            The two ends by dimension, both included, in the unit of the coordinates: ``z=(100,
            220)``. A string may have another unit, as in ``z=("90 nm", "0.2 um")``; None is the
            end of the axis.

        Returns
        -------
        xarray.Dataset
            The samples whose coordinates are in the box, up to rounding; none if there are none.

        Raises
        ------
        ValueError
            If a dimension does not exist or has no coordinates, a unit cannot be converted, or
            `pad` needs evenly spaced coordinates.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray([5, 6, 7], dims="x", coords={"x": x}, name="raw")
        >>> image.to_dataset().n5.crop(x=(2, 4)).raw.values
        array([6, 7])
        """
        return leaves.crop(self._dataset, bounds, pad=pad, fill_value=fill_value)

    def interp(
        self,
        coords: Targets | None = None,
        method: Literal["linear", "nearest"] = "linear",
        *,
        fill_value: complex | None = None,
        chunks: Blocks = None,
        **coords_kwargs: ArrayLike,
    ) -> xr.Dataset:
        """Interpolate on other coordinates: ``ds.n5.interp(z=new_z, y=new_y, x=new_x)``.

        See :meth:`DataArrayAccessor.interp`. Variables without these dimensions are kept. Views of
        a project and images with a matrix are interpolated at world coordinates z, y, x.

        Parameters
        ----------
        coords : mapping, optional
            The coordinates of the result by dimension: numbers, or DataArrays along this dimension
            whose unit is converted. Numbers alone are in the unit of the source.
        method : {"linear", "nearest"}, default: "linear"
            "linear" returns floats; "nearest" keeps the type, as labels need, and takes the lower
            of two equally distant samples.
        fill_value : scalar, optional
            The value beyond the first and the last sample; by default NaN for floats and 0 for
            others.
        chunks : int, str, tuple or mapping, optional
            The blocks of the result; by default about 32 MiB of whole stored chunks, those of
            the target if it has some, or else those of the array.
        **coords_kwargs : array_like
            `coords` as keywords, such as ``z=new_z``.

        Returns
        -------
        xarray.Dataset
            The Dataset on this grid, lazily unless it is in memory.

        Raises
        ------
        MissingPackageError
            If a matrix places the samples, and SciPy is not installed: the extra ``sampling``.
        ValueError
            If a dimension does not exist or has no coordinates, or units cannot be converted.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray([5, 6, 8], dims="x", coords={"x": x}, name="raw")
        >>> image.to_dataset().n5.interp(x=[1.0, 4.0, 5.0]).raw.values
        array([5.5, 8. , nan])
        """
        targets: dict[Any, Any] = {**(coords or {}), **coords_kwargs}
        return leaves.interp(
            self._dataset, targets, method=method, fill_value=fill_value, chunks=chunks
        )

    def interp_like(
        self,
        other: xr.DataArray | xr.Dataset,
        method: Literal["linear", "nearest"] = "linear",
        *,
        fill_value: complex | None = None,
        chunks: Blocks = None,
    ) -> xr.Dataset:
        """Interpolate on the grid of another Dataset or array: ``tile.n5.interp_like(grid)``.

        See :meth:`interp`. Units are converted if they differ.

        Parameters
        ----------
        other : xarray.DataArray or xarray.Dataset
            The grid, of which only the coordinates are used: an image, or what
            :func:`~xarray_n5.world_grid` returns. Dimensions that it lacks are kept.
        method : {"linear", "nearest"}, default: "linear"
            "linear" returns floats; "nearest" keeps the type, as labels need, and takes the lower
            of two equally distant samples.
        fill_value : scalar, optional
            The value beyond the first and the last sample; by default NaN for floats and 0 for
            others.
        chunks : int, str, tuple or mapping, optional
            The blocks of the result; by default about 32 MiB of whole stored chunks, those of
            the target if it has some, or else those of the array.

        Returns
        -------
        xarray.Dataset
            The Dataset on this grid, lazily unless it is in memory.

        Raises
        ------
        MissingPackageError
            If a matrix places the samples, and SciPy is not installed: the extra ``sampling``.
        ValueError
            If a shared dimension has no coordinates, or units cannot be converted.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray([5, 6, 8], dims="x", coords={"x": x}, name="raw")
        >>> grid = xr.DataArray(np.zeros(2), dims="x", coords={"x": ("x", [1000.0, 3000.0])})
        >>> grid.x.attrs["units"] = "nm"
        >>> image.to_dataset().n5.interp_like(grid).raw.values
        array([5.5, 7. ])
        """
        return leaves.interp_like(
            self._dataset, other, method=method, fill_value=fill_value, chunks=chunks
        )

    @suggest_keywords_of(encoding="encoding={variable: ...}")
    def to_n5(
        self,
        url: object,
        group: str | None = None,
        mode: Mode = "w-",
        encoding: Encoding | None = None,
        compute: bool = True,
        append_dim: str | None = None,
        region: Region | None = None,
        *,
        align_chunks: bool = True,
        partial_chunks: PartialChunks = "error",
        write_empty_chunks: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        dialect: str | Iterable[str] | None = None,
        format: FormatName | None = None,  # noqa: A002
        resume: bool | str = False,
        checksums: bool = False,
        batch_size: int | None = None,
        fsync: bool = False,
        consolidated: bool | None = None,
    ) -> xr.DataTree | Delayed:
        """Store the Dataset: each variable as an array of a group, all of them in one computation.

        ``xr.open_dataset(url, engine="n5", group=group)`` returns an identical Dataset; so does
        ``xr.open_zarr`` for Zarr (with the attribute `multiscales`, if OME-NGFF is written). In N5,
        times, masks, scales, booleans and strings are encoded as xarray does for netCDF.
        Coordinates that a scale and an offset give exactly are written to the axes of the
        variables, where every reader of N5 finds them; others become arrays.

        Parameters
        ----------
        url : str, os.PathLike or store
            The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a
            pair of an fsspec filesystem and a path, or a store.
        group : str, optional
            The path of the group, which is created; by default the root of the container.
        mode : {"w-", "w", "a", "r+"}, default: "w-"
            "w-" raises if the group is not empty; "w" replaces its arrays and attributes; "a" adds
            to them, and replaces arrays of the same names; "r+" writes new values into existing
            arrays, and changes nothing else.
        encoding : mapping, optional
            By variable: "chunks" (a shape, one side, "auto"), "shards" (likewise, in Zarr v3),
            "compression", "layout" (as in :func:`~xarray_n5.create_array`), and the encodings of
            xarray's coders, such as "dtype", "scale_factor", "_FillValue", "units", "calendar". By
            default those with which it was opened.
        compute : bool, default: True
            Whether to compute Dask arrays now; metadata, and variables in memory, are written at
            once. Deferred data reads as fill values, and is revoked where `region` writes first.
        append_dim : str, optional
            Append along this dimension: every array that has it grows, and only the new part is
            written, in the existing encoding.
        region : mapping or "auto", optional
            Write into a part of the existing arrays: a slice for each dimension, or "auto" to find
            the part by its coordinates. Drop variables without these dimensions first.
        align_chunks : bool, default: True
            Whether blocks may be merged or split on the stored grid, so that one task writes each
            chunk.
        partial_chunks : {"error", "merge"}, default: "error"
            "error" refuses a region whose edges cut stored chunks, except at the end of the array:
            another process may be writing the rest of such a chunk. "merge" reads these chunks,
            merges and replaces them, each by one task; no other write of the same chunks may run
            meanwhile.
        write_empty_chunks : bool, default: True
            Whether to store chunks that hold nothing but zeros. Where Zarr defines no fill value,
            all are stored.
        storage_options : mapping, optional
            Options of the fsspec filesystem, such as credentials.
        dialect : str or iterable of str, optional
            The metadata dialects that describe the axes; by default those that TensorStore,
            Neuroglancer and Fiji read. In Zarr, where coordinates are arrays, "ngff" also describes
            images on their group, and in Zarr v3 "ngff-0.6" in version 0.6: images with a
            coordinate `affine` become a scene.
        format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
            The format of the container; by default that of an existing container. For a new one, it
            is guessed from the suffix (``.zarr``, ``.h5``); otherwise N5.
        resume : bool or str, default: False
            Resume an interrupted write, of all variables together: blocks whose chunks have been
            written are not computed again. See :func:`~xarray_n5.to_n5`.
        checksums : bool, default: False
            Whether to store a digest of each chunk next to the data, for :func:`~xarray_n5.verify`.
        batch_size : int, optional
            The number of blocks that are submitted to the scheduler at a time; fewer need less
            memory there and in this process. By default jobs of more than 50,000 blocks are divided
            into batches of 10,000, if their graph can be divided.
        fsync : bool, default: False
            Whether to flush each chunk to disk before the next, so that it survives a power cut.
        consolidated : bool, optional
            Whether to write consolidated metadata, as in ``Dataset.to_zarr``. By default in Zarr
            v2, unless `region` or ``mode="r+"`` is given. Existing consolidated metadata is updated
            in any case.

        Returns
        -------
        xarray.DataTree or Delayed
            The report of :func:`~xarray_n5.to_n5` for each variable; with ``compute=False``, a
            Delayed that computes to it.

        Raises
        ------
        AlignmentError
            If `region` cuts stored chunks, and `partial_chunks` is "error".
        MetadataError
            If the format cannot hold something, such as complex numbers. Nothing was written.
        NodeExistsError
            If something exists that `mode` does not allow to replace.
        ResumeError
            If the unfinished write is another one than that to `resume`.
        ValueError
            If options exclude each other, or values do not fit the existing arrays.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
        >>> ds = xr.Dataset({"raw": image, "labels": image.astype("uint8")})
        >>> reports = ds.n5.to_n5("cells.n5", encoding={"raw": {"compression": "zstd"}})
        >>> xr.open_dataset("cells.n5", engine="n5").identical(ds)
        True

        Append to a time series:

        >>> frame = xr.Dataset({"raw": (("time", "x"), np.ones((1, 3)))}, {"time": [0.0]})
        >>> _ = frame.n5.to_n5("series.n5")
        >>> _ = frame.assign_coords(time=[1.0]).n5.to_n5("series.n5", append_dim="time")
        >>> xr.open_dataset("series.n5", engine="n5").sizes["time"]
        2
        """
        from xarray_n5.datasets.append import update
        from xarray_n5.datasets.write import write
        from xarray_n5.writing.request import WriteOptions

        how = WriteOptions.into(
            url,
            mode=mode,
            storage_options=storage_options,
            format=format,
            computed=compute,
            dialect=dialect,
            align_chunks=align_chunks,
            partial_chunks=partial_chunks,
            write_empty_chunks=write_empty_chunks,
            resume=resume,
            checksums=checksums,
            batch_size=batch_size,
            fsync=fsync,
            consolidated=consolidated,
        )
        path = how.path(group or "")
        if append_dim is None and region is None and mode != "r+":
            return _finish(write([(self._dataset, path, encoding)], how), compute=compute)
        if encoding or mode == "w" or (append_dim is not None and region is not None):
            raise ValueError(
                "append_dim, region and mode='r+' write into existing arrays: they exclude "
                "encoding, mode='w' and each other"
            )
        if append_dim is not None and mode == "r+":
            raise ValueError("append_dim makes arrays larger, which mode='r+' does not; use 'a'")
        transaction = update(self._dataset, path, how, append_dim=append_dim, region=region)
        return _finish(transaction, compute=compute)

    @property
    def to_bdv(self) -> Callable[..., xr.DataTree | Delayed]:
        """Store the Dataset as a project of BigDataViewer: ``ds.n5.to_bdv("dataset.xml")``.

        Its parameters are those of :func:`xarray_n5_bdv.to_bdv` after the first.

        Examples
        --------
        >>> ds = xr.Dataset({"raw": (("z", "y", "x"), np.ones((4, 8, 8)))})
        >>> report = ds.n5.to_bdv("dataset.xml")
        >>> xr.open_datatree("dataset.xml", engine="bdv")["s0/dataset"].shape
        (1, 1, 4, 8, 8)
        """
        return MethodType(leaves.to_bdv, self._dataset)

    def digest(self) -> str:
        """Return a digest of the data variables, as :func:`xarray_n5.digest` does of a group.

        It is that of their names and values, as they are here: decoding by CF conventions changes
        types and values, so open with ``mask_and_scale=False`` to compare with a stored group.
        Coordinates and attributes are not part of it.

        Returns
        -------
        str
            ``"n5d1:"`` and 32 hexadecimal digits.

        Examples
        --------
        >>> ds = xr.Dataset({"raw": (("y", "x"), np.ones((2, 3)))})
        >>> _ = ds.n5.to_n5("cells.n5")
        >>> ds.n5.digest() == xarray_n5.digest("cells.n5")
        True
        """
        from xarray_n5.dask.value_digest import digests_of
        from xarray_n5.datasets.lazy import in_blocks
        from xarray_n5.model.value_sums import group_digest

        variables = self._dataset.data_vars.items()
        return group_digest(digests_of({str(name): in_blocks(each) for name, each in variables}))

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
        return leaves.view(self._dataset, labels=labels, open=open, address=address, port=port)


@xr.register_datatree_accessor("n5")  # type: ignore[no-untyped-call]
@suggest_keywords
class DataTreeAccessor:
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

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

    def __repr__(self) -> str:
        """Show the geometry of each variable in the tree."""
        return show_each({node.path: node.dataset for node in self._tree.subtree})

    def _repr_html_(self) -> str:
        return show_each({node.path: node.dataset for node in self._tree.subtree}, html=True)

    def crop(
        self,
        pad: bool = False,
        fill_value: complex | None = None,
        **bounds: Bounds,
    ) -> xr.DataTree:
        """Return the samples of all levels in a box: ``tree.n5.crop(z=(100, 220))``.

        See :meth:`DataArrayAccessor.crop`. Each Dataset is cropped by its own coordinates; those
        without one of the dimensions are not cropped along it.

        Parameters
        ----------
        pad : bool, default: False
            Whether to continue the arrays beyond its ends to cover the whole box: by its own
            steps, in samples that are computed, not read.
        fill_value : scalar, optional
            With `pad`, the value of these samples; by default NaN for floats and 0 for others.
        **bounds : tuple of float or str
            The two ends by dimension, both included, in the unit of the coordinates: ``z=(100,
            220)``. A string may have another unit, as in ``z=("90 nm", "0.2 um")``; None is the
            end of the axis.

        Returns
        -------
        xarray.DataTree
            The samples whose coordinates are in the box, up to rounding; none if there are none.

        Raises
        ------
        ValueError
            If a dimension does not exist or has no coordinates, a unit cannot be converted, or
            `pad` needs evenly spaced coordinates.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray([5, 6, 7], dims="x", coords={"x": x}, name="raw")
        >>> levels = {"s0": image.to_dataset(), "s1": image[::2].to_dataset()}
        >>> cropped = xr.DataTree.from_dict(levels).n5.crop(x=(2, 4))
        >>> cropped["s0/raw"].values, cropped["s1/raw"].values
        (array([6, 7]), array([7]))
        """
        return leaves.crop_tree(self._tree, bounds, pad=pad, fill_value=fill_value)

    def interp(
        self,
        coords: Targets | None = None,
        method: Literal["linear", "nearest"] = "linear",
        *,
        fill_value: complex | None = None,
        chunks: Blocks = None,
        level: int | str | None = None,
        **coords_kwargs: ArrayLike,
    ) -> xr.Dataset:
        """Interpolate a level of a pyramid on other coordinates: ``tree.n5.interp(z=new_z)``.

        See :meth:`DatasetAccessor.interp`. The tree is a pyramid, whose children are its levels.

        Parameters
        ----------
        coords : mapping, optional
            The coordinates of the result by dimension: numbers, or DataArrays along this dimension
            whose unit is converted. Numbers alone are in the unit of the source.
        method : {"linear", "nearest"}, default: "linear"
            "linear" returns floats; "nearest" keeps the type, as labels need, and takes the lower
            of two equally distant samples.
        fill_value : scalar, optional
            The value beyond the first and the last sample; by default NaN for floats and 0 for
            others.
        chunks : int, str, tuple or mapping, optional
            The blocks of the result; by default about 32 MiB of whole stored chunks, those of
            the target if it has some, or else those of the array.
        level : int or str, optional
            The level, by number or name; by default the coarsest whose samples are no farther apart
            than those of the target.
        **coords_kwargs : array_like
            `coords` as keywords, such as ``z=new_z``.

        Returns
        -------
        xarray.Dataset
            The level on this grid, lazily unless it is in memory.

        Raises
        ------
        MissingPackageError
            If a matrix places the samples, and SciPy is not installed: the extra ``sampling``.
        ValueError
            If a dimension does not exist or has no coordinates, or units cannot be converted.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray([5, 6, 8], dims="x", coords={"x": x}, name="raw")
        >>> levels = {"s0": image.to_dataset(), "s1": image[::2].to_dataset()}
        >>> tree = xr.DataTree.from_dict(levels)
        >>> tree.n5.interp(x=[1.0, 2.0]).raw.values, tree.n5.interp(x=[0.0, 4.0]).raw.values
        (array([5.5, 6. ]), array([5., 8.]))
        """
        targets: dict[Any, Any] = {**(coords or {}), **coords_kwargs}
        return leaves.interp_level(
            self._tree, targets, level, method=method, fill_value=fill_value, chunks=chunks
        )

    def interp_like(
        self,
        other: xr.DataArray | xr.Dataset,
        method: Literal["linear", "nearest"] = "linear",
        *,
        fill_value: complex | None = None,
        chunks: Blocks = None,
        level: int | str | None = None,
    ) -> xr.Dataset:
        """Interpolate a level of a pyramid on another grid: ``tree.n5.interp_like(raw)``.

        See :meth:`interp`. Units are converted if they differ.

        Parameters
        ----------
        other : xarray.DataArray or xarray.Dataset
            The grid, of which only the coordinates are used: an image, or what
            :func:`~xarray_n5.world_grid` returns. Dimensions that it lacks are kept.
        method : {"linear", "nearest"}, default: "linear"
            "linear" returns floats; "nearest" keeps the type, as labels need, and takes the lower
            of two equally distant samples.
        fill_value : scalar, optional
            The value beyond the first and the last sample; by default NaN for floats and 0 for
            others.
        chunks : int, str, tuple or mapping, optional
            The blocks of the result; by default about 32 MiB of whole stored chunks, those of
            the target if it has some, or else those of the array.
        level : int or str, optional
            The level, by number or name; by default the coarsest whose samples are no farther apart
            than those of the target.

        Returns
        -------
        xarray.Dataset
            The level on this grid, lazily unless it is in memory.

        Raises
        ------
        MissingPackageError
            If a matrix places the samples, and SciPy is not installed: the extra ``sampling``.
        ValueError
            If a shared dimension has no coordinates, or units cannot be converted.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray([5, 6, 8], dims="x", coords={"x": x}, name="raw")
        >>> grid = xr.DataArray(np.zeros(2), dims="x", coords={"x": ("x", [1000.0, 3000.0])})
        >>> grid.x.attrs["units"] = "nm"
        >>> tree = xr.DataTree.from_dict({"s0": image.to_dataset()})
        >>> tree.n5.interp_like(grid).raw.values
        array([5.5, 7. ])
        """
        return leaves.interp_level_like(
            self._tree, other, level, method=method, fill_value=fill_value, chunks=chunks
        )

    @suggest_keywords_of(encoding="encoding={path: {variable: ...}}")
    def to_n5(
        self,
        url: object,
        group: str | None = None,
        mode: Mode = "w-",
        encoding: Mapping[str, Encoding] | None = None,
        compute: bool = True,
        *,
        align_chunks: bool = True,
        write_empty_chunks: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        dialect: str | Iterable[str] | None = None,
        format: FormatName | None = None,  # noqa: A002
        resume: bool | str = False,
        checksums: bool = False,
        batch_size: int | None = None,
        fsync: bool = False,
        consolidated: bool | None = None,
    ) -> xr.DataTree | Delayed:
        """Store the tree: each node as a group, all data in one computation.

        A node whose children are the levels of a pyramid, ``s0``, ``s1``, ..., becomes a group with
        an array for each level, and with the metadata of :func:`~xarray_n5.pyramid`. Each level has
        one variable, with the same name, type and dimensions, and evenly spaced coordinates.

        Parameters
        ----------
        url : str, os.PathLike or store
            The container: a path, an fsspec URL, an ``os.PathLike``, a UPath, an fsspec mapper, a
            pair of an fsspec filesystem and a path, or a store.
        group : str, optional
            The path of the group, which is created; by default the root of the container.
        mode : {"w-", "w", "a", "r+"}, default: "w-"
            "w-" raises if the group is not empty; "w" replaces its arrays and attributes; "a" adds
            to them, and replaces arrays of the same names; "r+" writes new values into existing
            arrays, and changes nothing else. Each node is treated by itself; other groups stay.
        encoding : mapping, optional
            By the path of a node, such as ``"/"`` and ``"/a/b"``, and by variable: "chunks" (a
            shape, one side, "auto"), "shards" (likewise, in Zarr v3), "compression", "layout" (as
            in :func:`~xarray_n5.create_array`), and the encodings of xarray's coders, such as
            "dtype" and "units". By default those with which it was opened.
        compute : bool, default: True
            Whether to compute Dask arrays now; metadata, and variables in memory, are written at
            once. Deferred data reads as fill values.
        align_chunks : bool, default: True
            Whether blocks may be merged or split on the stored grid, so that one task writes each
            chunk.
        write_empty_chunks : bool, default: True
            Whether to store chunks that hold nothing but zeros. Where Zarr defines no fill value,
            all are stored.
        storage_options : mapping, optional
            Options of the fsspec filesystem, such as credentials.
        dialect : str or iterable of str, optional
            The metadata dialects that describe the axes; by default those that TensorStore,
            Neuroglancer and Fiji read. In Zarr, where coordinates are arrays, "ngff" also describes
            images on their group, and in Zarr v3 "ngff-0.6" in version 0.6: images with a
            coordinate `affine` become a scene.
        format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
            The format of the container; by default that of an existing container. For a new one, it
            is guessed from the suffix (``.zarr``, ``.h5``); otherwise N5.
        resume : bool or str, default: False
            Resume an interrupted write, of all variables together: blocks whose chunks have been
            written are not computed again. See :func:`~xarray_n5.to_n5`.
        checksums : bool, default: False
            Whether to store a digest of each chunk next to the data, for :func:`~xarray_n5.verify`.
        batch_size : int, optional
            The number of blocks that are submitted to the scheduler at a time; fewer need less
            memory there and in this process. By default jobs of more than 50,000 blocks are divided
            into batches of 10,000, if their graph can be divided.
        fsync : bool, default: False
            Whether to flush each chunk to disk before the next, so that it survives a power cut.
        consolidated : bool, optional
            Whether to write consolidated metadata, as in ``Dataset.to_zarr``. By default in Zarr
            v2, unless ``mode="r+"`` is given. Existing consolidated metadata is updated in any
            case.

        Returns
        -------
        xarray.DataTree or Delayed
            The report of :func:`~xarray_n5.to_n5` for each variable; with ``compute=False``, a
            Delayed that computes to it.

        Raises
        ------
        KeyError
            If an encoding is for a node that does not exist.
        MetadataError
            If the format cannot hold something, such as complex numbers. Nothing was written.
        NodeExistsError
            If something exists that `mode` does not allow to replace.
        ResumeError
            If the unfinished write is another one than that to `resume`.
        ValueError
            If options exclude each other, or values do not fit the existing arrays.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
        >>> tree = xr.DataTree.from_dict({"em": image.to_dataset(), "lm": image.to_dataset()})
        >>> reports = tree.n5.to_n5("cells.n5", encoding={"/em": {"raw": {"chunks": (2, 2)}}})
        >>> xr.open_datatree("cells.n5", engine="n5")["em/raw"].shape
        (2, 3)
        """
        from xarray_n5.datasets.append import update
        from xarray_n5.datasets.write import write
        from xarray_n5.images.tree import groups_of, updates_of
        from xarray_n5.writing.request import WriteOptions
        from xarray_n5.writing.transaction import compute_each, join_reports

        encodings = dict(encoding or {})
        if missing := encodings.keys() - set(self._tree.groups):
            raise KeyError(
                f"the encoding has {sorted(missing)}; expected some of {self._tree.groups}"
            )
        how = WriteOptions.into(
            url,
            mode=mode,
            storage_options=storage_options,
            format=format,
            computed=compute,
            dialect=dialect,
            align_chunks=align_chunks,
            write_empty_chunks=write_empty_chunks,
            resume=resume,
            checksums=checksums,
            batch_size=batch_size,
            fsync=fsync,
            consolidated=consolidated,
        )
        nodes = groups_of(self._tree, how.path(group or ""), encodings, how)
        if mode != "r+":
            return _finish(write(nodes, how), compute=compute)
        if encodings:
            raise ValueError(
                "mode='r+' writes to existing arrays, whose encoding cannot be changed"
            )
        root = nodes[0][1]
        each = [
            (path.removeprefix(root).strip("/"), update(own, path, how, names=names))
            for own, path, names in updates_of(nodes)
        ]
        if not compute:
            return compute_each(each)
        return join_reports([path for path, _ in each], [write.compute() for _, write in each])

    @property
    def to_bdv(self) -> Callable[..., xr.DataTree | Delayed]:
        """Store the tree as a project of BigDataViewer: ``tree.n5.to_bdv("dataset.xml")``.

        Its parameters are those of :func:`xarray_n5_bdv.to_bdv` after the first.

        Examples
        --------
        >>> ds = xr.Dataset({"raw": (("z", "y", "x"), np.ones((4, 8, 8)))})
        >>> tree = xr.DataTree.from_dict({"s0": ds})
        >>> report = tree.n5.to_bdv("dataset.xml")
        >>> xr.open_datatree("dataset.xml", engine="bdv")["s0/dataset"].shape
        (1, 1, 4, 8, 8)
        """
        return MethodType(leaves.to_bdv, self._tree)

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
        return leaves.view(self._tree, labels=labels, open=open, address=address, port=port)


def _finish(transaction: Transaction, *, compute: bool) -> xr.DataTree | Delayed:
    return transaction.compute() if compute else transaction.delayed()
