"""More of a Dataset behind what is stored, or into a part of it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xarray_n5
from tests.datasets.test_write import again, days
from tests.support.containers import contents
from tests.support.exhaustive import cases
from xarray_n5.errors import AlignmentError


@pytest.mark.parametrize("chunked", [False, True])
def test_appending_equals_concatenating(tmp_path: Path, chunked: bool) -> None:
    first, second = days(0, 5), days(5, 7)
    first.n5.to_n5(tmp_path, "g", encoding={"count": {"chunks": (2, 4)}})
    second = second.chunk(time=3) if chunked else second
    second.n5.to_n5(tmp_path, "g", append_dim="time")
    expected = xr.concat([first, second.compute()], "time", data_vars="minimal")
    xr.testing.assert_identical(again(tmp_path, "g"), expected)


def test_a_coordinate_in_axes_is_continued(tmp_path: Path) -> None:
    first, second = line([0.0, 1.0, 2.0]), line([3.0, 4.0])
    first.n5.to_n5(tmp_path, "g")
    second.n5.to_n5(tmp_path, "g", append_dim="x")
    xr.testing.assert_identical(again(tmp_path, "g"), xr.concat([first, second], "x"))
    assert not (tmp_path / "g/x").exists()


@pytest.mark.parametrize("places", [[0.0, 2.0, 4.0], [0, 2, 4]])
def test_a_coordinate_that_leaves_the_axes_is_refused_unless_it_is_an_array(
    tmp_path: Path, places: list[float]
) -> None:
    first, second = line(places), line(np.array([50, 51]).astype(np.array(places).dtype))
    first.n5.to_n5(tmp_path, "g")
    with pytest.raises(ValueError, match=r"encoding=\{'x': \{\}\}"):
        second.n5.to_n5(tmp_path, "g", append_dim="x")
    xr.testing.assert_identical(again(tmp_path, "g"), first)
    first.n5.to_n5(tmp_path, "g", mode="w", encoding={"x": {}})
    second.n5.to_n5(tmp_path, "g", append_dim="x")
    xr.testing.assert_identical(again(tmp_path, "g"), xr.concat([first, second], "x"))
    assert "x" not in xr.open_dataset(tmp_path, engine="n5", group="g/v").coords


def test_coordinates_of_time_are_arrays_and_go_on_as_they_like(tmp_path: Path) -> None:
    parts = [line(at).rename(x="time") for at in ([0.0, 1.0, 2.0], [9.0], [20.0, 21.0])]
    parts[0].n5.to_n5(tmp_path)
    for part in parts[1:]:
        part.n5.to_n5(tmp_path, append_dim="time")
    xr.testing.assert_identical(again(tmp_path), xr.concat(parts, "time"))


def test_what_does_not_fit_is_not_appended(tmp_path: Path) -> None:
    days(0, 5).n5.to_n5(tmp_path, "g", encoding={"count": {"chunks": (4, 6)}})
    before, more = contents(tmp_path), days(5, 2)
    wrong: list[tuple[xr.Dataset, str, dict[str, Any]]] = [
        (more.drop_vars("wet"), "append to all", {}),
        (more.isel(x=slice(3)), "'x': 6", {}),
        (more.assign(new=("time", [1, 2])), "no variable 'new'", {}),
        (more.assign(station="Paris"), "'station' differs from the stored one", {}),
        (more.transpose("x", "time"), "dimensions", {}),
        (more.assign(wet=("time", [1, 2])), "'wet' has the type bool", {}),
        (more.assign_coords(step=("time", ["a", "b"])), "'step'", {}),
        (more, "not a dimension of both", {"append_dim": "nowhere"}),
        (more, "exclude", {"encoding": {"wet": {}}}),
        (more, "exclude", {"mode": "w"}),
    ]
    for dataset, message, options in wrong:
        with pytest.raises(ValueError, match=message):
            dataset.n5.to_n5(tmp_path, "g", **{"append_dim": "time", **options})
    assert contents(tmp_path) == before


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("auto", [False, True])
def test_a_region_equals_assigning(tmp_path: Path, chunked: bool, auto: bool) -> None:
    whole = days(0, 9)
    whole.n5.to_n5(tmp_path, "g", encoding={"count": {"chunks": (4, 4)}})
    part = whole[["count", "temperature"]].isel(time=slice(2, 7), x=slice(1, 4)) * 2
    part = part.drop_vars(["uneven", "name", "step"])
    part["count"] = part["count"].astype("u2")
    part = part.chunk(time=2) if chunked else part
    region: Any = "auto" if auto else {"time": slice(2, 7), "x": slice(1, 4)}
    part.n5.to_n5(tmp_path, "g", region=region, safe_chunks=False)
    for name in ("count", "temperature"):
        whole[name][2:7, 1:4] = part[name].to_numpy()
    xr.testing.assert_identical(again(tmp_path, "g"), whole)


def test_what_does_not_fit_a_region_is_refused(tmp_path: Path) -> None:
    whole = days(0, 9)
    whole.n5.to_n5(tmp_path, "g")
    part = whole[["count"]].isel(time=slice(2, 4)).drop_vars(["uneven", "name", "step"])
    for region, message in (
        ({"time": slice(0, 9)}, "selects 9, expected 2"),
        ({"time": slice(0, 4, 2)}, "step 1"),
        ({"nowhere": slice(0, 2)}, "is not a dimension of both"),
    ):
        with pytest.raises(ValueError, match=message):
            part.n5.to_n5(tmp_path, "g", region=region)
    with pytest.raises(ValueError, match="no dimension of the region"):
        part.assign(station="Berlin").n5.to_n5(tmp_path, "g", region={"time": slice(2, 4)})
    moved = part.assign_coords(x=part.x + 1)
    with pytest.raises(ValueError, match="differs from the one that"):
        moved.n5.to_n5(tmp_path, "g", region={"time": slice(2, 4), "x": slice(0, 6)})
    with pytest.raises(ValueError, match="exclude"):
        part.n5.to_n5(tmp_path, "g", region="auto", append_dim="time")
    xr.testing.assert_identical(again(tmp_path, "g"), whole)


def test_new_values_for_all_that_is_there(tmp_path: Path) -> None:
    old, new = days(0, 6), days(1, 6)
    old.n5.to_n5(tmp_path, "g", encoding={"count": {"chunks": (4, 4)}})
    new["station"] = ((), "Paris")
    new.attrs = {"title": "other"}
    documents = {f: f.read_bytes() for f in tmp_path.rglob("attributes.json")}
    new.chunk(time=4).n5.to_n5(tmp_path, "g", mode="r+")
    xr.testing.assert_identical(again(tmp_path, "g"), new.assign_attrs(old.attrs))
    assert {f: f.read_bytes() for f in tmp_path.rglob("attributes.json")} == documents
    for wrong, options in (
        (days(0, 5), {}),
        (days(0, 6).assign(other=1), {}),
        (days(6, 1), {"append_dim": "time"}),
    ):
        with pytest.raises(ValueError, match=r"'time': 6|no variable|larger"):
            wrong.n5.to_n5(tmp_path, "g", mode="r+", **options)


def test_new_values_for_all_of_a_tree(tmp_path: Path) -> None:
    top = xr.Dataset({"top": ("y", [1, 2])})
    xr.DataTree.from_dict({"/": top, "/a": days(0, 3)}).n5.to_n5(tmp_path)
    new = xr.DataTree.from_dict({"/a": days(4, 3)})
    with pytest.raises(ValueError, match="encoding cannot be changed"):
        new.n5.to_n5(tmp_path, mode="r+", encoding={"/a": {"count": {}}})
    new.n5.to_n5(tmp_path, mode="r+")
    xr.testing.assert_identical(again(tmp_path, "a"), days(4, 3))
    xr.testing.assert_identical(again(tmp_path), top)


# Any dataset, cut in two

LENGTHS = st.integers(1, 7)


@st.composite
def lines(draw: st.DrawFn) -> tuple[xr.Dataset, int, int]:
    """A dataset along x and y, and where it is cut along x."""
    rows, size = draw(LENGTHS), draw(st.integers(2, 9))
    cut = draw(st.integers(1, size - 1))
    dtype = draw(st.sampled_from(["u1", "i8", "f4", "f8", "?", "M8[ns]", "S2"]))
    numbers = np.arange(rows * size).reshape(rows, size)
    # Whole days: finer times than those that are stored are refused.
    days_ = numbers.astype("M8[D]").astype("M8[ns]")
    dataset = xr.Dataset(
        {
            "v": (("y", "x"), days_ if dtype == "M8[ns]" else numbers.astype(dtype)),
            "w": (("x",), numbers[0] * 0.5, {"units": "K"}),
        }
    )
    kind = draw(st.sampled_from(["even", "uneven", "whole", "text", "none"]))
    places: dict[str, Any] = {
        "even": 3.0 + 0.5 * np.arange(size),
        "uneven": 1.1 ** np.arange(size),
        "whole": np.arange(size) * 2,
        "text": [f"n{number * 10**number}" for number in range(size)],
    }
    if kind != "none":
        dataset.coords["x"] = ("x", places[kind])
    return dataset, cut, draw(st.integers(1, 4))


FEW = settings(
    max_examples=cases(20, 40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.more
@FEW
@given(lines(), st.booleans())
def test_any_two_parts_are_one_again(drawn: tuple[xr.Dataset, int, int], chunked: bool) -> None:
    whole, cut, side = drawn
    first, second = whole.isel(x=slice(None, cut)), whole.isel(x=slice(cut, None))
    with tempfile.TemporaryDirectory() as folder:
        arrays: dict[str, Any] = {"x": {}} if "x" in whole.coords else {}
        first.n5.to_n5(folder, encoding={"v": {"chunks": side}, **arrays})
        (second.chunk(x=2) if chunked else second).n5.to_n5(folder, append_dim="x")
        xr.testing.assert_identical(again(Path(folder)), whole)


@pytest.mark.more
@FEW
@given(lines(), st.booleans())
def test_any_part_is_written_where_it_belongs(
    drawn: tuple[xr.Dataset, int, int], chunked: bool
) -> None:
    whole, cut, side = drawn
    part = whole[["w"]].isel(x=slice(0, cut)) * 2
    part["w"].attrs = whole["w"].attrs
    with tempfile.TemporaryDirectory() as folder:
        whole.n5.to_n5(folder, encoding={"w": {"chunks": side}})
        part = part.chunk(x=2) if chunked else part
        part.n5.to_n5(folder, region={"x": slice(0, cut)}, safe_chunks=False)
        whole["w"][:cut] = part["w"].to_numpy()
        xr.testing.assert_identical(again(Path(folder)), whole)


# What would be lost, or mean something else


def line(places: Any, **values: Any) -> xr.Dataset:
    """Variables along x."""
    size = len(places)
    return xr.Dataset({"v": ("x", np.ones(size)), **values}, {"x": ("x", places)})


@pytest.mark.parametrize(
    ("first", "second", "encoding"),
    [
        ([1.0, 2.0], [1.5, 40000.0], {"dtype": "i2", "_FillValue": -1}),
        ([1.0, 2.0], [-1.0], {"dtype": "i2", "_FillValue": -1}),
        ([1.0, 2.0], [np.nan], {"dtype": "i2", "scale_factor": 0.5}),
        ([1.0, 2.0], [1e6], {"dtype": "i1", "scale_factor": 0.5, "_FillValue": -128}),
        (np.array([1, 2], "f4"), np.array([1e300]), {}),
        (np.array([1, 2], "f4"), np.array([2**24 + 1]), {}),
        (
            np.array(["2000-01-01", "2000-01-02"], "M8[ns]"),
            np.array(["2003-01-03"], "M8[ns]"),
            {"dtype": "i1", "units": "days since 2000-01-01"},
        ),
        (
            np.array(["2000-01-01", "2000-01-02"], "M8[ns]"),
            np.array(["1999-01-03"], "M8[ns]"),
            {"dtype": "u2", "units": "days since 2000-01-01"},
        ),
        (
            np.array(["2000-01-01", "2000-01-02"], "M8[ns]"),
            np.array(["2000-01-03T00:30:00.5"], "M8[ns]"),
            {},
        ),
        (np.array([86400, 172800], "m8[s]"), np.array([1], "m8[ns]"), {}),
        (np.array([1, 2], "i2"), np.array([1.5]), {}),
        (np.array([1, 2], "i2"), np.array([99999], "i8"), {}),
        (np.array([1.0, 2.0]), np.array([1j]), {}),
        (np.array([1, 2]), np.array(["text"]), {}),
        (np.array(["text", "b"]), np.array([1]), {}),
        (np.array([True, False]), np.array([2]), {}),
        (["a", "b"], np.array([b"\xff"]), {}),
        (np.array([b"a", b"b"]), ["é"], {}),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.filterwarnings("ignore:saving variable v with floating point data")
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.filterwarnings("ignore::xarray_n5.errors.UnfinishedWriteWarning")
def test_numbers_that_cannot_tell_the_values_are_refused(
    tmp_path: Path, first: Any, second: Any, encoding: dict[str, Any], chunked: bool
) -> None:
    xr.Dataset({"v": ("x", first)}).n5.to_n5(tmp_path, encoding={"v": encoding})
    before = contents(tmp_path)
    more = xr.Dataset({"v": ("x", second)})
    for options in ({"append_dim": "x"}, {"region": {"x": slice(0, 1)}}):
        with pytest.raises((ValueError, TypeError)):
            (more.chunk(1) if chunked else more).isel(x=[-1]).n5.to_n5(tmp_path, **options)
        if not chunked:
            assert contents(tmp_path) == before
    np.testing.assert_array_equal(again(tmp_path)["v"][: len(first)], first)


def test_scales_round_to_half_a_step(tmp_path: Path) -> None:
    encoding = {"dtype": "i2", "scale_factor": 0.25, "add_offset": 3.0, "_FillValue": -99}
    first = xr.Dataset({"v": ("x", [3.1, np.nan])})
    first.n5.to_n5(tmp_path, encoding={"v": encoding})
    for more in (xr.Dataset({"v": ("x", [7.3, np.nan])}), xr.Dataset({"v": ("x", [-5.0])}).chunk()):
        more.n5.to_n5(tmp_path, append_dim="x")
    values = again(tmp_path)["v"]
    np.testing.assert_array_equal(values, [3.0, np.nan, 7.25, np.nan, -5.0])


@pytest.mark.parametrize("start", ["2000-01-01T06:30", "1999-12-31T23:59:59.5", "2000-01-01"])
@pytest.mark.parametrize("step", [np.timedelta64(1, "h"), np.timedelta64(250, "ms")])
def test_times_of_any_start_go_on(tmp_path: Path, start: str, step: np.timedelta64) -> None:
    time = np.datetime64(start, "ns") + np.arange(5) * step
    whole = xr.Dataset({"v": ("time", np.arange(5.0))}, {"time": time})
    whole.isel(time=slice(3)).n5.to_n5(tmp_path)
    whole.isel(time=slice(3, 5)).chunk(time=1).n5.to_n5(tmp_path, append_dim="time")
    xr.testing.assert_identical(again(tmp_path), whole)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.filterwarnings("ignore:Variable time has datetime type and a bounds variable")
def test_bounds_go_on_in_the_units_of_their_times(tmp_path: Path, chunked: bool) -> None:
    time = np.datetime64("2000-01-01", "ns") + np.arange(5) * np.timedelta64(1, "D")
    bounds = np.stack([time, time + np.timedelta64(1, "D")], axis=1)
    whole = xr.Dataset(
        {"time_bnds": (("time", "nv"), bounds)}, {"time": ("time", time, {"bounds": "time_bnds"})}
    )
    whole.isel(time=slice(3)).n5.to_n5(tmp_path)
    part = whole.isel(time=slice(3, 5))
    (part.chunk(time=1) if chunked else part).n5.to_n5(tmp_path, append_dim="time")
    xr.testing.assert_identical(again(tmp_path), whole)


def test_images_of_several_arrays_do_not_grow(tmp_path: Path) -> None:
    xarray_n5.create_group(tmp_path)
    for number in (0, 1):
        array = xarray_n5.create_array(tmp_path, f"c{number}/s0", shape=(8, 8), dtype="i2")
        array[...] = 1
    before = contents(tmp_path)
    opened = again(tmp_path)
    more = opened.isel(c=[0]).assign_coords(c=[2])
    for options in ({"append_dim": "c"}, {"append_dim": "y"}, {"region": {"y": slice(0, 8)}}):
        with pytest.raises(ValueError, match="several arrays"):
            more.n5.to_n5(tmp_path, **options)
    assert contents(tmp_path) == before


def test_a_write_that_waits_takes_nothing_away_from_a_later_one(tmp_path: Path) -> None:
    xr.Dataset({"v": ("x", np.arange(6) + 1)}).n5.to_n5(tmp_path, encoding={"v": {"chunks": 4}})
    waiting: Any = xr.Dataset({"v": ("x", [50, 60])}).chunk()
    waiting = waiting.n5.to_n5(tmp_path, region={"x": slice(4, 6)}, compute=False)
    xr.Dataset({"v": ("x", [7, 8])}).n5.to_n5(tmp_path, append_dim="x")
    with pytest.raises(AlignmentError):  # it would cut the chunk that has grown
        waiting.compute()
    assert again(tmp_path)["v"].values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_another_calendar_is_refused(tmp_path: Path) -> None:
    cftime = pytest.importorskip("cftime")
    days = [cftime.DatetimeNoLeap(2000, 1, day) for day in (1, 2)]
    xr.Dataset({"v": ("t", days)}).n5.to_n5(tmp_path)
    other = xr.Dataset({"v": ("t", [cftime.Datetime360Day(2000, 1, 30)])})
    with pytest.raises(ValueError, match="calendar"):
        other.n5.to_n5(tmp_path, append_dim="t")
