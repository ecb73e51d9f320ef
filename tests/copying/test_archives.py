"""Copies into one ZIP archive: what others read, and what is there whenever a process is killed."""

from __future__ import annotations

import errno
import json
import shutil
import zipfile
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import xarray_n5
from tests.support.exhaustive import some
from tests.support.processes import Python
from xarray_n5 import MetadataError, NodeExistsError, copy, open_array, set_options
from xarray_n5.cli import main
from xarray_n5.copying import archives
from xarray_n5.errors import DifferenceError, PathError

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES = np.arange(24 * 36, dtype="u2").reshape(24, 36)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A pyramid in N5, and a table next to it."""
    path = tmp_path / "cells.n5"
    axes = {
        "y": ("y", np.arange(24) * 0.5, {"units": "um"}),
        "x": ("x", np.arange(36) * 0.25, {"units": "um"}),
    }
    image = xr.DataArray(VALUES, dims=("y", "x"), coords=axes, name="raw")
    xarray_n5.pyramid(image, path, "em", factors=2, levels=1, chunks=12)
    xarray_n5.to_n5(np.arange(5), path, "table")
    return path


def only(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_a_copy_is_an_archive_as_rfc_9_recommends(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / "out.ozx", shards="auto", verify=True)
    assert only(tmp_path) == {"cells.n5", "out.ozx"}
    with zipfile.ZipFile(tmp_path / "out.ozx") as archive:
        assert archive.testzip() is None
        infos = archive.infolist()
        comment = json.loads(archive.comment)
        root = json.loads(archive.read("em/zarr.json"))
    names = [each.filename for each in infos]
    documents = [name for name in names if name.endswith("zarr.json")]
    assert names[0] == "zarr.json"
    assert names[: len(documents)] == documents
    depths = [name.count("/") for name in documents]
    assert depths == sorted(depths)
    assert len(names) > len(documents)
    assert [each.header_offset for each in infos] == sorted(each.header_offset for each in infos)
    assert {each.compress_type for each in infos} == {zipfile.ZIP_STORED}
    assert {each.extract_version for each in infos} == {45}
    version = root["attributes"]["ome"]["version"]
    layout = {"centralDirectory": {"jsonFirst": True}}
    assert comment == {"ome": {"version": version, "zipFile": layout}}


def test_archive_reads_as_its_source(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / "out.ozx", shards="auto")
    copy(tmp_path / "out.ozx", tmp_path / "back.n5")
    for path in ("out.ozx", "back.n5"):
        with xr.open_dataset(tmp_path / path, engine="n5", group="em", level=0) as image:
            np.testing.assert_array_equal(image.em.values, VALUES)
            np.testing.assert_array_equal(image.y, np.arange(24) * 0.5)
            assert image.x.units in {"um", "micrometer"}
    assert xarray_n5.digest(tmp_path / "back.n5") == xarray_n5.digest(source)
    zarr = pytest.importorskip("zarr")
    with zarr.storage.ZipStore(tmp_path / "out.ozx", mode="r") as store:
        group = zarr.open_group(store, mode="r")
        np.testing.assert_array_equal(group["em/s0"][:], VALUES)
        np.testing.assert_array_equal(group["table"][:], np.arange(5))


def test_equal_containers_become_equal_archives(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / "a.ozx")
    copy(source, tmp_path / "b.ozx")
    assert (tmp_path / "a.ozx").read_bytes() == (tmp_path / "b.ozx").read_bytes()


def test_the_command_writes_it(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.ozx"
    done = CliRunner().invoke(main, ["copy", f"{source}/table", f"{out}/part/t"])
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(open_array(out, "part/t")[:], np.arange(5))
    again = CliRunner().invoke(main, ["copy", f"{source}/table", f"{out}/part/t"])
    assert again.exit_code == 1
    assert "an archive" in again.output
    resumed = CliRunner().invoke(main, ["copy", f"{source}/table", f"{out}/part/t", "--resume"])
    assert "nothing to resume" in resumed.output


def test_an_existing_archive_is_replaced_as_a_whole(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.ozx"
    copy(source, out)
    before = out.read_bytes()
    for mode in ("w-", "a"):
        with pytest.raises(NodeExistsError):
            copy(source, out, mode=mode)
    assert out.read_bytes() == before
    with set_options(fsync=True):
        copy(source / "table", out / "t", mode="w")
    assert [*xarray_n5.open_group(out)] == ["t"]
    copy(out, out, mode="w")  # of itself
    np.testing.assert_array_equal(open_array(out, "t")[:], np.arange(5))
    assert only(tmp_path) == {"cells.n5", "out.ozx"}


def a_directory(folder: Path) -> Any:
    (folder / "out.ozx").mkdir()
    return folder / "out.ozx"


REFUSED: dict[str, tuple[Callable[[Path], Any], dict[str, Any], type[Exception]]] = {
    "a URL": (lambda _: "s3://bucket/out.ozx?a=1", {}, PathError),
    "another format": (lambda folder: folder / "out.ozx", {"format": "zarr2"}, MetadataError),
    "a directory": (a_directory, {"mode": "w"}, NodeExistsError),
    "chunks": (lambda folder: folder / "out.ozx", {"chunks": 0}, ValueError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_leaves_nothing(name: str, source: Path, tmp_path: Path) -> None:
    target, options, error = REFUSED[name]
    place = target(tmp_path)
    before = only(tmp_path)
    with pytest.raises(error):
        copy(source, place, **options)
    assert only(tmp_path) == before


def test_copy_that_could_not_be_packed_is_resumed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfileobj", full)
        with pytest.raises(OSError, match="no space"):
            copy(source, tmp_path / "out.ozx")
    with pytest.raises(NodeExistsError, match="resume=True"):
        copy(source, tmp_path / "out.ozx")
    copy(source, tmp_path / "out.ozx", resume=True, verify=True)
    assert only(tmp_path) == {"cells.n5", "out.ozx"}


KILLED = """
import os, sys, signal
import dask
import xarray_n5
from xarray_n5.copying import archives
from xarray_n5.stores import LocalStore

name, source, target = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

calls = [0]

def third(function, chosen=lambda *_: True):
    def call(*args, **options):
        calls[0] += chosen(*args)
        return die() if calls[0] == 3 else function(*args, **options)
    return call

if name == "chunks":
    LocalStore.set = third(LocalStore.set, lambda _, key, data: "/s0/c/" in key)
elif name == "packing":
    archives.zipfile.ZipFile.open = third(archives.zipfile.ZipFile.open)
elif name == "replacing":
    archives.os.replace = die
elif name == "removing":
    rename = os.rename
    archives.os.rename = lambda *paths: die()
elif name == "removed":
    archives.shutil.rmtree = die
with dask.config.set(scheduler="synchronous"):
    xarray_n5.copy(source, target, chunks=6)
print("not killed")
"""


@pytest.mark.parametrize("name", some(["chunks", "replacing", "packing", "removing", "removed"], 2))
def test_a_killed_copy_is_resumed(name: str, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.ozx"
    killed = Python("-c", KILLED, name, source, out, stderr=PIPE)
    _, problem = killed.communicate()
    assert killed.returncode == -9, problem[-500:]
    assert out.exists() == (name in {"removing", "removed"})
    if out.exists():
        np.testing.assert_array_equal(open_array(out, "em/s0")[:], VALUES)
    copy(source, out, chunks=6, resume=True)
    np.testing.assert_array_equal(open_array(out, "em/s0")[:], VALUES)
    left = {name.startswith(".") for name in only(tmp_path) - {"cells.n5", "out.ozx"}}
    assert left <= ({True} if name == "removed" else set())


def test_verify_finds_damage_of_the_archive(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = archives.write_archive

    def damaging(folder: str, target: str, **options: Any) -> None:
        write(folder, target, **options)
        data = bytearray(Path(target).read_bytes())
        with zipfile.ZipFile(target) as archive:
            info = next(each for each in archive.infolist() if "em/s0/c" in each.filename)
        data[info.header_offset + 30 + len(info.filename) + 20] ^= 1
        Path(target).write_bytes(data)

    monkeypatch.setattr(archives, "write_archive", damaging)
    with pytest.raises(DifferenceError, match="1 of "):
        copy(source, tmp_path / "out.ozx", verify=True)
    states = xarray_n5.verify(tmp_path / "out.ozx", "em/s0").state.values.ravel().tolist()
    assert sorted({*states}) == ["ok", "undecodable"]
    assert states.count("undecodable") == 1
