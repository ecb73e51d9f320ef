"""The public :func:`copy`: plan what is stored, refuse what must stay, write, and compare."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fnmatch import fnmatch
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import xarray as xr
from dask.array import PerformanceWarning

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.open import Walk, open_node
from xarray_n5.copying.archives import Archive
from xarray_n5.copying.compare import compare
from xarray_n5.copying.groups import Tree
from xarray_n5.dask.from_n5 import from_n5
from xarray_n5.datasets.write import request_of, write, write_plans
from xarray_n5.dialects import find_dialects
from xarray_n5.dialects.ngff_systems import SCENE
from xarray_n5.errors import MetadataError, NodeExistsError, RefusedError
from xarray_n5.formats import split_url
from xarray_n5.formats.containers import find_scene
from xarray_n5.graph import source_of
from xarray_n5.images.tree import groups_of
from xarray_n5.leaves import scene_in
from xarray_n5.model.alerts import warn
from xarray_n5.model.json import check_option
from xarray_n5.model.paths import join, new_path
from xarray_n5.stores.archive import OZX
from xarray_n5.writing.group import PlannedGroup
from xarray_n5.writing.inputs import location_of
from xarray_n5.writing.options import WriteOptions
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.report import WriteReport
from xarray_n5.writing.request import short_hash
from xarray_n5.writing.run import write_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from xarray_n5.formats import FormatName
    from xarray_n5.model.metadata import Compression
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import WriteRequest


def copy(
    source: object,
    destination: object,
    *,
    mode: Literal["w-", "a", "w"] = "w-",
    format: FormatName | None = None,
    chunks: Sequence[int] | int | Literal["auto"] | None = None,
    shards: Sequence[int] | int | Literal["auto"] | None = None,
    compression: str | Mapping[str, Any] | Compression | None = "same",
    dialect: str | Sequence[str] | None = None,
    without: str | Collection[str] = (),
    resume: bool | str = False,
    source_options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    verify: bool = False,
) -> WriteReport:
    """Copy an array, or a group with everything in it, into a container of any format.

    ``xr.open_dataset(copy)`` shows what ``xr.open_dataset(source)`` shows. Within one format, nodes
    are kept as they are stored. In another format, or with a `dialect`, they are written as by
    :func:`to_n5`, without decoding their values, and pyramids are described for the readers of that
    format; attributes that nobody reads stay. Everything is checked before anything is written. For
    a part, a level or another type, open the source, select, and use ``.n5.to_n5``.

    Parameters
    ----------
    source : str, os.PathLike, Array, Group or store
        What to copy: a path or an fsspec URL, which may end in the path of a node in a container,
        such as ``"cells.n5/em/raw"``; an open array or group; or a store.
    destination : str, os.PathLike, Group or store
        Where to write it, likewise; what does not exist is created. A local path ``*.ozx`` is one
        ZIP archive of Zarr v3, which appears when it is complete, and which ``mode="w"`` replaces
        as a whole.
    mode : {"w-", "a", "w"}, default: "w-"
        "w-" raises if there is anything; "a" adds to the groups that exist, and replaces arrays of
        the same paths; "w" first removes all arrays and attributes of the copied groups. Other
        groups stay.
    format : {"n5", "zarr2", "zarr3", "hdf5"}, optional
        By default that of `destination`, or that of a new container's name.
    chunks : sequence of int, int or "auto", optional
        The shape of the chunks, by default that of each array. One side, and "auto", are for the
        axes of space: along those of time, channels and others, a chunk has one sample.
    shards : sequence of int, int or "auto", optional
        The shape of shards, files that hold several chunks, in Zarr v3: multiples of `chunks` along
        each axis, or "auto" for at most 256 MiB of elements. By default those of each array, if
        Zarr v3 is copied with its chunks.
    compression : str, mapping, Compression or None, default: "same"
        "same" for that of each array, or gzip if the format does not have it; otherwise a name,
        such as "zstd", the JSON object of ``attributes.json``, a compression, or None for
        uncompressed chunks.
    dialect : str or sequence of str, optional
        The dialects that describe axes in the copy; by default those that readers of the format
        expect, such as OME-NGFF 0.4 in Zarr v2 and 0.5 in Zarr v3.
    without : str or collection of str, default: ()
        Patterns of paths below the group to leave out, such as ``"em/*"``.
    resume : bool or str, default: False
        Resume this copy, if it was interrupted; if it has finished, nothing is written, unless
        `mode` is "w". A source whose chunks have changed since it began is refused: the token that
        the error names continues the copy as it is.
    source_options : mapping, optional
        Options of the fsspec filesystem of `source`.
    storage_options : mapping, optional
        Options of the fsspec filesystem of `destination`.
    verify : bool, default: False
        Whether to read the source and the copy after it was written, and to compare all values bit
        by bit; also those of a finished copy, with ``resume=True``. That takes about as long as
        copying. A system that has the copy in memory reads it from there, not from the disk.

    Returns
    -------
    WriteReport
        The report; if a copy to resume had finished, all chunks are kept. It is empty for a
        finished archive. With `verify`, its attribute ``verified`` is the number of chunks that
        were compared.

    Raises
    ------
    NodeNotFoundError
        If there is nothing to copy.
    NodeExistsError
        If something exists that `mode` does not allow to replace.
    MetadataError
        If the format cannot hold an array, or a dialect cannot describe it.
    ResumeError
        If another write into the destination is unfinished.
    DifferenceError
        With `verify`, if chunks differ from the source; ``keys`` names them.

    See Also
    --------
    digest : One short string for the values, to compare arrays at different locations.

    Examples
    --------
    >>> array = xarray_n5.create_array("cells.n5", "raw", shape=(4, 6), dtype="uint8", chunks=2)
    >>> array[:] = 7
    >>> report = xarray_n5.copy("cells.n5", "cells.zarr")
    >>> xarray_n5.open_array("cells.zarr", "raw")[0]
    array([7, 7, 7, 7, 7, 7], dtype=uint8)

    Copy one array into HDF5, in other chunks:

    >>> report = xarray_n5.copy("cells.n5/raw", "raw.h5/raw", chunks=4)
    """
    check_option("mode", mode, "w-", "a", "w")
    dialect = dialect if dialect is None or isinstance(dialect, str) else tuple(dialect)
    if dialect is not None:
        find_dialects(dialect)
    target, inner = _located(destination)
    archive: Archive | None = None
    if isinstance(target, str) and target.partition("?")[0].lower().endswith(OZX):
        archive = Archive.at(target)
        if archive.is_complete(mode=mode, format=format, resume=resume):
            if verify:
                raise ValueError(
                    f"{archive.target!r} is a finished copy, which cannot be compared again with "
                    "verify=True; compare the digests of its arrays: xarray_n5.digest(url, path)"
                )
            return WriteReport({})
        target, mode = archive.container, "w-"
    storage: dict[str, Any] = {"chunks": chunks, "shards": shards}
    storage = {name: value for name, value in storage.items() if value is not None}
    if compression != "same":
        storage["compression"] = compression
    how = WriteOptions.into(
        target,
        storage_options=storage_options,
        format=format,
        computed=True,
        mode=mode,
        resume=resume,
        dialect=dialect,
        storage=storage,
    )
    path = new_path(how.path(inner), how.container.documents)
    left_out = (without,) if isinstance(without, str) else without
    plan = _plan(source, source_options, how, path, left_out, is_compared=verify)
    plans = plan.plans if isinstance(plan, PlannedGroup) else {"": plan}
    sources = {planned.request.path: planned.request.source for planned in plans.values()}
    done = plan.run() if isinstance(plan, PlannedGroup) else write_all(plans)
    report = cast("WriteReport", done)
    container = how.container if archive is None else archive.pack()
    return replace(report, verified=compare(container, sources)) if verify else report


def _plan(
    source: Any,
    options: Mapping[str, Any] | None,
    how: WriteOptions,
    path: str,
    without: Collection[str],
    *,
    is_compared: bool,
) -> WritePlan | PlannedGroup:
    """Return the checked write of a copy.

    Parameters
    ----------
    source, options
        The source, and the options of its filesystem.
    how, path
        The options of the write, and the path of the copy.
    without
        The patterns of paths to leave out.
    is_compared
        Whether all values are compared afterwards; a changed source is then not refused.
    """
    url, inner = _located(source)
    scene = None if isinstance(source, Array | Group) else find_scene(source, options)
    node: Array | Group | None = None
    if scene is None:
        multisets = source.node.options.label_multisets if isinstance(source, Array) else "error"
        node = open_node(url, inner, storage_options=options, label_multisets=multisets)
        _check_apart(node, how, path)
        # Within Zarr v3, a scene is copied as it is stored.
        scene = (
            None if {how.format.name, node.container.format.name} == {"zarr3"} else scene_in(node)
        )
    if node is None or scene is not None:
        if without or how.dialect == SCENE:
            raise ValueError(
                f"{source!r} is a scene, which is copied as a whole, as the images that it "
                "describes; to leave out some, or to write it as a scene, open it with "
                "xarray.open_datatree, and use .n5.to_n5 or .n5.to_scene"
            )
        tree = xr.open_datatree(
            url, engine="n5", chunks={}, group=inner or None, storage_options=options
        )
        return write(groups_of(tree, path, {}, how), how).plan()
    if isinstance(node, Array):
        variable = Tree(arrays={"": node}, groups={}, how=how, path=path).array("")
        return plan_write(_with_state(request_of(variable, how), node, is_compared))
    skipped: list[str] = []
    nodes = dict(_nodes(node, "", without, skipped))
    if skipped:
        warn("; ".join(skipped[:3]))
    arrays = {at: array for at, array in sorted(nodes.items()) if isinstance(array, Array)}
    groups = {at: group for at, group in nodes.items() if isinstance(group, Group)}
    plans = Tree(arrays=arrays, groups=groups, how=how, path=path).plan(is_part=bool(without))
    group = write_plans(plans, how, path)
    requests = {
        at: _with_state(request, arrays[at], is_compared) if at in arrays else request
        for at, request in sorted(group.requests.items())
    }
    return replace(group, requests=requests).plan()


def _check_apart(node: Array | Group, how: WriteOptions, path: str) -> None:
    """Raise if the copy is in its source, or is the source, which would look complete."""
    source, target = node.container.identity(node.path), how.container.identity(path)
    is_same = target == source
    is_inside = location_of(target).startswith(f"{location_of(source)}/")
    if node.container.identity("") == how.container.identity(""):  # also in HDF5
        is_inside = path.startswith(f"{node.path}/" if node.path else "")
    if (how.resume and is_same) or (is_inside and not is_same):
        what = "the source itself" if is_same else f"in the source of the copy, {node.url!r}"
        hint = "choose a path outside of the source"
        raise NodeExistsError(how.container.url, path, what, hint)


def _located(place: Any) -> tuple[Any, str]:
    """Return a container, and the path in it that a URL, an array or a group has."""
    if isinstance(place, Array | Group):
        return place.container.fresh(), place.path
    if isinstance(place, str | Path):
        return split_url(str(place))
    return place, ""


def _with_state(request: WriteRequest, array: Array, is_compared: bool) -> WriteRequest:
    """Return a request that leaves out missing chunks, and refuses a changed source.

    The state of the source is a sum over its chunks in any order, so that it needs no memory.
    """
    node, count, state = array.node, 0, 0
    try:
        for index, (key, size, time) in node.container.list_chunk_info(node.path, node.metadata):
            count += index in node.metadata.grid
            written = node.store.etag(join(node.path, key)) if time is None else time
            chunk = blake2b(repr((key, size, written)).encode(), digest_size=8)
            state += int.from_bytes(chunk.digest())
    except RefusedError:  # which chunks there are cannot be known
        count = state = 0
    known = "" if is_compared or not state else short_hash((node.etag(), state))
    options = replace(request.options, write_empty_chunks=count == node.metadata.grid.size)
    source = request.source
    metadata = request.spec.metadata(source.shape, source.dtype, request.path)
    if metadata.inner is not None and source_of(source) is not None:  # a task writes a shard
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerformanceWarning)  # chunks read for several shards
            source = from_n5(array, chunks=metadata.chunks)
    return replace(request, source=source, options=options, state=known)


def _nodes(
    group: Group, path: str, without: Collection[str], skipped: list[str]
) -> Iterator[tuple[str, Array | Group]]:
    """Iterate over a group and all nodes below it, by their paths in the copy.

    Parameters
    ----------
    group, path
        The group, and its path in the copy.
    without
        The patterns of paths to leave out.
    skipped
        The messages about arrays of other formats, which are added to it.

    Raises
    ------
    MetadataError
        If a group is an array that has lost its metadata.
    """
    inner = {name: join(path, name) for name in group}
    if all(map(str.isdigit, inner)):  # or there are none
        entry = Walk(group).seen(group)
        if entry.broken:
            hint = f", or leave the array out with without={path!r}" if path else ""
            raise MetadataError(f"{group.url} {entry.problem}; restore it{hint}")
        if entry.node is None:
            skipped.append(f"{group.url} is not copied: {entry.problem}")
            return
    yield path, group
    names = [n for n, at in inner.items() if not any(fnmatch(at, pattern) for pattern in without)]
    for name, node in group.nodes(names, strict=True).items():
        if isinstance(node, Array):
            yield inner[name], node
        else:
            yield from _nodes(node, inner[name], without, skipped)
