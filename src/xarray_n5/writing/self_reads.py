"""Detect tasks of a Dask graph that read data which they are about to replace."""

from __future__ import annotations

import os
import socket
import types
import weakref
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.errors import NodeExistsError, OneWriterError
from xarray_n5.graph import get_scheduler
from xarray_n5.writing.file_reads import (
    LONGEST,
    location_of,
    mapped_by,
    path_in,
    read_by,
    read_by_globals,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import dask.array as da

    from xarray_n5.writing.file_reads import Read

_HARMLESS = (
    *(weakref.ref, types.GeneratorType, types.GetSetDescriptorType, types.MemberDescriptorType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
)
"""Objects that cannot be pickled, and never read arrays."""

_BY_NAME = (types.ModuleType, np.dtype)
"""Objects that are what their names say."""

_CONTAINERS = frozenset({dict, set, frozenset, deque, types.MappingProxyType})
"""Types that hold nothing but their items."""

_ATOMS = frozenset({int, float, complex, bool, bytearray, type(None), slice, range, type(...)})
"""Types of objects that hold no others."""

_KEYS = frozenset({"key", "_dependencies", "_token", "_repr"})
"""Slots of Dask's tasks that hold keys of the graph, not data."""

_MOST_PICKLED = 32
"""The maximum number of objects of a type that are asked how they are pickled."""

_LOCKS = frozenset({"lock", "RLock", "_local", "Condition", "Event", "Semaphore", "_abc_data"})


def check_independent(
    source: da.Array,
    places: Collection[object],
    *,
    groups: Collection[object] = (),
    exists: Callable[[], bool] | None = None,
) -> None:
    """Raise if `source` reads from an array that is replaced or changed.

    Parameters
    ----------
    source
        The data to write.
    places
        The locations of the arrays that are replaced or changed, as their stores report them.
    groups
        The locations of groups whose arrays are all replaced.
    exists
        Whether anything exists at those locations; by default it does.

    Raises
    ------
    NodeExistsError
        If a task reads one of the arrays, or may do so.
    """
    targets = [location_of(place) for place in places]
    around = [location_of(place) for place in groups]
    found = reads_of(source.dask, {each.rpartition("/")[2] for each in (*targets, *around)})
    for read in found.reads:
        met = next(filter(read.meets, targets), None)
        if met is None and read.certainty != "node" and read.location in around:
            met = read.location
        if met is not None:
            raise _refusal(met, "the new data is computed from it")
    if found.hidden and targets and (exists is None or exists()):
        why = f"its tasks may read it, since the files that {found.hidden[0]} reads are unknown"
        raise _refusal(targets[0], why)


def _refusal(target: str, why: str) -> NodeExistsError:
    """Return the error for a write whose input is its target."""
    url = target.removeprefix("remote://")
    error = NodeExistsError(url, "", "the input of the write", why)
    text = (
        f"cannot overwrite {url!r}: {why}; write to another path, or load the data first "
        "(x.compute() of an array, ds.load() of a Dataset)"
    )
    error.args = (text,)
    return error


def check_one_process(url: str, *sources: da.Array) -> None:
    """Raise if blocks would be computed, and written, by other processes than this one.

    Raises
    ------
    OneWriterError
        If the current scheduler has other processes: those of a cluster, or of a pool.
    """
    get: Any = get_scheduler(collections=list(sources))
    cluster: Any = getattr(get, "__self__", None)
    if getattr(get, "__module__", "") == "dask.multiprocessing":
        raise OneWriterError(url, "the scheduler 'processes' would write it from several")
    if hasattr(cluster, "run") and not getattr(cluster, "asynchronous", False):
        others = set(cluster.run(_process).values()) - {_process()}
        if others:
            raise OneWriterError(url, f"{len(others)} worker processes would write it")


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


@dataclass(frozen=True, slots=True)
class Findings:
    """The files that a graph reads."""

    reads: tuple[Read, ...]
    hidden: tuple[str, ...]
    """The types of objects that may read unknown files."""


def reads_of(graph: object, names: Iterable[str] = ()) -> Findings:
    """Return the files that a graph's tasks read.

    Objects are visited by their items and attributes, classes and functions of a notebook by their
    globals. A few objects of each type are asked what they are pickled as, for state that has no
    attributes. Numbers in memory are not visited.

    Parameters
    ----------
    graph
        The graph.
    names
        The last parts of paths to look for in strings.
    """
    visitor = _Visitor(frozenset(names))
    visitor.visit(graph)
    return Findings(tuple(dict.fromkeys(visitor.reads)), tuple(dict.fromkeys(visitor.hidden)))


@dataclass(slots=True)
class _Visitor:
    """Visit every object in a graph once."""

    wanted: frozenset[str]
    reads: list[Read] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    _next: list[Any] = field(default_factory=list)
    _seen: dict[int, Any] = field(default_factory=dict)
    """Visited objects by their id; as they are held, no id is used again."""
    _slots: dict[type, tuple[Any, ...]] = field(default_factory=dict)
    _pickled: Counter[type] = field(default_factory=Counter)

    def visit(self, graph: object) -> None:
        self._next.append(graph)
        while self._next:
            item = self._next.pop()
            kind = type(item)
            if kind is str:
                self.reads += path_in(item, self.wanted)
            elif kind is bytes:
                self.reads += path_in(os.fsdecode(item[: LONGEST + 1]), self.wanted)
            elif kind not in _ATOMS and id(item) not in self._seen:
                self._seen[id(item)] = item
                self._open(item, kind)

    def _open(self, item: Any, kind: type) -> None:
        """Note what an object reads, or put what it holds on the list."""
        if kind is tuple or kind is list:
            self._next += item
        elif isinstance(item, np.ndarray):
            self.reads += mapped_by(item)
            if item.dtype.hasobject:
                self._next += item.ravel().tolist()
        elif isinstance(item, types.FunctionType):
            self.reads += read_by_globals(item, self.wanted)
            self._next += _held_by_function(item)
        elif isinstance(item, type):
            if _is_by_value(item):
                self._next += vars(item).values()
        elif (found := read_by(item)) is not None:
            self.reads += found
        elif not isinstance(item, _BY_NAME):
            self._open_items(item)
            state = self._state(item, kind)
            self._next += [*state, *self._reduced(item, kind, shown=bool(state)), kind]

    def _open_items(self, item: Any) -> None:
        """Put the items of a container on the list, and read a string."""
        if isinstance(item, str):
            self.reads += path_in(str(item), self.wanted)
        elif isinstance(item, dict | types.MappingProxyType):
            self._next += item.keys()
            self._next += item.values()
        elif isinstance(item, list | tuple | set | frozenset | deque):
            self._next += item

    def _state(self, item: Any, kind: type) -> list[Any]:
        """Return the attributes of an object."""
        state: list[Any] = []
        with suppress(Exception):  # of classes that compute it
            state += item.__dict__.values()
        if kind not in self._slots:
            self._slots[kind] = _slots_of(kind)
        for slot in self._slots[kind]:
            with suppress(AttributeError):  # not set
                state.append(slot.__get__(item))
        return state

    def _reduced(self, item: Any, kind: type, *, shown: bool) -> tuple[Any, ...]:
        """Return the arguments and state of an object's pickle; state in C has no attributes."""
        self._pickled[kind] += 1
        if kind in _CONTAINERS or self._pickled[kind] > _MOST_PICKLED or _is_harmless(item):
            return ()
        try:
            reduced = item.__reduce_ex__(5)
        except Exception:  # noqa: BLE001 - objects refuse to be pickled in many ways
            if not shown:
                self.hidden.append(f"{kind.__module__}.{kind.__qualname__}")
            return ()
        return reduced[1:3] if isinstance(reduced, tuple) else ()


def _is_by_value(kind: type) -> bool:
    """Return whether tasks carry a class itself, not its name: that of a notebook or function."""
    return kind.__module__ == "__main__" or "<locals>" in kind.__qualname__


def _slots_of(kind: type) -> tuple[Any, ...]:
    """Return the descriptors of a type's slots; of Dask's tasks, without keys of the graph."""
    keys = _KEYS if kind.__module__.startswith("dask.") else ()
    return tuple(
        slot
        for each in kind.__mro__
        for name, slot in vars(each).items()
        if isinstance(slot, types.MemberDescriptorType) and name not in keys
    )


def _held_by_function(function: types.FunctionType) -> list[Any]:
    """Return the objects that a function holds, and the globals of one that is not in a module."""
    held = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    held += [function.__defaults__, function.__kwdefaults__]
    if function.__module__ == "__main__" or "<locals>" in function.__qualname__:
        names = _names_in(function.__code__)
        held += [function.__globals__[name] for name in names if name in function.__globals__]
    return held


def _names_in(code: types.CodeType) -> list[str]:
    """Return the names in a function, and in those defined within it."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return [*code.co_names, *(name for each in inner for name in _names_in(each))]


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # a variable without a value yet
        return False


def _is_harmless(item: object) -> bool:
    return isinstance(item, _HARMLESS) or type(item).__name__ in _LOCKS
