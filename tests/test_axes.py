"""Axes, units, and the dialects that describe them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xarray_n5 import open_array
from xarray_n5.axes import (
    Axis,
    Geometry,
    as_geometry,
    canonical_unit,
    kind_of,
    names,
    written_unit,
)
from xarray_n5.coordinates import coords_of, dims_of
from xarray_n5.dialects import (
    DIALECTS,
    Node,
    geometry_of,
    register_dialect,
    write_geometry,
)

if TYPE_CHECKING:
    from pathlib import Path


def read(attributes: dict[str, Any], shape: tuple[int, ...] = (2, 3, 4), **more: Any) -> Geometry:
    return geometry_of(Node(attributes=attributes, shape=shape), **more)


def facts(geometry: Geometry) -> list[tuple[Any, ...]]:
    """Name, unit, scale and offset of each axis."""
    return [(axis.name, axis.unit, axis.scale, axis.offset) for axis in geometry.axes]


# Axes and units


@pytest.mark.parametrize(
    ("ndim", "expected"),
    [
        (0, ()),
        (1, ("x",)),
        (3, ("z", "y", "x")),
        (5, ("c", "t", "z", "y", "x")),
        (7, ("dim_6", "dim_5", "c", "t", "z", "y", "x")),
    ],
)
def test_unnamed_axes_are_called_as_neuroglancer_calls_them(
    ndim: int, expected: tuple[str, ...]
) -> None:
    assert names((Axis(),) * ndim) == expected


@given(st.lists(st.sampled_from([None, "x", "y", "z", "a", "dim_1"]), max_size=6))
def test_names_are_unique_and_keep_those_that_are_given(given_names: list[str | None]) -> None:
    made = names([Axis(name=name) for name in given_names])
    assert len(set(made)) == len(given_names)
    for name, one in zip(given_names, made, strict=True):
        assert name is None or given_names.count(name) > 1 or one == name


@pytest.mark.parametrize(
    "text",
    ["um", "\u00b5m", "\u03bcm", "\u00c2\u00b5m", "\\u00B5m", "micron", "Microns", "micrometer"],
)
def test_a_micrometre_is_known_in_all_its_spellings(text: str) -> None:
    assert canonical_unit(text) == "um"
    assert kind_of(None, text) == "space"


@pytest.mark.parametrize("text", ["Mm", "", "furlong", "S", None])
def test_what_is_no_known_unit_has_no_canonical_one(text: str | None) -> None:
    assert canonical_unit(text) is None


@pytest.mark.parametrize("text", ["", "pixel", "Pixels", "px", "voxel", "none", " ", None, 3])
def test_words_for_no_unit_are_no_unit(text: object) -> None:
    assert written_unit(text) is None


@pytest.mark.parametrize("wrong", [{"scale": 0}, {"scale": np.nan}, {"offset": np.inf}])
def test_an_axis_refuses_nonsense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Axis(name="x", **wrong)


@pytest.mark.parametrize("axes", [["x"], ["x", "x"]])
def test_axes_must_fit_the_array(axes: list[str]) -> None:
    with pytest.raises(ValueError, match=r"axes|unique"):
        as_geometry(axes, 2)


# Dialects


def test_tensorstores_lists_stand_in_n5_order() -> None:
    attributes = {"axes": ["x", "y", "z"], "units": ["nm", "um", ""], "resolution": [4, 5.5, 40]}
    assert facts(read(attributes)) == [
        ("z", None, 40.0, 0.0),
        ("y", "um", 5.5, 0.0),
        ("x", "nm", 4.0, 0.0),
    ]


def test_units_alone_count_in_ones() -> None:
    assert [axis.scale for axis in read({"units": ["nm"] * 3}).axes] == [1.0] * 3


def test_a_resolution_alone_has_no_unit() -> None:
    assert facts(read({"resolution": [4, 4, 40]}))[0] == (None, None, 40.0, 0.0)


@pytest.mark.parametrize("resolution", [[4, 4, 40], ["4", "4.0", "40"], [4.0, 4.0, 40.0, None][:3]])
def test_numbers_may_be_texts(resolution: list[Any]) -> None:
    assert [axis.scale for axis in read({"resolution": resolution}).axes] == [40, 4, 4]


def test_one_value_stands_for_all_axes() -> None:
    assert [axis.scale for axis in read({"resolution": 2}).axes] == [2, 2, 2]


def test_a_short_resolution_is_for_the_axes_of_space_where_that_is_the_custom() -> None:
    assert [axis.scale for axis in read({"pixelResolution": [3, 2]}).axes] == [1, 2, 3]
    geometry = read({"resolution": [3, 2], "offset": [7, 8]})
    assert [(axis.scale, axis.offset) for axis in geometry.axes] == [(1, 0), (2, 8), (3, 7)]


@pytest.mark.parametrize(
    "attributes",
    [
        {"axes": ["x", "x", "z"]},
        {"axes": [{"name": "x"}] * 3},
        {"axes": ["x"] * 4},
        {"axes": ["x", "y"]},
        {"units": ["um"]},
        {"resolution": [0.5, 2.0]},
        {"units": [1, 2, 3]},
        {"resolution": [0, 1, 1]},
        {"resolution": [-1, 1, 1]},
        {"resolution": [True, 1, 1]},
        {"resolution": ["a", 1, 1]},
        {"resolution": {"x": 1}},
        {"pixelResolution": {"dimensions": [float("inf"), 1, 1]}},
        {"transform": {"scale": [1], "translate": [1]}},
        {"transform": {"scale": ["a"] * 3, "translate": [0] * 3}},
        {"transform": {"scale": [0] * 3, "translate": [0] * 3}},
        {"_ARRAY_DIMENSIONS": ["a", "a", "b"]},
        {"_ARRAY_DIMENSIONS": "zyx"},
    ],
)
def test_odd_metadata_only_warn_and_name_the_attribute(attributes: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match=next(iter(attributes))):
        assert facts(read(attributes)) == [(None, None, None, 0.0)] * 3


@pytest.mark.parametrize("attributes", [{}, {"transform": 3}, {"transform": {}}, {"other": []}])
def test_other_attributes_say_nothing(attributes: dict[str, Any]) -> None:
    assert facts(read(attributes)) == [(None, None, None, 0.0)] * 3


def test_pixel_resolution_wins_over_resolution_and_takes_units_where_they_are() -> None:
    attributes = {"pixelResolution": {"unit": "um", "dimensions": [0.5, 0.5, 2]}}
    assert facts(read({**attributes, "resolution": [9, 9, 9]}))[0] == (None, "um", 2.0, 0.0)
    units = {"units": ["nm", "nm", "s"], "axes": ["x", "y", "t"]}
    assert facts(read({**attributes, **units}))[0] == ("t", "s", 2.0, 0.0)
    assert facts(read({"pixelResolution": [1, 2, 3]}))[0] == (None, None, 3.0, 0.0)


def test_coordinate_arrays_label_the_samples() -> None:
    attributes = {"axes": ["x", "c"], "coordinateArrays": {"c": ["DAPI", "GFP"]}}
    geometry = read(attributes, (2, 4))
    assert geometry.axes[0].labels == ("DAPI", "GFP")
    assert coords_of(geometry, (2, 4))["c"].values.tolist() == ["DAPI", "GFP"]


COSEM: dict[str, list[Any]] = {
    "axes": ["z", "y", "x"],
    "units": ["nm"] * 3,
    "scale": [40, 4, 4],
    "translate": [1, 2, 3],
}


def test_cosem_stands_in_c_order() -> None:
    expected = [("z", "nm", 40.0, 1.0), ("y", "nm", 4.0, 2.0), ("x", "nm", 4.0, 3.0)]
    assert facts(read({"transform": COSEM})) == expected
    assert facts(read({"transform": {**COSEM, "order": "C"}})) == expected


@pytest.mark.parametrize("key", ["order", "ordering"])
def test_cosem_in_fortran_order_turns_everything_round(key: str) -> None:
    turned = {name: values[::-1] for name, values in COSEM.items()}
    assert facts(read({"transform": {**turned, key: "F"}})) == facts(read({"transform": COSEM}))


def test_cosems_units_that_are_no_texts_are_no_units() -> None:
    assert facts(read({"transform": {**COSEM, "units": [1, None, {}]}}))[0][1] is None


def test_array_dimensions_stand_in_c_order_and_only_name() -> None:
    geometry = read({"_ARRAY_DIMENSIONS": ["time", "lat", "lon"]})
    assert facts(geometry)[0] == ("time", None, None, 0.0)
    assert geometry.sources == {"names": "array_dimensions"}


def test_placement_comes_whole_from_the_first_dialect_that_knows_it() -> None:
    attributes = {"transform": COSEM, "axes": ["a", "b", "c"], "resolution": [9, 9, 9]}
    geometry = read(attributes)
    assert facts(geometry) == facts(read({"transform": COSEM}))
    assert geometry.sources == {"placement": "cosem", "names": "cosem"}
    assert geometry.spoken == ("cosem", "tensorstore")


def test_names_are_filled_in_from_another_dialect() -> None:
    geometry = read({"resolution": [4, 4, 40], "_ARRAY_DIMENSIONS": ["t", "lat", "lon"]})
    assert facts(geometry)[0] == ("t", None, 40.0, 0.0)
    assert geometry.sources == {"placement": "tensorstore", "names": "array_dimensions"}


def test_one_dialect_can_be_chosen() -> None:
    attributes = {"transform": COSEM, "resolution": [9, 9, 9]}
    assert facts(read(attributes, dialect="tensorstore"))[0] == (None, None, 9.0, 0.0)
    with pytest.raises(ValueError, match="cosem"):
        read(attributes, dialect="klingon")


# Levels of a pyramid

PYRAMIDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "n5-viewer": (
        {},
        {
            "pixelResolution": {"unit": "nm", "dimensions": [4, 4, 40]},
            "downsamplingFactors": [4, 2, 1],
        },
    ),
    "n5-viewer, listed by the group": (
        {"scales": [[1, 1, 1], [4, 2, 1]], "downsamplingFactors": [[9, 9, 9]] * 2},
        {"pixelResolution": {"unit": "nm", "dimensions": [4, 4, 40]}},
    ),
    "neuroglancer": (
        {
            "axes": ["x", "y", "z"],
            "units": ["nm"] * 3,
            "resolution": [4, 4, 40],
            "downsamplingFactors": [[1, 1, 1], [4, 2, 1]],
        },
        {},
    ),
    "neuroglancer, factors on the level": (
        {"axes": ["x", "y", "z"], "units": ["nm"] * 3, "resolution": [4, 4, 40]},
        {"downsamplingFactors": [4, 2, 1]},
    ),
    "tensorstore": (
        {"downsamplingFactors": [[1, 1, 1], [4, 2, 1]]},
        {"axes": ["x", "y", "z"], "units": ["nm"] * 3, "resolution": [4, 4, 40]},
    ),
    "paintera": (
        {"multiScale": True, "resolution": [4, 4, 40], "offset": [100, 0, 0], "unit": "nm"},
        {"downsamplingFactors": [4, 2, 1]},
    ),
    "cosem": (
        {"multiscales": [{"datasets": [{"path": "s1"}]}]},
        {
            "transform": {
                "axes": ["z", "y", "x"],
                "units": ["nm"] * 3,
                "scale": [40, 8, 16],
                "translate": [0, 2, 106],
            },
            "pixelResolution": {"unit": "nm", "dimensions": [16, 8, 40]},
        },
    ),
}


@pytest.mark.parametrize("dialect", PYRAMIDS)
def test_an_anisotropic_level_lies_right_in_every_dialect(dialect: str) -> None:
    group, level = PYRAMIDS[dialect]
    node = Node(attributes=level, shape=(4, 4, 4), path="p/s1", parents=(group, {}))
    shift = 100.0 if dialect in {"paintera", "cosem"} else 0.0
    found = [(axis.unit, axis.scale, axis.offset) for axis in geometry_of(node).axes]
    assert found == [("nm", 40, 0), ("nm", 8, 2), ("nm", 16, 6 + shift)]


def test_factors_alone_count_in_voxels_of_the_base() -> None:
    assert facts(read({"downsamplingFactors": [2, 2, 2]}))[0] == (None, None, 2.0, 0.5)


def test_an_arrays_own_offset_is_where_it_lies() -> None:
    attributes = {"resolution": [4, 4, 40], "offset": [1, 2, 3], "downsamplingFactors": [2, 2, 1]}
    placed = [(axis.scale, axis.offset) for axis in read(attributes).axes]
    assert placed == [(40, 3), (8, 2), (8, 1)]


def test_levels_are_where_other_projects_tests_say(corpus: Path) -> None:
    tests = json.loads((corpus / "metadata-expectations.json").read_text("utf-8"))["entries"]
    checked = 0
    for row in tests:
        if "n5-universe/src/test/resources/test.n5" not in row["path"] or "scale" not in row:
            continue
        axes = open_array(corpus / row["path"]).axes
        order = 1 if row["order"].startswith("zyx") else -1
        assert [axis.scale for axis in axes][::order] == row["scale"]
        assert [axis.offset for axis in axes][::order] == row["translation"]
        checked += 1
    assert checked >= 6


@pytest.mark.parametrize("kind", ["modern", "deprecated"])
def test_neuroglancers_own_pyramids_are_understood(corpus: Path, kind: str) -> None:
    place = (
        corpus / f"fetched/google+neuroglancer/testdata/datasource/n5/n5_viewer_multiscale_{kind}"
    )
    for level, factor in enumerate((1, 2, 4)):
        axes = open_array(place, f"s{level}").axes
        assert [(axis.name, axis.unit, axis.scale) for axis in axes] == [
            ("y", "s", 20.0 * factor),
            ("x", "nm", 10.0 * factor),
        ]
        assert [axis.offset for axis in axes] == [20 * (factor - 1) / 2, 10 * (factor - 1) / 2]


def test_bigdataviewers_levels_take_their_timepoints_resolution(corpus: Path) -> None:
    place = corpus / "peers/hdf5/pybdv-0.6.0-n5.n5"
    axes = open_array(place, "setup0/timepoint0/s1").axes
    assert [(axis.scale, axis.offset) for axis in axes] == [(4, 0), (2, 0.5), (2, 0.5)]


axis_values = st.builds(
    Axis,
    unit=st.sampled_from([None, "nm", "um", "s"]),
    scale=st.one_of(st.none(), st.floats(1e-6, 1e6)),
    offset=st.floats(-1e6, 1e6),
)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    axes = draw(st.lists(axis_values, min_size=1, max_size=5))
    labels = draw(st.permutations(["t", "c", "z", "y", "x"]))
    named = (replace(axis, name=name) for axis, name in zip(axes, labels, strict=False))
    return Geometry(tuple(named))


@given(geometries())
def test_what_is_written_by_default_is_read_back(geometry: Geometry) -> None:
    shape = tuple(range(2, 2 + geometry.ndim))
    again = read(write_geometry(geometry), shape)
    expected = coords_of(geometry, shape)
    found = coords_of(again, shape)
    assert dims_of(again) == dims_of(geometry)
    for name, variable in expected.items():
        assert found[name].identical(variable)  # type: ignore[no-untyped-call]


@given(geometries(), st.sampled_from(sorted(DIALECTS)))
def test_every_dialect_reads_what_it_can_write(geometry: Geometry, name: str) -> None:
    sayable = {
        "tensorstore": lambda axis: replace(axis, offset=0.0),
        "n5_viewer": lambda axis: Axis(name=None, unit="nm", scale=axis.scale or 1.0),
        "paintera": lambda axis: Axis(unit="um", scale=axis.scale or 1.0, offset=axis.offset),
        "neuroglancer": lambda axis: Axis(name=axis.name, labels=("a", "b")),
        "array_dimensions": lambda axis: Axis(name=axis.name),
        "cosem": lambda axis: replace(axis, scale=axis.scale or 1.0),
    }[name]
    geometry = Geometry(tuple(map(sayable, geometry.axes)))
    attributes = DIALECTS[name].write(geometry)
    node = Node(attributes=attributes, shape=(2,) * geometry.ndim)
    again = DIALECTS[name].read(node)
    assert again is not None
    assert [axis.labels for axis in again.axes] == [axis.labels for axis in geometry.axes]
    expected = facts(geometry)
    if any(axis.unit or axis.scale for axis in geometry.axes):
        expected = [(n, u, 1.0 if s is None else s, o) for n, u, s, o in expected]
    assert facts(again) == expected


def test_several_dialects_are_written_at_once() -> None:
    geometry = Geometry((Axis(name="y", unit="nm", scale=4.0), Axis(name="x", unit="nm", scale=2)))
    written = write_geometry(geometry, ["tensorstore", "n5_viewer", "array_dimensions"])
    assert written == {
        "axes": ["x", "y"],
        "units": ["nm", "nm"],
        "resolution": [2, 4],
        "pixelResolution": {"dimensions": [2, 4], "unit": "nm"},
        "_ARRAY_DIMENSIONS": ["y", "x"],
    }


def test_a_dialect_that_cannot_say_it_refuses() -> None:
    geometry = Geometry((Axis(name="y", unit="nm", scale=4.0), Axis(name="x", unit="s", scale=2)))
    with pytest.raises(ValueError, match="one unit"):
        write_geometry(geometry, "n5_viewer")
    moved = Geometry((Axis(name="x", scale=4.0, offset=2.0),))
    with pytest.raises(ValueError, match="cannot tell offsets"):
        write_geometry(moved, "tensorstore")
    assert "transform" in write_geometry(moved, ["tensorstore", "cosem"])


def test_outsiders_add_dialects_but_do_not_replace_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xarray_n5.dialects.DIALECTS", dict(DIALECTS))

    class Klingon:
        name: ClassVar[str] = "klingon"
        keys: ClassVar[tuple[str, ...]] = ("batlh",)

        def read(self, node: Node) -> Geometry | None:
            found = node.attributes.get("batlh")
            return found and Geometry(tuple(Axis(name=text) for text in found))

        def write(self, geometry: Geometry) -> dict[str, Any]:
            return {"batlh": list(names(geometry.axes))}

    register_dialect(Klingon())
    assert facts(read({"batlh": ["a", "b", "c"]}))[0][0] == "a"

    class Impostor(Klingon):
        name: ClassVar[str] = "cosem"

    with pytest.raises(ValueError, match="exists"):
        register_dialect(Impostor())


# Coordinates


def test_coordinates_are_exact_float64_with_the_unit_as_written() -> None:
    coords = coords_of(Geometry((Axis(name="x", unit="µm", scale=0.1, offset=7.0),)), (1000,))
    assert coords["x"].dtype == np.float64
    np.testing.assert_array_equal(coords["x"], 7.0 + 0.1 * np.arange(1000))
    assert coords["x"].attrs == {"units": "µm"}


def test_nothing_is_invented_where_nothing_is_known() -> None:
    assert coords_of(Geometry((Axis(name="y"), Axis())), (3, 4)) == {}


def test_an_origin_at_the_corner_adds_half_a_voxel() -> None:
    geometry = Geometry((Axis(name="x", scale=4.0, offset=10.0),))
    assert coords_of(geometry, (3,), "corner")["x"].values.tolist() == [12, 16, 20]


@pytest.mark.parametrize("unit", ["seconds", "milliseconds", "days"])
def test_plural_units_of_time_are_not_left_for_xarray_to_decode(unit: str) -> None:
    coords = coords_of(Geometry((Axis(name="t", unit=unit, scale=1.0),)), (2,))
    assert coords["t"].attrs == {"units": unit[:-1]}


def test_an_axis_too_long_for_coordinates_gets_none() -> None:
    with pytest.warns(UserWarning, match="too many"):
        assert coords_of(Geometry((Axis(name="x", scale=1.0),)), (1 << 40,)) == {}
