"""The xarray engine."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
import xarray.testing.strategies as xrst
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.containers import NAMES
from tests.support.stores import CountingStore
from xarray_n5 import Axis, NodeNotFoundError, create_array, create_group, open_array, to_n5
from xarray_n5_engine import N5BackendEntrypoint

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(10 * 11 * 12, dtype="u2").reshape(10, 11, 12)
AXES = (
    Axis(name="z", unit="nm", scale=40.0, offset=100.0),
    Axis(name="y", unit="nm", scale=4.0),
    Axis(name="x", unit="nm", scale=4.0),
)


@pytest.fixture
def container(tmp_path: Path) -> Path:
    to_n5(VALUES, tmp_path / "v.n5", "em/raw", chunks=(4, 4, 4), axes=AXES, attributes={"by": "us"})
    return tmp_path / "v.n5"


def expected() -> xr.DataArray:
    """What the container's array is in memory."""
    coords = {
        "z": ("z", 100 + 40.0 * np.arange(10), {"units": "nm"}),
        "y": ("y", 4.0 * np.arange(11), {"units": "nm"}),
        "x": ("x", 4.0 * np.arange(12), {"units": "nm"}),
    }
    return xr.DataArray(VALUES, coords, ("z", "y", "x"), "raw", {"by": "us"})


# Opening


def test_an_array_opens_with_dimensions_coordinates_and_attributes(container: Path) -> None:
    dataset = xr.open_dataset(container, engine="n5", group="em/raw")
    xr.testing.assert_identical(dataset, expected().to_dataset())


def test_the_engine_is_found_without_its_name(container: Path) -> None:
    xr.testing.assert_identical(xr.open_dataset(container, group="em/raw")["raw"], expected())
    xr.testing.assert_identical(xr.open_dataarray(container / "em/raw"), expected())
    xr.testing.assert_identical(xr.open_dataarray(str(container), group="em"), expected())


def test_blocks_of_dask_are_the_stored_chunks(container: Path) -> None:
    lazy = xr.open_dataset(container, engine="n5", group="em", chunks={})["raw"]
    assert lazy.chunks == ((4, 4, 2), (4, 4, 3), (4, 4, 4))
    xr.testing.assert_identical(lazy.compute(), expected())
    double = xr.open_dataset(container, engine="n5", group="em", chunks={"z": 8})["raw"]
    assert double.chunks is not None
    assert double.chunks[0] == (8, 2)


def test_encoding_tells_where_the_array_came_from(container: Path) -> None:
    dataset = xr.open_dataset(container, engine="n5", group="em/raw")
    assert dataset.encoding["source"] == f"{container}/em/raw"
    encoding = dataset["raw"].encoding
    assert encoding["preferred_chunks"] == {"z": 4, "y": 4, "x": 4}
    assert (encoding["chunks"], encoding["dtype"]) == ((4, 4, 4), np.dtype("u2"))
    assert encoding["n5_compression"] == {"type": "gzip", "level": 6, "useZlib": False}
    keys = ("names", "units", "scale", "offset")
    assert encoding["dialect"] == dict.fromkeys(keys, "cosem: transform")


def test_invalid_values_of_options_are_refused_by_name(container: Path) -> None:
    def first(**options: Any) -> float:
        opened = xr.open_dataset(container, engine="n5", group="em/raw", **options)
        return float(opened["z"][0])

    assert first() == 100
    assert first(dialect="tensorstore") == 0
    for option in ("missing", "attribute_order", "dialect"):
        with pytest.raises(ValueError, match=option):
            first(**{option: "misspelt"})


@pytest.mark.parametrize("option", ["axis_order", "origin", "inherit", "label_multisets"])
def test_options_that_xarray_replaces_are_unknown(container: Path, option: str) -> None:
    options: Any = {option: True}
    with pytest.raises(TypeError, match=f"no parameter '{option}'"):
        xr.open_dataset(container, engine="n5", group="em/raw", **options)


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3", "hdf5"])
def test_a_level_of_a_container_with_nothing_but_a_pyramid_is_opened(
    tmp_path: Path, form: Any
) -> None:
    place = tmp_path / f"a.{form}"
    for level in range(2):
        to_n5(VALUES[:: 2**level], place, f"p/s{level}", format=form)
    inner = xr.open_dataset(place, engine="n5", group="p", level=1)
    xr.testing.assert_identical(xr.open_dataset(place, engine="n5", level=1).load(), inner.load())
    with pytest.raises(NodeNotFoundError, match="s0, s1"):
        xr.open_dataset(place, engine="n5", level=2)


@pytest.mark.parametrize("other", ["q/s0", "q"])
def test_groups_with_pyramids_are_named_where_a_level_is_missing(
    tmp_path: Path, other: str
) -> None:
    for path in ("p/s0", "p/s1", other):
        to_n5(VALUES, tmp_path / "a.n5", path)
    named = "p, q;" if "/" in other else "p;"
    with pytest.raises(NodeNotFoundError, match=f"pyramids in its groups {named} name one with gr"):
        xr.open_dataset(tmp_path / "a.n5", level=0)
    with pytest.raises(NodeNotFoundError, match="pyramids in its groups p"):
        xr.open_dataset(tmp_path / "a.n5", level={"dim_0": 4.0})


def test_arrays_of_one_group_share_a_dataset(container: Path) -> None:
    to_n5(VALUES * 2, container, "em/mask", chunks=(4, 4, 4), axes=AXES)
    dataset = xr.open_dataset(container, group="em")
    assert sorted(map(str, dataset.data_vars)) == ["mask", "raw"]
    np.testing.assert_array_equal(dataset["mask"], VALUES * 2)
    only = xr.open_dataset(container, group="em", drop_variables="mask")
    assert list(only.data_vars) == ["raw"]
    only = xr.open_dataset(container, group="em", drop_variables=["raw"])
    assert list(only.data_vars) == ["mask"]


def test_arrays_that_do_not_fit_together_are_told_apart_by_an_error(container: Path) -> None:
    to_n5(VALUES[:5], container, "em/half", axes=["z", "y", "x"])
    with pytest.raises(ValueError, match="group='em/"):
        xr.open_dataset(container, group="em")
    moved = (Axis(name="z", unit="nm", scale=40.0), *AXES[1:])
    to_n5(VALUES, container, "other/a", axes=AXES)
    to_n5(VALUES, container, "other/b", axes=moved)
    with pytest.raises(ValueError, match="coordinates 'z' differ"):
        xr.open_dataset(container, group="other")


def test_a_group_without_arrays_says_what_it_holds(container: Path) -> None:
    with pytest.raises(NodeNotFoundError, match="the group has em"):
        xr.open_dataset(container)
    with pytest.raises(NodeNotFoundError, match="'em' holds raw"):
        xr.open_dataset(container, group="em/nothing")


def test_attributes_of_a_group_are_the_datasets(container: Path) -> None:
    create_group(container, "em", mode="a", attributes={"sample": "fly"})
    assert xr.open_dataset(container, group="em").attrs == {"sample": "fly"}


def test_an_array_named_like_its_dimension_is_a_coordinate(tmp_path: Path) -> None:
    to_n5(np.arange(3.0), tmp_path / "v.n5", "x", attributes={"_ARRAY_DIMENSIONS": ["x"]})
    to_n5(np.ones(3), tmp_path / "v.n5", "v", attributes={"_ARRAY_DIMENSIONS": ["x"]})
    dataset = xr.open_dataset(tmp_path / "v.n5")
    assert list(dataset.coords) == ["x"]
    assert float(dataset["v"].sel(x=2.0)) == 1


def test_an_array_keeps_its_name_where_nobody_named_its_axes(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path / "v.n5", "x")
    to_n5(VALUES[0], tmp_path / "v.n5", "y")
    to_n5(VALUES[0, 0], tmp_path / "v.n5", "t")
    opened = xr.open_dataset(tmp_path / "v.n5")
    assert {name: variable.dims for name, variable in opened.data_vars.items()} == {
        "x": ("z", "dim_1", "dim_0"),
        "y": ("dim_1", "dim_0"),
        "t": ("dim_0",),
    }
    np.testing.assert_array_equal(opened["x"], VALUES)


def test_an_array_with_several_axes_one_named_like_it_opens(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path / "v.n5", "x", axes=["z", "y", "x"])
    assert list(xr.open_dataset(tmp_path / "v.n5").data_vars) == ["x_data"]


def test_foreign_attributes_are_kept_and_never_decoded(tmp_path: Path) -> None:
    odd = {
        "_FillValue": 0,
        "scale_factor": [4, 4],
        "coordinates": ["a"],
        "units": ["days since 2000-01-01"] * 3,
        "dtype": "bool",
    }
    to_n5(VALUES, tmp_path / "v.n5", "a", attributes=odd)
    opened = xr.open_dataset(tmp_path / "v.n5")["a"]
    assert opened.dtype == np.uint16
    assert opened.attrs == {k: v for k, v in odd.items() if k != "units"}
    assert opened["z"].attrs == {"units": "days since 2000-01-01"}
    np.testing.assert_array_equal(opened, VALUES)


def test_decoding_can_be_asked_for(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path / "v.n5", "a", attributes={"_FillValue": 0, "scale_factor": 2.0})
    opened = xr.open_dataset(tmp_path / "v.n5", mask_and_scale=True)["a"]
    assert np.isnan(opened[0, 0, 0])
    assert opened[0, 0, 1] == 2


def test_files_that_xarray_wrote_are_decoded_as_it_would(corpus: Path) -> None:
    place = corpus / "peers/xarray-2024.7.0-zarr2.18/cf.n5"
    dataset = xr.open_dataset(place)
    assert dataset["time"].dtype.kind == "M"
    assert dataset["temp"].dims == ("time", "lat", "lon")
    raw = xr.open_dataset(place, decode_cf=False)
    assert raw["time"].dtype.kind in "if"


# Indexing


@pytest.mark.skipif(not hasattr(xrst, "basic_indexers"), reason="this xarray has no indexers")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_way_to_index_equals_xarrays_own(data: st.DataObject) -> None:
    store = CountingStore()
    to_n5(VALUES, store, "a", chunks=(4, 5, 3))
    lazy = xr.open_dataset(store, engine="n5", group="a")["a"]  # type: ignore[arg-type]
    memory = xr.DataArray(VALUES, dims=lazy.dims, name="a")
    kinds: list[Any] = [
        xrst.basic_indexers,
        xrst.outer_array_indexers,
        xrst.vectorized_indexers,
    ]
    indexers = data.draw(st.one_of(*(kind(sizes=dict(memory.sizes)) for kind in kinds)))
    xr.testing.assert_identical(lazy.isel(indexers), memory.isel(indexers))


def test_lazy_indexing_reads_only_the_chunks_that_are_touched() -> None:
    store = CountingStore()
    to_n5(VALUES, store, "a", chunks=(4, 4, 4))
    lazy = xr.open_dataset(store, engine="n5", group="a", cache=False)["a"]  # type: ignore[arg-type]
    store.requests()
    points = {d: xr.DataArray([0, 9, 9], dims="p") for d in lazy.dims}
    for indexed, chunks in (
        (lazy[0, 0, 0], 1),
        (lazy[:4, 4:8, -1], 1),
        (lazy[3:5, 0, 0], 2),
        (lazy[[0, 9], 0, [11, 0]], 4),
        (lazy.isel(points), 2),
        (lazy.isel(z=slice(0, 0)), 0),
    ):
        indexed.load()
        seen = store.requests()
        reads = seen.pop("get", 0)
        batches = seen.pop("get_many", 0)
        store.counts.clear()
        assert seen == {}
        assert (reads, batches) in {(chunks, 0), (0, 1)}, indexed


def test_datasets_pickle_and_load_asynchronously(container: Path) -> None:
    opened = xr.open_dataset(container, group="em/raw")
    again = pickle.loads(pickle.dumps(opened))  # noqa: S301
    xr.testing.assert_identical(again["raw"], expected())
    loaded = asyncio.run(xr.open_dataset(container, group="em/raw").load_async())
    xr.testing.assert_identical(loaded["raw"], expected())


def test_missing_chunks_obey_their_option(container: Path) -> None:
    array = open_array(container, "em/raw", mode="r+")
    array.delete_chunk((0, 0, 0))
    assert xr.open_dataset(container, group="em/raw")["raw"][0, 0, 0] == 0
    with pytest.raises(LookupError, match="0/0/0"):
        xr.open_dataset(container, group="em/raw", missing="error")["raw"][0, 0, 0].load()


# Costs


REQUESTS: dict[str, tuple[Any, dict[str, int]]] = {
    # The hidden folder is listed, which has the records of unfinished writes.
    "open an array": (lambda s: open_array(s, "g/a"), {"get_many": 1, "list": 1}),
    "open its Dataset": (lambda s: opened(s, "g/a"), {"get_many": 1, "list": 1}),
    "open a group": (lambda s: opened(s, "g"), {"get_many": 2, "list": 2, "list_many": 1}),
    "read a chunk": (lambda s: open_array(s, "g/a").read_chunk((1, 0)), {"get": 1}),
    "read a part of a chunk": (lambda s: open_array(s, "g/a")[4:8, 1:3], {"get": 1}),
    "read many chunks": (lambda s: open_array(s, "g/a")[...], {"get_many": 1}),
    # Appends to the group are looked for where a chunk is at the end, and records of writes.
    "write whole chunks": (lambda s: write_part(s, slice(4, None)), {"list": 2, "set": 2}),
    "write a part": (lambda s: write_part(s, slice(3, 4)), {"list": 1, "get": 1, "set": 1}),
}
"""What is done with a store, and the requests that it makes besides those of opening an array."""


def opened(store: Any, group: str) -> xr.Dataset:
    return xr.open_dataset(store, engine="n5", group=group)


def write_part(store: Any, rows: slice) -> None:
    open_array(store, "g/a", mode="r+")[rows, :4] = 1


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_are_these(name: str) -> None:
    store = CountingStore()
    for letter in "abcdef":
        create_array(store, f"g/{letter}", shape=(9, 8), dtype="u2", chunks=(4, 4))[...] = 1
    run, expected = REQUESTS[name]
    store.requests()
    run(store)
    requests = store.requests()
    if "chunk" in name or "write" in name:
        requests = {key: n - (key in {"get_many", "list"}) for key, n in requests.items()}
    assert {key: n for key, n in requests.items() if n} == expected


def test_graphs_of_datasets_are_symbolic(tmp_path: Path) -> None:
    create_array(tmp_path / "x.n5", "a", shape=(17_200,) * 3, dtype="u1", chunks=(80, 80, 80))
    lazy = xr.open_dataset(tmp_path / "x.n5", group="a", chunks={}, inline_array=True)["a"]
    assert lazy.data.npartitions == 215**3
    assert not any(layer.is_materialized() for layer in lazy.data.dask.layers.values())
    assert len(pickle.dumps(lazy.data.dask)) < 20_000


# Guessing


def test_only_what_is_surely_n5_is_claimed(container: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/attributes.json").write_text("[")
    (tmp_path / "zarr.zarr").mkdir()
    container.rename(tmp_path / "renamed")
    (tmp_path / "v.n5/group").mkdir(parents=True)
    (tmp_path / "v.n5/x.zarr").mkdir()
    claimed = {
        str(tmp_path / "renamed"): True,
        str(tmp_path / "renamed/em/raw"): True,
        "s3://bucket/data.n5": True,
        "s3://bucket/data.n5/": True,
        str(tmp_path / "renamed/em"): False,
        str(tmp_path / "v.n5/group"): True,
        str(tmp_path / "v.n5/x.zarr"): False,
        str(tmp_path / "v.n5/nothing"): False,
        str(tmp_path / "empty"): False,
        str(tmp_path / "odd"): False,
        str(tmp_path / "zarr.zarr"): False,
        "s3://bucket/data": False,
        "x.h5": False,
    }
    guess = N5BackendEntrypoint().guess_can_open
    assert {name: guess(name) for name in claimed} == claimed
    assert guess(tmp_path / "renamed")
    for other in (3, None, b"x.n5", {"a": 1}):
        assert not guess(other)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("suffix", [".zarr", ".ome.zarr", ""])
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently")
def test_zarr_is_left_to_xarrays_own_engine(
    tmp_path: Path, version: Any, suffix: str, ours: bool
) -> None:
    place = tmp_path / f"image{suffix}"
    image = xr.Dataset({"em": (("y", "x"), np.arange(12.0).reshape(3, 4))})
    if ours:
        image.n5.to_n5(place, format=f"zarr{version}")
    else:
        image.to_zarr(place, zarr_format=version)
    guess = N5BackendEntrypoint().guess_can_open
    for url in (place, place / "em", place.with_name("none.zarr"), "s3://bucket/image.zarr"):
        assert not guess(url)
        assert not guess(str(url))
    if suffix == ".zarr":
        xr.testing.assert_identical(xr.open_dataset(place).load(), image)
        assert xr.open_dataset(place).encoding.get("source") == str(place)
    again = xr.open_dataset(place, engine="n5")
    xr.testing.assert_equal(again.load(), image)


def test_listing_engines_imports_their_module_alone() -> None:
    script = (
        "import sys, xarray\n"
        "before = set(sys.modules)\n"
        "assert {'n5', 'bdv'} <= {*xarray.backends.list_engines()}\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "ours = {name for name in new if name.startswith('xarray_n5')}\n"
        "print(*sorted(ours | new & {'dask', 'distributed', 'numcodecs', 'fsspec'}))"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["xarray_n5_engine"]


# Odd containers


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf", "zarr"])
def test_what_was_opened_can_be_written_by_xarrays_engines(
    container: Path, tmp_path: Path, engine: Any
) -> None:
    opened = xr.open_dataset(container, group="em/raw")
    if engine == "zarr":
        opened.to_zarr(tmp_path / "out", zarr_format=2)
    else:
        opened.to_netcdf(tmp_path / "out", engine=engine)
    with xr.open_dataset(tmp_path / "out", engine=engine) as again:
        np.testing.assert_array_equal(again["raw"], VALUES)


@pytest.mark.parametrize(
    "odd", [{"scale_factor": [4, 4]}, {"coordinates": ["a"]}, {"units": "days since nonsense"}]
)
def test_attributes_that_xarray_cannot_decode_only_warn(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    names = {"_ARRAY_DIMENSIONS": ["x"]}
    to_n5(np.arange(3), tmp_path / "v.n5", "odd", attributes={**names, **odd})
    to_n5(np.arange(3), tmp_path / "v.n5", "good", attributes={**names, "scale_factor": 2.0})
    with pytest.warns(UserWarning, match="'odd' is not decoded"):
        opened = xr.open_dataset(tmp_path / "v.n5")
    assert opened["good"].values.tolist() == [0, 2, 4]
    assert opened["odd"].values.tolist() == [0, 1, 2]


def test_one_array_that_cannot_be_read_does_not_hide_the_others(container: Path) -> None:
    (container / "em/bad").mkdir()
    (container / "em/bad/attributes.json").write_text(
        '{"dimensions":[1],"blockSize":[1],"dataType":"uint8","compression":{"type":"brotli"}}'
    )
    with pytest.warns(UserWarning, match="'bad' is left out: .*bad/attributes.json.*brotli"):
        assert list(xr.open_dataset(container, group="em").data_vars) == ["raw"]
    assert list(xr.open_dataset(container, group="em", drop_variables="bad").data_vars) == ["raw"]


def test_arrays_at_the_roots_of_containers_open_as_one(tmp_path: Path) -> None:
    for number in range(2):
        to_n5(np.full((1, 4), number, "u1"), tmp_path / f"t{number}.n5", axes=["t", "x"])
    places = [tmp_path / "t0.n5", tmp_path / "t1.n5"]
    many = xr.open_mfdataset(places, engine="n5", combine="nested", concat_dim="t", chunks={})
    assert many["data"].values.tolist() == [[0] * 4, [1] * 4]
    assert many["data"].dtype == np.uint8


def test_variables_are_dropped_by_the_names_that_they_have(tmp_path: Path) -> None:
    to_n5(VALUES, tmp_path / "v.n5", "x", axes=["z", "y", "x"])
    to_n5(VALUES, tmp_path / "v.n5", "x_data", axes=["z", "y", "x"])
    assert sorted(map(str, xr.open_dataset(tmp_path / "v.n5").data_vars)) == ["x_data", "x_data_"]
    dropped = xr.open_dataset(tmp_path / "v.n5", drop_variables="x_data_")
    assert list(dropped.data_vars) == ["x_data"]


def test_a_level_is_a_groups(container: Path) -> None:
    with pytest.raises(ValueError, match="level"):
        xr.open_dataset(container, group="em/raw", level=0)


# Trees


@pytest.fixture
def pyramid(tmp_path: Path) -> Path:
    """A volume of 8 x 16 x 16 with two smaller levels, by factors 1 and 2, then 1 and 4."""
    place = tmp_path / "p.n5"
    group = {"axes": ["x", "y", "z"], "units": ["nm"] * 3, "resolution": [4, 4, 40]}
    create_group(place, "em", attributes=group)
    values = np.random.default_rng(0).integers(0, 99, (8, 16, 16)).astype("u1")
    for level, factor in enumerate((1, 2, 4)):
        attributes = {"downsamplingFactors": [factor, factor, 1]}
        to_n5(values[:, ::factor, ::factor], place, f"em/s{level}", attributes=attributes)
    return place


def test_a_tree_has_a_node_for_each_array_and_one_for_each_group(pyramid: Path) -> None:
    tree = xr.open_datatree(pyramid, engine="n5", chunks={})
    assert list(tree.groups) == ["/", "/em", "/em/s0", "/em/s1", "/em/s2"]
    assert tree["em"].attrs["resolution"] == [4, 4, 40]
    assert tree["em/s1/em"].chunks is not None
    assert list(xr.open_groups(pyramid, group="em")) == ["/", "/s0", "/s1", "/s2"]
    one = xr.open_datatree(pyramid, group="em/s0", drop_variables="nothing")
    assert list(one.data_vars) == ["em"]


def test_directories_without_arrays_are_no_nodes(pyramid: Path) -> None:
    (pyramid / "empty/inner").mkdir(parents=True)
    assert "empty" not in xr.open_datatree(pyramid, engine="n5")
    (pyramid.parent / "nothing.n5").mkdir()
    assert list(xr.open_groups(pyramid.parent / "nothing.n5", engine="n5")) == ["/"]


def test_a_misspelt_option_of_a_tree_is_an_error(pyramid: Path) -> None:
    with pytest.raises(TypeError, match="position"):
        xr.open_datatree(pyramid, engine="n5", position="corner")


# Trees whose nodes do not align


def _misaligned(place: Path, inner: str = "em/s0") -> xr.Dataset:
    values = {"v": (("y", "x"), np.arange(12.0).reshape(3, 4)), "w": ("x", np.arange(4))}
    coords = {"x": [0.0, 2, 4, 6], "y": [0.0, 1, 2], "t": ("k", [1.0, 5, 7]), "mean": 3.5}
    whole = xr.Dataset(values, coords, {"title": "fly"})
    whole.n5.to_n5(place)
    made = create_array(place, inner, shape=(8, 8), dtype="u1", chunks=4, axes=["y", "x"])
    made[...] = 1
    return whole


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("where", ["/", "/a/b"])
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently")
def test_scalars_of_zarr_stay_in_the_dataset_of_their_group(
    tmp_path: Path, version: Any, where: str
) -> None:
    when = np.datetime64("2021-03-04T05:06:07", "ns")
    dataset = xr.Dataset(
        {"image": (("t", "x"), np.ones((2, 5), "f4")), "count": 7, "none": np.float64(np.nan)},
        {"t": when + np.array([0, 60], "m8[s]"), "start": when, "x": np.arange(5.0)},
    )
    tree = xr.DataTree.from_dict({where: dataset})
    tree.to_zarr(tmp_path / "a.zarr", zarr_format=version)
    opened = xr.open_datatree(tmp_path / "a.zarr", engine="n5").load()
    assert opened.groups == tree.groups
    xr.testing.assert_equal(opened, tree)
    only = xr.DataTree(dataset[["count"]].drop_vars(["start"]))
    only.to_zarr(tmp_path / "b.zarr", zarr_format=version)
    xr.testing.assert_equal(xr.open_datatree(tmp_path / "b.zarr", engine="n5").load(), only)


@pytest.mark.parametrize("name", NAMES.values())
def test_a_tree_opens_whose_arrays_do_not_align_with_the_dataset_above(
    tmp_path: Path, name: str
) -> None:
    whole = _misaligned(tmp_path / name)
    tree = xr.open_datatree(tmp_path / name, engine="n5")
    (inner,) = [node for node in tree.subtree if "s0" in node.data_vars]
    assert inner.dataset["s0"].shape == (8, 8)
    assert tree.attrs == whole.attrs
    for variable in whole.data_vars:
        node = tree[str(variable)].to_dataset()
        xr.testing.assert_identical(node[variable].load(), whole[variable])
    everything = {key for node in tree.subtree for key in node.dataset.variables}
    assert set(map(str, whole.variables)) <= set(map(str, everything))
    apart = xr.open_groups(tmp_path / name, engine="n5")
    xr.testing.assert_identical(apart["/"].load(), whole)


@pytest.mark.parametrize("names", [("s0", "s1"), ("0", "1")])
def test_levels_that_are_opened_together_are_known_by_their_names(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    for name, side in zip(names, (8, 4), strict=True):
        to_n5(np.ones((side, side), "u1"), tmp_path / "a.n5", f"em/{name}")
    with pytest.raises(ValueError, match="a level of a pyramid with level=0"):
        xr.open_dataset(tmp_path / "a.n5", engine="n5", group="em")
