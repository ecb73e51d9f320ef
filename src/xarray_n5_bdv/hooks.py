"""What the core asks about XML files of projects; see `SceneReader` in ``xarray_n5/leaves.py``."""

from __future__ import annotations

import posixpath
import re
from itertools import islice, product
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np

from xarray_n5.errors import MetadataError
from xarray_n5_bdv.layouts import groups_of, layout_of
from xarray_n5_bdv.loaders import Bucket, View
from xarray_n5_bdv.project import read_project
from xarray_n5_bdv.project_file import ProjectFile
from xarray_n5_bdv.registrations import NDIM
from xarray_n5_bdv.xml import looks_like_project

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from xarray_n5.formats.protocol import Container
    from xarray_n5.integrity.diagnosis.finding import Finding
    from xarray_n5.integrity.diagnosis.survey import Survey
    from xarray_n5.stores import Store
    from xarray_n5_bdv.scene import ProjectScene

_MOST = 1 << 18
"""The maximum number of views of a project that are checked."""


def recognizes(head: bytes) -> bool:
    """Return whether a file that begins with `head` is the XML of a project."""
    return looks_like_project(head)


def open_scene(store: Store, document: bytes, source: object) -> ProjectScene:
    """Return the project in a file, which is the root of `store`.

    Raises
    ------
    MetadataError
        If the XML is invalid.
    """
    from xarray_n5_bdv.scene import ProjectScene

    try:
        return ProjectScene(ProjectFile(store, read_project(document), source))
    except ValueError as error:
        raise MetadataError(f"{store.url}: the project cannot be read: {error}") from error


def hint(document: bytes) -> str:
    """Return how to open an XML that was opened as a container."""
    try:
        named = read_project(document).container
    except ValueError:
        named = None
    container = f", or its container, {named!r}" if named else ""
    return (
        "it is a project of BigDataViewer: open it with xarray.open_dataset or "
        f"xarray.open_datatree, and engine='bdv'{container}"
    )


def refers_to(document: bytes, container: Container, names: Collection[str]) -> bool:
    """Return whether a project in a container's directory refers to the container.

    Parameters
    ----------
    document, container
        The XML, and the container.
    names
        The names in their directory, which decide between the meanings of a path.

    Raises
    ------
    ValueError
        If the XML is invalid.
    """
    project = read_project(document)
    place = project.loader.place if project.loader else None
    if place is None:
        return False
    if isinstance(place, Bucket):
        return place.target == container.url
    if place.relative and project.base_path.relative:
        paths = [posixpath.normpath(each.target) for each in place.resolve(project.base_path)]
        return container.name == next((path for path in paths if path in names), paths[0])
    target = re.sub(r"^(?:file|local):(?://)?(?=/)", "", place.target).rstrip("/")
    return container.url.rstrip("/") in {target, unquote(target)}


def placement(
    document: bytes, timepoint: int, setup: int
) -> tuple[np.ndarray, str | None, str] | None:
    """Return the matrix of a view's samples in the order x, y, z, its unit, and its source.

    Raises
    ------
    ValueError
        If the XML is invalid.
    """
    project = read_project(document)
    if (registered := project.physical(View(timepoint, setup))) is not None:
        return *registered, "ViewRegistration of the XML"
    described = project.setups.get(setup)
    if described is None or described.voxel_size is None:
        return None
    rows = np.diag([*described.voxel_size[::-1], 1.0])[:NDIM]
    return rows, described.unit, "voxelSize of the XML"


def missing_parts(document: bytes, survey: Survey, *, named: bool) -> Iterator[Finding]:
    """Iterate over the views of a project that its container lacks."""
    from xarray_n5.integrity.diagnosis.finding import Finding, listed

    project = read_project(document)
    refers = named or refers_to(document, survey.container, {survey.container.name})
    if project.loader is None or not refers:
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
