"""The directory of a ZIP archive: parsed with limits, kept compactly, and checked as a whole.

The structures are those of PKWARE's APPNOTE 6.3.10, sections 4.3 and 4.4. ``zipfile`` would make
an object of about 1 kB for each entry, and reads through a file that can seek.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xarray_n5.errors import MetadataError, printable
from xarray_n5.model.alerts import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xarray_n5.stores.base import Listing

TAIL = (1 << 16) + 98
"""The size of the end of an archive that is read first: the last records and any comment."""

LOCAL = struct.Struct("<4sHHHHHLLLHH")
"""The header in front of an entry's data; a name and extra fields follow."""

ENTRY = struct.Struct("<4sBBHHHHHLLLHHHHHLL")
"""The record of an entry in the directory; a name, extra fields and a comment follow."""

END = struct.Struct("<4sHHHHLLH")
"""The last record, which the archive's comment follows."""

END_64 = struct.Struct("<4sQHHLLQQQQ")
"""The record in front of the locator in ZIP64."""

LOCATOR = struct.Struct("<4sLQL")
"""The record in front of the last one in ZIP64."""

LOCAL_MARK, ENTRY_MARK, END_MARK = b"PK\3\4", b"PK\1\2", b"PK\5\6"
END_64_MARK, LOCATOR_MARK = b"PK\6\6", b"PK\6\7"

UTF_8 = 0x800
"""The flag of names in UTF-8; others are in the code page 437."""

ZIP64 = 1
"""The tag of the extra field for large sizes and offsets."""

_MOST = 1 << 28
"""The largest directory in bytes, of about three million entries: 256 MiB."""

_LARGEST = 1 << 62

FULL = 0xFFFFFFFF
"""A size or an offset that the extra field has."""


class ZipEntry(NamedTuple):
    """A file in an archive."""

    offset: int
    """The position of its header."""
    stop: int
    """The position of the next entry, or of the directory."""
    packed: int
    """The size of its data in the archive."""
    size: int
    """The size of the file."""
    crc: int
    method: int
    flags: int

    def encoded(self, name: str) -> bytes:
        """Return its name as the archive has it."""
        return name.encode("utf-8" if self.flags & UTF_8 else "cp437")


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """The entries of an archive, sorted by name; about 150 bytes for each."""

    names: list[str]
    """The names; those of directories end with "/"."""
    entries: np.ndarray
    """The fields of :class:`ZipEntry`, one row for each name."""
    version: str
    """A digest of the directory, which changes when the archive is written again."""
    end: str
    """A digest of the archive's last bytes."""
    state: object = None
    """The state that the archive's store reported for it; None if it does not."""
    starts: dict[int, int] = field(default_factory=dict)
    """The positions of headers that were read, and of the data behind them."""

    def find(self, name: str) -> ZipEntry | None:
        """Return the entry of a file, or None."""
        at = bisect_left(self.names, name)
        if at == len(self.names) or self.names[at] != name or not name:
            return None
        return ZipEntry(*self.entries[at].tolist())

    def files(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Iterate over the names of files under a prefix, relative to it, and their sizes."""
        start = f"{prefix}/" if prefix else ""
        for at in range(bisect_left(self.names, start), len(self.names)):
            name = self.names[at]
            if not name.startswith(start):
                return
            if not name.endswith("/"):
                yield name[len(start) :], int(self.entries["size"][at])

    def listing(self, prefix: str) -> Listing:
        """Return the names of directories and of files directly under a prefix."""
        folders, files = [], []
        start = f"{prefix}/" if prefix else ""
        at = bisect_left(self.names, start)
        while at < len(self.names) and self.names[at].startswith(start):
            name, slash, _ = self.names[at][len(start) :].partition("/")
            if not slash:
                files += [name] if name else []
                at += 1
            else:
                folders.append(name)
                at = bisect_left(self.names, f"{start}{name}0", at)  # "0" follows "/"
        return tuple(folders), tuple(files)

    def has_folder(self, prefix: str) -> bool:
        """Return whether there is a directory, or a file below it."""
        at = bisect_left(self.names, start := f"{prefix}/")
        return not prefix or any(name.startswith(start) for name in self.names[at : at + 1])


class _End(NamedTuple):
    """What the records at the end of an archive describe."""

    at: int
    """The position of the records in the tail; the directory ends there."""
    entries: int
    size: int
    offset: int


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def read_directory(url: str, tail: bytes, read: Callable[[int, int], bytes]) -> Directory:
    """Return the directory of an archive.

    Parameters
    ----------
    url
        The archive's location, for errors.
    tail
        Its last :data:`TAIL` bytes, or all of a smaller one.
    read
        Returns the bytes of a range of the archive; called once if the directory is larger.

    Raises
    ------
    MetadataError
        If the archive is invalid, or is not supported.
    """
    end = _end_of(url, tail)
    data = tail[max(0, end.at - end.size) : end.at]
    if len(data) < end.size:
        data = read(end.offset, end.offset + end.size)
        if len(data) != end.size or not data.endswith(tail[: end.at]):
            raise _invalid(url, "its directory is not where its last record says")
    names, entries = _parse(url, data, end)
    return Directory(*_checked(url, names, entries, end.offset), digest(data), digest(tail))


def _invalid(url: str, why: str) -> MetadataError:
    return MetadataError(f"{url}: not a valid ZIP archive: {why}; make it again")


def _end_of(url: str, tail: bytes) -> _End:
    """Find the last records, which end the archive with a comment of the stated size."""
    at = tail.rfind(END_MARK)
    while at >= 0:
        if at + END.size <= len(tail):
            _, disk, first, here, count, size, offset, comment = END.unpack_from(tail, at)
            if at + END.size + comment == len(tail):
                break
        at = tail.rfind(END_MARK, 0, at)
    else:
        raise _invalid(url, "it has no directory at its end")
    if (locator := at - LOCATOR.size) >= 0 and tail[locator : locator + 4] == LOCATOR_MARK:
        at = locator - END_64.size
        if at < 0 or tail[at : at + 4] != END_64_MARK:
            raise _invalid(url, "its ZIP64 record is not in front of its locator")
        _, _, _, _, disk, first, here, count, size, offset = END_64.unpack_from(tail, at)
    if disk or first or here != count:
        raise MetadataError(f"{url}: the archive is split into several files; join them")
    if size > _MOST:
        raise MetadataError(
            f"{url}: the directory of the archive has {size} bytes, expected at most {_MOST}; "
            "store shards, so that there are fewer files"
        )
    if count * ENTRY.size > size or offset > _LARGEST:
        raise _invalid(url, f"its directory of {count} entries has {size} bytes at {offset}")
    return _End(at, count, size, offset)


def _parse(url: str, data: bytes, end: _End) -> tuple[list[str], np.ndarray]:
    """Return the names and the fields of all entries, in the order of the directory."""
    names: list[str] = []
    fields: list[np.ndarray] = []
    rows: list[tuple[int, ...]] = []
    at = 0
    for _ in range(end.entries):
        try:
            record = ENTRY.unpack_from(data, at)
        except struct.error:
            raise _invalid(url, "its directory is truncated") from None
        mark, _, _, _, flags, method, _, _, crc, packed, size, *sizes, disk, _, _, offset = record
        start, name_end = at + ENTRY.size, at + ENTRY.size + sizes[0]
        at = name_end + sizes[1] + sizes[2]
        if mark != ENTRY_MARK or at > len(data):
            raise _invalid(url, "its directory is damaged")
        names.append(_name(url, data[start:name_end], flags))
        if FULL in {packed, size, offset}:
            extra = data[name_end : name_end + sizes[1]]
            size, packed, offset = _large(url, names[-1], extra, (size, packed, offset))
        if disk not in {0, 0xFFFF}:
            raise MetadataError(f"{url}: the archive is split into several files; join them")
        header = offset + LOCAL.size + sizes[0]
        if header + packed > end.offset or size > _LARGEST:
            raise _invalid(url, f"the entry {names[-1]!r} is outside of it")
        rows.append((offset, header + packed, packed, size, crc, method, flags))
        if len(rows) == 1 << 12:
            fields.append(np.array(rows, _ROW))
            rows = []
    if at != end.size:
        raise _invalid(url, f"its directory has {end.size} bytes, of which {at} are used")
    return names, np.concatenate([*fields, np.array(rows, _ROW)])


_ROW = np.dtype({"names": ZipEntry._fields, "formats": ["u8"] * 4 + ["u4", "u2", "u2"]})


def _name(url: str, raw: bytes, flags: int) -> str:
    """Return the name of an entry as a key; raise if it could leave the container."""
    try:
        name = raw.decode("utf-8" if flags & UTF_8 else "cp437")
    except UnicodeDecodeError:
        raise _invalid(url, f"the name {raw!r} is not UTF-8") from None
    parts = name.removesuffix("/").split("/")
    if "\\" in name or "\0" in name or not {"", ".", ".."}.isdisjoint(parts):
        raise MetadataError(
            f"{url}: the archive has an entry {printable(name)!r}; expected names without "
            "backslashes, NUL, and parts that are empty, '.' or '..'"
        )
    return name


def _large(url: str, name: str, extra: bytes, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the size, packed size and offset, those that are full from the extra field."""
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<HH", extra, at)
        field, at = extra[at + 4 : at + 4 + length], at + 4 + length
        if tag == ZIP64:
            values = iter(struct.unpack(f"<{len(field) // 8}Q", field[: len(field) // 8 * 8]))
            size, packed, offset = (next(values, FULL) if s == FULL else s for s in sizes)
            return size, packed, offset
    raise _invalid(url, f"the entry {name!r} lacks its ZIP64 sizes")


def _checked(
    url: str, names: list[str], entries: np.ndarray, end: int
) -> tuple[list[str], np.ndarray]:
    """Return the entries sorted by name; raise if two of them share bytes of the archive."""
    order = np.argsort(entries["offset"], kind="stable")
    starts, stops = entries["offset"][order], entries["stop"][order]
    shared = np.flatnonzero(stops[:-1] > starts[1:])
    if shared.size:
        one, two = (names[order[shared[0] + step]] for step in (0, 1))
        raise MetadataError(f"{url}: the entries {one!r} and {two!r} of the archive overlap")
    entries["stop"][order] = np.append(starts[1:], np.uint64(end))[: len(order)]
    by_name = sorted(range(len(names)), key=names.__getitem__)
    names = [names[at] for at in by_name]
    last = [at for at, name in enumerate(names) if names[at + 1 : at + 2] != [name]]
    if len(last) < len(names):
        again = next(one for one, two in pairwise(names) if one == two)
        warn(
            f"{url}: the archive has {again!r} more than once; the last one is used. Programs that "
            "update files in an archive leave the old ones in it"
        )
    return [names[at] for at in last], entries[[by_name[at] for at in last]]
