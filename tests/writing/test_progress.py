"""The progress bar of writes, on each of Dask's schedulers."""

from __future__ import annotations

import io
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
    assert out.getvalue().startswith(f"[{'#' * 20}] 100%, {chunks}/{chunks} chunks, ")
    assert out.getvalue().count("\n") == 1  # one at the end, before a first one is due


def test_an_event_that_is_late_is_not_counted(
    tmp_path: Path, cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    receive = xarray_n5.ProgressBar._on_event

    def note(self: xarray_n5.ProgressBar, event: Any) -> None:
        events.append(event)
        receive(self, event)

    monkeypatch.setattr(xarray_n5.ProgressBar, "_on_event", note)
    out = io.StringIO()
    with scheduler("distributed", cluster), xarray_n5.ProgressBar(out=out) as bar:
        write_array(tmp_path / "a.n5")
    shown = out.getvalue()
    monkeypatch.setattr("xarray_n5.writing.progress._LOG_INTERVAL", 0.0)
    receive(bar, events[-1])
    assert (bar.written, bar.total, out.getvalue()) == (8, 8, shown)


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
    assert "3/3 chunks (5 kept), " in bars[1]._describe()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_copy_after_a_repair_counts_what_it_writes(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 9, (32, 32)).astype("u2")
    xarray_n5.to_n5(values, tmp_path / "a.n5", "x", chunks=8)
    copied: Any = {"source_path": "x", "path": "x", "shards": 16, "resume": True}
    xarray_n5.copy(tmp_path / "a.n5", tmp_path / "b.zarr", format="zarr3", **copied)
    (tmp_path / "b.zarr/x/c/0/0").write_bytes(b"damaged")
    xarray_n5.repair(tmp_path / "b.zarr", "x")
    with xarray_n5.ProgressBar(out=io.StringIO()) as bar:
        xarray_n5.copy(tmp_path / "a.n5", tmp_path / "b.zarr", format="zarr3", **copied)
    assert (bar.written, bar.total, bar.kept) == (1, 1, 3)


def test_a_terminal_shows_one_line_and_a_file_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.writing.progress._INTERVAL", 0.0)
    monkeypatch.setattr("xarray_n5.writing.progress._LOG_INTERVAL", 0.0)
    for out in (terminal := Terminal(), file := io.StringIO()):
        with dask.config.set(scheduler="sync"), xarray_n5.ProgressBar(out=out):
            xarray_n5.to_n5(da.from_array(X, chunks=(2, 8)), tmp_path / "a.n5", "a", mode="w")
    lines = file.getvalue().splitlines()
    assert [line.partition(", ")[2].partition(" ")[0] for line in lines] == [
        *("1/4", "2/4", "3/4", "4/4", "4/4")
    ]
    assert [line.endswith(" left") for line in lines] == [True] * 3 + [False] * 2
    assert terminal.getvalue().count("\r") == 6  # and one when it began
    assert terminal.getvalue().count("\n") == 1


def test_a_bar_that_is_not_kept_leaves_an_empty_line(tmp_path: Path) -> None:
    with xarray_n5.ProgressBar(out=(out := Terminal()), final=False):
        write_array(tmp_path / "a.n5")
    assert "/8 chunks" in out.getvalue()
    assert out.getvalue().rpartition("\r")[2] == ""


def test_shards_are_counted_as_shards(tmp_path: Path) -> None:
    with xarray_n5.ProgressBar(out=io.StringIO()) as bar:
        xarray_n5.to_n5(X, tmp_path / "a.zarr", "a", format="zarr3", chunks=2, shards=4)
    assert (bar.total, bar.units, bar.arrays) == (4, "shards", 1)


def test_no_bar_is_drawn_where_nothing_is_written() -> None:
    with xarray_n5.ProgressBar(out=(out := io.StringIO())):
        da.ones(4).sum().compute()
    assert out.getvalue() == ""
