"""The progress bar of writes, on each of Dask's schedulers."""

from __future__ import annotations

import io
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from distributed import Client

import xarray_n5

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

X = np.arange(64, dtype="u2").reshape(8, 8)


@contextmanager
def scheduler(name: str, cluster: Client) -> Iterator[None]:
    """Compute with a scheduler of Dask's; "distributed" is a live cluster of two processes."""
    if name == "distributed":
        with Client(cluster.scheduler_info()["address"]):  # type: ignore[no-untyped-call]
            yield
    else:
        with dask.config.set(scheduler=name, num_workers=2):
            yield


def write_array(place: Path) -> None:
    xarray_n5.to_n5(da.from_array(X, chunks=4), place, "a", chunks=(2, 4))


def write_tree(place: Path) -> None:
    data = xr.DataTree.from_dict({"/inner": xr.Dataset({"a": (("y", "x"), X)})})
    data.n5.to_n5(place, encoding={"/inner": {"a": {"chunks": (2, 4)}}})


def write_pyramid(place: Path) -> None:
    xarray_n5.pyramid(X, place, "a", chunks=(4, 4), factors=2, levels=1)


WRITES = {"to_n5": (write_array, 8), "tree": (write_tree, 8), "pyramid": (write_pyramid, 5)}


@pytest.mark.matrix(3)
@pytest.mark.parametrize(
    ("name", "write"),
    [
        *(("threads", write) for write in WRITES),
        ("processes", "to_n5"),
        ("distributed", "to_n5"),
        ("distributed", "pyramid"),
    ],
)
def test_a_progress_bar_counts_chunks_on_every_scheduler(
    tmp_path: Path, cluster: Client, name: str, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.writing.progress._LOG_INTERVAL", 600.0)
    function, chunks = WRITES[write]
    out = io.StringIO()
    with scheduler(name, cluster), xarray_n5.ProgressBar(out=out) as bar:
        function(tmp_path / "a.n5")
    assert (bar.written, bar.total) == (chunks, chunks)
    assert out.getvalue().count("\n") == 1  # one at the end, before a first one is due


def test_a_resumed_write_shows_the_chunks_that_are_left(tmp_path: Path) -> None:
    calls = iter(range(8))

    def negative(block: np.ndarray) -> Any:
        if next(calls) == 5:
            raise ValueError("no more")
        return np.negative(block)

    blocks = da.from_array(X, chunks=(2, 4), name="x").map_blocks(
        negative, dtype=X.dtype, meta=X[:0, :0], name="y"
    )
    with dask.config.set(scheduler="sync"):
        bars = [xarray_n5.ProgressBar(out=io.StringIO()) for _ in range(2)]
        with pytest.raises(ValueError, match="no more"), bars[0]:
            xarray_n5.to_n5(blocks, tmp_path / "a.n5", "a", chunks=(2, 4), resume=True)
        calls = iter(range(5))
        with bars[1]:
            xarray_n5.to_n5(blocks, tmp_path / "a.n5", "a", chunks=(2, 4), resume=True)
    assert [(bar.written, bar.total, bar.kept) for bar in bars] == [(5, 8, 0), (3, 3, 5)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("final", [True, False])
def test_a_terminal_shows_one_line_and_a_file_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, final: Any
) -> None:
    monkeypatch.setattr("xarray_n5.writing.progress._INTERVAL", 0.0)
    monkeypatch.setattr("xarray_n5.writing.progress._LOG_INTERVAL", 0.0)
    for out in (terminal := Terminal(), file := io.StringIO()):
        with dask.config.set(scheduler="sync"), xarray_n5.ProgressBar(out=out, final=final):
            xarray_n5.to_n5(da.from_array(X, chunks=(2, 8)), tmp_path / "a.n5", "a", mode="w")
    for out, start in ((file, []), (terminal, ["0/4"])):
        counts = re.findall(r"\d/\d", out.getvalue())
        assert counts == [*start, "1/4", "2/4", "3/4", "4/4", *["4/4"] * final]
    assert file.getvalue().count("\n") == 4 + final
    assert terminal.getvalue().count("\n") == final
    assert terminal.getvalue().count("\r") == 6


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()])
def test_no_bar_is_drawn_where_nothing_is_written(out: io.StringIO) -> None:
    with xarray_n5.ProgressBar(out=out, final=False):
        da.ones(4).sum().compute()
    assert out.getvalue() == ""


def test_a_write_that_is_computed_later_may_be_in_the_same_bar(tmp_path: Path) -> None:
    source, place = da.from_array(X, chunks=8), tmp_path / "a.n5"
    with dask.config.set(scheduler="sync"), xarray_n5.ProgressBar(out=io.StringIO()) as bar:
        for compute in (True, False):
            written: Any = xarray_n5.to_n5(source, place, "a", mode="w", compute=compute)
        written.compute()
    assert (bar.written, bar.total) == (1, 1)


def test_shards_are_counted_as_shards(tmp_path: Path) -> None:
    with xarray_n5.ProgressBar(out=io.StringIO()) as bar:
        xarray_n5.to_n5(X, tmp_path / "a.zarr", "a", format="zarr3", chunks=2, shards=4)
    assert (bar.total, bar.units, bar.arrays) == (4, "shards", 1)
