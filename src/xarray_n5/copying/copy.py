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
from xarray_n5.copying.datasets import copy_variables, image_of_variable, images_of_dataset
from xarray_n5.copying.nodes import sorted_nodes
from xarray_n5.copying.pyramids import arrays_in, copied_pyramids, levels_of
from xarray_n5.copying.scenes import check_whole, plan_scene
from xarray_n5.copying.started import Copy
from xarray_n5.copying.target import CopyTarget
from xarray_n5.datasets.write import close
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
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.spec import Mode
    from xarray_n5.copying.array_copy import ArrayCopy
    from xarray_n5.copying.bounds import Region
    from xarray_n5.copying.datasets import CopiedVariables
    from xarray_n5.datasets.write import StoredAttributes
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.writing.request import WriteRequest


def begin_copy(
    source: object,
    source_path: str,
    url: object,
    path: str = "",
    *,
    mode: Mode = "w-",
    format: str | None = None,
    options: CopyOptions | None = None,
    without: Collection[str] = (),
    resume: bool | str = False,
    source_options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    verify: bool = False,
) -> Copy:
    """Check a copy, create its groups and arrays, and return the copy to compute.

    Parameters and errors are those of :func:`xarray_n5.copy`.
    """
    check_option("mode", mode, "w-", "a", "w")
    checks: Any = {"mode": mode, "format": format, "resume": resume}
    if (packing := Packing.of(url, storage_options, **checks)) is not None:
        if packing.ended:
            packing.check_unverified(verify=verify)
            return Copy()
        url, path, mode = packing.container, join(packing.path, path), "w-"
    options = options or CopyOptions()
    multisets = options.label_multisets
    if options.dialect == SCENE:
        format = scene_format(url, format)
    how = WriteOptions.into(
        url,
        storage_options=storage_options,
        format=format,
        computed=True,
        mode=mode,
        resume=resume,
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
        begun = _begin_array(node, target, options, compares=verify)
    else:
        begun = _begin_group(node, target, options, without, compares=verify)
    begun = replace(begun, packing=packing)
    return begun.compared() if verify else begun


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


def _begin_array(array: Array, target: CopyTarget, options: CopyOptions, *, compares: bool) -> Copy:
    """Begin the copy of an array."""
    geometries = geometries_of({"": array})
    regions: dict[str, Region | None] = {"": options.region}
    if options.bounds:
        regions = regions_within({"": array}, geometries, options.bounds)
    warn_lost_systems(geometries, array.path, {}, "")
    if (images := image_of_variable(array, target.how.format, options)) is not None:
        (name,) = images
        parts = {name: regions[""]}
        copied = copy_variables(images, {}, target.path, target.how, options, parts, alone=True)
        request = target.placed("", copied.requests[name], None if compares else array)
        return Copy(alone=plan_write(request))
    copies = _copy_arrays({"": array}, geometries, {}, target, options, regions)
    return Copy(alone=plan_write(target.request("", copies[""], None if compares else array)))


def _begin_group(
    group: Group,
    target: CopyTarget,
    options: CopyOptions,
    without: Collection[str],
    *,
    compares: bool,
) -> Copy:
    """Begin the copy of a group."""
    how, (arrays, groups) = target.how, sorted_nodes(group, without)
    lists = lists_of(group.container)
    hidden = {MULTISET} if options.label_multisets != "error" else set()
    geometries = geometries_of(arrays)
    regions: dict[str, Region | None] = dict.fromkeys(arrays, options.region)
    if options.bounds:
        regions = regions_within(arrays, geometries, options.bounds)
    datasets, requests = _copy_datasets(groups, arrays, target, options, regions, compares=compares)
    plain = {path: each for path, each in arrays.items() if path not in requests}
    pyramids = {}
    if options.region is None:
        parts = parts_of(
            plain, geometries, {path: regions[path] for path in plain if path in regions}
        )
        pyramids = copied_pyramids(
            groups, plain, parts, how.container, target.path, options.dialect
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
        if inner not in datasets
    }
    for dtype in [array.dtype for inner, array in plain.items() if "/" not in inner][:1]:
        attributes[""] = with_source(attributes[""], target.path, dtype, how.container)
    of_datasets = {inner: each.stored.closing for inner, each in datasets.items()}
    around = attributes | {inner: each.attributes for inner, each in of_datasets.items()}
    own = {path: each for pyramid in pyramids.values() for path, each in pyramid.own.items()}
    plain = {inner: array for inner, array in plain.items() if inner in regions}
    copies = _copy_arrays(plain, geometries, around, target, options, regions, own)
    requests |= {
        inner: target.request(inner, copy, None if compares else plain[inner])
        for inner, copy in copies.items()
    }
    shown = {path: each for path, each in geometries.items() if path in plain}
    warn_lost_systems(shown, group.path, attributes, lists_of(how.container))
    for inner, each in around.items():
        where = how.container.where(join(target.path, inner))
        how.format.check(GroupMetadata(attributes=as_json(each, where)), where)
    return Copy(
        GroupWrite(
            options=how,
            path=target.path,
            requests=dict(sorted(requests.items())),
            attributes=around,
            check=partial(_check, target, requests, around),
            prepare=partial(target.prepare, around, requests),
            closing=partial(_close, attributes, list(of_datasets.values()), target),
        ).plan()
    )


def _check(
    target: CopyTarget,
    requests: Mapping[str, WriteRequest],
    groups: Collection[str],
    resumes: bool,
) -> None:
    target.check(requests, groups, resumes=resumes)


def _copy_datasets(
    groups: Mapping[str, Group],
    arrays: Mapping[str, Array],
    target: CopyTarget,
    options: CopyOptions,
    regions: Mapping[str, Region | None],
    *,
    compares: bool,
) -> tuple[dict[str, CopiedVariables], dict[str, WriteRequest]]:
    """Return the Datasets by their groups, and the requests of all variables by their paths."""
    how = target.how
    datasets: dict[str, CopiedVariables] = {}
    requests: dict[str, WriteRequest] = {}
    for inner, group in groups.items():
        members = arrays_in(inner, arrays)
        parts = {n: regions[at] for n in members if (at := join(inner, n)) in regions}
        place: Any = (join(target.path, inner), how, options, parts)
        copied: dict[str, WriteRequest] = {}
        if images := images_of_dataset(members, group.attrs, how.format, options):
            datasets[inner] = copy_variables(images, group.attrs, *place)
            copied = dict(datasets[inner].requests)
        for name in members.keys() - set(levels_of(group, inner, arrays)) if not images else ():
            if alone := image_of_variable(members[name], how.format, options):
                copied[name] = copy_variables(alone, {}, *place, alone=True).requests[name]
        for name, request in copied.items():
            source = None if compares else members.get(name)
            requests[join(inner, name)] = target.placed(join(inner, name), request, source)
    return datasets, requests


def _close(
    attributes: Mapping[str, Attributes], datasets: Sequence[StoredAttributes], target: CopyTarget
) -> None:
    """Set the attributes of groups, and what depends on them."""
    how = target.how
    for inner, each in attributes.items():
        group = create_group(how.container, join(target.path, inner), mode="a")
        if each:
            group.attrs.update(each)
    list_labels(how.container, {target.path: attributes.get("", {})})
    close(datasets, how, target.path)


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
