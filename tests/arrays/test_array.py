"""Arrays as a user holds them: selections, chunks, resizing, handles."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arrays.test_selection import grids, orthogonal, selections, take
from tests.support import compressions
from tests.support.memory import peak
from tests.support.memory_store import MemoryStore
from tests.support.stores import CountingStore
from xarray_n5 import Array, ChunkError, MetadataError, NodeNotFoundError, create_array, open_array
from xarray_n5.arrays.transfer import read_points
from xarray_n5.errors import MissingChunkError, ReadOnlyError, VarlengthChunkError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = np.arange(7 * 8 * 9, dtype="i4").reshape(7, 8, 9)


def stored(
    values: np.ndarray = VALUES,
    chunks: Any = (3, 4, 5),
    *,
    store: MemoryStore | None = None,
    **options: Any,
) -> Array:
    """An array in memory that holds `values`."""
    place = MemoryStore() if store is None else store
    array = create_array(
        place, "x", shape=values.shape, dtype=values.dtype, chunks=chunks, **options
    )
    array[...] = values
    return array


def container(*given: Any, **options: Any) -> MemoryStore:
    """A container in memory with that array."""
    store = MemoryStore()
    stored(*given, store=store, **options)
    return store


def set_dimensions(store: MemoryStore, *dimensions: int) -> None:
    """Change the shape in the document alone, as other programs do."""
    document = json.loads(store.get("x/attributes.json") or b"")
    document["dimensions"] = dimensions
    store.set("x/attributes.json", json.dumps(document).encode())


# Reading


@settings(max_examples=200)
@given(st.data())
def test_reading_equals_numpy(data: st.DataObject) -> None:
    grid, dtype = data.draw(grids()), data.draw(st.sampled_from(["u1", ">u2", "f4", "<u8"]))
    values = np.arange(np.prod(grid.shape, dtype=int)).reshape(grid.shape).astype(dtype)
    array = stored(values, grid.chunks, compression=data.draw(st.sampled_from([None, "gzip"])))
    for index in (
        data.draw(st.sets(st.sampled_from([*grid] or [()]), max_size=3)) if grid.size else ()
    ):
        array.delete_chunk(index)
        values[grid.slices(index)] = 0
    key, positions = data.draw(selections(grid.shape))
    np.testing.assert_array_equal(array[key], values.reshape(-1)[positions])


@pytest.mark.parametrize(
    ("key", "moved"),
    [
        (([1, -2, 3], [4, 5, 6], [0, 0, 6]), {}),
        (([1, 2], slice(None), [3, -4]), {}),
        ((slice(1, None, 2), [[1, 2], [3, 4]], slice(None, None, -3)), {1: 0, 2: 1}),
        ((slice(None), [1, 1, 0], [2, 3, 4]), {1: 0}),
        (([[3], [-1]], [1, 0, 1], slice(2, 5)), {}),
        (([], [], slice(None)), {}),
        ((slice(2, 2), [2, 6], [0, 1]), {1: 0}),
    ],
)
def test_points_equal_numpy_with_their_axes_first(key: Any, moved: dict[int, int]) -> None:
    # numpy leaves neighbouring index arrays where they stand.
    key = tuple(np.array(item, int) if isinstance(item, list) else item for item in key)
    expected = np.moveaxis(VALUES[key], list(moved), list(moved.values()))
    node = open_array(container(), "x").node
    np.testing.assert_array_equal(read_points(node, key), expected)


@pytest.mark.parametrize("position", [7, -8, 1 << 40])
def test_point_out_of_bounds_is_an_index_error(position: int) -> None:
    key = (np.array([0, position]), np.array([1, 2]), slice(None))
    with pytest.raises(IndexError):
        read_points(stored().node, key)


def test_scattered_points_of_a_huge_array_read_their_chunks_alone() -> None:
    store = CountingStore()
    array = create_array(store, "x", shape=(1 << 20,) * 3, dtype="u1", chunks=8)
    points = np.random.default_rng(0).integers(0, 1 << 20, (3, 50))
    for number, point in enumerate(points.T):
        array[tuple(point)] = number + 1
    store.requests()
    assert read_points(array.node, tuple(points)).tolist() == list(range(1, 51))
    assert store.requests() == {"get_many": 1}


def test_results_are_new_native_contiguous_and_writable() -> None:
    array = stored()
    for key in (..., (slice(3), slice(4), slice(5)), (0, slice(None), slice(None))):
        result = array[key]
        assert result.dtype.isnative
        assert result.flags.c_contiguous
        assert result.flags.writeable
        result[...] = -1
    np.testing.assert_array_equal(array[...], VALUES)


def test_an_array_becomes_a_numpy_array() -> None:
    np.testing.assert_array_equal(np.asarray(stored()), VALUES)
    with pytest.raises(ValueError, match="copy"):
        np.array(stored(), copy=False)


def test_arrays_without_axes_and_without_elements_work() -> None:
    scalar = stored(np.array(7.5), ())
    assert (scalar[()], scalar[...].shape) == (7.5, ())
    empty = stored(np.zeros((0, 5), "f4"), (2, 2))
    assert empty[:, 1:3].shape == (0, 2)


def test_missing_chunks_read_as_zeros_or_raise() -> None:
    store = MemoryStore()
    array = stored(store=store)
    array.delete_chunk((1, 0, 1))
    expected = VALUES.copy()
    expected[3:6, 0:4, 5:9] = 0
    np.testing.assert_array_equal(array[...], expected)
    strict = open_array(store, "x", missing="error")
    assert (strict[:3] == VALUES[:3]).all()
    with pytest.raises(MissingChunkError, match="'x/1/0/1'"):
        strict[3:4]


@pytest.mark.parametrize("content", [b"", b"\0\0\0\3", b"\0" * 16 + b"short"])
def test_a_damaged_chunk_is_an_error_that_names_it_never_zeros(content: bytes) -> None:
    store = MemoryStore()
    array = stored(compression="raw", store=store)
    store.set("x/0/1/2", content)
    assert (array[:6] == VALUES[:6]).all()
    with pytest.raises(ChunkError, match="'x/0/1/2'") as raised:
        array[...]
    assert raised.value.key == "x/0/1/2"


def test_a_block_that_stayed_short_where_its_array_grew_reads_with_zeros() -> None:
    store = MemoryStore()
    stored(VALUES[:4, :4, :4], store=store)
    set_dimensions(store, 9, 8, 7)
    grown = np.zeros_like(VALUES)
    grown[:4, :4, :4] = VALUES[:4, :4, :4]
    again = open_array(store, "x")
    np.testing.assert_array_equal(again[...], grown)
    np.testing.assert_array_equal(again[1:5, [3, 0], ::2], grown[1:5, [3, 0], ::2])


def test_a_varlength_chunk_gives_its_elements_alone() -> None:
    store = MemoryStore()
    array = stored(compression="raw", store=store)
    key = "x/0/0/0"
    head = bytes.fromhex("0001 0003 00000005 00000004 00000003 00000002")
    store.set(key, head + np.array([5, 6], ">i4").tobytes())
    assert array.read_chunk((0, 0, 0)).tolist() == [5, 6]
    with pytest.raises(VarlengthChunkError, match="varlength"):
        array[0, 0, 0]


# Writing


@given(st.data())
def test_writing_equals_numpy(data: st.DataObject) -> None:
    key = data.draw(orthogonal(VALUES.shape))
    array = open_array(container(), "x", mode="r+")
    expected = VALUES.copy()
    positions = take(np.arange(VALUES.size).reshape(VALUES.shape), key)
    values = np.arange(positions.size, dtype="i4").reshape(positions.shape) + 1000
    # numpy, too, keeps the last value where a position stands twice.
    expected.reshape(-1)[positions.ravel()] = values.ravel()
    array[key] = values
    np.testing.assert_array_equal(array[...], expected)


@pytest.mark.parametrize("value", [7, 7.25, True, np.float64(7), [[7] * 9], np.full((8, 1), 7)])
def test_values_are_broadcast_and_cast(value: Any) -> None:
    array = stored()
    array[2:4] = value
    expected = VALUES.copy()
    expected[2:4] = value
    np.testing.assert_array_equal(array[...], expected)


@pytest.mark.parametrize("value", ["text", 1j, None, np.array(["a"]), np.datetime64(1, "s")])
def test_values_that_are_not_numbers_are_refused(value: Any) -> None:
    array = stored()
    with pytest.raises(TypeError):
        array[0] = value
    with pytest.raises(TypeError):
        array.write_chunk((0, 0, 0), np.full((3, 4, 5), value))
    np.testing.assert_array_equal(array[...], VALUES)


def test_values_that_do_not_fit_are_refused_before_anything_is_written() -> None:
    array = stored()
    with pytest.raises(ValueError, match="broadcast"):
        array[:2] = np.zeros((3, 8, 9))
    with pytest.raises(OverflowError):
        array[0] = 1 << 40
    np.testing.assert_array_equal(array[...], VALUES)


def test_one_chunk_is_read_and_written_as_far_as_the_array_reaches() -> None:
    array = stored()
    np.testing.assert_array_equal(array.read_chunk((2, 1, 1)), VALUES[6:, 4:, 5:])
    with pytest.raises(IndexError):
        array.read_chunk((3, 0, 0))
    array.write_chunk((2, 1, 1), VALUES[6:, 4:, 5:] * 2)
    assert (array[6:, 4:, 5:] == VALUES[6:, 4:, 5:] * 2).all()
    with pytest.raises(ValueError, match=r"shape \(1, 4, 4\)"):
        array.write_chunk((2, 1, 1), np.zeros((3, 4, 5)))


def test_chunks_are_told_and_deleted_one_by_one() -> None:
    array = stored()
    assert sorted(array.node.stored_chunks()) == sorted(array.grid)
    array.delete_chunk((0, 1, 1))
    array.delete_chunk((0, 1, 1))
    assert not array.chunk_exists((0, 1, 1))
    assert array.chunk_exists((1, 1, 1))
    assert set(array.grid) - set(array.node.stored_chunks()) == {(0, 1, 1)}


def test_chunks_of_zeros_are_stored_unless_told_not_to_be() -> None:
    zeros = np.zeros((4, 4), "f4")
    assert len(list(stored(zeros, (2, 2)).node.stored_chunks())) == 4
    array = stored(zeros + 1, (2, 2), write_empty_chunks=False)
    array[:2, :2] = 0
    assert not array.chunk_exists((0, 0))
    array[2:, :2] = -0.0
    assert array.chunk_exists((1, 0))
    assert np.signbit(array[2, 0])


@pytest.mark.parametrize(("edges", "dims"), [("truncate", [1, 2]), ("pad", [3, 4])])
def test_chunks_at_the_ends_are_stored_cut_or_full(edges: str, dims: list[int]) -> None:
    values = np.ones((6, 7), "u1")
    store = MemoryStore()
    array = stored(values, (4, 3), compression="raw", edge_chunks=edges, store=store)
    content = store.get("x/2/1") or b""
    assert np.frombuffer(content[4:12], ">u4").tolist() == dims
    assert len(content) == 12 + dims[0] * dims[1]
    np.testing.assert_array_equal(array[...], values)


def test_an_array_opened_for_reading_refuses_every_change() -> None:
    array = open_array(container(), "x")
    changes: list[Callable[[], object]] = [
        lambda: array.__setitem__(..., 0),
        lambda: array.write_chunk((0, 0, 0), 0),
        lambda: array.delete_chunk((0, 0, 0)),
        lambda: array.resize((1, 1, 1)),
        lambda: array.attrs.update(a=1),
    ]
    for change in changes:
        with pytest.raises(ReadOnlyError, match=r"r\+"):
            change()


def test_strings_are_read_only() -> None:
    store = MemoryStore()
    stored(store=store)
    members: dict[str, Any] = {"dimensions": [4], "blockSize": [2], "dataType": "string"}
    members["compression"] = {"type": "raw"}
    store.set("s/attributes.json", json.dumps(members).encode())
    store.set("s/1", bytes.fromhex("0001 0001 00000002 00000004") + b"a\0b\0")
    strings = open_array(store, "s", mode="r+")
    assert strings[...].tolist() == ["", "", "a", "b"]
    with pytest.raises(MetadataError, match="which cannot be written"):
        strings[0] = "x"
    with pytest.raises(TypeError):
        strings.write_chunk((0,), np.zeros(2))
    with pytest.raises(ValueError, match="which cannot be written"):
        strings.resize((2,))


# Resizing


@given(st.lists(st.tuples(*(st.integers(0, 10) for _ in range(3))), min_size=1, max_size=4))
def test_resizing_keeps_what_stays_and_what_went_is_gone(shapes: list[tuple[int, ...]]) -> None:
    store = MemoryStore()
    array = stored(store=store)
    expected: np.ndarray = VALUES
    for shape in shapes:
        assert array.resize(shape) is array
        grown = np.zeros(shape, expected.dtype)
        overlap = tuple(map(slice, map(min, shape, expected.shape)))
        grown[overlap] = expected[overlap]
        expected = grown
        assert array.shape == shape
        np.testing.assert_array_equal(array[...], expected)
        np.testing.assert_array_equal(open_array(store, "x")[...], expected)
        chunks = {key for key in store.items if key[2:3].isdigit()}
        assert chunks <= {f"x/{k}/{j}/{i}" for i, j, k in array.grid}


@pytest.mark.parametrize("shape", [(1, 2), (1, 2, -3), (1, 2, 3, 4)])
def test_shapes_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="axes"):
        stored().resize(shape)


def test_a_resize_is_seen_by_other_handles_after_a_refresh() -> None:
    store = MemoryStore()
    array = stored(store=store)
    other = open_array(store, "x")
    array.resize((2, 2, 2))
    assert other.shape == (7, 8, 9)
    assert other.refresh().shape == (2, 2, 2)
    store.delete(["x/attributes.json"])
    with pytest.raises(NodeNotFoundError):
        other.refresh()


# Handles


def test_handles_pickle_small_and_keep_what_they_are(tmp_path: Path) -> None:
    array = create_array(tmp_path / "x.n5", "a/b", shape=(5, 5), dtype="u1", chunks=(2, 2))
    array[...] = np.arange(25).reshape(5, 5)
    array.attrs["big"] = "x" * 10_000
    again = pickle.loads(pickle.dumps(array))  # noqa: S301
    assert dict(again.attrs) == dict(array.attrs)
    np.testing.assert_array_equal(again[...], array[...])
    assert len(pickle.dumps(Array(array.node.bare()))) < 800


def test_attributes_are_written_through_and_seen_at_once() -> None:
    store = MemoryStore()
    array = stored(attributes={"a": 1}, store=store)
    array.attrs["b"] = {"c": (1, np.float32(2.5))}
    array.attrs.update(d=np.arange(2), e=None)
    del array.attrs["a"]
    assert dict(array.attrs) == {"b": {"c": [1, 2.5]}, "d": [0, 1], "e": None}
    assert dict(open_array(store, "x").attrs) == dict(array.attrs)
    with pytest.raises(KeyError):
        del array.attrs["a"]
    with pytest.raises(MetadataError, match="'f'"):
        array.attrs["f"] = {1, 2}
    array.attrs.clear()
    assert len(open_array(store, "x").attrs) == 0
    other = open_array(store, "x", mode="r+")
    other.attrs["theirs"] = 1
    array.attrs["ours"] = 2
    assert dict(open_array(store, "x").attrs) == {"theirs": 1, "ours": 2}


# What must not happen


def test_a_resize_that_was_cut_short_is_completed_by_the_next() -> None:
    store = MemoryStore()
    stored(VALUES, store=store)
    set_dimensions(store, 9, 8, 2)
    for steps in ([(7, 8, 9)], [(2, 8, 9), (7, 8, 9)]):
        again = open_array(store, "x", mode="r+")
        for shape in steps:
            again.resize(shape)
        expected = np.zeros_like(VALUES)
        expected[:2] = VALUES[:2]
        np.testing.assert_array_equal(again[...], expected)


def test_growing_shows_nothing_that_others_left_beyond_the_end() -> None:
    store = MemoryStore()
    stored(np.full((6,), 9, "u1"), (4,), edge_chunks="pad", store=store)
    set_dimensions(store, 5)
    assert open_array(store, "x", mode="r+").resize((8,))[...].tolist() == [9, 9, 9, 9, 9, 0, 0, 0]


def test_growing_leaves_no_short_block_inside() -> None:
    store = MemoryStore()
    array = stored(np.ones((5, 5), "u1"), (3, 3), compression="raw", store=store).resize((9, 6))
    for index in array.node.stored_chunks():
        content = store.get(f"x/{index[1]}/{index[0]}") or b""
        assert np.frombuffer(content[4:12], ">u4")[::-1].tolist() == list(array.grid.extent(index))


def test_a_damaged_chunk_stops_a_resize_before_it_changes_the_array() -> None:
    store = MemoryStore()
    array = stored(np.ones((5,), "u1"), (4,), compression="raw", store=store)
    store.set("x/1", b"damaged")
    with pytest.raises(ChunkError, match="x/1"):
        array.resize((7,))
    assert open_array(store, "x").shape == (5,)


def test_a_deleted_array_does_not_come_back_as_attributes() -> None:
    store = MemoryStore()
    array = stored(store=store)
    store.delete(["x/attributes.json"])
    with pytest.raises(NodeNotFoundError):
        array.attrs["a"] = 1
    assert store.get("x/attributes.json") is None


def test_attributes_that_are_no_json_stay_when_others_change() -> None:
    store = MemoryStore()
    stored(store=store)
    document = (store.get("x/attributes.json") or b"")[:-1]
    store.set("x/attributes.json", document + b',"odd":NaN}')
    again = open_array(store, "x", mode="r+")
    again.attrs["a"] = 1
    again.resize((3, 3, 3))
    assert b'"odd":NaN' in (store.get("x/attributes.json") or b"")


def test_part_of_a_missing_chunk_is_written_also_where_missing_is_an_error() -> None:
    store = MemoryStore()
    create_array(store, "x", shape=(4,), dtype="u1", chunks=(4,))
    strict = open_array(store, "x", mode="r+", missing="error")
    strict[1] = 5
    assert strict[...].tolist() == [0, 5, 0, 0]


@pytest.mark.parametrize("compression", [*compressions.FILTERS, "lz4"])
def test_reading_a_chunk_copies_nothing_but_into_the_result(
    tmp_path: Path, compression: str
) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 12, (64, 64, 64)).astype("u2")
    array = create_array(
        tmp_path / "x.n5", shape=values.shape, dtype="u2", chunks=64, compression=compression
    )
    array[...] = values
    np.testing.assert_array_equal(array[...], values)
    file = (tmp_path / "x.n5/0/0/0").stat().st_size
    # The file, what it decodes to (lz4's blocks are joined), and the result.
    decoded = {"raw": 0, "lz4": 2 * values.nbytes}.get(compression, values.nbytes)
    assert peak(lambda: array[...]) < file + decoded + values.nbytes + 50_000


def test_facts_of_an_array_are_attributes() -> None:
    array = create_array(MemoryStore(), "a", shape=(6, 5), dtype="i4", chunks=4, compression="zstd")
    facts = (array.grid.size, array.fill_value, array.compression.name, array.read_only)
    assert facts == (4, 0, "zstd", False)
