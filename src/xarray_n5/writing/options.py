"""Options of writes, and the container that is opened for one."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypedDict

from xarray_n5.arrays.node import OpenOptions
from xarray_n5.errors import OneWriterError
from xarray_n5.formats.open import open_container
from xarray_n5.graph import get_scheduler
from xarray_n5.model.options import check_option
from xarray_n5.model.paths import join
from xarray_n5.model.scene import SCENE, scene_format

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    import dask.array as da

    from xarray_n5.arrays.node import EdgeChunks
    from xarray_n5.arrays.spec import Mode
    from xarray_n5.formats import FormatName
    from xarray_n5.formats.containers import Container
    from xarray_n5.formats.protocol import Format
    from xarray_n5.stores.base import Store

Encoding: TypeAlias = "Mapping[Hashable, Mapping[str, Any]]"
"""The encodings that the user chose, by variable."""

PartialChunks: TypeAlias = Literal["error", "merge"]
"""Whether a region may cut stored chunks, which are then read, merged and replaced."""


class WriteKeywords(TypedDict, total=False):
    """Keywords that ``.n5.to_n5`` of DataArrays, Datasets and trees have alike."""

    align_chunks: bool
    partial_chunks: PartialChunks
    write_empty_chunks: bool
    storage_options: Mapping[str, Any] | None
    dialect: str | Iterable[str] | None
    format: FormatName | None
    resume: bool | str
    checksums: bool
    batch_size: int | None
    fsync: bool
    consolidated: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The container of a write, opened once, and the options of all its arrays."""

    container: Container
    root: str = ""
    """The path of the group that the URL names."""
    mode: Mode = "w-"
    dialect: str | Iterable[str] | None = None
    align_chunks: bool = True
    partial_chunks: PartialChunks = "error"
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

    def __post_init__(self) -> None:
        check_option("mode", self.mode, "w-", "w", "a", "r+")
        if self.batch_size is not None and not (
            type(self.batch_size) is int and self.batch_size > 0
        ):
            raise ValueError(f"batch_size is {self.batch_size!r}; expected a number of at least 1")
        check_option("partial_chunks", self.partial_chunks, "error", "merge")
        if self.consolidated and not self.format.consolidates:
            raise ValueError(
                f"consolidated=True is for Zarr v2; {self.format.name} does not support "
                "consolidated metadata"
            )

    @classmethod
    def into(
        cls,
        url: object,
        *,
        computed: bool,
        storage_options: Mapping[str, Any] | None = None,
        format: str | None = None,  # noqa: A002
        fsync: bool = False,
        sources: Sequence[da.Array] = (),
        **options: Any,
    ) -> Self:
        """Open the container at `url` for a write.

        Raises
        ------
        OneWriterError
            If tasks would be computed now, in several processes, for a file with one writer.
        """
        if options.get("batch_size") is not None and not computed:
            raise ValueError("compute=False returns one computation, which has no batch_size")
        if options.get("dialect") == SCENE:
            format = scene_format(url, format)  # noqa: A001
        container, root = open_container(url, "", storage_options, format, cached=True)
        if computed and container.format.one_writer:
            check_one_process(container.url, *sources)
        container = container.with_fsync() if fsync else container
        return cls(container=container.cached(), root=root, deferred=not computed, **options)

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
        return join(self.root, self.format.normalize_path(path))

    @property
    def opening(self) -> OpenOptions:
        """The options with which arrays are opened."""
        return OpenOptions(
            writable=True, write_empty=self.write_empty_chunks, edges=self.edge_chunks
        )

    def consolidate(self, path: str, *, default: bool) -> None:
        """Write the consolidated metadata of a group, if requested."""
        wanted = default if self.consolidated is None else self.consolidated
        if wanted and self.format.consolidates:
            self.container.consolidate(path)


def check_one_process(url: str, *sources: da.Array) -> None:
    """Raise if blocks would be computed, and written, by other processes than this one.

    Raises
    ------
    OneWriterError
        If the current scheduler has other processes: those of a cluster, or of a pool.
    """
    get: Any = get_scheduler(collections=list(sources))
    cluster: Any = getattr(get, "__self__", None)
    if getattr(get, "__module__", "") == "dask.multiprocessing":
        raise OneWriterError(url, "the scheduler 'processes' would write it from several")
    if hasattr(cluster, "run") and not getattr(cluster, "asynchronous", False):
        workers = set(cluster.run(_process).values()) - {_process()}
        if workers:
            raise OneWriterError(url, f"{len(workers)} worker processes would write it")


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()
