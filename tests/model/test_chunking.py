"""Borders that keep tasks off each other's chunks, and sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xarray_n5.model.chunking import align, auto_chunks, group_chunks

sizes = st.lists(st.integers(0, 30), max_size=8).map(tuple)


def borders(blocks: tuple[int, ...], start: int) -> list[int]:
    return [start + int(edge) for edge in np.cumsum(blocks)[:-1]]


@given(sizes, st.integers(1, 12), st.integers(0, 20))
def test_aligned_blocks_cover_the_same_and_never_share_a_chunk(
    blocks: tuple[int, ...], chunk: int, start: int
) -> None:
    aligned = align(blocks, chunk, start)
    assert sum(aligned) == sum(blocks)
    assert all(edge % chunk == 0 for edge in borders(aligned, start))
    assert all(aligned) or aligned == (0,)


@given(sizes, st.integers(1, 12), st.integers(0, 20))
def test_aligned_borders_are_the_nearest_ones(
    blocks: tuple[int, ...], chunk: int, start: int
) -> None:
    kept = set(borders(align(blocks, chunk, start), start))
    end = start + sum(blocks)
    for edge in borders(blocks, start):
        nearest = (edge + chunk // 2) // chunk * chunk
        assert nearest in kept or not start < nearest < end


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5), st.integers(1, 1 << 22))
def test_automatic_chunks_hold_as_many_elements_as_wanted(shape: list[int], elements: int) -> None:
    chunks = auto_chunks(shape, elements=elements)
    assert all(1 <= side <= size for side, size in zip(chunks, shape, strict=True))
    assert math.prod(chunks) <= elements


@given(st.data())
def test_automatic_chunks_are_those_of_tensorstore(data: st.DataObject) -> None:
    ts = pytest.importorskip("tensorstore")
    shape = data.draw(st.lists(st.integers(1, 5000), min_size=1, max_size=5))
    ratio = [data.draw(st.sampled_from([0.5, 1, 2, 3])) for _ in shape]
    elements = data.draw(st.sampled_from([37, 1000, 1 << 20, 2_000_000]))
    layout = ts.ChunkLayout(chunk_aspect_ratio=ratio, chunk_elements=elements)
    spec = {"driver": "n5", "kvstore": {"driver": "memory"}}
    made = ts.open(spec, create=True, dtype=ts.uint8, shape=shape, chunk_layout=layout).result()
    expected = tuple(made.chunk_layout.read_chunk.shape)
    assert auto_chunks(shape, elements=elements, aspect_ratio=ratio) == expected


@given(
    st.lists(st.tuples(st.integers(1, 64), st.integers(1, 500)), min_size=1, max_size=4),
    st.integers(1, 1 << 20),
)
def test_grouped_chunks_are_whole_multiples_below_the_limit(
    axes: list[tuple[int, int]], limit: int
) -> None:
    chunks, shape = zip(*axes, strict=True)
    grouped = group_chunks(chunks, shape, 2, limit)
    assert all(side % chunk == 0 for side, chunk in zip(grouped, chunks, strict=True))
    assert grouped == chunks or math.prod(grouped) * 2 <= limit
