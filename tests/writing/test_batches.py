"""Large writes are submitted in batches: the memory of clients and schedulers stays flat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.callbacks import Callback

import xarray_n5
from tests.support.containers import NAMES
from xarray_n5.writing import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES = np.arange(12 * 10, dtype="u2").reshape(12, 10)
"""6 x 5 chunks of 2 x 2."""


@pytest.fixture
def submitted() -> Iterator[list[int]]:
    """The numbers of blocks that were submitted, and have been written, in each computation."""
    counts: list[int] = []

    def start(graph: Any) -> None:
        counts.append(sum(str(key).startswith("('write_n5-") for key in graph))

    with dask.config.set(scheduler="synchronous"), Callback(start=start):
        yield counts


def lazy() -> Any:
    return da.from_array(VALUES, chunks=2, name="values") + 0


def blockwise() -> Any:
    """Values that tasks make, in a graph without a task for each block."""
    made = da.ones((12, 10), chunks=2, dtype="u2", name="made")
    return made.map_blocks(np.multiply, 7, dtype="u2", name="sevens")


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", NAMES.values())
@pytest.mark.parametrize(("size", "expected"), [(7, [7, 7, 7, 7, 2]), (30, [30]), (28, [28, 2])])
def test_no_more_blocks_than_a_batch_are_submitted(
    tmp_path: Path, submitted: list[int], name: str, size: int, expected: list[int]
) -> None:
    with xarray_n5.set_options(batch_size=size):
        report: Any = xarray_n5.to_n5(blockwise(), tmp_path / name, "a")
    assert submitted == expected
    np.testing.assert_array_equal(xarray_n5.open_array(tmp_path / name, "a")[...], 7)
    whole: Any = xarray_n5.to_n5(blockwise(), tmp_path / name, "b")
    columns = report.to_datatree(), whole.to_datatree()
    np.testing.assert_array_equal(*[tree["digest"] for tree in columns])
    assert report.written == 30


def test_each_variable_has_batches(tmp_path: Path, submitted: list[int]) -> None:
    small = da.zeros((4, 2), chunks=2, dtype="u1")
    dataset = xr.Dataset({"large": (("y", "x"), blockwise()), "small": (("v", "u"), small)})
    with xarray_n5.set_options(batch_size=10):
        report = dataset.n5.to_n5(tmp_path / "a.n5")
    assert sorted(submitted) == [2, 10, 10, 10]
    assert set(report.arrays) == {"large", "small"}
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "a.n5", engine="n5"), dataset)


def test_small_variables_are_submitted_together_up_to_a_batch(
    tmp_path: Path, submitted: list[int]
) -> None:
    names = ("a", "b", "c", "d")
    small = {name: ("x", da.full(6, 3, chunks=2, dtype="u1", name=name)) for name in names}
    with xarray_n5.set_options(batch_size=7):
        report = xr.Dataset(small).n5.to_n5(tmp_path / "a.n5")
    assert submitted == [6, 6]
    assert list(report.arrays) == list(names)
    assert (xr.open_dataset(tmp_path / "a.n5", engine="n5").to_array() == 3).all()


def test_large_writes_have_batches_by_themselves(
    tmp_path: Path, submitted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_LARGE", 20)
    monkeypatch.setattr(run, "_BATCH", 16)
    xarray_n5.to_n5(blockwise(), tmp_path / "a.n5", "a")
    assert submitted == [16, 14]
    stored = xr.open_dataset(tmp_path / "a.n5", engine="n5", group="a", chunks={})
    stored.n5.to_n5(tmp_path / "b.zarr")
    assert submitted[2:] == [16, 14]


def test_an_interrupted_batch_is_resumed(tmp_path: Path, submitted: list[int]) -> None:
    count = []

    def fail_late(block: np.ndarray) -> np.ndarray:
        count.append(1)
        if len(count) == 25:
            raise RuntimeError("killed")
        return block

    source = blockwise().map_blocks(fail_late, dtype="u2", name="fails-late")
    with pytest.raises(RuntimeError, match="killed"), xarray_n5.set_options(batch_size=10):
        xarray_n5.to_n5(source, tmp_path / "a.n5", "a", resume=True)
    assert submitted == [10, 10, 10]
    with xarray_n5.set_options(batch_size=4):
        xarray_n5.to_n5(source, tmp_path / "a.n5", "a", resume=True)
    assert submitted[3:] == [4, 3]
    assert len(count) == 25 + 7
    np.testing.assert_array_equal(xarray_n5.open_array(tmp_path / "a.n5", "a")[...], 7)


@pytest.mark.parametrize(
    "select", [lambda x: x.rechunk(3).rechunk(2), lambda x: x[1:]], ids=["rechunk", "slice"]
)
def test_blocks_that_depend_on_each_other_are_one_graph(
    tmp_path: Path, submitted: list[int], select: Any
) -> None:
    """A slice that begins in a chunk is rechunked, so that no tasks share a chunk."""
    source = select(lazy())
    warns = pytest.warns(UserWarning, match="the 30 blocks to write .* cannot be divided")
    with warns, xarray_n5.set_options(batch_size=10):
        xarray_n5.to_n5(source, tmp_path / "a.n5", "a", chunks=2)
    assert submitted == [30]
    stored = xarray_n5.open_array(tmp_path / "a.n5", "a")[...]
    np.testing.assert_array_equal(stored, select(da.from_array(VALUES, chunks=2)))


@pytest.mark.parametrize("size", [0, -1, True, 2.5, "auto"])
def test_invalid_batches_are_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="batch_size"):
        xarray_n5.set_options(batch_size=size)
    with pytest.raises(TypeError, match="batch_size"):
        xarray_n5.set_options(batchsize=size)  # type: ignore[call-arg]


def test_the_graph_of_a_batch_does_not_grow_with_the_job(tmp_path: Path) -> None:
    sizes = []

    def start(graph: Any) -> None:
        sizes.append(len(graph))
        raise RuntimeError("enough")

    for count in (10**3, 10**6):
        source = da.ones(count, chunks=1, dtype="u1").map_blocks(np.negative, dtype="u1")
        stops = pytest.raises(RuntimeError, match="enough")
        with Callback(start=start), stops, xarray_n5.set_options(batch_size=100):
            xarray_n5.to_n5(source, tmp_path / f"{count}.n5", "a")
    assert sizes[0] == sizes[1] < 250
