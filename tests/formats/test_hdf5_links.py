"""Pointers out of an HDF5 file: refused, read only where the user allows it, and never written."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from xarray_n5 import (
    Group,
    MetadataError,
    N5Error,
    copy,
    create_array,
    digest,
    from_n5,
    open_array,
    open_group,
    to_n5,
    verify,
)
from xarray_n5.cli import main
from xarray_n5.errors import PathError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("hdf5plugin")

SECRET = np.arange(77, 93, dtype="u1")

FOLLOW: dict[str, Any] = {"storage_options": {"follow_external": True}}


def _external_link(file: h5py.File, home: Path) -> str:
    file["out"] = h5py.ExternalLink(str(home / "private.h5"), "/data")
    return "out"


def _relative_link(file: h5py.File, home: Path) -> str:
    file["out"] = h5py.ExternalLink(f"../{home.name}/private.h5", "/data")
    return "out"


def _below_a_link(file: h5py.File, home: Path) -> str:
    file["out"] = h5py.ExternalLink(str(home / "private.h5"), "/")
    return "out/data"


def _soft_link(file: h5py.File, home: Path) -> str:
    file["link"] = h5py.ExternalLink(str(home / "private.h5"), "/")
    file["out"] = h5py.SoftLink("/link/data")
    return "out"


def _external_storage(file: h5py.File, home: Path) -> str:
    outer = [(str(home / "private.raw"), 0, SECRET.size)]
    file.create_dataset("out", SECRET.shape, SECRET.dtype, external=outer)
    return "out"


def _virtual(file: h5py.File, home: Path) -> str:
    layout = h5py.VirtualLayout(SECRET.shape, SECRET.dtype)
    layout[...] = h5py.VirtualSource(str(home / "private.h5"), "data", SECRET.shape)
    file.create_virtual_dataset("out", layout)
    return "out"


def _virtual_of_external_storage(file: h5py.File, home: Path) -> str:
    _external_storage(file, home)
    layout = h5py.VirtualLayout(SECRET.shape, SECRET.dtype)
    layout[...] = h5py.VirtualSource(file["out"])
    file.create_virtual_dataset("inner", layout)
    return "inner"


def _virtual_of_a_link(file: h5py.File, home: Path) -> str:
    _external_link(file, home)
    layout = h5py.VirtualLayout(SECRET.shape, SECRET.dtype)
    layout[...] = h5py.VirtualSource(".", "/out", SECRET.shape)
    file.create_virtual_dataset("inner", layout)
    return "inner"


WAYS = [
    _external_link,
    _relative_link,
    _below_a_link,
    _soft_link,
    _external_storage,
    _virtual,
    _virtual_of_external_storage,
    _virtual_of_a_link,
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with files that belong to somebody else."""
    home = tmp_path / "home"
    home.mkdir()
    with h5py.File(home / "private.h5", "w") as file:
        file["data"] = SECRET
        file["more/data"] = SECRET
    (home / "private.raw").write_bytes(SECRET.tobytes())
    return home


def _hashes(home: Path) -> dict[str, str]:
    files = sorted(home.rglob("*"))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _made(home: Path, way: Callable[[h5py.File, Path], str]) -> tuple[str, str]:
    """Return a file that leads out of itself, and the path that does so."""
    folder = home.parent / "in"
    folder.mkdir()
    with h5py.File(folder / "e.h5", "w") as file:
        file["plain"] = np.arange(4)
        return str(folder / "e.h5"), way(file, home)


@pytest.mark.parametrize("way", WAYS)
def test_data_outside_of_the_file_is_refused_unless_the_user_allows_it(
    home: Path, way: Callable[..., str]
) -> None:
    url, path = _made(home, way)
    for read in (open_array, from_n5):
        with pytest.raises((PathError, N5Error), match="'follow_external' to True") as caught:
            read(url, path)
        assert isinstance(caught.value, ValueError)
    np.testing.assert_array_equal(open_array(url, path, **FOLLOW)[...], SECRET)
    np.testing.assert_array_equal(from_n5(url, path, **FOLLOW).compute(), SECRET)


@pytest.mark.parametrize("way", WAYS)
def test_the_rest_of_a_file_that_leads_elsewhere_is_read(
    home: Path, way: Callable[..., str]
) -> None:
    url, _ = _made(home, way)
    assert {"out", "plain"} <= set(open_group(url))
    with pytest.warns(UserWarning, match="left out"):
        tree = xr.open_datatree(url, engine="n5")
    np.testing.assert_array_equal(tree["plain/plain"], np.arange(4))


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_holds_nothing_from_outside_of_the_file(home: Path, way: Callable[..., str]) -> None:
    url, path = _made(home, way)
    CliRunner().invoke(main, ["copy", url, str(home.parent / "out.n5"), "--compression", "raw"])
    copied = [file.read_bytes() for file in home.parent.glob("out.n5/**/*") if file.is_file()]
    assert not any(SECRET.tobytes() in data for data in copied)
    CliRunner().invoke(main, ["copy", url, str(home.parent / "one.n5"), "--path", path])
    assert not (home.parent / "one.n5" / path / "0").exists()


def _set(url: str, path: str, **options: Any) -> None:
    open_array(url, path, mode="r+", **options)[:] = 0


def _delete_chunk(url: str, path: str, **options: Any) -> None:
    open_array(url, path, mode="r+", **options).delete_chunk((0,))


def _resize(url: str, path: str, **options: Any) -> None:
    open_array(url, path, mode="r+", **options).resize((3,))


def _label(url: str, path: str, **options: Any) -> None:
    open_array(url, path, mode="r+", **options).attrs["evil"] = 1


def _create(url: str, path: str, **options: Any) -> None:
    to_n5(np.zeros(3), url, f"{path}/planted", **options)


def _create_beside(url: str, path: str, **options: Any) -> None:
    to_n5(np.zeros(3), url, f"{path.rpartition('/')[0] or path}/planted", mode="w", **options)


def _replace(url: str, path: str, **options: Any) -> None:
    create_array(url, path, shape=(3,), dtype="u1", chunks=3, mode="w", **options)


def _delete(url: str, path: str, **options: Any) -> None:
    del open_group(url, mode="r+", **options)[path]


CHANGES = [_set, _delete_chunk, _resize, _label, _create, _create_beside, _replace, _delete]


@pytest.mark.parametrize("options", [{}, FOLLOW], ids=["refused", "followed"])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_outside_of_the_file_is_ever_changed(
    home: Path, way: Callable[..., str], options: dict[str, Any]
) -> None:
    url, path = _made(home, way)
    before = _hashes(home)
    refused = 0
    for change in CHANGES:
        try:
            change(url, path, **options)
        except N5Error:
            refused += 1
        assert _hashes(home) == before
    assert refused >= len(CHANGES) // 2  # attributes, and nodes themselves, may be in the file
    assert sorted(each.name for each in home.iterdir()) == ["private.h5", "private.raw"]


def test_links_inside_of_the_file_are_followed_and_circles_are_not(tmp_path: Path) -> None:
    url = str(tmp_path / "a.h5")
    with h5py.File(url, "w") as file:
        file["group/v"] = np.arange(4)
        file["soft"] = h5py.SoftLink("/group/v")
        file["softer"] = h5py.SoftLink("soft")
        file["group/beside"] = h5py.SoftLink("v")
        file["group/self"] = h5py.SoftLink("/group")
        file["circle"] = h5py.SoftLink("/circle")
        file["nowhere"] = h5py.SoftLink("/not/there")
        layout = h5py.VirtualLayout((2, 4), "i8")
        layout[0] = h5py.VirtualSource(file["group/v"])
        file.create_virtual_dataset("virtual", layout, fillvalue=5)
    for options in ({}, FOLLOW):
        assert sorted(open_group(url, **options)) == ["group", "soft", "softer", "virtual"]
        for path in ("soft", "softer", "group/beside", "group/self/group/../v"):
            assert open_array(url, path, **options)[...].tolist() == [0, 1, 2, 3]
        assert open_array(url, "virtual", **options)[...].tolist() == [[0, 1, 2, 3], [5] * 4]
        for path in ("circle", "nowhere", "circle/x", "nowhere/x"):
            with pytest.raises(FileNotFoundError):
                open_array(url, path, **options)


def test_virtual_datasets_are_read_only(tmp_path: Path) -> None:
    url = str(tmp_path / "a.h5")
    with h5py.File(url, "w") as file:
        file["v"] = np.arange(4)
        layout = h5py.VirtualLayout((4,), "i8")
        layout[...] = h5py.VirtualSource(file["v"])
        file.create_virtual_dataset("virtual", layout)
    with pytest.raises(PathError, match="write to those instead"):
        open_array(url, "virtual", mode="r+")[:] = 0
    assert open_array(url, "v")[...].tolist() == [0, 1, 2, 3]


def test_a_path_behind_the_file_takes_the_option_too(home: Path) -> None:
    url, path = _made(home, _external_storage)
    assert (open_array(f"{url}/{path}", **FOLLOW)[...] == SECRET).all()
    found = CliRunner().invoke(main, ["info", url, path, "-o", "follow_external=true"])
    assert found.exit_code == 0, found.output


# Graphs of links with more paths than objects

DEPTH = 9


def _hard_links(file: h5py.File) -> None:
    group = file.create_group("g")
    for number in range(DEPTH):
        group[f"v{number}"] = np.arange(3)
        inner = group.create_group("m")
        group["a"] = group["z"] = inner
        group = inner


def _soft_links(file: h5py.File) -> None:
    group = file.create_group("g")
    for number in range(DEPTH):
        group[f"v{number}"] = np.arange(3)
        group["a"] = h5py.SoftLink("m")
        group["z"] = h5py.SoftLink(f"{group.name}/m")
        group = group.create_group("m")


def _all_to_all(file: h5py.File) -> None:
    groups = [file.create_group(f"g{number}") for number in range(DEPTH + 1)]
    for number, group in enumerate(groups[:-1]):
        group[f"v{number}"] = np.arange(3)
        for later in groups[number + 1 :]:
            group[later.name[1:]] = later


def _external_links(file: h5py.File) -> None:
    with h5py.File(f"{file.filename}.other", "w") as other:
        _hard_links(other)
        other["g/m/back"] = h5py.ExternalLink(file.filename, "/")
        other["g/m/self"] = h5py.ExternalLink(f"./{other.filename.rpartition('/')[2]}", "/g/m/m")
    file["a"] = file["b"] = file.create_group("inside")
    file["a/out"] = h5py.ExternalLink(f"{file.filename}.other", "/g")


GRAPHS = [_hard_links, _soft_links, _all_to_all, _external_links]


def _datasets(groups: Any) -> list[str]:
    return [name for group in groups.values() for name in group.data_vars]


def _copied(url: str, how: dict[str, Any]) -> list[str]:
    copy(url, f"{url}.n5", source_options=how.get("storage_options"))
    return _datasets(xr.open_groups(f"{url}.n5", engine="n5"))


WALKS: dict[str, Callable[[str, dict[str, Any]], list[str]]] = {
    "open_groups": lambda url, how: _datasets(xr.open_groups(url, engine="n5", **how)),
    "open_datatree": lambda url, how: _datasets(
        {node.path: node for node in xr.open_datatree(url, engine="n5", **how).subtree}
    ),
    "verify": lambda url, how: [
        node.name for node in verify(url, **how).subtree if "state" in node
    ],
    "copy": _copied,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("walk", WALKS)
def test_each_group_is_visited_once(
    tmp_path: Path, graph: Callable[[h5py.File], None], walk: str
) -> None:
    url = str(tmp_path / "a.h5")
    with h5py.File(url, "w") as file:
        graph(file)
    how = FOLLOW if graph is _external_links else {}
    assert sorted(WALKS[walk](url, how)) == [f"v{number}" for number in range(DEPTH)]


LINKS: dict[str, tuple[dict[str, str], list[str]]] = {
    "the first of equally short paths": ({"b": "/c", "e": "/c"}, ["/b", "/b/d"]),
    "the shortest path": ({"a/x": "/c", "a/y": "/c/d"}, ["/a", "/a/y", "/c"]),
    "hidden groups": ({".a": "/c", "__DATA_TYPES__/x": "/c"}, ["/c", "/c/d"]),
}


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("case", LINKS)
def test_the_path_at_which_a_group_is_shown(tmp_path: Path, case: str, soft: bool) -> None:
    url, (links, shown) = str(tmp_path / "a.h5"), LINKS[case]
    with h5py.File(url, "w") as file:
        file["c/d/v"] = np.arange(3)
        file["c/w"] = np.arange(2)
        for path, target in links.items():
            file[path] = h5py.SoftLink(target) if soft else file[target]
    groups = xr.open_groups(url, engine="n5")
    nodes = {path: open_group(url)[path] for path in groups if path != "/"}
    assert sorted(path for path, node in nodes.items() if isinstance(node, Group)) == shown
    for path, target in links.items():
        inner = "v" if target == "/c/d" else "d/v"
        assert open_array(url, f"{path}/{inner}")[...].tolist() == [0, 1, 2]
        assert xr.open_dataset(url, engine="n5", group=f"{path}/{inner}").sizes
    assert set(links) & {"b", "e"} <= set(open_group(url))


def test_a_group_that_is_opened_shows_links_to_groups_elsewhere(tmp_path: Path) -> None:
    url = str(tmp_path / "a.h5")
    with h5py.File(url, "w") as file:
        file["a/v"] = np.arange(3)
        file["b/c/again"] = file["a"]
        file["b/c/up"] = file["b"]
    assert "/c/again/v" in xr.open_groups(url, engine="n5", group="b")
    assert digest(url, "b/c") == digest(url, "b/c")
    tree = xr.open_datatree(url, engine="n5", group="b/c/up/c")
    assert [path for path in tree.groups if "up" in path] == []
    assert "/again/v" in tree.groups


def test_an_array_is_shown_at_all_of_its_paths(tmp_path: Path) -> None:
    url = str(tmp_path / "a.h5")
    with h5py.File(url, "w") as file:
        file["raw"] = np.arange(12).reshape(3, 4)
        file["image/s0"] = file["raw"]
        file["image/s1"] = np.arange(2).reshape(1, 2)
    tree = xr.open_datatree(url, engine="n5")
    assert {"/raw", "/image/s0", "/image/s1"} <= set(tree.groups)
    copy(url, tmp_path / "copy.n5")
    assert digest(url) == digest(tmp_path / "copy.n5")


def test_links_in_other_files_are_listed_as_they_are_now(tmp_path: Path) -> None:
    url, other = str(tmp_path / "a.h5"), str(tmp_path / "b.h5")
    with h5py.File(other, "w") as file:
        file["g/v"] = np.arange(3)
    with h5py.File(url, "w") as file:
        file["out"] = h5py.ExternalLink(other, "/g")
    group = open_group(url, "out", **FOLLOW)
    assert list(group) == ["v"]
    with h5py.File(other, "a") as file:
        file["g/w"] = np.arange(3)
    assert list(group) == ["v", "w"]


def test_a_deep_file_is_not_called_damaged(tmp_path: Path) -> None:
    url = tmp_path / "deep.h5"
    with h5py.File(url, "w") as file:
        group = file
        for _ in range(400):
            group = group.create_group("d")
        group["a"] = np.arange(4)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(500)
    try:
        with pytest.raises(MetadataError, match="too deeply") as raised:
            xr.open_datatree(url, engine="n5")
    finally:
        sys.setrecursionlimit(limit)
    assert "damaged" not in str(raised.value)
    assert xr.open_dataset(url, engine="n5", group="/".join("d" * 400))["a"].sum() == 6
