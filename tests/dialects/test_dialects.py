"""What dialects read from attributes, and what becomes of several of them."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.support.geometries import facts, read
from xarray_n5 import create_array
from xarray_n5.dialects import DIALECTS, array_keys, geometry_of, group_keys, register_dialect
from xarray_n5.dialects.protocol import ArrayContext
from xarray_n5.dialects.write import write_geometry
from xarray_n5.model.axes import Axis, Geometry, names
from xarray_n5.model.units import same_unit

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.dialects import Dialect


@pytest.mark.parametrize(
    ("dialect", "key"),
    [
        ("n5_viewer", "pixelResolution"),
        ("paintera", "unit"),
        ("imagej", "pixelUnit"),
        ("canonical", "spatialTransform"),
    ],
)
def test_a_dialect_with_one_unit_takes_several_spellings_of_it(dialect: str, key: str) -> None:
    names = "zyx"
    units = ("um", "micrometer", "\N{MICRO SIGN}m")
    axes = tuple(
        Axis(name=name, unit=unit, scale=2.0) for name, unit in zip(names, units, strict=True)
    )
    written = write_geometry(Geometry(axes), (4, 4, 4), [dialect, "array_dimensions"])
    assert key in written
    found = read(written).axes
    assert [(axis.scale, same_unit(axis.unit, "um")) for axis in found] == [(2.0, True)] * 3
    other = (*axes[:2], replace(axes[2], unit="nm"))
    if dialect != "canonical":
        with pytest.raises(ValueError, match="one"):
            write_geometry(Geometry(other), (4, 4, 4), [dialect, "array_dimensions"])


def test_a_unit_that_viewers_know_is_written_once() -> None:
    axes = (Axis(name="y", unit="um", scale=2.0), Axis(name="x", unit="nm", scale=3.0))
    written = write_geometry(Geometry(axes), (4, 4))
    assert written["units"] == ["nm", "um"]
    assert "transform" not in written


COSEM: dict[str, list[Any]] = {
    "axes": ["z", "y", "x"],
    "units": ["nm"] * 3,
    "scale": [40, 4, 4],
    "translate": [1, 2, 3],
}

AS_COSEM = [("z", "nm", 40, 1), ("y", "nm", 4, 2), ("x", "nm", 4, 3)]

TURNED = {name: values[::-1] for name, values in COSEM.items()}

MICRONS = {"pixelResolution": {"unit": "um", "dimensions": [0.5, 0.5, 2]}}

XYZ: dict[str, Any] = {"axes": ["x", "y", "z"], "units": ["nm"] * 3}

HALVED = {"downsamplingFactors": [2, 2, 1]}


def plain(*numbers: tuple[float, float], unit: str | None = None) -> list[tuple[Any, ...]]:
    """Axes without names, by their scales and offsets."""
    return [(None, unit, *pair) for pair in numbers]


def cosem(**more: Any) -> dict[str, Any]:
    return {"transform": {**COSEM, **more}}


READ: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[Any, ...]]]] = {
    "units alone": ({"units": ["nm"] * 3}, {}, plain(*[(1, 0)] * 3, unit="nm")),
    "numbers": ({"resolution": [4, 4, 40]}, {}, plain((40, 0), (4, 0), (4, 0))),
    "texts": ({"resolution": ["4", "4.0", "40"]}, {}, plain((40, 0), (4, 0), (4, 0))),
    "one number": ({"resolution": 2}, {}, plain(*[(2, 0)] * 3)),
    "a short list": ({"pixelResolution": [3, 2]}, {}, plain((1, 0), (2, 0), (3, 0))),
    "short lists": (
        {"resolution": [3, 2], "offset": [7, 8]},
        {},
        plain((1, 0), (2, 8), (3, 7)),
    ),
    "the unit of a resolution": (MICRONS, {}, plain((2, 0), (0.5, 0), (0.5, 0), unit="um")),
    "units beside a resolution": (
        {**MICRONS, "units": ["nm", "nm", "s"], "axes": ["x", "y", "t"]},
        {},
        [("t", "s", 2, 0), ("y", "nm", 0.5, 0), ("x", "nm", 0.5, 0)],
    ),
    "a bare resolution": ({"pixelResolution": [1, 2, 3]}, {}, plain((3, 0), (2, 0), (1, 0))),
    "cosem in C order": (cosem(), {}, AS_COSEM),
    "cosem in stated C order": (cosem(order="C"), {}, AS_COSEM),
    "cosem in no order": (cosem(ordering=None), {}, AS_COSEM),
    "cosem in one of two orders": (cosem(order=None, ordering="C"), {}, AS_COSEM),
    "cosem by Java": ({"transform": {**TURNED, "ordering": "F"}}, {}, AS_COSEM),
    "cosem by Python": ({"transform": {**TURNED, "order": "f"}}, {}, AS_COSEM),
    "cosem with one unit": (cosem(units="nm"), {}, AS_COSEM),
    "cosem with other units": (
        cosem(units=[1, None, {}]),
        {},
        [(name, None, *more) for name, _, *more in AS_COSEM],
    ),
    "cosem with one scale": (
        cosem(scale="40", translate=None),
        {},
        [(name, "nm", 40, 0) for name in "zyx"],
    ),
    "cosem without names": (
        cosem(scale=40.0, axes=None),
        {},
        plain((40, 1), (40, 2), (40, 3), unit="nm"),
    ),
    "a group without a resolution": (
        {},
        {**XYZ, "downsamplingFactors": [[1] * 3, [2] * 3]},
        [(name, "nm", 2, 0.5) for name in "zyx"],
    ),
    "lists for the named axes of space": (
        {"axes": ["x", "y", "c"], "units": ["nm", "nm"], "resolution": [4, 4]},
        {},
        [("c", None, None, 0), ("y", "nm", 4, 0), ("x", "nm", 4, 0)],
    ),
    "units whose resolution is the group's": (
        {**XYZ, **HALVED},
        {"resolution": [4, 4, 40], "axes": ["x", "y", "z"]},
        [("z", "nm", 40, 0), ("y", "nm", 8, 2), ("x", "nm", 8, 2)],
    ),
    "a generic unit": (
        {"unit": "nm", "resolution": [4, 4, 40], **HALVED},
        {},
        plain((40, 0), (8, 2), (8, 2), unit="nm"),
    ),
    "a generic unit and an offset": (
        {"unit": "nm", "resolution": [4, 4, 40], **HALVED, "offset": [0, 0, 0]},
        {},
        plain((40, 0), (8, 0), (8, 0), unit="nm"),
    ),
    "a resolution of the group": (
        {},
        {
            "pixelResolution": {"dimensions": [4, 4, 40], "unit": "nm"},
            "scales": [[1, 1, 1], [2, 2, 1]],
        },
        plain((40, 0), (8, 2), (8, 2), unit="nm"),
    ),
}
"""By case: the attributes of a level and of its group, and the axes."""


@pytest.mark.parametrize("case", READ)
def test_attributes_are_read_as_axes(case: str) -> None:
    attributes, group, expected = READ[case]
    assert facts(read(attributes, path="p/s1", parents=(group,) if group else ())) == expected


@pytest.mark.parametrize(
    "attributes",
    [
        {"axes": ["x", "x", "z"]},
        {"axes": [{"name": "x"}] * 3},
        {"axes": ["x"] * 4},
        {"axes": ["x", "y"]},
        {"units": ["um"]},
        {"units": [1, 2, 3]},
        {"resolution": [0, -1, True]},
        {"resolution": ["a", None, []]},
        {"resolution": {"x": 1}},
        {"pixelResolution": {"dimensions": [float("inf")] * 3}},
        {"transform": {"scale": [1], "translate": [1]}},
        {"transform": {"scale": ["a"] * 3, "translate": [0] * 3}},
        {"transform": {"scale": [0] * 3, "translate": [0] * 3}},
        {"_ARRAY_DIMENSIONS": ["a", "a", "b"]},
        {"_ARRAY_DIMENSIONS": "zyx"},
        cosem(scale=[True, True, True]),
        cosem(order="C", ordering="F"),
        cosem(order="Z"),
        cosem(axes=[["x"], "y", "z"]),
        cosem(axes=["z", "y"]),
        cosem(translate=[1, 2]),
    ],
)
def test_odd_metadata_only_warn_and_name_the_attribute(attributes: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match=next(iter(attributes))):
        assert facts(read(attributes)) == [(None, None, None, 0.0)] * 3


@pytest.mark.parametrize("attributes", [{}, {"transform": 3}, {"transform": {}}, {"other": []}])
def test_other_attributes_say_nothing(attributes: dict[str, Any]) -> None:
    assert facts(read(attributes)) == [(None, None, None, 0.0)] * 3


PLACED: dict[str, dict[str, Any]] = {
    "cosem": {"transform": {"scale": [40, 4, 8], "translate": [0, 2, 2]}},
    "tensorstore": {"units": ["nm"] * 3, "resolution": [8, 4, 40]},
    "n5_viewer": {"pixelResolution": {"dimensions": [8, 4, 40], "unit": "nm"}},
    "paintera": {"resolution": [8, 4, 40], "offset": [2, 2, 0]},
    "funlib": {"axis_names": ["z", "y", "x"], "voxel_size": [40, 4, 8], "offset": [0, 2, 2]},
    "imagej": {
        "pixelWidth": 8,
        "pixelHeight": 4,
        "pixelDepth": 40,
        "pixelUnit": "nm",
        "xOrigin": 0,
        "yOrigin": 0,
        "zOrigin": 0,
        "numChannels": 1,
        "numSlices": 3,
        "numFrames": 1,
    },
}


@pytest.mark.parametrize("name", PLACED)
@pytest.mark.parametrize("bad", [0, "a", None, float("inf"), True, [1]], ids=repr)
def test_a_bad_number_costs_the_coordinates_of_its_axis_alone(name: str, bad: Any) -> None:
    text = json.dumps(PLACED[name])
    number = re.search(r"(?<=[\[ ])4(?=,)", text)
    assert number
    attributes = json.loads(f"{text[: number.start()]}{json.dumps(bad)}{text[number.end() :]}")
    with pytest.warns(UserWarning, match="axes with others have no coordinates"):
        geometry = read(attributes)
    right = read(PLACED[name])
    assert [axis.placed for axis in geometry.axes] == [True, False, True]
    assert geometry.axes[1].unit is None
    assert geometry.axes[::2] == right.axes[::2]
    assert geometry.with_names().axes[1].name == right.with_names().axes[1].name


@pytest.mark.parametrize("name", [True, 1, 1.5, [None], {"a": 1}])
def test_an_axis_has_a_text_for_a_name(name: Any) -> None:
    axes = [{"name": name, "type": "space"}, {"name": "y"}, {"name": "z"}]
    said = {"transform": {"type": "scale", "scale": [1, 2, 3]}, "axes": axes}
    with pytest.warns(UserWarning, match="canonical"):
        assert not read({"spatialTransform": said}).named
    image = {"axes": axes, "datasets": [{"path": "s0"}]}
    with pytest.warns(UserWarning, match="ngff"):
        assert not read({}, path="p/s0", parents=({"multiscales": [image]},)).named


@pytest.mark.parametrize("units", ["counts", "days since 2000-01-01", "1"])
def test_a_text_that_is_the_unit_of_the_values_says_nothing_of_axes(units: str) -> None:
    own: dict[str, Any] = {"pixelResolution": {"unit": "um", "dimensions": [4, 4, 40]}}
    assert facts(read({**own, "units": units})) == facts(read(own))
    group = {"resolution": [4, 4, 40], "offset": [100, 0, 0]}
    level = {"downsamplingFactors": [2, 2, 1], "units": units}
    found = read(level, path="p/s1", parents=(group,))
    assert [(axis.scale, axis.offset) for axis in found.axes] == [(40, 0), (8, 2), (8, 102)]
    plain = {"axes": ["x", "y", "z"], "resolution": [4, 4, 40]}
    assert [axis.unit for axis in read({**plain, "units": units}).axes] == [None] * 3
    assert [axis.unit for axis in read({**plain, "units": "nm"}).axes] == ["nm"] * 3


def test_cosems_axes_that_begin_with_x_are_doubted() -> None:
    turned = {**COSEM, "axes": ["x", "y", "z"]}
    with pytest.warns(UserWarning, match="first axis in NumPy is x"):
        assert facts(read({"transform": turned}))[0][0] == "x"
    assert facts(read({"transform": {**turned, "order": "C"}}))[0][0] == "x"


def test_array_dimensions_are_turned_where_only_that_fits_the_arrays_beside() -> None:
    attributes = {"_ARRAY_DIMENSIONS": ["lon", "lat", "time"]}
    for beside, first in (
        ({"time": 2, "lat": 3, "lon": 4}, "time"),
        ({"lon": 4}, "time"),
        ({"time": 4, "lon": 2}, "lon"),
        ({"time": 9}, "lon"),
        ({"other": 4}, "lon"),
    ):
        assert facts(read(attributes, coordinate_sizes=beside))[0][0] == first


# Precedence, provenance, conflicts


def test_placement_comes_whole_from_the_first_dialect_that_knows_it() -> None:
    attributes = {"transform": COSEM, "axes": ["a", "b", "c"], "resolution": [9, 9, 9]}
    with pytest.warns(UserWarning, match="disagree") as caught:
        geometry = read(attributes)
    assert facts(geometry) == facts(read({"transform": COSEM}))
    assert geometry.dialects == ("cosem", "tensorstore")
    texts = [str(each.message) for each in caught]
    ending = "; using cosem (dialect='tensorstore' uses the other)"
    what = "/: cosem and tensorstore metadata disagree on"
    names = "the names of the axes in C order: ['z', 'y', 'x'] and ['c', 'b', 'a']"
    assert texts == [
        f"{what} the scale of axis 'z': 40 nm and 9{ending}",
        f"{what} {names}{ending}",
    ]


def test_each_number_has_a_source() -> None:
    geometry = read({"resolution": [4, 4, 40], "_ARRAY_DIMENSIONS": ["t", "lat", "lon"]})
    assert facts(geometry)[0] == ("t", None, 40.0, 0.0)
    assert geometry.sources == {
        "names": "array_dimensions: _ARRAY_DIMENSIONS",
        "scale": "paintera: resolution",
    }
    assert read({"transform": COSEM}).sources == dict.fromkeys(
        ("names", "units", "scale", "offset"), "cosem: transform"
    )
    group = {"axes": ["x", "y", "z"], "units": ["nm"] * 3, "resolution": [4, 4, 40]}
    level = read({"downsamplingFactors": [2, 2, 1]}, path="p/s1", parents=(group,))
    assert level.sources == {
        "names": "neuroglancer: axes of the group",
        "units": "neuroglancer: units of the group",
        "scale": "neuroglancer: resolution of the group, downsamplingFactors",
    }


AGREEING: dict[str, dict[str, Any]] = {
    "the same in another unit": {
        "transform": {**COSEM, "translate": [0, 0, 0]},
        "axes": ["x", "y", "z"],
        "units": ["um"] * 3,
        "resolution": [0.004, 0.004, 0.04],
    },
    "an offset that only one can tell": {
        "transform": COSEM,
        "axes": ["x", "y", "z"],
        "units": ["nm"] * 3,
        "resolution": [4, 4, 40],
    },
    "a level's own resolution, as COSEM writes it": {
        "transform": COSEM,
        "pixelResolution": {"dimensions": [4, 4, 40], "unit": "nm"},
    },
    "factors of an unknown resolution": {"transform": COSEM, "downsamplingFactors": [2, 2, 1]},
    "a resolution of ones": {"transform": COSEM, "resolution": [1, 1, 1], "offset": [0, 0, 0]},
    "rounding": {"transform": COSEM, "pixelResolution": [4.000001, 4, 40]},
}


@pytest.mark.parametrize("case", AGREEING)
def test_what_agrees_is_not_complained_of(case: str) -> None:
    placed = {"transform": AGREEING[case]["transform"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert facts(read(AGREEING[case])) == facts(read(placed))


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"pixelResolution": [4, 4, 41]}, "scale of axis 'z'"),
        ({"pixelResolution": {"dimensions": [4, 4, 40], "unit": "um"}}, "scale of axis 'z'"),
        ({"pixelResolution": {"dimensions": [4, 4, 40], "unit": "s"}}, "unit of axis 'z'"),
        ({"resolution": [4, 4, 40], "offset": [3, 2, 2]}, "offset of axis 'z'"),
        ({"_ARRAY_DIMENSIONS": ["x", "y", "z"]}, "names"),
    ],
)
def test_what_disagrees_is_told_and_the_first_believed(more: dict[str, Any], what: str) -> None:
    with pytest.warns(UserWarning, match=what):
        assert facts(read({"transform": COSEM, **more})) == facts(read({"transform": COSEM}))


@pytest.mark.parametrize("more", [{"axes": ["x", "y", "z"]}, {"units": ["nm"] * 3}])
@pytest.mark.parametrize("grouped", [False, True])
def test_an_offset_that_is_ignored_is_told_and_can_be_used(
    more: dict[str, Any], *, grouped: bool
) -> None:
    start = {"offset": [100, 200, 300]}
    own = {"resolution": [4, 4, 40], **more, **({} if grouped else start)}
    around = (start,) if grouped else ()
    with pytest.warns(UserWarning, match="paintera and tensorstore metadata disagree: 'offset"):
        found = read(own, parents=around)
    assert [axis.offset for axis in found.axes] == [0, 0, 0]
    assert "offset" not in found.keys
    used = read(own, parents=around, dialect=["paintera", "tensorstore"])
    assert [axis.offset for axis in used.axes] == [300, 200, 100]
    names_and_units = [(axis.name, axis.unit) for axis in used.axes]
    assert names_and_units == [(axis.name, axis.unit) for axis in found.axes]


@pytest.mark.parametrize(
    "more", [{"transform": COSEM}, {"offset": [0, 0, 0]}, {"offset": ["a"]}, {"offset": [1] * 4}]
)
def test_an_offset_that_moves_nothing_is_not_told(more: dict[str, Any]) -> None:
    tensorstore = {"axes": ["x", "y", "z"], "units": ["nm"] * 3, "resolution": [4, 4, 40]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read({**tensorstore, "offset": [2, 2, 2], **more})


@pytest.mark.parametrize("group", [{}, {"resolution": [8, 8, 40]}])
def test_factors_beside_units_are_no_resolution(group: dict[str, Any]) -> None:
    units = {"axes": ["x", "y", "z"], "units": ["nm"] * 3}
    own = {**units, "resolution": [4, 4, 40], "downsamplingFactors": [1, 1, 1]}
    found = read(own, path="p/s0", parents=(group,))
    assert facts(found) == [("z", "nm", 40, 0), ("y", "nm", 4, 0), ("x", "nm", 4, 0)]
    transform = {**COSEM, "translate": [0, 0, 0]}
    assert facts(read({**own, "transform": transform})) == facts(found)


def test_units_and_labels_are_filled_in_from_another_dialect() -> None:
    timepoint = {"resolution": [4.0, 4.0, 40.0], "offset": [0, 0, 0]}
    canonical = {
        "spatialTransform": {
            "transform": {"type": "scale", "scale": [4, 4, 40]},
            "unit": "nm",
        }
    }
    geometry = read({"pixelResolution": [4, 4, 40], **timepoint, **canonical})
    assert [axis.unit for axis in geometry.axes] == ["nm"] * 3
    assert geometry.sources["units"] == "canonical: spatialTransform"
    labelled = read(
        {"transform": {**COSEM, "axes": ["c", "y", "x"]}, "coordinateArrays": {"c": ["A", "B"]}}
        | {"axes": ["x", "y", "c"]}
    )
    assert labelled.axes[0].labels == ("A", "B")
    assert labelled.sources["labels"] == "neuroglancer: coordinateArrays"


def test_one_dialect_can_be_chosen() -> None:
    attributes = {"transform": COSEM, "resolution": [9, 9, 9]}
    assert facts(read(attributes, dialect="paintera"))[0] == (None, None, 9.0, 0.0)
    with pytest.warns(UserWarning, match="using paintera"):
        both = read(attributes, dialect=["paintera", "cosem"])
    assert facts(both)[0] == ("z", None, 9.0, 0.0)
    with pytest.warns(UserWarning, match="no tensorstore metadata"):
        assert not read(attributes, dialect="tensorstore").placed
    with pytest.raises(ValueError, match="dialect is empty"):
        read(attributes, dialect=[])
    with pytest.raises(ValueError, match="cosem"):
        read(attributes, dialect="klingon")


def test_outsiders_add_dialects_but_do_not_replace_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xarray_n5.dialects.DIALECTS", dict(DIALECTS))

    class Klingon:
        name: ClassVar[str] = "klingon"
        keys: ClassVar[tuple[str, ...]] = ("batlh",)

        def read(self, node: ArrayContext) -> Geometry | None:
            found = node.attributes.get("batlh")
            return found and Geometry(tuple(Axis(name=text) for text in found))

        def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:
            assert len(node.shape) == geometry.ndim
            return {"batlh": list(names(geometry.axes))}

    register_dialect(Klingon())
    geometry = read({"batlh": ["a", "b", "c"]})
    assert facts(geometry)[0][0] == "a"
    assert geometry.sources == {"names": "klingon"}
    assert write_geometry(geometry, (2, 3, 4), "klingon") == {"batlh": ["a", "b", "c"]}
    assert "batlh" in group_keys() & array_keys()  # a new pyramid in the group replaces it
    with pytest.warns(UserWarning, match="klingon .* describe 2 axes, the array has 3"):
        assert not read({"batlh": ["a", "b"]}).named

    for other in (object(), Klingon):
        with pytest.raises(TypeError, match="expected an object with name, keys, read and write"):
            register_dialect(other)  # type: ignore[arg-type]

    class Impostor(Klingon):
        name: ClassVar[str] = "cosem"

    with pytest.raises(ValueError, match="already registered"):
        register_dialect(Impostor())


def test_the_axes_of_a_new_array_are_read_back_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    class Counting:
        name: ClassVar[str] = "counting"
        keys: ClassVar[tuple[str, ...]] = ()

        def read(self, node: ArrayContext) -> Geometry | None:
            reads.append(node.path)
            return None

        def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
            return {}

    monkeypatch.setattr("xarray_n5.dialects.DIALECTS", {**DIALECTS, "counting": Counting()})
    axes = [Axis(name="y", unit="nm", scale=4.0), Axis(name="x", unit="nm", scale=4.0, offset=8.0)]
    create_array(tmp_path / "a.n5", "em", shape=(4, 4), dtype="u1", axes=axes)
    assert reads == ["em"]


@pytest.mark.parametrize("where", ["attributes", "parents", "base"])
def test_a_dialect_reads_arrays_with_one_of_its_keys_on_or_around_them(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    asked: list[str] = []

    class Asked:
        name: ClassVar[str] = "asked"
        keys: ClassVar[tuple[str, ...]] = ("mine",)

        def read(self, node: ArrayContext) -> Geometry | None:
            asked.append(node.path)
            return None

        def write(self, geometry: Geometry, node: ArrayContext) -> dict[str, Any]:  # noqa: ARG002
            return {}

    monkeypatch.setattr("xarray_n5.dialects.DIALECTS", {**DIALECTS, "asked": Asked()})
    node = ArrayContext(attributes={"theirs": 1}, shape=(4, 5), path="a/s1", parents=({}, {}))
    assert geometry_of(node).dialects == ()
    assert asked == []
    more: dict[str, Any] = {
        "attributes": {"mine": 1},
        "parents": ({}, {"mine": 1}),
        "base": ArrayContext(attributes={"mine": 1}, shape=(8, 10), path="a/s0"),
    }
    geometry_of(replace(node, **{where: more[where]}))
    assert asked == ["a/s1"]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_dialect_without_its_signs_reads_nothing(dialect: Dialect) -> None:
    others = {"title": "em", "resolution_of_others": 4}
    node = ArrayContext(attributes=others, shape=(4, 5, 6), path="em/s1", parents=(others, others))
    assert dialect.read(replace(node, base=node.other("em/s0", others, (8, 10, 12)))) is None
