"""What is stored, chunk by chunk: receipts, maps, checks, repairs."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
import xxhash
from click.testing import CliRunner
from dask.base import optimize

from tests.support import compressions
from tests.support.containers import FULL, NAMES
from tests.support.exhaustive import EXHAUSTIVE
from tests.support.killing import begin
from tests.support.memory import OWN_PEAK
from tests.support.stopping import NEVER, FailingFolder, StoppedError
from tests.support.stores import STORES, CountingStore
from xarray_n5 import (
    ChunkError,
    MetadataError,
    N5Error,
    NodeExistsError,
    NodeNotFoundError,
    ResumeError,
    chunk_map,
    create_array,
    create_group,
    from_n5,
    open_array,
    repair,
    set_options,
    to_n5,
    verify,
)
from xarray_n5.cli import main
from xarray_n5.errors import MissingChunkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xarray_n5.stores.base import Store

pytestmark = pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")

ROOT = Path(__file__).parents[2]

VALUES = np.arange(1, 379, dtype="u2").reshape(6, 9, 7)

SHARDS = {"format": "zarr3", "chunks": (5, 2), "shards": (5, 4)}

FORMS: dict[str, dict[str, Any]] = {
    **{form: {"format": form, "chunks": (5, 4)} for form in NAMES},
    "shards": SHARDS,
}
"""How each format stores an array of 13 * 10 elements in nine chunks, or shards."""

EACH = pytest.mark.parametrize("form", FORMS)

IMAGE = np.arange(1, 131, dtype="i4").reshape(13, 10)


def place_of(folder: Path, form: Any) -> Path:
    return folder / NAMES.get(form, "b.zarr")


def states(report: Any) -> dict[str, int]:
    """How many chunks are in each state."""
    names, counts = np.unique(report.state.values, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def damage(file: Path, change: Callable[[bytes], bytes]) -> None:
    file.write_bytes(change(file.read_bytes()))


def spoil(place: Path, index: tuple[int, ...], path: str = "a") -> None:
    """Damage a chunk of an array in any format."""
    array = open_array(place, path)
    if place.suffix != ".h5":
        damage(place / array.node.key(index), lambda data: data[: len(data) // 2])
        return
    h5py = pytest.importorskip("h5py")
    first = tuple(at * side for at, side in zip(index, array.grid.chunks, strict=True))
    with h5py.File(place) as file:
        chunk = file[path].id.get_chunk_info_by_coord(first)
    with place.open("r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff" * min(8, chunk.size))


def unfinished(place: Path, path: str = "a") -> list[str]:
    return list(verify(place, path).attrs["unfinished"])


# Receipts


def test_receipts_tell_what_was_written(tmp_path: Path) -> None:
    receipts: Any = to_n5(da.from_array(VALUES, chunks=4), tmp_path, "a", axes=["z", "y", "x"])
    assert (receipts.written, receipts.kept, receipts.arrays[""].chunks) == (12, 0, 12)
    receipts = receipts.to_datatree()
    assert receipts.sizes == {"z": 2, "y": 3, "x": 2}
    assert receipts.attrs["chunks"] == 12
    for index in np.ndindex(2, 3, 2):
        chunk = VALUES[open_array(tmp_path, "a").grid.slices(index)]
        assert receipts.digest.values[index] == xxhash.xxh3_64_intdigest(chunk.tobytes())
        size = (tmp_path / "a" / "/".join(map(str, index[::-1]))).stat().st_size
        assert receipts.bytes.values[index] == size
    assert (receipts.seconds > 0).all()
    assert ":" in receipts.worker.values.flat[0]
    box = (slice(2, 4), slice(4, 5), slice(None))
    part: Any = to_n5(VALUES[:2, :1], tmp_path, "a", region=box, safe_chunks=False)
    part = part.to_datatree()
    assert [part[dim].values.tolist() for dim in part.dims] == [[0], [1], [0, 1]]


def test_empty_chunks_have_no_bytes_and_are_not_missing(tmp_path: Path) -> None:
    values = np.zeros((4, 4), "u1")
    values[0, 0] = 1
    receipts: Any = to_n5(values, tmp_path, "a", chunks=2, write_empty_chunks=False)
    receipts = receipts.to_datatree()
    assert (receipts.bytes.values > 0).tolist() == [[True, False], [False, False]]
    assert states(verify(tmp_path, "a", strict=True)) == {"ok": 1, "missing": 3}
    open_array(tmp_path, "a", mode="r+").resize((6, 4))  # the new chunks are of no write
    with pytest.raises(MissingChunkError):
        verify(tmp_path, "a", strict=True)


@pytest.mark.parametrize("dims", [("time", "x"), ("bytes", "digest"), ("bytes", "bytes_")])
def test_dimensions_may_be_called_like_what_is_told_of_chunks(tmp_path: Path, dims: Any) -> None:
    data = xr.DataArray(np.ones((4, 4)), {dims[0]: np.arange(4.0)}, dims)
    receipts: Any = to_n5(data, tmp_path, "a", chunks=2).to_datatree()
    assert receipts["bytes"].shape == (2, 2)
    assert chunk_map(tmp_path, "a").all()
    assert states(verify(tmp_path, "a").compute()) == {"ok": 4}


# Maps


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
def test_a_map_shows_which_chunks_are_stored(make: Callable[[Path], Store], tmp_path: Path) -> None:
    array = create_array(make(tmp_path), "a", shape=(10, 7), dtype="u1", chunks=(3, 4))
    array[3:6, 4:] = 1
    array[9:, :4] = 1
    stored = chunk_map(array.node.container.store, "a")
    assert stored.values.tolist() == [[0, 0], [0, 1], [0, 0], [1, 0]]
    assert stored.dtype == bool
    assert (stored.bytes.values > 0).tolist() == stored.values.tolist()
    assert stored.sizes == {"dim_0": 4, "dim_1": 2}
    times = stored.written.notnull()
    assert not times.any() or times.values.tolist() == stored.values.tolist()


@pytest.mark.filterwarnings("ignore::dask.array.core.PerformanceWarning")
@pytest.mark.parametrize("chunks", [None, (8, 8), (40, 10), (7, 9)])
def test_a_sparse_array_is_read_where_it_is_stored(chunks: Any) -> None:
    store: Any = CountingStore()
    array = create_array(store, "a", shape=(40, 40), dtype="i4", chunks=(4, 4))
    expected = np.zeros((40, 40), "i4")
    for y, x in ((0, 0), (5, 7), (9, 9), (3, 3)):
        array[4 * y : 4 * y + 4, 4 * x : 4 * x + 4] = 7
        expected[4 * y : 4 * y + 4, 4 * x : 4 * x + 4] = 7
    lazy = from_n5(array, chunks=chunks, skip_missing=True)
    assert lazy.numblocks == from_n5(array, chunks=chunks).numblocks
    store.requests()
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), expected)
    requests = store.requests()
    if chunks != (7, 9):  # whose blocks cut chunks
        assert requests.get("get", 0) + requests.get("get_many", 0) == 4
    to_n5(lazy.rechunk(8), store, "b")
    np.testing.assert_array_equal(open_array(store, "b")[...], expected)


# Checks


@pytest.mark.parametrize("compression", [*compressions.NAMES, "lzma"])
def test_each_kind_of_damage_has_its_name(tmp_path: Path, compression: str) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 50, (8, 12), "u2")
    with set_options(checksums=True):
        to_n5(values, tmp_path, "a", chunks=4, compression=compression)
    assert states(verify(tmp_path, "a").compute()) == {"ok": 6}
    folder = tmp_path / "a"
    (folder / "0/0").unlink()
    damage(folder / "0/1", lambda data: data[: len(data) * 2 // 3])
    damage(folder / "1/0", lambda _: b"")
    damage(folder / "1/1", lambda data: b"\0\0\0\7" + data[4:])
    header = struct.pack(">HHII", 0, 2, 4, 3)
    other = create_array(tmp_path, "b", shape=(3, 4), dtype="u2", compression=compression)
    other[...] = 1
    assert (tmp_path / "b/0/0").read_bytes().startswith(header)
    (folder / "2/0").write_bytes((tmp_path / "b/0/0").read_bytes())
    full = create_array(tmp_path, "c", shape=(4, 4), dtype="u2", compression=compression)
    full[...] = 60000
    (folder / "2/1").write_bytes((tmp_path / "c/0/0").read_bytes())
    (folder / "notes.txt").write_text("mine")
    (folder / "3").mkdir()
    (folder / "3/0").write_bytes(b"beyond")
    kinds = {(0, 0): "missing", (0, 1): "truncated", (1, 1): "undecodable", (0, 2): "wrong-shape"}
    report = verify(tmp_path, "a").compute()
    deep, quick = report.state, verify(tmp_path, "a", deep=False).compute().state
    for index, state in kinds.items():
        assert (deep[index], quick[index]) == (state, state)
    assert (deep[1, 2], quick[1, 2]) == ("digest-differs", "ok")
    assert deep[1, 0] == "truncated" or (compression == "lzma" and deep[1, 0] == "undecodable")
    assert report.attrs["stray"] == ["notes.txt", "3/0"]
    if compression in {"raw", "blosc"}:
        assert quick[1, 0] == "truncated"


NOISE = np.random.default_rng(0).poisson(20, (16, 16, 16)).astype("u2")


def rows_of_damage() -> list[Any]:
    """Each compression, format and word of the table in the documentation."""
    page = (ROOT / "docs/howto/verify.md").read_text(encoding="utf-8")
    lines = re.search(r"\| compression .*\n\n", page, re.DOTALL)
    assert lines is not None
    head, _, *rows = (line.strip("| ").split("|") for line in lines[0].strip().splitlines())
    formats = [name.strip().lower().replace(" v", "") for name in head[1:]]
    rows_of_page = []
    for first, *words in rows:
        names = re.findall(r"`(\w+)`", first)
        if names:
            pairs = zip(formats, map(str.strip, words), strict=False)
            rows_of_page += [(names[0], form, word) for form, word in pairs if word]
    return rows_of_page


def noise(folder: Path, name: str, form: Any, **options: Any) -> tuple[Path, Path, int, int]:
    """Store an array of one chunk; return it, the file, and the chunk's first byte and size."""
    place = place_of(folder, form)
    to_n5(NOISE, place, "a", chunks=16, format=form, compression=name, **options)
    if form == "hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(place) as file:
            chunk = file["a"].id.get_chunk_info(0)
        return place, place, chunk.byte_offset, chunk.size
    files = [file for file in (place / "a").rglob("*") if file.is_file()]
    file = max(files, key=lambda path: path.stat().st_size)
    return place, file, 0, file.stat().st_size


def unseen(place: Path, file: Path, first: int, size: int) -> int:
    """Change some bytes of a chunk, one after another; count those that `verify` calls ok."""
    data, missed = file.read_bytes(), 0
    for at in np.linspace(0, size - 1, 12).astype(int).tolist():
        changed = bytearray(data)
        changed[first + at] ^= 1 << at % 8
        file.write_bytes(changed)
        state = verify(place, "a").compute(scheduler="sync").state.item()
        try:
            same = np.array_equal(open_array(place, "a")[...], NOISE)
        except N5Error:
            same = True
        # A bit that decoders ignore, such as the time in gzip's header, changes nothing.
        missed += state == "ok" and not same
    file.write_bytes(data)
    return missed


@pytest.mark.matrix(4)
@pytest.mark.parametrize(("name", "form", "word"), rows_of_damage())
def test_a_changed_byte_is_found_as_the_table_says(
    tmp_path: Path, name: str, form: Any, word: str
) -> None:
    missed = unseen(*noise(tmp_path, name, form))
    assert missed in {"always": range(1), "never": range(11, 13)}.get(word, range(3, 13))


@pytest.mark.matrix(4)
@FULL
@pytest.mark.parametrize("name", ["raw", "blosc"])
def test_digests_find_every_changed_byte(tmp_path: Path, name: str, form: Any) -> None:
    with set_options(checksums=True):
        assert unseen(*noise(tmp_path, name, form)) == 0


@EACH
def test_a_strict_check_raises_for_what_is_missing_damaged_or_unfinished(
    tmp_path: Path, form: Any
) -> None:
    place, how = place_of(tmp_path, form), FORMS[form]
    to_n5(IMAGE, place, "g/whole", compression=None, **how)
    assert verify(place, "g/whole", strict=True).state.size == 9
    assert set(verify(place, strict=True).children) == {"g"}
    create_array(place, "g/part", shape=(8, 8), dtype="u2", chunks=4, format=how["format"])[:4] = 1
    for path, deep in (("g/part", True), ("", True), ("g", False)):
        with pytest.raises(MissingChunkError, match=r"missing; of all chunks .*: 2 missing, 2 ok"):
            verify(place, path, strict=True, deep=deep)
    open_array(place, "g/part", mode="r+")[4:] = 1
    assert verify(place, strict=True, deep=False) is not None
    to_n5(da.from_array(IMAGE, chunks=5), place, "later", compute=False, format=how["format"])
    begin(place, "later")
    assert len(unfinished(place, "later")) == 1
    open_array(place, "later", mode="r+")[...] = IMAGE
    with pytest.raises(MetadataError, match="has an unfinished write"):
        verify(place, strict=True)
    if form != "hdf5":
        spoil(place, (1, 1), "g/whole")
        with pytest.raises(ChunkError, match=r"; of all chunks .*: 8 ok, 1 \w+"):
            verify(place, strict=True)


def test_checks_are_lazy_and_few_and_too_large_maps_are_refused(tmp_path: Path) -> None:
    create_array(tmp_path, "a", shape=(100, 100, 100), dtype="u1", chunks=1)
    report = verify(tmp_path, "a")
    assert report.state.data.npartitions < 10000
    part = report.isel(dim_0=slice(2), dim_1=slice(2), dim_2=slice(2)).compute()
    assert states(part) == {"missing": 8}
    create_array(tmp_path, "b", shape=(1 << 40,), dtype="u1", chunks=64)
    for function in (chunk_map, verify):
        with pytest.raises(ValueError, match="chunk_exists"):
            function(tmp_path, "b")


# Trees


@FULL
def test_a_group_is_verified_array_by_array(tmp_path: Path, form: Any) -> None:
    place = place_of(tmp_path, form)
    for name in ("a", "g/b", "g/h/c"):
        to_n5(VALUES, place, name, chunks=4, format=form)
    tree = verify(place).compute()
    assert {node.path for node in tree.leaves} == {"/a", "/g/b", "/g/h/c"}
    for node in tree.leaves:
        path = node.path.strip("/")
        xr.testing.assert_identical(node.to_dataset(), verify(place, path).compute())
    assert (tree.attrs["errors"], tree.attrs["unfinished"]) == ({}, [])
    assert {node.path for node in verify(place, "g").leaves} == {"/b", "/h/c"}


def test_what_cannot_be_read_is_named_beside_the_reports(tmp_path: Path) -> None:
    for name in ("a", "g/b"):
        to_n5(VALUES, tmp_path, name, chunks=4, compression=None)
    document = tmp_path / "g/b/attributes.json"
    document.write_text(document.read_text().replace("uint16", "uint17"))
    spoil(tmp_path, (0, 1, 0))
    tree = verify(tmp_path).compute()
    assert [node.path for node in tree.leaves] == ["/a"]
    assert states(tree["a"]) == {"ok": 11, "truncated": 1}
    assert list(tree.attrs["errors"]) == ["g/b"]
    assert "'uint17'" in tree.attrs["errors"]["g/b"]
    with pytest.raises(MetadataError, match="uint17"):
        verify(tmp_path, "g", strict=True)
    listed = CliRunner().invoke(main, ["verify", str(tmp_path), "--json"]).stdout
    assert {report["path"] for report in json.loads(listed)} == {"a", "g/b"}
    create_group(tmp_path, "empty")
    with pytest.raises(NodeNotFoundError, match="no arrays found"):
        verify(tmp_path, "empty")


def series(first: int, count: int) -> xr.Dataset:
    """A series whose values are its times, in chunks of three."""
    times = np.arange(first, first + count)
    values = da.from_array(np.repeat(times[:, None] + 1, 4, axis=1).astype("i4"), chunks=(3, 4))
    return xr.Dataset({"v": (("t", "x"), values)}, {"t": times * 1.0})


@pytest.mark.parametrize("kind", ["dataset", "append", "tree"])
@pytest.mark.parametrize("form", ["n5", "zarr3"])
def test_a_tree_is_incomplete_while_a_record_remains(tmp_path: Path, form: Any, kind: str) -> None:
    if kind == "append":
        series(0, 4).n5.to_n5(tmp_path / "c" / NAMES[form], "g", format=form)
    with FailingFolder.at(tmp_path / "c", NAMES[form]) as failing:
        for steps in range(1, 100):
            copied = failing.copied()
            copied.stop_after(steps)
            with suppress(StoppedError):
                if kind == "tree":
                    nodes = xr.DataTree.from_dict({"/h": series(0, 2), "/i": series(3, 2)})
                    nodes.n5.to_n5(copied.url_to_write, group="g", format=form)
                else:
                    how: Any = {"append_dim": "t"} if kind == "append" else {"format": form}
                    series(4, 3).n5.to_n5(copied.url_to_write, group="g", **how)
                return
            copied.stop_after(NEVER)
            records = [path.name for path in copied.folder.rglob("open-*.json")]
            with suppress(NodeNotFoundError):
                assert bool(verify(copied.url_to_write).attrs["unfinished"]) == bool(records)
                listed = CliRunner().invoke(main, ["verify", str(copied.url_to_write)])
                assert not records or listed.exit_code == 1
    raise AssertionError("it never ends")


# Digests


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array.__setitem__(0, 999),
        lambda array: array.write_chunk((0, 0, 0), np.ones((4, 4, 4), "u2")),
        lambda array: array.delete_chunk((0, 0, 0)),
        lambda array: array.resize((5, 9, 7)).resize((6, 9, 7)),
        lambda array: array.resize((6, 9, 8)),
        lambda array: to_n5(
            VALUES[:4] + 1, array.node.container.store, "a", region=(slice(0, 4),) * 1
        ),
        lambda array: to_n5(
            np.ones((6, 9, 7), "u2"), array.node.container.store, "a", mode="r+", compute=False
        ).compute(),
    ],
    ids=["brackets", "a chunk", "deletion", "resize", "growth", "region", "deferred"],
)
def test_digests_go_where_they_would_call_right_what_is_meant(tmp_path: Path, change: Any) -> None:
    with set_options(checksums=True):
        to_n5(VALUES, tmp_path, "a", chunks=4)
    change(open_array(tmp_path, "a", mode="r+"))
    report = verify(tmp_path, "a").compute()
    assert not report.attrs["digests"]
    assert set(states(report)) <= {"ok", "missing"}


@FULL
@pytest.mark.parametrize("mode", ["a", "r+"])
def test_a_change_between_a_stop_and_its_resume_is_not_called_damage(
    tmp_path: Path, form: str, mode: Any
) -> None:
    container = tmp_path / NAMES[form]
    if mode == "r+":
        to_n5(np.zeros((8, 6), "i4"), container, "a", chunks=(2, 3))
    left = [6]

    def fragile(block: np.ndarray) -> np.ndarray:
        left[0] -= 1
        if not left[0]:
            raise OSError
        return block

    values = np.arange(1, 49, dtype="i4").reshape(8, 6)
    blocks: Any = da.from_array(values, chunks=(2, 3), name="numbers")
    source = blocks.map_blocks(fragile, dtype="i4", name="fragile", meta=values[:0, :0])
    options: dict[str, Any] = {"mode": mode, **({"chunks": (2, 3)} if mode == "a" else {})}
    with set_options(checksums=True), dask.config.set(scheduler="synchronous"):
        with pytest.raises(OSError):  # noqa: PT011
            to_n5(source, container, "a", **options)
        array = open_array(container, "a", mode="r+")
        array[1:7, 2:5] = -5
        to_n5(source, container, "a", resume=True, **options)
    report = verify(container, "a").compute()
    assert (states(report), report.attrs["digests"]) == ({"ok": 8}, True)


@pytest.mark.parametrize("options", [{"mode": "w", "chunks": 4}, {"mode": "r+"}])
def test_digests_of_a_second_write_replace_those_of_the_first(tmp_path: Path, options: Any) -> None:
    to_n5(VALUES, tmp_path, "b", chunks=4)
    for checksums in (True, False):
        with set_options(checksums=True):
            to_n5(VALUES, tmp_path, "a", chunks=4, mode="w")
        with set_options(checksums=checksums):
            to_n5(VALUES + 1, tmp_path, "a", **options)
        report = verify(tmp_path, "a").compute()
        assert (states(report), report.attrs["digests"]) == ({"ok": 12}, checksums)
        (tmp_path / "a/0/0/0").write_bytes((tmp_path / "b/0/0/0").read_bytes())
        expected = {"ok": 11, "digest-differs": 1} if checksums else {"ok": 12}
        assert states(verify(tmp_path, "a").compute()) == expected


# Repairs


computed: list[int] = []
"""An entry for each block that a write has computed."""


def count(block: np.ndarray) -> np.ndarray:
    computed.extend([1] * bool(block.size))
    return block


def image(name: str = "image") -> da.Array:
    blocks: Any = da.from_array(IMAGE, chunks=(5, 4))
    return blocks.map_blocks(count, name=name, dtype="i4", meta=IMAGE[:0, :0])  # type: ignore[no-any-return]


def write(place: Path, form: Any, name: str = "image", **more: Any) -> int:
    """Write the image, and return the number of blocks that were computed."""
    computed.clear()
    with dask.config.set(scheduler="sync"):
        to_n5(image(name), place, "a", resume=True, **{**FORMS[form], **more})
    return len(computed)


def check(place: Path, expected: np.ndarray = IMAGE, path: str = "a") -> None:
    """The array is whole, and nothing is unfinished."""
    np.testing.assert_array_equal(open_array(place, path)[...], expected)
    assert unfinished(place, path) == []


@pytest.mark.parametrize("how", ["quarantine", "remove"])
def test_what_is_damaged_is_taken_away_and_written_again(tmp_path: Path, how: Any) -> None:
    source = da.from_array(VALUES, chunks=4)
    with set_options(checksums=True):
        to_n5(source, tmp_path, "a", chunks=4)
    whole = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    inodes = {file: file.stat().st_ino for file in whole}
    bad = [tmp_path / "a/0/0/0", tmp_path / "a/1/2/1"]
    for file in bad:
        damage(file, lambda data: data[:-3])
    assert repair(tmp_path, "a", how=how).attrs["repaired"] == 2
    assert not any(file.exists() for file in bad)
    kept = [file for file in tmp_path.rglob(".xn5/quarantine/**/*") if file.is_file()]
    assert len(kept) == (2 if how == "quarantine" else 0)
    with set_options(checksums=True):
        receipts: Any = to_n5(source, tmp_path, "a", chunks=4, resume=True)
    assert (receipts.written, receipts.kept) == (2, 10)
    for file, content in whole.items():
        assert file.read_bytes() == content
        assert file in bad or ".xn5" in file.parts or file.stat().st_ino == inodes[file]
    assert states(verify(tmp_path, "a", strict=True)) == {"ok": 12}


@EACH
def test_a_write_killed_at_any_change_is_resumed_after_a_repair(tmp_path: Path, form: Any) -> None:
    with FailingFolder.at(tmp_path / "c", NAMES.get(form, "b.zarr")) as failing:
        for steps in range(100):
            place = (copied := failing.copied()).url_to_write
            copied.stop_after(steps)
            try:
                write(place, form)
            except StoppedError:
                copied.stop_after(NEVER)
                with suppress(NodeNotFoundError):
                    repair(place, "a")
                left = write(place, form)
                check(place)
                assert write(place, form) == 0
            else:
                break
    assert left == 0  # the last change is long after the last chunk
    assert steps > 3


@EACH
@pytest.mark.parametrize("way", ["damaged", "deleted", "lost"])
def test_a_lost_chunk_alone_is_written_again(tmp_path: Path, form: Any, way: str) -> None:
    if form == "hdf5" and way != "damaged":
        pytest.skip("HDF5 never removes a chunk")
    place = place_of(tmp_path, form)
    write(place, form)
    if way == "damaged":
        spoil(place, (1, 2))
    elif way == "deleted":
        open_array(place, "a", mode="r+").delete_chunk((1, 2))
    else:
        (place / open_array(place, "a").node.key((1, 2))).unlink()
    assert write(place, form) == 0  # has finished: no chunk is asked for
    for _ in range(2):
        repair(place, "a", missing=True)
        assert len(unfinished(place)) == 1
    changes: list[dict[str, Any]] = [{"name": "other"}, {"attributes": {"k": 1}}]
    changes += [{"axes": ["v", "u"]}, {"write_empty_chunks": False}, {"compression": None}]
    changes += [{"mode": "r+", "chunks": None, "shards": None}]
    for change, word in zip(
        changes, ("data", "'k'", "axis", "options", "compression", "existing"), strict=True
    ):
        with pytest.raises(ResumeError, match=word):
            write(place, form, **change)
    assert write(place, form) == 1
    check(place)
    open_array(place, "a", mode="r+").attrs["k"] = 2
    assert write(place, form) == 0


@EACH
def test_a_changed_array_is_refused_by_what_has_changed(tmp_path: Path, form: Any) -> None:
    place = place_of(tmp_path, form)
    write(place, form, attributes={"stain": "DAPI"})
    open_array(place, "a", mode="r+").attrs["stain"] = "GFP"
    with pytest.raises(NodeExistsError, match="'stain' has changed"):
        write(place, form, attributes={"stain": "DAPI"})


PARTS = [(slice(0, 13), slice(0, 3)), (slice(0, 13), slice(3, 6)), (slice(0, 13), slice(6, 10))]


def merge(place: Path, number: int) -> None:
    box = PARTS[number]
    to_n5(IMAGE[box], place, "a", region=box, safe_chunks=False, resume=True)


@EACH
@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0), (0, 1, 2)])
def test_a_chunk_of_several_regions_is_incomplete_until_all_are_repeated(
    tmp_path: Path, form: Any, order: tuple[int, ...]
) -> None:
    place = place_of(tmp_path, form)
    to_n5(np.zeros_like(IMAGE), place, "a", **FORMS[form])
    for number in range(3):
        merge(place, number)
    spoil(place, (1, 1))  # columns 4 to 7: of the last two
    assert repair(place, "a").attrs["repaired"] == 1
    for number in order * 3:
        assert unfinished(place) != []
        with suppress(ResumeError):  # until another one has been repeated
            merge(place, number)
        if np.array_equal(open_array(place, "a")[...], IMAGE):
            break
        repair(place, "a")
    check(place)
    merge(place, order[0])
    check(place)


@EACH
def test_a_killed_region_does_not_stand_for_its_neighbour(tmp_path: Path, form: Any) -> None:
    with FailingFolder.at(tmp_path / "c", NAMES.get(form, "b.zarr")) as failing:
        to_n5(np.zeros_like(IMAGE), failing.url_to_write, "a", **FORMS[form])
        for number in (0, 1):
            merge(failing.url_to_write, number)
        for steps in range(1, 12):
            place = (copied := failing.copied()).url_to_write
            copied.stop_after(steps)
            with suppress(StoppedError):
                merge(place, 2)
            copied.stop_after(NEVER)
            spoil(place, (2, 1))
            repair(place, "a")
            merge(place, 2)
            assert unfinished(place) == ["repair"]
            merge(place, 1)
            check(place)


@EACH
def test_a_chunk_of_no_write_is_repaired_by_whatever_covers_it(tmp_path: Path, form: Any) -> None:
    place = place_of(tmp_path, form)
    array = create_array(place, "a", shape=IMAGE.shape, dtype="i4", **FORMS[form])
    array[...] = IMAGE
    spoil(place, (2, 1))
    for _ in range(2):
        repair(place, "a")
        assert unfinished(place) == ["repair"]
    array[10:, 4:8] = IMAGE[10:, 4:8]
    repair(place, "a")
    check(place)
    spoil(place, (2, 1))
    spoil(place, (0, 0))
    repair(place, "a")
    boxes = [
        (slice(0, 5), slice(0, 10)),
        (slice(10, 13), slice(4, 6)),
        (slice(5, 13), slice(6, 10)),
    ]
    for box in boxes:
        assert "repair" in unfinished(place)
        to_n5(IMAGE[box], place, "a", region=box, safe_chunks=False)
    check(place)


@FULL
def test_a_grown_series_is_repaired_by_its_first_write_and_a_region(
    tmp_path: Path, form: Any
) -> None:
    place = place_of(tmp_path, form)
    series(0, 4).n5.to_n5(place, encoding={"v": {"chunks": (3, 4)}}, format=form)
    series(4, 2).n5.to_n5(place, append_dim="t")
    spoil(place, (1, 0), "v")
    repair(place, "v")
    series(0, 4).n5.to_n5(place, encoding={"v": {"chunks": (3, 4)}}, format=form, resume=True)
    assert unfinished(place, "v") == ["repair"]
    series(4, 2).n5.to_n5(place, region={"t": slice(4, 6)}, safe_chunks=False)
    check(place, np.repeat(np.arange(1, 7)[:, None], 4, axis=1), "v")


def test_repair_beside_another_write_is_not_forgotten(tmp_path: Path) -> None:
    values = da.arange(1, 41, chunks=10, dtype="i4")
    to_n5(values, tmp_path, "a")
    to_n5(values[20:], tmp_path, "a", region=slice(20, 40), compute=False)
    (tmp_path / "a/0").write_bytes(b"x")
    repair(tmp_path, "a")
    for part in (slice(20, 40), slice(0, 10)):  # the record of a write has all its chunks
        with pytest.raises(ResumeError):
            to_n5(values[part], tmp_path, "a", region=part, resume=True)
    to_n5(values, tmp_path, "a", resume=True)
    to_n5(values[20:], tmp_path, "a", region=slice(20, 40), resume=True)
    check(tmp_path, values.compute())


def test_what_others_left_short_is_not_taken_away(tmp_path: Path) -> None:
    to_n5(np.arange(1, 7, dtype="u1"), tmp_path, "a", chunks=4)
    to_n5(VALUES, tmp_path, "b", chunks=4)
    document = tmp_path / "a/attributes.json"
    document.write_text(document.read_text().replace("[6]", "[8]"))
    assert states(repair(tmp_path, "a")) == {"ok": 1, "wrong-shape": 1}
    check(tmp_path, np.array([1, 2, 3, 4, 5, 6, 0, 0]))
    with pytest.raises(ValueError, match="report"):
        repair(tmp_path, "a", verify(tmp_path, "b"))


# What is under way


def test_a_write_under_way_is_seen_and_leaves_nothing(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path, "a", chunks=4, compute=False)
    begin(tmp_path, "a")
    (record,) = (tmp_path / "a").glob(".xn5/open*")
    assert record.name.startswith(f"open-{unfinished(tmp_path)[0]}-")
    (tmp_path / "a/0/0").mkdir(parents=True)
    partials = [tmp_path / f"a/0/0/.{number}.{'0' * 32}.partial" for number in (0, 1)]
    partials[0].write_bytes(b"half")
    to_n5(VALUES, tmp_path, "a", chunks=4, resume=True)
    assert not record.exists()
    partials[1].write_bytes(b"half")
    to_n5(VALUES[4:], tmp_path, "a", region=(slice(4, 6),))  # other chunks
    assert [partial.exists() for partial in partials] == [False, True]
    repair(tmp_path, "a")
    assert not partials[1].exists()


@pytest.mark.parametrize("side", [100, 1002])
def test_many_blocks_give_all_their_receipts(side: int) -> None:
    store: Any = CountingStore()
    source = da.ones(side * 10, chunks=10, dtype="u1")
    receipts: Any = to_n5(source, store, "a", compression=None)
    assert receipts.to_datatree()["bytes"].values.tolist() == [8 + 10] * side
    store.delete([f"a/{n}" for n in range(side) if n % 10])
    repair(store, "a", missing=True)
    receipts = to_n5(source, store, "a", compression=None, resume=True)
    assert receipts.written == side - (side + 9) // 10
    assert (open_array(store, "a")[...] == 1).all()


def test_plans_cost_nothing_and_have_hardly_more_tasks_than_blocks() -> None:
    store: Any = CountingStore()
    total: Any = to_n5(da.zeros((800, 400, 400), chunks=4, dtype="u1"), store, "a", compute=False)
    layers = total.dask.layers.values()
    assert sum(len(layer) for layer in layers if layer.is_materialized()) < 4
    assert sum(store.requests().values()) < 20
    source = da.zeros((90, 40, 40), chunks=2, dtype="u1") + 1
    (small,) = optimize(to_n5(source, store, "b", compute=False))
    assert len(dict(small.dask)) <= source.npartitions * 1.002 + 2


@pytest.mark.more
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")
def test_memory_does_not_grow_with_what_is_written(tmp_path: Path) -> None:
    script = (
        f"import sys, dask, dask.array as da, xarray_n5\n{OWN_PEAK}\n"
        "dask.config.set(scheduler='threads', num_workers=2)\n"
        "x = da.ones((int(sys.argv[1]), 1 << 20), chunks=(1, -1), dtype='u4')\n"
        "gzip = {'type': 'gzip', 'level': 1}\n"
        "xarray_n5.to_n5(x + 1, sys.argv[2], 'a', chunks=(1, 1 << 20), compression=gzip)\n"
        "print(own_peak())\n"
    )
    peaks = []
    for blocks in (10, 60 if EXHAUSTIVE else 35):  # of 4 MiB each
        command = [sys.executable, "-c", script, str(blocks), str(tmp_path / str(blocks))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 40_000_000  # ten blocks, of all that are more
