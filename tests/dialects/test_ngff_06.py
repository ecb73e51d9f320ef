"""Images of OME-Zarr 0.6: positions in their coordinate systems, as the specification says."""

from __future__ import annotations

import json
import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import xarray_n5
from tests.dialects.test_ngff_05 import INTRINSIC, edge, image_06, space, store_06
from tests.support.geometries import facts
from tests.support.ngff_points import SPEC, point_by_point, transformations, vectors

if TYPE_CHECKING:
    from pathlib import Path

POINTS = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1.5, 2.25, 3)]

VERSIONS = ["0.6", "0.6rc0", "0.6.dev1", "0.6.dev4", None]


def opened(place: Path, **options: Any) -> tuple[xr.DataArray, list[str]]:
    """The only array, and the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        (found,) = xr.open_dataset(place, engine="n5", **options).data_vars.values()
    return found, [str(each.message) for each in seen]


def store(place: Path, ome: Any, *, shape: tuple[int, ...], path: str, **attributes: Any) -> None:
    """Store an image with one level."""
    root = zarr.open_group(str(place), mode="w", zarr_format=3)
    root.create_array(path, shape=shape, chunks=shape, dtype="u1")
    root.attrs.update({"ome": ome, **attributes})


def image_of(axes: str, scale: list[float], shift: list[float], *edges: Any) -> dict[str, Any]:
    """An image with an intrinsic system, a world with the same axes, and an unlinked system."""
    steps = [{"type": "scale", "scale": scale}, {"type": "translation", "translation": shift}]
    whole = {"type": "sequence", "transformations": steps}
    kinds = {"t": "time", "c": "channel"}
    listed = [{"name": name, "type": kinds.get(name, "space")} for name in axes]
    levels = [{**whole, "input": {"path": "0"}, "output": {"name": "intrinsic"}}]
    return {
        "coordinateSystems": [
            {"name": name, "axes": listed} for name in ("world", "intrinsic", "other")
        ],
        "datasets": [{"path": "0", "coordinateTransformations": levels}],
        "coordinateTransformations": list(edges),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_every_name_of_the_version_is_read(tmp_path: Path, version: str | None) -> None:
    one = edge("translation", "intrinsic", "world", translation=[10, 20, 30])
    ome = {"version": version, "multiscales": [image_of("zyx", [2, 2, 2], [1, 1, 1], one)]}
    store(tmp_path / "x.zarr", ome, shape=(2, 3, 4), path="0")
    found, said = opened(tmp_path / "x.zarr")
    assert said == []
    assert found.encoding["coordinate_system"] == "intrinsic"
    assert found.n5.to_world([1, 1, 1]).tolist() == [3, 3, 3]
    assert found.n5.to_world([1, 1, 1], system="world").tolist() == [13, 23, 33]
    assert found.n5.to_world([1, 1, 1], system="intrinsic").tolist() == [3, 3, 3]
    assert found.n5.from_world([13, 23, 33], system="world").tolist() == [1, 1, 1]
    assert found.to_dataset().n5.to_world([1, 1, 1], system="world").tolist() == [13, 23, 33]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), back=st.booleans())
def test_positions_in_another_system_are_those_of_the_specification(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, *, back: bool
) -> None:
    place = tmp_path_factory.mktemp("systems") / "x.zarr"
    document = data.draw(transformations(3))
    if back:
        document = {"type": "bijection", "forward": {"type": "identity"}, "inverse": document}
    ends = ("world", "intrinsic") if back else ("intrinsic", "world")
    one = edge(document["type"], *ends, **{k: v for k, v in document.items() if k != "type"})
    scale, shift = (
        data.draw(vectors(st.floats(0.1, 10), 3)),
        data.draw(vectors(st.floats(-9, 9), 3)),
    )
    ome = {"version": "0.6", "multiscales": [image_of("zyx", scale, shift, one)]}
    store(place, ome, shape=(4, 5, 6), path="0")
    found, said = opened(place)
    assert said == []
    cut = found[1:, ::2, 2:]
    for point in POINTS:
        whole = [point[0] + 1, point[1] * 2, point[2] + 2]
        intrinsic = [s * p + t for s, p, t in zip(scale, whole, shift, strict=True)]
        expected = np.asarray(point_by_point(document["inverse"] if back else document, intrinsic))
        rows = np.abs(np.asarray(cut.encoding["coordinate_systems"]["world"]["affine"]))
        size = 1e-9 * max(1.0, float(rows.max()) * 100)
        got = cut.n5.to_world(point, system="world")
        np.testing.assert_allclose(got, expected, rtol=0, atol=size)


def test_a_world_in_another_order_and_with_time_is_on_space_in_z_y_x(tmp_path: Path) -> None:
    image = image_of("tcyx", [1, 1, 2, 4], [0, 0, 1, 3])
    image["coordinateSystems"][0]["axes"] = space("x", "y", unit="nanometer")
    image["coordinateTransformations"] = [
        edge("affine", affine=[[0, 0, 0, 1000, 5], [0, 0, 1000, 0, 6]], target="world")
    ]
    store(tmp_path / "x.zarr", {"multiscales": [image]}, shape=(2, 2, 3, 4), path="0")
    found, said = opened(tmp_path / "x.zarr")
    assert said == []
    systems = found.encoding["coordinate_systems"]
    assert systems["world"]["axes"] == ["y", "x"]
    assert systems["world"]["units"] == ["nanometer", "nanometer"]
    assert found.n5.to_world([1, 1], system="world").tolist() == [3006, 7005]
    with pytest.raises(ValueError, match=r"shape \(..., 2\), for y, x"):
        found.n5.to_world([0, 1, 1], system="world")
    with pytest.raises(ValueError, match="no coordinate system 'moon', expected one of: 'world'"):
        found.n5.to_world([1, 1], system="moon")
    computed = found.drop_encoding()
    with pytest.raises(ValueError, match="as they were opened"):
        computed.n5.to_world([1, 1], system="world")
    bare = found.drop_vars("x")
    with pytest.raises(ValueError, match="no coordinates x"):
        bare.n5.to_world([1, 1], system="world")


def test_systems_are_placed_by_centres_of_samples(tmp_path: Path) -> None:
    one = edge("translation", "intrinsic", "world", translation=[10, 20, 30])
    ome = {"multiscales": [image_of("zyx", [2, 2, 2], [1, 1, 1], one)]}
    store(tmp_path / "x.zarr", ome, shape=(2, 3, 4), path="0")
    found, _ = opened(tmp_path / "x.zarr")
    turned = found.transpose("x", "y", "z")
    assert turned.n5.to_world([1, 0, 0], system="world").tolist() == [13, 21, 31]


IGNORED = {
    "displacements": edge("displacements", path="field", target="world"),
    "coordinates": edge("coordinates", path="field", target="world"),
    "warp": edge("warp", target="world"),
    "mixed": edge(
        "affine", affine=[[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [2, 0, 1, 0, 0], [0, 0, 0, 1, 0]]
    ),
    "singular": edge("scale", "world", "intrinsic", scale=[1, 1, 1]),
    "not listed": edge("identity", target="moon"),
    "invalid": edge("scale", target="world", scale=[0, 1, 1, 1]),
    "array": edge("affine", target="world", path="nowhere"),
    "outside": edge("affine", target="world", path="../nowhere"),
}


@pytest.mark.parametrize("kind", IGNORED)
def test_what_cannot_be_computed_is_a_warning_and_the_image_opens(
    tmp_path: Path, kind: str
) -> None:
    one = IGNORED[kind] if kind != "mixed" else {**IGNORED[kind], "output": {"name": "world"}}
    ome = {"version": "0.6", "multiscales": [image_of("tzyx", [1, 2, 2, 2], [0, 1, 1, 1], one)]}
    store(tmp_path / "x.zarr", ome, shape=(2, 2, 3, 4), path="0")
    found, (message,) = opened(tmp_path / "x.zarr")
    assert "Its coordinates are those of 'intrinsic'" in message
    assert {"mixed": "'y' of 'world' depends on 't'"}.get(kind, one["type"]) in message
    assert found.z.values.tolist() == [1, 3]
    assert "coordinate_systems" not in found.encoding


def test_a_matrix_in_an_array_is_loaded_from_the_container(tmp_path: Path) -> None:
    one = edge("affine", target="world", path="coordinateTransformations/m")
    two = edge("rotation", target="other", path="coordinateTransformations/r")
    ome = {"multiscales": [image_of("zyx", [2, 2, 2], [1, 1, 1], one, two)]}
    store(tmp_path / "x.zarr", ome, shape=(2, 3, 4), path="0")
    root = zarr.open_group(str(tmp_path / "x.zarr"))
    rows = np.array([[0, 0, 1.0, 10], [0, 1, 0, 20], [1, 0, 0, 30]])
    root.create_array("coordinateTransformations/m", data=rows)
    root.create_array("coordinateTransformations/r", data=rows[:, :3])
    found, said = opened(tmp_path / "x.zarr")
    assert said == []
    assert found.n5.to_world([0, 1, 2], system="world").tolist() == [15, 23, 31]
    assert found.n5.to_world([0, 1, 2], system="other").tolist() == [5, 3, 1]
    large = edge("affine", target="world", path="0")
    root.attrs["ome"] = {"multiscales": [image_of("zyx", [2, 2, 2], [1, 1, 1], large)]}
    _, (message,) = opened(tmp_path / "x.zarr")
    assert "the array '0' has the shape (2, 3, 4)" in message


def test_ways_that_differ_are_a_warning(tmp_path: Path) -> None:
    edges = [
        edge("translation", target="world", translation=[1, 0, 0]),
        edge("identity", target="other"),
        edge("identity", "other", "world"),
    ]
    ome = {"multiscales": [image_of("zyx", [1, 1, 1], [0, 0, 0], *edges)]}
    store(tmp_path / "x.zarr", ome, shape=(2, 3, 4), path="0")
    found, (message,) = opened(tmp_path / "x.zarr")
    assert "lead to other positions" in message
    assert found.n5.to_world([0, 0, 0], system="world").tolist() == [1, 0, 0]


@pytest.mark.filterwarnings("ignore:.*by position:UserWarning")
def test_labels_and_images_are_where_their_own_systems_say(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    label = edge("scale", "intrinsic", {"path": "labels/a", "name": "intrinsic"}, scale=[3, 3])
    store_06(place, image_06(label, edge("translation", translation=[100, 100])))
    store_06(place, image_06(), path="labels/a")
    for path in ("s0", "labels/a/s0"):
        assert facts(xarray_n5.open_array(place, path).geometry()) == INTRINSIC


def intrinsic_of(image: dict[str, Any]) -> tuple[str, list[str], dict[str, Any]]:
    """The system of an image's levels, its axes, and the transformation of the first level."""
    (one,) = image["datasets"][0]["coordinateTransformations"]
    name = one["output"]["name"]
    (axes,) = (each["axes"] for each in image["coordinateSystems"] if each["name"] == name)
    return name, [axis["name"] for axis in axes], one


EXAMPLES = sorted(
    path
    for folder in ("examples", "tests/attributes/spec/valid")
    for path in SPEC.glob(f"{folder}/**/[a-z]*.json")
    if "multiscales" in path.read_text(encoding="utf-8")
    and not {"label", "label_strict", "bf2raw"} & {*path.parts}
)


@pytest.mark.skipif(not EXAMPLES, reason="the specification is not here")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_images_of_the_specification_are_where_it_says(tmp_path: Path, path: Path) -> None:
    document = json.loads(
        re.sub(r"^ *//.*$|(?<=[,\[{]) //.*$", "", path.read_text("utf-8"), flags=re.MULTILINE)
    )
    attributes = document.get("attributes", document)
    ome = attributes.get("ome")
    ome = ome if isinstance(ome, dict) else attributes
    image = ome["multiscales"][0]
    name, axes, level = intrinsic_of(image)
    shape = tuple(range(3, 3 + len(axes)))
    root = zarr.open_group(str(tmp_path / "x.zarr"), mode="w", zarr_format=3)
    for each in image["datasets"]:
        root.create_array(each["path"].removeprefix("./"), shape=shape, chunks=shape, dtype="u1")
    root.attrs.update(attributes)
    found, said = opened(tmp_path / "x.zarr", level=0)
    if path.stem in {"displacement_field", "mismatch_axes_units"}:
        assert ["is for 2 axes, expected 3" in message for message in said] == [True]
        return
    assert found.dims == tuple(axes)
    index = [1.5 if size > 2 else 0.0 for size in shape]
    intrinsic = point_by_point(level, index)
    for dim, at, expected in zip(axes, index, intrinsic, strict=True):
        if dim in found.coords:
            start, after = found[dim].values[:2]
            assert abs(start + at * (after - start) - expected) < 1e-9
    spatial = [at for at, axis in enumerate(axes) if axis in {"z", "y", "x", "dim_0", "dim_1"}]
    for one in image.get("coordinateTransformations", []):
        refused = path.stem in {
            "multiscales",
            "multiscales_transform_additional_transforms",
            "multiscales_transform_additional_transforms_path",
            "affineParams",
        }
        if refused:
            assert one["type"] in said[0]
        elif "path" not in one["input"] and "path" not in one["output"]:
            assert one["input"]["name"] == name
            target = point_by_point(one, intrinsic)
            got = found.n5.to_world([index[at] for at in spatial], system=one["output"]["name"])
            system = found.encoding["coordinate_systems"][one["output"]["name"]]
            (names,) = (
                [axis["name"] for axis in each["axes"]]
                for each in image["coordinateSystems"]
                if each["name"] == one["output"]["name"]
            )
            np.testing.assert_allclose(
                got, [target[names.index(each)] for each in system["axes"]], atol=1e-9
            )
            assert said == []


def test_systems_are_read_by_the_geometry_of_arrays(tmp_path: Path) -> None:
    store_06(tmp_path / "x.zarr", image_06(edge("mapAxis", mapAxis=[1, 0])))
    geometry = xarray_n5.open_array(tmp_path / "x.zarr", "s1").geometry()
    assert geometry.systems is not None
    placed, problems = geometry.systems.placements()
    assert problems == []
    assert placed["stage"].rows == ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
