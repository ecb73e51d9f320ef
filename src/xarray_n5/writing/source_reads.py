"""The files that the tasks of a Dask graph read, as far as its objects show."""

from __future__ import annotations

import os
import types
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np

from xarray_n5.writing.probes import mapped_by, meant_by, read_by, read_by_globals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xarray_n5.writing.probes import Read

_HARMLESS = (weakref.ref, types.GeneratorType)
"""Objects that cannot be pickled, and from which no array reads."""

_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType)
"""Objects that pickle names."""

_LOCKS = frozenset({"lock", "RLock", "_local", "Condition", "Event", "Semaphore"})


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known of the files that a graph reads."""

    reads: tuple[Read, ...]
    hidden: tuple[str, ...]
    """The types of objects that may read files and do not say which."""


def reads_of(graph: object, names: Iterable[str] = ()) -> Findings:
    """Return the files that a graph's tasks read.

    Parameters
    ----------
    graph
        The graph, which is visited as if it were pickled.
    names
        The last parts of paths for which strings are looked through.
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
    """Visit every object that a graph holds; what it writes goes nowhere."""

    def __init__(self, nowhere: Any, wanted: frozenset[str]) -> None:
        super().__init__(nowhere, protocol=5, buffer_callback=lambda _: None)
        self.wanted = wanted
        self.reads: list[Read] = []
        self.hidden: list[str] = []

    def persistent_id(self, item: object) -> str | None:
        """Return a name for what need not be looked into."""
        # Numbers are not looked into: that would copy them.
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
        """Return how an object is pickled; one that cannot be is looked into as far as it goes."""
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
    """Stand for an object that cannot be pickled."""


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
