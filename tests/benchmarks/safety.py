"""How safe parallel writes are, ours and others': python -m tests.benchmarks.safety [runs]."""

from __future__ import annotations

import argparse
import functools
import gzip
import random
import signal
import struct
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import product
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import dask
import dask.array as da
import numpy as np
import z5py
import zarr
from dask.array.core import PerformanceWarning

import xarray_n5
from tests.benchmarks.machine import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.context import ForkServerContext

Index = tuple[int, ...]

THREADS = 8

KILLS = 4
"""How often a write is killed in each run; half of them are uncompressed."""

SETTLE = 0.5
"""The seconds that other threads and processes have to end, after one of them failed."""

METADATA = {".zarray", ".zattrs", ".zgroup", "attributes.json"}

COMPUTED: list[Index] = []
"""The blocks that this process has computed."""


@functools.cache
def numbers(shape: Index) -> np.ndarray:
    """Return numbers that do not repeat and hardly compress; none of them is a fill value."""
    count = np.arange(1, np.prod(shape) + 1, dtype="u8")
    return (count * 2654435761 % 2**32).astype("u4").reshape(shape)


@dataclass(frozen=True)
class Job:
    """What is written."""

    shape: Index
    chunks: Index
    blocks: Index
    pause: float = 0.0
    """The most seconds that a block takes to compute."""
    compress: bool = True

    @property
    def values(self) -> np.ndarray:
        """What is to be stored."""
        return numbers(self.shape)

    def source(self) -> da.Array:
        """Return the same values as a dask array, whose name is always the same."""
        blocks: Any = da.from_array(self.values, chunks=self.blocks, name="values")
        meta = np.empty((0, 0), "u4")
        built = blocks.map_blocks(compute, self.pause, name="numbers", dtype="u4", meta=meta)
        return cast("da.Array", built)


def compute(block: np.ndarray, pause: float, block_id: Index = ()) -> np.ndarray:
    """Return a block, after a while, and note that it was computed."""
    COMPUTED.append(tuple(block_id))
    if pause:
        time.sleep(random.uniform(0, pause))  # noqa: S311
    return block


SMALL = Job((96, 96), (16, 16), (10, 10))
"""Small chunks, each shared by up to nine blocks, that many threads write at once."""

SLOW = Job((480, 480), (128, 128), (100, 100), pause=0.1)
"""Blocks that take up to 100 ms to compute: writes meet now and then only."""

LARGE = Job((2048, 4096), (128, 128), (128, 128))
"""512 chunks of 64 kB, a block each: what is killed."""


class Zarr:
    """Where zarr keeps the chunks of an array, and what they hold."""

    @staticmethod
    def chunks(place: Path, _: Job) -> Index:
        """Return the shape of a chunk, which need not be the one that was asked for."""
        return Zarr.open(place).chunks

    @staticmethod
    def open(place: Path) -> zarr.Array[Any]:
        """Open the array to be changed."""
        return zarr.open_array(place / "a.zarr", mode="r+")

    @staticmethod
    def create(place: Path, job: Job) -> zarr.Array[Any]:
        """Create an array with the chunks of a job."""
        return zarr.create_array(
            place / "a.zarr",
            shape=job.shape,
            chunks=job.chunks,
            dtype="u4",
            zarr_format=2,
            compressors="auto" if job.compress else None,
        )

    @staticmethod
    def stored(place: Path) -> dict[Index, Path]:
        """Return the files of the chunks that are there."""
        names = (each for each in (place / "a.zarr").glob("[0-9]*") if each.suffix != ".partial")
        return {tuple(map(int, each.name.split("."))): each for each in names}

    @staticmethod
    def decode(path: Path, index: Index, _: Job) -> np.ndarray:
        """Return what a chunk's file holds, by the library's own word."""
        return np.asarray(Zarr.opened(path.parent).blocks[index])

    @staticmethod
    @functools.lru_cache(maxsize=1)
    def opened(path: Path) -> zarr.Array[Any]:
        """Open the array to be read; once, since no two runs use the same place."""
        return zarr.open_array(path, mode="r")


class N5:
    """The same of N5, read by neither of the libraries that write it."""

    @staticmethod
    def chunks(_: Path, job: Job) -> Index:
        """Return the shape of a chunk."""
        return job.chunks

    @staticmethod
    def create(place: Path, job: Job) -> Any:
        """Create a z5py Dataset with the chunks of a job."""
        how = {} if job.compress else {"compression": "raw"}
        file = z5py.File(str(place / "a.n5"), "a")
        return file.create_dataset("a", shape=job.shape, chunks=job.chunks, dtype="u4", **how)

    @staticmethod
    def open(place: Path) -> Any:
        """Open the z5py Dataset to be changed."""
        return z5py.File(str(place / "a.n5"), "a")["a"]

    @staticmethod
    def stored(place: Path) -> dict[Index, Path]:
        """Return the files of the chunks that are there."""
        paths = (place / "a.n5/a").glob("[0-9]*/[0-9]*")
        return {(int(each.name), int(each.parent.name)): each for each in paths}

    @staticmethod
    def decode(path: Path, _: Index, job: Job) -> np.ndarray:
        """Return what a chunk's file holds."""
        data = path.read_bytes()
        _, _, width, height = struct.unpack(">HHII", data[:12])
        content = gzip.decompress(data[12:]) if job.compress else data[12:]
        return np.frombuffer(content, ">u4").reshape(height, width)


@dataclass(frozen=True)
class Writer:
    """One way to write."""

    name: str
    libraries: tuple[str, ...]
    kind: type[Zarr | N5]
    write: Callable[[Path, Job], object]
    go_on: Callable[[Path, Job], object] | None = None
    """What a user would call after a kill; None where chunks are written as in another row."""

    @property
    def version(self) -> str:
        """The versions of the libraries."""
        return ", ".join(f"{each} {version(each)}" for each in self.libraries)


def zarr_as_blocks(place: Path, job: Job) -> None:
    """Let dask choose the chunks: its own blocks."""
    compressors = "auto" if job.compress else None
    da.to_zarr(job.source(), str(place / "a.zarr"), zarr_format=2, compressors=compressors)


def zarr_with_chunks(place: Path, job: Job) -> None:
    """Ask dask for chunks of another shape."""
    da.to_zarr(job.source(), str(place / "a.zarr"), zarr_format=2, chunks=job.chunks)


def zarr_limited(place: Path, job: Job) -> None:
    """Write into an array whose chunks are larger than what dask takes for a block."""
    limit = int(np.prod(job.blocks)) * 4
    with dask.config.set({"array.chunk-size": limit}):
        da.to_zarr(job.source(), Zarr.create(place, job))


def store(job: Job, target: Any, *, lock: bool = True) -> None:
    """Put blocks where they belong in what takes slices; locking is what dask does by itself."""
    da.store(job.source(), target, lock=lock)


def n5_of_ours(place: Path, job: Job, *, resume: bool = False) -> None:
    """Write with this package."""
    xarray_n5.to_n5(
        job.source(),
        place / "a.n5",
        "a",
        chunks=job.chunks,
        compression="gzip" if job.compress else None,
        resume=resume,
    )


DASK_ZARR, DASK_Z5PY = ("dask", "zarr"), ("dask", "z5py")

WRITERS = (
    Writer(
        "`da.to_zarr(x, path)`, chunks as blocks",
        DASK_ZARR,
        Zarr,
        zarr_as_blocks,
        lambda place, job: da.to_zarr(job.source(), Zarr.open(place)),
    ),
    Writer("`da.to_zarr(x, path, chunks=…)`", DASK_ZARR, Zarr, zarr_with_chunks),
    Writer(
        "`da.to_zarr(x, zarr_array)`",
        DASK_ZARR,
        Zarr,
        lambda place, job: da.to_zarr(job.source(), Zarr.create(place, job)),
    ),
    Writer(
        "`da.to_zarr(x, zarr_array)`, `array.chunk-size` below a chunk's: it warns",
        DASK_ZARR,
        Zarr,
        zarr_limited,
    ),
    Writer(
        "`da.store(x, zarr_array, lock=False)`",
        DASK_ZARR,
        Zarr,
        lambda place, job: store(job, Zarr.create(place, job), lock=False),
    ),
    Writer(
        "`da.store(x, zarr_array)`, locked",
        DASK_ZARR,
        Zarr,
        lambda place, job: store(job, Zarr.create(place, job)),
    ),
    Writer(
        "`da.store(x, z5py_dataset, lock=False)`",
        DASK_Z5PY,
        N5,
        lambda place, job: store(job, N5.create(place, job), lock=False),
        lambda place, job: store(job, N5.open(place), lock=False),
    ),
    Writer(
        "`da.store(x, z5py_dataset)`, locked",
        DASK_Z5PY,
        N5,
        lambda place, job: store(job, N5.create(place, job)),
    ),
    Writer(
        "`xarray_n5.to_n5(x, path, chunks=…)`",
        ("dask", "xarray-n5"),
        N5,
        n5_of_ours,
        lambda place, job: n5_of_ours(place, job, resume=True),
    ),
)


def sides(index: Index, chunks: Index, shape: Index) -> tuple[slice, ...]:
    """Return where a chunk is, as far as the array reaches."""
    along = zip(index, chunks, shape, strict=True)
    return tuple(slice(i * side, min((i + 1) * side, size)) for i, side, size in along)


def judge(writer: Writer, place: Path, job: Job) -> dict[Index, str]:
    """Return of each chunk whether it is missing, unreadable, wrong or right."""
    values, stored, chunks = job.values, writer.kind.stored(place), writer.kind.chunks(place, job)

    def one(index: Index) -> str:
        if index not in stored:
            return "missing"
        try:
            found = writer.kind.decode(stored[index], index, job)
        except Exception:  # noqa: BLE001 - whatever a decoder says of damaged bytes
            return "unreadable"
        wanted = values[sides(index, chunks, job.shape)]
        return "right" if np.array_equal(found, wanted) else "wrong"

    counts = (range(ceil(size / side)) for size, side in zip(job.shape, chunks, strict=True))
    return {index: one(index) for index in product(*counts)}


def leftovers(writer: Writer, place: Path) -> int:
    """Return how many files are neither chunks nor metadata."""
    chunks = set(writer.kind.stored(place).values())
    files = (each for each in place.rglob("*") if each.is_file() and each.name not in METADATA)
    return sum(each not in chunks for each in files)


@dataclass
class Misaligned:
    """What became of writes whose blocks cut chunks."""

    runs: int = 0
    failed: int = 0
    """Runs that ended with an exception; their chunks are not in the counts below."""
    unreadable: int = 0
    """But for these, that they left."""
    corrupted: int = 0
    chunks: int = 0
    left: int = 0

    def __str__(self) -> str:
        failed = f"raises in {self.failed} of {self.runs} runs"
        failed += f", which leave {self.unreadable} unreadable" if self.unreadable else ""
        counts = f"{self.corrupted} / {self.chunks}"
        if not self.failed:
            return counts
        return f"{counts}; {failed}" if self.chunks else failed


def write_misaligned(writer: Writer, job: Job, runs: int, messages: Counter[str]) -> Misaligned:
    """Write so that blocks share chunks, and count the chunks that differ."""
    total = Misaligned(runs)
    for _ in range(runs):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            place = Path(folder)
            try:
                writer.write(place, job)
            except Exception as error:  # noqa: BLE001 - whatever the peer raises is told
                messages[f"{writer.name}: {type(error).__name__}: {error}"] += 1
                total.failed += 1
                time.sleep(SETTLE)
                total.unreadable += [*judge(writer, place, job).values()].count("unreadable")
                continue
            states = [*judge(writer, place, job).values()]
            total.corrupted += len(states) - states.count("right")
            total.chunks += len(states)
            total.left += leftovers(writer, place)
    return total


@dataclass
class Killed:
    """What became of writes that were killed."""

    kills: int = 0
    torn: int = 0
    stored: int = 0
    finished: int = 0
    """Whole chunks, where the write was gone on with."""
    again: int = 0
    """Those of them that were computed again."""
    wrong: int = 0
    """Chunks that differ after that."""
    left: int = 0

    @property
    def goes_on(self) -> str:
        """Whether the write goes on where it was."""
        answer = "yes" if self.again < self.finished else "no"
        text = f"{answer}: computes {self.again} of {self.finished} finished chunks again"
        return f"{text}, {self.wrong} chunks differ then" if self.wrong else text


def write_in_threads(number: int, place: Path, job: Job) -> None:
    """Write in this process, which is to be killed."""
    with dask.config.set(scheduler="threads", num_workers=THREADS):
        WRITERS[number].write(place, job)


def kill_once(context: ForkServerContext, writer: Writer, place: Path, job: Job) -> bool:
    """Kill a write at a random moment after its first chunks, if it is not too late."""
    chance = random.Random()  # noqa: S311
    moment = chance.randrange(2, 480)
    arguments = (WRITERS.index(writer), place, job)
    process = context.Process(target=write_in_threads, args=arguments)
    process.start()
    while process.is_alive() and len(writer.kind.stored(place)) < moment:
        time.sleep(chance.uniform(0, 0.004))
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def go_on(writer: Writer, place: Path, job: Job, states: dict[Index, str], total: Killed) -> None:
    """Write once more what was killed, as the library offers it, and count what that computes."""
    assert writer.go_on is not None
    finished = {index for index, state in states.items() if state == "right"}
    COMPUTED.clear()
    writer.go_on(place, job)
    total.finished += len(finished)
    total.again += len(finished.intersection(COMPUTED))
    after = [*judge(writer, place, job).values()]
    total.wrong += len(after) - after.count("right")
    total.left += leftovers(writer, place)


def write_killed(context: ForkServerContext, writer: Writer, runs: int) -> Killed:
    """Kill writes, count the chunks that are torn, and go on once in each run."""
    total = Killed()
    while total.kills < runs * KILLS:
        compress = (total.kills + total.kills // KILLS) % 2 == 0
        job = replace(LARGE, compress=compress)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            if not kill_once(context, writer, place, job):
                continue
            states = judge(writer, place, job)
            count = Counter(states.values())
            total.kills += 1
            total.torn += count["unreadable"] + count["wrong"]
            total.stored += len(states) - count["missing"]
            if total.kills % KILLS == 0:
                go_on(writer, place, job, states, total)
    return total


HEADER = (
    "writer",
    "version",
    "misaligned, threads: corrupted chunks",
    "misaligned, threads, slow blocks",
    "misaligned, 2 processes",
    "killed: torn chunks",
    "resumes",
    "files left over: completed; killed and gone on with",
)


def rows(runs: int, messages: Counter[str]) -> Iterator[tuple[str, ...]]:
    """Run everything, one writer after another."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["dask.array", "zarr", "z5py", "xarray_n5"])
    threads = {"scheduler": "threads", "num_workers": THREADS}
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        for writer in WRITERS:
            with dask.config.set(threads):
                small = write_misaligned(writer, SMALL, runs, messages)
                slow = write_misaligned(writer, SLOW, runs, messages)
            with dask.config.set(scheduler="processes", pool=pool):
                apart = write_misaligned(writer, SMALL, runs, messages)
            left = str(small.left + slow.left + apart.left)
            ends = ("not run", "not run", left)
            if writer.go_on is not None:
                with dask.config.set(threads):
                    killed = write_killed(context, writer, runs)
                torn = f"{killed.torn} / {killed.stored} in {killed.kills} kills"
                ends = (torn, killed.goes_on, f"{left}; {killed.left}")
            yield (writer.name, writer.version, str(small), str(slow), str(apart), *ends)


def settings(runs: int) -> str:
    """Return what the numbers are sums of."""
    return (
        f"Each cell sums {runs} runs, with {THREADS} threads or 2 processes. Runs that raise are "
        f"not in the counts. Each run kills {KILLS} writes, half of them without compression, "
        'and goes on with the last of them; "not run" where chunk files are written as in '
        "another row."
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare how safe parallel writes are.")
    parser.add_argument("runs", nargs="?", type=int, default=5)
    runs = parser.parse_args().runs
    messages: Counter[str] = Counter()
    warnings.simplefilter("ignore", PerformanceWarning)  # dask's, of the row that says so
    for cells in (HEADER, ("---",) * len(HEADER), *rows(runs, messages)):
        print("|", " | ".join(cells), "|", flush=True)  # noqa: T201
    for message, times in messages.items():
        print(f"\nRaised in {times} runs of {message}.")  # noqa: T201
    print(f"\n{settings(runs)}\n\n{machine()}")  # noqa: T201


if __name__ == "__main__":
    main()
