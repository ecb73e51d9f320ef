"""Dask arrays from stored chunks and back."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
from dask.array.core import PerformanceWarning
from dask.array.utils import assert_eq
from dask.base import compute, optimize
from distributed.protocol.pickle import loads
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.exhaustive import cases, some
from tests.support.memory_store import MemoryStore
from tests.support.processes import Python
from tests.support.stores import CountingStore, LoggingStore
from xarray_n5 import (
    Array,
    ChunkError,
    MetadataError,
    NodeExistsError,
    NodeNotFoundError,
    UnfinishedWriteWarning,
    create_array,
    from_n5,
    open_array,
    to_n5,
)
from xarray_n5.errors import AlignmentError, ContainerNotVisibleError, MissingChunkError
from xarray_n5.model.alerts import warn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from distributed import Client

VALUES = np.arange(20 * 21 * 22, dtype="u2").reshape(20, 21, 22)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def array(store: MemoryStore) -> Array:
    made = create_array(store, "a", shape=VALUES.shape, dtype="u2", chunks=(8, 8, 8))
    made[...] = VALUES
    return made


# Reading


def test_each_stored_chunk_is_a_block(array: Array) -> None:
    lazy = from_n5(array)
    assert lazy.chunks == ((8, 8, 4), (8, 8, 5), (8, 8, 6))
    assert_eq(lazy, VALUES)


@pytest.mark.parametrize(
    "chunks", [0, -5, np.int64(-2), (0, 4), (4, -3), {1: 0}, {0: -7}, ((4, -4, 8), 4)]
)
def test_blocks_of_no_size_are_refused(store: MemoryStore, chunks: Any) -> None:
    create_array(store, "a", shape=(8, 8), dtype="u1", chunks=4)
    with pytest.raises(MetadataError, match=r"axis [01]"):
        from_n5(store, "a", chunks=chunks)


def test_blocks_of_an_empty_axis_may_have_no_size(tmp_path: Path) -> None:
    create_array(tmp_path, "a", shape=(0, 8), dtype="u1", chunks=4)
    assert from_n5(tmp_path, "a", chunks=(0, 8)).chunks == ((0,), (8,))
    assert from_n5(tmp_path, "a", chunks=(-1, (4, 4))).chunks == ((0,), (4, 4))


@pytest.mark.parametrize(
    "key",
    [
        (slice(3, 17, 2), slice(None, None, -3), 4),
        ([1, 9, 2], slice(None), slice(5)),
        (..., -1),
        (slice(None), None, slice(2, 3)),
    ],
)
def test_slicing_equals_numpy(array: Array, key: Any) -> None:
    assert_eq(from_n5(array)[key], VALUES[key])


def test_blocks_can_be_whole_multiples_of_chunks(array: Array) -> None:
    for chunks in ((16, 8, 24), 16, {0: 16, 1: 8, 2: 8}, "8 kiB", "auto", -1):
        lazy = from_n5(array, chunks=chunks)
        for axis in lazy.chunks:
            assert all(size % 8 == 0 for size in axis[:-1])
        assert_eq(lazy, VALUES)
    assert from_n5(array, chunks="auto").npartitions == 1


def test_blocks_that_cut_chunks_work_with_a_warning(array: Array) -> None:
    with pytest.warns(PerformanceWarning, match="multiples of 8"):
        lazy = from_n5(array, chunks=(5, 8, 8))
    assert_eq(lazy, VALUES)


def test_missing_chunks_are_zeros_or_errors_that_name_the_chunk(
    store: MemoryStore, array: Array
) -> None:
    array.delete_chunk((0, 1, 2))
    assert from_n5(array)[0, 8, 16].compute() == 0
    strict = from_n5(store, "a", missing="error")
    with pytest.raises(MissingChunkError, match="'a/2/1/0'"):
        strict.compute()


def test_names_are_stable_and_change_with_the_array(tmp_path: Path) -> None:
    create_array(tmp_path / "x.n5", "a", shape=(4,), dtype="u1", chunks=(2,))
    name = from_n5(tmp_path / "x.n5", "a").name
    assert name == from_n5(str(tmp_path / "x.n5"), "/a/").name
    assert name != from_n5(tmp_path / "x.n5", "a", chunks=4).name
    assert name != from_n5(tmp_path / "x.n5", "a", missing="error").name
    create_array(tmp_path / "x.n5", "a", mode="w", shape=(4,), dtype="u1", chunks=(2,))
    assert name != from_n5(tmp_path / "x.n5", "a").name
    assert from_n5(tmp_path / "x.n5", "a", name="mine").name == "mine"


def test_names_are_the_same_in_every_process(tmp_path: Path) -> None:
    create_array(tmp_path / "x.n5", "a", shape=(4,), dtype="u1", chunks=(2,))
    script = f"import xarray_n5; print(xarray_n5.from_n5({str(tmp_path / 'x.n5')!r}, 'a').name)"
    with Python("-c", script, stdout=PIPE) as process:
        name, _ = process.communicate()
    assert name.strip() == from_n5(tmp_path / "x.n5", "a").name


def test_objects_with_secrets_leave_none_in_graph_keys() -> None:
    import fsspec

    fs = fsspec.filesystem("memory", token="hush", skip_instance_cache=True)  # noqa: S106
    create_array((fs, "/secret/x.n5"), shape=(4,), dtype="u1", mode="w")
    lazy = from_n5((fs, "/secret/x.n5"))
    assert not any("hush" in str(key) for key in lazy.__dask_graph__())


# Writing


def test_stored_chunks_are_dasks_blocks_unless_told_otherwise() -> None:
    source = da.ones((10, 10), chunks=((3, 4, 3), 5), dtype="u1")
    cases: list[tuple[Any, tuple[int, ...]]] = [
        (None, (4, 5)),
        (2, (2, 2)),
        ("auto", (10, 10)),
        ((3, 9), (3, 9)),
    ]
    for chunks, expected in cases:
        store = MemoryStore()
        to_n5(source, store, "a", chunks=chunks)
        assert open_array(store, "a").chunks == expected
        assert (open_array(store, "a")[...] == 1).all()


def test_anything_that_becomes_a_dask_array_can_be_written() -> None:
    store = MemoryStore()
    to_n5([[1, 2], [3, 4]], store, "list")
    to_n5(np.float32(3), store, "scalar")
    to_n5(np.zeros((0, 3), "u1"), store, "empty")
    assert from_n5(store, "list").compute().tolist() == [[1, 2], [3, 4]]
    assert from_n5(store, "scalar").compute() == 3
    assert from_n5(store, "empty").compute().shape == (0, 3)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0, 2), (1,) * 45], ids=["0", "40", "45 axes"])
def test_writes_without_chunks_or_of_many_axes_are_known_again(shape: tuple[int, ...]) -> None:
    store, values = CountingStore(), np.ones(shape, "i2")
    to_n5(values, store, "a")
    store.requests()
    to_n5(values, store, "a", resume=True)
    assert "set" not in store.requests()
    assert (open_array(store, "a")[...] == values).all()


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """An array, its stored chunks, a region, and blocks for it."""
    ndim = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 14)) for _ in range(ndim))
    region, blocks = [], []
    for size in shape:
        start = draw(st.integers(0, size - 1))
        stop = draw(st.integers(start + 1, size))
        region.append(slice(start, stop))
        edges = sorted(draw(st.sets(st.integers(start + 1, stop), max_size=4)) | {start, stop})
        blocks.append(tuple(b - a for a, b in pairwise(edges)))
    chunks = tuple(draw(st.integers(1, 6)) for _ in shape)
    return {"shape": shape, "chunks": chunks, "region": tuple(region), "blocks": tuple(blocks)}


@pytest.mark.more
@settings(max_examples=cases(40, 200), deadline=None)
@given(plans())
def test_any_blocks_into_any_region_write_each_chunk_once(plan: dict[str, Any]) -> None:
    store = CountingStore()
    expected = np.arange(math.prod(plan["shape"]), dtype="i4").reshape(plan["shape"])
    to_n5(expected, store, "a", chunks=plan["chunks"])
    store.written.clear()
    expected[plan["region"]] *= -1
    source = da.from_array(expected[plan["region"]], chunks=plan["blocks"])
    total = to_n5(source, store, "a", region=plan["region"], safe_chunks=False, compute=False)
    assert total is not None
    with dask.config.set(scheduler="threads", num_workers=4):
        receipts = total.compute().to_datatree()
    np.testing.assert_array_equal(from_n5(store, "a", chunks="auto").compute(), expected)
    array = open_array(store, "a")
    touched = {
        key: times for key, times in store.written.items() if array.node.chunk_index(key[2:])
    }
    assert set(touched.values()) == {1}
    assert len(touched) == receipts["bytes"].size
    for index in np.ndindex(receipts["bytes"].shape):
        sides = zip(receipts.coords.values(), index, strict=True)
        key = array.node.key([int(side[at]) for side, at in sides])
        assert len(store.get(key) or b"") == receipts["bytes"][index]


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Two processes."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as here:
        yield here


@pytest.mark.more
@pytest.mark.parametrize("scheduler", ["processes", "cluster"])
@settings(max_examples=cases(6, 50), deadline=None)
@given(plan=plans())
def test_any_blocks_are_written_once_by_processes(
    cluster: Client, pool: ProcessPoolExecutor, scheduler: str, plan: dict[str, Any]
) -> None:
    expected = np.arange(math.prod(plan["shape"]), dtype="i4").reshape(plan["shape"])
    with tempfile.TemporaryDirectory() as folder:
        store = LoggingStore(f"{folder}/x.n5", f"{folder}/log")
        to_n5(expected, store, "a", chunks=plan["chunks"])
        store.forget()
        expected[plan["region"]] *= -1
        source = da.from_array(expected[plan["region"]], chunks=plan["blocks"])
        total: Any = to_n5(
            source, store, "a", region=plan["region"], safe_chunks=False, compute=False
        )
        if scheduler == "cluster":
            receipts = cluster.compute(total).result()
        else:
            receipts = total.compute(scheduler="processes", pool=pool)
        array = open_array(store, "a")
        np.testing.assert_array_equal(array[...], expected)
        written = [key for key in store.written() if array.node.chunk_index(key[2:])]
        assert len(written) == len(set(written)) == receipts.written


def test_aligned_blocks_are_written_as_they_are_without_a_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xarray_n5.arrays.records._TRUSTED", 600.0)
    store = CountingStore()
    source = da.from_array(VALUES, chunks=(8, 16, 8))
    total = to_n5(source, store, "a", chunks=(8, 8, 8), compute=False)
    store.requests()
    assert total.compute().written == 27
    # The first task begins: it looks at records and documents, and once more. The record is known
    # for two seconds then, and looked at again at the end. Of what is stored nothing is read, and
    # each chunk is stored once. A note of each of 18 blocks, since regions may have been written
    # before, a record and a row come with them.
    chunks, notes = 27, 18
    expected = {"get": 4, "list": 4, "exists": 1, "delete": 3}
    assert store.requests() == {**expected, "set": chunks + notes + 2}


def test_a_write_is_fused_with_what_makes_its_blocks() -> None:
    source = from_n5(create_array(MemoryStore(), shape=(64, 64), dtype="f4", chunks=(4, 4)))
    total = to_n5(source * 2 + 1, MemoryStore(), "a", compute=False)
    (optimised,) = optimize(total)
    assert len(optimised.__dask_graph__()) <= 256 * 1.02 + 2


def test_a_refused_write_leaves_what_is_there() -> None:
    store = MemoryStore()
    to_n5(VALUES, store, "a")
    before = dict(store.items)
    for wrong in (
        {"chunks": (4, 4, 4)},
        {"mode": "w", "compression": "brotli"},
        {"mode": "w", "attributes": {"a": float("inf")}},
        {"mode": "a", "chunks": (4, 4, 4)},
    ):
        with pytest.raises((NodeExistsError, MetadataError, NotImplementedError)):
            to_n5(VALUES, store, "a", **wrong)  # type: ignore[arg-type]
    with pytest.raises(MetadataError, match="dtype"):
        to_n5(VALUES.astype("f4"), store, "a", mode="a")
    assert store.items == before


@pytest.mark.parametrize(
    "region",
    [
        (slice(0, 4),) * 2,
        (slice(0, 4, 2), slice(None), slice(None)),
        (slice(18, 22), slice(None), slice(None)),
        (3, slice(None), slice(None)),
    ],
)
def test_a_region_must_fit(store: MemoryStore, array: Array, region: Any) -> None:
    with pytest.raises(ValueError, match="region"):
        to_n5(np.zeros((4, 21, 22), "u2"), store, "a", region=region)
    with pytest.raises(MetadataError, match="uint16"):
        to_n5(np.zeros((4, 21, 22)), store, "a", region=(slice(4), slice(None), slice(None)))
    np.testing.assert_array_equal(array[...], VALUES)


def test_a_region_may_name_the_first_axis_alone(store: MemoryStore, array: Array) -> None:
    to_n5(np.zeros((4, 21, 22), "u2"), store, "a", region=slice(2, 6), safe_chunks=False)
    assert not array[2:6].any()


def test_a_region_needs_an_array() -> None:
    with pytest.raises(NodeNotFoundError):
        to_n5(np.zeros(3), MemoryStore(), "a", region=(slice(3),))


def test_modes_mean_what_they_mean_to_xarray() -> None:
    store = MemoryStore()
    to_n5(VALUES, store, "a", chunks=(8, 8, 8))
    with pytest.raises(NodeExistsError):
        to_n5(VALUES, store, "a")
    to_n5(VALUES + 1, store, "a", mode="a")
    assert open_array(store, "a").chunks == (8, 8, 8)
    to_n5(VALUES + 2, store, "a", mode="r+")
    assert (open_array(store, "a")[...] == VALUES + 2).all()
    to_n5(VALUES.astype("f4"), store, "a", mode="w")
    assert open_array(store, "a").dtype == np.float32
    with pytest.raises(NodeNotFoundError):
        to_n5(VALUES, store, "b", mode="r+")


def test_options_reach_the_array() -> None:
    store = MemoryStore()
    values = np.zeros((5, 5), "f4")
    values[3] = 1
    to_n5(
        values,
        store,
        "a",
        chunks=(2, 2),
        compression={"type": "zstd", "level": 7},
        attributes={"x": 1},
        axes=["row", "column"],
        write_empty_chunks=False,
        edge_chunks="pad",
    )
    array = open_array(store, "a")
    assert array.compression.level == 7  # type: ignore[attr-defined]
    assert dict(array.attrs) == {"x": 1, "axes": ["column", "row"]}
    assert sorted(array.node.stored_chunks()) == [(1, 0), (1, 1), (1, 2)]
    assert store.items["a/2/1"][4:12] == bytes.fromhex("00000002 00000002")


def test_blocks_of_unknown_size_are_refused() -> None:
    source = da.from_array(np.arange(10), chunks=5)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        to_n5(source[source > 3], MemoryStore(), "a")


def test_a_worker_that_does_not_see_the_container_fails_and_creates_nothing(
    tmp_path: Path,
) -> None:
    total = to_n5(np.ones((4, 4)), tmp_path / "x.n5", "a", compute=False)
    assert total is not None
    (tmp_path / "x.n5").rename(tmp_path / "unmounted")
    with pytest.raises(ContainerNotVisibleError, match="shared mount"):
        total.compute()
    assert [path.name for path in tmp_path.iterdir()] == ["unmounted"]


def test_errors_travel_between_processes_whole() -> None:
    errors = [
        AlignmentError("u", 0, slice(1, 3), 2, slice(0, 4)),
        ChunkError("decode", "u", "k", "w"),
        ContainerNotVisibleError("u", "k"),
        NodeNotFoundError("u", "p", "array", "hint"),
        NodeExistsError("u", "p", "f", "h"),
    ]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


# On a cluster


def test_a_cluster_reads_and_writes(tmp_path: Path, cluster: Client) -> None:
    source = da.from_array(VALUES, chunks=(7, 9, 22))
    with cluster.as_current():
        to_n5(source + 1, tmp_path / "x.n5", "a", chunks=(4, 4, 4))
        assert_eq(from_n5(tmp_path / "x.n5", "a"), VALUES + 1)
        (tmp_path / "x.n5/a/0/0/0").write_bytes(b"damaged")
        with pytest.raises(ChunkError, match="'a/0/0/0'"):
            from_n5(tmp_path / "x.n5", "a").sum().compute()
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.filterwarnings("ignore:chunks are missing")
def test_a_warning_of_a_task_reaches_the_client(cluster: Client) -> None:
    cluster.submit(warn, "chunks are missing", UnfinishedWriteWarning, pure=False).result()
    events = [event for _, event in cluster.get_events("warn")]
    facts = [[loads(event[name]) for name in ("message", "category")] for event in events]
    assert ["chunks are missing", UnfinishedWriteWarning] in facts


# dask.array


def test_the_package_adds_its_functions_to_dasks(tmp_path: Path) -> None:
    """In any order of imports, also beside array expressions; names that Dask has stay."""
    to_n5(VALUES, tmp_path / "x.n5", "a", chunks=8)
    script = (
        "import dask, sys; dask.config.set({'array.query-planning': True})\n"
        "import dask.array; dask.array.to_n5 = 1\n"
        "import xarray_n5\n"
        "assert dask.array.from_n5 is xarray_n5.from_n5 and dask.array.to_n5 == 1\n"
        "a = xarray_n5.from_n5(sys.argv[1], 'a')\n"
        "xarray_n5.to_n5(a + 1, sys.argv[1], 'b')\n"
        "print(a[3:9].sum().compute())"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script, str(tmp_path / "x.n5")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(done.stdout) == VALUES[3:9].sum()
    np.testing.assert_array_equal(from_n5(tmp_path / "x.n5", "b"), VALUES + 1)


EXPRESSIONS = """
import sys
import warnings
from pathlib import Path

import dask_array
import numpy as np
import xarray as xr
import xarray_n5
from dask.array.core import Array

if sys.argv[2] == "registered":
    from dask_array.xarray import register

    register()
warnings.simplefilter("error")
place = Path(sys.argv[1])
values = np.arange(600, dtype="u2").reshape(20, 30)
lazy = dask_array.from_array(values - 1, chunks=(16, 15)) + 1
assert not isinstance(lazy, Array)

xarray_n5.to_n5(lazy, place / "a.n5", "now", chunks=8)
later = xarray_n5.to_n5(
    lazy, place / "a.n5", "later", chunks=12, compute=False
)
later.compute()
xarray_n5.pyramid(lazy, place / "p.n5", "image", chunks=8, levels=1)
for path in ("a.n5/now", "a.n5/later", "p.n5/image/s0"):
    np.testing.assert_array_equal(xarray_n5.from_n5(place / path).compute(), values)

dims = ("t", "x")
days = np.datetime64("2020-01-01", "ns") + np.arange(20) * np.timedelta64(1, "D")
dataset = xr.Dataset(
    {"image": (dims, lazy), "mask": (dims, lazy > 99)},
    {"t": days, "when": ("t", dask_array.from_array(days, chunks=8))},
)
more = dataset.assign_coords(t=days + np.timedelta64(20, "D"))
for name in ("d.n5", "d2.zarr"):
    dataset.n5.to_n5(place / name)
    opened = xr.open_dataset(place / name, engine="n5", chunks={})
    xr.testing.assert_equal(opened.compute(), dataset.compute())
more.n5.to_n5(place / "d.n5", mode="a", append_dim="t")
whole = xr.open_dataset(place / "d.n5", engine="n5")
xr.testing.assert_equal(whole.compute(), xr.concat([dataset, more], "t").compute())
try:
    opened.n5.to_n5(place / "d2.zarr", mode="w")
except xarray_n5.NodeExistsError as error:
    assert "computed from it" in str(error)
else:
    raise AssertionError("a Dataset was written over itself")
"""
"""Writes of arrays of the package dask-array, with and without its registration at xarray."""


@pytest.mark.parametrize("manager", some(["not registered", "registered"], 1))
def test_arrays_of_dask_array_are_dask_arrays(tmp_path: Path, manager: str) -> None:
    pytest.importorskip("dask_array")
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", EXPRESSIONS, str(tmp_path), manager],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


# What must not happen


def test_two_places_that_look_alike_are_two(tmp_path: Path) -> None:
    import fsspec
    from fsspec.implementations.dirfs import DirFileSystem

    memory = fsspec.filesystem("memory")
    folders = [f"{tmp_path.name}/{number}" for number in range(2)]
    places = [(DirFileSystem(f"/{folder}", memory), "") for folder in folders]
    source = da.from_array(VALUES, chunks=8)
    compute(*(to_n5(source, place, "a", compute=False) for place in places))
    for folder in folders:
        assert_eq(from_n5(f"memory://{folder}", "a"), VALUES)


def test_a_region_takes_either_byte_order(store: MemoryStore, array: Array) -> None:
    big = np.ones((4, 21, 22), ">u2")
    to_n5(big, store, "a", region=(slice(0, 4),), safe_chunks=False)
    assert (array[:4] == 1).all()


def test_an_open_array_takes_no_options_of_a_place(array: Array) -> None:
    with pytest.raises(TypeError, match="already open"):
        from_n5(array, "a")


def test_more_blocks_than_any_graph_holds_are_refused_with_advice(tmp_path: Path) -> None:
    create_array(tmp_path / "x.n5", shape=(1 << 62,), dtype="u1", chunks=(64,))
    for chunks in (None, 64, "auto", (1 << 20,)):
        with pytest.raises(ValueError, match="larger chunks"):
            from_n5(tmp_path / "x.n5", chunks=chunks)
    assert from_n5(tmp_path / "x.n5", chunks=1 << 58).npartitions == 16


@pytest.mark.usefixtures("array")
def test_a_region_changes_nothing_else_and_says_so(store: MemoryStore) -> None:
    for more in ({"axes": ["a", "b", "c"]}, {"attributes": {"a": 1}}, {"chunks": (1, 1, 1)}):
        with pytest.raises(ValueError, match=next(iter(more))):
            to_n5(VALUES[:4], store, "a", region=slice(4), **more)  # type: ignore[arg-type]
    for region in ("auto", {"z": slice(4)}, (slice(4), 3)):
        with pytest.raises(ValueError, match="one slice for each axis"):
            to_n5(VALUES[:4], store, "a", region=region)  # type: ignore[arg-type]
