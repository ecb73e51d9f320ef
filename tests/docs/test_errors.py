"""Messages of errors, one of each class, are those of a snapshot, which docs/errors.md is made of.

After a message has changed on purpose: `N5_SNAPSHOT=1 pytest tests/docs/test_errors.py`, then
`python ci/make_errors.py`.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5
from tests.docs.test_pages import ROOT, SAMPLES
from tests.support.containers import write_document
from tests.support.memory_store import MemoryStore
from xarray_n5 import errors
from xarray_n5.arrays.records import Record, claim_of, new_attempt

if TYPE_CHECKING:
    from collections.abc import Callable

SNAPSHOT = Path(__file__).with_name("messages.json")

MESSAGES: dict[str, str] = json.loads(SNAPSHOT.read_text(encoding="utf-8"))

ONES = da.ones((20, 20), chunks=10, dtype="uint8")


def array(path: str, **members: Any) -> str:
    """Write the document of a small array of N5 by hand."""
    plain = {"dimensions": [4, 3, 2], "blockSize": [4, 3, 2], "dataType": "uint8"}
    return str(write_document(path, **{**plain, "compression": {"type": "raw"}, **members}))


def not_found() -> None:
    xarray_n5.open_array("cells.n5", "rwa")


def exists() -> None:
    xarray_n5.to_n5(ONES, "cells.n5", "raw")


def appended_before() -> None:
    xr.Dataset({"v": ("x", np.ones(4))}).n5.to_n5("new.n5")
    for _ in range(2):
        more = xr.Dataset({"v": ("x", da.ones(2, chunks=2))})
        more.n5.to_n5("new.n5", append_dim="x", resume=True)


def not_visible() -> None:
    record = Record("0123456789abcdef", new_attempt(), (range(2), range(2)))
    claim_of(MemoryStore(), "a", record).check()


def taken_over() -> None:
    def fail(block: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError(block)

    values = ONES.map_blocks(fail, dtype="u1", meta=np.empty((0, 0), "u1"), name="failing")
    saved = xarray_n5.to_n5(values, "new.n5", "a", compute=False).save("a.write")
    with pytest.raises(ZeroDivisionError), dask.config.set(scheduler="sync"):
        xarray_n5.to_n5(values, "new.n5", "a", resume=True)
    saved.run()


def path_leaves() -> None:
    xarray_n5.open_array("cells.n5", "../raw")


def link_leaves() -> None:
    xarray_n5.to_n5(ONES, "secret")
    chunk = Path("cells.n5/raw/0/0/0")
    chunk.unlink()
    chunk.symlink_to(Path("secret").absolute())
    xarray_n5.open_array("cells.n5", "raw")[...]


def metadata_damaged() -> None:
    xarray_n5.open_array(array("new.n5/a", dimensions=[4, 3, "2"]))


def compression_unknown() -> None:
    xarray_n5.open_array(array("new.n5/a", compression={"type": "jpeg"}))


def region_cuts_chunks() -> None:
    xarray_n5.to_n5(ONES, "new.n5", "a", chunks=8)
    xarray_n5.to_n5(ONES[:12], "new.n5", "a", region=slice(4, 16))


def block_differs() -> None:
    rows: Any = ONES.map_blocks(lambda block: block[:1], dtype="uint8")
    with dask.config.set(scheduler="sync"):
        xarray_n5.to_n5(rows, "new.n5", "a")


def other_write() -> None:
    xarray_n5.to_n5(ONES, "new.n5", "a", compute=False).save("a.write")
    xarray_n5.to_n5(ONES + 1, "new.n5", "a", resume=True)


def read_only() -> None:
    xarray_n5.open_array("cells.n5", "raw")[0] = 1


def several_processes() -> None:
    with dask.config.set(scheduler="processes"):
        xarray_n5.to_n5(ONES, "new.h5", "a")


def _answered_with(error: Exception) -> None:
    place = "fsspec.implementations.memory.MemoryFileSystem.cat_file"
    with mock.patch(place, side_effect=error):
        xarray_n5.open_array("memory://cells.n5", "raw")


def request_fails() -> None:
    _answered_with(OSError("the server says nothing that it should"))


def request_refused() -> None:
    _answered_with(PermissionError("Forbidden"))


def package_missing() -> None:
    absent = dict.fromkeys([name for name in sys.modules if name.partition(".")[0] == "h5py"])
    with mock.patch.dict(sys.modules, {**absent, "h5py": None}):  # type: ignore[arg-type]
        xarray_n5.create_array("new.h5", "a", shape=(2,), dtype="uint8")


def copy_differs() -> None:
    xarray_n5.copy("cells.n5", "copy.zarr")
    xarray_n5.open_array("copy.zarr", "raw", mode="r+")[0, 0, 0] += 1
    xarray_n5.copy("cells.n5", "copy.zarr", resume=True, verify=True)


def chunk_truncated() -> None:
    with Path("cells.n5/raw/0/0/0").open("r+b") as file:
        file.truncate(5000)
    xarray_n5.open_array("cells.n5", "raw")[0, 0, 0]


def chunk_missing() -> None:
    xarray_n5.open_array("java-2.5.1.n5", "missing2d", missing="error")[...]


def chunk_holds_list() -> None:
    chunk = Path(array("new.n5/a"), "0/0/0")
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(struct.pack(">HH4I", 1, 3, 4, 3, 2, 5) + bytes(5))
    xarray_n5.open_array("new.n5", "a")[...]


CASES: dict[str, Callable[[], None]] = {
    "NodeNotFoundError": not_found,
    "NodeExistsError": exists,
    "FinishedAppendError": appended_before,
    "ContainerNotVisibleError": not_visible,
    "StaleTaskError": taken_over,
    "PathError": path_leaves,
    "UnsafePathError": link_leaves,
    "MetadataError": metadata_damaged,
    "UnknownCompressionError": compression_unknown,
    "AlignmentError": region_cuts_chunks,
    "BlockError": block_differs,
    "ResumeError": other_write,
    "ReadOnlyError": read_only,
    "OneWriterError": several_processes,
    "RequestError": request_fails,
    "RefusedError": request_refused,
    "MissingPackageError": package_missing,
    "DifferenceError": copy_differs,
    "ChunkError": chunk_truncated,
    "MissingChunkError": chunk_missing,
    "VarlengthChunkError": chunk_holds_list,
}
"""A way to each error, in a folder with copies of the samples."""

CHANGING = {
    r"begun \S+ at [^:]+:\d+": "begun … at …",
    r"resume='[0-9a-f]{16}'": "resume='…'",
    r"open-[0-9a-f]{16}-[0-9a-f]{8}": "open-…",
    r"in 'dict:\S*', the record": "in '…', the record",
    r"packages \(.*?\)": "packages (…)",
    r"block \[[^]]*\]|block \('[^)]*\)": "block …",
}
"""What differs from run to run, and what the snapshot has instead."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with copies of the samples, in which the test runs."""
    for container in SAMPLES.glob("*.n5"):
        shutil.copytree(container, tmp_path / container.name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_message_is_that_of_the_snapshot(name: str, folder: Path) -> None:
    with pytest.raises(errors.N5Error) as caught:
        CASES[name]()
    assert type(caught.value).__name__ == name
    message = str(caught.value).replace(str(folder), "/data")
    for changing, instead in CHANGING.items():
        message = re.sub(changing, instead, message)
    if os.environ.get("N5_SNAPSHOT"):
        MESSAGES[name] = message
        text = json.dumps(MESSAGES, indent=2, ensure_ascii=False)
        SNAPSHOT.write_text(f"{text}\n", encoding="utf-8")
    assert message == MESSAGES[name]


def test_every_error_has_a_message_and_the_page_is_made_of_them() -> None:
    kinds = {name for name in errors.__all__ if issubclass(getattr(errors, name), errors.N5Error)}
    assert kinds - {"N5Error"} == CASES.keys() == MESSAGES.keys()
    make = runpy.run_path(str(ROOT / "ci" / "make_errors.py"))
    assert make["PAGE"].read_text(encoding="utf-8") == make["page"]()
