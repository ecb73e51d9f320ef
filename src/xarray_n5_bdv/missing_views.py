"""Views of a BigDataViewer project that its container does not have."""

from __future__ import annotations

from itertools import islice, product
from typing import TYPE_CHECKING

from xarray_n5.arrays.beside import points_at, xml_beside
from xarray_n5.integrity.diagnosis.finding import Finding, listed
from xarray_n5_bdv.layouts import groups_of, layout_of
from xarray_n5_bdv.loaders import View
from xarray_n5_bdv.project import read_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.integrity.diagnosis.survey import Survey
    from xarray_n5_bdv.project import Project

_MOST = 1 << 18
"""The maximum number of views of a project that are checked."""


def missing_views(survey: Survey) -> Iterator[Finding]:
    """Find views of a project that its container lacks."""
    if survey.root:
        return
    try:
        project = survey.project or _beside(survey)
    except ValueError as error:
        why = f"the XML of the project beside the container cannot be read: {error}"
        yield Finding("unreadable-project", "", why, "restore it; BigStitcher keeps dataset.xml~1")
        return
    if project is None or project.loader is None:
        return
    layout = layout_of(project)
    pairs = islice(product(project.timepoints, project.setups), _MOST)
    zarr = project.loader.views
    views = [
        v for v in map(View._make, pairs) if v not in project.missing and (not zarr or v in zarr)
    ]
    paths = groups_of(layout, views)
    groups = {path: dict(survey.groups[path].attrs) for path in paths if path in survey.groups}
    lost = [view for view in views if layout.path(view, 0, groups) not in survey.arrays]
    if lost:
        shown = listed([f"setup {view.setup} timepoint {view.timepoint}" for view in lost])
        yield Finding(
            "missing-view",
            "",
            f"the XML of the project has {len(views)} views, of which {len(lost)} are not stored: "
            f"{shown}",
            "write them, or list them in the XML's MissingViews",
        )


def _beside(survey: Survey) -> Project | None:
    """Return the project that refers to a container, or None."""
    document = xml_beside(survey.container)
    if document is None:
        return None
    project = read_project(document)
    container = survey.container
    return project if points_at(project, container, {container.name}) else None
