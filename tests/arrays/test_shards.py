"""Shards: written once each, read in parts, and refused where they are damaged."""

from __future__ import annotations

import random
import struct
import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5
from tests.support.exhaustive import seeds
from tests.support.memory_store import MemoryStore
from tests.support.remote import Far
from tests.support.servers import serving_ranges
from tests.support.stores import LoggingStore
from xarray_n5 import (
    ChunkError,
    MetadataError,
    create_array,
    from_n5,
    open_array,
    to_n5,
    verify,
)
from xarray_n5.errors import AlignmentError
from xarray_n5.stores import FsspecStore, LocalStore, Range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xarray_n5.stores.base import FilePart

SHAPE, CHUNKS, SHARDS = (20, 30), (3, 4), (6, 12)

VALUES = np.arange(1, 601, dtype="u2").reshape(SHAPE)

LAYOUT: dict[str, Any] = {"format": "zarr3", "chunks": CHUNKS, "shards": SHARDS}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An array of twelve shards, eight chunks in each."""
    to_n5(VALUES, tmp_path / "x.zarr", "a", **LAYOUT)
    return tmp_path / "x.zarr/a"


# Plans


def random_blocks(chance: random.Random, size: int) -> tuple[int, ...]:
    """Blocks of any sizes that sum up to a size."""
    edges = sorted({0, size, *(chance.randrange(size + 1) for _ in range(chance.randrange(5)))})
    return tuple(b - a for a, b in pairwise(edges)) or (0,)


@pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")
@pytest.mark.parametrize("seed", seeds(6, 40))
def test_any_blocks_write_each_shard_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    ndim = chance.randrange(1, 4)
    shape = tuple(chance.randrange(1, 25) for _ in range(ndim))
    chunks = tuple(chance.randrange(1, 6) for _ in range(ndim))
    shards = tuple(side * chance.randrange(1, 5) for side in chunks)
    values = np.random.default_rng(seed).integers(0, 3, shape).astype("u2")
    source = da.from_array(values, chunks=tuple(random_blocks(chance, size) for size in shape))
    store = LoggingStore(str(tmp_path / "x.zarr"), str(tmp_path / "log"))
    with dask.config.set(scheduler="threads", num_workers=2):
        to_n5(source, store, "a", format="zarr3", chunks=chunks, shards=shards)
    array = open_array(store, "a")
    written = Counter(key for key in store.written() if key.startswith("a/c/"))
    assert (len(written), set(written.values())) == (array.grid.size, {1})
    np.testing.assert_array_equal(array[...], values)
    region = tuple(slice(*sorted(chance.sample(range(size + 1), 2))) for size in shape)
    part = values[region] + 7
    store.forget()
    to_n5(part, store, "a", region=region, safe_chunks=False)
    values[region] = part
    assert set(Counter(store.written()).values()) <= {1, 2}  # the hint that it is unfinished: 2
    array = open_array(store, "a")
    np.testing.assert_array_equal(array[...], values)
    key = tuple(slice(*sorted(chance.sample(range(size + 1), 2))) for size in shape)
    np.testing.assert_array_equal(array[key], values[key])
    blocks: Any = chance.choice([None, "auto", tuple(chance.randrange(1, 9) for _ in shape)])
    read = from_n5(store, "a", chunks=blocks)
    np.testing.assert_array_equal(read.compute(scheduler="synchronous"), values)


def test_a_region_that_cuts_shards_is_refused(place: Path) -> None:
    with pytest.raises(AlignmentError, match="axis 0"):
        to_n5(VALUES[3:6], place, region=(slice(3, 6), slice(None)))
    to_n5(VALUES[6:12] + 1, place, region=(slice(6, 12), slice(None)))
    assert (open_array(place)[6:12] == VALUES[6:12] + 1).all()


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        ((7, 12), r"a multiple, such as \(6, 12\)"),
        ((3,), r"shards is \(3,\); expected 2 numbers for shape \(20, 30\)"),
        ("all", "expected a shape, one number or 'auto'"),
        ((0, 12), "such as"),
    ],
)
def test_shards_that_do_not_fit_are_refused(tmp_path: Path, shards: Any, message: str) -> None:
    for act in (
        lambda: create_array(
            tmp_path / "a", shape=SHAPE, dtype="u2", **{**LAYOUT, "shards": shards}
        ),
        lambda: to_n5(VALUES, tmp_path / "a", **{**LAYOUT, "shards": shards}),
    ):
        with pytest.raises(MetadataError, match=message):
            act()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["n5", "zarr2", "hdf5"])
def test_other_formats_have_no_shards(tmp_path: Path, form: str) -> None:
    options = {**LAYOUT, "format": form}
    with pytest.raises(MetadataError, match="does not support shards"):
        to_n5(VALUES, tmp_path / ("x.h5" if form == "hdf5" else "x"), "a", **options)
    assert not list(tmp_path.iterdir())


def test_automatic_shards_are_multiples_of_chunks() -> None:
    made = create_array(
        MemoryStore(), shape=(4000,) * 3, dtype="u2", chunks=64, shards="auto", format="zarr3"
    )
    assert (made.chunks, made.shards) == ((64,) * 3, (512,) * 3)


def test_shards_without_chunks_hold_blocks_or_what_divides_them(tmp_path: Path) -> None:
    blocks = da.from_array(VALUES, chunks=(3, 4))
    to_n5(blocks, tmp_path / "a", format="zarr3", shards=SHARDS)
    assert (open_array(tmp_path / "a").chunks, open_array(tmp_path / "a").shards) == (
        CHUNKS,
        SHARDS,
    )
    to_n5(blocks + 1, tmp_path / "a", mode="r+", shards=SHARDS)
    np.testing.assert_array_equal(open_array(tmp_path / "a")[...], VALUES + 1)
    with pytest.raises(MetadataError, match=r"such as \(6, 16\)"):
        to_n5(blocks, tmp_path / "b", format="zarr3", shards=(6, 15))
    to_n5(VALUES, tmp_path / "b", format="zarr3", shards=SHARDS)
    assert open_array(tmp_path / "b").shards == SHARDS
    options: dict[str, Any] = {"shape": (4000,) * 3, "dtype": "u2", "format": "zarr3"}
    made = create_array(MemoryStore(), shards=512, **options)
    assert (made.chunks, made.shards) == ((128,) * 3, (512,) * 3)
    xarray_n5.pyramid(VALUES, tmp_path / "p.zarr", "p", levels=1, format="zarr3", shards=SHARDS)
    assert open_array(tmp_path / "p.zarr", "p/s0").shards == SHARDS
    to_n5(VALUES, tmp_path / "c.n5", chunks=(5, 5))
    xarray_n5.copy(tmp_path / "c.n5", tmp_path / "c", format="zarr3", chunks="auto", shards=(7, 9))
    np.testing.assert_array_equal(open_array(tmp_path / "c")[...], VALUES)


# Arrays


def test_an_array_tells_chunks_from_shards(place: Path) -> None:
    array = open_array(place)
    assert (array.chunks, array.shards, array.grid.chunks) == (CHUNKS, SHARDS, SHARDS)
    assert array.grid.size == 12
    assert "shards       6 x 12, 12 shards of" in repr(array)
    assert (array.read_chunk((1, 2)) == VALUES[6:12, 24:30]).all()


def test_chunks_of_fill_values_are_left_out_of_a_shard(tmp_path: Path) -> None:
    values = np.zeros(SHAPE, "u2")
    values[0, 0] = 1
    to_n5(values, tmp_path / "a", compression=None, **LAYOUT)
    index = 16 * 6 + 4
    sizes = sorted(file.stat().st_size for file in (tmp_path / "a/c").rglob("*") if file.is_file())
    assert sizes == [*[index] * 11, index + 2 * 12]
    to_n5(values, tmp_path / "b", compression=None, write_empty_chunks=False, **LAYOUT)
    assert len([file for file in (tmp_path / "b/c").rglob("*") if file.is_file()]) == 1
    np.testing.assert_array_equal(open_array(tmp_path / "b")[...], values)


def test_an_array_of_shards_grows_and_shrinks(place: Path) -> None:
    array = open_array(place, mode="r+").resize((23, 50))
    wanted = np.zeros((23, 50), "u2")
    wanted[:20, :30] = VALUES
    np.testing.assert_array_equal(array[...], wanted)
    array[:, 28:35] = wanted[:, 28:35] = 9
    array.resize((7, 13)).resize((20, 30))
    again = np.zeros(SHAPE, "u2")
    again[:7, :13] = wanted[:7, :13]
    np.testing.assert_array_equal(array[...], again)


def test_datasets_keep_their_shards(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": (("y", "x"), VALUES)}, {"x": np.arange(30) * 2.0})
    encoding = {"a": {"chunks": CHUNKS, "shards": SHARDS}}
    dataset.n5.to_n5(tmp_path / "x.zarr", format="zarr3", encoding=encoding)
    opened = xr.open_dataset(tmp_path / "x.zarr", engine="n5", chunks={})
    assert opened["a"].encoding["shards"] == SHARDS
    assert opened["a"].data.chunksize == CHUNKS
    more = dataset.assign_coords(x=dataset.x + 60)
    more.n5.to_n5(tmp_path / "x.zarr", append_dim="x")
    both = xr.concat([dataset, more], "x")
    again = xr.open_dataset(tmp_path / "x.zarr", engine="n5")
    xr.testing.assert_identical(again.load(), both)
    again.n5.to_n5(tmp_path / "y.zarr", format="zarr3")
    assert open_array(tmp_path / "y.zarr", "a").shards == SHARDS
    again.n5.to_n5(tmp_path / "y.n5")
    assert open_array(tmp_path / "y.n5", "a").shards is None
    xr.testing.assert_identical(xr.open_zarr(tmp_path / "x.zarr").load(), both)


def test_pyramids_and_copies_have_shards(tmp_path: Path) -> None:
    source = xr.DataArray(da.from_array(VALUES, chunks=5), dims=("y", "x"))
    xarray_n5.pyramid(source, tmp_path / "p.zarr", "p", levels=2, factors=2, **LAYOUT)
    levels = [open_array(tmp_path / "p.zarr", f"p/s{number}") for number in range(3)]
    assert [level.shards for level in levels] == [SHARDS] * 3
    np.testing.assert_array_equal(levels[0][...], VALUES)
    to_n5(VALUES, tmp_path / "a.n5", "a", chunks=(5, 5))
    xarray_n5.copy(tmp_path / "a.n5", tmp_path / "b.zarr", **LAYOUT)
    assert open_array(tmp_path / "b.zarr", "a").shards == SHARDS
    xarray_n5.copy(tmp_path / "b.zarr", tmp_path / "c.zarr", format="zarr3")
    copied = open_array(tmp_path / "c.zarr", "a")
    assert (copied.chunks, copied.shards) == (CHUNKS, SHARDS)
    np.testing.assert_array_equal(copied[...], VALUES)
    xarray_n5.copy(tmp_path / "c.zarr", tmp_path / "d.n5")
    assert open_array(tmp_path / "d.n5", "a").chunks == CHUNKS


# Requests


def far() -> tuple[Far, FsspecStore]:
    """An array of two shards of 16 chunks, on an object store."""
    fs = Far()
    store = FsspecStore(fs, "b/x.zarr")
    values = np.arange(1, 8 * 16 + 1, dtype="u2").reshape(8, 16)
    to_n5(values, store, "a", format="zarr3", chunks=(2, 2), shards=(8, 8), compression=None)
    fs.be_far(0.005)
    return fs, store


def test_a_chunk_of_a_shard_is_the_index_and_one_range() -> None:
    fs, store = far()
    array = open_array(store, "a")
    fs.reset()
    assert array[2:4, 2:4].tolist() == [[35, 36], [51, 52]]
    assert (fs.counts["GET"], fs.rounds) == (2, 2)
    fs.reset()
    assert array[4:6, 4:6].tolist() == [[69, 70], [85, 86]]
    assert (fs.counts["GET"], fs.rounds) == (1, 1)  # the index is known


def test_neighbouring_chunks_are_one_request() -> None:
    fs, store = far()
    array = open_array(store, "a")
    assert array[0, 0] == 1
    fs.reset()
    assert array[0].tolist()[:8] == list(range(1, 9))
    # The other shard's index, and a range of each shard: its first row of chunks.
    assert (fs.counts["GET"], fs.rounds) == (3, 2)


def test_most_of_a_shard_is_one_request() -> None:
    fs, store = far()
    array = open_array(store, "a")
    fs.reset()
    assert array[...].size == 8 * 16
    assert fs.counts["GET"] == 2
    fs.reset()
    assert (array[1:, 1:] > 0).all()
    assert fs.counts["GET"] == 2


def test_a_shard_that_is_written_meanwhile_is_read_anew(place: Path) -> None:
    array, other = open_array(place), open_array(place, mode="r+")
    assert array[0, 0] == 1
    other[:6, :12] = np.random.default_rng(0).integers(0, 60000, (6, 12))
    np.testing.assert_array_equal(array.refresh()[:3, :4], other[:3, :4])
    own = open_array(place, mode="r+")
    assert own[0, 0] == other[0, 0]
    own[0, 0] = 5
    assert own[0, 0] == 5


class _Replaced(LocalStore):
    """A directory in which another program replaces a shard after the first request."""

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        parts = super().get_ranges(ranges)
        root = Path(self.root)
        if (root / "other.zarr").exists():
            (root / "other.zarr/c/0").replace(root / "a.zarr/c/0")
            (root / "other.zarr").rename(root / "done")
        return parts


def _two(folder: Path) -> np.ndarray:
    """Store two arrays whose chunks decode from any bytes; return the values of the other one."""
    values = np.arange(1, 65, dtype="u2")
    other = np.where(values > 32, values + 1000, 0).astype("u2")  # which begins later in the file
    for name, data in (("a.zarr", values), ("other.zarr", other)):
        made = create_array(
            folder / name,
            shape=(64,),
            chunks=4,
            shards=64,
            dtype="u2",
            compression=None,
            format="zarr3",
        )
        made[...] = data
    return other


def test_a_shard_that_another_program_replaced_is_not_read_by_its_old_index(tmp_path: Path) -> None:
    other = _two(tmp_path)
    by_part, by_whole = open_array(tmp_path / "a.zarr"), open_array(tmp_path / "a.zarr")
    assert by_part[36] == by_whole[...][36] == 37
    (tmp_path / "other.zarr/c/0").replace(tmp_path / "a.zarr/c/0")
    for array in (by_part, by_whole):
        np.testing.assert_array_equal(array[36:44], other[36:44])
        assert array[3] == 0


def test_a_shard_that_is_replaced_between_two_requests_is_read_anew(tmp_path: Path) -> None:
    other = _two(tmp_path)
    array = open_array(_Replaced(str(tmp_path)), "a.zarr")
    np.testing.assert_array_equal(array[36:44], other[36:44])
    assert not (tmp_path / "other.zarr").exists()


@pytest.mark.parametrize("whole", [False, True])
def test_a_shard_that_was_replaced_on_a_server_is_read_anew(tmp_path: Path, whole: bool) -> None:
    pytest.importorskip("aiohttp")
    other = _two(tmp_path)
    files = {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in (tmp_path / "a.zarr").rglob("*")
        if path.is_file()
    }

    def headers(data: bytes) -> dict[str, str]:
        return {"ETag": f'"{zlib.crc32(data):x}"'}

    with serving_ranges(files=files, headers=headers) as served:
        array = open_array(f"{served.url}/a.zarr")
        assert array[36] == 37
        served.files["a.zarr/c/0"] = (tmp_path / "other.zarr/c/0").read_bytes()
        key = slice(36, 44)
        np.testing.assert_array_equal(array[...][key] if whole else array[key], other[key])
        np.testing.assert_array_equal(array[key], other[key])


# Damage


def shard(place: Path) -> Path:
    return place / "c/1/0"


def check_error(place: Path, message: str) -> None:
    """Every way to read the shard raises an error that names it."""
    for key in ((slice(None), slice(None)), (slice(6, 9), slice(0, 4))):
        with pytest.raises(ChunkError, match=message) as raised:
            open_array(place)[key]
        assert "a/c/1/0" in str(raised.value) or "c/1/0" in str(raised.value)


def test_a_truncated_shard_is_an_error(place: Path) -> None:
    data = shard(place).read_bytes()
    for size in (0, 10, len(data) - 1, len(data) // 2):
        shard(place).write_bytes(data[:size])
        with pytest.raises(ChunkError, match="c/1/0"):
            open_array(place)[...]
        with pytest.raises(ChunkError, match="c/1/0"):
            open_array(place)[6:9, :4]
        assert verify(place, deep=True).state.values[1, 0] != "ok"


def test_every_bit_of_the_index_is_checked(place: Path) -> None:
    data = shard(place).read_bytes()
    size = 16 * 6 + 4
    for offset in range(1, size + 1, 7):
        damaged = bytearray(data)
        damaged[-offset] ^= 1
        shard(place).write_bytes(damaged)
        check_error(place, "index of the shard is damaged")


def with_index(data: bytes, place: int, start: int, size: int) -> bytes:
    """A shard whose index states something else of one chunk, with the right checksum."""
    import google_crc32c

    index = bytearray(data[-16 * 6 - 4 : -4])
    index[16 * place : 16 * place + 16] = struct.pack("<QQ", start, size)
    checksum: bytes = google_crc32c.value(bytes(index)).to_bytes(4, "little")
    return b"".join((data[: -16 * 6 - 4], bytes(index), checksum))


@pytest.mark.parametrize(
    ("start", "size", "message"),
    [
        (1 << 40, 20, r"inner chunk \(0, 0\)"),
        (0, 1 << 40, r"inner chunk \(0, 0\): expected at most"),
        ((1 << 64) - 2, 10, r"inner chunk \(0, 0\)"),
        (2, 20, r"inner chunk \(0, 0\)"),
        (0, 0, r"inner chunk \(0, 0\)"),
    ],
)
def test_an_index_that_leads_elsewhere_is_refused(
    place: Path, start: int, size: int, message: str
) -> None:
    shard(place).write_bytes(with_index(shard(place).read_bytes(), 0, start, size))
    check_error(place, message)


def test_a_damaged_chunk_hides_no_other(place: Path) -> None:
    data = bytearray(shard(place).read_bytes())
    data[12] ^= 0xFF
    shard(place).write_bytes(data)
    array = open_array(place)
    with pytest.raises(ChunkError, match=r"inner chunk \(0, 0\)"):
        array[6:9, :4]
    np.testing.assert_array_equal(array[9:12, :4], VALUES[9:12, :4])
    assert verify(place, deep=True).state.values[1, 0] == "undecodable"


def test_a_missing_shard_reads_as_the_fill_value(place: Path) -> None:
    shard(place).unlink()
    array = open_array(place)
    wanted = VALUES.copy()
    wanted[6:12, :12] = 0
    np.testing.assert_array_equal(array[...], wanted)
    np.testing.assert_array_equal(array[6:8, :2], wanted[6:8, :2])
    for key in ((slice(None),) * 2, (slice(6, 8), slice(0, 2))):
        with pytest.raises(ChunkError, match="missing='error'"):
            open_array(place, missing="error")[key]


# Stores


def test_parts_of_files_are_read_as_slices(tmp_path: Path) -> None:
    fs = Far()
    stores = [LocalStore(str(tmp_path)), MemoryStore(), FsspecStore(fs, "b/x")]
    data = bytes(range(200))
    asked = [("a/b", 3, 9), ("a/b", -5, None), ("a/b", 190, 400), ("no", 0, 4), ("a/b", 0, 0)]
    for store in stores:
        store.set("a/b", data)
        parts = store.get_ranges([Range(*each) for each in asked])
        found = [part and part.data for part in parts]
        assert found == [data[3:9], data[-5:], data[190:], None, b""]


def test_automatic_blocks_are_whole_shards_unless_these_are_large(tmp_path: Path) -> None:
    options: dict[str, Any] = {"format": "zarr3", "dtype": "u1", "chunks": 64}
    for name, shards in (("small", 256), ("large", 1024)):
        create_array(tmp_path, name, shape=(2048,) * 3, shards=shards, **options)
    assert from_n5(tmp_path, "small", chunks="auto").chunksize == (256, 256, 256)
    assert from_n5(tmp_path, "large", chunks="auto").chunksize == (256, 256, 256)
    with dask.config.set({"array.chunk-size": "1 MiB"}):
        assert from_n5(tmp_path, "small", chunks="auto").chunksize == (128, 128, 64)
