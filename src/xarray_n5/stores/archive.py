"""Containers in one ZIP archive, such as ``.ozx`` (RFC-9 of OME-NGFF); read-only."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self

from xarray_n5.errors import ChunkError, MetadataError, ReadOnlyError
from xarray_n5.model.paths import join
from xarray_n5.stores import _zip as zips
from xarray_n5.stores._web import DOCUMENT
from xarray_n5.stores.base import FilePart, ObjectInfo, Range, Store
from xarray_n5.stores.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xarray_n5.model.metadata import Buffer
    from xarray_n5.stores._zip import Directory, ZipEntry
    from xarray_n5.stores.base import Listing

OZX = ".ozx"
"""The suffix of archives that are written."""

SUFFIXES = (OZX, ".zip")
"""The suffixes of archives."""

_STORED, _DEFLATED = 0, 8
"""The supported methods of compression."""

_ENCRYPTED = 1
"""A flag of entries."""

_READ_ONLY = (
    "cannot be changed: it is an archive; copy it to a container such as *.zarr, change that, and "
    "copy it to a new archive"
)

_MOST_KEPT = 16
"""The maximum number of archives whose directories are kept."""

_ROOM = 1 << 17
"""The most bytes of extra fields and a descriptor."""


class _Wanted(NamedTuple):
    """A file that is read."""

    key: str
    entry: ZipEntry
    most: int | None = None
    """The maximum size of a chunk; None for documents."""

    @property
    def name(self) -> bytes:
        """Its name as the archive has it."""
        return self.entry.encoded(self.key)

    @property
    def least_start(self) -> int:
        """The position of its data, if its header has no extra fields."""
        return self.entry.offset + zips.LOCAL.size + len(self.name)


@dataclass(frozen=True, slots=True)
class ArchiveStore(Store):
    """The files in a ZIP archive, which another store reads by ranges.

    The directory is kept by each process: it is one request for the end of the archive, and a
    second one if it is larger than 64 KiB. A file is then one request; parts of a file are two for
    the first time, since its header is read before. An archive that was replaced
    while it was open is an error, not a mixture of both: its store reports the state of what is
    read, or a file has a checksum, or else the end of the archive is read again.
    """

    file: Store
    """The store whose root is the archive."""
    version: str
    """What identifies the archive's content; see :class:`Directory`."""

    @classmethod
    def at(cls, location: Store) -> Self | None:
        """Return the store of an archive that another store is the location of."""
        if isinstance(location, LocalStore) and not os.path.isfile(location.url):
            return None
        directory = _read_directory(location)
        return None if directory is None else cls(location, directory.version)

    def __dask_tokenize__(self) -> object:
        return self.identity("")

    @property
    def url(self) -> str:
        """The archive's location."""
        return self.file.url

    @property
    def name(self) -> str:
        """The name of the archive."""
        return self.file.name

    @property
    def concurrency(self) -> int:
        """The maximum number of requests that are worth making together."""
        return self.file.concurrency

    @property
    def complete_listings(self) -> bool:
        """Return True: the directory names every file."""
        return True

    def identity(self, path: str) -> object:
        """Return a value that identifies a node in this version of the archive."""
        return ("archive", self.file.identity(""), self.version, path)

    def parent(self) -> None:
        """Return None: there is no directory around the root of an archive."""

    def _directory(self, *, check: bool = False) -> Directory:
        """Return the archive's directory; with `check`, as it is now, or raise if it is another."""
        directory = None if check else _directories.get(self.file)
        if directory is None or directory.version != self.version:
            directory = _read_directory(self.file)
        if directory is None:
            raise MetadataError(f"{self.url}: the archive was removed while it was open")
        if directory.version != self.version:
            raise MetadataError(
                f"{self.url}: the archive was replaced while it was open: open it again"
            )
        return directory

    # Reading

    def get(self, key: str, most: int | None = None) -> bytes | None:
        """Return the bytes at `key` in one request."""
        return self._files([key], most)[0]

    def fetch(
        self, keys: Iterable[str], ahead: int, most: int | None = None
    ) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over keys and their bytes, `ahead` of them in one batch."""
        waiting = iter(keys)
        while batch := list(islice(waiting, max(1, ahead))):
            yield from zip(batch, self._files(batch, most), strict=True)

    def _files(self, keys: Sequence[str], most: int | None) -> Sequence[bytes | None]:
        """Return files in one batch; `most` is the maximum size of chunks, None for documents."""
        directory = self._directory()
        entries = {key: directory.find(key) for key in keys}
        wanted = [_Wanted(key, entry, most) for key, entry in entries.items() if entry is not None]
        extents = [self._extent(file) for file in wanted]
        read = self._read(extents, directory.state, crc=True)
        data = {file.key: self._data(file, part) for file, part in zip(wanted, read, strict=True)}
        return [data.get(key) for key in keys]

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        """Return the bytes of parts of files; of a compressed one, all of it is read."""
        directory = self._directory()
        keys = dict.fromkeys(part.key for part in ranges)
        entries = {key: directory.find(key) for key in keys}
        packed = [key for key, entry in entries.items() if entry and entry.method == _DEFLATED]
        data = dict(zip(packed, self._files(packed, None), strict=True))
        stored = {key: entry for key, entry in entries.items() if entry and key not in data}
        starts = self._starts([_Wanted(key, entry) for key, entry in stored.items()], directory)
        parts = [part for part in ranges if part.key in stored]
        moved = [_moved(part, starts[part.key], stored[part.key].packed) for part in parts]
        read = dict(zip(parts, self._read(moved, directory.state), strict=True))
        cut = [read[p] if p in read else p.cut(data.get(p.key)) for p in ranges]
        return [None if part is None else FilePart(part, None) for part in cut]

    def _starts(self, wanted: Sequence[_Wanted], directory: Directory) -> dict[str, int]:
        """Return the positions of files' data, which are behind their headers."""
        new = [file for file in wanted if file.entry.offset not in directory.starts]
        for file in new:
            self._check(file)
        headers = [Range("", file.entry.offset, file.least_start) for file in new]
        for file, header in zip(new, self._read(headers, directory.state), strict=True):
            directory.starts[file.entry.offset] = self._check_start(file, header)
        return {file.key: directory.starts[file.entry.offset] for file in wanted}

    def head(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first `count` bytes at `key` and the file's size."""
        entry = self._directory().find(key)
        if entry is None:
            return None
        if count == 0:
            return b"", entry.size
        (part,) = self.get_ranges([Range(key, 0, count)])
        return b"" if part is None else part.data, entry.size

    def exists(self, key: str) -> bool:
        """Return whether there is a file at `key`, without a request."""
        return self._directory().find(key) is not None

    def etag(self, key: str, *, free: bool = False) -> object:
        """Return a value that changes with the archive's content; None if it is missing."""
        entry = None if free else self._directory().find(key)
        return None if entry is None else (self.version, entry.crc, entry.size)

    def is_folder(self, prefix: str) -> bool:
        """Return whether there is a directory at `prefix`."""
        return self._directory().has_folder(prefix)

    def list(self, prefix: str) -> Listing:
        """Return the names directly under `prefix`."""
        return self._directory().listing(prefix)

    def list_info(self, prefix: str, *, sizes: bool = True) -> Iterator[ObjectInfo]:
        """Iterate over the files under `prefix` with their sizes."""
        files = self._directory().files(prefix)
        return (ObjectInfo(key, size) for key, size in files)

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

    def _check(self, wanted: _Wanted) -> None:
        """Raise if an entry cannot be read."""
        entry = wanted.entry
        if entry.flags & _ENCRYPTED or entry.method not in {_STORED, _DEFLATED}:
            what = "encrypted" if entry.flags & _ENCRYPTED else f"of method {entry.method}"
            raise self._unreadable(wanted, f"it is {what}; expected it stored or deflated")
        if entry.method == _STORED and entry.size != entry.packed:
            why = f"{entry.packed} of its {entry.size} bytes are stored"
            raise self._unreadable(wanted, why)

    def _extent(self, wanted: _Wanted) -> Range:
        """Return the range of an entry, its header included."""
        self._check(wanted)
        entry, most = wanted.entry, DOCUMENT if wanted.most is None else wanted.most
        if entry.size > most or entry.packed > most + most // 16 + (1 << 10):
            why = f"it has {entry.size} bytes; expected at most {most}"
            raise self._unreadable(wanted, why)
        stop = wanted.least_start + entry.packed + _ROOM
        return Range("", entry.offset, min(entry.stop, stop))

    def _check_start(self, wanted: _Wanted, data: bytes) -> int:
        """Return the position of an entry's data, given the header in front of it."""
        entry, name = wanted.entry, wanted.name
        if len(data) < (end := zips.LOCAL.size + len(name)):
            raise self._unreadable(wanted, "the archive is truncated")
        mark, *_, length, extra = zips.LOCAL.unpack_from(data)
        if (mark, length, data[zips.LOCAL.size : end]) != (zips.LOCAL_MARK, len(name), name):
            raise self._unreadable(wanted, "its header is damaged")
        start = entry.offset + end + int(extra)
        if start + entry.packed > entry.stop:
            raise self._unreadable(wanted, "its header and the directory differ")
        return start

    def _data(self, wanted: _Wanted, data: bytes) -> bytes:
        """Return the file in an entry, given the entry's extent."""
        entry, start = wanted.entry, self._check_start(wanted, data)
        packed = data[start - entry.offset :][: entry.packed]
        if entry.method == _DEFLATED:
            try:  # at most one byte more than the file has
                packed = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, entry.size + 1)
            except zlib.error as error:
                raise self._unreadable(wanted, f"it cannot be inflated ({error})") from error
        if len(packed) != entry.size or zlib.crc32(packed) != entry.crc:
            raise self._unreadable(wanted, "its size or its checksum (CRC-32) is wrong")
        return packed

    def _read(self, parts: Sequence[Range], state: object, *, crc: bool = False) -> Sequence[bytes]:
        """Return parts of the archive; shorter ones if it was truncated.

        The store reports the `state` of the archive that was opened, or else its end is read again
        to know whether it was replaced. That is not needed if files have checksums (`crc`).
        """
        read = self.file.get_ranges(parts) if parts else []
        same = all(part is not None and part.state == state for part in read)
        if not same or (state is None and not crc and read):
            self._directory(check=True)
        return [b"" if part is None else part.data for part in read]

    def _unreadable(self, wanted: _Wanted, why: str) -> Exception:
        """Return the error of a file; raise that of the archive if it was replaced."""
        self._directory(check=True)
        if wanted.most is not None:
            return ChunkError("decode", self.url, wanted.key, why)
        where = join(self.url, wanted.key)
        return MetadataError(f"{where}: cannot be read from the archive: {why}")


def _moved(part: Range, first: int, size: int) -> Range:
    """Return the range of an archive for that of a file, which begins at `first`."""
    start, stop, _ = slice(part.start, part.stop).indices(size)
    return Range("", first + start, first + max(start, stop))


_directories: dict[Store, Directory] = {}
"""The directories of archives that this process has read, the oldest first."""


def _read_directory(file: Store) -> Directory | None:
    """Return the directory of an archive as it is now, and keep it; None if it is missing."""

    def read(start: int, stop: int) -> bytes:
        (part,) = file.get_ranges([Range("", start, stop)])
        return b"" if part is None else part.data

    (end,) = file.get_ranges([Range("", -zips.TAIL, None)])
    if end is None:
        return None
    directory, now = _directories.get(file), (end.state, zips.digest(end.data))
    if directory is None or (directory.state, directory.end) != now:
        directory = replace(zips.read_directory(file.url, end.data, read), state=end.state)
        _directories[file] = directory
        for oldest in [*_directories][:-_MOST_KEPT]:
            _directories.pop(oldest, None)
    return directory
