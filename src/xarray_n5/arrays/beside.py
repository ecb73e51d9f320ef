"""Find the XML of a BigDataViewer container: of the same name, or the only one that refers to it.

BigStitcher-Spark lets users name the XML of a fusion freely.
"""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from xarray_n5.model.alerts import warn
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from xarray_n5.formats.protocol import Container
    from xarray_n5.stores import Store
    from xarray_n5_bdv.project import Project

_MOST_FILES = 32
"""The maximum number of XML files in a directory that are parsed."""


def xml_beside(container: Container) -> bytes | None:
    """Return the XML file beside a container that describes its views, or None."""
    suffix = next(filter(container.name.endswith, container.format.suffixes), "")
    name = f"{container.name.removesuffix(suffix)}.xml"
    try:
        if (own := container.sibling(name)) is not None:
            return own
    except PermissionError as error:
        warn(f"{name!r} beside {container.url!r} cannot be read, if it exists: {error}")
        return None
    found: dict[str, bytes] = {}
    with suppress(OSError):  # a container may be readable in a directory that cannot be listed
        found = dict(_pointing_at(container))
    if len(found) > 1:
        warn(
            f"{', '.join(sorted(found))} beside {container.url!r} all refer to it, so none is "
            "used; open one of them as a project"
        )
    return next(iter(found.values())) if len(found) == 1 else None


def _pointing_at(container: Container) -> Iterator[tuple[str, bytes]]:
    """Iterate over the XML files in a container's directory that refer to it."""
    from xarray_n5_bdv.project import read_project
    from xarray_n5_bdv.xml import LOOK, looks_like_project

    directory = _around(container)
    if directory is None:
        return
    folders, files = directory.list("")
    names = [name for name in files if name.lower().endswith(".xml")]
    if not 0 < len(names) <= _MOST_FILES:
        return
    heads = directory.head_many(names, LOOK)
    likely = [
        name
        for name, head in zip(names, heads, strict=True)
        if head is not None and looks_like_project(head[0]) and head[1] <= MOST_BYTES
    ]
    for name, document in zip(likely, directory.get_many(likely), strict=True):
        with suppress(ValueError):
            if document and points_at(read_project(document), container, {*folders, *files}):
                yield name, document


def _around(container: Container) -> Store | None:
    """Return the parent directory of a container, if it is cheap to list."""
    local = LocalStore.at(container.url, {}) if container.format.one_writer else None
    store = (local or container.store).uncached().parent()
    cheap = store is not None and (store.concurrency == 1 or store.complete_listings)
    return store if cheap else None


def points_at(project: Project, container: Container, names: Collection[str]) -> bool:
    """Return whether a project in a container's directory refers to the container.

    Parameters
    ----------
    project, container
        The project, and the container.
    names
        The names in their directory, which decide between the meanings of a path.
    """
    from xarray_n5_bdv.loaders import Bucket

    place = project.loader.place if project.loader else None
    if place is None:
        return False
    if isinstance(place, Bucket):
        return place.target == container.url
    if place.relative and project.base_path.relative:
        found = [posixpath.normpath(each.target) for each in place.resolve(project.base_path)]
        return container.name == next((name for name in found if name in names), found[0])
    target = re.sub(r"^(?:file|local):(?://)?(?=/)", "", place.target).rstrip("/")
    return container.url.rstrip("/") in {target, unquote(target)}
