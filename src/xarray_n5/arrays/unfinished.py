"""Whether what is opened has an unfinished write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.arrays.marker import unfinished_writes
from xarray_n5.formats.documents import unfinished, warn_of
from xarray_n5.model.paths import join

if TYPE_CHECKING:
    from collections.abc import Collection

    from xarray_n5.stores import Store


def warn_of_writes(store: Store, arrays: Collection[str], *groups: str) -> None:
    """Warn about arrays with an unfinished write; if there are none, about appends to groups.

    Nothing is requested for groups without arrays.
    """
    found = unfinished(store, {*arrays, *groups} if arrays else ())
    warn_of(store, found.intersection(arrays) or filter(lambda path: _grows(store, path), found))


def is_growing(store: Store, path: str) -> bool:
    """Return whether an append to a group is unfinished: it resizes arrays that have no marker yet.

    If the small file that hints at it is in the store's cache, and says no, nothing is requested.
    """
    return bool(unfinished(store, [path])) and _grows(store, path)


def half_resized(error: ValueError, url: str) -> ValueError:
    """Return an error, with the reason if arrays do not fit together because of an append."""
    if "cannot share a Dataset" not in str(error):
        return error
    return ValueError(
        f"{error}; an append to {url!r} has resized only some of them: wait if a program is "
        "writing now; otherwise repeat the append with resume=True"
    )


def appends_to(store: Store, paths: Collection[str]) -> dict[str, list[str]]:
    """Return the tokens of unfinished appends to the groups of arrays, by the resized arrays."""
    found: dict[str, list[str]] = {}
    for group in unfinished(store, {path.rpartition("/")[0] for path in paths if path}):
        for each in unfinished_writes(store, group):
            for name in (each.facts() or {}).get("grows", ()):
                found.setdefault(join(group, name), []).append(each.token)
    return found


def _grows(store: Store, path: str) -> bool:
    return any("grows" in (each.facts() or {}) for each in unfinished_writes(store, path))
