"""Locations of files that objects of known packages read; these packages are not imported."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from xarray_n5.arrays.array import Array

if TYPE_CHECKING:
    import types
    from collections.abc import Iterator

Certainty: TypeAlias = Literal["node", "file", "string"]

LONGEST = 4096
"""The maximum length of a string that may be a path."""


@dataclass(frozen=True, slots=True)
class Read:
    """A location that tasks may read."""

    location: str
    """A path without links or a URL, of a node or of the file around it."""
    certainty: Certainty = "node"
    """Whether it is known to be that of the array, or of a file or group with it, or is only a
    string with any meaning."""

    def meets(self, target: str) -> bool:
        """Return whether data that is read is lost if the node at `target` is replaced."""
        inside = self.location == target or self.location.startswith(f"{target}/")
        return inside or (self.certainty == "file" and target.startswith(f"{self.location}/"))


def location_of(place: object) -> str:
    """Return the location of a node, given the `place` that a store reports.

    >>> location_of(("local", "/data/a.n5/em"))
    '/data/a.n5/em'
    """
    match place:
        case ("local", str(path)):
            return path.rstrip("/")
        case ("hdf5", str(file), node):
            return f"{file}/{node}"
        case ("memory", name, path):
            return f"dict://{name}/{path}".rstrip("/")
        case ("fsspec", str(path), *_):
            return _remote(path)
    return repr(place)


def read_by(item: Any) -> list[Read] | None:
    """Return the locations that an object reads; None if it must be visited."""
    if isinstance(item, Array):
        return [Read(location_of(item.node.identity))]
    kind = type(item)
    package = kind.__module__.partition(".")[0]
    probe = _PROBES.get(package)
    try:
        return None if probe is None else probe(item, kind.__name__)
    except Exception:  # noqa: BLE001 - a closed file, or another version of its package
        return None


def _zarr(item: Any, name: str) -> list[Read] | None:
    if name not in {"Array", "AsyncArray", "Group", "AsyncGroup"}:
        return None
    place = getattr(item, "store_path", item)
    root = _root_of(place.store)
    if root is None:
        return None
    location = "/".join(part for part in (root, place.path) if part)
    return [Read(location, "node" if "Array" in name else "file")]


def _root_of(store: Any) -> str | None:
    """Return the location of a zarr store; None if it is unknown."""
    if (fs := getattr(store, "fs", None)) is not None:
        return _on_filesystem(fs, str(store.path))
    for name in ("root", "path"):
        found = getattr(store, name, None)
        if isinstance(found, str | os.PathLike):
            return _local(os.fsdecode(found))
    return None


def _on_filesystem(fs: Any, path: str) -> str:
    kinds = fs.protocol if isinstance(fs.protocol, tuple | list) else (fs.protocol,)
    return _local(path) if {"file", "local"}.intersection(kinds) else _remote(path)


def _h5py(item: Any, name: str) -> list[Read] | None:
    if name not in {"Dataset", "Group", "File"}:
        return None
    if not item:
        return []  # closed: nothing can be read
    file = _local(os.fsdecode(item.file.filename))
    if name != "Dataset":
        return [Read(file, "file")]
    # Links give a node several names, but it has one address.
    return [Read(f"{file}/{sys.modules['h5py'].h5o.get_info(item.id).addr}")]


def _netcdf(item: Any, name: str) -> list[Read] | None:
    if name not in {"Variable", "Dataset", "Group", "File"}:
        return None
    group = item.group() if name == "Variable" and hasattr(item, "group") else item
    if hasattr(group, "filepath"):
        return [Read(_local(group.filepath()), "file")]
    held = getattr(item, "_h5ds", None) or getattr(item, "_h5group", None)
    return None if held is None else _h5py(held, type(held).__name__)


def _xarray(item: Any, name: str) -> list[Read] | None:
    """Return the file that an engine of xarray manages for its arrays."""
    if name.endswith("FileManager"):
        first = next(iter(getattr(item, "_args", ())), None)
        return [Read(_local(first), "file")] if isinstance(first, str) else None
    return None


def _tensorstore(item: Any, name: str) -> list[Read] | None:
    if name != "TensorStore":
        return None
    return [
        Read(f"{location}/{path.strip('/')}".rstrip("/"))
        for location, path in _kvstores(item.spec(retain_context=False).to_json())
    ]


def _kvstores(spec: Any) -> Iterator[tuple[str, str]]:
    """Iterate over the locations in a specification, and the paths in them."""
    if isinstance(spec, list):
        for each in spec:
            yield from _kvstores(each)
    if not isinstance(spec, dict):
        return
    store, inner = spec.get("kvstore"), str(spec.get("path", ""))
    if isinstance(store, dict) and isinstance(store.get("path"), str):
        path = store["path"]
        known = store.get("driver") == "file"
        bucket = store.get("bucket")
        yield (_local(path) if known else _remote(f"{bucket}/{path}" if bucket else path)), inner
    elif isinstance(store, str):
        known = store.startswith("file://")
        yield (_local(store) if known else _remote(store.partition("://")[2])), inner
    for value in spec.values():
        yield from _kvstores(value)


def _z5py(item: Any, name: str) -> list[Read] | None:
    path = getattr(item, "path", None) or getattr(item, "filename", None)
    return [Read(_local(path), "node" if name == "Dataset" else "file")] if path else None


def _distributed(item: Any, name: str) -> list[Read] | None:
    """Return nothing for a finished future: its inputs are not read any more."""
    return [] if name == "Future" and item.status == "finished" else None


_PROBES: dict[str, Any] = {
    "zarr": _zarr,
    "h5py": _h5py,
    "h5netcdf": _netcdf,
    "netCDF4": _netcdf,
    "xarray": _xarray,
    "tensorstore": _tensorstore,
    "z5py": _z5py,
    "distributed": _distributed,
}
"""The locations that objects read, by packages of their types; None if they must be visited."""


def mapped_by(array: np.ndarray) -> list[Read]:
    """Return the file that an array's memory is mapped from, if any."""
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    file = getattr(base, "filename", None)
    return [] if file is None else [Read(_local(os.fsdecode(file)), "file")]


def path_in(text: str, wanted: frozenset[str]) -> list[Read]:
    """Return the path that a string may be, if its last part is among `wanted`."""
    if len(text) > LONGEST or text.rstrip("/").rpartition("/")[2] not in wanted:
        return []
    protocol, found, path = text.partition("://")
    if found and protocol not in {"file", "local"}:
        return [Read(_remote(path), "string")]
    return [] if "\0" in text else [Read(_local(text), "string")]


def read_by_globals(function: types.FunctionType, wanted: frozenset[str]) -> list[Read]:
    """Return the objects that the global names in a function refer to, if they read anything.

    Functions of a module are pickled by name: the objects that they refer to are not visited.
    """
    found: list[Read] = []
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        found += path_in(value, wanted) if isinstance(value, str) else read_by(value) or []
    return found


def _local(path: str) -> str:
    return os.path.realpath(path.removeprefix("file://").removeprefix("local://")).rstrip("/")


def _remote(path: str) -> str:
    return f"remote://{path.strip('/')}"
