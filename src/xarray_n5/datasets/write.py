"""Store Datasets as groups: variables as arrays, regular coordinates in the arrays' axes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection

from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.invalidate import revoke
from xarray_n5.arrays.labels import list_labels
from xarray_n5.arrays.marker import find_markers
from xarray_n5.arrays.spec import with_fallback
from xarray_n5.datasets.conventions import convention_of
from xarray_n5.datasets.encoding import plan_group
from xarray_n5.datasets.level_plan import check_levels, plan_levels, stale_keys
from xarray_n5.datasets.ngff import images_of, version_for, warn_lost_systems, with_layout
from xarray_n5.datasets.overwrite import (
    ExistingGroup,
    check_coordinates,
    check_group,
    check_images,
    check_not_scene,
    find_group,
    older_levels,
)
from xarray_n5.datasets.world import is_placed
from xarray_n5.errors import MetadataError
from xarray_n5.images.levels import Levels
from xarray_n5.leaves import scene_writer
from xarray_n5.model.roundtrip_attrs import note_of
from xarray_n5.model.scene import SCENE
from xarray_n5.writing.plan import plan_write
from xarray_n5.writing.request import WriteRequest
from xarray_n5.writing.resume import forget_appends
from xarray_n5.writing.self_reads import check_independent
from xarray_n5.writing.transaction import EarlierRun, Transaction, begin_all, resume_end
from xarray_n5.writing.write import provenance

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    import xarray as xr

    from xarray_n5.arrays.group import Group
    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.datasets.encoding import GroupPlan, VariablePlan
    from xarray_n5.writing.plan import WritePlan
    from xarray_n5.writing.request import Encoding, WriteOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupWrite:
    """The checked write of a Dataset, before anything is written."""

    plan: GroupPlan
    existing: ExistingGroup | None
    replaced: Sequence[object]
    """The identities of the arrays to replace."""
    removed: Sequence[str] = ()
    """The names of other arrays to remove."""


def write(
    datasets: Sequence[tuple[xr.Dataset | Levels, str, Encoding | None]], how: WriteOptions
) -> Transaction:
    """Create groups and arrays, and return the transaction that writes their data.

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
    own = [each for each, _, _ in datasets if not isinstance(each, Levels)]
    if how.dialect == SCENE and any(map(is_placed, own)):
        return scene_writer("write_datasets")(datasets, how)
    marker = how.marker(root, datasets)
    earlier = EarlierRun.of(marker, how)
    if earlier.is_done:
        return resume_end(marker, earlier.facts or {}, remembered=how.remembered)
    groups = [
        _plan_group(dataset, path, encoding, how, resumes=earlier.exists)
        for dataset, path, encoding in datasets
    ]
    _check_sources(groups, how)
    writes = [_plan_writes(each.plan, how, earlier.written) for each in groups]
    if earlier.has_ended and all(plan.is_done for plans in writes for plan in plans.values()):
        return Transaction(_named(writes, root), marker, has_ended=True)
    # All checks have passed.
    if how.format.one_writer:
        create_group(how.container, root, mode="a")  # a new file has no markers
    elif groups[0].existing is None:
        if root:  # a new container is recognised before there is anything in it
            create_group(how.container, root.rpartition("/")[0], mode="a")
        marker = replace(marker, first=True)
    if groups[0].existing is not None and how.mode in {"w-", "w"}:
        _end_others(marker)
    planned = earlier.facts is not None
    marker.begin({**provenance(), "written": earlier.written}, planned=planned)
    begun: list[dict[str, WritePlan]] = []
    for each, plans in zip(groups, writes, strict=True):
        if each.existing is None:
            attributes, _ = _attributes(each.plan, {}, how)
            create_group(how.container, each.plan.path, attributes=attributes, mode="a")
            begun.append(begin_all(plans, marker))
            continue
        group = create_group(how.container, each.plan.path, mode="a")
        _make_room(each, group, how)
        begun.append(begin_all(plans, marker, partial(_write_attributes, each.plan, group, how)))
    list_labels(how.container, {each.plan.path: each.plan.attributes for each in groups})
    how.consolidate(root, default=True)
    return Transaction(_named(begun, root), marker, remembered=how.remembered)


def _named(writes: Iterable[Mapping[str, WritePlan]], root: str) -> dict[str, WritePlan]:
    """Return the writes of several groups by their names in the report."""
    plans = (item for each in writes for item in each.items())
    return {path.removeprefix(root).strip("/"): plan for path, plan in plans}


def _plan_group(
    dataset: xr.Dataset | Levels,
    path: str,
    encoding: Encoding | None,
    how: WriteOptions,
    *,
    resumes: bool,
) -> _GroupWrite:
    """Plan the write of one Dataset or pyramid, and check it against the nodes in its group."""
    convention, group = convention_of(how.format), find_group(path, how)
    existing = None if group is None else ExistingGroup(group, strict=how.mode != "w-")
    stays = existing is not None and how.mode == "a"
    if isinstance(dataset, Levels):
        return _plan_pyramid(dataset, path, existing, how, resumes=resumes)
    if existing is not None and stays:
        dataset = _with_coordinates(dataset, existing)
    if group is not None and how.mode != "w" and dataset.variables:
        check_not_scene(group)
    plan = plan_group(dataset, path, convention, encoding, shared=stays)
    plan = _with_fallbacks(plan, how)
    images: Mapping[str, Any] = {}
    if how.format.native_to_xarray:
        kept = existing.group.attrs if existing and stays else {}
        version = version_for(how.dialect, how.format.ngff_version)
        images = images_of(plan, kept, how.dialect, version)
        plan = with_layout(plan, images, how.format.nested_layout or {})
    if any(variable.geometry.systems for variable in plan.variables.values()):
        warn_lost_systems(plan, images)
    replaced = [] if existing is None else check_group(plan, existing, how, resumes=resumes)
    places = [array.node.identity for array in replaced]
    return _GroupWrite(plan=plan, existing=existing, replaced=places)


def _plan_pyramid(
    levels: Levels, path: str, existing: ExistingGroup | None, how: WriteOptions, *, resumes: bool
) -> _GroupWrite:
    """Plan the write of a pyramid; in mode "a" it replaces an older one in its group."""
    plan = _with_fallbacks(plan_levels(levels, path, how), how)
    kept: Mapping[str, Any] = {}
    removed: Sequence[str] = ()
    if existing is not None and how.mode != "w":
        check_not_scene(existing.group)
    if existing is not None and how.mode == "a":
        check_coordinates(existing.group, [str(dim) for dim in levels.dims])
        check_images(existing.group)
        removed = older_levels(existing.group, plan.variables, [])
        kept = existing.group.attrs
    check_levels(plan, {k: v for k, v in kept.items() if k not in _stale(plan, kept, how)}, how)
    replaced = [] if existing is None else check_group(plan, existing, how, resumes=resumes)
    replaced += [existing.arrays[name] for name in removed] if existing is not None else []
    places = [array.node.identity for array in replaced]
    return _GroupWrite(plan=plan, existing=existing, replaced=places, removed=removed)


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


def _with_fallbacks(plan: GroupPlan, how: WriteOptions) -> GroupPlan:
    """Replace compressions of opened files that the format does not support."""
    variables = dict(plan.variables)
    for name, variable in plan.variables.items():
        if not variable.explicit:
            data, spec = variable.encoded.data, variable.spec
            sides = replace(
                spec, chunks=spec.chunks or (1,) * data.ndim, shards=None, attributes=None
            )
            metadata = sides.metadata(data.shape, data.dtype, name)
            found = with_fallback(how.format, metadata, spec.layout, name)
            spec = replace(spec, compression=found.compression)
            variables[name] = replace(variable, spec=spec)
    return replace(plan, variables=variables)


def _check_sources(groups: Sequence[_GroupWrite], how: WriteOptions) -> None:
    """Raise if a variable is computed from an array that another one replaces."""
    replaced = [place for each in groups for place in each.replaced]
    emptied = [
        each.existing.group.container.identity(each.existing.group.path)
        for each in groups
        if each.existing and how.mode == "w"
    ]
    for each in groups if replaced else ():
        for variable in each.plan.variables.values():
            if is_dask_collection(variable.encoded.data):
                check_independent(variable.encoded.data, replaced, groups=emptied)


def _plan_writes(
    plan: GroupPlan, how: WriteOptions, written: Container[str]
) -> dict[str, WritePlan]:
    """Return the checked writes of a group's arrays by path; the `written` ones start afresh."""
    anew = replace(how, mode="w", resume=False)
    return {
        each.spec.path: plan_write(_request(each, anew if each.spec.path in written else how))
        for each in plan.variables.values()
    }


def _request(variable: VariablePlan, how: WriteOptions) -> WriteRequest:
    convention, encoded, spec = convention_of(how.format), variable.encoded, variable.spec
    spec = replace(spec, mode="w-" if how.mode == "w-" else "w")
    if not (variable.explicit or how.format.holds_shards):
        spec = replace(spec, shards=None)  # those of the file that it was opened from
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
            deferred=how.deferred and is_dask_collection(encoded.data),
        )
    except ValueError as error:
        name = spec.path.rpartition("/")[2]
        raise MetadataError(f"variable {name!r}: {error}") from error


def _end_others(marker: WriteMarker) -> None:
    """Remove the markers of writes to arrays that are replaced, or were never created."""
    listing = marker.store.list(marker.path)
    forget_appends(marker, listing)
    begun, planned = find_markers(marker.store, marker.path, listing=listing)
    for other in begun:
        if other != marker:
            other.end()
    for other in planned:
        if other != marker:
            revoke(other)


def _make_room(write: _GroupWrite, group: Group, how: WriteOptions) -> None:
    """Remove what a Dataset replaces in its group, except arrays of the same names."""
    if write.existing is not None and how.mode == "w":
        for name in write.existing.arrays.keys() - write.plan.variables.keys():
            del group[name]
        group.attrs.clear()
    for name in write.removed:
        del group[name]


def _write_attributes(plan: GroupPlan, group: Group, how: WriteOptions) -> None:
    """Set the attributes of a group; in mode "a" they are added to its own."""
    attributes, stale = _attributes(plan, group.attrs, how)
    if attributes or stale:
        group.attrs.change(attributes, stale)


def _attributes(
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
        return attributes, _stale(plan, before, how) - attributes.keys()
    images: dict[str, Any] = {}
    if how.format.native_to_xarray:
        version = version_for(how.dialect, how.format.ngff_version)
        images = images_of(plan, before, how.dialect, version)
    stale = {key for key, value in images.items() if value is None}
    return {k: v for k, v in (attributes | images).items() if k not in stale}, stale


def _stale(plan: GroupPlan, existing: Mapping[str, Any], how: WriteOptions) -> set[str]:
    return stale_keys(existing, plan.attributes, lists_x_first=how.container.lists_x_first)


def _merged_note(before: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the note of a group, with that of what is `written` now."""
    note = note_of(written)
    kept = {k: v for k, v in before.get("attributes", {}).items() if k not in written}
    attributes = {**kept, **note.get("attributes", {})}
    own = sorted({*before.get("own", ()), *note.get("own", ())})
    return {
        **{key: value for key, value in before.items() if key != "attributes"},
        **note,
        **({"attributes": attributes} if attributes else {}),
        **({"own": own} if own else {}),
    }
