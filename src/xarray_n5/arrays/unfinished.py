"""Whether what is opened has an unfinished write."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from xarray_n5.arrays.marker import unfinished_writes
from xarray_n5.formats.documents import unfinished, warn_unfinished

if TYPE_CHECKING:
    from collections.abc import Collection

    from xarray_n5.stores import Store


def warn_of_writes(store: Store, arrays: Collection[str], group: str) -> None:
    """Warn about arrays with an unfinished write; if there are none, about an append to the group.

    Nothing is requested for a group without arrays.
    """
    groups = [group] if arrays else []
    warn_unfinished(store, arrays, lambda: filter(partial(is_growing, store), groups))


def is_growing(store: Store, path: str) -> bool:
    """Return whether an append to a group is unfinished: it resizes arrays that have no marker yet.

    If the small file that hints at it is in the store's cache, and says no, nothing is requested.
    """
    begun = unfinished_writes(store, path) if unfinished(store, [path]) else ()
    return any("grows" in (each.facts() or {}) for each in begun)
