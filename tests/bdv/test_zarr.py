"""Projects in Zarr, in BigStitcher's layout: one OME-Zarr image for each view."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import xarray as xr
import zarr

import xarray_n5
import xarray_n5.bdv
from tests.bdv.test_open import NAMES, grid, steps_of
from tests.bdv.test_write import (
    CONFLICTS,
    PROJECTS,
    SECTIONS,
    check_same,
    coarser,
    image,
    later,
    opened,
)
from tests.support.exhaustive import some
from tests.support.projects import (
    FACTORS,
    Setup,
    bigdataviewer_opens,
    bigstitcher_reads,
    canonical,
    has_sections,
    level_shape,
    project_xml,
    values,
    write_zarr,
)
from xarray_n5 import MetadataError, NodeExistsError
from xarray_n5.bdv.written import shards_over

if TYPE_CHECKING:
    from pathlib import Path

    from xarray_n5.formats import FormatName

FORMS = ["zarr3", "zarr2"]

pytestmark = pytest.mark.filterwarnings("ignore:.*views are not stored")


def resaved(where: Path, form: FormatName, **options: Any) -> Path:
    """A project that BigStitcher resaved, with unknown elements and sections."""
    where.mkdir(exist_ok=True)
    loader = write_zarr(where / "x.ome.zarr", grid(), form=form, **options)
    steps, missing = steps_of(grid()), options.get("without", ())
    text = project_xml(grid(), steps, names=NAMES, loader=loader, missing=missing, more=SECTIONS)
    path = where / "project.xml"
    path.write_text(text.replace("<ViewSetups>", "<ViewSetups><!-- setups -->"), "utf-8")
    return path


def files(path: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}


# Reading


@pytest.mark.parametrize("form", FORMS)
def test_resaved_views_are_read_as_bigstitcher_reads_them(tmp_path: Path, form: FormatName) -> None:
    path = resaved(tmp_path, form, without=[(1, 2)])
    tree: Any = opened(path, chunks={})
    for level, factors in enumerate(FACTORS):
        ds = tree[f"s{level}"].to_dataset()
        for (t, setup), levels in bigstitcher_reads(path).items():
            at = {"t": t, "channel": setup % 2, "tile": setup // 2}
            np.testing.assert_array_equal(ds["project"].isel(at), levels[level][1])
            assert levels[level][0] == factors[::-1]
        shape = level_shape((6, 12, 16), factors)
        assert ds["project"].shape == (2, 2, 2, *shape)
        np.testing.assert_array_equal(
            ds["project"].isel(t=0, channel=1, tile=0), values((0, 1), level, shape)
        )
        assert bool(ds.missing.isel(t=1, channel=0, tile=1))
        assert ds.x.attrs["units"] == "um"
        assert float(ds.x[0]) == 0.5 * (factors[2] - 1) / 2


@pytest.mark.parametrize("size", [(7, 13, 17), (5, 9, 31)])
def test_levels_of_floored_sizes_have_whole_factors(tmp_path: Path, size: Any) -> None:
    setups = [Setup(id=0, shape=size)]
    loader = write_zarr(tmp_path / "x.zarr", setups, (0,))
    (tmp_path / "a.xml").write_text(project_xml(setups, loader=loader), "utf-8")
    tree: Any = opened(tmp_path / "a.xml")
    for level, factors in enumerate(FACTORS):
        ds = tree[f"s{level}"].to_dataset()
        assert ds["a"].shape[-3:] == level_shape(size, factors)
        assert [float(ds[a][1] - ds[a][0]) for a in "zyx"] == [
            2.0 * factors[0],
            *[0.5 * factors[1]] * 2,
        ]


@pytest.mark.parametrize("form", FORMS)
def test_factors_of_arrays_win_over_scales_in_another_order(
    tmp_path: Path, form: FormatName
) -> None:
    path = resaved(tmp_path, form)
    for document in (tmp_path / "x.ome.zarr").glob(
        "s*.zarr/" + ("zarr.json" if form == "zarr3" else ".zattrs")
    ):
        found = json.loads(document.read_text())
        (one,) = found.get("attributes", {}).get("ome", found)["multiscales"]
        for each in one["datasets"]:
            each["coordinateTransformations"][0]["scale"].reverse()
        document.write_text(json.dumps(found))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree: Any = opened(path)
    texts = {str(each.message) for each in caught}
    assert len(texts) == len(FACTORS) - 1  # one for each level, not for each view
    assert any("'downsamplingFactors' has [1.0, 2.0, 2.0]; using" in text for text in texts)
    assert float(tree["s1"].x[1] - tree["s1"].x[0]) == 1.0
    assert float(tree["s1"].z[1] - tree["s1"].z[0]) == 2.0


# Writing


@pytest.mark.matrix(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", PROJECTS)
def test_projects_are_stored_as_they_were_opened(tmp_path: Path, kind: str, form: Any) -> None:
    tree = opened(PROJECTS[kind](tmp_path))
    (tmp_path / "b").mkdir()
    tree.n5.to_bdv(tmp_path / "b/project.xml", format=form)
    again = opened(tmp_path / "b/project.xml")
    check_same(tree, again)
    assert xarray_n5.open_group(tmp_path / "b/project.ome.zarr").format == form
    read = bigstitcher_reads(tmp_path / "b/project.xml")
    for (t, setup), levels in read.items():
        for number, (factors, volume) in enumerate(levels):
            one = xr.open_dataset(
                tmp_path / "b/project.xml", engine="bdv", level=number, setup=setup, timepoint=t
            )
            np.testing.assert_array_equal(one["project"], volume)
            assert factors == FACTORS[number][::-1]


def test_the_xml_is_as_bigstitcher_writes_it(tmp_path: Path) -> None:
    several = xr.concat([image(), image() + 1], xr.Variable("t", [2, 3])).astype("u2")
    gaps = several.assign_coords(missing=(("t", "channel"), [[False, False], [True, False]]))
    gaps.n5.to_bdv(tmp_path / "dataset.xml", tmp_path / "out.zarr")
    loader = ET.parse(tmp_path / "dataset.xml").find("SequenceDescription/ImageLoader")  # noqa: S314 - our own
    assert loader is not None
    assert loader.attrib == {"format": "bdv.multimg.zarr", "version": "3.0"}
    assert [each.tag for each in loader] == ["zarr", "zgroups"]
    assert (loader[0].text, loader[0].attrib) == ("out.zarr", {"type": "relative"})
    assert [dict(each.attrib) for each in loader[1]] == [
        {"setup": s, "tp": t, "path": f"s{s}-t{t}.zarr", "indicies": "0 0"}
        for t, s in (("2", "0"), ("2", "1"), ("3", "1"))
    ]


@pytest.mark.parametrize("form", FORMS)
def test_the_container_is_as_bigstitcher_writes_it(tmp_path: Path, form: Any) -> None:
    big = xr.DataArray(np.zeros((4, 40, 300), "u2"), dims=("z", "y", "x"), name="a")
    um = {"units": "um"}
    big = big.assign_coords(
        z=("z", 2.0 * np.arange(4), um),
        y=("y", 0.5 * np.arange(40), um),
        x=("x", 0.5 * np.arange(300), um),
    )
    tree = xr.DataTree.from_dict({"s0": big.to_dataset(), "s1": coarser(big, 1, 2, 4).to_dataset()})
    encoding = {f"/s{n}": {"a": {"chunks": (2, 8, 8), "compression": "zstd"}} for n in (0, 1)}
    tree.n5.to_bdv(tmp_path / "a.xml", format=form, encoding=encoding)
    group: Any = zarr.open_group(tmp_path / "a.ome.zarr/s0-t0.zarr", mode="r")
    attributes = dict(group.attrs)
    if form == "zarr3":
        assert attributes["ome"]["version"] == "0.5"
    (one,) = attributes.get("ome", attributes)["multiscales"]
    assert [each["name"] for each in one["axes"]] == ["t", "c", "z", "y", "x"]
    assert [each.get("unit") for each in one["axes"]] == [None, None, *["micrometer"] * 3]
    assert [each["path"] for each in one["datasets"]] == ["0", "1"]
    assert [
        [transform[transform["type"]] for transform in each["coordinateTransformations"]]
        for each in one["datasets"]
    ] == [
        [[1, 1, 2, 0.5, 0.5], [0, 0, 0, 0, 0]],
        [[1, 1, 2, 1, 2], [0, 0, 0, 0.25, 0.75]],
    ]
    for level, shape in (("0", (1, 1, 4, 40, 300)), ("1", (1, 1, 4, 20, 75))):
        array: Any = group[level]
        assert (array.shape, array.chunks) == (shape, (1, 1, 2, 8, 8))
        sides = {"0": (1, 1, 2, 40, 128), "1": (1, 1, 2, 24, 80)}
        assert array.shards == (sides[level] if form == "zarr3" else None)
        assert (array.fill_value, array.dtype) == (0, np.uint16)
        factors = {"downsamplingFactors": [4, 2, 1, 1, 1]} if level == "1" else {}
        assert dict(array.attrs) == factors
        if form == "zarr3":
            assert array.metadata.dimension_names == ("t", "c", "z", "y", "x")
        else:
            assert array.metadata.dimension_separator == "/"


@pytest.mark.parametrize(
    ("chunks", "shape", "itemsize", "expected"),
    [
        ((64, 128, 128), (300, 1000, 5000), 2, (64, 1024, 2048)),
        ((64, 256, 256), (300, 9000, 9000), 2, (64, 1024, 1024)),
        ((64, 256, 256), (300, 9000, 9000), 4, (64, 1024, 1024)),
        ((512, 512, 512), (600, 600, 600), 8, None),
        ((8, 8, 8), (8, 8, 9), 1, (8, 8, 16)),
        ((8, 8, 8), (80, 8, 8), 1, None),
    ],
)
def test_shards_have_a_limit(chunks: Any, shape: Any, itemsize: int, expected: Any) -> None:
    assert shards_over(chunks, shape, itemsize) == expected


def test_shards_are_those_of_the_user(tmp_path: Path) -> None:
    stack = xr.DataArray(np.ones((8, 8, 8), "u1"), dims=("z", "y", "x"), name="a")
    for number, (shards, expected) in enumerate(
        [
            ((8, 4, 4), (1, 1, 8, 4, 4)),
            (None, None),
            (8, (1, 1, 8, 8, 8)),
            ("auto", (1, 1, 8, 8, 8)),
        ]
    ):
        xml = tmp_path / f"{number}.xml"
        own = {"a": {"chunks": 4, "shards": shards}}
        stack.n5.to_bdv(xml, format="zarr3", encoding=own)
        array = xarray_n5.open_array(xml.with_suffix(".ome.zarr"), "s0-t0.zarr/0")
        assert (array.shards, array.chunks) == (expected, (1, 1, 4, 4, 4))
    with pytest.raises(MetadataError, match="does not support shards"):
        stack.n5.to_bdv(tmp_path / "b.xml", tmp_path / "b.zarr", encoding=own)
    again = xr.open_dataset(tmp_path / "0.xml", engine="bdv", chunks={})
    again.n5.to_bdv(tmp_path / "c.xml", format="zarr3")
    assert xarray_n5.open_array(tmp_path / "c.ome.zarr", "s0-t0.zarr/0").shards == (1, 1, 8, 4, 4)


@pytest.mark.parametrize("form", FORMS)
def test_views_are_added_and_all_else_stays(tmp_path: Path, form: FormatName) -> None:
    path = resaved(tmp_path, form)
    before, old = canonical(path.read_bytes()), opened(path).load()
    kept = files(tmp_path / "x.ome.zarr")
    later(path, 5).n5.to_bdv(path, mode="a")
    after = canonical(path.read_bytes())
    start = before.index("</zgroups>")
    assert after.startswith(before[:start].rstrip())
    assert has_sections(path.read_bytes(), SECTIONS)
    assert before[before.index("<ViewSetups>") : before.index("</ViewSetups>")] in after
    assert kept.items() <= files(tmp_path / "x.ome.zarr").items()
    new = opened(path)
    assert new["s0"].t.values.tolist() == [0, 1, 5]
    for level in ("s0", "s1", "s2"):
        xr.testing.assert_identical(
            new[level].to_dataset().sel(t=[0, 1]).load(), old[level].to_dataset()
        )
        found, one = new[level]["project"].sel(t=5), old[level]["project"].sel(t=0)
        np.testing.assert_array_equal(found, one + 1)
    read = bigstitcher_reads(path)
    assert {t for t, _ in read} == {0, 1, 5}
    np.testing.assert_array_equal(read[5, 3][0][1], values((0, 3), 0, (6, 12, 16)) + 1)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_views_again_change_no_byte_of_the_xml(tmp_path: Path, form: FormatName) -> None:
    path = resaved(tmp_path, form)
    before, tree = path.read_bytes(), opened(path).load()
    tree.n5.to_bdv(path, mode="a")
    assert path.read_bytes() == before
    check_same(tree, opened(path))


def test_views_that_were_missing_are_added(tmp_path: Path) -> None:
    path = resaved(tmp_path, "zarr3", without=[(1, 2)])
    tree = later(path, 1).load()
    tree.n5.to_bdv(path, mode="a")
    text = path.read_text("utf-8")
    assert text.count('<zgroup setup="2" tp="1" path="s2-t1.zarr" indicies="0 0" />') == 1
    assert "<MissingView " not in text
    assert "missing" not in opened(path)["s0"].coords


@pytest.mark.parametrize("kind", CONFLICTS)
def test_conflicts_are_refused_before_anything_is_written(tmp_path: Path, kind: str) -> None:
    path = resaved(tmp_path, "zarr3")
    change, match = CONFLICTS[kind]
    before = files(tmp_path)
    ds = xr.open_dataset(path, engine="n5", level=0).isel(t=[0])
    if kind == "voxels":
        ds = ds.drop_vars(["affine", "registration"]).assign_coords(x=ds.x * 2)
        change = lambda ds: ds  # noqa: E731
    for mode in ("a", "w"):
        with pytest.raises(NodeExistsError, match=match.replace(r"\[\[1, 1, 1\], \[2, 2, 1\]", "")):
            change(ds).n5.to_bdv(path, mode=mode)
    assert before == files(tmp_path)


def test_setups_may_become_others_if_all_their_views_are_replaced(tmp_path: Path) -> None:
    path = resaved(tmp_path, "zarr3")
    ds = xr.open_dataset(path, engine="n5", level=0).isel(x=slice(4, None)).load()
    ds.n5.to_bdv(path, mode="w")
    found = xr.open_dataset(path, engine="n5")  # there is one level now
    np.testing.assert_array_equal(found["project"], ds["project"])
    assert has_sections(path.read_bytes(), SECTIONS)
    assert not (tmp_path / "x.ome.zarr/s0-t0.zarr/1").exists()
    assert len(bigstitcher_reads(path)[0, 0]) == 1


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (("s1-t0.zarr", "s0-t0.zarr"), "is a part of the image 's0-t0.zarr'"),
        (('path="s0-t0.zarr" indicies="0 0"', 'path="s0-t0.zarr" indicies="1 0"'), "is a part of"),
        (('version="3.0"', 'version="1.0"'), "'bdv.multimg.zarr' of version 1.0"),
        (("bdv.multimg.zarr", "bdv.ome.zarr"), "'bdv.ome.zarr' of version 3.0"),
    ],
)
def test_views_in_other_layouts_are_not_replaced(
    tmp_path: Path, edit: tuple[str, str], match: str
) -> None:
    path = resaved(tmp_path, "zarr3")
    tree = opened(path).load()
    path.write_text(path.read_text("utf-8").replace(*edit), "utf-8")
    before = files(tmp_path)
    for mode in ("a", "w"):
        with pytest.raises(MetadataError, match=match):
            tree.n5.to_bdv(path, mode=mode)
    assert before == files(tmp_path)


def test_replaced_views_keep_their_paths(tmp_path: Path) -> None:
    path = resaved(tmp_path, "zarr2")
    place = tmp_path / "x.ome.zarr"
    (place / "s0-t0.zarr").rename(place / "tile_0.zarr")
    text = path.read_text("utf-8").replace(
        'path="s0-t0.zarr" indicies="0 0"', 'path="tile_0.zarr" indicies="[]"'
    )
    path.write_text(text, "utf-8")
    (opened(path).load() + np.uint16(1)).n5.to_bdv(path, mode="a")
    assert path.read_text("utf-8") == text
    assert not (place / "s0-t0.zarr").exists()
    found = xr.open_dataset(path, engine="bdv", level=2, setup=0, timepoint=0)["project"]
    np.testing.assert_array_equal(found, values((0, 0), 2, (3, 3, 4)) + 1)


def test_nothing_that_exists_is_replaced_by_default(tmp_path: Path) -> None:
    path = resaved(tmp_path, "zarr3")
    with pytest.raises(NodeExistsError, match=r"\(a project\); use mode='a' to add views"):
        image().n5.to_bdv(path)
    with pytest.raises(NodeExistsError, match=r"a container with s0-t0\.zarr"):
        image().n5.to_bdv(tmp_path / "new.xml", tmp_path / "x.ome.zarr")
    with pytest.raises(MetadataError, match=r"container is 'x.ome.zarr' \(bdv.multimg.zarr\)"):
        image().n5.to_bdv(path, tmp_path / "other.zarr", mode="a")
    with pytest.raises(MetadataError, match="a project is written as N5 or Zarr"):
        image().n5.to_bdv(tmp_path / "b.xml", tmp_path / "b.h5")


@pytest.mark.parametrize(
    "name", some(["a b.zarr", "a%20b.zarr", "no#1.zarr", "a:b[1].zarr", "größe.zarr"], 3)
)
def test_bigstitcher_finds_containers_of_any_name(tmp_path: Path, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        image().n5.to_bdv(tmp_path / "a.xml", tmp_path / name)
    assert bigdataviewer_opens(tmp_path / "a.xml", "zarr") == str(tmp_path / name)
    np.testing.assert_array_equal(opened(tmp_path / "a.xml")["s0/a"][0], image())


@pytest.mark.parametrize("form", FORMS)
def test_a_pyramid_of_every_view_is_computed(tmp_path: Path, form: Any) -> None:
    stack = image().chunk({"channel": 1, "z": 3, "y": 4, "x": 5})
    factors = [(1, 2, 2), (3, 2, 2)]
    for _ in range(2):  # the second time, nothing is left to be done
        report = stack.n5.to_bdv(tmp_path / "a.xml", format=form, factors=factors, resume=True)
    assert (report is not None, opened(tmp_path / "a.xml")["s2/a"].shape) == (True, (1, 2, 2, 2, 2))
    expected = image()
    for level, step in enumerate([(1, 1, 1), *factors]):
        if level:
            expected = xr.DataArray(
                np.floor(
                    expected.coarsen(dict(zip("zyx", step, strict=True)), boundary="trim")
                    .mean()
                    .values
                    + 0.5
                ).astype("u2"),
                dims=expected.dims,
            )
        for (_, setup), levels in bigstitcher_reads(tmp_path / "a.xml").items():
            assert np.abs(levels[level][1].astype(int) - expected.values[setup]).max() <= (
                level > 0
            )
    array = xarray_n5.open_array(tmp_path / "a.ome.zarr", "s1-t0.zarr/0")
    assert array.chunks == (1, 1, 3, 4, 5)
    assert array.shards == ((1, 1, 3, 8, 10) if form == "zarr3" else None)
