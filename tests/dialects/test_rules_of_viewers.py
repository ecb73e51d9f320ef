"""Viewers read what is written here: Neuroglancer, n5-ij, webknossos, by the rules of each.

Neuroglancer itself shows images in ``viewing/test_neuroglancer.py``; these are the rules of its N5
data source (src/datasource/n5/frontend.ts and src/util/si_units.ts), which cost no browser.
"""

from __future__ import annotations

import json
import warnings
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
import zarr

import xarray_n5
from tests.support.axes import with_axes
from xarray_n5 import Axis, add_levels, create_array, open_array, pyramid

if TYPE_CHECKING:
    from pathlib import Path

PREFIXES = ["", "da", *"YZEPTGMkhdcmµunpfazy"]
KNOWN = {"", *map("".join, product(PREFIXES, ("m", "s", "Hz", "rad/s")))}


def neuroglancer_axes(container: Path, path: str) -> dict[str, tuple[float, str]]:
    """Return names, scales and units as Neuroglancer understands them; raise where it refuses."""
    found: dict[str, Any] = {}
    for folder in (container, *((container / path).parents[::-1]), container / path):
        if folder.is_relative_to(container) and (file := folder / "attributes.json").exists():
            found |= json.loads(file.read_bytes())
    units, unit = found.get("units"), "nm"
    scales = found.get("resolution")
    if resolution := found.get("pixelResolution"):
        unit = resolution["unit"]
        scales = resolution.get("dimensions", scales)
    listed = found.get("scales", found.get("downsamplingFactors", [[]]))
    axes = found.get("axes", "xyztc")
    rank = len(found.get("dimensions", scales or listed[0] or axes))
    units = units or [unit] * rank
    if refused := {unit, *units} - KNOWN:
        raise ValueError(f"Neuroglancer refuses the units {refused}")
    scales = scales or [1] * rank
    assert len(units) == len(scales) == rank
    assert min(scales) > 0
    return dict(zip(axes[:rank], zip(scales, units, strict=True), strict=True))


def write_one(container: Path, axes: list[Axis], **options: Any) -> None:
    create_array(container, "a", shape=(2,) * len(axes), dtype="u1", axes=axes, **options)


def write_pyramid(container: Path, axes: list[Axis], **options: Any) -> None:
    data = np.zeros((4,) * len(axes), "u1")
    by: dict[str, Any] = {"factors": {str(axis.name): 2 for axis in axes}, "levels": 1, "chunks": 2}
    pyramid(with_axes(data, axes), container, "a", **{**by, **options})


WRITERS = {"array": write_one, "pyramid": write_pyramid}


@pytest.mark.matrix(6)
@pytest.mark.parametrize(
    ("unit", "scale", "shown"),
    [
        ("Å", 4.0, (0.4, "nm")),
        ("micrometer", 4.0, (4, "um")),
        ("in", 2.0, (50.8, "mm")),
        ("min", 0.5, (30, "s")),
        ("h", 2.0, (7200, "s")),
        ("parsec", 2.0, (2, "")),
        ("degrees_east", 0.25, (0.25, "")),
        ("parrots", 3.0, (3, "")),
    ],
)
@pytest.mark.parametrize("dialect", [None, "cosem"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_viewer_reads_every_unit_and_it_comes_back_as_it_was(
    tmp_path: Path, unit: str, scale: float, shown: tuple[float, str], dialect: str, writer: str
) -> None:
    # One unit for all axes, and several.
    for container, other in ((tmp_path / "one.n5", unit), (tmp_path / "two.n5", "nm")):
        axes = [Axis(name="y", unit=other, scale=scale), Axis(name="x", unit=unit, scale=scale)]
        WRITERS[writer](container, axes, dialect=dialect)
        wanted = {"x": shown, "y": shown if other == unit else (scale, "nm")}
        paths = ["a"] if writer == "array" else ["a", "a/s0"]
        assert all(neuroglancer_axes(container, path) == wanted for path in paths)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = open_array(container, paths[-1]).axes
        assert [(axis.unit, axis.scale) for axis in again] == [(other, scale), (unit, scale)]


@pytest.mark.parametrize("dialect", [None, "cosem"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_viewer_gives_no_length_to_axes_that_run_backwards(
    tmp_path: Path, dialect: str, writer: str
) -> None:
    axes = [Axis(name="y", unit="um", scale=-2.0), Axis(name="x", unit="um", scale=3.0)]
    WRITERS[writer](tmp_path / "c.n5", axes, dialect=dialect)
    assert neuroglancer_axes(tmp_path / "c.n5", "a") == {"x": (1, ""), "y": (1, "")}
    path = "a" if writer == "array" else "a/s0"
    assert [a.scale for a in open_array(tmp_path / "c.n5", path).axes] == [-2.0, 3.0]


@pytest.mark.parametrize("dialect", [None, "n5_viewer", "cosem", "neuroglancer"])
def test_a_pyramid_without_units_is_dimensionless_to_a_viewer(tmp_path: Path, dialect: str) -> None:
    container = tmp_path / "c.n5"
    pyramid(np.zeros((4, 4)), container, "a", chunks=2, factors=2, levels=1, dialect=dialect)
    assert neuroglancer_axes(container, "a") == {"x": (1, ""), "y": (1, "")}
    found = json.loads((container / "a" / "attributes.json").read_bytes())
    assert found.get("pixelResolution", {"unit": ""})["unit"] == ""


def test_units_of_some_axes_are_not_those_of_axes_without(tmp_path: Path) -> None:
    axes = [Axis(name="c"), *(Axis(name=name, unit="Å", scale=4.0) for name in "yx")]
    by: dict[str, Any] = {"factors": {"y": 2, "x": 2}, "levels": 1, "chunks": (1, 2, 2)}
    pyramid(with_axes(np.zeros((2, 4, 4)), axes), tmp_path / "c.n5", **by)
    shown = neuroglancer_axes(tmp_path / "c.n5", "")
    assert shown == {"x": (0.4, "nm"), "y": (0.4, "nm"), "c": (1, "")}


def test_units_that_neuroglancer_cannot_keep_need_another_dialect_beside_it(tmp_path: Path) -> None:
    axes = [Axis(name=name, unit="Å", scale=4.0) for name in "yx"]
    with pytest.raises(xarray_n5.MetadataError, match="cannot describe the unit"):
        write_one(tmp_path / "c.n5", axes, dialect="neuroglancer")
    for number, both in enumerate((["neuroglancer", "cosem"], ["n5_viewer", "cosem"])):
        write_one(tmp_path / f"{number}.n5", axes, dialect=both)
        assert neuroglancer_axes(tmp_path / f"{number}.n5", "a")["x"] == (0.4, "nm")
        assert open_array(tmp_path / f"{number}.n5", "a").axes[0].unit == "Å"


@pytest.mark.parametrize("dialect", [None, "n5_viewer", "paintera"])
def test_the_base_level_has_factors_where_the_others_have(tmp_path: Path, dialect: str) -> None:
    data = np.zeros((4, 4), "u1")
    by: dict[str, Any] = {"chunks": 2, "factors": 2, "levels": 1, "dialect": dialect}
    pyramid(
        with_axes(data, [Axis(name=n, unit="nm", scale=2.0) for n in "yx"]), tmp_path / "c.n5", **by
    )
    found = [open_array(tmp_path / "c.n5", f"s{n}").attrs["downsamplingFactors"] for n in (0, 1)]
    assert found == [[1, 1], [2, 2]]


def test_a_base_level_that_was_there_gets_factors_too(tmp_path: Path) -> None:
    before = create_array(
        tmp_path / "c.n5",
        "s0",
        shape=(4, 4),
        dtype="u1",
        chunks=2,
        attributes={"mine": 1},
        axes=[Axis(name=name, unit="nm", scale=2.0) for name in "yx"],
    )
    add_levels(tmp_path / "c.n5", path="s0", factors=2, levels=1)
    after = open_array(tmp_path / "c.n5", "s0")
    assert dict(after.attrs) == {**before.attrs, "downsamplingFactors": [1, 1]}
    assert after.axes == before.axes


def test_imagej_has_all_that_n5_ij_requires(tmp_path: Path) -> None:
    axes = [Axis(name="t", unit="s", scale=0.5), *(Axis(name=n, unit="um", scale=2) for n in "yx")]
    write_one(tmp_path / "timed.n5", axes, dialect="imagej")
    write_one(tmp_path / "still.n5", axes[1:], dialect="imagej")
    assert open_array(tmp_path / "timed.n5", "a").attrs["fps"] == 2
    assert open_array(tmp_path / "still.n5", "a").attrs["fps"] == 0


def chunks_of(folder: Path) -> set[str]:
    files = (file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    return {file for file in files if "/." not in f"/{file}"}


def test_chunks_of_ome_ngff_images_are_nested(tmp_path: Path) -> None:
    axes = [Axis(name=name, unit="nm", scale=2.0) for name in "yx"]
    data = np.ones((4, 2), "u1")
    by: dict[str, Any] = {"factors": 2, "levels": 1, "chunks": 2}
    pyramid(with_axes(data, axes), tmp_path / "p.zarr", format="zarr2", **by)
    assert chunks_of(tmp_path / "p.zarr/s0") == {"0/0", "1/0"}
    assert chunks_of(tmp_path / "p.zarr/s1") == {"0/0"}


def ome_image(group: Path) -> Any:
    """An OME-NGFF 0.4 image as ome-zarr-models validates it."""
    from ome_zarr_models.v04 import Image

    return Image.from_zarr(zarr.open_group(group, mode="r", zarr_format=2)).ome_attributes


def test_ome_zarr_models_validates_pyramids_and_single_levels(tmp_path: Path) -> None:
    space = [Axis(name=name, unit="nm", scale=4.0) for name in "yx"]
    axes = [Axis(name="c", labels=("DNA", "actin")), *space]
    data = np.zeros((2, 8, 8), "u2")
    by: dict[str, Any] = {"factors": {"y": 2, "x": 2}, "levels": 1, "chunks": (1, 4, 4)}
    pyramid(with_axes(data, axes), tmp_path / "p.zarr", format="zarr2", **by)
    found = ome_image(tmp_path / "p.zarr")
    (scale, translation) = found.multiscales[0].datasets[1].coordinateTransformations
    assert [scale.scale, translation.translation] == [[1, 8, 8], [0, 2, 2]]
    assert [channel.label for channel in found.omero.channels] == ["DNA", "actin"]
    coords = {name: (name, 4.0 * np.arange(8), {"units": "um"}) for name in "yx"}
    single = xr.DataArray(data[0], coords, ("y", "x"), "image")
    pyramid(single, tmp_path / "d.zarr", levels=0)
    assert ome_image(tmp_path / "d.zarr").multiscales[0].axes[0].unit == "micrometer"
