"""One write to an array, as its tasks see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xarray_n5.model.chunking import touched

if TYPE_CHECKING:
    from xarray_n5.arrays.claims import Claim
    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import Index


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayWrite:
    """Everything that tasks need to write their blocks."""

    target: ArrayNode
    """The array, without its attributes."""
    start: tuple[int, ...]
    """The element of the array at which the source starts."""
    shape: tuple[int, ...]
    """The shape of the source."""
    claim: Claim
    """The record of the write."""
    fresh: bool
    """Whether each stored chunk is one that this write has stored; otherwise tasks keep notes."""
    kept: tuple[int, ...] | None = None
    """The shape before an append, whose last chunks may have samples that are kept."""
    dims: tuple[str, ...] = ()
    """The names of the dimensions in the report."""
    prefix: str = ""
    """The beginning of the names of its notes, where several arrays share a record."""

    @property
    def box(self) -> tuple[range, ...]:
        """The chunks that are written, along each axis."""
        return tuple(map(touched, self.start, self.shape, self.target.metadata.chunks))

    def is_cut(self, index: Index) -> bool:
        """Return whether a chunk has samples from before an append, which are kept."""
        if self.kept is None:
            return False
        sides = zip(index, self.target.metadata.chunks, self.kept, strict=True)
        return all(number * side < size for number, side, size in sides)

    def is_noted(self, index: Index, nbytes: int) -> bool:
        """Return whether a task keeps a note of a chunk: where storing it is no evidence."""
        return not (self.fresh and nbytes) and not self.is_cut(index)

    def __contains__(self, index: Index) -> bool:
        """Whether a chunk is written."""
        return len(index) == len(self.box) and all(
            number in side for number, side in zip(index, self.box, strict=True)
        )
