"""Plan and start copies of arrays and groups."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import over_base
from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.labels import list_labels, with_source
from xarray_n5.arrays.open import open_node
from xarray_n5.arrays.overwrite import groups_around
from xarray_n5.copying.archives import Packing
from xarray_n5.copying.array_copy import CopyOptions, copy_array
from xarray_n5.copying.attributes import (
    geometries_of,
    lists_of,
    of_group,
    parents_of,
    warn_lost_names,
    warn_lost_systems,
)
from xarray_n5.copying.bounds import parts_of, regions_within
from xarray_n5.copying.nodes import sorted_nodes
from xarray_n5.copying.pyramids import copied_pyramids, warn_of_datasets
from xarray_n5.copying.scenes import check_whole, plan_scene
from xarray_n5.copying.started import Comparison, Copy
from xarray_n5.copying.target import CopyTarget
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.errors import NodeExistsError
from xarray_n5.formats.containers import find_scene
from xarray_n5.leaves import scene_in
from xarray_n5.model.json import as_json
from xarray_n5.model.metadata import MULTISET, GroupMetadata
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import join, new_path
from xarray_n5.model.scene import SCENE, scene_format
from xarray_n5.writing.group import GroupWrite
from xarray_n5.writing.options import WriteOptions
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.self_reads import location_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.spec import Mode
    from xarray_n5.copying.array_copy import ArrayCopy
    from xarray_n5.copying.bounds import Region
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes


def begin_copy(
    source: object,
    source_path: str,
    url: object,
    path: str = "",
    *,
    mode: Mode = "w-",
    format: str | None = None,  # noqa: A002
    options: CopyOptions | None = None,
    without: Collection[str] = (),
    resume: bool | str = False,
    source_options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    checksums: bool = False,
    batch_size: int | None = None,
    fsync: bool = False,
    verify: bool = False,
) -> Copy:
    """Check a copy, create its groups and arrays, and return the copy to compute.

    Parameters and errors are those of :func:`xarray_n5.copy`.
    """
    check_option("mode", mode, "w-", "a", "w")
    checks: Any = {"mode": mode, "format": format, "resume": resume, "fsync": fsync}
    if (packing := Packing.of(url, storage_options, **checks)) is not None:
        if packing.ended:
            packing.check_unverified(verify=verify)
            return Copy()
        url, path, mode = packing.container, join(packing.path, path), "w-"
    options = options or CopyOptions()
    multisets = options.label_multisets
    if options.dialect == SCENE:
        format = scene_format(url, format)  # noqa: A001
    how = WriteOptions.into(
        url,
        storage_options=storage_options,
        format=format,
        computed=True,
        fsync=fsync,
        mode=mode,
        resume=resume,
        checksums=checksums,
        batch_size=batch_size,
    )
    place = new_path(how.path(path), how.container.documents)
    given: Any = (how, place, options, without, source_options)
    if (scene := find_scene(source, source_options)) is not None:
        planned = Copy(plan_scene(scene, source, source_path, *given).plan(), packing=packing)
        return planned.compared() if verify else planned
    node = open_node(source, source_path, storage_options=source_options, label_multisets=multisets)
    _check_apart(node, place, how)
    formats = {how.format.name, node.container.format.name}
    kept = formats == {"zarr3"} and options.dialect in {None, "same", SCENE}
    if (scene := scene_in(node)) is not None and kept:
        check_whole(scene, bounds=options.bounds or None, region=options.region)
        if options.dialect == SCENE:
            options = replace(options, dialect=None)  # which would write each image again
    elif scene is not None:
        planned = Copy(plan_scene(scene, source, source_path, *given).plan(), packing=packing)
        return planned.compared() if verify else planned
    target = CopyTarget(how, place)
    if isinstance(node, Array):
        begun, copies = _begin_array(node, target, options, compares=verify)
    else:
        begun, copies = _begin_group(node, target, options, without, compares=verify)
    begun = replace(begun, packing=packing)
    if not verify:
        return begun
    sources = [(join(place, inner), each.data) for inner, each in copies.items()]
    return replace(begun, comparison=Comparison(how.container, sources))


def _check_apart(node: Array | Group, place: str, how: WriteOptions) -> None:
    """Raise if a copy is in its source, or if it is the source, which would look complete."""
    source, target = node.container.identity(node.path), how.container.identity(place)
    same = target == source
    inside = location_of(target).startswith(f"{location_of(source)}/")
    if node.container.identity("") == how.container.identity(""):  # also in HDF5
        inside = place.startswith(f"{node.path}/" if node.path else "")
    if (how.resume and same) or (inside and not same):
        what = "the source itself" if same else f"in the source of the copy, {node.url!r}"
        raise NodeExistsError(how.container.url, place, what, "choose a path outside of the source")


def _begin_array(
    array: Array, target: CopyTarget, options: CopyOptions, *, compares: bool
) -> tuple[Copy, Mapping[str, ArrayCopy]]:
    """Begin the copy of an array; return it, and the array by its path in the copy."""
    geometries = geometries_of({"": array})
    regions: dict[str, Region | None] = {"": options.region}
    if options.bounds:
        regions = regions_within({"": array}, geometries, options.bounds)
    copies = _copy_arrays({"": array}, geometries, {}, target, options, regions)
    warn_lost_systems(geometries, array.path, {}, "")
    request = target.request("", copies[""], None if compares else array)
    return Copy(alone=plan_write(request)), copies


def _begin_group(
    group: Group,
    target: CopyTarget,
    options: CopyOptions,
    without: Collection[str],
    *,
    compares: bool,
) -> tuple[Copy, Mapping[str, ArrayCopy]]:
    """Begin the copy of a group; return it, and the arrays by their paths in the copy."""
    how, (arrays, groups) = target.how, sorted_nodes(group, without)
    lists = lists_of(group.container)
    warn_of_datasets(groups.values(), into=how.format)
    hidden = {MULTISET} if options.label_multisets != "error" else set()
    geometries, pyramids = geometries_of(arrays), {}
    regions: dict[str, Region | None] = dict.fromkeys(arrays, options.region)
    if options.bounds:
        regions = regions_within(arrays, geometries, options.bounds)
    if options.region is None:
        parts = parts_of(arrays, geometries, regions)
        pyramids = copied_pyramids(
            groups, arrays, parts, how.container, target.path, options.dialect
        )
    attributes = {
        inner: of_group(
            {key: value for key, value in each.attrs.items() if key not in hidden},
            join(group.path, inner),
            lists,
            lists_x_first=how.container.lists_x_first,
            described=pyramids[inner].around if inner in pyramids else None,
            for_good=options.dialect is not None or bool(options.bounds),
        )
        for inner, each in groups.items()
    }
    for dtype in [array.dtype for inner, array in arrays.items() if "/" not in inner][:1]:
        attributes[""] = with_source(attributes[""], target.path, dtype, how.container)
    own = {path: each for pyramid in pyramids.values() for path, each in pyramid.own.items()}
    arrays = {inner: arrays[inner] for inner in regions}
    copies = _copy_arrays(arrays, geometries, attributes, target, options, regions, own)
    warn_lost_systems(geometries, group.path, attributes, lists_of(how.container))
    for inner, each in attributes.items():
        where = how.container.where(join(target.path, inner))
        how.format.check(GroupMetadata(attributes=as_json(each, where)), where)

    def check(resumes: bool) -> None:
        target.check(copies, attributes, resumes=resumes)

    written = GroupWrite(
        options=how,
        path=target.path,
        requests={
            inner: target.request(inner, copy, None if compares else arrays[inner])
            for inner, copy in copies.items()
        },
        attributes=attributes,
        check=check,
        prepare=partial(create_group, how.container, target.path, mode="a"),
        closing=partial(_close, attributes, target),
    )
    return Copy(written.plan()), copies


def _close(attributes: Mapping[str, Attributes], target: CopyTarget) -> None:
    """Set the attributes of groups, and what depends on them."""
    how = target.how
    for inner, each in attributes.items():
        group = create_group(how.container, join(target.path, inner), mode="a")
        if each:
            group.attrs.update(each)
    list_labels(how.container, {target.path: attributes[""]})
    how.consolidate(target.path, default=True)


def _copy_arrays(
    arrays: Mapping[str, Array],
    geometries: Mapping[str, Geometry],
    groups: Mapping[str, Attributes],
    target: CopyTarget,
    options: CopyOptions,
    regions: Mapping[str, Region | None],
    described: Mapping[str, Attributes] | None = None,
) -> dict[str, ArrayCopy]:
    """Return the arrays of the copy, with the groups that will be around them."""
    container = target.how.container
    around = groups_around(container, target.path)
    above = {node.path: node.metadata.attributes for node in around}
    above |= {join(target.path, inner): attributes for inner, attributes in groups.items()}
    found: dict[str, ArrayCopy] = {}
    for inner, array in arrays.items():
        path = join(target.path, inner)
        context = ArrayContext(
            shape=array.shape,
            path=path,
            parents=parents_of(path, above),
            lists_x_first=container.lists_x_first,
        )
        base = join(inner.rpartition("/")[0], "s0")
        if base in found and base != inner:
            context = over_base(context, found[base].metadata, join(target.path, base))
        own = (described or {}).get(inner)
        part = replace(options, region=regions[inner], bounds=None)
        found[inner] = copy_array(array, geometries[inner], context, container.format, part, own)
        if not groups:
            metadata = found[inner].metadata
            context = replace(context, shape=metadata.shape, attributes=metadata.attributes)
            warn_lost_names(geometries[inner], context, array.url)
    return found
