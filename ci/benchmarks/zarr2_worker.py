"""Does with zarr-python 2, its N5Store and dask what is asked on standard input, and times it.

It runs in an interpreter of its own, which has nothing else of what stands beside it. A request is
a line of JSON, and so is its answer.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import dask
import dask.array as da
import numpy as np

SOURCES: dict[str, np.ndarray] = {}
"""What is written, by the file it comes from."""


def n5_store(place: str) -> Any:
    """Return the container; zarr-python 3 has no such name."""
    import zarr

    return vars(zarr)["N5Store"](place)


def opened(place: str) -> Any:
    """Open the array."""
    import zarr

    return zarr.open_group(n5_store(place), mode="r")["a"]


def blocks(request: dict[str, Any]) -> Any:
    """Return the array as dask sees it, in these blocks."""
    return da.from_array(opened(request["place"]), chunks=request["blocks"], lock=False)


def read(request: dict[str, Any]) -> Any:
    """Return all values: by dask where there are blocks, and at once otherwise."""
    return blocks(request).compute() if request["blocks"] else opened(request["place"])[...]


def total(request: dict[str, Any]) -> Any:
    """Return the sum of all values."""
    return blocks(request).sum(dtype="u8").compute()


def cutouts(request: dict[str, Any]) -> Any:
    """Return cubes, for each of which the array is opened anew."""
    side = request["side"]
    return np.stack(
        [
            opened(request["place"])[tuple(slice(start, start + side) for start in corner)]
            for corner in request["corners"]
        ]
    )


def write(request: dict[str, Any]) -> Any:
    """Store an array by dask, in blocks."""
    import numcodecs
    import zarr

    codec = request["codec"] and numcodecs.get_codec(request["codec"])
    values = SOURCES[request["source"]]
    array: Any = zarr.group(n5_store(request["place"])).create_dataset(  # type: ignore[attr-defined]
        "a", shape=values.shape, chunks=request["chunks"], dtype=values.dtype, compressor=codec
    )
    da.store(da.from_array(values, chunks=request["blocks"]), array, lock=False)
    return np.zeros(0, "u1")


WORK = {"read": read, "total": total, "cutouts": cutouts, "write": write}


def checksum(values: Any) -> int:
    """Return the same as the function of this name beside it in `clock`."""
    array = np.ascontiguousarray(values)
    return int(array.view(f"u{array.dtype.itemsize}").sum(dtype="u8"))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do one thing; what happens before and after it is not counted."""
    if "source" in request and request["source"] not in SOURCES:
        SOURCES.clear()
        SOURCES[request["source"]] = np.load(request["source"])
    wall, cpu = time.perf_counter(), time.process_time()
    result = WORK[request["do"]](request)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall": wall, "cpu": cpu, "result": checksum(result)}


def main() -> None:
    """Answer until there are no more questions."""
    warnings.simplefilter("ignore")
    import numcodecs.blosc

    numcodecs.blosc.use_threads = False  # Dask's threads are as many as there are cores.
    with dask.config.set(scheduler="threads", num_workers=int(sys.argv[1])):
        for line in sys.stdin:
            try:
                found = answer(json.loads(line))
            except Exception as error:  # noqa: BLE001 - the one who asks is told
                found = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
