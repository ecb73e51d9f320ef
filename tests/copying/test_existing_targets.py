"""Copies where something is already: what is still to be read stays, refusals leave nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import dask
import numpy as np
import pytest

from tests.support.containers import FULL, NAMES
from tests.support.killing import files
from xarray_n5 import (
    ChunkError,
    MetadataError,
    NodeExistsError,
    ResumeError,
    copy,
    create_array,
    create_group,
    open_array,
    open_group,
)


def store(place: Path, form: Any = "n5", **values: int) -> str:
    """Store arrays, each of one number alone, and return where; ``__`` parts groups."""
    url = str(place / NAMES[form])
    create_group(url, mode="a", format=form)
    for name, value in values.items():
        path = name.replace("__", "/")
        create_array(url, path, shape=(4, 6), chunks=(2, 3), dtype="u1", format=form)[...] = value
    return url


def stop_copy(source: str, broken: str, target: Path, inner: str = "", **options: Any) -> None:
    """Copy, but fail at a chunk of an array, which is mended afterwards."""
    chunk = Path(source, broken, "1/1")
    data, times = chunk.read_bytes(), (1, 1)
    chunk.write_bytes(b"x" * len(data))
    os.utime(chunk, times)  # a copy notices that chunks have been written again
    with dask.config.set(scheduler="sync"), pytest.raises(ChunkError):
        copy(f"{source}{inner}", f"{target}{inner}", **options)
    chunk.write_bytes(data)
    os.utime(chunk, times)


def numbers(url: str, *paths: str) -> list[list[int]]:
    return [np.unique(open_array(url, path)[...]).tolist() for path in paths]


@pytest.mark.matrix(4)
@FULL
@pytest.mark.parametrize(("source", "target"), [("", "/em"), ("/em", ""), ("", ""), ("/em", "/em")])
def test_arrays_that_are_still_to_be_read_are_not_replaced(
    tmp_path: Path, form: str, source: str, target: str
) -> None:
    url = store(tmp_path, form, s0=1, em__s0=2, em__em__s0=3)
    before = files(tmp_path)
    with pytest.raises(NodeExistsError, match=r"computed from|in the source of the copy"):
        copy(url + source, url + target, mode="w")
    assert files(tmp_path) == before
    copy(f"{url}/em/em", f"{url}/other", mode="w")
    assert numbers(url, "s0", "em/s0", "em/em/s0", "other/s0") == [[1], [2], [3], [3]]


def test_arrays_that_are_found_by_a_link_are_not_replaced(tmp_path: Path) -> None:
    url = store(tmp_path, em__s0=1)
    (tmp_path / "link.n5").symlink_to(url)
    with pytest.raises(NodeExistsError, match="computed from"):
        copy(url, tmp_path / "link.n5", mode="w")
    assert numbers(url, "em/s0") == [[1]]


@FULL
@pytest.mark.filterwarnings("ignore:mode='w' keeps groups")
@pytest.mark.parametrize("there", ["b__inner", "c"])
@pytest.mark.parametrize("mode", ["a", "w"])
def test_clashes_are_found_before_anything_is_replaced(
    tmp_path: Path, form: Any, mode: Literal["a", "w"], there: str
) -> None:
    source = store(tmp_path, "n5", a=1, b=2, c__d=3)
    (tmp_path / "to").mkdir()
    target = store(tmp_path / "to", form, **({"a": 9} if mode == "w" else {}), **{there: 8})
    before = files(tmp_path)
    with pytest.raises(NodeExistsError):
        copy(source, target, mode=mode, format=form)
    assert files(tmp_path) == before


@pytest.mark.parametrize("other", [{"without": ["g/*"]}, {"chunks": 2}], ids=["without", "chunks"])
def test_a_copy_with_other_arguments_does_not_go_on(tmp_path: Path, other: Any) -> None:
    source, target = store(tmp_path, a=1, g__b=2), tmp_path / "to.n5"
    stop_copy(source, "g/b", target)
    before = files(target)
    with pytest.raises(ResumeError):
        copy(source, target, resume=True, **other)
    assert files(target) == before
    copy(source, target, resume=True)
    assert not list(target.rglob(".xn5/open*"))


def test_a_copy_that_replaces_a_stopped_one_takes_its_records_away(tmp_path: Path) -> None:
    source, target = store(tmp_path, a=1, g__b=2), tmp_path / "to.n5"
    stop_copy(source, "a", target, mode="w", without=["g/*"])
    with pytest.warns(UserWarning, match="replaces an unfinished write"):
        copy(source, target, mode="w", chunks=3)
    assert not list(target.rglob(".xn5/open*"))
    # Arrays that the copy leaves out are removed, too, with their records.
    stop_copy(source, "g/b", target, mode="w")
    with pytest.warns(UserWarning, match="replaces an unfinished write"):
        copy(source, target, mode="w", without=["g/*"])
    assert (sorted(open_group(target)), sorted(open_group(target, "g"))) == (["a", "g"], [])
    assert not list(target.rglob(".xn5/open*"))
    copy(source, target, mode="w", resume=True)
    assert numbers(str(target), "a", "g/b") == [[1], [2]]
    assert not list(target.rglob(".xn5/open*"))


def test_an_array_is_not_made_the_root_of_a_file(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    create_array(tmp_path / "a.zarr", shape=(4,), dtype="u1", format="zarr2")[...] = 1
    with pytest.raises(MetadataError, match="pass the array's path"):
        copy(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert [each.name for each in tmp_path.iterdir()] == ["a.zarr"]
    copy(tmp_path / "a.zarr", tmp_path / "b.h5/data")
    assert numbers(str(tmp_path / "b.h5"), "data") == [[1]]


@pytest.mark.parametrize("inner", ["", "/a"], ids=["tree", "array"])
def test_what_was_kept_of_a_file_that_is_no_more_is_in_nobodys_way(
    tmp_path: Path, inner: str
) -> None:
    pytest.importorskip("h5py")
    source, target = store(tmp_path, a=1, b=2), tmp_path / "to.h5"
    stop_copy(source, "a", target, inner)
    target.unlink()
    assert list(tmp_path.rglob(".xn5/open*"))
    copy(f"{source}{inner}", f"{target}{inner}", chunks=2)
    assert numbers(str(target), "a") == [[1]]
    assert not list(tmp_path.rglob(".xn5/open*"))
