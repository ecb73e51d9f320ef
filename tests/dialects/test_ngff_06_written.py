"""OME-Zarr 0.6 as it is written: valid by its schemas, and read back as 0.5 is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
import zarr

import xarray_n5
from tests.dialects.test_ngff_05 import edge, image_06, store_06
from tests.dialects.test_ngff_06 import image_of, opened, store
from tests.support.ngff_points import SPEC
from xarray_n5.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from xarray_n5.formats import FormatName


def check_schema(place: Path, path: str = "") -> dict[str, Any]:
    """Return ``ome`` of a group, after checking it with the specification's schema."""
    attributes = json.loads((place / path / "zarr.json").read_bytes())["attributes"]
    ome: dict[str, Any] = attributes["ome"]
    assert ome["version"] == "0.6"
    assert all("axes" not in each and "version" not in each for each in ome["multiscales"])
    if SPEC.is_dir():
        jsonschema = pytest.importorskip("jsonschema")
        referencing = pytest.importorskip("referencing")
        files = (SPEC / "schemas").glob("*.schema")
        schemas = {each["$id"]: each for each in (json.loads(f.read_bytes()) for f in files)}
        resources = [(k, referencing.Resource.from_contents(v)) for k, v in schemas.items()]
        registry = referencing.Registry().with_resources(resources)
        (schema,) = (each for name, each in schemas.items() if name.endswith("/image.schema"))
        # The schemas are those of the release candidate.
        candidate = {"ome": {**ome, "version": "0.6rc0"}}
        jsonschema.Draft202012Validator(schema, registry=registry).validate(candidate)
    return ome


def volume(*, channels: bool = False, step: float = 2.0) -> xr.DataArray:
    """An image in micrometres."""
    coords: dict[str, Any] = {
        dim: xr.Variable(dim, 10.0 + step * np.arange(8), {"units": "um"}) for dim in "zyx"
    }
    values = np.arange(512, dtype="u1").reshape(8, 8, 8)
    if not channels:
        return xr.DataArray(values, coords, list("zyx"), name="raw")
    coords["c"] = ["DAPI", "GFP"]
    return xr.DataArray(np.stack([values] * 2), coords, list("czyx"), name="raw")


def as_level(source: xr.DataArray, place: Path, dialect: str) -> str:
    xarray_n5.pyramid(source, place, "em", levels=0, dialect=dialect, format="zarr3")
    return "em"


def as_pyramid(source: xr.DataArray, place: Path, dialect: str) -> str:
    xarray_n5.pyramid(source, place, "em", factors=[2], dialect=dialect, format="zarr3")
    return "em"


def as_tree(source: xr.DataArray, place: Path, dialect: str) -> str:
    levels = {"s0": source, "s1": source.coarsen(x=2, y=2, z=2).mean().astype("u1")}
    tree = {name: level.to_dataset(name="raw") for name, level in levels.items()}
    xr.DataTree.from_dict(tree).n5.to_n5(place, "em", dialect=dialect, format="zarr3")
    return "em"


def as_copy(source: xr.DataArray, place: Path, dialect: str) -> str:
    xarray_n5.pyramid(source, place.with_suffix(".n5"), "em", factors=[2])
    xarray_n5.copy(place.with_suffix(".n5"), place, dialect=dialect, format="zarr3")
    return "em"


WAYS: list[Callable[[xr.DataArray, Path, str], str]] = [
    as_level,
    as_pyramid,
    as_tree,
    as_copy,
]


@pytest.mark.matrix(4)
@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("channels", [False, True])
def test_what_is_written_is_valid_and_read_as_version_5_is(
    tmp_path: Path, write: Callable[..., str], *, channels: bool
) -> None:
    source, found = volume(channels=channels), {}
    for dialect in ("ngff", "ngff-0.6"):
        place = tmp_path / f"{dialect}.zarr"
        path = write(source, place, dialect)
        tree = xr.open_datatree(place, engine="n5").load()
        found[dialect] = tree[path].to_dict()
    ome = check_schema(place, path)
    assert ome["multiscales"][0]["coordinateSystems"][0]["name"] == "intrinsic"
    if channels:
        assert [each["label"] for each in ome["omero"]["channels"]] == ["DAPI", "GFP"]
    for old, new in zip(*(each.values() for each in found.values()), strict=True):
        xr.testing.assert_equal(old, new)
        for name in old.coords:
            assert old[name].attrs == new[name].attrs
    for level in xr.open_datatree(place, engine="n5").leaves:
        for variable in level.data_vars.values():
            index = [1.0, 0.0, 2.5]
            assert variable.encoding["coordinate_system"] == "intrinsic"
            assert variable.n5.to_world(index).shape == (3,)


@pytest.mark.parametrize("form", ["zarr2", "n5"])
def test_other_formats_cannot_store_version_6(tmp_path: Path, form: FormatName) -> None:
    place = tmp_path / "x"
    with pytest.raises(MetadataError, match="stored in Zarr v3 only; choose format='zarr3'"):
        xarray_n5.pyramid(volume(), place, "em", dialect="ngff-0.6", format=form)
    assert not place.exists()


def test_axes_in_reverse_direction_and_too_few_are_refused(tmp_path: Path) -> None:
    how: dict[str, Any] = {"dialect": "ngff-0.6", "format": "zarr3"}
    with pytest.raises(MetadataError, match="axis 'z' in reverse direction"):
        xarray_n5.pyramid(volume(step=-2.0), tmp_path / "x.zarr", "em", **how)
    with pytest.raises(MetadataError, match="cannot describe the axes"):
        xarray_n5.pyramid(volume()[0, 0].reset_coords(drop=True), tmp_path / "x.zarr", "em", **how)
    assert not (tmp_path / "x.zarr").exists()


SYSTEMS = [
    edge("affine", affine=[[1, 0.5, 9], [0, 3, 1]], name="registration"),
    edge("displacements", target="stage", path="fields/d", interpolation="linear"),
]


def test_copies_keep_other_systems_and_what_is_not_understood(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    image = image_06(*SYSTEMS) | {"type": "gaussian", "theirs": [1]}
    store_06(place, image, creator={"name": "someone"})
    xarray_n5.copy(place, tmp_path / "same.zarr", format="zarr3")
    attributes = [
        dict(zarr.open_group(str(tmp_path / name)).attrs) for name in ("x.zarr", "same.zarr")
    ]
    assert attributes[0]["ome"] == attributes[1]["ome"]


def test_copies_with_the_dialect_keep_other_systems(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    store_06(place, image_06(*SYSTEMS))
    xarray_n5.copy(place, tmp_path / "new.zarr", dialect="ngff-0.6", format="zarr3")
    (image,) = check_schema(tmp_path / "new.zarr")["multiscales"]
    assert image["coordinateTransformations"] == SYSTEMS
    assert [each["name"] for each in image["coordinateSystems"]] == ["stage", "intrinsic"]


def test_version_6_is_copied_to_other_formats(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    one = edge("translation", "intrinsic", "world", translation=[10, 20, 30])
    ome = {"version": "0.6", "multiscales": [image_of("zyx", [2, 2, 2], [1, 1, 1], one)]}
    store(place, ome, shape=(2, 3, 4), path="0")
    before, _ = opened(place)
    forms: dict[str, FormatName | None] = {"x.n5": None, "v2.zarr": "zarr2"}
    for name, form in forms.items():
        with pytest.warns(UserWarning, match="of the image are not stored"):
            xarray_n5.copy(place, tmp_path / name, format=form)
        after, said = opened(tmp_path / name)
        assert said == []
        assert after.n5.to_world([1, 1, 1]).tolist() == before.n5.to_world([1, 1, 1]).tolist()


def stage_image(place: Path) -> None:
    """Store an image of two levels, which has a second system, and what this package ignores."""
    window = {"min": 0, "max": 9, "start": 0, "end": 9}
    channels = [{"label": "a", "color": "00FF00", "window": window}]
    image = image_06(SYSTEMS[0]) | {"type": "gaussian"}
    store_06(place, image, creator={"name": "someone"}, omero={"channels": channels})


def written_as(way: str, source: Path, place: Path, **how: Any) -> None:
    """Store the image, or a part of it, in some way."""
    data = xr.open_dataset(source, engine="n5", level=0)
    (name,) = data.data_vars
    match way:
        case "array":
            data[name].n5.to_n5(place, **how)
        case "crop":
            xarray_n5.pyramid(data[name][2:, ::2], place, "", levels=0, **how)
        case "turned":
            xarray_n5.pyramid(data[name].transpose("x", "y"), place, "", levels=0, **how)
        case "dataset":
            data.drop_attrs(deep=False).n5.to_n5(place, **how)
        case "tree":
            xr.open_datatree(source, engine="n5").n5.to_n5(place, **how)
        case "pyramid":
            xarray_n5.pyramid(data[name], place, "", factors=[2], **how)
        case "stored":
            xarray_n5.pyramid(xarray_n5.open_array(source, "s0"), place, "", factors=[2], **how)
        case "level":
            xarray_n5.copy(source / "s0", place, **how)
        case _:
            xarray_n5.copy(source, place, dialect=way, **how)


LOSING = ["array", "crop", "turned", "dataset", "tree", "pyramid", "stored", "level", "ngff"]


@pytest.mark.matrix(6)
@pytest.mark.filterwarnings("ignore:.*readers ignore them without an image")
@pytest.mark.parametrize("form", ["n5", "zarr3"])
@pytest.mark.parametrize("way", LOSING)
def test_other_systems_that_are_lost_are_named(tmp_path: Path, way: str, form: FormatName) -> None:
    stage_image(tmp_path / "x.zarr")
    with pytest.warns(UserWarning, match="the coordinate systems 'stage' of the image are not"):
        written_as(way, tmp_path / "x.zarr", tmp_path / f"y.{form}", format=form)


@pytest.mark.parametrize("dialect", ["ngff", "ngff-0.6"])
@pytest.mark.filterwarnings("ignore:.*the coordinate systems 'stage' of the image are not stored")
def test_copies_keep_channels_and_what_is_not_about_axes(tmp_path: Path, dialect: str) -> None:
    stage_image(tmp_path / "x.zarr")
    xarray_n5.copy(tmp_path / "x.zarr", tmp_path / "y.zarr", dialect=dialect, format="zarr3")
    before, after = (
        json.loads((tmp_path / name / "zarr.json").read_bytes())["attributes"]["ome"]
        for name in ("x.zarr", "y.zarr")
    )
    assert after["creator"] == before["creator"]
    assert after["omero"] == before["omero"]
    assert after["multiscales"][0]["type"] == "gaussian"
    assert after["version"] == {"ngff": "0.5", "ngff-0.6": "0.6"}[dialect]
    assert ("axes" in after["multiscales"][0]) is (dialect == "ngff")
