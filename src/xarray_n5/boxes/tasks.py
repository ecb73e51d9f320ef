"""Tasks that call a function with a block of stored arrays and the samples around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xarray_n5.graph import BlockwiseDep, slices_of
from xarray_n5.model.halos import Halo

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from xarray_n5.boxes.functions import Call
    from xarray_n5.dask.boxes import StoredSource


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the result."""

    index: tuple[int, ...]
    slices: tuple[slice, ...]


class IndexedBlocks(BlockwiseDep):
    """The blocks of a result, computed on access."""

    produces_tasks = False

    def __init__(self, chunks: tuple[tuple[int, ...], ...]) -> None:
        self.where = slices_of(chunks)
        self.numblocks = tuple(map(len, chunks))

    def __getitem__(self, index: tuple[int, ...]) -> Block:
        return Block(index, self.where[index])


@dataclass(frozen=True, slots=True)
class OverlapTask:
    """Compute a block from boxes of stored arrays."""

    func: Call
    dims: tuple[Hashable, ...]
    sources: tuple[StoredSource, ...]
    halos: tuple[tuple[Halo, ...], ...]
    """The samples around a block of each source, along each dimension."""
    counts: tuple[int, ...]
    """The numbers of blocks along each dimension."""
    trim: bool
    dtype: np.dtype[Any]

    def __call__(self, block: Block) -> Any:
        """Return a block of the result; errors get a note with the block.

        Raises
        ------
        ValueError
            If the function returns another shape than that of its arguments, which are trimmed.
        TypeError
            If it does not return an array.
        """
        try:
            return self._computed(block)
        except Exception as error:
            sides = zip(self.dims, block.slices, strict=True)
            where = ", ".join(f"{dim}={side.start}:{side.stop}" for dim, side in sides)
            error.add_note(f"in block {block.index} of map_overlap, {where} without its halo")
            raise

    def _computed(self, block: Block) -> Any:
        boxes = [
            read_box(source, halos, block.slices)
            for source, halos in zip(self.sources, self.halos, strict=True)
        ]
        info = self._info(block) if "block_info" in self.func.wanted else None
        result = self.func(*boxes, block_id=block.index, block_info=info)
        if not self.trim:
            return result
        if np.shape(result) != boxes[0].shape:
            raise ValueError(
                f"the function returned shape {np.shape(result)} for a block of {boxes[0].shape}, "
                "the samples around it included; return the same shape, or with trim=False that "
                f"without them, {tuple(s.stop - s.start for s in block.slices)}"
            )
        along = zip(self.halos[0], block.slices, strict=True)
        return result[tuple(halo.inner(part) for halo, part in along)]

    def _info(self, block: Block) -> dict[Any, Any]:
        """Return the ``block_info`` that Dask passes."""
        shape = self.sources[0].shape
        info: dict[Any, Any] = {
            number: _info(block, shape, self.counts, halos)
            for number, halos in enumerate(self.halos)
        }
        out = _info(
            block, shape, self.counts, self.halos[0] if self.trim else (Halo(),) * len(shape)
        )
        sides = tuple(stop - start for start, stop in out["array-location"])
        info[None] = {**out, "chunk-shape": sides, "dtype": self.dtype}
        return info


def _info(
    block: Block, shape: Sequence[int], counts: Sequence[int], halos: Sequence[Halo]
) -> dict[str, Any]:
    """Return the location of a box among all boxes, one after another, as Dask counts it."""
    whole, location = [], []
    for number, part, size, count, halo in zip(
        block.index, block.slices, shape, counts, halos, strict=True
    ):
        both = halo.before + halo.after
        clipped = halo.is_clipped
        start = part.start + number * both - (halo.before if clipped and number else 0)
        last = clipped and number == count - 1
        stop = part.stop + (number + 1) * both - (halo.before if clipped else 0)
        location.append((start, stop - (halo.after if last else 0)))
        whole.append(size + both * (count - 1 if clipped else count))
    return {
        "shape": tuple(whole),
        "num-chunks": tuple(counts),
        "array-location": location,
        "chunk-location": block.index,
    }


def read_box(source: StoredSource, halos: Sequence[Halo], block: Sequence[slice]) -> np.ndarray:
    """Return the values of a block and the samples around it."""
    along = list(zip(halos, block, source.shape, strict=True))
    box = source.read(tuple(halo.around(part, size) for halo, part, size in along))
    for axis, (halo, part, size) in enumerate(along):
        before, after = halo.padding(part, size)
        if before or after:
            widths = [(before, after) if i == axis else (0, 0) for i in range(box.ndim)]
            box = np.pad(box, widths, constant_values=halo.boundary)
    return box
