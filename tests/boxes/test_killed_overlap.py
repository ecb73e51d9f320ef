"""A killed map_overlap is resumed: only blocks that were not stored are computed again."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from subprocess import PIPE

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.support.killing import hold, kill, when
from tests.support.overlapping import BLOCKS, COUNT, prepare, smooth, smoothed, values
from tests.support.processes import Python
from xarray_n5 import open_array, verify

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    log = tmp_path / "log"
    log.mkdir()
    prepare(tmp_path / "a.n5")
    return tmp_path / "a.n5", log


def start(url: Path, log: Path, scheduler: str) -> Python:
    return Python("-m", "tests.support.overlapping", url, log, scheduler, stdout=PIPE)


def computed(log: Path) -> dict[str, list[int]]:
    """The processes by which each block was computed."""
    return {each.name: [*map(int, each.read_text().split())] for each in log.iterdir()}


def whole_blocks(url: Path) -> set[str]:
    """The blocks all of whose chunks are stored."""
    array = open_array(url, "smooth/raw")
    per_block = [b // c for b, c in zip(BLOCKS, array.chunks, strict=True)]
    found: dict[str, int] = {}
    for index in array.node.stored_chunks():
        name = "-".join(str(i // n) for i, n in zip(index, per_block, strict=True))
        found[name] = found.get(name, 0) + 1
    return {name for name, number in found.items() if number == np.prod(per_block)}


def check_result(url: Path, log: Path) -> None:
    """Check values, coordinates and digests."""
    blocks = da.from_array(values(), chunks=BLOCKS)
    wanted = da.map_overlap(smooth, blocks, depth=1, boundary="reflect", log=str(log))
    found = xr.open_dataset(url, engine="n5", group="smooth")["raw"]
    np.testing.assert_array_equal(found, wanted.compute())
    raw = xr.open_dataset(url, engine="n5", group="raw")["raw"]
    for dim in raw.dims:
        xr.testing.assert_identical(found[dim], raw[dim])
    assert set(verify(url, "smooth/raw").state.values.ravel()) == {"ok"}


def test_a_killed_process_is_resumed_by_another_one(places: tuple[Path, Path]) -> None:
    (url, log), held = places, hold(places[1], COUNT)
    with start(url, log, "threads") as writer:
        when(lambda: len(list(log.iterdir())) >= COUNT // 2, writer)
        assert kill(writer)
    held.unlink()
    done, first = whole_blocks(url), computed(log)
    assert 0 < len(done) < COUNT
    smoothed(url, log).n5.to_n5(url, "smooth", resume=True)
    again = computed(log)
    assert len(again) == COUNT
    assert {name for name, who in again.items() if who != first.get(name)} == {*again.keys() - done}
    check_result(url, log)


@pytest.mark.exhaustive
def test_a_killed_worker_costs_its_own_blocks_only(places: tuple[Path, Path]) -> None:
    (url, log), held = places, hold(places[1], COUNT // 2)
    with start(url, log, "cluster") as writer:
        assert writer.stdout is not None
        victim = json.loads(writer.stdout.readline())[0]
        when(lambda: len(list(log.iterdir())) >= COUNT // 2, writer)
        os.kill(victim, signal.SIGKILL)
        held.unlink()
        assert writer.wait() == 0
    who = computed(log)
    assert len(who) == COUNT
    # Receipts of the killed worker are lost: what it had computed is computed again, and no more.
    again = {name for name, each in who.items() if len(each) > 1}
    assert all(victim in who[name] for name in again)
    check_result(url, log)
