"""The images in a container, as other programs see them: pyramids and single arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.context import context_of
from xarray_n5.formats.protocol import Node
from xarray_n5.images.find import is_level_table, named_levels
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join, view_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.doctor.damage import Survey
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArray:
    """An array as it is stored, with all that is stored around it: a level, or all of an image."""

    path: str
    """The array's path in its container."""
    context: ArrayContext
    """The array as dialects see it."""
    metadata: ArrayMetadata
    """The metadata of the array itself."""
    above: Mapping[str, Attributes]
    """The attributes of all groups above by their paths, the nearest first."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.context.shape)

    @property
    def name(self) -> str:
        """The array's name in its group."""
        return self.context.path.rpartition("/")[2]

    @property
    def attributes(self) -> Attributes:
        """The array's own attributes."""
        return self.context.attributes

    def only(self, attributes: Attributes, **changes: Any) -> ArrayContext:
        """Return the array with some attributes, and nothing around it."""
        return replace(self.context, attributes=attributes, parents=(), base=None, **changes)

    def with_attributes(self, nodes: Mapping[str, Attributes]) -> StoredArray:
        """Return the array with other attributes of some nodes, by their paths."""
        above = {path: nodes.get(path, group) for path, group in self.above.items()}
        parents = self.context.parents
        near = (*above.values(), *parents[len(above) :])[: len(parents)]
        base = self.context.base
        if base is not None:
            own = nodes.get(base.path, base.attributes)
            base = replace(base, attributes=own, parents=near)
        own = nodes.get(self.path, self.attributes)
        context = replace(self.context, attributes=own, parents=near, base=base)
        return replace(self, context=context, above=above)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """A pyramid, or a single array, as it is stored: what it means, each program decides."""

    path: str
    """The path of the group of a pyramid, or of the array."""
    format: str
    levels: tuple[StoredArray, ...]
    """The levels, the base level first."""
    grouped: bool = False
    """Whether `path` is the group around the levels."""

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of the levels in the group around them, or the name of an array."""
        if not self.grouped:
            return (self.levels[0].name,)
        return tuple(level.path.removeprefix(self.path).strip("/") for level in self.levels)

    @property
    def nodes(self) -> dict[str, Attributes]:
        """The attributes of the group of a pyramid, and of the levels, by their paths."""
        group = {self.path: self.levels[0].above[self.path]} if self.grouped else {}
        return group | {level.path: level.attributes for level in self.levels}

    def with_attributes(self, nodes: Mapping[str, Attributes]) -> StoredImage:
        """Return the image with other attributes of some nodes, by their paths."""
        levels = tuple(level.with_attributes(nodes) for level in self.levels)
        return replace(self, levels=levels)


def stored_images(survey: Survey) -> list[StoredImage]:
    """Return the images in a container; of a time series, those of the first time point."""
    arrays = _stored_arrays(survey)
    single = {path: arrays[path] for path in arrays.keys() - _coordinates(arrays)}
    form = survey.container.format.name
    images = []
    for group in sorted({above for array in single.values() for above in array.above}):
        if levels := _levels_in(group, single):
            images.append(StoredImage(path=group, format=form, levels=levels, grouped=True))
            for level in levels:
                del single[level.path]
    images += [StoredImage(path=path, format=form, levels=(single[path],)) for path in single]
    views = sorted(view for path in arrays if (view := view_in(path)) is not None)
    later = {*views} - {*{setup: (setup, time) for setup, time in reversed(views)}.values()}
    images = [image for image in images if image.levels[0].context.view not in later]
    return sorted(images, key=lambda image: image.path)


def _stored_arrays(survey: Survey) -> dict[str, StoredArray]:
    paths = [path for path in survey.arrays if not is_level_table(path)]
    above = {path: _above(path) for path in paths}
    groups = _attributes(
        survey.container, sorted({group for path in paths for group in above[path]})
    )
    arrays = {}
    for path in paths:
        node = survey.arrays[path].node
        context = context_of(node)
        arrays[path] = StoredArray(
            path=path,
            context=context if survey.xml is None else replace(context, xml=survey.xml),
            metadata=node.metadata,
            above={group: groups.get(group, {}) for group in above[path]},
        )
    return arrays


def _above(path: str) -> list[str]:
    """Return the paths of the groups above a node, the nearest first.

    >>> _above("em/raw/s0"), _above("")
    (['em/raw', 'em', ''], [])
    """
    parts = path.split("/") if path else []
    return ["/".join(parts[:depth]) for depth in range(len(parts) - 1, -1, -1)]


def _attributes(container: Container, paths: Sequence[str]) -> dict[str, Attributes]:
    """Return the attributes of groups, with the dimensions of those that look like arrays."""
    attributes: dict[str, Attributes] = {}
    nodes = container.nodes(paths, verify=False) if paths else []
    for path, node in zip(paths, nodes, strict=True):
        if isinstance(node, Node):
            metadata = node.metadata
            attributes[path] = metadata.attributes
            if isinstance(metadata, ArrayMetadata):
                attributes[path] = {**metadata.attributes, "dimensions": list(metadata.shape[::-1])}
    return attributes


def _levels_in(group: str, arrays: Mapping[str, StoredArray]) -> tuple[StoredArray, ...]:
    """Return the levels of the pyramid in a group, as far as they have as many axes as the first.

    Levels of views in HDF5 are groups with an array ``cells``.
    """

    def find(paths: Sequence[str]) -> dict[str, StoredArray]:
        inner = {path: join(group, path) for path in paths}
        levels = {path: arrays[at] for path, at in inner.items() if at in arrays}
        cells = {path: f"{at}/cells" for path, at in inner.items()}
        return levels or {p: arrays[at] for p, at in cells.items() if at in arrays and view_in(at)}

    below = [array for array in arrays.values() if group in array.above]
    attributes = below[0].above[group] if below else {}
    names = (array.path.removeprefix(group).strip("/").partition("/")[0] for array in below)
    levels = list(named_levels(attributes, dict.fromkeys(names), find).values())
    return tuple(level for level in levels if level.ndim == levels[0].ndim)


def _coordinates(arrays: Mapping[str, StoredArray]) -> set[str]:
    """Return the arrays that hold coordinates or bounds of others, by their names or attributes."""
    coordinates: set[str] = set()
    for path, array in arrays.items():
        group = path.rpartition("/")[0]
        names = array.attributes.get("_ARRAY_DIMENSIONS")
        dims = [join(group, str(name)) for name in (names if isinstance(names, list) else ())]
        coordinates |= {dim for dim in dims if dim in arrays and arrays[dim].ndim == 1} - {path}
        for attributes in (array.attributes, array.above.get(group, {})):
            for key in ("coordinates", "bounds", "climatology"):
                named = str(attributes.get(key, "")).split()
                coordinates |= {join(group, name) for name in named} - {path}
    coordinates &= arrays.keys()
    return coordinates if coordinates < arrays.keys() else set()
