"""The files of the user's functions in a graph, by which a resumed write notices changed code.

Dask names the result of a module's function by the name of the function, not by its code.
"""

from __future__ import annotations

import ast
import sys
from functools import lru_cache
from hashlib import blake2b
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType

from xarray_n5.writing.task_objects import objects_in

_TASKS = 1000
"""The approximate number of tasks of a layer that are searched for functions."""

_MOST = 32
"""The maximum number of files that are recorded."""

_PACKAGES = {"xarray_n5", "xarray_n5_engine", "xarray", "dask", "distributed", "numpy"}
"""Packages that are not the user's, also where they are installed as source code."""


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
        nodes = [*ast.walk(ast.parse(content))]
    except (SyntaxError, ValueError, RecursionError):  # of a compiled module
        return frozenset()
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (package or not node.level):
            source = resolve_name("." * node.level + (node.module or ""), package)
            names |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
    return frozenset(names)
