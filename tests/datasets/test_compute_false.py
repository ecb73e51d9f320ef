"""``compute=False``: what is in memory is written at once, Dask's arrays when they are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.base import compute

from tests.support.containers import NAMES
from xarray_n5 import open_array, to_n5, verify

if TYPE_CHECKING:
    from pathlib import Path

TIMES = [1.0, 2.0, 5.0, 7.0, 8.0, 9.0]
"""Not evenly spaced: the coordinate is an array."""


def dataset(values: Any = 0) -> xr.Dataset:
    """Two variables of Dask's and one in memory, with a coordinate of each kind."""
    blocks = da.zeros((6, 8), chunks=(2, 4), dtype="i4") + values
    return xr.Dataset(
        {"v": (("t", "x"), blocks), "u": (("t", "x"), blocks + 1), "w": ("x", np.arange(8.0))},
        {"t": TIMES, "x": np.arange(8) * 2.0},
    )


def part(number: int) -> xr.Dataset:
    """The part of the values that one process computes."""
    values = dataset(np.arange(8, dtype="i4"))[["v", "u"]].drop_vars("x")
    return values.isel(t=slice(2 * number, 2 * number + 2))


def hidden(folder: Path) -> list[str]:
    """What is kept of writes in a folder."""
    return sorted(path.name for path in folder.rglob(".xn5/open-*"))


@pytest.mark.parametrize("name", NAMES.values())
def test_a_template_is_filled_by_regions_and_nothing_of_it_stays(tmp_path: Path, name: str) -> None:
    template = dataset()
    template.n5.to_n5(tmp_path / name, compute=False)
    with xr.open_dataset(tmp_path / name, engine="n5") as opened:
        xr.testing.assert_identical(opened.load(), template.assign(u=template.v).compute())
    for number in range(3):
        where = {"t": slice(2 * number, 2 * number + 2)}
        part(number).n5.to_n5(tmp_path / name, region=where)
    assert hidden(tmp_path) == []
    with xr.open_dataset(tmp_path / name, engine="n5") as opened:
        xr.testing.assert_identical(opened.load(), dataset(np.arange(8, dtype="i4")).compute())


@pytest.mark.parametrize("name", NAMES.values())
def test_what_was_deferred_is_written_when_it_is_computed(tmp_path: Path, name: str) -> None:
    whole = dataset(7)
    lazy: Any = whole.n5.to_n5(tmp_path / name, compute=False)
    receipts = lazy.compute(scheduler="sync")
    assert set(receipts.arrays) >= {"v", "u", "w", "t"}
    assert receipts.arrays["v"].receipts.sizes.sum() > 0
    assert hidden(tmp_path) == []
    with xr.open_dataset(tmp_path / name, engine="n5") as opened:
        xr.testing.assert_identical(opened.load(), whole.compute())


def test_a_template_is_not_an_unfinished_write(tmp_path: Path) -> None:
    dataset().n5.to_n5(tmp_path / "a.n5", compute=False)
    assert verify(tmp_path / "a.n5", "v").attrs["unfinished"] == []
    assert verify(tmp_path / "a.n5", "v").attrs["stray"] == []
    dataset(3).n5.to_n5(tmp_path / "a.n5", mode="w")
    assert hidden(tmp_path) == []


def test_deferred_regions_that_share_no_chunk_are_computed_together(tmp_path: Path) -> None:
    dataset().n5.to_n5(tmp_path / "a.n5", compute=False)
    parts = [
        part(number).n5.to_n5(
            tmp_path / "a.n5", region={"t": slice(2 * number, 2 * number + 2)}, compute=False
        )
        for number in range(3)
    ]
    compute(*parts)
    assert hidden(tmp_path) == []
    assert open_array(tmp_path / "a.n5", "u")[...].tolist() == [list(range(1, 9))] * 6


def test_a_template_is_resumed_by_the_same_call(tmp_path: Path) -> None:
    whole = dataset(5)
    lazy: Any = whole.n5.to_n5(tmp_path / "a.n5", compute=False)
    # Nothing of it has been written: what is stored is not its own.
    open_array(tmp_path / "a.n5", "v", mode="r+")[...] = 1
    whole.n5.to_n5(tmp_path / "a.n5", resume=True)
    xr.testing.assert_identical(
        xr.open_dataset(tmp_path / "a.n5", engine="n5").load(), whole.compute()
    )
    assert hidden(tmp_path) == []
    lazy.compute(scheduler="sync")
    assert hidden(tmp_path) == []


def test_trees_and_data_arrays_defer_alike(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"/": xr.Dataset({"k": 1}), "/a": dataset(2), "/b": dataset(3)})
    lazy: Any = tree.n5.to_n5(tmp_path / "a.n5", compute=False)
    assert open_array(tmp_path / "a.n5", "a/t")[...].tolist() == TIMES
    lazy.compute(scheduler="sync")
    opened = xr.open_datatree(tmp_path / "a.n5", engine="n5")
    xr.testing.assert_identical(opened["b"].to_dataset().load(), dataset(3).compute())
    image: Any = dataset(4)["v"]
    image.n5.to_n5(tmp_path / "b.n5", compute=False)
    assert open_array(tmp_path / "b.n5", "t")[...].tolist() == TIMES
    part(0)["v"].n5.to_n5(tmp_path / "b.n5", region={"t": slice(0, 2)})
    assert hidden(tmp_path) == []


def test_datasets_in_memory_leave_nothing_to_compute(tmp_path: Path) -> None:
    whole = dataset(1).compute()
    lazy: Any = whole.n5.to_n5(tmp_path / "a.n5", compute=False)
    xr.testing.assert_identical(xr.open_dataset(tmp_path / "a.n5", engine="n5").load(), whole)
    assert hidden(tmp_path) == []
    assert set(lazy.compute().arrays) >= {"v", "u", "w", "t"}


def test_one_deferred_array_is_a_template_too(tmp_path: Path) -> None:
    total: Any = to_n5(da.zeros(8, chunks=4, dtype="i4"), tmp_path, "a", compute=False)
    to_n5(da.ones(4, chunks=4, dtype="i4"), tmp_path, "a", region=slice(0, 4))
    assert open_array(tmp_path, "a")[...].tolist() == [1] * 4 + [0] * 4
    assert hidden(tmp_path) == []
    total.compute()
    assert (open_array(tmp_path, "a")[...] == 0).all()
