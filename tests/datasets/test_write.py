"""Datasets, DataArrays and DataTrees that are stored, and come back identical."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import xarray_n5
from tests.support.containers import NAMES, contents
from tests.support.exhaustive import cases
from tests.support.stores import CountingStore
from xarray_n5 import MetadataError, NodeExistsError

if TYPE_CHECKING:
    from distributed import Client


def again(place: Path, group: str | None = None, **options: Any) -> xr.Dataset:
    """What is stored, loaded."""
    return xr.open_dataset(place, engine="n5", group=group, **options).load()


def days(first: int, count: int) -> xr.Dataset:
    """Some days of measurements, with coordinates of all kinds."""
    numbers = np.arange(first, first + count)
    time = np.datetime64("2000-01-01", "ns") + numbers * np.timedelta64(1, "D")
    x = np.arange(6) * 0.5 + 10
    values = np.arange(first * 6, (first + count) * 6).reshape(count, 6)
    return xr.Dataset(
        {
            "temperature": (("time", "x"), values / 4, {"units": "K", "long_name": "T"}),
            "count": (("time", "x"), values.astype("u2")),
            "wet": (("time",), values[:, 0] % 2 == 0),
            "station": ((), "Berlin"),
        },
        {
            "time": ("time", time),
            "x": ("x", x, {"units": "um"}),
            "uneven": ("x", x**2),
            "name": ("time", [f"day {number}" for number in range(first, first + count)]),
            "step": ("time", np.arange(first, first + count) * 0.25),
        },
        {"title": "weather", "version": 3, "resolution": "daily", "odd": [1.5, float("nan")]},
    )


def test_a_dataset_comes_back_identical(tmp_path: Path) -> None:
    dataset = days(0, 5)
    report = dataset.n5.to_n5(tmp_path / "a.n5", "g")
    assert {*report.arrays} == {*dataset.variables} - {"x"}  # which is in the axes
    xr.testing.assert_identical(again(tmp_path / "a.n5", "g"), dataset)
    xr.testing.assert_identical(again(tmp_path / "a.n5", "g", chunks={}), dataset)


OBJECTS = pytest.mark.filterwarnings("ignore:variable name has data in the form of a dask array")
"""Of texts that are read as objects, xarray cannot tell the type without loading them."""


@OBJECTS
def test_a_second_round_is_like_the_first(tmp_path: Path) -> None:
    dataset = days(0, 5).chunk(time=2)
    encoding = {"temperature": {"dtype": "i2", "scale_factor": 0.25, "_FillValue": -1}}
    dataset.n5.to_n5(tmp_path, "a", encoding={**encoding, "count": {"compression": "zstd"}})
    first = xr.open_dataset(tmp_path, engine="n5", group="a", chunks={})
    first.n5.to_n5(tmp_path, "b")
    second = xr.open_dataset(tmp_path, engine="n5", group="b")
    xr.testing.assert_identical(second.load(), first.load())
    for name in ("temperature", "count"):
        for key in ("dtype", "chunks", "n5_compression", "scale_factor"):
            assert second[name].encoding.get(key) == first[name].encoding.get(key)
    assert second["temperature"].encoding["dtype"] == np.dtype("i2")
    assert second["count"].encoding["n5_compression"]["type"] == "zstd"


def test_files_are_what_other_tools_read(tmp_path: Path) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    dataset = days(0, 5).drop_vars("time")
    dataset.n5.to_n5(tmp_path / "a.n5")
    for name in ("temperature", "count"):
        spec = {
            "driver": "n5",
            "kvstore": {"driver": "file", "path": str(tmp_path / "a.n5" / name)},
        }
        theirs = tensorstore.open(spec).result()
        np.testing.assert_array_equal(theirs.read().result().T, dataset[name])
        assert theirs.domain.labels == ("x", "time")
        assert str(theirs.dimension_units[0]) == "0.5 um"
    array = xarray_n5.open_array(tmp_path / "a.n5", "temperature")
    assert [(axis.scale, axis.offset) for axis in array.axes][-1] == (0.5, 10.0)
    assert not (tmp_path / "a.n5/x").exists()
    assert (tmp_path / "a.n5/uneven").exists()


def test_nothing_is_filled_that_nobody_asked_for(tmp_path: Path) -> None:
    xr.Dataset({"a": ("x", [1.0, np.nan, 0.0]), "b": ("x", [0, 1, 2])}).n5.to_n5(tmp_path)
    assert "_FillValue" not in xarray_n5.open_array(tmp_path, "b").attrs
    assert again(tmp_path)["b"].dtype == np.dtype("i8")


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (np.zeros(2, "c8"), "two variables"),
        (np.zeros(2, "f2"), "float32"),
        (np.array([{}, []], dtype=object), "numbers"),
    ],
)
def test_what_cannot_be_held_is_refused_before_anything_is_written(
    tmp_path: Path, data: np.ndarray, hint: str
) -> None:
    dataset = xr.Dataset({"good": ("x", [1, 2]), "bad": ("x", data)})
    with pytest.raises((MetadataError, TypeError, ValueError), match=hint):
        dataset.n5.to_n5(tmp_path / "a.n5")
    assert not (tmp_path / "a.n5").exists()


@pytest.mark.parametrize(
    ("encoding", "error", "message"),
    [
        ({"a": {"colour": 1}}, ValueError, "unexpected encoding"),
        ({"z": {}}, KeyError, "'z'"),
        ({"a": {"chunks": (1, 2)}}, MetadataError, "'a'"),
        ({"a": {"compression": "zip"}}, Exception, "zip"),
    ],
)
def test_encodings_that_make_no_sense_are_refused(
    tmp_path: Path, encoding: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        xr.Dataset({"a": ("x", [1, 2])}).n5.to_n5(tmp_path / "a.n5", encoding=encoding)
    assert not (tmp_path / "a.n5").exists()


@pytest.mark.parametrize("form", NAMES)
def test_modes(tmp_path: Path, form: Any) -> None:
    place = tmp_path / NAMES[form]
    small = xr.Dataset({"a": ("x", [1, 2])}, attrs={"is": "small"})
    small.n5.to_n5(place, "g", format=form)
    with pytest.raises(NodeExistsError, match="mode='w'"):
        small.n5.to_n5(place, "g")
    more = xr.Dataset({"a": ("x", [7, 8]), "b": ("x", [3.0, 4.0])})
    more[["b"]].n5.to_n5(place, "g", mode="a")
    xr.testing.assert_identical(again(place, "g"), small.merge(more[["b"]]))
    more.n5.to_n5(place, "g", mode="a")
    xr.testing.assert_identical(again(place, "g"), more.assign_attrs(small.attrs))
    with pytest.raises(ValueError, match="Unable to update size"):
        xr.Dataset({"c": ("x", [1, 2, 3])}).n5.to_n5(place, "g", mode="a")
    more[["b"]].n5.to_n5(place, "g", mode="w")
    xr.testing.assert_identical(again(place, "g"), more[["b"]])
    with pytest.raises(ValueError, match="mode"):
        more.n5.to_n5(place, "g", mode="x")


def test_replacing_a_dataset_takes_nothing_of_others_along(tmp_path: Path) -> None:
    days(0, 3).n5.to_n5(tmp_path, "g")
    before = again(tmp_path, "g")
    for stray in ("count/notes.txt", "wet/.git/config"):
        place = tmp_path / "g" / stray
        place.parent.mkdir(exist_ok=True)
        place.write_text("mine")
        for dataset in (days(0, 3), xr.Dataset({"other": ("x", [1])})):
            with pytest.raises(NodeExistsError, match="with other files"):
                dataset.n5.to_n5(tmp_path, "g", mode="w")
        assert place.read_text() == "mine"
        xr.testing.assert_identical(again(tmp_path, "g"), before)
        place.unlink()


@pytest.mark.parametrize(
    ("dataset", "encoding"),
    [
        (lambda: xr.Dataset({"v": ("x", unknown())}), {}),
        (lambda: xr.Dataset({"v": ("x", [1, 2])}), {"v": {"chunks": 2**31}}),
        (lambda: xr.Dataset({"v": ("x", [1, 2], {"a": np.longdouble(1)})}), {}),
        (lambda: xr.Dataset({"v": ("x", np.array(["a\0"], object))}), {}),
        (lambda: xr.Dataset({"v": ("x", np.array([b"a\0"], object))}), {}),
    ],
)
def test_nothing_is_removed_for_what_cannot_be_stored(
    tmp_path: Path, dataset: Any, encoding: Any
) -> None:
    kept = xr.Dataset({"keep": ("z", [1, 2])})
    kept.n5.to_n5(tmp_path)
    with pytest.raises(MetadataError):
        dataset().n5.to_n5(tmp_path, mode="w", encoding=encoding)
    xr.testing.assert_identical(again(tmp_path), kept)


def unknown() -> Any:
    """An array of which only computing tells the shape."""
    numbers = da.arange(10, chunks=5)
    return numbers[numbers > 2]


def test_what_cannot_be_read_is_not_replaced(tmp_path: Path) -> None:
    days(0, 2).n5.to_n5(tmp_path)
    (tmp_path / "wet/attributes.json").write_text("{")
    ways: list[dict[str, Any]] = [{"mode": "w"}, {"mode": "a"}, {"append_dim": "time"}]
    for options in ways:
        with pytest.raises(MetadataError):
            days(2, 2).n5.to_n5(tmp_path, **options)
    assert xarray_n5.open_array(tmp_path, "count").shape == (2, 6)


def test_a_group_of_what_cannot_be_read_is_not_empty(tmp_path: Path) -> None:
    xarray_n5.create_array(tmp_path, "v", shape=(2,), dtype="u1")
    (tmp_path / "v/attributes.json").write_text("{")
    with pytest.raises(MetadataError):
        xr.Dataset({"w": ("x", [1, 2])}).n5.to_n5(tmp_path)
    assert not (tmp_path / "w").exists()


def test_attributes_of_any_type_may_change(tmp_path: Path) -> None:
    for value in (2.0, "new", float("nan"), [1.0, float("inf")], 3):
        xr.Dataset({"v": ("x", [1])}, attrs={"a": value}).n5.to_n5(tmp_path, mode="a")
        attribute = again(tmp_path).attrs["a"]
        np.testing.assert_equal(attribute, value)
        assert isinstance(attribute, type(value))


def test_characters_lie_along_no_dimension_of_others(tmp_path: Path) -> None:
    texts = ("x", ["ab", "cd", "ef"])
    for number, (dataset, encoding) in enumerate(
        (
            (xr.Dataset({"a": texts, "b": ("string2", [1, 2, 3])}), {}),
            (xr.Dataset({"a": texts, "b": ("y", [1, 2, 3])}), {"a": {"char_dim_name": "y"}}),
            (xr.Dataset({"a": ("string2", texts[1])}), {}),
        )
    ):
        dataset.n5.to_n5(tmp_path, f"g{number}", encoding=encoding)
        xr.testing.assert_identical(again(tmp_path, f"g{number}"), dataset)


def test_sizes_of_arrays_without_names_count_too(tmp_path: Path) -> None:
    xarray_n5.create_group(tmp_path)
    xarray_n5.create_array(tmp_path, "raw", shape=(4, 5), dtype="u1")
    with pytest.raises(ValueError, match="'x'"):
        xr.Dataset({"w": ("x", [1, 2])}).n5.to_n5(tmp_path, mode="a")
    xr.Dataset({"w": ("x", np.arange(5))}).n5.to_n5(tmp_path, mode="a")
    assert set(again(tmp_path)) == {"raw", "w"}


def test_groups_and_coordinates_do_not_share_a_name(tmp_path: Path) -> None:
    placed = xr.Dataset({"v": ("x", [1.0, 2.0])}, {"x": [0.0, 1.0]})
    placed.n5.to_n5(tmp_path, "a")
    other = xr.Dataset({"q": ("z", [1])})
    with pytest.raises(NodeExistsError, match="coordinate"):
        other.n5.to_n5(tmp_path, "a/x")
    other.n5.to_n5(tmp_path, "b/x")
    with pytest.raises(NodeExistsError, match="rename the coordinate"):
        placed.n5.to_n5(tmp_path, "b", mode="w")


def test_a_tree_meets_no_array_halfway(tmp_path: Path) -> None:
    xarray_n5.create_array(tmp_path, "g/a", shape=(2,), dtype="u1")
    tree = xr.DataTree.from_dict({"/": xr.Dataset({"n": ("z", [1])}), "/a": days(0, 1)})
    with pytest.raises(NodeExistsError, match="an array"):
        tree.n5.to_n5(tmp_path, "g", mode="a")
    assert not (tmp_path / "g/n").exists()


def test_groups_may_be_named_with_slashes(tmp_path: Path) -> None:
    days(0, 3).n5.to_n5(tmp_path, "/a/b/")
    days(3, 2).n5.to_n5(tmp_path, "/a/b", append_dim="time")
    assert again(tmp_path, "a/b").sizes["time"] == 5
    xr.DataTree(days(0, 3)).n5.to_n5(tmp_path, "/c/")
    assert again(tmp_path, "c").sizes["time"] == 3
    with pytest.raises(ValueError, match="leaves the container"):
        days(0, 3).n5.to_n5(tmp_path, "../x")


def test_an_added_coordinate_replaces_an_older_one(tmp_path: Path) -> None:
    def line(values: list[float], name: str = "v", **units: str) -> xr.Dataset:
        return xr.Dataset({name: ("x", np.ones(4))}, {"x": ("x", values, units)})

    for first in ([1.0, 2, 3, 5], [1.0, 2, 3, 4]):
        for second, units in (([1.0, 2, 3, 4], {}), ([1.0, 2, 3, 4], {"units": "nm"})):
            for name in ("v", "w"):
                line(first).n5.to_n5(tmp_path, "g", mode="w")
                line(second, name, **units).n5.to_n5(tmp_path, "g", mode="a")
                stored = again(tmp_path, "g")
                assert stored.x.values.tolist() == second
                assert stored.x.attrs == units
                (tmp_path / "g/x").exists()
                del xarray_n5.open_group(tmp_path, mode="r+")["g"]


def test_coordinates_of_replaced_variables_stay(tmp_path: Path) -> None:
    first = xr.Dataset({"v": ("x", np.ones(4))}, {"x": [1.0, 2, 3, 4]}, {"kept": float("nan")})
    first.n5.to_n5(tmp_path)
    xr.Dataset({"v": ("x", np.zeros(4))}, attrs={"new": 1}).n5.to_n5(tmp_path, mode="a")
    stored = again(tmp_path)
    assert stored.x.values.tolist() == [1, 2, 3, 4]
    assert not stored["v"].any()
    assert stored.attrs["new"] == 1
    assert np.isnan(stored.attrs["kept"])


@pytest.mark.parametrize("name", [".hid", "..", ".", "attributes.json", "a\\b", "x" * 300, "a/b"])
def test_names_that_no_directory_can_have_are_refused_first(tmp_path: Path, name: str) -> None:
    good = xr.Dataset({"a": ("x", [1, 2])})
    good.n5.to_n5(tmp_path, "old")
    before = contents(tmp_path)
    for mode in ("w-", "w", "a"):
        group = "old" if mode != "w-" else "new"
        with pytest.raises(ValueError, match="cannot be called"):
            good.assign({name: ("x", [1, 2])}).n5.to_n5(tmp_path, group, mode=mode)
    if "/" not in name and name != ".":
        with pytest.raises(ValueError, match="cannot be called"):
            xr.DataTree.from_dict({"/": good, f"/{name}": good}).n5.to_n5(tmp_path, "tree")
    assert contents(tmp_path) == before


@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
def test_what_is_refused_leaves_what_was_there(tmp_path: Path) -> None:
    days(0, 6).n5.to_n5(tmp_path, "g")
    xarray_n5.create_group(tmp_path, "g/inner", attributes={"its": 1})
    before = again(tmp_path, "g")
    wrong: list[tuple[xr.Dataset, dict[str, Any], str]] = [
        (days(0, 6), {"dialect": "nope"}, "nope"),
        (days(0, 6), {"dialect": "bdv"}, "bdv"),
        (xr.Dataset({"inner": ("n", [1])}), {}, "a group that is not empty"),
        (xr.Dataset({"v": (("x", "x"), np.eye(2))}), {}, "unique strings"),
    ]
    for dataset, options, message in wrong:
        for mode in ("w", "a"):
            with pytest.raises((ValueError, FileExistsError), match=message):
                dataset.n5.to_n5(tmp_path, "g", mode=mode, **options)
            xr.testing.assert_identical(again(tmp_path, "g"), before)


def test_trees_may_have_nodes_that_are_called_like_parts_of_images(tmp_path: Path) -> None:
    node = days(0, 3)
    for number, names in enumerate(
        (["s0", "s1", "c0"], ["setup0/timepoint0", "setup1/timepoint0"], ["0", "1"])
    ):
        tree = xr.DataTree.from_dict({f"/{name}": node for name in names})
        tree.n5.to_n5(tmp_path, f"t{number}")
        opened = xr.open_datatree(tmp_path, engine="n5", group=f"t{number}")
        xr.testing.assert_identical(opened.load(), tree)


def test_a_part_of_a_tree_takes_its_coordinates_along(tmp_path: Path) -> None:
    above = xr.Dataset({"i": ("t", [1, 2])}, {"t": [5.0, 7.0]})
    tree: Any = xr.DataTree.from_dict({"/": above, "/a": xr.Dataset({"w": ("t", [3, 4])})})
    tree["a"].n5.to_n5(tmp_path)
    assert again(tmp_path).t.values.tolist() == [5, 7]


@pytest.mark.parametrize("value", [{1: 2}, [{1: 2}], object(), 1j, b"x"])
def test_attributes_that_json_cannot_hold_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(MetadataError, match="'a'"):
        xr.Dataset(attrs={"a": value}).n5.to_n5(tmp_path / "a.n5")
    assert not (tmp_path / "a.n5").exists()


def test_types_of_pandas_are_refused_by_name(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    dataset = xr.Dataset({"v": ("x", pandas.Categorical(["a", "b"]))})
    with pytest.raises(MetadataError, match="'v'"):
        dataset.n5.to_n5(tmp_path)


def test_a_dataarray_keeps_its_name_attributes_and_coordinates(tmp_path: Path) -> None:
    array = days(0, 3)["temperature"]
    array.n5.to_n5(tmp_path, "named")
    xr.testing.assert_identical(again(tmp_path, "named")["temperature"], array)
    array.rename(None).n5.to_n5(tmp_path, "nameless", mode="w")
    assert list(again(tmp_path, "nameless")) == ["__xarray_dataarray_variable__"]


def test_a_tree_comes_back_identical(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict(
        {
            "/": xr.Dataset({"root": ((), 1)}, attrs={"top": True}),
            "/a": days(0, 3),
            "/a/b": xr.Dataset({"deep": ("y", [1, 2, 3])}),
            "/empty": xr.Dataset(attrs={"nothing": "here"}),
        }
    )
    tree.n5.to_n5(tmp_path / "t.n5", encoding={"/a": {"count": {"chunks": (1, 2)}}})
    opened = xr.open_datatree(tmp_path / "t.n5", engine="n5")
    xr.testing.assert_identical(opened.load(), tree)
    assert opened["a/count"].encoding["chunks"] == (1, 2)
    part: Any = xr.open_datatree(tmp_path / "t.n5", engine="n5", group="a")
    expected: Any = tree["a/b"]
    xr.testing.assert_identical(
        part["b"].to_dataset(inherit=False).load(), expected.to_dataset(inherit=False)
    )
    part.n5.to_n5(tmp_path / "t.n5", "copy")
    copy = xr.open_datatree(tmp_path / "t.n5", engine="n5", group="copy")
    xr.testing.assert_identical(copy.load(), part.load())
    with pytest.raises(KeyError, match="nowhere"):
        tree.n5.to_n5(tmp_path / "u.n5", encoding={"/nowhere": {}})


# Whatever Hypothesis thinks of

NUMBERS = st.sampled_from(
    [np.dtype(kind) for kind in ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8", "?")]
    + [np.dtype(kind) for kind in ("M8[ns]", "m8[ns]", "M8[s]", "S3", "U3")]
)

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)

ATTRIBUTES = st.dictionaries(
    st.one_of(
        st.text("abcdefgh_", min_size=1, max_size=5),
        st.sampled_from(["axes", "offset", "resolution", "transform", "unit", "multiscales", "n5"]),
    ),
    st.one_of(
        st.recursive(
            # xarray compares no NaN within lists and mappings.
            st.one_of(
                *(st.none(), st.booleans(), st.integers(-(2**40), 2**40), TEXTS),
                st.floats(allow_nan=False),
            ),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=2),
            ),
            max_leaves=4,
        ),
        # xarray compares no arrays within lists.
        st.sampled_from([float("nan"), np.float64("inf"), np.int64(-3), np.array([1, 2], "u1")]),
    ),
    max_size=3,
)


def values(draw: st.DrawFn, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Some data of a type."""
    if dtype.kind == "U":
        elements: Any = st.text(st.characters(codec="ascii", min_codepoint=33), max_size=3)
    elif dtype.kind == "S":
        elements = st.binary(max_size=3).map(lambda value: value.rstrip(b"\x00"))
    elif dtype.kind in "Mm":
        # What fits into nanoseconds, and no NaT among timedeltas of whole units.
        span = 10**9 if dtype.name.endswith("[ns]") else 10**6
        elements = st.integers(-span, span).map(lambda value: np.array(value).astype(dtype)[()])
    elif dtype.kind == "f":
        elements = st.floats(width=32 if dtype.itemsize == 4 else 64)
    else:
        elements = arrays.from_dtype(dtype)
    return draw(arrays.arrays(dtype, shape, elements=elements))


LABELS = st.text("abcäλ_-. 01", min_size=1, max_size=4).filter(lambda n: n[0] not in ". ")

DIMS = ("x", "y", "ä λ_-.0")


@st.composite
def datasets(draw: st.DrawFn) -> xr.Dataset:
    """Up to three variables over up to three dimensions, with coordinates for some of them."""
    sizes = draw(st.dictionaries(st.sampled_from(DIMS), st.integers(1, 4), max_size=3))
    dataset = xr.Dataset(attrs=draw(ATTRIBUTES))
    for _ in range(draw(st.integers(0, 3))):
        dims = draw(st.lists(st.sampled_from(sorted(sizes)), unique=True)) if sizes else []
        dtype = draw(NUMBERS)
        data = values(draw, dtype, tuple(sizes[dim] for dim in dims))
        dataset[draw(LABELS)] = xr.Variable(dims, data, draw(ATTRIBUTES))
    for dim in sorted(set(map(str, dataset.dims)) & set(sizes)):
        if draw(st.booleans()):
            step, offset = draw(st.floats(0.1, 9)), draw(st.floats(-9, 9))
            units = draw(st.sampled_from([{}, {"units": "nm"}, {"units": "nm", "note": 1}]))
            places = offset + step * np.arange(sizes[dim])
            dataset.coords[dim] = (dim, places, units)
    return dataset


def check(dataset: xr.Dataset, stored: xr.Dataset) -> None:
    """Whether a dataset came back; of floats as attributes NaN is NaN."""
    xr.testing.assert_identical(stored, dataset)
    for name, variable in dataset.variables.items():
        if variable.dtype.kind not in "USOMm":  # times are decoded to nanoseconds
            assert stored.variables[name].dtype == variable.dtype


FEW = settings(
    max_examples=cases(20, 40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.more
@FEW
@given(datasets())
def test_any_dataset_comes_back_identical(dataset: xr.Dataset) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset.n5.to_n5(f"{folder}/a.n5", "g")
        check(dataset, again(Path(folder) / "a.n5", "g"))
        chunked = dataset.drop_vars(
            [n for n, v in dataset.variables.items() if v.dtype.kind in "US"]
        )
        chunked.chunk(1).n5.to_n5(f"{folder}/a.n5", "chunked")
        check(chunked, again(Path(folder) / "a.n5", "chunked", chunks={}))


@pytest.mark.more
@FEW
@given(st.lists(datasets(), min_size=1, max_size=3))
def test_any_tree_comes_back_identical(nodes: list[xr.Dataset]) -> None:
    places = {f"/{'n/' * number}n": node for number, node in enumerate(nodes)}
    try:
        tree = xr.DataTree.from_dict(places)
    except ValueError:
        return  # nodes whose coordinates do not fit those above them
    with tempfile.TemporaryDirectory() as folder:
        tree.n5.to_n5(f"{folder}/t.n5")
        xr.testing.assert_identical(xr.open_datatree(f"{folder}/t.n5", engine="n5").load(), tree)


def test_a_cluster_writes_datasets(tmp_path: Path, cluster: Client) -> None:
    dataset = days(0, 40).drop_vars(["name", "station"])
    with cluster.as_current():
        dataset.chunk(time=7).n5.to_n5(tmp_path, "g", encoding={"count": {"chunks": (4, 3)}})
        xr.testing.assert_identical(again(tmp_path, "g", chunks={}), dataset)


def test_requests_grow_with_variables_and_chunks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xarray_n5.arrays.records._TRUSTED", 600.0)

    def asked(variables: int, chunks: int) -> dict[str, int]:
        names = [f"v{number}" for number in range(variables)]
        dataset = xr.Dataset({name: ("x", np.arange(8 * chunks)) for name in names})
        store = CountingStore()
        dataset.n5.to_n5(store, "g", encoding={name: {"chunks": 8} for name in names})
        assert set(store.written.values()) <= {1, 2}  # a group's document, at first and at last
        return store.requests()

    one, two, large = asked(1, 1), asked(2, 1), asked(1, 50)
    assert large["set"] - one["set"] == 49
    # The record, the document, a chunk, and the row.
    assert two["set"] - one["set"] == 4
    assert {key for key in one if large[key] != one[key]} <= {"set", "exists"}
    assert sum(two.values()) - sum(one.values()) <= 20
