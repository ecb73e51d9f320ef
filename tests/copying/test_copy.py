"""Copies between formats: the same numbers, the same places, and attributes that come back."""

from __future__ import annotations

import json
import math
import re
import warnings
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from tests.conftest import CORPUS, NO_CORPUS
from tests.support.containers import FULL, NAMES, PAIRS, digest
from tests.support.exhaustive import some
from tests.whole.test_corpus import PLAIN, component_of
from tests.whole.test_every_format import ATTRIBUTES, AXES, X, dataset
from xarray_n5 import (
    Array,
    Axis,
    ChunkError,
    MetadataError,
    NodeExistsError,
    ResumeError,
    copy,
    create_array,
    create_group,
    from_n5,
    open_array,
    open_group,
    repair,
    to_n5,
)
from xarray_n5.arrays.open import open_node
from xarray_n5.codecs.gzip import Gzip
from xarray_n5.copying.array_copy import CopyOptions
from xarray_n5.copying.copy import begin_copy
from xarray_n5.dialects.list_order import keys_to_reverse, reverse_lists
from xarray_n5.model.conversions import converted
from xarray_n5.model.roundtrip_attrs import COPIED

CONTAINERS = sorted({row["container"] or row["path"] for row in PLAIN})

ODD = ("sparse_huge", "string*", "varlength*")
"""What a container of Java's holds that has no end, or is no array of numbers."""


def coordinates(place: Path, path: str) -> dict[Any, Any]:
    """Return the coordinates that xarray shows, each as values and attributes."""
    with xr.open_dataset(place, engine="n5", group=path or None) as opened:
        return {name: (c.dims, c.to_numpy().tolist(), c.attrs) for name, c in opened.coords.items()}


def facts(array: Array) -> list[tuple[Any, ...]]:
    """Return what is known of an array's axes, but for what they count."""
    return [(a.name, a.unit, a.scale, a.offset, a.labels) for a in array.axes]


def check_same(one: Any, other: Any, *, placed: bool = True) -> None:
    """Every node is there, with the same attributes; but for a note where its places were told."""
    added = other.attrs.get(COPIED, {}).get("added", {})
    kept = {k: v for k, v in other.attrs.items() if k not in {COPIED, *added}}
    assert kept == dict(one.attrs)
    assert not placed or kept == dict(other.attrs)
    if not isinstance(one, Array):
        names = [name for name in one if not any(fnmatch(name, each) for each in ODD)]
        assert sorted(names) == sorted(other)
        for name in names:
            check_same(one[name], other[name], placed=placed)


@pytest.mark.skipif(CORPUS is None, reason=NO_CORPUS)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:.*:RuntimeWarning")
@pytest.mark.parametrize("container", some(CONTAINERS, 4))
def test_what_others_wrote_goes_to_zarr_and_back(
    corpus: Path, tmp_path: Path, container: str
) -> None:
    source, zarr, back = corpus / container, tmp_path / "a.zarr", tmp_path / "b.n5"
    rows = [row for row in PLAIN if (row["container"] or row["path"]) == container]
    # What has thousands of chunks that were never stored would become as many files.
    large = any(math.prod(row["grid"]) > 1000 for row in rows)
    copy(source, zarr, format="zarr2", without=ODD, chunks="auto" if large else None)
    copy(zarr, back)
    # The places of BigDataViewer's views may be in an XML file, those of a level in its group;
    # neither is copied with the array.
    elsewhere = "pybdv" in container or re.search(r"/s\d+$", container)
    if "xarray" in container:
        opened = [xr.open_dataset(place, engine="n5").load() for place in (source, zarr, back)]
        xr.testing.assert_identical(opened[1], opened[0])
        xr.testing.assert_identical(opened[2], opened[0])
    else:
        check_same(open_node(source), open_node(back), placed=not elsewhere)
    for row in rows:
        path = component_of(row) if row["container"] else ""
        for place in (zarr, back):
            assert digest(open_array(place, path)[...]) == row["sha256_zyx"]
    for row in rows[:: max(1, len(rows) // 4)]:
        path = component_of(row) if row["container"] else ""
        before = coordinates(source, path)
        assert coordinates(zarr, path) == before == coordinates(back, path)


def tree(place: Path, form: Any) -> str:
    """Store a tree of arrays and groups, and return where."""
    url = str(place / NAMES[form])
    create_group(url, attributes={"lab": "one"}, format=form)
    to_n5(da.from_array(X, chunks=(4, 5, 10)), url, "em/raw", axes=AXES, attributes=ATTRIBUTES)
    to_n5(X[0], url, "em/deep/plane", axes=["y", "x"], chunks=(5, 10), compression=Gzip(level=3))
    open_group(url, "em", mode="r+").attrs["of"] = {"a": [1.5, None]}
    return url


@pytest.mark.matrix(3)
@PAIRS
def test_trees_go_from_any_format_to_any_other_and_back(
    tmp_path: Path, first: Any, second: Any
) -> None:
    url, other = tree(tmp_path, first), str(tmp_path / f"copy-{NAMES[second]}")
    copy(url, other, format=second)
    copy(other, tmp_path / f"back-{NAMES[first]}", format=first)
    back = open_group(tmp_path / f"back-{NAMES[first]}")
    check_same(open_group(url), back)
    for path in ("em/raw", "em/deep/plane"):
        before: Any = open_array(url, path)
        for again in (open_array(other, path), back[path]):
            assert isinstance(again, Array)
            assert (again.shape, again.chunks, again.dtype) == (
                before.shape,
                before.chunks,
                before.dtype,
            )
            assert (again[...] == before[...]).all()
            assert again.compression == before.compression
            assert facts(again) == facts(before)


@pytest.mark.parametrize("target", ["zarr2", "n5"])
def test_datasets_that_xarray_wrote_open_identical(tmp_path: Path, target: Any) -> None:
    first = "n5" if target == "zarr2" else "zarr2"
    kept = dataset().drop_vars(["label", *(["mask"] if target == "n5" else [])])
    kept.n5.to_n5(tmp_path / NAMES[first], format=first)
    copy(tmp_path / NAMES[first], tmp_path / NAMES[target], format=target)
    again = xr.open_dataset(tmp_path / NAMES[target], engine="n5")
    xr.testing.assert_identical(again.load(), kept)


@pytest.mark.parametrize("target", ["n5", "zarr2", "zarr3", "hdf5"])
@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_masks_and_scales_of_netcdf_survive(tmp_path: Path, target: Any, engine: Any) -> None:
    pytest.importorskip("netCDF4" if engine == "netcdf4" else engine)
    values = {"a": ("x", [1.0, 0.0, np.nan]), "packed": ("x", [1.0, 1.5, np.nan])}
    kept = xr.Dataset(values, {"x": ("x", [0.0, 2.0, 4.0], {"units": "nm"})})
    kept["packed"].encoding = {"dtype": "u1", "_FillValue": 255, "scale_factor": 0.5}
    kept["a"].encoding = {"missing_value": np.nan}
    kept.to_netcdf(tmp_path / "k.h5", engine=engine)
    place = tmp_path / f"copy_{NAMES[target]}"
    copy(tmp_path / "k.h5", place, format=target)
    again = xr.open_dataset(place, engine="n5", mask_and_scale=True).load()
    xr.testing.assert_identical(again, kept)
    assert again["packed"].dtype == kept["packed"].dtype
    if target.startswith("zarr"):
        xr.testing.assert_equal(xr.open_zarr(place, consolidated=False).load(), kept)
    cropped = tmp_path / f"part_{NAMES[target]}"
    copy(tmp_path / "k.h5", cropped, format=target, bounds={"x": (2, 4)})
    part = xr.open_dataset(cropped, engine="n5", mask_and_scale=True)
    xr.testing.assert_identical(part.load(), kept.isel(x=slice(1, None)))


def test_a_copy_in_zarr_is_opened_by_xarray_alone(tmp_path: Path) -> None:
    copy(tree(tmp_path, "n5"), tmp_path / "a.zarr", source_path="em", format="zarr2")
    with xr.open_zarr(tmp_path / "a.zarr", consolidated=False) as opened:
        assert opened["raw"].dims == ("z", "y", "x")
        assert (opened["raw"].to_numpy() == X).all()


def image() -> dict[str, Any]:
    """Return OME-NGFF's image as N5 holds it, x first."""
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "xyz"]
    scale = {"type": "scale", "scale": [1, 2, 4]}
    shift = {"type": "translation", "translation": [0.5, 0, 7]}
    datasets = [{"path": "s0", "coordinateTransformations": [scale, shift]}]
    return {"version": "0.4", "axes": axes, "datasets": datasets}


def test_images_of_ome_ngff_are_listed_as_each_format_has_them(tmp_path: Path) -> None:
    attributes = {"multiscales": [image()]}
    create_group(tmp_path / "a.n5", "image", attributes=attributes)
    to_n5(X, tmp_path / "a.n5", "image/s0")
    copy(tmp_path / "a.n5", tmp_path / "b.zarr", format="zarr2")
    there = json.loads((tmp_path / "b.zarr/image/.zattrs").read_text())["multiscales"][0]
    assert [axis["name"] for axis in there["axes"]] == ["z", "y", "x"]
    assert there["datasets"][0]["coordinateTransformations"][0]["scale"] == [4, 2, 1]
    before, again = (open_array(tmp_path / name, "image/s0") for name in ("a.n5", "b.zarr"))
    assert [(a.name, a.scale, a.offset) for a in again.axes] == [
        ("z", 4, 7),
        ("y", 2, 0),
        ("x", 1, 0.5),
    ]
    assert facts(again) == facts(before)
    copy(tmp_path / "b.zarr", tmp_path / "c.n5")
    assert dict(open_group(tmp_path / "c.n5", "image").attrs) == attributes


def test_paintera_lists_are_turned_and_come_back(tmp_path: Path) -> None:
    attributes = {"resolution": [4, 5, 40], "offset": [0, 7, 100]}
    to_n5(X, tmp_path / "a.n5", "raw", attributes=attributes)
    copy(tmp_path / "a.n5", tmp_path / "b.zarr", source_path="raw", path="raw", format="zarr2")
    there = open_array(tmp_path / "b.zarr", "raw")
    assert (there.attrs["resolution"], there.attrs["offset"]) == ([40, 5, 4], [100, 7, 0])
    assert [(a.scale, a.offset) for a in there.axes] == [(40, 100), (5, 7), (4, 0)]
    copy(tmp_path / "b.zarr", tmp_path / "c.n5", source_path="raw", path="raw")
    assert dict(open_array(tmp_path / "c.n5", "raw").attrs) == attributes


def test_a_level_alone_keeps_the_place_that_its_group_told(tmp_path: Path) -> None:
    group = {"resolution": [4, 4, 40], "units": ["nm"] * 3, "axes": ["x", "y", "z"]}
    group["downsamplingFactors"] = [[1, 1, 1], [2, 2, 1]]
    create_group(tmp_path / "a.n5", "em", attributes=group)
    for level in ("s0", "s1"):
        to_n5(X, tmp_path / "a.n5", f"em/{level}")
    copy(tmp_path / "a.n5", tmp_path / "b.n5", source_path="em/s1", path="one")
    assert facts(open_array(tmp_path / "b.n5", "one")) == facts(
        open_array(tmp_path / "a.n5", "em/s1")
    )


@FULL
def test_a_part_lies_where_it_was(tmp_path: Path, form: Any) -> None:
    url, part = tree(tmp_path, "n5"), tmp_path / f"part-{NAMES[form]}"
    region = (slice(2, 7), slice(None), slice(11, 23))
    copy(url, part, source_path="em/raw", path="raw", format=form, region=region)
    again = open_array(part, "raw")
    assert (again[...] == X[region]).all()
    assert [axis.offset for axis in again.axes] == [20 + 2 * 40, 0, -8 + 11 * 4]
    assert {key: again.attrs[key] for key in ATTRIBUTES} == ATTRIBUTES


def test_chunks_compression_and_type_are_changed(tmp_path: Path) -> None:
    wish: Any = {"chunks": (3, 7, 8), "compression": "zstd", "dtype": "u4"}
    copy(tree(tmp_path, "n5"), tmp_path / "b.n5", source_path="em/raw", path="raw", **wish)
    again = open_array(tmp_path / "b.n5", "raw")
    assert (again.chunks, again.compression.name) == ((3, 7, 8), "zstd")
    assert again.dtype == "u4"
    assert (again[...] == X).all()


def test_numbers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    begun = begin_copy(
        tree(tmp_path, "n5"), "em/raw", tmp_path / "b.n5", options=CopyOptions(dtype="uint8")
    )
    with pytest.raises(ValueError, match="uint8 cannot represent"):
        begun.compute()


@pytest.mark.parametrize(
    ("before", "after", "number"),
    [
        ("f8", "f4", 1e300),
        ("i4", "f2", 70000),
        ("i8", "f8", 2**53 + 1),
        ("u8", "f4", 2**64 - 1),
        ("f8", "u8", 2.0**64),
        ("f4", "i8", 2.0**63),
        ("f4", "i4", 1.5),
        ("f8", "i4", np.nan),
        ("i8", "u8", -1),
        ("u8", "i8", 2**64 - 1),
        ("u1", "?", 2),
        ("f4", "?", 0.5),
        ("c16", "f8", 1 + 2j),
        ("c16", "i4", 1 + 2j),
        ("c16", "c8", 1e300j),
        ("i4", "c8", 2**24 + 1),
    ],
)
def test_no_number_becomes_another_one(before: str, after: str, number: Any) -> None:
    block = np.array([1, number], before)
    with np.errstate(all="raise"), pytest.raises(ValueError, match="cannot represent"):
        converted(block, np.dtype(after))
    assert converted(block[:1], np.dtype(after)).tolist() == [1]


@pytest.mark.parametrize(
    ("before", "after", "numbers"),
    [
        ("f8", "f4", [0.1, np.nan, np.inf, -np.inf]),
        ("i8", "f8", [-(2**63), 2**53, 2**62]),
        ("f8", "i8", [-(2.0**63), 2.0**62, -0.0]),
        ("f4", "u8", [2.0**63]),
        ("u8", "f4", [2**63]),
        ("i8", "f2", [-2048, 2048]),
        ("c16", "f4", [1 + 0j, 2.5]),
        ("?", "f4", [True, False]),
    ],
)
def test_numbers_that_fit_are_converted(before: str, after: str, numbers: Any) -> None:
    found = converted(np.array(numbers, before), np.dtype(after))
    assert found.dtype == after
    np.testing.assert_array_equal(found, np.array(numbers).real.astype(after))


@pytest.mark.parametrize(
    ("before", "after"), [("S2", "i4"), ("U3", "U2"), ("i4", "S9"), ("M8[s]", "i8")]
)
def test_what_is_no_number_becomes_none(tmp_path: Path, before: str, after: str) -> None:
    create_array(tmp_path / "a.zarr", "a", shape=(2,), dtype=before, format="zarr2")
    with pytest.raises(MetadataError, match="cannot convert"):
        copy(tmp_path / "a.zarr", tmp_path / "b.zarr", dtype=after)
    assert not (tmp_path / "b.zarr").exists()


def test_holes_stay_holes(tmp_path: Path) -> None:
    create_array(tmp_path / "a.n5", "a", shape=(40, 40), dtype="u2", chunks=10)[12:15] = 3
    copy(tmp_path / "a.n5", tmp_path / "b.n5")
    again = open_array(tmp_path / "b.n5", "a")
    assert sorted(again.node.stored_chunks()) == [(1, n) for n in range(4)]
    assert (from_n5(again) == from_n5(tmp_path / "a.n5", "a")).all().compute()


def test_zarr_keeps_its_layout_and_its_mask(tmp_path: Path) -> None:
    layout = {"order": "F", "dimension_separator": "/", "fill_value": 9, "dtype": ">u2"}
    attributes = {"_ARRAY_DIMENSIONS": ["z", "y", "x"]}
    place = tmp_path / "a.zarr/raw"
    to_n5(X, tmp_path / "a.zarr", "raw", format="zarr2", layout=layout, attributes=attributes)
    before = xr.open_dataset(place, engine="n5").load()
    copy(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr2")
    assert json.loads((place / ".zarray").read_text()) == json.loads(
        (tmp_path / "b.zarr/raw/.zarray").read_text()
    )
    copy(tmp_path / "a.zarr", tmp_path / "c.n5")
    copy(tmp_path / "c.n5", tmp_path / "d.zarr", format="zarr2")
    for name in ("c.n5", "d.zarr"):
        xr.testing.assert_equal(xr.open_dataset(tmp_path / name / "raw", engine="n5"), before)


LABELS = np.array([[0, 1, 2], [2**63 + 1, 2**64 - 1, 0]], "u8")


@pytest.mark.parametrize("region", [None, (slice(0, 2), slice(1, 3))], ids=["whole", "part"])
@pytest.mark.parametrize("names", [None, ["a", "b"]], ids=["unnamed", "named-otherwise"])
def test_a_fill_value_that_did_not_mask_does_not_begin_to(
    tmp_path: Path, region: Any, names: Any
) -> None:
    attributes = {"DIMENSION_LABELS": names} if names else {}
    layout = {"fill_value": 0}
    place: dict[str, Any] = {"format": "zarr2", "layout": layout, "attributes": attributes}
    create_array(tmp_path / "a.zarr", "em", shape=(2, 3), dtype="u8", **place)[...] = LABELS
    assert "_ARRAY_DIMENSIONS" not in open_array(tmp_path / "a.zarr", "em").attrs
    copy(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr2", region=region)
    again = xr.open_dataset(tmp_path / "b.zarr/em", engine="n5")["em"]
    assert again.dtype == "u8"
    assert (again.to_numpy() == LABELS[region or ()]).all()
    assert again.dims == (("a", "b") if names else ("y", "x"))
    assert dict(open_array(tmp_path / "b.zarr", "em").attrs) == attributes


@pytest.mark.matrix(6)
@pytest.mark.parametrize("way", ["n5", "hdf5"])
@pytest.mark.parametrize("fill", [9, 0, None, -1])
def test_zarr_comes_back_with_its_own_documents(tmp_path: Path, way: Any, fill: Any) -> None:
    layout = {"fill_value": fill, "order": "F", "dimension_separator": "/", "dtype": ">i4"}
    place: dict[str, Any] = {"format": "zarr2", "layout": layout}
    attributes = {"title": "x"}
    array = create_array(
        tmp_path / "a.zarr", "em/raw", shape=(3, 4), dtype="i4", attributes=attributes, **place
    )
    array[...] = np.arange(12).reshape(3, 4)
    copy(tmp_path / "a.zarr", tmp_path / NAMES[way], format=way)
    copy(tmp_path / NAMES[way], tmp_path / "b.zarr", format="zarr2")
    for name in (".zarray", ".zattrs"):
        before, again = (
            json.loads((tmp_path / place / "em/raw" / name).read_text())
            for place in ("a.zarr", "b.zarr")
        )
        assert again == before


def test_what_a_mask_became_since_it_was_copied_counts(tmp_path: Path) -> None:
    layout, names = {"fill_value": 9}, {"_ARRAY_DIMENSIONS": ["z", "y", "x"]}
    to_n5(X, tmp_path / "a.zarr", "raw", format="zarr2", layout=layout, attributes=names)
    copy(tmp_path / "a.zarr", tmp_path / "b.n5")
    open_array(tmp_path / "b.n5", "raw", mode="r+").attrs["_FillValue"] = 5
    copy(tmp_path / "b.n5", tmp_path / "c.zarr", format="zarr2")
    masked = [xr.open_dataset(tmp_path / n / "raw", engine="n5") for n in ("b.n5", "c.zarr")]
    xr.testing.assert_equal(*masked)
    assert int(masked[0]["raw"].isnull().sum()) == int((X == 5).sum())


def test_nothing_is_written_where_something_cannot_be_held(tmp_path: Path) -> None:
    url = tree(tmp_path, "zarr2")
    to_n5(X[0] * 1j, url, "em/mask", format="zarr2")
    with pytest.raises(MetadataError, match=r"em/mask.*complex"):
        copy(url, tmp_path / "b.n5")
    assert not (tmp_path / "b.n5").exists()
    for name, without in {"b.n5": ["em/mas?"], "c.n5": "em/mas?"}.items():
        copy(url, tmp_path / name, without=without)
        assert sorted(open_group(tmp_path / name, "em")) == ["deep", "raw"]


def test_what_is_there_stays(tmp_path: Path) -> None:
    url, other = tree(tmp_path, "n5"), tmp_path / "b.n5"
    to_n5(X + 1, other, "em/raw")
    to_n5(X, other, "more")
    open_group(other, mode="r+").attrs["mine"] = 1
    with pytest.raises(NodeExistsError):
        copy(url, other)
    assert (open_array(other, "em/raw")[...] == X + 1).all()
    copy(url, other, mode="a")
    assert (open_array(other, "em/raw")[...] == X).all()
    assert sorted(open_group(other)) == ["em", "more"]
    assert open_group(other).attrs["mine"] == 1
    copy(url, other, mode="w")
    assert sorted(open_group(other)) == ["em"]
    assert "mine" not in open_group(other).attrs


def test_a_tree_that_was_not_finished_is_resumed_but_not_begun_again(tmp_path: Path) -> None:
    url, other = tree(tmp_path, "n5"), tmp_path / "b.n5"
    chunk = next(Path(url).glob("em/raw/*/*/*"))
    data = chunk.read_bytes()
    chunk.write_bytes(b"x")
    with pytest.raises(ChunkError):
        copy(url, other)
    with pytest.raises(NodeExistsError, match="resume"):
        copy(url, other)
    chunk.write_bytes(data)
    with pytest.raises(ResumeError, match="chunks of its source have changed") as caught:
        copy(url, other, resume=True)
    copy(url, other, resume=re.findall("resume='([0-9a-f]{16})'", str(caught.value))[0])
    assert (open_array(other, "em/raw")[...] == X).all()
    assert not list(other.rglob(".xn5/open*"))


def test_a_repaired_copy_is_resumed(tmp_path: Path) -> None:
    url, other = tree(tmp_path, "n5"), tmp_path / "b.n5"
    copy(url, other)
    next(chunk for chunk in other.glob("em/raw/*/*/*")).write_bytes(b"\0")
    assert repair(other, "em/raw").attrs["repaired"] == 1
    resumed = copy(url, other, resume=True)
    assert [resumed.written, resumed.arrays["em/deep/plane"].kept] == [1, 9]
    assert (open_array(other, "em/raw", missing="error")[...] == X).all()
    again = copy(url, other, resume=True)
    assert {node.path for node in again.to_datatree().leaves} == {"/em/raw", "/em/deep/plane"}
    assert again.written == again.nbytes == again.seconds == 0


def test_the_report_of_an_array_whose_copy_had_finished_is_that_of_its_chunks(
    tmp_path: Path,
) -> None:
    url, other = tree(tmp_path, "n5"), tmp_path / "b.zarr"
    for _ in range(2):
        report = copy(url, other, source_path="em/raw", path="raw", resume=True)
        assert report.arrays[""].url == f"{other}/raw"
        assert report.arrays[""].chunks == open_array(other, "raw").grid.size
    assert report.written == 0


def test_a_copy_onto_its_source_is_not_taken_for_finished(tmp_path: Path) -> None:
    url = tree(tmp_path, "n5")
    with pytest.raises(NodeExistsError, match="the source itself"):
        copy(url, url, resume=True)
    with pytest.raises(NodeExistsError, match="the source itself"):
        copy(url, url, source_path="em/raw", path="em/raw", resume=True)


@pytest.mark.parametrize("form", ["n5", "zarr2", "hdf5"])
def test_a_copy_into_its_source_is_refused(tmp_path: Path, form: Any) -> None:
    url = tree(tmp_path, form)
    before = sorted(tmp_path.rglob("*"))
    for inner, path in [("", "sub"), ("em", "em/sub/deep")]:
        with pytest.raises(NodeExistsError, match="in the source of the copy"):
            copy(url, url, source_path=inner, path=path)
    if form != "hdf5":
        with pytest.raises(NodeExistsError, match="in the source of the copy"):
            copy(url, f"{url}/sub.n5")
    assert sorted(tmp_path.rglob("*")) == before
    copy(url, url, source_path="em", path="em2")


def test_an_unknown_dialect_is_refused_whatever_is_copied(tmp_path: Path) -> None:
    to_n5(X, tmp_path / "a.n5", "plain")
    with pytest.raises(ValueError, match="unknown dialect 'nonsense'"):
        copy(tmp_path / "a.n5", tmp_path / "b.n5", dialect="nonsense")
    assert not (tmp_path / "b.n5").exists()


def test_a_matrix_and_labels_survive(tmp_path: Path) -> None:
    axes = [Axis(name="c", labels=("a", "b")), Axis(name="y", unit="nm", scale=2.0), Axis(name="x")]
    to_n5(X[:2], tmp_path / "a.n5", "a", axes=axes)
    copy(tmp_path / "a.n5", tmp_path / "b.zarr", source_path="a", path="a", format="zarr2")
    assert facts(open_array(tmp_path / "b.zarr", "a")) == facts(open_array(tmp_path / "a.n5", "a"))


@pytest.mark.parametrize("from_n5_on", [True, False])
def test_turned_twice_is_as_it_was(from_n5_on: bool) -> None:
    attributes = {"multiscales": [image()], "resolution": [1, 2], "offset": [3, 4]}
    if not from_n5_on:
        attributes = reverse_lists(attributes, list(attributes))
    keys = keys_to_reverse(attributes, "a", from_n5=from_n5_on)
    assert set(keys) == set(attributes)
    assert reverse_lists(attributes, keys) != attributes
    assert reverse_lists(reverse_lists(attributes, keys), keys) == attributes


def test_numbers_of_a_copy_are_counted(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        begun = begin_copy(tree(tmp_path, "n5"), "", tmp_path / "b.n5")
    assert begun.chunks == 3 * 3 * 3 + 3 * 3
    assert begun.compute().written == begun.chunks


@pytest.mark.parametrize("name", NAMES.values())
def test_an_open_array_or_group_is_copied(tmp_path: Path, name: str) -> None:
    group = create_group(tmp_path / f"a_{name}")
    array = create_array(group.container, "em/raw", shape=(4, 6), dtype="u1", chunks=2)
    array[...] = 7
    copy(array, tmp_path / "b.n5", path="raw")
    copy(group["em"], tmp_path / "c.n5")
    copy(group, tmp_path / "d.n5", source_path="em/raw", path="raw")
    for other in "bcd":
        assert (open_array(tmp_path / f"{other}.n5", "raw")[...] == 7).all()


def test_an_array_that_lost_its_metadata_is_no_empty_group(tmp_path: Path) -> None:
    for name in ("lost", "kept"):
        to_n5(np.ones((4, 4)), tmp_path / "a.n5", f"em/{name}", chunks=2)
    (tmp_path / "a.n5/em/lost/attributes.json").unlink()
    with pytest.raises(
        MetadataError, match=r"em/lost has files that look like chunks, .* with without='em/lost'"
    ):
        copy(tmp_path / "a.n5", tmp_path / "b.n5")
    assert not (tmp_path / "b.n5").exists()
    copy(tmp_path / "a.n5", tmp_path / "b.n5", without="em/lost")
    assert list(open_group(tmp_path / "b.n5", "em")) == ["kept"]


def test_arrays_of_another_format_are_named(tmp_path: Path) -> None:
    to_n5(np.ones((4, 4)), tmp_path / "a.n5", "in_n5", chunks=2)
    to_n5(np.ones((4, 4)), tmp_path / "a.zarr", chunks=2)
    (tmp_path / "a.zarr").rename(tmp_path / "a.n5/in_zarr2")
    with pytest.warns(UserWarning, match=r"in_zarr2 is not copied: .*open it separately"):
        copy(tmp_path / "a.n5", tmp_path / "b.n5")
    assert list(open_group(tmp_path / "b.n5")) == ["in_n5"]
