"""Containers in one ZIP archive: made by several programs, hostile, and read with few requests."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import random
import struct
import tracemalloc
import warnings
import zipfile
import zlib
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import dask
import fsspec
import numpy as np
import pytest
import xarray as xr

import xarray_n5
from tests.support.exhaustive import cases
from tests.support.memory_store import MemoryStore
from tests.support.servers import serving_ranges
from tests.support.stores import keys_below
from xarray_n5 import ChunkError, MetadataError, N5Error, open_array
from xarray_n5.errors import ReadOnlyError
from xarray_n5.formats.containers import open_store
from xarray_n5.napari import get_reader
from xarray_n5.napari.layers import read_layers
from xarray_n5.stores import ArchiveStore, LocalStore, Range
from xarray_n5.stores import _zip as zips
from xarray_n5_engine import N5BackendEntrypoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.support.servers import Ranges as Served
    from xarray_n5.stores.base import FilePart

VALUES = np.arange(20 * 30, dtype="u2").reshape(20, 30)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Zarr v3 container with an array in shards, and one in chunks without compression."""
    path = tmp_path_factory.mktemp("archive") / "cells.zarr"
    how: dict[str, Any] = {"format": "zarr3", "chunks": 10, "axes": ["y", "x"]}
    xarray_n5.create_group(path, format="zarr3", attributes={"note": "a"})
    own: dict[str, dict[str, Any]] = {"shards": {"shards": 20}, "plain": {"compression": None}}
    for name, more in own.items():
        array = xarray_n5.create_array(
            path, f"em/{name}", shape=VALUES.shape, dtype="u2", **how, **more
        )
        array[:] = VALUES
    return path


def files_of(container: Path) -> list[str]:
    found = (each for each in container.rglob("*") if each.is_file() and ".xn5" not in each.parts)
    return sorted(each.relative_to(container).as_posix() for each in found)


def by_zipfile(container: Path, target: Path, method: int = 0, *, seed: int = 0) -> None:
    names = files_of(container)
    random.Random(seed).shuffle(names)  # noqa: S311 - the same in each run
    with zipfile.ZipFile(target, "w", method) as archive:
        for name in names:
            archive.write(container / name, name)


def with_directories(container: Path, target: Path) -> None:
    by_zipfile(container, target)
    with zipfile.ZipFile(target, "a") as archive:
        for name in ("em/", "em/shards/", "empty/"):
            archive.writestr(name, b"")
        archive.comment = b"PK\5\6 is not at the end"


def with_zip64(container: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for name in files_of(container):
            with archive.open(name, "w", force_zip64=True) as file:
                file.write((container / name).read_bytes())


def streamed(container: Path, target: Path) -> None:
    """Write descriptors after the entries, as programs do that cannot seek."""

    with target.open("wb") as file:
        pipe: Any = SimpleNamespace(write=file.write, flush=file.flush)
        with zipfile.ZipFile(pipe, "w") as archive:
            for name in files_of(container):
                archive.write(container / name, name)


def by_zarr(container: Path, target: Path) -> None:
    zarr = pytest.importorskip("zarr")
    with warnings.catch_warnings(), zarr.storage.ZipStore(target, mode="w") as store:
        warnings.simplefilter("ignore")
        root = zarr.open_group(store, mode="w")
        root.attrs["note"] = "a"  # stored a second time
        source = zarr.open_group(container, mode="r")
        for name in ("shards", "plain"):
            inner = source[f"em/{name}"]
            made = root.create_array(
                f"em/{name}",
                shape=inner.shape,
                chunks=inner.chunks,
                dtype="u2",
                dimension_names=["y", "x"],
            )
            made[:] = inner[:]


MAKERS: dict[str, Callable[[Path, Path], None]] = {
    "stored": by_zipfile,
    "another order": lambda container, target: by_zipfile(container, target, seed=7),
    "deflated": lambda container, target: by_zipfile(container, target, zipfile.ZIP_DEFLATED),
    "directories": with_directories,
    "zip64": with_zip64,
    "streamed": streamed,
    "zarr-python": by_zarr,
}


@pytest.mark.matrix(6)
@pytest.mark.filterwarnings("ignore:.*more than once")
@pytest.mark.parametrize("suffix", [".ozx", ".zarr.zip"])
@pytest.mark.parametrize("maker", MAKERS)
def test_an_archive_reads_like_its_container(
    maker: str, suffix: str, container: Path, tmp_path: Path
) -> None:
    path = tmp_path / f"cells{suffix}"
    MAKERS[maker](container, path)
    assert xarray_n5.open_group(path).attrs["note"] == "a"
    for name in ("shards", "plain"):
        array = open_array(path, f"em/{name}")
        np.testing.assert_array_equal(array[:], VALUES)
        np.testing.assert_array_equal(array[3:5, 17], VALUES[3:5, 17])
        blocks = pickle.loads(pickle.dumps(xarray_n5.from_n5(path, f"em/{name}")))  # noqa: S301
        np.testing.assert_array_equal(blocks.compute(), VALUES)
    dataset = xr.open_dataset(f"{path}/em", engine="n5")
    assert {*dataset.data_vars} == {"shards", "plain"}
    tree = xr.open_datatree(path, engine="n5", chunks={})
    np.testing.assert_array_equal(tree["em"]["plain"].values, VALUES)


def test_the_whole_package_reads_archives(container: Path, tmp_path: Path) -> None:
    path = tmp_path / "cells.ozx"
    by_zipfile(container, path)
    assert xr.open_dataset(path, group="em").shards.dims == ("y", "x")  # without engine=
    state = xarray_n5.verify(path)["em/plain"].state
    assert {*state.values.ravel().tolist()} == {"ok"}
    assert xarray_n5.doctor.examine(path)
    xarray_n5.copy(path, tmp_path / "back.zarr", format="zarr3")
    assert files_of(tmp_path / "back.zarr") == files_of(container)
    with dask.config.set(scheduler="processes"):
        assert int(xarray_n5.from_n5(path, "em/shards").sum().compute()) == VALUES.sum()


def test_n5_and_zarr2_in_archives(tmp_path: Path) -> None:
    for form in ("n5", "zarr2"):
        xarray_n5.to_n5(VALUES, tmp_path / form, "a", format=form)
        by_zipfile(tmp_path / form, tmp_path / f"{form}.zip")
        assert xarray_n5.open_group(tmp_path / f"{form}.zip").format == form
        np.testing.assert_array_equal(open_array(tmp_path / f"{form}.zip", "a")[:], VALUES)


def test_archives_are_not_changed(container: Path, tmp_path: Path) -> None:
    path = tmp_path / "cells.ozx"
    by_zipfile(container, path)
    before = path.read_bytes()
    writes: list[Callable[[], object]] = [
        lambda: xarray_n5.to_n5(VALUES, path, "new"),
        lambda: xarray_n5.create_group(path, "new"),
        lambda: open_array(path, "em/plain", mode="r+"),
        lambda: xr.Dataset({"a": ("x", [1])}).n5.to_n5(path),
        lambda: open_store(path).set("a", b""),
        lambda: open_store(path).delete(["zarr.json"]),
    ]
    for write in writes:
        with pytest.raises(ReadOnlyError, match="copy it to a container"):
            write()
    assert path.read_bytes() == before


def test_an_archive_that_was_removed_is_an_error(container: Path, tmp_path: Path) -> None:
    path = tmp_path / "cells.ozx"
    by_zipfile(container, path)
    array = open_array(path, "em/plain")
    path.unlink()
    with pytest.raises(MetadataError, match="was removed"):
        array[:]


# Requests


@dataclass(frozen=True, eq=False)
class Ranges(MemoryStore):
    """An archive far away, which lists the ranges that are requested."""

    concurrency: ClassVar[int] = 64
    seen: list[list[Range]] = field(default_factory=list)

    def get_ranges(self, ranges: Sequence[Range]) -> Sequence[FilePart | None]:
        self.seen.append([*ranges])
        return super().get_ranges(ranges)

    def get(self, key: str, most: int | None = None) -> bytes | None:
        if len(self.seen) == 0 or self.seen[-1] == []:
            raise AssertionError("the whole archive was read")
        return super().get(key, most)

    def parent(self) -> None:
        return None


def test_opening_is_one_request_and_a_chunk_is_one(container: Path, tmp_path: Path) -> None:
    by_zipfile(container, tmp_path / "a.ozx")
    file = Ranges({"": (tmp_path / "a.ozx").read_bytes()}, name="far.ozx")
    store = open_store(file)
    assert isinstance(store, ArchiveStore)
    assert [len(batch) for batch in file.seen] == [1]
    plain, shards = open_array(store, "em/plain"), open_array(store, "em/shards")
    file.seen.clear()
    plain[:10, :10]
    assert [len(batch) for batch in file.seen] == [1]
    (part,) = file.seen[0]
    assert 200 <= part.stop - part.start < 300  # type: ignore[operator]
    file.seen.clear()
    shards[:10, :10]
    # The shard's index with the header in front of the shard, and one of its chunks.
    assert [len(batch) for batch in file.seen] == [1, 1, 1]
    file.seen.clear()
    shards[:10, 10:20]
    assert [len(batch) for batch in file.seen] == [1]  # the index is kept
    file.seen.clear()
    np.testing.assert_array_equal(plain[:], VALUES)
    assert [len(batch) for batch in file.seen] == [6]


def test_a_large_directory_is_a_second_request() -> None:
    file = Ranges(name="far.ozx")
    file.items[""] = archive_of({f"a/{number:05}": b"%d" % number for number in range(3000)})
    store = open_store(file)
    assert len(file.seen) == 2
    assert keys_below(store, "a") == [f"{number:05}" for number in range(3000)]
    assert store.get("a/02999") == b"2999"
    assert len(file.seen) == 3
    assert open_store(file).get("a/00000") == b"0"
    assert len(file.seen) == 5  # the end of the archive shows that nothing has changed


def archive_of(files: dict[str, bytes], method: int = 0) -> bytes:
    import io

    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return target.getvalue()


def test_web_servers_send_ranges(container: Path, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    by_zipfile(container, tmp_path / "a.ozx")
    with serving_ranges(files={"a.ozx": (tmp_path / "a.ozx").read_bytes()}) as served:
        array = open_array(f"{served.url}/a.ozx?sig=1", "em/plain")
        opening = len(served.seen)
        np.testing.assert_array_equal(array[:10, :10], VALUES[:10, :10])
        assert len(served.seen) == opening + 1
        assert opening <= 4  # the directory, and the documents of the array and the groups around
        dataset = xr.open_dataset(f"{served.url}/a.ozx", engine="n5", group="em")
        np.testing.assert_array_equal(dataset.shards.values, VALUES)
        assert "HEAD" not in {what for what, _ in served.seen}


# An archive that is replaced


@dataclass(kw_only=True)
class Place:
    """A place where an archive is replaced by another one."""

    location: Any
    """What users name."""
    put: Callable[[bytes], None]
    """Stores an archive."""
    options: dict[str, Any] = field(default_factory=dict)


@contextlib.contextmanager
def local(folder: Path) -> Iterator[Place]:
    def put(data: bytes) -> None:
        (folder / "new").write_bytes(data)
        (folder / "new").replace(folder / "a.ozx")

    yield Place(location=folder / "a.ozx", put=put)


@contextlib.contextmanager
def memory(folder: Path) -> Iterator[Place]:
    path = f"/{folder.name}/a.ozx"
    fs = fsspec.filesystem("memory")
    yield Place(location=f"memory:/{path}", put=lambda data: fs.pipe_file(path, data))


@contextlib.contextmanager
def by_obstore(folder: Path) -> Iterator[Place]:
    fs = pytest.importorskip("obstore.fsspec").FsspecStore("memory")
    path = f"{folder.name}/a.ozx"
    yield Place(location=(fs, path), put=lambda data: fs.pipe_file(path, data))


@contextlib.contextmanager
def web(folder: Path, headers: Callable[[bytes], dict[str, str]]) -> Iterator[Place]:
    del folder
    pytest.importorskip("aiohttp")
    with serving_ranges(files={}, headers=headers) as served:
        yield Place(
            location=f"{served.url}/a.ozx", put=lambda data: served.files.update({"a.ozx": data})
        )


def etag(data: bytes) -> dict[str, str]:
    return {"ETag": f'"{zlib.crc32(data):x}"', "Last-Modified": "Mon, 05 Jan 2026 09:30:00 GMT"}


def modified(data: bytes) -> dict[str, str]:
    minutes, seconds = divmod(int.from_bytes(hashlib.blake2b(data).digest()) % 3600, 60)
    return {"Last-Modified": f"Mon, 05 Jan 2026 09:{minutes:02}:{seconds:02} GMT"}


PLACES: dict[str, Callable[[Path], Any]] = {
    "local": local,
    "memory of fsspec": memory,
    "memory of obstore": by_obstore,
    "web with ETag": partial(web, headers=etag),
    "web with Last-Modified": partial(web, headers=modified),
    "web without either": partial(web, headers=lambda _: {}),
}


def version(number: int, *, files: int = 0, more: int = 0) -> bytes:
    """Return an archive of an array of numbers, of the same size for each number below 100.

    With `files`, its directory is long, and ends alike; with `more`, it is longer.
    """
    store = MemoryStore()
    how: dict[str, Any] = {"format": "zarr3", "chunks": 6, "compression": None, "dtype": "u2"}
    for name, shards in (("chunks", None), ("shards", 24)):
        array = xarray_n5.create_array(store, name, shape=(48 + more,), shards=shards, **how)
        array[...] = np.arange(1, 49 + more) + 100 * number
    names = sorted(store.items, key=lambda name: ("c/" not in name, name))
    items = {name: store.items[name] for name in names}
    return archive_of(items | {f"z/{n}": b"the same" for n in range(files)})


def values_of(number: int) -> np.ndarray:
    return np.arange(1, 49, dtype="u2") + 100 * number


@pytest.mark.parametrize("more", [0, 12])
@pytest.mark.parametrize("name", ["chunks", "shards"])
@pytest.mark.parametrize("place", PLACES)
def test_an_archive_that_is_replaced_is_an_error(
    tmp_path: Path, place: str, name: str, more: int
) -> None:
    with PLACES[place](tmp_path) as at:
        at.put(version(3))
        array, lazy = open_array(at.location, name), xarray_n5.from_n5(at.location, name)
        np.testing.assert_array_equal(array[2:9], values_of(3)[2:9])
        at.put(version(7, more=more))
        for part in (slice(2, 9), slice(9, 14), slice(26, 44), slice(0, 48)):
            with pytest.raises(MetadataError, match="open it again"):
                array[part]
        with pytest.raises(MetadataError, match="open it again"):
            lazy.compute(scheduler="synchronous")
        again = open_array(at.location, name)
        np.testing.assert_array_equal(again[26:44], values_of(7)[26:44])
        with pytest.raises(MetadataError, match="open it again"):
            array[26:44]
        np.testing.assert_array_equal(again[...][:48], values_of(7))


@pytest.mark.parametrize("name", ["chunks", "shards"])
@pytest.mark.parametrize("headers", [etag, modified, lambda _: {}])
def test_an_archive_that_is_replaced_between_requests_is_not_mixed(
    name: str, headers: Callable[[bytes], dict[str, str]]
) -> None:
    pytest.importorskip("aiohttp")
    outcomes = set()
    for count in range(16):
        with serving_ranges(files={"a.ozx": version(3)}, headers=headers) as served:
            array = open_array(f"{served.url}/a.ozx", name)
            before = len(served.seen) + count
            new = version(7)

            def replace(served: Served = served, before: int = before, new: bytes = new) -> None:
                if len(served.seen) > before:
                    served.files["a.ozx"] = new

            served.before = replace
            try:
                np.testing.assert_array_equal(array[3:45:13], values_of(3)[3:45:13])
                outcomes.add("old")
            except MetadataError:
                outcomes.add("error")
    assert outcomes == {"old", "error"}


@pytest.mark.parametrize("place", ["local", "web with ETag", "web with Last-Modified"])
def test_a_long_directory_that_ends_alike_shows_that_an_archive_is_replaced(
    tmp_path: Path, place: str
) -> None:
    old, new = version(3, files=1500), version(7, files=1500)
    assert old[-zips.TAIL :] == new[-zips.TAIL :]
    with PLACES[place](tmp_path) as at:
        at.put(old)
        array = open_array(at.location, "shards")
        assert array[5] == 306
        at.put(new)
        with pytest.raises(MetadataError, match="open it again"):
            array[8]


@pytest.mark.parametrize("place", PLACES)
def test_an_archive_that_is_stored_again_remains_open(tmp_path: Path, place: str) -> None:
    with PLACES[place](tmp_path) as at:
        for number in range(3):
            at.put(version(3))
            if number == 0:
                arrays = [open_array(at.location, name) for name in ("chunks", "shards")]
            for array in arrays:
                np.testing.assert_array_equal(array[2:9], values_of(3)[2:9])


# The directory


def changed(data: bytes, before: bytes, after: bytes) -> bytes:
    assert before in data
    return data.replace(before, after)


def with_name(name: bytes) -> Callable[[bytes], bytes]:
    return lambda data: changed(data, b"abcdef/1", name)


def entry_with(offset: int, form: str, value: int) -> Callable[[bytes], bytes]:
    """Return a change of the first record of the directory."""

    def change(data: bytes) -> bytes:
        found = bytearray(data)
        struct.pack_into(form, found, data.index(b"PK\1\2") + offset, value)
        return bytes(found)

    return change


def end_with(offset: int, form: str, value: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        found = bytearray(data)
        struct.pack_into(form, found, data.rindex(b"PK\5\6") + offset, value)
        return bytes(found)

    return change


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "absolute": (with_name(b"/bcdef/1"), "names without"),
    "parent": (with_name(b"ab/../.1"), "names without"),
    "backslash": (with_name(b"abcdef\\1"), "names without"),
    "NUL": (with_name(b"abcdef\0001"), "names without"),
    "empty part": (with_name(b"abcde//1"), "names without"),
    "same twice": (entry_with(42, "<L", 60), "overlap"),
    "overlapping": (entry_with(20, "<LL", 50), "overlap"),
    "outside": (entry_with(42, "<L", 1 << 30), "outside"),
    "large": (entry_with(20, "<L", 1 << 31), "outside"),
    "no ZIP64 sizes": (entry_with(24, "<L", 0xFFFFFFFF), "ZIP64"),
    "another disk": (entry_with(34, "<H", 3), "split"),
    "split": (end_with(4, "<H", 1), "split"),
    "directory too large": (end_with(12, "<L", 0xFFFFFFF0), "shards"),
    "more entries": (end_with(8, "<L", 0xFF00FF), "split|entries"),
    "directory elsewhere": (end_with(16, "<L", 5), "outside|overlap"),
    "no end": (lambda data: data[:-1], "at its end"),
    "empty": (lambda _: b"", "at its end"),
    "text": (lambda _: b"hello" * 100, "at its end"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_does_not_open(name: str, tmp_path: Path) -> None:
    change, why = HOSTILE[name]
    if name == "overlapping":
        change = lambda data: entry_with(24, "<L", 50)(entry_with(20, "<L", 50)(data))  # noqa: E731
    data = archive_of({"abcdef/1": b"a" * 10, "abcdef/2": b"b" * 10, "c": b"c" * 100})
    (tmp_path / "x.ozx").write_bytes(change(data))
    with pytest.raises(MetadataError, match=why):
        open_store(tmp_path / "x.ozx")


UNREADABLE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "encrypted": (entry_with(8, "<H", 1), "encrypted"),
    "another method": (entry_with(10, "<H", 93), "of method 93"),
    "stored, other sizes": (entry_with(24, "<L", 9), "are stored"),
    "checksum": (entry_with(16, "<L", 9), "checksum"),
    "data": (lambda data: changed(data, b"aaaaaaaaaa", b"aaaaaaaaab"), "checksum"),
    "header": (lambda data: b"XX" + data[2:], "header is damaged"),
    "header's size": (lambda data: data[:28] + b"\xff\xff" + data[30:], "differ"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_entry_is_an_error_of_that_entry(name: str, tmp_path: Path) -> None:
    change, why = UNREADABLE[name]
    data = archive_of({"abcdef/1": b"a" * 10, "abcdef/2": b"b" * 10})
    (tmp_path / "x.ozx").write_bytes(change(data))
    store = open_store(tmp_path / "x.ozx")
    assert store.get("abcdef/2") == b"b" * 10
    with pytest.raises(MetadataError, match=why):
        store.get("abcdef/1")
    with pytest.raises(ChunkError, match=why):
        store.get("abcdef/1", 100)


def test_bombs_are_not_inflated(tmp_path: Path) -> None:
    (tmp_path / "x.ozx").write_bytes(archive_of({"a": bytes(50 << 20)}, zipfile.ZIP_DEFLATED))
    store = open_store(tmp_path / "x.ozx")
    tracemalloc.start()
    try:
        with pytest.raises(ChunkError, match="expected at most"):
            store.get("a", 1 << 20)
        lying = entry_with(24, "<L", 1000)((tmp_path / "x.ozx").read_bytes())
        (tmp_path / "y.ozx").write_bytes(lying)
        with pytest.raises(ChunkError, match="checksum"):
            open_store(tmp_path / "y.ozx").get("a", 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_files_that_are_missing_or_directories_are_not_archives(tmp_path: Path) -> None:
    (tmp_path / "folder.zip").mkdir()
    assert isinstance(open_store(tmp_path / "folder.zip"), LocalStore)
    assert isinstance(open_store(tmp_path / "nothing.ozx"), LocalStore)
    with pytest.raises(N5Error):
        open_array(tmp_path / "nothing.ozx", "a")


def test_file_systems_of_fsspec_have_archives(container: Path, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    by_zipfile(container, tmp_path / "a.ozx")
    fs = fsspec.filesystem("memory")
    url = f"memory://{tmp_path.name}/cells.OZX"
    fs.pipe_file(url, (tmp_path / "a.ozx").read_bytes())
    np.testing.assert_array_equal(open_array(f"{url}/em", "shards")[:], VALUES)
    np.testing.assert_array_equal(open_array((fs, url), "em/plain")[5], VALUES[5])
    with pytest.raises(N5Error):
        open_array(f"memory://{tmp_path.name}/none.ozx", "em/plain")


def test_programs_find_archives_by_their_names(container: Path, tmp_path: Path) -> None:
    by_zipfile(container, tmp_path / "a.ozx")
    assert N5BackendEntrypoint().guess_can_open(tmp_path / "a.ozx")
    assert get_reader(str(tmp_path / "a.ozx")) is not None
    assert get_reader("https://host/a.zarr.zip?sig=1") is not None
    (layer,) = read_layers(f"{tmp_path}/a.ozx/em/plain")
    assert layer[2] == "image"


def test_ranges_of_entries(tmp_path: Path) -> None:
    data = bytes(range(100))
    for method in (0, 8):
        (tmp_path / "x.ozx").write_bytes(archive_of({"a": data, "b/c": b"12"}, method))
        store = open_store(tmp_path / "x.ozx")
        ranges = [
            Range("a", 0, 5),
            Range("b/c", -1, None),
            Range("no", 0, 1),
            Range("a", 90, 300),
            Range("a", -5, None),
        ]
        parts = [part and part.data for part in store.get_ranges(ranges)]
        assert parts == [data[:5], b"2", None, data[90:], data[-5:]]
        assert store.head("a", 3) == (data[:3], 100)
        assert store.head("a", 0) == (b"", 100)
        assert store.head("no", 3) is None
        assert store.get_many(["b/c", "no", "a"]) == [b"12", None, data]
        assert [*store.fetch(["b/c", "no"], 1)] == [("b/c", b"12"), ("no", None)]
        assert store.list("") == (("b",), ("a",))
        assert [(each.key, each.size) for each in store.list_info("")] == [("a", 100), ("b/c", 2)]
        assert store.is_folder("b")
        assert not store.is_folder("a")


@pytest.mark.more
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("maker", ["stored", "deflated"])
def test_mutated_archives_give_data_or_an_error(
    maker: str, container: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bad.ozx"
    MAKERS[maker](container, path)
    good, outcomes = path.read_bytes(), set()
    for seed in range(cases(100, 500)):
        chance = random.Random(f"{maker} {seed}")  # noqa: S311 - the same in each run
        path.write_bytes(mutated(good, chance))
        tracemalloc.start()
        try:
            for inner in ("em/shards", "em/plain"):
                xr.open_dataset(path, engine="n5", group=inner).load()
            outcomes.add("data")
        except (N5Error, ValueError):
            outcomes.add("error")
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 32 << 20
    assert outcomes == {"data", "error"}


def mutated(good: bytes, chance: random.Random) -> bytes:
    data = bytearray(good)
    for _ in range(chance.randint(1, 4)):
        first = chance.choice([0, good.index(b"PK\1\2")])
        at = min(chance.randrange(first, len(data)), len(data) - 1)
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data[at : at + 4] = b"\xff" * 4
            case 2:
                del data[at : at + chance.randint(1, 40)]
            case _:
                data[at:at] = data[at : at + chance.randint(1, 60)]
    return bytes(data)
