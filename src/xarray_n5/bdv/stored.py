"""Find the stored arrays of a project's views, in few batches."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xarray_n5.arrays.array import Array
from xarray_n5.bdv.layouts import MOST_LEVELS, groups_of
from xarray_n5.errors import MetadataError, N5Error, PathError
from xarray_n5.formats.documents import warn_unfinished
from xarray_n5.formats.protocol import Node
from xarray_n5.model.alerts import warn
from xarray_n5.model.image import Part
from xarray_n5.model.metadata import ArrayMetadata
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xarray_n5.arrays.node import OpenOptions
    from xarray_n5.bdv.layouts import ViewLayout
    from xarray_n5.bdv.loaders import View
    from xarray_n5.formats.containers import Container
    from xarray_n5.model.metadata import Attributes

_MANY = 1 << 12
"""The maximum number of views that are requested without a listing."""


@dataclass(slots=True)
class StoredViews:
    """The views that are stored."""

    levels: dict[int, dict[View, Part[Array]]] = field(default_factory=dict)
    """The views of each requested level, if any are stored."""
    broken: dict[View, Exception] = field(default_factory=dict)
    """The errors of unreadable views."""
    factors: dict[tuple[int, View], tuple[float, ...] | None] = field(default_factory=dict)
    """The factors of each level and view along z, y, x; None if they are unknown."""
    groups: dict[str, Attributes] = field(default_factory=dict)
    """The attributes of the root, and of the groups that describe views, by path."""

    @property
    def views(self) -> list[View]:
        """The views of the base level, sorted."""
        return sorted(self.levels.get(0, ()))


def find_views(
    container: Container,
    layout: ViewLayout,
    views: Sequence[View],
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
    reader = _Reader(container, layout, views, options, silent)
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
        more = level is None and count is None and last in reader.found.levels
        wanted = [last + 1] if more and last + 1 < MOST_LEVELS else []
    reader.complain()
    return reader.found


def _listed(container: Container, layout: ViewLayout, views: Sequence[View]) -> Sequence[View]:
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
class _Reader:
    """Reads metadata in batches, each once."""

    container: Container
    layout: ViewLayout
    views: Sequence[View]
    options: OpenOptions
    silent: bool
    groups: dict[str, Attributes] = field(default_factory=dict)
    found: StoredViews = field(default_factory=StoredViews)
    arrays: dict[str, Array] = field(default_factory=dict)

    def paths(self, levels: Iterable[int]) -> dict[str, list[tuple[int, View]]]:
        """Return the paths of levels, and the views in them."""
        paths: dict[str, list[tuple[int, View]]] = {}
        for level in levels:
            for view in self.views:
                if view in self.found.broken:
                    continue
                path = self.layout.path(view, level, self.groups)
                try:
                    inside = self.container.format.normalize_path(path)
                except PathError as error:
                    self.found.broken[view] = error
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
                self.found.groups[path] = node.metadata.attributes
                if path in groups:
                    self.groups[path] = node.metadata.attributes

    def read(self, levels: Sequence[int]) -> None:
        """Read the metadata of levels, and sort them by level and view."""
        wanted = self.paths(levels)
        self._prefetch((), wanted)
        arrays, found = [], self._nodes(list(wanted))
        if lacking := self._lacking(wanted.values(), found):
            self.read_groups(lacking)
        for (path, holds), node in zip(wanted.items(), found, strict=True):
            if isinstance(node, N5Error):
                self.found.broken |= dict.fromkeys((view for _, view in holds), node)
            elif isinstance(node.metadata, ArrayMetadata):
                arrays.append(path)
                for level, view in holds:
                    self._add(level, view, path, node.metadata)
        if not self.silent:
            warn_unfinished(self.container.store, arrays)

    def _lacking(
        self, holds: Iterable[Sequence[tuple[int, View]]], found: Iterable[Node | N5Error]
    ) -> list[str]:
        """Return the groups that were not read, and that may have the factors of arrays."""
        views = [
            view
            for several, node in zip(holds, found, strict=True)
            if isinstance(node, Node)
            and isinstance(node.metadata, ArrayMetadata)
            and node.metadata.attributes.get("downsamplingFactors") is None
            for _, view in several
        ]
        return [group for group in groups_of(self.layout, views) if group not in self.groups]

    def _add(self, level: int, view: View, path: str, metadata: ArrayMetadata) -> None:
        where = self.container.where(path)
        try:
            indices = self.layout.part(view, len(metadata.shape))
        except ValueError as error:
            self.found.broken[view] = MetadataError(f"{where}: {error}")
            return
        outer = metadata.shape[: len(indices)]
        if any(index >= size for index, size in zip(indices, outer, strict=True)):
            self.found.broken[view] = MetadataError(
                f"{where}: the XML has the indices {indices}, but the axes before z have {outer}"
            )
            return
        if path not in self.arrays:
            self.arrays[path] = Array(self.options.node(self.container, path, metadata))
        part = Part(self.arrays[path], indices)
        self.found.levels.setdefault(level, {})[view] = part
        factors = self.layout.factors(view, level, metadata, self.groups)
        self.found.factors[level, view] = factors

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
        broken = self.found.broken
        for views in self.found.levels.values():
            for view in broken.keys() & views.keys():
                del views[view]
        if broken:
            view, error = next(iter(broken.items()))
            others = f", and {len(broken) - 1} others" if len(broken) > 1 else ""
            warn(
                f"the view of timepoint {view.timepoint} and setup {view.setup} cannot be read"
                f"{others}: {error}"
            )
