"""What the tasks of a write hold: the user's code, and the arrays that they read.

Dask names the result of a module's function by the name of the function, not by its code.
"""

from __future__ import annotations

import ast
import gc
import os
import sys
import threading
from functools import lru_cache, partial
from hashlib import blake2b
from importlib.util import resolve_name
from itertools import islice
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import is_dask_collection

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.node import ArrayNode
from xarray_n5.errors import NodeExistsError
from xarray_n5.graph import Alias, DataNode, Task, TaskRef, layers_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import dask.array as da

    from xarray_n5.formats.containers import Container

_PLAIN = frozenset(
    {str, bytes, int, float, complex, bool, type(None), slice, range, np.ndarray, TaskRef, Alias}
)
"""Types of most arguments, which hold no others."""

_CONTAINERS = (Task, dict, tuple, list, set, frozenset)

_SEARCHED = frozenset({"xarray_n5", "xarray_n5_engine", "xarray"})
"""Packages whose objects are searched: lazily indexed arrays, and the tasks of this package."""

_TASKS = 1000
"""The approximate number of tasks of a layer that are searched for functions."""

_MOST = 32
"""The maximum number of files that are recorded."""

_PARSING = threading.Lock()
"""Held while code is parsed: of two threads that do so, Python 3.11 may raise a SystemError."""

_PACKAGES = {"xarray_n5", "xarray_n5_engine", "xarray", "dask", "distributed", "numpy"}
"""Packages that are not the user's, also where they are installed as source code."""

_REMOTE = "remote://"
"""The beginning of locations in object stores and on servers."""


def objects_in(graph: object, most: int | None = None) -> Iterator[Any]:
    """Iterate over the functions and arguments of a graph's tasks, each once.

    A symbolic layer has one task for all blocks. Of other layers every task is opened, or about
    `most` of each, with the containers, partial functions, closures and lazily indexed arrays in
    it. Objects of other packages are not searched, and nothing is pickled.
    """
    seen = set[int]()
    for layer in layers_of(graph):
        step = 1 if most is None else max(1, len(layer) // most)
        left: list[Any] = [*islice(layer, 0, None, step)]
        while left:
            item = left.pop()
            if id(item) not in seen:
                seen.add(id(item))
                if not isinstance(item, _CONTAINERS):
                    yield item
                left += [part for part in _held_by(item) if type(part) not in _PLAIN]


def _held_by(item: Any) -> Iterable[Any]:
    """Return the objects in a task or a container, or that a function or lazy array uses."""
    match item:
        case dict():
            return item.values()
        case FunctionType():
            return _used_by(item)
        case Array() | ArrayNode():
            return ()  # what it reads is known
        case Task() | DataNode() | partial() | MethodType() | np.vectorize():
            return gc.get_referents(item)
        case tuple() | list() | set() | frozenset():
            return item
    is_searched = type(item).__module__.partition(".")[0] in _SEARCHED
    return gc.get_referents(item) if is_searched else ()


def _used_by(function: FunctionType) -> list[Any]:
    """Return the values around a function; of one in a notebook or script, the globals it names."""
    values = gc.get_referents(*(function.__closure__ or ()))
    if function.__module__ == "__main__":
        names = function.__globals__.keys() & {*function.__code__.co_names}
        values += [function.__globals__[name] for name in names]
    return values


def code_of(graph: object) -> dict[str, str]:
    """Return the digests of the files of the user's functions in a graph, and of what they import.

    Installed packages are not the user's. A file counts as a whole, with its constants and
    comments. Functions of a notebook have no file, but Dask's names cover their code.

    Returns
    -------
    dict
        Eight hexadecimal digits by file name, such as ``steps.py`` or ``package/steps.py``.
    """
    digests: dict[str, str] = {}
    names = sorted({_module_of(item) for item in objects_in(graph, _TASKS)} & sys.modules.keys())
    for name in names:  # which grows: the nearest modules come first
        module = sys.modules[name]
        file = _file_of(module)
        if file is None or len(digests) == _MOST:
            continue
        content, package = file.read_bytes(), module.__package__ or ""
        label = "/".join([*filter(None, package.split(".")), file.name])
        digests[label] = blake2b(content, digest_size=4).hexdigest()
        imported = sys.modules.keys() & _imports_of(content, package)
        names += sorted(imported.difference(names))
    return digests


def _module_of(item: object) -> str:
    """Return the name of the module that an object is, or that defines it or its class."""
    name = item.__name__ if isinstance(item, ModuleType) else getattr(item, "__module__", None)
    return str(name)


def _file_of(module: ModuleType) -> Path | None:
    """Return the file of a module of the user's; None for installed modules and notebooks."""
    file = Path(getattr(module, "__file__", None) or "")
    if not file.is_file() or not {"site-packages", "dist-packages"}.isdisjoint(file.parts):
        return None
    package = module.__name__.partition(".")[0]
    return None if package in _PACKAGES or package in sys.stdlib_module_names else file


@lru_cache(maxsize=_MOST)
def _imports_of(content: bytes, package: str) -> frozenset[str]:
    """Return the names that a module of a package imports, wherever it does so."""
    try:
        with _PARSING:
            nodes = [*ast.walk(ast.parse(content))]
    except (SyntaxError, ValueError, RecursionError):  # of a compiled module
        return frozenset()
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (package or not node.level):
            source = resolve_name("." * node.level + (node.module or ""), package)
            names |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
    return frozenset(names)


# Arrays that a write replaces


def check_independent(
    source: da.Array, places: Collection[object], *, groups: Collection[object] = ()
) -> None:
    """Raise if `source` reads from an array that is replaced or changed.

    Arrays of this package, of zarr and of h5py are recognised, as arguments of tasks or lazily
    indexed by xarray; not those in objects or files of other packages.

    Parameters
    ----------
    source
        The data to write.
    places
        The identities of the nodes that are replaced or changed, as their stores report them.
    groups
        The identities of groups whose arrays are all replaced.

    Raises
    ------
    NodeExistsError
        If a task reads one of the arrays.
    """
    replaced = {location_of(place) for place in places}
    emptied = {location_of(place) for place in groups}
    objects = objects_in(source.dask) if replaced or emptied else ()
    for location, url in filter(None, map(_read_by, objects)):
        nodes = _with_parents(location)
        if replaced.intersection(nodes) or emptied.intersection(nodes[:2]):
            folder, _, name = url.rpartition("/")
            hint = "load the data first, with x.compute() or ds.load(), or write to another path"
            raise NodeExistsError(folder, name, "the new values are computed from it", hint)


def check_apart(
    sources: Iterable[Any],
    container: Container,
    paths: Iterable[str],
    groups: Iterable[str] = (),
) -> None:
    """Raise NodeExistsError if one of several arrays is computed from what the write replaces.

    That are the nodes at some `paths`, and all arrays in some `groups`.
    """
    places, emptied = map(container.identity, paths), map(container.identity, groups)
    replaced, removed = [*places], [*emptied]
    for source in filter(is_dask_collection, sources):
        check_independent(source, replaced, groups=removed)


def location_of(place: object) -> str:
    """Return the location of a node, given its identity.

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


def _with_parents(location: str) -> list[str]:
    """Return the location of a node and those around it, from the inside out.

    >>> _with_parents("/data/a.n5")
    ['/data/a.n5', '/data', '']
    """
    parts = location.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _read_by(item: Any) -> tuple[str, str] | None:
    """Return the location and the URL of the array that an object reads; None if it is not one."""
    node = item.node if isinstance(item, Array) else item
    if isinstance(node, ArrayNode):
        return location_of(node.identity), node.url
    kind = type(item)
    match kind.__module__.partition(".")[0], kind.__name__:
        case "zarr", "Array" | "AsyncArray":
            at = getattr(item, "store_path", item)  # the array itself in zarr 2
            location = "/".join(filter(None, (_root_of(at.store), at.path)))
            return location, location.removeprefix(_REMOTE)
        case "h5py", "Dataset" if item:  # a closed one reads nothing
            file = os.path.realpath(os.fsdecode(item.file.filename))
            # Links give a node several names, but it has one address.
            address = sys.modules["h5py"].h5o.get_info(item.id).addr
            return f"{file}/{address}", f"{file}{item.name}"
    return None


def _root_of(store: Any) -> str:
    """Return the location of a zarr store; "" if it is in memory."""
    path: Any = getattr(store, "root", None) or getattr(store, "path", "")
    protocols = getattr(getattr(store, "fs", None), "protocol", "file")
    if "file" in ([protocols] if isinstance(protocols, str) else protocols):
        return os.path.realpath(path) if path else ""
    return _remote(path)


def _remote(path: str) -> str:
    return f"{_REMOTE}{path.strip('/')}"
