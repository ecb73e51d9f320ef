"""NumPy-style keys, and the chunks that they touch."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xarray_n5.arrays import assembly
from xarray_n5.arrays.assembly import Assembly
from xarray_n5.codecs.raw import Raw
from xarray_n5.model.grid import ChunkGrid, normalize
from xarray_n5.model.metadata import ArrayMetadata

shapes = st.lists(st.integers(0, 9), min_size=0, max_size=4).map(tuple)
chunk_sides = st.integers(1, 5)


@st.composite
def grids(draw: st.DrawFn) -> ChunkGrid:
    shape = draw(shapes)
    return ChunkGrid(shape, tuple(draw(chunk_sides) for _ in shape))


@st.composite
def orthogonal(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index for each axis: ints, slices, arrays, masks."""
    key: list[Any] = []
    for size in shape:
        choices: list[st.SearchStrategy[Any]] = [st.slices(size)]
        if size:
            position = st.integers(-size, size - 1)
            choices += [position, st.lists(position, max_size=6).map(np.array)]
            choices += [hnp.arrays(bool, size)]
        key.append(draw(st.one_of(choices)))
    return tuple(key)


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """A key of any kind, and what numpy selects of the positions of elements."""
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    if draw(st.booleans()):
        key = draw(orthogonal(shape))
        return key, take(values, key)
    kinds = [hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True)]
    if shape and all(shape):
        sides = [st.lists(st.integers(0, n - 1), min_size=1, max_size=5) for n in shape]
        kinds.append(st.tuples(*sides).map(lambda sides: np.ix_(*sides)))
    basic: Any = draw(st.one_of(kinds))
    return basic, values[basic]


def take(values: np.ndarray, key: tuple[Any, ...]) -> np.ndarray:
    """numpy's answer to an orthogonal index, one axis at a time."""
    axis = 0
    for item in key:
        if isinstance(item, (int, np.integer)):
            values = values.take(item, axis)
            continue
        if isinstance(item, np.ndarray) and not item.size:
            item = item.astype(int)  # noqa: PLW2901
        values = values[(slice(None),) * axis + (item,)]
        axis += 1
    return values


def metadata_of(grid: ChunkGrid, dtype: Any) -> ArrayMetadata:
    """The array with a grid."""
    return ArrayMetadata(
        shape=grid.shape, chunks=grid.chunks, dtype=np.dtype(dtype), compression=Raw(), fill=7
    )


def test_neighbouring_chunks_are_copied_together(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[tuple[int, ...]] = []
    copy = assembly._copy

    def spy(source: np.ndarray, target: np.ndarray) -> None:
        copies.append(target.shape)
        copy(source, target)

    monkeypatch.setattr(assembly, "_copy", spy)
    grid = ChunkGrid((4, 1040), (4, 64))
    values = np.arange(4 * 1040, dtype="u1").reshape(4, 1040)
    result = np.zeros_like(values)
    one = Assembly(metadata_of(grid, "u1"), result, plain=True)
    axes = normalize(..., grid.shape).axes
    for pieces in product(*grid.project(axes)):
        where = grid.slices([piece.chunk for piece in pieces])
        one.add(
            values[where],
            tuple(piece.target for piece in pieces),
            tuple(piece.inside for piece in pieces),
        )
    one.end()
    # Rows of 512 bytes; the last chunk is clipped.
    assert sorted(copies) == [(4, 8, 64), (4, 8, 64), (4, 16)]
    assert (result == values).all()


def test_rows_that_no_type_holds_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "_LARGEST_ITEM", 100)
    values, result = np.arange(64, dtype="u2"), np.zeros(60, "u2")
    one = Assembly(metadata_of(ChunkGrid((64,), (64,)), "u2"), result, plain=True)
    one.add(values, (slice(0, 60),), (slice(4, 64),))
    one.end()
    assert (result == values[4:]).all()


def test_elements_with_padding_are_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = np.dtype({"names": ["a", "b"], "formats": ["u1", "u4"], "offsets": [0, 4]})

    def poisoned(shape: Any, dtype: Any) -> np.ndarray:
        return np.frombuffer(b"\xff" * int(np.prod(shape)) * dtype.itemsize, dtype).reshape(shape)

    result = np.zeros(8, dtype)
    monkeypatch.setattr("xarray_n5.arrays.assembly.np.empty", poisoned)
    one = Assembly(metadata_of(ChunkGrid((8,), (4,)), dtype), result, plain=True)
    for start in (0, 4):
        target = (slice(start, start + 4),)
        one.add(np.zeros(4, dtype), target, (slice(0, 4),))
    one.end()
    assert result.tobytes() == bytes(8 * dtype.itemsize)


@given(st.data())
def test_each_chunk_is_touched_once_and_none_in_vain(data: st.DataObject) -> None:
    grid = data.draw(grids())
    selection = normalize(data.draw(orthogonal(grid.shape)), grid.shape)
    for axis, pieces in enumerate(grid.project(selection.axes)):
        numbers = [piece.chunk for piece in pieces]
        assert len(set(numbers)) == len(numbers)
        touched = np.arange(grid.shape[axis])[selection.axes[axis]] // grid.chunks[axis]
        assert set(numbers) == set(touched.tolist())


@given(st.data())
def test_a_piece_is_whole_exactly_where_it_covers_its_chunk_in_order(data: st.DataObject) -> None:
    grid = data.draw(grids())
    selection = normalize(data.draw(orthogonal(grid.shape)), grid.shape)
    for axis, pieces in enumerate(grid.project(selection.axes)):
        for piece in pieces:
            low = piece.chunk * grid.chunks[axis]
            extent = min(grid.chunks[axis], grid.shape[axis] - low)
            positions = np.arange(extent)[piece.inside]
            assert piece.whole == np.array_equal(positions, np.arange(extent))


@given(grids())
def test_chunks_tile_the_array(grid: ChunkGrid) -> None:
    seen = np.zeros(grid.shape, int)
    for index in grid:
        where = grid.slices(index)
        assert seen[where].shape == grid.extent(index)
        seen[where] += 1
        assert index in grid
    assert (seen == 1).all()
    assert len(list(grid)) == grid.size


def test_projecting_does_not_grow_with_the_number_of_chunks() -> None:
    grid = ChunkGrid((1 << 62,) * 3, (64,) * 3)
    pieces = grid.project(normalize((slice(1 << 61, (1 << 61) + 128), 0, -1), grid.shape).axes)
    assert [len(axis) for axis in pieces] == [2, 1, 1]


@pytest.mark.parametrize(
    "key", [3, (0, 0, 0), (..., ...), 1.5, "x", True, np.zeros((2, 2), int), np.array([0.5]), [9]]
)
def test_keys_that_do_not_fit_raise_index_errors(key: Any) -> None:
    with pytest.raises(IndexError):
        normalize(key, (3, 4))
