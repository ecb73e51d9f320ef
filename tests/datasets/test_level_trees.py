"""Trees whose nodes are the levels of a pyramid, stored and opened again."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import xarray_n5
from tests.support.containers import FULL, NAMES, PAIRS
from tests.support.counting import CountingFileSystem
from tests.support.exhaustive import cases
from tests.support.killing import files
from xarray_n5 import Array, MetadataError, NodeExistsError, create_array, open_array, open_group

if TYPE_CHECKING:
    from collections.abc import Callable


def image(**sizes: int) -> xr.DataArray:
    """An image with coordinates, some of whose scales are no binary fractions."""
    known = {"z": (40.3, 100.1, "nm"), "y": (4.0, -7.5, "nm"), "x": (4.0, 0.0, "nm")}
    sizes = sizes or {"z": 6, "y": 32, "x": 40}
    coords = {}
    for dim, size in sizes.items():
        scale, offset, unit = known.get(dim, (0.5, 2.0, "s"))
        coords[dim] = (dim, offset + scale * np.arange(size), {"units": unit})
    values = np.random.default_rng(7).integers(0, 250, list(sizes.values())).astype("u2")
    return xr.DataArray(values, coords, list(sizes), name="raw", attrs={"stain": "DAPI"})


def halved(array: xr.DataArray) -> xr.DataArray:
    return array.coarsen(y=2, x=2).mean().astype(array.dtype)


def levels_of(
    array: xr.DataArray,
    coarser: Callable[[xr.DataArray], xr.DataArray] = halved,
    *,
    count: int = 3,
    **attributes: Any,
) -> xr.DataTree:
    """A tree of levels that are made by hand."""
    nodes = {"/": xr.Dataset(attrs=attributes)}
    for level in range(count):
        array = coarser(array) if level else array
        nodes[f"/s{level}"] = array.to_dataset()
    return xr.DataTree.from_dict(nodes)


def opened(place: Path, group: str = "", **options: Any) -> Any:
    return xr.open_datatree(place, engine="n5", group=group, **options)


def arrays_in(place: Path, path: str = "") -> list[str]:
    group = open_group(place, path)
    return [name for name, node in group.items() if isinstance(node, Array)]


# What comes back


@pytest.mark.matrix(4)
@FULL
@pytest.mark.parametrize("path", ["", "em/fibsem-uint16"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_pyramid_that_is_stored_is_the_same_pyramid(
    tmp_path: Path, form: str, path: str, chunked: bool
) -> None:
    name, tree = NAMES[form], levels_of(image(), title="a fly", count_of_cells=np.float32(3))
    (tree.chunk({"y": 8}) if chunked else tree).n5.to_n5(tmp_path / name, path, format=form)
    assert arrays_in(tmp_path / name, path) == ["s0", "s1", "s2"]
    xr.testing.assert_identical(opened(tmp_path / name, path).load(), tree)
    for level in (0, 1, 2):
        for options in ({"group": path, "level": level}, {"group": f"{path}/s{level}"}):
            one = xr.open_dataset(tmp_path / name, engine="n5", **options)  # type: ignore[arg-type]
            xr.testing.assert_identical(one["raw"].load(), tree[f"s{level}"]["raw"])
    assert xr.open_dataset(tmp_path / name, engine="n5", group=path, level=1).attrs == tree.attrs


@pytest.mark.matrix(3)
@PAIRS
def test_a_pyramid_that_was_opened_is_stored_as_one(
    tmp_path: Path, first: Any, second: str
) -> None:
    place, other = tmp_path / "a" / NAMES[first], tmp_path / "b" / NAMES[second]
    factors = [(1, 2, 2), (2, 2, 3)]
    xarray_n5.pyramid(image(), place, "em", factors=factors, chunks=8, format=first)
    whole = opened(place, "em", chunks={})
    whole.n5.to_n5(other, "other/name", format=second)
    xr.testing.assert_identical(opened(other, "other/name").load(), whole.load())
    assert list(open_group(other, "other/name")) == ["s0", "s1", "s2"]
    assert open_array(other, "other/name/s1").chunks == open_array(place, "em/s1").chunks
    made = open_array(place, "em/s2").geometry()
    assert open_array(other, "other/name/s2").geometry() == made


@FULL
def test_a_pyramid_at_the_root_has_the_name_of_its_container(tmp_path: Path, form: Any) -> None:
    suffix = NAMES[form][1:]
    for name, expected in ((f"jrc_1{suffix}", "jrc_1"), (f"jrc.ome{suffix}", "jrc")):
        xarray_n5.pyramid(image(), tmp_path / name, factors=[2], chunks=16, format=form)
        tree = opened(tmp_path / name)
        assert [list(node.data_vars) for node in tree.children.values()] == [[expected]] * 2
        one = xr.open_dataset(tmp_path / name, engine="n5", group="s1")
        assert list(one) == [expected]


def test_the_group_is_described_as_pyramid_does(tmp_path: Path) -> None:
    for name in ("a.n5", "a.zarr"):
        levels_of(image(), count=2).n5.to_n5(tmp_path / name, "raw")
        xarray_n5.pyramid(image(), tmp_path / name, "made", factors=[(1, 2, 2)], chunks=(6, 32, 40))
        stored, made = (dict(open_group(tmp_path / name, path).attrs) for path in ("raw", "made"))
        assert stored["multiscales"][0].pop("name") == "raw"
        made["multiscales"][0].pop("name")
        assert stored == made
        for level in ("s0", "s1"):
            attributes = dict(open_array(tmp_path / name, f"raw/{level}").attrs)
            theirs = open_array(tmp_path / name, f"made/{level}").attrs
            assert {key: attributes[key] for key in theirs} == dict(theirs)
    # As n5-viewer reads it: factors are those of the coordinates.
    group = json.loads((tmp_path / "a.n5/raw/attributes.json").read_bytes())
    assert group["downsamplingFactors"] == [[1, 1, 1], [2, 2, 1]]
    assert group["pixelResolution"] == {"dimensions": [4, 4, 40.3], "unit": "nm"}


def numbered(tree: xr.DataTree) -> xr.DataTree:
    nodes = {f"/{name[1:]}": node.to_dataset() for name, node in tree.children.items()}
    return xr.DataTree.from_dict(nodes)


def labelled(array: xr.DataArray) -> xr.DataArray:
    return array.expand_dims(c=["DNA", "actin"])


def counting(array: xr.DataArray) -> xr.DataArray:
    """Times that count from 0, as of BigDataViewer, and setups with gaps."""
    return array.expand_dims(t=np.arange(2), setup=np.array([0, 2])).copy()


PYRAMIDS: dict[str, Callable[[], xr.DataTree]] = {
    "two axes": lambda: levels_of(image(y=16, x=16)),
    "an axis of time": lambda: levels_of(image(t=3, y=16, x=16)),
    "labels": lambda: levels_of(labelled(image(y=16, x=16))),
    "whole numbers": lambda: levels_of(counting(image(y=16, x=16))),
    "float32": lambda: levels_of(image(y=8, x=8).assign_coords(t=1).drop_vars("t").astype("f4")),
    "float32 coordinates": lambda: levels_of(
        image(y=8, x=8).assign_coords(x=np.arange(8, dtype="f4")), count=2
    ),
    "no units": lambda: levels_of(image(y=8, x=8).assign_coords(x=np.arange(8), y=np.arange(8))),
    "no coordinates": lambda: levels_of(image(y=8, x=8).drop_vars(["y", "x"])),
    "one without a coordinate": lambda: levels_of(image(q=2, y=8, x=8).drop_vars("q")),
    "the first sample of each": lambda: levels_of(image(y=9, x=9), lambda a: a[::2, ::3], count=2),
    "single samples": lambda: levels_of(image(y=4, x=4)),
    "numbers": lambda: numbered(levels_of(image(y=8, x=8))),
    "booleans": lambda: levels_of(image(y=8, x=8) > 9, lambda a: a[::2, ::2]),
    "scaled values": lambda: levels_of(packed(image(y=8, x=8)), lambda a: a[::2, ::2].copy()),
    "dates": lambda: levels_of(
        image(y=8, x=8).astype("M8[D]").astype("M8[ns]"), lambda a: a[::2, ::2]
    ),
    "an attribute of dialects": lambda: levels_of(
        image(y=8, x=8).assign_attrs(transform="log", units="counts", resolution="high"),
        axes="body",
        multiscales="many",
        units="each",
    ),
}


def packed(array: xr.DataArray) -> xr.DataArray:
    halves = (array / 2).astype("f8")
    halves.encoding = {"scale_factor": 0.5, "dtype": "i4", "_FillValue": -1}
    return halves


@pytest.mark.filterwarnings("ignore:.*viewers find no image here")
@pytest.mark.matrix(6)
@pytest.mark.parametrize("name", ["a.n5", "a.zarr"])
@pytest.mark.parametrize("kind", PYRAMIDS)
def test_all_kinds_of_levels_come_back_identical(tmp_path: Path, kind: str, name: str) -> None:
    tree = PYRAMIDS[kind]()
    tree.n5.to_n5(tmp_path / name, "em")
    assert arrays_in(tmp_path / name, "em") == list(tree.children)
    stored = opened(tmp_path / name, "em").load()
    xr.testing.assert_identical(stored, tree)
    for number, level in enumerate(tree.children):
        one = xr.open_dataset(tmp_path / name, engine="n5", group="em", level=number).load()
        xr.testing.assert_identical(one["raw"], tree[level]["raw"])


def test_levels_of_bigdataviewer_keep_their_times_and_setups(tmp_path: Path) -> None:
    for setup, time, level in np.ndindex(2, 3, 2):
        path = f"setup{setup}/timepoint{2 * time}/s{level}"
        factors = {"downsamplingFactors": [2**level] * 2 + [1]}
        shape = (2, 8 >> level, 8 >> level)
        create_array(tmp_path / "v.n5", path, shape=shape, dtype="u2", attributes=factors)[...] = 1
    views = opened(tmp_path / "v.n5", chunks={})
    views.n5.to_n5(tmp_path / "w.n5")
    again = opened(tmp_path / "w.n5")
    xr.testing.assert_identical(again.load(), views.load())
    assert again["s1"].t.values.tolist() == [0, 2, 4]
    assert again["s1"].setup.dtype == views["s1"].setup.dtype


def test_a_level_alone_is_one_where_it_was_opened_as_one(tmp_path: Path) -> None:
    xarray_n5.pyramid(image(), tmp_path / "a.n5", "em", levels=0, chunks=16)
    whole = opened(tmp_path / "a.n5", "em")
    for name in ("b.n5", "b.zarr"):
        whole.n5.to_n5(tmp_path / name, "em")
        assert arrays_in(tmp_path / name, "em") == ["s0"]
        xr.testing.assert_identical(opened(tmp_path / name, "em").load(), whole.load())
    levels_of(image(), count=1).n5.to_n5(tmp_path / "c.n5")
    assert arrays_in(tmp_path / "c.n5", "s0") == ["raw"]


@FULL
def test_a_single_level_that_was_opened_is_written_into(tmp_path: Path, form: Any) -> None:
    place = tmp_path / NAMES[form]
    xarray_n5.pyramid(image(), place, "em", levels=0, chunks=8, format=form)
    before = xr.open_dataset(place, engine="n5", group="em").load()
    before.isel(y=slice(0, 8)).map(np.zeros_like).n5.to_n5(place, "em", region="auto")
    stored = xr.open_dataset(place, engine="n5", group="em")
    xr.testing.assert_equal(stored.load(), before.where(before.y >= before.y[8], 0).astype("u2"))
    before.n5.to_n5(place, "em", mode="r+")
    xr.testing.assert_identical(xr.open_dataset(place, engine="n5", group="em").load(), before)


def test_levels_that_xarray_computed_with_are_levels(tmp_path: Path) -> None:
    xarray_n5.pyramid(image(), tmp_path / "a.n5", "em", factors=[2, 2], chunks=8)
    whole = opened(tmp_path / "a.n5", chunks={})
    masks = whole["em"].map_over_datasets(lambda level: level > 100)
    masks.n5.to_n5(tmp_path / "a.n5", "masks")
    assert arrays_in(tmp_path / "a.n5", "masks") == ["s0", "s1", "s2"]
    part = whole["em"].sel(x=slice(30, 90)).map_over_datasets(lambda level: level.copy())
    part.n5.to_n5(tmp_path / "a.n5", "part")
    stored = opened(tmp_path / "a.n5", "part")
    for level in ("s0", "s1", "s2"):
        xr.testing.assert_identical(
            stored[level].to_dataset().load(), part[level].to_dataset().load()
        )
    assert open_group(tmp_path / "a.n5", "part").attrs["downsamplingFactors"][1] == [2, 2, 2]


# What is not a pyramid


def with_node(tree: xr.DataTree, path: str, dataset: xr.Dataset) -> xr.DataTree:
    nodes = {node.path: node.to_dataset(inherit=False) for node in tree.subtree}
    return xr.DataTree.from_dict({**nodes, path: dataset})


def changed(change: Callable[[xr.Dataset], xr.Dataset]) -> xr.DataTree:
    tree = levels_of(image(y=8, x=8))
    return with_node(tree, "/s1", change(tree["s1"].to_dataset()))


OTHERS: dict[str, Callable[[], xr.DataTree]] = {
    "another name": lambda: changed(lambda level: level.rename(raw="other")),
    "other dimensions": lambda: changed(lambda level: level.rename(y="row")),
    "another order": lambda: changed(lambda level: level.transpose()),
    "another type": lambda: changed(lambda level: level.astype("f4")),
    "two variables": lambda: changed(lambda level: level.assign(more=level.raw)),
    "no variable": lambda: changed(lambda level: level.drop_vars("raw")),
    "other coordinates": lambda: changed(lambda level: level.drop_vars("x")),
    "a scalar coordinate": lambda: changed(lambda level: level.assign_coords(t=3)),
    "a coordinate with attributes": lambda: changed(
        lambda level: level.assign_coords(x=level.x.assign_attrs(long_name="width"))
    ),
    "another unit": lambda: changed(
        lambda level: level.assign_coords(x=level.x.assign_attrs(units="um"))
    ),
    "uneven coordinates": lambda: changed(lambda level: level.assign_coords(x=[0.0, 1, 2, 9])),
    "finer coordinates": lambda: changed(lambda level: level.assign_coords(x=level.x / 100)),
    "a node inside": lambda: with_node(
        levels_of(image(y=8, x=8)), "/s1/inner", xr.Dataset({"a": ("q", [1])})
    ),
    "variables around": lambda: with_node(
        levels_of(image(y=8, x=8)), "/", xr.Dataset({"a": ("q", [1])})
    ),
    "attributes that contradict": lambda: changed(lambda level: level.assign_attrs(title="b")),
    "levels of one size": lambda: levels_of(image(y=8, x=8), lambda level: level),
    "text": lambda: levels_of(image(y=8, x=8).astype(str), lambda a: a[::2, ::2]),
}


@pytest.mark.matrix(6)
@pytest.mark.parametrize("kind", OTHERS)
def test_a_tree_that_only_looks_like_a_pyramid_is_stored_as_groups(
    tmp_path: Path, kind: str
) -> None:
    tree = OTHERS[kind]()
    if kind == "attributes that contradict":
        tree["s0"].attrs["title"] = "a"
    tree.n5.to_n5(tmp_path / "a.n5")
    assert not {"s0", "s1", "s2"} & set(arrays_in(tmp_path / "a.n5"))
    if "one size" not in kind:
        xr.testing.assert_identical(opened(tmp_path / "a.n5").load(), tree)


def test_attributes_of_levels_are_those_of_their_group(tmp_path: Path) -> None:
    source = image().to_dataset().assign_attrs(title="a fly", table=[1, 2])
    nodes = {"/s0": source, "/s1": source.coarsen(y=2, x=2).mean().astype("u2")}
    xr.DataTree.from_dict(nodes).n5.to_n5(tmp_path / "a.n5")
    tree = opened(tmp_path / "a.n5")
    assert tree.attrs["title"] == "a fly"
    assert tree.attrs["table"] == [1, 2]
    finest = xr.open_dataset(tmp_path / "a.n5", engine="n5", level=0)
    xr.testing.assert_identical(finest.load(), source)


def test_other_nodes_are_stored_as_always(tmp_path: Path) -> None:
    table = xr.Dataset({"size": ("cell", [3, 4])}, attrs={"title": "cells"})
    nodes: dict[str, xr.Dataset] = {"/": xr.Dataset(attrs={"lab": "a"}), "/tables": table}
    for name in ("em", "mask"):
        nodes |= {
            f"/volumes/{name}/{level}": node.to_dataset()
            for level, node in levels_of(image().rename(name)).children.items()
        }
    nodes["/volumes/em/notes"] = table
    tree = xr.DataTree.from_dict(nodes)
    for name in ("a.n5", "a.zarr"):
        tree.n5.to_n5(tmp_path / name)
        assert arrays_in(tmp_path / name, "volumes/mask") == ["s0", "s1", "s2"]
        assert arrays_in(tmp_path / name, "tables") == ["size"]
        xr.testing.assert_identical(opened(tmp_path / name).load(), tree)


# Options


@pytest.mark.parametrize("name", ["a.n5", "a.zarr"])
def test_options_mean_for_levels_what_they_mean_for_datasets(tmp_path: Path, name: str) -> None:
    place, tree = tmp_path / name, levels_of(image())
    with pytest.raises(KeyError, match="s7"):
        tree.n5.to_n5(place, encoding={"/s7": {"raw": {"chunks": 8}}})
    with pytest.raises(ValueError, match="chunk"):
        tree.n5.to_n5(place, encoding={"/s1": {"raw": {"chunk": 8}}})
    encoding = {f"/s{n}": {"raw": {"chunks": 8 >> n, "compression": "zstd"}} for n in range(3)}
    reports = tree.n5.to_n5(place, encoding=encoding)
    assert list(reports.arrays) == ["s0", "s1", "s2"]
    assert [open_array(place, f"s{n}").chunks for n in range(3)] == [(8,) * 3, (4,) * 3, (2,) * 3]
    assert open_array(place, "s2").compression.name == "zstd"
    with pytest.raises(NodeExistsError, match="mode='w'"):
        tree.n5.to_n5(place)
    more = tree.map_over_datasets(lambda level: (level + 1).astype("u2") if level else level)
    more.n5.to_n5(place, mode="r+")
    xr.testing.assert_equal(opened(place)["s1/raw"], more["s1/raw"])
    assert open_array(place, "s1").chunks == (4, 4, 4)
    deferred = tree.chunk().n5.to_n5(place, mode="r+", compute=False)
    assert list(deferred.compute().arrays) == ["s0", "s1", "s2"]
    xr.testing.assert_equal(opened(place)["s1/raw"], tree["s1/raw"])
    levels_of(image(), count=2).n5.to_n5(place, mode="a")
    assert list(open_group(place)) == ["s0", "s1"]
    xr.testing.assert_identical(opened(place).load(), levels_of(image(), count=2))
    levels_of(image(y=8, x=8)).n5.to_n5(place, mode="w")
    xr.testing.assert_identical(opened(place).load(), levels_of(image(y=8, x=8)))
    assert "z" not in str(open_group(place).attrs["multiscales"][0]["datasets"])


def test_pyramids_are_added_beside_other_arrays(tmp_path: Path) -> None:
    create_array(tmp_path / "a.n5", "em/other", shape=(3,), dtype="u1")
    open_group(tmp_path / "a.n5", "em", mode="r+").attrs["scales"] = [[1, 1, 1]]
    tree = levels_of(image())
    tree.n5.to_n5(tmp_path / "a.n5", "em", mode="a")
    assert set(open_group(tmp_path / "a.n5", "em")) == {"s0", "s1", "s2", "other"}
    assert "scales" not in open_group(tmp_path / "a.n5", "em").attrs
    stored = opened(tmp_path / "a.n5", "em", drop_variables="other")
    xr.testing.assert_identical(stored.load(), tree)
    create_array(tmp_path / "b.n5", "em/x", shape=(3,), dtype="u1")
    before = files(tmp_path / "b.n5")
    with pytest.raises(NodeExistsError, match="named like an axis"):
        tree.n5.to_n5(tmp_path / "b.n5", "em", mode="a")
    assert files(tmp_path / "b.n5") == before


def test_the_dialects_of_a_pyramid_can_be_chosen(tmp_path: Path) -> None:
    tree = levels_of(image(), count=2)
    tree.n5.to_n5(tmp_path / "a.n5", dialect="cosem")
    assert "resolution" not in open_group(tmp_path / "a.n5").attrs
    tree.n5.to_n5(tmp_path / "a.zarr", dialect="cosem")
    for name in ("a.n5", "a.zarr"):
        assert "transform" in open_group(tmp_path / name).attrs["multiscales"][0]["datasets"][0]
        xr.testing.assert_identical(opened(tmp_path / name).load(), tree)
    before = files(tmp_path)
    with pytest.raises(MetadataError, match="offset"):
        tree.n5.to_n5(tmp_path / "b.n5", dialect="n5_viewer")
    assert files(tmp_path) == before


def test_colours_of_channels_stay(tmp_path: Path) -> None:
    tree = levels_of(labelled(image(y=8, x=8)))
    tree.n5.to_n5(tmp_path / "a.zarr")
    group = open_group(tmp_path / "a.zarr", mode="r+")
    assert opened(tmp_path / "a.zarr").attrs == {}
    shown = group.attrs["omero"]
    shown["channels"][0]["color"] = "123456"
    group.attrs["omero"] = shown
    opened(tmp_path / "a.zarr").n5.to_n5(tmp_path / "b.zarr")
    assert open_group(tmp_path / "b.zarr").attrs["omero"] == shown
    assert opened(tmp_path / "b.zarr").attrs == {"omero": shown}
    assert opened(tmp_path / "b.zarr")["s1"].c.values.tolist() == ["DNA", "actin"]


def test_ome_zarr_is_valid(tmp_path: Path) -> None:
    models: Any = pytest.importorskip("ome_zarr_models.v04")
    zarr: Any = pytest.importorskip("zarr")
    levels_of(labelled(image())).n5.to_n5(tmp_path / "a.zarr", "em", format="zarr2")
    group = zarr.open_group(tmp_path / "a.zarr/em", mode="r", zarr_format=2)
    (shown,) = models.Image.from_zarr(group).ome_attributes.multiscales
    assert shown.name == "raw"
    assert [axis.type for axis in shown.axes] == ["channel", "space", "space", "space"]
    for level, (listed, side) in enumerate(zip(shown.datasets, (4.0, 8.0, 16.0), strict=True)):
        scale, translation = listed.coordinateTransformations
        assert scale.scale == [1, 40.3, side, side]
        assert translation.translation == [0, 100.1, -7.5 + (side - 4) / 2, (side - 4) / 2]
        stored = open_array(tmp_path / "a.zarr", f"em/s{level}")
        np.testing.assert_array_equal(group[f"s{level}"][...], stored[...])
    assert (tmp_path / "a.zarr/em/s0/0/0/0/0").exists()


@pytest.mark.filterwarnings("ignore:.*viewers find no image here")
@pytest.mark.more
@settings(max_examples=cases(8, 20), deadline=None)
@given(st.data())
def test_any_levels_come_back_in_every_format(data: st.DataObject) -> None:
    dims = data.draw(st.lists(st.sampled_from("tczyxq"), min_size=1, max_size=4, unique=True))
    steps = {dim: data.draw(st.integers(1, 3), label=f"factor of {dim}") for dim in dims}
    steps[dims[-1]] = 2
    coords = {
        dim: (
            dim,
            data.draw(st.sampled_from([1.0, 4.03, 0.1, 1e-9]))
            * (data.draw(st.sampled_from([0, -3.3, 1e4])) + np.arange(4 * step**2)),
            data.draw(st.sampled_from([{}, {"units": "nm"}, {"units": "s"}, {"units": "parsec"}])),
        )
        for dim, step in steps.items()
    }
    shape = [4 * step**2 for step in steps.values()]
    base = xr.DataArray(np.arange(np.prod(shape)).reshape(shape), coords, dims, name="raw")
    tree = levels_of(base, lambda array: array.coarsen(steps).mean().astype(array.dtype))
    with tempfile.TemporaryDirectory() as folder:
        tree.n5.to_n5(f"{folder}/a.n5")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*has no axes that OME-NGFF 0.4 can describe")
            xarray_n5.copy(f"{folder}/a.n5", f"{folder}/a.zarr")
        tree.n5.to_n5(f"{folder}/b.zarr")
        xarray_n5.copy(f"{folder}/b.zarr", f"{folder}/b.n5")
        for name in ("a.n5", "a.zarr", "b.zarr", "b.n5"):
            # The means of coordinates are not rounded as their positions are.
            copied = opened(Path(folder, name)).load()
            xr.testing.assert_allclose(copied, tree, rtol=1e-9)
            assert set(arrays_in(Path(folder, name))) == {"s0", "s1", "s2"}


def test_storing_levels_takes_no_more_requests_than_datasets(tmp_path: Path) -> None:  # noqa: ARG001
    def calls(tree: xr.DataTree) -> int:
        fs = CountingFileSystem()
        tree.n5.to_n5((fs, "a.n5"))
        return fs.calls.total()

    tree = levels_of(image(y=8, x=8))
    assert calls(tree) < calls(tree.map_over_datasets(renamed))


def renamed(level: xr.Dataset) -> xr.Dataset:
    """A level that is not one: a scalar beside it is an array of its own."""
    return level.assign_coords(time=3) if level else level


@pytest.mark.parametrize("form", NAMES)
def test_a_replaced_tree_warns_of_older_groups_that_stay(tmp_path: Path, form: Any) -> None:
    place = tmp_path / NAMES[form]
    times = {"/a": xr.Dataset({"v": ("x", [1, 2])}), "/a/b": xr.Dataset({"v": ("x", [3, 5])})}
    older = xr.DataTree.from_dict({**times, "/c": xr.Dataset({"v": ("x", [4])})})
    older.n5.to_n5(place, format=form)
    with pytest.warns(UserWarning, match=r"keeps groups that are not in the tree: '[^']*c'$"):
        xr.DataTree.from_dict(times).n5.to_n5(place, mode="w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        older.n5.to_n5(place, mode="w")
