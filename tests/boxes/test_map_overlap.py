"""map_overlap: results are those of Dask's, tasks read their own boxes only."""

from __future__ import annotations

import random
import warnings
from itertools import product
from typing import TYPE_CHECKING, Any

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.base import optimize

import xarray_n5
from tests.support.exhaustive import seeds
from tests.support.stores import ReadingStore
from xarray_n5.boxes.sources import stored_source

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")

FORMATS: dict[str, dict[str, Any]] = {
    "n5": {"format": "n5", "chunks": 3},
    "zarr2": {"format": "zarr2", "chunks": 4},
    "zarr3": {"format": "zarr3", "chunks": 2, "shards": 4},
    "hdf5": {"format": "hdf5", "chunks": 3},
}

NAMES = "zyx"


def stored(
    url: Path, values: np.ndarray, how: str = "n5", sides: Any = None, **opening: Any
) -> tuple[xr.DataArray, np.ndarray]:
    """Store values, in chunks of `sides`, and open them."""
    url = url.with_suffix(".h5") if how == "hdf5" else url
    options = FORMATS[how]
    if sides is not None:
        shards = {"shards": tuple(2 * side for side in sides)} if "shards" in options else {}
        options = {**options, "chunks": sides, **shards}
    dims = NAMES[-values.ndim :]
    array = xarray_n5.create_array(
        url, "raw", shape=values.shape, dtype=values.dtype, axes=list(dims), **options
    )
    array[...] = values
    opened = xr.open_dataset(url, engine="n5", group="raw", **opening)["raw"]
    return opened, values


def of_block(block: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Depend on all that a function may see: where each value is, and the size of the block."""
    weights = np.arange(block.size).reshape(block.shape) % 7
    return sum((each * (n + 1) for n, each in enumerate(others)), block * weights + block.size)


def local(reach: tuple[int, ...]) -> Any:
    """Return a function that sums the values within `reach`."""

    def total(block: np.ndarray, *others: np.ndarray) -> np.ndarray:
        block = sum(others, block)
        for axis, depth in enumerate(reach):
            padded = np.pad(block, [(depth * (i == axis),) * 2 for i in range(block.ndim)])
            size = block.shape[axis]
            parts = (padded.take(range(k, k + size), axis) for k in range(2 * depth + 1))
            block = sum(parts, np.zeros_like(block))
        return block

    return total


def some_slice(chance: random.Random, size: int) -> slice:
    start = chance.randrange(size)
    stop = chance.randrange(start + 1, size + 1)
    return chance.choice([slice(None), slice(start, stop), slice(start, stop, 2)])


def some_boundary(chance: random.Random) -> Any:
    return chance.choice(["none", None, "reflect", "nearest", "periodic", 0, 7])


@pytest.mark.parametrize("seed", seeds(10, 80))
def test_results_are_those_of_dask(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)  # noqa: S311
    ndim = chance.choice([1, 2, 2, 3])
    shape = tuple(chance.randint(3, 12) for _ in range(ndim))
    dtype = chance.choice(["u1", "i2", "u4", "f4", "f8"])
    numbers = np.random.default_rng(seed)
    values = numbers.integers(0, 90, shape).astype(dtype)
    opening: dict[str, Any] = chance.choice(
        [{}, {"chunks": {}}, {"chunks": {}, "inline_array": True}]
    )

    def store(name: str, values: np.ndarray, **opening: Any) -> xr.DataArray:
        sides = tuple(chance.randint(1, size) for size in shape)
        how = chance.choice(list(FORMATS))
        return stored(tmp_path / name, values, how, sides, **opening)[0]

    array = store("a.n5", values, **opening)
    arrays, wanted = [array], [values]
    if chance.random() < 0.3:
        more = numbers.integers(0, 9, shape).astype("u2")
        other = store("b.n5", more)
        arrays.append(other)
        wanted.append(more)
    key = {dim: some_slice(chance, size) for dim, size in array.sizes.items()}
    arrays = [each.isel(key) for each in arrays]
    wanted = [each[tuple(key.values())] for each in wanted]
    order = chance.sample(range(ndim), ndim)
    arrays = [each.transpose(*(NAMES[-ndim:][i] for i in order)) for each in arrays]
    wanted = [each.transpose(order) for each in wanted]
    shape = wanted[0].shape
    blocks = tuple(chance.randint(1, size) for size in shape)
    boundaries = {axis: some_boundary(chance) for axis in range(ndim)}
    depths: dict[int, Any] = {
        axis: chance.randrange(min(size, 4) + 1) for axis, size in enumerate(shape)
    }
    fits = all(
        b >= d and (s % b == 0 or s % b >= d)
        for b, d, s in zip(blocks, depths.values(), shape, strict=True)
    )
    if fits and chance.random() < 0.3:
        axis = chance.randrange(ndim)
        boundaries[axis], depths[axis] = "none", (depths[axis], chance.randrange(depths[axis] + 1))
    function = of_block if fits else local(tuple(depths.values()))
    by_name = chance.random() < 0.5
    dims = arrays[0].dims
    named: dict[str, Any] = {
        name: {dims[axis]: value for axis, value in given.items()} if by_name else given
        for name, given in (("depth", depths), ("boundary", boundaries))
    }
    ours = arrays[0].n5.map_overlap(function, *arrays[1:], chunks=blocks, **named)
    kinds = {axis: "none" if kind is None else kind for axis, kind in boundaries.items()}
    theirs = da.map_overlap(
        function,
        *(da.from_array(each, chunks=blocks) for each in wanted),
        depth=depths,
        boundary=kinds,
    )
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    in_boxes = all(stored_source(each) is not None for each in arrays)
    assert ours.data.name.startswith("map_overlap") == in_boxes
    np.testing.assert_array_equal(ours.values, theirs.compute())


@pytest.mark.parametrize("boundary", ["none", "reflect", 5])
def test_without_trimming_results_are_those_of_dask(boundary: Any, tmp_path: Path) -> None:
    array, values = stored(tmp_path / "a.n5", np.arange(60).reshape(6, 10))
    for function in (of_block, lambda block: block[1:-1, 1:-1]):
        ours = array.n5.map_overlap(function, depth=1, boundary=boundary, trim=False, chunks=(3, 5))
        theirs = da.map_overlap(
            function, da.from_array(values, chunks=(3, 5)), depth=1, boundary=boundary, trim=False
        )
        assert ours.chunks == theirs.chunks
        np.testing.assert_array_equal(ours.data.compute(), theirs.compute())


def info_of(block: np.ndarray, block_info: Any = None, block_id: Any = None) -> np.ndarray:
    """Put what Dask tells into the values."""
    if not block_info:
        return block
    told = [block_info[0]["array-location"], block_info[0]["shape"], block_info[0]["num-chunks"]]
    told += [block_info[0]["chunk-location"], block_id, block_info[None]["chunk-location"]]
    told += [block_info[None]["array-location"], block_info[None]["chunk-shape"]]
    told += [block_info[None]["shape"], str(block_info[None]["dtype"])]
    return block + sum(
        map(ord, repr([tuple(map(tuple, t)) if isinstance(t, list) else t for t in told]))
    )


@pytest.mark.parametrize("boundary", ["none", "reflect", {0: "none", 1: 3}])
@pytest.mark.parametrize("depth", [0, 1, {0: 2}, {0: (0, 2), 1: 1}])
def test_functions_get_the_block_info_of_dask(depth: Any, boundary: Any, tmp_path: Path) -> None:
    array, values = stored(tmp_path / "a.n5", np.arange(99).reshape(9, 11))
    if isinstance(depth, dict) and isinstance(depth[0], tuple) and boundary == "reflect":
        return
    how = {"depth": depth, "boundary": boundary}
    ours = array.n5.map_overlap(info_of, chunks=(3, 4), **how)
    theirs = da.map_overlap(info_of, da.from_array(values, chunks=(3, 4)), **how)
    np.testing.assert_array_equal(ours.values, theirs.compute())


DEPTHS: list[tuple[Any, Any]] = [
    ("2 um", {"y": 4, "x": 8}),
    ("1900nm", {"y": 4, "x": 8}),
    ("0.3 s", {"t": 3}),
    ({"x": "0.0005 mm", "t": 1}, {"x": 2, "t": 1}),
    ((0, "500 nm", ("0.25um", 0)), {"y": 1, "x": (1, 0)}),
    ({"y": ("0 um", "0.6 um")}, {"y": (0, 2)}),
]


@pytest.mark.parametrize(("depth", "samples"), DEPTHS)
def test_distances_are_the_samples_that_cover_them(depth: Any, samples: Any) -> None:
    image = timed_image()
    found = image.n5.map_overlap(lambda block: block + block.size, depth=depth)
    counted = image.n5.map_overlap(lambda block: block + block.size, depth=samples)
    xr.testing.assert_identical(found.compute(), counted.compute())


@pytest.mark.parametrize("depth", ["2", "2 kg", "wide", {"y": "2"}, {"y": "1 s"}, "-1 um"])
def test_distances_without_a_fitting_unit_raise(depth: Any) -> None:
    with pytest.raises(ValueError, match="depth"):
        timed_image().n5.map_overlap(np.abs, depth=depth)


def timed_image() -> xr.DataArray:
    steps = {"t": (0.1, "s"), "y": (-0.5, "um"), "x": (250, "nm")}
    coords = {
        dim: (dim, 3 + step * np.arange(12), {"units": unit}) for dim, (step, unit) in steps.items()
    }
    values = np.arange(12.0**3).reshape(12, 12, 12)
    return xr.DataArray(values, coords, tuple(steps), "image").chunk(6)


def test_a_depth_beyond_the_array_is_no_error(tmp_path: Path) -> None:
    array, values = stored(tmp_path / "a.n5", np.arange(5.0))
    seen = []

    def note(block: np.ndarray) -> np.ndarray:
        seen.append(block.tolist())
        return block

    for boundary, mode in (("reflect", "symmetric"), ("periodic", "wrap"), ("nearest", "edge")):
        seen.clear()
        found = array.n5.map_overlap(
            note, depth=7, boundary=boundary, chunks=5, dtype="f8", meta=np.empty(0)
        )
        assert found.values.tolist() == values.tolist()
        assert seen == [np.pad(values, 7, mode).tolist()]  # type: ignore[call-overload]


def test_one_task_computes_a_block(tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a.n5", np.zeros((12, 12, 12), "u1"))
    found = array.n5.map_overlap(of_block, depth=2, boundary="reflect", chunks=3)
    (optimised,) = optimize(found.data)
    assert len(dict(optimised.__dask_graph__())) == 4**3
    both = array.n5.map_overlap(of_block, array.isel(x=slice(None)), depth=1, chunks=4)
    (optimised,) = optimize(both.data + 1)
    assert len(dict(optimised.__dask_graph__())) == 3**3
    assert stored_source(found) is None


def test_selections_by_dask_have_the_same_result_at_more_tasks(tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a.n5", np.arange(12 * 11 * 10).reshape(12, 11, 10))
    key = {"z": slice(2, 11), "y": 4, "x": slice(None, None, 2)}
    how: dict[str, Any] = {"depth": {"z": 2, "x": 1}, "boundary": "reflect", "chunks": (3, 5)}
    lazy, sliced = array.isel(key).T.chunk(3), array.chunk(3).isel(key).T
    boxes, blocks = (each.n5.map_overlap(of_block, **how) for each in (lazy, sliced))
    assert len(boxes.data.dask.layers) == 1 < len(blocks.data.dask.layers)
    xr.testing.assert_identical(boxes.compute(), blocks.compute())


@pytest.mark.parametrize("boundary", ["none", "reflect", "nearest", "periodic", 3])
def test_a_task_reads_the_chunks_of_its_box_once_and_no_others(boundary: Any) -> None:
    store = ReadingStore()
    values = np.arange(24 * 20).reshape(24, 20)
    array = xarray_n5.create_array(store, "raw", shape=values.shape, dtype="i8", chunks=(4, 5))
    array[...] = values
    raw = xr.open_dataset(store, engine="n5", group="raw")["raw"].isel(y=slice(1, None))  # type: ignore[arg-type]
    found = raw.n5.map_overlap(of_block, depth={"y": 2, "x": 3}, boundary=boundary, chunks=(8, 10))
    for index in product(*map(range, found.data.numblocks)):
        block = found.data.blocks[index]
        store.keys.clear()
        block.compute(scheduler="sync")
        wanted = []
        for number, size, side, depth, halo in zip(
            index, (23, 20), (8, 10), (0, 0), (2, 3), strict=True
        ):
            box = np.arange(number * side - halo, min((number + 1) * side, size) + halo)
            mode = {"reflect": "symmetric", "nearest": "edge", "periodic": "wrap"}.get(
                str(boundary)
            )
            whole = np.arange(size)
            if mode is None:
                box = box[(box >= 0) & (box < size)]
            else:
                box = np.pad(whole, halo, mode)[box + halo]  # type: ignore[call-overload]
            wanted.append(box + depth)
        rows, columns = wanted
        chunks = set(product(((rows + 1) // 4).tolist(), (columns // 5).tolist()))
        read = [key for key in store.keys if not key.endswith(".json")]
        assert sorted(read) == sorted(f"raw/{x}/{y}" for y, x in chunks)


def test_a_million_blocks_are_one_layer(tmp_path: Path) -> None:
    array = xarray_n5.create_array(
        tmp_path / "a.n5", "raw", shape=(3200, 3200, 3200), dtype="u1", chunks=32
    )
    del array
    raw = xr.open_dataset(tmp_path / "a.n5", engine="n5", group="raw")["raw"]
    found = raw.n5.map_overlap(of_block, depth=1, chunks=32)
    assert found.data.npartitions == 10**6
    (layer,) = found.data.dask.layers.values()
    assert not layer.is_materialized()
    assert len(cloudpickle.dumps(found.data)) < 10**5


def test_default_blocks_read_less_than_half_as_much_again(tmp_path: Path) -> None:
    def blocks(depth: Any, **how: Any) -> tuple[int, ...]:
        lazy = raw.n5.map_overlap(of_block, depth=depth, dtype="u1", meta=np.empty(0, "u1"), **how)
        found: tuple[int, ...] = lazy.data.chunksize
        read = np.prod([min(n, b + 2 * depth) / b for b, n in zip(found, raw.shape, strict=True)])
        assert read < 1.5 or how or depth > 60
        assert all(b % 32 == 0 or b == n for b, n in zip(found, raw.shape, strict=True))
        assert lazy.encoding["chunks"] == (32, 32, 32)
        return found

    xarray_n5.create_array(tmp_path / "a.n5", "raw", shape=(4000, 4000, 500), dtype="u1", chunks=32)
    raw = xr.open_dataset(tmp_path / "a.n5", engine="n5", group="raw")["raw"]
    assert blocks(0) == (128, 96, 96)  # or they would be many and small
    assert blocks(8) == (128, 128, 96)
    with dask.config.set({"array.chunk-size": "1 MiB"}):
        small = raw.n5.map_overlap(of_block, depth=8, dtype="u1", meta=np.empty(0, "u1"))
        assert np.prod([b + 16 for b in small.data.chunksize]) <= 1 << 20
    assert blocks(8, chunks={"z": 64})[0] == 64
    assert blocks(1, chunks=(-1, 64, None))[:2] == (4000, 64)


def test_blocks_that_read_much_more_than_they_hold_warn(tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a.n5", np.zeros((40, 40, 40), "u1"))
    with pytest.warns(da.PerformanceWarning, match=r"read 8.0 times as many samples"):
        array.n5.map_overlap(of_block, depth=2, chunks=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array.n5.map_overlap(of_block, depth=2)


@pytest.mark.parametrize("boundary", ["none", "reflect", "periodic", {"y": 4}])
def test_arrays_that_were_computed_have_the_same_result(tmp_path: Path, boundary: Any) -> None:
    lazy, _ = stored(tmp_path / "a.n5", np.arange(130).reshape(10, 13), chunks={})
    how: dict[str, Any] = {"depth": {"x": 3, "y": 1}, "boundary": boundary, "chunks": (5, 5)}
    wanted = (lazy * 1).compute() * 0 + lazy.n5.map_overlap(of_block, **how).compute()
    sources = [
        lazy * 1,
        (lazy * 1).compute(),
        lazy.astype("i4").astype("i8"),
        lazy.isel(x=np.arange(13)),
    ]
    for source in sources:
        found = source.n5.map_overlap(of_block, **how)
        np.testing.assert_array_equal(found.compute(), wanted)
    both = lazy.n5.map_overlap(of_block, lazy.n5.map_overlap(np.negative, depth=0), **how)
    again = lazy.n5.map_overlap(of_block, -lazy, **how)
    np.testing.assert_array_equal(both.compute(), again.compute())
    with_info = (lazy * 1).n5.map_overlap(info_of, depth=1, chunks=(5, 4)).compute()
    np.testing.assert_array_equal(with_info, lazy.n5.map_overlap(info_of, depth=1, chunks=(5, 4)))


def test_results_keep_names_coordinates_attributes_and_chunks(tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a.n5", np.arange(48).reshape(6, 8), "zarr3")
    array = array.assign_attrs(units="counts").assign_coords(
        x=np.arange(8) * 0.5, row=("y", list("abcdef")), time=3
    )
    found = array.T.n5.map_overlap(of_block, depth=1, chunks=4)
    xr.testing.assert_identical(found.compute() * 0, array.T.compute() * 0 + 0 * found.compute())
    assert found.attrs == array.attrs
    assert found.encoding["chunks"] == (2, 2)
    assert found.encoding["shards"] == (4, 4)
    untrimmed = array.n5.map_overlap(lambda b: b[1:-1], depth={"y": 1}, boundary=0, trim=False)
    assert set(untrimmed.coords) == {"x", "time"}
    found.n5.to_n5(tmp_path / "b.zarr", format="zarr3")
    again = xr.open_dataset(tmp_path / "b.zarr", engine="n5")["raw"]
    assert again.encoding["shards"] == (4, 4)
    np.testing.assert_array_equal(again, found)


ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"depth": (1, 1, 1)}, ValueError, "expected one value for each of the dimensions"),
    ({"depth": {"t": 1}}, ValueError, "depth names 't', which is not a dimension"),
    ({"depth": {2: 1}}, ValueError, "depth names 2"),
    ({"depth": -1}, ValueError, "expected a whole number of samples"),
    ({"depth": 1.5}, ValueError, "expected a whole number of samples"),
    ({"depth": [1, 2]}, ValueError, "expected one item for each of the 1 arrays"),
    ({"depth": 1, "boundary": "mirror"}, ValueError, "boundary is 'mirror' along 'y'"),
    ({"depth": {"y": (1, 2)}, "boundary": 0}, NotImplementedError, "asymmetric"),
    ({"depth": 1, "boundary": 10**9}, OverflowError, "out of bounds"),
    ({"depth": 1, "chunks": {"t": 2}}, ValueError, "chunks names 't'"),
    ({"depth": 1, "chunks": 0}, xarray_n5.MetadataError, "expected a number of at least 1"),
    ({"depth": 1, "drop_axis": 0}, TypeError, "drop_axis cannot be used here"),
    ({"depth": 1, "as_dataarray": True}, TypeError, "as_dataarray cannot be used here"),
    ({"depth": 1, "weights": da.ones(3)}, TypeError, "weights is a Dask collection"),
]


@pytest.mark.parametrize(("how", "error", "message"), ERRORS)
def test_invalid_arguments_raise(
    how: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    array, _ = stored(tmp_path / "a.n5", np.zeros((6, 8), "i2"))
    with pytest.raises(error, match=message):
        array.n5.map_overlap(of_block, **how)


def test_arrays_that_do_not_fit_each_other_raise(tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a.n5", np.zeros((6, 8), "i2"))
    with pytest.raises(ValueError, match="different sizes"):
        array.n5.map_overlap(of_block, array[1:], depth=1)
    placed = array.assign_coords(x=np.arange(8))
    with pytest.raises(ValueError, match="different coordinates"):
        placed.n5.map_overlap(of_block, array.assign_coords(x=np.arange(8) + 1), depth=1)
    with pytest.raises(TypeError, match="expected one or more DataArrays"):
        xarray_n5.map_overlap(of_block, depth=1)
    with pytest.raises(TypeError, match="got ndarray"):
        xarray_n5.map_overlap(of_block, np.zeros(3), depth=1)  # type: ignore[arg-type]
    turned = array.n5.map_overlap(np.subtract, array.T, depth=1)
    assert not turned.any()


def test_a_result_of_another_shape_raises(tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a.n5", np.zeros((6, 8), "i2"))
    found = array.n5.map_overlap(lambda block: block[1:], depth=1, chunks=4, dtype="i2")
    with pytest.raises(ValueError, match=r"returned shape \(., 5\) for a block of \(., 5\)"):
        found.compute()


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda block: (block, block), "a tuple of 2"),
        (lambda block: xr.DataArray(block, dims=("y", "x")), "a DataArray"),
        (lambda _: None, "a NoneType"),
        (np.ndarray.tolist, "a list"),
    ],
)
def test_a_result_that_is_no_array_is_named(function: Any, what: str, tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a.n5", np.zeros((6, 8), "i2"))
    with pytest.raises(ValueError, match=f"returned {what}.*expected one NumPy array"):
        array.n5.map_overlap(function, depth=1)
    found = array.n5.map_overlap(function, depth=1, dtype="i2")
    with pytest.raises(TypeError, match=f"returned {what}.*expected one NumPy array"):
        found.compute()


def fails_late(block: np.ndarray) -> np.ndarray:
    if block.max() == 47:
        raise KeyError("nuclei")
    return block


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_an_error_of_the_function_names_its_block(scheduler: str, tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a.n5", np.arange(48).reshape(6, 8))
    found = array.n5.map_overlap(fails_late, depth=1, chunks=(4, 3), dtype="i8")
    with pytest.raises(KeyError, match="nuclei") as caught:
        found.data.compute(scheduler=scheduler)
    assert caught.value.__notes__ == [
        "in block (1, 2) of map_overlap, y=4:6, x=6:8 without its halo"
    ]


def test_views_of_stacked_arrays_are_sources(tmp_path: Path) -> None:
    for setup, timepoint in product(range(2), range(3)):
        path = f"setup{setup}/timepoint{timepoint}/s0"
        part = xarray_n5.create_array(tmp_path / "a.n5", path, shape=(5, 6), dtype="i2", chunks=4)
        part[...] = np.arange(30).reshape(5, 6) * (setup + 1) + timepoint
    (array,) = xr.open_dataset(tmp_path / "a.n5", engine="n5", level=0).data_vars.values()
    for each in (array.isel(setup=1), array.T.isel(t=slice(1, None))):
        found = each.n5.map_overlap(of_block, depth=1, boundary="nearest")
        assert stored_source(each) is not None
        assert found.data.name.startswith("map_overlap_of_block")
        blocks = da.from_array(each.values, chunks=found.chunks)
        theirs = da.map_overlap(of_block, blocks, depth=1, boundary="nearest")
        np.testing.assert_array_equal(found, theirs.compute())


@pytest.mark.parametrize("chunks", [None, {}])
def test_values_in_memory_are_given_to_dask_and_stored_ones_are_read(
    tmp_path: Path, chunks: Any
) -> None:
    xarray_n5.create_array(tmp_path / "a.n5", "a", shape=(8, 6), dtype="u1", chunks=2)[...] = 7
    raw = xr.open_dataset(tmp_path / "a.n5", engine="n5", group="a", chunks=chunks)["a"]
    function: Any = np.negative
    before = raw.n5.map_overlap(function, depth=1, boundary=0, chunks=4)
    assert len(before.data.dask.layers) == 1
    assert (raw.values == 7).all()
    after = raw.n5.map_overlap(function, depth=1, boundary=0, chunks=4)
    assert (len(after.data.dask.layers) == 1) == (chunks is not None)
    xr.testing.assert_identical(before.compute(), after.compute())
