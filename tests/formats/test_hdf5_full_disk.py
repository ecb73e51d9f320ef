"""HDF5 files whose last write met a limit: reported, and opened again by their stated size."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from errno import EFBIG
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from xarray_n5 import MetadataError, open_array, to_n5, verify

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits"),
    pytest.mark.filterwarnings("ignore:.*unfinished write"),
]

if sys.platform != "win32":
    from tests.support.full_disk import BEFORE, HAD, OPTIONS, VALUES, write

ROOT = Path(__file__).parents[2]
ADVICE = re.compile(r"it has (\d+) bytes, but states (\d+)\. .*`truncate -s (\d+) ")


@pytest.fixture(scope="module", params=["raw", "gzip", "second", "append", "assigned"])
def limited(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[Path, str]]:
    """A kind of write, and what it reported for each of the files, whose limits differ."""
    folder = tmp_path_factory.mktemp("full")
    command = [sys.executable, "-m", "tests.support.full_disk", request.param, str(folder)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    reports: dict[str, str] = json.loads(ran.stdout)
    return request.param, {folder / name: report for name, report in reports.items()}


def stated(path: Path) -> int | None:
    """Return the size by which the error of a file opens it again; None if there is no such one."""
    try:
        open_array(path, "a")
    except MetadataError as error:
        if found := ADVICE.search(str(error)):
            has, size, argument = map(int, found.groups())
            assert (has, size) == (path.stat().st_size, argument)
            return size
    except FileNotFoundError:
        pass
    return None


def test_a_write_that_meets_a_limit_fails_and_its_file_says_what_opens_it(
    limited: tuple[str, dict[Path, str]],
) -> None:
    kind, reports = limited
    *met, (_, unlimited) = reports.items()
    assert unlimited == ""
    assert {report for _, report in met} == {f"OSError {EFBIG}"}
    values, opened = VALUES[kind], 0
    for path, _ in met:
        size = stated(path)
        if size is None:
            continue
        opened += 1
        os.truncate(path, size)
        array = open_array(path, "a")
        states = verify(path, "a").compute()["state"].values
        assert set(states.flat) <= {"ok", "missing"}
        for index in np.ndindex(states.shape):
            part = array.grid.slices(index)
            expected = values[part] if states[index] == "ok" else 0
            np.testing.assert_array_equal(array.read_chunk(index), expected)
        rows = HAD.get(kind, 0)
        assert (states[: rows // OPTIONS[kind]["chunks"][0]] == "ok").all()
        assert (states == "ok").any() or rows == 0
        if kind == "second":
            np.testing.assert_array_equal(open_array(path, "before")[...], BEFORE)
        write(kind, path, resume=True)
        np.testing.assert_array_equal(open_array(path, "a")[...], values)
        assert (verify(path, "a").compute()["state"] == "ok").all()
    assert opened >= 4


@pytest.mark.parametrize("version", ["earliest", "v108", "latest"])
@pytest.mark.parametrize("lack", [1, 900])
def test_the_stated_size_opens_a_file_that_was_cut(tmp_path: Path, version: Any, lack: int) -> None:
    path = tmp_path / "with 'quotes' and spaces.h5"
    with h5py.File(path, "w", libver=(version, "latest")) as file:
        file["a"] = np.arange(1, 3001)
        file["b"] = np.arange(500, dtype="u2")
    whole = path.read_bytes()
    path.write_bytes(whole[:-lack])
    assert stated(path) == len(whole)
    with pytest.raises(MetadataError, match="truncate"):
        to_n5(np.arange(4), path, "c")
    assert path.read_bytes() == whole[:-lack]  # nothing is changed without being asked for
    os.truncate(path, len(whole))
    np.testing.assert_array_equal(open_array(path, "a")[:2000], np.arange(1, 2001))
    at = whole.find(len(whole).to_bytes(8, "little"), 8, 64)
    path.write_bytes(whole[:at] + (1 << 40).to_bytes(8, "little") + whole[at + 8 :])
    assert stated(path) is None  # no write of one chunk was stopped
