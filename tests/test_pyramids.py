"""Levels, views and channels: where they lie, how they are chosen, what stands around them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from tests.geometries import facts, places, read
from tests.stores import CountingStore
from xarray_n5 import MissingChunkError, NodeNotFoundError, create_array, create_group, open_array
from xarray_n5.coordinates import coords_of
from xarray_n5.dialects import Node, geometry_of

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.axes import Geometry


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
    assert places(read(attributes)) == [(40, 3), (8, 2), (8, 1)]


def test_a_levels_own_resolution_is_not_multiplied_again() -> None:
    group = {"scales": [[1, 1, 1], [2, 2, 2]], "pixelResolution": {"dimensions": [4, 4, 5.24]}}
    level = {"pixelResolution": {"dimensions": [8, 8, 10.48], "unit": "nm"}}
    found = read(level, path="p/s1", parents=(group,))
    assert places(found) == [(10.48, 2.62), (8, 2), (8, 2)]
    base = Node(attributes={"pixelResolution": [4, 4, 5.24]}, shape=(4, 6, 8), path="p/s0")
    found = read(level, path="p/s1", base=base)
    assert places(found) == [(10.48, 0), (8, 0), (8, 0)]


def test_a_repeated_resolution_without_factors_is_n5_viewers() -> None:
    own = {"pixelResolution": [4, 4, 40]}
    base = Node(attributes=own, shape=(2, 6, 9), path="p/s0")
    assert places(read(own, path="p/s1", base=base)) == [(40, 0), (8, 2), (8, 2)]
    odd = replace(base, shape=(2, 60, 9))
    with pytest.warns(UserWarning, match="samples stand for"):
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
    with pytest.warns(UserWarning, match="nothing tells in which order"):
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
    in_zarr = read({}, (1, 2, 3, 4, 5), path="p/0", parents=(bare,), format="zarr2")
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
        {**ngff("zyx")["multiscales"][0], "coordinateTransformations": 3},
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
    "wrong", [{"numChannels": 4}, {"pixelWidth": 0}, {"pixelDepth": "deep"}, {"numFrames": []}]
)
def test_imagejs_attributes_that_do_not_fit_only_warn(wrong: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="imagej"):
        assert not read(IMAGEJ | wrong).placed


def test_a_part_of_imagejs_attributes_says_nothing() -> None:
    assert not read({key: IMAGEJ[key] for key in ("pixelWidth", "pixelUnit")}).placed


# BigDataViewer's XML

XML = """<SpimData version="0.2">
  <SequenceDescription>
    <ViewSetups>{setups}</ViewSetups>
  </SequenceDescription>
  <ViewRegistrations>{registrations}</ViewRegistrations>
</SpimData>"""


def project(affines: dict[tuple[int, int], list[str]], unit: str = "um") -> str:
    """An XML file with the transforms of views, by timepoint and setup."""
    setups = "".join(
        f"<ViewSetup><id>{setup}</id><voxelSize><unit>{unit}</unit><size>0.5 0.5 2</size>"
        "</voxelSize></ViewSetup>"
        for setup in sorted({setup for _, setup in affines} | {0})
    )
    registrations = "".join(
        f'<ViewRegistration timepoint="{timepoint}" setup="{setup}">'
        + "".join(
            f'<ViewTransform type="affine"><Name>x</Name><affine>{text}</affine></ViewTransform>'
            for text in texts
        )
        + "</ViewRegistration>"
        for (timepoint, setup), texts in affines.items()
    )
    return XML.format(setups=setups, registrations=registrations)


MOVED = "1 0 0 100 0 1 0 0 0 0 1 0"
CALIBRATED = "4 0 0 0 0 4 0 0 0 0 40 0"
ROTATED = "0 1 0 0 -1 0 0 0 0 0 1 0"


def view(xml: str, **more: Any) -> Geometry:
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
        "no xml",
        "<SpimData>",
        '<!DOCTYPE x [<!ENTITY a "b">]><SpimData/>',
        project({(0, 0): ["1 2 3"]}),
        project({(0, 0): ["a b c d e f g h i j k l"]}),
        project({(0, 0): ["inf 0 0 0 0 1 0 0 0 0 1 0"]}),
        "<ViewRegistrations><ViewRegistration/></ViewRegistrations>",
    ],
)
def test_an_xml_that_cannot_be_read_only_warns(xml: str) -> None:
    with pytest.warns(UserWarning, match="bdv"):
        assert places(view(xml)) == [(None, 0)] * 3


def test_the_xml_beside_a_container_is_found(tmp_path: Path) -> None:
    place = tmp_path / "cells.n5"
    create_array(place, "setup0/timepoint0/s0", shape=(2, 3, 4), dtype="u1")
    assert not open_array(place, "setup0/timepoint0/s0").geometry().placed
    (tmp_path / "cells.xml").write_text(project({(0, 0): [MOVED, CALIBRATED]}, "µm"), "utf-8")
    for url, path in ((place, "setup0/timepoint0/s0"), (place / "setup0/timepoint0", "s0")):
        assert facts(open_array(url, path).geometry())[-1] == ("x", "µm", 4.0, 100.0)
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/xml-beside", recursive=True)
    remote = open_array("memory://xml-beside/cells.n5/setup0/timepoint0/s0")
    assert remote.path == "setup0/timepoint0/s0"
    assert facts(remote.geometry())[-1] == ("x", "µm", 4.0, 100.0)


# Views and channels as one image


@pytest.fixture
def views(tmp_path: Path) -> Path:
    """Two setups with three timepoints and two levels; one view is not stored."""
    place = tmp_path / "views.n5"
    for setup in (0, 1):
        factors = {"downsamplingFactors": [[1, 1, 1], [2, 2, 1]]}
        create_group(place, f"setup{setup}", attributes=factors)
        for timepoint in (0, 1, 2):
            if (timepoint, setup) == (1, 1):
                continue
            for level, shape in enumerate([(2, 4, 6), (2, 2, 3)]):
                path = f"setup{setup}/timepoint{timepoint}/s{level}"
                array = create_array(place, path, shape=shape, dtype="u2", chunks=(1, 2, 3))
                array[...] = np.arange(array.size).reshape(shape) + 1000 * setup + 100 * timepoint
    return place


ALIKE = {(t, s): [CALIBRATED] for t in (0, 1, 2) for s in (0, 1)}


def test_views_that_are_alike_are_one_image(views: Path) -> None:
    views.with_suffix(".xml").write_text(project(ALIKE))
    tree: Any = xr.open_datatree(views, engine="n5")
    assert list(tree.groups) == ["/", "/s0", "/s1"]
    image = tree["s1/s1"]
    assert image.dims == ("t", "setup", "z", "y", "x")
    assert image.shape == (3, 2, 2, 2, 3)
    assert image.t.values.tolist() == [0, 1, 2]
    assert image.setup.values.tolist() == [0, 1]
    assert [float(image[axis][0]) for axis in "zyx"] == [0, 2, 2]
    assert image.x.attrs == {"units": "um"}
    stored = open_array(views, "setup1/timepoint2/s1")[...]
    np.testing.assert_array_equal(image.sel(t=2, setup=1), stored)
    assert not image.sel(t=1, setup=1).any()
    one = xr.open_dataset(views, engine="n5", level=1, chunks={})["s1"]
    assert one.encoding["preferred_chunks"] == {"t": 1, "setup": 1, "z": 1, "y": 2, "x": 3}
    np.testing.assert_array_equal(one, image)
    with pytest.raises(ValueError, match="levels s0, s1"):
        xr.open_dataset(views, engine="n5")


def test_stacks_are_indexed_as_numpy_is(views: Path) -> None:
    image = xr.open_dataset(views, engine="n5", level=0)["s0"]
    values = image.load().values
    image = xr.open_dataset(views, engine="n5", level=0)["s0"]
    for key in (
        {"t": 0},
        {"t": [2, 0], "x": [5, 0]},
        {"t": slice(None, None, -1), "setup": 1, "y": slice(1, 3)},
        {"t": [], "z": 1},
        {"setup": np.array([1, 0]), "t": np.array([0]), "z": 0, "y": 0},
        {"t": xr.DataArray([0, 2], dims="p"), "x": xr.DataArray([1, 5], dims="p")},
    ):
        expected = xr.DataArray(values, dims=image.dims).isel(key)
        np.testing.assert_array_equal(image.isel(key), expected)


async def test_stacks_load_asynchronously(views: Path) -> None:
    image = xr.open_dataset(views, engine="n5", level=0)["s0"].isel(t=0)
    loaded = await image.load_async()
    assert loaded.shape == (2, 2, 4, 6)


def test_a_view_that_is_not_stored_is_a_missing_chunk(views: Path) -> None:
    image = xr.open_dataset(views, engine="n5", level=0, missing="error")["s0"]
    assert image.isel(t=0).load().shape == (2, 2, 4, 6)
    with pytest.raises(MissingChunkError, match=r"\(1, 1\)"):
        image.isel(t=1).load()


def test_views_at_different_places_are_an_image_a_setup(views: Path) -> None:
    apart = {(t, s): [MOVED, CALIBRATED] if s else [CALIBRATED] for t in (0, 1, 2) for s in (0, 1)}
    views.with_suffix(".xml").write_text(project(apart))
    tree: Any = xr.open_datatree(views, engine="n5")
    assert list(tree.groups) == [
        *("/", "/setup0", "/setup1", "/setup0/s0", "/setup0/s1", "/setup1/s0", "/setup1/s1")
    ]
    assert tree["setup0/s0/s0"].sizes == {"t": 3, "z": 2, "y": 4, "x": 6}
    assert tree["setup1/s0"].t.values.tolist() == [0, 2]
    assert float(tree["setup1/s0"].x[0]) == 100
    one = xr.open_dataset(views, engine="n5", group="setup1", level=-1)["s1"]
    np.testing.assert_array_equal(one, tree["setup1/s1/s1"])


def test_views_that_nothing_joins_are_arrays_each(views: Path) -> None:
    drifting = {(t, s): [f"1 0 0 {t} 0 1 0 {s} 0 0 1 0"] for t in (0, 1, 2) for s in (0, 1)}
    views.with_suffix(".xml").write_text(project(drifting))
    tree: Any = xr.open_datatree(views, engine="n5")
    assert "/setup0/timepoint1/s0" in tree.groups
    assert tree["setup1/timepoint2/s0"]["y"].values.tolist() == [1, 2, 3, 4]


def test_levels_with_other_views_are_not_joined(views: Path) -> None:
    create_array(views, "setup0/timepoint0/s2", shape=(2, 1, 1), dtype="u2")
    groups = xr.open_datatree(views, engine="n5").groups
    assert "/setup0/timepoint0/s2" in groups
    assert "/setup1/s0" in groups


def test_fortran_order_joins_nothing(views: Path) -> None:
    tree = xr.open_datatree(views, engine="n5", axis_order="F")
    assert tree["setup1/timepoint0/s0/s0"].dims == ("x", "y", "z")


def test_channels_are_one_image(tmp_path: Path) -> None:
    place = tmp_path / "channels.n5"
    for channel in (0, 2, 10):
        for level, factor in enumerate((1, 2)):
            create_array(
                place,
                f"sample/c{channel}/s{level}",
                shape=(4, 8 // factor, 8 // factor),
                dtype="u1",
                attributes={
                    "pixelResolution": {"unit": "um", "dimensions": [0.1, 0.1, 1]},
                    "downsamplingFactors": [factor, factor, 1],
                },
            )[...] = channel
    tree: Any = xr.open_datatree(place, engine="n5")
    assert tree["sample/s1/s1"].sizes == {"c": 3, "z": 4, "y": 4, "x": 4}
    assert tree["sample/s1"].c.values.tolist() == [0, 2, 10]
    assert (tree["sample/s0/s0"].sel(c=10) == 10).all()
    assert float(tree["sample/s1"].x[0]) == 0.05
    create_group(place, "sample/other")
    assert "/sample/c2/s1" in xr.open_datatree(place, engine="n5").groups


def test_an_image_of_many_views_is_read_in_one_batch() -> None:
    store = CountingStore()
    for timepoint in range(20):
        create_array(store, f"setup0/timepoint{timepoint}/s0", shape=(2, 3, 4), dtype="u1")
    store.requests()
    image = xr.open_dataset(store, engine="n5")["s0"]  # type: ignore[arg-type]
    assert image.sizes["t"] == 20
    asked = store.requests()
    assert asked["get_many"] <= 6
    assert asked["list"] <= 6


# Levels chosen


@pytest.fixture
def pyramid(tmp_path: Path) -> Path:
    """Three levels of 4 x 4 x 40 nm, by factors 1 and 2, then 1 and 4."""
    place = tmp_path / "p.n5"
    group = {"axes": ["x", "y", "z"], "units": ["nm"] * 3, "resolution": [4, 4, 40]}
    create_group(place, "em", attributes=group)
    for level, factor in enumerate((1, 2, 4)):
        create_array(
            place,
            f"em/s{level}",
            shape=(8, 16 // factor, 16 // factor),
            dtype="u1",
            attributes={"downsamplingFactors": [factor, factor, 1]},
        )
    return place


@pytest.mark.parametrize(
    ("level", "name"),
    [
        *((0, "s0"), (2, "s2"), (-1, "s2"), (-3, "s0")),
        *(({"x": 8}, "s1"), ({"x": 7.9}, "s0"), ({"x": 100.0}, "s2"), ({"x": 0.1}, "s0")),
        *(({"x": 8, "z": 40}, "s1"), ({"z": 1}, "s0"), ({"z": 40}, "s2")),
    ],
)
def test_a_level_is_chosen_by_number_or_by_distance(pyramid: Path, level: Any, name: str) -> None:
    assert list(xr.open_dataset(pyramid, engine="n5", group="em", level=level)) == [name]


@pytest.mark.parametrize(
    ("level", "error", "message"),
    [
        (3, NodeNotFoundError, "s0, s1, s2"),
        (-4, NodeNotFoundError, "s0, s1, s2"),
        ({"q": 3.0}, ValueError, "'q'"),
    ],
)
def test_a_level_that_is_not_there_is_an_error(
    pyramid: Path, level: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        xr.open_dataset(pyramid, engine="n5", group="em", level=level)


def test_levels_are_those_that_the_group_lists(tmp_path: Path) -> None:
    listed = {"multiscales": [{"datasets": [{"path": "whole"}, {"path": "half"}]}]}
    create_group(tmp_path, "a", attributes=listed)
    for name, size in (("half", 4), ("other", 9), ("whole", 8)):
        create_array(tmp_path, f"a/{name}", shape=(size,), dtype="u1")
    assert list(xr.open_dataset(tmp_path, engine="n5", group="a", level=1)) == ["half"]
    for name, size in (("0", 8), ("1", 4), ("10", 2)):
        create_array(tmp_path, f"b/{name}", shape=(size,), dtype="u1")
    assert list(xr.open_dataset(tmp_path, engine="n5", group="b", level=2)) == ["10"]
    create_array(tmp_path, "c/one", shape=(size,), dtype="u1")
    with pytest.raises(NodeNotFoundError, match="no pyramid"):
        xr.open_dataset(tmp_path, engine="n5", group="c", level=0)


def test_all_levels_move_by_half_a_base_voxel(pyramid: Path) -> None:
    for level in (0, 1, 2):
        options: Any = {"engine": "n5", "group": "em", "level": level}
        centre = xr.open_dataset(pyramid, **options)
        corner = xr.open_dataset(pyramid, origin="corner", **options)
        moved = [float(corner[axis].values[0] - centre[axis].values[0]) for axis in "zyx"]
        assert moved == [20, 2, 2]


def test_levels_can_be_interpolated_onto_each_other(pyramid: Path) -> None:
    tree: Any = xr.open_datatree(pyramid, group="em", engine="n5")
    fine, coarse = tree["s0/s0"], tree["s1/s1"]
    ramp = (fine.x + 0 * fine).astype(float)
    small = ramp.coarsen(y=2, x=2).mean()
    np.testing.assert_array_equal(small.x, coarse.x)
    np.testing.assert_allclose(ramp.interp(x=coarse.x, y=coarse.y), small)
    np.testing.assert_array_equal(fine.sel(x=coarse.x[2], method="nearest").x, [20])


# Names and inheritance


def test_dims_can_be_named_by_the_caller(pyramid: Path) -> None:
    opened = xr.open_dataset(pyramid, engine="n5", group="em/s1", dims=("plane", "row", "column"))
    assert opened["s1"].dims == ("plane", "row", "column")
    assert float(opened.column[1]) == 10
    assert opened["s1"].encoding["dialect"]["names"] == "dims"
    turned: Any = {"dims": ("column", "row", "plane"), "axis_order": "F"}
    assert xr.open_dataset(pyramid, engine="n5", group="em/s1", **turned)["s1"].shape == (8, 8, 8)
    for dims, message in ((("a", "b"), "2 names"), (("a", "a", "b"), "different names")):
        with pytest.raises(ValueError, match=message):
            xr.open_dataset(pyramid, engine="n5", group="em/s1", dims=dims)


def test_attributes_come_down_from_all_groups_where_that_is_asked_for(tmp_path: Path) -> None:
    far = {"axes": ["x"], "units": ["nm"], "resolution": [4], "coordinateArrays": {}}
    create_group(tmp_path, "a", attributes=far)
    create_group(tmp_path, "a/b/c/d", attributes={"resolution": [8]})
    create_array(tmp_path, "a/b/c/d/e", shape=(3,), dtype="u1")
    opened = xr.open_dataset(tmp_path, engine="n5", group="a/b/c/d/e", inherit=True)
    assert opened.x.values.tolist() == [0, 8, 16]
    assert opened.x.attrs == {"units": "nm"}
    assert "units" not in xr.open_dataset(tmp_path, engine="n5", group="a/b/c/d/e").x.attrs


def test_an_array_is_the_same_whichever_way_it_is_named(pyramid: Path) -> None:
    whole = xr.open_dataset(pyramid, engine="n5", group="em/s1")
    for url, group in (
        (pyramid / "em", "s1"),
        (pyramid / "em/s1", None),
        (f"{pyramid}/em/s1/", ""),
    ):
        again = xr.open_dataset(url, engine="n5", group=group)
        xr.testing.assert_identical(again, whole)
        assert again["s1"].encoding == whole["s1"].encoding


# What other projects' tests say

UNIVERSE = "fetched/saalfeldlab+n5-universe/src/test/resources"
NEUROGLANCER = "fetched/google+neuroglancer"


def expectations(corpus: Path) -> dict[str, dict[str, Any]]:
    """What other projects' tests assert, by path."""
    document = json.loads((corpus / "metadata-expectations.json").read_text("utf-8"))
    return {row["path"]: row for row in document["entries"]}


def level_in_zarr(place: Path, path: str) -> Node:
    """An array in Zarr as dialects see it, without its data."""
    array = json.loads((place / path / ".zarray").read_text("utf-8"))
    group = json.loads((place / ".zattrs").read_text("utf-8"))
    above = len(path.split("/")) - 1
    parents = ({},) * above + (group,)
    return Node(shape=tuple(array["shape"]), path=path, parents=parents, format="zarr2")


def test_single_levels_are_where_n5_universe_says(corpus: Path) -> None:
    checked = 0
    for path, row in expectations(corpus).items():
        if f"{UNIVERSE}/test.n5" not in path or "scale" not in row:
            continue
        axes = open_array(corpus / path).axes
        order = 1 if row["order"].startswith("zyx") else -1
        assert [axis.scale for axis in axes][::order] == row["scale"]
        assert [axis.offset for axis in axes][::order] == row["translation"]
        if row["unit"] in {"nm", "mm"}:
            assert {axis.unit for axis in axes} == {row["unit"]}
        checked += 1
    assert checked == 6


@pytest.mark.filterwarnings("ignore:.*first axis in numpy is x:UserWarning")
def test_contradicting_metadata_are_told(corpus: Path) -> None:
    place = corpus / UNIVERSE / "test.n5/c0/s0"
    with pytest.warns(UserWarning, match="disagree") as caught:
        geometry = open_array(place).geometry()
    assert facts(geometry) == [("x", "mm", 7, 2), ("y", "mm", 11, 3), ("z", "mm", 13, 5)]
    assert any("cosem and n5_viewer" in str(each.message) for each in caught)
    one = open_array(place).geometry("n5_viewer")
    assert places(one) == [(1.5, 0)] * 3


def test_levels_of_a_group_without_attributes_are_found(corpus: Path) -> None:
    row = expectations(corpus)[f"{UNIVERSE}/test.n5/cosem_ms"]
    tree = xr.open_datatree(corpus / row["path"], engine="n5")
    assert list(tree.children) == row["levels"]


def test_the_canonical_transform_of_n5_universe(corpus: Path) -> None:
    row = expectations(corpus)[f"{UNIVERSE}/canonical.n5/affine"]
    array = open_array(corpus / row["path"])
    matrix = np.reshape(row["affine_3x4"], (3, 4))
    assert [axis.scale for axis in array.axes][::-1] == np.diag(matrix).tolist()
    assert [axis.offset for axis in array.axes][::-1] == matrix[:, 3].tolist()
    assert {axis.unit for axis in array.axes} == {row["unit"]}
    assert array.attrs["intensityLimits"] == {"min": 12, "max": 357}


def test_multiscales_of_a_group_in_cosems_style(corpus: Path) -> None:
    row = expectations(corpus)[f"{UNIVERSE}/ngff.n5/ngff_grpAttributes"]
    group = json.loads((corpus / row["path"] / "attributes.json").read_text("utf-8"))
    for level in range(row["levels"]):
        found = read({}, path=f"p/s{level}", parents=(group,))
        factor = 2**level
        assert places(found)[2] == (4.0 * factor, (factor - 1) / 2 * 4)
        assert places(found)[0][0] == pytest.approx(5.24 * factor)
        assert {axis.factor for axis in found.axes} == {factor}
        assert found.sources["scale"] == "cosem: multiscales of the group"


@pytest.mark.parametrize("name", ["ss", "st", "ts", "tt"])
def test_ome_ngffs_lists_of_transforms(corpus: Path, name: str) -> None:
    row = expectations(corpus)[f"{UNIVERSE}/metadata.zarr/coordTforms/{name}"]
    geometry = geometry_of(level_in_zarr(corpus / row["path"], "s0"))
    assert [axis.scale for axis in geometry.axes] == row["scale"]
    assert [axis.offset for axis in geometry.axes] == row["translation"]
    assert [axis.name for axis in geometry.axes] == ["y", "x"]


@pytest.mark.parametrize("name", ["cOrder", "fOrder"])
def test_ome_ngff_in_zarr_stands_in_the_arrays_order(corpus: Path, name: str) -> None:
    row = expectations(corpus)[f"{UNIVERSE}/metadata.zarr/cOrder"]
    geometry = geometry_of(level_in_zarr(corpus / UNIVERSE / "metadata.zarr" / name, "1"))
    assert [axis.name for axis in geometry.axes] == row["axes"]
    # A channel axis has no places, but needs a scale of 1 in OME-NGFF.
    assert [axis.step for axis in geometry.axes] == row["scale"]
    assert [axis.offset for axis in geometry.axes] == row["translation"]


def test_tensorstores_own_axes(corpus: Path) -> None:
    row = expectations(corpus)["peers/tensorstore-0.1.86/n5/meta/axes"]
    array = open_array(corpus / row["path"])
    axes = array.axes
    assert [axis.name for axis in axes][::-1] == row["axes"]
    assert [axis.unit for axis in axes][::-1] == row["units"]
    assert [axis.scale for axis in axes][::-1] == row["resolution"]
    assert array.attrs["offset"] == row["offset_attr_passthrough"]


def test_what_xarray_wrote_through_zarr(corpus: Path) -> None:
    row = expectations(corpus)["peers/xarray-2024.7.0-zarr2.18/cf.n5"]
    assert dict(xr.open_dataset(corpus / row["path"], engine="n5").sizes) == row["dims"]


def test_bigdataviewers_attributes_and_xml_agree(corpus: Path) -> None:
    row = expectations(corpus)["peers/hdf5/pybdv-0.6.0-n5.n5"]
    affine = np.reshape(row["xml_affine"], (3, 4))
    tree: Any = xr.open_datatree(corpus / row["path"], engine="n5")
    for level, factors in enumerate(row["downsamplingFactors_setup_attr"]):
        image = tree[f"s{level}/s{level}"]
        assert image.dims == ("t", "setup", "z", "y", "x")
        for number, name in enumerate("xyz"):
            scale = affine[number, number] * factors[number]
            assert image[name].attrs["units"] == "micrometer"
            expected = (factors[number] - 1) / 2 * affine[number, number]
            np.testing.assert_array_equal(
                image[name], expected + scale * np.arange(image.sizes[name])
            )
    alone = read({}, path="setup0/timepoint0/s1", parents=({"resolution": [1, 1, 4]}, {}, {}))
    assert places(alone) == [(4, 0), (1, 0), (1, 0)]


def snapshot(corpus: Path, name: str) -> dict[str, Any]:
    """What Neuroglancer makes of a source, from its own tests' snapshots."""
    place = corpus / NEUROGLANCER / "tests/datasource/metadata_snapshots" / name
    text = re.sub(
        r"Float64Array |undefined", lambda m: "" if "F" in m[0] else "null", place.read_text()
    )
    text = re.sub(r"(?<=[\[,])(\s*),", r"\1null,", re.sub(r"(?<=[\[,])(\s*),", r"\1null,", text))
    found: dict[str, Any] = json.loads(re.sub(r",(\s*[\]}])", r"\1", text))
    return found


SOURCES = {
    "n5/n5_viewer_multiscale_modern.snapshot": "n5/n5_viewer_multiscale_modern",
    "n5/n5_viewer_multiscale_deprecated.snapshot": "n5/n5_viewer_multiscale_deprecated",
    "zarr/ome_zarr_simple_0.4.snapshot": "zarr/ome_zarr/simple_0.4",
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_voxel_is_where_neuroglancer_shows_it(corpus: Path, name: str) -> None:
    """Neuroglancer's matrices map a voxel's corner, in its axes, to places in base voxels."""
    seen = snapshot(corpus, name)
    space = seen["modelTransform"]["inputSpace"]
    place = corpus / NEUROGLANCER / "testdata/datasource" / SOURCES[name]
    in_centre = space["bounds"]["voxelCenterAtIntegerCoordinates"][0]
    sources = seen["subsources"][0]["subsource"]["volume"]["sources"][0]
    assert len(sources) == 3
    for source in sources:
        path = source["chunkSource"]["parameters"]["url"].rstrip("/")
        path = path.rpartition("n5_viewer_multiscale_")[2].partition("/")[2] or path
        path = path.rpartition("simple_0.4/")[2]
        if name.startswith("zarr"):
            node = level_in_zarr(place, path)
            shape, geometry = node.shape, geometry_of(node)
        else:
            array = open_array(place, path)
            shape, geometry = array.shape, array.geometry()
        coords = coords_of(geometry, shape, "center" if in_centre else "corner")
        matrix = np.array(source.get("chunkToMultiscaleTransform", np.eye(len(shape) + 1)))
        corner, scale = matrix[:, -1], matrix[:, :-1]
        for number, axis in enumerate(space["names"]):
            # The matrix may turn the axes of a chunk, whose order is Neuroglancer's own.
            factor = scale[number].max()
            unit = {"nm": 1e-9, "nanometer": 1e-9, "s": 1.0}[coords[axis].attrs["units"]]
            centres = (factor * (np.arange(coords[axis].size) + 0.5) + corner[number]) * (
                space["scales"][number]
            )
            np.testing.assert_allclose(coords[axis] * unit, centres, rtol=1e-12, atol=1e-24)
        assert set(space["names"]) == set(coords)


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("peers/hdf5/pybdv-0.6.0-n5.n5", ""),
        (f"{NEUROGLANCER}/testdata/datasource/n5/n5_viewer_multiscale_modern", ""),
        (f"{NEUROGLANCER}/testdata/datasource/n5/n5_viewer_multiscale_deprecated", ""),
        (f"{UNIVERSE}/root_dataset.n5", ""),
        (f"{UNIVERSE}/test.n5", "cosem_ms"),
        (f"{UNIVERSE}/test.n5", "c0"),
    ],
)
@pytest.mark.filterwarnings("ignore:c0:UserWarning")
def test_every_pyramid_of_the_corpus_is_aligned(corpus: Path, path: str, group: str) -> None:
    """The centre of the volume is at one place, but for samples that a level left over."""
    tree: Any = xr.open_datatree(corpus / path, engine="n5", group=group)
    levels = [tree[name] for name in sorted(tree.children)]
    assert len(levels) > 1
    for axis in ("z", "y", "x"):
        if axis not in levels[0].coords:
            assert axis == "z"
            continue
        centres = [float(level[axis].mean()) for level in levels]
        step = max(float(abs(level[axis].diff(axis)[0])) for level in levels)
        assert max(centres) - min(centres) <= step / 2
