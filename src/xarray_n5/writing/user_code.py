"""The code of the user's functions in a graph, by which a resumed write notices changes of it.

Dask names the result of a module's function by the function's name, not by its code.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import sysconfig
import textwrap
from contextlib import suppress
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from xarray_n5.graph import layers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST = 100
"""The maximum number of functions that are recorded."""

_TASKS = 16
"""The maximum number of tasks that are looked at in a layer without one for all blocks."""

_OBJECTS = 1000
"""The maximum number of objects that are looked at in a task."""

_OURS = frozenset(
    {"xarray_n5", "xarray_n5_bdv", "xarray_n5_engine", "xarray", "dask", "distributed", "numpy"}
)

_WITHIN = (
    *("func", "pyfunc", "__func__", "__self__", "__wrapped__", "args", "kwargs", "keywords"),
    *("value", "array", "stored", "arrays", "sources"),
)
"""Attributes of tasks, partial and bound functions and lazy arrays that lead to other objects."""


def code_of(graph: object) -> dict[str, str]:
    """Return a digest of the code of each of the user's functions by its name.

    Functions of installed packages are not the user's. Comments and blank lines do not count;
    the functions and constants of the user's modules that a function names do.
    """
    found: dict[str, str] = {}
    with suppress(Exception):  # objects of the user's may fail when they are looked at
        for item in objects_in(graph):
            if (function := _function(item)) is not None:
                _add(function, found)
    return found


def changed(before: object, now: Mapping[str, str]) -> list[str]:
    """Return the names of functions whose digests were others before."""
    known = before if isinstance(before, dict) else {}
    return sorted(name for name in now if known.get(name, now[name]) != now[name])


def objects_in(graph: object) -> Iterator[Any]:
    """Iterate over the objects in the tasks of a graph, at most some of each task."""
    for layer in layers_of(graph):
        for task in islice(layer, _TASKS):
            yield from _objects(task)


def _objects(task: Any) -> Iterator[Any]:
    left = [task]
    for _ in range(_OBJECTS):
        if not left:
            return
        item = left.pop()
        if isinstance(item, str | bytes | type | ModuleType):
            continue
        yield item
        if isinstance(item, list | tuple | set):
            left += islice(item, _MOST)
        elif isinstance(item, dict):
            left += islice(item.values(), _MOST)
        elif callable(item) or hasattr(item, "func") or _package(item) in _OURS:
            left += [each for name in _WITHIN if (each := getattr(item, name, None)) is not None]


def _package(item: object) -> str:
    return type(item).__module__.partition(".")[0]


def _function(item: Any) -> FunctionType | None:
    """Return an object as a function, if it is one or can be called like one."""
    if not isinstance(item, FunctionType) and callable(item):
        item = inspect.getattr_static(type(item), "__call__", None)
    return item if isinstance(item, FunctionType) else None


def _add(function: FunctionType, found: dict[str, str]) -> None:
    """Add the digest of a function, and those of the functions that it names."""
    name = f"{function.__module__}.{function.__qualname__}"
    if name in found or len(found) >= _MOST or not _is_the_users(function):
        return
    code = _text(function)
    if code is None:
        return
    found[name] = ""
    constants = []
    for key, value in _named(function):
        value = getattr(value, "__func__", value)  # noqa: PLW2901
        if isinstance(value, FunctionType):
            _add(value, found)
        elif value is None or isinstance(value, bool | int | float | complex | str | bytes):
            constants.append(f"{key}={value!r}")
    text = "\n".join([code, *sorted(constants)])
    found[name] = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def _is_the_users(function: FunctionType) -> bool:
    package = str(function.__module__).partition(".")[0]
    if package in _OURS or package in sys.stdlib_module_names:
        return False
    paths = sysconfig.get_paths()
    file = function.__code__.co_filename
    return not any(file.startswith(paths[key]) for key in ("purelib", "platlib", "stdlib"))


def _text(function: FunctionType) -> str | None:
    """Return the source of a function without comments; None if it has none."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    with suppress(SyntaxError, ValueError, RecursionError):  # a lambda within a call
        return ast.unparse(ast.parse(source))
    return source.strip()


def _named(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Return the global variables that a function names, and the functions around it."""
    names = list(dict.fromkeys(_names(function.__code__)))
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            for attribute in names:
                yield f"{name}.{attribute}", vars(value).get(attribute)
        elif not name.startswith("__"):
            yield name, value
    # Other values around a function are part of the name that Dask gives its result.
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not assigned yet
            if isinstance(cell.cell_contents, FunctionType):
                yield "", cell.cell_contents


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
