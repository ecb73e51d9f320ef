"""Every kind of place is written to and read from, its storage options unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest
import xarray as xr
from fsspec.implementations.memory import MemoryFileSystem

from xarray_n5 import from_n5, open_group, to_n5

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.servers import Bucket

    Served = Callable[[str], Bucket]
    Place = tuple[Any, dict[str, Any]]

NUMBERS = np.arange(30, dtype="i2").reshape(5, 6)


def _on(server: str, scheme: str) -> Callable[[Served, Path], Place]:
    def place(served: Served, folder: Path) -> Place:
        url, options = served(server).place(folder.name)
        return f"{scheme}{url[url.index('://') :]}", options

    return place


def _upath(served: Served, folder: Path) -> Place:
    upath = pytest.importorskip("upath").UPath
    url, options = served("seaweedfs").place(folder.name)
    return upath(url, **options), {}


def _mapper(served: Served, folder: Path) -> Place:
    url, options = served("seaweedfs").place(folder.name)
    return fsspec.get_mapper(url, **options), {}


def _pair(served: Served, folder: Path) -> Place:
    bucket = served("seaweedfs")
    return (bucket.fs(), f"{bucket.name}/{folder.name}"), {}


def _directory_of(served: Served, folder: Path) -> Place:
    bucket = served("seaweedfs")
    options = {"target_protocol": "s3", "target_options": bucket.options}
    return (fsspec.filesystem("dir", path=bucket.name, **options), folder.name), {}


PLACES: dict[str, Callable[[Served, Path], Place]] = {
    "path": lambda _, folder: (folder / "x.n5", {}),
    "file": lambda _, folder: (f"file://{folder}/x.n5", {"auto_mkdir": True}),
    "memory": lambda _, folder: (f"memory://{folder.name}/x.n5", {}),
    "s3": _on("seaweedfs", "s3"),
    "gs": _on("gcs", "gs"),
    "gcs": _on("gcs", "gcs"),
    "az": _on("azurite", "az"),
    "abfs": _on("azurite", "abfs"),
    "obstore": lambda served, folder: served("seaweedfs-obstore").place(folder.name),
    "upath": _upath,
    "mapper": _mapper,
    "pair": _pair,
    "dir": _directory_of,
}
"""How users name a place that can be written."""

NAMES = [
    name if name in {"path", "file", "memory"} else pytest.param(name, marks=pytest.mark.exhaustive)
    for name in PLACES
]
"""Their names; the others need a server."""


@pytest.fixture
def nothing_in_memory() -> Iterator[None]:
    yield
    MemoryFileSystem.store.clear()


@pytest.mark.usefixtures("nothing_in_memory")
@pytest.mark.parametrize("name", NAMES)
def test_a_place_is_written_and_read(name: str, served: Served, tmp_path: Path) -> None:
    place, options = PLACES[name](served, tmp_path)
    before = repr(options)
    to_n5(NUMBERS, place, "g/a", options, chunks=(2, 3), axes=["y", "x"])
    np.testing.assert_array_equal(from_n5(place, "g/a", options), NUMBERS)
    opened = xr.open_dataset(place, engine="n5", group="g", storage_options=options or None)
    np.testing.assert_array_equal(opened["a"], NUMBERS)
    assert list(open_group(place, "g", storage_options=options)) == ["a"]
    to_n5(NUMBERS[:1], place, "g/a", options, chunks=(2, 3), mode="w")
    np.testing.assert_array_equal(from_n5(place, "g/a", options), NUMBERS[:1])
    assert repr(options) == before


@pytest.mark.exhaustive
def test_options_come_to_the_filesystem_as_they_are(served: Served) -> None:
    url, options = served("seaweedfs").place("options.n5")
    wrong = {**options, "secret": "not-the-secret-at-all"}
    to_n5(NUMBERS, url, "a", options)
    with pytest.raises(PermissionError):
        from_n5(url, "a", wrong)
    with pytest.raises(PermissionError):
        to_n5(NUMBERS, url, "b", wrong)
