"""The overwrite policy of Datasets, beyond that of single arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from xarray_n5.arrays.access import foreign_key, nodes_of
from xarray_n5.arrays.array import Array
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.marker import unfinished_writes
from xarray_n5.arrays.options import OpenOptions
from xarray_n5.arrays.overwrite import check_alone, groups_around
from xarray_n5.datasets.build import build
from xarray_n5.errors import NodeExistsError
from xarray_n5.images.select import images_of_arrays
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import check_name, join
from xarray_n5.model.roundtrip_attrs import coords_from_axes
from xarray_n5.writing.completed import NOT_UNFINISHED, OTHER_DATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import xarray as xr

    from xarray_n5.datasets.encoding import GroupPlan
    from xarray_n5.model.image import Image
    from xarray_n5.writing.request import WriteOptions


@dataclass(frozen=True)
class ExistingGroup:
    """A group to write to, with the nodes in it, which are read once."""

    group: Group
    strict: bool = True
    """Whether unreadable nodes raise; otherwise they are ignored."""
    names: Sequence[str] | None = None
    """The names of the nodes to consider; all of them by default."""

    @cached_property
    def nodes(self) -> Mapping[str, Array | Group]:
        """The nodes directly in the group."""
        names = iter(self.group) if self.names is None else self.names
        return nodes_of(self.group, names, strict=self.strict)

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


def find_group(path: str, how: WriteOptions) -> Group | None:
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
    if isinstance(node.metadata, ArrayMetadata):
        raise NodeExistsError(
            container.url, path, "an array", "an array cannot contain other nodes"
        )
    if container.exists(node):
        return Group(container, node, OpenOptions(writable=True))
    if groups:
        _check_not_a_coordinate(Group(container, groups[-1], OpenOptions(writable=True)), path)
    return None


def check_group(
    plan: GroupPlan, existing: ExistingGroup, how: WriteOptions, *, resumes: bool
) -> list[Array]:
    """Return the arrays that a Dataset replaces.

    Raises
    ------
    NodeExistsError
        If something must stay.
    ValueError
        If a dimension has another size in the arrays that remain.
    """
    arrays, url = existing.arrays, existing.group.url
    if how.mode == "w-" and not resumes and (arrays or existing.group.attrs):
        hint = _hint(_unfinished(plan.path, arrays, how), arrays, resume=bool(how.resume))
        raise NodeExistsError(url, "", "a group that is not empty", hint)
    _check_names(plan, existing)
    if how.mode == "a" and not plan.is_pyramid:
        _check_sizes(plan, existing)
    for name in arrays.keys() - plan.variables.keys() if how.mode == "w" else ():
        if other := foreign_key(arrays[name]):
            hint = f"it contains {other!r}, which would be deleted with it; move that away first"
            raise NodeExistsError(url, name, "an array with other files", hint)
    return [each for n, each in arrays.items() if how.mode == "w" or n in plan.variables]


def _check_not_a_coordinate(parent: Group, path: str) -> None:
    """Raise if a new group has the name of a coordinate in the axes of arrays beside it."""
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


def _unfinished(path: str, arrays: Iterable[str], how: WriteOptions) -> list[str]:
    """Return the names of the arrays with an unfinished write, and "" if the group has one."""
    return [name for name in ("", *arrays) if unfinished_writes(how.store, join(path, name))]


def _hint(unfinished: Sequence[str], arrays: Iterable[str], *, resume: bool) -> str:
    """Return the hint for a group that exists."""
    contained = f"it contains {', '.join(arrays) or 'attributes'}"
    if resume:
        return f"{contained}; {OTHER_DATA if unfinished else NOT_UNFINISHED}"
    if not unfinished:
        return (
            f"{contained}; mode='a' adds to these and replaces arrays of the same names, mode='w' "
            "first removes all arrays and attributes of the group"
        )
    of = ", ".join(filter(None, unfinished))
    return (
        f"it has an unfinished write{of and f' of {of}'}; resume it with resume=True, or start "
        "again with mode='w'"
    )
