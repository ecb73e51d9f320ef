"""``.n5`` on xarray's objects: what N5 adds to them.

All that writes is imported when something is written: who only reads need not wait for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.coordinates import geometry_from
from xarray_n5.arrays.repr import as_html, as_text, show_geometry
from xarray_n5.datasets.suggestions import refuse_unknown
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dask.delayed import Delayed

    from xarray_n5.datasets.encoding import Encoding
    from xarray_n5.datasets.region import Region
    from xarray_n5.model.axes import Geometry
    from xarray_n5.writing.request import Mode, PartialChunks
    from xarray_n5.writing.transaction import Transaction

_NAMELESS = "__xarray_dataarray_variable__"
"""What xarray calls the variable of a DataArray without a name."""


@xr.register_dataset_accessor("n5")  # type: ignore[no-untyped-call]
class DatasetAccessor:
    """N5's view of a Dataset."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        """Show the geometry of each variable."""
        shown = [show_geometry(each)[1] for each in self.geometry.values()]
        return "\n".join(map(as_text, self.geometry, shown))

    def _repr_html_(self) -> str:
        shown = [show_geometry(each)[1] for each in self.geometry.values()]
        return "".join(map(as_html, self.geometry, shown))

    @property
    def geometry(self) -> Mapping[str, Geometry]:
        """The axes of each data variable by name; see :attr:`DataArrayAccessor.geometry`."""
        return {
            str(name): DataArrayAccessor(array).geometry
            for name, array in self._dataset.data_vars.items()
        }

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
        **unknown: Any,
    ) -> xr.DataTree | Delayed:
        """Store the Dataset: each variable an array of a group, all of them in one computation.

        It comes back identical from ``xr.open_dataset(url, engine="n5", group=group)``, of Zarr
        also from ``xr.open_zarr`` (with the attribute `multiscales`, if OME-NGFF is written). In
        N5, times, masks, scales, booleans and strings are encoded as xarray does for netCDF.
        Coordinates that scale and offset give exactly are written to the axes of the variables,
        where every reader of N5 finds them; others are arrays beside them.

        Parameters
        ----------
        url
            The container; as in :func:`~xarray_n5.open_array`.
        group
            The path of a group in it, which is created; the container itself by default.
        mode
            "w-" raises where the group holds something; "w" replaces its arrays and attributes;
            "a" adds to them, and replaces arrays of the same names; "r+" writes new values into
            arrays that are there, and changes nothing else.
        encoding
            By variable: "chunks" (a shape, one side, "auto"), "compression", "layout" (as in
            :func:`~xarray_n5.create_array`), and what xarray's own coders take, such as "dtype",
            "scale_factor", "_FillValue", "units", "calendar".
            By default as it was opened.
        compute
            Whether to compute Dask's arrays now; metadata, and variables in memory, are written at
            once. What is deferred reads as fill values, and is revoked where `region` writes first.
        append_dim
            Write behind what is there along this dimension: every array that has it grows, and
            only the new part is written, as what is there is encoded.
        region
            Write into a part of what is there: a slice for each dimension, or "auto" to find the
            part by its coordinates. Variables without these dimensions are to be dropped.
        align_chunks, partial_chunks, write_empty_chunks
            As in :func:`~xarray_n5.to_n5`.
        storage_options
            What fsspec's filesystem takes.
        dialect
            How axes are written; by default as TensorStore, Neuroglancer and Fiji read them. In
            Zarr, where coordinates are arrays: "ngff" to describe images on their group, too.
        format
            "n5", "zarr2" or "hdf5"; by default that of the container, or by a new one's name.
        resume, checksums, fsync
            As in :func:`~xarray_n5.to_n5`, for all variables together.
        consolidated
            Whether the group gets consolidated metadata, as of ``Dataset.to_zarr``. By default
            in Zarr v2, unless a region or ``mode="r+"`` is written into what is there. Existing
            consolidated metadata are updated in any case.

        Returns
        -------
        xarray.DataTree or Delayed
            The receipts of :func:`~xarray_n5.to_n5`, a node for each variable; with
            ``compute=False``, what computes to them.

        Raises
        ------
        AlignmentError
            If `region` cuts stored chunks, and `partial_chunks` is "error".
        MetadataError
            If something cannot be held, such as complex numbers. Nothing was written then.
        NodeExistsError
            If there is something that `mode` does not allow to replace.
        TypeError
            If it takes no such option.
        """
        from xarray_n5.datasets.append import update
        from xarray_n5.datasets.write import write
        from xarray_n5.writing.request import WriteOptions

        variable = next(iter(self._dataset.data_vars), "a")
        refuse_unknown(self.to_n5, unknown, f"encoding={{{variable!r}: ...}}")
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
        place = how.path(group or "")
        if append_dim is None and region is None and mode != "r+":
            return _run(write([(self._dataset, place, encoding)], how), compute=compute)
        if encoding or mode == "w" or (append_dim is not None and region is not None):
            raise ValueError(
                "append_dim, region and mode='r+' write into what is there: they exclude encoding, "
                "mode='w' and each other"
            )
        if append_dim is not None and mode == "r+":
            raise ValueError("append_dim makes arrays larger, which mode='r+' does not; use 'a'")
        written = update(self._dataset, place, how, append_dim=append_dim, region=region)
        return _run(written, compute=compute)


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
        return as_text(*show_geometry(self.geometry))

    def _repr_html_(self) -> str:
        return as_html(*show_geometry(self.geometry))

    @property
    def geometry(self) -> Geometry:
        """The axes as they are now, and which attribute each fact was read from.

        Its ``sources`` are those of the stored array that this one was opened from, if any.
        """
        told = self._array.encoding.get("dialect")
        found = geometry_from(self._array)
        return replace(found, sources=dict(told)) if isinstance(told, dict) else found

    def to_n5(self, url: object, group: str | None = None, **options: Any) -> xr.DataTree | Delayed:
        """Store the DataArray with its coordinates and attributes, as a Dataset of one variable.

        Parameters are those of :meth:`DatasetAccessor.to_n5`; a name, if there is none, xarray's.
        """
        name = self._array.name
        dataset = self._array.to_dataset(name=_NAMELESS if name is None else name)
        return DatasetAccessor(dataset).to_n5(url, group, **options)


@xr.register_datatree_accessor("n5")  # type: ignore[no-untyped-call]
class DataTreeAccessor:
    """N5's view of a DataTree."""

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

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
        **unknown: Any,
    ) -> xr.DataTree | Delayed:
        """Store the tree, each node a group; all data in one computation.

        Parameters
        ----------
        encoding
            Encodings of variables by the path of their node, such as ``"/"`` and ``"/a/b"``.
        mode
            As in :meth:`DatasetAccessor.to_n5`, for each node by itself; groups that are no nodes
            of the tree stay.
        url, group, compute, align_chunks, write_empty_chunks, storage_options, dialect, format, \
        resume, checksums, fsync, consolidated
            As in :meth:`DatasetAccessor.to_n5`.

        Raises
        ------
        KeyError
            If an encoding is for no node.
        """
        from xarray_n5.datasets.append import update
        from xarray_n5.datasets.write import write
        from xarray_n5.writing.request import WriteOptions
        from xarray_n5.writing.transaction import compute_each

        refuse_unknown(self.to_n5, unknown, "encoding={'/': {'a': ...}}")
        asked = dict(encoding or {})
        if nowhere := asked.keys() - set(self._tree.groups):
            raise KeyError(f"the encoding is for {sorted(nowhere)}, none of {self._tree.groups}")
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
        nodes = []
        for node in self._tree.subtree:
            inner = node.relative_to(self._tree)
            place = join(how.path(group or ""), "" if inner == "." else inner)
            # Coordinates that come from above the tree are its root's.
            own = node.to_dataset(inherit=node is self._tree)
            nodes.append((own, place, asked.get(node.path)))
        if mode != "r+":
            return _run(write(nodes, how), compute=compute)
        if asked:
            raise ValueError("mode='r+' writes into what is there, which is encoded already")
        root = nodes[0][1]
        batches = {
            place.removeprefix(root).strip("/"): update(own, place, how)
            for own, place, _ in nodes
            if own.variables
        }
        if not compute:
            return compute_each(batches)
        return xr.DataTree.from_dict({name: batch.compute() for name, batch in batches.items()})


def _run(batch: Transaction, *, compute: bool) -> xr.DataTree | Delayed:
    return batch.compute() if compute else batch.delayed()
