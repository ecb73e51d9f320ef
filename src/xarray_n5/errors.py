"""Every error of the package.

Each is also the builtin that a caller would catch::

    N5Error
    ├── NodeNotFoundError        FileNotFoundError    nothing is stored at a path
    ├── NodeExistsError          FileExistsError      a write would replace something
    ├── ContainerNotVisibleError FileNotFoundError    a worker does not see the container
    ├── StaleTaskError           RuntimeError         a task of a write that failed or was resumed
    ├── PathError                ValueError           a path leaves the container
    │   └── UnsafePathError      PermissionError      a link that leaves it, or not a regular file
    ├── MetadataError            ValueError           invalid metadata, or unfit for the format
    ├── UnknownCompressionError  NotImplementedError  an unregistered compression
    ├── AlignmentError           ValueError           blocks or a region that cut stored chunks
    ├── BlockError               ValueError           a block unlike its Dask metadata
    ├── ResumeError              ValueError           the unfinished write is a different one
    ├── ReadOnlyError            PermissionError      a write through a handle opened for reading
    ├── OneWriterError           OSError              an HDF5 file that another process writes
    ├── RequestError             OSError              a failed request to a store
    │   └── RefusedError         PermissionError      a request without permission
    ├── MissingPackageError      ImportError          a missing optional package
    └── ChunkError               ValueError           a chunk that cannot be encoded or decoded
        ├── MissingChunkError    LookupError          a chunk that is not stored
        └── VarlengthChunkError                       a chunk that holds a list of elements

and a warning of its own class, a UserWarning::

    UnfinishedWriteWarning       an array is opened whose write is unfinished
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

__all__ = [
    "AlignmentError",
    "BlockError",
    "ChunkError",
    "ContainerNotVisibleError",
    "MetadataError",
    "MissingChunkError",
    "MissingPackageError",
    "N5Error",
    "NodeExistsError",
    "NodeNotFoundError",
    "OneWriterError",
    "PathError",
    "ReadOnlyError",
    "RefusedError",
    "RequestError",
    "ResumeError",
    "StaleTaskError",
    "UnfinishedWriteWarning",
    "UnknownCompressionError",
    "UnsafePathError",
    "VarlengthChunkError",
]


_LONGEST = 4000
"""The maximum length of a message, in characters."""

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control, format and surrogate characters and of line separators."""

_UNUSUAL = re.compile(r"[^ -~]")


def printable(text: str) -> str:
    r"""Return `text` with control and formatting characters escaped, as in a string's repr.

    Letters of all languages are kept.

    >>> printable("µm\x1b[2J")
    'µm\\x1b[2J'
    """
    return text if text.isprintable() else _UNUSUAL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if unicodedata.category(character) not in _ESCAPED:
        return character
    return character.encode("unicode_escape").decode("ascii")


def message(text: str) -> str:
    """Return a message that is safe to print, shortened in the middle if it is long.

    >>> len(message("a" * 100_000))
    4000
    """
    if len(text) > _LONGEST:
        half = _LONGEST // 2
        text = f"{text[: half - 5]} ... {text[-half:]}"
    return printable(text)


class N5Error(Exception):
    """Base of every error that this package raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle as type(*args), which facts in the signature would break;
        # workers send errors to the client.
        return _rebuild, (type(self), self.args, self.__dict__.copy())

    def __str__(self) -> str:
        return message(super().__str__())


def _rebuild(kind: type[N5Error], args: tuple[object, ...], facts: dict[str, object]) -> N5Error:
    """Rebuild a pickled error with its attributes and message."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class NodeNotFoundError(N5Error, FileNotFoundError):
    """No node, or one of another kind, at a path."""

    def __init__(self, url: str, path: str, expected: str = "node", hint: str = "") -> None:
        self.url, self.path, self.expected = url, path, expected
        text = f"no {expected} at {path or '/'!r} in {url!r}"
        super().__init__(f"{text}; {hint}" if hint else text)


class NodeExistsError(N5Error, FileExistsError):
    """A write would replace something that exists."""

    def __init__(self, url: str, path: str, found: str, hint: str) -> None:
        self.url, self.path, self.found = url, path, found
        super().__init__(f"{path or '/'!r} in {url!r} exists ({found}); {hint}")


class ContainerNotVisibleError(N5Error, FileNotFoundError):
    """A worker does not see the marker of the write that it was sent."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key
        super().__init__(
            f"cannot find {key!r} in {url!r}, the marker of this write; nothing was written. Give "
            "every worker the same file system (a shared mount) or an object store. A write that "
            "has ended, or that another write has replaced, cannot be computed again"
        )


class StaleTaskError(N5Error, RuntimeError):
    """A task of a write that has failed, or that another attempt has resumed."""

    def __init__(self, url: str, path: str) -> None:
        self.url, self.path = url, path
        super().__init__(
            f"stopped a task of an attempt to write {path or '/'!r} in {url!r} that has failed or "
            "was resumed, so that it does not overwrite newer chunks; write again, or resume with "
            "resume=True"
        )


class PathError(N5Error, ValueError):
    """A path that leaves the container, or a name that cannot be stored."""


class UnsafePathError(PathError, PermissionError):
    """A link that leaves the container, or a file that is not regular, such as a FIFO."""

    def __init__(self, url: str, key: str, why: str) -> None:
        self.url, self.key, self.why = url, key, why
        super().__init__(f"{key or '/'!r} in {url!r} {why}")


class MetadataError(N5Error, ValueError):
    """Metadata that is invalid, does not match, or cannot be stored in the format."""


class UnknownCompressionError(N5Error, NotImplementedError):
    """A compression that is neither built in nor registered."""

    def __init__(self, name: str, known: Iterable[str], where: str = "") -> None:
        self.name, self.known, self.where = name, tuple(known), where
        names = ", ".join(sorted(self.known))
        super().__init__(
            f"{where}{': ' if where else ''}unknown compression {name!r}; expected one of {names}, "
            "or register it with xarray_n5.register_compression"
        )


class AlignmentError(N5Error, ValueError):
    """A write whose Dask blocks, or whose region, would share a chunk with another write.

    For a region, ``nearest`` is the smallest region around it that does not cut chunks.
    """

    block: int | None = None
    position: int | None = None
    region: slice | None = None
    nearest: slice | None = None

    def __init__(self, axis: int, block: int, position: int, chunk: int) -> None:
        self.axis, self.block, self.position, self.chunk = axis, block, position, chunk
        super().__init__(
            f"along axis {axis}, Dask block {block} starts at {position}, which cuts a stored "
            f"chunk of {chunk}; rechunk to multiples of {chunk}, or use align_chunks=True"
        )

    @classmethod
    def of_region(
        cls, url: str, axis: int, region: slice, chunk: int, size: int, shown: str = ""
    ) -> Self:
        """Return the error for a region that cuts a chunk of an array of `size` along an axis."""
        start, stop = int(region.start), int(region.stop)
        nearest = slice(start // chunk * chunk, min(-(-stop // chunk) * chunk, size))
        error = cls.__new__(cls)
        error.axis, error.chunk, error.region, error.nearest = axis, chunk, region, nearest
        message = (
            f"{url}: along axis {shown or axis}, the region {start}:{stop} cuts stored chunks of "
            f"{chunk}, which another process may be writing; write {nearest.start}:{nearest.stop}, "
            "which is aligned, or use partial_chunks='merge' to read, merge and replace these "
            "chunks (no other write of them may run at the same time)"
        )
        error.args = (message,)
        return error


class BlockError(N5Error, ValueError):
    """A block whose shape or type differs from its Dask metadata."""

    def __init__(self, url: str, where: str, expected: str, found: str, hint: str) -> None:
        self.url, self.where, self.expected, self.found = url, where, expected, found
        super().__init__(f"block {where} of {url}: expected {expected}, got {found}; {hint}")


class ResumeError(N5Error, ValueError):
    """A write cannot be resumed, because the unfinished write is a different one."""

    def __init__(self, url: str, path: str, began: str) -> None:
        self.url, self.path, self.began = url, path, began
        super().__init__(
            f"{path or '/'!r} in {url!r} has an unfinished write of a different array, or with "
            f"different chunks or compression, begun {began}; pass the same array as then (its "
            "Dask name must not change between runs; if it does, pass resume='a name' each time), "
            "or start again with mode='w' and without resume"
        )


class ReadOnlyError(N5Error, PermissionError):
    """A write through a handle that was opened for reading."""

    def __init__(self, url: str, path: str) -> None:
        self.url, self.path = url, path
        super().__init__(f"{path or '/'!r} in {url!r} is open for reading; open it with mode='r+'")


class OneWriterError(N5Error, OSError):
    """A file that only one process at a time can write."""

    def __init__(self, url: str, why: str) -> None:
        self.url, self.why = url, why
        super().__init__(
            f"{url}: {why}; only one process at a time can write an HDF5 file: compute with "
            "dask.config.set(scheduler='threads'), or write N5 or Zarr from several processes"
        )


class RequestError(N5Error, OSError):
    """A request failed, so it is unknown whether something is stored."""

    _advice = "try again, or set a longer timeout in storage_options"

    def __init__(self, verb: str, url: str, key: str, why: str) -> None:
        self.verb, self.url, self.key, self.why = verb, url, key, why
        super().__init__(f"cannot {verb} {key or '/'!r} in {url!r}: {why}; {self._advice}")


class RefusedError(RequestError, PermissionError):
    """A request was denied; some stores also deny requests for missing objects."""

    _advice = "check the URL, and the credentials and permissions (storage_options)"


class MissingPackageError(N5Error, ImportError):
    """An optional package is missing; an extra installs it."""

    def __init__(self, what: str, extra: str, cause: object) -> None:
        self.what, self.extra = what, extra
        super().__init__(
            f"{what} need optional packages ({cause}); install them with "
            f'python -m pip install "xarray-n5[{extra}]"'
        )


class ChunkError(N5Error, ValueError):
    """A chunk that cannot be encoded or decoded."""

    def __init__(
        self, direction: Literal["decode", "encode"], url: str, key: str, why: str
    ) -> None:
        self.direction, self.url, self.key, self.why = direction, url, key, why
        super().__init__(f"cannot {direction} chunk {key!r} in {url!r}: {why}")


class MissingChunkError(ChunkError, LookupError):
    """A chunk that is not stored, with ``missing="error"``."""


class VarlengthChunkError(ChunkError):
    """A chunk that holds a list of elements instead of an array of them."""

    def __init__(self, url: str, key: str, why: str, elements: np.ndarray) -> None:
        self.elements = elements
        super().__init__("decode", url, key, why)


class UnfinishedWriteWarning(UserWarning):
    """An opened array has a write that is still running or was interrupted."""
