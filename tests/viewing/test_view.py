"""Views in Neuroglancer: what they show, what they serve, and what they link."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import urllib.error
import urllib.request
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import click
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import xarray_n5
from tests.support.axes import with_axes
from tests.support.browser import viewer
from tests.support.projects import Setup, diagonal, project_xml, write_project
from tests.support.scenes import image_attributes, system, write_image, write_scene
from tests.support.servers import serving
from xarray_n5 import Axis, create_array, create_group, pyramid
from xarray_n5.cli import main
from xarray_n5.errors import MissingPackageError
from xarray_n5.viewing.layers import layers_of
from xarray_n5.viewing.server import _extent, _zoom, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def image(shape: tuple[int, ...] = (4, 6, 8), dtype: str = "uint8", **more: Any) -> xr.DataArray:
    steps = dict(zip(("z", "y", "x"), (2.0, 0.5, 0.25), strict=True))
    dims = ("z", "y", "x")[-len(shape) :]
    coords = {
        dim: (dim, 10.0 + steps[dim] * np.arange(size), {"units": "um"})
        for dim, size in zip(dims, shape, strict=True)
    }
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    return xr.DataArray(values, coords, dims, **{"name": "raw", **more})


@pytest.fixture
def served() -> Iterator[Any]:
    """A function that shows something, and returns the view and the state."""
    pytest.importorskip("neuroglancer", reason="Neuroglancer is not installed; ci/viewer does")
    views = []

    def show(source: Any, *args: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
        views.append(xarray_n5.view(source, *args, **options))
        return views[-1], views[-1].viewer.state.to_json()

    yield show
    for each in views:
        each.stop()


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310
        found: bytes = answer.read()
    return found


def root_of(state: dict[str, Any], layer: int = 0) -> str:
    """Where a layer's files are."""
    source = state["layers"][layer]["source"]
    url = source["url"] if isinstance(source, dict) else source
    assert url.endswith("/|zarr2:")
    return str(url.removesuffix("|zarr2:"))


# What needs no Neuroglancer


def test_without_neuroglancer_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neuroglancer.server", None)
    with pytest.raises(MissingPackageError, match=r"xarray-n5\[view\]"):
        image().n5.view()


@pytest.mark.parametrize(
    ("source", "options", "error", "fact"),
    [
        (xr.Dataset(), {}, ValueError, "nothing"),
        (xr.DataArray(np.zeros(4), dims="x", name="a"), {}, ValueError, "nothing"),
        (xr.DataArray(np.zeros((2, 3, 3)), dims=("c", "y", "x"))[:0], {}, ValueError, "nothing"),
        (image(dtype="f4").to_dataset(), {"labels": ["cells"]}, ValueError, "'cells'"),
        (image(dtype="f4"), {"labels": True}, ValueError, "'raw' has type float32"),
        (image(), {"link": True}, TypeError, "link"),
        (np.zeros((3, 3)), {}, TypeError, "ndarray"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is not shown")
def test_what_cannot_be_shown_is_refused(
    source: Any, options: dict[str, Any], error: type[Exception], fact: str
) -> None:
    with pytest.raises(error, match=fact):
        xarray_n5.view(source, **options)


@pytest.mark.parametrize(("form", "name"), [("n5", "a.n5"), ("zarr2", "a.zarr")])
def test_stored_data_is_linked(tmp_path: Path, form: Any, name: str) -> None:
    axes = [Axis(name=each, unit="um", scale=2) for each in "zyx"]
    data = np.arange(512, dtype="u2").reshape(8, 8, 8)
    pyramid(with_axes(data, axes), tmp_path / name, "em", factors=2, levels=1, format=form)
    create_array(tmp_path / name, "cells", shape=(8, 8, 8), dtype="u8", axes=axes)
    with serving(tmp_path) as url:
        found = xarray_n5.view(f"{url}/{name}", "em", link=True)
        page, _, state = found.url.partition("#!")
        assert page.startswith("https://neuroglancer-demo.appspot.com/")
        (layer,) = json.loads(unquote(state))["layers"]
        assert layer["source"] == f"{url}/{name}/em/|{form}:"
        assert layer["type"] == "image"
        assert not found.running
        found.stop()
        labels = xarray_n5.view(f"{url}/{name}", "cells", link=True)
        (layer,) = json.loads(unquote(labels.url.partition("#!")[2]))["layers"]
        expected = {"name": "cells", "source": f"{url}/{name}/cells/|{form}:"}
        assert layer == {**expected, "type": "segmentation"}


def test_local_files_and_urls_with_queries_cannot_be_linked(tmp_path: Path) -> None:
    create_array(tmp_path / "a.n5", "raw", shape=(8, 8), dtype="u1")
    with serving(tmp_path) as url:
        for location in (tmp_path / "a.n5", f"file://{tmp_path}/a.n5", f"{url}/a.n5?key=1"):
            with pytest.raises(ValueError, match="link=True"):
                xarray_n5.view(location, "raw", link=True)


def test_levels_are_served_as_chunks_of_zarr(tmp_path: Path) -> None:
    source = image((5, 70, 90), ">u2")
    pyramid(source, tmp_path / "a.n5", "em", factors=2, levels=1, chunks=(2, 16, 90))
    (layer,) = layers_of(xr.open_datatree(tmp_path / "a.n5", engine="n5", group="em"), None)
    documents = [layer.document(level) for level in (0, 1)]
    assert [document["shape"] for document in documents] == [[5, 70, 90], [2, 35, 45]]
    assert {document["dtype"] for document in documents} == {"<u2"}
    for level, document in enumerate(documents):
        wanted = np.asarray(layer.levels[level].data)
        sides = document["chunks"]
        counts = [-(-n // side) for n, side in zip(wanted.shape, sides, strict=True)]
        padded = np.zeros(np.multiply(counts, sides), "u2")
        padded[tuple(map(slice, wanted.shape))] = wanted
        for index in np.ndindex(*counts):
            box = tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, sides, strict=True))
            chunk = np.frombuffer(layer.chunk(level, index) or b"", "<u2").reshape(sides)
            np.testing.assert_array_equal(chunk, padded[box])
        assert layer.chunk(level, (9, 0, 0)) is None
    state = state_of([layer], ["http://host/0/|zarr2:"])
    assert state["dimensions"] == {"x": [2.5e-7, "m"], "y": [5e-7, "m"], "z": [2e-6, "m"]}
    # 10 um are 40, 20 and 5 samples; the middle ones are 45, 35 and 2 further.
    assert state["position"] == [85.0, 55.0, 7.0]
    assert state["layers"][0]["shaderControls"]["normalized"]["range"][0] > 0
    moves = [
        level["coordinateTransformations"][1]["translation"]
        for level in layer.attributes()["multiscales"][0]["datasets"]
    ]
    np.testing.assert_allclose(np.subtract(*moves[::-1]), [1e-6, 2.5e-7, 1.25e-7])


# What a view serves


@viewer
def test_a_state_has_names_units_and_a_place(served: Any) -> None:
    _, state = served(image())
    assert state["dimensions"] == {"x": [2.5e-7, "m"], "y": [5e-7, "m"], "z": [2e-6, "m"]}
    assert state["displayDimensions"] == ["x", "y", "z"]
    # 10 um are 40, 20 and 5 samples; the middle ones are 4, 3 and 2 further.
    assert state["position"] == [44.0, 23.0, 7.0]
    assert state["layout"] == "4panel"
    (layer,) = state["layers"]
    assert (layer["name"], layer["type"]) == ("raw", "image")
    assert layer["shaderControls"]["normalized"]["range"] == [96, 143]


@viewer
def test_nothing_is_served_without_the_token(served: Any) -> None:
    shown, state = served(image())
    root, token = root_of(state), shown.viewer.token
    assert token in shown.url
    assert len(token) == 40
    assert shown.url.startswith("http://127.0.0.1:")
    assert not shown.viewer.allow_credentials
    other = "0" * 40
    for path in (
        root.replace(token, other) + ".zattrs",
        shown.url.replace(token, other),
        root + "s9/.zarray",
        root + "s0/99.0.0",
        root + "s0/0.0",
        root + "../0/.zattrs",
        root.replace("/0/", "/7/") + ".zattrs",
    ):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(path)


@viewer
def test_requests_without_the_token_take_no_memory(served: Any) -> None:
    """Their bodies are refused."""
    shown, _ = served(image())
    port, token = urlsplit(shown.url).port or 0, shown.viewer.token

    def status(path: str, head: str, body: bytes = b"") -> bytes:
        """Return the first line of an answer, which comes before the body is complete."""
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n".encode() + body)
            with connection.makefile("rb") as answer:
                return answer.readline()

    for path in ("/state/none", "/action/none", "/", f"/state/{token[:-1]}", f"/v/x{token}/"):
        assert b" 400 " in status(path, "Content-Length: 70000000", b"{")
        assert b" 400 " in status(path, "Transfer-Encoding: chunked", b"4000000\r\n{")
    body = json.dumps({"action": "none", "state": {}}).encode()
    assert b" 200 " in status(f"/action/{token}", f"Content-Length: {len(body)}", body)


@viewer
def test_idle_connections_without_the_token_keep_nobody_out(served: Any) -> None:
    shown, _ = served(image())
    address = ("127.0.0.1", urlsplit(shown.url).port or 0)
    with ExitStack() as stack:
        for number in range(400):
            idle = stack.enter_context(socket.create_connection(address, timeout=60))
            if number % 2:  # a part of a request
                idle.sendall(b"GET /v/ HTTP/1.1\r\nHost: a\r\n")
        assert get(shown.url)


@viewer
@pytest.mark.parametrize("by_command", [False, True])
def test_a_browser_is_started_without_the_token_in_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Any, by_command: bool
) -> None:
    pages: dict[Path, str] = {}

    def launch(address: str) -> None:
        page = Path(url2pathname(urlsplit(address).path))
        pages[page] = page.read_text()
        if os.name == "posix":
            assert [each.stat().st_mode & 0o777 for each in (page, page.parent)] == [0o600, 0o700]

    monkeypatch.setattr(webbrowser, "open", launch)
    monkeypatch.setattr(click, "launch", launch)
    if by_command:
        create_array(tmp_path / "a.n5", "raw", shape=(8, 8), dtype="u1")
        command = ["view", str(tmp_path / "a.n5"), "raw", "--seconds", "0"]
        url = CliRunner().invoke(main, command).stdout.strip()
    else:
        shown, _ = served(image(), open=True)
        url = shown.url
        shown.stop()
    ((page, text),) = pages.items()
    assert text.count(f'{url}"') == 2
    assert urlsplit(url).path.split("/")[2] not in str(page)
    assert not page.parent.exists()


@viewer
def test_nothing_is_left_when_a_view_is_stopped(served: Any) -> None:
    del served
    before = set(threading.enumerate())
    with image().n5.view() as shown:
        root = root_of(shown.viewer.state.to_json())
        assert json.loads(get(root + ".zgroup")) == {"zarr_format": 2}
        assert shown.running
    assert not shown.running
    shown.stop()
    with pytest.raises(urllib.error.URLError):
        get(root + ".zgroup")
    assert set(threading.enumerate()) <= before


@viewer
def test_views_do_not_disturb_each_other(served: Any) -> None:
    first, one = served(image())
    _, two = served(image() + 1)
    assert root_of(one) != root_of(two)
    first.stop()
    assert get(root_of(two) + "s0/0.0.0")[0] == 1


@viewer
def test_a_notebook_shows_a_frame(served: Any) -> None:
    shown, _ = served(image())
    assert f'<iframe src="{shown.url}"' in shown._repr_html_()
    assert shown.url in repr(shown)


@viewer
def test_dask_computes_what_is_looked_at(served: Any) -> None:
    computed = []

    def block(block_info: Any = None) -> np.ndarray:
        location = block_info[None]["chunk-location"]
        computed.append(location)
        return np.full((200, 200, 200), sum(location), "u1")

    data = da.map_blocks(block, chunks=((200, 200),) * 3, dtype="u1")
    _, state = served(xr.DataArray(data, dims=("z", "y", "x")))
    # The contrast is that of the middle.
    middle = {(1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1)}
    assert set(computed) == middle
    computed.clear()
    root = root_of(state)
    assert json.loads(get(f"{root}s0/.zarray"))["chunks"] == [200, 200, 200]
    assert set(get(f"{root}s0/1.1.0")) == {2}
    assert set(get(f"{root}s0/0.1.0")) == {1}
    assert sorted(computed) == [(0, 1, 0), (1, 1, 0)]


@viewer
@pytest.mark.parametrize(
    ("dtype", "labels", "served_as"),
    [
        ("float64", None, "<f4"),
        ("float16", None, "<f4"),
        (">i2", None, "<i2"),
        ("bool", None, "|u1"),
        ("int64", None, "<f4"),
        ("uint64", None, "<u8"),
        ("int32", True, "<u8"),
    ],
)
def test_types_become_those_of_neuroglancer(
    served: Any, dtype: str, labels: bool | None, served_as: str
) -> None:
    _, state = served(image(dtype=dtype), labels=labels)
    assert json.loads(get(f"{root_of(state)}s0/.zarray"))["dtype"] == served_as
    kind = "segmentation" if labels or dtype == "uint64" else "image"
    assert state["layers"][0]["type"] == kind


@viewer
def test_every_variable_is_a_layer(served: Any) -> None:
    dataset = image().to_dataset().assign(cells=image(dtype="int32", name="cells"))
    dataset["times"] = ("t", [1.0, 2.0])
    _, state = served(dataset, labels=["cells"])
    layers = [(each["name"], each["type"]) for each in state["layers"]]
    assert layers == [("raw", "image"), ("cells", "segmentation")]


@viewer
def test_what_is_no_number_is_left_out_with_a_warning(served: Any) -> None:
    dataset = image().to_dataset()
    dataset["when"] = (("z", "y"), np.zeros((4, 6), "M8[ns]"))
    with pytest.warns(UserWarning, match="'when' is not shown"):
        _, state = served(dataset)
    assert [each["name"] for each in state["layers"]] == ["raw"]


@viewer
def test_channels_have_names_and_colours(served: Any) -> None:
    stack = xr.concat([image(), image()], xr.Variable("c", ["DAPI", "GFP"]))
    _, state = served(stack)
    assert [each["name"] for each in state["layers"]] == ["raw DAPI", "raw GFP"]
    assert [each["blend"] for each in state["layers"]] == ["additive"] * 2
    assert "#0000ff" in state["layers"][0]["shader"]
    assert "#00ff00" in state["layers"][1]["shader"]
    assert list(state["dimensions"]) == ["x", "y", "z"]
    channels = [{"color": "FF8000", "label": "DAPI"}, {"color": "0080ff", "label": "GFP"}]
    stack.attrs["omero"] = {"channels": [{"color": "(); //"}, {"color": "green"}]}
    assert served(stack)[1]["layers"][0]["shader"] == state["layers"][0]["shader"]
    stack.attrs["omero"] = {"channels": channels}
    _, state = served(stack)
    assert "#ff8000" in state["layers"][0]["shader"]


@viewer
def test_all_images_of_a_container_are_layers(tmp_path: Path, served: Any) -> None:
    axes = [Axis(name=each, unit="nm", scale=4) for each in "zyx"]
    data = np.zeros((8, 8, 8), "u1")
    pyramid(with_axes(data, axes), tmp_path / "a.n5", "em", factors=2, levels=1)
    create_group(tmp_path / "a.n5", "seg", attributes={"painteraData": {"type": "label"}})
    create_array(tmp_path / "a.n5", "seg/data", shape=(8, 8, 8), dtype="u4", axes=axes)
    create_array(tmp_path / "a.n5", "table", shape=(8,), dtype="f8")
    _, state = served(tmp_path / "a.n5")
    layers = [(each["name"], each["type"]) for each in state["layers"]]
    assert sorted(layers) == [("em", "image"), ("seg/data", "segmentation")]
    listed = json.loads(get(f"{root_of(state)}.zattrs"))["multiscales"][0]["datasets"]
    moved = [each["coordinateTransformations"][1]["translation"][0] for each in listed]
    assert moved == pytest.approx([0, 2e-9])


@viewer
def test_levels_that_are_listed_are_one_layer_wherever_they_are(
    tmp_path: Path, served: Any
) -> None:
    steps, names = {"scale0/image": 1, "scale1/image": 2}, ("y", "x")
    for name, step in steps.items():
        axes = [Axis(name=each, unit="um", scale=step, offset=(step - 1) / 2) for each in names]
        create_array(tmp_path / "a.n5", name, shape=(8 // step,) * 2, dtype="u1", axes=axes)
    listed = [{"axes": ["y", "x"], "datasets": [{"path": name} for name in steps]}]
    create_group(tmp_path / "a.n5", attributes={"multiscales": listed}, mode="a")
    _, state = served(tmp_path / "a.n5")
    assert len(state["layers"]) == 1
    (pyramid,) = json.loads(get(f"{root_of(state)}.zattrs"))["multiscales"]
    assert [each["path"] for each in pyramid["datasets"]] == ["s0", "s1"]


def test_all_layers_are_in_view_at_the_beginning() -> None:
    tiles = [{"x": (0.5, "m", 4.0, 8.0)}, {"x": (1.0, "m", 10.0, 8.0)}, {"t": (1.0, "s", 0.0, 3.0)}]
    assert _extent(tiles[:1], "x") == (0.5, "m", 4.0, 8.0)
    whole = _extent(tiles, "x")
    assert whole == (0.5, "m", 14.0, 28.0)  # from 0 to 14 m
    scales = [_zoom({"x": each}, ["x"])["crossSectionScale"] for each in (tiles[0]["x"], whole)]
    assert scales[1] / scales[0] == 28 / 8


def test_layers_in_other_units_do_not_change_the_extent() -> None:
    spaces = [{"x": (0.5, "m", 4.0, 8.0)}, {"x": (1.0, "", 100.0, 8.0)}]
    assert _extent(spaces, "x") == (0.5, "m", 4.0, 8.0)


@viewer
def test_views_that_lie_elsewhere_are_layers_with_transforms(tmp_path: Path, served: Any) -> None:
    setups = [Setup(id=i, attributes={"tile": i}) for i in range(2)]
    steps = {
        (t, each.id): [
            ("", diagonal((1, 1, 1), (0, 0, 10 * each.id))),
            ("calibration", diagonal((4, 1, 1))),
        ]
        for t in (0, 1)
        for each in setups
    }
    names = {"tile": {0: "left"}}
    _, state = served(write_project(tmp_path, setups, project_xml(setups, steps, names=names)))
    assert [each["name"] for each in state["layers"]] == ["project left", "project tile 1"]
    transforms = [each["source"]["transform"] for each in state["layers"]]
    rows = np.diag([1, 2, 0.5, 0.5])
    rows = np.concatenate([rows, np.zeros((4, 1))], axis=1)
    np.testing.assert_allclose(transforms[0]["matrix"], rows)
    rows[3, 4] = 5
    np.testing.assert_allclose(transforms[1]["matrix"], rows)
    assert transforms[0]["outputDimensions"]["x"] == [1e-6, "m"]


@viewer
def test_a_crop_of_a_project_stays_where_it_was(tmp_path: Path, served: Any) -> None:
    setups = [Setup(id=0)]
    steps = {
        (t, 0): [("", diagonal((1, 1, 1), (3, 2, 1))), ("calibration", diagonal((4, 1, 1)))]
        for t in (0, 1)
    }
    path = write_project(tmp_path, setups, project_xml(setups, steps))
    dataset: Any = xr.open_dataset(path, engine="n5", level=0)
    part = dataset.isel(z=slice(2, 5), x=slice(4, None, 2))
    _, state = served(part)
    matrix = np.array(state["layers"][0]["source"]["transform"]["matrix"])[-3:]
    for sample in [(0, 0, 0), (2, 3, 4)]:
        where = part.isel(t=0).n5.to_world(sample).reshape(3)
        np.testing.assert_allclose(matrix[:, -4:-1] @ sample + matrix[:, -1], where)


@viewer
def test_the_command_prints_the_url_and_stops(tmp_path: Path, served: Any) -> None:
    del served
    create_array(tmp_path / "a.n5", "raw", shape=(8, 8), dtype="u1")
    command = ["view", str(tmp_path / "a.n5"), "raw", "--no-browser", "--seconds", "0"]
    result = CliRunner().invoke(main, command)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("http://127.0.0.1:")


def test_the_command_reports_what_cannot_be_shown(tmp_path: Path) -> None:
    create_array(tmp_path / "a.n5", "table", shape=(8,), dtype="u1")
    result = CliRunner().invoke(main, ["view", str(tmp_path / "a.n5"), "--no-browser"])
    assert result.exit_code == 1
    assert "nothing to show" in result.stderr


@viewer
def test_a_view_at_all_addresses_has_a_url_for_other_machines() -> None:
    pytest.importorskip("neuroglancer")
    with xarray_n5.view(image(), address="0.0.0.0") as shown:  # noqa: S104
        assert "//localhost" not in shown.url
        assert "//0.0.0.0" not in shown.url


TURNED: list[list[float]] = [[1, 0, 0, 10], [0, 0.6, -0.8, 20], [0, 0.8, 0.6, 30]]


def a_scene(place: Path, axes: str, rows: list[list[float]], unit: str | None, differ: int) -> None:
    """Two images `a` and `b`, the second one as it is."""
    ends = [{"input": {"path": p, "name": "physical"}, "output": {"name": "world"}} for p in "ab"]
    edges = [{"type": "affine", "affine": rows} | ends[0], {"type": "identity"} | ends[1]]
    write_scene(place, edges, [system("world", axes, unit)])
    scale, offset = [2.0, 3.0, 0.5][-len(axes) :], [5.0, 6.0, 7.0][-len(axes) :]
    for n, path in enumerate("ab"):
        shape = [4, 6, 8 + n * differ][-len(axes) :]
        write_image(place, path, shape, image_attributes(axes, scale, offset, levels=2))


@pytest.mark.parametrize("unit", ["nanometer", None])
@pytest.mark.parametrize("differ", [0, 1])
def test_images_of_a_scene_are_layers_at_their_positions(
    tmp_path: Path, differ: int, unit: str | None
) -> None:
    a_scene(tmp_path / "s.zarr", "zyx", TURNED, unit, differ)
    layers = layers_of(xr.open_datatree(tmp_path / "s.zarr", engine="n5"), None)
    points = np.eye(4, 3)
    for layer, rows in zip(layers, (np.array(TURNED), np.eye(3, 4)), strict=True):
        assert len(layer.levels) == 2
        assert layer.matrix is not None
        expected = (points * [2, 3, 0.5] + [5, 6, 7]) @ rows[:, :-1].T + rows[:, -1]
        found = points @ layer.matrix[:, :-1].T + layer.matrix[:, -1]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert {dim.unit for dim in layer.dims} == {"m" if unit else ""}
        assert {dim.size for dim in layer.dims} == {1e-9 if unit else 1.0}


def test_flat_images_that_a_matrix_places_are_named(tmp_path: Path) -> None:
    a_scene(tmp_path / "s.zarr", "yx", [[0, -1, 3], [1, 0, 4]], "nanometer", 0)
    with pytest.warns(UserWarning, match="is shown where its coordinates say: a matrix places"):
        layers_of(xr.open_datatree(tmp_path / "s.zarr", engine="n5"), None)
