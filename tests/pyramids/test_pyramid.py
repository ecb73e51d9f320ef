"""Pyramids: what is in each level, where it lies by everybody's rules, and how they go on."""

from __future__ import annotations

import json
import tracemalloc
import warnings
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.delayed import delayed
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.axes import with_axes
from tests.support.containers import NAMES
from tests.support.killing import begin, files
from tests.support.memory_store import MemoryStore
from tests.support.stores import CountingStore
from xarray_n5 import (
    Axis,
    MetadataError,
    NodeExistsError,
    NodeNotFoundError,
    ResumeError,
    UnfinishedWriteWarning,
    add_levels,
    copy,
    create_array,
    create_group,
    from_n5,
    open_array,
    open_group,
    pyramid,
    set_options,
    to_n5,
    verify,
)
from xarray_n5.model.axes import Geometry
from xarray_n5.model.units import same_unit
from xarray_n5.pyramids.reduce import coarse_shape, reduce_windows, steps_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Client

    from xarray_n5.pyramids.reduce import Method

ROOT = Path(__file__).parents[2]

SHAPE = (9, 50, 37)

# Scales that no binary fraction is, and an offset along each axis.
SCALES = {"z": 40.3, "y": 4.1, "x": 4.03}
STARTS = {"z": 100.1, "y": -7.7, "x": 0.0}


def volume(shape: tuple[int, ...] = SHAPE, dtype: str = "u2") -> np.ndarray:
    return np.random.default_rng(5).integers(0, 250, shape).astype(dtype)


def image(values: Any = None) -> xr.DataArray:
    """A volume with places."""
    values = volume() if values is None else values
    coords = {
        dim: (dim, STARTS[dim] + SCALES[dim] * np.arange(size), {"units": "nm"})
        for dim, size in zip("zyx", values.shape, strict=True)
    }
    return xr.DataArray(values, coords, ("z", "y", "x"))


def levels_of(
    values: np.ndarray, steps: Sequence[tuple[int, ...]], method: Method
) -> list[np.ndarray]:
    """What is to be stored: each level of the one before."""
    reduced = accumulate(steps, lambda finer, s: reduce_windows(finer, s, method), initial=values)
    return list(reduced)


def factors_of(steps: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    ones = (1,) * len(steps[0])
    return list(accumulate(steps, lambda a, b: tuple(np.multiply(a, b).tolist()), initial=ones))


def stored(place: Path, path: str = "p") -> dict[str, np.ndarray]:
    return {name: array[...] for name, array in open_group(place, path).arrays().items()}


def nm(**scales: float) -> tuple[Axis, ...]:
    return tuple(Axis(name=dim, scale=scale, unit="nm") for dim, scale in scales.items())


# What is in the levels, and where


@pytest.mark.parametrize("blocks", [None, 4])
@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize("path", ["", "em"])
def test_a_pyramid_without_coarser_levels_is_an_image_of_one_level(
    tmp_path: Path, form: Any, path: str, blocks: int | None
) -> None:
    values = np.arange(2 * 6 * 8, dtype="u2").reshape(2, 6, 8)
    coords: dict[str, Any] = {"c": ["DNA", "actin"]}
    coords["y"] = ("y", 7 + 3.0 * np.arange(6), {"units": "nm"})
    coords["x"] = ("x", 0.5 * np.arange(8), {"units": "nm"})
    source = xr.DataArray(values, coords, ("c", "y", "x"), "em")
    how: dict[str, Any] = {"format": form, "dialect": "ngff" if form == "n5" else None}
    pyramid(source.chunk(blocks) if blocks else source, tmp_path / "em", path, levels=0, **how)
    group = open_group(tmp_path / "em", path)
    assert list(group) == ["s0"]
    ome = group.attrs["ome"] if form == "zarr3" else group.attrs
    (found,) = ome["multiscales"]
    (level,) = found["datasets"]
    (scale, start) = level["coordinateTransformations"]
    order = slice(None, None, -1 if form == "n5" else 1)
    assert (level["path"], found["name"]) == ("s0", "em")
    assert (scale["scale"][order], start["translation"][order]) == ([1, 3, 0.5], [0, 7, 0])
    assert [each["label"] for each in ome["omero"]["channels"]] == ["DNA", "actin"]
    again = xr.open_dataset(tmp_path / "em", engine="n5", group=path, level=0)
    xr.testing.assert_equal(again["em"].load(), source)


@pytest.mark.matrix(4)
@pytest.mark.parametrize("unit", ["nm", "\N{MICRO SIGN}m", "Millimeters", "m", "wish"])
@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_a_pyramid_of_ome_ngff_takes_every_spelling_of_a_unit(
    tmp_path: Path, form: Any, unit: str
) -> None:
    small = image(volume((4, 8, 8)))
    for dim in small.dims:
        small[dim].attrs["units"] = unit
    pyramid(small, tmp_path / "p", "p", levels=1, chunks=4, dialect="ngff", format=form)
    tree = xr.open_datatree(tmp_path / "p", engine="n5", group="p")
    for level in ("s0", "s1"):
        units = [tree[level][dim].attrs["units"] for dim in "zyx"]
        assert same_unit(*units, unit), units
    tree.n5.to_n5(tmp_path / "q", format=form, dialect="ngff")
    again = xr.open_datatree(tmp_path / "q", engine="n5")
    np.testing.assert_allclose(again["s1"]["x"], tree["s1"]["x"])


@pytest.mark.matrix(3)
@pytest.mark.parametrize(
    ("kind", "method"),
    [
        *((kind, method) for kind in NAMES for method in ("mean", "nearest")),
        *(("n5", method) for method in ("mode", "max", "min")),
    ],
)
def test_levels_are_made_of_each_other_and_lie_where_they_belong(
    tmp_path: Path, kind: Any, method: Method
) -> None:
    place, steps = tmp_path / NAMES[kind], [(1, 2, 2), (1, 3, 2), (2, 2, 2)]
    pyramid(image(), place, "p", factors=steps, method=method, chunks=8, format=kind)
    expected = levels_of(volume(), steps, method)
    tree = xr.open_datatree(place, engine="n5", group="p")
    assert list(tree.children) == ["s0", "s1", "s2", "s3"]
    for level, (values, factors) in enumerate(zip(expected, factors_of(steps), strict=True)):
        name = f"s{level}"
        whole = xr.open_dataset(place, engine="n5", group="p", level=level)["p"]
        np.testing.assert_array_equal(whole, values)
        np.testing.assert_array_equal(tree[name]["p"], values)
        assert open_array(place, f"p/{name}").chunks == (8, 8, 8)
        for found in (whole, tree[name]["p"]):
            for dim, factor in zip("zyx", factors, strict=True):
                scale, count = SCALES[dim], np.arange(found.sizes[dim])
                shift = 0.0 if method == "nearest" else scale * (factor - 1) / 2
                where = (STARTS[dim] + shift) + scale * factor * count
                np.testing.assert_array_equal(found[dim], where)
                assert found[dim].attrs == {"units": "nm"}


def attributes(place: Path, *names: str) -> list[dict[str, Any]]:
    return [json.loads((place / name).read_bytes()) for name in names]


def test_each_reader_of_n5_finds_the_same_places_by_its_own_rule(tmp_path: Path) -> None:
    pyramid(image(), tmp_path, "p", factors=[(1, 2, 2), (2, 2, 3)], chunks=16)
    names = [f"p/s{level}/attributes.json" for level in range(3)]
    group, *own = attributes(tmp_path, "p/attributes.json", *names)
    base = [4.03, 4.1, 40.3]
    factors = [[1, 1, 1], [2, 2, 1], [6, 4, 2]]
    # Neuroglancer: the base level's axes on the group, and all factors, x first.
    assert group["axes"] == ["x", "y", "z"]
    assert (group["units"], group["resolution"]) == (["nm"] * 3, base)
    assert group["downsamplingFactors"] == factors
    for level, said in enumerate(own):
        # n5-viewer: the base level's resolution, times absolute factors.
        assert said["pixelResolution"] == {"dimensions": base, "unit": "nm"}
        assert said.get("downsamplingFactors", [1, 1, 1]) == factors[level]
        # TensorStore: each array's own resolution.
        assert said["resolution"] == [r * f for r, f in zip(base, factors[level], strict=True)]
        # COSEM: final numbers, z first, on the array and on the group.
        listed = group["multiscales"][0]["datasets"][level]
        assert listed == {"path": f"s{level}", "transform": said["transform"]}
        starts = [
            STARTS[dim] + SCALES[dim] * (factor - 1) / 2
            for dim, factor in zip("zyx", factors[level][::-1], strict=True)
        ]
        assert said["transform"]["translate"] == starts


@pytest.mark.parametrize("dialect", ["n5_viewer", "neuroglancer", "cosem", "ngff"])
def test_a_dialect_alone_tells_the_levels(tmp_path: Path, dialect: str) -> None:
    unit = "nanometer" if dialect == "ngff" else "nm"
    axes = [Axis(name=dim, scale=2.0, unit=unit) for dim in "zyx"]
    pyramid(with_axes(volume(), axes), tmp_path, "p", factors=[2, 2], dialect=dialect, chunks=16)
    found = open_array(tmp_path, "p/s2").geometry(dialect)
    assert [(axis.scale, axis.offset) for axis in found.axes] == [(8.0, 3.0)] * 3


def test_what_a_dialect_cannot_tell_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="cannot describe the offset of axis 'z'"):
        pyramid(image(), tmp_path / "a.n5", "p", dialect="n5_viewer")
    options: dict[str, Any] = {"dialect": "n5_viewer"}
    plain = with_axes(volume(), nm(z=1, y=1, x=1))
    with pytest.raises(MetadataError, match="cannot describe the offset"):
        pyramid(plain, tmp_path / "a.n5", factors=[2], method="nearest", **options)
    assert not (tmp_path / "a.n5").exists()


def test_others_read_each_level_of_zarr(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    pyramid(image(), tmp_path / "a.zarr", factors=[2, (1, 2, 2)], chunks=16, format="zarr2")
    expected = levels_of(volume(), [(2, 2, 2), (1, 2, 2)], "mean")
    group = zarr.open_group(tmp_path / "a.zarr", mode="r", zarr_format=2)
    (shown,) = group.attrs["multiscales"]
    assert [axis["unit"] for axis in shown["axes"]] == ["nanometer"] * 3
    for values, factors, told in zip(
        expected, [(1, 1, 1), (2, 2, 2), (2, 4, 4)], shown["datasets"], strict=True
    ):
        np.testing.assert_array_equal(group[told["path"]][...], values)
        scale, translation = told["coordinateTransformations"]
        sides = list(zip("zyx", factors, strict=True))
        assert scale["scale"] == [SCALES[dim] * factor for dim, factor in sides]
        assert translation["translation"] == [
            STARTS[dim] + SCALES[dim] * (factor - 1) / 2 for dim, factor in sides
        ]
        again = xr.open_dataset(tmp_path / "a.zarr", engine="n5", group=told["path"])
        assert again["a"].dims == ("z", "y", "x")


def test_a_pyramid_of_nothing_but_numbers_counts_in_samples_of_its_base(tmp_path: Path) -> None:
    pyramid(volume((40, 60)), tmp_path, "p", chunks=16)
    tree = xr.open_datatree(tmp_path, engine="n5", group="p")
    assert [node.sizes["x"] for node in tree.children.values()] == [60, 30, 15]
    assert tree["s2"].p.x.to_numpy()[:2].tolist() == [1.5, 5.5]
    assert tree["s0"].p.y.to_numpy()[:2].tolist() == [0.0, 1.0]


def test_times_and_channels_keep_their_samples(tmp_path: Path) -> None:
    labels = ("DAPI", "GFP")
    axes = [Axis(name="t", scale=0.5, unit="s"), Axis(name="c", labels=labels)]
    values = volume((3, 2, 20, 30))
    for kind, name in NAMES.items():
        place = tmp_path / name
        pyramid(with_axes(values, [*axes, *nm(y=5, x=5)]), place, chunks=(1, 1, 8, 8), format=kind)
        tree = xr.open_datatree(place, engine="n5")
        for level, node in enumerate(tree.children.values()):
            assert node.sizes["t"] == 3
            assert node.sizes["c"] == 2
            assert node.t.to_numpy().tolist() == [0.0, 0.5, 1.0]
            assert node.x.to_numpy()[0] == 5 * (2**level - 1) / 2
        assert list(tree.children) == ["s0", "s1", "s2"]
    assert tree["s2"].sizes["x"] == 7


# By how much


@pytest.mark.parametrize(
    ("scales", "shape", "expected"),
    [
        # Nearest to cubes, as n5-spark's powers of two: 4 x 4 x 40, then 32 x 32 x 40 goes whole.
        (
            {"z": 40, "y": 4, "x": 4},
            (300, 3000, 3000),
            [(1, 2, 2)] * 3 + [(2, 2, 2)] * 3,
        ),
        ({"z": 4, "y": 4, "x": 8}, (256, 256, 128), [(2, 2, 1), (2, 2, 2)]),
        ({"z": 1, "y": 1, "x": 1.5}, (128, 128, 128), [(2, 2, 1), (2, 2, 2)]),
        # What has one sample is not halved, and does not count.
        ({"z": 1, "y": 4, "x": 4}, (1, 128, 128), [(1, 2, 2)]),
        ({"z": 1, "y": 1, "x": 1}, (64, 64, 64), []),
    ],
)
def test_the_shortest_voxels_are_halved_until_one_chunk_holds_a_level(
    scales: dict[str, float], shape: tuple[int, ...], expected: list[tuple[int, ...]]
) -> None:
    assert steps_of(Geometry(nm(**scales)), shape, (64, 64, 64), None, None) == expected


def test_voxels_are_compared_in_one_unit() -> None:
    geometry = Geometry((Axis(name="z", scale=1.0, unit="um"), *nm(y=500, x=500)))
    assert steps_of(geometry, (64,) * 3, (16,) * 3, None, 2) == [(1, 2, 2), (2, 2, 2)]


def test_factors_are_given_in_several_ways() -> None:
    geometry = Geometry((Axis(name="t"), *nm(y=1, x=1)))
    for factors, levels, expected in (
        (2, 2, [(1, 2, 2)] * 2),
        ({"x": 4}, 1, [(1, 1, 4)]),
        ([2, {"t": 2}, (1, 3, 1)], None, [(1, 2, 2), (2, 1, 1), (1, 3, 1)]),
        ({"x": 8}, 2, [(1, 1, 8), (1, 1, 5)]),
        (None, 0, []),
    ):
        steps = steps_of(geometry, (4, 40, 40), (4, 4, 4), factors, levels)  # type: ignore[arg-type]
        assert steps == expected


@pytest.mark.parametrize(
    ("factors", "levels", "problem"),
    [
        ([2, 1], None, "would not be coarser"),
        ([(2, 2)], None, "3 numbers of at least 1"),
        ([{"q": 2}], None, r"\['q'\]; expected some of"),
        ([{"y": 0}], None, "at least 1"),
        ([{"y": 2.5}], None, "whole numbers"),
        ([{"y": 41}], None, "'y' has 40 samples"),
        ([2], 1, "omit levels="),
        (2, -1, "levels is -1"),
        (2, 9, "only 5 coarser levels"),
        ({"c": 2}, 1, "labels"),
    ],
)
def test_factors_that_make_no_sense_are_refused(factors: Any, levels: Any, problem: str) -> None:
    geometry = Geometry((Axis(name="c", labels=("a", "b", "c", "d")), *nm(y=1, x=1)))
    with pytest.raises(ValueError, match=problem):
        steps_of(geometry, (4, 40, 40), (4, 4, 4), factors, levels)


@pytest.mark.parametrize("levels", [None, 1])
@pytest.mark.parametrize("factors", [1, {"y": 1}, 2])
def test_factors_by_which_nothing_is_coarser_are_refused(
    tmp_path: Path, factors: Any, levels: int | None
) -> None:
    axes = ["sample", "band"] if factors == 2 else ["y", "x"]
    with pytest.raises(ValueError, match="no level would be coarser"):
        pyramid(with_axes(volume((4, 5)), axes), tmp_path, "p", factors=factors, levels=levels)
    assert not list(tmp_path.iterdir())


def test_axes_that_are_not_known_to_be_space_are_left_to_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pass factors="):
        pyramid(with_axes(volume((4, 5)), ["sample", "band"]), tmp_path, "p")
    pyramid(with_axes(volume((4, 5)), ["sample", "band"]), tmp_path, "p", factors=[{"band": 2}])
    assert stored(tmp_path)["s1"].shape == (4, 2)


@settings(max_examples=12, deadline=None)
@given(
    shape=st.tuples(*[st.integers(1, 12)] * 2),
    chunks=st.tuples(*[st.integers(1, 5)] * 2),
    steps=st.lists(st.tuples(*[st.integers(1, 4)] * 2), max_size=3),
    method=st.sampled_from(["mean", "mode", "nearest", "max"]),
)
def test_any_pyramid_is_what_it_is_in_memory(
    shape: tuple[int, int],
    chunks: tuple[int, int],
    steps: list[tuple[int, int]],
    method: Method,
) -> None:
    proper, size = [], shape
    for step in steps:
        fitting = (min(step[0], size[0]), min(step[1], size[1]))
        if fitting != (1, 1):
            proper.append(fitting)
            size = coarse_shape(size, fitting)  # type: ignore[assignment]
    values, store = volume(shape), MemoryStore()
    with dask.config.set({"array.chunk-size": "64B", "scheduler": "synchronous"}):
        options: dict[str, Any] = {"method": method, "chunks": chunks}
        pyramid(with_axes(values, nm(y=1, x=1)), store, factors=proper, **options)
    for level, expected in enumerate(levels_of(values, proper, method)):
        np.testing.assert_array_equal(open_array(store, f"s{level}")[...], expected)


# Sources and places


def test_levels_go_beside_an_array_that_stays(tmp_path: Path) -> None:
    to_n5(image(), tmp_path / "a.n5", "em/s0", chunks=8, compression="zstd")
    create_array(tmp_path / "a.n5", "em/other", shape=(2,), dtype="u1")
    before = files(tmp_path / "a.n5/em/s0")
    receipts = add_levels(tmp_path / "a.n5/em/s0", factors=[2, 2])
    assert list(receipts.arrays) == ["s1", "s2"]
    whole = files(tmp_path / "a.n5/em/s0")
    after = dict(whole)
    said, told = (json.loads(each.pop("attributes.json")) for each in (before, after))
    assert after == before
    assert told == {**said, "downsamplingFactors": [1, 1, 1]}
    expected = levels_of(volume(), [(2, 2, 2)] * 2, "mean")
    for level, values in enumerate(expected):
        found = xr.open_dataset(tmp_path / "a.n5", engine="n5", group=f"em/s{level}")
        np.testing.assert_array_equal(found["em"], values)
        assert found.z.to_numpy()[0] == STARTS["z"] + SCALES["z"] * (2**level - 1) / 2
    assert open_array(tmp_path / "a.n5", "em/s2").compression.name == "zstd"
    # An open array, and its place in two parts, say the same.
    place = tmp_path / "a.n5"
    for source, path in ((open_array(place, "em/s0"), ""), (place, "em/s0")):
        with pytest.raises(NodeExistsError, match="mode='w'"):
            add_levels(source, path=path, factors=[2])
    add_levels(tmp_path / "a.n5", path="em/s0", factors=[2], method="max", mode="w")
    assert set(open_group(tmp_path / "a.n5", "em")) == {"s0", "s1", "other"}
    assert files(tmp_path / "a.n5/em/s0") == whole


def test_an_array_is_copied_with_its_levels(tmp_path: Path) -> None:
    to_n5(image(), tmp_path / "a.n5", "raw", chunks=(4, 8, 8), compression="lz4")
    source = open_array(tmp_path / "a.n5", "raw")
    with pytest.raises(ValueError, match=r"not called 's0'.* such as 'pyramid.n5/raw'$"):
        add_levels(source)
    with pytest.raises(TypeError, match="pass the array in it"):
        pyramid(str(tmp_path / "a.n5"), tmp_path / "b.zarr")
    pyramid(source, tmp_path / "b.zarr", "q", factors=[2], format="zarr2")
    np.testing.assert_array_equal(open_array(tmp_path / "b.zarr", "q/s0")[...], volume())
    assert open_array(tmp_path / "b.zarr", "q/s1").chunks == (4, 8, 8)
    assert open_array(tmp_path / "b.zarr", "q/s1").axes[2].offset == 4.03 / 2


def test_a_source_that_is_stored_nowhere_needs_a_place(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="pass the url"):
        add_levels(image())
    with pytest.raises(NodeNotFoundError):
        add_levels(tmp_path / "a.n5", path="s0")
    to_n5(volume((3, 3)), tmp_path, "s0")
    with pytest.raises(TypeError, match="already open"):
        add_levels(open_array(tmp_path, "s0"), path="s0")


def test_an_array_that_is_not_whole_gets_no_levels(tmp_path: Path) -> None:
    source = da.from_array(volume(), chunks=8)
    to_n5(source, tmp_path, "p/s0", compute=False)
    begin(tmp_path, "p/s0")
    with (
        pytest.warns(UnfinishedWriteWarning),
        pytest.raises(ValueError, match="resume that first"),
    ):
        add_levels(tmp_path, path="p/s0", factors=[2])
    to_n5(source, tmp_path, "p/s0", resume=True)
    add_levels(tmp_path, path="p/s0", factors=[2])
    expected = levels_of(volume(), [(2, 2, 2)], "mean")[1]
    np.testing.assert_array_equal(open_array(tmp_path, "p/s1")[...], expected)


# Nothing is lost


def test_a_dataset_with_coordinates_beside_it_still_opens(tmp_path: Path) -> None:
    image().to_dataset(name="s0").n5.to_n5(tmp_path / "a.zarr", format="zarr2")
    before = files(tmp_path)
    with pytest.raises(NodeExistsError, match=r"'x' in .* named like an axis"):
        add_levels(tmp_path / "a.zarr", path="s0", factors=[2])
    assert files(tmp_path) == before


def test_what_is_there_stays_or_is_replaced_as_asked(tmp_path: Path) -> None:
    create_group(tmp_path, "p", attributes={"mine": [1]})
    how: dict[str, Any] = {"factors": [2, 2, 2], "dialect": "cosem", "chunks": 16}
    with pytest.raises(NodeExistsError, match="attributes"):
        pyramid(image(), tmp_path, "p", **how)
    pyramid(image(), tmp_path, "p", mode="w", **how)
    before = files(tmp_path)
    with pytest.raises(NodeExistsError, match="mode='w'"):
        pyramid(image(), tmp_path, "p", factors=[2], chunks=16)
    with pytest.raises(ValueError, match="mean of bool"):
        pyramid(volume() > 3, tmp_path, "p", mode="w", method="mean")
    with pytest.raises(NodeExistsError, match="computed from"):
        pyramid(from_n5(tmp_path, "p/s3"), tmp_path, "p", mode="w", factors=[2])
    with pytest.raises(MetadataError, match="complex"):
        pyramid(volume() + 1j, tmp_path, "p", mode="w", method="nearest")
    for values in (np.float32(1), np.array(["a", "b"]), np.zeros(4, "M8[s]")):
        with pytest.raises(ValueError, match="not defined"):
            pyramid(values, tmp_path, "p", mode="w")
    assert files(tmp_path) == before
    pyramid(image(), tmp_path, "p", factors=[2], mode="w", chunks=16)
    group = open_group(tmp_path, "p")
    assert set(group) == {"s0", "s1"}
    assert {"mine", "scales"}.isdisjoint(group.attrs)


@pytest.mark.parametrize("kind", NAMES)
def test_mode_w_removes_what_a_dataset_has_stored_in_the_group(tmp_path: Path, kind: Any) -> None:
    place = tmp_path / NAMES[kind]
    coords = {"x": ("x", np.arange(6) * 0.5, {"units": "um"})}
    older = xr.Dataset({"raw": ("x", np.arange(6)), "count": ("x", np.ones(6))}, coords, {"a": 1})
    older.n5.to_n5(place, group="p", format=kind)
    create_array(place, "p/masks/x", shape=(2,), dtype="u1")[...] = 7
    pyramid(image(), place, "p", factors=[2], mode="w", chunks=16)
    group = open_group(place, "p")
    assert (set(group.arrays()), set(group.nodes())) == ({"s0", "s1"}, {"s0", "s1", "masks"})
    assert "a" not in group.attrs
    assert open_array(place, "p/masks/x")[...].tolist() == [7, 7]
    fine = xr.open_dataset(place, engine="n5", group="p", level=0)
    assert dict(fine.sizes) == dict(zip("zyx", SHAPE, strict=True))


@pytest.mark.parametrize("kind", ["n5", "zarr2"])
@pytest.mark.parametrize("level", ["s1", "s3"])
def test_what_lies_in_levels_does_not_go_with_them(tmp_path: Path, kind: Any, level: str) -> None:
    place = tmp_path / NAMES[kind]
    pyramid(image(), place, "p", factors=[2, 2, 2], chunks=16, format=kind)
    (place / "p" / level / "README.txt").write_text("keep")
    before = files(tmp_path)
    with pytest.raises(NodeExistsError, match=r"README\.txt"):
        pyramid(image(), place, "p", factors=[2], mode="w", chunks=16)
    assert files(tmp_path) == before


class Broken(Exception):  # noqa: N818
    """Stands for what stops a task."""


def fail(*_: object) -> np.ndarray:
    raise Broken


def broken() -> da.Array:
    """Numbers that are never computed, by a name that does not change."""
    one: Any = delayed(fail)(dask_key_name="failing")
    found: da.Array = da.from_delayed(one, SHAPE, "u2", name="broken")
    return found


def test_levels_of_a_pyramid_that_was_stopped_go_with_it(tmp_path: Path) -> None:
    with pytest.raises(Broken):
        pyramid(
            with_axes(broken(), nm(z=1, y=1, x=1)), tmp_path, "p", factors=[2, 2], dialect="cosem"
        )
    # Attributes may not have been written yet.
    open_group(tmp_path, "p", mode="r+").attrs.clear()
    with pytest.warns(UserWarning, match="replaces an unfinished write"):
        pyramid(image(), tmp_path, "p", factors=[2], mode="w", chunks=16)
    assert set(open_group(tmp_path, "p")) == {"s0", "s1"}
    assert not list(tmp_path.rglob(".xn5/open*"))


@pytest.mark.parametrize(
    ("y", "other"), [(2, {}), (1, {"dialect": "cosem"})], ids=["axes", "dialect"]
)
def test_a_pyramid_with_other_places_does_not_go_on(tmp_path: Path, y: int, other: Any) -> None:
    image = with_axes(broken(), nm(z=1, y=1, x=1))
    with pytest.raises(Broken):
        pyramid(image, tmp_path, "p", factors=[2])
    before = files(tmp_path)
    changed = with_axes(broken(), nm(z=1, y=y, x=1))
    with pytest.raises(ResumeError):
        pyramid(changed, tmp_path, "p", factors=[2], **other, resume=True)
    assert files(tmp_path) == before
    with pytest.raises(Broken):
        pyramid(image, tmp_path, "p", factors=[2], resume=True)


def test_levels_are_not_written_beside_other_images(tmp_path: Path) -> None:
    to_n5(image(), tmp_path / "a.n5", "raw", chunks=16)
    before = files(tmp_path)
    with pytest.raises(NodeExistsError, match="contains raw"):
        pyramid(image(), tmp_path / "a.n5", factors=[2])
    assert files(tmp_path) == before
    pyramid(image(), tmp_path / "a.n5", "pyramid", factors=[2])


def test_a_group_that_contradicts_is_told_before_anything_is_written(tmp_path: Path) -> None:
    to_n5(image(), tmp_path, "p/s0", chunks=16, dialect="cosem")
    create_group(tmp_path, "p", mode="a", attributes={"downsamplingFactors": [[1, 1, 1]]})
    before = files(tmp_path)
    with pytest.raises(MetadataError, match=r"other \['downsamplingFactors'\]"):
        add_levels(tmp_path, path="p/s0", factors=[2])
    assert files(tmp_path) == before
    add_levels(tmp_path, path="p/s0", factors=[2], mode="w")
    assert open_array(tmp_path, "p/s1").axes[0].scale == 80.6


def test_levels_are_verified_and_empty_chunks_left_out(tmp_path: Path) -> None:
    values = np.zeros((32, 32), "u1")
    values[:8, :8] = 9
    with set_options(checksums=True):
        pyramid(values, tmp_path, "p", chunks=8, write_empty_chunks=False)
    assert len(list(open_array(tmp_path, "p/s1").node.stored_chunks())) == 1
    for name in ("s0", "s1", "s2"):
        assert set(verify(tmp_path, f"p/{name}").state.values.ravel()) <= {"ok", "missing"}
    chunk = next((tmp_path / "p/s1").glob("0/0"))
    chunk.write_bytes(chunk.read_bytes()[:-3])
    assert "ok" not in set(verify(tmp_path, "p/s1").state.values.ravel()[:1])


# Cost


def test_each_chunk_is_read_once_and_written_once() -> None:
    store = CountingStore()
    to_n5(volume((64, 64)), store, "p/s0", chunks=16, compression=None)
    store.written.clear()
    store.requests()
    add_levels(store, path="p/s0", factors=[2])
    chunks = {key: count for key, count in store.written.items() if key.startswith("p/s1/")}
    del chunks["p/s1/attributes.json"]
    assert {key: n for key, n in chunks.items() if "/.xn5/" not in key} == {
        f"p/s1/{i}/{j}": 1 for i in range(2) for j in range(2)
    }


def test_memory_does_not_grow_with_the_volume(tmp_path: Path) -> None:
    source = da.ones((16, 1024, 576), chunks=(16, 64, 64), dtype="u1")
    tracemalloc.start()
    try:
        with dask.config.set({"array.chunk-size": "512KiB", "scheduler": "synchronous"}):
            pyramid(source, tmp_path, chunks=(16, 64, 64), compression="zstd")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20 < source.nbytes
    assert (open_array(tmp_path, "s4")[...] == 1).all()


# Interruptions


def test_a_cluster_writes_a_pyramid(tmp_path: Path, cluster: Client) -> None:
    blocks = da.from_array(volume((32, 64, 64)), chunks=(16, 32, 32))
    source = with_axes(blocks, nm(z=1, y=1, x=1))
    options: dict[str, Any] = {"chunks": 8, "levels": 2}
    with cluster.as_current():
        receipts = pyramid(source, tmp_path / "here/a.n5", **options)
    pyramid(source, tmp_path / "there/a.n5", **options)
    assert files(tmp_path / "here/a.n5") == files(tmp_path / "there/a.n5")
    assert receipts.arrays["s1"].receipts.names[0].startswith("tcp://")


@pytest.mark.parametrize("how", [{}, {"format": "zarr3"}, {"format": "zarr3", "dialect": "ngff"}])
def test_channels_with_ids_are_stored_with_their_names(tmp_path: Path, how: Any) -> None:
    names, um = ["DAPI", "GFP"], {"units": "um"}
    coords = {"channel": [0, 1], "channel_name": ("channel", names), "x": ("x", np.arange(8.0), um)}
    image = xr.DataArray(
        np.arange(128, dtype="u1").reshape(2, 8, 8), coords, ("channel", "y", "x"), "raw"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pyramid(image, tmp_path / "a", levels=1, **how)
    for level in range(2):
        found = xr.open_dataset(tmp_path / "a", engine="n5", level=level)
        assert found["channel"].values.tolist() == names


def test_other_coordinates_are_named_in_a_warning(tmp_path: Path) -> None:
    coords: Any = {"c": ["a", "b"], "wavelength": ("c", [405, 488]), "t": 3}
    image = xr.DataArray(np.ones((2, 8, 8)), coords, ("c", "y", "x"), "raw")
    with pytest.warns(UserWarning, match=r"omitted, .* their axes only: wavelength, t$"):
        pyramid(image, tmp_path / "a.n5", levels=1)
    assert open_array(tmp_path / "a.n5", "s1").shape == (2, 4, 4)


@pytest.mark.parametrize(
    ("dims", "image"),
    [
        (("tile", "z", "y", "x"), False),
        (("y", "x", "c"), False),
        (("t", "c", "z", "y", "x"), True),
        (("x",), None),
    ],
)
def test_axes_that_ome_zarr_lacks_are_named_in_a_warning(
    tmp_path: Path, dims: tuple[str, ...], image: bool | None
) -> None:
    values = xr.DataArray(np.ones((4,) * len(dims), "u1"), dims=dims, name="raw")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        pyramid(values, tmp_path / "a.zarr", factors=2, levels=1)
        pyramid(values, tmp_path / "a.n5", factors=2, levels=1)
    assert [str(each.message).split(";")[0] for each in found] == [
        f"{tmp_path}/a.zarr: viewers find no image here, as OME-Zarr has no images with the axes "
        + ", ".join(dims)
    ] * (image is False)
    assert bool(open_group(tmp_path / "a.zarr").attrs) is bool(image)


def test_names_of_channels_beside_tiles_are_refused_with_the_reason(tmp_path: Path) -> None:
    values = xr.DataArray(np.ones((2, 3, 4, 4), "u1"), dims=("channel", "tile", "y", "x"))
    with pytest.raises(MetadataError, match=r"labels .*: OME-Zarr has no images with the axes"):
        pyramid(values.assign_coords(channel=["a", "b"]), tmp_path / "a.zarr", levels=1)


# Labels


def ngff(place: Path, path: str) -> Any:
    """The attributes of a group that OME-NGFF describes, with its version."""
    attributes = open_group(place, path).attrs
    return attributes.get("ome", {"version": "0.4", **attributes})


@pytest.mark.parametrize("how", ["array", "levels", "stored", "copied"])
@pytest.mark.parametrize(
    ("form", "dialect"), [("zarr2", None), ("zarr3", None), ("zarr3", "ngff-0.6")]
)
def test_labels_are_listed_by_their_image(
    tmp_path: Path, form: Any, dialect: str | None, how: str
) -> None:
    place, options = tmp_path / "a.zarr", {"format": form, "chunks": 16, "dialect": dialect}
    pyramid(image(), place, **options)
    labels = image(volume(dtype="i4"))
    for name in ("nuclei", "cells", "nuclei"):
        path = f"labels/{name}"
        mode: Any = "w" if path in open_group(place) else "w-"
        if how in {"levels", "copied"}:
            pyramid(labels, tmp_path / "b.n5", mode="w", chunks=16, method="mode")
        if how == "copied":
            copy(tmp_path / "b.n5", place / path, mode=mode, dialect=dialect)
        elif how == "levels":
            tree = xr.open_datatree(tmp_path / "b.n5", engine="n5")
            tree.n5.to_n5(place, path, mode=mode, format=form, dialect=dialect)
        elif how == "stored" and mode == "w-":
            to_n5(labels, place, f"{path}/s0", chunks=16, format=form)
            add_levels(place, path=f"{path}/s0", dialect=dialect)
        else:
            pyramid(labels, place, path, mode=mode, **options)
    assert ngff(place, "labels")["labels"] == ["nuclei", "cells"]
    assert ngff(place, "labels")["version"] == ngff(place, "")["version"]
    found = ngff(place, "labels/nuclei")["image-label"]
    version = {"version": "0.4"} if form == "zarr2" else {}
    assert found == {**version, "source": {"image": "../../"}}
    assert "image-label" not in ngff(place, "")
    first, second = (open_array(place, f"labels/nuclei/s{n}") for n in (0, 1))
    step = tuple(a // b for a, b in zip(first.shape, second.shape, strict=True))
    np.testing.assert_array_equal(second[...], levels_of(first[...], [step], "mode")[1])


@pytest.mark.parametrize(
    ("path", "dtype", "around"),
    [("labels/a", "f4", True), ("labels/a", "i4", False), ("cells/a", "i4", True)],
    ids=["real numbers", "no image around them", "another group"],
)
def test_others_are_no_labels(tmp_path: Path, path: str, dtype: str, around: bool) -> None:
    if around:
        pyramid(image(), tmp_path / "a.zarr", levels=1)
    pyramid(image(volume(dtype=dtype)), tmp_path / "a.zarr", path, levels=1)
    assert "image-label" not in open_group(tmp_path / "a.zarr", path).attrs
    assert "labels" not in open_group(tmp_path / "a.zarr", path.partition("/")[0]).attrs


@pytest.mark.parametrize(
    ("dtype", "method"), [("u8", "mode"), ("i8", "mean"), ("?", "mode"), ("u2", "mean")]
)
def test_the_default_method_averages_no_labels(tmp_path: Path, dtype: str, method: Any) -> None:
    values = image(volume().astype(dtype))
    by_default, asked = tmp_path / "a.n5", tmp_path / "b.n5"
    if dtype == "?":
        by_default, asked = tmp_path / "a.zarr", tmp_path / "b.zarr"
    pyramid(values, by_default, levels=1, factors=2)
    pyramid(values, asked, levels=1, factors=2, method=method)
    np.testing.assert_array_equal(open_array(by_default, "s1")[...], open_array(asked, "s1")[...])


def test_labels_of_paintera_are_not_averaged(tmp_path: Path) -> None:
    place = tmp_path / "a.n5"
    create_group(place, "ids", attributes={"painteraData": {"type": "label"}})
    to_n5(image(volume(dtype="u4")), place, "ids/data/s0")
    add_levels(place, path="ids/data/s0", levels=1, factors=2)
    expected = levels_of(volume(dtype="u4"), [(2, 2, 2)], "mode")[1]
    np.testing.assert_array_equal(open_array(place, "ids/data/s1")[...], expected)
