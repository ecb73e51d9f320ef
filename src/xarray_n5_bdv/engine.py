"""What the engine "bdv" does: open the project in an XML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.errors import NodeNotFoundError
from xarray_n5.formats.scenes import find_scene
from xarray_n5_bdv.open import Choice, open_project, open_project_groups
from xarray_n5_bdv.scene import ProjectScene

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import xarray as xr

    from xarray_n5.datasets.build import DatasetOptions
    from xarray_n5_bdv.project_file import ProjectFile


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
