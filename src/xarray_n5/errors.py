"""Every error of the package.

Each is also the builtin that a caller would catch::

    N5Error
    ├── NodeNotFoundError        FileNotFoundError    nothing is stored at a path
    ├── NodeExistsError          FileExistsError      a write would replace something
    │   └── FinishedAppendError                       an append to resume had finished before
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
    ├── DifferenceError          ValueError           a copy that differs from its source
    └── ChunkError               ValueError           a chunk that cannot be encoded or decoded
        ├── MissingChunkError    LookupError          a chunk that is not stored
        └── VarlengthChunkError                       a chunk that holds a list of elements

and a warning of its own class, a UserWarning::

    UnfinishedWriteWarning       an array is opened whose write is unfinished
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

__all__ = [
    "AlignmentError",
    "BlockError",
    "ChunkError",
    "ContainerNotVisibleError",
    "DifferenceError",
    "FinishedAppendError",
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

_SHOWN = 10
"""The maximum number of chunks that a message names."""

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
    """The base of every error that this package raises on purpose.

    Each is also the builtin error that one would catch. Errors keep their facts as attributes, also
    when they come from a worker.

    Examples
    --------
    >>> try:
    ...     xarray_n5.open_array("nothing.n5", "raw")
    ... except xarray_n5.N5Error as error:
    ...     type(error).__name__
    'NodeNotFoundError'
    """

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
    """No node, or one of another kind, exists at a path.

    Compare the path with the names that the message lists; paths are relative to the container.

    Attributes
    ----------
    url : str
        The location of the container.
    path : str
        The path of the node in the container.
    expected : str
        What was to be opened, such as "array".

    Examples
    --------
    >>> xarray_n5.open_array("nothing.n5", "raw")
    Traceback (most recent call last):
        ...
    xarray_n5.errors.NodeNotFoundError: no array at 'raw' in '...nothing.n5'...
    """

    def __init__(self, url: str, path: str, expected: str = "node", hint: str = "") -> None:
        self.url, self.path, self.expected = url, path, expected
        text = f"no {expected} at {path or '/'!r} in {url!r}"
        super().__init__(f"{text}; {hint}" if hint else text)


class NodeExistsError(N5Error, FileExistsError):
    """A write would replace something that exists.

    Choose another path, or replace the data with ``mode="w"``. With ``resume=True``, the
    message says what differs from the write that finished there.

    Attributes
    ----------
    url : str
        The location of the container.
    path : str
        The path of the node in the container.
    found : str
        What exists, such as "an array".

    Examples
    --------
    >>> _ = xarray_n5.create_array("cells.n5", "em", shape=(4,), dtype="uint8")
    >>> xarray_n5.create_group("cells.n5", "em")
    Traceback (most recent call last):
        ...
    xarray_n5.errors.NodeExistsError: 'em' in '...cells.n5' exists ...
    """

    def __init__(self, url: str, path: str, found: str, hint: str) -> None:
        self.url, self.path, self.found = url, path, found
        super().__init__(f"{path or '/'!r} in {url!r} exists ({found}); {hint}")


class FinishedAppendError(NodeExistsError):
    """An append with ``resume=True`` that had finished before; nothing is left to do.

    Catch it, so that a job that is submitted again succeeds.

    Other attributes are those of :class:`NodeExistsError`.

    Attributes
    ----------
    samples : slice
        Where the samples are along the dimension.

    Examples
    --------
    >>> frames = xr.Dataset({"raw": ("t", da.ones(4, chunks=2))})
    >>> _ = frames.n5.to_n5("lapse.n5")
    >>> _ = frames.n5.to_n5("lapse.n5", append_dim="t", resume=True)
    >>> try:
    ...     frames.n5.to_n5("lapse.n5", append_dim="t", resume=True)
    ... except xarray_n5.errors.FinishedAppendError as error:
    ...     error.samples
    slice(4, 8, None)
    """

    def __init__(self, url: str, dim: str, samples: slice) -> None:
        self.samples = samples
        found = f"the same data in samples {samples.start} to {samples.stop}"
        hint = "it has been appended already; to append it once more, omit resume"
        super().__init__(url, dim, found, hint)


class ContainerNotVisibleError(N5Error, FileNotFoundError):
    """A worker was sent a write, but does not see the record that the client has stored.

    Nothing was written. Give all workers the same file system (a shared mount) or an object
    store.

    Attributes
    ----------
    url : str
        The location of the container.
    key : str
        The path of the record in the container.

    Examples
    --------
    >>> write = xarray_n5.to_n5(da.ones(4, chunks=2), "cells.n5", "raw", compute=False)
    >>> try:
    ...     report = write.compute()
    ... except xarray_n5.errors.ContainerNotVisibleError as error:
    ...     print("a worker does not see", error.url)
    """

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key
        super().__init__(
            f"cannot find {key!r} in {url!r}, the record of this write; nothing was written. Give "
            "every worker the same file system (a shared mount) or an object store. A write that "
            "another one has replaced cannot be computed"
        )


class StaleTaskError(N5Error, RuntimeError):
    """A task, or a process, of a write that another one has taken over, replaced or finished.

    Nothing is lost: the process that has taken over continues the write.

    Attributes
    ----------
    url : str
        The location of the container.
    path : str
        The path of the node in the container.
    reason : str
        What has become of the write.

    Examples
    --------
    >>> write = xarray_n5.to_n5(da.ones(4, chunks=2), "cells.n5", "raw", compute=False)
    >>> try:
    ...     report = write.compute()
    ... except xarray_n5.errors.StaleTaskError as error:
    ...     print(error.path, "is written by another call")
    """

    def __init__(self, url: str, path: str, reason: str) -> None:
        self.url, self.path, self.reason = url, path, reason
        super().__init__(f"stopped writing {path or '/'!r} in {url!r}: {reason}")


class PathError(N5Error, ValueError):
    """A path that leaves the container, or a name that cannot be stored.

    Open the container that has the node, and pass the path within it.

    Examples
    --------
    >>> xarray_n5.open_array("cells.n5", "../raw")
    Traceback (most recent call last):
        ...
    xarray_n5.errors.PathError: ... '../raw' ...
    """


class UnsafePathError(PathError, PermissionError):
    """A link that leaves the container, or a file that is not a regular one, as a FIFO.

    Copy the target into the container. If you trust the link, read with
    ``storage_options={"follow_links": True}``; nothing is written through links.

    Attributes
    ----------
    url : str
        The location of the container.
    key : str
        The path of the file in the container.
    why : str
        What is wrong with the file.
    option : str
        The storage option with which it can be read, or "".

    Examples
    --------
    >>> import os
    >>> array = xarray_n5.create_array("cells.n5", "raw", shape=(4,), dtype="uint8", chunks=2)
    >>> os.symlink("/etc/hostname", "cells.n5/raw/0")
    >>> array[:]
    Traceback (most recent call last):
        ...
    xarray_n5.errors.UnsafePathError: 'raw/0' in '...cells.n5' is a link to ...
    """

    def __init__(self, url: str, key: str, why: str, option: str = "") -> None:
        self.url, self.key, self.why, self.option = url, key, why, option
        trusted = f", or, if you trust it, read with storage_options={{{option!r}: True}}"
        super().__init__(f"{key or '/'!r} in {url!r} {why}{trusted if option else ''}")


class MetadataError(N5Error, ValueError):
    """Metadata that are invalid, do not match, or cannot be stored in the format.

    Nothing has been written. On reading, the message names the file and the key: correct it, if
    it is yours. Invalid axes only cause a warning.

    Examples
    --------
    >>> xarray_n5.create_array("cells.n5", "raw", shape=(4,), dtype="float16")
    Traceback (most recent call last):
        ...
    xarray_n5.errors.MetadataError: ... float16...
    """


class UnknownCompressionError(N5Error, NotImplementedError):
    """A compression that is neither built in nor registered.

    Register the compression with :func:`register_compression`, or write the array with another
    one. For Zarr, install the package of its codec.

    Attributes
    ----------
    name : str
        The name of the compression.
    known : tuple of str
        The names of the known ones.
    where : str
        The file that names it, or "".

    Examples
    --------
    >>> xarray_n5.create_array("cells.n5", shape=(4,), dtype="uint8", compression="jpeg")
    Traceback (most recent call last):
        ...
    xarray_n5.errors.UnknownCompressionError: ...unknown compression 'jpeg'; ...
    """

    def __init__(
        self,
        name: str,
        known: Iterable[str],
        where: str = "",
        hint: str = ", or register it with xarray_n5.register_compression",
    ) -> None:
        self.name, self.known, self.where = name, tuple(known), where
        names = ", ".join(sorted(self.known))
        super().__init__(
            f"{where}{': ' if where else ''}unknown compression {name!r}; expected one of {names}"
            f"{hint}"
        )


class AlignmentError(N5Error, ValueError):
    """A write into a region that cuts stored chunks, which other writes may share.

    Choose chunks or a region that are multiples of the stored chunks; `nearest` is the smallest
    such region.

    Attributes
    ----------
    axis : int
        The axis along which chunks are cut.
    chunk : int
        The size of a stored chunk along it.
    region : slice
        The region.
    nearest : slice
        The smallest region around it that cuts none.

    Examples
    --------
    >>> array = xarray_n5.create_array("cells.n5", "raw", shape=(4,), dtype="float64", chunks=2)
    >>> try:
    ...     xarray_n5.to_n5(da.ones(3), "cells.n5", "raw", region=slice(1, 4))
    ... except xarray_n5.errors.AlignmentError as error:
    ...     error.nearest
    slice(0, 4, None)
    """

    def __init__(
        self, url: str, axis: int, region: slice, chunk: int, nearest: slice, shown: str = ""
    ) -> None:
        self.axis, self.chunk, self.region, self.nearest = axis, chunk, region, nearest
        super().__init__(
            f"{url}: along axis {shown or axis}, the region {region.start}:{region.stop} cuts "
            f"stored chunks of {chunk}, which another process may be writing; write "
            f"{nearest.start}:{nearest.stop}, which is aligned, or use safe_chunks=False to read, "
            "merge and replace these chunks (no other write of them may run at the same time)"
        )


class BlockError(N5Error, ValueError):
    """A block whose shape or type differs from its Dask metadata.

    Nothing of the block was written. Correct ``chunks=`` or ``dtype=`` of the function that
    made it, and resume the write.

    Attributes
    ----------
    url : str
        The location of the array.
    where : str
        The block.
    expected, found : str
        The shapes or types.

    Examples
    --------
    >>> wrong = da.ones(4, chunks=2).map_blocks(lambda block: block[:1], dtype="f8")
    >>> xarray_n5.to_n5(wrong, "cells.n5", "raw")
    Traceback (most recent call last):
        ...
    xarray_n5.errors.BlockError: block ... of ...cells.n5/raw: expected ..., got ...
    """

    def __init__(self, url: str, where: str, expected: str, found: str, hint: str) -> None:
        self.url, self.where, self.expected, self.found = url, where, expected, found
        super().__init__(f"block {where} of {url}: expected {expected}, got {found}; {hint}")


class ResumeError(N5Error, ValueError):
    """Another write is unfinished, or the one to resume differs from this one.

    Nothing was changed. Undo what differs, start again with ``mode="w"``, or pass the token in
    the message as ``resume=``.

    Attributes
    ----------
    url : str
        The location of the container.
    path : str
        The path of the node in the container.
    began : str
        When and where the unfinished write began.
    reason : str
        What differs, and what to do.

    Examples
    --------
    >>> def fail(block):
    ...     raise RuntimeError("out of power")
    >>> try:
    ...     xarray_n5.to_n5(da.ones(4, chunks=2).map_blocks(fail, dtype="f8"), "cells.n5", "raw")
    ... except RuntimeError as error:
    ...     print(error)
    out of power
    >>> xarray_n5.to_n5(da.zeros(4, chunks=2), "cells.n5", "raw", resume=True)
    Traceback (most recent call last):
        ...
    xarray_n5.errors.ResumeError: 'raw' in '...cells.n5' ...
    """

    def __init__(self, url: str, path: str, began: str, reason: str) -> None:
        self.url, self.path, self.began, self.reason = url, path, began, reason
        super().__init__(
            f"{path or '/'!r} in {url!r} has an unfinished write, begun {began}: {reason}"
        )


class ReadOnlyError(N5Error, PermissionError):
    """A write through a handle that was opened for reading, or into an archive.

    Open it with ``mode="r+"``. Copy an archive to a container, change that, and copy it to a
    new archive.

    Attributes
    ----------
    url : str
        The location of the container.
    path : str
        The path of the node in the container.

    Examples
    --------
    >>> array = xarray_n5.create_array("cells.n5", "raw", shape=(4,), dtype="uint8", chunks=2)
    >>> xarray_n5.open_array("cells.n5", "raw")[0] = 7
    Traceback (most recent call last):
        ...
    xarray_n5.errors.ReadOnlyError: 'raw' in '...cells.n5' is open for reading; ...
    """

    def __init__(self, url: str, path: str, why: str = "") -> None:
        self.url, self.path = url, path
        why = why or "is open for reading; open it with mode='r+'"
        super().__init__(f"{path or '/'!r} in {url!r} {why}")


class OneWriterError(N5Error, OSError):
    """A file that only one process at a time can write.

    Compute with ``dask.config.set(scheduler="threads")``, or write N5 or Zarr. Programs that
    write a file block its readers, too.

    Attributes
    ----------
    url : str
        The location of the container.
    why : str
        Why this process cannot write it.

    Examples
    --------
    >>> import dask
    >>> with dask.config.set(scheduler="processes"):
    ...     xarray_n5.to_n5(da.ones(4, chunks=2), "cells.h5", "raw")
    Traceback (most recent call last):
        ...
    xarray_n5.errors.OneWriterError: ...cells.h5: ...
    """

    def __init__(self, url: str, why: str) -> None:
        self.url, self.why = url, why
        super().__init__(
            f"{url}: {why}; only one process at a time can write an HDF5 file: compute with "
            "dask.config.set(scheduler='threads'), or write N5 or Zarr from several processes"
        )


class RequestError(N5Error, OSError):
    """A failed request: whether something is stored is not known.

    Check the address and the server, and try again. Secrets in URLs and options are not shown.

    Attributes
    ----------
    verb : str
        What the request was to do, such as "read".
    url : str
        The location of the container.
    key : str
        The path of the file in the container.
    why : str
        What the store answered.

    Examples
    --------
    >>> try:
    ...     array = xarray_n5.open_array("https://example.org/cells.n5")  # doctest: +SKIP
    ... except xarray_n5.errors.RequestError as error:
    ...     print(error.url, error.why)
    """

    _advice = (
        "check the address and the server, try again, or set a longer timeout with storage_options="
    )

    def __init__(self, verb: str, url: str, key: str, why: str, advice: str | None = None) -> None:
        self.verb, self.url, self.key, self.why = verb, url, key, why
        hint = advice or self._advice
        super().__init__(f"cannot {verb} {key or '/'!r} in {url!r}: {why}; {hint}")


class RefusedError(RequestError, PermissionError):
    """A request without permission; some stores also answer so for missing objects.

    Check the URL, and the credentials in ``storage_options``.

    Attributes are those of :class:`RequestError`.

    Examples
    --------
    >>> try:
    ...     array = xarray_n5.open_array("s3://bucket/cells.n5")  # doctest: +SKIP
    ... except xarray_n5.errors.RefusedError as error:
    ...     print(error.url, error.why)
    """

    _advice = "check the URL, and the credentials and permissions (storage_options)"


class MissingPackageError(N5Error, ImportError):
    """An optional package is missing, which an extra installs.

    Install the extra that the message names.

    Attributes
    ----------
    what : str
        What needs the package.
    extra : str
        The extra that installs it, such as "s3".

    Examples
    --------
    >>> try:
    ...     array = xarray_n5.open_array("s3://bucket/cells.n5")  # doctest: +SKIP
    ... except xarray_n5.errors.MissingPackageError as error:
    ...     print(f"pip install xarray-n5[{error.extra}]")
    """

    def __init__(self, what: str, extra: str, cause: object) -> None:
        self.what, self.extra = what, extra
        super().__init__(
            f"{what} need optional packages ({cause}); install them with "
            f'python -m pip install "xarray-n5[{extra}]"'
        )


class DifferenceError(N5Error, ValueError):
    """A copy that differs from its source, as ``copy(..., verify=True)`` found.

    Copy again with ``mode="w"``. If the error stays, and nothing writes to the source, suspect
    the disk, the memory or the network.

    Attributes
    ----------
    url : str
        The location of the container of the copy.
    keys : tuple of str
        The paths in it of the chunks that differ, or cannot be decoded.
    count : int
        The number of chunks that were compared.

    Examples
    --------
    >>> _ = xarray_n5.to_n5(da.ones(4, chunks=2), "cells.n5", "raw")
    >>> _ = xarray_n5.copy("cells.n5", "cells.zarr")
    >>> xarray_n5.open_array("cells.zarr", "raw", mode="r+")[:] = 7  # as a faulty disk might
    >>> try:
    ...     xarray_n5.copy("cells.n5", "cells.zarr", resume=True, verify=True)
    ... except xarray_n5.errors.DifferenceError as error:
    ...     print(len(error.keys), "of", error.count)
    2 of 2
    """

    def __init__(self, url: str, keys: tuple[str, ...], count: int) -> None:
        self.url, self.keys, self.count = url, keys, count
        shown = ", ".join(map(repr, keys[:_SHOWN])) + ", ..." * (len(keys) > _SHOWN)
        super().__init__(
            f"{len(keys)} of {count} chunks of the copy in {url!r} differ from their source: "
            f"{shown}; the source has changed, or they were damaged when they were stored: copy "
            "again with mode='w'; or, if chunks are files, delete these, run "
            "'xarray-n5 repair --missing' on the copy, and copy with resume=True"
        )


class ChunkError(N5Error, ValueError):
    """A chunk that cannot be encoded or decoded.

    The file is truncated, damaged or too large. Find all of these with :func:`verify`;
    :func:`repair` removes them, so that they are written again.

    Attributes
    ----------
    direction : {"decode", "encode"}
        What failed.
    url : str
        The location of the container.
    key : str
        The path of the file in the container.
    why : str
        What is wrong with the chunk.

    Examples
    --------
    >>> from pathlib import Path
    >>> array = xarray_n5.create_array("cells.n5", "raw", shape=(4,), dtype="uint8", chunks=2)
    >>> _ = Path("cells.n5/raw/0").write_bytes(b"damaged")
    >>> array[:]
    Traceback (most recent call last):
        ...
    xarray_n5.errors.ChunkError: cannot decode chunk 'raw/0' in '...cells.n5': ...
    """

    def __init__(
        self, direction: Literal["decode", "encode"], url: str, key: str, why: str
    ) -> None:
        self.direction, self.url, self.key, self.why = direction, url, key, why
        super().__init__(f"cannot {direction} chunk {key!r} in {url!r}: {why}")


class MissingChunkError(ChunkError, LookupError):
    """A chunk that is not stored, with ``missing="error"``.

    Omit ``missing`` if missing chunks mean fill values.

    Attributes are those of :class:`ChunkError`.

    Examples
    --------
    >>> array = xarray_n5.create_array("cells.n5", "raw", shape=(4,), dtype="uint8", chunks=2)
    >>> xarray_n5.open_array("cells.n5", "raw", missing="error")[:]
    Traceback (most recent call last):
        ...
    xarray_n5.errors.MissingChunkError: cannot decode chunk 'raw/0' in '...cells.n5': ...
    """


class VarlengthChunkError(ChunkError):
    r"""A chunk that holds a list of elements instead of an array of them.

    Read such arrays with :meth:`Array.read_chunk`; `elements` has the elements of this chunk.

    Other attributes are those of :class:`ChunkError`.

    Attributes
    ----------
    elements : numpy.ndarray
        The elements, in one dimension.

    Examples
    --------
    >>> from pathlib import Path
    >>> array = xarray_n5.create_array(
    ...     "cells.n5", "raw", shape=(4,), dtype="uint8", chunks=4, compression=None
    ... )
    >>> mode, dimensions, size, number = b"\0\1", b"\0\1", b"\0\0\0\4", b"\0\0\0\2"
    >>> chunk = mode + dimensions + size + number + b"ab"
    >>> _ = Path("cells.n5/raw/0").write_bytes(chunk)
    >>> try:
    ...     array[:]
    ... except xarray_n5.errors.VarlengthChunkError as error:
    ...     error.elements
    array([97, 98], dtype=uint8)
    """

    def __init__(self, url: str, key: str, why: str, elements: np.ndarray) -> None:
        self.elements = elements
        super().__init__("decode", url, key, why)


class UnfinishedWriteWarning(UserWarning):
    """An array is opened whose write is still running, or was interrupted.

    Chunks that are not written yet are read as fill values. Wait for the write, or repeat it
    with ``resume=True``.

    Examples
    --------
    >>> def fail(block):
    ...     raise RuntimeError("out of power")
    >>> try:
    ...     xarray_n5.to_n5(da.ones(4, chunks=2).map_blocks(fail, dtype="f8"), "cells.n5", "raw")
    ... except RuntimeError as error:
    ...     print(error)
    out of power
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     array = xarray_n5.open_array("cells.n5", "raw")
    >>> caught[0].category.__name__
    'UnfinishedWriteWarning'
    """
