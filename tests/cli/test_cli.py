"""The command line: what it prints, where it fails, and that what was killed goes on."""

from __future__ import annotations

import builtins
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import uuid
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner, Result
from fsspec.implementations.memory import MemoryFileSystem
from matplotlib import image as images

from tests.support.containers import NAMES
from xarray_n5 import create_array, create_group, open_array, pyramid, to_n5, tutorial, verify
from xarray_n5.cli import main
from xarray_n5.cli.options import _secrets, report_errors
from xarray_n5.formats import split_url
from xarray_n5.viewing.layers import images_to_show
from xarray_n5.viewing.preview import _level

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
    _, *lines = printed("tree", CELLS).splitlines()
    assert "nuclei  48 x 160 x 200 uint8, chunks 32 x 64 x 64, gzip" in lines[0]
    assert (
        lines[3].strip()
        == "z: start 0, step 2 µm; y: start 0, step 0.5 µm; x: start 0, step 0.5 µm  (tensorstore)"
    )


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
    assert "uint8" not in printed("tree", tmp_path, "--depth", 1)
    assert "--depth" in last
    assert "c/" not in "".join(lines)
    assert "d/" in printed("tree", tmp_path, "--depth", 9)
    found = run("tree", cells, "raw/0")
    assert found.exit_code == 1
    assert found.stdout.endswith("has files that look like chunks, but no attributes.json\n")


def test_the_program_draws_a_tree_in_ascii_where_there_is_nothing_else() -> None:
    with started("tree", CELLS, env={**os.environ, "PYTHONIOENCODING": "ascii"}) as program:
        out, _ = program.communicate()
    assert "`-- raw" in out
    assert printed("--version").startswith("xarray-n5 ")
    ask = {"_XARRAY_N5_COMPLETE": "bash_source"}
    assert "_XARRAY_N5_COMPLETE" in CliRunner().invoke(main, env=ask, prog_name="xarray-n5").output


def test_facts_are_told_to_people_and_to_programs() -> None:
    assert "48 x 160 x 200\n" in printed("info", CELLS, "raw")
    facts = json.loads(printed("info", f"{CELLS}/raw", "--json"))
    assert list(facts) == [
        "url",
        "path",
        "kind",
        "format",
        "shape",
        "dtype",
        "bytes",
        "chunks",
        "chunk_count",
        "shards",
        "shard_count",
        "compression",
        "unfinished",
        "axes",
        "affine",
        "sources",
        "dialects",
        "attributes",
    ]
    assert facts["shape"] == [48, 160, 200]
    axis = {"name": "z", "kind": "space", "unit": "um", "scale": 2.0, "offset": 0.0}
    assert facts["axes"][0] == axis | {"labels": None}
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


def test_a_place_is_split_where_the_container_ends() -> None:
    for url, inner in (
        ("a.n5", ""),
        ("/x/a.zarr", "em/s0"),
        ("s3://bucket/a.n5/b.n5", "c"),
        ("plain/folder", ""),
        ("https://host/a.n5?key=1", ""),
    ):
        assert split_url(f"{url}/{inner}/" if inner else url) == (url, inner)


# Copying


def test_a_container_is_copied_to_every_format_and_back(tmp_path: Path) -> None:
    java = DATA / "java-2.5.1.n5"
    for name in ("a.zarr", "b.h5", "c.n5"):
        printed("copy", java, tmp_path / name)
        java = tmp_path / name
    for path in ("codec/lz4", "edge3d/float32/gzip", "missing2d"):
        before, again = open_array(DATA / "java-2.5.1.n5", path), open_array(java, path)
        np.testing.assert_array_equal(before[...], again[...])
        assert dict(before.attrs).items() <= dict(again.attrs).items()


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


REFUSED: list[tuple[list[str], int, str]] = [
    (["copy", f"{CELLS}/raw", "b.n5", "--compression", "squeeze"], 1, "squeeze"),
    (["copy", f"{CELLS}/raw", "b.n5", "--compression", "{"], 2, "{"),
    (["copy", f"{CELLS}/raw", "b.n5", "--chunks", "big"], 2, "big"),
    (["copy", f"{CELLS}/raw", "b.n5", "--mode", "x"], 2, "--mode"),
    (["copy", f"{CELLS}/raw", "b.n5", "--format", "hdf5"], 1, "hdf5"),
    (["copy", f"{CELLS}/raw", "b.n5", "--dialect", "none"], 1, "none"),
    (["copy", f"{CELLS}/raw"], 2, "DST"),
    (["pyramid", f"{CELLS}/raw"], 1, "s0"),
    (["pyramid", f"{CELLS}/raw", "a.n5", "--factors", "1,x"], 2, "1,x"),
    (["pyramid", f"{CELLS}/raw", "a.n5", "--factors", "2,2"], 1, "3 numbers"),
    (["pyramid", f"{CELLS}/raw", "--format", "n5"], 2, "DST"),
    (["pyramid", f"{CELLS}/rwa", "a.n5"], 1, "'rwa'"),
    (["preview", f"{CELLS}/raw", "-o", "a.png", "--at", "500"], 1, "500"),
    (["preview", f"{CELLS}/raw", "-o", "a.png", "--axis", "t"], 1, "'t'"),
    (["preview", f"{CELLS}/raw", "-o", "anon=true"], 2, "anon=true"),
    (["preview", f"{CELLS}/raw", "-o", "nowhere/a.png"], 2, "nowhere"),
]


@pytest.mark.parametrize(("arguments", "code", "fact"), REFUSED)
def test_what_cannot_be_done_is_refused_and_nothing_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, fact: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert fact in result.stderr
    assert not list(tmp_path.iterdir())


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
        assert ("unfinished" in found.stderr or "other" in found.stderr) if resumed else True


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
    next((place / "s1").rglob("0/0/0")).unlink()
    printed("repair", place / "s1", "--missing")
    lines = printed("pyramid", f"{CELLS}/raw", place, "--resume").splitlines()
    assert [" kept)" in line for line in lines] == [True] * 4
    assert verify(tmp_path / "a.n5", "em/s1").attrs["unfinished"] == []
    assert "missing" not in verify(tmp_path / "a.n5", "em/s1").compute().state.values


def test_exit_codes_are_those_of_the_page(cells: Path, tmp_path: Path) -> None:
    copying = ("copy", cells, tmp_path / "b.n5")
    assert run(*copying).exit_code == 0
    assert run(*copying, "--resume").exit_code == 0  # complete
    assert run(*copying).exit_code == 1  # it exists
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
    drawn = run("tree", cells)
    assert drawn.exit_code == 1
    assert "nuclei  " in drawn.stdout
    assert "not valid JSON" in drawn.stdout
    assert "raw  48 x 160 x 200 uint8" in drawn.stdout


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


# Pictures


def test_a_project_is_verified_in_its_container(tmp_path: Path) -> None:
    image = xr.DataArray(np.ones((4, 6, 8), "u2"), dims=("z", "y", "x"), name="raw")
    image.n5.to_bdv(tmp_path / "stack.xml", tmp_path / "stack.n5")
    reports = json.loads(printed("verify", tmp_path / "stack.xml", "--json"))
    assert reports == json.loads(printed("verify", tmp_path / "stack.n5", "--json"))
    path = tmp_path / "stack.n5" / reports[0]["path"] / "0/0/0"
    path.write_bytes(path.read_bytes()[:9])
    assert run("verify", tmp_path / "stack.xml").exit_code == 1


def test_a_section_is_drawn(tmp_path: Path) -> None:
    for name, options in (("a.png", ()), ("b.png", ("--axis", "y", "--at", 7.1)), ("c.svg", ())):
        shown = printed("preview", f"{CELLS}/raw", "-o", tmp_path / name, *options)
        assert shown.startswith(f"{tmp_path / name}: raw, ")
    xy, xz = (images.imread(tmp_path / name)[..., 0] for name in ("a.png", "b.png"))
    assert xy.shape != xz.shape
    assert 0.02 < xy.mean() < 0.9


def test_the_coarsest_level_that_is_fine_enough_is_drawn(tmp_path: Path) -> None:
    values = xr.DataArray(np.arange(64.0**2).reshape(64, 64), dims=("y", "x"), name="a")
    pyramid(values, tmp_path / "a.n5", "a", levels=2)
    (image,) = images_to_show(xr.open_datatree(tmp_path / "a.n5", engine="n5", group="a"))
    assert [_level(image, pixels).shape[0] for pixels in (16, 17, 33, 500)] == [16, 32, 64, 64]


def test_labels_are_drawn_in_colours(tmp_path: Path) -> None:
    for name, dtype in (("grey", "u4"), ("labels", "u8")):
        to_n5(np.arange(64, dtype=dtype).reshape(8, 8), tmp_path / "a.n5", name)
        printed("preview", tmp_path / "a.n5", name, "-o", tmp_path / "a.png", "--pixels", 64)
        picture = images.imread(tmp_path / "a.png")[..., :3]
        assert (np.ptp(picture, axis=2) > 0.2).any() == (name == "labels")


def test_a_section_that_is_too_large_is_refused(tmp_path: Path) -> None:
    create_array(tmp_path / "a.n5", "a", shape=(1 << 15, 1 << 15), dtype="u1", chunks=1 << 12)
    result = run("preview", tmp_path / "a.n5/a", "-o", tmp_path / "a.png")
    assert (result.exit_code, "make a pyramid first" in result.stderr) == (1, True)


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


# The program


def test_a_reader_that_goes_away_is_no_error() -> None:
    with started("tree", DATA / "java-2.5.1.n5") as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        assert program.stderr.read() == ""


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


def test_a_tree_shows_the_version_of_ome_zarr(tmp_path: Path) -> None:
    printed("pyramid", f"{CELLS}/raw", tmp_path / "a.zarr/em", "--format", "zarr3")
    shown = printed("tree", tmp_path / "a.zarr").splitlines()
    assert shown[0].endswith("a.zarr  zarr3")
    assert shown[1] == "└── em/  OME-Zarr 0.5"
    assert printed("tree", tmp_path / "a.zarr/em").splitlines()[0].endswith("zarr3  OME-Zarr 0.5")
    printed("copy", tmp_path / "a.zarr", tmp_path / "b.zarr", "--format", "zarr2")
    assert printed("tree", tmp_path / "b.zarr").splitlines()[1] == "└── em/  OME-Zarr 0.4"


def test_the_address_of_a_server_is_no_secret() -> None:
    options = {"client": {"endpoint_url": "http://127.0.0.1:9"}, "key": "abcdefgh", "anon": True}
    assert [*_secrets(options)] == ["abcdefgh"]
