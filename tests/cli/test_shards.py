"""Shards on the command line: copies into them, what is refused, and where they are shown."""

from __future__ import annotations

import json
import os
import signal
import sys
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import xarray_n5
from tests.cli.test_cli import printed, run
from tests.support.axes import with_axes
from tests.support.killing import files
from tests.support.processes import Python
from xarray_n5 import Axis, open_array, to_n5

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (8, 32, 32)

VALUES = np.random.default_rng(3).integers(0, 4000, SHAPE).astype("u2")

SHARDS = ("--format", "zarr3", "--shards", "8,16,16")


KILLED = """
import os, signal, sys
from pathlib import Path

from dask.callbacks import Callback
from xarray_n5.cli import main


def kill(*_):
    if len(list(Path(sys.argv[3]).glob("em/raw/c/*/*/[0-9]*"))) >= 8:
        os.kill(os.getpid(), signal.SIGKILL)


with Callback(posttask=kill):
    main(prog_name="xarray-n5")
"""
"""The program, killed when it has written eight shards."""


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A pyramid of two levels, of 128 and 32 chunks."""
    axes = [Axis(name=name, unit="um", scale=0.5) for name in "zyx"]
    options: dict[str, Any] = {"chunks": (4, 4, 4), "levels": 1, "factors": {"y": 2, "x": 2}}
    xarray_n5.pyramid(with_axes(VALUES, axes), tmp_path / "big.n5", "em", **options)
    return tmp_path / "big.n5"


def test_an_n5_becomes_sharded_ome_zarr(big: Path, tmp_path: Path) -> None:
    place = tmp_path / "big.zarr"
    assert printed("copy", big, place, *SHARDS).startswith("copied 2 arrays: 5 shards written, ")
    array = open_array(place, "em/s0")
    assert (array.chunks, array.shards) == ((4, 4, 4), (8, 16, 16))
    np.testing.assert_array_equal(array[...], VALUES)
    np.testing.assert_array_equal(open_array(place, "em/s1")[...], open_array(big, "em/s1")[...])
    attributes = json.loads((place / "em/zarr.json").read_text())["attributes"]
    assert attributes["ome"]["version"] == "0.5"
    assert printed("copy", big, place, *SHARDS, "--resume").startswith("nothing to resume")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
def test_progress_of_shards_goes_to_stderr(big: Path, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    command = ("-m", "xarray_n5", "copy", big, tmp_path / "big.zarr", *SHARDS)
    with (
        os.fdopen(ours, "rb", buffering=0) as shown,
        Python(*command, stderr=theirs, stdout=PIPE) as program,
    ):
        os.close(theirs)
        text = b""
        try:
            while part := shown.read(4096):
                text += part
        except OSError:
            pass  # so Linux ends a terminal
        assert program.stdout is not None
        assert program.stdout.read().startswith("copied 2 arrays: 5 shards written, ")
        assert program.wait() == 0
    assert b"0/5 shards" in text  # four shards, and one; later states only if they take time


def test_shards_that_do_not_fit_are_one_line(big: Path, tmp_path: Path) -> None:
    for options, code in (
        (("--shards", "8,16,16"), 1),
        (("--format", "zarr3", "--shards", "8,16,18"), 1),
        (("--format", "zarr3", "--shards", "big"), 2),
    ):
        refused = run("copy", big, tmp_path / "big.zarr", *options)
        assert refused.exit_code == code
        (line,) = [line for line in refused.stderr.splitlines() if line.startswith("Error: ")]
        assert code == 2 or refused.stderr == f"{line}\n"
        assert [path.name for path in tmp_path.iterdir()] == ["big.n5"]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
def test_a_copy_into_shards_that_was_killed_goes_on(tmp_path: Path) -> None:
    source, place, whole = (tmp_path / name for name in ("a.n5", "b.zarr", "whole.zarr"))
    to_n5(np.resize(VALUES, (16, 64, 64)), source, "em/raw", chunks=4)
    options = ("--format", "zarr3", "--shards", 8)
    printed("copy", source, whole, *options)
    copying = ("copy", source, place, *options, "--workers", 1)
    assert Python("-c", KILLED, *copying).wait() == -signal.SIGKILL
    kept = {file: file.stat().st_mtime_ns for file in stored(place)}
    assert 8 <= len(kept) < 128
    found = run(*copying)
    assert found.exit_code == 1
    assert printed(*copying, "--resume").startswith("copied 1 array: 120 shards written, 8 kept, ")
    assert files(place) == files(whole)
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    assert printed("verify", place) == "em/raw  128 ok (shards)\n"


def stored(place: Path) -> list[Path]:
    """The shards of the array, of those that are whole."""
    return [file for file in place.glob("em/raw/c/*/*/*") if file.name.isdigit()]


# Shown


def test_shards_are_shown_beside_chunks(big: Path, tmp_path: Path) -> None:
    place = tmp_path / "big.zarr"
    printed("copy", big, place, *SHARDS)
    shown = printed("tree", place)
    assert "8 x 32 x 32 uint16, chunks 4 x 4 x 4, shards 8 x 16 x 16, gzip" in shown
    shown = printed("info", place, "em/s0")
    assert "    chunks       4 x 4 x 4, 128 chunks of 128 B\n" in shown
    assert "    shards       8 x 16 x 16, 4 shards of 4.00 kiB\n" in shown
    facts = json.loads(printed("info", place, "em/s0", "--json"))
    assert (facts["chunks"], facts["chunk_count"]) == ([4, 4, 4], 128)
    assert (facts["shards"], facts["shard_count"]) == ([8, 16, 16], 4)
    facts = json.loads(printed("info", big, "em/s0", "--json"))
    assert (facts["chunk_count"], facts["shards"], facts["shard_count"]) == (128, None, None)
    group = repr(xarray_n5.open_group(place, "em"))
    assert "8 x 32 x 32 uint16, chunks 4 x 4 x 4, shards 8 x 16 x 16" in group


def test_damaged_shards_are_named_and_mended(big: Path, tmp_path: Path) -> None:
    place = tmp_path / "big.zarr"
    printed("copy", big, place, *SHARDS)
    assert printed("verify", place) == "em/s0  4 ok (shards)\nem/s1  1 ok (shards)\n"
    shard = place / "em/s0/c/0/1/0"
    shard.write_bytes(shard.read_bytes()[:-9])
    found = run("verify", place)
    assert found.exit_code == 1
    assert "3 ok" in found.stdout
    assert "em/s0/c/0/1/0" in found.stdout
    assert json.loads(run("verify", place, "--json").stdout)[0]["shards"] == [8, 16, 16]
    printed("repair", place)
    printed("copy", big, place, *SHARDS, "--resume")
    assert printed("verify", place) == "em/s0  4 ok (shards)\nem/s1  1 ok (shards)\n"


def test_pyramids_count_their_shards(big: Path, tmp_path: Path) -> None:
    shown = printed("pyramid", big / "em/s0", tmp_path / "p.zarr/em", *SHARDS, "--levels", 1)
    assert [line.partition(",")[0] for line in shown.splitlines()] == [
        "s0: 4 shards",
        "s1: 1 shard",
    ]
