"""The accessors ``.n5`` of DataArrays, Datasets and DataTrees; the import registers them.

Modules that write are imported on first use, to keep the import fast for readers.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack

import xarray as xr

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.describe import as_html, as_text, geometry_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike

    from xarray_n5.arrays.spec import Mode
    from xarray_n5.boxes.crop import Bounds
    from xarray_n5.boxes.placement import Targets
    from xarray_n5.datasets.region import Region
    from xarray_n5.images.select import LevelChoice
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.halos import Blocks, Boundary, Depth
    from xarray_n5.viewing.api import View
    from xarray_n5.writing.deferred import DeferredWrite
    from xarray_n5.writing.options import Encoding, WriteKeywords
    from xarray_n5.writing.report import WriteReport

_NAMELESS = "__xarray_dataarray_variable__"
"""xarray's name for the variable of a DataArray without a name."""

T = TypeVar("T", xr.DataArray, xr.Dataset, xr.DataTree)
S = TypeVar("S", xr.DataArray, xr.Dataset)


class Accessor(Generic[T]):
    """What DataArrays, Datasets and DataTrees have alike."""

    def __init__(self, of: T) -> None:
        self._object: T = of

    def __repr__(self) -> str:
        """Show the geometry of each variable."""
        return "\n".join(as_text(*facts) for facts in _facts(self._object)) or "no variables"

    def _repr_html_(self) -> str:
        return "".join(as_html(*facts) for facts in _facts(self._object)) or "no variables"

    def crop(
        self,
        bounds: Mapping[str, Bounds] | None = None,
        **bounds_kwargs: Bounds,
    ) -> T:
        """Return the samples in a box of physical coordinates: ``raw.n5.crop(z=(100, 220))``.

        Ends are included, as in :meth:`xarray.DataArray.sel`, and coordinates may descend. Nothing
        is read until the result is computed, and then only what is inside. Variables without these
        dimensions are kept, and the matrices of views still apply. Each Dataset of a tree is
        cropped by its own coordinates.

        Parameters
        ----------
        bounds : mapping, optional
            The two ends by dimension, both included, in the unit of the coordinates: ``z=(100,
            220)``, or a slice. A string may have another unit, as in ``z=("90 nm", "0.2 um")``;
            None is the end of the axis. ``z="90:200 nm"`` and ``z=":0.2 um"`` are short for both.
        **bounds_kwargs : tuple of float or str
            `bounds` as keywords.

        Returns
        -------
        xarray.DataArray, xarray.Dataset or xarray.DataTree
            The samples whose coordinates are in the box, up to rounding. If an array or a Dataset
            has none there, a warning says so.

        Raises
        ------
        ValueError
            If a dimension does not exist or has no coordinates, or a unit cannot be converted.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray([5, 6, 7], dims="x", coords={"x": x}, name="raw")
        >>> image.n5.crop(x=("1500 nm", 4)).values
        array([6, 7])

        All levels of a pyramid:

        >>> levels = {"s0": image.to_dataset(), "s1": image[::2].to_dataset()}
        >>> cropped = xr.DataTree.from_dict(levels).n5.crop(x=(2, 4))
        >>> cropped["s0/raw"].values, cropped["s1/raw"].values
        (array([6, 7]), array([7]))
        """
        from xarray_n5.boxes.crop import crop

        return crop(self._object, {**(bounds or {}), **bounds_kwargs})

    @property
    def to_bdv(self) -> Callable[..., WriteReport | DeferredWrite]:
        """Store as a project of BigDataViewer: ``ds.n5.to_bdv("dataset.xml")``.

        Its parameters are those of :func:`xarray_n5.bdv.to_bdv` after the first.

        Examples
        --------
        >>> ds = xr.Dataset({"raw": (("z", "y", "x"), np.ones((4, 8, 8)))})
        >>> report = ds.n5.to_bdv("dataset.xml")
        >>> xr.open_datatree("dataset.xml", engine="bdv")["s0/dataset"].shape
        (1, 1, 4, 8, 8)
        """
        from xarray_n5.bdv.api import to_bdv

        return MethodType(to_bdv, self._object)

    @property
    def view(self) -> Callable[..., View]:
        """Show all images in Neuroglancer, pyramids at all their levels: ``tree.n5.view()``.

        Its parameters are those of :func:`xarray_n5.view` after the first.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
        >>> shown = xr.DataTree(image.to_dataset()).n5.view()  # doctest: +SKIP
        """
        from xarray_n5.viewing.api import view

        return MethodType(view, self._object)


class _ImageAccessor(Accessor[S]):
    """What DataArrays and Datasets have alike."""

    def _dataset(self) -> xr.Dataset:
        """Return the Dataset, or the DataArray as one."""
        if isinstance(self._object, xr.Dataset):
            return self._object
        name = self._object.name
        return self._object.to_dataset(name=_NAMELESS if name is None else name)

    def to_world(self, points: ArrayLike, system: str | None = None) -> np.ndarray:
        """Return the physical coordinates of samples.

        Views of a project are placed by their affine matrices, others by their coordinates. A
        DataArray has no matrices, but coordinates, and origins of views. If these are not enough,
        as of rotated views, a ValueError names the Dataset.

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
        >>> image.n5.to_world([0, 0, 1.5])
        array([10., 10., 13.])
        """
        from xarray_n5.datasets.world import to_world

        return to_world(self._dataset(), points, system)

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
        >>> image.n5.from_world([10.0, 10.0, 13.0])
        array([0. , 0. , 1.5])
        """
        from xarray_n5.datasets.world import from_world

        return from_world(self._dataset(), points, system)

    def interp(
        self,
        coords: Targets | None = None,
        method: Literal["linear", "nearest"] = "linear",
        *,
        fill_value: complex | Literal["extrapolate"] | None = None,
        chunks: Blocks = None,
        **coords_kwargs: ArrayLike,
    ) -> S:
        """Interpolate on other coordinates: ``raw.n5.interp(z=new_z, y=new_y, x=new_x)``.

        As :meth:`xarray.DataArray.interp`, but each block of the result reads just the box of the
        stored array that it needs, in one task. Arrays in memory are computed at once, variables
        without these dimensions are kept. Views of a project and images with a matrix are
        interpolated at world coordinates z, y, x, by the accessor of their Dataset.

        Parameters
        ----------
        coords : mapping, optional
            The coordinates of the result by dimension: numbers, or DataArrays along this dimension
            whose unit is converted. Numbers alone are in the unit of the source.
        method : {"linear", "nearest"}, default: "linear"
            "linear" returns floats; "nearest" keeps the type, as labels need, and takes the lower
            of two equally distant samples.
        fill_value : scalar or "extrapolate", optional
            The value beyond the first and the last sample; by default NaN for floats and 0 for
            others. "extrapolate", with "nearest", is the sample at the end, as in xarray.
        chunks : int, str, tuple or mapping, optional
            The blocks of the result; by default about 32 MiB of whole stored chunks, those of
            the target if it has some, or else those of the array.
        **coords_kwargs : array_like
            `coords` as keywords, such as ``z=new_z``.

        Returns
        -------
        xarray.DataArray or xarray.Dataset
            The same on this grid, lazily unless it is in memory.

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
        >>> image.n5.interp(x=[1.0, 4.0, 5.0]).values
        array([5.5, 8. , nan])
        """
        from xarray_n5.boxes.api import interp

        targets: dict[Any, Any] = {**(coords or {}), **coords_kwargs}
        return interp(self._object, targets, method=method, fill_value=fill_value, chunks=chunks)

    def interp_like(
        self,
        other: xr.DataArray | xr.Dataset,
        method: Literal["linear", "nearest"] = "linear",
        *,
        fill_value: complex | Literal["extrapolate"] | None = None,
        chunks: Blocks = None,
    ) -> S:
        """Interpolate on the grid of another array: ``labels.n5.interp_like(raw, "nearest")``.

        See :meth:`interp`. Units are converted if they differ. All tiles of a project can be placed
        at once: their dimension is kept.

        Parameters
        ----------
        other : xarray.DataArray or xarray.Dataset
            The grid, of which only the coordinates are used: an image, or what
            :func:`~xarray_n5.world_grid` returns. Dimensions that it lacks are kept.
        method : {"linear", "nearest"}, default: "linear"
            "linear" returns floats; "nearest" keeps the type, as labels need, and takes the lower
            of two equally distant samples.
        fill_value : scalar or "extrapolate", optional
            The value beyond the first and the last sample; by default NaN for floats and 0 for
            others. "extrapolate", with "nearest", is the sample at the end, as in xarray.
        chunks : int, str, tuple or mapping, optional
            The blocks of the result; by default about 32 MiB of whole stored chunks, those of
            the target if it has some, or else those of the array.

        Returns
        -------
        xarray.DataArray or xarray.Dataset
            The same on this grid, lazily unless it is in memory.

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
        >>> image.n5.interp_like(grid).values, image.n5.interp_like(grid, "nearest").values
        (array([5.5, 7. ]), array([5, 6]))
        """
        from xarray_n5.boxes.api import interp_like

        return interp_like(self._object, other, method=method, fill_value=fill_value, chunks=chunks)

    def digest(self) -> str:
        """Return a digest, as :func:`xarray_n5.digest` does of a stored array or group.

        Of a DataArray, it is that of the values; of a Dataset, that of its data variables' names
        and values. They are the values as they are here: decoding by CF conventions changes types
        and values, so open with ``mask_and_scale=False`` to compare with what is stored.
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
        >>> ds.raw.n5.digest() == xarray_n5.digest("cells.n5", "raw")
        True
        """
        from xarray_n5.dask.value_digest import digests_of
        from xarray_n5.datasets.lazy import in_blocks
        from xarray_n5.model.value_sums import group_digest

        if isinstance(self._object, xr.DataArray):
            return digests_of({"": in_blocks(self._object)})[""]
        variables = self._object.data_vars.items()
        return group_digest(digests_of({str(name): in_blocks(array) for name, array in variables}))

    def to_n5(
        self,
        url: object,
        group: str | None = None,
        mode: Mode = "w-",
        encoding: Encoding | None = None,
        compute: bool = True,
        append_dim: str | None = None,
        discard: bool = False,
        region: Region | None = None,
        **options: Unpack[WriteKeywords],
    ) -> WriteReport | DeferredWrite:
        """Store each variable as an array of a group, all of them in one computation.

        ``xr.open_dataset(url, engine="n5", group=group)`` returns an identical Dataset, and
        ``xr.open_dataarray`` the DataArray that was stored; so does ``xr.open_zarr`` for Zarr. In
        N5, times, masks, scales, booleans and strings are encoded as xarray does for netCDF.
        Coordinates of space that a scale and an offset give exactly are written to the axes of the
        variables, where every reader of N5 finds them; others, and those that `encoding` names,
        become arrays. Attributes are JSON, as in xarray's Zarr.

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
            once. Until then, other arrays are templates, which read as fill values.
        append_dim : str, optional
            Append along this dimension: every array that has it grows, and only the new part is
            written, in the existing encoding. One append at a time: others are refused meanwhile.
        discard : bool, default: False
            With `append_dim`, give up an unfinished append of other data, which is not read.
        region : mapping or "auto", optional
            Write into a part of the existing arrays: a slice for each dimension, or "auto" to find
            the part by its coordinates. Drop variables without these dimensions first.
        **options
            Options of the write, all of them optional:

            - `safe_chunks` (bool, True): whether to refuse a region whose edges cut stored chunks,
              except at the end of the array: another process may be writing the rest of such a
              chunk. Otherwise these chunks are read, merged and replaced; no other write of them
              may run meanwhile. Blocks of Dask are always merged or split on the stored grid.
            - `write_empty_chunks` (bool, True): whether to store chunks that hold nothing but
              zeros. Where Zarr defines no fill value, all are stored.
            - `storage_options` (mapping): those of the fsspec filesystem, such as credentials.
            - `dialect` (str or iterable of str): the metadata dialects that describe the axes; by
              default those that TensorStore, Neuroglancer and Fiji read. Zarr has none, as
              coordinates are arrays there: for images of OME-Zarr, see
              :func:`~xarray_n5.pyramid` and :meth:`to_scene`.
            - `format` ("n5", "zarr2", "zarr3" or "hdf5"): by default that of an existing container.
              For a new one, it is guessed from the suffix (``.zarr``, ``.h5``); otherwise N5.
            - `resume` (bool or str, False): resume an interrupted write, of all variables together:
              blocks whose chunks have been written are not computed again. See
              :func:`~xarray_n5.to_n5`.
            - `consolidated` (bool): whether to write consolidated metadata, as in
              ``Dataset.to_zarr``. By default in Zarr, unless `region` or ``mode="r+"`` is given.
              Existing consolidated metadata is updated in any case.

        Returns
        -------
        WriteReport or DeferredWrite
            The report of :func:`~xarray_n5.to_n5`, with an array for each variable; with
            ``compute=False``, a Dask collection that computes to it.

        Raises
        ------
        AlignmentError
            If `region` cuts stored chunks, and `safe_chunks` is True.
        MetadataError
            If the format cannot hold something, such as complex numbers. Nothing was written.
        NodeExistsError
            If something exists that `mode` does not allow to replace.
        FinishedAppendError
            If an append to `resume` had finished before.
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
        from xarray_n5.datasets.append import append
        from xarray_n5.datasets.update import update
        from xarray_n5.datasets.write import write
        from xarray_n5.writing.options import WriteOptions

        dataset = self._dataset()
        how = WriteOptions.into(url, mode=mode, computed=compute, **options)
        path = how.path(group or "")
        if append_dim is None and region is None and mode != "r+":
            return write([(dataset, path, encoding)], how).write()
        if encoding or mode == "w" or (append_dim is not None and region is not None):
            raise ValueError(
                "append_dim, region and mode='r+' write into existing arrays: they exclude "
                "encoding, mode='w' and each other"
            )
        if append_dim is None:
            return update([(dataset, path, None)], path, how, region=region).write()
        if mode == "r+":
            raise ValueError("append_dim makes arrays larger, which mode='r+' does not; use 'a'")
        return append(dataset, path, how, append_dim, discard=discard)


@xr.register_dataarray_accessor("n5")  # type: ignore[no-untyped-call]
class DataArrayAccessor(_ImageAccessor[xr.DataArray]):
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

    @property
    def geometry(self) -> Geometry:
        """The axes as they are now: names, units and evenly spaced coordinates.

        Its ``sources`` are those of the stored array that this one was opened from, if any.

        Examples
        --------
        >>> x = xr.Variable("x", [0.0, 2.0, 4.0], {"units": "um"})
        >>> image = xr.DataArray(np.ones((2, 3)), dims=("y", "x"), coords={"x": x}, name="raw")
        >>> [(axis.name, axis.unit, axis.scale) for axis in image.n5.geometry.axes]
        [('y', None, None), ('x', 'um', 2.0)]
        """
        sources = self._object.encoding.get("dialect")
        geometry = geometry_from(self._object)
        return replace(geometry, sources=dict(sources)) if isinstance(sources, dict) else geometry

    def map_overlap(
        self,
        func: Callable[..., ArrayLike],
        *others: xr.DataArray,
        depth: Depth | list[Depth],
        boundary: Boundary | list[Boundary] = None,
        trim: bool = True,
        chunks: Blocks = None,
        dtype: DTypeLike | None = None,
        meta: np.ndarray | None = None,
        **kwargs: object,
    ) -> xr.DataArray:
        """Apply a function to blocks and the samples around them, lazily.

        ``array.n5.map_overlap(func, *others, ...)`` is :func:`xarray_n5.map_overlap` of `func`,
        this array and others.

        Parameters
        ----------
        func : callable
            The function. It gets a NumPy array of each of the arrays: a block with the samples
            around it. It may take ``block_id`` or ``block_info``.
        *others : xarray.DataArray
            More arrays with the same dimensions, shape and coordinates.
        depth : int, str, tuple, dict or list
            The number of samples around a block, or a distance such as "2 um", or these by
            dimension; a pair is before and after.
        boundary : None, str, number, tuple, dict or list, optional
            Samples beyond the ends of the array: none ("none", the default), "reflect",
            "nearest", "periodic", or a number.
        trim : bool, default: True
            Whether to remove the samples around blocks from the results.
        chunks : int, str, tuple or dict, optional
            The shape of blocks. By default, enough whole stored chunks that less than 1.5 times the
            samples of a block are read.
        dtype : dtype, optional
            The type of the results; by default, `func` is called with a tiny array.
        meta : numpy.ndarray, optional
            An empty array of the type of the results, instead of `dtype`.
        **kwargs
            Further arguments of `func`.

        Returns
        -------
        xarray.DataArray
            The result, lazily, with the coordinates, attributes and chunks of this array.

        Raises
        ------
        ValueError
            If the arrays differ in shape or coordinates, or an argument is invalid.
        NotImplementedError
            If an asymmetric depth has a boundary.

        Examples
        --------
        >>> array = xarray_n5.create_array("a.n5", "raw", shape=(6, 8), dtype="uint8", chunks=2)
        >>> array[2, 3] = 9
        >>> raw = xr.open_dataset("a.n5", engine="n5", group="raw")["raw"]
        >>> shifted = raw.n5.map_overlap(np.roll, depth=1, boundary=0, chunks=4, shift=1, axis=0)
        >>> shifted[3, 3].values
        array(9, dtype=uint8)
        """
        from xarray_n5.boxes.map_overlap import map_overlap

        return map_overlap(
            func,
            self._object,
            *others,
            depth=depth,
            boundary=boundary,
            trim=trim,
            chunks=chunks,
            dtype=dtype,
            meta=meta,
            **kwargs,
        )


@xr.register_dataset_accessor("n5")  # type: ignore[no-untyped-call]
class DatasetAccessor(_ImageAccessor[xr.Dataset]):
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
            for name, array in self._object.data_vars.items()
        }

    @property
    def to_scene(self) -> Callable[..., WriteReport | DeferredWrite]:
        """Store images as a scene of OME-Zarr 0.6: ``images.n5.to_scene("scene.zarr")``.

        ``help(images.n5.to_scene)`` lists its parameters, which are those of
        :func:`xarray_n5.bdv.to_bdv` of the same names.

        Examples
        --------
        >>> affine = np.tile(np.eye(3, 4), (2, 1, 1))
        >>> affine[1, 2, 3] = 6.5
        >>> tiles = xr.Dataset(
        ...     {"raw": (("image", "z", "y", "x"), np.ones((2, 4, 8, 8)))},
        ...     {"image": ["a", "b"], "affine": (("image", "axis", "column"), affine)},
        ... )
        >>> report = tiles.n5.to_scene("tiles.zarr")
        >>> xr.open_dataset("tiles.zarr", engine="n5").affine[1, 2].values
        array([0. , 0. , 1. , 6.5])
        """
        from xarray_n5.scenes.api import to_scene

        return MethodType(to_scene, self._object)


@xr.register_datatree_accessor("n5")  # type: ignore[no-untyped-call]
class DataTreeAccessor(Accessor[xr.DataTree]):
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

    to_scene = DatasetAccessor.to_scene

    def interp(
        self,
        coords: Targets | None = None,
        method: Literal["linear", "nearest"] = "linear",
        *,
        fill_value: complex | Literal["extrapolate"] | None = None,
        chunks: Blocks = None,
        level: LevelChoice | None = None,
        **coords_kwargs: ArrayLike,
    ) -> xr.Dataset:
        """Interpolate a level of a pyramid on other coordinates: ``tree.n5.interp(z=new_z)``.

        As of a Dataset. The tree is a pyramid, whose children are its levels.

        Parameters
        ----------
        coords : mapping, optional
            The coordinates of the result by dimension: numbers, or DataArrays along this dimension
            whose unit is converted. Numbers alone are in the unit of the source.
        method : {"linear", "nearest"}, default: "linear"
            "linear" returns floats; "nearest" keeps the type, as labels need, and takes the lower
            of two equally distant samples.
        fill_value : scalar or "extrapolate", optional
            The value beyond the first and the last sample; by default NaN for floats and 0 for
            others. "extrapolate", with "nearest", is the sample at the end, as in xarray.
        chunks : int, str, tuple or mapping, optional
            The blocks of the result; by default about 32 MiB of whole stored chunks, those of
            the target if it has some, or else those of the array.
        level : int, str or mapping, optional
            The level: its position (-1 is the coarsest), its name, or distances between samples by
            dimension; by default the coarsest whose samples are no farther apart than those of the
            target.
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
        from xarray_n5.boxes.api import interp, level_for

        targets: dict[Any, Any] = {**(coords or {}), **coords_kwargs}
        of = level_for(self._object, targets, level)
        return interp(of, targets, method=method, fill_value=fill_value, chunks=chunks)

    def interp_like(
        self,
        other: xr.DataArray | xr.Dataset,
        method: Literal["linear", "nearest"] = "linear",
        *,
        fill_value: complex | Literal["extrapolate"] | None = None,
        chunks: Blocks = None,
        level: LevelChoice | None = None,
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
        fill_value : scalar or "extrapolate", optional
            The value beyond the first and the last sample; by default NaN for floats and 0 for
            others. "extrapolate", with "nearest", is the sample at the end, as in xarray.
        chunks : int, str, tuple or mapping, optional
            The blocks of the result; by default about 32 MiB of whole stored chunks, those of
            the target if it has some, or else those of the array.
        level : int, str or mapping, optional
            The level: its position (-1 is the coarsest), its name, or distances between samples by
            dimension; by default the coarsest whose samples are no farther apart than those of the
            target.

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
        from xarray_n5.boxes.api import interp_like, level_for

        dataset = level_for(self._object, other, level)
        return interp_like(dataset, other, method=method, fill_value=fill_value, chunks=chunks)

    def to_n5(
        self,
        url: object,
        group: str | None = None,
        mode: Mode = "w-",
        encoding: Mapping[str, Encoding] | None = None,
        compute: bool = True,
        **options: Unpack[WriteKeywords],
    ) -> WriteReport | DeferredWrite:
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
        **options
            The options of ``Dataset.n5.to_n5``, such as `resume`, `format` and `dialect`.

        Returns
        -------
        WriteReport or DeferredWrite
            The report of :func:`~xarray_n5.to_n5`, with an array for each variable; with
            ``compute=False``, a Dask collection that computes to it.

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
        from xarray_n5.datasets.update import update
        from xarray_n5.datasets.write import write
        from xarray_n5.images.tree import groups_of, updates_of
        from xarray_n5.writing.options import WriteOptions

        encodings = dict(encoding or {})
        if missing := encodings.keys() - set(self._object.groups):
            raise KeyError(
                f"the encoding has {sorted(missing)}; expected some of {self._object.groups}"
            )
        how = WriteOptions.into(url, mode=mode, computed=compute, **options)
        nodes = groups_of(self._object, how.path(group or ""), encodings, how)
        if mode != "r+":
            return write(nodes, how).write()
        if encodings:
            raise ValueError(
                "mode='r+' writes to existing arrays, whose encoding cannot be changed"
            )
        return update(updates_of(nodes), nodes[0][1], how).write()


def _arrays_in(of: xr.Dataset | xr.DataTree) -> dict[str, xr.DataArray]:
    """Return the data variables of a Dataset or a tree by their paths."""
    nodes = [of] if isinstance(of, xr.Dataset) else of.subtree
    return {
        f"{getattr(node, 'path', '')}/{name}".lstrip("/"): array
        for node in nodes
        for name, array in node.data_vars.items()
    }


def _facts(of: xr.DataArray | xr.Dataset | xr.DataTree) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return titles, and rows for the geometry, without warnings of irregular coordinates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(of, xr.DataArray):
            geometry = DataArrayAccessor(of).geometry
            return [(f"<xarray_n5.Geometry, {geometry.ndim} axes>", geometry_rows(geometry))]
        return [
            (path, geometry_rows(DataArrayAccessor(array).geometry))
            for path, array in _arrays_in(of).items()
        ]
