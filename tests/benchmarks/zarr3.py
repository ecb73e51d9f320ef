"""How fast Zarr v3 is read and written, here and by others: python -m tests.benchmarks.zarr3."""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorstore as ts
import zarr

import xarray_n5
from tests.benchmarks.hdf5 import volume
from tests.benchmarks.machine import cores, machine

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK, SHARD = 32, 128

LAYOUTS = {"chunks of 64 cubed": (64, None), "shards of 128 cubed, chunks of 32": (CHUNK, SHARD)}

CODECS: dict[str, tuple[Any, list[Any]]] = {
    "raw": (None, []),
    "zstd": (
        {"type": "zstd", "level": 3},
        [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
    ),
    "gzip": ("gzip", [{"name": "gzip", "configuration": {"level": 6}}]),
}

MANY = 200
"""How many chunks are read one by one."""


def write_ours(place: Path, values: np.ndarray, layout: tuple[int, int | None], codec: str) -> None:
    side, shard = layout
    made = xarray_n5.create_array(
        place,
        shape=values.shape,
        dtype=values.dtype,
        chunks=side,
        shards=shard,
        compression=CODECS[codec][0],
        format="zarr3",
    )
    made[...] = values


def write_zarr(place: Path, values: np.ndarray, layout: tuple[int, int | None], codec: str) -> None:
    side, shard = layout
    made = zarr.create_array(
        str(place),
        shape=values.shape,
        dtype=values.dtype,
        chunks=(side,) * 3,
        shards=None if shard is None else (shard,) * 3,
        compressors=CODECS[codec][1] or None,
        zarr_format=3,
    )
    made[...] = values


def write_zarrs(
    place: Path, values: np.ndarray, layout: tuple[int, int | None], codec: str
) -> None:
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        write_zarr(place, values, layout, codec)


def write_tensorstore(
    place: Path, values: np.ndarray, layout: tuple[int, int | None], codec: str
) -> None:
    side, shard = layout
    chain: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}, *CODECS[codec][1]]
    if shard is not None:
        inner = {"chunk_shape": [side] * 3, "codecs": chain}
        chain = [{"name": "sharding_indexed", "configuration": inner}]
    grid = {"chunk_shape": [shard or side] * 3}
    made = ts.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": str(place)},
            "metadata": {"chunk_grid": {"name": "regular", "configuration": grid}, "codecs": chain},
        },
        create=True,
        dtype=values.dtype,
        shape=values.shape,
        context=_context(),
    ).result()
    made.write(values).result()


def _context() -> ts.Context:
    return ts.Context({"data_copy_concurrency": {"limit": cores()}})


def open_tensorstore(place: Path) -> Any:
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(place)}}
    opened = ts.open(spec, open=True, context=_context()).result()
    return lambda key: opened[key].read(order="C").result()


def open_zarr(place: Path) -> Any:
    return zarr.open_array(str(place), mode="r").__getitem__


def open_ours(place: Path) -> Any:
    return xarray_n5.open_array(place).__getitem__


def by_zarrs(work: Callable[[], Any]) -> Callable[[], Any]:
    def wrapped() -> Any:
        with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
            return work()

    return wrapped


WRITERS: dict[str, Callable[..., None]] = {
    "ours": write_ours,
    "zarr-python": write_zarr,
    "zarrs": write_zarrs,
    "TensorStore": write_tensorstore,
}

READERS: dict[str, Callable[[Path], Any]] = {
    "ours": open_ours,
    "zarr-python": open_zarr,
    "zarrs": open_zarr,
    "TensorStore": open_tensorstore,
}


def clocked(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds of the clock and of the processors."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def contest(works: dict[str, Callable[[], Any]], runs: int) -> dict[str, tuple[float, float]]:
    """Let all do the same work in turns; return the medians."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for run in range(runs + 1):
        for name, work in works.items():
            found = clocked(work)
            if run:  # the first warms up
                seen[name].append(found)
    return {
        name: (statistics.median(w for w, _ in all_), statistics.median(c for _, c in all_))
        for name, all_ in seen.items()
    }


def works(
    folder: Path, values: np.ndarray, layout: tuple[int, int | None], codec: str
) -> dict[str, dict[str, Callable[[], Any]]]:
    """Return what is measured: a write, a read, and reads of single chunks, by each program."""
    place, side = folder / "read", layout[0]
    shutil.rmtree(place, ignore_errors=True)
    write_zarr(place, values, layout, codec)
    corners = np.random.default_rng(1).integers(0, values.shape[0] // side, (MANY, 3)) * side
    cubes = [tuple(slice(at, at + side) for at in map(int, each)) for each in corners]

    def write(name: str) -> None:
        shutil.rmtree(folder / name, ignore_errors=True)
        WRITERS[name](folder / name, values, layout, codec)

    def read(name: str) -> Any:
        return READERS[name](place)(...)

    def read_chunks(name: str) -> None:
        get = READERS[name](place)
        for key in cubes:
            get(key)

    chosen = {"write": write, "read": read, f"{MANY} chunks": read_chunks}
    return {
        what: {
            name: by_zarrs(partial(work, name)) if name == "zarrs" else partial(work, name)
            for name in WRITERS
        }
        for what, work in chosen.items()
    }


def show(folder: Path, values: np.ndarray, runs: int) -> None:
    """Print a row for each work in each layout."""
    for (title, layout), codec in product(LAYOUTS.items(), CODECS):
        for what, each in works(folder, values, layout, codec).items():
            found = contest(each, runs)
            wall, cpu = found.pop("ours")
            ratios = [f"{theirs / wall:.2f} / {used / cpu:.2f}" for theirs, used in found.values()]
            print(f"| {what}, {title}, {codec} | {' | '.join(ratios)} |", flush=True)  # noqa: T201


def main() -> None:
    """Print a table of ratios: others' time by the clock and of the processors, over ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    values = volume()
    programs = ("xarray-n5", "zarr", "zarrs", "tensorstore", "numpy")
    versions = ", ".join(f"{name} {version(name)}" for name in programs)
    print(f"{machine()}; {versions}; {values.nbytes >> 20} MiB of uint16")  # noqa: T201
    print("| | zarr-python | zarrs | TensorStore |\n|---|---|---|---|")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        show(Path(folder), values, asked.runs)


if __name__ == "__main__":
    main()
