"""The public :func:`copy`: plan what is stored, refuse what must stay, write, and compare."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import xarray as xr
from dask.base import compute

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import hint_of
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.node import same_bits
from xarray_n5.arrays.open import Walk, open_array, open_node
from xarray_n5.copying.archives import Packing
from xarray_n5.copying.groups import Tree, plan_array
from xarray_n5.copying.variables import Storage, is_sparse
from xarray_n5.datasets.write import request_of, write, write_plans
from xarray_n5.dialects import find_dialects
from xarray_n5.errors import (
    ChunkError,
    DifferenceError,
    MetadataError,
    NodeExistsError,
    RefusedError,
)
from xarray_n5.formats import split_url
from xarray_n5.formats.containers import find_scene
from xarray_n5.graph import ArraySliceDep, tree_reduce
from xarray_n5.images.tree import groups_of
from xarray_n5.leaves import scene_in
from xarray_n5.model.alerts import warn
from xarray_n5.model.json import as_json
from xarray_n5.model.metadata import GroupMetadata
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import HIDDEN, join, new_path
from xarray_n5.model.scene import SCENE
from xarray_n5.writing.inputs import location_of
from xarray_n5.writing.options import WriteOptions
from xarray_n5.writing.plan import WritePlan, plan_write
from xarray_n5.writing.report import WriteReport
from xarray_n5.writing.request import aligned_blocks, short_hash
from xarray_n5.writing.run import write_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import dask.array as da

    from xarray_n5.formats import FormatName
    from xarray_n5.formats.containers import Container
    from xarray_n5.graph import DelayedReport
    from xarray_n5.model.codec import Compression
    from xarray_n5.model.grid import Index
    from xarray_n5.writing.group import GroupWrite, PlannedGroup
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
    packing = Packing.of(destination, storage_options, mode=mode, format=format, resume=resume)
    if packing is not None and packing.ended:
        packing.check_unverified(verify=verify)
        return WriteReport({})
    target, inner = _located(destination)
    if packing is not None:
        target, inner = packing.container, packing.path
    how = WriteOptions.into(
        target,
        storage_options=storage_options,
        format=format,
        computed=True,
        mode=mode if packing is None else "w-",
        resume=resume,
        dialect=dialect,
    )
    path = new_path(how.path(inner), how.container.documents)
    storage = Storage(form=how.format, chunks=chunks, shards=shards, compression=compression)
    left_out = (without,) if isinstance(without, str) else without
    plan = _Copy(how, path, storage, compares=verify).plan(source, source_options, left_out)
    plans = [plan] if isinstance(plan, WritePlan) else plan.plans.values()
    sources = {each.request.path: each.request.source for each in plans}
    report = _run(plan)
    container = how.container if packing is None else packing.finish()
    return replace(report, verified=compare(container, sources)) if verify else report


@dataclass(frozen=True, slots=True)
class _Copy:
    """Where something is copied to, and how."""

    how: WriteOptions
    path: str
    """The path of the copy."""
    storage: Storage
    compares: bool
    """Whether all values are compared afterwards; a changed source is then not refused."""

    def plan(
        self, source: Any, options: Mapping[str, Any] | None, without: Collection[str]
    ) -> WritePlan | PlannedGroup:
        """Run all checks; nothing is written."""
        how, path, (url, inner) = self.how, self.path, _located(source)
        scene = None if isinstance(source, Array | Group) else find_scene(source, options)
        multisets = source.node.options.label_multisets if isinstance(source, Array) else "error"
        opening: Any = {"storage_options": options, "label_multisets": multisets}
        node = None if scene is not None else open_node(url, inner, **opening)
        if node is not None:
            self._check_apart(node)
        if isinstance(node, Array):
            variable = plan_array(node, how, path, self.storage)
            return plan_write(self._request(request_of(variable, how), node))
        if isinstance(node, Group):
            scene = scene_in(node)
            within = {how.format.name, node.container.format.name}
            if scene is None or within == {"zarr3"}:
                return self._plan_group(node, without)
        if without:
            raise ValueError(
                f"{source!r} is a scene, which is copied as a whole; to leave out images, open it "
                "with xarray.open_datatree, and store what remains with .n5.to_n5"
            )
        if how.dialect == SCENE:
            raise ValueError(
                f"dialect={SCENE!r} does not place images; to write {source!r} as a scene, open "
                "it with xarray.open_datatree and use .n5.to_scene"
            )
        # The images are the Datasets that the scene describes.
        tree = xr.open_datatree(
            url, engine="n5", chunks={}, group=inner or None, storage_options=options
        )
        encodings: dict[str, Any] = {
            node.path: {name: self.storage.encoding(each) for name, each in node.data_vars.items()}
            for node in tree.subtree
            if node.data_vars and self.storage.changes
        }
        return write(groups_of(tree, path, encodings, how), how).plan()

    def _plan_group(self, group: Group, without: Collection[str]) -> PlannedGroup:
        arrays, groups = _sorted_nodes(group, without)
        how, path = self.how, self.path
        tree = Tree(arrays=arrays, groups=groups, how=how, path=path, storage=self.storage)
        planned = tree.plan(is_part=bool(without))
        for plan in planned:
            where = how.container.where(plan.path)
            attributes = as_json(plan.attributes, where)
            how.format.check(GroupMetadata(attributes=attributes), where)
        write = write_plans(planned, how, path)
        requests = {
            inner: self._request(request, arrays[inner]) if inner in arrays else request
            for inner, request in sorted(write.requests.items())
        }
        return replace(write, requests=requests, check=partial(self._check, write)).plan()

    def _request(self, request: WriteRequest, array: Array) -> WriteRequest:
        """Return a request that leaves out missing chunks, and refuses a changed source."""
        options = replace(request.options, write_empty_chunks=not is_sparse(array))
        state = "" if self.compares else _state_of(array)
        return replace(request, options=options, around={"source": state} if state else {})

    def _check(self, write: GroupWrite, resumes: bool) -> None:
        """Raise if something must stay."""
        container = self.how.container
        if self.how.mode == "w-" and not resumes:
            group = container.node(self.path)
            if group.metadata.attributes or container.occupant(self.path) is not None:
                resume = bool(self.how.resume)
                hint = hint_of("use mode='w' to replace it", resume=resume, unfinished=False)
                raise NodeExistsError(container.url, self.path, "a group that is not empty", hint)
        write.check(resumes)

    def _check_apart(self, node: Array | Group) -> None:
        """Raise if the copy is in its source, or is the source, which would look complete."""
        container, how, path = node.container, self.how, self.path
        source, target = container.identity(node.path), how.container.identity(path)
        same = target == source
        inside = location_of(target).startswith(f"{location_of(source)}/")
        if container.identity("") == how.container.identity(""):  # also in HDF5
            inside = path.startswith(f"{node.path}/" if node.path else "")
        if (how.resume and same) or (inside and not same):
            what = "the source itself" if same else f"in the source of the copy, {node.url!r}"
            hint = "choose a path outside of the source"
            raise NodeExistsError(how.container.url, path, what, hint)


def _run(plan: WritePlan | PlannedGroup) -> WriteReport:
    """Write what is planned, and return the report."""
    if not isinstance(plan, WritePlan):
        return cast("WriteReport", plan.run())
    return write_all({"": plan})


def _located(place: Any) -> tuple[Any, str]:
    """Return a container, and the path in it that a URL, an array or a group has."""
    if isinstance(place, Array | Group):
        return place.container.fresh(), place.path
    if isinstance(place, str | Path) and "://" not in str(place):
        return split_url(str(place))
    return split_url(place) if isinstance(place, str) else (place, "")


def _state_of(array: Array) -> str:
    """Return a hash of the sizes and times of stored chunks; "" where they cannot be listed.

    It is a sum over all chunks in any order, so that these need no memory.
    """
    node, store, state = array.node, array.node.store, 0
    if node.format.one_writer:
        return short_hash(node.etag())
    try:
        for key, size, time in store.list_info(node.path):
            if not key.startswith(f"{HIDDEN}/"):
                written = store.etag(join(node.path, key)) if time is None else time
                chunk = blake2b(repr((key, size, written)).encode(), digest_size=8)
                state += int.from_bytes(chunk.digest())
    except RefusedError:
        return ""
    return f"{state % (1 << 64):016x}"


def _sorted_nodes(
    group: Group, without: Collection[str]
) -> tuple[dict[str, Array], dict[str, Group]]:
    """Return the arrays and the groups of a tree by their paths in it, base levels first."""
    arrays: dict[str, Array] = {}
    groups = {"": group}
    others: list[str] = []
    for path, node in _below(group, "", without, others):
        if isinstance(node, Array):
            arrays[path] = node
        else:
            groups[path] = node
    if others:
        more = f"; and {len(others) - 1} more" if others[1:] else ""
        warn(f"{others[0]}{more}")
    return dict(sorted(arrays.items())), groups


def _below(
    group: Group, path: str, without: Collection[str], others: list[str]
) -> Iterator[tuple[str, Array | Group]]:
    """Iterate over the nodes of a tree; add messages about arrays of other formats to `others`.

    Raises
    ------
    MetadataError
        If a group is an array that has lost its metadata.
    """
    inner = {name: join(path, name) for name in group}
    if all(map(str.isdigit, inner)):  # or there are none
        found = Walk(group).seen(group)
        if found.broken:
            hint = f", or leave the array out with without={path!r}" if path else ""
            raise MetadataError(f"{group.url} {found.problem}; restore it{hint}")
        if found.node is None:
            others.append(f"{group.url} is not copied: {found.problem}")
            return
    if path:
        yield path, group
    names = [n for n, at in inner.items() if not any(fnmatch(at, each) for each in without)]
    for name, node in group.nodes(names, strict=True).items():
        if isinstance(node, Array):
            yield inner[name], node
        else:
            yield from _below(node, inner[name], without, others)


def compare(container: Container, sources: Mapping[str, da.Array]) -> int:
    """Read the arrays of a copy and their sources, and return the number of equal chunks.

    Parameters
    ----------
    container
        The container of the copy.
    sources
        The values that its arrays should have, by their paths.

    Raises
    ------
    DifferenceError
        If chunks differ, or cannot be decoded.
    """
    container = container.fresh()
    arrays = [(open_array(container, path), source) for path, source in sources.items()]
    results = compute(*(_differences(array, source) for array, source in arrays))
    count = sum(array.grid.size for array, _ in arrays)
    different = [
        array.node.key(index)
        for (array, _), indices in zip(arrays, results, strict=True)
        for index in indices
    ]
    if different:
        raise DifferenceError(container.url, tuple(different), count)
    return count


def _differences(array: Array, source: da.Array) -> DelayedReport:
    """Return the sorted indices of the chunks of an array that differ from `source`, delayed."""
    aligned = aligned_blocks(source, array.grid.chunks, (0,) * array.ndim)
    found: Any = aligned.map_blocks(
        cast("Any", _different),
        Array(array.node.bare()),
        ArraySliceDep(aligned.chunks),
        name=f"compare_n5-{uuid.uuid4().hex}",  # earlier results may be outdated
        dtype=object,
        chunks=tuple((1,) * len(sizes) for sizes in aligned.chunks),
        meta=np.empty((0,) * aligned.ndim, object),
    )
    return tree_reduce(found, None, _merged, _merged, f"compare-{uuid.uuid4().hex}")


def _different(block: np.ndarray, array: Array, where: tuple[slice, ...]) -> list[Index]:
    """Return the indices of chunks in a block of the source that are different in the copy."""
    where = tuple(slice(side.start, side.stop, 1) for side in where)
    equal = partial(_is_equal, np.asarray(block), array, tuple(side.start for side in where))
    if equal(where):
        return []
    chunks = product(*array.grid.project(where))
    indices = [tuple(part.chunk for part in parts) for parts in chunks]
    return [index for index in indices if not equal(array.grid.slices(index))]


def _is_equal(
    block: np.ndarray, array: Array, start: tuple[int, ...], box: tuple[slice, ...]
) -> bool:
    """Return whether a part of an array has the same bits as a block that begins at `start`."""
    inner = tuple(slice(s.start - a, s.stop - a) for s, a in zip(box, start, strict=True))
    try:
        stored = np.asarray(array[box])
    except ChunkError:
        return False
    return same_bits(block[inner], stored)


def _merged(parts: list[list[Index]]) -> list[Index]:
    return sorted(index for part in parts for index in part)
