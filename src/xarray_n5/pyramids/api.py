"""The public :func:`pyramid` and :func:`add_levels`: coarser levels of an array.

All levels are checked, then created, then written one after another.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import xarray as xr
from dask.base import tokenize

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import groups_around
from xarray_n5.arrays.group import is_label, with_source
from xarray_n5.datasets.encode import GroupPlan
from xarray_n5.datasets.encoded import decode_attributes
from xarray_n5.datasets.pyramid import check_attributes, plan_level, plan_pyramid
from xarray_n5.datasets.write import existing_at, request_of, write_plans
from xarray_n5.dialects.groups import is_labels, named_images
from xarray_n5.errors import NodeExistsError
from xarray_n5.images.find import name_at
from xarray_n5.images.levels import describe_levels, stale_keys
from xarray_n5.model.json import check_option
from xarray_n5.model.paths import join
from xarray_n5.pyramids.base import (
    BASE,
    base_of,
    complete_base,
    stored_array,
    with_channel_names,
    with_factors,
)
from xarray_n5.pyramids.reduce import (
    Meaning,
    Method,
    check_type,
    coarse_shape,
    coarser_blocks,
    steps_of,
)
from xarray_n5.writing.options import WriteOptions
from xarray_n5.writing.request import planned_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.datasets.encode import VariablePlan
    from xarray_n5.datasets.write import ExistingGroup
    from xarray_n5.formats import FormatName
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Compression
    from xarray_n5.pyramids.base import BaseLevel
    from xarray_n5.pyramids.reduce import Step
    from xarray_n5.writing.group import GroupWrite
    from xarray_n5.writing.report import WriteReport
    from xarray_n5.writing.request import WriteRequest


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
    if isinstance(image, xr.DataArray):
        image = with_channel_names(image)
    return _write(
        image,
        url,
        group,
        (factors, levels),
        method,
        {"chunks": chunks, "shards": shards, "compression": compression},
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
    array = stored_array(url, path, storage_options)
    return _write(
        array,
        array.container.fresh(),
        array.path.rpartition("/")[0],
        (factors, levels),
        method,
        {"chunks": chunks, "shards": shards, "compression": compression},
        adds=True,
        mode=mode,
        dialect=dialect,
        write_empty_chunks=write_empty_chunks,
        resume=resume,
    )


def _write(
    image: Any,
    url: object,
    group: str,
    steps: tuple[Step | Sequence[Step] | None, int | None],
    method: Method | None,
    storage: dict[str, Any],
    *,
    adds: bool = False,
    mode: str,
    dialect: str | Iterable[str] | None,
    **options: Any,
) -> WriteReport:
    """Write the levels of an image; `adds` if it is a stored array that is not written."""
    if method is not None:
        check_option("method", method, *get_args(Method))
    check_option("mode", mode, "w-", "w")
    compression = storage.pop("compression")
    storage = {key: value for key, value in storage.items() if value is not None}
    storage |= {} if compression == "same" else {"compression": compression}
    dialect = dialect if dialect is None or isinstance(dialect, str) else tuple(dialect)
    how = WriteOptions.into(
        url, computed=True, mode=mode, dialect=dialect, storage=storage, **options
    )
    base = base_of(image, how, adds=adds)
    planned, sides = base.plan, cast("tuple[int, ...]", base.plan.spec.chunks)
    factors = steps_of(planned.geometry, planned.encoded.data.shape, sides, *steps)
    return cast("WriteReport", _plan(base, how.path(group), factors, method, how).write())


def _plan(
    base: BaseLevel,
    path: str,
    steps: Sequence[tuple[int, ...]],
    method: Method | None,
    how: WriteOptions,
) -> GroupWrite:
    """Return the write of a pyramid after all checks of its metadata.

    Parameters
    ----------
    base, path
        The base level, and the path of the group.
    steps
        The factors of each coarser level over the level before it.
    method
        The reduction of windows; by default "mode" for labels, and "mean" for others.
    how
        The container and the options of the write.

    Raises
    ------
    MetadataError
        If the format cannot store the levels, or the dialects cannot describe them.
    NodeExistsError
        If something in the group must stay.
    ValueError
        If the method is not defined for the type.
    """
    # Levels next to a stored array are added to its group.
    group = how if base.stored is None else replace(how, mode="a")
    existing, encoded = existing_at(path, group), base.plan.encoded
    meaning = Meaning(decode_attributes(encoded.cf_attributes, path))
    dtype = np.dtype(bool) if meaning.is_bool else encoded.data.dtype
    if method is None:
        method = "mode" if _is_of_labels(dtype, path, existing, how) else "mean"
    check_type(dtype, method)
    attributes, variables, requests = _levels(base, path, steps, method, meaning, how)
    plan = GroupPlan(path=path, variables=variables, attributes=attributes, is_pyramid=True)
    plan = plan_pyramid(plan, existing, group)
    if base.stored is not None:
        new = {name: variable for name, variable in variables.items() if name != BASE}
        plan = replace(plan, variables=new, older=() if how.mode == "w-" else plan.older)
    write = write_plans([plan], group, path)
    write = replace(write, options=how, requests=requests, in_turn=True)
    if base.stored is None:
        return write
    attributes = dict(variables[BASE].spec.attributes or {})
    return replace(
        write,
        check=partial(_check_added, write, plan),
        closing=partial(complete_base, write.closing, base.stored, attributes),
    )


def _check_added(write: GroupWrite, plan: GroupPlan, resumes: bool) -> None:
    """Raise if new levels next to a stored array would replace what must stay."""
    write.check(resumes)
    if plan.existing is None or write.options.mode == "w" or resumes:
        return
    group, written = plan.existing.group, plan.attributes
    if there := sorted(plan.existing.arrays.keys() & plan.variables):
        raise NodeExistsError(group.url, there[0], "an array", "use mode='w' to replace levels")
    stale = stale_keys(group.attrs, written, write.options)
    check_attributes(group.attrs, {**dict.fromkeys(stale), **written}, group.url)


def _is_of_labels(
    dtype: np.dtype[Any], path: str, existing: ExistingGroup | None, how: WriteOptions
) -> bool:
    """Return whether levels are of labels, by their type and the groups around them."""
    around = [node.metadata.attributes for node in groups_around(how.container, path)[-1:]]
    around += [{} if existing is None else existing.group.attrs]
    return (
        dtype.kind == "b"
        or any(is_labels(dtype, attributes) for attributes in around)
        or is_label(path, dtype, how.container)
    )


def _levels(
    base: BaseLevel,
    path: str,
    steps: Sequence[tuple[int, ...]],
    method: Method,
    meaning: Meaning,
    how: WriteOptions,
) -> tuple[dict[str, Any], dict[str, VariablePlan], dict[str, WriteRequest]]:
    """Return the attributes of the group, all levels, and the writes of the new ones.

    Each level is computed from the stored one before it.
    """
    planned, spec, encoded = base.plan, base.plan.spec, base.plan.encoded
    dtype, files = encoded.data.dtype, cast("tuple[int, ...]", spec.shards or spec.chunks)
    shapes = [*accumulate(steps, coarse_shape, initial=encoded.data.shape)]
    names = [f"s{number}" for number in range(len(shapes))]
    geometries = _geometries(planned.geometry, steps, method)
    facts = {name: (shape, dtype) for name, shape in zip(names, shapes, strict=True)}
    around, described = describe_levels(facts, geometries, path, how)
    around = named_images(around, name_at(path, how.container))
    token = tokenize(base.token, method, [*steps], spec.chunks, files, repr(meaning))
    variables: dict[str, VariablePlan] = {}
    requests: dict[str, WriteRequest] = {}
    finer: Any = base.stored
    for number, name in enumerate(names):
        data: Any = encoded.data
        if number:
            step, shape = steps[number - 1], shapes[number]
            data = coarser_blocks(finer, step, shape, files, method, f"{token}-{name}", meaning)
        level = replace(
            planned,
            encoded=replace(encoded, data=data),
            spec=replace(spec, path=join(path, name)),
            geometry=geometries[number],
        )
        level = plan_level(level, described[number], around, how.format)
        if not number and base.stored is not None:
            kept = with_factors(base.stored, described[0])
            level = replace(level, spec=replace(level.spec, attributes=kept))
        else:
            requests[name] = request_of(level, how)
            finer = Array(planned_node(requests[name]))
        # A coarser level is computed from the new array, not from one that it replaces.
        stays = replace(level.encoded, data=finer) if number or base.stored else level.encoded
        variables[name] = replace(level, encoded=stays)
    return with_source(around, path, dtype, how.container), variables, requests


def _geometries(base: Geometry, steps: Sequence[tuple[int, ...]], method: Method) -> list[Geometry]:
    """Return the geometry of each level, the base level first."""
    ones = (1,) * base.ndim
    factors = list(accumulate(steps, lambda a, b: tuple(map(mul, a, b)), initial=ones))
    # Along an axis without a scale, positions are numbers of samples of the base level.
    axes = [
        replace(axis, scale=axis.step) if factor > 1 else axis
        for axis, factor in zip(base.axes, factors[-1], strict=True)
    ]
    centred = method != "nearest"
    return [
        replace(
            base,
            axes=tuple(
                axis.coarser(factor, centred=centred)
                for axis, factor in zip(axes, absolute, strict=True)
            ),
        )
        for absolute in factors
    ]
