"""Selections of stored arrays are recognised; values that were computed never are."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import cloudpickle
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.base import optimize
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xarray_n5
from tests.support.exhaustive import cases
from xarray_n5.boxes.sources import stored_source
from xarray_n5.dask.boxes import from_boxes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHAPE = (7, 9, 8)

OPENING: list[dict[str, Any]] = [
    {},
    {"cache": False},
    {"chunks": {}},
    {"chunks": {}, "inline_array": True},
    {"chunks": {"z": 3, "y": (4, 5)}},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    url = tmp_path_factory.mktemp("sources") / "a.n5"
    axes = [xarray_n5.Axis(name=name, unit="um", scale=2.0) for name in "zyx"]
    array = xarray_n5.create_array(url, "raw", shape=SHAPE, dtype="i2", chunks=(3, 4, 3), axes=axes)
    array[...] = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    for number in range(3):
        part = xarray_n5.create_array(
            url, f"stack/t{number:05d}/s00/0/cells", shape=SHAPE, dtype="i2", chunks=4
        )
        part[...] = array[...] + number
    return url


@st.composite
def slices(draw: st.DrawFn, size: int) -> slice:
    """Return any slice that leaves something."""
    ends = st.none() | st.integers(-size, size)
    found = slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, 3, -1, -2])))
    return found if range(size)[found] else slice(None)


def select(data: st.DataObject, array: xr.DataArray) -> xr.DataArray:
    items = {dim: data.draw(slices(size)) for dim, size in array.sizes.items()}
    return array.isel(items)


def select_one(data: st.DataObject, array: xr.DataArray) -> xr.DataArray:
    if not array.ndim:
        return array
    dim = data.draw(st.sampled_from(array.dims))
    size = array.sizes[dim]
    return array.isel({dim: data.draw(st.integers(-size, size - 1))})


def select_by_label(data: st.DataObject, array: xr.DataArray) -> xr.DataArray:
    if not array.ndim:
        return array
    dim = data.draw(st.sampled_from(array.dims))
    labels = sorted(data.draw(st.tuples(*(st.sampled_from(array[dim].values.tolist()),) * 2)))
    descends = array.sizes[dim] > 1 and bool(array[dim][0] > array[dim][-1])
    return array.sel({dim: slice(*(reversed(labels) if descends else labels))})


def transpose(data: st.DataObject, array: xr.DataArray) -> xr.DataArray:
    return array.transpose(*data.draw(st.permutations(array.dims)))


KEEPING = [select, select, select_one, select_by_label, transpose]


def compute(data: st.DataObject, array: xr.DataArray) -> xr.DataArray:
    changed: xr.DataArray = data.draw(
        st.sampled_from(
            [
                lambda: array + 1,
                lambda: array.astype("f4"),
                lambda: array.astype("i2") * 1,
                lambda: array.where(array > 9, 0),
                lambda: array.clip(3, 5),
                lambda: xr.concat([array, array], "new"),
                lambda: array.roll(dict.fromkeys(array.dims, 1)),
                array.cumsum,
                lambda: array.copy(data=array.data + 0),
            ]
        )
    )()
    return changed


@given(data=st.data(), how=st.sampled_from(OPENING), steps=st.integers(0, 4), late=st.booleans())
@settings(
    max_examples=cases(150, 3000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@pytest.mark.filterwarnings("ignore:The specified chunks separate")
def test_a_chain_of_selections_is_read_as_xarray_computes_it(
    folder: Path, data: st.DataObject, how: dict[str, Any], steps: int, late: bool
) -> None:
    array = xr.open_dataset(folder, engine="n5", group="raw", **how)["raw"]
    changed = False
    for _ in range(steps):
        if data.draw(st.integers(0, 9)) == 0:
            array, changed = compute(data, array), True
        before, array = array, data.draw(st.sampled_from(KEEPING))(data, array)
        if before.chunks is not None and array.data.name != before.data.name:
            changed = True  # by Dask, even if only sliced
    if late and array.chunks is None:
        array = array.chunk(4)
    source = stored_source(array)
    if changed:
        assert source is None
        return
    assert source is not None
    assert source.shape == array.shape
    box = tuple(data.draw(slices(size)) for size in array.shape)
    positions = tuple(np.arange(size)[item] for size, item in zip(array.shape, box, strict=True))
    wanted = array.isel(dict(zip(array.dims, box, strict=True))).values
    for found in (source.read(box), pickle.loads(pickle.dumps(source)).read(positions)):  # noqa: S301
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, wanted)


NOT_STORED: dict[str, Callable[[xr.DataArray], xr.DataArray]] = {
    "computed": lambda array: array.compute(),
    "loaded": lambda array: array.load(),
    "index array": lambda array: array.isel(z=[2, 0, 1]),
    "points": lambda array: array.isel({d: xr.DataArray([0, 1], dims="p") for d in "zy"}),
    "stacked": lambda array: array.stack(p=("z", "y")),
    "new axis": lambda array: array.expand_dims("c"),
}

NOT_STORED_IN_DASK: dict[str, Callable[[xr.DataArray], Any]] = {
    "persisted": lambda array: array.data.persist(),
    "optimised": lambda array: optimize(array.data)[0],
    "joined": lambda array: da.concatenate([array.data[:3], array.data[:4]]),
    "mapped": lambda array: array.data[::-1].map_blocks(np.negative),
    "sliced": lambda array: array.data[1:],
    "sliced in steps": lambda array: array.data[:, ::2],
    "transposed": lambda array: array.data.T,
    "rechunked": lambda array: array.data.rechunk(7),
    "rolled": lambda array: da.roll(array.data, 3, axis=0),
    "reshaped": lambda array: array.data.reshape(63, 8),
    "broadcast": lambda array: da.broadcast_to(array.data[:1], SHAPE),
}


@pytest.mark.parametrize("how", OPENING[:3])
@pytest.mark.parametrize("change", NOT_STORED)
def test_what_only_looks_stored_is_not(folder: Path, how: dict[str, Any], change: str) -> None:
    array = xr.open_dataset(folder, engine="n5", group="raw", **how)["raw"]
    assert stored_source(array) is not None
    assert stored_source(NOT_STORED[change](array)) is None


@pytest.mark.parametrize("change", NOT_STORED_IN_DASK)
def test_what_dask_has_changed_is_not_stored(folder: Path, change: str) -> None:
    array = xr.open_dataset(folder, engine="n5", group="raw", chunks={})["raw"]
    changed = NOT_STORED_IN_DASK[change](array)
    assert stored_source(xr.DataArray(changed)) is None


def test_an_array_that_was_assigned_to_is_not_stored(folder: Path) -> None:
    array = xr.open_dataset(folder, engine="n5", group="raw")["raw"]
    array[0, 0, 0] = 5
    assert stored_source(array) is None


def test_dask_arrays_from_stored_arrays_are_recognised(folder: Path) -> None:
    lazy = xarray_n5.from_n5(folder, "raw", chunks=(3, 4, -1))
    for array in (lazy, pickle.loads(pickle.dumps(lazy))):  # noqa: S301
        source = stored_source(xr.DataArray(array))
        assert source is not None
        np.testing.assert_array_equal(source.read((slice(1, 3),) * 3), lazy[1:3, 1:3, 1:3])


def test_persisted_values_are_kept_when_the_stored_array_changes(tmp_path: Path) -> None:
    array = xarray_n5.create_array(tmp_path / "a.n5", "raw", shape=(6, 6), dtype="u1", chunks=3)
    lazy = xarray_n5.from_n5(tmp_path / "a.n5", "raw")
    persisted = lazy.persist()
    array[...] = 1
    assert persisted.name == lazy.name
    found = xr.DataArray(persisted).n5.map_overlap(np.positive, depth=1)
    assert not found.any()


def test_an_array_with_other_blocks_than_its_layer_is_not_stored(folder: Path) -> None:
    lazy = xarray_n5.from_n5(folder, "raw")
    copy = da.Array(lazy.dask, lazy.name, ((3, 3), *lazy.chunks[1:]), lazy.dtype)
    assert stored_source(xr.DataArray(copy)) is None


def test_tokens_tell_selections_apart_and_are_those_of_the_array(folder: Path) -> None:
    def token(array: xr.DataArray) -> str:
        source = stored_source(array)
        assert source is not None
        return source.token

    first, second = (
        xr.open_dataset(folder, engine="n5", group="raw", **how)["raw"] for how in OPENING[1:3]
    )
    assert token(first) == token(second)
    lazy = xr.open_dataset(folder, engine="n5", group="raw")["raw"]
    assert token(first) == token(lazy) != token(lazy[1:]) == token(lazy[1:].chunk(4))
    several = [lazy, lazy.T, lazy[1:], lazy[0], lazy[::2], lazy[:, 1:]]
    assert len({token(each) for each in several}) == len(several)


def test_large_objects_are_sent_once() -> None:
    values = np.arange(10**5)

    def read(box: tuple[slice, ...]) -> np.ndarray:
        return values[box]

    found = from_boxes(read, ((10,) * 10**4,), "i8", "d")
    first, second = found.dask.layers
    assert (first, second) == ("original-boxes-d", "boxes-d")
    (optimised,) = optimize(found.blocks[7:9])
    tasks = dict(optimised.__dask_graph__())
    assert len(cloudpickle.dumps([t for key, t in tasks.items() if key != first])) < 10**4
    np.testing.assert_array_equal(found.compute(), values)
