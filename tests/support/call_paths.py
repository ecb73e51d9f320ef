"""The files and functions of the package that a call runs, in the order of first use.

`python -m tests.support.call_paths [NAME ...]` prints those of the calls that docs/design.md
describes.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import xarray as xr

import xarray_n5

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

SOURCE = Path(xarray_n5.__file__).parent.parent

SIDE, CHUNK = 64, 32


@contextmanager
def recorded() -> Iterator[list[tuple[str, str]]]:
    """Record the files, relative to `src`, and their functions; imports are not counted.

    New threads are recorded as well.
    """
    seen: dict[tuple[str, str], None] = {}
    calls: list[tuple[str, str]] = []
    start = f"{SOURCE}/"

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(start):
            function = code.co_qualname.partition(".<locals>")[0]
            seen[code.co_filename.removeprefix(start), function] = None

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        calls += seen


def _volume() -> xr.Dataset:
    values = np.arange(SIDE**3, dtype="u2").reshape(SIDE, SIDE, SIDE)
    sizes = {"z": 4.0, "y": 4.0, "x": 4.0}
    coords = {dim: (dim, np.arange(SIDE) * s, {"units": "nm"}) for dim, s in sizes.items()}
    return xr.Dataset({"raw": (tuple(sizes), da.from_array(values, chunks=CHUNK))}, coords)


def _open(folder: Path) -> Callable[[int], Any]:
    _volume().n5.to_n5(folder / "open.n5")
    return lambda _: xr.open_dataset(f"{folder}/open.n5", engine="n5", group="raw")


def _read(folder: Path) -> Callable[[int], Any]:
    _volume().n5.to_n5(folder / "read.n5")
    array = xarray_n5.open_array(f"{folder}/read.n5", "raw")
    return lambda _: array[:CHUNK, :CHUNK, :CHUNK]


def _write(folder: Path) -> Callable[[int], Any]:
    volumes = [_volume(), _volume()]
    return lambda time: volumes[time].n5.to_n5(f"{folder}/write{time}.n5")


def _project(folder: Path) -> Callable[[int], Any]:
    for time in (0, 1):  # the same XML would not be parsed twice
        _volume().n5.to_bdv(folder / f"project{time}.xml")
    return lambda time: xr.open_dataset(f"{folder}/project{time}.xml")


CALLS = {"open": _open, "read": _read, "write": _write, "project": _project}
"""What makes each call; a call is made twice, and gets 0, then 1."""


def functions_of(name: str, folder: Path) -> list[tuple[str, str]]:
    """Return the files and functions that a call runs; a first call imports and fills caches."""
    with dask.config.set(scheduler="synchronous"):
        call = CALLS[name](folder)
        call(0)
        with recorded() as calls:
            call(1)
    return calls


def main(names: list[str]) -> None:
    """Print the files and the functions of calls."""
    for name in names or CALLS:
        with tempfile.TemporaryDirectory() as folder:
            calls = functions_of(name, Path(folder))
        lines = [f"{name}: {len({file for file, _ in calls})} files"]
        for file, functions in groupby(calls, key=itemgetter(0)):
            lines.append(f"  {file}: {', '.join(function for _, function in functions)}")
        sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
