"""Chunks of N5 with another shape than theirs: ends of arrays that have grown, or damaged ones."""

from __future__ import annotations

import functools
import itertools
import json
import math
import struct
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from tests.support.memory_store import MemoryStore
from xarray_n5 import (
    Array,
    ChunkError,
    UnfinishedWriteWarning,
    copy,
    create_array,
    from_n5,
    open_array,
    repair,
    to_n5,
    verify,
)
from xarray_n5.arrays.transfer import read_points

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Shape = tuple[int, ...]

SHAPE, CHUNKS = (9, 12, 10), (3, 4, 5)
"""Three inner chunks along each axis but the last, which has two."""
VALUES = np.arange(1, math.prod(SHAPE) + 1, dtype="u2").reshape(SHAPE)


def chunk(
    shape: Sequence[int], mode: int = 0, *, packed: bool = False, elements: int | None = None
) -> bytes:
    """Return a chunk of this shape, whose elements are all 7."""
    count = math.prod(shape)
    listed = struct.pack(">I", count) if mode else b""
    payload = np.full(count if elements is None else elements, 7, ">u2").tobytes()
    head = struct.pack(f">HH{len(shape)}I", mode, len(shape), *reversed(shape))
    return head + listed + (zlib.compress(payload) if packed else payload)


def stored(values: np.ndarray, chunks: Shape, compression: Any = None) -> MemoryStore:
    store = MemoryStore()
    made = create_array(
        store, "em/a", shape=values.shape, dtype="u2", chunks=chunks, compression=compression
    )
    made[...] = values
    return store


def set_chunk(store: MemoryStore, index: Shape, data: bytes) -> None:
    store.set("/".join(["em/a", *map(str, reversed(index))]), data)


def set_shape(store: MemoryStore, shape: Shape) -> None:
    """Change the array's shape as other programs do: its chunks stay as they are."""
    document = json.loads(store.get("em/a/attributes.json") or b"")
    document["dimensions"] = list(shape[::-1])
    store.set("em/a/attributes.json", json.dumps(document).encode())


def box_of(index: Shape, chunks: Shape = CHUNKS) -> tuple[slice, ...]:
    return tuple(slice(at * side, (at + 1) * side) for at, side in zip(index, chunks, strict=True))


def from_dataset(array: Array) -> Any:
    store: Any = array.node.container.store
    with xr.open_dataset(store, engine="n5", group="em") as dataset:
        return dataset["a"][1:7].values


POINTS = ([4, 8], [5, 2], [1, 9])

READERS: dict[str, Callable[[Array], Any]] = {
    "everything": lambda array: array[...],
    "the chunk alone": lambda array: array[box_of((1, 1, 0))],
    "read_chunk": lambda array: array.read_chunk((1, 1, 0)),
    "an element that is stored": lambda array: array[3, 4, 0],
    "a cut": lambda array: array[4:7, 2:6, 1:3],
    "steps": lambda array: array[::2, ::3, ::2],
    "index arrays": lambda array: array[[0, 4, 3], :, [2, 0]],
    "points": lambda array: read_points(array.node, [np.array(x) for x in POINTS]),
    "Dask": lambda array: from_n5(array).compute(),
    "a Dask block of several chunks": lambda array: from_n5(array, chunks=(6, 8, 5))[:6].compute(),
    "xarray": from_dataset,
    "a copy": lambda array: copy(array.node.container.store, MemoryStore()),
    "a copy in Zarr": lambda array: copy(array.node.container.store, MemoryStore(), format="zarr3"),
    "an assignment to a part": lambda array: array.__setitem__((4, 5, 1), 3),
    "a resize": lambda array: array.resize((9, 13, 10)).resize((10, 13, 11))[...],
}
"""All ways to read the chunk (1, 1, 0), or parts of it."""


@pytest.mark.parametrize("how", READERS)
@pytest.mark.parametrize("shape", [(3, 4, 2), (1, 1, 1)], ids=str)
def test_an_inner_chunk_that_is_too_short_is_an_error_not_zeros(how: str, shape: Shape) -> None:
    store = stored(VALUES, CHUNKS)
    set_chunk(store, (1, 1, 0), chunk(shape))
    with pytest.raises(ChunkError) as raised:
        READERS[how](open_array(store, "em/a", mode="r+"))
    assert raised.value.key == "em/a/0/1/1"
    assert str(shape) in raised.value.why
    assert str(CHUNKS) in raised.value.why
    np.testing.assert_array_equal(open_array(store, "em/a")[:3, :12, :10], VALUES[:3])


@pytest.mark.parametrize("index", [(0, 0, 0), (1, 2, 0), (2, 1, 0), (0, 2, 1)], ids=str)
@pytest.mark.parametrize("compression", [None, "gzip", "blosc"])
def test_a_chunk_is_too_short_where_another_chunk_follows(index: Shape, compression: Any) -> None:
    for axis, side in enumerate(CHUNKS):
        store = stored(VALUES, CHUNKS, compression)
        short = (*CHUNKS[:axis], side - 1, *CHUNKS[axis + 1 :])
        other = stored(np.full(short, 7, "u2"), short, compression)
        set_chunk(store, index, other.get("em/a/0/0/0") or b"")
        array = open_array(store, "em/a")
        if index[axis] + 1 < array.grid.counts[axis]:
            with pytest.raises(ChunkError, match=str(index[0])):
                array[...]
        else:  # the array may have ended there
            expected = VALUES.copy()
            expected[box_of(index)] = 0
            expected[box_of(index)][tuple(map(slice, short))] = 7
            np.testing.assert_array_equal(array[...], expected)


IMPOSSIBLE: dict[str, bytes] = {
    "empty": chunk((0, 0, 0)),
    "empty along one axis": chunk((3, 0, 5)),
    "empty, with elements": chunk((3, 4, 0), elements=60),
    "empty in mode 1": chunk((0, 4, 5), 1),
    "longer and shorter": chunk((5, 4, 3)),
    "longer and shorter by little": chunk((4, 3, 5)),
    "short, with the elements of a whole chunk": chunk((3, 2, 5), elements=60),
    "short, with one element more": chunk((3, 3, 5), elements=46),
    "whole, with too few elements": chunk((3, 4, 5), elements=59),
    "two axes": chunk((12, 5)),
    "four axes": chunk((1, 3, 4, 5)),
    "no axes": chunk(()),
    "mode 2": struct.pack(">HI", 2, 120) + bytes(120),
    "mode 3": chunk((3, 4, 5), 3),
    "a list": struct.pack(">HH4I", 1, 3, 5, 4, 3, 2) + bytes(4),
}
"""Chunks that nothing writes, wherever they are and whatever is stored around them."""


@pytest.mark.parametrize("index", [(1, 1, 0), (2, 2, 1)], ids=["inner", "last"])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_shape_that_no_chunk_has_is_an_error_everywhere(
    name: str, index: Shape, alone: bool
) -> None:
    store = stored(VALUES, CHUNKS)
    array = open_array(store, "em/a", mode="r+")
    if alone:
        for at in array.node.stored_chunks():
            array.delete_chunk(at)
    set_chunk(store, index, IMPOSSIBLE[name])
    with pytest.raises(ChunkError):
        array[box_of(index)]
    with pytest.raises(ChunkError):
        from_n5(array).compute()
    if name == "a list":  # which read_chunk returns
        return
    for deep in (True, False):
        states = verify(store, "em/a", deep=deep).compute()["state"].values
        assert states[index] in {"truncated", "undecodable"}
        assert np.isin(states, ["ok", "missing"]).sum() == states.size - 1
    assert repair(store, "em/a").attrs["repaired"] == 1


def test_a_compressed_chunk_with_more_elements_than_its_header_says_is_an_error() -> None:
    store = stored(VALUES, CHUNKS, "gzip")
    set_chunk(store, (2, 2, 1), chunk((3, 2, 5), packed=True, elements=60))
    with pytest.raises(ChunkError, match="'em/a/1/2/2'"):
        open_array(store, "em/a")[...]


def test_a_whole_chunk_in_mode_1_is_read_inside_too() -> None:
    store = stored(VALUES, CHUNKS)
    set_chunk(store, (1, 1, 0), chunk(CHUNKS, 1))
    assert (open_array(store, "em/a")[box_of((1, 1, 0))] == 7).all()


# Arrays that have grown


def grown(old: Shape, new: Shape, chunks: Shape, **options: Any) -> tuple[MemoryStore, np.ndarray]:
    """Return an array that was written with its old shape, and its values with the new one."""
    values = np.arange(1, math.prod(old) + 1, dtype="u2").reshape(old)
    store = MemoryStore()
    made = create_array(store, "em/a", shape=old, dtype="u2", chunks=chunks, **options)
    made[...] = values
    set_shape(store, new)
    expected = np.zeros(new, "u2")
    expected[tuple(map(slice, old))] = values
    return store, expected


EDGES = st.sampled_from(["truncate", "pad"])


@given(st.data())
def test_an_array_may_have_grown_several_times(data: st.DataObject) -> None:
    sizes = [sorted(data.draw(st.tuples(*[st.integers(1, 14)] * 3))) for _ in range(2)]
    first, second, third = zip(*sizes, strict=True)
    store, expected = grown(first, second, (4, 3), edge_chunks=data.draw(EDGES))
    array = open_array(store, "em/a", mode="r+")
    extent = [range(-(-size // side)) for size, side in zip(first, (4, 3), strict=True)]
    for index in itertools.product(*map(range, array.grid.counts)):
        # What lies beyond all chunks of the former array is written, none of these again.
        if all(at not in side for at, side in zip(index, extent, strict=True)):
            array.write_chunk(index, np.full(array.grid.extent(index), 9, "u2"))
            expected[array.grid.slices(index)] = 9
    set_shape(store, third)
    larger = np.zeros(third, "u2")
    larger[tuple(map(slice, second))] = expected
    array = open_array(store, "em/a")
    np.testing.assert_array_equal(array[...], larger)
    np.testing.assert_array_equal(array[1::2, -3:], larger[1::2, -3:])
    np.testing.assert_array_equal(from_n5(array).compute(scheduler="sync"), larger)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_array_may_continue_after_a_gap_behind_all_chunks_at_its_former_end(axis: int) -> None:
    old = (7, 11, 9)
    new = tuple(size + 8 * (at == axis) for at, size in enumerate(old))
    store, expected = grown(old, new, (4, 4, 4))
    array = open_array(store, "em/a", mode="r+")
    part = tuple(slice(12, None) if at == axis else slice(None) for at in range(3))
    array[part] = 5
    expected[part] = 5
    np.testing.assert_array_equal(array[...], expected)


def assign(array: Array, key: Any) -> None:
    array[key] = 8


def store_region(array: Array, key: Any) -> None:
    start, stop, _ = key.indices(array.shape[0])
    rows = da.full((stop - start, 10), 8, chunks=4, dtype="u2")
    region = (slice(start, stop),)
    to_n5(rows, array.node.container.store, "em/a", region=region, safe_chunks=False)


def assign_after_another_task(array: Array, key: Any) -> None:
    array.write_chunk((2, 1), np.full((4, 4), 8, "u2"))
    array[key] = 8


@pytest.mark.parametrize("write", [assign, store_region, assign_after_another_task])
@pytest.mark.parametrize("key", [slice(6, None), slice(5, None)])
def test_a_write_beyond_a_former_end_fills_it_up(write: Callable[..., None], key: Any) -> None:
    store, expected = grown((6, 10), (14, 10), (4, 4))
    array = open_array(store, "em/a", mode="r+")
    write(array, key)
    expected[key] = 8
    np.testing.assert_array_equal(array[...], expected)
    assert (verify(store, "em/a").compute()["state"] == "ok").all()
    array.resize((17, 16))
    np.testing.assert_array_equal(array[:14, :10], expected)
    assert not array[14:].any()
    assert not array[:, 10:].any()


def test_other_programs_grow_arrays_like_that(tmp_path: Path) -> None:
    ts = pytest.importorskip("tensorstore")
    z5py = pytest.importorskip("z5py")
    values = np.arange(1, 71, dtype="u2").reshape(10, 7)
    with z5py.File(str(tmp_path / "z5.n5"), "w") as file:
        file.create_dataset("a", data=values, chunks=(4, 4), compression="gzip")
    place = {"driver": "file", "path": f"{tmp_path / 'z5.n5/a'}/"}
    theirs = ts.open({"driver": "n5", "kvstore": place}, open=True).result()
    theirs.resize(exclusive_max=[11, 18]).result()
    expected = np.zeros((18, 11), "u2")
    expected[:10, :7] = values
    np.testing.assert_array_equal(open_array(tmp_path / "z5.n5", "a")[...], expected)
    theirs = ts.open({"driver": "n5", "kvstore": place}, open=True).result()
    theirs[5:9, 9:16] = expected[9:16, 5:9] = 3
    np.testing.assert_array_equal(theirs.read().result().T, expected)
    np.testing.assert_array_equal(open_array(tmp_path / "z5.n5", "a")[...], expected)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_along_one_axis_a_chunk_that_others_follow_is_not_a_former_end(size: int) -> None:
    store, expected = grown((4 + size,), (21,), (4,))
    np.testing.assert_array_equal(open_array(store, "em/a")[...], expected)
    array = open_array(store, "em/a", mode="r+")
    array.write_chunk((3,), np.full(4, 9, "u2"))
    expected[12:16] = 9
    np.testing.assert_array_equal(open_array(store, "em/a")[...], expected)
    array.write_chunk((2,), np.full(4, 9, "u2"))
    with pytest.raises(ChunkError, match="'em/a/1'"):
        array[6:]


def test_a_wrong_block_size_is_an_error_not_stripes() -> None:
    store = stored(VALUES, CHUNKS)
    document = json.loads(store.get("em/a/attributes.json") or b"")
    document |= {"blockSize": [5, 6, 3], "dimensions": [10, 18, 9]}
    store.set("em/a/attributes.json", json.dumps(document).encode())
    with pytest.raises(ChunkError):
        open_array(store, "em/a")[...]


# Checks


@pytest.mark.parametrize("shape", [(3, 3, 5), (2, 4, 5), (3, 4, 6), (4, 5, 5)], ids=str)
def test_a_chunk_of_another_shape_is_reported(shape: Shape) -> None:
    store = stored(VALUES, CHUNKS)
    set_chunk(store, (1, 1, 0), chunk(shape))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for deep in (True, False):
            states = verify(store, "em/a", deep=deep).compute()["state"].values
            assert states[1, 1, 0] == "wrong-shape"
            assert (states == "ok").sum() == states.size - 1
        if shape > CHUNKS:
            assert (open_array(store, "em/a")[box_of((1, 1, 0))] == 7).all()
        else:
            with pytest.raises(ChunkError, match="em/a/0/1/1"):
                verify(store, "em/a", strict=True).compute()


def test_a_repair_removes_a_short_chunk_that_is_not_a_former_end() -> None:
    store = stored(VALUES, CHUNKS)
    set_chunk(store, (1, 1, 0), chunk((3, 3, 5)))
    set_chunk(store, (2, 0, 0), chunk((2, 4, 5)))
    report = repair(store, "em/a")
    assert report.attrs["repaired"] == 1
    with pytest.warns(UnfinishedWriteWarning):
        array = open_array(store, "em/a")
    assert not array.chunk_exists((1, 1, 0))
    assert array.chunk_exists((2, 0, 0))
    to_n5(VALUES, store, "em/a", chunks=CHUNKS, compression=None, mode="r+", resume=True)
    assert (open_array(store, "em/a")[box_of((1, 1, 0))] == VALUES[box_of((1, 1, 0))]).all()


# Other formats, whose chunks all have the same shape


def shorten_hdf5(place: Path) -> None:
    import h5py

    with h5py.File(place, "r+") as file:
        file["a"].id.write_direct_chunk((4, 0), zlib.compress(bytes(4 * 3 * 2)))


def shorten(place: Path, name: str) -> None:
    file = place / "a" / name
    file.write_bytes(file.read_bytes()[:-8])


OTHERS: dict[str, tuple[str, dict[str, Any], Callable[[Path], None]]] = {
    "zarr2": ("c.zarr", {"format": "zarr2"}, functools.partial(shorten, name="1.0")),
    "zarr3": ("c.zarr", {"format": "zarr3"}, functools.partial(shorten, name="c/1/0")),
    "shards": (
        "c.zarr",
        {"format": "zarr3", "shards": (4, 8)},
        functools.partial(shorten, name="c/1/0"),
    ),
    "hdf5": ("c.h5", {"format": "hdf5", "compression": "gzip"}, shorten_hdf5),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_inner_chunk_that_is_too_short_is_an_error_in_every_format(
    tmp_path: Path, name: str
) -> None:
    file, options, damage = OTHERS[name]
    values = np.arange(1, 97, dtype="u2").reshape(12, 8)
    to_n5(values, tmp_path / file, "a", chunks=(4, 4), **{"compression": None, **options})
    damage(tmp_path / file)
    array = open_array(tmp_path / file, "a")
    np.testing.assert_array_equal(array[:4], values[:4])
    for key in (slice(None), slice(5, 7), (slice(4, 8), slice(0, 4))):
        with pytest.raises(ChunkError):
            array[key]
    with pytest.raises(ChunkError):
        from_n5(array).compute()
    states = verify(tmp_path / file, "a").compute()["state"].values
    assert (states != "ok").sum() == 1
