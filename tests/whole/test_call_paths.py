"""The files that opening, reading and writing run: few, and those that docs/design.md lists."""

from __future__ import annotations

import re
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5  # noqa: F401 - the accessors
from tests.support.call_paths import CALLS, functions_of
from tests.support.stores import CountingStore

PAGE = Path(__file__).parents[2] / "docs" / "design.md"

MOST_FILES = {"open": 47, "read": 14, "write": 70, "project": 49}
"""The number of files that each call may run, with a slack of two."""

MOST_REQUESTS = 27
"""The number of requests of a store that writing one variable of one chunk may make."""

TITLES = {
    "open": "Open an N5 array",
    "read": "Read a chunk",
    "write": "Write a Dataset",
    "project": "Open a project",
}


def listed(title: str) -> list[tuple[str, str]]:
    """Return the files and functions in the table of a section."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n### {title}\n")[2]
    section = re.split(r"^##", section, maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| *`([^`]+\.py)` *\| *`([^`]+)` *\|", section, re.MULTILINE)
    return [(name if name.startswith("xarray_n5_") else f"xarray_n5/{name}", f) for name, f in rows]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_runs_few_files_and_those_that_the_page_lists_in_their_order(
    name: str, tmp_path: Path
) -> None:
    calls = functions_of(name, tmp_path)
    assert len({file for file, _ in calls}) <= MOST_FILES[name]
    rows = listed(TITLES[name])
    assert len(rows) > 5
    assert [row for row in rows if row not in calls] == []
    assert rows == sorted(rows, key=calls.index)


def test_writing_a_variable_makes_few_requests() -> None:
    store = CountingStore()
    values = da.from_array(np.ones((8, 8, 8), "u2"), chunks=8)
    with dask.config.set(scheduler="synchronous"):
        xr.Dataset({"raw": (("z", "y", "x"), values)}).n5.to_n5(store)
    assert sum(store.requests().values()) <= MOST_REQUESTS
