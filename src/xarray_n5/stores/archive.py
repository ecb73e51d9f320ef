"""Containers in one ZIP archive, such as ``.ozx`` (RFC-9 of OME-NGFF); read-only."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NoReturn, Self

from xarray_n5.errors import ChunkError, MetadataError, ReadOnlyError
from xarray_n5.model.paths import join
from xarray_n5.stores import _zip as zips
from xarray_n5.stores._http import DOCUMENT
from xarray_n5.stores.base import ObjectInfo, Range, Store
from xarray_n5.stores.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from xarray_n5.model.codec import Buffer
    from xarray_n5.stores._zip import Directory, Entry
    from xarray_n5.stores.base import Listing

OZX = ".ozx"
"""The suffix of archives that are written."""

SUFFIXES = (OZX, ".zip")
"""The suffixes of archives."""

_STORED, _DEFLATED = 0, 8
"""The supported methods of compression."""

_ENCRYPTED, _DESCRIBED = 1, 8
"""Flags of entries; after a described one, its sizes are repeated."""

_DESCRIPTOR = 16
"""The size of what follows a described entry."""

_READ_ONLY = (
    "cannot be changed: it is an archive; copy it to a container such as *.zarr, change that"
)
_READ_ONLY += ", and copy it to a new archive"

_ROOM = 1 << 10
"""The bytes for extra fields and a descriptor that are read with an entry of an archive that has
other bytes between entries."""


@dataclass(frozen=True, slots=True)
class ArchiveStore(Store):
    """The files in a ZIP archive, which another store reads by ranges.

    The directory is read once in each process: by one request for the end of the archive, and a
    second one if it is larger than 64 KiB. A file is then one request. An archive that was written
    again after it had been opened is an error, not a mixture of both.
    """

    file: Store
    """The store whose root is the archive."""
    version: str
    """What identifies the archive's content; see :class:`Directory`."""
    inside: str = ""
    """The directory in the archive that all keys are in."""
    limit: int | None = field(default=None, compare=False, repr=False)
    """The maximum size of a chunk; None for documents."""

    @classmethod
    def at(cls, location: object, options: Mapping[str, object]) -> Self | None:  # noqa: ARG003
        """Return the store of an archive that another store is the location of."""
        if isinstance(location, cls):
            return location
        if not isinstance(location, Store):
            return None
        if isinstance(location, LocalStore) and not os.path.isfile(location.url):  # noqa: PTH113
            return None
        directory = zips.directory_of(location)
        return None if directory is None else cls(location, directory.version)

    def __dask_tokenize__(self) -> object:
        return self.identity("")

    @property
    def url(self) -> str:
        """The archive's location, and the directory in it."""
        return join(self.file.url, self.inside)

    @property
    def name(self) -> str:
        """The name of the archive, or of the directory in it."""
        return self.inside.rpartition("/")[2] or self.file.name

    @property
    def concurrency(self) -> int:  # type: ignore[override]
        """The number of requests that are worth having in flight."""
        return self.file.concurrency

    @property
    def most_at_once(self) -> int:
        """The maximum number of requests in flight."""
        return self.file.most_at_once

    @property
    def complete_listings(self) -> bool:
        """Return True: the directory names every file."""
        return True

    def identity(self, path: str) -> object:
        """Return a value that identifies a node in this version of the archive."""
        return ("archive", self.file.identity(""), self.version, join(self.inside, path))

    def parent(self) -> Self | None:
        """Return the store of the directory above; None for the root of the archive."""
        return replace(self, inside=self.inside.rpartition("/")[0]) if self.inside else None

    def child(self, path: str) -> Self:
        """Return the store of a directory in this one."""
        return replace(self, inside=join(self.inside, path))

    def with_limit(self, nbytes: int) -> ArchiveStore:
        """Return the store with a :attr:`limit`."""
        return _limited(self, nbytes)

    @property
    def _entries(self) -> Directory:
        directory = zips.directory_of(self.file, self.version)
        if directory is None:
            raise MetadataError(f"{self.url}: the archive was removed after it had been opened")
        if directory.version != self.version:
            raise MetadataError(
                f"{self.url}: the archive was written again after it had been opened; open it again"
            )
        return directory

    # Reading

    def get(self, key: str) -> bytes | None:
        """Return the bytes at `key` in one request."""
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        """Return the bytes at each key, in one batch."""
        entries = [self._find(key) for key in keys]
        wanted = [(key, each) for key, each in zip(keys, entries, strict=True) if each is not None]
        parts = [self._extent(key, each) for key, each in wanted]
        read = zip(wanted, self._read(parts), strict=True)
        found = {key: self._data(key, each, data) for (key, each), data in read}
        return [found.get(key) for key in keys]

    def fetch(self, keys: Iterable[str], ahead: int) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and their bytes, `ahead` of them in one batch."""
        waiting = iter(keys)
        while batch := list(islice(waiting, max(1, ahead))):
            yield from zip(batch, self.get_many(batch), strict=True)

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[bytes | None]:
        """Return the bytes of parts of files; of a compressed one, all of it is read.

        The first time that a file is used, its header is read in the same batch.
        """
        entries = {key: self._find(key) for key in dict.fromkeys(each.key for each in ranges)}
        packed = [key for key, each in entries.items() if each and each.method == _DEFLATED]
        whole = dict(zip(packed, self.get_many(packed), strict=True)) if packed else {}
        stored = {key: e for key, e in entries.items() if e is not None and key not in whole}
        known = self._entries.starts
        new = {key: entry for key, entry in stored.items() if entry.offset not in known}
        starts = {key: known.get(entry.offset) for key, entry in stored.items()}
        starts |= (likely := {key: self._likely_start(key, entry) for key, entry in new.items()})
        parts = [each for each in ranges if each.key in stored]

        def located() -> Sequence[Range]:
            sizes = ((each, starts[each.key], stored[each.key].packed) for each in parts)
            return [_moved(each, first or 0, size) for each, first, size in sizes]

        headers = [Range("", entry.offset, likely[key]) for key, entry in new.items()]
        read = self._read([*headers, *located()])
        for (key, entry), data in zip(new.items(), read, strict=False):
            starts[key] = known[entry.offset] = self._check_start(key, entry, data)
        read = read[len(new) :]
        if any(starts[key] != start for key, start in likely.items()):
            read = self._read(located())
        found = iter(read)
        return [
            next(found)
            if each.key in stored
            else None
            if (inflated := whole.get(each.key)) is None
            else inflated[each.start : each.stop]
            for each in ranges
        ]

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key` and the file's size."""
        entry = self._find(key)
        if entry is None:
            return None
        if count == 0:
            return b"", entry.size
        return self.get_ranges([Range(key, 0, count)])[0] or b"", entry.size

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`, without a request."""
        return self._find(key) is not None

    def etag(self, key: str) -> object:
        """Return a value that changes with the archive's content; None if it is missing."""
        entry = self._find(key)
        return None if entry is None else (self.version, entry.crc, entry.size)

    def stamp(self, key: str) -> object:
        """Return a stamp of the archive, if its store has one."""
        return self.file.stamp("") if self.exists(key) else None

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        return self._entries.has_folder(join(self.inside, prefix))

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`."""
        return self._entries.listing(join(self.inside, prefix))

    def walk(self, prefix: str) -> Iterator[str]:
        """Iterate over the files under `prefix`, relative to it."""
        return (key for key, _ in self._entries.files(join(self.inside, prefix)))

    def list_info(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over the files under `prefix` with their sizes."""
        found = self._entries.files(join(self.inside, prefix))
        return (ObjectInfo(key, size, None) for key, size in found)

    # Writing

    def set(self, key: str, data: Buffer) -> NoReturn:
        """Raise: archives are read-only."""
        del data
        raise self.read_only(key)

    def delete(self, keys: Iterable[str]) -> None:
        """Raise if there is a key: archives are read-only."""
        for key in keys:
            raise self.read_only(key)

    def read_only(self, path: str) -> ReadOnlyError:
        """Return the error for a write."""
        return ReadOnlyError(self.url, path, _READ_ONLY)

    # Entries

    def _find(self, key: str) -> Entry | None:
        return self._entries.find(join(self.inside, key))

    def _check(self, key: str, entry: Entry) -> None:
        """Raise if an entry cannot be read."""
        if entry.flags & _ENCRYPTED or entry.method not in {_STORED, _DEFLATED}:
            what = "encrypted" if entry.flags & _ENCRYPTED else f"of method {entry.method}"
            raise self._unreadable(key, f"it is {what}; expected it stored or deflated")
        if entry.method == _STORED and entry.size != entry.packed:
            raise self._unreadable(key, f"{entry.packed} of its {entry.size} bytes are stored")

    def _extent(self, key: str, entry: Entry) -> Range:
        """Return the range of an entry, its header included."""
        self._check(key, entry)
        most = DOCUMENT if self.limit is None else self.limit
        if entry.size > most or entry.packed > most + most // 16 + _ROOM:
            raise self._unreadable(key, f"it has {entry.size} bytes; expected at most {most}")
        stop = self._least_start(key, entry) + entry.packed + _ROOM
        return Range("", entry.offset, min(entry.stop, stop))

    def _least_start(self, key: str, entry: Entry) -> int:
        """Return the position of an entry's data, if its header has no extra fields."""
        return entry.offset + zips.LOCAL.size + len(entry.encoded(join(self.inside, key)))

    def _likely_start(self, key: str, entry: Entry) -> int:
        """Return the likely position of an entry's data: nothing is between it and the next one."""
        self._check(key, entry)
        least = self._least_start(key, entry)
        after = _DESCRIPTOR if entry.flags & _DESCRIBED else 0
        return max(least, min(entry.stop - entry.packed - after, least + _ROOM))

    def _check_start(self, key: str, entry: Entry, data: bytes) -> int:
        """Return the position of an entry's data, given the header in front of it."""
        name = entry.encoded(join(self.inside, key))
        if len(data) < (end := zips.LOCAL.size + len(name)):
            raise self._unreadable(key, "the archive is truncated")
        mark, *_, length, extra = zips.LOCAL.unpack_from(data)
        if (mark, length, data[zips.LOCAL.size : end]) != (zips.LOCAL_MARK, len(name), name):
            raise self._unreadable(key, "its header is damaged, or the archive has changed")
        start = entry.offset + end + int(extra)
        if start + entry.packed > entry.stop:
            raise self._unreadable(key, "its header and the directory differ")
        return start

    def _data(self, key: str, entry: Entry, data: bytes) -> bytes:
        """Return the file in an entry, given the entry's extent."""
        start = self._check_start(key, entry, data)
        packed = data[start - entry.offset :][: entry.packed]
        if len(packed) < entry.packed:  # large extra fields
            (packed,) = self._read([Range("", start, start + entry.packed)])
        if entry.method == _DEFLATED:
            packed = self._inflated(key, entry, packed)
        if len(packed) != entry.size or zlib.crc32(packed) != entry.crc:
            raise self._unreadable(key, "its size or its checksum (CRC-32) is wrong")
        return packed

    def _inflated(self, key: str, entry: Entry, packed: bytes) -> bytes:
        """Return at most one byte more than the file has."""
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, entry.size + 1)
        except zlib.error as error:
            raise self._unreadable(key, f"it cannot be inflated ({error})") from error

    def _read(self, ranges: Sequence[Range]) -> Sequence[bytes]:
        """Return ranges of the archive; shorter ones if it was truncated."""
        found = self.file.get_ranges(ranges) if ranges else []
        return [data or b"" for data in found]

    def _unreadable(self, key: str, why: str) -> Exception:
        if self.limit is not None:
            return ChunkError("decode", self.url, key, why)
        return MetadataError(f"{join(self.url, key)}: cannot be read from the archive: {why}")


def _moved(part: Range, first: int, size: int) -> Range:
    """Return the range of an archive for that of a file, which begins at `first`."""
    start, stop, _ = slice(part.start, part.stop).indices(size)
    return Range("", first + start, first + max(start, stop))


@lru_cache(maxsize=64)
def _limited(store: ArchiveStore, nbytes: int) -> ArchiveStore:
    return replace(store, limit=nbytes)
