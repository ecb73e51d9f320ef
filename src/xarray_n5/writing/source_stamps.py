"""Stamps of the stored arrays that a graph reads, by which a resumed write notices changes of them.

A stamp consists of the times and sizes, or the etags, of an array's first document and of a few of
its chunks: listing all of them would cost more than most writes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from xarray_n5.arrays.array import Array
from xarray_n5.stores import together
from xarray_n5.writing.file_reads import location_of, read_by
from xarray_n5.writing.user_code import objects_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import ChunkGrid, Index

_MOST = 100
"""The maximum number of arrays whose stamps are recorded."""

_REQUESTS = 4
"""The number of chunks in a stamp where each takes a request."""

_FILES = 32
"""The number of chunks in a stamp on a local disk."""

_DOCUMENTS = (".zarray", "zarr.json", "attributes.json")


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
        for item in objects_in(graph):
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
    return blake2b(repr(value).encode(errors="replace"), digest_size=8).hexdigest()


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
