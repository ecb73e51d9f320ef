"""Records of unfinished appends to a group: data come first, the arrays grow last."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.claims import parse, state_of
from xarray_n5.errors import RefusedError
from xarray_n5.model.paths import HIDDEN, join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xarray_n5.arrays.group import Group
    from xarray_n5.stores.base import Store


def name_of(attempt: str) -> str:
    """Return the name of the record of an append."""
    return f"open-append-{attempt}.json"


def attempt_of(name: str) -> str:
    """Return the attempt in the name of a record.

    >>> attempt_of(name_of("0123abcd"))
    '0123abcd'
    """
    return name.removeprefix("open-append-").removesuffix(".json")


def appends_in(store: Store, path: str, but: str = "") -> dict[str, dict[str, Any]]:
    """Return what the records of unfinished appends to a group state, by attempt.

    One that is gone when it is read has ended.
    """
    return read_appends(store, path, state_of(store.list(join(path, HIDDEN))).appends - {but})


def read_appends(store: Store, path: str, attempts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what some records state, by attempt."""
    names = sorted(attempts)
    keys = [join(path, HIDDEN, name_of(attempt)) for attempt in names]
    documents = store.get_many(keys) if keys else ()
    return {
        attempt: parse(document)
        for attempt, document in zip(names, documents, strict=True)
        if document is not None
    }


def as_before(store: Store, path: str, nodes: Mapping[str, Array | Group]) -> dict[str, Any]:
    """Return the nodes of a group, with arrays that are being resized as they were before.

    An append resizes one array after another, when all its data are stored; in HDF5, which stores
    no chunks beyond the end of a dataset, before that. A server that refuses to list the records
    shows the arrays as they are.
    """
    former: dict[str, tuple[list[int], list[int]]] = {}
    records: dict[str, dict[str, Any]] = {}
    arrays = [node for node in nodes.values() if isinstance(node, Array)]
    if arrays:
        with suppress(RefusedError):
            records = appends_in(store, path)
    for facts in records.values():
        if facts.get("commit") or arrays[0].node.format.one_writer:
            former |= facts.get("grows", {})
    shown: dict[str, Any] = dict(nodes)
    for name, (old, new) in former.items():
        array = nodes.get(name)
        if isinstance(array, Array) and array.node.metadata.shape == tuple(new):
            shown[name] = Array(array.node.with_shape(tuple(old)))
    return shown
