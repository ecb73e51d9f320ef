"""What the core and the engine "bdv" ask about the XML files of projects.

The functions are those of `SceneReader`, the class that of `Scene` in ``xarray_n5/leaves.py``.
"""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.context import hint_of_xml
from xarray_n5.arrays.group import Group
from xarray_n5.arrays.open import open_group
from xarray_n5.bdv.loaders import Bucket, View
from xarray_n5.bdv.location import ProjectFile, container_of
from xarray_n5.bdv.open import OpenProject
from xarray_n5.bdv.project import NDIM, read_project
from xarray_n5.bdv.stored import groups_of, layout_of
from xarray_n5.bdv.xml import looks_like_project
from xarray_n5.datasets.build import DatasetOptions
from xarray_n5.errors import MetadataError, N5Error, NodeNotFoundError
from xarray_n5.formats.containers import find_scene
from xarray_n5.model.image import Image

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr

    from xarray_n5.formats.containers import Container
    from xarray_n5.stores import Store

_MOST = 1 << 18
"""The maximum number of views of a project that are checked."""

_SHOWN = 8
"""The maximum number of missing views that are named."""


@dataclass(frozen=True)
class ProjectScene:
    """A project by its XML."""

    file: ProjectFile

    @property
    def url(self) -> str:
        """The location of the XML."""
        return self.file.url

    @property
    def document(self) -> bytes:
        """The XML."""
        return self.file.project.document

    @property
    def kind(self) -> str:
        """What it is, in one word."""
        return "project"

    def container(self, storage_options: Mapping[str, Any] | None) -> Container:
        """Return the container of the views."""
        return container_of(self.file, storage_options)

    def open_dataset(
        self,
        group: str,
        options: DatasetOptions,
        choice: Mapping[str, Any] | None = None,
    ) -> xr.Dataset:
        """Open an image at one level."""
        return OpenProject.at(self.file, options, group, choice).open_dataset()

    def open_groups(
        self,
        group: str,
        options: DatasetOptions,
        choice: Mapping[str, Any] | None = None,
    ) -> dict[str, xr.Dataset]:
        """Open all images at all levels, by path."""
        if options.level is not None:
            raise ValueError("level= is for open_dataset; a tree has all levels")
        return OpenProject.at(self.file, options, group, choice).open_groups()

    def images(
        self, group: str, storage_options: Mapping[str, Any] | None
    ) -> Mapping[str, Image[Array]]:
        """Return the images, or those at a path, by name."""
        options = DatasetOptions(storage_options=storage_options)
        opened = OpenProject.at(self.file, options, group)
        found = {name: placed.image for name, placed in opened.images().items()}
        if opened.options.level is None:
            return found
        levels = {name: opened.level_of(image) for name, image in found.items()}
        return {name: Image(None, {at: found[name].levels[at]}) for name, at in levels.items()}


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


def refers_to(document: bytes, container: Container) -> bool:
    """Return whether a project in a container's directory refers to the container.

    Parameters
    ----------
    document, container
        The XML, and the container.

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
        return container.name == posixpath.normpath(place.resolve(project.base_path).target)
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


def missing_images(document: bytes, nodes: Mapping[str, Array | Group]) -> str:
    """Return a sentence about the views that are not among a container's nodes, or ""."""
    project = read_project(document)
    if project.loader is None:
        return ""
    layout = layout_of(project)
    views = list(islice(project.views(), _MOST))
    known = {path: nodes.get(path) for path in groups_of(layout, views)}
    groups = {path: dict(node.attrs) for path, node in known.items() if isinstance(node, Group)}
    paths = {view: layout.path(view, 0, groups) for view in views}
    missing = [view for view, path in paths.items() if not isinstance(nodes.get(path), Array)]
    if not missing:
        return ""
    shown = [f"setup {view.setup} timepoint {view.timepoint}" for view in missing[:_SHOWN]]
    shown += [f"and {len(missing) - _SHOWN} more"] if missing[_SHOWN:] else []
    return (
        f"the XML of the project has {len(views)} views, of which {len(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} not stored: {', '.join(shown)}"
    )


def open_dataset(
    url: object, path: str, options: DatasetOptions, choice: Mapping[str, Any]
) -> xr.Dataset:
    """Open one level of the project in an XML, for the engine "bdv"."""
    return _scene_at(url, options.storage_options).open_dataset(path, options, choice)


def open_groups(
    url: object, path: str, options: DatasetOptions, choice: Mapping[str, Any]
) -> dict[str, xr.Dataset]:
    """Open all levels of the project in an XML, for the engine "bdv"."""
    return _scene_at(url, options.storage_options).open_groups(path, options, choice)


def _scene_at(url: object, storage_options: Mapping[str, Any] | None) -> ProjectScene:
    scene = find_scene(url, storage_options, by_name=False)
    if not isinstance(scene, ProjectScene):
        hint = "it is not the XML of a project; engine='n5' opens containers"
        if isinstance(url, str | os.PathLike) and "://" not in str(url) and not Path(url).exists():
            hint = "the file does not exist; expected the path of its XML"
        elif advice := _hint_next_to(url, storage_options):
            hint += f"; {advice}"
        raise NodeNotFoundError(str(url), "", "project", hint)
    return scene


def _hint_next_to(url: object, storage_options: Mapping[str, Any] | None) -> str:
    """Return the advice to open the XML next to a container; "" if it is not one."""
    try:
        return hint_of_xml(open_group(url, storage_options=storage_options).container)
    except (N5Error, OSError, ValueError):
        return ""
