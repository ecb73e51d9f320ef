"""The ``.n5`` accessor of DataTrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import xarray as xr

from xarray_n5.accessors.images import Accessor, show_each

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dask.delayed import Delayed
    from numpy.typing import ArrayLike

    from xarray_n5.arrays.spec import Mode
    from xarray_n5.formats import FormatName
    from xarray_n5.images.select import LevelChoice
    from xarray_n5.model.halos import Blocks
    from xarray_n5.sampling.placement import Targets
    from xarray_n5.writing.options import Encoding


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

    def __repr__(self) -> str:
        """Show the geometry of each variable in the tree."""
        return show_each({node.path: node.dataset for node in self._object.subtree})

    def _repr_html_(self) -> str:
        return show_each({node.path: node.dataset for node in self._object.subtree}, html=True)

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
        from xarray_n5.sampling.api import interp, level_for

        targets: dict[Any, Any] = {**(coords or {}), **coords_kwargs}
        dataset = level_for(self._object, targets, level)
        return interp(dataset, targets, method=method, fill_value=fill_value, chunks=chunks)

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
        from xarray_n5.sampling.api import interp_like, level_for

        dataset = level_for(self._object, other, level)
        return interp_like(dataset, other, method=method, fill_value=fill_value, chunks=chunks)

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
            Neuroglancer and Fiji read. In Zarr, where coordinates are arrays, only pyramids
            and scenes have one: with "ngff-0.6", images with a coordinate `affine` become a scene
            of OME-Zarr. For other images of OME-Zarr, see :func:`~xarray_n5.pyramid`.
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
        from xarray_n5.datasets.update import update
        from xarray_n5.datasets.write import write
        from xarray_n5.images.tree import groups_of, updates_of
        from xarray_n5.writing.group import write_groups
        from xarray_n5.writing.options import WriteOptions

        encodings = dict(encoding or {})
        if missing := encodings.keys() - set(self._object.groups):
            raise KeyError(
                f"the encoding has {sorted(missing)}; expected some of {self._object.groups}"
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
        nodes = groups_of(self._object, how.path(group or ""), encodings, how)
        if mode != "r+":
            return write(nodes, how).write()
        if encodings:
            raise ValueError(
                "mode='r+' writes to existing arrays, whose encoding cannot be changed"
            )
        root = nodes[0][1]
        writes = [
            (path.removeprefix(root).strip("/"), update(own, path, how, names=names))
            for own, path, names in updates_of(nodes)
        ]
        return write_groups(writes, how)
