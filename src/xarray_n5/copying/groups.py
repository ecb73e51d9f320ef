"""Plan the groups of a copy: as they are stored in one format, or as `to_n5` writes what opens."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import xarray as xr

from xarray_n5.arrays.context import context_of
from xarray_n5.arrays.create import groups_around
from xarray_n5.arrays.group import relisted
from xarray_n5.arrays.spec import ArraySpec, supported
from xarray_n5.codecs import resolve
from xarray_n5.copying.undecoded import (
    NAMES,
    elements,
    is_variable,
    plain_numbers,
    undecoded,
    without_marks,
)
from xarray_n5.datasets.encode import GroupPlan, VariablePlan, is_large, plan_group
from xarray_n5.datasets.encoded import (
    NAMELESS,
    EncodedVariable,
    convention_of,
    decode_attributes,
)
from xarray_n5.datasets.engine import tree_attributes
from xarray_n5.datasets.write import existing_at, plan_node
from xarray_n5.dialects.groups import (
    warn_lost,
    warn_uncopied,
)
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.dialects.write import override, write_geometry
from xarray_n5.formats.zarr3.codecs import compressor_to_json
from xarray_n5.formats.zarr3.layout import adapted
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
from xarray_n5.model.axes import axes_apart
from xarray_n5.model.metadata import (
    coords_from_axes,
    is_dataset,
    user_attributes,
)
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.group import Group
    from xarray_n5.images.levels import Levels
    from xarray_n5.model.axes import Geometry
    from xarray_n5.model.image import Image
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.writing.options import WriteOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The nodes of a copy, and what is known of them."""

    arrays: Mapping[str, Array]
    """The arrays by their paths in the copy."""
    groups: Mapping[str, Group]
    how: WriteOptions
    path: str
    """The path of the copy in its container."""
    images: dict[str, Image[Array]] = field(default_factory=dict)
    """The arrays with their axes."""
    attributes: dict[str, Attributes] = field(default_factory=dict)
    """The attributes of groups by their paths in the container, as far as they are planned."""
    done: dict[str, Attributes] = field(default_factory=dict)
    """The attributes of planned arrays; none of those in a Dataset or a pyramid."""

    def __post_init__(self) -> None:
        members: dict[str, dict[str, Array]] = {}
        for inner, array in self.arrays.items():
            above, _, name = inner.rpartition("/")
            members.setdefault(above, {})[name] = array
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are shown when the source is opened
            for above, arrays in members.items():
                images = images_of_arrays(arrays).items()
                self.images.update({join(above, name): image for name, image in images})
        nodes = [(inner, context_of(array.node)) for inner, array in self.arrays.items()]
        warn_uncopied(
            (node, node.path.count("/") - inner.count("/") + (not inner)) for inner, node in nodes
        )
        around = groups_around(self.how.container, self.path)
        self.attributes.update({node.path: node.metadata.attributes for node in around})

    def keeps(self, arrays: Iterable[Array]) -> bool:
        """Whether nodes are kept as they are stored; HDF5's strings of any length cannot be."""
        return (
            {array.node.format.name for array in self.arrays.values()} <= {self.how.format.name}
            and self.how.dialect is None
            and not any(array.node.format.one_writer and array.dtype.hasobject for array in arrays)
        )

    def plan(self, *, is_part: bool) -> list[GroupPlan]:
        """Return all groups as they are stored; `is_part` if some nodes are left out.

        Raises
        ------
        MetadataError
            If the format cannot store an array, or the user's dialects cannot describe it.
        """
        planned = {inner: self.group(inner, is_part=is_part) for inner in self.groups}
        for inner, plan in planned.items() if not self.keeps([]) else ():
            images = {
                at.rpartition("/")[2]: image.attributes
                for at, image in planned.items()
                if at and at.rpartition("/")[0] == inner
            }
            if labels := relisted(self.groups[inner].attrs, images):
                rest = {k: v for k, v in plan.attributes.items() if k not in {"ome", "labels"}}
                planned[inner] = replace(plan, attributes=rest | labels)
        return [*planned.values()]

    def group(self, inner: str, *, is_part: bool) -> GroupPlan:
        """Return the plan of a group; `is_part` if some nodes are left out."""
        group, path, how = self.groups[inner], join(self.path, inner), self.how
        members = {
            at.rpartition("/")[2]: array
            for at, array in self.arrays.items()
            if at.rpartition("/")[0] == inner and at not in self.done
        }
        levels = self._levels(group, inner, members)
        listed = {join(inner, level) for level in listed_levels(group.attrs)}
        keeps = self.keeps(members.values()) and (not is_part or listed <= self.arrays.keys())
        described: Levels | xr.Dataset | None = None
        if not keeps and (described := self._pyramid(group, path, levels)) is not None:
            self.done.update({join(inner, level): {} for level in levels})
        elif not keeps and (described := self._dataset(group, inner, members)) is not None:
            self.done.update({join(inner, name): {} for name in members})
            how = replace(how, dialect=None) if how.format.native_to_xarray else how
        if described is not None:
            plan = plan_node(described, path, None, how)
        else:
            plan = GroupPlan(
                path=path,
                variables={},
                attributes=group.attrs if keeps else self._plain(group, inner, levels),
                is_pyramid=keeps and bool(levels),
                existing=existing_at(path, how),
            )
        self.attributes[path] = plan.attributes
        alone = {
            name: self.array(join(inner, name))
            for name in members
            if join(inner, name) not in self.done
        }
        return replace(plan, variables={**plan.variables, **alone})

    def array(self, inner: str) -> VariablePlan:
        """Return an array that is not part of a Dataset or a described pyramid."""
        array = self.arrays[inner]
        keeps = self.keeps([array]) or array.dtype.kind in "Vc"
        variable = self._as_stored(inner) if keeps else self._as_variable(inner)
        self.done[inner] = variable.spec.attributes or {}
        return variable

    def _as_stored(self, inner: str) -> VariablePlan:
        array, geometry = self.arrays[inner], self.images[inner].base.geometry
        attributes = {k: v for k, v in plain_numbers(array.attrs).items() if v == v}  # noqa: PLR0124
        attributes |= self._described(inner, geometry, attributes, {})
        if not inner:
            warn_lost(array.path, geometry.systems)
        encoded = EncodedVariable(elements(array), tuple(attributes.get(NAMES) or ()), attributes)
        path, storage, form = join(self.path, inner), self.how.storage, self.how.format
        compression = array.compression
        if array.node.format.name != form.name and "compression" not in storage:
            compression = supported(form, compression, array.shape, array.dtype, path)
        spec = ArraySpec(
            path=path,
            chunks=None if is_large(array.chunks, array.dtype) else array.chunks,
            shards=array.shards if form.holds_shards and "chunks" not in storage else None,
            compression=compression,
            attributes=attributes,
            apart=axes_apart(geometry.axes),
        )
        spec = replace(spec, **storage)
        if form.native_to_xarray and array.node.format.name == form.name:
            chunks = spec.metadata(array.shape, array.dtype, path).inner
            compressor = None
            if "compression" in storage and form.holds_shards:
                codec = compressor_to_json(resolve(spec.compression), array.dtype.itemsize)
                compressor = [] if codec is None else [codec]
            layout = adapted(form.layout_of(array.node.metadata), chunks, compressor)
            spec = replace(spec, layout=layout)
        return VariablePlan(encoded=encoded, spec=spec, geometry=geometry, axis_coords=())

    def _as_variable(self, inner: str) -> VariablePlan:
        """Return an array as the only variable of a Dataset, with its axes in its attributes.

        Raises
        ------
        MetadataError
            If the format cannot store it, or the dialects that the user chose cannot describe it.
        """
        array, image, path = self.arrays[inner], self.images[inner], join(self.path, inner)
        how, convention, name = self.how, convention_of(self.how.format), array.node.name
        dataset = undecoded({name or NAMELESS: image}, {})
        key = next(iter(dataset.data_vars or dataset.variables))
        plan = plan_group(dataset, path.rpartition("/")[0], how.format, storage=how.storage)
        variable = plan.variables[NAMELESS if key is None else str(key)]
        encoded, geometry = variable.encoded, image.base.named({name})
        coords = [str(dim) for dim in dataset[key].dims if dim in dataset.coords and dim != key]
        attributes = convention.array_attributes(encoded, coords, placed=geometry.placed)
        if not how.format.native_to_xarray and coords_from_axes(array.attrs) is None:
            attributes = without_marks(attributes, array, coords)
        if len(geometry.axes) == encoded.data.ndim:  # not of scalars, or strings of characters
            axes: dict[str, Any] = {}
            if image.base.geometry.named or geometry.placed:
                axes = write_geometry(
                    geometry,
                    encoded.data.shape,
                    how.dialect,
                    lists_x_first=how.container.lists_x_first,
                    where=path or "/",
                )
            attributes |= self._described(inner, geometry, attributes, axes)
        return replace(variable, spec=replace(variable.spec, path=path, attributes=attributes))

    def _described(
        self, inner: str, geometry: Geometry, attributes: Attributes, axes: Attributes
    ) -> dict[str, Any]:
        """Return attributes by which an array lies where it was, with those of its `axes`."""
        array, path = self.arrays[inner], join(self.path, inner)
        parts = path.split("/")[:-1]
        above = ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)] if path else []
        context = ArrayContext(
            attributes=attributes,
            shape=array.shape,
            path=path,
            parents=tuple(self.attributes.get(group, {}) for group in above[:3]),
            lists_x_first=self.how.container.lists_x_first,
        )
        base = join(inner.rpartition("/")[0], "s0")
        if base != inner and base in self.done and self.arrays[base].ndim == array.ndim:
            shape, known = self.arrays[base].shape, self.done[base]
            context = replace(context, base=context.other(join(self.path, base), known, shape))
        described, wrong = override(geometry, context, axes)
        if wrong:
            warn(f"{array.url}: the copy cannot describe {wrong}; to keep it, copy the whole image")
        return described

    def _levels(self, group: Group, inner: str, members: Mapping[str, Array]) -> dict[str, Array]:
        """Return the levels in a group; a single one only if the group lists it."""
        if is_dataset(group.attrs):
            return {}
        known = levels_of(group, members)
        levels = {at: array for at, array in known.items() if join(inner, at) in self.arrays}
        nested = {level for level in levels if "/" in level}
        if nested and nested != levels_in_groups(group, levels).keys():
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
        return levels_of_datasets(
            {level: undecoded({level: image}, {}) for level, image in images.items()},
            decode_attributes(attributes, group.path or "/"),
            path,
            self.how,
            before=group.attrs,
            systems=next(iter(images.values())).base.geometry.systems,
        )

    def _dataset(self, group: Group, inner: str, members: Mapping[str, Array]) -> Any:
        """Return the arrays of a group as a Dataset, or None if they are not its variables."""
        if not members:
            empty = xr.Dataset(attrs=decode_attributes(group.attrs, group.path or "/"))
            return empty if is_dataset(group.attrs) else None
        if not (is_dataset(group.attrs) or share_dimensions(members, group.attrs)):
            return None
        images = {name: self.images[join(inner, name)] for name in members}
        if not all(is_variable(name, image) for name, image in images.items()):
            return None
        with suppress(ValueError):  # coordinates differ
            return undecoded(images, group.attrs)
        return None

    def _plain(self, group: Group, inner: str, levels: Mapping[str, Array]) -> dict[str, Any]:
        """Return the attributes of a group that do not describe arrays, whose copies do that."""
        prefix = f"{inner}/" if inner else ""
        below = [image for at, image in self.images.items() if at.startswith(prefix)]
        used = frozenset[str]().union(*(image.base.geometry.keys for image in below))
        images = {level: self.images[join(inner, level)] for level in levels}
        kept = tree_attributes(
            group.attrs,
            named_alike(images, name_of_group(group)),
            [*levels] if [*levels] != levels_among([*levels]) else [],
        )
        used -= {*user_attributes(group.attrs), "multiscales"}
        return {key: value for key, value in kept.items() if key not in used}
