"""Detect tasks of a Dask graph that read data which they are about to replace."""

from __future__ import annotations

import os
import socket
import types
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np

from xarray_n5.errors import NodeExistsError, OneWriterError
from xarray_n5.graph import get_scheduler
from xarray_n5.writing.file_reads import location_of, mapped_by, meant_by, read_by, read_by_globals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import dask.array as da

    from xarray_n5.writing.file_reads import Read

_HARMLESS = (weakref.ref, types.GeneratorType)
"""Objects that cannot be pickled, and never read arrays."""

_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType)
"""Objects that are pickled by name."""

_LOCKS = frozenset({"lock", "RLock", "_local", "Condition", "Event", "Semaphore"})


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

    Parameters
    ----------
    graph
        The graph, which is visited as if it were pickled.
    names
        The last parts of paths to look for in strings.
    """
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        visitor = _Visitor(nowhere, frozenset(names))
        try:
            visitor.dump(graph)
        except Exception as error:  # noqa: BLE001 - what was found until then counts
            why = f"{type(error).__name__}: {error}"
            visitor.hidden.append(f"a graph that cannot be visited ({why})")
    return Findings(tuple(dict.fromkeys(visitor.reads)), tuple(dict.fromkeys(visitor.hidden)))


class _Visitor(cloudpickle.Pickler):  # type: ignore[misc]
    """Visit every object in a graph; the pickle is discarded."""

    def __init__(self, nowhere: Any, wanted: frozenset[str]) -> None:
        super().__init__(nowhere, protocol=5, buffer_callback=lambda _: None)
        self.wanted = wanted
        self.reads: list[Read] = []
        self.hidden: list[str] = []

    def persistent_id(self, item: object) -> str | None:
        """Return a name for objects that need not be visited."""
        # Numbers are not visited: that would copy them.
        if isinstance(item, np.ndarray) and not item.dtype.hasobject:
            self.reads += mapped_by(item)
            return "numbers"
        if isinstance(item, str):
            self.reads += meant_by(item, self.wanted)
        elif isinstance(item, types.FunctionType):
            self.reads += read_by_globals(item, self.wanted)
        elif (found := read_by(item)) is not None:
            self.reads += found
            return "seen"
        return None

    def reducer_override(self, item: Any) -> Any:
        """Return how an object is pickled; others are visited by their attributes."""
        found = super().reducer_override(item)
        plain = isinstance(item, _BY_NAME) or type(item) in self.dispatch_table
        if found is not NotImplemented or plain:
            return found
        try:
            return item.__reduce_ex__(5)
        except Exception:  # noqa: BLE001 - objects refuse to be pickled in many ways
            state = _state(item)
            if not state and not _is_harmless(item):
                self.hidden.append(f"{type(item).__module__}.{type(item).__qualname__}")
            return _nothing, (state,)


def _nothing(state: object) -> None:
    """Replace an object that cannot be pickled."""


def _state(item: object) -> dict[str, Any]:
    """Return the attributes of an object that cannot be pickled."""
    found = dict(getattr(item, "__dict__", {}))
    for kind in type(item).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(item, name):
                found[name] = getattr(item, name)
    return found


def _is_harmless(item: object) -> bool:
    return isinstance(item, _HARMLESS) or type(item).__name__ in _LOCKS
