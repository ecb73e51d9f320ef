"""Find files that describe scenes by their content, whatever a container is called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from xarray_n5.formats.containers import open_store
from xarray_n5.formats.open import CONTAINERS
from xarray_n5.leaves import LOOK, scene_reader
from xarray_n5.model.json import MOST_BYTES
from xarray_n5.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.leaves import Scene
    from xarray_n5.stores import Store

_SUFFIX = ".xml"

_OF_PATHS = ("follow_links",)
"""Options of local paths; others are for the container."""


def find_scene(
    url: object, storage_options: Mapping[str, Any] | None = None, *, by_name: bool = True
) -> Scene | None:
    """Return the scene that a file describes, or None if there is no such file.

    A local file is recognised by its beginning, whatever its name. With `by_name`, others are only
    read if their name ends with ``.xml``, so that no request is made for a container.

    Raises
    ------
    MetadataError
        If it is invalid.
    """
    store = _file_at(url, storage_options, by_name=by_name)
    if store is None:
        return None
    if isinstance(store, LocalStore):
        head = store.head("", LOOK)
        if head is None or scene_reader(head[0]) is None:
            return None
    document = store.with_limit(MOST_BYTES).get("")
    reader = None if document is None else scene_reader(document)
    return None if reader is None else reader.open_scene(store, document or b"", url)


def _file_at(
    url: object, storage_options: Mapping[str, Any] | None, *, by_name: bool
) -> Store | None:
    """Return the store of a file that may describe a scene."""
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
