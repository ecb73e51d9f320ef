"""A write never reads what it replaces: whatever opened it, however it hides in the graph."""

from __future__ import annotations

import threading
from abc import ABC
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from xarray_n5 import NodeExistsError, from_n5, open_array, to_n5
from xarray_n5.formats.containers import open_store
from xarray_n5.stores import MemoryStore
from xarray_n5.writing.self_reads import check_independent, reads_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

SEVENS = np.full((10, 10), 7, "i4")

ONES: Any = da.ones((10, 10), chunks=5, dtype="i4")


class Handle:
    """A reader that cannot be pickled, as those of many C libraries."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __reduce__(self) -> Any:
        raise TypeError("no pickling")


class Opaque:
    """The same, and nothing shows what it reads."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        raise TypeError("no pickling")


def beside_h5py(place: Path) -> Iterator[Any]:
    h5py = pytest.importorskip("h5py")
    with h5py.File(place.parent / "elsewhere.h5", "w") as file:
        file["x"] = np.ones((10, 10), "i4")
        source: Any = da.from_array(file["x"], chunks=5)
        yield source + from_n5(place, "a")


def through_zarr(place: Path) -> Iterator[Any]:
    zarr = pytest.importorskip("zarr")
    yield da.from_array(zarr.open_array(str(place / "a"), mode="r", zarr_format=2), chunks=5)


def through_dask_and_zarr(place: Path) -> Iterator[Any]:
    pytest.importorskip("zarr")
    yield da.from_zarr(str(place), component="a") + 1


def through_tensorstore(place: Path) -> Iterator[Any]:
    tensorstore = pytest.importorskip("tensorstore")
    spec: Any = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{place}/a"}}
    stored = tensorstore.open(spec).result()

    def read(block: np.ndarray, each: Any) -> Any:
        return block + each[:5, :5].read().result()

    yield ONES.map_blocks(read, stored, dtype="i4", meta=SEVENS[:0])


def in_a_closure(place: Path) -> Iterator[Any]:
    array = open_array(place, "a")
    yield ONES.map_blocks(lambda block: block + array[:5, :5], dtype="i4")


def by_a_path_in_a_closure(place: Path) -> Iterator[Any]:
    path = str(place / "a")
    yield ONES.map_blocks(lambda block: block + open_array(path)[:5, :5], dtype="i4")


def _of_module(block: np.ndarray) -> np.ndarray:
    found: np.ndarray = block + AT_MODULE_ARRAY[:5, :5]
    return found


AT_MODULE_ARRAY: Any = None


def in_a_global(place: Path) -> Iterator[Any]:
    global AT_MODULE_ARRAY  # noqa: PLW0603 - that is what is tried
    AT_MODULE_ARRAY = open_array(place, "a")
    yield ONES.map_blocks(_of_module, dtype="i4", meta=SEVENS[:0])


def in_what_does_not_pickle(place: Path) -> Iterator[Any]:
    handle = Handle(open_array(place, "a"))
    yield ONES.map_blocks(lambda block, h: block + h.array[:5, :5], handle, dtype="i4")


def through_a_link(place: Path) -> Iterator[Any]:
    link = place.parent / "link"
    if not link.exists():
        link.symlink_to(place)
    yield from_n5(link, "a", format="zarr2")[::-1]


def in_a_method(place: Path) -> Iterator[Any]:
    array = open_array(place, "a")

    class Source:
        shape, ndim, dtype = (10, 10), 2, np.dtype("i4")

        def __getitem__(self, index: Any) -> Any:
            return array[index]

    yield da.from_array(Source(), chunks=5)


def in_a_class_attribute(place: Path) -> Iterator[Any]:
    class Added:
        array = open_array(place, "a")

        def __call__(self, block: np.ndarray) -> Any:
            return block + self.array[:5, :5]

    yield ONES.map_blocks(Added(), dtype="i4", meta=SEVENS[:0])


def in_one_of_many_tasks(place: Path) -> Iterator[Any]:
    tasks: Any = {("many", i, 0): (np.ones, (1, 10), "i4") for i in range(20_000)}
    tasks["many", 7, 0] = (lambda array: array[:1], open_array(place, "a"))
    chunks = ((1,) * 20_000, (10,))
    yield da.Array(tasks, "many", chunks, dtype="i4").rechunk((5_000, 10))[:10]


@dataclass(slots=True)
class Keyed:
    """A value whose slots have names that those of Dask's tasks have, too."""

    key: Any
    _token: Any = None


def in_slots(place: Path) -> Iterator[Any]:
    for held in (Keyed(str(place / "a")), Keyed(0, open_array(place, "a"))):
        yield ONES.map_blocks(lambda block, _: block, held, dtype="i4", meta=SEVENS[:0])


def in_a_key_of_a_dictionary(place: Path) -> Iterator[Any]:
    yield ONES.map_blocks(
        lambda block, _: block, {open_array(place, "a"): 1}, dtype="i4", meta=SEVENS[:0]
    )


class Named(str):  # noqa: SLOT000 - so that it has attributes
    """A string with an attribute."""


def by_other_strings(place: Path) -> Iterator[Any]:
    path = str(place / "a")
    named = Named(path)
    named.more = 1  # type: ignore[attr-defined]
    for text in (np.str_(path), named, path.encode()):
        yield ONES.map_blocks(lambda block, _: block, [text], dtype="i4", meta=SEVENS[:0])


READERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    each.__name__: each
    for each in (
        *(beside_h5py, through_zarr, through_dask_and_zarr, through_tensorstore, in_a_closure),
        *(by_a_path_in_a_closure, in_a_global, in_what_does_not_pickle, through_a_link),
        *(in_a_method, in_a_class_attribute, in_one_of_many_tasks, in_slots),
        *(in_a_key_of_a_dictionary, by_other_strings),
    )
}

INTO: dict[str, dict[str, Any]] = {
    "w": {"mode": "w"},
    "r+": {"mode": "r+"},
    "region": {"region": (slice(0, 10), slice(0, 10))},
}


@pytest.mark.matrix(8)
@pytest.mark.parametrize("into", INTO)
@pytest.mark.parametrize("reader", READERS)
def test_a_write_does_not_replace_what_it_reads(tmp_path: Path, reader: str, into: str) -> None:
    place = tmp_path / "c.zarr"
    to_n5(SEVENS, place, "a", chunks=5, format="zarr2")
    for source in READERS[reader](place):
        with pytest.raises(NodeExistsError, match="computed from"):
            to_n5(source, place, "a", **INTO[into])
    np.testing.assert_array_equal(open_array(place, "a")[...], SEVENS)
    for source in READERS[reader](place):
        to_n5(source, place, "b", mode="w", format="zarr2")  # beside it, that is as it should be


@pytest.mark.matrix(4)
@pytest.mark.parametrize("mode", ["w", "a"])
@pytest.mark.parametrize("engine", ["zarr", "h5netcdf", "netcdf4", "n5"])
def test_a_dataset_does_not_replace_what_an_engine_reads(
    tmp_path: Path, engine: Any, mode: Any
) -> None:
    pytest.importorskip({"netcdf4": "netCDF4", "n5": "h5py"}.get(engine, engine))
    hdf5 = "4" in engine or engine == "h5netcdf"
    place = tmp_path / ("c.h5" if hdf5 else "c.zarr")
    before = xr.Dataset({"a": (("y", "x"), SEVENS)})
    if hdf5:
        before.to_netcdf(place, engine=engine)
    else:
        before.n5.to_n5(place)
    more: dict[str, Any] = {"consolidated": False, "zarr_format": 2} if engine == "zarr" else {}
    with xr.open_dataset(place, engine=engine, chunks={}, **more) as lazy:
        if not hdf5:  # of HDF5 files, HDF5 itself refuses to be opened twice
            with pytest.raises(NodeExistsError, match="computed from"):
                lazy.n5.to_n5(place, mode=mode)
        with pytest.raises(NodeExistsError, match="computed from"):
            check_independent(lazy["a"].data, [open_store(str(place)).identity("a")])
        lazy.n5.to_n5(tmp_path / "other.zarr", mode=mode)
    with xr.open_dataset(place, engine=engine, **more) as found:
        np.testing.assert_array_equal(found["a"], SEVENS)


def test_what_hides_its_files_replaces_nothing(tmp_path: Path) -> None:
    hidden = ONES.map_blocks(lambda block, _: block, Opaque(), dtype="i4")
    to_n5(hidden, tmp_path, "a")
    for options in INTO.values():
        with pytest.raises(NodeExistsError, match="Opaque reads are unknown"):
            to_n5(hidden, tmp_path, "a", **options)
    to_n5(hidden, tmp_path, "b", mode="w")


class Counted:
    """An argument that counts how often it is pickled."""

    pickled = 0

    def __reduce__(self) -> Any:
        Counted.pickled += 1
        return Counted, ()


def test_replacing_an_array_does_not_pickle_the_graph(tmp_path: Path) -> None:
    to_n5(np.zeros(400, "u1"), tmp_path, "a", chunks=1)
    tasks = {("x", i): (lambda block, _: block, SEVENS[0, :1], Counted()) for i in range(400)}
    found = reads_of(tasks, {"a"})
    assert (found.reads, found.hidden) == ((), ())
    assert Counted.pickled < 50


def test_a_path_in_one_of_many_tasks_is_found(tmp_path: Path) -> None:
    tasks = {("x", i): (open_array, str(tmp_path / "a"), [{"b": i}]) for i in range(20_000)}
    assert {read.location for read in reads_of(tasks, {"a"}).reads} == {str(tmp_path / "a")}


def test_locks_and_arrays_in_memory_hide_nothing(tmp_path: Path) -> None:
    lock, store = threading.Lock(), MemoryStore()
    to_n5(SEVENS, store, "a")

    def locked(block: np.ndarray) -> np.ndarray:
        with lock:
            return block

    for _ in range(2):
        lazy: Any = from_n5(store, "a") + da.from_array(SEVENS, chunks=5)
        to_n5(lazy.map_blocks(locked, dtype="i4"), tmp_path, "a", mode="w")


def test_classes_of_a_notebook_hide_nothing(tmp_path: Path) -> None:
    @dataclass
    class Settings(ABC):  # noqa: B024 - its machinery cannot be pickled
        sigma: float = 1.0
        names: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({"a": 1}))

        @cached_property
        def width(self) -> float:
            return 3 * self.sigma

        @staticmethod
        def apply(block: np.ndarray) -> np.ndarray:
            return block

    class Computed:
        __dict__ = property(lambda _: 1 / 0)  # type: ignore[assignment]

    for held in (Settings(), Computed()):
        lazy = ONES.map_blocks(lambda b, h: getattr(h, "apply", np.asarray)(b), held, dtype="i4")
        for _ in range(2):
            to_n5(lazy, tmp_path, "a", mode="w")


def test_an_appended_part_may_be_computed_from_what_is_there(tmp_path: Path) -> None:
    xr.Dataset({"v": ("x", np.arange(10.0))}).n5.to_n5(tmp_path, encoding={"v": {"chunks": 4}})
    lazy = xr.open_dataset(tmp_path, engine="n5", chunks={})
    (lazy + 10).n5.to_n5(tmp_path, append_dim="x")
    assert open_array(tmp_path, "v")[...].tolist() == list(range(20))
