"""Short chunks: the former ends of an array that has grown, or damaged ones.

N5 clips the last chunks of an array, and they stay short when it grows. Any length from one element
to a full chunk may be a former end, so the neighbouring chunks are evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xarray_n5.errors import ChunkError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.model.grid import Index, Piece

_HEAD = 512
"""The number of bytes that are read from the beginning of a neighbour: more than any header."""


def check_former_end(
    node: ArrayNode, index: Index, shape: tuple[int, ...], written: Sequence[Piece] = ()
) -> None:
    """Check that the array may have ended where a chunk ends that is shorter than its extent.

    Along each axis where it is short, nothing follows it. Or the next chunk is whole, because it
    was written after the array had grown, and a chunk next to this one ends at the same element.
    What is about to be `written` is not missing: chunks after it may be written at the same time.

    Raises
    ------
    ChunkError
        If the chunk is damaged.
    """
    grid, extent = node.metadata.grid, node.metadata.grid.extent(index)
    for axis, (end, stop) in enumerate(zip(shape, extent, strict=True)):
        after = _step(index, axis, 1)
        if end >= stop or after not in grid or _fill(written, axis, range(end, stop)):
            continue
        others = [other for other in range(len(index)) if other != axis]
        aside = [_step(index, other, step) for other in others for step in (-1, 1)]
        around = [after, *(at for at in aside if at in grid)]
        heads = node.container.head_chunks(node.path, node.metadata, around, _HEAD)
        ends = [_end(node, head, axis) for head in heads]
        if ends[0] is not None and (ends[0] < grid.extent(after)[axis] or end not in ends[1:]):
            why = (
                f"its header has shape {shape}, expected {extent}; the array did not end there "
                f"before it grew, since chunk {node.key(after)!r} follows"
            )
            raise ChunkError("decode", node.container.url, node.key(index), why)


def _fill(written: Sequence[Piece], axis: int, rest: range) -> bool:
    """Return whether pieces of a selection cover a chunk in the range `rest` of an axis."""
    if not written or not all(part.whole for at, part in enumerate(written) if at != axis):
        return False
    return bool(np.isin(rest, np.arange(rest.stop)[written[axis].inside]).all())


def _end(node: ArrayNode, head: tuple[bytes, int] | None, axis: int) -> int | None:
    """Return the length of a chunk along an axis: None if it is not stored, 0 if it is damaged."""
    try:
        return None if head is None else node.format.peek(node.metadata, *head)[axis]
    except (ValueError, EOFError):
        return 0


def _step(index: Index, axis: int, step: int) -> Index:
    return (*index[:axis], index[axis] + step, *index[axis + 1 :])
