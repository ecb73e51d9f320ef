"""Scenes of many images and systems open in proportion to them, and invented ones in any case."""

from __future__ import annotations

import json
import shutil
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import xarray_n5
from tests.support.scenes import image_attributes, system, write_image, write_scene
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST = 2_000_000
"""The maximum number of calls of functions to open an invented scene: some seconds of them."""


def calls(work: Callable[[], object], most: int = MOST) -> int:
    """Return how many functions `work` calls; it fails after too many."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"
        assert count <= most, "too many calls"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def at(name: str, path: str = "") -> dict[str, str]:
    """Return a reference to a system of the scene, or of an image."""
    return {"name": name} | ({"path": path} if path else {})


def move(start: Any, end: Any, *offset: float) -> dict[str, Any]:
    """Return a translation from a system to another one."""
    numbers = [*offset, 0.0, 0.0][:2]
    return {"type": "translation", "translation": numbers, "input": start, "output": end}


def images(url: Path, count: int, **how: Any) -> list[dict[str, str]]:
    """Write flat images that are alike, and return their intrinsic systems."""
    write_image(url, "i0", (4, 4), image_attributes("yx", (1, 1), **how))
    for number in range(1, count):
        shutil.copytree(url / "i0", url / f"i{number}")
    return [at("physical", f"i{number}") for number in range(count)]


def two_hops(url: Path, count: int) -> None:
    """Write tiles on a stage, which is in the world."""
    edges = [move(tile, at("stage"), 0, n) for n, tile in enumerate(images(url, count))]
    systems = [system("world", "yx"), system("stage", "yx")]
    write_scene(url, [*edges, move(at("stage"), at("world"), 5)], systems)


def own_systems(url: Path, count: int) -> None:
    """Write tiles that also have a system of pixels, and one that the scene alone leads to."""
    pixels = {"type": "scale", "scale": [2, 2], "input": at("physical"), "output": at("pixels")}
    own = {"systems": [system("pixels", "yx"), system("seen", "yx")], "edges": [pixels]}
    tiles = images(url, count, **own)
    edges = [move(tile, at("world"), 5, n) for n, tile in enumerate(tiles)]
    edges += [move(at("world"), at("seen", tile["path"]), 10) for tile in tiles]
    write_scene(url, edges, [system("world", "yx")])


def from_tile_to_tile(url: Path, count: int) -> None:
    """Write tiles that are placed by the one before, and also by the one before that."""
    tiles = images(url, count)
    edges = [move(after, before, 0, 1) for before, after in pairwise(tiles)]
    edges += [move(before, after, 0, -2) for before, after in zip(tiles, tiles[2:], strict=False)]
    write_scene(url, [*edges, move(at("world"), tiles[0], -5)], [system("world", "yx")])


def without_a_world(url: Path, count: int) -> None:
    """Write tiles that are placed by the first one."""
    first, *others = images(url, count)
    write_scene(url, [move(tile, first, 0, n) for n, tile in enumerate(others, start=1)])


@pytest.mark.parametrize("make", [two_hops, own_systems, from_tile_to_tile, without_a_world])
def test_the_work_is_in_proportion_to_the_images(
    tmp_path: Path, make: Callable[[Path, int], None]
) -> None:
    urls = {count: tmp_path / f"s{count}.zarr" for count in (2, 40, 80, 120)}
    for count, url in urls.items():
        make(url, count)
    xr.open_datatree(urls[2], engine="n5")
    work = {
        count: calls(lambda: xr.open_datatree(urls[count], engine="n5"))  # noqa: B023
        for count in (40, 80, 120)
    }
    # Each further image takes as many calls as the one before.
    assert work[120] - work[80] < 1.05 * (work[80] - work[40]) + 1000
    ds = xr.open_dataset(urls[120], engine="n5").sel(image=[f"i{n}" for n in range(120)])
    y = 0 if make is without_a_world else 5
    assert np.allclose(ds.n5.to_world([0, 1, 1]), [[0, 1 + y, 1 + x] for x in range(120)])


def test_systems_of_images_are_reached_in_the_image_or_through_the_world(tmp_path: Path) -> None:
    own_systems(url := tmp_path / "s.zarr", 3)
    ds = xr.open_dataset(url, engine="n5")
    assert ds.affine.attrs["systems"] == ["world", "pixels", "seen"]
    assert ds.n5.to_world([0, 1, 2], system="pixels").tolist() == [[0, 2, 4]] * 3
    assert ds.n5.to_world([0, 1, 2], system="seen").tolist() == [[0, 16, 2 + x] for x in range(3)]


def chain(count: int, step: dict[str, Any] | None = None) -> tuple[list[str], list[Any]]:
    """Return systems that lead to the world one after another, and their transformations."""
    names = [f"c{n}" for n in range(count)]
    edges = [move(at(after), at(before), 0, 1) | (step or {}) for before, after in pairwise(names)]
    return names, [*edges, move(at("physical", "i0"), at(names[-1]))]


def diamonds(layers: int, width: int, wrong: float = 0) -> tuple[list[str], list[Any]]:
    """Return layers of systems, each of which leads to all of the next layer."""
    names = [[f"{layer} {n}" for n in range(width)] for layer in range(layers)]
    edges = [
        move(at(here), at(there), wrong * n)
        for after, before in pairwise(names)
        for n, here in enumerate(before)
        for there in after
    ]
    edges += [move(at("physical", "i0"), at(name)) for name in names[-1]]
    return [name for layer in names for name in layer], edges


def star(count: int, *hops: str) -> tuple[list[str], list[Any]]:
    """Return worlds of one image."""
    names = [f"w{n}" for n in range(count)]
    path = [at("physical", "i0"), *map(at, hops)]
    edges = [move(path[-1], at(name), n) for n, name in enumerate(names)]
    return [*names, *hops], [*edges, *(move(*ends) for ends in pairwise(path))]


def all_to_all(count: int, wrong: float) -> tuple[list[str], list[Any]]:
    """Return systems each of which leads to all others."""
    names = [f"k{n}" for n in range(count)]
    edges = [move(at(a), at(b), wrong * n) for n, a in enumerate(names) for b in names if a != b]
    return names, [*edges, move(at("physical", "i0"), at(names[3]))]


def beside(chained: tuple[list[str], list[Any]], *parts: Any) -> tuple[list[str], list[Any]]:
    """Return a chain, and some large sequences at its systems that lead elsewhere."""
    names, edges = chained
    for name in names[:3]:
        ends = {"input": at(name), "output": at(f"after {name}")}
        whole = [{"type": "identity"}] * 2500
        edges.append({"type": "sequence", "transformations": [*whole, *parts]} | ends)
    return names, edges


INVENTED: dict[str, tuple[list[str], list[Any]]] = {
    "a chain": chain(350),
    "a chain of unknown transformations": chain(600, {"type": "swirl"}),
    "a chain of large numbers": chain(300, {"type": "scale", "scale": [1e300, 1]}),
    "a chain of small numbers": chain(300, {"type": "scale", "scale": [1e-200, 1]}),
    "diamonds": diamonds(220, 2),
    "wide diamonds": diamonds(25, 9, 0.5),
    "worlds of one image by a stage": star(900, "table", "stage"),
    "all to all": all_to_all(40, 2.0),
    "parallel ways": (["w"], [move(at("physical", "i0"), at("w"), n % 9) for n in range(2000)]),
    "systems alone": ([f"w{n}" for n in range(2000)], star(1)[1]),
    "names that differ by slashes": (
        names := [f"{n:010b}".replace("0", "/").replace("1", "_") for n in range(600)],
        [move(at("physical", "i0"), at(name)) for name in names],
    ),
    "long sequences": beside(chain(120)),
    "long sequences that fail": beside(chain(120), {"type": "scale", "scale": [1, 1, 1]}),
}


@pytest.mark.filterwarnings("ignore:.*s.zarr.*:UserWarning")
@pytest.mark.parametrize("scene", INVENTED.values(), ids=INVENTED.keys())
def test_an_invented_scene_opens_soon(tmp_path: Path, scene: tuple[list[str], list[Any]]) -> None:
    names, edges = scene
    assert len(json.dumps(scene)) < 300_000
    images(url := tmp_path / "s.zarr", 1, levels=2)
    write_scene(url, edges, [system(name, "yx") for name in names])
    calls(lambda: xr.open_datatree(url, engine="n5"))


def test_images_in_too_many_systems_are_in_the_first_of_them(tmp_path: Path) -> None:
    names, edges = star(400)
    images(url := tmp_path / "s.zarr", 1, levels=4)
    write_scene(url, edges, [system(name, "yx") for name in names])
    with pytest.warns(UserWarning, match="too many systems; not available by name: w"):
        ds = xr.open_dataset(url, engine="n5", level=0).isel(image=0)
    assert ds.n5.to_world([0, 0, 0]).tolist() == [0, 0, 0]
    assert ds.n5.to_world([0, 0, 0], system="w99").tolist() == [0, 99, 0]
    with pytest.raises(ValueError, match="no coordinate system 'w399'"):
        ds.n5.to_world([0, 0, 0], system="w399")


@pytest.mark.parametrize("count", [1, 3, 12])
def test_images_are_in_many_systems_whichever_are_fewer(tmp_path: Path, count: int) -> None:
    names, _ = chain(8)
    tiles = images(url := tmp_path / "s.zarr", count)
    edges = [move(at(after), at(before), 0, 1) for before, after in pairwise(names)]
    edges += [move(tile, at(names[-1]), n) for n, tile in enumerate(tiles)]
    wrong = [move(at(names[5]), at(names[2]), 0, 99)]
    write_scene(url, edges + wrong, [system(name, "yx") for name in names])
    with pytest.warns(UserWarning, match="lead to other positions"):
        ds = xr.open_dataset(url, engine="n5").sel(image=[tile["path"] for tile in tiles])
    # The wrong one is on the shortest ways to the first systems.
    for name, x in {"c0": 103, "c1": 102, "c2": 101, "c4": 3, "c5": 2, "c6": 1, "c7": 0}.items():
        expected = [[0, n, x] for n in range(count)]
        assert ds.n5.to_world([0, 0, 0], system=name).tolist() == expected


def test_a_matrix_in_an_array_is_read_once(tmp_path: Path) -> None:
    tiles = images(local := tmp_path / "s.zarr", 9)
    xarray_n5.to_n5(np.array([[1, 0, 3], [0, 1, 0.5]]), local, "edges/m", chunks=(2, 3))
    edges = [move(tile, at("stage"), n) for n, tile in enumerate(tiles)]
    ends = {"input": at("stage"), "output": at("world")}
    edges.append({"type": "affine", "path": "edges/m", **ends})
    write_scene(local, edges, [system("world", "yx")])
    store: Any = CountingStore()
    for path in local.rglob("*"):
        if path.is_file():
            store.set(path.relative_to(local).as_posix(), path.read_bytes())
    store.read.clear()
    ds = xr.open_dataset(store, engine="n5")
    assert ds.n5.to_world([0, 0, 0])[:, 1].tolist() == [3 + n for n in range(9)]
    assert sum(n for key, n in store.read.items() if key.startswith("edges/m")) <= 4
