"""The ``.n5`` accessors of xarray's objects.

What writes is imported when it is called, so that those who only read need not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.datasets.array_accessor import DataArrayAccessor, show_each
from xarray_n5.model.keywords import suggest_keywords, suggest_keywords_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    import xarray as xr
    from dask.delayed import Delayed
    from numpy.typing import ArrayLike

    from xarray_n5.datasets.encoding import Encoding
    from xarray_n5.datasets.region import Region
    from xarray_n5.model.axes import Geometry
    from xarray_n5.writing.request import Mode, PartialChunks
    from xarray_n5.writing.transaction import Transaction


@suggest_keywords
class DatasetAccessor:
    """The geometry of a Dataset, and storing it."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        """Show the geometry of each variable."""
        return show_each({"": self._dataset})

    def _repr_html_(self) -> str:
        return show_each({"": self._dataset}, html=True)

    @property
    def geometry(self) -> Mapping[str, Geometry]:
        """The geometry of each data variable by name; see :attr:`DataArrayAccessor.geometry`."""
        return {
            str(name): DataArrayAccessor(array).geometry
            for name, array in self._dataset.data_vars.items()
        }

    def to_world(self, points: ArrayLike) -> np.ndarray:
        """Return where samples lie: the places of views by their affine matrices.

        Parameters
        ----------
        points
            Positions of samples in this Dataset along z, y, x, which need not be whole numbers: an
            array of shape (..., 3). Crops and strides are taken into account.

        Returns
        -------
        numpy.ndarray
            Places along z, y, x in the unit of the coordinates, of shape (..., 3). The dimensions
            of views, such as t and setup, come first; select a view for its places alone.

        Raises
        ------
        ValueError
            If the Dataset has neither an affine matrix nor coordinates.
        """
        from xarray_n5.datasets.projects.world import to_world

        return to_world(self._dataset, points)

    def from_world(self, points: ArrayLike) -> np.ndarray:
        """Return which samples lie at places: the inverse of :meth:`to_world`."""
        from xarray_n5.datasets.projects.world import from_world

        return from_world(self._dataset, points)

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
        format: str | None = None,  # noqa: A002
        resume: bool | str = False,
        checksums: bool = False,
        fsync: bool = False,
        consolidated: bool | None = None,
        project: object = None,
    ) -> xr.DataTree | Delayed:
        """Store the Dataset: each variable as an array of a group, all of them in one computation.

        ``xr.open_dataset(url, engine="n5", group=group)`` returns an identical Dataset; so does
        ``xr.open_zarr`` for Zarr (with the attribute `multiscales`, if OME-NGFF is written). In N5,
        times, masks, scales, booleans and strings are encoded as xarray does for netCDF.
        Coordinates that a scale and an offset give exactly are written to the axes of the
        variables, where every reader of N5 finds them; others become arrays.

        Parameters
        ----------
        url
            The container; as in :func:`~xarray_n5.open_array`.
        group
            The path of the group, which is created; the container's root by default.
        mode
            "w-" raises if the group is not empty; "w" replaces its arrays and attributes; "a" adds
            to them, and replaces arrays of the same names; "r+" writes new values into existing
            arrays, and changes nothing else.
        encoding
            By variable: "chunks" (a shape, one side, "auto"), "compression", "layout" (as in
            :func:`~xarray_n5.create_array`), and the encodings of xarray's coders, such as "dtype",
            "scale_factor", "_FillValue", "units", "calendar".
            By default those with which it was opened.
        compute
            Whether to compute Dask arrays now; metadata, and variables in memory, are written at
            once. Deferred data reads as fill values, and is revoked where `region` writes first.
        append_dim
            Append along this dimension: every array that has it grows, and only the new part is
            written, in the existing encoding.
        region
            Write into a part of the existing arrays: a slice for each dimension, or "auto" to find
            the part by its coordinates. Drop variables without these dimensions first.
        align_chunks, partial_chunks, write_empty_chunks
            As in :func:`~xarray_n5.to_n5`.
        storage_options
            Options of the fsspec filesystem.
        dialect
            The dialects that describe the axes; by default those that TensorStore, Neuroglancer and
            Fiji read. In Zarr, where coordinates are arrays, "ngff" also describes images on their
            group.
        format
            "n5", "zarr2" or "hdf5"; by default that of the container, or of a new one's name.
        resume, checksums, fsync
            As in :func:`~xarray_n5.to_n5`, for all variables together.
        consolidated
            Whether to write consolidated metadata, as in ``Dataset.to_zarr``. By default in Zarr
            v2, unless `region` or ``mode="r+"`` is given. Existing consolidated metadata is updated
            in any case.
        project
            The path or URL of an XML file: the image is stored as a project of BigDataViewer and
            BigStitcher, in N5, a setup for each channel, tile, angle and illumination, and the XML
            says so when all data are written. With "a", views are added to a project, and those of
            the same setups and time points are replaced; with "w", also by others of another size.
            What the XML has beside views stays byte for byte.

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
        TypeError
            If an option is unknown.
        """
        from xarray_n5.datasets.append import update
        from xarray_n5.datasets.projects.write import write_project
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
            fsync=fsync,
            consolidated=consolidated,
        )
        if project is not None:
            _check_project(group, append_dim=append_dim, region=region, dialect=dialect)
            options = {"/": encoding or {}}
            stored = write_project(self._dataset, project, how, options, storage_options)
            return _finish(stored, compute=compute)
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


class DataTreeAccessor:
    """Storing a DataTree."""

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

    def __repr__(self) -> str:
        """Show the geometry of each variable in the tree."""
        return show_each({node.path: node.dataset for node in self._tree.subtree})

    def _repr_html_(self) -> str:
        return show_each({node.path: node.dataset for node in self._tree.subtree}, html=True)

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
        format: str | None = None,  # noqa: A002
        resume: bool | str = False,
        checksums: bool = False,
        fsync: bool = False,
        consolidated: bool | None = None,
        project: object = None,
    ) -> xr.DataTree | Delayed:
        """Store the tree: each node as a group, all data in one computation.

        A node whose children are the levels of a pyramid, ``s0``, ``s1``, ..., becomes a group with
        an array for each level, and with the metadata of :func:`~xarray_n5.pyramid`. Each level
        has one variable, with the same name, type and dimensions, and evenly spaced coordinates.

        Parameters
        ----------
        encoding
            Encodings of variables by the path of their node, such as ``"/"`` and ``"/a/b"``.
        mode
            As in :meth:`DatasetAccessor.to_n5`, for each node by itself; other groups stay.
        url, group, compute, align_chunks, write_empty_chunks, storage_options, dialect, format, \
        resume, checksums, fsync, consolidated
            As in :meth:`DatasetAccessor.to_n5`.
        project
            The path or URL of an XML file, as in :meth:`DatasetAccessor.to_n5`: the nodes ``s0``,
            ``s1``, ... are the levels of an image, or those in groups such as ``setup0`` of images
            that differ.

        Raises
        ------
        KeyError
            If an encoding is for a node that does not exist.
        """
        from xarray_n5.datasets.append import update
        from xarray_n5.datasets.projects.write import write_project
        from xarray_n5.datasets.tree import groups_of, updates_of
        from xarray_n5.datasets.write import write
        from xarray_n5.writing.request import WriteOptions
        from xarray_n5.writing.transaction import compute_each, join_reports

        encodings = dict(encoding or {})
        if missing := encodings.keys() - set(self._tree.groups):
            raise KeyError(f"the encoding is for {sorted(missing)}, none of {self._tree.groups}")
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
            fsync=fsync,
            consolidated=consolidated,
        )
        if project is not None:
            _check_project(group, dialect=dialect)
            stored = write_project(self._tree, project, how, encodings, storage_options)
            return _finish(stored, compute=compute)
        nodes = groups_of(self._tree, how.path(group or ""), encodings, how)
        if mode != "r+":
            return _finish(write(nodes, how), compute=compute)
        if encodings:
            raise ValueError("mode='r+' writes into existing arrays, which are encoded already")
        root = nodes[0][1]
        each = [
            (path.removeprefix(root).strip("/"), update(own, path, how, names=names))
            for own, path, names in updates_of(nodes)
        ]
        if not compute:
            return compute_each(each)
        return join_reports([path for path, _ in each], [write.compute() for _, write in each])


def _finish(transaction: Transaction, *, compute: bool) -> xr.DataTree | Delayed:
    return transaction.compute() if compute else transaction.delayed()


def _check_project(group: str | None, **others: object) -> None:
    """Raise if options are given that are not for projects."""
    given = [
        name for name, value in {"group": group or None, **others}.items() if value is not None
    ]
    if given:
        raise ValueError(
            f"{' and '.join(given)} and project= exclude each other: a project has its own layout"
        )
