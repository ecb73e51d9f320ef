"""A write is refused if its tasks read what it replaces."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.base import optimize
from dask.delayed import delayed as delay

from tests.support.containers import NAMES, contents
from tests.support.memory_store import MemoryStore
from xarray_n5 import NodeExistsError, from_n5, open_array, to_n5
from xarray_n5.formats.containers import open_store
from xarray_n5.writing.inputs import check_independent, objects_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEVENS = np.full((10, 10), 7, "i4")

ONES: Any = da.ones((10, 10), chunks=5, dtype="i4")


def added(block: np.ndarray, stored: Any) -> Any:
    return block + np.asarray(stored[:5, :5])


def in_tasks_by_hand(path: Path) -> Any:
    keys = [("tasks", i, j) for i in range(2) for j in range(2)]
    tasks: dict[Any, Any] = dict.fromkeys(keys, (np.ones, (5, 5), "i4"))
    tasks[keys[-1]] = (added, np.ones((5, 5), "i4"), open_array(path, "a"))
    return da.Array(tasks, "tasks", ((5, 5), (5, 5)), dtype="i4")


def through_a_link(path: Path) -> Any:
    link = path.parent / f"link{path.suffix}"
    if not link.exists():
        link.symlink_to(path)
    return from_n5(link, "a")


def mapped(function: Any, *arguments: Any, **more: Any) -> Any:
    return ONES.map_blocks(function, *arguments, dtype="i4", meta=SEVENS[:0], **more)


def opened(path: Path, **more: Any) -> xr.DataArray:
    return xr.open_dataset(path, engine="n5", **more)["a"]


READERS: dict[str, Callable[[Path], Any]] = {
    "argument": lambda path: mapped(added, open_array(path, "a")),
    "keyword": lambda path: mapped(added, stored=open_array(path, "a")),
    "partial": lambda path: mapped(functools.partial(added, stored=open_array(path, "a"))),
    "delayed": lambda path: da.from_delayed(
        delay(np.asarray)(open_array(path, "a")), SEVENS.shape, "i4"
    ).rechunk(5),
    "optimised": lambda path: optimize(from_n5(path, "a")[::-1].rechunk(5) + 1)[0],
    "engine": lambda path: opened(path, chunks={}).data,
    "chunked later": lambda path: opened(path)[::-1].chunk(5).data,
    "halos": lambda path: opened(path, chunks={}).n5.map_overlap(np.negative, depth=1).data,
    "tasks by hand": in_tasks_by_hand,
    "link": through_a_link,
}

INTO: dict[str, dict[str, Any]] = {
    "w": {"mode": "w"},
    "r+": {"mode": "r+"},
    "region": {"region": (slice(0, 10), slice(0, 10))},
}


def stored(tmp_path: Path, form: Any) -> Path:
    variable = ("y", "x"), da.from_array(SEVENS, chunks=5)
    xr.Dataset({"a": variable}).n5.to_n5(tmp_path / NAMES[form], format=form)
    return tmp_path / NAMES[form]


@pytest.mark.matrix(8)
@pytest.mark.parametrize("into", INTO)
@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize("reader", READERS)
def test_a_write_does_not_replace_what_it_reads(
    tmp_path: Path, reader: str, form: str, into: str
) -> None:
    path = stored(tmp_path, form)
    with pytest.raises(NodeExistsError) as error:
        to_n5(READERS[reader](path), path, "a", **INTO[into])
    assert error.value.path == "a"
    np.testing.assert_array_equal(open_array(path, "a")[...], SEVENS)
    to_n5(READERS[reader](path), path, "b", mode="w")


ZARR: dict[str, Callable[[Any, Path], Any]] = {
    "array": lambda zarr, path: da.from_array(zarr.open_array(path / "a", mode="r"), chunks=5),
    "dask": lambda _, path: da.from_zarr(str(path), component="a") + 1,
    "fsspec": lambda zarr, path: da.from_array(zarr.open_array(f"file://{path}/a"), chunks=5),
    "engine": lambda _, path: (
        xr.open_dataset(path, engine="zarr", consolidated=False, chunks={})["a"].data
    ),
}


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
@pytest.mark.parametrize("reader", ZARR)
def test_arrays_of_zarr_are_recognised(tmp_path: Path, reader: str, form: str) -> None:
    path, zarr = stored(tmp_path, form), pytest.importorskip("zarr")
    for into in INTO.values():
        with pytest.raises(NodeExistsError):
            to_n5(ZARR[reader](zarr, path), path, "a", **into)
    to_n5(ZARR[reader](zarr, path), tmp_path / "b.n5", "a")


def test_datasets_of_h5py_are_recognised(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"], file["b"] = SEVENS, SEVENS
        file["hard"] = file["a"]
    place = open_array(tmp_path / "a.h5", "a").node.identity
    with h5py.File(tmp_path / "a.h5") as file:
        for name in ("a", "hard"):
            with pytest.raises(NodeExistsError):
                check_independent(da.from_array(file[name], chunks=5), [place])
        check_independent(da.from_array(file["b"], chunks=5), [place])
        closed: Any = da.from_array(file["a"], chunks=5)
    check_independent(closed, [place])


@pytest.mark.parametrize("inner", ["a", "inner/a"])
def test_a_read_inside_a_replaced_node_is_refused(tmp_path: Path, inner: str) -> None:
    to_n5(SEVENS, tmp_path / "c.n5", f"g/{inner}", chunks=5)
    source, store = from_n5(tmp_path / "c.n5", f"g/{inner}"), open_store(str(tmp_path / "c.n5"))
    for path in ("g", f"g/{inner}"):
        with pytest.raises(NodeExistsError):
            check_independent(source, [store.identity(path)])
    for path in ("", "h", "g/b"):
        check_independent(source, [store.identity(f"{path}/x")])


def test_of_emptied_groups_only_their_arrays_are_replaced(tmp_path: Path) -> None:
    to_n5(SEVENS, tmp_path / "c.n5", "g/inner/a", chunks=5)
    source, store = from_n5(tmp_path / "c.n5", "g/inner/a"), open_store(str(tmp_path / "c.n5"))
    check_independent(source, [], groups=[store.identity("g")])
    with pytest.raises(NodeExistsError):
        check_independent(source, [], groups=[store.identity("g/inner")])


def swapped(path: Path) -> xr.Dataset:
    return xr.open_dataset(path, engine="n5", chunks={}).rename(a="b", b="a")


def of_a_node(path: Path) -> xr.DataTree:
    """Values of a node, which are computed from those of another one."""
    lazy: Any = xr.open_datatree(path, engine="n5", chunks={})
    return xr.DataTree.from_dict({"/p": lazy["q"].to_dataset(), "/q": lazy["p"].to_dataset() + 1})


OBJECTS: dict[str, tuple[Any, Callable[[Path], Any], list[dict[str, Any]]]] = {
    "a variable": (
        xr.Dataset({"a": ("x", [1, 2])}),
        lambda path: xr.open_dataset(path, engine="n5", chunks={}) + 1,
        [{"mode": "w"}, {"mode": "a"}],
    ),
    "swapped variables": (
        xr.Dataset({"a": ("x", [1, 2]), "b": ("x", [3, 4])}),
        swapped,
        [{"mode": "w"}, {"mode": "a"}, {"mode": "r+"}, {"region": {"x": slice(0, 2)}}],
    ),
    "another node": (
        xr.DataTree.from_dict({f"/{n}": xr.Dataset({"v": ("x", [1, 2])}) for n in "pq"}),
        of_a_node,
        [{"mode": "w"}],
    ),
    "levels": (
        xr.DataTree.from_dict(
            {f"/s{n}": xr.Dataset({"v": ("x", np.arange(8 >> n))}) for n in range(2)}
        ),
        lambda path: xr.open_datatree(path, engine="n5", chunks={}),
        [{"mode": "w"}, {"mode": "a"}],
    ),
}


@pytest.mark.parametrize("name", ["c.n5", "c.zarr"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_datasets_and_trees_do_not_replace_what_they_read(
    tmp_path: Path, kind: str, name: str
) -> None:
    before, lazy, ways = OBJECTS[kind]
    before.n5.to_n5(tmp_path / name)
    files = contents(tmp_path)
    for options in ways:
        with pytest.raises(NodeExistsError, match="computed from"):
            lazy(tmp_path / name).n5.to_n5(tmp_path / name, **options)
        assert contents(tmp_path) == files
    changed = lazy(tmp_path / name)
    changed.n5.to_n5(tmp_path / f"other.{name}")
    loaded = changed.load()
    loaded.n5.to_n5(tmp_path / name, mode="w")
    is_tree = isinstance(loaded, xr.DataTree)
    stored: Any = (xr.open_datatree if is_tree else xr.open_dataset)(tmp_path / name, engine="n5")
    xr.testing.assert_identical(stored.load(), loaded)


def test_stores_in_memory_are_told_apart(tmp_path: Path) -> None:
    store, same_name_elsewhere = MemoryStore(), MemoryStore()
    to_n5(SEVENS, store, "a", chunks=5)
    to_n5(SEVENS, same_name_elsewhere, "a", chunks=5)
    with pytest.raises(NodeExistsError):
        to_n5(from_n5(store, "a"), store, "a", mode="w")
    to_n5(from_n5(store, "a"), same_name_elsewhere, "a", mode="w")
    to_n5(from_n5(store, "a"), tmp_path, "a", mode="w")


def test_the_cost_does_not_depend_on_the_number_of_blocks() -> None:
    counts = set()
    for size in (10, 200_000):
        ones: Any = da.ones(size, chunks=1)
        source = ones.map_blocks(lambda block, _: block, b"seven", dtype="f8") + ones
        check_independent(source, [("local", "/elsewhere")])
        assert not any(layer.is_materialized() for layer in source.dask.layers.values())
        counts.add(len([*objects_in(source.dask)]))
    assert len(counts) == 1


class Unpicklable:
    """An argument that is never to be pickled."""

    def __reduce__(self) -> Any:
        raise AssertionError


def test_tasks_that_hold_each_other_are_searched_once() -> None:
    cycle: list[Any] = [Unpicklable()]
    cycle.append({"again": cycle, "pair": (cycle, [cycle])})
    assert [*objects_in({("x", i): (cycle, i) for i in range(1000)})] == cycle[:1]


def test_an_appended_part_may_be_computed_from_what_is_there(tmp_path: Path) -> None:
    xr.Dataset({"v": ("x", np.arange(10.0))}).n5.to_n5(tmp_path, encoding={"v": {"chunks": 4}})
    lazy = xr.open_dataset(tmp_path, engine="n5", chunks={})
    (lazy + 10).n5.to_n5(tmp_path, append_dim="x")
    assert open_array(tmp_path, "v")[...].tolist() == list(range(20))
