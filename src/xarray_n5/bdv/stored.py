"""Find the stored arrays of a project's views: their paths in each kind of container."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from xarray_n5.arrays.array import Array
from xarray_n5.bdv.project import NDIM
from xarray_n5.dialects.groups import images_in
from xarray_n5.dialects.lists import factors_of
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.errors import MetadataError, N5Error, PathError
from xarray_n5.formats.protocol import Node
from xarray_n5.formats.structure import warn_unfinished
from xarray_n5.model.alerts import ODD, warn
from xarray_n5.model.image import Part
from xarray_n5.model.metadata import ArrayMetadata, lists_levels
from xarray_n5.model.paths import hdf5_view_path, join, normalize_path, setup_name, view_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from xarray_n5.arrays.node import OpenOptions
    from xarray_n5.bdv.loaders import ViewId
    from xarray_n5.bdv.project import Project
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import Attributes

MOST_LEVELS = 32
"""The maximum number of levels of a pyramid."""

_MOST_FACTOR = 1 << 31

_ROUNDED = 1e-3
"""The precision of the ratios of scales, which may be those of floored sizes."""


@dataclass(frozen=True, slots=True)
class BdvLayout:
    """``setup0/timepoint0/s0``, or in HDF5 ``t00000/s00/0/cells``."""

    in_one_batch: ClassVar[bool] = True
    in_hdf5: bool

    def group(self, view: ViewId) -> str | None:
        """Return the path of the setup, which lists the factors of all levels; None in HDF5.

        There, the factors are an attribute of each level, see ``formats/hdf5/nodes.py``.
        """
        return None if self.in_hdf5 else setup_name(view.setup)

    def level_count(self, groups: Mapping[str, Attributes]) -> int | None:
        """Return the length of the longest list of factors; None in HDF5: levels are looked up."""
        return max(filter(None, map(_listed_levels, groups.values())), default=None)

    def path(self, view: ViewId, level: int, groups: Mapping[str, Attributes]) -> str:  # noqa: ARG002
        """Return the path of a view's level."""
        path = hdf5_view_path if self.in_hdf5 else view_path
        return path(view.setup, view.timepoint, level)

    def part(self, view: ViewId, ndim: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return no indices: each array is one view."""
        if ndim != NDIM:
            raise ValueError(f"it has {ndim} axes, expected {NDIM}")
        return ()

    def factors(
        self, view: ViewId, level: int, array: ArrayMetadata, groups: Mapping[str, Attributes]
    ) -> tuple[float, ...] | None:
        """Return the factors in the level's own list, or in the setup's."""
        path, setup = self.path(view, level, groups), groups.get(self.group(view) or "", {})
        context = ArrayContext(
            attributes=array.attributes, shape=array.shape, path=path, parents=({}, setup)
        )
        try:
            factors = factors_of(context)
        except ODD as error:
            warn(f"{path}: its factors are ignored: {error}")
            factors = None
        if factors is None:
            return None if level else (1.0,) * NDIM
        return factors[::-1]


@dataclass(frozen=True, slots=True)
class ZarrLayout:
    """OME-Zarr images, each for one view, or with axes of time and channels for several."""

    in_one_batch: ClassVar[bool] = False
    project: Project

    def group(self, view: ViewId) -> str | None:
        """Return the path of the view's image; None if the project does not name any."""
        views = self.project.loader.views if self.project.loader else {}
        if not views:
            return ""
        return views[view].path.strip("/") if view in views else None

    def level_count(self, groups: Mapping[str, Attributes]) -> int | None:
        """Return the number of levels in the longest ``multiscales``."""
        return max(filter(None, (len(_entries(group)) for group in groups.values())), default=None)

    def path(self, view: ViewId, level: int, groups: Mapping[str, Attributes]) -> str:
        """Return the path of a level, as ``multiscales`` lists it."""
        group = self.group(view) or ""
        entries = _entries(groups.get(group, {}))
        name = str(level)
        if entries and level < len(entries):
            name = str(entries[level].get("path", name)).removeprefix("./").strip("/")
        elif entries:
            name = f"{level} of {len(entries)} levels"  # there is none
        return join(group, name)

    def part(self, view: ViewId, ndim: int) -> tuple[int, ...]:
        """Return the indices of time and channels; without them, axes before z must have size 1."""
        views = self.project.loader.views if self.project.loader else {}
        count = ndim - NDIM
        if count < 0:
            raise ValueError(f"it has {ndim} axes, expected at least {NDIM}")
        if views:
            indices = views[view].indices or ()
        else:  # the root is the only image
            setups, times = list(self.project.setups), list(self.project.timepoints)
            indices = (times.index(view.timepoint), setups.index(view.setup))
        if any(indices[: max(len(indices) - count, 0)]):
            raise ValueError(f"it has {ndim} axes, but the XML has the indices {indices}")
        return ((0,) * (count - len(indices)) + indices)[-count:] if count else ()

    def factors(
        self, view: ViewId, level: int, array: ArrayMetadata, groups: Mapping[str, Attributes]
    ) -> tuple[float, ...] | None:
        """Return the level's own factors, or else the ratios of the scales in ``multiscales``.

        BigStitcher writes both, and older versions listed scales in another order than axes.
        """
        listed = factors_listed(groups.get(self.group(view) or "", {}), level)
        stated = _own_factors(array) if level else None
        if stated and listed and not np.allclose(stated, listed, rtol=_ROUNDED):
            where = f"level {level} of the project"
            warn(
                f"{where}: 'multiscales' has the factors {list(listed)} along "
                f"z, y, x, but 'downsamplingFactors' has {list(stated)}; using the latter"
            )
        return stated or listed


def factors_listed(attributes: Attributes, level: int) -> tuple[float, ...] | None:
    """Return the ratios of the scales in ``multiscales`` along z, y, x, rounded as in BigStitcher.

    None if there are no scales, or fewer levels.
    """
    if level == 0:
        return (1.0,) * NDIM
    scales = [_scale(entry) for entry in _entries(attributes)]
    if level >= len(scales) or scales[0] is None or (scale := scales[level]) is None:
        return None
    return tuple(round(a / b, 4) for a, b in zip(scale, scales[0], strict=True))


def _own_factors(array: ArrayMetadata) -> tuple[float, ...] | None:
    """Return the factors along z, y, x that BigStitcher writes to arrays, x first, or None."""
    match array.attributes.get("downsamplingFactors"):
        case [x, y, z, *others] if len(others) in {0, len(array.shape) - NDIM}:
            numbers = (z, y, x, *others)
            valid = all(type(n) in {int, float} and 1 <= n < _MOST_FACTOR for n in numbers)
            if valid and others == [1] * len(others):
                return float(z), float(y), float(x)
    return None


ViewLayout: TypeAlias = BdvLayout | ZarrLayout


def layout_of(project: Project) -> ViewLayout:
    """Return the layout of a project's container."""
    kind = project.loader.kind if project.loader else None
    if kind == "zarr":
        return ZarrLayout(project)
    return BdvLayout(in_hdf5=kind == "hdf5")


def groups_of(layout: ViewLayout, views: Iterable[ViewId]) -> list[str]:
    """Return the paths of the groups that describe views."""
    return list(dict.fromkeys(p for view in views if (p := layout.group(view)) is not None))


def _listed_levels(attributes: Attributes) -> int | None:
    """Return the number of levels that a setup lists, or None."""
    listed = attributes["downsamplingFactors"] if lists_levels(attributes) else None
    return None if listed is None else min(len(listed), MOST_LEVELS)


def _entries(attributes: Attributes) -> list[dict[str, object]]:
    """Return the levels that the first image of ``multiscales`` lists."""
    for image in images_in(attributes):
        entries = image["datasets"][:MOST_LEVELS]
        if all(isinstance(entry, dict) and isinstance(entry.get("path"), str) for entry in entries):
            return list(entries)
    return []


def _scale(entry: Mapping[str, object]) -> tuple[float, ...] | None:
    """Return the scale of a level along z, y, x."""
    transforms = entry.get("coordinateTransformations")
    for transform in transforms if isinstance(transforms, list) else ():
        match transform:
            case {"type": "scale", "scale": [*_, z, y, x]}:
                numbers = [float(n) for n in (z, y, x) if isinstance(n, int | float) and n > 0]
                return tuple(numbers) if len(numbers) == NDIM else None
    return None


_MANY = 1 << 12
"""The maximum number of views that are requested without a listing."""


@dataclass(slots=True)
class StoredViews:
    """The views that are stored."""

    levels: dict[int, dict[ViewId, Part[Array]]] = field(default_factory=dict)
    """The views of each requested level, if any are stored."""
    broken: dict[ViewId, Exception] = field(default_factory=dict)
    """The errors of unreadable views."""
    factors: dict[tuple[int, ViewId], tuple[float, ...] | None] = field(default_factory=dict)
    """The factors of each level and view along z, y, x; None if they are unknown."""
    groups: dict[str, Attributes] = field(default_factory=dict)
    """The attributes of the root, and of the groups that describe views, by path."""

    @property
    def views(self) -> list[ViewId]:
        """The views of the base level, sorted."""
        return sorted(self.levels.get(0, ()))


def find_views(
    container: Container,
    layout: ViewLayout,
    views: Sequence[ViewId],
    options: OpenOptions,
    level: int | None = None,
    *,
    silent: bool = False,
) -> StoredViews:
    """Return the existing arrays of views.

    Parameters
    ----------
    container
        The container.
    layout
        The paths of views in it.
    views
        The views to find.
    options
        The options with which arrays are opened.
    level
        The only level to find, besides the base level; all by default.
    silent
        Whether unfinished writes are not reported.
    """
    views = _listed(container, layout, views)
    reader = _ViewReader(container, layout, views, options, silent)
    wanted = [0] if level is None else sorted({0, level})
    ahead = reader.paths(wanted).keys() if layout.in_one_batch else ()
    groups = groups_of(layout, views)
    # The number of levels is in the groups, and so are factors that arrays lack.
    reader.read_groups([] if layout.in_one_batch and level is not None else groups, ahead)
    count = layout.level_count(reader.groups)
    if level is None:
        wanted = list(range(2 if count is None else max(count, 1)))
    while wanted:
        reader.read(wanted)
        last = wanted[-1]
        more = level is None and count is None and last in reader.stored.levels
        wanted = [last + 1] if more and last + 1 < MOST_LEVELS else []
    reader.complain()
    return reader.stored


def _listed(container: Container, layout: ViewLayout, views: Sequence[ViewId]) -> Sequence[ViewId]:
    """Return the views that may be stored, by listing each setup if there are many.

    An XML that lists any number of time points thus costs no more than the stored ones.
    """
    if len(views) <= _MANY or not layout.in_one_batch:
        return views
    groups = groups_of(layout, views)
    try:
        if groups:
            listings = container.store.list_many(groups)
            named = {g: folders for g, (folders, _) in zip(groups, listings, strict=True)}
        else:
            named = {name: container.children(name) for name in container.children("")}
    except (OSError, N5Error):
        return views  # the server cannot list
    stored = {join(group, name) for group, names in named.items() for name in names}
    return [view for view in views if "/".join(layout.path(view, 0, {}).split("/")[:2]) in stored]


@dataclass(slots=True)
class _ViewReader:
    """Reads metadata in batches, each once."""

    container: Container
    layout: ViewLayout
    views: Sequence[ViewId]
    options: OpenOptions
    silent: bool
    groups: dict[str, Attributes] = field(default_factory=dict)
    stored: StoredViews = field(default_factory=StoredViews)
    arrays: dict[str, Array] = field(default_factory=dict)

    def paths(self, levels: Iterable[int]) -> dict[str, list[tuple[int, ViewId]]]:
        """Return the paths of levels, and the views in them."""
        paths: dict[str, list[tuple[int, ViewId]]] = {}
        for level in levels:
            for view in self.views:
                if view in self.stored.broken:
                    continue
                path = self.layout.path(view, level, self.groups)
                try:
                    inside = normalize_path(path)
                except PathError as error:
                    self.stored.broken[view] = error
                else:
                    paths.setdefault(inside, []).append((level, view))
        return paths

    def read_groups(self, groups: Sequence[str], ahead: Iterable[str] = ()) -> None:
        """Read the attributes of groups, and in the same batch what will be read next."""
        self._prefetch(["", *groups], ahead)
        self.container.check_version()
        paths = list(dict.fromkeys(["", *groups]))
        for path, node in zip(paths, self._nodes(paths), strict=True):
            if isinstance(node, Node):
                self.stored.groups[path] = node.metadata.attributes
                if path in groups:
                    self.groups[path] = node.metadata.attributes

    def read(self, levels: Sequence[int]) -> None:
        """Read the metadata of levels, and sort them by level and view."""
        wanted = self.paths(levels)
        self._prefetch((), wanted)
        arrays, nodes = [], self._nodes(list(wanted))
        if lacking := self._lacking(wanted.values(), nodes):
            self.read_groups(lacking)
        for (path, holds), node in zip(wanted.items(), nodes, strict=True):
            if isinstance(node, N5Error):
                self.stored.broken |= dict.fromkeys((view for _, view in holds), node)
            elif isinstance(node.metadata, ArrayMetadata):
                arrays.append(path)
                for level, view in holds:
                    self._add(level, view, path, node.metadata)
        if not self.silent:
            warn_unfinished(self.container.store, arrays)

    def _lacking(
        self, holds: Iterable[Sequence[tuple[int, ViewId]]], nodes: Iterable[Node | N5Error]
    ) -> list[str]:
        """Return the groups that were not read, and that may have the factors of arrays."""
        views = [
            view
            for several, node in zip(holds, nodes, strict=True)
            if isinstance(node, Node)
            and isinstance(node.metadata, ArrayMetadata)
            and node.metadata.attributes.get("downsamplingFactors") is None
            for _, view in several
        ]
        return [group for group in groups_of(self.layout, views) if group not in self.groups]

    def _add(self, level: int, view: ViewId, path: str, metadata: ArrayMetadata) -> None:
        where = self.container.where(path)
        try:
            indices = self.layout.part(view, len(metadata.shape))
        except ValueError as error:
            self.stored.broken[view] = MetadataError(f"{where}: {error}")
            return
        outer = metadata.shape[: len(indices)]
        if any(index >= size for index, size in zip(indices, outer, strict=True)):
            self.stored.broken[view] = MetadataError(
                f"{where}: the XML has the indices {indices}, but the axes before z have {outer}"
            )
            return
        if path not in self.arrays:
            self.arrays[path] = Array(self.options.node(self.container, path, metadata))
        part = Part(self.arrays[path], indices)
        self.stored.levels.setdefault(level, {})[view] = part
        factors = self.layout.factors(view, level, metadata, self.groups)
        self.stored.factors[level, view] = factors

    def _prefetch(self, groups: Iterable[str], arrays: Iterable[str]) -> None:
        """Request the documents of nodes in one batch."""
        if self.container.batch == 1:
            return
        names = self.container.documents
        keys = [join(path, name) for path in groups for name in names]
        keys += [join(path, name) for path in arrays for name in names]
        with suppress(OSError):  # later reads raise it again
            self.container.store.get_many(keys)

    def _nodes(self, paths: Sequence[str]) -> list[Node | N5Error]:
        return self.container.nodes(paths, verify=False) if paths else []

    def complain(self) -> None:
        """Warn about unreadable views, once for all of them."""
        broken = self.stored.broken
        for views in self.stored.levels.values():
            for view in broken.keys() & views.keys():
                del views[view]
        if broken:
            view, error = next(iter(broken.items()))
            others = f", and {len(broken) - 1} others" if len(broken) > 1 else ""
            warn(
                f"the view of timepoint {view.timepoint} and setup {view.setup} cannot be read"
                f"{others}: {error}"
            )
