"""Pyramids: an array, and beside it levels that are coarser and coarser.

All that writes is imported when something is written: who only reads need not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from xarray_n5.model.options import check_option
from xarray_n5.pyramids.reduce import Method, check_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import xarray as xr

    from xarray_n5.model.axes import Axis, Geometry
    from xarray_n5.model.codec import Compression
    from xarray_n5.pyramids.factors import Step


def pyramid(
    source: Any,
    url: object | None = None,
    path: str = "",
    *,
    factors: Step | Sequence[Step] | None = None,
    levels: int | None = None,
    method: Method = "mean",
    partial: bool = False,
    axes: Iterable[Axis | str | None] | Geometry | None = None,
    chunks: Sequence[int] | int | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "same",
    mode: Literal["w-", "w"] = "w-",
    dialect: str | Iterable[str] | None = None,
    format: str | None = None,  # noqa: A002
    storage_options: Mapping[str, Any] | None = None,
    write_empty_chunks: bool = True,
    resume: bool | str = False,
    checksums: bool = False,
    fsync: bool = False,
) -> xr.DataTree:
    """Store an array and coarser levels of it, ``s0``, ``s1``, ..., as a group that viewers know.

    Each level is made of the level before it, as that is stored: one pass, whole chunks, one level
    after another. Windows begin at the first sample, and a level has ``size // factor`` samples, as
    of n5-spark: what is left at the ends and fills no window stands in finer levels only.

    Parameters
    ----------
    source
        What becomes ``s0``: a DataArray, with the places and units of its axes; a dask or numpy
        array; an :class:`~xarray_n5.Array`. What is none of dask's blocks is read whole. Without
        `url`, an array that is stored as ``s0`` already, or its path: its data stay as they are,
        and the levels are written beside it.
    url, path
        The container and the group in it that is made, or completed. Without `url`, `path` is the
        stored array's in the container `source`.
    factors
        By how much a level is coarser than the one before it: one number for all axes of space, a
        number by dimension, such as ``{"y": 2, "x": 2}``, and anything of these counts for all
        levels. A list or a tuple has an item for each level, which may also be a number for each
        axis: ``[(1, 2, 2)]`` is one level, and ``(1, 2, 2)`` three. By default the axes of space
        with the shortest voxels, and those less than 1.41 times as long, are halved, which brings
        voxels towards cubes.
    levels
        How many coarser levels; by default as many as it takes until one chunk holds a level.
    method
        "mean" (of integers exact, rounded to the nearest, halves to the even one; of floats NaN
        where there is one), "max" or "min". "mode", for labels: the most frequent, and of several
        the smallest. "nearest": the first of each window, which stays where it is; all others lie
        in the middle of what they stand for.
    partial
        Whether windows at the ends that are not whole become samples, too, of what they hold, so
        that there are ``ceil(size / factor)``, as TensorStore's "downsample" has it.
    axes
        The axes of ``s0``, as in :func:`~xarray_n5.create_array`; by default those of `source`.
    chunks
        The shape of a chunk, of all levels; by default that in which `source` is, or was, stored,
        that of dask's blocks, or "auto". Where these are no multiples or parts of the chunks of a
        stored ``s0``, some of its chunks are read by several tasks.
    compression
        As in :func:`~xarray_n5.create_array`; "same" for that of a stored `source`, else gzip.
    mode
        "w-" raises where levels exist; "w" replaces them, and removes those levels that the
        group's attributes name, or an unfinished pyramid made, beyond the new ones. What is called
        like a level and is none of these stays.
    dialect
        The dialects in which places are told; by default all that these readers need: in N5
        Neuroglancer's, n5-viewer's and COSEM's, in Zarr xarray's and OME-NGFF's.
    format, storage_options, write_empty_chunks, checksums, fsync
        As in :func:`~xarray_n5.to_n5`.
    resume
        Whether to go on with this very pyramid where it was interrupted; see
        :func:`~xarray_n5.to_n5`.

    Returns
    -------
    xarray.DataTree
        The receipts of :func:`~xarray_n5.to_n5`, a node for each level that was written.

    Raises
    ------
    NodeExistsError, ResumeError
        If there is something that must stay, or an unfinished pyramid of something else.
    MetadataError
        If the levels cannot be held or described so, where they are to be.
    ValueError
        If the factors make no sense, or the method none for such numbers. Nothing was written then.
    """
    from xarray_n5.pyramids.base import new_base, stored_base
    from xarray_n5.pyramids.factors import steps_of
    from xarray_n5.pyramids.plan import plan
    from xarray_n5.writing.request import WriteOptions

    check_option("method", method, *get_args(Method))
    check_option("mode", mode, "w-", "w")
    if url is None:
        base = stored_base(
            source, path, axes=axes, chunks=chunks, storage_options=storage_options, form=format
        )
        url, path, format = base.group  # noqa: A001
        storage_options = None
    else:
        base = new_base(source, axes=axes, chunks=chunks)
    check_type(base.dtype, method)
    how = WriteOptions.into(
        url,
        format=format,
        computed=True,
        mode=mode,
        storage_options=storage_options,
        dialect=dialect if dialect is None or isinstance(dialect, str) else tuple(dialect),
        write_empty_chunks=write_empty_chunks,
        resume=resume,
        checksums=checksums,
        fsync=fsync,
    )
    steps = steps_of(base.geometry, base.shape, base.chunks, factors, levels, partial=partial)
    return plan(base, how.path(path), steps, method, compression, how, partial=partial).write()
