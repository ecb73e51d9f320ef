"""Options of writes, and the container that is opened for one."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, Unpack

from xarray_n5.arrays.node import OpenOptions
from xarray_n5.dialects.ngff_systems import SCENE
from xarray_n5.errors import OneWriterError
from xarray_n5.formats.containers import open_container
from xarray_n5.graph import get_scheduler
from xarray_n5.model.json import check_option
from xarray_n5.model.paths import join, normalize_path

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from xarray_n5.arrays.node import EdgeChunks
    from xarray_n5.arrays.spec import Mode
    from xarray_n5.formats import FormatName
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Format
    from xarray_n5.stores.base import Store

Encoding: TypeAlias = "Mapping[Hashable, Mapping[str, Any]]"
"""The encodings that the user chose, by variable."""


class Options(TypedDict, total=False):
    """The options that :func:`set_options` sets."""

    batch_size: int | None
    checksums: bool
    fsync: bool


_options: Options = {"batch_size": None, "checksums": False, "fsync": False}


def current_options() -> Options:
    """Return the options that are in force."""
    return _options.copy()


def set_options(**options: Unpack[Options]) -> ExitStack:
    """Set options of writes, for good or in a ``with`` block.

    They are read once, when a write is planned, and are the same for all its tasks.

    Parameters
    ----------
    **options
        `batch_size`, the number of blocks that are submitted to the scheduler at a time: fewer need
        less memory there and in this process; None, the default, submits up to 50,000 blocks at
        once, and larger jobs in batches of 10,000, if their graph can be divided. `checksums`,
        whether a write of a whole array stores a digest of each chunk, for :func:`verify`; False by
        default. `fsync`, whether to flush each chunk to disk before the next, so that it survives a
        power cut; False by default.

    Returns
    -------
    contextlib.ExitStack
        The context whose end restores the former values.

    Raises
    ------
    TypeError
        If there is no such option.
    ValueError
        If a value is not one of those above.

    Examples
    --------
    >>> values = da.ones((4, 6), chunks=(2, 3))
    >>> with xarray_n5.set_options(checksums=True):
    ...     report = xarray_n5.to_n5(values, "cells.n5", "raw")
    >>> xarray_n5.verify("cells.n5", "raw").attrs["digests"]
    True
    """
    for name, value in options.items():
        if name not in _options:
            raise TypeError(f"set_options() has no option {name!r}; expected {', '.join(_options)}")
        number = name == "batch_size" and type(value) is int and value > 0
        if not (number or (value is None if name == "batch_size" else isinstance(value, bool))):
            expected = "None or a positive number" if name == "batch_size" else "True or False"
            raise ValueError(f"{name} is {value!r}; expected {expected}")
    context = ExitStack()
    before: Any = {name: value for name, value in _options.items() if name in options}
    context.callback(_options.update, before)
    _options.update(options)
    return context


class WriteKeywords(TypedDict, total=False):
    """Keywords that ``.n5.to_n5`` of DataArrays, Datasets and trees have alike."""

    safe_chunks: bool
    write_empty_chunks: bool
    storage_options: Mapping[str, Any] | None
    dialect: str | Iterable[str] | None
    format: FormatName | None
    resume: bool | str
    consolidated: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The container of a write, opened once, and the options of all its arrays."""

    container: Container
    root: str = ""
    """The path of the group that the URL names."""
    mode: Mode = "w-"
    dialect: str | Iterable[str] | None = None
    safe_chunks: bool = True
    """Whether to refuse a region that cuts stored chunks; else these are read and merged."""
    write_empty_chunks: bool = True
    edge_chunks: EdgeChunks = "truncate"
    resume: bool | str = False
    checksums: bool = False
    batch_size: int | None = None
    """The number of blocks to submit at a time; None for batches of large jobs only."""
    deferred: bool = False
    """Whether Dask arrays are computed later; other data is written immediately."""
    consolidated: bool | None = None
    """Whether a group gets consolidated metadata; None to follow xarray's Zarr engine."""
    storage: Mapping[str, Any] = field(default_factory=dict)
    """The chunks, shards and compression of all arrays of a copy, as far as the user chose."""

    def __post_init__(self) -> None:
        check_option("mode", self.mode, "w-", "w", "a", "r+")
        if self.safe_chunks not in {True, False}:
            raise ValueError(f"safe_chunks is {self.safe_chunks!r}; expected True or False")
        if self.consolidated and not self.format.native_to_xarray:
            raise ValueError(
                f"consolidated=True is for Zarr; {self.format.name} does not support "
                "consolidated metadata"
            )

    @classmethod
    def into(
        cls,
        url: object,
        *,
        computed: bool,
        storage_options: Mapping[str, Any] | None = None,
        format: str | None = None,
        **options: Any,
    ) -> Self:
        """Open the container at `url` for a write.

        Raises
        ------
        OneWriterError
            If tasks would be computed now, in several processes, for a file with one writer.
        """
        is_zarr = str(url).rstrip("/\\").endswith(".zarr")
        if format is None and is_zarr and options.get("dialect") == SCENE:
            format = "zarr3"
        container, root = open_container(url, "", storage_options, format, cached=True)
        if computed and container.format.one_writer:
            check_one_process(container.url)
        settings = current_options()
        container = container.with_fsync() if settings["fsync"] else container
        return cls(
            container=container.cached(),
            root=root,
            checksums=settings["checksums"],
            batch_size=settings["batch_size"],
            deferred=not computed,
            **options,
        )

    @property
    def store(self) -> Store:
        """The store of hidden files: records, notes, digests."""
        return self.container.uncached().store

    @property
    def format(self) -> Format:
        """The container's format."""
        return self.container.format

    def path(self, path: str) -> str:
        """Return the path in the container of a node below the group that the URL names."""
        return join(self.root, normalize_path(path))

    def renewed(self) -> WriteOptions:
        """Return the options with a container that reads documents again."""
        return replace(self, container=self.container.uncached().cached())

    @property
    def opening(self) -> OpenOptions:
        """The options with which arrays are opened."""
        return OpenOptions(
            writable=True, write_empty=self.write_empty_chunks, edges=self.edge_chunks
        )

    def consolidate(self, path: str, *, default: bool) -> None:
        """Write the consolidated metadata of a group, if requested."""
        wanted = default if self.consolidated is None else self.consolidated
        if wanted and self.format.native_to_xarray:
            self.container.consolidate(path)


def check_one_process(url: str) -> None:
    """Raise if blocks would be computed, and written, by other processes than this one.

    Raises
    ------
    OneWriterError
        If the current scheduler has other processes: those of a cluster, or of a pool.
    """
    get: Any = get_scheduler()
    cluster: Any = getattr(get, "__self__", None)
    if getattr(get, "__module__", "") == "dask.multiprocessing":
        raise OneWriterError(url, "the scheduler 'processes' would write it from several")
    if hasattr(cluster, "run") and not getattr(cluster, "asynchronous", False):
        workers = set(cluster.run(_process).values()) - {_process()}
        if workers:
            raise OneWriterError(url, f"{len(workers)} worker processes would write it")


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()
