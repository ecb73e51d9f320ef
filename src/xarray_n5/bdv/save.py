"""Write views as a project: after all checks, data are written, and the XML last.

The layouts are in ``written.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.arrays.create import hint_of
from xarray_n5.arrays.group import create_group
from xarray_n5.arrays.records import look
from xarray_n5.bdv.combine import combined
from xarray_n5.errors import NodeExistsError
from xarray_n5.model.level_names import setup_name
from xarray_n5.model.metadata import lists_levels
from xarray_n5.model.tolerances import ROUNDING
from xarray_n5.writing.group import GroupWrite
from xarray_n5.writing.plan import planned_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.bdv.describe import ViewImage
    from xarray_n5.bdv.loaders import View
    from xarray_n5.bdv.project import Project, ViewSetup
    from xarray_n5.bdv.target import ProjectTarget
    from xarray_n5.bdv.written import WrittenLayout
    from xarray_n5.model.metadata import Attributes
    from xarray_n5.writing.options import WriteOptions
    from xarray_n5.writing.request import WriteRequest


def write_views(
    images: Sequence[ViewImage],
    target: ProjectTarget,
    how: WriteOptions,
    *,
    in_turn: bool = False,
) -> GroupWrite:
    """Return the write of views, and of the XML after them.

    Parameters
    ----------
    images
        The images.
    target
        The XML.
    how
        The container and the options of the views.
    in_turn
        Whether each level is computed from the one before.

    Raises
    ------
    MetadataError
        If the container cannot store a view, or a setup differs from that of the project.
    NodeExistsError
        If something exists that the mode does not allow to replace.
    """
    layout = target.layout
    added = reduce(combined, (image.described.project for image in images))
    views = sorted(view for image in images for view in image.described.views)
    added = replace(added, loader=layout.loader(target.place, views))
    existing = Existing.of(how, added, target)
    closing = target.update(added)
    requests: dict[str, WriteRequest] = {}
    for image in images:
        requests |= _requests(image, layout)

    def check(resumes: bool) -> None:
        if how.mode == "w-" and not resumes:
            existing.check_nothing()
        check_setups(existing, images)

    def prepare() -> None:
        create_group(how.container, "", mode="a")
        for path in existing.levels_beyond(images):
            how.container.delete(path)
        for image in images:
            _create_groups(image, layout, requests, how)

    return GroupWrite(
        options=how,
        path="",
        requests=requests,
        attributes={"project": repr(added), "xml": [target.name, repr(target.place)]},
        check=check,
        prepare=prepare,
        closing=closing,
        closes_early=False,  # viewers show what an XML lists
        in_turn=in_turn,
        exclusive=how.mode == "w-",
    )


def _requests(image: ViewImage, layout: WrittenLayout) -> dict[str, WriteRequest]:
    """Return the views of an image to write by path, level by level."""
    requests: dict[str, WriteRequest] = {}
    finer: dict[View, Array] = {}
    for level in range(len(image.factors)):
        for view in image.described.views:
            path = layout.path(view, level)
            requests[path] = image.request(view, level, path, finer.get(view))
            finer[view] = planned_array(requests[path])
    return requests


def _create_groups(
    image: ViewImage, layout: WrittenLayout, requests: Mapping[str, WriteRequest], how: WriteOptions
) -> None:
    """Create the groups of setups and views, with the attributes that BigStitcher reads."""
    by_setup: dict[int, list[View]] = {}
    for view in image.described.views:
        by_setup.setdefault(view.setup, []).append(view)
    for number, views in by_setup.items():
        base = planned_array(requests[layout.path(views[0], 0)]).node.metadata
        setup = image.described.project.setups[number]
        layout.create_groups(how.container, setup, views, image.factors, base)


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
        times = target.layout.timepoints(container, names, added.setups)
        setups = target.layout.described(container, times)
        return cls(how=how, target=target, names=names, setups=setups, timepoints=times)

    def check_nothing(self) -> None:
        """Raise NodeExistsError if there is a project, or anything in its container."""
        how = self.how
        hint = hint_of(
            "use mode='a' to add views, or mode='w' to replace them",
            unfinished=bool(look(how.store, "").opens),
            resume=bool(how.resume),
        )
        if self.target.project is not None:
            raise NodeExistsError(self.target.url, "", "a project", hint)
        if self.names:
            shown = f"a container with {', '.join(self.names[:4])}"
            raise NodeExistsError(how.container.url, "", shown, hint)

    def levels_beyond(self, images: Sequence[ViewImage]) -> list[str]:
        """Return the paths of levels of replaced views that the new ones do not have."""
        found, layout = [], self.target.layout
        for image in images:
            for view in image.described.views:
                if view.timepoint not in self.timepoints.get(view.setup, ()):
                    continue
                path, count = layout.path(view), len(image.factors)
                levels = layout.level_names(self.how.container, view)
                found += [f"{path}/{name}" for n, name in levels.items() if n >= count]
        return found


def check_setups(existing: Existing, images: Sequence[ViewImage]) -> None:
    """Raise if a setup differs from the remaining one with its id.

    In mode "w" a setup may differ, if all its views are replaced.

    Raises
    ------
    NodeExistsError
        If it differs.
    """
    target, replaces = existing.target, existing.how.mode == "w"
    before = target.project.setups if target.project is not None else {}
    for image in images:
        project = image.described.project
        for number, setup in project.setups.items():
            stored = existing.timepoints.get(number, frozenset())
            written = {view.timepoint for view in image.described.views if view.setup == number}
            left = ", ".join(map(str, sorted(stored - written)[:4]))
            if (replaces and not left) or not (stored or number in before):
                continue
            found = difference_of(before.get(number), setup)
            found = found or _stored_difference(existing.setups.get(number, {}), image)
            if found is None:
                continue
            hint = "use mode='w' to replace all its views"
            if replaces:
                hint = f"its time points {left} are not replaced: write all of them"
            hint += ", or give it another id (the coordinate 'setup')"
            raise NodeExistsError(target.url, setup_name(number), found, hint)


def difference_of(before: ViewSetup | None, setup: ViewSetup) -> str | None:
    """Return how a setup of a project differs from another one with its id."""
    if before is None:
        return None
    if before.size is not None and before.size != setup.size:
        return f"a setup of size {before.size}; the new one has {setup.size}"
    one, other = before.voxel_size, setup.voxel_size
    if one is not None and other is not None and not np.allclose(one, other, rtol=ROUNDING, atol=0):
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
