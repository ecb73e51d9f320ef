"""Where the files of a container are kept: keys to bytes.

:class:`Store` is the protocol, of seven members; :mod:`~xarray_n5.stores.operations` holds what
can be done with any store, in its own way if it has one. ``tests/test_storage.py`` holds every
store to one contract.
"""

from __future__ import annotations

from xarray_n5.stores._requests import Retries
from xarray_n5.stores.cached import CachedStore
from xarray_n5.stores.fsspec import FsspecStore
from xarray_n5.stores.local import LocalStore
from xarray_n5.stores.memory import MemoryStore
from xarray_n5.stores.operations import (
    clear_folder,
    concurrency,
    delete_tree,
    etag,
    exclusive,
    exists,
    fetch,
    fresh,
    get_many,
    head,
    head_many,
    is_folder,
    is_link,
    list_info,
    list_many,
    list_partials,
    name_of,
    set_many,
    uncached,
    walk,
    with_fsync,
    with_limit,
)
from xarray_n5.stores.protocol import Listing, ObjectInfo, Store

__all__ = [
    "CachedStore",
    "FsspecStore",
    "Listing",
    "LocalStore",
    "MemoryStore",
    "ObjectInfo",
    "Retries",
    "Store",
    "clear_folder",
    "concurrency",
    "delete_tree",
    "etag",
    "exclusive",
    "exists",
    "fetch",
    "fresh",
    "get_many",
    "head",
    "head_many",
    "is_folder",
    "is_link",
    "list_info",
    "list_many",
    "list_partials",
    "name_of",
    "set_many",
    "uncached",
    "walk",
    "with_fsync",
    "with_limit",
]
