"""Find the XML of a BigDataViewer container: of the same name, or the only one that refers to it.

BigStitcher-Spark lets users name the XML of a fusion freely.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from xarray_n5.leaves import LOOK, scene_reader
from xarray_n5.model.alerts import warn
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.stores import LocalStore, heads, uncached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xarray_n5.formats.containers import Container
    from xarray_n5.stores import Store

_MOST_FILES = 32
"""The maximum number of XML files in a directory that are parsed."""


def find_xml(container: Container) -> bytes | None:
    """Return the XML file next to a container that describes its views, or None."""
    return _find(container)[1]


def hint_of_xml(container: Container) -> str:
    """Return the advice to open the XML file next to a container, if one describes its views."""
    name, document = _find(container)
    is_scene = document is not None and scene_reader(document) is not None
    return f"{name!r} next to it describes its views: open that instead" if is_scene else ""


def _find(container: Container) -> tuple[str, bytes | None]:
    """Return the name and the content of the XML file next to a container; None without one."""
    suffix = next(filter(container.name.endswith, container.format.suffixes), "")
    name = f"{container.name.removesuffix(suffix)}.xml"
    directory = _around(container)
    try:
        document = None if directory is None else directory.get(name)
    except PermissionError as error:
        warn(f"{name!r} next to {container.url!r} cannot be read, if it exists: {error}")
        return name, None
    if document is not None or directory is None:
        return name, document
    documents: dict[str, bytes] = {}
    with suppress(OSError):  # a container may be readable in a directory that cannot be listed
        documents = dict(_pointing_at(container, uncached(directory)))
    if len(documents) > 1:
        warn(
            f"{', '.join(sorted(documents))} next to {container.url!r} all refer to it, so none is "
            "used; open one of them as a project"
        )
    return next(iter(documents.items())) if len(documents) == 1 else (name, None)


def _pointing_at(container: Container, directory: Store) -> Iterator[tuple[str, bytes]]:
    """Iterate over the XML files in a container's directory that refer to it, if it is cheap."""
    if directory.concurrency > 1 and not directory.complete_listings:
        return
    _, files = directory.list("")
    names = [name for name in files if name.lower().endswith(".xml")]
    if not 0 < len(names) <= _MOST_FILES:
        return
    first_bytes = heads(directory, names, LOOK)
    likely = [
        name
        for name, head in zip(names, first_bytes, strict=True)
        if head is not None and scene_reader(head[0]) is not None and head[1] <= MOST_BYTES
    ]
    for name, document in zip(likely, directory.get_many(likely), strict=True):
        reader = scene_reader(document or b"")
        with suppress(ValueError):
            if document and reader and reader.refers_to(document, container):
                yield name, document


def _around(container: Container) -> Store | None:
    """Return the parent directory of a container."""
    local = LocalStore.at(container.url, {}) if container.format.one_writer else None
    return (local or container.store).parent()
