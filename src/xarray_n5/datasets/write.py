"""Store Datasets as groups: variables as arrays, regular coordinates in the arrays' axes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import (
    check_alone,
    check_not_array,
    check_removable,
    groups_around,
    hint_of,
)
from xarray_n5.arrays.group import Group, as_before, create_group, list_labels
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.arrays.records import look
from xarray_n5.datasets.build import build
from xarray_n5.datasets.encode import GroupPlan, plan_group
from xarray_n5.datasets.encoded import convention_of
from xarray_n5.datasets.pyramid import plan_levels, plan_pyramid
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.images.channels import with_windows
from xarray_n5.images.levels import Levels, stale_keys
from xarray_n5.images.select import images_of_arrays
from xarray_n5.leaves import scene_in
from xarray_n5.model.alerts import warn
from xarray_n5.model.metadata import coords_from_axes, note_of
from xarray_n5.model.paths import check_name, join
from xarray_n5.writing.group import GroupWrite
from xarray_n5.writing.inputs import check_apart
from xarray_n5.writing.request import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import xarray as xr

    from xarray_n5.datasets.encode import VariablePlan
    from xarray_n5.model.image import Image
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


def plan_node(
    dataset: xr.Dataset | Levels,
    path: str,
    encoding: Encoding | None,
    how: WriteOptions,
) -> GroupPlan:
    """Return one Dataset or pyramid in the form of the arrays of its group."""
    existing = existing_at(path, how)
    if isinstance(dataset, Levels):
        return plan_pyramid(plan_levels(dataset, path, how), existing, how)
    shared = existing is not None and how.mode == "a"
    if existing is not None and shared:
        dataset = _with_coordinates(dataset, existing)
    if how.format.native_to_xarray and how.dialect is not None and dataset.variables:
        raise MetadataError(
            f"{join(how.container.url, path)}: dialect={how.dialect!r} cannot describe Datasets "
            "and DataArrays in Zarr, whose coordinates are arrays; omit it, or write an image of "
            "OME-Zarr with xarray_n5.pyramid(image, url, levels=0)"
        )
    plan = plan_group(dataset, path, how.format, encoding, shared=shared, storage=how.storage)
    return replace(plan, existing=existing)


@dataclass(frozen=True)
class ExistingGroup:
    """A group to write to, with the nodes in it, which are read once."""

    group: Group
    names: Sequence[str] | None = None
    """The names of the nodes to consider; all of them by default."""
    appends: Sequence[Mapping[str, Any]] = ()
    """The records of unfinished appends: arrays are as before these."""

    @cached_property
    def nodes(self) -> Mapping[str, Array | Group]:
        """The nodes directly in the group."""
        names = iter(self.group) if self.names is None else self.names
        return as_before(self.group.nodes(names, strict=True), self.appends)

    @cached_property
    def arrays(self) -> Mapping[str, Array]:
        """The arrays directly in the group."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, Array)}

    @cached_property
    def images(self) -> Mapping[str, Image[Array]]:
        """The arrays with their axes."""
        return images_of_arrays(self.arrays) if self.arrays else {}

    @cached_property
    def dataset(self) -> xr.Dataset:
        """The arrays as a Dataset of variables with their names."""
        arrays = {name: replace(image, name=None) for name, image in self.images.items()}
        return build(arrays, dict(self.group.attrs))

    def renamed(self, dataset: xr.Dataset) -> xr.Dataset:
        """Return a Dataset with the names of arrays for variables with those of images."""
        names = {image.name: name for name, image in self.images.items() if image.name}
        names = {old: new for old, new in names.items() if old in dataset.data_vars}
        taken = {*names} & {*self.arrays} or {*names.values()} & {*dataset.variables}
        return dataset if taken else dataset.rename(names)


def existing_at(path: str, how: WriteOptions) -> ExistingGroup | None:
    """Return the group at `path`, or None if it can be created.

    Raises
    ------
    NodeExistsError
        If it, or a node around it, is an array or of another format.
    ValueError
        If a group cannot have its name.
    """
    container, inner = how.container, path.removeprefix(how.root).strip("/")
    for part in inner.split("/") if inner else []:
        check_name(part, "group")
    groups, node = groups_around(container, path), container.node(path)
    check_alone(container, [*groups, node])
    check_not_array(container, node)
    if container.exists(node):
        return ExistingGroup(Group(container, node, OpenOptions(writable=True)))
    if groups:
        _check_not_a_coordinate(Group(container, groups[-1], OpenOptions(writable=True)), path)
    return None


def check_not_scene(group: Group) -> None:
    """Raise NodeExistsError if a group describes a scene, whose variables are not in it."""
    if (scene := scene_in(group)) is not None:
        raise NodeExistsError(
            group.container.url,
            group.path,
            f"a {scene.kind}, which has no variables of its own",
            "choose a group in it, or another container; a scene of OME-Zarr is replaced as a "
            "whole, by to_scene with mode='w'",
        )


def _check_not_a_coordinate(parent: Group, path: str) -> None:
    """Raise if a new group has the name of a coordinate in the axes of arrays next to it."""
    name = path.rpartition("/")[2]
    for array in parent.arrays().values():
        if name in (coords_from_axes(array.attrs) or ()):
            hint = "choose another name for the group"
            raise NodeExistsError(array.url, name, "a coordinate in the array's axes", hint)


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
        return WriteRequest.of(encoded.data, spec, how, dims=encoded.names)
    except ValueError as error:
        name = spec.path.rpartition("/")[2]
        raise MetadataError(f"variable {name!r}: {error}") from error


def _removed(plan: GroupPlan, how: WriteOptions) -> list[str]:
    """Return the arrays to remove: older levels, and in mode "w" all that are not written."""
    if plan.existing is None or how.mode != "w":
        return [*plan.older]
    return [name for name in plan.existing.arrays if name not in plan.variables]


def _check(plans: Sequence[GroupPlan], how: WriteOptions, resumes: bool) -> None:
    """Raise if something must stay, or if a variable is computed from what is replaced.

    Raises
    ------
    NodeExistsError
        If the mode does not allow to replace something.
    ValueError
        If a dimension has another size in the arrays that remain.
    """
    replaced: list[str] = []
    emptied: list[str] = []
    for plan in plans:
        if (existing := plan.existing) is None:
            continue
        if how.mode == "w-" and not resumes:
            _check_empty(plan, existing, how)
        if how.mode != "w" and plan.variables:
            check_not_scene(existing.group)
        _check_names(plan, existing)
        if how.mode == "a" and not plan.is_pyramid:
            _check_sizes(plan, existing)
        arrays, removed = existing.arrays, _removed(plan, how)
        check_removable(existing.group.url, {name: arrays[name].node for name in removed})
        replaced += [arrays[name].path for name in arrays.keys() & {*removed, *plan.variables}]
        emptied += [plan.path] if how.mode == "w" else []
    if replaced and not resumes:
        data = [variable.encoded.data for plan in plans for variable in plan.variables.values()]
        check_apart(data, how.container, replaced, emptied)
    if how.mode == "w" and len(plans) > 1 and not resumes:
        _warn_of_older(plans)


def _check_empty(plan: GroupPlan, existing: ExistingGroup, how: WriteOptions) -> None:
    """Raise if a group holds anything, or if a write of it is unfinished."""
    arrays = existing.arrays
    if not arrays and not existing.group.attrs:
        return
    unfinished = any(look(how.store, join(plan.path, name)).opens for name in ("", *arrays))
    modes = "mode='w' first removes all arrays and attributes of the group"
    if not plan.is_pyramid:
        modes = f"mode='a' adds to these and replaces arrays of the same names, {modes}"
    hint = hint_of(modes, resume=bool(how.resume), unfinished=unfinished)
    contained = f"it contains {', '.join(arrays) or 'attributes'}; {hint}"
    raise NodeExistsError(existing.group.url, "", "a group that is not empty", contained)


def _check_names(plan: GroupPlan, existing: ExistingGroup) -> None:
    """Raise if a coordinate in the axes has the name of a group."""
    groups = existing.nodes.keys() - existing.arrays.keys()
    names = {dim for variable in plan.variables.values() for dim in variable.axis_coords}
    for name in sorted(groups & names):
        raise NodeExistsError(existing.group.url, name, "a group", "rename the coordinate")


def _check_sizes(plan: GroupPlan, existing: ExistingGroup) -> None:
    """Raise if a dimension has another size in the arrays that remain."""
    sizes: dict[str, int] = {}
    for variable in plan.variables.values():
        encoded = variable.encoded
        shared = encoded.dims[:-1] if encoded.is_string else encoded.dims
        sizes |= dict(zip(shared, encoded.data.shape, strict=False))
    stored = existing.dataset
    for dim, size in stored.sizes.items():
        if sizes.get(str(dim), size) != size:
            raise ValueError(
                f"Unable to update size for existing dimension {dim!r} of {list(stored.variables)} "
                f"in {existing.group.url!r}: it is {size}, not {sizes[str(dim)]}; replace all of "
                "them with mode='w'"
            )


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
    if pyramids := {plan.path: plan.attributes for plan in plans if plan.is_pyramid}:
        list_labels(how.container, pyramids)
    how.consolidate(root, default=True)


def _changes(
    plan: GroupPlan, before: Mapping[str, Any], how: WriteOptions
) -> tuple[dict[str, Any], set[str]]:
    """Return the attributes to set, and the names of those to remove, of those `before`."""
    convention, attributes = convention_of(how.format), dict(plan.attributes)
    if how.mode == "a":
        if note := _merged_note(note_of(before), attributes):
            attributes[convention.roundtrip_key] = note
        named = [these["coordinates"] for these in (before, attributes) if "coordinates" in these]
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
    merged: dict[str, Any] = {**before, **note}
    for part in parts:
        older = {key: value for key, value in before.get(part, {}).items() if key not in new}
        merged[part] = older | note.get(part, {})
    merged["own"] = sorted({*before.get("own", ()), *note.get("own", ())})
    return {key: value for key, value in merged.items() if value}
