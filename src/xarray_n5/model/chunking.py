"""Choose sizes of blocks, chunks and shards, and align blocks to stored chunks.

Integers only, in C order.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from xarray_n5.errors import AlignmentError, MetadataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_SHARD = 1 << 28
"""The maximum size of a shard that "auto" chooses, uncompressed: 256 MiB."""

_MOST_BLOCKS = 1 << 24
"""The maximum number of default blocks: Dask holds a key for each of an array's blocks."""

_MOST_ALONG = 1 << 20
"""The maximum number of default blocks along an axis: Dask holds the size of each."""


def align(blocks: Sequence[int], chunk: int, start: int = 0) -> tuple[int, ...]:
    """Return block sizes that are aligned to the chunks, as close to `blocks` as possible.

    Each boundary between blocks moves to the nearest chunk boundary; empty blocks are dropped.

    Parameters
    ----------
    blocks
        Sizes of consecutive blocks along an axis.
    chunk
        The stored chunk along the axis.
    start
        The position of the first block in the stored array.

    Examples
    --------
    >>> align((100, 100, 50), 64)
    (128, 64, 58)
    """
    total = start + sum(blocks)
    if start % chunk == 0 and all(blocks) and not any(size % chunk for size in blocks[:-1]):
        return tuple(blocks)
    edges = [start]
    position = start
    for block in blocks[:-1]:
        position += block
        edge = position if position % chunk == 0 else (position + chunk // 2) // chunk * chunk
        if edges[-1] < edge < total:
            edges.append(edge)
    if total > start or not blocks:
        edges.append(total)
    else:
        return (0,)
    return tuple(high - low for low, high in pairwise(edges))


def check_region(
    start: Sequence[int],
    shape: Sequence[int],
    sizes: Sequence[int],
    chunks: Sequence[int],
    *,
    url: str = "",
    names: Sequence[str] = (),
) -> None:
    """Raise if a region cuts stored chunks, except at the end of the array.

    Parameters
    ----------
    start, shape
        The first element and the shape of the region.
    sizes, chunks
        The shape of the array, and of its stored chunks.
    url, names
        The names of the array and of its axes, for the error.

    Raises
    ------
    AlignmentError
        If it does; the error names the axis and the nearest aligned region.
    """
    if not all(shape):
        return
    for axis, (first, count, size, chunk) in enumerate(
        zip(start, shape, sizes, chunks, strict=True)
    ):
        stop = first + count
        if first % chunk or (stop % chunk and stop != size):
            shown = f"{axis} ({names[axis]!r})" if axis < len(names) else ""
            nearest = slice(first // chunk * chunk, min(-(-stop // chunk) * chunk, size))
            raise AlignmentError(url, axis, slice(first, stop), chunk, nearest, shown)


def limit_blocks(
    chunks: Sequence[int], shape: Sequence[int], most: int = _MOST_BLOCKS
) -> tuple[int, ...]:
    """Return the shape of default blocks: whole multiples of `chunks`, if these are too many.

    >>> limit_blocks((64, 1), (10**4, 10**4)), limit_blocks((1,), (10**9,))
    ((64, 1), (1024,))
    """
    sides = list(chunks)
    while True:
        counts = [-(-size // side) for size, side in zip(shape, sides, strict=True)]
        if math.prod(counts) <= most and max(counts, default=0) <= _MOST_ALONG:
            return tuple(sides)
        sides[counts.index(max(counts))] *= 2


def touched(start: int, size: int, chunk: int) -> range:
    """Return the range of chunks along an axis that an interval overlaps.

    >>> touched(5, 4, 3)
    range(1, 3)
    """
    first = start // chunk
    return range(first, -(-(start + size) // chunk) if size else first)


def auto_chunks(
    shape: Sequence[int],
    *,
    elements: int = 1 << 20,
    aspect_ratio: Sequence[float] | None = None,
    limit: int | None = None,
) -> tuple[int, ...]:
    """Return a chunk shape of at most `elements`, by TensorStore's rule.

    Parameters
    ----------
    shape
        The array's shape; each side of a chunk is at least 1 and at most that of the array.
    elements
        The target number of elements in a chunk.
    aspect_ratio
        The relative lengths of the chunk's sides; equal by default.
    limit
        The maximum number of elements in a chunk.

    Examples
    --------
    >>> auto_chunks((1000, 2000, 3000))
    (101, 101, 101)
    >>> auto_chunks((1000, 2000, 3000), aspect_ratio=(1, 2, 2))
    (64, 128, 128)
    >>> auto_chunks((1000, 2000, 3000), aspect_ratio=(1, 2, 2), elements=2_000_000)
    (79, 159, 159)
    """
    ratio = tuple(aspect_ratio or (1,) * len(shape))
    if len(ratio) != len(shape) or not all(math.isfinite(r) and r > 0 for r in ratio):
        raise ValueError(f"the aspect ratio is {ratio}; expected {len(shape)} positive numbers")
    if elements < 1:
        raise ValueError(f"expected at least one element in a chunk, got {elements}")
    wanted = min(elements, limit or elements)
    sides = [max(1, size) for size in shape]

    def scaled(factor: float) -> tuple[int, ...]:
        return tuple(
            max(1, min(side, int(r * factor))) for side, r in zip(sides, ratio, strict=True)
        )

    # The largest factor whose chunk fits; half an element on the finest axis is close enough.
    low, high = 0.0, 2 * max((side / r for side, r in zip(sides, ratio, strict=True)), default=1.0)
    step = 0.5 * min((1 / r for r in ratio), default=1.0)
    while low + step < high:
        middle = (low + high) / 2
        if middle in {low, high}:
            break  # beyond the precision of floats
        low, high = (low, middle) if math.prod(scaled(middle)) > wanted else (middle, high)
    return scaled(low)


def shard_shape(
    shards: Sequence[int] | str, chunks: Sequence[int], shape: Sequence[int], itemsize: int
) -> tuple[int, ...]:
    """Return the shape of shards, a multiple of the chunks along each axis.

    "auto" chooses shards of at most 256 MiB of elements.

    Raises
    ------
    MetadataError
        If it is not; the error names the nearest multiple.

    Examples
    --------
    >>> shard_shape("auto", (64, 64, 64), (1000, 1000, 1000), 2)
    (512, 512, 512)
    """
    if isinstance(shards, str):
        if shards != "auto":
            raise MetadataError(f"shards is {shards!r}; expected a shape, one number or 'auto'")
        return group_chunks(chunks, shape, itemsize, _SHARD)
    if len(shards) != len(chunks):
        raise MetadataError(
            f"shards is {tuple(shards)}; expected {len(shape)} numbers for shape {tuple(shape)}"
        )
    pairs = list(zip(shards, chunks, strict=True))
    if any(shard < 1 or shard % chunk for shard, chunk in pairs):
        nearest = tuple(max(1, round(shard / chunk)) * chunk for shard, chunk in pairs)
        raise MetadataError(
            f"shards of {tuple(shards)} are not a multiple of chunks of {tuple(chunks)} along each "
            f"axis; choose a multiple, such as {nearest}"
        )
    return tuple(shards)


def chunks_in_shards(chunks: Sequence[int], shards: Sequence[int]) -> tuple[int, ...]:
    """Return the chunk shape nearest to `chunks` that divides the shards.

    >>> chunks_in_shards((102, 102, 102), (512, 30, 509))
    (128, 30, 509)
    """
    return tuple(map(_nearest_divisor, shards, chunks))


def _nearest_divisor(number: int, wanted: int) -> int:
    return min(_divisors(number), key=lambda divisor: abs(math.log(divisor / wanted)))


def _divisors(number: int) -> Iterator[int]:
    for divisor in range(1, math.isqrt(number) + 1):
        if number % divisor == 0:
            yield divisor
            yield number // divisor


def group_chunks(
    chunks: Sequence[int], shape: Sequence[int], itemsize: int, limit: int
) -> tuple[int, ...]:
    """Return the multiple of `chunks` of at most `limit` bytes that is closest to a cube.

    >>> group_chunks((64, 64, 64), (1000, 1000, 1000), 2, 16 << 20)
    (256, 256, 128)
    """
    factors = [1] * len(chunks)
    counts = [max(1, -(-s // c)) for s, c in zip(shape, chunks, strict=True)]
    size = math.prod(chunks) * itemsize
    while True:
        growable = [i for i, n in enumerate(counts) if factors[i] < n and 2 * size <= limit]
        if not growable:
            return tuple(f * c for f, c in zip(factors, chunks, strict=True))
        # Neighbours along the last axis are adjacent in memory: on a tie, the earlier axis grows.
        axis = min(growable, key=lambda i: factors[i] * chunks[i])
        size = size // factors[axis]
        factors[axis] = min(2 * factors[axis], counts[axis])
        size *= factors[axis]
