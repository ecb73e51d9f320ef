"""Writes on several hosts, made of network namespaces: one may lack the mount, or the scheduler go.

As a script, it is the client on the first host: python -m tests.writing.test_several_hosts.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any, cast

import dask.array as da
import numpy as np
import pytest

from tests.support.hosts import Hosts, cluster, hosts, running
from tests.support.killing import hold, slowly
from tests.writing.test_killed_writes import computed, files
from xarray_n5 import Array, open_array, to_n5, verify
from xarray_n5.errors import N5Error

BLOCKS, ROWS, COLUMNS = 64, 10, 100

NUMBERS = np.arange(1, BLOCKS * ROWS * COLUMNS + 1, dtype="u4").reshape(-1, COLUMNS)

CHUNKS = (5, 50)
"""Four in a block."""

pytestmark = pytest.mark.exhaustive

__all__ = ["hosts"]  # a fixture


# On the hosts


def source(log: str | Path, pause: float) -> da.Array:
    """Numbers from 1 on, in blocks that need nothing of each other: every worker gets some."""
    numbers = da.arange(1, NUMBERS.size + 1, chunks=ROWS * COLUMNS, dtype="u4")
    blocks = numbers.reshape(NUMBERS.shape)
    name = f"slow-{log}"
    slow: Any = blocks.map_blocks(slowly, str(log), pause, dtype="u4", name=name, meta=blocks)
    return cast("da.Array", slow)


def listing(folder: str) -> list[str]:
    """Return all that this host sees in a folder."""
    return sorted(str(each.relative_to(folder)) for each in Path(folder).rglob("*"))


def main(scheduler: str, shared: str, log: str, resume: str) -> None:
    """Write; tell who wrote or what failed, and what the workers see afterwards."""
    from distributed import Client

    told: dict[str, Any] = {"error": "", "writers": []}
    with Client(scheduler, timeout=120) as client:  # type: ignore[no-untyped-call]
        client.wait_for_workers(2, timeout=120)
        try:
            data = source(log, pause=0.05)
            done: Any = to_n5(data, f"{shared}/x.n5", "a", chunks=CHUNKS, resume=resume == "resume")
            told["writers"] = sorted(done.arrays[""].receipts.names)
        except N5Error as error:
            told["error"] = f"{type(error).__name__}: {error}"
            Path(log).with_name("held").unlink()
        workers = client.scheduler_info()["workers"]
        # A task of each worker's only thread: nothing is written while it looks, nor afterwards.
        seen = {
            worker: client.submit(listing, shared, workers=[worker], pure=False)
            for worker in workers
        }
        told["seen"] = {worker: future.result(timeout=240) for worker, future in seen.items()}
    print(json.dumps(told))  # noqa: T201


# What is stored


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What all hosts see, but for `shared` in it."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "log").mkdir()
    return tmp_path


def is_whole(array: Array, index: tuple[int, ...]) -> bool:
    return np.array_equal(array.read_chunk(index), NUMBERS[array.grid.slices(index)])


def finished(place: Path) -> dict[str, tuple[int, int]]:
    """Return what changes when a chunk is written again, for all that are stored and right."""
    array = open_array(place, "a", mode="r+")
    whole = [
        array.node.key(index) for index in array.node.stored_chunks() if is_whole(array, index)
    ]
    facts = {key: (place / key).stat() for key in whole}
    return {key: (found.st_ino, found.st_mtime_ns) for key, found in facts.items()}


def others(place: Path) -> list[str]:
    """Return the names of all files that are no whole chunk."""
    names = (key.rpartition("/")[2] for key in files(place).keys() - finished(place).keys())
    return sorted(name.partition("-")[0] for name in names)


def check_ended(folder: Path, before: dict[str, tuple[int, int]]) -> None:
    """Check that all is there, as an uninterrupted write leaves it, and what was stays."""
    place, other = folder / "shared/x.n5", folder / "other"
    np.testing.assert_array_equal(open_array(place, "a")[...], NUMBERS)
    hidden = {path.name for path in place.rglob("*") if path.name.startswith(".")}
    assert hidden <= {".xn5"}  # of its row
    assert not list(place.rglob("*.partial"))
    other.mkdir()
    to_n5(source(other, pause=0), other / "x.n5", "a", chunks=CHUNKS)
    assert files(place) == files(other / "x.n5")
    after = finished(place)
    assert {key: after[key] for key in before} == before
    assert set(verify(place, "a").state.values.ravel()) == {"ok"}


def fail(hosts: Hosts, folder: Path) -> dict[str, Any]:
    """Write on a cluster of which the third host lacks the shared folder.

    Until it fails, the other one waits at the half: enough is left for both.
    """
    hold(folder / "log", BLOCKS // 2)
    with cluster(hosts, folder, blind=3) as half:
        return half.write(folder)


def by_host(told: dict[str, Any], hosts: Hosts, host: int) -> list[str]:
    """Return what the worker on a host sees in the shared folder."""
    seen = {
        worker: paths for worker, paths in told["seen"].items() if hosts.address(host) in worker
    }
    (paths,) = seen.values()
    return cast("list[str]", paths)


def test_a_host_without_the_mount_fails_the_write_and_creates_nothing(
    hosts: Hosts, folder: Path
) -> None:
    told = fail(hosts, folder)
    assert told["error"].startswith("ContainerNotVisibleError: cannot find")
    assert by_host(told, hosts, 3) == []
    assert by_host(told, hosts, 2) == listing(str(folder / "shared"))
    # The metadata and the mark are the client's; all else is whole chunks.
    place = folder / "shared/x.n5"
    assert others(place) == ["attributes.json", "attributes.json", "open"]
    assert len(finished(place)) < NUMBERS.size / np.prod(CHUNKS)
    assert [path.name for path in (folder / "shared").iterdir()] == ["x.n5"]


def test_a_write_that_failed_goes_on_when_all_hosts_have_the_mount(
    hosts: Hosts, folder: Path
) -> None:
    assert fail(hosts, folder)["error"]
    before = finished(folder / "shared/x.n5")
    with cluster(hosts, folder) as whole:
        told = whole.write(folder, resume=True)
    assert told["error"] == ""
    for host in (2, 3):
        assert any(hosts.address(host) in writer for writer in told["writers"])
        assert by_host(told, hosts, host) == listing(str(folder / "shared"))
    check_ended(folder, before)


def test_a_write_whose_scheduler_is_killed_goes_on_with_another(hosts: Hosts, folder: Path) -> None:
    place, held = folder / "shared/x.n5", hold(folder / "log", BLOCKS)
    with cluster(hosts, folder) as first:
        with running(first.client(folder), subprocess.DEVNULL) as client:
            while len(list((folder / "log").iterdir())) < BLOCKS / 4:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    assert client.wait(0.02) is None, "it ended too early"
            first.scheduler.kill()
            held.unlink()
        # Workers end without their scheduler: none of them writes what the next ones write.
        for worker in first.workers:
            worker.wait(240)
    before, times = finished(place), computed(folder / "log")
    assert 0 < len(before) < NUMBERS.size / np.prod(CHUNKS)
    left = [name for name in others(place) if not name.endswith(".partial")]
    assert left == ["attributes.json", "attributes.json", "open"]
    with cluster(hosts, folder) as second:
        assert second.write(folder, resume=True)["error"] == ""
    check_ended(folder, before)
    check_not_computed_again(folder, before, times)


def check_not_computed_again(
    folder: Path, before: dict[str, tuple[int, int]], times: dict[str, int]
) -> None:
    """Check that blocks of which all was stored were left out."""
    array, again = open_array(folder / "shared/x.n5", "a"), computed(folder / "log")
    assert len(again) == BLOCKS
    for name, count in times.items():
        low = (int(name) - 1) // COLUMNS // CHUNKS[0]
        inside = product(range(low, low + ROWS // CHUNKS[0]), range(COLUMNS // CHUNKS[1]))
        if {array.node.key(index) for index in inside} <= before.keys():
            assert again[name] == count


if __name__ == "__main__":
    main(*sys.argv[1:])
