"""Neuroglancer, in a real browser, shows what was written: each voxel, and where it lies."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from tests.support.axes import with_axes
from tests.support.browser import browsing, needs_chromium, viewer
from tests.support.servers import serving
from xarray_n5 import Axis, copy, open_array, pyramid
from xarray_n5.model.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from xarray_n5 import Array

pytestmark = [viewer, needs_chromium]

neuroglancer = pytest.importorskip(
    "neuroglancer", reason="Neuroglancer is not installed; ci/viewer installs it"
)

SCALES = {"z": 2.0, "y": 0.5, "x": 0.25}

SHADER = "void main() { emitGrayscale(float(toRaw(getDataValue())) / 255.0); }"

PLANE = 5


def levels() -> list[np.ndarray]:
    """Noise, and rounded means over blocks: no value of a level tells that of another."""
    found = [np.random.default_rng(9).integers(0, 256, (12, 96, 64), dtype="uint8")]
    for _ in range(2):
        planes, down, across = found[-1].shape
        blocks = found[-1].reshape(planes, down // 2, 2, across // 2, 2)
        found.append(np.rint(blocks.mean((2, 4))).astype("uint8"))
    return found


SHARDS = (10, 40, 50)


def write(folder: Path, form: Any, compression: str) -> None:
    """Write a pyramid, in chunks and shards that the arrays' ends cut."""
    pyramid(
        with_axes(
            levels()[0],
            [Axis(name=name, unit="micrometer", scale=scale) for name, scale in SCALES.items()],
        ),
        folder,
        "image",
        factors={"y": 2, "x": 2},
        levels=2,
        chunks=(5, 20, 25),
        compression=compression,
        format=form,
        shards=SHARDS if form == "zarr3" else None,
    )


@pytest.fixture(scope="module", autouse=True)
def on_this_machine_alone() -> Iterator[None]:
    neuroglancer.set_server_bind_address("127.0.0.1")
    yield
    neuroglancer.stop()


@contextmanager
def looking(folder: Path, path: str, form: str) -> Iterator[Any]:
    """Show an image in a browser that has seen nothing else."""
    shown = neuroglancer.Viewer()
    with (
        serving(folder / "served") as url,
        browsing(shown.get_viewer_url(), folder / "browser"),
    ):
        source = f"{url}/{path}/|{form}:"
        layer = {"type": "image", "name": "image", "source": source, "shader": SHADER}
        shown.set_state(
            {
                "layers": [layer],
                "layout": "xy",
                "showAxisLines": False,
                "showScaleBar": False,
                "showDefaultAnnotations": False,
            }
        )
        end = time.monotonic() + 240
        while not (shown.state.dimensions and shown.state.dimensions.names):
            assert time.monotonic() < end, f"Neuroglancer does not understand {source}"
            time.sleep(0.05)
        yield shown


def axes_of(shown: Any) -> dict[str, tuple[float, str]]:
    """What a viewer takes an image's axes to be, in their order."""
    known = shown.state.dimensions
    rows = zip(known.names, known.scales, known.units, strict=True)
    return {name: (float(scale), unit) for name, scale, unit in rows}


def in_metres(array: Array, form: str) -> dict[str, tuple[Any, str]]:
    """Our axes, in the format's order."""
    found = {}
    for axis in array.axes[::-1] if form == "n5" else array.axes:
        unit = unit_of(axis.unit)
        assert unit is not None
        found[str(axis.name)] = (pytest.approx(axis.step * unit.size), "m")
    return found


def picture(shown: Any, base: Array, form: str, level: int = 0) -> np.ndarray:
    """What the screen shows of a plane, a pixel for each of the level's samples along x.

    The plane and its middle are at places by our axes. What N5's attributes tell has place 0
    at the corner of a voxel to this viewer, OME-NGFF's in its centre.
    """
    by = 2**level
    _, down, across = base.shape
    middle = zip(base.axes, (PLANE, (down - 1) / 2, (across - 1) / 2), strict=True)
    corner = 0.5 if form == "n5" else 0.0
    places = {axis.name: axis.position(at + corner) / axis.step for axis, at in middle}
    with shown.txn() as state:
        state.position = [places[name] for name in state.dimensions.names]
        state.display_dimensions = ["x", "y", "z"]
        state.cross_section_scale = float(by)
        state.layers[0].layer.cross_section_render_scale = by
    # Samples along y are twice as far from each other as those along x.
    pixels = shown.screenshot(size=[across // by, 2 * down // by]).screenshot.image_pixels
    assert not np.ptp(pixels[..., :3], axis=-1).any()
    grey: np.ndarray = pixels[..., 0]
    return grey


@pytest.mark.parametrize(
    ("form", "compression"), [("n5", "gzip"), ("zarr2", "blosc"), ("zarr3", "zstd")]
)
def test_a_viewer_shows_each_voxel_of_each_level_where_it_lies(
    tmp_path: Path, form: str, compression: str
) -> None:
    write(tmp_path / "served", form, compression)
    base = open_array(tmp_path / "served", "image/s0")
    assert {axis.unit for axis in base.axes} == {"micrometer"}
    assert base.shards == (SHARDS if form == "zarr3" else None)
    with looking(tmp_path, "image", form) as shown:
        wanted = in_metres(base, form)
        assert axes_of(shown) == wanted
        assert list(axes_of(shown)) == list(wanted)
        for level, data in enumerate(levels()):
            seen = picture(shown, base, form, level)
            np.testing.assert_array_equal(seen, data[PLANE].repeat(2, axis=0))


def test_a_viewer_shows_an_n5_that_became_sharded_ome_zarr(tmp_path: Path) -> None:
    write(tmp_path / "cells.n5", "n5", "zstd")
    copy(tmp_path / "cells.n5", tmp_path / "served", format="zarr3", shards=SHARDS)
    before = open_array(tmp_path / "cells.n5", "image/s0")
    base = open_array(tmp_path / "served", "image/s0")
    assert (base.chunks, base.shards) == ((5, 20, 25), SHARDS)
    with looking(tmp_path, "image", "zarr3") as shown:
        assert axes_of(shown) == in_metres(before, "zarr3")
        for level, data in enumerate(levels()):
            seen = picture(shown, before, "zarr3", level)
            np.testing.assert_array_equal(seen, data[PLANE].repeat(2, axis=0))


@pytest.mark.parametrize(
    ("form", "offset", "unit"),
    [
        ("n5", 0.0, "micrometer"),
        ("n5", 0.0, "\N{GREEK SMALL LETTER MU}m"),
        ("n5", 0.0, "\N{LATIN CAPITAL LETTER A WITH RING ABOVE}"),
    ],
)
def test_a_viewer_shows_a_dataset_whatever_its_unit_is_called(
    tmp_path: Path, form: str, offset: float, unit: str
) -> None:
    data = levels()[0]
    coords = {
        name: (name, offset + np.arange(size) * scale, {"units": unit})
        for (name, scale), size in zip(SCALES.items(), data.shape, strict=True)
    }
    raw = xr.DataArray(data, coords, ("z", "y", "x"), name="raw")
    raw.to_dataset().n5.to_n5(tmp_path / "served", format=form)
    array = open_array(tmp_path / "served", "raw")
    # In Zarr, the group describes the array.
    with looking(tmp_path, "raw" if form == "n5" else "", form) as shown:
        wanted = in_metres(array, form)
        assert axes_of(shown) == wanted
        np.testing.assert_array_equal(picture(shown, array, form), data[PLANE].repeat(2, axis=0))
    with xr.open_dataset(tmp_path / "served", engine="n5") as again:
        assert again["x"].attrs["units"] == unit
