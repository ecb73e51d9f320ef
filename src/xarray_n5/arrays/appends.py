"""Records of unfinished appends to a group: data come first, the arrays grow last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.records import append_name, parse, state_of
from xarray_n5.model.paths import HIDDEN, join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.stores.base import Store


def appends_in(store: Store, path: str) -> dict[str, dict[str, Any]]:
    """Return the records of unfinished appends to a group, by attempt."""
    return read_appends(store, path, state_of(store.list(join(path, HIDDEN))).appends)


def read_appends(store: Store, path: str, attempts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return some records, by attempt; one that is gone has ended."""
    names = sorted(attempts)
    keys = [join(path, HIDDEN, append_name(attempt)) for attempt in names]
    documents = store.get_many(keys) if keys else ()
    return {
        attempt: parse(document)
        for attempt, document in zip(names, documents, strict=True)
        if document is not None
    }


def as_before(
    nodes: Mapping[str, Array | Group], records: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the nodes of a group, with arrays that appends are resizing as they were before.

    An append resizes its arrays when all its data are stored; in HDF5, which stores no chunks
    beyond the end of a dataset, before that.
    """
    shown: dict[str, Any] = dict(nodes)
    for facts in records:
        for name, (old, new) in facts.get("grows", {}).items():
            array = nodes.get(name)
            if not isinstance(array, Array) or array.node.metadata.shape != tuple(new):
                continue
            if facts.get("commit") or array.node.format.one_writer:
                shown[name] = Array(array.node.with_shape(tuple(old)))
    return shown
