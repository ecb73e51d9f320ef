"""The public :func:`pyramid`: store an array and coarser levels of it.

Modules that write are imported on first use, to keep the import fast for readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from xarray_n5.model.options import check_option
from xarray_n5.pyramids.reduce import Method

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.formats import FormatName
    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.pyramids.factors import Step
    from xarray_n5.writing.report import WriteReport


def pyramid(
    source: object,
    url: object | None = None,
    path: str = "",
    *,
    factors: Step | Sequence[Step] | None = None,
    levels: int | None = None,
    method: Method | None = None,
    partial: bool = False,
    axes: Iterable[Axis | str | None] | Geometry | None = None,
    chunks: Sequence[int] | int | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "same",
    mode: Literal["w-", "w"] = "w-",
    dialect: str | Iterable[str] | None = None,
    format: FormatName | None = None,
    storage_options: Mapping[str, Any] | None = None,
    write_empty_chunks: bool = True,
    resume: bool | str = False,
    shards: Sequence[int] | int | Literal["auto"] | None = None,
) -> WriteReport:
    """Store an array and coarser levels of it, ``s0``, ``s1``, ..., as a group that viewers open.

    Each level is computed from the stored level before it: one pass, whole chunks, one level after
    another. Windows begin at the first sample, and a level has ``size // factor`` samples, as in
    n5-spark: samples at the ends that do not fill a window are in finer levels only.

    Parameters
    ----------
    source : xarray.DataArray, dask.array.Array, numpy.ndarray or Array
        The array that becomes ``s0``. A DataArray brings the coordinates and units of its axes;
        names of channels may be in ``channel_name``, as in views of a project. Others, such as
        numbers without a dimension, are omitted, with a warning.
        Arrays other than Dask's are read whole. Without `url`, an array that is stored as ``s0``
        already, or its container: its data stay as they are, and the levels are written next to it.
    url : str, os.PathLike or store, optional
        The container, which is created if it does not exist.
    path : str, default: ""
        The path of the group in the container, which is created or completed. Without `url`, the
        path of the stored array in the container `source`.
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
    partial : bool, default: False
        Whether incomplete windows at the ends become samples, too, so that there are ``ceil(size /
        factor)``, as in TensorStore's "downsample".
    axes : iterable of Axis, str or None, or Geometry, optional
        The axes of ``s0``, in C order, each an :class:`Axis`, a name or None; by default those of
        `source`.
    chunks : sequence of int or int, optional
        The shape of a chunk of all levels; by default that in which `source` is, or was, stored,
        that of Dask's blocks, or "auto". One side is for the axes of space: along those of time,
        channels and others, a chunk has one sample, also by default. If these are not multiples or
        parts of the chunks of a stored ``s0``, some of its chunks are read by several tasks.
    compression : str, mapping, Compression or None, default: "same"
        A name, such as "zstd"; the JSON object of ``attributes.json``, such as ``{"type": "gzip",
        "level": 1}``; a compression; None for uncompressed chunks; or "same" for that of a stored
        `source`, or gzip.
    mode : {"w-", "w"}, default: "w-"
        "w-" raises if levels exist; "w" replaces them, and removes further levels that the group's
        attributes list, or that an unfinished pyramid created. Other arrays with such names stay.
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
    shards : sequence of int, int or "auto", optional
        The shape of the shards of all levels, files that hold several chunks, in Zarr v3: multiples
        of `chunks` along each axis, or "auto" for at most 256 MiB of elements.

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

    from xarray_n5.pyramids.base import new_base, stored_base, with_channel_names
    from xarray_n5.pyramids.factors import steps_of
    from xarray_n5.pyramids.plan import plan_pyramid
    from xarray_n5.writing.options import WriteOptions

    if method is not None:
        check_option("method", method, *get_args(Method))
    check_option("mode", mode, "w-", "w")
    if url is None:
        base = stored_base(
            source,
            path,
            axes=axes,
            chunks=chunks,
            shards=shards,
            storage_options=storage_options,
            form=format,
        )
        url, path = base.group
        format = None
        storage_options = None
    else:
        if axes is None and isinstance(source, xr.DataArray):
            source = with_channel_names(source)
        base = new_base(source, axes=axes, chunks=chunks, shards=shards)
    how = WriteOptions.into(
        url,
        format=format,
        computed=True,
        mode=mode,
        storage_options=storage_options,
        dialect=dialect if dialect is None or isinstance(dialect, str) else tuple(dialect),
        write_empty_chunks=write_empty_chunks,
        resume=resume,
    )
    steps = steps_of(base.geometry, base.shape, base.chunks, factors, levels, partial=partial)
    plan = plan_pyramid(base, how.path(path), steps, method, compression, how, partial=partial)
    return plan.write()
