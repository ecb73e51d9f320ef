"""The functions and arguments of a graph's tasks, and the files of the user's functions.

Dask names the result of a module's function by the name of the function, not by its code.
"""

from __future__ import annotations

import ast
import sys
import threading
from contextlib import suppress
from functools import lru_cache, partial
from hashlib import blake2b
from importlib.util import resolve_name
from itertools import islice
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.node import ArrayNode
from xarray_n5.graph import Alias, DataNode, Task, TaskRef, layers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PLAIN = frozenset(
    {str, bytes, int, float, complex, bool, type(None), slice, range, np.ndarray, TaskRef, Alias}
)
"""Types of most arguments, which hold no others."""

_CONTAINERS = (tuple, list, set, frozenset)

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
            parts: Iterable[Any]
            if id(item) in seen:
                continue
            seen.add(id(item))
            if isinstance(item, Task):
                parts = (item.func, *item.args, *item.kwargs.values())
            elif isinstance(item, _CONTAINERS):
                parts = item
            elif isinstance(item, dict):
                parts = item.values()
            else:
                yield item
                parts = _held_by(item)
            left += [part for part in parts if type(part) not in _PLAIN]


def _held_by(item: Any) -> list[Any]:
    """Return the objects that a function or a lazily indexed array uses."""
    held: list[Any] = []
    match item:
        case DataNode():
            held = [item.value]
        case partial():
            held = [item.func, item.args, item.keywords]
        case MethodType():
            held = [item.__func__, item.__self__]
        case FunctionType():
            held = _used_by(item)
        case np.vectorize():
            held = [item.pyfunc]
        case Array() | ArrayNode():
            pass  # what it reads is known
        case _ if type(item).__module__.partition(".")[0] in _SEARCHED:
            held = _attributes(item)
    return held


def _used_by(function: FunctionType) -> list[Any]:
    """Return the values around a function; of one in a notebook or script, the globals it names."""
    values = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not assigned yet
            values.append(cell.cell_contents)
    if function.__module__ == "__main__":
        names = function.__globals__.keys() & {*function.__code__.co_names}
        values += [function.__globals__[name] for name in names]
    return values


def _attributes(item: object) -> list[Any]:
    slots = [name for kind in type(item).__mro__ for name in vars(kind).get("__slots__", ())]
    return [
        *getattr(item, "__dict__", {}).values(),
        *(getattr(item, name) for name in slots if hasattr(item, name)),
    ]


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
