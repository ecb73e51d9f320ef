"""The overwrite policy of projects: existing views, and how they differ from new ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.arrays.marker import other_writers, unfinished_writes
from xarray_n5.errors import N5Error, NodeExistsError
from xarray_n5.model.metadata import lists_levels
from xarray_n5.model.paths import UNFINISHED
from xarray_n5.writing.completed import NOT_UNFINISHED, OTHER_DATA

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.writing.request import WriteOptions
    from xarray_n5_bdv.describe import ViewImage
    from xarray_n5_bdv.project import Project, ViewSetup
    from xarray_n5_bdv.target import ProjectTarget

_TIMEPOINT = re.compile(r"timepoint(\d{1,10})")

_LEVEL = re.compile(r"s(\d{1,3})")

_SAME = 1e-9


@dataclass(frozen=True, kw_only=True)
class Existing:
    """The existing content of a container."""

    how: WriteOptions
    target: ProjectTarget
    names: Sequence[str]
    """The names of the nodes in its root."""
    setups: Mapping[int, Attributes]
    """The attributes of the existing setups that are written to."""
    timepoints: Mapping[int, frozenset[int]]
    """The time points that are stored for each of them."""

    @classmethod
    def of(cls, how: WriteOptions, added: Project, target: ProjectTarget) -> Existing:
        """Return the existing content, with one listing per setup."""
        container = how.container
        names = list(container.children("")) if container.exists(container.node("")) else []
        wanted = [number for number in added.setups if f"setup{number}" in names]
        paths = [f"setup{number}" for number in wanted]
        nodes = container.nodes(paths) if paths else []
        found, times = {}, {}
        for number, path, node in zip(wanted, paths, nodes, strict=True):
            if isinstance(node, N5Error):
                raise node
            found[number] = node.metadata.attributes
            listed = [_TIMEPOINT.fullmatch(name) for name in container.children(path)]
            times[number] = frozenset(int(each[1]) for each in listed if each)
        return cls(how=how, target=target, names=names, setups=found, timepoints=times)

    def check(self, *, resumes: bool) -> None:
        """Raise NodeExistsError if something exists that the mode does not allow."""
        how = self.how
        if how.mode != "w-" or resumes:
            return
        unfinished = bool(unfinished_writes(how.store, ""))
        hint = "use mode='a' to add views, or mode='w' to replace them"
        if how.resume:
            hint = OTHER_DATA if unfinished else NOT_UNFINISHED
        elif unfinished:
            hint = "its write is unfinished: use resume=True, or mode='w' to replace it"
        if self.target.project is not None:
            raise NodeExistsError(self.target.url, "", "a project", hint)
        if self.names:
            shown = f"a container with {', '.join(self.names[:4])}"
            raise NodeExistsError(how.container.url, "", shown, hint)

    def other_writers(self, marker: WriteMarker, paths: Collection[str]) -> list[WriteMarker]:
        """Return the markers of unfinished writes that are replaced with all their views.

        Raises
        ------
        NodeExistsError
            If another unfinished write has views of the same setups and time points. The XML does
            not list them yet, so that new setups may have got the same ids.
        """
        store = self.how.container.store
        if not self.names or UNFINISHED not in store.list("")[1]:
            return []
        if self.how.mode == "w":
            return other_writers(marker, paths, within=True)
        for other in other_writers(marker, paths):
            facts = other.facts() or {}
            found = f"an unfinished write of these views, begun {facts.get('began')}"
            hint = "resume that first, with the same arguments as then; or use mode='w'"
            raise NodeExistsError(self.how.container.url, min(paths), found, hint)
        return []

    def levels_beyond(self, images: Sequence[ViewImage]) -> list[str]:
        """Return the paths of levels of replaced views that the new ones do not have."""
        found = []
        for image in images:
            for view in image.described.views:
                if view.timepoint not in self.timepoints.get(view.setup, ()):
                    continue
                path = f"setup{view.setup}/timepoint{view.timepoint}"
                levels = map(_LEVEL.fullmatch, self.how.container.children(path))
                count = len(image.factors)
                found += [f"{path}/{each[0]}" for each in levels if each and int(each[1]) >= count]
        return found


def check_setups(existing: Existing, images: Sequence[ViewImage], target: ProjectTarget) -> None:
    """Raise if a setup differs from the remaining one with its id.

    In mode "w" a setup may differ, if all its views are replaced.

    Raises
    ------
    NodeExistsError
        If it differs.
    """
    before = target.project.setups if target.project is not None else {}
    for image in images:
        project = image.described.project
        for number, setup in project.setups.items():
            stored = existing.timepoints.get(number, frozenset())
            written = {view.timepoint for view in image.described.views if view.setup == number}
            stays = bool(stored - written) or existing.how.mode != "w"
            if not stays or not (stored or number in before):
                continue
            found = _difference(before.get(number), setup)
            found = found or _stored_difference(existing.setups.get(number, {}), image)
            if found is None:
                continue
            hint = "give it another id (the coordinate 'setup')"
            if existing.how.mode == "w":
                left = ", ".join(map(str, sorted(stored - written)[:4]))
                hint = f"its time points {left} are not replaced: write all of them, or {hint}"
            else:
                hint = f"use mode='w' to replace all its views, or {hint}"
            raise NodeExistsError(target.url, f"setup{number}", found, hint)


def _difference(before: ViewSetup | None, setup: ViewSetup) -> str | None:
    """Return how a setup of a project differs from another one with its id."""
    if before is None:
        return None
    if before.size is not None and before.size != setup.size:
        return f"a setup of size {before.size}; the new one has {setup.size}"
    one, other = before.voxel_size, setup.voxel_size
    if one is not None and other is not None and not np.allclose(one, other, rtol=_SAME, atol=0):
        return f"a setup with voxel size {one} {before.unit}; the new one has {other} {setup.unit}"
    for kind, number in setup.attributes.items():
        if before.attributes.get(kind, number) != number:
            return f"a setup of {kind} {before.attributes[kind]}; the new one has {number}"
    return None


def _stored_difference(attributes: Attributes, image: ViewImage) -> str | None:
    """Return how the stored views of a setup differ from the new ones."""
    dtype = attributes.get("dataType")
    own = image.described.levels[0].dtype.name
    if dtype is not None and dtype != own:
        return f"a setup of type {dtype}; the new one has {own}"
    factors = [list(each[::-1]) for each in image.factors]
    listed = attributes.get("downsamplingFactors")
    if lists_levels(attributes) and listed != factors:
        return f"a setup with factors {listed} (x, y, z); the new one has {factors}"
    return None
