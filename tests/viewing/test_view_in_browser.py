"""What `view` shows in a real browser: each voxel where its coordinates or registrations say."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xarray_n5
from tests.support.axes import with_axes
from tests.support.browser import browsing, needs_chromium, viewer, watching
from tests.support.projects import Setup, diagonal, project_xml, write_project
from xarray_n5 import Axis, pyramid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [viewer, needs_chromium]

pytest.importorskip("neuroglancer", reason="Neuroglancer is not installed; ci/viewer installs it")

SCALES = {"z": 2.0, "y": 0.5, "x": 0.25}


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(9).integers(0, 256, shape, dtype="uint8")


@contextmanager
def looking(shown: Any, folder: Path) -> Iterator[Any]:
    """Show a view in a browser that has seen nothing else, and that reaches this machine only."""
    with (
        shown,
        watching() as (option, elsewhere),
        browsing(shown.url, folder / "browser", option),
    ):
        with shown.viewer.txn() as state:
            state.layout = "xy"
            state.show_axis_lines = False
            state.show_scale_bar = False
            state.show_default_annotations = False
            for layer in state.layers:
                if layer.type == "image":
                    layer.shader_controls = {"normalized": {"range": [0, 255]}}
        yield shown.viewer
        assert elsewhere == []


def picture(
    viewer: Any, places: Mapping[str, float], zoom: float, size: tuple[int, int], render: float = 1
) -> np.ndarray:
    """The screen around a place in metres or seconds, or in samples of dimensions without unit."""
    with viewer.txn() as state:
        sizes = zip(state.dimensions.names, state.dimensions.scales, strict=True)
        state.position = [places[name] / scale for name, scale in sizes]
        state.cross_section_scale = zoom
        for layer in state.layers:
            layer.layer.cross_section_render_scale = render
    pixels = viewer.screenshot(size=list(size)).screenshot.image_pixels
    found: np.ndarray = pixels[..., :3]
    return found


def middle(array: xr.DataArray, index: int, dim: str = "z") -> dict[str, float]:
    """The places of the middle of a section, in metres."""
    places = {str(name): float(array[name].mean()) * 1e-6 for name in ("y", "x")}
    return {**places, dim: float(array[dim][index]) * 1e-6} if dim in array.dims else places


def test_a_pyramid_is_shown_at_all_levels(tmp_path: Path) -> None:
    axes = [Axis(name=n, unit="micrometer", scale=s, offset=7 * s) for n, s in SCALES.items()]
    data, factors = noise(12, 96, 64), {"y": 2, "x": 2}
    pyramid(with_axes(data, axes), tmp_path / "a.n5", "image", factors=factors, levels=2, chunks=20)
    tree: Any = xr.open_datatree(tmp_path / "a.n5", engine="n5")
    with looking(xarray_n5.view(tmp_path / "a.n5", "image"), tmp_path) as shown:
        for level in range(3):
            image, by = tree[f"image/s{level}/image"], 2**level
            # Samples along y are twice as far from each other as those along x.
            size = (64 // by, 2 * 96 // by)
            seen = picture(shown, middle(tree["image/s0/image"], 5), by, size, by)
            np.testing.assert_array_equal(seen[..., 1], image[5].values.repeat(2, axis=0))


def test_a_result_that_is_stored_nowhere_lies_at_its_coordinates(tmp_path: Path) -> None:
    data = noise(8, 40, 48)
    coords = {
        "z": ("z", 100.0 + 2 * np.arange(8), {"units": "um"}),
        "y": ("y", 30.0 - 0.5 * np.arange(40), {"units": "um"}),
        "x": ("x", -3.0 + 0.5 * np.arange(48), {"units": "um"}),
    }
    source = xr.DataArray(da.from_array(data, chunks=(3, 17, 20)), coords, ("z", "y", "x"))
    result = 255 - source[:, 4:]
    with looking(result.n5.view(), tmp_path) as shown:
        seen = picture(shown, middle(result, 6), 1, (48, 36))
        # Neuroglancer draws y downwards; these coordinates fall.
        np.testing.assert_array_equal(seen[..., 0], 255 - data[6, 4:][::-1])


def test_labels_have_a_colour_each(tmp_path: Path) -> None:
    labels = np.random.default_rng(1).integers(1, 9, (4, 6, 8)).astype("uint64").repeat(3, axis=2)
    coords = {
        n: (n, s * np.arange(k), {"units": "um"})
        for n, s, k in zip("zyx", (1, 1, 1), labels.shape, strict=True)
    }
    array = xr.DataArray(labels, coords, ("z", "y", "x"), name="cells")
    with looking(array.n5.view(), tmp_path) as shown:
        seen = picture(shown, middle(array, 2), 1, (24, 6))
    colors = {tuple(color) for color in seen.reshape(-1, 3).tolist()}
    pairs = {
        (n, tuple(c)) for n, c in zip(labels[2].ravel(), seen.reshape(-1, 3).tolist(), strict=True)
    }
    assert len(colors) == len(pairs) == len(np.unique(labels[2]))


def test_channels_of_a_project_lie_where_they_are_registered(tmp_path: Path) -> None:
    setups = [Setup(id=i, attributes={"channel": i}, dtype="u1") for i in range(2)]
    turn = [[1, 0, 0, 0], [0, 0.8, 0.6, 0], [0.1, -0.6, 0.8, 0]]
    moved = [diagonal((1, 1, 1), (3, 5 + 4 * each.id, -7)) for each in setups]
    steps = {
        (t, each.id): [("turned", turn), ("", moved[each.id]), ("calibration", diagonal((4, 1, 1)))]
        for t in (0, 1)
        for each in setups
    }
    names = {"channel": {0: "GFP", 1: "RFP"}}
    path = write_project(tmp_path, setups, project_xml(setups, steps, names=names))
    project: Any = xr.open_dataset(path, engine="n5", level=0)
    with looking(xarray_n5.view(path), tmp_path) as shown:
        assert [layer.name for layer in shown.state.layers] == ["project GFP", "project RFP"]
        for channel, t, z, y, x in [
            (0, 0, 2, 3, 4),
            (1, 0, 5, 11, 15),
            (0, 1, 3, 7, 2),
            (1, 1, 0, 0, 9),
        ]:
            with shown.txn() as state:
                for number, layer in enumerate(state.layers):
                    layer.visible = number == channel
            view = project.isel(t=t, channel=channel)
            place = dict(zip("zyx", view.n5.to_world((z, y, x)) * 1e-6, strict=True))
            seen = picture(shown, {**place, "t": t}, 0.02, (5, 5), 0.01)
            value = int(view["project"][z, y, x])
            assert seen[2, 2].tolist() == ([0, value, 0], [value, 0, 0])[channel]


def test_a_picture_without_units_is_shown(tmp_path: Path) -> None:
    data = noise(30, 50)
    with looking(xr.DataArray(data, dims=("y", "x")).n5.view(), tmp_path) as shown:
        seen = picture(shown, {"y": 14.5, "x": 24.5}, 1, (50, 30))
        np.testing.assert_array_equal(seen[..., 2], data)


def test_a_series_has_sliders_and_channels_that_are_added(tmp_path: Path) -> None:
    data = noise(3, 3, 4, 20, 30)
    coords: Any = {
        "t": ("t", 10.0 + 5 * np.arange(3), {"units": "s"}),
        "c": ["RFP", "GFP", "DAPI"],  # red, green, blue
        **{
            n: (n, s * np.arange(k), {"units": "um"})
            for n, s, k in zip("zyx", (2, 1, 1), data.shape[2:], strict=True)
        },
    }
    series = xr.DataArray(data, coords, ("t", "c", "z", "y", "x"), name="series")
    series.to_dataset().n5.to_n5(tmp_path / "a.zarr", format="zarr2")
    with looking(xarray_n5.view(tmp_path / "a.zarr"), tmp_path) as shown:
        for t, z in [(0, 1), (2, 3)]:
            places = {**middle(series, z), "t": 10.0 + 5 * t}
            seen = picture(shown, places, 1, (30, 20))
            np.testing.assert_array_equal(seen, np.moveaxis(data[t, :, z], 0, -1))
