"""Copies between formats: the same numbers, the same places, and attributes that nobody reads."""

from __future__ import annotations

import json
import math
import re
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
from tests.whole.test_every_format import ATTRIBUTES, AXES, X
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
from xarray_n5.codecs.gzip import Gzip

CONTAINERS = sorted({row["container"] or row["path"] for row in PLAIN})

ODD = ("sparse_huge", "string*", "varlength*")
"""What a container of Java's holds that has no end, or is no array of numbers."""


def coordinates(place: Path, path: str) -> dict[Any, Any]:
    """Return the coordinates that xarray shows, each as values and attributes."""
    with xr.open_dataset(place, engine="n5", group=path or None) as opened:
        return {name: (c.dims, c.to_numpy().tolist(), c.attrs) for name, c in opened.coords.items()}


def facts(array: Array) -> list[tuple[Any, ...]]:
    """Return what is known of an array's axes, with the names that they have when opened."""
    axes = array.geometry().with_names().axes
    return [(a.name, a.unit, a.step, a.offset, a.labels) for a in axes]


@pytest.mark.skipif(CORPUS is None, reason=NO_CORPUS)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:.*:RuntimeWarning")
@pytest.mark.parametrize("container", some(CONTAINERS, 4))
def test_containers_of_other_programs_are_copied_to_zarr_and_back(
    corpus: Path, tmp_path: Path, container: str
) -> None:
    source, zarr, back = corpus / container, tmp_path / "a.zarr", tmp_path / "b.n5"
    rows = [row for row in PLAIN if (row["container"] or row["path"]) == container]
    # What has thousands of chunks that were never stored would become as many files.
    large = any(math.prod(row["grid"]) > 1000 for row in rows)
    copy(source, zarr, format="zarr2", without=ODD, chunks="auto" if large else None)
    copy(zarr, back)
    if "xarray" in container:
        opened = [xr.open_dataset(place, engine="n5").load() for place in (source, zarr, back)]
        xr.testing.assert_identical(opened[1], opened[0])
        xr.testing.assert_identical(opened[2], opened[0])
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
def test_trees_are_copied_from_any_format_to_any_other_and_back(
    tmp_path: Path, first: Any, second: Any
) -> None:
    url, other = tree(tmp_path, first), str(tmp_path / f"copy-{NAMES[second]}")
    copy(url, other, format=second)
    copy(other, tmp_path / f"back-{NAMES[first]}", format=first)
    for place in (other, tmp_path / f"back-{NAMES[first]}"):
        assert dict(open_group(place).attrs) == {"lab": "one"}
        assert dict(open_group(place, "em").attrs) == {"of": {"a": [1.5, None]}}
        assert sorted(open_group(place, "em")) == ["deep", "raw"]
        assert open_array(place, "em/raw").attrs.items() >= ATTRIBUTES.items()
        for path in ("em/raw", "em/deep/plane"):
            before, again = open_array(url, path), open_array(place, path)
            assert (again.shape, again.chunks) == (before.shape, before.chunks)
            assert (again.dtype, again.compression) == (before.dtype, before.compression)
            assert (again[...] == before[...]).all()
            assert facts(again) == facts(before)


@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
def test_documents_are_kept_within_a_format(tmp_path: Path, form: Any) -> None:
    copy(tree(tmp_path, form), tmp_path / "b", format=form)
    folder = tmp_path / NAMES[form]
    documents = [*folder.rglob("*.json"), *folder.rglob(".z[ag]*")]
    assert len(documents) > 3
    for path in documents:
        other = tmp_path / "b" / path.relative_to(folder)
        before, after = (json.loads(each.read_text()) for each in (path, other))
        after.pop("consolidated_metadata", None)
        assert {"attributes": {}, **after} == {"attributes": {}, **before}


def test_plain_arrays_in_zarr_are_opened_by_xarray_alone(tmp_path: Path) -> None:
    copy(f"{tree(tmp_path, 'n5')}/em", tmp_path / "a.zarr", format="zarr2")
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


DESCRIBED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "an image of OME-NGFF": ("em/s0", {"multiscales": [image()]}, {}),
    "Paintera": ("raw", {}, {"resolution": [4, 5, 40], "offset": [0, 7, 100]}),
    "a level": (
        "em/s1",
        {
            "resolution": [4, 4, 40],
            "units": ["nm"] * 3,
            "axes": ["x", "y", "z"],
            "downsamplingFactors": [[1, 1, 1], [2, 2, 1]],
        },
        {},
    ),
}
"""Paths in N5, the attributes of the group, and those of the array."""


@FULL
@pytest.mark.parametrize("name", DESCRIBED)
def test_an_array_alone_lies_where_it_was(tmp_path: Path, form: Any, name: str) -> None:
    path, around, attributes = DESCRIBED[name]
    create_group(tmp_path / "a.n5", "em", attributes=around)
    to_n5(X, tmp_path / "a.n5", path, attributes=attributes)
    place = tmp_path / "to" / NAMES[form]
    copy(tmp_path / "a.n5" / path, place / "one", format=form)
    again = open_array(place, "one")
    assert facts(again) == facts(open_array(tmp_path / "a.n5", path))
    assert any(axis.placed for axis in again.axes)


def test_a_matrix_and_labels_survive(tmp_path: Path) -> None:
    axes = [Axis(name="c", labels=("a", "b")), Axis(name="y", unit="nm", scale=2.0), Axis(name="x")]
    to_n5(X[:2], tmp_path / "a.n5", "a", axes=axes)
    with pytest.warns(UserWarning, match="labels of axis 'c'"):
        copy(tmp_path / "a.n5/a", tmp_path / "b.zarr/a")
    assert (
        facts(open_array(tmp_path / "b.zarr", "a"))[1:]
        == facts(open_array(tmp_path / "a.n5", "a"))[1:]
    )


def test_chunks_and_compression_are_changed(tmp_path: Path) -> None:
    wish: Any = {"chunks": (3, 7, 8), "compression": "zstd"}
    url = tree(tmp_path, "n5")
    for name in ("b.n5", "b.zarr"):
        copy(f"{url}/em/raw", tmp_path / name / "raw", **wish)
        again = open_array(tmp_path / name, "raw")
        assert (again.chunks, again.compression.name) == ((3, 7, 8), "zstd")
        assert (again[...] == X).all()
    with pytest.raises(MetadataError):
        copy(tmp_path / "b.n5", tmp_path / "c.h5", compression="lz4")
    assert not (tmp_path / "c.h5").exists()


def test_missing_chunks_stay_missing(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("names", [None, ["a", "b"]], ids=["unnamed", "named-otherwise"])
@pytest.mark.parametrize("target", ["zarr2", "zarr3"])
def test_a_fill_value_that_did_not_mask_does_not_begin_to(
    tmp_path: Path, names: Any, target: Any
) -> None:
    labels = np.array([[0, 1, 2], [2**63 + 1, 2**64 - 1, 0]], "u8")
    attributes = {"DIMENSION_LABELS": names} if names else {}
    place: dict[str, Any] = {"format": "zarr2", "attributes": attributes}
    array = create_array(
        tmp_path / "a.zarr", "em", shape=(2, 3), dtype="u8", layout={"fill_value": 0}, **place
    )
    array[...] = labels
    copy(tmp_path / "a.zarr", tmp_path / "b.zarr", format=target)
    again = xr.open_dataset(tmp_path / "b.zarr/em", engine="n5")["em"]
    assert again.dtype == "u8"
    assert (again.to_numpy() == labels).all()
    assert again.dims == (("a", "b") if names else ("y", "x"))


def test_nothing_is_written_where_something_cannot_be_held(tmp_path: Path) -> None:
    url = tree(tmp_path, "zarr2")
    to_n5(X[0] * 1j, url, "em/mask", format="zarr2")
    with pytest.raises(MetadataError, match=r"mask.*complex"):
        copy(url, tmp_path / "b.n5")
    assert not (tmp_path / "b.n5").exists()
    for name, without in {"b.n5": ["em/mas?"], "c.n5": "em/mas?"}.items():
        copy(url, tmp_path / name, without=without)
        assert sorted(open_group(tmp_path / name, "em")) == ["deep", "raw"]


def test_modes_decide_what_stays(tmp_path: Path) -> None:
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


def test_an_unfinished_copy_is_resumed_and_a_changed_source_refused(tmp_path: Path) -> None:
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


def test_the_report_of_a_finished_copy_of_an_array_has_its_chunks(tmp_path: Path) -> None:
    url, other = tree(tmp_path, "n5"), tmp_path / "b.zarr"
    for _ in range(2):
        report = copy(f"{url}/em/raw", other / "raw", resume=True)
        assert report.arrays[""].url == f"{other}/raw"
        assert report.arrays[""].chunks == open_array(other, "raw").grid.size
    assert report.written == 0


def test_a_copy_onto_its_source_is_not_taken_for_finished(tmp_path: Path) -> None:
    url = tree(tmp_path, "n5")
    for path in ("", "/em/raw"):
        with pytest.raises(NodeExistsError, match="the source itself"):
            copy(url + path, url + path, resume=True)


@pytest.mark.parametrize("form", ["n5", "zarr2", "hdf5"])
def test_a_copy_into_its_source_is_refused(tmp_path: Path, form: Any) -> None:
    url = tree(tmp_path, form)
    before = sorted(tmp_path.rglob("*"))
    for inner, path in [("", "/sub"), ("/em", "/em/sub/deep")]:
        with pytest.raises(NodeExistsError, match="in the source of the copy"):
            copy(url + inner, url + path)
    if form != "hdf5":
        with pytest.raises(NodeExistsError, match="in the source of the copy"):
            copy(url, f"{url}/sub.n5")
    assert sorted(tmp_path.rglob("*")) == before
    copy(f"{url}/em", f"{url}/em2")


@pytest.mark.parametrize("name", NAMES.values())
def test_open_arrays_and_groups_are_copied(tmp_path: Path, name: str) -> None:
    group = create_group(tmp_path / f"a_{name}")
    array = create_array(group.container, "em/raw", shape=(4, 6), dtype="u1", chunks=2)
    array[...] = 7
    copy(array, tmp_path / "b.n5/raw")
    copy(group["em"], tmp_path / "c.n5")
    copy(group["em"], create_group(tmp_path / f"d_{name}", "of"), mode="a")
    for other in ("b.n5", "c.n5", f"d_{name}/of"):
        assert (open_array(tmp_path / other, "raw")[...] == 7).all()


def test_an_array_that_lost_its_metadata_is_not_an_empty_group(tmp_path: Path) -> None:
    for name in ("lost", "kept"):
        to_n5(np.ones((4, 4)), tmp_path / "a.n5", f"em/{name}", chunks=2)
    (tmp_path / "a.n5/em/lost/attributes.json").unlink()
    with pytest.raises(MetadataError, match="without='em/lost'"):
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
