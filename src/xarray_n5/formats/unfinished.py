"""Find nodes with an unfinished write."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from xarray_n5.errors import UnfinishedWriteWarning, UnsafePathError
from xarray_n5.model.alerts import warn
from xarray_n5.model.paths import UNFINISHED, WRITING, join
from xarray_n5.stores import CachedStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xarray_n5.stores.base import Store


def unfinished(store: Store, paths: Iterable[str]) -> set[str]:
    """Return the paths of nodes with an unfinished write.

    A small file beside each node is requested, in one batch; only if it exists, the node's folder
    is listed to make sure. If a server refuses that, nothing is returned.
    """
    wanted = list(paths)
    with suppress(OSError, UnsafePathError):
        hints = store.get_many([join(path, UNFINISHED) for path in wanted]) if wanted else []
        likely = [path for path, hint in zip(wanted, hints, strict=True) if hint is not None]
        listed = store.list_many(likely) if likely else ()
        return {
            path
            for path, (folders, _) in zip(likely, listed, strict=True)
            if any(name.startswith(WRITING) for name in folders)
        }
    return set()


def warn_unfinished(store: Store, paths: Iterable[str]) -> None:
    """Warn about arrays with an unfinished write, once for each as long as the store remembers."""
    warned = store.warned if isinstance(store, CachedStore) else set()
    for path in sorted(unfinished(store, paths) - warned):
        warned.add(path)
        warn(
            f"{path or '/'!r} in {store.url!r} has an unfinished write; chunks that it has not "
            "written are read as fill values. If no program is writing now, repeat the same call "
            "with resume=True",
            UnfinishedWriteWarning,
        )
