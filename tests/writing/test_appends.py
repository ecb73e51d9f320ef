"""Appends that are killed, given up, or seen through consolidated metadata, in each format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
import xarray as xr

from tests.support.containers import FULL, NAMES
from tests.writing.test_promises import append, begin_series, check_series, kill
from tests.writing.test_readers import Steps
from xarray_n5 import ResumeError, open_array, open_group
from xarray_n5.errors import FinishedAppendError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")


def numbered(ids: list[int], names: list[str]) -> xr.Dataset:
    """Return an image with numbered channels that have names."""
    nm = {"units": "nm"}
    space = {"y": ("y", 4.0 * np.arange(4), nm), "x": ("x", 4.0 * np.arange(5), nm)}
    coords = {"channel": ids, "channel_name": ("channel", names), **space}
    return xr.Dataset({"a": (("channel", "y", "x"), np.ones((len(ids), 4, 5)))}, coords)


def consolidated(files: Mapping[str, bytes]) -> Iterator[tuple[str, set[int]]]:
    """Yield the keys of consolidated metadata, and the numbers of channels that they state."""
    for key, data in files.items():
        if key.endswith(".zmetadata"):
            nodes = json.loads(data)["metadata"]
            arrays = {k[: -len(".zarray")]: v for k, v in nodes.items() if k.endswith(".zarray")}
            dims = {k: nodes[f"{k}.zattrs"]["_ARRAY_DIMENSIONS"] for k in arrays}
        elif key.endswith("zarr.json") and "consolidated_metadata" in (group := json.loads(data)):
            nodes = group["consolidated_metadata"]["metadata"]
            arrays = {k: v for k, v in nodes.items() if v["node_type"] == "array"}
            dims = {k: v["dimension_names"] for k, v in arrays.items()}
        else:
            continue
        shapes = [zip(dims[name], array["shape"], strict=True) for name, array in arrays.items()]
        yield key, {size for shape in shapes for dim, size in shape if dim == "channel"}


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_consolidated_metadata_of_all_groups_grow_at_once(form: Any) -> None:
    store = Steps()
    root = xr.Dataset({"n": ("k", [1, 2])})
    movie = numbered([0, 1], ["red", "gree"])
    with dask.config.set(scheduler="sync"):
        xr.DataTree.from_dict({"/": root, "/run/movie": movie}).n5.to_n5(store, format=form)
        numbered([2], ["blue"]).n5.to_n5(store, "run/movie", append_dim="channel")
        store.states.clear()
        store.written.clear()
        numbered([5, 3], ["cyan", "pink"]).n5.to_n5(store, "run/movie", append_dim="channel")
    before, *later = [dict(consolidated(state)) for state in [*store.states, store.inner.items]]
    assert len(before) == 2
    assert set(map(frozenset, before.values())) == {frozenset({3})}
    assert all(sizes in ({3}, {5}) for state in later for sizes in state.values())
    assert later[-1] == {key: {5} for key in before}
    assert store.written[min(before, key=len)] == 1
    last = xr.open_dataset(store, engine="n5", group="run/movie")  # type: ignore[arg-type]
    assert last.channel_name.values.tolist() == ["red", "gree", "blue", "cyan", "pink"]


@FULL
@pytest.mark.parametrize("block", [(0, 0), (2, 0)])
def test_discarded_append_leaves_the_former_series(
    tmp_path: Path, form: str, block: tuple[int, ...]
) -> None:
    place = tmp_path / NAMES[form]
    begin_series(place, form, 5)
    kill(lambda: append(place, 5, 6), block)
    append(place, 40, 2, discard=True)
    assert open_array(place, "v").shape == (7, 4)
    check_series(place, *range(5), 40, 41)


@FULL
def test_notes_of_a_discarded_append_are_not_believed(tmp_path: Path, form: str) -> None:
    place = tmp_path / NAMES[form]
    begin_series(place, form, 3)
    kill(lambda: append(place, 3, 8), (3, 0))
    array = open_array(place, "w").node
    kill(lambda: append(place, 3, 8, discard=True), (0, 0))
    for index in list(array.stored_indices()):
        if index not in array.metadata.grid and form != "hdf5":
            array.delete([index])
    append(place, 3, 8, resume=True)
    check_series(place, *range(11))


@FULL
def test_append_to_arrays_that_have_grown_meanwhile_is_refused(tmp_path: Path, form: str) -> None:
    place = tmp_path / NAMES[form]
    begin_series(place, form, 6)
    kill(lambda: append(place, 6, 4), (1, 0))
    group = open_group(place, mode="r+")
    for name, array in group.arrays().items():
        group.container.resize(name, (9, *array.shape[1:]))
    with pytest.raises(ResumeError, match="'t' has changed its length"):
        append(place, 6, 4, resume=True)
    append(place, 30, 2, discard=True)
    series = xr.open_dataset(place, engine="n5").load()
    assert series.sizes["t"] == 11
    assert series["t"].values[[*range(6), 9, 10]].tolist() == [0, 1, 2, 3, 4, 5, 30, 31]
    np.testing.assert_array_equal(series["v"].values[9:], [[31] * 4, [32] * 4])


@FULL
def test_a_finished_append_has_its_samples_after_others_too(tmp_path: Path, form: Any) -> None:
    parts = [xr.Dataset({"v": ("t", np.full(count, count))}) for count in (3, 2, 4)]
    parts[0].n5.to_n5(tmp_path / NAMES[form], format=form)
    for part in parts[1:]:
        part.n5.to_n5(tmp_path / NAMES[form], append_dim="t", resume=True)
    for part, samples in zip(parts[1:], (slice(3, 5), slice(5, 9)), strict=True):
        with pytest.raises(FinishedAppendError) as finished:
            part.n5.to_n5(tmp_path / NAMES[form], append_dim="t", resume=True)
        assert finished.value.samples == samples


@pytest.mark.parametrize("form", ["n5", "zarr3"])
def test_region_of_a_dataset_leaves_out_empty_chunks(tmp_path: Path, form: str) -> None:
    place = tmp_path / NAMES[form]
    full = xr.Dataset({"v": ("x", np.arange(1, 13))})
    full.n5.to_n5(place, format=form, encoding={"v": {"chunks": 3}})
    empty = xr.Dataset({"v": ("x", np.zeros(6, int))})
    empty.n5.to_n5(place, region={"x": slice(3, 9)}, write_empty_chunks=False)
    array = open_array(place, "v")
    assert sorted(array.node.stored_indices()) == [(0,), (3,)]
    assert array[...].tolist() == [1, 2, 3, *[0] * 6, 10, 11, 12]
