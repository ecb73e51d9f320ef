"""Containers as programs of the field lay them out: coordinates are right, or a warning says."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from tests.containers import write_document
from tests.remote import Far
from xarray_n5 import copy, create_array, open_array, to_n5
from xarray_n5.stores import FsspecStore

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.model.axes import Geometry


def put(place: Path, shape: tuple[int, ...], /, **attributes: Any) -> Path:
    """An array with attributes, of which none is looked at when they are written."""
    create_array(place, shape=shape, dtype="u1", chunks=4)[...] = 1
    document = place / "attributes.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), **attributes}))
    return place


def axes_of(place: Path | str, path: str = "") -> list[tuple[str, str | None, float | None, float]]:
    """The axes of an array; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return facts(open_array(place, path).geometry())


def facts(geometry: Geometry) -> list[tuple[str, str | None, float | None, float]]:
    return [(str(a.name), a.unit, a.scale, a.offset) for a in geometry.with_names().axes]


# COSEM and CellMap: crops for training


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ({"offset_unit": "nm"}, ("nm", 400.0)),
        ({"resolution_unit": "nm"}, ("nm", 400.0)),
        ({"resolution_unit": "nm", "offset_unit": "nm"}, ("nm", 400.0)),
        ({"unit": "um", "offset_unit": "um", "resolution_unit": "nm"}, ("um", 400.0)),
        ({"resolution_unit": "nm", "offset_unit": "um"}, ("nm", 400_000.0)),
    ],
)
def test_crops_of_cellmap_have_the_unit_of_their_offset(
    tmp_path: Path, units: dict[str, str], expected: tuple[str, float]
) -> None:
    said = {"offset": [100, 200, 400], "resolution": [4, 4, 40], "name": "all", "ids": [1, 2]}
    place = put(tmp_path / "x.n5/crop1/labels/all", (4, 4, 4), **said, **units)
    assert axes_of(place)[0] == ("z", expected[0], 40.0, expected[1])
    attributes = xr.open_dataset(place, engine="n5")["all"].attrs
    assert attributes == {"name": "all", "ids": [1, 2]}


def test_an_offset_in_a_unit_that_does_not_fit_is_refused_with_a_warning(tmp_path: Path) -> None:
    said = {"offset": [1, 2, 3], "resolution": [4, 4, 40], "unit": "nm", "offset_unit": "s"}
    place = put(tmp_path / "x.n5/a", (4, 4, 4), **said)
    with pytest.warns(UserWarning, match="'offset_unit' is 's'"):
        assert not open_array(place).geometry().placed


# Levels whose container is not called *.n5

GROUP = {
    "axes": ["x", "y", "z"],
    "units": ["um"] * 3,
    "resolution": [25, 25, 25],
    "downsamplingFactors": [[1, 1, 1], [2, 2, 2]],
    "multiScale": True,
}
"""As in the Human Organ Atlas."""

SECOND = [(name, "um", 50.0, 12.5) for name in "zyx"]


def test_the_url_of_a_level_gets_the_coordinates_of_its_group(tmp_path: Path) -> None:
    for level in ("s0", "s1"):
        put(tmp_path / "bucket/25um" / level, (4, 4, 4), axes=["x", "y", "z"])
    write_document(tmp_path / "bucket/25um", **GROUP)
    for place, path in (("25um/s1", ""), ("25um", "s1"), ("", "25um/s1")):
        assert axes_of(tmp_path / "bucket" / place, path) == SECOND
    opened = xr.open_dataset(tmp_path / "bucket/25um/s1", engine="n5")["s1"]
    assert opened.x.values.tolist() == [12.5, 62.5, 112.5, 162.5]
    assert opened.x.attrs["units"] == "um"


@pytest.mark.parametrize(
    ("group", "expected"),
    [({**GROUP, "scales": GROUP["downsamplingFactors"]}, "um"), ({"axes": ["a", "b", "c"]}, None)],
)
def test_levels_that_are_numbers_need_a_group_of_levels(
    tmp_path: Path, group: dict[str, Any], expected: str | None
) -> None:
    put(tmp_path / "25um/0", (4, 4, 4))
    write_document(tmp_path / "25um", **group)
    assert axes_of(tmp_path / "25um/0")[0][1] == expected


def test_directories_above_one_without_metadata_say_nothing(tmp_path: Path) -> None:
    put(tmp_path / "em/25um/s1", (4, 4, 4))
    write_document(tmp_path / "em", **GROUP)
    assert axes_of(tmp_path / "em/25um/s1") == [(name, None, None, 0.0) for name in "zyx"]


def test_levels_of_zarr_get_the_coordinates_of_their_image(tmp_path: Path) -> None:
    place = tmp_path / "image.zarr"
    scale = {"type": "scale", "scale": [40.0, 4.0, 4.0]}
    units = [{"name": n, "type": "space", "unit": "nanometer"} for n in "zyx"]
    image = {"version": "0.4", "axes": units}
    image["datasets"] = [{"path": "0", "coordinateTransformations": [scale]}]
    create_array(place, "0", shape=(4, 4, 4), dtype="u1", format="zarr2")[...] = 1
    (place / ".zattrs").write_text(json.dumps({"multiscales": [image]}))
    assert axes_of(place / "0")[0] == ("z", "nanometer", 40.0, 0.0)


def test_the_groups_of_a_level_far_away_are_asked_for_in_one_batch() -> None:
    fs = Far()
    made = FsspecStore(fs, "b/data/25um")
    for level in ("s0", "s1"):
        create_array(made, level, shape=(4, 4, 4), dtype="u1")
    made.set("attributes.json", json.dumps(GROUP).encode())
    array = open_array(FsspecStore(fs, "b/data/25um/s1"))
    fs.latency = 0.005
    fs.reset()
    assert facts(array.geometry()) == SECOND
    assert fs.rounds == 1
    assert fs.counts["GET"] <= 4


# Janelia's render, and BossDB

STACK: dict[str, Any] = {
    "axes": ["x", "y", "z"],
    "ordering": "F",
    "units": ["nm"] * 3,
    "scales": [[1, 1, 1], [2, 2, 2]],
    "pixelResolution": {"dimensions": [4.0, 4.0, 8.0], "unit": "nm"},
    "translate": [-500, 120, 1],
}


def render(place: Path, *, transforms: bool = True, **more: Any) -> Path:
    """What render writes (saalfeldlab/render, NeuroglancerAttributes)."""
    for level, factor in (("s0", 1), ("s1", 2)):
        steps = [4.0, 4.0, 8.0]
        transform = {
            "axes": ["x", "y", "z"],
            "ordering": "F",
            "units": ["nm"] * 3,
            "scale": [step * factor for step in steps],
            "translate": [step * (factor - 1) / 2 for step in steps],
        }
        put(place / level, (4, 4, 4), **({"transform": transform} if transforms else {}))
    write_document(place, **{**STACK, **more})
    return place


@pytest.mark.parametrize("transforms", [True, False])
def test_stacks_of_render_begin_where_their_group_says(tmp_path: Path, transforms: bool) -> None:
    place = render(tmp_path / "x.n5/stack", transforms=transforms)
    base = [("z", "nm", 8.0, 8.0), ("y", "nm", 4.0, 480.0), ("x", "nm", 4.0, -2000.0)]
    assert axes_of(place / "s0") == base
    coarse = [("z", "nm", 16.0, 12.0), ("y", "nm", 8.0, 482.0), ("x", "nm", 8.0, -1998.0)]
    assert axes_of(place / "s1") == coarse


def test_an_array_of_render_by_itself_begins_where_it_says(tmp_path: Path) -> None:
    place = put(tmp_path / "x.n5/stack", (4, 4, 4), **{**STACK, "scales": [[1, 1, 1]]})
    assert axes_of(place)[2] == ("x", "nm", 4.0, -2000.0)


def test_a_stack_in_a_unit_that_does_not_fit_warns(tmp_path: Path) -> None:
    resolution = {"dimensions": [4.0, 4.0, 8.0], "unit": "s"}
    place = render(tmp_path / "x.n5/stack", pixelResolution=resolution)
    with pytest.warns(UserWarning, match="'translate' of the group is in 's', not in 'nm'"):
        open_array(place / "s0").geometry()


def test_levels_of_bossdb_are_as_coarse_as_their_group_says(tmp_path: Path) -> None:
    place = tmp_path / "x.n5/image"
    axes, steps = ["x", "y", "z", "c"], [4.0, 4.0, 40.0, 1.0]
    transform = {"axes": axes, "ordering": "F", "units": ["nm", "nm", "nm", ""], "scale": steps}
    for level, side in (("s0", 8), ("s1", 4)):
        put(place / level, (1, 4, side, side), transform={**transform, "translate": [0] * 4})
    write_document(
        place,
        axes=axes,
        ordering="C",
        scales=[[1, 1, 1, 1], [2, 2, 1, 1]],
        translate=[0, 0, 0, 0],
        units=["nm", "nm", "nm", ""],
        pixelResolution={"dimensions": steps, "unit": "nm"},
    )
    with pytest.warns(UserWarning, match="scale of the base level"):
        found = facts(open_array(place / "s1").geometry())
    assert found[1:] == [("z", "nm", 40.0, 0.0), ("y", "nm", 8.0, 2.0), ("x", "nm", 8.0, 2.0)]
    assert axes_of(place / "s0")[3] == ("x", "nm", 4.0, 0.0)


# funlib.persistence

DACAPO: dict[str, Any] = {"voxel_size": [40, 4, 8], "offset": [400, 40, 80], "units": ["nm"] * 3}

PLACES = [("z", "nm", 40.0, 400.0), ("y", "nm", 4.0, 40.0), ("x", "nm", 8.0, 80.0)]


@pytest.mark.parametrize("form", ["n5", "zarr2"])
@pytest.mark.parametrize(
    ("more", "channels"),
    [
        ({}, []),
        ({"axis_names": ["z", "y", "x"]}, []),
        ({"axis_names": ["d0", "d1", "d2"], "types": ["space"] * 3}, []),
        ({"axis_names": ["c^", "z", "y", "x"]}, ["c"]),
        ({"axis_names": ["c", "z", "y", "x"], "types": ["channel"] + ["space"] * 3}, ["c"]),
        ({"axis_names": ["c0^", "d0", "d1", "d2"]}, ["c0"]),
    ],
)
def test_lists_of_funlib_are_in_c_order_and_leave_out_channels(
    tmp_path: Path, form: str, more: dict[str, Any], channels: list[str]
) -> None:
    place = tmp_path / ("x.n5" if form == "n5" else "x.zarr")
    shape = (2,) * len(channels) + (4, 4, 4)
    create_array(place, "a", shape=shape, dtype="u1", attributes={**DACAPO, **more}, format=form)
    found = axes_of(place, "a")
    assert found[-3:] == PLACES
    assert found[:-3] == [(name, None, None, 0.0) for name in channels]


def test_lists_of_funlib_for_all_axes_are_read_too(tmp_path: Path) -> None:
    said = {"axis_names": ["c^", "y", "x"], "voxel_size": [1, 4, 8], "offset": [0, 40, 80]}
    place = put(tmp_path / "x.n5/a", (2, 4, 4), **said, units=["", "nm", "nm"])
    assert axes_of(place) == [("c", None, None, 0.0), *PLACES[1:]]


def test_an_offset_of_funlib_alone_counts_in_ones(tmp_path: Path) -> None:
    said = {"axis_names": ["y", "x"], "offset": [40, 80]}
    place = put(tmp_path / "x.n5/a", (4, 4), **said)
    assert axes_of(place) == [("y", None, 1.0, 40.0), ("x", None, 1.0, 80.0)]


def test_names_of_funlib_alone_are_names(tmp_path: Path) -> None:
    place = put(tmp_path / "x.n5/a", (4, 4), axis_names=["row", "column"])
    assert axes_of(place) == [("row", None, None, 0.0), ("column", None, None, 0.0)]


@pytest.mark.parametrize(
    ("key", "value"), [("voxel_size", [0, 1]), ("axis_names", ["z"]), ("offset", [1, 2, 3])]
)
def test_odd_metadata_of_funlib_only_warn(tmp_path: Path, key: str, value: list[Any]) -> None:
    said = {"axis_names": ["y", "x"], "voxel_size": [4, 8], "offset": [40, 80], key: value}
    place = put(tmp_path / "x.n5/a", (4, 4), **said)
    with pytest.warns(UserWarning, match=f"funlib metadata are ignored.*{key}|voxel_size"):
        assert not open_array(place).geometry().placed


def test_resolutions_of_gunpowder_stay_in_n5_order(tmp_path: Path) -> None:
    said = {"resolution": [8, 4, 40], "offset": [80, 40, 400], "unit": "nm"}
    assert axes_of(put(tmp_path / "x.n5/a", (4, 4, 4), **said)) == PLACES


def test_what_is_written_for_funlib_reads_the_same(tmp_path: Path) -> None:
    dims = ("c", "z", "y", "x")
    coords = {"z": [400.0, 440.0], "y": [40.0, 44.0], "x": [80.0, 88.0]}
    image = xr.DataArray(np.ones((2, 2, 2, 2), "u1"), coords, dims)
    for name in "zyx":
        image[name].attrs["units"] = "nm"
    to_n5(image, tmp_path / "x.n5", "a", dialect="funlib")
    written = dict(open_array(tmp_path / "x.n5", "a").attrs)
    assert written["axis_names"] == ["c^", "z", "y", "x"]
    assert written["voxel_size"] == [40, 4, 8]
    assert axes_of(tmp_path / "x.n5", "a")[1:] == PLACES
    with pytest.raises(ValueError, match="whole numbers"):
        to_n5(image.assign_coords(x=[0.5, 1.0]), tmp_path / "x.n5", "b", dialect="funlib")


def test_axes_of_funlib_survive_copies_in_every_format(tmp_path: Path) -> None:
    put(tmp_path / "x.n5/a", (4, 4, 4), **DACAPO, axis_names=["z", "y", "x"])
    previous = tmp_path / "x.n5"
    for name in ("x.zarr", "x.h5", "y.n5"):
        copy(previous, tmp_path / name, source_path="a", path="a")
        previous = tmp_path / name
        assert axes_of(previous, "a") == PLACES
    assert {**DACAPO, "axis_names": ["z", "y", "x"]}.items() <= dict(
        open_array(previous, "a").attrs
    ).items()
