"""What a graph computes from, by which a resumed write notices changes of it.

Of the user's functions, the code: Dask names the result of a module's function by the function's
name, not by its code. Of stored arrays, a stamp: the times and sizes, or the etags, of an array's
first document and of a few of its chunks; listing all of them would cost more than most writes.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import sysconfig
import textwrap
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import accumulate, islice
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.graph import layers_of
from xarray_n5.stores import together
from xarray_n5.writing.file_reads import location_of, read_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import ChunkGrid, Index

_MOST = 100
"""The maximum number of functions, and of arrays, that are recorded."""

_TASKS = 16
"""The maximum number of tasks that are looked at in a layer without one for all blocks."""

_OBJECTS = 1000
"""The maximum number of objects that are looked at in a task."""

_OURS = frozenset({"xarray_n5", "xarray_n5_engine", "xarray", "dask", "distributed", "numpy"})

_WITHIN = (
    *("func", "pyfunc", "__func__", "__self__", "__wrapped__", "args", "kwargs", "keywords"),
    *("value", "array", "stored", "arrays", "sources"),
)
"""Attributes of tasks, partial and bound functions and lazy arrays that lead to other objects."""

_REQUESTS = 4
"""The number of chunks in a stamp where each takes a request."""

_FILES = 32
"""The number of chunks in a stamp on a local disk."""

_DOCUMENTS = (".zarray", "zarr.json", "attributes.json")


def code_of(graph: object) -> dict[str, str]:
    """Return a digest of the code of each of the user's functions by its name.

    Functions of installed packages are not the user's. Comments and blank lines do not count;
    the functions and constants of the user's modules that a function names do.
    """
    found: dict[str, str] = {}
    with suppress(Exception):  # objects of the user's may fail when they are looked at
        for item in _objects_in(graph):
            if (function := _function(item)) is not None:
                _add(function, found)
    return found


def changed(before: object, now: Mapping[str, str]) -> list[str]:
    """Return the names of functions whose digests were others before."""
    known = before if isinstance(before, dict) else {}
    return sorted(name for name in now if known.get(name, now[name]) != now[name])


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
    found[name] = _hash(text)


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


@dataclass(frozen=True, slots=True)
class SourceStamp:
    """The state of a stored array that a write reads."""

    url: str
    stamp: str


def stamps_of(graph: object, target: ArrayNode) -> dict[str, SourceStamp]:
    """Return the stamps of the stored arrays in a graph, by :func:`source_key`.

    The `target` of the write is omitted, and so is everything else in a file that it is part of.
    """
    found: dict[str, SourceStamp] = {}
    own = {source_key(target.identity)}
    alone = target.container.identity("") if target.format.one_writer else None
    with suppress(Exception):  # objects of the user's may fail when they are looked at
        for item in _objects_in(graph):
            if len(found) == _MOST:
                break
            with suppress(Exception):  # servers refuse in many ways
                found |= _stamp_of(item, own | found.keys(), alone)
    return found


def source_key(identity: object) -> str:
    """Return the key of a stored array in markers, which does not reveal its location."""
    return _digest(location_of(identity))


def stamps(sources: Mapping[str, SourceStamp]) -> dict[str, str]:
    """Return stamps as they are stored in markers."""
    return {key: each.stamp for key, each in sources.items()}


def _digest(value: object) -> str:
    return _hash(repr(value))


def _hash(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def _stamp_of(item: Any, known: AbstractSet[str], alone: object) -> dict[str, SourceStamp]:
    """Return the stamp of an object that reads a stored array or a file, unless it is known."""
    if isinstance(item, Array):
        io = item.node
        key = source_key(io.identity)
        if key in known or (alone is not None and io.container.identity("") == alone):
            return {}
        facts = _facts(io)
        return {key: SourceStamp(io.url, _digest(facts))} if any(facts) else {}
    found = {}
    for read in read_by(item) or ():
        key = _digest(read.location)
        inside = isinstance(alone, tuple) and read.location.startswith(str(alone[1]))
        if key not in known and not inside and (states := _facts_of_files(read.location)):
            found[key] = SourceStamp(read.location, _digest(states))
    return found


def _facts(io: ArrayNode) -> Sequence[object]:
    """Return the etags of an array's document and of some of its chunks; None for missing ones."""
    store, calls = io.store, [io.etag]
    if not io.format.one_writer:
        local = store.concurrency == 1
        keys = [
            io.key(index) for index in _some_of(io.metadata.grid, _FILES if local else _REQUESTS)
        ]
        if local:
            keys = list(dict.fromkeys(each for key in keys for each in _with_folders(key, io.path)))
        calls += [partial(store.etag, key) for key in keys]
    return together(store, calls)


def _some_of(grid: ChunkGrid, count: int) -> Iterator[Index]:
    """Iterate over some chunks of a grid, evenly spread from the first to the last."""
    numbers = {(grid.size - 1) * n // (count - 1) for n in range(count)} if grid.size else set()
    for number in sorted(numbers):
        index = []
        for side in reversed(grid.counts):
            number, place = divmod(number, side)  # noqa: PLW2901
            index.append(place)
        yield tuple(reversed(index))


def _with_folders(key: str, path: str) -> Iterator[str]:
    """Iterate over a chunk and the folders around it in the array: new chunks change their times.

    The array's own folder is omitted, since markers of writes without any change do so, too.
    """
    *folders, name = key.removeprefix(path).strip("/").split("/")
    inner = list(accumulate([*folders, name], "{}/{}".format))
    yield from (f"{path}/{each}".lstrip("/") for each in inner)


def _facts_of_files(location: str) -> list[tuple[int, int]]:
    """Return the times and sizes of a file, or of the documents in a folder."""
    found = []
    for path in (location, os.path.dirname(location)):  # noqa: PTH120 - h5py's have an address
        for each in [path, *(f"{path}/{name}" for name in _DOCUMENTS)]:
            if os.path.isfile(each):  # noqa: PTH113
                facts = os.stat(each)  # noqa: PTH116
                found.append((facts.st_mtime_ns, facts.st_size))
        if found:
            break
    return found


def _objects_in(graph: object) -> Iterator[Any]:
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
