"""Containers as programs of the field lay them out: coordinates are right, or a warning says."""

from __future__ import annotations

import json
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from tests.support import geometries
from tests.support.containers import write_document
from tests.support.geometries import CALIBRATED, node, project, read
from tests.support.projects import Setup, project_xml
from tests.support.remote import Far
from xarray_n5 import (
    copy,
    create_array,
    create_group,
    from_n5,
    open_array,
    open_group,
    to_n5,
)
from xarray_n5.cli import main
from xarray_n5.dialects import DIALECTS, Funlib, geometry_of, register_dialect
from xarray_n5.errors import MissingChunkError
from xarray_n5.model.units import canonical_unit, shown_unit
from xarray_n5.stores import FsspecStore

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.formats import FormatName
    from xarray_n5.model.axes import Geometry


def put(place: Path, shape: tuple[int, ...], /, **attributes: Any) -> Path:
    """An array with attributes, of which none is looked at when they are written."""
    create_array(place, shape=shape, dtype="u1", chunks=4)[...] = 1
    document = place / "attributes.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), **attributes}))
    return place


def axes_of(place: Path | str, path: str = "") -> list[tuple[Any, ...]]:
    """The axes of an array; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return facts(open_array(place, path).geometry())


def facts(geometry: Geometry) -> list[tuple[Any, ...]]:
    return geometries.facts(geometry.with_names())


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
    units: dict[str, str], expected: tuple[str, float]
) -> None:
    attributes = {"offset": [100, 200, 400], "resolution": [4, 4, 40], **units}
    (unit, offset) = expected
    assert facts(read(attributes))[0] == ("z", unit, 40.0, offset)
    with pytest.warns(UserWarning, match="'offset_unit' is 's'"):
        assert not read({**attributes, "unit": "nm", "offset_unit": "s"}).placed


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
    fs.be_far(0.005)
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


def test_stacks_of_render_without_transforms_begin_where_their_group_says(tmp_path: Path) -> None:
    place = tmp_path / "x.n5/stack"
    for level in ("s0", "s1"):
        put(place / level, (4, 4, 4))
    write_document(place, **STACK)
    copy(place, tmp_path / "y.zarr" / "stack")
    for root in (place.parent, tmp_path / "y.zarr"):
        base = [("z", 8.0, 8.0), ("y", 4.0, 480.0), ("x", 4.0, -2000.0)]
        assert [(a[0], *a[2:]) for a in axes_of(root, "stack/s0")] == base
        coarse = [("z", 16.0, 12.0), ("y", 8.0, 482.0), ("x", 8.0, -1998.0)]
        assert [(a[0], *a[2:]) for a in axes_of(root, "stack/s1")] == coarse
        tree = xr.open_datatree(root, engine="n5")
        assert list(tree.groups) == ["/", "/stack", "/stack/s0", "/stack/s1"]  # of one size
    assert facts(read({**STACK, "scales": [[1, 1, 1]]}))[2] == ("x", "nm", 4.0, -2000.0)


def test_a_stack_in_a_unit_that_does_not_fit_warns(tmp_path: Path) -> None:
    path, _ = stacks(tmp_path / "x.n5")
    resolution = {"dimensions": [4.0, 4.0, 8.0], "unit": "s"}
    write_document(tmp_path / "x.n5" / path, **{**STACK, "pixelResolution": resolution})
    with pytest.warns(
        UserWarning, match="'translate' of the group has the unit 's', expected 'nm'"
    ):
        open_array(tmp_path / "x.n5", f"{path}/s0").geometry()


@pytest.mark.filterwarnings("ignore:.*scale of the base level:UserWarning")
def test_levels_of_bossdb_are_as_coarse_as_their_group_says(tmp_path: Path) -> None:
    place, axes = tmp_path / "x.n5/image", ["x", "y", "z", "c"]
    units, steps = ["nm", "nm", "nm", ""], [6.0, 6.0, 30.0, 1.0]
    factors = [[1, 1, 1, 1], [2, 2, 1, 1], [4, 4, 2, 1]]
    transform = {"axes": axes, "ordering": "F", "units": units, "scale": steps}
    for level, (x, y, z, _) in enumerate(factors):
        shape = (2, 8 // z, 16 // y, 24 // x)
        put(place / f"s{level}", shape, transform={**transform, "translate": [0] * 4})
    whole = {"pixelResolution": {"dimensions": steps, "unit": "nm"}, "translate": [0] * 4}
    write_document(place, axes=axes, ordering="C", scales=factors, units=units, **whole)
    expected = [
        ("c", None, None, 0.0),
        *(("z", "nm", 60.0, 15.0), ("y", "nm", 24.0, 9.0), ("x", "nm", 24.0, 9.0)),
    ]
    with pytest.warns(UserWarning, match="scale of the base level"):
        assert facts(open_array(place, "s2").geometry()) == expected
    assert axes_of(place, "s0")[3] == ("x", "nm", 6.0, 0.0)
    image = variable(xr.open_dataset(place, engine="n5", level=2))
    tree: Any = xr.open_datatree(tmp_path / "x.n5", engine="n5")
    for each in (image, variable(tree["image/s2"])):
        assert facts(each.n5.geometry) == expected
    copy(place, tmp_path / "y.zarr" / "image")
    assert facts(open_array(tmp_path / "y.zarr", "image/s2").geometry()) == expected
    copy(place / "s2", tmp_path / "y.zarr" / "alone", mode="a")
    assert axes_of(tmp_path / "y.zarr", "alone") == expected


# funlib.persistence

DACAPO: dict[str, Any] = {"voxel_size": [40, 4, 8], "offset": [400, 40, 80], "units": ["nm"] * 3}

FULL: dict[str, Any] = {
    "voxel_size": [5, 40, 4, 8],
    "offset": [1, 400, 40, 80],
    "units": ["", *["nm"] * 3],
}
"""The same, with numbers for a channel, too."""

PLACES = [("z", "nm", 40.0, 400.0), ("y", "nm", 4.0, 40.0), ("x", "nm", 8.0, 80.0)]


NAMES = ["z", "y", "x"]


@pytest.mark.parametrize("x_first", [True, False])
@pytest.mark.parametrize(
    ("attributes", "channels"),
    [
        (DACAPO, []),
        ({**DACAPO, "axis_names": NAMES}, []),
        ({**DACAPO, "axis_names": ["d0", "d1", "d2"], "types": ["space"] * 3}, []),
        ({**DACAPO, "axis_names": ["c^", *NAMES]}, ["c"]),
        ({**DACAPO, "axis_names": ["c", *NAMES], "types": ["channel"] + ["space"] * 3}, ["c"]),
        ({**DACAPO, "axis_names": ["c0^", "d0", "d1", "d2"]}, ["c0"]),
        ({**FULL, "types": ["channel", "space", "space", "space"]}, ["dim_0"]),
        (
            {**FULL, "types": ["label", "space", "space", "space"], "axis_names": ["k", *NAMES]},
            ["k"],
        ),
        ({**FULL, "axis_names": ["c^", "d0", "d1", "d2"]}, ["c"]),
    ],
)
def test_lists_of_funlib_are_in_c_order_and_leave_out_channels(
    attributes: dict[str, Any], channels: list[str], x_first: bool
) -> None:
    shape = (2,) * len(channels) + (4, 4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = facts(read(attributes, shape, lists_x_first=x_first))
    assert axes == [*((name, None, None, 0.0) for name in channels), *PLACES]


def test_offsets_of_funlib_alone_count_in_ones_and_names_are_only_names() -> None:
    axes = facts(read({"axis_names": ["y", "x"], "offset": [40, 80]}, (4, 4)))
    assert axes == [("y", None, 1.0, 40.0), ("x", None, 1.0, 80.0)]
    axes = facts(read({"axis_names": ["row", "column"]}, (4, 4)))
    assert axes == [("row", None, None, 0.0), ("column", None, None, 0.0)]


@pytest.mark.parametrize(
    ("key", "value"), [("voxel_size", [0, -1]), ("axis_names", ["z"]), ("offset", [1, 2, 3])]
)
def test_odd_metadata_of_funlib_only_warn(key: str, value: list[Any]) -> None:
    lists = {"axis_names": ["y", "x"], "voxel_size": [4, 8], "offset": [40, 80], key: value}
    with pytest.warns(UserWarning, match=f"funlib metadata are ignored.*{key}|voxel_size"):
        assert not read(lists, (4, 4)).placed


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


# Other keys, as funlib.persistence's MetaDataFormat has them


def test_lists_of_funlib_may_have_other_keys(tmp_path: Path) -> None:
    attributes = {"resolution": [40, 4, 8], "offset": [400, 40, 80], "units": ["nm"] * 3}
    place = tmp_path / "x.n5"
    create_array(place, "a", shape=(2, 4, 4, 4), dtype="u1", attributes=attributes)
    dialect = Funlib(voxel_size_attr="resolution")
    assert facts(open_array(place, "a").geometry(dialect))[1:] == PLACES
    image = xr.open_dataset(place, engine="n5", group="a", dialect=dialect)["a"]
    assert facts(image.n5.geometry)[1:] == PLACES
    assert not image.attrs
    tree: Any = xr.open_datatree(place, engine="n5", dialect=[dialect, "array_dimensions"])
    assert facts(tree["a/a"].n5.geometry)[1:] == PLACES


def test_a_dialect_with_other_keys_can_be_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xarray_n5.dialects.DIALECTS", dict(DIALECTS))
    register_dialect(Funlib(offset_attr="begin", voxel_size_attr="res"))
    said = {"begin": [400, 40, 80], "res": [40, 4, 8], "units": ["nm"] * 3}
    assert axes_of(put(tmp_path / "x.n5/a", (4, 4, 4), **said)) == PLACES
    image = xr.open_dataset(tmp_path / "x.n5/a", engine="n5")["a"]
    to_n5(image, tmp_path / "y.n5", "b", dialect="funlib")
    written = dict(open_array(tmp_path / "y.n5", "b").attrs)
    assert (written["res"], written["begin"]) == ([40, 4, 8], [400, 40, 80])
    assert axes_of(tmp_path / "y.n5", "b") == PLACES


def test_a_dialect_with_options_is_written_by_its_name_only(tmp_path: Path) -> None:
    image = xr.DataArray(np.ones((2, 2), "u1"), {"x": [0.0, 4.0]}, ("y", "x"))
    dialect: Any = Funlib(offset_attr="begin")
    with pytest.raises(TypeError, match=r"expected the names of dialects to write, got Funlib"):
        to_n5(image, tmp_path / "x.n5", "a", dialect=dialect)
    wrong: Any = Funlib
    with pytest.raises(ValueError, match="unknown dialect"):
        read({}, dialect=wrong)


@pytest.mark.parametrize("value", [None, ["x", "y"], [{"b": {}}], {"b": [1, 2]}, {"0": 1}])
def test_invalid_values_of_other_keys_only_warn(value: Any) -> None:
    with pytest.warns(UserWarning, match="funlib metadata"):
        assert not geometry_of(node({"a": value}, (4, 4)), Funlib(voxel_size_attr="a")).placed


# Every way to open a layout agrees with the others

Layout = tuple[str, dict[str, tuple[tuple[int, ...], list[Any]]]]
"""The group, and the shape and axes of each level."""


def crops(root: Path) -> Layout:
    """A crop of CellMap: no pyramid."""
    said = {"offset": [2001.5, -80.25, 64], "resolution": [2, 2, 3.5], "offset_unit": "nm"}
    path = "volumes/groundtruth/0003/Crop33/labels"
    put(root / path / "all", (6, 10, 12), **said, name="all", ids=[1, 2, 7], type="labels")
    axes: Any = [("z", "nm", 3.5, 64.0), ("y", "nm", 2.0, -80.25), ("x", "nm", 2.0, 2001.5)]
    return path, {"all": ((6, 10, 12), axes)}


def organs(root: Path) -> Layout:
    """A volume of the Human Organ Atlas."""
    found: Any = {}
    for level, factor in enumerate((1, 2, 4)):
        shape = (8 // factor, 12 // factor, 16 // factor)
        put(root / f"7.5um/s{level}", shape, axes=["x", "y", "z"])
        shift = (factor - 1) / 2
        steps = {"z": 9.5, "y": 7.5, "x": 7.5}
        axes = [(name, "um", step * factor, step * shift) for name, step in steps.items()]
        found[f"s{level}"] = (shape, axes)
    factors = [[1, 1, 1], [2, 2, 2], [4, 4, 4]]
    group: Any = {**GROUP, "resolution": [7.5, 7.5, 9.5], "downsamplingFactors": factors}
    write_document(root / "7.5um", **group)
    return "7.5um", found


def stacks(root: Path) -> Layout:
    """A stack of render with other numbers than the one above."""
    found: Any = {}
    steps = [8.0, 8.0, 12.5]
    for level, factor in enumerate((1, 2, 4)):
        shape = (8 // factor, 12 // factor, 16 // factor)
        shifts = [step * (factor - 1) / 2 for step in steps]
        transform: Any = {"axes": ["x", "y", "z"], "ordering": "F", "units": ["nm"] * 3}
        transform |= {"scale": [step * factor for step in steps], "translate": shifts}
        put(root / f"stack/s{level}", shape, transform=transform)
        starts = [start + shift for start, shift in zip([96.0, -56.0, 37.5], shifts, strict=True)]
        axes = zip("xyz", ["nm"] * 3, transform["scale"], starts, strict=True)
        found[f"s{level}"] = (shape, list(axes)[::-1])
    whole = {"pixelResolution": {"dimensions": steps, "unit": "nm"}, "translate": [12, -7, 3]}
    write_document(root / "stack", **{**STACK, **whole, "scales": [[1] * 3, [2] * 3, [4] * 3]})
    return "stack", found


def cells(root: Path) -> Layout:
    """An image of OpenOrganelle."""
    path = "em/fibsem-uint16"
    found: Any = {}
    datasets = []
    for level, factor in enumerate((1, 2, 4)):
        shape = (8 // factor, 12 // factor, 16 // factor)
        steps, units = [5.25, 4.0, 4.0], ["nm"] * 3
        transform: Any = {"order": "C", "axes": ["z", "y", "x"], "units": units}
        transform["scale"] = [step * factor for step in steps]
        transform["translate"] = [step * (factor - 1) / 2 for step in steps]
        resolution = {"dimensions": transform["scale"][::-1], "unit": "nm"}
        put(root / path / f"s{level}", shape, transform=transform, pixelResolution=resolution)
        datasets.append({"path": f"s{level}", "transform": transform})
        axes = zip("zyx", units, transform["scale"], transform["translate"], strict=True)
        found[f"s{level}"] = (shape, list(axes))
    base: Any = {"dimensions": [4.0, 4.0, 5.25], "unit": "nm"}
    around = {"axes": ["x", "y", "z"], "units": ["nm"] * 3, "pixelResolution": base}
    factors = [[1] * 3, [2] * 3, [4] * 3]
    images = [{"name": None, "datasets": datasets}]
    write_document(root / path, **around, scales=factors, multiscales=images)
    return path, found


LAYOUTS = [crops, organs, stacks, cells]


def variable(dataset: Any) -> xr.DataArray:
    """The only variable of a Dataset, whatever its name."""
    (name,) = dataset.data_vars
    found: xr.DataArray = dataset[name]
    return found


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", LAYOUTS)
def test_all_ways_to_open_a_layout_agree(tmp_path: Path, make: Any) -> None:
    root = tmp_path / "x.n5"
    path, levels = make(root)
    tree: Any = xr.open_datatree(root, engine="n5")
    drawn = CliRunner().invoke(main, ["tree", str(root)]).output
    for number, (name, (shape, axes)) in enumerate(levels.items()):
        assert axes_of(root, f"{path}/{name}") == axes_of(root / path / name) == axes
        opened = [
            xr.open_dataset(root / path / name, engine="n5"),
            xr.open_dataset(root, engine="n5", group=f"{path}/{name}"),
            tree[f"{path}/{name}"],
        ]
        if len(levels) > 1:
            opened.append(xr.open_dataset(root, engine="n5", group=path, level=number))
            assert not opened[-1].attrs.keys() - {"multiScale"}
            opened.append(xr.open_dataset(root / path, engine="n5", level=name))
        for each in map(variable, opened):
            assert each.shape == shape
            assert facts(each.n5.geometry) == axes
            assert [float(each[dim][0]) for dim in "zyx"] == [axis[3] for axis in axes]
            assert "offset" not in each.attrs
        texts = []
        for axis, unit, scale, offset in axes:
            texts.append(f"{axis}: start {offset:g}, step {scale:g} {shown_unit(unit)}")
        assert "; ".join(texts) in drawn


def meant(axes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Axes with one spelling of each unit: OME-NGFF has its own."""
    return [(axis, canonical_unit(unit) or unit, *numbers) for axis, unit, *numbers in axes]


@pytest.mark.matrix(3)
@pytest.mark.parametrize("form", ["n5", "zarr", "h5"])
@pytest.mark.parametrize("make", LAYOUTS)
def test_copies_of_a_layout_have_its_coordinates(tmp_path: Path, make: Any, form: str) -> None:
    root, target = tmp_path / "x.n5", tmp_path / f"y.{form}"
    path, levels = make(root)
    copy(root, target)
    for name, (_, axes) in levels.items():
        assert meant(axes_of(target, f"{path}/{name}")) == meant(axes)
        alone = tmp_path / f"{name}.{form}"
        copy(root / path / name, alone / "a")
        assert meant(axes_of(alone, "a")) == meant(axes)
        back = tmp_path / f"{name}-back.n5"
        copy(alone, back)
        assert meant(axes_of(back, "a")) == meant(axes)
    checked = CliRunner().invoke(main, ["verify", str(root)])
    assert checked.exit_code == 0
    assert "stray" not in checked.output
    assert checked.output.count(" ok") == len(levels)


# BigStitcher-Spark: fusions

FUSED: dict[str, Any] = {
    "InputXML": "file:/data/dataset.xml",
    "NumTimepoints": 2,
    "NumChannels": 3,
    "Boundingbox_min": [-10, 20, -5],
    "Boundingbox_max": [1, 27, 0],
    "PreserveAnisotropy": True,
    "AnisotropyFactor": 2.5,
    "DataType": "uint8",
    "BlockSize": [128, 128, 128],
    "FusionFormat": "N5",
}


def fusion(
    place: Path | str,
    *,
    without: tuple[str, ...] = (),
    factors: bool = True,
    settings: Any = FUSED,
    form: Any = None,
) -> Any:
    """A fusion as CreateFusionContainer lays it out: 2 timepoints, 3 channels, 2 levels."""
    infos: list[list[dict[str, Any]]] = []
    create_group(place, format=form)
    for time, channel in np.ndindex(2, 3):
        name = f"ch{channel}tp{time}"
        infos.append([])
        for level, (shape, factor) in enumerate([((6, 8, 12), [1, 1, 1]), ((6, 4, 3), [4, 2, 1])]):
            info = {"dataset": f"{name}/s{level}", "absoluteDownsampling": factor}
            infos[-1].append({**info, "dimensions": shape[::-1]})
            if name in without:
                continue
            own = {"downsamplingFactors": factor} if level and factors else {}
            array = create_array(place, f"{name}/s{level}", shape=shape, dtype="u1", attributes=own)
            array[...] = np.arange(array.size).reshape(shape) + 10 * channel + 100 * time
    if isinstance(settings, dict):
        settings = {"MultiResolutionInfos": infos, **settings}
    open_group(place, mode="r+").attrs["Bigstitcher-Spark"] = settings
    return place


FUSED_PLACES = {
    "s0": [("z", None, 2.5, -12.5), ("y", None, 1.0, 20.0), ("x", None, 1.0, -10.0)],
    "s1": [("z", None, 2.5, -12.5), ("y", None, 2.0, 20.5), ("x", None, 4.0, -8.5)],
}


@pytest.mark.parametrize("factors", [True, False])
def test_fusions_of_bigstitcher_are_one_image_per_level(tmp_path: Path, factors: bool) -> None:
    place = fusion(tmp_path / "fused.n5", factors=factors)
    tree: Any = xr.open_datatree(place, engine="n5")
    assert list(tree.groups) == ["/", "/s0", "/s1"]
    assert tree.attrs["Bigstitcher-Spark"]["InputXML"] == "file:/data/dataset.xml"
    for level, expected in FUSED_PLACES.items():
        image = tree[level]["fused"]
        assert image.dims == ("t", "c", "z", "y", "x")
        assert image.t.values.tolist() == [0, 1]
        assert image.c.values.tolist() == [0, 1, 2]
        assert facts(image.n5.geometry)[2:] == expected
        assert not any(image[name].attrs.get("units") for name in "zyx")
        for time, channel in np.ndindex(2, 3):
            stored = open_array(place, f"ch{channel}tp{time}/{level}")
            np.testing.assert_array_equal(image.sel(t=time, c=channel), stored[...])
            assert axes_of(place, stored.path) == expected
        alone = xr.open_dataset(place, engine="n5", level=int(level[1]))
        xr.testing.assert_identical(alone["fused"], image)
    near = xr.open_dataset(place, engine="n5", level={"x": 3.0})
    assert near["fused"].shape == tree["s0/fused"].shape
    blocks = from_n5(place, "ch2tp1/s1")
    np.testing.assert_array_equal(blocks, tree["s1/fused"].sel(t=1, c=2))


@pytest.mark.parametrize("name", ["fused.n5", "fused"])
def test_images_of_a_fusion_have_its_coordinates_by_whatever_url(tmp_path: Path, name: str) -> None:
    place = fusion(tmp_path / name)
    for inner in place.glob("ch*"):
        (inner / "attributes.json").unlink(missing_ok=True)  # Java writes none
    for level, expected in FUSED_PLACES.items():
        for root, path in (("", f"ch2tp1/{level}"), ("ch2tp1", level), (f"ch2tp1/{level}", "")):
            assert axes_of(place / root, path) == expected
        alone = xr.open_dataset(place / "ch2tp1", engine="n5", level=level)
        assert facts(variable(alone).n5.geometry) == expected


def test_fusions_without_anisotropy_have_voxels_of_one_pixel(tmp_path: Path) -> None:
    settings = {**FUSED, "PreserveAnisotropy": False, "Boundingbox_min": [3, 4, 5]}
    del settings["AnisotropyFactor"]
    place = fusion(tmp_path / "fused.n5", settings=settings)
    image = xr.open_dataset(place, engine="n5", level=1)["fused"]
    assert [float(image[name][0]) for name in "zyx"] == [5.0, 4.5, 4.5]
    assert [float(image[name][1] - image[name][0]) for name in "zyx"] == [1.0, 2.0, 4.0]


def test_images_that_a_fusion_lacks_read_as_zeros_or_raise(tmp_path: Path) -> None:
    place = fusion(tmp_path / "fused.n5", without=("ch1tp0",))
    image = xr.open_dataset(place, engine="n5", level=0)["fused"]
    assert image.shape == (2, 3, 6, 8, 12)
    assert not image.sel(t=0, c=1).any()
    strict = xr.open_dataset(place, engine="n5", level=0, missing="error")["fused"]
    with pytest.raises(MissingChunkError, match="t=0, c=1"):
        strict.sel(t=0, c=1).load()


def fused(settings: Any, path: str = "ch0tp0/s0") -> Geometry:
    """A level of a fusion with other settings."""
    return read({}, (6, 8, 12), path=path, parents=({}, {"Bigstitcher-Spark": settings}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Boundingbox_min": [1, 2]}, "'Boundingbox_min' has 2 items, expected 3"),
        ({"Boundingbox_min": [1, 2, 3, 4]}, "'Boundingbox_min' has 4 items, expected 3"),
        ({"Boundingbox_min": ["NaN", 0, 0]}, "'Boundingbox_min' is"),
        ({"Boundingbox_min": [0, 0, 1e308]}, "the offset of axis 'z' is inf"),
        ({"Boundingbox_min": {"x": 1}}, "'Boundingbox_min' is"),
        ({"AnisotropyFactor": None}, "'AnisotropyFactor' is missing"),
        ({"AnisotropyFactor": 0}, "'AnisotropyFactor' is"),
        ({"AnisotropyFactor": 10**400}, "'AnisotropyFactor' is"),
        ({"PreserveAnisotropy": [True]}, "'PreserveAnisotropy' is"),
        ({"PreserveAnisotropy": "yes"}, "'PreserveAnisotropy' is"),
    ],
)
def test_odd_settings_of_a_fusion_only_warn(change: dict[str, Any], message: str) -> None:
    with pytest.warns(UserWarning, match=f"bigstitcher metadata are ignored: .*{message}"):
        assert not fused({**FUSED, **change}).placed


@pytest.mark.parametrize("settings", [None, {"MultiResolutionInfos": {"a": 1}}])
def test_fusions_without_settings_are_images_all_the_same(tmp_path: Path, settings: Any) -> None:
    place = fusion(tmp_path / "fused.n5", settings=settings)
    image = xr.open_dataset(place, engine="n5", level=1)["fused"]
    assert image.sizes == {"t": 2, "c": 3, "z": 6, "y": 4, "x": 3}


@pytest.mark.parametrize("infos", [None, [], [[]], [[{}, {}]], [[1, 2]], [[None, {"a": [1]}]]])
def test_levels_of_a_fusion_without_factors_warn(infos: Any) -> None:
    settings = {**FUSED, "MultiResolutionInfos": infos}
    with pytest.warns(UserWarning, match="level 1 has no factors, and so no coordinates"):
        assert not fused(settings, "ch0tp0/s1").placed
    assert facts(fused(settings)) == FUSED_PLACES["s0"]


@pytest.mark.parametrize("name", ["copy.n5", "copy.zarr"])
def test_copies_of_a_fusion_are_the_same_image(tmp_path: Path, name: str) -> None:
    place = fusion(tmp_path / "fused.n5")
    copy(place, tmp_path / name)
    for level in (0, 1):
        before = xr.open_dataset(place, engine="n5", level=level)
        after = xr.open_dataset(tmp_path / name, engine="n5", level=level)
        xr.testing.assert_equal(after["copy"], before["fused"])
    copy(place / "ch2tp1/s1", tmp_path / "level.n5" / "a")
    assert axes_of(tmp_path / "level.n5", "a") == FUSED_PLACES["s1"]


def test_images_of_a_fusion_that_differ_are_nodes_each(tmp_path: Path) -> None:
    place = fusion(tmp_path / "fused.n5", without=("ch1tp0",))
    put(place / "ch1tp0/s0", (6, 8, 11))
    put(place / "mask/s0", (6, 8, 12))
    with pytest.raises(ValueError, match="differ in shape, type, position or levels"):
        xr.open_dataset(place, engine="n5", level=0)
    groups = xr.open_datatree(place, engine="n5").groups
    assert {"/ch1tp0/s0", "/ch0tp0/s1", "/ch2tp1/s0", "/mask/s0"} <= set(groups)
    (place / "ch1tp0/s0/attributes.json").unlink()
    groups = xr.open_datatree(place, engine="n5").groups
    assert {"/s0", "/s1", "/mask/s0"} <= set(groups)


BOXED = {**FUSED, "FusionFormat": "OME-ZARR", "UseSharding": True}


def test_levels_of_a_non_rigid_fusion_lie_where_the_offset_of_the_first_says(
    tmp_path: Path,
) -> None:
    """SparkNonRigidFusion writes ``offset`` in pixels, x first, to ``ch488/s0`` alone."""
    offset = {"offset": [-10, 20, 30]}
    levels = {
        "s0": ([8, 8, 8], offset),
        "s1": ([4, 4, 8], {"downsamplingFactors": [2, 2, 1]}),
        "s2": ([2, 2, 4], {"downsamplingFactors": [4, 4, 2]}),
    }
    for name, (shape, own) in levels.items():
        place = tmp_path / "fused.n5" / "ch488" / name
        place.mkdir(parents=True)
        stored = {"dimensions": shape, "blockSize": shape, "dataType": "uint8"}
        members = {**stored, "compression": {"type": "raw"}, **own}
        (place / "attributes.json").write_text(json.dumps(members))
    (tmp_path / "fused.n5" / "attributes.json").write_text('{"n5": "4.0.0"}')
    found = {}
    for name in levels:
        geometry = open_array(tmp_path / "fused.n5", f"ch488/{name}").geometry()
        found[name] = [(axis.step, axis.offset) for axis in geometry.axes]
    assert found == {
        "s0": [(1, 30), (1, 20), (1, -10)],
        "s1": [(1, 30), (2, 20.5), (2, -9.5)],
        "s2": [(2, 30.5), (4, 21.5), (4, -8.5)],
    }


def fusion_in_zarr(
    place: Path,
    form: FormatName = "zarr3",
    *,
    group: str = "",
    settings: Any = BOXED,
    voxel: tuple[float, float, float] = (2.5, 1.0, 1.0),
    reverse: bool = False,
) -> Path:
    """A fusion as CreateFusionContainer 3.0 lays it out, with two levels."""
    datasets = []
    create_group(place, format=form)
    for level, factors in enumerate(((1, 1, 1), (1, 2, 4))):
        shape = (2, 3, *(n // f for n, f in zip((6, 8, 12), factors, strict=True)))
        array = create_array(
            place,
            f"{group}/{level}".strip("/"),
            shape=shape,
            dtype="u1",
            chunks=(1, 1, 3, 4, 3),
            shards=(1, 1, 6, 8, 12) if form == "zarr3" else None,
            attributes={"downsamplingFactors": [*factors[::-1], 1, 1]} if level else None,
        )
        array[...] = np.arange(array.size).reshape(shape) % 251
        scale = [1.0, 1.0, *(v * f for v, f in zip(voxel, factors, strict=True))]
        shift = [0.0, 0.0, *(v * (f - 1) / 2 for v, f in zip(voxel, factors, strict=True))]
        scale, shift = (scale[::-1], shift[::-1]) if reverse else (scale, shift)
        transforms = [
            {"type": "scale", "scale": scale},
            {"type": "translation", "translation": shift},
        ]
        datasets.append({"path": f"/{level}", "coordinateTransformations": transforms})
    axes = [{"name": "t", "type": "time", "unit": "millisecond"}, {"name": "c", "type": "channel"}]
    axes += [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"]
    ones = [{"type": "scale", "scale": [1.0] * 5}]
    image = {"name": "/", "axes": axes, "datasets": datasets, "coordinateTransformations": ones}
    attributes: Any = {"multiscales": [{**image, "version": "0.4"}]}
    if form == "zarr3":
        attributes = {"ome": {"multiscales": [image], "version": "0.5"}}
    attributes["Bigstitcher-Spark"] = settings
    create_group(place, group, attributes=attributes, mode="a")
    return place


def check_fused(place: Any, expected: Any, **options: Any) -> None:
    for level, name in enumerate(("s0", "s1")):
        opened = variable(xr.open_dataset(place, engine="n5", level=level, **options))
        assert opened.dims == ("t", "c", "z", "y", "x")
        assert facts(opened.n5.geometry)[2:] == expected[name]
        assert not opened.t.attrs.get("units")


@pytest.mark.parametrize("form", ["zarr3", "zarr2"])
@pytest.mark.parametrize("group", ["", "Round1/fused"])
def test_fusions_into_ome_zarr_lie_where_their_box_says(
    tmp_path: Path, form: FormatName, group: str
) -> None:
    place = fusion_in_zarr(tmp_path / "fused.zarr", form, group=group)
    check_fused(place, FUSED_PLACES, group=group or None)
    for level in "01":
        assert axes_of(place, f"{group}/{level}".strip("/"))[2:] == FUSED_PLACES[f"s{level}"]
    tree = xr.open_datatree(place, engine="n5", group=group or None)
    np.testing.assert_array_equal(
        variable(tree["1"].to_dataset()), open_array(place, f"{group}/1".strip("/"))[...]
    )
    as_written = variable(
        xr.open_dataset(place, engine="n5", group=f"{group}/0".strip("/"), dialect="ngff")
    )
    assert float(as_written.x[0]) == 0
    assert as_written.x.attrs["units"] == "micrometer"


@pytest.mark.parametrize("form", ["zarr3", "zarr2"])
def test_older_fusions_have_the_anisotropy_in_their_settings_only(
    tmp_path: Path, form: FormatName
) -> None:
    place = fusion_in_zarr(tmp_path / "fused.zarr", form, voxel=(1.0, 1.0, 1.0))
    check_fused(place, FUSED_PLACES)


def test_factors_of_fused_levels_win_over_scales_in_another_order(tmp_path: Path) -> None:
    place = fusion_in_zarr(tmp_path / "fused.zarr", voxel=(1.0, 1.0, 1.0), reverse=True)
    with pytest.warns(UserWarning, match="'downsamplingFactors' has .1.0, 2.0, 4.0.; using the"):
        assert facts(open_array(place, "1").geometry())[2:] == FUSED_PLACES["s1"]
    assert axes_of(place, "0")[2:] == FUSED_PLACES["s0"]


def test_calibrated_fusions_keep_their_unit(tmp_path: Path) -> None:
    place = fusion_in_zarr(tmp_path / "fused.zarr", voxel=(1.25, 0.5, 0.5))
    expected = [("z", 1.25, -6.25), ("y", 0.5, 10.0), ("x", 0.5, -5.0)]
    assert axes_of(place, "0")[2:] == [(name, "micrometer", *more) for name, *more in expected]


def test_fusions_whose_depth_is_doubtful_warn(tmp_path: Path) -> None:
    place = fusion_in_zarr(tmp_path / "fused.zarr", voxel=(4.0, 1.0, 1.0))
    with pytest.warns(UserWarning, match=r"4 times as deep as wide, but 2.5 times by"):
        assert facts(open_array(place, "0").geometry())[2] == ("z", None, 4.0, -20.0)


@pytest.mark.filterwarnings("ignore:a scene does not have the coordinates")
@pytest.mark.matrix(2)
@pytest.mark.parametrize("voxel", [(2.5, 1.0, 1.0), (1.0, 1.0, 1.0)])
@pytest.mark.parametrize("form", ["zarr3", "zarr2"])
def test_the_project_of_a_fusion_lies_where_its_container_does(
    tmp_path: Path, form: Any, voxel: tuple[float, float, float]
) -> None:
    settings = {**BOXED, "FusionFormat": "BDV/OME-ZARR"}
    fusion_in_zarr(tmp_path / "fused.zarr", form, voxel=voxel, settings=settings)
    setups = [
        Setup(id=c, shape=(6, 8, 12), voxel=voxel, attributes={"channel": c}) for c in range(3)
    ]
    entries = "".join(
        f'<zgroup setup="{c}" tp="{t}" path="" indicies="{c} {t}" />' for t, c in np.ndindex(2, 3)
    )
    loader = (
        '<ImageLoader format="bdv.multimg.zarr" version="3.0"><zarr type="relative">fused.zarr'
        f"</zarr><zgroups>{entries}</zgroups></ImageLoader>"
    )
    steps: Any = {(t, s.id): [("", np.eye(3, 4))] for t in range(2) for s in setups}
    xml = tmp_path / "dataset-fused.xml"
    xml.write_text(project_xml(setups, steps, loader=loader), "utf-8")
    tree = xr.open_datatree(xml, engine="bdv")
    tree.n5.to_bdv(tmp_path / "again.xml")
    tree.n5.to_scene(tmp_path / "scene.zarr")
    scene = xr.open_datatree(tmp_path / "scene.zarr", engine="n5")
    for level in ("s0", "s1"):
        corner = [offset for *_, offset in FUSED_PLACES[level]]
        assert scene[level].to_dataset().n5.to_world([0, 0, 0]).tolist() == [corner] * 6
    for place in (xml, tmp_path / "again.xml"):
        for number, name in enumerate(("s0", "s1")):
            found = variable(xr.open_datatree(place, engine="bdv")[name].to_dataset())
            assert found.dims == ("t", "channel", "z", "y", "x")
            assert facts(found.n5.geometry)[2:] == FUSED_PLACES[name]
            stored = open_array(tmp_path / "fused.zarr", str(number))[...]
            np.testing.assert_array_equal(found, stored)
    moved = np.eye(3, 4)
    moved[:, 3] = (1, 2, 3)
    steps = {view: [("moved", moved)] for view in steps}
    xml.write_text(project_xml(setups, steps, loader=loader), "utf-8")
    found = variable(xr.open_dataset(xml, engine="bdv", level=0))
    assert [a[3] for a in facts(found.n5.geometry)[2:]] == [1 * voxel[0], 2.0, 3.0]


ONE_TIME = '<Timepoints type="pattern"><integerpattern>0</integerpattern></Timepoints>'


def non_rigid(folder: Path, starts: Any, unit: str = "px", step: Any = None) -> Path:
    """A project as SparkNonRigidFusion lays it out with ``--bdv``: an offset in each array.

    The setups are those of BDVSparkInstantiateViewSetup, the registrations the identity.
    """
    ones = (1.0, 1.0, 1.0)
    setups = [
        Setup(id=n, shape=(4, 6, 8), voxel=ones, attributes={"channel": n}, unit=unit)
        for n in range(len(starts))
    ]
    place, stored = folder / "fused.n5", {"blockSize": [8, 6, 4], "compression": {"type": "raw"}}
    stored |= {"dimensions": [8, 6, 4], "dataType": "float32"}
    nodes: dict[str, Any] = {"": {"n5": "4.0.0"}}
    for number, start in enumerate(starts):
        view = f"setup{number}/timepoint0"
        nodes[f"setup{number}"] = {**stored, "downsamplingFactors": [[1, 1, 1]]}
        nodes[view] = {"resolution": [1.0] * 3, "saved_completely": True, "multiScale": True}
        nodes[f"{view}/s0"] = {**stored, "downsamplingFactors": [1, 1, 1], "offset": start}
    for path, members in nodes.items():
        (place / path).mkdir(parents=True, exist_ok=True)
        (place / path / "attributes.json").write_text(json.dumps(members))
    loader = '<ImageLoader format="bdv.n5" version="1.0"><n5 type="relative">fused.n5</n5>'
    steps: Any = {(0, each.id): [("", np.eye(3, 4))] for each in setups}
    steps |= {} if step is None else {(0, 0): [("moved", step)]}
    text = project_xml(setups, steps, loader=f"{loader}</ImageLoader>", timepoints=ONE_TIME)
    (folder / "out.xml").write_text(text, "utf-8")
    return folder / "out.xml"


@pytest.mark.filterwarnings("ignore:a scene does not have the coordinates")
@pytest.mark.parametrize("pixels", ["px", "um"])
def test_the_project_of_a_non_rigid_fusion_lies_where_its_arrays_do(
    tmp_path: Path, pixels: str
) -> None:
    xml = non_rigid(tmp_path, [[-10, 20, 30], [-10, 21, 30]], pixels)
    ds = xr.open_dataset(xml, engine="n5", level=0).isel(t=0)
    found = [[30, 20, -10], [30, 21, -10]] if pixels == "px" else [[0, 0, 0]] * 2
    assert ds.n5.to_world([0, 0, 0]).tolist() == found
    ds.n5.to_scene(tmp_path / "scene.zarr")
    scene = xr.open_dataset(tmp_path / "scene.zarr", engine="n5")
    assert scene.n5.to_world([0, 0, 0]).tolist() == found
    scene.n5.to_bdv(tmp_path / "back.xml")
    back = xr.open_dataset(tmp_path / "back.xml", engine="n5", level=0).isel(t=0)
    assert back.n5.to_world([0, 0, 0]).tolist() == found
    if pixels == "px":
        assert axes_of(tmp_path / "fused.n5", "setup1/timepoint0/s0")[0][-1] == 30


def test_views_of_a_non_rigid_fusion_that_were_registered_since_stay_there(tmp_path: Path) -> None:
    moved = np.eye(3, 4)
    moved[:, 3] = (1, 2, 3)
    xml = non_rigid(tmp_path, [[5, 5, 5], [-10, 21, 30]], step=moved)
    ds = xr.open_dataset(xml, engine="n5", level=0).isel(t=0)
    assert ds.n5.to_world([0, 0, 0]).tolist() == [[1, 2, 3], [30, 21, -10]]
    xml = non_rigid(tmp_path, [[5, 5], [-10, 21, 30]])
    with pytest.warns(UserWarning, match="'offset' is ignored: 'offset' has 2 items, expected 3"):
        ds = xr.open_dataset(xml, engine="n5", level=0).isel(t=0)
    assert ds.n5.to_world([0, 0, 0]).tolist() == [[0, 0, 0], [30, 21, -10]]


def test_copies_of_fusions_in_zarr_are_placed_once(tmp_path: Path) -> None:
    place = fusion_in_zarr(tmp_path / "fused.zarr")
    forms: dict[str, FormatName] = {"a.zarr": "zarr2", "b.zarr": "zarr3", "c.n5": "n5"}
    for name, form in forms.items():
        copy(place, tmp_path / name, format=form)
        for level in "01":
            assert axes_of(tmp_path / name, level)[2:] == FUSED_PLACES[f"s{level}"]


@pytest.mark.parametrize("form", ["n5", "hdf5"])
@pytest.mark.parametrize("named", ["fused.xml", "other.xml", None])
def test_fused_views_of_bigdataviewer_lie_where_their_box_says(
    tmp_path: Path, form: FormatName, named: str | None
) -> None:
    place = tmp_path / ("fused.n5" if form == "n5" else "fused.h5")
    settings = {**FUSED, "FusionFormat": f"BDV/{form.upper()}"}
    create_group(place, attributes={"Bigstitcher-Spark": settings}, format=form)
    setups = [Setup(id=c, shape=(6, 8, 12), voxel=(2.5, 1.0, 1.0), dtype="u1") for c in range(3)]
    factors = ((1, 1, 1), (1, 2, 4))
    for time, setup in np.ndindex(2, 3):
        for level, each in enumerate(factors):
            shape = tuple(n // f for n, f in zip((6, 8, 12), each, strict=True))
            path = f"setup{setup}/timepoint{time}/s{level}"
            if form == "hdf5":
                path = f"t{time:05d}/s{setup:02d}/{level}/cells"
            own = {"downsamplingFactors": list(each[::-1])}
            array = create_array(place, path, shape=shape, dtype="u1", attributes=own, format=form)
            array[...] = 1 + setup + 10 * time
    if named is not None:
        kind = "n5" if form == "n5" else "hdf5"
        inner = f'<{kind} type="relative">{place.name}</{kind}>'
        loader = f'<ImageLoader format="bdv.{kind}" version="1.0">{inner}</ImageLoader>'
        steps: Any = {(t, s.id): [("", np.eye(3, 4))] for t in range(2) for s in setups}
        (tmp_path / named).write_text(project_xml(setups, steps, loader=loader), "utf-8")
    for number in "01":
        path = f"setup1/timepoint1/s{number}" if form == "n5" else f"t00001/s01/{number}/cells"
        assert axes_of(place, path) == FUSED_PLACES[f"s{number}"]
    image = variable(xr.open_dataset(place, engine="n5", level=1))
    assert facts(image.n5.geometry)[2:] == FUSED_PLACES["s1"]
    if named is None:
        return
    tree = xr.open_datatree(tmp_path / named, engine="bdv")
    for name in ("s0", "s1"):
        one = variable(tree[name].to_dataset())
        assert facts(one.n5.geometry)[2:] == FUSED_PLACES[name]


def test_fusions_into_hdf5_have_their_settings_as_single_attributes(tmp_path: Path) -> None:
    place = fusion(tmp_path / "fused.h5", form="hdf5")
    root = open_group(place, mode="r+")
    settings = root.attrs.pop("Bigstitcher-Spark")
    assert axes_of(place, "ch0tp0/s1") != FUSED_PLACES["s1"]
    for key in ("Boundingbox_min", "AnisotropyFactor"):
        root.attrs[f"Bigstitcher-Spark/{key}"] = settings[key]
    root.attrs["Bigstitcher-Spark/PreserveAnisotropy"] = 1
    assert axes_of(place, "ch0tp0/s1") == FUSED_PLACES["s1"]


# Lists of axes in the order that the user states

Attributes = dict[str, Any]

IN_C_ORDER: dict[str, tuple[Attributes, Attributes]] = {
    "paintera": (
        {"multiScale": True, "resolution": [40, 8, 4], "offset": [400, 80, 40], "unit": "nm"},
        {"downsamplingFactors": [1, 2, 4]},
    ),
    "tensorstore": (
        {"downsamplingFactors": [[1, 1, 1], [1, 2, 4]]},
        {"axes": ["z", "y", "x"], "units": ["nm", "um", "nm"], "resolution": [40, 0.008, 4]},
    ),
    "neuroglancer": (
        {
            "axes": ["z", "y", "x"],
            "scales": [[1, 1, 1], [1, 2, 4]],
            "pixelResolution": {"dimensions": [40, 8, 4], "unit": "nm"},
            "translate": [10, 20, 30],
        },
        {},
    ),
    "n5_viewer": (
        {},
        {
            "pixelResolution": {"dimensions": [40, 8, 4], "unit": "nm"},
            "downsamplingFactors": [1, 2, 4],
            "affineTransform": [1, 0, 0, 400, 0, 1, 0, 80, 0, 0, 1, 40],
        },
    ),
}
"""By dialect: a group's and a level's attributes, with lists in C order."""


def levels_of(place: Path, group: Attributes, own: Attributes) -> Path:
    """Levels of (6, 20, 40) and (6, 10, 10) samples with attributes."""
    for level, shape in (("s0", (6, 20, 40)), ("s1", (6, 10, 10))):
        mine = own if level == "s1" else {k: v for k, v in own.items() if "factors" not in k}
        if level == "s0" and "downsamplingFactors" in own:
            mine = {**mine, "downsamplingFactors": [1, 1, 1]}
        put(place / level, shape, **mine)
    write_document(place, **group)
    return place


def turned(value: Any) -> Any:
    """The same attributes with their lists in the other order, by hand."""
    match value:
        case dict():
            return {k: turned(v) for k, v in value.items()}
        case list() if len(value) == 12:
            rows = [value[8:], value[4:8], value[:4]]
            return [number for row in rows for number in (*row[2::-1], row[3])]
        case [list(), *_]:
            return [each[::-1] for each in value]
        case list():
            return value[::-1]
    return value


@pytest.mark.parametrize("name", IN_C_ORDER)
def test_lists_are_read_in_the_order_that_the_user_states(tmp_path: Path, name: str) -> None:
    group, own = IN_C_ORDER[name]
    place = levels_of(tmp_path / "c.n5/image", group, own)
    usual = levels_of(tmp_path / "n5.n5/image", turned(group), turned(own))
    tree: Any = xr.open_datatree(place, engine="n5", attribute_order="C")
    for number, level in enumerate(("s0", "s1")):
        wanted = axes_of(usual, level)
        steps = {axis[0]: axis[2] for axis in wanted}
        y = 0.008 if name == "tensorstore" else 8.0
        assert steps == {"z": 40.0, "y": y * 2**number, "x": 4.0 * 4**number}
        assert facts(open_array(usual, level, attribute_order="N5").geometry()) == wanted
        assert facts(open_array(place, level, attribute_order="C").geometry()) == wanted
        inner: Any = open_group(place, attribute_order="C")[level]
        assert facts(inner.geometry()) == wanted
        image = xr.open_dataset(place, engine="n5", level=number, attribute_order="C")["image"]
        assert facts(image.n5.geometry) == wanted
        xr.testing.assert_identical(tree[level]["image"].load(), image.load())


@pytest.mark.parametrize("x_first", [True, False])
@pytest.mark.parametrize("order", ["C", "N5", "auto"])
def test_the_order_of_resolutions_is_that_of_the_format_unless_stated(
    x_first: bool, order: Any
) -> None:
    lists = {"resolution": [40, 8, 4], "offset": [400, 80, 40]}
    in_c = order == "C" or (order == "auto" and not x_first)
    steps = [40.0, 8.0, 4.0][:: 1 if in_c else -1]
    axes = read(lists, lists_x_first=x_first, attribute_order=order).axes
    assert [(a.scale, a.offset) for a in axes] == [(step, 10 * step) for step in steps]


def test_short_lists_in_c_order_are_for_the_last_axes() -> None:
    axes = read({"resolution": [40, 8, 4]}, (2, 4, 4, 4), attribute_order="C").axes
    assert [axis.scale for axis in axes] == [1.0, 40.0, 8.0, 4.0]


TRANSFORM = {"axes": ["z", "y", "x"], "scale": [40, 8, 4], "translate": [400, 80, 40]}


def spatial(*numbers: float) -> Attributes:
    """The attribute of n5-universe."""
    transform = {"type": "affine", "affine": numbers}
    axes = [{"type": "space", "name": name, "unit": "nm"} for name in "zyx"]
    return {"spatialTransform": {"transform": transform, "axes": axes}}


@pytest.mark.parametrize(
    ("attributes", "order"),
    [
        ({"transform": TRANSFORM}, "C"),
        ({"transform": turned(TRANSFORM)}, "N5"),
        ({"transform": {**turned(TRANSFORM), "ordering": "F"}}, "C"),
        ({"transform": {**TRANSFORM, "order": "C"}}, "N5"),
        (spatial(40, 0, 0, 400, 0, 8, 0, 80, 0, 0, 4, 40), "C"),
        ({"voxel_size": [40, 8, 4], "offset": [400, 80, 40], "axis_names": ["z", "y", "x"]}, "C"),
        ({"voxel_size": [4, 8, 40], "offset": [40, 80, 400], "axis_names": ["x", "y", "z"]}, "N5"),
    ],
)
def test_other_dialects_follow_the_order_unless_they_state_it(
    attributes: Attributes, order: Any
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = facts(read(attributes, attribute_order=order))
    assert [(a[0], *a[2:]) for a in axes] == [
        *(("z", 40.0, 400.0), ("y", 8.0, 80.0), ("x", 4.0, 40.0))
    ]


@pytest.mark.parametrize(("order", "sizes"), [("C", (5, 4)), ("N5", (4, 5)), ("auto", (4, 5))])
def test_names_follow_the_order_instead_of_a_guess(tmp_path: Path, order: Any, sizes: Any) -> None:
    place = tmp_path / "x.n5"
    put(place / "image", (5, 4), _ARRAY_DIMENSIONS=["a", "b"])
    put(place / "a", (4,), _ARRAY_DIMENSIONS=["a"])
    how: Any = {"drop_variables": ["a"]} if order == "C" else {}
    image = xr.open_dataset(place, engine="n5", attribute_order=order, **how)["image"]
    assert [image.sizes[name] for name in "ab"] == list(sizes)
    labelled = read({"DIMENSION_LABELS": ["a", "b"]}, (5, 4), attribute_order=order)
    names = [axis.name for axis in labelled.axes]
    assert names == (["b", "a"] if order == "N5" else ["a", "b"])


@pytest.mark.parametrize("order", ["C", "N5", "auto"])
def test_images_of_ngff_follow_the_order(order: Any) -> None:
    scale = {"type": "scale", "scale": [40, 8, 4]}
    axes = [{"name": name, "type": "space"} for name in ("a", "b", "d")]
    image = {"version": "0.4", "axes": axes}
    image["datasets"] = [{"path": "s0", "coordinateTransformations": [scale]}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if order == "auto" else "error")
        around = ({"multiscales": [image]},)
        geometry = read({}, path="s0", parents=around, attribute_order=order)
    assert [a.scale for a in geometry.axes] == ([40, 8, 4] if order == "C" else [4, 8, 40])


def test_factors_of_views_follow_the_order_and_their_xml_does_not(tmp_path: Path) -> None:
    place = tmp_path / "x.n5"
    put(place / "setup0/timepoint0/s1", (4, 4, 4), downsamplingFactors=[1, 2, 4])
    write_document(place / "setup0", downsamplingFactors=[[1, 1, 1], [1, 2, 4]])
    found = facts(open_array(place, "setup0/timepoint0/s1", attribute_order="C").geometry())
    assert [axis[2] for axis in found] == [1.0, 2.0, 4.0]
    place.with_suffix(".xml").write_bytes(project({(0, 0): [CALIBRATED]}))
    view = open_array(place, "setup0/timepoint0/s1", attribute_order="C")
    steps = {axis.name: axis.step for axis in view.axes}
    base = open_array(put(place / "setup0/timepoint0/s0", (4, 8, 16)), attribute_order="C")
    under = {axis.name: axis.step for axis in base.axes}
    assert [steps[name] / under[name] for name in "zyx"] == [1.0, 2.0, 4.0]


def test_invalid_lists_only_warn_in_any_order() -> None:
    odd: Attributes = {"resolution": ["a", [2]], "offset": {"dimensions": 3}}
    odd |= {"affineTransform": ["a", None], "pixelResolution": [[4, "x"]]}
    with pytest.warns(UserWarning, match="ignored"):
        assert not read(odd, (4, 4), attribute_order="C").placed


def test_an_unknown_order_of_lists_is_refused(tmp_path: Path) -> None:
    place: Any = put(tmp_path / "x.n5/a", (4, 4))
    wrong: Any = "F"
    message = "attribute_order is 'F'; expected 'auto' or 'C' or 'N5'"
    ways: list[Any] = [
        open_array,
        open_group,
        partial(xr.open_dataset, engine="n5"),
        partial(xr.open_datatree, engine="n5"),
    ]
    for opened in ways:
        with pytest.raises(ValueError, match=message):
            opened(place, attribute_order=wrong)


def test_storing_an_array_where_it_was_corrects_its_lists(tmp_path: Path) -> None:
    place = put(tmp_path / "x.n5/raw", (4, 4, 4), resolution=[40, 8, 4])
    image = xr.open_dataset(place, engine="n5", attribute_order="C")["raw"].load()
    to_n5(image, place, mode="a")
    assert [axis.scale for axis in open_array(place).axes] == [40.0, 8.0, 4.0]


def test_commands_take_the_order_of_lists(tmp_path: Path) -> None:
    place = put(tmp_path / "x.n5/raw", (4, 4, 4), resolution=[40, 8, 4], unit="nm")

    def said(*arguments: object) -> str:
        found = CliRunner().invoke(main, [*map(str, arguments), "--attribute-order", "C"])
        assert found.exit_code == 0, found.output
        return found.stdout

    assert "z: start 0, step 40 nm; y: start 0, step 8 nm; x: start 0, step 4 nm" in said(
        "tree", place.parent
    )
    axes = json.loads(said("info", place, "--json"))["axes"]
    assert [axis["scale"] for axis in axes] == [40.0, 8.0, 4.0]
