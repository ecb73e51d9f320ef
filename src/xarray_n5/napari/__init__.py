"""napari's reader; napari itself is never imported.

napari calls :func:`get_reader` for every folder that is dropped onto it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    LayerData: TypeAlias = tuple[Any, dict[str, Any], str]
    Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_DOCUMENTS = ("attributes.json", "zarr.json", ".zgroup", ".zarray")
"""Documents of nodes in N5, Zarr v3 and Zarr v2."""

_ARCHIVES = (".ozx", ".zarr.zip")
"""The ends of archives."""

_REMOTE = (".n5", ".zarr", ".xml", ".ims", *_ARCHIVES)
"""The ends of URLs that are read; nothing is requested to find out what they are."""

_HDF5 = b"\x89HDF\r\n\x1a\n"
"""The beginning of HDF5 files."""


def get_reader(path: Paths) -> Callable[[Paths], list[LayerData]] | None:
    """Return the function that reads a path or several of them, or None if one is not known.

    Parameters
    ----------
    path
        A container, a node in one, or the XML of a project: a path or a URL; or a list of them.

    Returns
    -------
    callable or None
        :func:`read`; None for folders and files without a sign of a container.
    """
    paths = _listed(path)
    return read if paths and all(map(_is_known, paths)) else None


def read(path: Paths) -> list[LayerData]:
    """Return the layers of a path or of several: data, arguments and type of each.

    Parameters
    ----------
    path
        As in :func:`get_reader`.

    Returns
    -------
    list of tuple
        The data of a layer, as Dask arrays, its arguments, and "image" or "labels".
    """
    from xarray_n5.napari.layers import read_layers

    return [layer for each in _listed(path) for layer in read_layers(each)]


def _listed(path: Paths) -> list[str]:
    several = [path] if isinstance(path, (str, os.PathLike)) else path
    return [os.fspath(each) for each in several]


def _is_known(path: str) -> bool:
    """Return whether a path looks like a container, by its name and documents."""
    if "://" in path:
        return path.partition("?")[0].rstrip("/").lower().endswith(_REMOTE)
    if os.path.isdir(path):
        known = any(os.path.isfile(os.path.join(path, name)) for name in _DOCUMENTS)
        return known or _guess(path)
    if not os.path.isfile(path):
        return False
    if path.lower().endswith(_ARCHIVES):
        return True
    with open(path, "rb") as file:
        start = file.read(len(_HDF5))
    return start == _HDF5 or (path.lower().endswith(".xml") and _guess(path))


def _guess(path: str) -> bool:
    """Return whether one of xarray's engines would open a path without being named."""
    from xarray_n5_engine import BdvBackendEntrypoint, N5BackendEntrypoint

    engines = (N5BackendEntrypoint(), BdvBackendEntrypoint())
    return any(engine.guess_can_open(path) for engine in engines)
