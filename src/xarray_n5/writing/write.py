"""One write to an array, as its tasks see it."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import ge
from typing import TYPE_CHECKING, Any

from xarray_n5.errors import ContainerNotVisibleError
from xarray_n5.model.chunking import touched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from xarray_n5.arrays.marker import WriteMarker
    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import Index


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Everything that tasks need to write their blocks, and the last one to finish the write."""

    target: ArrayNode
    """The array, without its attributes."""
    start: tuple[int, ...]
    """The element of the array at which the source starts."""
    shape: tuple[int, ...]
    """The shape of the source."""
    marker: WriteMarker
    """The marker of the write."""
    fresh: bool = True
    """Whether this write created the array, so that all stored chunks are its own."""
    journal: bool = False
    """Whether tasks record written chunks, since stored chunks are no evidence."""
    resumed: bool = False
    """Whether stored chunks are evidence that this write has written them."""
    only: frozenset[Index] | None = None
    """The only chunks to write, in a repair; None for all."""
    own: WriteMarker | None = None
    """Its own marker, in a repair of what it has written itself."""
    again: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Boxes of the grid, from and to along each axis, that others have written since it began."""
    checksums: bool = False
    """Whether digests of the chunks are stored next to the array."""
    part: bool = False
    """Whether this is one of several writes that finish together."""
    deferred: bool = False
    """Whether it is computed later."""
    planned: bool = False
    """Whether it remains planned until its first task runs."""
    whole: WriteMarker | None = None
    """The marker of its Dataset or tree."""
    dims: tuple[str, ...] = ()
    """The names of the dimensions in the report."""
    code: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Digests of the files of the user's functions in the graph, by their names."""
    left: tuple[str, ...] | None = field(default=None, compare=False)
    """The temporary files of earlier attempts, if a listing has shown them, and no other write."""

    @property
    def box(self) -> tuple[range, ...]:
        """The chunks that are written, along each axis."""
        return tuple(map(touched, self.start, self.shape, self.target.metadata.chunks))

    def facts(self) -> dict[str, Any]:
        """Return the marker's facts about the write."""
        return {
            "start": self.start,
            "shape": self.shape,
            "fresh": self.fresh,
            "journal": self.journal,
            **({"code": dict(self.code)} if self.code else {}),
            **({} if self.whole is None else {"whole": [self.whole.path, self.whole.token]}),
            **provenance(),
        }

    def leave_mark(self) -> None:
        """Create the marker of a write that begins, or is planned."""
        leave = self.marker.plan if self.planned else self.marker.begin
        leave(self.facts())

    def is_whole(self) -> bool:
        """Return whether the write covers the whole array, as it is now."""
        shape = self.target.refreshed().metadata.shape
        return not any(self.start) and all(map(ge, self.shape, shape))

    def is_again(self, index: Index) -> bool:
        """Return whether others have written a chunk since the write began."""
        return any(
            all(low <= place < high for place, (low, high) in zip(index, part, strict=True))
            for part in self.again
        )

    def covers(self, index: Sequence[int]) -> bool:
        """Return whether the write covers a whole chunk."""
        array = self.target.metadata
        sides = zip(index, self.start, self.shape, array.chunks, array.shape, strict=True)
        return all(a <= i * c and min((i + 1) * c, s) <= a + n for i, a, n, c, s in sides)

    def __contains__(self, index: Index) -> bool:
        """Whether a chunk is written."""
        return len(index) == len(self.box) and all(
            place in side for place, side in zip(index, self.box, strict=True)
        )


def begin_planned(write: Write) -> None:
    """Begin a write that is only planned; raise if it has finished or was replaced.

    Raises
    ------
    ContainerNotVisibleError, StaleTaskError
        As in :meth:`WriteMarker.check`.
    """
    try:
        write.marker.check()
    except ContainerNotVisibleError:
        if not write.planned:
            raise
        if write.whole is not None:
            write.whole.begin_planned()
        write.marker.begin_planned()
        write.marker.check()


def provenance() -> dict[str, str]:
    """Return the writer and the time, as markers record them."""
    return {"by": writer_name(), "began": datetime.now(UTC).isoformat(timespec="seconds")}


def writer_name() -> str:
    """Return the name of this writer: a worker's address, or host and process."""
    if "distributed.worker" in sys.modules:
        from distributed import get_worker

        try:
            return str(get_worker().address)
        except ValueError:
            pass
    return f"{socket.gethostname()}:{os.getpid()}"
