"""Writes into HDF5 files that must not grow beyond a limit, as on a full disk.

``python -m tests.support.full_disk KIND FOLDER`` writes files in processes of their own, named by
their limits, and prints as JSON what each write reports.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np

from xarray_n5 import create_array, open_array, to_n5

PLANE = np.random.default_rng(0).integers(1, 60_000, (48, 80)).astype("u2")
VOLUME = np.random.default_rng(1).integers(0, 9, (20, 24, 28)).astype("f4")
BEFORE = np.arange(1, 3001, dtype="i8")

VALUES: dict[str, np.ndarray] = {
    "raw": PLANE,
    "gzip": VOLUME,
    "second": VOLUME,
    "append": np.concatenate([PLANE, PLANE[:32]]),
    "assigned": PLANE,
}
"""The array that a write would store, by kind of write."""

HAD: dict[str, int] = {"append": len(PLANE)}
"""The rows that are stored before the write."""

OPTIONS: dict[str, dict[str, Any]] = {
    "raw": {"chunks": (16, 16), "compression": None},
    "gzip": {"chunks": (8, 8, 8), "compression": "gzip"},
    "second": {"chunks": (4, 24, 28), "compression": "blosc"},
    "append": {"chunks": (16, 16), "compression": None},
    "assigned": {"chunks": (16, 40), "compression": "zstd"},
}

SHARES = (0.2, 0.5, 0.65, 0.8, 0.9, 0.97, 0.995)
"""Limits, as parts of what the write adds to the file."""


def write(kind: str, place: Path, *, resume: bool = False) -> None:
    """Make the write that is limited."""
    values, chunks = VALUES[kind], OPTIONS[kind]["chunks"]
    blocks = da.from_array(values, chunks=chunks)
    if kind == "assigned":
        open_array(place, "a", mode="r+")[...] = values
    elif kind == "append":
        array = open_array(place, "a", mode="r+")
        if array.shape != values.shape:
            array.resize(values.shape)
        to_n5(blocks[48:], place, "a", region=(slice(48, None),), resume=resume)
    else:
        to_n5(blocks, place, "a", resume=resume, **OPTIONS[kind])


def prepare(kind: str, place: Path) -> None:
    """Write what the file holds before that."""
    if kind == "second":
        to_n5(BEFORE, place, "before", chunks=500)
    elif kind == "append":
        to_n5(PLANE, place, "a", **OPTIONS[kind])
    elif kind == "assigned":
        create_array(place, "a", shape=PLANE.shape, dtype="u2", **OPTIONS[kind])


def _limited(kind: str, place: Path, limit: int) -> str:
    """Return what a write reports in a forked process: an error's class and number, or nothing."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        report = ""
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            write(kind, place)
        except BaseException as error:  # noqa: BLE001 - all of them are reported
            report = f"{type(error).__name__} {getattr(error, 'errno', None)}"
        os.write(writing, report.encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    with os.fdopen(reading, encoding="utf-8") as pipe:
        return pipe.read()


def main(kind: str, folder: Path) -> None:
    """Write with each limit."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    dask.config.set(scheduler="synchronous")
    whole = folder / "whole.h5"
    prepare(kind, whole)
    start = whole.stat().st_size if whole.exists() else 0
    write(kind, whole)
    stop = whole.stat().st_size
    reports = {}
    for share in (*SHARES, 1):
        place = folder / f"{share}.h5"
        prepare(kind, place)
        reports[place.name] = _limited(kind, place, start + int(share * (stop - start)))
    sys.stdout.write(json.dumps(reports))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
