"""Stores keep the files of a container: keys to bytes.

:class:`Store` is the base of all stores. ``tests/stores/test_stores.py`` checks all of them alike.
"""

from __future__ import annotations

from xarray_n5.stores._filesystems import anonymous_options
from xarray_n5.stores.archive import ArchiveStore
from xarray_n5.stores.base import Listing, ObjectInfo, Range, Store, heads, together
from xarray_n5.stores.cached import CachedStore, uncached
from xarray_n5.stores.fsspec import FsspecStore
from xarray_n5.stores.local import LocalStore

__all__ = [
    "ArchiveStore",
    "CachedStore",
    "FsspecStore",
    "Listing",
    "LocalStore",
    "ObjectInfo",
    "Range",
    "Store",
    "anonymous_options",
    "heads",
    "together",
    "uncached",
]
