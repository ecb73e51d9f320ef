"""The overwrite policy of groups: Datasets and pyramids, beyond that of single nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.create import (
    check_alone,
    check_not_array,
    groups_around,
    hint_of,
)
from xarray_n5.arrays.group import Group, as_before
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.arrays.records import look
from xarray_n5.datasets.build import build
from xarray_n5.dialects.levels import images_in, level_paths
from xarray_n5.dialects.lists import FACTOR_LISTS
from xarray_n5.errors import MetadataError, NodeExistsError
from xarray_n5.images.select import images_of_arrays
from xarray_n5.leaves import scene_in
from xarray_n5.model.level_names import level_name, number_in
from xarray_n5.model.paths import check_name, join
from xarray_n5.model.roundtrip_attrs import coords_from_axes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import xarray as xr

    from xarray_n5.datasets.encode import GroupPlan
    from xarray_n5.model.image import Image
    from xarray_n5.writing.options import WriteOptions


@dataclass(frozen=True)
class ExistingGroup:
    """A group to write to, with the nodes in it, which are read once."""

    group: Group
    strict: bool = True
    """Whether unreadable nodes raise; otherwise they are ignored."""
    names: Sequence[str] | None = None
    """The names of the nodes to consider; all of them by default."""
    appends: Sequence[Mapping[str, Any]] = ()
    """The records of unfinished appends: arrays are as before these."""

    @cached_property
    def nodes(self) -> Mapping[str, Array | Group]:
        """The nodes directly in the group."""
        names = iter(self.group) if self.names is None else self.names
        return as_before(self.group.nodes(names, strict=self.strict), self.appends)

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
        own = {name: replace(image, name=None) for name, image in self.images.items()}
        return build(own, dict(self.group.attrs))

    def renamed(self, dataset: xr.Dataset) -> xr.Dataset:
        """Return a Dataset with the names of arrays for variables with those of images."""
        names = {image.name: name for name, image in self.images.items() if image.name}
        found = {old: new for old, new in names.items() if old in dataset.data_vars}
        taken = {*found} & {*self.arrays} or {*found.values()} & {*dataset.variables}
        return dataset if taken else dataset.rename(found)


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
        group = Group(container, node, OpenOptions(writable=True))
        return ExistingGroup(group, strict=how.mode != "w-")
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


def check_group(
    plan: GroupPlan, existing: ExistingGroup, how: WriteOptions, *, resumes: bool
) -> None:
    """Raise if something in a group must stay.

    Raises
    ------
    NodeExistsError
        If the mode does not allow to replace it.
    ValueError
        If a dimension has another size in the arrays that remain.
    """
    arrays, url = existing.arrays, existing.group.url
    if how.mode == "w-" and not resumes and (arrays or existing.group.attrs):
        unfinished = any(look(how.store, join(plan.path, name)).opens for name in ("", *arrays))
        modes = "mode='w' first removes all arrays and attributes of the group"
        if not plan.is_pyramid:
            modes = f"mode='a' adds to these and replaces arrays of the same names, {modes}"
        hint = hint_of(modes, resume=bool(how.resume), unfinished=unfinished)
        contained = f"it contains {', '.join(arrays) or 'attributes'}; {hint}"
        raise NodeExistsError(url, "", "a group that is not empty", contained)
    _check_names(plan, existing)
    if how.mode == "a" and not plan.is_pyramid:
        _check_sizes(plan, existing)


def _check_not_a_coordinate(parent: Group, path: str) -> None:
    """Raise if a new group has the name of a coordinate in the axes of arrays next to it."""
    name = path.rpartition("/")[2]
    for array in parent.arrays().values():
        if name in (coords_from_axes(array.attrs) or ()):
            hint = "choose another name for the group"
            raise NodeExistsError(array.url, name, "a coordinate in the array's axes", hint)


def _check_names(plan: GroupPlan, existing: ExistingGroup) -> None:
    """Raise if a coordinate in the axes has the name of a group."""
    groups = existing.nodes.keys() - existing.arrays.keys()
    names = {dim for each in plan.variables.values() for dim in each.axis_coords}
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


def check_coordinates(group: Group, dims: Collection[str | None]) -> None:
    """Raise if arrays are coordinates, which would fit one level only."""
    for name in sorted(set(group) & {dim for dim in dims if dim}):
        hint = "it is a coordinate, and levels differ in size: choose another path for a copy"
        raise NodeExistsError(group.url, name, "an array named like an axis", hint)


def check_images(group: Group, names: Collection[str] = ()) -> None:
    """Raise if the group describes images other than a pyramid of its levels, or of `names`."""
    for image in images_in(group.attrs):
        paths = level_paths(image)
        foreign = [path for path in paths if path not in names and number_in(path) is None]
        if foreign or len(paths) < len(image["datasets"]):
            hint = "delete the attribute 'multiscales', or choose another path"
            raise NodeExistsError(group.url, "", f"an image of {', '.join(foreign)!r}", hint)


def check_attributes(kept: Mapping[str, Any], written: Mapping[str, Any], where: str) -> None:
    """Raise if the group has other values of the attributes to write."""
    if clash := [key for key in written if kept.get(key, written[key]) != written[key]]:
        raise MetadataError(
            f"{where}: the group already has other {clash}; use mode='w' to replace them"
        )


def older_levels(existing: ExistingGroup, names: Collection[str]) -> list[str]:
    """Return the levels of older pyramids beyond the new ones (`names`), to be removed.

    They are those that the group's attributes list, or whose write is unfinished; other arrays may
    have such names, too.
    """
    group = existing.group
    listed = {path for image in images_in(group.attrs) for path in level_paths(image)}
    counts: list[int] = []
    for key in FACTOR_LISTS:
        factors = group.attrs.get(key)
        if isinstance(factors, list) and all(isinstance(each, list) for each in factors):
            counts.append(len(factors))
    listed |= {level_name(number) for number in range(max(counts, default=0))}
    store = group.container.uncached().store
    beyond = [n for n in existing.arrays if number_in(n) is not None and n not in names]
    unfinished = {name for name in beyond if look(store, join(group.path, name)).opens}
    return sorted({*beyond} & (listed | unfinished))
