"""What other programs make of containers, as `doctor` says, and how it makes them agree."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner, Result

import xarray_n5
from tests.conftest import CORPUS, NO_CORPUS
from tests.dialects.test_other_projects import NEUROGLANCER, SOURCES, snapshot
from tests.support.containers import contents, write_document
from xarray_n5 import create_array, create_group, open_array, open_group, pyramid
from xarray_n5.cli import main
from xarray_n5.doctor import examine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DATA = xarray_n5.tutorial.path("cells").parent

# Containers


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The attributes of a pyramid's group and of its levels."""

    levels: list[dict[str, Any]]
    group: dict[str, Any] = field(default_factory=dict)
    form: Any = "n5"


def cosem(*levels: tuple[list[float], list[float]], **members: Any) -> list[dict[str, Any]]:
    """COSEM's attributes of levels, by their scales and offsets."""
    common = {"axes": ["z", "y", "x"], "units": ["nm"] * 3}
    return [
        {"transform": {**common, "scale": scale, "translate": offset, **members}}
        for scale, offset in levels
    ]


def ngff(unit: str = "nanometer", **members: Any) -> dict[str, Any]:
    """OME-NGFF's attributes of a group with two levels."""
    datasets = [
        {
            "path": f"s{n}",
            "coordinateTransformations": [
                {"type": "scale", "scale": [40 * 2**n, 4 * 2**n, 4 * 2**n]},
                {"type": "translation", "translation": [20 * n, 2 * n, 2 * n]},
            ],
        }
        for n in range(2)
    ]
    axes = [{"name": name, "type": "space", "unit": unit} for name in "zyx"]
    return {"multiscales": [{"version": "0.4", "axes": axes, "datasets": datasets} | members]}


NAMES: dict[str, Any] = {"axes": ["x", "y", "z"]}
NM: dict[str, Any] = {"units": ["nm"] * 3}
SIZE: dict[str, Any] = {"resolution": [4, 4, 40]}
PIXELS: dict[str, Any] = {"pixelResolution": {"dimensions": [4, 4, 40], "unit": "nm"}}
FACTORS: dict[str, Any] = {"downsamplingFactors": [[1, 1, 1], [2, 2, 2]]}
SCALES: dict[str, Any] = {"scales": [[1, 1, 1], [2, 2, 2]]}
MOVED = cosem(([40, 4, 4], [0, 0, 0]), ([80, 8, 8], [20, 2, 2]))
GROUP = NAMES | NM | SIZE
N5_VIEWER = [{**PIXELS, "downsamplingFactors": [f] * 3} for f in (1, 2)]


def write(folder: Path, sample: Sample) -> Path:
    """Write a container with the pyramid "raw"."""
    url = folder / f"a.{'n5' if sample.form == 'n5' else 'zarr'}"
    kept = {"mine": {"kept": [1, "a", None]}}
    create_group(url, "raw", format=sample.form, attributes=kept)
    for level, attributes in enumerate(sample.levels):
        shape = tuple(side >> level for side in (8, 16, 24))
        path = f"raw/s{level}"
        create_array(url, path, shape=shape, dtype="u1", chunks=8, format=sample.form)[...] = 1
        _write_attributes(url / path, sample, attributes | kept)
    _write_attributes(url / "raw", sample, sample.group)
    return url


def _write_attributes(node: Path, sample: Sample, attributes: Mapping[str, Any]) -> None:
    names = {"n5": "attributes.json", "zarr2": ".zattrs", "zarr3": "zarr.json"}
    document = node / names[sample.form]
    stored = json.loads(document.read_text()) if document.exists() else {}
    (stored.setdefault("attributes", {}) if sample.form == "zarr3" else stored).update(attributes)
    document.write_text(json.dumps(stored))


def run(*args: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["doctor", *map(str, args)])


# What programs read, by their sources

Axes = list[list[Any]] | None


def examined(url: Path, path: str = "", **options: Any) -> Iterator[xr.Dataset]:
    """Iterate over the Datasets of `doctor`, one for each image."""
    result = examine(url, path, **options)
    if isinstance(result, xr.Dataset):
        yield result
        return
    yield from (node.to_dataset() for node in result.subtree if node.has_data)


def axes_of(dataset: xr.Dataset, reader: str, level: int) -> Axes:
    """The name, scale, offset and unit of each axis by a program; None if it opens nothing."""
    seen = dataset.sel(reader=reader).isel(level=level)
    if not seen.opens:
        return None
    columns = (seen[key].values.tolist() for key in ("name", "scale", "offset", "unit"))
    rows = zip(*columns, strict=True)
    return [[None if value == "" or value != value else value for value in row] for row in rows]  # noqa: PLR0124 - NaN


def at(*axes: tuple[Any, ...]) -> list[list[Any]]:
    return [list(axis) for axis in axes]


BASE, LEVEL = (
    at(
        *(
            (name, scale * f, scale * (f - 1) / 2, "nm")
            for name, scale in (("z", 40), ("y", 4), ("x", 4))
        )
    )
    for f in (1, 2)
)
"""Both levels of most of the samples."""


def without(axes: list[list[Any]], *columns: int) -> list[list[Any]]:
    """Axes without their names (0), scales, offsets or units."""
    return [[None if n in columns else fact for n, fact in enumerate(axis)] for axis in axes]


def ones(*axes: str | None, unit: str | None = None) -> list[list[Any]]:
    return [[name, 1.0, 0.0, unit] for name in axes]


OFFSET = at((None, 40, 9, None), (None, 4, 8, None), (None, 4, 7, None))
CLOSED: list[Axes] = [None, None]
FULL = GROUP | FACTORS
IN_ZARR = Sample(group=ngff("nm"), levels=[{}, {}], form="zarr2")
NONE_NM = ones("z", "y", "x", unit="nm")
WORDS: list[Axes] = [[[*axis[:3], "nanometer"] for axis in level] for level in (BASE, LEVEL)]

READ: dict[str, tuple[str, Sample, list[Axes]]] = {
    "group": ("neuroglancer", Sample(group=FULL, levels=[{}, {}]), [BASE, LEVEL]),
    "pixelResolution": (
        *("neuroglancer", Sample(group=NAMES | PIXELS | SCALES, levels=[{}, {}])),
        [BASE, LEVEL],
    ),
    "factors of levels": (
        *("neuroglancer", Sample(group=NAMES | PIXELS, levels=N5_VIEWER)),
        [BASE, LEVEL],
    ),
    "nothing": ("neuroglancer", Sample(levels=[{}]), [None]),
    "names": ("neuroglancer", Sample(group=NAMES, levels=[{}]), [NONE_NM]),
    "flat scales": ("neuroglancer", Sample(group={"scales": [1, 1, 1]}, levels=[{}]), [None]),
    "no factors": ("neuroglancer", Sample(levels=MOVED), CLOSED),
    "few factors": (
        *("neuroglancer", Sample(group={"scales": [[1, 1, 1]]}, levels=[{}, {}])),
        [NONE_NM, None],
    ),
    "not SI": (
        *("neuroglancer", Sample(group={"units": ["micron"] * 3} | FACTORS, levels=[{}, {}])),
        CLOSED,
    ),
    "text as size": (
        *("neuroglancer", Sample(group=FULL | {"resolution": ["4"] * 3}, levels=[{}, {}])),
        CLOSED,
    ),
    "negative size": (
        *("neuroglancer", Sample(group=FULL | {"resolution": [4, 4, -1]}, levels=[{}, {}])),
        CLOSED,
    ),
    "no object": (
        *("neuroglancer", Sample(group=FULL | {"pixelResolution": "4 nm"}, levels=[{}, {}])),
        CLOSED,
    ),
    "OME-Zarr": ("neuroglancer", Sample(group=ngff(), levels=[{}, {}], form="zarr2"), WORDS),
    "old OME-Zarr": (
        *("neuroglancer", Sample(group=ngff(version="0.3"), levels=[{}, {}], form="zarr2")),
        CLOSED,
    ),
    "a plain array of Zarr": (
        "neuroglancer",
        Sample(levels=[{"dimension_units": ["4 nm", "um", None]}], form="zarr3"),
        [at((None,) * 4, (None,) * 4, (None,) * 4)],
    ),
    "abbreviated units": ("neuroglancer", IN_ZARR, CLOSED),
    "n5-viewer": (
        *("n5_universe", Sample(levels=N5_VIEWER)),
        [without(BASE, 0), without(LEVEL, 0)],
    ),
    "guessed factors": (
        *("n5_universe", Sample(levels=[PIXELS, PIXELS])),
        [without(BASE, 0), without(LEVEL, 0)],
    ),
    "cosem first": ("n5_universe", Sample(levels=[n | SIZE for n in MOVED]), [BASE, LEVEL]),
    "a group": (
        *("n5_universe", Sample(group=FULL, levels=[{}, {}])),
        [ones(None, None, None)] * 2,
    ),
    "resolution": ("n5_universe", Sample(levels=[SIZE | {"offset": [7, 8, 9]}]), [OFFSET]),
    "as specified": ("ome_ngff", IN_ZARR, [BASE, LEVEL]),
    "invalid": ("ome_ngff", Sample(group=ngff(axes=3), levels=[{}, {}], form="zarr2"), CLOSED),
    "N5": ("ome_ngff", Sample(group=ngff("nm"), levels=[{}, {}]), CLOSED),
}
"""What programs make of attributes, by the sources that their readers name."""


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", READ)
def test_a_program_reads(tmp_path: Path, name: str) -> None:
    reader, sample, expected = READ[name]
    (image,) = examined(write(tmp_path, sample), "raw")
    assert [axes_of(image, reader, level) for level in range(len(expected))] == expected


@pytest.mark.skipif(CORPUS is None, reason=NO_CORPUS)
@pytest.mark.parametrize("name", SOURCES)
def test_neuroglancer_shows_levels_where_doctor_says(corpus: Path, name: str) -> None:
    """Its snapshots have matrices from voxels' corners to places, in voxels of the base level."""
    shown = snapshot(corpus, name)
    space = shown["modelTransform"]["inputSpace"]
    (image,) = examined(corpus / NEUROGLANCER / "testdata/datasource" / SOURCES[name])
    seen = image.sel(reader="neuroglancer")
    half = 0.5 if space["bounds"]["voxelCenterAtIntegerCoordinates"][0] else 0.0
    sources = shown["subsources"][0]["subsource"]["volume"]["sources"][0]
    assert seen.sizes["level"] == len(sources)
    for number, source in enumerate(sources):
        level = seen.isel(level=number)
        assert set(level.name.values.tolist()) == set(space["names"])
        matrix = np.array(source.get("chunkToMultiscaleTransform", np.eye(3)))
        for row, (axis, size) in enumerate(zip(space["names"], space["scales"], strict=True)):
            stored = level.isel(axis=level.name.values.tolist().index(axis))
            unit = {"nm": 1e-9, "nanometer": 1e-9, "s": 1.0}[str(stored.unit.values)]
            factor = matrix[row, :-1].max()
            # The centre of the level's voxel 0, from the centre of the base level's.
            centre = factor / 2 + matrix[row, -1] + half - 0.5
            assert float(stored.scale) * unit == pytest.approx(factor * size)
            assert float(stored.offset) * unit == pytest.approx(centre * size)


def test_neuroglancer_takes_a_setup_of_bigstitcher_for_an_array(tmp_path: Path) -> None:
    for time in range(2):
        create_array(tmp_path / "a.n5", f"setup0/timepoint{time}/s0", shape=(8, 8, 8), dtype="u2")
    document = {"dimensions": [8] * 3, "blockSize": [4] * 3, "dataType": "uint16"}
    write_document(tmp_path / "a.n5/setup0", **document, compression={"type": "raw"}, **FACTORS)
    (image,) = examined(tmp_path / "a.n5")  # of the first time point alone
    assert image.attrs["path"] == "setup0/timepoint0"
    assert image.verdict.sel(reader="neuroglancer") == "refuses"


# Verdicts


def test_what_agrees_is_reported() -> None:
    image = examine(DATA / "cells.n5", "raw")
    assert isinstance(image, xr.Dataset)
    assert image.agrees.all()
    assert image.reader.values.tolist() == [
        *("xarray_n5", "neuroglancer", "n5_universe", "ome_ngff"),
    ]
    assert (image.attrs["dialect"], image.attrs["changes"]) == ("tensorstore", {})
    assert image.attrs["findings"] == []
    assert image.axis.values.tolist() == ["z", "y", "x"]


def test_images_of_a_container_are_a_tree(tmp_path: Path) -> None:
    pyramid(xr.DataArray(np.ones((8, 8)), dims=("y", "x")), tmp_path / "a.zarr", levels=1)
    create_array(tmp_path / "a.zarr", "labels/cells", shape=(4, 4, 4), dtype="u4")
    tree = examine(tmp_path / "a.zarr")
    assert isinstance(tree, xr.DataTree)
    assert tree["image"].array.values.tolist() == ["s0", "s1"]
    assert tree["labels/cells"].array.values.tolist() == ["labels/cells"]
    assert set(tree.attrs) == {"container", "findings"}


def test_levels_may_have_any_names(tmp_path: Path) -> None:
    url = ome_zarr(tmp_path / "a.zarr", [["full", "scale1/image"]], version="0.4")
    (image,) = examined(url)
    assert image.array.values.tolist() == ["full", "scale1/image"]


def test_damage_is_reported_with_what_programs_read(tmp_path: Path) -> None:
    url = write(tmp_path, Sample(levels=MOVED, group=FULL))
    shutil.rmtree(url / "raw/s1")
    (image,) = examined(url, "raw")
    (finding,) = image.attrs["findings"]
    assert (finding["kind"], finding["path"]) == ("missing-level", "raw")
    assert run(url).exit_code == 1


def test_a_container_without_arrays_is_an_error(tmp_path: Path) -> None:
    create_group(tmp_path / "a.n5", "raw")
    with pytest.raises(xarray_n5.NodeNotFoundError):
        examine(tmp_path / "a.n5")


@pytest.mark.parametrize("dialect", ["nonsense", "paintera"])
def test_a_dialect_that_describes_nothing_is_an_error(tmp_path: Path, dialect: str) -> None:
    url = write(tmp_path, Sample(levels=MOVED))
    with pytest.raises(ValueError, match=dialect):
        examine(url, dialect=dialect)


def test_coordinates_and_bounds_are_not_images(tmp_path: Path) -> None:
    matrix = (("t", "axis"), np.ones((2, 3)))
    coords = {"affine": matrix, "setup": 4, "x": ("x", [1.0, 2.0], {"bounds": "x_bounds"})}
    bounds = (("x", "side"), np.ones((2, 2)))
    dataset = xr.Dataset({"cells": (("t", "x"), np.ones((2, 2))), "x_bounds": bounds}, coords)
    dataset.n5.to_n5(tmp_path / "a.zarr")
    assert list(examine(tmp_path / "a.zarr").children) == ["cells"]
    assert examine(tmp_path / "a.zarr", "affine").sizes["axis"] == 2


def test_bigdataviewers_tables_in_hdf5_are_not_images(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["s00/resolutions"], file["s00/subdivisions"] = np.ones((1, 3)), np.full((1, 3), 16)
        for time in range(2):
            path = f"t0000{time}/s00/0/cells"
            file.create_dataset(path, data=np.zeros((8, 8, 8), "i2"), chunks=(4, 4, 4))
    (image,) = examined(tmp_path / "a.h5")
    assert image.attrs["path"] == "t00000/s00"


def test_voxels_of_one_by_default_are_no_agreement(tmp_path: Path) -> None:
    tiles = xr.DataArray(np.ones((2, 4, 5, 6), "u2"), dims=("tile", "z", "y", "x"), name="a")
    tiles.assign_coords(x=("x", 0.4 * np.arange(6), {"units": "um"})).n5.to_n5(tmp_path / "a.zarr")
    assert examine(tmp_path / "a.zarr", "a").verdict.sel(reader="n5_universe") == "silent"


FORMATS = {"n5": "a.n5", "zarr2": "a.zarr", "zarr3": "b.zarr", "hdf5": "a.h5"}


def image_from(start: float) -> xr.DataArray:
    """A volume whose first sample is at `start` along each axis."""
    dims = ("z", "y", "x")
    positions = {name: (name, np.arange(16) * 4.0 + start, {"units": "nm"}) for name in dims}
    return xr.DataArray(np.ones((16, 16, 16), "u1"), positions, dims, "raw")


@pytest.mark.parametrize(("form", "name"), FORMATS.items())
@pytest.mark.parametrize("start", [0, 8])
def test_a_pyramid_of_ours_agrees_in_every_format(
    tmp_path: Path, form: Any, name: str, start: float
) -> None:
    pyramid(image_from(start), tmp_path / name, "raw", levels=2, format=form)
    result = run(tmp_path / name)
    assert result.exit_code == 0, result.output
    assert ("Neuroglancer: agrees, but" in result.output) == (form == "n5" and start > 0)


@pytest.mark.parametrize("version", ["0.6", "0.6.dev3", None])
def test_programs_that_read_version_5_do_not_read_version_6(
    tmp_path: Path, version: str | None
) -> None:
    url = tmp_path / "x.zarr"
    pyramid(image_from(8), url, "raw", levels=2, format="zarr3", dialect="ngff-0.6")
    group = open_group(url, "raw", mode="r+")
    group.attrs["ome"] = {**group.attrs["ome"], "version": version}
    before = contents(url)
    (image,) = examined(url, "raw", fix=True)
    assert set(image.reader[image.verdict == "agrees"].values) == {"xarray_n5", "ome_ngff"}
    assert image.verdict.sel(reader="neuroglancer") == "refuses"
    assert "copy 'raw'" in image.attrs["obstacle"]
    assert contents(url) == before


# Repairs


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A pyramid that programs read differently."""

    sample: Sample
    disagree: str
    """The programs that disagree."""
    dialect: str | None = None
    axes: tuple[list[list[Any]], list[list[Any]]] = (BASE, LEVEL)
    """What all of them are to read of both levels."""
    removed: tuple[str, ...] = ()
    """The attributes that are removed."""


def _in(unit: str, taller: float = 1) -> tuple[list[list[Any]], list[list[Any]]]:
    """Both levels in another unit, or with other distances along z."""

    def changed(name: str, scale: float, offset: float, _: object) -> list[Any]:
        times = taller if name == "z" else 1
        return [name, scale * times, offset * times, unit]

    return [changed(*axis) for axis in BASE], [changed(*axis) for axis in LEVEL]


TALL = cosem(([44, 4, 4], [0, 0, 0]), ([88, 8, 8], [22, 2, 2]))
MICRON = {"pixelResolution": {"dimensions": [4, 4, 40], "unit": "micron"}}
OTHER = {"spatialTransform": {"transform": {"type": "scale", "scale": [1, 1, 1]}, "unit": "nm"}}

BROKEN = {
    "cosem alone": Broken(sample=Sample(levels=MOVED), disagree="neuroglancer"),
    "n5-viewer alone": Broken(sample=Sample(levels=N5_VIEWER), disagree="neuroglancer"),
    "too few factors": Broken(
        sample=Sample(group=GROUP | {"downsamplingFactors": [[1, 1, 1]]}, levels=MOVED),
        disagree="neuroglancer",
    ),
    "a group alone": Broken(
        sample=Sample(group=GROUP | FACTORS, levels=[{}, {}]), disagree="n5_universe"
    ),
    "a unit by another name": Broken(
        sample=Sample(
            group=NAMES | SIZE | FACTORS | {"units": ["micron"] * 3},
            levels=[{**MICRON, "downsamplingFactors": [f] * 3} for f in (1, 2)],
        ),
        disagree="neuroglancer",
        axes=_in("micron"),
    ),
    "two truths, cosem's": Broken(
        sample=Sample(group=GROUP | FACTORS, levels=TALL),
        disagree="neuroglancer",
        dialect="cosem",
        axes=_in("nm", 1.1),
    ),
    "two truths, neuroglancer's": Broken(
        sample=Sample(group=GROUP | FACTORS, levels=TALL),
        disagree="xarray_n5 n5_universe",
        dialect="neuroglancer",
    ),
    "null": Broken(
        sample=Sample(levels=[n | NAMES | {"resolution": None} for n in N5_VIEWER]),
        disagree="neuroglancer",
    ),
    "ome-ngff in n5": Broken(
        sample=Sample(group=ngff("nm"), levels=[{}, {}]), disagree="neuroglancer"
    ),
    "abbreviated units in zarr": Broken(sample=IN_ZARR, disagree="neuroglancer"),
    "a dialect that is not written": Broken(
        sample=Sample(group=GROUP | FACTORS, levels=[n | OTHER for n in MOVED]),
        disagree="",
        dialect="cosem",
        removed=("spatialTransform",),
    ),
}
"""Containers in which programs disagree, and on what they are to agree."""


@pytest.mark.matrix(3)
@pytest.mark.parametrize("name", BROKEN)
def test_a_repair_makes_all_programs_agree(tmp_path: Path, name: str) -> None:
    broken = BROKEN[name]
    url = write(tmp_path, broken.sample)
    before = contents(url)
    options = () if broken.dialect is None else ("--dialect", broken.dialect)
    shown = run(url, *options, "--fix", "--dry-run")
    (dry,) = examined(url, dialect=broken.dialect, dry_run=True, fix=True)
    assert set(dry.reader[~dry.agrees].values.tolist()) == set(broken.disagree.split())
    assert all(dry.reason[~dry.agrees].values)
    assert contents(url) == before
    for sign, values in (("+", dry.attrs["changes"]), ("-", dry.attrs["replaced"])):
        for path, changes in values.items():
            assert f"    {path}:\n" in shown.output
            lines = [f"      {sign} {k}: {json.dumps(v)}\n" for k, v in changes.items() if v]
            assert all(line in shown.output for line in lines)

    done = run(url, *options, "--fix")
    assert (shown.exit_code, done.exit_code, run(url).exit_code) == (1, 0, 0)
    changes = shown.output.partition("\n    raw")[2]
    assert changes
    assert done.output.endswith(changes)
    after = contents(url)
    changed = {Path(path).name for path in before if before[path] != after.get(path)}
    assert before.keys() <= after.keys()
    assert changed <= {"attributes.json", ".zattrs"}
    (fixed,) = examined(url, fix=True)
    assert (fixed.attrs["changes"], contents(url)) == ({}, after)
    for level, expected in enumerate(broken.axes):
        axes = axes_of(fixed, "xarray_n5", level)
        assert axes is not None
        for axis, facts in zip(axes, expected, strict=True):
            assert (axis[0], axis[3]) == (facts[0], facts[3])
            assert axis[1:3] == pytest.approx(facts[1:3])
    group = open_group(url, "raw")
    assert all(n.attrs["mine"] == {"kept": [1, "a", None]} for n in [group, *group.values()])
    gone = {k for change in dry.attrs["changes"].values() for k, v in change.items() if v is None}
    assert gone == set(broken.removed)


def test_contradicting_dialects_are_not_repaired_without_a_choice(tmp_path: Path) -> None:
    url = write(tmp_path, BROKEN["two truths, cosem's"].sample)
    before = contents(url)
    result = run(url, "--fix")
    assert result.exit_code == 1
    assert "44 nm and 40 nm" in result.output
    assert contents(url) == before


@pytest.mark.parametrize("form", ["n5", "zarr2"])
def test_a_resolution_without_factors_does_not_contradict_offsets(
    tmp_path: Path, form: Any
) -> None:
    name = "a.n5" if form == "n5" else "a.zarr"
    pyramid(image_from(0), tmp_path / name, "raw", levels=1, dialect="cosem", format=form)
    result = run(tmp_path / name)
    assert (result.exit_code, "contradict" in result.output) == (0, False)


def ome_zarr(url: Path, paths: list[list[str]], *, version: str) -> Path:
    """Write images with the given levels, whose arrays have another scale by COSEM's metadata."""
    create_group(url, format="zarr3" if version == "0.5" else "zarr2")
    images = []
    for levels in paths:
        datasets = []
        for n, path in enumerate(levels):
            (attributes,) = cosem(([2.0 * 2**n] * 3, [(2**n - 1) / 2] * 3))
            create_array(url, path, shape=(16 >> n,) * 3, dtype="u1", attributes=attributes)
            scale = {"type": "scale", "scale": [2.0**n] * 3}
            datasets.append({"path": path, "coordinateTransformations": [scale]})
        axes = [{"name": name, "type": "space", "unit": "nanometer"} for name in "zyx"]
        images.append({"axes": axes, "datasets": datasets, "name": "kept", "type": "mean"})
    omero = {"channels": [{"label": "DAPI", "color": "00FF00"}]}
    attributes = {"multiscales": images, "omero": omero}
    if version == "0.5":
        attributes = {"ome": {"version": "0.5", **attributes}}
    else:
        images[0]["version"] = "0.4"
    open_group(url, mode="r+").attrs.update(attributes)
    return url


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_repair_keeps_what_no_dialect_writes(tmp_path: Path, version: str) -> None:
    url = ome_zarr(tmp_path / "a.zarr", [["s0", "s1"]], version=version)
    examine(url, fix=True, dialect="cosem")
    attributes = dict(open_group(url).attrs)
    attributes = attributes.get("ome", attributes)
    (image,) = attributes["multiscales"]
    assert (image["name"], image["type"]) == ("kept", "mean")
    assert attributes["omero"]["channels"][0]["label"] == "DAPI"
    assert image["datasets"][0]["coordinateTransformations"][0]["scale"] == [2.0] * 3


def test_what_cannot_be_repaired_is_not_touched(tmp_path: Path) -> None:
    twice = write(tmp_path, Sample(levels=[PIXELS | {"axes": ["x", "x", "z"]}]))
    two = ome_zarr(tmp_path / "b.zarr", [["s0", "s1"], ["lab0", "lab1"]], version="0.4")
    deep = ome_zarr(tmp_path / "c.zarr", [["scale0/image", "scale1/image"]], version="0.4")
    level = write(tmp_path / "d", Sample(group=GROUP | FACTORS, levels=[{}, {}]))
    for url, path, dialect in (
        (twice, "raw", None),
        *((two, "", "cosem"), (deep, "", "cosem")),
        (level, "raw/s1", None),
    ):
        before = contents(url)
        images = list(examined(url, path, dialect=dialect, fix=True))
        assert all(image.attrs["obstacle"] for image in images)
        assert contents(url) == before


# The command


def test_the_command_prints_a_table(tmp_path: Path) -> None:
    url = write(tmp_path, Sample(group=GROUP | FACTORS, levels=TALL))
    lines = run(url).output.splitlines()
    assert lines[0] == "raw  n5, 8 x 16 x 24, levels s0, s1"
    (differs,) = (line for line in lines if "differs" in line)
    assert "z 40 nm, y 4 nm, x 4 nm  (axes, units, resolution)" in differs
    assert any("Neuroglancer: s0: scale of z is 40 nm" in line for line in lines)


def test_arrays_without_axes_are_said_to_have_none() -> None:
    result = run(DATA / "java-2.5.1.n5", "missing2d")
    assert "no attribute describes its axes" in result.output
    assert result.exit_code == 0


def test_projects_of_ours_are_not_damaged(tmp_path: Path) -> None:
    tiles = image_from(0).expand_dims(channel=2, tile=2)
    tiles.n5.to_bdv(tmp_path / "stack.xml")
    assert "damage" not in run(tmp_path / "stack.xml").output
    assert len(list(examined(tmp_path / "stack.xml"))) == 4


def test_invalid_attributes_never_raise(tmp_path: Path) -> None:
    url = write(tmp_path, Sample(group=GROUP | FACTORS, levels=[{}, {}]))
    invalid = {"pixelResolution": {"dimensions": ["a", 4, 4], "unit": "nm"}}
    open_array(url, "raw/s0", mode="r+").attrs.update(invalid)
    assert isinstance(run(url).exception, SystemExit)
