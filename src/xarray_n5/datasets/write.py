"""Store Datasets as groups: variables as arrays, regular coordinates in the arrays' axes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import xarray as xr
from dask.base import is_dask_collection

from xarray_n5.arrays.context import load_context
from xarray_n5.arrays.create import check_removable
from xarray_n5.arrays.group import Group, create_group
from xarray_n5.arrays.labels import list_labels, with_source
from xarray_n5.codecs import resolve
from xarray_n5.datasets.encode import GroupPlan, plan_group
from xarray_n5.datasets.encoded import convention_of
from xarray_n5.datasets.overwrite import (
    ExistingGroup,
    check_coordinates,
    check_group,
    check_images,
    check_not_scene,
    existing_at,
    older_levels,
)
from xarray_n5.dialects import group_keys
from xarray_n5.dialects.ngff_attributes import (
    KEYS,
    channel_labels,
    images_of,
    named_images,
    omero_of,
    warn_lost,
)
from xarray_n5.dialects.write import check_pyramid
from xarray_n5.errors import MetadataError
from xarray_n5.images.channels import with_windows
from xarray_n5.images.levels import Levels
from xarray_n5.model.alerts import warn
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import note_of
from xarray_n5.writing.group import GroupWrite
from xarray_n5.writing.inputs import check_independent
from xarray_n5.writing.request import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from xarray_n5.datasets.encode import VariablePlan
    from xarray_n5.datasets.encoded import Convention
    from xarray_n5.dialects import ArrayContext
    from xarray_n5.writing.options import Encoding, WriteOptions


def write(
    datasets: Sequence[tuple[xr.Dataset | Levels, str, Encoding | None]], how: WriteOptions
) -> GroupWrite:
    """Return the write of Datasets and pyramids; nothing is written yet.

    Parameters
    ----------
    datasets
        Datasets or pyramids, the paths of their groups, and the encodings of a Dataset's variables.
    how
        The container and the options of the write.

    Raises
    ------
    NodeExistsError
        If something exists that the mode does not allow to replace.
    ValueError
        If a dimension has another size in the arrays that remain.
    """
    root = datasets[0][1]
    plans = [plan_node(dataset, path, encoding, how) for dataset, path, encoding in datasets]
    return write_plans(plans, how, root)


def write_plans(plans: Sequence[GroupPlan], how: WriteOptions, root: str) -> GroupWrite:
    """Return the write of groups of arrays, of which `root` is the first one's path."""
    variables = [variable for plan in plans for variable in plan.variables.values()]
    requests = {
        variable.spec.path.removeprefix(root).strip("/"): request_of(variable, how)
        for variable in variables
    }
    return GroupWrite(
        options=how,
        path=root,
        requests=requests,
        attributes={plan.path: dict(plan.attributes) for plan in plans},
        check=partial(_check, plans, how),
        prepare=partial(_prepare, plans, how),
        closing=partial(close, [replace(p, variables={}, existing=None) for p in plans], how, root),
    )


def _removed(plan: GroupPlan, how: WriteOptions) -> list[str]:
    """Return the arrays to remove: older levels, and in mode "w" all that are not written."""
    if plan.existing is None or how.mode != "w":
        return [*plan.older]
    return [name for name in plan.existing.arrays if name not in plan.variables]


def _check(plans: Sequence[GroupPlan], how: WriteOptions, resumes: bool) -> None:
    """Raise if something must stay, or if a variable is computed from what is replaced."""
    replaced: list[object] = []
    emptied: list[object] = []
    for plan in plans:
        if (existing := plan.existing) is not None:
            check_group(plan, existing, how, resumes=resumes)
            arrays, removed = existing.arrays, _removed(plan, how)
            check_removable(existing.group.url, {name: arrays[name].node for name in removed})
            names = arrays.keys() & {*removed, *plan.variables}
            replaced += [arrays[name].node.identity for name in names]
            emptied += [how.container.identity(plan.path)] if how.mode == "w" else []
    for plan in plans if replaced and not resumes else ():
        for variable in plan.variables.values():
            if is_dask_collection(variable.encoded.data):
                check_independent(variable.encoded.data, replaced, groups=emptied)
    if how.mode == "w" and len(plans) > 1 and not resumes:
        _warn_of_older(plans)


def _warn_of_older(plans: Sequence[GroupPlan]) -> None:
    """Warn about groups of an older tree, which a tree of other groups does not replace."""
    written = "".join(f"/{plan.path}/" for plan in plans)
    older = [
        node.url
        for plan in plans
        for node in (plan.existing.nodes.values() if plan.existing else ())
        if isinstance(node, Group) and f"/{node.path}/" not in written
    ]
    if older:
        warn(f"mode='w' keeps groups that are not in the tree: {', '.join(map(repr, older))}")


def _prepare(plans: Sequence[GroupPlan], how: WriteOptions) -> None:
    """Create the groups, and remove what Datasets replace, except arrays of the same names."""
    for plan in plans:
        group = create_group(how.container, plan.path, mode="a")
        for name in _removed(plan, how):
            if name in group:
                del group[name]
        if plan.existing is not None and how.mode == "w":
            group.attrs.clear()


def close(plans: Sequence[GroupPlan], how: WriteOptions, root: str) -> None:
    """Set the attributes of groups; in mode "a" they are added to their own."""
    for plan in plans:
        group = create_group(how.container, plan.path, mode="a")
        attributes, stale = _changes(plan, group.attrs, how)
        attributes = with_windows(attributes, group) if plan.is_pyramid else attributes
        if attributes or stale:
            group.attrs.change(attributes, stale)
    list_labels(how.container, {plan.path: plan.attributes for plan in plans})
    how.consolidate(root, default=True)


def plan_node(
    dataset: xr.Dataset | Levels,
    path: str,
    encoding: Encoding | None,
    how: WriteOptions,
) -> GroupPlan:
    """Return one Dataset or pyramid in the form of the arrays of its group."""
    existing = existing_at(path, how)
    stays = existing is not None and how.mode == "a"
    if isinstance(dataset, Levels):
        return plan_pyramid(plan_levels(dataset, path, how), existing, how)
    if existing is not None and stays:
        dataset = _with_coordinates(dataset, existing)
    if existing is not None and how.mode != "w" and dataset.variables:
        check_not_scene(existing.group)
    if how.format.native_to_xarray and how.dialect is not None and dataset.variables:
        raise MetadataError(
            f"{join(how.container.url, path)}: dialect={how.dialect!r} cannot describe Datasets "
            "and DataArrays in Zarr, whose coordinates are arrays; omit it, or write an image of "
            "OME-Zarr with xarray_n5.pyramid(image, url, levels=0)"
        )
    return replace(plan_dataset(dataset, path, encoding, how, shared=stays), existing=existing)


def plan_dataset(
    dataset: xr.Dataset,
    path: str,
    encoding: Encoding | None,
    how: WriteOptions,
    *,
    shared: bool = False,
) -> GroupPlan:
    """Return a Dataset in the form of arrays, which may share coordinates with others."""
    plan = plan_group(dataset, path, how.format, encoding, shared=shared)
    for name, variable in plan.variables.items():
        warn_lost(name, variable.geometry.systems, {})
    return plan


def plan_pyramid(plan: GroupPlan, existing: ExistingGroup | None, how: WriteOptions) -> GroupPlan:
    """Return a pyramid's arrays; in mode "a" they replace those of an older one in their group.

    Raises
    ------
    MetadataError
        If the group's other attributes would make readers misread the levels.
    NodeExistsError
        If it describes anything but the levels of a pyramid.
    """
    before: Mapping[str, Any] = {}
    older: Sequence[str] = ()
    if existing is not None and how.mode != "w":
        check_not_scene(existing.group)
    if existing is not None and how.mode == "a":
        dims = next(iter(plan.variables.values())).encoded.dims
        check_coordinates(existing.group, dims)
        check_images(existing.group, plan.variables)
        older = older_levels(existing, plan.variables)
        before = existing.group.attrs
    check_levels(plan, before, how)
    return replace(plan, existing=existing, older=older)


def _with_coordinates(dataset: xr.Dataset, existing: ExistingGroup) -> xr.Dataset:
    """Add the coordinates in the axes of existing arrays, which the Dataset may replace."""
    stored = existing.dataset
    coordinates = {
        dim: stored.variables[dim]
        for dim in stored.dims
        if dim in stored.coords and dim not in existing.arrays and dim not in dataset.variables
        if dataset.sizes.get(dim, stored.sizes[dim]) == stored.sizes[dim]
    }
    return dataset.assign_coords(coordinates) if coordinates else dataset


def request_of(variable: VariablePlan, how: WriteOptions) -> WriteRequest:
    """Return the request to write a variable's array."""
    convention, encoded, spec = convention_of(how.format), variable.encoded, variable.spec
    spec = replace(spec, mode="w-" if how.mode == "w-" else "w")
    if spec.attributes is None:
        placed = convention.coordinates_in_axes and variable.placed
        attributes = convention.array_attributes(encoded, variable.axis_coords, placed=placed)
        spec = replace(spec, attributes=attributes)
        if placed:
            spec = replace(spec, axes=variable.geometry, dialect=how.dialect)
    try:
        return WriteRequest.of(
            encoded.data,
            spec,
            how,
            dims=encoded.dims if len(encoded.dims) == encoded.data.ndim else (),
        )
    except ValueError as error:
        name = spec.path.rpartition("/")[2]
        raise MetadataError(f"variable {name!r}: {error}") from error


def _changes(
    plan: GroupPlan, before: Mapping[str, Any], how: WriteOptions
) -> tuple[dict[str, Any], set[str]]:
    """Return the attributes to set, and the names of those to remove, of those `before`."""
    convention, attributes = convention_of(how.format), dict(plan.attributes)
    if how.mode == "a":
        if note := _merged_note(note_of(before), attributes):
            attributes[convention.roundtrip_key] = note
        named = [each["coordinates"] for each in (before, attributes) if "coordinates" in each]
        if named:
            attributes["coordinates"] = " ".join(dict.fromkeys(" ".join(named).split()))
    if plan.is_pyramid:
        return attributes, stale_keys(before, attributes, how) - attributes.keys()
    return attributes, set()


def _merged_note(before: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the note of a group, with that of what is `written` now."""
    note = note_of(written)
    parts = ("attributes", "text", "bytes", "dtypes")
    new = {*written}.union(*(note.get(part, {}) for part in parts))
    merged: dict[str, Any] = {
        part: {k: v for k, v in before.get(part, {}).items() if k not in new} | note.get(part, {})
        for part in parts
    }
    merged["own"] = sorted({*before.get("own", ()), *note.get("own", ())})
    others = {key: value for key, value in {**before, **note}.items() if key not in merged}
    return others | {key: value for key, value in merged.items() if value}


def stale_keys(
    existing: Mapping[str, Any], written: Mapping[str, Any], how: WriteOptions
) -> set[str]:
    """Return the attributes of a group that a new pyramid in it makes wrong.

    Attributes that N5 readers interpret may be a user's own in other formats.
    """
    described = group_keys() if how.container.lists_x_first else group_keys() & {*KEYS, *written}
    return set(described & existing.keys())


def plan_levels(levels: Levels, path: str, how: WriteOptions) -> GroupPlan:
    """Return the plan of the group of a pyramid.

    Raises
    ------
    MetadataError
        If the format cannot store a level.
    """
    convention = convention_of(how.format)
    nested = how.format.nested_layout or {} if images_of(levels.around) else {}
    variables = {}
    for number, (level, dataset) in enumerate(levels.datasets.items()):
        chosen = levels.encodings.get(level) or {}
        above, _, name = level.rpartition("/")
        encoding: dict[Hashable, Any] = {name: chosen[levels.name]} if chosen else {}
        alone = xr.Dataset({name: dataset[levels.name].variable})
        planned = plan_group(alone, join(path, above), how.format, encoding).variables[name]
        layout = {**nested, **(planned.spec.layout or {})}
        described = _array_attributes(planned, levels, number, convention)
        if "fill_value" not in layout:
            described |= how.format.level_attributes
        spec = replace(planned.spec, layout=layout or None, attributes=described)
        variables[level] = replace(planned, geometry=levels.geometries[number], spec=spec)
    key = convention.roundtrip_key
    attributes = convention.group_attributes(
        levels.attributes, f"group {path or '/'!r}", empty=False
    )
    note = {k: v for k, v in note_of(attributes).items() if k != "dataset"}
    described = _beside(attributes, _named(levels), note, key)
    dtype = next(iter(variables.values())).encoded.data.dtype
    return GroupPlan(
        path=path,
        variables=variables,
        attributes=with_source(described, path, dtype, how.container),
        is_pyramid=True,
    )


def check_levels(plan: GroupPlan, before: Mapping[str, Any], how: WriteOptions) -> None:
    """Raise MetadataError if attributes that remain in a group make readers misread levels.

    The groups above are read in one batch.
    """
    stale = stale_keys(before, plan.attributes, how)
    kept = {key: value for key, value in before.items() if key not in stale}
    contexts: list[ArrayContext] = []
    above: Sequence[Mapping[str, Any]] = ()
    geometries = []
    for name, variable in plan.variables.items():
        data = variable.encoded.data
        metadata = ArrayMetadata(
            shape=data.shape, chunks=(1,) * data.ndim, dtype=data.dtype, compression=resolve(None)
        )
        if not contexts:
            first = load_context(how.container, join(plan.path, name), metadata)
            above = first.parents[1 + name.count("/") :]
        parents = (*({},) * name.count("/"), {**kept, **plan.attributes}, *above)
        context = first.other(join(plan.path, name), variable.spec.attributes or {}, data.shape)
        contexts.append(replace(context, parents=parents, base=None))
        geometries.append(variable.geometry)
    check_pyramid(contexts, geometries, where=join(how.container.url, plan.path))


def _array_attributes(
    planned: VariablePlan, levels: Levels, number: int, convention: Convention
) -> dict[str, Any]:
    """Return all attributes of a level; its note restores the variable."""
    own, encoded = levels.own[number], planned.encoded
    attributes = convention.array_attributes(encoded, levels.coords, placed=bool(own))
    note = {**note_of(attributes), "name": levels.name, "axes": list(levels.coords)}
    if types := levels.types[number]:
        note["types"] = dict(types)
    return _beside(attributes, own, note, convention.roundtrip_key)


def _beside(
    attributes: Mapping[str, Any], described: Mapping[str, Any], note: dict[str, Any], key: str
) -> dict[str, Any]:
    """Merge attributes with those that describe axes; the user's own go to a note."""
    others = {"_ARRAY_DIMENSIONS", key}
    clash = {
        k: attributes[k]
        for k in described.keys() & attributes.keys() - others
        if attributes[k] != described[k]
    }
    own = [name for name in note.pop("own", ()) if name not in described]
    if clash:
        note = {**note, "attributes": {**note.get("attributes", {}), **clash}}
    note |= {"own": own} if own else {}
    rest = {k: v for k, v in attributes.items() if k != key}
    return {**rest, **described, **({key: note} if note else {})}


def _named(levels: Levels) -> dict[str, Any]:
    """Return the attributes that describe the levels on the group, with the image's name."""
    around = named_images(levels.around, levels.name)
    theirs = omero_of(levels.attributes)
    holder = around.get("ome", around)
    if "omero" in holder and channel_labels(holder["omero"]) == channel_labels(theirs):
        holder["omero"] = theirs  # which has its own colours
    return around
