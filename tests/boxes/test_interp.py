"""``.n5.interp`` and ``.n5.interp_like``: other grids, by blocks, as SciPy computes them whole."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
import xarray as xr
from scipy.interpolate import RegularGridInterpolator

import xarray_n5
from tests.support.exhaustive import seeds
from tests.support.stores import CountingStore
from xarray_n5.boxes.sources import stored_source
from xarray_n5.errors import NodeNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from distributed import Client

AXES = ("z", "y", "x")

Case = tuple[xr.DataArray, dict[str, np.ndarray]]


def coordinates(rng: np.random.Generator, count: int) -> np.ndarray:
    """Coordinates with an offset, which ascend or descend, evenly spaced or not."""
    steps = np.full(count - 1, rng.uniform(0.1, 5)) * (1 if rng.random() < 0.5 else -1)
    if rng.random() < 0.3:
        steps *= rng.uniform(0.5, 2, count - 1)
    return np.asarray(rng.uniform(-100, 100) + np.concatenate([[0], np.cumsum(steps)]))


def targets(rng: np.random.Generator, samples: np.ndarray) -> np.ndarray:
    """Coordinates of a target, partly outside of the samples or at them."""
    low, high, margin = samples.min(), samples.max(), np.ptp(samples) * rng.choice([0, 0.3])
    count = int(rng.integers(1, 30))
    found = np.sort(rng.uniform(low - margin, high + margin, count))
    at = rng.random(count) < 0.2
    found[at] = rng.choice(samples, at.sum())
    return rng.permutation(found) if rng.random() < 0.2 else np.sort(found)[:: rng.choice([-1, 1])]


def random_case(rng: np.random.Generator) -> Case:
    """An array of three axes, and the coordinates of a target along some of them."""
    shape = tuple(rng.integers(2, 24, 3).tolist())
    dtype = rng.choice(["u1", "i2", "u4", "f4", "f8"])
    lines = {dim: coordinates(rng, n) for dim, n in zip(AXES, shape, strict=True)}
    coords = {dim: xr.Variable(dim, line, {"units": "um"}) for dim, line in lines.items()}
    values = rng.uniform(0, 200, shape).astype(dtype)
    array = xr.DataArray(values, coords, AXES, "raw", {"made by": "a test"})
    chosen = [dim for dim in AXES if rng.random() < 0.8] or ["y"]
    return array, {dim: targets(rng, lines[dim]) for dim in chosen}


def scipy_interp(array: xr.DataArray, wanted: dict[str, np.ndarray], method: str) -> np.ndarray:
    """Interpolate the whole array by SciPy, NaN outside."""
    lines = [array[dim].values for dim in AXES]
    points = np.meshgrid(*(wanted.get(d, array[d].values) for d in AXES), indexing="ij")
    values, ordered = array.values.astype(float), []
    for axis, line in enumerate(lines):
        descends = line[0] > line[-1]
        values = np.flip(values, axis) if descends else values
        ordered.append(line[::-1] if descends else line)
    found = RegularGridInterpolator(ordered, values, method, bounds_error=False, fill_value=np.nan)
    return np.asarray(found(np.stack(points, -1)))


def stored(array: xr.DataArray, sides: tuple[int, ...], **how: Any) -> xr.DataArray:
    """The array, opened from a store that counts what is read."""
    store: Any = CountingStore()
    array.n5.to_n5(store, "em", encoding={"raw": {"chunks": sides}})
    opened = xr.open_dataset(store, engine="n5", group="em", **how)["raw"]
    store.chunks_read()
    return opened


KINDS: dict[str, Callable[[xr.DataArray, tuple[int, ...]], xr.DataArray]] = {
    "memory": lambda array, _: array,
    "stored": stored,
    "stored as Dask array": lambda array, sides: stored(array, sides, chunks={}),
    "stored, transposed": lambda array, sides: stored(array.T, sides).transpose(*AXES),
    "computed": lambda array, sides: stored(array, sides, chunks={}) + array.dtype.type(0),
}


@pytest.mark.parametrize("seed", seeds(6, 60))
@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_blocks_are_those_of_scipy_on_the_whole_array(seed: int, method: Any) -> None:
    rng = np.random.default_rng(seed)
    array, wanted = random_case(rng)
    kind = list(KINDS)[seed % len(KINDS)]
    source = KINDS[kind](array, tuple(rng.integers(2, 9, 3).tolist()))
    blocks = tuple(rng.integers(2, 12, 3).tolist())
    found = source.n5.interp(
        wanted, method, fill_value=None if method == "linear" else 3, chunks=blocks
    )
    expected = scipy_interp(array, wanted, method)
    if method == "nearest":
        expected = np.where(np.isnan(expected), 3, expected)
        assert found.dtype == array.dtype
    np.testing.assert_allclose(found.values, expected, rtol=1e-6, atol=1e-9)
    assert found.dims == array.dims
    assert found.name == "raw"
    assert found.attrs == {"made by": "a test"}
    for dim in AXES:
        assert found[dim].attrs == {"units": "um"}
        np.testing.assert_array_equal(found[dim], wanted.get(dim, array[dim]))
    if kind == "memory":
        assert found.chunks is None
    else:
        assert found.data.chunks == dask.array.core.normalize_chunks(blocks, found.shape)


@pytest.mark.parametrize("descends", [False, True])
@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_ties_and_ends_are_those_of_xarray(method: Any, *, descends: bool) -> None:
    line = np.arange(6.0)
    array = xr.DataArray(np.arange(36.0).reshape(6, 6), {"y": line, "x": line}, ("y", "x"), "raw")
    array = array[::-1] if descends else array
    grid = {"y": np.arange(-1, 7, 0.25), "x": np.arange(-0.5, 6, 0.5)}
    found = stored(array, (2, 3)).n5.interp(grid, method, chunks=3)
    xr.testing.assert_allclose(found.compute(), array.interp(grid, method=method), rtol=1e-12)


def test_labels_beyond_the_numbers_of_floats_are_kept() -> None:
    labels = xr.DataArray([2**63 + 1, 2**63 + 3], {"x": [0.0, 1.0]}, "x", "raw")
    found = labels.astype("u8").n5.interp(x=[0.1, 0.9, 2], method="nearest")
    assert found.values.tolist() == [2**63 + 1, 2**63 + 3, 0]


def rotated(rng: np.random.Generator) -> np.ndarray:
    """A matrix that rotates, shears, scales and moves an image."""
    linear = np.linalg.qr(rng.normal(size=(3, 3)))[0] @ np.diag(rng.uniform(0.5, 3, 3))
    linear = linear @ (np.eye(3) + np.triu(rng.uniform(-0.2, 0.2, (3, 3)), 1))
    return np.column_stack([linear, rng.uniform(-50, 50, 3)])


def view(values: np.ndarray, matrices: np.ndarray, dims: tuple[str, ...] = ()) -> xr.Dataset:
    """A Dataset with the matrices of its views, as a project has it."""
    coords = {dim: np.arange(n) * 2.0 for dim, n in zip(AXES, values.shape[-3:], strict=True)}
    array = xr.DataArray(values, coords, (*dims, *AXES)[-values.ndim :], "raw")
    facts = {
        "coordinates_start": [0.0, 0.0, 0.0],
        "coordinates_step": [2.0, 2.0, 2.0],
        "units": "um",
    }
    affine = xr.DataArray(matrices, dims=(*dims, "axis", "column"), attrs=facts)
    return array.to_dataset().assign_coords(affine=affine)


def opened_view(dataset: xr.Dataset, chunks: tuple[int, ...]) -> xr.Dataset:
    """The Dataset of a view with stored samples."""
    bare = dataset.drop_vars("affine")["raw"]
    return stored(bare, chunks).to_dataset().assign_coords(affine=dataset["affine"])


def world_target(
    rng: np.random.Generator, shape: tuple[int, ...], matrix: np.ndarray, count: int = 0
) -> Any:
    """World coordinates around and in an image."""
    corners = np.array(np.meshgrid(*((0, n - 1) for n in shape))).reshape(3, -1)
    world = matrix[:, :3] @ corners + matrix[:, 3:]
    low, high = world.min(1), world.max(1)
    counts = [count] * 3 if count else rng.integers(6, 14, 3)
    return {
        dim: xr.Variable(dim, np.linspace(a - 1, b + 1, n), {"units": "um"})
        for dim, a, b, n in zip(AXES, low, high, counts, strict=True)
    }


def at_matrix(values: np.ndarray, matrix: np.ndarray, target: Any, method: str) -> np.ndarray:
    """Interpolate a whole image at the positions of a target by SciPy."""
    square = np.vstack([matrix, [0, 0, 0, 1]])
    points = np.stack(np.meshgrid(*(target[d].values for d in AXES), indexing="ij"))
    positions = np.einsum("ij,jzyx->zyxi", np.linalg.inv(square)[:3, :3], points)
    positions += np.linalg.inv(square)[:3, 3]
    lines = [np.arange(n, dtype=float) for n in values.shape]
    whole = RegularGridInterpolator(
        lines, values.astype(float), method, bounds_error=False, fill_value=np.nan
    )
    return np.asarray(whole(positions))


@pytest.mark.parametrize("seed", seeds(6, 40))
@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_matrices_map_the_target_to_samples(seed: int, method: Any) -> None:
    rng = np.random.default_rng(1000 + seed)
    shape = tuple(rng.integers(2, 20, 3).tolist())
    values = rng.uniform(1, 200, shape).astype(rng.choice(["u1", "u2", "f4", "f8"]))
    matrix = rotated(rng)
    source = view(values, matrix)
    source = opened_view(source, (5, 6, 7)) if seed % 3 else source
    target = world_target(rng, shape, matrix)
    found = source.n5.interp(target, method, chunks=tuple(rng.integers(2, 8, 3).tolist()))["raw"]
    expected = at_matrix(values, matrix, target, method)
    if method == "nearest" and values.dtype.kind == "u":
        expected = np.nan_to_num(expected)
    np.testing.assert_allclose(found.values, expected, rtol=1e-6, atol=1e-6)
    assert set(found.coords) == set(AXES)


def test_samples_on_the_target_keep_their_values() -> None:
    values = np.random.default_rng(0).integers(0, 4096, (2, 5, 30, 40)).astype("u2")
    matrices = np.array([np.diag([2.0, 0.4, 0.4, 1])[:3]] * 2)
    matrices[0, :, 3] = [-7.999999999999998, -47.99999999999999, 44.400000000000006]
    source = xr.Dataset({"raw": (("setup", *AXES), values)})
    source["affine"] = (("setup", "axis", "column"), matrices, {"units": "um"})
    steps = {"z": (-8, 2.0, 5), "y": (-60, 0.4, 60), "x": (40, 0.4, 51)}
    target = {
        dim: xr.Variable(dim, start + step * np.arange(count), {"units": "um"})
        for dim, (start, step, count) in steps.items()
    }
    found = source.set_coords("affine").n5.interp(target)["raw"][0]
    np.testing.assert_array_equal(found[:, 30:, 11:], values[0])
    assert np.isnan(found[:, :30]).all()
    assert np.isnan(found[..., :11]).all()


@pytest.mark.parametrize("same", [False, True])
def test_each_view_has_a_matrix(*, same: bool) -> None:
    rng = np.random.default_rng(3)
    values = rng.random((2, 3, 6, 7, 8))
    matrices = np.array([rotated(rng) for _ in range(3)])
    matrices[1] = np.nan  # a view that is not registered
    if same:
        matrices = np.repeat(np.eye(3, 4)[None] * [2, 2, 2, 1], 3, axis=0)
    affine = xr.DataArray(matrices, dims=("setup", "axis", "column"), attrs={"units": "um"})
    array = xr.DataArray(values, dims=("t", "setup", *AXES), name="raw")
    source = stored(array, (1, 2, 4, 4, 4)).to_dataset().assign_coords(affine=affine)
    target = world_target(rng, (6, 7, 8), matrices[0])
    found = source.n5.interp(target, chunks={"z": 4, "setup": 2})["raw"]
    for t, setup in np.ndindex(2, 3):
        if np.isnan(matrices[setup]).any():
            assert found[t, setup].isnull().all()
        else:
            expected = at_matrix(values[t, setup], matrices[setup], target, "linear")
            np.testing.assert_allclose(found[t, setup].values, expected, atol=1e-9)
    assert found.dims == array.dims


def test_a_cropped_view_is_where_it_was() -> None:
    rng = np.random.default_rng(5)
    values = rng.random((9, 10, 11))
    matrix = rotated(rng)
    source = opened_view(view(values, matrix), (4, 4, 4))
    target = world_target(rng, values.shape, matrix, 20)
    whole = source.n5.interp(target)["raw"]
    parts = [
        source.isel(z=slice(2, 7), y=slice(1, None)),
        source.n5.crop(z=(4, 12), y=(2, None)),
    ]
    for part in parts:
        found = part.n5.interp(target)["raw"].values
        inside = ~np.isnan(found)
        assert inside.sum() > 100
        np.testing.assert_allclose(found[inside], whole.values[inside], atol=1e-9)


def test_a_variable_that_lost_its_matrix_is_not_placed() -> None:
    source = view(np.ones((4, 4, 4)), rotated(np.random.default_rng(0)))
    for dim in AXES:
        source[dim].encoding["frame"] = source.variables[dim].encoding["frame"] = "view"
    array = source["raw"]
    assert "affine" not in array.coords
    with pytest.raises(ValueError, match="use the methods of its accessor n5"):
        array.n5.interp(z=[1.0], y=[1.0], x=[1.0])
    with pytest.raises(ValueError, match="the array has no dimension z"):
        source.isel(z=0).n5.interp(y=[1.0], x=[1.0])
    with pytest.raises(ValueError, match="give z, y and x"):
        source.n5.interp(z=[1.0])
    with pytest.raises(ValueError, match=r"make a target with xarray_n5\.world_grid"):
        xr.DataArray(np.ones(3), {"z": [0.0, 1, 2]}, "z").n5.interp_like(array)


def test_an_image_with_a_matrix_in_its_attributes_is_placed_by_it() -> None:
    rng = np.random.default_rng(6)
    values = rng.random((6, 7, 8))
    matrix = rotated(rng)
    array = xr.DataArray(values, dims=AXES, attrs={"affine": matrix.ravel().tolist()}, name="raw")
    target = world_target(rng, values.shape, matrix)
    plain = {dim: each.values for dim, each in target.items()}
    expected = at_matrix(values, matrix, target, "linear")
    for source in (array, array.chunk(3)):
        found = source.n5.interp(plain, chunks=4)
        np.testing.assert_allclose(found.values, expected, atol=1e-9)
        assert "affine" not in found.attrs


@pytest.mark.parametrize("opening", [{}, {"chunks": {}}])
def test_a_selection_without_coordinates_has_no_place(
    tmp_path: Path, opening: dict[str, Any]
) -> None:
    transform = {"type": "affine", "affine": [1, 0.5, 0, 7, 0, 2, 0, 8, 0, 0, 3, 9]}
    attributes = {"spatialTransform": {"transform": transform, "unit": "um"}}
    stored = xarray_n5.create_array(
        tmp_path / "a.n5", "raw", shape=(4, 5, 6), dtype="f4", attributes=attributes
    )
    stored[...] = np.arange(120).reshape(4, 5, 6)
    whole = xr.open_dataset(tmp_path / "a.n5", engine="n5", group="raw", **opening)["raw"]
    at = {"z": [12.0], "y": [10.0], "x": [9.5]}  # the sample at 1, 1, 2
    np.testing.assert_allclose(whole.n5.interp(at).values.ravel(), [38])
    np.testing.assert_allclose(whole.T.n5.interp(at).values.ravel(), [38])
    part = whole.isel(y=slice(1, None))
    with pytest.raises(ValueError, match=r"this is a selection .* its place is not known"):
        part.n5.interp(at)
    with pytest.raises(ValueError, match="its place is not known"):
        part.to_dataset().n5.to_world([0, 0, 0])


def test_scipy_is_needed_by_matrices_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.ndimage", None)
    source = view(np.ones((4, 4, 4)), rotated(np.random.default_rng(0)))
    with pytest.raises(xarray_n5.errors.MissingPackageError, match=r"xarray-n5\[sampling\]"):
        source.n5.interp(z=[1.0], y=[1.0], x=[1.0])
    straight = view(np.arange(64.0).reshape(4, 4, 4), np.eye(3, 4))
    assert straight.n5.interp(z=[1], y=[1], x=[1.5])["raw"].values.item() == 21.5


def test_a_block_is_one_task_that_reads_its_box() -> None:
    store: Any = CountingStore()
    coords = {dim: np.arange(64.0) for dim in ("y", "x")}
    array = xr.DataArray(np.random.default_rng(0).random((64, 64)), coords, ("y", "x"), "raw")
    array.n5.to_n5(store, encoding={"raw": {"chunks": (8, 8)}})
    source = xr.open_dataset(store, engine="n5")["raw"]
    store.chunks_read()
    grid = {"y": np.linspace(-10, 70, 90), "x": np.linspace(0, 63, 80)}
    found = source.n5.interp(grid, chunks=(30, 20))
    assert store.chunks_read() == set()
    (graph,) = dask.base.optimize(found.data)
    assert len(graph.__dask_graph__()) == 3 * 4
    for row, column in np.ndindex(3, 4):
        found.data.blocks[row, column].compute(scheduler="sync")
        ends = [
            [c for c in line[at * side : (at + 1) * side] if 0 <= c <= 63]
            for line, at, side in ((grid["y"], row, 30), (grid["x"], column, 20))
        ]
        needed = [range(int(e[0]) // 8, int(np.ceil(e[-1])) // 8 + 1) for e in ends]
        assert store.chunks_read() == {(x, y) for x in needed[1] for y in needed[0]}
    outside = source.n5.interp(y=[64.0, 70], x=[0.0, 1])
    assert np.isnan(outside.values).all()
    assert store.chunks_read() == set()


def test_a_target_at_the_samples_reads_and_changes_no_more() -> None:
    store: Any = CountingStore()
    array = xr.DataArray([1, 2, 3, 4, np.nan, 6, 7, 8], {"x": 0.1 * np.arange(8)}, "x", "raw")
    array.n5.to_n5(store, encoding={"raw": {"chunks": (2,)}})
    source = xr.open_dataset(store, engine="n5")["raw"]
    store.chunks_read()
    found = source.n5.interp(x=[0.0, 0.1, 0.3, 0.5])
    assert found.values.tolist() == [1, 2, 4, 6]
    assert store.chunks_read() == {(0,), (1,), (2,)}
    np.testing.assert_array_equal(source.n5.interp_like(array), array)


def test_costs_do_not_grow_with_the_blocks(tmp_path: Path) -> None:
    axes = [xarray_n5.Axis(name=dim, scale=1.0) for dim in AXES]
    array = xarray_n5.create_array(
        tmp_path / "a.n5", shape=(10**4,) * 3, dtype="u1", chunks=64, axes=axes
    )
    assert array.shape[0] == 10**4
    source = xr.open_dataarray(tmp_path / "a.n5", engine="n5")
    found = source.n5.interp({d: np.arange(0, 9999, 1.5) for d in AXES}, chunks=64)
    assert found.data.npartitions > 10**6
    # The target's coordinates are one object, which all tasks share.
    layers = found.data.dask.layers.values()
    assert sum(len(layer) for layer in layers if layer.is_materialized()) <= 1
    assert len(pickle.dumps(found.data.dask)) < 10**6


def test_blocks_are_whole_chunks_of_the_target_and_small_enough(tmp_path: Path) -> None:
    shape, axes = (800, 800, 800), [xarray_n5.Axis(name=dim, scale=1.0) for dim in AXES]
    for name, side in (("raw", 60), ("labels", 64)):
        xarray_n5.create_array(
            tmp_path / "a.n5", name, shape=shape, dtype="u1", chunks=side, axes=axes
        )
    opened = xr.open_dataset(tmp_path / "a.n5", engine="n5")
    raw, labels = opened["raw"], opened["labels"]
    finer = labels.assign_coords({dim: labels[dim] / 2 for dim in AXES})
    found = raw.n5.interp_like(finer, "nearest")
    assert {side % 64 for sizes in found.data.chunksize for side in [sizes]} == {0}
    assert found.encoding["chunks"] == (64, 64, 64)
    assert 2**23 < found.data.blocks[0, 0, 0].nbytes <= 2**25
    coarser = raw.n5.interp({dim: np.arange(0, 800, 8.0) for dim in AXES})
    # A block of 60 needs a box of 480.
    assert coarser.data.chunksize == (60, 60, 60)
    assert raw.n5.interp_like(finer, chunks={"z": 7}).data.chunksize[0] == 7


def test_units_are_converted() -> None:
    x = xr.Variable("x", [0.0, 1.0, 2.0], {"units": "um"})
    source = xr.DataArray([0.0, 10, 20], {"x": x}, "x", "raw")
    grid = xr.Dataset(coords={"x": xr.Variable("x", [500.0, 1500.0], {"units": "nanometer"})})
    found = source.n5.interp_like(grid)
    assert found.values.tolist() == [5, 15]
    xr.testing.assert_identical(found.x.variable, grid.x.variable)
    for units in ({}, {"units": "s"}):
        other = grid.assign_coords(x=("x", [0.5], units))
        with pytest.raises(
            ValueError, match=r"the target for 'x' is .*, but the samples are in 'um'"
        ):
            source.n5.interp_like(other)
    plain = source.assign_coords(x=[0.0, 1, 2])
    with pytest.raises(ValueError, match="in 'nanometer', but the samples are without a unit"):
        plain.n5.interp_like(grid)


def test_axes_that_the_target_lacks_are_kept() -> None:
    array = xr.DataArray(
        np.arange(24.0).reshape(2, 3, 4),
        {"c": ["a", "b"], "x": np.arange(4.0), "t": 5, "name": ("t1", list("xyz"))},
        ("c", "t1", "x"),
        "raw",
    )
    found = array.n5.interp(x=[0.5, 1.5])
    xr.testing.assert_identical(found, array.interp(x=[0.5, 1.5]))
    xr.testing.assert_identical(array.n5.interp_like(found), found)
    line = array.n5.interp(x=1.5)
    xr.testing.assert_identical(line.drop_vars("x"), array.interp(x=1.5).drop_vars("x"))
    assert line.x.item() == 1.5


def test_a_dataset_is_interpolated_where_it_has_the_dimension() -> None:
    dataset = xr.Dataset(
        {"raw": ("x", [0.0, 2, 4]), "labels": ("x", [1, 2, 3]), "other": ("y", [1, 2])},
        {"x": [0.0, 1, 2], "more": ("x", list("abc")), "y": [5, 6]},
        {"title": "a"},
    )
    found = dataset.n5.interp(x=[0.5, 5.0], method="nearest", fill_value=7)
    assert found["raw"].values.tolist() == [0, 7]
    assert found["labels"].values.tolist() == [1, 7]
    assert found["labels"].dtype == dataset["labels"].dtype
    assert found["other"].identical(dataset["other"])
    assert list(found) == list(dataset)
    assert found.attrs == dataset.attrs
    assert set(found.coords) == {"x", "y"}
    assert dataset.n5.interp(x=1.0).sizes == {"y": 2}


@pytest.fixture
def pyramid() -> xr.DataTree:
    """Levels whose samples are 1, 2 and 4 um apart, with values that name the level."""
    levels = {}
    for level, step in enumerate((1.0, 2.0, 4.0)):
        coords = {
            dim: xr.Variable(dim, (step - 1) / 2 + step * np.arange(16 // step), {"units": "um"})
            for dim in AXES
        }
        sizes = [int(16 // step)] * 3
        levels[f"s{level}"] = xr.Dataset({"raw": (AXES, np.full(sizes, level))}, coords)
    return xr.DataTree.from_dict(levels)


@pytest.mark.parametrize(
    ("steps", "level"),
    [
        *[((1.0, 1, 1), 0), ((2, 2, 2), 1), ((3, 3, 3), 1), ((4, 4, 4), 2), ((9, 9, 9), 2)],
        *[((0.1, 9, 9), 0), ((2, 9, 9), 1), ((1.9999, 2, 2), 1)],
    ],
)
def test_a_pyramid_takes_the_coarsest_level_that_is_fine_enough(
    pyramid: xr.DataTree, steps: tuple[float, ...], level: int
) -> None:
    nm = {"units": "nm"}
    grid = xr.Dataset(
        coords={
            dim: xr.Variable(dim, 2000 + 1000 * step * np.arange(2), nm)
            for dim, step in zip(AXES, steps, strict=True)
        }
    )
    assert pyramid.n5.interp_like(grid)["raw"].max() == level
    assert pyramid.n5.interp(grid.coords)["raw"].max() == level
    for chosen in (2, "s2"):
        assert pyramid.n5.interp_like(grid, level=chosen)["raw"].max() == 2
        assert pyramid.n5.interp(grid.coords, level=chosen)["raw"].max() == 2


def test_a_pyramid_of_views_takes_a_level_by_its_matrices(pyramid: xr.DataTree) -> None:
    turned = np.array([[0.0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]])
    levels = {}
    for name, node in pyramid.children.items():
        z = node["z"].to_numpy()
        start, step = float(z[0]), float(z[1] - z[0])
        level = turned @ np.array(
            [[step, 0, 0, start], [0, step, 0, start], [0, 0, step, start], [0, 0, 0, 1]]
        )
        facts = {
            "coordinates_start": [start] * 3,
            "coordinates_step": [step] * 3,
            "units": "um",
        }
        affine = xr.DataArray(level, dims=("axis", "column"), attrs=facts)
        levels[name] = node.to_dataset().assign_coords(affine=affine)
    tree = xr.DataTree.from_dict(levels)
    for step, expected in ((1.0, 0), (3.0, 1), (4.0, 2)):
        grid = {dim: 2 + step * np.arange(3) for dim in AXES}
        assert tree.n5.interp(grid)["raw"].max() == expected


def test_a_tree_without_levels_is_refused(pyramid: xr.DataTree) -> None:
    with pytest.raises(NodeNotFoundError, match="the levels are s0, s1, s2"):
        pyramid.n5.interp(x=[1.0], level=7)
    with pytest.raises(ValueError, match="the tree has no levels"):
        xr.DataTree.from_dict({"em": pyramid}).n5.interp(x=[1.0])


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (lambda a: a, {"z": [1.0]}, "no dimension 'z'"),
        (lambda a: a, {"coords": {"xx": [1.0]}}, "did you mean 'x'"),
        (lambda a: a.drop_vars("x"), {"x": [1.0]}, "'x' has no coordinates"),
        (lambda a: a.assign_coords(x=[0, 2, 1]), {"x": [1.0]}, "neither ascend nor descend"),
        (lambda a: a, {"x": ["a"]}, "expected numbers"),
        (lambda a: a, {"x": [[1.0]]}, "expected numbers along one dimension"),
        (lambda a: a, {"x": xr.DataArray([1.0], dims="p")}, r"has the dimensions \('p',\)"),
        (lambda a: a, {"x": [1.0, np.nan]}, "not finite"),
        (lambda a: a, {"x": [1.0], "chunks": {"y": 3}}, "no dimension 'y'"),
        (lambda a: a, {"x": [1.0], "chunks": (3, 3)}, "expected one for each of the dimensions"),
        (lambda a: a, {"x": [1.0], "method": "cubic"}, "method is 'cubic'; expected 'linear' or"),
        (lambda a: a, {"x": [1.0], "method": "nearest", "fill_value": -1}, "fill_value is -1"),
    ],
)
def test_targets_that_have_no_meaning_are_refused(
    change: Callable[[xr.DataArray], xr.DataArray], arguments: dict[str, Any], message: str
) -> None:
    array = xr.DataArray(np.ones(3, "u1"), {"x": [0.0, 1, 2]}, "x", "raw")
    with pytest.raises(ValueError, match=message):
        change(array).n5.interp(**arguments)


def test_grids_that_cannot_be_compared_are_refused() -> None:
    array = xr.DataArray(np.ones(3), {"x": [0.0, 1, 2]}, "x", "raw")
    with pytest.raises(ValueError, match="'x' of the target has no coordinates"):
        array.n5.interp_like(array.drop_vars("x"))
    named = array.assign_coords(x=list("abc"))
    xr.testing.assert_identical(named.n5.interp_like(named), named)
    with pytest.raises(ValueError, match="are not numbers, and differ"):
        array.n5.interp_like(named)
    with pytest.raises(TypeError, match="has values of <U1; expected numbers"):
        xr.DataArray(list("abc"), {"x": [0.0, 1, 2]}, "x").n5.interp(x=[0.5])


def test_a_section_of_one_sample_is_there_and_nowhere_else() -> None:
    array = xr.DataArray([[5.0, 6.0]], {"z": [3.0], "x": [0.0, 1]}, ("z", "x"), "raw")
    found = array.n5.interp(z=[2.0, 3.0, 3.5], x=[0.5])
    np.testing.assert_array_equal(found.values, [[np.nan], [5.5], [np.nan]])


def test_tiles_are_fused_on_one_grid_in_blocks() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((12, 20))
    coords = {"y": np.arange(12.0), "x": np.arange(20.0)}
    whole = xr.DataArray(values, coords, ("y", "x"), "raw")
    tiles = [stored(whole[:, :12], (5, 5)), stored(whole[:, 8:], (5, 5))]
    grid = xarray_n5.world_grid(*tiles, spacing=0.5)
    fused = xr.concat([tile.n5.interp_like(grid) for tile in tiles], "tile").mean(
        "tile", skipna=True
    )
    xr.testing.assert_allclose(fused.compute(), whole.n5.interp_like(grid))


def test_a_project_is_put_on_a_grid_of_the_world(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 200, (2, 8, 9, 10)).astype("u2")
    dims = ("setup", "axis", "column")
    matrices = np.stack([rotated(rng), rotated(rng)])
    dataset = xr.Dataset(
        {"raw": (("setup", *AXES), values)},
        {
            "affine": (dims, matrices, {"units": "um"}),
            **{d: (d, np.arange(8.0 + i), {"units": "um"}) for i, d in enumerate(AXES)},
        },
    )
    dataset.n5.to_bdv(tmp_path / "dataset.xml")
    opened = xr.open_dataset(tmp_path / "dataset.xml", engine="bdv", group="s0")
    grid = xarray_n5.world_grid(opened, spacing=2.0)
    found = opened.n5.interp_like(grid, fill_value=-1)
    (name,) = found.data_vars
    assert found[name].dims == ("t", "tile", *AXES)
    for setup, matrix in enumerate(matrices):
        expected = at_matrix(values[setup], matrix, grid, "linear")
        assert np.isfinite(expected).sum() > 20
        np.testing.assert_allclose(
            found[name][0, setup], np.nan_to_num(expected, nan=-1), atol=1e-6
        )
    assert {"setup", "t"} <= set(found.coords)
    assert not {"affine", "registration"} & set(found.coords)


def test_views_are_put_on_the_grid_of_one_of_them(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 200, (2, 4, 5, 6)).astype("u2")
    matrices = np.array([np.eye(3, 4), np.eye(3, 4)])
    matrices[1, :, 3] = 1, 2, 3
    dataset = xr.Dataset(
        {"raw": (("setup", *AXES), values)},
        {
            "affine": (("setup", "axis", "column"), matrices, {"units": "um"}),
            **{d: (d, np.arange(4.0 + i), {"units": "um"}) for i, d in enumerate(AXES)},
        },
    )
    dataset.n5.to_bdv(tmp_path / "dataset.xml")
    both = xr.open_dataset(tmp_path / "dataset.xml", engine="bdv").isel(t=0)
    first = xr.open_dataset(tmp_path / "dataset.xml", engine="bdv", setup=0, timepoint=0)
    assert "axis" in first.dims
    found = both.n5.interp_like(first)["dataset"]
    np.testing.assert_array_equal(found[0], values[0])
    np.testing.assert_array_equal(found[1, 1:, 2:, 3:], values[1, :-1, :-2, :-3])


def test_a_view_along_its_axes_gets_coordinates_of_the_world() -> None:
    straight = np.array([[2.0, 0, 0, 10], [0, 1, 0, 20], [0, 0, 4, 30]])
    values = np.random.default_rng(0).random((4, 5, 6))
    source = view(values, straight).assign_coords(t=5).assign(label=("u", [1, 2]))
    found = source.n5.interp(z=xr.Variable("z", [11000.0, 12000.0], {"units": "nm"}))
    np.testing.assert_allclose(found["raw"], [values[:2].mean(0), values[1]])
    assert found.x.values.tolist() == [30, 34, 38, 42, 46, 50]
    assert found.x.attrs == {"units": "um"}
    assert set(found.variables) == {"raw", "label", "t", *AXES}


def test_packed_values_are_interpolated_lazily() -> None:
    store: Any = CountingStore()
    array = xr.DataArray(np.arange(40) / 4, {"x": np.arange(40.0)}, "x", "raw")
    packed = {"chunks": (4,), "dtype": "u1", "scale_factor": 0.25, "_FillValue": 255}
    array.n5.to_n5(store, encoding={"raw": packed})
    source = xr.open_dataset(store, engine="n5")["raw"].isel(x=slice(8, None))
    assert stored_source(source) is None
    store.chunks_read()
    found = source.n5.interp(x=np.arange(6.5, 20), chunks=5)
    assert store.chunks_read() == set()
    np.testing.assert_array_equal(found[:5], [np.nan, np.nan, 2.125, 2.375, 2.625])
    assert store.chunks_read() == {(2,)}


def test_an_interpolation_is_named_by_what_it_is_made_from() -> None:
    array = xr.DataArray(np.arange(8.0), {"x": np.arange(8.0)}, "x", "raw")
    source = stored(array, (2,))
    names = [
        source.n5.interp(x=x, method=method).data.name
        for method in ("linear", "nearest")
        for x in ([0.5, 1], [0.5, 2], [0.5, 1])
    ]
    assert names[0] == names[2]
    assert names[3] == names[5]
    assert len(set(names)) == 4


def test_a_result_is_stored_on_the_grid_of_its_target(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    coords = {dim: xr.Variable(dim, np.arange(12.0), {"units": "um"}) for dim in AXES}
    raw = xr.DataArray(rng.random((12, 12, 12)), coords, AXES, "raw")
    raw.n5.to_n5(tmp_path / "a.n5", "em", encoding={"raw": {"chunks": (5, 5, 5)}})
    labels = raw[::3, ::3, ::3].astype("u8").rename("labels")
    labels.n5.to_n5(tmp_path / "a.n5", "seg", encoding={"labels": {"chunks": (2, 2, 2)}})
    opened = [
        xr.open_dataarray(tmp_path / "a.n5", engine="n5", group=group) for group in ("em", "seg")
    ]
    found = opened[1].n5.interp_like(opened[0], "nearest")
    found.n5.to_n5(tmp_path / "b.n5", "seg", resume=True)
    again = xr.open_dataarray(tmp_path / "b.n5", engine="n5", group="seg")
    assert again.encoding["chunks"] == (5, 5, 5)
    xr.testing.assert_identical(again, found.compute())


@pytest.mark.parametrize(
    ("change", "sides"),
    [
        (lambda a: a.isel(t=0), (2, 4)),
        (lambda a: a.T, (4, 2, 1)),
        (lambda a: a.isel(t=1).T, (4, 2)),
        (lambda a: a.chunk(3).isel(t=0), (2, 4)),
        (lambda a: a.chunk(3).T, (4, 2, 1)),
        (lambda a: a.chunk(3).isel(t=1).T, (4, 2)),
    ],
)
def test_selections_have_the_chunks_that_they_are_from(
    change: Callable[[xr.DataArray], xr.DataArray], sides: tuple[int, ...]
) -> None:
    array = xr.DataArray(
        np.random.default_rng(0).random((2, 6, 8)),
        {"y": np.arange(6.0), "x": np.arange(8.0)},
        ("t", "y", "x"),
        "raw",
    )
    source = change(stored(array, (1, 2, 4)))
    grid = {"x": np.arange(0.25, 7, 0.5)}
    found = source.n5.interp(grid)
    assert found.encoding["chunks"] == sides
    xr.testing.assert_allclose(found.compute(), change(array).compute().interp(grid))


def test_a_target_without_samples_gives_an_array_without_samples() -> None:
    array = xr.DataArray(np.ones((3, 4)), {"y": np.arange(3.0)}, ("y", "x"), "raw")
    for source in (array, array.chunk(2), stored(array, (2, 2))):
        assert source.n5.interp(y=np.array([])).compute().shape == (0, 4)


def test_processes_compute_blocks(tmp_path: Path, cluster: Client) -> None:
    rng = np.random.default_rng(0)
    coords = {dim: np.arange(10.0) for dim in AXES}
    array = xr.DataArray(rng.random((10, 10, 10)), coords, AXES, "raw")
    array.n5.to_n5(tmp_path / "a.n5", encoding={"raw": {"chunks": (4, 4, 4)}})
    source = xr.open_dataset(tmp_path / "a.n5", engine="n5")
    grid = {dim: np.arange(0, 9, 0.5) for dim in AXES}
    turned = source.assign_coords(affine=(("axis", "column"), np.eye(3, 4)[::-1]))
    for dataset in (source, turned):
        found = dataset.n5.interp(grid, chunks=7)["raw"]
        values = cluster.compute(found.data).result()
        np.testing.assert_array_equal(values, found.values)
    np.testing.assert_allclose(values, array.interp(grid).values.transpose(), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_nearest_labels_reach_beyond_the_last_centres(kind: str) -> None:
    values = np.arange(1, 37, dtype="u4").reshape(6, 2, 3)
    coords: Any = {"z": np.arange(6) * 4.0 + 1.0, "y": [5.0, 3.0]}
    labels = KINDS[kind](xr.DataArray(values, coords, AXES, "raw"), (4, 2, 2))
    z, y = np.arange(12) * 2.0, np.arange(8.0)
    found = labels.n5.interp(z=z, y=y, method="nearest", fill_value="extrapolate")
    rows = np.abs(z[:, None] - coords["z"]).argmin(1)
    columns = np.abs(y[:, None] - np.array(coords["y"])[::-1]).argmin(1)
    np.testing.assert_array_equal(found.transpose(*AXES), values[rows][:, 1 - columns])
    assert found.dtype == "u4"
    np.testing.assert_array_equal(found["z"], z)
    assert not labels.n5.interp(z=z, y=y, method="nearest").isel(z=0).any()


def test_only_nearest_samples_along_coordinates_extrapolate() -> None:
    array = xr.DataArray(np.arange(3.0), {"x": np.arange(3.0)}, ("x",), "raw")
    for source in (array, array.to_dataset(), xr.DataTree.from_dict({"s0": array.to_dataset()})):
        with pytest.raises(ValueError, match=r"is for method='nearest'.* array\.interp\("):
            source.n5.interp(x=[-1.0, 4.0], fill_value="extrapolate")
        with pytest.raises(ValueError, match="is for method='nearest'"):
            source.n5.interp_like(array, fill_value="extrapolate")
    assert array.n5.interp(x=-1.0, method="nearest", fill_value="extrapolate") == 0
    assert array[:0].n5.interp(x=[1.0], method="nearest", fill_value="extrapolate").isnull()
    turned = view(np.ones((3, 4, 5)), rotated(np.random.default_rng(0)))
    with pytest.raises(ValueError, match="samples that no matrix places"):
        turned.n5.interp(z=[1.0], y=[1.0], x=[9.0], method="nearest", fill_value="extrapolate")
