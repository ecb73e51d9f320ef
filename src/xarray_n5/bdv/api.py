"""The public functions that write projects: :func:`to_bdv`, :func:`copy` and :func:`pyramid`.

Modules that write are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import xarray as xr

from xarray_n5.model.options import check_option
from xarray_n5.pyramids.reduce import Method, check_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dask.delayed import Delayed

    from xarray_n5.arrays.node import LabelMultisets
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.pyramids.factors import Step

Mode = Literal["w-", "w", "a"]


def to_bdv(
    source: xr.DataArray | xr.Dataset | xr.DataTree,
    xml: object,
    data: object | None = None,
    mode: Mode = "w-",
    encoding: Mapping[str, Any] | None = None,
    compute: bool = True,
    *,
    format: Literal["n5", "zarr2", "zarr3"] | None = None,  # noqa: A002
    write_empty_chunks: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    resume: bool | str = False,
) -> xr.DataTree | Delayed:
    """Store an image as a project of BigDataViewer and BigStitcher: ``image.n5.to_bdv(xml)``.

    Views are stored in N5 or in Zarr, a setup for each channel, tile, angle and illumination, and a
    time point for each t. The XML is written when all data are written; what it says of other views
    stays byte for byte.

    Parameters
    ----------
    source : xarray.DataArray, xarray.Dataset or xarray.DataTree
        The image. The nodes ``s0``, ``s1``, ... of a tree are the levels of an image, or those in
        groups such as ``setup0`` of images that differ.
    xml : str or os.PathLike
        The path or URL of the XML file.
    data : str, os.PathLike or store, optional
        The container of the views, in N5 or in Zarr. By default that of an existing project, or
        ``dataset.n5`` next to ``dataset.xml``, or ``dataset.ome.zarr`` if `format` is one of Zarr.
    mode : {"w-", "w", "a"}, default: "w-"
        "w-" raises if there is a project, or if the container is not empty; "a" adds views, and
        replaces those of the same setups and time points; "w" also replaces them by others of
        another size, type or voxel size.
    encoding : mapping, optional
        By variable, or for a tree by the path of a node and by variable: "chunks" (a shape along z,
        y, x, one side, "auto"), "compression", and for Zarr v3 "shards" (likewise; None for no
        shards). By default those with which it was opened; new shards have up to 16 x 16 chunks
        along y and x, as in BigStitcher, and at most 256 MiB.
    compute : bool, default: True
        Whether to compute Dask arrays now.
    format : {"n5", "zarr2", "zarr3"}, optional
        The format of the container: by default that of an existing one, or that which its name ends
        in (``.zarr`` is Zarr v2), or N5. A project in Zarr v3 requires BigStitcher 3.0.
    write_empty_chunks : bool, default: True
        Whether to store chunks that hold nothing but zeros.
    storage_options : mapping, optional
        Options of the fsspec filesystem of the container, and of the XML if it is a URL.
    resume : bool or str, default: False
        Resume an interrupted write: blocks whose chunks have been written are not computed again.
        See :func:`xarray_n5.to_n5`.

    Returns
    -------
    xarray.DataTree or Delayed
        The report of :func:`xarray_n5.to_n5` for each level of a view; with ``compute=False``, a
        Delayed that computes to it.

    Raises
    ------
    KeyError
        If an encoding is for a node that does not exist.
    MetadataError
        If these are not the views of a project, or the container is not that of the XML.
    NodeExistsError
        If something exists that `mode` does not allow to replace.
    ResumeError
        If the unfinished write is another one than that to `resume`.

    Examples
    --------
    >>> tiles = xr.DataArray(np.ones((2, 4, 8, 8)), dims=("tile", "z", "y", "x"), name="raw")
    >>> report = tiles.n5.to_bdv("tiles.xml")
    >>> dict(xr.open_dataset("tiles.xml", engine="bdv").sizes)["tile"]
    2
    """
    from xarray_n5.bdv.target import write_options
    from xarray_n5.bdv.write import write_project

    check_option("mode", mode, *get_args(Mode))
    encodings: dict[str, Any] = dict(encoding or {})
    if isinstance(source, xr.DataArray):
        source = source.to_dataset(name="image" if source.name is None else source.name)
    if not isinstance(source, xr.DataTree):
        encodings = {"/": encodings}
    elif missing := encodings.keys() - set(source.groups):
        raise KeyError(f"the encoding has {sorted(missing)}; expected some of {source.groups}")
    how = write_options(
        xml,
        data,
        format=format,
        storage_options=storage_options,
        mode=mode,
        computed=compute,
        write_empty_chunks=write_empty_chunks,
        resume=resume,
    )
    stored = write_project(source, xml, how, encodings, storage_options)
    return stored.write()


def copy(
    source: object,
    xml: object,
    data: object | None = None,
    *,
    source_path: str = "",
    format: Literal["n5", "zarr2", "zarr3"] | None = None,  # noqa: A002
    mode: Mode = "w-",
    level: int | str | None = None,
    chunks: Sequence[int] | int | Literal["auto"] | None = None,
    shards: Sequence[int] | int | Literal["auto"] | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "same",
    label_multisets: LabelMultisets = "error",
    resume: bool = False,
    source_options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> xr.DataTree | xr.Dataset:
    """Copy images, or a project, as a project of BigDataViewer and BigStitcher.

    Parameters
    ----------
    source : str, os.PathLike, Array, Group or store
        The container to copy from, or the XML of a project.
    xml : str or os.PathLike
        The path or URL of the XML file.
    data : str, os.PathLike or store, optional
        The container of the views, in N5 or in Zarr; by default as of :func:`to_bdv`.
    source_path : str, default: ""
        The path of an image in `source`.
    format : {"n5", "zarr2", "zarr3"}, optional
        The format of the container; by default as of :func:`to_bdv`.
    mode : {"w-", "w", "a"}, default: "w-"
        As of :func:`to_bdv`: "a" adds views to a project.
    level : int or str, optional
        A level of the pyramid at `source`: its number (-1 is the coarsest) or its name.
    chunks : sequence of int, int or "auto", optional
        The shape of the chunks along z, y, x, by default that of each array.
    shards : sequence of int, int or "auto", optional
        The shape of the shards of Zarr v3 along z, y, x; by default as of :func:`to_bdv`.
    compression : str, mapping, Compression or None, default: "same"
        "same" for that of each array, or gzip if the container's format does not have it; otherwise
        as of :func:`xarray_n5.copy`.
    label_multisets : {"error", "argmax", "count"}, default: "error"
        How to copy Paintera's label multisets.
    resume : bool, default: False
        Resume this copy, if it was interrupted; if it has finished, nothing is written, unless
        `mode` is "w".
    source_options : mapping, optional
        Options of the fsspec filesystem of `source`.
    storage_options : mapping, optional
        Options of the fsspec filesystem of the new project.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        The report of :func:`xarray_n5.to_n5` for each array; empty if a copy to resume had
        finished.

    Examples
    --------
    >>> raw = xr.DataArray(np.ones((4, 8, 8)), dims=("z", "y", "x"), name="raw")
    >>> _ = raw.n5.to_n5("cells.zarr")
    >>> report = xarray_n5.bdv.copy("cells.zarr", "copy.xml", source_path="raw")
    >>> xr.open_dataset("copy.xml", engine="bdv")["copy"].shape
    (1, 1, 4, 8, 8)
    """
    from xarray_n5.bdv.copying import begin_copy
    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.copying.pyramids import level_path

    if level is not None:
        source_path = level_path(source, source_path, level, source_options)
    return begin_copy(
        source,
        source_path,
        xml,
        data,
        format=format,
        mode=mode,
        options=CopyOptions(
            chunks=chunks,
            shards=shards,
            compression=compression,
            label_multisets=label_multisets,
        ),
        resume=resume,
        source_options=source_options,
        storage_options=storage_options,
    ).compute()


def pyramid(
    source: Any,
    xml: object,
    data: object | None = None,
    *,
    factors: Step | Sequence[Step] | None = None,
    levels: int | None = None,
    method: Method = "mean",
    format: Literal["n5", "zarr2", "zarr3"] | None = None,  # noqa: A002
    axes: Iterable[Axis | str | None] | Geometry | None = None,
    chunks: Sequence[int] | int | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "same",
    mode: Mode = "w-",
    storage_options: Mapping[str, Any] | None = None,
    write_empty_chunks: bool = True,
    resume: bool | str = False,
) -> xr.DataTree:
    """Store an image as a project, with coarser levels of every view.

    Parameters
    ----------
    source : xarray.Dataset, xarray.DataArray, dask.array.Array, numpy.ndarray or Array
        The image; a Dataset of one image, as opened from a project, also has its matrices.
    xml : str or os.PathLike
        The path or URL of the XML file.
    data : str, os.PathLike or store, optional
        The container of the views, in N5 or in Zarr; by default as of :func:`to_bdv`.
    factors : int, mapping or sequence of these, optional
        The factors of a level over the one before it, along z, y, x; as of
        :func:`xarray_n5.pyramid`.
    levels : int, optional
        The number of coarser levels; by default, until a level fits into one chunk.
    method : {"mean", "max", "min", "mode"}, default: "mean"
        As of :func:`xarray_n5.pyramid`, without "nearest": BigDataViewer assumes that samples are
        in the middle of their windows.
    format : {"n5", "zarr2", "zarr3"}, optional
        The format of the container; by default as of :func:`to_bdv`.
    axes : iterable of Axis, str or None, or Geometry, optional
        The axes of the image, in C order; by default those of `source`.
    chunks : sequence of int or int, optional
        The shape of a chunk, for all dimensions of the image; by default that in which it is
        stored, or that of Dask's blocks.
    compression : str, mapping, Compression or None, default: "same"
        As of :func:`xarray_n5.pyramid`.
    mode : {"w-", "w", "a"}, default: "w-"
        As of :func:`to_bdv`: "a" adds views to a project.
    storage_options : mapping, optional
        Options of the fsspec filesystem of the new project.
    write_empty_chunks : bool, default: True
        Whether to store chunks that hold nothing but zeros.
    resume : bool or str, default: False
        Resume an interrupted pyramid.

    Returns
    -------
    xarray.DataTree
        The report of :func:`xarray_n5.to_n5` for each level of a view.

    Examples
    --------
    >>> tiles = xr.DataArray(np.ones((2, 4, 8, 8)), dims=("tile", "z", "y", "x"), name="raw")
    >>> report = xarray_n5.bdv.pyramid(tiles, "levels.xml", factors=[2])
    >>> list(xr.open_datatree("levels.xml", engine="bdv").children)
    ['s0', 's1']
    """
    from xarray_n5.bdv.target import write_options
    from xarray_n5.bdv.write import write_project_pyramid
    from xarray_n5.pyramids.base import new_base

    check_option("method", method, *get_args(Method))
    check_option("mode", mode, *get_args(Mode))
    if method == "nearest":
        raise ValueError(
            "method='nearest' keeps the first sample of a window, but BigDataViewer assumes "
            "samples in the middle; use 'mode' for labels, or 'mean'"
        )
    image = source
    if isinstance(source, xr.Dataset) and len(source.data_vars) == 1:
        (image,) = source.data_vars.values()
    base = new_base(image, axes=axes, chunks=chunks)
    check_type(base.dtype, method)
    how = write_options(
        xml,
        data,
        format=format,
        storage_options=storage_options,
        mode=mode,
        computed=True,
        write_empty_chunks=write_empty_chunks,
        resume=resume,
    )
    return write_project_pyramid(
        source,
        base,
        xml,
        how,
        factors=factors,
        levels=levels,
        method=method,
        compression=compression,
        storage_options=storage_options,
    )


def register(
    source: xr.Dataset, xml: object, *, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Store the positions of views in the XML of their project, and leave the images as they are.

    The new matrices replace the transforms of these views. All else in the XML is kept byte for
    byte, and the file is replaced in one step.

    Parameters
    ----------
    source : xarray.Dataset
        The whole base level of the views, opened from the project, with changed positions: the
        coordinate ``affine``, or ``origin_z``, ``origin_y`` and ``origin_x`` without it.
    xml : str or os.PathLike
        The path or URL of the XML file.
    storage_options : mapping, optional
        Options of the fsspec filesystem of the XML, if it is a URL.

    Raises
    ------
    FileNotFoundError
        If there is no such project.
    MetadataError
        If views are not in the project, differ from its setups, or are parts of images.

    Examples
    --------
    >>> tiles = xr.DataArray(np.ones((2, 4, 8, 8)), dims=("tile", "z", "y", "x"), name="raw")
    >>> report = tiles.n5.to_bdv("tiles.xml")
    >>> ds = xr.open_dataset("tiles.xml", engine="bdv", chunks={})
    >>> affine = ds.affine.copy()
    >>> affine.loc[{"tile": 1, "axis": "x", "column": "1"}] += 6
    >>> xarray_n5.bdv.register(ds.assign_coords(affine=affine), "tiles.xml")
    >>> xr.open_dataset("tiles.xml", engine="bdv").origin_x.values
    array([0., 6.])
    """
    from xarray_n5.bdv.target import options_of_xml
    from xarray_n5.bdv.write import register_views

    register_views(source, xml, options_of_xml(xml, storage_options))
