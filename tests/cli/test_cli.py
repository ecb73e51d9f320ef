"""The command line: what it prints, where it fails, and that what was killed goes on."""

from __future__ import annotations

import builtins
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import uuid
import warnings
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner, Result
from fsspec.implementations.memory import MemoryFileSystem
from matplotlib import image as images

from tests.support.containers import NAMES
from tests.support.killing import files, kill, when
from tests.support.processes import Python
from xarray_n5 import create_array, create_group, open_array, to_n5, tutorial, verify
from xarray_n5.arrays.open import open_group
from xarray_n5.cli import main
from xarray_n5.cli.arguments import split_url
from xarray_n5.cli.errors import _secrets, report_errors, with_options
from xarray_n5.viewing.pictures import colours, grey, round_length
from xarray_n5.viewing.sections import section

if TYPE_CHECKING:
    from distributed import Client

ROOT = Path(__file__).parents[2]

DATA = tutorial.path("cells").parent

CELLS = str(DATA / "cells.n5")

PROGRAM = [sys.executable, "-m", "xarray_n5"]
"""The program, where the package need not be installed."""


def run(*args: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(main, list(map(str, args)))


def printed(*args: object) -> str:
    """Run a command that succeeds, and return what it printed."""
    found = run(*args)
    assert found.exit_code == 0, found.output
    return found.stdout


def started(*args: object, **kwargs: Any) -> subprocess.Popen[str]:
    """Start the program itself."""
    return subprocess.Popen(  # noqa: S603
        [*PROGRAM, *map(str, args)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **kwargs,
    )


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    """Return a copy of the cells, to be damaged."""
    return Path(shutil.copytree(CELLS, tmp_path / "cells.n5"))


def damage(container: Path) -> str:
    """Cut a chunk off, and return its key."""
    key = open_array(container, "raw").node.key((0, 1, 1))
    chunk = (container / key).read_bytes()
    (container / key).write_bytes(chunk[: len(chunk) // 2])
    return key


# Looking


def test_a_tree_is_drawn() -> None:
    _, *lines = printed("tree", CELLS, "--chunks").splitlines()
    assert lines[0].endswith("16 of 24 chunks stored, 12.18 kiB")
    assert "nuclei  48 x 160 x 200 uint8, chunks 32 x 64 x 64, gzip" in lines[0]
    assert (
        lines[3].strip()
        == "z: start 0, step 2 µm; y: start 0, step 0.5 µm; x: start 0, step 0.5 µm  (tensorstore)"
    )


def test_a_tree_is_as_deep_as_is_asked_for() -> None:
    java = DATA / "java-2.5.1.n5"
    assert "float32" in printed("tree", java)
    shallow = printed("tree", java, "--depth", 1)
    assert "edge3d/" in shallow
    assert "float32" not in shallow


def test_a_tree_looks_no_deeper_than_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"memory://{uuid.uuid4().hex}/a.n5"
    for path in ("em/s0", "deep/er/s0"):
        to_n5(np.ones((4, 4), "u1"), url, path)
    listed: list[str] = []
    lists = MemoryFileSystem.ls

    def counting(self: Any, path: str, **kwargs: Any) -> Any:
        listed.append(path)
        return lists(self, path, **kwargs)

    monkeypatch.setattr(MemoryFileSystem, "ls", counting)
    assert "deep/" in printed("tree", url, "--depth", 1)
    assert not [path for path in listed if "er" in path.split("/")]
    assert "deep/er/s0  1 ok" in printed("verify", url)
    assert [path for path in listed if "er" in path.split("/")]


def test_a_tree_tells_what_is_no_part_of_a_container(cells: Path, tmp_path: Path) -> None:
    printed("copy", f"{CELLS}/raw", tmp_path / "other.zarr/raw")
    (tmp_path / "part.h5").touch()
    (tmp_path / "a/b/c/d").mkdir(parents=True)
    first, *lines, last = printed("tree", tmp_path).splitlines()
    assert first.endswith("a plain folder: no attributes.json")
    assert "├── other.zarr  Zarr v2: open it separately" in lines
    assert "└── part.h5  HDF5: open it separately" in lines
    assert any("raw  48 x 160 x 200 uint8" in line for line in lines)
    assert "--depth" in last
    assert "c/" not in "".join(lines)
    assert "d/" in printed("tree", tmp_path, "--depth", 9)
    found = run("tree", cells, "raw/0")
    assert found.exit_code == 1
    assert found.stdout.endswith("has files that look like chunks, but no attributes.json\n")


def test_a_tree_is_drawn_in_ascii_where_there_is_nothing_else() -> None:
    with started("tree", CELLS, env={**os.environ, "PYTHONIOENCODING": "ascii"}) as program:
        out, _ = program.communicate()
    assert "`-- raw" in out


def test_facts_are_told_to_people_and_to_programs() -> None:
    assert "48 x 160 x 200\n" in printed("info", CELLS, "raw")
    facts = json.loads(printed("info", f"{CELLS}/raw", "--json"))
    assert list(facts) == [
        *("url", "path", "kind", "format", "shape", "dtype", "bytes", "chunks", "chunk_count"),
        *(
            "shards",
            "shard_count",
            "compression",
            "unfinished",
            "axes",
            "affine",
            "sources",
            "dialects",
            "attributes",
        ),
    ]
    assert facts["shape"] == [48, 160, 200]
    assert facts["axes"][0] == {
        "name": "z",
        "kind": "space",
        "unit": "um",
        "scale": 2.0,
        "offset": 0.0,
        "labels": None,
    }
    group = json.loads(printed("info", CELLS, "--json"))
    assert group["children"] == [{"name": n, "kind": "array"} for n in ("nuclei", "raw")]


def test_info_names_all_dialects_of_an_array(tmp_path: Path) -> None:
    array = create_array(tmp_path / "a.n5", "em", shape=(4, 5), dtype="uint8")
    assert "\n    dialects" not in printed("info", array.url)
    assert json.loads(printed("info", array.url, "--json"))["dialects"] == []

    array.attrs.update({"axes": ["x", "y"], "_ARRAY_DIMENSIONS": ["y", "x"]})
    assert "\n    dialects     tensorstore, array_dimensions\n" in printed("info", array.url)
    facts = json.loads(printed("info", array.url, "--json"))
    assert facts["dialects"] == ["tensorstore", "array_dimensions"]
    assert facts["sources"] == {"names": "tensorstore: axes"}


@pytest.mark.parametrize("command", ["tree", "info", "verify", "repair"])
def test_what_is_not_there_is_told_in_one_line(command: str) -> None:
    found = run(command, CELLS, "nope")
    assert found.exit_code == 1
    assert found.stderr.startswith("Error: no ")
    assert "it holds" in found.stderr or "holds nuclei, raw" in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_traceback_is_shown_where_it_is_asked_for() -> None:
    found = run("--traceback", "info", CELLS, "nope")
    assert isinstance(found.exception, FileNotFoundError)


def test_secrets_are_not_printed() -> None:
    url = "ftp://user:password@localhost:1/a.n5"
    found = run("tree", url, "-o", "timeout=1", "-o", 'account="hush-hush"')
    assert found.exit_code == 1
    assert "password" not in found.output
    assert "hush-hush" not in found.output
    assert "hush" not in run("tree", CELLS, "-o", "key=hush").output


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("a.n5", ("a.n5", "")),
        ("/x/a.zarr/em/s0/", ("/x/a.zarr", "em/s0")),
        ("s3://bucket/a.n5/b.n5/c", ("s3://bucket/a.n5/b.n5", "c")),
        ("plain/folder", ("plain/folder", "")),
        ("https://host/a.n5?key=1", ("https://host/a.n5?key=1", "")),
    ],
)
def test_a_place_is_split_where_the_container_ends(url: str, expected: tuple[str, str]) -> None:
    assert split_url(url) == expected


# Copying


def test_a_container_is_copied_to_every_format_and_back(tmp_path: Path) -> None:
    java = DATA / "java-2.5.1.n5"
    for name in ("a.zarr", "b.h5", "c.n5"):
        printed("copy", java, tmp_path / name)
        java = tmp_path / name
    for path in ("codec/lz4", "edge3d/float32/gzip", "missing2d"):
        before, again = open_array(DATA / "java-2.5.1.n5", path), open_array(java, path)
        np.testing.assert_array_equal(before[...], again[...])
        assert dict(before.attrs) == dict(again.attrs)


@pytest.mark.parametrize("command", ["copy", "pyramid"])
def test_copies_and_pyramids_store_digests_and_flush_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    flushed, real = [], os.fsync

    def fsync(file: int) -> None:
        flushed.append(file)
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    printed(command, f"{CELLS}/raw", tmp_path / "a.zarr/raw", "--checksums")
    assert not flushed
    assert "digests kept" in printed("verify", tmp_path / "a.zarr")
    printed(command, f"{CELLS}/raw", tmp_path / "b.zarr/raw", "--fsync", "--format", "zarr3")
    assert len(flushed) > 24
    assert "digests kept" not in printed("verify", tmp_path / "b.zarr", "--strict")


def test_a_strict_check_fails_for_missing_chunks(tmp_path: Path) -> None:
    create_array(tmp_path, "a", shape=(4, 4), dtype="u1", chunks=2)[:2] = 1
    assert "2 missing, 2 ok" in printed("verify", tmp_path)
    for quick in ((), ("--quick",)):
        found = run("verify", tmp_path, "--strict", *quick)
        assert found.exit_code == 1
        assert "1 of 1 array has missing chunks" in found.output
    open_array(tmp_path, "a", mode="r+")[...] = 1
    printed("verify", tmp_path, "--strict")


def test_a_part_is_copied_with_other_chunks_and_compression(tmp_path: Path) -> None:
    options = ("--region", "0:20,:,50:60", "--chunks", "10,80,10", "--compression", "zstd")
    printed("copy", f"{CELLS}/raw", tmp_path / "a.zarr/raw", *options, "--dtype", "float32")
    again = open_array(tmp_path / "a.zarr", "raw")
    np.testing.assert_array_equal(again[...], open_array(CELLS, "raw")[0:20, :, 50:60])
    assert again.chunks == (10, 80, 10)
    assert again.dtype == np.float32
    assert again.axes[2].offset == 25


@pytest.mark.parametrize("level", ["1", "-1", "s1"])
def test_a_level_is_copied(tmp_path: Path, level: str) -> None:
    for name, size in (("s0", 8), ("s1", 4)):
        to_n5(np.full((size, size), size, "u1"), tmp_path / "a.n5", f"em/{name}")
    printed("copy", tmp_path / "a.n5/em", tmp_path / "b.n5/coarse", "--level", level)
    assert open_array(tmp_path / "b.n5", "coarse").shape == (4, 4)


@pytest.mark.parametrize(
    ("option", "value", "code", "text"),
    [
        ("--region", "0:10,a,:", 2, "START:STOP"),
        ("--region", "0:10", 1, "expected 3"),
        ("--region", "0:100,:,:", 1, "48 elements"),
        ("--compression", "squeeze", 2, "unknown compression"),
        ("--chunks", "big", 2, "64,64,64"),
        ("--dtype", "number", 2, "float32"),
        ("--level", "1", 1, "array"),
        ("--mode", "x", 2, "w-"),
        ("--format", "hdf5", 1, "HDF5"),
    ],
)
def test_what_cannot_be_copied_is_told_and_nothing_written(
    tmp_path: Path, option: str, value: str, code: int, text: str
) -> None:
    found = run("copy", f"{CELLS}/raw", tmp_path / "b.n5", option, value)
    assert found.exit_code == code, found.output
    assert text in found.stderr
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_replaced_only_where_that_is_asked_for(tmp_path: Path) -> None:
    printed("copy", CELLS, tmp_path / "b.n5")
    found = run("copy", CELLS, tmp_path / "b.n5")
    assert found.exit_code == 1
    assert "exists" in found.stderr
    printed("copy", CELLS, tmp_path / "b.n5", "--mode", "w")


@pytest.mark.matrix(2)
@pytest.mark.parametrize("name", NAMES.values())
def test_a_copy_that_has_ended_has_nothing_to_resume(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    assert printed("copy", CELLS, place, "--resume").startswith(
        "copied 2 arrays: 48 chunks written, "
    )
    for source, target in ((CELLS, place), (f"{CELLS}/raw", place / "raw")):
        told = printed("copy", source, target, "--resume")
        assert told == f"nothing to resume: {target} is complete\n"
    for arguments in (
        (f"{CELLS}/nuclei", place / "raw", "--resume"),  # other values
        (f"{CELLS}/raw", place / "raw", "--resume", "--chunks", 16),
        (CELLS, place),
    ):
        found = run("copy", *arguments)
        assert found.exit_code == 1
        resumed = "--resume" in arguments
        told = "start again with --mode w" if resumed else "use --mode w to replace it"
        assert told in found.stderr
        assert "mode=" not in found.stderr


def test_a_copy_with_floats_that_are_no_numbers_is_whole(tmp_path: Path) -> None:
    to_n5(np.full((4, 4), np.nan), tmp_path / "a.n5", "a")
    printed("copy", tmp_path / "a.n5/a", tmp_path / "b.n5/a")
    assert "nothing" in printed("copy", tmp_path / "a.n5/a", tmp_path / "b.n5/a", "--resume")


def test_an_unfinished_copy_of_something_else_is_told_in_the_words_of_commands(
    cells: Path, tmp_path: Path
) -> None:
    key = damage(cells)
    assert key in run("copy", cells, tmp_path / "b.n5").stderr
    found = run("copy", cells, tmp_path / "b.n5")
    assert "is unfinished: repeat it with --resume" in found.stderr
    found = run("copy", cells / "raw", tmp_path / "b.n5/raw", "--resume", "--dtype", "f4")
    assert "start again with --mode w" in found.stderr
    assert "resume=" not in found.stderr


@pytest.mark.parametrize(
    ("command", "message", "shown"),
    [
        ("copy", "use mode='w' to replace it", "use --mode w to replace it"),
        ("copy", "use format='zarr3', or omit shards", "use --format zarr3, or omit shards"),
        ("copy", "with label_multisets='argmax'", "with --label-multisets argmax"),
        ("copy", "smaller chunks, or chunks='auto'", "smaller chunks, or --chunks auto"),
        ("copy", "with mode='w', without resume=True", "with --mode w, without --resume"),
        (
            "copy",
            "chunks= and level=0, dims=, setups='flat'",
            "--chunks and --level 0, dims, setups flat",
        ),
        ("pyramid", "pass factors=", "pass --factors"),
        (
            "info",
            "repeat the write with resume=True",
            "repeat the write with --resume",
        ),
        ("info", "name an array or its group with group=", "name an array or its group with PATH"),
        ("info", "use format='zarr3'", "use format zarr3"),
        ("view", "omit link=True to serve it", "omit --link to serve it"),
        ("tree", "a timeout with storage_options=", "a timeout with --storage-option"),
        (
            "tree",
            "'mode=w/s0' in 'https://h/a.n5?level=2'",
            "'mode=w/s0' in 'https://h/a.n5?level=2'",
        ),
    ],
)
def test_messages_name_the_options_of_the_command(command: str, message: str, shown: str) -> None:
    assert with_options(message, main.commands[command]) == shown


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("copy", CELLS, "{}/cells.n5"), "use --mode w to replace it"),
        (("copy", f"{CELLS}/raw", "{}/b.zarr", "--shards", "64"), "use --format zarr3"),
        (("pyramid", f"{CELLS}/raw"), "pass another location for a copy"),
        (("tree", "{}/odd.n5"), "expected one of blosc, bzip2, gzip, lz4, lzma, raw, xz, zstd"),
        (("view", "{}/cells.n5", "--link"), "omit --link to serve it"),
        (("verify", "{}/linked.n5/a"), "read with --storage-option follow_links=true"),
    ],
)
def test_errors_advise_in_the_words_of_the_command_line(
    tmp_path: Path, cells: Path, arguments: tuple[str, ...], advice: str
) -> None:
    create_array(tmp_path / "odd.n5", "a", shape=(4,), dtype="u1", compression="raw")
    odd = tmp_path / "odd.n5/a/attributes.json"
    odd.write_text(odd.read_text("utf-8").replace('"raw"', '"jpeg"'), "utf-8")
    create_group(tmp_path / "linked.n5")
    (tmp_path / "linked.n5/a").symlink_to(cells / "raw")
    found = run(*(each.format(tmp_path) for each in arguments))
    assert advice in found.output
    assert not re.search(r"(?<![?&\w])[a-z_]+=['\"T]|register_compression|open_array", found.output)


def test_a_scheduler_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.cli.options._TIMEOUT", 0.3)
    found = run("copy", CELLS, tmp_path / "b.n5", "--scheduler", "tcp://127.0.0.1:1")
    assert found.exit_code == 1
    assert "cannot connect to a Dask scheduler at tcp://127.0.0.1:1" in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    found = run("copy", CELLS, tmp_path / "a.n5")
    assert found.exit_code == 1
    assert "free some space, and repeat it with --resume" in found.stderr


# Pyramids


def test_a_pyramid_is_made_beside_an_array_or_elsewhere(tmp_path: Path) -> None:
    place = tmp_path / "a.n5"
    told = printed("pyramid", f"{CELLS}/raw", place / "em", "--factors", "1,2,2", "--factors", "2")
    assert [line.partition(":")[0] for line in told.splitlines()] == ["s0", "s1", "s2"]
    again = tmp_path / "b.zarr"
    printed("copy", place / "em/s0", again / "em/s0")
    printed("pyramid", again / "em/s0", "--factors", "1,2,2", "--factors", "2")
    raw = open_array(CELLS, "raw")[...].astype("f8")
    means = raw.reshape(48, 80, 2, 100, 2).mean((2, 4))
    for container in (place, again):
        level = open_array(container, "em/s1")
        assert np.abs(level[...] - means).max() <= 0.5
        assert [axis.offset for axis in level.axes] == [0.0, 0.25, 0.25]
        assert open_array(container, "em/s2").shape == (24, 40, 50)


def test_a_pyramid_that_has_ended_has_nothing_to_resume(tmp_path: Path) -> None:
    place = tmp_path / "a.n5/em"
    assert printed("pyramid", f"{CELLS}/raw", place, "--resume").endswith("s3: 1 chunk, 2.21 kiB\n")
    assert "nothing to resume" in printed("pyramid", f"{CELLS}/raw", place, "--resume")
    for more in (("--resume",), ("--factors", 3, "--resume"), ()):
        found = run("pyramid", place / "s0", *more)
        assert found.exit_code == 1
        assert "--mode w" in found.stderr
    next((place / "s1").rglob("0/0/0")).unlink()
    printed("repair", place / "s1", "--missing")
    lines = printed("pyramid", f"{CELLS}/raw", place, "--resume").splitlines()
    assert [" kept)" in line for line in lines] == [True] * 4
    assert verify(tmp_path / "a.n5", "em/s1").attrs["unfinished"] == []
    assert "missing" not in verify(tmp_path / "a.n5", "em/s1").compute().state.values


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ([f"{CELLS}/raw"], 1, "is not called 's0'"),
        ([f"{CELLS}/raw", "a.n5", "--factors", "1,x"], 2, "in NumPy's axis order"),
        ([f"{CELLS}/raw", "a.n5", "--factors", "2,2"], 1, "3 numbers of at least 1"),
        ([f"{CELLS}/raw", "--format", "n5"], 2, "requires DST"),
        ([f"{CELLS}/rwa", "a.n5"], 1, "no array at 'rwa'"),
    ],
)
def test_what_becomes_no_pyramid_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run("pyramid", *arguments)
    assert found.exit_code == code
    assert problem in found.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
def test_a_copy_shows_its_progress_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    command = ("-m", "xarray_n5", "copy", CELLS, tmp_path / "b.n5")
    with (
        os.fdopen(ours, "rb", buffering=0) as shown,
        Python(*command, stderr=theirs) as program,
    ):
        os.close(theirs)
        text = b""
        try:
            while part := shown.read(4096):
                text += part
        except OSError:
            pass  # so Linux ends a terminal
        assert program.wait() == 0
    assert b"/48 chunks" in text
    assert b"kiB/s" in text or b"MiB/s" in text


def test_commands_compute_on_a_live_cluster(tmp_path: Path, cluster: Client) -> None:
    there = ("--scheduler", cluster.scheduler_info()["address"])
    printed("copy", CELLS, tmp_path / "b.zarr", *there)
    copied = verify(tmp_path / "b.zarr", "raw")
    assert (copied["state"] == "ok").all()
    assert "nothing to resume" in printed("copy", CELLS, tmp_path / "b.zarr", *there, "--resume")
    assert "s1: " in printed("pyramid", f"{CELLS}/raw", tmp_path / "c.n5/raw", *there)
    raw = open_array(CELLS, "raw")[...]
    for url, path in ((tmp_path / "b.zarr", "raw"), (tmp_path / "c.n5", "raw/s0")):
        np.testing.assert_array_equal(open_array(url, path)[...], raw)
    tasks = cluster.run_on_scheduler(
        lambda dask_scheduler: sum(
            prefix.name.startswith("write_n5") for prefix in dask_scheduler.task_prefixes.values()
        )
    )
    assert tasks, "the cluster wrote nothing"


def test_a_cluster_that_is_gone_is_told_in_one_line(
    tmp_path: Path, cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(_: object) -> None:
        raise CancelledError("the scheduler is gone.")

    monkeypatch.setattr("xarray_n5.copying.started.Copy.compute", lose)
    there = cluster.scheduler_info()["address"]
    found = run("copy", CELLS, tmp_path / "b.n5", "--scheduler", there)
    assert found.exit_code == 1
    said = "the scheduler is gone. What is stored is kept: repeat it with --resume"
    assert found.stderr.splitlines()[-1] == f"Error: {said}"


def test_a_cluster_excludes_local_workers(tmp_path: Path) -> None:
    found = run("copy", CELLS, tmp_path / "b.n5", "--scheduler", "tcp://a:1", "--workers", 2)
    assert found.exit_code == 2
    assert "omit --workers and --processes" in found.stderr


@pytest.mark.exhaustive
def test_processes_copy(tmp_path: Path) -> None:
    with started("copy", CELLS, tmp_path / "b.n5", "--workers", 2, "--processes") as program:
        _, err = program.communicate()
    assert program.returncode == 0, err
    np.testing.assert_array_equal(
        open_array(tmp_path / "b.n5", "raw")[...], open_array(CELLS, "raw")[...]
    )


WAITING = """
import os, sys, time
from pathlib import Path

import dask
from dask.callbacks import Callback
from xarray_n5.cli import main

dask.config.set({"array.chunk-size": "4 KiB"})


def wait(*_):
    while len(list(Path(sys.argv[3]).rglob("*"))) >= int(os.environ["ENOUGH"]):
        time.sleep(1)


with Callback(posttask=wait):
    main(prog_name="xarray-n5")
"""
"""The program, which goes on until enough is stored, and then waits to be killed."""


@pytest.mark.exhaustive
def test_a_copy_that_was_killed_goes_on(tmp_path: Path) -> None:
    options = ("--chunks", "4,16,32", "--workers", 1)
    place, whole = tmp_path / "b.zarr", tmp_path / "whole.zarr"
    printed("copy", CELLS, whole, *options)
    chunks = len(list(whole.rglob("*")))
    small = {**os.environ, "DASK_ARRAY__CHUNK_SIZE": "4 KiB"}
    command = ("-c", WAITING, "copy", CELLS, place, *options)
    with Python(*command, env={"ENOUGH": str(chunks // 8)}) as program:
        # Unlike rglob, os.walk tolerates folders that disappear meanwhile.
        when(lambda: sum(len(d + f) for _, d, f in os.walk(place)) >= chunks // 8, program)
        assert kill(program)
    assert list(place.rglob(".xn5/open*"))
    assert run("copy", CELLS, place, *options).exit_code == 1
    with started("copy", CELLS, place, *options, "--resume", env=small) as resumed:
        _, err = resumed.communicate()
    assert resumed.returncode == 0, err
    assert files(place) == files(whole)


def test_exit_codes_are_those_of_the_page(cells: Path, tmp_path: Path) -> None:
    copying = ("copy", cells, tmp_path / "b.n5")
    assert run(*copying).exit_code == 0
    assert run(*copying, "--resume").exit_code == 0  # complete
    assert run(*copying).exit_code == 1  # it exists
    assert run(*copying, "--mode", "x").exit_code == 2
    assert run("copy", cells).exit_code == 2
    assert run("verify", cells).exit_code == 0
    assert run("verify", cells, "--strict").exit_code == 1  # chunks are missing
    create_group(tmp_path / "c.n5")
    assert run("verify", tmp_path / "c.n5").exit_code == 1  # no arrays
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) +\|", page, re.MULTILINE) == ["0", "1", "2"]


# Verifying


def test_damage_is_found_and_mended(tmp_path: Path) -> None:
    cells = tmp_path / "c.n5"
    printed("copy", CELLS, cells)
    assert "24 ok" in printed("verify", cells)
    key = damage(cells)
    found = run("verify", cells)
    assert found.exit_code == 1
    assert f"truncated: {key}" in found.stdout
    (_, report) = json.loads(run("verify", cells, "--json").stdout)
    assert report["chunks"] == {"ok": 23, "truncated": 1}
    assert report["damaged"] == {key: "truncated"}
    assert printed("repair", f"{cells}/raw").startswith("1 damaged chunk moved")
    printed("copy", f"{CELLS}/raw", f"{cells}/raw", "--resume")
    assert "raw     24 ok" in printed("verify", cells)
    np.testing.assert_array_equal(open_array(cells, "raw")[...], open_array(CELLS, "raw")[...])


def test_where_nothing_is_verified_that_is_an_error(cells: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    found = run("verify", tmp_path / "plain")
    assert found.exit_code == 1
    assert "no array at '/'" in found.stderr
    (cells / "nuclei/attributes.json").unlink()
    for place, line in (
        (cells, "nuclei  has files that look like chunks, but no attributes.json"),
        (cells / "raw/0", "raw/0  has files that look like chunks, but no attributes.json"),
    ):
        found = run("verify", place)
        assert found.exit_code == 1
        assert line in found.stdout.splitlines()
    (tmp_path / "levels.n5").mkdir()
    to_n5(np.zeros((4, 4), "u1"), tmp_path / "levels.n5", "0/0")  # called like a chunk
    assert "0/0  1 ok" in printed("verify", tmp_path / "levels.n5")


def test_an_array_that_cannot_be_read_does_not_hide_others(cells: Path) -> None:
    key = damage(cells)
    (cells / "nuclei/attributes.json").write_text("{", "utf-8")
    create_array(cells, "huge", shape=(1 << 30, 4), dtype="u1", chunks=(1, 1))
    found = run("verify", cells)
    assert found.exit_code == 1
    huge, nuclei, raw, damaged = found.stdout.splitlines()
    assert "(1073741824, 4) chunks, too many for a table" in huge
    assert "not valid JSON" in nuclei
    assert raw == "raw     23 ok, 1 truncated"
    assert damaged == f"    truncated: {key}"
    assert "1 of 3 arrays has damaged chunks: remove them with xarray-n5 repair" in found.stderr
    assert "2 of 3 arrays have not been verified" in found.stderr
    reports = json.loads(run("verify", cells, "--json").stdout)
    assert [bool(report["error"]) for report in reports] == [True, True, False]
    drawn = run("tree", cells, "--chunks")
    assert drawn.exit_code == 1
    assert "nuclei  " in drawn.stdout
    assert "not valid JSON" in drawn.stdout
    assert "0 of 4294967296 chunks stored" in drawn.stdout
    assert "24 of 24 chunks stored" in drawn.stdout


def test_what_is_to_be_repaired_and_written_again_is_told(tmp_path: Path) -> None:
    cells = tmp_path / "c.n5"
    printed("copy", CELLS, cells)
    key = damage(cells)
    (cells / "raw/0/0/0").unlink()
    (cells / "raw/notes.txt").write_text("mine", "utf-8")
    assert printed("repair", cells).splitlines() == [
        "nuclei: nothing to repair",
        "raw: 1 damaged chunk moved to .xn5/quarantine",
    ]
    assert not (cells / key).exists()
    assert list(cells.rglob(".xn5/quarantine"))
    told = printed("repair", cells, "raw", "--missing")
    assert told == "2 missing chunks marked to be written again\n"
    found = run("verify", cells)
    assert found.exit_code == 1
    assert "raw     2 missing, 22 ok; 1 stray file; 1 unfinished write" in found.stdout
    assert "    stray: raw/notes.txt" in found.stdout
    assert "repeat them with resume=True or --resume" in found.stderr
    printed("copy", f"{CELLS}/raw", f"{cells}/raw", "--resume")
    assert run("verify", cells).exit_code == 0


def test_arrays_of_hdf5_are_verified_and_repaired(tmp_path: Path) -> None:
    place = tmp_path / "a.h5"
    printed("copy", CELLS, place)
    assert printed("repair", place).splitlines()[1] == "raw: nothing to repair"
    assert "raw     24 ok" in printed("verify", place)
    assert "24 of 24 chunks stored" in printed("tree", place, "--chunks")


def test_a_copy_of_what_is_damaged_fails(cells: Path, tmp_path: Path) -> None:
    key = damage(cells)
    found = run("copy", cells, tmp_path / "b.n5")
    assert found.exit_code == 1
    assert key in found.stderr


# Pictures


def test_a_picture_has_the_proportions_of_the_section(tmp_path: Path) -> None:
    for name, axis in (("xy.png", "z"), ("xz.png", "y")):
        printed("preview", f"{CELLS}/raw", "-o", tmp_path / name, "--axis", axis, "--pixels", 300)
    assert images.imread(tmp_path / "xy.png").shape[:2] == (240, 300)
    assert images.imread(tmp_path / "xz.png").shape[:2] == (288, 300)


def test_a_scale_bar_is_readable_in_small_and_in_bright_pictures(tmp_path: Path) -> None:
    bright = np.full((80, 100), 200, "u1")
    bright[0, 0] = 0
    to_n5(bright, tmp_path / "a.n5", "a")
    options = (tmp_path / "a.n5/a", "-o", tmp_path / "a.png", "--percentile", 0, 100, "--pixels")
    for pixels in (100, 800):
        printed("preview", *options, pixels)
        shown = images.imread(tmp_path / "a.png")[:, :, 0]
        below = shown[shown.shape[0] // 2 :]
        dark = np.argwhere(below < 0.5)
        # The box is dark, all in the picture, and not at its edge; the bar in it is white.
        assert dark.max(0)[1] < shown.shape[1] - 2
        assert dark.max(0)[0] < below.shape[0] - 2
        low, high = dark.min(0), dark.max(0)
        box = below[low[0] : high[0], low[1] : high[1]]
        assert (box > 0.95).all(1).sum() == 0
        assert ((box > 0.95).sum(1) >= 0.15 * shown.shape[1]).sum() >= 2
    printed("preview", *options, 40)
    assert images.imread(tmp_path / "a.png")[1:, 1:, 0].min() > 0.9


def test_a_scale_bar_lies_in_pictures_without_pixels(tmp_path: Path) -> None:
    printed("preview", f"{CELLS}/raw", "-o", tmp_path / "a.svg", "--pixels", 400)
    text = (tmp_path / "a.svg").read_text("utf-8")
    wide, tall = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)[0])
    places = re.findall(r'id="patch_\d+">\s*<path d="M ([\d.]+) ([\d.]+)', text)
    bars = [(float(x) / wide, float(y) / tall) for x, y in places if float(x)]
    assert len(bars) == 2
    assert all(0.7 < x < 1 and 0.85 < y < 1 for x, y in bars)


def test_a_section_of_which_nothing_is_stored_is_told(tmp_path: Path) -> None:
    array = create_array(tmp_path / "a.n5", "a", shape=(8, 20, 20), dtype="u1", chunks=(4, 10, 10))
    told = printed("preview", tmp_path / "a.n5/a", "-o", tmp_path / "a.png")
    assert told.endswith("; no chunk is stored here\n")
    open_array(tmp_path / "a.n5", "a", mode="r+")[4:, 10:, 10:] = 0  # zeros that somebody stored
    assert "stored" not in printed("preview", tmp_path / "a.n5/a", "-o", tmp_path / "a.png")
    assert "stored" in printed(
        "preview", tmp_path / "a.n5/a", "-o", tmp_path / "a.png", "--index", 0
    )
    assert array.shape == (8, 20, 20)
    create_array(tmp_path / "a.n5", "none", shape=(0, 20, 20), dtype="u1", chunks=(4, 10, 10))
    found = run("preview", tmp_path / "a.n5/none", "-o", tmp_path / "a.png")
    assert found.stderr.endswith("has no samples to draw: its shape is (0, 20, 20)\n")


def test_views_of_bigdataviewer_are_drawn_and_told(tmp_path: Path) -> None:
    place = tmp_path / "a.n5"
    for setup in (0, 1):
        for level, size in (("s0", 64), ("s1", 32)):
            path = f"setup{setup}/timepoint0/{level}"
            to_n5(np.full((4, size, size), setup + 1, "u1"), place, path)
    for inner, view in (("", "setup0"), ("setup1", "setup1"), ("setup1/timepoint0", "setup1")):
        told = printed("preview", place / inner, "-o", tmp_path / "a.png", "--pixels", 32)
        assert told == f"{tmp_path / 'a.png'}: {view}/timepoint0/s1, z = 2\n"
    lines = printed("info", place).splitlines()
    assert lines[-1].strip() == "image    1 x 2 x 4 x 64 x 64 (t, setup, z, y, x), levels s0, s1"
    (tmp_path / "a.xml").write_text(
        "<SpimData><SequenceDescription><ImageLoader format='bdv.n5'>"
        "<n5 type='relative'>a.n5</n5></ImageLoader></SequenceDescription></SpimData>",
        "utf-8",
    )
    for command in (("tree",), ("preview", "-o", tmp_path / "b.png")):
        found = run(*command, tmp_path / "a.xml")
        assert found.exit_code == 1
        assert "a.xml: the project has no timepoints" in found.stderr
    with pytest.raises(ValueError, match="the project has no timepoints"):
        xr.open_dataset(tmp_path / "a.xml", engine="n5")
    (tmp_path / "b.xml").write_text("<!DOCTYPE a><SpimData/>", "utf-8")
    assert "it is a file, but not an HDF5" in run("tree", tmp_path / "b.xml").stderr


def test_a_project_is_verified_in_its_container(tmp_path: Path) -> None:
    image = xr.DataArray(np.ones((4, 6, 8), "u2"), dims=("z", "y", "x"), name="raw")
    image.n5.to_bdv(tmp_path / "stack.xml", tmp_path / "stack.n5")
    reports = json.loads(printed("verify", tmp_path / "stack.xml", "--json"))
    assert reports == json.loads(printed("verify", tmp_path / "stack.n5", "--json"))
    path = tmp_path / "stack.n5" / reports[0]["path"] / "0/0/0"
    path.write_bytes(path.read_bytes()[:9])
    assert run("verify", tmp_path / "stack.xml").exit_code == 1


def test_views_that_are_gone_fail_a_strict_verification(tmp_path: Path) -> None:
    shutil.copytree(tutorial.path("tiles").parent, tmp_path / "x")
    xml = tmp_path / "x" / "tiles.xml"
    assert run("verify", xml, "--strict").exit_code == 0
    for time in (0, 1):
        shutil.rmtree(tmp_path / "x" / "tiles.n5" / "setup3" / f"timepoint{time}")
    found = run("verify", xml, "--strict")
    assert found.exit_code == 1
    assert "of which 2 are not stored: setup 3 timepoint 0, setup 3 timepoint 1" in found.stderr
    assert run("verify", xml).exit_code == 0
    assert run("verify", xml, "setup0", "--strict").exit_code == 0
    listed = "".join(f'<MissingView timepoint="{t}" setup="3" />' for t in (0, 1))
    text = xml.read_text("utf-8").replace(
        "<MissingViews />", f"<MissingViews>{listed}</MissingViews>"
    )
    xml.write_text(text, "utf-8")
    assert run("verify", xml, "--strict").exit_code == 0


def test_python_runs_the_program_as_a_module() -> None:
    command = [sys.executable, "-m", "xarray_n5", "--help"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert found.stdout.startswith("Usage: xarray-n5 ")


def test_labels_have_colours_and_numbers_have_none(tmp_path: Path) -> None:
    for name, option in (("grey.png", "--no-labels"), ("colours.png", "--labels")):
        printed("preview", f"{CELLS}/nuclei", "-o", tmp_path / name, option, "--at", 50.0)
        picture = images.imread(tmp_path / name)[:, :, :3]
        assert (np.ptp(picture, axis=2) > 0.2).any() == (option == "--labels")


def test_the_coarsest_level_that_is_fine_enough_is_drawn(tmp_path: Path) -> None:
    for level, size in enumerate((64, 32, 16)):
        scale = {"dimensions": [1, 1, 1], "unit": "um"}
        told = {"pixelResolution": scale, "downsamplingFactors": [2**level] * 3}
        to_n5(np.full((size,) * 3, level, "u1"), tmp_path / "a.n5", f"s{level}", attributes=told)
    group = open_group(tmp_path / "a.n5")
    assert [section(group, pixels=n).values.max() for n in (16, 17, 33, 500)] == [2, 1, 0, 0]
    assert "z = 5" in section(group, pixels=16, at=20.0).title
    assert section(group, pixels=20, index=63).title.startswith("s1, z = 31")
    assert section(group["s0"], pixels=16).columns.step == 4


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--at", 500), 1, "outside of 'z'"),
        (("--index", 48), 1, "which has 48 samples"),
        (("--axis", "t"), 1, "across 't'; expected one of"),
        (("--index", 1, "--at", 2), 2, "one of them"),
        (("--percentile", 5, 1), 2, "the smaller one first"),
        (("-o", "anon=true"), 2, "-o is the output file here"),
    ],
)
def test_what_cannot_be_drawn_is_told(
    tmp_path: Path, options: tuple[object, ...], code: int, text: str
) -> None:
    found = run("preview", f"{CELLS}/raw", "-o", tmp_path / "a.png", *options)
    assert found.exit_code == code, found.output
    assert text in found.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("anon=true", "use --storage-option for storage options"),
        ("nowhere/a.png", "the folder 'nowhere' does not exist"),
    ],
)
def test_what_is_no_place_for_a_picture_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run("preview", f"{CELLS}/raw", "-o", place)
    assert found.exit_code == 2
    assert text in found.stderr
    assert not list(tmp_path.iterdir())


def test_a_picture_of_a_group_names_its_arrays(tmp_path: Path) -> None:
    create_group(tmp_path / "a.n5")
    assert "nuclei, raw" in run("preview", CELLS, "-o", tmp_path / "a.png").stderr
    assert "no arrays" in run("preview", tmp_path / "a.n5", "-o", tmp_path / "a.png").stderr


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found_by = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError("No module named 'matplotlib'")
        return found_by(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    found = run("preview", f"{CELLS}/raw", "-o", tmp_path / "a.png")
    assert found.exit_code == 1
    assert 'pip install "xarray-n5[plot]"' in found.stderr


def test_contrast_and_lengths() -> None:
    assert grey(np.array([[np.nan, np.inf], [0, 2]]), (0, 100)).tolist() == [[0, 1], [0, 1]]
    assert grey(np.full((2, 2), 7), (0, 100)).max() == 0
    assert [round_length(x) for x in (1.0, 1.99, 0.07, 49, 5e-9)] == [1, 1, 0.05, 20, 5e-9]
    labels = colours(np.array([[0, 1, 2, 1]], "u8"))
    assert (labels[0, 0] == 0).all()
    assert (labels[0, 1] == labels[0, 3]).all()
    assert np.abs(labels[0, 1] - labels[0, 2]).max() > 0.2


# The program


def test_a_reader_that_goes_away_is_no_error() -> None:
    with started("tree", DATA / "java-2.5.1.n5") as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        assert program.stderr.read() == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_learn_to_complete(shell: str) -> None:
    ask = {"_XARRAY_N5_COMPLETE": f"{shell}_source"}
    assert "_XARRAY_N5_COMPLETE" in CliRunner().invoke(main, env=ask, prog_name="xarray-n5").output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tree ce", "file,ce"),
        ("copy cells.n5 o", "file,o"),
        ("preview cells.n5 -o r", "file,r"),
        ("tree --de", "plain,--depth"),
        ("ver", "plain,verify"),
        ("copy a b --format z", "plain,zarr2"),
    ],
)
def test_names_of_files_and_options_are_completed(words: str, expected: str) -> None:
    typed = {"COMP_WORDS": f"xarray-n5 {words}", "COMP_CWORD": str(len(words.split()))}
    asked = {**os.environ, **typed, "_XARRAY_N5_COMPLETE": "bash_complete"}
    with started(env=asked) as program:
        out, _ = program.communicate()
    assert expected in out.splitlines()


def test_a_warning_of_another_thread_is_one_line() -> None:
    @click.command()
    @report_errors
    def command() -> None:
        thread = threading.Thread(target=warnings.warn, args=("two\nlines",))
        thread.start()
        thread.join()

    assert CliRunner().invoke(command).stderr == "Warning: two lines\n"


@pytest.mark.parametrize("command", sorted(main.commands))
def test_every_command_has_examples(command: str) -> None:
    text = printed(command, "--help")
    assert "\\b" not in text
    examples = text.partition("Examples:\n")[2].splitlines()
    assert examples, "add a block 'Examples:' to the docstring of the command"
    assert examples[0].strip().startswith((f"xarray-n5 {command}", "eval"))
    assert f"  xarray-n5 {command}" in text


def test_the_version_is_told() -> None:
    assert printed("--version").startswith("xarray-n5 ")


def test_a_tree_shows_the_version_of_ome_zarr(tmp_path: Path) -> None:
    printed("pyramid", f"{CELLS}/raw", tmp_path / "a.zarr/em", "--format", "zarr3")
    shown = printed("tree", tmp_path / "a.zarr").splitlines()
    assert shown[0].endswith("a.zarr  zarr3")
    assert shown[1] == "└── em/  OME-Zarr 0.5"
    assert printed("tree", tmp_path / "a.zarr/em").splitlines()[0].endswith("zarr3  OME-Zarr 0.5")
    printed("copy", tmp_path / "a.zarr", tmp_path / "b.zarr", "--format", "zarr2")
    assert printed("tree", tmp_path / "b.zarr").splitlines()[1] == "└── em/  OME-Zarr 0.4"


def test_a_server_that_is_gone_is_a_reason_to_resume() -> None:
    found = run("copy", CELLS, "http://127.0.0.1:9/b.n5")
    assert found.exit_code == 1
    assert "--resume" not in run("tree", "http://127.0.0.1:9/b.n5").stderr
    assert found.stderr.endswith("; if it has written anything, repeat it with --resume\n"), (
        found.stderr
    )


def test_the_address_of_a_server_is_no_secret() -> None:
    options = {"client": {"endpoint_url": "http://127.0.0.1:9"}, "key": "abcdefgh", "anon": True}
    assert [*_secrets({"options": options, "path": "abcdefgh.n5"})] == ["abcdefgh"]
