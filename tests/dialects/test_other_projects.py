"""What other projects' own tests assert of their files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from tests.support.geometries import facts, places, read
from xarray_n5 import open_array
from xarray_n5.arrays.coordinates import coords_of
from xarray_n5.dialects import geometry_of
from xarray_n5.dialects.protocol import ArrayContext

if TYPE_CHECKING:
    from pathlib import Path

# What other projects' tests say

UNIVERSE = "fetched/saalfeldlab+n5-universe/src/test/resources"
NEUROGLANCER = "fetched/google+neuroglancer"


def expectations(corpus: Path) -> dict[str, dict[str, Any]]:
    """What other projects' tests assert, by path."""
    document = json.loads((corpus / "metadata-expectations.json").read_text("utf-8"))
    return {row["path"]: row for row in document["entries"]}


def level_in_zarr(place: Path, path: str) -> ArrayContext:
    """An array in Zarr as dialects see it, without its data."""
    array = json.loads((place / path / ".zarray").read_text("utf-8"))
    group = json.loads((place / ".zattrs").read_text("utf-8"))
    above = len(path.split("/")) - 1
    parents = ({},) * above + (group,)
    return ArrayContext(
        shape=tuple(array["shape"]), path=path, parents=parents, lists_x_first=False
    )


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
    with pytest.warns(UserWarning, match="'offset' is ignored"):
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
        image = tree[f"s{level}/pybdv-0.6.0-n5"]
        assert image.dims == ("t", "setup", "z", "y", "x")
        for number, name in enumerate("xyz"):
            scale = affine[number, number] * factors[number]
            assert image[name].attrs["units"] == "micrometer"
            expected = (factors[number] - 1) / 2 * affine[number, number]
            np.testing.assert_array_equal(
                image[name], expected + scale * np.arange(image.sizes[name])
            )
    alone = read({}, path="setup0/timepoint0/s0", parents=({"resolution": [1, 1, 4]}, {}, {}))
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
        coords = coords_of(geometry, shape)
        # Its positions may count from the corner of the first base voxel.
        half = {axis.name: 0 if in_centre else axis.base[0] / 2 for axis in geometry.axes}
        matrix = np.array(source.get("chunkToMultiscaleTransform", np.eye(len(shape) + 1)))
        corner, scale = matrix[:, -1], matrix[:, :-1]
        for number, axis in enumerate(space["names"]):
            # The matrix may turn the axes of a chunk, whose order is Neuroglancer's own.
            factor = scale[number].max()
            unit = {"nm": 1e-9, "nanometer": 1e-9, "s": 1.0}[coords[axis].attrs["units"]]
            centres = (factor * (np.arange(coords[axis].size) + 0.5) + corner[number]) * (
                space["scales"][number]
            )
            positions = (coords[axis] + half[axis]) * unit
            np.testing.assert_allclose(positions, centres, rtol=1e-12, atol=1e-24)
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
