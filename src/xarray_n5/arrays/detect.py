"""Doors that folders above still use; :mod:`xarray_n5.formats.open` replaces them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.formats import FORMATS
from xarray_n5.formats.containers import open_container
from xarray_n5.formats.open import format_of, format_to_write
from xarray_n5.model.paths import is_peculiar, join, normalize_path
from xarray_n5.stores import fresh

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xarray_n5.stores.protocol import Store

__all__ = ["format_of", "format_to_write", "open_place", "path_in"]


def path_in(name: str | None, path: str) -> str:
    """Return a node's path, normalised by the rules of a format."""
    form = FORMATS.get(name or "")
    return form.normalize_path(path) if form else normalize_path(path)


def open_place(
    url: object,
    path: str,
    storage_options: Mapping[str, Any] | None,
    name: str | None,
    *,
    writable: bool = False,
) -> tuple[Store, str]:
    """Return the store of a container, and the path of a node in it."""
    if is_peculiar(path):
        store, inner = open_container(url, "", storage_options)
        inner = join(inner, format_of(store, name).normalize_path(path))
    else:
        store, inner = open_container(url, path_in(name, path), storage_options)
    return (fresh(store) if writable else store), inner
