"""Pyramids in copies are described as the readers of the format expect."""

from __future__ import annotations

import json
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from tests.datasets.test_level_trees import image, labelled, levels_of, opened
from tests.support.scenes import image_attributes, write_image
from xarray_n5 import (
    Axis,
    MetadataError,
    add_levels,
    copy,
    create_array,
    create_group,
    open_array,
    open_group,
    pyramid,
    to_n5,
    verify,
)
from xarray_n5.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def attributes_in(place: Path, path: str = "") -> dict[str, Any]:
    """The attributes of a group and of the arrays in it."""
    group = open_group(place, path)
    own = {name: dict(array.attrs) for name, array in group.arrays().items()}
    return {"": dict(group.attrs), **own}


def ngff(place: Path, path: str = "") -> Any:
    """The image of a group, as ome-zarr-models validates it."""
    models: Any = pytest.importorskip("ome_zarr_models.v04")
    zarr: Any = pytest.importorskip("zarr")
    group = zarr.open_group(place, path=path, mode="r", zarr_format=2)
    found = models.Image.from_zarr(group)
    (shown,) = found.ome_attributes.multiscales
    return shown


def openorganelle(place: Path, path: str = "em/fibsem-uint16") -> None:
    """A pyramid with COSEM's metadata alone, whose samples lie as the page on layouts says."""
    entries = []
    for level, (scale, offset) in enumerate(((4.0, 0.0), (8.0, 2.0), (16.0, 6.0))):
        transform = {
            "axes": ["z", "y", "x"],
            "units": ["nm"] * 3,
            "scale": [scale * 1.3, scale, scale],
            "translate": [offset * 1.3, offset, offset],
        }
        size = 16 >> level
        array = create_array(
            place,
            f"{path}/s{level}",
            shape=(size,) * 3,
            dtype="u1",
            chunks=4,
            attributes={"transform": transform, "stain": "OTO"},
        )
        array[...] = np.arange(size**3).reshape(array.shape) % 250
        entries.append({"path": f"s{level}", "transform": transform})
    attributes = {"multiscales": [{"name": None, "datasets": entries}], "title": "a cell"}
    open_group(place, path, mode="r+").attrs.update(attributes)


@pytest.mark.parametrize("path", ["", "em/fibsem-uint16"])
def test_a_pyramid_in_zarr_is_ome_ngff_by_default(tmp_path: Path, path: str) -> None:
    source, place = tmp_path / "cell.n5", tmp_path / "cell.zarr"
    openorganelle(source, path)
    copy(source, place)
    shown = ngff(place, path)
    assert (place / path / "s0/0/0/0").is_file()
    assert shown.name == (path.rpartition("/")[2] or "cell")
    assert [(axis.name, axis.unit) for axis in shown.axes] == [(n, "nanometer") for n in "zyx"]
    for number, (listed, scale) in enumerate(zip(shown.datasets, (4.0, 8.0, 16.0), strict=True)):
        assert listed.path == f"s{number}"
        first, second = listed.coordinateTransformations
        assert first.scale == [1.3 * scale, scale, scale]
        assert second.translation == [1.3 * (scale - 4) / 2, (scale - 4) / 2, (scale - 4) / 2]
        alone, level = (
            xr.open_dataset(place, engine="n5", group=path, level=number).load(),
            xr.open_dataset(source, engine="n5", group=path, level=number).load(),
        )
        xr.testing.assert_identical(alone, level)
    xr.testing.assert_identical(opened(place).load(), opened(source).load())
    assert all((report["bytes"] > 0).all() for report in verify(place).leaves)
    assert CliRunner().invoke(main, ["tree", str(place)]).exit_code == 0
    assert open_group(place, path).attrs["title"] == "a cell"
    assert open_array(place, f"{path}/s1").attrs["stain"] == "OTO"
    copy(place, tmp_path / "back.n5")
    xr.testing.assert_identical(opened(tmp_path / "back.n5").load(), opened(source).load())
    copy(place, tmp_path / "again.zarr")
    assert attributes_in(tmp_path / "again.zarr", path) == attributes_in(place, path)


def test_ome_ngff_in_n5_is_described_for_its_readers(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [
        {
            "path": f"{level}",
            "coordinateTransformations": [
                {"type": "scale", "scale": [2.0, 0.5 * 2**level, 0.5 * 2**level]},
                {"type": "translation", "translation": [0.0, shift, shift]},
            ],
        }
        for level, shift in enumerate((0.0, 0.25))
    ]
    shown = {
        "version": "0.4",
        "name": "",
        "axes": [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"],
        "datasets": entries,
    }
    for prefix in ("", "s"):
        source, place = tmp_path / f"{prefix}a.zarr", tmp_path / f"{prefix}a.n5"
        for entry, level in zip(entries, (0, 1), strict=True):
            entry["path"] = f"{prefix}{level}"
            shape = (4, 8 >> level, 8 >> level)
            create_array(source, entry["path"], shape=shape, dtype="u1", chunks=4)[...] = level
        open_group(source, mode="r+").attrs.update({"multiscales": [shown], "title": "a cell"})
        copy(source, place)
        group = attributes_in(place)[""]
        assert group["downsamplingFactors"] == [[1, 1, 1], [2, 2, 1]]
        assert group["pixelResolution"] == {"dimensions": [0.5, 0.5, 2], "unit": "um"}
        assert "coordinateTransformations" not in str(group["multiscales"])
        own = open_array(place, f"{prefix}1").attrs
        assert own["downsamplingFactors"] == [2, 2, 1]
        assert own["pixelResolution"] == group["pixelResolution"]
        assert own["resolution"] == [1, 1, 2]
        renamed = {f"{prefix}a": "a"} if prefix else {}
        for level in (0, 1):
            found = xr.open_dataset(place, engine="n5", level=level).load()
            expected = xr.open_dataset(source, engine="n5", level=level).load()
            xr.testing.assert_identical(found.rename(renamed), expected.rename(renamed))


@pytest.mark.parametrize("name", ["a.n5", "a.h5"])
def test_a_tree_of_levels_is_the_same_in_every_format(tmp_path: Path, name: str) -> None:
    tree = levels_of(labelled(image(y=16, x=16)), title="a fly")
    tree.n5.to_n5(tmp_path / name, "em")
    copy(tmp_path / name, tmp_path / "b.zarr")
    kinds = [axis.type for axis in ngff(tmp_path / "b.zarr", "em").axes]
    assert kinds == ["channel", "space", "space"]
    xr.testing.assert_identical(opened(tmp_path / "b.zarr", "em").load(), tree)
    copy(tmp_path / "b.zarr", tmp_path / "c.n5")
    xr.testing.assert_identical(opened(tmp_path / "c.n5", "em").load(), tree)
    assert "multiscales" in open_group(tmp_path / "c.n5", "em").attrs


def test_levels_that_are_left_out_are_not_listed(tmp_path: Path) -> None:
    openorganelle(tmp_path / "a.n5", "em")
    copy(tmp_path / "a.n5", tmp_path / "b.zarr", without=["em/s0"])
    assert [each.path for each in ngff(tmp_path / "b.zarr", "em").datasets] == ["s1", "s2"]
    found = xr.open_dataset(tmp_path / "b.zarr", engine="n5", group="em", level=0)
    whole = xr.open_dataset(tmp_path / "a.n5", engine="n5", group="em", level=1)
    xr.testing.assert_identical(found.load(), whole.load())


def test_views_of_bigdataviewer_are_images_each_and_stay_one(tmp_path: Path) -> None:
    for setup, time, level in np.ndindex(2, 2, 2):
        path = f"setup{setup}/timepoint{time}/s{level}"
        factors = {"downsamplingFactors": [2**level] * 2 + [1]}
        shape = (2, 8 >> level, 8 >> level)
        create_array(tmp_path / "v.n5", path, shape=shape, dtype="u2", attributes=factors)[...] = 1
    copy(tmp_path / "v.n5", tmp_path / "v.zarr")
    assert [each.path for each in ngff(tmp_path / "v.zarr", "setup1/timepoint1").datasets] == [
        *("s0", "s1")
    ]
    xr.testing.assert_identical(
        opened(tmp_path / "v.zarr").load(), opened(tmp_path / "v.n5").load()
    )


def test_levels_without_coordinates_get_no_numbers(tmp_path: Path) -> None:
    for level, size in enumerate((8, 4)):
        create_array(tmp_path / "a.n5", f"em/s{level}", shape=(size, size), dtype="u1")
    copy(tmp_path / "a.n5", tmp_path / "b.zarr")
    assert "multiscales" not in open_group(tmp_path / "b.zarr", "em").attrs
    assert opened(tmp_path / "b.zarr", "em")["s1/em"].sizes == {"y": 4, "x": 4}
    xr.Dataset({"s0": image(y=8, x=8), "s1": image(y=8, x=8)}).n5.to_n5(tmp_path / "c.n5")
    copy(tmp_path / "c.n5", tmp_path / "c.zarr")
    xr.testing.assert_identical(
        *(xr.open_dataset(tmp_path / name, engine="n5").load() for name in ("c.n5", "c.zarr"))
    )


# Other dialects


def test_the_dialects_of_a_copy_can_be_chosen(tmp_path: Path) -> None:
    openorganelle(tmp_path / "a.n5", "em")
    whole = opened(tmp_path / "a.n5").load()

    def group_of(name: str, **options: Any) -> dict[str, Any]:
        copy(tmp_path / "a.n5", tmp_path / name, **options)
        xr.testing.assert_equal(opened(tmp_path / name).load(), whole)
        return attributes_in(tmp_path / name, "em")

    both = group_of("both.n5", dialect=["cosem", "neuroglancer"])
    assert both[""]["downsamplingFactors"] == [[1] * 3, [2] * 3, [4] * 3]
    assert both[""]["title"] == "a cell"
    paintera = group_of("paintera.n5", dialect=["paintera", "array_dimensions", "cosem"])
    assert paintera["s1"]["offset"] == [2.0, 2.0, 2.6]
    copy(tmp_path / "both.n5", tmp_path / "again.n5")
    assert attributes_in(tmp_path / "again.n5", "em") == both
    for dialect, message in (("tensorstore", "cannot describe"), ("ngf", "unknown dialect 'ngf'")):
        with pytest.raises(ValueError, match=message):
            copy(tmp_path / "a.n5", tmp_path / "bad.n5", dialect=dialect)
        assert not (tmp_path / "bad.n5").exists()


def test_arrays_can_be_described_by_other_dialects_too(tmp_path: Path) -> None:
    axes = [Axis(name=name, scale=4.0, offset=8.0, unit="nm") for name in "yx"]
    made = create_array(tmp_path / "a.n5", "raw", shape=(8, 8), dtype="u1", chunks=4, axes=axes)
    made.attrs["stain"] = "OTO"
    create_array(tmp_path / "a.n5", "nothing", shape=(8, 8), dtype="u1")
    copy(tmp_path / "a.n5", tmp_path / "b.n5", dialect="cosem")
    found = dict(open_array(tmp_path / "b.n5", "raw").attrs)
    assert found.keys() == {"transform", "pixelResolution", "stain"}
    copy(tmp_path / "a.n5/raw", tmp_path / "c.zarr", dialect="paintera")
    again = open_array(tmp_path / "c.zarr")
    assert [(axis.scale, axis.offset) for axis in again.axes] == [(4, 8), (4, 8)]
    assert again.attrs.keys() >= {"resolution", "offset", "stain"}
    with pytest.raises(MetadataError, match="offset"):
        copy(tmp_path / "a.n5", tmp_path / "d.n5", dialect="n5_viewer")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "coordinateTransformations"),
        (["--dialect", "cosem", "--dialect", "ngff"], None),
    ],
)
def test_the_command_takes_dialects(
    tmp_path: Path, options: list[str], expected: str | None
) -> None:
    openorganelle(tmp_path / "a.n5", "em")
    place = tmp_path / "b.zarr"
    result = CliRunner().invoke(main, ["copy", str(tmp_path / "a.n5"), str(place), *options])
    assert (result.exit_code == 0) == (expected is not None)
    if expected:
        (shown,) = open_group(place, "em").attrs["multiscales"]
        assert expected in shown["datasets"][0]


def fills(place: Path, path: str = "em") -> dict[str, Any]:
    """The fill value of each level in Zarr v2."""
    files = sorted((place / path).glob("s*/.zarray"))
    return {file.parent.name: json.loads(file.read_text())["fill_value"] for file in files}


def gapped(dtype: str = "u2") -> xr.DataArray:
    """An image with zeros, which are values."""
    values = np.zeros((16, 16), dtype)
    values[:5] = 3
    places = {dim: (dim, 4.0 * np.arange(16), {"units": "nm"}) for dim in "yx"}
    return xr.DataArray(values, places, ("y", "x"), "em")


def check_unmasked(place: Path, dtype: str = "u2") -> None:
    """Zeros are values at both levels, in this engine and for programs that ignore masks."""
    assert fills(place) == {"s0": 0, "s1": 0}
    for level in (0, 1):
        found = xr.open_dataset(place, engine="n5", group="em", level=level)["em"]
        assert found.dtype == dtype
        assert "_FillValue" not in {**found.attrs, **found.encoding}
        assert int((found == 0).sum()) > 0
    zarr_options: dict[str, Any] = {"group": "em", "drop_variables": ["s1"], "consolidated": False}
    theirs = xr.open_zarr(place, mask_and_scale=False, **zarr_options)["s0"]
    np.testing.assert_array_equal(theirs, gapped(dtype))


@pytest.mark.matrix(2)
@pytest.mark.parametrize("dtype", ["u1", "i4", "f4"])
@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_levels_of_new_pyramids_in_zarr_2_have_a_fill_value_that_masks_nothing(
    tmp_path: Path, dtype: str
) -> None:
    pytest.importorskip("zarr")
    options: dict[str, Any] = {"chunks": 4, "levels": 1}
    pyramid(gapped(dtype), tmp_path / "a.zarr", "em", **options, write_empty_chunks=False)
    check_unmasked(tmp_path / "a.zarr", dtype)
    assert not (tmp_path / "a.zarr/em/s0/3/3").exists()
    for name in ("b.n5", "c.zarr"):
        form: Any = "zarr3" if name == "c.zarr" else "n5"
        pyramid(gapped(dtype), tmp_path / name, "em", **options, format=form)
        copy(tmp_path / name, tmp_path / f"copy-{name}.zarr", format="zarr2")
        check_unmasked(tmp_path / f"copy-{name}.zarr", dtype)
        if dtype == "f4":
            continue  # xarray gives floats of Datasets the fill value NaN
        xr.open_datatree(tmp_path / name, engine="n5").n5.to_n5(tmp_path / f"tree-{name}.zarr")
        check_unmasked(tmp_path / f"tree-{name}.zarr", dtype)
    copy(tmp_path / "a.zarr", tmp_path / "d.zarr")
    check_unmasked(tmp_path / "d.zarr", dtype)


@pytest.mark.parametrize("fill", [None, 0, 3])
@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_levels_have_the_fill_value_of_a_stored_base(
    tmp_path: Path, form: Any, fill: int | None
) -> None:
    layout = {"fill_value": fill}
    to_n5(gapped(), tmp_path / "a.zarr", "em/s0", chunks=4, layout=layout, format=form)
    add_levels(tmp_path / "a.zarr", path="em/s0", levels=1)
    found = [open_array(tmp_path / "a.zarr", f"em/s{level}") for level in (0, 1)]
    assert found[0].fill_value == found[1].fill_value == (fill or 0)
    if form == "zarr2":
        assert fills(tmp_path / "a.zarr") == {"s0": fill, "s1": fill}
    tree = xr.open_datatree(tmp_path / "a.zarr", engine="n5", group="em")
    masked = {int(tree[level]["em"].isnull().sum()) > 0 for level in ("s0", "s1")}
    assert masked == {fill is not None}


def test_a_pyramid_that_is_made_in_zarr_and_one_that_is_copied_are_alike(tmp_path: Path) -> None:
    for name in ("a.n5", "b.zarr"):
        pyramid(image(), tmp_path / name, "raw", factors=[(1, 2, 2), 2], chunks=8)
    copy(tmp_path / "a.n5", tmp_path / "a.zarr")
    (made,), (copied,) = (
        open_group(tmp_path / name, "raw").attrs["multiscales"] for name in ("b.zarr", "a.zarr")
    )
    assert {**made, "name": "raw"} == copied
    create_group(tmp_path / "c.zarr", "raw", attributes={"lab": "x"}, format="zarr2")
    copy(tmp_path / "a.n5", tmp_path / "c.zarr", mode="a")
    assert open_group(tmp_path / "c.zarr", "raw").attrs["multiscales"] == [copied]


@pytest.mark.parametrize("way", ["copy", "tree"])
@pytest.mark.parametrize("form", ["n5", "zarr2", "zarr3"])
@pytest.mark.parametrize("dialect", ["ngff", "cosem", "neuroglancer"])
def test_colours_of_channels_and_other_members_of_an_image_are_kept(
    tmp_path: Path, form: Any, dialect: str, way: str
) -> None:
    attributes = image_attributes("zyx", (2, 1, 1), levels=2)
    channel = {"label": "DAPI", "color": "0000AA", "window": {"min": 0, "max": 9}}
    members: dict[str, Any] = {"omero": {"channels": [channel]}, "lab": {"person": "x"}}
    attributes["ome"] |= members
    write_image(tmp_path / "a.zarr", "raw", (4, 6, 8), attributes)

    def copied() -> Any:
        how: Any = {"format": form, "dialect": dialect}
        if way == "copy":
            copy(tmp_path / "a.zarr", tmp_path / "b", **how)
        else:
            opened(tmp_path / "a.zarr", "raw").n5.to_n5(tmp_path / "b", "raw", **how)
        return open_group(tmp_path / "b", "raw").attrs

    if dialect == "ngff":
        after = copied()
        assert ("multiscales" in after) == (form != "zarr3")
    else:
        with pytest.warns(UserWarning, match="kept as an attribute, but .* without an image"):
            after = copied()
        assert "multiscales" not in after["ome"]
    assert {**after, **after.get("ome", {})}.items() >= members.items()
    assert open_array(tmp_path / "b", "raw/s1").axes[0].position(1) == 5


def labels_in(place: Path) -> tuple[Any, Any, Any]:
    """The list of an image's labels, the source of one, and the names of the image's channels."""
    listed, label, around = (dict(open_group(place, p).attrs) for p in ("labels", "labels/a", ""))
    nested, around = label.pop("ome", label), around.get("ome", around)
    assert nested is label or "image-label" not in label
    channels = [each["label"] for each in around["omero"]["channels"]]
    return listed, nested["image-label"]["source"], channels


VERSIONS: dict[str, Any] = {
    "0.4": ("zarr2", None),
    "0.5": ("zarr3", "ngff"),
    "0.6": ("zarr3", "ngff-0.6"),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("other", VERSIONS)
def test_labels_are_listed_in_the_version_of_the_copy(
    tmp_path: Path, version: str, other: str
) -> None:
    place, (form, dialect), (to, chosen) = tmp_path / "a.zarr", VERSIONS[version], VERSIONS[other]
    pyramid(labelled(image()), place, levels=1, format=form, dialect=dialect)
    pyramid(image().astype("i4"), place, "labels/a", levels=1, dialect=dialect)
    copy(place, tmp_path / "a.n5")
    chosen = None if (version, other) == ("0.4", "0.5") else chosen  # the default
    for number, source in enumerate(("a.zarr", "a.n5")):
        new, back = tmp_path / f"b{number}.zarr", tmp_path / f"c{number}.zarr"
        copy(tmp_path / source, new, format=to, dialect=chosen)
        copy(new, back, format=form, dialect=dialect)
        for written, shown in ((new, other), (back, version), (place, version)):
            ome = {"ome": {"version": shown, "labels": ["a"]}}
            listed = {"labels": ["a"]} if shown == "0.4" else ome
            assert labels_in(written) == (listed, {"image": "../../"}, ["DNA", "actin"])


@pytest.mark.parametrize(("form", "to"), [("zarr2", "zarr3"), ("zarr3", "n5"), ("n5", "zarr2")])
def test_names_of_channels_that_a_level_loses_are_named(tmp_path: Path, form: Any, to: Any) -> None:
    pyramid(labelled(image()), tmp_path / "a", levels=1, format=form)
    with pytest.warns(UserWarning, match="labels of axis 'c'") if to != "n5" else nullcontext():
        copy(tmp_path / "a/s0", tmp_path / "b", format=to)
    shown = ("DNA", "actin") if to == "n5" else None
    assert open_array(tmp_path / "b").axes[0].labels == shown
    copy(tmp_path / "a", tmp_path / "c", format=to)
    assert open_array(tmp_path / "c", "s0").axes[0].labels == ("DNA", "actin")
    if form == "zarr2":  # the group around the copy has them
        copy(tmp_path / "a/s0", open_array(tmp_path / "c", "s0"), mode="w")


@pytest.mark.filterwarnings("ignore:.*multiscales:UserWarning")
def test_image_that_the_other_version_cannot_describe_is_reported(tmp_path: Path) -> None:
    for level, size in enumerate((6, 3)):
        shape = (size, size)
        create_array(tmp_path / "a.zarr", f"{level}", shape=shape, dtype="u1", format="zarr2")
    rows = [{"path": f"{level}", "coordinateTransformations": []} for level in (0, 1)]
    axes = [{"name": "width", "type": "space"}]  # one for two axes
    group = open_group(tmp_path / "a.zarr", mode="r+")
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": rows}]
    with pytest.warns(UserWarning, match="no axes that OME-NGFF 0.5 can describe"):
        copy(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr3")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy(tmp_path / "a.zarr", tmp_path / "c.zarr", format="zarr2")
