"""Datasets and trees of placed images are stored as scenes of OME-Zarr 0.6."""

from __future__ import annotations

import json
import os
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5
from tests.scenes.test_projects import attributes_of, stitched, to_scene
from tests.support.exhaustive import seeds
from tests.support.killing import kill, when
from tests.support.processes import Python
from xarray_n5 import MetadataError, N5Error, NodeExistsError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore:.*(views are not stored|a scene does not have)")

POINTS = [[0, 0, 0], [1.5, 2, 3], [-4, 5.25, 100]]


def opened(url: Path, **how: Any) -> xr.Dataset:
    """Open a scene's Dataset."""
    return xr.open_dataset(url, engine="n5", **how)


def image(dataset: xr.Dataset) -> xr.DataArray:
    """The variable of a Dataset, whose name is that of its file."""
    (found,) = dataset.data_vars.values()
    return found


def check_same(one: xr.Dataset, other: xr.Dataset) -> None:
    """Two Datasets have the same values, coordinates and positions."""
    assert image(one).dims == image(other).dims
    assert image(one).dtype == image(other).dtype
    assert np.array_equal(image(one), image(other))
    assert {*one.coords} == {*other.coords}
    assert one.image.values.tolist() == other.image.values.tolist()
    for axis in "zyx":
        assert np.allclose(one[axis], other[axis], rtol=0, atol=1e-9)
        assert one[axis].attrs.get("units") == other[axis].attrs.get("units")
    assert one.affine.attrs["units"] == other.affine.attrs["units"]
    places = one.n5.to_world(POINTS), other.n5.to_world(POINTS)
    assert np.allclose(*places, rtol=0, atol=1e-9)


def stack(seed: int, chunks: Any = None) -> xr.Dataset:
    """Images in a random world, as a user makes them."""
    rng = np.random.default_rng(seed)
    count, shape = int(rng.integers(1, 5)), rng.integers(2, 9, 3)
    steps, starts = rng.choice([0.1, 1 / 3, 2.0, 7.5], 3), rng.choice([0.0, 0.25, -13.7], 3)
    affine = np.tile(np.eye(3, 4) * [*steps, 1.0], (count, 1, 1))
    affine[..., 3] = 100 * rng.normal(size=(count, 3))
    if seed % 2:
        affine[..., :3] += 0.05 * rng.normal(size=(count, 3, 3))
    values: Any = rng.integers(0, 1000, (count, *shape)).astype(rng.choice(["u2", "i4", "f4"]))
    values = values if chunks is None else da.from_array(values, chunks=chunks)
    lines = zip("zyx", starts, steps, shape, strict=True)
    coords: dict[str, Any] = {
        axis: (axis, start + step * np.arange(size), {"units": "micrometer"})
        for axis, start, step, size in lines
    }
    coords["image"] = [f"tile{n}/a" for n in rng.permutation(count)]
    coords |= {"axis": ["z", "y", "x"], "column": ["z", "y", "x", "1"]}
    coords["affine"] = (("image", "axis", "column"), affine, {"units": "micrometer"})
    return xr.Dataset({"raw": (("image", "z", "y", "x"), values)}, coords)


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_a_stack_of_images_comes_back_from_a_scene(tmp_path: Path, seed: int) -> None:
    dataset = stack(seed, (1, 2, 3, 4) if seed % 3 else None)
    dataset.n5.to_scene(tmp_path / "s.zarr")
    check_same(dataset, opened(tmp_path / "s.zarr"))
    edges = attributes_of(tmp_path / "s.zarr")["ome"]["scene"]["coordinateTransformations"]
    assert {edge["type"] for edge in edges} == {"affine" if seed % 2 else "translation"}
    for path in dataset.image.values:
        multiscales = attributes_of(tmp_path / "s.zarr" / path)["ome"]["multiscales"]
        assert [axis["name"] for axis in multiscales[0]["coordinateSystems"][0]["axes"]] == [*"zyx"]
    back = opened(tmp_path / "s.zarr", chunks={})
    part = (back * 2).isel(image=slice(0, 2), z=slice(1, None), x=slice(0, None, 2))
    part.n5.to_scene(tmp_path / "t.zarr")
    check_same(part.compute(), opened(tmp_path / "t.zarr"))


@pytest.mark.parametrize("chunks", [None, {}])
def test_levels_of_a_tree_are_stored_with_one_transformation(
    tmp_path: Path, chunks: dict[str, int] | None
) -> None:
    to_scene(stitched(tmp_path), tmp_path / "s.zarr")
    tree = xr.open_datatree(tmp_path / "s.zarr", engine="n5", chunks=chunks)
    encoding = {"/s0": {"s": {"chunks": (2, 4, 4), "shards": (4, 8, 8), "compression": "zstd"}}}
    tree.n5.to_scene(tmp_path / "t.zarr", encoding=encoding)
    for level in (0, 1):
        one = tree[f"s{level}"].to_dataset()
        check_same(one, opened(tmp_path / "t.zarr", level=level))
    array = xarray_n5.open_array(tmp_path / "t.zarr", "setup3/timepoint0/s0")
    assert (array.chunks, array.shards) == ((2, 4, 4), (4, 8, 8))
    assert len(attributes_of(tmp_path / "t.zarr")["ome"]["scene"]["coordinateTransformations"]) == 3


@pytest.mark.parametrize("setups", [None, "flat"])
def test_views_of_a_project_are_called_by_their_ids(tmp_path: Path, setups: str | None) -> None:
    more: dict[str, Any] = {} if setups is None else {"setups": setups}
    before = xr.open_dataset(stitched(tmp_path), engine="bdv", level=0, chunks={}, **more)
    changed = before.assign(project=before["project"].astype("f4") / 2)
    changed.n5.to_scene(tmp_path / "s.zarr")
    after = opened(tmp_path / "s.zarr")
    assert after.affine.attrs["units"] == "micrometer"
    assert sorted(after.image.values.tolist()) == [
        *("setup0/timepoint0", "setup0/timepoint1", "setup3/timepoint0"),
    ]
    for setup, time in ((0, 0), (0, 1), (3, 0)):
        one = after.sel(image=f"setup{setup}/timepoint{time}")
        other = changed.isel({"t": time, "setup" if setups else "tile": int(setup == 3)})
        assert np.array_equal(image(one), image(other))
        places = one.n5.to_world(POINTS), other.n5.to_world(POINTS)
        assert np.allclose(*places, rtol=0, atol=1e-9)


def test_images_that_differ_and_axes_of_time_and_channels_are_kept(tmp_path: Path) -> None:
    one, other = stack(2).isel(image=[0]), stack(3).isel(image=[0])
    other = other.assign_coords(image=["b"])
    nodes = {f"/{n}": x.expand_dims(c=3, t=2) for n, x in (("one", one), ("other", other))}
    tree = xr.DataTree.from_dict(nodes)
    tree.n5.to_scene(tmp_path / "s.zarr")
    back = xr.open_datatree(tmp_path / "s.zarr", engine="n5")
    for before in (one, other):
        (path,) = before.image.values
        after = back[f"{path}/s0"].to_dataset()
        assert image(after).dims == ("t", "c", "z", "y", "x")
        assert np.array_equal(image(after)[1, 2], before["raw"][0])
        places = after.n5.to_world(POINTS), before.isel(image=0).n5.to_world(POINTS)
        assert np.allclose(*places, rtol=0, atol=1e-9)


def test_a_flat_image_has_a_flat_world(tmp_path: Path) -> None:
    flat = stack(2).isel(z=0, drop=True)
    affine = flat.affine.copy()
    affine[:, 0], affine[:, :, 0] = [1, 0, 0, 0], [1, 0, 0]
    flat = flat.assign_coords(affine=affine)
    flat.n5.to_scene(tmp_path / "s.zarr")
    places = opened(tmp_path / "s.zarr").n5.to_world(POINTS), flat.n5.to_world(POINTS)
    assert np.allclose(*places, rtol=0, atol=1e-9)


def test_data_are_computed_later_and_no_image_is_read_before(tmp_path: Path) -> None:
    dataset = stack(4, (1, 8, 8, 8))
    calls: list[int] = []

    def noted(block: np.ndarray) -> np.ndarray:
        calls.append(1)
        return block

    data = dataset["raw"].data
    lazy = da.map_blocks(noted, data, dtype=data.dtype, meta=np.empty(0, data.dtype))
    dataset = dataset.assign(raw=(dataset["raw"].dims, lazy))
    later = dataset.n5.to_scene(tmp_path / "s.zarr", compute=False)
    assert calls == []
    with dask.config.set(scheduler="synchronous"):
        later.compute()
    assert len(calls) == dataset.sizes["image"]
    check_same(dataset, opened(tmp_path / "s.zarr"))


def changed(**new: Any) -> Callable[[xr.Dataset], xr.Dataset]:
    return lambda dataset: dataset.assign_coords({k: v(dataset) for k, v in new.items()})


REFUSED: dict[str, tuple[Callable[[xr.Dataset], Any], dict[str, Any], str]] = {
    "a mode": (lambda d: d, {"mode": "a"}, "mode"),
    "an encoding": (lambda d: d, {"encoding": {"raw": {"scale_factor": 2}}}, "scale_factor"),
    "chunks": (lambda d: d, {"encoding": {"raw": {"chunks": (2, 2)}}}, "sides along z, y, x"),
    "several variables": (lambda d: d.assign(b=d.raw), {}, "2 variables"),
    "no position": (changed(affine=lambda d: d.affine * np.nan), {}, "has no position"),
    "singular": (changed(affine=lambda d: d.affine * 0), {}, "has no position"),
    "uneven": (changed(z=lambda d: d.z**2), {}, "not evenly spaced"),
    "descending": (lambda d: d.isel(y=slice(None, None, -1)), {}, "not evenly spaced"),
    "names": (changed(image=lambda d: ["a"] * d.sizes["image"]), {}, "the name 'a'"),
    "paths": (changed(image=lambda d: ["../a", "b", "c", "d"][: d.sizes["image"]]), {}, "'../a'"),
    "inside": (changed(image=lambda d: ["a", "a/b", "c", "d"][: d.sizes["image"]]), {}, "inside"),
    "dimensions": (lambda d: d.rename(image="tile"), {}, "expected 'image'"),
    "a matrix without columns": (lambda d: d.isel(column=slice(3)), {}, "3 x 4"),
    "a tilted flat image": (lambda d: d.isel(z=0), {}, "mixes"),
    "axes": (lambda d: d.rename(y="v"), {}, "has the dimensions"),
}


@pytest.mark.parametrize(("change", "how", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_scene_cannot_have_is_refused_before_anything_is_written(
    tmp_path: Path, change: Callable[[xr.Dataset], Any], how: dict[str, Any], why: str
) -> None:
    dataset = xr.concat([stack(1).isel(image=[0])] * 2, "image").assign_coords(image=["p", "q"])
    with pytest.raises(ValueError, match=why):
        change(dataset).n5.to_scene(tmp_path / "s.zarr", **how)
    assert not (tmp_path / "s.zarr").exists()


def test_a_container_of_another_format_is_refused(tmp_path: Path) -> None:
    group = xarray_n5.create_group(tmp_path / "s.n5")
    before = [*tmp_path.rglob("*")]
    with pytest.raises(NodeExistsError):
        stack(1).n5.to_scene(tmp_path / "s.n5")
    with pytest.raises(MetadataError):
        stack(1).n5.to_scene(group.container)
    assert [*tmp_path.rglob("*")] == before


def test_levels_at_other_positions_and_lost_matrices_are_refused(tmp_path: Path) -> None:
    to_scene(stitched(tmp_path), tmp_path / "s.zarr")
    tree = xr.open_datatree(tmp_path / "s.zarr", engine="n5")
    fine, coarse = (tree[name].to_dataset() for name in ("s0", "s1"))
    moved = coarse.assign_coords(affine=coarse.affine + 1)
    url = tmp_path / "t.zarr"
    for nodes, why in (
        ({"/s0": fine, "/s1": moved}, "elsewhere"),
        ({"/s0": fine, "/s1": coarse.isel(image=[0])}, "levels of the same images"),
        ({"/s0": fine, "/b": coarse.drop_vars("affine")}, "affine"),
        ({"/a": fine, "/b": fine}, "two images have the name"),
    ):
        with pytest.raises(ValueError, match=why):
            xr.DataTree.from_dict(nodes).n5.to_scene(url)
    with pytest.raises(ValueError, match="affine"):
        fine.drop_vars("affine").n5.to_scene(url)
    assert not url.exists()


def test_coordinates_and_attributes_that_a_scene_does_not_have_are_named(tmp_path: Path) -> None:
    dataset = stack(2).assign_attrs(author="me")
    dataset = dataset.assign_coords(colour=("image", ["red"] * dataset.sizes["image"]))
    with (
        pytest.warns(UserWarning, match="the coordinates colour:"),
        pytest.warns(UserWarning, match="the attributes author:"),
    ):
        dataset.n5.to_scene(tmp_path / "s.zarr")


def test_a_scene_is_replaced_but_not_by_what_is_computed_from_it(tmp_path: Path) -> None:
    url, first = tmp_path / "s.zarr", stack(4)
    first.n5.to_scene(url)
    with pytest.raises(NodeExistsError):
        first.n5.to_scene(url)
    lazy = opened(url, chunks={})
    mixed = lazy.roll(image=1, roll_coords=False)
    for dataset in (lazy * 2, mixed):
        with pytest.raises(NodeExistsError):
            dataset.n5.to_scene(url, mode="w")
    check_same(first, opened(url))
    (first + 1).n5.to_scene(url, mode="w")
    check_same(first + 1, opened(url))


SLOWLY = """
import sys, time
from xarray_n5.formats.zarr3.format import Zarr3
before = Zarr3.encode
def slowly(self, metadata, chunk):
    time.sleep(0.05)
    return before(self, metadata, chunk)
Zarr3.encode = slowly
import dask, xarray as xr, xarray_n5
tree = xr.open_datatree(sys.argv[1], engine="n5", chunks={})
with dask.config.set(scheduler="threads", num_workers=2):
    tree.n5.to_scene(sys.argv[2], resume=True)
"""


def test_a_killed_write_is_resumed(tmp_path: Path) -> None:
    source, url = tmp_path / "s.zarr", tmp_path / "t.zarr"
    to_scene(stitched(tmp_path), source)

    def chunks() -> list[Path]:
        # Unlike rglob, it tolerates folders that disappear meanwhile.
        found = [Path(top, name) for top, _, names in os.walk(url) for name in names]
        return [path for path in found if path.match("c/*/*/[!.]*")]

    with Python("-c", SLOWLY, source, url, stderr=DEVNULL) as writer:
        when(lambda: len(chunks()) > 3, writer)
        killed = kill(writer)
    tree = xr.open_datatree(str(source), engine="n5", chunks={})
    if killed:
        with pytest.raises(NodeExistsError):
            tree.n5.to_scene(url)
    kept = {path: path.stat().st_mtime_ns for path in chunks()}
    tree.n5.to_scene(url, resume=True)
    again = {path: path.stat().st_mtime_ns for path in chunks()}
    assert {path for path in kept if kept[path] == again[path]} or not killed
    for level in (0, 1):
        check_same(tree[f"s{level}"].to_dataset(), opened(url, level=level))
    tree.n5.to_scene(url, resume=True)


def test_the_documents_are_plain_json_with_the_units_of_ome_zarr(tmp_path: Path) -> None:
    dataset = stack(2)
    dataset.affine.attrs["units"] = "um"
    dataset.n5.to_scene(tmp_path / "a.zarr", "g/h")
    scene = json.loads((tmp_path / "a.zarr/g/h/zarr.json").read_text("utf-8"))["attributes"]["ome"]
    (world,) = scene["scene"]["coordinateSystems"]
    assert world["name"] == "world"
    assert {axis["unit"] for axis in world["axes"]} == {"micrometer"}


UPDATES: dict[str, dict[str, Any]] = {
    "append images": {"append_dim": "image"},
    "append times": {"append_dim": "t"},
    "region": {"region": {"t": slice(0, 1)}},
    "automatic region": {"region": "auto"},
    "r+": {"mode": "r+"},
    "a": {"mode": "a"},
    "new": {},
}


@pytest.mark.parametrize("how", UPDATES.values(), ids=UPDATES.keys())
def test_a_scene_is_not_changed_in_part(tmp_path: Path, how: dict[str, Any]) -> None:
    place = tmp_path / "s.zarr"
    matrices = np.tile(np.eye(3, 4), (2, 1, 1))
    coords: dict[str, Any] = {"affine": (("image", "axis", "column"), matrices)}
    whole = xr.Dataset(
        {"s": (("image", "t", "z", "y", "x"), np.ones((2, 3, 2, 2, 2)))},
        {"image": ["a", "b"], **coords},
    )
    whole.n5.to_scene(place)
    part = whole.isel(t=[0])
    if how.get("region") == {"t": slice(0, 1)}:
        part = part.drop_vars(["affine", "image"])
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(N5Error):
        part.n5.to_n5(place, **how)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_groups_next_to_the_images_of_a_scene_can_be_written(tmp_path: Path) -> None:
    place = tmp_path / "s.zarr"
    placed = xr.Dataset(
        {"s": (("z", "y", "x"), np.ones((2, 2, 2)))},
        {"affine": (("axis", "column"), np.eye(3, 4))},
    )
    placed.n5.to_scene(place)
    labels = xr.Dataset({"cells": ("x", np.arange(2))})
    labels.n5.to_n5(place, "labels", mode="a")
    xr.DataTree.from_dict({"/more": labels}).n5.to_n5(place, mode="a")
    for group in ("labels", "more"):
        assert xr.open_dataset(place, engine="n5", group=group).cells.values.tolist() == [0, 1]
    assert xr.open_dataset(place, engine="n5").s.shape == (1, 2, 2, 2)
