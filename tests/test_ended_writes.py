"""Who resumes a write that has ended is told that nothing is left, and not to replace it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.killing import begin
from xarray_n5 import NodeExistsError, open_array, pyramid, to_n5
from xarray_n5.copies.copying import copy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[[Path], object]

NUMBERS = da.arange(24, chunks=6, dtype="u1").reshape(4, 6)
IMAGE = xr.DataArray(NUMBERS, dims=("y", "x"), name="a")


def write_array(place: Path) -> None:
    to_n5(NUMBERS, place, "a", resume=True)


def write_dataset(place: Path) -> None:
    IMAGE.to_dataset().n5.to_n5(place, resume=True)


def write_pyramid(place: Path) -> None:
    pyramid(IMAGE, place, "p", levels=1, resume=True)


@pytest.mark.parametrize("write", [write_array, write_dataset, write_pyramid])
def test_a_write_that_has_ended_has_nothing_to_go_on_with(tmp_path: Path, write: Write) -> None:
    write(tmp_path / "b.n5")
    with pytest.raises(NodeExistsError, match="nothing of it is unfinished") as caught:
        write(tmp_path / "b.n5")
    assert "mode=" not in str(caught.value)


def test_a_copy_that_has_ended_is_known_by_its_source(tmp_path: Path) -> None:
    to_n5(NUMBERS, tmp_path / "b.n5", "a")
    copy(tmp_path / "b.n5", "", tmp_path / "c.n5", resume=True).now()
    assert copy(tmp_path / "b.n5", "", tmp_path / "c.n5", resume=True).ended
    open_array(tmp_path / "c.n5", "a", mode="r+")[...] = 0
    with pytest.raises(NodeExistsError, match="nothing of it is unfinished"):
        copy(tmp_path / "b.n5", "", tmp_path / "c.n5", resume=True)


def test_an_array_of_another_shape_is_told_to_be_another(tmp_path: Path) -> None:
    to_n5(da.ones((2, 2)), tmp_path / "b.n5", "a")
    with pytest.raises(NodeExistsError, match=r"another than \(4, 6\) uint8"):
        write_array(tmp_path / "b.n5")
    np.testing.assert_array_equal(open_array(tmp_path / "b.n5", "a")[...], np.ones((2, 2)))


@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
def test_what_another_write_left_is_not_called_finished(tmp_path: Path) -> None:
    to_n5(NUMBERS, tmp_path / "b.n5", "a", compute=False)
    begin(tmp_path / "b.n5", "a")
    with pytest.raises(NodeExistsError, match="a write of something else into it is unfinished"):
        xr.Dataset({"b": ("x", [1.0])}).n5.to_n5(tmp_path / "b.n5", resume=True)
    copy(tmp_path / "b.n5", "", tmp_path / "c.n5")
    to_n5(NUMBERS, tmp_path / "b.n5", "more")
    with pytest.raises(NodeExistsError, match="a write of something else into it is unfinished"):
        copy(tmp_path / "b.n5", "", tmp_path / "c.n5", resume=True)
