"""A project as the core and the engine "bdv" open it; see `Scene` in ``xarray_n5/leaves.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import NodeNotFoundError
from xarray_n5.formats.scenes import find_scene
from xarray_n5_bdv.location import container_of
from xarray_n5_bdv.open import Choice, open_project, open_project_groups

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import xarray as xr

    from xarray_n5.copying.array_copy import CopyOptions
    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5.formats.protocol import Container
    from xarray_n5.writing.request import WriteOptions
    from xarray_n5.writing.transaction import Transaction
    from xarray_n5_bdv.first_view import ViewLevel
    from xarray_n5_bdv.project_file import ProjectFile


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

    def container(self, storage_options: Mapping[str, Any] | None) -> Container:
        """Return the container of the views."""
        return container_of(self.file, storage_options)

    def open_dataset(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,
        options: DatasetOptions,
        **how: Any,
    ) -> xr.Dataset:
        """Open an image at one level."""
        return open_project(self.file, group, storage_options, options, **how)

    def open_groups(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,
        options: DatasetOptions,
        **how: Any,
    ) -> dict[str, xr.Dataset]:
        """Open all images at all levels, by path."""
        return open_project_groups(self.file, group, storage_options, options, **how)

    def level_path(
        self, group: str, level: int | str, storage_options: Mapping[str, Any] | None
    ) -> str:
        """Return the path of a level by its name or number."""
        from xarray_n5_bdv.copy_from import level_of_project

        return level_of_project(self.file, group, level, storage_options)

    def plan_copy(
        self,
        group: str,
        how: WriteOptions,
        path: str,
        options: CopyOptions,
        without: Collection[str],
        storage_options: Mapping[str, Any] | None,
    ) -> Transaction | None:
        """Return the write of a copy of the images; None if the copy to resume has ended."""
        from xarray_n5_bdv.copy_from import plan_project

        return plan_project(self.file, group, how, path, options, without, storage_options)

    def first_image(self, group: str, storage_options: Mapping[str, Any] | None) -> list[ViewLevel]:
        """Return the levels of the first view."""
        from xarray_n5_bdv.first_view import first_view

        return first_view(self.file, group, storage_options)

    def text(self, group: str, storage_options: Mapping[str, Any] | None) -> str:
        """Return the description of the project, for people."""
        from xarray_n5_bdv.show import images_in, project_text

        return project_text(self.file, images_in(self.file, group, storage_options))

    def facts(self, group: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the description of the project, for programs."""
        from xarray_n5_bdv.show import images_in, project_facts

        return project_facts(self.file, images_in(self.file, group, storage_options))

    def tree_lines(
        self,
        group: str,
        storage_options: Mapping[str, Any] | None,
        branches: tuple[str, str, str],
        *,
        depth: int | None,
        chunks: bool,
    ) -> Iterator[str]:
        """Iterate over the lines of a drawing of the images and their levels."""
        from xarray_n5_bdv.show import tree_lines

        return tree_lines(self.file, group, storage_options, branches, depth=depth, chunks=chunks)


def open_dataset(url: object, choice: Mapping[str, Any], **how: Any) -> xr.Dataset:
    """Open one level of the project in an XML, for the engine "bdv"."""
    file, group, storage_options, options, more = _found(url, **how)
    return open_project(file, group, storage_options, options, Choice(**choice), **more)


def open_groups(url: object, choice: Mapping[str, Any], **how: Any) -> dict[str, xr.Dataset]:
    """Open all levels of the project in an XML, for the engine "bdv"."""
    file, group, storage_options, options, more = _found(url, **how)
    return open_project_groups(file, group, storage_options, options, Choice(**choice), **more)


def _found(
    url: object,
    *,
    path: str,
    storage_options: Mapping[str, Any] | None,
    drop: Iterable[str],
    **how: Any,
) -> tuple[ProjectFile, str, Mapping[str, Any] | None, DatasetOptions, dict[str, Any]]:
    """Return the project at a location, and how to open it."""
    scene = find_scene(url, storage_options, by_name=False)
    if not isinstance(scene, ProjectScene):
        raise NodeNotFoundError(str(url), "", "project", "expected the path of its XML")
    return scene.file, path, storage_options, how.pop("options"), {"drop": frozenset(drop), **how}
