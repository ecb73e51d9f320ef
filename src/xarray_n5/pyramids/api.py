"""The public :func:`pyramid` and :func:`add_levels`: coarser levels of an array.

Modules that write are imported on first use, to keep the import fast for readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from xarray_n5.model.options import check_option
from xarray_n5.pyramids.reduce import Method

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.formats import FormatName
    from xarray_n5.model.codec import Compression
    from xarray_n5.pyramids.base import BaseLevel
    from xarray_n5.pyramids.factors import Step
    from xarray_n5.writing.report import WriteReport


def pyramid(
    image: Any,
    url: object,
    group: str = "",
    *,
    factors: Step | Sequence[Step] | None = None,
    levels: int | None = None,
    method: Method | None = None,
    chunks: Sequence[int] | int | None = None,
    shards: Sequence[int] | int | Literal["auto"] | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "same",
    mode: Literal["w-", "w"] = "w-",
    dialect: str | Iterable[str] | None = None,
    format: FormatName | None = None,
    storage_options: Mapping[str, Any] | None = None,
    write_empty_chunks: bool = True,
    resume: bool | str = False,
) -> WriteReport:
    """Store an array and coarser levels of it, ``s0``, ``s1``, ..., as a group that viewers open.

    Each level is computed from the stored level before it: one pass, whole chunks, one level after
    another. Windows begin at the first sample, and a level has ``size // factor`` samples, as in
    n5-spark: samples at the ends that do not fill a window are in finer levels only.

    Parameters
    ----------
    image : xarray.DataArray, dask.array.Array, numpy.ndarray or Array
        The array that becomes ``s0``. A DataArray brings the coordinates and units of its axes;
        names of channels may be in ``channel_name``, as in views of a project. Others, such as
        numbers without a dimension, are omitted, with a warning.
        Arrays other than Dask's are read whole.
    url : str, os.PathLike or store
        The container, which is created if it does not exist.
    group : str, default: ""
        The path of the group in the container, which is created or completed.
    factors : int, mapping or sequence of these, optional
        The factors of a level over the one before it: one number for all axes of space, or numbers
        by dimension, such as ``{"y": 2, "x": 2}``; they apply to all levels. A list or a tuple has
        an item for each level, which may also be a number for each axis: ``[(1, 2, 2)]`` is one
        level, and ``(1, 2, 2)`` three. By default the axes of space with the shortest voxels, and
        those less than 1.41 times as long, are halved, which brings voxels towards cubes.
    levels : int, optional
        The number of coarser levels, 0 for an image of one level; by default, until a level fits
        into one chunk.
    method : {"mean", "max", "min", "mode", "nearest"}, optional
        "mean" (exact for integers, rounded to the nearest, halves to even), "max" or "min": NaN, or
        the fill value of a stored variable of xarray, if a window has one. "mode", for labels: the
        most frequent value, and of several the smallest. "nearest": the first sample of each
        window, which keeps its position; with the other methods, a sample is in the middle of its
        window. By default "mode" for labels, which are bool, uint64, and integers that are in
        ``labels`` of an image of OME-Zarr or that Paintera calls labels, and "mean" for all others.
    chunks : sequence of int or int, optional
        The shape of a chunk of all levels; by default that in which `image` is, or was, stored,
        that of Dask's blocks, or "auto". One side is for the axes of space: along those of time,
        channels and others, a chunk has one sample, also by default.
    shards : sequence of int, int or "auto", optional
        The shape of the shards of all levels, files that hold several chunks, in Zarr v3: multiples
        of `chunks` along each axis, or "auto" for at most 256 MiB of elements.
    compression : str, mapping, Compression or None, default: "same"
        A name, such as "zstd"; the JSON object of ``attributes.json``, such as ``{"type": "gzip",
        "level": 1}``; a compression; None for uncompressed chunks; or "same" for that of a stored
        `image`, or gzip.
    mode : {"w-", "w"}, default: "w-"
        "w-" raises if the group holds anything; "w" removes its arrays and attributes first, as
        ``ds.n5.to_n5`` does.
    dialect : str or iterable of str, optional
        The dialects that describe the levels; by default those of Neuroglancer, n5-viewer and COSEM
        in N5, and those of xarray and OME-NGFF in Zarr. "ngff-0.6" is OME-Zarr 0.6, in Zarr v3.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        The format of the container; by default that of an existing container. For a new one, it is
        guessed from the suffix (``.zarr``, ``.h5``); otherwise N5.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.
    write_empty_chunks : bool, default: True
        Whether to store chunks that hold nothing but zeros. Where Zarr defines no fill value, all
        are stored.
    resume : bool or str, default: False
        Resume this pyramid, if it was interrupted: what has been written is not computed again. If
        the name of the Dask array differs from run to run, give a string instead of True.

    Returns
    -------
    WriteReport
        The report, with an array for each level that was written.

    Raises
    ------
    NodeExistsError
        If something exists that must stay.
    ResumeError
        If another pyramid is unfinished.
    MetadataError
        If the format cannot hold the levels, or the dialects cannot describe them there.
    ValueError
        If the factors are invalid, or the method is not defined for the type. Nothing was written.

    Examples
    --------
    >>> x = xr.Variable("x", np.arange(8) * 0.5, {"units": "um"})
    >>> image = xr.DataArray(np.ones((6, 8)), dims=("y", "x"), coords={"x": x}, name="raw")
    >>> reports = xarray_n5.pyramid(image, "cells.n5", "em", factors=2, levels=1)
    >>> tree = xr.open_datatree("cells.n5", engine="n5", group="em")
    >>> {name: level["em"].shape for name, level in tree.children.items()}
    {'s0': (6, 8), 's1': (3, 4)}
    >>> tree["s1"]["x"].values
    array([0.25, 1.25, 2.25, 3.25])
    """
    import xarray as xr

    from xarray_n5.pyramids.base import new_base, with_channel_names

    if isinstance(image, xr.DataArray):
        image = with_channel_names(image)
    return _write(
        new_base(image, chunks=chunks, shards=shards),
        url,
        group,
        (factors, levels),
        method,
        compression,
        format=format,
        mode=mode,
        storage_options=storage_options,
        dialect=dialect,
        write_empty_chunks=write_empty_chunks,
        resume=resume,
    )


def add_levels(
    url: object,
    path: str = "",
    *,
    factors: Step | Sequence[Step] | None = None,
    levels: int | None = None,
    method: Method | None = None,
    chunks: Sequence[int] | int | None = None,
    shards: Sequence[int] | int | Literal["auto"] | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "same",
    mode: Literal["w-", "w"] = "w-",
    dialect: str | Iterable[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    write_empty_chunks: bool = True,
    resume: bool | str = False,
) -> WriteReport:
    """Compute coarser levels next to a stored array ``s0``, whose data stay as they are.

    Parameters
    ----------
    url : str, os.PathLike, store or Array
        The container of the stored array, or the open array.
    path : str, default: ""
        The path of the array in the container.
    factors : int, mapping or sequence of these, optional
        The factors of a level over the one before it, as in :func:`pyramid`.
    levels : int, optional
        The number of levels to add; by default, until a level fits into one chunk.
    method : {"mean", "max", "min", "mode", "nearest"}, optional
        How windows are reduced, as in :func:`pyramid`.
    chunks : sequence of int or int, optional
        The shape of a chunk of the new levels; by default that of the array. If these are not
        multiples or parts of its chunks, some of them are read by several tasks.
    shards : sequence of int, int or "auto", optional
        The shape of their shards, in Zarr v3; by default those of the array, with its chunks.
    compression : str, mapping, Compression or None, default: "same"
        The compression of the new levels, by default that of the array.
    mode : {"w-", "w"}, default: "w-"
        "w-" raises if levels exist; "w" replaces them, and removes further levels that the group's
        attributes list, or that an unfinished pyramid created.
    dialect : str or iterable of str, optional
        The dialects that describe the levels, as in :func:`pyramid`.
    storage_options : mapping, optional
        Options of the fsspec filesystem, such as credentials.
    write_empty_chunks : bool, default: True
        Whether to store chunks that hold nothing but zeros.
    resume : bool or str, default: False
        Resume an interrupted call: what has been written is not computed again.

    Returns
    -------
    WriteReport
        The report of the levels that were written.

    Raises
    ------
    NodeNotFoundError
        If there is no array.
    NodeExistsError
        If something exists that must stay.
    ValueError
        If it is not called ``s0``, or has an unfinished write; otherwise as in :func:`pyramid`.

    Examples
    --------
    >>> array = xarray_n5.create_array("cells.n5", "em/s0", shape=(4, 6), dtype="uint8", chunks=2)
    >>> report = xarray_n5.add_levels("cells.n5", "em/s0", factors=[(2, 2)])
    >>> xarray_n5.open_array("cells.n5", "em/s1").shape
    (2, 3)
    """
    from xarray_n5.pyramids.base import stored_base

    base = stored_base(url, path, chunks=chunks, shards=shards, storage_options=storage_options)
    array: Any = base.source
    return _write(
        base,
        array.container.fresh(),
        array.path.rpartition("/")[0],
        (factors, levels),
        method,
        compression,
        mode=mode,
        dialect=dialect,
        write_empty_chunks=write_empty_chunks,
        resume=resume,
    )


def _write(
    base: BaseLevel,
    url: object,
    group: str,
    steps: tuple[Step | Sequence[Step] | None, int | None],
    method: Method | None,
    compression: Any,
    *,
    mode: str,
    dialect: str | Iterable[str] | None,
    **options: Any,
) -> WriteReport:
    """Write the levels of a base level."""
    from xarray_n5.pyramids.factors import steps_of
    from xarray_n5.pyramids.plan import plan_pyramid
    from xarray_n5.writing.options import WriteOptions

    if method is not None:
        check_option("method", method, *get_args(Method))
    check_option("mode", mode, "w-", "w")
    dialect = dialect if dialect is None or isinstance(dialect, str) else tuple(dialect)
    how = WriteOptions.into(url, computed=True, mode=mode, dialect=dialect, **options)
    factors = steps_of(base.geometry, base.shape, base.chunks, *steps)
    write = plan_pyramid(base, how.path(group), factors, method, compression, how)
    return cast("WriteReport", write.write())
