"""OME-NGFF 0.5, which is written in Zarr v3: for pyramids and copies; 0.6 is read."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5
from tests.support.geometries import facts, read
from xarray_n5 import open_array, open_group

if TYPE_CHECKING:
    from pathlib import Path

zarr = pytest.importorskip("zarr")
models: Any = pytest.importorskip("ome_zarr_models.v05")

VALUES = np.arange(2 * 16 * 32, dtype="u2").reshape(2, 16, 32)


def image() -> xr.DataArray:
    """A volume in micrometres."""
    units = {"units": "um"}
    places = {
        "z": ("z", np.arange(2) * 4.0, units),
        "y": ("y", np.arange(16) * 2.0 + 3, units),
        "x": ("x", np.arange(32) * 2.0, units),
    }
    blocks = da.from_array(VALUES, chunks=8)
    return xr.DataArray(blocks, places, ("z", "y", "x"), "raw")


def validated(place: Path, path: str = "") -> Any:
    """The image of a group, as ome-zarr-models validates it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.open_group(str(place), path=path, mode="r")
        return models.Image.from_zarr(group).attributes.ome


def check_pyramid(place: Path, path: str) -> None:
    """Three levels, valid, and where they belong."""
    ome = validated(place, path)
    (found,) = ome.multiscales
    assert ome.version == "0.5"
    assert [each.path for each in found.datasets] == ["s0", "s1", "s2"]
    assert "multiscales" not in open_group(place, path).attrs
    level = xr.open_dataset(place, engine="n5", group=path, level=1)
    assert level["x"].to_numpy()[:2].tolist() == [1, 5]
    assert level["x"].attrs["units"] == "um"
    assert "ome" not in level.attrs


def test_pyramids_in_zarr_3_are_valid_images(tmp_path: Path) -> None:
    options: dict[str, Any] = {"chunks": (1, 4, 4), "shards": (2, 8, 8), "levels": 2}
    xarray_n5.pyramid(image(), tmp_path / "p.zarr", "em", format="zarr3", **options)
    check_pyramid(tmp_path / "p.zarr", "em")
    tree = xr.open_datatree(tmp_path / "p.zarr", engine="n5")
    tree.n5.to_n5(tmp_path / "q.zarr", format="zarr3")
    check_pyramid(tmp_path / "q.zarr", "em")
    xr.testing.assert_identical(
        xr.open_datatree(tmp_path / "q.zarr", engine="n5")["em/s1"].to_dataset(),
        tree["em/s1"].to_dataset(),
    )


@pytest.mark.parametrize(
    ("source", "form"), [("p.n5", "n5"), ("p.zarr", "zarr2"), ("p.h5", "hdf5")]
)
def test_copies_of_pyramids_are_valid_images(tmp_path: Path, source: str, form: Any) -> None:
    xarray_n5.pyramid(image(), tmp_path / source, "em", format=form, levels=2, chunks=(1, 4, 4))
    before = dict(open_group(tmp_path / source, "em").attrs)
    xarray_n5.copy(tmp_path / source, tmp_path / "q.zarr", format="zarr3", shards=(2, 8, 8))
    check_pyramid(tmp_path / "q.zarr", "em")
    assert open_array(tmp_path / "q.zarr", "em/s0").shards == (2, 8, 8)
    back = tmp_path / f"back-{source}"
    xarray_n5.copy(tmp_path / "q.zarr", back, format=form)
    assert dict(open_group(back, "em").attrs) == before
    np.testing.assert_array_equal(open_array(back, "em/s0")[...], VALUES)


# Version 0.6: coordinate systems


def space(*names: str, unit: str | None = "micrometer") -> list[dict[str, Any]]:
    more = {} if unit is None else {"unit": unit}
    return [{"name": name, "type": "space", **more} for name in names]


def level_of(number: int, system: Any, scale: list[float], start: list[float]) -> dict[str, Any]:
    """An entry of a level with a scale and a translation to a system."""
    steps = [{"type": "scale", "scale": scale}, {"type": "translation", "translation": start}]
    whole = {"type": "sequence", "transformations": steps, "output": system}
    path = f"s{number}"
    return {"path": path, "coordinateTransformations": [{**whole, "input": {"path": path}}]}


def image_06(*edges: dict[str, Any], system: Any = None, first: str = "stage") -> dict[str, Any]:
    """An image of two levels that lead to "intrinsic", and other systems."""
    axes = {"intrinsic": space("y", "x"), "stage": space("x", "y", unit="nanometer")}
    names = [first, *(name for name in axes if name != first)]
    lead = {"name": "intrinsic"} if system is None else system
    return {
        "coordinateSystems": [{"name": name, "axes": axes[name]} for name in names],
        "datasets": [level_of(0, lead, [2, 0.5], [7, 3]), level_of(1, lead, [4, 1], [8, 3.25])],
        **({"coordinateTransformations": list(edges)} if edges else {}),
    }


def edge(kind: str, source: Any = "intrinsic", target: Any = "stage", **more: Any) -> Any:
    """A transformation between two systems."""
    ends = [{"name": each} if isinstance(each, str) else each for each in (source, target)]
    return {"type": kind, "input": ends[0], "output": ends[1], **more}


def store_06(place: Path, *images: dict[str, Any], path: str = "", **more: Any) -> None:
    """Store an image of two levels."""
    root = zarr.open_group(str(place), mode="a", zarr_format=3)
    group = root.require_group(path) if path else root
    for name, size in (("s0", 8), ("s1", 4)):
        group.create_array(name, shape=(size, size), chunks=(4, 4), dtype="u1")
    group.attrs["ome"] = {"version": "0.6", "multiscales": list(images), **more}


def read_06(
    image: dict[str, Any], level: int = 0, path: str = "", scene: Any = None
) -> tuple[list[Any], list[str]]:
    """The axes of a level, and the warnings."""
    group = {"ome": {"version": "0.6", "multiscales": [image]}}
    around: list[dict[str, Any]] = [{}] * path.count("/")
    root = () if scene is None else ({"ome": {"version": "0.6", "scene": scene}},)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        geometry = read(
            {},
            (8, 8),
            path=f"{path}/s{level}".strip("/"),
            parents=(group, *around, *root),
            lists_x_first=False,
        )
    return facts(geometry), [str(warning.message) for warning in caught]


INTRINSIC = [("y", "micrometer", 2, 7), ("x", "micrometer", 0.5, 3)]

EDGES = {
    "affine": edge("affine", affine=[[1, 0.5, 9], [0, 3, 1]]),
    "scale": edge("scale", scale=[1000, 1000]),
    "backwards": edge("translation", "stage", "intrinsic", translation=[5, 5]),
    "swapped": edge("mapAxis", mapAxis=[1, 0]),
    "unknown": edge("warp", path="coordinateTransformations/w"),
    "label": edge("scale", {"path": "labels/cells", "name": "physical"}, "intrinsic", scale=[2, 2]),
}


@pytest.mark.parametrize("kind", EDGES)
@pytest.mark.parametrize("first", ["stage", "intrinsic"])
def test_coordinates_are_those_of_the_system_that_levels_lead_to(kind: str, first: str) -> None:
    image = image_06(EDGES[kind], first=first)
    axes, said = read_06(image)
    assert axes == INTRINSIC
    expected = {"unknown": ["'warp' is an unknown transformation", "those of 'intrinsic'"]}
    if kind in {"scale", "backwards"}:
        # Axes y, x lead to x, y by position.
        expected[kind] = ["['y', 'x'] to ['x', 'y'] by position"]
        expected["backwards"] = ["['x', 'y'] to ['y', 'x'] by position"]
    assert len(said) == bool(expected.get(kind))
    assert all(text in said[0] for text in expected.get(kind, ()))
    coarse, _ = read_06(image, 1)
    assert coarse == [("y", "micrometer", 4, 8), ("x", "micrometer", 1, 3.25)]


def test_systems_without_transformations_and_identities_are_silent() -> None:
    plain = image_06()
    same = image_06(edge("identity", {"path": "labels/a", "name": "physical"}, "intrinsic"))
    draft = image_06(system="intrinsic")
    for image in (plain, same, draft):
        assert read_06(image) == (INTRINSIC, [])


def test_a_system_that_the_image_lacks_is_told() -> None:
    axes, said = read_06(image_06(system={"name": "moon"}))
    assert axes == [(None, None, None, 0.0)] * 2
    assert any("'moon'; expected one of 'stage', 'intrinsic'" in each for each in said)


def test_an_image_of_version_5_still_moves_with_its_own_transformations() -> None:
    scale = {"type": "scale", "scale": [2, 0.5]}
    image = {
        "axes": space("y", "x"),
        "datasets": [{"path": each, "coordinateTransformations": [scale]} for each in ("s0", "s1")],
        "coordinateTransformations": [{"type": "translation", "translation": [7, 3]}],
    }
    assert read_06(image) == (INTRINSIC, [])


def test_a_scene_that_places_an_image_is_told() -> None:
    moves = [
        edge("translation", {"path": name, "name": "intrinsic"}, "world", translation=[0, 9])
        for name in ("tiles/0", "tiles/1", "tiles/2")
    ]
    systems = [{"name": "world", "axes": space("y", "x")}]
    scene = {"coordinateSystems": systems, "coordinateTransformations": moves}
    axes, (message,) = read_06(image_06(), path="tiles/1", scene=scene)
    assert axes == INTRINSIC
    assert "translation of 'tiles/1'" in message
    # An image that no transformation names is not part of the scene.
    assert read_06(image_06(), path="alone", scene=scene) == (INTRINSIC, [])
