"""The functions and arguments of a graph's tasks."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import islice
from types import FunctionType, MethodType
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
