"""Who does what against whom: one work and those who do it, made when its turn comes."""

from __future__ import annotations

import functools
import itertools
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

import xarray_n5
from ci.benchmarks.clock import Done, checksum, timed
from ci.benchmarks.data import store, volume
from ci.benchmarks.limit import LIMIT, Limit
from ci.benchmarks.peers import PEERS, Ours, TensorStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ci.benchmarks.zarr2 import Worker

ZARR2 = "zarr 2"

LAZY = "ours, lazy xarray"

ALL = ("em", "light sheet", "labels", "smooth")

READS = (
    *(("gzip", name) for name in ALL),
    *(("raw", name) for name in ALL),
    ("blosc-lz4", "light sheet"),
    ("blosc-lz4", "labels"),
    ("blosc-zstd", "light sheet"),
    ("blosc-zstd", "labels"),
    ("zstd", "em"),
    ("zstd", "light sheet"),
    ("lz4", "light sheet"),
    ("bzip2", "light sheet"),
)
"""What is read whole."""

SMALL_READS = (("raw", "light sheet"), ("gzip", "light sheet"))

TOTALS = (("gzip", "em"), ("gzip", "light sheet"), ("raw", "light sheet"), ("blosc-lz4", "em"))

CUTOUTS = (("gzip", "light sheet"), ("raw", "light sheet"), ("blosc-lz4", "light sheet"))

WRITES = tuple((name, "light sheet") for name in ("gzip", "gzip-1", "raw", "blosc-lz4"))

CODECS: dict[str, dict[str, Any] | None] = {
    "gzip": {"id": "gzip", "level": 6},
    "gzip-1": {"id": "gzip", "level": 1},
    "raw": None,
    "blosc-lz4": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
}
"""What zarr-python 2 calls these compressions."""


@dataclass(frozen=True)
class Contest:
    """One work, and who does it."""

    section: str
    compression: str
    volume: str
    detail: str
    runs: dict[str, Callable[[], Done]]
    sizes: dict[str, int] = field(default_factory=dict)
    """How many bytes each has stored, where that is the work."""

    @property
    def title(self) -> str:
        """What it is called in a table."""
        return ", ".join(part for part in (self.compression, self.volume, self.detail) if part)


@dataclass(frozen=True)
class Place:
    """Where containers are, how large they are, and who else there is."""

    folder: Path
    mebibytes: int
    worker: Worker | None = None

    def stored(self, name: str, compression: str, side: int = 64, times: int = 1) -> Path:
        """Return a container of a volume, made once."""
        size = self.mebibytes * times
        base = self.folder / f"{name.replace(' ', '-')}-{size}"
        return store(cached_volume(name, size), base, compression, side)

    def runs(self, do: str, place: Path, *arguments: Any, **asked: Any) -> dict[str, Any]:
        """Return what each library does; what zarr-python 2 is asked is told by names."""
        found: dict[str, Any] = {
            name: functools.partial(
                timed, functools.partial(getattr(peer, do), place, *arguments), checksum
            )
            for name, peer in PEERS.items()
        }
        if self.worker:
            found[ZARR2] = functools.partial(self.worker.ask, do, place, **asked)
        return found


@functools.lru_cache(maxsize=1)
def cached_volume(name: str, mebibytes: int) -> np.ndarray:
    """Return a volume; the last is kept."""
    return volume(name, mebibytes)


def reads(place: Place) -> Iterator[Contest]:
    """Read whole arrays."""
    for compression, name in READS:
        path = place.stored(name, compression)
        runs = place.runs("read", path, blocks=[128] * 3)
        runs |= {} if compression == "lz4" else limited(path)  # whose blocks have frames of Java's
        yield Contest("reads", compression, name, "", runs)


def small_reads(place: Place) -> Iterator[Contest]:
    """Read whole arrays of many small chunks; zarr-python 2 without dask, which is faster there."""
    for compression, name in SMALL_READS:
        path = place.stored(name, compression, 16)
        runs = place.runs("read", path, blocks=None) | limited(path)
        yield Contest("small reads", compression, name, "", runs)


def limited(path: Path) -> dict[str, Callable[[], Done]]:
    """Return what the codec and the copies of a whole read cost."""
    return {LIMIT: functools.partial(timed, functools.partial(Limit.read, path), checksum)}


def totals(place: Place) -> Iterator[Contest]:
    """Sum through dask's threads, in blocks of several chunks and of one; others have ours."""
    for compression, name in TOTALS:
        path = place.stored(name, compression, times=4)
        for detail, blocks in (('chunks="auto"', "auto"), ("chunks=None", None)):
            sizes = xarray_n5.from_n5(path, "a", chunks=blocks).chunks
            runs = place.runs("total", path, sizes, blocks=sizes)
            work = functools.partial(Ours.total, path, blocks)
            runs["ours"] = functools.partial(timed, work, checksum)
            yield Contest("totals", compression, name, detail, runs)


def cutouts(place: Place) -> Iterator[Contest]:
    """Read cubes across eight chunks, each by an array opened anew."""
    side = 64
    for compression, name in CUTOUTS:
        path = place.stored(name, compression)
        shape = xarray_n5.open_array(path, "a").shape
        random = np.random.default_rng(2)
        corners = [[shift(random, size, side) for size in shape] for _ in range(16)]
        runs = place.runs("cutouts", path, corners, side, corners=corners, side=side)
        work = functools.partial(Ours.lazy_cutouts, path, corners, side)
        runs[LAZY] = functools.partial(timed, work, checksum)
        yield Contest("cutouts", compression, name, "16 of 64³", runs)


def shift(random: np.random.Generator, size: int, side: int) -> int:
    """Return where a cube of `side` begins that lies across two chunks of as many samples."""
    if size == side:
        return 0
    return int(random.integers(0, size // side - 1)) * side + int(random.integers(1, side))


def writes(place: Place) -> Iterator[Contest]:
    """Store through dask, in blocks of eight chunks; each time at a new place.

    Where compressing takes no time, volumes are four times as large.
    """
    for compression, name in WRITES:
        size = place.mebibytes * (1 if compression.startswith("gzip") else 4)
        values = cached_volume(name, size)
        source = da.from_array(values, chunks=128)
        saved = place.folder / f"source-{size}.npy"  # the worker keeps what it has loaded
        np.save(saved, values)
        sizes: dict[str, int] = {}
        runs: dict[str, Callable[[], Done]] = {
            name: functools.partial(written, place.folder, name, sizes, work)
            for name, work in writers(values, source, saved, compression, place.worker).items()
        }
        yield Contest("writes", compression, name, f"{size} MiB", runs, sizes)


def writers(
    values: np.ndarray, source: da.Array, saved: Path, compression: str, worker: Worker | None
) -> dict[str, Callable[[Path], Done]]:
    """Return what stores an array, by name."""

    def here(kind: Any, source: Any = source) -> Callable[[Path], Done]:
        return lambda path: timed(lambda: kind.write(source, path, 64, compression), lambda _: None)

    found = {name: here(kind) for name, kind in PEERS.items()}
    found[LIMIT] = here(Limit, values)
    if worker:
        asked = {"codec": CODECS[compression], "chunks": [64] * 3, "blocks": [128] * 3}
        found[ZARR2] = lambda path: worker.ask("write", path, source=str(saved), **asked)
    return found


NUMBERS = itertools.count()


def written(folder: Path, name: str, sizes: dict[str, int], write: Callable[[Path], Done]) -> Done:
    """Write, note how large it is, and tell what another library finds there; then remove it."""
    reader = TensorStore if name == "ours" else Ours
    path = folder / f"written-{next(NUMBERS)}.n5"
    try:
        done = write(path)
        sizes[name] = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
        return Done(done.cost, checksum(reader.read(path)))
    finally:
        shutil.rmtree(path, ignore_errors=True)


SECTIONS: dict[str, tuple[str, Callable[[Place], Iterator[Contest]]]] = {
    "reads": ("Whole reads, chunks of 64³", reads),
    "small reads": ("Whole reads, chunks of 16³", small_reads),
    "totals": ("Sums through dask's threads, chunks of 64³, four times the size", totals),
    "cutouts": ("Cutouts across eight chunks, with a new array each", cutouts),
    "writes": ("Writes through dask, chunks of 64³, blocks of 128³", writes),
}
"""The kinds of contests, and their titles."""
