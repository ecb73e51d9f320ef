"""Arrays whose write has not ended: who opens them is warned, and they are shown as such."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from tests.support.containers import NAMES
from tests.support.killing import begin
from tests.support.remote import Far
from xarray_n5 import (
    UnfinishedWriteWarning,
    from_n5,
    open_array,
    open_group,
    repair,
    to_n5,
    verify,
)
from xarray_n5.cli import main
from xarray_n5.stores import FsspecStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BLOCKS = da.arange(1, 13, chunks=3, dtype="i4")


def stopped(place: Any, name: str = "g/a", **options: Any) -> Any:
    """Begin a write, and stop it before its first chunk."""
    to_n5(BLOCKS, place, name, compute=False, **options)
    begin(place, name)
    return place


OPENINGS: dict[str, Callable[[Any], object]] = {
    "open_array": lambda place: open_array(place, "g/a"),
    "from_n5": lambda place: from_n5(place, "g/a"),
    "open_group": lambda place: open_group(place, "g")["a"],
    "children": lambda place: open_group(place, "g").arrays(),
    "open_dataset": lambda place: xr.open_dataset(place, engine="n5", group="g"),
    "open_datatree": lambda place: xr.open_datatree(place, engine="n5"),
}


@pytest.mark.matrix(6)
@pytest.mark.parametrize("name", NAMES.values())
@pytest.mark.parametrize("how", OPENINGS)
def test_opening_warns_once_that_a_write_has_not_ended(tmp_path: Path, how: str, name: str) -> None:
    place = stopped(tmp_path / name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        OPENINGS[how](place)
    about = [
        str(warning.message) for warning in caught if warning.category is UnfinishedWriteWarning
    ]
    (message,) = about
    assert message.startswith("'g/a' in ")
    assert "resume=True" in message
    to_n5(BLOCKS, place, "g/a", resume=True)
    OPENINGS[how](place)
    assert not [*tmp_path.rglob("open-*")]


@pytest.mark.parametrize("name", NAMES.values())
def test_own_writes_and_checks_do_not_warn(tmp_path: Path, name: str) -> None:
    place = stopped(tmp_path / name)
    assert verify(place, "g/a").attrs["unfinished"]
    repair(place, "g/a")
    open_array(place, "g/a", mode="r+")[0:3] = 1
    to_n5(BLOCKS, place, "g/a", resume=True)
    assert open_array(place, "g/a")[3:].tolist() == list(range(4, 13))


def test_a_warning_remains_until_each_write_has_ended(tmp_path: Path) -> None:
    to_n5(np.zeros(12, "i4"), tmp_path, "a", chunks=3)
    for where in (slice(0, 6), slice(6, 12)):
        to_n5(BLOCKS[where], tmp_path, "a", region=where, compute=False).save(tmp_path / "plan")
    for where in (slice(0, 6), slice(6, 12)):
        with pytest.warns(UnfinishedWriteWarning):
            open_array(tmp_path, "a")
        to_n5(BLOCKS[where], tmp_path, "a", region=where, resume=True)
    assert open_array(tmp_path, "a")[...].tolist() == list(range(1, 13))


def test_opening_costs_one_request_more_in_the_same_batch() -> None:
    fs = Far()
    store = FsspecStore(fs, "b/x.n5")
    to_n5(BLOCKS, store, "g/a")
    fs.be_far(0.005)
    open_array(store, "g/a")
    assert fs.most == 3
    # The documents of the array and of the container, and a listing of records.
    assert (fs.counts["GET"], fs.counts["LIST"]) == (2, 1)


def test_representations_say_so(tmp_path: Path) -> None:
    place = stopped(tmp_path / "b.n5")
    to_n5(BLOCKS, place, "g/whole")
    with pytest.warns(UnfinishedWriteWarning):
        array = open_array(place, "g/a")
    group = open_group(place, "g")
    for shown in (repr(array), array._repr_html_(), repr(group)):
        assert shown.count("unfinished") >= 1
    (line,) = (line for line in repr(group).splitlines() if "whole" in line)
    assert "unfinished" not in line
    to_n5(BLOCKS, place, "g/a", resume=True)
    for shown in (repr(array), array._repr_html_(), repr(group)):
        assert "unfinished" not in shown


def test_the_command_line_says_so(tmp_path: Path) -> None:
    place = stopped(tmp_path / "b.n5")
    to_n5(BLOCKS, place, "g/whole")

    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(main, list(arguments))
        assert "Warning" not in done.stderr
        return done.stdout

    lines = run("tree", str(place)).splitlines()
    assert [line.endswith("unfinished") for line in lines[2:]] == [True, False]
    assert "unfinished" in run("info", str(place), "g/a")
    assert json.loads(run("info", str(place), "g/a", "--json"))["unfinished"] is True
    assert json.loads(run("info", str(place), "g/whole", "--json"))["unfinished"] is False
