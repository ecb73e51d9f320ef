"""What the core and the engine "bdv" ask about the XML files of projects.

The functions are those of `SceneReader`, the class that of `Scene` in ``xarray_n5/leaves.py``.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import numpy as np

from xarray_n5.arrays.context import hint_of_xml
from xarray_n5.arrays.node import OpenOptions
from xarray_n5.arrays.open import open_group
from xarray_n5.bdv.coordinates import ViewSelection
from xarray_n5.bdv.images import images_of, in_world_of_input
from xarray_n5.bdv.loaders import Bucket, ViewId
from xarray_n5.bdv.location import ProjectFile, container_of
from xarray_n5.bdv.project import NDIM, read_project
from xarray_n5.bdv.stored import StoredViews, find_views, layout_of
from xarray_n5.bdv.xml import looks_like_project
from xarray_n5.datasets.build import DatasetOptions
from xarray_n5.datasets.placed import open_levels
from xarray_n5.errors import MetadataError, N5Error, NodeNotFoundError
from xarray_n5.formats.containers import find_scene
from xarray_n5.images.select import pick_level
from xarray_n5.model.image import Image
from xarray_n5.model.json import check_option
from xarray_n5.model.paths import level_name, number_in, numbers_in_view

if TYPE_CHECKING:
    from collections.abc import Collection

    import xarray as xr

    from xarray_n5.arrays.array import Array
    from xarray_n5.bdv.coordinates import Arrangement
    from xarray_n5.datasets.placed import PlacedImage
    from xarray_n5.formats.containers import Container
    from xarray_n5.stores import Store

Choice: TypeAlias = "Mapping[str, Any] | None"
"""The options of projects: `setup`, `timepoint` and `setups`."""

MOST_VIEWS = 1 << 18
"""The maximum number of views that are opened at once."""


@dataclass(frozen=True)
class OpenProject:
    """A project and its container, opened for one operation."""

    file: ProjectFile
    container: Container
    options: DatasetOptions
    setup: int | None = None
    timepoint: int | None = None
    setups: Arrangement | None = None

    @classmethod
    def at(
        cls, file: ProjectFile, options: DatasetOptions, group: str = "", choice: Choice = None
    ) -> OpenProject:
        """Return an open project; only the XML is read yet.

        `group` is a path as in BigDataViewer's N5, such as ``setup0/timepoint0/s0``, or the
        beginning or the end of one, equivalent to the options `setup`, `timepoint` and `level`.
        """
        if options.dialect not in {None, "bdv"}:
            raise ValueError(
                f"dialect={options.dialect!r} does not apply to projects: the XML has the axes"
            )
        chosen = {key: value for key, value in (choice or {}).items() if value is not None}
        if "setups" in chosen:
            check_option("setups", chosen["setups"], "grid", "flat")
        numbers = numbers_in_view(group)
        if numbers is None:
            raise ValueError(
                f"group={group!r} is not a node of a project; expected setup0, s0 or setup0/s0"
            )
        for key in numbers:
            if key in chosen or (key == "level" and options.level is not None):
                raise ValueError(f"group={group!r} and {key}= exclude each other; pass one of them")
        if (level := numbers.pop("level", None)) is not None:
            options = replace(options, level=level_name(level))
        container = container_of(file, options.storage_options)
        return cls(file, container, options, **{**chosen, **numbers})

    @property
    def selection(self) -> ViewSelection:
        """The time points and setups that the options select."""
        project = self.file.project
        return ViewSelection(
            timepoints=self._chosen("timepoint", project.timepoints, self.timepoint),
            setups=self._chosen("setup", project.setups, self.setup),
            single_timepoint=self.timepoint is not None,
            single_setup=self.setup is not None,
            arrangement=self.setups,
        )

    def _chosen(self, what: str, known: Collection[int], wanted: int | None) -> tuple[int, ...]:
        if wanted is None:
            if known:
                return tuple(known)
            raise MetadataError(f"{self.file.url}: the project has no {what}s")
        if isinstance(wanted, bool | list | tuple) or wanted not in known:
            shown = ", ".join([*map(str, list(known)[:8]), *["..."] * (len(known) > 8)])  # noqa: PLR2004
            hint = f"the {what}s are {shown}; open one, or all and select by dimension"
            raise NodeNotFoundError(self.file.url, str(wanted), what, hint)
        return (int(wanted),)

    def find(
        self, selection: ViewSelection, level: int | None = None, *, silent: bool = False
    ) -> StoredViews:
        """Return the stored views of a selection.

        With `silent`, unfinished writes in stores far away are not reported: that would take one
        request for each view.

        Raises
        ------
        MetadataError
            If there are too many of them.
        NodeNotFoundError
            If there are none.
        """
        project = self.file.project
        count = len(selection.timepoints) * len(selection.setups)
        if count > MOST_VIEWS:
            raise MetadataError(
                f"{self.file.url}: the project has {count} views, expected at most {MOST_VIEWS}; "
                "open some of them with setup= or timepoint="
            )
        wanted = list(project.views(selection.timepoints, selection.setups))
        opening = OpenOptions(**self.options.opening)
        silent = silent and self.container.batch > 1
        layout = layout_of(project)
        stored = find_views(self.container, layout, wanted, opening, level, silent=silent)
        if stored.views:
            return stored
        for error in stored.broken.values():
            raise error
        if selection.single_timepoint and len(project.timepoints) > 1:
            return StoredViews()  # another time point may have its shape
        named = f"; the XML lists {count - len(wanted)} as missing" if count > len(wanted) else ""
        hint = f"none of the {count} views of {self.file.url!r} is stored there{named}"
        if self.setup is not None:
            hint = f"setup {self.setup} of {self.file.url!r} is not stored there"
        if not self.container.store.is_folder(""):
            hint = f"it does not exist; move it there, or correct its path in {self.file.url!r}"
        raise NodeNotFoundError(self.container.url, "", "view", hint)

    def images(self, level: int | None = None) -> dict[str, PlacedImage]:
        """Return the images to open, with only one level if it is specified."""
        selection, project = self.selection, self.file.project
        stored = self.find(selection, level, silent=True)
        if not stored.views:
            # Missing views have the shape of another time point.
            times = tuple(project.timepoints)
            selection = replace(selection, timepoints=times, single_timepoint=False)
            stored = self.find(selection, level, silent=True)
        project = in_world_of_input(project, stored, self.file.url)
        return images_of(project, stored, selection, self.file.url)

    def open_dataset(self) -> xr.Dataset:
        """Open one level as a Dataset.

        Raises
        ------
        NodeNotFoundError
            If there is no such level, setup or time point, or no view is stored.
        ValueError
            If there are several levels, or images that differ, and the options do not select one.
        """
        number = _number(self.options.level)
        images = self.images(number)
        if "" not in images:
            names = ", ".join(images)
            by = "setup= and timepoint=" if any("/" in name for name in images) else "setup="
            raise ValueError(
                f"the views of {self.file.url!r} differ in shape, type or voxel size ({names}); "
                f"open one with {by}, or all of them with xarray.open_datatree"
            )
        placed = images[""]
        if number is not None and level_name(number) not in placed.image.levels:
            placed = self.images()[""]  # for an error with the names of all levels
        level = self.level_of(placed.image)
        dataset = placed.dataset(level, self.file.name, self.file.url, self.options)
        return self._of_timepoint(dataset)

    def open_groups(self) -> dict[str, xr.Dataset]:
        """Open all levels as Datasets, by path: ``/s0``, or ``/setup0/s0``."""
        if self.options.level is not None:
            return {"/": self.open_dataset()}
        levels = open_levels(self.images(), self.file.name, self.file.url, self.options)
        return {path: self._of_timepoint(dataset) for path, dataset in levels.items()}

    def level_of(self, image: Image[Array]) -> str:
        """Return the name of the level that the options select."""
        level, names, where = self.options.level, list(image.levels), self.file.url
        number = None if level is None or isinstance(level, Mapping) else _number(level)
        chosen = level if number is None else level_name(number)
        return pick_level(names, chosen, lambda: image.levels, where)

    def _of_timepoint(self, dataset: xr.Dataset) -> xr.Dataset:
        """Return the selected time point; its views are missing, and have the shape of others."""
        if self.timepoint is None or "t" not in dataset.dims:
            return dataset
        return dataset.sel(t=self.timepoint)


def _number(level: object) -> int | None:
    """Return the number of the only level to find, or None if others are needed, too."""
    if isinstance(level, str):
        return number_in(level)
    known = isinstance(level, int) and not isinstance(level, bool)
    return level if known and level >= 0 else None  # type: ignore[operator,return-value]


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
        self, group: str, options: DatasetOptions, choice: Choice = None
    ) -> xr.Dataset:
        """Open an image at one level."""
        return OpenProject.at(self.file, options, group, choice).open_dataset()

    def open_groups(
        self, group: str, options: DatasetOptions, choice: Choice = None
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
        images = {name: placed.image for name, placed in opened.images().items()}
        if opened.options.level is None:
            return images
        levels = {name: opened.level_of(image) for name, image in images.items()}
        return {name: Image(None, {at: images[name].levels[at]}) for name, at in levels.items()}


recognizes = looks_like_project


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
    if (registered := project.physical(ViewId(timepoint, setup))) is not None:
        return *registered, "ViewRegistration of the XML"
    described = project.setups.get(setup)
    if described is None or described.voxel_size is None:
        return None
    rows = np.diag([*described.voxel_size[::-1], 1.0])[:NDIM]
    return rows, described.unit, "voxelSize of the XML"


def scene_at(url: object, storage_options: Mapping[str, Any] | None) -> ProjectScene:
    """Return the project in an XML, for the engine "bdv"."""
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
