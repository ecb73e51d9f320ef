"""Find projects: recognise their XML by its content, and parse it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import MetadataError
from xarray_n5.formats.containers import open_store
from xarray_n5.formats.open import CONTAINERS
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.stores import LocalStore
from xarray_n5_bdv.project import Project, read_project
from xarray_n5_bdv.xml import LOOK, looks_like_project

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.stores import Store

_SUFFIX = ".xml"

_ENDING = re.compile(r"\.xml(?:~\d+)?$", re.IGNORECASE)
"""The suffix of a project's name; BigStitcher numbers its backups: ``dataset.xml~1``."""

_OF_PATHS = ("follow_links",)
"""Options of local paths; others are for the container."""


@dataclass(frozen=True)
class ProjectFile:
    """An XML file, and the project that it describes."""

    store: Store
    """The file, as a store whose root it is."""
    project: Project
    source: object
    """The file as the user named it."""

    @property
    def url(self) -> str:
        """The file's location."""
        return self.store.url

    @property
    def name(self) -> str:
        """The file's name without its suffix, or that of a backup: the name of variables."""
        return _ENDING.sub("", self.store.name) or self.store.name

    @property
    def is_local(self) -> bool:
        """Whether the file is on a local disk."""
        return isinstance(self.store, LocalStore)


def find_project(
    url: object, storage_options: Mapping[str, Any] | None = None, *, by_name: bool = True
) -> ProjectFile | None:
    """Return the project at a location, or None if there is none.

    A local file is recognised by its beginning, whatever its name. With `by_name`, others are only
    read if their name ends with ``.xml``, so that no request is made for a container.

    Raises
    ------
    MetadataError
        If it is a project with an invalid XML.
    """
    store = _file_at(url, storage_options, by_name=by_name)
    if store is None:
        return None
    if isinstance(store, LocalStore):
        head = store.head("", LOOK)
        if head is None or not looks_like_project(head[0]):
            return None
    document = store.with_limit(MOST_BYTES).get("")
    if document is None or not looks_like_project(document[:LOOK]):
        return None
    try:
        return ProjectFile(store, read_project(document), url)
    except ValueError as error:
        raise MetadataError(f"{store.url}: the project cannot be read: {error}") from error


def _file_at(
    url: object, storage_options: Mapping[str, Any] | None, *, by_name: bool
) -> Store | None:
    """Return the store of a possible project XML."""
    if isinstance(url, CONTAINERS):
        return None
    follow = {k: v for k, v in (storage_options or {}).items() if k in _OF_PATHS}
    local = LocalStore.at(url, follow)
    if local is not None:
        return local if os.path.isfile(local.root) else None  # noqa: PTH113
    if isinstance(url, str):
        path = url.partition("#")[0].partition("?")[0]
        if by_name and not path.lower().endswith(_SUFFIX):
            return None
    store = open_store(url, storage_options)
    return store if not by_name or store.name.lower().endswith(_SUFFIX) else None
