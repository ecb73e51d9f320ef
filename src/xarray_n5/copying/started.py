"""Copies that have started: what is pending, how it is computed, and compared with its source."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from dask.base import compute

from xarray_n5.arrays.array import Array
from xarray_n5.arrays.node import same_bits
from xarray_n5.arrays.open import open_array
from xarray_n5.errors import ChunkError, DifferenceError
from xarray_n5.graph import ArraySliceDep, tree_reduce
from xarray_n5.writing.begin import begin
from xarray_n5.writing.blocks import aligned_blocks
from xarray_n5.writing.report import WriteReport
from xarray_n5.writing.run import compute_writes, finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    import dask.array as da

    from xarray_n5.copying.archives import Packing
    from xarray_n5.formats.containers import Container
    from xarray_n5.graph import DelayedReport
    from xarray_n5.model.grid import Index
    from xarray_n5.writing.group import PlannedGroup
    from xarray_n5.writing.plan import WritePlan


@dataclass(frozen=True, slots=True)
class Copy:
    """A checked copy, before anything is written."""

    group: PlannedGroup | None = None
    """The write of a group's arrays; None for an array alone."""
    alone: WritePlan | None = None
    comparison: Comparison | None = None
    """The comparison of the finished copy with its source, if requested."""
    packing: Packing | None = None
    """The archive that the finished copy becomes, if that is its target."""

    @property
    def ended(self) -> bool:
        """Whether the copy to resume had ended."""
        done = [each.is_done for each in (self.group, self.alone) if each is not None]
        return self.packing is None and all(done)

    @property
    def chunks(self) -> int:
        """The number of chunks of arrays that have not been finished."""
        pending = [each for each in (self.group, self.alone) if each and not each.is_done]
        return sum(each.count for each in pending)

    def compute(self) -> WriteReport:
        """Write the copy, and return the report as :func:`xarray_n5.to_n5` does.

        Raises
        ------
        DifferenceError
            If it is compared with its source, and chunks differ.
        """
        report, comparison = self._write(), self.comparison
        archive = None if self.packing is None else self.packing.finish()
        if comparison is not None:
            comparison = replace(comparison, container=archive or comparison.container)
            report = replace(report, verified=comparison.compute())
        return report

    def compared(self) -> Copy:
        """Return the copy with a comparison of all that it writes."""
        several = [] if self.alone is None else [self.alone]
        several += [] if self.group is None else self.group.plans.values()
        sources = [(plan.request.path, plan.request.source) for plan in several]
        if not sources:
            return self
        container = several[0].request.options.container
        return replace(self, comparison=Comparison(container, sources))

    def _write(self) -> WriteReport:
        if self.group is not None:
            return cast("WriteReport", self.group.run())
        if self.alone is None:
            return WriteReport({})
        writes = {"": begin(self.alone)}
        return finish(writes, compute_writes(writes))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Arrays of a copy, and the values that they should have."""

    container: Container
    """The container of the copy."""
    sources: Sequence[tuple[str, da.Array]]
    """The path of each array in it, and its source."""

    def compute(self) -> int:
        """Read the source and the copy, and return the number of chunks if all of them are equal.

        Raises
        ------
        DifferenceError
            If chunks differ, or cannot be decoded.
        """
        container = self.container.fresh()
        arrays = [(open_array(container, path), source) for path, source in self.sources]
        results = compute(*(_differences(array, source) for array, source in arrays))
        count = sum(array.grid.size for array, _ in arrays)
        different = [
            array.node.key(index)
            for (array, _), indices in zip(arrays, results, strict=True)
            for index in indices
        ]
        if different:
            raise DifferenceError(container.url, tuple(different), count)
        return count


def _differences(array: Array, source: da.Array) -> DelayedReport:
    """Return the sorted indices of the chunks of an array that differ from `source`, delayed."""
    aligned = aligned_blocks(source, array.grid.chunks, (0,) * array.ndim)
    found: Any = aligned.map_blocks(
        cast("Any", _different),
        Array(array.node.bare()),
        ArraySliceDep(aligned.chunks),
        name=f"compare_n5-{uuid.uuid4().hex}",  # earlier results may be outdated
        dtype=object,
        chunks=tuple((1,) * len(sizes) for sizes in aligned.chunks),
        meta=np.empty((0,) * aligned.ndim, object),
    )
    return tree_reduce(found, None, _merged, _merged, f"compare-{uuid.uuid4().hex}")


def _different(block: np.ndarray, array: Array, where: tuple[slice, ...]) -> list[Index]:
    """Return the indices of chunks in a block of the source that are different in the copy."""
    where = tuple(slice(side.start, side.stop, 1) for side in where)
    equal = partial(_is_equal, np.asarray(block), array, tuple(side.start for side in where))
    if equal(where):
        return []
    chunks = product(*array.grid.project(where))
    indices = [tuple(part.chunk for part in parts) for parts in chunks]
    boxes = {index: array.grid.slices(index) for index in indices}
    return [index for index, box in boxes.items() if not equal(box)]


def _is_equal(
    block: np.ndarray, array: Array, start: tuple[int, ...], box: tuple[slice, ...]
) -> bool:
    """Return whether a part of an array has the same bits as a block that begins at `start`."""
    inner = tuple(slice(s.start - a, s.stop - a) for s, a in zip(box, start, strict=True))
    try:
        stored = np.asarray(array[box])
    except ChunkError:
        return False
    return same_bits(block[inner], stored)


def _merged(parts: list[list[Index]]) -> list[Index]:
    return sorted(index for part in parts for index in part)
