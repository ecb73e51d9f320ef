"""Plan the groups of a copy: as they are stored in one format, or as `to_n5` writes what opens."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.context import context_of
from xarray_n5.arrays.create import groups_around
from xarray_n5.arrays.labels import relisted
from xarray_n5.copying.variables import (
    NAMES,
    described,
    undecoded,
    variable_alone,
    without_nan,
)
from xarray_n5.datasets.encode import GroupPlan
from xarray_n5.datasets.encoded import NAMELESS, decode_attributes
from xarray_n5.datasets.engine import tree_attributes
from xarray_n5.datasets.write import existing_at, plan_node
from xarray_n5.dialects.ngff_attributes import (
    are_described,
    images_of,
    omero_of,
    warn_lost,
    warn_uncopied,
    with_others,
    without_images,
)
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.images.find import (
    levels_among,
    levels_of,
    listed_levels,
    name_of_group,
    named_alike,
)
from xarray_n5.images.levels import levels_of_datasets
from xarray_n5.images.select import images_of_arrays, levels_in_groups, share_dimensions
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import join
from xarray_n5.model.roundtrip_attrs import coords_from_axes, is_dataset, is_text, user_attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.copying.variables import Storage
    from xarray_n5.datasets.encode import VariablePlan
    from xarray_n5.images.levels import Levels
    from xarray_n5.model.image import Image
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.writing.options import WriteOptions

_BESIDE_IMAGES = ("ome", "omero", "image-label")
"""The attributes of a group that belong to its image, besides axes."""


def plan_array(array: Array, how: WriteOptions, path: str, storage: Storage) -> VariablePlan:
    """Return an array as it is stored outside of its group."""
    tree = Tree(arrays={"": array}, groups={}, how=how, path=path, storage=storage)
    image = tree.images[""]
    if tree.keeps([array]):
        warn_lost(array.path, image.base.geometry.systems, {})
    return tree.array("", image)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The nodes of a copy, and what is known of them."""

    arrays: Mapping[str, Array]
    """The arrays by their paths in the copy."""
    groups: Mapping[str, Group]
    how: WriteOptions
    path: str
    """The path of the copy in its container."""
    storage: Storage
    images: dict[str, Image[Array]] = field(default_factory=dict)
    """The arrays with their axes."""
    attributes: dict[str, Attributes] = field(default_factory=dict)
    """The attributes of groups by their paths in the container, as far as they are planned."""
    done: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The attributes of planned arrays."""

    def __post_init__(self) -> None:
        members: dict[str, dict[str, Array]] = {}
        for inner, array in self.arrays.items():
            above, _, name = inner.rpartition("/")
            members.setdefault(above, {})[name] = array
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are shown when the source is opened
            for above, found in members.items():
                images = images_of_arrays(found).items()
                self.images.update({join(above, name): image for name, image in images})
        depth = {inner: inner.count("/") + 1 if inner else 0 for inner in self.arrays}
        nodes = {inner: context_of(array.node) for inner, array in self.arrays.items()}
        warn_uncopied((node, node.path.count("/") + 1 - depth[at]) for at, node in nodes.items())
        around = groups_around(self.how.container, self.path)
        self.attributes.update({node.path: node.metadata.attributes for node in around})

    def plan(self, *, is_part: bool) -> list[GroupPlan]:
        """Return all groups as they are stored; `is_part` if some nodes are left out.

        Raises
        ------
        MetadataError
            If the format cannot store an array, or the user's dialects cannot describe it.
        """
        planned = {inner: self.group(inner, is_part=is_part) for inner in self.groups}
        return list(self.with_labels(planned).values())

    def keeps(self, arrays: Iterable[Array]) -> bool:
        """Whether nodes are kept as they are stored; HDF5's strings of any length cannot be."""
        forms = {array.node.format.name for array in self.arrays.values()}
        return (
            forms <= {self.how.format.name}
            and self.how.dialect is None
            and not any(array.node.format.one_writer and array.dtype.hasobject for array in arrays)
        )

    def group(self, inner: str, *, is_part: bool) -> GroupPlan:
        """Return the plan of a group; `is_part` if some nodes are left out."""
        group, path = self.groups[inner], join(self.path, inner)
        members = {
            at.rpartition("/")[2]: array
            for at, array in self.arrays.items()
            if at.rpartition("/")[0] == inner and at not in self.done
        }
        listed = [join(inner, level) for level in listed_levels(group.attrs)]
        levels = self._levels(group, inner, members)
        lacks_levels = is_part and any(level not in self.arrays for level in listed)
        keeps = self.keeps(members.values()) and not lacks_levels
        variables: dict[str, VariablePlan] = {}
        how = self.how
        if not keeps and (pyramid := self._pyramid(group, path, levels)) is not None:
            plan = plan_node(pyramid, path, None, how)
            variables = self._stored(inner, plan.variables, levels)
        elif not keeps and (dataset := self._dataset(group, inner, members)) is not None:
            if how.format.native_to_xarray:
                how = replace(how, dialect=None)
            plan = plan_node(dataset, path, None, how)
            variables = self._stored(inner, plan.variables, members)
        else:
            attributes = dict(group.attrs) if keeps else self._plain(group, inner, levels)
            plan = GroupPlan(
                path=path,
                variables={},
                attributes=attributes,
                is_pyramid=keeps and bool(levels),
                existing=existing_at(path, how),
            )
        self.attributes[path] = plan.attributes
        for name in [name for name in members if name not in variables]:
            variables[name] = self.array(join(inner, name), self.images[join(inner, name)])
        return replace(plan, variables=variables)

    def _stored(
        self, inner: str, variables: Mapping[str, VariablePlan], arrays: Mapping[str, Array]
    ) -> dict[str, VariablePlan]:
        """Return variables in the chunks of their arrays; others are coordinates."""
        self.done.update({join(inner, name): {} for name in arrays})
        return {
            name: self.storage.of_variable(variable, arrays[name], variable.spec.path)
            if name in arrays
            else variable
            for name, variable in variables.items()
        }

    def array(self, inner: str, image: Image[Array]) -> VariablePlan:
        """Return an array that is not part of a Dataset or a described pyramid."""
        array, geometry = image.base.first, image.base.geometry
        context = self._context(inner, array)
        if self.keeps([array]) or array.dtype.kind == "V":
            attributes = without_nan(array.attrs)
            attributes |= described(array, geometry, replace(context, attributes=attributes))
            variable = self.storage.as_stored(array, geometry, attributes, context.path)
        else:
            name = array.node.name or NAMELESS
            variable = variable_alone(name, image, context, self.how, self.storage)
        self.done[inner] = variable.spec.attributes or {}
        return variable

    def _context(self, inner: str, array: Array) -> ArrayContext:
        """Return an array of the copy, without attributes, in the groups around it."""
        container, path = self.how.container, join(self.path, inner)
        parts = path.split("/")[:-1]
        above = ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)] if path else []
        context = ArrayContext(
            shape=array.shape,
            path=path,
            parents=tuple(self.attributes.get(group, {}) for group in above[:3]),
            lists_x_first=container.lists_x_first,
        )
        base = join(inner.rpartition("/")[0], "s0")
        if base == inner or base not in self.done or self.arrays[base].ndim != array.ndim:
            return context
        shape, attributes = self.arrays[base].shape, self.done[base]
        return replace(context, base=context.other(join(self.path, base), attributes, shape))

    def _levels(self, group: Group, inner: str, members: Mapping[str, Array]) -> dict[str, Array]:
        """Return the levels in a group; a single one only if the group lists it."""
        if is_dataset(group.attrs):
            return {}
        known = levels_of(group, members)
        levels = {at: array for at, array in known.items() if join(inner, at) in self.arrays}
        own = levels_in_groups(group, levels) if any("/" in level for level in levels) else {}
        if any("/" in level and level not in own for level in levels):
            return {}  # of Datasets, which are copied as such
        is_listed = [*levels][:1] == listed_levels(group.attrs)[:1]
        return levels if len(levels) > 1 or is_listed else {}

    def _pyramid(self, group: Group, path: str, levels: Mapping[str, Array]) -> Levels | None:
        """Return the levels of a group in the form in which trees are stored."""
        inner = path.removeprefix(self.path).strip("/")
        images = {level: self.images[join(inner, level)] for level in levels}
        images = named_alike(images, name_of_group(group))
        if not images or any(image.base.geometry.affine for image in images.values()):
            return None
        attributes = tree_attributes(group.attrs, images, [])
        beside = {key: group.attrs[key] for key in _BESIDE_IMAGES if key in group.attrs}
        beside = {key: each for key, each in beside.items() if key in attributes}
        others = {key: value for key, value in attributes.items() if key not in beside}
        found = levels_of_datasets(
            {level: undecoded({level: image}, {}, self.storage) for level, image in images.items()},
            decode_attributes(others, group.path or "/"),
            path,
            self.how,
            systems=next(iter(images.values())).base.geometry.systems,
        )
        around = {} if found is None else with_others(found.around, group.attrs)
        if not are_described(around):
            around = {**without_images(beside), **around}
            if self.how.dialect is None and self.how.format.native_to_xarray:
                _warn_undescribed(group, self.how)
            elif self.how.dialect is not None and omero_of(group.attrs) is not None:
                warn(
                    f"{group.url}: the names and colours of channels in 'omero' are kept as an "
                    "attribute, but readers ignore them without an image of OME-NGFF; add the "
                    "dialect 'ngff' for them"
                )
        return None if found is None else replace(found, around=around)

    def _dataset(self, group: Group, inner: str, members: Mapping[str, Array]) -> Any:
        """Return the arrays of a group as a Dataset, or None if they are not its variables."""
        if not members:
            empty = xr.Dataset(attrs=decode_attributes(group.attrs, group.path or "/"))
            return empty if is_dataset(group.attrs) else None
        if not (is_dataset(group.attrs) or share_dimensions(members, group.attrs)):
            return None
        images = {name: self.images[join(inner, name)] for name in members}
        if not all(_is_variable(name, image) for name, image in images.items()):
            return None
        with suppress(ValueError):  # coordinates differ
            return undecoded(images, group.attrs, self.storage)
        return None

    def _plain(self, group: Group, inner: str, levels: Mapping[str, Array]) -> dict[str, Any]:
        """Return the attributes of a group that do not describe arrays, whose copies do that."""
        prefix = f"{inner}/" if inner else ""
        below = [image for at, image in self.images.items() if at.startswith(prefix)]
        used = frozenset[str]().union(*(image.base.geometry.keys for image in below))
        images = {level: self.images[join(inner, level)] for level in levels}
        names = [*levels]
        kept = tree_attributes(
            group.attrs,
            named_alike(images, name_of_group(group)),
            names if names != levels_among(names) else [],
        )
        used -= {*user_attributes(group.attrs), "multiscales"}
        return {key: value for key, value in kept.items() if key not in used}

    def with_labels(self, planned: Mapping[str, GroupPlan]) -> dict[str, GroupPlan]:
        """Return groups with lists of labels in the version of their images."""
        listed = dict(planned)
        for inner, plan in planned.items() if not self.keeps([]) else ():
            images = {
                name: each.attributes
                for at, each in planned.items()
                if (name := at.removeprefix(f"{inner}/".lstrip("/"))) and "/" not in name
            }
            if new := relisted(self.groups[inner].attrs, images):
                rest = {
                    key: value
                    for key, value in plan.attributes.items()
                    if key not in {"ome", "labels"}
                }
                listed[inner] = replace(plan, attributes=rest | new)
        return listed


def _is_variable(name: str, image: Image[Array]) -> bool:
    """Return whether an array is a variable: not an image with attributes of other programs."""
    level = image.base
    if image.name is not None:
        return False
    dims = [str(axis.name) for axis in level.named().axes]
    if is_text(level.attributes):
        del dims[-1]  # that of characters
    if len(dims) > 1 and name in dims:
        return False  # it opens under another name
    if coords_from_axes(level.attributes) is not None:
        return True
    others = level.geometry.keys - {NAMES, "units"}
    return not (level.geometry.placed and others & level.attributes.keys())


def _warn_undescribed(group: Group, how: WriteOptions) -> None:
    """Warn about an image that becomes levels without one."""
    if images_of(group.attrs):
        warn(
            f"{group.url}: 'multiscales' has no axes that OME-NGFF {how.format.ngff_version} can "
            "describe; viewers find no image in the copy (the axes that open from the source say "
            "why)"
        )
