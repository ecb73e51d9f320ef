"""The images in a container, as other programs see them: pyramids and single arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.context import context_of
from xarray_n5.formats.protocol import Node
from xarray_n5.images.find import is_level_table, named_levels
from xarray_n5.model.level_names import view_in
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.dialects.protocol import ArrayContext
    from xarray_n5.doctor.damage import Survey
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArray:
    """An array as it is stored, with all that is stored around it: a level, or all of an image."""

    context: ArrayContext
    """The array as dialects see it."""
    metadata: ArrayMetadata
    """The metadata of the array itself."""
    above: tuple[Attributes, ...]
    """The attributes of all groups above, the nearest first."""

    @property
    def path(self) -> str:
        """The array's path in its container."""
        return self.context.path

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.context.shape)

    @property
    def name(self) -> str:
        """The array's name in its group."""
        return self.path.rpartition("/")[2]

    @property
    def attributes(self) -> Attributes:
        """The array's own attributes."""
        return self.context.attributes

    def only(self, attributes: Attributes, **changes: Any) -> ArrayContext:
        """Return the array with some attributes, and nothing around it."""
        return replace(self.context, attributes=attributes, parents=(), base=None, **changes)


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
            return tuple(level.name for level in self.levels)
        return tuple(level.path.removeprefix(self.path).strip("/") for level in self.levels)

    @property
    def group(self) -> Attributes:
        """The attributes of the group around the levels."""
        return dict(next(iter(self.levels[0].above), {}))


def stored_images(survey: Survey, xml: bytes | None = None) -> list[StoredImage]:
    """Return the images in a container; of a time series, those of the first time point.

    Parameters
    ----------
    survey
        The nodes of the container.
    xml
        The project of BigDataViewer that names the container; by default the one next to it.
    """
    arrays = _stored_arrays(survey, xml)
    single = {path: arrays[path] for path in arrays.keys() - _coordinates(arrays)}
    form = survey.container.format.name
    images = []
    for group in sorted({above for path in single for above in _above(path)}):
        if levels := _levels_in(group, single):
            images.append(StoredImage(path=group, format=form, levels=levels, grouped=True))
            for level in levels:
                del single[level.path]
    images += [StoredImage(path=path, format=form, levels=(single[path],)) for path in single]
    views = sorted(view for path in arrays if (view := view_in(path)) is not None)
    later = {*views} - {*{setup: (setup, time) for setup, time in reversed(views)}.values()}
    images = [image for image in images if image.levels[0].context.view not in later]
    return sorted(images, key=lambda image: image.path)


def _stored_arrays(survey: Survey, xml: bytes | None) -> dict[str, StoredArray]:
    container = survey.container
    paths = [path for path in survey.arrays if not is_level_table(path)]
    groups = _attributes(container, sorted({above for path in paths for above in _above(path)}))
    arrays = {}
    for path in paths:
        context = context_of(survey.arrays[path].node)
        arrays[path] = StoredArray(
            context=context if xml is None else replace(context, xml=xml),
            metadata=survey.arrays[path].node.metadata,
            above=tuple(groups.get(above, {}) for above in _above(path)),
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
        if levels:
            return levels
        cells = {path: f"{at}/cells" for path, at in inner.items()}
        return {path: arrays[at] for path, at in cells.items() if at in arrays and view_in(at)}

    inside = f"{group}/" if group else ""
    below = [path for path in arrays if path.startswith(inside)]
    attributes = arrays[below[0]].above[_above(below[0]).index(group)] if below else {}
    names = dict.fromkeys(path.removeprefix(inside).partition("/")[0] for path in below)
    levels = list(named_levels(attributes, names, find).values())
    return tuple(level for level in levels if level.ndim == levels[0].ndim)


def _coordinates(arrays: Mapping[str, StoredArray]) -> set[str]:
    """Return the arrays that hold coordinates or bounds of others, by their names or attributes."""
    coordinates = set()
    for path, array in arrays.items():
        group = path.rpartition("/")[0]
        names = array.attributes.get("_ARRAY_DIMENSIONS")
        for name in names if isinstance(names, list) else ():
            sibling = join(group, str(name))
            if sibling != path and sibling in arrays and arrays[sibling].ndim == 1:
                coordinates.add(sibling)
        for attributes in (array.attributes, *array.above[:1]):
            for key in ("coordinates", "bounds", "climatology"):
                cited = attributes.get(key)
                named = cited.split() if isinstance(cited, str) else ()
                coordinates |= {join(group, name) for name in named} - {path}
    coordinates &= arrays.keys()
    return coordinates if coordinates < arrays.keys() else set()
