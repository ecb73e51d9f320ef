"""Compare a bounded sample of the stored chunks with the metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from xarray_n5.doctor.finding import Finding, listed
from xarray_n5.doctor.levels import listed_pyramids
from xarray_n5.doctor.survey import is_short
from xarray_n5.errors import ChunkError
from xarray_n5.formats.documents import unfinished
from xarray_n5.integrity.report import check_chunk
from xarray_n5.model.metadata import Content
from xarray_n5.model.paths import join
from xarray_n5.stores import heads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xarray_n5.arrays.array import Array
    from xarray_n5.arrays.node import ArrayNode
    from xarray_n5.doctor.survey import Survey
    from xarray_n5.model.grid import ChunkGrid, Index

_ARRAYS = 512
"""The maximum number of arrays whose chunks are sampled."""

_CHUNKS = 8
"""The maximum number of chunks per array whose first bytes are read."""

_DECODED = 2
"""The maximum number of chunks per array that are decoded."""

_LARGEST, _BUDGET = 1 << 25, 1 << 28
"""The maximum size of a chunk that is decoded, and of all together, in bytes."""

_HEAD = 512
"""The number of bytes that are read from the beginning of a chunk."""


@dataclass(slots=True)
class Sample:
    """Some chunks of an array."""

    array: Array
    stored: set[Index] = field(default_factory=set)
    """Chunks that were found to be stored."""
    strays: list[str] = field(default_factory=list)
    """Keys of chunks that are not on the grid."""
    listed: bool = False
    """Whether the chunks were listed; if they were and there are none, the array is empty."""
    heads: dict[Index, tuple[bytes, int]] = field(default_factory=dict)
    """The first bytes and the sizes of some chunks."""

    @property
    def io(self) -> ArrayNode:
        """The array's chunks."""
        return self.array.node

    @property
    def is_empty(self) -> bool:
        """Whether it is known that no chunk is stored."""
        return self.listed and not self.stored and not self.strays and self.array.size > 0

    def add(self, key: str) -> None:
        """Add a file in the array's directory, by its key relative to that."""
        index = self.io.chunk_index(key)
        if index is None:
            return
        if index in self.io.metadata.grid:
            self.stored.add(index)
        else:
            self.strays.append(key)


def samples_of(survey: Survey) -> dict[str, Sample]:
    """Return chunks of arrays by the arrays' paths: one batch of requests for each depth."""
    step = -(-len(survey.arrays) // _ARRAYS) or 1
    chosen = islice(survey.arrays.items(), 0, None, step)
    samples = {path: Sample(array) for path, array in chosen}
    _list(survey, samples)
    wanted = [(path, index) for path, sample in samples.items() for index in _wanted(sample)]
    for (path, index), head in zip(wanted, _heads(survey, samples, wanted), strict=True):
        if head is not None:
            samples[path].heads[index] = head
            samples[path].stored.add(index)
    return samples


def _list(survey: Survey, samples: dict[str, Sample]) -> None:
    """Find some stored chunks of each array: the first and the last directory of each depth."""
    if not survey.container.documents:
        for sample in samples.values():
            if is_short(sample.io):
                container, metadata = sample.io.container, sample.io.metadata
                sample.stored |= set(container.list_chunks(sample.io.path, metadata))
                sample.listed = True
        return
    level = [(path, "", survey.listings[path]) for path in samples if path in survey.listings]
    for path, _, _ in level:
        samples[path].listed = True
    while level:
        inner = []
        for path, folder, (folders, files) in level:
            for name in files:
                samples[path].add(join(folder, name))
            inner += [(path, join(folder, name)) for name in _ends(folders)]
        keys = [join(path, folder) for path, folder in inner]
        listings = survey.container.store.list_many(keys) if keys else []
        level = [(*place, listing) for place, listing in zip(inner, listings, strict=True)]


def _ends(folders: Sequence[str]) -> list[str]:
    """Return the first and the last of directories with chunks, or the one called "c"."""
    numbers = sorted((name for name in folders if name.isdecimal()), key=int)
    return list(dict.fromkeys([*numbers[:1], *numbers[-1:], *(n for n in folders if n == "c")]))


def _wanted(sample: Sample) -> list[Index]:
    """Return the chunks to check: some that are stored, and those at the ends of the grid."""
    stored = sorted(sample.stored)
    first = [*stored[:1], *stored[-1:], *stored[len(stored) // 2 :][:1]]
    return list(dict.fromkeys([*first, *_corners(sample.io.metadata.grid)]))[:_CHUNKS]


def _corners(grid: ChunkGrid) -> Iterator[Index]:
    """Iterate over the first chunk, the last one, those at the end of one axis, and the middle."""
    if not grid.size:
        return
    zero, last = (0,) * len(grid.counts), tuple(count - 1 for count in grid.counts)
    yield zero
    yield last
    for axis in range(len(zero)):
        yield (*zero[:axis], last[axis], *zero[axis + 1 :])
    yield tuple(count // 2 for count in grid.counts)


def _heads(
    survey: Survey, samples: dict[str, Sample], wanted: Sequence[tuple[str, Index]]
) -> Iterator[tuple[bytes, int] | None]:
    """Iterate over the beginnings of chunks, of all arrays together if that is better."""
    container = survey.container
    if container.batch > 1:
        keys = (samples[path].io.key(index) for path, index in wanted)
        yield from heads(container.store, keys, _HEAD)
        return
    for path, index in wanted:
        yield from container.head_chunks(path, samples[path].io.metadata, [index], _HEAD)


def sampled_chunks(survey: Survey) -> Iterator[Finding]:
    """Find empty levels, stray chunks, and chunks that are damaged or have another shape."""
    samples = samples_of(survey)
    yield from _empty_levels(survey, samples)
    left = _BUDGET
    for path, sample in samples.items():
        verify = f"xarray-n5 verify {survey.url(path)}"
        if sample.strays:
            yield Finding(
                "stray-chunk",
                path,
                f"chunks are outside the grid of {sample.io.metadata.grid.counts} chunks: "
                f"{listed(sample.strays)}; the array was larger, or its metadata is wrong",
                f"list all of them with {verify}, and remove them or correct 'dimensions'",
            )
        if sample.io.metadata.content is Content.OBJECTS:
            continue
        for number, (index, head) in enumerate(sample.heads.items()):
            state, _, _ = check_chunk(sample.io, index, head, 0)
            if state == "ok" and number < _DECODED and head[1] <= min(_LARGEST, left):
                left -= head[1]
                state = _state_of(sample, index)
            if state != "ok":
                kind = "chunk-shape" if state == "wrong-shape" else "chunk-damaged"
                what = f"chunk {sample.io.key(index)!r} is {state}"
                yield Finding(kind, path, what, f"see {verify}")


def _state_of(sample: Sample, index: Index) -> str:
    """Return the state of a chunk by decoding it; of a shard, its index and one chunk."""
    io = sample.io
    if io.metadata.inner is None:
        return check_chunk(io, index, ..., 0)[0]
    corner = (slice(side.start, side.start + 1) for side in io.metadata.grid.slices(index))
    try:
        _ = sample.array[tuple(corner)]
    except ChunkError:
        return "undecodable"
    return "ok"


def _empty_levels(survey: Survey, samples: Mapping[str, Sample]) -> Iterator[Finding]:
    """Find pyramids whose levels, or some of them, have no chunk; unfinished ones are known."""
    writing = unfinished(survey.container.store, samples)
    for image in listed_pyramids(survey):
        stored = [samples[path] for path in image.levels if path in samples]
        empty = [sample.array.path for sample in stored if sample.is_empty]
        if len(stored) < 2 or not empty or not writing.isdisjoint(image.levels):  # noqa: PLR2004
            continue
        names = [path.removeprefix(image.path).lstrip("/") for path in empty]
        remedy = f"make the levels again: xarray-n5 pyramid {survey.url(image.levels[0])} --mode w"
        if image.levels[0] in empty:
            remedy = "write the data, or restore it from where the pyramid was copied"
        what = f"no chunk of {listed(names)} is stored, so they are read as fill values"
        yield Finding("empty-level", image.path, what, remedy)
