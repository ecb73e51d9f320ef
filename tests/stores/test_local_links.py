"""Local containers keep to themselves: links, FIFOs, permissions, and trees that do not end."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from tests.support.containers import contents
from tests.support.processes import Python
from tests.support.stores import keys_below
from xarray_n5 import (
    N5Error,
    chunk_map,
    create_array,
    create_group,
    from_n5,
    open_array,
    open_group,
    repair,
    set_options,
    to_n5,
    verify,
)
from xarray_n5.errors import PathError, UnsafePathError
from xarray_n5.formats.containers import open_store
from xarray_n5.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links take a privilege there")

FOLLOW = {"follow_links": True}


def values() -> np.ndarray:
    """Numbers without a zero, in four chunks."""
    return np.arange(1, 257, dtype="u2").reshape(16, 16)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A container with an array "a" and a group "g", and a folder outside that holds the same."""
    inside, outside = tmp_path / "c.n5", tmp_path / "outside"
    to_n5(values(), inside, "a", chunks=8, compression="raw")
    create_group(inside, "g")
    shutil.copytree(inside, outside)
    return inside, outside


def swap(path: Path, target: Path) -> None:
    """Put a link where a file or a folder is."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(target)


# Reading

LINKS = ["a", "a/0", "a/0/1", "a/attributes.json"]
"""What may be a link: an array, a folder of chunks, a chunk, a document."""

READS: dict[str, Callable[[Path], Any]] = {
    "open_array": lambda place: open_array(place, "a")[...],
    "compute": lambda place: from_n5(place, "a").compute(),
    "open_dataset": lambda place: xr.open_dataset(place, engine="n5", group="a").load(),
    "verify": lambda place: verify(place, "a").load(),
    "chunk_map": lambda place: chunk_map(place, "a").load(),
    "stored_chunks": lambda place: list(open_array(place, "a").node.stored_chunks()),
    "skip_missing": lambda place: from_n5(place, "a", skip_missing=True).compute(),
}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((name, "open_dataset") for name in LINKS if name != "a/0"),
        *(("a/0", how) for how in READS),
    ],
)
def test_a_link_that_leaves_the_container_is_not_read_or_taken_for_missing_chunks(
    name: str, how: str, places: tuple[Path, Path]
) -> None:
    inside, outside = places
    swap(inside / name, outside / name)
    with pytest.raises(UnsafePathError) as raised:
        READS[how](inside)
    assert isinstance(raised.value, PathError)
    assert isinstance(raised.value, PermissionError)
    assert str(outside) in str(raised.value)


@pytest.mark.parametrize("name", LINKS)
def test_links_are_followed_where_follow_links_says_so(
    name: str, places: tuple[Path, Path]
) -> None:
    inside, outside = places
    swap(inside / name, outside / name)
    array = open_array(inside, "a", storage_options=FOLLOW)
    np.testing.assert_array_equal(array[...], values())
    assert len(list(array.node.stored_chunks())) == 4
    dataset = xr.open_dataset(inside, engine="n5", group="a", storage_options=FOLLOW)
    np.testing.assert_array_equal(dataset["a"], values())
    opened = open_array(f"file://{inside}", "a", storage_options=FOLLOW)
    np.testing.assert_array_equal(opened[...], values())


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("absolute", [True, False])
def test_links_inside_the_container_are_read(
    name: str, absolute: bool, places: tuple[Path, Path]
) -> None:
    inside, _ = places
    target = inside / "elsewhere"
    (inside / name).rename(target)
    (inside / name).symlink_to(
        target if absolute else os.path.relpath(target, (inside / name).parent)
    )
    np.testing.assert_array_equal(open_array(inside, "a")[...], values())
    assert len(list(open_array(inside, "a").node.stored_chunks())) == 4


def test_the_container_itself_may_be_reached_through_links(places: tuple[Path, Path]) -> None:
    inside, _ = places
    link = inside.with_name("link.n5")
    link.symlink_to("c.n5")
    inside.with_name("above").symlink_to(".")
    for way in (link, inside.with_name("above") / "c.n5", inside.with_name("above") / "link.n5"):
        np.testing.assert_array_equal(open_array(way, "a")[...], values())
        to_n5(values() + 1, way, "b", chunks=8, mode="w")
        np.testing.assert_array_equal(open_array(inside, "b")[...], values() + 1)
    link.unlink()
    link.symlink_to("outside")
    to_n5(values(), link, "b", chunks=8)
    assert (inside.with_name("outside") / "b/0/0").exists()
    real, root = inside.with_name("real.n5"), inside.with_name("root.n5")
    root.symlink_to("real.n5")
    for number in range(2):
        to_n5(values() + number, real if number == 0 else root, "", chunks=8, mode="w")
    assert root.is_symlink()
    np.testing.assert_array_equal(open_array(real)[...], values() + 1)


@pytest.mark.parametrize("options", [None, FOLLOW])
@pytest.mark.parametrize("name", LINKS)
def test_a_link_to_nothing_is_an_error_and_no_fill_value(
    name: str, options: Any, places: tuple[Path, Path]
) -> None:
    inside, _ = places
    swap(inside / name, inside / "gone")
    with pytest.raises(UnsafePathError, match="does not exist"):
        open_array(inside, "a", storage_options=options)[...]


@pytest.fixture(params=["descriptors", "paths"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Systems that can use names in open directories, and others, such as Windows."""
    monkeypatch.setattr("xarray_n5.stores._folders.BY_DESCRIPTOR", request.param == "descriptors")
    return str(request.param)


@pytest.mark.usefixtures("system")
def test_all_systems_write_list_and_remove_through_links_that_stay(tmp_path: Path) -> None:
    (tmp_path / "real.n5/there/old").mkdir(parents=True)
    (tmp_path / "real.n5/here").symlink_to("there")
    (tmp_path / "link.n5").symlink_to("real.n5")
    store = LocalStore(str(tmp_path / "link.n5"))
    with store.exclusive("here/locked"):
        store.set("here/new/deep/0", b"x")
    store.set("here/old/1", b"y")
    store.set("here/old/1", b"yy")
    assert store.with_fsync().set("there/2", b"zzz") is None  # type: ignore[func-returns-value]
    assert (store.get("here/new/deep/0"), store.get("there/old/1")) == (b"x", b"yy")
    assert (store.exists("here/2"), store.is_folder("here/new")) == (True, True)
    assert sorted((each.key, each.size) for each in store.list_info("there")) == [
        *(("2", 3), ("new/deep/0", 1), ("old/1", 2)),
    ]
    assert store.list("here") == (("locked", "new", "old"), ("2",))
    store.clear_folder("here/locked")
    store.delete(["here/old/1", "here/2", "here/none/3"])
    store.delete_tree("here/new", "0")
    assert sorted(keys_below(store, "")) == []
    assert store.list("there") == (("old",), ())
    store.delete_tree("", "attributes.json")
    assert list((tmp_path / "real.n5").iterdir()) == []


OPERATIONS: dict[str, Callable[[LocalStore], Any]] = {
    "get": lambda store: store.get("k/x"),
    "exists": lambda store: store.exists("k/x"),
    "is_folder": lambda store: store.is_folder("k/x"),
    "list": lambda store: store.list("k"),
    "list below": lambda store: store.list("k/x"),
    "walk": lambda store: keys_below(store, "k"),
    "open_group": lambda store: open_group(store.root, "k").path,
    "in": lambda store: "k" in open_group(store.root),
    "group.get": lambda store: getattr(open_group(store.root).get("k"), "path", None),
    "set": lambda store: store.set("k/n", b"1"),
    "make_folder": lambda store: store.make_folder("k"),
    "make_folder below": lambda store: store.make_folder("k/m"),
    "delete": lambda store: store.delete(["k/x"]),
    "delete_tree": lambda store: store.delete_tree("k/x", "x"),
    "to_n5": lambda store: bool(to_n5(np.ones(3, "u1"), store.root, "k/y")),
}
"""What is done at a key, or below it; a name alone is about the key."""

_NOTHING: list[Any] = [None, False, False, ((), ()), ((), ()), []]
_NO_NODE = ["NodeNotFoundError", False, None]
_NO_FOLDER = [*_NOTHING, *_NO_NODE, *["NotADirectoryError"] * 3, None, None, "NotADirectoryError"]
_REFUSED = [*["UnsafePathError"] * 7, True, *["UnsafePathError"] * 7]
_LISTED = ["attributes.json", "x"]

KINDS: dict[str, tuple[Callable[[Path], Any], list[Any]]] = {
    "a file": (lambda key: key.write_bytes(b"f"), _NO_FOLDER),
    "nothing": (lambda _: None, [*_NOTHING, *_NO_NODE, *[None] * 5, True]),
    "a link that leaves": (lambda key: key.symlink_to("../outside"), _REFUSED),
    "a link to nothing": (lambda key: key.symlink_to("gone"), _REFUSED),
    "a link to itself": (lambda key: key.symlink_to("k"), _REFUSED),
    "a link to a file": (lambda key: key.symlink_to("attributes.json"), _NO_FOLDER),
    "a FIFO": (os.mkfifo, _NO_FOLDER),
    "a link that stays": (
        lambda key: key.symlink_to("real"),
        [
            *(b"i", True, False, ((), (*_LISTED,)), ((), ()), _LISTED),
            *("k", True, "k", *[None] * 5, True),
        ],
    ),
}
"""What may be at a key, and the answers of all operations to it."""


@pytest.mark.matrix(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("system")
def test_each_operation_answers_by_what_is_at_the_key(kind: str, tmp_path: Path) -> None:
    make, expected = KINDS[kind]
    found: dict[str, Any] = {}
    for name, operation in OPERATIONS.items():
        place = tmp_path / name / "c.n5"
        for folder in (place, place.with_name("outside"), place / "real"):
            create_group(folder)
            (folder / "x").write_bytes(b"i")
        make(place / "k")
        try:
            found[name] = operation(LocalStore(str(place)))
        except (N5Error, OSError) as error:
            found[name] = type(error).__name__ if str(place) in str(error) else error
    assert found == dict(zip(OPERATIONS, expected, strict=True))


HIDDEN: dict[str, Callable[[Path], Any]] = {
    "a/.xn5": lambda place: to_n5(values(), place, "a", region=(slice(0, 16),) * 2),
    "a/.xn5/quarantine": lambda place: repair(place, "a"),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_directories_are_not_links_even_inside_the_container(
    name: str, places: tuple[Path, Path]
) -> None:
    inside, _ = places
    with set_options(checksums=True):
        to_n5(values(), inside, "b", chunks=8)
    (inside / "a/0/0").write_bytes(b"damaged")
    shutil.rmtree(inside / name, ignore_errors=True)
    (inside / name).symlink_to(inside / "b")
    before = contents(inside / "b")
    with pytest.raises(UnsafePathError, match="hidden directories must not be links"):
        HIDDEN[name](inside)
    assert contents(inside / "b") == before


def test_a_bad_option_of_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="follow_links"):
        open_store(tmp_path, {"follow_links": "yes"})


# Writing and removing


def _resize(place: Path) -> None:
    open_array(place, "a", mode="r+").resize((16, 8))


WRITES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "set chunks": ("a/0", lambda place: open_array(place, "a", mode="r+").__setitem__(..., 1)),
    "set an array": ("a", lambda place: to_n5(values(), place, "a", region=(slice(0, 16),) * 2)),
    "replace": ("a", lambda place: to_n5(values() + 1, place, "a", chunks=8, mode="w")),
    "replace below": ("g", lambda place: to_n5(values(), place, "g/a", chunks=8, mode="w")),
    "create below": ("g", lambda place: create_array(place, "g/n", shape=(4,), dtype="u1")),
    "create a group": ("g", lambda place: create_group(place, "g/n/m")),
    "set attributes": ("a", lambda place: open_array(place, "a", mode="r+").attrs.update(x=1)),
    "delete": ("g", lambda place: open_group(place, mode="r+").__delitem__("g/a")),
    "delete a chunk": ("a/0", lambda place: LocalStore(str(place)).delete(["a/0/0"])),
    "delete a tree": ("a", lambda place: LocalStore(str(place)).delete_tree("a/0", "0")),
    "set a key": ("a/0", lambda place: LocalStore(str(place)).set("a/0/9", b"x")),
    "set with links": (
        "a/0",
        lambda place: LocalStore(str(place), follow_links=True).set("a/0/9", b"x"),
    ),
    "resize": ("a/1", _resize),
    "repair": ("a/1", lambda place: repair(place, "a")),
    "records": (
        "a/.xn5",
        lambda place: to_n5(values(), place, "a", region=(slice(0, 16),) * 2),
    ),
}


@pytest.mark.parametrize("how", WRITES)
def test_nothing_is_written_or_removed_through_a_link_that_leaves(
    how: str, places: tuple[Path, Path]
) -> None:
    inside, outside = places
    name, write = WRITES[how]
    (outside / "g/a").mkdir(exist_ok=True)
    (outside / "g/a/attributes.json").write_text("{}")
    (outside / "a/.xn5/done").mkdir(parents=True, exist_ok=True)
    (outside / "a/.xn5/digests.npz").write_bytes(b"mine")
    before = contents(outside)
    swap(inside / name, outside / name)
    with pytest.raises(UnsafePathError):
        write(inside)
    assert contents(outside) == before


def test_a_file_that_is_a_link_is_replaced_and_not_written_through(
    places: tuple[Path, Path],
) -> None:
    inside, outside = places
    before = contents(outside)
    swap(inside / "a/0/0", outside / "a/0/0")
    open_array(inside, "a", mode="r+").write_chunk((0, 0), np.zeros((8, 8), "u2"))
    assert contents(outside) == before
    assert not (inside / "a/0/0").is_symlink()
    assert open_array(inside, "a")[0, 0] == 0


def test_a_tree_is_removed_with_its_links_and_not_with_what_they_lead_to(
    places: tuple[Path, Path],
) -> None:
    inside, outside = places
    (inside / "g/link").symlink_to(outside)
    (inside / "g/file").symlink_to(outside / "a/0/0")
    before = contents(outside)
    del open_group(inside, mode="r+")["g"]
    assert contents(outside) == before
    assert not (inside / "g").exists()


EVENTS = {"open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir"}
"""What Python announces before it calls the system by a path."""

_announced: list[Callable[[], None]] = []
"""What to do at the next such calls, the first one last."""

_before: dict[str, Callable[[], Any]] = {}
"""What to do before the next call of one kind."""


@functools.cache
def _listen() -> None:
    def hear(event: str, _: object) -> None:
        if event in _before:
            _before.pop(event)()
        if event in EVENTS and _announced:
            waiting, _announced[:] = _announced[:], []
            waiting.pop()()
            _announced[:] = waiting

    sys.addaudithook(hear)


def _lock(store: LocalStore) -> None:
    with store.exclusive("a/0/locked"):
        pass


RACES: dict[str, Callable[[LocalStore], Any]] = {
    "delete": lambda store: store.delete(["a/0/0", "a/0/1"]),
    "set": lambda store: store.set("a/0/0", b"evil"),
    "set with fsync": lambda store: store.with_fsync().set("a/0/n/0", b"evil"),
    "make folders": lambda store: store.set("a/0/n/m/0", b"x"),
    "delete_tree": lambda store: store.delete_tree("a/0/d", "0"),
    "clear_folder": lambda store: store.clear_folder("a/0/empty"),
    "lock": _lock,
}


@pytest.mark.parametrize("how", RACES)
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(how: str, tmp_path: Path) -> None:
    for calls in range(6):
        swap_during(RACES[how], calls, tmp_path / str(calls))


def swap_during(work: Callable[[LocalStore], Any], calls: int, tmp_path: Path) -> None:
    """Swap a folder for a link after some calls of the system, and look at the link's target."""
    place, home = tmp_path / "c.n5", tmp_path / "home"
    for folder in (place / "a", home):
        for name in ("0/0", "0/1", "0/d/0", "0/d/1"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("mine")
        (folder / "0/empty").mkdir()
    before, store = everything(home), LocalStore(str(place))

    def attack() -> None:
        (place / "a").rename(place / "gone")
        (place / "a").symlink_to(home)

    _listen()
    _announced[:] = [attack, *[lambda: None] * calls]
    with contextlib.suppress(OSError):
        work(store)
    _announced.clear()
    assert everything(home) == before


def test_a_lock_on_a_folder_that_is_swapped_for_a_link_is_let_go(tmp_path: Path) -> None:
    import fcntl

    place, home = tmp_path / "c.n5", tmp_path / "home"
    (place / "a/locked").mkdir(parents=True)
    (home / "locked").mkdir(parents=True)
    store = LocalStore(str(place))

    def attack() -> None:
        (place / "a").rename(place / "gone")
        (place / "a").symlink_to(home)

    def opened() -> list[str]:
        found = (os.path.realpath(each) for each in Path("/dev/fd").iterdir())
        return [path for path in found if path.startswith(str(tmp_path))]

    _listen()
    _before["fcntl.flock"] = attack
    with pytest.raises(UnsafePathError), store.exclusive("a/locked"):
        pass
    assert not _before
    assert opened() == []
    file = os.open(place / "gone/locked", os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(file)
    (place / "a").unlink()
    (place / "gone").rename(place / "a")
    with store.exclusive("a/locked") as alone:
        assert alone


def test_a_folder_that_another_writer_makes_first_is_on_disk_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[os.stat_result] = []
    monkeypatch.setattr(os, "fsync", lambda file: flushed.append(os.fstat(file)))
    for store, expected in (
        (LocalStore(str(tmp_path)), False),
        (LocalStore(str(tmp_path)).with_fsync(), True),
    ):
        flushed.clear()
        folder = tmp_path / str(expected)
        _listen()
        _before["os.mkdir"] = functools.partial(os.mkdir, folder)
        store.make_folder(str(expected))
        assert not _before
        assert any(os.path.samestat(each, tmp_path.stat()) for each in flushed) is expected


def everything(folder: Path) -> dict[str, bytes | None]:
    """Return the files below a folder with their bytes, and the folders."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


# Permissions


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_what_replaces_a_file_has_its_permissions(mode: int, places: tuple[Path, Path]) -> None:
    inside, _ = places
    files = [inside / "a/0/0", inside / "a/attributes.json"]
    for file in files:
        file.chmod(mode)
    array = open_array(inside, "a", mode="r+")
    array[...] = 7
    array.attrs["x"] = 1
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [mode, mode]


def test_a_new_file_obeys_the_umask(tmp_path: Path) -> None:
    script = (
        "import os, sys; os.umask(0o027)\n"
        "from xarray_n5.stores import LocalStore\n"
        "LocalStore(sys.argv[1]).set('a/key', b'x')"
    )
    assert Python("-c", script, tmp_path / "c").wait() == 0
    found = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "c/a", tmp_path / "c/a/key")]
    assert found == [0o750, 0o640]


def test_a_key_of_a_hard_link_leaves_the_other_name_as_it_was(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "c"))
    store.set("key", b"old")
    os.link(tmp_path / "c/key", tmp_path / "kept")
    store.set("key", b"new")
    assert (tmp_path / "kept").read_bytes() == b"old"


# What is not a regular file

FIFOS = ["attributes.json", "a/attributes.json", "a/0/0"]


@pytest.mark.parametrize("name", FIFOS)
def test_a_fifo_is_an_error_and_is_not_waited_for(name: str, places: tuple[Path, Path]) -> None:
    inside, _ = places
    (inside / name).unlink()
    os.mkfifo(inside / name)

    def read() -> None:
        open_group(inside)
        open_array(inside, "a")[...]

    with pytest.raises(UnsafePathError, match="not a regular file"):
        read()
    assert LocalStore(str(inside)).exists(name)


def test_a_fifo_beside_a_container_is_warned_of(tmp_path: Path) -> None:
    name = "setup0/timepoint0/s0"
    to_n5(np.zeros((2, 2, 2), "u1"), tmp_path / "c.n5", name)
    os.mkfifo(tmp_path / "c.xml")
    with pytest.warns(UserWarning, match="not a regular file"):
        open_array(tmp_path / "c.n5", name).geometry()


def test_a_socket_is_an_error(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    inside, _ = places
    (inside / "a/0/0").unlink()
    monkeypatch.chdir(inside / "a/0")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("0")
        with pytest.raises(UnsafePathError, match="not a regular file"):
            open_array(inside, "a")[...]


# Trees


def test_one_node_that_is_refused_does_not_hide_the_others(places: tuple[Path, Path]) -> None:
    inside, outside = places
    (inside / "g/attributes.json").unlink(missing_ok=True)
    (inside / "g/attributes.json").symlink_to(outside / "a/attributes.json")
    (inside / "other").symlink_to(outside)
    group = open_group(inside)
    with pytest.warns(UserWarning, match="is left out.*outside of the container"):
        assert list(group.arrays()) == ["a"]
    with pytest.warns(UserWarning, match="is left out"):
        assert list(xr.open_dataset(inside, engine="n5").data_vars) == ["a"]


def _loop(place: Path) -> None:
    for name in ("up", "also"):
        (place / "g" / name).symlink_to("..")
        (place / name).symlink_to(".")


def _crossed(place: Path) -> None:
    for one, other in (("h", "g"), ("g", "h")):
        (place / one).mkdir(exist_ok=True)
        (place / one / "x").symlink_to(f"../{other}")


def _doubled(place: Path) -> None:
    for number in range(20):
        (place / f".{number}").mkdir()
        for name in "ab":
            (place / f".{number}" / name).symlink_to(f"../.{number + 1}")
    (place / ".20").mkdir()
    (place / "g/top").symlink_to("../.0")


@pytest.mark.matrix(4)
@pytest.mark.parametrize("links", [_loop, _crossed, _doubled])
@pytest.mark.parametrize("command", ["tree", "verify", "open_datatree", "walk", "copy"])
def test_walks_over_links_end(
    links: Callable[[Path], None], command: str, places: tuple[Path, Path]
) -> None:
    from xarray_n5.cli import main

    inside, _ = places
    links(inside)
    if command == "walk" and links is _doubled:
        with pytest.raises(UnsafePathError, match="10000 links"):
            keys_below(LocalStore(str(inside)), "")
    elif command == "walk":
        assert set(keys_below(LocalStore(str(inside)), "a")) > {"0/0", "1/1"}
        assert len(keys_below(LocalStore(str(inside)), "")) < 100
    elif command == "open_datatree":
        tree = xr.open_datatree(inside, engine="n5")
        np.testing.assert_array_equal(tree["a/a"], values())
    else:
        target = [str(inside.with_name("new.n5"))] if command == "copy" else []
        assert main([command, str(inside), *target], standalone_mode=False) in {None, 0}


def test_links_to_many_places_are_walked_to_an_end_when_they_are_followed(
    places: tuple[Path, Path],
) -> None:
    inside, outside = places
    (inside / "g/out").symlink_to(outside)
    (outside / "g/back").symlink_to(inside)
    tree = xr.open_datatree(inside, engine="n5", storage_options=FOLLOW)
    assert sorted(group for group in tree.groups if group.endswith("/a")) == ["/a", "/g/out/a"]


def test_directories_may_lie_deeper_than_functions_call_each_other(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("g", dir_fd=folder)
        folder, above = os.open("g", os.O_RDONLY, dir_fd=folder), folder
        os.close(above)
    os.close(folder)
    store = LocalStore(str(tmp_path))
    key = "/".join(["g"] * 1200)
    store.set(f"{key}/0", b"x")
    assert keys_below(store, "") == [f"{key}/0"]
    subprocess.run(["rm", "-r", str(tmp_path / "g")], check=True)  # noqa: S603, S607
