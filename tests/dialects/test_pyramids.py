"""Levels of pyramids and lists of transforms: where they put samples, dialect by dialect."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from tests.support.geometries import CALIBRATED, MOVED, facts, places, project, read
from xarray_n5 import create_array, open_array
from xarray_n5.arrays.coordinates import coords_of
from xarray_n5.dialects import geometry_of
from xarray_n5.dialects.protocol import ArrayContext

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.model.axes import Geometry

PYRAMIDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "n5-viewer, listed by the group": (
        {"scales": [[1, 1, 1], [4, 2, 1]], "downsamplingFactors": [[9, 9, 9]] * 2},
        {"pixelResolution": {"unit": "nm", "dimensions": [4, 4, 40]}},
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
}


@pytest.mark.parametrize("dialect", PYRAMIDS)
def test_an_anisotropic_level_lies_right_in_every_dialect(dialect: str) -> None:
    group, level = PYRAMIDS[dialect]
    node = ArrayContext(attributes=level, shape=(4, 4, 4), path="p/s1", parents=(group, {}))
    shift = 100.0 if dialect == "paintera" else 0.0
    found = [(axis.unit, axis.scale, axis.offset) for axis in geometry_of(node).axes]
    assert found == [("nm", 40, 0), ("nm", 8, 2), ("nm", 16, 6 + shift)]


def test_factors_alone_count_in_voxels_of_the_base() -> None:
    assert facts(read({"downsamplingFactors": [2, 2, 2]}))[0] == (None, None, 2.0, 0.5)


def test_an_arrays_own_offset_is_where_it_lies() -> None:
    attributes = {"resolution": [4, 4, 40], "offset": [1, 2, 3], "downsamplingFactors": [2, 2, 1]}
    assert places(read(attributes)) == [(40, 3), (8, 2), (8, 1)]


def test_a_levels_own_resolution_is_not_multiplied_again() -> None:
    group = {"scales": [[1, 1, 1], [2, 2, 2]], "pixelResolution": {"dimensions": [4, 4, 5.24]}}
    level = {"pixelResolution": {"dimensions": [8, 8, 10.48], "unit": "nm"}}
    found = read(level, path="p/s1", parents=(group,))
    assert places(found) == [(10.48, 2.62), (8, 2), (8, 2)]
    base = ArrayContext(attributes={"pixelResolution": [4, 4, 5.24]}, shape=(4, 6, 8), path="p/s0")
    found = read(level, path="p/s1", base=base)
    # Its voxels are two base voxels long, so they lie half a base voxel on.
    assert places(found) == [(10.48, 2.62), (8, 2), (8, 2)]


@pytest.mark.parametrize(
    "group",
    [
        {"axes": ["x", "y", "z"], "units": ["nm"] * 3, "resolution": [4, 4, 40]},
        {"multiScale": True, "resolution": [4, 4, 40]},
    ],
)
def test_a_level_without_factors_lies_nobody_knows_where(group: dict[str, Any]) -> None:
    assert places(read({}, path="p/s0", parents=(group,))) == [(40, 0), (4, 0), (4, 0)]
    with pytest.warns(UserWarning, match="level 2 has no factors"):
        found = read({}, path="p/s2", parents=(group,))
    assert places(found) == [(None, 0)] * 3
    assert found.named == ("axes" in group)


def test_canonical_transforms_may_stand_on_the_group_alone() -> None:
    def entry(name: str, scale: list[float]) -> dict[str, Any]:
        said = {"transform": {"type": "scale", "scale": scale}, "unit": "um"}
        return {"path": name, "spatialTransform": said}

    datasets = [entry("a", [1, 2, 3]), entry("b", [2, 2, 6])]
    group = {"multiscales": {"path": "", "datasets": datasets}}
    found = read({}, path="p/b", parents=(group,))
    assert facts(found)[0] == (None, "um", 6, 0)
    assert [axis.factor for axis in found.axes] == [2, 1, 2]
    assert found.sources["scale"] == "canonical: multiscales of the group"


def test_a_transform_may_come_after_n5_viewers_resolution() -> None:
    own = {"pixelResolution": [1.5, 1.5, 1.5], "downsamplingFactors": [2, 1, 1]}
    moved = {"affineTransform": [[1, 0, 0, 10], [0, 1, 0, 20], [0, 0, 2, 30]]}
    assert places(read({**own, **moved})) == [(3, 30), (1.5, 20), (3, 10.75)]
    turned = {"affineTransform": [[0, 1, 0, 10], [1, 0, 0, 20], [0, 0, 1, 30]]}
    geometry = read({**own, **turned})
    assert geometry.affine is not None
    # Sample (z, y, x) = (0, 0, 1) is at x = 2.5 base voxels, which is 3.75 and becomes y.
    found = np.array(geometry.affine) @ [0, 0, 1, 1]
    np.testing.assert_allclose(found, [30, 20 + 1.5 * 2.5, 10])


def test_a_repeated_resolution_without_factors_is_n5_viewers() -> None:
    own = {"pixelResolution": [4, 4, 40]}
    base = ArrayContext(attributes=own, shape=(2, 6, 9), path="p/s0")
    assert places(read(own, path="p/s1", base=base)) == [(40, 0), (8, 2), (8, 2)]
    odd = replace(base, shape=(2, 60, 9))
    with pytest.warns(UserWarning, match="samples cover"):
        assert places(read(own, path="p/s1", base=odd)) == [(None, 0)] * 3


# OME-NGFF


def ngff(names: str, version: str = "0.4", **more: Any) -> dict[str, Any]:
    """A group's attributes, with axes in an order, and two levels."""
    numbers = {"z": (40, 1), "y": (4, 2), "x": (4, 4), "c": (1, 1), "t": (5, 1)}
    offsets = {"z": 0, "y": 2, "x": 106, "c": 0, "t": 0}

    def level(number: int) -> dict[str, Any]:
        scale = [numbers[n][0] * numbers[n][1] ** number for n in names]
        moved = [offsets[n] if number else 100 * (n == "x") for n in names]
        return {
            "path": f"s{number}",
            "coordinateTransformations": [
                {"type": "scale", "scale": scale},
                {"type": "translation", "translation": moved},
            ],
        }

    kinds = {"c": "channel", "t": "time"}
    units = {"t": {"unit": "second"}, "c": {}}
    axes = [
        {"name": n, "type": kinds.get(n, "space"), **units.get(n, {"unit": "nanometer"})}
        for n in names
    ]
    datasets = [level(0), level(1)]
    return {"multiscales": [{"version": version, "axes": axes, "datasets": datasets, **more}]}


@pytest.mark.parametrize("names", ["zyx", "xyz"])
def test_ome_ngff_in_n5_stands_in_both_orders(names: str) -> None:
    found = read({}, path="p/s1", parents=(ngff(names),))
    assert facts(found) == [
        ("z", "nanometer", 40, 0),
        ("y", "nanometer", 8, 2),
        ("x", "nanometer", 16, 106),
    ]
    assert [axis.factor for axis in found.axes] == [1, 2, 4]


@pytest.mark.parametrize(
    ("names", "first"), [("tczyx", "t"), ("xyzct", "t"), ("xyczt", "t"), ("cyx", "c"), ("xyt", "t")]
)
def test_ome_ngffs_order_in_n5_is_told_by_x_and_by_types(names: str, first: str) -> None:
    found = read({}, (2,) * len(names), path="p/s0", parents=(ngff(names),))
    assert found.axes[0].name == first
    assert found.axes[-1].name == "x"
    assert next(axis.scale for axis in found.axes if axis.name == "x") == 4


def test_ome_ngff_in_an_order_that_nothing_tells_is_read_with_a_warning() -> None:
    group = {"multiscales": [{"axes": ["q", "r"], "datasets": [{"path": "s0"}]}]}
    with pytest.warns(UserWarning, match="in an unknown order"):
        found = read({}, (2, 3), path="p/s0", parents=(group,))
    assert [axis.name for axis in found.axes] == ["r", "q"]


def test_the_places_of_all_versions_of_ome_ngff() -> None:
    group = ngff("zyx")
    whole = {"ome": {**group, "version": "0.5"}}
    assert places(read({}, path="p/s1", parents=(whole,))) == [(40, 0), (8, 2), (16, 106)]
    image = group["multiscales"][0]
    image["coordinateTransformations"] = [
        {"type": "scale", "scale": [2, 2, 2]},
        {"type": "translation", "translation": [1, 1, 1]},
    ]
    assert places(read({}, path="p/s1", parents=(group,))) == [(80, 1), (16, 5), (32, 213)]
    strings = {
        "multiscales": [{"version": "0.3", "axes": ["z", "y", "x"], "datasets": [{"path": "0"}]}]
    }
    found = read({}, path="p/0", parents=(strings,))
    assert facts(found) == [(name, None, None, 0.0) for name in "zyx"]
    bare = {"multiscales": [{"version": "0.1", "datasets": [{"path": "0"}], "metadata": {}}]}
    in_zarr = read({}, (1, 2, 3, 4, 5), path="p/0", parents=(bare,), lists_x_first=False)
    assert [axis.name for axis in in_zarr.axes] == list("tczyx")
    assert not in_zarr.placed
    # bioformats2raw kept the source's order in N5, and did not say which: default names.
    in_n5 = read({}, (1, 2, 3, 4, 5), path="p/0", parents=(bare,))
    assert not in_n5.named
    assert not in_n5.placed


def test_channels_of_omero_label_their_axis() -> None:
    group = ngff("cyx") | {"omero": {"channels": [{"label": "DAPI"}, {"label": "GFP"}]}}
    found = read({}, (2, 3, 4), path="p/s0", parents=(group,))
    assert found.axes[0].labels == ("DAPI", "GFP")
    assert found.sources["labels"] == "ngff: omero of the group"
    assert read({}, (3, 3, 4), path="p/s0", parents=(group,)).axes[0].labels is None


def test_a_transform_that_mixes_axes_is_kept_as_a_matrix(tmp_path: Path) -> None:
    rows: list[list[float]] = [[1, 0.5, 0, 7], [0, 2, 0, 8], [0, 0, 3, 9]]
    flat = [number for row in rows for number in row]
    said = {"transform": {"type": "affine", "affine": flat}, "unit": "um"}
    geometry = read({"spatialTransform": said})
    in_c_order = [[3, 0, 0, 9], [0, 2, 0, 8], [0, 0.5, 1, 7]]
    np.testing.assert_array_equal(np.array(geometry.affine), in_c_order)
    assert coords_of(geometry, (2, 3, 4)) == {}
    create_array(tmp_path, "a", shape=(2, 3, 4), dtype="u1", attributes={"spatialTransform": said})
    opened = xr.open_dataset(tmp_path, engine="n5", group="a")["a"]
    assert list(opened.coords) == []
    assert opened.attrs["spatialTransform"] == said
    np.testing.assert_array_equal(np.reshape(opened.attrs["affine"], (3, 4)), in_c_order)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ({"type": "identity"}, [(1, 0), (1, 0), (1, 0)]),
        ({"type": "scale", "scale": [2, 3, 4]}, [(4, 0), (3, 0), (2, 0)]),
        ({"type": "translation", "translation": [2, 3, 4]}, [(1, 4), (1, 3), (1, 2)]),
        (
            {"type": "scale_offset", "scale": [2, 3, 4], "offset": [5, 6, 7]},
            [(4, 7), (3, 6), (2, 5)],
        ),
        (
            {
                "type": "sequence",
                "transformations": [
                    {"type": "translation", "translation": [1, 1, 1]},
                    {"type": "scale", "scale": [2, 3, 4]},
                ],
            },
            [(4, 4), (3, 3), (2, 2)],
        ),
    ],
)
def test_canonical_transforms(transform: dict[str, Any], expected: list[Any]) -> None:
    assert places(read({"spatialTransform": {"transform": transform}})) == expected


def test_a_canonical_transform_may_be_for_the_axes_of_space_alone() -> None:
    axes = [
        {"type": "channel", "name": "c"},
        {"type": "space", "name": "x"},
        {"type": "space", "name": "y"},
    ]
    said = {"transform": {"type": "affine", "affine": [2, 0, 5, 0, 3, 6]}, "axes": axes}
    found = read({"spatialTransform": said | {"unit": "um"}})
    assert facts(found) == [("y", "um", 3, 6), ("x", "um", 2, 5), ("c", None, None, 0)]


@pytest.mark.parametrize(
    "said",
    [
        {"transform": {"type": "scale", "path": "numbers"}},
        {"transform": {"type": "warp"}},
        {"transform": {"type": "scale", "scale": [1, 2]}},
        {"transform": {"type": "affine", "affine": [1, 2, 3]}},
        {"transform": {"type": "scale", "scale": [0, 1, 1]}},
        {"transform": {"type": "scale", "scale": [1, 1, None]}},
        {"transform": 3},
        {"unit": "um"},
        [],
        "um",
    ],
)
def test_transforms_that_make_no_sense_only_warn(said: Any) -> None:
    with pytest.warns(UserWarning, match="spatialTransform"):
        assert not read({"spatialTransform": said}).placed


@pytest.mark.parametrize(
    "image",
    [
        {"axes": ["x"], "datasets": [{"path": "s0"}]},
        {"axes": [{"type": "space"}] * 3, "datasets": [{"path": "s0"}]},
        {**ngff("zyx")["multiscales"][0], "coordinateTransformations": [{"type": "warp"}]},
        {"axes": [*"zyx"], "datasets": [{"path": "s0", "coordinateTransformations": 3}]},
    ],
)
def test_images_that_make_no_sense_only_warn(image: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="ngff"):
        assert not read({}, path="p/s0", parents=({"multiscales": [image]},)).placed


@pytest.mark.parametrize(
    "listed", [3, "x", [3], [{}], [{"datasets": 3}], {"datasets": ["s0"]}, None]
)
def test_listings_of_something_else_say_nothing(listed: Any) -> None:
    assert not read({}, path="p/s0", parents=({"multiscales": listed},)).placed


# ImageJ

IMAGEJ: dict[str, Any] = {
    "pixelWidth": 0.1,
    "pixelHeight": 0.2,
    "pixelDepth": 1.5,
    "pixelUnit": "micron",
    "xOrigin": 0,
    "yOrigin": 0,
    "zOrigin": 0,
    "numChannels": 1,
    "numSlices": 2,
    "numFrames": 1,
}


def test_imagejs_counts_tell_the_axes() -> None:
    assert facts(read(IMAGEJ)) == [
        ("z", "micron", 1.5, 0),
        ("y", "micron", 0.2, 0),
        ("x", "micron", 0.1, 0),
    ]
    frames = IMAGEJ | {"numSlices": 1, "numFrames": 2, "frameInterval": 0}
    assert facts(read(frames))[0] == ("t", None, None, 0)
    with pytest.warns(UserWarning, match="counts them in pixels"):
        assert places(read(IMAGEJ | {"xOrigin": 3.0}))[-1] == (0.1, 3.0)


@pytest.mark.parametrize(
    "wrong", [{"numChannels": 4}, {"xOrigin": None}, {"yOrigin": "far"}, {"numFrames": []}]
)
def test_imagejs_attributes_that_do_not_fit_only_warn(wrong: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="imagej"):
        assert not read(IMAGEJ | wrong).placed


def test_a_part_of_imagejs_attributes_says_nothing() -> None:
    assert not read({key: IMAGEJ[key] for key in ("pixelWidth", "pixelUnit")}).placed


# BigDataViewer's XML

ROTATED = "0 1 0 0 -1 0 0 0 0 0 1 0"


def view(xml: bytes, **more: Any) -> Geometry:
    """The geometry of a view's level, downsampled by 4, 2 and 1."""
    setup = {"downsamplingFactors": [[1, 1, 1], [4, 2, 1]]}
    around = {"path": "setup0/timepoint0/s1", "parents": ({}, setup, {}), **more}
    return read({}, (6, 10, 10), xml=xml, **around)


def test_of_several_transforms_the_last_comes_first() -> None:
    moved_last = view(project({(0, 0): [MOVED, CALIBRATED]}))
    assert facts(moved_last) == [("z", "um", 40, 0), ("y", "um", 8, 2), ("x", "um", 16, 106)]
    moved_first = view(project({(0, 0): [CALIBRATED, MOVED]}))
    assert places(moved_first)[-1] == (16, 406)


def test_a_view_that_is_not_registered_has_the_voxel_size() -> None:
    geometry = view(project({}))
    assert facts(geometry) == [("z", "um", 2, 0), ("y", "um", 1, 0.25), ("x", "um", 2, 0.75)]
    assert geometry.sources["scale"] == "bdv: voxelSize of the XML"


def test_a_rotated_view_has_a_matrix_and_no_places() -> None:
    geometry = view(project({(0, 0): [ROTATED, CALIBRATED]}))
    assert geometry.affine is not None
    matrix = np.array(geometry.affine)
    # x of sample (z, y, x) is 4 * y, where y of level 1 is 2 * i + 0.5 base voxels.
    np.testing.assert_allclose(matrix @ [1, 10, 3, 1], [40, -4 * (4 * 3 + 1.5), 4 * 20.5])
    assert coords_of(geometry, (6, 10, 10)) == {}


@pytest.mark.parametrize(
    "xml",
    [
        b"no xml",
        b"<SpimData>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><SpimData/>',
        project({(0, 0): ["1 2 3"]}),
        project({(0, 0): ["a b c d e f g h i j k l"]}),
        project({(0, 0): ["inf 0 0 0 0 1 0 0 0 0 1 0"]}),
        b"<ViewRegistrations><ViewRegistration/></ViewRegistrations>",
    ],
)
def test_an_xml_that_cannot_be_read_only_warns(xml: bytes) -> None:
    with pytest.warns(UserWarning, match="the XML next to the container is ignored"):
        assert places(view(xml)) == [(1, 0), (2, 0.5), (4, 1.5)]


def test_an_xml_may_be_written_in_any_encoding() -> None:
    text = project({(0, 0): [CALIBRATED]}, "µm").decode()
    for name in ("utf-8", "utf-16", "latin-1"):
        whole = f'<?xml version="1.0" encoding="{name}"?>\n{text}'.encode(name)
        assert facts(view(whole))[-1] == ("x", "µm", 16, 6)


@pytest.mark.parametrize("size", ["0 0 0", "1 nan 1", "1 2", "-1 1 1"])
def test_a_voxel_size_that_makes_no_sense_is_none(size: str) -> None:
    xml = project({}).replace(b"0.5 0.5 2", size.encode())
    with pytest.warns(UserWarning, match="voxelSize"):
        assert places(view(xml)) == [(1, 0), (2, 0.5), (4, 1.5)]


def test_the_find_xml_a_container_is_found(tmp_path: Path) -> None:
    place = tmp_path / "cells.n5"
    create_array(place, "setup0/timepoint0/s0", shape=(2, 3, 4), dtype="u1")
    assert not open_array(place, "setup0/timepoint0/s0").geometry().placed
    (tmp_path / "cells.xml").write_bytes(project({(0, 0): [MOVED, CALIBRATED]}, "µm"))
    for url, path in ((place, "setup0/timepoint0/s0"), (place / "setup0/timepoint0", "s0")):
        assert facts(open_array(url, path).geometry())[-1] == ("x", "µm", 4.0, 100.0)
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/xml-beside", recursive=True)
    remote = open_array("memory://xml-beside/cells.n5/setup0/timepoint0/s0")
    assert remote.path == "setup0/timepoint0/s0"
    assert facts(remote.geometry())[-1] == ("x", "µm", 4.0, 100.0)
