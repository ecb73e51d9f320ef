"""Views of a BigDataViewer project that its container does not have."""

from __future__ import annotations

from itertools import islice, product
from typing import TYPE_CHECKING

from xarray_n5.integrity.diagnosis.finding import Finding, listed
from xarray_n5_bdv.layouts import groups_of, layout_of
from xarray_n5_bdv.loaders import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.integrity.diagnosis.survey import Survey
    from xarray_n5_bdv.project import Project

_MOST = 1 << 18
"""The maximum number of views of a project that are checked."""


def missing_views(project: Project, survey: Survey) -> Iterator[Finding]:
    """Find views of a project that its container lacks."""
    if project.loader is None:
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
