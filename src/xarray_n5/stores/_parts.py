"""Parts of files, and how they are requested from filesystems of fsspec.

A web server may send all of a file, or another part, and fsspec returns whatever it sends. What a
response has is known by its status and its headers, which only the request itself sees.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from xarray_n5.stores._filesystems import in_folder, in_one_request, is_http
from xarray_n5.stores._http import WebError, at_most

if TYPE_CHECKING:
    from aiohttp import ClientResponse

_WHOLE, _PARTIAL, _MISSING, _BEYOND = 200, 206, 404, 416
"""Statuses of the whole file, a part, no file, and a range that begins after the file's end."""

_PACKED = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd"})
"""Encodings of bodies that clients decode."""

_SENT = re.compile(r"bytes\s+(?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)")
"""A header ``Content-Range``: the first and last byte, unless there are none, and the size."""

_NO_RANGES = "it would for each chunk: download the file, or use a server with range requests"
"""What to do if a server sends whole files instead of parts."""


class Range(NamedTuple):
    """A part of a file."""

    key: str
    start: int
    """The first byte; a negative one counts from the end of the file, and `stop` is None then."""
    stop: int | None

    def cut(self, data: bytes | None) -> bytes | None:
        """Return the part, given all of the file."""
        return None if data is None else data[self.start : self.stop]


class FilePart(NamedTuple):
    """The bytes in a range of a file."""

    data: bytes
    state: object
    """A value that changes whenever the file is written; None if the store does not report it."""


async def part_of(fs: Any, path: str, part: Range, *, whole: bool) -> FilePart:
    """Return a part of a file; with `whole`, a web server may send all of a larger one instead."""
    fs, path = in_folder(fs, path)
    if part.stop is not None and part.stop <= part.start:
        return FilePart(b"", None)
    if is_http(fs):
        return await _part_on_web(fs, path, part, whole=whole)
    read = fs._cat_file  # noqa: SLF001 - fsspec has no other name for it
    try:
        data = await read(path, start=part.start, end=part.stop, **in_one_request(fs))
    except NotImplementedError:  # obstore has no ranges to the end
        start, stop, _ = slice(*part[1:]).indices((await fs._info(path))["size"])  # noqa: SLF001
        data = await read(path, start=start, end=stop) if start < stop else b""
    most = -part.start if part.start < 0 else (part.stop or math.inf) - part.start
    if len(data) > most:
        raise WebError(f"the server sends {len(data)} bytes for {part[1:]}", _NO_RANGES)
    return FilePart(data, None)


async def _part_on_web(fs: Any, url: str, wanted: Range, *, whole: bool) -> FilePart:
    """Return a part of a file on a web server, according to what the server says that it sends."""
    from multidict import CIMultiDict

    start, stop = wanted.start, wanted.stop
    options = dict(fs.kwargs)
    headers = CIMultiDict(options.pop("headers", None) or {})
    last = "" if stop is None else stop - 1
    headers["Range"] = f"bytes={start}" if start < 0 else f"bytes={start}-{last}"
    headers["Accept-Encoding"] = "identity"  # or else it is a range of the packed bytes
    session = await fs.set_session()
    async with session.get(fs.encode_url(url), headers=headers, **options) as answer:
        if answer.status == _MISSING:
            await answer.read()  # the connection can be used again
            raise FileNotFoundError(url)
        sent, size = _sent_by(answer)
        expected = range(start, stop or 0) if size is None else range(size)[start:stop]
        if answer.status == _WHOLE and whole:
            return FilePart((await answer.read())[start:stop], None)
        if sent == expected:
            with at_most(len(expected)):
                data = await answer.read() if expected else b""
            if len(data) == len(expected):
                return FilePart(data, _state_of(answer, size))
        answer.close()
        raise _unlike(answer, headers["Range"])


def _sent_by(answer: ClientResponse) -> tuple[range | None, int | None]:
    """Return the positions in a file of what a response has, and the file's size."""
    packed = answer.headers.get("Content-Encoding", "").lower() in _PACKED
    if answer.status == _WHOLE:
        size = None if packed else answer.content_length
        return None if size is None else range(size), size
    sent = _SENT.fullmatch(answer.headers.get("Content-Range", ""))
    if sent is None or packed or answer.status not in {_PARTIAL, _BEYOND}:
        return None, None
    first, last, size = (None if part in {None, "*"} else int(part) for part in sent.groups())
    if first is None or last is None or answer.status == _BEYOND:
        return range(0), size
    return range(first, last + 1), size


def _state_of(answer: ClientResponse, size: int | None) -> object:
    """Return the state of a file; None if the server does not report it."""
    etag = answer.headers.get("ETag", "").removeprefix("W/")
    version = etag or answer.headers.get("Last-Modified")
    return None if version is None or size is None else (version, size)


def _unlike(answer: ClientResponse, wanted: str) -> WebError:
    """Return the error for a response that is not the requested part."""
    if answer.status == _WHOLE:
        return WebError(f"the server sends the whole file for {wanted!r}", _NO_RANGES)
    if answer.status != _BEYOND:
        answer.raise_for_status()
    sent = [answer.headers.get(name, "") for name in ("Content-Range", "Content-Encoding")]
    return WebError(f"the server answers {answer.status} {sent}, expected {wanted!r}")
