"""Copied variables open as those of the source: with masks, scales, types and coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from xarray_n5 import MetadataError, NodeExistsError, copy, open_array, to_n5

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TARGETS = {"n5": "to.n5", "zarr2": "two.zarr", "zarr3": "three.zarr", "hdf5": "to.h5"}

SIZE = 7

Y = ("y", 1.5 * np.arange(SIZE) - 3, {"units": "mm"})

DAYS = np.array(
    ["2011-03-04", "NaT", "2011-03-05", "1999-12-31", "NaT", "2040-01-01", "NaT"], "M8[ns]"
)

VARIABLES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "masked": ("y", [4.0, np.nan, 0, -1, 9, np.nan, 100], {"dtype": "i2", "_FillValue": -77}),
    "signed": ("y", [4, 0, 5, -1, 9, 8, 100], {"dtype": "i4"}),
    "zero": ("y", [4, np.nan, 3, 1, 9, np.nan, 200], {"dtype": "u1", "_FillValue": 0}),
    "unsigned": (
        "y",
        np.array([0, np.nan, 200, 3, 127, 128, 254], "f4"),
        {"dtype": "i1", "_FillValue": -1, "_Unsigned": "true"},
    ),
    "packed": (
        ("y", "x"),
        np.array([[0.5, np.nan], [-1, 0], [2.5, 3], [0, 1], [7, 7.5], [np.nan, 9], [3, 2]]),
        {"dtype": "i2", "_FillValue": -1, "scale_factor": 0.5, "add_offset": -2.0},
    ),
    "single": (
        "y",
        np.array([0, np.nan, 2.5, -999, 1, 7, 8], "f4"),
        {"_FillValue": np.float32(-5.25)},
    ),
    "double": ("y", [0, np.nan, 2.5, -999, 1, 7, 8], {"_FillValue": 1e20}),
    "plain": ("y", [0, np.nan, 2.5, -999, 1, 7, 8], {"_FillValue": np.nan}),
    "inside": ("y", [True, False, False, True, True, False, True], {}),
    "name": ("y", ["a", "ö", "", "long word", "b", "c", "z"], {}),
    "day": ("y", DAYS, {"dtype": "i8", "_FillValue": -9, "units": "days since 1990-01-01"}),
    "span": (
        "y",
        np.array([1, 2, "NaT", 0, 5, 6, 7], "m8[h]").astype("m8[ns]"),
        {"_FillValue": -9},
    ),
    "only": ((), 6.5, {}),
    "quality": ("y", [0, 1, 2, 0, 1, 2, 0], {"dtype": "i1"}),
    "site": ("site", ["north", "öst", ""], {}),
    "hour": (
        "hour",
        np.arange("2020-02-28T22", "2020-02-29T01", dtype="M8[h]").astype("M8[ns]"),
        {},
    ),
}


def dataset() -> tuple[xr.Dataset, dict[str, Any]]:
    """Return a Dataset with variables of all kinds, and their encodings."""
    values = {name: (dims, data) for name, (dims, data, _) in VARIABLES.items()}
    found = xr.Dataset(values, {"y": Y}, attrs={"title": "all kinds", "axes": "not an axis"})
    encoding = {name: own for name, (_, _, own) in VARIABLES.items() if own}
    return found.set_coords("quality"), encoding


def without_axes(kept: xr.Dataset) -> xr.Dataset:
    """Leave out the attribute that only our notes tell from axes."""
    return kept.drop_attrs(deep=False).assign_attrs(title=kept.title)


def by_us(form: str) -> Callable[[xr.Dataset, Path, str, Any], None]:
    def store(kept: xr.Dataset, place: Path, group: str, encoding: Any) -> None:
        kept.n5.to_n5(place, group=group, format=form, encoding=encoding, mode="a")

    return store


def by_xarray(version: Any) -> Callable[[xr.Dataset, Path, str, Any], None]:
    def store(kept: xr.Dataset, place: Path, group: str, encoding: Any) -> None:
        kept = without_axes(kept)
        kept.to_zarr(
            place, group=group, zarr_format=version, encoding=encoding, mode="a", consolidated=False
        )

    return store


def as_netcdf(kept: xr.Dataset, place: Path, group: str, encoding: Any) -> None:
    without_axes(kept).to_netcdf(
        place, "a", group=group or None, engine="h5netcdf", encoding=encoding
    )


SOURCES: dict[str, tuple[str, Any]] = {
    **{form: (f"from-{name}", by_us(form)) for form, name in TARGETS.items()},
    **{f"xarray-{version}": (f"{version}.zarr", by_xarray(version)) for version in (2, 3)},
    "netcdf": ("netcdf.h5", as_netcdf),
}


def opened(place: Path, group: str = "", engine: Any = "n5") -> xr.Dataset:
    with xr.open_dataset(place, engine=engine, group=group or None) as found:
        return found.load()


@pytest.mark.matrix(20)
@pytest.mark.filterwarnings("ignore:.*:xarray.coding.common.SerializationWarning")
@pytest.mark.filterwarnings("ignore:.*fixed-length:UserWarning", "ignore:.*Zarr V3 spec")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("way", ["whole", "rechunked", "in-a-tree", "compared"])
def test_copied_dataset_opens_as_its_source(
    tmp_path: Path, source: str, target: Any, way: str
) -> None:
    name, store = SOURCES[source]
    place, other = tmp_path / name, tmp_path / TARGETS[target]
    group = "one/two" if way == "in-a-tree" else ""
    kept, encoding = dataset()
    if way == "in-a-tree":
        store(kept[["signed", "masked"]], place, "one", {"masked": encoding["masked"]})
    store(kept, place, group, encoding)
    ways: dict[str, Any] = {
        "rechunked": {"chunks": 3, "compression": "bzip2" if target == "n5" else "gzip"},
        "compared": {"verify": True},
    }
    options: Any = ways.get(way, {})
    copy(place, other, format=target, **options)
    before = opened(place, group)
    if source == "netcdf":
        xr.testing.assert_identical(before, opened(place, group, "h5netcdf"))
    after = opened(other, group)
    xr.testing.assert_identical(after, before)
    if target.startswith("zarr"):
        with xr.open_zarr(other, group=group or None, consolidated=False) as of_zarr:
            xr.testing.assert_equal(of_zarr.load(), before)
    if way == "in-a-tree":
        with xr.open_datatree(other, engine="n5") as tree:
            assert [node.path for node in tree.subtree] == ["/", "/one", "/one/two"]
            xr.testing.assert_identical(tree["one/two"].to_dataset().load(), before)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["n5", "hdf5"])
@pytest.mark.parametrize("name", ["sites", "word"])
def test_copied_text_alone_opens_as_its_source(
    tmp_path: Path, source: Any, target: Any, name: str
) -> None:
    place, other = tmp_path / f"from-{TARGETS[source]}", tmp_path / TARGETS[target]
    texts = xr.Dataset({"sites": ("y", ["north", "öst", ""]), "word": ((), "alone")})
    texts.n5.to_n5(place, format=source)
    copy(f"{place}/{name}", f"{other}/{name}", format=target)
    xr.testing.assert_identical(opened(other, name), opened(place, name))


@pytest.mark.parametrize("form", TARGETS)
@pytest.mark.parametrize("source", TARGETS)
def test_copy_that_would_contradict_sizes_of_a_dataset_is_refused(
    tmp_path: Path, source: Any, form: Any
) -> None:
    place, other = tmp_path / f"from-{TARGETS[source]}", tmp_path / TARGETS[form]
    xr.Dataset({"b": ("y", np.arange(5))}).n5.to_n5(place, format=source)
    kept = xr.Dataset({"a": ("y", np.arange(3))})
    kept.n5.to_n5(other, group="g", format=form)
    with pytest.raises(ValueError, match="size"):
        copy(place, f"{other}/g", format=form, mode="a")
    xr.testing.assert_identical(opened(other, "g"), kept)


OTHER_TYPES: dict[str, Any] = {
    "complex64": np.array([1 + 2j, 0, -3.5j, complex(np.nan, 4)], "c8"),
    "complex128": np.array([1 + 2j, 0, -3.5j, 4], "c16"),
    "structured": np.array([(1, 2.5), (3, -1), (0, 0)], [("a", "<i2"), ("b", "<f4")]),
}


@pytest.mark.filterwarnings("ignore:.*Zarr V3 spec", "ignore:.*Zarr v3")
@pytest.mark.parametrize("kind", OTHER_TYPES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["zarr2", "zarr3", "hdf5"])
@pytest.mark.parametrize("way", ["whole", "rechunked", "in-a-tree"])
def test_types_that_few_formats_have_are_copied_or_refused_before_anything_is_written(
    tmp_path: Path, source: Any, target: Any, kind: str, way: str
) -> None:
    values, lacking = OTHER_TYPES[kind], {"n5", *(["hdf5"] if kind == "structured" else [])}
    place, other = tmp_path / f"from-{TARGETS[source]}", tmp_path / TARGETS[target]
    path = "one/two/a" if way == "in-a-tree" else "a"
    if source in lacking:
        with pytest.raises(MetadataError):
            to_n5(values, place, path, format=source)
        return
    to_n5(values, place, path, format=source, chunks=2)
    options: Any = {"chunks": 3, "compression": "gzip"} if way == "rechunked" else {}
    if target in lacking:
        with pytest.raises(MetadataError):
            copy(place, other, format=target, **options)
        assert not other.exists()
        return
    copy(place, other, format=target, verify=True, **options)
    copied = open_array(other, path)[...]
    assert (copied.dtype, copied.tobytes()) == (values.dtype, values.tobytes())


LEVELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "masked": ("f8", {"dtype": "i4", "_FillValue": -3}),
    "packed": ("f8", {"dtype": "u2", "_FillValue": 9, "scale_factor": 0.25, "add_offset": -1}),
    "single": ("f4", {"_FillValue": np.float32(77.5)}),
    "nan": ("f8", {"_FillValue": np.nan}),
    "inf": ("f4", {"_FillValue": np.float32(np.inf)}),
    "bool": ("?", {}),
    "plain": ("u2", {}),
}


def levels(kind: str) -> tuple[xr.DataTree, dict[str, Any]]:
    """Return two levels of an image, and the encodings of both."""
    dtype, encoding = LEVELS[kind]
    values = np.random.default_rng(7).integers(1, 90, (6, 10)) % 11
    image = xr.DataArray(values, dims=("y", "x"), name="em").astype(dtype)
    if encoding:
        image[2, 4] = image[0, 0] = np.nan
    image.coords["y"] = "y", 0.5 * np.arange(6), {"units": "um"}
    image.coords["x"] = "x", 2 + 0.5 * np.arange(10), {"units": "um"}
    nodes = {"s0": image.to_dataset(), "s1": image[::2, ::2].to_dataset()}
    return xr.DataTree.from_dict(nodes), {f"/{name}": {"em": encoding} for name in nodes}


@pytest.mark.matrix(20)
@pytest.mark.parametrize("kind", LEVELS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", TARGETS)
@pytest.mark.parametrize("way", ["whole", "rechunked", "described", "alone"])
def test_copied_levels_open_as_their_source(
    tmp_path: Path, source: Any, target: Any, kind: str, way: str
) -> None:
    tree, encoding = levels(kind)
    place, other = tmp_path / f"from-{TARGETS[source]}", tmp_path / TARGETS[target]
    tree.n5.to_n5(place, group="a", format=source, encoding=encoding if LEVELS[kind][1] else None)
    before = [level_of(place, number) for number in (0, 1)]
    xr.testing.assert_identical(before[0], tree["s0"].to_dataset()["em"])
    ways: dict[str, Any] = {
        "rechunked": {"chunks": 2},
        "described": {"dialect": "cosem"},
    }
    options: Any = ways.get(way, {})
    if way == "alone":
        copy(f"{place}/a/s1", f"{other}/a", format=target, **options)
    else:
        copy(place, other, format=target, **options)
    if way == "alone":
        after, before = [level_of(other, None)], before[1:]
    else:
        after = [level_of(other, number) for number in (0, 1)]
    for one, another in zip(after, before, strict=True):
        xr.testing.assert_equal(one.rename("em"), another)
        assert one.dtype == another.dtype
    if target == "zarr3" and way != "alone":
        without: Any = {"consolidated": False, "drop_variables": "s1"}
        with xr.open_zarr(other, group="a", **without) as of_zarr:
            xr.testing.assert_equal(of_zarr["s0"].variable.load(), after[0].variable)


def level_of(place: Path, level: int | None) -> xr.DataArray:
    how: dict[str, Any] = {} if level is None else {"level": level}
    with xr.open_dataset(place, engine="n5", group="a", **how) as found:
        (image,) = found.load().data_vars.values()
        return image


@pytest.mark.parametrize("target", TARGETS)
def test_finished_copy_of_a_dataset_is_not_repeated(tmp_path: Path, target: Any) -> None:
    kept, encoding = dataset()
    place, other = tmp_path / "a.n5", tmp_path / TARGETS[target]
    kept.n5.to_n5(place, encoding=encoding)
    copy(place, other, format=target)
    report = copy(place, other, format=target, resume=True)
    assert (report.kept > 0, report.written) == (True, 0)
    open_array(place, "single", mode="r+")[2:4] = 8
    with pytest.raises(NodeExistsError, match="single"):
        copy(place, other, format=target, resume=True)
    copy(place, other, format=target, mode="w")
    xr.testing.assert_identical(opened(other), opened(place))


@pytest.mark.parametrize("target", ["zarr2", "zarr3"])
def test_fill_value_of_a_plain_array_is_one_for_xarray(tmp_path: Path, target: Any) -> None:
    attributes = {"_FillValue": -2.5}
    to_n5(np.array([1, -2.5, 0, 7]), tmp_path / "a.n5", "a", axes=["x"], attributes=attributes)
    copy(tmp_path / "a.n5", tmp_path / "b.zarr", format=target)
    with xr.open_zarr(tmp_path / "b.zarr") as of_zarr:
        np.testing.assert_array_equal(of_zarr["a"], [1, np.nan, 0, 7])
