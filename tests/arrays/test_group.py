"""Nodes: opening, creating, listing and deleting them, and the modes of writing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.memory_store import MemoryStore
from tests.support.stores import STORES, CountingStore, keys_below
from xarray_n5 import (
    Array,
    Group,
    MetadataError,
    NodeExistsError,
    NodeNotFoundError,
    create_array,
    create_group,
    open_array,
    open_group,
)
from xarray_n5.errors import PathError, ReadOnlyError, UnsafePathError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from xarray_n5.stores.base import Store

SMALL: dict[str, Any] = {"shape": (4, 4), "dtype": "u1", "chunks": (2, 2)}


@pytest.fixture(params=list(STORES.values()), ids=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return request.param(tmp_path)  # type: ignore[no-any-return]


def members(store: Store, key: str = "attributes.json") -> Any:
    """What is in a file."""
    return json.loads(store.get(key) or b"{}")


# Creating


def test_a_new_container_says_its_version_once_at_its_root(store: Store) -> None:
    create_array(store, "a/b", **SMALL)
    assert members(store) == {"n5": "2.0.0"}
    assert "n5" not in members(store, "a/b/attributes.json")
    assert members(store, "a/attributes.json") == {}
    assert list(open_group(store)) == ["a"]


def test_an_array_may_be_the_root(store: Store) -> None:
    create_array(store, **SMALL)[...] = 3
    assert members(store)["n5"] == "2.0.0"
    assert (open_array(store)[...] == 3).all()


@pytest.mark.parametrize(
    "root", [b'{"n5": "4.0.0", "kept": [1]}', None], ids=["another version", "no version"]
)
def test_a_container_of_others_keeps_its_version(store: Store, root: bytes | None) -> None:
    store.set("theirs/attributes.json", b"{}")
    if root is not None:
        store.set("attributes.json", root)
    create_array(store, "ours", **SMALL)
    create_group(store, "mine")
    assert store.get("attributes.json") == root or members(store) == {}


def test_creating_refuses_what_is_there_and_changes_nothing(store: Store) -> None:
    create_array(store, "a", attributes={"kept": 1}, **SMALL)[...] = 7
    with pytest.raises(NodeExistsError, match="mode='w'"):
        create_array(store, "a", **{**SMALL, "dtype": "f4"})
    with pytest.raises(NodeExistsError, match="not empty"):
        create_array(store, **SMALL)
    with pytest.raises(NodeExistsError, match="array"):
        create_group(store, "a")
    with pytest.raises(NodeExistsError, match="cannot contain other nodes"):
        create_array(store, "a/inner", **SMALL)
    array = open_array(store, "a")
    assert (array.dtype, dict(array.attrs)) == (np.dtype("u1"), {"kept": 1})
    assert (array[...] == 7).all()


def test_replacing_removes_the_array_and_none_of_its_neighbours(store: Store) -> None:
    create_array(store, "g/a", attributes={"old": 1}, **SMALL)[...] = 7
    create_array(store, "g/b", **SMALL)[...] = 8
    new = create_array(store, "g/a", mode="w", shape=(3,), dtype="f8", chunks=(2,))
    assert (new[...] == 0).all()
    assert len(new.attrs) == 0
    assert (open_array(store, "g/b")[...] == 8).all()
    assert sorted(keys_below(store, "g/a")) == ["attributes.json"]


FOREIGN = {"an inner node": "a/inner/attributes.json", "a file": "a/README.txt", "git": "a/.git/c"}


@pytest.mark.parametrize("key", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("exists", [False, True])
def test_replacing_never_takes_files_that_are_not_the_arrays(
    store: Store, key: str, exists: bool
) -> None:
    if exists:
        create_array(store, "a", **SMALL)[...] = 1
    store.set(key, b"{}")
    with pytest.raises(NodeExistsError, match=key[2:].replace(".", r"\.")):
        create_array(store, "a", mode="w", **SMALL)
    assert store.get(key) == b"{}"
    assert not exists or (open_array(store, "a")[...] == 1).all()


def test_replacing_never_takes_groups_or_orphaned_chunks(store: Store) -> None:
    create_array(store, "g/a", **SMALL)
    with pytest.raises(NodeExistsError):
        create_array(store, "g", mode="w", **SMALL)
    store.set("b/0/0", b"stale")
    with pytest.raises(NodeExistsError):
        create_array(store, "b", **SMALL)
    assert open_array(store, "g/a").shape == (4, 4)


def test_a_root_array_is_replaced_within_its_container(store: Store) -> None:
    store.set("attributes.json", b'{"n5": "4.0.0"}')
    create_array(store, **SMALL)
    create_array(store, mode="w", **{**SMALL, "dtype": "f4"})
    assert (members(store)["n5"], members(store)["dataType"]) == ("4.0.0", "float32")


def test_opening_or_creating_does_either(store: Store) -> None:
    create_array(store, "a", mode="a", attributes={"x": 1}, **SMALL)[...] = 5
    again = create_array(store, "a", mode="a", attributes={"y": 2}, **SMALL)
    assert (again[...] == 5).all()
    assert dict(again.attrs) == dict(open_array(store, "a").attrs) == {"x": 1, "y": 2}
    assert create_array(store, "a", mode="r+", shape=(4, 4), dtype="u1").chunks == (2, 2)


@pytest.mark.parametrize("other", [{"shape": (4, 5)}, {"dtype": "i1"}, {"chunks": (2, 1)}])
@pytest.mark.parametrize("mode", ["a", "r+"])
def test_an_array_that_does_not_agree_is_not_opened(mode: Any, other: dict[str, Any]) -> None:
    store = MemoryStore()
    create_array(store, "a", **SMALL)
    with pytest.raises(MetadataError, match=next(iter(other))):
        create_array(store, "a", mode=mode, **{**SMALL, **other})


def test_writing_into_what_is_not_there_raises(store: Store) -> None:
    with pytest.raises(NodeNotFoundError):
        create_array(store, "a", mode="r+", **SMALL)


WRONG: list[dict[str, Any]] = [
    {"dtype": "c8"},
    {"dtype": "unit8"},
    {"chunks": (2,)},
    {"chunks": (0, 2)},
    {"chunks": "some"},
    *({"chunks": chunks} for chunks in (0, -1, (2, 0), 1.5, [None, 2], np.array([[2]]))),
    {"chunks": (2, 1 << 31)},
    {"shape": (1 << 63, 1)},
    {"shape": (-1, 2)},
    {"attributes": {"a": object()}},
    {"attributes": {"blockSize": 1}},
    {"axes": ["x"]},
    {"axes": ["x", "x"]},
    {"axes": ["y", "x"], "attributes": {"axes": ["z", "w"]}},
    {"axes": ["y", "x"], "dialect": "klingon"},
    {"compression": {"type": "gzip", "level": 12}},
    {"mode": "rw"},
]


def test_everything_is_checked_before_anything_is_written() -> None:
    store = MemoryStore()
    for wrong in WRONG:
        with pytest.raises(ValueError, match=r".+"):
            create_array(store, "a/b", **{**SMALL, **wrong})
        assert store.items == {}


@pytest.mark.parametrize(
    ("shape", "options", "chunks"),
    [
        ((1000, 2000, 3000), {}, (101, 101, 101)),
        ((1000, 2000, 3000), {"chunk_aspect_ratio": (1, 2, 2)}, (64, 128, 128)),
        (
            (1000, 2000, 3000),
            {"chunk_aspect_ratio": (1, 2, 2), "chunk_elements": 2_000_000},
            (79, 159, 159),
        ),
        ((1000, 2000, 3000), {"chunks": 64}, (64, 64, 64)),
        ((1 << 62,) * 2, {}, (1024, 1024)),
        (np.array([4, 6]), {"chunks": np.array([2, 3])}, (2, 3)),
        (5, {"chunks": np.int64(2)}, (2,)),
    ],
)
def test_chunk_shapes_are_chosen_or_used(
    shape: Any, options: dict[str, Any], chunks: tuple[int, ...]
) -> None:
    array = create_array(MemoryStore(), shape=shape, dtype="u2", **options)
    assert (array.shape, array.chunks) == (tuple(np.atleast_1d(shape)), chunks)


# Groups


def test_groups_are_created_opened_and_described(store: Store) -> None:
    group = create_group(store, "a/b", attributes={"x": 1})
    assert dict(group.attrs) == {"x": 1}
    with pytest.raises(NodeExistsError):
        create_group(store, "a/b")
    assert dict(create_group(store, "a/b", mode="a", attributes={"y": 2}).attrs) == {"x": 1, "y": 2}
    opened = open_group(store, "a", mode="r+")
    inner = opened["b"]
    assert isinstance(inner, Group)
    inner.attrs["z"] = 3
    assert dict(open_group(store, "a/b").attrs) == {"x": 1, "y": 2, "z": 3}
    assert "a" in repr(open_group(store))


def test_a_group_is_a_mapping_of_what_is_in_it(store: Store) -> None:
    create_array(store, "g/a1", **SMALL)
    create_array(store, "g/a2", **SMALL)
    create_array(store, "g/h/a3", **SMALL)
    store.set("g/.hidden/file", b"")
    store.set("g/notes.txt", b"")
    group = open_group(store, "g")
    assert list(group) == ["a1", "a2", "h"]
    assert (len(group), "a1" in group, "h/a3" in group, "no" in group) == (3, True, True, False)
    assert {name: type(node) for name, node in group.nodes().items()} == {
        "a1": Array,
        "a2": Array,
        "h": Group,
    }
    assert list(group.arrays()) == ["a1", "a2"]
    assert isinstance(group["h/a3"], Array)
    with pytest.raises(KeyError):
        group["no"]


def test_names_within_a_group_stay_within_it(store: Store) -> None:
    create_array(store, "a", **SMALL)
    create_group(store, "g")
    group = open_group(store, "g")
    with pytest.raises(PathError):
        group["../a"]


def test_a_group_deletes_nodes(store: Store) -> None:
    group = create_group(store, "g")
    create_array(store, "g/a/b", **SMALL)[...] = 1
    create_array(store, "kept", **SMALL)
    del group["a"]
    assert "a" not in group
    assert not keys_below(store, "g/a")
    with pytest.raises(KeyError):
        del group["a"]
    with pytest.raises(ValueError, match="itself"):
        del group[""]
    assert open_array(store, "kept").shape == (4, 4)


def test_a_group_opened_for_reading_refuses_every_change(store: Store) -> None:
    create_array(store, "a", **SMALL)
    group = open_group(store)
    changes: list[Callable[[], object]] = [
        lambda: group.__delitem__("a"),
        lambda: group.attrs.update(x=1),
        lambda: group["a"].attrs.update(x=1),
    ]
    for change in changes:
        with pytest.raises(ReadOnlyError):
            change()


# Opening


def test_what_is_not_there_is_told_with_what_is(store: Store) -> None:
    create_array(store, "em/s0", **SMALL)
    with pytest.raises(NodeNotFoundError, match="'em' holds s0"):
        open_array(store, "em/s1")
    with pytest.raises(NodeNotFoundError, match="'em' holds s0"):
        open_array(store, "em")
    with pytest.raises(NodeNotFoundError, match="open_array"):
        open_group(store, "em/s0")
    with pytest.raises(NodeNotFoundError):
        open_group(store, "nothing")


def test_an_empty_directory_is_a_group(tmp_path: Path) -> None:
    assert list(open_group(tmp_path)) == []
    with pytest.raises(NodeNotFoundError, match="does not exist"):
        open_group(tmp_path / "nothing")


@pytest.mark.parametrize("mode", ["w", "a", "x"])
def test_other_modes_than_reading_and_updating_do_not_open(mode: Any) -> None:
    with pytest.raises(ValueError, match="mode"):
        open_array(MemoryStore(), "a", mode=mode)


def test_a_format_that_nobody_knows_is_refused() -> None:
    with pytest.raises(MetadataError, match="n5"):
        open_array(MemoryStore(), "a", format="tiff")  # type: ignore[arg-type]


# What must not be lost


def test_a_replacement_that_was_stopped_can_be_repeated(store: Store) -> None:
    create_array(store, "a", **SMALL)[...] = 1
    store.delete(["a/attributes.json"])
    with pytest.raises(NodeExistsError):
        create_array(store, "a", **SMALL)
    assert not create_array(store, "a", mode="w", **SMALL)[...].any()


@pytest.mark.parametrize(
    "compression",
    [
        {"type": "blosc", "cname": "snappy"},
        {"type": "lz4", "blockSize": 6},
        {"type": "zlib", "id": "zlib", "unknown": 1},
    ],
)
def test_a_compression_that_cannot_write_leaves_what_is_there(compression: dict[str, Any]) -> None:
    store = MemoryStore()
    create_array(store, "a", **SMALL)[...] = 1
    with pytest.raises(MetadataError, match="compress"):
        create_array(store, "a", mode="w", compression=compression, **SMALL)
    assert (open_array(store, "a")[...] == 1).all()


def test_a_link_that_leaves_is_deleted_but_not_replaced_and_its_target_stays(
    tmp_path: Path,
) -> None:
    create_array(tmp_path / "other.n5", "precious", **SMALL)[...] = 1
    create_group(tmp_path / "c.n5")
    (tmp_path / "c.n5/link").symlink_to(tmp_path / "other.n5/precious")
    with pytest.raises(UnsafePathError, match="outside of the container"):
        create_array(tmp_path / "c.n5", "link", mode="w", **SMALL)
    del open_group(tmp_path / "c.n5", mode="r+")["link"]
    assert not (tmp_path / "c.n5/link").is_symlink()
    assert (open_array(tmp_path / "other.n5", "precious")[...] == 1).all()


def test_neighbours_are_safe_from_names_that_look_like_patterns(store: Store) -> None:
    for name in ("a*", "ab", "a[1]", "a1"):
        create_array(store, name, **SMALL)
    del open_group(store, mode="r+")["a*"]
    create_array(store, "a[1]", mode="w", **SMALL)
    assert sorted(open_group(store)) == ["a1", "a[1]", "ab"]


# Odd neighbours and names


def test_one_node_that_cannot_be_read_does_not_hide_the_others(store: Store) -> None:
    create_array(store, "g/good", **SMALL)
    store.set("g/bad/attributes.json", b"{")
    group = open_group(store, "g")
    with pytest.warns(UserWarning, match="'bad' is left out"):
        assert list(group.nodes()) == ["good"]
    assert list(group.nodes(without={"bad"})) == ["good"]
    with pytest.raises(MetadataError, match="bad/attributes"):
        group["bad"]


def test_a_file_is_no_group(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(NodeNotFoundError):
        open_group(tmp_path / "file")
    create_group(tmp_path / "c.n5")
    assert "attributes.json" not in open_group(tmp_path / "c.n5")
    assert "../x" not in open_group(tmp_path / "c.n5")


@pytest.mark.parametrize(
    "path", ["attributes.json", "a/attributes.json/b", ".hid", "a/.b", 3, None]
)
def test_names_that_no_node_can_have_are_refused(path: Any) -> None:
    store = MemoryStore()
    for create in (lambda: create_array(store, path, **SMALL), lambda: create_group(store, path)):
        with pytest.raises(PathError):
            create()
    assert store.items == {}


@pytest.mark.parametrize("document", [".zgroup", ".zarray", "zarr.json"])
def test_zarr_is_told_from_n5_and_not_written_into(tmp_path: Path, document: str) -> None:
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / document).write_text("{}")
    hint = "Zarr v3" if document == "zarr.json" else "Zarr v2"
    with pytest.raises(NodeNotFoundError, match=hint):
        open_array(tmp_path / "x.zarr", format="n5")
    with pytest.raises(NodeExistsError, match="another format"):
        create_array(tmp_path / "x.zarr", "a", format="n5", **SMALL)
    assert [path.name for path in (tmp_path / "x.zarr").iterdir()] == [document]


def test_a_file_is_told_from_a_container(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_bytes(b"x")
    with pytest.raises(NodeNotFoundError, match="a file, but not an HDF5"):
        open_array(tmp_path / "x.h5")


def test_replacing_never_takes_hidden_files_of_the_root(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("kept")
    with pytest.raises(NodeExistsError, match=r"\.git"):
        create_array(tmp_path, mode="w", **SMALL)
    create_array(tmp_path, **SMALL)
    with pytest.raises(NodeExistsError, match=r"\.git"):
        create_array(tmp_path, mode="w", **SMALL)
    assert (tmp_path / ".git/config").read_text() == "kept"


def test_replacing_clears_what_stopped_writes_left(tmp_path: Path) -> None:
    create_array(tmp_path / "c.n5", "a", **SMALL)[...] = 1
    left = tmp_path / "c.n5/a/0" / f".1.{'0' * 32}.partial"
    left.write_bytes(b"torn")
    assert not create_array(tmp_path / "c.n5", "a", mode="w", **SMALL)[...].any()
    assert not left.exists()


def test_an_array_at_the_root_holds_no_nodes(store: Store) -> None:
    create_array(store, **SMALL)[...] = 1
    for path in ("a", "0", "a/b"):
        with pytest.raises(NodeExistsError, match="cannot contain other nodes"):
            create_array(store, path, mode="w", **SMALL)
        with pytest.raises(NodeExistsError, match="cannot contain other nodes"):
            create_group(store, path)
    assert (open_array(store)[...] == 1).all()


class Guarded(CountingStore):
    """A store whose root this user may not read."""

    def get(self, key: str, most: int | None = None) -> bytes | None:
        if "/" not in key:
            raise PermissionError(key)
        return super().get(key, most)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.get(key) for key in keys]


def test_groups_are_opened_below_a_root_that_cannot_be_read() -> None:
    open_for_all = CountingStore()
    create_array(open_for_all, "g/h/a", **SMALL)
    store = Guarded(open_for_all.inner)
    assert list(open_group(store, "g/h").arrays()) == ["a"]
    assert open_array(store, "g/h/a").shape == SMALL["shape"]
